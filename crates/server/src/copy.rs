//! COPY and uploads: jobs that move many rows between files and tables.
//!
//! - At most `copy.max_concurrent` jobs run; at most `copy.queue_limit` others wait, in the order
//!   in which they came.
//! - server_copy-1. A job that has not committed leaves its table unchanged, whatever has ended it.
//! - server_copy-2. Every job has a last row in `sys.text_import_log`, unless that cannot be
//!   written; the next start writes it for jobs that a crash has ended.
//! - The [`Copier`] does not keep its owner alive; dropping it ends all jobs.
//!
//! It implements `BulkIo` of `query`. Not here: reading rows (`ingest`), and making the bytes of an
//! upload from a body (`http`).

mod error;
mod files;
mod options;
mod job;
mod log;
mod words;
mod upload;
mod export;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use tidegate_ingest::{
    Existing, ImportOptions, ImportSummary, RejectList, RowReceiver, RowsRefused, RowsTo, Source,
};
use tidegate_model::{ByteCount, PartitionUnit, Schema, Ttl};
use tidegate_query::{
    BulkExport, BulkFile, BulkImport, BulkIo, BulkJob, BulkOutcome, BulkProgress, BulkResult,
    BulkSink, CopyBuffer, CopyOptions, SendableRecordBatchStream, Session,
};
use tidegate_storage::Database;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::budget::Budget;
use crate::log::Log as ServerLog;
use crate::results::{Delimited, ResultForm};
use files::{Files, OpenedFiles};
use job::{Job, JobHandle, Kind, NewJob, Queue};
use log::{CopyLog, Rejects};

pub(crate) use error::CopyError;
pub use files::FolderError;
pub(crate) use job::Ended;
pub(crate) use options::{defaults, form_of};
pub(crate) use upload::Upload;
pub(crate) use words::of_imp;

/// The keys `copy....`.
#[derive(Clone, Debug)]
pub struct CopyConfig {
    /// The directory of files that can be imported; relative to that of the database unless
    /// absolute.
    pub root: Option<PathBuf>,
    /// The directory for exported files.
    pub export_root: Option<PathBuf>,
    /// The threads that parse and flush; as many as the engine has, if it is `None`.
    pub threads: Option<NonZeroUsize>,
    /// The memory of rows that are being imported, for each job.
    pub memory_limit: ByteCount,
    /// The most jobs that run at the same time.
    pub max_concurrent: NonZeroUsize,
    /// The most jobs that wait.
    pub queue_limit: usize,
    /// The longest wait of an upload for its client while other jobs wait; zero for no bound.
    pub idle_timeout: Duration,
    /// The retention of rows of the log tables; `None` for ever.
    pub log_retention: Option<Ttl>,
    /// The most rows of `sys.copy_rejects` for each job.
    pub reject_rows_per_job: usize,
    /// The most bytes of a rejected text that are kept.
    pub reject_raw_bytes: usize,
}

impl CopyConfig {
    /// Returns the defaults for a machine with this much memory.
    #[must_use]
    pub fn standard(memory: ByteCount) -> CopyConfig {
        CopyConfig {
            root: Some(PathBuf::from("import")),
            export_root: Some(PathBuf::from("export")),
            threads: None,
            memory_limit: ByteCount((memory.0 / 4).max(MEMORY_MIN)),
            max_concurrent: NonZeroUsize::MIN,
            queue_limit: 32,
            idle_timeout: Duration::from_secs(30),
            log_retention: Some(Ttl { count: 3, unit: PartitionUnit::Day }),
            reject_rows_per_job: 10_000,
            reject_raw_bytes: 4 << 10,
        }
    }
}

/// The least memory of a job: with less, no thread of an import can work.
const MEMORY_MIN: u64 = 64 << 20;

/// The process that runs jobs.
#[derive(Debug)]
pub enum CopyHost {
    /// A server, which has a log.
    Server(Arc<ServerLog>),
    /// A command that ends with its statements.
    Command,
}

/// The runner of all jobs of a process.
#[derive(Debug)]
pub struct Copier {
    inner: Arc<Inner>,
    is_of_command: bool,
}

/// The parts that jobs share.
#[derive(Debug)]
pub(crate) struct Inner {
    database: Arc<Database>,
    config: CopyConfig,
    threads: NonZeroUsize,
    files: Files,
    log: CopyLog,
    queue: Queue,
    /// The memory budget of connections; `None` outside a server.
    budget: Option<Arc<Budget>>,
}

