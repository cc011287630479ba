//! Results as text with delimiters: CSV by RFC 4180, or PostgreSQL's text with backslashes.
//!
//! - delimited-1. A result that is written here and imported again with the same schema gives equal
//!   rows: NULL is an empty field, empty text is `""`, a quote is doubled, and nothing else is
//!   changed.
//!
//! One exception of CSV: a row whose only column is NULL is an empty line, which importers skip. A
//! batch is written row by row into one text: the data that a column needs is looked up once per
//! batch, and no value allocates memory of its own.

use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;

use super::{ResultWriter, WriteError};
use crate::value_text::{Column, Shape, plain};

/// The format of the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelimitedForm {
    /// The sign between fields: one ASCII byte.
    pub delimiter: u8,
    /// The protection of signs within a text.
    pub escapes: Escapes,
    /// The text of NULL.
    pub null: String,
    /// The end of a record.
    pub line_end: &'static str,
    /// True if the first record has the names of the columns.
    pub header: bool,
    /// The format of days.
    pub days: Days,
}

/// The protection of signs within a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapes {
    /// Quotes around the text: one ASCII byte.
    Quotes(u8, Quoting),
    /// A backslash before each special byte.
    Backslashes,
}

/// The texts that are quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoting {
    /// Those that would otherwise be read as something else.
    WhereNeeded,
    /// All.
    AllText,
}

/// The format of days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Days {
    /// `2025-03-01`
    Plain,
    /// As the instant at which they begin.
    Instants,
}

impl DelimitedForm {
    /// Returns the default format of files.
    #[must_use]
    pub fn csv() -> DelimitedForm {
        DelimitedForm {
            delimiter: b',',
            escapes: Escapes::Quotes(b'"', Quoting::WhereNeeded),
            null: String::new(),
            line_end: "\n",
            header: true,
            days: Days::Plain,
        }
    }

    /// Returns the format that QuestDB's clients expect.
    #[must_use]
    pub fn questdb() -> DelimitedForm {
        DelimitedForm {
            escapes: Escapes::Quotes(b'"', Quoting::AllText),
            line_end: "\r\n",
            days: Days::Instants,
            ..DelimitedForm::csv()
        }
    }

    /// Returns PostgreSQL's text format.
    #[must_use]
    pub fn text() -> DelimitedForm {
        DelimitedForm {
            delimiter: b'\t',
            escapes: Escapes::Backslashes,
            null: "\\N".to_owned(),
            header: false,
            ..DelimitedForm::csv()
        }
    }
}

/// An encoder of batches of one schema as text.
#[derive(Clone, Debug)]
pub struct Delimited {
    form: DelimitedForm,
    fields: SchemaRef,
    /// True if a number can contain a sign of the format, or equal its NULL (delimited-1).
    looks_at_numbers: bool,
    /// True if a field is a line: unquoted, the text `\.` would be PostgreSQL's end of data.
    is_line: bool,
}

impl Delimited {
    /// Makes an encoder for rows of this schema.
    #[must_use]
    pub fn new(form: DelimitedForm, fields: SchemaRef) -> Delimited {
        let is_of_number = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let looks_at_numbers = is_of_number(form.delimiter)
            || match form.escapes {
                // The text of a number needs no backslash, and a NULL with a backslash equals no
                // number.
                Escapes::Backslashes => false,
                Escapes::Quotes(quote, _) => is_of_number(quote) || !form.null.is_empty(),
            };
        let is_line = fields.fields().len() == 1;
        Delimited { form, fields, looks_at_numbers, is_line }
    }

    /// Appends the names of the columns, if the format has them.
    pub fn header(&self, text: &mut String) {
        if !self.form.header {
            return;
        }
        for (position, field) in self.fields.fields().iter().enumerate() {
            if position > 0 {
                text.push(char::from(self.form.delimiter));
            }
            self.push_text(text, |text| text.push_str(field.name()));
        }
        text.push_str(self.form.line_end);
    }

