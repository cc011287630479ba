//! A parsed batch: the values of at most `PARSED_BATCH_ROWS` rows, column by column, on its way to
//! the column buffers of buckets. It is small enough that a parsed batch, its text and its index
//! stay in a core's L2.
//!
//! - parsed_batch-1. Every column has `rows` values. The value at a NULL is 0.
//! - parsed_batch-2. `nulls` and `rejected` ascend.

use crate::layout::RowLayout;
use crate::shares::LARGE_RECORD_BYTES;

/// The maximum number of rows of a parsed batch.
pub(crate) const PARSED_BATCH_ROWS: usize = 128;

/// Converted rows.
#[derive(Debug)]
pub(crate) struct ParsedBatch {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ParsedColumn>,
    /// Rows that were rejected.
    pub(crate) rejected: Vec<u32>,
    /// Text that differs from the text of the chunk: without doubled quotes.
    pub(crate) unescaped: Vec<u8>,
    /// The order of the chunk of the rows.
    pub(crate) order: u64,
}

/// The values of a column.
#[derive(Debug)]
pub(crate) struct ParsedColumn {
    pub(crate) values: Values,
    /// Rows without a value; text has `Cell::NULL` instead.
    pub(crate) nulls: Vec<u32>,
}

/// Values by their width; signed ones and floats as their bits.
#[derive(Debug)]
pub(crate) enum Values {
    W1(Vec<u8>),
    W2(Vec<u16>),
    W4(Vec<u32>),
    W8(Vec<u64>),
    W16(Vec<u128>),
    Text(Vec<Cell>),
}

/// A text: NULL, a number of the worker's interner, or a place in the chunk or in `unescaped`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell(u64);

/// The place of a text that is not interned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Chunk(usize, usize),
    Unescaped(usize, usize),
}

/// The decoded value of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellKind {
    Null,
    Interned(u32),
    At(Place),
}

impl Cell {
    pub(crate) const NULL: Cell = Cell(u64::MAX);
    const INTERNED_TAG: u64 = 0xFFFF_FFFE;
    const UNESCAPED_BIT: u64 = 1 << 31;

    pub(crate) fn interned(number: u32) -> Cell {
        Cell(Cell::INTERNED_TAG << 32 | u64::from(number))
    }

    /// Creates the cell of a text that is not interned. Texts are at most `limits::VALUE_BYTES`
    /// long, so lengths never equal the tags.
    pub(crate) fn at(place: Place) -> Cell {
        let (start, length, bit) = match place {
            Place::Chunk(start, length) => (start, length, 0),
            Place::Unescaped(start, length) => (start, length, Cell::UNESCAPED_BIT),
        };
        assert!(start < 1 << 31 && length < 1 << 31, "a chunk is small");
        Cell((length as u64) << 32 | start as u64 | bit)
    }

    #[inline]
    pub(crate) fn kind(self) -> CellKind {
        let (high, low) = (self.0 >> 32, self.0 & 0xFFFF_FFFF);
        if self == Cell::NULL {
            return CellKind::Null;
        }
        #[expect(clippy::cast_possible_truncation, reason = "32 bits")]
        if high == Cell::INTERNED_TAG {
            return CellKind::Interned(low as u32);
        }
        #[expect(clippy::cast_possible_truncation, reason = "31 bits")]
        let (start, length) = ((low & !Cell::UNESCAPED_BIT) as usize, high as usize);
        CellKind::At(if low & Cell::UNESCAPED_BIT == 0 {
            Place::Chunk(start, length)
        } else {
            Place::Unescaped(start, length)
        })
    }
}

impl ParsedBatch {
    pub(crate) fn new(layout: &RowLayout) -> ParsedBatch {
        let columns = layout
            .columns
            .iter()
            .map(|column| {
                let values = match (column.text, column.width) {
                    (Some(_), _) => Values::Text(Vec::new()),
                    (None, 1) => Values::W1(Vec::new()),
                    (None, 2) => Values::W2(Vec::new()),
                    (None, 4) => Values::W4(Vec::new()),
                    (None, 8) => Values::W8(Vec::new()),
                    (None, _) => Values::W16(Vec::new()),
                };
                ParsedColumn { values, nulls: Vec::new() }
            })
            .collect();
        ParsedBatch { rows: 0, columns, rejected: Vec::new(), unescaped: Vec::new(), order: 0 }
    }

    /// Removes all rows, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.rows = 0;
        self.rejected.clear();
        self.unescaped.clear();
        self.unescaped.shrink_to(LARGE_RECORD_BYTES);
        for column in &mut self.columns {
            column.nulls.clear();
            match &mut column.values {
                Values::W1(values) => values.clear(),
                Values::W2(values) => values.clear(),
                Values::W4(values) => values.clear(),
                Values::W8(values) => values.clear(),
                Values::W16(values) => values.clear(),
                Values::Text(values) => values.clear(),
            }
        }
    }
}

impl ParsedColumn {
    /// Fills the column with NULLs.
    pub(crate) fn push_nulls(&mut self, rows: usize) {
        match &mut self.values {
            Values::W1(values) => values.resize(rows, 0),
            Values::W2(values) => values.resize(rows, 0),
            Values::W4(values) => values.resize(rows, 0),
            Values::W8(values) => values.resize(rows, 0),
            Values::W16(values) => values.resize(rows, 0),
            Values::Text(values) => return values.resize(rows, Cell::NULL),
        }
        self.nulls.extend(0..u32::try_from(rows).expect("PARSED_BATCH_ROWS"));
    }

    /// Makes a row NULL, because its value was bad.
    pub(crate) fn nullify(&mut self, row: u32) {
        if let Values::Text(cells) = &mut self.values {
            cells[row as usize] = Cell::NULL;
        } else if let Err(at) = self.nulls.binary_search(&row) {
            self.nulls.insert(at, row); // parsed_batch-2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_their_kinds_apart() {
        for kind in [
            CellKind::Null,
            CellKind::Interned(0),
            CellKind::Interned(u32::MAX),
            CellKind::At(Place::Chunk(0, 0)),
            CellKind::At(Place::Chunk((1 << 31) - 1, 64 << 20)),
            CellKind::At(Place::Unescaped(7, 9)),
        ] {
            let cell = match kind {
                CellKind::Null => Cell::NULL,
                CellKind::Interned(number) => Cell::interned(number),
                CellKind::At(place) => Cell::at(place),
            };
            assert_eq!(cell.kind(), kind);
        }
    }
}
