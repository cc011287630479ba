//! Numbers, times and bytes as text, faster than `fmt`: most of the time of a large result is spent
//! on them.
//!
//! - scalars-1. The text of an integer, and of a float of few digits in the style of ISO 8601, is
//!   that of `fmt`.
//! - scalars-2. The text of a float has the fewest digits that are parsed as the same float; of two
//!   such texts that are equally near, it is the one with an even last digit, as in PostgreSQL.

use std::fmt::Write;

use tidegate_model::time::CivilDate;

/// The style of floats and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// ISO 8601 with all digits of the unit, and floats as Rust prints them.
    Iso,
    /// As PostgreSQL prints them.
    Postgres,
}

/// The reason why writes cannot fail: writers are a `String` or a `BytesMut`.
const TAKES_ALL: &str = "memory takes every text";

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

/// Returns the digits of a number below 100.
#[inline]
pub(crate) fn two_digits(value: u64) -> [u8; 2] {
    let pair = 2 * usize::try_from(value).expect("below 100");
    [PAIRS[pair], PAIRS[pair + 1]]
}

/// Appends an integer.
pub(crate) fn push_integer(value: i128, text: &mut impl Write) {
    if value < 0 {
        text.write_char('-').expect(TAKES_ALL);
    }
    let value = u64::try_from(value.unsigned_abs()).expect("an integer of 64 bits");
    push_padded(value, 1, text);
}

/// Appends a number with at least this many digits.
pub(crate) fn push_padded(mut value: u64, digits: usize, text: &mut impl Write) {
    let mut buffer = [b'0'; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    while 10 <= value {
        buffer[at - 2..at].copy_from_slice(&two_digits(value % 100));
        value /= 100;
        at -= 2;
    }
    if 0 < value {
        at -= 1;
        let [_, digit] = two_digits(value);
        buffer[at] = digit;
    }
    let start = at.min(DIGITS_MAX - digits);
    text.write_str(str::from_utf8(&buffer[start..]).expect("digits are ASCII")).expect(TAKES_ALL);
}

/// The powers of ten that are tried as denominators.
const PLACES: [f64; 7] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
/// The last of them.
const FINEST: f64 = 1e6;
/// Below it, texts of 15 digits are different floats, and every integer is exact.
const EXACT: f64 = 1e15;
/// Below it, `fmt` writes an exponent.
const SMALL: f64 = 1e-4;

/// Appends a float, if it has few digits; otherwise appends nothing.
///
/// A float that is the nearest to `n / 10^k`, with an `n` of at most 15 digits, is written with the
/// digits of `n`: no other float has the same digits, and with the least `k` they are the fewest.
fn push_short(value: f64, style: Style, text: &mut impl Write) -> bool {
    let size = value.abs();
    if !(SMALL..EXACT).contains(&size) {
        return false;
    }
    // One division recognises most floats with more digits.
    let finest = (size * FINEST).round();
    if finest < EXACT && finest / FINEST != size {
        return false;
    }
    for (places, scale) in PLACES.iter().enumerate() {
        let scaled = (size * scale).round();
        if EXACT <= scaled {
            return false;
        }
        // Numbers and powers of ten are exact, so that the quotient is the nearest float.
        if scaled / scale == size {
            let is_negative = value.is_sign_negative();
            push_decimal(scaled, places, is_negative, style, text);
            return true;
        }
    }
    false
}

fn push_decimal(
    scaled: f64,
    places: usize,
    is_negative: bool,
    style: Style,
    text: &mut impl Write,
) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 10^15")]
    let number = scaled as u64;
    let scale = 10_u64.pow(u32::try_from(places).expect("a few"));
    if is_negative {
        text.write_char('-').expect(TAKES_ALL);
    }
    push_padded(number / scale, 1, text);
    if 0 < places || style == Style::Iso {
        text.write_char('.').expect(TAKES_ALL);
        push_padded(number % scale, places.max(1), text);
    }
}

/// Appends a float with the fewest digits that are parsed as the same value.
pub(crate) fn push_float<F: Copy + Into<f64> + zmij::Float>(
    value: F,
    style: Style,
    text: &mut impl Write,
) {
    let wide: f64 = value.into();
    let written = if wide.is_nan() {
        text.write_str("NaN")
    } else if wide.is_infinite() {
        text.write_str(if wide < 0.0 { "-Infinity" } else { "Infinity" })
    } else if size_of::<F>() == size_of::<f64>() && push_short(wide, style, text) {
        Ok(())
    } else {
        Shortest::of(value).push(size_of::<F>(), style, text)
    };
    written.expect(TAKES_ALL);
}

/// The fewest digits that are parsed as the same finite float.
struct Shortest {
    is_negative: bool,
    /// Without zeros at both ends; none for 0.
    digits: [u8; DIGITS_MAX],
    count: usize,
    /// The power of ten of the first digit.
    exponent: i32,
}

