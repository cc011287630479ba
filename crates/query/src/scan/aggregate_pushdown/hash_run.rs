//! Running an aggregate whose groups are found by hash.
//!
//! - Workers share the tasks of the scan, each with a table of its own (`hash_table`). Their runs
//!   are merged part by part (`hash_merge`): by the partitions of the output, as their batches are
//!   read, or by as many tasks as there were workers, if only some groups or their counts leave.
//! - hash_run-1. All partitions of the output have the same runs, and each part is in one of them.
//! - If the memory of the groups is refused, all of them are dropped with their tables, and then
//!   DataFusion's aggregate runs in their place (`plain`), in the first partition of the output.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, Time,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, TryStreamExt, stream};

use super::group_counts::GroupCounts;
use super::hash_memory::HashMemory;
use super::hash_merge::{Part, Runs};
use super::hash_output::{BATCH_TEXT_BYTES, Batches, Groups, Top, chosen};
use super::hash_table::Run;
use super::plan::PushedAggregate;
use super::work::{TaskList, Worker};
use crate::control::yield_after_turn;

/// The rows that are wanted.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) top: Option<Top>,
    pub(super) fetch: Option<usize>,
    /// Counts of the groups in place of them.
    pub(super) counts: Option<Arc<GroupCounts>>,
}

/// The groups for all partitions of an output; `None` if there is no memory for them.
type SharedGroups = Shared<BoxFuture<'static, SharedResult>>;
type SharedResult = std::result::Result<Option<Arc<Groups>>, Arc<DataFusionError>>;

/// The groups of an aggregate that some partitions of the output have not asked for yet.
#[derive(Default)]
pub(super) struct PartitionGroups(Mutex<Option<Pending>>);

struct Pending {
    groups: SharedGroups,
    /// The partitions that have asked for them.
    asked: Vec<bool>,
}

impl std::fmt::Debug for PartitionGroups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PartitionGroups")
    }
}

impl PartitionGroups {
    /// Returns the groups for one of the partitions (hash_run-1). One that asks again is that of
    /// another execution.
    fn of(
        &self,
        partition: usize,
        count: usize,
        new: impl FnOnce() -> SharedGroups,
    ) -> SharedGroups {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = slot.take().filter(|pending| !pending.asked[partition]);
        let mut pending =
            pending.unwrap_or_else(|| Pending { groups: new(), asked: vec![false; count] });
        pending.asked[partition] = true;
        let groups = pending.groups.clone();
        if pending.asked.contains(&false) {
            *slot = Some(pending);
        }
        groups
    }
}

/// A partition of the output.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputPartition {
    pub(super) number: usize,
    pub(super) count: usize,
}

/// Returns the groups for a partition of the output.
pub(super) fn groups_of(
    pending: &PartitionGroups,
    partition: OutputPartition,
    plan: &Arc<PushedAggregate>,
    wanted: &Wanted,
    elapsed: Time,
    context: &TaskContext,
) -> SharedGroups {
    pending.of(partition.number, partition.count, || {
        let (plan, wanted, memory) = (Arc::clone(plan), wanted.clone(), HashMemory::new(context));
        let groups = async move {
            let groups = groups(plan, wanted, memory, partition.count, elapsed).await;
            groups.map(|groups| groups.map(Arc::new)).map_err(Arc::new)
        };
        groups.boxed().shared()
    })
}

/// Returns the rows of a partition of the output.
pub(super) async fn rows(
    plan: Arc<PushedAggregate>,
    wanted: Wanted,
    partition: OutputPartition,
    groups: SharedGroups,
    all_metrics: ExecutionPlanMetricsSet,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let Wanted { top, fetch, counts } = wanted;
    let metrics = BaselineMetrics::new(&all_metrics, partition.number);
    let elapsed = metrics.elapsed_compute().clone();
    let schema = counts.as_ref().map_or(&plan.spec.schema, |counts| &counts.schema);
    let schema = Arc::clone(schema);
    let Some(groups) = groups.await.map_err(own_error)? else {
        if partition.number != 0 {
            return Ok(Box::pin(EmptyRecordBatchStream::new(schema)));
        }
        MetricBuilder::new(&all_metrics).global_counter("memory_refused").add(1);
        let groups = plan.spec.plain.over(&plan.source, fetch)?;
        let plain = match counts {
            Some(counts) => counts.over(groups)?,
            None => groups,
        };
        let batches = plain.execute(0, context)?;
        let count = move |batch: &RecordBatch| metrics.output_rows().add(batch.num_rows());
        let batches = batches.inspect_ok(count);
        return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)));
    };
    if let Some(counts) = counts {
        let of_part = |counts: Arc<GroupCounts>| {
            move |plan: &PushedAggregate, runs: &Runs, part: Part| counts.of_part(plan, runs, &part)
        };
        let all = merged(&plan, &groups, of_part(Arc::clone(&counts)), &elapsed).await?;
        let batch = counts.batch(all)?;
        metrics.output_rows().add(batch.num_rows());
        let batches = stream::iter([Ok::<_, DataFusionError>(batch)]);
        return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)));
    }
    let batch_rows = context.session_config().batch_size();
    let mut batches = match top {
        None => Batches::all(fetch, batch_rows),
        Some(top) => {
            let best = move |plan: &PushedAggregate, _: &Runs, part: Part| {
                let groups = chosen(plan, std::slice::from_ref(&part), top);
                part.gathered(&groups[0])
            };
            let parts = merged(&plan, &groups, best, &elapsed).await?;
            Batches::of_parts(&plan, parts, top, batch_rows)
        }
    };
    let next = move || {
        let _timer = elapsed.timer();
        let batch = batches.next(&plan, &groups)?;
        if let Ok(batch) = &batch {
            metrics.output_rows().add(batch.num_rows());
        }
        Some(batch)
    };
    let batches = stream::iter(std::iter::from_fn(next));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
}

