//! Decimal constants and the decimal types that fit them.
//!
//! Not here: comparisons and arithmetic of decimals (`types::decimals`).

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use tidegate_model::ColumnType;

use crate::types::literal::integer_of;

/// The maximal number of digits of a decimal.
pub(crate) const DIGITS_MAX: u8 = 38;

/// The maximal number of digits of a short constant: a DOUBLE holds them exactly, and results stay
/// small.
pub(crate) const SHORT: usize = 15;

/// All integers up to this are FLOATs.
const FLOAT_WHOLE: u128 = 1 << 24;

/// The position of a number among the decimals of a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It equals this decimal.
    At(i128),
    /// It lies between this decimal and the next.
    Behind(i128),
    BelowAll,
    AboveAll,
}

/// Returns the type of an expression that returns one of these values, if they are numbers of
/// several types and one is no integer.
pub(crate) fn type_of_one(values: &[(&Expr, Option<ColumnType>)]) -> Option<ColumnType> {
    let is_null = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.is_null());
    let values = values.iter().filter(|(expr, _)| !is_null(expr));
    let mut types = values
        .clone()
        .map(|(_, ty)| ty.filter(|&it| it.is_integer() || is_float(it) || is_decimal(it)))
        .collect::<Option<Vec<_>>>()?;
    if are_mixed(types.iter().map(|ty| Some(*ty))) {
        let decimals = values.clone().zip(&types).map(|((value, _), ty)| match is_float(*ty) {
            true => type_of_decimal(&short_decimal(value)?),
            false => Some(*ty),
        });
        match decimals.collect::<Option<Vec<_>>>() {
            Some(decimals) => types = decimals,
            None => return Some(ColumnType::Float64),
        }
    }
    if types.contains(&ColumnType::Float32)
        && values.zip(&types).any(|((value, _), ty)| is_beyond_float(value, *ty))
    {
        return Some(ColumnType::Float64);
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
    let precision = u32::from(whole + scale).min(DIGITS_MAX.into());
    Some(ColumnType::Decimal { precision: u8::try_from(precision).ok()?, scale })
}

/// Digits before and behind the point that the values of a number's type may have.
pub(crate) fn digits(ty: ColumnType) -> (u8, u8) {
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

pub(crate) fn are_mixed(types: impl Iterator<Item = Option<ColumnType>> + Clone) -> bool {
    types.clone().flatten().any(is_decimal) && types.flatten().any(is_float)
}

/// Returns a constant as a decimal of as many digits as it has, if they are few.
pub(crate) fn short_decimal(expr: &Expr) -> Option<Expr> {
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

pub(crate) fn is_decimal(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Decimal { .. })
}

/// Returns true for integers that a FLOAT may not hold: it has 24 bits.
pub(crate) fn is_beyond_float(expr: &Expr, ty: ColumnType) -> bool {
    if let Expr::Literal(value, _) = expr {
        return integer_of(value).is_some_and(|value| FLOAT_WHOLE < value.unsigned_abs());
    }
    is_wide_integer(ty)
}

/// Returns true for integers of 32 bits or more.
pub(crate) fn is_wide_integer(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Int32 | ColumnType::UInt32 | ColumnType::Int64 | ColumnType::UInt64)
}

pub(crate) fn is_float(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Float32 | ColumnType::Float64)
}

/// Returns the digits of a constant: `-12.5`.
pub(crate) fn constant(expr: &Expr) -> Option<String> {
    let Expr::Literal(value, _) = expr else { return None };
    match value {
        ScalarValue::Float64(Some(value)) => Some(value.to_string()),
        ScalarValue::Float32(Some(value)) => Some(value.to_string()),
        _ => integer_of(value).map(|value| value.to_string()),
    }
}

pub(crate) fn place(text: &str, scale: u8) -> Place {
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
    if value >= 10_i128.pow(DIGITS_MAX.into()) {
        return beyond;
    }
    match (is_exact, is_negative) {
        (true, false) => Place::At(value),
        (true, true) => Place::At(-value),
        (false, false) => Place::Behind(value),
        (false, true) => Place::Behind(-value - 1),
    }
}

/// Returns a constant of the decimals' own type.
pub(crate) fn literal(value: i128, precision: u8, scale: u8) -> Expr {
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
            assert_eq!(place(text, scale), expected, "decimals-1: {text} {scale}");
        }
    }
}
