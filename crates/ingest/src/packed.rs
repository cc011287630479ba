//! Packed column buffers: the values of full buffers in as few bytes as they need, until
//! segments are built of them.
//!
//! - packed-1. `unpack` gives the packed rows: every value, NULL, source range and text.
//! - packed-2. A text column's values are slot codes: 0 is NULL, an odd one a number of the
//!   worker's interner, an even one a text of the column buffer (`SlotCode`).
//!
//! Rows wait in memory until all of the input is read, and fresh memory is the most expensive
//! resource of an import: so an open column buffer is recycled memory, and full ones are packed.
//! Integers are kept as codes from the minimum of the column buffer, texts are compressed if the
//! segment will compress them anyway. Not here: filling column buffers with rows (`scatter`),
//! the encodings of a segment.

use tidegate_model::ColumnType;
use tidegate_storage::segment::strings::{StringCompressor, TextForm};

use crate::layout::{ColumnBuffer, ColumnLayout, INTERNED, NULL_SLOT, RowLayout, SourceRange};

/// Some rows of one bucket that one worker has parsed, packed.
#[derive(Debug)]
pub(crate) struct PackedBuffer {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<PackedColumn>,
    /// The codes of all columns, one after the other.
    pub(crate) codes: Vec<u8>,
    /// A set bit is a NULL; `None` for a column without NULLs. Text columns have slots instead.
    pub(crate) nulls: Vec<Option<Box<[u64]>>>,
    /// The texts of each text column.
    pub(crate) texts: Vec<PackedTexts>,
    pub(crate) sources: Vec<SourceRange>,
    /// The worker whose interners its slots refer to.
    pub(crate) worker: u32,
    /// The number of column buffers that its worker had begun before it.
    pub(crate) sequence: u64,
}

/// The place of a column's codes, and their base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedColumn {
    /// The start of its codes in `PackedBuffer::codes`.
    pub(crate) start: u32,
    /// The bytes of a code: 0 if all values are `base`, the value's own width if they are not
    /// packed.
    pub(crate) width: u8,
    /// The value of code 0.
    pub(crate) base: u64,
}

/// Texts, stored one after the other.
#[derive(Debug, Clone)]
pub(crate) struct PackedTexts {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<u32>,
    pub(crate) form: TextForm,
}

/// The meaning of a code of a text column (packed-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotCode {
    Null,
    /// A number of the worker's interner.
    Interned(u32),
    /// A text of the column buffer itself.
    Own(u32),
}

impl SlotCode {
    #[inline]
    pub(crate) fn encode(self) -> u32 {
        match self {
            SlotCode::Null => 0,
            SlotCode::Interned(number) => number << 1 | 1,
            SlotCode::Own(index) => (index + 1) << 1,
        }
    }

    #[inline]
    pub(crate) fn decode(code: u32) -> SlotCode {
        match code {
            0 => SlotCode::Null,
            odd if odd & 1 == 1 => SlotCode::Interned(odd >> 1),
            even => SlotCode::Own((even >> 1) - 1),
        }
    }
}

impl PackedTexts {
    const NONE: PackedTexts =
        PackedTexts { bytes: Vec::new(), ends: Vec::new(), form: TextForm::Raw };

    #[inline]
    pub(crate) fn text(&self, index: u32) -> &[u8] {
        let index = index as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }

    /// Creates a copy with the texts decompressed.
    pub(crate) fn raw(&self, compressor: &StringCompressor) -> PackedTexts {
        assert_eq!(self.form, TextForm::Compressed, "texts are decompressed once");
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(self.ends.len()));
        for index in 0..u32::try_from(self.ends.len()).expect("a column buffer is small") {
            compressor.decompress(self.text(index), &mut bytes);
            ends.push(bytes.len() as u64);
        }
        PackedTexts { bytes, ends: narrow_ends(&ends), form: TextForm::Raw }
    }

    /// The size of the texts after decompression.
    pub(crate) fn plain_bytes(&self, compressor: &StringCompressor) -> usize {
        match self.form {
            TextForm::Raw => self.bytes.len(),
            TextForm::Compressed => compressor.plain_bytes(&self.bytes),
        }
    }

    /// Creates a copy with the texts compressed.
    pub(crate) fn compressed(&self, compressor: &StringCompressor) -> PackedTexts {
        assert_eq!(self.form, TextForm::Raw, "texts are compressed once");
        let count = u32::try_from(self.ends.len()).expect("a column buffer is small");
        let texts: Vec<&[u8]> = (0..count).map(|index| self.text(index)).collect();
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        compressor.compress(&texts, &mut bytes, &mut ends);
        PackedTexts { bytes, ends: narrow_ends(&ends), form: TextForm::Compressed }
    }
}

