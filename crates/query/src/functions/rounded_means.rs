//! `avg` of decimals, rounded half away from zero as in PostgreSQL: that of DataFusion is cut.
//!
//! - DataFusion's own aggregate adds and counts, and the mean is the quotient of its states.
//! - A mean has four more digits behind the point than its values, as DataFusion's.
//!
//! Not here: means of decimals with many digits (`wide_sums`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, FieldRef, UInt64Type, i256,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
};

use crate::types::quotients::rounded_quotient;
use crate::types::wide_numbers::too_wide;

/// Returns our function in place of DataFusion's `avg` of values of this type; `None` if that one
/// is right.
pub(crate) fn rounded_mean(inner: &Arc<AggregateUDF>, of: &DataType) -> Option<Arc<AggregateUDF>> {
    let is_ours = inner.inner().downcast_ref::<RoundedMean>().is_some();
    if is_ours || inner.name() != "avg" || !matches!(of, DataType::Decimal128(..)) {
        return None;
    }
    let inner = Arc::clone(inner);
    Some(Arc::new(AggregateUDF::new_from_impl(RoundedMean { inner })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RoundedMean {
    /// The function of DataFusion.
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for RoundedMean {
    delegate! { inner:
        fn name(&self) -> &str;
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>>;
        fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>>;
        fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool;
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let mean = Mean::new(&args)?;
        Ok(Box::new(OneMean { inner: self.inner.accumulator(args)?, mean }))
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let mean = Mean::new(&args)?;
        Ok(Box::new(Means { inner: self.inner.create_groups_accumulator(args)?, mean }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The type of a mean, and the power of ten between its digits and those of a sum.
#[derive(Debug, Clone, Copy)]
struct Mean {
    precision: u8,
    scale: i8,
    worth: i128,
}

impl Mean {
    fn new(args: &AccumulatorArgs<'_>) -> Result<Mean> {
        let types = (args.expr_fields[0].data_type(), args.return_field.data_type());
        let (&DataType::Decimal128(_, of), &DataType::Decimal128(precision, scale)) = types else {
            return internal_err!("the mean of decimals is a decimal");
        };
        let Some(worth) = u32::try_from(scale - of).ok().and_then(|it| 10_i128.checked_pow(it))
        else {
            return internal_err!("a mean has the digits of its values");
        };
        Ok(Mean { precision, scale, worth })
    }

    /// Returns the digits of the mean of values with this sum.
    fn of(&self, sum: i256, count: u64) -> Result<i128> {
        let worth = i256::from_i128(self.worth);
        let mean = sum.checked_mul(worth).and_then(|dividend| {
            rounded_quotient(dividend, i256::from_i128(count.into())).ok()?.to_i128()
        });
        let end = 10_i128.pow(self.precision.into());
        let mean = mean.filter(|mean| -end < *mean && *mean < end);
        mean.ok_or_else(|| too_wide(self.precision))
    }

    /// Does the work of `of` for a sum that fits 128 bits.
    fn of_narrow(&self, sum: i128, count: u64) -> Result<i128> {
        let end = 10_i128.pow(self.precision.into());
        let mean = sum.checked_mul(self.worth);
        let mean = mean.and_then(|dividend| rounded_quotient(dividend, count.into()).ok());
        match mean.filter(|mean| -end < *mean && *mean < end) {
            Some(mean) => Ok(mean),
            None => self.of(i256::from_i128(sum), count),
        }
    }

    fn scalar(&self, digits: Option<i128>) -> ScalarValue {
        ScalarValue::Decimal128(digits, self.precision, self.scale)
    }
}

/// The accumulator of one mean.
#[derive(Debug)]
struct OneMean {
    inner: Box<dyn Accumulator>,
    mean: Mean,
}

impl Accumulator for OneMean {
    delegate! { inner:
        fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()>;
        fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()>;
        fn supports_retract_batch(&self) -> bool;
        fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()>;
        fn state(&mut self) -> Result<Vec<ScalarValue>>;
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (sum, count) = match self.inner.state()?.as_slice() {
            [ScalarValue::UInt64(count), ScalarValue::Decimal128(sum, ..)] => {
                (sum.map(i256::from_i128), count.unwrap_or_default())
            }
            [ScalarValue::UInt64(count), ScalarValue::Decimal256(sum, ..)] => {
                (*sum, count.unwrap_or_default())
            }
            // With DISTINCT, the state is a list of the values.
            [ScalarValue::List(list)] => {
                let values = list.value(0);
                let values = values.as_primitive::<Decimal128Type>();
                let sum = values.iter().flatten().map(i256::from_i128);
                let sum = sum.fold(i256::ZERO, i256::wrapping_add);
                (Some(sum), (values.len() - values.null_count()) as u64)
            }
            _ => return internal_err!("the state of a mean is a sum and a count"),
        };
        let mean = sum.filter(|_| count > 0).map(|sum| self.mean.of(sum, count)).transpose()?;
        Ok(self.mean.scalar(mean))
    }

    fn size(&self) -> usize {
        size_of::<OneMean>() + self.inner.size()
    }
}

/// The accumulator of the means of groups.
struct Means {
    inner: Box<dyn GroupsAccumulator>,
    mean: Mean,
}

impl GroupsAccumulator for Means {
    delegate! { inner:
        fn update_batch(
            &mut self,
            values: &[ArrayRef],
            group_indices: &[usize],
            opt_filter: Option<&BooleanArray>,
            total_num_groups: usize,
        ) -> Result<()>;
        fn merge_batch(
            &mut self,
            values: &[ArrayRef],
            group_indices: &[usize],
            total_num_groups: usize,
        ) -> Result<()>;
        fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>>;
        fn convert_to_state(
            &self,
            values: &[ArrayRef],
            opt_filter: Option<&BooleanArray>,
        ) -> Result<Vec<ArrayRef>>;
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let states = self.inner.state(emit_to)?;
        let [counts, sums] = states.as_slice() else {
            return internal_err!("the state of a mean is a sum and a count");
        };
        let counts = counts.as_primitive::<UInt64Type>();
        let count = |group: usize| Some(counts.value(group)).filter(|&count| count > 0);
        let is_null = |group: usize| counts.is_null(group) || sums.is_null(group);
        let groups = (0..counts.len()).map(|group| if is_null(group) { None } else { Some(group) });
        let means = match sums.data_type() {
            DataType::Decimal128(..) => {
                let sums = sums.as_primitive::<Decimal128Type>();
                let mean = |at: usize| Some(self.mean.of_narrow(sums.value(at), count(at)?));
                groups.map(|group| group.and_then(&mean).transpose()).collect::<Result<Vec<_>>>()?
            }
            _ => {
                let sums = sums.as_primitive::<Decimal256Type>();
                let mean = |at: usize| Some(self.mean.of(sums.value(at), count(at)?));
                groups.map(|group| group.and_then(&mean).transpose()).collect::<Result<Vec<_>>>()?
            }
        };
        let means = Decimal128Array::from(means);
        Ok(Arc::new(means.with_precision_and_scale(self.mean.precision, self.mean.scale)?))
    }

    fn size(&self) -> usize {
        size_of::<Means>() + self.inner.size()
    }
}
