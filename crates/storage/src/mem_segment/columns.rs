//! Encoding of a batch's column, in the order of an in-memory segment, a page frame at a time.
//!
//! The loops have no branch on values; `benches/mem_segment.rs` measures them.

use std::ops::Range;

use super::MemSegmentColumn;
use crate::batch::{BatchTexts, BatchValues};
use crate::segment::encode::{ColumnEncoder, FRAME_ROWS, FrameBuffers, FrameValues, Validity};
use crate::segment::intern::Interner;
use crate::segment::strings::{DictionaryRows, StringCompressor, StringRows, TextForm};

/// The rows of an in-memory segment, in its order.
#[derive(Debug, Clone)]
pub(super) enum PartRows<'a> {
    /// Rows in the order of the batch.
    Range(Range<usize>),
    /// Rows by number.
    List(&'a [u32]),
}

/// Working memory that columns and batches share.
#[derive(Default)]
pub(super) struct Scratch {
    /// The bytes of the in-memory segment.
    pub(super) bytes: Vec<u8>,
    frame: FrameBuffers,
    /// Symbol codes of a whole in-memory segment.
    codes: Vec<u32>,
    validity: Vec<u64>,
    ids: Vec<u32>,
    is_used: Vec<bool>,
    interner: Interner,
}

/// Maximal size of each of the larger buffers that are kept from batch to batch; in addition, a
/// page frame of values of each type is kept, 5 MiB at most.
const KEPT_BYTES: usize = 4 << 20;

impl PartRows<'_> {
    fn len(&self) -> usize {
        match self {
            PartRows::Range(rows) => rows.len(),
            PartRows::List(rows) => rows.len(),
        }
    }

    /// A part of the rows, by their places.
    fn part(&self, places: Range<usize>) -> PartRows<'_> {
        match self {
            PartRows::Range(rows) => {
                PartRows::Range(rows.start + places.start..rows.start + places.end)
            }
            PartRows::List(rows) => PartRows::List(&rows[places]),
        }
    }

    fn each(&self, mut step: impl FnMut(usize)) {
        match self {
            PartRows::Range(rows) => rows.clone().for_each(step),
            PartRows::List(rows) => rows.iter().for_each(|&row| step(row as usize)),
        }
    }

    /// Copies the values of these rows from `all`.
    fn gather<T: Copy>(&self, all: &[T], into: &mut Vec<T>) {
        into.clear();
        match self {
            PartRows::Range(rows) => into.extend_from_slice(&all[rows.clone()]),
            PartRows::List(rows) => into.extend(rows.iter().map(|&row| all[row as usize])),
        }
    }

    /// Copies the bits of these rows from a bitmap.
    fn gather_bits(&self, words: &[u64], into: &mut Vec<u64>) {
        into.clear();
        match self {
            PartRows::Range(rows) => {
                let (first, shift) = (rows.start / 64, rows.start % 64);
                let count = rows.len().div_ceil(64);
                into.extend((first..first + count).map(|at| {
                    // Bits above the last row are ignored, so the word may be missing.
                    let above = words.get(at + 1).copied().unwrap_or_default();
                    let carried = if shift == 0 { 0 } else { above << (64 - shift) };
                    words[at] >> shift | carried
                }));
            }
            PartRows::List(rows) => into.extend(rows.chunks(64).map(|rows| {
                rows.iter().rev().fold(0_u64, |bits, &row| {
                    let row = row as usize;
                    bits << 1 | words[row / 64] >> (row % 64) & 1
                })
            })),
        }
    }
}

