//! The writing side of the log: files, space in them, groups, and the handling of failures.
//!
//! - wal-2, wal-4, wal-5, wal-6 hold here too.
//! - wal_log-1. Space is filled with zeros ahead of use, so that a small commit is one `fdatasync`
//!   that changes no metadata. A large group extends the file itself: writing its bytes takes
//!   longer than changing the length, and filling with zeros first would write them twice. On a
//!   disk that is nearly full, only the space for the group itself is filled, so that a commit that
//!   frees space, such as DROP TABLE, remains possible.
//! - wal_log-2. The header of a file states the length that the file had on disk when it got its
//!   name, and each group the length that was known when the group was written. Small groups are
//!   written only within a length that an earlier header or group states. So a file that is shorter
//!   than stated has been truncated.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::Lsn;
use tidegate_platform::{Disk, DiskFile, OpenMode};

use super::files::{LogFile, file_name};
use super::group::{
    EncodedGroup, FILE_HEADER_BYTES, FileHeader, GroupPlace, PAGE, encode_file_header,
};
use super::head::write_head;
use super::record::{Record, TableShares};
use super::replay::{LogEnd, UnsyncedGroups};
use super::{Durability, LogOptions};
use crate::checksummed_file;
use crate::error::{Error, Result};

/// The size from which a group extends the file itself (wal_log-1).
const LARGE_GROUP_BYTES: u64 = 256 << 10;
/// The minimal space that is filled ahead: for the next group, which states the new length, and for
/// the group after it (wal_log-2).
const RESERVE_BYTES_MIN: u64 = 2 * PAGE as u64;
/// Zeros written at a time.
const ZEROS_BYTES: usize = 1 << 20;

/// The outcome of writing records that were not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    /// No replay will find them.
    NotCommitted,
    /// The next replay may find them (wal-5).
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
    /// The position up to which everything is on disk.
    durable: Lsn,
    /// The groups after that position, as they were written (wal-6).
    unsynced: VecDeque<Vec<u8>>,
    /// Groups before this position have the form of versions 1 and 2: they were copied from such a
    /// file.
    plain_until: Lsn,
    files: Vec<LogFile>,
    /// The start of the last file of the previous process, and the end of the file before that one.
    resumed: (Lsn, Lsn),
    current: Current,
}

/// The state of the file that groups are written to.
#[derive(Debug)]
enum Current {
    Ready(OpenFile),
    /// This process has not started a file yet.
    None,
    /// A write or sync has failed, and no new file could be started (wal-5).
    Unusable,
}

#[derive(Debug, Clone)]
struct OpenFile {
    handle: Arc<dyn DiskFile>,
    first: Lsn,
    /// Bytes that are filled with zeros, or with groups.
    filled: u64,
    /// The part of them that is on disk (wal_log-2).
    synced: u64,
}

/// A sync that makes groups durable, without locking the log meanwhile.
#[derive(Debug)]
pub(crate) struct LogSync {
    handle: Arc<dyn DiskFile>,
    /// The end of the groups written before the sync.
    until: Lsn,
}

impl LogSync {
    /// Waits for the disk.
    pub(crate) fn sync(&self) -> tidegate_platform::Result<()> {
        self.handle.sync_data()
    }
}

impl Log {
    /// A log that was replayed. The first sync or commit starts a file, which begins with the
    /// groups that may not be durable (wal-6): only the process that wrote an older file knows
    /// whether its name and content are durable.
    pub(crate) fn resume(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        id: u64,
        end: LogEnd,
        options: LogOptions,
    ) -> Log {
        let UnsyncedGroups { durable, groups: unsynced, plain_until } = end.unsynced;
        let bytes: usize = unsynced.iter().map(Vec::len).sum();
        assert_eq!(durable.0 + bytes as u64, end.lsn.0, "wal-6");
        Log {
            disk: Arc::clone(disk),
            dir: dir.to_path_buf(),
            options,
            id,
            end: end.lsn,
            durable,
            unsynced,
            plain_until,
            files: end.files,
            resumed: end.last,
            current: Current::None,
        }
    }

    /// The position of the next group.
    pub(crate) fn end(&self) -> Lsn {
        self.end
    }

    /// The position up to which all groups are on disk.
    pub(crate) fn durable(&self) -> Lsn {
        self.durable
    }

