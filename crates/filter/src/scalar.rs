//! Single values and their operations: comparison, arithmetic, casts.
//!
//! - scalar-1. A FLOAT is kept as a DOUBLE; after each operation it is rounded again, which for
//!   `+ - * / %` of two FLOATs gives the result of the operation on FLOATs.
//! - scalar-2. `order_key` is monotone: keys of floats compare by ir-3, and each NaN has `NAN_KEY`.
//!
//! These functions are exact and slow: tests compare the kernels and the compiled code with them.

use std::borrow::Cow;
use std::cmp::Ordering;

use tidegate_model::types::Physical;
use tidegate_model::{ColumnType, TimeUnit, Value};

use crate::error::{Error, Result};
use crate::ir::{ArithmeticOp, integer_range};

/// The value of a row, or of a part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bit(bool),
    Integer(i128),
    Float(f64),
    Bytes(Cow<'a, [u8]>),
    Fixed16([u8; 16]),
}

/// The key of every NaN: the bits of the NaN that is stored.
pub(crate) const NAN_KEY: i128 = 0x7FF8_0000_0000_0000;

impl<'a> Scalar<'a> {
    pub(crate) fn of(value: &'a Value) -> Scalar<'a> {
        match value {
            Value::Null => Scalar::Null,
            Value::Bit(bit) => Scalar::Bit(*bit),
            Value::Integer(value) => Scalar::Integer(*value),
            Value::Float(value) => Scalar::Float(*value),
            Value::Bytes(bytes) => Scalar::Bytes(Cow::Borrowed(bytes)),
            Value::Fixed16(bytes) => Scalar::Fixed16(*bytes),
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Scalar::Null => Value::Null,
            Scalar::Bit(bit) => Value::Bit(bit),
            Scalar::Integer(value) => Value::Integer(value),
            Scalar::Float(value) => Value::Float(value),
            Scalar::Bytes(bytes) => Value::Bytes(bytes.into_owned()),
            Scalar::Fixed16(bytes) => Value::Fixed16(bytes),
        }
    }

    /// The value of a BOOLEAN; `None` for NULL.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self {
            Scalar::Bit(bit) => Some(*bit),
            _ => None,
        }
    }

    /// Compares two values of one type; `None` if one of them is NULL.
    pub(crate) fn compare(&self, other: &Scalar<'_>) -> Option<Ordering> {
        match (self, other) {
            (Scalar::Bit(a), Scalar::Bit(b)) => Some(a.cmp(b)),
            (Scalar::Integer(a), Scalar::Integer(b)) => Some(a.cmp(b)),
            (Scalar::Float(a), Scalar::Float(b)) => Some(float_key(*a).cmp(&float_key(*b))),
            (Scalar::Bytes(a), Scalar::Bytes(b)) => Some(a.cmp(b)),
            (Scalar::Fixed16(a), Scalar::Fixed16(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// A number with the order of the values of the type; `None` for text and NULL.
    pub(crate) fn order_key(&self) -> Option<i128> {
        match self {
            Scalar::Bit(bit) => Some(i128::from(*bit)),
            Scalar::Integer(value) => Some(*value),
            Scalar::Float(value) => Some(float_key(*value)),
            Scalar::Fixed16(bytes) => Some(fixed16_key(*bytes)),
            Scalar::Null | Scalar::Bytes(_) => None,
        }
    }
}

/// The key of a float (scalar-2).
pub(crate) fn float_key(value: f64) -> i128 {
    if value.is_nan() {
        return NAN_KEY;
    }
    // The addition of 0.0 turns -0 into 0. Negative numbers have the sign bit, and grow as their
    // bits shrink.
    let bits = (value + 0.0).to_bits().cast_signed();
    i128::from(if bits < 0 { bits ^ i64::MAX } else { bits })
}

/// The float of a key; NaN for keys that no number has.
pub(crate) fn float_of_key(key: i128) -> f64 {
    let key = i64::try_from(key).unwrap_or(i64::MAX);
    f64::from_bits((if key < 0 { key ^ i64::MAX } else { key }).cast_unsigned())
}

/// A number with the order of sixteen bytes.
pub(crate) fn fixed16_key(bytes: [u8; 16]) -> i128 {
    (u128::from_be_bytes(bytes) ^ (1 << 127)).cast_signed()
}

/// An integer wrapped to the width of its type.
pub(crate) fn wrap(value: i128, ty: ColumnType) -> i128 {
    let shift = match ty.physical() {
        Physical::Signed(bytes) => 128 - u32::from(bytes) * 8,
        Physical::Unsigned(bytes) => {
            return value & ((1_i128 << (u32::from(bytes) * 8)) - 1);
        }
        _ => return value,
    };
    value << shift >> shift
}

/// A float rounded to its type (scalar-1).
#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
pub(crate) fn round(value: f64, ty: ColumnType) -> f64 {
    if ty == ColumnType::Float32 { f64::from(value as f32) } else { value }
}

/// The result of an operator on two numbers of type `ty` (ir-2).
pub(crate) fn calculate<'a>(
    op: ArithmeticOp,
    ty: ColumnType,
    left: &Scalar<'_>,
    right: &Scalar<'_>,
) -> Result<Scalar<'a>> {
    match (left, right) {
        (Scalar::Integer(left), Scalar::Integer(right)) => {
            calculate_integers(op, ty, *left, *right).map(Scalar::Integer)
        }
        (Scalar::Float(left), Scalar::Float(right)) => {
            Ok(Scalar::Float(round(calculate_floats(op, *left, *right), ty)))
        }
        _ => Ok(Scalar::Null),
    }
}

fn calculate_integers(op: ArithmeticOp, ty: ColumnType, left: i128, right: i128) -> Result<i128> {
    let result = match op {
        ArithmeticOp::Add => left + right,
        ArithmeticOp::Sub => left - right,
        // The magnitude of the product is below 2^128, but may reach 2^127: its low bytes are right
        // all the same.
        ArithmeticOp::Mul => left.wrapping_mul(right),
        ArithmeticOp::Div | ArithmeticOp::Rem if right == 0 => return Err(Error::DivideByZero),
        ArithmeticOp::Div => left / right,
        ArithmeticOp::Rem => left % right,
    };
    let wrapped = wrap(result, ty);
    if op == ArithmeticOp::Div && wrapped != result {
        return Err(Error::Overflow { left, right, ty });
    }
    Ok(wrapped)
}

fn calculate_floats(op: ArithmeticOp, left: f64, right: f64) -> f64 {
    match op {
        ArithmeticOp::Add => left + right,
        ArithmeticOp::Sub => left - right,
        ArithmeticOp::Mul => left * right,
        ArithmeticOp::Div => left / right,
        ArithmeticOp::Rem => left % right,
    }
}

/// Unary minus (ir-2).
pub(crate) fn negate<'a>(ty: ColumnType, value: &Scalar<'_>) -> Scalar<'a> {
    match value {
        Scalar::Integer(value) => Scalar::Integer(wrap(-value, ty)),
        Scalar::Float(value) => Scalar::Float(-value),
        _ => Scalar::Null,
    }
}

