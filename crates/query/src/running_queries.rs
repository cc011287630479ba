//! The running statements of an engine: their ids, sessions, progress and cancellation.
//!
//! - running_queries-1. An id is given once. Ids rise from the microsecond in which the engine was
//!   made, so that an id noted before a restart names no statement after it, unless the clock was
//!   set back.
//! - A statement is listed from before it is planned until its last row was taken, its rows were
//!   dropped, or it has failed, and no longer: nothing here grows with finished statements.
//! - A cancel goes to the `CancelState` of the statement with its id, which no other statement has.
//! - running_queries-2. The bytes of a statement are those that it has reserved (`memory`), or
//!   those that its threads have allocated and neither freed nor passed to its reader, if these are
//!   more: memory that no account has, such as that of planning, is found too. Threads are counted
//!   where a statement has some of its own (the lanes of a server). Values that its reader has
//!   received are subtracted in full, so the bytes are rather too low than too high.
//! - running_queries-3. A statement that was stopped counts until its threads have other work, at
//!   most for `ENDING_MICROS`: its memory is not free yet, and its user has it.
//! - running_queries-4. Statements that share threads have one heap. Those that wait for their
//!   readers count at most what the heap had when they began to wait: what has grown since belongs
//!   to the others.
//! - running_queries-5. A plan is charged to its statement from its planning on, until its rows
//!   have ended, or a cancel comes while they wait for their reader: cursors that are never read
//!   have plans, and a plan has the bytes of its literals.

mod victim;

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result as PlanResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};
use tidegate_model::ByteCount;
use tidegate_storage::{Database, HeapUse};

use crate::cancel::{CancelReason, CancelState};
use crate::memory::StatementMemory;
use crate::role::Role;
use crate::session::Session;
use victim::{Among, Share, victim};

/// All running statements of an engine.
#[derive(Debug)]
pub(crate) struct RunningQueries {
    /// Provides the clock.
    database: Arc<Database>,
    next_id: AtomicU64,
    running: Mutex<BTreeMap<u64, Arc<RunningQuery>>>,
    /// The stopped statements whose threads may still work (running_queries-3), at most one for
    /// each group of threads.
    ending: Mutex<Vec<Ending>>,
}

/// A stopped statement that is not listed any more.
#[derive(Debug)]
struct Ending {
    user: Option<String>,
    heap: HeapUse,
    given_bytes: u64,
    since: i64,
}

/// The time for which stopped statements count (running_queries-3): longer than a step of an
/// operator takes, and short enough that a wrong count does not protect others for long.
const ENDING_MICROS: i64 = 60_000_000;

/// The name of the memory of plans in messages (running_queries-5).
const PLAN: &str = "QueryPlan";

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
    /// The heap of its threads; `None` if it has none of its own.
    heap: Option<HeapUse>,
    rows_out: AtomicU64,
    /// The bytes of the values that its reader has received.
    given_bytes: AtomicU64,
    stage: Mutex<Stage>,
}

/// The progress of a statement.
#[derive(Debug)]
struct Stage {
    state: State,
    since: i64,
    /// The plan, once the statement is planned.
    plan: Option<Arc<dyn ExecutionPlan>>,
    /// The memory of the plan (running_queries-5).
    plan_memory: Option<MemoryReservation>,
}

