//! Maintenance of tables: coalesces and flushes memtables, compacts small and overlapping segments,
//! and rewrites segments without their deleted rows.
//!
//! - UP1. A rewrite takes adjacent commits of one partition, so that rows keep their order: no
//!   other run of the partition has commits between them.
//! - UP2. A flush takes the whole memtable as of a moment: every commit up to its last one.
//! - UP3. One thread at a time rewrites a table's memtable, and one its segments; only threads that
//!   want to do the same wait for them.
//! - UP4. A rewrite that is not committed leaves no file, unless its record is in doubt.
//! - UP5. This module has no thread: the owner of a database calls `maintain` from time to time,
//!   and writers help where they would have to wait.
//!
//! The choice of runs is in `maintenance/policy.rs`, the schedule of delete compactions in
//! `delete_compaction`; files are written in `segments`.

pub(super) mod policy;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::{ByteCount, SegmentId, TableId, limits};

use super::Database;
use super::budget::Wake;
use super::commit::CommitError;
use super::delete_compaction::DeleteCompactions;
use super::directory::{FailedStep, RewriteScope, TableDirectory, WaitMode};
use super::memtable::{MemtableRun, Origin};
use super::plan::{Coalesce, CommitRequest, Replace};
use super::segments::{NewSegments, mem_segment_of};
use super::table::TableState;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::snapshot::SegmentFile;
use crate::wal::CommitOutcome;
use policy::{Due, memtable_groups};

/// The bounds of memtables, and the thresholds of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaintenanceOptions {
    /// Memory of all memtables together: a writer that would exceed it flushes one, or waits for
    /// another writer that does; a replay that would exceed it spills.
    pub memtable_bytes_max: u64,
    /// Rows at which a table's memtable is flushed.
    pub flush_rows: u64,
    /// Bytes at which a table's memtable is flushed.
    pub flush_bytes: u64,
    /// Maximal age of rows in a memtable.
    pub flush_after_nanos: u64,
    /// Maximal bytes of the log that memtables may keep from being purged.
    pub log_bytes: u64,
    /// Number of a memtable's runs at which a writer coalesces them.
    pub memtable_runs_max: usize,
    /// Number of adjacent segments of similar size in a partition at which they are compacted.
    pub compaction_runs: usize,
    /// Maximal rows of one compaction.
    pub compaction_rows_max: u64,
    /// Maximal time that deleted rows stay in segments.
    pub delete_compaction_after_nanos: u64,
}

/// The work of maintenance, in one call or since the database was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// Runs of memtables that were merged with others.
    pub coalesced_runs: u64,
    /// Memtables that were flushed.
    pub flushes: u64,
    /// Bytes of the segments that flushes wrote.
    pub flushed_bytes: u64,
    /// Compactions of segments.
    pub compactions: u64,
    /// Bytes of the segments that compactions wrote, also those for deleted rows.
    pub compacted_bytes: u64,
    /// Number of rewrites of segments without their deleted rows.
    pub delete_compactions: u64,
    /// Bytes of records that were written to the log.
    pub log_bytes: u64,
    /// Partitions that were dropped because of a TTL.
    pub expired_partitions: u64,
}

/// Bytes that were written for a table since the database was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableWrites {
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Bytes of the segments that its flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes of the segments that its compactions wrote.
    pub compacted_bytes: u64,
}

/// The work since the database was opened.
#[derive(Debug, Default)]
pub(super) struct Maintenance {
    done: Mutex<MaintenanceReport>,
    delete_compactions: DeleteCompactions,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Done,
    /// There was nothing to do.
    Idle,
    /// Another thread does the same work.
    Busy,
}

