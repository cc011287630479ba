//! ASOF JOIN and LT JOIN: each left row with the latest right row at or before its time.
//!
//! - asof-1. Every left row comes out once, in the order of the left side.
//! - The right row is the last one, in the order of the right side, of those with equal keys and a
//!   time that is not after the left row's (LT: that is before it), if its distance is at most
//!   TOLERANCE; if there is none, its columns are NULL.
//! - asof-2. Keys do not match on NULL, and rows without a time match no row.
//!
//! The work is in `asof::merge`.

mod merge;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchemaRef, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    Expr, JoinType, LogicalPlan, UserDefinedLogicalNodeCore, build_join_schema,
};
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr,
    PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements,
    PlanProperties,
};
use futures::stream;

use crate::types::bucket::time_unit;
use merge::{Merge, MergeKeys, Sides};

/// The maximal number of right rows that are held besides the needed ones, before those are copied.
const SPARE_ROWS: usize = 131_072;

/// The right rows that a left row can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TimeJoin {
    /// At the time of the left row or before it: ASOF.
    AtOrBefore,
    /// Before it: LT.
    Before,
}

impl TimeJoin {
    pub(crate) fn clause(self) -> &'static str {
        match self {
            TimeJoin::AtOrBefore => "ASOF JOIN",
            TimeJoin::Before => "LT JOIN",
        }
    }
}

/// The logical node of a join in time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AsofJoin {
    pub(crate) left: LogicalPlan,
    pub(crate) right: LogicalPlan,
    pub(crate) left_time: Column,
    pub(crate) right_time: Column,
    pub(crate) keys: Vec<(Column, Column)>,
    pub(crate) kind: TimeJoin,
    /// The tolerance in nanoseconds.
    pub(crate) tolerance: Option<i128>,
    pub(crate) schema: DFSchemaRef,
}

impl Hash for AsofJoin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.left, &self.right, &self.left_time, &self.right_time).hash(state);
        (&self.keys, self.kind, self.tolerance).hash(state);
    }
}

impl AsofJoin {
    /// Returns the designated timestamp of the result.
    pub(super) fn time(&self) -> &Column {
        &self.left_time
    }

    /// Returns the operator of the node.
    pub(super) fn exec(
        &self,
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (left_schema, right_schema) = (self.left.schema(), self.right.schema());
        let mut keys = MergeKeys { left: Vec::new(), right: Vec::new(), types: Vec::new() };
        for (a, b) in &self.keys {
            let (a, b) = (left_schema.index_of_column(a)?, right_schema.index_of_column(b)?);
            let types = (left_schema.field(a).data_type(), right_schema.field(b).data_type());
            let Some(ty) = comparison_coercion(types.0, types.1) else {
                return internal_err!("the types of keys were compared");
            };
            keys.left.push(a);
            keys.right.push(b);
            keys.types.push(plain(ty));
        }
        let unit_nanos = |schema: &DFSchemaRef, column: &Column| -> Result<i128> {
            Ok(i128::from(1_000_000_000 / time_unit(schema, column)?.per_second()))
        };
        let sides = Sides {
            left_time: left_schema.index_of_column(&self.left_time)?,
            right_time: right_schema.index_of_column(&self.right_time)?,
            left_unit_nanos: unit_nanos(left_schema, &self.left_time)?,
            right_unit_nanos: unit_nanos(right_schema, &self.right_time)?,
            is_strict: self.kind == TimeJoin::Before,
            tolerance: self.tolerance,
            spare_rows: SPARE_ROWS,
        };
        let schema = Arc::clone(self.schema.inner());
        Ok(Arc::new(AsofExec::new(left, right, schema, Arc::new((sides, keys)))))
    }
}

/// Returns a type without dictionary, in which keys are compared.
fn plain(ty: DataType) -> DataType {
    match ty {
        DataType::Dictionary(_, value) => *value,
        ty => ty,
    }
}

