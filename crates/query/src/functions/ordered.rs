//! Aggregates of values in their order: `percentile_cont`, `percentile_disc` and `mode`, with
//! WITHIN GROUP; and `quantile_cont(x, fraction)`.
//!
//! - ordered-1. They have PostgreSQL's meaning: NULL is ignored, of no values they are NULL, and
//!   NaN is the greatest number. `mode` returns the first in order among equally frequent values.
//!   With DISTINCT, equal values are one.
//! - ordered-2. All values of a group are kept until it ends, and counted as its memory: they share
//!   no memory with the values of other groups.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use datafusion::arrow::compute::{
    SortOptions, cast, concat, filter, is_not_null, partition, sort_to_indices, take,
};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Signature, Volatility,
};

use crate::account::check_canceled;
use crate::error::ClauseProblem;
use crate::value_bytes::bytes_of;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// A value interpolated between two values if necessary.
    Continuous,
    /// One of the values.
    Discrete,
    Mode,
}

/// Returns the functions.
pub(crate) fn ordered_aggregates() -> Vec<AggregateUDF> {
    let function = |(name, kind, aliases): (_, _, &[&str])| {
        let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::new_from_impl(Ordered { name, kind, aliases, signature })
    };
    [
        ("percentile_cont", Kind::Continuous, &["quantile_cont"][..]),
        ("percentile_disc", Kind::Discrete, &[]),
        ("mode", Kind::Mode, &[]),
    ]
    .map(function)
    .into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ordered {
    name: &'static str,
    kind: Kind,
    aliases: Vec<String>,
    signature: Signature,
}

impl AggregateUDFImpl for Ordered {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        match (self.kind, args) {
            (Kind::Mode, [value]) => Ok(vec![value.clone()]),
            (Kind::Continuous, [value, _]) if value.is_numeric() || value.is_null() => {
                Ok(vec![DataType::Float64, DataType::Float64])
            }
            (Kind::Discrete, [value, _]) => Ok(vec![value.clone(), DataType::Float64]),
            (Kind::Mode, _) => plan_err!("mode is written mode() WITHIN GROUP (ORDER BY x)"),
            _ => plan_err!(
                "{0} is written {0}(fraction) WITHIN GROUP (ORDER BY x), with numbers",
                self.name
            ),
        }
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match args.first() {
            Some(value) => Ok(value.clone()),
            None => plan_err!("{} is written with WITHIN GROUP (ORDER BY x)", self.name),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let value = args.input_fields[0].data_type().clone();
        let list = DataType::List(Arc::new(Field::new_list_field(value, true)));
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), list, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let fraction = match self.kind {
            Kind::Mode => Some(0.0),
            _ => fraction(self.name, &args)?,
        };
        let descending = args.order_bys.first().is_some_and(|order| order.options.descending);
        let ty = args.expr_fields[0].data_type().clone();
        let is_distinct = args.is_distinct;
        let kind = self.kind;
        let buffer = ValueBuffer::default();
        Ok(Box::new(Values { kind, fraction, descending, is_distinct, ty, buffer }))
    }
}

/// Returns the fraction of a call: a constant from 0 to 1, or NULL.
fn fraction(name: &str, args: &AccumulatorArgs<'_>) -> Result<Option<f64>> {
    let Some(fraction) = args.exprs.get(1) else {
        return internal_err!("{name} has a fraction");
    };
    let batch = datafusion::arrow::array::RecordBatch::new_empty(Arc::new(
        datafusion::arrow::datatypes::Schema::empty(),
    ));
    let value = fraction.evaluate(&batch);
    let Ok(ColumnarValue::Scalar(value)) = value else {
        return plan_err!("the fraction of {name} is a constant");
    };
    let ScalarValue::Float64(fraction) = value.cast_to(&DataType::Float64)? else {
        return internal_err!("it was made a DOUBLE");
    };
    if fraction.is_some_and(|it| !(0.0..=1.0).contains(&it)) {
        let what = ClauseProblem::ArgumentValue {
            function: name.to_owned(),
            value: format!("the fraction {}", value),
            what: "a fraction is from 0 to 1",
        };
        return Err(what.into());
    }
    Ok(fraction)
}

/// The accumulator of a group.
#[derive(Debug)]
struct Values {
    kind: Kind,
    fraction: Option<f64>,
    descending: bool,
    is_distinct: bool,
    ty: DataType,
    buffer: ValueBuffer,
}

/// The values of a group.
#[derive(Debug, Default)]
pub(super) struct ValueBuffer {
    arrays: Vec<ArrayRef>,
    /// The memory of the arrays (ordered-2).
    bytes: usize,
}

impl ValueBuffer {
    pub(super) fn push(&mut self, values: ArrayRef) -> Result<()> {
        let shared = values.get_array_memory_size();
        let values = match (shared as u64).saturating_sub(SLACK_BYTES) <= 2 * bytes_of(&values) {
            true => values,
            false => copied(&values)?,
        };
        self.bytes = self.bytes.saturating_add(values.get_array_memory_size());
        self.arrays.push(values);
        Ok(())
    }

    /// Returns the values as one array of their type.
    pub(super) fn all(&self, ty: &DataType) -> Result<ArrayRef> {
        let arrays = self.arrays.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>();
        match arrays.as_slice() {
            [] => Ok(datafusion::arrow::array::new_empty_array(ty)),
            arrays => Ok(concat(arrays)?),
        }
    }

    /// Returns the memory of the values.
    pub(super) fn size(&self) -> usize {
        self.arrays.capacity() * size_of::<ArrayRef>() + self.bytes
    }
}

/// Bytes of an array beside its values.
const SLACK_BYTES: u64 = 512;

