//! A group: the records that share a sync, and the header of a file of groups.
//! Bytes: docs/format.md, Log.
//!
//! - wal_group-1. A group begins at a page.
//! - wal_group-2. A sector that an interrupted write did not reach is zero. The header of a group
//!   states how many of its sectors were zero when it was written. More zero sectors mean an
//!   interrupted write; otherwise a wrong checksum means damage.

use tidegate_model::bytes::{ByteReader, ByteWriter};
use tidegate_model::{Lsn, SeqTxn, TableId, limits};

use super::record::{
    Record, TableShares, bytes_of_tables, decode_record, encode_record, record_bytes_max,
    skim_record,
};
use crate::checksummed_file;
use crate::error::{Corruption, DecodeError};

/// Groups begin at multiples of this (wal_group-1).
pub(crate) const PAGE: usize = 4_096;
const _: () = assert!(PAGE as u64 == limits::PAGE_BYTES);

/// The unit that a disk writes atomically. Some disks write 4,096 bytes atomically: eight units.
pub(crate) const SECTOR: usize = 512;

/// Bytes of a file before its first group.
pub(crate) const FILE_HEADER_BYTES: usize = PAGE;
const FILE_MAGIC: [u8; 8] = *b"TIDEWAL\0";
const FILE_VERSION: u32 = 3;
/// Files of versions 1 and 2 have shorter headers, of the file and of groups.
const FILE_VERSION_OLDEST: u32 = 1;
const FILE_VERSION_CHECKED_HEADER: u32 = 3;
/// Magic, version, log, first LSN.
const FILE_FIELDS_BYTES: usize = 8 + 4 + 8 + 8;
/// End of the predecessor, durable LSN, end of plain groups, room.
const FILE_ROOM_BYTES: usize = 8 + 8 + 8 + 8;

const GROUP_MAGIC: [u8; 8] = *b"TIDEGRP\0";
/// Magic, log, LSN, durable LSN, bytes, count of records.
const GROUP_FIELDS_BYTES: usize = 8 + 8 + 8 + 8 + 8 + 4;
/// Room, count of zero sectors, checksum of the header.
const GROUP_CHECK_BYTES: usize = 8 + 4 + 4;
/// The fields, the check and the checksum.
pub(crate) const GROUP_HEADER_BYTES: usize = GROUP_FIELDS_BYTES + GROUP_CHECK_BYTES + 4;

/// Maximal bytes of all records of a group: the same as of one record.
pub(crate) const RECORDS_BYTES_MAX: usize = limits::WAL_RECORD_BYTES;
const GROUP_BYTES_MAX: usize = RECORDS_BYTES_MAX + PAGE;

/// The records of one sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The position up to which everything was on disk when this group was written.
    pub durable: Lsn,
    /// The position of the next group.
    pub end: Lsn,
    /// The records, in the order of their commits.
    pub records: Vec<Record>,
}

/// The bytes of a group for the disk, still without its header.
#[derive(Debug)]
pub(crate) struct EncodedGroup {
    w: ByteWriter,
    count: u32,
    /// The bytes of its records, by table.
    pub(crate) shares: TableShares,
}

/// The place of a group, which its header contains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupPlace {
    pub(crate) log: u64,
    pub(crate) lsn: Lsn,
    /// The position up to which everything is on disk.
    pub(crate) durable: Lsn,
    /// The length of the file that is known to be on disk.
    pub(crate) room: u64,
}

/// The layout of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupLayout {
    /// The layout in files of versions 1 and 2: only the whole group has a checksum.
    Plain,
    /// The header has a checksum of its own (wal_group-2).
    CheckedHeader,
}

impl GroupLayout {
    pub(crate) fn header_bytes(self) -> usize {
        match self {
            GroupLayout::Plain => GROUP_FIELDS_BYTES + 4,
            GroupLayout::CheckedHeader => GROUP_HEADER_BYTES,
        }
    }
}

/// The log, the position and the layout that a group must have to be taken for a group of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedGroup {
    pub(crate) log: u64,
    pub(crate) lsn: Lsn,
    pub(crate) layout: GroupLayout,
}