/// The number of time units in a day.
pub(crate) fn units_per_day(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Micros => 86_400_000_000,
        TimeUnit::Nanos => 86_400_000_000_000,
    }
}

/// Casts a value of type `from` to type `to`; an error if it is out of range (ir-2).
pub(crate) fn cast<'a>(from: ColumnType, to: ColumnType, value: Scalar<'a>) -> Result<Scalar<'a>> {
    let fitted = match value {
        Scalar::Null | Scalar::Bytes(_) | Scalar::Fixed16(_) => return Ok(value),
        Scalar::Bit(bit) => return Ok(cast_bit(bit, to)),
        Scalar::Integer(value) => cast_integer(from, to, value),
        Scalar::Float(value) => cast_float(to, value),
    };
    fitted.ok_or_else(|| Error::CastRange { value: value.into_value(), to })
}

fn cast_bit<'a>(bit: bool, to: ColumnType) -> Scalar<'a> {
    match to.physical() {
        Physical::Bit => Scalar::Bit(bit),
        Physical::Float32 | Physical::Float64 => Scalar::Float(f64::from(u8::from(bit))),
        _ => Scalar::Integer(i128::from(bit)),
    }
}

fn cast_integer<'a>(from: ColumnType, to: ColumnType, value: i128) -> Option<Scalar<'a>> {
    let converted = match (from, to) {
        (_, ColumnType::Boolean) => return Some(Scalar::Bit(value != 0)),
        // The integer is rounded once, directly: a detour by way of DOUBLE would round twice.
        (_, ColumnType::Float32) => return Some(Scalar::Float(f64::from(value as f32))),
        (_, ColumnType::Float64) => return Some(Scalar::Float(value as f64)),
        (ColumnType::Decimal { .. }, _) => value,
        (ColumnType::Timestamp(TimeUnit::Micros), ColumnType::Timestamp(TimeUnit::Nanos)) => {
            value * 1_000
        }
        // Arrow's cast rounds toward zero here, and toward the past for dates.
        (ColumnType::Timestamp(TimeUnit::Nanos), ColumnType::Timestamp(TimeUnit::Micros)) => {
            value / 1_000
        }
        (ColumnType::Timestamp(unit), ColumnType::Date) => value.div_euclid(units_per_day(unit)),
        (ColumnType::Date, ColumnType::Timestamp(unit)) => value * units_per_day(unit),
        _ => value,
    };
    let fits = integer_range(to).is_none_or(|(min, max)| min <= converted && converted <= max);
    fits.then_some(Scalar::Integer(converted))
}

