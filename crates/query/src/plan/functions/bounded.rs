//! Functions whose values may be much larger than their arguments: `repeat`, `lpad`, `range`, ...
//!
//! - BD1. What they are about to make of a batch is estimated before it is made, and refused if it
//!   is more than `BATCH_BYTES`: the memory of a query is counted by operators, which see values
//!   when they are there.
//!
//! Not here: functions whose values are as large as their arguments together (`concat`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::error::{ClauseProblem, Error};

/// Bytes that a function may make of a batch. Batches have some thousand rows, and each worker of
/// a query one at a time.
const BATCH_BYTES: u64 = 512 << 20;
/// Bytes of a number in a list.
const NUMBER_BYTES: u64 = 8;

/// How large what a function makes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// Its first argument, so many times.
    Times,
    /// As many characters as its second argument says.
    Filled,
    /// The first argument with texts replaced.
    Replaced,
    /// The numbers from one to another.
    Steps,
}

const GROWING: [(&str, Growth); 9] = [
    ("repeat", Growth::Times),
    ("array_repeat", Growth::Times),
    ("list_repeat", Growth::Times),
    ("lpad", Growth::Filled),
    ("rpad", Growth::Filled),
    ("array_resize", Growth::Filled),
    ("replace", Growth::Replaced),
    ("range", Growth::Steps),
    ("generate_series", Growth::Steps),
];

/// The function, with a bound if it needs one (BD1).
pub(crate) fn bounded(function: &Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match GROWING.iter().find(|(name, _)| *name == function.name()) {
        Some((_, growth)) => {
            let inner = Arc::clone(function);
            Arc::new(ScalarUDF::new_from_impl(Bounded { inner, growth: *growth }))
        }
        None => Arc::clone(function),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        self.inner.return_type(args)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let each = args.args.iter().map(|arg| Argument { value: arg, rows }).collect::<Vec<_>>();
        if BATCH_BYTES < self.growth.bytes(&each)? {
            let function = self.name().to_owned();
            let what = ClauseProblem::ValuesTooLarge { function, mebibytes: BATCH_BYTES >> 20 };
            return Err(Error::Clause { position: None, what }.into());
        }
        self.inner.invoke_with_args(args)
    }
}

impl Growth {
    /// About how many bytes come of these arguments.
    fn bytes(self, args: &[Argument<'_>]) -> Result<u64> {
        let Some((first, rest)) = args.split_first() else { return Ok(0) };
        Ok(match (self, rest) {
            (Growth::Times, [counts, ..]) => sum(first.sizes()?.zip(counts.integers()?)),
            (Growth::Filled, [counts, ..]) => {
                let each = if first.value.data_type().is_nested() { NUMBER_BYTES } else { 1 };
                sum(counts.integers()?.into_iter().map(|count| (each, count)))
            }
            (Growth::Replaced, [from, to]) => replaced(first, from, to)?,
            (Growth::Steps, [end, step, ..]) => steps(first, end, Some(step))?,
            (Growth::Steps, [end]) => steps(first, end, None)?,
            // `range(end)`.
            (Growth::Steps, []) => {
                sum(first.integers()?.into_iter().map(|count| (NUMBER_BYTES, count)))
            }
            _ => 0,
        })
    }
}

/// Of sizes, so many times; what is NULL or negative makes nothing.
fn sum(values: impl Iterator<Item = (u64, Option<i64>)>) -> u64 {
    let bytes = values.map(|(size, count)| {
        let count = count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        size.saturating_mul(count)
    });
    bytes.fold(0, u64::saturating_add)
}

/// The values of an argument, of which a constant is not made as many as there are rows.
#[derive(Clone, Copy)]
struct Argument<'a> {
    value: &'a ColumnarValue,
    rows: usize,
}

impl Argument<'_> {
    /// Cast; a constant has one value.
    fn cast_to(self, ty: &DataType) -> Result<ArrayRef> {
        let values = match self.value {
            ColumnarValue::Array(values) => Arc::clone(values),
            ColumnarValue::Scalar(value) => value.to_array()?,
        };
        Ok(cast(&values, ty)?)
    }

    /// Where in its array the value of a row is.
    fn place(self, row: usize) -> usize {
        if matches!(self.value, ColumnarValue::Scalar(_)) { 0 } else { row }
    }

    fn integers(self) -> Result<Vec<Option<i64>>> {
        self.integers_of(&DataType::Int64)
    }

    /// The numbers that values of another type are.
    fn integers_of(self, ty: &DataType) -> Result<Vec<Option<i64>>> {
        let values = cast(&self.cast_to(ty)?, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>();
        let value = |at| values.is_valid(at).then(|| values.value(at));
        Ok((0..self.rows).map(|row| value(self.place(row))).collect())
    }

    /// The bytes of each: of texts their own, of others what they have on average.
    fn sizes(self) -> Result<impl Iterator<Item = u64>> {
        let ty = self.value.data_type();
        let (texts, mean) = if ty.is_string() {
            (Some(self.cast_to(&DataType::Utf8View)?), 0)
        } else {
            let values = self.cast_to(&ty)?;
            (None, values.get_array_memory_size() / values.len().max(1))
        };
        let size = move |row| match &texts {
            Some(texts) => texts.as_string_view().value(self.place(row)).len() as u64,
            None => mean as u64,
        };
        Ok((0..self.rows).map(size))
    }
}

