//! Replay of the commits after the damage of a log: a repair takes over those that are intact.
//!
//! - Commits of a table whose numbers continue without a gap after the damage are taken over
//!   unchanged: nothing of that table was damaged.
//! - repair_replay-1. If commits of a table are missing, a record says so (`TableChange::GivenUp`).
//!   Later ones are taken over if they fit: a change names what it adds and removes, so most do.
//!   One that does not fit is given up like the missing ones.
//! - repair_replay-2. Rows with unknown symbols are given up: the strings were in a missing record.
//!   Later rows with other symbols are kept (`symbol_gaps`).
//! - Rows of the memtable that a missing commit has flushed stay in the table (`missing_flush`):
//!   the commit after the missing ones finds them in segments, as it did before the damage.
//! - repair_replay-3. A table never refers to files that do not exist: segments that a missing
//!   commit has replaced are removed from the table, and the new files are used in their place if
//!   they have as many rows. A column whose symbols a missing commit has removed is dropped too.
//! - repair_replay-4. A table that a missing commit has dropped is dropped again, before a later
//!   commit uses its name, if its manifest is gone, or all of its files, and the log has no rows.
//! - Everything that is given up is listed with its table and commit.
//!
//! Not here: reading the log (`wal::repair`), files that are set aside (`repair`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::discriminant;
use std::path::Path;
use std::sync::Arc;

use tidegate_model::{ColumnType, Lsn, PartitionKey, Schema, SegmentId, SeqTxn, TableId, limits};
use tidegate_platform::Disk;

use super::missing_flush::{LaterRecords, MissingFlush, UnnamedFiles};
use super::offline::{OfflineTable, OfflineTables};
use crate::catalog::fold_name;
use crate::change::{TableChange, TableOp};
use crate::deletion_vector::{self, DeletionVector, DeletionVectorMeta};
use crate::error::Result;
use crate::files::{Paths, last_number};
use crate::manifest::{Manifest, SegmentEntry};
use crate::segment::{self, SegmentMeta};
use crate::wal::{self, Record, RecordAfterDamage, SeemingChange};

/// Commits of a table that were given up, or would be: they are missing, or do not fit without the
/// missing ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostCommits {
    /// The table.
    pub table: TableId,
    /// The name; `None` if the commit that created it is missing.
    pub name: Option<String>,
    /// The first of the commits.
    pub first: SeqTxn,
    /// The last of them.
    pub last: SeqTxn,
}

/// The maximal number of segments, besides the missing ones, that a compaction is assumed to have
/// taken: it takes few, and the search grows with the square.
const WINDOW_MAX: usize = 64;

/// The tables while the records after the damage are read.
pub(crate) struct RepairReplay<'s, 'a> {
    offline: &'s mut OfflineTables<'a>,
    disk: &'a Arc<dyn Disk>,
    paths: &'a Paths,
    as_of: Lsn,
    later: &'s LaterRecords,
    lost: BTreeMap<TableId, BTreeSet<SeqTxn>>,
    /// Names of tables that are no longer in the catalog.
    names: BTreeMap<TableId, String>,
    new_names: NewNames,
    /// The number of bytes that may be added to the current record.
    room_bytes: usize,
}

/// The permission to write files that mend tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mending {
    /// Writes nothing, for a read-only check.
    Nothing,
    Files,
}

/// The names in the current record.
#[derive(Debug, Default)]
struct NewNames {
    /// The names that its new tables get.
    created: BTreeMap<TableId, String>,
    /// New names of tables that other tables have.
    refused: BTreeSet<(TableId, String)>,
}

/// A table that a missing commit has dropped, and the commit that drops it again.
#[derive(Debug)]
pub(crate) struct DroppedTable {
    pub(crate) name: String,
    pub(crate) record: Record,
}

/// The changes of one table in one record.
struct Commit<'r> {
    table: TableId,
    seq_txn: SeqTxn,
    ops: Vec<&'r TableOp>,
}

