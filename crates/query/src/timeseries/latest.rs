//! LATEST ON: the row with the greatest timestamp for each key.
//!
//! - Rows come in newest first, so the first row of a key is the result. Among equal timestamps a
//!   scan returns the last committed row first.
//! - Only the keys and their rows are held.
//! - If an upper bound of the number of keys is known, the input ends when so many are found.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{SortOptions, take_record_batch};
use datafusion::common::{Column, DFSchemaRef, Result, internal_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{Distribution, ExecutionPlan, PlanProperties};
use futures::{StreamExt, stream};
use tidegate_model::ColumnType;
use tidegate_storage::Snapshot;

use super::keys::KeyMaker;
use super::limit_from_end::bytes;
use crate::operators::unary::{Unary, unary};
use crate::scan::{ScanSource, reversed};

/// The maximal number of segments whose footers are read to find NULL among the keys.
const SEGMENTS_ASKED_MAX: usize = 1_000;
/// The approximate bytes of a key besides its own.
const KEY_BYTES: usize = 48;

/// A bound of the number of values of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum KeyBound {
    /// The number of values that conditions select.
    Listed(usize),
    /// The number of symbols of this column of the table that is read.
    Symbols(String),
    Unknown,
}

/// Returns the maximal number of keys: the product of the bounds of their parts. `None` if it is
/// not known.
fn key_count(input: &Arc<dyn ExecutionPlan>, bounds: &[KeyBound]) -> Option<usize> {
    let mut all = 1_usize;
    for bound in bounds {
        let count = match bound {
            KeyBound::Listed(count) => *count,
            KeyBound::Symbols(column) => symbol_count(scanned(input)?, column)?,
            KeyBound::Unknown => return None,
        };
        all = all.checked_mul(count)?;
    }
    Some(all)
}

/// Returns the table that an operator reads, if it reads one.
fn scanned(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<Snapshot>> {
    if let Some(exec) = plan.downcast_ref::<DataSourceExec>() {
        return Some(exec.data_source().downcast_ref::<ScanSource>()?.snapshot());
    }
    match plan.children().as_slice() {
        [input] => scanned(input),
        _ => None,
    }
}

/// Returns the number of values of a SYMBOL column, NULL among them; `None` if it is no such
/// column, or counting would be slow. There may be symbols that no row has any more: then all rows
/// are read.
fn symbol_count(snapshot: &Snapshot, name: &str) -> Option<usize> {
    let columns = snapshot.schema.columns();
    let column = columns.iter().find(|column| column.name.to_lowercase() == name)?;
    if column.ty != ColumnType::Symbol || snapshot.segments().nth(SEGMENTS_ASKED_MAX).is_some() {
        return None;
    }
    let symbols = snapshot.symbols.get(column.id).map_or(0, |symbols| symbols.len());
    let mut has_null = false;
    for segment in snapshot.segments() {
        let reader = segment.reader().ok()?;
        let column = reader.footer().columns.iter().find(|footer| footer.id == column.id);
        has_null |= column.is_none_or(|column| column.null_count > 0);
    }
    symbols.checked_add(usize::from(has_null))
}

/// The logical node of LATEST ON.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct LatestOn {
    pub(crate) input: LogicalPlan,
    pub(crate) time: Column,
    pub(crate) keys: Vec<Column>,
    pub(crate) bounds: Vec<KeyBound>,
}

impl LatestOn {
    /// Returns the designated timestamp of the result.
    pub(super) fn time(&self) -> &Column {
        &self.time
    }

    /// Returns the operator of the node.
    pub(super) fn exec(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.input.schema();
        let time = schema.index_of_column(&self.time)?;
        let keys = self.keys.iter().map(|key| schema.index_of_column(key));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let bounds = self.bounds.clone();
        let key_count = key_count(&input, &bounds);
        Ok(unary(input, LatestWork { time, keys, bounds, key_count }))
    }
}

impl UserDefinedLogicalNodeCore for LatestOn {
    fn name(&self) -> &'static str {
        "LatestOn"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        [&self.time].into_iter().chain(&self.keys).cloned().map(Expr::Column).collect()
    }

    /// Allows pushing down conditions on the keys alone: they keep or drop all rows of a key.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let is_key = |column: &Column| self.keys.contains(column);
        let columns = self.schema().columns().into_iter();
        columns.filter(|column| !is_key(column)).map(|column| column.name).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatestOn: {}", self.time)
    }

    fn with_exprs_and_inputs(
        &self,
        exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let column = |expr| match expr {
            Expr::Column(column) => Ok(column),
            _ => internal_err!("LatestOn takes columns"),
        };
        let mut columns = exprs.into_iter().map(column).collect::<Result<VecDeque<_>>>()?;
        match (columns.pop_front(), inputs.pop().filter(|_| inputs.is_empty())) {
            (Some(time), Some(input)) => {
                let keys = columns.into();
                Ok(LatestOn { input, time, keys, bounds: self.bounds.clone() })
            }
            _ => internal_err!("LatestOn has a time and an input"),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // DataFusion adds the columns that the expressions need.
        Some(vec![output_columns.to_vec()])
    }
}

