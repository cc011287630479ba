//! Intervals as lengths: compared, sorted, multiplied and cast as in PostgreSQL.
//!
//! - intervals-1. Intervals are compared, sorted, grouped and made distinct by their length, where
//!   a day has 24 hours and a month 30 days: `interval length(x)` is the one interval of that
//!   length whose hours are less than a day and whose days are less than a month.
//! - intervals-2. `interval * number` and `interval / number` carry fractions of months into days,
//!   and those of days into time. The difference of two times has neither months nor days.
//! - A time of day that is added to a TIMESTAMP, or subtracted from one, is the interval since
//!   midnight.
//! - DATE + INTERVAL is a TIMESTAMP, and so is a DATE from which a frame of RANGE counts one.
//! - As a text, an interval has PostgreSQL's form.
//!
//! DataFusion compares intervals field by field, so that 30 hours are less than a day.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Int64Array, IntervalMonthDayNanoArray, StringArray,
    StringViewBuilder,
};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit as ArrowIntervalUnit, TimeUnit as ArrowTimeUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::{ScalarFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Union, Volatility, WindowFrameBound,
    WindowFrameUnits, cast, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use tidegate_model::{ColumnType, TimeUnit};
use tidegate_storage::segment::arrow_type;

use super::call_values::call_values;
use super::casts::OnBadText;
use super::day_lengths::as_intervals;
use super::interval_text::{IntervalText, IntervalUnit, duration_nanos, parse_interval_text};
use super::time_text::{TimeScale, parse_time};
use crate::error::{ClauseProblem, Error};
use crate::types::expression_type::{type_beside, type_in};

const MONTH_DAY_NANO: DataType = DataType::Interval(ArrowIntervalUnit::MonthDayNano);
/// A type with all digits of a length in nanoseconds, and of the sum of two integers.
const NUMBER: DataType = DataType::Decimal128(38, 0);
const NANOS_PER_DAY: i128 = 86_400_000_000_000;
const NANOS_PER_MONTH: i128 = 30 * NANOS_PER_DAY;

/// The unit of a number without one.
const SECONDS: IntervalUnit = IntervalUnit::Nanos(1_000_000_000);

/// Returns true for intervals that have months and days.
pub(crate) fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_)))
}

/// True for intervals and for differences of times.
pub(crate) fn is_length(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_)))
}

fn is_time_of_day(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Time32(_) | DataType::Time64(_)))
}

/// Returns the length of an interval as an expression (intervals-1).
pub(crate) fn length_key(expr: Expr) -> Expr {
    if is_length_key(&expr) { expr } else { call(Kind::Length, vec![expr]) }
}

/// Returns the length of an interval as a number, by which windows are sorted: DataFusion has no
/// ranges of intervals, and the default frame is a range.
pub(crate) fn length_number(expr: Expr) -> Expr {
    call(Kind::Number, vec![expr])
}

pub(crate) fn is_length_key(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.inner().downcast_ref::<IntervalFunction>(),
        _ => None,
    }
    .is_some_and(|function| function.kind == Kind::Length)
}

/// Returns a length of time, or a time of day, as an interval (day_lengths-1).
pub(crate) fn as_interval(expr: Expr, schema: &DFSchema) -> Expr {
    if is_interval(&expr, schema) { expr } else { call(Kind::Interval, vec![expr]) }
}

/// Converts all values to intervals, if one is an interval and the others are differences of times
/// or NULL: an expression returns one of them.
pub(crate) fn unify(values: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    let is_difference = |expr: &Expr| is_length(expr, schema) && !is_interval(expr, schema);
    if !values.iter().any(|it| is_interval(it, schema)) || !values.iter().any(is_difference) {
        return values;
    }
    let interval = |value: Expr| match is_difference(&value) {
        true => as_interval(value, schema),
        false => value,
    };
    values.into_iter().map(interval).collect()
}

