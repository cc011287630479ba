//! A disk in memory that fails on demand and forgets, as far as a disk may, what was not synced.
//!
//! - S1. What `sync_data` and `sync_dir` covered is on every disk that `after_power_loss` returns.
//! - S2. Of everything else, each write, each change of a length and each change of a folder is
//!   there or not, whatever came before or after it, and a write may be there in part. What cannot
//!   be is a sector of 512 bytes that never was: one that survives carries what it held then.
//! - S3. The same calls with the same seed give the same disk.
//!
//! What a file holds is in `sim/content.rs`, what becomes of its bytes in `sim/file.rs`, and what
//! becomes of names in `sim/tree.rs`. Not here: time. Nothing takes any.

mod content;
mod file;
mod random;
mod tree;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::file::SimBytes;
use self::random::Random;
use self::tree::{NodeId, Tree, os_error};
use crate::{
    DirEntry, DirLock, Disk, DiskFile, Error, FileStamp, Mapping, OpenMode, Result, usize_of,
};

/// A simulated disk. A clone is the same disk.
///
/// Relative paths begin at the root. Nothing is sparse: every file takes as much space as it is
/// long.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    seed: u64,
    tree: Tree,
    locks: BTreeSet<NodeId>,
    random: Random,
    has_crashed: bool,
    syncs: Fault,
    crash_at_sync: Option<u64>,
    writes: Fault,
    capacity_bytes: Option<u64>,
    interruption: Option<Interruption>,
}

/// What is to be done before a file is opened in this mode whose path ends so.
struct Interruption {
    mode: OpenMode,
    end: String,
    action: Box<dyn FnOnce() + Send>,
}

/// Counts what happens, and knows which of it is to fail.
#[derive(Debug, Default)]
struct Fault {
    count: u64,
    fails_at: Option<u64>,
}

impl SimDisk {
    /// An empty disk without limits. `seed` decides what every chance on it comes to (S3).
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::holding(Tree::new(), seed)
    }

    fn holding(tree: Tree, seed: u64) -> SimDisk {
        let state = State {
            seed,
            tree,
            locks: BTreeSet::new(),
            random: Random::new(seed),
            has_crashed: false,
            syncs: Fault::default(),
            crash_at_sync: None,
            writes: Fault::default(),
            capacity_bytes: None,
            interruption: None,
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Loses power instead of doing the `nth` sync from now, of files and folders alike: that
    /// call and all after it fail with [`Error::Crashed`]. 1 is the next sync; 0 is right now.
    pub fn crash_at_sync(&self, nth: u64) {
        let mut state = self.lock_state();
        state.has_crashed |= nth == 0;
        state.crash_at_sync = Some(state.syncs.count + nth);
    }

    /// Lets the `nth` sync from now fail with EIO, once. 1 is the next sync; 0 takes it back.
    ///
    /// What that sync was to make durable is then lost or not, by chance, and no later sync makes
    /// up for it, though reading shows it until the power is lost.
    pub fn fail_sync_at(&self, nth: u64) {
        self.lock_state().syncs.fail_at(nth);
    }

    /// Lets the `nth` write from now fail with EIO, once, after some part of it was written.
    /// 1 is the next write; 0 takes it back.
    pub fn fail_write_at(&self, nth: u64) {
        self.lock_state().writes.fail_at(nth);
    }

    /// Limits the bytes of all files together; what goes beyond fails with ENOSPC, after as much
    /// was written as fits.
    pub fn set_capacity(&self, bytes: u64) {
        self.lock_state().capacity_bytes = Some(bytes);
    }

    /// Does something right before the next file is opened in this mode whose path ends so, once:
    /// what somebody else may do at that moment. It may use the disk.
    pub fn before_open(&self, mode: OpenMode, end: &str, action: impl FnOnce() + Send + 'static) {
        let interruption = Interruption { mode, end: end.to_owned(), action: Box::new(action) };
        // Dropped without the lock, since it may use the disk.
        let _before = self.lock_state().interruption.replace(interruption);
    }

    /// How many syncs of files and folders there were so far.
    pub fn syncs(&self) -> u64 {
        self.lock_state().syncs.count
    }

    /// What the disk might hold if the power failed now (S1, S2): another disk, without faults,
    /// locks and limits, on which everything is durable. This one stays as it is.
    ///
    /// Asked twice, it answers the same (S3); [`after_power_loss_by`](Self::after_power_loss_by)
    /// gives other answers.
    pub fn after_power_loss(&self) -> SimDisk {
        let seed = self.lock_state().seed;
        self.after_power_loss_by(seed)
    }

    /// As [`after_power_loss`](Self::after_power_loss), with another seed for what survives.
    pub fn after_power_loss_by(&self, seed: u64) -> SimDisk {
        let mut random = Random::new(seed);
        let tree = self.lock_state().tree.after_power_loss(&mut random);
        SimDisk::holding(tree, random.next())
    }

    /// Turns bits of one byte over, for good, where `xor` has ones.
    ///
    /// # Panics
    /// If there is no such file, or no such byte in it.
    pub fn corrupt(&self, path: &Path, offset: u64, xor: u8) {
        let mut state = self.lock_state();
        let id = state.tree.file_at(path).expect("the file to corrupt exists");
        state.tree.bytes_mut(id).corrupt(offset, xor);
    }

    /// Cuts a file, for good, as if it had always been so short.
    ///
    /// # Panics
    /// If there is no such file, or it is shorter.
    pub fn truncate(&self, path: &Path, bytes: u64) {
        let mut state = self.lock_state();
        let id = state.tree.file_at(path).expect("the file to truncate exists");
        state.tree.bytes_mut(id).truncate(bytes);
    }

    /// All files with their lengths, sorted by path; paths begin at the root.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        self.lock_state().tree.files()
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere is no reason to hide what the disk holds.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is to be done before this file is opened.
    fn interrupt(&self, path: &Path, mode: OpenMode) {
        let is_due =
            |due: &mut Interruption| due.mode == mode && path.to_string_lossy().ends_with(&due.end);
        // Without the lock, since it may use the disk.
        let due = self.lock_state().interruption.take_if(is_due);
        if let Some(Interruption { action, .. }) = due {
            action();
        }
    }

    /// Does something that fails without power, also if it is lost in doing so.
    fn call<T>(
        &self,
        call: &'static str,
        path: &Path,
        action: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T> {
        let mut state = self.lock_state();
        let crashed = || Err(Error::Crashed { call, path: path.to_path_buf() });
        if state.has_crashed {
            return crashed();
        }
        let outcome = action(&mut state);
        if state.has_crashed {
            return crashed();
        }
        outcome.map_err(Error::io(call, path))
    }
}

impl fmt::Debug for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut output = f.debug_struct("Interruption");
        output.field("mode", &self.mode).field("end", &self.end).finish_non_exhaustive()
    }
}

