//! Functions of PostgreSQL that DataFusion lacks or defines differently: `to_char`, `age`,
//! `make_timestamp`, `justify_interval`, `time_bucket`, `div`, `width_bucket`, `format` and
//! patterns of SIMILAR TO.
//!
//! - postgres-1. They return the results of PostgreSQL 15, or an error. Times are TIMESTAMPs, in
//!   UTC.
//!
//! Not here: `to_timestamp` and `to_date`, which are QuestDB's too (`time`).

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    StringViewBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit as ArrowUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use tidegate_model::time::{CivilDate, days_in_month};

use super::regexp::posix_class;
use super::template::{Form, Moment, Template, Zoned, form};
use crate::error::ClauseProblem;
use crate::names;
use crate::types::call_values::call_values;
use crate::types::day_lengths::as_intervals;

const PER_DAY: i64 = 86_400_000_000;
const PER_SECOND: i64 = 1_000_000;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;
/// The days of a month of an interval.
const DAYS_PER_MONTH: i64 = 30;
/// The `age` of a transaction that is always in the past.
const FROZEN_AGE: i32 = i32::MAX;

/// The name of the function that makes a regular expression of a pattern of SIMILAR TO, which no
/// query can write.
pub(crate) const SIMILAR_PATTERN: &str = "similar pattern";

const FUNCTIONS: [(&str, Kind); 10] = [
    ("to_char", Kind::ToChar),
    ("age", Kind::Age),
    ("make_timestamp", Kind::MakeTimestamp),
    ("justify_hours", Kind::JustifyHours),
    ("justify_days", Kind::JustifyDays),
    ("justify_interval", Kind::JustifyInterval),
    ("div", Kind::Div),
    ("width_bucket", Kind::WidthBucket),
    ("format", Kind::Format),
    (SIMILAR_PATTERN, Kind::Similar),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    ToChar,
    Age,
    MakeTimestamp,
    JustifyHours,
    JustifyDays,
    JustifyInterval,
    Div,
    WidthBucket,
    Format,
    Similar,
}

