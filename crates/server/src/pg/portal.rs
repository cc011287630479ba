//! A statement that is being done for a client: its rows come from other threads, a batch at
//! a time, and go out as far as they are asked for.
//!
//! - PO1. Between the engine and the client are at most `QUEUE` batches and the one that is being
//!   sent: whoever takes his rows slowly, or some of them only, slows his statement and costs no
//!   memory.
//! - PO2. Dropping it ends the statement.
//! - PO3. A query that is known to be quick is worked on by the connection itself: no thread waits
//!   for another (`tidegate_query::Engine::known`).
//! - PO4. Rows that may take long to write are written on a blocking thread, a part at a time, and
//!   hold up no other connection.
//! - PO5. A statement that somebody has ended while nobody asks for its rows keeps none of them.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use bytes::BytesMut;
use futures::StreamExt;
use tidegate_query::{
    Answer, CancelReason, Canceler, Error as QueryError, Parameter, SendableRecordBatchStream,
    Session, StatementOptions,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::encode::{Format, Guard, Room, RowStopped, RowWriter, arrays, weight};
use super::fault::Fault;
use crate::seat::Seat;
use crate::shared::{CountedQuery, Services};

/// Batches that wait for the client (PO1).
const QUEUE: usize = 2;
/// Bytes of arrays up to which a batch is written by the connection itself: it takes some
/// milliseconds at most (PO4).
pub(super) const LIGHT_BYTES: usize = 4 << 20;

/// What the engine says of a statement.
#[derive(Debug)]
pub(super) enum Event {
    /// It has rows.
    Rows {
        schema: SchemaRef,
        notices: Vec<String>,
    },
    Batch(RecordBatch),
    /// All rows were sent.
    End,
    /// Something was changed.
    Done {
        tag: String,
        notices: Vec<String>,
    },
    Failed(Box<QueryError>),
}

/// A statement that works (PO2).
pub(super) enum Running {
    /// On the threads of its seat.
    Apart {
        events: Receiver<Event>,
        #[expect(dead_code, reason = "dropping it ends the work")]
        work: AbortOnDrop,
    },
    /// Here, as its rows are asked for (PO3).
    Here(SendableRecordBatchStream),
    /// Not any more (PO5).
    Ended(CancelReason),
}

/// Ends a task.
pub(super) struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Running::Apart { .. } => "Apart",
            Running::Here(_) => "Here",
            Running::Ended(_) => "Ended",
        })
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) sql: Arc<str>,
    pub(super) parameters: Arc<[Parameter]>,
    pub(super) session: Session,
    pub(super) canceler: Canceler,
}

impl Work {
    pub(super) fn options(&self) -> StatementOptions {
        let (session, canceler) = (self.session.clone(), Some(self.canceler.clone()));
        StatementOptions { timeout: None, session, canceler }
    }
}

impl Running {
    /// A statement that works on these threads; what it says first is still to come.
    pub(super) fn start(services: &Arc<Services>, work: Work, threads: &Handle) -> Running {
        let (sender, events) = channel(QUEUE);
        let services = Arc::clone(services);
        let work = threads.spawn(async move {
            // If nobody waits for it any more, nobody needs to know.
            let _ = run(&services, work, &sender).await;
        });
        Running::Apart { events, work: AbortOnDrop(work) }
    }

