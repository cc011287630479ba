//! Room in memory and in the log: memtables are flushed for it, and where one cannot be, it alone
//! pays for that.
//!
//! - RL1. A table whose memtable cannot be flushed, or whose manifest cannot be written, fails no
//!   write to another one. It takes no rows itself until that can be done; the first write to try
//!   tries that first.
//! - RL2. Its images leave the memory for a file in scratch when no other table can give room.
//!   Its records of the log are kept aside when the log has to be purged (`carry`).
//! - RL3. What fails because there is no log says nothing about a table.
//!
//! Not here: when memtables are flushed without need (`upkeep`).

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::TableId;

use super::Database;
use super::append::TableAppend;
use super::folder::{FailedStep, Failure, Patience, RunsOf};
use super::memtables::spill_images;
use super::plan::{Exchange, Wish};
use super::table::TableState;
use super::tail::TailRun;
use super::upkeep::{Attempt, settled};
use crate::error::{Error, Result};
use crate::segment::ImageBytes;
use crate::snapshot::SegmentFile;

/// The time for which a memtable that could not be flushed is left alone unless room is needed:
/// whatever keeps it from that is rarely gone sooner, and each attempt may read a file of symbols.
const RETRY_NANOS: u64 = 10_000_000_000;

/// The result of asking all tables for room.
enum Room {
    Given,
    /// Another thread flushes.
    Awaited,
    /// Nothing can be flushed but these tables, which cannot.
    Kept(Vec<Arc<TableState>>),
}

