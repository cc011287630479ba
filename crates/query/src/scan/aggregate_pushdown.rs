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
//!   of them ran. It has one row for each group.
//! - An aggregate is pushed down whole or not at all (`plan`); all others are DataFusion's.
//! - aggregate_pushdown-1. Each group is a slot of a dense array, if there are few; the number of
//!   slots is known when it is planned, and bounded (`plan::SLOT_BYTES_MAX`).
//! - Other groups are found by hash (`hash_run`). They leave in no order, and their memory is that
//!   of the statement; if it is refused, DataFusion's aggregate runs in place of the pushed one.
//! - aggregate_pushdown-2. In a plan template it has keys and aggregates, and neither slots nor
//!   hash tables: these are planned anew for each statement, and an aggregate that no longer fits
//!   has another plan.
//! - If groups are slots, the output ascends or descends by the first key that is a bucket of
//!   time, and says so: what sorts by it needs no sort. With a limit it reads from that end of the
//!   time, until so many groups are complete: those whose bucket is not the one that was read last.
//! - Between two page frames a worker yields if its turn is over, and dropping the stream ends it
//!   there.
//! - An aggregate of few values has one worker, which works where its rows are waited for: other
//!   threads would be woken for less work than waking them is.
//!
//! Not here: the folds themselves (`filter::aggregate`).

mod stored;
mod computed_key;
mod key;
mod hash_key;
mod calculated;
mod plan;
mod plain;
mod states;
mod work;
mod hash_memory;
mod hash_table;
mod hash_merge;
mod group_counts;
mod hash_run;
mod time_slices;
pub(crate) mod integers;
mod output;
mod hash_output;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, SchedulingType, replace_children_if_necessary,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, Time,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SortOrderPushdownResult,
    StatisticsArgs,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

use super::{ScanOrder, ScanSource, with_zones};
use crate::control::yield_after_turn;
use group_counts::GroupCounts;
use hash_output::Top;
use hash_run::{OutputPartition, PartitionGroups, Wanted};
use key::Key;
use plan::{Output, PushedAggregate, Way};
use states::States;
use time_slices::TimeSlices;
use work::{TaskList, Worker};

/// The greatest limit of a sort that chooses the groups below it.
const TOP_ROWS_MAX: usize = 1 << 20;

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
        let counted = pushed.data.transform_down(|plan| {
            let last = plan.downcast_ref::<AggregateExec>();
            match last.and_then(counted_below) {
                Some(counted) => Ok(Transformed::yes(Arc::new(counted))),
                None => Ok(Transformed::no(plan)),
            }
        })?;
        let chosen = counted.data.transform_down(|plan| {
            let sort = plan.downcast_ref::<SortExec>();
            match sort.map(chosen_below).transpose()?.flatten() {
                Some(input) => {
                    replace_children_if_necessary(plan, vec![input]).map(Transformed::yes)
                }
                None => Ok(Transformed::no(plan)),
            }
        })?;
        Ok(chosen.data)
    }

    fn name(&self) -> &'static str {
        "AggregatePushdown"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the counts of the groups of a pushed aggregate, if an aggregate has no more than these.
fn counted_below(last: &AggregateExec) -> Option<PushedAggregateExec> {
    let partial = last.input().downcast_ref::<AggregateExec>()?;
    let are_steps =
        *partial.mode() == AggregateMode::Partial && *last.mode() != AggregateMode::Partial;
    let pushed = partial.input().downcast_ref::<PushedAggregateExec>()?;
    if are_steps { pushed.with_counts(last, partial) } else { None }
}

/// Returns the input of a sort with a limit, with an aggregate of which only those groups leave
/// that can be among its rows; `None` if it has none.
fn chosen_below(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(rows) = sort.fetch().filter(|&rows| rows <= TOP_ROWS_MAX) else { return Ok(None) };
    let first = sort.expr().first();
    let Some(column) = first.expr.downcast_ref::<Column>() else { return Ok(None) };
    let top = Top {
        output: 0,
        is_descending: first.options.descending,
        rows,
        has_more_keys: 1 < sort.expr().len(),
    };
    with_top(sort.input(), column.index(), top)
}

/// Returns a plan with an aggregate at its bottom that is sorted by this column of the plan.
fn with_top(
    plan: &Arc<dyn ExecutionPlan>,
    at: usize,
    top: Top,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(pushed) = plan.downcast_ref::<PushedAggregateExec>() {
        return Ok(pushed.with_top(at, top).map(|pushed| Arc::new(pushed) as _));
    }
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let projected = projection.expr().get(at).map(|projected| &projected.expr);
    let Some(column) = projected.and_then(|expr| expr.downcast_ref::<Column>()) else {
        return Ok(None);
    };
    match with_top(projection.input(), column.index(), top)? {
        Some(input) => replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some),
        None => Ok(None),
    }
}