    /// The number of its files.
    pub(crate) fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Returns true if a write has failed, and nothing can be written before that is repaired
    /// (wal-5).
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.current, Current::Unusable)
    }

    /// Writes records, all of them or none (wal-2), and returns the bytes of each table in them.
    pub(crate) fn append(
        &mut self,
        records: &[Record],
    ) -> Result<TableShares, (Arc<Error>, CommitOutcome)> {
        let group = EncodedGroup::new(records);
        let file = self.room_for(group.bytes());
        let file = file.map_err(|error| (Arc::new(error), CommitOutcome::NotCommitted))?;
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
                    Durability::Async => self.unsynced.push_back(bytes),
                }
                Ok(shares)
            }
            Err(error) => {
                self.current = Current::Unusable;
                // wal-5: a new file without the group excludes it from the log.
                let outcome = if self.start_file().is_ok() {
                    CommitOutcome::NotCommitted
                } else {
                    CommitOutcome::InDoubt
                };
                Err((Arc::new(Error::disk("write log")(error)), outcome))
            }
        }
    }

    /// Returns the sync that makes all groups durable. Returns `None` if they are durable already,
    /// or if a new file was started for them, because the log was broken or was just replayed. Only
    /// one sync may be in progress: the kernel reports an error once, so a second sync would miss
    /// it.
    pub(crate) fn begin_sync(&mut self) -> Result<Option<LogSync>> {
        match &self.current {
            Current::Ready(file) if self.durable < self.end => {
                Ok(Some(LogSync { handle: Arc::clone(&file.handle), until: self.end }))
            }
            Current::Ready(_) => Ok(None),
            Current::None if self.durable == self.end => Ok(None),
            Current::None | Current::Unusable => {
                self.start_file().map_err(|error| Error::ReadOnly { source: Arc::new(error) })?;
                Ok(None)
            }
        }
    }

    /// Handles the result of a sync.
    pub(crate) fn end_sync(
        &mut self,
        sync: &LogSync,
        outcome: tidegate_platform::Result<()>,
    ) -> Result<()> {
        if sync.until <= self.durable {
            // A new file has been started since, and contains the groups.
            return Ok(());
        }
        let is_current = match &self.current {
            Current::Ready(file) => Arc::ptr_eq(&file.handle, &sync.handle),
            Current::None | Current::Unusable => false,
        };
        match outcome {
            Ok(()) if is_current => {
                while self.durable < sync.until {
                    let group = self.unsynced.pop_front().expect("wal-6");
                    self.durable = Lsn(self.durable.0 + group.len() as u64);
                }
                self.rotate();
                Ok(())
            }
            Ok(()) => {
                // A write to the file has failed since: its content is not used (wal-5).
                self.start_file().map_err(|error| Error::ReadOnly { source: Arc::new(error) })
            }
            Err(error) => {
                self.current = Current::Unusable;
                let failed =
                    |_| Error::ReadOnly { source: Arc::new(Error::disk("sync log")(error)) };
                self.start_file().map_err(failed)
            }
        }
    }

    /// Starts another file if this one is long. The groups written since the last sync are written
    /// to the new file again and are synced with it, so their commits need no further sync.
    fn rotate(&mut self) {
        let Current::Ready(file) = &self.current else { return };
        if self.options.file_bytes < self.end.0 - file.first.0 {
            // If this fails, the file becomes longer, and the next sync tries again.
            let _ = self.start_file();
        }
    }

    /// Starts another file, whatever the length of this one, so that it can be purged.
    pub(crate) fn begin_file(&mut self) -> Result<()> {
        match &self.current {
            Current::Ready(file) if file.first < self.end => self.start_file(),
            _ => Ok(()),
        }
    }

    /// Returns the file for the next group, with space for it (wal_log-1).
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
        if bytes >= LARGE_GROUP_BYTES {
            if wanted > file.filled {
                file.handle.allocate(wanted).map_err(Error::disk("extend log"))?;
                file.filled = wanted;
            }
            return Ok(file.clone());
        }
        // wal_log-2: this group states the length for the small groups after it.
        let reserve = (self.options.step_bytes / 2).clamp(RESERVE_BYTES_MIN, 2 * LARGE_GROUP_BYTES);
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

    /// Creates a file that begins at the durable end of the log, with the groups after that
    /// position, and continues there: then all are durable (wal-6).
    ///
    /// Bytes of an older file after that position are no longer part of the log (wal-4). After an
    /// error the previous file can still be written to, unless a replay may find the new one.
    fn start_file(&mut self) -> Result<()> {
        let path = self.dir.join(file_name(self.durable));
        let written = checksummed_file::temporary(&path);
        let groups = self.end.0 - self.durable.0;
        let room = groups.next_multiple_of(self.options.step_bytes).max(self.options.step_bytes);
        let sizes = [room, groups].map(|bytes| FILE_HEADER_BYTES as u64 + bytes);
        let filled = with_space(sizes, |filled| self.write_file(&written, filled));
        let filled = filled.map_err(|error| {
            // If this fails too, the next open removes it.
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
                // wal-8. If this fails, commits continue; only the loss of the file would not be
                // detected.
                let _ = write_head(self.disk.as_ref(), &self.dir, self.id, first);
                self.current = Current::Ready(OpenFile { handle, first, filled, synced });
                self.durable = self.end;
                self.unsynced.clear();
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
        // A file that replaces one without groups keeps the gap that a repair has left before it.
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
        for group in &self.unsynced {
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

    /// Removes files that are no longer needed: their records are before `needed`.
    pub(crate) fn purge(&mut self, needed: Lsn) -> Result<()> {
        let count = purgeable(&self.files, needed);
        for file in &self.files[..count] {
            // A file that does not exist is ignored: a crash in this loop repeats the purge.
            self.disk.remove(&file.path).map_err(Error::disk("purge log"))?;
        }
        self.files.drain(..count);
        Ok(())
    }
}

/// Creates the first file of a log. It has no free space: the first commit replaces it. Its
/// existence distinguishes a log without records from a lost log.
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

/// Number of files that end before `needed`, the first position at which a replay begins. The last
/// file is in use.
pub(crate) fn purgeable(files: &[LogFile], needed: Lsn) -> usize {
    let ends = files.get(1..).unwrap_or_default();
    ends.partition_point(|next| next.first <= needed)
}

/// Creates something with the first of two sizes, or on a nearly full disk with the second; returns
/// the size used.
fn with_space(
    [wanted, least]: [u64; 2],
    make: impl Fn(u64) -> tidegate_platform::Result<()>,
) -> tidegate_platform::Result<u64> {
    match make(wanted) {
        Err(error) if error.is_no_space() => make(least).map(|()| least),
        made => made.map(|()| wanted),
    }
}

/// Fills `start..end` of a file with zeros; the file may be longer.
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
}
