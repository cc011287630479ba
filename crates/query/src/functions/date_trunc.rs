//! `date_trunc` of PostgreSQL: the start of the unit that a time lies in, for all times of a type,
//! and intervals without their smaller units.
//!
//! - date_trunc-1. With a zone, the time is an instant, and so is the result. A unit below a day
//!   keeps the offset that the zone has at the instant, so that an hour that the clocks repeat is
//!   two hours; a longer unit begins at the instant that PostgreSQL takes for the local midnight
//!   (`types::zone`).
//! - The result is of microseconds or nanoseconds, as the time is. A unit of years that does not
//!   fit in the years of nanoseconds is of microseconds.
//!
//! Not here: a TIME, which DataFusion truncates.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, new_empty_array,
    new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit as ArrowUnit,
};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err, plan_err};
use datafusion::functions::datetime::date_trunc as time_of_day_trunc;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use tidegate_model::time::CivilDate;
use tidegate_model::{ColumnType, TimeUnit};
use tidegate_storage::segment::arrow_type;

use super::time::instant_type;
use crate::error::{ClauseProblem, Error};
use crate::types::day_lengths::as_intervals;
use crate::types::time_text::{TimeScale, parse_time};
use crate::types::zone::Zone;

const USAGE: &str = "date_trunc takes a unit, a time or an interval, and perhaps a time zone";
const DAY_NANOS: i128 = 86_400_000_000_000;

/// Returns the function `date_trunc`.
pub(crate) fn date_trunc() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(DateTrunc { signature, aliases: [String::from("datetrunc")] })
}

/// A unit of `date_trunc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TruncUnit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
}

impl TruncUnit {
    /// Parses a name of PostgreSQL, in any case.
    pub(crate) fn parse(name: &str) -> Option<TruncUnit> {
        Some(match name.to_ascii_lowercase().as_str() {
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" => TruncUnit::Microsecond,
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => TruncUnit::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => TruncUnit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => TruncUnit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => TruncUnit::Hour,
            "d" | "day" | "days" => TruncUnit::Day,
            "w" | "week" | "weeks" => TruncUnit::Week,
            "mon" | "mons" | "month" | "months" => TruncUnit::Month,
            "qtr" | "quarter" => TruncUnit::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => TruncUnit::Year,
            "dec" | "decs" | "decade" | "decades" => TruncUnit::Decade,
            "c" | "cent" | "century" | "centuries" => TruncUnit::Century,
            "mil" | "mils" | "millennium" | "millennia" => TruncUnit::Millennium,
            _ => return None,
        })
    }

    /// Returns the nanoseconds of a unit below a day.
    pub(crate) fn nanos(self) -> Option<i64> {
        Some(match self {
            TruncUnit::Microsecond => 1_000,
            TruncUnit::Millisecond => 1_000_000,
            TruncUnit::Second => 1_000_000_000,
            TruncUnit::Minute => 60_000_000_000,
            TruncUnit::Hour => 3_600_000_000_000,
            _ => return None,
        })
    }

    /// Returns the nanoseconds of the shortest of these units.
    pub(crate) fn least_nanos(self) -> i128 {
        let days = match self {
            TruncUnit::Week => 7,
            TruncUnit::Month => 28,
            TruncUnit::Quarter => 90,
            TruncUnit::Year => 365,
            TruncUnit::Decade => 3_652,
            TruncUnit::Century => 36_524,
            TruncUnit::Millennium => 365_242,
            _ => 1,
        };
        self.nanos().map_or(days * DAY_NANOS, i128::from)
    }

    fn is_of_years(self) -> bool {
        matches!(self, TruncUnit::Decade | TruncUnit::Century | TruncUnit::Millennium)
    }

    /// Returns the first day of the unit that a day lies in, and that of the next one.
    fn days(self, day: i64) -> (i64, i64) {
        let CivilDate { year, month, .. } = CivilDate::from_days(day);
        let first = |year, month| CivilDate { year, month, day: 1 }.to_days();
        let months = |count: u32| {
            let start = (month - 1) / count * count + 1;
            let next = start + count;
            let next = if next <= 12 { first(year, next) } else { first(year + 1, 1) };
            (first(year, start), next)
        };
        let years = |start: i64, count: i64| (first(start, 1), first(start + count, 1));
        match self {
            TruncUnit::Week => {
                // 1970 began on a Thursday.
                let monday = day - (day + 3).rem_euclid(7);
                (monday, monday + 7)
            }
            TruncUnit::Month => months(1),
            TruncUnit::Quarter => months(3),
            TruncUnit::Year => months(12),
            TruncUnit::Decade => years(year.div_euclid(10) * 10, 10),
            // Centuries begin with the year 1.
            TruncUnit::Century => years((year - 1).div_euclid(100) * 100 + 1, 100),
            TruncUnit::Millennium => years((year - 1).div_euclid(1_000) * 1_000 + 1, 1_000),
            _ => (day, day + 1),
        }
    }

