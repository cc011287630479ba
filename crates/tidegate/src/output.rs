//! Destination and format of results.
//!
//! - Results are streamed: a writer holds no more than a bounded part of them.
//! - output-1. A closed pipe is not an error: its reader has seen enough. `Sink::is_closed` tells.
//!
//! Not here: running queries, and the messages about them (`sql`); and the formats other than
//! tables for people (`tidegate_server::results`).

mod table;
mod target;

use std::io::Write;

use arrow::datatypes::SchemaRef;
use clap::ValueEnum;
use tidegate_server::results::{DelimitedForm, JsonLayout, JsonWriter, ParquetForm, ResultForm};

pub(crate) use tidegate_server::results::{ResultWriter, WriteError};

pub(crate) use self::table::printable;
pub(crate) use self::target::{STDOUT, Target};

/// Output format of results.
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

/// Width that a table may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A file or a pipe: nothing is cut.
    Plain,
    /// A terminal with this many columns.
    Terminal {
        /// Width of the terminal.
        columns: usize,
    },
}

/// Format and layout of all results of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) format: Format,
    pub(crate) layout: Layout,
    /// True if `format` may end with an index that a reader looks for at the end of a file.
    pub(crate) is_file: bool,
}

impl Form {
    /// Returns a writer for one result.
    pub(crate) fn writer<'a>(
        self,
        out: &'a mut (dyn Write + Send),
        fields: SchemaRef,
    ) -> Result<Box<dyn ResultWriter + 'a>, WriteError> {
        let form = match self.format {
            Format::Table => {
                return Ok(Box::new(table::TableWriter::new(out, fields, self.layout)));
            }
            Format::Json => return Ok(Box::new(JsonWriter::new(out, fields, JsonLayout::Array))),
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
    /// Returns the name of the format as an argument.
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

    /// True if readers of this format would not understand a second result behind the first.
    pub(crate) fn holds_one_result(self) -> bool {
        self.is_binary()
    }

    /// True if the format is not for terminals.
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

    /// Returns three rows: values, NULLs, and values that are hard to write.
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

    /// Returns one row of texts.
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
