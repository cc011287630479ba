//! Cancellation: the time limit of a statement, the handle that cancels it, and the state that all
//! its threads share.
//!
//! - A statement ends by its time limit, by a handle, because its reader is gone, or because of a
//!   limit of the process. The first reason counts.
//! - Time in which rows wait for the client is not counted (control-3).
//!
//! Not here: the checks between operators and the waits for rows (`control`).

use std::fmt;
use std::pin::pin;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_model::ByteCount;
use tidegate_storage::HeapUse;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The time limit of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// No limit.
    Never,
    /// A limit from the arrival of the text to the last row.
    After(Duration),
}

impl Timeout {
    /// The default: long enough for interactive queries, short enough for abandoned ones.
    pub const STANDARD: Timeout = Timeout::After(Duration::from_mins(1));

    /// The shorter one.
    #[must_use]
    pub fn min(self, other: Timeout) -> Timeout {
        match (self, other) {
            (Timeout::After(one), Timeout::After(other)) => Timeout::After(one.min(other)),
            (Timeout::Never, timeout) | (timeout, Timeout::Never) => timeout,
        }
    }
}

/// Cancels a statement from outside, whether it has begun, will begin, or is over. Clones belong to
/// the same statement. `RunningQueries` cancels a statement by its id alone.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<HandleState>);

#[derive(Debug, Default)]
struct HandleState {
    is_canceled: AtomicBool,
    stop: OnceLock<Arc<CancelState>>,
    /// Wakes tasks that wait for `stop`, or for a cancel before it is there.
    notify: Notify,
}

impl CancelHandle {
    /// Cancels the statement: it stops, or does not begin.
    pub fn cancel(&self) {
        // Sequentially consistent with `of`: the later of the two sees the other.
        self.0.is_canceled.store(true, SeqCst);
        match self.0.stop.get() {
            Some(stop) => stop.cancel(),
            None => self.0.notify.notify_waiters(),
        }
    }

    /// Cancels the statement if it has not begun. Returns true if it will not begin.
    #[must_use]
    pub fn cancel_before_begin(&self) -> bool {
        if self.0.stop.get().is_some() {
            return false;
        }
        self.cancel();
        // A statement that begins from here on sees the cancel.
        self.0.stop.get().is_none()
    }

    /// Waits until the statement is cancelled before it has begun, so that it will not begin; for
    /// ever if it begins.
    pub async fn canceled_before_begin(&self) {
        loop {
            let mut notified = pin!(self.0.notify.notified());
            // From here on, neither a begin nor a cancel is missed.
            notified.as_mut().enable();
            // In this order: a statement that begins after the first look sees the cancel.
            let is_canceled = self.0.is_canceled.load(SeqCst);
            if self.0.stop.get().is_some() {
                return std::future::pending().await;
            }
            if is_canceled {
                return;
            }
            notified.await;
        }
    }

