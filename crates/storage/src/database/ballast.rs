//! Ballast: a file in `scratch` that is given up when the disk is full, so that what frees space
//! has room to work.
//!
//! - BA1. Rows are taken while the ballast is there. Without it they are refused, so that its room
//!   is left to flushes, checkpoints, and statements that drop something.
//! - BA2. The first write that finds no space gives it up, and is done again unless it brings rows.
//!   From then on maintenance flushes all memtables and purges the log, and makes it again once it
//!   fits.
//! - BA3. Opening empties `scratch`: where a process was killed, the next one has that room on a
//!   full disk to begin with.
//!
//! Not here: room for small groups in the log itself (`wal::log`, W8).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tidegate_model::Lsn;
use tidegate_platform::{Disk, OpenMode};

use super::Database;
use crate::error::{Error, Result};

/// The time for which maintenance leaves a full disk alone before it flushes for space again, and
/// tries to make the ballast: each attempt may write segments, and writers wait for one that
/// succeeds.
const RETRY_NANOS: u64 = 2_000_000_000;

/// The file, if it is to be one.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
    /// 0 if there is to be none.
    bytes: u64,
    /// True if the file is there. Held while it is made or removed.
    is_there: Mutex<bool>,
    /// True if it should be there, and there is no space for it.
    is_short: AtomicBool,
    /// The monotonic time of the last attempt to free space.
    tried_nanos: AtomicU64,
}

impl Ballast {
    pub(super) fn new(path: PathBuf, bytes: u64) -> Ballast {
        Ballast {
            path,
            bytes,
            is_there: Mutex::new(false),
            is_short: AtomicBool::new(false),
            tried_nanos: AtomicU64::new(0),
        }
    }

    /// Makes the file if it is not there. Where it cannot be made for another reason than space,
    /// the database goes on without.
    fn make(&self, disk: &dyn Disk) {
        let mut is_there = self.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_there || self.bytes == 0 {
            return;
        }
        let dir = self.path.parent().expect("it is in the folder of the database");
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

    /// Removes the file when the database is closed. A process that was killed leaves it (BA3).
    pub(super) fn remove(&self, disk: &dyn Disk) {
        let mut is_there = self.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *is_there) {
            let _ = disk.remove(&self.path);
        }
    }

    /// Removes the file (BA2); true if that has freed space.
    fn give_up(&self, disk: &dyn Disk) -> bool {
        let mut is_there = self.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bytes > 0 {
            self.is_short.store(true, Ordering::Release);
        }
        let was_there = std::mem::take(&mut *is_there);
        was_there && disk.remove(&self.path).is_ok()
    }
}

impl Database {
    /// True if the disk is full: rows are refused, and what frees space has the ballast's room.
    #[must_use]
    pub fn is_short_of_space(&self) -> bool {
        self.ballast.is_short.load(Ordering::Acquire)
    }

    /// Takes note of an error of a write. True if there may be space for it now.
    pub(super) fn may_have_space_after(&self, error: &Error) -> bool {
        error.is_no_space() && self.ballast.give_up(self.guarded.as_ref())
    }

    /// Does something that writes, once more if there was no space and the ballast gives some.
    pub(super) fn with_ballast<T>(&self, write: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        match write() {
            Err(error) if self.may_have_space_after(&error) => write(),
            done => done,
        }
    }

    /// Makes the ballast, or finds the disk full.
    pub(super) fn make_ballast(&self) {
        self.ballast.make(self.guarded.as_ref());
    }

    /// Checks that the disk has room for rows (BA1).
    pub(super) fn check_space(&self) -> Result<()> {
        if self.is_short_of_space() {
            let (dir, bytes) = (self.dir().to_path_buf(), self.ballast.bytes);
            return Err(Error::DiskFull { dir, bytes });
        }
        Ok(())
    }

    /// Frees space as far as that can be done: rows take less of it in segments than in the log,
    /// and the newest file of that, which is never purged, may be long.
    pub(super) fn free_space(&self) -> Result<()> {
        if !self.is_short_of_space() {
            return Ok(());
        }
        let (now, tried) = (self.options.clock.monotonic_nanos(), &self.ballast.tried_nanos);
        let last = tried.load(Ordering::Acquire);
        if last > 0 && now.saturating_sub(last) < RETRY_NANOS {
            return Ok(());
        }
        tried.store(now, Ordering::Release);
        let freed = self.shorten_log().and_then(|()| {
            let needed = Lsn(self.checkpoint_lsn.load(Ordering::Acquire));
            let mut log = self.log.lock().map_err(|_| Error::CommitterPanicked)?;
            let begun = log.begin_file();
            self.note_log(&log);
            begun.and_then(|()| log.purge(needed))
        });
        self.make_ballast();
        freed
    }
}