    /// Returns the start of the unit that a local time lies in, and its end, or a time before that;
    /// `None` if the type has no time for the start.
    fn period(self, time: i64, of: TimeUnit) -> Option<(i64, i64)> {
        if let Some(nanos) = self.nanos() {
            let width = nanos / (1_000_000_000 / of.per_second());
            let start = time.checked_sub(time.rem_euclid(width))?;
            return Some((start, start.saturating_add(width)));
        }
        let (first, next) = self.days(time.div_euclid(of.per_day()));
        Some((first.checked_mul(of.per_day())?, next.saturating_mul(of.per_day())))
    }

    /// Returns the start of the unit that an instant lies in, in a zone (date_trunc-1).
    fn start_in(self, zone: Zone, instant: i64, of: TimeUnit) -> Option<i64> {
        let offset = zone.offset_at(instant.div_euclid(of.per_second())) * of.per_second();
        let (start, _) = self.period(instant.checked_add(offset)?, of)?;
        match self.nanos() {
            Some(_) => start.checked_sub(offset),
            None => zone.to_instant(start.div_euclid(of.per_second())).checked_mul(of.per_second()),
        }
    }

    /// Returns an interval without its smaller units; `None` for weeks, which months have not.
    fn of_interval(self, length: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
        let whole_months = |count: i32| IntervalMonthDayNano {
            months: length.months / count * count,
            days: 0,
            nanoseconds: 0,
        };
        Some(match self {
            TruncUnit::Week => return None,
            TruncUnit::Day => IntervalMonthDayNano { nanoseconds: 0, ..length },
            TruncUnit::Month => whole_months(1),
            TruncUnit::Quarter => whole_months(3),
            TruncUnit::Year => whole_months(12),
            TruncUnit::Decade => whole_months(120),
            TruncUnit::Century => whole_months(1_200),
            TruncUnit::Millennium => whole_months(12_000),
            _ => {
                let width = self.nanos().unwrap_or(1);
                IntervalMonthDayNano { nanoseconds: length.nanoseconds / width * width, ..length }
            }
        })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    signature: Signature,
    aliases: [String; 1],
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &'static str {
        "date_trunc"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let ([unit, time] | [unit, time, _]) = args else { return no_match(args) };
        let is_text = |ty: &DataType| ty.is_string() || ty.is_null();
        let is_zoned = args.len() == 3;
        if !is_text(unit) || !args.get(2).is_none_or(is_text) {
            return no_match(args);
        }
        let is_other = matches!(
            time,
            DataType::Interval(_)
                | DataType::Duration(_)
                | DataType::Time32(_)
                | DataType::Time64(_)
        );
        let time = match time_type(time) {
            Some(time) => time,
            None if is_other && !is_zoned => time.clone(),
            None => return no_match(args),
        };
        // A literal stays one, without a cast: the type follows from it.
        let text = |ty: &DataType| if ty.is_null() { DataType::Utf8View } else { ty.clone() };
        let mut types = vec![text(unit), time];
        types.extend(args.get(2).map(text));
        Ok(types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of date_trunc follows from its arguments")
    }

    /// Also reports a zone that does not exist when a query is planned.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let text = |at: usize| {
            let value = args.scalar_arguments.get(at).copied().flatten();
            value.and_then(|value| value.try_as_str().flatten())
        };
        text(2).map(zone_of).transpose()?;
        let is_of_years = text(0).and_then(TruncUnit::parse).is_some_and(TruncUnit::is_of_years);
        let unit = match args.arg_fields[1].data_type() {
            DataType::Timestamp(ArrowUnit::Nanosecond, _) if !is_of_years => TimeUnit::Nanos,
            _ => TimeUnit::Micros,
        };
        let ty = match args.arg_fields[1].data_type() {
            DataType::Interval(_) | DataType::Duration(_) => {
                DataType::Interval(IntervalUnit::MonthDayNano)
            }
            ty @ (DataType::Time32(_) | DataType::Time64(_)) => ty.clone(),
            _ if args.arg_fields.len() == 3 => instant_type(unit),
            DataType::Timestamp(_, Some(zone)) => match arrow_type(ColumnType::Timestamp(unit)) {
                DataType::Timestamp(unit, _) => DataType::Timestamp(unit, Some(Arc::clone(zone))),
                other => other,
            },
            _ => arrow_type(ColumnType::Timestamp(unit)),
        };
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), ty, is_nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    /// Returns the order of the times, unless they are texts. The clocks of a zone may go back over
    /// the start of a unit.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match inputs {
            [unit, time]
                if unit.sort_properties == SortProperties::Singleton
                    && !time.range.data_type().is_string() =>
            {
                time.sort_properties
            }
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if matches!(args.args[1].data_type(), DataType::Time32(_) | DataType::Time64(_)) {
            return time_of_day_trunc().invoke_with_args(args);
        }
        let ty = args.return_field.data_type();
        let (time, constants) = match args.args.as_slice() {
            [unit, time] => (time, vec![unit]),
            [unit, time, zone] => (time, vec![unit, zone]),
            _ => return internal_err!("{USAGE}"),
        };
        let scalar = |value: &&ColumnarValue| match value {
            ColumnarValue::Scalar(value) => Some(value.clone()),
            ColumnarValue::Array(_) => None,
        };
        let known = constants.iter().map(scalar).collect::<Option<Vec<_>>>();
        match (known, time) {
            (Some(known), ColumnarValue::Scalar(_)) => {
                let start = truncated(&known, &time.to_array(1)?, ty)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&start, 0)?))
            }
            (Some(known), ColumnarValue::Array(times)) => {
                truncated(&known, times, ty).map(ColumnarValue::Array)
            }
            (None, _) => {
                let rows = args.number_rows;
                let constants = constants.iter().map(|it| it.to_array(rows));
                let constants = constants.collect::<Result<Vec<_>>>()?;
                let starts = row_by_row(&constants, &time.to_array(rows)?, ty)?;
                Ok(ColumnarValue::Array(starts))
            }
        }
    }
}

