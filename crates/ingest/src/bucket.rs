//! Buckets: slices of time to which rows are scattered, each small enough to be sorted in cache.
//!
//! - ingest_bucket-1. Every timestamp belongs to exactly one bucket; buckets ascend in time.
//! - ingest_bucket-2. A full column buffer belongs to its bucket; one that is being filled belongs
//!   to its worker.
//! - The bytes in memory are counted against the budget; beyond it the largest buckets are
//!   spilled, whole column buffers at a time, front to back, and they are read back in the same
//!   order.
//!
//! Not here: filling column buffers with rows (`scatter`), building segments of buckets
//! (`segment_build`).

mod plan;
mod spill;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_platform::{AlignedBuffer, BufferPool, BufferPoolOptions, MemoryBudget, Reservation};
use tidegate_storage::segment::strings::{CompressorCount, StringCompressor};

use crate::error::Result;
use crate::layout::{ColumnBuffer, RowLayout, TextPages};
use crate::packed::PackedBuffer;

pub(crate) use plan::{BUCKETS_MAX, BucketPlan, PlanOptions};
pub(crate) use spill::{SpillFile, SpillOptions, SpilledBuffer};

/// All buckets of an import, shared by its workers.
#[derive(Debug)]
pub(crate) struct Buckets {
    pub(crate) plan: BucketPlan,
    pub(crate) key: BucketKey,
    pub(crate) layout: RowLayout,
    slots: Vec<Mutex<Bucket>>,
    /// Bytes in memory of each bucket, to find the largest without its lock.
    sizes: Vec<AtomicU64>,
    pub(crate) options: BucketOptions,
    /// The string compressor of each column.
    pub(crate) compressors: Arc<[StringCompressor]>,
    pool: BufferPool,
    pub(crate) budget: Arc<MemoryBudget>,
    /// The part of the budget that interners hold.
    symbols: AtomicU64,
}

/// The unit of the bounds of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BucketKey {
    /// Designated timestamps.
    Time,
    /// Numbers of input chunks (`SourceRange::order`): rows stay in the order of the input.
    Input,
}

/// The limits of buckets and column buffers, chosen by the available memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BucketOptions {
    pub(crate) buffer_rows: usize,
    /// Bytes of text at which a column buffer is full.
    pub(crate) buffer_text_max: usize,
    /// Larger buffers are freed instead of reused.
    pub(crate) reused_bytes_max: usize,
    /// The number of buckets of which each worker can fill a column buffer at the same time.
    pub(crate) count_max: usize,
    /// The memory of all string compressors: texts of further columns are not compressed.
    pub(crate) compressors_max: u64,
}

/// The full column buffers of a bucket.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    pub(crate) buffers: Vec<StoredBuffer>,
    pub(crate) rows: u64,
    /// Their size in memory, spilled ones included.
    pub(crate) bytes: u64,
    /// The size of the longest text.
    pub(crate) longest: u64,
}

/// The bytes that a row takes beside its column buffer while its bucket is sorted and gathered: its
/// place, its time, and a value that is unpacked.
pub(crate) const SORTED_ROW_BYTES: u64 = 20;

impl Bucket {
    /// The memory that building segments of the bucket takes.
    pub(crate) fn cost(&self, layout: &RowLayout) -> u64 {
        // A page frame of a column is unpacked.
        self.bytes.max(self.rows * layout.row_bytes as u64) + self.rows * SORTED_ROW_BYTES
    }
}

/// A column buffer in memory or in the spill file.
#[derive(Debug)]
pub(crate) enum StoredBuffer {
    InMemory(InMemoryBuffer),
    Spilled(SpilledBuffer),
}

/// A full column buffer and its part of the budget.
#[derive(Debug)]
pub(crate) struct InMemoryBuffer {
    pub(crate) buffer: PackedBuffer,
    pub(crate) reservation: Reservation,
}

/// A column buffer that is being filled and its part of the budget.
#[derive(Debug)]
pub(crate) struct OpenBuffer {
    pub(crate) buffer: ColumnBuffer,
    pub(crate) reservation: Reservation,
}

impl StoredBuffer {
    /// The worker that filled the column buffer.
    pub(crate) fn worker(&self) -> u32 {
        match self {
            StoredBuffer::InMemory(stored) => stored.buffer.worker,
            StoredBuffer::Spilled(spilled) => spilled.worker,
        }
    }

    /// Its size in memory, or the size that it had there.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            StoredBuffer::InMemory(stored) => stored.reservation.bytes(),
            StoredBuffer::Spilled(spilled) => spilled.bytes,
        }
    }

    /// The number of column buffers that its worker had begun before it.
    pub(crate) fn sequence(&self) -> u64 {
        match self {
            StoredBuffer::InMemory(stored) => stored.buffer.sequence,
            StoredBuffer::Spilled(spilled) => spilled.sequence,
        }
    }
}

