//! Rows counted from the end of a result: `LIMIT -n` and similar limits.
//!
//! - At most the rows that the clause counts from the end are held, and one batch.
//!
//! Over a plain scan the last rows come in backward and the input ends after them, so that only the
//! end of the table is read. The held rows count against the memory of queries.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, replace_children_if_necessary,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, stream};

use super::extension;
use crate::operators::unary::{Unary, in_one_partition, unary};
use crate::scan::order::in_table_order;
use crate::scan::{ScanOrder, reversed};

/// More rows than there can be, to which others can be added.
const ALL_ROWS: usize = usize::MAX / 8;

/// The direction in which the rows come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Direction {
    /// In the order of the result.
    Forward,
    /// In the reverse order, and only the wanted ones.
    Backward,
}

/// A limit that counts from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EndLimit {
    /// The last `rows` without the last `dropped` of them.
    Last {
        /// A number counted from the end.
        rows: usize,
        /// The number of these left out at the end: at most `rows`.
        dropped: usize,
    },
    /// All but the last `dropped` rows.
    AllButLast {
        /// The number of rows left out at the end.
        dropped: usize,
    },
}

impl EndLimit {
    /// Returns the number of rows that must be held back until the input ends.
    fn held(self) -> usize {
        match self {
            EndLimit::Last { rows, .. } => rows,
            EndLimit::AllButLast { dropped } => dropped,
        }
    }
}

/// Returns the rows of a plan that a limit from its end leaves. A plain scan is read from its end
/// if that is enough.
pub(crate) fn limited_from_end(plan: LogicalPlan, limit: EndLimit) -> Result<LogicalPlan> {
    let forward = |plan: LogicalPlan| -> Result<LogicalPlan> {
        let (input, _) = in_table_order(plan, ScanOrder::Forward)?;
        Ok(extension(LimitFromEnd { input, limit, direction: Direction::Forward }))
    };
    let EndLimit::Last { rows, dropped } = limit else { return forward(plan) };
    let (backward, is_plain) = in_table_order(plan.clone(), ScanOrder::Backward)?;
    if !is_plain {
        return forward(plan);
    }
    let wanted = rows - dropped;
    let input = LogicalPlanBuilder::from(backward).limit(dropped, Some(wanted))?.build()?;
    let limit = EndLimit::Last { rows: wanted, dropped: 0 };
    Ok(extension(LimitFromEnd { input, limit, direction: Direction::Backward }))
}

/// The logical node of a limit that counts from the end.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct LimitFromEnd {
    input: LogicalPlan,
    limit: EndLimit,
    direction: Direction,
}

impl LimitFromEnd {
    pub(super) fn input(&self) -> &LogicalPlan {
        &self.input
    }

    /// Returns the operator of the node.
    pub(crate) fn exec(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let (limit, direction) = (self.limit, self.direction);
        let required = match direction {
            Direction::Forward => input.output_ordering().cloned(),
            Direction::Backward => None,
        };
        let input = match (direction, &required) {
            (Direction::Forward, None) => with_lasting_sort(input)?,
            _ => input,
        };
        Ok(unary(input, LimitFromEndWork { limit, direction, required }))
    }
}

/// Gives a sort whose keys are not columns of the plan a limit of all rows: nothing can require its
/// order, and DataFusion removes a sort that nothing requires, unless it has a limit.
fn with_lasting_sort(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return Ok(match sort.fetch() {
            None => Arc::new(sort.with_fetch(Some(ALL_ROWS))),
            Some(_) => plan,
        });
    }
    let children = plan.children();
    let ([input], true) = (children.as_slice(), plan.is::<ProjectionExec>()) else {
        return Ok(plan);
    };
    let input = with_lasting_sort(Arc::clone(input))?;
    replace_children_if_necessary(plan, vec![input])
}

impl UserDefinedLogicalNodeCore for LimitFromEnd {
    fn name(&self) -> &'static str {
        "LimitFromEnd"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitFromEnd: {:?}", self.limit)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(input) = inputs.pop().filter(|_| inputs.is_empty()) else {
            return internal_err!("LimitFromEnd has one input");
        };
        Ok(LimitFromEnd { input, limit: self.limit, direction: self.direction })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}

/// The work of the operator, which limits the rows of one stream.
#[derive(Debug)]
pub(super) struct LimitFromEndWork {
    limit: EndLimit,
    direction: Direction,
    /// The order of the input in which its last rows are those of the result.
    required: Option<LexOrdering>,
}

impl Unary for LimitFromEndWork {
    const NAME: &'static str = "LastExec";

