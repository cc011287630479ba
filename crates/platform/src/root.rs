//! A root directory that confines paths from elsewhere, for example from a statement.
//!
//! - root-1. The directory is opened once, and everything below it by its handle. A path is opened
//!   as given, by the kernel, which refuses to leave the directory, whatever links it contains and
//!   however they change meanwhile (`openat2`). Where the kernel does not support that, no link is
//!   followed.
//! - root-2. An absolute path, an empty part, `..` and NUL are refused before anything is opened.
//! - root-3. Only regular files are opened, without waiting for pipes; from then on the name is not
//!   used.
//! - root-4. A new file appears under its name as a whole, and never replaces another one.
//!
//! Not here: the content of files, and the error messages for the client.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::{DiskFile, Error, Result, real};

/// Attempts to open a path that changes while the kernel resolves it.
#[cfg(target_os = "linux")]
const TRIES: usize = 64;

/// The result of opening a path below the directory.
pub type Opened<T> = std::result::Result<T, RootError>;

/// An open root directory.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    folder: OwnedFd,
    /// True if the kernel confines paths to the directory (root-1).
    is_confined_by_kernel: bool,
}

/// The reason why a path below the directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of a variant is its documentation")]
pub enum RootError {
    #[error("the path leads out of its directory, or must not be opened")]
    Refused,
    #[error("there is no such file")]
    NotFound,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("the file exists already")]
    Exists,
    #[error(transparent)]
    Io(#[from] Error),
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootEntry {
    /// The name without the directory.
    pub name: String,
    /// True for a directory that is not reached through a link.
    pub is_dir: bool,
    /// True for a regular file, perhaps through a link that stays below the root.
    pub is_file: bool,
    /// The length of the file.
    pub bytes: u64,
    /// The time of the last write, in microseconds since 1970.
    pub modified: i64,
}

impl Root {
    /// Opens the directory, which must exist.
    pub fn open(path: &Path) -> Result<Root> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = fs::open(path, flags, Mode::empty()).map_err(io_error("open", path))?;
        let is_confined_by_kernel = kernel_confines(&folder);
        Ok(Root { path: path.to_path_buf(), folder, is_confined_by_kernel })
    }

    /// As `open`, but follows no link.
    #[cfg(test)]
    fn open_without_links(path: &Path) -> Result<Root> {
        Ok(Root { is_confined_by_kernel: false, ..Root::open(path)? })
    }

    /// The path under which the directory was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if another directory is this one or lies in it, after resolving links.
    pub fn contains(&self, other: &Path) -> bool {
        resolved(other).starts_with(resolved(&self.path))
    }

    /// Returns true if this directory is another one or lies in it.
    pub fn lies_in(&self, other: &Path) -> bool {
        resolved(&self.path).starts_with(resolved(other))
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, path: &str) -> Opened<Arc<dyn DiskFile>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_below(path, flags)?;
        // Errors of reading may reach the client that named the file: they contain only its name.
        let full = PathBuf::from(path);
        let metadata = fs::fstat(&file).map_err(io_error("stat", &full))?;
        if FileType::from_raw_mode(metadata.st_mode) != FileType::RegularFile {
            return Err(RootError::NotAFile);
        }
        // Some queues of the kernel refuse reads that must not wait (O_NONBLOCK), so the flag is
        // cleared.
        fs::fcntl_setfl(&file, OFlags::empty()).map_err(io_error("fcntl", &full))?;
        Ok(real::opened(full, File::from(file)))
    }

    /// The entries of a directory, sorted by name; the root itself is the empty path. Names that
    /// are not UTF-8 are skipped, because no statement can name them.
    pub fn list(&self, path: &str) -> Opened<Vec<RootEntry>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = match path {
            "" => self.open_below(".", flags)?,
            path => self.open_below(path, flags)?,
        };
        let full = PathBuf::from(path);
        let entries = Dir::read_from(&folder).map_err(io_error("list", &full))?;
        let mut listed = Vec::new();
        for entry in entries {
            let entry = entry.map_err(io_error("list", &full))?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            listed.extend(self.entry(path, name));
        }
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    /// The entry of this name; `None` if it has vanished, or may not be accessed.
    fn entry(&self, folder: &str, name: &str) -> Option<RootEntry> {
        let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let flags = if cfg!(target_os = "linux") {
            OFlags::from_bits_retain(libc::O_PATH.cast_unsigned())
        } else {
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY
        };
        let file = self.open_below(&path, flags).ok()?;
        let metadata = fs::fstat(&file).ok()?;
        let own = fs::statat(&self.folder, path.as_str(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let kind = FileType::from_raw_mode(metadata.st_mode);
        let is_link = FileType::from_raw_mode(own.st_mode) == FileType::Symlink;
        let nanos = i64::try_from(metadata.st_mtime_nsec).unwrap_or(0);
        Some(RootEntry {
            name: name.to_owned(),
            is_dir: kind == FileType::Directory && !is_link,
            is_file: kind == FileType::RegularFile,
            bytes: u64::try_from(metadata.st_size).unwrap_or(0),
            modified: metadata.st_mtime.saturating_mul(1_000_000).saturating_add(nanos / 1_000),
        })
    }

    /// Creates a new file, whose directory must exist.
    pub fn create(&self, path: &str) -> Opened<RootFile> {
        check(path)?;
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        if matches!(name, "." | "..") {
            return Err(RootError::Refused);
        }
        let folder = self.open_below(folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
        if fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Err(RootError::Exists);
        }
        let partial = partial_name(name);
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
        let full = PathBuf::from(path);
        let file = fs::openat(&folder, partial.as_str(), flags, mode);
        let file = file.map_err(|error| root_error(error, "open", &full))?;
        give_to_owner(&folder, &file);
        let file = real::opened(full, File::from(file));
        Ok(RootFile { folder, partial, name: name.to_owned(), file, is_whole: false })
    }

    /// Opens a path below the directory (root-1, root-2).
    fn open_below(&self, path: &str, flags: OFlags) -> Opened<OwnedFd> {
        check(path)?;
        let flags = flags | OFlags::CLOEXEC;
        #[cfg(target_os = "linux")]
        if self.is_confined_by_kernel {
            for _ in 0..TRIES {
                match open_confined(&self.folder, path, flags) {
                    // The path changed while the kernel resolved it.
                    Err(Errno::AGAIN) => {}
                    opened => {
                        return opened.map_err(|error| root_error(error, "open", Path::new(path)));
                    }
                }
            }
            return Err(RootError::Refused);
        }
        self.open_in_steps(path, flags)
    }

    /// Opens the path part by part, without following links.
    fn open_in_steps(&self, path: &str, flags: OFlags) -> Opened<OwnedFd> {
        let fail = |error| root_error(error, "open", Path::new(path));
        let mut parts = path.split('/').filter(|part| *part != ".").peekable();
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = fs::openat(&self.folder, ".", folder, Mode::empty()).map_err(fail)?;
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_some() { folder } else { flags };
            let opened = fs::openat(&at, part, flags | OFlags::NOFOLLOW, Mode::empty());
            at = opened.map_err(|error| match error {
                // A link in place of a directory.
                Errno::NOTDIR if is_link(&at, part) => RootError::Refused,
                error => fail(error),
            })?;
            if FileType::from_raw_mode(fs::fstat(&at).map_err(fail)?.st_mode) == FileType::Symlink {
                return Err(RootError::Refused);
            }
        }
        Ok(at)
    }
}