impl Copier {
    /// Opens the directories. A server creates those that are below that of the database.
    ///
    /// # Errors
    /// If one of them cannot be opened, or may not be used.
    pub fn new(
        database: &Arc<Database>,
        config: CopyConfig,
        threads: NonZeroUsize,
        host: CopyHost,
    ) -> Result<Copier, FolderError> {
        let (is_of_command, server_log) = match host {
            CopyHost::Server(log) => (false, Some(log)),
            CopyHost::Command => (true, None),
        };
        let files = Files::open(database, &config, !is_of_command, server_log.clone())?;
        let log = CopyLog::new(database, config.log_retention, server_log);
        let queue = Queue::new(config.max_concurrent, config.queue_limit);
        let threads = config.threads.unwrap_or(threads);
        let database = Arc::clone(database);
        let budget = None;
        let inner = Arc::new(Inner { database, config, threads, files, log, queue, budget });
        Ok(Copier { inner, is_of_command })
    }

    /// Counts the memory of uploads in the budget of connections.
    pub(crate) fn with_budget(mut self, budget: Arc<Budget>) -> Copier {
        let inner = Arc::get_mut(&mut self.inner).expect("no job has begun");
        inner.budget = Some(budget);
        self
    }

    /// Writes the last rows of jobs that ended with an earlier process (server_copy-2).
    ///
    /// # Errors
    /// If the log cannot be read or written.
    pub async fn log_interrupted_jobs(
        &self,
        engine: &tidegate_query::Engine,
    ) -> tidegate_query::Result<()> {
        log::log_interrupted_jobs(&self.inner.log, engine).await
    }

    /// Ends all jobs; no job begins any more.
    pub fn stop(&self) {
        self.inner.stop();
    }

    /// Returns true if no job is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.inner.queue.is_idle()
    }

    /// Begins an upload (`/imp`).
    pub(crate) async fn upload(
        &self,
        name: String,
        file: String,
        session: &Session,
        options: impl FnOnce(&Inner, Source, RejectList) -> Result<ImportOptions, CopyError>
        + Send
        + 'static,
    ) -> Result<Upload, CopyError> {
        Upload::begin(&self.inner, name, file, session, options).await
    }
}

/// Returns the encoder of the rows of a `COPY ... TO STDOUT`.
///
/// # Errors
/// If its options contradict each other, or the format has no delimiters.
pub fn encoder(options: &CopyOptions, fields: SchemaRef) -> BulkResult<Delimited> {
    match options::form_of(options)? {
        ResultForm::Delimited(form) => Ok(Delimited::new(form, fields)),
        _ => Err(CopyError::new(
            "0A000",
            "COPY over a connection supports only the formats csv and text",
        )
        .into()),
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.stop();
    }
}

#[async_trait]
impl BulkIo for Copier {
    async fn import(&self, import: BulkImport, session: &Session) -> BulkResult<Box<dyn BulkJob>> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        let begun = blocking(move || inner.begin_import(&import, &session)).await?;
        Ok(Box::new(begun))
    }

    async fn import_bytes(
        &self,
        import: BulkImport,
        buffer: Option<Arc<CopyBuffer>>,
        session: &Session,
    ) -> BulkResult<Box<dyn BulkSink>> {
        let (table, file) = (import.table.text.clone(), import.path.text.clone());
        let upload = self.upload(table, file, session, move |inner, source, rejects| {
            let options = options::of_statement(inner, &import, source, rejects)?;
            let Some(buffer) = buffer else { return Ok(options) };
            // The rows go to the transaction, so no lock is taken on the table.
            let existing = Existing::Elsewhere(Arc::clone(buffer.schema()));
            let rows_to = RowsTo::Receiver(Arc::new(BufferReceiver(buffer)));
            Ok(ImportOptions { existing, rows_to, ..options })
        });
        Ok(Box::new(upload.await?))
    }

    async fn export(
        &self,
        export: BulkExport,
        rows: SendableRecordBatchStream,
        session: &Session,
    ) -> BulkResult<Box<dyn BulkJob>> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        let runtime = Handle::current();
        let begun = blocking(move || inner.begin_export(export, rows, runtime, &session)).await?;
        Ok(Box::new(begun))
    }

    fn cancel(&self, id: &str, session: &Session) -> &'static str {
        self.inner.cancel(id, session)
    }

    fn jobs(&self) -> Vec<BulkProgress> {
        self.inner.queue.progress()
    }

    fn files(&self) -> BulkResult<Vec<BulkFile>> {
        Ok(self.inner.files.list()?)
    }

    fn ends_with_its_statement(&self) -> bool {
        self.is_of_command
    }
}

/// Passes the rows of an import to a transaction.
#[derive(Debug)]
struct BufferReceiver(Arc<CopyBuffer>);

