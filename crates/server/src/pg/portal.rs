//! Execution of a statement for a client: rows are computed on other threads, a batch at a time,
//! and sent as far as they are requested.
//!
//! - portal-1. The next batch is requested from the engine when all rows of the one before it are
//!   written: until then, the engine charges the statement for that one. A client that takes its
//!   rows slowly, or only some of them, slows its statement down, and costs no memory that is
//!   counted nowhere.
//! - portal-2. Dropping it ends the statement, within its current batch: the task that awaits the
//!   rows may have to wait for a thread until then, so the statement is cancelled by its handle
//!   too.
//! - portal-3. A query that is known to be quick runs on the thread of its connection, without a
//!   change of threads (`tidegate_query::Engine::known`).
//! - portal-4. Rows that may take long to write are written on a blocking thread, a part at a time,
//!   and delay no other connection.
//! - portal-5. A statement that is cancelled while its client requests no rows keeps none of them.
//! - portal-6. The query of a cursor reads the tables as they are at its DECLARE, and computes no
//!   row before the first FETCH: until then it has no permit, and its plan is memory of its user
//!   (running_queries-5).

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use bytes::BytesMut;
use futures::StreamExt;
use tidegate_query::{
    Answer, CancelHandle, CancelReason, Error as QueryError, Parameter, SendableRecordBatchStream,
    Session, StatementOptions, is_copy,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::encode::{BatchWriter, Format, Guard, Room, RowStopped, arrays, weight};
use super::error_response::ErrorResponse;
use crate::execution_slot::ExecutionSlot;
use crate::server_state::{CountedQuery, Services};

/// The bytes of arrays up to which a batch is written on the thread of the connection, which takes
/// some milliseconds at most (portal-4).
pub(super) const LIGHT_BYTES: usize = 4 << 20;

/// An event of the engine about a statement.
#[derive(Debug)]
pub(super) enum Event {
    /// The statement has rows.
    Rows {
        schema: SchemaRef,
        notices: Vec<String>,
    },
    Batch(RecordBatch),
    /// All rows were sent.
    End,
    /// The statement has no rows, and is done.
    Done {
        tag: String,
        notices: Vec<String>,
    },
    Failed(Box<QueryError>),
}

/// A running statement (portal-2).
pub(super) enum Running {
    /// It runs on the threads of its slot.
    Spawned {
        events: Receiver<Event>,
        /// Tells the work that the next batch is requested (portal-1).
        request: Arc<Notify>,
        /// True if the next event is requested and has not come.
        is_requested: bool,
        #[expect(dead_code, reason = "dropping it ends the work")]
        work: AbortOnDrop,
    },
    /// It runs on this thread, as its rows are requested (portal-3).
    Inline(SendableRecordBatchStream),
    /// It was cancelled (portal-5).
    Ended(CancelReason),
}

/// A task that is aborted when this is dropped.
pub(super) struct AbortOnDrop {
    task: JoinHandle<()>,
    /// The handle of its statement (portal-2); `None` for a COPY, whose job runs on.
    cancel_handle: Option<CancelHandle>,
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.task.abort();
        self.cancel_handle.iter().for_each(CancelHandle::cancel);
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Running::Spawned { .. } => "Spawned",
            Running::Inline(_) => "Inline",
            Running::Ended(_) => "Ended",
        })
    }
}

/// A statement to execute.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) sql: Arc<str>,
    pub(super) parameters: Arc<[Parameter]>,
    pub(super) session: Session,
    pub(super) cancel_handle: CancelHandle,
    /// True if its rows may be requested much later (portal-6).
    pub(super) is_cursor: bool,
}

impl Work {
    pub(super) fn options(&self) -> StatementOptions {
        let (session, cancel_handle) = (self.session.clone(), Some(self.cancel_handle.clone()));
        StatementOptions { timeout: None, session, cancel_handle }
    }
}

impl Running {
    /// Starts a statement on these threads, without waiting for its first event.
    pub(super) fn start(services: &Arc<Services>, work: Work, threads: &Handle) -> Running {
        let (sender, events) = channel(1);
        let services = Arc::clone(services);
        let request = Arc::new(Notify::new());
        let requested = Arc::clone(&request);
        let cancel_handle = (!is_copy(&work.sql)).then(|| work.cancel_handle.clone());
        let task = threads.spawn(async move {
            // If the client has gone, there is no receiver.
            let _ = execute(&services, work, &sender, &requested).await;
        });
        // The first event comes without a request.
        let work = AbortOnDrop { task, cancel_handle };
        Running::Spawned { events, request, is_requested: true, work }
    }