impl MaintenanceOptions {
    /// Segments of a million rows, a replay of some seconds at most, and at most five minutes in
    /// memory for rows that arrive one by one.
    pub const STANDARD: MaintenanceOptions = MaintenanceOptions {
        memtable_bytes_max: 256 << 20,
        flush_rows: 1 << 20,
        flush_bytes: 64 << 20,
        flush_after_nanos: 300_000_000_000,
        log_bytes: 512 << 20,
        memtable_runs_max: 64,
        compaction_runs: 4,
        compaction_rows_max: 32 << 20,
        delete_compaction_after_nanos: 24 * 3_600 * 1_000_000_000,
    };

    /// The same for a process that may use this much memory: memtables get an eighth of it, but not
    /// more than before. It bounds a replay as well.
    #[must_use]
    pub fn within(self, memory: ByteCount) -> MaintenanceOptions {
        let part = (memory.0 / 8).max(MEMTABLES_BYTES_MIN);
        MaintenanceOptions { memtable_bytes_max: self.memtable_bytes_max.min(part), ..self }
    }
}

/// Below this, memtables would be flushed every few commits.
const MEMTABLES_BYTES_MIN: u64 = 4 << 20;

impl Maintenance {
    fn count(&self, what: impl FnOnce(&mut MaintenanceReport)) {
        what(&mut self.done());
    }

    pub(super) fn add_log_bytes(&self, bytes: u64) {
        self.count(|done| done.log_bytes += bytes);
    }

    fn report(&self) -> MaintenanceReport {
        *self.done()
    }

    fn done(&self) -> MutexGuard<'_, MaintenanceReport> {
        // Every change of it is an addition.
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MaintenanceReport {
    fn since(self, before: MaintenanceReport) -> MaintenanceReport {
        MaintenanceReport {
            coalesced_runs: self.coalesced_runs - before.coalesced_runs,
            flushes: self.flushes - before.flushes,
            flushed_bytes: self.flushed_bytes - before.flushed_bytes,
            compactions: self.compactions - before.compactions,
            compacted_bytes: self.compacted_bytes - before.compacted_bytes,
            delete_compactions: self.delete_compactions - before.delete_compactions,
            log_bytes: self.log_bytes - before.log_bytes,
            expired_partitions: self.expired_partitions - before.expired_partitions,
        }
    }
}

impl Database {
    /// Does all due work: repairs a log that could not be written to, frees space if there is none,
    /// coalesces memtables, flushes those that are large or old, compacts segments,
    /// writes a checkpoint. A call takes as long as that; the owner of the database calls it every
    /// few milliseconds, from one thread or several.
    ///
    /// # Errors
    /// The first error; other due work is done all the same. Nothing is lost: failed work is due
    /// again.
    pub fn maintain(&self) -> Result<MaintenanceReport> {
        self.check_in_place()?;
        self.finish_recovery()?;
        let before = self.maintenance.report();
        let mut outcome = if self.is_log_broken() { self.sync() } else { Ok(()) };
        for table in self.table_states() {
            let done = self.maintain_table(table.id());
            outcome = outcome.and(done);
        }
        outcome = outcome.and(self.free_space());
        self.maintenance.delete_compactions.retain(|id| self.table_state(id).is_some());
        let lsn = self.published().lsn.0;
        if lsn.saturating_sub(self.checkpoint_as_of.load(Ordering::Acquire))
            > self.options.log.checkpoint_bytes
        {
            outcome = outcome.and(self.checkpoint());
        }
        outcome.map(|()| self.maintenance.report().since(before))
    }

    /// The work of maintenance since the database was opened, and the bytes written to the log.
    #[must_use]
    pub fn maintenance_report(&self) -> MaintenanceReport {
        self.maintenance.report()
    }

    /// The bytes written for a table since the database was opened; `None` if it does not exist.
    #[must_use]
    pub fn table_writes(&self, table: TableId) -> Option<TableWrites> {
        let table = self.table_state(table)?;
        Some(table.directory.writes().read())
    }