impl Database {
    /// Waits, or helps, until so many bytes of images have room in memory (BU2).
    pub(super) fn make_room(&self, bytes: u64) -> Result<()> {
        if self.log_bytes() > self.options.log.bytes_max / 2 {
            let shortened = self.shorten_log();
            if self.log_bytes() > self.options.log.bytes_max {
                shortened?;
            }
        }
        loop {
            let turn = self.tails.turn();
            if self.tails.has_room_for(bytes) {
                return Ok(());
            }
            match self.give_room()? {
                Room::Given => {}
                Room::Awaited => self.tails.wait(turn),
                Room::Kept(tables) => {
                    if !self.spill_tails(&tables)? {
                        // What is left of them are not rows.
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Flushes the memtable that gives the most memory back, of those that can be flushed (RL1).
    fn give_room(&self) -> Result<Room> {
        let mut tables = self.table_states();
        tables.retain(|table| !table.tail.is_empty());
        tables.sort_by_key(|table| {
            (table.folder.failure().is_some(), Reverse(table.tail.memory_bytes()))
        });
        let (mut kept, mut is_awaited) = (Vec::new(), false);
        for table in tables {
            match settled(self.seal(table.id(), Patience::Try)) {
                Ok(Attempt::Done) => return Ok(Room::Given),
                Ok(Attempt::Busy) => is_awaited = true,
                Ok(Attempt::Idle) => {}
                Err(error) if error.is_of_log() => return Err(error),
                Err(error) => {
                    self.unflushed(&table, error);
                    kept.push(table);
                }
            }
        }
        Ok(if is_awaited { Room::Awaited } else { Room::Kept(kept) })
    }

    /// Checks that tables can be flushed that rows are for, if one could not be the last time.
    pub(super) fn check_flushed(&self, appends: &[TableAppend]) -> Result<()> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        for table in self.targets(appends) {
            if let Some(failure) = table.folder.failure() {
                let sealed = settled(self.seal(table.id(), Patience::Wait));
                if let Err(error) = sealed {
                    self.unflushed(&table, error);
                } else {
                    // There may be nothing left to flush.
                    table.folder.note_done(FailedStep::Flush);
                }
                if failure.step == FailedStep::Manifest {
                    // It notes what comes of it.
                    let _ = self.checkpoint();
                }
            }
        }
        self.check_not_failed(appends)
    }

    /// Checks that none of the tables that rows are for has failed to be flushed.
    pub(super) fn check_not_failed(&self, appends: &[TableAppend]) -> Result<()> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        for table in self.targets(appends) {
            if let Some(Failure { error, .. }) = table.folder.failure() {
                return Err(Error::NotFlushed { table: table.name.clone(), source: error });
            }
        }
        Ok(())
    }

    fn targets(&self, appends: &[TableAppend]) -> Vec<Arc<TableState>> {
        let published = self.published();
        let known = |append: &TableAppend| match append.id {
            Some(id) => published.tables.by_id.get(&id).map(Arc::clone),
            None => published.tables.find(&append.table).map(Arc::clone),
        };
        appends.iter().filter_map(known).collect()
    }

    /// Takes note that a memtable cannot be flushed (RL3), and says whose it is.
    pub(super) fn unflushed(&self, table: &TableState, error: Error) -> Error {
        if error.is_of_log() {
            return error;
        }
        let source = Arc::new(error);
        self.note_failure(table, FailedStep::Flush, &source);
        Error::NotFlushed { table: table.name.clone(), source }
    }

    pub(super) fn note_failure(&self, table: &TableState, step: FailedStep, error: &Arc<Error>) {
        let (error, at_nanos) = (Arc::clone(error), self.options.clock.monotonic_nanos());
        table.folder.note_failure(Failure { error, step, at_nanos });
        self.has_failed.store(true, Ordering::Release);
    }

    /// True if a table is not to be tried again before time has passed.
    pub(super) fn has_failed_lately(&self, table: &TableState) -> bool {
        let now = self.options.clock.monotonic_nanos();
        let failure = table.folder.failure();
        failure.is_some_and(|failure| now.saturating_sub(failure.at_nanos) < RETRY_NANOS)
    }

    /// Seals tables, each as far as it can be; the error is that of one that could not.
    pub(super) fn seal_tables(&self, tables: &[TableId]) -> Result<()> {
        let failed = Mutex::new(None);
        self.several_at_a_time(tables.len(), &|at| {
            let Some(table) = self.table_state(tables[at]) else { return Ok(()) };
            match self.seal_until_done(table.id()) {
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

    /// Seals the tails that keep the log from being purged, as far as that can be done.
    pub(super) fn shorten_log(&self) -> Result<()> {
        let tables: Vec<_> = self.table_states().iter().map(|table| table.id()).collect();
        let sealed = self.seal_tables(&tables);
        self.checkpoint_all()?;
        match sealed {
            Err(error) if error.is_of_log() => Err(error),
            _ => Ok(()),
        }
    }

    /// The same after an open, if many processes have left a file each.
    pub(super) fn shorten_log_of_many_files(&self) {
        let files = self.log.lock().map_or(0, |log| log.file_count());
        if files > super::LOG_FILES_MAX {
            // If that fails, the rows are in the log as before, and the next open tries again.
            let _ = self.shorten_log();
        }
    }

    /// Puts the images of tails into files; returns false if there were none in memory (RL2).
    fn spill_tails(&self, tables: &[Arc<TableState>]) -> Result<bool> {
        let mut has_spilled = false;
        for table in tables {
            let Some(_held) = table.folder.hold(RunsOf::Tail, Patience::Wait) else { continue };
            let Some(table) = self.table_state(table.id()) else { continue };
            if table.tail.spillable_bytes() == 0 {
                continue;
            }
            let pairs = self.spill_tail(&table)?;
            let wish = Exchange { table: table.id(), name: table.name.clone(), pairs };
            match self.commit_all(Wish::Exchange(wish)) {
                Ok(_) => has_spilled = true,
                Err(refusal) => drop(settled(Err(refusal.error))?),
            }
        }
        Ok(has_spilled)
    }

    fn spill_tail(&self, table: &TableState) -> Result<Vec<(Arc<TailRun>, Arc<TailRun>)>> {
        let number = self.next_import.fetch_add(1, Ordering::Relaxed);
        let path: PathBuf = self.paths.scratch().join(format!("spill-{number}"));
        let disk = self.guarded.as_ref();
        let made = disk.create_dir_all(&self.paths.scratch());
        let mapping = made
            .and_then(|()| spill_images(disk, &path, table.tail.runs().iter()))
            .map_err(Error::disk("spill rows that cannot be flushed"))?;
        let mut start = 0;
        let in_memory = table.tail.runs().iter().filter(|run| !run.is_spilled());
        let spilled = in_memory.map(|run| {
            let end = start + run.file.image().map_or(0, |image| image.len());
            let bytes = ImageBytes::Spilled(mapping.clone(), start..end);
            start = end;
            let file = Arc::new(SegmentFile::of_image(table.id(), run.meta, bytes));
            let spilled = TailRun { meta: run.meta, file, origin: run.origin };
            (Arc::clone(run), Arc::new(spilled))
        });
        Ok(spilled.collect())
    }
}