fn narrow_ends(ends: &[u64]) -> Vec<u32> {
    ends.iter().map(|&end| u32::try_from(end).expect("BUFFER_TEXT_MAX")).collect()
}

/// The buffers of a worker for packing.
#[derive(Debug, Default)]
pub(crate) struct BufferPacker {
    codes: Vec<u8>,
    slots: Vec<[u8; 4]>,
    compressed: Vec<u8>,
    ends: Vec<u64>,
}

impl BufferPacker {
    /// Packs the rows of a column buffer, which can be reused afterwards. `compressors` are those
    /// of the layout's columns.
    pub(crate) fn pack(
        &mut self,
        buffer: &mut ColumnBuffer,
        layout: &RowLayout,
        compressors: &[StringCompressor],
    ) -> PackedBuffer {
        self.codes.clear();
        let mut columns = Vec::with_capacity(layout.columns.len());
        let mut texts = Vec::new();
        for (column, compressor) in layout.columns.iter().zip(compressors) {
            let start = u32::try_from(self.codes.len()).expect("a column buffer is small");
            let (width, base) = if column.text.is_some() {
                texts.push(self.pack_texts(buffer, column, compressor));
                pack_codes(&self.slots, &mut self.codes)
            } else {
                pack_column(buffer.column(column), column.width, &mut self.codes)
            };
            columns.push(PackedColumn { start, width, base });
        }
        PackedBuffer {
            rows: buffer.rows,
            columns,
            codes: self.codes.as_slice().to_vec(),
            nulls: std::mem::replace(&mut buffer.nulls, vec![None; layout.columns.len()]),
            texts,
            sources: std::mem::take(&mut buffer.sources),
            worker: buffer.worker,
            sequence: buffer.sequence,
        }
    }

    /// Frees memory beyond this size: one text may have been a large part of the available memory.
    pub(crate) fn keep_at_most(&mut self, bytes: usize) {
        self.codes.clear();
        self.compressed.clear();
        self.codes.shrink_to(bytes);
        self.compressed.shrink_to(bytes);
    }

    /// Writes the column's slot codes to `slots`.
    fn pack_texts(
        &mut self,
        buffer: &ColumnBuffer,
        column: &ColumnLayout,
        compressor: &StringCompressor,
    ) -> PackedTexts {
        let BufferPacker { slots, compressed, ends, .. } = self;
        let mut own: Vec<&[u8]> = Vec::new();
        slots.clear();
        slots.extend(buffer.column(column).as_chunks::<4>().0.iter().map(|&slot| {
            let code = match u32::from_le_bytes(slot) {
                NULL_SLOT => SlotCode::Null,
                slot if slot & INTERNED != 0 => SlotCode::Interned(slot & !INTERNED),
                slot => {
                    own.push(buffer.texts.text_at(slot));
                    SlotCode::Own(u32::try_from(own.len() - 1).expect("a column buffer is small"))
                }
            };
            code.encode().to_le_bytes()
        }));
        if own.is_empty() {
            return PackedTexts::NONE;
        }
        // Symbols are looked up by their text when the segment is built.
        let is_symbol = column.column.ty == ColumnType::Symbol;
        if !is_symbol && compressor.is_worthwhile(&own) && compressor.shrinks(&own) {
            compressed.clear();
            ends.clear();
            compressor.compress(&own, compressed, ends);
            let (bytes, ends) = (compressed.as_slice().to_vec(), narrow_ends(ends));
            return PackedTexts { bytes, ends, form: TextForm::Compressed };
        }
        let mut end = 0;
        let ends = own.iter().map(|text| {
            end += text.len();
            u32::try_from(end).expect("BUFFER_TEXT_MAX")
        });
        PackedTexts { ends: ends.collect(), bytes: own.concat(), form: TextForm::Raw }
    }
}

