//! `date_bin`: the start of the bin that a time lies in, for all times of a type.
//!
//! - Bins of days and time are PostgreSQL's: those before the origin too, and a start that the type
//!   has no time for is an error.
//! - Bins of months are DataFusion's: they begin on the day of the origin, or the last day of a
//!   shorter month, and a start that the type has no time for is NULL.
//! - The width and the origin are constants; without an origin, bins are counted from 1970.
//!
//! Not here: a TIME, whose bins DataFusion finds.

use std::cell::Cell;
use std::slice::from_ref;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit as ArrowUnit,
};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, internal_err, plan_err};
use datafusion::functions::datetime::date_bin as time_of_day_bin;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use tidegate_model::time::CivilDate;
use tidegate_model::{ColumnType, TimeUnit};

use super::date_trunc::{counts, time_type};
use super::time::months_later;
use crate::error::ClauseProblem;
use crate::types::call_values::call_values;
use crate::types::casts::OnBadText;
use crate::types::coercion::{bad_text, text_of};
use crate::types::expression_type::type_in;
use crate::types::intervals;
use crate::types::literal::value_of_text;

const USAGE: &str = "date_bin takes an interval, a time, and perhaps the start of a bin";
const PER_DAY: i128 = 86_400_000_000_000;

/// Returns the function `date_bin`.
pub(crate) fn date_bin() -> ScalarUDF {
    ScalarUDF::new_from_impl(DateBin { signature: Signature::user_defined(Volatility::Immutable) })
}

/// Converts the texts among the arguments of `date_bin`: the width to an interval, and constants to
/// times, so that an error has its place.
pub(crate) fn with_values(args: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    const NANOS: ColumnType = ColumnType::Timestamp(TimeUnit::Nanos);
    let is_fine = args.get(1).is_some_and(|time| type_in(time, schema) == Some(NANOS));
    let ty = if is_fine { NANOS } else { ColumnType::Timestamp(TimeUnit::Micros) };
    let converted = |(at, arg): (usize, Expr)| -> Result<Expr> {
        if at == 0 {
            let is_text = arg.get_type(schema)?.is_string();
            return Ok(if is_text { intervals::cast_text(&arg, OnBadText::Fail) } else { arg });
        }
        let time = |text| Some(value_of_text(text, ty)?.map_err(bad_text(text, ty)));
        let time = text_of(&arg).and_then(time).transpose()?;
        Ok(time.map_or(arg, lit))
    };
    args.into_iter().enumerate().map(converted).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateBin {
    signature: Signature,
}

impl ScalarUDFImpl for DateBin {
    fn name(&self) -> &'static str {
        "date_bin"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let ([stride, time] | [stride, time, _]) = args else { return no_match(args) };
        let is_length = matches!(stride, DataType::Interval(_) | DataType::Duration(_));
        if !is_length && !stride.is_string() && !stride.is_null() {
            return no_match(args);
        }
        let is_of_day = |ty: &DataType| matches!(ty, DataType::Time32(_) | DataType::Time64(_));
        let mut types = vec![DataType::Interval(IntervalUnit::MonthDayNano)];
        if is_of_day(time) && args.get(2).is_none_or(|origin| origin == time) {
            types.extend(args[1..].iter().cloned());
            return Ok(types);
        }
        for ty in &args[1..] {
            match time_type(ty) {
                Some(ty) => types.push(ty),
                None => return no_match(args),
            }
        }
        Ok(types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of date_bin follows from its arguments")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let ty = match args.arg_fields[1].data_type() {
            text if text.is_string() => DataType::Timestamp(ArrowUnit::Microsecond, None),
            ty => ty.clone(),
        };
        // Bins of months may be NULL.
        let is_plain = matches!(args.scalar_arguments.first(),
            Some(Some(ScalarValue::IntervalMonthDayNano(Some(stride)))) if stride.months == 0);
        let is_nullable = !is_plain || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), ty, is_nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    /// Returns the order of the times, unless they are texts.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let Some((stride, [time, origin @ ..])) = inputs.split_first() else {
            return Ok(SortProperties::Unordered);
        };
        let is_constant = |it: &ExprProperties| it.sort_properties == SortProperties::Singleton;
        let is_time = !time.range.data_type().is_string();
        Ok(match is_time && is_constant(stride) && origin.iter().all(is_constant) {
            true => time.sort_properties,
            false => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ty = args.return_field.data_type();
        if matches!(ty, DataType::Time32(_) | DataType::Time64(_)) {
            return time_of_day_bin().invoke_with_args(args);
        }
        let (stride, time, origin) = match args.args.as_slice() {
            [ColumnarValue::Scalar(stride), time] => (stride, time, None),
            [ColumnarValue::Scalar(stride), time, ColumnarValue::Scalar(origin)] => {
                (stride, time, Some(origin))
            }
            _ => return plan_err!("the width and the origin of date_bin are constants"),
        };
        call_values(from_ref(time), args.number_rows, |times, _| {
            starts(stride, &times[0], origin, ty)
        })
    }
}

