//! `overlaps(a, b, c, d)` of PostgreSQL, the function of `(a, b) OVERLAPS (c, d)`.
//!
//! - A period begins at the earlier of its two times and ends before the later one; in place of the
//!   second time there may be a length. A period of two equal times is that moment.
//! - One time of a period may be NULL: it is taken for the end. The result is NULL if it depends on
//!   such an end.
//! - A time of day and a length end at a time of the same day.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, Time64NanosecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::numeric::add;
use datafusion::arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, Time64NanosecondType, TimeUnit,
};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::types::call_values::call_values;

const NANOS_PER_DAY: i128 = 86_400_000_000_000;
const TIME_OF_DAY: DataType = DataType::Time64(TimeUnit::Nanosecond);
const LENGTH: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Returns the function `overlaps`.
pub(crate) fn overlaps() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(Overlaps { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Overlaps {
    signature: Signature,
}

impl ScalarUDFImpl for Overlaps {
    fn name(&self) -> &'static str {
        "overlaps"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let is_of_day = |ty: &DataType| matches!(ty, DataType::Time32(_) | DataType::Time64(_));
        let are_of_day = args.iter().any(is_of_day);
        let is_fine = |ty: &DataType| matches!(ty, DataType::Timestamp(TimeUnit::Nanosecond, _));
        let unit = match args.iter().any(is_fine) {
            true => TimeUnit::Nanosecond,
            false => TimeUnit::Microsecond,
        };
        let text = if are_of_day { TIME_OF_DAY } else { DataType::Timestamp(unit, None) };
        let coerced = |(at, ty): (usize, &DataType)| match ty {
            DataType::Interval(_) | DataType::Duration(_) if at % 2 == 1 => Some(LENGTH),
            ty if ty.is_null() || ty.is_string() => Some(text.clone()),
            ty if are_of_day => is_of_day(ty).then_some(TIME_OF_DAY),
            DataType::Date32 => Some(DataType::Date32),
            DataType::Timestamp(unit, _) => Some(DataType::Timestamp(*unit, None)),
            _ => None,
        };
        let types = args.iter().enumerate().map(coerced).collect::<Option<Vec<_>>>();
        match types.filter(|types| types.len() == 4) {
            Some(types) => Ok(types),
            None => {
                let args = args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                plan_err!("Function 'overlaps' failed to match any signature with ({args})")
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        call_values(&args.args, args.number_rows, |arrays, rows| {
            let [a, b, c, d] = arrays else {
                return plan_err!("overlaps takes two periods");
            };
            let (a, b) = (nanos(a)?, nanos(&ends(a, b)?)?);
            let (c, d) = (nanos(c)?, nanos(&ends(c, d)?)?);
            let overlaps = |row: usize| overlap([a[row], b[row]], [c[row], d[row]]);
            Ok(Arc::new((0..rows).map(overlaps).collect::<BooleanArray>()))
        })
    }
}

/// Returns the second times of periods, which may be given as lengths.
fn ends(starts: &ArrayRef, ends: &ArrayRef) -> Result<ArrayRef> {
    if *ends.data_type() != LENGTH {
        return Ok(Arc::clone(ends));
    }
    Ok(match starts.data_type() {
        DataType::Time64(_) => {
            let starts = starts.as_primitive::<Time64NanosecondType>();
            let lengths = ends.as_primitive::<IntervalMonthDayNanoType>();
            let moved = starts.iter().zip(lengths.iter()).map(|(start, length)| {
                let moved = i128::from(start?) + i128::from(length?.nanoseconds);
                i64::try_from(moved.rem_euclid(NANOS_PER_DAY)).ok()
            });
            Arc::new(moved.collect::<Time64NanosecondArray>())
        }
        DataType::Date32 => {
            let starts = cast(starts, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            add(&starts, ends)?
        }
        _ => add(starts, ends)?,
    })
}

/// Returns times as numbers of nanoseconds.
fn nanos(times: &ArrayRef) -> Result<Vec<Option<i128>>> {
    let scale = match times.data_type() {
        DataType::Date32 => NANOS_PER_DAY,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        _ => 1,
    };
    let counts = match times.data_type() {
        DataType::Date32 => cast(&cast(times, &DataType::Int32)?, &DataType::Int64)?,
        _ => cast(times, &DataType::Int64)?,
    };
    let counts = counts.as_primitive::<Int64Type>();
    Ok(counts.iter().map(|count| count.map(|it| i128::from(it) * scale)).collect())
}

/// Returns true if two periods have a moment in common.
fn overlap(left: [Option<i128>; 2], right: [Option<i128>; 2]) -> Option<bool> {
    let (left, right) = (Period::of(left)?, Period::of(right)?);
    match left.start.cmp(&right.start) {
        Ordering::Less => right.begins_within(&left),
        Ordering::Greater => left.begins_within(&right),
        Ordering::Equal => (left.end.is_some() && right.end.is_some()).then_some(true),
    }
}

/// A period whose end may be unknown.
struct Period {
    start: i128,
    end: Option<i128>,
}

impl Period {
    /// Returns the period between two times; `None` if both are unknown.
    fn of(times: [Option<i128>; 2]) -> Option<Period> {
        match times {
            [Some(a), Some(b)] => Some(Period { start: a.min(b), end: Some(a.max(b)) }),
            [Some(start), None] | [None, Some(start)] => Some(Period { start, end: None }),
            [None, None] => None,
        }
    }

    /// Returns true if a period begins before the end of one that begins before it.
    fn begins_within(&self, earlier: &Period) -> Option<bool> {
        match self.start < earlier.end? {
            true => Some(true),
            // In PostgreSQL the other end must be known, although the result does not depend on it.
            false => self.end.map(|_| false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(left: [Option<i128>; 2], right: [Option<i128>; 2], expected: Option<bool>) {
        let swapped = |[a, b]: [Option<i128>; 2]| [b, a];
        for (left, right) in [(left, right), (swapped(left), right), (left, swapped(right))] {
            assert_eq!(overlap(left, right), expected, "{left:?} {right:?}");
            assert_eq!(overlap(right, left), expected, "{right:?} {left:?}");
        }
    }

    // The results are those of PostgreSQL 15 for dates.
    #[test]
    fn periods_are_half_open_and_an_unknown_end_is_null() {
        let of = |a: i128, b: i128| [Some(a), Some(b)];
        let open = |a: i128| [Some(a), None];
        check(of(1, 3), of(2, 4), Some(true));
        check(of(1, 3), of(3, 4), Some(false));
        check(of(1, 3), of(1, 1), Some(true));
        check(of(1, 3), of(3, 3), Some(false));
        check(of(2, 2), of(1, 3), Some(true));
        check(of(2, 2), of(2, 2), Some(true));
        check(of(2, 2), of(3, 3), Some(false));
        check(of(1, 3), open(2), Some(true));
        check(of(1, 3), open(3), None);
        check(of(3, 4), open(1), None);
        check(of(3, 4), open(3), None);
        check(open(1), open(2), None);
        check(of(1, 2), [None, None], None);
    }
}
