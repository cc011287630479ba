//! Functions of numbers and of parts of times that PostgreSQL defines differently from DataFusion.
//!
//! - The parts of a time that have a fraction are DOUBLEs: `second`, `milliseconds`, `epoch` and
//!   `julian`; all others are integers, as in DataFusion. An interval has the parts that it is
//!   written with.
//! - `log(x)` is `log10(x)`: the quotient of two logarithms is not 3 for 1000.
//! - A value that PostgreSQL refuses is refused: `chr(0)`, the year 0.

use std::slice::from_ref;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, StringViewBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, TimeUnit,
};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::functions::datetime::{date_part, make_date};
use datafusion::functions::math::{log, log10};
use datafusion::functions::string::{chr, to_hex};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use tidegate_model::time::CivilDate;

use super::calendar::FarTimes;
use crate::error::ClauseProblem;
use crate::types::call_values::call_values;
use crate::types::day_lengths::as_intervals;

const PER_SECOND: i64 = 1_000_000;
const PER_DAY: i64 = 86_400 * PER_SECOND;
/// Days from the Julian day 0 to 1970.
const JULIAN: i64 = 2_440_588;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    DatePart,
    Log,
    Chr,
    ToHex,
    MakeDate,
}

/// Returns all functions.
pub(crate) fn part_functions() -> Vec<ScalarUDF> {
    let function = |(inner, kind): (Arc<ScalarUDF>, Kind)| {
        let aliases = inner.aliases().to_vec();
        ScalarUDF::new_from_impl(Corrected { inner, kind, aliases })
    };
    [
        (date_part(), Kind::DatePart),
        (log(), Kind::Log),
        (chr(), Kind::Chr),
        (to_hex(), Kind::ToHex),
        (make_date(), Kind::MakeDate),
    ]
    .map(function)
    .into()
}

/// A function of DataFusion with other results for some values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Corrected {
    inner: Arc<ScalarUDF>,
    kind: Kind,
    aliases: Vec<String>,
}

/// A part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Second,
    Millis,
    Micros,
    Minute,
    Hour,
    Day,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Epoch,
    Julian,
}

impl Part {
    fn parse(name: &str) -> Option<Part> {
        Some(match name.to_ascii_lowercase().as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => Part::Second,
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => Part::Millis,
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" => Part::Micros,
            "min" | "mins" | "minute" | "minutes" => Part::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Part::Hour,
            "d" | "day" | "days" => Part::Day,
            "mon" | "mons" | "month" | "months" => Part::Month,
            "qtr" | "quarter" => Part::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => Part::Year,
            "dec" | "decs" | "decade" | "decades" => Part::Decade,
            "c" | "cent" | "century" | "centuries" => Part::Century,
            "mil" | "mils" | "millennium" | "millennia" => Part::Millennium,
            "epoch" => Part::Epoch,
            "julian" | "jd" => Part::Julian,
            _ => return None,
        })
    }

    /// Returns a part and its type, if the type is not that of DataFusion.
    fn of(name: &str, ty: &DataType) -> Option<(Part, DataType)> {
        let part = Part::parse(name)?;
        if matches!(ty, DataType::Interval(_) | DataType::Duration(_)) {
            let ty = match part {
                Part::Second | Part::Millis | Part::Epoch => DataType::Float64,
                Part::Julian => return None,
                _ => DataType::Int64,
            };
            return Some((part, ty));
        }
        let is_time = matches!(ty, DataType::Timestamp(..));
        Some(match part {
            Part::Second | Part::Millis if is_time => (part, DataType::Float64),
            Part::Julian if is_time || matches!(ty, DataType::Date32) => (part, DataType::Float64),
            Part::Decade | Part::Century | Part::Millennium
                if is_time || matches!(ty, DataType::Date32) =>
            {
                (part, DataType::Int32)
            }
            _ => return None,
        })
    }
}

fn text_of(value: Option<&ScalarValue>) -> Option<&str> {
    value.and_then(|value| value.try_as_str().flatten())
}

fn refused<T>(function: &str, value: String, what: &'static str) -> Result<T> {
    Err(ClauseProblem::ArgumentValue { function: function.to_owned(), value, what }.into())
}

