//! Aggregate pushdown: aggregates computed inside the scan, in place of DataFusion's.
//!
//! ```text
//! AggregateExec Final          -->    PushedAggregateExec
//!   AggregateExec Partial
//!     ProjectionExec (or none)
//!       DataSourceExec (scan)
//! ```
//!
//! - The output has the schema and the meaning of the final aggregate's; only EXPLAIN shows which
//!   of them ran. It is one partition with one row for each group.
//! - An aggregate is pushed down whole or not at all (`plan`); all others are DataFusion's.
//! - aggregate_pushdown-1. Each group is a slot of a dense array; the number of slots is known when
//!   it is planned, and bounded (`plan::SLOT_BYTES_MAX`).
//! - aggregate_pushdown-2. In a plan template it has keys and aggregates, and no slots: these are
//!   planned anew for each statement, and an aggregate that no longer fits has another plan.
//! - The output ascends by the first key that is a bucket of time, and says so: what sorts by it
//!   needs no sort.
//! - Between two page frames a worker yields if its turn is over, and dropping the stream ends it
//!   there.
//! - An aggregate of few values has one worker, which works where its rows are waited for: other
//!   threads would be woken for less work than waking them is.
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
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, Time,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use super::{ScanSource, with_zones};
use crate::control::yield_after_turn;
use key::Key;
use plan::PushedAggregate;
use work::{States, TaskList, Worker};

/// The rule that puts pushed aggregates in place of DataFusion's.
#[derive(Debug)]
pub(crate) struct AggregatePushdown;

impl PhysicalOptimizerRule for AggregatePushdown {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let pushed = plan.transform_down(|plan| {
            let last = plan.downcast_ref::<AggregateExec>();
            let last = last.filter(|plan| *plan.mode() != AggregateMode::Partial);
            match last.map(PushedAggregate::of).transpose()?.flatten() {
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

/// A scan and the aggregate over it, as one.
#[derive(Debug)]
pub(super) struct PushedAggregateExec {
    plan: Arc<PushedAggregate>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PushedAggregateExec {
    fn new(plan: PushedAggregate) -> PushedAggregateExec {
        let schema = Arc::clone(&plan.spec.schema);
        let order = plan.keys.iter().position(Key::is_bucket).map(|at| {
            let column = Arc::new(Column::new(schema.field(at).name(), at));
            PhysicalSortExpr::new(column, SortOptions::new(false, false))
        });
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, order.map(|by| [by])),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        PushedAggregateExec::with_properties(plan, Arc::new(properties))
    }

    fn with_properties(
        plan: PushedAggregate,
        properties: Arc<PlanProperties>,
    ) -> PushedAggregateExec {
        let metrics = ExecutionPlanMetricsSet::new();
        PushedAggregateExec { plan: Arc::new(plan), properties, metrics }
    }

    /// Returns the scan.
    pub(super) fn source(&self) -> &ScanSource {
        &self.plan.source
    }

    /// Returns the same aggregate over another scan of the same columns; `None` if it cannot be
    /// pushed into that one.
    pub(super) fn over(&self, source: ScanSource) -> Result<Option<PushedAggregateExec>> {
        let plan = PushedAggregate::over(&self.plan.spec, source)?;
        let properties = Arc::clone(&self.properties);
        Ok(plan.map(|plan| PushedAggregateExec::with_properties(plan, properties)))
    }

    /// Returns the same aggregate for a plan template, over a scan without rows
    /// (aggregate_pushdown-2).
    pub(super) fn in_template(&self, source: ScanSource) -> PushedAggregateExec {
        let plan = PushedAggregate::in_template(&self.plan.spec, source);
        PushedAggregateExec::with_properties(plan, Arc::clone(&self.properties))
    }
}

impl DisplayAs for PushedAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PushedAggregateExec: {}, ", self.plan.spec.text)?;
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
        assert!(0 < self.plan.slots, "aggregate_pushdown-2: a template is not executed");
        let plan = Arc::clone(&self.plan);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = Arc::clone(&self.plan.spec.schema);
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

/// Computes the states of all tasks of a plan with all workers. A single one works here, where its
/// rows are waited for.
async fn work_together(
    plan: &Arc<PushedAggregate>,
    workers: usize,
    elapsed: &Time,
) -> Result<States> {
    let tasks = Arc::new(TaskList::new(plan));
    if workers == 1 {
        return work(plan, &tasks, elapsed).await;
    }
    let spawned = |_| {
        let (plan, tasks, elapsed) = (Arc::clone(plan), Arc::clone(&tasks), elapsed.clone());
        SpawnedTask::spawn(async move { work(&plan, &tasks, &elapsed).await })
    };
    let mut joined: Option<States> = None;
    for worker in (0..workers).map(spawned).collect::<Vec<_>>() {
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

/// Computes the states of the tasks that one worker takes.
async fn work(plan: &PushedAggregate, tasks: &TaskList, elapsed: &Time) -> Result<States> {
    let mut worker = Worker::new(plan);
    let mut taken = tasks.take();
    while let Some((number, task)) = taken {
        let timer = elapsed.timer();
        worker.fold(number, task)?;
        drop(timer);
        taken = tasks.take();
        if taken.is_some() {
            yield_after_turn().await;
        }
    }
    Ok(worker.into_states())
}
