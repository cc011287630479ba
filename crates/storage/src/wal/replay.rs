//! Replay: reads the log when a database is opened.
//!
//! - wal-3 and wal-4 hold for a replay too.
//! - Reading changes nothing.
//! - wal_replay-1. A log ends early only where a write may have been interrupted: sectors of a
//!   group are missing, and nothing says that it was on disk. Anything else is damage, and an
//!   error.
//!
//! Not here: the groups that a replay no longer needs (`verify`).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::{Lsn, SeqTxn, TableId};
use tidegate_platform::{Disk, DiskFile, OpenMode};

use super::files::{LogFile, file_name, list_files};
use super::group::{
    BadGroup, CheckedGroup, FILE_HEADER_BYTES, FileHeader, GROUP_HEADER_BYTES, GroupLayout, PAGE,
    check_group, decode_file_header, is_zero, judge_group, peek_group,
};
use super::head;
use super::record::{Record, shifted};
use crate::error::{Corruption, DecodeError, Error, Result};

/// Bytes read at a time while searching after a bad group.
pub(super) const SEARCH_BYTES: usize = 1 << 20;

/// A record and its position, for the error message if it does not fit.
#[derive(Debug)]
pub(crate) struct ReplayedRecord<'a> {
    pub(crate) record: &'a Record,
    /// The position of its group.
    pub(crate) lsn: Lsn,
    pub(crate) path: &'a Path,
    pub(crate) offset: u64,
}

/// The end of a log.
#[derive(Debug)]
pub(crate) struct LogEnd {
    /// The position after the last valid group.
    pub(crate) lsn: Lsn,
    /// All files, in order.
    pub(crate) files: Vec<LogFile>,
    /// The groups at the end that may not be durable.
    pub(crate) unsynced: UnsyncedGroups,
    /// The start of the last file, and the end of the one before it.
    pub(crate) last: (Lsn, Lsn),
    /// The group after the end that was ignored.
    pub(crate) torn: Option<TornGroup>,
}

/// The last groups of a replayed log: those that no later group or file counts as durable. The
/// process that wrote them knew whether a sync of them had failed; this one does not.
#[derive(Debug)]
pub(crate) struct UnsyncedGroups {
    /// The position up to which everything is on disk.
    pub(crate) durable: Lsn,
    /// The groups after that, byte for byte.
    pub(crate) groups: VecDeque<Vec<u8>>,
    /// Groups before this position are plain.
    pub(crate) plain_until: Lsn,
}

impl UnsyncedGroups {
    /// No groups after a position.
    pub(crate) fn new(durable: Lsn) -> UnsyncedGroups {
        UnsyncedGroups { durable, groups: VecDeque::new(), plain_until: durable }
    }

    /// Records that everything before `durable` is on disk: a group ends there, or `durable` is
    /// before the groups.
    pub(crate) fn count_durable(&mut self, durable: Lsn) {
        while self.durable < durable {
            match self.groups.pop_front() {
                Some(group) => self.durable = Lsn(self.durable.0 + group.len() as u64),
                None => self.durable = durable,
            }
        }
    }

    /// Adds the group from `lsn` to `end`, of which `bytes` may lack the zeros at the end.
    fn push(&mut self, lsn: Lsn, end: Lsn, layout: GroupLayout, mut bytes: Vec<u8>) {
        if layout == GroupLayout::Plain {
            self.plain_until = end;
        }
        bytes.resize(usize::try_from(end.0 - lsn.0).expect("a group fits memory"), 0);
        self.groups.push_back(bytes);
    }
}

/// Bytes after the end of the log: of a group whose write was interrupted, and which was never
/// acknowledged, or of an acknowledged group of which the disk has lost sectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornGroup {
    /// The file.
    pub path: PathBuf,
    /// Offset of the group in the file.
    pub offset: u64,
}

impl fmt::Display for TornGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornGroup { path, offset } = self;
        write!(
            f,
            "{}: the log ends at byte {offset}, and what is behind it was left out: a write that \
             was cut off before it was acknowledged, or a group of which the disk has lost a part",
            path.display()
        )
    }
}

/// The progress of a replay, also if it fails.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The position after the last valid group.
    pub(crate) lsn: Lsn,
    /// The file that is being read.
    pub(crate) path: PathBuf,
    /// True if an error now is one of the log's files, and not of applying a record.
    pub(crate) is_damaged: bool,
}

impl Progress {
    /// A replay that has read nothing yet.
    pub(crate) fn new(dir: &Path, from: Lsn) -> Progress {
        Progress { lsn: from, path: dir.join(file_name(from)), is_damaged: false }
    }
}

