//! Cells of a column with a guessed type: a value that the type would change is not accepted.
//!
//! - exact-1. The text of every accepted cell can be written again from its value, except for the
//!   differences that docs/import.md names: the case of words, blanks around a value, zeros at the
//!   end of a fraction and the form of an exponent, fraction digits of a DOUBLE beyond 15
//!   significant ones, the form and the offset of a time.
//!
//! A type that a user or a table has given accepts more (`parse`): there `007` is 7 and `+1` is 1.

use crate::parse::{CellError, parse_f64, parse_i64, parse_uuid, trimmed};

/// The kind of number that a text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    None,
    /// A number, but no type gives its text back: a plus, leading zeros, too many digits.
    Altered,
    /// A BIGINT, which a DOUBLE may hold as well.
    Integer,
    /// A DOUBLE.
    Fraction,
    /// A DOUBLE that is not finite.
    Word,
}

/// The kind of number of a sampled cell. Not every `Integer` fits a DOUBLE: see `is_wide_integer`.
pub(crate) fn number_of(text: &[u8]) -> Number {
    let text = trimmed(text);
    // The first byte shows for most texts that they are no number.
    if !matches!(text.first(), Some(b'0'..=b'9' | b'+' | b'-' | b'.' | b'n' | b'N' | b'i' | b'I')) {
        return Number::None;
    }
    if is_short_integer(text) {
        return Number::Integer;
    }
    let Ok(value) = parse_f64(text) else { return Number::None };
    if !value.is_finite() {
        return if text.first() == Some(&b'+') { Number::Altered } else { Number::Word };
    }
    match exact_i64(text) {
        Ok(_) => Number::Integer,
        Err(_) if fits_double(text, value) => Number::Fraction,
        Err(_) => Number::Altered,
    }
}

/// Returns true if a text is an integer of few digits without a needless sign or zeros, as most
/// are.
fn is_short_integer(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let has_value = matches!(digits, [b'1'..=b'9', ..]) || text == b"0";
    has_value && digits.len() <= EXACT_DIGITS && digits.iter().all(u8::is_ascii_digit)
}

/// Returns true if an integer does not fit a DOUBLE exactly.
pub(crate) fn is_wide_integer(text: &[u8]) -> bool {
    let text = trimmed(text);
    if text.len() <= EXACT_DIGITS {
        return false;
    }
    parse_i64(text).is_ok() && !parse_f64(text).is_ok_and(|value| fits_double(text, value))
}

/// Parses a guessed BIGINT.
pub(crate) fn exact_i64(text: &[u8]) -> Result<i64, CellError> {
    let value = parse_i64(text)?;
    match has_needless_sign(text)
        || unsigned(text).first() == Some(&b'0') && unsigned(text).len() > 1
    {
        true => Err(CellError::Altered),
        false => Ok(value),
    }
}

/// Parses a guessed DOUBLE.
#[inline]
pub(crate) fn exact_f64(text: &[u8]) -> Result<f64, CellError> {
    let value = parse_f64(text)?;
    if fits_double_plainly(text, value) || !value.is_finite() || fits_double(trimmed(text), value) {
        Ok(value)
    } else {
        Err(CellError::Altered)
    }
}

/// A fast `fits_double` for most numbers, by their first bytes: a text of few characters can lose
/// only leading zeros, or its value by underflow.
#[inline]
fn fits_double_plainly(text: &[u8], value: f64) -> bool {
    text.len() <= EXACT_DIGITS
        && matches!(text, [b'1'..=b'9', ..] | [b'0', b'.', ..] | [b'-', b'1'..=b'9', ..])
        && (f64::MIN_POSITIVE..=f64::MAX).contains(&value.abs())
}

/// Parses a guessed UUID: without hyphens it may be any hash.
pub(crate) fn exact_uuid(text: &[u8]) -> Result<[u8; 16], CellError> {
    let value = parse_uuid(text)?;
    if text.contains(&b'-') { Ok(value) } else { Err(CellError::Altered) }
}

/// Parses a guessed BOOLEAN.
pub(crate) fn exact_bool(text: &[u8]) -> Result<bool, CellError> {
    let text = trimmed(text);
    match (text.eq_ignore_ascii_case(b"true"), text.eq_ignore_ascii_case(b"false")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(CellError::NotABoolean),
    }
}

/// Returns true if a sampled cell is a boolean. `t`, `f`, `yes` and `no` often mean something else,
/// such as Norway or female.
pub(crate) fn is_true_or_false(text: &[u8]) -> bool {
    text.len() >= "true".len() && exact_bool(text).is_ok()
}