/// Returns all functions.
pub(crate) fn postgres_functions() -> Vec<ScalarUDF> {
    let function = |&(name, kind): &(&'static str, Kind)| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(PostgresFunction { name, kind, signature })
    };
    FUNCTIONS.iter().map(function).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PostgresFunction {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl Kind {
    fn usage(self) -> (std::ops::RangeInclusive<usize>, &'static str) {
        match self {
            Kind::ToChar => (2..=2, "a time or an interval, and a pattern"),
            Kind::Age => (1..=2, "one or two times"),
            Kind::MakeTimestamp => (6..=6, "year, month, day, hour, minute and seconds"),
            Kind::JustifyHours | Kind::JustifyDays | Kind::JustifyInterval => {
                (1..=1, "an interval")
            }
            Kind::Div => (2..=2, "two numbers"),
            Kind::WidthBucket => (4..=4, "a number, two bounds and a count"),
            Kind::Format => (1..=usize::MAX, "a format and its values"),
            Kind::Similar => (1..=2, "a pattern and perhaps its escape sign"),
        }
    }
}

fn micros_type() -> DataType {
    DataType::Timestamp(ArrowUnit::Microsecond, None)
}

fn interval_type() -> DataType {
    DataType::Interval(IntervalUnit::MonthDayNano)
}

fn is_time(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
}

/// Returns the pattern of a call of `to_char`; an error for one that is not PostgreSQL's.
fn char_template(pattern: &str) -> Result<Template> {
    match form(pattern) {
        Form::Percent => Err(ClauseProblem::PercentPattern { pattern: pattern.to_owned() }.into()),
        _ => Ok(Template::new(pattern)),
    }
}

impl ScalarUDFImpl for PostgresFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let (counts, usage) = self.kind.usage();
        let argument = |at: usize, is_known: &dyn Fn(&DataType) -> bool| match args.get(at) {
            Some(ty) if !is_known(ty) && *ty != DataType::Null => {
                let (function, ty) = (self.name.to_owned(), ty.to_string());
                Err(ClauseProblem::Argument { function, ty })
            }
            _ => Ok(()),
        };
        if !counts.contains(&args.len()) {
            return plan_err!("{} takes {usage}", self.name);
        }
        let is_length = |ty: &DataType| matches!(ty, DataType::Interval(_) | DataType::Duration(_));
        let is_number = DataType::is_numeric;
        Ok(match self.kind {
            Kind::ToChar => {
                argument(0, &|ty| is_time(ty) || is_length(ty) || is_text(ty))?;
                argument(1, &is_text)?;
                DataType::Utf8View
            }
            Kind::Age if args.len() == 1 && args[0].is_integer() => DataType::Int32,
            Kind::Age => {
                argument(0, &|ty| is_time(ty) || is_text(ty))?;
                argument(1, &|ty| is_time(ty) || is_text(ty))?;
                interval_type()
            }
            Kind::MakeTimestamp => {
                (0..6).try_for_each(|at| argument(at, &is_number))?;
                micros_type()
            }
            Kind::JustifyHours | Kind::JustifyDays | Kind::JustifyInterval => {
                argument(0, &is_length)?;
                interval_type()
            }
            Kind::Div => {
                (0..2).try_for_each(|at| argument(at, &is_number))?;
                match args.iter().all(DataType::is_integer) {
                    true => DataType::Int64,
                    false => DataType::Float64,
                }
            }
            Kind::WidthBucket => {
                (0..4).try_for_each(|at| argument(at, &is_number))?;
                DataType::Int32
            }
            Kind::Format | Kind::Similar => DataType::Utf8View,
        })
    }

    /// Also reports errors of a constant pattern when a query is planned.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone());
        let ty = self.return_type(&types.collect::<Vec<_>>())?;
        let pattern = args.scalar_arguments.get(1).copied().flatten();
        if let (Kind::ToChar, Some(pattern)) = (self.kind, pattern)
            && let Some(pattern) = pattern.try_as_str().flatten()
        {
            char_template(pattern)?;
        }
        Ok(Arc::new(Field::new(self.name, ty, true)))
    }

    /// Makes `age(t)` that of today's midnight.
    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let is_of_now = self.kind == Kind::Age && args.len() == 1;
        let Some(now) = context.query_execution_start_time().filter(|_| is_of_now) else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        if context.get_data_type(&args[0])?.is_integer() {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let now = now.timestamp_micros();
        let today = now - now.rem_euclid(PER_DAY);
        let today = lit(ScalarValue::TimestampMicrosecond(Some(today), None));
        let signature = Signature::variadic_any(Volatility::Immutable);
        let function = PostgresFunction { name: self.name, kind: Kind::Age, signature };
        let function = Arc::new(ScalarUDF::new_from_impl(function));
        let args = [vec![today], args].concat();
        let call = ScalarFunction::new_udf(function, args);
        Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        call_values(&args.args, args.number_rows, |arrays, _| match self.kind {
            Kind::ToChar => to_char(arrays),
            Kind::Age if arrays.len() == 1 => {
                let ages = arrays[0].len();
                let age = |row: usize| arrays[0].is_valid(row).then_some(FROZEN_AGE);
                Ok(Arc::new((0..ages).map(age).collect::<Int32Array>()))
            }
            Kind::Age => ages(arrays),
            Kind::MakeTimestamp => make_timestamps(arrays),
            kind @ (Kind::JustifyHours | Kind::JustifyDays | Kind::JustifyInterval) => {
                justified(kind, &arrays[0])
            }
            Kind::Div => div(arrays),
            Kind::WidthBucket => width_buckets(arrays),
            Kind::Format => formatted(arrays),
            Kind::Similar => similar_patterns(arrays),
        })
    }
}

