//! Turns: the time that a task works on its thread before it yields to others (`cancel_check`).

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task;
use tokio::time::Instant;

/// Long compared with the microsecond of a yield, and short compared with waits that users notice.
const TURN: Duration = Duration::from_millis(5);

thread_local! {
    /// The task that works on this thread, and its start. Cancel checks of a task share it, so that
    /// the task yields once and not once for each of them.
    static WORKING: Cell<Option<(Option<task::Id>, Instant)>> = const { Cell::new(None) };
}

/// Begins a new turn on this thread, for another piece of work of its task: the next statement of a
/// connection, for example.
pub(super) fn begin_turn() {
    WORKING.with(|working| working.set(None));
}

/// Returns pending, and wakes the task at once, if its turn is over.
pub(super) fn give_way(context: &Context<'_>) -> Poll<()> {
    let (task, now) = (task::try_id(), Instant::now());
    WORKING.with(|working| match working.get() {
        Some((known, since)) if known == task && TURN <= now - since => {
            working.set(None);
            context.waker().wake_by_ref();
            Poll::Pending
        }
        Some((known, _)) if known == task => Poll::Ready(()),
        // A task that has waited and comes back to its thread may yield once too often.
        _ => {
            working.set(Some((task, now)));
            Poll::Ready(())
        }
    })
}

/// Yields to other tasks if the turn of this one is over.
pub(crate) async fn yield_after_turn() {
    poll_fn(|context| give_way(context)).await;
}

/// True if the task on this thread has used its turn, and must yield at the next cancel check.
pub(super) fn turn_is_over() -> bool {
    let is_over = |(known, since): (Option<task::Id>, Instant)| {
        known == task::try_id() && TURN <= since.elapsed()
    };
    WORKING.with(|working| working.get().is_some_and(is_over))
}