    fn name(&self) -> &'static str {
        match self.limit {
            EndLimit::Last { .. } => Self::NAME,
            EndLimit::AllButLast { .. } => "AllButLastExec",
        }
    }

    fn describe(&self, _: &dyn ExecutionPlan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            EndLimit::Last { rows, dropped: 0 } => write!(f, "LastExec: rows={rows}"),
            EndLimit::Last { rows, dropped } => {
                write!(f, "LastExec: rows={rows}, dropped={dropped}")
            }
            EndLimit::AllButLast { dropped } => write!(f, "AllButLastExec: dropped={dropped}"),
        }
    }

    fn read(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        in_one_partition(input)
    }

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let equivalence = match self.direction {
            Direction::Forward => input.equivalence_properties().clone(),
            Direction::Backward => {
                let turned = input.output_ordering().map(|ordering| {
                    let turn = |sort: &datafusion::physical_expr::PhysicalSortExpr| sort.reverse();
                    ordering.iter().map(turn).collect::<Vec<_>>()
                });
                EquivalenceProperties::new_with_orderings(input.schema(), turned)
            }
        };
        let emission = match self.limit {
            EndLimit::Last { .. } => EmissionType::Final,
            EndLimit::AllButLast { .. } => EmissionType::Incremental,
        };
        Arc::new(PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            emission,
            Boundedness::Bounded,
        ))
    }

    fn required_ordering(&self, _: &dyn ExecutionPlan) -> Option<LexOrdering> {
        self.required.clone()
    }

    /// Returns false: the order of the rows is that of the properties, but no other order of the
    /// input may take its place. DataFusion moves sorts below operators that keep any order.
    fn keeps_order(&self) -> bool {
        false
    }

    fn benefits_from_partitioning(&self) -> bool {
        false
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = input.schema();
        let input = input.execute(partition, Arc::clone(&context))?;
        let memory = MemoryConsumer::new(self.name()).register(context.memory_pool());
        let limited = LimitFromEndStream {
            input: Some(input),
            limit: self.limit,
            direction: self.direction,
            held: Held { batches: VecDeque::new(), rows: 0, memory },
            ready: VecDeque::new(),
        };
        let batches = stream::try_unfold(limited, |mut limited| async move {
            Ok(limited.next().await?.map(|batch| (batch, limited)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// The state of one stream.
struct LimitFromEndStream {
    /// The input; `None` when it has ended.
    input: Option<SendableRecordBatchStream>,
    limit: EndLimit,
    direction: Direction,
    held: Held,
    /// Batches that are ready to be returned.
    ready: VecDeque<RecordBatch>,
}

impl LimitFromEndStream {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            let Some(input) = &mut self.input else { return Ok(None) };
            match input.next().await.transpose()? {
                Some(batch) => self.take(batch)?,
                None => {
                    self.input = None;
                    self.finish();
                }
            }
        }
    }

    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        match self.direction {
            Direction::Backward => self.held.push_front(reversed(&batch)?),
            Direction::Forward => {
                self.held.push_back(batch)?;
                let passed = self.held.drop_front(self.limit.held());
                if matches!(self.limit, EndLimit::AllButLast { .. }) {
                    self.ready.extend(passed);
                }
                Ok(())
            }
        }
    }

    /// Ends the input: the held rows are its last ones.
    fn finish(&mut self) {
        if let EndLimit::Last { rows, dropped } = self.limit {
            let wanted = match self.direction {
                Direction::Forward => self.held.rows.saturating_sub(dropped),
                Direction::Backward => rows,
            };
            self.held.drop_back(wanted);
            self.ready.append(&mut self.held.batches);
        }
        self.held.batches.clear();
    }
}

/// Held rows and their memory.
struct Held {
    /// The batches in the order of the result.
    batches: VecDeque<RecordBatch>,
    rows: usize,
    memory: MemoryReservation,
}

impl Held {
    fn push_front(&mut self, batch: RecordBatch) -> Result<()> {
        self.memory.try_grow(bytes(&batch))?;
        self.rows += batch.num_rows();
        self.batches.push_front(batch);
        Ok(())
    }

    fn push_back(&mut self, batch: RecordBatch) -> Result<()> {
        self.memory.try_grow(bytes(&batch))?;
        self.rows += batch.num_rows();
        self.batches.push_back(batch);
        Ok(())
    }

    /// Removes and returns the rows before the last `rows` ones.
    fn drop_front(&mut self, rows: usize) -> Vec<RecordBatch> {
        let mut passed = Vec::new();
        while let Some(front) = self.batches.front_mut() {
            let excess = self.rows.saturating_sub(rows).min(front.num_rows());
            if excess == 0 {
                break;
            }
            self.rows -= excess;
            if excess == front.num_rows() {
                self.memory.shrink(bytes(front).min(self.memory.size()));
                passed.extend(self.batches.pop_front());
            } else {
                // Its bytes stay counted, because they stay allocated.
                passed.push(front.slice(0, excess));
                *front = front.slice(excess, front.num_rows() - excess);
                break;
            }
        }
        passed
    }

    /// Removes the rows behind the first `rows` ones.
    fn drop_back(&mut self, rows: usize) {
        while let Some(back) = self.batches.back_mut() {
            let excess = self.rows.saturating_sub(rows).min(back.num_rows());
            if excess == 0 {
                break;
            }
            self.rows -= excess;
            if excess == back.num_rows() {
                self.batches.pop_back();
            } else {
                *back = back.slice(0, back.num_rows() - excess);
                break;
            }
        }
    }
}

/// Returns the approximate bytes of the rows of a batch: texts that several batches share are not
/// counted.
pub(super) fn bytes(batch: &RecordBatch) -> usize {
    let sizes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    sizes.map(|size| size.unwrap_or(0)).sum()
}