/// Converts the differences of times in a UNION to intervals, in columns with intervals too.
pub(crate) fn unify_inputs(union: Union) -> Result<Union> {
    let inputs = &union.inputs;
    let of = |at: usize, what: fn(&DataType) -> bool| {
        inputs.iter().any(|it| what(it.schema().field(at).data_type()))
    };
    let is_interval = |ty: &DataType| matches!(ty, DataType::Interval(_));
    let is_difference = |ty: &DataType| matches!(ty, DataType::Duration(_));
    let columns = inputs.iter().map(|it| it.schema().fields().len()).min().unwrap_or_default();
    let is_mixed = |at: &usize| of(*at, is_interval) && of(*at, is_difference);
    let mixed = (0..columns).filter(is_mixed).collect::<Vec<_>>();
    if mixed.is_empty() {
        return Ok(union);
    }
    let converted = |input: Arc<LogicalPlan>| {
        let columns = input.schema().columns().into_iter().enumerate().map(|(at, column)| {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            match mixed.contains(&at) && is_difference(input.schema().field(at).data_type()) {
                true => {
                    let interval = call(Kind::Interval, vec![Expr::Column(column)]);
                    interval.alias_qualified(relation, name)
                }
                false => Expr::Column(column),
            }
        });
        let columns = columns.collect::<Vec<_>>();
        LogicalPlanBuilder::from(input).project(columns)?.build().map(Arc::new)
    };
    let inputs = union.inputs.into_iter().map(converted).collect::<Result<_>>()?;
    Union::try_new_with_loose_types(inputs)
}

/// Returns the longest or the shortest of some lengths of time, with its months, days and time.
pub(crate) fn greatest_or_least(is_greatest: bool, lengths: Vec<Expr>) -> Expr {
    let kind = if is_greatest { Kind::Greatest } else { Kind::Least };
    call(kind, lengths)
}

/// Compares two lengths of time, if one of them is an interval.
pub(crate) fn compare(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let are_lengths = is_length(left, schema) && is_length(right, schema);
    if !are_lengths || !(is_interval(left, schema) || is_interval(right, schema)) {
        return None;
    }
    let side = |expr: &Expr| Box::new(length_key(expr.clone()));
    Some(Expr::BinaryExpr(BinaryExpr::new(side(left), op, side(right))))
}

/// Returns the two sides of a comparison. A constant INTERVAL next to the difference of two times
/// becomes a duration: DataFusion compares intervals by months and days first.
pub(crate) fn as_durations(left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    let is_counted = |expr: &Expr| {
        matches!(expr.get_type(schema), Ok(DataType::Duration(_)))
            && !matches!(expr, Expr::Literal(..))
    };
    let length = |expr: &Expr, other: &Expr| match expr {
        Expr::Literal(value, _) if is_counted(other) => {
            duration_of(value, &other.get_type(schema).ok()?)
        }
        _ => None,
    };
    match (length(&left, &right), length(&right, &left)) {
        (None, Some(by)) => (left, lit(by)),
        (Some(by), None) => (lit(by), right),
        _ => (left, right),
    }
}

/// Returns an interval as a duration of this type, in which months have 30 days; `None` if the type
/// is not a duration, or cannot hold it exactly.
fn duration_of(value: &ScalarValue, ty: &DataType) -> Option<ScalarValue> {
    let ScalarValue::IntervalMonthDayNano(Some(by)) = value else { return None };
    let nanos = total_nanos(*by);
    let count = |worth: i128| i64::try_from(nanos / worth).ok().filter(|_| nanos % worth == 0);
    match ty {
        DataType::Duration(ArrowTimeUnit::Microsecond) => {
            count(1_000).map(|micros| ScalarValue::DurationMicrosecond(Some(micros)))
        }
        DataType::Duration(ArrowTimeUnit::Nanosecond) => {
            count(1).map(|nanos| ScalarValue::DurationNanosecond(Some(nanos)))
        }
        _ => None,
    }
}

/// A text beside an interval as an interval.
pub(crate) fn text_as_length(expr: Expr, other: &Expr, schema: &DFSchema) -> Result<Expr> {
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
    ClauseProblem::IntervalText { text: text.to_owned() }.into()
}

