//! Values as JSON, for every format and protocol that uses JSON.
//!
//! - json-1. The output is JSON by RFC 8259, whatever the values are: NaN and the infinities, which
//!   JSON does not have, become null, and a DECIMAL is a string of its digits, because most readers
//!   would read it as a double.

use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::datatypes::{ArrowNativeType, DataType, Field};
use arrow::error::ArrowError;

use super::{Column, Shape, ValueFormatter};

/// Formats lists and structs, which are JSON in every format.
pub(crate) fn nested<'a>(array: &'a dyn Array) -> Result<ValueFormatter<'a>, ArrowError> {
    match array.data_type() {
        DataType::Struct(fields) => {
            let keys: Vec<String> = fields.iter().map(|field| key(field.name())).collect();
            let columns = columns_of(fields, array.as_struct().columns())?;
            Ok(Box::new(move |row, text| push_object(&keys, &columns, row, text)))
        }
        DataType::List(field) => lists::<i32>(field, array),
        DataType::LargeList(field) => lists::<i64>(field, array),
        DataType::FixedSizeList(field, _) => {
            let lists = array.as_fixed_size_list();
            let values = Column::new(field, lists.values())?;
            let width = lists.value_length().as_usize();
            Ok(Box::new(move |row, text| push_list(&values, row * width..(row + 1) * width, text)))
        }
        other => Err(ArrowError::NotYetImplemented(format!("{other} as JSON"))),
    }
}

/// Prepares the columns of these arrays for writing row by row.
///
/// # Errors
/// If Arrow has no text for one of the types.
pub fn columns_of<'a>(
    fields: &arrow::datatypes::Fields,
    arrays: &'a [ArrayRef],
) -> Result<Vec<Column<'a>>, ArrowError> {
    let pairs = fields.iter().zip(arrays);
    pairs.map(|(field, array): (&std::sync::Arc<Field>, _)| Column::new(field, array)).collect()
}

fn lists<'a, O: OffsetSizeTrait>(
    field: &Field,
    array: &'a dyn Array,
) -> Result<ValueFormatter<'a>, ArrowError> {
    let lists = array.as_list::<O>();
    let values = Column::new(field, lists.values())?;
    Ok(Box::new(move |row, text| {
        let ends = &lists.value_offsets()[row..row + 2];
        push_list(&values, ends[0].as_usize()..ends[1].as_usize(), text);
    }))
}

fn push_list(values: &Column<'_>, range: std::ops::Range<usize>, text: &mut String) {
    text.push('[');
    for row in range.clone() {
        if row > range.start {
            text.push(',');
        }
        push_value(values, row, text);
    }
    text.push(']');
}

/// Appends the object of a row; `keys` are made by `key`.
pub fn push_object(keys: &[String], columns: &[Column<'_>], row: usize, text: &mut String) {
    text.push('{');
    for (position, (key, column)) in keys.iter().zip(columns).enumerate() {
        if position > 0 {
            text.push(',');
        }
        text.push_str(key);
        push_value(column, row, text);
    }
    text.push('}');
}

/// Appends a value, or null.
pub fn push_value(column: &Column<'_>, row: usize, text: &mut String) {
    if column.is_null(row) {
        text.push_str("null");
        return;
    }
    let start = text.len();
    column.push(row, text);
    match column.shape {
        Shape::Boolean | Shape::Integer | Shape::Nested => {}
        Shape::Float => {
            // Only NaN and the infinities do not end in a digit.
            if !text.ends_with(|last: char| last.is_ascii_digit()) {
                text.truncate(start);
                text.push_str("null");
            }
        }
        Shape::Decimal => {
            text.insert(start, '"');
            text.push('"');
        }
        Shape::Text => {
            let value = text.split_off(start);
            push_string(&value, text);
        }
    }
}

/// Returns `"name":` with the name escaped.
#[must_use]
pub fn key(name: &str) -> String {
    let mut text = String::new();
    push_string(name, &mut text);
    text.push(':');
    text
}

/// Appends a JSON string, with quotes.
pub fn push_string(value: &str, text: &mut String) {
    text.push('"');
    let mut written = 0;
    for (at, &byte) in value.as_bytes().iter().enumerate() {
        if !matches!(byte, b'"' | b'\\' | 0..0x20) {
            continue;
        }
        text.push_str(&value[written..at]);
        written = at + 1;
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            control => write!(text, "\\u{control:04x}").expect("a String takes everything"),
        }
    }
    text.push_str(&value[written..]);
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expected: &str) {
        let mut text = String::new();
        push_string(value, &mut text);
        assert_eq!(text, expected, "json-1");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value, "json-1");
    }

    #[test]
    fn strings_are_escaped_where_they_must_be() {
        check("", "\"\"");
        check("a \"b\"\\", "\"a \\\"b\\\"\\\\\"");
        check("\n\r\t\u{0}\u{1f}", "\"\\n\\r\\t\\u0000\\u001f\"");
        check("tide \u{1f30a}\u{7f}", "\"tide \u{1f30a}\u{7f}\"");
    }
}
