//! Pruning: the selection of the rows of a snapshot that a scan has to read.
//!
//! - V1. Rows whose timestamp lies in none of the ranges are not in the selection, all others are.
//! - V2. Groups and their runs keep the order of the snapshot; row ranges ascend.
//!
//! Only segments that a range ends in are opened here; the metadata tell if the others are needed.
//! The selection of all rows of a snapshot is made once, and so are its tasks: a small query of a
//! table with many partitions would do little else.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::{Column, RowRange, TimeRange, Timestamp};
use tidegate_storage::{Result, Run, SegmentRun, Snapshot};

use super::task::{ScanTask, TaskShape, tasks};

/// The rows that a scan reads.
#[derive(Debug)]
pub(crate) struct Selected {
    pub(crate) groups: Vec<SelectedGroup>,
    pub(crate) counts: Counts,
    /// The tasks by shape, at most `SHAPES_MAX`.
    tasks: Mutex<Vec<(TaskShape, Arc<[ScanTask]>)>>,
}

/// The maximal number of cached task lists: shapes differ by the widths of the rows that queries
/// read.
const SHAPES_MAX: usize = 4;

impl Selected {
    /// Returns its rows as tasks.
    pub(crate) fn tasks(&self, shape: TaskShape) -> Arc<[ScanTask]> {
        let mut known = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tasks)) = known.iter().find(|(known, _)| *known == shape) {
            return Arc::clone(tasks);
        }
        let made: Arc<[ScanTask]> = tasks(self, shape).into();
        if known.len() < SHAPES_MAX {
            known.push((shape, Arc::clone(&made)));
        }
        made
    }
}

/// Runs that overlap in time, in the order of equal timestamps.
#[derive(Debug)]
pub(crate) struct SelectedGroup {
    pub(crate) runs: Vec<SelectedRun>,
}

/// Rows of a run.
#[derive(Debug)]
pub(crate) struct SelectedRun {
    pub(crate) segment: Arc<SegmentRun>,
    pub(crate) rows: Vec<RowRange>,
}

/// The numbers of rows and parts of the table that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) partitions: usize,
    pub(crate) partitions_total: usize,
    pub(crate) segments: usize,
    pub(crate) segments_total: usize,
    /// The number of rows to read, deleted ones included.
    pub(crate) rows: u64,
    /// True if some of those rows are deleted.
    pub(crate) has_masked: bool,
}

/// Returns the rows whose designated timestamp lies in one of the ranges; all rows without ranges.
pub(crate) fn select(snapshot: &Snapshot, ranges: Option<&[TimeRange]>) -> Result<Arc<Selected>> {
    match ranges {
        Some(_) => selected(snapshot, ranges).map(Arc::new),
        None => snapshot.derived(|| selected(snapshot, None)),
    }
}

fn selected(snapshot: &Snapshot, ranges: Option<&[TimeRange]>) -> Result<Selected> {
    let designated = snapshot.schema.designated_column().map(|(column, _)| column);
    let mut counts = Counts::default();
    // Groups ascend in time, and so do their partitions.
    let (mut last, mut last_selected) = (None, None);
    let mut groups = Vec::with_capacity(snapshot.groups.len());
    for group in &snapshot.groups {
        let partition = Some(group.partition);
        counts.partitions_total += usize::from(mem::replace(&mut last, partition) != partition);
        counts.segments_total += group.runs.len();
        let mut runs = Vec::new();
        for Run::Segment(segment) in &group.runs {
            let rows = match (ranges, designated) {
                (Some(ranges), Some(column)) => rows_in(segment, column, ranges)?,
                _ => vec![RowRange { start: 0, end: segment.meta.rows.0 }],
            };
            let count = rows.iter().map(|range| range.count().0).sum::<u64>();
            if count > 0 {
                counts.rows += count;
                counts.has_masked |= segment.deletion_vector.is_some();
                runs.push(SelectedRun { segment: Arc::clone(segment), rows });
            }
        }
        if !runs.is_empty() {
            let before = mem::replace(&mut last_selected, partition);
            counts.partitions += usize::from(before != partition);
            counts.segments += runs.len();
            groups.push(SelectedGroup { runs });
        }
    }
    Ok(Selected { groups, counts, tasks: Mutex::default() })
}

fn rows_in(
    segment: &SegmentRun,
    designated: &Column,
    ranges: &[TimeRange],
) -> Result<Vec<RowRange>> {
    let (min, max) = (segment.meta.min_ts, segment.meta.max_ts);
    let mut all: Vec<RowRange> = Vec::new();
    for range in ranges.iter().filter(|range| range.meets(Timestamp(min), Timestamp(max))) {
        let holds_all = range.start <= min && max < range.end;
        let rows = if holds_all {
            RowRange { start: 0, end: segment.meta.rows.0 }
        } else {
            segment.reader()?.rows_in(designated, *range)?
        };
        match all.last_mut() {
            Some(last) if last.end == rows.start => last.end = rows.end,
            _ if rows.is_empty() => {}
            _ => all.push(rows),
        }
    }
    Ok(all)
}
