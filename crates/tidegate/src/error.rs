//! Errors of commands, each shown as one sentence, and the exit codes they map to.
//!
//! - tidegate_error-1. Exit codes are promises: scripts rely on them. `Exit` lists them all, as
//!   `--help` does.
//! - A message is one sentence, built by `platform` (sentence-1) from the messages of the levels
//!   below; this level adds only facts that the command line alone knows.

pub(crate) mod remote;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{fmt, io};

use thiserror::Error;
use tidegate_ingest::source::SourceError;
use tidegate_model::{ByteCount, SchemaError, limits};
use tidegate_platform::printable;
pub(crate) use tidegate_platform::sentence;
use tidegate_server::UserFileError;
use tidegate_storage::{Class, Error as StorageError};

use crate::output::WriteError;

pub(crate) use remote::RemoteError;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The exit code of the process (tidegate_error-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success; an import stored every row and every cell.
    Done = 0,
    /// Failed, and nothing was changed.
    Failed = 1,
    /// An option or argument that is unknown or invalid; clap uses it too.
    Usage = 2,
    /// Another process has the database open.
    InUse = 3,
    /// The database has a newer format.
    NewerFormat = 4,
    /// The database is damaged.
    Damaged = 5,
    /// Imported, but some rows were rejected or some cells became NULL.
    Partial = 10,
    /// A defect of ours; `platform` uses it for SIGBUS too.
    Internal = 70,
    /// The code that shells use for Ctrl-C; `platform` uses it for the second Ctrl-C.
    Interrupted = 130,
}