impl UserDefinedLogicalNodeCore for AsofJoin {
    fn name(&self) -> &'static str {
        "AsofJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let keys = self.keys.iter().flat_map(|(a, b)| [a, b]);
        let columns = [&self.left_time, &self.right_time].into_iter().chain(keys);
        columns.cloned().map(Expr::Column).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsofJoin: {:?}", self.kind)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let column = |expr| match expr {
            Expr::Column(column) => Ok(column),
            _ => internal_err!("AsofJoin takes columns"),
        };
        let columns = exprs.into_iter().map(column).collect::<Result<Vec<_>>>()?;
        let (Ok([left, right]), [left_time, right_time, keys @ ..]) =
            (<[LogicalPlan; 2]>::try_from(inputs), columns.as_slice())
        else {
            return internal_err!("AsofJoin has two inputs and two times");
        };
        let pair = |pair: &[Column]| (pair[0].clone(), pair[1].clone());
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &JoinType::Left)?);
        let (left_time, right_time) = (left_time.clone(), right_time.clone());
        let keys = keys.chunks_exact(2).map(pair).collect();
        let (kind, tolerance) = (self.kind, self.tolerance);
        Ok(AsofJoin { left, right, left_time, right_time, keys, kind, tolerance, schema })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // Times and keys are added here: by name they could be those of either side.
        let index =
            |plan: &LogicalPlan, column: &Column| plan.schema().index_of_column(column).ok();
        let split = self.left.schema().fields().len();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for &at in output_columns {
            if at < split { left.push(at) } else { right.push(at - split) }
        }
        left.push(index(&self.left, &self.left_time)?);
        right.push(index(&self.right, &self.right_time)?);
        for (a, b) in &self.keys {
            left.push(index(&self.left, a)?);
            right.push(index(&self.right, b)?);
        }
        for side in [&mut left, &mut right] {
            side.sort_unstable();
            side.dedup();
        }
        Some(vec![left, right])
    }
}

/// The operator of a join in time.
#[derive(Debug)]
struct AsofExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    join: Arc<(Sides, MergeKeys)>,
    properties: Arc<PlanProperties>,
}

impl AsofExec {
    fn new(
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        join: Arc<(Sides, MergeKeys)>,
    ) -> AsofExec {
        let ascending = by_time(&left, join.0.left_time);
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, [[ascending]]),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        AsofExec { left, right, join, properties }
    }
}

fn by_time(input: &Arc<dyn ExecutionPlan>, time: usize) -> PhysicalSortExpr {
    let column = ColumnExpr::new(input.schema().field(time).name(), time);
    PhysicalSortExpr { expr: Arc::new(column), options: SortOptions::new(false, false) }
}

impl DisplayAs for AsofExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sides, keys) = self.join.as_ref();
        let (left, right) = (self.left.schema(), self.right.schema());
        let pairs = keys.left.iter().zip(&keys.right);
        let pairs =
            pairs.map(|(&a, &b)| format!("{} = {}", left.field(a).name(), right.field(b).name()));
        let kind = if sides.is_strict { "lt" } else { "asof" };
        write!(f, "AsofJoinExec: {kind}, on=[{}]", pairs.collect::<Vec<_>>().join(", "))?;
        sides.tolerance.map_or(Ok(()), |nanos| write!(f, ", tolerance={nanos}ns"))
    }
}

