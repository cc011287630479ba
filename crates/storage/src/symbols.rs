//! Symbol dictionaries: the strings of a symbol column, each stored once under its `SymbolId`.
//!
//! - symbols-1. Ids are assigned in order, from 0, without gaps; the string of an id never changes.
//! - symbols-2. A [`SymbolTable`] never changes. A longer one shares its parts with the shorter
//!   one.
//! - symbols-3. A record or manifest contains the committed end of a file, as a
//!   [`SymbolWatermark`]; it is the end of an extent, and everything before it was synced before
//!   the record was written.
//! - symbols-4. Bytes after the last watermark are unused, and are cut off when the database is
//!   opened.
//!
//! Strings that were interned by an import which then failed stay in the dictionary, which is
//! harmless. Bytes: docs/format.md, Symbol file. The growing side is in `symbols/dictionary.rs`.

mod dictionary;

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tidegate_model::bytes::{ByteReader, ByteWriter};
use tidegate_model::{ColumnId, SymbolId, TableId, limits};

use crate::batch::BatchTexts;
use crate::checksummed_file;
use crate::error::{Corruption, DecodeError, Error, Result};

pub(crate) use dictionary::{Dictionary, file_name, parse_file_name};

/// Magic, version, table, column, checksum.
pub const HEADER_BYTES: usize = 8 + 4 + 8 + 4 + 4;
const MAGIC: [u8; 8] = *b"TIDESYM\0";
const VERSION: u32 = 1;
/// First id, count, bytes of strings, checksum.
const EXTENT_HEADER_BYTES: usize = 4 + 4 + 4 + 4;
/// Bytes of strings at which an extent is closed, so that reading needs no more memory.
const EXTENT_TEXT_BYTES: usize = 1 << 20;
/// Maximal bytes of strings of an extent: its last value closes it.
const EXTENT_TEXT_BYTES_MAX: usize = EXTENT_TEXT_BYTES + limits::SYMBOL_BYTES;
/// Values at which an extent is closed.
const EXTENT_VALUES: usize = 65_536;
/// Bytes of strings above which parts are not joined: their offsets have four bytes.
const PART_TEXT_BYTES: usize = 1 << 30;

/// The committed end of a symbol file (symbols-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SymbolWatermark {
    /// Number of values.
    pub count: u32,
    /// Bytes of the file; 0 if there is no file.
    pub bytes: u64,
}

/// Strings of consecutive symbols of a column, as a record contains them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolTexts {
    /// The column.
    pub column: ColumnId,
    /// The id of the first string.
    pub first: u32,
    /// The strings; at least one.
    pub texts: BatchTexts,
}

/// The dictionary of one symbol column as of some moment (symbols-2).
#[derive(Debug, Clone, Default)]
pub struct SymbolTable {
    /// Parts with consecutive ids. Each has more than twice the values of the next, so they are
    /// few.
    parts: Vec<Arc<Part>>,
    len: u32,
    hasher: RandomState,
}

/// The dictionaries of a table's symbol columns.
#[derive(Debug, Clone, Default)]
pub struct SymbolTables(pub(crate) BTreeMap<ColumnId, Arc<SymbolTable>>);

/// Values with consecutive ids, found by string through an index of four bytes for each value.
#[derive(Debug, Default)]
struct Part {
    first: u32,
    ends: Vec<u32>,
    bytes: Vec<u8>,
    /// Positions in `ends`.
    index: HashTable<u32>,
}

impl SymbolTexts {
    /// The id after the last string.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.first + u32::try_from(self.texts.len()).expect("limits::SYMBOLS")
    }
}

impl SymbolTables {
    /// The dictionary of a column; `None` if it is not a symbol column of the table.
    #[must_use]
    pub fn get(&self, column: ColumnId) -> Option<&Arc<SymbolTable>> {
        self.0.get(&column)
    }

