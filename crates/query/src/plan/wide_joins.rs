//! Joins of long texts: they gather few rows before they pass them on.
//!
//! - wide_joins-1. A join gathers as many rows as a batch has, and charges nothing for the texts of
//!   its inputs that are in them. If the texts of a table are so long that a batch of them would be
//!   more than `SLICE_BYTES`, by the sizes of its segments, it gathers fewer.
//!
//! It is decided for each run of a plan: a table gets other segments. Not here: values that a join
//! copies (`operators::copied`).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use tidegate_model::limits::SLICE_BYTES;

use crate::scan::{ScanSource, scan_of};
use crate::slices::few_rows;

/// Rows of a batch from which a join is not given a smaller batch size: it would be slower for
/// nothing.
const MANY_ROWS: u64 = 4_096;

/// Returns the plan, in which joins of long texts gather few rows (wide_joins-1).
pub(crate) fn with_few_rows_in_joins(
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let narrowed = |node: Arc<dyn ExecutionPlan>| -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        match rows_of(&node)? {
            Some(rows) => few_rows(node, rows).map(Transformed::yes),
            None => Ok(Transformed::no(node)),
        }
    };
    Ok(plan.transform_up(narrowed)?.data)
}

/// Returns the number of rows that a join gathers; `None` if that is what a batch has.
fn rows_of(node: &Arc<dyn ExecutionPlan>) -> Result<Option<usize>> {
    let is_join = node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<CrossJoinExec>();
    if !is_join {
        return Ok(None);
    }
    let mut row_bytes = 0_u64;
    for input in node.children() {
        let mut widest = 0_u64;
        input.apply(|below| {
            let bytes = scan_of(below.as_ref()).map_or(0, ScanSource::text_bytes_of_row);
            widest = widest.max(bytes);
            Ok(TreeNodeRecursion::Continue)
        })?;
        row_bytes = row_bytes.saturating_add(widest);
    }
    let rows = (SLICE_BYTES / row_bytes.max(1)).max(1);
    Ok(usize::try_from(rows).ok().filter(|_| rows < MANY_ROWS))
}
