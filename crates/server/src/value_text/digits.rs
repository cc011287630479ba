//! Numbers as digits, faster than `fmt`: most of the time of a large result is spent on them.
//!
//! - DG1. The text is the same as that of `fmt`.

/// The digits of 0 to 99.
#[expect(clippy::cast_possible_truncation, reason = "0 to 9")]
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[2 * number] = b'0' + (number / 10) as u8;
        pairs[2 * number + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

/// The most digits of a number of 64 bits.
const DIGITS_MAX: usize = 20;

/// Appends an integer.
pub(super) fn push_integer(value: i128, text: &mut String) {
    if value < 0 {
        text.push('-');
    }
    let value = u64::try_from(value.unsigned_abs()).expect("an integer of 64 bits");
    push_padded(value, 1, text);
}

/// Appends a number with at least this many digits.
pub(super) fn push_padded(mut value: u64, digits: usize, text: &mut String) {
    let mut buffer = [b'0'; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    while 10 <= value {
        let pair = 2 * usize::try_from(value % 100).expect("below 100");
        buffer[at - 2..at].copy_from_slice(&PAIRS[pair..pair + 2]);
        value /= 100;
        at -= 2;
    }
    if 0 < value {
        at -= 1;
        buffer[at] = PAIRS[2 * usize::try_from(value).expect("below 10") + 1];
    }
    let start = at.min(DIGITS_MAX - digits);
    text.push_str(str::from_utf8(&buffer[start..]).expect("digits are ASCII"));
}

/// The powers of ten that are tried as denominators.
const PLACES: [f64; 7] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
/// Below it, each text of 15 digits is a different float, and every integer is exact.
const EXACT: f64 = 1e15;
/// Below it, `fmt` writes an exponent.
const SMALL: f64 = 1e-4;

/// Appends a float as `{:?}` does, if it has few digits; otherwise appends nothing.
///
/// A float that is the nearest to `n / 10^k`, with an `n` of at most 15 digits, is written by
/// these: no other float has them, and with the least `k` they are the fewest.
pub(super) fn push_short(value: f64, text: &mut String) -> bool {
    let size = value.abs();
    if !(SMALL..EXACT).contains(&size) {
        return false;
    }
    for (places, scale) in PLACES.iter().enumerate() {
        let scaled = (size * scale).round();
        if EXACT <= scaled {
            return false;
        }
        // Numbers and powers of ten are exact, so that the quotient is the nearest float.
        if scaled / scale == size {
            push_decimal(scaled, places, value.is_sign_negative(), text);
            return true;
        }
    }
    false
}

fn push_decimal(scaled: f64, places: usize, is_negative: bool, text: &mut String) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 10^15")]
    let number = scaled as u64;
    let scale = 10_u64.pow(u32::try_from(places).expect("a few"));
    if is_negative {
        text.push('-');
    }
    push_padded(number / scale, 1, text);
    text.push('.');
    push_padded(number % scale, places.max(1), text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_float(value: f64) {
        let mut text = String::new();
        if push_short(value, &mut text) {
            assert_eq!(text, format!("{value:?}"), "DG1");
        } else {
            assert_eq!(text, "");
        }
    }

    #[test]
    fn integers_are_as_fmt_has_them() {
        for value in [0, 1, 9, 10, 99, 100, 12_345, i128::from(u64::MAX), i128::from(i64::MIN)] {
            for value in [value, -value] {
                if value < i128::from(i64::MIN) {
                    continue;
                }
                let mut text = String::new();
                push_integer(value, &mut text);
                assert_eq!(text, value.to_string(), "DG1");
            }
        }
        let mut text = String::new();
        push_padded(7, 6, &mut text);
        push_padded(1_234_567, 6, &mut text);
        assert_eq!(text, "0000071234567", "DG1");
    }

    #[test]
    fn floats_are_as_fmt_has_them() {
        for value in [0.1, 1.5, 100.0, 1e-5, 9.9e-6, 123_456.789_012, 1e15, 0.3, 0.1 + 0.2, 2.5e-5]
        {
            check_float(value);
            check_float(-value);
        }
        // A simple generator: all bits, and numbers of few digits.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            check_float(f64::from_bits(state));
            let digits = (state >> 20) % 10_u64.pow(u32::try_from(state % 16).expect("small"));
            let places = i32::try_from(state >> 60).expect("small");
            check_float(digits as f64 / 10_f64.powi(places));
        }
        let mut text = String::new();
        assert!(push_short(1234.5, &mut text), "the quick way is taken");
    }
}