impl<'s, 'a> RepairReplay<'s, 'a> {
    pub(crate) fn new(
        offline: &'s mut OfflineTables<'a>,
        disk: &'a Arc<dyn Disk>,
        paths: &'a Paths,
        as_of: Lsn,
        later: &'s LaterRecords,
    ) -> RepairReplay<'s, 'a> {
        RepairReplay {
            offline,
            disk,
            paths,
            as_of,
            later,
            lost: BTreeMap::new(),
            names: BTreeMap::new(),
            new_names: NewNames::default(),
            room_bytes: 0,
        }
    }

    /// The changes of a record that are taken over, after a record about missing commits.
    pub(crate) fn take(&mut self, lsn: Lsn, after: &RecordAfterDamage<'_>) -> Vec<Record> {
        let record = match after {
            RecordAfterDamage::Intact(record) => record,
            RecordAfterDamage::Damaged(changes) => {
                for &SeemingChange { table, seq_txn, .. } in *changes {
                    // The table, or the number, may be the damaged part.
                    let may_be = |it: &OfflineTable| {
                        let known = it.manifest.as_ref();
                        let range = known.map(|it| it.flushed_seq.next()..=it.seq_txn.next());
                        range.is_none_or(|range| range.contains(&seq_txn))
                    };
                    if self.offline.tables.get(&table).is_none_or(may_be) {
                        self.lose(table, seq_txn);
                    }
                }
                return Vec::new();
            }
        };
        self.new_names = self.new_names(record);
        self.room_bytes =
            limits::WAL_RECORD_BYTES.saturating_sub(wal::record_bytes_max(&record.ops));
        let (mut before, mut taken) = (Vec::new(), Vec::new());
        for commit in commits_of(record) {
            if lsn < self.as_of {
                taken.extend(self.take_old(lsn, &commit));
            } else {
                self.take_commit(&commit, &mut before, &mut taken);
            }
        }
        [before, in_order(taken, record)]
            .into_iter()
            .filter(|ops| !ops.is_empty())
            .map(|ops| Record { ops })
            .collect()
    }

    /// The changes to take over of a commit that checkpoints have: only rows of the memtable are
    /// missing.
    fn take_old(&mut self, lsn: Lsn, commit: &Commit<'_>) -> Vec<TableOp> {
        let Some(table) = self.offline.tables.get(&commit.table) else { return Vec::new() };
        if table.retained.is_some_and(|retained| lsn < retained.until) {
            return Vec::new();
        }
        let is_of_memtable = |op: &&&TableOp| {
            let flushed_seq = table.manifest.as_ref().map(|manifest| manifest.flushed_seq);
            matches!(op.change, TableChange::Append { .. }) && flushed_seq < Some(op.seq_txn)
        };
        // A suspended table cannot be judged: all of its records stay.
        let ops = commit.ops.iter().filter(|op| table.is_damaged || is_of_memtable(op));
        let mut ops: Vec<TableOp> = ops.map(|&op| op.clone()).collect();
        let is_damaged = table.is_damaged;
        ops.retain_mut(|op| is_damaged || self.keep_old_rows(op));
        ops
    }

    /// As `keep_rows`, for a commit that the manifest has; applies its rows, so that later commits
    /// know its symbols.
    fn keep_old_rows(&mut self, op: &mut TableOp) -> bool {
        if !self.keep_rows(op) {
            return false;
        }
        match (self.offline.tables.get_mut(&op.table), &op.change) {
            (Some(table), TableChange::Append { .. }) => table.apply_to_rows(op).is_ok(),
            _ => true,
        }
    }

