//! Search for the ends of names, keys, values and timestamps, and fast parsers for the common ones.
//!
//! - line_scan-1. A fast parser supports a part of the syntax and leaves the rest to
//!   `value_syntax`; its results are the same.
//! - line_scan-2. Words of text are only read where the text has enough bytes left; near its end
//!   the general parser is used.
//!
//! Long stretches of text go through `memchr`, which selects its vector instructions at run time;
//! values are mostly shorter than a vector, and are read a word of eight bytes at a time.

use memchr::{memchr2, memchr3};

use crate::parse::{HIGH_BITS, ONES, ZEROS, all_digits, decimal_of, number};

/// The end of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyEnd {
    /// An equals sign at this position.
    Equals(usize),
    /// A space, comma or newline at this position.
    Other(usize),
}

/// Returns true if a value ends before this byte. A carriage return is left to the general parser.
#[inline]
pub(super) fn ends_value(byte: u8) -> bool {
    byte == b',' || byte == b' ' || byte == b'\n'
}

#[inline]
fn word(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The number of digits at the start of a word less `ZEROS`.
#[inline]
fn digit_count(word: u64) -> usize {
    // As in `all_digits`; no carry occurs up to the first byte that is not a digit.
    let others = (word.wrapping_add(0x76 * ONES) | word) & HIGH_BITS;
    others.trailing_zeros() as usize / 8
}

/// An integer with its `i` and its end (line_scan-1): up to seven digits, or up to fifteen.
#[inline]
pub(super) fn integer(text: &[u8], at: usize) -> Option<(i64, usize)> {
    let is_negative = *text.get(at)? == b'-';
    let start = at + usize::from(is_negative);
    let first = word(text, start)? ^ ZEROS;
    let count = digit_count(first);
    let (magnitude, end) = match count {
        0 => return None,
        1..8 => (number(first << (64 - 8 * count)), start + count),
        _ => longer_integer(text, start, first)?,
    };
    let [suffix, behind] = *text.get(end..)?.first_chunk::<2>()?;
    let value = magnitude.cast_signed();
    let is_end = suffix == b'i' && ends_value(behind);
    is_end.then_some((if is_negative { -value } else { value }, end + 1))
}

#[inline(never)]
fn longer_integer(text: &[u8], start: usize, first: u64) -> Option<(u64, usize)> {
    let second = word(text, start + 8)? ^ ZEROS;
    let head = number(first);
    match digit_count(second) {
        0 => Some((head, start + 8)),
        count @ 1..8 => {
            let tail = number(second << (64 - 8 * count));
            Some((head * TENS[count] + tail, start + 8 + count))
        }
        _ => None,
    }
}

const TENS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// A number of up to fifteen bytes of digits with at most one point, and its end (line_scan-1). So
/// many digits are exact in a double, and so are the powers of ten: `parse::float` float-1.
#[inline]
pub(super) fn double(text: &[u8], at: usize) -> Option<(f64, usize)> {
    let is_negative = *text.get(at)? == b'-';
    let start = at + usize::from(is_negative);
    let first = word(text, start)? ^ ZEROS;
    let count = number_bytes(first);
    let (mantissa, places, end) = match count {
        0 => return None,
        1..8 => {
            let bytes = first << (64 - 8 * count);
            if bytes == POINT << 56 {
                return None; // a point alone
            }
            let decimal = decimal_of(bytes)?;
            (decimal.mantissa, decimal.places, start + count)
        }
        _ => longer_double(text, start, first)?,
    };
    if !ends_value(*text.get(end)?) {
        return None;
    }
    let value = mantissa as f64 / POWERS_OF_TEN[places];
    Some((f64::from_bits(value.to_bits() | u64::from(is_negative) << 63), end))
}

/// The number of all digits, the count of those behind the point, and the end.
#[inline(never)]
fn longer_double(text: &[u8], start: usize, first: u64) -> Option<(u64, usize, usize)> {
    let second = word(text, start + 8)? ^ ZEROS;
    let head = decimal_of(first)?;
    let count = match number_bytes(second) {
        0 => return Some((head.mantissa, head.places, start + 8)),
        count @ 1..8 => count,
        _ => return None,
    };
    let bytes = second << (64 - 8 * count);
    let tail = decimal_of(bytes)?;
    let (in_head, in_tail) = (has_point(first), has_point(bytes));
    let places = match (in_head, in_tail) {
        (true, true) => return None,
        (true, false) => head.places + count,
        (false, _) => tail.places,
    };
    let digits = count - usize::from(in_tail);
    Some((head.mantissa * TENS[digits] + tail.mantissa, places, start + 8 + count))
}

/// A point in a word less `ZEROS`.
const POINT: u64 = (b'.' ^ b'0') as u64;

/// The powers of ten for the up to fourteen places that fifteen bytes can have.
const POWERS_OF_TEN: [f64; 15] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14];

