//! Coercion of one literal to the type of its neighbour: text to a value, an integer to a time, and
//! a DATE beside a TIMESTAMP to one.
//!
//! Not here: the operators and forms that need it (`plan::coerce`).

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};
use tidegate_model::{Column, ColumnId, ColumnType, TimeUnit};
use tidegate_storage::segment::{arrow_field, arrow_type};

use crate::error::{Error, TextProblem};
use crate::types::expression_type::{type_beside, type_in};
use crate::types::literal::{integer_of, time_of_integer, value_of_text};

/// Returns a literal of the type of a field, UUID and IPV4 included.
pub(crate) fn literal(value: ScalarValue, field: &Field) -> Expr {
    let metadata = FieldMetadata::new_from_field(field);
    Expr::Literal(value, (!metadata.is_empty()).then_some(metadata))
}

/// Converts `expr` to the type of `other`, if it is a suitable literal, or an integer next to a
/// time.
pub(crate) fn as_type_of(expr: Expr, other: &Expr, schema: &DFSchema) -> PlanResult<Expr> {
    let Some(ty) = type_beside(other, schema) else { return Ok(expr) };
    if let Some(text) = text_of(&expr) {
        const MICROS: ColumnType = ColumnType::Timestamp(TimeUnit::Micros);
        return Ok(match value_of_text(text, ty) {
            // The year 9999: later than each TIMESTAMP_NS, and compared as such.
            Some(Err(TextProblem::OutOfRange)) if ty == ColumnType::Timestamp(TimeUnit::Nanos) => {
                let far = value_of_text(text, MICROS).unwrap_or(Err(TextProblem::OutOfRange));
                constant(far.map_err(bad_text(text, ty))?, MICROS)
            }
            Some(value) => constant(value.map_err(bad_text(text, ty))?, ty),
            None => expr,
        });
    }
    if !is_time(ty) {
        return Ok(expr);
    }
    if let Expr::Literal(value, _) = &expr {
        return Ok(match integer_of(value) {
            Some(integer) => {
                let text = integer.to_string();
                let time = time_of_integer(integer, ty).map_err(bad_text(&text, ty))?;
                Expr::Literal(time, None)
            }
            None => expr,
        });
    }
    let is_number = type_in(&expr, schema).is_some_and(ColumnType::is_integer);
    Ok(if is_number { time_of(expr, ty) } else { expr })
}

/// Converts the text literals among values of which an expression returns one to bytes, if another
/// one is a BINARY.
pub(crate) fn texts_to_bytes(values: Vec<Expr>, schema: &DFSchema) -> PlanResult<Vec<Expr>> {
    if values.iter().all(|value| text_of(value).is_none()) {
        return Ok(values);
    }
    let is_bytes = |value: &&Expr| type_in(value, schema) == Some(ColumnType::Binary);
    let Some(bytes) = values.iter().find(is_bytes).cloned() else { return Ok(values) };
    values.into_iter().map(|value| as_type_of(value, &bytes, schema)).collect()
}

/// Makes a TIMESTAMP of each DATE among values that are compared or subtracted, if one of them is a
/// TIMESTAMP: DataFusion makes nanoseconds of both, which end in 2262.
pub(crate) fn dates_to_times<'e>(
    values: impl IntoIterator<Item = &'e mut Expr>,
    schema: &DFSchema,
) {
    let is_date = |value: &Expr| type_in(value, schema) == Some(ColumnType::Date);
    let is_time = |value: &Expr| {
        matches!(type_in(value, schema), Some(ColumnType::Timestamp(_)))
            || matches!(value.get_type(schema), Ok(DataType::Timestamp(..)))
    };
    let values = values.into_iter().collect::<Vec<_>>();
    if !values.iter().any(|it| is_date(it)) || !values.iter().any(|it| is_time(it)) {
        return;
    }
    let timestamp = arrow_type(ColumnType::Timestamp(TimeUnit::Micros));
    for value in values.into_iter().filter(|it| is_date(it)) {
        let date = std::mem::replace(value, lit(ScalarValue::Null));
        let known = match &date {
            Expr::Literal(day, _) => day.cast_to(&timestamp).ok(),
            _ => None,
        };
        *value = known.map_or_else(|| cast(date, timestamp.clone()), lit);
    }
}

/// Returns a constant of a type, UUID and IPV4 included.
fn constant(value: ScalarValue, ty: ColumnType) -> Expr {
    match ty {
        ColumnType::Uuid | ColumnType::Ipv4 => {
            literal(value, &arrow_field(&Column { id: ColumnId(0), name: String::new(), ty }))
        }
        _ => lit(value),
    }
}

/// Converts an integer expression to a time.
fn time_of(expr: Expr, ty: ColumnType) -> Expr {
    cast(cast(expr, arrow_type(count_type(ty))), arrow_type(ty))
}

/// Returns the integer type that counts the unit of a type of times.
pub(crate) fn count_type(ty: ColumnType) -> ColumnType {
    if ty == ColumnType::Date { ColumnType::Int32 } else { ColumnType::Int64 }
}

pub(crate) fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

pub(crate) fn is_time(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Timestamp(TimeUnit::Micros | TimeUnit::Nanos) | ColumnType::Date)
}

/// Makes the function for `map_err`. A caller that knows the text of the statement adds the place.
pub(crate) fn bad_text(text: &str, ty: ColumnType) -> impl Fn(TextProblem) -> Error {
    move |reason| Error::BadText { position: None, text: text.to_owned(), ty, reason }
}