impl Shortest {
    fn of(value: impl zmij::Float) -> Shortest {
        let mut buffer = zmij::Buffer::new();
        let (mantissa, written) = split(buffer.format_finite(value));
        let mut shortest = Shortest {
            is_negative: mantissa.first() == Some(&b'-'),
            digits: [0; DIGITS_MAX],
            count: 0,
            exponent: written - 1,
        };
        // The zeros after the last other digit, which only count if one more follows.
        let (mut zeros, mut is_fraction) = (0, false);
        for &byte in mantissa {
            match byte {
                b'.' => is_fraction = true,
                b'0' if shortest.count == 0 => shortest.exponent -= i32::from(is_fraction),
                b'0'..=b'9' => {
                    shortest.exponent += i32::from(!is_fraction);
                    zeros += 1;
                    if byte != b'0' {
                        shortest.count += zeros;
                        shortest.digits[shortest.count - zeros..shortest.count].fill(b'0');
                        shortest.digits[shortest.count - 1] = byte;
                        zeros = 0;
                    }
                }
                _ => {}
            }
        }
        shortest
    }

    /// Appends the digits of a float of `width` bytes: PostgreSQL has an exponent from 6 or
    /// 15 digits before the point on, `fmt` from 16.
    fn push(&self, width: usize, style: Style, text: &mut impl Write) -> std::fmt::Result {
        let (digits, exponent) = (&self.digits[..self.count], self.exponent);
        let digits = str::from_utf8(digits).expect("digits are ASCII");
        if self.is_negative {
            text.write_char('-')?;
        }
        if digits.is_empty() {
            return text.write_str(if style == Style::Iso { "0.0" } else { "0" });
        }
        let exponent_from = match style {
            Style::Iso => 16,
            Style::Postgres if width == size_of::<f64>() => 15,
            Style::Postgres => 6,
        };
        if exponent < -4 || exponent_from <= exponent {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            return match style {
                Style::Iso => write!(text, "{first}{point}{rest}e{exponent}"),
                Style::Postgres => write!(text, "{first}{point}{rest}e{exponent:+03}"),
            };
        }
        let Ok(before) = usize::try_from(exponent + 1) else {
            text.write_str(&"0.0000"[..2 + exponent.unsigned_abs() as usize - 1])?;
            return text.write_str(digits);
        };
        if before == 0 {
            text.write_str("0.")?;
            return text.write_str(digits);
        }
        let (whole, fraction) = digits.split_at(before.min(digits.len()));
        text.write_str(whole)?;
        for _ in whole.len()..before {
            text.write_char('0')?;
        }
        match (fraction, style) {
            ("", Style::Iso) => text.write_str(".0"),
            ("", Style::Postgres) => Ok(()),
            (fraction, _) => {
                text.write_char('.')?;
                text.write_str(fraction)
            }
        }
    }
}

/// Returns the mantissa of a float's text, and its exponent.
fn split(text: &str) -> (&[u8], i32) {
    match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa.as_bytes(), exponent.parse().expect("a number")),
        None => (text.as_bytes(), 0),
    }
}

/// Appends an instant, which counts seconds with `digits` decimals, in UTC:
/// `2025-03-01T00:00:00.500000Z`, or `2025-03-01 00:00:00.5`.
pub(crate) fn push_instant(value: i64, digits: usize, style: Style, text: &mut impl Write) {
    let per_second = (0..digits).fold(1_i64, |product, _| product * 10);
    let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    push_date(seconds.div_euclid(86_400), style, text);
    text.write_char(if style == Style::Iso { 'T' } else { ' ' }).expect(TAKES_ALL);
    push_clock(seconds.rem_euclid(86_400).unsigned_abs(), text);
    push_fraction(fraction.unsigned_abs(), digits, style, text);
    if style == Style::Iso {
        text.write_char('Z').expect(TAKES_ALL);
    }
}

/// Appends `04:05:06`.
pub(crate) fn push_clock(seconds: u64, text: &mut impl Write) {
    push_padded(seconds / 3_600, 2, text);
    for part in [seconds / 60 % 60, seconds % 60] {
        text.write_char(':').expect(TAKES_ALL);
        push_padded(part, 2, text);
    }
}

/// Appends a time of day, which counts seconds with `digits` decimals: `04:05:06.5`, or
/// `04:05:06.500`. One beyond a day has more hours, and one before it a minus.
pub(crate) fn push_time(value: i64, mut digits: usize, style: Style, text: &mut impl Write) {
    let per_second = (0..digits).fold(1_u64, |product, _| product * 10);
    let size = value.unsigned_abs();
    let mut fraction = size % per_second;
    // Milliseconds, if those are all.
    while style == Style::Iso && 3 <= digits && fraction.is_multiple_of(1_000) {
        (fraction, digits) = (fraction / 1_000, digits - 3);
    }
    if value < 0 {
        text.write_char('-').expect(TAKES_ALL);
    }
    push_clock(size / per_second, text);
    push_fraction(fraction, digits, style, text);
}

