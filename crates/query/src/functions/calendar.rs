//! Parts of the calendar that times have, as far from 1970 as their types reach.
//!
//! - Arrow's calendar ends in the year 262142, and 64 bits of microseconds end in 294247; a DATE
//!   reaches further. The Gregorian calendar repeats itself, with the days of the week, every 400
//!   years: parts are taken of a time that is whole cycles nearer, and years are moved back.
//!
//! Not here: the functions (`time`, `parts`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit as ArrowUnit};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use tidegate_model::TimeUnit;
use tidegate_model::time::{CivilDate, days_in_month};

use crate::error::ClauseProblem;

/// The length of a cycle of the calendar.
const CYCLE_DAYS: i64 = 146_097;
const CYCLE_YEARS: i64 = 400;
/// The days around 1970 that Arrow's calendar has, in 64 bits of microseconds too.
const NEAR_DAYS: i64 = 95_000_000;

/// A part of a time, as an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millis,
    Micros,
    Nanos,
    DayOfWeek,
    DayOfWeekSundayFirst,
    WeekOfYear,
    DaysInMonth,
}

/// Times of which some are far from 1970.
pub(super) struct FarTimes {
    /// The times, those that are far after or before whole cycles.
    near: ArrayRef,
    cycles: Int64Array,
}

impl FarTimes {
    /// Returns `None` if the times, which are an argument of a function, are all near.
    pub(super) fn of(times: &ColumnarValue, rows: usize) -> Result<Option<FarTimes>> {
        let ty = times.data_type();
        let per_day = match ty {
            DataType::Date32 => 1,
            DataType::Timestamp(ArrowUnit::Second, None) => 86_400,
            DataType::Timestamp(ArrowUnit::Millisecond, None) => 86_400_000,
            DataType::Timestamp(ArrowUnit::Microsecond, None) => 86_400_000_000,
            _ => return Ok(None),
        };
        let times = cast(&times.to_array(rows)?, &DataType::Int64)?;
        let times = times.as_primitive::<Int64Type>();
        let is_near = |time: i64| (-NEAR_DAYS * per_day..=NEAR_DAYS * per_day).contains(&time);
        if times.values().iter().all(|time| is_near(*time)) {
            return Ok(None);
        }
        let cycle = per_day * CYCLE_DAYS;
        let near = |time: i64| if is_near(time) { time } else { time.rem_euclid(cycle) };
        let near: ArrayRef = Arc::new(times.unary::<_, Int64Type>(near));
        // Arrow casts 32 bits to dates.
        let near = match ty {
            DataType::Date32 => cast(&near, &DataType::Int32)?,
            _ => near,
        };
        let near = cast(&near, &ty)?;
        let cycles = |time: i64| if is_near(time) { 0 } else { time.div_euclid(cycle) };
        Ok(Some(FarTimes { near, cycles: times.unary(cycles) }))
    }

    /// Returns near times as the argument of a function.
    pub(super) fn near(&self) -> Vec<ColumnarValue> {
        vec![ColumnarValue::Array(Arc::clone(&self.near))]
    }

    /// Returns the years of the times from those of the near ones.
    pub(super) fn years(&self, near: &ColumnarValue) -> Result<ColumnarValue> {
        let years = cast(&near.to_array(self.cycles.len())?, &DataType::Int64)?;
        let years = years.as_primitive::<Int64Type>().iter().zip(&self.cycles);
        let years = years.map(|(year, cycles)| Some(year? + CYCLE_YEARS * cycles?));
        let years: ArrayRef = Arc::new(years.collect::<Int64Array>());
        Ok(ColumnarValue::Array(cast(&years, &near.data_type())?))
    }
}

/// Casts times to another type: one that the type does not reach is an error, and not NULL.
pub(super) fn in_range(times: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let made = cast(times, to)?;
    let is_time = matches!(times.data_type(), DataType::Date32 | DataType::Timestamp(..));
    match is_time && made.null_count() != times.null_count() {
        true => Err(ClauseProblem::TimeRange.into()),
        false => Ok(made),
    }
}

/// Returns a part of a time.
pub(super) fn part_of(part: Part, time: i64, unit: TimeUnit) -> i32 {
    let days = time.div_euclid(unit.per_day());
    let of_day = time.rem_euclid(unit.per_day());
    let second = of_day / unit.per_second();
    let nanos = of_day % unit.per_second() * (1_000_000_000 / unit.per_second());
    let date = CivilDate::from_days(days);
    let monday_first = (days + 3).rem_euclid(7);
    let value = match part {
        Part::Year => date.year,
        Part::Month => i64::from(date.month),
        Part::Day => i64::from(date.day),
        Part::Hour => second / 3_600,
        Part::Minute => second / 60 % 60,
        Part::Second => second % 60,
        Part::Millis => nanos / 1_000_000,
        Part::Micros => nanos / 1_000 % 1_000,
        Part::Nanos => nanos % 1_000,
        Part::DayOfWeek => monday_first + 1,
        Part::DayOfWeekSundayFirst => (monday_first + 1) % 7 + 1,
        Part::WeekOfYear => {
            // The week belongs to the year of its Thursday.
            let thursday = days - monday_first + 3;
            let year = CivilDate::from_days(thursday).year;
            (thursday - CivilDate { year, month: 1, day: 1 }.to_days()) / 7 + 1
        }
        Part::DaysInMonth => i64::from(days_in_month(date.year, date.month)),
    };
    i32::try_from(value).expect("years of 64 bits of microseconds have six digits")
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Date32Array, Int32Array};
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn far_dates_have_the_parts_of_a_date_some_cycles_nearer() {
        let days = [i32::MIN, -106_751_992, -1, 0, 106_751_991, i32::MAX];
        let dates = ColumnarValue::Array(Arc::new(Date32Array::from(days.to_vec())));
        let far = FarTimes::of(&dates, days.len()).unwrap().expect("some are far");
        let near = far.near().remove(0);
        let near = cast(&near.to_array(days.len()).unwrap(), &DataType::Int64).unwrap();
        let near = near.as_primitive::<Int64Type>().values().to_vec();
        let of = |part, days: i64| part_of(part, days * 86_400_000_000, TimeUnit::Micros);
        let years = near.iter().map(|days| of(Part::Year, *days)).collect::<Int32Array>();
        let years = far.years(&ColumnarValue::Array(Arc::new(years))).unwrap();
        let years = years.to_array(days.len()).unwrap();
        for (at, days) in days.into_iter().enumerate() {
            let date = CivilDate::from_days(days.into());
            let year = years.as_primitive::<Int32Type>().value(at);
            let parts = [of(Part::Month, near[at]), of(Part::Day, near[at])];
            assert_eq!(i64::from(year), date.year, "{days}");
            assert_eq!(parts.map(i32::unsigned_abs), [date.month, date.day], "{days}");
            let weekday = (i64::from(days) + 3).rem_euclid(7) + 1;
            assert_eq!(i64::from(of(Part::DayOfWeek, near[at])), weekday, "{days}");
        }
        let near = ColumnarValue::Array(Arc::new(Date32Array::from(vec![0, 20_000])));
        assert!(FarTimes::of(&near, 2).unwrap().is_none());
    }
}
