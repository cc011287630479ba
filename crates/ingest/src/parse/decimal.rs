//! Parser of DECIMAL(p, s): text becomes the integer `n` of `n / 10^s`, rounded half away from
//! zero.

use super::swar::{Decimal, POWERS_OF_TEN, short_decimal};
use super::{CellError, without_margin};

/// Parses a DECIMAL: digits with a sign, a point and an exponent.
///
/// # Errors
/// `NotADecimal`; `OutOfRange` if it has more than `precision` digits after rounding.
///
/// # Panics
/// If `precision` is not 1 to 38, or `scale` is above it.
#[inline]
pub fn parse_decimal(text: &[u8], precision: u8, scale: u8) -> Result<i128, CellError> {
    assert!((1..=38).contains(&precision) && scale <= precision, "DECIMAL({precision},{scale})");
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, text),
    };
    let magnitude = match short_decimal(digits).or_else(|| plain_decimal(digits)) {
        Some(decimal) => rescale(decimal, scale),
        None => parse_any(digits, scale),
    };
    match magnitude {
        Ok(magnitude) if magnitude < POWERS_OF_TEN[usize::from(precision)] => {
            let value = magnitude.cast_signed();
            Ok(if negative { -value } else { value })
        }
        Ok(_) => Err(CellError::OutOfRange),
        Err(CellError::NotADecimal) => without_margin(text)
            .map_or(Err(CellError::NotADecimal), |text| parse_decimal(text, precision, scale)),
        Err(error) => Err(error),
    }
}

/// Parses up to nineteen bytes of digits with at most one point; `None` for everything else.
fn plain_decimal(text: &[u8]) -> Option<Decimal> {
    if !(2..=19).contains(&text.len()) {
        return None;
    }
    let (mut mantissa, mut point) = (0, None);
    for (position, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => mantissa = mantissa * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(position),
            _ => return None,
        }
    }
    Some(Decimal { mantissa, places: point.map_or(0, |point| text.len() - 1 - point) })
}

#[inline]
fn rescale(decimal: Decimal, scale: u8) -> Result<u128, CellError> {
    let Decimal { mantissa, places } = decimal;
    let (mantissa, scale) = (u128::from(mantissa), usize::from(scale));
    if scale < places {
        // A power of ten above 1 is even: half of it is exact.
        let divisor = POWERS_OF_TEN[places - scale];
        return Ok((mantissa + divisor / 2) / divisor);
    }
    mantissa.checked_mul(POWERS_OF_TEN[scale - places]).ok_or(CellError::OutOfRange)
}

/// The parts of a number of any length: `0.digits * 10^point`.
struct Parts<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

fn parse_any(text: &[u8], scale: u8) -> Result<u128, CellError> {
    let parts = split(text).ok_or(CellError::NotADecimal)?;
    let mut digits = parts.whole.iter().chain(parts.fraction).map(|digit| digit - b'0').peekable();
    let mut point = i64::try_from(parts.whole.len()).expect("a cell is shorter than 2^63 bytes");
    while digits.next_if_eq(&0).is_some() {
        point -= 1;
    }
    if digits.peek().is_none() {
        return Ok(0);
    }
    // The number of digits that are kept, counted from the first that is not zero.
    let kept = point.saturating_add(parts.exponent).saturating_add(i64::from(scale));
    if kept > 38 {
        return Err(CellError::OutOfRange);
    }
    if kept < 0 {
        return Ok(0);
    }
    let mut magnitude = 0_u128;
    for _ in 0..kept {
        magnitude = magnitude * 10 + u128::from(digits.next().unwrap_or(0));
    }
    Ok(magnitude + u128::from(digits.next().is_some_and(|next| 5 <= next)))
}

fn split(text: &[u8]) -> Option<Parts<'_>> {
    let mantissa_len = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match mantissa_len {
        Some(len) => (&text[..len], parse_exponent(&text[len + 1..])?),
        None => (text, 0),
    };
    let whole_len = mantissa.iter().position(|&byte| byte == b'.').unwrap_or(mantissa.len());
    let (whole, fraction) = mantissa.split_at(whole_len);
    let fraction = fraction.strip_prefix(b".").unwrap_or(fraction);
    let all_digits = whole.iter().chain(fraction).all(u8::is_ascii_digit);
    let is_number = all_digits && !(whole.is_empty() && fraction.is_empty());
    is_number.then_some(Parts { whole, fraction, exponent })
}

/// Parses an exponent. It saturates far beyond any scale: there a number is zero or out of range
/// anyway.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let exponent = digits.iter().fold(0_i64, |value, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
    });
    Some(if negative { -exponent } else { exponent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shape: (u8, u8), expected: &str) {
        let actual = parse_decimal(text.as_bytes(), shape.0, shape.1);
        let actual = actual.map_or_else(|error| error.to_string(), |value| value.to_string());
        assert_eq!(actual, expected, "{text:?} as {shape:?}");
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        check("1.5", (18, 0), "2");
        check("2.5", (18, 0), "3");
        check("-2.5", (18, 0), "-3");
        check("2.4999999999999999999999", (18, 0), "2");
        check("0.0005", (18, 3), "1");
        check("-0.0005", (18, 3), "-1");
        check("0.00049", (18, 3), "0");
        check("0.5", (1, 0), "1");
        check("0.05e1", (1, 0), "1");
        check("0.049e1", (1, 0), "0");
    }

    #[test]
    fn shapes_bound_the_value_after_rounding() {
        check("999.994", (5, 2), "99999");
        check("999.995", (5, 2), "out of range");
        check("-1000", (5, 2), "out of range");
        check("99999999999999999999999999999999999999", (38, 0), &"9".repeat(38));
        check("99999999999999999999999999999999999999.5", (38, 0), "out of range");
        check("0.99999999999999999999999999999999999999", (38, 38), &"9".repeat(38));
        check("1", (38, 38), "out of range");
        check("1e37", (38, 0), &format!("1{}", "0".repeat(37)));
        check("1e38", (38, 0), "out of range");
        check("1e99999999999999999999", (38, 0), "out of range");
        check("1e-99999999999999999999", (38, 0), "0");
        check("0e99999999999999999999", (38, 0), "0");
    }

    #[test]
    fn forms_of_a_decimal() {
        check("12.34", (18, 3), "12340");
        check("+12.34", (18, 3), "12340");
        check(" 12.34 ", (18, 3), "12340");
        check(".5", (18, 3), "500");
        check("5.", (18, 3), "5000");
        check("1.5e2", (18, 3), "150000");
        check("-00000000000000000001", (18, 0), "-1");
        for text in
            ["", " ", ".", "-", "e5", "1e", "1e+", "1.2.3", "abc", "NaN", "1e5x", "--1", "1,5"]
        {
            check(text, (18, 3), "not a decimal number");
        }
    }
}
