//! Policy of maintenance: chooses the runs of a table to rewrite next, from their numbers, without
//! I/O.
//!
//! - maintenance-1 holds here too.
//! - policy-1. A memtable of n rows in runs of any size has few runs: at most seven of each power
//!   of eight rows, except those that came since the last maintenance. Each row is rewritten once
//!   for each power.
//! - policy-2. Segments with the same range of commits, the parts of one import or compaction, are
//!   compacted together or not at all: their range may not interleave with another one.
//! - A compaction takes at least `compaction_runs` neighbours of similar size, so that each
//!   row is rewritten once for each power of `compaction_runs`, up to `compaction_rows_max`.
//! - policy-3. A delete compaction takes one segment and, of those of its range of commits, the
//!   ones with which it shares instants: equal timestamps are ordered by ids, and it gets a new id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_model::{PartitionKey, SegmentId, SeqTxn, limits};

use super::MaintenanceOptions;
use crate::database::table::memtable::MemtableRun;
use crate::database::table::state::TableState;
use crate::manifest::SegmentEntry;

/// Number of runs of similar size that are merged.
const COALESCE_RUNS: usize = 8;
/// Number of runs that are merged whatever their sizes are.
const COALESCE_RUNS_MAX: usize = 32;
/// Maximal bytes of a merged run: larger ones wait for the flush.
const COALESCE_BYTES: u64 = 16 << 20;
/// In-memory segments from this size on are not merged to save memory: the other memory of a run is
/// small then.
const JOINABLE_BYTES: u64 = 64 << 10;

/// Segments to be rewritten, in the order of their commits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) out: Vec<SegmentEntry>,
}

/// Runs of a group to be merged into one; `None` if they are few (policy-1).
pub(crate) fn due_coalesce(group: &[Arc<MemtableRun>]) -> Option<&[Arc<MemtableRun>]> {
    let sizes: Vec<(u64, u64)> =
        group.iter().map(|run| (run.meta.rows.0, run.meta.bytes.0)).collect();
    // The newest runs are at the end; large ones before them stay.
    let is_small = |&(rows, bytes): &(u64, u64)| {
        rows < limits::FRAME_ROWS.0 && bytes < COALESCE_BYTES / COALESCE_RUNS as u64
    };
    let small = sizes.iter().rev().take_while(|size| is_small(size)).count();
    let start = due_suffix(&sizes[sizes.len() - small..])?;
    let mut out = &group[group.len() - small + start..];
    while joined_is_too_large(out) {
        out = &out[..out.len() - 1];
    }
    (out.len() > 1).then_some(out)
}

fn joined_is_too_large(runs: &[Arc<MemtableRun>]) -> bool {
    let rows: u64 = runs.iter().map(|run| run.meta.rows.0).sum();
    let bytes: u64 = runs.iter().map(|run| run.meta.bytes.0).sum();
    is_too_large(rows, bytes)
}

fn is_too_large(rows: u64, bytes: u64) -> bool {
    rows > limits::FRAME_ROWS.0 || bytes > COALESCE_BYTES
}

/// The runs of a group, in order, whose in-memory segments are so small that they take much more
/// memory separately than merged: neighbours that fit one run each.
pub(crate) fn joinable(group: &[Arc<MemtableRun>]) -> Vec<&[Arc<MemtableRun>]> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut rows, mut bytes) = (0, 0);
    for (at, run) in group.iter().enumerate() {
        let (more_rows, more_bytes) = (run.meta.rows.0, run.meta.bytes.0);
        if more_bytes >= JOINABLE_BYTES {
            parts.push(&group[start..at]);
            (start, rows, bytes) = (at + 1, 0, 0);
            continue;
        }
        if is_too_large(rows + more_rows, bytes + more_bytes) {
            parts.push(&group[start..at]);
            (start, rows, bytes) = (at, 0, 0);
        }
        rows += more_rows;
        bytes += more_bytes;
    }
    parts.push(&group[start..]);
    parts.retain(|part| part.len() > 1);
    parts
}

/// The index of the first run to be merged, if there are enough.
fn due_suffix(sizes: &[(u64, u64)]) -> Option<usize> {
    let tier = |rows: u64| rows.max(1).ilog(COALESCE_RUNS as u64);
    let top = sizes.iter().map(|&(rows, _)| tier(rows)).max()?;
    (0..=top).find_map(|at_most| {
        let suffix = sizes.iter().rev().take_while(|&&(rows, _)| tier(rows) <= at_most).count();
        let start = sizes.len() - suffix;
        let of_tier = sizes[start..].iter().filter(|&&(rows, _)| tier(rows) == at_most).count();
        (of_tier >= COALESCE_RUNS || suffix >= COALESCE_RUNS_MAX).then_some(start)
    })
}

/// Segments of one range of commits in one partition (policy-2).
#[derive(Debug, Clone)]
struct Unit {
    seqs: (SeqTxn, SeqTxn),
    rows: u64,
    /// Rows that a compaction would write.
    live: u64,
    bounds: (i64, i64),
    entries: Vec<SegmentEntry>,
}

