//! Buckets that turned out too large are split: a second pass over binary rows.
//!
//! - RF1. Splitting moves rows, it does not change them: every row keeps its piece and its place in
//!   it, so the order of equal timestamps stays that of the input.
//!
//! It happens when the sample did not show the times of most rows (a pipe shows only its
//! beginning), when there are more rows than `BUCKETS_MAX` buckets should hold, and when a table
//! has no designated timestamp: then rows are split by where they stand in the input.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tidegate_model::{PartitionUnit, TimeUnit};
use tidegate_storage::segment::strings::TextForm;

use crate::bucket::{Bucket, BucketKey, BucketPlan, Buckets, PlanOptions, SpillFile, StoredSlab};
use crate::distribute::{Distributor, order_key};
use crate::error::{Error, Result};
use crate::import::first_error;
use crate::layout::{ColumnLayout, RowLayout};
use crate::packed::{PackedSlab, SlotCode};
use crate::progress::Progress;
use crate::strip::{Cell, Place, STRIP_ROWS, Strip, Values};

/// What splitting needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefineJob<'a> {
    pub(crate) buckets: &'a Buckets,
    pub(crate) spill: &'a SpillFile,
    pub(crate) spill_from: u64,
    /// Buckets of more rows are split.
    pub(crate) rows_max: u64,
    pub(crate) partition_by: PartitionUnit,
    pub(crate) unit: TimeUnit,
    pub(crate) progress: &'a Progress,
    pub(crate) cancel: &'a AtomicBool,
}

/// All buckets in the order of time, the large ones split.
pub(crate) fn refine(job: &RefineJob<'_>) -> Result<Vec<Mutex<Bucket>>> {
    let mut refined = Vec::with_capacity(job.buckets.count());
    for number in 0..job.buckets.count() {
        let bucket = job.buckets.take(number);
        if bucket.rows <= job.rows_max {
            refined.push(Mutex::new(bucket));
        } else {
            refined.extend(split(job, bucket)?.into_iter().map(Mutex::new));
        }
    }
    Ok(refined)
}

fn split(job: &RefineJob<'_>, bucket: Bucket) -> Result<Vec<Bucket>> {
    let timestamp = job.buckets.layout.timestamp;
    let (key, partition_by) = match timestamp {
        Some(_) => (BucketKey::Time, job.partition_by),
        None => (BucketKey::Input, PartitionUnit::None),
    };
    let plan = BucketPlan::from_sample(
        sample(job, &bucket)?,
        PlanOptions {
            partition_by,
            unit: job.unit,
            rows: bucket.rows,
            bucket_rows_max: job.rows_max,
        },
    );
    if plan.count() == 1 {
        // One instant or one piece, over and over: there is nothing to split by.
        return Ok(vec![bucket]);
    }
    let parts = Arc::new(job.buckets.like(plan, key));
    // Rows of a piece are in slabs of one worker, so workers' slabs can be moved side by side.
    let mut by_worker: BTreeMap<u32, Vec<StoredSlab>> = BTreeMap::new();
    for slab in bucket.slabs {
        by_worker.entry(slab.worker()).or_default().push(slab);
    }
    let outcomes = std::thread::scope(|scope| {
        let parts = &parts;
        let threads: Vec<_> = by_worker
            .into_iter()
            .map(|(worker, slabs)| scope.spawn(move || redistribute(job, parts, worker, slabs)))
            .collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    first_error(outcomes)?;
    Ok((0..parts.count()).map(|part| parts.take(part)).collect())
}

/// Timestamps of rows of some slabs, spread over all; or their pieces, if there are none.
fn sample(job: &RefineJob<'_>, bucket: &Bucket) -> Result<Vec<i64>> {
    let layout = &job.buckets.layout;
    let column = layout.timestamp.map(|column| (column, &layout.columns[column]));
    let mut sample = Vec::new();
    let mut values = Vec::new();
    let mut add = |slab: &PackedSlab| match column {
        Some((index, column)) => {
            values.clear();
            slab.unpack(index, column, &mut values);
            let instants = values.as_chunks::<8>().0.iter().step_by(SAMPLED_STEP);
            sample.extend(instants.map(|bytes| i64::from_le_bytes(*bytes)));
        }
        None => {
            for (index, mark) in slab.marks.iter().enumerate() {
                let end = slab.marks.get(index + 1).map_or(slab.rows, |next| next.start as usize);
                let rows = (mark.start as usize..end).step_by(SAMPLED_STEP);
                sample.extend(rows.map(|_| order_key(mark.order)));
            }
        }
    };
    let stride = (bucket.slabs.len() / SAMPLED_SLABS).max(1);
    for slab in bucket.slabs.iter().step_by(stride) {
        match slab {
            StoredSlab::Here(held) => add(&held.slab),
            StoredSlab::Spilled(spilled) => {
                add(&job.spill.read(*spilled, &job.buckets.layout, job.progress)?);
            }
        }
    }
    Ok(sample)
}

const SAMPLED_SLABS: usize = 256;
/// Every so manyth row of those is looked at.
const SAMPLED_STEP: usize = 16;

fn redistribute(
    job: &RefineJob<'_>,
    parts: &Arc<Buckets>,
    worker: u32,
    mut slabs: Vec<StoredSlab>,
) -> Result<()> {
    let layout = &job.buckets.layout;
    slabs.sort_by_key(StoredSlab::sequence); // RF1
    let mut distributor = Distributor::new(Arc::clone(parts), worker);
    let mut strip = Strip::new(layout);
    let mut unpacked = vec![Vec::new(); layout.columns.len()];
    for stored in slabs {
        if job.cancel.load(Relaxed) {
            return Err(Error::Cancelled);
        }
        let (slab, _held) = match stored {
            StoredSlab::Here(held) => (held.slab, Some(held.held)),
            StoredSlab::Spilled(spilled) => (job.spill.read(spilled, layout, job.progress)?, None),
        };
        for (index, values) in unpacked.iter_mut().enumerate() {
            values.clear();
            slab.unpack(index, &layout.columns[index], values);
        }
        let rows = UnpackedRows { slab: &slab, columns: &unpacked, buckets: job.buckets };
        for (index, mark) in slab.marks.iter().enumerate() {
            let end = slab.marks.get(index + 1).map_or(slab.rows, |next| next.start as usize);
            for start in (mark.start as usize..end).step_by(STRIP_ROWS) {
                strip.clear();
                strip.order = mark.order;
                rows.fill(&mut strip, start, (start + STRIP_ROWS).min(end), layout);
                distributor.distribute(&strip, &[]);
            }
        }
        drop(slab);
        distributor.settle();
        distributor.spill_down_to(job.spill_from, job.spill)?;
    }
    distributor.finish();
    Ok(())
}

/// A slab whose columns are as they were before they were packed.
struct UnpackedRows<'a> {
    slab: &'a PackedSlab,
    columns: &'a [Vec<u8>],
    buckets: &'a Buckets,
}

impl UnpackedRows<'_> {
    /// Puts rows of the slab into an empty strip.
    fn fill(&self, strip: &mut Strip, start: usize, end: usize, layout: &RowLayout) {
        strip.rows = end - start;
        let Strip { columns, unescaped, .. } = strip;
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
            if let Some(bits) = &self.slab.nulls[index] {
                let is_null = |row: &usize| bits[row / 64] >> (row % 64) & 1 == 1;
                let rows = (start..end).filter(is_null).map(|row| row - start);
                into.nulls.extend(rows.map(|row| u32::try_from(row).expect("STRIP_ROWS")));
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
                let texts = &self.slab.texts[column.text.expect("a text column")];
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
