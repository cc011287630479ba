//! Results as JSON: one array of objects, or one object a line.
//!
//! - Every line or array is JSON by RFC 8259, whatever the values are (`json`).

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::{ResultWriter, WriteError};
use crate::json::{columns_of, key, push_object};
use crate::value_text::plain;

/// The separators of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonLayout {
    /// `[`, objects separated by commas, `]`.
    Array,
    /// An object per line.
    Lines,
}

/// A writer of JSON.
pub struct JsonWriter<W> {
    out: W,
    layout: JsonLayout,
    fields: SchemaRef,
    /// `"name":` of each column, escaped once.
    keys: Vec<String>,
    rows: u64,
    text: String,
}

impl<W: Write> JsonWriter<W> {
    /// Makes a writer for rows of this schema.
    pub fn new(out: W, fields: SchemaRef, layout: JsonLayout) -> JsonWriter<W> {
        let keys = fields.fields().iter().map(|field| key(field.name())).collect();
        JsonWriter { out, layout, fields, keys, rows: 0, text: String::new() }
    }
}

impl<W: Write> ResultWriter for JsonWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        let arrays = batch.columns().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
        let columns = columns_of(self.fields.fields(), &arrays)?;
        for row in 0..batch.num_rows() {
            self.text.clear();
            match (self.layout, self.rows) {
                (JsonLayout::Lines, _) => {}
                (JsonLayout::Array, 0) => self.text.push_str("[\n"),
                (JsonLayout::Array, _) => self.text.push_str(",\n"),
            }
            push_object(&self.keys, &columns, row, &mut self.text);
            if self.layout == JsonLayout::Lines {
                self.text.push('\n');
            }
            self.out.write_all(self.text.as_bytes())?;
            self.rows += 1;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        match (self.layout, self.rows) {
            (JsonLayout::Lines, _) => {}
            (JsonLayout::Array, 0) => self.out.write_all(b"[]\n")?,
            (JsonLayout::Array, _) => self.out.write_all(b"\n]\n")?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    fn json(layout: JsonLayout, batches: &[RecordBatch]) -> String {
        let mut out = Vec::new();
        let mut writer = Box::new(JsonWriter::new(&mut out, batches[0].schema(), layout));
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

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
        assert_eq!(json(JsonLayout::Array, &[sample()]), expected);
    }

    #[test]
    fn a_result_without_rows_is_an_empty_array_or_no_line() {
        let empty = sample().slice(0, 0);
        assert_eq!(json(JsonLayout::Array, std::slice::from_ref(&empty)), "[]\n");
        assert_eq!(json(JsonLayout::Lines, &[empty]), "");
    }

    #[test]
    fn batches_do_not_show() {
        let batches = [sample().slice(0, 1), sample().slice(1, 2)];
        for layout in [JsonLayout::Array, JsonLayout::Lines] {
            assert_eq!(json(layout, &batches), json(layout, &[sample()]));
        }
    }
}