/// The header of a file of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) log: u64,
    /// The position of its first group.
    pub(crate) first: Lsn,
    /// The end of the preceding file: at `first`, unless a repair has left out the bytes between.
    pub(crate) previous_end: Lsn,
    /// Groups before this position were on disk when the file got its name.
    pub(crate) durable: Lsn,
    /// Groups before this position have the plain layout: they were copied from a file of an older
    /// version.
    pub(crate) plain_until: Lsn,
    /// The length of the file on disk when it got its name.
    pub(crate) room: u64,
}

/// The header of a group; one of `GroupLayout::Plain` is not yet checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupHeader {
    pub(crate) bytes: usize,
    /// See `GroupPlace`.
    pub(crate) room: u64,
    /// Number of its sectors that were zero when it was written.
    zero_sectors: usize,
}

/// Encodes the first page of a file.
pub(crate) fn encode_file_header(header: &FileHeader) -> Vec<u8> {
    let mut w = ByteWriter::default();
    w.raw(&FILE_MAGIC).u32(FILE_VERSION).u64(header.log).u64(header.first.0);
    assert_eq!(w.0.len(), FILE_FIELDS_BYTES, "docs/format.md, Log");
    let crc = crc32c::crc32c(&w.0);
    w.u32(crc).u64(header.previous_end.0).u64(header.durable.0);
    w.u64(header.plain_until.0).u64(header.room);
    let crc = crc32c::crc32c(&w.0);
    w.u32(crc).pad(FILE_HEADER_BYTES);
    w.0
}

impl FileHeader {
    /// The group that is expected at a position.
    pub(crate) fn expected_at(&self, lsn: Lsn) -> ExpectedGroup {
        ExpectedGroup { log: self.log, lsn, layout: self.layout_at(lsn) }
    }

    /// The layout of the group at a position.
    pub(crate) fn layout_at(&self, lsn: Lsn) -> GroupLayout {
        if lsn < self.plain_until { GroupLayout::Plain } else { GroupLayout::CheckedHeader }
    }
}

/// Decodes the header of a file that should be of this log and begin at `first`; returns also the
/// bytes of the page that it takes.
pub(crate) fn decode_file_header(
    bytes: &[u8],
    log: u64,
    first: Lsn,
) -> Result<(FileHeader, usize), DecodeError> {
    let mut r = ByteReader::new(bytes);
    if r.array::<8>()? != FILE_MAGIC {
        return Err(DecodeError::at(0, Corruption::Magic { expected: "log file" }));
    }
    let (version, actual_log, actual_first) = (r.u32()?, r.u64()?, r.u64()?);
    check_crc(&mut r, bytes)?;
    checksummed_file::check_version(version, FILE_VERSION_OLDEST..=FILE_VERSION, 8)?;
    for (what, expected, actual) in
        [("the log", log, actual_log), ("the first LSN", first.0, actual_first)]
    {
        if actual != expected {
            return Err(DecodeError::at(12, Corruption::Differs { what, expected, actual }));
        }
    }
    if version < FILE_VERSION_CHECKED_HEADER {
        let room = FILE_HEADER_BYTES as u64;
        let (previous_end, durable, plain_until) = (first, first, Lsn(u64::MAX));
        let header = FileHeader { log, first, previous_end, durable, plain_until, room };
        return Ok((header, FILE_FIELDS_BYTES + 4));
    }
    let (previous_end, durable) = (Lsn(r.u64()?), Lsn(r.u64()?));
    let (plain_until, room) = (Lsn(r.u64()?), r.u64()?);
    check_crc(&mut r, bytes)?;
    if first < previous_end || durable < first || !previous_end.0.is_multiple_of(PAGE as u64) {
        let what = "the end of the file before";
        let what = Corruption::Impossible { what, value: previous_end.0 };
        return Err(DecodeError::at(FILE_FIELDS_BYTES + 4, what));
    }
    if plain_until < first || durable < plain_until {
        let what = "the end of the plain groups";
        let what = Corruption::Impossible { what, value: plain_until.0 };
        return Err(DecodeError::at(FILE_FIELDS_BYTES + 4 + 8 + 8, what));
    }
    let header = FileHeader { log, first, previous_end, durable, plain_until, room };
    Ok((header, FILE_FIELDS_BYTES + 4 + FILE_ROOM_BYTES + 4))
}

