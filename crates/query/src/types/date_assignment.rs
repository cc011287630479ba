//! Assignment of a time to a DATE: a time that is no midnight is refused, not truncated.
//!
//! Not here: `CAST(ts AS DATE)`, which is explicit, and returns the day of a time.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit as ArrowUnit};
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tidegate_model::time::IsoTimestamp;
use tidegate_model::{ColumnType, TimeUnit, Timestamp};

use crate::error::{Error, TextProblem};

/// The name of the function, which no query can write.
pub(crate) const WHOLE_DAY: &str = "whole day";

/// Returns the function, which returns its argument if that is no time, or a midnight.
pub(crate) fn whole_day() -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(WholeDay { signature })
}

/// Returns an expression as it is assigned to a DATE.
pub(crate) fn as_whole_day(expr: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(whole_day()), vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WholeDay {
    signature: Signature,
}

impl ScalarUDFImpl for WholeDay {
    fn name(&self) -> &'static str {
        WHOLE_DAY
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = args.args.remove(0);
        let DataType::Timestamp(unit, _) = value.data_type() else { return Ok(value) };
        let times = cast(&value.to_array(1)?, &DataType::Int64)?;
        let times = times.as_primitive::<Int64Type>();
        let per_day = match unit {
            ArrowUnit::Second => 86_400,
            ArrowUnit::Millisecond => 86_400_000,
            ArrowUnit::Microsecond => TimeUnit::Micros.per_day(),
            ArrowUnit::Nanosecond => TimeUnit::Nanos.per_day(),
        };
        let mut times = times.iter().flatten();
        if let Some(time) = times.find(|time| time.rem_euclid(per_day) != 0) {
            let text = match unit {
                ArrowUnit::Nanosecond => IsoTimestamp(Timestamp(time), TimeUnit::Nanos),
                _ => IsoTimestamp(
                    Timestamp(time.saturating_mul(TimeUnit::Micros.per_day() / per_day)),
                    TimeUnit::Micros,
                ),
            };
            let (text, ty, reason) =
                (text.to_string(), ColumnType::Date, TextProblem::HasTimeOfDay);
            return Err(Error::BadText { position: None, text, ty, reason }.into());
        }
        Ok(value)
    }
}