fn micros(array: &ArrayRef) -> Result<Int64Array> {
    let times = cast(array, &micros_type())?;
    Ok(cast(&times, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// Returns the parts of an instant.
pub(crate) fn moment(instant: i64) -> Moment {
    let days = instant.div_euclid(PER_DAY);
    let (date, of_day) = (CivilDate::from_days(days), instant.rem_euclid(PER_DAY));
    let second = of_day / PER_SECOND;
    Moment {
        year: date.year,
        month: date.month.into(),
        day: date.day.into(),
        hour: second / 3_600,
        minute: second / 60 % 60,
        second: second % 60,
        micros: of_day % PER_SECOND,
        days: Some(days),
    }
}

fn moment_of_interval(length: IntervalMonthDayNano) -> Moment {
    let micros = length.nanoseconds / 1_000;
    let second = micros / PER_SECOND;
    Moment {
        year: i64::from(length.months / 12),
        month: i64::from(length.months % 12),
        day: length.days.into(),
        hour: second / 3_600,
        minute: second / 60 % 60,
        second: second % 60,
        micros: micros % PER_SECOND,
        days: None,
    }
}

fn to_char(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let patterns = cast(&arrays[1], &DataType::Utf8View)?;
    let patterns = patterns.as_string_view();
    let zoned = match arrays[0].data_type() {
        DataType::Timestamp(_, Some(_)) => Zoned::Utc,
        _ => Zoned::No,
    };
    let moments: Vec<Option<Moment>> = match arrays[0].data_type() {
        DataType::Interval(_) | DataType::Duration(_) => {
            let lengths = as_intervals(&arrays[0])?;
            let lengths = lengths.as_primitive::<IntervalMonthDayNanoType>().iter();
            lengths.map(|length| length.map(moment_of_interval)).collect()
        }
        _ => micros(&arrays[0])?.iter().map(|instant| instant.map(moment)).collect(),
    };
    let mut builder = StringViewBuilder::with_capacity(moments.len());
    let (mut text, mut known) = (String::new(), None::<(String, Template)>);
    for (moment, pattern) in moments.iter().zip(patterns) {
        // An empty pattern returns NULL, as in PostgreSQL.
        let (Some(moment), Some(pattern)) = (moment, pattern.filter(|it| !it.is_empty())) else {
            builder.append_null();
            continue;
        };
        if known.as_ref().is_none_or(|(known, _)| known != pattern) {
            known = Some((pattern.to_owned(), char_template(pattern)?));
        }
        if let Some((_, template)) = &known {
            text.clear();
            template.write(moment, zoned, &mut text);
            builder.append_value(&text);
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn ages(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let (later, earlier) = (micros(&arrays[0])?, micros(&arrays[1])?);
    let ages = later.iter().zip(earlier.iter()).map(|pair| match pair {
        (Some(later), Some(earlier)) => Some(age(later, earlier)),
        _ => None,
    });
    Ok(Arc::new(ages.collect::<IntervalMonthDayNanoArray>()))
}

/// Returns years, months, days and time between two times, as PostgreSQL counts them: days are
/// borrowed from the month of the earlier one.
fn age(a: i64, b: i64) -> IntervalMonthDayNano {
    let (low, high, sign) = if a < b { (a, b, -1) } else { (b, a, 1) };
    let (from, to) = (moment(low), moment(high));
    let mut months = (to.year - from.year) * 12 + to.month - from.month;
    let mut days = to.day - from.day;
    let mut time = high.rem_euclid(PER_DAY) - low.rem_euclid(PER_DAY);
    if time < 0 {
        (time, days) = (time + PER_DAY, days - 1);
    }
    while days < 0 {
        let month = u32::try_from(from.month).expect("1 to 12");
        days += i64::from(days_in_month(from.year, month));
        months -= 1;
    }
    let small = |value: i64| i32::try_from(value * sign).unwrap_or(i32::MAX);
    IntervalMonthDayNano {
        months: small(months),
        days: small(days),
        nanoseconds: time * 1_000 * sign,
    }
}

fn justified(kind: Kind, lengths: &ArrayRef) -> Result<ArrayRef> {
    let lengths = as_intervals(lengths)?;
    let lengths = lengths.as_primitive::<IntervalMonthDayNanoType>().iter();
    let justified = lengths
        .map(|length| length.map(|it| justify(kind, it).ok_or_else(out_of_range)).transpose());
    Ok(Arc::new(justified.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// Returns an interval with whole days of its time as days, whole months of 30 days as months, or
/// both, and then parts of one sign; `None` if it is too long.
fn justify(kind: Kind, length: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let (mut months, mut days) = (i64::from(length.months), i64::from(length.days));
    let mut nanos = length.nanoseconds;
    if kind != Kind::JustifyDays {
        (days, nanos) = (days + nanos / NANOS_PER_DAY, nanos % NANOS_PER_DAY);
    }
    if kind != Kind::JustifyHours {
        (months, days) = (months + days / DAYS_PER_MONTH, days % DAYS_PER_MONTH);
        // The time decides where there are no days.
        let below = match kind {
            Kind::JustifyInterval if days == 0 => nanos.signum(),
            _ => days.signum(),
        };
        if months.signum() * below < 0 {
            let month = months.signum();
            (months, days) = (months - month, days + month * DAYS_PER_MONTH);
        }
    }
    if kind != Kind::JustifyDays && days.signum() * nanos.signum() < 0 {
        let day = days.signum();
        (days, nanos) = (days - day, nanos + day * NANOS_PER_DAY);
    }
    Some(IntervalMonthDayNano {
        months: i32::try_from(months).ok()?,
        days: i32::try_from(days).ok()?,
        nanoseconds: nanos,
    })
}

fn out_of_range() -> DataFusionError {
    ClauseProblem::TimeRange.into()
}

fn make_timestamps(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = arrays[..5].iter().map(|array| cast(array, &DataType::Int64));
    let parts = parts.collect::<std::result::Result<Vec<_>, _>>()?;
    let seconds = cast(&arrays[5], &DataType::Float64)?;
    let seconds = seconds.as_primitive::<Float64Type>();
    let part = |row: usize, at: usize| -> Option<i64> {
        let part = parts[at].as_primitive::<Int64Type>();
        part.is_valid(row).then(|| part.value(row))
    };
    let make = |row: usize| -> Result<Option<i64>> {
        let known = (0..5).map(|at| part(row, at)).collect::<Option<Vec<_>>>();
        let (Some(known), true) = (known, seconds.is_valid(row)) else { return Ok(None) };
        let [year, month, day, hour, minute] = known[..] else { return Ok(None) };
        instant_of([year, month, day, hour, minute], seconds.value(row))
            .map(Some)
            .ok_or_else(out_of_range)
    };
    let instants = (0..seconds.len()).map(make).collect::<Result<Int64Array>>()?;
    Ok(cast(&instants, &micros_type())?)
}

fn instant_of([year, month, day, hour, minute]: [i64; 5], seconds: f64) -> Option<i64> {
    // Years before 1 are written without a year 0, which does not exist.
    if year == 0 {
        return None;
    }
    let year = if year < 0 { year + 1 } else { year };
    let date = CivilDate { year, month: u32::try_from(month).ok()?, day: u32::try_from(day).ok()? };
    let is_known = year.abs() < 300_000 && (1..=12).contains(&month);
    if !is_known || day == 0 || days_in_month(year, date.month) < date.day {
        return None;
    }
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute);
    if !is_time || !(0.0..=60.0).contains(&seconds) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 60 seconds")]
    let micros = (seconds * 1e6).round_ties_even() as i64;
    let of_day = (hour * 60 + minute) * 60 * PER_SECOND + micros;
    date.to_days().checked_mul(PER_DAY)?.checked_add(of_day)
}

fn div(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let zero = || DataFusionError::from(ArrowError::DivideByZero);
    if arrays.iter().all(|array| array.data_type().is_integer()) {
        let [a, b] = [cast(&arrays[0], &DataType::Int64)?, cast(&arrays[1], &DataType::Int64)?];
        let (a, b) = (a.as_primitive::<Int64Type>(), b.as_primitive::<Int64Type>());
        let divided = a.iter().zip(b).map(|pair| match pair {
            (Some(_), Some(0)) => Err(zero()),
            (Some(a), Some(b)) => a.checked_div(b).map(Some).ok_or_else(out_of_range),
            _ => Ok(None),
        });
        return Ok(Arc::new(divided.collect::<Result<Int64Array>>()?));
    }
    let [a, b] = [cast(&arrays[0], &DataType::Float64)?, cast(&arrays[1], &DataType::Float64)?];
    let (a, b) = (a.as_primitive::<Float64Type>(), b.as_primitive::<Float64Type>());
    let divided = a.iter().zip(b).map(|pair| match pair {
        (Some(_), Some(0.0)) => Err(zero()),
        (Some(a), Some(b)) => Ok(Some((a / b).trunc() + 0.0)),
        _ => Ok(None),
    });
    Ok(Arc::new(divided.collect::<Result<Float64Array>>()?))
}

fn width_buckets(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let doubles = arrays[..3].iter().map(|array| cast(array, &DataType::Float64));
    let doubles = doubles.collect::<std::result::Result<Vec<_>, _>>()?;
    let counts = cast(&arrays[3], &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>();
    let double = |at: usize, row: usize| {
        let values = doubles[at].as_primitive::<Float64Type>();
        values.is_valid(row).then(|| values.value(row))
    };
    let bucket = |row: usize| -> Result<Option<i32>> {
        let count = counts.is_valid(row).then(|| counts.value(row));
        let (Some(x), Some(low), Some(high), Some(count)) =
            (double(0, row), double(1, row), double(2, row), count)
        else {
            return Ok(None);
        };
        width_bucket(x, low, high, count).map(Some)
    };
    Ok(Arc::new((0..counts.len()).map(bucket).collect::<Result<Int32Array>>()?))
}

fn width_bucket(x: f64, low: f64, high: f64, count: i64) -> Result<i32> {
    let bad = |what| Err(ClauseProblem::WidthBucket { what }.into());
    let Ok(count) = i32::try_from(count) else { return bad("the count must fit in an INT") };
    if count <= 0 {
        return bad("the count must be greater than 0");
    }
    if x.is_nan() || !low.is_finite() || !high.is_finite() {
        return bad("the number must not be NaN, and the bounds must be finite");
    }
    if low == high {
        return bad("the bounds must differ");
    }
    let (start, end, at) = if low < high { (low, high, x) } else { (-low, -high, -x) };
    if at < start {
        return Ok(0);
    }
    if end <= at {
        return count.checked_add(1).ok_or_else(out_of_range);
    }
    let share = (at - start) / (end - start);
    #[expect(clippy::cast_possible_truncation, reason = "below the count")]
    let bucket = (share * f64::from(count)) as i32;
    Ok(bucket.min(count - 1) + 1)
}

fn similar_patterns(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let patterns = cast(&arrays[0], &DataType::Utf8View)?;
    let escapes = arrays.get(1).map(|array| cast(array, &DataType::Utf8View)).transpose()?;
    let mut builder = StringViewBuilder::with_capacity(patterns.len());
    for (row, pattern) in patterns.as_string_view().iter().enumerate() {
        let escape = match &escapes {
            Some(escapes) if escapes.is_null(row) => {
                builder.append_null();
                continue;
            }
            Some(escapes) => escapes.as_string_view().value(row),
            None => "\\",
        };
        match pattern {
            Some(pattern) => builder.append_value(regular_expression(pattern, escape)?),
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// Returns the regular expression of a pattern of SIMILAR TO, which matches a text as a whole.
fn regular_expression(pattern: &str, escape: &str) -> Result<String> {
    let mut signs = escape.chars();
    let escape = signs.next();
    if signs.next().is_some() {
        return plan_err!("Invalid escape character in LIKE expression: SIMILAR TO takes one");
    }
    let mut regex = String::from("(?s)^(?:");
    let (mut letters, mut is_class) = (pattern.chars(), false);
    while let Some(letter) = letters.next() {
        if Some(letter) == escape {
            if let Some(next) = letters.next() {
                if !next.is_alphanumeric() {
                    regex.push('\\');
                }
                regex.push(next);
            }
            continue;
        }
        match letter {
            ']' if is_class => {
                is_class = false;
                regex.push(']');
            }
            '\\' => regex.push_str("\\\\"),
            '[' if is_class && letters.as_str().starts_with(':') => {
                let rest = letters.as_str();
                let name = rest.find(":]").map_or(rest, |end| &rest[..end + 2]);
                regex.push_str(&posix_class(&format!("[{name}")));
                letters = rest[name.len()..].chars();
            }
            _ if is_class => regex.push(letter),
            '[' => {
                is_class = true;
                regex.push('[');
            }
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '(' => regex.push_str("(?:"),
            '.' | '^' | '$' => {
                regex.push('\\');
                regex.push(letter);
            }
            _ => regex.push(letter),
        }
    }
    regex.push_str(")$");
    Ok(regex)
}

fn formatted(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let formats = cast(&arrays[0], &DataType::Utf8View)?;
    // A constant NULL has a type of its own, whose arrays have no bitmap.
    let nulls = arrays.iter().map(|values| values.logical_nulls()).collect::<Vec<_>>();
    let is_null = |at: usize, row| nulls[at].as_ref().is_some_and(|nulls| nulls.is_null(row));
    let mut builder = StringViewBuilder::with_capacity(formats.len());
    for (row, format) in formats.as_string_view().iter().enumerate() {
        let Some(format) = format else {
            builder.append_null();
            continue;
        };
        let value = |at: usize| -> Result<Option<String>> {
            let Some(values) = arrays.get(at) else {
                return Err(ClauseProblem::FormatText { what: "too few arguments" }.into());
            };
            Ok(match is_null(at, row) {
                true => None,
                false => Some(array_value_to_string(values, row)?),
            })
        };
        builder.append_value(format_row(format, &value)?);
    }
    Ok(Arc::new(builder.finish()))
}

/// Evaluates `%[n$][-][width](s|I|L)` and `%%` for one row.
fn format_row(format: &str, value: &dyn Fn(usize) -> Result<Option<String>>) -> Result<String> {
    let bad = |what| Err(ClauseProblem::FormatText { what }.into());
    let (mut text, mut rest, mut next) = (String::new(), format, 1);
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            (rest, text) = (behind, text + "%");
            continue;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && rest[digits..].starts_with('$') {
            let Some(place) = rest[..digits].parse().ok().filter(|place| *place > 0) else {
                return bad("arguments are numbered from 1");
            };
            (next, rest) = (place, &rest[digits + 1..]);
        }
        let is_left = rest.starts_with('-');
        rest = rest.trim_start_matches('-');
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let width = match &rest[..digits] {
            "" => 0,
            width => match width.parse::<usize>().ok().filter(|width| *width <= 10_000) {
                Some(width) => width,
                None => return bad("a width of more than 10,000"),
            },
        };
        rest = &rest[digits..];
        let shown = match (rest.chars().next(), value(next)?) {
            (Some('s'), value) => value.unwrap_or_default(),
            (Some('I'), Some(name)) => names::quote_ident(&name),
            (Some('I'), None) => return bad("NULL is no name"),
            (Some('L'), Some(value)) => format!("'{}'", value.replace('\'', "''")),
            (Some('L'), None) => "NULL".to_owned(),
            _ => return bad("a % is followed by s, I, L or %"),
        };
        // Writing to a String cannot fail.
        let _ = match is_left {
            true => write!(text, "{shown:<width$}"),
            false => write!(text, "{shown:>width$}"),
        };
        (rest, next) = (&rest[1..], next + 1);
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant(text: &str) -> i64 {
        use crate::types::time_text::{TimeScale, parse_time};
        parse_time(text, TimeScale::Unit(tidegate_model::TimeUnit::Micros)).unwrap()
    }

    /// The answers are those of PostgreSQL 15.
    #[test]
    fn ages_are_counted_as_by_postgresql() {
        for (a, b, expected) in [
            ("2001-04-10", "1957-06-13", (525, 27, 0)),
            ("2025-03-01", "2025-01-31", (1, 1, 0)),
            ("2025-01-31", "2025-03-01", (-1, -1, 0)),
            ("2024-03-01", "2024-01-30", (1, 2, 0)),
            ("2025-03-30 01:00", "2025-03-29 23:00", (0, 0, 2)),
            ("2025-03-29 23:00", "2025-03-30 01:00", (0, 0, -2)),
            ("2025-05-31 10:00", "2025-02-28 12:00", (3, 2, 22)),
            ("2025-02-28 12:00", "2025-05-31 10:00", (-3, -2, -22)),
            ("2025-01-01", "2025-01-01", (0, 0, 0)),
        ] {
            let found = age(instant(a), instant(b));
            let found = (found.months, found.days, found.nanoseconds / 3_600_000_000_000);
            assert_eq!(found, expected, "postgres-1: {a} {b}");
        }
    }

    #[test]
    fn patterns_of_similar_to_match_whole_texts() {
        for (pattern, expected) in [
            ("a%", "(?s)^(?:a.*)$"),
            ("(b|c)_.", "(?s)^(?:(?:b|c).\\.)$"),
            ("[a-z_%]+", "(?s)^(?:[a-z_%]+)$"),
            ("50\\%", "(?s)^(?:50\\%)$"),
        ] {
            assert_eq!(
                regular_expression(pattern, "\\").unwrap(),
                expected,
                "postgres-1: {pattern}"
            );
        }
        assert_eq!(regular_expression("a#%\\", "#").unwrap(), "(?s)^(?:a\\%\\\\)$");
    }

    #[test]
    fn buckets_have_one_width() {
        for (x, low, high, count, expected) in [
            (5.35, 0.024, 10.06, 5, 3),
            (-1.0, 0.0, 10.0, 5, 0),
            (10.0, 0.0, 10.0, 5, 6),
            (0.0, 0.0, 10.0, 5, 1),
            (7.0, 10.0, 0.0, 5, 2),
        ] {
            assert_eq!(width_bucket(x, low, high, count).unwrap(), expected, "postgres-1: {x}");
        }
        assert!(width_bucket(1.0, 1.0, 1.0, 3).is_err() && width_bucket(1.0, 0.0, 2.0, 0).is_err());
    }
}
