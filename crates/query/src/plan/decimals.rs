//! Decimals next to numbers of other types: compared exactly, for constants with any number of
//! digits.
//!
//! - DE1. A constant is compared as it is written, as far as a DOUBLE can hold it: with more digits
//!   behind the point than the decimals have, it equals none of them, and lies between two.
//! - DE2. In arithmetic a constant is a decimal too, if it has few digits. Next to any other FLOAT
//!   or DOUBLE, a decimal is a DOUBLE.
//! - DE3. The same holds for values of an expression that returns one of them, and for those of a
//!   column of a UNION.
//! - DE4. A constant that is cast to a decimal has the digits that are written, and is rounded half
//!   away from zero: `1.005::DECIMAL(10, 2)` is 1.01, although the DOUBLE is less than 1.005.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, Union, cast};
use tidegate_model::ColumnType;
use tidegate_storage::segment::arrow_type;

use super::coerce::type_in;
use super::literal::{integer_of, type_of, value_of_text};

/// The maximal number of digits of a decimal.
const DIGITS_MAX: u32 = 38;
/// The maximal number of digits of a short constant: a DOUBLE holds them exactly, and results stay
/// small.
pub(super) const SHORT: usize = 15;

/// The position of a number among the decimals of a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It equals this decimal.
    At(i128),
    /// It lies between this decimal and the next.
    Behind(i128),
    BelowAll,
    AboveAll,
}

/// Returns `left op right`, if one of them is a decimal and the other a number of another type; the
/// types are theirs.
pub(super) fn compare(
    (left, left_type): (&Expr, Option<ColumnType>),
    op: Operator,
    (right, right_type): (&Expr, Option<ColumnType>),
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
            compare((right, right_type), op.swap()?, (left, left_type))
        }
        _ => None,
    }
}

/// Returns the decimal that equals a constant, for IN lists; `None` if there is none or it is no
/// constant.
pub(super) fn equal(value: &Expr, precision: u8, scale: u8) -> Option<Expr> {
    match within(place(&constant(value)?, scale), precision) {
        Place::At(value) => Some(literal(value, precision, scale)),
        _ => None,
    }
}

/// Returns a FLOAT or DOUBLE constant as the decimal of a type (DE4); `None` if it has none, or for
/// other expressions.
pub(super) fn of_constant(value: &Expr, to: ColumnType) -> Option<Expr> {
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
pub(super) fn operands(
    (left, left_type): (&Expr, Option<ColumnType>),
    (right, right_type): (&Expr, Option<ColumnType>),
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

/// Converts values of which an expression returns one to a common type (DE3).
pub(super) fn alike(values: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
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

/// Returns the type of an expression that returns one of these values, if they are numbers of
/// several types and one is no integer (DE3).
pub(super) fn type_of_one(values: &[(&Expr, Option<ColumnType>)]) -> Option<ColumnType> {
    let is_null = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.is_null());
    let values = values.iter().filter(|(expr, _)| !is_null(expr));
    let mut types = values
        .clone()
        .map(|(_, ty)| ty.filter(|&it| it.is_integer() || is_float(it) || is_decimal(it)))
        .collect::<Option<Vec<_>>>()?;
    if are_mixed(types.iter().map(|ty| Some(*ty))) {
        let decimals = values.zip(&types).map(|((value, _), ty)| match is_float(*ty) {
            true => type_of_decimal(&short_decimal(value)?),
            false => Some(*ty),
        });
        match decimals.collect::<Option<Vec<_>>>() {
            Some(decimals) => types = decimals,
            None => return Some(ColumnType::Float64),
        }
    }
    let float = [ColumnType::Float64, ColumnType::Float32].into_iter();
    if let Some(float) = float.into_iter().find(|float| types.contains(float)) {
        return Some(float);
    }
    if !types.iter().copied().any(is_decimal) {
        return None;
    }
    let digits = types.into_iter().map(digits);
    let (whole, scale) =
        digits.fold((0, 0), |(whole, scale), (more, finer)| (whole.max(more), scale.max(finer)));
    let precision = u32::from(whole + scale).min(DIGITS_MAX);
    Some(ColumnType::Decimal { precision: u8::try_from(precision).ok()?, scale })
}

/// Digits before and behind the point that the values of a number's type may have.
fn digits(ty: ColumnType) -> (u8, u8) {
    match ty {
        ColumnType::Decimal { precision, scale } => (precision.saturating_sub(scale), scale),
        ColumnType::Int8 | ColumnType::UInt8 => (3, 0),
        ColumnType::Int16 | ColumnType::UInt16 => (5, 0),
        ColumnType::Int32 | ColumnType::UInt32 => (10, 0),
        _ => (20, 0),
    }
}

fn type_of_decimal(expr: &Expr) -> Option<ColumnType> {
    let Expr::Literal(ScalarValue::Decimal128(_, precision, scale), _) = expr else { return None };
    let scale = u8::try_from(*scale).ok()?;
    Some(ColumnType::Decimal { precision: *precision, scale })
}

/// Converts values of which an expression returns one to the type that it has (DE3): DataFusion
/// takes the type of the first for it until all types are known.
pub(super) fn of_one_type(values: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    let values = alike(values, schema);
    let types = values.iter().map(|value| (value, type_in(value, schema))).collect::<Vec<_>>();
    let Some(to) = type_of_one(&types) else { return values };
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
pub(super) fn with_late_types(expr: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let BinaryExpr { left, op, right } = expr;
    let is_arithmetic = matches!(
        op,
        Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
    );
    if is_arithmetic || op.supports_propagation() {
        let types = (type_in(&left, schema), type_in(&right, schema));
        if is_arithmetic && let Some((left, right)) = operands((&left, types.0), (&right, types.1))
        {
            return Transformed::yes(binary(left, op, right));
        }
        if !is_arithmetic
            && are_mixed([types.0, types.1].into_iter())
            && let Some(compared) = compare((&left, types.0), op, (&right, types.1))
        {
            return Transformed::yes(compared);
        }
    }
    Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))
}

/// Converts the inputs of a UNION to a common type in each column (DE3).
pub(super) fn alike_inputs(union: Union) -> Result<Transformed<Union>> {
    let inputs = &union.inputs;
    let types = |at: usize| inputs.iter().map(move |input| type_of(input.schema().field(at)));
    let columns = inputs.iter().map(|it| it.schema().fields().len()).min().unwrap_or_default();
    let mixed = (0..columns).filter(|&at| are_mixed(types(at))).collect::<Vec<_>>();
    if mixed.is_empty() {
        return Ok(Transformed::no(union));
    }
    let with_doubles = |input: Arc<LogicalPlan>| {
        let columns = input.schema().columns().into_iter().enumerate().map(|(at, column)| {
            let is_decimal = type_of(input.schema().field(at)).is_some_and(is_decimal);
            let (relation, name) = (column.relation.clone(), column.name.clone());
            match is_decimal && mixed.contains(&at) {
                true => {
                    cast(Expr::Column(column), DataType::Float64).alias_qualified(relation, name)
                }
                false => Expr::Column(column),
            }
        });
        let columns = columns.collect::<Vec<_>>();
        LogicalPlanBuilder::from(input).project(columns)?.build().map(Arc::new)
    };
    let inputs = union.inputs.into_iter().map(with_doubles).collect::<Result<_>>()?;
    Ok(Transformed::yes(Union::try_new_with_loose_types(inputs)?))
}

fn are_mixed(types: impl Iterator<Item = Option<ColumnType>> + Clone) -> bool {
    types.clone().flatten().any(is_decimal) && types.flatten().any(is_float)
}

/// Returns a constant as a decimal of as many digits as it has, if they are few.
fn short_decimal(expr: &Expr) -> Option<Expr> {
    let text = constant(expr)?;
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let scale = u8::try_from(text.split_once('.').map_or(0, |(_, rest)| rest.len())).ok()?;
    match place(&text, scale) {
        Place::At(value) if digits <= SHORT => {
            let precision = u8::try_from(digits).expect("few");
            Some(literal(value, precision, scale))
        }
        _ => None,
    }
}

fn is_decimal(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Decimal { .. })
}

