//! Sums, averages and other aggregates of doubles over moving frames.
//!
//! - moving-1. Nothing is subtracted: a NaN, an infinity or a large value that has left the frame
//!   leaves no trace. DataFusion's own aggregates subtract values that leave a frame from their
//!   sums.
//! - moving-2. Rows leave a frame in the order in which they entered it.
//! - A row costs amortized constant time: it is added when it enters, and added once more when the
//!   rows before it have left (`Frame`).
//!
//! Sums are compensated for rounding errors, so that frames of the same values have the same sum.
//! Integers and decimals are exact, and stay with DataFusion, as do frames that do not move.

mod frame;
mod pairs;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};

use frame::MovingSum;
use pairs::{MovingPairs, Statistic};

/// Returns our window function in place of DataFusion's, where that subtracts doubles.
pub(crate) fn moving(inner: &Arc<AggregateUDF>) -> Option<Arc<AggregateUDF>> {
    if inner.inner().downcast_ref::<Moving>().is_some() {
        return None;
    }
    let kind = match inner.name() {
        "sum" => Kind::Sum,
        "avg" => Kind::Average,
        name => Kind::Statistic(Statistic::of(name)?),
    };
    Some(Arc::new(AggregateUDF::new_from_impl(Moving { inner: Arc::clone(inner), kind })))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Average,
    Statistic(Statistic),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Moving {
    /// The function of DataFusion.
    inner: Arc<AggregateUDF>,
    kind: Kind,
}

impl AggregateUDFImpl for Moving {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
        fn display_name(&self, params: &AggregateFunctionParams) -> Result<String>;
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef>;
        fn is_nullable(&self) -> bool;
        fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>>;
        fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>>;
        fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool;
        fn create_groups_accumulator(
            &self,
            args: AccumulatorArgs<'_>,
        ) -> Result<Box<dyn GroupsAccumulator>>;
        fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>>;
        fn order_sensitivity(&self) -> AggregateOrderSensitivity;
        fn simplify(&self) -> Option<AggregateFunctionSimplification>;
        fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue>;
        fn default_value(&self, ty: &DataType) -> Result<ScalarValue>;
        fn documentation(&self) -> Option<&Documentation>;
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let is_double = |field: &FieldRef| *field.data_type() == DataType::Float64;
        if args.is_distinct || !args.expr_fields.iter().all(is_double) {
            return self.inner.create_sliding_accumulator(args);
        }
        Ok(match self.kind {
            Kind::Sum => Box::new(MovingSum::total()),
            Kind::Average => Box::new(MovingSum::average()),
            Kind::Statistic(statistic) => Box::new(MovingPairs::new(statistic)),
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(ty)
    }
}

#[cfg(test)]
mod tests;
