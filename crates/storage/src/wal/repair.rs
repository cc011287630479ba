//! Repair of the log files: reads the records after the damage, and starts a file in which the log
//! continues without it.
//!
//! - wal-4 as in `wal`: the new file states where the one before it ends.
//! - wal_repair-1. Files to be given up are set aside under a name of their own (`SET_ASIDE`) until
//!   the new file exists. After a crash in between, the next repair restores them and reads them
//!   again.
//!
//! Not here: the meaning of the records, and the choice of those taken over
//! (`database::open::repair_replay`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::Lsn;
use tidegate_model::bytes::ByteReader;
use tidegate_platform::{Disk, DiskFile, OpenMode};

use super::files::{LogFile, file_name, list_files};
use super::group::{
    EncodedGroup, FILE_HEADER_BYTES, FileHeader, GroupPlace, PAGE, check_group, encode_file_header,
    peek_group,
};
use super::head::write_head;
use super::record::{Record, SeemingChange, decode_record, record_bytes_max, skim_changes};
use super::replay::{OpenFile, SEARCH_BYTES};
use crate::error::{Error, Result};

/// Suffix of log files that were given up.
const LOST: &str = "lost";
/// Suffix of files to be given up, during a repair.
const SET_ASIDE: &str = "aside";
/// Suffix of the new file until it is published.
const UNPUBLISHED: &str = "repair.tmp";
/// Bytes of records at which a group of the new file is closed.
const GROUP_BYTES: usize = 4 << 20;

/// A record in the part of a log after its damage.
#[derive(Debug)]
pub(crate) enum RecordAfterDamage<'a> {
    Intact(&'a Record),
    /// A damaged record, with the changes that it seems to contain.
    Damaged(&'a [SeemingChange]),
}

/// The position at which a repair ends the log.
#[derive(Debug)]
pub(crate) struct GivenUp<'a> {
    pub(crate) log: u64,
    /// The end of the readable part.
    pub(crate) bad: Lsn,
    /// The file with that position.
    pub(crate) damaged: &'a Path,
    /// The position at which the log continues: not before the `as_of` of checkpoints.
    pub(crate) first: Lsn,
}

/// Passes the records after a position to `visit`, with the positions of their groups, as far as
/// they can be read: all records of intact groups, and of others those with valid checksums.
pub(crate) fn read_after_damage(
    disk: &dyn Disk,
    dir: &Path,
    log: u64,
    bad: Lsn,
    visit: &mut dyn FnMut(Lsn, RecordAfterDamage<'_>) -> Result<()>,
) -> Result<()> {
    let files = list_files(disk, dir)?;
    // A file that cannot be read is skipped.
    let files = files.iter().filter_map(|file| OpenFile::open_for_repair(disk, file, log).ok());
    let mut files = files.peekable();
    while let Some(file) = files.next() {
        // wal-4.
        let end = files.peek().map_or(Lsn(u64::MAX), |next| next.header.previous_end);
        let mut lsn = bad.max(file.header.first);
        while lsn < end && file.offset(lsn) < file.length {
            let page = file.read(file.offset(lsn), PAGE as u64)?;
            let is_group = page.starts_with(b"TIDEGRP\0");
            lsn = match is_group || lsn == bad {
                true => read_group(&file, lsn, visit)?,
                false => Lsn(lsn.0 + PAGE as u64),
            };
        }
    }
    Ok(())
}

/// Reads the records of a group that may be damaged; returns the position to continue at.
fn read_group(
    file: &OpenFile,
    lsn: Lsn,
    visit: &mut dyn FnMut(Lsn, RecordAfterDamage<'_>) -> Result<()>,
) -> Result<Lsn> {
    let mut bytes = file.read_group(lsn)?;
    if let Ok(group) = check_group(&bytes, file.header.expected_at(lsn)) {
        let end = group.end;
        if let Ok(group) = group.decode() {
            group
                .records
                .iter()
                .try_for_each(|record| visit(lsn, RecordAfterDamage::Intact(record)))?;
        }
        return Ok(end);
    }
    if peek_group(&bytes, file.header.expected_at(lsn)).is_err() {
        // The length itself may be damaged.
        bytes = file.read(file.offset(lsn), SEARCH_BYTES as u64)?;
    }
    let layout = file.header.layout_at(lsn);
    let mut left = bytes.get(layout.header_bytes()..).unwrap_or_default();
    // Each record has a length and a checksum of its own.
    while let Some(length) = left.first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((this, behind)) = left.split_at_checked(length.saturating_add(8)) else { break };
        if length == 0 {
            break;
        }
        match decode_record(&mut ByteReader::new(this)) {
            Ok(record) => visit(lsn, RecordAfterDamage::Intact(&record))?,
            Err(_) => visit(lsn, RecordAfterDamage::Damaged(&skim_changes(this)))?,
        }
        left = behind;
    }
    Ok(Lsn(lsn.0 + PAGE as u64))
}

/// Finishes an interrupted repair: if its new file was published, files that were set aside are
/// given up; otherwise they get their names back (wal_repair-1).
pub(crate) fn end_cut_off_repair(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let failed = Error::disk("repair log");
    let entries = disk.list(dir).map_err(&failed)?;
    let unpublished = entries.iter().filter(|entry| entry.name.ends_with(UNPUBLISHED));
    let unpublished: Vec<PathBuf> = unpublished.map(|entry| dir.join(&entry.name)).collect();
    let mut aside = aside_files(disk, dir)?;
    // The first one first: at any moment the existing files have the same damage.
    aside.sort();
    for path in aside {
        let name = path.with_extension("");
        let to = if unpublished.is_empty() { lost_name(disk, &name)? } else { name };
        disk.rename(&path, &to).map_err(&failed)?;
    }
    disk.sync_dir(dir).map_err(&failed)?;
    unpublished.iter().try_for_each(|path| disk.remove(path)).map_err(failed)
}

/// The files that a repair has set aside, and not yet given up.
pub(crate) fn aside_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match disk.list(dir) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        entries => entries.map_err(Error::disk("list log"))?,
    };
    let suffix = format!(".wal.{SET_ASIDE}");
    let aside = entries.into_iter().filter(|entry| entry.name.ends_with(&suffix));
    Ok(aside.map(|entry| dir.join(entry.name)).collect())
}