/// A scan and the aggregate over it, as one.
#[derive(Debug)]
pub(super) struct PushedAggregateExec {
    plan: Arc<PushedAggregate>,
    rows: OutputRows,
    /// Counts of the groups, which leave in place of them; only if they are found by hash.
    counts: Option<Arc<GroupCounts>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    groups: PartitionGroups,
}

/// The order of the rows by their buckets, and the number of those that are wanted.
#[derive(Debug, Clone, Copy, Default)]
struct OutputRows {
    is_descending: bool,
    /// The place that the order declares for NULL: a bucket never is one, but DataFusion compares
    /// the orders of columns that may be.
    nulls_first: bool,
    /// Only with buckets, or if groups are found by hash.
    fetch: Option<usize>,
    /// Only if groups are found by hash.
    top: Option<Top>,
}

impl PushedAggregateExec {
    fn new(plan: PushedAggregate, rows: OutputRows) -> PushedAggregateExec {
        let schema = Arc::clone(&plan.spec.schema);
        let order = bucket_of(&plan).map(|at| {
            let column = Arc::new(Column::new(schema.field(at).name(), at));
            let options = SortOptions::new(rows.is_descending, rows.nulls_first);
            PhysicalSortExpr::new(column, options)
        });
        // Groups that are found by hash leave by as many tasks as have found them.
        let partitions = if plan.way == Way::Hash { plan.workers() } else { 1 };
        let properties = properties_of(schema, order, partitions);
        PushedAggregateExec::with_properties(plan, rows, properties)
    }

    fn with_properties(
        plan: PushedAggregate,
        rows: OutputRows,
        properties: Arc<PlanProperties>,
    ) -> PushedAggregateExec {
        PushedAggregateExec {
            plan: Arc::new(plan),
            rows,
            counts: None,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            groups: PartitionGroups::default(),
        }
    }

    /// Returns the scan.
    pub(super) fn source(&self) -> &ScanSource {
        &self.plan.source
    }

    /// Returns the same aggregate over another scan of the same columns; `None` if it cannot be
    /// pushed into that one.
    pub(super) fn over(&self, source: ScanSource) -> Result<Option<PushedAggregateExec>> {
        let plan = PushedAggregate::over(&self.plan.spec, source, self.plan.way)?;
        let properties = Arc::clone(&self.properties);
        Ok(plan.map(|plan| PushedAggregateExec {
            counts: self.counts.clone(),
            ..PushedAggregateExec::with_properties(plan, self.rows, properties)
        }))
    }

    /// Returns the same aggregate for a plan template, over a scan without rows
    /// (aggregate_pushdown-2).
    pub(super) fn in_template(&self, source: ScanSource) -> PushedAggregateExec {
        let plan = PushedAggregate::in_template(&self.plan.spec, source, self.plan.way);
        let properties = Arc::clone(&self.properties);
        PushedAggregateExec {
            counts: self.counts.clone(),
            ..PushedAggregateExec::with_properties(plan, self.rows, properties)
        }
    }

    /// Returns true if all groups leave, so that others may choose among them.
    fn is_open(&self) -> bool {
        let OutputRows { fetch, top, .. } = self.rows;
        fetch.is_none() && top.is_none() && self.counts.is_none()
    }

    /// Returns the same aggregate with other wanted rows.
    fn with_rows(&self, rows: OutputRows) -> PushedAggregateExec {
        let (plan, properties) = (Arc::clone(&self.plan), Arc::clone(&self.properties));
        let (counts, metrics) = (self.counts.clone(), ExecutionPlanMetricsSet::new());
        let groups = PartitionGroups::default();
        PushedAggregateExec { plan, rows, counts, properties, metrics, groups }
    }

    /// Returns the counts of its groups for an aggregate above; `None` if that has others, or
    /// groups are slots.
    fn with_counts(
        &self,
        last: &AggregateExec,
        partial: &AggregateExec,
    ) -> Option<PushedAggregateExec> {
        if self.plan.way != Way::Hash || !self.is_open() {
            return None;
        }
        let counts = GroupCounts::of(last, partial, self.plan.hash_keys().count())?;
        let properties = properties_of(Arc::clone(&counts.schema), None, 1);
        let counts = Some(Arc::new(counts));
        Some(PushedAggregateExec { counts, properties, ..self.with_rows(self.rows) })
    }

