//! A disk that reports every call to a test before it is made.

use std::fmt;
use std::ops::Range;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use tidegate_platform::{DirEntry, DirLock, Disk, DiskFile, FileStamp, Mapping, OpenMode, Result};

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call<'a> {
    Open,
    Read(&'a Path, u64),
    Write,
    Sync,
}

/// The function that receives the calls.
pub(crate) type Hook = Arc<dyn Fn(Call<'_>) + Send + Sync>;

/// A disk with a hook.
#[derive(Clone)]
pub(crate) struct HookDisk {
    disk: Arc<dyn Disk>,
    hook: Hook,
}

struct HookFile {
    file: Arc<dyn DiskFile>,
    hook: Hook,
}

impl HookDisk {
    pub(crate) fn new(
        disk: impl Disk + 'static,
        hook: impl Fn(Call<'_>) + Send + Sync + 'static,
    ) -> HookDisk {
        HookDisk { disk: Arc::new(disk), hook: Arc::new(hook) }
    }
}

impl fmt::Debug for HookDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl fmt::Debug for HookFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl Disk for HookDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>> {
        (self.hook)(Call::Open);
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(HookFile { file, hook: Arc::clone(&self.hook) }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.disk.exists(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> Result<()> {
        self.disk.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        (self.hook)(Call::Sync);
        self.disk.sync_dir(dir)
    }

    fn lock_with_folder(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.disk.lock_with_folder(path)
    }

    fn lock_existing(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.disk.lock_existing(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        self.disk.lock(path)
    }
}

impl DiskFile for HookFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn stamp(&self) -> Result<FileStamp> {
        self.file.stamp()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        (self.hook)(Call::Read(self.path(), offset));
        self.file.read_at(buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        (self.hook)(Call::Write);
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.file.allocate(bytes)
    }

    fn sync_data(&self) -> Result<()> {
        (self.hook)(Call::Sync);
        self.file.sync_data()
    }

    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<()> {
        self.file.start_writeback(offset, bytes)
    }

    fn map(&self) -> Result<Mapping> {
        self.file.map()
    }

    fn map_range(&self, range: Range<u64>) -> Result<Mapping> {
        self.file.map_range(range)
    }

    fn raw_fd(&self) -> Option<RawFd> {
        // Reads through a descriptor would not be reported.
        None
    }
}
