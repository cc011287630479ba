//! The error of a job: its SQLSTATE, and the place in the input that caused it.

use tidegate_ingest::Error as ImportError;
use tidegate_ingest::reject::{RejectError, RejectPlace};
use tidegate_ingest::source::SourceError;
use tidegate_model::SchemaError;
use tidegate_platform::{Class, Error as DiskError, brief, sentence};
use tidegate_query::{BulkError, Error as QueryError};
use tidegate_storage::Error as StorageError;

use super::words;
use crate::sqlstate;

/// The reason why a job failed.
#[derive(Clone, Debug)]
pub(crate) struct CopyError {
    pub(crate) cause: BulkError,
    /// The line of the input, if a line caused it.
    pub(crate) line: Option<u64>,
    pub(crate) column: Option<String>,
}

impl CopyError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> CopyError {
        let class = match code {
            "58030" | "53100" | "XX000" | "57P01" => Class::Environment,
            "XX001" => Class::Corruption,
            _ => Class::Caller,
        };
        let cause = BulkError { code, message: brief(message.into()), offset: None, class };
        CopyError { cause, line: None, column: None }
    }

    /// Sets the byte offset in the statement.
    pub(crate) fn at(mut self, offset: usize) -> CopyError {
        self.cause.offset = Some(offset);
        self
    }

    pub(crate) fn of_import(error: &ImportError) -> CopyError {
        let mut failure = CopyError::new(code(error), words::of_copy(&sentence(error)));
        (failure.line, failure.column) = match error {
            ImportError::BadValue { place, column, .. } => (line(place), column.clone()),
            ImportError::UnclosedQuote { line, .. } | ImportError::RecordTooLong { line, .. } => {
                (Some(*line), None)
            }
            ImportError::Reject(RejectError::TooMany { last, .. }) => {
                (line(&last.place), last.column.clone())
            }
            ImportError::AllRejected { first, .. } => (line(&first.place), first.column.clone()),
            ImportError::OpenQuote { line, .. } => (Some(*line), None),
            ImportError::AmbiguousDates { place, column, .. } => {
                (line(place), Some(column.clone()))
            }
            ImportError::MixedLineEnds { place, .. }
            | ImportError::RecordOverMemory { place, .. } => (line(place), None),
            _ => (None, None),
        };
        failure
    }
}

impl From<CopyError> for BulkError {
    fn from(error: CopyError) -> BulkError {
        error.cause
    }
}

fn line(place: &RejectPlace) -> Option<u64> {
    match place {
        RejectPlace::Line { line, .. } => Some(*line),
        RejectPlace::Row(_) => None,
    }
}

fn code(error: &ImportError) -> &'static str {
    match error {
        ImportError::Disk { source, .. }
        | ImportError::TooManyFiles { source, .. }
        | ImportError::Input(source) => of_disk(source),
        ImportError::Storage(source) => of_storage(source),
        ImportError::Refused { source } => {
            source.downcast_ref::<QueryError>().map_or("XX000", sqlstate::of_query)
        }
        ImportError::Source(SourceError::NoMatch { .. }) => "58P01",
        ImportError::Source(_) => "42809",
        ImportError::Schema(source) => of_schema(source),
        ImportError::Reject(RejectError::Disk(source)) => of_disk(source),
        ImportError::Sniff { source, .. } => source.sqlstate(),
        ImportError::BadValue { reason, .. } => reason.sqlstate(),
        ImportError::Pipe { .. } | ImportError::InputChanged { .. } => "58030",
        ImportError::TimestampNeedsFormat { .. }
        | ImportError::NotTimestamps { .. }
        | ImportError::OtherTimestamp { .. }
        | ImportError::OtherPartitioning { .. } => "22023",
        ImportError::AmbiguousDates { .. } => "22007",
        ImportError::SystemTable { .. } => "42501",
        ImportError::NoSuchColumn { .. } => "42703",
        ImportError::OtherSchema { .. } => "42P16",
        ImportError::NotASymbol { .. } => "42804",
        ImportError::MemoryTooSmall { .. } => "53200",
        ImportError::TooManySymbols { .. } => "54000",
        ImportError::Cancelled => "57014",
        ImportError::WorkerPanicked
        | ImportError::Unaccounted { .. }
        | ImportError::RowsLost { .. }
        | ImportError::AlreadyRead { .. } => "XX000",
        // The input is malformed.
        _ => "22P04",
    }
}

fn of_disk(error: &DiskError) -> &'static str {
    match error {
        error if error.is_no_space() => "53100",
        error if error.is_not_found() => "58P01",
        _ => "58030",
    }
}

fn of_storage(error: &StorageError) -> &'static str {
    match error {
        StorageError::NoSuchTable { .. } | StorageError::TableDropped { .. } => "42P01",
        StorageError::TableExists { .. } | StorageError::ViewExists { .. } => "40001",
        StorageError::IsView { .. } => "42809",
        StorageError::Schema(source) => of_schema(source),
        error => match (sqlstate::of_storage(error), error.class()) {
            ("XX000", Class::Caller) => "22023",
            (code, _) => code,
        },
    }
}

fn of_schema(error: &SchemaError) -> &'static str {
    match error {
        SchemaError::DuplicateColumn { .. } => "42701",
        SchemaError::NoSuchColumn { .. } => "42703",
        SchemaError::PartitionWithoutTimestamp { .. } | SchemaError::NotATimestamp { .. } => {
            "22023"
        }
        _ => "42P16",
    }
}