/// The threads of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Threads {
    Own,
    /// Other statements have them, too.
    Shared,
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
            ending: Mutex::default(),
        }
    }

    /// Lists a new statement, in planning. The calling thread is one of its own, if it has some.
    pub(crate) fn begin(
        self: &Arc<Self>,
        sql: &Arc<str>,
        session: &Session,
        memory: Arc<StatementMemory>,
        stop: &Arc<CancelState>,
    ) -> Listing {
        let start = self.database.now_micros();
        let heap = HeapUse::begin();
        if let Some(heap) = &heap {
            stop.count_heap(heap);
        }
        let stage = Stage { state: State::Planning, since: start, plan: None, plan_memory: None };
        let running = Arc::new(RunningQuery {
            id: self.next_id.fetch_add(1, Relaxed),
            sql: Arc::clone(sql),
            session: session.clone(),
            start,
            memory,
            stop: Arc::clone(stop),
            heap,
            rows_out: AtomicU64::new(0),
            given_bytes: AtomicU64::new(0),
            stage: Mutex::new(stage),
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
        running.forget_plan();
        true
    }

    /// Cancels a statement because the process is over its limit: the largest of the user who has
    /// most memory, those of administrators last (`victim`). Returns its id and its bytes.
    pub(crate) fn end_largest(&self, limit: ByteCount) -> Option<(u64, ByteCount)> {
        self.end_one(limit, Among::All)
    }

    /// The same among the users whose stopped statements still have much memory.
    pub(crate) fn end_largest_of_stopped(&self, limit: ByteCount) -> Option<(u64, ByteCount)> {
        self.end_one(limit, Among::UsersWithStopped)
    }

    fn end_one(&self, limit: ByteCount, among: Among) -> Option<(u64, ByteCount)> {
        let now = self.database.now_micros();
        let (listed, ending) = (self.list(), self.ending(now));
        let mut shares = shares(&listed);
        shares.extend(ending.iter().map(Ending::share));
        let chosen = victim(&shares, limit.0, among)?;
        let (bytes, largest) = (shares[chosen].bytes, &listed[chosen]);
        largest.stage().enter(State::Canceled, now);
        largest.stop.cancel_for(CancelReason::Memory { limit });
        largest.forget_plan();
        Some((largest.id, ByteCount(bytes)))
    }

    /// The bytes of statements that were stopped and still have memory (running_queries-3).
    pub(crate) fn ending_bytes(&self) -> ByteCount {
        let now = self.database.now_micros();
        let listed = self.list();
        let listed = shares(&listed).into_iter().map(Share::ending_bytes).sum::<u64>();
        ByteCount(self.ending(now).iter().map(Ending::bytes).fold(listed, u64::saturating_add))
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
        largest.forget_plan();
        Some((largest.id, ByteCount(bytes)))
    }

    /// Cancels all statements, because the process ends.
    pub(crate) fn end_all(&self) {
        let now = self.database.now_micros();
        for running in self.list() {
            running.stage().enter(State::Canceled, now);
            running.stop.cancel_for(CancelReason::Stopping);
            running.forget_plan();
        }
    }

    /// The stopped statements whose threads may still work (running_queries-3).
    fn ending(&self, now: i64) -> MutexGuard<'_, Vec<Ending>> {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        ending.retain(|it| it.heap.is_latest() && now.saturating_sub(it.since) < ENDING_MICROS);
        ending
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<RunningQuery>>> {
        // No code that can panic runs while it is locked.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of each of these statements.
fn shares(listed: &[Arc<RunningQuery>]) -> Vec<Share<'_>> {
    let mut users_of_heaps = HashMap::<usize, usize>::new();
    let heaps = listed.iter().filter_map(|it| it.heap.as_ref());
    heaps.for_each(|heap| *users_of_heaps.entry(heap.group()).or_default() += 1);
    let threads = |it: &RunningQuery| {
        let is_shared = it.heap.as_ref().is_some_and(|heap| 1 < users_of_heaps[&heap.group()]);
        if is_shared { Threads::Shared } else { Threads::Own }
    };
    listed.iter().map(|it| it.share(threads(it))).collect()
}

/// The bytes of a statement's heap that may be its own, of those that it has now and had at the
/// start of the present wait for its reader (running_queries-4).
fn own_heap_bytes(now: u64, at_wait: Option<u64>, threads: Threads) -> u64 {
    match (threads, at_wait) {
        (Threads::Shared, Some(at_wait)) => now.min(at_wait),
        (Threads::Shared, None) | (Threads::Own, _) => now,
    }
}

impl Ending {
    fn bytes(&self) -> u64 {
        self.heap.bytes().saturating_sub(self.given_bytes)
    }

    fn share(&self) -> Share<'_> {
        Share {
            user: self.user.as_deref(),
            is_admin: false,
            bytes: self.bytes(),
            is_going_on: false,
        }
    }
}

impl RunningQuery {
    /// The bytes that it has (running_queries-2).
    fn bytes(&self, threads: Threads) -> u64 {
        let allocated = self.heap.as_ref().map_or(0, HeapUse::bytes);
        let allocated = own_heap_bytes(allocated, self.stop.heap_bytes_at_wait(), threads);
        let kept = allocated.saturating_sub(self.given_bytes.load(Relaxed));
        self.memory.bytes().max(kept)
    }

    fn share(&self, threads: Threads) -> Share<'_> {
        let origin = self.session.origin();
        Share {
            user: origin.user.as_deref(),
            is_admin: origin.role == Role::Admin,
            bytes: self.bytes(threads),
            is_going_on: self.stop.reason().is_none(),
        }
    }

    /// Forgets the plan of a statement that was cancelled while its rows wait for their reader: no
    /// more of them are computed (control_rows-1). A statement whose reader is a part of it still
    /// shows its plan.
    fn forget_plan(&self) {
        if self.stop.waiting().is_none() {
            return;
        }
        let forgotten = {
            let mut stage = self.stage();
            (stage.plan.take(), stage.plan_memory.take())
        };
        drop(forgotten);
    }

    /// This statement after its end, if it was stopped and its threads may still work
    /// (running_queries-3).
    fn ending(&self, now: i64) -> Option<Ending> {
        self.stop.reason()?;
        Some(Ending {
            user: self.session.origin().user.clone(),
            heap: self.heap.clone()?,
            given_bytes: self.given_bytes.load(Relaxed),
            since: now,
        })
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

    /// Counts rows that its reader receives.
    fn gives(&self, batch: &RecordBatch) {
        self.rows_out.fetch_add(batch.num_rows() as u64, Relaxed);
        if self.heap.is_some() {
            self.given_bytes.fetch_add(batch.get_array_memory_size() as u64, Relaxed);
        }
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

    /// Charges the statement for the bytes of its plan (running_queries-5).
    pub(crate) fn charge_plan(&self, bytes: usize) -> PlanResult<()> {
        if bytes == 0 {
            return Ok(());
        }
        let memory: Arc<dyn MemoryPool> = Arc::clone(&self.running.memory) as _;
        let reservation = MemoryConsumer::new(PLAN).register(&memory);
        reservation.try_grow(bytes)?;
        self.running.stage().plan_memory = Some(reservation);
        Ok(())
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
        let now = self.queries.database.now_micros();
        if let Some(stopped) = self.running.ending(now) {
            // In this order: its bytes are never missing from the counts.
            self.queries.ending(now).push(stopped);
        }
        self.queries.running().remove(&self.running.id);
        let plan_memory = self.running.stage().plan_memory.take();
        drop(plan_memory);
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
                listing.running.gives(batch);
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

#[cfg(test)]
mod tests {
    use super::*;

    // Each of hundreds of cursors on the same threads counted the memory of all later ones: the
    // end of one of them, which had a quarter of a megabyte, was to make up for ninety.
    #[test]
    fn a_waiting_statement_counts_no_memory_of_others_on_its_threads() {
        for (now, at_wait, threads, expected) in [
            (91, Some(1), Threads::Shared, 1),
            (1, Some(91), Threads::Shared, 1),
            (91, None, Threads::Shared, 91),
            (91, Some(1), Threads::Own, 91),
        ] {
            assert_eq!(own_heap_bytes(now, at_wait, threads), expected, "running_queries-4");
        }
    }
}
