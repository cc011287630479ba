//! Progress of an import: counters that its threads increment and other threads may read.
//!
//! Not here: the display of progress, which the command line does.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// The counters of a running import. All accesses are relaxed: the counters guard nothing.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    /// The size of the input; 0 while it is not known.
    bytes_total: AtomicU64,
    bytes_read: AtomicU64,
    rows_read: AtomicU64,
    rows_written: AtomicU64,
    rows_rejected: AtomicU64,
    memory_bytes: AtomicU64,
    spilled_bytes: AtomicU64,
}

/// The phase of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Inspecting the input and the table.
    Setup = 0,
    /// Reading, parsing and scattering rows.
    Read = 1,
    /// Sorting, encoding and writing segments.
    Build = 2,
    /// Syncing segments and committing.
    Commit = 3,
    /// Committed.
    Done = 4,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy)]
pub struct ProgressSample {
    /// The phase of the import.
    pub phase: Phase,
    /// The bytes of the input that were read, compressed ones if it is compressed.
    pub bytes_read: u64,
    /// The size of the input; `None` for a pipe.
    pub bytes_total: Option<u64>,
    /// Records read.
    pub rows_read: u64,
    /// Rows whose segments are encoded.
    pub rows_written: u64,
    /// Records left out.
    pub rows_rejected: u64,
    /// The memory that is counted against the budget.
    pub memory_bytes: u64,
    /// Bytes that were written to scratch files and read back, counted as they are read.
    pub spilled_bytes: u64,
}

impl Progress {
    /// Creates counters of 0.
    #[must_use]
    pub fn new() -> Progress {
        Progress::default()
    }

    /// The present counters. They are read one by one, so they may belong to slightly different
    /// moments.
    #[must_use]
    pub fn sample(&self) -> ProgressSample {
        let phase = match self.phase.load(Relaxed) {
            0 => Phase::Setup,
            1 => Phase::Read,
            2 => Phase::Build,
            3 => Phase::Commit,
            _ => Phase::Done,
        };
        ProgressSample {
            phase,
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_total: Some(self.bytes_total.load(Relaxed)).filter(|&total| total > 0),
            rows_read: self.rows_read.load(Relaxed),
            rows_written: self.rows_written.load(Relaxed),
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

    pub(crate) fn add_rows_written(&self, rows: u64) {
        self.rows_written.fetch_add(rows, Relaxed);
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
            Phase::Build => "build",
            Phase::Commit => "commit",
            Phase::Done => "done",
        })
    }
}
