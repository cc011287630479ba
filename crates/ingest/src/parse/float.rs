//! Parser of floats: decimal text becomes the nearest float, ties to even.
//!
//! - float-1. Eight bytes have eight digits, or seven and a point. Seven digits are an integer that
//!   a float of eight or four bytes holds exactly, as it does the powers of ten up to 10^7; one
//!   division of two exact numbers rounds once, so the quotient is the nearest float. Eight digits
//!   without a point are rounded once, as they become a float. (W. D. Clinger, "How to read
//!   floating point numbers accurately".)
//! - float-2. There is one NaN.
//!
//! Longer numbers and exponents go to the `fast-float2` crate, which is the quicker one there.

use super::swar::short_decimal;
use super::{CellError, trimmed};

/// Parses a DOUBLE: digits with a sign, a point and an exponent, or `NaN`, `Infinity`, `inf` in any
/// case.
///
/// # Errors
/// `NotANumber`; `OutOfRange` if the nearest float is infinite.
#[inline]
pub fn parse_f64(text: &[u8]) -> Result<f64, CellError> {
    let (negative, digits) = split_minus(text);
    match short_decimal(digits) {
        Some(decimal) => {
            let value = decimal.mantissa as f64 / POWERS_F64[decimal.places]; // float-1
            Ok(f64::from_bits(value.to_bits() | u64::from(negative) << 63))
        }
        None => parse_any_f64(text),
    }
}

/// Parses a FLOAT, in the forms of a DOUBLE. It is rounded once, from the text.
///
/// # Errors
/// As `parse_f64`.
#[inline]
pub fn parse_f32(text: &[u8]) -> Result<f32, CellError> {
    let (negative, digits) = split_minus(text);
    match short_decimal(digits) {
        Some(decimal) => {
            let value = decimal.mantissa as f32 / POWERS_F32[decimal.places]; // float-1
            Ok(f32::from_bits(value.to_bits() | u32::from(negative) << 31))
        }
        None => parse_any_f32(text),
    }
}

/// The exact powers of ten (float-1); eight bytes have at most seven digits behind a point.
const POWERS_F64: [f64; 8] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];
const POWERS_F32: [f32; 8] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];

#[inline]
fn split_minus(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', digits @ ..] => (true, digits),
        _ => (false, text),
    }
}

macro_rules! any_float {
    ($name:ident, $special:ident, $ty:ty) => {
        /// Inlined, like most of the function in its crate: the call would be a third of its time.
        #[inline]
        fn $name(text: &[u8]) -> Result<$ty, CellError> {
            match fast_float2::parse::<$ty, _>(text) {
                Ok(value) if value.is_finite() => Ok(value),
                _ => $special(text),
            }
        }

        #[cold]
        fn $special(text: &[u8]) -> Result<$ty, CellError> {
            let text = trimmed(text);
            let value = fast_float2::parse::<$ty, _>(text).map_err(|_| CellError::NotANumber)?;
            if value.is_nan() {
                Ok(<$ty>::NAN) // float-2
            } else if value.is_infinite() && !names_infinity(text) {
                Err(CellError::OutOfRange)
            } else {
                Ok(value)
            }
        }
    };
}

any_float!(parse_any_f64, parse_special_f64, f64);
any_float!(parse_any_f32, parse_special_f32, f32);

/// Returns true if a text that was read as infinite names infinity, and is not a number that is too
/// large.
fn names_infinity(text: &[u8]) -> bool {
    !text.iter().any(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let wide = parse_f64(text.as_bytes());
        let narrow = parse_f32(text.as_bytes());
        let wide = wide.map_or_else(|error| error.to_string(), |value| format!("{value:?}"));
        let narrow = narrow.map_or_else(|error| error.to_string(), |value| format!("{value:?}"));
        assert_eq!((wide.as_str(), narrow.as_str()), (expected, expected), "{text:?}");
    }

    #[test]
    fn forms_of_a_number() {
        check("0", "0.0");
        check("-0", "-0.0");
        check("-0.0", "-0.0");
        check("1", "1.0");
        check("12.5", "12.5");
        check(".5", "0.5");
        check("5.", "5.0");
        check("12345678.", "12345678.0");
        check("+2.25", "2.25");
        check("-73.5", "-73.5");
        check("1e3", "1000.0");
        check("2.5E-1", "0.25");
        check(" 1.5 ", "1.5");
        check("00012.500", "12.5");
    }

    #[test]
    fn infinite_and_not_a_number() {
        check("Infinity", "inf");
        check("-Infinity", "-inf");
        check("inf", "inf");
        check("NaN", "NaN");
        check("-nan", "NaN");
        let bits = parse_f64(b"-nan").map(f64::to_bits);
        assert_eq!(bits, Ok(f64::NAN.to_bits()), "float-2");
        check("1e400", "out of range");
        check("-1e400", "out of range");
        check("1e-400", "0.0");
    }

    #[test]
    fn everything_else_is_no_number() {
        for text in [
            "", " ", ".", "-", "+", "-.", "1..2", "1.2.3", "1,5", "1e", "e5", "--1", "-+1",
            "0x1p3", "1 2", "infin", "nano", "\u{0}",
        ] {
            check(text, "not a number");
        }
    }

    #[test]
    fn a_float_is_rounded_once_from_its_text() {
        // The text is below the middle of two floats, by less than a double can represent: by way
        // of a double, the middle would be rounded to the upper one, which is even.
        let (below, above) = (1.000_000_1_f32, 1.000_000_2_f32);
        assert_eq!(parse_f32(b"1.00000017881393432617187499"), Ok(below));
        assert_eq!(parse_f32(b"1.00000017881393432617187501"), Ok(above));
        assert_eq!(
            parse_f64(b"1.00000017881393432617187499"),
            Ok(f64::midpoint(below.into(), above.into()))
        );
    }
}