impl ExecutionPlan for AsofExec {
    fn name(&self) -> &'static str {
        "AsofJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![
            Distribution::SinglePartition,
            Distribution::SinglePartition,
        ])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let sides = &self.join.0;
        let inputs = [(&self.left, sides.left_time), (&self.right, sides.right_time)];
        let required = |(input, time): (&Arc<dyn ExecutionPlan>, usize)| {
            LexOrdering::new([by_time(input, time)]).map(OrderingRequirements::from)
        };
        inputs.map(required).to_vec()
    }

    /// Returns false for both sides: the properties have the order by time, and no other.
    /// DataFusion would move a sort by further keys below this, and not find its order here.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([left, right]) = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children) else {
            return internal_err!("AsofJoinExec has two inputs");
        };
        Ok(Arc::new(AsofExec::new(left, right, self.schema(), Arc::clone(&self.join))))
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
        let left = self.left.execute(partition, Arc::clone(&context))?;
        let right = self.right.execute(partition, Arc::clone(&context))?;
        let memory = MemoryConsumer::new("AsofJoinExec").register(context.memory_pool());
        let merge = Merge::new(left, right, self.schema(), Arc::clone(&self.join), memory)?;
        let batches = stream::try_unfold(merge, |mut merge| async move {
            Ok(merge.next().await?.map(|batch| (batch, merge)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        Array, AsArray, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
        TimestampNanosecondArray,
    };
    use datafusion::arrow::datatypes::{Field, Int64Type, Schema, TimeUnit as ArrowUnit};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::physical_plan::collect;

    use super::*;

    /// The time, the key and the number of a row; NULL is `None`.
    type Row = (Option<i64>, Option<&'static str>, i64);

    const KEYS: [Option<&str>; 4] = [Some("a"), Some("b"), Some("c"), None];

    /// Returns rows by time, with equal ones among them, and some without a time at the end.
    fn rows(random: &mut impl FnMut(u64) -> u64, count: u64, spread: u64) -> Vec<Row> {
        let mut rows = Vec::new();
        for number in 0..count {
            let time = i64::try_from(random(spread)).unwrap();
            let key = KEYS[usize::try_from(random(4)).unwrap()];
            rows.push((Some(time), key, i64::try_from(number).unwrap()));
        }
        rows.sort_by_key(|row| row.0);
        rows.push((None, Some("a"), -1));
        rows
    }

    /// Returns one stream of small batches; `scale` is 1 for microseconds and 1,000 for
    /// nanoseconds.
    fn exec(rows: &[Row], scale: i64, batch_rows: usize) -> Arc<dyn ExecutionPlan> {
        let unit = if scale == 1 { ArrowUnit::Microsecond } else { ArrowUnit::Nanosecond };
        let schema = Arc::new(Schema::new(vec![
            Field::new("ts", DataType::Timestamp(unit, None), true),
            Field::new("k", DataType::Utf8View, true),
            Field::new("n", DataType::Int64, true),
        ]));
        let batch = |rows: &[Row]| {
            let times = rows.iter().map(|row| row.0.map(|time| time * scale));
            let times: Arc<dyn Array> = match scale {
                1 => Arc::new(times.collect::<TimestampMicrosecondArray>()),
                _ => Arc::new(times.collect::<TimestampNanosecondArray>()),
            };
            let keys = rows.iter().map(|row| row.1).collect::<StringViewArray>();
            let numbers = rows.iter().map(|row| Some(row.2)).collect::<Int64Array>();
            let columns = vec![times, Arc::new(keys) as _, Arc::new(numbers) as _];
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        };
        let batches = rows.chunks(batch_rows).map(batch).collect::<Vec<_>>();
        MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).unwrap()
    }

    /// Computes the result by asof-1 to asof-2, row by row.
    fn expected(left: &[Row], right: &[Row], sides: &Sides, has_keys: bool) -> Vec<Option<i64>> {
        let matches = |l: &Row, r: &Row| {
            let (Some(l_time), Some(r_time)) = (l.0, r.0) else { return false };
            let is_before = if sides.is_strict { r_time < l_time } else { r_time <= l_time };
            let nanos = i128::from(l_time - r_time) * 1_000;
            let is_near = sides.tolerance.is_none_or(|most| nanos <= most);
            is_before && is_near && (!has_keys || l.1.is_some() && l.1 == r.1)
        };
        let last = |l: &Row| right.iter().rev().find(|r| matches(l, r)).map(|r| r.2);
        left.iter().map(last).collect()
    }

    async fn check(seed: u64) {
        // Xorshift: the numbers need not be good ones.
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut random = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let (has_keys, scale) =
            (!seed.is_multiple_of(3), if seed.is_multiple_of(2) { 1 } else { 1_000 });
        let spread = 1 + random(120);
        let left = rows(&mut random, 60, spread);
        let count = random(150);
        let right = rows(&mut random, count, spread);
        let sides = Sides {
            left_time: 0,
            right_time: 0,
            left_unit_nanos: 1_000,
            right_unit_nanos: 1_000 / i128::from(scale),
            is_strict: seed.is_multiple_of(5),
            tolerance: seed.is_multiple_of(4).then(|| i128::from(random(spread)) * 1_000),
            spare_rows: usize::try_from(random(30)).unwrap(),
        };
        let wanted = expected(&left, &right, &sides, has_keys);
        let keys = if has_keys { vec![1] } else { Vec::new() };
        let types = keys.iter().map(|_| DataType::Utf8View).collect();
        let keys = MergeKeys { left: keys.clone(), right: keys, types };
        let batch_rows = 1 + usize::try_from(random(9)).unwrap();
        let (left, right) = (exec(&left, 1, batch_rows), exec(&right, scale, batch_rows));
        let (left_schema, right_schema) = (left.schema(), right.schema());
        let fields = left_schema.fields().iter().chain(right_schema.fields()).cloned();
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let join = AsofExec::new(left, right, schema, Arc::new((sides, keys)));
        let batches = collect(Arc::new(join), Arc::new(TaskContext::default())).await.unwrap();
        let numbers = batches.iter().flat_map(|batch| {
            batch.column(5).as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
        });
        assert_eq!(numbers.collect::<Vec<_>>(), wanted, "seed {seed}");
    }

    #[tokio::test]
    async fn random_rows_are_joined_as_row_by_row() {
        for seed in 1..400 {
            check(seed).await;
        }
    }
}
