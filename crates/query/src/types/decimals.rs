//! Decimals next to numbers of other types: compared exactly, for constants with any number of
//! digits.
//!
//! - decimals-1. A constant is compared as it is written, as far as a DOUBLE can hold it: with more
//!   digits behind the point than the decimals have, it equals none of them, and lies between two.
//! - In arithmetic a constant is a decimal too, if it has few digits. Next to any other FLOAT or
//!   DOUBLE, a decimal is a DOUBLE.
//! - The same holds for values of an expression that returns one of them, and for those of a column
//!   of UNION, INTERSECT and EXCEPT.
//! - A constant that is cast to a decimal has the digits that are written, and is rounded half away
//!   from zero: `1.005::DECIMAL(10, 2)` is 1.01, although the DOUBLE is less than 1.005.
//! - A cast to DECIMAL without a precision keeps the digits of a constant with a fraction, of a
//!   text and of a decimal; other values have `ANY_DIGITS`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{
    Distinct, Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Union, cast,
};
use tidegate_model::ColumnType;
use tidegate_storage::segment::arrow_type;

use super::literal::{type_of, value_of_text};
use crate::types::coercion::text_of;
use crate::types::decimal_constants::{
    DIGITS_MAX, Place, are_mixed, constant, is_decimal, is_float, is_wide_integer, literal, place,
    short_decimal, type_of_one,
};
use crate::types::expression_type::{common_of_one, common_time_or_integer, type_in};

/// The key of a DECIMAL without a precision in the metadata of the field that a cast is to.
pub(crate) const ANY_DIGITS_KEY: &str = "tidegate.any_digits";

/// The type of a cast to DECIMAL without a precision: a DOUBLE has 15 digits.
pub(crate) const ANY_DIGITS: ColumnType = ColumnType::Decimal { precision: 38, scale: 15 };

/// Returns true for a cast to DECIMAL without a precision.
pub(crate) fn has_any_digits(field: &Field) -> bool {
    field.metadata().contains_key(ANY_DIGITS_KEY)
}

/// Returns the type of such a cast of a value; `None` if that is a decimal already.
pub(crate) fn with_any_digits(value: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    let text = text_of(value).map(str::to_owned).or_else(|| float_text(value));
    match text {
        Some(text) => Some(type_of_digits(&text).unwrap_or(ANY_DIGITS)),
        None => match type_in(value, schema) {
            Some(ColumnType::Decimal { .. }) => None,
            _ => Some(ANY_DIGITS),
        },
    }
}

/// Returns the type that has the digits of a number and no more.
fn type_of_digits(text: &str) -> Option<ColumnType> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches(['+', '-']).trim_start_matches('0');
    let is_number = [whole, fraction].iter().all(|it| it.bytes().all(|it| it.is_ascii_digit()));
    let precision = u8::try_from(whole.len() + fraction.len()).ok()?.max(1);
    let scale = u8::try_from(fraction.len()).ok()?;
    let ty = ColumnType::Decimal { precision, scale };
    (is_number && precision <= DIGITS_MAX).then_some(ty)
}

/// Returns `left op right`, if one of them is a decimal and the other a number of another type; the
/// types are theirs.
pub(crate) fn compare(
    left: &Expr,
    left_type: Option<ColumnType>,
    op: Operator,
    right: &Expr,
    right_type: Option<ColumnType>,
) -> Option<Expr> {
    match (left_type?, right_type?) {
        (ColumnType::Decimal { precision, scale }, other) if !is_decimal(other) => {
            match constant(right) {
                Some(text) => {
                    let place = within(place(&text, scale), precision);
                    Some(with_constant(left, op, place, precision, scale))
                }
                None if is_float(other) => {
                    Some(binary(cast(left.clone(), DataType::Float64), op, right.clone()))
                }
                None => None,
            }
        }
        (other, ColumnType::Decimal { .. }) if !is_decimal(other) => {
            compare(right, right_type, op.swap()?, left, left_type)
        }
        _ => None,
    }
}

/// Returns the decimal that equals a constant, for IN lists; `None` if there is none or it is no
/// constant.
pub(crate) fn equal(value: &Expr, precision: u8, scale: u8) -> Option<Expr> {
    match within(place(&constant(value)?, scale), precision) {
        Place::At(value) => Some(literal(value, precision, scale)),
        _ => None,
    }
}

/// Returns a FLOAT or DOUBLE constant as the decimal of a type; `None` if it has none, or for
/// other expressions.
pub(crate) fn of_constant(value: &Expr, to: ColumnType) -> Option<Expr> {
    let ColumnType::Decimal { .. } = to else { return None };
    let decimal = value_of_text(&float_text(value)?, to)?.ok()?;
    Some(Expr::Literal(decimal, None))
}

/// Returns the digits of a FLOAT or DOUBLE constant.
fn float_text(value: &Expr) -> Option<String> {
    match value {
        // `1.005::DOUBLE` is the constant itself.
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 => match &*cast.expr {
            value @ Expr::Literal(ScalarValue::Float64(_), _) => constant(value),
            _ => None,
        },
        Expr::Negative(inner) => match float_text(inner)? {
            text if text.starts_with('-') => None,
            text => Some(format!("-{text}")),
        },
        Expr::Literal(ScalarValue::Float64(_) | ScalarValue::Float32(_), _) => constant(value),
        _ => None,
    }
}

