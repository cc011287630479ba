//! Retained records: the records of a table that would keep the log from being purged are copied to
//! a file of their own.
//!
//! - retained_records-1. The retained records of a table are all of its records before a position
//!   that a replay of it needs, in order, whatever its own files contain.
//! - They are no longer needed when its manifest is on disk again, and its memtable has no
//!   rows of them. Until then no record of the table is retained twice, and none is lost.
//! - retained_records-2. Rows that are in segments are left out, so that the retained records are
//!   not longer than the memtables may be, and the table accepts no rows while something fails
//!   (`maintenance::memory`).
//!
//! Not here: the bytes (`wal::retained_file`), reading them when the database is opened
//! (`recovery`).

use std::collections::BTreeMap;

use tidegate_model::{Lsn, SeqTxn, TableId};
use tidegate_platform::Disk;

use super::checkpoints::{Checkpoints, needs};
use super::garbage_collection::Garbage;
use crate::catalog::RetainedRecords;
use crate::change::{TableChange, TableOp};
use crate::database::maintenance::checkpoint::Checkpointer;
use crate::database::table::Tables;
use crate::database::table::state::TableState;
use crate::error::{Error, Result};
use crate::files::{Paths, RETAINED_SUFFIX};
use crate::wal::{self, LogSpan, Record, RetainedFile};

/// Reads the retained records of a table, of the log with this id.
pub(crate) fn read(
    disk: &dyn Disk,
    paths: &Paths,
    log: u64,
    table: TableId,
    retained: RetainedRecords,
    visit: &mut dyn FnMut(&Record) -> Result<()>,
) -> Result<()> {
    let path = paths.retained_file(table, retained.until);
    wal::read_retained(disk, RetainedFile { path: &path, log, table, until: retained.until }, visit)
}

/// The last commit whose rows need no memtable after the retained records (`recovery` recovery-5).
pub(crate) fn last_flushed(
    disk: &dyn Disk,
    paths: &Paths,
    log: u64,
    table: TableId,
    retained: RetainedRecords,
) -> Result<SeqTxn> {
    let path = paths.retained_file(table, retained.until);
    let mut last = SeqTxn(0);
    let file = RetainedFile { path: &path, log, table, until: retained.until };
    wal::skim_retained(disk, file, &mut |_, seq_txn| last = last.max(seq_txn))?;
    Ok(last)
}

/// Finds files that belong to no table.
pub(crate) fn find_garbage(
    disk: &dyn Disk,
    paths: &Paths,
    named: &BTreeMap<TableId, RetainedRecords>,
) -> Result<Garbage> {
    let mut garbage = Garbage::default();
    let entries = match disk.list(&paths.retained()) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(garbage),
        Err(error) => return Err(Error::disk("look for unreferenced files")(error)),
    };
    let named: Vec<_> =
        named.iter().map(|(table, retained)| paths.retained_file(*table, retained.until)).collect();
    for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
        let path = paths.retained().join(&entry.name);
        let is_ours = entry.name.ends_with(RETAINED_SUFFIX) || entry.name.ends_with(".kept.tmp");
        if is_ours && !named.contains(&path) {
            garbage.files.insert(path);
        }
    }
    Ok(garbage)
}