    fn take_commit(
        &mut self,
        commit: &Commit<'_>,
        before: &mut Vec<TableOp>,
        taken: &mut Vec<TableOp>,
    ) {
        let Commit { table: id, seq_txn, ops } = commit;
        let mut ops: Vec<TableOp> = ops.iter().map(|&op| op.clone()).collect();
        if let Some(TableOp { change: TableChange::Create { name, schema }, .. }) = ops.first() {
            if self.offline.tables.contains_key(id) {
                return;
            }
            let free = self.new_names.created.get(id).unwrap_or(name).clone();
            if free != *name {
                self.lose(*id, *seq_txn);
            }
            let name = free;
            let table = self.offline.add(*id, &name);
            let known = table.manifest.take().filter(|it| it.seq_txn >= *seq_txn);
            let is_known = known.is_some();
            table.is_damaged = false;
            table.manifest =
                Some(known.unwrap_or_else(|| Manifest::new(*id, *seq_txn, Arc::clone(schema))));
            let schema = Arc::clone(schema);
            let create = TableChange::Create { name, schema };
            taken.push(TableOp { table: *id, seq_txn: *seq_txn, change: create });
            ops.remove(0);
            match is_known {
                true => taken.extend(self.known(ops)),
                false => taken.extend(self.all_fitting(*id, *seq_txn, ops)),
            }
            return;
        }
        let Some(table) = self.offline.tables.get_mut(id) else {
            // The record that created it is missing.
            self.lose(*id, *seq_txn);
            return;
        };
        let Some(manifest) = &mut table.manifest else {
            self.rename_or_drop(&mut ops);
            taken.extend(ops);
            return;
        };
        let next = manifest.seq_txn.next();
        if *seq_txn < next {
            taken.extend(self.known(ops));
            return;
        }
        if next < *seq_txn {
            let last = SeqTxn(seq_txn.0 - 1);
            manifest.seq_txn = last;
            before.push(TableOp { table: *id, seq_txn: last, change: TableChange::GivenUp });
            for lost in next.0..seq_txn.0 {
                self.lose(*id, SeqTxn(lost));
            }
            before.extend(self.missing_flush(*id, *seq_txn));
        }
        taken.extend(self.all_fitting(*id, *seq_txn, ops));
    }

    /// The changes to take over of a commit that the manifest has: it is newer than the catalog.
    fn known(&mut self, mut ops: Vec<TableOp>) -> Vec<TableOp> {
        self.rename_or_drop(&mut ops);
        ops.retain_mut(|op| self.keep_old_rows(op));
        ops
    }

    /// The changes of a commit that fit, after applying them; if not all do, it is listed as lost.
    fn all_fitting(&mut self, id: TableId, seq_txn: SeqTxn, mut ops: Vec<TableOp>) -> Vec<TableOp> {
        let count = ops.len();
        self.rename_or_drop(&mut ops);
        let ops: Vec<TableOp> = ops.iter().filter_map(|op| self.fitting(op)).collect();
        if ops.len() < count {
            self.lose(id, seq_txn);
        }
        ops
    }

    /// A change adapted to the current table, after applying it to the table; `None` if it does not
    /// fit (repair_replay-1).
    fn fitting(&mut self, op: &TableOp) -> Option<TableOp> {
        let Some(table) = self.offline.tables.get(&op.table) else { return Some(op.clone()) };
        let manifest = table.manifest.as_ref()?;
        let mut op = op.clone();
        let mut removed = Vec::new();
        if let TableChange::Replace { out, segments, .. } = &mut op.change {
            removed.clone_from(out);
            out.retain(|&id| manifest.segment(id).is_some());
            if out.len() < removed.len() {
                let inside = self.replaced_before(manifest, segments);
                out.extend(inside.iter().filter(|id| !removed.contains(id)));
            }
        }
        let mut changed = manifest.clone();
        changed.apply(op.seq_txn, &op.change).ok()?;
        if !self.keep_rows(&mut op) {
            return None;
        }
        let table = self.offline.tables.get_mut(&op.table).expect("it was just found");
        let is_missing = self.lost.contains_key(&op.table);
        table.manifest = Some(changed);
        table.note_removed(&removed);
        match op.change {
            TableChange::Truncate if is_missing => table.truncate_after_missing(&op).ok()?,
            _ => table.apply_to_rows(&op).ok()?,
        }
        Some(op)
    }