/// The segments to be compacted next, if any.
pub(crate) fn due_compaction(table: &TableState, options: &MaintenanceOptions) -> Option<Due> {
    let mut partitions: BTreeMap<PartitionKey, Vec<SegmentEntry>> = BTreeMap::new();
    for entry in table.manifest.segments.iter() {
        partitions.entry(entry.meta.partition).or_default().push(*entry);
    }
    partitions.into_iter().find_map(|(partition, entries)| {
        // One or two segments are the usual case.
        if entries.len() < options.compaction_runs {
            return None;
        }
        let memtable = table.memtable.runs().iter().filter(|run| run.meta.partition == partition);
        let barriers: Vec<SeqTxn> = memtable.map(|run| run.meta.seq_first).collect();
        due_of_partition(&units(entries), &barriers, options)
    })
}

/// Segments to be rewritten without their deleted rows, if any: those without any live row first,
/// then one of those that are `due`, with its neighbours (policy-3).
pub(crate) fn due_delete_compaction(table: &TableState, due: &BTreeSet<SegmentId>) -> Option<Due> {
    let entries = &table.manifest.segments;
    let is_empty = |entry: &&SegmentEntry| {
        entry.deletion_vector.is_some_and(|deletion_vector| deletion_vector.live.0 == 0)
    };
    let empty: Vec<_> = entries.iter().filter(is_empty).copied().collect();
    if !empty.is_empty() {
        return Some(Due { out: empty });
    }
    let is_due =
        |entry: &&SegmentEntry| entry.deletion_vector.is_some() && due.contains(&entry.meta.id);
    let first = entries.iter().find(is_due)?;
    let range =
        |entry: &SegmentEntry| (entry.meta.partition, entry.meta.seq_first, entry.meta.seq_last);
    let pieces = entries.iter().filter(|entry| range(entry) == range(first)).copied();
    Some(Due { out: connected(first, pieces.collect()) })
}

/// A segment, and those of `others` that are connected with it by a chain of common instants, in
/// the order of their ids.
fn connected(first: &SegmentEntry, mut others: Vec<SegmentEntry>) -> Vec<SegmentEntry> {
    let (mut low, mut high) = (first.meta.min_ts, first.meta.max_ts);
    let mut out = Vec::new();
    loop {
        let touches = |entry: &SegmentEntry| entry.meta.min_ts <= high && low <= entry.meta.max_ts;
        let (near, far): (Vec<_>, Vec<_>) = others.into_iter().partition(touches);
        if near.is_empty() {
            out.sort_by_key(|entry: &SegmentEntry| entry.meta.id);
            return out;
        }
        low = near.iter().map(|entry| entry.meta.min_ts).fold(low, i64::min);
        high = near.iter().map(|entry| entry.meta.max_ts).fold(high, i64::max);
        out.extend(near);
        others = far;
    }
}

fn units(mut entries: Vec<SegmentEntry>) -> Vec<Unit> {
    let key = |entry: &SegmentEntry| {
        let meta = entry.meta;
        (meta.seq_first, meta.seq_last, meta.min_ts, meta.max_ts, meta.id)
    };
    entries.sort_by_key(key);
    let mut units: Vec<Unit> = Vec::new();
    for entry in entries {
        let meta = entry.meta;
        let seqs = (meta.seq_first, meta.seq_last);
        let live =
            entry.deletion_vector.map_or(meta.rows, |deletion_vector| deletion_vector.live).0;
        match units.last_mut() {
            Some(unit) if unit.seqs == seqs => {
                unit.rows += meta.rows.0;
                unit.live += live;
                unit.bounds.0 = unit.bounds.0.min(meta.min_ts);
                unit.bounds.1 = unit.bounds.1.max(meta.max_ts);
                unit.entries.push(entry);
            }
            _ => units.push(Unit {
                seqs,
                rows: meta.rows.0,
                live,
                bounds: (meta.min_ts, meta.max_ts),
                entries: vec![entry],
            }),
        }
    }
    units
}

fn due_of_partition(
    units: &[Unit],
    barriers: &[SeqTxn],
    options: &MaintenanceOptions,
) -> Option<Due> {
    let fan = options.compaction_runs.max(2);
    let tier = |unit: &Unit| unit.rows.max(1).ilog(fan as u64);
    for start in 0..units.len() {
        let mut end = start + 1;
        let mut rows = units[start].live;
        // The oldest is the largest: the others are of its size, or smaller.
        while end < units.len()
            && tier(&units[end]) <= tier(&units[start])
            && rows + units[end].live <= options.compaction_rows_max
            && !is_between(barriers, units[end - 1].seqs.1, units[end].seqs.0)
        {
            rows += units[end].live;
            end += 1;
        }
        let window = &units[start..end];
        let of_tier = window.iter().filter(|unit| tier(unit) == tier(&units[start])).count();
        if (of_tier >= fan || window.len() >= fan * fan) && !is_good_alone(window) {
            let out = window.iter().flat_map(|unit| unit.entries.iter().copied()).collect();
            return Some(Due { out });
        }
    }
    None
}

fn is_between(barriers: &[SeqTxn], before: SeqTxn, after: SeqTxn) -> bool {
    barriers.iter().any(|&seq| before < seq && seq < after)
}

/// Returns true if the first of them is large enough, and overlaps none of the others.
fn is_good_alone(units: &[Unit]) -> bool {
    let first = &units[0];
    let overlaps =
        |other: &Unit| other.bounds.0 <= first.bounds.1 && first.bounds.0 <= other.bounds.1;
    first.rows >= limits::SEGMENT_ROWS.0 / 2
        && first.live == first.rows
        && !units[1..].iter().any(overlaps)
}