/// The high bits of bytes that are points. Those above the lowest may be false alarms.
#[inline]
fn points(word: u64) -> u64 {
    let others = word ^ (POINT * ONES);
    others.wrapping_sub(ONES) & !others & HIGH_BITS
}

#[inline]
fn has_point(word: u64) -> bool {
    points(word) != 0
}

/// The number of digits and points at the start of a word less `ZEROS`; it may be too large if a
/// byte behind a point is one that `decimal_of` refuses.
#[inline]
fn number_bytes(word: u64) -> usize {
    let others = (word.wrapping_add(0x76 * ONES) | word) & HIGH_BITS & !points(word);
    others.trailing_zeros() as usize / 8
}

/// A count of 17 to 19 digits that ends the line, and its end (line_scan-1): nanoseconds.
#[inline]
pub(super) fn long_count(text: &[u8], at: usize) -> Option<(i64, usize)> {
    let (first, second) = (word(text, at)? ^ ZEROS, word(text, at + 8)? ^ ZEROS);
    let third = word(text, at + 16)? ^ ZEROS;
    if !(all_digits(first) & all_digits(second)) {
        return None;
    }
    let count = digit_count(third);
    if !(1..=3).contains(&count) || text[at + 16 + count] != b'\n' {
        return None;
    }
    let head = number(first) * 100_000_000 + number(second);
    let value = head * TENS[count] + number(third << (64 - 8 * count));
    Some((i64::try_from(value).ok()?, at + 16 + count))
}

/// The end of name and tags: the first space or newline without a backslash before it. The second
/// value is true if there is a backslash.
#[inline]
pub(super) fn head_end(text: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start;
    let mut is_escaped = false;
    loop {
        at += memchr3(b' ', b'\n', b'\\', text.get(at..)?)?;
        if text[at] != b'\\' {
            return Some((at, is_escaped));
        }
        is_escaped = true;
        at += 2;
    }
}

/// Returns true if name and tags end in a carriage return without a backslash before it.
pub(super) fn ends_in_return(head: &[u8]) -> bool {
    let Some(rest) = head.strip_suffix(b"\r") else { return false };
    let backslashes = rest.iter().rev().take_while(|&&byte| byte == b'\\').count();
    backslashes.is_multiple_of(2)
}

