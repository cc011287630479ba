//! Parsers of one cell of text, for every column type except the strings.
//!
//! - Any bytes give a value or a `CellError`, never a panic.
//! - ingest_parse-1. Spaces and tabs around a value are ignored; a cell of nothing else is not a
//!   value.
//! - An accepted value is exact: an integer is never rounded, a float is the nearest one, a
//!   decimal is rounded half away from zero to its scale.
//!
//! These functions run once a cell: the common forms are read eight bytes at a time, and all other
//! forms go to a slower path that decides. Not here: NULL, which the caller handles (an empty cell
//! is an error here), and timestamps (`timestamp`).

use thiserror::Error;

mod swar;
mod integer;
mod float;
mod decimal;
mod hex;

pub use decimal::parse_decimal;
pub use float::{parse_f32, parse_f64};
pub use integer::{
    parse_i8, parse_i16, parse_i32, parse_i64, parse_u8, parse_u16, parse_u32, parse_u64,
};
pub(crate) use swar::{
    HIGH_BITS, ONES, POWERS_OF_TEN, ZEROS, all_digits, decimal_of, number, word_at,
};

use hex::{decode_eight, decode_hex};
use tidegate_model::limits;

/// The reason why a cell is no value of its column's type. `Display` gives the reason in rejects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Error)]
#[non_exhaustive]
pub enum CellError {
    #[error("not a boolean")]
    NotABoolean,
    #[error("not a number")]
    NotANumber,
    #[error("out of range")]
    OutOfRange,
    #[error("would lose digits")]
    Inexact,
    #[error("not a timestamp")]
    NotATimestamp,
    #[error("date or time out of range")]
    TimeOutOfRange,
    #[error("not a date")]
    NotADate,
    #[error("a date with a time of day")]
    TimeOfDayInDate,
    #[error("not a UUID")]
    NotAUuid,
    #[error("not an IPv4 address")]
    NotAnIpv4,
    #[error("not binary")]
    NotBinary,
    #[error("not UTF-8")]
    NotUtf8,
    #[error("NUL in text")]
    NulInText,
    #[error("too long")]
    TooLong,
    #[error("not a decimal number")]
    NotADecimal,
    #[error("the type that was guessed for the column would alter it")]
    Altered,
}

impl CellError {
    /// The SQLSTATE of a statement that fails at this cell.
    #[must_use]
    pub fn sqlstate(self) -> &'static str {
        match self {
            CellError::NotABoolean
            | CellError::NotANumber
            | CellError::NotAUuid
            | CellError::NotAnIpv4
            | CellError::NotBinary
            | CellError::NotADecimal => "22P02",
            CellError::OutOfRange | CellError::Inexact | CellError::Altered => "22003",
            CellError::NotATimestamp | CellError::NotADate | CellError::TimeOfDayInDate => "22007",
            CellError::TimeOutOfRange => "22008",
            CellError::NotUtf8 | CellError::NulInText => "22021",
            CellError::TooLong => "22001",
        }
    }
}

/// Parses a BOOLEAN: `true`, `t`, `yes`, `1`, `false`, `f`, `no`, `0`, in any case.
///
/// # Errors
/// `NotABoolean`.
#[inline]
pub fn parse_bool(text: &[u8]) -> Result<bool, CellError> {
    match text {
        b"1" | b"t" | b"T" | b"true" => Ok(true),
        b"0" | b"f" | b"F" | b"false" => Ok(false),
        _ => parse_bool_in_any_case(trimmed(text)),
    }
}

