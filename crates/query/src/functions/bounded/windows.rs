//! Window functions that check that the statement may continue, and charge texts and lists.
//!
//! - Behind all rules of the optimizer, a window function with texts or lists as values is wrapped:
//!   it charges a value before a row gets it (`operators::windows`), or all rows of a partition,
//!   where the frame is the partition.
//! - bounded_windows-1. So is each one that makes the value of a row from the rows of its frame: a
//!   window makes all values of a partition, or of a batch, in one step, and each value may need
//!   the whole frame. It ends within `CHECKED_ROWS` rows once the statement has been stopped.
//!
//! The other functions (`rank`, `lag`, an aggregate over a whole partition) make all values in one
//! pass over the rows.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunctionParams, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::function::{
    AccumulatorArgs, ExpressionArgs, PartitionEvaluatorArgs, StateFieldsArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, LimitEffect, PartitionEvaluator, ReversedUDAF,
    ReversedUDWF, SetMonotonicity, Signature, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use crate::operators::windows::{charge_value, check_may_continue, rows_of_window};
use crate::value_bytes::{bytes_of, constant_bytes};

/// The number of rows whose values are made from one check to the next (bounded_windows-1): a check
/// costs as much as a small value.
const CHECKED_ROWS: u64 = 8;

/// The window functions that read the rows of a frame.
const OF_FRAMES: [&str; 3] = ["first_value", "last_value", "nth_value"];

/// The width of the values of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Width {
    /// They are not charged.
    Narrow,
    /// Texts or lists.
    Wide,
}

/// Returns the call in a wrapper that checks and charges, if it needs one.
pub(crate) fn checked(mut call: WindowFunction, width: Width) -> Transformed<WindowFunction> {
    let params = &call.params;
    let frame = match is_partition(&params.window_frame, params.order_by.is_empty()) {
        false => Frame::Row,
        true if params.filter.is_some() => Frame::Filtered,
        true => Frame::Partition,
    };
    let is_wide = width == Width::Wide;
    let checked = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(inner)
            if (is_wide || frame == Frame::Row) && !inner.inner().is::<Aggregate>() =>
        {
            let checked = Aggregate { inner: Arc::clone(inner), frame, width };
            let checked = AggregateUDF::new_from_impl(checked);
            WindowFunctionDefinition::AggregateUDF(Arc::new(checked))
        }
        WindowFunctionDefinition::WindowUDF(inner)
            if (is_wide || OF_FRAMES.contains(&inner.name())) && !inner.inner().is::<Value>() =>
        {
            let checked = WindowUDF::new_from_impl(Value { inner: Arc::clone(inner), width });
            WindowFunctionDefinition::WindowUDF(Arc::new(checked))
        }
        _ => return Transformed::no(call),
    };
    call.fun = checked;
    Transformed::yes(call)
}

/// Returns true if each row's frame is its whole partition.
fn is_partition(frame: &WindowFrame, is_unordered: bool) -> bool {
    let is_end = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => frame.units == WindowFrameUnits::Range && is_unordered,
        bound => bound.is_unbounded(),
    };
    is_end(&frame.start_bound) && is_end(&frame.end_bound)
}

/// The rows that share one value of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Frame {
    Row,
    /// All rows of the partition.
    Partition,
    /// All rows of the partition, but the aggregate sees only those that pass a FILTER.
    Filtered,
}

/// Checks of a function that makes a value for each row.
#[derive(Debug, Default)]
struct Checks {
    rows: u64,
}

impl Checks {
    /// Counts a row whose value is made next, and checks in time (bounded_windows-1).
    fn next_row(&mut self) -> Result<()> {
        let is_due = self.rows.is_multiple_of(CHECKED_ROWS);
        self.rows += 1;
        if is_due { check_may_continue() } else { Ok(()) }
    }
}

/// A wrapped aggregate over windows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Aggregate {
    inner: Arc<AggregateUDF>,
    frame: Frame,
    width: Width,
}

impl Aggregate {
    fn accumulator(&self, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        let function = Arc::clone(&self.inner);
        let (frame, width, checks) = (self.frame, self.width, Checks::default());
        Box::new(Accumulated { inner, function, frame, width, rows: 0, checks })
    }

    /// The same wrapper of another function.
    fn of(&self, inner: Arc<AggregateUDF>) -> Aggregate {
        Aggregate { inner, frame: self.frame, width: self.width }
    }
}

