//! Intervals as lengths: compared, sorted, multiplied and cast as in PostgreSQL.
//!
//! - IV1. Intervals are compared, sorted, grouped and made distinct by their length, where a day
//!   has 24 hours and a month 30 days: `interval length(x)` is the one interval of that length
//!   whose hours are less than a day and whose days are less than a month.
//! - IV2. `interval * number` and `interval / number` carry fractions of months into days, and
//!   those of days into time. The difference of two times has neither months nor days.
//! - IV3. DATE + INTERVAL is a TIMESTAMP.
//!
//! DataFusion compares intervals field by field, so that 30 hours are less than a day.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, StringArray,
};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit as ArrowIntervalUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use tidegate_model::{ColumnType, TimeUnit};
use tidegate_storage::segment::arrow_type;

use super::casts::OnBadText;
use super::coerce::type_in;
use super::interval_text::{IntervalUnit, parse_interval_text};
use super::time_text::{TimeScale, parse_time};
use crate::error::{ClauseProblem, Error};

const MONTH_DAY_NANO: DataType = DataType::Interval(ArrowIntervalUnit::MonthDayNano);
/// A type with all digits of a length in nanoseconds.
const NUMBER: DataType = DataType::Decimal128(38, 0);
const PER_DAY: i128 = 86_400_000_000_000;
const PER_MONTH: i128 = 30 * PER_DAY;

/// The unit of a number without one.
const SECONDS: IntervalUnit = IntervalUnit::Nanos(1_000_000_000);

/// Returns true for intervals that have months and days.
pub(super) fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_)))
}

/// Returns true for intervals and for differences of times.
fn is_length(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_)))
}

/// Returns the length of an interval as an expression (IV1).
pub(super) fn length_key(expr: Expr) -> Expr {
    if is_length_key(&expr) { expr } else { call(Kind::Length, vec![expr]) }
}

/// Returns the length of an interval as a number, by which windows are sorted: DataFusion has no
/// ranges of intervals, and the default frame is a range.
pub(super) fn length_number(expr: Expr) -> Expr {
    call(Kind::Number, vec![expr])
}

pub(super) fn is_length_key(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.inner().downcast_ref::<IntervalFunction>(),
        _ => None,
    }
    .is_some_and(|function| function.kind == Kind::Length)
}

/// Compares two lengths of time, if one of them is an interval.
pub(super) fn compare(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let are_lengths = is_length(left, schema) && is_length(right, schema);
    if !are_lengths || !(is_interval(left, schema) || is_interval(right, schema)) {
        return None;
    }
    let side = |expr: &Expr| Box::new(length_key(expr.clone()));
    Some(Expr::BinaryExpr(BinaryExpr::new(side(left), op, side(right))))
}