/// Pushes a column of values of a fixed width, a page frame at a time.
macro_rules! push_frames {
    (
        $self:ident, $column:ident, $rows:ident, $encoder:ident, $values:ident,
        $of:ident, $as:ident
    ) => {
        for start in (0..$rows.len()).step_by(FRAME_ROWS) {
            let frame = $rows.part(start..$rows.len().min(start + FRAME_ROWS));
            frame.gather($values, &mut $self.frame.$of);
            let validity = match $column.validity {
                None => None,
                Some(words) => {
                    frame.gather_bits(words, &mut $self.validity);
                    Some($self.validity.as_slice())
                }
            };
            $encoder.push(&mut FrameValues::$as(&mut $self.frame.$of), validity);
        }
    };
}

impl Scratch {
    /// Encodes the rows of a column.
    pub(super) fn push(
        &mut self,
        column: &MemSegmentColumn<'_>,
        rows: &PartRows<'_>,
        encoder: &mut ColumnEncoder,
    ) {
        match column.values {
            BatchValues::Bits(of) => push_frames!(self, column, rows, encoder, of, u8, Bits),
            BatchValues::I8(of) => push_frames!(self, column, rows, encoder, of, i8, I8),
            BatchValues::I16(of) => push_frames!(self, column, rows, encoder, of, i16, I16),
            BatchValues::I32(of) => push_frames!(self, column, rows, encoder, of, i32, I32),
            BatchValues::I64(of) => push_frames!(self, column, rows, encoder, of, i64, I64),
            BatchValues::U8(of) => push_frames!(self, column, rows, encoder, of, u8, U8),
            BatchValues::U16(of) => push_frames!(self, column, rows, encoder, of, u16, U16),
            BatchValues::U32(of) => push_frames!(self, column, rows, encoder, of, u32, U32),
            BatchValues::U64(of) => push_frames!(self, column, rows, encoder, of, u64, U64),
            BatchValues::I128(of) => push_frames!(self, column, rows, encoder, of, i128, I128),
            BatchValues::F32(of) => push_frames!(self, column, rows, encoder, of, f32, F32),
            BatchValues::F64(of) => push_frames!(self, column, rows, encoder, of, f64, F64),
            BatchValues::Fixed16(of) => {
                push_frames!(self, column, rows, encoder, of, fixed16, Fixed16);
            }
            BatchValues::Symbols { codes, texts } => {
                self.push_symbols(column, rows, codes, texts, encoder);
            }
            BatchValues::Texts(texts) => self.push_texts(column, rows, texts, encoder),
        }
    }

    /// Frees the memory that an unusual batch has needed.
    pub(super) fn shrink(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        if (self.ids.capacity() + self.codes.capacity()) * 4 + self.is_used.capacity() > KEPT_BYTES
        {
            (self.ids, self.codes, self.is_used) = (Vec::new(), Vec::new(), Vec::new());
        }
        if self.interner.memory_bytes() > KEPT_BYTES {
            self.interner = Interner::default();
        }
    }

    /// Collects the validity of all rows.
    fn gather_validity(&mut self, validity: Validity<'_>, rows: &PartRows<'_>) {
        self.validity.clear();
        if let Some(words) = validity {
            rows.gather_bits(words, &mut self.validity);
        }
    }