    /// Returns the next event; `None` if the engine has panicked.
    pub(super) async fn next(&mut self) -> Option<Event> {
        match self {
            Running::Spawned { events, request, is_requested, .. } => {
                if !*is_requested {
                    *is_requested = true;
                    request.notify_one();
                }
                let event = events.recv().await;
                *is_requested = false;
                event
            }
            Running::Inline(stream) => Some(match stream.next().await {
                Some(Ok(batch)) => Event::Batch(batch),
                Some(Err(error)) => Event::Failed(Box::new(QueryError::from(error))),
                None => Event::End,
            }),
            Running::Ended(reason) => {
                Some(Event::Failed(Box::new(QueryError::Canceled { reason: *reason })))
            }
        }
    }
}

/// The receiver of the answer has gone.
struct Abandoned;

async fn execute(
    services: &Services,
    work: Work,
    sender: &Sender<Event>,
    requested: &Notify,
) -> Result<(), Abandoned> {
    let send = async |event| sender.send(event).await.map_err(|_| Abandoned);
    let failed = |error| Event::Failed(Box::new(error));
    let options = work.options();
    let (engine, sql, parameters) = (&services.engine, &work.sql, &work.parameters);
    let answer = match work.is_cursor {
        true => engine.open_cursor(sql, parameters, &options).await,
        false => engine.execute_bound(sql, parameters, &options).await,
    };
    match answer {
        Err(error) => send(failed(error)).await,
        Ok(Answer::Done { tag, notices, .. }) => send(Event::Done { tag, notices }).await,
        Ok(Answer::Rows { schema, mut stream, notices, .. }) => {
            send(Event::Rows { schema, notices }).await?;
            loop {
                requested.notified().await;
                match stream.next().await {
                    Some(Ok(batch)) => send(Event::Batch(batch)).await?,
                    Some(Err(error)) => return send(failed(QueryError::from(error))).await,
                    None => return send(Event::End).await,
                }
            }
        }
    }
}

/// The state of a portal.
#[derive(Debug)]
pub(super) enum State {
    /// The statement has not begun.
    Ready,
    /// There are rows.
    Rows(Box<Rows>),
    /// All rows were taken.
    Over,
}

/// The admission and the count of a statement.
#[derive(Debug)]
pub(super) struct ActiveStatement {
    /// `None` for a cancel, which needs no permit.
    pub(super) slot: Option<ExecutionSlot>,
    pub(super) counted: CountedQuery,
}

/// A statement whose rows are being computed.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) running: Running,
    pub(super) schema: SchemaRef,
    /// The rows that were computed and not taken.
    pending: Option<Pending>,
    pub(super) cancel_handle: CancelHandle,
    pub(super) active: ActiveStatement,
}

/// Rows that wait to be taken.
#[derive(Debug)]
struct Pending {
    schema: SchemaRef,
    batch: RecordBatch,
    /// The arrays as they are written; `None` before the first row.
    arrays: Option<Vec<ArrayRef>>,
    next: usize,
    /// True if writing them may take long (portal-4).
    is_heavy: bool,
}

/// Pending rows that are moved to the thread that writes them (portal-4).
#[derive(Debug)]
pub(super) struct Heavy(Pending);

/// A written part of rows that take long.
pub(super) struct HeavyPart {
    pub(super) rest: Heavy,
    pub(super) bytes: BytesMut,
    pub(super) written: Written,
    pub(super) guard: Guard,
}

/// The most rows and bytes that are written at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) rows_max: u64,
    pub(super) bytes_max: usize,
}

impl Pending {
    fn write(&mut self, formats: &[Format], share: Share, room: &mut Room<'_>) -> Written {
        let arrays = match self.arrays.take() {
            Some(arrays) => arrays,
            None => arrays(&self.batch)?,
        };
        let arrays = self.arrays.insert(arrays);
        let left = u64::try_from(self.batch.num_rows() - self.next).unwrap_or(u64::MAX);
        let rows = usize::try_from(left.min(share.rows_max)).expect("no more than there are");
        let end = self.next + rows;
        let mut writer = BatchWriter::new(&self.schema, arrays, formats, rows)?;
        let start = self.next;
        while self.next < end && room.len() < share.bytes_max {
            self.next += writer.push(self.next..end, room)?;
        }
        let written = (self.next - start) as u64;
        Ok(written)
    }
}

/// Estimates the bytes of a batch's values that may be long.
pub(super) fn weight_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| weight(column.as_ref())).sum()
}

/// The number of rows that were written.
pub(super) type Written = Result<u64, Unwritten>;

/// The reason why rows were not written.
#[derive(Debug)]
pub(super) enum Unwritten {
    Stopped(RowStopped),
    Arrow(ArrowError),
}

