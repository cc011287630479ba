//! The disk of the machine, through `std::fs` and the calls that it lacks.
//!
//! - platform_disk-1, platform_disk-2, platform_disk-3 hold as far as the file system keeps them;
//!   ext4, xfs and btrfs do.
//! - real-1. A new file or directory gets the owner of its parent directory, if this process may
//!   change owners: files that an administrator creates as root in the directory of a server stay
//!   accessible to the server. Files that existed before keep their owner.
//!
//! Not here: the guarantees of a disk, which are in `disk`, and several operations in flight.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, fchown, lchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::{
    AlignedBuffer, DirEntry, DirLock, Disk, DiskFile, Error, FileStamp, Mapping, OpenMode, Result,
    sys,
};

/// Only the user that runs the database may read files.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Enough for every disk in use: sectors have 512 or 4,096 bytes.
const DIRECT_ALIGNMENT: usize = 4096;
/// Bytes that an unaligned read around the page cache fetches at once.
const BOUNCE_BYTES_MAX: usize = 1 << 20;

/// The machine's disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// Opens a file for reading around the page cache (`O_DIRECT`); `None` where the file system
    /// does not support that.
    pub fn open_direct(path: &Path) -> Result<Option<Arc<dyn DiskFile>>> {
        let opened = open_around_cache(OpenOptions::new().read(true), path)?;
        let Some(file) = opened else { return Ok(None) };
        let file = RealFile::new(path.to_path_buf(), file, DIRECT_ALIGNMENT);
        // Some file systems refuse only the first read, or require more alignment than ours.
        let mut trial = AlignedBuffer::new(DIRECT_ALIGNMENT);
        match file.read_at(&mut trial, 0) {
            Ok(_) => Ok(Some(Arc::new(file))),
            Err(error) if error.is_unsupported() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The bytes that an ordinary user may still write to the file system that holds `path`.
pub fn free_disk_bytes(path: &Path) -> Result<u64> {
    disk_bytes(path).map(|(free, _)| free)
}

/// The same, and the size of the file system in bytes.
pub fn disk_bytes(path: &Path) -> Result<(u64, u64)> {
    sys::disk_bytes(path).map_err(Error::io("statvfs", path))
}

/// Drops the clean pages of a file from the page cache, so that a benchmark can read it from the
/// disk; does nothing on a simulated disk.
pub fn drop_caches(file: &dyn DiskFile) -> Result<()> {
    match file.raw_fd() {
        Some(fd) => sys::drop_cache(fd).map_err(Error::io("fadvise", file.path())),
        None => Ok(()),
    }
}

impl Disk for RealDisk {
    fn open_direct(&self, path: &Path) -> Result<Option<Arc<dyn DiskFile>>> {
        RealDisk::open_direct(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(FILE_MODE);
        match mode {
            OpenMode::Read => &mut options,
            OpenMode::ReadWrite => options.write(true),
            OpenMode::CreateNew => options.write(true),
            OpenMode::CreateOrTruncate => options.write(true).truncate(true),
        };
        let file = match mode {
            OpenMode::Read | OpenMode::ReadWrite => {
                refuse_streams(path)?;
                options.open(path)
            }
            OpenMode::CreateNew => create_new(&options, path),
            OpenMode::CreateOrTruncate => create(&mut options, path),
        };
        let file = file.map_err(Error::io("open", path))?;
        let mut file = RealFile::new(path.to_path_buf(), file, 1);
        if mode == OpenMode::Read {
            file.around_cache = OnceLock::from(None);
        }
        Ok(Arc::new(file))
    }

    fn open_stream(&self, path: &Path) -> Result<Option<Box<dyn Read + Send>>> {
        let metadata = fs::metadata(path).map_err(Error::io("open", path))?;
        if metadata.is_file() || metadata.is_dir() {
            return Ok(None);
        }
        let file = File::open(path).map_err(Error::io("open", path))?;
        Ok(Some(Box::new(file)))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(Error::io("stat", path))
    }

    fn length(&self, path: &Path) -> Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("stat", path)(error)),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
            let path = entry.map_err(Error::io("list", dir))?.path();
            let metadata = match fs::metadata(&path).or_else(|_| fs::symlink_metadata(&path)) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("stat", &path)(error)),
            };
            let name = path.file_name().expect("an entry of a folder has a name");
            entries.push(DirEntry {
                name: name.to_string_lossy().into_owned(),
                is_dir: metadata.is_dir(),
                bytes: metadata.len(),
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.is_dir();
        let missing = dir.ancestors().take_while(is_missing).collect::<Vec<_>>();
        for dir in missing.into_iter().rev() {
            match DirBuilder::new().mode(DIR_MODE).create(dir) {
                Ok(()) => give_folder_away(dir),
                // Another thread or process created it first.
                Err(_) if dir.is_dir() => {}
                Err(error) => return Err(Error::io("mkdir", dir)(error)),
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(Error::io("rename", from))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        ignore_not_found(fs::remove_file(path)).map_err(Error::io("remove", path))
    }

    fn remove_dir_all(&self, dir: &Path) -> Result<()> {
        ignore_not_found(fs::remove_dir_all(dir)).map_err(Error::io("remove", dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let folder = open_folder(dir).map_err(Error::io("open", dir))?;
        folder.sync_all().map_err(Error::io("fsync", dir))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        let file = made_and_locked(path)?;
        Ok(Box::new(RealLock { path: path.to_path_buf(), files: (None, Some(file)) }))
    }

    fn lock_with_folder(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        let folder = lock_folder(path)?;
        let file = match made_and_locked(path) {
            // On a read-only file system, an existing file is locked.
            Err(error) if error.is_read_only() => existing_and_locked(path)?,
            made => Some(made?),
        };
        Ok(Box::new(RealLock { path: path.to_path_buf(), files: (folder, file) }))
    }

    fn lock_existing(&self, path: &Path) -> Result<Box<dyn DirLock>> {
        let folder = lock_folder(path)?;
        let file = existing_and_locked(path)?;
        Ok(Box::new(RealLock { path: path.to_path_buf(), files: (folder, file) }))
    }
}

/// Locks the directory of `path`; `None` if the file system does not support that.
fn lock_folder(path: &Path) -> Result<Option<File>> {
    let dir = dir_of(path);
    let folder = open_folder(dir).map_err(Error::io("open", dir))?;
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_path_buf() }),
        Err(TryLockError::Error(error)) => match error.raw_os_error() {
            // NFS implements these locks as locks of byte ranges, for which a directory cannot be
            // opened.
            Some(
                libc::EBADF
                | libc::EINVAL
                | libc::EISDIR
                | libc::ENOLCK
                | libc::ENOSYS
                | libc::EOPNOTSUPP,
            ) => Ok(None),
            _ => Err(Error::io("lock", dir)(error)),
        },
    }
}

fn dir_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn made_and_locked(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    // Through a link, root could create a file anywhere from within the directory of another user.
    options.read(true).write(true).mode(FILE_MODE).custom_flags(libc::O_NOFOLLOW);
    let file = create(&mut options, path).map_err(Error::io("open", path))?;
    lock_file(&file, path)?;
    Ok(file)
}

/// Opens a directory, and nothing else: opening a pipe would wait for another process.
fn open_folder(dir: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(dir)
}

/// Locks a file if it exists.
fn existing_and_locked(path: &Path) -> Result<Option<File>> {
    refuse_streams(path)?;
    // NFS locks only files that are open for writing.
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let opened = opened.or_else(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => File::open(path),
        _ => Err(error),
    });
    let file = match opened {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    file.as_ref().map_or(Ok(()), |file| lock_file(file, path))?;
    Ok(file)
}

fn lock_file(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
    }
}

/// Refuses pipes and devices: opening a pipe waits until another process opens it too, and a device
/// may have no end.
fn refuse_streams(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            Err(Error::NoFile { path: path.to_path_buf() })
        }
        // Other problems are reported when the file is opened.
        _ => Ok(()),
    }
}