    /// Returns true if each dictionary has as many values as in `other`.
    #[must_use]
    pub fn is_as_long_as(&self, other: &SymbolTables) -> bool {
        let len = |tables: &SymbolTables, column: &ColumnId| {
            tables.0.get(column).map_or(0, |table| table.len)
        };
        self.0.keys().chain(other.0.keys()).all(|column| len(self, column) == len(other, column))
    }

    /// The ids of strings of a column; new strings get the next ids.
    pub(crate) fn intern(&mut self, column: ColumnId, texts: &[&[u8]]) -> Result<Vec<SymbolId>> {
        let known = self.0.entry(column).or_default();
        let mut part = Part { first: known.len, ..Part::default() };
        let mut ids = Vec::with_capacity(texts.len());
        for text in texts {
            if text.len() > limits::SYMBOL_BYTES {
                return Err(Error::SymbolTooLong { bytes: text.len() });
            }
            let hash = known.hash(text);
            let id = known.find_hashed(hash, text).or_else(|| part.find(hash, text));
            let id = id.unwrap_or_else(|| {
                part.push(hash, text, &known.hasher);
                SymbolId(part.first + part.count() - 1)
            });
            if id.0 >= limits::SYMBOLS {
                return Err(Error::TooManySymbols { column: column.0 });
            }
            ids.push(id);
        }
        *known = Arc::new(known.extended(part));
        Ok(ids)
    }

    /// All dictionaries by column.
    pub fn iter(&self) -> impl Iterator<Item = (ColumnId, &Arc<SymbolTable>)> {
        self.0.iter().map(|(&column, table)| (column, table))
    }
}

/// Builds the tables from dictionaries in memory; for tests and for segments outside of a database.
impl FromIterator<(ColumnId, Arc<SymbolTable>)> for SymbolTables {
    fn from_iter<I: IntoIterator<Item = (ColumnId, Arc<SymbolTable>)>>(tables: I) -> SymbolTables {
        SymbolTables(tables.into_iter().collect())
    }
}

impl SymbolTable {
    /// A dictionary of these strings, which must differ; their ids are their positions.
    ///
    /// # Panics
    /// If two are equal, or there are more than `limits::SYMBOLS`.
    #[must_use]
    pub fn of<T: AsRef<[u8]>>(texts: &[T]) -> SymbolTable {
        let table = SymbolTable::default();
        let mut part = Part::default();
        for text in texts {
            assert!(table.push(&mut part, text.as_ref()), "symbols-1");
        }
        table.extended(part)
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true if there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The string of an id; it is UTF-8.
    ///
    /// # Panics
    /// If the id is not below `len`.
    #[must_use]
    pub fn text(&self, id: SymbolId) -> &[u8] {
        assert!(id.0 < self.len, "symbols-1: symbol {id} of {}", self.len);
        let after = self.parts.partition_point(|part| part.first <= id.0);
        let part = &self.parts[after - 1];
        part.text(id.0 - part.first)
    }

    /// The id of a string.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Option<SymbolId> {
        self.find_hashed(self.hash(text), text)
    }

    /// Every string in the order of ids.
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().flat_map(|part| part.texts())
    }

    /// The strings of ids from `first` on, below `end`.
    pub(crate) fn texts_between(&self, first: u32, end: u32) -> BatchTexts {
        let mut texts = BatchTexts::default();
        (first..end).for_each(|id| texts.push(self.text(SymbolId(id))));
        texts
    }

    /// This table, followed by the further values of a longer one.
    pub(crate) fn continued(&self, longer: &SymbolTable) -> SymbolTable {
        let mut part = Part { first: self.len, ..Part::default() };
        for id in self.len..longer.len {
            self.push(&mut part, longer.text(SymbolId(id)));
        }
        self.extended(part)
    }

    fn hash(&self, text: &[u8]) -> u64 {
        self.hasher.hash_one(text)
    }

    fn find_hashed(&self, hash: u64, text: &[u8]) -> Option<SymbolId> {
        // The first part has most of the values.
        self.parts.iter().find_map(|part| part.find(hash, text))
    }

    /// Appends a string to the part that follows this table; `false` if the table or the part has
    /// it.
    fn push(&self, part: &mut Part, text: &[u8]) -> bool {
        let hash = self.hash(text);
        if self.find_hashed(hash, text).or_else(|| part.find(hash, text)).is_some() {
            return false;
        }
        part.push(hash, text, &self.hasher);
        true
    }

    /// This table with the values of the part that follows it.
    fn extended(&self, part: Part) -> SymbolTable {
        let mut table = self.clone();
        if part.ends.is_empty() {
            return table;
        }
        assert_eq!(part.first, self.len, "symbols-1");
        table.len += part.count();
        let mut last = part;
        // Every value is copied each time its part doubles: at most log2(values) times.
        while let Some(before) = table.parts.pop_if(|before| before.joins(&last)) {
            last = before.joined(&last, &table.hasher);
        }
        table.parts.push(Arc::new(last));
        table
    }
}

