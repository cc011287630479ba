//! What can go wrong with a benchmark, as facts.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::tsbs::Nanos;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a benchmark did not run, or not to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    #[error("--scale 0 makes no rows; it begins with 1")]
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
    #[error("--log-interval 0 never comes to an end")]
    IntervalZero,
    #[error("--format {format} makes several files; --file names the directory for them")]
    NeedsDirectory { format: &'static str },
    #[error("write {place}, after {bytes} bytes")]
    Output { place: String, bytes: u64, source: io::Error },
    #[error("make {}", .path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("write {}", .path.display())]
    Parquet { path: PathBuf, source: parquet::errors::ParquetError },
    #[error("start a thread")]
    Thread { source: io::Error },
    #[error("a thread ended without a result")]
    Panicked,
}

impl Error {
    /// Whether the command line is at fault, and not what it met.
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
            | Error::NeedsDirectory { .. } => true,
            Error::Output { .. }
            | Error::Make { .. }
            | Error::Parquet { .. }
            | Error::Thread { .. }
            | Error::Panicked => false,
        }
    }

    /// The message and those of its causes, in one sentence.
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
