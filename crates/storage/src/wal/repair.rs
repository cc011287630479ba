//! Ends a damaged log: reads what is behind the damage, and begins a file that leaves it out.
//!
//! - W5 as in `wal`: the new file says where the one before it ends.
//!
//! Not here: what the records mean (`database::repair`).

use std::path::{Path, PathBuf};

use tidegate_model::Lsn;
use tidegate_model::bytes::ByteReader;
use tidegate_platform::{Disk, OpenMode};

use super::group::{
    EncodedGroup, FILE_HEADER_BYTES, FileHeader, GroupPlace, PAGE, check_group, encode_file_header,
    peek_group,
};
use super::log::{file_name, list_files};
use super::record::{Record, decode_record};
use super::replay::{OpenFile, SEARCH_BYTES};
use crate::envelope;
use crate::error::{Error, Result};

/// Files of the log that were given up have this behind their names.
const LOST: &str = "lost";

/// Where a log is to end.
#[derive(Debug)]
pub(crate) struct GivenUp<'a> {
    pub(crate) log: u64,
    /// The end of what can be read.
    pub(crate) bad: Lsn,
    /// The file that ends there.
    pub(crate) damaged: &'a Path,
    /// Where the log goes on: not before what checkpoints are as of.
    pub(crate) first: Lsn,
    /// What is committed there, if it does anything.
    pub(crate) record: Record,
}

/// Hands the records behind a position to `found`, as far as they can be read: of whole groups all,
/// of others those before the damage.
pub(crate) fn read_behind(
    disk: &dyn Disk,
    dir: &Path,
    (log, bad): (u64, Lsn),
    found: &mut dyn FnMut(&Record),
) -> Result<()> {
    for file in list_files(disk, dir)? {
        // A file without a header says nothing.
        let Ok(file) = OpenFile::open(disk, &file, log) else { continue };
        let mut lsn = Lsn(bad.0.max(file.header.first.0));
        while file.offset(lsn) < file.length {
            let page = file.read(file.offset(lsn), PAGE as u64)?;
            let is_group = page.starts_with(b"TIDEGRP\0");
            lsn = match is_group || lsn == bad {
                true => read_group(&file, lsn, found)?,
                false => Lsn(lsn.0 + PAGE as u64),
            };
        }
    }
    Ok(())
}

/// Reads the records of a group that may be damaged; returns where to go on.
fn read_group(file: &OpenFile, lsn: Lsn, found: &mut dyn FnMut(&Record)) -> Result<Lsn> {
    let mut bytes = file.read_group(lsn)?;
    if let Ok(group) = check_group(&bytes, file.of(lsn), lsn) {
        let end = group.end;
        if let Ok(group) = group.decode() {
            group.records.iter().for_each(found);
        }
        return Ok(end);
    }
    if peek_group(&bytes, file.of(lsn), lsn).is_err() {
        // Its length may be what is damaged.
        bytes = file.read(file.offset(lsn), SEARCH_BYTES as u64)?;
    }
    let (_, layout) = file.of(lsn);
    let mut records = ByteReader::new(bytes.get(layout.header_bytes()..).unwrap_or_default());
    // Each record has a checksum of its own.
    while let Ok(record) = decode_record(&mut records)
        && !record.ops.is_empty()
    {
        found(&record);
    }
    Ok(Lsn(lsn.0 + PAGE as u64))
}

/// Ends the log, and returns the files that were set aside.
pub(crate) fn end_log_at(
    disk: &dyn Disk,
    dir: &Path,
    given_up: &GivenUp<'_>,
) -> Result<Vec<PathBuf>> {
    let failed = Error::disk("repair log");
    let GivenUp { log, bad, damaged, first, .. } = given_up;
    let files = list_files(disk, dir)?;
    let is_given_up = |file: &&super::log::LogFile| {
        let is_unreadable = || OpenFile::open(disk, file, *log).is_err();
        let is_damaged = file.path == *damaged;
        file.first > *bad || (is_damaged && (file.first == *first || is_unreadable()))
    };
    let mut kept = Vec::new();
    // The last one first: what is there at any moment is a log with the same damage.
    for file in files.iter().filter(is_given_up).rev() {
        let mut to = file.path.with_added_extension(LOST);
        for number in 2_u32.. {
            if !disk.exists(&to).map_err(&failed)? {
                break;
            }
            to = file.path.with_added_extension(format!("{LOST}.{number}"));
        }
        disk.rename(&file.path, &to).map_err(&failed)?;
        kept.push(to);
    }
    let path = dir.join(file_name(*first));
    let written = envelope::temporary(&path);
    write_file(disk, &written, given_up).map_err(&failed)?;
    disk.rename(&written, &path).and_then(|()| disk.sync_dir(dir)).map_err(&failed)?;
    Ok(kept)
}

/// Writes a file that leaves out what is between `bad` and `first`.
fn write_file(
    disk: &dyn Disk,
    path: &Path,
    GivenUp { log, bad, first, record, .. }: &GivenUp<'_>,
) -> tidegate_platform::Result<()> {
    let group = (!record.ops.is_empty()).then(|| EncodedGroup::new(std::slice::from_ref(record)));
    let bytes = group.as_ref().map_or(0, EncodedGroup::bytes);
    let room = FILE_HEADER_BYTES as u64 + bytes;
    let header = FileHeader {
        log: *log,
        first: *first,
        previous_end: *bad,
        durable: Lsn(first.0 + bytes),
        plain_until: *first,
        room,
    };
    let file = disk.open(path, OpenMode::CreateOrTruncate)?;
    file.write_all_at(&encode_file_header(&header), 0)?;
    if let Some(group) = group {
        let place = GroupPlace { log: *log, lsn: *first, durable: *first, room };
        file.write_all_at(&group.finish(&place), FILE_HEADER_BYTES as u64)?;
    }
    file.sync_data()
}