/// Returns a text beside an interval as an interval.
pub(super) fn text_as_length(expr: Expr, other: &Expr, schema: &DFSchema) -> Result<Expr> {
    match text_of(&expr).filter(|_| is_length(other, schema)) {
        Some(text) => literal_of(text),
        None => Ok(expr),
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

fn literal_of(text: &str) -> Result<Expr> {
    let value = parse_interval_text(text, SECONDS).ok_or_else(|| bad_text(text))?;
    Ok(lit(ScalarValue::IntervalMonthDayNano(Some(value))))
}

fn bad_text(text: &str) -> DataFusionError {
    let what = ClauseProblem::IntervalText { text: text.to_owned() };
    Error::Clause { position: None, what }.into()
}

/// Returns an arithmetic operator with a length of time or a DATE; `None` if DataFusion plans it
/// correctly.
pub(super) fn arithmetic(
    left: &Expr,
    op: &BinaryOperator,
    right: &Expr,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let is = |expr: &Expr| is_length(expr, schema);
    let ty = |expr: &Expr| type_in(expr, schema);
    let number = |expr: &Expr| ty(expr).is_some_and(is_number);
    let (minus, times) = (*op == BinaryOperator::Minus, *op == BinaryOperator::Multiply);
    if times && is(left) && number(right) {
        return Ok(Some(scaled(left, Kind::Times, right, schema)));
    }
    if times && number(left) && is(right) {
        return Ok(Some(scaled(right, Kind::Times, left, schema)));
    }
    if *op == BinaryOperator::Divide && is(left) && number(right) {
        return Ok(Some(scaled(left, Kind::Over, right, schema)));
    }
    if !minus && *op != BinaryOperator::Plus {
        return Ok(None);
    }
    let sum = |left: Expr, right: Expr| {
        let op = if minus { Operator::Minus } else { Operator::Plus };
        Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
    };
    let timestamp = || arrow_type(ColumnType::Timestamp(TimeUnit::Micros));
    let interval = |expr: &Expr| cast(expr.clone(), MONTH_DAY_NANO);
    Ok(match (ty(left), ty(right)) {
        // IV3.
        (Some(ColumnType::Date), _) if is(right) => {
            sum(cast(left.clone(), timestamp()), right.clone())
        }
        (_, Some(ColumnType::Date)) if is(left) && !minus => {
            sum(cast(right.clone(), timestamp()), left.clone())
        }
        (Some(ty @ (ColumnType::Timestamp(_) | ColumnType::Date)), _) => match text_of(right) {
            // Subtracted from a time, a text of a time is a time; any other text is an interval.
            Some(text)
                if minus && TimeScale::of(ty).is_some_and(|it| parse_time(text, it).is_ok()) =>
            {
                None
            }
            Some(text) => {
                return arithmetic(left, op, &literal_of(text)?, schema)
                    .map(|planned| planned.or_else(|| sum(left.clone(), literal_of(text).ok()?)));
            }
            None => None,
        },
        _ if is_interval(left, schema) && is(right) && !is_interval(right, schema) => {
            sum(left.clone(), interval(right))
        }
        _ if is(left) && !is_interval(left, schema) && is_interval(right, schema) => {
            sum(interval(left), right.clone())
        }
        _ => None,
    })
}

fn is_number(ty: ColumnType) -> bool {
    let is_float = matches!(ty, ColumnType::Float32 | ColumnType::Float64);
    ty.is_integer() || is_float || matches!(ty, ColumnType::Decimal { .. })
}

fn scaled(length: &Expr, kind: Kind, by: &Expr, schema: &DFSchema) -> Expr {
    let is_integer = type_in(by, schema).is_some_and(ColumnType::is_integer);
    let by_type = if is_integer { DataType::Int64 } else { DataType::Float64 };
    call(kind, vec![length.clone(), cast(by.clone(), by_type)])
}

/// Returns the cast of a text to an interval.
pub(super) fn cast_text(expr: &Expr, on_bad_text: OnBadText) -> Expr {
    call(Kind::OfText(on_bad_text), vec![expr.clone()])
}

fn call(kind: Kind, args: Vec<Expr>) -> Expr {
    let signature = Signature::any(args.len(), Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(IntervalFunction { kind, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Length,
    Number,
    Times,
    Over,
    OfText(OnBadText),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalFunction {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for IntervalFunction {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Length => "interval length",
            Kind::Number => "interval nanoseconds",
            Kind::Times => "interval times",
            Kind::Over => "interval over",
            Kind::OfText(_) => "cast as interval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(match (self.kind, &args[0]) {
            (Kind::Times | Kind::Over, DataType::Duration(unit)) => DataType::Duration(*unit),
            (Kind::Number, _) => NUMBER,
            _ => MONTH_DAY_NANO,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let first = args.args[0].to_array(rows)?;
        let values: ArrayRef = match self.kind {
            Kind::Length => {
                let values = cast_array(&first, &MONTH_DAY_NANO)?;
                let values = values.as_primitive::<IntervalMonthDayNanoType>();
                Arc::new(values.unary::<_, IntervalMonthDayNanoType>(length))
            }
            Kind::Number => {
                let values = cast_array(&first, &MONTH_DAY_NANO)?;
                let values = values.as_primitive::<IntervalMonthDayNanoType>();
                let numbers = values.unary::<_, Decimal128Type>(total_nanos);
                Arc::new(numbers.with_data_type(NUMBER))
            }
            Kind::OfText(on_bad_text) => of_texts(&first, on_bad_text)?,
            Kind::Times | Kind::Over => {
                let by = args.args[1].to_array(rows)?;
                scale_all(&first, self.kind, &by)?
            }
        };
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

fn total_nanos(value: IntervalMonthDayNano) -> i128 {
    i128::from(value.months) * PER_MONTH
        + i128::from(value.days) * PER_DAY
        + i128::from(value.nanoseconds)
}

/// Returns the one interval of this length (IV1). Its fields have one sign, so that their order is
/// that of lengths.
fn length(value: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let total = total_nanos(value);
    let rest = total % PER_MONTH;
    // No length of 64 bits of days and nanoseconds lies beyond this.
    let months = (total / PER_MONTH).clamp(i128::from(i32::MIN), i128::from(i32::MAX));
    IntervalMonthDayNano {
        months: i32::try_from(months).expect("it is clamped"),
        days: i32::try_from(rest / PER_DAY).expect("less than 30"),
        nanoseconds: i64::try_from(rest % PER_DAY).expect("less than a day"),
    }
}

fn of_texts(texts: &ArrayRef, on_bad_text: OnBadText) -> Result<ArrayRef> {
    let texts = cast_array(texts, &DataType::Utf8)?;
    let texts: &StringArray = texts.as_string();
    let parse = |text: Option<&str>| match text {
        None => Ok(None),
        Some(text) => match (parse_interval_text(text, SECONDS), on_bad_text) {
            (None, OnBadText::Fail) => Err(bad_text(text)),
            (value, _) => Ok(value),
        },
    };
    let values = texts.iter().map(parse).collect::<Result<IntervalMonthDayNanoArray>>()?;
    Ok(Arc::new(values))
}

/// A factor, or a divisor.
#[derive(Debug, Clone, Copy)]
enum Factor {
    TimesInteger(i64),
    Times(f64),
    Over(f64),
}

impl Factor {
    fn apply(self, value: f64) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "used for fractions only")]
            Factor::TimesInteger(by) => value * by as f64,
            Factor::Times(by) => value * by,
            Factor::Over(by) => value / by,
        }
    }
}

fn scale_all(lengths: &ArrayRef, kind: Kind, by: &ArrayRef) -> Result<ArrayRef> {
    let factors = factors(kind, by)?;
    if matches!(lengths.data_type(), DataType::Duration(_)) {
        let counts = cast_array(lengths, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let scaled = counts.iter().zip(factors).map(|pair| match pair {
            (Some(count), Some(factor)) => Ok(Some(scale_count(count, factor)?)),
            _ => Ok(None),
        });
        let scaled = scaled.collect::<Result<Int64Array>>()?;
        return Ok(cast_array(&scaled, lengths.data_type())?);
    }
    let lengths = cast_array(lengths, &MONTH_DAY_NANO)?;
    let lengths = lengths.as_primitive::<IntervalMonthDayNanoType>();
    let scaled = lengths.iter().zip(factors).map(|pair| match pair {
        (Some(length), Some(factor)) => Ok(Some(scale(length, factor)?)),
        _ => Ok(None),
    });
    Ok(Arc::new(scaled.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

fn factors(kind: Kind, by: &ArrayRef) -> Result<Vec<Option<Factor>>> {
    let divided = |by: f64| match by == 0.0 {
        true => Err(DataFusionError::from(ArrowError::DivideByZero)),
        false => Ok(Factor::Over(by)),
    };
    if kind == Kind::Times && *by.data_type() == DataType::Int64 {
        let by = by.as_primitive::<Int64Type>().iter();
        return Ok(by.map(|by| by.map(Factor::TimesInteger)).collect());
    }
    let by = cast_array(by, &DataType::Float64)?;
    let factor = |by: f64| if kind == Kind::Over { divided(by) } else { Ok(Factor::Times(by)) };
    by.as_primitive::<Float64Type>().iter().map(|by| by.map(factor).transpose()).collect()
}

fn out_of_range() -> DataFusionError {
    Error::Clause { position: None, what: ClauseProblem::TimeRange }.into()
}

fn scale_count(count: i64, factor: Factor) -> Result<i64> {
    match factor {
        Factor::TimesInteger(by) => count.checked_mul(by).ok_or_else(out_of_range),
        #[expect(clippy::cast_precision_loss, reason = "fractions are rounded anyway")]
        factor => whole(factor.apply(count as f64)),
    }
}

/// Returns the nearest integer; an error if 64 bits cannot hold it.
fn whole(value: f64) -> Result<i64> {
    let rounded = value.round_ties_even();
    // -2^63 is a double, 2^63 - 1 is none.
    if !(-9.223_372_036_854_775e18..=9.223_372_036_854_775e18).contains(&rounded) {
        return Err(out_of_range());
    }
    #[expect(clippy::cast_possible_truncation, reason = "within the bounds above")]
    Ok(rounded as i64)
}

fn small(value: i64) -> Result<i32> {
    i32::try_from(value).map_err(|_| out_of_range())
}

/// Multiplies a length (IV2).
fn scale(length: IntervalMonthDayNano, factor: Factor) -> Result<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = length;
    if let Factor::TimesInteger(by) = factor {
        let small = |value: i32| i64::from(value).checked_mul(by).ok_or_else(out_of_range);
        return Ok(IntervalMonthDayNano {
            months: self::small(small(months)?)?,
            days: self::small(small(days)?)?,
            nanoseconds: nanoseconds.checked_mul(by).ok_or_else(out_of_range)?,
        });
    }
    // Rounded as in PostgreSQL: a third of a month is ten days, and no microsecond less.
    let rounded = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let (month, day) = (factor.apply(months.into()), factor.apply(days.into()));
    let of_month = rounded((month - month.trunc()) * 30.0);
    let seconds = rounded((day - day.trunc() + of_month - of_month.trunc()) * 86_400.0);
    let more_days = (seconds / 86_400.0).trunc();
    let seconds = seconds - more_days * 86_400.0;
    #[expect(clippy::cast_precision_loss, reason = "fractions are rounded anyway")]
    let time = factor.apply(nanoseconds as f64) + seconds * 1e9;
    Ok(IntervalMonthDayNano {
        months: small(whole(month.trunc())?)?,
        days: small(whole(day.trunc() + of_month.trunc() + more_days)?)?,
        nanoseconds: whole(time)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> IntervalMonthDayNano {
        parse_interval_text(text, SECONDS).unwrap()
    }

    #[test]
    fn equal_lengths_are_one_interval() {
        for (a, b) in [
            ("24 hours", "1 day"),
            ("30 days", "1 month"),
            ("-1 hour", "-60 minutes"),
            ("1 month -30 days", "0"),
            ("1 month -1 day", "29 days"),
            ("-36 hours", "-1 day -12 hours"),
        ] {
            assert_eq!(length(of(a)), length(of(b)), "IV1: {a} {b}");
        }
        let ascending = [
            "-2 months",
            "-1 month -1 hour",
            "-30 hours",
            "-1 day",
            "-1 hour",
            "0",
            "23 hours",
            "1 day",
            "30 hours",
            "29 days",
            "1 month",
            "31 days",
            "1 year",
        ];
        for pair in ascending.windows(2) {
            assert!(length(of(pair[0])) < length(of(pair[1])), "IV1: {pair:?}");
        }
    }

    /// The answers are those of PostgreSQL 15.
    #[test]
    fn fractions_go_on_into_the_next_field() {
        for (text, factor, expected) in [
            ("1 month", Factor::Times(0.5), "15 days"),
            ("1 month", Factor::Over(3.0), "10 days"),
            ("1 month", Factor::Over(7.0), "4 days 06:51:25.6896"),
            ("10 days", Factor::Over(3.0), "3 days 08:00:00"),
            ("1 year 3 days 2 hours", Factor::Times(2.7), "2 years 8 mons 20 days 07:48:00"),
            ("1 year", Factor::Over(7.0), "1 month 21 days 10:17:08.5344"),
            ("1 day", Factor::Times(1.5), "1 day 12:00:00"),
            ("1 hour", Factor::Over(3.0), "00:20:00"),
            ("1 mon 1 day 1 hour", Factor::Times(-0.5), "-15 days -12:30:00"),
            ("1 day 1 hour", Factor::TimesInteger(3), "3 days 3 hours"),
        ] {
            let scaled = scale(of(text), factor).unwrap();
            let scaled = (scaled.months, scaled.days, (scaled.nanoseconds + 500) / 1_000);
            let expected = of(expected);
            let expected = (expected.months, expected.days, (expected.nanoseconds + 500) / 1_000);
            assert_eq!(scaled, expected, "IV2: {text} {factor:?}");
        }
        assert!(scale(of("1 year"), Factor::Times(1e9)).is_err());
        assert!(scale_count(i64::MAX, Factor::TimesInteger(2)).is_err());
    }
}
