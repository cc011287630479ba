//! The choice between io_uring and blocking calls: the mode requested, and the one that is
//! available.

use std::fmt;

use crate::Result;
#[cfg(not(target_os = "linux"))]
use crate::{Error, NoUringReason};

/// The requested mode of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoMode {
    /// The best mode that this machine supports.
    Auto,
    /// io_uring, or an error.
    Uring,
    /// One blocking call after the other.
    Sync,
    /// The mode of a simulated disk.
    Simulated {
        /// The seed of the order in which writes are finished.
        seed: u64,
    },
}

/// The mode of I/O that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoChoice {
    /// Several operations in flight, in one ring for each thread.
    Uring,
    /// One blocking call after the other.
    Sync,
    /// On a simulated disk: several writes in flight, finished in an order that the seed
    /// determines.
    Simulated {
        /// The same seed gives the same order.
        seed: u64,
    },
}

impl fmt::Display for IoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoChoice::Uring => "io_uring",
            IoChoice::Sync => "pread/pwrite",
            IoChoice::Simulated { .. } => "simulated",
        })
    }
}

/// Detects whether the kernel has io_uring and permits it, by using it.
///
/// Fails with [`Error::NoUring`](crate::Error::NoUring) if it was requested and is not available.
pub fn detect_io(mode: IoMode) -> Result<IoChoice> {
    match mode {
        IoMode::Sync => Ok(IoChoice::Sync),
        IoMode::Simulated { seed } => Ok(IoChoice::Simulated { seed }),
        IoMode::Uring => probe().map(|()| IoChoice::Uring),
        IoMode::Auto => Ok(probe().map_or(IoChoice::Sync, |()| IoChoice::Uring)),
    }
}

#[cfg(target_os = "linux")]
fn probe() -> Result<()> {
    crate::uring::probe()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn probe() -> Result<()> {
    Err(Error::NoUring { reason: NoUringReason::OperatingSystem })
}
