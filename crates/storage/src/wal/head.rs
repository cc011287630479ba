//! The head of the log: names its newest file, so that a missing one is detected.
//!
//! Each file of the log states where the preceding one ends, but not that another one follows: the
//! head states that. It is written when a new file is on disk, and before a commit in that file is
//! acknowledged.
//!
//! - wal_head-1. The head names a file that was durable when the head was written. If the newest
//!   existing file begins earlier, a file is lost.
//! - wal_head-2. Without a head nothing is checked: older programs write none, and an unreadable
//!   head loses no data itself.
//! - wal_head-3. The head is overwritten in place, with one sync and no further space. That is safe
//!   because it is smaller than a sector, which a disk writes atomically.
//!
//! Bytes: docs/format.md, Head of the log.

use std::path::{Path, PathBuf};

use tidegate_model::Lsn;
use tidegate_model::bytes::ByteWriter;
use tidegate_platform::{Disk, OpenMode};

use super::files::{LogFile, file_name};
use super::group::SECTOR;
use crate::checksummed_file::{self, Kind};
use crate::error::{Corruption, DecodeError, Error, Result};

const KIND: Kind = Kind { magic: *b"TIDEHED\0", version: 1, oldest: 1, name: "head of the log" };
const NAME: &str = "head";

/// Writes the head: the newest file of the log begins at `first`.
pub(super) fn write_head(
    disk: &dyn Disk,
    dir: &Path,
    log: u64,
    first: Lsn,
) -> tidegate_platform::Result<()> {
    let mut w = ByteWriter::default();
    w.u64(log).u64(first.0);
    let (path, bytes) = (path_of(dir), checksummed_file::encode(&KIND, &w.0));
    assert!(bytes.len() <= SECTOR, "wal_head-3");
    match disk.open(&path, OpenMode::ReadWrite) {
        Ok(file) if file.len()? == bytes.len() as u64 => {
            file.write_all_at(&bytes, 0)?;
            file.sync_data()
        }
        Err(error) if !error.is_not_found() => Err(error),
        // The first head, or one with a damaged length.
        _ => checksummed_file::replace(disk, &path, &bytes),
    }
}

/// The position at which the newest file of a log begins; `None` without a head.
///
/// # Errors
/// If the head cannot be read, is damaged, or of another log.
pub(crate) fn read_head(disk: &dyn Disk, dir: &Path, log: u64) -> Result<Option<Lsn>> {
    let path = path_of(dir);
    let Some(bytes) = checksummed_file::read(disk, &path, "read head of the log")? else {
        return Ok(None);
    };
    let first = decode_head(&bytes, log).map_err(Error::decode(&path))?;
    Ok(Some(first))
}

/// Adds the file that the head names to the existing ones, if it is missing, so that its loss is
/// reported (wal_head-1).
pub(super) fn add_missing(
    disk: &dyn Disk,
    dir: &Path,
    log: u64,
    files: &mut Vec<LogFile>,
) -> Result<()> {
    let first = match read_head(disk, dir, log) {
        Err(error @ Error::NewerFormat { .. }) => return Err(error),
        // wal_head-2.
        Err(_) | Ok(None) => return Ok(()),
        Ok(Some(first)) => first,
    };
    if files.last().is_none_or(|last| last.first < first) {
        files.push(LogFile { first, path: dir.join(file_name(first)) });
    }
    Ok(())
}

fn path_of(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

fn decode_head(bytes: &[u8], log: u64) -> Result<Lsn, DecodeError> {
    let mut r = checksummed_file::decode(&KIND, bytes)?;
    let (at, actual, first) = (r.offset(), r.u64()?, Lsn(r.u64()?));
    if actual != log {
        let what = Corruption::Differs { what: "the log", expected: log, actual };
        return Err(DecodeError::at(at, what));
    }
    checksummed_file::finish(&r)?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use tidegate_platform::SimDisk;

    use super::*;

    #[test]
    fn a_head_is_read_back_and_refused_for_another_log() {
        let (disk, dir) = (SimDisk::new(1), Path::new("/wal"));
        disk.create_dir_all(dir).unwrap();
        assert_eq!(read_head(&disk, dir, 7).unwrap(), None);
        for first in [Lsn(0), Lsn(8_192)] {
            write_head(&disk, dir, 7, first).unwrap();
            assert_eq!(read_head(&disk, dir, 7).unwrap(), Some(first));
            assert!(matches!(read_head(&disk, dir, 8), Err(Error::Corrupt { .. })));
        }
    }

    #[test]
    fn only_a_file_after_all_others_is_missing() {
        let (disk, dir) = (SimDisk::new(1), Path::new("/wal"));
        disk.create_dir_all(dir).unwrap();
        write_head(&disk, dir, 7, Lsn(8_192)).unwrap();
        for (firsts, expected) in [(vec![0, 4_096], 3), (vec![0, 8_192], 2), (vec![12_288], 1)] {
            let file = |first| LogFile { first: Lsn(first), path: PathBuf::new() };
            let mut files: Vec<LogFile> = firsts.into_iter().map(file).collect();
            add_missing(&disk, dir, 7, &mut files).unwrap();
            assert_eq!(files.len(), expected);
        }
    }
}
