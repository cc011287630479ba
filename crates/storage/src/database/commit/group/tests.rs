//! Tests of the sharing of syncs, and of waiting commits after a panic of the leader. The log is on
//! a disk whose syncs wait at a gate.

use std::ops::Range;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::yield_now;

use tidegate_model::{ColumnType, PartitionUnit, Schema};
use tidegate_platform::{
    DirEntry, DirLock, Disk, DiskFile, Mapping, OpenMode, Result as DiskResult, SimClock, SimDisk,
};

use super::*;
use crate::database::OpenOptions;
use crate::wal::Durability;

/// The effect of syncs of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
    Panics,
}

#[derive(Debug)]
struct Shared {
    gate: Mutex<Gate>,
    moved: Condvar,
    /// Number of syncs of the log that have begun.
    syncs: AtomicU64,
}

#[derive(Debug, Clone)]
struct GatedDisk {
    inner: SimDisk,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn DiskFile>,
    shared: Arc<Shared>,
}

impl GatedDisk {
    fn new() -> GatedDisk {
        let (gate, moved) = (Mutex::new(Gate::Open), Condvar::new());
        let shared = Shared { gate, moved, syncs: AtomicU64::new(0) };
        GatedDisk { inner: SimDisk::new(1), shared: Arc::new(shared) }
    }

    fn set(&self, gate: Gate) {
        *lock(&self.shared.gate) = gate;
        self.shared.moved.notify_all();
    }

    fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::SeqCst)
    }

    fn open(&self) -> Arc<Database> {
        self.open_with(Durability::Sync)
    }

    fn open_with(&self, durability: Durability) -> Arc<Database> {
        let mut options = OpenOptions::new(Arc::new(SimClock::new(1)));
        options.log.durability = durability;
        Database::open(Arc::new(self.clone()), Path::new("/db"), &options).unwrap()
    }

    fn database(&self) -> Arc<Database> {
        let database = self.open();
        // The first commit starts a log file.
        create(&database, "first").unwrap();
        database
    }
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Arc<dyn DiskFile>> {
        let inner = self.inner.open(path, mode)?;
        if path.extension().is_none_or(|end| end != "wal") {
            return Ok(inner);
        }
        Ok(Arc::new(GatedFile { inner, shared: Arc::clone(&self.shared) }))
    }

    fn exists(&self, path: &Path) -> DiskResult<bool> {
        self.inner.exists(path)
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> DiskResult<()> {
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.inner.remove(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> DiskResult<()> {
        self.inner.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        self.inner.sync_dir(dir)
    }

    fn lock_with_folder(&self, path: &Path) -> DiskResult<Box<dyn DirLock>> {
        self.inner.lock_with_folder(path)
    }

    fn lock_existing(&self, path: &Path) -> DiskResult<Box<dyn DirLock>> {
        self.inner.lock_existing(path)
    }

    fn lock(&self, path: &Path) -> DiskResult<Box<dyn DirLock>> {
        self.inner.lock(path)
    }
}

impl DiskFile for GatedFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> DiskResult<u64> {
        self.inner.len()
    }

    fn stamp(&self) -> DiskResult<tidegate_platform::FileStamp> {
        self.inner.stamp()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> DiskResult<usize> {
        self.inner.read_at(buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.inner.write_all_at(bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> DiskResult<()> {
        self.inner.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> DiskResult<()> {
        self.inner.allocate(bytes)
    }

    fn sync_data(&self) -> DiskResult<()> {
        self.shared.syncs.fetch_add(1, Ordering::SeqCst);
        let mut gate = lock(&self.shared.gate);
        while *gate == Gate::Closed {
            gate = self.shared.moved.wait(gate).unwrap();
        }
        let panics = *gate == Gate::Panics;
        drop(gate);
        assert!(!panics, "the disk of this test panics");
        self.inner.sync_data()
    }

    fn start_writeback(&self, offset: u64, bytes: u64) -> DiskResult<()> {
        self.inner.start_writeback(offset, bytes)
    }

    fn map(&self) -> DiskResult<Mapping> {
        self.inner.map()
    }

    fn map_range(&self, range: Range<u64>) -> DiskResult<Mapping> {
        self.inner.map_range(range)
    }

    fn raw_fd(&self) -> Option<RawFd> {
        self.inner.raw_fd()
    }
}

fn create(database: &Database, name: &str) -> Result<()> {
    let columns = [("n".to_owned(), ColumnType::Int64)];
    let schema = Schema::new(&columns, None, PartitionUnit::None).unwrap();
    database.create_table(name, schema).map(drop)
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        yield_now();
    }
}

/// Starts one commit, which waits at the gate, and others that queue up; then opens the gate.
fn commit_together(disk: &GatedDisk, database: &Arc<Database>, then: Gate) -> Vec<Result<()>> {
    let before = disk.syncs();
    disk.set(Gate::Closed);
    std::thread::scope(|scope| {
        let leader = scope.spawn(|| create(database, "leader"));
        wait_until(|| disk.syncs() == before + 1);
        let name = |n| format!("follower {n}");
        let followers: Vec<_> =
            (0..5).map(|n| scope.spawn(move || create(database, &name(n)))).collect();
        wait_until(|| lock(&database.committer.queue).waiting.len() == 5);
        assert_eq!(database.tables().len(), 1, "commit_group-2");
        disk.set(then);
        let threads = [leader].into_iter().chain(followers);
        threads.map(|thread| thread.join().unwrap_or(Err(Error::CommitterPanicked))).collect()
    })
}

#[test]
fn commits_that_arrive_during_a_sync_share_the_next_one() {
    let disk = GatedDisk::new();
    let database = disk.database();
    let before = disk.syncs();
    let outcomes = commit_together(&disk, &database, Gate::Open);
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(disk.syncs() - before, 2, "commit_group-1");
    assert_eq!(database.tables().len(), 7);
}

#[test]
fn every_waiting_commit_gets_an_answer_when_the_leader_panics() {
    let disk = GatedDisk::new();
    let database = disk.database();
    let outcomes = commit_together(&disk, &database, Gate::Panics);
    assert_eq!(outcomes.len(), 6);
    for outcome in outcomes {
        assert!(matches!(outcome, Err(Error::CommitterPanicked)), "commit_group-3: {outcome:?}");
    }
    // Only the next open can find out the content of the log now.
    disk.set(Gate::Open);
    assert!(matches!(create(&database, "later"), Err(Error::CommitterPanicked)));
    assert_eq!(database.tables().len(), 1, "commit_group-2");
    drop(database);
    let names: Vec<String> = disk.open().tables().into_iter().map(|table| table.name).collect();
    assert!(names.contains(&"first".to_owned()), "{names:?}");
}

#[test]
fn commits_do_not_wait_for_a_sync() {
    let disk = GatedDisk::new();
    let database = disk.open_with(Durability::Async);
    create(&database, "first").unwrap();
    create(&database, "second").unwrap();
    let before = disk.syncs();
    disk.set(Gate::Closed);
    std::thread::scope(|scope| {
        let sync = scope.spawn(|| database.sync());
        wait_until(|| disk.syncs() == before + 1);
        create(&database, "third").unwrap();
        assert_eq!(database.tables().len(), 3, "sync-1");
        disk.set(Gate::Open);
        sync.join().unwrap().unwrap();
    });
    assert!(database.unsynced_bytes() > 0, "sync-1: the third is the next one's");
    database.sync().unwrap();
    assert_eq!((database.unsynced_bytes(), disk.syncs()), (0, before + 2));
}
