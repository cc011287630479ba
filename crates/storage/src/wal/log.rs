//! The writing side of the log: files, room in them, groups, and what follows a failure.
//!
//! - W2, W4, W5, W6, W9 as in `wal`.
//! - W8. Room is filled with zeros ahead of use, so that a small commit is one `fdatasync` that
//!   changes no metadata. A large one makes its own room: its bytes take longer than its length
//!   does, and zeros would double them. On a disk that is nearly full a group has no more room than
//!   it needs: what makes space, such as DROP TABLE, must be committed first.
//! - W10. Each file says how long it was on disk when it got its name, and each group how long
//!   its file was then, as far as was known. Small groups go to room that a header or a group
//!   before them has so announced, so that a file that was cut is told from one that ends early.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::Lsn;
use tidegate_platform::{Disk, DiskFile, OpenMode};

use super::group::{
    EncodedGroup, FILE_HEADER_BYTES, FileHeader, GroupPlace, PAGE, encode_file_header,
};
use super::head::write_head;
use super::record::{Record, TableShares};
use super::replay::{LogEnd, UnflushedGroups};
use crate::database::{Durability, LogOptions};
use crate::envelope;
use crate::error::{Error, Result};

/// Bytes of a group from which on it makes its own room (W8).
const OWN_ROOM_BYTES: u64 = 256 << 10;
/// Room that is filled while it is not needed yet, at least: for the next group, which announces
/// more of it, and for the one after that (W10).
const RESERVE_BYTES_MIN: u64 = 2 * PAGE as u64;
/// Zeros written at once.
const ZEROS_BYTES: usize = 1 << 20;
const SUFFIX: &str = ".wal";

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFile {
    /// The position of its first group, which is where its predecessor ends (W5).
    pub(crate) first: Lsn,
    pub(crate) path: PathBuf,
}

/// What is known of records that were not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No replay will ever find them.
    Lost,
    /// The next replay may find them (W6).
    InDoubt,
}

/// The log, open for writing.
#[derive(Debug)]
pub(crate) struct Log {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: LogOptions,
    id: u64,
    end: Lsn,
    /// Everything before it is on disk.
    durable: Lsn,
    /// The groups behind that, as they were written (W9).
    unflushed: VecDeque<Vec<u8>>,
    /// Those before it are plain: they come from a file of an older version.
    plain_until: Lsn,
    files: Vec<LogFile>,
    /// The last file of the process before, and where the file before that one ends.
    resumed: (Lsn, Lsn),
    current: Current,
}

/// The last file.
#[derive(Debug)]
enum Current {
    Ready(OpenFile),
    /// This process has begun none yet.
    None,
    /// There is none that may be written to.
    Unusable,
}

#[derive(Debug, Clone)]
struct OpenFile {
    handle: Arc<dyn DiskFile>,
    first: Lsn,
    /// Bytes that are filled with zeros, or with groups.
    filled: u64,
    /// As many of them as are on disk (W10).
    synced: u64,
}

/// A sync that is to make groups durable, without the log being locked meanwhile.
#[derive(Debug)]
pub(crate) struct Flush {
    handle: Arc<dyn DiskFile>,
    /// What was written before the sync.
    until: Lsn,
}

impl Flush {
    /// Waits for the disk.
    pub(crate) fn sync(&self) -> tidegate_platform::Result<()> {
        self.handle.sync_data()
    }
}

impl Log {
    /// A log that was replayed. The first flush or commit starts a file, which begins with the
    /// groups that may not be durable (W9): that the name of an older file is durable, and what it
    /// holds, only the process knows that wrote it.
    pub(crate) fn resume(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        (id, end): (u64, LogEnd),
        options: LogOptions,
    ) -> Log {
        let UnflushedGroups { durable, groups: unflushed, plain_until } = end.unflushed;
        let bytes: usize = unflushed.iter().map(Vec::len).sum();
        assert_eq!(durable.0 + bytes as u64, end.lsn.0, "W9");
        Log {
            disk: Arc::clone(disk),
            dir: dir.to_path_buf(),
            options,
            id,
            end: end.lsn,
            durable,
            unflushed,
            plain_until,
            files: end.files,
            resumed: end.last,
            current: Current::None,
        }
    }

    /// Where the next group goes.
    pub(crate) fn end(&self) -> Lsn {
        self.end
    }

    /// Everything before it is on disk.
    pub(crate) fn durable(&self) -> Lsn {
        self.durable
    }