    /// The segments whose rows are in these new ones, as a missing commit has rewritten them
    /// before: commits of segments that overlap in time never interleave.
    fn replaced_before(&self, manifest: &Manifest, segments: &[SegmentMeta]) -> Vec<SegmentId> {
        let paths = self.paths.table(manifest.table);
        let is_inside = |old: &SegmentMeta, new: &SegmentMeta| {
            let is_overlapping = old.min_ts <= new.max_ts && new.min_ts <= old.max_ts;
            let is_between = new.seq_first <= old.seq_first && old.seq_last <= new.seq_last;
            // Parts of one range of commits are rewritten one by one (policy-3).
            let is_part = (old.seq_first, old.seq_last) == (new.seq_first, new.seq_last);
            let is_within = || new.min_ts <= old.min_ts && old.max_ts <= new.max_ts;
            let is_gone = || !self.has(&paths.segment(&manifest.schema, old));
            let is_replaced = !is_part || is_within() || is_gone();
            old.partition == new.partition && is_overlapping && is_between && is_replaced
        };
        let metas = manifest.segments.iter().map(|entry| entry.meta);
        let inside = metas.filter(|old| segments.iter().any(|new| is_inside(old, new)));
        inside.map(|meta| meta.id).collect()
    }

    /// The segments that missing commits, the last ones before `next`, have flushed from the
    /// memtable, applied to the table. Commits whose rows are in no file are lost.
    fn missing_flush(&mut self, id: TableId, next: SeqTxn) -> Option<TableOp> {
        let table = self.offline.tables.get(&id)?;
        let manifest = table.manifest.as_ref()?;
        let mut unnamed = |partition| {
            let mut files = self.unnamed_segments(manifest, partition);
            files.retain(|file| !table.has_removed(file.id));
            files
        };
        let is_dropped = |column| self.later.drops_column(id, column);
        let mut compare =
            |files: &[SegmentMeta], rows: &[SegmentMeta]| table.compare(files, rows, &is_dropped);
        let mut files = UnnamedFiles { of: &mut unnamed, compare: &mut compare };
        let rows = table.memtable_rows();
        let missing = self.later.missing_flush(manifest, &rows, next, &mut files)?;
        let MissingFlush { flushed_seq, segments, taken, lost } = missing;
        // Rows of segments need their strings in the symbol files.
        let symbols = table.saved_symbols(&is_dropped);
        let (is_found, is_readable) = (!segments.is_empty(), symbols.is_some());
        let (out, symbols) = (Vec::new(), symbols.unwrap_or_default());
        let change = TableChange::Replace { out, flushed_seq, segments, symbols };
        let op = TableOp { table: id, seq_txn: manifest.seq_txn, change };
        let mut changed = manifest.clone();
        let is_kept = is_found && is_readable && changed.apply(op.seq_txn, &op.change).is_ok();
        let lost = if is_found && !is_kept { taken } else { lost };
        lost.into_iter().for_each(|seq_txn| self.lose(id, seq_txn));
        if !is_kept {
            return None;
        }
        let table = self.offline.tables.get_mut(&id).expect("it was just found");
        table.manifest = Some(changed);
        table.apply_to_rows(&op).is_ok().then_some(op)
    }

    /// Checks that the rows of an append can be read (repair_replay-2), with the texts of other
    /// symbols that are missing.
    fn keep_rows(&mut self, op: &mut TableOp) -> bool {
        let TableChange::Append { mem_segments, symbols, .. } = &mut op.change else { return true };
        let Some(table) = self.offline.tables.get_mut(&op.table) else { return true };
        let Some(manifest) = &table.manifest else { return true };
        if op.seq_txn <= manifest.flushed_seq {
            return true;
        }
        let mut columns = manifest.schema.columns().iter();
        let later = self.later.more_symbols(op.table, &manifest.schema);
        if later.is_empty() && !columns.any(|column| column.ty == ColumnType::Symbol) {
            return true;
        }
        // If no commit of the table is missing, none of its strings is missing.
        let is_doubtful = op.seq_txn <= manifest.seq_txn || self.lost.contains_key(&op.table);
        let doubtful = if is_doubtful { &mem_segments[..] } else { &[] };
        let is_readable = table.fit_symbols(symbols, doubtful, &later, &mut self.room_bytes);
        if !is_readable {
            self.lose(op.table, op.seq_txn);
        }
        is_readable
    }

