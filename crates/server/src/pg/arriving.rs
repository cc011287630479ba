//! Connections before their login.
//!
//! - AR1. If there is no place for one more socket, the one that has been arriving for longest is
//!   dropped: a client that opens many and sends nothing only drops its own ones, and locks no
//!   other client out. A login takes milliseconds, and a socket is dropped only after a whole round
//!   of places.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The list of all of them.
#[derive(Debug, Default)]
pub(crate) struct Arriving(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    /// The number of sockets so far.
    number: u64,
    /// The sockets by their numbers: the oldest first.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// A connection before its login; dropping this removes it from the list.
#[derive(Debug)]
pub(crate) struct Arrived {
    queue: Arc<Mutex<Queue>>,
    number: u64,
    given_up: Arc<Notify>,
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arriving {
    pub(crate) fn enter(&self) -> Arrived {
        let given_up = Arc::<Notify>::default();
        let mut queue = lock(&self.0);
        queue.number += 1;
        let number = queue.number;
        queue.waiting.insert(number, Arc::clone(&given_up));
        Arrived { queue: Arc::clone(&self.0), number, given_up }
    }

    /// Drops the one that has been arriving for longest; false if there is none (AR1).
    pub(crate) fn give_up_oldest(&self) -> bool {
        let oldest = lock(&self.0).waiting.pop_first();
        oldest.is_some_and(|(_, oldest)| {
            oldest.notify_one();
            true
        })
    }
}

impl Arrived {
    /// Waits until it is dropped by `give_up_oldest`.
    pub(super) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        lock(&self.queue).waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_oldest_is_given_up_first() {
        let arriving = Arriving::default();
        assert!(!arriving.give_up_oldest(), "nobody is there");
        let [first, second, third] = [(); 3].map(|()| arriving.enter());
        drop(first);
        assert!(arriving.give_up_oldest());
        assert!(second.given_up().now_or_never().is_some(), "AR1");
        assert!(third.given_up().now_or_never().is_none(), "AR1");
        assert!(arriving.give_up_oldest() && !arriving.give_up_oldest());
        drop((second, third));
        assert!(!arriving.give_up_oldest());
    }
}
