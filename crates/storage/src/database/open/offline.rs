//! Offline check: the state of a database read from its files without opening it. Nothing is
//! written, and rows of the log stay in memory only after damage of the log.
//!
//! - offline-1. A record is applied as recovery applies it (recovery-2), except that rows are only
//!   counted, or kept as they are (`LoggedRows`).
//!
//! Used by `verify` and `repair`. Not here: opening (`recovery`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_model::{Column, ColumnId, ColumnType, Schema, SegmentId, SymbolId, TableId};
use tidegate_platform::Disk;

use super::recovery::read_manifest;
use super::same_rows::{self, RowMatch};
use super::symbol_gaps::{RecordToComplete, SymbolGaps};
use crate::catalog::{Catalog, RetainedRecords};
use crate::change::{TableChange, TableOp};
use crate::database::maintenance::retained_records;
use crate::database::table::memtable::Memtable;
use crate::database::table::state::{Damage, TableState};
use crate::error::{Corruption, Error, Result};
use crate::files::{Paths, TableDirectory};
use crate::manifest::Manifest;
use crate::mem_segment::MemSegment;
use crate::rewrite::Rewrite;
use crate::segment::{Reader, SegmentMeta};
use crate::snapshot::{SegmentFile, SegmentRun};
use crate::symbols::{self, SymbolTable, SymbolTexts, SymbolWatermark};
use crate::wal::ReplayedRecord;

/// The use of rows that only the log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoggedRows {
    Counted,
    /// They are compared with segment files; they take as much memory as in an open database.
    Kept,
}

/// The tables of a database that is not open, while its log is read.
pub(crate) struct OfflineTables<'a> {
    disk: &'a Arc<dyn Disk>,
    paths: &'a Paths,
    pub(crate) tables: BTreeMap<TableId, OfflineTable>,
    catalog: &'a Catalog,
    logged_rows: LoggedRows,
    /// Manifests that cannot be read.
    pub(crate) problems: Vec<Error>,
}

/// A table of a database that is not open, while the log is read.
pub(crate) struct OfflineTable {
    pub(crate) name: String,
    /// `None` if there is none, or a damaged one.
    pub(crate) manifest: Option<Manifest>,
    pub(crate) is_damaged: bool,
    /// The directory, with the strings from records.
    directory: TableDirectory,
    /// The ids of symbols whose texts are missing.
    gaps: SymbolGaps,
    /// The in-memory segments with the rows that only the log has, in the order of their commits;
    /// without bytes if they are only counted.
    rows: Vec<MemSegment>,
    logged_rows: LoggedRows,
    /// Segments that commits have removed; a crash may have restored their files.
    removed: BTreeSet<SegmentId>,
    /// All segments below this id were removed.
    removed_below: SegmentId,
    /// The records of the table that were retained.
    pub(crate) retained: Option<RetainedRecords>,
}

impl<'a> OfflineTables<'a> {
    /// The tables of a catalog, from their manifests and the records that were retained.
    pub(crate) fn new(
        disk: &'a Arc<dyn Disk>,
        paths: &'a Paths,
        catalog: &'a Catalog,
        logged_rows: LoggedRows,
    ) -> Self {
        let (tables, problems) = (BTreeMap::new(), Vec::new());
        let mut offline = OfflineTables { disk, paths, tables, catalog, logged_rows, problems };
        for table in &catalog.tables {
            offline.add(table.id, &table.name).retained = table.retained;
            if let Some(retained) = table.retained {
                offline.apply_retained(table.id, retained);
            }
        }
        offline
    }

    pub(crate) fn add(&mut self, id: TableId, name: &str) -> &mut OfflineTable {
        let manifest = read_manifest(self.disk.as_ref(), self.paths, id);
        let is_damaged = manifest.is_err();
        let manifest = manifest.unwrap_or_else(|error| {
            self.problems.push(error);
            None
        });
        let directory = TableDirectory::new(self.disk, self.paths, id, SegmentId(0));
        directory.begin_replay();
        let table = OfflineTable {
            name: name.to_owned(),
            manifest,
            is_damaged,
            directory,
            gaps: SymbolGaps::default(),
            rows: Vec::new(),
            logged_rows: self.logged_rows,
            removed: BTreeSet::new(),
            removed_below: SegmentId(0),
            retained: None,
        };
        self.tables.entry(id).insert_entry(table).into_mut()
    }

