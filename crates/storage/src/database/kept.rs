//! Records of tables that hold up the log: they are kept aside, so that the log can be purged for
//! all others.
//!
//! - KP1. The kept records of a table are all of its records before a position that a replay of it
//!   needs, in order, whatever its own files contain.
//! - KP2. They are no longer needed when its manifest is on disk again, and its memtable has no
//!   rows of them. Until then no record of the table is kept twice, and none is lost.
//! - KP3. Rows that are in segments are left out, so that the kept records are not longer than the
//!   memtables may be, and the table accepts no rows while something fails (`relief`).
//!
//! Not here: the bytes (`wal::kept`), reading them when the database is opened (`recovery`).

use std::collections::BTreeMap;

use tidegate_model::{Lsn, SeqTxn, TableId};
use tidegate_platform::Disk;

use super::Database;
use super::checkpoint::Checkpoints;
use super::directory::{KEPT_SUFFIX, Paths};
use super::garbage_collection::Garbage;
use super::plan::Tables;
use super::table::TableState;
use crate::catalog::Kept;
use crate::error::{Error, Result};
use crate::wal::{self, KeptFile, LogSpan, Record, TableChange, TableOp};

/// Reads the kept records of a table, of the log with this id.
pub(super) fn read(
    disk: &dyn Disk,
    paths: &Paths,
    (log, table, kept): (u64, TableId, Kept),
    visit: &mut dyn FnMut(&Record) -> Result<()>,
) -> Result<()> {
    let path = paths.kept_file(table, kept.until);
    wal::read_kept(disk, KeptFile { path: &path, log, table, until: kept.until }, visit)
}

/// The last commit whose rows need no memtable after the kept records (`recovery` O6).
pub(super) fn last_flushed(
    disk: &dyn Disk,
    paths: &Paths,
    (log, table, kept): (u64, TableId, Kept),
) -> Result<SeqTxn> {
    let path = paths.kept_file(table, kept.until);
    let mut last = SeqTxn(0);
    let file = KeptFile { path: &path, log, table, until: kept.until };
    wal::skim_kept(disk, file, &mut |_, seq_txn| last = last.max(seq_txn))?;
    Ok(last)
}

/// Finds files that belong to no table.
pub(super) fn find_garbage(
    disk: &dyn Disk,
    paths: &Paths,
    named: &BTreeMap<TableId, Kept>,
) -> Result<Garbage> {
    let mut garbage = Garbage::default();
    let entries = match disk.list(&paths.kept()) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(garbage),
        Err(error) => return Err(Error::disk("look for unreferenced files")(error)),
    };
    let named: Vec<_> =
        named.iter().map(|(table, kept)| paths.kept_file(*table, kept.until)).collect();
    for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
        let path = paths.kept().join(&entry.name);
        let is_ours = entry.name.ends_with(KEPT_SUFFIX) || entry.name.ends_with(".kept.tmp");
        if is_ours && !named.contains(&path) {
            garbage.files.insert(path);
        }
    }
    Ok(garbage)
}

/// The position at which a replay must begin for the memtables, given the kept records.
pub(super) fn needed_from(tables: &Tables, kept: &BTreeMap<TableId, Kept>, end: Lsn) -> Lsn {
    let needed = tables.by_id.values().filter_map(|table| {
        let origin = table.memtable.origin()?;
        match kept.get(&table.id()) {
            None => Some(origin.lsn),
            Some(kept) if table.memtable.last() <= Some(kept.seq_txn) => None,
            // Runs may have been merged with kept ones.
            Some(kept) => Some(origin.lsn.max(kept.until)),
        }
    });
    needed.fold(end, Lsn::min)
}

impl Checkpoints {
    /// Returns true if the manifest of a table is to be written.
    pub(super) fn is_behind(&self, table: &TableState) -> bool {
        let known = self.manifests.get(&table.id()).copied();
        table.damage().is_none() && known != Some(table.manifest.seq_txn)
    }

    /// Returns true if a checkpoint would write the manifest of a table whose records are kept.
    pub(super) fn is_late(&self, tables: &Tables) -> bool {
        let tables = self.kept.iter().filter_map(|(id, kept)| Some((tables.by_id.get(id)?, kept)));
        let mut tables = tables.filter(|(table, _)| table.damage().is_none());
        tables.any(|(table, kept)| self.is_behind(table) || !needs(table, *kept))
    }

