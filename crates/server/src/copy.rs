//! COPY, and uploads: jobs that move many rows between files and tables.
//!
//! - CJ1. At most `copy.max_concurrent` jobs work; others wait in the order in which they came, at
//!   most `copy.queue_limit` of them.
//! - CJ2. A job that has not committed leaves its table as it was, whatever has ended it.
//! - CJ3. Every job has a last row in `sys.text_import_log`, unless that cannot be written; and the
//!   next start writes it for those that a crash has ended.
//! - CJ4. It does not keep whoever runs it; dropping it ends all jobs.
//!
//! It is what `query` calls `BulkIo`. How rows are read is `ingest`'s; how a body becomes bytes of
//! an upload is `http`'s.

mod fault;
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
    Existing, ImportOptions, ImportSummary, RejectList, RowsRefused, RowsTo, Source, TakeRows,
};
use tidegate_model::{ByteCount, PartitionUnit, Schema, Ttl};
use tidegate_query::{
    BulkExport, BulkFile, BulkImport, BulkIo, BulkJob, BulkOutcome, BulkProgress, BulkResult,
    BulkSink, CopyOptions, KeptRows, SendableRecordBatchStream, Session,
};
use tidegate_storage::Database;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::budget::Budget;
use crate::log::Log as ServerLog;
use crate::results::{Delimited, ResultForm};
use files::Files;
use job::{Job, JobHandle, Kind, NewJob, Queue};
use log::{CopyLog, Rejects};

pub(crate) use fault::CopyFault;
pub use files::FolderError;
pub(crate) use job::Ended;
pub(crate) use options::{defaults, form_of};
pub(crate) use upload::Upload;
pub(crate) use words::of_imp;

/// `copy....`.
#[derive(Clone, Debug)]
pub struct CopyConfig {
    /// The folder with files that can be imported; below the database's own unless it is absolute.
    pub root: Option<PathBuf>,
    /// The folder for files that are written.
    pub export_root: Option<PathBuf>,
    /// Threads that parse and seal; as many as the engine has, if it is `None`.
    pub threads: Option<NonZeroUsize>,
    /// Memory of rows on their way, for each job.
    pub memory_limit: ByteCount,
    /// Jobs that work at a time.
    pub max_concurrent: NonZeroUsize,
    /// Jobs that wait.
    pub queue_limit: usize,
    /// How long an upload may wait for its client while other jobs wait; zero for ever.
    pub idle_timeout: Duration,
    /// How long rows of the log tables are kept; `None` for ever.
    pub log_retention: Option<Ttl>,
    /// Rows in `sys.copy_rejects` for each job.
    pub reject_rows_per_job: usize,
    /// Bytes of a rejected text that are kept.
    pub reject_raw_bytes: usize,
}

impl CopyConfig {
    /// The defaults on a machine with so much memory.
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

/// With less no thread of an import works.
const MEMORY_MIN: u64 = 64 << 20;

/// The process that runs jobs.
#[derive(Debug)]
pub enum CopyHost {
    /// A server, which has a log.
    Server(Arc<ServerLog>),
    /// A command that ends with its statements.
    Command,
}

/// See the module.
#[derive(Debug)]
pub struct Copier {
    inner: Arc<Inner>,
    is_of_command: bool,
}

/// What jobs need.
#[derive(Debug)]
pub(crate) struct Inner {
    database: Arc<Database>,
    config: CopyConfig,
    threads: NonZeroUsize,
    files: Files,
    log: CopyLog,
    queue: Queue,
    /// What connections hold, in a server.
    budget: Option<Arc<Budget>>,
}

impl Copier {
    /// Opens the folders, those of a database that can be written to are made.
    ///
    /// # Errors
    /// If one of them cannot be opened, or is not to be used.
    pub fn new(
        database: &Arc<Database>,
        (config, threads): (CopyConfig, NonZeroUsize),
        host: CopyHost,
    ) -> Result<Copier, FolderError> {
        let (is_of_command, server_log) = match host {
            CopyHost::Server(log) => (false, Some(log)),
            CopyHost::Command => (true, None),
        };
        let files = Files::open(database, &config, (!is_of_command, server_log.clone()))?;
        let log = CopyLog::new(database, config.log_retention, server_log);
        let queue = Queue::new(config.max_concurrent, config.queue_limit);
        let threads = config.threads.unwrap_or(threads);
        let database = Arc::clone(database);
        let budget = None;
        let inner = Arc::new(Inner { database, config, threads, files, log, queue, budget });
        Ok(Copier { inner, is_of_command })
    }

    /// The same, which counts what uploads hold with what connections do.
    pub(crate) fn with_budget(mut self, budget: Arc<Budget>) -> Copier {
        let inner = Arc::get_mut(&mut self.inner).expect("no job has begun");
        inner.budget = Some(budget);
        self
    }

    /// Writes the last rows of jobs that ended with an earlier process (CJ3).
    ///
    /// # Errors
    /// If the log cannot be read or written.
    pub async fn end_what_was_left(
        &self,
        engine: &tidegate_query::Engine,
    ) -> tidegate_query::Result<()> {
        log::end_what_was_left(&self.inner.log, engine).await
    }