impl Fault {
    fn fail_at(&mut self, nth: u64) {
        self.fails_at = (nth != 0).then_some(self.count + nth);
    }

    /// Counts, and says whether this is the one to fail.
    fn happens(&mut self) -> bool {
        self.count += 1;
        self.fails_at.take_if(|at| *at == self.count).is_some()
    }
}

/// What becomes of a sync.
enum SyncFate {
    Done,
    Failed,
    /// It never happened, and nothing will.
    Crashed,
}

impl State {
    fn sync_fate(&mut self) -> SyncFate {
        let fails = self.syncs.happens();
        if self.crash_at_sync == Some(self.syncs.count) {
            self.has_crashed = true;
            SyncFate::Crashed
        } else if fails {
            SyncFate::Failed
        } else {
            SyncFate::Done
        }
    }

    /// How long a file of `len` bytes may become.
    fn len_max(&self, len: u64) -> u64 {
        let Some(capacity) = self.capacity_bytes else { return u64::MAX };
        capacity.saturating_sub(self.tree.used_bytes()).saturating_add(len)
    }

    fn write(&mut self, id: NodeId, bytes: &[u8], offset: u64) -> io::Result<()> {
        let len_max = self.len_max(self.tree.bytes(id).len());
        let fitting = len_max.saturating_sub(offset).min(bytes.len() as u64);
        if self.writes.happens() {
            let part = self.random.below(fitting + 1);
            self.tree.bytes_mut(id).write(&bytes[..usize_of(part)], offset);
            return Err(os_error(libc::EIO));
        }
        self.tree.bytes_mut(id).write(&bytes[..usize_of(fitting)], offset);
        if fitting < bytes.len() as u64 {
            return Err(os_error(libc::ENOSPC));
        }
        Ok(())
    }

    fn set_len(&mut self, id: NodeId, bytes: u64) -> io::Result<()> {
        let len = self.tree.bytes(id).len();
        if len < bytes && self.len_max(len) < bytes {
            return Err(os_error(libc::ENOSPC));
        }
        self.tree.bytes_mut(id).set_len(bytes);
        Ok(())
    }