    /// What the engine says next; `None` if it has panicked.
    pub(super) async fn next(&mut self) -> Option<Event> {
        match self {
            Running::Apart { events, .. } => events.recv().await,
            Running::Here(stream) => Some(match stream.next().await {
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

/// Nobody takes the answer any more.
struct Abandoned;

async fn run(services: &Services, work: Work, sender: &Sender<Event>) -> Result<(), Abandoned> {
    let send = async |event| sender.send(event).await.map_err(|_| Abandoned);
    let failed = |error| Event::Failed(Box::new(error));
    let options = work.options();
    match services.engine.execute_bound(&work.sql, &work.parameters, &options).await {
        Err(error) => send(failed(error)).await,
        Ok(Answer::Done { tag, notices, .. }) => send(Event::Done { tag, notices }).await,
        Ok(Answer::Rows { schema, mut stream, notices, .. }) => {
            send(Event::Rows { schema, notices }).await?;
            while let Some(batch) = stream.next().await {
                match batch {
                    Ok(batch) => send(Event::Batch(batch)).await?,
                    Err(error) => return send(failed(QueryError::from(error))).await,
                }
            }
            send(Event::End).await
        }
    }
}

/// How far a portal is.
#[derive(Debug)]
pub(super) enum State {
    /// Nothing has been done yet.
    Ready,
    /// Rows come.
    Rows(Box<Rows>),
    /// Nothing more comes.
    Over,
}

/// A statement as the server has let it in.
#[derive(Debug)]
pub(super) struct Admitted {
    /// None is needed to end another statement.
    pub(super) seat: Option<Seat>,
    pub(super) counted: CountedQuery,
}

/// A statement whose rows are being found.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) running: Running,
    pub(super) schema: SchemaRef,
    /// Those that were found and not taken.
    pending: Option<Pending>,
    pub(super) canceler: Canceler,
    pub(super) admitted: Admitted,
}

/// Rows that wait to be taken.
#[derive(Debug)]
struct Pending {
    schema: SchemaRef,
    batch: RecordBatch,
    /// As they are written, once the first of them is.
    arrays: Option<Vec<ArrayRef>>,
    next: usize,
    /// Set if it may take long to write them (PO4).
    is_heavy: bool,
}

/// Rows that wait, on their way to where they are written (PO4).
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
        let writer = RowWriter::new(&self.schema, arrays, formats)?;
        let mut written = 0;
        while self.next < self.batch.num_rows()
            && written < share.rows_max
            && room.len() < share.bytes_max
        {
            writer.push(self.next, room)?;
            self.next += 1;
            written += 1;
        }
        Ok(written)
    }
}

/// About how many bytes the values of a batch have that may be long.
pub(super) fn weight_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| weight(column.as_ref())).sum()
}

/// The number of rows that were written.
pub(super) type Written = Result<u64, Unwritten>;

/// The reason for which rows are not written.
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

impl From<Unwritten> for Fault {
    fn from(unwritten: Unwritten) -> Fault {
        match unwritten {
            Unwritten::Stopped(stopped) => stopped.into(),
            Unwritten::Arrow(error) => Fault::new("XX000", error.to_string()),
        }
    }
}

impl Heavy {
    /// Writes rows into a buffer of their own: at most so many, and not many more bytes.
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
        (canceler, admitted): (Canceler, Admitted),
    ) -> Rows {
        Rows { running, schema, pending: None, canceler, admitted }
    }

    /// Nobody asks for rows now: others have the turn, and if nobody ever does, all is well.
    pub(super) fn wait(&mut self) {
        self.admitted.seat.iter_mut().for_each(Seat::pause);
        self.admitted.counted.note("00000");
    }

    /// Lets go of all rows if somebody has ended the statement (PO5).
    pub(super) fn end_canceled(&mut self) {
        if self.canceler.is_canceled() && self.is_working() {
            self.running = Running::Ended(self.canceler.reason());
            self.pending = None;
            self.admitted.seat = None;
            self.admitted.counted.note("57014");
        }
    }

    /// Whether its rows are still there.
    pub(super) fn is_working(&self) -> bool {
        !matches!(self.running, Running::Ended(_))
    }

    /// Whether rows wait that can be taken at once.
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

    /// Rows that wait and may take long to write (PO4); they are to be given back.
    pub(super) fn take_heavy(&mut self) -> Option<Heavy> {
        self.pending.take_if(|pending| pending.is_heavy).map(Heavy)
    }

    /// Takes back the rows that were not written yet.
    pub(super) fn give_back(&mut self, Heavy(pending): Heavy) {
        self.pending = Some(pending).filter(|it| it.next < it.batch.num_rows());
    }

    /// Writes rows that wait: at most so many, and not many more bytes. Says how many.
    pub(super) fn write(
        &mut self,
        formats: &[Format],
        share: Share,
        room: &mut Room<'_>,
    ) -> Result<u64, Fault> {
        let Some(mut pending) = self.pending.take() else { return Ok(0) };
        let written = pending.write(formats, share, room)?;
        self.give_back(Heavy(pending));
        Ok(written)
    }

    /// Passes over rows that wait, at most so many. Says how many.
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