    /// Appends the rows of a batch.
    ///
    /// # Errors
    /// If Arrow has no text for a type.
    pub fn rows(&self, batch: &RecordBatch, text: &mut String) -> Result<(), ArrowError> {
        let arrays = batch.columns().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
        let fields = self.fields.fields().iter();
        let columns = fields
            .zip(&arrays)
            .map(|(field, array)| {
                let is_day = *array.data_type() == DataType::Date32;
                let suffix = if is_day && self.form.days == Days::Instants { MIDNIGHT } else { "" };
                Ok((Column::new(field, array)?, suffix))
            })
            .collect::<Result<Vec<_>, ArrowError>>()?;
        for row in 0..batch.num_rows() {
            for (position, (column, suffix)) in columns.iter().enumerate() {
                if position > 0 {
                    text.push(char::from(self.form.delimiter));
                }
                self.push_cell(column, suffix, row, text);
            }
            text.push_str(self.form.line_end);
        }
        Ok(())
    }

    /// Appends a field whose text the caller has made; `None` is NULL. Positions of fields count
    /// from 0.
    pub(crate) fn push_field(&self, position: usize, value: Option<&str>, text: &mut String) {
        if position > 0 {
            text.push(char::from(self.form.delimiter));
        }
        match value {
            Some(value) => self.push_text(text, |text| text.push_str(value)),
            None => text.push_str(&self.form.null),
        }
    }

    /// Ends a record.
    pub(crate) fn end_record(&self, text: &mut String) {
        text.push_str(self.form.line_end);
    }

    fn push_cell(&self, column: &Column<'_>, suffix: &str, row: usize, text: &mut String) {
        if column.is_null(row) {
            text.push_str(&self.form.null);
            return;
        }
        match column.shape {
            Shape::Text | Shape::Nested => self.push_text(text, |text| {
                column.push(row, text);
                text.push_str(suffix);
            }),
            Shape::Boolean | Shape::Integer | Shape::Float | Shape::Decimal => {
                self.push_number(column, row, text);
            }
        }
    }

    fn push_number(&self, column: &Column<'_>, row: usize, text: &mut String) {
        let start = text.len();
        column.push(row, text);
        if !self.looks_at_numbers {
            return;
        }
        match self.form.escapes {
            Escapes::Backslashes => self.escape(start, text),
            Escapes::Quotes(quote, _) => self.quote_where_needed(quote, start, text),
        }
    }

    /// Appends the text that `push` appends, protected so that it is read as a text. It is written
    /// in place and checked afterwards: most texts have nothing to escape.
    fn push_text(&self, text: &mut String, push: impl FnOnce(&mut String)) {
        match self.form.escapes {
            Escapes::Backslashes => {
                let start = text.len();
                push(text);
                self.escape(start, text);
            }
            Escapes::Quotes(quote, Quoting::AllText) => {
                text.push(char::from(quote));
                let start = text.len();
                push(text);
                double(quote, start, text);
                text.push(char::from(quote));
            }
            Escapes::Quotes(quote, Quoting::WhereNeeded) => {
                let start = text.len();
                push(text);
                self.quote_where_needed(quote, start, text);
            }
        }
    }

    fn quote_where_needed(&self, quote: u8, start: usize, text: &mut String) {
        if self.needs_quotes(quote, &text[start..]) {
            double(quote, start, text);
            text.insert(start, char::from(quote));
            text.push(char::from(quote));
        }
    }

    fn needs_quotes(&self, quote: u8, text: &str) -> bool {
        let is_sign = |byte: u8| {
            byte == self.form.delimiter || byte == quote || matches!(byte, b'\n' | b'\r')
        };
        // Some readers trim unquoted texts.
        let has_edges = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
        let is_end = self.is_line && text == END_OF_DATA;
        // At the start of a file it would be skipped.
        let has_mark = text.starts_with(BYTE_ORDER_MARK);
        let is_null = text == self.form.null;
        text.is_empty() || has_edges || has_mark || is_null || is_end || text.bytes().any(is_sign)
    }

