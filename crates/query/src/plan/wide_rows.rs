//! Joins, sorts and aggregates of long texts: they gather few rows before they pass them on.
//!
//! - wide_rows-1. They gather as many rows as a batch has, in output and in spilled files, and
//!   charge nothing for the texts in them. If the texts of a table are so long that a batch of them
//!   would be more than `SLICE_BYTES`, by the sizes of its segments, they gather fewer.
//! - wide_rows-2. The rows of a join are parts of batches of texts, which stay in memory with them,
//!   and operators above count them with each row. If most of their bytes are those of rows that
//!   the join has left out, the texts are copied.
//!
//! It is decided for each run of a plan: a table gets other segments. Not here: values that a join
//! copies (`operators::copied`).

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use crate::operators::unary::{Unary, unary};
use crate::scan::{ScanSource, compacted, scan_of};
use crate::slices::{few_rows, few_rows_of, has_wide_columns};

/// Returns the plan, in which operators gather few rows with long texts (wide_rows-1).
pub(crate) fn with_few_wide_rows(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let narrowed = |node: Arc<dyn ExecutionPlan>| -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let is_join = is_join(node.as_ref());
        let gathers = is_join || node.is::<SortExec>() || node.is::<SortPreservingMergeExec>();
        let groups = node.is::<AggregateExec>() && has_wide_columns(&node.schema());
        if !gathers && !groups {
            return Ok(Transformed::no(node));
        }
        let Some(rows) = few_rows_of(row_bytes(node.as_ref())?) else {
            return Ok(Transformed::no(node));
        };
        let narrow = few_rows(node, rows)?;
        Ok(Transformed::yes(if is_join { unary(narrow, CompactedExec) } else { narrow }))
    };
    Ok(plan.transform_up(narrowed)?.data)
}

fn is_join(node: &dyn ExecutionPlan) -> bool {
    node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<CrossJoinExec>()
}

/// Returns an estimate of the bytes of the texts of a row: those of the widest scan below each
/// input.
fn row_bytes(node: &dyn ExecutionPlan) -> Result<u64> {
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
    Ok(row_bytes)
}

/// A join's rows without the texts of others (wide_rows-2).
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
