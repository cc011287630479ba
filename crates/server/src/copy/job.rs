//! Jobs, and the queue that decides which of them run.
//!
//! - job-1. A job runs on a thread of its own; when it ends, the next one that waits begins.
//! - job-2. A handle that is dropped without being detached ends its job.
//! - job-3. The final status of the last `ENDED_MAX` jobs is kept.
//!
//! Not here: the work of jobs (`copy`), and their log tables (`log`).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use ring::rand::{SecureRandom, SystemRandom};
use tidegate_ingest::{ImportSummary, Phase, Progress};
use tidegate_query::{BulkJob, BulkOutcome, BulkProgress, BulkResult, Session};
use tokio::sync::{Notify, watch};

use super::Inner;
use super::error::CopyError;

/// The reason of jobs that the end of the server has ended.
pub(super) const STOPPED: &str = "server stopped";
/// The most ended jobs whose status is kept (job-3).
const ENDED_MAX: usize = 1_024;

/// The kind of work of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Import,
    Upload,
    Export,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Import => "import",
            Kind::Upload => "upload",
            Kind::Export => "export",
        }
    }
}

/// The result of a job that succeeded.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: BulkOutcome,
    /// `None` for a job that is no import, or an import without rows.
    pub(crate) summary: Option<ImportSummary>,
    pub(crate) message: String,
}

impl Ended {
    /// Adds a note to those of the import.
    pub(crate) fn with_note(mut self, note: Option<String>) -> Ended {
        if let Some(note) = note {
            self.message = format!("{}; {note}", self.message);
            if let Some(summary) = &mut self.summary {
                summary.notes.push(note.clone());
            }
            self.outcome.notes.push(note);
        }
        self
    }
}

/// The reason to end a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Requested,
    Server,
    /// Its client sent nothing for this time while other jobs waited.
    Idle(Duration),
}

/// The properties of a job that are known at its submission.
pub(super) struct NewJob {
    pub(super) kind: Kind,
    pub(super) table: String,
    pub(super) file: String,
    pub(super) session: Session,
    pub(super) now: i64,
}

/// A job and its state.
pub(crate) struct Job {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) table: String,
    pub(super) file: String,
    pub(super) session: Session,
    /// The time of its submission, in microseconds since 1970.
    pub(super) since: i64,
    started: OnceLock<i64>,
    progress: Arc<Progress>,
    /// The number of rows that an export has written.
    rows_written: AtomicU64,
    /// The rows and bytes of the last second.
    pub(super) rates: (AtomicU64, AtomicU64),
    stop: OnceLock<Stop>,
    is_stopped: AtomicBool,
    stopped: Notify,
    end: watch::Sender<Option<Result<Arc<Ended>, CopyError>>>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({} {})", self.kind.name(), self.id)
    }
}

impl Job {
    pub(super) fn new(new: NewJob) -> Arc<Job> {
        let NewJob { kind, table, file, session, now } = new;
        Arc::new(Job {
            id: random_id(now),
            kind,
            table,
            file,
            session,
            since: now,
            started: OnceLock::new(),
            progress: Arc::new(Progress::new()),
            rows_written: AtomicU64::new(0),
            rates: (AtomicU64::new(0), AtomicU64::new(0)),
            stop: OnceLock::new(),
            is_stopped: AtomicBool::new(false),
            stopped: Notify::new(),
            end: watch::Sender::new(None),
        })
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Returns the flag that is set when the job is to end.
    pub(super) fn cancel_flag(&self) -> &AtomicBool {
        &self.is_stopped
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }

    /// Waits until the job is told to end.
    pub(super) async fn stopped(&self) {
        let mut notified = std::pin::pin!(self.stopped.notified());
        // Later notifications are not missed.
        notified.as_mut().enable();
        if !self.is_stopped() {
            notified.await;
        }
    }

    pub(super) fn add_rows_written(&self, rows: u64) {
        self.rows_written.fetch_add(rows, Relaxed);
    }

    pub(super) fn rows_handled(&self) -> u64 {
        match self.kind {
            Kind::Export => self.rows_written.load(Relaxed),
            Kind::Import | Kind::Upload => self.progress.sample().rows_read,
        }
    }

    fn stop(&self, why: Stop) {
        let _ = self.stop.set(why);
        self.is_stopped.store(true, Relaxed);
        self.stopped.notify_waiters();
    }

    /// Ends it because its client sends too slowly while other jobs wait.
    pub(super) fn end_idle(&self, limit: Duration) {
        self.stop(Stop::Idle(limit));
    }

    /// Returns the error to report for a job that ended with this one: the reason to end it comes
    /// first.
    pub(super) fn reason(&self, error: CopyError) -> CopyError {
        match (self.stop.get(), error.cause.code) {
            (Some(Stop::Requested), _) => cancelled(),
            (Some(Stop::Server), _) => CopyError::new("57P01", STOPPED),
            (Some(Stop::Idle(limit)), _) => {
                let message = format!(
                    "the client kept the import waiting for {} s while other jobs waited; send \
                     faster, or raise copy.idle_timeout or copy.max_concurrent",
                    limit.as_secs_f64()
                );
                CopyError::new("57014", message)
            }
            (None, _) => error,
        }
    }

    /// Waits for the end of the job.
    pub(crate) async fn ended(&self) -> Result<Arc<Ended>, CopyError> {
        let mut end = self.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().expect("it was waited for"),
            Err(_) => Err(CopyError::new("XX000", "internal error: a job has vanished")),
        }
    }