fn no_match<T>(args: &[DataType]) -> Result<T> {
    let types = args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    plan_err!("{USAGE}, not the argument types 'date_trunc({types})'")
}

/// Truncates times whose unit or zone differs from row to row.
fn row_by_row(constants: &[ArrayRef], times: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    if times.is_empty() {
        return Ok(new_empty_array(ty));
    }
    let start = |row: usize| -> Result<ScalarValue> {
        let of_row = constants.iter().map(|values| ScalarValue::try_from_array(values, row));
        let of_row = of_row.collect::<Result<Vec<_>>>()?;
        ScalarValue::try_from_array(&truncated(&of_row, &times.slice(row, 1), ty)?, 0)
    };
    ScalarValue::iter_to_array((0..times.len()).map(start).collect::<Result<Vec<_>>>()?)
}

/// Truncates times to a unit, the first constant, in a zone, the second one if there are two.
fn truncated(constants: &[ScalarValue], times: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    let texts = constants.iter().map(|value| value.try_as_str().flatten());
    let Some(texts) = texts.collect::<Option<Vec<_>>>() else {
        return Ok(new_null_array(ty, times.len()));
    };
    if times.null_count() == times.len() {
        return Ok(new_null_array(ty, times.len()));
    }
    let name = texts[0];
    let Some(unit) = TruncUnit::parse(name) else {
        let what = "units are words such as second, hour, day, week, month and year";
        return Err(refused(name, what).into());
    };
    if matches!(ty, DataType::Interval(_)) {
        return truncated_intervals(name, unit, times);
    }
    let zone = match (texts.get(1), times.data_type()) {
        (Some(zone), _) => Some(zone_of(zone)?),
        (None, DataType::Timestamp(_, Some(zone))) => Some(zone_of(zone)?),
        _ => None,
    };
    let of = match ty {
        DataType::Timestamp(ArrowUnit::Nanosecond, _) => TimeUnit::Nanos,
        _ => TimeUnit::Micros,
    };
    let times = counts(times, of)?;
    let out_of_range = || DataFusionError::from(ClauseProblem::TimeRange);
    let starts = match zone.filter(|zone| *zone != Zone::Fixed(0)) {
        Some(zone) => times.try_unary::<_, Int64Type, DataFusionError>(|time| {
            unit.start_in(zone, time, of).ok_or_else(out_of_range)
        })?,
        None => {
            // Times that follow each other mostly lie in the same unit.
            let latest = Cell::new((0, 0));
            times.try_unary::<_, Int64Type, DataFusionError>(|time| {
                let (start, end) = latest.get();
                if start <= time && time < end {
                    return Ok(start);
                }
                latest.set(unit.period(time, of).ok_or_else(out_of_range)?);
                Ok(latest.get().0)
            })?
        }
    };
    Ok(cast(&starts, ty)?)
}

fn truncated_intervals(name: &str, unit: TruncUnit, lengths: &ArrayRef) -> Result<ArrayRef> {
    let lengths = as_intervals(lengths)?;
    let lengths = lengths.as_primitive::<IntervalMonthDayNanoType>();
    let cut = |length: Option<IntervalMonthDayNano>| match length {
        None => Ok(None),
        Some(length) => match unit.of_interval(length) {
            Some(cut) => Ok(Some(cut)),
            None => Err(refused(name, "an interval has months, days and time")),
        },
    };
    let cut = lengths.iter().map(cut).collect::<std::result::Result<Vec<_>, ClauseProblem>>()?;
    Ok(Arc::new(cut.into_iter().collect::<IntervalMonthDayNanoArray>()))
}