/// Returns the error itself, if no other partition has it.
fn own_error(error: Arc<DataFusionError>) -> DataFusionError {
    Arc::try_unwrap(error).unwrap_or_else(DataFusionError::Shared)
}

/// Merges all parts, and returns what `reduce` makes of each.
async fn merged<T: Send + 'static>(
    plan: &Arc<PushedAggregate>,
    groups: &Arc<Groups>,
    reduce: impl Fn(&PushedAggregate, &Runs, Part) -> T + Send + Sync + 'static,
    elapsed: &Time,
) -> Result<Vec<T>> {
    let reduce = Arc::new(reduce);
    let worker = || {
        let (plan, groups) = (Arc::clone(plan), Arc::clone(groups));
        let (reduce, elapsed) = (Arc::clone(&reduce), elapsed.clone());
        async move {
            let mut all = Vec::new();
            loop {
                let timer = elapsed.timer();
                let Some(part) = groups.runs.merge_next(&plan) else { return all };
                all.push(reduce(&plan, &groups.runs, part));
                drop(timer);
                yield_after_turn().await;
            }
        }
    };
    let count = plan.workers().min(groups.runs.parts());
    if count <= 1 {
        return Ok(worker().await);
    }
    let mut all = Vec::new();
    for task in (0..count).map(|_| SpawnedTask::spawn(worker())).collect::<Vec<_>>() {
        let parts = task.join_unwind().await;
        all.extend(parts.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?);
    }
    Ok(all)
}

/// Computes the groups, or at least as many as are wanted; `None` if there is no memory for them.
/// Without aggregates, reading ends when there are so many.
async fn groups(
    plan: Arc<PushedAggregate>,
    wanted: Wanted,
    memory: HashMemory,
    partitions: usize,
    elapsed: Time,
) -> Result<Option<Groups>> {
    let mut enough = wanted.fetch.filter(|_| plan.outputs.is_empty());
    let tasks = Arc::new(TaskList::all(&plan));
    let (memory, mut all) = (Arc::new(memory), Vec::new());
    let runs = loop {
        let Some(runs) = read(&plan, &tasks, &memory, enough, &elapsed).await? else {
            return Ok(None);
        };
        all.extend(runs);
        let runs = Runs::new(all);
        let Some(rows) = enough.filter(|_| !tasks.is_taken()) else { break runs };
        // The runs may have the same groups: then the other rows are read as well.
        if rows <= runs.count(&plan) {
            break runs;
        }
        (enough, all) = (None, runs.into_runs());
    };
    let kept = wanted.top.filter(|top| top.has_more_keys).map_or(0, |_| runs.parts());
    let merging = plan.workers().max(partitions);
    // Each partition of the output makes a batch at a time.
    let batches = runs.text_bytes().min(BATCH_TEXT_BYTES).saturating_mul(partitions);
    let parts = runs.part_bytes(&plan).saturating_mul(kept + merging);
    if !memory.grow(parts.saturating_add(batches)) {
        return Ok(None);
    }
    let memory = Arc::into_inner(memory).expect("the workers have ended");
    Ok(Some(Groups { runs, memory }))
}

/// Reads the rows of all tasks, or until there are enough groups; `None` if there is no memory for
/// them.
async fn read(
    plan: &Arc<PushedAggregate>,
    tasks: &Arc<TaskList>,
    memory: &Arc<HashMemory>,
    enough: Option<usize>,
    elapsed: &Time,
) -> Result<Option<Vec<Run>>> {
    let count = plan.workers();
    if count <= 1 {
        return work(plan, tasks, memory, enough, elapsed).await;
    }
    let spawned = |_| {
        let (plan, memory) = (Arc::clone(plan), Arc::clone(memory));
        let (tasks, elapsed) = (Arc::clone(tasks), elapsed.clone());
        SpawnedTask::spawn(async move { work(&plan, &tasks, &memory, enough, &elapsed).await })
    };
    let mut all = Some(Vec::new());
    // All of them are waited for, so that no tables are left when another way is taken.
    for worker in (0..count).map(spawned).collect::<Vec<_>>() {
        let runs = worker.join_unwind().await;
        let runs = runs.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        all = all.zip(runs).map(|(mut all, runs)| {
            all.extend(runs);
            all
        });
    }
    Ok(all)
}

/// Finds the groups of the tasks that one worker takes, until it has enough; `None` if there is no
/// memory for them.
async fn work(
    plan: &PushedAggregate,
    tasks: &TaskList,
    memory: &HashMemory,
    enough: Option<usize>,
    elapsed: &Time,
) -> Result<Option<Vec<Run>>> {
    let mut worker = Worker::hashing(plan, plan.hash_keys(), memory);
    let mut taken = tasks.take();
    while let Some((number, task)) = taken {
        let timer = elapsed.timer();
        worker.fold(number, task)?;
        drop(timer);
        if memory.is_refused() {
            return Ok(None);
        }
        if enough.is_some_and(|enough| worker.has_groups(enough)) {
            break;
        }
        taken = tasks.take();
        if taken.is_some() {
            yield_after_turn().await;
        }
    }
    let _timer = elapsed.timer();
    worker.into_runs()
}