    /// Applies changes of names to the tables; a change to a name that is taken is left out.
    fn rename_or_drop(&mut self, ops: &mut Vec<TableOp>) {
        ops.retain(|op| match &op.change {
            TableChange::Drop => {
                if let Some(table) = self.offline.tables.remove(&op.table) {
                    self.names.insert(op.table, table.name);
                }
                true
            }
            TableChange::Rename { name } => {
                let is_refused = self.new_names.refused.contains(&(op.table, name.clone()));
                if let Some(table) = self.offline.tables.get_mut(&op.table)
                    && !is_refused
                {
                    table.name.clone_from(name);
                }
                !is_refused
            }
            _ => true,
        });
    }

    /// The names in a record, each judged when its change is made: a change before it in the
    /// record may free the name, or take it.
    fn new_names(&self, record: &Record) -> NewNames {
        let has_name = |op: &TableOp| {
            matches!(op.change, TableChange::Create { .. } | TableChange::Rename { .. })
        };
        let mut new = NewNames::default();
        if !record.ops.iter().any(has_name) {
            return new;
        }
        let tables = self.offline.tables.iter();
        let mut names: BTreeMap<TableId, String> =
            tables.map(|(id, table)| (*id, fold_name(&table.name))).collect();
        for op in &record.ops {
            match &op.change {
                TableChange::Create { name, .. } if !names.contains_key(&op.table) => {
                    let free = free_name(name, op.table, &names);
                    names.insert(op.table, fold_name(&free));
                    new.created.insert(op.table, free);
                }
                TableChange::Drop => drop(names.remove(&op.table)),
                TableChange::Rename { name } => {
                    let renamed = fold_name(name);
                    let is_other =
                        |(id, known): (&TableId, &String)| *id != op.table && *known == renamed;
                    if names.iter().any(is_other) {
                        new.refused.insert((op.table, name.clone()));
                    } else if let Some(known) = names.get_mut(&op.table) {
                        *known = renamed;
                    }
                }
                _ => {}
            }
        }
        new
    }

    fn lose(&mut self, table: TableId, seq_txn: SeqTxn) {
        self.lost.entry(table).or_default().insert(seq_txn);
    }

    /// Drops the tables that missing commits have dropped (repair_replay-4) and that `may_be`.
    pub(crate) fn drop_again(&mut self, may_be: &dyn Fn(TableId) -> bool) -> Vec<DroppedTable> {
        let tables = self.offline.tables.iter();
        let is_it =
            |(id, table): &(&TableId, &OfflineTable)| may_be(**id) && self.is_removed(table);
        let ids: Vec<TableId> = tables.filter(is_it).map(|(id, _)| *id).collect();
        let mut dropped = Vec::new();
        for id in ids {
            let OfflineTable { name, manifest, .. } =
                self.offline.tables.remove(&id).expect("it was just found");
            let seq_txn = manifest.map_or(SeqTxn(1), |manifest| manifest.seq_txn.next());
            let ops = vec![TableOp { table: id, seq_txn, change: TableChange::Drop }];
            self.names.insert(id, name.clone());
            dropped.push(DroppedTable { name, record: Record { ops } });
        }
        dropped
    }

    fn is_removed(&self, table: &OfflineTable) -> bool {
        let paths = self.paths.table(table.id());
        let root = paths.root();
        match &table.manifest {
            None if table.is_damaged => false,
            None if !self.has(root) => true,
            // The files may be missing for another reason.
            _ if !self.later.may_have_dropped(table.id()) => false,
            None => true,
            Some(manifest) => {
                let had_files = !manifest.segments.is_empty() || !manifest.symbols.is_empty();
                had_files && table.memtable_rows().is_empty() && !self.has_files(root)
            }
        }
    }

    fn has_files(&self, dir: &Path) -> bool {
        match self.disk.list(dir) {
            Ok(entries) => {
                entries.iter().any(|it| !it.is_dir || self.has_files(&dir.join(&it.name)))
            }
            // Others may exist.
            Err(error) => !error.is_not_found(),
        }
    }