impl ScalarUDFImpl for Corrected {
    delegate! { inner:
        fn name(&self) -> &str;
        fn signature(&self) -> &Signature;
        fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>>;
        fn preimage(
            &self,
            args: &[Expr],
            literal: &Expr,
            info: &SimplifyContext,
        ) -> Result<datafusion::logical_expr::preimage::PreimageResult>;
        fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties>;
        fn documentation(&self) -> Option<&Documentation>;
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(args)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if self.kind != Kind::DatePart {
            return self.inner.return_field_from_args(args);
        }
        let name = text_of(args.scalar_arguments.first().copied().flatten());
        let part = name.and_then(|name| Part::of(name, args.arg_fields[1].data_type()));
        match part {
            Some((_, ty)) => Ok(Arc::new(Field::new(self.name(), ty, true))),
            None => {
                check_interval(name, args.arg_fields[1].data_type())?;
                self.inner.return_field_from_args(args)
            }
        }
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match (self.kind, args.as_slice()) {
            (Kind::Log, [x]) if !context.get_data_type(x)?.is_decimal() => {
                let call = ScalarFunction::new_udf(log10(), args);
                Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
            }
            (Kind::DatePart, [Expr::Literal(name, _), time]) => {
                let ty = context.get_data_type(time)?;
                match text_of(Some(name)).and_then(|name| Part::of(name, &ty)) {
                    Some(_) => Ok(ExprSimplifyResult::Original(args)),
                    None => self.inner.simplify(args, context),
                }
            }
            _ => self.inner.simplify(args, context),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.kind, args.args.as_slice()) {
            (Kind::DatePart, [ColumnarValue::Scalar(name), times]) => {
                let part = text_of(Some(name)).and_then(|it| Part::of(it, &times.data_type()));
                let Some((part, _)) = part else { return self.part_of_datafusion(args) };
                let times = from_ref(times);
                call_values(times, args.number_rows, |times, _| parts(part, &times[0]))
            }
            // A constant is evaluated, not simplified.
            (Kind::Log, [x]) if !x.data_type().is_decimal() => log10().invoke_with_args(args),
            (Kind::Chr, [codes]) => {
                if has_zero(codes, args.number_rows)? {
                    return refused("chr", "0".to_owned(), "a text has no character of this code");
                }
                self.inner.invoke_with_args(args)
            }
            (Kind::MakeDate, [years, ..]) => {
                if has_zero(years, args.number_rows)? {
                    let what = "the year before 1 is the year -1";
                    return refused("make_date", "the year 0".to_owned(), what);
                }
                self.inner.invoke_with_args(args)
            }
            (Kind::ToHex, [numbers]) if numbers.data_type() == DataType::Int32 => {
                let ty = args.return_field.data_type();
                call_values(&args.args, args.number_rows, |numbers, _| {
                    Ok(cast(&hex(&numbers[0]), ty)?)
                })
            }
            _ => self.inner.invoke_with_args(args),
        }
    }
}

impl Corrected {
    /// Returns a part of times that DataFusion has, also of those beyond its calendar.
    fn part_of_datafusion(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = match &args.args[0] {
            ColumnarValue::Scalar(name) => text_of(Some(name)).unwrap_or_default().to_owned(),
            ColumnarValue::Array(_) => String::new(),
        };
        let part = Part::parse(&name);
        let far = FarTimes::of(&args.args[1], args.number_rows)?;
        // Seconds since 1970 need no calendar.
        let Some(far) = far.filter(|_| part != Some(Part::Epoch)) else {
            return self.inner.invoke_with_args(args);
        };
        args.args.truncate(1);
        args.args.extend(far.near());
        let values = self.inner.invoke_with_args(args)?;
        match part == Some(Part::Year) || name.eq_ignore_ascii_case("isoyear") {
            true => far.years(&values),
            false => Ok(values),
        }
    }
}

/// Returns true if one of some integers is 0.
fn has_zero(numbers: &ColumnarValue, rows: usize) -> Result<bool> {
    if !numbers.data_type().is_integer() {
        return Ok(false);
    }
    let numbers = cast(&numbers.to_array(rows)?, &DataType::Int64)?;
    Ok(numbers.as_primitive::<Int64Type>().iter().any(|it| it == Some(0)))
}

/// Refuses weeks and days of a year for an interval, which has none.
fn check_interval(name: Option<&str>, ty: &DataType) -> Result<()> {
    match (name, ty) {
        (Some(name), DataType::Interval(_) | DataType::Duration(_)) => {
            plan_err!("Date part '{name}' not supported of an interval")
        }
        _ => Ok(()),
    }
}

fn hex(numbers: &ArrayRef) -> ArrayRef {
    let numbers = numbers.as_primitive::<datafusion::arrow::datatypes::Int32Type>();
    let mut builder = StringViewBuilder::with_capacity(numbers.len());
    numbers.iter().for_each(|it| builder.append_option(it.map(|it| format!("{it:x}"))));
    Arc::new(builder.finish())
}

