//! The fsync guard: a disk that remembers failed syncs of directories.
//!
//! - fsync_guard-1. Once a sync of a directory has failed, all later syncs of it fail: names that
//!   were waiting for it may be lost in the next power loss although every process sees them, and a
//!   later sync would report success.
//! - fsync_guard-2. Only a failure of the sync itself counts. If the directory could not be opened,
//!   for lack of file descriptors or memory, nothing was tried, nothing is lost, and the next sync
//!   may succeed.
//! - fsync_guard-3. Nothing is created, renamed or removed once the directory of the database was
//!   moved: its path may lead to another database, or to none.
//!
//! File systems with a journal stop working in this case anyway. Files need no such memory: a
//! file whose sync has failed is removed or written anew. The directory of the log is exempt: each
//! attempt to start a log file writes the name anew, and no other code writes names there. The
//! durable state cannot be distinguished from the one that a restart finds; the machine must be
//! repaired.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tidegate_platform::{DirEntry, DirLock, Disk, DiskFile, Error, OpenMode, Result};

/// The disk of a database, through which everything durable is written.
#[derive(Debug)]
pub(crate) struct FsyncGuard {
    inner: Arc<dyn Disk>,
    exempt: PathBuf,
    /// Directories of which a sync has failed, at most those of the database.
    failed_dirs: Mutex<BTreeSet<PathBuf>>,
    /// The lock of the directory, set once. It is weak because snapshots outlive the database.
    home: OnceLock<Weak<dyn DirLock>>,
}

impl FsyncGuard {
    /// Remembers failures for all directories except `exempt`.
    pub(crate) fn new(inner: Arc<dyn Disk>, exempt: PathBuf) -> FsyncGuard {
        FsyncGuard { inner, exempt, failed_dirs: Mutex::default(), home: OnceLock::new() }
    }

    /// Requires from now on that the locked directory is in its place (fsync_guard-3).
    pub(crate) fn require_home(&self, home: &Arc<dyn DirLock>) {
        self.home.get_or_init(|| Arc::downgrade(home));
    }

    /// Checks fsync_guard-3 before a name is created or removed.
    fn check_home(&self) -> Result<()> {
        match self.home.get().and_then(Weak::upgrade) {
            Some(home) if !home.is_in_place() => Err(Error::Io {
                call: "stat",
                path: home.path().to_path_buf(),
                source: std::io::Error::other("the directory was moved or replaced"),
            }),
            _ => Ok(()),
        }
    }
}

impl Disk for FsyncGuard {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>> {
        if mode != OpenMode::Read {
            self.check_home()?;
        }
        self.inner.open(path, mode)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }

    fn length(&self, path: &Path) -> Result<Option<u64>> {
        self.inner.length(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.check_home()?;
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.check_home()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.check_home()?;
        self.inner.remove(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> Result<()> {
        self.check_home()?;
        self.inner.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        if dir == self.exempt {
            return self.inner.sync_dir(dir);
        }
        let has_failed = |dir: &Path| self.failed_dirs().contains(dir);
        let earlier_failure = || Error::Io {
            call: "fsync",
            path: dir.to_path_buf(),
            source: std::io::Error::other("an earlier sync of this directory has failed"),
        };
        if has_failed(dir) {
            return Err(earlier_failure());
        }
        if let Err(error) = self.inner.sync_dir(dir) {
            // fsync_guard-2.
            if error.is_failed_sync() {
                self.failed_dirs().insert(dir.to_path_buf());
            }
            return Err(error);
        }
        // A concurrent failure may have been about names that this sync was to make durable.
        if has_failed(dir) { Err(earlier_failure()) } else { Ok(()) }
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.inner.lock(path)
    }

    fn lock_with_folder(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.inner.lock_with_folder(path)
    }

    fn lock_existing(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.inner.lock_existing(path)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.inner.read(path)
    }
}

impl FsyncGuard {
    fn failed_dirs(&self) -> std::sync::MutexGuard<'_, BTreeSet<PathBuf>> {
        self.failed_dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_platform::{SimCall, SimDisk, SimErrno};

    use super::*;

    #[test]
    fn a_directory_whose_sync_has_failed_is_not_synced_again() {
        let sim = SimDisk::new(1);
        let disk = FsyncGuard::new(Arc::new(sim.clone()), PathBuf::from("/log"));
        for dir in ["/a", "/b", "/log"] {
            disk.create_dir_all(Path::new(dir)).unwrap();
        }
        let sync = |dir: &str| disk.sync_dir(Path::new(dir)).is_ok();
        for dir in ["/a", "/log"] {
            sim.fail_sync_at(1);
            assert!(!sync(dir));
        }
        assert!(!sync("/a"), "fsync_guard-1");
        assert!(sync("/b") && sync("/log"));
        assert!(disk.sync_dir(Path::new("/none")).is_err());
    }

    // While the process had no file descriptor left, the directory of a partition could not be
    // opened for its sync. That counted as a failed sync, so every later DELETE and UPDATE of the
    // partition was refused until a restart, although nothing had been lost.
    #[test]
    fn a_directory_that_could_not_be_opened_is_synced_later() {
        let sim = SimDisk::new(1);
        let disk = FsyncGuard::new(Arc::new(sim.clone()), PathBuf::from("/log"));
        let dir = Path::new("/a");
        disk.create_dir_all(dir).unwrap();
        for errno in SimErrno::ALL {
            sim.fail_call_at(SimCall::Open, 1, errno, false);
            assert!(disk.sync_dir(dir).is_err());
            disk.sync_dir(dir)
                .unwrap_or_else(|error| panic!("fsync_guard-2: {errno:?}: {error:?}"));
        }
        sim.fail_call_at(SimCall::SyncDir, 1, SimErrno::Io, false);
        assert!(disk.sync_dir(dir).is_err() && disk.sync_dir(dir).is_err(), "fsync_guard-1");
    }
}