    /// The commits that make tables with missing files readable again (repair_replay-3).
    pub(crate) fn mend(&mut self, mending: Mending) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let ids: Vec<TableId> = self.offline.tables.keys().copied().collect();
        for id in ids {
            let Some(manifest) = &self.offline.tables[&id].manifest else { continue };
            let mut mended = manifest.clone();
            let mut ops = Vec::new();
            let seq_txn = mended.seq_txn.next();
            let entries: Vec<SegmentEntry> = mended.segments.to_vec();
            let mut gone = Vec::new();
            for entry in entries {
                let paths = self.paths.table(id);
                if !self.has(&paths.segment(&mended.schema, &entry.meta)) {
                    gone.push(entry);
                } else if let Some(vector) = &entry.deletion_vector
                    && !self.has(&paths.deletion_vector(&mended.schema, &entry.meta, vector))
                {
                    let deletion_vector = self.other_deletion_vector(&mended, &entry, mending)?;
                    let deletion_vector = DeletionVectorMeta { seq_txn, ..deletion_vector };
                    let change =
                        TableChange::DeletionVector { segment: entry.meta.id, deletion_vector };
                    ops.push(TableOp { table: id, seq_txn, change });
                }
            }
            if !gone.is_empty() {
                let segments = self.instead_of(&mended, &mut gone);
                let out = gone.iter().map(|entry| entry.meta.id).collect();
                let (flushed_seq, symbols) = (mended.flushed_seq.min(mended.seq_txn), Vec::new());
                let change = TableChange::Replace { out, flushed_seq, segments, symbols };
                ops.push(TableOp { table: id, seq_txn, change });
            }
            if let Some(schema) = self.without_lost_symbols(&mended) {
                let change = TableChange::Alter { schema: Arc::new(schema) };
                ops.push(TableOp { table: id, seq_txn, change });
            }
            ops.retain(|op| mended.apply(op.seq_txn, &op.change).is_ok());
            if !ops.is_empty() {
                self.lose(id, seq_txn);
                self.offline.tables.get_mut(&id).expect("it is there").manifest = Some(mended);
                records.push(Record { ops });
            }
        }
        Ok(records)
    }

    /// The columns without those whose symbols are missing, because a missing commit has dropped
    /// them.
    fn without_lost_symbols(&self, manifest: &Manifest) -> Option<Schema> {
        if !self.lost.contains_key(&manifest.table) {
            return None;
        }
        let paths = self.paths.table(manifest.table);
        let gone = manifest.symbols.keys().filter(|id| !self.has(&paths.symbol_file(**id)));
        let columns = gone.filter_map(|id| manifest.schema.column(*id));
        columns.fold(None, |schema, column| {
            let known =
                schema.as_ref().map_or_else(|| Schema::clone(&manifest.schema), Schema::clone);
            // With the other keys alone, rows that differ would replace each other.
            let without_keys = match known.dedup().contains(&column.id) {
                true => known.with_dedup(&[]),
                false => Ok(known),
            };
            without_keys.and_then(|known| known.without_column(&column.name)).ok().or(schema)
        })
    }

    fn has(&self, path: &Path) -> bool {
        // A file that cannot be checked may exist.
        self.disk.exists(path).unwrap_or(true)
    }

    /// Segments with the rows of the missing ones: files that no commit names, left by a missing
    /// commit. It may have replaced others that still exist: these are added to the missing ones.
    fn instead_of(&self, manifest: &Manifest, gone: &mut Vec<SegmentEntry>) -> Vec<SegmentMeta> {
        let partitions: BTreeSet<_> = gone.iter().map(|entry| entry.meta.partition).collect();
        let live =
            |entry: &SegmentEntry| entry.deletion_vector.map_or(entry.meta.rows, |it| it.live).0;
        let mut found = Vec::new();
        for partition in partitions {
            let is_here = |entry: &&SegmentEntry| entry.meta.partition == partition;
            let gone_here: Vec<SegmentEntry> = gone.iter().filter(is_here).copied().collect();
            let mut all: Vec<SegmentEntry> =
                manifest.segments.iter().filter(is_here).copied().collect();
            all.sort_by_key(|entry| (entry.meta.seq_first, entry.meta.id));
            let newest = gone_here.iter().map(|entry| entry.meta.id).max();
            let mut unnamed = self.unnamed_segments(manifest, partition);
            let table = &self.offline.tables[&manifest.table];
            unnamed.retain(|meta| newest < Some(meta.id) && !table.has_removed(meta.id));
            let rows_of = |metas: &[SegmentMeta]| metas.iter().map(|it| it.rows.0).sum::<u64>();
            // All unreferenced files, or one of them: the others may be garbage.
            let single = unnamed.iter().map(std::slice::from_ref);
            let choices: Vec<&[SegmentMeta]> = [&unnamed[..]].into_iter().chain(single).collect();
            let fits = |replaced: &&[SegmentEntry]| {
                let wanted: u64 = replaced.iter().map(live).sum();
                choices.iter().find(|chosen| !chosen.is_empty() && rows_of(chosen) == wanted)
            };
            let windows = windows_with(&all, &gone_here);
            let fitting = windows.iter().find_map(|replaced| Some((*replaced, fits(replaced)?)));
            let Some((replaced, chosen)) = fitting else { continue };
            gone.extend(replaced.iter().filter(|entry| !gone_here.contains(entry)));
            let (seq_first, seq_last) = commits(replaced);
            let metas = chosen.iter();
            found.extend(metas.map(|meta| SegmentMeta { seq_first, seq_last, ..*meta }));
        }
        found
    }

    /// Segment files of a partition that no commit names.
    fn unnamed_segments(&self, manifest: &Manifest, partition: PartitionKey) -> Vec<SegmentMeta> {
        let paths = self.paths.table(manifest.table);
        let dir = paths.partition(&manifest.schema, partition);
        let mut found = Vec::new();
        // Unreadable files are skipped.
        for entry in self.disk.list(&dir).unwrap_or_default() {
            let id = last_number(&entry.name).filter(|_| entry.name.ends_with(".seg"));
            let Some(id) = id.filter(|id: &SegmentId| manifest.segment(*id).is_none()) else {
                continue;
            };
            let path = paths.new_segment(&manifest.schema, partition, id);
            let Ok(bytes) = self.disk.read(&path) else { continue };
            let Ok(meta) = segment::meta_of(&path, &bytes, manifest.table) else { continue };
            found.extend((meta.partition == partition && meta.id == id).then_some(meta));
        }
        found
    }

    /// A deletion vector for a segment whose own deletion vector is missing: the latest file, as
    /// written by a missing commit, or a new one without deleted rows.
    fn other_deletion_vector(
        &self,
        manifest: &Manifest,
        entry: &SegmentEntry,
        mending: Mending,
    ) -> Result<DeletionVectorMeta> {
        let paths = self.paths.table(manifest.table);
        let dir = paths.partition(&manifest.schema, entry.meta.partition);
        let prefix = format!("{}-", entry.meta.id);
        let mut best: Option<DeletionVectorMeta> = None;
        for file in self.disk.list(&dir).unwrap_or_default() {
            let id = last_number(&file.name).filter(|_| file.name.starts_with(&prefix));
            let Some(id) = id.filter(|id| best.is_none_or(|best| best.id < *id)) else { continue };
            let Ok(bytes) = self.disk.read(&dir.join(&file.name)) else { continue };
            let Ok(deletion_vector) =
                deletion_vector::decode(&bytes, manifest.table, entry.meta.id)
            else {
                continue;
            };
            if deletion_vector.rows() == entry.meta.rows {
                let (live, crc) = (deletion_vector.live(), crc32c::crc32c(&bytes));
                best = Some(DeletionVectorMeta { id, seq_txn: SeqTxn(0), live, crc });
            }
        }
        if let Some(best) = best {
            return Ok(best);
        }
        let bytes = DeletionVector::new(entry.meta.rows, &[]).encode(manifest.table, entry.meta.id);
        let crc = crc32c::crc32c(&bytes);
        let id = manifest.next_segment;
        let vector = DeletionVectorMeta { id, seq_txn: SeqTxn(0), live: entry.meta.rows, crc };
        if mending == Mending::Nothing {
            return Ok(vector);
        }
        let path = paths.deletion_vector(&manifest.schema, &entry.meta, &vector);
        crate::checksummed_file::replace(self.disk.as_ref(), &path, &bytes)
            .map_err(crate::Error::disk("write deletion vector"))?;
        Ok(vector)
    }

    /// The commits that are given up, table by table.
    pub(crate) fn lost(&self) -> Vec<LostCommits> {
        let mut lost = Vec::new();
        for (&table, commits) in &self.lost {
            let known = self.offline.tables.get(&table).map(|table| table.name.clone());
            let name = known.or_else(|| self.names.get(&table).cloned());
            let mut ranges: Vec<(SeqTxn, SeqTxn)> = Vec::new();
            for &seq_txn in commits {
                match ranges.last_mut() {
                    Some((_, last)) if last.next() == seq_txn => *last = seq_txn,
                    _ => ranges.push((seq_txn, seq_txn)),
                }
            }
            lost.extend(ranges.into_iter().map(|(first, last)| LostCommits {
                table,
                name: name.clone(),
                first,
                last,
            }));
        }
        lost
    }
}

