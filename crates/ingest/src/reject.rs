//! The list of rejects: a file with one line of JSON for each rejected record and each cell that
//! became NULL, or a receiver of them.
//!
//! - reject-1. The file exists only if something was rejected; one that was there before is
//!   replaced, or removed when nothing was.
//! - reject-2. Lines are whole and valid UTF-8, whatever bytes the input has.
//! - reject-3. Every reject is counted before `record` returns; `finish` writes those that are not
//!   yet in the file, and dropping the log does the same, as far as possible.
//!
//! ```text
//! {"file":"a.csv","line":7,"byte":512,"column":"price","text":"x1","reason":"not a number"}
//! ```
//!
//! `line` counts physical lines from 1, `byte` is the start of the record in the decompressed file,
//! and `"lines":3` follows if the record has several; a row of a Parquet file has `"row":7` in
//! their place. `column` is null where no single cell is at fault; `text` is the record then, else
//! the cell, up to `TEXT_BYTES`. The lines have the order in which workers found them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tidegate_model::time::{IsoTimestamp, TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{TimeUnit, Timestamp};
use tidegate_platform::{Class, Disk, DiskFile, OpenMode};

use crate::parse::CellError;

/// The bytes of a rejected text that are kept: enough to recognise it (COPY's `reject_raw_bytes`).
pub const TEXT_BYTES: usize = 4 << 10;

/// The bytes that are collected before they are written: a write for each reject would take most of
/// the time of an import with many rejects.
const BUFFER_BYTES: usize = 64 << 10;

/// The reason why a record or a cell was not imported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Error)]
#[non_exhaustive]
pub enum Reason {
    #[error(transparent)]
    Cell(#[from] CellError),
    #[error("too many fields")]
    TooManyFields,
    #[error("too few fields")]
    TooFewFields,
    #[error("text between a closing quote and the delimiter")]
    TextAfterQuote,
    #[error("record too long")]
    RecordTooLong,
    #[error("the designated timestamp is NULL")]
    NullTimestamp,
    #[error(
        "the designated timestamp is not between {} and {}",
        IsoTimestamp(Timestamp(TIMESTAMP_MIN), *.0), IsoTimestamp(Timestamp(TIMESTAMP_MAX), *.0)
    )]
    TimestampOutOfRange(TimeUnit),
}

impl Reason {
    /// Returns true if the record as a whole is at fault, as happens with a wrong delimiter or
    /// quote.
    #[must_use]
    pub fn is_of_shape(self) -> bool {
        matches!(self, Reason::TooManyFields | Reason::TooFewFields | Reason::TextAfterQuote)
    }

    /// The SQLSTATE of a statement that fails here.
    #[must_use]
    pub fn sqlstate(self) -> &'static str {
        match self {
            Reason::Cell(error) => error.sqlstate(),
            Reason::TooManyFields
            | Reason::TooFewFields
            | Reason::TextAfterQuote
            | Reason::RecordTooLong => "22P04",
            Reason::NullTimestamp => "22004",
            Reason::TimestampOutOfRange(_) => "22008",
        }
    }
}

/// The place of a record in its file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RejectPlace {
    /// In text: the start of the record.
    Line {
        /// The number of the physical line, from 1.
        line: u64,
        /// The bytes from the start of the decompressed file.
        byte: u64,
    },
    /// In a Parquet file: the number of the row among all rows of the file, from 1.
    Row(u64),
}

impl fmt::Display for RejectPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RejectPlace::Line { line, .. } => write!(f, "line {line}"),
            RejectPlace::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// The action taken for a bad cell or record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The record was left out.
    RowSkipped,
    /// The cell became NULL.
    CellNulled,
    /// The import has ended.
    Aborted,
}

/// A receiver of the rejects of a job, called by all its threads: a thread that has one waits.
pub trait TakeRejects: fmt::Debug + Send + Sync {
    /// The name of the list in messages.
    fn name(&self) -> &str;

