//! Conversion of differences of times to intervals of days and time.
//!
//! - day_lengths-1. As an interval, the difference of two times has its whole days as days, and the
//!   rest of its length as time, both of one sign: `ts - ts` is `58 days 21:14:29.9`.
//!
//! Arrow's own cast makes nanoseconds of all of it, which are hours to functions.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit,
};
use datafusion::common::Result;

use super::interval_text::duration_nanos;

const MONTH_DAY_NANO: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const PER_DAY: i128 = 86_400_000_000_000;

/// Returns lengths of time, differences of times among them, as intervals (day_lengths-1), and
/// times of day as those since midnight.
pub(crate) fn as_intervals(lengths: &ArrayRef) -> Result<ArrayRef> {
    let unit = match lengths.data_type() {
        DataType::Duration(unit) => unit,
        DataType::Time32(_) | DataType::Time64(_) => return since_midnight(lengths),
        _ => return Ok(cast(lengths, &MONTH_DAY_NANO)?),
    };
    let counts = cast(lengths, &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>().iter();
    let intervals = counts.map(|count| interval(count?, *unit));
    Ok(Arc::new(intervals.collect::<IntervalMonthDayNanoArray>()))
}

fn since_midnight(times: &ArrayRef) -> Result<ArrayRef> {
    let nanos = cast(&cast(times, &DataType::Time64(TimeUnit::Nanosecond))?, &DataType::Int64)?;
    let length = |nanoseconds| IntervalMonthDayNano { months: 0, days: 0, nanoseconds };
    let lengths = nanos.as_primitive::<Int64Type>().iter().map(|nanos| nanos.map(length));
    Ok(Arc::new(lengths.collect::<IntervalMonthDayNanoArray>()))
}

/// An interval of so many of a unit; `None` if it has none.
fn interval(count: i64, unit: TimeUnit) -> Option<IntervalMonthDayNano> {
    let nanos = duration_nanos(count, unit);
    Some(IntervalMonthDayNano {
        months: 0,
        days: i32::try_from(nanos / PER_DAY).ok()?,
        nanoseconds: i64::try_from(nanos % PER_DAY).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_days_are_split_off() {
        for (hours, days, rest) in [(25, 1, 1), (-25, -1, -1), (23, 0, 23), (-48, -2, 0)] {
            let made = interval(hours * 3_600_000_000, TimeUnit::Microsecond).unwrap();
            let nanos = rest * 3_600_000_000_000;
            assert_eq!(
                (made.months, made.days, made.nanoseconds),
                (0, days, nanos),
                "day_lengths-1"
            );
        }
    }
}
