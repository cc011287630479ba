//! A group: the records that share a sync, and the header of a file of groups.
//! Bytes: docs/format.md, Log.
//!
//! - W4. A group begins at a page.

use tidegate_model::bytes::{ByteReader, ByteWriter};
use tidegate_model::{Lsn, SeqTxn, TableId, limits};

use super::record::{
    Record, TableShares, bytes_of_tables, decode_record, encode_record, record_bytes_max,
    skim_record,
};
use crate::envelope;
use crate::error::{Corruption, DecodeError};

/// Groups begin at multiples of this (W4).
pub(crate) const PAGE: usize = 4_096;
const _: () = assert!(PAGE as u64 == limits::PAGE_BYTES);

/// Bytes of a file before its first group.
pub(crate) const FILE_HEADER_BYTES: usize = PAGE;
const FILE_MAGIC: [u8; 8] = *b"TIDEWAL\0";
const FILE_VERSION: u32 = 2;
/// Files of this version have the same groups, with fewer kinds of changes in them.
const FILE_VERSION_OLDEST: u32 = 1;
/// Magic, version, log, first LSN.
pub(super) const FILE_FIELDS_BYTES: usize = 8 + 4 + 8 + 8;

const GROUP_MAGIC: [u8; 8] = *b"TIDEGRP\0";
/// Magic, log, LSN, durable LSN, bytes, count of records.
const GROUP_FIELDS_BYTES: usize = 8 + 8 + 8 + 8 + 8 + 4;
/// The fields and the checksum.
pub(crate) const GROUP_HEADER_BYTES: usize = GROUP_FIELDS_BYTES + 4;

/// What the records of a group may take together: as much as one may.
pub(crate) const RECORDS_BYTES_MAX: usize = limits::WAL_RECORD_BYTES;
const GROUP_BYTES_MAX: usize = RECORDS_BYTES_MAX + PAGE;

/// The records of one sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Everything before it was on disk when this group was written.
    pub durable: Lsn,
    /// Where the next group begins.
    pub end: Lsn,
    /// In the order of their commits.
    pub records: Vec<Record>,
}

/// A group as it is going to be on disk.
#[derive(Debug)]
pub(crate) struct EncodedGroup {
    /// All of it.
    pub(crate) bytes: Vec<u8>,
    /// What its records take of that, by table.
    pub(crate) shares: TableShares,
}

/// What a group says before its records; not yet checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupHeader {
    pub(crate) bytes: usize,
}

/// The first page of a file.
pub(crate) fn encode_file_header(log: u64, first: Lsn) -> Vec<u8> {
    let mut w = ByteWriter::default();
    w.raw(&FILE_MAGIC).u32(FILE_VERSION).u64(log).u64(first.0);
    assert_eq!(w.0.len(), FILE_FIELDS_BYTES, "docs/format.md, Log");
    let crc = crc32c::crc32c(&w.0);
    w.u32(crc).pad(FILE_HEADER_BYTES);
    w.0
}

/// Checks that a file is one of this log and begins at `first`.
pub(crate) fn decode_file_header(bytes: &[u8], log: u64, first: Lsn) -> Result<(), DecodeError> {
    let mut r = ByteReader::new(bytes);
    if r.array::<8>()? != FILE_MAGIC {
        return Err(DecodeError::at(0, Corruption::Magic { expected: "log file" }));
    }
    let (version, found_log, found_first) = (r.u32()?, r.u64()?, r.u64()?);
    let (expected, actual) = (r.u32()?, crc32c::crc32c(&bytes[..FILE_FIELDS_BYTES]));
    if actual != expected {
        return Err(DecodeError::at(FILE_FIELDS_BYTES, Corruption::Checksum { expected, actual }));
    }
    envelope::check_version(version, FILE_VERSION_OLDEST..=FILE_VERSION, 8)?;
    for (what, expected, actual) in
        [("the log", log, found_log), ("the first LSN", first.0, found_first)]
    {
        if actual != expected {
            return Err(DecodeError::at(12, Corruption::Differs { what, expected, actual }));
        }
    }
    Ok(())
}

/// A group of records: a header, the records, and zeros up to a page.
///
/// Records have images of rows in them, so they are encoded where they stay.
pub(crate) fn encode_group(log: u64, lsn: Lsn, durable: Lsn, records: &[Record]) -> EncodedGroup {
    assert!(lsn.0.is_multiple_of(PAGE as u64), "W4");
    let records_max = records.iter().map(|record| record_bytes_max(&record.ops)).sum::<usize>();
    let bytes_max = GROUP_HEADER_BYTES + records_max;
    let mut w = ByteWriter(Vec::with_capacity(bytes_max.next_multiple_of(PAGE)));
    w.raw(&[0; GROUP_HEADER_BYTES]);
    let mut shares = Vec::new();
    for record in records {
        let start = w.0.len();
        encode_record(&mut w, record);
        shares.extend(bytes_of_tables(&w.0[start..]));
    }
    let records_bytes = w.0.len() - GROUP_HEADER_BYTES;
    assert!(records_bytes <= RECORDS_BYTES_MAX, "whoever forms a group bounds it");
    let mut header = ByteWriter::default();
    header.raw(&GROUP_MAGIC).u64(log).u64(lsn.0).u64(durable.0).u64(w.0.len() as u64);
    header.u32(u32::try_from(records.len()).expect("a group has few records"));
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header.0), &w.0[GROUP_HEADER_BYTES..]);
    header.u32(crc);
    w.0[..GROUP_HEADER_BYTES].copy_from_slice(&header.0);
    w.pad(PAGE);
    EncodedGroup { bytes: w.0, shares }
}