/// Appends the decimals of a second; in PostgreSQL's style without zeros at their end.
pub(crate) fn push_fraction(
    mut fraction: u64,
    mut digits: usize,
    style: Style,
    text: &mut impl Write,
) {
    if style == Style::Postgres {
        while 0 < digits && fraction.is_multiple_of(10) {
            (fraction, digits) = (fraction / 10, digits - 1);
        }
    }
    if 0 < digits {
        text.write_char('.').expect(TAKES_ALL);
        push_padded(fraction, digits, text);
    }
}

/// Appends a date. In PostgreSQL's style the years before the year 1 count backwards: the caller
/// marks them.
pub(crate) fn push_date(days: i64, style: Style, text: &mut impl Write) {
    let CivilDate { year, month, day } = CivilDate::from_days(days);
    let year = if style == Style::Postgres && year < 1 { 1 - year } else { year };
    match u64::try_from(year) {
        Ok(year) => push_padded(year, 4, text),
        Err(_) => write!(text, "{year:04}").expect(TAKES_ALL),
    }
    for part in [month, day] {
        text.write_char('-').expect(TAKES_ALL);
        push_padded(part.into(), 2, text);
    }
}

/// Appends bytes as hex digits.
pub(crate) fn push_hex(bytes: &[u8], text: &mut impl Write) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for chunk in bytes.chunks(64) {
        let mut digits = [0; 128];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(chunk) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        let digits = str::from_utf8(&digits[..2 * chunk.len()]).expect("digits are ASCII");
        text.write_str(digits).expect(TAKES_ALL);
    }
}

/// Returns bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push_hex(bytes, &mut text);
    text
}

/// Appends the 16 bytes of a UUID, with hyphens.
pub(crate) fn push_uuid(bytes: &[u8], text: &mut impl Write) {
    for (position, part) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
        if 0 < position {
            text.write_char('-').expect(TAKES_ALL);
        }
        push_hex(&bytes[part], text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_float(value: f64) {
        let mut text = String::new();
        if push_short(value, Style::Iso, &mut text) {
            assert_eq!(text, format!("{value:?}"), "scalars-1");
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
                assert_eq!(text, value.to_string(), "scalars-1");
            }
        }
        let mut text = String::new();
        push_padded(7, 6, &mut text);
        push_padded(1_234_567, 6, &mut text);
        assert_eq!(text, "0000071234567", "scalars-1");
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
        assert!(push_short(1234.5, Style::Iso, &mut text), "the quick way is taken");
    }

    #[test]
    fn floats_of_many_digits_are_as_fmt_has_them() {
        // A simple generator of all bits, and the floats around powers of ten and two.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state ^ state >> 29
        };
        let random = (0..200_000).map(|_| f64::from_bits(next()));
        let powers = (-320..309).map(|power| format!("1e{power}").parse::<f64>().unwrap());
        let near = powers.flat_map(|it| [it, it.next_up(), it.next_down(), -it, it / 3.0]);
        let means = (1..20_000).map(|count| f64::from(count * 37 % 1_001) / f64::from(count));
        for value in random.chain(near).chain(means).filter(|value| value.is_finite()) {
            let mut text = String::new();
            Shortest::of(value).push(8, Style::Iso, &mut text).unwrap();
            check_shortest(&text, value, &format!("{value:?}"));
            let mut text = String::new();
            Shortest::of(value).push(8, Style::Postgres, &mut text).unwrap();
            assert_eq!(text.parse(), Ok(value), "{text}");
            #[expect(clippy::cast_possible_truncation, reason = "any float of the type")]
            let narrow = value as f32;
            if narrow.is_finite() {
                let mut text = String::new();
                Shortest::of(narrow).push(4, Style::Iso, &mut text).unwrap();
                check_shortest(&text, narrow, &format!("{narrow:?}"));
            }
        }
    }

    /// Checks a text beside that of `fmt`, which may end with another digit: that of the text is
    /// even if two are as near.
    #[track_caller]
    fn check_shortest<F: std::str::FromStr + PartialEq>(text: &str, value: F, fmt: &str) {
        assert!(text.parse().is_ok_and(|read: F| read == value), "scalars-2: {text}, {fmt}");
        let all_but_last =
            |text: &str| text.split('e').next().map(|it| it[..it.len() - 1].to_owned());
        assert_eq!(all_but_last(text), all_but_last(fmt), "scalars-2");
    }

    #[test]
    fn floats_in_the_style_of_postgresql_have_the_fewest_digits() {
        fn shown(value: impl Copy + Into<f64> + zmij::Float) -> String {
            let mut text = String::new();
            push_float(value, Style::Postgres, &mut text);
            text
        }
        let postgres = |value: f64| shown(value);
        for (value, expected) in [
            (0.1, "0.1"),
            (3.0, "3"),
            (-0.0, "-0"),
            (100_000.0, "100000"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1e300, "1e+300"),
            (5e-324, "5e-324"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (1_234.5, "1234.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-1_234.567_890_123_45, "-1234.56789012345"),
            (123_456_789_012_345.67, "123456789012345.67"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(postgres(value), expected);
        }
        let postgres = |value: f32| shown(value);
        assert_eq!(postgres(16_777_216_f32), "1.6777216e+07");
        assert_eq!(postgres(0.1_f32), "0.1");
    }
}
