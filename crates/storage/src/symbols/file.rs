//! The file of a symbol column: its header, and its symbol ranges, written and read.
//! Bytes: docs/format.md, Symbol file.
//!
//! Symbol ranges are checked before a table has them: their checksums, that their strings are
//! UTF-8, and that none occurs twice.
//!
//! Not here: writing to the disk (`dictionary`).

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tidegate_model::bytes::{ByteReader, ByteWriter};
use tidegate_model::{ColumnId, SymbolId, TableId, limits};
use tidegate_platform::{Disk, DiskFile, Mapping, OpenMode};

use super::part::{Part, SavedRange, SavedText};
use super::{PART_BYTES, SYMBOL_RANGE_HEADER_BYTES, SymbolTable, SymbolWatermark};
use crate::checksummed_file;
use crate::error::{Corruption, DecodeError, Error, Result};

/// Magic, version, table, column, checksum.
pub const HEADER_BYTES: usize = 8 + 4 + 8 + 4 + 4;
const MAGIC: [u8; 8] = *b"TIDESYM\0";
const VERSION: u32 = 1;
/// Bytes of strings at which a symbol range is closed, so that reading needs no more memory.
const SYMBOL_RANGE_TEXT_BYTES: usize = 1 << 20;
/// Maximal bytes of strings of a symbol range: its last value closes it.
const SYMBOL_RANGE_TEXT_BYTES_MAX: usize = SYMBOL_RANGE_TEXT_BYTES + limits::SYMBOL_BYTES;
/// Values at which a symbol range is closed.
const SYMBOL_RANGE_VALUES: usize = 65_536;
/// Bytes from which on a range of the file is mapped. Small ones are in memory: a table has many
/// of them, and a process can have only so many mappings.
pub(super) const MAPPED_BYTES_MIN: u64 = 64 << 10;
/// Bytes that are requested from the disk at a time while symbol ranges are checked.
const AHEAD_BYTES: usize = 1 << 20;

/// The column that a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SymbolColumn {
    pub(crate) table: TableId,
    pub(crate) column: ColumnId,
}

/// The header of a column's file.
pub(super) fn encode_header(of: SymbolColumn) -> Vec<u8> {
    let mut w = ByteWriter(header_fields(VERSION, of.table.0, of.column.0));
    let crc = crc32c::crc32c(&w.0);
    w.u32(crc);
    assert_eq!(w.0.len(), HEADER_BYTES, "docs/format.md, Symbol file");
    w.0
}

/// The bytes that the checksum of a header covers.
fn header_fields(version: u32, table: u64, column: u32) -> Vec<u8> {
    let mut w = ByteWriter::default();
    w.raw(&MAGIC).u32(version).u64(table).u32(column);
    w.0
}

/// The symbol range that begins with value `first`, which is set to the next value after it.
pub(super) fn encode_symbol_range(table: &SymbolTable, first: &mut u32) -> Vec<u8> {
    let (mut ends, mut texts) = (ByteWriter::default(), Vec::new());
    let begin = *first;
    while *first < table.len
        && texts.len() < SYMBOL_RANGE_TEXT_BYTES
        && ((*first - begin) as usize) < SYMBOL_RANGE_VALUES
    {
        texts.extend_from_slice(table.text(SymbolId(*first)));
        ends.u32(u32::try_from(texts.len()).expect("SYMBOL_RANGE_TEXT_BYTES and one symbol"));
        *first += 1;
    }
    let mut w = ByteWriter::default();
    w.u32(begin).u32(*first - begin);
    w.u32(u32::try_from(texts.len()).expect("SYMBOL_RANGE_TEXT_BYTES and one symbol"));
    let crc = crc32c::crc32c(&w.0);
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &ends.0), &texts);
    w.u32(crc).raw(&ends.0).raw(&texts);
    w.0
}

