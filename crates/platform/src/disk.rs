//! The interface of a disk: the two traits that `RealDisk` and `SimDisk` implement.
//!
//! - platform_disk-1. Everything that `sync_data` covered survives a power loss: the bytes and the
//!   length of the file, but not its name.
//! - platform_disk-2. Everything that `sync_dir` covered survives too: the names in that directory,
//!   and nothing below it.
//! - platform_disk-3. `rename` is atomic: every reader, also after a power loss, finds the old file
//!   or the new one under the new name. It guarantees nothing about the bytes in them.
//! - Nothing else is certain to survive, and changes survive in no particular order.
//!
//! Not here: queues with several operations in flight, which are `ReadAhead` and `WriteQueue`.

use std::fmt::Debug;
use std::io::Read;
use std::ops::Range;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use crate::{Error, Mapping, Result, usize_of};

/// Files and directories by path. A path is used as given; there is no current directory to rely
/// on.
pub trait Disk: Send + Sync + Debug {
    /// Opens or creates a file; its directory must exist.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading around the page cache; `None` where that is not possible.
    fn open_direct(&self, _path: &Path) -> Result<Option<Arc<dyn DiskFile>>> {
        Ok(None)
    }

    /// Opens a source that can be read only once and sequentially, a pipe or a device; `None` for a
    /// file. Waits until a named pipe has a writer.
    fn open_stream(&self, _path: &Path) -> Result<Option<Box<dyn Read + Send>>> {
        Ok(None)
    }

    /// Returns true if a file or directory of this name exists.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Returns the length of a file in bytes; `None` if it does not exist.
    fn length(&self, path: &Path) -> Result<Option<u64>> {
        if !self.exists(path)? {
            return Ok(None);
        }
        self.open(path, OpenMode::Read)?.len().map(Some)
    }

    /// The entries of a directory, sorted by name, without those that vanished while it was being
    /// read.
    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>>;

    /// Creates a directory and its missing parents, with mode 0700. Succeeds if it exists.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Renames a file or directory, replacing a file that has the new name (platform_disk-3).
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file. Succeeds if it does not exist; open handles and mappings stay valid.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Removes a directory and its contents. Succeeds if it does not exist.
    fn remove_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes the names in a directory durable (platform_disk-2).
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Creates `path` if necessary and locks it, without waiting, until the returned lock is
    /// dropped.
    ///
    /// [`Error::Locked`] if another process or another handle of this one holds it.
    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>>;

    /// As `lock`, and locks the directory of `path` too: that lock stays when the file is removed.
    /// On file systems that cannot lock directories, like NFS, the file alone is locked.
    fn lock_with_folder(&self, path: &Path) -> Result<Box<dyn DirLock>>;

    /// As `lock_with_folder`, but creates nothing: without the file, the directory alone is locked.
    fn lock_existing(&self, path: &Path) -> Result<Box<dyn DirLock>>;

    /// The whole file. If the file grows or shrinks meanwhile, the result is one of the versions in
    /// between.
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.open(path, OpenMode::Read)?;
        let mut bytes = vec![0; usize_of(file.len()?)];
        let got = file.read_at(&mut bytes, 0)?;
        bytes.truncate(got);
        Ok(bytes)
    }
}

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// An existing file, for reading only.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file of mode 0600, for reading and writing; an error if the name is taken.
    CreateNew,
    /// A file that is empty afterwards, for reading and writing; of mode 0600 if it is new.
    CreateOrTruncate,
}

/// An entry of a directory. A symbolic link is described by its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name without the directory. Our own names are ASCII; in other names, bytes that are not
    /// UTF-8 are lost.
    pub name: String,
    /// True for a directory.
    pub is_dir: bool,
    /// The length of a file; without meaning for a directory.
    pub bytes: u64,
}

/// Values that distinguish one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// The length of the file.
    pub bytes: u64,
    /// The time of the last write, in nanoseconds; a counter on a simulated disk.
    pub modified: i128,
    /// The identity of the file, independent of its name.
    pub identity: (u64, u64),
}

/// An open file. All offsets are absolute, so that threads can share it.
#[expect(clippy::len_without_is_empty, reason = "no caller asks whether a file is empty")]
pub trait DiskFile: Send + Sync + Debug {
    /// The path it was opened under.
    fn path(&self) -> &Path;

    /// The current length in bytes.
    fn len(&self) -> Result<u64>;

    /// The current stamp: a different stamp later means that the file has been written to.
    fn stamp(&self) -> Result<FileStamp>;

    /// Reads until `buf` is full or the file ends, and returns the number of bytes read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Fills `buf`, or fails with [`Error::Short`].
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let got = self.read_at(buf, offset)?;
        if got == buf.len() {
            return Ok(());
        }
        Err(Error::Short { path: self.path().to_path_buf(), offset, wanted: buf.len(), got })
    }

    /// Truncates the file, or extends it with zeros that take no space yet.
    ///
    /// After an error any part of `bytes` may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Cuts the file, or lengthens it with zeros that take no space yet.
    fn set_len(&self, bytes: u64) -> Result<()>;

    /// Reserves space for `bytes` from the start of the file, which is at least that long
    /// afterwards. Where the file system cannot reserve space, only the length changes.
    fn allocate(&self, bytes: u64) -> Result<()>;

    /// Makes bytes and length durable (platform_disk-1).
    ///
    /// After an error, bytes that had not been durable before may be lost, and no later call can
    /// detect that: they must be written again, to another place.
    fn sync_data(&self) -> Result<()>;

    /// Asks the kernel to start writing back a range, so that a later `sync_data` has less to do.
    /// Guarantees nothing.
    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<()>;

    /// The whole file as it is now, read-only.
    fn map(&self) -> Result<Mapping>;

    /// A range of the file as it is now, read-only. Bytes outside of it may change later.
    ///
    /// The range must not end after the file.
    fn map_range(&self, range: Range<u64>) -> Result<Mapping>;

    /// The descriptor, for queues that call the kernel directly; `None` on a simulated disk.
    fn raw_fd(&self) -> Option<RawFd>;

    /// The same file, written around the page cache; `None` where that is not possible. Addresses,
    /// offsets and lengths must be multiples of its alignment, and its writes must share no page
    /// with concurrent writes through the cache.
    fn around_cache(&self) -> Option<Arc<dyn DiskFile>> {
        None
    }

    /// The alignment of addresses, offsets and lengths of kernel reads: 1, or more for a file that
    /// was opened around the page cache. `read_at` itself accepts any.
    fn alignment(&self) -> usize {
        1
    }
}

/// A held lock; dropping it releases the lock.
pub trait DirLock: Send + Sync + Debug {
    /// The file that represents the lock.
    fn path(&self) -> &Path;

    /// False if the directory that is locked has been replaced or removed.
    fn is_in_place(&self) -> bool;
}