impl Checkpointer<'_> {
    /// Returns true if the records of a table are to be retained, even if its manifest can be
    /// written.
    fn is_to_be_retained(&self, checkpoints: &Checkpoints, table: &TableState) -> bool {
        if let Some(damage) = table.damage() {
            return damage.has_records && !checkpoints.has_retained(table);
        }
        let (log, maintenance) = (&self.database.options.log, &self.database.options.maintenance);
        let is_long = self.database.log_bytes() > maintenance.log_bytes.min(log.bytes_max / 2);
        is_long
            && table.directory.failure().is_some()
            && !table.memtable.is_empty()
            && !checkpoints.has_retained(table)
    }

    pub(crate) fn must_retain_records(&self, checkpoints: &Checkpoints, tables: &Tables) -> bool {
        tables.by_id.values().any(|table| self.is_to_be_retained(checkpoints, table))
    }

    /// Retains the records of tables that hold up the log; returns all retained records.
    pub(crate) fn retain_records(
        &self,
        checkpoints: &Checkpoints,
        tables: &Tables,
        as_of: Lsn,
        failed: &BTreeMap<TableId, Error>,
    ) -> Result<BTreeMap<TableId, RetainedRecords>> {
        let mut all = BTreeMap::new();
        for table in tables.by_id.values() {
            let id = table.id();
            let known = checkpoints.retained.get(&id).copied();
            let has_failed = failed.contains_key(&id) && !checkpoints.has_retained(table);
            let retained = if has_failed || self.is_to_be_retained(checkpoints, table) {
                Some(self.retain_records_of(checkpoints, table, as_of)?)
            } else {
                let is_needed = |retained: &RetainedRecords| {
                    failed.contains_key(&id) || table.damage().is_some() || needs(table, *retained)
                };
                known.filter(is_needed)
            };
            all.extend(retained.map(|retained| (id, retained)));
        }
        Ok(all)
    }

    /// Writes the retained records of a table and its later ones from the log (retained_records-1).
    fn retain_records_of(
        &self,
        checkpoints: &Checkpoints,
        table: &TableState,
        until: Lsn,
    ) -> Result<RetainedRecords> {
        let (id, disk) = (table.id(), self.database.guarded.as_ref());
        let known = checkpoints.retained.get(&id).copied();
        let from = known.map_or(Lsn(0), |retained| retained.until);
        let span = LogSpan { log: self.database.log_id, from: checkpoints.lsn, until: Some(until) };
        let flushed_seq = table.manifest.flushed_seq;
        let path = self.database.paths.retained_file(id, until);
        let mut last = known.map_or(SeqTxn(0), |retained| retained.seq_txn);
        let file = RetainedFile { path: &path, log: self.database.log_id, table: id, until };
        wal::write_retained(disk, file, &mut |keep| {
            if let Some(retained) = known {
                read(
                    disk,
                    &self.database.paths,
                    self.database.log_id,
                    id,
                    retained,
                    &mut |record| {
                        of_table(record, id, flushed_seq).map_or(Ok(()), |record| keep(&record))
                    },
                )?;
            }
            wal::replay(disk, &self.database.paths.log(), span, &mut |replayed| {
                if replayed.lsn < from {
                    return Ok(());
                }
                let Some(record) = of_table(replayed.record, id, flushed_seq) else {
                    return Ok(());
                };
                last = record.ops.iter().map(|op| op.seq_txn).fold(last, SeqTxn::max);
                keep(&record)
            })?;
            Ok(())
        })?;
        Ok(RetainedRecords { until, seq_txn: last.max(table.manifest.seq_txn) })
    }

    /// Removes files that the catalog on disk no longer names.
    pub(crate) fn discard_retained(
        &self,
        before: &BTreeMap<TableId, RetainedRecords>,
        now: &BTreeMap<TableId, RetainedRecords>,
    ) {
        let is_named = |id: &TableId, retained: &RetainedRecords| {
            now.get(id).is_some_and(|now| now.until == retained.until)
        };
        for (id, retained) in before.iter().filter(|(id, retained)| !is_named(id, retained)) {
            // If this fails, the next open removes it.
            let _ = self
                .database
                .guarded
                .remove(&self.database.paths.retained_file(*id, retained.until));
        }
    }
}

/// The change of a record to one table, without rows up to `flushed_seq`, which are in segments
/// (retained_records-2).
fn of_table(record: &Record, table: TableId, flushed_seq: SeqTxn) -> Option<Record> {
    let ops = record.ops.iter().filter(|op| op.table == table).map(|op| match &op.change {
        TableChange::Append { batch, .. } if op.seq_txn <= flushed_seq => {
            let (mem_segments, symbols) = (Vec::new(), Vec::new());
            let change = TableChange::Append { batch: *batch, mem_segments, symbols };
            TableOp { change, ..op.clone() }
        }
        _ => op.clone(),
    });
    let ops: Vec<TableOp> = ops.collect();
    (!ops.is_empty()).then_some(Record { ops })
}
