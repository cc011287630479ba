//! Reads the files of the log whole, also the groups that a checkpoint has made unnecessary.
//!
//! - W5, W7 as in `wal`.
//!
//! Behind the end of a file is what a failed write or a crash has left of one group, or nothing: so
//! only a few bytes that are not zero are damage there. Bytes: docs/format.md, Log.

use std::path::Path;

use tidegate_model::Lsn;
use tidegate_platform::Disk;

use super::group::{FILE_FIELDS_BYTES, FILE_HEADER_BYTES, PAGE, check_group, peek_group};
use super::log::{file_name, list_files};
use super::record::shifted;
use super::replay::{LogSpan, OpenFile, SEARCH_BYTES};
use crate::error::{Corruption, Error, Result};

/// Fewer bytes that are not zero are taken for damage: what is left of images may be mostly zeros.
const REMAINS_BYTES_MIN: usize = 2;
/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// Reads every file and says what is damaged; damage of one leaves the others to be read.
pub(crate) fn verify(disk: &dyn Disk, dir: &Path, span: LogSpan) -> Vec<Error> {
    let files = match list_files(disk, dir) {
        Ok(files) => files,
        Err(error) => return vec![error],
    };
    let mut problems = Vec::new();
    if files.first().is_none_or(|file| file.first > span.from) {
        problems.push(Error::missing(&dir.join(file_name(span.from))));
    }
    for (at, file) in files.iter().enumerate() {
        let next = files.get(at + 1).map(|next| next.first);
        let Some(limit) = next.or(span.until) else { continue };
        // A file that began after `until` is of commits that nobody asks for.
        if file.first <= limit {
            let read = OpenFile::open(disk, file, span.log);
            problems.extend(read.and_then(|file| file.verify(limit, span.from)).err());
        }
    }
    problems
}

impl OpenFile {
    /// Reads its header, all groups up to `limit`, and what is behind them. Replay begins at
    /// `from`.
    fn verify(&self, limit: Lsn, from: Lsn) -> Result<()> {
        let header = self.read(0, FILE_HEADER_BYTES as u64)?;
        self.zeros(&header, FILE_FIELDS_BYTES + 4, 0)?;
        let mut lsn = self.first;
        while lsn != limit {
            let bytes = self.read_group(lsn)?;
            let Ok(group) = check_group(&bytes, self.log, lsn) else {
                let used = peek_group(&bytes, self.log, lsn).map_or(0, |header| header.bytes);
                // A file that is to be purged may end here, with the remains of a write that
                // failed, and the one that followed it may be gone already.
                if lsn < from && (limit < from || is_lost(&bytes, used)) {
                    lsn = from.min(limit);
                    continue;
                }
                return Err(self.corrupt(lsn, Corruption::DurableGroup));
            };
            let offset = self.offset(lsn);
            if group.end > limit {
                let what = "the end of a group";
                return Err(self.corrupt(lsn, Corruption::Impossible { what, value: group.end.0 }));
            }
            let end = group.end;
            let base = usize::try_from(offset).expect("files fit the address space");
            let damage = |error| Error::decode(&self.path)(shifted(error, base));
            group.decode().map_err(damage)?;
            let used = peek_group(&bytes, self.log, lsn).map_err(damage)?.bytes;
            let last_page = (used - 1) / PAGE * PAGE;
            let page = self.read(offset + last_page as u64, PAGE as u64)?;
            self.zeros(&page, used - last_page, offset + last_page as u64)?;
            lsn = end;
        }
        let remains = self.remains(lsn)?;
        match remains.first {
            Some(offset) if remains.count < REMAINS_BYTES_MIN => {
                Err(Error::Corrupt { path: self.path.clone(), offset, what: Corruption::NotZero })
            }
            _ => Ok(()),
        }
    }

    /// Checks that a page, which stands at `offset`, is zero from byte `from` on.
    fn zeros(&self, page: &[u8], from: usize, offset: u64) -> Result<()> {
        let padding = page.get(from..).unwrap_or_default();
        match padding.iter().position(|&byte| byte != 0) {
            None => Ok(()),
            Some(at) => {
                let offset = offset + (from + at) as u64;
                Err(Error::Corrupt { path: self.path.clone(), offset, what: Corruption::NotZero })
            }
        }
    }

    /// Looks behind the last group, and behind the one that may have failed there.
    fn remains(&self, end: Lsn) -> Result<Remains> {
        let page = self.read_group(end)?;
        let failed = peek_group(&page, self.log, end).map_or(0, |header| header.bytes);
        let mut offset = self.offset(end) + failed.next_multiple_of(PAGE) as u64;
        let mut remains = Remains { first: None, count: 0 };
        while offset < self.length && remains.count < REMAINS_BYTES_MIN {
            let piece = self.read(offset, SEARCH_BYTES as u64)?;
            if piece.is_empty() {
                break;
            }
            let at = piece.iter().position(|&byte| byte != 0);
            remains.first = remains.first.or(at.map(|at| offset + at as u64));
            remains.count += piece.iter().filter(|&&byte| byte != 0).count();
            offset += piece.len() as u64;
        }
        Ok(remains)
    }
}

/// Whether a group never reached the disk, or not all of it: it was replayed from the memory of the
/// kernel after its sync had failed, went into a checkpoint, and then power failed. What is missing
/// is zero, as it was before.
fn is_lost(group: &[u8], used: usize) -> bool {
    let is_zero = |sector: &[u8]| sector.iter().all(|&byte| byte == 0);
    let first = &group[..group.len().min(SECTOR_BYTES)];
    // Its length may be what is damaged.
    let used = group.get(..used).unwrap_or_default();
    is_zero(first) || used.chunks_exact(SECTOR_BYTES).any(is_zero)
}

/// Bytes behind the end of a file that are not zero.
struct Remains {
    /// Where the first of them is.
    first: Option<u64>,
    /// How many, as far as it mattered.
    count: usize,
}
