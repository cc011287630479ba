//! `min` and `max` of FLOAT and DOUBLE: DataFusion's own lose infinities if there are no other
//! values, and the place of NaN in their order depends on the input order.
//!
//! - float_bounds-1. NaN equals NaN and is greater than all numbers, -0 equals 0, and NULL is
//!   ignored.
//!
//! They have the names of DataFusion's, so that `scan::aggregate_pushdown` recognizes them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, StatisticsArgs,
};
use tidegate_filter::aggregate::{float_of_key, key_of_float};

use crate::types::float_order::one_zero_and_nan;

/// Returns the function in place of DataFusion's `min` or `max`.
pub(crate) fn of_floats(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    let which = if inner.name() == "min" { Which::Least } else { Which::Greatest };
    Arc::new(AggregateUDF::new_from_impl(FloatBound { inner, which }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    Least,
    Greatest,
}

impl Which {
    /// Returns the key that stands for no value: it is the key of no float (`key`).
    fn nothing(self) -> i64 {
        match self {
            Which::Least => i64::MAX,
            Which::Greatest => i64::MIN,
        }
    }

    fn of(self, a: i64, b: i64) -> i64 {
        match self {
            Which::Least => a.min(b),
            Which::Greatest => a.max(b),
        }
    }

    fn value(self, key: i64) -> Option<f64> {
        (key != self.nothing()).then(|| float_of_key(key))
    }
}

/// Returns an integer in the order of float_bounds-1. The keys of NaN and the infinities are not
/// the least or greatest integer.
fn key(value: f64) -> i64 {
    key_of_float(if value.is_nan() { f64::NAN } else { value + 0.0 })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatBound {
    /// The function of DataFusion.
    inner: Arc<AggregateUDF>,
    which: Which,
}

impl AggregateUDFImpl for FloatBound {
    delegate! { inner:
        fn name(&self) -> &str;
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>>;
        fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>>;
        fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue>;
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let ty = args.return_field.data_type().clone();
        Ok(Box::new(Bound { which: self.which, ty, key: self.which.nothing() }))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let inner = self.inner.create_sliding_accumulator(args)?;
        Ok(Box::new(Sliding { inner }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let ty = args.return_field.data_type().clone();
        Ok(Box::new(Bounds { which: self.which, ty, keys: Vec::new() }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// Returns floats of either width as doubles.
fn doubles(values: &ArrayRef) -> Result<Float64Array> {
    Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// The state of an aggregate: the bound of all values.
#[derive(Debug)]
struct Bound {
    which: Which,
    ty: DataType,
    key: i64,
}

impl Accumulator for Bound {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = doubles(&values[0])?;
        let which = self.which;
        self.key = match values.null_count() {
            0 => values.values().iter().fold(self.key, |known, &value| which.of(known, key(value))),
            _ => values.iter().flatten().fold(self.key, |known, value| which.of(known, key(value))),
        };
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::Float64(self.which.value(self.key)).cast_to(&self.ty)
    }

    fn size(&self) -> usize {
        size_of::<Bound>()
    }
}

/// The bound of a sliding frame: DataFusion's, over floats with one NaN and one zero, which it
/// compares by their bits (float_bounds-1).
#[derive(Debug)]
struct Sliding {
    inner: Box<dyn Accumulator>,
}

impl Accumulator for Sliding {
    delegate! { inner:
        fn supports_retract_batch(&self) -> bool;
        fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()>;
        fn state(&mut self) -> Result<Vec<ScalarValue>>;
        fn evaluate(&mut self) -> Result<ScalarValue>;
        fn size(&self) -> usize;
    }

    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&[one_zero_and_nan(&values[0])])
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&[one_zero_and_nan(&values[0])])
    }
}

/// The states of groups.
#[derive(Debug)]
struct Bounds {
    which: Which,
    ty: DataType,
    /// One key for each group.
    keys: Vec<i64>,
}

impl GroupsAccumulator for Bounds {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.keys.resize(group_count, self.which.nothing());
        let values = doubles(&values[0])?;
        let (keys, which) = (&mut self.keys, self.which);
        let mut take = |group: usize, value: f64| keys[group] = which.of(keys[group], key(value));
        if values.null_count() == 0 && filter.is_none() {
            groups.iter().zip(values.values()).for_each(|(&group, &value)| take(group, value));
            return Ok(());
        }
        for (row, (&group, value)) in groups.iter().zip(&values).enumerate() {
            if let Some(value) = value.filter(|_| passes(filter, row)) {
                take(group, value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let keys = emit.take_needed(&mut self.keys);
        let values = keys.into_iter().map(|key| self.which.value(key)).collect::<Float64Array>();
        Ok(cast(&values, &self.ty)?)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> Result<()> {
        self.update_batch(states, groups, None, group_count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = doubles(&values[0])?;
        let rows = values.iter().enumerate();
        let kept = rows.map(|(row, value)| value.filter(|_| passes(filter, row)));
        Ok(vec![cast(&kept.collect::<Float64Array>(), &self.ty)?])
    }

    fn size(&self) -> usize {
        self.keys.capacity() * size_of::<i64>()
    }
}

/// Returns true if a row passes a FILTER.
fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER_NAN: f64 = f64::from_bits(0xFFF8_0000_0000_0001);

    /// Checks the least and the greatest of values: all at once, by groups, and merged from parts.
    #[track_caller]
    fn check(values: &[Option<f64>], expected: [Option<f64>; 2]) {
        for (which, expected) in [Which::Least, Which::Greatest].into_iter().zip(expected) {
            let array = Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
            let ty = DataType::Float64;
            let mut one = Bound { which, ty: ty.clone(), key: which.nothing() };
            one.update_batch(std::slice::from_ref(&array)).unwrap();
            let mut merged = Bound { which, ty: ty.clone(), key: which.nothing() };
            for value in values {
                let mut part = Bound { which, ty: ty.clone(), key: which.nothing() };
                part.update_batch(&[Arc::new(Float64Array::from(vec![*value])) as _]).unwrap();
                let state = part.state().unwrap().remove(0).to_array().unwrap();
                merged.merge_batch(&[state]).unwrap();
            }
            let mut groups = Bounds { which, ty, keys: Vec::new() };
            let group_of = vec![1; values.len()];
            groups.update_batch(std::slice::from_ref(&array), &group_of, None, 2).unwrap();
            let no_row = BooleanArray::from(vec![false; values.len()]);
            groups.update_batch(&[array], &vec![0; values.len()], Some(&no_row), 2).unwrap();
            let grouped = groups.evaluate(EmitTo::All).unwrap();
            let grouped = grouped.as_primitive::<Float64Type>();
            assert!(grouped.is_null(0), "float_bounds-1: a group without rows");
            let grouped = grouped.is_valid(1).then(|| grouped.value(1));
            let bits = |value: Option<f64>| value.map(f64::to_bits);
            for value in [one.evaluate().unwrap(), merged.evaluate().unwrap()] {
                let ScalarValue::Float64(value) = value else { panic!("a double") };
                assert_eq!(bits(value), bits(expected), "float_bounds-1: {which:?} of {values:?}");
            }
            assert_eq!(bits(grouped), bits(expected), "float_bounds-1: {which:?} of {values:?}");
        }
    }

    #[test]
    fn infinities_are_values_and_nan_is_the_greatest() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        check(&[], [None, None]);
        check(&[None], [None, None]);
        check(&[Some(inf)], [Some(inf), Some(inf)]);
        check(&[Some(-inf), None], [Some(-inf), Some(-inf)]);
        check(&[Some(nan)], [Some(nan), Some(nan)]);
        check(&[Some(OTHER_NAN), Some(inf)], [Some(inf), Some(nan)]);
        check(&[Some(nan), Some(1.0), Some(-inf)], [Some(-inf), Some(nan)]);
        check(&[Some(-0.0)], [Some(0.0), Some(0.0)]);
        check(&[Some(2.5), Some(-1.5), None], [Some(-1.5), Some(2.5)]);
        check(&[Some(f64::MAX), Some(f64::MIN)], [Some(f64::MIN), Some(f64::MAX)]);
    }
}