/// The values of a column's file up to `watermark`; it may be longer (symbols-4). `empty` is the
/// table without values.
///
/// # Errors
/// If the file cannot be read or mapped, and as `decode`.
pub(crate) fn read(
    disk: &dyn Disk,
    path: &Path,
    of: SymbolColumn,
    watermark: SymbolWatermark,
    empty: SymbolTable,
) -> Result<SymbolTable> {
    if watermark == SymbolWatermark::default() {
        return Ok(empty);
    }
    let file = match disk.open(path, OpenMode::Read) {
        Err(error) if error.is_not_found() => return Err(Error::missing(path)),
        opened => opened.map_err(Error::disk("read symbols"))?,
    };
    let length = file.len().map_err(Error::disk("read symbols"))?;
    check_length(length, watermark).map_err(Error::decode(path))?;
    let bytes = load(file.as_ref(), 0..watermark.bytes).map_err(Error::disk("read symbols"))?;
    decode_mapped(bytes, of, watermark, empty).map_err(Error::decode(path))
}

/// A range of a file that does not change (symbols-5): mapped, or in memory if it is small.
pub(super) fn load(file: &dyn DiskFile, range: Range<u64>) -> tidegate_platform::Result<Mapping> {
    if MAPPED_BYTES_MIN <= range.end - range.start {
        return file.map_range(range);
    }
    let bytes = usize::try_from(range.end - range.start).expect("MAPPED_BYTES_MIN");
    let mut read = vec![0; bytes];
    file.read_exact_at(&mut read, range.start)?;
    Ok(Mapping::from(Arc::<[u8]>::from(read)))
}

/// The values of a column's file up to `watermark`; `bytes` may be longer (symbols-4).
///
/// # Errors
/// If the file is not the one of this table and column, is shorter than the watermark, or is
/// damaged before it.
pub fn decode(
    bytes: &[u8],
    table: TableId,
    column: ColumnId,
    watermark: SymbolWatermark,
) -> Result<SymbolTable, DecodeError> {
    if watermark == SymbolWatermark::default() {
        return Ok(SymbolTable::default());
    }
    check_length(bytes.len() as u64, watermark)?;
    let committed = usize::try_from(watermark.bytes).expect("it is at most the length");
    let bytes = Mapping::from(&bytes[..committed]);
    decode_mapped(bytes, SymbolColumn { table, column }, watermark, SymbolTable::default())
}

/// The end of the first symbol range of a file with which it has at least so many values; `None` if
/// it has fewer. Strings and checksums are not read.
pub(crate) fn end_with(bytes: &[u8], count: u32) -> Option<SymbolWatermark> {
    Some(last_end(bytes, count)).filter(|end| count <= end.count)
}

/// As `end_with`, or the end of the last whole symbol range if the file has fewer values.
pub(crate) fn last_end(bytes: &[u8], count: u32) -> SymbolWatermark {
    let mut end = SymbolWatermark { count: 0, bytes: HEADER_BYTES as u64 };
    while end.count < count {
        let Some(next) = next_end(bytes, end) else { break };
        end = next;
    }
    end
}

/// The end of the symbol range that begins at `end`; `None` if there is no whole one.
fn next_end(bytes: &[u8], end: SymbolWatermark) -> Option<SymbolWatermark> {
    let start = usize::try_from(end.bytes).ok()?;
    let mut r = ByteReader::new(bytes.get(start..)?);
    let (first, values, texts) = (r.u32().ok()?, r.u32().ok()?, r.u32().ok()?);
    if first != end.count || values == 0 {
        return None;
    }
    let ends_bytes = (values as usize).checked_mul(4)?;
    let symbol_range =
        SYMBOL_RANGE_HEADER_BYTES.checked_add(ends_bytes)?.checked_add(texts as usize)?;
    let end_bytes = start.checked_add(symbol_range).filter(|end| *end <= bytes.len())?;
    Some(SymbolWatermark { count: end.count.checked_add(values)?, bytes: end_bytes as u64 })
}

fn check_length(actual: u64, watermark: SymbolWatermark) -> Result<(), DecodeError> {
    let expected = watermark.bytes;
    if expected <= actual {
        return Ok(());
    }
    let what = Corruption::Length { expected, actual };
    Err(DecodeError::Corrupt { offset: actual, what })
}

/// The values of a file that ends with the watermark.
fn decode_mapped(
    bytes: Mapping,
    of: SymbolColumn,
    watermark: SymbolWatermark,
    empty: SymbolTable,
) -> Result<SymbolTable, DecodeError> {
    decode_header(&mut ByteReader::new(&bytes), of)?;
    let saved = SavedRange { symbol_ranges: HEADER_BYTES..bytes.len(), bytes, offset: 0 };
    let symbols = append_symbol_ranges(empty, &saved)?;
    if symbols.len != watermark.count {
        let (expected, actual) = (watermark.count.into(), symbols.len.into());
        let what = Corruption::Differs { what: "the number of symbols", expected, actual };
        return Err(DecodeError::Corrupt { offset: watermark.bytes, what });
    }
    Ok(symbols)
}

