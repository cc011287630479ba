//! The memory of the texts that a scan decodes.
//!
//! - text_memory-1. The texts that are decoded at a time have at most `TextMemory::bytes_max`
//!   bytes, or are those of a single row: a batch has fewer rows where texts are long.
//! - text_memory-2. They are charged to the statement before they are decoded, unless they are
//!   small, until the batch that they are in was handed on and the next one is asked for.
//!
//! Not here: the sizes of texts (`TextSizes`), and batches that wait for their reader (`stream`).

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, GenericByteViewArray};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::ByteViewType;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use tidegate_model::limits::COUNTED_VALUE_BYTES;
use tidegate_storage::segment::{RowSelection, TextSizes};

use crate::scan::task::ScanOrder;

/// The consumer name of texts in messages.
const CONSUMER: &str = "ScannedTexts";

/// The bytes of the texts of a batch: compressed texts count eight times what is stored, which is
/// more than most become, so that batches of short texts are whole.
const BATCH_BYTES_MAX: u64 = 4 << 20;

/// The same if a statement has little memory.
const BATCH_BYTES_LEAST: u64 = 1 << 20;

/// The same for each of many runs that are merged.
const RUN_BYTES_LEAST: u64 = 256 << 10;

/// The divisor of a thread's share of the memory of the statement for the texts of a batch: a scan
/// in order has a few batches for each thread.
const SHARES: u64 = 8;

/// A charge for texts; `None` if they are small.
pub(crate) type Charge = Option<Arc<MemoryReservation>>;

/// The limits of the texts of one scan of a statement.
#[derive(Debug, Clone)]
pub(crate) struct TextMemory {
    pool: Arc<dyn MemoryPool>,
    /// The bytes that are decoded at a time (text_memory-1).
    bytes_max: u64,
    /// The bytes from which texts are charged.
    charged_from: u64,
}

/// A part of some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextPart {
    pub(crate) rows: usize,
    /// A bound of the bytes of their texts.
    pub(crate) bytes: u64,
}

impl TextMemory {
    pub(crate) fn new(context: &TaskContext) -> TextMemory {
        let threads = context.session_config().target_partitions().max(1) as u64;
        TextMemory::of(context.memory_pool(), threads)
    }

    fn of(pool: &Arc<dyn MemoryPool>, threads: u64) -> TextMemory {
        let share = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes as u64 / threads / SHARES,
            MemoryLimit::Infinite | MemoryLimit::Unknown => u64::MAX,
        };
        TextMemory {
            pool: Arc::clone(pool),
            bytes_max: share.clamp(BATCH_BYTES_LEAST, BATCH_BYTES_MAX),
            charged_from: COUNTED_VALUE_BYTES,
        }
    }

    /// The limits of each of so many runs that are decoded at the same time.
    pub(crate) fn divided(&self, runs: usize) -> TextMemory {
        let runs = runs.max(1) as u64;
        TextMemory {
            pool: Arc::clone(&self.pool),
            bytes_max: (self.bytes_max / runs).max(RUN_BYTES_LEAST),
            charged_from: self.charged_from / runs,
        }
    }

    /// The memory of the statement.
    pub(crate) fn pool(&self) -> &Arc<dyn MemoryPool> {
        &self.pool
    }

    /// The bytes that are decoded at a time (text_memory-1).
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The bytes of all texts of a page frame up to which they are neither cut nor charged.
    pub(crate) fn small_bytes(&self) -> u64 {
        self.bytes_max.min(self.charged_from)
    }

    /// Returns as many rows, from the end at which reading begins, as are decoded at a time
    /// (text_memory-1). `sizes` are those of the columns of texts.
    pub(crate) fn part(
        &self,
        sizes: &mut [TextSizes<'_>],
        rows: &RowSelection<'_>,
        order: ScanOrder,
    ) -> TextPart {
        let count = rows.count();
        let all = sum(sizes.iter().map(|sizes| sizes.bytes_max(rows)));
        if all <= self.bytes_max {
            return TextPart { rows: count, bytes: all };
        }
        let row_at = |at: usize| match order {
            ScanOrder::Backward => rows.at(count - 1 - at),
            ScanOrder::Any | ScanOrder::Forward => rows.at(at),
        };
        let mut part = TextPart { rows: 0, bytes: 0 };
        while part.rows < count {
            let row = row_at(part.rows);
            let more = sum(sizes.iter_mut().map(|sizes| sizes.count_row(row)));
            let bytes = part.bytes.saturating_add(more);
            if self.bytes_max < bytes && 0 < part.rows {
                break;
            }
            part = TextPart { rows: part.rows + 1, bytes };
        }
        if part.rows == 1 && self.bytes_max < part.bytes {
            // The bound may be several times what the texts take.
            let row = row_at(0);
            part.bytes = sum(sizes.iter().map(|sizes| sizes.bytes_of_row(row))).min(part.bytes);
        }
        part
    }

    /// Charges texts that are about to be decoded (text_memory-2).
    ///
    /// # Errors
    /// If it is more than is left of the statement's memory.
    pub(crate) fn charge(&self, bytes: u64) -> Result<Charge> {
        if bytes < self.charged_from {
            return Ok(None);
        }
        let reservation = MemoryConsumer::new(CONSUMER).register(&self.pool);
        reservation.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Ok(Some(Arc::new(reservation)))
    }
}

fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

/// Lowers a charge to what was decoded: it was an upper bound.
pub(crate) fn settle(charge: &Charge, bytes: u64) {
    if let Some(charge) = charge {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        charge.shrink(charge.size().saturating_sub(bytes));
    }
}

/// Returns texts without the bytes of others that were decoded with them, if these are the most.
pub(crate) fn compacted(array: ArrayRef) -> ArrayRef {
    let compacted = match (array.as_string_view_opt(), array.as_binary_view_opt()) {
        (Some(texts), _) => compacted_views(texts),
        (None, Some(texts)) => compacted_views(texts),
        (None, None) => None,
    };
    compacted.unwrap_or(array)
}

fn compacted_views<T: ByteViewType>(texts: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let held = texts.data_buffers().iter().map(Buffer::len).sum::<usize>();
    let used = texts.total_buffer_bytes_used();
    (used < held / 2).then(|| Arc::new(texts.gc()) as ArrayRef)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringViewArray;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    fn memory(bytes: usize, threads: u64) -> TextMemory {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        TextMemory::of(&pool, threads)
    }

    #[test]
    fn statements_with_little_memory_decode_fewer_texts_at_a_time() {
        for (bytes, threads, most) in
            [(1 << 30, 2, 4 << 20), (64 << 20, 4, 2 << 20), (8 << 20, 4, 1 << 20)]
        {
            assert_eq!(memory(bytes, threads).bytes_max(), most, "text_memory-1");
        }
        let of_runs = [2, 1_000].map(|runs| memory(1 << 30, 2).divided(runs).bytes_max());
        assert_eq!(of_runs, [2 << 20, RUN_BYTES_LEAST]);
    }

    #[test]
    fn texts_are_charged_unless_they_are_small() {
        let memory = memory(8 << 20, 4);
        assert!(memory.charge(1 << 10).expect("it is small").is_none(), "text_memory-2");
        let charge = memory.charge(6 << 20).expect("there is enough");
        assert!(memory.charge(3 << 20).is_err(), "text_memory-2");
        settle(&charge, 1 << 20);
        assert_eq!(memory.pool().reserved(), 1 << 20);
        drop(charge);
        assert_eq!(memory.pool().reserved(), 0, "text_memory-2");
    }

    #[test]
    fn few_texts_of_many_are_kept_without_the_others() {
        let texts = StringViewArray::from_iter_values((0..100).map(|_| "x".repeat(1_000)));
        let few = compacted(Arc::new(texts.slice(3, 2)));
        let held = few.as_string_view().data_buffers().iter().map(Buffer::len).sum::<usize>();
        assert_eq!(held, 2_000);
        let most = compacted(Arc::new(texts.slice(0, 90)));
        assert_eq!(most.as_string_view().data_buffers().len(), texts.data_buffers().len());
    }
}
