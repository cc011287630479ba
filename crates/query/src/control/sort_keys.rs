//! Cancel checks within sorts: sort keys whose evaluation ends with the statement.
//!
//! - sort_keys-1. A sort evaluates its keys for each run of rows that it sorts, and its merge for
//!   each batch of a run: so it ends within one of them (`cancel_check_expr`), and not when all
//!   gathered rows are sorted.
//! - sort_keys-2. Such a sort displays its original keys, and the operators above it see the
//!   original order (`cancel_check`): only the evaluated expression differs.
//!
//! A sort with a limit keeps few rows, and sorts them with each batch: it needs no such keys.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;

use super::cancel_check_expr::CancelCheckExpr;
use crate::cancel::CancelState;

/// Returns the operator, with cancel checks in its keys if it sorts all rows (sort_keys-1).
pub(super) fn with_checked_keys(
    plan: Arc<dyn ExecutionPlan>,
    stop: &Arc<CancelState>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(sort) = plan.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) else {
        return Ok(plan);
    };
    let keys = sort.expr().iter().map(|key| {
        let expr = Arc::new(CancelCheckExpr::short(&key.expr, stop));
        PhysicalSortExpr::new(expr, key.options)
    });
    let Some(keys) = LexOrdering::new(keys) else { return Ok(plan) };
    let checked = SortExec::new(keys, Arc::clone(sort.input()));
    Ok(Arc::new(checked.with_preserve_partitioning(sort.preserve_partitioning())))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use datafusion::arrow::array::{Int64Array, RecordBatch};
    use datafusion::arrow::compute::SortOptions;
    use datafusion::arrow::datatypes::{FieldRef, Schema};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::execution::TaskContext;
    use datafusion::logical_expr::ColumnarValue;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::{DisplayFormatType, collect};

    use super::*;
    use crate::cancel::Timeout;
    use crate::control::{PlanText, with_cancel_checks};

    /// The evaluation of a key in which the statement is stopped.
    const LAST: u64 = 5;

    /// A column whose evaluations are counted.
    #[derive(Debug)]
    struct Counted {
        column: Column,
        evaluations: Arc<AtomicU64>,
        stop: Arc<CancelState>,
    }

    impl std::fmt::Display for Counted {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.column.fmt(f)
        }
    }

    impl PartialEq for Counted {
        fn eq(&self, other: &Counted) -> bool {
            self.column == other.column
        }
    }

    impl Eq for Counted {}

    impl std::hash::Hash for Counted {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            self.column.hash(state);
        }
    }

    impl PhysicalExpr for Counted {
        fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
            self.column.return_field(schema)
        }

        fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
            if self.evaluations.fetch_add(1, Relaxed) + 1 == LAST {
                self.stop.abandon();
            }
            self.column.evaluate(batch)
        }

        fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
            Vec::new()
        }

        fn with_new_children(
            self: Arc<Self>,
            _: Vec<Arc<dyn PhysicalExpr>>,
        ) -> Result<Arc<dyn PhysicalExpr>> {
            Ok(self)
        }

        fn fmt_sql(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.column.fmt_sql(f)
        }
    }

    // A sort of 20 million rows used up to a second of CPU time to sort the rows that it had
    // gathered, after its client had disconnected.
    #[tokio::test]
    async fn a_sort_ends_within_a_run() {
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let batch = |_| {
            let rows = Arc::new(Int64Array::from_iter_values((0..8_192).rev()));
            RecordBatch::try_from_iter([("n", Arc::clone(&rows) as _), ("m", rows as _)]).unwrap()
        };
        let batches = (0..64).map(batch).collect::<Vec<_>>();
        let schema = batches[0].schema();
        let input = MemorySourceConfig::try_new_exec(&[batches], schema, None).unwrap();
        let evaluations = Arc::new(AtomicU64::new(0));
        let key = Counted {
            column: Column::new("n", 0),
            evaluations: Arc::clone(&evaluations),
            stop: Arc::clone(&stop),
        };
        let options = SortOptions::default();
        let keys = [
            PhysicalSortExpr::new(Arc::new(key), options),
            PhysicalSortExpr::new(Arc::new(Column::new("m", 1)), options),
        ];
        let sort = Arc::new(SortExec::new(LexOrdering::new(keys).unwrap(), input));
        let plan = with_cancel_checks(Arc::clone(&sort) as _, &stop).unwrap();
        let format = DisplayFormatType::Default;
        let text =
            |plan: &dyn ExecutionPlan| PlanText { plan, format, has_metrics: false }.to_string();
        assert_eq!(text(plan.as_ref()), text(sort.as_ref()), "sort_keys-2");
        assert_eq!(plan.properties().output_ordering(), sort.properties().output_ordering());
        let error = collect(plan, Arc::new(TaskContext::default())).await.unwrap_err();
        assert_eq!(crate::Error::from(error).to_string(), "client disconnected");
        assert_eq!(evaluations.load(Relaxed), LAST, "sort_keys-1");
    }
}