impl Part {
    fn count(&self) -> u32 {
        u32::try_from(self.ends.len()).expect("limits::SYMBOLS")
    }

    fn text(&self, position: u32) -> &[u8] {
        let position = position as usize;
        let start = if position == 0 { 0 } else { self.ends[position - 1] as usize };
        &self.bytes[start..self.ends[position] as usize]
    }

    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count()).map(|position| self.text(position))
    }

    fn find(&self, hash: u64, text: &[u8]) -> Option<SymbolId> {
        let found = self.index.find(hash, |&position| self.text(position) == text);
        found.map(|position| SymbolId(self.first + position))
    }

    fn push(&mut self, hash: u64, text: &[u8], hasher: &RandomState) {
        let position = self.count();
        self.bytes.extend_from_slice(text);
        self.ends.push(u32::try_from(self.bytes.len()).expect("the part is closed before"));
        let Part { ends, bytes, index, .. } = self;
        index.insert_unique(hash, position, |&position| {
            let position = position as usize;
            let start = if position == 0 { 0 } else { ends[position - 1] as usize };
            hasher.hash_one(&bytes[start..ends[position] as usize])
        });
    }

    fn joins(&self, next: &Part) -> bool {
        self.ends.len() <= 2 * next.ends.len()
            && self.bytes.len() + next.bytes.len() <= PART_TEXT_BYTES
    }

    fn joined(&self, next: &Part, hasher: &RandomState) -> Part {
        let mut part = Part {
            first: self.first,
            ends: Vec::with_capacity(self.ends.len() + next.ends.len()),
            bytes: Vec::with_capacity(self.bytes.len() + next.bytes.len()),
            index: HashTable::with_capacity(self.ends.len() + next.ends.len()),
        };
        for text in self.texts().chain(next.texts()) {
            part.push(hasher.hash_one(text), text, hasher);
        }
        part
    }
}

/// A text in place of one that was lost with a damaged record (`symbol_gaps`).
pub(crate) fn reserved_text(id: u32) -> String {
    format!("lost symbol {id}")
}

/// Returns true for the reserved text of an id, which may end in underscores.
pub(crate) fn is_reserved(id: u32, text: &[u8]) -> bool {
    let rest = text.strip_prefix(reserved_text(id).as_bytes());
    rest.is_some_and(|rest| rest.iter().all(|&byte| byte == b'_'))
}

