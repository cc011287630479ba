//! Reading the log when a database is opened.
//!
//! - W3, W5 as in `wal`.
//! - W7. Reading changes nothing.
//!
//! Not here: the groups that no replay needs any more (`verify`).

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::{Lsn, SeqTxn, TableId};
use tidegate_platform::{Disk, DiskFile, OpenMode};

use super::group::{
    CheckedGroup, FILE_HEADER_BYTES, GROUP_HEADER_BYTES, PAGE, check_group, decode_file_header,
    peek_group,
};
use super::log::{LogFile, list_files};
use super::record::{Record, shifted};
use crate::error::{Corruption, DecodeError, Error, Result};

/// Bytes read at once while looking for what follows a bad group.
pub(super) const SEARCH_BYTES: usize = 1 << 20;

/// A record and where it stands, for the message if it does not fit.
#[derive(Debug)]
pub(crate) struct ReplayedRecord<'a> {
    pub(crate) record: &'a Record,
    /// Where its group begins.
    pub(crate) lsn: Lsn,
    pub(crate) path: &'a Path,
    pub(crate) offset: u64,
}

/// Where a log ends.
#[derive(Debug)]
pub(crate) struct LogEnd {
    /// The position behind the last good group.
    pub(crate) lsn: Lsn,
    /// All files, in order.
    pub(crate) files: Vec<LogFile>,
    /// The groups at the end that may not be durable.
    pub(crate) unflushed: UnflushedGroups,
}

/// The last groups of a log that is replayed: those that nothing behind them counts as durable.
/// The process that wrote them knew whether a sync of them had failed; this one does not.
#[derive(Debug)]
pub(crate) struct UnflushedGroups {
    /// Everything before it is on disk.
    pub(crate) durable: Lsn,
    /// The groups behind that, byte for byte.
    pub(crate) groups: VecDeque<Vec<u8>>,
}

impl UnflushedGroups {
    /// No groups behind a position.
    pub(crate) fn new(durable: Lsn) -> UnflushedGroups {
        UnflushedGroups { durable, groups: VecDeque::new() }
    }

    /// Takes note that everything before `durable` is on disk: groups end there, or `durable` is
    /// before them.
    pub(crate) fn count_durable(&mut self, durable: Lsn) {
        while self.durable < durable {
            match self.groups.pop_front() {
                Some(group) => self.durable = Lsn(self.durable.0 + group.len() as u64),
                None => self.durable = durable,
            }
        }
    }

    /// Adds the group from `lsn` to `end`, of which `bytes` may lack the zeros at the end.
    fn push(&mut self, lsn: Lsn, end: Lsn, mut bytes: Vec<u8>) {
        bytes.resize(usize::try_from(end.0 - lsn.0).expect("a group fits memory"), 0);
        self.groups.push_back(bytes);
    }
}

/// A file of the log while it is read.
pub(super) struct OpenFile {
    pub(super) path: PathBuf,
    handle: Arc<dyn DiskFile>,
    pub(super) length: u64,
    pub(super) first: Lsn,
    pub(super) log: u64,
}

/// What of a log is to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSpan {
    pub(crate) log: u64,
    pub(crate) from: Lsn,
    /// Where it is known to end; `None` if that is to be found out (W3).
    pub(crate) until: Option<Lsn>,
}

/// Does something with a group of a file, and returns where it ends.
type Visit<'a> = dyn FnMut(&OpenFile, Lsn, CheckedGroup<'_>) -> Result<Lsn> + 'a;

