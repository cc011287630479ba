//! The limits that memory sets: simple loops over plain memory, for comparison with filters.
//!
//! Not here: buffers, threads and a clock, which `tidegate bench roofline` provides.

use crate::kernel::{self, CodeRange, CodeTest, SimdLevel};
use tidegate_model::Codes;

/// The sum of all words, wrapping: eight bytes read for each, none written.
#[must_use]
pub fn sum_words(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, &word| sum.wrapping_add(word))
}

/// Copies bytes: each byte is read once and written once.
///
/// # Panics
/// If the two have different sizes.
pub fn copy_bytes(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// Counts the codes of one byte that are from `first` to `last`: one byte is read for each.
#[must_use]
pub fn count_u8(level: SimdLevel, codes: &[u8], first: u8, last: u8) -> usize {
    count(level, &Codes::U8(codes), codes.len(), first.into(), last.into())
}

/// Counts the little-endian codes of two bytes that are from `first` to `last`: two bytes are read
/// for each.
#[must_use]
pub fn count_u16(level: SimdLevel, codes: &[[u8; 2]], first: u16, last: u16) -> usize {
    count(level, &Codes::U16(codes), codes.len(), first.into(), last.into())
}

/// Runs the kernel of a filter, on the rows of one zone at a time.
fn count(level: SimdLevel, codes: &Codes<'_>, rows: usize, first: u64, last: u64) -> usize {
    const ZONE: usize = crate::selection::ZONE_ROWS;
    let ranges = if first <= last { vec![CodeRange { first, last }] } else { vec![] };
    let test = CodeTest::Ranges(ranges);
    let mut words = [0; ZONE / 64];
    let mut matching = 0;
    for start in (0..rows).step_by(ZONE) {
        let rows = start..rows.min(start + ZONE);
        let out = &mut words[..rows.len().div_ceil(64)];
        kernel::select(level, codes, rows, &test, out);
        matching += out.iter().map(|word| word.count_ones() as usize).sum::<usize>();
    }
    matching
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_do_what_they_say() {
        assert_eq!(sum_words(&[1, 2, u64::MAX]), 2);
        let mut to = [0; 3];
        copy_bytes(&[1, 2, 3], &mut to);
        assert_eq!(to, [1, 2, 3]);
        let bytes: Vec<u8> = (0..10_000_u32).map(|row| row.to_le_bytes()[0]).collect();
        let pairs: Vec<[u8; 2]> = (0..10_000_u16).map(u16::to_le_bytes).collect();
        for level in SimdLevel::available() {
            let expected = bytes.iter().filter(|&&code| (10..=20).contains(&code)).count();
            assert_eq!(count_u8(level, &bytes, 10, 20), expected);
            assert_eq!(count_u8(level, &bytes, 20, 10), 0);
            assert_eq!(count_u16(level, &pairs, 300, 9_000), 8_701);
        }
    }
}
