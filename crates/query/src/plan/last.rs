//! `LIMIT -n`: the last n rows of a result, in its order.
//!
//! - E1. Never more rows are held than are asked for, and one batch.
//!
//! Over a plain scan the input comes backward and ends after n rows, so that only the end of the
//! table is read. The rows held count against the memory of queries.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::scan::reversed;

/// In which direction the rows come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// In the order of the result: the last ones count.
    Forward,
    /// The other way round: the first ones count.
    Backward,
}

/// The last rows of its input.
#[derive(Debug)]
pub(crate) struct LastExec {
    input: Arc<dyn ExecutionPlan>,
    rows: usize,
    direction: Direction,
    properties: Arc<PlanProperties>,
}

impl LastExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        rows: usize,
        direction: Direction,
    ) -> LastExec {
        let input = match input.output_partitioning().partition_count() {
            1 => input,
            _ => Arc::new(CoalescePartitionsExec::new(input)),
        };
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        LastExec { input, rows, direction, properties }
    }
}

impl DisplayAs for LastExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LastExec: rows={}", self.rows)
    }
}

impl ExecutionPlan for LastExec {
    fn name(&self) -> &'static str {
        "LastExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("LastExec has one input");
        };
        Ok(Arc::new(LastExec::new(input, self.rows, self.direction)))
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
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let memory = MemoryConsumer::new("LastExec").register(context.memory_pool());
        let held = Held { batches: VecDeque::new(), rows: 0, memory };
        let (rows, direction) = (self.rows, self.direction);
        let last = async move { held.fill(input, rows, direction).await };
        let batches = stream::once(last).map_ok(|held| stream::iter(held.batches).map(Ok));
        let stream = RecordBatchStreamAdapter::new(self.schema(), batches.try_flatten());
        Ok(Box::pin(stream))
    }
}

/// Rows and the memory they take.
struct Held {
    /// In the order of the result.
    batches: VecDeque<RecordBatch>,
    rows: usize,
    memory: MemoryReservation,
}

impl Held {
    async fn fill(
        mut self,
        mut input: SendableRecordBatchStream,
        rows: usize,
        direction: Direction,
    ) -> Result<Held> {
        while let Some(batch) = input.next().await {
            let batch = batch?;
            self.memory.try_grow(bytes(&batch))?;
            match direction {
                Direction::Forward => {
                    self.rows += batch.num_rows();
                    self.batches.push_back(batch);
                    self.drop_front(rows);
                }
                Direction::Backward => {
                    let left = rows.saturating_sub(self.rows).min(batch.num_rows());
                    self.rows += left;
                    self.batches.push_front(reversed(&batch.slice(0, left))?);
                    if self.rows == rows {
                        break;
                    }
                }
            }
        }
        Ok(self)
    }

    /// Lets go of what is before the last `rows` rows.
    fn drop_front(&mut self, rows: usize) {
        while let Some(front) = self.batches.front_mut() {
            let excess = self.rows.saturating_sub(rows).min(front.num_rows());
            if excess == 0 {
                break;
            }
            self.rows -= excess;
            if excess == front.num_rows() {
                self.memory.shrink(bytes(front).min(self.memory.size()));
                self.batches.pop_front();
            } else {
                // Its bytes stay counted, as they stay held.
                *front = front.slice(excess, front.num_rows() - excess);
                break;
            }
        }
    }
}

/// What the rows of a batch take, about: texts that several batches share are not counted.
fn bytes(batch: &RecordBatch) -> usize {
    let sizes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    sizes.map(|size| size.unwrap_or(0)).sum()
}