/// A name for a new table: its own, unless it is still used by a table that a missing commit has
/// dropped or renamed. `names` are those in use.
fn free_name(name: &str, id: TableId, names: &BTreeMap<TableId, String>) -> String {
    let is_taken = |name: &str| {
        let name = fold_name(name);
        names.values().any(|known| *known == name)
    };
    if !is_taken(name) {
        return name.to_owned();
    }
    // A name may be 127 bytes long, and a number has 20 digits.
    let end = (0..=name.len().min(100)).rev().find(|&end| name.is_char_boundary(end));
    let mut free = format!("{}_{id}", &name[..end.unwrap_or(0)]);
    while is_taken(&free) {
        free.push('_');
    }
    free
}

/// Contiguous segments of a partition that include all of `gone`: fewer first.
fn windows_with<'e>(all: &'e [SegmentEntry], gone: &[SegmentEntry]) -> Vec<&'e [SegmentEntry]> {
    let first = all.iter().position(|entry| gone.contains(entry)).unwrap_or(0);
    let last = all.iter().rposition(|entry| gone.contains(entry)).unwrap_or(0);
    let starts = first.saturating_sub(WINDOW_MAX)..=first;
    let ends = last..all.len().min(last.saturating_add(WINDOW_MAX));
    let windows = starts.flat_map(|start| ends.clone().map(move |end| start..=end));
    let mut windows: Vec<&[SegmentEntry]> = windows.map(|window| &all[window]).collect();
    windows.sort_by_key(|window| window.len());
    windows
}

