//! The bytes of a Parquet file, read through `platform`.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

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
    /// The first error of the disk: the library passes on only its text.
    failed: Arc<Mutex<Option<tidegate_platform::Error>>>,
}

/// A reader from some offset on, for the header of a page, which is read byte by byte.
#[derive(Debug)]
pub(super) struct ParquetRead {
    source: ParquetSource,
    offset: u64,
    /// The bytes that were read ahead, and the number of those that were taken.
    ahead: Vec<u8>,
    taken: usize,
}

/// The number of bytes that are read ahead: the headers of most pages are shorter.
const AHEAD_BYTES: usize = 256;

impl ParquetSource {
    pub(super) fn new(file: &Arc<dyn DiskFile>, progress: &Arc<Progress>) -> Result<Self> {
        let stamp = file.stamp().map_err(Error::Input)?;
        Ok(ParquetSource {
            file: Arc::clone(file),
            stamp,
            progress: Arc::clone(progress),
            failed: Arc::default(),
        })
    }

    /// The error of the disk that caused an error of the library, if there was one.
    pub(super) fn take_error(&self) -> Option<tidegate_platform::Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, error: tidegate_platform::Error) -> std::io::Error {
        let shown = std::io::Error::other(error.to_string());
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        shown
    }

    /// Fills `into` from an offset in the file.
    pub(super) fn read_header(&self, into: &mut [u8], start: u64) -> std::io::Result<()> {
        self.file.read_exact_at(into, start).map_err(|error| self.note(error))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.stamp.bytes
    }

    /// Checks that the file is unchanged (input-1 of `input`).
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
        Ok(ParquetRead { source: self.clone(), offset: start, ahead: Vec::new(), taken: 0 })
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
        read.map_err(|error| ParquetError::External(Box::new(self.note(error))))?;
        self.progress.add_bytes_read(length as u64);
        Ok(bytes.into())
    }
}

impl Read for ParquetRead {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.taken == self.ahead.len() {
            let left = self.source.stamp.bytes.saturating_sub(self.offset);
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(AHEAD_BYTES);
            self.ahead.resize(wanted, 0);
            self.taken = 0;
            self.source.read_header(&mut self.ahead, self.offset)?;
            self.offset += wanted as u64;
        }
        let count = into.len().min(self.ahead.len() - self.taken);
        into[..count].copy_from_slice(&self.ahead[self.taken..self.taken + count]);
        self.taken += count;
        self.source.progress.add_bytes_read(count as u64);
        Ok(count)
    }
}
