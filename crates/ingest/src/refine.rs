//! Buckets that turned out too large are split: a second pass over binary rows.
//!
//! - RF1. Splitting moves rows, it does not change them: every row keeps its piece and its place in
//!   it, so the order of equal timestamps stays that of the input.
//!
//! It happens when the sample did not show the times of most rows (a pipe shows only its
//! beginning), or when there are more rows than `BUCKETS_MAX` buckets should hold.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::bucket::{Bucket, BucketPlan, Buckets, PlanOptions, SpillFile, StoredSlab};
use crate::distribute::Distributor;
use crate::error::{Error, Result};
use crate::import::first_error;
use crate::layout::{INTERNED, NULL_SLOT, RowLayout, Slab};
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
    pub(crate) plan: PlanOptions,
    pub(crate) progress: &'a Progress,
    pub(crate) cancel: &'a AtomicBool,
}

/// All buckets in the order of time, the large ones split.
pub(crate) fn refine(job: &RefineJob<'_>) -> Result<Vec<Mutex<Bucket>>> {
    let mut refined = Vec::with_capacity(job.buckets.count());
    for number in 0..job.buckets.count() {
        let bucket = job.buckets.take(number);
        if bucket.rows <= job.rows_max || job.buckets.layout.timestamp.is_none() {
            refined.push(Mutex::new(bucket));
        } else {
            refined.extend(split(job, bucket)?.into_iter().map(Mutex::new));
        }
    }
    Ok(refined)
}

fn split(job: &RefineJob<'_>, bucket: Bucket) -> Result<Vec<Bucket>> {
    let sample = sample(job, &bucket)?;
    let plan = BucketPlan::from_sample(sample, PlanOptions { rows: bucket.rows, ..job.plan });
    if plan.count() == 1 {
        // One instant, over and over: there is nothing to split by.
        return Ok(vec![bucket]);
    }
    let parts = Arc::new(job.buckets.like(plan));
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

/// Timestamps of some slabs, spread over all.
fn sample(job: &RefineJob<'_>, bucket: &Bucket) -> Result<Vec<i64>> {
    let column = &job.buckets.layout.columns[job.buckets.layout.timestamp.expect("asked before")];
    let mut sample = Vec::new();
    let mut add = |slab: &Slab| {
        let instants = slab.column(column).as_chunks::<8>().0;
        sample.extend(instants.iter().step_by(16).map(|bytes| i64::from_le_bytes(*bytes)));
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
    for stored in slabs {
        if job.cancel.load(Relaxed) {
            return Err(Error::Cancelled);
        }
        let (slab, _held) = match stored {
            StoredSlab::Here(held) => (held.slab, Some(held.held)),
            StoredSlab::Spilled(spilled) => (job.spill.read(spilled, layout, job.progress)?, None),
        };
        for (index, mark) in slab.marks.iter().enumerate() {
            let end = slab.marks.get(index + 1).map_or(slab.rows, |next| next.start as usize);
            for start in (mark.start as usize..end).step_by(STRIP_ROWS) {
                strip.clear();
                strip.order = mark.order;
                fill(&mut strip, &slab, start, (start + STRIP_ROWS).min(end), layout);
                distributor.distribute(&strip, &[]);
            }
        }
        job.buckets.recycle(slab.fixed);
        distributor.settle();
        parts.spill_down_to(job.spill_from, job.spill)?;
    }
    distributor.finish();
    Ok(())
}

/// Puts rows of a slab into an empty strip.
fn fill(strip: &mut Strip, slab: &Slab, start: usize, end: usize, layout: &RowLayout) {
    strip.rows = end - start;
    let Strip { columns, unescaped, .. } = strip;
    for (index, (column, into)) in layout.columns.iter().zip(columns).enumerate() {
        let bytes = &slab.column(column)[start * column.width..end * column.width];
        match &mut into.values {
            Values::W1(values) => values.extend_from_slice(bytes),
            Values::W2(values) => extend(values, bytes, u16::from_le_bytes),
            Values::W4(values) => extend(values, bytes, u32::from_le_bytes),
            Values::W8(values) => extend(values, bytes, u64::from_le_bytes),
            Values::W16(values) => extend(values, bytes, u128::from_le_bytes),
            Values::Text(cells) => extend(cells, bytes, |slot| match u32::from_le_bytes(slot) {
                NULL_SLOT => Cell::NULL,
                slot if slot & INTERNED != 0 => Cell::interned(slot & !INTERNED),
                slot => {
                    let text = slab.texts.text_at(slot);
                    let at = unescaped.len();
                    unescaped.extend_from_slice(text);
                    Cell::at(Place::Unescaped(at, text.len()))
                }
            }),
        }
        if let Some(bits) = &slab.nulls[index] {
            let is_null = |row: &usize| bits[row / 64] >> (row % 64) & 1 == 1;
            let rows = (start..end).filter(is_null).map(|row| row - start);
            into.nulls.extend(rows.map(|row| u32::try_from(row).expect("STRIP_ROWS")));
        }
    }
}

fn extend<T, const N: usize>(into: &mut Vec<T>, bytes: &[u8], value: impl FnMut([u8; N]) -> T) {
    into.extend(bytes.as_chunks::<N>().0.iter().copied().map(value));
}
