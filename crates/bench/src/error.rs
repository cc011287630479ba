//! Errors of benchmarks, as facts.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::time::Nanos;

/// The result of a function in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a benchmark did not run, or did not run to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    #[error("--scale 0 makes no rows; it must be at least 1")]
    ScaleZero,
    #[error("--scale {scale} is more than 4294967295")]
    ScaleTooLarge { scale: u64 },
    #[error("--timestamp-end {end} is before --timestamp-start {start}")]
    EndBeforeStart { start: Nanos, end: Nanos },
    #[error("there is no interleaved group {group} of {groups}")]
    NoSuchGroup { group: u64, groups: u64 },
    #[error("--max-metric-count {count} is not from 1 to 4294967295")]
    MetricCount { count: u64 },
    #[error("`{text}` is not a time such as 2016-01-01T00:00:00Z, now or now-24h")]
    BadTime { text: String },
    #[error("`{text}` is not a duration such as 10s, 1m30s or 500ms")]
    BadDuration { text: String },
    #[error("--log-interval 0 is not valid: it must be above 0")]
    IntervalZero,
    #[error("--format {format} makes several files; --file names the directory for them")]
    NeedsDirectory { format: &'static str },
    #[error("write {place}, after {bytes} bytes")]
    Output { place: String, bytes: u64, source: io::Error },
    #[error("make {}", .path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("write {}", .path.display())]
    Parquet { path: PathBuf, source: parquet::errors::ParquetError },
    #[error("read {place}")]
    Input { place: String, source: io::Error },
    #[error("{} is not a file", .path.display())]
    NoFile { path: PathBuf },
    #[error("{place} is not {expected} at byte {offset}")]
    ForeignInput { place: String, offset: u64, expected: &'static str },
    #[error("{place} has a line that is not a row: `{row}`")]
    ForeignRow { place: String, row: String },
    #[error("{place} ends in the middle of the row that begins at byte {offset}")]
    TruncatedInput { place: String, offset: u64 },
    #[error("{place} has a row of more than 16 MiB at byte {offset}")]
    RowTooLong { place: String, offset: u64 },
    #[error("{target} does not support {given}, only {expected}")]
    Protocol { given: &'static str, target: &'static str, expected: &'static str },
    #[error("--split contiguous needs --file, and no --limit")]
    CannotSplit,
    #[error("--shift now needs --file or --generate: the last time of a stream is not known")]
    NowNeedsFile,
    #[error("{place} has no row whose time --shift could move to now")]
    NoLastTime { place: String },
    #[error("with --shift the time of a row of {place} does not have 19 digits: `{row}`")]
    CannotShift { place: String, row: String },
    #[error("send batch {batch} of worker {worker}, {rows} rows")]
    Batch { batch: u64, worker: usize, rows: u64, source: Box<Error> },
    #[error("--layout wide is not a layout of TSBS, which --faithful requires")]
    WideIsNotFaithful,
    #[error("`{text}` is not a list of seconds such as 1,2-4")]
    BadIntervals { text: String },
    #[error("--url {url} is not http://HOST:PORT")]
    BadUrl { url: String },
    #[error("listen on {address}")]
    Listen { address: String, source: io::Error },
    #[error("connect to {address}")]
    Connect { address: String, source: io::Error },
    #[error("send to {address}")]
    Send { address: String, source: io::Error },
    #[error("{address} closed the connection before everything was sent")]
    ClosedEarly { address: String },
    #[error("{address} accepted no byte for {timeout:?}")]
    Stuck { address: String, timeout: Duration },
    #[error("{purpose}: {address} gave no answer for {timeout:?}")]
    NoAnswer { purpose: &'static str, address: String, timeout: Duration },
    #[error("request {url}")]
    Http { url: String, source: Box<ureq::Error> },
    #[error("{url} answers {status}: {body}")]
    Refused { url: String, status: u16, body: String },
    #[error("connect to PostgreSQL at {address}")]
    ConnectPostgres { address: String, source: Box<tokio_postgres::Error> },
    #[error("{purpose}")]
    Postgres { purpose: &'static str, source: Box<tokio_postgres::Error> },
    #[error("{place} has a value that is not a valid {expected}: `{text}`")]
    BadValue { place: &'static str, expected: &'static str, text: String },
    #[error("database {name} exists, and --do-abort-on-exist is set")]
    Exists { name: String },
    #[error("{target} has {rows} rows in table {table}, and --do-abort-on-exist is set")]
    HasRows { target: String, table: &'static str, rows: u64 },
    #[error("the header does not define measurement {name}")]
    NoSuchMeasurement { name: String },
    #[error(
        "{target} has {visible} of {expected} rows, {} are missing, and none came for {wait:?}",
        .expected - .visible
    )]
    Shortfall { target: String, visible: u64, expected: u64, wait: Duration },
    #[error("write {}", .path.display())]
    Results { path: PathBuf, source: io::Error },
    #[error("start a thread")]
    Thread { source: io::Error },
    #[error("a thread ended without a result")]
    Panicked,
}

impl Error {
    /// Returns true if the command line is at fault, and not the environment of the run.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Error::ScaleZero
            | Error::ScaleTooLarge { .. }
            | Error::EndBeforeStart { .. }
            | Error::NoSuchGroup { .. }
            | Error::MetricCount { .. }
            | Error::BadTime { .. }
            | Error::BadDuration { .. }
            | Error::IntervalZero
            | Error::NeedsDirectory { .. }
            | Error::Protocol { .. }
            | Error::CannotSplit
            | Error::NowNeedsFile
            | Error::WideIsNotFaithful
            | Error::BadIntervals { .. }
            | Error::BadUrl { .. } => true,
            Error::Output { .. }
            | Error::Make { .. }
            | Error::Parquet { .. }
            | Error::Input { .. }
            | Error::NoFile { .. }
            | Error::ForeignInput { .. }
            | Error::ForeignRow { .. }
            | Error::TruncatedInput { .. }
            | Error::RowTooLong { .. }
            | Error::NoLastTime { .. }
            | Error::CannotShift { .. }
            | Error::Batch { .. }
            | Error::Listen { .. }
            | Error::Connect { .. }
            | Error::Send { .. }
            | Error::ClosedEarly { .. }
            | Error::Stuck { .. }
            | Error::NoAnswer { .. }
            | Error::Http { .. }
            | Error::Refused { .. }
            | Error::ConnectPostgres { .. }
            | Error::Postgres { .. }
            | Error::BadValue { .. }
            | Error::Exists { .. }
            | Error::HasRows { .. }
            | Error::NoSuchMeasurement { .. }
            | Error::Shortfall { .. }
            | Error::Results { .. }
            | Error::Thread { .. }
            | Error::Panicked => false,
        }
    }

    /// Returns the message and those of its causes, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let mut text = self.to_string();
        let mut next = self.source();
        while let Some(cause) = next {
            let message = cause.to_string();
            if !text.contains(&message) {
                text.push_str(": ");
                text.push_str(&message);
            }
            next = cause.source();
        }
        text
    }
}
