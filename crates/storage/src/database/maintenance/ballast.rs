//! Ballast: a file in `scratch` that reserves disk space. It is removed when the disk is full, so
//! that operations that free space can be done.
//!
//! - ballast-1. Rows are accepted while the ballast exists. Without it they are refused, so that
//!   its space is left to flushes, checkpoints, and statements that drop something.
//! - ballast-2. The first write that fails for lack of space removes it, and is repeated unless it
//!   writes rows. From then on maintenance flushes all memtables and purges the log, and creates
//!   the ballast again once they are flushed and it fits.
//! - ballast-3. Opening empties `scratch`: after a process was killed on a full disk, the next one
//!   has that space when it starts.
//!
//! Not here: space for small groups in the log itself (`wal::log`, wal_log-1).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tidegate_model::Lsn;
use tidegate_platform::{Disk, OpenMode};

use crate::database::maintenance::Maintenance;
use crate::error::{Error, Result};

/// The time for which maintenance waits on a full disk before it flushes for space again, and tries
/// to create the ballast: each attempt may write segments, and writers wait for one that succeeds.
const RETRY_NANOS: u64 = 2_000_000_000;

/// The state of the ballast file.
#[derive(Debug)]
pub(crate) struct Ballast {
    path: PathBuf,
    /// The size of the file; 0 if there is to be none.
    bytes: u64,
    /// True if the file exists. Locked while it is created or removed.
    is_there: Mutex<bool>,
    /// True if the file should exist, but there is no space for it.
    is_short: AtomicBool,
    /// The monotonic time of the last attempt to free space.
    tried_nanos: AtomicU64,
}

impl Ballast {
    pub(crate) fn new(path: PathBuf, bytes: u64) -> Ballast {
        Ballast {
            path,
            bytes,
            is_there: Mutex::new(false),
            is_short: AtomicBool::new(false),
            tried_nanos: AtomicU64::new(0),
        }
    }

    /// Creates the file if it does not exist. If that fails for another reason than space, the
    /// database continues without it.
    fn make(&self, disk: &dyn Disk) {
        let mut is_there = self.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_there || self.bytes == 0 {
            return;
        }
        let dir = self.path.parent().expect("it is in the directory of the database");
        let made = disk
            .create_dir_all(dir)
            .and_then(|()| disk.open(&self.path, OpenMode::CreateOrTruncate)?.allocate(self.bytes));
        *is_there = made.is_ok();
        if made.is_err() {
            let _ = disk.remove(&self.path);
        }
        let is_short = made.is_err_and(|error| error.is_no_space());
        self.is_short.store(is_short, Ordering::Release);
    }

    /// Removes the file when the database is closed. A process that was killed leaves it
    /// (ballast-3).
    pub(crate) fn remove(&self, disk: &dyn Disk) {
        let mut is_there = self.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *is_there) {
            let _ = disk.remove(&self.path);
        }
    }

    /// Removes the file (ballast-2); returns true if that has freed space.
    fn release(&self, disk: &dyn Disk) -> bool {
        let mut is_there = self.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bytes > 0 {
            self.is_short.store(true, Ordering::Release);
        }
        let was_there = std::mem::take(&mut *is_there);
        was_there && disk.remove(&self.path).is_ok()
    }

    /// Returns true if there is no space for the file.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Acquire)
    }
}

impl Maintenance<'_> {
    /// Records an error of a write. Returns true if there may be space for it now.
    pub(crate) fn may_have_space_after(&self, error: &Error) -> bool {
        error.is_no_space() && self.database.ballast.release(self.database.guarded.as_ref())
    }

    /// Runs a write, and repeats it if there was no space and the ballast provides some.
    pub(crate) fn with_ballast<T>(&self, write: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        match write() {
            Err(error) if self.may_have_space_after(&error) => write(),
            done => done,
        }
    }

    /// Creates the ballast, or records that the disk is full.
    pub(crate) fn make_ballast(&self) {
        self.database.ballast.make(self.database.guarded.as_ref());
    }

    /// Checks that the disk has room for rows (ballast-1).
    pub(crate) fn check_space(&self) -> Result<()> {
        if self.database.is_short_of_space() {
            let (dir, bytes) = (self.database.dir().to_path_buf(), self.database.ballast.bytes);
            return Err(Error::DiskFull { dir, bytes });
        }
        Ok(())
    }

    /// Frees space as far as possible: rows take less of it in segments than in the log, and the
    /// newest log file, which is never purged, may be long.
    pub(crate) fn free_space(&self) -> Result<()> {
        if !self.database.is_short_of_space() {
            return Ok(());
        }
        let (now, tried) =
            (self.database.options.clock.monotonic_nanos(), &self.database.ballast.tried_nanos);
        let last = tried.load(Ordering::Acquire);
        if last > 0 && now.saturating_sub(last) < RETRY_NANOS {
            return Ok(());
        }
        tried.store(now, Ordering::Release);
        let flushed = self.shorten_log();
        let is_flushed = flushed.as_ref().map_or_else(|error| !error.is_no_space(), |all| *all);
        let freed = flushed.and_then(|_| {
            let needed = Lsn(self.database.checkpoint_lsn.load(Ordering::Acquire));
            let mut log =
                self.database.committer.log.lock().map_err(|_| Error::CommitterPanicked)?;
            let begun = log.begin_file();
            self.database.committer.note_log(&log);
            begun.and_then(|()| log.purge(needed))
        });
        // The remaining space is left to flushes, even if the ballast is small: otherwise rows
        // would be accepted again, and nothing could be dropped.
        if is_flushed {
            self.make_ballast();
        }
        freed
    }
}
