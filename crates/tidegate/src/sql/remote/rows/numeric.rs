//! Decoding of PostgreSQL's binary NUMERIC to digits.
//!
//! The binary form has the number of groups of four digits, the weight of the first group, a sign,
//! the number of digits shown behind the point, and the groups; groups of zeros at both ends are
//! left out.

const NEGATIVE: u16 = 0x4000;
const POSITIVE: u16 = 0;
const NAN: u16 = 0xc000;
const GROUP_DIGITS: usize = 4;
/// Highest precision of a DECIMAL of Arrow.
const PRECISION_MAX: i32 = 76;
/// Most groups before or behind the point that are written out; PostgreSQL has no more digits.
const GROUPS_MAX: i32 = 1 << 15;

/// Returns precision and scale of a column, if its modifier has them.
pub(super) fn digits(modifier: i32) -> Option<(u8, i8)> {
    let packed = modifier.checked_sub(4).filter(|packed| 0 <= *packed)?;
    let (precision, scale) = (packed >> 16, packed & 0xffff);
    if precision == 0 || PRECISION_MAX < precision || precision < scale {
        return None;
    }
    Some((u8::try_from(precision).ok()?, i8::try_from(scale).ok()?))
}

/// Returns the digits without the point, with `scale` of them behind it; `None` if there are more.
pub(super) fn scaled(value: &[u8], scale: i8) -> Option<String> {
    let Parts { is_negative, before, behind } = parts(value)?;
    let scale = usize::try_from(scale).ok()?;
    let behind = behind.trim_end_matches('0');
    let missing = scale.checked_sub(behind.len())?;
    let sign = if is_negative { "-" } else { "" };
    Some(format!("{sign}{before}{behind}{}", "0".repeat(missing)))
}

/// Returns the text of a value as PostgreSQL shows it.
pub(super) fn text(value: &[u8]) -> Option<String> {
    if u16_at(value, 2)? == NAN {
        return Some("NaN".to_owned());
    }
    let shown = usize::from(u16_at(value, 3)?);
    let Parts { is_negative, before, behind } = parts(value)?;
    let sign = if is_negative { "-" } else { "" };
    let before = match before.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let behind = behind.get(..shown).map_or_else(|| format!("{behind:0<shown$}"), str::to_owned);
    let point = if behind.is_empty() { "" } else { "." };
    Some(format!("{sign}{before}{point}{behind}"))
}

struct Parts {
    is_negative: bool,
    before: String,
    behind: String,
}

fn parts(value: &[u8]) -> Option<Parts> {
    let count = usize::from(u16_at(value, 0)?);
    let weight = i32::from(u16_at(value, 1)?.cast_signed());
    let is_negative = match u16_at(value, 2)? {
        POSITIVE => false,
        NEGATIVE => true,
        _ => return None,
    };
    let groups = value.get(8..)?;
    if groups.len() != count * 2 || weight.abs() > GROUPS_MAX {
        return None;
    }
    let (mut before, mut behind) = (String::from("0"), String::new());
    // Groups of zeros that were left out before the first group.
    behind.extend(std::iter::repeat_n("0000", usize::try_from(-1 - weight).unwrap_or(0)));
    let mut place = weight;
    for group in groups.chunks_exact(2) {
        let group = u16::from_be_bytes(group.try_into().ok()?);
        if group > 9_999 {
            return None;
        }
        let side = if place >= 0 { &mut before } else { &mut behind };
        side.push_str(&format!("{group:0GROUP_DIGITS$}"));
        place -= 1;
    }
    // Groups of zeros that were left out behind the last group.
    before.extend(std::iter::repeat_n("0000", usize::try_from(place + 1).unwrap_or(0)));
    Some(Parts { is_negative, before, behind })
}

fn u16_at(value: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(value.get(at * 2..at * 2 + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(words: &[i32]) -> Vec<u8> {
        let low = |word: &i32| u16::try_from(word & 0xffff).unwrap().to_be_bytes();
        words.iter().flat_map(low).collect()
    }

    #[test]
    fn groups_become_digits() {
        for (words, scale, expected, shown) in [
            (&[2, 0, 0, 3, 12, 5_000][..], 3, "12500".to_owned(), "12.500"),
            (&[0, 0, 0, 2], 2, "000".to_owned(), "0.00"),
            (&[1, -2, 0x4000, 8, 42], 8, "-000000042".to_owned(), "-0.00000042"),
            (&[1, 1, 0, 0, 7], 0, "000070000".to_owned(), "70000"),
        ] {
            let bytes = numeric(words);
            let digits = scaled(&bytes, scale).unwrap();
            assert_eq!(digits.parse::<i128>().ok(), expected.parse().ok(), "{words:?}");
            assert_eq!(text(&bytes).unwrap(), shown, "{words:?}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for words in [&[1, 0, 0, 0][..], &[1, 0, 0, 0, 10_000], &[0, 0, 1, 0], &[0, 0, 0]] {
            assert_eq!(scaled(&numeric(words), 0), None, "{words:?}");
        }
        assert_eq!(scaled(&numeric(&[1, -1, 0, 4, 1]), 2), None, "more digits than a column has");
    }

    #[test]
    fn a_column_says_how_many_digits_it_has() {
        assert_eq!(digits(((10 << 16) | 3) + 4), Some((10, 3)));
        assert_eq!((digits(-1), digits((100 << 16) + 4)), (None, None));
    }
}
