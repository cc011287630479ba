//! The interface through which COPY reads and writes files: the engine says what to copy, and a
//! program around it implements `BulkIo`.
//!
//! - BK1. Once a job is detached, it runs to its end without the statement that started it; until
//!   then, dropping it cancels it.
//! - BK2. A sink that is dropped before it is finished leaves the table unchanged.
//!
//! Not here: parsing COPY (`parse`), and the implementation (`server`, over `ingest`).

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use thiserror::Error as ThisError;
use tidegate_model::PartitionUnit;
use tidegate_storage::Class;

use crate::dml::KeptRows;
use crate::session::Session;

/// The result of a method of `BulkIo`.
pub type BulkResult<T> = std::result::Result<T, BulkError>;

/// Imports and exports of many rows.
#[async_trait]
pub trait BulkIo: fmt::Debug + Send + Sync {
    /// Starts to import files, or queues the job.
    async fn import(&self, import: BulkImport, session: &Session) -> BulkResult<Box<dyn BulkJob>>;

    /// Starts to import bytes that the caller hands over; waits while other jobs are before it. If
    /// there is a `keeper`, it gets the rows, and nothing is committed.
    async fn import_bytes(
        &self,
        import: BulkImport,
        keeper: Option<Arc<KeptRows>>,
        session: &Session,
    ) -> BulkResult<Box<dyn BulkSink>>;

    /// Starts to write rows to a file, or queues the job.
    async fn export(
        &self,
        export: BulkExport,
        rows: SendableRecordBatchStream,
        session: &Session,
    ) -> BulkResult<Box<dyn BulkJob>>;

    /// Cancels a job, if one has this id and `session` may cancel it, and returns its status.
    fn cancel(&self, id: &str, session: &Session) -> &'static str;

    /// The jobs that are queued or running.
    fn jobs(&self) -> Vec<BulkProgress>;

    /// The files that can be imported.
    fn files(&self) -> BulkResult<Vec<BulkFile>>;

    /// True if jobs cannot outlive the statement, because the program ends with it: then every COPY
    /// waits.
    fn ends_with_its_statement(&self) -> bool;
}

/// A job that was started (BK1).
#[async_trait]
pub trait BulkJob: Send {
    /// 16 hex digits.
    fn id(&self) -> &str;

    /// Waits for the end of the job.
    async fn ended(&mut self) -> BulkResult<BulkOutcome>;

    /// Lets the job run to its end without this handle.
    fn detach(self: Box<Self>);
}

/// Receives the bytes of an import (BK2).
#[async_trait]
pub trait BulkSink: Send {
    /// Takes the next bytes; waits while the import has enough of them.
    async fn push(&mut self, bytes: &[u8]) -> BulkResult<()>;

    /// Ends the input, and commits.
    async fn finish(self: Box<Self>) -> BulkResult<BulkOutcome>;
}

/// A text in a statement, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The text, without quotes.
    pub text: String,
    /// Its byte offset in the statement.
    pub offset: usize,
}

/// `COPY table [(columns)] FROM ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkImport {
    /// The table.
    pub table: Placed,
    /// The columns of the fields, in order; if empty, the header names them, or they are all of the
    /// table's.
    pub columns: Vec<String>,
    /// A path or a pattern; for bytes that are handed over, a name for them.
    pub path: Placed,
    /// The options.
    pub options: CopyOptions,
}

/// `COPY ... TO 'file'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkExport {
    /// The source of the rows: a table's name, or `query`.
    pub what: String,
    /// The file.
    pub path: Placed,
    /// The options.
    pub options: CopyOptions,
}