fn parts(part: Part, times: &ArrayRef) -> Result<ArrayRef> {
    if matches!(times.data_type(), DataType::Interval(_) | DataType::Duration(_)) {
        return parts_of_intervals(part, times);
    }
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let (ty, per_second) = match times.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => (nanos, 1_000_000_000),
        // Microseconds do not reach every date.
        DataType::Date32 => (DataType::Timestamp(TimeUnit::Second, None), 1),
        _ => (micros, PER_SECOND),
    };
    let times = cast(&cast(times, &ty)?, &DataType::Int64)?;
    let times = times.as_primitive::<Int64Type>();
    let year = |time: i64| CivilDate::from_days(time.div_euclid(86_400 * per_second)).year;
    let of_minute = |time: i64| time.rem_euclid(60 * per_second) as f64;
    Ok(match part {
        Part::Second => {
            let second = |time| of_minute(time) / per_second as f64;
            Arc::new(times.unary::<_, Float64Type>(second))
        }
        Part::Millis => {
            let millis = |time| of_minute(time) / (per_second / 1_000) as f64;
            Arc::new(times.unary::<_, Float64Type>(millis))
        }
        Part::Julian => {
            let per_day = 86_400 * per_second;
            let julian = |time: i64| {
                let days = (time.div_euclid(per_day) + JULIAN) as f64;
                days + time.rem_euclid(per_day) as f64 / per_day as f64
            };
            Arc::new(times.unary::<_, Float64Type>(julian))
        }
        Part::Decade | Part::Century | Part::Millennium => {
            let years = times.unary::<_, Int64Type>(|time| of_years(part, year(time)));
            cast(&years, &DataType::Int32)?
        }
        _ => return internal_err!("DataFusion has this part of a time"),
    })
}

/// Returns the decade, the century or the millennium of a year; the latter two have no year 0.
fn of_years(part: Part, year: i64) -> i64 {
    let of = |years: i64| match year {
        1.. => (year + years - 1) / years,
        _ => -((years - year) / years),
    };
    match part {
        Part::Decade => year.div_euclid(10),
        Part::Century => of(100),
        _ => of(1_000),
    }
}

fn parts_of_intervals(part: Part, lengths: &ArrayRef) -> Result<ArrayRef> {
    let lengths = as_intervals(lengths)?;
    let lengths = lengths.as_primitive::<IntervalMonthDayNanoType>();
    Ok(match part {
        Part::Second | Part::Millis | Part::Epoch => {
            let value = |it: IntervalMonthDayNano| fraction_of_interval(part, it);
            let values = lengths.iter().map(|it| it.map(value));
            Arc::new(values.collect::<Float64Array>())
        }
        _ => {
            let value = |it: IntervalMonthDayNano| integer_of_interval(part, it);
            let values = lengths.iter().map(|it| it.map(value));
            Arc::new(values.collect::<Int64Array>())
        }
    })
}

fn fraction_of_interval(part: Part, length: IntervalMonthDayNano) -> f64 {
    let micros = length.nanoseconds / 1_000;
    let of_minute = (micros % (60 * PER_SECOND)) as f64;
    match part {
        Part::Second => of_minute / PER_SECOND as f64,
        Part::Millis => of_minute / 1_000.0,
        _ => {
            // A year has 365.25 days here, and a month beside years 30 days.
            let (years, months) = (i64::from(length.months / 12), i64::from(length.months % 12));
            let days =
                years * 1_461 * (PER_DAY / 4) + (months * 30 + i64::from(length.days)) * PER_DAY;
            (i128::from(days) + i128::from(micros)) as f64 / PER_SECOND as f64
        }
    }
}

fn integer_of_interval(part: Part, length: IntervalMonthDayNano) -> i64 {
    let micros = length.nanoseconds / 1_000;
    let (years, months) = (i64::from(length.months / 12), i64::from(length.months % 12));
    match part {
        Part::Micros => micros % (60 * PER_SECOND),
        Part::Minute => micros / (60 * PER_SECOND) % 60,
        Part::Hour => micros / (3_600 * PER_SECOND),
        Part::Day => length.days.into(),
        Part::Month => months,
        Part::Quarter => months / 3 + 1,
        Part::Decade => years / 10,
        Part::Century => years / 100,
        Part::Millennium => years / 1_000,
        _ => years,
    }
}