/// Returns an arithmetic operator with a length of time or a DATE; `None` if DataFusion plans it
/// correctly.
pub(crate) fn arithmetic(
    left: &Expr,
    op: &BinaryOperator,
    right: &Expr,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let is = |expr: &Expr| is_length(expr, schema);
    let ty = |expr: &Expr| type_beside(expr, schema);
    let number = |expr: &Expr| ty(expr).is_some_and(is_number);
    let (minus, times) = (*op == BinaryOperator::Minus, *op == BinaryOperator::Multiply);
    if times && is(left) && number(right) {
        return Ok(Some(scaled(left, Kind::Multiply, right)));
    }
    if times && number(left) && is(right) {
        return Ok(Some(scaled(right, Kind::Multiply, left)));
    }
    if *op == BinaryOperator::Divide && is(left) && number(right) {
        return Ok(Some(scaled(left, Kind::Divide, right)));
    }
    if !minus && *op != BinaryOperator::Plus {
        return Ok(None);
    }
    let sum = |left: Expr, right: Expr| {
        let op = if minus { Operator::Minus } else { Operator::Plus };
        Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
    };
    let timestamp = || arrow_type(ColumnType::Timestamp(TimeUnit::Micros));
    let interval = |expr: &Expr| as_interval(expr.clone(), schema);
    Ok(match (ty(left), ty(right)) {
        (Some(ColumnType::Timestamp(_)), _) if is_time_of_day(right, schema) => {
            sum(left.clone(), interval(right))
        }
        (_, Some(ColumnType::Timestamp(_))) if is_time_of_day(left, schema) && !minus => {
            sum(right.clone(), interval(left))
        }
        (Some(ColumnType::Date), _) if is_time_of_day(right, schema) && minus => {
            sum(cast(left.clone(), timestamp()), interval(right))
        }
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

/// Returns a length multiplied or divided by a number. The number keeps its type, which may not be
/// known yet: that of a CASE in a subquery is not.
fn scaled(length: &Expr, kind: Kind, by: &Expr) -> Expr {
    call(kind, vec![length.clone(), by.clone()])
}

/// Refuses a RANGE frame with an offset over intervals: DataFusion has no distances between them.
pub(crate) fn check_frame(params: &WindowFunctionParams, schema: &DFSchema) -> Result<()> {
    let WindowFunctionParams { order_by, window_frame: frame, .. } = params;
    let is_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => !by.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    let has_offset = is_offset(&frame.start_bound) || is_offset(&frame.end_bound);
    if frame.units == WindowFrameUnits::Range
        && has_offset
        && order_by.iter().any(|key| is_interval(&key.expr, schema))
    {
        let feature = "RANGE with an offset over INTERVAL values";
        return Err(Error::NotSupported { position: None, feature }.into());
    }
    Ok(())
}

/// Reads the lengths of a frame of RANGE over times, and makes a DATE a TIMESTAMP where the frame
/// has some. An integer gets a type in which the ends of the frame fit: DataFusion takes an end
/// beyond the type for one without bound, which includes rows with NULL. True if it changed
/// anything.
pub(crate) fn with_frame_lengths(
    params: &mut WindowFunctionParams,
    schema: &DFSchema,
) -> Result<bool> {
    let frame = &mut params.window_frame;
    let Some(key) = params.order_by.first_mut() else { return Ok(false) };
    let ty = type_in(&key.expr, schema);
    if frame.units == WindowFrameUnits::Range && ty.is_some_and(ColumnType::is_integer) {
        let is_offset = |bound: &WindowFrameBound| match bound {
            WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => !by.is_null(),
            WindowFrameBound::CurrentRow => false,
        };
        if ![&frame.start_bound, &frame.end_bound].into_iter().any(is_offset) {
            return Ok(false);
        }
        let is_long = key.expr.get_type(schema)?.primitive_width() == Some(size_of::<i64>());
        let wider = if is_long { NUMBER } else { DataType::Int64 };
        key.expr = cast(key.expr.clone(), wider);
        return Ok(true);
    }
    if frame.units != WindowFrameUnits::Range
        || !matches!(ty, Some(ColumnType::Date | ColumnType::Timestamp(_)))
    {
        return Ok(false);
    }
    let mut is_changed = false;
    for bound in [&mut frame.start_bound, &mut frame.end_bound] {
        let (WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by)) = bound else {
            continue;
        };
        let Some(text) = by.try_as_str().flatten() else { continue };
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ClauseProblem::FrameWithoutUnit { length: text.to_owned() }.into());
        }
        let length = parse_interval_text(text, SECONDS).ok_or_else(|| bad_text(text))?;
        *by = ScalarValue::IntervalMonthDayNano(Some(length));
        is_changed = true;
    }
    if is_changed && ty == Some(ColumnType::Date) {
        key.expr = cast(key.expr.clone(), arrow_type(ColumnType::Timestamp(TimeUnit::Micros)));
    }
    Ok(is_changed)
}

