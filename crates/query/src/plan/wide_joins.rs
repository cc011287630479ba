//! Joins of long texts: they gather few rows before they pass them on.
//!
//! - wide_joins-1. A join gathers as many rows as a batch has, and charges nothing for the texts of
//!   its inputs that are in them. If the texts of a table are so long that a batch of them would be
//!   more than `SLICE_BYTES`, by the sizes of its segments, it gathers fewer.
//! - wide_joins-2. Its rows are parts of batches of texts, which stay in memory with them, and
//!   operators above count them with each row. If most of their bytes are those of rows that the
//!   join has left out, the texts are copied.
//!
//! It is decided for each run of a plan: a table gets other segments. Not here: values that a join
//! copies (`operators::copied`).

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use tidegate_model::limits::SLICE_BYTES;

use crate::operators::unary::{Unary, unary};
use crate::scan::{ScanSource, compacted, scan_of};
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
            Some(rows) => Ok(Transformed::yes(unary(few_rows(node, rows)?, CompactedExec))),
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

/// A join's rows without the texts of others (wide_joins-2).
#[derive(Debug)]
struct CompactedExec;

impl Unary for CompactedExec {
    /// The beginning is the name of cancel checks, which are not shown.
    const NAME: &'static str = "CancelCheckExec (joined texts)";

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = input.execute(partition, context)?;
        let schema = batches.schema();
        let batches = batches.map(|batch| {
            let (schema, columns, rows) = batch?.into_parts();
            let columns = columns.into_iter().map(compacted).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}
