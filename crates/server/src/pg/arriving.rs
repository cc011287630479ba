//! Connections on which nobody has logged in yet.
//!
//! - AR1. When there is no place for one more socket, the one that has been arriving for longest
//!   goes: whoever opens many and says nothing has the places of his own ones, and keeps nobody
//!   out. To log in takes milliseconds, and a whole round of places to be pushed out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Arriving(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    /// How many there were so far.
    number: u64,
    /// By their numbers: the oldest first.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// One of them; dropping it ends its arrival.
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

    /// Gives up the one that has been arriving for longest; false if there is none (AR1).
    pub(crate) fn give_up_oldest(&self) -> bool {
        let oldest = lock(&self.0).waiting.pop_first();
        oldest.is_some_and(|(_, oldest)| {
            oldest.notify_one();
            true
        })
    }
}

impl Arrived {
    /// Returns when it is given up.
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