    /// Applies the records of a table that were retained.
    fn apply_retained(&mut self, id: TableId, retained: RetainedRecords) {
        let path = self.paths.retained_file(id, retained.until);
        let (disk, paths) = (self.disk.as_ref(), self.paths);
        let table = self.tables.get_mut(&id).expect("it was just added");
        let read =
            retained_records::read(disk, paths, self.catalog.log, id, retained, &mut |record| {
                let mut applies = None;
                for op in &record.ops {
                    let misfit = |what| Error::Corrupt { path: path.clone(), offset: 0, what };
                    if let TableChange::Create { schema, .. } = &op.change {
                        let is_new = table.manifest.is_none() && !table.is_damaged;
                        if is_new {
                            let manifest = Manifest::new(id, op.seq_txn, Arc::clone(schema));
                            table.manifest = Some(manifest);
                        }
                        applies = Some(is_new);
                        continue;
                    }
                    table.apply(op, &mut applies).map_err(misfit)?;
                    table.apply_to_rows(op)?;
                }
                Ok(())
            });
        if let Err(error) = read {
            self.suspend(id, error);
        }
    }

    /// Marks a table as suspended.
    fn suspend(&mut self, id: TableId, error: Error) {
        let table = self.tables.get_mut(&id).expect("it is one of these");
        (table.manifest, table.is_damaged) = (None, true);
        table.rows.clear();
        self.problems.push(error);
    }

    /// Applies a record (offline-1).
    pub(crate) fn apply(&mut self, replayed: &ReplayedRecord<'_>) -> Result<()> {
        let misfit = |what| {
            let path = replayed.path.to_path_buf();
            Error::Corrupt { path, offset: replayed.offset, what }
        };
        let is_old = replayed.lsn < self.catalog.as_of;
        let mut applies: BTreeMap<TableId, Option<bool>> = BTreeMap::new();
        for op in &replayed.record.ops {
            if let TableChange::Create { name, schema } = &op.change
                && !is_old
            {
                let table = self.add(op.table, name);
                // The log contains all of the table.
                let is_new = table.manifest.is_none();
                if is_new {
                    table.is_damaged = false;
                    table.manifest = Some(Manifest::new(op.table, op.seq_txn, Arc::clone(schema)));
                }
                applies.insert(op.table, Some(is_new));
                continue;
            }
            let Some(table) = self.tables.get_mut(&op.table) else {
                if is_old {
                    // The table was dropped before the catalog was written.
                    continue;
                }
                let what = "the table of a change";
                return Err(misfit(Corruption::Impossible { what, value: op.table.0 }));
            };
            if table.retained.is_some_and(|retained| replayed.lsn < retained.until) {
                continue;
            }
            if let Err(what) = table.apply(op, applies.entry(op.table).or_default()) {
                self.suspend(op.table, misfit(what));
                continue;
            }
            table.apply_to_rows(op)?;
            match &op.change {
                TableChange::Drop if !is_old => drop(self.tables.remove(&op.table)),
                TableChange::Rename { name } if !is_old => table.name.clone_from(name),
                _ => {}
            }
        }
        Ok(())
    }

    /// The tables, unreadable ones as suspended, the number of rows that only the log has, and the
    /// errors.
    pub(crate) fn finish(mut self) -> (Vec<TableState>, u64, Vec<Error>) {
        let (mut tables, mut rows) = (Vec::new(), 0);
        for (id, table) in self.tables {
            let Some(manifest) = table.manifest else {
                let error = Arc::new(Error::missing(&self.paths.table(id).manifest()));
                if !table.is_damaged {
                    self.problems.push(Error::missing(&self.paths.table(id).manifest()));
                }
                let damage = Damage { error, has_records: false };
                tables.push(TableState::suspended(Arc::new(table.directory), table.name, damage));
                continue;
            };
            rows += table.rows.iter().map(|rows| rows.meta.rows.0).sum::<u64>();
            let OfflineTable { name, directory, .. } = table;
            directory.raise_next_segment(manifest.next_segment);
            let replayed = directory.end_replay(&manifest, !table.rows.is_empty());
            let (directory, memtable) = (Arc::new(directory), Memtable::default());
            tables.push(TableState::recovered(directory, name, manifest, memtable, &replayed));
        }
        (tables, rows, self.problems)
    }
}