    /// Adds the bytes in the log to the counts of these tables.
    pub(super) fn count_log_bytes(&self, shares: &[(TableId, u64)]) {
        for &(table, bytes) in shares {
            // A table that was dropped meanwhile is skipped.
            if let Some(table) = self.table_state(table) {
                table.directory.writes().add_log(bytes);
            }
        }
    }

    /// The memory of all memtables in bytes.
    #[must_use]
    pub fn memtable_bytes(&self) -> u64 {
        self.memtable_budget.used_bytes()
    }

    /// Flushes the memtable of a table: its rows are in segments when the call returns.
    ///
    /// # Errors
    /// If there is no such table, or segments cannot be written: then nothing has changed.
    pub fn flush_table(&self, table: &str) -> Result<()> {
        self.finish_recovery()?;
        let id = self.committed().existing(table)?.id();
        self.flush_until_done(id)
    }

    /// Compacts segments of a table as far as that is due.
    ///
    /// # Errors
    /// If there is no such table, or segments cannot be written: then nothing has changed.
    pub fn compact_table(&self, table: &str) -> Result<()> {
        self.finish_recovery()?;
        let id = self.committed().existing(table)?.id();
        while settled(self.compact(id))? == Attempt::Done {}
        Ok(())
    }

    /// Flushes memtables and writes a checkpoint, so that the next open has nothing to replay. Also
    /// done on drop, as far as possible.
    ///
    /// With more than [`limits::CLOSE_TABLES`] tables that are not in checkpoints it only syncs the
    /// log, and the next open replays it: that takes less time than flushing so many.
    ///
    /// # Errors
    /// If something cannot be written; then it is in the log, and nothing is lost.
    pub fn close(&self) -> Result<()> {
        self.finish_recovery()?;
        let tables = self.unfinished_tables();
        if tables.len() > limits::CLOSE_TABLES {
            return self.sync();
        }
        let flushed = self.flush_tables(&tables);
        flushed.and(self.checkpoint())
    }

    /// The tables with rows or changes that are not in a checkpoint.
    fn unfinished_tables(&self) -> Vec<TableId> {
        let checkpoints = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unfinished = |table: &Arc<TableState>| {
            let known = checkpoints.manifests.get(&table.id()).copied();
            !table.memtable.is_empty() || known != Some(table.manifest.seq_txn)
        };
        let mut tables = self.table_states();
        tables.retain(is_unfinished);
        tables.iter().map(|table| table.id()).collect()
    }

    /// Coalesces memtables with many runs, unless another thread does so already.
    pub(super) fn coalesce_memtables(&self, tables: &[TableId]) {
        for &id in tables {
            let runs = self.table_state(id).map_or(0, |table| table.memtable.runs().len());
            if runs >= self.options.maintenance.memtable_runs_max {
                // The rows are committed, and the next writer tries to coalesce again.
                let _ = self.coalesce(id, WaitMode::Try);
            }
        }
    }

    fn maintain_table(&self, id: TableId) -> Result<()> {
        while settled(self.coalesce(id, WaitMode::Try))? == Attempt::Done {}
        let Some(table) = self.table_state(id) else { return Ok(()) };
        if self.is_flush_due(&table) {
            let flushed = settled(self.flush(id, WaitMode::Try));
            flushed.map_err(|error| self.unflushed(&table, error))?;
        }
        while settled(self.compact(id))? == Attempt::Done {}
        while settled(self.compact_deletes(id))? == Attempt::Done {}
        if !self.expired(&table).is_empty() {
            let dropped = self.drop_partitions_of(id, &|table| self.expired(table))?;
            self.maintenance.count(|done| done.expired_partitions += dropped as u64);
        }
        Ok(())
    }

    fn is_flush_due(&self, table: &TableState) -> bool {
        let options = &self.options.maintenance;
        let Some(Origin { lsn, since_nanos }) = table.memtable.origin() else { return false };
        let now = self.options.clock.monotonic_nanos();
        if self.has_failed_lately(table) {
            return false;
        }
        table.memtable.rows() >= options.flush_rows
            || table.memtable.bytes() >= options.flush_bytes
            || table.memtable.has_spilled()
            || now.saturating_sub(since_nanos) >= options.flush_after_nanos
            || self.published().lsn.0.saturating_sub(lsn.0) >= options.log_bytes
    }

