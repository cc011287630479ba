//! Parsers of integers: a sign and digits. Leading zeros are allowed.

use super::swar::{ZEROS, all_digits, digits_of, number, word_at};
use super::{CellError, trimmed};

/// Parses a BIGINT.
///
/// # Errors
/// `NotANumber`, `OutOfRange`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Result<i64, CellError> {
    let (negative, digits) = split_sign(text);
    match short_magnitude(digits) {
        Some(magnitude) => Ok(with_sign(negative, magnitude)),
        None => parse_any_i64(text),
    }
}

/// Parses a UBIGINT. `-0` is a number, every other negative one is out of range.
///
/// # Errors
/// `NotANumber`, `OutOfRange`.
#[inline]
pub fn parse_u64(text: &[u8]) -> Result<u64, CellError> {
    match short_magnitude(text) {
        Some(magnitude) => Ok(magnitude),
        None => parse_any_u64(text),
    }
}

macro_rules! narrow {
    ($($name:ident, $ty:ty, $wide:ident, $sql:literal;)*) => {
        $(
            #[doc = $sql]
            ///
            /// # Errors
            /// `NotANumber`, `OutOfRange`.
            #[inline]
            pub fn $name(text: &[u8]) -> Result<$ty, CellError> {
                <$ty>::try_from($wide(text)?).map_err(|_| CellError::OutOfRange)
            }
        )*
    };
}

narrow! {
    parse_i8, i8, parse_i64, "TINYINT.";
    parse_i16, i16, parse_i64, "SMALLINT.";
    parse_i32, i32, parse_i64, "INT.";
    parse_u8, u8, parse_u64, "UTINYINT.";
    parse_u16, u16, parse_u64, "USMALLINT.";
    parse_u32, u32, parse_u64, "UINT.";
}

#[inline]
fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, text),
    }
}

/// The number of a magnitude below 2^63.
#[inline]
fn with_sign(negative: bool, magnitude: u64) -> i64 {
    let value = magnitude.cast_signed();
    if negative { -value } else { value }
}

/// The number of one to sixteen digits.
#[inline]
fn short_magnitude(digits: &[u8]) -> Option<u64> {
    match digits.len() {
        1..=8 => {
            let digits = digits_of(digits);
            all_digits(digits).then(|| number(digits))
        }
        9..=16 => {
            let (first, last) = (digits.first_chunk::<8>()?, digits.last_chunk::<8>()?);
            // The digits that `last` has of the first eight bytes are shifted out of `first`.
            let head = (word_at(first, 0) ^ ZEROS) << (8 * (16 - digits.len()));
            let tail = word_at(last, 0) ^ ZEROS;
            let is_number = all_digits(head) & all_digits(tail);
            is_number.then(|| number(head) * 100_000_000 + number(tail))
        }
        _ => None,
    }
}

#[inline(never)]
fn parse_any_i64(text: &[u8]) -> Result<i64, CellError> {
    let (negative, digits) = split_sign(text);
    let (negative, magnitude) = match long_magnitude(digits) {
        Some(magnitude) => (negative, magnitude),
        None => {
            let (negative, digits) = split_sign(trimmed(text));
            (negative, any_magnitude(digits)?)
        }
    };
    // `i64::MIN` has no positive counterpart.
    if magnitude == i64::MIN.unsigned_abs() && negative {
        return Ok(i64::MIN);
    }
    let value = i64::try_from(magnitude).map_err(|_| CellError::OutOfRange)?;
    Ok(if negative { -value } else { value })
}

#[inline(never)]
fn parse_any_u64(text: &[u8]) -> Result<u64, CellError> {
    let (negative, digits) = split_sign(trimmed(text));
    match any_magnitude(digits)? {
        magnitude if negative && magnitude != 0 => Err(CellError::OutOfRange),
        magnitude => Ok(magnitude),
    }
}

/// The number of seventeen to nineteen digits.
#[inline]
fn long_magnitude(digits: &[u8]) -> Option<u64> {
    if !(17..=19).contains(&digits.len()) {
        return None;
    }
    let (head, tail) = digits.split_last_chunk::<16>()?;
    let (head, tail) = (digits_of(head), short_magnitude(tail)?);
    all_digits(head).then(|| number(head) * 10_000_000_000_000_000 + tail)
}

fn any_magnitude(digits: &[u8]) -> Result<u64, CellError> {
    if let Some(magnitude) = short_magnitude(digits) {
        return Ok(magnitude);
    }
    let Some((head, tail)) = digits.split_last_chunk::<16>() else {
        return Err(CellError::NotANumber);
    };
    let tail = short_magnitude(tail).ok_or(CellError::NotANumber)?;
    if !head.iter().all(u8::is_ascii_digit) {
        return Err(CellError::NotANumber);
    }
    let head = head.iter().fold(0_u64, |value, digit| {
        value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    });
    let head = head.checked_mul(10_000_000_000_000_000).ok_or(CellError::OutOfRange)?;
    head.checked_add(tail).ok_or(CellError::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = |result: Result<i64, CellError>| {
            result.map_or_else(|error| error.to_string(), |value| value.to_string())
        };
        assert_eq!(shown(parse_i64(text.as_bytes())), expected, "{text:?}");
    }

    #[test]
    fn limits_are_numbers_and_their_neighbours_are_not() {
        check("9223372036854775807", "9223372036854775807");
        check("9223372036854775808", "out of range");
        check("-9223372036854775808", "-9223372036854775808");
        check("-9223372036854775809", "out of range");
        check("0000000000000000000000000000012", "12");
        check("100000000000000000000", "out of range");
        assert_eq!(parse_u64(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), Err(CellError::OutOfRange));
        assert_eq!(parse_u64(b"-1"), Err(CellError::OutOfRange));
        assert_eq!(parse_u64(b"-0"), Ok(0));
        assert_eq!((parse_i8(b"-128"), parse_i8(b"128")), (Ok(-128), Err(CellError::OutOfRange)));
        assert_eq!((parse_u8(b"255"), parse_u8(b"256")), (Ok(255), Err(CellError::OutOfRange)));
    }

    #[test]
    fn signs_and_margins() {
        check("+7", "7");
        check("-7", "-7");
        check("-0", "0");
        check(" 42", "42");
        check("42\t ", "42");
    }

    #[test]
    fn everything_else_is_no_number() {
        for text in [
            "",
            " ",
            "-",
            "+",
            "--1",
            "+-1",
            "1-",
            "1.0",
            "1e3",
            "0x10",
            "1 2",
            "12345678a",
            "a2345678",
            "1234567890123456a",
            "a1234567890123456",
            "1_000",
            "\u{661}",
            "99999999999999999999999999x",
        ] {
            check(text, "not a number");
        }
    }
}
