//! Results as CSV by RFC 4180, with a header line and LF line ends.
//!
//! - O3. What is written here and imported again with the same schema gives equal rows: NULL is an
//!   empty field, empty text is `""`, a quote is doubled, and nothing else is changed.
//!
//! A text is quoted only where it must be. One thing CSV cannot say: a row whose only column is
//! NULL is an empty line, which importers skip.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::{ResultWriter, WriteError};
use tidegate_server::cell::{Column, Shape, plain};

pub(super) struct CsvWriter<'a> {
    out: &'a mut dyn Write,
    fields: SchemaRef,
    line: String,
    cell: String,
}

impl<'a> CsvWriter<'a> {
    /// Writes the header.
    pub(super) fn new(out: &'a mut dyn Write, fields: SchemaRef) -> Result<Self, WriteError> {
        let mut line = String::new();
        for (position, field) in fields.fields().iter().enumerate() {
            if position > 0 {
                line.push(',');
            }
            push_text(field.name(), &mut line);
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
        Ok(CsvWriter { out, fields, line, cell: String::new() })
    }
}

impl ResultWriter for CsvWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        let arrays = batch.columns().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
        let fields = self.fields.fields().iter();
        let columns = fields
            .zip(&arrays)
            .map(|(field, array)| Column::new(field, array))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (position, column) in columns.iter().enumerate() {
                if position > 0 {
                    self.line.push(',');
                }
                push_cell(column, row, &mut self.line, &mut self.cell);
            }
            self.line.push('\n');
            self.out.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), WriteError> {
        Ok(())
    }
}

fn push_cell(column: &Column<'_>, row: usize, line: &mut String, cell: &mut String) {
    if column.is_null(row) {
        return;
    }
    match column.shape {
        Shape::Text | Shape::Nested => {
            cell.clear();
            column.push(row, cell);
            push_text(cell, line);
        }
        Shape::Boolean | Shape::Integer | Shape::Float | Shape::Decimal => column.push(row, line),
    }
}

fn push_text(text: &str, line: &mut String) {
    let needs_quotes = |byte: u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    // Some readers trim what is not quoted.
    let has_edges = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    if !text.is_empty() && !has_edges && !text.bytes().any(needs_quotes) {
        line.push_str(text);
        return;
    }
    line.push('"');
    for (position, part) in text.split('"').enumerate() {
        if position > 0 {
            line.push_str("\"\"");
        }
        line.push_str(part);
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::tests::{sample, written};
    use super::super::{Format, Layout};

    #[test]
    fn null_is_empty_and_empty_text_is_quoted() {
        let expected = "n,x,price,word,ok\n1,1.5,0.10,\"a \"\"b\"\"\n\\\",true\n,,,,\n\
                        -3,NaN,12.00,\"\",false\n";
        assert_eq!(written(Format::Csv, &[sample()], Layout::Plain), expected);
    }

    #[test]
    fn text_is_quoted_only_where_it_must_be() {
        let check = |text: &str, expected: &str| {
            let mut line = String::new();
            super::push_text(text, &mut line);
            assert_eq!(line, expected);
        };
        check("plain text", "plain text");
        check("a;b|c\td", "a;b|c\td");
        check("a,b", "\"a,b\"");
        check("cr\rlf", "\"cr\rlf\"");
        check(" edge", "\" edge\"");
        check("\"", "\"\"\"\"");
    }
}