/// A file that is being written. Without `finish`, it is removed.
#[derive(Debug)]
pub struct RootFile {
    folder: OwnedFd,
    /// The name of the file until it is complete.
    partial: String,
    name: String,
    file: Arc<dyn DiskFile>,
    is_whole: bool,
}

impl RootFile {
    /// The file to write to.
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// Makes the file durable, and gives it its name (root-4).
    pub fn finish(mut self) -> Opened<()> {
        self.file.sync_data()?;
        let path = self.file.path().to_path_buf();
        let (from, to) = (self.partial.as_str(), self.name.as_str());
        let named = fs::linkat(&self.folder, from, &self.folder, to, AtFlags::empty());
        named.map_err(|error| root_error(error, "link", &path))?;
        self.is_whole = true;
        fs::unlinkat(&self.folder, from, AtFlags::empty()).map_err(io_error("unlink", &path))?;
        fs::fsync(&self.folder).map_err(io_error("fsync", &path))?;
        Ok(())
    }
}

impl Drop for RootFile {
    fn drop(&mut self) {
        if !self.is_whole {
            // Best effort: the name of the file shows that it is not complete.
            let _ = fs::unlinkat(&self.folder, self.partial.as_str(), AtFlags::empty());
        }
    }
}

/// The path with links resolved, as far as possible.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// Checks root-2.
fn check(path: &str) -> Opened<()> {
    let is_bad = |part: &str| part.is_empty() || part == "..";
    if path.contains('\0') || path.split('/').any(is_bad) {
        return Err(RootError::Refused);
    }
    Ok(())
}

