//! FILL: rows for the buckets of SAMPLE BY that have none.
//!
//! - The result has one row for each bucket from the first to the last, and each key.
//! - More rows than the engine allows are refused before the first one is made.
//! - Existing rows are unchanged.
//! - A batch of the result has so few rows that it has at most `SLICE_BYTES` even if each has the
//!   widest texts and lists of the input: a row is copied for each bucket that it fills.
//!
//! The input rows, which are those of an aggregate, are held until all keys are known; the result
//! is made a batch at a time.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, RecordBatch, UInt64Array,
};
use datafusion::arrow::compute::{cast, concat_batches, interleave, take};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, Float64Type, Int64Type, Schema, SchemaRef,
};
use datafusion::common::{DFSchema, DFSchemaRef, Result, ScalarValue, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, stream};
use tidegate_model::limits::SLICE_BYTES;
use tidegate_model::{ColumnType, TimeUnit};

use super::keys::KeyMaker;
use super::limit_from_end::bytes;
use crate::context::StatementContext;
use crate::error::ClauseProblem;
use crate::limits::FILL_ROWS_MAX;
use crate::operators::copied::widest_bytes;
use crate::operators::unary::{Unary, in_one_partition, unary};
use crate::types::bucket::{Grid, Origin, Stride};
use crate::types::literal::time_value;
use crate::value_bytes::constant_bytes;

/// The maximal number of rows of a batch of the result.
const BATCH_ROWS: usize = 8_192;
/// The approximate bytes of a row besides its values: its entries in the tables of rows and keys.
const ROW_BYTES: usize = 80;

/// The role of a column of the result of SAMPLE BY.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// The start of the bucket.
    Bucket,
    /// A key.
    Key,
    /// An aggregate, with its value in gaps.
    Value(Fill),
}

impl Role {
    /// Returns the field of the result for a field of the input.
    fn field(&self, field: &Field) -> Field {
        let is_filled = matches!(self, Role::Value(Fill::Null | Fill::Prev | Fill::Linear));
        field.clone().with_nullable(field.is_nullable() || is_filled)
    }
}

/// The value in a gap.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Fill {
    Null,
    /// The value of the last row of the key.
    Prev,
    /// Linear interpolation between the values around it.
    Linear,
    Value(ScalarValue),
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fill::Null => f.write_str("null"),
            Fill::Prev => f.write_str("prev"),
            Fill::Linear => f.write_str("linear"),
            Fill::Value(value) => write!(f, "{value}"),
        }
    }
}

/// The logical node. Its input ascends by the first column, which is the bucket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FillGaps {
    input: LogicalPlan,
    filling: Filling,
    schema: DFSchemaRef,
}

impl Hash for FillGaps {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.input, &self.filling).hash(state);
    }
}

impl FillGaps {
    /// Makes the node over an input whose first column is the bucket and ascends.
    pub(super) fn new(input: LogicalPlan, filling: Filling) -> Result<FillGaps> {
        let fields =
            input.schema().iter().zip(&filling.roles).map(|((qualifier, field), role)| {
                (qualifier.cloned(), Arc::new(role.field(field)))
            });
        let metadata = input.schema().metadata().clone();
        let schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), metadata)?);
        Ok(FillGaps { input, filling, schema })
    }

    /// Returns the operator of the node.
    pub(super) fn exec(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let filling = Arc::new(self.filling.clone());
        let ordering = input.output_ordering().cloned();
        unary(input, FillWork { filling, ordering })
    }
}

impl UserDefinedLogicalNodeCore for FillGaps {
    fn name(&self) -> &'static str {
        "FillGaps"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FillGaps")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(input) = inputs.pop().filter(|_| inputs.is_empty()) else {
            return internal_err!("FillGaps has one input");
        };
        FillGaps::new(input, self.filling.clone())
    }
}

/// The parameters of a fill.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Filling {
    /// The role of each column.
    pub(super) roles: Vec<Role>,
    pub(super) stride: Stride,
    pub(super) unit: TimeUnit,
    /// The buckets; `None` if they are counted from the first row.
    pub(super) grid: Option<Grid>,
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
}

