//! Where results go and in which form.
//!
//! - O7. Results are streamed: a writer holds no more than a bounded part of them.
//! - O8. A closed pipe is no error of ours: whoever read has seen enough. `Sink::is_closed` tells.
//!
//! Not here: what a query is, and what is said about it besides its rows (`sql`); and the forms
//! that are no tables for people (`tidegate_server::results`).

mod table;
mod target;

use std::io::Write;

use arrow::datatypes::SchemaRef;
use clap::ValueEnum;
use tidegate_server::results::{DelimitedForm, Frame, JsonWriter, ParquetForm, ResultForm};

pub(crate) use tidegate_server::results::{ResultWriter, WriteError};

pub(crate) use self::table::printable;
pub(crate) use self::target::{STDOUT, Target};

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns, for people
    Table,
    /// RFC 4180 with a header; NULL is empty, empty text is ""
    Csv,
    /// One array of objects
    Json,
    /// One object a line
    Ndjson,
    /// Parquet, compressed with zstd
    Parquet,
    /// Arrow IPC: the file format with --output, the stream format otherwise
    Arrow,
}

/// What a table may assume about where it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A file or a pipe: nothing is cut.
    Plain,
    /// So many columns and no more.
    Terminal {
        /// The width.
        columns: usize,
    },
}

/// Where and how all results of a command are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) format: Format,
    pub(crate) layout: Layout,
    /// Whether `format` may end with an index that a reader looks for at the end of a file.
    pub(crate) is_file: bool,
}

impl Form {
    /// The writer of one result.
    pub(crate) fn writer<'a>(
        self,
        out: &'a mut (dyn Write + Send),
        fields: SchemaRef,
    ) -> Result<Box<dyn ResultWriter + 'a>, WriteError> {
        let form = match self.format {
            Format::Table => {
                return Ok(Box::new(table::TableWriter::new(out, fields, self.layout)));
            }
            Format::Json => return Ok(Box::new(JsonWriter::new(out, fields, Frame::Array))),
            Format::Csv => ResultForm::Delimited(DelimitedForm::csv()),
            Format::Ndjson => ResultForm::Ndjson,
            Format::Parquet => ResultForm::Parquet(ParquetForm::default()),
            Format::Arrow if self.is_file => ResultForm::ArrowFile,
            Format::Arrow => ResultForm::ArrowStream,
        };
        Ok(form.writer(out, fields)?)
    }
}

impl Format {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Table => "table",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Ndjson => "ndjson",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
        }
    }

    /// Whether a second result behind the first would not be understood.
    pub(crate) fn holds_one_result(self) -> bool {
        self.is_binary()
    }

    /// Not for terminals.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Format::Parquet | Format::Arrow)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch,
        StringViewArray,
    };

    use super::*;

    /// Three rows: values, NULLs, and values that are hard to write.
    pub(crate) fn sample() -> RecordBatch {
        let prices = Decimal128Array::from(vec![Some(10), None, Some(1_200)]);
        let words = StringViewArray::from(vec![Some("a \"b\"\n\\"), None, Some("")]);
        let columns: [(&str, ArrayRef); 5] = [
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)]))),
            ("x", Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN)]))),
            ("price", Arc::new(prices.with_precision_and_scale(9, 2).unwrap())),
            ("word", Arc::new(words)),
            ("ok", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
            .unwrap()
    }

    /// One row of texts.
    pub(crate) fn texts(cells: &[(&str, &str)]) -> RecordBatch {
        let column = |&(name, text): &(&str, &str)| {
            let array: ArrayRef = Arc::new(StringViewArray::from(vec![text.to_owned()]));
            (name.to_owned(), array, true)
        };
        RecordBatch::try_from_iter_with_nullable(cells.iter().map(column)).unwrap()
    }

    #[track_caller]
    pub(crate) fn written(format: Format, batches: &[RecordBatch], layout: Layout) -> String {
        let mut bytes = Vec::new();
        let form = Form { format, layout, is_file: true };
        let mut writer = form.writer(&mut bytes, batches[0].schema()).unwrap();
        for batch in batches {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }
}