/// Compares the next four bytes with the checksum of all before them.
fn check_crc(r: &mut ByteReader<'_>, bytes: &[u8]) -> Result<(), DecodeError> {
    let at = r.offset();
    let (expected, actual) = (r.u32()?, crc32c::crc32c(&bytes[..at]));
    if actual != expected {
        return Err(DecodeError::at(at, Corruption::Checksum { expected, actual }));
    }
    Ok(())
}

impl EncodedGroup {
    /// A group of records: a header, the records, and zeros up to a page.
    ///
    /// Records contain in-memory segments, which may be large, so they are encoded directly into
    /// the bytes of the group.
    pub(crate) fn new(records: &[Record]) -> EncodedGroup {
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
        assert!(records_bytes <= RECORDS_BYTES_MAX, "the caller bounds a group");
        let count = u32::try_from(records.len()).expect("a group has few records");
        EncodedGroup { w, count, shares }
    }

    /// The bytes of the group in a file.
    pub(crate) fn bytes(&self) -> u64 {
        self.w.0.len().next_multiple_of(PAGE) as u64
    }

    /// The whole group with its header.
    pub(crate) fn finish(mut self, place: &GroupPlace) -> Vec<u8> {
        assert!(place.lsn.0.is_multiple_of(PAGE as u64), "wal_group-1");
        let w = &mut self.w;
        // The sector with the header is not zero.
        let zero_sectors = w.0.chunks(SECTOR).skip(1).filter(|sector| is_zero(sector)).count();
        let mut header = ByteWriter::default();
        header.raw(&GROUP_MAGIC).u64(place.log).u64(place.lsn.0).u64(place.durable.0);
        header.u64(w.0.len() as u64).u32(self.count).u64(place.room);
        header.u32(u32::try_from(zero_sectors).expect("a group has few sectors"));
        let crc = crc32c::crc32c(&header.0);
        header.u32(crc);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header.0), &w.0[GROUP_HEADER_BYTES..]);
        header.u32(crc);
        w.0[..GROUP_HEADER_BYTES].copy_from_slice(&header.0);
        w.pad(PAGE);
        self.w.0
    }
}

pub(super) fn is_zero(bytes: &[u8]) -> bool {
    // Without an early end within 64 bytes, so that compilers use vector instructions.
    let (pieces, rest) = bytes.as_chunks::<64>();
    let is_zero = |piece: &[u8]| piece.iter().fold(0, |seen, &byte| seen | byte) == 0;
    pieces.iter().all(|piece| is_zero(piece)) && is_zero(rest)
}

/// The header of a group, if the expected one begins with these bytes.
pub(crate) fn peek_group(bytes: &[u8], group: ExpectedGroup) -> Result<GroupHeader, DecodeError> {
    let ExpectedGroup { log, lsn, layout } = group;
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
    let (at, used) = (r.offset(), r.u64()?);
    r.u32()?;
    let (mut room, mut zero_sectors) = (0, 0);
    if layout == GroupLayout::CheckedHeader {
        (room, zero_sectors) = (r.u64()?, r.u32()? as usize);
        check_crc(&mut r, bytes)?;
    }
    match usize::try_from(used) {
        Ok(bytes) if (layout.header_bytes()..=GROUP_BYTES_MAX).contains(&bytes) => {
            Ok(GroupHeader { bytes, room, zero_sectors })
        }
        _ => {
            let what = Corruption::Impossible { what: "the length of a group", value: used };
            Err(DecodeError::at(at, what))
        }
    }
}

/// Minimum of non-zero bytes in a sector with a header: magic, log and checksums have more. Fewer
/// non-zero bytes in a sector of zeros are damage of unused space.
const WRITTEN_BYTES_MIN: usize = 8;

/// The reason why the bytes at the position of a group are not a valid group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadGroup {
    /// The first sector has no header: nothing was written, or only sectors after it.
    Unwritten,
    /// Sectors of the group are missing, as after an interrupted write (wal_group-2).
    Torn,
    /// The whole group was written, and some bytes have changed.
    Damaged(Corruption),
}

