//! The interface through which COPY reads and writes files: the engine calls `BulkIo`, and the
//! program that contains the engine implements it.
//!
//! - A detached job runs to its end without the statement that started it; dropping a job that is
//!   not detached cancels the job.
//! - A sink that is dropped before it is finished leaves the table unchanged.
//!
//! Not here: parsing COPY (`parse`), and the implementation (`server`, over `ingest`).

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use tidegate_storage::Class;

use crate::error::BulkError;
use crate::parse::copy_options::{CopyOptions, Placed};
use crate::session::Session;
use crate::transaction_buffer::CopyBuffer;

/// The result of a method of `BulkIo`.
pub type BulkResult<T> = std::result::Result<T, BulkError>;

/// Imports and exports of many rows.
#[async_trait]
pub trait BulkIo: fmt::Debug + Send + Sync {
    /// Starts to import files, or queues the job.
    async fn import(&self, import: BulkImport, session: &Session) -> BulkResult<Box<dyn BulkJob>>;

    /// Starts to import bytes that the caller passes; waits for its turn among the jobs.
    /// With a `buffer`, the rows go there, and nothing is committed.
    async fn import_bytes(
        &self,
        import: BulkImport,
        buffer: Option<Arc<CopyBuffer>>,
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

    /// Returns true if the program ends with the statement, so that COPY must wait for its job.
    fn ends_with_its_statement(&self) -> bool;
}

/// A job that was started.
#[async_trait]
pub trait BulkJob: Send {
    /// 16 hex digits.
    fn id(&self) -> &str;

    /// Waits for the end of the job.
    async fn ended(&mut self) -> BulkResult<BulkOutcome>;

    /// Lets the job run to its end without this handle.
    fn detach(self: Box<Self>);
}

/// Receives the bytes of an import.
#[async_trait]
pub trait BulkSink: Send {
    /// Takes the next bytes; waits while the import has enough of them.
    async fn push(&mut self, bytes: &[u8]) -> BulkResult<()>;

    /// Ends the input, and commits.
    async fn finish(self: Box<Self>) -> BulkResult<BulkOutcome>;
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
        _: Option<Arc<CopyBuffer>>,
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