/// The reason why a command failed.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("{purpose}")]
    Disk { purpose: &'static str, source: tidegate_platform::Error },
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Ingest(#[from] tidegate_ingest::Error),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Query(#[from] tidegate_query::Error),
    #[error(transparent)]
    Server(#[from] tidegate_server::Error),
    #[error("{0}")]
    Configuration(Problems),
    #[error("read the configuration in {}", .path.display())]
    ConfigFile { path: PathBuf, source: io::Error },
    #[error("{}", .file.display())]
    Script { file: PathBuf, source: Box<Error> },
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error("{source}; if that process is a server, use --url postgres://USER@HOST:PORT")]
    AskServer { source: StorageError },
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("write {place}")]
    Output { place: String, source: WriteError },
    #[error(transparent)]
    Users(#[from] UserFileError),
    #[error("user `{name}` is defined in the configuration: change the password there")]
    ConfiguredUser { name: String },
    #[error("the two passwords differ")]
    PasswordsDiffer,
    #[error("the password is not UTF-8")]
    PasswordNotText,
    #[error("the name of a user is missing: `tidegate user token NAME` makes a token")]
    TokenOfNobody,
    #[error("read standard input")]
    Stdin { source: io::Error },
    #[error("start the threads of queries")]
    Threads { source: io::Error },
    #[error("read the prompt")]
    Prompt { source: rustyline::error::ReadlineError },
    #[error("there is no database in {}; use --db to name another directory", .dir.display())]
    NoDatabase { dir: PathBuf },
    #[error("{} has a table `{table}` already; drop it, or use another --db", .dir.display())]
    DemoTable { table: &'static str, dir: PathBuf },
    #[error("{} is not UTF-8 at byte {at}", .place.display())]
    NotText { place: PathBuf, at: usize },
    #[error("{} has more than {} of SQL", .place.display(), ByteCount(limits::SQL_BYTES as u64))]
    ScriptTooLong { place: PathBuf },
    #[error("`-` is standard input and must be the only path")]
    StdinAmongFiles,
    #[error("{format} cannot be shown on a terminal; use --output FILE, or redirect")]
    BinaryToTerminal { format: &'static str },
    #[error("a list cannot be written as {format}")]
    BinaryList { format: &'static str },
    #[error("{format} holds one result, and this is the second; write each to its own file")]
    SecondResult { format: &'static str },
    #[error("--timings measures one statement, not {count}")]
    ManyStatements { count: usize },
    #[error("--repeat accepts queries only, and {word} changes the database")]
    ChangeRepeated { word: String },
    #[error("there is no statement")]
    NoStatement,
    #[error("{needed} are needed in {}, and {free} are free; {advice}", .dir.display())]
    NoSpace { dir: PathBuf, needed: ByteCount, free: ByteCount, advice: &'static str },
    #[error("{count} found, see above")]
    Problems { count: String },
    #[error("{count} found, see above: files of a newer format")]
    Newer { count: String },
    #[error("interrupted{consequence}")]
    Interrupted { consequence: &'static str },
    #[error("a thread ended without a result")]
    Panicked,
}

/// The errors of a configuration, a sentence each.
#[derive(Debug, Default)]
pub(crate) struct Problems(pub(crate) Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => f.write_str(&printable(one)),
            all => {
                write!(f, "{} mistakes in the configuration", all.len())?;
                all.iter().try_for_each(|problem| write!(f, "\n  {}", printable(problem)))
            }
        }
    }
}

impl Exit {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

impl Error {
    /// Returns a function for `map_err` that adds the purpose of the call.
    pub(crate) fn disk(purpose: &'static str) -> impl Fn(tidegate_platform::Error) -> Error {
        move |source| Error::Disk { purpose, source }
    }

    /// Returns the exit code (tidegate_error-1).
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Error::Storage(source) => exit_of_storage(source),
            Error::Query(source) => exit_of_query(source),
            Error::Script { source, .. } => source.exit(),
            Error::Remote(source) => exit_of_remote(source),
            Error::AskServer { source } => exit_of_storage(source),
            Error::Ingest(source) => exit_of_ingest(source),
            Error::Server(source) => exit_of_server(source),
            Error::Configuration(_) | Error::ConfigFile { .. } => Exit::Usage,
            Error::ConfiguredUser { .. }
            | Error::TokenOfNobody
            | Error::StdinAmongFiles
            | Error::BinaryToTerminal { .. }
            | Error::BinaryList { .. }
            | Error::ManyStatements { .. }
            | Error::ChangeRepeated { .. }
            | Error::NoStatement => Exit::Usage,
            Error::Problems { .. } => Exit::Damaged,
            Error::Newer { .. } => Exit::NewerFormat,
            Error::Interrupted { .. } => Exit::Interrupted,
            Error::Panicked => Exit::Internal,
            Error::Disk { .. }
            | Error::Users(_)
            | Error::PasswordsDiffer
            | Error::PasswordNotText
            | Error::Source(_)
            | Error::Schema(_)
            | Error::Output { .. }
            | Error::Stdin { .. }
            | Error::Threads { .. }
            | Error::Prompt { .. }
            | Error::NoDatabase { .. }
            | Error::DemoTable { .. }
            | Error::NotText { .. }
            | Error::ScriptTooLong { .. }
            | Error::SecondResult { .. }
            | Error::NoSpace { .. } => Exit::Failed,
        }
    }
}

fn exit_of_storage(error: &StorageError) -> Exit {
    match error {
        StorageError::InUse { .. } => Exit::InUse,
        StorageError::NewerFormat { .. } => Exit::NewerFormat,
        other => exit_of_class(other.class()),
    }
}

fn exit_of_query(error: &tidegate_query::Error) -> Exit {
    match error {
        tidegate_query::Error::Storage(source) => exit_of_storage(source),
        other => exit_of_class(other.class()),
    }
}

fn exit_of_remote(error: &RemoteError) -> Exit {
    match error {
        RemoteError::Address | RemoteError::Resources => Exit::Usage,
        RemoteError::Statement { is_damage: true, .. } => Exit::Damaged,
        _ => Exit::Failed,
    }
}

fn exit_of_server(error: &tidegate_server::Error) -> Exit {
    match error {
        error if error.is_usage() => Exit::Usage,
        tidegate_server::Error::Storage(source) => exit_of_storage(source),
        tidegate_server::Error::Query(source) => exit_of_query(source),
        _ => Exit::Failed,
    }
}

fn exit_of_ingest(error: &tidegate_ingest::Error) -> Exit {
    match error {
        tidegate_ingest::Error::Storage(source) => exit_of_storage(source),
        tidegate_ingest::Error::Cancelled => Exit::Interrupted,
        tidegate_ingest::Error::WorkerPanicked
        | tidegate_ingest::Error::Unaccounted { .. }
        | tidegate_ingest::Error::RowsLost { .. } => Exit::Internal,
        error if error.is_usage() => Exit::Usage,
        // Corruption in the user's files is not corruption of the database.
        _ => Exit::Failed,
    }
}

fn exit_of_class(class: Class) -> Exit {
    match class {
        Class::Caller | Class::Environment => Exit::Failed,
        Class::Corruption => Exit::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_follow_the_class_of_the_error() {
        let path = PathBuf::from("d");
        for (error, expected) in [
            (StorageError::InUse { path: path.clone() }, Exit::InUse),
            (StorageError::NewerFormat { path, version: 2, known: 1 }, Exit::NewerFormat),
            (StorageError::NoSuchTable { table: "t".to_owned() }, Exit::Failed),
        ] {
            assert_eq!(Error::from(error).exit(), expected, "tidegate_error-1");
        }
    }
}