    /// True if the statement was cancelled: by this handle, by its id, or because of a limit of the
    /// process.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        let stop = self.0.stop.get();
        self.0.is_canceled.load(SeqCst) || stop.is_some_and(|stop| stop.is_canceled())
    }

    /// The reason of the cancel, for callers that know of it.
    #[must_use]
    pub fn reason(&self) -> CancelReason {
        let stop = self.0.stop.get();
        stop.and_then(|stop| stop.reason()).unwrap_or(CancelReason::Requested)
    }

    /// Waits until the statement is cancelled, by this handle or otherwise; for ever if it has not
    /// begun.
    pub async fn canceled(&self) {
        match self.0.stop.get() {
            Some(stop) => stop.canceled().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the statement must stop: its time is over, or it was cancelled. The client need
    /// not wait for the threads of the statement then (control-2). Needs timers.
    pub async fn ended(&self) -> CancelReason {
        self.begun().await.ended().await
    }

    async fn begun(&self) -> &CancelState {
        loop {
            let mut notified = pin!(self.0.notify.notified());
            // From here on, a begin is not missed.
            notified.as_mut().enable();
            if let Some(stop) = self.0.stop.get() {
                return stop;
            }
            notified.await;
        }
    }

    /// Binds the handle to a statement, which can be cancelled from now on.
    pub(crate) fn of(&self, stop: &Arc<CancelState>) {
        let stop = self.0.stop.get_or_init(|| Arc::clone(stop));
        self.0.notify.notify_waiters();
        if self.is_canceled() {
            stop.cancel();
        }
    }
}

/// The reason why a statement was stopped before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelReason {
    /// The time limit has passed.
    Timeout {
        /// The time that counted.
        worked: Duration,
        /// The time limit.
        limit: Duration,
    },
    /// A user or client has cancelled it.
    Requested,
    /// No reader takes its rows any more.
    Abandoned,
    /// The process ends.
    Stopping,
    /// The process has exceeded its memory limit, and this statement is the largest of the user
    /// whose statements have most memory.
    Memory {
        /// The memory limit of the process.
        limit: ByteCount,
    },
    /// The disk is nearly full, and this statement has spilled most.
    Disk,
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CancelReason::Timeout { worked, limit } => {
                let (worked, limit) = (worked.as_millis(), limit.as_millis());
                write!(f, "query timed out [runtime={worked}ms, timeout={limit}ms]")
            }
            CancelReason::Requested => f.write_str("query cancelled by user"),
            CancelReason::Abandoned => f.write_str("client disconnected"),
            CancelReason::Stopping => f.write_str("query cancelled: the server is stopping"),
            CancelReason::Memory { limit } => write!(
                f,
                "query cancelled: the process has more than the {limit} of memory.limit, and this \
                 statement is the largest of the user whose statements have most"
            ),
            CancelReason::Disk => f.write_str(
                "query cancelled: the disk has less than half of the room that storage.min_free \
                 keeps, and this statement has spilled most",
            ),
        }
    }
}

/// The stop flag of a running statement, shared by everything that works on it.
#[derive(Debug)]
pub(crate) struct CancelState {
    start: Instant,
    timeout: Timeout,
    is_abandoned: AtomicBool,
    is_canceled: AtomicBool,
    /// The reason of the cancel, unless a user has requested it.
    cause: OnceLock<CancelReason>,
    /// Wakes waiting tasks when the statement is cancelled.
    notify_canceled: Notify,
    /// The start of the present wait for the reader, in nanoseconds from `start` and never 0; 0 if
    /// there is none (control-3).
    pub(crate) wait_start: AtomicU64,
    /// Nanoseconds of the waits that are over.
    waited: AtomicU64,
    /// The heap of its threads, if it has some of its own.
    heap: OnceLock<HeapUse>,
    /// The bytes of that heap at the start of the last wait.
    wait_heap_bytes: AtomicU64,
}

impl CancelState {
    /// Starts the time of a statement.
    pub(crate) fn new(timeout: Timeout) -> CancelState {
        CancelState {
            start: Instant::now(),
            timeout,
            is_abandoned: AtomicBool::new(false),
            is_canceled: AtomicBool::new(false),
            cause: OnceLock::new(),
            notify_canceled: Notify::new(),
            wait_start: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            heap: OnceLock::new(),
            wait_heap_bytes: AtomicU64::new(0),
        }
    }

    /// Sets the heap of its threads.
    pub(crate) fn count_heap(&self, heap: &HeapUse) {
        let _ = self.heap.set(heap.clone());
    }

    /// Begins the statement again: the reader that dropped its rows belonged to an earlier attempt.
    pub(crate) fn begin_again(&self) {
        self.is_abandoned.store(false, Relaxed);
    }

    /// Cancels the statement. It stays cancelled, however often it begins again.
    pub(crate) fn cancel(&self) {
        self.is_canceled.store(true, SeqCst);
        self.notify_canceled.notify_waiters();
    }

    /// Cancels the statement because of a limit, or the end, of the process.
    pub(crate) fn cancel_for(&self, cause: CancelReason) {
        // Set before the flag, so that a task that sees the cancel sees its cause: the first one.
        let _ = self.cause.set(cause);
        self.cancel();
    }

    /// True if the statement was cancelled.
    pub(crate) fn is_canceled(&self) -> bool {
        self.is_canceled.load(SeqCst)
    }

    /// The reason why the statement must stop, if it must.
    pub(crate) fn reason(&self) -> Option<CancelReason> {
        if self.is_abandoned.load(Relaxed) && !self.is_canceled() {
            return Some(CancelReason::Abandoned);
        }
        self.end()
    }

