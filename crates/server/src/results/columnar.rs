//! Results as Parquet or Arrow, batch by batch.
//!
//! - Memory is bounded: a row group is closed when it has `GROUP_ROWS_MAX` rows or about
//!   `GROUP_BYTES_MAX` bytes.
//!
//! A file gets Arrow's file format (Feather), a pipe its stream format, which can be read before
//! its end. Properties of a type that Arrow does not have are in the metadata of the field.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{ResultWriter, WriteError};

const GROUP_ROWS_MAX: usize = 1 << 20;
const GROUP_BYTES_MAX: usize = 128 << 20;
const ZSTD_LEVEL: i32 = 1;

/// The options of Parquet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParquetForm {
    /// The compression of columns.
    pub compression: Compression,
    /// The rows of a row group, at most `GROUP_ROWS_MAX`.
    pub group_rows: usize,
}

impl Default for ParquetForm {
    fn default() -> ParquetForm {
        let level = ZstdLevel::try_new(ZSTD_LEVEL).expect("a level that zstd has");
        ParquetForm { compression: Compression::ZSTD(level), group_rows: GROUP_ROWS_MAX }
    }
}

impl ParquetForm {
    /// Sets the codec by its name and level; `None` if there is no such codec or level.
    #[must_use]
    pub fn with_codec(self, name: &str, level: Option<u32>) -> Option<ParquetForm> {
        let compression = match (name.to_ascii_uppercase().as_str(), level) {
            ("UNCOMPRESSED", None) => Compression::UNCOMPRESSED,
            ("SNAPPY", None) => Compression::SNAPPY,
            ("LZ4_RAW", None) => Compression::LZ4_RAW,
            ("GZIP", None) => Compression::GZIP(GzipLevel::default()),
            ("GZIP", Some(level)) => Compression::GZIP(GzipLevel::try_new(level).ok()?),
            ("BROTLI", None) => Compression::BROTLI(BrotliLevel::default()),
            ("BROTLI", Some(level)) => Compression::BROTLI(BrotliLevel::try_new(level).ok()?),
            ("ZSTD", None) => ParquetForm::default().compression,
            ("ZSTD", Some(level)) => {
                Compression::ZSTD(ZstdLevel::try_new(i32::try_from(level).ok()?).ok()?)
            }
            _ => return None,
        };
        Some(ParquetForm { compression, ..self })
    }

    /// Sets the rows of a row group.
    #[must_use]
    pub fn with_group_rows(self, rows: u64) -> ParquetForm {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        ParquetForm { group_rows: rows.clamp(1, GROUP_ROWS_MAX), ..self }
    }
}

/// A writer of Parquet.
pub struct ParquetWriter<W: Write + Send>(ArrowWriter<W>);
/// A writer of Arrow's file format.
pub struct ArrowFileWriter<W: Write>(FileWriter<W>);
/// A writer of Arrow's stream format.
pub struct ArrowStreamWriter<W: Write>(StreamWriter<W>);

impl<W: Write + Send> ParquetWriter<W> {
    /// Makes a writer for rows of this schema.
    ///
    /// # Errors
    /// If Parquet does not have one of its types.
    pub fn new(out: W, fields: SchemaRef, form: ParquetForm) -> Result<Self, WriteError> {
        let properties = WriterProperties::builder()
            .set_compression(form.compression)
            .set_max_row_group_row_count(Some(form.group_rows))
            .set_max_row_group_bytes(Some(GROUP_BYTES_MAX))
            .set_created_by(format!("tidegate {}", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(ParquetWriter(ArrowWriter::try_new(out, fields, Some(properties))?))
    }
}

impl<W: Write + Send> ResultWriter for ParquetWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        Ok(self.0.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        self.0.finish()?;
        Ok(())
    }
}

impl<W: Write> ArrowFileWriter<W> {
    /// Makes a writer for rows of this schema.
    ///
    /// # Errors
    /// If the beginning of the file cannot be written.
    pub fn new(out: W, fields: &SchemaRef) -> Result<Self, WriteError> {
        Ok(ArrowFileWriter(FileWriter::try_new(out, fields)?))
    }
}

impl<W: Write> ResultWriter for ArrowFileWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        Ok(self.0.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        Ok(self.0.finish()?)
    }
}

impl<W: Write> ArrowStreamWriter<W> {
    /// Makes a writer for rows of this schema.
    ///
    /// # Errors
    /// If the beginning of the stream cannot be written.
    pub fn new(out: W, fields: &SchemaRef) -> Result<Self, WriteError> {
        Ok(ArrowStreamWriter(StreamWriter::try_new(out, fields)?))
    }
}

impl<W: Write> ResultWriter for ArrowStreamWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        Ok(self.0.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        Ok(self.0.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use arrow::compute::concat_batches;
    use arrow::ipc::reader::{FileReader, StreamReader};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::super::ResultForm;
    use super::super::tests::{sample, written_bytes};
    use super::*;

    #[test]
    fn parquet_reads_back_as_what_was_written() {
        let bytes =
            written_bytes(&ResultForm::Parquet(ParquetForm::default()), &[sample(), sample()]);
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap();
        check(reader.build().unwrap().map(Result::unwrap).collect());
    }

    #[test]
    fn arrow_is_a_stream_in_a_pipe_and_a_file_elsewhere() {
        let mut stream = Vec::new();
        let mut writer = Box::new(ArrowStreamWriter::new(&mut stream, &sample().schema()).unwrap());
        writer.write(&sample()).unwrap();
        writer.write(&sample()).unwrap();
        writer.finish().unwrap();
        let reader = StreamReader::try_new(Cursor::new(stream), None).unwrap();
        check(reader.map(Result::unwrap).collect());

        let bytes = written_bytes(&ResultForm::ArrowFile, &[sample(), sample()]);
        let reader = FileReader::try_new(Cursor::new(bytes), None).unwrap();
        check(reader.map(Result::unwrap).collect());
    }

    #[test]
    fn codecs_are_chosen_by_their_names() {
        let form = ParquetForm::default();
        for (name, level, is_one) in [
            ("snappy", None, true),
            ("ZSTD", Some(19), true),
            ("zstd", Some(99), false),
            ("gzip", Some(6), true),
            ("snappy", Some(1), false),
            ("lzo", None, false),
        ] {
            assert_eq!(form.with_codec(name, level).is_some(), is_one, "{name} {level:?}");
        }
        assert_eq!(form.with_group_rows(0).group_rows, 1);
        assert_eq!(form.with_group_rows(u64::MAX).group_rows, GROUP_ROWS_MAX);
    }

    #[track_caller]
    fn check(read: Vec<RecordBatch>) {
        let schema = sample().schema();
        let expected = concat_batches(&schema, &[sample(), sample()]).unwrap();
        assert_eq!(concat_batches(&schema, &read).unwrap(), expected);
    }
}