/// A name that no other file of this process has.
fn partial_name(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    // The name itself may already have the maximal length of the file system.
    let short = name.char_indices().nth(64).map_or(name, |(end, _)| &name[..end]);
    format!("{short}.{}-{number}.partial", std::process::id())
}

fn is_link(folder: &OwnedFd, name: &str) -> bool {
    fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

#[cfg(target_os = "linux")]
fn open_confined(folder: &OwnedFd, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = fs::ResolveFlags::BENEATH | fs::ResolveFlags::NO_MAGICLINKS;
    fs::openat2(folder, path, flags, Mode::empty(), resolve)
}

/// Returns true if the kernel has the call, and no filter of system calls blocks it.
#[cfg(target_os = "linux")]
fn kernel_confines(folder: &OwnedFd) -> bool {
    open_confined(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn kernel_confines(_folder: &OwnedFd) -> bool {
    false
}

fn io_error(call: &'static str, path: &Path) -> impl FnOnce(Errno) -> Error {
    let fail = Error::io(call, path);
    move |error| fail(io::Error::from(error))
}

fn root_error(error: Errno, call: &'static str, path: &Path) -> RootError {
    match error {
        Errno::NOENT | Errno::NOTDIR => RootError::NotFound,
        Errno::EXIST => RootError::Exists,
        // A directory that cannot be read, a socket, a device without a driver.
        Errno::ISDIR | Errno::NXIO | Errno::NODEV => RootError::NotAFile,
        Errno::XDEV | Errno::LOOP | Errno::ACCESS | Errno::PERM | Errno::NAMETOOLONG => {
            RootError::Refused
        }
        error => RootError::Io(io_error(call, path)(error)),
    }
}

/// Gives a new file the owner of its directory, as for other new files (`real` real-1).
fn give_to_owner(folder: &OwnedFd, file: &OwnedFd) {
    if let (Ok(owner), Ok(own)) = (fs::fstat(folder), fs::fstat(file))
        && (own.st_uid, own.st_gid) != (owner.st_uid, owner.st_gid)
    {
        let (uid, gid) = (fs::Uid::from_raw(owner.st_uid), fs::Gid::from_raw(owner.st_gid));
        // Without root's rights, the owner cannot be changed, and the file stays ours.
        let _ = fs::fchown(file, Some(uid), Some(gid));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory that contains a root and something beside it.
    fn world() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("day=1")).unwrap();
        std::fs::write(root.join("a.csv"), "inside").unwrap();
        std::fs::write(root.join("day=1/b.csv"), "deep").unwrap();
        std::fs::write(folder.path().join("secret"), "outside").unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("out", root.join("chain")).unwrap();
        symlink("/proc/self/fd/0", root.join("magic")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("a.csv", root.join("in")).unwrap();
        let fifo = rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("fifo"),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        );
        fifo.unwrap();
        (folder, root)
    }

    fn shown(outcome: Opened<Arc<dyn DiskFile>>) -> String {
        match outcome {
            Ok(file) => {
                let mut bytes = vec![0; 64];
                let count = file.read_at(&mut bytes, 0).unwrap();
                String::from_utf8(bytes[..count].to_vec()).unwrap()
            }
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn nothing_outside_is_opened() {
        let (_folder, root) = world();
        for root in [Root::open(&root).unwrap(), Root::open_without_links(&root).unwrap()] {
            for path in [
                "../secret",
                "day=1/../../secret",
                "/etc/passwd",
                "",
                "a//b",
                "a\0",
                "out",
                "chain",
                "magic",
                "up/secret",
                "up/nothing",
            ] {
                assert_eq!(shown(root.open_file(path)), "Refused", "root-1, root-2: {path}");
            }
            assert_eq!(shown(root.open_file("a.csv")), "inside");
            assert_eq!(shown(root.open_file("./day=1/b.csv")), "deep");
            assert_eq!(shown(root.open_file("missing")), "NotFound");
            assert_eq!(shown(root.open_file("a.csv/x")), "NotFound");
            for path in ["fifo", "day=1"] {
                assert_eq!(shown(root.open_file(path)), "NotAFile", "root-3: {path}");
            }
        }
    }

    #[test]
    fn a_link_that_stays_inside_is_followed_where_the_kernel_watches() {
        let (_folder, path) = world();
        let root = Root::open(&path).unwrap();
        let expected = if root.is_confined_by_kernel { "inside" } else { "Refused" };
        assert_eq!(shown(root.open_file("in")), expected, "root-1");
        let root = Root::open_without_links(&path).unwrap();
        assert_eq!(shown(root.open_file("in")), "Refused", "root-1");
    }

    #[test]
    fn a_folder_lists_what_may_be_opened() {
        let (_folder, root) = world();
        let root = Root::open_without_links(&root).unwrap();
        let listed = |path: &str| {
            let entries = root.list(path).unwrap();
            let files = entries.into_iter().filter(|it| it.is_file || it.is_dir);
            files.map(|it| (it.name, it.is_dir, it.bytes)).collect::<Vec<_>>()
        };
        let day = root.list("").unwrap().into_iter().find(|it| it.is_dir).unwrap();
        assert_eq!(day.name, "day=1");
        assert!(listed("").contains(&("a.csv".to_owned(), false, 6)));
        assert!(!listed("").iter().any(|(name, ..)| name == "out" || name == "fifo"));
        assert_eq!(listed("day=1"), [("b.csv".to_owned(), false, 4)]);
        assert!(matches!(root.list("up"), Err(RootError::Refused)));
    }

    #[test]
    fn a_new_file_appears_as_a_whole_and_replaces_none() {
        let (_folder, path) = world();
        let root = Root::open(&path).unwrap();
        let new = root.create("day=1/new").unwrap();
        new.file().write_all_at(b"abc", 0).unwrap();
        assert!(!path.join("day=1/new").exists(), "root-4");
        new.finish().unwrap();
        assert_eq!(std::fs::read(path.join("day=1/new")).unwrap(), b"abc", "root-4");
        assert!(matches!(root.create("day=1/new"), Err(RootError::Exists)));
        let (first, second) = (root.create("x").unwrap(), root.create("x").unwrap());
        first.finish().unwrap();
        assert!(matches!(second.finish(), Err(RootError::Exists)), "root-4");
        drop(root.create("given_up").unwrap());
        let left = std::fs::read_dir(&path).unwrap().map(|it| it.unwrap().file_name());
        assert!(!left.into_iter().any(|it| it.to_string_lossy().contains("partial")), "root-4");
        for path in ["out", "up/new", "..", "../new", "missing/new"] {
            assert!(root.create(path).is_err(), "root-1: {path}");
        }
    }
}