    /// The number of its files.
    pub(crate) fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Whether something has failed, and nothing can be written before it is mended (W6).
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.current, Current::Unusable)
    }

    /// Writes records, all of them or none (W2), and returns how many bytes they have for each
    /// table.
    pub(crate) fn append(&mut self, records: &[Record]) -> Result<TableShares, (Arc<Error>, Fate)> {
        let group = EncodedGroup::new(records);
        let file = self.room_for(group.bytes());
        let file = file.map_err(|error| (Arc::new(error), Fate::Lost))?;
        let offset = FILE_HEADER_BYTES as u64 + (self.end.0 - file.first.0);
        let shares = group.shares.clone();
        let (lsn, durable, room) = (self.end, self.durable, file.synced);
        let place = GroupPlace { log: self.id, lsn, durable, room };
        let bytes = group.finish(&place);
        let written = file.handle.write_all_at(&bytes, offset);
        let written = match self.options.durability {
            Durability::Sync => written.and_then(|()| file.handle.sync_data()),
            Durability::Async => written,
        };
        match written {
            Ok(()) => {
                self.end = Lsn(self.end.0 + bytes.len() as u64);
                match self.options.durability {
                    Durability::Sync => {
                        self.durable = self.end;
                        self.current = Current::Ready(OpenFile { synced: file.filled, ..file });
                    }
                    Durability::Async => self.unflushed.push_back(bytes),
                }
                Ok(shares)
            }
            Err(error) => {
                self.current = Current::Unusable;
                // W6: a file without the group says that it is not part of the log.
                let fate = if self.start_file().is_ok() { Fate::Lost } else { Fate::InDoubt };
                Err((Arc::new(Error::disk("write log")(error)), fate))
            }
        }
    }

    /// Returns what has to be synced so that everything is durable; `None` if it is, or is now
    /// because a new file has mended a log that was broken, or has what was replayed. One flush is
    /// under way at a time: the kernel tells of an error once, and a second sync would not hear of
    /// it.
    pub(crate) fn begin_flush(&mut self) -> Result<Option<Flush>> {
        match &self.current {
            Current::Ready(file) if self.durable < self.end => {
                Ok(Some(Flush { handle: Arc::clone(&file.handle), until: self.end }))
            }
            Current::Ready(_) => Ok(None),
            Current::None if self.durable == self.end => Ok(None),
            Current::None | Current::Unusable => {
                self.start_file().map_err(|error| Error::ReadOnly { source: Arc::new(error) })?;
                Ok(None)
            }
        }
    }

    /// Takes note of what came of a flush.
    pub(crate) fn end_flush(
        &mut self,
        flush: &Flush,
        outcome: tidegate_platform::Result<()>,
    ) -> Result<()> {
        if flush.until <= self.durable {
            // A new file has taken over meanwhile, with all of it.
            return Ok(());
        }
        let is_current = match &self.current {
            Current::Ready(file) => Arc::ptr_eq(&file.handle, &flush.handle),
            Current::None | Current::Unusable => false,
        };
        match outcome {
            Ok(()) if is_current => {
                while self.durable < flush.until {
                    let group = self.unflushed.pop_front().expect("W9");
                    self.durable = Lsn(self.durable.0 + group.len() as u64);
                }
                self.rotate();
                Ok(())
            }
            Ok(()) => {
                // The file has failed in between: what it holds counts for nothing (W6).
                self.start_file().map_err(|error| Error::ReadOnly { source: Arc::new(error) })
            }
            Err(error) => {
                self.current = Current::Unusable;
                let failed =
                    |_| Error::ReadOnly { source: Arc::new(Error::disk("flush log")(error)) };
                self.start_file().map_err(failed)
            }
        }
    }

    /// Begins another file if this one is long. What was written since the last flush is written
    /// there again, which spares those who commit a sync.
    fn rotate(&mut self) {
        let Current::Ready(file) = &self.current else { return };
        if self.options.file_bytes < self.end.0 - file.first.0 {
            // If that fails, the file becomes longer, and the next flush tries again.
            let _ = self.start_file();
        }
    }

    /// Begins another file, however long this one is, so that it can be purged.
    pub(crate) fn begin_file(&mut self) -> Result<()> {
        match &self.current {
            Current::Ready(file) if file.first < self.end => self.start_file(),
            _ => Ok(()),
        }
    }

    /// The file that the next group goes to, with zeros where it goes (W8).
    fn room_for(&mut self, bytes: u64) -> Result<OpenFile> {
        if !matches!(self.current, Current::Ready(_)) {
            self.start_file().map_err(|error| Error::ReadOnly { source: Arc::new(error) })?;
        }
        let Current::Ready(file) = &self.current else { unreachable!("it was just started") };
        let used = self.end.0 - file.first.0;
        if self.durable == self.end && used > 0 && used + bytes > self.options.file_bytes {
            self.start_file()?;
        }
        let Current::Ready(file) = &mut self.current else { unreachable!("it was just started") };
        let wanted = FILE_HEADER_BYTES as u64 + (self.end.0 - file.first.0) + bytes;
        if bytes >= OWN_ROOM_BYTES {
            if wanted > file.filled {
                file.handle.allocate(wanted).map_err(Error::disk("extend log"))?;
                file.filled = wanted;
            }
            return Ok(file.clone());
        }
        // W10: the groups that follow find their room announced.
        let reserve = (self.options.step_bytes / 2).clamp(RESERVE_BYTES_MIN, 2 * OWN_ROOM_BYTES);
        let ahead = wanted + reserve;
        if ahead > file.filled {
            let from = file.filled;
            let more = (ahead - from).next_multiple_of(self.options.step_bytes);
            let fill_to = |end| fill(file.handle.as_ref(), from, end);
            let filled = with_space([from + more, wanted.max(from)], fill_to);
            file.filled = filled.map_err(Error::disk("extend log"))?;
        }
        Ok(file.clone())
    }

    /// Makes a new file that begins where the log is durable, with the groups behind that place,
    /// and writes on there: then all are durable (W9).
    ///
    /// Whatever an older file holds behind that place is no part of the log any more (W5). After
    /// an error the file in use before can still be written to, unless the new one may be found by
    /// a replay.
    fn start_file(&mut self) -> Result<()> {
        let path = self.dir.join(file_name(self.durable));
        let written = envelope::temporary(&path);
        let groups = self.end.0 - self.durable.0;
        let room = groups.next_multiple_of(self.options.step_bytes).max(self.options.step_bytes);
        let sizes = [room, groups].map(|bytes| FILE_HEADER_BYTES as u64 + bytes);
        let filled = with_space(sizes, |filled| self.write_file(&written, filled));
        let filled = filled.map_err(|error| {
            // If that fails too, the next open removes it.
            let _ = self.disk.remove(&written);
            Error::disk("start log file")(error)
        })?;
        match self.publish_file(&written, &path) {
            Ok(handle) => {
                let first = self.durable;
                // A file without a durable group has the same name, and is replaced.
                self.files.retain(|file| file.first != first);
                self.files.push(LogFile { first, path });
                let synced = filled;
                // HD1. If that fails, commits go on, and only that the file goes missing would not
                // be noticed.
                let _ = write_head(self.disk.as_ref(), &self.dir, (self.id, first));
                self.current = Current::Ready(OpenFile { handle, first, filled, synced });
                self.durable = self.end;
                self.unflushed.clear();
                Ok(())
            }
            Err(error) => {
                self.current = Current::Unusable;
                Err(Error::disk("start log file")(error))
            }
        }
    }

    fn write_file(&self, written: &Path, filled: u64) -> tidegate_platform::Result<()> {
        let handle = self.disk.open(written, OpenMode::CreateOrTruncate)?;
        // A file that replaces one without groups keeps what a repair has left out before it.
        let (resumed, previous_end) = self.resumed;
        let header = FileHeader {
            log: self.id,
            first: self.durable,
            previous_end: if resumed == self.durable { previous_end } else { self.durable },
            durable: self.end,
            plain_until: self.plain_until.max(self.durable),
            room: filled,
        };
        handle.write_all_at(&encode_file_header(&header), 0)?;
        fill(handle.as_ref(), FILE_HEADER_BYTES as u64, filled)?;
        let mut offset = FILE_HEADER_BYTES as u64;
        for group in &self.unflushed {
            handle.write_all_at(group, offset)?;
            offset += group.len() as u64;
        }
        handle.sync_data()
    }

    fn publish_file(
        &self,
        written: &Path,
        path: &Path,
    ) -> tidegate_platform::Result<Arc<dyn DiskFile>> {
        self.disk.rename(written, path)?;
        self.disk.sync_dir(&self.dir)?;
        self.disk.open(path, OpenMode::ReadWrite)
    }

    /// Removes files of which nothing is needed any more: their records are before `needed`.
    pub(crate) fn purge(&mut self, needed: Lsn) -> Result<()> {
        let count = purgeable(&self.files, needed);
        for file in &self.files[..count] {
            // Fine if it is already gone: a crash in this loop repeats the purge.
            self.disk.remove(&file.path).map_err(Error::disk("purge log"))?;
        }
        self.files.drain(..count);
        Ok(())
    }
}