impl OfflineTable {
    pub(crate) fn id(&self) -> TableId {
        self.directory.table()
    }

    /// Applies a change to the manifest if that is older; all changes of a record are applied, or
    /// none.
    fn apply(&mut self, op: &TableOp, applies: &mut Option<bool>) -> Result<(), Corruption> {
        let is_applied = match (*applies, &self.manifest) {
            (Some(applies), _) => applies,
            (None, Some(manifest)) => manifest.is_older_than(op)?,
            (None, None) => false,
        };
        *applies = Some(is_applied);
        match &mut self.manifest {
            Some(manifest) if is_applied => manifest.apply(op.seq_txn, &op.change),
            _ => Ok(()),
        }
    }

    /// Returns false if rows have symbols whose strings are in no record so far, and in no file.
    /// Missing strings of other symbols are added to `symbols` (symbol_gaps-1), within
    /// `room_bytes`. `later` are columns that only later commits have.
    pub(crate) fn fit_symbols(
        &mut self,
        symbols: &mut Vec<SymbolTexts>,
        mem_segments: &[MemSegment],
        later: &[Column],
        room_bytes: &mut usize,
    ) -> bool {
        let Some(Manifest { table, schema, symbols: watermarks, .. }) = &self.manifest else {
            return true;
        };
        // For a damaged file this is unknown.
        let Ok(known) = self.directory.symbols(schema, watermarks) else { return true };
        let runs = mem_segments.iter().map(|it| SegmentRun::of_mem_segment(*table, it));
        let Ok(runs) = runs.collect::<Result<Vec<_>>>() else { return false };
        self.gaps.forget_saved(watermarks);
        let record = RecordToComplete { schema, symbols, runs: &runs, later, room_bytes };
        self.gaps.complete(&known, record)
    }

    /// The descriptions of the rows that only the log has, in the order of their commits.
    pub(crate) fn memtable_rows(&self) -> Vec<SegmentMeta> {
        self.rows.iter().map(|rows| rows.meta).collect()
    }

    /// Compares the rows of files, in their order in time, with these rows of the memtable, except
    /// for columns that later commits drop: their symbols are gone.
    pub(crate) fn compare(
        &self,
        files: &[SegmentMeta],
        rows: &[SegmentMeta],
        is_dropped: &dyn Fn(ColumnId) -> bool,
    ) -> RowMatch {
        let Some(Manifest { table, schema, symbols: ends, .. }) = &self.manifest else {
            return RowMatch::Other;
        };
        let schema = &schema_without(schema, is_dropped);
        let is_meant = |it: &&MemSegment| rows.iter().any(|meta| meta.id == it.meta.id);
        let runs = self.rows.iter().filter(is_meant);
        let runs = runs.map(|it| SegmentRun::of_mem_segment(*table, it).map(Arc::new));
        let readers = files.iter().map(|meta| {
            let path = self.directory.paths().segment(schema, meta);
            Reader::open(self.directory.disk().as_ref(), &path, *table, meta)
        });
        let (Ok(runs), Ok(readers), Ok(symbols)) = (
            runs.collect::<Result<Vec<_>>>(),
            readers.collect::<Result<Vec<_>>>(),
            self.directory.symbols(schema, ends),
        ) else {
            return RowMatch::Other;
        };
        let logged = Rewrite { table: *table, schema, symbols: &symbols, runs: &runs };
        same_rows::compare(&logged, &readers)
    }

    /// Notes that a commit has removed these segments, although the table may not have them.
    pub(crate) fn note_removed(&mut self, segments: &[SegmentId]) {
        self.removed.extend(segments);
    }

    /// Returns true if a commit so far has removed this segment.
    pub(crate) fn has_removed(&self, segment: SegmentId) -> bool {
        segment < self.removed_below || self.removed.contains(&segment)
    }

