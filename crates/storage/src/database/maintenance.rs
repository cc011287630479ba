//! Maintenance of tables: coalesces and flushes memtables, compacts small and overlapping segments,
//! and rewrites segments without their deleted rows.
//!
//! - maintenance-1. A rewrite takes adjacent commits of one partition, so that rows keep their
//!   order: no other run of the partition has commits between them.
//! - maintenance-2. A flush takes the whole memtable as of a moment: every commit up to its last
//!   one.
//! - One thread at a time rewrites a table's memtable, and one its segments; only threads that
//!   want to do the same wait for them.
//! - A rewrite that is not committed leaves no file, unless its record is in doubt.
//! - This module has no thread: the owner of a database calls `maintain` from time to time,
//!   and writers help where they would have to wait.
//!
//! The choice of runs is in `maintenance/policy.rs`, the schedule of delete compactions in
//! `delete_compaction`; files are written in `segments`.

pub(crate) mod policy;
pub(crate) mod ballast;
pub(crate) mod garbage_collection;
pub(crate) mod checkpoints;
pub(crate) mod retained_records;
pub(crate) mod checkpoint;
pub(crate) mod delete_compaction;
pub(crate) mod memory;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::{ByteCount, TableId, limits};

use super::Database;
use super::commit::group::commit_rewritten;
use super::commit::request::{Coalesce, CommitRequest, Replace};
use super::table::budget::Wake;
use super::table::coalesce::coalesce_runs;
use super::table::memtable::memtable_groups;
use super::table::new_segments::NewSegments;
use super::table::state::TableState;
use crate::database::table::memtable::Origin;
use crate::error::{Error, Result};
use crate::files::{FailedStep, RewriteScope, WaitMode};
use delete_compaction::DeleteCompactions;
use policy::Due;

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

/// The work since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct MaintenanceState {
    done: Mutex<MaintenanceReport>,
    delete_compactions: DeleteCompactions,
}

/// Does the work of maintenance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Maintenance<'a> {
    pub(crate) database: &'a Database,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
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

impl MaintenanceState {
    fn count(&self, what: impl FnOnce(&mut MaintenanceReport)) {
        what(&mut self.done());
    }

