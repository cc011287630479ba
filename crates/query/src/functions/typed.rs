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
    delegate! { 0:
        fn name(&self) -> &str;
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>>;
        fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>>;
        fn create_sliding_accumulator(
            &self,
            args: AccumulatorArgs<'_>,
        ) -> Result<Box<dyn Accumulator>>;
        fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool;
        fn create_groups_accumulator(
            &self,
            args: AccumulatorArgs<'_>,
        ) -> Result<Box<dyn GroupsAccumulator>>;
        fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>>;
    }

    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        let ty = args[0].data_type().clone();
        let field = Field::new(self.name(), ty, true).with_metadata(args[0].metadata().clone());
        Ok(Arc::new(field))
    }
}
