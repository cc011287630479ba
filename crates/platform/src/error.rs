//! What can go wrong between us and the machine, as facts.
//!
//! - P3. Every error names the call and the path. What the call was for is added by the caller.

#![expect(missing_docs, reason = "the message of a variant is its documentation")]

use std::io;
use std::path::{Path, PathBuf};

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What the operating system, or a simulated disk, refused to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{call} {path}")]
    Io { call: &'static str, path: PathBuf, source: io::Error },
    #[error("{call} {path}: the simulated disk has lost power")]
    Crashed { call: &'static str, path: PathBuf },
    #[error("read {path}: wanted {wanted} bytes at offset {offset}, the file has {got} there")]
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

/// Why the kernel cannot be asked for io_uring.
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

/// Whose fault an error is.
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
    /// Whose fault it is, as far as one can tell without knowing what the call was for: a missing
    /// file is the environment's here, and may be the caller's to whoever took its name from one.
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

    /// The file or folder does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind() == Some(io::ErrorKind::NotFound)
    }

    /// The disk, or the quota on it, is full.
    pub fn is_no_space(&self) -> bool {
        matches!(self.kind(), Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// Returns true if the file system takes no writes.
    pub fn is_read_only(&self) -> bool {
        self.kind() == Some(io::ErrorKind::ReadOnlyFilesystem)
    }

    /// The file or folder exists, and was to be created.
    pub fn already_exists(&self) -> bool {
        self.kind() == Some(io::ErrorKind::AlreadyExists)
    }

    /// Somebody else holds the lock.
    pub fn would_lock(&self) -> bool {
        matches!(self, Error::Locked { .. })
    }

    /// The simulated disk has lost power: nothing works any more, as it should be in that test.
    pub fn is_crashed(&self) -> bool {
        matches!(self, Error::Crashed { .. })
    }

    /// The call that was to make something durable has failed, and not one before it: what was not
    /// durable may be lost, and no later call can tell.
    pub fn is_failed_sync(&self) -> bool {
        matches!(self, Error::Io { call: "fsync" | "fdatasync", .. })
    }

    /// The call has failed because of the file itself: it cannot be read, is no file, or may not be
    /// touched. Another file may be well, and the same call is not likely to succeed later.
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

    /// The same facts again, for whoever has to report a failure more than once.
    /// Whether a file system says that it knows no way around the page cache.
    pub(crate) fn is_unsupported(&self) -> bool {
        let Error::Io { source, .. } = self else { return false };
        matches!(source.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
    }

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

/// An error of the operating system is its number; all others of ours are a kind.
fn duplicate(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error.kind().into(),
    }
}