fn decode_header(r: &mut ByteReader<'_>, of: SymbolColumn) -> Result<(), DecodeError> {
    let mut header = ByteReader::new(r.raw(HEADER_BYTES)?);
    if header.array::<8>()? != MAGIC {
        return Err(DecodeError::at(0, Corruption::Magic { expected: "symbol file" }));
    }
    let (version, found_table, found_column) = (header.u32()?, header.u64()?, header.u32()?);
    let actual = crc32c::crc32c(&header_fields(version, found_table, found_column));
    let expected = header.u32()?;
    if actual != expected {
        return Err(DecodeError::at(24, Corruption::Checksum { expected, actual }));
    }
    checksummed_file::check_version(version, VERSION..=VERSION, 8)?;
    let names = [
        ("the table", of.table.0, found_table),
        ("the column", of.column.0.into(), found_column.into()),
    ];
    for (what, expected, actual) in names {
        if expected != actual {
            return Err(DecodeError::at(12, Corruption::Differs { what, expected, actual }));
        }
    }
    Ok(())
}

/// A table, followed by the values of these symbol ranges, which are checked.
///
/// # Errors
/// If they are damaged, or do not follow the values of the table.
pub(super) fn append_symbol_ranges(
    mut symbols: SymbolTable,
    saved: &SavedRange,
) -> Result<SymbolTable, DecodeError> {
    let end = saved.symbol_ranges.end;
    let mut r = ByteReader::new(&saved.bytes[..end]);
    r.raw(saved.symbol_ranges.start)?;
    while r.left() > 0 {
        let part = decode_part(&mut r, saved, &symbols).map_err(within(saved.offset))?;
        symbols.append(part);
    }
    Ok(symbols)
}

/// The error at a place of a range that begins at this offset of the file.
fn within(begin: u64) -> impl Fn(DecodeError) -> DecodeError {
    move |error| match error {
        DecodeError::Corrupt { offset, what } => {
            DecodeError::Corrupt { offset: begin + offset, what }
        }
        newer @ DecodeError::NewerFormat { .. } => newer,
    }
}

/// The next symbol ranges, as many as fit a part.
fn decode_part(
    r: &mut ByteReader<'_>,
    saved: &SavedRange,
    symbols: &SymbolTable,
) -> Result<Part, DecodeError> {
    let start = r.offset();
    let planned = plan_part(r.clone(), &saved.bytes, symbols.len);
    let range = SavedRange { symbol_ranges: start..planned.end, ..saved.clone() };
    let mut part = Part::saved(symbols.len, range, planned.count as usize);
    let mut ahead = Ahead { bytes: &saved.bytes, requested: start };
    while r.offset() < planned.end || part.is_empty() {
        ahead.request(r.offset());
        let range_start = r.offset();
        let symbol_range = decode_symbol_range(r, saved, part.end())?;
        if r.offset() > planned.end {
            let (what, value) = ("the size of a symbol range", symbol_range.text_bytes.into());
            return Err(DecodeError::at(range_start, Corruption::Impossible { what, value }));
        }
        push_texts(&mut part, &symbol_range, symbols)?;
    }
    Ok(part)
}

/// The symbol ranges of a part, according to their headers, which are not checked yet.
struct PlannedPart {
    end: usize,
    count: u32,
}

/// Adds up symbol ranges until one does not fit, or cannot be one: reading it gives the error.
fn plan_part(mut r: ByteReader<'_>, bytes: &Mapping, first: u32) -> PlannedPart {
    let start = r.offset();
    let mut planned = PlannedPart { end: start, count: 0 };
    let mut ahead = Ahead { bytes, requested: start };
    while r.left() > 0 {
        ahead.request(r.offset());
        let Ok(symbol_range) = decode_symbol_range_header(&mut r, first + planned.count) else {
            break;
        };
        if r.raw(symbol_range.body_bytes()).is_err() || PART_BYTES < r.offset() - start {
            break;
        }
        planned = PlannedPart { end: r.offset(), count: planned.count + symbol_range.count };
    }
    planned
}