fn no_match<T>(args: &[DataType]) -> Result<T> {
    let types = args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    plan_err!("{USAGE}, not the argument types 'date_bin({types})'")
}

/// The width of bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Nanos(i128),
    Months(i64),
}

fn width_of(stride: IntervalMonthDayNano) -> Result<Width> {
    let refused = |what| {
        let (function, value) = ("date_bin".to_owned(), "this width".to_owned());
        Err(ClauseProblem::ArgumentValue { function, value, what }.into())
    };
    let nanos = i128::from(stride.days) * PER_DAY + i128::from(stride.nanoseconds);
    match i64::from(stride.months) {
        0 if nanos <= 0 => refused("it must be greater than 0"),
        0 => Ok(Width::Nanos(nanos)),
        _ if nanos != 0 || stride.days != 0 => refused("months and days do not mix"),
        ..0 => refused("it must be greater than 0"),
        months => Ok(Width::Months(months)),
    }
}

/// Returns the starts of the bins of times, as times of a type.
fn starts(
    stride: &ScalarValue,
    times: &ArrayRef,
    origin: Option<&ScalarValue>,
    ty: &DataType,
) -> Result<ArrayRef> {
    let ScalarValue::IntervalMonthDayNano(stride) = stride else {
        return internal_err!("the width of date_bin is an interval");
    };
    let nulls = || Ok(new_null_array(ty, times.len()));
    let Some(stride) = *stride else { return nulls() };
    let of = match ty {
        DataType::Timestamp(ArrowUnit::Nanosecond, _) => TimeUnit::Nanos,
        _ => TimeUnit::Micros,
    };
    let origin = match origin {
        None => 0,
        Some(origin) if origin.is_null() => return nulls(),
        Some(origin) => origin_nanos(origin)?,
    };
    let width = width_of(stride)?;
    let times = counts(times, of)?;
    let starts = match width {
        Width::Nanos(width) => in_nanos(&times, of, width, origin)?,
        Width::Months(months) => {
            let origin = i64::try_from(origin.div_euclid(worth(of)));
            let origin = origin.map_err(|_| ClauseProblem::TimeRange)?;
            in_months(&times, of, months, origin)
        }
    };
    Ok(cast(&starts, ty)?)
}

/// Returns the nanoseconds of a unit of time.
fn worth(of: TimeUnit) -> i128 {
    i128::from(1_000_000_000 / of.per_second())
}

fn origin_nanos(origin: &ScalarValue) -> Result<i128> {
    let of = match origin.data_type() {
        DataType::Timestamp(ArrowUnit::Nanosecond, _) => TimeUnit::Nanos,
        _ => TimeUnit::Micros,
    };
    Ok(i128::from(counts(&origin.to_array()?, of)?.value(0)) * worth(of))
}