impl Buckets {
    pub(crate) fn new(
        plan: BucketPlan,
        layout: RowLayout,
        options: &BucketOptions,
        budget: Arc<MemoryBudget>,
    ) -> Buckets {
        let count = plan.count();
        let piece_bytes = (options.buffer_rows * layout.row_bytes).next_multiple_of(4_096);
        // A full column buffer's memory is reused soon for the next one.
        let vacant_max = (options.reused_bytes_max / piece_bytes).clamp(2, 64);
        let pool = BufferPoolOptions { headroom: 0, piece_bytes, tailroom: 0, vacant_max };
        let key = BucketKey::Time;
        let begun = CompressorCount::within(options.compressors_max);
        let compressor = |_| StringCompressor::counted(&begun);
        let compressors = layout.columns.iter().map(compressor).collect();
        Buckets {
            plan,
            key,
            layout,
            slots: (0..count).map(|_| Mutex::default()).collect(),
            sizes: (0..count).map(|_| AtomicU64::new(0)).collect(),
            options: *options,
            compressors,
            pool: BufferPool::new(pool),
            budget,
            symbols: AtomicU64::new(0),
        }
    }

    /// Adds the bytes by which the interners of a worker have grown.
    pub(crate) fn add_symbols(&self, bytes: u64) {
        self.symbols.fetch_add(bytes, Relaxed);
    }

    /// The memory from which on rows are spilled; `spill_from` if there are no symbols. Symbols
    /// cannot be spilled: rows get the rest of the memory, but at least half of it. With many
    /// symbols an import takes more memory, and its segments do not become tiny.
    pub(crate) fn spill_from(&self, spill_from: u64) -> u64 {
        spill_from.max(self.symbols.load(Relaxed) + spill_from / 2)
    }

    /// Creates empty buckets of another plan, with the same layout and budget.
    pub(crate) fn like(&self, plan: BucketPlan, key: BucketKey) -> Buckets {
        // Column buffers are smaller if more buckets are filled at the same time.
        let rows = self.options.buffer_rows * self.count().min(plan.count()) / plan.count();
        let options = BucketOptions { buffer_rows: 1 << rows.max(64).ilog2(), ..self.options };
        let budget = Arc::clone(&self.budget);
        let compressors = Arc::clone(&self.compressors);
        let symbols = AtomicU64::new(self.symbols.load(Relaxed));
        Buckets {
            key,
            compressors,
            symbols,
            ..Buckets::new(plan, self.layout.clone(), &options, budget)
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    /// Creates an empty column buffer for `worker`, whose texts go to these pages.
    pub(crate) fn new_buffer(&self, worker: u32, texts: TextPages) -> OpenBuffer {
        let reservation = self.budget.reserve_unchecked(self.pool.buffer_bytes() as u64);
        OpenBuffer {
            buffer: ColumnBuffer::new(self.pool.take(), texts, &self.layout, worker),
            reservation,
        }
    }

    /// Takes back the memory of a column buffer whose rows are packed.
    pub(crate) fn recycle(&self, fixed: AlignedBuffer) {
        self.pool.give(fixed);
    }

    /// Adds a column buffer to its bucket (ingest_bucket-2).
    pub(crate) fn add(&self, bucket: usize, buffer: PackedBuffer) {
        let bytes = buffer.memory_bytes() as u64;
        let stored = InMemoryBuffer { buffer, reservation: self.budget.reserve_unchecked(bytes) };
        let mut slot = self.lock(bucket);
        slot.rows += stored.buffer.rows as u64;
        slot.bytes += bytes;
        slot.longest = slot.longest.max(stored.buffer.longest_text() as u64);
        slot.buffers.push(StoredBuffer::InMemory(stored));
        drop(slot);
        self.sizes[bucket].fetch_add(bytes, Relaxed);
    }

    /// Spills buckets until no more than `bytes` are in memory, or nothing is left to spill.
    ///
    /// # Errors
    /// If the spill file cannot be written.
    pub(crate) fn spill_down_to(&self, bytes: u64, spill: &SpillFile) -> Result<()> {
        while self.budget.used_bytes() > bytes && self.spill_largest(spill)? {}
        Ok(())
    }

    /// Spills the largest bucket. Returns false if there was nothing to spill.
    ///
    /// # Errors
    /// If the spill file cannot be written.
    fn spill_largest(&self, spill: &SpillFile) -> Result<bool> {
        let sizes = self.sizes.iter().map(|size| size.load(Relaxed));
        let Some((bucket, size)) = sizes.enumerate().max_by_key(|&(_, size)| size) else {
            return Ok(false);
        };
        if size == 0 {
            return Ok(false);
        }
        self.sizes[bucket].store(0, Relaxed);
        let mut slot = self.lock(bucket);
        let mut buffers = std::mem::take(&mut slot.buffers);
        drop(slot);
        spill_buffers(&mut buffers, spill)?;
        self.lock(bucket).buffers.append(&mut buffers);
        Ok(true)
    }

    /// Removes a bucket, to be split or built into segments.
    pub(crate) fn take(&self, bucket: usize) -> Bucket {
        self.sizes[bucket].store(0, Relaxed);
        std::mem::take(&mut *self.lock(bucket))
    }

    fn lock(&self, bucket: usize) -> std::sync::MutexGuard<'_, Bucket> {
        self.slots[bucket].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spills the column buffers that are in memory, and frees each as soon as it is written.
///
/// # Errors
/// If the spill file cannot be written.
pub(crate) fn spill_buffers(buffers: &mut Vec<StoredBuffer>, spill: &SpillFile) -> Result<()> {
    for stored in std::mem::take(buffers) {
        // An error aborts the import, so that no row is lost that was reported as imported.
        buffers.push(match stored {
            StoredBuffer::InMemory(stored) => StoredBuffer::Spilled(spill.write(stored)?),
            spilled @ StoredBuffer::Spilled(_) => spilled,
        });
    }
    Ok(())
}
