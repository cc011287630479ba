//! `avg` of integers: their exact sum, divided once by their number.
//!
//! - A sum is kept in 128 bits, in which 2^63 values of 64 bits fit. DataFusion's own function
//!   converts the values to doubles first, and so loses the digits of large ones.
//! - A mean is the double that is nearest to the quotient.
//! - If the argument becomes a double after all, the function is DataFusion's.
//!
//! Not here: means of decimals (`rounded_means`, `wide_sums`), and the same means inside of scans
//! (`scan::aggregate_pushdown`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Float64Array,
    UInt64Array,
};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};

use crate::types::quotients::double_quotient;

/// The type of sums in states.
const SUM: DataType = DataType::Decimal128(38, 0);

/// Returns our function in place of DataFusion's `avg` of values of this type; `None` if that one
/// is right.
pub(crate) fn exact_mean(function: &AggregateUDF, of: &DataType) -> Option<Arc<AggregateUDF>> {
    let is_ours = function.inner().downcast_ref::<ExactMean>().is_some();
    if is_ours || function.name() != "avg" || !of.is_integer() {
        return None;
    }
    let signature = Signature::user_defined(Volatility::Immutable);
    let mean = ExactMean { inner: avg_udaf(), signature };
    Some(Arc::new(AggregateUDF::new_from_impl(mean)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactMean {
    /// The function of DataFusion.
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

/// Calls a function for the Arrow type of integers; `None` for another type.
macro_rules! of_integers {
    ($function:ident, $ty:expr) => {
        match $ty {
            DataType::Int8 => Some($function::<Int8Type>()),
            DataType::Int16 => Some($function::<Int16Type>()),
            DataType::Int32 => Some($function::<Int32Type>()),
            DataType::Int64 => Some($function::<Int64Type>()),
            DataType::UInt8 => Some($function::<UInt8Type>()),
            DataType::UInt16 => Some($function::<UInt16Type>()),
            DataType::UInt32 => Some($function::<UInt32Type>()),
            DataType::UInt64 => Some($function::<UInt64Type>()),
            _ => None,
        }
    };
}

impl AggregateUDFImpl for ExactMean {
    delegate! { inner:
        fn name(&self) -> &str;
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let coerced = |of: &DataType| match of.is_integer() {
            true => of.clone(),
            false => DataType::Float64,
        };
        Ok(args.iter().map(coerced).collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if !args.input_fields[0].data_type().is_integer() {
            return self.inner.state_fields(args);
        }
        let name = |part: &str| format!("{}[{part}]", args.name);
        let fields = match args.is_distinct {
            true => {
                vec![Field::new_list(name("values"), Field::new_list_field(SUM, true), false)]
            }
            false => {
                let sum = Field::new(name("sum"), SUM, true);
                vec![sum, Field::new(name("count"), DataType::UInt64, true)]
            }
        };
        Ok(fields.into_iter().map(Arc::new).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let of = args.expr_fields[0].data_type();
        let ours = match args.is_distinct {
            true => of_integers!(mean_of_distinct, of),
            false => of_integers!(mean, of),
        };
        ours.map_or_else(|| self.inner.accumulator(args), Ok)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match args.expr_fields[0].data_type().is_integer() {
            true => !args.is_distinct,
            false => self.inner.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let ours = of_integers!(means, args.expr_fields[0].data_type());
        ours.map_or_else(|| self.inner.create_groups_accumulator(args), Ok)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn mean<T>() -> Box<dyn Accumulator>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    Box::new(Mean { total: total_of::<T>, total_now: Total::default() })
}

fn mean_of_distinct<T>() -> Box<dyn Accumulator>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    Box::new(MeanOfDistinct { read: integers_of::<T>, numbers: HashMap::new(), sum: 0 })
}

fn means<T>() -> Box<dyn GroupsAccumulator>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    Box::new(Means::<T> { sums: Vec::new(), counts: Vec::new(), of: PhantomData })
}

/// A sum and the number of its values.
#[derive(Debug, Default, Clone, Copy)]
struct Total {
    sum: i128,
    count: u64,
}

fn mean_of(sum: i128, count: u64) -> Option<f64> {
    (count > 0).then(|| double_quotient(sum, count))
}

fn total_of<T>(values: &ArrayRef) -> Total
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    let values = values.as_primitive::<T>();
    let count = (values.len() - values.null_count()) as u64;
    let sum = match values.null_count() {
        0 => values.values().iter().copied().map(Into::<i128>::into).sum::<i128>(),
        _ => values.iter().flatten().map(Into::<i128>::into).sum::<i128>(),
    };
    Total { sum, count }
}

/// Returns the values that are not NULL.
fn integers_of<T>(values: &ArrayRef) -> Vec<i128>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    values.as_primitive::<T>().iter().flatten().map(Into::<i128>::into).collect()
}

/// The accumulator of one mean.
#[derive(Debug)]
struct Mean {
    total: fn(&ArrayRef) -> Total,
    total_now: Total,
}

impl Accumulator for Mean {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let more = (self.total)(&values[0]);
        self.total_now.sum += more.sum;
        self.total_now.count += more.count;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let less = (self.total)(&values[0]);
        self.total_now.sum -= less.sum;
        self.total_now.count -= less.count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = states[0].as_primitive::<Decimal128Type>();
        let counts = states[1].as_primitive::<UInt64Type>();
        self.total_now.sum += sums.iter().flatten().sum::<i128>();
        self.total_now.count += counts.iter().flatten().sum::<u64>();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Total { sum, count } = self.total_now;
        Ok(vec![ScalarValue::Decimal128(Some(sum), 38, 0), ScalarValue::UInt64(Some(count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Total { sum, count } = self.total_now;
        Ok(ScalarValue::Float64(mean_of(sum, count)))
    }

    fn size(&self) -> usize {
        size_of::<Mean>()
    }
}

/// The accumulator of the mean of distinct values.
#[derive(Debug)]
struct MeanOfDistinct {
    read: fn(&ArrayRef) -> Vec<i128>,
    /// The number of rows of each value.
    numbers: HashMap<i128, u64>,
    /// The sum of the values, each taken once.
    sum: i128,
}

impl MeanOfDistinct {
    fn add(&mut self, value: i128) {
        let number = self.numbers.entry(value).or_insert(0);
        *number += 1;
        if *number == 1 {
            self.sum += value;
        }
    }

    fn remove(&mut self, value: i128) {
        let Entry::Occupied(mut entry) = self.numbers.entry(value) else { return };
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
            self.sum -= value;
        }
    }
}

impl Accumulator for MeanOfDistinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (self.read)(&values[0]).into_iter().for_each(|value| self.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (self.read)(&values[0]).into_iter().for_each(|value| self.remove(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            integers_of::<Decimal128Type>(&values).into_iter().for_each(|value| self.add(value));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let value = |&value: &i128| ScalarValue::Decimal128(Some(value), 38, 0);
        let values = self.numbers.keys().map(value).collect::<Vec<_>>();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &SUM))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(mean_of(self.sum, self.numbers.len() as u64)))
    }

    fn size(&self) -> usize {
        size_of::<MeanOfDistinct>() + self.numbers.capacity() * size_of::<(i128, u64)>()
    }
}

/// The accumulator of the means of groups.
struct Means<T> {
    sums: Vec<i128>,
    counts: Vec<u64>,
    of: PhantomData<fn() -> T>,
}

/// Calls a function for the index of each row that has a value and passes the filter.
fn for_each_row(values: &ArrayRef, filter: Option<&BooleanArray>, add: impl FnMut(usize)) {
    let is_kept = |row: usize| filter.is_none_or(|it| it.is_valid(row) && it.value(row));
    (0..values.len()).filter(|&row| values.is_valid(row) && is_kept(row)).for_each(add);
}

fn state_of(sums: Vec<i128>, counts: Vec<u64>) -> Result<Vec<ArrayRef>> {
    let sums = Decimal128Array::from(sums).with_precision_and_scale(38, 0)?;
    Ok(vec![Arc::new(sums), Arc::new(UInt64Array::from(counts))])
}

impl<T> GroupsAccumulator for Means<T>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let Means { sums, counts, .. } = self;
        sums.resize(total_num_groups, 0);
        counts.resize(total_num_groups, 0);
        let numbers = values[0].as_primitive::<T>().values();
        let mut add = |group: usize, number: T::Native| {
            let number: i128 = number.into();
            sums[group] += number;
            counts[group] += 1;
        };
        if values[0].null_count() == 0 && opt_filter.is_none() {
            for (&group, &number) in group_indices.iter().zip(numbers) {
                add(group, number);
            }
        } else {
            for_each_row(&values[0], opt_filter, |row| add(group_indices[row], numbers[row]));
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.sums.resize(total_num_groups, 0);
        self.counts.resize(total_num_groups, 0);
        let sums = values[0].as_primitive::<Decimal128Type>().values();
        let counts = values[1].as_primitive::<UInt64Type>().values();
        for (&group, (sum, count)) in group_indices.iter().zip(sums.iter().zip(counts)) {
            self.sums[group] += sum;
            self.counts[group] += count;
        }
        Ok(())
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        state_of(emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.counts))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let numbers = values[0].as_primitive::<T>().values();
        let (mut sums, mut counts) = (vec![0_i128; numbers.len()], vec![0_u64; numbers.len()]);
        for_each_row(&values[0], opt_filter, |row| {
            sums[row] = numbers[row].into();
            counts[row] = 1;
        });
        state_of(sums, counts)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let counts = emit_to.take_needed(&mut self.counts);
        let means = sums.into_iter().zip(counts).map(|(sum, count)| mean_of(sum, count));
        Ok(Arc::new(means.collect::<Float64Array>()))
    }

    fn size(&self) -> usize {
        size_of::<Means<T>>()
            + self.sums.capacity() * size_of::<i128>()
            + self.counts.capacity() * size_of::<u64>()
    }
}
