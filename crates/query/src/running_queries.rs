//! The running statements of an engine: their ids, sessions, progress and cancellation.
//!
//! - running_queries-1. An id is given once. Ids rise from the microsecond in which the engine was
//!   made, so that an id noted before a restart names no statement after it, unless the clock was
//!   set back.
//! - A statement is listed from before it is planned until its last row was taken, its rows were
//!   dropped, or it has failed, and no longer: nothing here grows with finished statements.
//! - A cancel goes to the `CancelState` of the statement with its id, which no other statement has.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result as PlanResult;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};
use tidegate_model::ByteCount;
use tidegate_storage::Database;

use crate::cancel::{CancelReason, CancelState};
use crate::memory::StatementMemory;
use crate::session::Session;

/// All running statements of an engine.
#[derive(Debug)]
pub(crate) struct RunningQueries {
    /// Provides the clock.
    database: Arc<Database>,
    next_id: AtomicU64,
    running: Mutex<BTreeMap<u64, Arc<RunningQuery>>>,
}

/// The first process number of statements whose session has none; connections count from 1 and do
/// not reach it.
const OTHERS_FROM: u32 = 1 << 30;

/// A running statement.
#[derive(Debug)]
pub(crate) struct RunningQuery {
    pub(crate) id: u64,
    pub(crate) sql: Arc<str>,
    pub(crate) session: Session,
    /// The start, in microseconds since 1970.
    pub(crate) start: i64,
    pub(crate) memory: Arc<StatementMemory>,
    stop: Arc<CancelState>,
    rows_out: AtomicU64,
    stage: Mutex<Stage>,
}

/// The progress of a statement.
#[derive(Debug)]
struct Stage {
    state: State,
    since: i64,
    /// The plan, once the statement is planned.
    plan: Option<Arc<dyn ExecutionPlan>>,
}

/// The state of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The statement is being planned.
    Planning,
    /// Rows are being computed.
    Running,
    /// Rows wait for the client.
    Waiting,
    /// The statement was cancelled.
    Canceled,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Planning => "planning",
            State::Running => "running",
            State::Waiting => "waiting",
            State::Canceled => "cancelled",
        }
    }
}

/// Keeps a statement in the list; dropping it takes it out.
#[derive(Debug)]
pub(crate) struct Listing {
    queries: Arc<RunningQueries>,
    running: Arc<RunningQuery>,
}

impl RunningQueries {
    pub(crate) fn new(database: &Arc<Database>) -> RunningQueries {
        // running_queries-1. A statement takes longer than a microsecond, so ids do not run ahead
        // of the clock.
        let first = u64::try_from(database.now_micros()).unwrap_or(0);
        RunningQueries {
            database: Arc::clone(database),
            next_id: AtomicU64::new(first),
            running: Mutex::default(),
        }
    }

    /// Lists a new statement, in planning.
    pub(crate) fn begin(
        self: &Arc<Self>,
        sql: &Arc<str>,
        session: &Session,
        memory: Arc<StatementMemory>,
        stop: &Arc<CancelState>,
    ) -> Listing {
        let start = self.database.now_micros();
        let running = Arc::new(RunningQuery {
            id: self.next_id.fetch_add(1, Relaxed),
            sql: Arc::clone(sql),
            session: session.clone(),
            start,
            memory,
            stop: Arc::clone(stop),
            rows_out: AtomicU64::new(0),
            stage: Mutex::new(Stage { state: State::Planning, since: start, plan: None }),
        });
        let earlier = self.running().insert(running.id, Arc::clone(&running));
        assert!(earlier.is_none(), "running_queries-1");
        Listing { queries: Arc::clone(self), running }
    }

    /// The running statements, by their ids.
    pub(crate) fn list(&self) -> Vec<Arc<RunningQuery>> {
        self.running().values().cloned().collect()
    }

    /// Cancels a statement and returns true, if one has this id and `session` may cancel it.
    pub(crate) fn cancel(&self, id: u64, session: &Session) -> bool {
        let Some(running) = self.running().get(&id).cloned() else { return false };
        if !session.reaches(&running.session) {
            return false;
        }
        running.stage().enter(State::Canceled, self.database.now_micros());
        running.stop.cancel();
        true
    }

    /// Cancels the largest statement of the user whose statements have most memory, because the
    /// process is over its limit. Returns its id and its bytes.
    pub(crate) fn end_largest(&self, limit: ByteCount) -> Option<(u64, ByteCount)> {
        let now = self.database.now_micros();
        let statements = self.list().into_iter();
        let going_on = statements.filter(|it| it.state(now).0 != State::Canceled);
        let sized = going_on.map(|it| (it.memory.bytes(), it)).filter(|(bytes, _)| 0 < *bytes);
        let sized = sized.collect::<Vec<_>>();
        let mut users = HashMap::<Option<&str>, u64>::new();
        for (bytes, running) in &sized {
            *users.entry(running.user()).or_default() += bytes;
        }
        // Many small statements of one user must not cause the cancel of a large one of another.
        let most = |(bytes, running): &(u64, Arc<RunningQuery>)| (users[&running.user()], *bytes);
        let (bytes, largest) = sized.iter().max_by_key(|it| most(it))?;
        let bytes = *bytes;
        largest.stage().enter(State::Canceled, now);
        largest.stop.cancel_for(CancelReason::Memory { limit });
        Some((largest.id, ByteCount(bytes)))
    }

