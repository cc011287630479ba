//! Symbol dictionaries: the strings of a symbol column, each stored once under its `SymbolId`.
//!
//! - symbols-1. Ids are assigned in order, from 0, without gaps; the string of an id never changes.
//! - symbols-2. A [`SymbolTable`] never changes. A longer one shares its parts with the shorter
//!   one.
//! - symbols-3. A record or manifest contains the committed end of a file, as a
//!   [`SymbolWatermark`]; it is the end of a symbol range, and everything before it was synced
//!   before the record was written.
//! - symbols-4. Bytes after the last watermark are unused, and are cut off when the database is
//!   opened.
//! - symbols-5. A *saved* part of a table is a range of the file: whole symbol ranges
//!   before a watermark, which are synced and checked, and not written again while the part lives.
//!   Its strings are read from the mapped file, so the kernel can evict them. In memory are the
//!   ends of the strings and an index, at most 16 bytes for each, and the strings that are not
//!   saved yet.
//!
//! Strings that were interned by an import which then failed stay in the dictionary, which is
//! harmless. Bytes: docs/format.md, Symbol file. The growing side is in `symbols/dictionary.rs`.

mod dictionary;
mod file;
mod part;

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidegate_model::{ColumnId, SymbolId, limits};
use tidegate_platform::MemoryBudget;

use crate::batch::BatchTexts;
use crate::error::{Error, Result};
use part::{Part, SavedText};

pub(crate) use dictionary::{Dictionary, file_name, parse_file_name};
pub use file::{HEADER_BYTES, decode};
pub(crate) use file::{SymbolColumn, end_with, last_end, read};

/// First id, count, bytes of strings, checksum.
const SYMBOL_RANGE_HEADER_BYTES: usize = 4 + 4 + 4 + 4;
/// Bytes of strings, or of symbol ranges, above which parts are not joined: their offsets have 31
/// bits.
const PART_BYTES: usize = 1 << 30;

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

/// The dictionary of one symbol column, which never changes (symbols-2).
#[derive(Debug, Clone, Default)]
pub struct SymbolTable {
    /// Parts with consecutive ids, the saved ones first. Among the saved parts, and among the other
    /// parts, each has more than twice the values of the next, so there are few.
    parts: Vec<Arc<Part>>,
    len: u32,
    hasher: RandomState,
    /// The budget that counts the parts; `None` outside of a database.
    memory: Option<Arc<MemoryBudget>>,
}

/// The dictionaries of a table's symbol columns.
#[derive(Debug, Clone, Default)]
pub struct SymbolTables(pub(crate) BTreeMap<ColumnId, Arc<SymbolTable>>);

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
        let mut part = Part::fresh(known.len);
        let mut ids = Vec::with_capacity(texts.len());
        for text in texts {
            if text.len() > limits::SYMBOL_BYTES {
                return Err(Error::SymbolTooLong { bytes: text.len() });
            }
            let hash = known.hash(text);
            let id = known.find_hashed(hash, text).or_else(|| part.find(hash, text));
            let id = id.unwrap_or_else(|| {
                part.push(hash, text, &known.hasher);
                SymbolId(part.end() - 1)
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
        let mut part = Part::fresh(0);
        for text in texts {
            assert!(table.push(&mut part, text.as_ref()), "symbols-1");
        }
        table.extended(part)
    }

    /// A dictionary without values, whose parts a budget counts.
    pub(crate) fn counted(memory: &Arc<MemoryBudget>) -> SymbolTable {
        SymbolTable { memory: Some(Arc::clone(memory)), ..SymbolTable::default() }
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
        let after = self.parts.partition_point(|part| part.first() <= id.0);
        let part = &self.parts[after - 1];
        part.text(id.0 - part.first())
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
        let mut table = self.clone();
        let mut part = Part::fresh(table.len);
        for id in self.len..longer.len {
            let text = longer.text(SymbolId(id));
            if part.text_bytes() + text.len() > PART_BYTES {
                table = table.extended(part);
                part = Part::fresh(table.len);
            }
            table.push(&mut part, text);
        }
        table.extended(part)
    }

    /// Bytes of the strings that are not in the file.
    fn fresh_bytes(&self) -> usize {
        let fresh = self.parts.iter().filter(|part| part.file_range().is_none());
        fresh.map(|part| part.text_bytes()).sum()
    }

    /// Bytes of memory, without pages of the file.
    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.heap_bytes()).sum()
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

    /// As `push`, for a string of a saved part.
    fn push_saved(&self, part: &mut Part, text: &[u8], place: SavedText) -> bool {
        let hash = self.hash(text);
        if self.find_hashed(hash, text).or_else(|| part.find(hash, text)).is_some() {
            return false;
        }
        part.push_saved(hash, place, &self.hasher);
        true
    }

    /// This table with the values of the fresh part that follows it.
    fn extended(&self, part: Part) -> SymbolTable {
        let mut table = self.clone();
        if part.is_empty() {
            return table;
        }
        assert_eq!(part.first(), self.len, "symbols-1");
        let mut last = part;
        // Every value is copied each time its part doubles: at most log2(values) times until it is
        // saved.
        while let Some(before) = table.parts.pop_if(|before| before.joins(&last)) {
            last = before.joined(&last, &table.hasher);
            table.len = before.first();
        }
        last.shrink(&table.hasher);
        table.append(last);
        table
    }

    /// Appends the part that follows this table.
    fn append(&mut self, mut part: Part) {
        assert_eq!(part.first(), self.len, "symbols-1");
        part.count_in(self.memory.as_ref());
        self.len = part.end();
        self.parts.push(Arc::new(part));
    }

    /// The parts of the file that stay, if the values up to this watermark become one part, and
    /// the offset at which the others begin.
    fn kept(&self, saved: SymbolWatermark) -> (SymbolTable, u64) {
        let mut kept = SymbolTable { parts: Vec::new(), len: 0, ..self.clone() };
        let mut offset = HEADER_BYTES as u64;
        for part in &self.parts {
            let Some(range) = part.file_range() else { break };
            assert_eq!(range.start, offset, "symbols-5: symbol ranges without a gap");
            offset = range.end;
            kept.len = part.end();
            kept.parts.push(Arc::clone(part));
        }
        while let Some(last) = kept.parts.last() {
            let start = offset - last.text_bytes() as u64;
            let is_large = u64::from(last.count()) > 2 * u64::from(saved.count - kept.len)
                || saved.bytes - start > PART_BYTES as u64;
            if is_large {
                break;
            }
            (offset, kept.len) = (start, last.first());
            kept.parts.pop();
        }
        (kept, offset)
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

#[cfg(test)]
mod tests;
