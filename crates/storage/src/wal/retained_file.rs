//! Files with records of one table, so that the log can be purged although the table still needs
//! them. Bytes: docs/format.md, Retained records.
//!
//! - retained_file-1. The file is complete before anything refers to it: it is written under
//!   another name, synced and renamed.
//! - Each record has a checksum, and the header contains the number of records and the length
//!   of the file: damage is detected everywhere.
//!
//! Not here: the choice of records (`database::maintenance::retained_records`).

use std::path::Path;
use std::sync::Arc;

use tidegate_model::bytes::{ByteReader, ByteWriter};
use tidegate_model::{Lsn, SeqTxn, TableId, limits};
use tidegate_platform::{Disk, DiskFile, OpenMode};

use super::record::{Record, decode_record, encode_record, shifted, skim_record};
use crate::checksummed_file;
use crate::error::{Corruption, DecodeError, Error, Result};

const MAGIC: [u8; 8] = *b"TIDEKPT\0";
const VERSION: u32 = 1;
/// Magic, version, log, table, end, records, bytes, checksum.
const HEADER_BYTES: usize = 8 + 4 + 8 + 8 + 8 + 8 + 8 + 4;
/// Length and checksum of a record.
const RECORD_HEADER_BYTES: usize = 4 + 4;
/// Approximate size of the parts in which records are written and read.
const BUFFER_BYTES: usize = 1 << 20;

/// The table whose records a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetainedFile<'a> {
    pub(crate) path: &'a Path,
    pub(crate) log: u64,
    pub(crate) table: TableId,
    /// The position before which the records are.
    pub(crate) until: Lsn,
}

/// An action on a record.
type Visit<'a> = dyn FnMut(&Record) -> Result<()> + 'a;

