//! `generate_series` and `range` of times as lists, for all times of a type.
//!
//! - Each time is a step later than the one before it, as in PostgreSQL: months keep the day if the
//!   month has it.
//! - A step moves all times into one direction; one month less 30 days is refused.
//!
//! Not here: series of integers and of days, which DataFusion makes, and those behind FROM
//! (`plan::series`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit as ArrowUnit,
};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::functions_nested::range::{gen_series_udf, range_udf};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use tidegate_model::TimeUnit;

use super::date_trunc::{counts, time_type};
use super::time::months_later;
use crate::account::check_canceled;
use crate::error::ClauseProblem;
use crate::types::call_values::call_values;

const PER_DAY: i128 = 86_400_000_000_000;
/// Times between two checks for cancellation.
const CHECK_EVERY: usize = 1 << 16;

/// Returns both functions.
pub(crate) fn series_functions() -> Vec<ScalarUDF> {
    let function = |(inner, includes_end): (Arc<ScalarUDF>, bool)| {
        ScalarUDF::new_from_impl(TimeSeries { inner, includes_end })
    };
    [(gen_series_udf(), true), (range_udf(), false)].map(function).into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeSeries {
    /// The function of DataFusion.
    inner: Arc<ScalarUDF>,
    includes_end: bool,
}

/// Returns the unit of a series between two times, which is the coarser one.
fn unit_of(first: &DataType, last: &DataType) -> TimeUnit {
    let is_fine = |ty: &DataType| matches!(ty, DataType::Timestamp(ArrowUnit::Nanosecond, _));
    if is_fine(first) && is_fine(last) { TimeUnit::Nanos } else { TimeUnit::Micros }
}

impl ScalarUDFImpl for TimeSeries {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
        fn signature(&self) -> &Signature;
        fn documentation(&self) -> Option<&Documentation>;
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let [first @ DataType::Timestamp(_, zone), last, step] = args else {
            return self.inner.inner().return_type(args);
        };
        if last.is_null() || step.is_null() {
            return self.inner.inner().return_type(args);
        }
        let unit = match unit_of(first, last) {
            TimeUnit::Nanos => ArrowUnit::Nanosecond,
            TimeUnit::Micros => ArrowUnit::Microsecond,
        };
        let ty = DataType::Timestamp(unit, zone.clone());
        Ok(DataType::List(Arc::new(Field::new_list_field(ty, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::List(field) = args.return_field.data_type() else {
            return self.inner.invoke_with_args(args);
        };
        if !matches!(field.data_type(), DataType::Timestamp(..)) {
            return self.inner.invoke_with_args(args);
        }
        call_values(&args.args, args.number_rows, |arrays, _| {
            let [first, last, step] = arrays else {
                return internal_err!("a series of times has three arguments");
            };
            let of = unit_of(first.data_type(), last.data_type());
            let times = |array: &ArrayRef| -> Result<Int64Array> {
                let ty = time_type(array.data_type()).unwrap_or_else(|| array.data_type().clone());
                counts(&cast(array, &ty)?, of)
            };
            let (first, last) = (times(first)?, times(last)?);
            let steps = cast(step, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
            let (mut values, mut lengths) = (Vec::new(), Vec::with_capacity(first.len()));
            let is_known =
                |row: usize| first.is_valid(row) && last.is_valid(row) && steps.is_valid(row);
            let known = (0..first.len()).map(is_known).collect::<Vec<_>>();
            for (row, is_known) in known.iter().enumerate() {
                let before = values.len();
                if *is_known {
                    let ends = [first.value(row), last.value(row)];
                    self.append(ends, steps.value(row), of, &mut values)?;
                }
                lengths.push(values.len() - before);
            }
            if i32::try_from(values.len()).is_err() {
                return plan_err!("lists of a batch have {} values", values.len());
            }
            let values = cast(&Int64Array::from(values), field.data_type())?;
            let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), NullBuffer::from(known));
            Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, Some(nulls))?))
        })
    }
}