impl Filling {
    /// Returns the schema of the result for that of the input.
    fn schema(&self, input: &Schema) -> SchemaRef {
        let fields = input.fields().iter().zip(&self.roles);
        let fields = fields.map(|(field, role)| role.field(field)).collect::<Vec<_>>();
        Arc::new(Schema::new_with_metadata(fields, input.metadata().clone()))
    }
}

/// The work of the operator of a fill.
#[derive(Debug)]
pub(super) struct FillWork {
    filling: Arc<Filling>,
    /// The order by bucket.
    ordering: Option<LexOrdering>,
}

impl Unary for FillWork {
    const NAME: &'static str = "SampleByFillExec";
    const DISTRIBUTION: Distribution = Distribution::SinglePartition;

    fn describe(&self, _: &dyn ExecutionPlan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Filling { roles, stride, .. } = self.filling.as_ref();
        let fills = roles.iter().filter_map(|role| match role {
            Role::Value(fill) => Some(fill.to_string()),
            _ => None,
        });
        let fills = fills.collect::<Vec<_>>().join(", ");
        write!(f, "SampleByFillExec: every={}{}, fill=[{fills}]", stride.count, stride.unit)
    }

    fn read(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        in_one_partition(input)
    }

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        // Constants and equalities of the input may not hold in the result; its order does.
        let ordering = self.ordering.clone();
        let ordering = ordering.map(|ordering| ordering.into_iter().take(1).collect::<Vec<_>>());
        let schema = self.filling.schema(&input.schema());
        Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, ordering),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ))
    }

    fn required_ordering(&self, _: &dyn ExecutionPlan) -> Option<LexOrdering> {
        self.ordering.clone()
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
        let schema = self.filling.schema(&input.schema());
        let input = input.execute(partition, Arc::clone(&context))?;
        let memory = MemoryConsumer::new(Self::NAME).register(context.memory_pool());
        let filling = Arc::clone(&self.filling);
        let caller = context.session_config().get_extension::<StatementContext>();
        let rows_max = caller.map_or(FILL_ROWS_MAX, |caller| caller.system.fill_rows_max);
        let room = Room { memory, rows_max };
        let filled = Arc::clone(&schema);
        let gaps = async move { Gaps::read(filling, filled, input, room).await };
        let filled = stream::once(gaps).map(|gaps| match gaps {
            Ok(gaps) => stream::try_unfold(gaps, |mut gaps| async move {
                Ok(gaps.next_batch()?.map(|batch| (batch, gaps)))
            })
            .left_stream(),
            Err(error) => stream::once(async move { Err(error) }).right_stream(),
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, filled.flatten())))
    }
}

/// A row of the result.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// The start of its bucket.
    instant: i64,
    /// The row of the input that it is, or the one before it of the same key.
    source: Source,
    /// Any row of its key; `None` if there are no keys and no rows.
    of_key: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    Row(u64),
    Gap { before: Option<u64> },
}

/// The limits of a fill.
struct Room {
    memory: MemoryReservation,
    /// The maximal number of rows that it makes.
    rows_max: u64,
}

/// The state of one stream.
struct Gaps {
    filling: Arc<Filling>,
    schema: SchemaRef,
    rows: RecordBatch,
    /// The grid of the buckets; `None` if there are no rows, and the clause does not define it.
    grid: Option<Grid>,
    /// The bucket of each row.
    buckets: Vec<i128>,
    /// The key of each row, numbered from 0 in the order of their first rows.
    keys: Vec<usize>,
    /// The first row of each key; `None` for the one key of no rows.
    first_rows: Vec<Option<u64>>,
    /// The rows around the gaps of each column that is interpolated.
    neighbours: HashMap<usize, Neighbours>,
    /// The last row returned of each key.
    last_rows: Vec<Option<u64>>,
    /// The next row of the input to be returned.
    row: usize,
    bucket: i128,
    /// The rows of the current bucket by their keys, once they are collected.
    present: Option<HashMap<usize, u64>>,
    key: usize,
    end: i128,
    /// The number of rows of a batch of the result.
    batch_rows: usize,
    _memory: MemoryReservation,
}

