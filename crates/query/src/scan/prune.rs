//! Pruning: the selection of the rows of a snapshot that a scan has to read.
//!
//! - Rows whose timestamp lies in none of the ranges are not in the selection, all others are.
//! - Groups and their runs keep the order of the snapshot; row ranges ascend.
//!
//! Only segments that a range ends in are opened here; the metadata tell if the others are needed.
//! The selection of all rows of a snapshot is made once, and so are its tasks: a small query of a
//! table with many partitions would do little else.

use std::mem;
use std::sync::{Arc, Mutex};

use tidegate_model::{Column, RowRange, TimeRange, Timestamp};
use tidegate_storage::{Result, Run, SegmentRun, Snapshot};

use crate::scan::selected::{Counts, Selected, SelectedGroup, SelectedRun};

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