    pub(super) fn table_states(&self) -> Vec<Arc<TableState>> {
        self.published().tables.by_id.values().map(Arc::clone).collect()
    }

    pub(super) fn table_state(&self, id: TableId) -> Option<Arc<TableState>> {
        self.published().tables.by_id.get(&id).map(Arc::clone)
    }

    /// Flushes the current rows of a table's memtable.
    pub(super) fn flush_until_done(&self, id: TableId) -> Result<()> {
        let Some(last) = self.table_state(id).and_then(|table| table.memtable.last()) else {
            return Ok(());
        };
        let is_left = |table: Arc<TableState>| table.manifest.flushed_seq < last;
        while self.table_state(id).is_some_and(is_left) {
            settled(self.flush(id, WaitMode::Wait))?;
        }
        Ok(())
    }

    /// Flushes the memtable of a table to segments (UP2).
    pub(super) fn flush(&self, id: TableId, wait_mode: WaitMode) -> Result<Attempt> {
        self.with_ballast(&mut || self.flush_once(id, wait_mode))
    }

    fn flush_once(&self, id: TableId, wait_mode: WaitMode) -> Result<Attempt> {
        let Some(table) = self.table_state(id) else { return Ok(Attempt::Idle) };
        // Dropped after the lock of the runs.
        let _wake = Wake::new(&self.memtable_budget);
        let Some(_lock) = table.directory.lock_runs(RewriteScope::Memtable, wait_mode) else {
            return Ok(Attempt::Busy);
        };
        let Some(table) = self.table_state(id) else { return Ok(Attempt::Idle) };
        if table.memtable.is_empty() {
            return Ok(Attempt::Idle);
        }
        let mut written = NewSegments::new(self, &table)?;
        written.write_memtable(&|run| Some(run.run()))?;
        let symbols = written.sync()?;
        let replace = written.replacing(Vec::new(), table.memtable.runs(), symbols);
        self.commit_rewritten(replace, &written)?;
        self.maintenance.count(|done| {
            done.flushes += 1;
            done.flushed_bytes += written.bytes();
        });
        table.directory.note_done(FailedStep::Flush);
        table.directory.writes().add_flushed(written.bytes());
        Ok(Attempt::Done)
    }

    /// Compacts segments of a table, if some are due.
    fn compact(&self, id: TableId) -> Result<Attempt> {
        let due = |table: &TableState| policy::due_compaction(table, &self.options.maintenance);
        let done = self.rewrite(id, &due)?;
        self.maintenance.count(|report| report.compactions += u64::from(done == Attempt::Done));
        Ok(done)
    }

    /// Rewrites segments of a table without their deleted rows, if some are due.
    fn compact_deletes(&self, id: TableId) -> Result<Attempt> {
        let due = |table: &TableState| {
            policy::due_delete_compaction(
                table,
                &self.maintenance.delete_compactions.due(self, table),
            )
        };
        let done = self.rewrite(id, &due)?;
        self.maintenance
            .count(|report| report.delete_compactions += u64::from(done == Attempt::Done));
        Ok(done)
    }

