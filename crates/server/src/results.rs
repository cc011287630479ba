//! Results as files: CSV, text with backslashes, JSON, Parquet and Arrow, a batch at a time.
//!
//! - RS1. A writer holds no more than a bounded part of a result.
//!
//! What a value is as text is in `cell`. Not here: tables for people (`tidegate`), and the JSON of
//! `/exec` (`http`).

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
pub use json_rows::{Frame, JsonWriter};

/// Why a result could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Whoever takes the bytes does not.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A value has no text.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// Parquet cannot hold it.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
}

/// Writes one result.
pub trait ResultWriter {
    /// Writes the rows of a batch, in order.
    ///
    /// # Errors
    /// If nobody takes them, or they have no such form.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError>;

    /// Writes what stands behind the last row.
    ///
    /// # Errors
    /// As `write`.
    fn finish(self: Box<Self>) -> Result<(), WriteError>;
}

/// The form of a result, as whoever asks for it names it.
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
    /// The writer of one result.
    ///
    /// # Errors
    /// If it has columns that the form has not, or its beginning is not taken.
    pub fn writer<'a, W: Write + Send + 'a>(
        &self,
        out: W,
        fields: SchemaRef,
    ) -> Result<Box<dyn ResultWriter + Send + 'a>, WriteError> {
        Ok(match self {
            ResultForm::Delimited(form) => {
                Box::new(DelimitedWriter::new(out, fields, form.clone())?)
            }
            ResultForm::Ndjson => Box::new(JsonWriter::new(out, fields, Frame::Lines)),
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
