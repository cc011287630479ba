//! Splits oversized buckets, in a second pass over their rows, which are parsed already.
//!
//! - split_buckets-1. Splitting moves rows and does not change them: every row keeps its input
//!   chunk and its position in it, so rows with equal timestamps keep the order of the input.
//! - A bucket that still takes more memory than allowed has only one record, or only rows of one
//!   chunk with one timestamp.
//!
//! A bucket is too large if the sample did not show the times of most rows (of a pipe it has only
//! the beginning), if there are too many rows for `BUCKETS_MAX` buckets, or if a few rows are much
//! larger than the others. Rows of a table without a designated timestamp, and rows with one
//! timestamp, are split by their position in the input.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::{PartitionUnit, TimeUnit};
use tidegate_storage::segment::strings::TextForm;

use crate::bucket::{
    Bucket, BucketKey, BucketPlan, Buckets, PlanOptions, SORTED_ROW_BYTES, SpillFile, StoredBuffer,
};
use crate::error::{Error, Result, first_error};
use crate::layout::{ColumnLayout, RowLayout};
use crate::packed::{PackedBuffer, SlotCode};
use crate::parsed_batch::{Cell, PARSED_BATCH_ROWS, ParsedBatch, Place, Values};
use crate::progress::Progress;
use crate::scatter::{Scatterer, order_key};

/// The state that splitting needs.
#[derive(Debug)]
pub(crate) struct SplitBucketsJob<'a> {
    pub(crate) buckets: &'a Buckets,
    pub(crate) spill: &'a SpillFile,
    pub(crate) spill_from: u64,
    /// The number of rows above which a bucket is split.
    pub(crate) rows_max: u64,
    /// The memory above which a bucket is split, down to single records.
    pub(crate) bytes_max: u64,
    /// A lock for unpacking column buffers with much text, one at a time.
    pub(crate) large: Mutex<()>,
    pub(crate) large_from: usize,
    pub(crate) partition_by: PartitionUnit,
    pub(crate) unit: TimeUnit,
    pub(crate) progress: &'a Progress,
    pub(crate) cancel: &'a AtomicBool,
}

/// Returns all buckets in the order of time, with the large ones split.
pub(crate) fn split_oversized(job: &SplitBucketsJob<'_>) -> Result<Vec<Bucket>> {
    let mut split = Vec::with_capacity(job.buckets.count());
    for number in 0..job.buckets.count() {
        // The buckets that are still to be checked, the next one last.
        let mut open = vec![job.buckets.take(number)];
        while let Some(bucket) = open.pop() {
            // Beside one large record there may be a few small ones.
            let cost = bucket.cost(&job.buckets.layout);
            let is_large = cost > job.bytes_max.max(bucket.longest + job.bytes_max / 4);
            if !is_large && bucket.rows <= job.rows_max {
                split.push(bucket);
                continue;
            }
            match split_bucket(job, bucket, is_large)? {
                Split::Whole(bucket) => split.push(bucket),
                Split::Parts(parts) => open.extend(parts.into_iter().rev()),
            }
        }
    }
    Ok(split)
}

enum Split {
    /// One record, or one chunk of text with one timestamp, which cannot be split.
    Whole(Bucket),
    Parts(Vec<Bucket>),
}