/// Returns the number of rows of a batch.
fn batch_rows(filling: &Filling, rows: &RecordBatch) -> usize {
    let widest = rows.columns().iter().map(|column| widest_bytes(column.as_ref()));
    let fills = filling.roles.iter().map(|role| match role {
        Role::Value(Fill::Value(value)) => constant_bytes(value),
        _ => 0,
    });
    let bytes = widest.chain(fills).fold(1, u64::saturating_add);
    usize::try_from(SLICE_BYTES / bytes).unwrap_or(BATCH_ROWS).clamp(1, BATCH_ROWS)
}

impl Gaps {
    async fn read(
        filling: Arc<Filling>,
        schema: SchemaRef,
        mut input: SendableRecordBatchStream,
        room: Room,
    ) -> Result<Gaps> {
        let mut read = ReadRows::new(&filling, &schema)?;
        let mut batches = Vec::new();
        while let Some(batch) = input.next().await.transpose()? {
            let key_bytes = read.add(&filling, &batch)?;
            // Charged twice: as batches, and as the one that they are merged into.
            room.memory.try_grow(2 * bytes(&batch) + ROW_BYTES * batch.num_rows() + key_bytes)?;
            batches.push(batch);
        }
        let rows = concat_batches(&schema, &batches)?;
        Gaps::new(filling, schema, rows, read, room)
    }

    fn new(
        filling: Arc<Filling>,
        schema: SchemaRef,
        rows: RecordBatch,
        read: ReadRows,
        room: Room,
    ) -> Result<Gaps> {
        let ReadRows { grid, buckets, keys, mut first_rows, next_rows, maker, .. } = read;
        if maker.is_none() && first_rows.is_empty() {
            // Without keys there is one group, even without rows.
            first_rows.push(None);
        }
        // Without rows to count from, only FROM and TO define the grid.
        let grid = grid.or(filling.grid);
        let place = |instant: i64| grid.map(|grid| grid.index(instant));
        let first = filling.from.and_then(place).or(buckets.first().copied());
        let last = filling.to.and_then(|to| place(to.saturating_sub(1)));
        let last = last.or(buckets.last().copied());
        let (bucket, end) = match (first, last) {
            (Some(first), Some(last)) => (first, (last + 1).max(first)),
            _ => (0, 0),
        };
        let key_count = i128::try_from(first_rows.len()).unwrap_or(i128::MAX);
        let total = u64::try_from((end - bucket).saturating_mul(key_count)).unwrap_or(u64::MAX);
        if total > room.rows_max {
            return Err(ClauseProblem::FillRows { rows: total, most: room.rows_max }.into());
        }
        let batch_rows = batch_rows(&filling, &rows);
        let neighbours = Neighbours::of_columns(&filling, &rows, &next_rows, &room.memory)?;
        Ok(Gaps {
            batch_rows,
            last_rows: vec![None; first_rows.len()],
            filling,
            schema,
            rows,
            grid,
            buckets,
            keys,
            first_rows,
            neighbours,
            row: 0,
            bucket,
            present: None,
            key: 0,
            end,
            _memory: room.memory,
        })
    }

    /// Returns the first instant of a bucket.
    fn start(&self, bucket: i128) -> i64 {
        self.grid.map_or(0, |grid| grid.start(bucket))
    }

