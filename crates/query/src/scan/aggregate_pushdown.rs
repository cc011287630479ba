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
//! - The output ascends or descends by the first key that is a bucket of time, and says so: what
//!   sorts by it needs no sort. With a limit it reads from that end of the time, until so many
//!   groups are complete: those whose bucket is not the one that was read last.
//! - Between two page frames a worker yields if its turn is over, and dropping the stream ends it
//!   there.
//! - An aggregate of few values has one worker, which works where its rows are waited for: other
//!   threads would be woken for less work than waking them is.
//!
//! Not here: the folds themselves (`filter::aggregate`).

mod key;
mod plan;
mod work;
mod time_slices;
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
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SortOrderPushdownResult,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::{ScanOrder, ScanSource, with_zones};
use crate::control::yield_after_turn;
use key::Key;
use plan::PushedAggregate;
use time_slices::TimeSlices;
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
                Some(pushed) => {
                    let pushed = PushedAggregateExec::new(pushed, OutputRows::default());
                    Ok(Transformed::yes(Arc::new(pushed)))
                }
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
    rows: OutputRows,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The order of the rows by their buckets, and the number of those that are wanted.
#[derive(Debug, Clone, Copy, Default)]
struct OutputRows {
    is_descending: bool,
    /// The place that the order declares for NULL: a bucket never is one, but DataFusion compares
    /// the orders of columns that may be.
    nulls_first: bool,
    /// Only with buckets.
    fetch: Option<usize>,
}

impl PushedAggregateExec {
    fn new(plan: PushedAggregate, rows: OutputRows) -> PushedAggregateExec {
        let schema = Arc::clone(&plan.spec.schema);
        let order = bucket_of(&plan).map(|at| {
            let column = Arc::new(Column::new(schema.field(at).name(), at));
            let options = SortOptions::new(rows.is_descending, rows.nulls_first);
            PhysicalSortExpr::new(column, options)
        });
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, order.map(|by| [by])),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        PushedAggregateExec::with_properties(plan, rows, Arc::new(properties))
    }

    fn with_properties(
        plan: PushedAggregate,
        rows: OutputRows,
        properties: Arc<PlanProperties>,
    ) -> PushedAggregateExec {
        let metrics = ExecutionPlanMetricsSet::new();
        PushedAggregateExec { plan: Arc::new(plan), rows, properties, metrics }
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
        Ok(plan.map(|plan| PushedAggregateExec::with_properties(plan, self.rows, properties)))
    }

    /// Returns the same aggregate for a plan template, over a scan without rows
    /// (aggregate_pushdown-2).
    pub(super) fn in_template(&self, source: ScanSource) -> PushedAggregateExec {
        let plan = PushedAggregate::in_template(&self.plan.spec, source);
        PushedAggregateExec::with_properties(plan, self.rows, Arc::clone(&self.properties))
    }
}

/// Returns the place of the key by which the output is ordered.
fn bucket_of(plan: &PushedAggregate) -> Option<usize> {
    plan.keys.iter().position(Key::is_bucket)
}

impl DisplayAs for PushedAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PushedAggregateExec: {}, ", self.plan.spec.text)?;
        self.plan.source.describe(format, f)?;
        if self.rows.is_descending {
            f.write_str(", descending")?;
        }
        self.rows.fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
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
        let (plan, rows) = (Arc::clone(&self.plan), self.rows);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = Arc::clone(&self.plan.spec.schema);
        let batches = async move {
            let batch_rows = context.session_config().batch_size();
            let workers = plan.workers();
            let reserved = MemoryConsumer::new("PushedAggregate").register(context.memory_pool());
            reserved.try_grow(workers * plan.state_bytes())?;
            let elapsed = metrics.elapsed_compute().clone();
            let states = match rows.fetch {
                Some(fetch) => {
                    work_until(&plan, workers, rows.is_descending, fetch, &elapsed).await?
                }
                None => work_together(&plan, workers, TaskList::all(&plan), &elapsed).await?,
            };
            let timer = elapsed.timer();
            let slots = output::slots(&plan, &states, rows.is_descending);
            let fetch = rows.fetch.map_or(slots.len(), |fetch| fetch.min(slots.len()));
            let batches = output::batches(&plan, &states, &slots[..fetch], batch_rows)?;
            drop(timer);
            Ok::<_, DataFusionError>(stream::iter(batches.into_iter().map(move |batch| {
                // The reservation lasts as long as there are batches.
                let _ = &reserved;
                metrics.output_rows().add(batch.num_rows());
                Ok(batch)
            })))
        };
        let batches = stream::once(batches).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.boxed())))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let [key] = order else { return Ok(SortOrderPushdownResult::Unsupported) };
        let column = key.expr.downcast_ref::<Column>().map(Column::index);
        if column.is_none() || column != bucket_of(&self.plan) || self.rows.fetch.is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let Some(plan) = PushedAggregate::over(&self.plan.spec, self.source().clone())? else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        let SortOptions { descending: is_descending, nulls_first } = key.options;
        let rows = OutputRows { is_descending, nulls_first, fetch: None };
        let inner = Arc::new(PushedAggregateExec::new(plan, rows));
        Ok(SortOrderPushdownResult::Exact { inner })
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        bucket_of(&self.plan)?;
        let source = match self.plan.fits_slices() {
            true => self.source().clone(),
            false => self.source().with_order(ScanOrder::Forward)?,
        };
        // An aggregate that depends on the order of tasks may not fit these.
        let plan = PushedAggregate::over(&self.plan.spec, source).ok().flatten()?;
        let rows = OutputRows { fetch, ..self.rows };
        Some(Arc::new(PushedAggregateExec::new(plan, rows)))
    }

    fn fetch(&self) -> Option<usize> {
        self.rows.fetch
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let filter = self.plan.source.read.filter.as_deref();
        Some(with_zones(&self.metrics, filter).clone_inner())
    }
}

/// Computes the states of rows from one end of the time until so many groups are complete: slice by
/// slice, or twice as many tasks in each round.
async fn work_until(
    plan: &Arc<PushedAggregate>,
    workers: usize,
    is_descending: bool,
    fetch: usize,
    elapsed: &Time,
) -> Result<States> {
    let total = plan.source.tasks.len();
    let mut joined = States::new(plan);
    if let Some(mut slices) = TimeSlices::of(plan, is_descending, fetch) {
        while let Some(part) = slices.next(plan)? {
            let tasks = TaskList::of_part(&part);
            let workers = workers.min(plan.workers_for(part.counts.rows, tasks.len()));
            joined.merge(&work_together(plan, workers, tasks, elapsed).await?);
            if fetch <= output::complete(plan, &joined, is_descending) {
                break;
            }
        }
        return Ok(joined);
    }
    let (mut done, mut round) = (0, 1);
    while done < total {
        let end = (done + round).min(total);
        let range = if is_descending { total - end..total - done } else { done..end };
        let tasks = TaskList::of(plan, range);
        let workers = workers.min(end - done);
        joined.merge(&work_together(plan, workers, tasks, elapsed).await?);
        if fetch <= output::complete(plan, &joined, is_descending) {
            break;
        }
        (done, round) = (end, round * 2);
    }
    Ok(joined)
}

/// Computes the states of tasks with all workers. A single one works here, where its rows are
/// waited for.
async fn work_together(
    plan: &Arc<PushedAggregate>,
    workers: usize,
    tasks: TaskList,
    elapsed: &Time,
) -> Result<States> {
    let tasks = Arc::new(tasks);
    if workers <= 1 {
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