    /// Ends all jobs; none begins any more.
    pub fn stop(&self) {
        self.inner.stop();
    }

    /// Whether no job works.
    pub(crate) fn is_idle(&self) -> bool {
        self.inner.queue.is_idle()
    }

    /// Begins an upload (`/imp`): waits for its turn.
    pub(crate) async fn upload(
        &self,
        (name, file): (String, String),
        session: &Session,
        options: impl FnOnce(&Inner, Source, RejectList) -> Result<ImportOptions, CopyFault>
        + Send
        + 'static,
    ) -> Result<Upload, CopyFault> {
        Upload::begin(&self.inner, (name, file), session, options).await
    }
}

/// What writes the rows of a `COPY ... TO STDOUT`.
///
/// # Errors
/// If its options do not go together, or the format has no delimiters.
pub fn encoder(options: &CopyOptions, fields: SchemaRef) -> BulkResult<Delimited> {
    match options::form_of(options)? {
        ResultForm::Delimited(form) => Ok(Delimited::new(form, fields)),
        _ => Err(CopyFault::new("0A000", "a connection takes csv and text alone").into()),
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
        keeper: Option<Arc<KeptRows>>,
        session: &Session,
    ) -> BulkResult<Box<dyn BulkSink>> {
        let named = (import.table.text.clone(), import.path.text.clone());
        let upload = self.upload(named, session, move |inner, source, rejects| {
            let options = options::of_statement(inner, &import, (source, rejects))?;
            let Some(keeper) = keeper else { return Ok(options) };
            // No table is held back.
            let existing = Existing::Elsewhere(Arc::clone(keeper.schema()));
            let rows_to = RowsTo::Taker(Arc::new(Keeper(keeper)));
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
        let begun = blocking(move || inner.begin_export(export, (rows, runtime), &session)).await?;
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

/// Hands the rows of an import to a transaction.
#[derive(Debug)]
struct Keeper(Arc<KeptRows>);

impl TakeRows for Keeper {
    fn take(&self, _: &Arc<Schema>, columns: Vec<ArrayRef>) -> Result<(), RowsRefused> {
        Ok(self.0.take(columns)?)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CopyFault> + Send + 'static,
) -> Result<T, CopyFault> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(CopyFault::new("XX000", "internal error: a job has panicked")))
}

impl Inner {
    fn begin_import(
        self: &Arc<Self>,
        import: &BulkImport,
        session: &Session,
    ) -> Result<JobHandle, CopyFault> {
        let files = self.files.open_all(&import.path)?;
        let job = Job::new(NewJob {
            kind: Kind::Import,
            table: import.table.text.clone(),
            file: import.path.text.clone(),
            session: session.clone(),
            now: self.database.now_micros(),
        });
        let rejects = Rejects::new(self, &job);
        let list = RejectList::Taken(Arc::clone(&rejects) as _);
        let options = options::of_statement(self, import, (Source::Opened(files), list))?;
        self.submit(job, move |inner, job| run_import(inner, job, (&options, &rejects)))
    }

    fn begin_export(
        self: &Arc<Self>,
        export: BulkExport,
        (rows, runtime): (SendableRecordBatchStream, Handle),
        session: &Session,
    ) -> Result<JobHandle, CopyFault> {
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
            let outcome = export::write(job, (rows, &runtime), (&form, &file))?;
            inner.files.finish(file, &path)?;
            Ok(outcome)
        })
    }

    fn stop(self: &Arc<Self>) {
        for job in self.queue.stop() {
            self.log.ended(&job, &Err(CopyFault::new("57P01", log::STOPPED)));
        }
    }

    fn cancel(self: &Arc<Self>, id: &str, session: &Session) -> &'static str {
        let (status, taken) = self.queue.cancel(&id.to_lowercase(), session);
        if let Some(job) = taken {
            self.log.ended(&job, &Err(job::cancelled()));
        }
        status
    }

    /// Writes the last row of a job that never worked where the disk may be waited for: whoever
    /// gives it up may be on a thread of connections.
    fn log_end_apart(self: &Arc<Self>, job: Arc<Job>, fault: CopyFault) {
        let inner = Arc::clone(self);
        let write = move || inner.log.ended(&job, &Err(fault));
        match Handle::try_current() {
            // Nobody waits for it.
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }
}

/// The import of a job, and its log meanwhile.
fn run_import(
    inner: &Arc<Inner>,
    job: &Arc<Job>,
    (options, rejects): (&ImportOptions, &Arc<Rejects>),
) -> Result<Ended, CopyFault> {
    let imported = std::thread::scope(|scope| {
        // Dropped at its end, also by a panic.
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
        // What is empty is no mistake of a statement.
        Err(tidegate_ingest::Error::NoRecords { .. }) => {
            let message = "no records".to_owned();
            Ok(Ended { outcome: BulkOutcome::default(), summary: None, message })
        }
        Err(error) => Err(job.reason(CopyFault::of_import(&error))),
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
