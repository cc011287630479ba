//! Reading the log when a database is opened.
//!
//! - W3, W5 as in `wal`.
//! - W7. Reading changes nothing.
//!
//! Not here: the groups that no replay needs any more (`verify`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::Lsn;
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
    /// Those that groups were read from.
    pub(crate) replayed: Vec<PathBuf>,
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

/// Hands every record of a span to `apply`, in order, and says where the log ends.
pub(crate) fn replay(
    disk: &dyn Disk,
    dir: &Path,
    LogSpan { log, from, until }: LogSpan,
    apply: &mut dyn FnMut(ReplayedRecord<'_>) -> Result<()>,
) -> Result<LogEnd> {
    let files = list_files(disk, dir)?;
    let mut end = LogEnd { lsn: from, files: Vec::new(), replayed: Vec::new() };
    // The last file that begins at `from` or before it holds the first record to replay.
    let needed = files.partition_point(|file| file.first <= from);
    if needed == 0 {
        return Err(Error::missing(&dir.join(super::log::file_name(from))));
    }
    for (at, file) in files.iter().enumerate().skip(needed - 1) {
        let file = OpenFile::open(disk, file, log)?;
        let limit = files.get(at + 1).map(|next| next.first).or(until);
        let start = end.lsn;
        end.lsn = file.replay(start, limit, apply)?;
        if end.lsn != start {
            end.replayed.push(file.path.clone());
        }
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

    /// Applies groups from `lsn` to the end of the log, or to where the next file begins.
    fn replay(
        &self,
        mut lsn: Lsn,
        limit: Option<Lsn>,
        apply: &mut dyn FnMut(ReplayedRecord<'_>) -> Result<()>,
    ) -> Result<Lsn> {
        while limit != Some(lsn) {
            let bytes = self.read_group(lsn)?;
            let Ok(group) = check_group(&bytes, self.log, lsn) else {
                // W5: the next file says that this one was durable up to there.
                let counted = limit.is_some() || self.durable_after(lsn)? > lsn;
                let damage = self.corrupt(lsn, Corruption::DurableGroup);
                return if counted { Err(damage) } else { Ok(lsn) };
            };
            if limit.is_some_and(|limit| group.end > limit) {
                let what =
                    Corruption::Impossible { what: "the end of a group", value: group.end.0 };
                return Err(self.corrupt(lsn, what));
            }
            lsn = self.apply_group(lsn, group, apply)?;
        }
        Ok(lsn)
    }

    fn apply_group(
        &self,
        lsn: Lsn,
        group: CheckedGroup<'_>,
        apply: &mut dyn FnMut(ReplayedRecord<'_>) -> Result<()>,
    ) -> Result<Lsn> {
        let offset = self.offset(lsn);
        let base = usize::try_from(offset).expect("files fit the address space");
        let damage = |error: DecodeError| Error::decode(&self.path)(shifted(error, base));
        let group = group.decode().map_err(damage)?;
        for record in &group.records {
            apply(ReplayedRecord { record, lsn, path: &self.path, offset })?;
        }
        Ok(group.end)
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