/// Writes a file with the records that `fill` passes on (retained_file-1).
pub(crate) fn write_retained(
    disk: &dyn Disk,
    retained: RetainedFile<'_>,
    fill: &mut dyn FnMut(&mut Visit<'_>) -> Result<()>,
) -> Result<()> {
    let failed = Error::disk("keep records of a table");
    let dir = retained.path.parent().expect("it is in a directory");
    disk.create_dir_all(dir).map_err(&failed)?;
    let temporary = checksummed_file::temporary(retained.path);
    let file = disk.open(&temporary, OpenMode::CreateOrTruncate).map_err(&failed)?;
    let mut w = ByteWriter::default();
    let (mut written, mut records) = (HEADER_BYTES as u64, 0);
    let filled = fill(&mut |record| {
        encode_record(&mut w, record);
        records += 1;
        if w.0.len() >= BUFFER_BYTES {
            file.write_all_at(&w.0, written).map_err(Error::disk("keep records of a table"))?;
            written += w.0.len() as u64;
            w.0.clear();
        }
        Ok(())
    });
    let finish = || {
        file.write_all_at(&w.0, written)?;
        let header = encode_header(retained, records, written + w.0.len() as u64);
        file.write_all_at(&header, 0)?;
        file.sync_data()?;
        disk.rename(&temporary, retained.path)?;
        disk.sync_dir(dir)?;
        // The directory may be new.
        disk.sync_dir(dir.parent().expect("it is in the directory of the database"))
    };
    let outcome = filled.and_then(|()| finish().map_err(failed));
    if outcome.is_err() {
        // If this fails too, the next open removes it.
        let _ = disk.remove(&temporary);
    }
    outcome
}

/// Passes every record of a file to `visit`.
pub(crate) fn read_retained(
    disk: &dyn Disk,
    retained: RetainedFile<'_>,
    visit: &mut Visit<'_>,
) -> Result<()> {
    each_record(disk, retained, &mut |bytes| {
        decode_record(&mut ByteReader::new(bytes)).map(|record| visit(&record))
    })
}

/// Calls `visit` for the rows that the records of a file take from memtables (`skim_record`).
pub(crate) fn skim_retained(
    disk: &dyn Disk,
    retained: RetainedFile<'_>,
    visit: &mut dyn FnMut(TableId, SeqTxn),
) -> Result<()> {
    each_record(disk, retained, &mut |bytes| {
        skim_record(&mut ByteReader::new(bytes), visit).map(Ok)
    })
}

/// The result of a record: an error of its bytes, or of the action on it.
type Visited = Result<Result<(), Error>, DecodeError>;

fn each_record(
    disk: &dyn Disk,
    retained: RetainedFile<'_>,
    visit: &mut dyn FnMut(&[u8]) -> Visited,
) -> Result<()> {
    let failed = Error::disk("read retained records");
    let file = match disk.open(retained.path, OpenMode::Read) {
        Err(error) if error.is_not_found() => return Err(Error::missing(retained.path)),
        file => file.map_err(&failed)?,
    };
    let damage = Error::decode(retained.path);
    let length = file.len().map_err(&failed)?;
    let header = read(&file, 0, HEADER_BYTES).map_err(&failed)?;
    let records = decode_header(&header, retained, length).map_err(&damage)?;
    let mut at = HEADER_BYTES as u64;
    for _ in 0..records {
        let head = read(&file, at, RECORD_HEADER_BYTES).map_err(&failed)?;
        let bytes = ByteReader::new(&head).u32().map_err(|error| damage(error.into()))? as usize;
        if bytes > limits::WAL_RECORD_BYTES {
            let value = bytes as u64;
            let what = Corruption::Impossible { what: "the length of a record", value };
            return Err(Error::Corrupt { path: retained.path.to_path_buf(), offset: at, what });
        }
        let record = read(&file, at, RECORD_HEADER_BYTES + bytes).map_err(&failed)?;
        let base = usize::try_from(at).expect("files fit the address space");
        visit(&record).map_err(|error| damage(shifted(error, base)))??;
        at += record.len() as u64;
    }
    if at == length {
        return Ok(());
    }
    let what = Corruption::LeftOver { left: length.saturating_sub(at) };
    Err(Error::Corrupt { path: retained.path.to_path_buf(), offset: at, what })
}

/// Reads these bytes, as far as the file has them.
fn read(file: &Arc<dyn DiskFile>, at: u64, bytes: usize) -> tidegate_platform::Result<Vec<u8>> {
    let mut buffer = vec![0; bytes];
    let got = file.read_at(&mut buffer, at)?;
    buffer.truncate(got);
    Ok(buffer)
}

fn encode_header(retained: RetainedFile<'_>, records: u64, bytes: u64) -> Vec<u8> {
    let mut w = ByteWriter::default();
    w.raw(&MAGIC).u32(VERSION).u64(retained.log).u64(retained.table.0).u64(retained.until.0);
    w.u64(records).u64(bytes);
    let crc = crc32c::crc32c(&w.0);
    w.u32(crc);
    assert_eq!(w.0.len(), HEADER_BYTES, "docs/format.md, Retained records");
    w.0
}

/// Decodes the number of records in a file.
fn decode_header(
    bytes: &[u8],
    retained: RetainedFile<'_>,
    length: u64,
) -> Result<u64, DecodeError> {
    let mut r = ByteReader::new(bytes);
    if r.array::<8>()? != MAGIC {
        return Err(DecodeError::at(0, Corruption::Magic { expected: "file of retained records" }));
    }
    let version = r.u32()?;
    let actual_names = [r.u64()?, r.u64()?, r.u64()?];
    let (records, expected_length) = (r.u64()?, r.u64()?);
    let at = r.offset();
    let (expected, actual) = (r.u32()?, crc32c::crc32c(&bytes[..at]));
    if actual != expected {
        return Err(DecodeError::at(at, Corruption::Checksum { expected, actual }));
    }
    checksummed_file::check_version(version, VERSION..=VERSION, 8)?;
    let names =
        [("the log", retained.log), ("the table", retained.table.0), ("the LSN", retained.until.0)];
    for ((what, expected), actual) in names.into_iter().zip(actual_names) {
        if expected != actual {
            return Err(DecodeError::at(12, Corruption::Differs { what, expected, actual }));
        }
    }
    if expected_length != length {
        let what = Corruption::Length { expected: expected_length, actual: length };
        return Err(DecodeError::at(HEADER_BYTES - 4, what));
    }
    Ok(records)
}