/// Makes the first file of a log. It has no room: the first commit replaces it. That it is there
/// tells a log without records from a log that was lost.
pub(crate) fn create(disk: &dyn Disk, dir: &Path, id: u64) -> tidegate_platform::Result<()> {
    let first = Lsn(0);
    let handle = disk.open(&dir.join(file_name(first)), OpenMode::CreateNew)?;
    let room = FILE_HEADER_BYTES as u64;
    let (previous_end, durable, plain_until) = (first, first, first);
    let header = FileHeader { log: id, first, previous_end, durable, plain_until, room };
    handle.write_all_at(&encode_file_header(&header), 0)?;
    handle.sync_data()?;
    disk.sync_dir(dir)
}

/// How many files end before `needed`, the first position that a replay begins at. The last one
/// is in use.
pub(crate) fn purgeable(files: &[LogFile], needed: Lsn) -> usize {
    let ends = files.get(1..).unwrap_or_default();
    ends.partition_point(|next| next.first <= needed)
}

/// The log files of a folder, in order.
pub(crate) fn list_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<LogFile>> {
    let entries = disk.list(dir).map_err(|error| match error.is_not_found() {
        true => Error::missing(dir),
        false => Error::disk("list log")(error),
    })?;
    let named = entries.into_iter().filter(|entry| !entry.is_dir);
    let files = named.filter_map(|entry| {
        let first = parse_file_name(&entry.name)?;
        Some(LogFile { first, path: dir.join(entry.name) })
    });
    let mut files: Vec<LogFile> = files.collect();
    files.sort_by_key(|file| file.first);
    Ok(files)
}

