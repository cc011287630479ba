//! Calls of a simulated disk: their counts, and the faults planned for them.

use std::path::{Path, PathBuf};

/// An error with which a call of a simulated disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SimErrno {
    /// EMFILE: the process has reached its limit of open files.
    TooManyFiles,
    /// EIO.
    Io,
    /// ENOSPC.
    NoSpace,
    /// EACCES.
    NoAccess,
    /// ENOMEM.
    NoMemory,
}

impl SimErrno {
    /// All errors.
    pub const ALL: [SimErrno; 5] = [
        SimErrno::TooManyFiles,
        SimErrno::Io,
        SimErrno::NoSpace,
        SimErrno::NoAccess,
        SimErrno::NoMemory,
    ];

    pub(super) fn code(self) -> libc::c_int {
        match self {
            SimErrno::TooManyFiles => libc::EMFILE,
            SimErrno::Io => libc::EIO,
            SimErrno::NoSpace => libc::ENOSPC,
            SimErrno::NoAccess => libc::EACCES,
            SimErrno::NoMemory => libc::ENOMEM,
        }
    }
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SimCall {
    /// Opens a file that exists, or a directory to sync it.
    Open,
    /// Opens a file that may be new.
    Create,
    /// Looks up the metadata of a file or directory, or gives a hint about it.
    Stat,
    /// Lists a directory.
    List,
    /// Creates directories.
    MakeDir,
    /// Renames a file or directory.
    Rename,
    /// Removes a file or directory.
    Remove,
    /// Reads from a file.
    Read,
    /// Maps a file.
    Map,
    /// Writes to a file. A planned fault writes nothing; see also `SimDisk::fail_write_at`.
    Write,
    /// Truncates or extends a file.
    Resize,
    /// Syncs a file. A planned fault makes nothing durable; see also `SimDisk::fail_sync_at`.
    Sync,
    /// Syncs a directory that is open.
    SyncDir,
    /// Takes a lock.
    Lock,
}

impl SimCall {
    /// All calls whose failure cannot lose bytes. A sync that fails may have lost some, which
    /// `SimDisk::fail_sync_at` simulates.
    pub const HARMLESS: [SimCall; 12] = [
        SimCall::Open,
        SimCall::Create,
        SimCall::Stat,
        SimCall::List,
        SimCall::MakeDir,
        SimCall::Rename,
        SimCall::Remove,
        SimCall::Read,
        SimCall::Map,
        SimCall::Write,
        SimCall::Resize,
        SimCall::Lock,
    ];
    const COUNT: usize = SimCall::Lock as usize + 1;

    /// The name of the call in an error.
    pub(super) fn name(self) -> &'static str {
        match self {
            SimCall::Open | SimCall::Create => "open",
            SimCall::Stat => "stat",
            SimCall::List => "list",
            SimCall::MakeDir => "mkdir",
            SimCall::Rename => "rename",
            SimCall::Remove => "remove",
            SimCall::Read => "read",
            SimCall::Map => "mmap",
            SimCall::Write => "write",
            SimCall::Resize => "truncate",
            SimCall::Sync => "fdatasync",
            SimCall::SyncDir => "fsync",
            SimCall::Lock => "lock",
        }
    }
}

/// Counts calls, and decides which of them fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    counts: [u64; SimCall::COUNT],
    planned: Vec<Planned>,
    folders: Vec<(PathBuf, Vec<SimCall>, SimErrno)>,
}

#[derive(Debug)]
struct Planned {
    call: SimCall,
    /// The count of the first call that fails.
    from: u64,
    errno: SimErrno,
    lasts: bool,
}

impl Faults {
    pub(super) fn plan(&mut self, call: SimCall, nth: u64, errno: SimErrno, lasts: bool) {
        self.planned.push(Planned { call, from: self.count(call) + nth, errno, lasts });
    }

    pub(super) fn plan_in(&mut self, dir: &Path, calls: &[SimCall], errno: SimErrno) {
        self.folders.push((dir.to_path_buf(), calls.to_vec(), errno));
    }

    pub(super) fn count(&self, call: SimCall) -> u64 {
        self.counts[call as usize]
    }

    pub(super) fn clear(&mut self) {
        self.planned.clear();
        self.folders.clear();
    }

    /// Counts a call, and returns the error with which it fails, if it does.
    pub(super) fn happens(&mut self, call: SimCall, path: &Path) -> Option<SimErrno> {
        self.counts[call as usize] += 1;
        let is_in = |(dir, calls, _): &&(PathBuf, Vec<SimCall>, SimErrno)| {
            calls.contains(&call) && path.starts_with(dir)
        };
        if let Some((_, _, errno)) = self.folders.iter().find(is_in) {
            return Some(*errno);
        }
        let count = self.counts[call as usize];
        let is_due =
            |it: &Planned| it.call == call && (it.from == count || it.lasts && it.from < count);
        let at = self.planned.iter().position(is_due)?;
        let errno = self.planned[at].errno;
        if !self.planned[at].lasts {
            self.planned.remove(at);
        }
        Some(errno)
    }
}
