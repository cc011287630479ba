//! Window functions with texts or lists as values: they charge each value.
//!
//! - Behind all rules of the optimizer, a window function with such values is wrapped: it charges a
//!   value before a row gets it (`operators::windows`), or all rows of a partition, where the frame
//!   is the partition.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, FieldRef};
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

use crate::operators::windows::{charge_value, rows_of_window};
use crate::value_bytes::{bytes_of, constant_bytes};

/// Returns the call in a wrapper that charges its values.
pub(crate) fn charged(mut call: WindowFunction) -> WindowFunction {
    let params = &call.params;
    let frame = match is_partition(&params.window_frame, params.order_by.is_empty()) {
        false => Frame::Row,
        true if params.filter.is_some() => Frame::Filtered,
        true => Frame::Partition,
    };
    call.fun = match call.fun {
        WindowFunctionDefinition::AggregateUDF(inner) if !inner.inner().is::<Aggregate>() => {
            let charged = AggregateUDF::new_from_impl(Aggregate { inner, frame });
            WindowFunctionDefinition::AggregateUDF(Arc::new(charged))
        }
        WindowFunctionDefinition::WindowUDF(inner) if !inner.inner().is::<Value>() => {
            let charged = WindowUDF::new_from_impl(Value { inner });
            WindowFunctionDefinition::WindowUDF(Arc::new(charged))
        }
        charged => charged,
    };
    call
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

/// A wrapped aggregate over windows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Aggregate {
    inner: Arc<AggregateUDF>,
    frame: Frame,
}

impl Aggregate {
    fn accumulator(&self, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        let (function, frame) = (self.inner.name().to_owned(), self.frame);
        Box::new(Accumulated { inner, function, frame, rows: 0 })
    }
}

impl AggregateUDFImpl for Aggregate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Aggregate::accumulator(self, self.inner.accumulator(args)?))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(Aggregate::accumulator(self, self.inner.create_sliding_accumulator(args)?))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_beneficial: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = self.inner.as_ref().clone().with_beneficial_ordering(is_beneficial)?;
        let frame = self.frame;
        Ok(inner.map(|inner| Arc::new(Aggregate { inner: Arc::new(inner), frame }) as Arc<_>))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(inner) => {
                let reversed = Aggregate { inner, frame: self.frame };
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(reversed)))
            }
            other => other,
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(ty)
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(ty)
    }
}

/// The state of a wrapped aggregate for a partition.
#[derive(Debug)]
struct Accumulated {
    inner: Box<dyn Accumulator>,
    function: String,
    frame: Frame,
    /// The number of rows it has received.
    rows: u64,
}

impl Accumulator for Accumulated {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows += values.first().map_or(0, |values| values.len() as u64);
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate()?;
        let rows = match self.frame {
            Frame::Row => 1,
            Frame::Partition => self.rows,
            Frame::Filtered => rows_of_window(),
        };
        charge_value(&self.function, constant_bytes(&value), rows)?;
        Ok(value)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// A wrapped window function that returns values of other rows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Value {
    inner: Arc<WindowUDF>,
}

impl WindowUDFImpl for Value {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(args)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let function = self.inner.name().to_owned();
        let inner = self.inner.inner().partition_evaluator(args)?;
        Ok(Box::new(Evaluated { inner, function }))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.field(args)
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.inner.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.reverse_expr() {
            ReversedUDWF::Reversed(inner) => {
                ReversedUDWF::Reversed(Arc::new(WindowUDF::new_from_impl(Value { inner })))
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
    function: String,
}

impl PartitionEvaluator for Evaluated {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let made = self.inner.evaluate_all(values, rows)?;
        charge_value(&self.function, bytes_of(made.as_ref()), 1)?;
        Ok(made)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        let value = self.inner.evaluate(values, range)?;
        charge_value(&self.function, constant_bytes(&value), 1)?;
        Ok(value)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        self.inner.evaluate_all_with_rank(rows, ranks)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
