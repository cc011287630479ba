//! What a disk can do: the two traits that `RealDisk` and `SimDisk` implement.
//!
//! - D1. What `sync_data` covered survives a loss of power: the bytes and the length of the file,
//!   but not its name.
//! - D2. What `sync_dir` covered survives too: the names in that folder, and nothing below it.
//! - D3. `rename` is atomic: whoever looks, also after a loss of power, finds the old file or the
//!   new one under the new name. It says nothing about the bytes in them.
//! - D4. Nothing else survives for certain, in no particular order.
//!
//! Not here: queues with several operations in flight, which are `ReadAhead` and `WriteQueue`.

use std::fmt::Debug;
use std::io::Read;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use crate::{Error, Mapping, Result, usize_of};

/// Files and folders by path. A path is taken as it is; there is no current directory to rely on.
pub trait Disk: Send + Sync + Debug {
    /// Opens or creates a file; its folder must exist.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading around the page cache; `None` where that is not possible.
    fn open_direct(&self, _path: &Path) -> Result<Option<Arc<dyn DiskFile>>> {
        Ok(None)
    }

    /// Opens what can be read only once and front to back, a pipe or a device; `None` for a file.
    /// Waits until a named pipe has a writer.
    fn open_stream(&self, _path: &Path) -> Result<Option<Box<dyn Read + Send>>> {
        Ok(None)
    }

    /// Whether a file or folder of this name exists.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Returns how many bytes a file has; `None` if it does not exist.
    fn length(&self, path: &Path) -> Result<Option<u64>> {
        if !self.exists(path)? {
            return Ok(None);
        }
        self.open(path, OpenMode::Read)?.len().map(Some)
    }

    /// What is in a folder, sorted by name; without what vanished while it was being read.
    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>>;

    /// Creates a folder and those above it that are missing, with mode 0700. Fine if it exists.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Gives a file or folder a new name, replacing a file that has it (D3).
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file. Fine if it is already gone; open handles and mappings stay valid.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Removes a folder and everything in it. Fine if it is already gone.
    fn remove_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes the names in a folder durable (D2).
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Creates `path` if need be and locks it, without waiting, until the answer is dropped.
    ///
    /// [`Error::Locked`] if another process or another handle of this one holds it.
    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>>;

    /// As `lock`, and locks the folder of `path` too: that lock stays when the file is removed.
    /// Where the file system locks no folders, as NFS does not, the file alone is locked.
    fn lock_with_folder(&self, path: &Path) -> Result<Box<dyn DirLock>>;

    /// As `lock_with_folder`, but creates nothing: without the file, the folder alone is locked.
    fn lock_existing(&self, path: &Path) -> Result<Box<dyn DirLock>>;

    /// The whole file. It may grow or shrink meanwhile; then the answer is one of the versions
    /// in between.
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.open(path, OpenMode::Read)?;
        let mut bytes = vec![0; usize_of(file.len()?)];
        let got = file.read_at(&mut bytes, 0)?;
        bytes.truncate(got);
        Ok(bytes)
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// An existing file, which is not written.
    Read,
    /// An existing file.
    ReadWrite,
    /// A new file of mode 0600, to be read and written; an error if the name is taken.
    CreateNew,
    /// A file that is empty afterwards, to be read and written; of mode 0600 if it is new.
    CreateOrTruncate,
}

/// One name in a folder. A link is described by what it points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Without the folder. Our own names are ASCII; of others, bytes that are no UTF-8 are lost.
    pub name: String,
    /// A folder, as opposed to anything else.
    pub is_dir: bool,
    /// The length of a file; without meaning for a folder.
    pub bytes: u64,
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// How many bytes it has.
    pub bytes: u64,
    /// When it was written to last, in nanoseconds; a counter on a simulated disk.
    pub modified: i128,
    /// Which file it is, whatever its name.
    pub identity: (u64, u64),
}

/// An open file. All offsets are absolute, so that threads can share it.
#[expect(clippy::len_without_is_empty, reason = "whether a file is empty interests nobody")]
pub trait DiskFile: Send + Sync + Debug {
    /// The path it was opened under.
    fn path(&self) -> &Path;

    /// How many bytes it has now.
    fn len(&self) -> Result<u64>;

    /// What it is now: another stamp later says that somebody has written to it.
    fn stamp(&self) -> Result<FileStamp>;

    /// Reads until `buf` is full or the file ends, and returns how many bytes that were.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Fills `buf`, or fails with [`Error::Short`].
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let got = self.read_at(buf, offset)?;
        if got == buf.len() {
            return Ok(());
        }
        Err(Error::Short { path: self.path().to_path_buf(), offset, wanted: buf.len(), got })
    }

    /// Writes all of `bytes`; the file grows if need be, with zeros where nothing was written.
    ///
    /// After an error any part of `bytes` may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Cuts the file, or lengthens it with zeros that take no space yet.
    fn set_len(&self, bytes: u64) -> Result<()>;

    /// Reserves space for `bytes` from the start of the file, which is at least that long
    /// afterwards. Where the file system cannot reserve, only the length changes.
    fn allocate(&self, bytes: u64) -> Result<()>;

    /// Makes bytes and length durable (D1).
    ///
    /// After an error, what had not been durable before may be lost, and no later call can tell:
    /// write it again, elsewhere.
    fn sync_data(&self) -> Result<()>;

    /// Asks the kernel to begin writing a range out, so that a later `sync_data` has less to do.
    /// Promises nothing.
    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<()>;

    /// The whole file as it is now, read only.
    fn map(&self) -> Result<Mapping>;

    /// For queues that talk to the kernel directly; `None` if there is no kernel behind it.
    fn raw_fd(&self) -> Option<RawFd>;

    /// The same file, written around the page cache; `None` where that is not possible. Addresses,
    /// offsets and lengths must be multiples of its alignment, and what it writes must share no
    /// page with what is written through the cache at the same time.
    fn around_cache(&self) -> Option<Arc<dyn DiskFile>> {
        None
    }

    /// What addresses, offsets and lengths of kernel reads must be multiples of: 1, or more on a
    /// file that was opened around the page cache. `read_at` itself takes anything.
    fn alignment(&self) -> usize {
        1
    }
}

/// A held lock; dropping it lets go.
pub trait DirLock: Send + Sync + Debug {
    /// The file that stands for the lock.
    fn path(&self) -> &Path;

    /// False if another folder, or none, has the place of the one that is locked.
    fn is_in_place(&self) -> bool;
}
