//! Results as Parquet or Arrow, batch by batch.
//!
//! - O6. Memory is bounded: a row group is closed when it has `GROUP_ROWS_MAX` rows or about
//!   `GROUP_BYTES_MAX` bytes.
//!
//! To a file, Arrow is its file format (Feather); to a pipe its stream format, which a reader can
//! use before the end. What Arrow does not know of a type is in the metadata of the field.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{ResultWriter, WriteError};

const GROUP_ROWS_MAX: usize = 1 << 20;
const GROUP_BYTES_MAX: usize = 128 << 20;
const ZSTD_LEVEL: i32 = 1;

pub(super) struct ParquetWriter<'a>(ArrowWriter<&'a mut (dyn Write + Send)>);
pub(super) struct ArrowFileWriter<'a>(FileWriter<&'a mut (dyn Write + Send)>);
pub(super) struct ArrowStreamWriter<'a>(StreamWriter<&'a mut (dyn Write + Send)>);

impl<'a> ParquetWriter<'a> {
    pub(super) fn new(
        out: &'a mut (dyn Write + Send),
        fields: SchemaRef,
    ) -> Result<Self, WriteError> {
        let level = ZstdLevel::try_new(ZSTD_LEVEL).expect("a level that zstd has");
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(GROUP_ROWS_MAX))
            .set_max_row_group_bytes(Some(GROUP_BYTES_MAX))
            .set_created_by(format!("tidegate {}", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(ParquetWriter(ArrowWriter::try_new(out, fields, Some(properties))?))
    }
}

impl ResultWriter for ParquetWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        Ok(self.0.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        self.0.finish()?;
        Ok(())
    }
}

impl<'a> ArrowFileWriter<'a> {
    pub(super) fn new(
        out: &'a mut (dyn Write + Send),
        fields: &SchemaRef,
    ) -> Result<Self, WriteError> {
        Ok(ArrowFileWriter(FileWriter::try_new(out, fields)?))
    }
}

impl ResultWriter for ArrowFileWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        Ok(self.0.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        Ok(self.0.finish()?)
    }
}

impl<'a> ArrowStreamWriter<'a> {
    pub(super) fn new(
        out: &'a mut (dyn Write + Send),
        fields: &SchemaRef,
    ) -> Result<Self, WriteError> {
        Ok(ArrowStreamWriter(StreamWriter::try_new(out, fields)?))
    }
}

impl ResultWriter for ArrowStreamWriter<'_> {
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

    use super::super::tests::{sample, written_bytes};
    use super::super::{Format, Layout};
    use super::*;

    #[test]
    fn parquet_reads_back_as_what_was_written() {
        let bytes = written_bytes(Format::Parquet, &[sample(), sample()], Layout::Plain);
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

        let bytes = written_bytes(Format::Arrow, &[sample(), sample()], Layout::Plain);
        let reader = FileReader::try_new(Cursor::new(bytes), None).unwrap();
        check(reader.map(Result::unwrap).collect());
    }

    #[track_caller]
    fn check(read: Vec<RecordBatch>) {
        let schema = sample().schema();
        let expected = concat_batches(&schema, &[sample(), sample()]).unwrap();
        assert_eq!(concat_batches(&schema, &read).unwrap(), expected);
    }
}
