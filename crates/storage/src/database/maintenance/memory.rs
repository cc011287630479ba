//! Flushes for space in memory and in the log, and the handling of tables that cannot be flushed.
//!
//! - maintenance_memory-1. A table whose memtable cannot be flushed, or whose manifest cannot be
//!   written, fails no write to another one. It accepts no rows itself until that succeeds; each
//!   write to it tries that first.
//! - maintenance_memory-2. Its in-memory segments move from memory to a file in scratch when no
//!   other table can free memory. Its records of the log are retained when the log has to be
//!   purged (`retained_records`).
//! - maintenance_memory-3. A failure of the log is not attributed to a table.
//!
//! Not here: regular flushes of memtables (`maintenance`).

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::TableId;

use super::{Attempt, settled};
use crate::database::commit::request::{CommitRequest, Exchange};
use crate::database::maintenance::Maintenance;
use crate::database::table::memtable::MemtableRun;
use crate::database::table::spill::spill_mem_segments;
use crate::database::table::state::TableState;
use crate::error::{Error, Result};
use crate::files::{FailedStep, Failure, RewriteScope, WaitMode};
use crate::segment::MemSegmentBytes;
use crate::snapshot::SegmentFile;

/// The time for which a memtable that could not be flushed is left alone unless space is needed:
/// the cause rarely disappears sooner, and each attempt may read a file of symbols.
const RETRY_NANOS: u64 = 10_000_000_000;

/// The result of an attempt to free memory.
enum MemoryAttempt {
    Freed,
    /// Another thread flushes.
    Awaited,
    /// Only these tables have rows in memory, and they cannot be flushed.
    Unflushable(Vec<Arc<TableState>>),
}

