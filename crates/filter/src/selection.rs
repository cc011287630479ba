//! A selection: the rows of a page frame that passed a filter, one bit per row.

use std::ops::Range;

use tidegate_model::limits;

/// Words of a zone.
pub(crate) const ZONE_WORDS: usize = 64;
/// Rows of a zone.
pub(crate) const ZONE_ROWS: usize = ZONE_WORDS * 64;
/// Words of a page frame.
pub const SELECTION_WORDS: usize = 1_024;

const _: () = assert!(ZONE_ROWS as u64 == limits::ZONE_ROWS.0);
const _: () = assert!(SELECTION_WORDS as u64 * 64 == limits::FRAME_ROWS.0);

/// A set of rows of a page frame: bit `i` of word `w` is row `64 * w + i`. Memory is reused from
/// frame to frame.
#[derive(Clone, PartialEq, Eq)]
pub struct Selection(Box<[u64; SELECTION_WORDS]>);

impl Default for Selection {
    fn default() -> Selection {
        Selection::new()
    }
}

impl std::fmt::Debug for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Selection({} rows)", self.count())
    }
}

impl Selection {
    /// Creates a selection of no rows.
    #[must_use]
    pub fn new() -> Selection {
        Selection(Box::new([0; SELECTION_WORDS]))
    }

    /// The bits.
    #[must_use]
    pub fn words(&self) -> &[u64; SELECTION_WORDS] {
        &self.0
    }

    /// Selects these rows and no others, and returns their number.
    ///
    /// # Panics
    /// If a page frame has no such row.
    pub fn replace(&mut self, rows: impl Iterator<Item = usize>) -> usize {
        self.clear();
        let mut count = 0;
        for row in rows {
            self.0[row / 64] |= 1 << (row % 64);
            count += 1;
        }
        count
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64; SELECTION_WORDS] {
        &mut self.0
    }

    /// The number of selected rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns true if a row is selected.
    ///
    /// # Panics
    /// If a page frame has no such row.
    #[must_use]
    pub fn contains(&self, row: usize) -> bool {
        self.0[row / 64] >> (row % 64) & 1 == 1
    }

    /// The selected rows, ascending.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        self.0
            .iter()
            .enumerate()
            .flat_map(|(index, &word)| bits(word).map(move |bit| index * 64 + bit))
    }

    /// The runs of selected rows, ascending and not adjacent.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let start = self.find(from, 0)?;
            let end = self.find(start, u64::MAX).unwrap_or(SELECTION_WORDS * 64);
            from = end;
            Some(start..end)
        })
    }

    /// The first row from `from` on whose bit is set; if `flip` is all ones, whose bit is clear.
    fn find(&self, from: usize, flip: u64) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = (self.0.get(word)? ^ flip) & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = self.0.get(word)? ^ flip;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

/// The set bits of a word, ascending.
pub(crate) fn bits(word: u64) -> impl Iterator<Item = usize> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_runs_are_those_of_the_bits() {
        let mut selection = Selection::new();
        let selected = [0, 1, 63, 64, 65, 4_095, 4_096, 65_535];
        for row in selected {
            selection.0[row / 64] |= 1 << (row % 64);
        }
        assert_eq!(selection.rows().collect::<Vec<_>>(), selected);
        assert_eq!(selection.count(), selected.len());
        let runs: Vec<_> = selection.runs().collect();
        assert_eq!(runs, [0..2, 63..66, 4_095..4_097, 65_535..65_536]);
        assert!(selection.contains(64) && !selection.contains(66));
        selection.0.fill(u64::MAX);
        assert!(selection.runs().eq(std::iter::once(0..65_536)));
        selection.clear();
        assert_eq!(selection.runs().count(), 0);
    }
}