/// The number of digits behind the last point of a timestamp.
pub(crate) fn fraction_digits(text: &[u8]) -> usize {
    let behind = memchr::memrchr(b'.', text).map_or(text.len(), |at| at + 1);
    text[behind..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Returns true if a timestamp has digits that microseconds lose.
#[inline]
pub(crate) fn is_finer_than_micros(text: &[u8]) -> bool {
    // A date, a time and six digits take at most 26 bytes: most texts have no more.
    text.len() > 26 && has_seventh_digit(text)
}

fn has_seventh_digit(text: &[u8]) -> bool {
    let behind = memchr::memrchr(b'.', text).map_or(text.len(), |at| at + 1);
    let digits = text[behind..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.skip(6).any(|&digit| digit != b'0')
}

/// The number of significant digits up to which different decimal numbers have different DOUBLEs.
const EXACT_DIGITS: usize = 15;

/// Returns true if a finite number that was parsed as `value` is written without a needless sign or
/// zeros, and has no more digits than a DOUBLE keeps. Digits behind the point may be more.
fn fits_double(text: &[u8], value: f64) -> bool {
    let digits = unsigned(text);
    if text.first() == Some(&b'+') || matches!(digits, [b'0', b'0'..=b'9', ..]) {
        return false;
    }
    let mantissa = digits.iter().take_while(|byte| !matches!(byte, b'e' | b'E')).count();
    let (mantissa, has_exponent) = (&digits[..mantissa], mantissa < digits.len());
    let is_zero = !mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'));
    // A subnormal number has fewer digits.
    if !is_zero && value.abs() < f64::MIN_POSITIVE {
        return false;
    }
    let point = mantissa.iter().position(|&byte| byte == b'.');
    let (whole, fraction) = mantissa.split_at(point.unwrap_or(mantissa.len()));
    if whole.len() <= EXACT_DIGITS {
        return true;
    }
    // A number with an exponent is a printed float, with up to 17 digits.
    if has_exponent || fraction.iter().any(|byte| matches!(byte, b'1'..=b'9')) {
        return false;
    }
    // An integer, perhaps with `.0` behind it: it has to be exact.
    let signed = text.len() - digits.len() + whole.len();
    let integer = parse_i64(&text[..signed]);
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and is compared")]
    let stored = value as i128;
    integer.is_ok_and(|integer| i128::from(integer) == stored)
}

/// Returns true for a plus, or the minus of zero, which an integer does not keep.
fn has_needless_sign(text: &[u8]) -> bool {
    matches!(trimmed(text), [b'+', ..] | [b'-', b'0'])
}

fn unsigned(text: &[u8]) -> &[u8] {
    match trimmed(text) {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Number) {
        assert_eq!(number_of(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn numbers_whose_text_comes_back() {
        for text in ["0", "7", "-7", " 7 ", "9007199254740993", "-9223372036854775808"] {
            check(text, Number::Integer);
        }
        for text in
            ["1.50", ".5", "5.", "0.0", "-0.0", "-0", "1e3", "1E-30", "3.141592653589793238"]
        {
            check(text, Number::Fraction);
        }
        for text in ["NaN", "-inf", "Infinity"] {
            check(text, Number::Word);
        }
    }

    #[test]
    fn numbers_whose_text_is_lost() {
        for text in [
            "+1",
            "+4915112345678",
            "007",
            "-007",
            "00.5",
            "12345678901234567.89",
            "1e-310",
            "123456789012345678901",
            "1e-400",
            "12345678901234567e3",
            "+inf",
        ] {
            check(text, Number::Altered);
        }
        for text in ["", "x", "1,5", "1e400"] {
            check(text, Number::None);
        }
    }

    #[test]
    fn integers_between_two_floats_are_told() {
        for text in ["9007199254740993", "1234567890123456789"] {
            assert!(is_wide_integer(text.as_bytes()), "{text}");
            assert_eq!(exact_f64(text.as_bytes()), Err(CellError::Altered));
        }
        for text in ["9007199254740992", "1", "-123456789012345"] {
            assert!(!is_wide_integer(text.as_bytes()), "{text}");
            assert!(exact_f64(text.as_bytes()).is_ok());
        }
    }

    #[test]
    fn the_quick_way_takes_nothing_that_is_lost() {
        let (mut texts, mut quick) = (vec![String::new()], 0);
        for _ in 0..6 {
            let longer = |text: &String| {
                let text = text.clone();
                "-+015.e".chars().map(move |next| format!("{text}{next}"))
            };
            texts = texts.iter().flat_map(longer).collect();
            for text in &texts {
                let Ok(value) = parse_f64(text.as_bytes()) else { continue };
                if fits_double_plainly(text.as_bytes(), value) {
                    quick += 1;
                    assert!(fits_double(trimmed(text.as_bytes()), value), "{text:?}");
                }
            }
        }
        assert!(quick > 1_000, "{quick}");
        for text in ["1e-310", "0.0", "-0", "01.5", "+1", "1e-400", "1234567890123456"] {
            let value = parse_f64(text.as_bytes()).expect("a number");
            assert!(!fits_double_plainly(text.as_bytes(), value), "{text}");
        }
    }

    #[test]
    fn later_values_are_held_to_the_guess() {
        assert_eq!(exact_i64(b"0"), Ok(0));
        assert_eq!(exact_i64(b"-0"), Err(CellError::Altered));
        assert_eq!(exact_i64(b"x"), Err(CellError::NotANumber));
        assert_eq!(exact_f64(b"1e-5"), Ok(1e-5));
        assert_eq!(exact_f64(b"1e-400"), Err(CellError::Altered));
        assert_eq!(exact_bool(b"TRUE"), Ok(true));
        assert_eq!(exact_bool(b"no"), Err(CellError::NotABoolean));
        assert!(is_finer_than_micros(b"2024-01-01T00:00:00.1234567"));
        assert!(!is_finer_than_micros(b"2024-01-01T00:00:00.1234560Z"));
    }
}