/// Creates a file, which gets the owner of its directory (real-1).
fn create_new(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.clone().create_new(true).open(path)?;
    if let Some(owner) = folder_of(path).and_then(|folder| fs::metadata(folder).ok())
        && let Ok(own) = file.metadata()
        && (own.uid(), own.gid()) != (owner.uid(), owner.gid())
    {
        // Without root's rights, the owner cannot be changed, and the file stays ours.
        let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
    }
    Ok(file)
}

/// Opens a file, or creates it. An existing one may be a link to another user's file: its owner
/// stays.
fn create(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    match create_new(options, path) {
        // It may vanish meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.create(true).open(path)
        }
        created => created,
    }
}

/// Gives a new directory to the owner of its parent (real-1).
fn give_folder_away(dir: &Path) {
    let Some(owner) = folder_of(dir).and_then(|folder| fs::metadata(folder).ok()) else { return };
    let Ok(own) = fs::symlink_metadata(dir) else { return };
    if (own.uid(), own.gid()) != (owner.uid(), owner.gid()) {
        // As for files.
        let _ = lchown(dir, Some(owner.uid()), Some(owner.gid()));
    }
}

/// The parent directory of a path.
fn folder_of(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// A file that was opened elsewhere, perhaps without the rights to open it anew.
pub(crate) fn opened(path: PathBuf, file: File) -> Arc<dyn DiskFile> {
    let mut file = RealFile::new(path, file, 1);
    file.around_cache = OnceLock::from(None);
    Arc::new(file)
}

/// A file of the machine.
#[derive(Debug)]
struct RealFile {
    path: PathBuf,
    file: File,
    /// More than 1 if the file was opened around the page cache.
    alignment: usize,
    /// The same file, written around the page cache, once a caller has asked for it.
    around_cache: OnceLock<Option<Arc<RealFile>>>,
}

impl RealFile {
    fn new(path: PathBuf, file: File, alignment: usize) -> RealFile {
        RealFile { path, file, alignment, around_cache: OnceLock::new() }
    }

    fn is_aligned(&self, buf: &[u8], offset: u64) -> bool {
        buf.as_ptr().addr().is_multiple_of(self.alignment)
            && buf.len().is_multiple_of(self.alignment)
            && offset.is_multiple_of(self.alignment as u64)
    }

    /// Reads a range that is aligned as the kernel requires.
    fn read_aligned(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", &self.path)(error)),
            }
            if !done.is_multiple_of(self.alignment) {
                break; // Around the page cache, only the end of the file stops there.
            }
        }
        Ok(done)
    }

    /// Reads an unaligned range around the page cache, through an aligned buffer.
    fn read_unaligned(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let span = (buf.len() + 2 * self.alignment).next_multiple_of(self.alignment);
        let mut bounce = AlignedBuffer::new(span.min(BOUNCE_BYTES_MAX));
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let skip = crate::usize_of(at % self.alignment as u64);
            let got = self.read_aligned(&mut bounce, at - skip as u64)?;
            let count = got.saturating_sub(skip).min(buf.len() - done);
            buf[done..done + count].copy_from_slice(&bounce[skip..skip + count]);
            done += count;
            if got < bounce.len() {
                break;
            }
        }
        Ok(done)
    }
}

