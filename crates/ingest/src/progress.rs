//! How far an import is: counters that its threads raise and others may look at.
//!
//! Not here: showing it, which is the command line's.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Counters of a running import. Relaxed everywhere: they guard nothing.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    /// 0 while it is not known.
    bytes_total: AtomicU64,
    bytes_read: AtomicU64,
    rows_read: AtomicU64,
    rows_sealed: AtomicU64,
    rows_rejected: AtomicU64,
    memory_bytes: AtomicU64,
    spilled_bytes: AtomicU64,
}

/// What an import is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Looks at the input and the table.
    Setup = 0,
    /// Reads, parses and distributes rows.
    Read = 1,
    /// Sorts, encodes and writes segments.
    Seal = 2,
    /// Syncs segments and commits.
    Commit = 3,
    /// Has committed.
    Done = 4,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy)]
pub struct ProgressSample {
    /// What it is doing.
    pub phase: Phase,
    /// Bytes of the input as it is stored, so compressed ones if it is compressed.
    pub bytes_read: u64,
    /// All bytes of the input; `None` for a pipe.
    pub bytes_total: Option<u64>,
    /// Records met.
    pub rows_read: u64,
    /// Rows whose segments are encoded.
    pub rows_sealed: u64,
    /// Records left out.
    pub rows_rejected: u64,
    /// Memory counted against the budget.
    pub memory_bytes: u64,
    /// Bytes written to and read back from scratch files.
    pub spilled_bytes: u64,
}

impl Progress {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new() -> Progress {
        Progress::default()
    }

    /// The counters now. They are read one by one, so they may be of slightly different moments.
    #[must_use]
    pub fn sample(&self) -> ProgressSample {
        let phase = match self.phase.load(Relaxed) {
            0 => Phase::Setup,
            1 => Phase::Read,
            2 => Phase::Seal,
            3 => Phase::Commit,
            _ => Phase::Done,
        };
        ProgressSample {
            phase,
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_total: Some(self.bytes_total.load(Relaxed)).filter(|&total| total > 0),
            rows_read: self.rows_read.load(Relaxed),
            rows_sealed: self.rows_sealed.load(Relaxed),
            rows_rejected: self.rows_rejected.load(Relaxed),
            memory_bytes: self.memory_bytes.load(Relaxed),
            spilled_bytes: self.spilled_bytes.load(Relaxed),
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    pub(crate) fn set_bytes_total(&self, bytes: u64) {
        self.bytes_total.store(bytes, Relaxed);
    }

    pub(crate) fn set_memory(&self, bytes: u64) {
        self.memory_bytes.store(bytes, Relaxed);
    }

    pub(crate) fn add_bytes_read(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn add_rows_read(&self, rows: u64) {
        self.rows_read.fetch_add(rows, Relaxed);
    }

    pub(crate) fn add_rows_sealed(&self, rows: u64) {
        self.rows_sealed.fetch_add(rows, Relaxed);
    }

    pub(crate) fn add_rows_rejected(&self, rows: u64) {
        self.rows_rejected.fetch_add(rows, Relaxed);
    }

    pub(crate) fn add_spilled(&self, bytes: u64) {
        self.spilled_bytes.fetch_add(bytes, Relaxed);
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Setup => "setup",
            Phase::Read => "read",
            Phase::Seal => "seal",
            Phase::Commit => "commit",
            Phase::Done => "done",
        })
    }
}