/// A file of the log while it is read.
pub(super) struct OpenFile {
    pub(super) path: PathBuf,
    handle: Arc<dyn DiskFile>,
    pub(super) length: u64,
    pub(super) header: FileHeader,
    /// Bytes of the first page that the header takes.
    pub(super) header_bytes: usize,
}

/// The content of a file after a bad group.
struct AfterBadGroup {
    /// The highest LSN that an intact group there counts as durable.
    durable: Lsn,
    has_bytes: bool,
}

/// The part of a log to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSpan {
    pub(crate) log: u64,
    pub(crate) from: Lsn,
    /// The known end; `None` if it has to be found (wal-3).
    pub(crate) until: Option<Lsn>,
}

/// An action on a group of a file, which returns the end of the group.
type Visit<'a> = dyn FnMut(&OpenFile, Lsn, CheckedGroup<'_>) -> Result<Lsn> + 'a;

/// Passes every record of a span to `apply`, in order, and returns the end of the log.
pub(crate) fn replay(
    disk: &dyn Disk,
    dir: &Path,
    span: LogSpan,
    apply: &mut dyn FnMut(ReplayedRecord<'_>) -> Result<()>,
) -> Result<LogEnd> {
    replay_with(disk, dir, span, apply, &mut Progress::new(dir, span.from))
}

/// The same, and stores the progress in `progress`.
pub(crate) fn replay_with(
    disk: &dyn Disk,
    dir: &Path,
    span: LogSpan,
    apply: &mut dyn FnMut(ReplayedRecord<'_>) -> Result<()>,
    progress: &mut Progress,
) -> Result<LogEnd> {
    let visit: &mut Visit<'_> = &mut |file, lsn, group| file.apply_group(lsn, group, apply);
    visit_groups(disk, dir, span, visit, progress)
}

/// Returns, for each table that a record of a span takes rows from, the last commit whose rows need
/// no memtable at the end of the span. It finds the same records and the same damage as `replay`.
pub(crate) fn last_flushed(
    disk: &dyn Disk,
    dir: &Path,
    span: LogSpan,
) -> Result<BTreeMap<TableId, SeqTxn>> {
    let mut last: BTreeMap<TableId, SeqTxn> = BTreeMap::new();
    let mut add = |table, seq_txn| {
        let known = last.entry(table).or_insert(seq_txn);
        *known = seq_txn.max(*known);
    };
    let visit: &mut Visit<'_> = &mut |file, lsn, group| {
        let end = group.end;
        group.skim(&mut add).map_err(|error| file.damage(lsn, error))?;
        Ok(end)
    };
    visit_groups(disk, dir, span, visit, &mut Progress::new(dir, span.from))?;
    Ok(last)
}

fn visit_groups(
    disk: &dyn Disk,
    dir: &Path,
    LogSpan { log, from, until }: LogSpan,
    visit: &mut Visit<'_>,
    progress: &mut Progress,
) -> Result<LogEnd> {
    let mut files = list_files(disk, dir)?;
    match until {
        None => head::add_missing(disk, dir, log, &mut files)?,
        // Later files contain commits that the caller does not request.
        Some(until) => files.retain(|file| file.first <= until),
    }
    // The last file that begins at `from` or before it contains the first record to replay.
    let needed = files.partition_point(|file| file.first <= from);
    progress.is_damaged = true;
    // The gap that a repair has left may be before the first file.
    let needed = needed.saturating_sub(1);
    let missing = || Error::missing(&dir.join(file_name(from)));
    let needed_file = files.get(needed).ok_or_else(missing)?;
    progress.path.clone_from(&needed_file.path);
    let mut file = OpenFile::open(disk, needed_file, log)?;
    if from < file.header.previous_end {
        return Err(missing());
    }
    progress.lsn = from.max(file.header.first);
    let mut unsynced = UnsyncedGroups::new(progress.lsn);
    for next in files[needed + 1..].iter().map(Some).chain([None]) {
        // wal-4: the next file contains the end of this one. If its header is unreadable, this file
        // is read up to the first position of the next one.
        let next = next.map(|next| (next, OpenFile::open(disk, next, log)));
        let next_end = match &next {
            Some((_, Ok(next))) => Some(next.header.previous_end),
            Some((next, Err(_))) => Some(next.first),
            None => until,
        };
        file.visit(&mut unsynced, next_end, visit, progress)?;
        let Some((named, next)) = next else { break };
        progress.path.clone_from(&named.path);
        file = next?;
        progress.lsn = file.header.first;
        // wal-4: a file begins where its predecessor was durable.
        unsynced.count_durable(file.header.first);
    }
    let torn = match until {
        Some(_) => None,
        None => file.check_end(progress.lsn)?,
    };
    progress.is_damaged = false;
    let last = (file.header.first, file.header.previous_end);
    Ok(LogEnd { lsn: progress.lsn, files, unsynced, last, torn })
}

/// Returns true if a log file of an unfinished database is empty: no group begins in it.
pub(crate) fn is_unused(disk: &dyn Disk, path: &Path) -> Result<bool> {
    let bytes = disk.read(path).map_err(Error::disk("read log"))?;
    let groups = bytes.get(FILE_HEADER_BYTES..).unwrap_or_default();
    Ok(groups.iter().all(|&byte| byte == 0))
}

impl OpenFile {
    pub(super) fn open(disk: &dyn Disk, file: &LogFile, log: u64) -> Result<OpenFile> {
        OpenFile::open_with(disk, file, |page| {
            decode_file_header(page, log, file.first).map_err(|error| match error {
                DecodeError::Corrupt { offset, what } => {
                    let what = Corruption::DamagedLogHeader { what: Box::new(what) };
                    DecodeError::Corrupt { offset, what }
                }
                newer @ DecodeError::NewerFormat { .. } => newer,
            })
        })
    }

    /// Opens a file to repair the log. If its header is damaged, its groups are those that follow
    /// the position in its name: each states its log and its position, and has checksums.
    pub(super) fn open_for_repair(disk: &dyn Disk, file: &LogFile, log: u64) -> Result<OpenFile> {
        let first = file.first;
        let room = FILE_HEADER_BYTES as u64;
        let (previous_end, durable, plain_until) = (first, first, first);
        let guess = FileHeader { log, first, previous_end, durable, plain_until, room };
        OpenFile::open_with(disk, file, |page| match decode_file_header(page, log, first) {
            Err(DecodeError::Corrupt { .. }) => Ok((guess, FILE_HEADER_BYTES)),
            decoded => decoded,
        })
    }

    fn open_with(
        disk: &dyn Disk,
        file: &LogFile,
        decode: impl Fn(&[u8]) -> std::result::Result<(FileHeader, usize), DecodeError>,
    ) -> Result<OpenFile> {
        let LogFile { path, .. } = file.clone();
        let handle =
            disk.open(&path, OpenMode::Read).map_err(|error| match error.is_not_found() {
                true => Error::missing(&path),
                false => Error::disk("open log")(error),
            })?;
        let length = handle.len().map_err(Error::disk("open log"))?;
        let mut page = vec![0; FILE_HEADER_BYTES];
        let got = handle.read_at(&mut page, 0).map_err(Error::disk("read log"))?;
        let (header, header_bytes) = decode(&page[..got]).map_err(Error::decode(&path))?;
        Ok(OpenFile { path, handle, length, header, header_bytes })
    }

    /// Returns the offset in the file of a position of the log.
    pub(super) fn offset(&self, lsn: Lsn) -> u64 {
        FILE_HEADER_BYTES as u64 + (lsn.0 - self.header.first.0)
    }

    pub(super) fn corrupt(&self, lsn: Lsn, what: Corruption) -> Error {
        Error::Corrupt { path: self.path.clone(), offset: self.offset(lsn), what }
    }

    /// Visits groups to the end of the log, or to where the next file says that this one ends.
    fn visit(
        &self,
        unsynced: &mut UnsyncedGroups,
        limit: Option<Lsn>,
        visit: &mut Visit<'_>,
        progress: &mut Progress,
    ) -> Result<()> {
        let mut room = match limit {
            Some(_) => 0,
            None => self.room_before(progress.lsn)?,
        };
        while limit != Some(progress.lsn) {
            let lsn = progress.lsn;
            let bytes = self.read_group(lsn)?;
            let Ok(group) = check_group(&bytes, self.header.expected_at(lsn)) else {
                if limit.is_some() {
                    return Err(self.corrupt(lsn, Corruption::DurableGroup));
                }
                break;
            };
            if limit.is_some_and(|limit| group.end > limit) {
                let what =
                    Corruption::Impossible { what: "the end of a group", value: group.end.0 };
                return Err(self.corrupt(lsn, what));
            }
            // The header of a group that was copied from another file describes that file.
            if self.header.durable <= lsn {
                room = room.max(group.room);
            }
            unsynced.count_durable(group.durable);
            progress.is_damaged = false;
            progress.lsn = visit(self, lsn, group)?;
            progress.is_damaged = true;
            unsynced.push(lsn, progress.lsn, self.header.layout_at(lsn), bytes);
        }
        // wal_log-2. Bytes of a file after the beginning of the next one are ignored.
        if limit.is_none() && self.length < room {
            let what = Corruption::CutLog { expected: room, actual: self.length };
            return Err(Error::Corrupt { path: self.path.clone(), offset: self.length, what });
        }
        Ok(())
    }

    /// The length of the file on disk before a position was written (wal_log-2). Groups before the
    /// position are in a checkpoint, so they were on disk.
    fn room_before(&self, until: Lsn) -> Result<u64> {
        let mut room = self.header.room.max(self.offset(until));
        let mut lsn = self.header.durable;
        while lsn < until {
            let page = self.read(self.offset(lsn), PAGE as u64)?;
            // A group that a failed sync has lost has no header, and hides those after it.
            let Ok(header) = peek_group(&page, self.header.expected_at(lsn)) else { break };
            room = room.max(header.room);
            lsn = Lsn(lsn.0 + header.bytes.next_multiple_of(PAGE) as u64);
        }
        Ok(room)
    }

    /// Checks the bytes at the end of the log: nothing, the remains of an interrupted write, or
    /// damage (wal_replay-1).
    fn check_end(&self, lsn: Lsn) -> Result<Option<TornGroup>> {
        let bytes = self.read_group(lsn)?;
        let after = self.read_after(lsn)?;
        if lsn < self.header.durable.max(after.durable) {
            return Err(self.corrupt(lsn, Corruption::DurableGroup));
        }
        match judge_group(&bytes, self.header.expected_at(lsn)) {
            BadGroup::Unwritten if is_zero(&bytes) && !after.has_bytes => Ok(None),
            BadGroup::Unwritten | BadGroup::Torn => {
                Ok(Some(TornGroup { path: self.path.clone(), offset: self.offset(lsn) }))
            }
            BadGroup::Damaged(what) => {
                Err(self.corrupt(lsn, Corruption::DamagedGroup { what: Box::new(what) }))
            }
        }
    }

    fn apply_group(
        &self,
        lsn: Lsn,
        group: CheckedGroup<'_>,
        apply: &mut dyn FnMut(ReplayedRecord<'_>) -> Result<()>,
    ) -> Result<Lsn> {
        let offset = self.offset(lsn);
        let group = group.decode().map_err(|error| self.damage(lsn, error))?;
        for record in &group.records {
            apply(ReplayedRecord { record, lsn, path: &self.path, offset })?;
        }
        Ok(group.end)
    }

    /// The error of a group at `lsn` whose records are invalid.
    fn damage(&self, lsn: Lsn, error: DecodeError) -> Error {
        let base = usize::try_from(self.offset(lsn)).expect("files fit the address space");
        Error::decode(&self.path)(shifted(error, base))
    }

    /// The bytes that should be the group at `lsn`; fewer if the file ends before.
    pub(super) fn read_group(&self, lsn: Lsn) -> Result<Vec<u8>> {
        let offset = self.offset(lsn);
        let left = self.length.saturating_sub(offset);
        let mut bytes = self.read(offset, left.min(PAGE as u64))?;
        let wanted = peek_group(&bytes, self.header.expected_at(lsn))
            .map_or(0, |header| header.bytes as u64);
        if wanted > bytes.len() as u64 && wanted <= left {
            bytes = self.read(offset, wanted)?;
        }
        Ok(bytes)
    }

    pub(super) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut buffer = vec![0; usize::try_from(bytes).expect("at most a group")];
        let got = self.handle.read_at(&mut buffer, offset).map_err(Error::disk("read log"))?;
        buffer.truncate(got);
        Ok(buffer)
    }

    /// Reads the content after the page of the bad group at `bad`.
    fn read_after(&self, bad: Lsn) -> Result<AfterBadGroup> {
        let mut after = AfterBadGroup { durable: Lsn(0), has_bytes: false };
        let mut lsn = Lsn(bad.0 + PAGE as u64);
        while self.offset(lsn) < self.length {
            let piece = self.read(self.offset(lsn), SEARCH_BYTES as u64)?;
            if piece.is_empty() {
                break;
            }
            after.has_bytes |= !is_zero(&piece);
            for page in piece.chunks(PAGE) {
                if peek_group(page, self.header.expected_at(lsn)).is_ok() {
                    let bytes = self.read_group(lsn)?;
                    let group = check_group(&bytes, self.header.expected_at(lsn));
                    let durable = group.map_or(Lsn(0), |group| group.durable);
                    after.durable = after.durable.max(durable);
                }
                lsn = Lsn(lsn.0 + PAGE as u64);
            }
        }
        Ok(after)
    }
}

/// Checks that a group header fits a page, so that `read_group` sees it whole.
const _: () = assert!(GROUP_HEADER_BYTES <= PAGE);
