//! Open parameters, without a value and without a type, while a statement is described.
//!
//! - An operator or a table function gives them the type of its signature, so that the statement
//!   can be planned: Null is no operand of `||`, and no argument of `generate_series`.
//! - The plan of a table function has a filter over its rows, whose condition names the parameters
//!   with their types: a function's own arguments are not in the plan.
//!
//! Not here: the arguments of other functions, which are planned without types (`describe`).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalMonthDayNano};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder, TableSource, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::error::ClauseProblem;
use crate::functions::signatures::{
    Kind, Resolution, Slot, is_open, kind_in, open_parameters, resolve,
};
use crate::types::expression_type::type_in;

/// Returns the sides of an operator. An open parameter among them has the type that the operator
/// gives it, if that is not simply the type of the other side.
pub(super) fn with_operand_types(
    left: Expr,
    op: &BinaryOperator,
    right: Expr,
    schema: &DFSchema,
) -> Result<(Expr, Expr)> {
    if !is_open(&left) && !is_open(&right) {
        return Ok((left, right));
    }
    let name = match op {
        BinaryOperator::And | BinaryOperator::Or => {
            let boolean = Kind::Boolean.field();
            return Ok((typed(left, boolean.clone()), typed(right, boolean)));
        }
        BinaryOperator::StringConcat => {
            let field = Some(joined(&left, &right, schema));
            return Ok((typed(left, field.clone()), typed(right, field)));
        }
        BinaryOperator::Plus => "+",
        BinaryOperator::Minus => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::Modulo => "%",
        BinaryOperator::PGBitwiseShiftLeft => "<<",
        BinaryOperator::PGBitwiseShiftRight => ">>",
        _ => return Ok((left, right)),
    };
    match resolve(name, &[kind_in(&left, schema), kind_in(&right, schema)]) {
        Resolution::One([of_left, of_right]) => {
            let of_left = of_operator(*of_left, &right, schema);
            let of_right = of_operator(*of_right, &left, schema);
            Ok((typed(left, of_left), typed(right, of_right)))
        }
        Resolution::Ambiguous if is_plain(&left, schema) && is_plain(&right, schema) => {
            let types = Box::new([shown(&left, schema), shown(&right, schema)]);
            Err(ClauseProblem::AmbiguousOperator { operator: op.to_string(), types }.into())
        }
        _ => Ok((left, right)),
    }
}

/// Returns the type that an operator gives to an operand; `None` if the other one has it.
/// DataFusion then infers that, with its digits and its unit.
fn of_operator(slot: Slot, other: &Expr, schema: &DFSchema) -> Option<FieldRef> {
    let Slot::Of(kind) = slot else { return None };
    let has_it = other.get_type(schema).is_ok_and(|ty| Kind::of(&ty) == kind);
    kind.field().filter(|_| !has_it)
}

/// Returns the type of the operands of `||`: bytes, or lists, are joined to others, and anything
/// else to a text.
fn joined(left: &Expr, right: &Expr, schema: &DFSchema) -> FieldRef {
    let of = |side: &Expr| {
        let ty = side.get_type(schema).ok()?;
        matches!(Kind::of(&ty), Kind::Bytes | Kind::List).then_some(ty)
    };
    let ty = of(left).or_else(|| of(right)).unwrap_or(DataType::Utf8);
    Arc::new(Field::new("", ty, true))
}

/// Returns true for an operand that has a type, or for which a client can give one.
fn is_plain(side: &Expr, schema: &DFSchema) -> bool {
    kind_in(side, schema).is_some() || is_open(side) || matches!(side, Expr::Literal(..))
}

fn shown(side: &Expr, schema: &DFSchema) -> String {
    match (kind_in(side, schema), type_in(side, schema), side.get_type(schema)) {
        (None, ..) | (_, None, Err(_)) => "unknown".to_owned(),
        (_, Some(ty), _) => ty.sql(),
        (_, None, Ok(ty)) => ty.to_string(),
    }
}

fn typed(expr: Expr, field: Option<FieldRef>) -> Expr {
    match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            Expr::Placeholder(Placeholder { id, field })
        }
        other => other,
    }
}

/// The arguments of a table function, in which examples stand for parameters.
pub(super) struct TableArguments {
    pub(super) args: Vec<Expr>,
    /// The parameters among them, with their types.
    parameters: Vec<Expr>,
}

impl TableArguments {
    pub(super) fn of(name: &str, args: Vec<Expr>) -> TableArguments {
        let schema = DFSchema::empty();
        let types = open_parameters(name, &args, &schema);
        let type_of = |arg: &Expr| match arg {
            Expr::Placeholder(Placeholder { id, field: None }) => {
                let found = types.iter().find(|(known, _)| known == id);
                found.map(|(_, field)| field.data_type().clone())
            }
            other => other.get_type(&schema).ok(),
        };
        let has_parameter = |arg: &Expr| {
            arg.exists(|part| Ok(matches!(part, Expr::Placeholder(_)))).unwrap_or(false)
        };
        let with_example = |arg: Expr| {
            let ty = if has_parameter(&arg) { type_of(&arg) } else { None };
            ty.and_then(|ty| example(&ty)).map_or(arg, lit)
        };
        let args = args.into_iter().map(with_example).collect();
        let parameter = |(id, field)| Expr::Placeholder(Placeholder { id, field: Some(field) });
        TableArguments { args, parameters: types.into_iter().map(parameter).collect() }
    }

    /// Returns the rows of the function, with the parameters in the condition of a filter.
    pub(super) fn named_in(
        self,
        name: &str,
        rows: Arc<dyn TableSource>,
    ) -> Result<Arc<dyn TableSource>> {
        if self.parameters.is_empty() {
            return Ok(rows);
        }
        let mut plan = LogicalPlanBuilder::scan(name, rows, None)?;
        for parameter in self.parameters {
            plan = plan.filter(parameter.is_not_null())?;
        }
        Ok(provider_as_source(Arc::new(ViewTable::new(plan.build()?, None))))
    }
}

/// Returns a value of a type that an argument of a table function can have.
fn example(ty: &DataType) -> Option<ScalarValue> {
    Some(match Kind::of(ty) {
        Kind::Int2 | Kind::Int4 | Kind::Int8 => ScalarValue::Int64(Some(1)),
        Kind::Date | Kind::Timestamp => ScalarValue::TimestampMicrosecond(Some(0), None),
        Kind::Interval => {
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 1, 0)))
        }
        _ => return None,
    })
}