    fn is_over(&self) -> bool {
        self.end.borrow().is_some()
    }

    pub(super) fn phase(&self) -> Option<&'static str> {
        self.started.get()?;
        Some(match self.kind {
            Kind::Export => "export",
            Kind::Import | Kind::Upload => phase_name(self.progress.sample().phase),
        })
    }

    fn report(&self, queue_position: Option<u64>) -> BulkProgress {
        let sample = self.progress.sample();
        let (rows, bytes) = (self.rates.0.load(Relaxed), self.rates.1.load(Relaxed));
        let left = sample.bytes_total.map(|total| total.saturating_sub(sample.bytes_read));
        BulkProgress {
            id: self.id.clone(),
            kind: self.kind.name(),
            table_name: self.table.clone(),
            file: self.file.clone(),
            phase: self.phase(),
            queue_position,
            bytes_read: sample.bytes_read,
            bytes_total: sample.bytes_total,
            rows_handled: self.rows_handled(),
            rows_rejected: sample.rows_rejected,
            rows_per_second: rows,
            bytes_per_second: bytes,
            started: self.started.get().copied(),
            eta_seconds: left.and_then(|left| left.checked_div(bytes)),
        }
    }
}

/// Makes the error of a job that was cancelled.
pub(super) fn cancelled() -> CopyError {
    CopyError::new("57014", "cancelled")
}

/// Returns the final status of a job in the log.
pub(super) fn status(outcome: &Result<Arc<Ended>, CopyError>) -> &'static str {
    match outcome {
        Ok(_) => "finished",
        Err(error) if error.cause.code == "57014" => "cancelled",
        Err(_) => "failed",
    }
}

/// Returns the name of a phase in the log.
pub(super) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Setup => "setup",
        Phase::Read => "partition_import",
        Phase::Build => "sort_merge",
        Phase::Commit | Phase::Done => "attach_partitions",
    }
}

/// Makes a random id of 16 hex digits.
fn random_id(now: i64) -> String {
    let mut bytes = [0; 8];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        bytes = now.to_le_bytes();
    }
    format!("{:016x}", u64::from_le_bytes(bytes))
}

pub(super) type Work = Box<dyn FnOnce(&Arc<Inner>, &Arc<Job>) -> Result<Ended, CopyError> + Send>;

/// The running and the waiting jobs.
#[derive(Debug)]
pub(super) struct Queue {
    working_max: NonZeroUsize,
    waiting_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    working: BTreeMap<String, Arc<Job>>,
    waiting: VecDeque<(Arc<Job>, Work)>,
    /// The ids and statuses of the last jobs that ended (job-3).
    ended: VecDeque<(String, &'static str)>,
    is_stopping: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} work, {} wait", self.working.len(), self.waiting.len())
    }
}

