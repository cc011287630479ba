//! Gaps in the symbols of a table: ids whose texts are missing because the record that had them is
//! damaged.
//!
//! - symbol_gaps-1. If the texts of a record begin after a gap, texts for the missing ids are added
//!   before them, so that ids stay without gaps (symbols-1). An added text is that of a discarded
//!   record or a symbol file, if one has it, and otherwise the reserved text `lost symbol <id>`.
//! - symbol_gaps-2. No row that is kept has a symbol with a reserved text, or a symbol of a column
//!   whose ADD COLUMN is in a missing record.
//!
//! Used by `offline` for a repair. Bytes: docs/format.md, Log.

use std::collections::{BTreeMap, HashSet};

use tidegate_model::frame::Dictionary;
use tidegate_model::{Column, ColumnId, ColumnType, Schema, SymbolId};

use crate::batch::BatchTexts;
use crate::segment::Reader;
use crate::snapshot::SegmentRun;
use crate::symbols::{SymbolTable, SymbolTables, SymbolTexts, SymbolWatermark, reserved_text};

/// The maximum number of bytes that a record needs for a text besides the text itself.
const TEXT_OVERHEAD_BYTES: usize = 8;

/// The gaps of a table's symbols.
#[derive(Debug, Default)]
pub(crate) struct SymbolGaps {
    /// Ids with a reserved text, ascending.
    reserved: BTreeMap<ColumnId, Vec<u32>>,
    /// Texts of discarded records and of symbol files, by id.
    discarded: BTreeMap<ColumnId, BTreeMap<u32, Vec<u8>>>,
}

/// A record to be completed: its rows, and the texts that it has for them.
pub(crate) struct RecordToComplete<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) symbols: &'a mut Vec<SymbolTexts>,
    /// Empty if the rows need no check.
    pub(crate) runs: &'a [SegmentRun],
    /// Columns of symbols that only later commits know: the commit that added them is missing.
    pub(crate) later: &'a [Column],
    /// The number of bytes that may be added to the record.
    pub(crate) room_bytes: &'a mut usize,
}

impl SymbolGaps {
    /// Adds missing texts to a record (symbol_gaps-1). Returns false, and leaves the record as it
    /// is, if its texts contradict the known ones, or its rows cannot be kept (symbol_gaps-2).
    pub(crate) fn complete(&mut self, known: &SymbolTables, record: RecordToComplete<'_>) -> bool {
        let RecordToComplete { schema, symbols, runs, later, room_bytes } = record;
        let own: Vec<SymbolTexts> = symbols.clone();
        self.add_columns(symbols, known, schema, runs);
        let with_added: Vec<SymbolTexts> = symbols.clone();
        let mut longer = known.clone();
        let mut fits = symbols.iter_mut().all(|texts| {
            // The column has been dropped by a later record.
            let Some(before) = known.get(texts.column) else { return true };
            self.fill_gap(texts, before, room_bytes)
                && (runs.is_empty() || intern_after(&mut longer, before, texts))
        });
        fits = fits && runs.iter().all(|run| self.can_read(run, schema, &longer));
        fits = fits && !runs.iter().any(|run| has_symbols(run, later));
        if !fits {
            *symbols = own;
            with_added.iter().for_each(|texts| self.keep_discarded(texts, known));
        }
        fits
    }

    /// Adds to the record the columns for which it has no texts, but its rows have ids after the
    /// known ones, if the text of each id is in `discarded`: such a text was written before the
    /// rows, to a symbol file or another record.
    fn add_columns(
        &self,
        symbols: &mut Vec<SymbolTexts>,
        known: &SymbolTables,
        schema: &Schema,
        runs: &[SegmentRun],
    ) {
        let readers: Vec<_> = runs.iter().filter_map(|run| run.reader().ok()).collect();
        for (&column, discarded) in &self.discarded {
            let is_there = symbols.iter().any(|texts| texts.column == column);
            let Some(known) = known.get(column).filter(|_| !is_there) else { continue };
            let Some(column) = schema.column(column) else { continue };
            let ids = readers.iter().flat_map(|reader| symbol_ids(reader, column));
            let missing: Vec<u32> = ids.filter(|&id| count_of(known) <= id).collect();
            let Some(&last) = missing.iter().max() else { continue };
            if missing.iter().all(|id| discarded.contains_key(id)) {
                let texts = BatchTexts::default();
                symbols.push(SymbolTexts { column: column.id, first: last + 1, texts });
            }
        }
    }

    /// Keeps the texts of a symbol file, which begin at id 0, for later rows.
    pub(crate) fn keep_file_texts(&mut self, column: ColumnId, texts: Vec<Vec<u8>>) {
        self.discarded.entry(column).or_default().extend((0..).zip(texts));
    }

    /// Forgets the ids that a symbol file has now.
    pub(crate) fn forget_saved(&mut self, watermarks: &BTreeMap<ColumnId, SymbolWatermark>) {
        for (column, &SymbolWatermark { count, .. }) in watermarks {
            if let Some(ids) = self.reserved.get_mut(column) {
                ids.drain(..ids.partition_point(|&id| id < count));
            }
            if let Some(texts) = self.discarded.get_mut(column)
                && texts.first_key_value().is_some_and(|(&id, _)| id < count)
            {
                *texts = texts.split_off(&count);
            }
        }
    }