    /// Returns the same aggregate for a sort with a limit by this column; `None` if the sort
    /// chooses no groups by it: it is not a count, or groups are slots.
    fn with_top(&self, at: usize, top: Top) -> Option<PushedAggregateExec> {
        if self.plan.way != Way::Hash || !self.is_open() {
            return None;
        }
        let output = at.checked_sub(self.plan.hash_keys().count())?;
        let output_there = self.plan.outputs.get(output)?;
        let is_count =
            matches!(output_there, Output::Rows | Output::Count(_) | Output::Distinct(_));
        let top = Some(Top { output, ..top });
        let properties = properties_of(self.schema(), None, 1);
        let rows = OutputRows { top, ..self.rows };
        is_count.then(|| PushedAggregateExec { properties, ..self.with_rows(rows) })
    }

    /// Runs it where groups are slots.
    fn execute_slots(&self, metrics: BaselineMetrics, context: Arc<TaskContext>) -> BatchStream {
        let (plan, rows) = (Arc::clone(&self.plan), self.rows);
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
        stream::once(batches).try_flatten().boxed()
    }
}

/// Batches of an aggregate.
type BatchStream = BoxStream<'static, Result<RecordBatch>>;

fn properties_of(
    schema: SchemaRef,
    order: Option<PhysicalSortExpr>,
    partitions: usize,
) -> Arc<PlanProperties> {
    let properties = PlanProperties::new(
        EquivalenceProperties::new_with_orderings(schema, order.map(|by| [by])),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Final,
        Boundedness::Bounded,
    );
    Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative))
}

/// Returns the place of the key by which the output is ordered.
fn bucket_of(plan: &PushedAggregate) -> Option<usize> {
    plan.keys.iter().position(Key::is_bucket)
}

impl DisplayAs for PushedAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PushedAggregateExec: {}, ", self.plan.spec.text)?;
        if self.plan.way == Way::Hash {
            f.write_str("hash, ")?;
        }
        self.plan.source.describe(format, f)?;
        if self.rows.is_descending {
            f.write_str(", descending")?;
        }
        if let Some(counts) = &self.counts {
            write!(f, ", counts=[{}]", counts.text)?;
        }
        if let Some(top) = self.rows.top {
            write!(f, ", top={}", top.rows)?;
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
        let is_run = !self.plan.is_in_template();
        assert!(is_run, "aggregate_pushdown-2: a template is not executed");
        let schema = self.schema();
        let batches = match self.plan.way {
            Way::Slots => {
                self.execute_slots(BaselineMetrics::new(&self.metrics, partition), context)
            }
            Way::Hash => {
                let (plan, metrics) = (Arc::clone(&self.plan), self.metrics.clone());
                let (OutputRows { top, fetch, .. }, counts) = (self.rows, self.counts.clone());
                let wanted = Wanted { top, fetch, counts };
                let count = self.properties.output_partitioning().partition_count();
                let partition = OutputPartition { number: partition, count };
                let elapsed = BaselineMetrics::new(&metrics, partition.number);
                let elapsed = elapsed.elapsed_compute().clone();
                let groups =
                    hash_run::groups_of(&self.groups, partition, &plan, &wanted, elapsed, &context);
                let rows = hash_run::rows(plan, wanted, partition, groups, metrics, context);
                stream::once(rows).try_flatten().boxed()
            }
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
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
        let source = self.source().clone();
        let Some(plan) = PushedAggregate::over(&self.plan.spec, source, Way::Slots)? else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        let SortOptions { descending: is_descending, nulls_first } = key.options;
        let rows = OutputRows { is_descending, nulls_first, ..OutputRows::default() };
        let inner = Arc::new(PushedAggregateExec::new(plan, rows));
        Ok(SortOrderPushdownResult::Exact { inner })
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let rows = OutputRows { fetch, ..self.rows };
        if self.plan.way == Way::Hash {
            let is_whole = self.rows.top.is_none() && self.counts.is_none();
            return is_whole.then(|| Arc::new(self.with_rows(rows)) as _);
        }
        bucket_of(&self.plan)?;
        let source = match self.plan.fits_slices() {
            true => self.source().clone(),
            false => self.source().with_order(ScanOrder::Forward)?,
        };
        // An aggregate that depends on the order of tasks may not fit these.
        let plan = PushedAggregate::over(&self.plan.spec, source, Way::Slots).ok().flatten()?;
        Some(Arc::new(PushedAggregateExec::new(plan, rows)))
    }

    fn fetch(&self) -> Option<usize> {
        self.rows.fetch
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if self.counts.is_some() {
            statistics.num_rows = Precision::Exact(1);
        } else if self.plan.way == Way::Hash {
            // As DataFusion estimates it for joins: each row may be a group.
            let (rows, _) = self.source().rows();
            statistics.num_rows = Precision::Inexact(rows);
        }
        Ok(Arc::new(statistics))
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
