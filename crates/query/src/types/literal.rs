//! Conversion of texts and integers to values of a column's type.
//!
//! Not here: the places in a plan that need it (`plan::coerce`), and the syntax of times
//! (`time_text`).

use std::net::Ipv4Addr;

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit as ArrowUnit};
use datafusion::common::ScalarValue;
use tidegate_model::time::CivilDate;
use tidegate_model::{ColumnType, TimeUnit};
use tidegate_storage::TYPE_KEY;

use super::time_text::{TimeScale, parse_time};
use crate::error::TextProblem;

/// Returns the column type of a field; `None` for types that no column has.
pub(crate) fn type_of(field: &Field) -> Option<ColumnType> {
    let named = field.metadata().get(TYPE_KEY).map(String::as_str);
    Some(match (named, field.data_type()) {
        (Some("uuid"), DataType::FixedSizeBinary(16)) => ColumnType::Uuid,
        (Some("ipv4"), DataType::UInt32) => ColumnType::Ipv4,
        (Some("symbol"), DataType::Utf8View) => ColumnType::Symbol,
        (_, DataType::Boolean) => ColumnType::Boolean,
        (_, DataType::Int8) => ColumnType::Int8,
        (_, DataType::Int16) => ColumnType::Int16,
        (_, DataType::Int32) => ColumnType::Int32,
        (_, DataType::Int64) => ColumnType::Int64,
        (_, DataType::UInt8) => ColumnType::UInt8,
        (_, DataType::UInt16) => ColumnType::UInt16,
        (_, DataType::UInt32) => ColumnType::UInt32,
        (_, DataType::UInt64) => ColumnType::UInt64,
        (_, DataType::Float32) => ColumnType::Float32,
        (_, DataType::Float64) => ColumnType::Float64,
        (_, DataType::Decimal128(precision, scale)) => {
            ColumnType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        (_, DataType::Timestamp(ArrowUnit::Microsecond, None)) => {
            ColumnType::Timestamp(TimeUnit::Micros)
        }
        (_, DataType::Timestamp(ArrowUnit::Nanosecond, None)) => {
            ColumnType::Timestamp(TimeUnit::Nanos)
        }
        (_, DataType::Date32) => ColumnType::Date,
        (_, DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8) => ColumnType::Varchar,
        (_, DataType::BinaryView | DataType::Binary | DataType::LargeBinary) => ColumnType::Binary,
        _ => return None,
    })
}

/// Returns false for a date that DataFusion prints as an empty text: it writes constants into the
/// names of columns, and would take two such dates for the same.
pub(crate) fn is_printed(value: &ScalarValue) -> bool {
    const YEAR_MAX: i64 = 262_142;
    match value {
        ScalarValue::Date32(Some(days)) => {
            CivilDate::from_days((*days).into()).year.abs() <= YEAR_MAX
        }
        _ => true,
    }
}

/// Parses a text as a value of a type. `None` for the types that are text themselves.
pub(crate) fn value_of_text(
    text: &str,
    ty: ColumnType,
) -> Option<Result<ScalarValue, TextProblem>> {
    let number = TextProblem::Form { expected: "a number" };
    Some(match ty {
        ColumnType::Symbol | ColumnType::Varchar => return None,
        ColumnType::Binary => bytes_of_text(text).map(|bytes| ScalarValue::BinaryView(Some(bytes))),
        ColumnType::Timestamp(_) | ColumnType::Date => {
            let scale = TimeScale::of(ty).expect("these types hold times");
            let value = parse_time(text, scale).map(|value| time_value(value, ty));
            value.and_then(|value| match is_printed(&value) {
                true => Ok(value),
                false => Err(TextProblem::OutOfRange),
            })
        }
        ColumnType::Uuid => parse_uuid(text).map(|bytes| {
            let bytes = Some(bytes.to_vec());
            ScalarValue::FixedSizeBinary(16, bytes)
        }),
        ColumnType::Ipv4 => match text.parse::<Ipv4Addr>() {
            Ok(address) => Ok(ScalarValue::UInt32(Some(address.to_bits()))),
            Err(_) => Err(TextProblem::Form { expected: "four numbers of 0 to 255 with points" }),
        },
        ColumnType::Boolean => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "t" => Ok(ScalarValue::Boolean(Some(true))),
            "false" | "f" => Ok(ScalarValue::Boolean(Some(false))),
            _ => Err(TextProblem::Form { expected: "true or false" }),
        },
        ColumnType::Float32 => {
            text.trim().parse().map(|x| ScalarValue::Float32(Some(x))).map_err(|_| number)
        }
        ColumnType::Float64 => {
            text.trim().parse().map(|x| ScalarValue::Float64(Some(x))).map_err(|_| number)
        }
        ColumnType::Decimal { precision, scale } => {
            let scale = i8::try_from(scale).expect("at most 38");
            let ty = DataType::Decimal128(precision, scale);
            let plain = without_exponent(text.trim());
            let text = plain.as_deref().unwrap_or(text);
            let is_digit = |c: char| c.is_ascii_digit() || "+-.".contains(c);
            let is_number = text.trim().parse::<f64>().is_ok() && text.trim().chars().all(is_digit);
            let problem = |_| if is_number { TextProblem::OutOfRange } else { number };
            ScalarValue::try_from_string(text.trim().to_owned(), &ty).map_err(problem)
        }
        // Any integer type serves: DataFusion compares it in a type that holds both sides.
        ColumnType::UInt64 => {
            text.trim().parse().map(|x| ScalarValue::UInt64(Some(x))).map_err(|_| number)
        }
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32 => {
            text.trim().parse().map(|x| ScalarValue::Int64(Some(x))).map_err(|_| number)
        }
    })
}

