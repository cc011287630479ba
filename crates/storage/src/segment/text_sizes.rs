//! Upper bounds of the decoded bytes of texts, computed from the stored lengths without decoding.
//!
//! - text_sizes-1. The texts that `Reader::arrays` makes for some rows of a column have at most as
//!   many bytes as `TextSizes` counts for these rows.
//! - The texts of a dictionary that is decoded as a whole and kept (decode-2) are not counted.

use std::collections::HashSet;

use tidegate_model::frame::Strings;
use tidegate_model::{Codes, ColumnSlice, Encoded};

use super::decode::{RowSelection, bytes_max, long_texts};
use super::fsst::Decoder;

/// The sizes of a column's texts in a page frame, and the rows that were counted.
#[derive(Debug)]
pub struct TextSizes<'a> {
    strings: Strings<'a>,
    /// The codes of rows, if `strings` are those of a dictionary.
    codes: Option<Codes<'a>>,
    /// The codes that were counted: a text of a dictionary is decoded once for all rows that have
    /// it.
    counted: HashSet<usize>,
}

impl<'a> TextSizes<'a> {
    /// The sizes of a slice; `None` if it has no texts that are decoded row by row.
    pub(super) fn new(slice: &ColumnSlice<'a>) -> Option<TextSizes<'a>> {
        let (strings, codes) = match &slice.encoded {
            Encoded::Strings(strings) => (*strings, None),
            Encoded::Dictionary { codes, dictionary } => (*long_texts(dictionary)?, Some(*codes)),
            _ => return None,
        };
        Some(TextSizes { strings, codes, counted: HashSet::new() })
    }

    /// An upper bound of the bytes of the texts of some rows, in constant time.
    #[must_use]
    pub fn bytes_max(&self, rows: &RowSelection<'_>) -> u64 {
        let texts = match self.codes {
            None => rows.start()..rows.end(),
            Some(_) => 0..self.strings.count(),
        };
        bytes_max(&self.strings, texts)
    }

    /// Counts a row, and returns an upper bound of the bytes that its text adds to those of the
    /// rows counted before.
    pub fn count_row(&mut self, row: usize) -> u64 {
        let text = self.text_of(row);
        if self.codes.is_some() && !self.counted.insert(text) {
            return 0;
        }
        bytes_max(&self.strings, text..text + 1)
    }

    /// The bytes of a row's text.
    #[must_use]
    pub fn bytes_of_row(&self, row: usize) -> u64 {
        let text = self.text_of(row);
        let decoder = self.strings.table.and_then(Decoder::new);
        match decoder.filter(|_| text < self.strings.count()) {
            Some(decoder) => decoder.plain_bytes(self.strings.stored(text)) as u64,
            None => bytes_max(&self.strings, text..text + 1),
        }
    }

    fn text_of(&self, row: usize) -> usize {
        match &self.codes {
            None => row,
            Some(codes) => usize::try_from(codes.at(row)).unwrap_or(usize::MAX - 1),
        }
    }
}
