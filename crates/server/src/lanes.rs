//! Lanes: thread pools that each run one statement, apart from all other statements.
//!
//! One poll of an operator can last seconds: a sort of buffered rows, a regular expression over a
//! batch, the output of a hash table. On shared threads, a few such statements stop all others.
//! With separate threads the kernel shares the cores fairly, within milliseconds, whatever a poll
//! does.
//!
//! - lanes-1. A lane is a runtime with as many workers as the engine has threads (`width` has the
//!   exception), and runs one statement at a time. Only statements of one user share a lane, when
//!   their user has its share of lanes, because statements whose clients read no rows keep theirs
//!   (`choice`).
//! - lanes-2. A lane whose threads have used `LEVELS` of CPU time for a statement gets a lower
//!   priority. A priority cannot be raised again, so such a lane is closed after its statement.
//! - lanes-3. A cancelled statement keeps its admission permit until none of its tasks is left, or
//!   until they use no more CPU time: however often statements are begun and cancelled, no more of
//!   them compute than there are permits.
//! - lanes-4. A lane is handed out when all its threads have started: a system without threads is
//!   an error of one statement.
//! - lanes-5. The threads of a lane are a group whose heap is counted (`tidegate_platform::heap`):
//!   memory that a statement takes beside its accounts is known to be its own.
//!
//! Not here: admission (`admission`), the choice of a lane (`choice`, a pure function), and
//! statements on the threads of their connections (`pg::portal`).

mod choice;
mod threads;

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tokio::time::{Instant, timeout};

use crate::admission::{Claimant, Permit, Shares};
use choice::{Choice, LaneUse, choose};
use threads::{Threads, start_runtime};

/// The levels of CPU time of a statement, each with the niceness of its threads from then on
/// (lanes-2): interactive statements take less than the first, and most reports less than the
/// second. The first is also that of threads that write streams (`let_others_go_first`).
const LEVELS: [(Duration, u8); 2] = [(Duration::from_millis(100), 5), (Duration::from_secs(1), 10)];
/// The niceness of the remaining tasks of a cancelled statement: no client waits for them.
const LEFT: u8 = 19;
/// The interval between two checks of the CPU time of lanes: short beside the first of `LEVELS`.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(25);
/// The number of all workers from which on new lanes have the fewest: 8 lanes of 64 workers.
const WORKERS: usize = 512;
/// The divisor of the remaining workers that gives the most workers of a new lane.
const WORKERS_PART: usize = 8;
/// The fewest workers of a lane, on a machine with two cores or more.
const WORKERS_MIN: usize = 2;
/// The lanes for each permit: the second is for statements that wait for their clients without one.
/// There may be some more (`choice`).
const LANES_PER_PERMIT: usize = 2;
/// The most idle lanes that are kept for later statements; others are closed, one per check.
const READY_MAX: usize = 8;
/// The number of idle lanes that are started in advance, so that no statement waits for new
/// threads.
const READY_MIN: usize = 2;
/// The longest wait for threads to start: it takes microseconds on an idle machine, and took more
/// than two seconds on one with fifteen times as much work as cores.
const START_MAX: Duration = Duration::from_secs(10);

/// The pool of all lanes.
pub(crate) struct Lanes {
    threads: NonZeroUsize,
    /// The lanes of all users, and of one (`choice`).
    shares: Shares,
    state: Mutex<State>,
    this: Weak<Lanes>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// The idle lanes; the last one was used last.
    ready: Vec<Arc<Inner>>,
    busy: HashMap<u64, Busy>,
    /// The lanes that are being started, each with the user of the statement that waits for it.
    starting: HashMap<u64, Option<Claimant>>,
    /// The lanes that no statement uses any more.
    closing: Vec<Arc<Inner>>,
    /// The lanes whose threads still wait for the disk, or plan for a client that has gone.
    closed: Vec<Arc<Inner>>,
    is_ended: bool,
}

