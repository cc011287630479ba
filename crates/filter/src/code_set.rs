//! Sets of codes: the values of a column that match, in the codes of its page frame.
//!
//! Not here: the translation of values into codes (`lower`), the tests of zones (`zones`) and of
//! rows (`kernel`).

use tidegate_model::Codes;

use crate::kernel::{CodeRange, CodeTest};

/// A set of codes that match, in the forms that kernels and zones need.
#[derive(Debug)]
pub(crate) struct CodeSet {
    /// The ranges, ascending; neighbours do not touch.
    pub(crate) ranges: Vec<CodeRange>,
    /// The same set for kernels.
    pub(crate) test: CodeTest,
    /// A bit for each remainder modulo 64 of a code in the set.
    pub(crate) signature: u64,
}

impl CodeSet {
    /// The set of these ranges, for codes of `width` bytes.
    pub(crate) fn new(width: usize, ranges: Vec<CodeRange>) -> CodeSet {
        let signature = signature(&ranges);
        CodeSet { test: CodeTest::new(width, ranges.clone()), signature, ranges }
    }
}

/// A builder of ascending ranges, in which neighbours are joined.
#[derive(Default)]
pub(crate) struct RangeBuilder(pub(crate) Vec<CodeRange>);

impl RangeBuilder {
    /// Adds the codes from `first` to `last`, which are above all codes that were added before.
    pub(crate) fn push(&mut self, first: u64, last: u64) {
        match self.0.last_mut() {
            Some(range) if range.last.checked_add(1) == Some(first) => range.last = last,
            _ => self.0.push(CodeRange { first, last }),
        }
    }
}

/// The width of a code in bytes.
pub(crate) fn code_width(codes: &Codes<'_>) -> usize {
    match codes {
        Codes::Same(_) | Codes::Sequence | Codes::Bits(_) => 0,
        Codes::U8(_) => 1,
        Codes::U16(_) => 2,
        Codes::U32(_) => 4,
        Codes::U64(_) => 8,
    }
}

/// A bit for each remainder modulo 64 of a code in the ranges.
fn signature(ranges: &[CodeRange]) -> u64 {
    ranges.iter().fold(0, |signature, range| {
        let span = range.last - range.first;
        let bits = if span >= 63 { u64::MAX } else { (1 << (span + 1)) - 1 };
        let turn = u32::try_from(range.first % 64).expect("below 64");
        signature | bits.rotate_left(turn)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_know_every_code_of_a_range() {
        for first in [0, 5, 62, 63, 64, 1_000] {
            for span in [0, 1, 5, 62, 63, 64, 200] {
                let range = CodeRange { first, last: first + span };
                let slow = (first..=range.last).fold(0_u64, |bits, code| bits | 1 << (code % 64));
                assert_eq!(signature(&[range]), slow, "{range:?}");
            }
        }
    }
}