impl Queue {
    pub(super) fn new(working_max: NonZeroUsize, waiting_max: usize) -> Queue {
        Queue { working_max, waiting_max, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is made as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if no job is running.
    pub(super) fn is_idle(&self) -> bool {
        self.state().working.is_empty()
    }

    /// Returns true if a job waits for its start.
    pub(super) fn has_waiting(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// Returns the progress of all jobs that have not ended, in the order of their start.
    pub(super) fn progress(&self) -> Vec<BulkProgress> {
        let state = self.state();
        let working = state.working.values().map(|job| job.report(None));
        let waiting = state.waiting.iter().zip(1..).map(|((job, _), at)| job.report(Some(at)));
        working.chain(waiting).collect()
    }

    /// Ends a job, if `session` is allowed to. Returns its status, and the job if it had not
    /// started.
    pub(super) fn cancel(&self, id: &str, session: &Session) -> (&'static str, Option<Arc<Job>>) {
        let mut state = self.state();
        if let Some(job) = state.working.get(id) {
            if !session.reaches(&job.session) {
                return ("unknown", None);
            }
            job.stop(Stop::Requested);
            return ("cancelled", None);
        }
        let waits = |(job, _): &(Arc<Job>, Work)| job.id == id && session.reaches(&job.session);
        if let Some(at) = state.waiting.iter().position(waits) {
            let (job, _) = state.waiting.remove(at).expect("just found");
            job.stop(Stop::Requested);
            state.remember(id, "cancelled");
            job.end.send_replace(Some(Err(cancelled())));
            return ("cancelled", Some(job));
        }
        let ended = state.ended.iter().rev().find(|(ended, _)| ended == id);
        (ended.map_or("unknown", |(_, status)| status), None)
    }

    /// Ends all jobs, and returns those that had not started.
    pub(super) fn stop(&self) -> Vec<Arc<Job>> {
        let mut state = self.state();
        state.is_stopping = true;
        state.working.values().for_each(|job| job.stop(Stop::Server));
        let waiting = std::mem::take(&mut state.waiting);
        let stopped = waiting.into_iter().map(|(job, _)| {
            job.end.send_replace(Some(Err(CopyError::new("57P01", STOPPED))));
            job
        });
        stopped.collect()
    }
}

impl State {
    fn remember(&mut self, id: &str, status: &'static str) {
        if ENDED_MAX <= self.ended.len() {
            self.ended.pop_front();
        }
        self.ended.push_back((id.to_owned(), status));
    }
}

impl Inner {
    /// Begins a job, or lets it wait for its start.
    pub(super) fn submit(
        self: &Arc<Self>,
        job: Arc<Job>,
        work: impl FnOnce(&Arc<Inner>, &Arc<Job>) -> Result<Ended, CopyError> + Send + 'static,
    ) -> Result<JobHandle, CopyError> {
        let handle = JobHandle { inner: Arc::clone(self), job: Arc::clone(&job), detached: false };
        let waits = {
            let mut state = self.queue.state();
            if state.is_stopping {
                return Err(CopyError::new("57P01", STOPPED));
            }
            let has_turn = state.working.len() < self.queue.working_max.get();
            if !has_turn && self.queue.waiting_max <= state.waiting.len() {
                let max = self.queue.waiting_max;
                let message = format!("too many jobs wait [copy.queue_limit={max}]");
                return Err(CopyError::new("53400", message));
            }
            state.waiting.push_back((Arc::clone(&job), Box::new(work)));
            !has_turn
        };
        if waits {
            self.log.queued(&job);
        }
        self.begin_next();
        Ok(handle)
    }

    /// Begins waiting jobs as long as fewer than `working_max` run.
    fn begin_next(self: &Arc<Self>) {
        loop {
            let (job, work) = {
                let mut state = self.queue.state();
                if self.queue.working_max.get() <= state.working.len() {
                    return;
                }
                let Some((job, work)) = state.waiting.pop_front() else { return };
                state.working.insert(job.id.clone(), Arc::clone(&job));
                (job, work)
            };
            let (inner, begun) = (Arc::clone(self), Arc::clone(&job));
            let thread = thread::Builder::new().name("copy".to_owned());
            let spawned = thread.spawn(move || {
                let mut running = RunningJob { inner, job: begun, outcome: None };
                let _ = running.job.started.set(running.inner.database.now_micros());
                // Imports write this row from the thread of their log.
                if running.job.kind == Kind::Export {
                    running.inner.log.started(&running.job);
                }
                running.outcome = Some(work(&running.inner, &running.job));
            });
            if let Err(error) = spawned {
                let message = format!("cannot begin a job: {error}");
                self.end(&job, Err(CopyError::new("58030", message)));
            }
        }
    }

    fn end(self: &Arc<Self>, job: &Arc<Job>, outcome: Result<Ended, CopyError>) {
        let outcome = outcome.map(Arc::new);
        let status = status(&outcome);
        // A server that stops waits for running jobs, and so for this row (server_copy-2).
        self.log.ended(job, &outcome);
        {
            let mut state = self.queue.state();
            state.working.remove(&job.id);
            state.remember(&job.id, status);
        }
        job.end.send_replace(Some(outcome));
    }
}

/// A running job; at its end, also by a panic, others can begin (job-1).
struct RunningJob {
    inner: Arc<Inner>,
    job: Arc<Job>,
    outcome: Option<Result<Ended, CopyError>>,
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        let panicked = || Err(CopyError::new("XX000", "internal error: a job has panicked"));
        let outcome = self.outcome.take().unwrap_or_else(panicked);
        self.inner.end(&self.job, outcome);
        self.inner.begin_next();
    }
}

/// The handle of a job, for its client (job-2).
pub(crate) struct JobHandle {
    inner: Arc<Inner>,
    job: Arc<Job>,
    detached: bool,
}

impl JobHandle {
    pub(crate) fn job(&self) -> &Arc<Job> {
        &self.job
    }
}

#[async_trait]
impl BulkJob for JobHandle {
    fn id(&self) -> &str {
        &self.job.id
    }

    async fn ended(&mut self) -> BulkResult<BulkOutcome> {
        let ended = self.job.ended().await?;
        Ok(ended.outcome.clone())
    }

    fn detach(mut self: Box<Self>) {
        self.detached = true;
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        if self.detached || self.job.is_over() {
            return;
        }
        let (_, waited) = self.inner.queue.cancel(&self.job.id, &self.job.session);
        if let Some(job) = waited {
            self.inner.log_end_in_background(job, cancelled());
        }
    }
}
