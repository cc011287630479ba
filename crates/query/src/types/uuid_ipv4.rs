//! UUID and IPV4 as types of their own, different from the types that store them.
//!
//! - No operator and no function takes one for the number, or the bytes, that it is stored as: they
//!   are compared with values of their own type, joined to texts as text, and counted; anything
//!   else is an error.
//! - uuid_ipv4-1. No list contains them: types of lists do not keep the name of their elements'
//!   type. `x = ANY (list)` is a comparison with each element (`pg_catalog::lists`).
//! - An expression that returns one of several values (CASE, `coalesce`, ...) of such a type is of
//!   that type.
//! - uuid_ipv4-2. So is an open parameter beside one, for which DataFusion takes the type that
//!   stores it.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, Like, Placeholder, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Union, Volatility, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use tidegate_model::{Column, ColumnId, ColumnType};
use tidegate_storage::segment::{arrow_field, arrow_type};

use super::casts::{OnBadText, special_cast};
use super::intervals;
use super::literal::type_of;
use crate::error::{ClauseProblem, Error};
use crate::names::NAME_KEY;
use crate::types::coercion::as_type_of;
use crate::types::expression_type::{gives_one, is_special, results, type_in};

/// Aggregates and window functions that take values of any type unchanged.
const OF_ANY: [&str; 16] = [
    "count",
    "min",
    "max",
    "first",
    "last",
    "first_not_null",
    "last_not_null",
    "first_value",
    "last_value",
    "nth_value",
    "any_value",
    "approx_distinct",
    "grouping",
    "lag",
    "lead",
    "arrow_typeof",
];

/// Functions that join their arguments as texts.
const JOINS_TEXTS: [&str; 3] = ["concat", "concat_ws", "format"];
/// Functions that return values of any type inside of others.
const HOLDS: [&str; 3] = ["struct", "named_struct", "row"];
/// Functions that make lists of their arguments (uuid_ipv4-1).
const MAKE_LISTS: [&str; 2] = ["make_array", "array_agg"];

fn special(expr: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    type_in(expr, schema).filter(|ty| is_special(*ty))
}

/// Returns the type of an expression that returns one of several values, if one of those is a UUID
/// or an IPV4: DataFusion knows only the type that stores them.
fn type_of_one(expr: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    results(expr)?.into_iter().find_map(|result| special(result, schema))
}

/// Gives the open parameters among values the type of a UUID or an IPV4 among them, if there is one
/// (uuid_ipv4-2). The values are compared, or an expression returns one of them.
pub(crate) fn type_parameters<'e>(
    values: impl IntoIterator<Item = &'e mut Expr>,
    schema: &DFSchema,
) {
    let values = values.into_iter().collect::<Vec<_>>();
    if !values.iter().any(|value| matches!(value, Expr::Placeholder(_))) {
        return;
    }
    if let Some(ty) = values.iter().find_map(|value| special(value, schema)) {
        values.into_iter().for_each(|value| type_parameter(value, ty));
    }
}

/// Gives an open parameter this type. It may already have the type that stores it.
fn type_parameter(value: &mut Expr, ty: ColumnType) {
    if let Expr::Placeholder(Placeholder { field, .. }) = value
        && field.as_ref().is_none_or(|field| *field.data_type() == arrow_type(ty))
    {
        *field = Some(Arc::new(arrow_field(&Column { id: ColumnId(0), name: String::new(), ty })));
    }
}

pub(crate) fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

