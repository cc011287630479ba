//! A Parquet file's bytes, read through `platform`.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use tidegate_platform::{DiskFile, FileStamp};

use crate::error::{Error, Result};
use crate::input::check_unchanged;
use crate::progress::Progress;

/// An open file of fixed size.
#[derive(Debug, Clone)]
pub(super) struct ParquetSource {
    file: Arc<dyn DiskFile>,
    stamp: FileStamp,
    progress: Arc<Progress>,
}

/// Reads on from some place.
#[derive(Debug)]
pub(super) struct ParquetRead {
    source: ParquetSource,
    offset: u64,
}

impl ParquetSource {
    pub(super) fn new(file: &Arc<dyn DiskFile>, progress: &Arc<Progress>) -> Result<Self> {
        let stamp = file.stamp().map_err(Error::Input)?;
        Ok(ParquetSource { file: Arc::clone(file), stamp, progress: Arc::clone(progress) })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.stamp.bytes
    }

    /// H2 of `input`.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        check_unchanged(&*self.file, &self.stamp)
    }
}

impl Length for ParquetSource {
    fn len(&self) -> u64 {
        self.stamp.bytes
    }
}

impl ChunkReader for ParquetSource {
    type T = ParquetRead;

    fn get_read(&self, start: u64) -> parquet::errors::Result<ParquetRead> {
        Ok(ParquetRead { source: self.clone(), offset: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|&end| end <= self.stamp.bytes);
        if end.is_none() {
            let bytes = self.stamp.bytes;
            let message = format!("{length} bytes wanted at {start} of a file of {bytes}");
            return Err(ParquetError::EOF(message));
        }
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, start);
        read.map_err(|error| ParquetError::External(Box::new(error)))?;
        self.progress.add_bytes_read(length as u64);
        Ok(bytes.into())
    }
}

impl Read for ParquetRead {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.source.file.read_at(into, self.offset).map_err(std::io::Error::other)?;
        self.offset += read as u64;
        self.source.progress.add_bytes_read(read as u64);
        Ok(read)
    }
}
