//! A disk in memory that fails on demand and loses unsynced changes, as far as a disk may.
//!
//! - sim-1. Everything that `sync_data` and `sync_dir` covered is on each disk that
//!   `after_power_loss` returns.
//! - sim-2. Each other write, change of a length and change of a directory has happened or not,
//!   independently of those before and after it, and a write may have happened in part. A sector of
//!   512 bytes is atomic: a surviving one has the content that it had at some time.
//! - sim-3. The same calls with the same seed give the same disk.
//! - sim-4. A call that fails because of a planned fault has done nothing, except a write, which
//!   may have written its first sectors, and a sync, which may have made a part durable.
//!
//! The disk has a way around the page cache, and queues of writes that it finishes in any order
//! (`sim/ring.rs`): their writes are durable after a sync, like any other write, and not before.
//!
//! The content of files is in `sim/content.rs`, the survival of their bytes in `sim/file.rs`, and
//! the survival of names in `sim/tree.rs`. Not here: time. No operation takes any.

mod call;
mod content;
mod file;
mod random;
#[cfg(target_os = "linux")]
mod ring;
mod tree;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::call::Faults;
pub use self::call::{SimCall, SimErrno};
use self::file::SimBytes;
use self::random::Random;
#[cfg(target_os = "linux")]
pub(crate) use self::ring::SimRing;
use self::tree::{NodeId, Tree, os_error};
use crate::{
    DirEntry, DirLock, Disk, DiskFile, Error, FileStamp, Mapping, OpenMode, Result, usize_of,
};

/// The unit that a disk writes atomically.
const SECTOR_BYTES: u64 = 512;
/// The unit of writes around the page cache.
const DIRECT_ALIGNMENT: usize = 4_096;

/// A simulated disk. A clone is the same disk.
///
/// Relative paths begin at the root. Files are not sparse: each takes as much space as its length.
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
    faults: Faults,
    capacity_bytes: Option<u64>,
    interruption: Option<Interruption>,
    /// Has one clone for each file that is open.
    handles: Arc<()>,
    open_files_max: usize,
}

/// An action to run before a file is opened in this mode whose path ends with `end`.
struct Interruption {
    mode: OpenMode,
    end: String,
    action: Box<dyn FnOnce() + Send>,
}

/// Counts events, and decides which of them fails.
#[derive(Debug, Default)]
struct Fault {
    count: u64,
    fails_at: Option<u64>,
}

impl SimDisk {
    /// An empty disk without limits. `seed` determines the outcome of all random decisions (sim-3).
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
            faults: Faults::default(),
            capacity_bytes: None,
            interruption: None,
            handles: Arc::default(),
            open_files_max: 0,
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Loses power instead of doing the `nth` sync from now, of files and directories alike: that
    /// call and all after it fail with [`Error::Crashed`]. 1 is the next sync; 0 is right now.
    pub fn crash_at_sync(&self, nth: u64) {
        let mut state = self.lock_state();
        state.has_crashed |= nth == 0;
        state.crash_at_sync = Some(state.syncs.count + nth);
    }

    /// Makes the `nth` sync from now fail with EIO, once. 1 is the next sync; 0 cancels the fault.
    ///
    /// The changes that this sync covered are then lost or not, at random, and no later sync
    /// repairs that, though reads return them until the power is lost.
    pub fn fail_sync_at(&self, nth: u64) {
        self.lock_state().syncs.fail_at(nth);
    }

    /// Makes the `nth` write from now fail with EIO, once, after a part of it was written. 1 is the
    /// next write; 0 cancels the fault.
    pub fn fail_write_at(&self, nth: u64) {
        self.lock_state().writes.fail_at(nth);
    }

    /// Makes the `nth` call of a kind from now fail with an error of the operating system, such as
    /// EMFILE, once or until [`clear_faults`](Self::clear_faults). 1 is the next one.
    pub fn fail_call_at(&self, call: SimCall, nth: u64, errno: SimErrno, lasts: bool) {
        assert!(0 < nth, "1 is the next call");
        self.lock_state().faults.plan(call, nth, errno, lasts);
    }

    /// Makes all calls of these kinds fail on a directory and its contents, until
    /// [`clear_faults`](Self::clear_faults).
    pub fn fail_calls_in(&self, dir: &Path, calls: &[SimCall], errno: SimErrno) {
        self.lock_state().faults.plan_in(dir, calls, errno);
    }

