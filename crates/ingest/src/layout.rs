//! The memory layout of parsed rows: a column buffer holds some rows of one bucket. Full buffers
//! are packed.
//!
//! - ingest_layout-1. Columns of a column buffer begin at multiples of its capacity, which is a
//!   multiple of 64: every value is aligned.
//! - A text column's slot is `NULL_SLOT`, a number of the worker's interner with the high bit
//!   set, or the place of the text in the column buffer's pages: `page << 16 | offset`.
//! - ingest_layout-2. A text does not straddle pages; one that is longer than a page has its own
//!   page.
//! - ingest_layout-3. Rows from a source range's `start` on, up to the next range, came from input
//!   chunk `order`, in its order. The rows of a chunk in several column buffers have the order of
//!   their `sequence`.

use tidegate_model::types::Physical;
use tidegate_model::{Column, Schema, TextLength};
use tidegate_platform::AlignedBuffer;

/// The slot of a NULL in a text column.
pub(crate) const NULL_SLOT: u32 = u32::MAX;
/// The bit that is set in slots that are numbers of an interner.
pub(crate) const INTERNED: u32 = 1 << 31;

/// The layout of a table's columns in column buffers.
#[derive(Debug, Clone)]
pub(crate) struct RowLayout {
    pub(crate) columns: Vec<ColumnLayout>,
    /// Bytes of a row without its text.
    pub(crate) row_bytes: usize,
    /// The designated timestamp's place in `columns`.
    pub(crate) timestamp: Option<usize>,
    /// The maximum size of the interner of a text column.
    pub(crate) interned_max: usize,
}

/// The layout of a column in column buffers.
#[derive(Debug, Clone)]
pub(crate) struct ColumnLayout {
    pub(crate) column: Column,
    /// Bytes of a value or slot.
    pub(crate) width: usize,
    /// The bytes of a row before it: multiplied by the capacity, its offset in a column buffer.
    pub(crate) start: usize,
    /// Its position among the text columns.
    pub(crate) text: Option<usize>,
    /// The maximum length of its texts, if there is one.
    pub(crate) length: Option<TextLength>,
}

/// Some rows of one bucket that one worker has parsed.
#[derive(Debug)]
pub(crate) struct ColumnBuffer {
    pub(crate) fixed: AlignedBuffer,
    pub(crate) capacity: usize,
    pub(crate) rows: usize,
    /// A set bit is a NULL; `None` for a column without NULLs. Text columns have slots instead.
    pub(crate) nulls: Vec<Option<Box<[u64]>>>,
    pub(crate) texts: TextPages,
    pub(crate) sources: Vec<SourceRange>,
    /// The worker whose interners its slots refer to.
    pub(crate) worker: u32,
    /// The number of column buffers that its worker had begun before it.
    pub(crate) sequence: u64,
}

/// The rows of one input chunk in a column buffer: from `start` to the start of the next range
/// (ingest_layout-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceRange {
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
                length: schema.length(column.id),
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
        RowLayout { columns, row_bytes, timestamp, interned_max: usize::MAX }
    }
}

impl RowLayout {
    /// The minimum memory of a column buffer with rows.
    pub(crate) fn buffer_bytes_min(&self) -> usize {
        let has_text = self.columns.iter().any(|column| column.text.is_some());
        BUFFER_ROWS_MIN * self.row_bytes + if has_text { TEXT_PAGE_BYTES } else { 0 }
    }

    pub(crate) fn text_columns(&self) -> usize {
        self.columns.iter().filter(|column| column.text.is_some()).count()
    }
}

/// The minimum number of rows of a column buffer (ingest_layout-1).
const BUFFER_ROWS_MIN: usize = 64;

fn width_of(physical: Physical) -> usize {
    match physical {
        Physical::Bit => 1,
        Physical::Signed(width) | Physical::Unsigned(width) => usize::from(width),
        Physical::Wide | Physical::Fixed16 => 16,
        Physical::Float64 => 8,
        Physical::Float32 | Physical::Bytes => 4,
    }
}

impl ColumnBuffer {
    pub(crate) fn new(
        fixed: AlignedBuffer,
        texts: TextPages,
        layout: &RowLayout,
        worker: u32,
    ) -> ColumnBuffer {
        let capacity = fixed.len() / layout.row_bytes / 64 * 64;
        assert!(capacity > 0, "ingest_layout-1");
        ColumnBuffer {
            fixed,
            capacity,
            rows: 0,
            nulls: vec![None; layout.columns.len()],
            texts,
            sources: Vec::new(),
            worker,
            sequence: 0,
        }
    }

    /// The values of a column, `rows` of them.
    pub(crate) fn column(&self, column: &ColumnLayout) -> &[u8] {
        let start = column.start * self.capacity;
        &self.fixed[start..start + self.rows * column.width]
    }

    /// The places of the values of some rows.
    pub(crate) fn slots_mut<const N: usize>(
        &mut self,
        column: &ColumnLayout,
        first: usize,
        count: usize,
    ) -> &mut [[u8; N]] {
        assert_eq!(column.width, N, "ingest_layout-1");
        let start = column.start * self.capacity + first * N;
        self.fixed[start..start + count * N].as_chunks_mut::<N>().0
    }

