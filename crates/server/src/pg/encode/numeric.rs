//! NUMERIC in its binary format: digits to the base of 10,000.

use bytes::{BufMut, BytesMut};

/// The decimal digits of a digit of the binary format.
const DIGITS: usize = 4;
const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;
/// The most digits of a NUMERIC on either side of the point: more than any column holds, and few
/// enough for a value to be cheap.
const DIGITS_MAX: usize = 1_000;

/// Appends the value of a decimal text: `-12.50`.
pub(super) fn put(text: &str, bytes: &mut BytesMut) {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    // The digits are grouped by four, from the point to either side.
    let first = whole.len() % DIGITS;
    let mut digits = Vec::with_capacity(text.len() / DIGITS + 2);
    let (head, rest) = whole.split_at(first);
    if !head.is_empty() {
        digits.push(group(head, 0));
    }
    digits.extend(rest.as_bytes().chunks(DIGITS).map(|it| value_of(it, 0)));
    let mut weight = i16::try_from(digits.len()).unwrap_or(i16::MAX) - 1;
    digits.extend(fraction.as_bytes().chunks(DIGITS).map(|it| value_of(it, DIGITS - it.len())));
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    weight -= i16::try_from(zeros).unwrap_or(0);
    while digits.last() == Some(&0) {
        digits.pop();
    }
    if digits.is_empty() {
        weight = 0;
    }
    let is_negative = is_negative && !digits.is_empty();
    bytes.put_u16(u16::try_from(digits.len()).unwrap_or(u16::MAX));
    bytes.put_i16(weight);
    bytes.put_u16(if is_negative { NEGATIVE } else { POSITIVE });
    bytes.put_u16(u16::try_from(fraction.len()).unwrap_or(u16::MAX));
    digits.iter().for_each(|&digit| bytes.put_u16(digit));
}

fn group(text: &str, zeros: usize) -> u16 {
    value_of(text.as_bytes(), zeros)
}

/// Returns the value of at most four decimal digits, followed by zeros.
fn value_of(digits: &[u8], zeros: usize) -> u16 {
    let value = digits.iter().fold(0, |value, digit| value * 10 + u16::from(digit - b'0'));
    (0..zeros).fold(value, |value, _| value * 10)
}

/// Returns the text of a binary value; `None` if it is malformed, or too long.
pub(crate) fn decimal_text(bytes: &[u8]) -> Option<String> {
    let half = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let (count, sign, scale) = (usize::from(half(0)?), half(4)?, usize::from(half(6)?));
    let weight = i32::from(half(2)?.cast_signed());
    if bytes.len() != 8 + 2 * count {
        return None;
    }
    match sign {
        POSITIVE | NEGATIVE => {}
        0xc000 => return Some("NaN".to_owned()),
        0xd000 => return Some("Infinity".to_owned()),
        0xf000 => return Some("-Infinity".to_owned()),
        _ => return None,
    }
    let digits = (0..count).map(|at| half(8 + 2 * at)).collect::<Option<Vec<_>>>()?;
    let limit = i32::try_from(DIGITS_MAX / DIGITS).unwrap_or(i32::MAX);
    if digits.iter().any(|digit| 9_999 < *digit) || limit < weight || DIGITS_MAX < scale {
        return None;
    }
    let digit_at = |at: i32| {
        let index = usize::try_from(weight - at).ok();
        index.and_then(|index| digits.get(index)).copied().unwrap_or(0)
    };
    let mut text = String::new();
    if sign == NEGATIVE {
        text.push('-');
    }
    let start = text.len();
    for at in (0..=weight.max(0)).rev() {
        text.push_str(&format!("{:04}", digit_at(at)));
    }
    let zeros = text[start..].bytes().take_while(|byte| *byte == b'0').count();
    text.drain(start..start + zeros.min(text.len() - start - 1));
    if 0 < scale {
        text.push('.');
        let point = text.len();
        for at in 1..=i32::try_from(scale.div_ceil(DIGITS)).ok()? {
            text.push_str(&format!("{:04}", digit_at(-at)));
        }
        text.truncate(point + scale);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[u16]) {
        let mut bytes = BytesMut::new();
        put(text, &mut bytes);
        let words = bytes.chunks(2).map(|it| u16::from_be_bytes([it[0], it[1]]));
        assert_eq!(words.collect::<Vec<_>>(), expected, "{text}");
        assert_eq!(decimal_text(&bytes).as_deref(), Some(text));
    }

    #[test]
    fn digits_are_grouped_from_the_point() {
        check("0", &[0, 0, 0, 0]);
        check("0.00", &[0, 0, 0, 2]);
        check("1", &[1, 0, 0, 0, 1]);
        check("-12345.678", &[3, 1, NEGATIVE, 3, 1, 2345, 6780]);
        check("10000", &[1, 1, 0, 0, 1]);
        check("0.0001", &[1, 0xffff, 0, 4, 1]);
        check("0.00000012", &[1, 0xfffe, 0, 8, 12]);
        check("18446744073709551615", &[5, 4, 0, 0, 1844, 6744, 737, 955, 1615]);
    }

    #[test]
    fn malformed_numbers_are_none() {
        for words in [&[1, 0, 0, 0][..], &[1, 0, 0, 0, 10_000], &[0, 0, 1, 0], &[1, 9_999, 0, 0, 1]]
        {
            let bytes = words.iter().flat_map(|word: &u16| word.to_be_bytes()).collect::<Vec<_>>();
            assert_eq!(decimal_text(&bytes), None, "{words:?}");
        }
        assert_eq!(decimal_text(&[0, 0, 0, 0, 0xc0, 0, 0, 0]).as_deref(), Some("NaN"));
        assert_eq!(decimal_text(b""), None);
    }
}
