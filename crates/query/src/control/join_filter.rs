//! Join conditions that check that the statement may continue.
//!
//! - join_filter-1. The check comes before each part of a batch that a join's condition is
//!   evaluated for (`cancel_check_expr`). A join without equality compares a batch of one side with
//!   all rows of the other in one step, which can take hours; it ends with its current row of that
//!   side.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};

use super::cancel_check_expr::CancelCheckExpr;
use crate::cancel::CancelState;

/// The operator; if it is a join with a condition, with a condition that checks (join_filter-1).
pub(super) fn with_checked_filter(
    plan: Arc<dyn ExecutionPlan>,
    stop: &Arc<CancelState>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let with_check = |filter: &JoinFilter| {
        let checked = CancelCheckExpr::long(filter.expression(), stop);
        let columns = filter.column_indices().to_vec();
        Some(JoinFilter::new(Arc::new(checked), columns, Arc::clone(filter.schema())))
    };
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        let builder = NestedLoopJoinExecBuilder::from(join).with_filter(with_check(filter));
        return Ok(Arc::new(builder.build()?));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        return join.builder().with_filter(with_check(filter)).build_exec();
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::hash::{Hash, Hasher};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    use datafusion::arrow::array::{BooleanArray, Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::common::{JoinType, NullEquality};
    use datafusion::execution::TaskContext;
    use datafusion::logical_expr::ColumnarValue;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::collect;
    use datafusion::physical_plan::joins::PartitionMode;

    use tokio::time::Instant;

    use super::*;
    use crate::cancel::{CancelReason, Timeout};
    use crate::control::with_cancel_checks;
    use crate::error::Error;

    /// The evaluation that stops the statement.
    const LAST: u64 = 5;

    /// A condition that is always false.
    #[derive(Debug)]
    struct Counted {
        evaluations: Arc<AtomicU64>,
        stop: Arc<CancelState>,
        /// The evaluation that stops the statement.
        last: u64,
        /// The duration of each evaluation.
        pace: Duration,
    }

    impl fmt::Display for Counted {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("counted")
        }
    }

    impl PartialEq for Counted {
        fn eq(&self, _: &Counted) -> bool {
            true
        }
    }

    impl Eq for Counted {}

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, _: &mut H) {}
    }

    impl PhysicalExpr for Counted {
        fn return_field(&self, _: &Schema) -> Result<FieldRef> {
            Ok(Arc::new(Field::new("counted", DataType::Boolean, false)))
        }

        fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
            let start = Instant::now();
            while start.elapsed() < self.pace {
                std::hint::spin_loop();
            }
            if self.evaluations.fetch_add(1, Relaxed) + 1 == self.last {
                self.stop.abandon();
            }
            Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(vec![false; batch.num_rows()]))))
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

        fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("counted")
        }
    }

    impl Counted {
        /// The condition of a join of two tables with a column each.
        fn filter(self) -> JoinFilter {
            let fields = ["left", "right"].map(|name| Field::new(name, DataType::Int64, false));
            let columns = JoinFilter::build_column_indices(vec![0], vec![0]);
            JoinFilter::new(Arc::new(self), columns, Arc::new(Schema::new(fields.to_vec())))
        }
    }

    /// Rows that are all equal, so that each row of one side matches all of the other.
    fn rows() -> Arc<dyn ExecutionPlan> {
        let column = Arc::new(Int64Array::from(vec![7; 4_000]));
        let batch = RecordBatch::try_from_iter([("n", column as _)]).unwrap();
        let schema = batch.schema();
        MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None).unwrap()
    }

    #[tokio::test]
    async fn a_join_ends_at_the_evaluation_it_is_at() {
        for has_equality in [false, true] {
            let stop = Arc::new(CancelState::new(Timeout::Never));
            let evaluations = Arc::new(AtomicU64::new(0));
            let counted = Counted {
                evaluations: Arc::clone(&evaluations),
                stop: Arc::clone(&stop),
                last: LAST,
                pace: Duration::ZERO,
            };
            let filter = counted.filter();
            let (left, right, inner) = (rows(), rows(), JoinType::Inner);
            let join: Arc<dyn ExecutionPlan> = if has_equality {
                let key = || Arc::new(Column::new("n", 0)) as Arc<dyn PhysicalExpr>;
                let join = HashJoinExec::try_new(
                    left,
                    right,
                    vec![(key(), key())],
                    Some(filter),
                    &inner,
                    None,
                    PartitionMode::CollectLeft,
                    NullEquality::NullEqualsNothing,
                    false,
                );
                Arc::new(join.unwrap())
            } else {
                let join = NestedLoopJoinExec::try_new(left, right, Some(filter), &inner, None);
                Arc::new(join.unwrap())
            };
            let plan = with_cancel_checks(join, &stop).unwrap();
            let error = collect(plan, Arc::new(TaskContext::default())).await.unwrap_err();
            let reason = CancelReason::Abandoned;
            assert!(matches!(Error::from(error), Error::Canceled { reason: it } if it == reason));
            assert_eq!(evaluations.load(Relaxed), LAST, "join_filter-1");
        }
    }

    #[test]
    fn a_join_that_takes_long_leaves_its_thread_to_others() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        runtime.unwrap().block_on(async {
            let stop = Arc::new(CancelState::new(Timeout::Never));
            let counted = Counted {
                evaluations: Arc::default(),
                stop: Arc::clone(&stop),
                last: u64::MAX,
                pace: Duration::from_millis(1),
            };
            let filter = Some(counted.filter());
            let inner = JoinType::Inner;
            let join = NestedLoopJoinExec::try_new(rows(), rows(), filter, &inner, None);
            let plan = with_cancel_checks(Arc::new(join.unwrap()), &stop).unwrap();
            let (began, begun) = tokio::sync::oneshot::channel();
            let join = tokio::spawn(async move {
                began.send(()).unwrap();
                collect(plan, Arc::new(TaskContext::default())).await
            });
            begun.await.unwrap();
            // The task waits for the only worker, which the join keeps for four seconds.
            tokio::spawn(async move { stop.abandon() }).await.unwrap();
            let error = join.await.unwrap().unwrap_err();
            assert!(matches!(Error::from(error), Error::Canceled { .. }), "cancel_check_expr-1");
        });
    }
}