impl Maintenance<'_> {
    /// Waits, or flushes, until this many bytes of in-memory segments fit into memory
    /// (table_budget-2).
    pub(crate) fn make_room(&self, bytes: u64) -> Result<()> {
        if self.database.log_bytes() > self.database.options.log.bytes_max / 2 {
            let shortened = self.shorten_log();
            if self.database.log_bytes() > self.database.options.log.bytes_max {
                shortened?;
            }
        }
        loop {
            let turn = self.database.memtable_budget.turn();
            if self.database.memtable_budget.has_room_for(bytes) {
                return Ok(());
            }
            match self.free_memory()? {
                MemoryAttempt::Freed => {}
                MemoryAttempt::Awaited => self.database.memtable_budget.wait(turn),
                MemoryAttempt::Unflushable(tables) => {
                    if !self.spill_memtables(&tables)? {
                        // The rest of their memory is not used by in-memory segments.
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Flushes the memtable that frees the most memory, of those that can be flushed
    /// (maintenance_memory-1).
    fn free_memory(&self) -> Result<MemoryAttempt> {
        let mut tables = self.database.table_states();
        tables.retain(|table| !table.memtable.is_empty());
        tables.sort_by_key(|table| {
            (table.directory.failure().is_some(), Reverse(table.memtable.memory_bytes()))
        });
        let (mut unflushable, mut is_awaited) = (Vec::new(), false);
        for table in tables {
            match settled(self.flush(table.id(), WaitMode::Try)) {
                Ok(Attempt::Done) => return Ok(MemoryAttempt::Freed),
                Ok(Attempt::Busy) => is_awaited = true,
                Ok(Attempt::Idle) => {}
                Err(error) if error.is_of_log() => return Err(error),
                Err(error) => {
                    self.unflushed(&table, error);
                    unflushable.push(table);
                }
            }
        }
        Ok(if is_awaited {
            MemoryAttempt::Awaited
        } else {
            MemoryAttempt::Unflushable(unflushable)
        })
    }

    /// Checks that the tables for these rows can be flushed, if a flush or manifest has failed
    /// before.
    pub(crate) fn check_flushed(&self, tables: &[Arc<TableState>]) -> Result<()> {
        if !self.database.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        for table in tables {
            if let Some(failure) = table.directory.failure() {
                let flushed = settled(self.flush(table.id(), WaitMode::Wait));
                if let Err(error) = flushed {
                    self.unflushed(table, error);
                } else {
                    // There may be nothing left to flush.
                    table.directory.note_done(FailedStep::Flush);
                }
                if failure.step == FailedStep::Manifest {
                    // The checkpoint records its result.
                    let _ = self.database.checkpointer().checkpoint();
                }
            }
        }
        self.check_not_failed(tables)
    }

    /// Checks that no flush or manifest of the tables for these rows has failed.
    pub(crate) fn check_not_failed(&self, tables: &[Arc<TableState>]) -> Result<()> {
        if !self.database.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        for table in tables {
            if let Some(Failure { error, .. }) = table.directory.failure() {
                return Err(Error::NotFlushed { table: table.name.clone(), source: error });
            }
        }
        Ok(())
    }

    /// Records that a memtable cannot be flushed (maintenance_memory-3), and adds the table to the
    /// error.
    pub(crate) fn unflushed(&self, table: &TableState, error: Error) -> Error {
        if error.is_of_log() {
            return error;
        }
        let source = Arc::new(error);
        self.note_failure(table, FailedStep::Flush, &source);
        Error::NotFlushed { table: table.name.clone(), source }
    }

    pub(crate) fn note_failure(&self, table: &TableState, step: FailedStep, error: &Arc<Error>) {
        let (error, at_nanos) = (Arc::clone(error), self.database.options.clock.monotonic_nanos());
        table.directory.note_failure(Failure { error, step, at_nanos });
        self.database.has_failed.store(true, Ordering::Release);
    }

    /// Returns true if a table has failed so recently that it is not tried again.
    pub(crate) fn has_failed_lately(&self, table: &TableState) -> bool {
        let now = self.database.options.clock.monotonic_nanos();
        let failure = table.directory.failure();
        failure.is_some_and(|failure| now.saturating_sub(failure.at_nanos) < RETRY_NANOS)
    }

    /// Flushes tables, each as far as possible; returns the error of one that could not be flushed.
    pub(crate) fn flush_tables(&self, tables: &[TableId]) -> Result<()> {
        let failed = Mutex::new(None);
        self.database.segment_sync().several_at_a_time(tables.len(), &|at| {
            let Some(table) = self.database.table_state(tables[at]) else { return Ok(()) };
            match self.flush_until_done(table.id()) {
                Err(error) if !error.is_of_log() => {
                    let error = self.unflushed(&table, error);
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    Ok(())
                }
                other => other,
            }
        })?;
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Flushes the memtables that keep the log from being purged, as far as possible. Returns false
    /// if there is no space for some of their rows.
    pub(crate) fn shorten_log(&self) -> Result<bool> {
        let tables: Vec<_> = self.database.table_states().iter().map(|table| table.id()).collect();
        let flushed = self.flush_tables(&tables);
        self.database.checkpointer().checkpoint_all()?;
        match flushed {
            Err(error) if error.is_of_log() => Err(error),
            Err(error) => Ok(!error.is_no_space()),
            Ok(()) => Ok(true),
        }
    }

    /// The same after an open, if many processes have left a log file each.
    pub(crate) fn shorten_log_of_many_files(&self) {
        let files = self.database.committer.log.lock().map_or(0, |log| log.file_count());
        if files > crate::database::LOG_FILES_MAX {
            // If this fails, the rows are in the log as before, and the next open tries again.
            let _ = self.shorten_log();
        }
    }

    /// Writes the in-memory segments of memtables into files; returns false if there were none in
    /// memory (maintenance_memory-2).
    fn spill_memtables(&self, tables: &[Arc<TableState>]) -> Result<bool> {
        let mut has_spilled = false;
        for table in tables {
            let Some(_lock) = table.directory.lock_runs(RewriteScope::Memtable, WaitMode::Wait)
            else {
                continue;
            };
            let Some(table) = self.database.table_state(table.id()) else { continue };
            if table.memtable.spillable_bytes() == 0 {
                continue;
            }
            let pairs = self.spill_memtable(&table)?;
            let request = Exchange { table: table.id(), name: table.name.clone(), pairs };
            match self.database.commit_all(CommitRequest::Exchange(request)) {
                Ok(_) => has_spilled = true,
                Err(commit_error) => drop(settled(Err(commit_error.error))?),
            }
        }
        Ok(has_spilled)
    }

    fn spill_memtable(
        &self,
        table: &TableState,
    ) -> Result<Vec<(Arc<MemtableRun>, Arc<MemtableRun>)>> {
        let number = self.database.next_import.fetch_add(1, Ordering::Relaxed);
        let path: PathBuf = self.database.paths.scratch().join(format!("spill-{number}"));
        let disk = self.database.guarded.as_ref();
        let made = disk.create_dir_all(&self.database.paths.scratch());
        let mapping = made
            .and_then(|()| spill_mem_segments(disk, &path, table.memtable.runs().iter()))
            .map_err(Error::disk("spill rows that cannot be flushed"))?;
        let mut start = 0;
        let in_memory = table.memtable.runs().iter().filter(|run| !run.is_spilled());
        let spilled = in_memory.map(|run| {
            let end = start + run.file.mem_segment().map_or(0, |mem_segment| mem_segment.len());
            let bytes = MemSegmentBytes::Spilled(mapping.clone(), start..end);
            start = end;
            let file = Arc::new(SegmentFile::of_mem_segment(table.id(), run.meta, bytes));
            let spilled = MemtableRun { meta: run.meta, file, origin: run.origin };
            (Arc::clone(run), Arc::new(spilled))
        });
        Ok(spilled.collect())
    }
}
