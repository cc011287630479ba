//! Rows of an answer in the JSON that QuestDB's clients read.
//!
//! - exec_rows-1. The output is JSON, and every value reads back unchanged, except NaN and the
//!   infinities, which become null unless they are requested as strings.

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;

use super::request::ExecForm;
use crate::json::{push_string, push_value};
use crate::value_text::{Column, Shape, plain, tidegate_type};

/// Returns the name of a type in QuestDB's clients.
pub(super) fn type_name(field: &Field) -> String {
    let named = tidegate_type(field);
    let name = match (named, field.data_type()) {
        (Some("symbol"), _) => "SYMBOL",
        (Some("uuid"), _) => "UUID",
        (Some("ipv4"), _) => "IPv4",
        (_, DataType::Dictionary(_, values)) => {
            return type_name(&Field::new("", values.as_ref().clone(), true));
        }
        (_, DataType::Boolean) => "BOOLEAN",
        (_, DataType::Int8) => "BYTE",
        (_, DataType::Int16) => "SHORT",
        (_, DataType::Int32) => "INT",
        (_, DataType::Int64) => "LONG",
        (_, DataType::UInt8) => "UTINYINT",
        (_, DataType::UInt16) => "USMALLINT",
        (_, DataType::UInt32) => "UINT",
        (_, DataType::UInt64) => "UBIGINT",
        (_, DataType::Float16 | DataType::Float32) => "FLOAT",
        (_, DataType::Float64) => "DOUBLE",
        (_, DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, _)) => "TIMESTAMP_NS",
        (_, DataType::Timestamp(..)) => "TIMESTAMP",
        (_, DataType::Date32 | DataType::Date64) => "DATE",
        (_, DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => "BINARY",
        (_, DataType::FixedSizeBinary(_)) => "BINARY",
        (_, DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale)) => {
            return format!("DECIMAL({precision},{scale})");
        }
        _ => "VARCHAR",
    };
    name.to_owned()
}

/// Appends `[{"name":"ts","type":"TIMESTAMP"}]`.
pub(super) fn push_columns(schema: &Schema, columns: &[usize], text: &mut String) {
    text.push('[');
    for (position, &column) in columns.iter().enumerate() {
        let field = schema.field(column);
        text.push_str(if position == 0 { "{\"name\":" } else { ",{\"name\":" });
        push_string(field.name(), text);
        text.push_str(",\"type\":");
        push_string(&type_name(field), text);
        text.push('}');
    }
    text.push(']');
}

/// The columns of a batch, prepared for writing.
pub(super) struct RowText<'a> {
    columns: Vec<TextColumn<'a>>,
}

struct TextColumn<'a> {
    column: Column<'a>,
    kind: Kind,
}

enum Kind {
    /// The same as in other JSON of ours.
    Plain,
    /// A text without anything to escape.
    Quoted,
    /// A day, which these clients read as a timestamp.
    Day,
    Bytes(BinaryViewArray),
    /// A float, whose NaN and infinities are strings.
    FloatText,
}

/// Returns the arrays of a batch that are written, without dictionaries and run ends.
pub(super) fn arrays(batch: &RecordBatch, columns: &[usize]) -> Result<Vec<ArrayRef>, ArrowError> {
    columns.iter().map(|&column| plain(batch.column(column))).collect()
}

impl<'a> RowText<'a> {
    /// Prepares these arrays, which are `columns` of the schema.
    pub(super) fn new(
        schema: &Schema,
        columns: &[usize],
        arrays: &'a [ArrayRef],
        form: ExecForm,
    ) -> Result<RowText<'a>, ArrowError> {
        let pairs = columns.iter().zip(arrays);
        let columns = pairs.map(|(&column, array)| {
            let field = schema.field(column);
            let kind = kind(field, array, form)?;
            Ok(TextColumn { column: Column::new(field, array.as_ref())?, kind })
        });
        Ok(RowText { columns: columns.collect::<Result<_, ArrowError>>()? })
    }

    /// Appends a row: `[1,"a",null]`.
    pub(super) fn push(&self, row: usize, text: &mut String) {
        text.push('[');
        for (position, TextColumn { column, kind }) in self.columns.iter().enumerate() {
            if 0 < position {
                text.push(',');
            }
            if column.is_null(row) {
                text.push_str("null");
                continue;
            }
            match kind {
                Kind::Plain => push_value(column, row, text),
                Kind::Quoted => {
                    text.push('"');
                    column.push(row, text);
                    text.push('"');
                }
                Kind::Day => {
                    text.push('"');
                    column.push(row, text);
                    text.push_str("T00:00:00.000Z\"");
                }
                Kind::Bytes(values) => push_base64(values.value(row), text),
                Kind::FloatText => {
                    let start = text.len();
                    column.push(row, text);
                    if !text.ends_with(|last: char| last.is_ascii_digit()) {
                        text.insert(start, '"');
                        text.push('"');
                    }
                }
            }
        }
        text.push(']');
    }
}