/// An unused name for a file that is given up.
fn lost_name(disk: &dyn Disk, path: &Path) -> Result<PathBuf> {
    let mut to = path.with_added_extension(LOST);
    for number in 2_u32.. {
        if !disk.exists(&to).map_err(Error::disk("repair log"))? {
            break;
        }
        to = path.with_added_extension(format!("{LOST}.{number}"));
    }
    Ok(to)
}

/// The new file of a repaired log, under a name that is not read.
pub(crate) struct NewFile<'a> {
    given_up: &'a GivenUp<'a>,
    file: Arc<dyn DiskFile>,
    temporary: PathBuf,
    path: PathBuf,
    records: Vec<Record>,
    bytes: usize,
    end: Lsn,
}

impl<'a> NewFile<'a> {
    pub(crate) fn begin(
        disk: &dyn Disk,
        dir: &Path,
        given_up: &'a GivenUp<'a>,
    ) -> Result<NewFile<'a>> {
        let path = dir.join(file_name(given_up.first));
        let temporary = path.with_added_extension(UNPUBLISHED);
        let file = disk.open(&temporary, OpenMode::CreateOrTruncate);
        let file = file.map_err(Error::disk("repair log"))?;
        let (records, bytes, end) = (Vec::new(), 0, given_up.first);
        Ok(NewFile { given_up, file, temporary, path, records, bytes, end })
    }

    /// Adds a record that is taken over.
    pub(crate) fn push(&mut self, record: Record) -> Result<()> {
        let bytes = record_bytes_max(&record.ops);
        if self.bytes > 0 && self.bytes + bytes > GROUP_BYTES {
            self.write_group()?;
        }
        self.bytes += bytes;
        self.records.push(record);
        Ok(())
    }

    fn write_group(&mut self) -> Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        let group = EncodedGroup::new(&self.records);
        let place = GroupPlace {
            log: self.given_up.log,
            lsn: self.end,
            durable: self.end,
            room: FILE_HEADER_BYTES as u64,
        };
        let offset = FILE_HEADER_BYTES as u64 + (self.end.0 - self.given_up.first.0);
        let bytes = group.finish(&place);
        self.file.write_all_at(&bytes, offset).map_err(Error::disk("repair log"))?;
        self.end = Lsn(self.end.0 + bytes.len() as u64);
        self.records.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Makes the file durable; it is not read yet.
    pub(crate) fn finish(&mut self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        self.write_group()?;
        let GivenUp { log, bad, first, .. } = *self.given_up;
        let header = FileHeader {
            log,
            first,
            previous_end: bad,
            durable: self.end,
            plain_until: first,
            room: FILE_HEADER_BYTES as u64 + (self.end.0 - first.0),
        };
        let written = self.file.write_all_at(&encode_file_header(&header), 0);
        let written = written.and_then(|()| self.file.sync_data());
        // Its name is durable before files are set aside: that shows whether it was published.
        written.and_then(|()| disk.sync_dir(dir)).map_err(Error::disk("repair log"))
    }

    /// Puts it in place of the files that are given up, and returns those.
    pub(crate) fn publish(self, disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>> {
        let failed = Error::disk("repair log");
        let GivenUp { log, bad, damaged, first } = self.given_up;
        let is_given_up = |file: &&LogFile| {
            let is_unreadable = || OpenFile::open(disk, file, *log).is_err();
            let is_damaged = file.path == *damaged;
            file.first > *bad || (is_damaged && (file.first == *first || is_unreadable()))
        };
        let mut aside = Vec::new();
        // The last one first: at any moment the existing files are a log with the same damage.
        for file in list_files(disk, dir)?.iter().filter(is_given_up).rev() {
            let to = file.path.with_added_extension(SET_ASIDE);
            disk.rename(&file.path, &to).map_err(&failed)?;
            aside.push((to, file.path.clone()));
        }
        disk.sync_dir(dir).map_err(&failed)?;
        // The file that the head names may be among those (wal-8). Until the new file has its name
        // the log is damaged as before.
        write_head(disk, dir, *log, *first).map_err(&failed)?;
        let published = disk.rename(&self.temporary, &self.path);
        published.and_then(|()| disk.sync_dir(dir)).map_err(&failed)?;
        let mut saved = Vec::new();
        for (path, name) in aside {
            let to = lost_name(disk, &name)?;
            disk.rename(&path, &to).map_err(&failed)?;
            saved.push(to);
        }
        disk.sync_dir(dir).map_err(failed)?;
        Ok(saved)
    }
}
