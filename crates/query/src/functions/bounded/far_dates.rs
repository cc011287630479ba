//! Casts to Arrow's Date64, of which not every value can be printed.
//!
//! - far_dates-1. No cast makes a Date64 beyond the calendar: DataFusion writes constants into the
//!   names of columns, and panics for the least Date64. Columns of tables do not have the type.
//!
//! Such casts remain calls, which check their values; all others become expressions of DataFusion.

use std::sync::Arc;

use chrono::DateTime;
use datafusion::arrow::array::{Array, AsArray, make_array};
use datafusion::arrow::compute::CastOptions;
use datafusion::arrow::datatypes::{DataType, Date64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr};

use super::type_text::CASTS;
use crate::error::{ClauseProblem, Error};

/// Returns true for a call that checks its values itself. A constant is checked at once: where
/// DataFusion folds constants, it drops errors.
pub(super) fn is_checked(function: &str, args: &[Expr]) -> Result<bool> {
    let [value, Expr::Literal(text, _)] = args else { return Ok(false) };
    if !CASTS.contains(&function) {
        return Ok(false);
    }
    let ty = text.try_as_str().flatten().and_then(|text| text.parse::<DataType>().ok());
    let Some(ty) = ty.filter(has_dates) else { return Ok(false) };
    if let Expr::Literal(value, _) = value {
        cast(function, &ColumnarValue::Scalar(value.clone()), &ty)?;
    }
    Ok(true)
}

/// Casts values (far_dates-1).
pub(super) fn cast(function: &str, value: &ColumnarValue, to: &DataType) -> Result<ColumnarValue> {
    let is_try = function == "arrow_try_cast";
    let options = CastOptions { safe: is_try, ..CastOptions::default() };
    let made = match value.cast_to(to, Some(&options))? {
        ColumnarValue::Array(dates) if is_try && *to == DataType::Date64 => {
            let dates = dates.as_primitive::<Date64Type>();
            let known =
                dates.unary_opt::<_, Date64Type>(|date| is_in_calendar(date).then_some(date));
            return Ok(ColumnarValue::Array(Arc::new(known)));
        }
        ColumnarValue::Scalar(ScalarValue::Date64(date)) if is_try => {
            let date = date.filter(|date| is_in_calendar(*date));
            return Ok(ColumnarValue::Scalar(ScalarValue::Date64(date)));
        }
        made => made,
    };
    match &made {
        ColumnarValue::Array(values) => check(values.as_ref())?,
        ColumnarValue::Scalar(value) => check(value.to_array()?.as_ref())?,
    }
    Ok(made)
}

fn is_in_calendar(date: i64) -> bool {
    DateTime::from_timestamp_millis(date).is_some()
}

/// Checks the dates in an array, which is as deep as the text of a type (type_text-1).
fn check(values: &dyn Array) -> Result<()> {
    if *values.data_type() == DataType::Date64 {
        let dates = values.as_primitive::<Date64Type>();
        if dates.iter().flatten().all(is_in_calendar) {
            return Ok(());
        }
        return Err(Error::Clause { position: None, what: ClauseProblem::TimeRange }.into());
    }
    let parts = values.to_data();
    parts.child_data().iter().try_for_each(|part| check(make_array(part.clone()).as_ref()))
}

fn has_dates(ty: &DataType) -> bool {
    match ty {
        DataType::Date64 => true,
        DataType::List(element)
        | DataType::ListView(element)
        | DataType::LargeList(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _)
        | DataType::Map(element, _) => has_dates(element.data_type()),
        DataType::Dictionary(_, value) => has_dates(value),
        DataType::RunEndEncoded(_, values) => has_dates(values.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_dates(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_dates(field.data_type())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_beyond_the_calendar_are_refused() {
        let (first, last) = (-8_334_601_228_800_000, 8_210_266_876_799_999);
        for (date, is_known) in [
            (first, true),
            (last, true),
            (first - 1, false),
            (last + 1, false),
            (i64::MIN, false),
            (i64::MAX, false),
        ] {
            let value = ColumnarValue::Scalar(ScalarValue::Int64(Some(date)));
            let made = cast("arrow_cast", &value, &DataType::Date64);
            assert_eq!(made.is_ok(), is_known, "far_dates-1: {date}");
        }
    }
}
