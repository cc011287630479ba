//! What COPY needs of a program that can read and write files: the engine says what is wanted, and
//! knows nothing of who does it.
//!
//! - BK1. A job that was begun goes on without whoever has asked for it, once it is detached;
//!   until then, dropping it ends it.
//! - BK2. A sink that is dropped before it is finished leaves the table as it was.
//!
//! Not here: what COPY says as a text (`parse`), and doing it (`server`, over `ingest`).

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use thiserror::Error as ThisError;
use tidegate_model::PartitionUnit;
use tidegate_storage::Class;

use crate::dml::KeptRows;
use crate::session::Session;

/// The result of what others do.
pub type BulkResult<T> = std::result::Result<T, BulkError>;

/// Who moves many rows at once.
#[async_trait]
pub trait BulkIo: fmt::Debug + Send + Sync {
    /// Begins to import files, or has it wait for its turn.
    async fn import(&self, import: BulkImport, session: &Session) -> BulkResult<Box<dyn BulkJob>>;

    /// Begins to import bytes that are handed over. Waits for its turn. If somebody keeps the rows,
    /// nothing is committed.
    async fn import_bytes(
        &self,
        import: BulkImport,
        keeper: Option<Arc<KeptRows>>,
        session: &Session,
    ) -> BulkResult<Box<dyn BulkSink>>;

    /// Begins to write rows to a file, or has it wait for its turn.
    async fn export(
        &self,
        export: BulkExport,
        rows: SendableRecordBatchStream,
        session: &Session,
    ) -> BulkResult<Box<dyn BulkJob>>;

    /// Ends a job, if there is one of this id that `session` may end, and says what it is then.
    fn cancel(&self, id: &str, session: &Session) -> &'static str;

    /// The jobs that are not over.
    fn jobs(&self) -> Vec<BulkProgress>;

    /// The files that can be imported.
    fn files(&self) -> BulkResult<Vec<BulkFile>>;

    /// Whether nobody is there any more when a statement has ended: then every COPY waits.
    fn ends_with_its_statement(&self) -> bool;
}

/// A job that was begun (BK1).
#[async_trait]
pub trait BulkJob: Send {
    /// 16 hex digits.
    fn id(&self) -> &str;

    /// Waits for its end.
    async fn ended(&mut self) -> BulkResult<BulkOutcome>;

    /// From now on it needs nobody.
    fn detach(self: Box<Self>);
}

/// Takes the bytes of an import (BK2).
#[async_trait]
pub trait BulkSink: Send {
    /// Takes what comes next; waits while the import has enough.
    async fn push(&mut self, bytes: &[u8]) -> BulkResult<()>;

    /// That was all: commits.
    async fn finish(self: Box<Self>) -> BulkResult<BulkOutcome>;
}

/// A text of a statement, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Without quotes.
    pub text: String,
    /// Bytes of the statement before it.
    pub offset: usize,
}

/// `COPY table [(columns)] FROM ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkImport {
    /// The table.
    pub table: Placed,
    /// The columns that fields are, in order; none: by the header, or all.
    pub columns: Vec<String>,
    /// A path or a pattern; what stands for the bytes if those are handed over.
    pub path: Placed,
    /// What is said about it.
    pub options: CopyOptions,
}

/// `COPY ... TO 'file'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkExport {
    /// What is written: a table's name, or `query`.
    pub what: String,
    /// The file.
    pub path: Placed,
    /// What is said about it.
    pub options: CopyOptions,
}

/// What stands behind WITH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// `None`: by the first bytes of a file; there is none for an export.
    pub format: Option<CopyFormat>,
    /// `None`: nothing was said.
    pub header: Option<CopyHeader>,
    /// One ASCII byte.
    pub delimiter: Option<u8>,
    /// One ASCII byte.
    pub quote: Option<u8>,
    /// What stands for NULL.
    pub null: Option<String>,
    /// The designated timestamp.
    pub timestamp: Option<Placed>,
    /// How it is written.
    pub timestamp_format: Option<Placed>,
    /// Of a table that COPY makes.
    pub partition_by: Option<PartitionUnit>,
    /// What a bad value does.
    pub on_error: Option<CopyPolicy>,
    /// More bad values than that are a failure.
    pub max_errors: Option<u64>,
    /// Whether the statement waits for the end.
    pub wait: bool,
    /// Lines before the header.
    pub skip_lines: u64,
    /// Columns of the input that are left out.
    pub skip_columns: Vec<String>,
    /// Whether fields count that are too many.
    pub ignores_extra_fields: bool,
    /// Whether a record that lacks fields is a bad one.
    pub rejects_missing_fields: bool,
    /// Of an export: how it is compressed.
    pub codec: Option<Placed>,
    /// How much.
    pub codec_level: Option<u32>,
    /// Rows of a row group.
    pub row_group_size: Option<u64>,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Comma-separated values, by RFC 4180.
    Csv,
    /// Text with backslashes, as PostgreSQL has it.
    Text,
    /// Apache Parquet.
    Parquet,
    /// A JSON object a line.
    Jsonl,
    /// Arrow IPC.
    Arrow,
    /// PostgreSQL's own, over a connection.
    Binary,
}

/// Whether the first record has names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyHeader {
    /// It is found out.
    Auto,
    /// It has.
    Present,
    /// It has none.
    Absent,
    /// It has, and they are the table's, in its order.
    Match,
}

/// What a bad value does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPolicy {
    /// Its row is left out.
    SkipRow,
    /// It becomes NULL.
    SkipColumn,
    /// It ends the import.
    Abort,
}

/// What came of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BulkOutcome {
    /// Records that were met.
    pub rows_handled: u64,
    /// Rows that were committed, or written.
    pub rows_imported: u64,
    /// Rows left out, and values that became NULL.
    pub errors: u64,
    /// Choices that were made, which a client should know of.
    pub notes: Vec<String>,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as the columns of copy_progress() in docs/sql.md")]
pub struct BulkProgress {
    pub id: String,
    pub kind: &'static str,
    pub table_name: String,
    pub file: String,
    /// What it does; `None` while it waits for its turn.
    pub phase: Option<&'static str>,
    /// How many are before it.
    pub queue_position: Option<u64>,
    pub bytes_read: u64,
    pub bytes_total: Option<u64>,
    pub rows_handled: u64,
    pub rows_rejected: u64,
    pub rows_per_second: u64,
    pub bytes_per_second: u64,
    /// In microseconds since 1970; `None` while it waits.
    pub started: Option<i64>,
    pub eta_seconds: Option<u64>,
}

/// A file that can be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkFile {
    /// As COPY names it.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written to last, in microseconds since 1970.
    pub modified: i64,
}

/// Why others could not do it.
#[derive(Clone, Debug, ThisError)]
#[error("{message}")]
pub struct BulkError {
    /// The SQLSTATE.
    pub code: &'static str,
    /// A sentence.
    pub message: String,
    /// Where in the statement it is asked for, if that is known.
    pub offset: Option<usize>,
    /// Whose fault it is.
    pub class: Class,
}

/// Who copies nothing.
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
