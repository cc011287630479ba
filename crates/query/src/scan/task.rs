//! The tasks of a scan.
//!
//! - N1. The rows of all tasks are the selected rows, each once; in the order of the tasks they are
//!   in the order of the table, unless the scan has any order.
//! - N2. A task of one run reads rows of one page frame; if it is decoded ahead and not filtered,
//!   at most `TASK_BYTES_MAX` of them or one batch, so that a task seldom waits for the reader of
//!   its batches.

use std::ops::Range;
use std::sync::Arc;

use tidegate_model::{ColumnType, RowRange, limits};
use tidegate_storage::SegmentRun;

use super::prune::{Selected, SelectedGroup};

/// The maximal number of rows of a batch.
pub(crate) const BATCH_ROWS: usize = 8_192;

/// The number of rows of a zone.
pub(crate) const ZONE_ROWS: usize = 4_096;
const _: () = assert!(ZONE_ROWS as u64 == limits::ZONE_ROWS.0);

/// The maximal bytes of the arrays of a task (N2).
pub(crate) const TASK_BYTES_MAX: usize = 4 << 20;

/// The order in which rows are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ScanOrder {
    /// Any order.
    Any,
    /// The order of the table: by timestamp, then by commit, then by position.
    Forward,
    /// The reverse order of the table.
    Backward,
}

/// A task: a part of the work of a scan.
#[derive(Debug, Clone)]
pub(crate) enum ScanTask {
    /// Rows of one page frame of a segment.
    Rows(FrameRows),
    /// Runs that overlap in time, to be merged; in the order of equal timestamps.
    Merge(Vec<Vec<FrameRows>>),
}

/// Rows of one page frame of a segment.
#[derive(Debug, Clone)]
pub(crate) struct FrameRows {
    pub(crate) segment: Arc<SegmentRun>,
    pub(crate) frame: u64,
    /// Counted from the start of the page frame.
    pub(crate) rows: Range<usize>,
}

/// The bytes of a value of the column of row ids in an array.
pub(crate) const ROW_ID_BYTES: usize = 8;

/// Returns the approximate bytes of a value in an array.
pub(crate) fn value_bytes(ty: ColumnType) -> usize {
    match ty {
        ColumnType::Boolean | ColumnType::Int8 | ColumnType::UInt8 => 1,
        ColumnType::Int16 | ColumnType::UInt16 => 2,
        ColumnType::Int32
        | ColumnType::UInt32
        | ColumnType::Float32
        | ColumnType::Date
        | ColumnType::Ipv4 => 4,
        ColumnType::Int64 | ColumnType::UInt64 | ColumnType::Float64 | ColumnType::Timestamp(_) => {
            8
        }
        ColumnType::Decimal { .. } | ColumnType::Uuid | ColumnType::Symbol => 16,
        ColumnType::Varchar | ColumnType::Binary => 64,
    }
}

/// The way in which selected rows are cut into tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskShape {
    pub(crate) order: ScanOrder,
    rows_max: usize,
}

impl TaskShape {
    /// Makes the shape for an order. `row_bytes` is the size of a row in arrays; 0 if rows are not
    /// decoded ahead.
    pub(crate) fn new(order: ScanOrder, row_bytes: usize) -> TaskShape {
        let fitting = TASK_BYTES_MAX / row_bytes.max(1) / BATCH_ROWS * BATCH_ROWS;
        let rows_max = fitting.clamp(BATCH_ROWS, limits::FRAME_ROWS.as_len());
        TaskShape { order, rows_max }
    }
}

/// Cuts the selected rows into tasks (N1).
pub(crate) fn tasks(selected: &Selected, shape: TaskShape) -> Vec<ScanTask> {
    let TaskShape { order, rows_max } = shape;
    let mut all = Vec::new();
    for group in &selected.groups {
        match group.runs.as_slice() {
            [run] => all.extend(frame_rows(&run.segment, &run.rows, rows_max).map(ScanTask::Rows)),
            runs if order == ScanOrder::Any => {
                let rows =
                    runs.iter().flat_map(|run| frame_rows(&run.segment, &run.rows, rows_max));
                all.extend(rows.map(ScanTask::Rows));
            }
            _ => all.push(ScanTask::Merge(merge_inputs(group, order, rows_max))),
        }
    }
    if order == ScanOrder::Backward {
        all.reverse();
    }
    all
}

fn merge_inputs(group: &SelectedGroup, order: ScanOrder, rows_max: usize) -> Vec<Vec<FrameRows>> {
    let mut inputs = Vec::with_capacity(group.runs.len());
    for run in &group.runs {
        let mut pieces = frame_rows(&run.segment, &run.rows, rows_max).collect::<Vec<_>>();
        if order == ScanOrder::Backward {
            pieces.reverse();
        }
        inputs.push(pieces);
    }
    inputs
}

/// Row ranges of a segment, cut at page frames and at `rows_max` rows.
fn frame_rows<'a>(
    segment: &'a Arc<SegmentRun>,
    ranges: &'a [RowRange],
    rows_max: usize,
) -> impl Iterator<Item = FrameRows> + 'a {
    let pieces = ranges.iter().flat_map(move |range| cut(*range, rows_max));
    pieces.map(|(frame, rows)| FrameRows { segment: Arc::clone(segment), frame, rows })
}

/// Returns the page frames that a range of rows lies in, each with the rows counted from its start.
fn cut(range: RowRange, rows_max: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let in_frame = limits::FRAME_ROWS.0;
    let mut start = range.start;
    std::iter::from_fn(move || {
        if start >= range.end {
            return None;
        }
        let (frame, first) = (start / in_frame, start % in_frame);
        let end = range.end.min((frame + 1) * in_frame).min(start + rows_max as u64);
        let count = end - start;
        start = end;
        let place = |row: u64| usize::try_from(row).expect("a page frame has 65,536 rows");
        Some((frame, place(first)..place(first + count)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: Range<u64>, rows_max: usize, expected: &[(u64, Range<usize>)]) {
        let range = RowRange { start: range.start, end: range.end };
        assert_eq!(cut(range, rows_max).collect::<Vec<_>>(), expected, "{range:?} by {rows_max}");
    }

    #[test]
    fn rows_are_cut_at_page_frames_and_at_the_size_of_a_task() {
        check(0..10, 65_536, &[(0, 0..10)]);
        check(5..5, 65_536, &[]);
        check(65_530..65_540, 65_536, &[(0, 65_530..65_536), (1, 0..4)]);
        check(131_072..131_073, 8_192, &[(2, 0..1)]);
        check(10..20_000, 8_192, &[(0, 10..8_202), (0, 8_202..16_394), (0, 16_394..20_000)]);
        let whole = cut(RowRange { start: 0, end: 4_194_304 }, 65_536).collect::<Vec<_>>();
        assert_eq!(whole.len(), 64);
        assert_eq!(whole[63], (63, 0..65_536));
    }
}
