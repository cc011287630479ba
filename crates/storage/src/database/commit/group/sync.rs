//! Sync of the log: makes acknowledged commits durable, and delays the removal of files until then.
//!
//! - sync-1. One sync is in progress at a time, and commits continue meanwhile: the next sync
//!   covers them.
//! - sync-2. Files that a commit has made obsolete are removed when the commit is durable: until
//!   then a power loss may restore the state that needs them.
//!
//! Not here: the schedule of syncs, which is up to the owner of the database, and the meaning of a
//! failed sync (`wal::log`).

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::Lsn;

use super::Committer;
use crate::database::table::state::TableState;
use crate::error::{Error, Result};
use crate::manifest::Obsolete;
use crate::wal::Log;

/// The state of syncs.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    /// Locked during a sync (sync-1); before `log`, if both are needed.
    turn: Mutex<()>,
    /// Obsolete files in the order of their commits (sync-2).
    waiting: Mutex<VecDeque<(Lsn, Outdated)>>,
}

/// Files and tables that a group of commits has made obsolete.
#[derive(Debug)]
pub(crate) struct Outdated {
    /// Files, with the last version of the table that had them.
    files: Vec<(Arc<TableState>, Obsolete)>,
    dropped: Vec<Arc<TableState>>,
}

impl Outdated {
    pub(crate) fn new(
        files: Vec<(Arc<TableState>, Obsolete)>,
        dropped: Vec<Arc<TableState>>,
    ) -> Outdated {
        Outdated { files, dropped }
    }

    /// Removes them: no durable state needs them any more.
    fn discard(self) {
        for (table, obsolete) in &self.files {
            table.discard(obsolete);
        }
        for table in &self.dropped {
            table.discard_all();
        }
    }
}

impl Committer {
    /// Makes everything durable that was acknowledged.
    pub(crate) fn sync(&self) -> Result<()> {
        let _turn = lock(&self.syncs.turn);
        let mut log = self.log.lock().map_err(|_| Error::CommitterPanicked)?;
        let synced = match log.begin_sync() {
            Ok(Some(sync)) => {
                drop(log);
                let outcome = sync.sync();
                log = self.log.lock().map_err(|_| Error::CommitterPanicked)?;
                log.end_sync(&sync, outcome)
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        self.note_log(&log);
        drop(log);
        self.discard_durable();
        synced
    }

    /// Bytes of the log that were acknowledged and are not durable.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.published().lsn.0.saturating_sub(self.durable_lsn.load(Ordering::Acquire))
    }

    /// The position up to which everything is on disk.
    pub(crate) fn durable_lsn(&self) -> u64 {
        self.durable_lsn.load(Ordering::Acquire)
    }

    /// Returns true if the log cannot be written to.
    pub(crate) fn is_log_broken(&self) -> bool {
        self.is_log_broken.load(Ordering::Acquire)
    }

    pub(crate) fn note_log(&self, log: &Log) {
        self.durable_lsn.store(log.durable().0, Ordering::Release);
        self.is_log_broken.store(log.is_broken(), Ordering::Release);
    }

    /// Removes the files that a commit that ends at `lsn` has made obsolete, or keeps them until
    /// the commit is durable (sync-2).
    pub(super) fn discard_when_durable(&self, lsn: Lsn, outdated: Outdated) {
        if outdated.files.is_empty() && outdated.dropped.is_empty() {
            return;
        }
        if lsn.0 <= self.durable_lsn.load(Ordering::Acquire) {
            outdated.discard();
        } else {
            lock(&self.syncs.waiting).push_back((lsn, outdated));
        }
    }

    fn discard_durable(&self) {
        let durable = self.durable_lsn.load(Ordering::Acquire);
        let mut waiting = lock(&self.syncs.waiting);
        let count = waiting.partition_point(|(lsn, _)| lsn.0 <= durable);
        let later = waiting.split_off(count);
        let done = mem::replace(&mut *waiting, later);
        drop(waiting);
        done.into_iter().for_each(|(_, outdated)| outdated.discard());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Only whole values are stored behind these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