    pub(crate) fn report(&self) -> MaintenanceReport {
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

impl Maintenance<'_> {
    /// Does all due work: repairs a log that could not be written to, frees space if there is none,
    /// coalesces memtables, flushes those that are large or old, compacts segments,
    /// writes a checkpoint. A call takes as long as that; the owner of the database calls it every
    /// few milliseconds, from one thread or several.
    pub(crate) fn maintain(&self) -> Result<MaintenanceReport> {
        self.database.check_in_place()?;
        self.database.finish_recovery()?;
        let before = self.database.maintenance_report();
        let mut outcome =
            if self.database.is_log_broken() { self.database.committer.sync() } else { Ok(()) };
        for table in self.database.table_states() {
            let done = self.maintain_table(table.id());
            outcome = outcome.and(done);
        }
        outcome = outcome.and(self.free_space());
        self.database
            .maintenance
            .delete_compactions
            .retain(|id| self.database.table_state(id).is_some());
        let lsn = self.database.published().lsn.0;
        if lsn.saturating_sub(self.database.checkpoint_as_of.load(Ordering::Acquire))
            > self.database.options.log.checkpoint_bytes
        {
            outcome = outcome.and(self.database.checkpointer().checkpoint());
        }
        outcome.map(|()| self.database.maintenance_report().since(before))
    }

    /// Flushes the memtable of a table: its rows are in segments when the call returns.
    pub(crate) fn flush_table(&self, table: &str) -> Result<()> {
        self.database.finish_recovery()?;
        let id = self.database.committed().existing(table)?.id();
        self.flush_until_done(id)
    }

    /// Compacts segments of a table as far as that is due.
    pub(crate) fn compact_table(&self, table: &str) -> Result<()> {
        self.database.finish_recovery()?;
        let id = self.database.committed().existing(table)?.id();
        while settled(self.compact(id))? == Attempt::Done {}
        Ok(())
    }

    /// Flushes memtables and writes a checkpoint, so that the next open has nothing to replay. Also
    /// done on drop, as far as possible.
    pub(crate) fn close(&self) -> Result<()> {
        self.database.finish_recovery()?;
        let tables = self.unfinished_tables();
        if tables.len() > limits::CLOSE_TABLES {
            return self.database.committer.sync();
        }
        let flushed = self.flush_tables(&tables);
        flushed.and(self.database.checkpointer().checkpoint())
    }

    /// The tables with rows or changes that are not in a checkpoint.
    fn unfinished_tables(&self) -> Vec<TableId> {
        let checkpoints = self.database.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unfinished = |table: &Arc<TableState>| {
            let known = checkpoints.manifests.get(&table.id()).copied();
            !table.memtable.is_empty() || known != Some(table.manifest.seq_txn)
        };
        let mut tables = self.database.table_states();
        tables.retain(is_unfinished);
        tables.iter().map(|table| table.id()).collect()
    }

    /// Coalesces memtables with many runs, unless another thread does so already.
    pub(crate) fn coalesce_memtables(&self, tables: &[TableId]) {
        for &id in tables {
            let runs = self.database.table_state(id).map_or(0, |table| table.memtable.runs().len());
            if runs >= self.database.options.maintenance.memtable_runs_max {
                // The rows are committed, and the next writer tries to coalesce again.
                let _ = self.coalesce(id, WaitMode::Try);
            }
        }
    }

    fn maintain_table(&self, id: TableId) -> Result<()> {
        while settled(self.coalesce(id, WaitMode::Try))? == Attempt::Done {}
        let Some(table) = self.database.table_state(id) else { return Ok(()) };
        if self.is_flush_due(&table) {
            let flushed = settled(self.flush(id, WaitMode::Try));
            flushed.map_err(|error| self.unflushed(&table, error))?;
        }
        while settled(self.compact(id))? == Attempt::Done {}
        while settled(self.compact_deletes(id))? == Attempt::Done {}
        if !self.database.partitions().expired(&table).is_empty() {
            let dropped = self
                .database
                .partitions()
                .drop_partitions_of(id, &|table| self.database.partitions().expired(table))?;
            self.database.maintenance.count(|done| done.expired_partitions += dropped as u64);
        }
        Ok(())
    }

    fn is_flush_due(&self, table: &TableState) -> bool {
        let options = &self.database.options.maintenance;
        let Some(Origin { lsn, since_nanos }) = table.memtable.origin() else { return false };
        let now = self.database.options.clock.monotonic_nanos();
        if self.has_failed_lately(table) {
            return false;
        }
        table.memtable.rows() >= options.flush_rows
            || table.memtable.bytes() >= options.flush_bytes
            || table.memtable.has_spilled()
            || now.saturating_sub(since_nanos) >= options.flush_after_nanos
            || self.database.published().lsn.0.saturating_sub(lsn.0) >= options.log_bytes
    }

    /// Flushes the current rows of a table's memtable.
    pub(crate) fn flush_until_done(&self, id: TableId) -> Result<()> {
        let Some(last) = self.database.table_state(id).and_then(|table| table.memtable.last())
        else {
            return Ok(());
        };
        let is_left = |table: Arc<TableState>| table.manifest.flushed_seq < last;
        while self.database.table_state(id).is_some_and(is_left) {
            settled(self.flush(id, WaitMode::Wait))?;
        }
        Ok(())
    }

    /// Flushes the memtable of a table to segments (maintenance-2).
    pub(crate) fn flush(&self, id: TableId, wait_mode: WaitMode) -> Result<Attempt> {
        self.with_ballast(&mut || self.flush_once(id, wait_mode))
    }

    fn flush_once(&self, id: TableId, wait_mode: WaitMode) -> Result<Attempt> {
        let Some(table) = self.database.table_state(id) else { return Ok(Attempt::Idle) };
        // Dropped after the lock of the runs.
        let _wake = Wake::new(&self.database.memtable_budget);
        let Some(_lock) = table.directory.lock_runs(RewriteScope::Memtable, wait_mode) else {
            return Ok(Attempt::Busy);
        };
        let Some(table) = self.database.table_state(id) else { return Ok(Attempt::Idle) };
        if table.memtable.is_empty() {
            return Ok(Attempt::Idle);
        }
        let mut written = NewSegments::new(self.database, &table)?;
        written.write_memtable(&|run| Some(run.run()))?;
        let symbols = written.sync()?;
        let replace = Replace::with(&written, Vec::new(), table.memtable.runs(), symbols);
        commit_rewritten(self.database, replace, &written)?;
        self.database.maintenance.count(|done| {
            done.flushes += 1;
            done.flushed_bytes += written.bytes();
        });
        table.directory.note_done(FailedStep::Flush);
        table.directory.writes().add_flushed(written.bytes());
        Ok(Attempt::Done)
    }

    /// Compacts segments of a table, if some are due.
    fn compact(&self, id: TableId) -> Result<Attempt> {
        let due =
            |table: &TableState| policy::due_compaction(table, &self.database.options.maintenance);
        let done = self.rewrite(id, &due)?;
        self.database
            .maintenance
            .count(|report| report.compactions += u64::from(done == Attempt::Done));
        Ok(done)
    }

    /// Rewrites segments of a table without their deleted rows, if some are due.
    fn compact_deletes(&self, id: TableId) -> Result<Attempt> {
        let due = |table: &TableState| {
            policy::due_delete_compaction(
                table,
                &self.database.maintenance.delete_compactions.due(self.database, table),
            )
        };
        let done = self.rewrite(id, &due)?;
        self.database
            .maintenance
            .count(|report| report.delete_compactions += u64::from(done == Attempt::Done));
        Ok(done)
    }

    /// Rewrites segments of a table, if some are due.
    fn rewrite(&self, id: TableId, due: &dyn Fn(&TableState) -> Option<Due>) -> Result<Attempt> {
        let Some(table) = self.database.table_state(id) else { return Ok(Attempt::Idle) };
        let Some(_lock) = table.directory.lock_runs(RewriteScope::Segments, WaitMode::Try) else {
            return Ok(Attempt::Busy);
        };
        // transaction-2: the work is due again when no transaction has pinned the table.
        if table.directory.is_pinned() {
            return Ok(Attempt::Idle);
        }
        let Some(table) = self.database.table_state(id) else { return Ok(Attempt::Idle) };
        let Some(Due { out }) = due(&table) else { return Ok(Attempt::Idle) };
        let mut written = NewSegments::new(self.database, &table)?;
        let runs = out.iter().map(|entry| table.segment_run(entry.meta.id));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        if runs.iter().any(|run| run.rows().0 > 0) {
            written.write(&runs)?;
        }
        let symbols = written.sync()?;
        let out = out.iter().map(|entry| (entry.meta.id, entry.deletion_vector)).collect();
        commit_rewritten(self.database, Replace::with(&written, out, &[], symbols), &written)?;
        self.database.maintenance.count(|done| done.compacted_bytes += written.bytes());
        table.directory.writes().add_compacted(written.bytes());
        Ok(Attempt::Done)
    }

    /// Merges several runs of a memtable into one, if they are many.
    fn coalesce(&self, id: TableId, wait_mode: WaitMode) -> Result<Attempt> {
        let Some(table) = self.database.table_state(id) else { return Ok(Attempt::Idle) };
        // Dropped after the lock of the runs.
        let _wake = Wake::new(&self.database.memtable_budget);
        let Some(_lock) = table.directory.lock_runs(RewriteScope::Memtable, wait_mode) else {
            return Ok(Attempt::Busy);
        };
        let Some(table) = self.database.table_state(id) else { return Ok(Attempt::Idle) };
        let mut done = Attempt::Idle;
        for group in memtable_groups(&table.memtable, &table.manifest.segments) {
            let Some(out) = policy::due_coalesce(&group) else { continue };
            let new_id = &mut || table.directory.new_segment_id();
            let Some(run) = coalesce_runs(&table.directory, &table.manifest, out, new_id)? else {
                continue;
            };
            let request = Coalesce {
                table: id,
                name: table.name.clone(),
                out: out.to_vec(),
                run: Arc::new(run),
            };
            self.database
                .commit_all(CommitRequest::Coalesce(request))
                .map_err(|commit_error| commit_error.error)?;
            self.database.maintenance.count(|done| done.coalesced_runs += out.len() as u64);
            done = Attempt::Done;
        }
        Ok(done)
    }
}

/// Turns a conflict with a concurrent change into `Busy`: the rest is due again.
pub(crate) fn settled(attempt: Result<Attempt>) -> Result<Attempt> {
    match attempt {
        Err(Error::SegmentChanged { .. } | Error::TableDropped { .. }) => Ok(Attempt::Busy),
        other => other,
    }
}