    /// Returns true if all records of a table are kept already.
    fn has_kept(&self, table: &TableState) -> bool {
        let kept = self.kept.get(&table.id());
        kept.is_some_and(|kept| table.damage().is_some() || kept.seq_txn == table.manifest.seq_txn)
    }
}

/// Returns true if the memtable of a table has rows of kept records.
fn needs(table: &TableState, kept: Kept) -> bool {
    table.memtable.runs().iter().any(|run| run.meta.seq_first <= kept.seq_txn)
}

impl Database {
    /// Returns true if the records of a table are to be kept aside, even if its manifest can be
    /// written.
    fn is_to_be_kept(&self, checkpoints: &Checkpoints, table: &TableState) -> bool {
        if let Some(damage) = table.damage() {
            return damage.has_records && !checkpoints.has_kept(table);
        }
        let (log, maintenance) = (&self.options.log, &self.options.maintenance);
        let is_long = self.log_bytes() > maintenance.log_bytes.min(log.bytes_max / 2);
        is_long
            && table.directory.failure().is_some()
            && !table.memtable.is_empty()
            && !checkpoints.has_kept(table)
    }

    pub(super) fn is_kept_due(&self, checkpoints: &Checkpoints, tables: &Tables) -> bool {
        tables.by_id.values().any(|table| self.is_to_be_kept(checkpoints, table))
    }

    /// Keeps the records of tables aside that hold up the log; returns all kept records.
    pub(super) fn keep_records(
        &self,
        checkpoints: &Checkpoints,
        (tables, as_of): (&Tables, Lsn),
        failed: &BTreeMap<TableId, Error>,
    ) -> Result<BTreeMap<TableId, Kept>> {
        let mut all = BTreeMap::new();
        for table in tables.by_id.values() {
            let id = table.id();
            let known = checkpoints.kept.get(&id).copied();
            let has_failed = failed.contains_key(&id) && !checkpoints.has_kept(table);
            let kept = if has_failed || self.is_to_be_kept(checkpoints, table) {
                Some(self.keep_records_of(checkpoints, table, as_of)?)
            } else {
                let is_needed = |kept: &Kept| {
                    failed.contains_key(&id) || table.damage().is_some() || needs(table, *kept)
                };
                known.filter(is_needed)
            };
            all.extend(kept.map(|kept| (id, kept)));
        }
        Ok(all)
    }

    /// Writes the kept records of a table and its later ones from the log (KP1).
    fn keep_records_of(
        &self,
        checkpoints: &Checkpoints,
        table: &TableState,
        until: Lsn,
    ) -> Result<Kept> {
        let (id, disk) = (table.id(), self.guarded.as_ref());
        let known = checkpoints.kept.get(&id).copied();
        let from = known.map_or(Lsn(0), |kept| kept.until);
        let span = LogSpan { log: self.log_id, from: checkpoints.lsn, until: Some(until) };
        let flushed_seq = table.manifest.flushed_seq;
        let path = self.paths.kept_file(id, until);
        let mut last = known.map_or(SeqTxn(0), |kept| kept.seq_txn);
        let file = KeptFile { path: &path, log: self.log_id, table: id, until };
        wal::write_kept(disk, file, &mut |keep| {
            if let Some(kept) = known {
                read(disk, &self.paths, (self.log_id, id, kept), &mut |record| {
                    of_table(record, id, flushed_seq).map_or(Ok(()), |record| keep(&record))
                })?;
            }
            wal::replay(disk, &self.paths.log(), span, &mut |replayed| {
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
        Ok(Kept { until, seq_txn: last.max(table.manifest.seq_txn) })
    }

    /// Removes files that the catalog on disk no longer names.
    pub(super) fn discard_kept(
        &self,
        before: &BTreeMap<TableId, Kept>,
        now: &BTreeMap<TableId, Kept>,
    ) {
        let is_named =
            |id: &TableId, kept: &Kept| now.get(id).is_some_and(|now| now.until == kept.until);
        for (id, kept) in before.iter().filter(|(id, kept)| !is_named(id, kept)) {
            // If this fails, the next open removes it.
            let _ = self.guarded.remove(&self.paths.kept_file(*id, kept.until));
        }
    }
}

/// The change of a record to one table, without rows up to `flushed_seq`, which are in segments
/// (KP3).
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