fn kind(field: &Field, array: &ArrayRef, form: ExecForm) -> Result<Kind, ArrowError> {
    Ok(match array.data_type() {
        DataType::Int64 | DataType::UInt64 if form.quotes_large => Kind::Quoted,
        DataType::Timestamp(..) => Kind::Quoted,
        DataType::Date32 => Kind::Day,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let views = arrow::compute::cast(array, &DataType::BinaryView)?;
            Kind::Bytes(views.as_binary_view().clone())
        }
        DataType::FixedSizeBinary(_) if type_name(field) == "UUID" => Kind::Quoted,
        DataType::FixedSizeBinary(_) => {
            let views = arrow::compute::cast(array, &DataType::Binary)?;
            let views = arrow::compute::cast(&views, &DataType::BinaryView)?;
            Kind::Bytes(views.as_binary_view().clone())
        }
        _ if form.nonfinite_text && Shape::of_field(field) == Shape::Float => Kind::FloatText,
        _ => Kind::Plain,
    })
}

/// Appends base64 with padding, by RFC 4648, in quotes.
fn push_base64(bytes: &[u8], text: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    text.push('"');
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte));
        let word = word << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = word >> (18 - 6 * digit) & 63;
            text.push(if digit <= group.len() { char::from(DIGITS[index as usize]) } else { '=' });
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use arrow::array::{
        Date32Array, Decimal128Array, Float64Array, Int64Array, StringViewArray,
        TimestampNanosecondArray,
    };

    use tidegate_storage::TYPE_KEY;

    use super::*;

    #[track_caller]
    fn check(array: impl Array + 'static, form: ExecForm, expected: (&str, &str)) {
        let (ty, rows) = expected;
        check_named(array, "", form, ty, rows);
    }

    #[track_caller]
    fn check_named(
        array: impl Array + 'static,
        named: &str,
        form: ExecForm,
        ty: &str,
        expected: &str,
    ) {
        let array: ArrayRef = Arc::new(array);
        let metadata = HashMap::from([(TYPE_KEY.to_owned(), named.to_owned())]);
        let field = Field::new("c", array.data_type().clone(), true).with_metadata(metadata);
        assert_eq!(type_name(&field), ty);
        let schema = Schema::new(vec![field]);
        let arrays = [plain(&array).unwrap()];
        let rows = RowText::new(&schema, &[0], &arrays, form).unwrap();
        let mut text = String::new();
        (0..array.len()).for_each(|row| rows.push(row, &mut text));
        assert_eq!(text, expected, "exec_rows-1");
    }

    #[test]
    fn values_are_written_as_questdb_does() {
        let plain = ExecForm::default();
        let text = StringViewArray::from(vec![Some("a\"\\\n\u{e9}"), None, Some("")]);
        check(text, plain, ("VARCHAR", "[\"a\\\"\\\\\\n\u{e9}\"][null][\"\"]"));
        check(Date32Array::from(vec![19_000]), plain, ("DATE", "[\"2022-01-08T00:00:00.000Z\"]"));
        let nanos = TimestampNanosecondArray::from(vec![1]);
        check(nanos, plain, ("TIMESTAMP_NS", "[\"1970-01-01T00:00:00.000000001Z\"]"));
        let decimals = Decimal128Array::from(vec![-5]).with_precision_and_scale(10, 3).unwrap();
        check(decimals, plain, ("DECIMAL(10,3)", "[\"-0.005\"]"));
        let symbols = StringViewArray::from(vec!["oslo"]);
        check_named(symbols, "symbol", plain, "SYMBOL", "[\"oslo\"]");
    }

    #[test]
    fn large_integers_are_quoted_when_asked_for() {
        let values = || Int64Array::from(vec![i64::MIN, i64::MAX]);
        let bare = "[-9223372036854775808][9223372036854775807]";
        check(values(), ExecForm::default(), ("LONG", bare));
        let quoted = "[\"-9223372036854775808\"][\"9223372036854775807\"]";
        let form = ExecForm { quotes_large: true, ..ExecForm::default() };
        check(values(), form, ("LONG", quoted));
    }

    #[test]
    fn what_json_has_no_number_for_is_null_or_text() {
        let values = || Float64Array::from(vec![f64::NAN, f64::NEG_INFINITY, 0.1]);
        check(values(), ExecForm::default(), ("DOUBLE", "[null][null][0.1]"));
        let form = ExecForm { nonfinite_text: true, ..ExecForm::default() };
        check(values(), form, ("DOUBLE", "[\"NaN\"][\"-Infinity\"][0.1]"));
    }

    #[test]
    fn bytes_are_base64() {
        // The vectors of RFC 4648, section 10.
        for (bytes, expected) in [
            ("", "\"\""),
            ("f", "\"Zg==\""),
            ("fo", "\"Zm8=\""),
            ("foo", "\"Zm9v\""),
            ("foob", "\"Zm9vYg==\""),
            ("fooba", "\"Zm9vYmE=\""),
            ("foobar", "\"Zm9vYmFy\""),
        ] {
            let array = BinaryViewArray::from_iter_values([bytes.as_bytes()]);
            let expected = format!("[{expected}]");
            check(array, ExecForm::default(), ("BINARY", expected.as_str()));
        }
    }
}