impl PackedBuffer {
    /// The size of the memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        let nulls = self.nulls.iter().flatten().map(|bits| bits.len() * 8).sum::<usize>();
        let texts = self.texts.iter().map(|texts| texts.bytes.len() + texts.ends.len() * 4);
        let column_bytes = size_of::<PackedColumn>() + size_of::<Option<Box<[u64]>>>();
        let columns = self.columns.len() * column_bytes;
        let text_columns = self.texts.len() * size_of::<PackedTexts>();
        let sources = self.sources.len() * size_of::<SourceRange>();
        self.codes.len() + nulls + columns + text_columns + sources + texts.sum::<usize>()
    }

    /// The size of the column buffer's longest own text, as it is packed.
    pub(crate) fn longest_text(&self) -> usize {
        let longest = |texts: &PackedTexts| {
            let starts = std::iter::once(0).chain(texts.ends.iter().copied());
            starts.zip(&texts.ends).map(|(start, end)| end - start).max().unwrap_or(0)
        };
        self.texts.iter().map(longest).max().unwrap_or(0) as usize
    }

    /// The size of the column buffer's own texts of each row, as they are packed; empty if it has
    /// none.
    pub(crate) fn row_texts(&self, layout: &RowLayout) -> Vec<u64> {
        let mut bytes = Vec::new();
        let mut codes = Vec::new();
        for (index, column) in layout.columns.iter().enumerate() {
            let Some(texts) = column.text.map(|text| &self.texts[text]) else { continue };
            if texts.ends.is_empty() {
                continue;
            }
            bytes.resize(self.rows, 0);
            codes.clear();
            self.unpack(index, column, &mut codes);
            for (sum, &code) in bytes.iter_mut().zip(codes.as_chunks::<4>().0) {
                if let SlotCode::Own(own) = SlotCode::decode(u32::from_le_bytes(code)) {
                    *sum += texts.text(own).len() as u64;
                }
            }
        }
        bytes
    }

    /// Appends the values of a column, unpacked, to `out`.
    pub(crate) fn unpack(&self, index: usize, layout: &ColumnLayout, out: &mut Vec<u8>) {
        let PackedColumn { start, width, base } = self.columns[index];
        let (start, width) = (start as usize, usize::from(width));
        let codes = &self.codes[start..start + width * self.rows];
        match layout.width {
            1 => unpack_width::<1>(codes, width, base, self.rows, out),
            2 => unpack_width::<2>(codes, width, base, self.rows, out),
            4 => unpack_width::<4>(codes, width, base, self.rows, out),
            8 => unpack_width::<8>(codes, width, base, self.rows, out),
            _ => out.extend_from_slice(codes),
        }
    }
}

/// Appends the codes of a column; returns their width and their base.
fn pack_column(values: &[u8], width: usize, out: &mut Vec<u8>) -> (u8, u64) {
    match width {
        1 => pack_codes(values.as_chunks::<1>().0, out),
        2 => pack_codes(values.as_chunks::<2>().0, out),
        4 => pack_codes(values.as_chunks::<4>().0, out),
        8 => pack_codes(values.as_chunks::<8>().0, out),
        _ => {
            out.extend_from_slice(values);
            (u8::try_from(width).expect("16"), 0)
        }
    }
}

/// A little-endian number of `N` bytes, its sign extended.
#[inline]
fn signed<const N: usize>(bytes: [u8; N]) -> i64 {
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(&bytes);
    let shift = 64 - 8 * N;
    i64::from_le_bytes(wide) << shift >> shift
}