/// Returns the type that an argument has in a function of times: a text is parsed by the function
/// itself. `None` if the type is none of times.
pub(super) fn time_type(ty: &DataType) -> Option<DataType> {
    Some(match ty {
        DataType::Timestamp(ArrowUnit::Nanosecond, _) => ty.clone(),
        DataType::Timestamp(_, zone) => DataType::Timestamp(ArrowUnit::Microsecond, zone.clone()),
        DataType::Date32 | DataType::Date64 | DataType::Null => {
            DataType::Timestamp(ArrowUnit::Microsecond, None)
        }
        text if text.is_string() => text.clone(),
        _ => return None,
    })
}

/// Returns times, or their texts, as counts of a unit.
pub(super) fn counts(times: &ArrayRef, of: TimeUnit) -> Result<Int64Array> {
    if times.data_type().is_string() {
        let texts = cast(times, &DataType::Utf8View)?;
        let ty = ColumnType::Timestamp(of);
        let parse = |text: &str| {
            let bad = |reason| Error::BadText { position: None, text: text.to_owned(), ty, reason };
            parse_time(text, TimeScale::Unit(of)).map_err(bad)
        };
        let counts = texts.as_string_view().iter().map(|text| text.map(parse).transpose());
        return Ok(counts.collect::<std::result::Result<Int64Array, Error>>()?);
    }
    let counts = cast(times, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
    Ok(match (times.data_type(), of) {
        (DataType::Timestamp(ArrowUnit::Nanosecond, _), TimeUnit::Micros) => {
            counts.unary(|nanos| nanos.div_euclid(1_000))
        }
        _ => counts,
    })
}

fn zone_of(name: &str) -> std::result::Result<Zone, ClauseProblem> {
    Zone::parse(name).ok_or_else(|| ClauseProblem::NoTimeZone { zone: name.to_owned() })
}

fn refused(unit: &str, what: &'static str) -> ClauseProblem {
    let (function, value) = ("date_trunc".to_owned(), format!("the unit '{unit}'"));
    ClauseProblem::ArgumentValue { function, value, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> i64 {
        parse_time(text, TimeScale::Unit(TimeUnit::Micros)).unwrap()
    }

    /// The answers are those of PostgreSQL 15.
    #[test]
    fn units_begin_as_in_postgresql() {
        for (unit, time, expected) in [
            ("week", "0001-01-03T05:00", "0001-01-01"),
            ("month", "1500-02-28T23:59", "1500-02-01"),
            ("quarter", "1969-12-31T23:59", "1969-10-01"),
            ("YEAR", "9999-12-31T23:59", "9999-01-01"),
            ("decade", "9999-12-31", "9990-01-01"),
            ("century", "2000-12-31", "1901-01-01"),
            ("millennium", "2001-01-01", "2001-01-01"),
            ("hours", "1969-12-31T23:59", "1969-12-31T23:00"),
            ("milliseconds", "1969-12-31T23:59:59.9999", "1969-12-31T23:59:59.999"),
        ] {
            let unit = TruncUnit::parse(unit).unwrap();
            let (start, end) = unit.period(micros(time), TimeUnit::Micros).unwrap();
            assert_eq!(start, micros(expected), "{time}");
            assert!(start <= micros(time) && micros(time) < end, "{time}");
            assert_eq!(unit.period(end, TimeUnit::Micros).unwrap().0, end, "{time}");
            assert!(unit.least_nanos() <= i128::from(end - start) * 1_000, "{time}");
        }
        assert_eq!(TruncUnit::Day.period(i64::MIN, TimeUnit::Nanos), None);
        assert_eq!(TruncUnit::Hour.period(i64::MAX, TimeUnit::Nanos).unwrap().1, i64::MAX);
    }

    #[test]
    fn an_hour_that_a_zone_repeats_is_two_hours() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        for (unit, time, expected) in [
            ("hour", "2025-10-26T00:10", "2025-10-26T00:00"),
            ("minute", "2025-10-26T00:10:30", "2025-10-26T00:10"),
            ("hour", "2025-10-26T01:10", "2025-10-26T01:00"),
            ("day", "2025-10-26T00:10", "2025-10-25T22:00"),
            ("day", "2025-10-26T23:10", "2025-10-26T23:00"),
            ("month", "2025-10-31T23:10", "2025-10-31T23:00"),
            // Local mean time, 53 minutes and 28 seconds before UTC.
            ("hour", "1500-01-01T00:00", "1499-12-31T23:06:32"),
        ] {
            let unit = TruncUnit::parse(unit).unwrap();
            let start = unit.start_in(berlin, micros(time), TimeUnit::Micros);
            assert_eq!(start, Some(micros(expected)), "date_trunc-1: {time}");
        }
    }
}
