//! Upload: an import whose bytes are sent by a client, for example the body of a request.
//!
//! - upload-1. At most `PIECES` pieces wait for the import: the sender is slowed down to its speed.
//! - upload-2. Only a complete upload is imported: one that is dropped, or cut off, fails.
//! - upload-3. It takes a place among the jobs when it has `PIECE_BYTES` for the import, or its
//!   end: a client that pauses before it sends delays no other job.
//! - upload-4. While it runs and other jobs wait, its client must send `MIN_BYTES_PER_SECOND` a
//!   second, except for pauses of `copy.idle_timeout` in total; a slower upload is ended, and
//!   another job starts.

use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use tidegate_ingest::{ByteStream, ImportOptions, RejectList, Source};
use tidegate_query::{BulkOutcome, BulkResult, BulkSink, Session};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout};

use super::error::CopyError;
use super::job::{Ended, Job, JobHandle, Kind, NewJob, Work};
use super::log::Rejects;
use super::{Inner, run_import};
use crate::budget::{Budget, OverBudget, Reservation};
use crate::claimant::Claimant;

/// The most pieces that wait for the import (upload-1).
const PIECES: usize = 8;
/// The size up to which small pieces are combined.
const PIECE_BYTES: usize = 256 << 10;

/// The bytes per second from which on an upload is not slow (upload-4).
const MIN_BYTES_PER_SECOND: f64 = (64 << 10) as f64;
/// The interval at which an import that waits for its client checks whether other jobs wait.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

enum Piece {
    Bytes(Bytes),
    End,
}

/// The client's side of an import.
pub(crate) struct Upload {
    sender: Sender<Piece>,
    state: State,
    /// The combined small pieces.
    small: BytesMut,
    /// Their bytes, counted in the budget of connections.
    reservation: Option<Reservation>,
}

/// The state of an upload: waiting for its first bytes, or among the jobs (upload-3).
enum State {
    Collecting { inner: Arc<Inner>, job: Arc<Job>, work: Mutex<Option<Work>> },
    Begun(JobHandle),
}

impl Upload {
    pub(super) async fn begin(
        inner: &Arc<Inner>,
        table: String,
        file: String,
        session: &Session,
        options: impl FnOnce(&Inner, Source, RejectList) -> Result<ImportOptions, CopyError>
        + Send
        + 'static,
    ) -> Result<Upload, CopyError> {
        let (sender, pieces) = channel(PIECES);
        let job = Job::new(NewJob {
            kind: Kind::Upload,
            table,
            file: file.clone(),
            session: session.clone(),
            now: inner.database.now_micros(),
        });
        let reader = Reader {
            pieces,
            piece: Bytes::new(),
            is_over: false,
            runtime: Handle::current(),
            idle_check: IdleCheck { inner: Arc::downgrade(inner), job: Arc::downgrade(&job) },
            idle: Duration::ZERO,
        };
        let source = Source::Stream(ByteStream::new(PathBuf::from(file), Box::new(reader)));
        let (shared, submitted) = (Arc::clone(inner), Arc::clone(&job));
        // Errors in the options are reported before any byte is sent.
        let work = super::blocking(move || {
            let rejects = Rejects::new(&shared, &submitted);
            let list = RejectList::Taken(Arc::clone(&rejects) as _);
            let options = options(&shared, source, list)?;
            let work: Work = Box::new(move |inner: &Arc<Inner>, job: &Arc<Job>| {
                run_import(inner, job, &options, &rejects)
            });
            Ok(work)
        });
        let work = Mutex::new(Some(work.await?));
        let account = |budget: &Arc<Budget>| budget.account(Claimant::of(session));
        let reservation = inner.budget.as_ref().map(|budget| account(budget).reserve(0));
        let reservation = reservation.transpose().map_err(|error| over_budget(&error))?;
        let state = State::Collecting { inner: Arc::clone(inner), job, work };
        Ok(Upload { sender, state, small: BytesMut::new(), reservation })
    }

    fn job(&self) -> &Arc<Job> {
        match &self.state {
            State::Collecting { job, .. } => job,
            State::Begun(handle) => handle.job(),
        }
    }

    /// Returns the id of the job: 16 hex digits.
    pub(crate) fn id(&self) -> &str {
        &self.job().id
    }

    /// Takes a place among the jobs, if it has none (upload-3).
    async fn begin_job(&mut self) -> Result<(), CopyError> {
        let State::Collecting { inner, job, work } = &self.state else { return Ok(()) };
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(work) = work else {
            return Err(CopyError::new("XX000", "internal error: an import began twice"));
        };
        let (inner, job) = (Arc::clone(inner), Arc::clone(job));
        // The submission may write to the log, which waits for the disk.
        let handle = super::blocking(move || inner.submit(job, work)).await?;
        self.state = State::Begun(handle);
        self.reservation = None;
        Ok(())
    }