    /// The places of the slots of some rows, and the pages of their texts.
    pub(crate) fn text_slots_mut(
        &mut self,
        column: &ColumnLayout,
        first: usize,
        count: usize,
    ) -> (&mut [[u8; 4]], &mut TextPages) {
        assert_eq!(column.width, 4, "ingest_layout-1");
        let start = column.start * self.capacity + first * 4;
        (self.fixed[start..start + count * 4].as_chunks_mut::<4>().0, &mut self.texts)
    }

    /// Begins a source range: the following rows are those of input chunk `order`.
    pub(crate) fn begin_source(&mut self, order: u64) {
        if self.sources.last().is_none_or(|source| source.order != order) {
            let start = u32::try_from(self.rows).expect("a column buffer is small");
            self.sources.push(SourceRange { order, start });
        }
    }

    pub(crate) fn set_null(&mut self, column: usize, row: usize) {
        let words = self.capacity / 64;
        let bits = self.nulls[column].get_or_insert_with(|| vec![0; words].into_boxed_slice());
        bits[row / 64] |= 1 << (row % 64);
    }

    /// The size of the memory beside `fixed`.
    pub(crate) fn text_bytes(&self) -> usize {
        let nulls = self.nulls.iter().flatten().map(|bits| bits.len() * 8).sum::<usize>();
        self.texts.bytes + self.texts.spare_bytes() + nulls
    }
}

/// The texts of a column buffer, in pages that never move: growing costs no copies, and no more
/// fresh memory than the texts need.
#[derive(Debug, Default)]
pub(crate) struct TextPages {
    pub(crate) pages: Vec<Vec<u8>>,
    /// The sum of the capacities of all pages.
    pub(crate) bytes: usize,
    /// Empty pages.
    spare: Vec<Vec<u8>>,
}

/// The size of a page: offsets in it have sixteen bits.
pub(crate) const TEXT_PAGE_BYTES: usize = 64 << 10;
/// The number of pages at which a column buffer is full: page numbers have fifteen bits.
pub(crate) const TEXT_PAGES_MAX: usize = 1 << 14;
/// The bytes of text at which a column buffer is full: all of it may be in one parsed batch, where
/// places have 31 bits.
pub(crate) const BUFFER_TEXT_MAX: usize = 256 << 20;

/// The maximum number of empty pages that are kept, enough for a typical column buffer.
const SPARE_PAGES_MAX: usize = 8;

impl TextPages {
    /// Appends a text; `text_at` reads it at the place that is returned.
    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) -> u32 {
        let wanted = text.len() + LENGTH_BYTES_MAX;
        let has_room = self.pages.last().is_some_and(|page| page.capacity() - page.len() >= wanted);
        if !has_room || self.pages[self.pages.len() - 1].len() >= TEXT_PAGE_BYTES {
            self.add_page(wanted);
        }
        let number = self.pages.len() - 1;
        let page = &mut self.pages[number];
        let slot = u32::try_from(number << 16 | page.len()).expect("TEXT_PAGES_MAX");
        match u8::try_from(text.len()) {
            Ok(length) if length < u8::MAX => page.push(length),
            _ => {
                page.push(u8::MAX);
                let length = u32::try_from(text.len()).expect("limits::VALUE_BYTES");
                page.extend_from_slice(&length.to_le_bytes());
            }
        }
        page.extend_from_slice(text);
        slot
    }

    /// The size of the empty pages.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.spare.len() * TEXT_PAGE_BYTES
    }

    /// Removes all texts and keeps some pages for others.
    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        for mut page in self.pages.drain(..) {
            if page.capacity() == TEXT_PAGE_BYTES && self.spare.len() < SPARE_PAGES_MAX {
                page.clear();
                self.spare.push(page);
            }
        }
    }

    #[cold]
    fn add_page(&mut self, wanted: usize) {
        let page = match self.spare.pop() {
            Some(page) if wanted <= TEXT_PAGE_BYTES => page,
            _ => Vec::with_capacity(wanted.max(TEXT_PAGE_BYTES)),
        };
        self.bytes += page.capacity();
        self.pages.push(page);
    }

    /// The text at a place that `push` returned.
    #[inline]
    pub(crate) fn text_at(&self, slot: u32) -> &[u8] {
        let rest = &self.pages[(slot >> 16) as usize][(slot & 0xFFFF) as usize..];
        match rest[0] {
            u8::MAX => {
                let length = u32::from_le_bytes(rest[1..LENGTH_BYTES_MAX].try_into().expect("4"));
                &rest[LENGTH_BYTES_MAX..LENGTH_BYTES_MAX + length as usize]
            }
            length => &rest[1..1 + usize::from(length)],
        }
    }
}

/// The maximum size of a length: a marker and four bytes; short texts have a length of one byte.
const LENGTH_BYTES_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_length_are_read_back() {
        let mut texts = TextPages::default();
        let lengths = [0, 1, 253, 254, 255, 256, 65_530, 65_531, 70_000, 3, 200_000, 7];
        let lengths: Vec<usize> = lengths.into_iter().chain((0..2_000).map(|i| i % 300)).collect();
        let slots: Vec<u32> = lengths.iter().map(|&n| texts.push(&vec![b'x'; n])).collect();
        for (slot, length) in slots.into_iter().zip(lengths) {
            assert_eq!(texts.text_at(slot), vec![b'x'; length], "ingest_layout-2");
        }
    }
}