    /// Number of calls of a kind so far.
    pub fn calls(&self, call: SimCall) -> u64 {
        self.lock_state().faults.count(call)
    }

    /// Cancels all planned faults, and the limit of bytes.
    pub fn clear_faults(&self) {
        let mut state = self.lock_state();
        (state.syncs.fails_at, state.writes.fails_at) = (None, None);
        state.capacity_bytes = None;
        state.faults.clear();
    }

    /// Limits the bytes of all files together; a write beyond the limit fails with ENOSPC, after
    /// writing as much as fits.
    pub fn set_capacity(&self, bytes: u64) {
        self.lock_state().capacity_bytes = Some(bytes);
    }

    /// Runs an action once, right before the next file is opened in this mode whose path ends with
    /// `end`: an action of another process at that moment. It may use the disk.
    pub fn before_open(&self, mode: OpenMode, end: &str, action: impl FnOnce() + Send + 'static) {
        let interruption = Interruption { mode, end: end.to_owned(), action: Box::new(action) };
        // Dropped without the lock, because it may use the disk.
        let _before = self.lock_state().interruption.replace(interruption);
    }

    /// The largest number of files that were open at a time.
    pub fn open_files_max(&self) -> usize {
        self.lock_state().open_files_max
    }

    /// Number of syncs of files and directories so far.
    pub fn syncs(&self) -> u64 {
        self.lock_state().syncs.count
    }

    /// A state that the disk may have after a power loss now (sim-1, sim-2): another disk, without
    /// faults, locks and limits, on which everything is durable. This one does not change.
    ///
    /// Repeated calls return the same state (sim-3);
    /// [`after_power_loss_by`](Self::after_power_loss_by) returns other ones.
    pub fn after_power_loss(&self) -> SimDisk {
        let seed = self.lock_state().seed;
        self.after_power_loss_by(seed)
    }

    /// As [`after_power_loss`](Self::after_power_loss), with another seed for the random decisions.
    pub fn after_power_loss_by(&self, seed: u64) -> SimDisk {
        let mut random = Random::new(seed);
        let tree = self.lock_state().tree.after_power_loss(&mut random);
        SimDisk::holding(tree, random.next())
    }

    /// Flips the bits of one byte, durably, where `xor` has ones.
    ///
    /// # Panics
    /// If there is no such file, or no such byte in it.
    pub fn corrupt(&self, path: &Path, offset: u64, xor: u8) {
        let mut state = self.lock_state();
        let id = state.tree.file_at(path).expect("the file to corrupt exists");
        state.tree.bytes_mut(id).corrupt(offset, xor);
    }

    /// Truncates a file, durably, as if it had always been this short.
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
        // The state of the disk stays readable after a test has panicked elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the nodes that `find` finds or makes, if all of them are unlocked.
    fn lock_nodes(
        &self,
        path: &Path,
        find: impl FnOnce(&mut State) -> io::Result<Vec<NodeId>>,
    ) -> Result<Box<dyn DirLock>> {
        let locked = self.call(SimCall::Lock, path, |state| {
            let ids = find(state)?;
            let is_free = ids.iter().all(|id| !state.locks.contains(id));
            if is_free {
                state.locks.extend(&ids);
            }
            Ok(is_free.then_some(ids))
        })?;
        let path = path.to_path_buf();
        match locked {
            Some(ids) => Ok(Box::new(SimLock { disk: self.clone(), path, ids })),
            None => Err(Error::Locked { path }),
        }
    }

    /// Runs the action planned for before this file is opened.
    fn interrupt(&self, path: &Path, mode: OpenMode) {
        let is_due =
            |due: &mut Interruption| due.mode == mode && path.to_string_lossy().ends_with(&due.end);
        // Without the lock, because the action may use the disk.
        let due = self.lock_state().interruption.take_if(is_due);
        if let Some(Interruption { action, .. }) = due {
            action();
        }
    }

