//! `avg` of intervals, which DataFusion's own does not take.
//!
//! - interval_average-1. The sum of the intervals is divided by their number as by `/`: fractions
//!   of months become days, and those of days become time, as in PostgreSQL.
//! - For other types it is replaced by DataFusion's own when a plan is made: that one is pushed
//!   down into scans.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, TypeSignature, Volatility,
};

use crate::error::{ClauseProblem, Error};
use crate::types::intervals::divided;

const MONTH_DAY_NANO: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// A type of sums of nanoseconds, and of numbers of months and days.
const NANOS: DataType = DataType::Decimal128(38, 0);

/// Returns the function.
pub(crate) fn average() -> AggregateUDF {
    let inner = avg_udaf();
    let mut signatures = vec![TypeSignature::Exact(vec![MONTH_DAY_NANO])];
    match inner.signature().type_signature.clone() {
        TypeSignature::OneOf(others) => signatures.extend(others),
        other => signatures.push(other),
    }
    let signature = Signature::one_of(signatures, Volatility::Immutable);
    AggregateUDF::new_from_impl(Average { inner, signature })
}

/// Returns DataFusion's function in place of this one, for values of other types.
pub(crate) fn plain_average(function: &AggregateUDF) -> Option<Arc<AggregateUDF>> {
    function.inner().downcast_ref::<Average>().map(|average| Arc::clone(&average.inner))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    /// The function of DataFusion.
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for Average {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match args {
            [DataType::Interval(_)] => Ok(MONTH_DAY_NANO),
            args => self.inner.return_type(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if !matches!(args.input_fields[0].data_type(), DataType::Interval(_)) {
            return self.inner.state_fields(args);
        }
        let field =
            |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        Ok(vec![
            field("count", DataType::Int64),
            field("months", DataType::Int64),
            field("days", DataType::Int64),
            field("nanoseconds", NANOS),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if !matches!(args.expr_fields[0].data_type(), DataType::Interval(_)) {
            return self.inner.accumulator(args);
        }
        if args.is_distinct {
            let feature = "avg(DISTINCT ..) of intervals";
            return Err(Error::NotSupported { position: None, feature }.into());
        }
        Ok(Box::new(Sum::default()))
    }
}

/// The sum of intervals, field by field.
#[derive(Debug, Default)]
struct Sum {
    count: i64,
    months: i64,
    days: i64,
    nanos: i128,
}

impl Sum {
    /// Adds intervals, or removes them if the sign is -1.
    fn add(&mut self, values: &ArrayRef, sign: i64) {
        for value in values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            // 2^32 rows of the largest fields fit.
            self.count += sign;
            self.months += sign * i64::from(value.months);
            self.days += sign * i64::from(value.days);
            self.nanos += i128::from(sign) * i128::from(value.nanoseconds);
        }
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], -1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let number = |at: usize, row: usize| states[at].as_primitive::<Int64Type>().value(row);
        for row in 0..states[0].len() {
            self.count += number(0, row);
            self.months += number(1, row);
            self.days += number(2, row);
            self.nanos += states[3].as_primitive::<Decimal128Type>().value(row);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let number = |value| ScalarValue::Int64(Some(value));
        let nanos = ScalarValue::Decimal128(Some(self.nanos), 38, 0);
        Ok(vec![number(self.count), number(self.months), number(self.days), nanos])
    }

    // interval_average-1.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let sum = || {
            Some(IntervalMonthDayNano {
                months: i32::try_from(self.months).ok()?,
                days: i32::try_from(self.days).ok()?,
                nanoseconds: i64::try_from(self.nanos).ok()?,
            })
        };
        let Some(sum) = sum() else {
            return Err(ClauseProblem::TimeRange.into());
        };
        Ok(ScalarValue::IntervalMonthDayNano(Some(divided(sum, self.count)?)))
    }

    fn size(&self) -> usize {
        size_of::<Sum>()
    }
}