impl From<RowStopped> for Unwritten {
    fn from(stopped: RowStopped) -> Unwritten {
        Unwritten::Stopped(stopped)
    }
}

impl From<ArrowError> for Unwritten {
    fn from(error: ArrowError) -> Unwritten {
        Unwritten::Arrow(error)
    }
}

impl From<Unwritten> for ErrorResponse {
    fn from(unwritten: Unwritten) -> ErrorResponse {
        match unwritten {
            Unwritten::Stopped(stopped) => stopped.into(),
            // A span of time that no interval is as long as.
            Unwritten::Arrow(ArrowError::ArithmeticOverflow(text)) => {
                ErrorResponse::new("22008", text)
            }
            Unwritten::Arrow(error) => ErrorResponse::new("XX000", error.to_string()),
        }
    }
}

impl Heavy {
    /// Writes rows into a buffer of their own, up to a number of rows and approximately of bytes.
    pub(super) fn write(mut self, formats: &[Format], share: Share, mut guard: Guard) -> HeavyPart {
        let mut bytes = BytesMut::new();
        let written = self.0.write(formats, share, &mut Room::new(&mut bytes, &mut guard));
        HeavyPart { rest: self, bytes, written, guard }
    }
}

impl Rows {
    pub(super) fn new(
        running: Running,
        schema: SchemaRef,
        cancel_handle: CancelHandle,
        active: ActiveStatement,
    ) -> Rows {
        Rows { running, schema, pending: None, cancel_handle, active }
    }

    /// Releases the permit while no rows are requested. If none are requested again, the statement
    /// counts as successful.
    pub(super) fn wait(&mut self) {
        self.active.slot.iter_mut().for_each(ExecutionSlot::pause);
        self.active.counted.note("00000");
    }

    /// Releases all rows if the statement was cancelled (portal-5).
    pub(super) fn end_canceled(&mut self) {
        if self.cancel_handle.is_canceled() && self.is_working() {
            self.running = Running::Ended(self.cancel_handle.reason());
            self.pending = None;
            self.active.slot = None;
            self.active.counted.note("57014");
        }
    }

    /// Returns true if its rows are still there.
    pub(super) fn is_working(&self) -> bool {
        !matches!(self.running, Running::Ended(_))
    }

    /// Returns true if pending rows can be taken at once.
    pub(super) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub(super) fn add(&mut self, batch: RecordBatch) {
        assert!(self.pending.is_none(), "all rows of a batch are taken before the next one comes");
        if 0 < batch.num_rows() {
            let schema = Arc::clone(&self.schema);
            let is_heavy = LIGHT_BYTES < weight_of(&batch);
            self.pending = Some(Pending { schema, batch, arrays: None, next: 0, is_heavy });
        }
    }

    /// Takes pending rows that may take long to write (portal-4); the caller has to give them back.
    pub(super) fn take_heavy(&mut self) -> Option<Heavy> {
        self.pending.take_if(|pending| pending.is_heavy).map(Heavy)
    }

    /// Takes back the rows that were not written yet.
    pub(super) fn give_back(&mut self, Heavy(pending): Heavy) {
        self.pending = Some(pending).filter(|it| it.next < it.batch.num_rows());
    }

    /// Writes pending rows, up to a number of rows and approximately of bytes. Returns their
    /// number.
    pub(super) fn write(
        &mut self,
        formats: &[Format],
        share: Share,
        room: &mut Room<'_>,
    ) -> Result<u64, ErrorResponse> {
        let Some(mut pending) = self.pending.take() else { return Ok(0) };
        let written = pending.write(formats, share, room)?;
        self.give_back(Heavy(pending));
        Ok(written)
    }

    /// Skips at most this many pending rows. Returns their number.
    pub(super) fn skip(&mut self, rows_max: u64) -> u64 {
        let Some(pending) = &mut self.pending else { return 0 };
        let left = pending.batch.num_rows() - pending.next;
        let skipped = usize::try_from(rows_max).unwrap_or(usize::MAX).min(left);
        pending.next += skipped;
        if skipped == left {
            self.pending = None;
        }
        skipped as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The task that awaits the rows was aborted, but no thread of its runtime was free to drop it:
    // they were all at work on a batch of the statement, for minutes.
    #[tokio::test]
    async fn a_dropped_statement_is_cancelled_while_its_threads_are_at_work() {
        let cancel_handle = CancelHandle::default();
        let task = tokio::spawn(std::future::pending());
        drop(AbortOnDrop { task, cancel_handle: Some(cancel_handle.clone()) });
        assert!(cancel_handle.is_canceled(), "portal-2");
    }
}