    fn push_symbols(
        &mut self,
        column: &MemSegmentColumn<'_>,
        rows: &PartRows<'_>,
        codes: &[u32],
        texts: &BatchTexts,
        encoder: &mut ColumnEncoder,
    ) {
        assert_eq!(column.symbols.len(), texts.len(), "a symbol for every text");
        self.gather_validity(column.validity, rows);
        let validity = column.validity.map(|_| self.validity.as_slice());
        let codes = match rows {
            PartRows::Range(rows) => &codes[rows.clone()],
            PartRows::List(_) => {
                rows.gather(codes, &mut self.codes);
                &self.codes
            }
        };
        // The dictionary has the symbols that some row has.
        self.is_used.clear();
        self.is_used.resize(texts.len(), false);
        match validity {
            None => codes.iter().for_each(|&code| self.is_used[code as usize] = true),
            Some(words) => {
                for (rows, &word) in codes.chunks(64).zip(words) {
                    for (bit, &code) in rows.iter().enumerate() {
                        if word >> bit & 1 == 1 {
                            self.is_used[code as usize] = true;
                        }
                    }
                }
            }
        }
        let form = TextForm::Raw;
        if self.is_used.iter().all(|&is_used| is_used) {
            let values: Vec<&[u8]> = (0..texts.len()).map(|code| texts.get(code)).collect();
            let rows = DictionaryRows { ids: codes, values: &values, form, validity };
            return encoder.push_symbols(rows, column.symbols);
        }
        let used = || (0..texts.len()).filter(|&code| self.is_used[code]);
        let mut numbers = vec![0_u32; texts.len()];
        for (number, code) in used().enumerate() {
            numbers[code] = u32::try_from(number).expect("a batch is below 4 GiB");
        }
        let values: Vec<&[u8]> = used().map(|code| texts.get(code)).collect();
        let symbols: Vec<_> = used().map(|code| column.symbols[code]).collect();
        self.ids.clear();
        // The code under a NULL may be invalid.
        let number = |&code: &u32| numbers.get(code as usize).copied().unwrap_or_default();
        self.ids.extend(codes.iter().map(number));
        let rows = DictionaryRows { ids: &self.ids, values: &values, form, validity };
        encoder.push_symbols(rows, &symbols);
    }

    fn push_texts(
        &mut self,
        column: &MemSegmentColumn<'_>,
        rows: &PartRows<'_>,
        texts: &BatchTexts,
        encoder: &mut ColumnEncoder,
    ) {
        self.gather_validity(column.validity, rows);
        let validity = column.validity.map(|_| self.validity.as_slice());
        let is_valid =
            |place: usize| validity.is_none_or(|words| words[place / 64] >> (place % 64) & 1 == 1);
        let mut of_rows: Vec<&[u8]> = Vec::with_capacity(rows.len());
        rows.each(|row| {
            of_rows.push(if is_valid(of_rows.len()) { texts.get(row) } else { &[] });
        });
        let (form, compressor) = (TextForm::Raw, StringCompressor::never());
        if repeat(&of_rows, &mut self.interner)
            && number_texts(&of_rows, &is_valid, &mut self.interner, &mut self.ids)
        {
            let values: Vec<&[u8]> = self.interner.texts().collect();
            let rows = DictionaryRows { ids: &self.ids, values: &values, form, validity };
            return encoder.push_dictionary(rows, &compressor);
        }
        let rows = StringRows { texts: &of_rows, form, validity };
        encoder.push_strings(rows, &compressor);
    }
}

/// Maximal sample of strings that is checked for repetitions; with fewer strings a dictionary saves
/// less than its footer.
const SAMPLE_TEXTS: usize = 256;
const SAMPLE_TEXTS_MIN: usize = 32;

/// Returns true if at least half of a sample repeats other strings of it.
fn repeat(texts: &[&[u8]], interner: &mut Interner) -> bool {
    if texts.len() < SAMPLE_TEXTS_MIN {
        return false;
    }
    interner.clear();
    let mut looked_at = 0;
    for text in texts.iter().step_by(texts.len().div_ceil(SAMPLE_TEXTS)) {
        let _ = interner.intern(text);
        looked_at += 1;
    }
    interner.len() * 2 <= looked_at
}

/// Numbers every string, equal ones with the same number; `false` if more than half are distinct. A
/// NULL gets 0.
fn number_texts(
    texts: &[&[u8]],
    is_valid: &impl Fn(usize) -> bool,
    interner: &mut Interner,
    ids: &mut Vec<u32>,
) -> bool {
    interner.clear();
    ids.clear();
    for (place, text) in texts.iter().enumerate() {
        let id = if is_valid(place) { interner.intern(text) } else { Some(0) };
        let Some(id) = id.filter(|_| interner.len() * 2 <= texts.len()) else { return false };
        ids.push(id);
    }
    true
}