    /// Takes one.
    fn take(&self, reject: &Reject<'_>);
}

/// The place where rejects are listed.
#[derive(Debug, Clone)]
pub enum RejectList {
    /// In this file, NDJSON; created at the first one.
    File(PathBuf),
    /// With a receiver.
    Taken(Arc<dyn TakeRejects>),
}

impl RejectList {
    /// The name of the list in messages.
    pub(crate) fn name(&self) -> PathBuf {
        match self {
            RejectList::File(path) => path.clone(),
            RejectList::Taken(taker) => PathBuf::from(taker.name()),
        }
    }
}

/// One reject.
#[derive(Clone, Copy, Debug)]
pub struct Reject<'a> {
    /// The file's path, or a name in place of it.
    pub file: &'a str,
    /// The place of the record in the file.
    pub place: RejectPlace,
    /// The number of lines of text of the record; 1 in a Parquet file.
    pub lines: u64,
    /// The column at fault; `None` for the record as a whole.
    pub column: Option<&'a str>,
    /// The cell, or the record.
    pub text: &'a [u8],
    /// The reason.
    pub reason: Reason,
    /// The action taken.
    pub action: Action,
}

/// A reject as it is named in messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// The file's path, or a name in place of it.
    pub file: String,
    /// The place of the record in the file.
    pub place: RejectPlace,
    /// The column at fault; `None` for the record as a whole.
    pub column: Option<String>,
    /// The reason.
    pub reason: Reason,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.file, self.place)?;
        if let Some(column) = &self.column {
            write!(f, ", column `{column}`")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl Rejected {
    fn of(reject: &Reject<'_>) -> Rejected {
        Rejected {
            file: reject.file.to_owned(),
            place: reject.place,
            column: reject.column.map(str::to_owned),
            reason: reject.reason,
        }
    }
}

/// The error that stops a job with rejects.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RejectError {
    #[error("write rejects")]
    Disk(#[from] tidegate_platform::Error),
    #[error("more than {max} rejects, listed in {}; the last: {last}", .path.display())]
    TooMany { max: u64, path: PathBuf, last: Box<Rejected> },
    #[error("{} would list the rejects, but that file is not a list of rejects", .path.display())]
    Taken { path: PathBuf },
    #[error("{} would list the rejects, but its directory does not exist", .path.display())]
    NoFolder { path: PathBuf },
    #[error("{} would list the rejects, but it is a directory", .path.display())]
    IsFolder { path: PathBuf },
}

impl RejectError {
    /// The class of the error: the party that can mend it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            RejectError::Disk(source) => source.class(),
            RejectError::TooMany { .. }
            | RejectError::Taken { .. }
            | RejectError::NoFolder { .. }
            | RejectError::IsFolder { .. } => Class::Caller,
        }
    }
}

/// The log that collects the rejects of a job; shared by its workers.
#[derive(Debug)]
pub struct RejectLog {
    disk: Arc<dyn Disk>,
    /// The file, or a name in place of it.
    path: PathBuf,
    /// The receiver of rejects in place of the file.
    taker: Option<Arc<dyn TakeRejects>>,
    errors_max: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    /// The first reject by place in its file; the file is that of the first recorded reject.
    first: Option<Rejected>,
    /// At most one for each column and reason.
    reasons: BTreeMap<(Option<String>, Reason), u64>,
    /// Whole lines that are not in the file yet.
    buffer: Vec<u8>,
    file: Option<Arc<dyn DiskFile>>,
    file_bytes: u64,
}

/// The summary of all rejects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectSummary {
    /// Records and cells together.
    pub count: u64,
    /// The file; `None` if nothing was rejected.
    pub path: Option<PathBuf>,
    /// The first one; `None` if nothing was rejected.
    pub first: Option<Rejected>,
    /// Column, reason and count, the most frequent first.
    pub reasons: Vec<(Option<String>, Reason, u64)>,
}

