//! Aggregate pushdown: aggregates computed inside the scan, in place of DataFusion's partial ones.
//!
//! ```text
//! AggregateExec Final                 AggregateExec Final
//!   AggregateExec Partial      -->      PushedAggregateExec
//!     ProjectionExec (or none)
//!       DataSourceExec (scan)
//! ```
//!
//! - The output has the schema and the meaning of the partial aggregate's, so that the final one
//!   sees no difference; only EXPLAIN shows which of them ran.
//! - An aggregate is pushed down whole or not at all (`plan`); all others are DataFusion's.
//! - aggregate_pushdown-1. Each group is a slot of a dense array; the number of slots is known when
//!   it is planned, and bounded (`plan::SLOT_BYTES_MAX`).
//! - The output ascends by the first key that is a bucket of time, and says so: what sorts by it
//!   needs no sort.
//! - Between two page frames a worker yields, and dropping the stream ends it there.
//!
//! Not here: the folds themselves (`filter::aggregate`).

mod key;
mod plan;
mod work;
pub(crate) mod integers;
mod output;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use super::with_zones;
use key::Key;
use plan::PushedAggregate;
use work::{States, TaskList, Worker};

/// The rule that puts pushed aggregates in place of partial ones.
#[derive(Debug)]
pub(crate) struct AggregatePushdown;

impl PhysicalOptimizerRule for AggregatePushdown {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let pushed = plan.transform_down(|plan| {
            let partial = plan.downcast_ref::<AggregateExec>();
            let partial = partial.filter(|plan| *plan.mode() == AggregateMode::Partial);
            match partial.map(PushedAggregate::of).transpose()?.flatten() {
                Some(pushed) => Ok(Transformed::yes(Arc::new(PushedAggregateExec::new(pushed)))),
                None => Ok(Transformed::no(plan)),
            }
        })?;
        Ok(pushed.data)
    }

    fn name(&self) -> &'static str {
        "AggregatePushdown"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A scan and the partial aggregate over it, as one.
#[derive(Debug)]
struct PushedAggregateExec {
    plan: Arc<PushedAggregate>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PushedAggregateExec {
    fn new(plan: PushedAggregate) -> PushedAggregateExec {
        let order = plan.keys.iter().position(Key::is_bucket).map(|at| {
            let column = Arc::new(Column::new(plan.schema.field(at).name(), at));
            PhysicalSortExpr::new(column, SortOptions::new(false, false))
        });
        let schema = Arc::clone(&plan.schema);
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, order.map(|by| [by])),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let metrics = ExecutionPlanMetricsSet::new();
        PushedAggregateExec { plan: Arc::new(plan), properties: Arc::new(properties), metrics }
    }
}

impl DisplayAs for PushedAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PushedAggregateExec: {}, ", self.plan.aggregates)?;
        self.plan.source.describe(format, f)
    }
}

impl ExecutionPlan for PushedAggregateExec {
    fn name(&self) -> &'static str {
        "PushedAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("it has no input") }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let plan = Arc::clone(&self.plan);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = Arc::clone(&self.plan.schema);
        let batches = async move {
            let batch_rows = context.session_config().batch_size();
            let workers = plan.workers();
            let reserved = MemoryConsumer::new("PushedAggregate").register(context.memory_pool());
            reserved.try_grow(workers * plan.state_bytes())?;
            let elapsed = metrics.elapsed_compute().clone();
            let states = work_together(&plan, workers, &elapsed).await?;
            let timer = elapsed.timer();
            let batches = output::batches(&plan, &states, batch_rows)?;
            drop(timer);
            Ok::<_, DataFusionError>(stream::iter(batches.into_iter().map(move |batch| {
                // The reservation lasts as long as there are batches.
                let _ = &reserved;
                metrics.output_rows().add(batch.num_rows());
                Ok(batch)
            })))
        };
        let rows = stream::once(batches).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let filter = self.plan.source.read.filter.as_deref();
        Some(with_zones(&self.metrics, filter).clone_inner())
    }
}

/// Computes the states of all tasks of a plan with all workers.
async fn work_together(
    plan: &Arc<PushedAggregate>,
    workers: usize,
    elapsed: &datafusion::physical_plan::metrics::Time,
) -> Result<States> {
    let tasks = Arc::new(TaskList::new(plan));
    let work = |_| {
        let (plan, tasks, elapsed) = (Arc::clone(plan), Arc::clone(&tasks), elapsed.clone());
        SpawnedTask::spawn(async move {
            let mut worker = Worker::new(&plan);
            while let Some((number, task)) = tasks.take() {
                let timer = elapsed.timer();
                worker.fold(number, task)?;
                drop(timer);
                tokio::task::yield_now().await;
            }
            Ok::<_, DataFusionError>(worker.into_states())
        })
    };
    let mut joined: Option<States> = None;
    for worker in (0..workers).map(work).collect::<Vec<_>>() {
        let states = worker
            .join_unwind()
            .await
            .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        match &mut joined {
            Some(joined) => joined.merge(&states),
            None => joined = Some(states),
        }
    }
    Ok(joined.expect("a plan has a worker"))
}