/// The first and the last commit of segments, of which there is at least one.
fn commits(entries: &[SegmentEntry]) -> (SeqTxn, SeqTxn) {
    let first = entries.iter().map(|entry| entry.meta.seq_first).min();
    let last = entries.iter().map(|entry| entry.meta.seq_last).max();
    (first.expect("there is one"), last.expect("there is one"))
}

/// The changes that are taken over of a record, in their order in the record: a table may take the
/// name of another one that is dropped or renamed before.
fn in_order(taken: Vec<TableOp>, record: &Record) -> Vec<TableOp> {
    let mut by_table: BTreeMap<TableId, VecDeque<TableOp>> = BTreeMap::new();
    for op in taken {
        by_table.entry(op.table).or_default().push_back(op);
    }
    let mut ordered = Vec::new();
    for op in &record.ops {
        let Some(left) = by_table.get_mut(&op.table) else { continue };
        let is_this = |it: &TableOp| discriminant(&it.change) == discriminant(&op.change);
        if left.front().is_some_and(is_this) {
            ordered.extend(left.pop_front());
        }
    }
    assert!(by_table.values().all(VecDeque::is_empty), "a table's changes keep their order");
    ordered
}

/// The changes of a record, table by table.
fn commits_of(record: &Record) -> Vec<Commit<'_>> {
    let mut commits: Vec<Commit<'_>> = Vec::new();
    for op in &record.ops {
        match commits.iter_mut().find(|commit| commit.table == op.table) {
            Some(commit) => commit.ops.push(op),
            None => {
                let (table, seq_txn) = (op.table, op.seq_txn);
                commits.push(Commit { table, seq_txn, ops: vec![op] });
            }
        }
    }
    commits
}
