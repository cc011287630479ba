//! Connections that newer ones replace: those of PostgreSQL's protocol before their login, and
//! those of the listener for health and metrics.
//!
//! - replaceable-1. If there is no place for one more socket, the one that is the oldest is
//!   dropped: a client that opens many and sends nothing only drops its own ones, and locks no
//!   other client out. A login and an answer take milliseconds, and a socket is dropped only after
//!   a whole round of places.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The list of all of one kind.
#[derive(Debug, Default)]
pub(crate) struct ReplaceableSockets(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    /// The number of sockets so far.
    number: u64,
    /// The sockets by their numbers: the oldest first.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// A connection that can be replaced; dropping this removes it from the list.
#[derive(Debug)]
pub(crate) struct ReplaceableSocket {
    queue: Arc<Mutex<Queue>>,
    number: u64,
    dropped: Arc<Notify>,
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReplaceableSockets {
    pub(crate) fn enter(&self) -> ReplaceableSocket {
        let dropped = Arc::<Notify>::default();
        let mut queue = lock(&self.0);
        queue.number += 1;
        let number = queue.number;
        queue.waiting.insert(number, Arc::clone(&dropped));
        ReplaceableSocket { queue: Arc::clone(&self.0), number, dropped }
    }

    /// Drops the one that is the oldest; false if there is none (replaceable-1).
    pub(crate) fn drop_oldest(&self) -> bool {
        let oldest = lock(&self.0).waiting.pop_first();
        oldest.is_some_and(|(_, oldest)| {
            oldest.notify_one();
            true
        })
    }
}

impl ReplaceableSocket {
    /// Waits until it is dropped by `drop_oldest`.
    pub(crate) async fn dropped(&self) {
        self.dropped.notified().await;
    }
}

impl Drop for ReplaceableSocket {
    fn drop(&mut self) {
        lock(&self.queue).waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_oldest_is_dropped_first() {
        let sockets = ReplaceableSockets::default();
        assert!(!sockets.drop_oldest(), "the list is empty");
        let [first, second, third] = [(); 3].map(|()| sockets.enter());
        drop(first);
        assert!(sockets.drop_oldest());
        assert!(second.dropped().now_or_never().is_some(), "replaceable-1");
        assert!(third.dropped().now_or_never().is_none(), "replaceable-1");
        assert!(sockets.drop_oldest() && !sockets.drop_oldest());
        drop((second, third));
        assert!(!sockets.drop_oldest());
    }
}