/// What becomes of texts in which each of `from` is one of `to`.
fn replaced(texts: &Argument<'_>, from: &Argument<'_>, to: &Argument<'_>) -> Result<u64> {
    let [all, olds, news] = [texts, from, to].map(|it| it.cast_to(&DataType::Utf8View));
    let (all, olds, news) = (all?, olds?, news?);
    let grown = (0..texts.rows).map(|row| {
        let text = all.as_string_view().value(texts.place(row));
        let old = olds.as_string_view().value(from.place(row));
        let new = news.as_string_view().value(to.place(row)).len() as u64;
        // An empty text stands between all characters.
        let most = (text.len() / old.len().max(1) + 1) as u64;
        let is_small = most.saturating_mul(new) <= BATCH_BYTES / texts.rows as u64;
        let times =
            if is_small || old.is_empty() { most } else { text.matches(old).count() as u64 };
        times.saturating_mul(new).saturating_add(text.len() as u64)
    });
    Ok(grown.fold(0, u64::saturating_add))
}

/// The numbers, or times, from one to another.
fn steps(start: &Argument<'_>, end: &Argument<'_>, step: Option<&Argument<'_>>) -> Result<u64> {
    const NANOS_PER_DAY: i64 = 86_400_000_000_000;
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let is_of_times = start.value.data_type().is_temporal();
    let ty = if is_of_times { &nanos } else { &DataType::Int64 };
    let counts = |bound: &Argument<'_>| bound.integers_of(ty);
    let widths = match step {
        None => vec![Some(1); start.rows],
        Some(step) if matches!(step.value.data_type(), DataType::Interval(_)) => {
            let steps = step.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano))?;
            let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
            let nanos = |row| {
                let at = step.place(row);
                let by = steps.is_valid(at).then(|| steps.value(at))?;
                let days = i64::from(by.months) * 28 + i64::from(by.days);
                Some(days.saturating_mul(NANOS_PER_DAY).saturating_add(by.nanoseconds))
            };
            (0..step.rows).map(nanos).collect()
        }
        Some(step) => step.integers()?,
    };
    let count = |((start, end), width): ((Option<i64>, Option<i64>), Option<i64>)| {
        let (distance, width) = (i128::from(end?) - i128::from(start?), i128::from(width?));
        // The other way there is nothing.
        let count = distance.checked_div(width).filter(|_| (distance < 0) == (width < 0))?;
        Some(i64::try_from(count).unwrap_or(i64::MAX))
    };
    let counts = counts(start)?.into_iter().zip(counts(end)?).zip(widths).map(count);
    Ok(sum(counts.map(|count| (NUMBER_BYTES, count))))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewArray};
    use datafusion::common::ScalarValue;

    use super::*;

    #[track_caller]
    fn check(growth: Growth, args: &[ColumnarValue], expected: u64) {
        let each = args.iter().map(|value| Argument { value, rows: 2 }).collect::<Vec<_>>();
        assert_eq!(growth.bytes(&each).unwrap(), expected, "BD1");
    }

    #[test]
    fn what_functions_make_is_known_before() {
        let texts = ColumnarValue::Array(Arc::new(StringViewArray::from(vec!["ab", "axa"])));
        let numbers = |values: [Option<i64>; 2]| {
            ColumnarValue::Array(Arc::new(Int64Array::from(values.to_vec())))
        };
        let one = |value: i64| ColumnarValue::Scalar(ScalarValue::Int64(Some(value)));
        let text = |value: &str| ColumnarValue::Scalar(ScalarValue::from(value));
        check(Growth::Times, &[texts.clone(), numbers([Some(10), Some(-1)])], 20);
        check(Growth::Times, &[text("four"), numbers([Some(3), None])], 12);
        check(Growth::Filled, &[texts.clone(), one(i64::MAX)], u64::MAX - 1);
        let large = "x".repeat(300 << 20);
        check(Growth::Replaced, &[texts.clone(), text("a"), text(&large)], (900 << 20) + 5);
        check(Growth::Replaced, &[texts, text("a"), text("xx")], 5 + 2 * (3 + 4));
        check(Growth::Steps, &[numbers([Some(5), None]), one(105), one(10)], 80);
        check(Growth::Steps, &[numbers([Some(5), Some(9)]), one(1), one(-2)], 16 + 32);
        check(Growth::Steps, &[one(0), numbers([Some(i64::MAX), Some(0)])], u64::MAX);
    }
}