    /// The same, for a caller that still wants the rows.
    fn end(&self) -> Option<CancelReason> {
        if self.is_canceled() {
            return Some(self.cause.get().copied().unwrap_or(CancelReason::Requested));
        }
        let Timeout::After(limit) = self.timeout else { return None };
        let worked = self.worked();
        (limit <= worked).then_some(CancelReason::Timeout { worked, limit })
    }

    /// Waits until the statement must stop (control-2). Needs timers if there is a timeout.
    pub(crate) async fn ended(&self) -> CancelReason {
        loop {
            if let Some(reason) = self.end() {
                return reason;
            }
            match self.deadline() {
                None => self.canceled().await,
                // The statement may have waited for its reader, and then there is time left
                // (control-3).
                Some(deadline) => drop(timeout_at(deadline, self.canceled()).await),
            }
        }
    }

    /// Waits until the statement is cancelled.
    pub(crate) async fn canceled(&self) {
        let mut notified = pin!(self.notify_canceled.notified());
        // From here on, a cancel is not missed.
        notified.as_mut().enable();
        if !self.is_canceled() {
            notified.await;
        }
    }

    /// The duration of the present wait for the reader, if there is one.
    pub(crate) fn waiting(&self) -> Option<Duration> {
        let wait_start = self.wait_start.load(Relaxed);
        let waiting = self.elapsed_nanos().saturating_sub(wait_start);
        (wait_start != 0).then(|| Duration::from_nanos(waiting))
    }

    /// The end of the time limit if there are no more waits for the reader; `None` without a limit.
    fn deadline(&self) -> Option<Instant> {
        match self.timeout {
            Timeout::Never => None,
            // A deadline that the clock cannot represent is none.
            Timeout::After(timeout) => {
                Instant::now().checked_add(timeout.saturating_sub(self.worked()))
            }
        }
    }

    /// Records that no reader is left.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Relaxed);
    }

    /// The time that counts (control-3).
    pub(crate) fn worked(&self) -> Duration {
        let (wait_start, waited) = (self.wait_start.load(Relaxed), self.waited.load(Relaxed));
        Duration::from_nanos(working_nanos(self.elapsed_nanos(), wait_start, waited))
    }

    /// The bytes of its heap at the start of the present wait for the reader, if there is one.
    pub(crate) fn heap_bytes_at_wait(&self) -> Option<u64> {
        let is_waiting = self.wait_start.load(Relaxed) != 0 && self.heap.get().is_some();
        is_waiting.then(|| self.wait_heap_bytes.load(Relaxed))
    }

    pub(crate) fn begin_wait(&self) {
        if let Some(heap) = self.heap.get() {
            self.wait_heap_bytes.store(heap.bytes(), Relaxed);
        }
        self.wait_start.store(self.elapsed_nanos().max(1), Relaxed);
    }

    /// Ends the wait for the reader, if there is one.
    pub(crate) fn end_wait(&self) {
        let wait_start = self.wait_start.load(Relaxed);
        if wait_start == 0 {
            return;
        }
        self.waited.fetch_add(self.elapsed_nanos().saturating_sub(wait_start), Relaxed);
        self.wait_start.store(0, Relaxed);
    }

    fn elapsed_nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The time since the start that counts, without the waits (control-3): see [`CancelState`] for the