    /// Keeps bytes that are too few for a piece.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        if let Some(reservation) = &mut self.reservation {
            let counted = reservation.try_resize(self.small.len() + bytes.len());
            counted.map_err(|error| over_budget(&error))?;
        }
        self.small.extend_from_slice(bytes);
        Ok(())
    }

    /// Passes bytes to the import.
    pub(crate) async fn push(&mut self, bytes: Bytes) -> Result<(), CopyError> {
        if bytes.len() + self.small.len() < PIECE_BYTES {
            return self.keep(&bytes);
        }
        let small = self.small.split().freeze();
        for piece in [small, bytes] {
            if !piece.is_empty() {
                self.send(Piece::Bytes(piece)).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, piece: Piece) -> Result<(), CopyError> {
        self.begin_job().await?;
        let job = Arc::clone(self.job());
        tokio::select! {
            biased;
            sent = self.sender.send(piece) => if sent.is_ok() { return Ok(()) },
            () = job.stopped() => {}
            // The import may have ended without reading this piece.
            _ = job.ended() => {}
        }
        // The import reads nothing more: it has ended, or is about to.
        let (closed, _) = channel(1);
        self.sender = closed;
        match job.ended().await {
            Err(error) => Err(error),
            Ok(_) => {
                Err(CopyError::new("XX000", "internal error: an import ended before its input"))
            }
        }
    }

    /// Ends the upload: waits for the commit, and returns the result.
    pub(crate) async fn finish(mut self) -> Result<Arc<Ended>, CopyError> {
        let small = self.small.split().freeze();
        if !small.is_empty() {
            self.send(Piece::Bytes(small)).await?;
        }
        self.send(Piece::End).await?;
        self.job().ended().await
    }
}

#[async_trait]
impl BulkSink for Upload {
    async fn push(&mut self, bytes: &[u8]) -> BulkResult<()> {
        if bytes.len() + self.small.len() < PIECE_BYTES {
            return Ok(self.keep(bytes)?);
        }
        Ok(Upload::push(self, Bytes::copy_from_slice(bytes)).await?)
    }

    async fn finish(self: Box<Self>) -> BulkResult<BulkOutcome> {
        let ended = Upload::finish(*self).await?;
        Ok(ended.outcome.clone())
    }
}

fn over_budget(error: &OverBudget) -> CopyError {
    CopyError::new("53200", error.to_string())
}

/// The import's side of an upload.
struct Reader {
    pieces: Receiver<Piece>,
    piece: Bytes,
    is_over: bool,
    runtime: Handle,
    idle_check: IdleCheck,
    /// The time that the import has waited for its client, less that which its bytes are worth
    /// (upload-4).
    idle: Duration,
}

/// The check of an import that waits for its client while other jobs wait (upload-4).
struct IdleCheck {
    inner: Weak<Inner>,
    job: Weak<Job>,
}

impl Reader {
    /// Waits for the next piece, with a bound while other jobs wait (upload-4).
    fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let start = Instant::now();
            let runtime = self.runtime.clone();
            // The timer needs the runtime.
            let next =
                runtime.block_on(async { timeout(CHECK_INTERVAL, self.pieces.recv()).await });
            self.idle += start.elapsed();
            if let Ok(piece) = next {
                let bytes = match &piece {
                    Some(Piece::Bytes(bytes)) => bytes.len(),
                    Some(Piece::End) | None => 0,
                };
                self.idle = self.idle.saturating_sub(worth(bytes));
                return Ok(piece);
            }
            self.idle_check.check(self.idle)?;
        }
    }
}

/// Returns the waiting time that received bytes make up for.
fn worth(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / MIN_BYTES_PER_SECOND)
}

impl IdleCheck {
    fn check(&self, idle: Duration) -> io::Result<()> {
        let Some(inner) = self.inner.upgrade() else { return Ok(()) };
        let limit = inner.config.idle_timeout;
        if limit.is_zero() || idle < limit || !inner.queue.has_waiting() {
            return Ok(());
        }
        if let Some(job) = self.job.upgrade() {
            job.end_idle(limit);
        }
        Err(io::Error::new(ErrorKind::TimedOut, "the upload was idle while other jobs waited"))
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.is_over {
            match self.next()? {
                Some(Piece::Bytes(bytes)) => self.piece = bytes,
                Some(Piece::End) => self.is_over = true,
                // The sender was dropped before the end (upload-2).
                None => {
                    let why = "the upload ended before its end";
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, why));
                }
            }
        }
        let count = self.piece.len().min(into.len());
        self.piece.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}