/// Appends values as their distances from the minimum, in as few bytes as the maximum needs.
fn pack_codes<const N: usize>(values: &[[u8; N]], out: &mut Vec<u8>) -> (u8, u64) {
    let bounds = (i64::MAX, i64::MIN);
    let (min, max) = values.iter().fold(bounds, |(min, max), &value| {
        let value = signed(value);
        (min.min(value), max.max(value))
    });
    if min >= max {
        let base = if values.is_empty() { 0 } else { min };
        return (0, base.cast_unsigned());
    }
    let base = min.cast_unsigned();
    let range = max.cast_unsigned().wrapping_sub(base);
    let width = match range {
        0..=0xFF if N > 1 => narrow::<N, 1>(values, base, out),
        0..=0xFFFF if N > 2 => narrow::<N, 2>(values, base, out),
        0..=0xFFFF_FFFF if N > 4 => narrow::<N, 4>(values, base, out),
        _ => {
            out.extend_from_slice(values.as_flattened());
            return (u8::try_from(N).expect("a width"), 0);
        }
    };
    (width, base)
}

/// Appends codes of `C` bytes.
fn narrow<const N: usize, const C: usize>(values: &[[u8; N]], base: u64, out: &mut Vec<u8>) -> u8 {
    let start = out.len();
    out.resize(start + values.len() * C, 0);
    for (code, &value) in out[start..].as_chunks_mut::<C>().0.iter_mut().zip(values) {
        *code = low_bytes(signed(value).cast_unsigned().wrapping_sub(base));
    }
    u8::try_from(C).expect("a width")
}

fn unpack_width<const N: usize>(
    codes: &[u8],
    width: usize,
    base: u64,
    rows: usize,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    if width == N {
        return out.extend_from_slice(codes);
    }
    out.resize(start + rows * N, 0);
    let values = out[start..].as_chunks_mut::<N>().0;
    match width {
        0 => values.fill(low_bytes(base)),
        1 => unpack_codes::<N, 1>(codes, base, values),
        2 => unpack_codes::<N, 2>(codes, base, values),
        _ => unpack_codes::<N, 4>(codes, base, values),
    }
}

#[inline]
fn low_bytes<const N: usize>(value: u64) -> [u8; N] {
    *value.to_le_bytes().first_chunk().expect("at most eight bytes")
}

fn unpack_codes<const N: usize, const C: usize>(codes: &[u8], base: u64, values: &mut [[u8; N]]) {
    for (value, code) in values.iter_mut().zip(codes.as_chunks::<C>().0) {
        let mut wide = [0; 8];
        wide[..C].copy_from_slice(code);
        *value = low_bytes(base.wrapping_add(u64::from_le_bytes(wide)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(values: &[i64], width: u8) {
        let bytes: Vec<[u8; N]> = values.iter().map(|v| low_bytes(v.cast_unsigned())).collect();
        let mut codes = b"before".to_vec();
        let (found, base) = pack_codes(&bytes, &mut codes);
        assert_eq!(found, width, "{values:?}");
        let mut out = b"kept".to_vec();
        unpack_width::<N>(&codes[6..], found.into(), base, values.len(), &mut out);
        assert_eq!(&out[4..], bytes.as_flattened(), "packed-1: {values:?}");
    }

    #[test]
    fn values_come_back_from_as_few_bytes_as_they_need() {
        check::<8>(&[], 0);
        check::<8>(&[7, 7, 7], 0);
        check::<8>(&[i64::MIN, i64::MIN + 255], 1);
        check::<8>(&[i64::MAX - 256, i64::MAX], 2);
        check::<8>(&[-1, 65_535], 4);
        check::<8>(&[0, 1 << 32], 8);
        check::<8>(&[i64::MIN, i64::MAX], 8);
        check::<4>(&[-128, 127, 0], 1);
        check::<4>(&[-1, 300], 2);
        check::<4>(&[i32::MIN.into(), i32::MAX.into()], 4);
        check::<2>(&[-5, 5], 1);
        check::<2>(&[i16::MIN.into(), i16::MAX.into()], 2);
        check::<1>(&[-5, 5], 1);
        check::<1>(&[-5, -5], 0);
    }

    #[test]
    fn slot_codes_are_told_apart() {
        for slot in [
            SlotCode::Null,
            SlotCode::Interned(0),
            SlotCode::Interned((1 << 31) - 1),
            SlotCode::Own(0),
            SlotCode::Own(1 << 20),
        ] {
            assert_eq!(SlotCode::decode(slot.encode()), slot, "packed-2");
        }
    }
}