/// three arguments.
pub(crate) fn working_nanos(elapsed: u64, wait_start: u64, waited: u64) -> u64 {
    let end = if wait_start == 0 { elapsed } else { wait_start };
    end.saturating_sub(waited)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tidegate_platform::HeapGroup;

    use super::*;
    use crate::error::Error;

    #[test]
    fn waits_for_the_reader_do_not_count() {
        for (elapsed, wait_start, waited, expected) in
            [(0, 0, 0, 0), (70, 0, 0, 70), (70, 0, 30, 40), (70, 50, 0, 50), (99, 50, 30, 20)]
        {
            assert_eq!(working_nanos(elapsed, wait_start, waited), expected, "control-3");
        }
        let stop = CancelState::new(Timeout::After(Duration::from_hours(1)));
        stop.begin_wait();
        let worked = stop.worked();
        assert_eq!(stop.worked(), worked, "control-3: time stands still");
        stop.end_wait();
        assert!(stop.reason().is_none() && stop.deadline().is_some());
    }

    #[test]
    fn a_statement_ends_at_its_timeout_or_without_a_waiting_client() {
        assert_eq!(CancelState::new(Timeout::Never).reason(), None);
        assert_eq!(CancelState::new(Timeout::After(Duration::MAX)).reason(), None);
        let over = CancelState::new(Timeout::After(Duration::ZERO));
        let reason = over.reason().expect("its time is over");
        assert!(matches!(reason, CancelReason::Timeout { limit: Duration::ZERO, .. }));
        let left = CancelState::new(Timeout::Never);
        left.abandon();
        assert_eq!(left.reason(), Some(CancelReason::Abandoned));
        left.begin_again();
        assert_eq!(left.reason(), None);
        left.cancel();
        left.abandon();
        left.begin_again();
        assert_eq!(left.reason(), Some(CancelReason::Requested));
    }

    #[test]
    fn the_heap_at_the_wait_is_known_only_while_it_lasts() {
        let stop = CancelState::new(Timeout::Never);
        stop.begin_wait();
        assert_eq!(stop.heap_bytes_at_wait(), None, "its threads are not counted");
        let counted = std::thread::spawn(|| {
            Arc::new(HeapGroup::default()).enter();
            let stop = CancelState::new(Timeout::Never);
            stop.count_heap(&HeapUse::begin().expect("it is in a group"));
            let before = stop.heap_bytes_at_wait();
            stop.begin_wait();
            let waiting = stop.heap_bytes_at_wait();
            stop.end_wait();
            let after = stop.heap_bytes_at_wait();
            HeapGroup::leave();
            [before, waiting, after].map(|bytes| bytes.is_some())
        });
        assert_eq!(counted.join().unwrap(), [false, true, false], "running_queries-4");
    }

    #[tokio::test]
    async fn a_cancel_handle_reports_cancellation_and_timeout() {
        let cancel_handle = CancelHandle::default();
        let (reason, ()) = tokio::join!(cancel_handle.ended(), async {
            tokio::task::yield_now().await;
            cancel_handle.of(&Arc::new(CancelState::new(Timeout::Never)));
            tokio::task::yield_now().await;
            cancel_handle.cancel();
        });
        assert_eq!(reason, CancelReason::Requested, "control-2");
        let cancel_handle = CancelHandle::default();
        cancel_handle.of(&Arc::new(CancelState::new(Timeout::After(Duration::from_millis(1)))));
        assert!(matches!(cancel_handle.ended().await, CancelReason::Timeout { .. }), "control-2");
    }

    #[tokio::test]
    async fn a_statement_that_was_cancelled_before_it_began_does_not_begin() {
        let handle = CancelHandle::default();
        tokio::join!(handle.canceled_before_begin(), async { handle.cancel() });
        let stop = Arc::new(CancelState::new(Timeout::Never));
        handle.of(&stop);
        assert_eq!(stop.reason(), Some(CancelReason::Requested));
        let handle = CancelHandle::default();
        assert!(handle.cancel_before_begin() && handle.is_canceled());
        let handle = CancelHandle::default();
        let mut canceled = Box::pin(handle.canceled_before_begin());
        assert!((&mut canceled).now_or_never().is_none());
        let stop = Arc::new(CancelState::new(Timeout::Never));
        handle.of(&stop);
        assert!(!handle.cancel_before_begin() && stop.reason().is_none(), "it has begun");
        handle.cancel();
        assert!((&mut canceled).now_or_never().is_none(), "its own work reports the cancel");
    }

    #[test]
    fn reasons_say_how_long_it_was() {
        let (worked, limit) = (Duration::from_micros(1_501_700), Duration::from_millis(1_500));
        for (reason, expected) in [
            (
                CancelReason::Timeout { worked, limit },
                "query timed out [runtime=1501ms, timeout=1500ms]",
            ),
            (CancelReason::Requested, "query cancelled by user"),
            (CancelReason::Abandoned, "client disconnected"),
        ] {
            assert_eq!(Error::from(reason).to_string(), expected);
        }
    }
}