impl AggregateUDFImpl for Aggregate {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
        fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String>;
        fn human_display(&self, params: &AggregateFunctionParams) -> Result<String>;
        fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String>;
        fn display_name(&self, params: &AggregateFunctionParams) -> Result<String>;
        fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String>;
        fn signature(&self) -> &Signature;
        fn return_type(&self, types: &[DataType]) -> Result<DataType>;
        fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef>;
        fn is_nullable(&self) -> bool;
        fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>>;
        fn order_sensitivity(&self) -> AggregateOrderSensitivity;
        fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>>;
        fn default_value(&self, ty: &DataType) -> Result<ScalarValue>;
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Aggregate::accumulator(self, self.inner.accumulator(args)?))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(Aggregate::accumulator(self, self.inner.create_sliding_accumulator(args)?))
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_beneficial: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = self.inner.as_ref().clone().with_beneficial_ordering(is_beneficial)?;
        Ok(inner.map(|inner| Arc::new(self.of(Arc::new(inner))) as Arc<_>))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(inner) => {
                let reversed = AggregateUDF::new_from_impl(self.of(inner));
                ReversedUDAF::Reversed(Arc::new(reversed))
            }
            other => other,
        }
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(ty)
    }
}

/// The state of a wrapped aggregate for a partition.
#[derive(Debug)]
struct Accumulated {
    inner: Box<dyn Accumulator>,
    function: Arc<AggregateUDF>,
    frame: Frame,
    width: Width,
    /// The number of rows it has received.
    rows: u64,
    checks: Checks,
}

impl Accumulator for Accumulated {
    delegate! { inner:
        fn size(&self) -> usize;
        fn state(&mut self) -> Result<Vec<ScalarValue>>;
        fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()>;
        fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()>;
        fn supports_retract_batch(&self) -> bool;
    }

    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows += values.first().map_or(0, |values| values.len() as u64);
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.checks.next_row()?;
        let value = self.inner.evaluate()?;
        if self.width == Width::Wide {
            let rows = match self.frame {
                Frame::Row => 1,
                Frame::Partition => self.rows,
                Frame::Filtered => rows_of_window(),
            };
            charge_value(self.function.name(), constant_bytes(&value), rows)?;
        }
        Ok(value)
    }
}

/// A wrapped window function that returns values of other rows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Value {
    inner: Arc<WindowUDF>,
    width: Width,
}

impl WindowUDFImpl for Value {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
        fn signature(&self) -> &Signature;
        fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>>;
        fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef>;
        fn sort_options(&self) -> Option<SortOptions>;
        fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>>;
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let inner = self.inner.inner().partition_evaluator(args)?;
        let (function, width) = (Arc::clone(&self.inner), self.width);
        Ok(Box::new(Evaluated { inner, function, width, checks: Checks::default() }))
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.reverse_expr() {
            ReversedUDWF::Reversed(inner) => {
                let reversed = Value { inner, width: self.width };
                ReversedUDWF::Reversed(Arc::new(WindowUDF::new_from_impl(reversed)))
            }
            other => other,
        }
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(args)
    }
}

/// The state of such a function for a partition.
#[derive(Debug)]
struct Evaluated {
    inner: Box<dyn PartitionEvaluator>,
    function: Arc<WindowUDF>,
    width: Width,
    checks: Checks,
}

impl Evaluated {
    fn charge(&self, bytes: u64) -> Result<()> {
        match self.width {
            Width::Narrow => Ok(()),
            Width::Wide => charge_value(self.function.name(), bytes, 1),
        }
    }
}