impl RowReceiver for BufferReceiver {
    fn take(&self, _: &Arc<Schema>, columns: Vec<ArrayRef>) -> Result<(), RowsRefused> {
        Ok(self.0.take(columns)?)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CopyError> + Send + 'static,
) -> Result<T, CopyError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(CopyError::new("XX000", "internal error: a job has panicked")))
}

impl Inner {
    fn begin_import(
        self: &Arc<Self>,
        import: &BulkImport,
        session: &Session,
    ) -> Result<JobHandle, CopyError> {
        let OpenedFiles { files, note } = self.files.open_all(&import.path)?;
        let job = Job::new(NewJob {
            kind: Kind::Import,
            table: import.table.text.clone(),
            file: import.path.text.clone(),
            session: session.clone(),
            now: self.database.now_micros(),
        });
        let rejects = Rejects::new(self, &job);
        let list = RejectList::Taken(Arc::clone(&rejects) as _);
        let options = options::of_statement(self, import, Source::Opened(files), list)?;
        self.submit(job, move |inner, job| {
            run_import(inner, job, &options, &rejects).map(|ended| ended.with_note(note))
        })
    }

    fn begin_export(
        self: &Arc<Self>,
        export: BulkExport,
        rows: SendableRecordBatchStream,
        runtime: Handle,
        session: &Session,
    ) -> Result<JobHandle, CopyError> {
        let form = options::form_of(&export.options)?;
        let file = self.files.create(&export.path)?;
        let job = Job::new(NewJob {
            kind: Kind::Export,
            table: export.what,
            file: export.path.text.clone(),
            session: session.clone(),
            now: self.database.now_micros(),
        });
        let path = export.path;
        self.submit(job, move |inner, job| {
            let outcome = export::write(job, rows, &runtime, &form, &file)?;
            inner.files.finish(file, &path)?;
            Ok(outcome)
        })
    }

    fn stop(self: &Arc<Self>) {
        for job in self.queue.stop() {
            self.log.ended(&job, &Err(CopyError::new("57P01", job::STOPPED)));
        }
    }

    fn cancel(self: &Arc<Self>, id: &str, session: &Session) -> &'static str {
        let (status, taken) = self.queue.cancel(&id.to_lowercase(), session);
        if let Some(job) = taken {
            self.log.ended(&job, &Err(job::cancelled()));
        }
        status
    }

    /// Writes the last row of a job that never ran, on a thread that may wait for the disk: the
    /// caller may run on a thread of connections.
    fn log_end_in_background(self: &Arc<Self>, job: Arc<Job>, error: CopyError) {
        let inner = Arc::clone(self);
        let write = move || inner.log.ended(&job, &Err(error));
        match Handle::try_current() {
            // The result of the task is not needed.
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }
}

/// Runs the import of a job, and writes its log meanwhile.
fn run_import(
    inner: &Arc<Inner>,
    job: &Arc<Job>,
    options: &ImportOptions,
    rejects: &Arc<Rejects>,
) -> Result<Ended, CopyError> {
    let imported = std::thread::scope(|scope| {
        // It is dropped at the end of the import, also by a panic.
        let (working, over) = std::sync::mpsc::channel::<()>();
        let import = scope.spawn(move || {
            let _working = working;
            let cancel: &AtomicBool = job.cancel_flag();
            tidegate_ingest::import(&inner.database, options, job.progress(), cancel)
        });
        inner.log.watch(job, rejects, &over);
        import.join().unwrap_or(Err(tidegate_ingest::Error::WorkerPanicked))
    });
    rejects.flush(&inner.log);
    match imported {
        Ok(summary) => Ok(ended(summary)),
        // An empty input is no error of the statement.
        Err(
            tidegate_ingest::Error::NoRecords { .. } | tidegate_ingest::Error::NoRowGroups { .. },
        ) => {
            let message = "no records".to_owned();
            Ok(Ended { outcome: BulkOutcome::default(), summary: None, message })
        }
        Err(error) => Err(job.reason(CopyError::of_import(&error))),
    }
}

fn ended(mut summary: ImportSummary) -> Ended {
    summary.notes.iter_mut().for_each(|note| *note = words::of_copy(note));
    let notes = [summary.io.to_string()].into_iter().chain(summary.notes.iter().cloned());
    let message = notes.collect::<Vec<_>>().join("; ");
    let outcome = BulkOutcome {
        rows_handled: summary.rows_read,
        rows_imported: summary.rows_imported,
        errors: summary.rows_rejected + summary.cells_nulled,
        notes: summary.notes.clone(),
    };
    Ended { outcome, summary: Some(summary), message }
}