fn parse_bool_in_any_case(text: &[u8]) -> Result<bool, CellError> {
    let is_any_of = |words: [&[u8]; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_any_of([b"true", b"t", b"yes", b"1"]) {
        Ok(true)
    } else if is_any_of([b"false", b"f", b"no", b"0"]) {
        Ok(false)
    } else {
        Err(CellError::NotABoolean)
    }
}

/// Parses a UUID: 32 hex digits, with hyphens at their four places or with none. The bytes have the
/// order of the text.
///
/// # Errors
/// `NotAUuid`.
pub fn parse_uuid(text: &[u8]) -> Result<[u8; 16], CellError> {
    parse_bare_uuid(text)
        .or_else(|| parse_bare_uuid(without_margin(text)?))
        .ok_or(CellError::NotAUuid)
}

fn parse_bare_uuid(text: &[u8]) -> Option<[u8; 16]> {
    // The words are joined in registers: a copy without hyphens would be read before it is written.
    let words = if let Ok(text) = <&[u8; 32]>::try_from(text) {
        [word_at(text, 0), word_at(text, 8), word_at(text, 16), word_at(text, 24)]
    } else {
        let text = <&[u8; 36]>::try_from(text).ok()?;
        if [text[8], text[13], text[18], text[23]] != [b'-'; 4] {
            return None;
        }
        let half = |offset| word_at(text, offset) & 0xFFFF_FFFF;
        let (second, third) = (half(9) | half(14) << 32, half(19) | half(24) << 32);
        [word_at(text, 0), second, third, word_at(text, 28)]
    };
    let mut uuid = [0; 16];
    let mut are_digits = true;
    for (word, four) in words.into_iter().zip(uuid.as_chunks_mut::<4>().0) {
        let (value, is_hex) = decode_eight(word);
        *four = value.to_le_bytes();
        are_digits &= is_hex;
    }
    are_digits.then_some(uuid)
}

/// Parses an IPV4: four numbers up to 255 without leading zeros (which some programs read as
/// octal), with dots between. The first is the highest byte.
///
/// # Errors
/// `NotAnIpv4`.
pub fn parse_ipv4(text: &[u8]) -> Result<u32, CellError> {
    parse_bare_ipv4(text)
        .or_else(|| parse_bare_ipv4(without_margin(text)?))
        .ok_or(CellError::NotAnIpv4)
}

fn parse_bare_ipv4(text: &[u8]) -> Option<u32> {
    let mut address = 0;
    let mut parts = text.split(|&byte| byte == b'.');
    for _ in 0..4 {
        let part = match parts.next()? {
            [a] => digit(*a)?,
            [a @ b'1'..=b'9', b] => digit(*a)? * 10 + digit(*b)?,
            [a @ b'1'..=b'2', b, c] => (digit(*a)? * 10 + digit(*b)?) * 10 + digit(*c)?,
            _ => return None,
        };
        if part > 255 {
            return None;
        }
        address = address << 8 | part;
    }
    parts.next().is_none().then_some(address)
}

fn digit(byte: u8) -> Option<u32> {
    byte.is_ascii_digit().then(|| u32::from(byte - b'0'))
}

/// Parses a BINARY: `\x` and pairs of hex digits. The bytes are appended to `out`, which stays
/// unchanged after an error.
///
/// # Errors
/// `NotBinary`; `TooLong` above `limits::VALUE_BYTES`.
pub fn parse_binary(text: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let text = trimmed(text);
    let Some((b"\\x" | b"\\X", digits)) = text.split_at_checked(2) else {
        return Err(CellError::NotBinary);
    };
    if digits.len() % 2 != 0 {
        return Err(CellError::NotBinary);
    }
    if digits.len() / 2 > limits::VALUE_BYTES {
        return Err(CellError::TooLong);
    }
    let before = out.len();
    out.resize(before + digits.len() / 2, 0);
    if decode_hex(digits, &mut out[before..]) {
        return Ok(());
    }
    out.truncate(before);
    Err(CellError::NotBinary)
}

/// Checks the text of a VARCHAR or SYMBOL.
///
/// # Errors
/// `TooLong` above `bytes_max`, `NotUtf8`, `NulInText`.
pub fn check_text(text: &[u8], bytes_max: usize) -> Result<&str, CellError> {
    if text.len() > bytes_max {
        return Err(CellError::TooLong);
    }
    let text = simdutf8::basic::from_utf8(text).map_err(|_| CellError::NotUtf8)?;
    if memchr::memchr(0, text.as_bytes()).is_some() {
        return Err(CellError::NulInText);
    }
    Ok(text)
}

/// The text without spaces and tabs around it (ingest_parse-1).
pub(crate) fn trimmed(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(start) = text.iter().position(|byte| !is_blank(byte)) else {
        return &[];
    };
    let last = text.iter().rposition(|byte| !is_blank(byte)).expect("one byte is not blank");
    &text[start..=last]
}

/// As `trimmed`, for a second attempt; `None` if there is nothing to trim.
pub(crate) fn without_margin(text: &[u8]) -> Option<&[u8]> {
    let inner = trimmed(text);
    (inner.len() < text.len()).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: std::fmt::Debug>(actual: Result<T, CellError>, expected: &str) {
        let actual = actual.map_or_else(|error| error.to_string(), |value| format!("{value:?}"));
        assert_eq!(actual, expected);
    }

    #[test]
    fn booleans_are_eight_words_in_any_case() {
        for word in ["true", "t", "yes", "1", "TRUE", "T", "Yes", " true\t"] {
            check(parse_bool(word.as_bytes()), "true");
        }
        for word in ["false", "f", "no", "0", "False", "F", "NO", "0 "] {
            check(parse_bool(word.as_bytes()), "false");
        }
        for word in ["", " ", "y", "n", "2", "on", "truee", "tr ue", "\u{0}"] {
            check(parse_bool(word.as_bytes()), "not a boolean");
        }
    }

    #[test]
    fn a_uuid_has_four_hyphens_or_none() {
        let expected =
            format!("{:?}", 0x0123_4567_89ab_cdef_0011_2233_4455_6677_u128.to_be_bytes());
        check(parse_uuid(b"01234567-89ab-cdef-0011-223344556677"), &expected);
        check(parse_uuid(b"0123456789ABCDEF0011223344556677"), &expected);
        check(parse_uuid(b" 0123456789abcdef0011223344556677"), &expected);
        for text in [
            "",
            "0123456789abcdef001122334455667",
            "01234567-89ab-cdef-0011223344556677",
            "01234567-89ab-cdef-0011-22334455667g",
            "01234567+89ab-cdef-0011-223344556677",
            "{0123456789abcdef00112233445566}",
        ] {
            check(parse_uuid(text.as_bytes()), "not a UUID");
        }
    }

    #[test]
    fn an_address_has_four_octets_without_leading_zeros() {
        check(parse_ipv4(b"192.168.0.1"), &0xC0A8_0001_u32.to_string());
        check(parse_ipv4(b"255.255.255.255"), &u32::MAX.to_string());
        check(parse_ipv4(b"0.0.0.0 "), "0");
        for text in ["", "1.2.3", "1.2.3.4.5", "256.0.0.1", "01.2.3.4", "1..2.3", "1.2.3.a", "."] {
            check(parse_ipv4(text.as_bytes()), "not an IPv4 address");
        }
    }

    #[test]
    fn binary_is_appended_or_leaves_no_trace() {
        let mut out = vec![7];
        check(parse_binary(b"\\x00fF", &mut out), "()");
        check(parse_binary(b"\\x", &mut out), "()");
        for text in ["", "00ff", "\\", "\\x0", "\\x0g", "\\x00 ff", "x00"] {
            check(parse_binary(text.as_bytes(), &mut out), "not binary");
        }
        assert_eq!(out, [7, 0, 255]);
    }

    #[test]
    fn text_is_utf8_without_nul_and_within_its_bound() {
        check(check_text(b"", 4), "\"\"");
        check(check_text(b"abcd", 4), "\"abcd\"");
        check(check_text(b"abcde", 4), "too long");
        check(check_text(b"\xC3(", 4), "not UTF-8");
        check(check_text(b"a\0b", 4), "NUL in text");
    }
}