/// Hands every record of a span to `apply`, in order, and returns where the log ends.
pub(crate) fn replay(
    disk: &dyn Disk,
    dir: &Path,
    span: LogSpan,
    apply: &mut dyn FnMut(ReplayedRecord<'_>) -> Result<()>,
) -> Result<LogEnd> {
    visit_groups(disk, dir, span, &mut |file, lsn, group| file.apply_group(lsn, group, apply))
}

/// Returns, for each table that a record of a span takes rows from, the last commit whose rows
/// need no memtable at the end of the span. What `replay` finds it finds, and the same damage.
pub(crate) fn last_flushed(
    disk: &dyn Disk,
    dir: &Path,
    span: LogSpan,
) -> Result<BTreeMap<TableId, SeqTxn>> {
    let mut last: BTreeMap<TableId, SeqTxn> = BTreeMap::new();
    let mut found = |table, seq_txn| {
        let known = last.entry(table).or_insert(seq_txn);
        *known = seq_txn.max(*known);
    };
    visit_groups(disk, dir, span, &mut |file, lsn, group| {
        let end = group.end;
        group.skim(&mut found).map_err(|error| file.damage(lsn, error))?;
        Ok(end)
    })?;
    Ok(last)
}

fn visit_groups(
    disk: &dyn Disk,
    dir: &Path,
    LogSpan { log, from, until }: LogSpan,
    visit: &mut Visit<'_>,
) -> Result<LogEnd> {
    let files = list_files(disk, dir)?;
    let unflushed = UnflushedGroups::new(from);
    let mut end = LogEnd { lsn: from, files: Vec::new(), unflushed };
    // The last file that begins at `from` or before it holds the first record to replay.
    let needed = files.partition_point(|file| file.first <= from);
    if needed == 0 {
        return Err(Error::missing(&dir.join(super::log::file_name(from))));
    }
    for (at, file) in files.iter().enumerate().skip(needed - 1) {
        let file = OpenFile::open(disk, file, log)?;
        let limit = files.get(at + 1).map(|next| next.first).or(until);
        // W5: a file begins where its predecessor was durable.
        end.unflushed.count_durable(file.first);
        file.visit(&mut end, limit, visit)?;
    }
    end.files = files;
    Ok(end)
}

/// Whether a log file of an unfinished database holds nothing: no group begins in it.
pub(crate) fn is_unused(disk: &dyn Disk, path: &Path) -> Result<bool> {
    let bytes = disk.read(path).map_err(Error::disk("read log"))?;
    let groups = bytes.get(FILE_HEADER_BYTES..).unwrap_or_default();
    Ok(groups.iter().all(|&byte| byte == 0))
}

impl OpenFile {
    pub(super) fn open(disk: &dyn Disk, file: &LogFile, log: u64) -> Result<OpenFile> {
        let LogFile { first, path } = file.clone();
        let handle = disk.open(&path, OpenMode::Read).map_err(Error::disk("open log"))?;
        let length = handle.len().map_err(Error::disk("open log"))?;
        let mut header = vec![0; FILE_HEADER_BYTES];
        let got = handle.read_at(&mut header, 0).map_err(Error::disk("read log"))?;
        decode_file_header(&header[..got], log, first).map_err(Error::decode(&path))?;
        Ok(OpenFile { path, handle, length, first, log })
    }

    pub(super) fn offset(&self, lsn: Lsn) -> u64 {
        FILE_HEADER_BYTES as u64 + (lsn.0 - self.first.0)
    }

    pub(super) fn corrupt(&self, lsn: Lsn, what: Corruption) -> Error {
        Error::Corrupt { path: self.path.clone(), offset: self.offset(lsn), what }
    }

    /// Visits groups from `log_end` on to the end of the log, or to where the next file begins.
    fn visit(&self, log_end: &mut LogEnd, limit: Option<Lsn>, visit: &mut Visit<'_>) -> Result<()> {
        while limit != Some(log_end.lsn) {
            let lsn = log_end.lsn;
            let bytes = self.read_group(lsn)?;
            let Ok(group) = check_group(&bytes, self.log, lsn) else {
                // W5: the next file says that this one was durable up to there.
                let counted = limit.is_some() || self.durable_after(lsn)? > lsn;
                let damage = self.corrupt(lsn, Corruption::DurableGroup);
                return if counted { Err(damage) } else { Ok(()) };
            };
            if limit.is_some_and(|limit| group.end > limit) {
                let what =
                    Corruption::Impossible { what: "the end of a group", value: group.end.0 };
                return Err(self.corrupt(lsn, what));
            }
            log_end.unflushed.count_durable(group.durable);
            log_end.lsn = visit(self, lsn, group)?;
            log_end.unflushed.push(lsn, log_end.lsn, bytes);
        }
        Ok(())
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

    /// The error of a group at `lsn` whose records are not what they should be.
    fn damage(&self, lsn: Lsn, error: DecodeError) -> Error {
        let base = usize::try_from(self.offset(lsn)).expect("files fit the address space");
        Error::decode(&self.path)(shifted(error, base))
    }

    /// The bytes that should be the group at `lsn`; fewer if the file ends before.
    pub(super) fn read_group(&self, lsn: Lsn) -> Result<Vec<u8>> {
        let offset = self.offset(lsn);
        let left = self.length.saturating_sub(offset);
        let mut bytes = self.read(offset, left.min(PAGE as u64))?;
        let wanted = peek_group(&bytes, self.log, lsn).map_or(0, |header| header.bytes as u64);
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

    /// The highest LSN that a whole group behind the bad one at `bad` counts as durable.
    fn durable_after(&self, bad: Lsn) -> Result<Lsn> {
        let (mut durable, mut lsn) = (Lsn(0), Lsn(bad.0 + PAGE as u64));
        while self.offset(lsn) < self.length {
            let piece = self.read(self.offset(lsn), SEARCH_BYTES as u64)?;
            if piece.is_empty() {
                break;
            }
            for page in piece.chunks(PAGE) {
                if peek_group(page, self.log, lsn).is_ok() {
                    let bytes = self.read_group(lsn)?;
                    let group = check_group(&bytes, self.log, lsn);
                    durable = durable.max(group.map_or(Lsn(0), |group| group.durable));
                }
                lsn = Lsn(lsn.0 + PAGE as u64);
            }
        }
        Ok(durable)
    }
}

/// Checks that a group header fits a page, so that `read_group` sees it whole.
const _: () = assert!(GROUP_HEADER_BYTES <= PAGE);
