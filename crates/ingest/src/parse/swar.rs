//! Parsing of digits eight at a time: a word holds eight bytes of text, the first of them lowest.
//!
//! - swar-1. A word of digits has every byte in 0..=9: the text minus `'0'`.
//! - swar-2. Digits are aligned to the end of their word; the bytes before them are zero, and so
//!   count as leading zeros.
//!
//! Source of the multiplications: J. Hoeksema, "Faster integer parsing"; D. Lemire, "Quickly
//! parsing eight digits".

/// `'0'` in each byte.
pub(crate) const ZEROS: u64 = 0x3030_3030_3030_3030;
pub(crate) const ONES: u64 = 0x0101_0101_0101_0101;
pub(crate) const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Returns true if a word consists of digits (swar-1).
#[inline]
pub(crate) fn all_digits(word: u64) -> bool {
    // A byte above 127 shows its own high bit, so that its carry into the next byte has no effect
    // on the result.
    (word.wrapping_add(0x76 * ONES) | word) & HIGH_BITS == 0
}

/// The number of a word of digits (swar-1, swar-2).
#[inline]
pub(crate) fn number(digits: u64) -> u64 {
    // The digits are joined to pairs, the pairs to fours, then both halves.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let even = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(100 | 1_000_000 << 32);
    let odd = ((pairs >> 16) & 0x0000_00FF_0000_00FF).wrapping_mul(1 | 10_000 << 32);
    even.wrapping_add(odd) >> 32
}

/// Eight bytes from `offset` on.
#[inline]
pub(crate) fn word_at<const N: usize>(bytes: &[u8; N], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes were taken"))
}

/// A word of one to eight bytes, aligned to its start; zeros follow.
#[inline]
pub(crate) fn short_word(text: &[u8]) -> u64 {
    let len = text.len();
    debug_assert!((1..=8).contains(&len), "one word");
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        u64::from(first) | u64::from(last) << (8 * (len - 4))
    } else {
        let middle = len / 2;
        u64::from(text[0])
            | u64::from(text[middle]) << (8 * middle)
            | u64::from(text[len - 1]) << (8 * (len - 1))
    }
}

/// A word of one to eight bytes of text minus `'0'`, aligned (swar-2): digits if `all_digits` is
/// true.
#[inline]
pub(crate) fn digits_of(text: &[u8]) -> u64 {
    (short_word(text) ^ ZEROS) << (64 - 8 * text.len())
}

/// A number with at most one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    /// All digits as one number.
    pub(crate) mantissa: u64,
    /// The number of digits behind the point.
    pub(crate) places: usize,
}

/// Parses up to eight bytes of digits with at most one point; `None` for everything else.
#[inline]
pub(crate) fn short_decimal(text: &[u8]) -> Option<Decimal> {
    match text.len() {
        1 if text == b"." => None,
        1..=8 => decimal_of(digits_of(text)),
        _ => None,
    }
}

/// The byte of `'.'` in a word less `ZEROS`.
const POINT: u8 = b'.' ^ b'0';

/// Parses a word of digits, one of which may be a point.
#[inline]
pub(crate) fn decimal_of(word: u64) -> Option<Decimal> {
    let others = word ^ (u64::from(POINT) * ONES);
    // The lowest zero byte is found exactly; those above it may be false alarms.
    let found = others.wrapping_sub(ONES) & !others & HIGH_BITS;
    let found = found & found.wrapping_neg();
    // The digits before the point move over it. Without a point nothing moves.
    let before = (found >> 7).wrapping_sub(1);
    let behind = !(found | found.wrapping_sub(1));
    let move_by = if found == 0 { 0 } else { 8 };
    let digits = (word & before) << move_by | (word & behind);
    let places = behind.count_ones() as usize / 8;
    all_digits(digits).then(|| Decimal { mantissa: number(digits), places })
}

/// `10^exponent`, up to the maximum of a DECIMAL.
pub(crate) const POWERS_OF_TEN: [u128; 39] = {
    let mut powers = [1; 39];
    let mut exponent = 1;
    while exponent < 39 {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_is_a_digit_or_not() {
        for place in 0..8 {
            for byte in 0..=u8::MAX {
                let mut text = *b"12345678";
                text[place] = byte;
                let digits = digits_of(&text);
                assert_eq!(all_digits(digits), byte.is_ascii_digit(), "{byte} at {place}");
            }
        }
    }

    #[test]
    fn numbers_of_one_to_eight_digits() {
        for value in (0..100_000_000_u64).step_by(9_973).chain([0, 9, 10, 99_999_999]) {
            for text in [value.to_string(), format!("{value:08}")] {
                let digits = digits_of(text.as_bytes());
                assert!(all_digits(digits));
                assert_eq!(number(digits), value);
            }
        }
    }

    #[test]
    fn a_point_may_stand_anywhere_once() {
        for len in 1..=8 {
            let digits = &b"98765432"[..len];
            let value = |digits: &[u8]| {
                digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
            };
            let expected = Decimal { mantissa: value(digits), places: 0 };
            assert_eq!(short_decimal(digits), Some(expected));
            for point in 0..len {
                let mut text = digits.to_vec();
                text[point] = b'.';
                let without = [&digits[..point], &digits[point + 1..]].concat();
                let expected = Decimal { mantissa: value(&without), places: len - 1 - point };
                let expected = (1 < len).then_some(expected);
                assert_eq!(short_decimal(&text), expected, "{text:?}");
                for second in (0..len).filter(|&second| second != point) {
                    let mut text = text.clone();
                    text[second] = b'.';
                    assert_eq!(short_decimal(&text), None, "{text:?}");
                }
            }
        }
    }
}