/// The work of the operator of LATEST ON.
#[derive(Debug)]
pub(super) struct LatestWork {
    /// The positions of the timestamp and of the keys.
    time: usize,
    keys: Vec<usize>,
    bounds: Vec<KeyBound>,
    /// The maximal number of keys, if it is known.
    key_count: Option<usize>,
}

impl LatestWork {
    fn by_time(&self, input: &dyn ExecutionPlan, options: SortOptions) -> PhysicalSortExpr {
        let column = ColumnExpr::new(input.schema().field(self.time).name(), self.time);
        PhysicalSortExpr { expr: Arc::new(column), options }
    }
}

impl Unary for LatestWork {
    const NAME: &'static str = "LatestOnExec";
    const DISTRIBUTION: Distribution = Distribution::SinglePartition;

    fn describe(&self, input: &dyn ExecutionPlan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = input.schema();
        let keys = self.keys.iter().map(|&key| schema.field(key).name().as_str());
        let (time, keys) = (schema.field(self.time).name(), keys.collect::<Vec<_>>().join(", "));
        write!(f, "LatestOnExec: on={time}, keys=[{keys}]")?;
        self.key_count.map_or(Ok(()), |count| write!(f, ", key_count={count}"))
    }

    fn on(self: &Arc<Self>, input: &Arc<dyn ExecutionPlan>) -> Arc<Self> {
        let (keys, bounds) = (self.keys.clone(), self.bounds.clone());
        let key_count = key_count(input, &bounds);
        Arc::new(LatestWork { time: self.time, keys, bounds, key_count })
    }

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let ascending = self.by_time(input.as_ref(), SortOptions::new(false, false));
        Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(input.schema(), [[ascending]]),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ))
    }

    fn required_ordering(&self, input: &dyn ExecutionPlan) -> Option<LexOrdering> {
        // NULL is no time, and comes last; without NULL, the options are those that scans declare.
        let nulls_first = !input.schema().field(self.time).is_nullable();
        let newest_first = SortOptions { descending: true, nulls_first };
        LexOrdering::new([self.by_time(input, newest_first)])
    }

    fn keeps_order(&self) -> bool {
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
        let memory = MemoryConsumer::new(Self::NAME).register(context.memory_pool());
        let types = self.keys.iter().map(|&key| schema.field(key).data_type().clone());
        let latest_rows = LatestRows {
            maker: KeyMaker::new(types)?,
            columns: self.keys.clone(),
            key_count: self.key_count,
            seen: HashSet::new(),
            batches: VecDeque::new(),
            memory,
        };
        let rows = async move { latest_rows.read(input).await };
        let batches = stream::once(rows).map(|latest_rows| match latest_rows {
            Ok(latest_rows) => stream::iter(latest_rows.batches).map(Ok).left_stream(),
            Err(error) => stream::once(async move { Err(error) }).right_stream(),
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.flatten())))
    }
}

/// The keys found so far, and their rows.
struct LatestRows {
    maker: KeyMaker,
    /// The positions of the keys.
    columns: Vec<usize>,
    key_count: Option<usize>,
    seen: HashSet<Box<[u8]>>,
    /// By ascending timestamp.
    batches: VecDeque<RecordBatch>,
    memory: MemoryReservation,
}

impl LatestRows {
    async fn read(mut self, mut input: SendableRecordBatchStream) -> Result<LatestRows> {
        while self.key_count != Some(self.seen.len()) {
            let Some(batch) = input.next().await.transpose()? else { break };
            self.add(&batch)?;
        }
        Ok(self)
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = self.columns.iter().map(|&at| Arc::clone(batch.column(at)));
        let columns = columns.collect::<Vec<ArrayRef>>();
        let keys = self.maker.keys(&columns)?;
        let mut fresh = Vec::new();
        let mut grown = 0;
        for row in 0..batch.num_rows() {
            if self.key_count == Some(self.seen.len()) {
                break;
            }
            let keys = keys.row(row);
            if !self.seen.contains(keys.data()) {
                self.seen.insert(keys.data().into());
                grown += keys.data().len() + KEY_BYTES;
                fresh.push(u32::try_from(row).expect("a batch has fewer rows"));
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let rows = take_record_batch(batch, &UInt32Array::from(fresh))?;
        self.memory.try_grow(grown + bytes(&rows))?;
        self.batches.push_front(reversed(&rows)?);
        Ok(())
    }
}