    /// The ends of symbol files that have all strings known so far, of those columns whose end in
    /// the manifest is before that, and that no later commit drops with their file; `None` if a
    /// file lacks some.
    pub(crate) fn saved_symbols(
        &self,
        is_dropped: &dyn Fn(ColumnId) -> bool,
    ) -> Option<Vec<(ColumnId, SymbolWatermark)>> {
        let Manifest { schema, symbols: ends, .. } = self.manifest.as_ref()?;
        let schema = schema_without(schema, is_dropped);
        let known = self.directory.symbols(&schema, ends).ok()?;
        let mut saved = Vec::new();
        for column in symbol_columns(&schema) {
            let Some(values) = known.get(column.id) else { continue };
            let count = u32::try_from(values.len()).ok()?;
            if count <= ends.get(&column.id).map_or(0, |end| end.count) {
                continue;
            }
            saved.push((column.id, self.saved_end(column.id, values)?));
        }
        Some(saved)
    }

    /// The end of a symbol file with all of these strings; `None` if it lacks some.
    fn saved_end(&self, column: ColumnId, values: &SymbolTable) -> Option<SymbolWatermark> {
        let count = u32::try_from(values.len()).ok()?;
        let path = self.directory.paths().symbol_file(column);
        let bytes = self.directory.disk().read(&path).ok()?;
        let end = symbols::end_with(&bytes, count)?;
        let stored = symbols::decode(&bytes, self.directory.table(), column, end).ok()?;
        let is_same = |id: u32| stored.text(SymbolId(id)) == values.text(SymbolId(id));
        (0..count).all(is_same).then_some(end)
    }

    /// Remembers, for rows behind a truncation, the strings that are in symbol files although no
    /// intact commit says so: those rows use them without having them in their records.
    pub(crate) fn truncate_after_missing(&mut self, op: &TableOp) -> Result<()> {
        let mut saved: Vec<(ColumnId, Vec<Vec<u8>>)> = Vec::new();
        if let Some(Manifest { table, schema, symbols: ends, .. }) = &self.manifest
            && let Ok(known) = self.directory.symbols(schema, ends)
        {
            for column in symbol_columns(schema) {
                let Some(values) = known.get(column.id) else { continue };
                let path = self.directory.paths().symbol_file(column.id);
                let Ok(bytes) = self.directory.disk().read(&path) else { continue };
                let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
                let end = symbols::last_end(&bytes, count);
                let Ok(stored) = symbols::decode(&bytes, *table, column.id, end) else { continue };
                let both = stored.texts().zip(values.texts()).take_while(|(a, b)| a == b);
                saved.push((column.id, both.map(|(text, _)| text.to_vec()).collect()));
            }
        }
        self.apply_to_rows(op)?;
        for (column, texts) in saved {
            self.gaps.keep_file_texts(column, texts);
        }
        Ok(())
    }

    pub(crate) fn apply_to_rows(&mut self, op: &TableOp) -> Result<()> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        match &op.change {
            TableChange::Append { mem_segments, symbols, .. }
                if op.seq_txn > manifest.flushed_seq =>
            {
                symbols.iter().for_each(|texts| self.directory.replay_symbols(texts));
                for mem_segment in mem_segments {
                    SegmentFile::replayed(op.table, mem_segment)?;
                    let bytes = match self.logged_rows {
                        LoggedRows::Kept => Arc::clone(&mem_segment.bytes),
                        LoggedRows::Counted => Arc::default(),
                    };
                    self.rows.push(MemSegment { meta: mem_segment.meta, bytes });
                }
            }
            TableChange::Truncate => {
                self.directory.forget_replayed_symbols();
                self.gaps = SymbolGaps::default();
                self.rows.clear();
                self.removed_below = manifest.next_segment;
            }
            TableChange::Replace { out, flushed_seq, .. } => {
                self.removed.extend(out);
                self.directory.replay_marks(manifest);
                self.rows.retain(|rows| rows.meta.seq_last > *flushed_seq);
            }
            TableChange::Alter { .. } | TableChange::AddSegments { .. } => {
                self.directory.replay_marks(manifest);
            }
            _ => {}
        }
        Ok(())
    }
}

fn symbol_columns(schema: &Schema) -> impl Iterator<Item = &Column> {
    schema.columns().iter().filter(|column| column.ty == ColumnType::Symbol)
}

/// The columns except these.
fn schema_without(schema: &Schema, is_dropped: &dyn Fn(ColumnId) -> bool) -> Schema {
    let dropped = schema.columns().iter().filter(|column| is_dropped(column.id));
    dropped.fold(schema.clone(), |left, column| {
        left.clone().without_column(&column.name).unwrap_or(left)
    })
}