fn is_float(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Float32 | ColumnType::Float64)
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Returns the digits of a constant: `-12.5`.
fn constant(expr: &Expr) -> Option<String> {
    let Expr::Literal(value, _) = expr else { return None };
    match value {
        ScalarValue::Float64(Some(value)) => Some(value.to_string()),
        ScalarValue::Float32(Some(value)) => Some(value.to_string()),
        _ => integer_of(value).map(|value| value.to_string()),
    }
}

fn place(text: &str, scale: u8) -> Place {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let beyond = if is_negative { Place::BelowAll } else { Place::AboveAll };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        // NaN is greater than every number.
        return if digits == "inf" { beyond } else { Place::AboveAll };
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let kept = fraction.len().min(scale.into());
    let (fraction, rest) = fraction.split_at(kept);
    let is_exact = rest.bytes().all(|digit| digit == b'0');
    let zeros = "0".repeat(usize::from(scale) - kept);
    let Ok(value) = format!("{whole}{fraction}{zeros}").parse::<i128>() else { return beyond };
    if value >= 10_i128.pow(DIGITS_MAX) {
        return beyond;
    }
    match (is_exact, is_negative) {
        (true, false) => Place::At(value),
        (true, true) => Place::At(-value),
        (false, false) => Place::Behind(value),
        (false, true) => Place::Behind(-value - 1),
    }
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

/// Returns a constant of the decimals' own type.
fn literal(value: i128, precision: u8, scale: u8) -> Expr {
    let scale = i8::try_from(scale).expect("at most 38");
    Expr::Literal(ScalarValue::Decimal128(Some(value), precision, scale), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_a_place_among_decimals() {
        for (text, scale, expected) in [
            ("1.25", 2, Place::At(125)),
            ("1.25", 3, Place::At(1_250)),
            ("-1.25", 1, Place::Behind(-13)),
            ("1.25", 1, Place::Behind(12)),
            ("1.50", 1, Place::At(15)),
            ("7", 0, Place::At(7)),
            ("-0.1", 0, Place::Behind(-1)),
            ("100000000000000000000000000000000000000", 1, Place::AboveAll),
            ("-inf", 2, Place::BelowAll),
            ("NaN", 2, Place::AboveAll),
        ] {
            assert_eq!(place(text, scale), expected, "DE1: {text} {scale}");
        }
    }
}
