//! Errors of calls to the operating system and to simulated disks.
//!
//! - Every error names the call and the path. The caller adds the purpose of the call.

#![expect(missing_docs, reason = "the message of a variant is its documentation")]

use std::io;
use std::path::{Path, PathBuf};

/// The result of a function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the operating system, or of a simulated disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{call} {path}")]
    Io { call: &'static str, path: PathBuf, source: io::Error },
    #[error("{call} {path}: the simulated disk has lost power")]
    Crashed { call: &'static str, path: PathBuf },
    #[error("read {path}: expected {wanted} bytes at offset {offset}, found {got}")]
    Short { path: PathBuf, offset: u64, wanted: usize, got: usize },
    #[error("lock {path}: held by another process or another handle")]
    Locked { path: PathBuf },
    #[error("read {path}: the file shrank from {expected} to {actual} bytes while it was read")]
    Shrank { path: PathBuf, expected: u64, actual: u64 },
    #[error("open {path}: it is a pipe, a socket or a device, and not a file")]
    NoFile { path: PathBuf },
    #[error("io_uring is not available")]
    NoUring {
        #[source]
        reason: NoUringReason,
    },
}

/// The reason why io_uring is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoUringReason {
    #[error("this operating system does not have it")]
    OperatingSystem,
    #[error("{call}")]
    Setup { call: &'static str, source: io::Error },
    #[error("this kernel lacks {operation}")]
    Operation { operation: &'static str },
}

/// The class of an error: what has to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Change the request.
    Caller,
    /// Repair the machine, then retry.
    Environment,
    /// The bytes are not what was written.
    Corruption,
}

impl Error {
    /// The class of the error, judged without knowing the purpose of the call: a missing file is an
    /// error of the environment here. Code that takes the name of the file from a request may
    /// report it as an error of the caller.
    pub fn class(&self) -> Class {
        match self {
            Error::NoUring { .. } => Class::Caller,
            Error::Io { .. }
            | Error::Crashed { .. }
            | Error::Locked { .. }
            | Error::NoFile { .. }
            | Error::Shrank { .. } => Class::Environment,
            Error::Short { .. } => Class::Corruption,
        }
    }

    /// Returns true if the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind() == Some(io::ErrorKind::NotFound)
    }

    /// Returns true if the disk, or the quota on it, is full.
    pub fn is_no_space(&self) -> bool {
        matches!(self.kind(), Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// Returns true if the file system is read-only.
    pub fn is_read_only(&self) -> bool {
        self.kind() == Some(io::ErrorKind::ReadOnlyFilesystem)
    }

    /// Returns true if the process has as many open files as it may have.
    pub fn is_too_many_files(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.raw_os_error() == Some(libc::EMFILE))
    }

    /// Returns true if the file or directory was to be created, and exists already.
    pub fn already_exists(&self) -> bool {
        self.kind() == Some(io::ErrorKind::AlreadyExists)
    }

    /// Returns true if another handle or process holds the lock.
    pub fn would_lock(&self) -> bool {
        matches!(self, Error::Locked { .. })
    }

    /// Returns true if the simulated disk has lost power, after which every call fails.
    pub fn is_crashed(&self) -> bool {
        matches!(self, Error::Crashed { .. })
    }

    /// Returns true if a sync itself failed, and not a call before it: data that was not durable
    /// may be lost, and no later call can detect that.
    pub fn is_failed_sync(&self) -> bool {
        matches!(self, Error::Io { call: "fsync" | "fdatasync", .. })
    }

    /// Returns true if the call failed because of the file itself: it cannot be read, is not a
    /// file, or access is denied. Other files may be usable, and the same call is not likely to
    /// succeed later.
    pub fn is_of_file(&self) -> bool {
        const OF_FILE: [i32; 6] =
            [libc::EIO, libc::EACCES, libc::EPERM, libc::EISDIR, libc::ENOTDIR, libc::ELOOP];
        match self {
            Error::Short { .. } | Error::Shrank { .. } | Error::NoFile { .. } => true,
            Error::Io { source, .. } => {
                source.raw_os_error().is_some_and(|code| OF_FILE.contains(&code))
            }
            Error::Crashed { .. } | Error::Locked { .. } | Error::NoUring { .. } => false,
        }
    }

    /// For `map_err`: adds the call and the path.
    pub(crate) fn io(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { call, path: path.to_path_buf(), source }
    }

    /// Returns true if a file system reports that it cannot write around the page cache.
    pub(crate) fn is_unsupported(&self) -> bool {
        let Error::Io { source, .. } = self else { return false };
        matches!(source.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
    }

    /// A copy of the error, for callers that report a failure more than once.
    pub(crate) fn duplicate(&self) -> Error {
        match self {
            Error::Io { call, path, source } => {
                Error::Io { call, path: path.clone(), source: duplicate(source) }
            }
            Error::Crashed { call, path } => Error::Crashed { call, path: path.clone() },
            Error::Short { path, offset, wanted, got } => {
                Error::Short { path: path.clone(), offset: *offset, wanted: *wanted, got: *got }
            }
            Error::Locked { path } => Error::Locked { path: path.clone() },
            Error::NoFile { path } => Error::NoFile { path: path.clone() },
            Error::Shrank { path, expected, actual } => {
                Error::Shrank { path: path.clone(), expected: *expected, actual: *actual }
            }
            Error::NoUring { reason } => Error::NoUring { reason: reason.duplicate() },
        }
    }

    fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Error::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }
}

impl NoUringReason {
    fn duplicate(&self) -> NoUringReason {
        match self {
            NoUringReason::OperatingSystem => NoUringReason::OperatingSystem,
            NoUringReason::Setup { call, source } => {
                NoUringReason::Setup { call, source: duplicate(source) }
            }
            NoUringReason::Operation { operation } => NoUringReason::Operation { operation },
        }
    }
}

/// A copy of an error: an error of the operating system by its number, all others by their kind.
fn duplicate(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error.kind().into(),
    }
}
