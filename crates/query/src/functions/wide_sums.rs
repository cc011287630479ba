//! `sum` and `avg` of decimals with many digits: exact, and an error where the result does not fit.
//!
//! - A sum is kept in 256 bits, in which 10^38 values of 38 digits fit. DataFusion's
//!   own are kept in 128 bits and wrap around; with `DIGITS_SAFE` digits or fewer, they cannot.
//! - A mean has four more digits behind the point than its values, as DataFusion's, and is rounded
//!   half away from zero.
//!
//! Not here: means of decimals with fewer digits (`rounded_means`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Int64Type, i256,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};

use crate::types::decimal_constants::DIGITS_MAX;
use crate::types::quotients::rounded_quotient;
use crate::types::wide_numbers::too_wide;

/// The maximal number of digits of decimals of which 10^10 can be added in 128 bits.
const DIGITS_SAFE: u8 = 28;
/// The digits of the type of a sum in 256 bits.
const DIGITS_WIDE: u8 = 76;

/// Returns our function in place of DataFusion's `sum` or `avg` of values of this type; `None` if
/// that one is right.
pub(crate) fn wide_sum(inner: &Arc<AggregateUDF>, of: &DataType) -> Option<Arc<AggregateUDF>> {
    let DataType::Decimal128(precision, _) = of else { return None };
    let is_mean = match inner.name() {
        "sum" => false,
        "avg" => true,
        _ => return None,
    };
    let is_ours = inner.inner().downcast_ref::<WideSum>().is_some();
    if is_ours || *precision <= DIGITS_SAFE {
        return None;
    }
    let inner = Arc::clone(inner);
    Some(Arc::new(AggregateUDF::new_from_impl(WideSum { inner, is_mean })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WideSum {
    /// The function of DataFusion.
    inner: Arc<AggregateUDF>,
    is_mean: bool,
}

impl AggregateUDFImpl for WideSum {
    delegate! { inner:
        fn name(&self) -> &str;
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>>;
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field =
            |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        let sum = DataType::Decimal256(DIGITS_WIDE, scale_of(args.input_fields[0].data_type()));
        Ok(vec![field("sum", sum), field("count", DataType::Int64)])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let scale = scale_of(args.expr_fields[0].data_type());
        let result = args.return_field.data_type().clone();
        let sum = Sum { sum: i256::ZERO, count: 0, scale, result, is_mean: self.is_mean };
        Ok(Box::new(sum))
    }
}

fn scale_of(ty: &DataType) -> i8 {
    match ty {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

#[derive(Debug)]
struct Sum {
    sum: i256,
    count: i64,
    scale: i8,
    result: DataType,
    is_mean: bool,
}

impl Sum {
    fn add(&mut self, value: i256) -> Result<()> {
        self.sum = self.sum.checked_add(value).ok_or_else(|| too_wide(DIGITS_MAX))?;
        Ok(())
    }

    /// Returns the digits of the result, which has this scale; `None` if they are too many.
    fn digits(&self, scale: i8) -> Option<i128> {
        if !self.is_mean {
            return self.sum.to_i128();
        }
        let more = u32::try_from(i16::from(scale) - i16::from(self.scale)).ok()?;
        let worth = i256::from_i128(10).checked_pow(more)?;
        let count = i256::from_i128(self.count.into());
        rounded_quotient(self.sum.checked_mul(worth)?, count).ok()?.to_i128()
    }
}

fn decimals(values: &ArrayRef) -> &Decimal128Array {
    values.as_primitive::<Decimal128Type>()
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in decimals(&values[0]).iter().flatten() {
            self.add(i256::from_i128(value))?;
            self.count += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in decimals(&values[0]).iter().flatten() {
            self.add(i256::from_i128(value).wrapping_neg())?;
            self.count -= 1;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = states[0].as_primitive::<Decimal256Type>();
        let counts = states[1].as_primitive::<Int64Type>();
        for row in (0..sums.len()).filter(|&row| !sums.is_null(row)) {
            self.add(sums.value(row))?;
            self.count += counts.value(row);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = ScalarValue::Decimal256(Some(self.sum), DIGITS_WIDE, self.scale);
        Ok(vec![sum, ScalarValue::Int64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let DataType::Decimal128(precision, scale) = self.result else {
            return ScalarValue::try_from(&self.result);
        };
        if self.count == 0 {
            return Ok(ScalarValue::Decimal128(None, precision, scale));
        }
        let end = 10_i128.pow(precision.into());
        let digits = self.digits(scale).filter(|digits| -end < *digits && *digits < end);
        let digits = digits.ok_or_else(|| too_wide(precision))?;
        Ok(ScalarValue::Decimal128(Some(digits), precision, scale))
    }

    fn size(&self) -> usize {
        size_of::<Sum>()
    }
}