/// Requests bytes from the disk before they are read.
struct Ahead<'a> {
    bytes: &'a Mapping,
    /// The end of what was requested.
    requested: usize,
}

impl Ahead<'_> {
    fn request(&mut self, offset: usize) {
        let wanted = offset.saturating_add(AHEAD_BYTES).min(self.bytes.len());
        if self.requested < wanted {
            let start = self.requested.max(offset);
            let end = start.saturating_add(2 * AHEAD_BYTES).min(self.bytes.len());
            self.bytes.will_need(start..end);
            self.requested = end;
        }
    }
}

struct SymbolRangeHeader {
    count: u32,
    text_bytes: u32,
    crc: u32,
}

impl SymbolRangeHeader {
    /// Bytes of ends and texts.
    fn body_bytes(&self) -> usize {
        (self.count as usize).saturating_mul(4).saturating_add(self.text_bytes as usize)
    }
}

/// A symbol range whose checksum is right.
struct SymbolRange<'a> {
    start: usize,
    ends: &'a [u8],
    texts: &'a [u8],
    /// The place of `texts` in the range.
    texts_start: usize,
    text_bytes: u32,
}

fn decode_symbol_range_header(
    r: &mut ByteReader<'_>,
    known: u32,
) -> Result<SymbolRangeHeader, DecodeError> {
    let start = r.offset();
    let (first, count, text_bytes, crc) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
    let impossible = |what, value: u32| {
        Err(DecodeError::at(start, Corruption::Impossible { what, value: value.into() }))
    };
    if first != known || count == 0 || count > limits::SYMBOLS - known {
        return impossible("the number of symbols in a symbol range", count);
    }
    if text_bytes as usize > SYMBOL_RANGE_TEXT_BYTES_MAX {
        return impossible("the size of a symbol range", text_bytes);
    }
    Ok(SymbolRangeHeader { count, text_bytes, crc })
}

fn decode_symbol_range<'a>(
    r: &mut ByteReader<'a>,
    saved: &SavedRange,
    known: u32,
) -> Result<SymbolRange<'a>, DecodeError> {
    let start = r.offset();
    let SymbolRangeHeader { count, text_bytes, crc: expected } =
        decode_symbol_range_header(r, known)?;
    let ends = r.raw((count as usize).saturating_mul(4))?;
    let texts_start = r.offset();
    let texts = r.raw(text_bytes as usize)?;
    let fields = crc32c::crc32c(&saved.bytes[start..start + SYMBOL_RANGE_HEADER_BYTES - 4]);
    let actual = crc32c::crc32c_append(crc32c::crc32c_append(fields, ends), texts);
    if actual != expected {
        return Err(DecodeError::at(start, Corruption::Checksum { expected, actual }));
    }
    Ok(SymbolRange { start, ends, texts, texts_start, text_bytes })
}

/// Appends the strings of a symbol range to the part that follows `symbols`.
fn push_texts(
    part: &mut Part,
    symbol_range: &SymbolRange<'_>,
    symbols: &SymbolTable,
) -> Result<(), DecodeError> {
    let &SymbolRange { start, ends, texts, texts_start, text_bytes } = symbol_range;
    let impossible = |what, value: u32| {
        Err(DecodeError::at(start, Corruption::Impossible { what, value: value.into() }))
    };
    let mut begin = 0;
    for (at, end) in ends.as_chunks::<4>().0.iter().enumerate() {
        let end = u32::from_le_bytes(*end);
        let Some(text) = texts.get(begin as usize..end as usize) else {
            return impossible("the end of a symbol", end);
        };
        if text.len() > limits::SYMBOL_BYTES || std::str::from_utf8(text).is_err() {
            return Err(DecodeError::at(start, Corruption::NotText { what: "a symbol" }));
        }
        let place = SavedText { end: texts_start + end as usize, is_after_header: at == 0 };
        if !symbols.push_saved(part, text, place) {
            return impossible("the end of a symbol that is there already", end);
        }
        begin = end;
    }
    if begin != text_bytes {
        return impossible("the end of the last symbol", begin);
    }
    Ok(())
}
