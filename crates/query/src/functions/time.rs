//! Functions of times: parts of the calendar, buckets, arithmetic, zones and texts.
//!
//! - A text that does not match its pattern returns NULL, or an error for a pattern of PostgreSQL;
//!   a time out of the range of its type is an error.
//! - `to_timestamp` takes a number as seconds since 1970, with a fraction, as in PostgreSQL.
//! - The clock stands still within a statement: its functions become values when a statement is
//!   planned.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, StringViewBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int64Type, TimeUnit as ArrowUnit,
};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use tidegate_model::time::{CivilDate, days_in_month, is_leap_year};
use tidegate_model::{ColumnType, TimeUnit};

use super::calendar::{FarTimes, Part, in_range, part_of};
use super::pattern::Pattern;
use super::template::{Form, Template, form};
use crate::error::{ClauseProblem, Error, TextProblem};
use crate::types::bucket::{Grid, Origin, Stride, instant};
use crate::types::literal::{integer_of, time_value};
use crate::types::time_text::{TimeScale, parse_time};
use crate::types::zone::{Zone, parse_offset};

/// Returns all functions.
pub(crate) fn time_functions() -> Vec<ScalarUDF> {
    let function = |&(name, kind): &(&'static str, Kind)| {
        let signature = match kind {
            Kind::Clock { .. } => Signature::nullary(Volatility::Stable),
            _ => Signature::variadic_any(Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(TimeFunction { name, kind, signature })
    };
    FUNCTIONS.iter().map(function).collect()
}

/// The name of `ts AT TIME ZONE 'zone'`, which no query can write.
pub(crate) const AT_TIME_ZONE: &str = "at time zone";

const FUNCTIONS: [(&str, Kind); 36] = [
    ("timestamp_floor", Kind::Floor),
    ("timestamp_ceil", Kind::Ceil),
    ("dateadd", Kind::Add),
    ("datediff", Kind::Difference),
    ("year", Kind::Part(Part::Year)),
    ("month", Kind::Part(Part::Month)),
    ("day", Kind::Part(Part::Day)),
    ("hour", Kind::Part(Part::Hour)),
    ("minute", Kind::Part(Part::Minute)),
    ("second", Kind::Part(Part::Second)),
    ("millis", Kind::Part(Part::Millis)),
    ("micros", Kind::Part(Part::Micros)),
    ("nanos", Kind::Part(Part::Nanos)),
    ("day_of_week", Kind::Part(Part::DayOfWeek)),
    ("day_of_week_sunday_first", Kind::Part(Part::DayOfWeekSundayFirst)),
    ("week_of_year", Kind::Part(Part::WeekOfYear)),
    ("days_in_month", Kind::Part(Part::DaysInMonth)),
    ("is_leap_year", Kind::IsLeapYear),
    ("to_timestamp", Kind::Parse(ColumnType::Timestamp(TimeUnit::Micros))),
    ("to_timestamp_ns", Kind::Parse(ColumnType::Timestamp(TimeUnit::Nanos))),
    ("to_date", Kind::Parse(ColumnType::Date)),
    ("to_str", Kind::Format),
    ("to_utc", Kind::Zone(Toward::Utc)),
    ("to_timezone", Kind::Zone(Toward::Clocks)),
    (AT_TIME_ZONE, Kind::AtTimeZone),
    ("now", Kind::Clock { cut: Cut::Micros, days: 0 }),
    ("current_timestamp", Kind::Clock { cut: Cut::Micros, days: 0 }),
    ("transaction_timestamp", Kind::Clock { cut: Cut::Micros, days: 0 }),
    ("statement_timestamp", Kind::Clock { cut: Cut::Micros, days: 0 }),
    ("localtimestamp", Kind::Clock { cut: Cut::Micros, days: 0 }),
    ("systimestamp", Kind::Clock { cut: Cut::Micros, days: 0 }),
    ("systimestamp_ns", Kind::Clock { cut: Cut::Nanos, days: 0 }),
    ("sysdate", Kind::Clock { cut: Cut::Millis, days: 0 }),
    ("today", Kind::Clock { cut: Cut::Day, days: 0 }),
    ("yesterday", Kind::Clock { cut: Cut::Day, days: -1 }),
    ("tomorrow", Kind::Clock { cut: Cut::Day, days: 1 }),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Floor,
    Ceil,
    Add,
    Difference,
    Part(Part),
    IsLeapYear,
    Parse(ColumnType),
    Format,
    Zone(Toward),
    /// The type of its argument, the other way round: local time to an instant, an instant to local
    /// time.
    AtTimeZone,
    Clock {
        cut: Cut,
        days: i64,
    },
}

/// The zone of the type of instants: they are compared unchanged with a TIMESTAMP, which is one in
/// UTC.
const UTC: &str = "+00:00";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Toward {
    Utc,
    /// The meaning in PostgreSQL.
    Instant,
    Clocks,
}

/// The unit that the time of the clock is truncated to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Cut {
    Nanos,
    Micros,
    Millis,
    Day,
}

impl Kind {
    /// Returns the numbers of arguments, and the text of a call.
    fn usage(self) -> (std::ops::RangeInclusive<usize>, &'static str) {
        match self {
            Kind::Floor | Kind::Ceil => {
                (2..=5, "a stride like '15m', a timestamp, and perhaps from, offset and zone")
            }
            Kind::Add => (3..=3, "a unit, a number and a timestamp"),
            Kind::Difference => (3..=3, "a unit and two timestamps"),
            Kind::Part(_) | Kind::IsLeapYear => (1..=1, "a timestamp"),
            Kind::Parse(_) => (1..=2, "a text and perhaps a pattern, or seconds since 1970"),
            Kind::Format => (2..=2, "a timestamp and a pattern"),
            Kind::Zone(_) | Kind::AtTimeZone => (2..=2, "a timestamp and a time zone"),
            Kind::Clock { .. } => (0..=0, "nothing"),
        }
    }

    /// Returns the index of the time argument that has the type of the result.
    fn time_argument(self) -> Option<usize> {
        match self {
            Kind::Floor | Kind::Ceil => Some(1),
            Kind::Add => Some(2),
            Kind::Zone(_) => Some(0),
            _ => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeFunction {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for TimeFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let (counts, usage) = self.kind.usage();
        if !counts.contains(&args.len()) {
            return plan_err!("{} takes {usage}", self.name);
        }
        if self.kind == Kind::Parse(ColumnType::Date) && args[0].is_numeric() {
            return plan_err!("{} takes a text and perhaps a pattern, or a time", self.name);
        }
        if let Some(at) = self.kind.time_argument() {
            return Ok(timestamp(unit_of(&args[at])));
        }
        Ok(match self.kind {
            Kind::AtTimeZone if is_instant(&args[0]) => timestamp(unit_of(&args[0])),
            Kind::AtTimeZone => instant_type(unit_of(&args[0])),
            Kind::Difference => DataType::Int64,
            Kind::IsLeapYear => DataType::Boolean,
            Kind::Parse(ty) => time_value(0, ty).data_type(),
            Kind::Format => DataType::Utf8View,
            Kind::Clock { cut: Cut::Nanos, .. } => timestamp(TimeUnit::Nanos),
            Kind::Clock { .. } => timestamp(TimeUnit::Micros),
            _ => DataType::Int32,
        })
    }

    /// Also reports errors of constants when a query is planned, at their places.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone());
        let ty = self.return_type(&types.collect::<Vec<_>>())?;
        let text = |at: usize| {
            let value = args.scalar_arguments.get(at).copied().flatten();
            value.and_then(|value| value.try_as_str().flatten())
        };
        let zone = |at: usize| match text(at) {
            Some(zone) if Zone::parse(zone).is_none() => {
                Err(ClauseProblem::NoTimeZone { zone: zone.to_owned() })
            }
            _ => Ok(()),
        };
        match self.kind {
            Kind::Floor | Kind::Ceil => {
                text(0).map(Stride::parse).transpose()?;
                if let Some(offset) = text(3).filter(|it| parse_offset(it).is_none()) {
                    return Err(ClauseProblem::Offset { offset: offset.to_owned() }.into());
                }
                zone(4)?;
            }
            Kind::Add | Kind::Difference => {
                text(0).map(unit_of_text).transpose()?;
            }
            Kind::Zone(_) | Kind::AtTimeZone => zone(1)?,
            Kind::Parse(_) => {
                text(1).map(|pattern| TimePattern::new(pattern.to_owned())).transpose()?;
            }
            Kind::Format => {
                text(1).map(questdb_pattern).transpose()?;
            }
            _ => {}
        }
        Ok(Arc::new(Field::new(self.name, ty, true)))
    }

    /// Replaces functions of the clock by values.
    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let (Kind::Clock { cut, days }, Some(now)) =
            (self.kind, context.query_execution_start_time())
        else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        const PER_DAY: i64 = 86_400_000_000;
        let micros = |value| time_value(value, ColumnType::Timestamp(TimeUnit::Micros));
        let of_now = now.timestamp_micros();
        let value = match cut {
            Cut::Nanos => {
                let nanos = now.timestamp_nanos_opt();
                let nanos = nanos.unwrap_or(of_now.saturating_mul(1_000));
                time_value(nanos, ColumnType::Timestamp(TimeUnit::Nanos))
            }
            Cut::Micros => micros(of_now),
            Cut::Millis => micros(of_now - of_now.rem_euclid(1_000)),
            Cut::Day => micros(of_now - of_now.rem_euclid(PER_DAY) + days * PER_DAY),
        };
        Ok(ExprSimplifyResult::Simplified(lit(value)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        if matches!(self.kind, Kind::Part(_) | Kind::IsLeapYear)
            && let Some(far) = FarTimes::of(&args.args[0], rows)?
        {
            let parts = self.invoke_with_args(ScalarFunctionArgs { args: far.near(), ..args })?;
            return if self.kind == Kind::Part(Part::Year) { far.years(&parts) } else { Ok(parts) };
        }
        let call = Call { name: self.name, args: &args.args, rows };
        Ok(ColumnarValue::Array(match self.kind {
            Kind::Floor | Kind::Ceil => call.bucket(self.kind)?,
            Kind::Add => call.add()?,
            Kind::Difference => call.difference()?,
            Kind::Part(part) => {
                let (times, unit) = call.times(0)?;
                let of = |time: Option<i64>| time.map(|time| part_of(part, time, unit));
                Arc::new(times.iter().map(of).collect::<Int32Array>())
            }
            Kind::IsLeapYear => {
                let (times, unit) = call.times(0)?;
                let of = |time: i64| {
                    is_leap_year(CivilDate::from_days(time.div_euclid(unit.per_day())).year)
                };
                Arc::new(times.iter().map(|time| time.map(of)).collect::<BooleanArray>())
            }
            Kind::Parse(ty) => call.parse(ty)?,
            Kind::Format => call.format()?,
            Kind::Zone(toward) => call.zone(toward)?,
            Kind::AtTimeZone if is_instant(&args.args[0].data_type()) => {
                call.zone(Toward::Clocks)?
            }
            Kind::AtTimeZone => {
                let times = call.zone(Toward::Instant)?;
                cast(&times, &instant_type(unit_of(times.data_type())))?
            }
            Kind::Clock { .. } => return internal_err!("{} was made a value", self.name),
        }))
    }
}

/// A call and its arguments.
struct Call<'a> {
    name: &'static str,
    args: &'a [ColumnarValue],
    rows: usize,
}

impl Call<'_> {
    fn array(&self, at: usize) -> Result<ArrayRef> {
        self.args[at].to_array(self.rows)
    }

    /// Returns an argument that is the same for all rows; `None` for NULL, and if it is missing.
    fn constant(&self, at: usize) -> Result<Option<ScalarValue>> {
        let value = match self.args.get(at) {
            None => return Ok(None),
            Some(ColumnarValue::Scalar(value)) => value.clone(),
            Some(ColumnarValue::Array(_)) => {
                return plan_err!("argument {} of {} must be constant", at + 1, self.name);
            }
        };
        Ok((!value.is_null()).then_some(value))
    }

    fn text(&self, at: usize) -> Result<Option<String>> {
        match self.constant(at)? {
            None => Ok(None),
            Some(value) => match value.try_as_str().flatten() {
                Some(text) => Ok(Some(text.to_owned())),
                None => plan_err!("argument {} of {} must be a text", at + 1, self.name),
            },
        }
    }

    /// Returns an argument as times, in their unit.
    fn times(&self, at: usize) -> Result<(Int64Array, TimeUnit)> {
        let array = self.array(at)?;
        let unit = unit_of(array.data_type());
        if matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            let texts = cast(&array, &DataType::Utf8View)?;
            let ty = ColumnType::Timestamp(unit);
            let parse = |text: &str| {
                let bad =
                    |reason| Error::BadText { position: None, text: text.to_owned(), ty, reason };
                parse_time(text, TimeScale::Unit(unit)).map_err(bad)
            };
            let times = texts.as_string_view().iter();
            let times = times.map(|text| text.map(parse).transpose());
            return Ok((times.collect::<std::result::Result<Int64Array, Error>>()?, unit));
        }
        let times = match array.data_type() {
            ty if ty.is_integer() => array,
            _ => in_range(&array, &timestamp(unit))?,
        };
        Ok((cast(&times, &DataType::Int64)?.as_primitive::<Int64Type>().clone(), unit))
    }

    /// Returns the unit of time; `None` for NULL.
    fn unit(&self) -> Result<Option<Stride>> {
        let Some(text) = self.text(0)? else { return Ok(None) };
        Ok(Some(unit_of_text(&text)?))
    }

    fn bucket(&self, kind: Kind) -> Result<ArrayRef> {
        let (times, unit) = self.times(1)?;
        let Some(stride) = self.text(0)? else { return nulls(unit, self.rows) };
        let rest = [self.constant(2)?, self.constant(3)?, self.constant(4)?];
        let grid = bucket_grid(self.name, &stride, &rest, unit)?;
        let floors = grid.floor_all(times.values());
        let values = match kind {
            Kind::Ceil => {
                let pairs = floors.iter().zip(times.values());
                let ceil = |(&floor, &time): (&i64, &i64)| {
                    if floor == time { time } else { grid.start(grid.index(time) + 1) }
                };
                pairs.map(ceil).collect()
            }
            _ => floors,
        };
        of_unit(&Int64Array::new(values.into(), times.nulls().cloned()), unit)
    }

    fn add(&self) -> Result<ArrayRef> {
        let (times, unit) = self.times(2)?;
        let Some(step) = self.unit()? else { return nulls(unit, self.rows) };
        let counts = self.counts(1)?;
        let moved = times.iter().zip(counts.as_primitive::<Int64Type>().iter());
        let moved = moved.map(|pair| match pair {
            (Some(time), Some(count)) => match moved_by(time, count, step, unit) {
                Some(time) => Ok(Some(time)),
                None => Err(ClauseProblem::TimeRange),
            },
            _ => Ok(None),
        });
        of_unit(&moved.collect::<std::result::Result<Int64Array, ClauseProblem>>()?, unit)
    }

    /// Returns an argument as integers; a text that is none is an error.
    fn counts(&self, at: usize) -> Result<ArrayRef> {
        let array = self.array(at)?;
        let counts = cast(&array, &DataType::Int64)?;
        let is_lost = |row: &usize| counts.is_null(*row) && array.is_valid(*row);
        if let Some(row) = (0..array.len()).find(is_lost) {
            let text = array_value_to_string(&array, row)?;
            let (ty, reason) = (ColumnType::Int64, TextProblem::Form { expected: "a number" });
            return Err(Error::BadText { position: None, text, ty, reason }.into());
        }
        Ok(counts)
    }

    fn difference(&self) -> Result<ArrayRef> {
        let Some(step) = self.unit()? else {
            return Ok(Arc::new(Int64Array::new_null(self.rows)));
        };
        let ((a, a_unit), (b, b_unit)) = (self.times(1)?, self.times(2)?);
        let between = a.iter().zip(b.iter()).map(|pair| match pair {
            (Some(a), Some(b)) => between(in_nanos(a, a_unit), in_nanos(b, b_unit), step),
            _ => None,
        });
        Ok(Arc::new(between.collect::<Int64Array>()))
    }

    fn parse(&self, ty: ColumnType) -> Result<ArrayRef> {
        let unit = if ty == ColumnType::Timestamp(TimeUnit::Nanos) {
            TimeUnit::Nanos
        } else {
            TimeUnit::Micros
        };
        let target = time_value(0, ty).data_type();
        let array = self.array(0)?;
        if array.data_type().is_numeric() && ty == ColumnType::Timestamp(TimeUnit::Micros) {
            return of_numbers(&array, unit);
        }
        if array.data_type().is_integer() {
            let counts = cast(&array, &DataType::Int64)?;
            return Ok(cast(&cast(&counts, &timestamp(unit))?, &target)?);
        }
        if array.data_type().is_temporal() {
            return Ok(cast(&array, &target)?);
        }
        let pattern = self.text(1)?;
        if self.args.len() == 2 && pattern.is_none() {
            return Ok(datafusion::arrow::array::new_null_array(&target, self.rows));
        }
        let pattern = pattern.map(TimePattern::new).transpose()?;
        let texts = cast(&array, &DataType::Utf8View)?;
        let parse = |text: &str| match &pattern {
            Some(pattern) => pattern.parse(text, unit),
            None => Ok(parse_time(text, TimeScale::Unit(unit)).ok()),
        };
        let times = texts.as_string_view().iter().map(|text| text.map_or(Ok(None), parse));
        let times = times.collect::<Result<Int64Array>>()?;
        let times = match &pattern {
            // PostgreSQL's `to_date` returns only the day.
            Some(TimePattern::Postgres { .. }) if ty == ColumnType::Date => {
                times.unary(|time| time - time.rem_euclid(unit.per_day()))
            }
            _ => times,
        };
        let has_time = |time: i64| ty == ColumnType::Date && time.rem_euclid(unit.per_day()) != 0;
        if let Some(row) = times.iter().position(|time| time.is_some_and(has_time)) {
            let text = texts.as_string_view().value(row).to_owned();
            let reason = TextProblem::HasTimeOfDay;
            return Err(Error::BadText { position: None, text, ty, reason }.into());
        }
        Ok(cast(&of_unit(&times, unit)?, &target)?)
    }

    fn format(&self) -> Result<ArrayRef> {
        let (times, unit) = self.times(0)?;
        let mut builder = StringViewBuilder::with_capacity(times.len());
        let pattern = self.text(1)?;
        let pattern = pattern.map(|it| questdb_pattern(&it)).transpose()?;
        let mut text = String::new();
        for time in &times {
            match (time, &pattern) {
                (Some(time), Some(pattern)) => {
                    text.clear();
                    pattern.format(time, unit, &mut text);
                    builder.append_value(&text);
                }
                _ => builder.append_null(),
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    fn zone(&self, toward: Toward) -> Result<ArrayRef> {
        let (times, unit) = self.times(0)?;
        let Some(name) = self.text(1)? else { return nulls(unit, self.rows) };
        let Some(zone) = Zone::parse(&name) else {
            return Err(ClauseProblem::NoTimeZone { zone: name }.into());
        };
        let per_second = unit.per_second();
        let moved = |time: i64| {
            let seconds = time.div_euclid(per_second);
            let offset = match toward {
                Toward::Clocks => zone.offset_at(seconds),
                Toward::Utc => zone.to_utc(seconds) - seconds,
                Toward::Instant => zone.to_instant(seconds) - seconds,
            };
            time.saturating_add(offset * per_second)
        };
        of_unit(&times.unary(moved), unit)
    }
}

/// A pattern to parse texts: QuestDB's or PostgreSQL's (template-1).
enum TimePattern {
    QuestDb(Pattern),
    Postgres { text: String, template: Template },
}

impl TimePattern {
    fn new(text: String) -> Result<TimePattern> {
        Ok(match form(&text) {
            Form::QuestDb => TimePattern::QuestDb(Pattern::new(&text)?),
            Form::Postgres => {
                let template = Template::new(&text);
                TimePattern::Postgres { text, template }
            }
            Form::Unclear => {
                return Err(ClauseProblem::AmbiguousPattern { pattern: text }.into());
            }
            Form::Percent => {
                return Err(ClauseProblem::PercentPattern { pattern: text }.into());
            }
        })
    }

    /// Parses a text.
    fn parse(&self, text: &str, unit: TimeUnit) -> Result<Option<i64>> {
        match self {
            TimePattern::QuestDb(pattern) => Ok(pattern.parse(text, unit)),
            TimePattern::Postgres { text: pattern, template } => {
                let bad = |reason| {
                    let (text, pattern) = (text.to_owned(), pattern.clone());
                    ClauseProblem::TimeByPattern { text, pattern, reason }
                };
                let micros = template.read(text).map_err(bad)?;
                let worth = unit.per_second() / TimeUnit::Micros.per_second();
                let instant = micros.checked_mul(worth);
                Ok(Some(instant.ok_or(ClauseProblem::TimeRange)?))
            }
        }
    }
}

/// Returns a pattern to format times.
fn questdb_pattern(text: &str) -> Result<Pattern> {
    let pattern = text.to_owned();
    match form(text) {
        Form::Postgres => Err(ClauseProblem::PostgresPattern { pattern }.into()),
        Form::Unclear | Form::QuestDb | Form::Percent => Ok(Pattern::new(text)?),
    }
}

/// Converts seconds since 1970 to times.
fn of_numbers(numbers: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef> {
    let out_of_range = || ClauseProblem::TimeRange;
    let per_second = unit.per_second();
    let times = if numbers.data_type().is_integer() {
        let seconds = cast(numbers, &DataType::Int64)?;
        let time = |seconds: i64| seconds.checked_mul(per_second).ok_or_else(out_of_range);
        let seconds = seconds.as_primitive::<Int64Type>().iter();
        let times = seconds.map(|seconds| seconds.map(time).transpose());
        times.collect::<std::result::Result<Int64Array, ClauseProblem>>()?
    } else {
        let seconds = cast(numbers, &DataType::Float64)?;
        let time = |seconds: f64| {
            // Rounded to microseconds: a DOUBLE has no more digits for present times.
            let micros = (seconds * 1e6).round_ties_even();
            if !(-9e18..=9e18).contains(&micros) {
                return Err(out_of_range());
            }
            #[expect(clippy::cast_possible_truncation, reason = "within 64 bits")]
            let micros = micros as i64;
            micros.checked_mul(per_second / 1_000_000).ok_or_else(out_of_range)
        };
        let seconds = seconds.as_primitive::<Float64Type>().iter();
        let times = seconds.map(|seconds| seconds.map(time).transpose());
        times.collect::<std::result::Result<Int64Array, ClauseProblem>>()?
    };
    of_unit(&times, unit)
}

fn unit_of_text(text: &str) -> std::result::Result<Stride, ClauseProblem> {
    let stride = Stride::parse(text).ok().filter(|_| text.chars().count() == 1);
    stride.ok_or_else(|| ClauseProblem::Unit { unit: text.to_owned() })
}

/// Returns the buckets of a call of `timestamp_floor`: its stride, and from, offset and zone, as
/// far as they are given.
fn bucket_grid(
    name: &str,
    stride: &str,
    [from, offset, zone]: &[Option<ScalarValue>; 3],
    unit: TimeUnit,
) -> Result<Grid> {
    let text = |value: &Option<ScalarValue>, at: usize| match value {
        None => Ok(None),
        Some(value) => match value.try_as_str().flatten() {
            Some(text) => Ok(Some(text.to_owned())),
            None => plan_err!("argument {at} of {name} must be a text"),
        },
    };
    let stride = Stride::parse(stride)?;
    let zone = match text(zone, 5)? {
        Some(zone) => match Zone::parse(&zone) {
            Some(zone) => Some(zone),
            None => return Err(ClauseProblem::NoTimeZone { zone }.into()),
        },
        None => None,
    };
    let offset = match text(offset, 4)? {
        Some(offset) => match parse_offset(&offset) {
            Some(seconds) => seconds,
            None => return Err(ClauseProblem::Offset { offset }.into()),
        },
        None => 0,
    };
    let origin = match from {
        None => Origin::Calendar { offset },
        Some(from) => match instant(from, unit, zone) {
            Some(from) => Origin::Instant(from.saturating_add(offset * unit.per_second())),
            None => return plan_err!("the third argument of {name} is a timestamp"),
        },
    };
    Ok(Grid::new(stride, unit, zone, origin)?)
}

/// Returns the buckets of a call of our `timestamp_floor` of times that count `unit`; `None` if its
/// arguments other than the time are not constants, or wrong.
pub(crate) fn floor_grid(function: &ScalarUDF, args: &[Expr], unit: TimeUnit) -> Option<Grid> {
    let of_ours = function.inner().downcast_ref::<TimeFunction>()?;
    if of_ours.kind != Kind::Floor {
        return None;
    }
    let stride = constant_of(args.first()?)??;
    let optional = |at: usize| args.get(at).map_or(Some(None), constant_of);
    let rest = [optional(2)?, optional(3)?, optional(4)?];
    bucket_grid(of_ours.name, stride.try_as_str()??, &rest, unit).ok()
}

/// Returns the value of a constant, in `Some`; NULL is `Some(None)`.
fn constant_of(expr: &Expr) -> Option<Option<ScalarValue>> {
    match expr {
        Expr::Literal(value, _) => Some((!value.is_null()).then(|| value.clone())),
        _ => None,
    }
}

/// The distance that a call of `dateadd` moves times by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeStep {
    Nanos(i128),
    Months(i64),
}

/// Returns the step of a call of our `dateadd`, if it is constant.
pub(crate) fn dateadd_step(function: &ScalarUDF, args: &[Expr]) -> Option<TimeStep> {
    let of_ours = function.inner().downcast_ref::<TimeFunction>()?;
    let [unit, count, _] = args else { return None };
    if of_ours.kind != Kind::Add {
        return None;
    }
    let (unit, count) = (constant_of(unit)??, constant_of(count)??);
    let unit = unit.try_as_str()??;
    let stride = Stride::parse(unit).ok().filter(|_| unit.chars().count() == 1)?;
    let count = i64::try_from(integer_of(&count)?).ok()?;
    Some(match stride.nanos() {
        Some(nanos) => TimeStep::Nanos(nanos.checked_mul(count.into())?),
        None if stride.unit == 'y' => TimeStep::Months(count.checked_mul(12)?),
        None => TimeStep::Months(count),
    })
}

/// Returns a time so many months later, as `dateadd` defines it.
pub(crate) fn months_later(time: i64, months: i64, unit: TimeUnit) -> Option<i64> {
    moved_by(time, months, Stride { count: 1, unit: 'M' }, unit)
}

fn timestamp(unit: TimeUnit) -> DataType {
    time_value(0, ColumnType::Timestamp(unit)).data_type()
}

/// Returns the unit of a type of times in these functions.
fn unit_of(ty: &DataType) -> TimeUnit {
    match ty {
        DataType::Timestamp(ArrowUnit::Nanosecond, _) => TimeUnit::Nanos,
        _ => TimeUnit::Micros,
    }
}

/// Returns true if a time is an instant, and not a local time.
fn is_instant(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(_, Some(_)))
}

pub(super) fn instant_type(unit: TimeUnit) -> DataType {
    let unit = match unit {
        TimeUnit::Micros => ArrowUnit::Microsecond,
        TimeUnit::Nanos => ArrowUnit::Nanosecond,
    };
    DataType::Timestamp(unit, Some(UTC.into()))
}

fn of_unit(times: &Int64Array, unit: TimeUnit) -> Result<ArrayRef> {
    Ok(cast(times, &timestamp(unit))?)
}

fn nulls(unit: TimeUnit, rows: usize) -> Result<ArrayRef> {
    of_unit(&Int64Array::new_null(rows), unit)
}

fn in_nanos(time: i64, unit: TimeUnit) -> i128 {
    i128::from(time) * i128::from(1_000_000_000 / unit.per_second())
}

/// Returns a time so many units later; months keep the day if the month has it.
fn moved_by(time: i64, count: i64, step: Stride, unit: TimeUnit) -> Option<i64> {
    if let Some(nanos) = step.nanos() {
        let worth = i128::from(1_000_000_000 / unit.per_second());
        let moved = in_nanos(time, unit) + nanos.checked_mul(i128::from(count))?;
        return i64::try_from(moved.div_euclid(worth)).ok();
    }
    let months = if step.unit == 'y' { count.checked_mul(12)? } else { count };
    let date = CivilDate::from_days(time.div_euclid(unit.per_day()));
    let number = (date.year * 12 + i64::from(date.month) - 1).checked_add(months)?;
    let (year, month) = (number.div_euclid(12), u32::try_from(number.rem_euclid(12) + 1).ok()?);
    // No type has times beyond this, and the calendar's arithmetic might overflow.
    if year.abs() > 300_000 {
        return None;
    }
    let day = date.day.min(days_in_month(year, month));
    let days = CivilDate { year, month, day }.to_days();
    days.checked_mul(unit.per_day())?.checked_add(time.rem_euclid(unit.per_day()))
}

/// Returns the number of whole units between two times, in either order.
fn between(a: i128, b: i128, step: Stride) -> Option<i64> {
    let (low, high) = (a.min(b), a.max(b));
    if let Some(nanos) = step.nanos() {
        return i64::try_from((high - low) / nanos).ok();
    }
    const PER_DAY: i128 = 86_400_000_000_000;
    let month_of = |time: i128| -> Option<(i64, (u32, i128))> {
        let date = CivilDate::from_days(i64::try_from(time.div_euclid(PER_DAY)).ok()?);
        let number = date.year * 12 + i64::from(date.month) - 1;
        Some((number, (date.day, time.rem_euclid(PER_DAY))))
    };
    let ((first, from), (last, to)) = (month_of(low)?, month_of(high)?);
    let months = last - first - i64::from(to < from);
    Some(if step.unit == 'y' { months / 12 } else { months })
}