    /// Cancels the statement that has spilled most, because the disk is nearly full. Returns its id
    /// and all bytes that it has spilled so far.
    pub(crate) fn end_largest_spill(&self) -> Option<(u64, ByteCount)> {
        let now = self.database.now_micros();
        let statements = self.list().into_iter();
        let going_on = statements.filter(|it| it.state(now).0 != State::Canceled);
        let sized = going_on.map(|it| (it.spill_bytes(), it)).filter(|(bytes, _)| 0 < *bytes);
        let (bytes, largest) = sized.max_by_key(|(bytes, _)| *bytes)?;
        largest.stage().enter(State::Canceled, now);
        largest.stop.cancel_for(CancelReason::Disk);
        Some((largest.id, ByteCount(bytes)))
    }

    /// Cancels all statements, because the process ends.
    pub(crate) fn end_all(&self) {
        let now = self.database.now_micros();
        for running in self.list() {
            running.stage().enter(State::Canceled, now);
            running.stop.cancel_for(CancelReason::Stopping);
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<RunningQuery>>> {
        // No code that can panic runs while it is locked.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningQuery {
    fn user(&self) -> Option<&str> {
        self.session.origin().user.as_deref()
    }

    /// The state, and its start in microseconds since 1970.
    pub(crate) fn state(&self, now: i64) -> (State, i64) {
        let stage = self.stage();
        match self.stop.waiting() {
            Some(waiting) if stage.state == State::Running => {
                let waiting = i64::try_from(waiting.as_micros()).unwrap_or(i64::MAX);
                (State::Waiting, now.saturating_sub(waiting))
            }
            _ => (stage.state, stage.since),
        }
    }

    /// The process number for PostgreSQL's clients: that of the connection, so that
    /// `pg_backend_pid()` matches only the session's own statements. Statements of sessions without
    /// a connection have numbers that connections do not reach.
    pub(crate) fn process(&self) -> u32 {
        match self.session.process() {
            0 => OTHERS_FROM | u32::try_from(self.id % u64::from(OTHERS_FROM)).expect("30 bits"),
            process => process,
        }
    }

    /// The rows that were returned.
    pub(crate) fn rows_out(&self) -> u64 {
        self.rows_out.load(Relaxed)
    }

    /// The plan, once the statement is planned.
    pub(crate) fn plan(&self) -> Option<Arc<dyn ExecutionPlan>> {
        self.stage().plan.clone()
    }

    /// Bytes that were spilled to disk for lack of memory.
    pub(crate) fn spill_bytes(&self) -> u64 {
        self.plan().map_or(0, |plan| spill_bytes(plan.as_ref()))
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stage {
    fn enter(&mut self, state: State, now: i64) {
        // A cancelled statement stays cancelled.
        if self.state != State::Canceled {
            (self.state, self.since) = (state, now);
        }
    }
}

fn spill_bytes(plan: &dyn ExecutionPlan) -> u64 {
    let own = plan.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0);
    let inputs = plan.children().into_iter().map(|input| spill_bytes(input.as_ref()));
    own as u64 + inputs.sum::<u64>()
}

impl Listing {
    pub(crate) fn running(&self) -> &Arc<RunningQuery> {
        &self.running
    }

    /// Sets the plan; the statement runs from now on.
    pub(crate) fn runs(&self, plan: &Arc<dyn ExecutionPlan>) {
        let mut stage = self.running.stage();
        stage.plan = Some(Arc::clone(plan));
        stage.enter(State::Running, self.queries.database.now_micros());
    }

    /// The rows of a statement, which stays listed until their end.
    pub(crate) fn until_the_end_of(
        self,
        stream: SendableRecordBatchStream,
    ) -> SendableRecordBatchStream {
        Box::pin(Listed { stream, listing: Some(self) })
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.queries.running().remove(&self.running.id);
    }
}

/// The rows of a statement that stays listed until their end.
struct Listed {
    stream: SendableRecordBatchStream,
    /// `None` once the rows have ended.
    listing: Option<Listing>,
}

impl Stream for Listed {
    type Item = PlanResult<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<PlanResult<RecordBatch>>> {
        let batch = ready!(self.stream.poll_next_unpin(context));
        match (&batch, &self.listing) {
            (Some(Ok(batch)), Some(listing)) => {
                listing.running.rows_out.fetch_add(batch.num_rows() as u64, Relaxed);
            }
            (Some(Ok(_)), None) => {}
            _ => self.listing = None,
        }
        Poll::Ready(batch)
    }
}

impl RecordBatchStream for Listed {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}
