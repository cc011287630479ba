//! Verification of the log: reads all files completely, also the groups that a checkpoint has made
//! obsolete.
//!
//! - wal-4 as in `wal`: a file ends where the next one begins.
//!
//! Behind its last group, a file has zeros, or the remains of one group whose write failed or was
//! cut off by a crash. Such remains have many non-zero bytes, so fewer than `REMAINS_BYTES_MIN` are
//! reported as damage. They contain no record, and neither does the padding between two groups: a
//! repair sets both to zero. Bytes: docs/format.md, Log.

use std::ops::Range;
use std::path::Path;

use tidegate_model::Lsn;
use tidegate_platform::{Disk, OpenMode};

use super::files::{file_name, list_files};
use super::group::{BadGroup, FILE_HEADER_BYTES, PAGE, check_group, judge_group, peek_group};
use super::record::shifted;
use super::replay::{LogSpan, OpenFile, SEARCH_BYTES};
use crate::error::{Corruption, Error, Result};

/// The number of non-zero bytes behind the last group from which they are taken for the remains of
/// a group. It is low because the in-memory segments in such remains may be mostly zeros.
const REMAINS_BYTES_MIN: usize = 2;

/// The callback for bytes of a file that must be zero and are not.
type OnUnused<'a> = dyn FnMut(&Path, Range<u64>) -> Result<()> + 'a;

/// Reads every file and returns all damage; damage in one file does not end the verification.
pub(crate) fn verify(disk: &dyn Disk, dir: &Path, span: LogSpan) -> Vec<Error> {
    visit_files(disk, dir, span, &mut |path, range| Err(not_zero(path, &range)))
}

/// Sets unused bytes to zero where they are not, and returns the damage that this has removed.
/// Other damage is left as it is.
pub(crate) fn clear_unused(disk: &dyn Disk, dir: &Path, span: LogSpan) -> Result<Vec<Error>> {
    let (mut cleared, mut failed) = (Vec::new(), None);
    let clear = |path: &Path, range: &Range<u64>| {
        let zeros = vec![0_u8; usize::try_from(range.end - range.start).expect("at most a page")];
        let file = disk.open(path, OpenMode::ReadWrite)?;
        file.write_all_at(&zeros, range.start).and_then(|()| file.sync_data())
    };
    visit_files(disk, dir, span, &mut |path, range| {
        match clear(path, &range) {
            Ok(()) => cleared.push(not_zero(path, &range)),
            Err(error) => failed = failed.take().or(Some(error)),
        }
        Ok(())
    });
    match failed {
        None => Ok(cleared),
        Some(error) => Err(Error::disk("repair log")(error)),
    }
}

fn not_zero(path: &Path, range: &Range<u64>) -> Error {
    Error::Corrupt { path: path.to_path_buf(), offset: range.start, what: Corruption::NotZero }
}

/// Verifies all files, and calls `on_unused` for bytes that must be zero and are not.
fn visit_files(
    disk: &dyn Disk,
    dir: &Path,
    span: LogSpan,
    on_unused: &mut OnUnused<'_>,
) -> Vec<Error> {
    let files = match list_files(disk, dir) {
        Ok(files) => files,
        Err(error) => return vec![error],
    };
    let mut problems = Vec::new();
    if files.is_empty() {
        problems.push(Error::missing(&dir.join(file_name(span.from))));
    }
    let mut opened = files.iter().map(|file| OpenFile::open(disk, file, span.log)).peekable();
    for at in 0..files.len() {
        let file = opened.next().expect("one for each");
        if at == 0 && file.as_ref().is_ok_and(|file| span.from < file.header.previous_end) {
            problems.push(Error::missing(&dir.join(file_name(span.from))));
        }
        let next = files.get(at + 1).map(|next| match opened.peek() {
            Some(Ok(next)) => next.header.previous_end,
            _ => next.first,
        });
        match (file, next.or(span.until)) {
            (Err(error), _) => problems.push(error),
            // A file that begins after `until` has only commits that the caller did not ask for.
            (Ok(file), Some(limit)) if file.header.first <= limit => {
                problems.extend(file.verify(limit, span.from, on_unused).err());
            }
            (Ok(_), _) => {}
        }
    }
    problems
}

impl OpenFile {
    /// Reads the header, all groups up to `limit`, and the bytes after them. Replay begins at
    /// `from`.
    fn verify(&self, limit: Lsn, from: Lsn, on_unused: &mut OnUnused<'_>) -> Result<()> {
        let header = self.read(0, FILE_HEADER_BYTES as u64)?;
        self.check_zeros(&header, self.header_bytes, 0, on_unused)?;
        let mut lsn = self.header.first;
        while lsn != limit {
            let bytes = self.read_group(lsn)?;
            let Ok(group) = check_group(&bytes, self.header.expected_at(lsn)) else {
                // A bad group before `from` is no damage in two cases. A file that is to be purged
                // may end here, with the remains of a failed write, if the file after it has been
                // purged already. And a group may never have reached the disk completely: its sync
                // failed, it was replayed from the page cache and went into a checkpoint, and then
                // power failed.
                let is_lost = || match judge_group(&bytes, self.header.expected_at(lsn)) {
                    BadGroup::Unwritten | BadGroup::Torn => true,
                    BadGroup::Damaged(_) => false,
                };
                if lsn < from && (limit < from || is_lost()) {
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
            let used = group.bytes;
            group.decode().map_err(damage)?;
            let last_page = (used - 1) / PAGE * PAGE;
            let page = self.read(offset + last_page as u64, PAGE as u64)?;
            self.check_zeros(&page, used - last_page, offset + last_page as u64, on_unused)?;
            lsn = end;
        }
        let remains = self.remains(lsn)?;
        match remains.first {
            Some(offset) if remains.count < REMAINS_BYTES_MIN => {
                on_unused(&self.path, offset..offset + 1)
            }
            _ => Ok(()),
        }
    }

    /// Calls `on_unused` if the page at `offset` is not zero from byte `from` on.
    fn check_zeros(
        &self,
        page: &[u8],
        from: usize,
        offset: u64,
        on_unused: &mut OnUnused<'_>,
    ) -> Result<()> {
        let padding = page.get(from..).unwrap_or_default();
        match padding.iter().position(|&byte| byte != 0) {
            None => Ok(()),
            Some(at) => {
                let (start, end) = (offset + (from + at) as u64, offset + page.len() as u64);
                on_unused(&self.path, start..end)
            }
        }
    }

    /// Looks for non-zero bytes after the last group, and after the group whose write may have
    /// failed there.
    fn remains(&self, end: Lsn) -> Result<Remains> {
        let page = self.read_group(end)?;
        let failed =
            peek_group(&page, self.header.expected_at(end)).map_or(0, |header| header.bytes);
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

/// Non-zero bytes after the end of a file.
struct Remains {
    /// The position of the first of them.
    first: Option<u64>,
    /// The number of them that were found; the search ends at `REMAINS_BYTES_MIN`.
    count: usize,
}
