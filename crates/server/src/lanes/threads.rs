//! The threads of a lane: the started ones, their CPU time, and the group that counts their heap.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tidegate_platform::{HeapGroup, ThreadId};
use tidegate_query::STACK_BYTES;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// The most threads of a lane that plan and wait for the disk: as many as for commits, since one of
/// them that waits for another must not take the last.
const BLOCKING_THREADS: usize = 64;
/// The time for which idle threads are kept, longer than that of their lane: later there may be no
/// new ones.
const KEEP_ALIVE: Duration = Duration::from_hours(24 * 365);

/// The threads of a lane.
#[derive(Default)]
pub(super) struct Threads {
    registry: Mutex<Registry>,
    /// The heap of the threads: that of the statement of the lane.
    heap: Arc<HeapGroup>,
    /// Wakes tasks and threads that wait for threads to start or end.
    notify: Notify,
    changed: Condvar,
    on_park: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Registry {
    ids: Vec<ThreadId>,
    /// The CPU time of threads that have ended.
    ended: Duration,
    niceness: u8,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("registry", &self.registry).finish_non_exhaustive()
    }
}

/// Starts a runtime with this many workers and a thread that may block; `None` if the system has no
/// thread at all for it.
pub(super) fn start_runtime(width: usize, threads: &Arc<Threads>) -> Option<Runtime> {
    let [starts, stops, parks] = [(); 3].map(|()| Arc::clone(threads));
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(width)
        .thread_stack_size(STACK_BYTES)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(KEEP_ALIVE)
        .thread_name("lane")
        .on_thread_start(move || starts.start())
        .on_thread_stop(move || stops.stop())
        .on_thread_park(move || parks.park())
        .enable_time();
    // The runtime panics if it cannot start its first thread.
    let built = catch_unwind(AssertUnwindSafe(|| builder.build()));
    let runtime = built.ok()?.ok()?;
    let started = catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn_blocking(|| {}))));
    if started.is_err() {
        runtime.shutdown_background();
        return None;
    }
    Some(runtime)
}

impl Threads {
    fn start(&self) {
        self.heap.enter();
        let id = ThreadId::current();
        let mut registry = self.registry();
        if 0 < registry.niceness {
            id.set_niceness(registry.niceness);
        }
        registry.ids.push(id);
        drop(registry);
        self.tell();
    }

    fn stop(&self) {
        HeapGroup::leave();
        let id = ThreadId::current();
        let mut registry = self.registry();
        registry.ids.retain(|other| *other != id);
        registry.ended += id.cpu_time().unwrap_or_default();
        drop(registry);
        self.tell();
    }

    fn tell(&self) {
        self.notify.notify_waiters();
        self.changed.notify_all();
    }

    fn park(&self) {
        if let Some(work) = self.on_park.get() {
            work();
        }
    }

    /// Sets the function that idle workers call; it can be set once.
    pub(super) fn on_park(&self, work: Box<dyn Fn() + Send + Sync>) {
        let was_set = self.on_park.set(work).is_err();
        assert!(!was_set, "a lane is started once");
    }

    /// Returns the number of running threads.
    pub(super) fn count(&self) -> usize {
        self.registry().ids.len()
    }

    /// Returns the CPU time of all of them since their start.
    pub(super) fn cpu_time(&self) -> Duration {
        let registry = self.registry();
        let living = registry.ids.iter().filter_map(|id| id.cpu_time());
        registry.ended + living.sum::<Duration>()
    }

    pub(super) fn set_niceness(&self, niceness: u8) {
        let mut registry = self.registry();
        registry.niceness = niceness;
        registry.ids.iter().for_each(|id| id.set_niceness(niceness));
    }

    /// Waits until this many threads run.
    pub(super) async fn wait_for(&self, count: usize) {
        loop {
            let mut notified = pin!(self.notify.notified());
            // Later starts are not missed.
            notified.as_mut().enable();
            if count <= self.count() {
                return;
            }
            notified.await;
        }
    }

    /// The same on a thread that may block, with a time limit; returns whether this many run.
    pub(super) fn wait_until(&self, count: usize, wait: Duration) -> bool {
        let is_short = |registry: &mut Registry| registry.ids.len() < count;
        let waited = self.changed.wait_timeout_while(self.registry(), wait, is_short);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Waits until no thread runs, with a time limit; returns whether none runs.
    pub(super) fn wait_for_exit(&self, wait: Duration) -> bool {
        let is_there = |registry: &mut Registry| !registry.ids.is_empty();
        let waited = self.changed.wait_timeout_while(self.registry(), wait, is_there);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
