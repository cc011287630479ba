//! Results as files: CSV, PostgreSQL's text, JSON, Parquet and Arrow, a batch at a time.
//!
//! - results-1. A writer holds no more than a bounded part of a result.
//!
//! The text of a value is made in `value_text`. Not here: tables for people (`tidegate`), and the
//! JSON of `/exec` (`http`).

mod delimited;
mod json_rows;
mod columnar;

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use thiserror::Error;

pub use columnar::{ArrowFileWriter, ArrowStreamWriter, ParquetForm, ParquetWriter};
pub use delimited::{Days, Delimited, DelimitedForm, DelimitedWriter, Escapes, Quoting};
pub use json_rows::{JsonLayout, JsonWriter};

/// The reason why a result could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The output cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A value has no text.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// Parquet cannot represent a value or type.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
}

/// A writer of one result.
pub trait ResultWriter {
    /// Writes the rows of a batch, in order.
    ///
    /// # Errors
    /// If the output fails, or a value has no representation in the format.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError>;

    /// Writes the end of the file after the last row.
    ///
    /// # Errors
    /// As `write`.
    fn finish(self: Box<Self>) -> Result<(), WriteError>;
}

/// The format of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultForm {
    /// Fields and delimiters.
    Delimited(DelimitedForm),
    /// A JSON object a line.
    Ndjson,
    /// Apache Parquet.
    Parquet(ParquetForm),
    /// Arrow IPC: as a stream.
    ArrowStream,
    /// Arrow IPC: as a file.
    ArrowFile,
}

impl ResultForm {
    /// Makes the writer of one result.
    ///
    /// # Errors
    /// If the format does not have the type of a column, or the output fails.
    pub fn writer<'a, W: Write + Send + 'a>(
        &self,
        out: W,
        fields: SchemaRef,
    ) -> Result<Box<dyn ResultWriter + Send + 'a>, WriteError> {
        Ok(match self {
            ResultForm::Delimited(form) => {
                Box::new(DelimitedWriter::new(out, fields, form.clone())?)
            }
            ResultForm::Ndjson => Box::new(JsonWriter::new(out, fields, JsonLayout::Lines)),
            ResultForm::Parquet(form) => Box::new(ParquetWriter::new(out, fields, *form)?),
            ResultForm::ArrowStream => Box::new(ArrowStreamWriter::new(out, &fields)?),
            ResultForm::ArrowFile => Box::new(ArrowFileWriter::new(out, &fields)?),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, StringViewArray,
    };

    use super::*;
    use crate::value_text::extremes;

    // Parquet has no intervals and no decimals of a negative scale, and says so.
    #[test]
    fn extreme_values_are_written_or_refused_by_all_formats() {
        for array in extremes::columns() {
            let ty = array.data_type().clone();
            let batch = RecordBatch::try_from_iter([("c", array)]).unwrap();
            for form in [
                ResultForm::Delimited(DelimitedForm::csv()),
                ResultForm::Delimited(DelimitedForm::questdb()),
                ResultForm::Delimited(DelimitedForm::text()),
                ResultForm::Ndjson,
                ResultForm::ArrowStream,
                ResultForm::ArrowFile,
                ResultForm::Parquet(ParquetForm::default()),
            ] {
                let mut out = Vec::new();
                let written = form.writer(&mut out, batch.schema()).and_then(|mut writer| {
                    writer.write(&batch)?;
                    writer.finish()
                });
                let may_fail = matches!(form, ResultForm::Parquet(_));
                assert!(written.is_ok() || may_fail, "value_text-1: {ty} as {form:?}");
                if form == ResultForm::Ndjson {
                    for line in String::from_utf8(out).unwrap().lines() {
                        let read = serde_json::from_str::<serde_json::Value>(line);
                        assert!(read.is_ok(), "json-1: {ty}: {line}");
                    }
                }
            }
        }
    }

    /// Makes three rows: values, NULLs, and values that are hard to write.
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

    pub(crate) fn written_bytes(form: &ResultForm, batches: &[RecordBatch]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = form.writer(&mut out, batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        out
    }

    pub(crate) fn written(form: &ResultForm, batches: &[RecordBatch]) -> String {
        String::from_utf8(written_bytes(form, batches)).unwrap()
    }
}
