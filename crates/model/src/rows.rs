//! Row counts, row ranges and sizes in bytes.

use std::fmt;

/// A number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RowCount(pub u64);

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(pub u64);

/// Rows `start..end` of a sorted run, half-open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowRange {
    /// The first row.
    pub start: u64,
    /// One past the last row.
    pub end: u64,
}

impl RowCount {
    /// The count as a length of something in memory.
    #[must_use]
    pub fn as_len(self) -> usize {
        usize::try_from(self.0).expect("rows in memory fit its addresses")
    }
}

impl fmt::Display for RowCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl RowRange {
    /// No rows.
    pub const EMPTY: RowRange = RowRange { start: 0, end: 0 };

    /// Number of rows.
    #[must_use]
    pub fn count(self) -> RowCount {
        RowCount(self.end.saturating_sub(self.start))
    }

    /// Returns true if the range contains no row.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The rows in both ranges.
    #[must_use]
    pub fn intersect(self, other: RowRange) -> RowRange {
        let start = self.start.max(other.start);
        RowRange { start, end: self.end.min(other.end).max(start) }
    }
}

impl ByteCount {
    const UNITS: [(&'static str, u64); 4] =
        [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

    /// Reads `512`, `64KiB`, `1.5GiB`, `2 GB`; units are powers of 1,024, as memory is.
    #[must_use]
    pub fn parse(text: &str) -> Option<ByteCount> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim().to_ascii_lowercase());
        let factor = match unit.as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            "t" | "tb" | "tib" => 1_u64 << 40,
            _ => return None,
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(ByteCount);
        }
        let value = number.parse::<f64>().ok()? * factor as f64;
        #[expect(clippy::cast_possible_truncation, reason = "checked to be below 2^63")]
        (value.is_finite() && value < 9e18).then_some(ByteCount(value as u64))
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::UNITS.into_iter().find(|&(_, size)| self.0 >= size) {
            Some((name, size)) => write!(f, "{:.1} {name}", self.0 as f64 / size as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, expected) in [
            ("512", Some(512)),
            ("1GiB", Some(1 << 30)),
            ("1.5 kib", Some(1_536)),
            ("2g", Some(2 << 30)),
            ("", None),
            ("1 parsec", None),
            ("99999999999TiB", None),
        ] {
            assert_eq!(ByteCount::parse(text).map(|b| b.0), expected, "{text}");
        }
    }

    #[test]
    fn ranges_that_do_not_meet_intersect_in_nothing() {
        let (a, b) = (RowRange { start: 0, end: 4 }, RowRange { start: 9, end: 12 });
        assert!(a.intersect(b).is_empty());
        assert!(b.intersect(a).is_empty());
        assert_eq!(a.intersect(RowRange { start: 2, end: 9 }).count(), RowCount(2));
    }
}
