//! The division of an import's memory: the fixed shares of `--memory` that its parts may use.
//!
//! - Rows that wait to be sorted take at most `spill_from`. The rest is for the work on rows:
//!   records that are put together or packed, columns that are encoded, writes in flight.
//! - Shares are measured in bytes of the actual rows, and never by an assumed size of a row: a
//!   few rows may be a million times as large as the others.
//!
//! Not here: the budget itself (`platform::MemoryBudget`). Symbols, which cannot be spilled, and
//! some fixed buffers of each thread are not counted here.

use std::num::NonZeroUsize;

use tidegate_model::ByteCount;

use crate::layout::{BUFFER_TEXT_MAX, TEXT_PAGE_BYTES};

/// The memory of an import and the number of its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    memory: u64,
    workers: u64,
}

/// The size from which on a record waits for memory; smaller ones fit the buffers of a worker.
pub(crate) const LARGE_RECORD_BYTES: usize = 1 << 20;
/// The maximum size of a buffer that is kept for later rows.
const REUSED_BYTES_MAX: u64 = 64 << 20;
/// The maximum size of the interned texts of a text column that is not SYMBOL: they fit the L2
/// cache of a core.
const INTERNED_BYTES_MAX: u64 = 4 << 20;

impl Shares {
    pub(crate) fn new(memory: ByteCount, workers: NonZeroUsize) -> Shares {
        Shares { memory: memory.0, workers: workers.get() as u64 }
    }

    /// The whole memory.
    pub(crate) fn memory(&self) -> ByteCount {
        ByteCount(self.memory)
    }

    /// The bytes of waiting rows above which some are spilled.
    pub(crate) fn spill_from(&self) -> u64 {
        self.memory / 4 * 3
    }

    /// The maximum size of a record: it is in memory up to three times, as text, in its column
    /// buffer, and in its column.
    pub(crate) fn record_max(&self) -> usize {
        narrow(self.memory / 4)
    }

    /// The memory of all column buffers that are being filled.
    pub(crate) fn open_buffers(&self) -> u64 {
        self.memory / 4
    }

    /// The bytes of texts at which a column buffer is full.
    pub(crate) fn buffer_text_max(&self) -> usize {
        narrow(self.memory / 16 / self.workers).clamp(TEXT_PAGE_BYTES, BUFFER_TEXT_MAX)
    }

    /// The maximum size of a buffer that a worker keeps for later rows.
    pub(crate) fn reused_bytes_max(&self) -> usize {
        narrow((self.memory / 32 / self.workers).min(REUSED_BYTES_MAX))
    }

    /// The size of the writes of a worker that are in flight.
    pub(crate) fn in_flight_max(&self) -> usize {
        narrow(self.memory / 16 / self.workers)
    }

    /// The maximum size of the interned texts of each of a table's text columns.
    pub(crate) fn interned_max(&self, text_columns: usize) -> usize {
        let all = self.memory / 8 / self.workers;
        narrow((all / text_columns.max(1) as u64).min(INTERNED_BYTES_MAX))
    }

    /// The memory of the string compressors of all columns; it is not part of the budget for rows.
    pub(crate) fn compressors_max(&self) -> u64 {
        self.memory / 8
    }

    /// The memory of rows that are sorted and encoded at the same time, if symbols take `symbols`
    /// bytes. Symbols stay in memory until all rows are in segments. Rows get half of the remaining
    /// memory, but at least a quarter of the whole: with less, segments would have a few rows each.
    pub(crate) fn open_max(&self, symbols: u64) -> u64 {
        self.memory.saturating_sub(symbols).max(self.memory / 2) / 2
    }

    /// The memory of rows above which no more are read back from the spill file, if symbols take
    /// `symbols` bytes.
    pub(crate) fn read_back_max(&self, symbols: u64) -> u64 {
        self.open_max(symbols) / 4 * 5
    }

    /// The memory of columns that are encoded at the same time; each takes twice the size of its
    /// texts.
    pub(crate) fn encoded_max(&self) -> u64 {
        self.memory / 4
    }

    /// The size of the distinct texts above which a column of a segment gets no dictionary.
    pub(crate) fn distinct_max(&self) -> usize {
        narrow(self.memory / 16 / self.workers)
    }

    /// The maximum window of a zstd stream, as its logarithm: decompressed data is kept as far back
    /// as the stream may refer to it. Each decoder should support 8 MiB.
    pub(crate) fn window_log_max(&self) -> u32 {
        (self.memory / 4).max(1).ilog2().clamp(23, 27)
    }

    /// The memory of the pages and rows of a Parquet file that are decoded at the same time.
    pub(crate) fn decoded_max(&self) -> u64 {
        self.memory / 2
    }

    /// The share of `decoded_max` for one batch of rows.
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

    /// A million symbols took all of a small budget: segments had 128 rows, and three million rows
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
