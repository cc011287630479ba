//! Results as JSON: one array of objects, or one object a line.
//!
//! - O2. Every line or array is JSON by RFC 8259, whatever the values are: NaN and the infinities,
//!   which JSON does not have, become null, and a DECIMAL is a string of its digits, because most
//!   readers would make a double of it.

use std::fmt::Write as _;
use std::io::Write;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;

use super::cell::{CellFormat, Column, Shape, plain};
use super::{ResultWriter, WriteError};

/// How the objects are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// `[`, objects with commas between, `]`.
    Array,
    /// An object a line.
    Lines,
}

pub(super) struct JsonWriter<'a> {
    out: &'a mut dyn Write,
    frame: Frame,
    fields: SchemaRef,
    /// `"name":` of each column, escaped once.
    keys: Vec<String>,
    rows: u64,
    text: String,
}

impl<'a> JsonWriter<'a> {
    pub(super) fn new(out: &'a mut dyn Write, fields: SchemaRef, frame: Frame) -> Self {
        let keys = fields.fields().iter().map(|field| key(field.name())).collect();
        JsonWriter { out, frame, fields, keys, rows: 0, text: String::new() }
    }
}

impl ResultWriter for JsonWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        let arrays = batch.columns().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
        let columns = columns_of(self.fields.fields(), &arrays)?;
        for row in 0..batch.num_rows() {
            self.text.clear();
            match (self.frame, self.rows) {
                (Frame::Lines, _) => {}
                (Frame::Array, 0) => self.text.push_str("[\n"),
                (Frame::Array, _) => self.text.push_str(",\n"),
            }
            push_object(&self.keys, &columns, row, &mut self.text);
            if self.frame == Frame::Lines {
                self.text.push('\n');
            }
            self.out.write_all(self.text.as_bytes())?;
            self.rows += 1;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), WriteError> {
        match (self.frame, self.rows) {
            (Frame::Lines, _) => {}
            (Frame::Array, 0) => self.out.write_all(b"[]\n")?,
            (Frame::Array, _) => self.out.write_all(b"\n]\n")?,
        }
        Ok(())
    }
}

/// How lists and structs are written: as JSON, in every format.
pub(super) fn nested<'a>(array: &'a dyn Array) -> Result<CellFormat<'a>, ArrowError> {
    match array.data_type() {
        DataType::Struct(fields) => {
            let keys: Vec<String> = fields.iter().map(|field| key(field.name())).collect();
            let columns = columns_of(fields, array.as_struct().columns())?;
            Ok(Box::new(move |row, text| push_object(&keys, &columns, row, text)))
        }
        DataType::List(field) => {
            let lists = array.as_list::<i32>();
            let values = Column::new(field, lists.values())?;
            Ok(Box::new(move |row, text| {
                let ends = &lists.value_offsets()[row..row + 2];
                push_list(&values, index(ends[0])..index(ends[1]), text);
            }))
        }
        DataType::LargeList(field) => {
            let lists = array.as_list::<i64>();
            let values = Column::new(field, lists.values())?;
            Ok(Box::new(move |row, text| {
                let ends = &lists.value_offsets()[row..row + 2];
                push_list(&values, index(ends[0])..index(ends[1]), text);
            }))
        }
        DataType::FixedSizeList(field, _) => {
            let lists = array.as_fixed_size_list();
            let values = Column::new(field, lists.values())?;
            let width = index(lists.value_length());
            Ok(Box::new(move |row, text| push_list(&values, row * width..(row + 1) * width, text)))
        }
        other => Err(ArrowError::NotYetImplemented(format!("{other} as JSON"))),
    }
}

fn columns_of<'a>(
    fields: &arrow::datatypes::Fields,
    arrays: &'a [ArrayRef],
) -> Result<Vec<Column<'a>>, ArrowError> {
    let pairs = fields.iter().zip(arrays);
    pairs.map(|(field, array): (&std::sync::Arc<Field>, _)| Column::new(field, array)).collect()
}

fn index(offset: impl TryInto<usize>) -> usize {
    offset.try_into().ok().expect("offsets of Arrow are positions in memory")
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

fn push_object(keys: &[String], columns: &[Column<'_>], row: usize, text: &mut String) {
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

fn push_value(column: &Column<'_>, row: usize, text: &mut String) {
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

fn key(name: &str) -> String {
    let mut text = String::new();
    push_string(name, &mut text);
    text.push(':');
    text
}

/// A JSON string, with quotes.
fn push_string(value: &str, text: &mut String) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if control < ' ' => {
                write!(text, "\\u{:04x}", u32::from(control)).expect("a String takes everything");
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::tests::{sample, written};
    use super::super::{Format, Layout};

    #[test]
    fn an_array_holds_an_object_a_row() {
        let expected = concat!(
            "[\n",
            r#"{"n":1,"x":1.5,"price":"0.10","word":"a \"b\"\n\\","ok":true},"#,
            "\n",
            r#"{"n":null,"x":null,"price":null,"word":null,"ok":null},"#,
            "\n",
            r#"{"n":-3,"x":null,"price":"12.00","word":"","ok":false}"#,
            "\n]\n"
        );
        assert_eq!(written(Format::Json, &[sample()], Layout::Plain), expected);
    }

    #[test]
    fn a_result_without_rows_is_an_empty_array_or_no_line() {
        let empty = sample().slice(0, 0);
        assert_eq!(written(Format::Json, std::slice::from_ref(&empty), Layout::Plain), "[]\n");
        assert_eq!(written(Format::Ndjson, &[empty], Layout::Plain), "");
    }

    #[test]
    fn batches_do_not_show() {
        let batches = [sample().slice(0, 1), sample().slice(1, 2)];
        for format in [Format::Json, Format::Ndjson] {
            let whole = written(format, &[sample()], Layout::Plain);
            assert_eq!(written(format, &batches, Layout::Plain), whole);
        }
    }
}