/// Returns the digits of `1.5e3`, for exponents of at most two digits; `None` if there is none.
fn without_exponent(text: &str) -> Option<String> {
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let exponent = exponent.parse::<i32>().ok().filter(|it| (-99..=99).contains(it))?;
    let sign = if number.starts_with('-') { "-" } else { "" };
    let unsigned = number.strip_prefix(['-', '+']).unwrap_or(number);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // The place of the point among the digits.
    let point = i32::try_from(whole.len()).ok()?.checked_add(exponent)?;
    Some(match usize::try_from(point) {
        Ok(point) if point < digits.len() => {
            format!("{sign}{}.{}", &digits[..point], &digits[point..])
        }
        Ok(point) => format!("{sign}{digits}{}", "0".repeat(point - digits.len())),
        Err(_) => format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
    })
}

/// Returns the time that an integer counts: in the unit of the type, days for DATE.
pub(crate) fn time_of_integer(value: i128, ty: ColumnType) -> Result<ScalarValue, TextProblem> {
    let value = i64::try_from(value).map_err(|_| TextProblem::OutOfRange)?;
    if ty == ColumnType::Date && i32::try_from(value).is_err() {
        return Err(TextProblem::OutOfRange);
    }
    Ok(time_value(value, ty))
}

/// Returns a time of a type that holds times.
pub(crate) fn time_value(value: i64, ty: ColumnType) -> ScalarValue {
    match ty {
        ColumnType::Timestamp(TimeUnit::Micros) => {
            ScalarValue::TimestampMicrosecond(Some(value), None)
        }
        ColumnType::Timestamp(TimeUnit::Nanos) => {
            ScalarValue::TimestampNanosecond(Some(value), None)
        }
        ColumnType::Date => {
            ScalarValue::Date32(Some(i32::try_from(value).expect("checked to be a day")))
        }
        _ => unreachable!("the other types hold no times"),
    }
}

/// Returns the value of an integer literal.
pub(crate) fn integer_of(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Int8(Some(value)) => i128::from(*value),
        ScalarValue::Int16(Some(value)) => i128::from(*value),
        ScalarValue::Int32(Some(value)) => i128::from(*value),
        ScalarValue::Int64(Some(value)) => i128::from(*value),
        ScalarValue::UInt8(Some(value)) => i128::from(*value),
        ScalarValue::UInt16(Some(value)) => i128::from(*value),
        ScalarValue::UInt32(Some(value)) => i128::from(*value),
        ScalarValue::UInt64(Some(value)) => i128::from(*value),
        _ => return None,
    })
}

