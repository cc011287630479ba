//! `min` and `max` of UUID and IPV4, which keep their types: DataFusion's own lose them.
//!
//! - For other types they are replaced by DataFusion's own when a plan is made: it optimizes those.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature,
};

/// Returns the functions, with the type of their argument as the type of their result.
pub(crate) fn least_and_greatest() -> Vec<AggregateUDF> {
    [min_udaf(), max_udaf()].map(|inner| AggregateUDF::new_from_impl(Typed(inner))).into()
}

/// Returns DataFusion's function behind one of these.
pub(crate) fn untyped(function: &AggregateUDF) -> Option<Arc<AggregateUDF>> {
    function.inner().downcast_ref::<Typed>().map(|typed| Arc::clone(&typed.0))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Typed(Arc<AggregateUDF>);

impl AggregateUDFImpl for Typed {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        self.0.return_type(args)
    }

    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        let ty = args[0].data_type().clone();
        let field = Field::new(self.name(), ty, true).with_metadata(args[0].metadata().clone());
        Ok(Arc::new(field))
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        self.0.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.0.create_groups_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }
}