impl DiskFile for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(Error::io("stat", &self.path))?.len())
    }

    fn stamp(&self) -> Result<FileStamp> {
        let metadata = self.file.metadata().map_err(Error::io("stat", &self.path))?;
        let seconds = i128::from(metadata.mtime());
        Ok(FileStamp {
            bytes: metadata.len(),
            modified: seconds * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
            identity: (metadata.dev(), metadata.ino()),
        })
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        if self.is_aligned(buf, offset) {
            self.read_aligned(buf, offset)
        } else {
            self.read_unaligned(buf, offset)
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(Error::io("write", &self.path))
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(Error::io("truncate", &self.path))
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        let reserved = sys::allocate(self.file.as_raw_fd(), bytes);
        if !reserved.map_err(Error::io("fallocate", &self.path))? && self.len()? < bytes {
            self.set_len(bytes)?;
        }
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data().map_err(Error::io("fdatasync", &self.path))
    }

    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<()> {
        sys::start_writeback(self.file.as_raw_fd(), offset, bytes)
            .map_err(Error::io("sync_file_range", &self.path))
    }

    fn map(&self) -> Result<Mapping> {
        Mapping::of_file(&self.file, &self.path).map_err(Error::io("mmap", &self.path))
    }

    fn map_range(&self, range: Range<u64>) -> Result<Mapping> {
        Mapping::of_range(&self.file, &self.path, range).map_err(Error::io("mmap", &self.path))
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.file.as_raw_fd())
    }

    fn around_cache(&self) -> Option<Arc<dyn DiskFile>> {
        let opened = self.around_cache.get_or_init(|| {
            // The file may have been renamed or removed.
            let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let opened = open_around_cache(OpenOptions::new().write(true), Path::new(&link));
            // Any error recurs when the file is written through the cache.
            let file = opened.ok().flatten()?;
            Some(Arc::new(RealFile::new(self.path.clone(), file, DIRECT_ALIGNMENT)))
        });
        opened.clone().map(|file| file as Arc<dyn DiskFile>)
    }

    fn alignment(&self) -> usize {
        self.alignment
    }
}

/// The `flock`s of a directory and of a file in it, which end with the open files.
#[derive(Debug)]
struct RealLock {
    path: PathBuf,
    files: (Option<File>, Option<File>),
}

impl DirLock for RealLock {
    fn path(&self) -> &Path {
        &self.path
    }

    fn is_in_place(&self) -> bool {
        let is_same = |held: &File, path: &Path| {
            let (Ok(held), Ok(named)) = (held.metadata(), fs::metadata(path)) else { return false };
            (held.dev(), held.ino()) == (named.dev(), named.ino())
        };
        match &self.files {
            (Some(folder), _) => is_same(folder, dir_of(&self.path)),
            (None, Some(file)) => is_same(file, &self.path),
            (None, None) => true,
        }
    }
}

fn ignore_not_found(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

#[cfg(target_os = "linux")]
fn open_around_cache(options: &mut OpenOptions, path: &Path) -> Result<Option<File>> {
    match options.custom_flags(libc::O_DIRECT).open(path).map_err(Error::io("open", path)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_around_cache(_options: &mut OpenOptions, _path: &Path) -> Result<Option<File>> {
    Ok(None)
}