/// The text of an interval, or of the difference of two times.
pub(crate) fn text(expr: Expr) -> Expr {
    call(Kind::Text, vec![expr])
}

/// The cast of a text to an interval.
pub(crate) fn cast_text(expr: &Expr, on_bad_text: OnBadText) -> Expr {
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
    Multiply,
    Divide,
    OfText(OnBadText),
    Text,
    Interval,
    Greatest,
    Least,
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
            Kind::Multiply => "interval times",
            Kind::Divide => "interval over",
            Kind::OfText(_) => "cast as interval",
            Kind::Text => "cast interval as varchar",
            Kind::Interval => "interval of days",
            Kind::Greatest => "greatest interval",
            Kind::Least => "least interval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(match (self.kind, &args[0]) {
            (Kind::Multiply | Kind::Divide, DataType::Duration(unit)) => DataType::Duration(*unit),
            (Kind::Number, _) => NUMBER,
            (Kind::Text, _) => DataType::Utf8View,
            _ => MONTH_DAY_NANO,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        call_values(&args.args, args.number_rows, |arrays, _| {
            let first = &arrays[0];
            Ok(match self.kind {
                Kind::Length => {
                    let lengths = totals(first)?.into_iter().map(|total| total.map(length));
                    Arc::new(lengths.collect::<IntervalMonthDayNanoArray>())
                }
                Kind::Number => {
                    let numbers = totals(first)?.into_iter().collect::<Decimal128Array>();
                    Arc::new(numbers.with_data_type(NUMBER))
                }
                Kind::Text => texts(first)?,
                Kind::Interval => as_intervals(first)?,
                Kind::Greatest | Kind::Least => {
                    let all = arrays.iter().map(as_intervals);
                    bounds(&all.collect::<Result<Vec<_>>>()?, self.kind == Kind::Greatest)
                }
                Kind::OfText(on_bad_text) => of_texts(first, on_bad_text)?,
                Kind::Multiply | Kind::Divide => scale_all(first, self.kind, &arrays[1])?,
            })
        })
    }
}

/// The length of an interval (intervals-1).
pub(crate) fn total_nanos(value: IntervalMonthDayNano) -> i128 {
    i128::from(value.months) * NANOS_PER_MONTH
        + i128::from(value.days) * NANOS_PER_DAY
        + i128::from(value.nanoseconds)
}