/// Converts both sides of an arithmetic operator, if one is a decimal and the other a FLOAT or
/// DOUBLE: a constant becomes a decimal, and else the decimal a double.
pub(crate) fn operands(
    left: &Expr,
    left_type: Option<ColumnType>,
    right: &Expr,
    right_type: Option<ColumnType>,
) -> Option<(Expr, Expr)> {
    let (left_type, right_type) = (left_type?, right_type?);
    let is_mixed = is_decimal(left_type) && is_float(right_type)
        || is_float(left_type) && is_decimal(right_type);
    if !is_mixed {
        return None;
    }
    match (short_decimal(left), short_decimal(right)) {
        (Some(left), None) if is_float(left_type) => Some((left, right.clone())),
        (None, Some(right)) if is_float(right_type) => Some((left.clone(), right)),
        _ => {
            let double = |expr: &Expr| cast(expr.clone(), DataType::Float64);
            Some((double(left), double(right)))
        }
    }
}

/// Converts values of which an expression returns one to a common type.
pub(crate) fn unify(values: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    let types = values.iter().map(|value| type_in(value, schema)).collect::<Vec<_>>();
    if !are_mixed(types.iter().copied()) {
        return values;
    }
    let is = |ty: &Option<ColumnType>, what: fn(ColumnType) -> bool| ty.is_some_and(what);
    let short = |(value, ty): (&Expr, &Option<ColumnType>)| match is(ty, is_float) {
        true => short_decimal(value),
        false => Some(value.clone()),
    };
    if let Some(decimals) = values.iter().zip(&types).map(short).collect() {
        return decimals;
    }
    let double = |(value, ty): (Expr, &Option<ColumnType>)| match is(ty, is_decimal) {
        true => cast(value, DataType::Float64),
        false => value,
    };
    values.into_iter().zip(&types).map(double).collect()
}

/// Converts values of which an expression returns one to the type that it has: DataFusion
/// takes the type of the first for it until all types are known.
pub(crate) fn of_one_type(values: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    let values = unify(values, schema);
    let types = values.iter().map(|value| (value, type_in(value, schema))).collect::<Vec<_>>();
    let common = type_of_one(&types).or_else(|| common_of_one(&types));
    let Some(to) = common else { return values };
    let is_other = |(value, ty): &(&Expr, Option<ColumnType>)| {
        let is_null = matches!(value, Expr::Literal(value, _) if value.is_null());
        !is_null && *ty != Some(to)
    };
    let others = types.iter().map(is_other).collect::<Vec<_>>();
    let converted = |(value, is_other)| match is_other {
        true => cast(value, arrow_type(to)),
        false => value,
    };
    values.into_iter().zip(others).map(converted).collect()
}

/// Converts the sides of an operator whose types were not known when it was planned: a column of
/// a subquery may have become a decimal since.
pub(crate) fn with_late_types(expr: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let BinaryExpr { left, op, right } = expr;
    let is_arithmetic = matches!(
        op,
        Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
    );
    if is_arithmetic || op.supports_propagation() {
        let types = (type_in(&left, schema), type_in(&right, schema));
        if is_arithmetic && let Some((left, right)) = operands(&left, types.0, &right, types.1) {
            return Transformed::yes(binary(left, op, right));
        }
        if !is_arithmetic
            && are_mixed([types.0, types.1].into_iter())
            && let Some(compared) = compare(&left, types.0, op, &right, types.1)
        {
            return Transformed::yes(compared);
        }
    }
    Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))
}

/// Converts the inputs of a UNION to a common type in each column, where DataFusion has another
/// one, or has it only when the expressions above have been planned.
pub(crate) fn unify_inputs(union: Union) -> Result<Transformed<Union>> {
    let inputs = union.inputs.iter().map(Arc::as_ref).collect::<Vec<&LogicalPlan>>();
    let Some(common) = common_types(&inputs, union_type) else {
        return Ok(Transformed::no(union));
    };
    let inputs = union.inputs.into_iter();
    let inputs = inputs.map(|input| with_types(input, &common).map(Arc::new));
    let inputs = inputs.collect::<Result<_>>()?;
    Ok(Transformed::yes(Union::try_new_with_loose_types(inputs)?))
}

/// As [`unify_inputs`], for the sides of INTERSECT and EXCEPT, and for numbers of any types:
/// DataFusion compares them in a common type, but leaves the column the type of the left side.
pub(crate) fn unify_sides(join: Join) -> Result<Join> {
    let (mut left, mut right) = (join.left, join.right);
    if let Some(common) = common_types(&[left.as_ref(), right.as_ref()], side_type) {
        // Rows that differ in one type may be equal in the other one.
        left = Arc::new(match left.as_ref() {
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let input = Arc::new(with_types(Arc::clone(input), &common)?);
                LogicalPlan::Distinct(Distinct::All(input))
            }
            _ => with_types(Arc::clone(&left), &common)?,
        });
        right = Arc::new(with_types(right, &common)?);
    }
    Join::try_new(
        left,
        right,
        join.on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )
}