    /// Rewrites segments of a table, if some are due.
    fn rewrite(&self, id: TableId, due: &dyn Fn(&TableState) -> Option<Due>) -> Result<Attempt> {
        let Some(table) = self.table_state(id) else { return Ok(Attempt::Idle) };
        let Some(_lock) = table.directory.lock_runs(RewriteScope::Segments, WaitMode::Try) else {
            return Ok(Attempt::Busy);
        };
        // TX2: the work is due again when no transaction has pinned the table.
        if table.directory.is_pinned() {
            return Ok(Attempt::Idle);
        }
        let Some(table) = self.table_state(id) else { return Ok(Attempt::Idle) };
        let Some(Due { out }) = due(&table) else { return Ok(Attempt::Idle) };
        let mut written = NewSegments::new(self, &table)?;
        let runs = out.iter().map(|entry| table.segment_run(entry.meta.id));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        if runs.iter().any(|run| run.rows().0 > 0) {
            written.write(&runs)?;
        }
        let symbols = written.sync()?;
        let out = out.iter().map(|entry| (entry.meta.id, entry.deletion_vector)).collect();
        self.commit_rewritten(written.replacing(out, &[], symbols), &written)?;
        self.maintenance.count(|done| done.compacted_bytes += written.bytes());
        table.directory.writes().add_compacted(written.bytes());
        Ok(Attempt::Done)
    }

    /// Replaces the input of a rewrite by the new segments (UP4).
    pub(super) fn commit_rewritten(
        &self,
        replace: Replace,
        written: &NewSegments<'_>,
    ) -> Result<()> {
        match self.commit(CommitRequest::Replace(replace)) {
            Ok(_) => {
                written.keep();
                Ok(())
            }
            Err(CommitError { error, outcome }) => {
                if outcome == CommitOutcome::InDoubt {
                    written.keep();
                }
                Err(error)
            }
        }
    }

    /// Merges several runs of a memtable into one, if they are many.
    fn coalesce(&self, id: TableId, wait_mode: WaitMode) -> Result<Attempt> {
        let Some(table) = self.table_state(id) else { return Ok(Attempt::Idle) };
        // Dropped after the lock of the runs.
        let _wake = Wake::new(&self.memtable_budget);
        let Some(_lock) = table.directory.lock_runs(RewriteScope::Memtable, wait_mode) else {
            return Ok(Attempt::Busy);
        };
        let Some(table) = self.table_state(id) else { return Ok(Attempt::Idle) };
        let mut done = Attempt::Idle;
        for group in memtable_groups(&table.memtable, &table.manifest.segments) {
            let Some(out) = policy::due_coalesce(&group) else { continue };
            let new_id = &mut || table.directory.new_segment_id();
            let Some(run) = coalesced(&table.directory, &table.manifest, out, new_id)? else {
                continue;
            };
            let request = Coalesce {
                table: id,
                name: table.name.clone(),
                out: out.to_vec(),
                run: Arc::new(run),
            };
            self.commit_all(CommitRequest::Coalesce(request))
                .map_err(|commit_error| commit_error.error)?;
            self.maintenance.count(|done| done.coalesced_runs += out.len() as u64);
            done = Attempt::Done;
        }
        Ok(done)
    }
}

/// Turns a conflict with a concurrent change into `Busy`: the rest is due again.
pub(super) fn settled(attempt: Result<Attempt>) -> Result<Attempt> {
    match attempt {
        Err(Error::SegmentChanged { .. } | Error::TableDropped { .. }) => Ok(Attempt::Busy),
        other => other,
    }
}

/// One run with the rows of several; `None` if they do not fit one, or all are deleted.
pub(super) fn coalesced(
    directory: &TableDirectory,
    manifest: &Manifest,
    out: &[Arc<MemtableRun>],
    new_id: &mut dyn FnMut() -> SegmentId,
) -> Result<Option<MemtableRun>> {
    let runs: Vec<_> = out.iter().map(|run| Arc::new(run.run())).collect();
    let mem_segment =
        mem_segment_of((directory, &manifest.schema), &manifest.symbols, &runs, new_id)?;
    let Some(mem_segment) = mem_segment else { return Ok(None) };
    let origin = out.iter().map(|run| run.origin).reduce(Origin::oldest);
    let file = Arc::new(SegmentFile::in_memory(directory.table(), &mem_segment));
    Ok(Some(MemtableRun::new(&mem_segment, file, origin.expect("a group has a run"))))
}