/// Copies values out of buffers that they share with others.
fn copied(values: &ArrayRef) -> Result<ArrayRef> {
    let own = take(values, &UInt64Array::from_iter_values(0..values.len() as u64), None)?;
    Ok(match own.data_type() {
        DataType::Utf8View => Arc::new(own.as_string_view().gc()),
        DataType::BinaryView => Arc::new(own.as_binary_view().gc()),
        _ => own,
    })
}

impl Values {
    fn push_not_null(&mut self, values: &ArrayRef) -> Result<()> {
        let values = if values.null_count() == 0 {
            Arc::clone(values)
        } else {
            filter(values, &is_not_null(values)?)?
        };
        if !values.is_empty() {
            self.buffer.push(values)?;
        }
        Ok(())
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.push_not_null(&values[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0]
            .as_list::<i32>()
            .iter()
            .flatten()
            .try_for_each(|values| self.push_not_null(&values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = SingleRowListArrayBuilder::new(self.buffer.all(&self.ty)?).build_list_scalar();
        Ok(vec![list])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let null = ScalarValue::try_from(&self.ty)?;
        let values = self.buffer.all(&self.ty)?;
        let (Some(fraction), false) = (self.fraction, values.is_empty()) else { return Ok(null) };
        check_canceled()?;
        let options = SortOptions { descending: self.descending, nulls_first: false };
        let values = positive_zeros(&values);
        let order = sort_to_indices(&values, Some(options), None)?;
        let mut sorted = take(&values, &order, None)?;
        if self.is_distinct {
            sorted = distinct(&sorted)?;
        }
        check_canceled()?;
        let last = sorted.len() - 1;
        let value = |at: usize| ScalarValue::try_from_array(&sorted, at.min(last));
        match self.kind {
            Kind::Mode => value(most_frequent(&sorted)?),
            #[expect(clippy::cast_possible_truncation, reason = "it is between 0 and the count")]
            Kind::Discrete => {
                // The first value such that at least this fraction of the values is not behind it.
                value(((fraction * sorted.len() as f64).ceil() as usize).max(1) - 1)
            }
            Kind::Continuous => {
                let doubles = cast(&sorted, &DataType::Float64)?;
                let between = between(doubles.as_primitive::<Float64Type>().values(), fraction);
                ScalarValue::Float64(Some(between)).cast_to(&self.ty)
            }
        }
    }

    fn size(&self) -> usize {
        size_of::<Values>() + self.buffer.size()
    }
}

/// Returns the first of each run of equal values.
fn distinct(sorted: &ArrayRef) -> Result<ArrayRef> {
    let runs = partition(std::slice::from_ref(sorted))?.ranges();
    let firsts = runs.into_iter().map(|run| run.start as u64).collect::<UInt64Array>();
    Ok(take(sorted, &firsts, None)?)
}

/// Replaces -0 by 0.
fn positive_zeros(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let doubles = values.as_primitive::<Float64Type>();
            let plain = |it: f64| if it.is_nan() { f64::NAN } else { it + 0.0 };
            Arc::new(doubles.unary::<_, Float64Type>(plain))
        }
        _ => Arc::clone(values),
    }
}

/// Returns the index of the first of the most frequent values.
fn most_frequent(sorted: &ArrayRef) -> Result<usize> {
    let ranges = partition(&[Arc::clone(sorted)])?.ranges();
    let ranges = ranges.into_iter().rev();
    // The last of the longest runs in reverse order is the first one.
    let longest = ranges.max_by_key(ExactSizeIterator::len);
    longest.map(|it| it.start).ok_or_else(|| exec_datafusion_err!("there are values"))
}

/// Returns the value at a fraction of the way from the first to the last, interpolated linearly.
fn between(sorted: &[f64], fraction: f64) -> f64 {
    let place = fraction * (sorted.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, reason = "it is between 0 and the count")]
    let low = place.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    let part = place - low as f64;
    match part == 0.0 || sorted[low] == sorted[high] {
        true => sorted[low],
        false => sorted[low] + part * (sorted[high] - sorted[low]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_lies_on_the_line_between_two_values() {
        assert_eq!(between(&[1.0, 2.0, 4.0, 9.0], 0.3), 1.9, "ordered-1");
        assert_eq!(between(&[1.0], 0.7), 1.0, "ordered-1");
        assert_eq!(between(&[1.0, f64::INFINITY], 0.0), 1.0, "ordered-1");
    }

    // The texts of a batch were counted once for each group that had one of them, so that no memory
    // was enough for 100 groups.
    #[test]
    fn values_of_groups_are_counted_once() {
        use datafusion::arrow::array::{Int64Array, StringViewArray};

        let texts = (0..8_192).map(|row| format!("a long text that is in a buffer: {row}"));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8_192));
        for values in [texts, numbers] {
            let mut bytes = 0;
            for group in 0..1_024 {
                let mut buffer = ValueBuffer::default();
                buffer.push(values.slice(group * 8, 8)).unwrap();
                assert_eq!(&buffer.arrays[0], &values.slice(group * 8, 8));
                bytes += buffer.bytes;
            }
            let all = values.get_array_memory_size() + 1_024 * 1_024;
            assert!(bytes <= 2 * all, "ordered-2: {bytes} of {all}");
            let mut buffer = ValueBuffer::default();
            buffer.push(Arc::clone(&values)).unwrap();
            assert!(Arc::ptr_eq(&buffer.arrays[0], &values), "nothing is copied in vain");
        }
    }

    #[test]
    fn the_first_of_the_most_frequent_is_the_mode() {
        let values: ArrayRef =
            Arc::new(datafusion::arrow::array::UInt32Array::from(vec![1, 2, 2, 5, 5, 7]));
        assert_eq!(most_frequent(&values).unwrap(), 1, "ordered-1");
    }
}