    /// Runs an action that fails after or during a power loss, and if a fault is planned for it
    /// (sim-4).
    fn call<T>(
        &self,
        kind: SimCall,
        path: &Path,
        action: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T> {
        let mut state = self.lock_state();
        let call = kind.name();
        let crashed = || Err(Error::Crashed { call, path: path.to_path_buf() });
        if state.has_crashed {
            return crashed();
        }
        let outcome = match state.faults.happens(kind, path) {
            Some(errno) => Err(os_error(errno.code())),
            None => action(&mut state),
        };
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

    /// Counts an event, and returns true if it is the one to fail.
    fn happens(&mut self) -> bool {
        self.count += 1;
        self.fails_at.take_if(|at| *at == self.count).is_some()
    }
}

/// The outcome of a sync.
enum SyncOutcome {
    Done,
    Failed,
    /// It did not happen, and nothing will happen any more.
    Crashed,
}

impl State {
    fn new_handle(&mut self) -> Arc<()> {
        let handle = Arc::clone(&self.handles);
        self.open_files_max = self.open_files_max.max(Arc::strong_count(&self.handles) - 1);
        handle
    }

    fn sync_outcome(&mut self) -> SyncOutcome {
        let fails = self.syncs.happens();
        if self.crash_at_sync == Some(self.syncs.count) {
            self.has_crashed = true;
            SyncOutcome::Crashed
        } else if fails {
            SyncOutcome::Failed
        } else {
            SyncOutcome::Done
        }
    }

    /// The largest length that a file of `len` bytes may reach.
    fn len_max(&self, len: u64) -> u64 {
        let Some(capacity) = self.capacity_bytes else { return u64::MAX };
        capacity.saturating_sub(self.tree.used_bytes()).saturating_add(len)
    }

    fn write(&mut self, id: NodeId, bytes: &[u8], offset: u64) -> io::Result<()> {
        let len_max = self.len_max(self.tree.bytes(id).len());
        let fitting = len_max.saturating_sub(offset).min(bytes.len() as u64);
        if self.writes.happens() {
            // A kernel fails between pages, and a disk between sectors.
            let end = (offset + self.random.below(fitting + 1)) / SECTOR_BYTES * SECTOR_BYTES;
            let part = end.saturating_sub(offset);
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

    fn folder_of(&self, path: &Path) -> io::Result<NodeId> {
        self.tree.dir_at(path.parent().unwrap_or(Path::new("/")))
    }

    fn open_or_create(&mut self, path: &Path) -> io::Result<NodeId> {
        match self.open(path, OpenMode::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.tree.create_file(path),
            outcome => outcome,
        }
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
        let kind = match mode {
            OpenMode::Read | OpenMode::ReadWrite => SimCall::Open,
            OpenMode::CreateNew | OpenMode::CreateOrTruncate => SimCall::Create,
        };
        let id = self.call(kind, path, |state| state.open(path, mode))?;
        let (disk, path) = (self.clone(), path.to_path_buf());
        let is_writable = mode != OpenMode::Read;
        let handle = self.lock_state().new_handle();
        Ok(Arc::new(SimFile { disk, path, id, is_writable, alignment: 1, _handle: handle }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.call(SimCall::Stat, path, |state| match state.tree.at(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        })
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.call(SimCall::List, dir, |state| state.tree.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.call(SimCall::MakeDir, dir, |state| state.tree.create_dir_all(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(SimCall::Rename, from, |state| state.tree.rename(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.call(SimCall::Remove, path, |state| state.tree.remove(path))
    }

    fn remove_dir_all(&self, dir: &Path) -> Result<()> {
        self.call(SimCall::Remove, dir, |state| state.tree.remove_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let id = self.call(SimCall::Open, dir, |state| state.tree.dir_at(dir))?;
        self.call(SimCall::SyncDir, dir, |state| {
            match state.sync_outcome() {
                SyncOutcome::Done => state.tree.sync_dir(id),
                SyncOutcome::Failed => {
                    state.tree.settle_dir(id, &mut state.random);
                    return Err(os_error(libc::EIO));
                }
                SyncOutcome::Crashed => {}
            }
            Ok(())
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.lock_nodes(path, |state| Ok(vec![state.open_or_create(path)?]))
    }

    fn lock_with_folder(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.lock_nodes(path, |state| {
            let folder = state.folder_of(path)?;
            // A lock that is refused creates no file.
            let is_free = !state.locks.contains(&folder);
            Ok(if is_free { vec![folder, state.open_or_create(path)?] } else { vec![folder] })
        })
    }

    fn lock_existing(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.lock_nodes(path, |state| {
            let folder = state.folder_of(path)?;
            match state.open(path, OpenMode::ReadWrite) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![folder]),
                file => Ok(vec![folder, file?]),
            }
        })
    }
}

/// A file that was opened on a simulated disk. It outlives its name.
#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    path: PathBuf,
    id: NodeId,
    is_writable: bool,
    /// More than 1 if the file is written around the page cache.
    alignment: usize,
    _handle: Arc<()>,
}

impl SimFile {
    /// Runs an action on the bytes of the file.
    fn read<T>(&self, call: SimCall, action: impl FnOnce(&SimBytes) -> T) -> Result<T> {
        self.disk.call(call, &self.path, |state| Ok(action(state.tree.bytes(self.id))))
    }

    /// Runs an action for which the file must have been opened for writing.
    fn change(
        &self,
        call: SimCall,
        action: impl FnOnce(&mut State) -> io::Result<()>,
    ) -> Result<()> {
        self.disk.call(call, &self.path, |state| {
            if self.is_writable { action(state) } else { Err(os_error(libc::EBADF)) }
        })
    }
}

/// A range of a file, which must be there.
fn copied(bytes: &SimBytes, range: Range<u64>) -> Mapping {
    let mut copy = vec![0; usize_of(range.end - range.start)];
    let got = bytes.read(&mut copy, range.start);
    assert_eq!(got, copy.len(), "a mapping does not end after its file");
    Mapping::from(Arc::<[u8]>::from(copy))
}

impl DiskFile for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        self.read(SimCall::Stat, SimBytes::len)
    }

    fn stamp(&self) -> Result<FileStamp> {
        let identity = (0, self.id.0 as u64);
        self.read(SimCall::Stat, |bytes| FileStamp {
            bytes: bytes.len(),
            modified: bytes.changes().into(),
            identity,
        })
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.read(SimCall::Read, |bytes| bytes.read(buf, offset))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.change(SimCall::Write, |state| {
            let is_aligned = bytes.len().is_multiple_of(self.alignment)
                && offset.is_multiple_of(self.alignment as u64)
                && (self.alignment == 1 || bytes.as_ptr().addr().is_multiple_of(self.alignment));
            if is_aligned {
                state.write(self.id, bytes, offset)
            } else {
                Err(os_error(libc::EINVAL))
            }
        })
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.change(SimCall::Resize, |state| state.set_len(self.id, bytes))
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.change(SimCall::Resize, |state| {
            let longer = state.tree.bytes(self.id).len() < bytes;
            if longer { state.set_len(self.id, bytes) } else { Ok(()) }
        })
    }

    fn sync_data(&self) -> Result<()> {
        self.disk.call(SimCall::Sync, &self.path, |state| {
            match state.sync_outcome() {
                SyncOutcome::Done => state.tree.bytes_mut(self.id).sync(),
                SyncOutcome::Failed => {
                    state.tree.bytes_mut(self.id).settle(&mut state.random);
                    return Err(os_error(libc::EIO));
                }
                SyncOutcome::Crashed => {}
            }
            Ok(())
        })
    }

    fn start_writeback(&self, _offset: u64, _bytes: u64) -> Result<()> {
        self.read(SimCall::Stat, |_| ())
    }

    fn map(&self) -> Result<Mapping> {
        self.read(SimCall::Map, |bytes| copied(bytes, 0..bytes.len()))
    }

    fn map_range(&self, range: Range<u64>) -> Result<Mapping> {
        self.read(SimCall::Map, |bytes| copied(bytes, range))
    }

    fn raw_fd(&self) -> Option<RawFd> {
        None
    }

    fn around_cache(&self) -> Option<Arc<dyn DiskFile>> {
        let SimFile { disk, path, id, is_writable, .. } = self;
        let (disk, path, id, is_writable) = (disk.clone(), path.clone(), *id, *is_writable);
        let (alignment, _handle) = (DIRECT_ALIGNMENT, Arc::clone(&self._handle));
        let around = SimFile { disk, path, id, is_writable, alignment, _handle };
        is_writable.then(|| Arc::new(around) as Arc<dyn DiskFile>)
    }

    fn alignment(&self) -> usize {
        self.alignment
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    ids: Vec<NodeId>,
}

impl DirLock for SimLock {
    fn path(&self) -> &Path {
        &self.path
    }

    fn is_in_place(&self) -> bool {
        let state = self.disk.lock_state();
        // The directory comes before the file, if both are locked.
        let named = [state.folder_of(&self.path), state.tree.file_at(&self.path)];
        named.into_iter().flatten().any(|id| self.ids.first() == Some(&id))
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.lock_state();
        state.locks.retain(|locked| !self.ids.contains(locked));
    }
}