/// The lengths of intervals, and of differences of times. Those may have more nanoseconds than an
/// interval holds.
fn totals(values: &ArrayRef) -> Result<Vec<Option<i128>>> {
    if let DataType::Duration(unit) = values.data_type() {
        let counts = cast_array(values, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>().iter();
        return Ok(counts.map(|count| count.map(|count| duration_nanos(count, *unit))).collect());
    }
    let values = cast_array(values, &MONTH_DAY_NANO)?;
    let values = values.as_primitive::<IntervalMonthDayNanoType>().iter();
    Ok(values.map(|value| value.map(total_nanos)).collect())
}

/// The longest or the shortest interval of each row, of those that are not NULL.
fn bounds(all: &[ArrayRef], is_greatest: bool) -> ArrayRef {
    let all = all.iter().map(|it| it.as_primitive::<IntervalMonthDayNanoType>());
    let all = all.collect::<Vec<_>>();
    let bound = |row: usize| {
        let known = all.iter().filter(|it| it.is_valid(row)).map(|it| it.value(row));
        known.reduce(|bound, next| {
            let (bound_nanos, next_nanos) = (total_nanos(bound), total_nanos(next));
            let is_beyond = match is_greatest {
                true => bound_nanos < next_nanos,
                false => next_nanos < bound_nanos,
            };
            if is_beyond { next } else { bound }
        })
    };
    let rows = all.first().map_or(0, |it| it.len());
    Arc::new((0..rows).map(bound).collect::<IntervalMonthDayNanoArray>())
}

/// The texts of intervals, and of differences of times.
fn texts(values: &ArrayRef) -> Result<ArrayRef> {
    let shown: Vec<Option<IntervalText>> = match values.data_type() {
        DataType::Duration(unit) => {
            let counts = cast_array(values, &DataType::Int64)?;
            let counts = counts.as_primitive::<Int64Type>().iter();
            counts.map(|count| Some(IntervalText::of_duration(count?, *unit))).collect()
        }
        _ => {
            let values = cast_array(values, &MONTH_DAY_NANO)?;
            let values = values.as_primitive::<IntervalMonthDayNanoType>().iter();
            values.map(|value| value.map(IntervalText::from)).collect()
        }
    };
    let mut texts = StringViewBuilder::with_capacity(shown.len());
    for value in shown {
        texts.append_option(value.map(|value| value.to_string()));
    }
    Ok(Arc::new(texts.finish()))
}

/// The one interval of this length (intervals-1). Its fields have one sign, so that they are
/// ordered as lengths are.
fn length(total: i128) -> IntervalMonthDayNano {
    let rest = total % NANOS_PER_MONTH;
    // No length of 64 bits of days and nanoseconds lies beyond this.
    let months = (total / NANOS_PER_MONTH).clamp(i128::from(i32::MIN), i128::from(i32::MAX));
    IntervalMonthDayNano {
        months: i32::try_from(months).expect("it is clamped"),
        days: i32::try_from(rest / NANOS_PER_DAY).expect("less than 30"),
        nanoseconds: i64::try_from(rest % NANOS_PER_DAY).expect("less than a day"),
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
    let is_integer = by.data_type().is_integer() && *by.data_type() != DataType::UInt64;
    if kind == Kind::Multiply && is_integer {
        let by = cast_array(by, &DataType::Int64)?;
        let by = by.as_primitive::<Int64Type>().iter();
        return Ok(by.map(|by| by.map(Factor::TimesInteger)).collect());
    }
    let by = cast_array(by, &DataType::Float64)?;
    let factor = |by: f64| if kind == Kind::Divide { divided(by) } else { Ok(Factor::Times(by)) };
    by.as_primitive::<Float64Type>().iter().map(|by| by.map(factor).transpose()).collect()
}

fn out_of_range() -> DataFusionError {
    ClauseProblem::TimeRange.into()
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

/// Divides an interval by a number that is not 0 (intervals-2).
pub(crate) fn divided(length: IntervalMonthDayNano, by: i64) -> Result<IntervalMonthDayNano> {
    #[expect(clippy::cast_precision_loss, reason = "fractions are rounded anyway")]
    scale(length, Factor::Over(by as f64))
}

/// Multiplies a length (intervals-2).
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
            let [left, right] = [a, b].map(|text| length(total_nanos(of(text))));
            assert_eq!(left, right, "intervals-1: {a} {b}");
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
            let [less, more] = [pair[0], pair[1]].map(|text| length(total_nanos(of(text))));
            assert!(less < more, "intervals-1: {pair:?}");
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
            assert_eq!(scaled, expected, "intervals-2: {text} {factor:?}");
        }
        assert!(scale(of("1 year"), Factor::Times(1e9)).is_err());
        assert!(scale_count(i64::MAX, Factor::TimesInteger(2)).is_err());
    }
}