/// What a group at `lsn` says of itself, if a group of this log begins there.
pub(crate) fn peek_group(bytes: &[u8], log: u64, lsn: Lsn) -> Result<GroupHeader, DecodeError> {
    let mut r = ByteReader::new(bytes);
    if r.array::<8>()? != GROUP_MAGIC {
        return Err(DecodeError::at(0, Corruption::Magic { expected: "group of the log" }));
    }
    for (what, expected) in [("the log", log), ("the LSN", lsn.0)] {
        let (at, actual) = (r.offset(), r.u64()?);
        if actual != expected {
            return Err(DecodeError::at(at, Corruption::Differs { what, expected, actual }));
        }
    }
    r.u64()?;
    let (at, bytes) = (r.offset(), r.u64()?);
    match usize::try_from(bytes) {
        Ok(bytes) if (GROUP_HEADER_BYTES..=GROUP_BYTES_MAX).contains(&bytes) => {
            Ok(GroupHeader { bytes })
        }
        _ => {
            let what = Corruption::Impossible { what: "the length of a group", value: bytes };
            Err(DecodeError::at(at, what))
        }
    }
}

/// A group whose checksum is right: what is wrong with its records now was written so.
#[derive(Debug)]
pub(crate) struct CheckedGroup<'a> {
    pub(crate) durable: Lsn,
    pub(crate) end: Lsn,
    count: u32,
    records: ByteReader<'a>,
}

/// The group that begins at `lsn`, if it is whole (W3).
pub(crate) fn check_group(
    bytes: &[u8],
    log: u64,
    lsn: Lsn,
) -> Result<CheckedGroup<'_>, DecodeError> {
    let header = peek_group(bytes, log, lsn)?;
    let mut r = ByteReader::new(bytes);
    let mut group = ByteReader::new(r.raw(header.bytes)?);
    group.raw(GROUP_FIELDS_BYTES - 8 - 8 - 4)?;
    let (durable, _, count) = (Lsn(group.u64()?), group.u64()?, group.u32()?);
    let expected = group.u32()?;
    let fields = crc32c::crc32c(&bytes[..GROUP_FIELDS_BYTES]);
    let actual = crc32c::crc32c_append(fields, &bytes[GROUP_HEADER_BYTES..header.bytes]);
    if actual != expected {
        let what = Corruption::Checksum { expected, actual };
        return Err(DecodeError::at(GROUP_FIELDS_BYTES, what));
    }
    let end = lsn.0.checked_add(header.bytes.next_multiple_of(PAGE) as u64);
    match end.filter(|_| durable <= lsn) {
        Some(end) => Ok(CheckedGroup { durable, end: Lsn(end), count, records: group }),
        None => {
            let what = Corruption::Impossible { what: "the durable LSN", value: durable.0 };
            Err(DecodeError::at(24, what))
        }
    }
}

impl CheckedGroup<'_> {
    /// Its records; offsets of errors count from the first byte of the group.
    pub(crate) fn decode(mut self) -> Result<Group, DecodeError> {
        let records = (0..self.count).map(|_| decode_record(&mut self.records));
        let records = records.collect::<Result<_, _>>()?;
        match self.records.left() as u64 {
            0 => Ok(Group { durable: self.durable, end: self.end, records }),
            left => Err(DecodeError::at(self.records.offset(), Corruption::LeftOver { left })),
        }
    }
}

impl CheckedGroup<'_> {
    /// Calls `found` for what its records take from memtables (`skim_record`).
    pub(super) fn skim(
        mut self,
        found: &mut dyn FnMut(TableId, SeqTxn),
    ) -> Result<(), DecodeError> {
        (0..self.count).try_for_each(|_| skim_record(&mut self.records, found))
    }
}

/// The group that begins at `lsn` of a log; `bytes` may be longer than it.
///
/// # Errors
/// If no undamaged group of this log and place begins there. Offsets count from its first byte.
pub fn decode_group(bytes: &[u8], log: u64, lsn: Lsn) -> Result<Group, DecodeError> {
    check_group(bytes, log, lsn)?.decode()
}

#[cfg(test)]
mod tests;