impl RejectLog {
    /// Creates a log that opens its file at the first reject, and stops a job after more than
    /// `errors_max` rejects.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, list: &RejectList, errors_max: Option<u64>) -> RejectLog {
        let taker = match list {
            RejectList::File(_) => None,
            RejectList::Taken(taker) => Some(Arc::clone(taker)),
        };
        RejectLog { disk, path: list.name(), taker, errors_max, state: Mutex::default() }
    }

    /// Counts and keeps a reject.
    ///
    /// # Errors
    /// `TooMany` for each reject beyond `errors_max`, which is kept all the same; `Disk`.
    pub fn record(&self, reject: &Reject<'_>) -> Result<(), RejectError> {
        let mut state = self.lock();
        state.count += 1;
        let key = (reject.column.map(str::to_owned), reject.reason);
        *state.reasons.entry(key).or_insert(0) += 1;
        let is_first = state
            .first
            .as_ref()
            .is_none_or(|first| first.file == reject.file && reject.place < first.place);
        if is_first {
            state.first = Some(Rejected::of(reject));
        }
        match &self.taker {
            Some(taker) => taker.take(reject),
            None => push_line(&mut state.buffer, reject),
        }
        if BUFFER_BYTES <= state.buffer.len() {
            self.flush(&mut state)?;
        }
        match self.errors_max {
            Some(max) if max < state.count => {
                let last = Box::new(Rejected::of(reject));
                Err(RejectError::TooMany { max, path: self.path.clone(), last })
            }
            _ => Ok(()),
        }
    }

    /// The number of rejects.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Writes the remaining lines, and returns the summary.
    ///
    /// # Errors
    /// `Disk`.
    pub fn finish(&self) -> Result<RejectSummary, RejectError> {
        let mut state = self.lock();
        self.flush(&mut state)?;
        let mut reasons: Vec<(Option<String>, Reason, u64)> = (state.reasons.iter())
            .map(|((column, reason), count)| (column.clone(), *reason, *count))
            .collect();
        reasons.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
        let path = (0 < state.count).then(|| self.path.clone());
        Ok(RejectSummary { count: state.count, path, first: state.first.clone(), reasons })
    }

    /// Removes the list of an earlier job after a job without rejects (reject-1).
    ///
    /// # Errors
    /// `Disk`.
    pub fn remove_stale(&self) -> Result<(), RejectError> {
        if self.taker.is_some() || self.count() > 0 || !self.disk.exists(&self.path)? {
            return Ok(());
        }
        match self.beginning()? {
            (_, LINE_START) => Ok(self.disk.remove(&self.path)?),
            // The file is not a list of rejects.
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A worker that panicked here leaves correct counts and a buffer of whole lines.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the directory of the list exists, and that its path is not a directory.
    ///
    /// # Errors
    /// `NoFolder`, `IsFolder`, `Disk`.
    pub fn check_folder(&self) -> Result<(), RejectError> {
        let folder = self.path.parent().filter(|_| self.taker.is_none());
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        // Only a directory has a list of files.
        if self.taker.is_none() && self.disk.list(&self.path).is_ok() {
            return Err(RejectError::IsFolder { path: self.path.clone() });
        }
        match folder {
            Some(folder) if !self.disk.exists(folder)? => {
                Err(RejectError::NoFolder { path: self.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Checks an existing file: it is only replaced if it is the list of an earlier import.
    fn check_path(&self) -> Result<(), RejectError> {
        if !self.disk.exists(&self.path)? {
            return Ok(());
        }
        match self.beginning()? {
            (0, _) | (_, LINE_START) => Ok(()),
            _ => Err(RejectError::Taken { path: self.path.clone() }),
        }
    }

    /// The first bytes of the existing file, and their number.
    fn beginning(&self) -> Result<(usize, [u8; LINE_START.len()]), RejectError> {
        let mut start = [0; LINE_START.len()];
        let file = self.disk.open(&self.path, OpenMode::Read)?;
        let bytes = file.read_at(&mut start, 0)?;
        Ok((bytes, start))
    }

    fn flush(&self, state: &mut State) -> Result<(), RejectError> {
        if state.buffer.is_empty() {
            return Ok(());
        }
        let file = match &state.file {
            Some(file) => Arc::clone(file),
            None => {
                self.check_path()?;
                self.disk.open(&self.path, OpenMode::CreateOrTruncate)? // reject-1
            }
        };
        state.file = Some(Arc::clone(&file));
        file.write_all_at(&state.buffer, state.file_bytes)?;
        state.file_bytes += state.buffer.len() as u64;
        state.buffer.clear();
        Ok(())
    }
}

impl Drop for RejectLog {
    fn drop(&mut self) {
        let mut state = std::mem::take(&mut *self.lock());
        // A caller that needs the result calls `finish` (reject-3).
        let _ = self.flush(&mut state);
    }
}

/// The beginning of every line.
const LINE_START: [u8; 8] = *b"{\"file\":";

fn push_line(out: &mut Vec<u8>, reject: &Reject<'_>) {
    let start = out.len();
    out.extend_from_slice(&LINE_START);
    push_string(out, reject.file);
    let place = match reject.place {
        RejectPlace::Line { line, byte } => format!(",\"line\":{line},\"byte\":{byte}"),
        RejectPlace::Row(row) => format!(",\"row\":{row}"),
    };
    out.extend_from_slice(place.as_bytes());
    if reject.lines > 1 {
        out.extend_from_slice(format!(",\"lines\":{}", reject.lines).as_bytes());
    }
    out.extend_from_slice(b",\"column\":");
    match reject.column {
        Some(column) => push_string(out, column),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"text\":");
    push_string(out, &String::from_utf8_lossy(beginning(reject.text)));
    out.extend_from_slice(b",\"reason\":");
    push_string(out, &reject.reason.to_string());
    out.extend_from_slice(b"}\n");
    debug_assert!(std::str::from_utf8(&out[start..]).is_ok(), "reject-2");
}

/// The first `TEXT_BYTES` bytes, without a partial character at the end.
fn beginning(text: &[u8]) -> &[u8] {
    if text.len() <= TEXT_BYTES {
        return text;
    }
    let is_inside = |at: usize| text[at] & 0xC0 == 0x80;
    // A character has at most three bytes after its first.
    let end = (TEXT_BYTES - 3..=TEXT_BYTES).rev().find(|&at| !is_inside(at));
    &text[..end.unwrap_or(TEXT_BYTES)]
}

fn push_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_platform::SimDisk;

    use super::*;

    const REJECT: Reject<'_> = Reject {
        file: "a.csv",
        place: RejectPlace::Line { line: 7, byte: 512 },
        lines: 1,
        column: Some("price"),
        text: b"x1",
        reason: Reason::Cell(CellError::NotANumber),
        action: Action::RowSkipped,
    };

    fn log(disk: &Arc<SimDisk>, errors_max: Option<u64>) -> RejectLog {
        let disk = Arc::clone(disk);
        let list = RejectList::File(PathBuf::from("/rejects.ndjson"));
        RejectLog::new(disk, &list, errors_max)
    }

    fn disk() -> Arc<SimDisk> {
        Arc::new(SimDisk::new(7))
    }

    fn written(disk: &SimDisk) -> String {
        let bytes = disk.read(Path::new("/rejects.ndjson")).expect("the file");
        String::from_utf8(bytes).expect("reject-2")
    }

    #[test]
    fn a_reject_is_a_line_of_json() {
        let disk = disk();
        let log = log(&disk, None);
        log.record(&REJECT).expect("recorded");
        let record = Reject { column: None, reason: Reason::TooManyFields, ..REJECT };
        log.record(&Reject { text: b"\"\\\n\r\t\x01\xC3(\0", ..record }).expect("recorded");
        let summary = log.finish().expect("written");
        let expected = concat!(
            r#"{"file":"a.csv","line":7,"byte":512,"column":"price","text":"x1","#,
            r#""reason":"not a number"}"#,
            "\n",
            r#"{"file":"a.csv","line":7,"byte":512,"column":null,"#,
            r#""text":"\"\\\n\r\t\u0001"#,
            "\u{FFFD}",
            r#"(\u0000","reason":"too many fields"}"#,
            "\n",
        );
        assert_eq!(written(&disk), expected);
        assert_eq!((summary.count, summary.path), (2, Some("/rejects.ndjson".into())));
    }

    #[test]
    fn without_rejects_there_is_no_file() {
        let disk = disk();
        let summary = log(&disk, Some(0)).finish().expect("nothing to write");
        assert_eq!(summary, RejectSummary { count: 0, path: None, first: None, reasons: vec![] });
        assert!(!disk.exists(Path::new("/rejects.ndjson")).expect("asked"), "reject-1");
    }

    /// A list of an earlier import was left after a clean one, as if it belonged to that.
    #[test]
    fn a_list_of_an_earlier_job_goes_when_nothing_is_rejected() {
        let disk = disk();
        let path = Path::new("/rejects.ndjson");
        let earlier = log(&disk, None);
        earlier.record(&REJECT).expect("recorded");
        earlier.finish().expect("written");
        earlier.remove_stale().expect("it is its own");
        assert!(disk.exists(path).expect("asked"));
        log(&disk, None).remove_stale().expect("removed");
        assert!(!disk.exists(path).expect("asked"), "reject-1");
        let letter = disk.open(path, OpenMode::CreateNew).expect("a file");
        letter.write_all_at(b"Dear reader", 0).expect("written");
        log(&disk, None).remove_stale().expect("left alone");
        assert_eq!(written(&disk), "Dear reader");
    }

    #[test]
    fn the_first_reject_is_the_one_that_stands_first() {
        let log = log(&disk(), None);
        for line in [9, 3, 5] {
            let place = RejectPlace::Line { line, byte: line * 10 };
            log.record(&Reject { place, ..REJECT }).expect("recorded");
        }
        let first = log.finish().expect("written").first.expect("there are three");
        assert_eq!(first.to_string(), "a.csv, line 3, column `price`: not a number");
    }

    #[test]
    fn a_row_of_a_parquet_file_has_a_number_and_no_byte() {
        let disk = disk();
        let log = log(&disk, None);
        log.record(&Reject { place: RejectPlace::Row(4), ..REJECT }).expect("recorded");
        log.finish().expect("written");
        let expected = r#"{"file":"a.csv","row":4,"column":"price","text":"x1","#;
        assert!(written(&disk).starts_with(expected), "{}", written(&disk));
    }

    #[test]
    fn the_reject_after_the_last_allowed_one_is_an_error() {
        let log = log(&disk(), Some(2));
        for _ in 0..2 {
            log.record(&REJECT).expect("allowed");
        }
        let error = log.record(&REJECT).expect_err("one too many");
        let expected = "more than 2 rejects, listed in /rejects.ndjson; \
                        the last: a.csv, line 7, column `price`: not a number";
        assert_eq!(error.to_string(), expected);
        assert_eq!(log.count(), 3);
    }

    #[test]
    fn reasons_come_most_frequent_first() {
        let log = log(&disk(), None);
        for _ in 0..2 {
            log.record(&Reject { column: None, reason: Reason::TextAfterQuote, ..REJECT })
                .expect("recorded");
        }
        for _ in 0..3 {
            log.record(&REJECT).expect("recorded");
        }
        let reasons = log.finish().expect("written").reasons;
        let number = Reason::Cell(CellError::NotANumber);
        assert_eq!(
            reasons,
            [(Some("price".to_owned()), number, 3), (None, Reason::TextAfterQuote, 2)]
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let disk = disk();
        let log = log(&disk, None);
        for len in [TEXT_BYTES - 1, TEXT_BYTES, TEXT_BYTES + 1] {
            let text = format!("{}\u{20AC}{}", "x".repeat(len - 2), "y".repeat(10));
            log.record(&Reject { text: text.as_bytes(), ..REJECT }).expect("recorded");
            log.record(&Reject { text: &vec![0x80; len], ..REJECT }).expect("recorded");
        }
        drop(log); // reject-3
        let lines = written(&disk);
        assert_eq!(lines.lines().count(), 6);
        let euros = lines.lines().filter(|line| line.contains('\u{20AC}')).count();
        assert_eq!(euros, 1, "only the first one ends within the limit");
    }

    #[test]
    fn many_rejects_of_many_threads_are_all_there() {
        let disk = disk();
        let log = log(&disk, None);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for line in 0..1_000 {
                        log.record(&Reject { place: RejectPlace::Row(line), ..REJECT })
                            .expect("recorded");
                    }
                });
            }
        });
        assert_eq!(log.finish().expect("written").count, 4_000);
        let lines = written(&disk);
        assert_eq!(lines.lines().count(), 4_000);
        assert!(lines.lines().all(|line| line.starts_with('{') && line.ends_with('}')));
    }
}
