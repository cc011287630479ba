//! `first`, `last`, `first_not_null` and `last_not_null`: by designated timestamp.
//!
//! - They stand in a plan only until the table of the timestamp is known; then they are
//!   DataFusion's `first_value` and `last_value` in its order.
//! - Over a plain scan rows come in the order of the table, in one stream, and the first or last
//!   one is taken: among equal timestamps that of the first or last commit.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

pub(crate) const NAMES: [&str; 4] = ["first", "last", "first_not_null", "last_not_null"];

/// Returns the functions.
pub(crate) fn first_last_functions() -> Vec<AggregateUDF> {
    let function = |&name: &&'static str| {
        let signature = Signature::any(1, Volatility::Immutable);
        AggregateUDF::new_from_impl(ByTime { name, signature })
    };
    NAMES.iter().map(function).collect()
}

/// A placeholder.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ByTime {
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for ByTime {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(args[0].as_ref().clone().with_name(self.name).with_nullable(true)))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        plan_err!("{} is not supported as a window function here", self.name)
    }
}