/// Returns the bytes of a text: those of its hexadecimal digits behind `\x`, and else its own.
pub(crate) fn bytes_of_text(text: &str) -> Result<Vec<u8>, TextProblem> {
    let Some(digits) = text.strip_prefix("\\x") else { return Ok(text.as_bytes().to_vec()) };
    let form = TextProblem::Form { expected: "an even number of hexadecimal digits behind \\x" };
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(form);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    pairs.iter().map(byte).collect::<Option<_>>().ok_or(form)
}

/// Parses thirty-two hexadecimal digits, with hyphens or without.
fn parse_uuid(text: &str) -> Result<[u8; 16], TextProblem> {
    let form = TextProblem::Form { expected: "a UUID like 123e4567-e89b-12d3-a456-426614174000" };
    let text = text.trim();
    let bare = match text.len() {
        32 => text.to_owned(),
        36 if [8, 13, 18, 23].iter().all(|&at| text.as_bytes()[at] == b'-') => {
            text.replace('-', "")
        }
        _ => return Err(form),
    };
    if bare.len() != 32 || !bare.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(form);
    }
    Ok(u128::from_str_radix(&bare, 16).map_err(|_| form)?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, ty: ColumnType, expected: &str) {
        let shown = match value_of_text(text, ty) {
            None => "text".to_owned(),
            Some(Ok(value)) => format!("{value:?}"),
            Some(Err(problem)) => format!("error: {problem}"),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn texts_become_values_of_the_column_type() {
        check(
            "2013-07",
            ColumnType::Timestamp(TimeUnit::Micros),
            "TimestampMicrosecond(1372636800000000, None)",
        );
        check("2013-07-01", ColumnType::Date, "Date32(\"2013-07-01\")");
        check("10.0.0.1", ColumnType::Ipv4, "UInt32(167772161)");
        check("x", ColumnType::Varchar, "text");
        check(r"\x00Ff", ColumnType::Binary, "BinaryView(\"0,255\")");
        check("00", ColumnType::Binary, "BinaryView(\"48,48\")");
        check(" 12 ", ColumnType::Int16, "Int64(12)");
        check("1e3", ColumnType::Float64, "Float64(1000)");
        check("1.25", ColumnType::Decimal { precision: 5, scale: 2 }, "Decimal128(1.25,5,2)");
        let decimal = ColumnType::Decimal { precision: 6, scale: 2 };
        check("1e3", decimal, "Decimal128(1000.00,6,2)");
        check("-1.25E-1", decimal, "Decimal128(-0.13,6,2)");
        check("+12.5e+1", decimal, "Decimal128(125.00,6,2)");
        check(".5e0", decimal, "Decimal128(0.50,6,2)");
        check("125e-5", decimal, "Decimal128(0.00,6,2)");
        check("TRUE", ColumnType::Boolean, "Boolean(true)");
    }

    #[test]
    fn texts_that_stand_for_nothing_are_refused() {
        check("1.2", ColumnType::Int32, "error: expected a number");
        let decimal = ColumnType::Decimal { precision: 6, scale: 2 };
        check("1e5", decimal, "error: out of range");
        check("1e", decimal, "error: expected a number");
        check("e5", decimal, "error: expected a number");
        check("10.0.0", ColumnType::Ipv4, "error: expected four numbers of 0 to 255 with points");
        let pairs = r"error: expected an even number of hexadecimal digits behind \x";
        check(r"\x0", ColumnType::Binary, pairs);
        check(r"\x0g", ColumnType::Binary, pairs);
        check("yes", ColumnType::Boolean, "error: expected true or false");
        check(
            "123e4567e89b12d3a45642661417400",
            ColumnType::Uuid,
            "error: expected a UUID like 123e4567-e89b-12d3-a456-426614174000",
        );
    }

    #[test]
    fn a_uuid_is_the_same_with_and_without_hyphens() {
        let hyphens = parse_uuid("123e4567-e89b-12d3-a456-426614174000").unwrap();
        assert_eq!(parse_uuid("123E4567E89B12D3A456426614174000"), Ok(hyphens));
        assert_eq!(hyphens[..2], [0x12, 0x3e]);
    }
}