    /// Escapes the text from `start` on with backslashes.
    fn escape(&self, start: usize, text: &mut String) {
        let delimiter = self.form.delimiter;
        let is_sign = |byte: u8| byte == b'\\' || byte == delimiter || matches!(byte, 8..=13);
        if !text.as_bytes()[start..].iter().any(|&byte| is_sign(byte)) {
            return;
        }
        let plain = text.split_off(start);
        for char in plain.chars() {
            let escaped = match char {
                '\u{8}' => 'b',
                '\t' => 't',
                '\n' => 'n',
                '\u{b}' => 'v',
                '\u{c}' => 'f',
                '\r' => 'r',
                '\\' => '\\',
                other if other == char::from(delimiter) => other,
                other => {
                    text.push(other);
                    continue;
                }
            };
            text.extend(['\\', escaped]);
        }
    }
}

const MIDNIGHT: &str = "T00:00:00.000Z";
const BYTE_ORDER_MARK: char = '\u{FEFF}';
/// The line at which PostgreSQL up to version 17, and psql, end CSV.
const END_OF_DATA: &str = "\\.";

/// Doubles the quotes in the text from `start` on.
fn double(quote: u8, start: usize, text: &mut String) {
    if !text.as_bytes()[start..].contains(&quote) {
        return;
    }
    let plain = text.split_off(start);
    let quote = char::from(quote);
    for (position, part) in plain.split(quote).enumerate() {
        if position > 0 {
            text.extend([quote, quote]);
        }
        text.push_str(part);
    }
}

/// A writer of delimited text.
pub struct DelimitedWriter<W> {
    out: W,
    encoder: Delimited,
    text: String,
}

impl<W: Write> DelimitedWriter<W> {
    /// Makes a writer, and writes the header, if the format has one.
    ///
    /// # Errors
    /// If the output fails.
    pub fn new(mut out: W, fields: SchemaRef, form: DelimitedForm) -> Result<Self, WriteError> {
        let encoder = Delimited::new(form, fields);
        let mut text = String::new();
        encoder.header(&mut text);
        out.write_all(text.as_bytes())?;
        Ok(DelimitedWriter { out, encoder, text })
    }
}

/// The rows that become text at a time (results-1).
const ROWS: usize = 1_024;

