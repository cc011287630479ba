//! Bytes that were written for a table.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that were written for a table since the database was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableWrites {
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Bytes of the segments that its flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes of the segments that its compactions wrote.
    pub compacted_bytes: u64,
}

/// See [`TableWrites`].
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    log: AtomicU64,
    flushed: AtomicU64,
    compacted: AtomicU64,
}

impl WriteCounters {
    pub(crate) fn add_log(&self, bytes: u64) {
        self.log.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_flushed(&self, bytes: u64) {
        self.flushed.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_compacted(&self, bytes: u64) {
        self.compacted.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> TableWrites {
        TableWrites {
            log_bytes: self.log.load(Ordering::Relaxed),
            flushed_bytes: self.flushed.load(Ordering::Relaxed),
            compacted_bytes: self.compacted.load(Ordering::Relaxed),
        }
    }
}