/// Distinguishes an interrupted write from damage. `bytes` are the part of the group that the file
/// has.
pub(crate) fn judge_group(bytes: &[u8], group: ExpectedGroup) -> BadGroup {
    let first = &bytes[..bytes.len().min(SECTOR)];
    if first.iter().filter(|&&byte| byte != 0).count() < WRITTEN_BYTES_MIN {
        return BadGroup::Unwritten;
    }
    if first.len() < SECTOR {
        return BadGroup::Torn;
    }
    // A sector has its old content, which is zero, or its new one.
    let header = match peek_group(bytes, group) {
        Ok(header) => header,
        Err(DecodeError::Corrupt { what, .. }) => return BadGroup::Damaged(what),
        Err(DecodeError::NewerFormat { .. }) => unreachable!("a group has no version"),
    };
    let Some(used) = bytes.get(..header.bytes) else { return BadGroup::Torn };
    let missing = used.chunks(SECTOR).filter(|sector| is_zero(sector)).count();
    if header.zero_sectors < missing {
        return BadGroup::Torn;
    }
    match check_group(bytes, group) {
        Err(DecodeError::Corrupt { what, .. }) => BadGroup::Damaged(what),
        Ok(_) | Err(DecodeError::NewerFormat { .. }) => unreachable!("the caller found it bad"),
    }
}

/// A group with a valid checksum: any error in its records was there when it was written.
#[derive(Debug)]
pub(crate) struct CheckedGroup<'a> {
    pub(crate) durable: Lsn,
    pub(crate) end: Lsn,
    /// See `GroupPlace`.
    pub(crate) room: u64,
    /// Length without the zeros that follow.
    pub(crate) bytes: usize,
    count: u32,
    records: ByteReader<'a>,
}

/// The expected group, if it begins with these bytes and is whole (wal-3).
pub(crate) fn check_group(
    bytes: &[u8],
    group: ExpectedGroup,
) -> Result<CheckedGroup<'_>, DecodeError> {
    let header = peek_group(bytes, group)?;
    let ExpectedGroup { lsn, layout, .. } = group;
    let covered_bytes = layout.header_bytes() - 4;
    let mut r = ByteReader::new(bytes);
    let mut group = ByteReader::new(r.raw(header.bytes)?);
    group.raw(GROUP_FIELDS_BYTES - 8 - 8 - 4)?;
    let (durable, _, count) = (Lsn(group.u64()?), group.u64()?, group.u32()?);
    group.raw(covered_bytes - GROUP_FIELDS_BYTES)?;
    let expected = group.u32()?;
    let fields = crc32c::crc32c(&bytes[..covered_bytes]);
    let actual = crc32c::crc32c_append(fields, &bytes[layout.header_bytes()..header.bytes]);
    if actual != expected {
        let what = Corruption::Checksum { expected, actual };
        return Err(DecodeError::at(covered_bytes, what));
    }
    let end = lsn.0.checked_add(header.bytes.next_multiple_of(PAGE) as u64);
    match end.filter(|_| durable <= lsn) {
        Some(end) => Ok(CheckedGroup {
            durable,
            end: Lsn(end),
            room: header.room,
            bytes: header.bytes,
            count,
            records: group,
        }),
        None => {
            let what = Corruption::Impossible { what: "the durable LSN", value: durable.0 };
            Err(DecodeError::at(24, what))
        }
    }
}

impl CheckedGroup<'_> {
    /// Decodes its records; offsets of errors count from the first byte of the group.
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
    /// Calls `visit` for the rows that its records take from memtables (`skim_record`).
    pub(super) fn skim(
        mut self,
        visit: &mut dyn FnMut(TableId, SeqTxn),
    ) -> Result<(), DecodeError> {
        (0..self.count).try_for_each(|_| skim_record(&mut self.records, visit))
    }
}

/// The group that begins at `lsn` of a log; `bytes` may be longer than it.
///
/// # Errors
/// If no undamaged group of this log and place begins there. Offsets count from its first byte.
pub fn decode_group(bytes: &[u8], log: u64, lsn: Lsn) -> Result<Group, DecodeError> {
    check_group(bytes, ExpectedGroup { log, lsn, layout: GroupLayout::CheckedHeader })?.decode()
}

#[cfg(test)]
mod tests;