/// The header of a column's file.
pub(crate) fn encode_header(table: TableId, column: ColumnId) -> Vec<u8> {
    let mut w = ByteWriter(header_fields(VERSION, table.0, column.0));
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

/// The extent that begins with value `first`, which is set to the next value after it.
pub(crate) fn encode_extent(table: &SymbolTable, first: &mut u32) -> Vec<u8> {
    let (mut ends, mut texts) = (ByteWriter::default(), Vec::new());
    let begin = *first;
    while *first < table.len
        && texts.len() < EXTENT_TEXT_BYTES
        && ((*first - begin) as usize) < EXTENT_VALUES
    {
        texts.extend_from_slice(table.text(SymbolId(*first)));
        ends.u32(u32::try_from(texts.len()).expect("EXTENT_TEXT_BYTES and one symbol"));
        *first += 1;
    }
    let mut w = ByteWriter::default();
    w.u32(begin).u32(*first - begin);
    w.u32(u32::try_from(texts.len()).expect("EXTENT_TEXT_BYTES and one symbol"));
    let crc = crc32c::crc32c(&w.0);
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &ends.0), &texts);
    w.u32(crc).raw(&ends.0).raw(&texts);
    w.0
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
    let mut symbols = SymbolTable::default();
    if watermark == SymbolWatermark::default() {
        return Ok(symbols);
    }
    let committed = usize::try_from(watermark.bytes).ok().and_then(|end| bytes.get(..end));
    let Some(committed) = committed else {
        let (expected, actual) = (watermark.bytes, bytes.len() as u64);
        return Err(DecodeError::at(bytes.len(), Corruption::Length { expected, actual }));
    };
    let mut r = ByteReader::new(committed);
    decode_header(&mut r, table, column)?;
    let mut part = Part::default();
    while r.left() > 0 {
        if part.bytes.len() + EXTENT_TEXT_BYTES_MAX > PART_TEXT_BYTES {
            symbols = symbols.extended(std::mem::take(&mut part));
            part.first = symbols.len;
        }
        decode_extent(&mut r, committed, &symbols, &mut part)?;
    }
    symbols = symbols.extended(part);
    if symbols.len != watermark.count {
        let (expected, actual) = (watermark.count.into(), symbols.len.into());
        let what = Corruption::Differs { what: "the number of symbols", expected, actual };
        return Err(DecodeError::at(committed.len(), what));
    }
    Ok(symbols)
}

fn decode_header(
    r: &mut ByteReader<'_>,
    table: TableId,
    column: ColumnId,
) -> Result<(), DecodeError> {
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
    let names =
        [("the table", table.0, found_table), ("the column", column.0.into(), found_column.into())];
    for (what, expected, actual) in names {
        if expected != actual {
            return Err(DecodeError::at(12, Corruption::Differs { what, expected, actual }));
        }
    }
    Ok(())
}

/// Appends the next extent of `file` to the part that follows `symbols`.
fn decode_extent(
    r: &mut ByteReader<'_>,
    file: &[u8],
    symbols: &SymbolTable,
    part: &mut Part,
) -> Result<(), DecodeError> {
    let start = r.offset();
    let (first, count, text_bytes, expected) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
    let impossible = |what, value: u32| {
        Err(DecodeError::at(start, Corruption::Impossible { what, value: value.into() }))
    };
    let known = part.first + part.count();
    if first != known || count == 0 || count > limits::SYMBOLS - known {
        return impossible("the number of symbols in an extent", count);
    }
    if text_bytes as usize > EXTENT_TEXT_BYTES_MAX {
        return impossible("the size of an extent", text_bytes);
    }
    let ends = r.raw((count as usize).saturating_mul(4))?;
    let texts = r.raw(text_bytes as usize)?;
    let fields = crc32c::crc32c(&file[start..start + EXTENT_HEADER_BYTES - 4]);
    let actual = crc32c::crc32c_append(crc32c::crc32c_append(fields, ends), texts);
    if actual != expected {
        return Err(DecodeError::at(start, Corruption::Checksum { expected, actual }));
    }
    let mut begin = 0;
    for end in ends.as_chunks::<4>().0 {
        let end = u32::from_le_bytes(*end);
        let Some(text) = texts.get(begin as usize..end as usize) else {
            return impossible("the end of a symbol", end);
        };
        if text.len() > limits::SYMBOL_BYTES || std::str::from_utf8(text).is_err() {
            return Err(DecodeError::at(start, Corruption::NotText { what: "a symbol" }));
        }
        if !symbols.push(part, text) {
            return impossible("the end of a symbol that is there already", end);
        }
        begin = end;
    }
    if begin != text_bytes {
        return impossible("the end of the last symbol", begin);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