fn cast_float<'a>(to: ColumnType, value: f64) -> Option<Scalar<'a>> {
    match to.physical() {
        Physical::Bit => Some(Scalar::Bit(value != 0.0)),
        Physical::Float32 | Physical::Float64 => Some(Scalar::Float(round(value, to))),
        _ => {
            let (min, max) = integer_range(to)?;
            // `as` saturates and turns NaN into 0, hence the check for finite values; 2^65 fits an
            // i128.
            let whole = value.round_ties_even();
            let fits = whole.is_finite() && whole.abs() < 4e19;
            #[expect(clippy::cast_possible_truncation, reason = "below 4e19 in magnitude")]
            let integer = if fits { whole as i128 } else { return None };
            (min <= integer && integer <= max).then_some(Scalar::Integer(integer))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float_keys_order_as_floats_and_lead_back() {
        let ascending = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.0,
            -f64::MIN_POSITIVE,
            -5e-324,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        for pair in ascending.windows(2) {
            assert!(float_key(pair[0]) < float_key(pair[1]), "scalar-2: {pair:?}");
        }
        for value in ascending {
            assert_eq!(float_of_key(float_key(value)).to_bits(), value.to_bits());
        }
        assert_eq!(float_key(-0.0), float_key(0.0), "ir-3");
        assert_eq!(float_key(-f64::NAN), float_key(f64::NAN), "ir-3");
    }

    #[test]
    fn casts_round_floats_half_to_even_and_refuse_what_does_not_fit() {
        let check = |value: Scalar<'static>, from, to, wanted: Option<i128>| {
            let given = cast(from, to, value).ok().and_then(|value| value.order_key());
            assert_eq!(given, wanted);
        };
        let (double, tiny, utiny) = (ColumnType::Float64, ColumnType::Int8, ColumnType::UInt8);
        check(Scalar::Float(-128.5), double, tiny, Some(-128));
        check(Scalar::Float(-128.6), double, tiny, None);
        check(Scalar::Float(127.5), double, tiny, None);
        check(Scalar::Float(127.4), double, tiny, Some(127));
        check(Scalar::Float(-0.5), double, utiny, Some(0));
        check(Scalar::Float(-0.6), double, utiny, None);
        check(Scalar::Float(2.5), double, tiny, Some(2));
        check(Scalar::Float(3.5), double, tiny, Some(4));
        check(Scalar::Float(f64::NAN), double, ColumnType::Int64, None);
        check(Scalar::Float(9.3e18), double, ColumnType::Int64, None);
        check(Scalar::Float(9.3e18), double, ColumnType::UInt64, Some(9_300_000_000_000_000_000));
        check(Scalar::Integer(300), ColumnType::Int64, tiny, None);
        let micros = ColumnType::Timestamp(TimeUnit::Micros);
        check(Scalar::Integer(-1), micros, ColumnType::Date, Some(-1));
        let nanos = ColumnType::Timestamp(TimeUnit::Nanos);
        check(Scalar::Integer(-1_999), nanos, micros, Some(-1));
        check(Scalar::Integer(i64::MAX.into()), micros, nanos, None);
    }

    #[test]
    fn integers_wrap_and_divisions_fail() {
        let tiny = ColumnType::Int8;
        assert_eq!(calculate_integers(ArithmeticOp::Add, tiny, 127, 1), Ok(-128));
        assert_eq!(calculate_integers(ArithmeticOp::Rem, tiny, -128, -1), Ok(0));
        assert!(matches!(
            calculate_integers(ArithmeticOp::Div, tiny, -128, -1),
            Err(Error::Overflow { left: -128, right: -1, .. })
        ));
        assert_eq!(calculate_integers(ArithmeticOp::Div, tiny, 1, 0), Err(Error::DivideByZero));
        let max = i128::from(u64::MAX);
        assert_eq!(calculate_integers(ArithmeticOp::Mul, ColumnType::UInt64, max, max), Ok(1));
        assert_eq!(calculate_integers(ArithmeticOp::Sub, ColumnType::UInt64, 0, 1), Ok(max));
    }
}