    /// Returns the next rows of the result, in order.
    fn next_cells(&mut self) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(self.batch_rows);
        let mut instant = self.start(self.bucket);
        if self.present.is_none() {
            self.present = Some(self.rows_of_bucket());
        }
        while self.bucket < self.end && cells.len() < self.batch_rows {
            if self.key == self.first_rows.len() {
                self.key = 0;
                self.bucket += 1;
                instant = self.start(self.bucket);
                self.present = Some(self.rows_of_bucket());
                continue;
            }
            let key = self.key;
            let source = match self.present.as_ref().and_then(|rows| rows.get(&key)) {
                Some(&row) => {
                    self.last_rows[key] = Some(row);
                    Source::Row(row)
                }
                None => Source::Gap { before: self.last_rows[key] },
            };
            cells.push(Cell { instant, source, of_key: self.first_rows[key] });
            self.key += 1;
        }
        cells
    }

    /// Returns the rows of the current bucket by their keys. Skips the rows of earlier buckets.
    fn rows_of_bucket(&mut self) -> HashMap<usize, u64> {
        while self.row < self.buckets.len() && self.buckets[self.row] < self.bucket {
            self.row += 1;
        }
        let rows = (self.row..self.buckets.len())
            .take_while(|&row| self.buckets[row] == self.bucket)
            .map(|row| (self.keys[row], row as u64));
        rows.collect()
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let cells = self.next_cells();
        if cells.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(self.filling.roles.len());
        for (at, role) in self.filling.roles.iter().enumerate() {
            let column = self.rows.column(at);
            columns.push(match role {
                Role::Bucket => self.instants(&cells, column.data_type())?,
                Role::Key => {
                    let rows = cells.iter().map(|cell| cell.of_key).collect::<UInt64Array>();
                    take(column, &rows, None)?
                }
                Role::Value(Fill::Linear) => self.linear(column, &self.neighbours[&at], &cells)?,
                Role::Value(fill) => self.filled(column, fill, &cells)?,
            });
        }
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?))
    }

    fn instants(&self, cells: &[Cell], ty: &DataType) -> Result<ArrayRef> {
        let ty_of_unit = time_value(0, ColumnType::Timestamp(self.filling.unit)).data_type();
        let counts = cells.iter().map(|cell| cell.instant);
        let counts = datafusion::arrow::array::Int64Array::from_iter_values(counts);
        Ok(cast(&cast(&counts, &ty_of_unit)?, ty)?)
    }

    fn filled(&self, column: &ArrayRef, fill: &Fill, cells: &[Cell]) -> Result<ArrayRef> {
        let row_or = |gap: fn(Option<u64>) -> Option<u64>| {
            let row = |cell: &Cell| match cell.source {
                Source::Row(row) => Some(row),
                Source::Gap { before } => gap(before),
            };
            cells.iter().map(row).collect::<UInt64Array>()
        };
        Ok(match fill {
            Fill::Null | Fill::Linear => take(column, &row_or(|_| None), None)?,
            Fill::Prev => take(column, &row_or(|before| before), None)?,
            Fill::Value(value) => {
                let value = value.to_array()?;
                let places = cells.iter().map(|cell| match cell.source {
                    Source::Row(row) => Ok((0, usize::try_from(row)?)),
                    Source::Gap { .. } => Ok((1, 0)),
                });
                let places =
                    places.collect::<std::result::Result<Vec<_>, std::num::TryFromIntError>>();
                let places = places.expect("rows are counted in usize");
                interleave(&[column.as_ref(), value.as_ref()], &places)?
            }
        })
    }

    /// Interpolates linearly between the values around a gap; NULL if there is none on one side.
    fn linear(
        &self,
        column: &ArrayRef,
        neighbours: &Neighbours,
        cells: &[Cell],
    ) -> Result<ArrayRef> {
        let line = |cell: &Cell| self.line(neighbours, cell);
        if column.data_type().is_floating() {
            let values = cast(column, &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>();
            let value = |cell: &Cell| match cell.source {
                Source::Row(row) => value_at(values, row).map(|row| values.value(row)),
                Source::Gap { .. } => line(cell).map(|line| {
                    let (from, to) = (values.value(line.from), values.value(line.to));
                    from + (to - from) * (line.passed as f64 / line.whole as f64)
                }),
            };
            let filled = cells.iter().map(value).collect::<Float64Array>();
            return Ok(cast(&filled, column.data_type())?);
        }
        let scale = match column.data_type() {
            DataType::Decimal128(_, scale) => *scale,
            _ => 0,
        };
        let wide = DataType::Decimal128(38, scale);
        let values = cast(column, &wide)?;
        let values = values.as_primitive::<Decimal128Type>();
        let value = |cell: &Cell| match cell.source {
            Source::Row(row) => value_at(values, row).map(|row| values.value(row)),
            Source::Gap { .. } => line(cell).map(|line| {
                let (from, to) = (values.value(line.from), values.value(line.to));
                from + part_of(to - from, line.passed, line.whole)
            }),
        };
        let filled = cells.iter().map(value).collect::<Decimal128Array>().with_data_type(wide);
        Ok(cast(&filled, column.data_type())?)
    }

    /// Returns the rows with values around a gap.
    fn line(&self, neighbours: &Neighbours, cell: &Cell) -> Option<Line> {
        let Source::Gap { before: Some(before) } = cell.source else { return None };
        let before = to_usize(before);
        let (from, to) = (neighbours.at_or_before[before]?, neighbours.behind[before]?);
        let (from, to) = (to_usize(from), to_usize(to));
        let start = |row: usize| i128::from(self.start(self.buckets[row]));
        let (passed, whole) = (i128::from(cell.instant) - start(from), start(to) - start(from));
        Some(Line { from, to, passed, whole })
    }
}

