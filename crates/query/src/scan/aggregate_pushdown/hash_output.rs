//! The output of groups that were found by hash: those that can be among the first rows of a sort
//! above, in batches that are made as they are read.
//!
//! - hash_output-1. The texts of a batch have at most `BATCH_TEXT_BYTES` bytes, or it has one row.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;

use super::hash_memory::HashMemory;
use super::hash_merge::{Part, Runs};
use super::output;
use super::plan::{Output, PushedAggregate};

/// The most bytes of the texts of a batch: many times those of ordinary rows.
pub(super) const BATCH_TEXT_BYTES: usize = 4 << 20;

/// The rows that a sort with a limit above takes: those with the greatest or the least counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Top {
    /// The index in `PushedAggregate::outputs`.
    pub(super) output: usize,
    pub(super) is_descending: bool,
    pub(super) rows: usize,
    /// True if rows with the same count are sorted by something else.
    pub(super) has_more_keys: bool,
}

/// The groups of all workers, and their memory.
pub(super) struct Groups {
    pub(super) runs: Runs,
    /// The reservation, which lasts as long as the groups.
    pub(super) memory: HashMemory,
}

/// Batches of the groups that are left.
pub(super) struct Batches {
    /// The parts that are left; `None` if they are merged as they are read.
    parts: Option<std::vec::IntoIter<Part>>,
    part: Option<Part>,
    /// The next group of the part.
    start: usize,
    /// The number of rows that are still wanted.
    left: usize,
    batch_rows: usize,
}

impl Batches {
    /// Batches of so many rows, of all groups of the parts that this output takes, and of `fetch`
    /// rows at most.
    pub(super) fn all(fetch: Option<usize>, batch_rows: usize) -> Batches {
        let (left, batch_rows) = (fetch.unwrap_or(usize::MAX), batch_rows.max(1));
        Batches { parts: None, part: None, start: 0, left, batch_rows }
    }

    /// Batches of so many rows, of the groups of parts that a sort with a limit needs.
    pub(super) fn of_parts(
        plan: &PushedAggregate,
        parts: Vec<Part>,
        top: Top,
        batch_rows: usize,
    ) -> Batches {
        let groups = chosen(plan, &parts, top);
        let chosen = parts.iter().zip(groups).map(|(part, groups)| part.gathered(&groups));
        let parts = Some(chosen.collect::<Vec<_>>().into_iter());
        Batches { parts, ..Batches::all(None, batch_rows) }
    }

    /// Returns the next batch. The memory for one of ordinary size is reserved with the groups, and
    /// that for a larger one while it is made.
    pub(super) fn next(
        &mut self,
        plan: &PushedAggregate,
        groups: &Groups,
    ) -> Option<Result<RecordBatch>> {
        let Groups { runs, memory } = groups;
        while 0 < self.left {
            let Some(part) = self.part.as_ref().filter(|part| self.start < part.count()) else {
                let next = match &mut self.parts {
                    None => runs.merge_next(plan),
                    Some(parts) => parts.next(),
                };
                (self.part, self.start) = (Some(next?), 0);
                continue;
            };
            let rows = self.batch_rows.min(self.left);
            let range = self.start..part.count().min(self.start + rows);
            let Piece { rows, bytes } = within(plan, runs, part, range);
            assert!(bytes <= BATCH_TEXT_BYTES || rows == 1, "hash_output-1");
            let range = self.start..self.start + rows;
            (self.start, self.left) = (range.end, self.left - range.len());
            let held = (BATCH_TEXT_BYTES < bytes).then(|| memory.hold(bytes)).transpose();
            return Some(held.and_then(|_held| batch(plan, runs, part, range)));
        }
        None
    }
}

/// The first of some groups, and the bytes of their texts.
struct Piece {
    rows: usize,
    bytes: usize,
}

/// Returns the first of these groups, as many as a batch may have (hash_output-1).
fn within(plan: &PushedAggregate, runs: &Runs, part: &Part, groups: Range<usize>) -> Piece {
    let mut piece = Piece { rows: 0, bytes: 0 };
    if plan.hash_keys().texts == 0 {
        return Piece { rows: groups.len(), ..piece };
    }
    for group in groups {
        let bytes = piece.bytes + part.text_bytes(plan, runs, group);
        if 0 < piece.rows && BATCH_TEXT_BYTES < bytes {
            break;
        }
        piece = Piece { rows: piece.rows + 1, bytes };
    }
    piece
}

/// Returns the groups that a sort with a limit needs, of each part.
pub(super) fn chosen(plan: &PushedAggregate, parts: &[Part], top: Top) -> Vec<Vec<u32>> {
    let output = &plan.outputs[top.output];
    // Less is first.
    let rank_of = |part: &Part, group: usize| {
        let rows = part.states.rows[group];
        let count = match output {
            Output::Count(fold) => part.states.folds[*fold].count(group, rows),
            Output::Distinct(fold) => part.states.folds[*fold].distinct_count(group),
            Output::Rows
            | Output::Sum(_)
            | Output::Mean(_)
            | Output::ExactMean { .. }
            | Output::Bound(..)
            | Output::Positioned(..) => rows,
        };
        if top.is_descending { !count } else { count }
    };
    let mut ranks = Vec::new();
    for part in parts {
        ranks.extend((0..part.count()).map(|group| rank_of(part, group)));
    }
    let last = top.rows.max(1) - 1;
    let bound = match ranks.len() <= last {
        true => u64::MAX,
        false => *ranks.select_nth_unstable(last).1,
    };
    let before = ranks.iter().filter(|&&rank| rank < bound).count();
    let mut at_bound = if top.has_more_keys { usize::MAX } else { top.rows.saturating_sub(before) };
    let mut all = Vec::new();
    for part in parts {
        let mut taken = Vec::new();
        for (number, group) in (0..).zip(0..part.count()) {
            let rank = rank_of(part, group);
            if rank < bound || rank == bound && 0 < at_bound {
                at_bound -= usize::from(rank == bound);
                taken.push(number);
            }
        }
        all.push(taken);
    }
    all
}

/// Returns the rows of groups of a part.
fn batch(
    plan: &PushedAggregate,
    runs: &Runs,
    part: &Part,
    groups: Range<usize>,
) -> Result<RecordBatch> {
    let mut arrays = plan.hash_keys().arrays(&part.words(runs, groups.clone()))?;
    let groups = groups.collect::<Vec<_>>();
    for output in &plan.outputs {
        let ty = plan.spec.schema.field(arrays.len()).data_type();
        arrays.push(output::values(output, &part.states, &groups, ty)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(&plan.spec.schema), arrays, &options)?)
}
