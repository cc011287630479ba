//! Details of how a column writes its values, beyond their type: points and commas of numbers,
//! offsets of times, `\N` for NULL.
//!
//! Not here: their effect on the type of the column, and the notes on them (`remarks`).

use crate::parse::trimmed;

/// Counts over the cells of a column.
#[derive(Clone, Debug, Default)]
pub(super) struct Notation {
    /// Fractions with a decimal point.
    points: u64,
    /// Numbers such as `1.000`, and the first of them.
    grouped: u64,
    pub(super) grouped_example: Option<Box<[u8]>>,
    /// Numbers with a decimal comma, or with several points between thousands.
    continental: u64,
    /// Timestamps with an offset.
    pub(super) offsets: u64,
    /// Texts by which other programs write NULL, by their positions in `NULL_TEXTS`.
    pub(super) nulls: [u64; NULL_TEXTS.len()],
}

/// The texts by which other programs write NULL. Some of them are words as well: so they stay text,
/// and a note names them where they are the only text beside numbers or times.
pub(super) const NULL_TEXTS: [&str; 8] = ["\\N", "null", "NULL", "NA", "N/A", "NaT", "None", "-"];

impl Notation {
    /// Counts a number that a DOUBLE holds and a BIGINT does not.
    pub(super) fn add_fraction(&mut self, text: &[u8]) {
        if is_grouped(text) {
            self.grouped += 1;
            self.grouped_example.get_or_insert_with(|| trimmed(text).into());
        } else {
            self.points += 1;
        }
    }

    /// Counts a cell that is no number.
    pub(super) fn add_other(&mut self, text: &[u8]) {
        self.continental += u64::from(is_continental(text));
        let null = NULL_TEXTS.iter().position(|null| null.as_bytes() == text);
        self.nulls[null.unwrap_or(0)] += u64::from(null.is_some());
    }

    /// Counts a timestamp with a time of day.
    pub(super) fn add_time(&mut self, text: &[u8]) {
        self.offsets += u64::from(has_offset(text));
    }

    pub(super) fn merge(&mut self, other: &Notation) {
        self.points += other.points;
        self.grouped += other.grouped;
        self.continental += other.continental;
        self.offsets += other.offsets;
        for (own, other) in self.nulls.iter_mut().zip(other.nulls) {
            *own += other;
        }
        if self.grouped_example.is_none() {
            self.grouped_example.clone_from(&other.grouped_example);
        }
    }

    /// Returns true if there are points and all of them may separate thousands.
    pub(super) fn may_be_thousands(&self) -> bool {
        0 < self.grouped && self.points == 0
    }

    /// Returns true if so many cells, of which so many are integers, are numbers with decimal
    /// commas.
    pub(super) fn has_commas(&self, cells: u64, integers: u64) -> bool {
        0 < self.continental && self.continental + self.grouped + integers == cells
    }
}

/// Returns true if a number has one point, which may separate thousands.
fn is_grouped(text: &[u8]) -> bool {
    let mut parts = unsigned(text).split(|&byte| byte == b'.');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    is_leading(first) && is_three_digits(second) && parts.next().is_none()
}

/// Returns true if a text is a number only with a decimal comma and points between thousands: not
/// `1,234`, which may be a thousand elsewhere.
fn is_continental(text: &[u8]) -> bool {
    let text = unsigned(text);
    let comma = memchr::memchr(b',', text);
    let (whole, fraction) = match comma {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    let mut groups = whole.split(|&byte| byte == b'.');
    let first = groups.next().unwrap_or_default();
    let (mut count, mut are_groups) = (0, true);
    for group in groups {
        count += 1;
        are_groups &= is_three_digits(group);
    }
    let is_whole = match count {
        0 => are_digits(first),
        _ => is_leading(first) && are_groups,
    };
    let is_fraction = comma.is_none() || are_digits(fraction);
    let is_proof = comma.is_some() && (0 < count || fraction.len() != 3) || 1 < count;
    is_whole && is_fraction && is_proof
}

/// Returns true if digits may stand before the first point between thousands.
fn is_leading(digits: &[u8]) -> bool {
    matches!(digits, [b'1'..=b'9', ..]) && digits.len() <= 3 && are_digits(digits)
}

fn is_three_digits(digits: &[u8]) -> bool {
    digits.len() == 3 && are_digits(digits)
}

fn are_digits(digits: &[u8]) -> bool {
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn unsigned(text: &[u8]) -> &[u8] {
    match trimmed(text) {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    }
}

/// Returns true if there are bytes behind the time of a timestamp.
fn has_offset(text: &[u8]) -> bool {
    let time = memchr::memchr(b':', text).map_or(&[][..], |at| &text[at..]);
    time.iter().any(|byte| matches!(byte, b'+' | b'-' | b'Z' | b'z' | b'C' | b'c'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_thousands_are_told_from_decimal_ones() {
        for text in ["1.000", "12.500", "-999.999", " 1.234 "] {
            assert!(is_grouped(text.as_bytes()), "{text}");
        }
        for text in ["0.123", "1.0", "1234.567", "1.0000", "1.000.000", "1e3", "", "1.", ".000"] {
            assert!(!is_grouped(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn numbers_with_decimal_commas_are_known() {
        for text in ["1,5", "12,50", "0,1234", "1.234,5", "1.234,567", "-1.234.567", "+1,0"] {
            assert!(is_continental(text.as_bytes()), "{text}");
        }
        for text in ["1,234", "1,234.5", "1.234", "1", "1,", ",5", "1.23,4", "x,5", "1,2,3", ""] {
            assert!(!is_continental(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn times_with_an_offset_are_known() {
        for text in ["2024-01-01T10:00Z", "2024-01-01 10:00:00+01", "1/2/2024 09:30 UTC"] {
            assert!(has_offset(text.as_bytes()), "{text}");
        }
        for text in ["2024-01-01", "2024-01-01T10:00:00.5", "1/2/2024 09:30"] {
            assert!(!has_offset(text.as_bytes()), "{text}");
        }
    }
}