/// The nearest rows of the same key with a value in one column.
struct Neighbours {
    /// For each row: itself, or the last one before it.
    at_or_before: Vec<Option<u64>>,
    /// For each row: the first one behind it.
    behind: Vec<Option<u64>>,
}

impl Neighbours {
    /// Returns the neighbours in each column that is interpolated.
    fn of_columns(
        filling: &Filling,
        rows: &RecordBatch,
        next_rows: &[Option<u64>],
        memory: &MemoryReservation,
    ) -> Result<HashMap<usize, Neighbours>> {
        let roles = filling.roles.iter().enumerate();
        let linear = roles.filter(|(_, role)| **role == Role::Value(Fill::Linear));
        let linear = linear.map(|(at, _)| at).collect::<Vec<_>>();
        memory.try_grow(linear.len() * 2 * size_of_val(next_rows))?;
        let neighbours = |at: usize| (at, Neighbours::new(rows.column(at).as_ref(), next_rows));
        Ok(linear.into_iter().map(neighbours).collect())
    }

    fn new(column: &dyn Array, next_rows: &[Option<u64>]) -> Neighbours {
        let valid = |row: usize| column.is_valid(row).then_some(row as u64);
        let mut at_or_before = (0..next_rows.len()).map(valid).collect::<Vec<_>>();
        for (row, next) in next_rows.iter().enumerate() {
            if let Some(next) = next.map(to_usize) {
                at_or_before[next] = at_or_before[next].or(at_or_before[row]);
            }
        }
        let mut behind = vec![None; next_rows.len()];
        for row in (0..next_rows.len()).rev() {
            if let Some(next) = next_rows[row].map(to_usize) {
                behind[row] = valid(next).or(behind[next]);
            }
        }
        Neighbours { at_or_before, behind }
    }
}

fn to_usize(row: u64) -> usize {
    usize::try_from(row).expect("rows are counted in usize")
}

/// Two rows, with the distance from the first one to the gap and to the second one.
struct Line {
    from: usize,
    to: usize,
    passed: i128,
    whole: i128,
}

fn value_at(values: &dyn Array, row: u64) -> Option<usize> {
    let row = to_usize(row);
    values.is_valid(row).then_some(row)
}

/// Returns `whole * passed / of`, rounded half away from zero.
fn part_of(whole: i128, passed: i128, of: i128) -> i128 {
    match whole.checked_mul(2 * passed) {
        Some(twice) => {
            let rounding = if twice < 0 { -of } else { of };
            (twice + rounding) / (2 * of)
        }
        None => whole / of * passed,
    }
}

/// The tables of the rows that were read.
struct ReadRows {
    /// The grid of the buckets.
    grid: Option<Grid>,
    buckets: Vec<i128>,
    keys: Vec<usize>,
    first_rows: Vec<Option<u64>>,
    next_rows: Vec<Option<u64>>,
    /// The last row of each key.
    last_rows: Vec<usize>,
    numbers: HashMap<Box<[u8]>, usize>,
    /// The positions of the keys.
    columns: Vec<usize>,
    /// `None` if there are no keys.
    maker: Option<KeyMaker>,
}