/// The name of the file that begins at `first`; names sort as positions do.
pub(crate) fn file_name(first: Lsn) -> String {
    format!("{:020}{SUFFIX}", first.0)
}

fn parse_file_name(name: &str) -> Option<Lsn> {
    let first = Lsn(name.strip_suffix(SUFFIX)?.parse().ok()?);
    (file_name(first) == name).then_some(first)
}

/// Makes something as large as the first of two sizes, or where the disk is too full for that, as
/// the second; and says which.
fn with_space(
    [wanted, least]: [u64; 2],
    make: impl Fn(u64) -> tidegate_platform::Result<()>,
) -> tidegate_platform::Result<u64> {
    match make(wanted) {
        Err(error) if error.is_no_space() => make(least).map(|()| least),
        made => made.map(|()| wanted),
    }
}

/// Fills `start..end` of a file with zeros, behind which it may be longer.
fn fill(handle: &dyn DiskFile, start: u64, end: u64) -> tidegate_platform::Result<()> {
    handle.allocate(end)?;
    let zeros = vec![0; ZEROS_BYTES];
    let mut at = start;
    while at < end {
        let bytes = usize::try_from(end - at).map_or(ZEROS_BYTES, |left| left.min(ZEROS_BYTES));
        handle.write_all_at(&zeros[..bytes], at)?;
        at += bytes as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_whose_successor_begins_in_time_are_purged() {
        check(&[0], 9_000, 0);
        check(&[0, 4_096, 8_192], 0, 0);
        check(&[0, 4_096, 8_192], 4_095, 0);
        check(&[0, 4_096, 8_192], 4_096, 1);
        check(&[0, 4_096, 8_192], 8_192, 2);
        check(&[0, 4_096, 8_192], u64::MAX, 2);
        check(&[], 1, 0);
    }

    #[track_caller]
    fn check(firsts: &[u64], needed: u64, expected: usize) {
        let file = |&first: &u64| LogFile { first: Lsn(first), path: PathBuf::new() };
        let files: Vec<LogFile> = firsts.iter().map(file).collect();
        assert_eq!(purgeable(&files, Lsn(needed)), expected, "{firsts:?} {needed}");
    }

    #[test]
    fn only_our_names_are_log_files() {
        assert_eq!(parse_file_name(&file_name(Lsn(4_096))), Some(Lsn(4_096)));
        for name in ["1.wal", "00000000000000000001.wal.tmp", "x.wal", ".wal", "notes"] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }
}