/// A lane with a running statement, or with remaining tasks of one.
struct Busy {
    inner: Arc<Inner>,
    /// The user of all statements that use it (lanes-1).
    claimant: Claimant,
    /// The statements that use it and do not wait for their clients.
    working: usize,
    /// The statements that use it and wait for their clients, without a permit.
    waiting: usize,
    /// The CPU time of its threads at the first check of this use.
    base: Option<Duration>,
    /// The CPU time at the last check since the statement has ended.
    left: Option<Duration>,
    /// The niceness of its threads.
    niceness: u8,
    /// The permit, kept until no task remains.
    permit: Option<Permit>,
}

struct Inner {
    id: u64,
    width: usize,
    handle: Handle,
    /// `None` once the lane is closed.
    runtime: Mutex<Option<Runtime>>,
    threads: Arc<Threads>,
    /// True if its statement has ended, and tasks of it remain.
    is_left: AtomicBool,
}

/// The lane of a statement, until it is dropped.
pub(crate) struct Lane {
    lanes: Arc<Lanes>,
    inner: Arc<Inner>,
    /// The permit, released when no task of the statement remains (lanes-3).
    permit: Option<Permit>,
    /// True while the statement waits for its client.
    is_waiting: bool,
}

/// The reason why there is no lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoLane {
    /// The system has started too few threads.
    NoThreads {
        started: usize,
        wanted: usize,
    },
    Stopping,
}

impl NoLane {
    /// Returns the SQLSTATE.
    pub(crate) fn code(self) -> &'static str {
        match self {
            NoLane::NoThreads { .. } => "53000",
            NoLane::Stopping => "57P01",
        }
    }
}

impl fmt::Display for NoLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoLane::NoThreads { started, wanted } => write!(
                f,
                "the system has started {started} of the {wanted} threads that a statement needs \
                 within {} s: its limit of threads (ulimit -u, pids.max of the control group) is \
                 reached, or the machine has too much other work",
                START_MAX.as_secs()
            ),
            NoLane::Stopping => f.write_str("the server is stopping"),
        }
    }
}

/// A lane, or the permission to start one.
enum Acquired {
    Lane(Lane),
    /// The caller starts a new lane.
    Start(Starting),
}

/// A lane that is being started; dropping it releases the place.
struct Starting {
    lanes: Arc<Lanes>,
    id: u64,
    width: usize,
    /// The user of the statement that waits for it; `None` if it is for a later one.
    claimant: Option<Claimant>,
}