    /// Adds texts between the known ones and those of a record. Returns false if a text contradicts
    /// a known one, or `room` is too small.
    fn fill_gap(&mut self, texts: &mut SymbolTexts, known: &SymbolTable, room: &mut usize) -> bool {
        let (first, count) = (texts.first, count_of(known));
        let differs =
            |&id: &u32| known.text(SymbolId(id)) != texts.texts.get((id - first) as usize);
        let others: Vec<u32> = (first..count.min(texts.end())).filter(differs).collect();
        if !others.is_empty() {
            // Rows with these ids would show the texts of other symbols.
            self.reserve(texts.column, others);
            return false;
        }
        let mut added = 0;
        let (mut filled, mut reserved) = (BatchTexts::default(), Vec::new());
        let own: Vec<&[u8]> = (0..texts.texts.len()).map(|at| texts.texts.get(at)).collect();
        let mut taken: HashSet<Vec<u8>> = HashSet::new();
        if count < first {
            taken.extend(own.iter().map(|text| text.to_vec()));
        }
        let discarded = self.discarded.get(&texts.column);
        for id in count..first {
            let is_free = |text: &Vec<u8>| known.find(text).is_none() && !taken.contains(text);
            let discarded = discarded.and_then(|texts| texts.get(&id)).filter(|text| is_free(text));
            let text = discarded.cloned().unwrap_or_else(|| {
                reserved.push(id);
                let mut text = reserved_text(id).into_bytes();
                while !is_free(&text) {
                    text.push(b'_');
                }
                text
            });
            added += text.len() + TEXT_OVERHEAD_BYTES;
            if *room < added {
                return false;
            }
            filled.push(&text);
            taken.insert(text);
        }
        if count < first {
            own.iter().for_each(|text| filled.push(text));
            (texts.first, texts.texts) = (count, filled);
        }
        *room -= added;
        self.reserve(texts.column, reserved);
        true
    }

    fn can_read(&self, run: &SegmentRun, schema: &Schema, symbols: &SymbolTables) -> bool {
        let Ok(reader) = run.reader() else { return false };
        reader.verify(schema, symbols).is_ok() && !self.has_reserved(&reader, schema)
    }

    /// Returns true if rows have a symbol with a reserved text (symbol_gaps-2).
    fn has_reserved(&self, reader: &Reader, schema: &Schema) -> bool {
        let columns = schema.columns().iter().filter(|column| column.ty == ColumnType::Symbol);
        columns.into_iter().any(|column| {
            let Some(reserved) = self.reserved.get(&column.id) else { return false };
            symbol_ids(reader, column).iter().any(|id| reserved.binary_search(id).is_ok())
        })
    }

    fn reserve(&mut self, column: ColumnId, ids: Vec<u32>) {
        if ids.is_empty() {
            return;
        }
        let reserved = self.reserved.entry(column).or_default();
        reserved.extend(ids);
        reserved.sort_unstable();
        reserved.dedup();
    }

    /// Keeps the texts of a discarded record: a later row may need them.
    fn keep_discarded(&mut self, texts: &SymbolTexts, known: &SymbolTables) {
        let count = known.get(texts.column).map_or(0, |known| count_of(known));
        if let Some(reserved) = self.reserved.get_mut(&texts.column) {
            // The ids after the known ones were reserved for this record.
            reserved.truncate(reserved.partition_point(|&id| id < count));
        }
        let ids = texts.first..texts.end();
        let after = ids.zip(0..).filter(|(id, _)| count <= *id);
        let after = after.map(|(id, at)| (id, texts.texts.get(at).to_vec()));
        self.discarded.entry(texts.column).or_default().extend(after);
    }
}

/// The symbol ids in a column's dictionary; empty if it cannot be read.
fn symbol_ids(reader: &Reader, column: &Column) -> Vec<u32> {
    match reader.position(column).map(|position| reader.dictionary(position)) {
        Some(Ok(Some(Dictionary::Symbols(ids)))) => {
            ids.iter().map(|id| u32::from_le_bytes(*id)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if rows have symbols in one of these columns.
fn has_symbols(run: &SegmentRun, columns: &[Column]) -> bool {
    let has = |reader: &Reader| columns.iter().any(|it| !symbol_ids(reader, it).is_empty());
    !columns.is_empty() && run.reader().is_ok_and(|reader| has(&reader))
}

/// Adds the texts after the known ones; returns false if one of them has another id already.
fn intern_after(longer: &mut SymbolTables, before: &SymbolTable, texts: &SymbolTexts) -> bool {
    let count = count_of(before);
    let known = (count - texts.first) as usize;
    let after: Vec<&[u8]> = (known..texts.texts.len()).map(|at| texts.texts.get(at)).collect();
    let ids = longer.intern(texts.column, &after);
    ids.is_ok_and(|ids| ids.iter().zip(count..).all(|(id, next)| id.0 == next))
}

fn count_of(table: &SymbolTable) -> u32 {
    u32::try_from(table.len()).expect("limits::SYMBOLS")
}
