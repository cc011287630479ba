//! How parsed rows lie in memory until they are sealed: a slab is some rows, column by column.
//!
//! - Y1. Columns of a slab begin at multiples of its capacity, which is a multiple of 64: every
//!   value is aligned.
//! - Y2. A text column's slot is `NULL_SLOT`, a number of the worker's interner with the high bit
//!   set, or the offset of the text in the slab's own text of that column.
//! - Y3. Rows from a mark's `start` on, up to the next mark, came from piece `order`, in its order.
//!   The rows of a piece in several slabs stand in the order of the slabs' `sequence`.

use tidegate_model::types::Physical;
use tidegate_model::{Column, Schema};
use tidegate_platform::AlignedBuffer;

/// The slot of a text that is NULL.
pub(crate) const NULL_SLOT: u32 = u32::MAX;
/// Set in slots that are numbers of an interner.
pub(crate) const INTERNED: u32 = 1 << 31;
/// A slab's text of one column stays below this, so that offsets have 31 bits.
pub(crate) const SLAB_TEXT_MAX: usize = (1 << 31) - (128 << 20);

/// The columns of a table as slabs have them.
#[derive(Debug, Clone)]
pub(crate) struct RowLayout {
    pub(crate) columns: Vec<ColumnLayout>,
    /// Bytes of a row without its text.
    pub(crate) row_bytes: usize,
    /// The designated timestamp's place in `columns`.
    pub(crate) timestamp: Option<usize>,
    /// How many columns are text.
    pub(crate) text_columns: usize,
}

/// A column as slabs have it.
#[derive(Debug, Clone)]
pub(crate) struct ColumnLayout {
    pub(crate) column: Column,
    /// Bytes of a value or slot.
    pub(crate) width: usize,
    /// The bytes of a row that stand before it: times the capacity, its offset in a slab.
    pub(crate) start: usize,
    /// Its place among the text columns.
    pub(crate) text: Option<usize>,
}

/// Some rows of one bucket that one worker has parsed.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(crate) fixed: AlignedBuffer,
    pub(crate) capacity: usize,
    pub(crate) rows: usize,
    /// A set bit is a NULL; absent where a column has none. Text columns have slots instead.
    pub(crate) nulls: Vec<Option<Box<[u64]>>>,
    pub(crate) texts: Vec<Vec<u8>>,
    pub(crate) marks: Vec<Mark>,
    /// Whose interners its slots are numbers of.
    pub(crate) worker: u32,
    /// How many slabs its worker had begun before it.
    pub(crate) sequence: u64,
}

/// Where rows of a piece begin in a slab (Y3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) order: u64,
    pub(crate) start: u32,
}

impl RowLayout {
    pub(crate) fn new(schema: &Schema) -> RowLayout {
        let mut columns: Vec<ColumnLayout> = schema
            .columns()
            .iter()
            .map(|column| ColumnLayout {
                column: column.clone(),
                width: width_of(column.ty.physical()),
                start: 0,
                text: None,
            })
            .collect();
        let (mut row_bytes, mut text_columns) = (0, 0);
        for column in &mut columns {
            column.start = row_bytes;
            row_bytes += column.width;
            if column.column.ty.physical() == Physical::Bytes {
                column.text = Some(text_columns);
                text_columns += 1;
            }
        }
        let timestamp = schema.designated();
        let timestamp = columns.iter().position(|column| Some(column.column.id) == timestamp);
        RowLayout { columns, row_bytes, timestamp, text_columns }
    }
}

fn width_of(physical: Physical) -> usize {
    match physical {
        Physical::Bit => 1,
        Physical::Signed(width) | Physical::Unsigned(width) => usize::from(width),
        Physical::Wide | Physical::Fixed16 => 16,
        Physical::Float64 => 8,
        Physical::Float32 | Physical::Bytes => 4,
    }
}

impl Slab {
    pub(crate) fn new(fixed: AlignedBuffer, layout: &RowLayout, worker: u32) -> Slab {
        let capacity = fixed.len() / layout.row_bytes / 64 * 64;
        assert!(capacity > 0, "Y1");
        Slab {
            fixed,
            capacity,
            rows: 0,
            nulls: vec![None; layout.columns.len()],
            texts: vec![Vec::new(); layout.text_columns],
            marks: Vec::new(),
            worker,
            sequence: 0,
        }
    }

    /// The values of a column, `rows` of them.
    pub(crate) fn column(&self, column: &ColumnLayout) -> &[u8] {
        let start = column.start * self.capacity;
        &self.fixed[start..start + self.rows * column.width]
    }

    /// Notes that rows from here on come from piece `order`.
    pub(crate) fn mark(&mut self, order: u64) {
        if self.marks.last().is_none_or(|mark| mark.order != order) {
            let start = u32::try_from(self.rows).expect("a slab is small");
            self.marks.push(Mark { order, start });
        }
    }

    pub(crate) fn set_null(&mut self, column: usize, row: usize) {
        let words = self.capacity / 64;
        let bits = self.nulls[column].get_or_insert_with(|| vec![0; words].into_boxed_slice());
        bits[row / 64] |= 1 << (row % 64);
    }

    /// The memory held beside `fixed`.
    pub(crate) fn text_bytes(&self) -> usize {
        let nulls = self.nulls.iter().flatten().map(|bits| bits.len() * 8).sum::<usize>();
        self.texts.iter().map(Vec::capacity).sum::<usize>() + nulls
    }
}

/// Appends a text with its length; `text_at` reads it back.
#[inline]
pub(crate) fn push_text(texts: &mut Vec<u8>, text: &[u8]) -> u32 {
    let offset = u32::try_from(texts.len()).expect("SLAB_TEXT_MAX");
    match u8::try_from(text.len()) {
        Ok(length) if length < u8::MAX => texts.push(length),
        _ => {
            texts.push(u8::MAX);
            let length = u32::try_from(text.len()).expect("limits::VALUE_BYTES");
            texts.extend_from_slice(&length.to_le_bytes());
        }
    }
    texts.extend_from_slice(text);
    offset
}

/// The text at an offset that `push_text` gave.
#[inline]
pub(crate) fn text_at(texts: &[u8], offset: u32) -> &[u8] {
    let rest = &texts[offset as usize..];
    match rest[0] {
        u8::MAX => {
            let length = u32::from_le_bytes(rest[1..5].try_into().expect("4 bytes"));
            &rest[5..5 + length as usize]
        }
        length => &rest[1..1 + usize::from(length)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_length_are_read_back() {
        let mut texts = Vec::new();
        let lengths = [0, 1, 253, 254, 255, 256, 70_000];
        let offsets = lengths.map(|length| push_text(&mut texts, &vec![b'x'; length]));
        for (offset, length) in offsets.into_iter().zip(lengths) {
            assert_eq!(text_at(&texts, offset), vec![b'x'; length]);
        }
    }
}