/// Returns the starts of bins of so many nanoseconds.
fn in_nanos(times: &Int64Array, of: TimeUnit, width: i128, origin: i128) -> Result<Int64Array> {
    let out_of_range = || DataFusionError::from(ClauseProblem::TimeRange);
    let worth = worth(of);
    let ceil = |nanos: i128| -(-nanos).div_euclid(worth);
    // Times that follow each other mostly lie in the same bin.
    let latest = Cell::new((0, 0, 0));
    times.try_unary::<_, Int64Type, DataFusionError>(|time| {
        let (first, end, start) = latest.get();
        let time = i128::from(time);
        if first <= time && time < end {
            return Ok(start);
        }
        let bin = origin + (time * worth - origin).div_euclid(width) * width;
        let start = i64::try_from(bin.div_euclid(worth)).map_err(|_| out_of_range())?;
        latest.set((ceil(bin), ceil(bin + width), start));
        Ok(start)
    })
}

/// Returns the starts of bins of so many months.
fn in_months(times: &Int64Array, of: TimeUnit, months: i64, origin: i64) -> Int64Array {
    let months_between = |time: i64| {
        let [from, to] = [origin, time].map(|it| CivilDate::from_days(it.div_euclid(of.per_day())));
        (to.year - from.year) * 12 + i64::from(to.month) - i64::from(from.month)
    };
    let start = |time: i64| {
        let between = months_between(time).div_euclid(months) * months;
        // A bin that begins in this month may begin behind the time, which lies in the one before.
        let bin = months_later(origin, between, of).filter(|bin| *bin <= time);
        bin.or_else(|| months_later(origin, between - months, of))
    };
    times.iter().map(|time| time.and_then(start)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::time_text::{TimeScale, parse_time};

    fn micros(text: &str) -> i64 {
        parse_time(text, TimeScale::Unit(TimeUnit::Micros)).unwrap()
    }

    #[track_caller]
    fn check(width: Width, origin: &str, time: &str, expected: &str) {
        let times = Int64Array::from(vec![micros(time); 2]);
        let starts = match width {
            Width::Nanos(nanos) => {
                let origin = i128::from(micros(origin)) * 1_000;
                in_nanos(&times, TimeUnit::Micros, nanos, origin).unwrap()
            }
            Width::Months(months) => in_months(&times, TimeUnit::Micros, months, micros(origin)),
        };
        assert_eq!(starts, Int64Array::from(vec![micros(expected); 2]), "{time}");
    }

    #[test]
    fn bins_of_any_year_begin_at_multiples_of_the_width() {
        let quarter = Width::Nanos(900 * 1_000_000_000);
        check(quarter, "2001-01-01", "9999-12-31T10:07", "9999-12-31T10:00");
        check(quarter, "1001-01-01T00:05", "1500-02-28T10:04", "1500-02-28T09:50");
        check(Width::Nanos(29 * PER_DAY), "2001-01-01", "1900-02-28", "1900-02-01");
        // Finer than a microsecond.
        let fine = Width::Nanos(1_500);
        check(fine, "2001-01-01", "2001-01-01T00:00:00.000002", "2001-01-01T00:00:00.000001");
        check(fine, "2001-01-01", "2001-01-01T00:00:00.000003", "2001-01-01T00:00:00.000003");
        check(Width::Months(1), "2000-01-01", "9999-12-31T10:07", "9999-12-01");
        check(Width::Months(3), "2000-01-01", "1500-02-28T10:07", "1500-01-01");
        check(Width::Months(1), "2000-01-31", "2001-03-01", "2001-02-28");
        check(Width::Months(12), "2000-06-01", "0002-01-03", "0001-06-01");
    }

    #[test]
    fn a_width_is_greater_than_zero() {
        let stride = |months, days, nanoseconds| IntervalMonthDayNano { months, days, nanoseconds };
        assert_eq!(width_of(stride(0, 1, -1)).unwrap(), Width::Nanos(PER_DAY - 1));
        assert_eq!(width_of(stride(2, 0, 0)).unwrap(), Width::Months(2));
        for wrong in [stride(0, 0, 0), stride(0, 0, -1), stride(-1, 0, 0), stride(1, 1, 0)] {
            assert!(width_of(wrong).is_err(), "{wrong:?}");
        }
    }
}