/// Checks both sides of an operator, of which a UUID or an IPV4 may be one.
pub(crate) fn operands(
    left: Expr,
    op: &BinaryOperator,
    right: Expr,
    schema: &DFSchema,
) -> Result<(Expr, Expr)> {
    let (left_type, right_type) = (special(&left, schema), special(&right, schema));
    if *op == BinaryOperator::StringConcat && [&left, &right].iter().all(|it| !is_list(it, schema))
    {
        return Ok((as_text(left, schema), as_text(right, schema)));
    }
    let Some(ty) = left_type.or(right_type) else { return Ok((left, right)) };
    let other = if left_type.is_some() { &right } else { &left };
    let is_known = left_type == right_type;
    // While a subquery is planned, the result of its CASE and similar expressions has only the type
    // that stores it.
    let is_alike = |expr: &Expr| match expr.to_field(schema) {
        Ok((_, field)) if *field.data_type() == DataType::Null => true,
        Ok((_, field)) => {
            let is_other = field.metadata().contains_key(NAME_KEY)
                || matches!(expr, Expr::Literal(..) | Expr::Cast(_) | Expr::TryCast(_));
            *field.data_type() == arrow_type(ty) && !is_other
        }
        Err(_) => true,
    };
    if is_comparison(op) && (is_known || left_type.xor(right_type).is_some() && is_alike(other)) {
        return Ok((left, right));
    }
    let name = |expr: &Expr| match (type_in(expr, schema), expr.get_type(schema)) {
        (Some(ty), _) => ty.sql(),
        (None, Ok(ty)) => ty.to_string(),
        (None, Err(_)) => "NULL".to_owned(),
    };
    let what = ClauseProblem::Operands {
        operator: op.to_string(),
        types: Box::new([name(&left), name(&right)]),
    };
    Err(what.into())
}

/// Returns an expression whose parts are planned, with its type; an error if it takes a UUID
/// or an IPV4 for a value of another type.
pub(crate) fn checked(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let refused = |function: &str, ty: ColumnType| {
        if MAKE_LISTS.contains(&function) {
            return Err(no_list());
        }
        Err(ClauseProblem::Argument { function: function.to_owned(), ty: ty.sql() }.into())
    };
    let first = |args: &[Expr]| args.iter().find_map(|arg| special(arg, schema));
    match expr {
        Expr::Like(Like { expr: ref text, case_insensitive, .. }) => match special(text, schema) {
            Some(ty) => refused(if case_insensitive { "ILIKE" } else { "LIKE" }, ty),
            None => Ok(Transformed::no(expr)),
        },
        Expr::SimilarTo(Like { expr: ref text, .. }) => match special(text, schema) {
            Some(ty) => refused("SIMILAR TO", ty),
            None => Ok(Transformed::no(expr)),
        },
        Expr::AggregateFunction(ref call) => match first(&call.params.args) {
            Some(ty) if !OF_ANY.contains(&call.func.name()) => refused(call.func.name(), ty),
            _ => Ok(Transformed::no(expr)),
        },
        Expr::WindowFunction(ref call) => match first(&call.params.args) {
            Some(ty) if !OF_ANY.contains(&call.fun.name()) => refused(call.fun.name(), ty),
            _ => Ok(Transformed::no(expr)),
        },
        Expr::ScalarFunction(call) => {
            let name = call.func.name();
            if JOINS_TEXTS.contains(&name) {
                let ScalarFunction { func, args } = call;
                let args = args.into_iter().map(|arg| as_joined_text(arg, schema)).collect();
                return Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })));
            }
            let Some(ty) = first(&call.args) else {
                return Ok(Transformed::no(Expr::ScalarFunction(call)));
            };
            if gives_one(name) {
                let ScalarFunction { func, args } = call;
                let args = unify(func.name(), args, ty, schema)?;
                let call = Expr::ScalarFunction(ScalarFunction { func, args });
                return Ok(Transformed::yes(typed(call, ty)));
            }
            // Names of ours that no query can write contain a space.
            let is_ours = name.contains(' ');
            if is_ours || OF_ANY.contains(&name) || HOLDS.contains(&name) {
                return Ok(Transformed::no(Expr::ScalarFunction(call)));
            }
            refused(name, ty)
        }
        Expr::Case(_) => {
            let Some(ty) = type_of_one(&expr, schema) else { return Ok(Transformed::no(expr)) };
            let Expr::Case(Case { expr, when_then_expr, else_expr }) = expr else {
                unreachable!("matched above")
            };
            let (whens, thens): (Vec<_>, Vec<_>) = when_then_expr.into_iter().unzip();
            let otherwise = else_expr.map(|it| unify("CASE", vec![*it], ty, schema)).transpose()?;
            let thens = thens.into_iter().map(|then| *then).collect();
            let thens = unify("CASE", thens, ty, schema)?;
            let case = Case {
                expr,
                when_then_expr: whens.into_iter().zip(thens.into_iter().map(Box::new)).collect(),
                else_expr: otherwise.and_then(|mut it| it.pop()).map(Box::new),
            };
            Ok(Transformed::yes(typed(Expr::Case(case), ty)))
        }
        expr => Ok(Transformed::no(expr)),
    }
}