fn split_bucket(job: &SplitBucketsJob<'_>, bucket: Bucket, is_large: bool) -> Result<Split> {
    let Some((key, plan)) = plan(job, &bucket, is_large)? else {
        return Ok(Split::Whole(bucket));
    };
    let parts = Arc::new(job.buckets.like(plan, key));
    // The rows of a chunk are in buffers of one worker, so buffers of different workers can be
    // moved in parallel.
    let mut by_worker: BTreeMap<u32, Vec<StoredBuffer>> = BTreeMap::new();
    for buffer in bucket.buffers {
        by_worker.entry(buffer.worker()).or_default().push(buffer);
    }
    let outcomes = std::thread::scope(|scope| {
        let parts = &parts;
        let threads: Vec<_> = by_worker
            .into_iter()
            .map(|(worker, buffers)| {
                scope.spawn(move || scatter_again(job, parts, worker, buffers))
            })
            .collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    first_error(outcomes)?;
    let parts = (0..parts.count()).map(|part| parts.take(part));
    Ok(Split::Parts(parts.filter(|part| part.rows > 0).collect()))
}

/// The key and the plan by which a bucket is split; `None` if it cannot be split.
fn plan(
    job: &SplitBucketsJob<'_>,
    bucket: &Bucket,
    is_large: bool,
) -> Result<Option<(BucketKey, BucketPlan)>> {
    let count_max = job.buckets.options.count_max;
    let by_bytes = |sample| {
        // The rows between two samples may be larger than they seem.
        let plan = BucketPlan::by_bytes(sample, job.bytes_max / 4 * 3, count_max);
        (plan.count() > 1).then_some(plan)
    };
    let by_input = || -> Result<Option<(BucketKey, BucketPlan)>> {
        Ok(by_bytes(sample(job, bucket, None)?).map(|plan| (BucketKey::Input, plan)))
    };
    let Some(column) = job.buckets.layout.timestamp else { return by_input() };
    let sampled = sample(job, bucket, Some(column))?;
    let plan = if is_large {
        by_bytes(sampled)
    } else {
        let plan = BucketPlan::from_sample(
            sampled.into_iter().map(|(ts, _)| ts).collect(),
            PlanOptions {
                partition_by: job.partition_by,
                unit: job.unit,
                rows: bucket.rows,
                bucket_rows_max: job.rows_max,
                count_max,
            },
        );
        (plan.count() > 1).then_some(plan)
    };
    if let Some(plan) = plan {
        return Ok(Some((BucketKey::Time, plan)));
    }
    match bounds(job, bucket, column)? {
        // Rows with one timestamp keep the order of the input.
        (min, max) if min == max => by_input(),
        (_, max) => Ok(Some((BucketKey::Time, BucketPlan::cut_at(max)))),
    }
}

/// Calls `step` with the column buffers of a bucket; those in the spill file are read back one by
/// one.
fn each_buffer<'a>(
    job: &SplitBucketsJob<'_>,
    buffers: impl Iterator<Item = &'a StoredBuffer>,
    mut step: impl FnMut(&PackedBuffer),
) -> Result<()> {
    for buffer in buffers {
        if job.cancel.load(Relaxed) {
            return Err(Error::Cancelled);
        }
        match buffer {
            StoredBuffer::InMemory(stored) => step(&stored.buffer),
            StoredBuffer::Spilled(spilled) => {
                step(&job.spill.read(*spilled, &job.buckets.layout, job.progress)?);
            }
        }
    }
    Ok(())
}

/// The first and the last timestamp.
fn bounds(job: &SplitBucketsJob<'_>, bucket: &Bucket, column: usize) -> Result<(i64, i64)> {
    let layout = &job.buckets.layout.columns[column];
    let (mut values, mut bounds) = (Vec::new(), (i64::MAX, i64::MIN));
    each_buffer(job, bucket.buffers.iter(), |buffer| {
        values.clear();
        buffer.unpack(column, layout, &mut values);
        bounds = values.as_chunks::<8>().0.iter().fold(bounds, |(min, max), &bytes| {
            let instant = i64::from_le_bytes(bytes);
            (min.min(instant), max.max(instant))
        });
    })?;
    Ok(bounds)
}

/// The times of rows, or their input chunks, each with the bytes that it represents: all large
/// rows, and a sample of the others over the whole bucket.
fn sample(
    job: &SplitBucketsJob<'_>,
    bucket: &Bucket,
    time: Option<usize>,
) -> Result<Vec<(i64, u64)>> {
    let layout = &job.buckets.layout;
    let mut sample = Vec::new();
    let (mut values, mut keys) = (Vec::new(), Vec::new());
    let stride = (bucket.buffers.len() / SAMPLED_BUFFERS).max(1);
    let is_sampled = |(number, buffer): &(usize, &StoredBuffer)| {
        number % stride == 0 || buffer.bytes() > job.large_from as u64
    };
    let buffers = bucket.buffers.iter().enumerate().filter(is_sampled).map(|(_, buffer)| buffer);
    each_buffer(job, buffers, |buffer| {
        keys.clear();
        match time {
            Some(column) => {
                values.clear();
                buffer.unpack(column, &layout.columns[column], &mut values);
                let instants = values.as_chunks::<8>().0.iter();
                keys.extend(instants.map(|&bytes| i64::from_le_bytes(bytes)));
            }
            None => {
                for (index, source) in buffer.sources.iter().enumerate() {
                    let next = buffer.sources.get(index + 1).map(|next| next.start as usize);
                    keys.resize(next.unwrap_or(buffer.rows), order_key(source.order));
                }
            }
        }
        let texts = buffer.row_texts(layout);
        let large_from =
            (texts.iter().sum::<u64>() / buffer.rows.max(1) as u64 * 4).max(LARGE_TEXT);
        let fixed = layout.row_bytes as u64 + SORTED_ROW_BYTES;
        let mut since = 0;
        for (row, &key) in keys.iter().enumerate() {
            let text = texts.get(row).copied().unwrap_or(0);
            let is_large = text >= large_from;
            since += fixed + if is_large { 0 } else { text };
            if is_large {
                sample.push((key, text));
            } else if row % SAMPLED_STEP == 0 {
                // The row represents the rows before it, and those of skipped column buffers.
                sample.push((key, since * stride as u64));
                since = 0;
            }
        }
    })?;
    // The bytes of column buffers beside their rows, and the skipped ones, are spread over all.
    let sampled: u64 = sample.iter().map(|(_, bytes)| bytes).sum();
    let all = u128::from(bucket.cost(layout).max(sampled));
    for (_, bytes) in &mut sample {
        let share = u128::from(*bytes) * all / u128::from(sampled.max(1));
        *bytes = u64::try_from(share).unwrap_or(u64::MAX);
    }
    Ok(sample)
}

const SAMPLED_BUFFERS: usize = 256;
/// The distance between the rows of a column buffer that are sampled.
const SAMPLED_STEP: usize = 16;
/// The bytes of text from which on a row represents itself only.
const LARGE_TEXT: u64 = 64 << 10;

fn scatter_again(
    job: &SplitBucketsJob<'_>,
    parts: &Arc<Buckets>,
    worker: u32,
    mut buffers: Vec<StoredBuffer>,
) -> Result<()> {
    let layout = &job.buckets.layout;
    buffers.sort_by_key(StoredBuffer::sequence); // split_buckets-1
    let mut scatterer = Scatterer::new(Arc::clone(parts), worker);
    let mut parsed = ParsedBatch::new(layout);
    let mut unpacked = vec![Vec::new(); layout.columns.len()];
    for stored in buffers {
        if job.cancel.load(Relaxed) {
            return Err(Error::Cancelled);
        }
        let is_large = stored.bytes() > job.large_from as u64;
        let _turn = is_large.then(|| job.large.lock().unwrap_or_else(PoisonError::into_inner));
        let (buffer, _reservation) = match stored {
            StoredBuffer::InMemory(stored) => (stored.buffer, stored.reservation),
            StoredBuffer::Spilled(spilled) => {
                // The texts are in memory twice: in this buffer, and in the buffers that they go
                // to.
                let reservation = parts.budget.reserve_unchecked(2 * spilled.bytes);
                scatterer.spill_down_to(job.spill_from, job.spill)?;
                (job.spill.read(spilled, layout, job.progress)?, reservation)
            }
        };
        for (index, values) in unpacked.iter_mut().enumerate() {
            values.clear();
            buffer.unpack(index, &layout.columns[index], values);
        }
        let rows = UnpackedRows { buffer: &buffer, columns: &unpacked, buckets: job.buckets };
        for (index, source) in buffer.sources.iter().enumerate() {
            let end = buffer.sources.get(index + 1).map_or(buffer.rows, |next| next.start as usize);
            for start in (source.start as usize..end).step_by(PARSED_BATCH_ROWS) {
                parsed.clear();
                parsed.order = source.order;
                rows.fill(&mut parsed, start, (start + PARSED_BATCH_ROWS).min(end), layout);
                scatterer.scatter(&parsed, &[]);
            }
        }
        parsed.clear();
        drop(buffer);
        scatterer.account();
        scatterer.spill_down_to(job.spill_from, job.spill)?;
    }
    scatterer.finish();
    Ok(())
}

/// A column buffer with its columns unpacked.
struct UnpackedRows<'a> {
    buffer: &'a PackedBuffer,
    columns: &'a [Vec<u8>],
    buckets: &'a Buckets,
}

