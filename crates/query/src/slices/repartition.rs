//! Repartitioning of wide rows: each stream gathers few of them before it passes them on.
//!
//! - repartition-1. For each stream that it divides rows among, DataFusion gathers as many as a
//!   batch has, and charges nothing until they are: 8,192 texts of a megabyte for each. Of rows
//!   with texts or lists, `WIDE_ROWS` are gathered; batches that have half as many go on as they
//!   are.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::repartition::RepartitionExec;
use tidegate_model::limits::SLICE_BYTES;

use crate::operators::unary::{Unary, unary};

/// The beginning is the name of cancel checks, which are not shown.
const NAME: &str = "CancelCheckExec (repartition)";

/// Rows that are gathered (repartition-1): those of a whole batch are more for each of dozens of
/// streams.
const WIDE_ROWS: usize = 64;

/// Rows of a batch from which an operator is not given a smaller batch size: it would be slower for
/// nothing.
const MANY_ROWS: u64 = 4_096;
/// The copies of wide rows that an operator has in memory.
const COPIES: u64 = 4;

/// The operator, which gathers few rows if it divides wide ones (repartition-1).
pub(super) fn narrow(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if !plan.is::<RepartitionExec>() {
        return Ok(plan);
    }
    if !has_wide_columns(&plan.schema()) {
        return Ok(plan);
    }
    few_rows(plan, WIDE_ROWS)
}

/// Returns true if there are texts or lists.
pub(crate) fn has_wide_columns(schema: &Schema) -> bool {
    let is_wide = |ty: &DataType| ty.is_string() || ty.is_binary() || ty.is_nested();
    schema.fields().iter().any(|field| is_wide(field.data_type()))
}

/// Returns the number of rows of so many bytes that an operator may gather; `None` if that is what
/// a batch has, or not much less. Several copies of them are in memory at a time: a file that is
/// read has them as bytes and as values.
pub(crate) fn few_rows_of(row_bytes: u64) -> Option<usize> {
    let row_bytes = row_bytes.max(1);
    if MANY_ROWS <= SLICE_BYTES / row_bytes {
        return None;
    }
    usize::try_from(SLICE_BYTES / COPIES / row_bytes).ok().map(|rows| rows.max(1))
}

/// The operator with a batch size of at most so many rows, above inputs with the usual one.
pub(crate) fn few_rows(
    plan: Arc<dyn ExecutionPlan>,
    rows_max: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let outer = Arc::<Outer>::default();
    let below = |input: &Arc<dyn ExecutionPlan>| {
        unary(Arc::clone(input), BelowExec { outer: Arc::clone(&outer) })
    };
    let inputs = plan.children().into_iter().map(below).collect();
    let inner = replace_children_if_necessary(plan, inputs)?;
    Ok(unary(inner, FewRowsExec { outer, rows_max }))
}

/// The task context of all operators but this one.
#[derive(Debug, Default)]
struct Outer(Mutex<Option<Arc<TaskContext>>>);

/// An operator with a small batch size.
#[derive(Debug)]
struct FewRowsExec {
    outer: Arc<Outer>,
    rows_max: usize,
}

/// An input of that operator, with the usual batch size.
#[derive(Debug)]
struct BelowExec {
    outer: Arc<Outer>,
}

impl Unary for FewRowsExec {
    const NAME: &'static str = NAME;

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let config = context.session_config().clone();
        let config =
            config.with_batch_size(self.rows_max.min(context.session_config().batch_size()));
        // It calls no functions.
        let few =
            TaskContext::default().with_session_config(config).with_runtime(context.runtime_env());
        *self.outer.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(context);
        input.execute(partition, Arc::new(few))
    }
}

impl Unary for BelowExec {
    const NAME: &'static str = NAME;

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let outer = self.outer.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        input.execute(partition, outer.unwrap_or(context))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::physical_expr::Partitioning;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::collect_partitioned;
    use tokio::runtime::Builder;

    use super::*;

    /// Both streams of a division gathered all rows of a table of documents.
    #[test]
    fn streams_gather_few_rows_that_may_be_wide() {
        let batch = |row: i64| {
            let numbers = Arc::new(Int64Array::from(vec![row]));
            let texts = Arc::new(StringArray::from(vec!["x"]));
            RecordBatch::try_from_iter([("n", numbers as _), ("text", texts as _)]).unwrap()
        };
        let batches = (0..1_000).map(batch).collect::<Vec<_>>();
        let schema = batches[0].schema();
        let input = MemorySourceConfig::try_new_exec(&[batches], schema, None).unwrap();
        let by = Partitioning::Hash(vec![Arc::new(Column::new("n", 0))], 2);
        let plan = narrow(Arc::new(RepartitionExec::try_new(input, by).unwrap())).unwrap();
        assert_eq!(plan.name(), NAME);
        let runtime = Builder::new_current_thread().build().unwrap();
        let streams = collect_partitioned(plan, Arc::new(TaskContext::default()));
        let batches = runtime.block_on(streams).unwrap().concat();
        let rows = batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>();
        assert_eq!(rows.iter().sum::<usize>(), 1_000);
        assert!(rows.iter().all(|&rows| rows <= WIDE_ROWS), "repartition-1: {rows:?}");
    }
}