/// The options behind WITH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// `None`: detected from the first bytes of a file; an export always has one.
    pub format: Option<CopyFormat>,
    /// `None`: not given.
    pub header: Option<CopyHeader>,
    /// One ASCII byte.
    pub delimiter: Option<u8>,
    /// One ASCII byte.
    pub quote: Option<u8>,
    /// The text that means NULL.
    pub null: Option<String>,
    /// The designated timestamp.
    pub timestamp: Option<Placed>,
    /// The format of the designated timestamp.
    pub timestamp_format: Option<Placed>,
    /// The partitioning of a table that COPY creates.
    pub partition_by: Option<PartitionUnit>,
    /// The treatment of a bad value.
    pub on_error: Option<CopyPolicy>,
    /// The number of bad values above which the import fails.
    pub max_errors: Option<u64>,
    /// True if the statement waits for the end of the job.
    pub wait: bool,
    /// The number of lines before the header.
    pub skip_lines: u64,
    /// Columns of the input that are skipped.
    pub skip_columns: Vec<String>,
    /// True if surplus fields of a record are ignored.
    pub ignores_extra_fields: bool,
    /// True if a record that lacks fields is rejected.
    pub rejects_missing_fields: bool,
    /// The compression of an export.
    pub codec: Option<Placed>,
    /// The level of the compression.
    pub codec_level: Option<u32>,
    /// The rows of a row group.
    pub row_group_size: Option<u64>,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Comma-separated values, by RFC 4180.
    Csv,
    /// Tab-separated text with backslash escapes, as PostgreSQL's.
    Text,
    /// Apache Parquet.
    Parquet,
    /// One JSON object per line.
    Jsonl,
    /// Arrow IPC.
    Arrow,
    /// PostgreSQL's binary format, over a connection.
    Binary,
}

/// The treatment of the first record as a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyHeader {
    /// It is detected.
    Auto,
    /// There is a header.
    Present,
    /// There is no header.
    Absent,
    /// There is a header, with the table's columns in their order.
    Match,
}

/// The treatment of a bad value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPolicy {
    /// Its row is skipped.
    SkipRow,
    /// It becomes NULL.
    SkipColumn,
    /// It ends the import.
    Abort,
}

/// The result of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BulkOutcome {
    /// Records that were read.
    pub rows_handled: u64,
    /// Rows that were committed, or written.
    pub rows_imported: u64,
    /// Rows skipped, and values that became NULL.
    pub errors: u64,
    /// Decisions of the import that the client should know of.
    pub notes: Vec<String>,
}

/// The progress of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as the columns of copy_progress() in docs/sql.md")]
pub struct BulkProgress {
    pub id: String,
    pub kind: &'static str,
    pub table_name: String,
    pub file: String,
    /// The current phase; `None` while the job is queued.
    pub phase: Option<&'static str>,
    /// The number of jobs before it.
    pub queue_position: Option<u64>,
    pub bytes_read: u64,
    pub bytes_total: Option<u64>,
    pub rows_handled: u64,
    pub rows_rejected: u64,
    pub rows_per_second: u64,
    pub bytes_per_second: u64,
    /// The start in microseconds since 1970; `None` while the job is queued.
    pub started: Option<i64>,
    pub eta_seconds: Option<u64>,
}

/// A file that can be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkFile {
    /// The path as COPY takes it.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The last modification, in microseconds since 1970.
    pub modified: i64,
}

/// The error of a method of `BulkIo`.
#[derive(Clone, Debug, ThisError)]
#[error("{message}")]
pub struct BulkError {
    /// The SQLSTATE.
    pub code: &'static str,
    /// The message, a sentence.
    pub message: String,
    /// The byte offset in the statement of the part that failed, if that is known.
    pub offset: Option<usize>,
    /// The class of the error.
    pub class: Class,
}

/// A `BulkIo` that refuses every copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoBulk;

impl NoBulk {
    fn refusal() -> BulkError {
        BulkError {
            code: "0A000",
            message: "this program does not copy files".to_owned(),
            offset: None,
            class: Class::Caller,
        }
    }
}

#[async_trait]
impl BulkIo for NoBulk {
    async fn import(&self, _: BulkImport, _: &Session) -> BulkResult<Box<dyn BulkJob>> {
        Err(NoBulk::refusal())
    }

    async fn import_bytes(
        &self,
        _: BulkImport,
        _: Option<Arc<KeptRows>>,
        _: &Session,
    ) -> BulkResult<Box<dyn BulkSink>> {
        Err(NoBulk::refusal())
    }

    async fn export(
        &self,
        _: BulkExport,
        _: SendableRecordBatchStream,
        _: &Session,
    ) -> BulkResult<Box<dyn BulkJob>> {
        Err(NoBulk::refusal())
    }

    fn cancel(&self, _: &str, _: &Session) -> &'static str {
        "unknown"
    }

    fn jobs(&self) -> Vec<BulkProgress> {
        Vec::new()
    }

    fn files(&self) -> BulkResult<Vec<BulkFile>> {
        Ok(Vec::new())
    }

    fn ends_with_its_statement(&self) -> bool {
        true
    }
}