impl ReadRows {
    fn new(filling: &Filling, schema: &SchemaRef) -> Result<ReadRows> {
        let is_key = |(at, role): (usize, &Role)| (*role == Role::Key).then_some(at);
        let columns = filling.roles.iter().enumerate().filter_map(is_key).collect::<Vec<_>>();
        let types = columns.iter().map(|&at| schema.field(at).data_type().clone());
        let maker = if columns.is_empty() { None } else { Some(KeyMaker::new(types)?) };
        Ok(ReadRows {
            grid: filling.grid,
            buckets: Vec::new(),
            keys: Vec::new(),
            first_rows: Vec::new(),
            next_rows: Vec::new(),
            last_rows: Vec::new(),
            numbers: HashMap::new(),
            columns,
            maker,
        })
    }

    /// Adds the rows of a batch. Returns the approximate bytes of its new keys.
    fn add(&mut self, filling: &Filling, batch: &RecordBatch) -> Result<usize> {
        let starts = cast(batch.column(0), &DataType::Int64)?;
        let starts = starts.as_primitive::<Int64Type>().values();
        let grid = match (self.grid, starts.first()) {
            (Some(grid), _) => grid,
            (None, None) => return Ok(0),
            (None, Some(&first)) => {
                Grid::new(filling.stride, filling.unit, None, Origin::Instant(first))?
            }
        };
        self.grid = Some(grid);
        self.buckets.extend(starts.iter().map(|&start| grid.index(start)));
        let columns = self.columns.iter().map(|&at| Arc::clone(batch.column(at)));
        let columns = columns.collect::<Vec<_>>();
        let texts = self.maker.as_ref().map(|maker| maker.keys(&columns)).transpose()?;
        let mut key_bytes = 0;
        for row in 0..batch.num_rows() {
            let key: &[u8] = match &texts {
                Some(texts) => texts.row(row).data(),
                None => &[],
            };
            let number = match self.numbers.get(key) {
                Some(&number) => number,
                None => {
                    key_bytes += key.len() + ROW_BYTES;
                    self.numbers.insert(key.into(), self.first_rows.len());
                    self.first_rows.len()
                }
            };
            self.place(number);
        }
        Ok(key_bytes)
    }

    /// Appends the next row to the others of its key.
    fn place(&mut self, key: usize) {
        let row = self.keys.len();
        if key == self.first_rows.len() {
            self.first_rows.push(Some(row as u64));
            self.last_rows.push(row);
        } else {
            self.next_rows[self.last_rows[key]] = Some(row as u64);
            self.last_rows[key] = row;
        }
        self.keys.push(key);
        self.next_rows.push(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_the_nearest_rows_with_a_value_of_the_same_key() {
        // Two keys take turns: rows 0, 2, 4, 6 and rows 1, 3, 5, 7.
        let next = (0..8).map(|row: u64| (row < 6).then_some(row + 2)).collect::<Vec<_>>();
        let values = [None, Some(1.0), Some(2.0), None, None, None, Some(3.0), None];
        let neighbours = Neighbours::new(&Float64Array::from_iter(values), &next);
        let before = [None, Some(1), Some(2), Some(1), Some(2), Some(1), Some(6), Some(1)];
        assert_eq!(neighbours.at_or_before, before);
        assert_eq!(neighbours.behind, [Some(2), None, Some(6), None, Some(6), None, None, None]);
    }

    #[test]
    fn parts_are_rounded_half_away_from_zero() {
        assert_eq!(part_of(10, 1, 4), 3);
        assert_eq!(part_of(-10, 1, 4), -3);
        assert_eq!(part_of(9, 1, 4), 2);
        assert_eq!(part_of(0, 1, 4), 0);
        assert_eq!(part_of(i128::MAX, 1, 2), i128::MAX / 2);
    }
}