/// Returns an error for a type of lists of them (uuid_ipv4-1).
pub(crate) fn check_no_list(field: &Field) -> Result<()> {
    let mut element = field;
    while let DataType::List(inner) | DataType::LargeList(inner) = element.data_type() {
        element = inner;
    }
    let is_list = !std::ptr::eq(element, field);
    if is_list && type_of(element).is_some_and(is_special) { Err(no_list()) } else { Ok(()) }
}

fn no_list() -> DataFusionError {
    let feature = "a list of UUID or IPV4 values (cast them to TEXT)";
    Error::NotSupported { position: None, feature }.into()
}

/// Returns an error for a UNION in which a column has a UUID or an IPV4 from one query and values
/// of another type from the next.
pub(crate) fn check_inputs(union: &Union) -> Result<()> {
    let inputs = &union.inputs;
    let columns = inputs.iter().map(|it| it.schema().fields().len()).min().unwrap_or_default();
    for at in 0..columns {
        let mut types = inputs.iter().filter_map(|input| type_of(input.schema().field(at)));
        let Some(first) = types.next() else { continue };
        let is_special = |ty| matches!(ty, ColumnType::Uuid | ColumnType::Ipv4);
        if let Some(other) = types.find(|&ty| ty != first && (is_special(ty) || is_special(first)))
        {
            let types = Box::new([first.sql(), other.sql()]);
            return Err(ClauseProblem::Operands { operator: "UNION".to_owned(), types }.into());
        }
    }
    Ok(())
}

/// Converts texts to values of this type, and gives it to open parameters; refuses other values
/// except NULL.
fn unify(
    function: &str,
    values: Vec<Expr>,
    ty: ColumnType,
    schema: &DFSchema,
) -> Result<Vec<Expr>> {
    let one = typed(lit(ScalarValue::Null), ty);
    let values = values.into_iter().map(|mut value| {
        type_parameter(&mut value, ty);
        as_type_of(value, &one, schema)
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let types = values.iter().filter_map(|value| value.get_type(schema).ok());
    let mut others = types.filter(|it| *it != DataType::Null && *it != arrow_type(ty));
    match others.next() {
        None => Ok(values),
        Some(other) => {
            let types = Box::new([ty.sql(), other.to_string()]);
            Err(ClauseProblem::Operands { operator: function.to_owned(), types }.into())
        }
    }
}

/// Returns the text of a UUID or an IPV4; other expressions unchanged.
fn as_text(expr: Expr, schema: &DFSchema) -> Expr {
    if intervals::is_length(&expr, schema) {
        return intervals::text(expr);
    }
    let is_other = |ty: &ColumnType| {
        matches!(
            ty,
            ColumnType::Uuid | ColumnType::Ipv4 | ColumnType::Timestamp(_) | ColumnType::Date
        )
    };
    let text = type_in(&expr, schema)
        .filter(is_other)
        .and_then(|ty| special_cast(&expr, ty, ColumnType::Varchar, OnBadText::Fail));
    text.unwrap_or(expr)
}

/// Returns the text of a BINARY too, as PostgreSQL's `concat` and `format` write it.
fn as_joined_text(expr: Expr, schema: &DFSchema) -> Expr {
    let text = type_in(&expr, schema)
        .filter(|ty| *ty == ColumnType::Binary)
        .and_then(|ty| special_cast(&expr, ty, ColumnType::Varchar, OnBadText::Fail));
    text.unwrap_or_else(|| as_text(expr, schema))
}

fn is_list(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|ty| ty.is_list())
}

/// An expression that is known to be of this type.
fn typed(expr: Expr, ty: ColumnType) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(Typed { ty, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Typed {
    ty: ColumnType,
    signature: Signature,
}

impl Typed {
    fn field(&self) -> Field {
        arrow_field(&Column { id: ColumnId(0), name: self.name().to_owned(), ty: self.ty })
    }
}

impl ScalarUDFImpl for Typed {
    fn name(&self) -> &'static str {
        if self.ty == ColumnType::Uuid { "is uuid" } else { "is ipv4" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field().data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(self.field()))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.remove(0))
    }
}
