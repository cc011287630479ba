//! The selected rows of a snapshot, and the tasks that they are cut into.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::{RowRange, limits};
use tidegate_storage::SegmentRun;

use crate::scan::task::{FrameRows, ScanOrder, ScanTask, TaskShape};

/// The rows that a scan reads.
#[derive(Debug)]
pub(crate) struct Selected {
    pub(crate) groups: Vec<SelectedGroup>,
    pub(crate) counts: Counts,
    /// The tasks by shape, at most `SHAPES_MAX`.
    pub(crate) tasks: Mutex<Vec<(TaskShape, Arc<[ScanTask]>)>>,
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

/// Cuts the selected rows into tasks.
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
pub(crate) fn cut(range: RowRange, rows_max: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
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