/// Returns true for INTERSECT and EXCEPT, which DataFusion plans as joins. No other syntax makes a
/// join in which NULL equals NULL, until it is optimized.
pub(crate) fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
}

/// Returns the common type of each column of inputs, where they have several; `None` if all have
/// one.
fn common_types(
    inputs: &[&LogicalPlan],
    common: fn(&[&Arc<Field>]) -> Option<ColumnType>,
) -> Option<Vec<Option<ColumnType>>> {
    let count = inputs.iter().map(|it| it.schema().fields().len()).min().unwrap_or_default();
    let fields = |at: usize| inputs.iter().map(|it| it.schema().field(at)).collect::<Vec<_>>();
    let common = (0..count).map(|at| common(&fields(at))).collect::<Vec<_>>();
    common.iter().any(Option::is_some).then_some(common)
}

/// Returns an input with these types of its columns, and the names it has.
fn with_types(input: Arc<LogicalPlan>, common: &[Option<ColumnType>]) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter().enumerate().map(|(at, column)| {
        let field = input.schema().field(at);
        let to = common.get(at).copied().flatten().filter(|to| type_of(field) != Some(*to));
        let (relation, name) = (column.relation.clone(), column.name.clone());
        match to.filter(|_| !field.data_type().is_null()) {
            Some(to) => cast(Expr::Column(column), arrow_type(to)).alias_qualified(relation, name),
            None => Expr::Column(column),
        }
    });
    let columns = columns.collect::<Vec<_>>();
    LogicalPlanBuilder::from(input).project(columns)?.build()
}

/// Returns the common type of a column of inputs, if they have several.
fn union_type(fields: &[&Arc<Field>]) -> Option<ColumnType> {
    let types = types_of(fields)?;
    let first = *types.first()?;
    if types.iter().all(|ty| *ty == first) {
        return None;
    }
    let has = |is: fn(ColumnType) -> bool| types.iter().copied().any(is);
    if has(is_decimal) && has(is_float)
        || has(is_wide_integer) && types.contains(&ColumnType::Float32)
    {
        return Some(ColumnType::Float64);
    }
    common_time_or_integer(&types)
}

/// Returns the common type of a column of INTERSECT or EXCEPT, if its sides have several: a float
/// beside any number, and a decimal beside an integer.
fn side_type(fields: &[&Arc<Field>]) -> Option<ColumnType> {
    let common = union_type(fields);
    if common.is_some() {
        return common;
    }
    let types = types_of(fields)?;
    let (first, others) = types.split_first()?;
    let is_number = |ty: &ColumnType| ty.is_integer() || is_float(*ty) || is_decimal(*ty);
    let has_float = types.iter().any(|ty| is_float(*ty));
    let is_mixed = has_float || types.iter().any(|ty| is_decimal(*ty) != is_decimal(*first));
    if !types.iter().all(is_number) || !is_mixed || others.iter().all(|ty| ty == first) {
        return None;
    }
    let common = others.iter().try_fold(arrow_type(*first), |common, ty| {
        type_union_coercion(&common, &arrow_type(*ty))
    })?;
    type_of(&Field::new("", common, true))
}

/// Returns the types of fields, without those of NULL; `None` if one is no type of a column.
fn types_of(fields: &[&Arc<Field>]) -> Option<Vec<ColumnType>> {
    let fields = fields.iter().filter(|field| !field.data_type().is_null());
    fields.map(|field| type_of(field)).collect()
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Returns the position among decimals of so many digits.
fn within(place: Place, precision: u8) -> Place {
    let end = 10_i128.pow(precision.into());
    match place {
        Place::At(value) | Place::Behind(value) if end <= value => Place::AboveAll,
        Place::At(value) | Place::Behind(value) if value <= -end => Place::BelowAll,
        place => place,
    }
}

fn with_constant(decimal: &Expr, op: Operator, place: Place, precision: u8, scale: u8) -> Expr {
    // True, and NULL for NULL.
    let always = || binary(decimal.clone(), Operator::Eq, decimal.clone());
    let never = || binary(decimal.clone(), Operator::NotEq, decimal.clone());
    let is_less = matches!(op, Operator::Lt | Operator::LtEq);
    let is_more = matches!(op, Operator::Gt | Operator::GtEq);
    match place {
        Place::At(value) => binary(decimal.clone(), op, literal(value, precision, scale)),
        Place::Behind(value) if is_less => {
            binary(decimal.clone(), Operator::LtEq, literal(value, precision, scale))
        }
        Place::Behind(value) if is_more => {
            binary(decimal.clone(), Operator::Gt, literal(value, precision, scale))
        }
        Place::AboveAll if is_less => always(),
        Place::BelowAll if is_more => always(),
        _ if op == Operator::NotEq => always(),
        _ => never(),
    }
}