    fn open(&mut self, path: &Path, mode: OpenMode) -> io::Result<NodeId> {
        match self.tree.file_at(path) {
            Ok(_) if mode == OpenMode::CreateNew => Err(os_error(libc::EEXIST)),
            Ok(id) => {
                if mode == OpenMode::CreateOrTruncate {
                    self.tree.bytes_mut(id).set_len(0);
                }
                Ok(id)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => match mode {
                OpenMode::Read | OpenMode::ReadWrite => Err(error),
                OpenMode::CreateNew | OpenMode::CreateOrTruncate => self.tree.create_file(path),
            },
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => match mode {
                OpenMode::CreateNew => Err(os_error(libc::EEXIST)),
                OpenMode::Read | OpenMode::ReadWrite | OpenMode::CreateOrTruncate => Err(error),
            },
            Err(error) => Err(error),
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>> {
        self.interrupt(path, mode);
        let id = self.call("open", path, |state| state.open(path, mode))?;
        let is_writable = mode != OpenMode::Read;
        Ok(Arc::new(SimFile { disk: self.clone(), path: path.to_path_buf(), id, is_writable }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.call("stat", path, |state| match state.tree.at(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        })
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.call("list", dir, |state| state.tree.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.call("mkdir", dir, |state| state.tree.create_dir_all(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call("rename", from, |state| state.tree.rename(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.call("remove", path, |state| state.tree.remove(path))
    }

    fn remove_dir_all(&self, dir: &Path) -> Result<()> {
        self.call("remove", dir, |state| state.tree.remove_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.call("fsync", dir, |state| {
            let id = state.tree.dir_at(dir)?;
            match state.sync_fate() {
                SyncFate::Done => state.tree.sync_dir(id),
                SyncFate::Failed => {
                    state.tree.settle_dir(id, &mut state.random);
                    return Err(os_error(libc::EIO));
                }
                SyncFate::Crashed => {}
            }
            Ok(())
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        let locked = self.call("lock", path, |state| {
            let id = match state.open(path, OpenMode::ReadWrite) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    state.tree.create_file(path)?
                }
                outcome => outcome?,
            };
            Ok(state.locks.insert(id).then_some(id))
        })?;
        let path = path.to_path_buf();
        match locked {
            Some(id) => Ok(Box::new(SimLock { disk: self.clone(), path, id })),
            None => Err(Error::Locked { path }),
        }
    }
}

/// A file that was opened on a simulated disk. It outlives its name.
#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    path: PathBuf,
    id: NodeId,
    is_writable: bool,
}

impl SimFile {
    /// Does something with the bytes of the file.
    fn read<T>(&self, call: &'static str, action: impl FnOnce(&SimBytes) -> T) -> Result<T> {
        self.disk.call(call, &self.path, |state| Ok(action(state.tree.bytes(self.id))))
    }

    /// Does something for which the file must have been opened for writing.
    fn change(
        &self,
        call: &'static str,
        action: impl FnOnce(&mut State) -> io::Result<()>,
    ) -> Result<()> {
        self.disk.call(call, &self.path, |state| {
            if self.is_writable { action(state) } else { Err(os_error(libc::EBADF)) }
        })
    }
}

impl DiskFile for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        self.read("stat", SimBytes::len)
    }

    fn stamp(&self) -> Result<FileStamp> {
        let identity = (0, self.id.0 as u64);
        self.read("stat", |bytes| FileStamp {
            bytes: bytes.len(),
            modified: bytes.changes().into(),
            identity,
        })
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.read("read", |bytes| bytes.read(buf, offset))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.change("write", |state| state.write(self.id, bytes, offset))
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.change("truncate", |state| state.set_len(self.id, bytes))
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.change("fallocate", |state| {
            let longer = state.tree.bytes(self.id).len() < bytes;
            if longer { state.set_len(self.id, bytes) } else { Ok(()) }
        })
    }

    fn sync_data(&self) -> Result<()> {
        self.disk.call("fdatasync", &self.path, |state| {
            match state.sync_fate() {
                SyncFate::Done => state.tree.bytes_mut(self.id).sync(),
                SyncFate::Failed => {
                    state.tree.bytes_mut(self.id).settle(&mut state.random);
                    return Err(os_error(libc::EIO));
                }
                SyncFate::Crashed => {}
            }
            Ok(())
        })
    }

    fn start_writeback(&self, _offset: u64, _bytes: u64) -> Result<()> {
        self.read("sync_file_range", |_| ())
    }

    fn map(&self) -> Result<Mapping> {
        self.read("mmap", |bytes| {
            let mut copy = vec![0; usize_of(bytes.len())];
            let got = bytes.read(&mut copy, 0);
            assert_eq!(got, copy.len(), "nobody cuts the file meanwhile");
            Mapping::from(Arc::<[u8]>::from(copy))
        })
    }

    fn raw_fd(&self) -> Option<RawFd> {
        None
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    id: NodeId,
}

impl DirLock for SimLock {
    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.lock_state().locks.remove(&self.id);
    }
}