/// The end of the key that begins at `start`; `None` if the text ends before.
pub(super) fn key_end(text: &[u8], start: usize) -> Option<KeyEnd> {
    let mut at = start;
    loop {
        match *text.get(at)? {
            b'=' => return Some(KeyEnd::Equals(at)),
            b' ' | b',' | b'\n' => return Some(KeyEnd::Other(at)),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The end of the string that begins at `start`, at its quote, and true if it contains a backslash;
/// `None` if the text ends before.
pub(super) fn string_end(text: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start;
    let mut is_escaped = false;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some((at, is_escaped));
        }
        is_escaped = true;
        at += 2;
    }
}

/// The end of the value or timestamp that begins at `start`, without a carriage return before the
/// newline.
pub(super) fn plain_end(text: &[u8], start: usize) -> Option<usize> {
    let end = start + memchr3(b',', b' ', b'\n', &text[start..])?;
    let has_return = text[end] == b'\n' && start < end && text[end - 1] == b'\r';
    Some(end - usize::from(has_return))
}

/// Appends a name, key or tag without its backslashes.
pub(super) fn unescape_name(text: &[u8], out: &mut Vec<u8>) {
    unescape(text, out, |byte| matches!(byte, b' ' | b',' | b'=' | b'\\' | b'\n' | b'\r'));
}

/// Appends a string without its backslashes: QuestDB's clients also put one before a carriage
/// return.
pub(super) fn unescape_string(text: &[u8], out: &mut Vec<u8>) {
    unescape(text, out, |byte| matches!(byte, b'"' | b'\\' | b'\n' | b'\r'));
}

fn unescape(text: &[u8], out: &mut Vec<u8>, is_special: impl Fn(u8) -> bool) {
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped = if byte == b'\\' { bytes.next_if(|&byte| is_special(byte)) } else { None };
        out.push(escaped.unwrap_or(byte));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::value_syntax::{RawValue, raw_value};
    use tidegate_model::ColumnType;

    /// Checks line_scan-1 and line_scan-2 for every short text over the bytes of numbers, with
    /// every possible byte behind it.
    #[test]
    fn quick_readers_agree_with_the_general_way() {
        let bytes = b"019-.i,n";
        let mut text = Vec::new();
        for number in 0..bytes.len().pow(5) {
            text.clear();
            let mut rest = number;
            for _ in 0..5 {
                text.push(bytes[rest % bytes.len()]);
                rest /= bytes.len();
            }
            agree(&text, b"");
            agree(&text, b"i ");
            agree(&text, b",a=0000000000000000000000");
            agree(&text, b"i\n000000000000000000000000");
            agree(&text, b"12345 0000000000000000000");
            agree(&text, b"123456789012i 00000000000");
            agree(&text, b"1234.678 0000000000000000");
        }
    }

    #[track_caller]
    fn agree(text: &[u8], behind: &[u8]) {
        let text = [text, behind].concat();
        let shown = String::from_utf8_lossy(&text);
        if let Some((value, end)) = integer(&text, 0) {
            assert_eq!(plain_end(&text, 0), Some(end), "{shown}");
            let raw = raw_value(&text[..end]).unwrap();
            assert!(matches!(raw, RawValue::Integer(_)), "{shown}");
            let cell = raw.cell(ColumnType::Int64).unwrap();
            assert_eq!(cell, crate::line::value_syntax::Cell::Integer(value.into()), "{shown}");
        }
        if let Some((value, end)) = double(&text, 0) {
            assert_eq!(plain_end(&text, 0), Some(end), "{shown}");
            let raw = raw_value(&text[..end]).unwrap();
            assert!(matches!(raw, RawValue::Float(_)), "{shown}");
            let expected: f64 = str::from_utf8(&text[..end]).unwrap().parse().unwrap();
            assert_eq!(value.to_bits(), expected.to_bits(), "{shown}");
        }
    }

    #[test]
    fn common_numbers_are_read_the_quick_way() {
        let behind = "                        ";
        let integer = |text: &str| integer(format!("{text}{behind}").as_bytes(), 0);
        assert_eq!(integer("58i"), Some((58, 3)));
        assert_eq!(integer("-1234567i"), Some((-1_234_567, 9)));
        assert_eq!(integer("12345678i"), Some((12_345_678, 9)));
        assert_eq!(integer("123456789012345i"), Some((123_456_789_012_345, 16)));
        assert_eq!(integer("58"), None);
        let double = |text: &str| double(format!("{text}{behind}").as_bytes(), 0);
        assert_eq!(double("5"), Some((5.0, 1)));
        assert_eq!(double("-52.3185"), Some((-52.3185, 8)));
        assert_eq!(double("-52.318541234567"), Some((-52.318541234567, 16)));
        assert_eq!(double("12345678.5"), Some((12_345_678.5, 10)));
        assert_eq!(double("123456789."), Some((123_456_789.0, 10)));
        assert_eq!(double("1234567.8.9"), None);
        assert_eq!(double("1e5"), None);
        assert_eq!(double("."), None);
        let count = |text: &str| long_count(format!("{text}\n{behind}").as_bytes(), 0);
        assert_eq!(count("1451606400000000000"), Some((1_451_606_400_000_000_000, 19)));
        assert_eq!(count("9999999999999999999"), None);
        assert_eq!(count("1451606400000000"), None);
    }
}