impl PartitionEvaluator for Evaluated {
    delegate! { inner:
        fn memoize(&mut self, state: &mut WindowAggState) -> Result<()>;
        fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>>;
        fn is_causal(&self) -> bool;
        fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef>;
        fn supports_bounded_execution(&self) -> bool;
        fn uses_window_frame(&self) -> bool;
        fn include_rank(&self) -> bool;
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let made = self.inner.evaluate_all(values, rows)?;
        self.charge(bytes_of(made.as_ref()))?;
        Ok(made)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.checks.next_row()?;
        let value = self.inner.evaluate(values, range)?;
        self.charge(constant_bytes(&value))?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use datafusion::arrow::array::{Int64Array, RecordBatch};
    use datafusion::datasource::{MemTable, provider_as_source};
    use datafusion::execution::{SessionStateBuilder, TaskContext};
    use datafusion::logical_expr::function::{
        AccumulatorFactoryFunction, PartitionEvaluatorFactory,
    };
    use datafusion::logical_expr::{
        Expr, LogicalPlanBuilder, Volatility, col, create_udaf, create_udwf,
    };
    use datafusion::physical_plan::collect;
    use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

    use super::super::operators::{Stage, bound_functions_of};
    use super::*;
    use crate::cancel::{CancelState, Timeout};
    use crate::control::with_cancel_checks;

    const ROWS: i64 = 1_000;
    /// The number of the value that is made when the statement is stopped.
    const LAST: u64 = 100;

    /// A function that stops its statement.
    #[derive(Clone, Debug)]
    struct Stopping {
        values: Arc<AtomicU64>,
        stop: Arc<CancelState>,
    }

    impl Stopping {
        fn make(&self) -> Result<ScalarValue> {
            if self.values.fetch_add(1, Relaxed) + 1 == LAST {
                self.stop.abandon();
            }
            Ok(ScalarValue::Int64(Some(1)))
        }
    }

    impl Accumulator for Stopping {
        fn update_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
            Ok(())
        }

        fn evaluate(&mut self) -> Result<ScalarValue> {
            self.make()
        }

        fn size(&self) -> usize {
            0
        }

        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(Vec::new())
        }

        fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
            Ok(())
        }

        fn retract_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
            Ok(())
        }

        fn supports_retract_batch(&self) -> bool {
            true
        }
    }

    impl PartitionEvaluator for Stopping {
        fn evaluate(&mut self, _: &[ArrayRef], _: &Range<usize>) -> Result<ScalarValue> {
            self.make()
        }

        fn uses_window_frame(&self) -> bool {
            true
        }
    }

    /// Stops a statement while its window makes the value of a row.
    async fn check(end: Option<u64>, function: fn(Stopping) -> WindowFunctionDefinition) {
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let values = Arc::new(AtomicU64::new(0));
        let stopping = Stopping { values: Arc::clone(&values), stop: Arc::clone(&stop) };
        let mut call = WindowFunction::new(function(stopping), vec![col("n")]);
        call.params.order_by = vec![col("n").sort(true, false)];
        call.params.window_frame = WindowFrame::new_bounds(
            WindowFrameUnits::Rows,
            WindowFrameBound::Preceding(ScalarValue::UInt64(Some(1))),
            WindowFrameBound::Following(ScalarValue::UInt64(end)),
        );
        let numbers = Arc::new(Int64Array::from_iter_values(0..ROWS)) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        let table = provider_as_source(Arc::new(table));
        let plan = LogicalPlanBuilder::scan("t", table, None).unwrap();
        let plan = plan.window([Expr::WindowFunction(Box::new(call))]).unwrap().build().unwrap();
        let plan = bound_functions_of(plan, Stage::Final).unwrap().data;
        let state = SessionStateBuilder::new().with_default_features().build();
        let planner = DefaultPhysicalPlanner::default();
        let plan = planner.create_physical_plan(&plan, &state).await.unwrap();
        let plan = with_cancel_checks(plan, &stop).unwrap();
        let error = collect(plan, Arc::new(TaskContext::default())).await.unwrap_err();
        assert_eq!(crate::Error::from(error).to_string(), "client disconnected");
        let made = values.load(Relaxed);
        assert!(made < LAST + CHECKED_ROWS, "bounded_windows-1: {made} values with end {end:?}");
    }

    // A median over frames of 20,000 rows used the CPU until its last row, after its client had
    // cancelled it: seconds, and hours with more rows.
    #[tokio::test]
    async fn a_window_ends_within_a_few_rows() {
        for end in [Some(1), None] {
            check(end, |stopping| {
                let accumulator: AccumulatorFactoryFunction =
                    Arc::new(move |_| Ok(Box::new(stopping.clone())));
                WindowFunctionDefinition::AggregateUDF(Arc::new(create_udaf(
                    "stopping",
                    vec![DataType::Int64],
                    Arc::new(DataType::Int64),
                    Volatility::Immutable,
                    accumulator,
                    Arc::new(Vec::new()),
                )))
            })
            .await;
            check(end, |stopping| {
                let evaluator: PartitionEvaluatorFactory =
                    Arc::new(move || Ok(Box::new(stopping.clone())));
                WindowFunctionDefinition::WindowUDF(Arc::new(create_udwf(
                    OF_FRAMES[1],
                    DataType::Int64,
                    Arc::new(DataType::Int64),
                    Volatility::Immutable,
                    evaluator,
                )))
            })
            .await;
        }
    }
}
