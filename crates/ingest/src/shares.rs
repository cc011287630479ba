//! How an import divides its memory: each share is a part of `--memory`, and this is their home.
//!
//! - SH1. Rows on their way take at most `spill_from`; what works on them takes the rest: a record
//!   that is put together or packed, columns that are encoded, writes in flight.
//! - SH2. Shares are bytes of the rows that are there, and never what rows of some size would take:
//!   a few of them may be a million times as large as the others.
//!
//! Not here: the account itself (`platform::MemoryBudget`). Symbols, which cannot be spilled, and
//! some fixed buffers of each thread are beside the shares.

use std::num::NonZeroUsize;

use tidegate_model::ByteCount;

use crate::layout::{SLAB_TEXT_MAX, TEXT_PAGE_BYTES};

/// The memory of an import and the number of those that share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    memory: u64,
    workers: u64,
}

/// Records from this size on wait for memory; smaller ones are within what each worker has.
pub(crate) const LARGE_RECORD_BYTES: usize = 1 << 20;
/// Buffers of more bytes are not kept for later rows.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// The interned texts of a column that is no symbol stay within a core's L2.
const INTERNED_BYTES_MAX: u64 = 4 << 20;

impl Shares {
    pub(crate) fn new(memory: ByteCount, workers: NonZeroUsize) -> Shares {
        Shares { memory: memory.0, workers: workers.get() as u64 }
    }

    /// All of it.
    pub(crate) fn memory(&self) -> ByteCount {
        ByteCount(self.memory)
    }

    /// Rows in memory from which on some are spilled.
    pub(crate) fn spill_from(&self) -> u64 {
        self.memory / 4 * 3
    }

    /// A record: it is there up to three times, as text, in its slab, and in its column.
    pub(crate) fn record_max(&self) -> usize {
        narrow(self.memory / 4)
    }

    /// All slabs that are being filled.
    pub(crate) fn open_slabs(&self) -> u64 {
        self.memory / 4
    }

    /// The texts of a slab, from which on it is full.
    pub(crate) fn slab_text_max(&self) -> usize {
        narrow(self.memory / 16 / self.workers).clamp(TEXT_PAGE_BYTES, SLAB_TEXT_MAX)
    }

    /// What a worker keeps of a buffer for later rows.
    pub(crate) fn kept_max(&self) -> usize {
        narrow((self.memory / 32 / self.workers).min(KEPT_BYTES_MAX))
    }

    /// The writes of a worker that are in flight.
    pub(crate) fn in_flight_max(&self) -> usize {
        narrow(self.memory / 16 / self.workers)
    }

    /// What each of a table's text columns may intern.
    pub(crate) fn interned_max(&self, text_columns: usize) -> usize {
        let all = self.memory / 8 / self.workers;
        narrow((all / text_columns.max(1) as u64).min(INTERNED_BYTES_MAX))
    }

    /// Rows that are sorted and encoded at the same time, while symbols have so many bytes. These
    /// stay in memory until rows are sealed; rows have the rest, and half of all in any case: with
    /// less, segments would have a few rows each.
    pub(crate) fn open_max(&self, symbols: u64) -> u64 {
        self.memory.saturating_sub(symbols).max(self.memory / 2) / 2
    }

    /// Rows in memory, beside symbols, before some are read back from the spill file.
    pub(crate) fn read_back_max(&self, symbols: u64) -> u64 {
        self.open_max(symbols) / 4 * 5
    }

    /// Columns that are encoded at the same time, each as large as its texts twice.
    pub(crate) fn encoded_max(&self) -> u64 {
        self.memory / 4
    }

    /// The distinct texts of a column of a segment, from which on it has no dictionary.
    pub(crate) fn distinct_max(&self) -> usize {
        narrow(self.memory / 16 / self.workers)
    }

    /// The greatest window of a zstd stream, as its logarithm: what is decompressed is kept as far
    /// back as the stream may refer to it. 8 MiB are what each decoder should have.
    pub(crate) fn window_log_max(&self) -> u32 {
        (self.memory / 4).max(1).ilog2().clamp(23, 27)
    }

    /// The pages and rows of a Parquet file that are decoded at the same time.
    pub(crate) fn decoded_max(&self) -> u64 {
        self.memory / 2
    }

    /// What of these a batch of rows may be.
    pub(crate) fn batch_max(&self) -> u64 {
        self.memory / 16 / self.workers
    }
}

fn narrow(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million symbols took all of a small budget: segments had 128 rows, and three million
    /// needed more open files than a process may have.
    #[test]
    fn symbols_leave_room_for_rows() {
        let mib = |count: u64| count << 20;
        let shares = Shares::new(ByteCount(mib(64)), NonZeroUsize::MIN);
        assert_eq!(shares.open_max(0), mib(32));
        assert_eq!(shares.open_max(mib(16)), mib(24));
        for symbols in [mib(32), mib(64), mib(600)] {
            assert_eq!(shares.open_max(symbols), mib(16));
        }
    }
}
