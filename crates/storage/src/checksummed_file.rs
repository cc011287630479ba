//! A checksummed file with one value: catalog, manifest, deletion vector.
//! Bytes: docs/format.md, Checksummed files.
//!
//! - checksummed_file-1. A reader of a checkpoint finds the whole old value or the whole new one,
//!   also after a power loss.
//! - checksummed_file-2. Length and checksum are at the same place in every version, so that damage
//!   is distinguished from a newer format.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tidegate_model::bytes::{ByteReader, ByteWriter};
use tidegate_platform::{Disk, OpenMode};

use crate::error::{Corruption, DecodeError, Error, Result};

/// The kind of the value in a file.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) magic: [u8; 8],
    /// The version that is written.
    pub(crate) version: u32,
    /// The oldest version that can be read.
    pub(crate) oldest: u32,
    pub(crate) name: &'static str,
}

/// Magic, version, length of the body.
const HEADER_BYTES: usize = 8 + 4 + 8;
const CRC_BYTES: usize = 4;

/// The bytes of a checksummed file with this body.
pub(crate) fn encode(kind: &Kind, body: &[u8]) -> Vec<u8> {
    let mut w = ByteWriter(Vec::with_capacity(HEADER_BYTES + body.len() + CRC_BYTES));
    w.raw(&kind.magic).u32(kind.version).u64(body.len() as u64).raw(body);
    let crc = crc32c::crc32c(&w.0);
    w.u32(crc);
    w.0
}

/// The body of a file; offsets of the reader are those of the file.
pub(crate) fn decode<'a>(kind: &Kind, bytes: &'a [u8]) -> Result<ByteReader<'a>, DecodeError> {
    assert_eq!(kind.oldest, kind.version, "a reader of several versions calls decode_versions");
    decode_versions(kind, bytes).map(|(_, body)| body)
}

/// As `decode`, and returns the version of the file.
pub(crate) fn decode_versions<'a>(
    kind: &Kind,
    bytes: &'a [u8],
) -> Result<(u32, ByteReader<'a>), DecodeError> {
    let mut r = ByteReader::new(bytes);
    if r.array::<8>()? != kind.magic {
        return Err(DecodeError::at(0, Corruption::Magic { expected: kind.name }));
    }
    let version = r.u32()?;
    let length = r.u64()?;
    let actual = bytes.len() as u64;
    if length.checked_add((HEADER_BYTES + CRC_BYTES) as u64) != Some(actual) {
        let expected = length.saturating_add((HEADER_BYTES + CRC_BYTES) as u64);
        return Err(DecodeError::at(12, Corruption::Length { expected, actual }));
    }
    let (covered, crc) = bytes.split_at(bytes.len() - CRC_BYTES);
    let expected = u32::from_le_bytes(crc.try_into().expect("four bytes were split off"));
    let actual = crc32c::crc32c(covered);
    if actual != expected {
        return Err(DecodeError::at(covered.len(), Corruption::Checksum { expected, actual }));
    }
    check_version(version, kind.oldest..=kind.version, 8)?;
    let mut body = ByteReader::new(covered);
    body.raw(HEADER_BYTES)?;
    Ok((version, body))
}

/// Checks that a version can be read.
pub(crate) fn check_version(
    version: u32,
    known: RangeInclusive<u32>,
    offset: usize,
) -> Result<(), DecodeError> {
    if version > *known.end() {
        return Err(DecodeError::NewerFormat { version, known: *known.end() });
    }
    if version < *known.start() {
        let what = Corruption::Impossible { what: "the format version", value: version.into() };
        return Err(DecodeError::at(offset, what));
    }
    Ok(())
}

/// Checks that nothing follows the value.
pub(crate) fn finish(r: &ByteReader<'_>) -> Result<(), DecodeError> {
    match r.left() as u64 {
        0 => Ok(()),
        left => Err(DecodeError::at(r.offset(), Corruption::LeftOver { left })),
    }
}

/// Writes a checkpoint: a new file, synced, renamed, directory synced (checksummed_file-1).
///
/// After an error, the file has the old value or the new one.
pub(crate) fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> tidegate_platform::Result<()> {
    let written = temporary(path);
    let outcome = write(disk, &written, bytes).and_then(|()| disk.rename(&written, path));
    if outcome.is_err() {
        // If this fails too, the next open removes it.
        let _ = disk.remove(&written);
        return outcome;
    }
    disk.sync_dir(path.parent().expect("a checkpoint lies in a directory"))
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read(disk: &dyn Disk, path: &Path, purpose: &'static str) -> Result<Option<Vec<u8>>> {
    match disk.read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Error::disk(purpose)(error)),
    }
}

/// The name of a file while it is being written.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    PathBuf::from(name)
}

/// The suffix of the name of an incomplete file.
pub(crate) const TEMPORARY: &str = ".tmp";

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> tidegate_platform::Result<()> {
    let file = disk.open(path, OpenMode::CreateOrTruncate)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { magic: *b"TIDETEST", version: 3, oldest: 3, name: "test" };

    #[test]
    fn every_damaged_bit_is_noticed() {
        let bytes = encode(&KIND, b"some value");
        assert_eq!(decode(&KIND, &bytes).unwrap().raw(10), Ok(&b"some value"[..]));
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(
                matches!(decode(&KIND, &damaged), Err(DecodeError::Corrupt { .. })),
                "bit {at}"
            );
        }
        for end in 0..bytes.len() {
            assert!(decode(&KIND, &bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let newer = encode(&Kind { version: 4, oldest: 3, ..KIND }, b"who knows");
        let error = DecodeError::NewerFormat { version: 4, known: 3 };
        assert_eq!(decode(&KIND, &newer).unwrap_err(), error, "checksummed_file-2");
    }

    #[test]
    fn versions_that_are_still_read_are_named_and_older_ones_refused() {
        let several = Kind { oldest: 2, ..KIND };
        for (version, expected) in [(1, None), (2, Some(2)), (3, Some(3)), (4, None)] {
            let bytes = encode(&Kind { version, oldest: version, ..KIND }, b"some value");
            let found = decode_versions(&several, &bytes).ok().map(|(version, _)| version);
            assert_eq!(found, expected);
        }
    }
}