impl<W: Write> ResultWriter for DelimitedWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        for start in (0..batch.num_rows()).step_by(ROWS) {
            let rows = ROWS.min(batch.num_rows() - start);
            self.text.clear();
            self.encoder.rows(&batch.slice(start, rows), &mut self.text)?;
            self.out.write_all(self.text.as_bytes())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), WriteError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Date32Array, Float64Array, StringViewArray};

    use super::super::ResultForm;
    use super::super::tests::{sample, written};
    use super::*;

    #[test]
    fn null_is_empty_and_empty_text_is_quoted() {
        let expected = "n,x,price,word,ok\n1,1.5,0.10,\"a \"\"b\"\"\n\\\",true\n,,,,\n\
                        -3,NaN,12.00,\"\",false\n";
        assert_eq!(written(&ResultForm::Delimited(DelimitedForm::csv()), &[sample()]), expected);
        let expected = "\"n\",\"x\",\"price\",\"word\",\"ok\"\r\n\
                        1,1.5,0.10,\"a \"\"b\"\"\n\\\",true\r\n,,,,\r\n-3,NaN,12.00,\"\",false\r\n";
        let form = ResultForm::Delimited(DelimitedForm::questdb());
        assert_eq!(written(&form, &[sample()]), expected);
    }

    #[test]
    fn text_of_postgres_has_backslashes() {
        let expected = "1\t1.5\t0.10\ta \"b\"\\n\\\\\ttrue\n\\N\t\\N\t\\N\t\\N\t\\N\n\
                        -3\tNaN\t12.00\t\tfalse\n";
        assert_eq!(written(&ResultForm::Delimited(DelimitedForm::text()), &[sample()]), expected);
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let words: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
        let batch = RecordBatch::try_from_iter([("w", words)]).unwrap();
        let form = DelimitedForm { header: false, null: "nil".to_owned(), ..DelimitedForm::csv() };
        let expected = format!("{expected}\n");
        assert_eq!(written(&ResultForm::Delimited(form), &[batch]), expected);
    }

    #[test]
    fn text_is_quoted_only_where_it_must_be() {
        check("plain text", "plain text");
        check("a;b|c\td", "a;b|c\td");
        check("a,b", "\"a,b\"");
        check("cr\rlf", "\"cr\rlf\"");
        check(" edge", "\" edge\"");
        check("\"", "\"\"\"\"");
        check("nil", "\"nil\"");
        // The text lost its first character when it was imported again.
        check("\u{FEFF}a", "\"\u{FEFF}a\"");
        check("a\u{FEFF}", "a\u{FEFF}");
    }

    // The only column of a row was written as the line `\.`, at which PostgreSQL ends a CSV: the
    // rows behind it were lost there. Among other columns PostgreSQL does not quote this text.
    #[test]
    fn a_text_is_not_a_line_that_ends_the_data() {
        let words = |name: &str, count: usize| {
            let words: ArrayRef = Arc::new(StringViewArray::from(vec!["\\.", "\\.x", "\\"]));
            let columns = [(name, Arc::clone(&words)), ("v", words)].into_iter().take(count);
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let csv = |batch, quote| {
            let escapes = Escapes::Quotes(quote, Quoting::WhereNeeded);
            let form = DelimitedForm { escapes, ..DelimitedForm::csv() };
            written(&ResultForm::Delimited(form), &[batch])
        };
        assert_eq!(csv(words("w", 1), b'"'), "w\n\"\\.\"\n\\.x\n\\\n");
        assert_eq!(csv(words("\\.", 1), b'$'), "$\\.$\n$\\.$\n\\.x\n\\\n");
        assert_eq!(csv(words("w", 2), b'"'), "w,v\n\\.,\\.\n\\.x,\\.x\n\\,\\\n");
    }

    // Numbers were written without a check: a point between fields made two fields of 1.5, and the
    // value 0 was the NULL that `NULL '0'` asks for.
    #[test]
    fn numbers_are_told_from_signs_and_from_null() {
        let batch = || {
            let numbers: ArrayRef = Arc::new(Float64Array::from(vec![Some(-1.5), Some(0.0), None]));
            RecordBatch::try_from_iter([("n", Arc::clone(&numbers)), ("m", numbers)]).unwrap()
        };
        let csv = |delimiter, null: &str| {
            let null = null.to_owned();
            let form = DelimitedForm { delimiter, null, header: false, ..DelimitedForm::csv() };
            written(&ResultForm::Delimited(form), &[batch()])
        };
        assert_eq!(csv(b'.', ""), "\"-1.5\".\"-1.5\"\n\"0.0\".\"0.0\"\n.\n", "delimited-1");
        assert_eq!(csv(b',', "0.0"), "-1.5,-1.5\n\"0.0\",\"0.0\"\n0.0,0.0\n", "delimited-1");
        assert_eq!(csv(b',', ""), "-1.5,-1.5\n0.0,0.0\n,\n");
        let form = DelimitedForm { delimiter: b'-', ..DelimitedForm::text() };
        let text = written(&ResultForm::Delimited(form), &[batch()]);
        assert_eq!(text, "\\-1.5-\\-1.5\n0.0-0.0\n\\N-\\N\n", "delimited-1");
        let form = DelimitedForm { delimiter: b'.', ..DelimitedForm::questdb() };
        let text = written(&ResultForm::Delimited(form), &[batch()]);
        assert!(text.contains("\"-1.5\".\"-1.5\"\r\n"), "delimited-1: {text}");
    }

    #[test]
    fn days_may_be_instants() {
        let days: ArrayRef = Arc::new(Date32Array::from(vec![19_000]));
        let batch = RecordBatch::try_from_iter([("d", days)]).unwrap();
        let form = ResultForm::Delimited(DelimitedForm::questdb());
        assert_eq!(written(&form, &[batch]), "\"d\"\r\n\"2022-01-08T00:00:00.000Z\"\r\n");
    }
}