impl UnpackedRows<'_> {
    /// Puts rows of the column buffer into an empty parsed batch.
    fn fill(&self, parsed: &mut ParsedBatch, start: usize, end: usize, layout: &RowLayout) {
        parsed.rows = end - start;
        let ParsedBatch { columns, unescaped, .. } = parsed;
        for (index, (column, into)) in layout.columns.iter().zip(columns).enumerate() {
            let bytes = &self.columns[index][start * column.width..end * column.width];
            match &mut into.values {
                Values::W1(values) => values.extend_from_slice(bytes),
                Values::W2(values) => extend(values, bytes, u16::from_le_bytes),
                Values::W4(values) => extend(values, bytes, u32::from_le_bytes),
                Values::W8(values) => extend(values, bytes, u64::from_le_bytes),
                Values::W16(values) => extend(values, bytes, u128::from_le_bytes),
                Values::Text(cells) => {
                    extend(cells, bytes, |code| self.cell(index, column, code, unescaped));
                }
            }
            if let Some(bits) = &self.buffer.nulls[index] {
                let is_null = |row: &usize| bits[row / 64] >> (row % 64) & 1 == 1;
                let rows = (start..end).filter(is_null).map(|row| row - start);
                into.nulls.extend(rows.map(|row| u32::try_from(row).expect("PARSED_BATCH_ROWS")));
            }
        }
    }

    fn cell(
        &self,
        index: usize,
        column: &ColumnLayout,
        code: [u8; 4],
        unescaped: &mut Vec<u8>,
    ) -> Cell {
        match SlotCode::decode(u32::from_le_bytes(code)) {
            SlotCode::Null => Cell::NULL,
            SlotCode::Interned(number) => Cell::interned(number),
            SlotCode::Own(own) => {
                let texts = &self.buffer.texts[column.text.expect("a text column")];
                let at = unescaped.len();
                match texts.form {
                    TextForm::Raw => unescaped.extend_from_slice(texts.text(own)),
                    TextForm::Compressed => {
                        self.buckets.compressors[index].decompress(texts.text(own), unescaped);
                    }
                }
                Cell::at(Place::Unescaped(at, unescaped.len() - at))
            }
        }
    }
}

fn extend<T, const N: usize>(into: &mut Vec<T>, bytes: &[u8], value: impl FnMut([u8; N]) -> T) {
    into.extend(bytes.as_chunks::<N>().0.iter().copied().map(value));
}