impl Lanes {
    /// Makes a pool whose lanes have this many workers, for this many permits.
    pub(crate) fn new(threads: NonZeroUsize, permits: usize) -> Arc<Lanes> {
        let lanes_max = permits.saturating_mul(LANES_PER_PERMIT).max(READY_MIN);
        Arc::new_cyclic(|this| Lanes {
            threads,
            shares: Shares::of(lanes_max),
            state: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    /// Returns a lane for a statement of this user, if none has to be started for it.
    pub(crate) fn try_take(&self, claimant: &Claimant) -> Option<Lane> {
        let inner = {
            let mut state = self.state();
            match state.choose(claimant, self.shares) {
                Choice::New => state.take_ready(claimant)?,
                Choice::Shared(id) => state.share(id),
            }
        };
        Some(self.lane(inner))
    }

    /// Returns a lane for a statement of this user, and waits for its start.
    pub(crate) async fn take(&self, claimant: &Claimant) -> Result<Lane, NoLane> {
        let starting = match self.find(claimant)? {
            Acquired::Lane(lane) => return Ok(lane),
            Acquired::Start(starting) => starting,
        };
        let inner = starting.start().await?;
        Ok(self.lane(inner))
    }

    fn find(&self, claimant: &Claimant) -> Result<Acquired, NoLane> {
        let mut state = self.state();
        if state.is_ended {
            return Err(NoLane::Stopping);
        }
        let inner = match state.choose(claimant, self.shares) {
            Choice::Shared(id) => state.share(id),
            Choice::New => match state.take_ready(claimant) {
                Some(inner) => inner,
                None => {
                    return Ok(Acquired::Start(self.starting(&mut state, Some(claimant.clone()))));
                }
            },
        };
        Ok(Acquired::Lane(self.lane(inner)))
    }

    fn starting(&self, state: &mut State, claimant: Option<Claimant>) -> Starting {
        state.next += 1;
        let id = state.next;
        state.starting.insert(id, claimant.clone());
        let lanes = self.this.upgrade().expect("it is borrowed");
        let width = width(self.threads.get(), state.workers());
        Starting { lanes, id, width, claimant }
    }

    fn lane(&self, inner: Arc<Inner>) -> Lane {
        let lanes = self.this.upgrade().expect("it is borrowed");
        Lane { lanes, inner, permit: None, is_waiting: false }
    }

    /// Notes that a statement begins or ends to wait for its client.
    fn set_waiting(&self, inner: &Inner, is_waiting: bool) {
        let mut state = self.state();
        // All lanes have ended with the server.
        let Some(busy) = state.busy.get_mut(&inner.id) else { return };
        busy.remove(!is_waiting);
        busy.add(is_waiting);
    }

    /// Ends the use of a lane by a statement. Its permit is released when no task remains
    /// (lanes-3).
    fn give_back(&self, inner: &Inner, permit: Option<Permit>, is_waiting: bool) {
        let freed = {
            let mut state = self.state();
            // All lanes have ended with the server.
            let Some(busy) = state.busy.get_mut(&inner.id) else { return };
            busy.remove(is_waiting);
            if 0 < busy.users() {
                // The remaining tasks of one statement cannot be told from those of the others.
                permit
            } else {
                busy.permit = permit;
                inner.is_left.store(true, SeqCst);
                state.settle(inner)
            }
        };
        drop(freed);
    }

    /// Handles a thread of the lane that has become idle.
    fn parks(&self, inner: &Inner) {
        let freed = self.state().settle(inner);
        drop(freed);
    }

    /// Checks the CPU time of lanes (lanes-2), closes those that are no longer used, and keeps some
    /// idle ones.
    pub(crate) fn check(&self) {
        let (busy, closing) = {
            let mut state = self.state();
            if READY_MAX < state.ready.len() {
                let coldest = state.ready.remove(0);
                state.closing.push(coldest);
            }
            let busy = state.busy.values().map(|busy| Arc::clone(&busy.inner)).collect::<Vec<_>>();
            (busy, std::mem::take(&mut state.closing))
        };
        closing.iter().for_each(|inner| inner.close());
        {
            let mut state = self.state();
            state.closed.extend(closing);
            state.closed.retain(|inner| 0 < inner.threads.count());
        }
        for inner in busy {
            let used = inner.threads.cpu_time();
            let freed =
                self.state().busy.get_mut(&inner.id).and_then(|busy| busy.check_cpu_time(used));
            drop(freed);
        }
        self.prepare();
    }

    /// Starts lanes until some are idle. If the system starts none, the statement that needs one
    /// gets the error (lanes-4).
    pub(crate) fn prepare(&self) {
        loop {
            let starting = {
                let mut state = self.state();
                let is_enough = READY_MIN <= state.ready.len() + state.starting.len();
                if is_enough || state.is_ended || self.shares.all <= state.lanes() {
                    return;
                }
                self.starting(&mut state, None)
            };
            if starting.start_and_wait().is_err() {
                return;
            }
        }
    }

    /// Ends all lanes, and waits at most this long for their tasks.
    pub(crate) fn end(&self, wait: Duration) {
        let (lanes, permits) = {
            let mut state = self.state();
            state.is_ended = true;
            let mut lanes = std::mem::take(&mut state.closing);
            lanes.append(&mut state.closed);
            lanes.append(&mut state.ready);
            let busy = std::mem::take(&mut state.busy).into_values();
            let (busy, permits): (Vec<_>, Vec<_>) = busy.map(|it| (it.inner, it.permit)).unzip();
            lanes.extend(busy);
            (lanes, permits)
        };
        drop(permits);
        for inner in &lanes {
            inner.close();
        }
        let deadline = Instant::now() + wait;
        for inner in &lanes {
            inner.threads.wait_for_exit(deadline.saturating_duration_since(Instant::now()));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Chooses a lane for a statement of this user (lanes-1).
    fn choose(&self, claimant: &Claimant, shares: Shares) -> Choice {
        let without_statement = |id, claimant| LaneUse { id, claimant, working: 0, waiting: 0 };
        let ready = self.ready.iter().map(|inner| without_statement(inner.id, None));
        let starting = self.starting.iter().map(|(id, user)| without_statement(*id, user.as_ref()));
        let busy = self.busy.values().map(|busy| LaneUse {
            id: busy.inner.id,
            claimant: Some(&busy.claimant),
            working: busy.working,
            waiting: busy.waiting,
        });
        let lanes = ready.chain(starting).chain(busy).collect::<Vec<_>>();
        choose(&lanes, self.ready.len(), claimant, shares)
    }

    /// Adds a statement to those that use a lane.
    fn share(&mut self, id: u64) -> Arc<Inner> {
        let busy = self.busy.get_mut(&id).expect("statements share a lane that is in use, lanes-1");
        busy.add(false);
        Arc::clone(&busy.inner)
    }

    fn take_ready(&mut self, claimant: &Claimant) -> Option<Arc<Inner>> {
        let inner = self.ready.pop()?;
        self.enter(&inner, claimant);
        Some(inner)
    }

    /// Marks the lane as used by a statement of this user.
    fn enter(&mut self, inner: &Arc<Inner>, claimant: &Claimant) {
        inner.is_left.store(false, SeqCst);
        let busy = Busy {
            inner: Arc::clone(inner),
            claimant: claimant.clone(),
            working: 1,
            waiting: 0,
            base: None,
            left: None,
            niceness: 0,
            permit: None,
        };
        let before = self.busy.insert(busy.inner.id, busy);
        assert!(before.is_none(), "lanes-1: a lane that is ready is not busy");
    }

    /// Makes a lane idle again, or closes it, if no task of its last statement remains. Returns the
    /// permit that was kept for it (lanes-3), which is dropped when the state is not locked.
    fn settle(&mut self, inner: &Inner) -> Option<Permit> {
        let busy = self.busy.get(&inner.id)?;
        if 0 < busy.users() || 0 < inner.handle.metrics().num_alive_tasks() {
            return None;
        }
        let busy = self.busy.remove(&inner.id)?;
        if busy.niceness == 0 {
            self.ready.push(busy.inner);
        } else {
            self.closing.push(busy.inner);
        }
        busy.permit
    }

    /// Returns the number of lanes that have threads.
    fn lanes(&self) -> usize {
        self.ready.len() + self.busy.len() + self.starting.len()
    }

    fn workers(&self) -> usize {
        let busy = self.busy.values().map(|busy| &busy.inner);
        self.ready.iter().chain(busy).map(|inner| inner.width).sum()
    }
}

impl Busy {
    /// Returns the number of statements that use it; 0 while tasks of the last one remain
    /// (lanes-3).
    fn users(&self) -> usize {
        self.working + self.waiting
    }

    fn add(&mut self, is_waiting: bool) {
        *self.count(is_waiting) += 1;
    }

    fn remove(&mut self, is_waiting: bool) {
        *self.count(is_waiting) -= 1;
    }

    fn count(&mut self, is_waiting: bool) -> &mut usize {
        if is_waiting { &mut self.waiting } else { &mut self.working }
    }

    /// Handles a check: its threads have used this much CPU time in all. Returns the kept permit if
    /// the remaining tasks of its statement use none: they wait, perhaps for long.
    fn check_cpu_time(&mut self, used: Duration) -> Option<Permit> {
        let base = *self.base.get_or_insert(used);
        let wanted = if self.users() == 0 { LEFT } else { niceness(used.saturating_sub(base)) };
        if self.niceness < wanted {
            self.niceness = wanted;
            self.inner.threads.set_niceness(wanted);
        }
        if self.users() == 0 && self.left.replace(used) == Some(used) {
            return self.permit.take();
        }
        None
    }
}

/// Returns the niceness of the threads of a statement that has used this much CPU time (lanes-2).
fn niceness(used: Duration) -> u8 {
    let reached = LEVELS.iter().rev().find(|(cpu, _)| *cpu <= used);
    reached.map_or(0, |(_, niceness)| *niceness)
}

/// Returns the workers of a new lane beside this many others: as many as the engine has threads,
/// and if that would be very many in all, a part of those that are left.
fn width(threads: usize, workers: usize) -> usize {
    let left = WORKERS.saturating_sub(workers);
    threads.min((left / WORKERS_PART).max(WORKERS_MIN))
}

impl Starting {
    /// Starts the lane, and waits for its threads (lanes-4).
    async fn start(self) -> Result<Arc<Inner>, NoLane> {
        let (runtime, threads) = self.runtime()?;
        if timeout(START_MAX, threads.wait_for(self.wanted())).await.is_err() {
            return Err(self.fail(&threads));
        }
        Ok(self.started(runtime, threads))
    }

    /// The same as `start`, on a thread that may block.
    fn start_and_wait(self) -> Result<Arc<Inner>, NoLane> {
        let (runtime, threads) = self.runtime()?;
        if !threads.wait_until(self.wanted(), START_MAX) {
            return Err(self.fail(&threads));
        }
        Ok(self.started(runtime, threads))
    }

    /// Returns the number of its workers, and one for the thread that plans and waits for the disk.
    fn wanted(&self) -> usize {
        self.width + 1
    }

    fn runtime(&self) -> Result<(StartingRuntime, Arc<Threads>), NoLane> {
        let threads = Arc::new(Threads::default());
        let runtime = start_runtime(self.width, &threads);
        let runtime = runtime.ok_or(NoLane::NoThreads { started: 0, wanted: self.wanted() })?;
        Ok((StartingRuntime(Some(runtime)), threads))
    }

    fn fail(&self, threads: &Threads) -> NoLane {
        NoLane::NoThreads { started: threads.count(), wanted: self.wanted() }
    }

    /// Makes the lane, which is busy from now on if a statement waits for it.
    fn started(self, mut runtime: StartingRuntime, threads: Arc<Threads>) -> Arc<Inner> {
        let runtime = runtime.0.take().expect("a runtime is started once");
        let inner = Arc::new(Inner {
            id: self.id,
            width: self.width,
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            threads,
            is_left: AtomicBool::new(false),
        });
        let (lanes, lane) = (Weak::clone(&self.lanes.this), Arc::downgrade(&inner));
        inner.threads.on_park(Box::new(move || {
            let Some(inner) = lane.upgrade().filter(|inner| inner.is_left.load(SeqCst)) else {
                return;
            };
            if let Some(lanes) = lanes.upgrade() {
                lanes.parks(&inner);
            }
        }));
        let mut state = self.lanes.state();
        match &self.claimant {
            Some(claimant) => state.enter(&inner, claimant),
            // The other idle lanes were used later.
            None => state.ready.insert(0, Arc::clone(&inner)),
        }
        drop(state);
        inner
    }
}

/// The runtime of a lane that is being started. If its statement is dropped meanwhile, the runtime
/// ends without waiting for its threads: a runtime that is dropped by a task panics.
struct StartingRuntime(Option<Runtime>);

impl Drop for StartingRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.lanes.state().starting.remove(&self.id);
    }
}

impl Inner {
    /// Closes the lane: its threads end after their current work.
    fn close(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Dropping a runtime would wait for its threads, perhaps on one of them.
        self.close();
    }
}

impl Lane {
    /// Returns its threads.
    pub(crate) fn threads(&self) -> &Handle {
        &self.inner.handle
    }

    /// Returns true if its statement has a permit.
    pub(crate) fn is_admitted(&self) -> bool {
        self.permit.is_some()
    }

    /// Gives its statement a permit: it works, and does not wait for its client.
    pub(crate) fn admit(&mut self, permit: Permit) {
        if std::mem::replace(&mut self.is_waiting, false) {
            self.lanes.set_waiting(&self.inner, false);
        }
        self.permit = Some(permit);
    }

    /// Releases the permit: its statement waits for its client, and counts for nothing when a lane
    /// is chosen for another one of its user.
    pub(crate) fn pause(&mut self) {
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.lanes.set_waiting(&self.inner, true);
        }
        self.permit = None;
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.lanes.give_back(&self.inner, self.permit.take(), self.is_waiting);
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use futures::FutureExt;
    use tidegate_platform::HeapUse;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::admission::AdmissionControl;

    fn lanes(threads: usize, permits: usize) -> Arc<Lanes> {
        Lanes::new(NonZeroUsize::new(threads).unwrap(), permits)
    }

    fn user(name: &str) -> Claimant {
        Claimant { user: Some(Arc::from(name)), is_admin: name == "admin" }
    }

    fn reader() -> Claimant {
        user("reader")
    }

    /// Runs a task that stays in one poll until the returned sender is dropped.
    fn block(lane: &Lane) -> (JoinHandle<()>, Sender<()>) {
        let ((begun, begins), (end, ended)): ((Sender<()>, Receiver<()>), _) =
            (channel(), channel::<()>());
        let task = lane.threads().spawn(async move {
            begun.send(()).unwrap();
            let _ = ended.recv();
        });
        begins.recv().expect("it begins, lanes-1");
        (task, end)
    }

    // Statements shared as many threads as the engine has. Two of them in polls of seconds, for
    // example in sorts of buffered rows, stopped all others, and even the answers to their own
    // cancels.
    #[tokio::test]
    async fn a_statement_works_while_all_others_are_in_polls_without_end() {
        let lanes = lanes(2, 4);
        let mut others = Vec::new();
        for _ in 0..3 {
            let lane = lanes.take(&reader()).await.unwrap();
            others.push(([block(&lane), block(&lane)], lane));
        }
        let lane = lanes.take(&reader()).await.unwrap();
        assert_eq!(lane.threads().spawn(async { 7 }).await.unwrap(), 7, "lanes-1");
        let planned = lane.threads().spawn_blocking(|| 8).await.unwrap();
        assert_eq!(planned, 8, "lanes-1");
        drop(others);
        lanes.end(Duration::from_secs(9));
    }

    // Memory that was in no account belonged to no statement, and others were cancelled for it.
    #[tokio::test]
    async fn threads_of_a_statement_are_counted_together() {
        let lanes = lanes(1, 4);
        let (one, other) =
            (lanes.take(&reader()).await.unwrap(), lanes.take(&reader()).await.unwrap());
        let begin = async |lane: &Lane| {
            let begun = lane.threads().spawn(async { HeapUse::begin() }).await.unwrap();
            begun.expect("lanes-5: a worker is in the group of its lane")
        };
        let (of_one, of_other) = (begin(&one).await, begin(&other).await);
        assert!(of_one.is_latest() && of_other.is_latest(), "lanes-5: lanes are apart");
        let planning = one.threads().spawn_blocking(HeapUse::begin).await.unwrap();
        assert!(planning.is_some_and(|it| it.is_latest()), "lanes-5");
        assert!(!of_one.is_latest() && of_other.is_latest(), "lanes-5: one group for a lane");
        drop((one, other));
        lanes.end(Duration::from_secs(9));
        assert!(HeapUse::begin().is_none(), "threads of connections are in no group");
    }

    // The task of a client that left at this moment panicked.
    #[tokio::test]
    async fn a_statement_is_dropped_while_its_lane_starts() {
        let (lanes, reader) = (lanes(2, 4), reader());
        for _ in 0..20 {
            tokio::select! {
                biased;
                taken = lanes.take(&reader) => drop(taken.unwrap()),
                () = std::future::ready(()) => {}
            }
        }
        assert_eq!(lanes.state().starting.len(), 0);
        lanes.end(Duration::from_secs(9));
    }

    // A client that begins heavy statements and leaves could have run as many of them as it liked.
    #[tokio::test]
    async fn remaining_tasks_of_a_statement_keep_its_permit() {
        let (lanes, shares) = (lanes(1, 1), Shares { all: 1, each: 1 });
        let admission = Arc::new(AdmissionControl::new(shares, Duration::from_secs(9)));
        let mut lane = lanes.take(&reader()).await.unwrap();
        let id = lane.inner.id;
        lane.admit(admission.try_begin(&reader()).unwrap());
        let (task, end) = block(&lane);
        drop(lane);
        task.abort();
        let reader = reader();
        let mut next = Box::pin(admission.wait(&reader));
        assert!((&mut next).now_or_never().is_none(), "lanes-3");
        // No client waits for it: it gets the lowest priority, and its lane is closed.
        lanes.check();
        assert!((&mut next).now_or_never().is_none(), "lanes-3");
        drop(end);
        let _permit = next.await;
        assert!(lanes.state().ready.iter().all(|inner| inner.id != id), "lanes-2");
        assert_eq!(lanes.state().busy.len(), 0);
        lanes.end(Duration::from_secs(9));
    }

    // A task that waits for ever would keep a permit from all others for ever.
    #[tokio::test]
    async fn remaining_tasks_without_work_keep_no_permit() {
        let (lanes, shares) = (lanes(1, 1), Shares { all: 1, each: 1 });
        let admission = Arc::new(AdmissionControl::new(shares, Duration::from_secs(9)));
        let mut lane = lanes.take(&reader()).await.unwrap();
        lane.admit(admission.try_begin(&reader()).unwrap());
        let (_task, end) = block(&lane);
        drop(lane);
        assert!(admission.try_begin(&reader()).is_none(), "lanes-3");
        // Its thread may not have begun to wait yet.
        let looks = std::iter::repeat_with(|| {
            lanes.check();
            admission.try_begin(&reader())
        });
        let _permit = looks.take(1_000).flatten().next().expect("lanes-3");
        drop(end);
        lanes.end(Duration::from_secs(9));
    }

    #[tokio::test]
    async fn a_lane_is_used_again_unless_it_went_behind_the_others() {
        let lanes = lanes(1, 4);
        let first = lanes.take(&reader()).await.unwrap();
        let id = first.inner.id;
        drop(first);
        let again = lanes.try_take(&reader()).expect("it is ready");
        assert_eq!(again.inner.id, id);
        {
            let mut state = lanes.state();
            let busy = state.busy.get_mut(&id).unwrap();
            assert!(busy.check_cpu_time(Duration::from_secs(1)).is_none());
            assert_eq!(busy.niceness, 0, "lanes-2: time before this statement does not count");
            assert!(busy.check_cpu_time(Duration::from_millis(1_100)).is_none());
            assert_eq!(busy.niceness, LEVELS[0].1, "lanes-2");
        }
        drop(again);
        assert!(lanes.try_take(&reader()).is_none(), "lanes-2: it is closed");
        lanes.check();
        assert_eq!(lanes.state().ready.len(), READY_MIN);
        assert_eq!(lanes.state().closing.len(), 0);
        lanes.end(Duration::from_secs(9));
        assert_eq!(lanes.take(&reader()).await.unwrap_err(), NoLane::Stopping);
    }

    // A reader with cursors that it did not read held a lane for each, and the statements of all
    // users shared them. With polls of minutes on a few of them, statements of others and of
    // administrators did not even begin.
    #[tokio::test]
    async fn lanes_of_one_user_stop_no_other() {
        let lanes = lanes(1, 4);
        let mut held = Vec::new();
        for _ in 0..3 * lanes.shares.all {
            let mut lane = lanes.take(&reader()).await.unwrap();
            lane.pause();
            held.push(lane);
        }
        assert_eq!(lanes.state().busy.len(), lanes.shares.each, "choice-2");
        let blocked = held.iter().take(lanes.shares.each).map(block).collect::<Vec<_>>();
        for name in ["other", "other", "admin", "third"] {
            let lane = lanes.take(&user(name)).await.unwrap();
            assert_eq!(lane.threads().spawn(async { 7 }).await.unwrap(), 7, "lanes-1");
            held.push(lane);
        }
        drop((blocked, held));
        lanes.end(Duration::from_secs(9));
    }

    #[tokio::test]
    async fn a_statement_that_waits_for_its_client_counts_for_nothing() {
        let (lanes, shares) = (lanes(1, 1), Shares { all: 2, each: 2 });
        let admission = Arc::new(AdmissionControl::new(shares, Duration::from_secs(9)));
        let mut one = lanes.take(&reader()).await.unwrap();
        let mut other = lanes.take(&reader()).await.unwrap();
        let shared = async || lanes.take(&reader()).await.unwrap().inner.id;
        one.pause();
        assert_eq!(shared().await, one.inner.id, "choice-4");
        one.admit(admission.try_begin(&reader()).unwrap());
        assert!(one.is_admitted());
        other.pause();
        other.pause();
        assert_eq!(shared().await, other.inner.id, "choice-4");
        drop((one, other));
        lanes.end(Duration::from_secs(9));
    }

    #[tokio::test]
    async fn statements_share_lanes_when_there_are_too_many() {
        let lanes = lanes(1, 1);
        let mut taken = Vec::new();
        for _ in 0..4 {
            taken.push(lanes.take(&reader()).await.unwrap());
        }
        let ids = taken.iter().map(|lane| lane.inner.id).collect::<std::collections::HashSet<_>>();
        assert_eq!(ids.len(), lanes.shares.all, "lanes-1");
        for lane in &taken {
            assert_eq!(lane.threads().spawn(async { 7 }).await.unwrap(), 7);
        }
        drop(taken);
        // A task ends a moment before the lane is settled.
        let is_left = || !lanes.state().busy.is_empty();
        (0..100_000_000_u64).take_while(|_| is_left()).for_each(|_| std::thread::yield_now());
        let state = lanes.state();
        assert_eq!((state.busy.len(), state.ready.len()), (0, lanes.shares.all));
        drop(state);
        lanes.end(Duration::from_secs(9));
    }

    #[test]
    fn new_lanes_are_narrow_when_there_are_many_workers() {
        for (threads, workers, expected) in
            [(1, 0, 1), (2, 0, 2), (2, 600, 2), (8, 256, 8), (64, 0, 64), (64, 256, 32)]
        {
            assert_eq!(width(threads, workers), expected, "{threads} beside {workers}");
        }
        let mut workers = 0;
        for _ in 0..512 {
            workers += width(64, workers);
        }
        assert!(workers <= WORKERS + 512 * WORKERS_MIN, "lanes-1: {workers}");
    }

    #[test]
    fn cpu_time_makes_a_statement_nicer() {
        for (millis, expected) in [(0, 0), (99, 0), (100, 5), (999, 5), (1_000, 10), (99_999, 10)] {
            assert_eq!(niceness(Duration::from_millis(millis)), expected, "lanes-2");
        }
    }
}