impl TimeSeries {
    /// Appends the times from the first of the ends to the last.
    fn append(
        &self,
        ends: [i64; 2],
        step: IntervalMonthDayNano,
        of: TimeUnit,
        values: &mut Vec<i64>,
    ) -> Result<()> {
        let is_down = direction(step, of)?;
        let [mut time, last] = ends;
        let is_inside = |time: i64| match is_down {
            _ if time == last => self.includes_end,
            true => last < time,
            false => time < last,
        };
        while is_inside(time) {
            values.push(time);
            if values.len().is_multiple_of(CHECK_EVERY) {
                check_canceled()?;
            }
            match later(time, step, of) {
                Some(next) => time = next,
                None => break,
            }
        }
        Ok(())
    }
}

/// Returns true if a step moves times to earlier ones.
fn direction(step: IntervalMonthDayNano, of: TimeUnit) -> Result<bool> {
    let worth = i128::from(1_000_000_000 / of.per_second());
    let nanos = |days_of_month: i128| {
        let days = i128::from(step.months) * days_of_month + i128::from(step.days);
        days * PER_DAY + i128::from(step.nanoseconds) / worth * worth
    };
    let (least, most) = (nanos(28).min(nanos(31)), nanos(28).max(nanos(31)));
    if 0 < least || most < 0 {
        return Ok(most < 0);
    }
    let (function, value) = ("generate_series".to_owned(), "this step".to_owned());
    let what = "it must move each time, and all into one direction";
    Err(ClauseProblem::ArgumentValue { function, value, what }.into())
}

/// Returns a time a step later; `None` if the type has none.
fn later(time: i64, step: IntervalMonthDayNano, of: TimeUnit) -> Option<i64> {
    let moved = match step.months {
        0 => time,
        months => months_later(time, months.into(), of)?,
    };
    let worth = 1_000_000_000 / of.per_second();
    let days = i64::from(step.days).checked_mul(of.per_day())?;
    moved.checked_add(days)?.checked_add(step.nanoseconds / worth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::time_text::{TimeScale, parse_time};

    fn micros(text: &str) -> i64 {
        parse_time(text, TimeScale::Unit(TimeUnit::Micros)).unwrap()
    }

    fn step(months: i32, days: i32, hours: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano { months, days, nanoseconds: hours * 3_600_000_000_000 }
    }

    #[track_caller]
    fn check(ends: [&str; 2], step: IntervalMonthDayNano, includes_end: bool, expected: &[&str]) {
        let series = TimeSeries { inner: gen_series_udf(), includes_end };
        let mut values = Vec::new();
        let ends = ends.map(micros);
        series.append(ends, step, TimeUnit::Micros, &mut values).unwrap();
        assert_eq!(values, expected.iter().map(|it| micros(it)).collect::<Vec<_>>());
    }

    #[test]
    fn series_of_any_year_are_those_of_postgresql() {
        let far = ["1500-01-01", "1500-01-03"];
        check(far, step(0, 1, 0), true, &["1500-01-01", "1500-01-02", "1500-01-03"]);
        check(far, step(0, 1, 0), false, &["1500-01-01", "1500-01-02"]);
        check(["9999-12-31", "9999-12-30"], step(0, 1, 0), true, &[]);
        check(["9999-12-31", "9999-12-30"], step(0, -1, 0), true, &["9999-12-31", "9999-12-30"]);
        // The day of February is that of March too.
        let months = ["2025-01-31", "2025-02-28", "2025-03-28"];
        check(["2025-01-31", "2025-04-01"], step(1, 0, 0), true, &months);
    }

    #[test]
    fn a_step_moves_times_into_one_direction() {
        assert!(!direction(step(1, -27, 0), TimeUnit::Micros).unwrap());
        assert!(direction(step(0, 1, -25), TimeUnit::Micros).unwrap());
        for wrong in [step(0, 0, 0), step(1, -30, 0), step(0, 1, -24)] {
            assert!(direction(wrong, TimeUnit::Micros).is_err(), "{wrong:?}");
        }
        let tiny = IntervalMonthDayNano { months: 0, days: 0, nanoseconds: 999 };
        assert!(
            direction(tiny, TimeUnit::Micros).is_err()
                && !direction(tiny, TimeUnit::Nanos).unwrap()
        );
    }
}
