//! How much memory tails may take, and what becomes of a writer that would pass it.
//!
//! - BU1. A commit is counted when it is published; what a tail loses is given back then.
//! - BU2. Nobody is refused for the budget: who passes it seals, or waits for who does.
//!
//! A writer looks before it commits, so all writers together may pass the budget by one commit
//! each, of at most `limits::WAL_RECORD_BYTES`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::table::TableState;

/// The memory of all tails.
#[derive(Debug)]
pub(super) struct TailBudget {
    max_bytes: u64,
    /// Written by who publishes, one at a time.
    used_bytes: AtomicU64,
    /// Counts what gave memory back, or may.
    turns: Mutex<u64>,
    turned: Condvar,
}

/// Lets those look again who wait for memory, when it is dropped, whatever came of it: who holds
/// the runs of a table drops it after those.
#[derive(Debug)]
pub(super) struct Wake(Arc<TailBudget>);

impl Wake {
    pub(super) fn new(budget: &Arc<TailBudget>) -> Wake {
        Wake(Arc::clone(budget))
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// What a group of commits takes, and gives back.
#[derive(Debug, Default)]
pub(super) struct TailBytes {
    taken: u64,
    given_back: u64,
}

impl TailBytes {
    /// Counts a table that is replaced by another version.
    pub(super) fn count(&mut self, old: Option<&Arc<TableState>>, new: Option<&Arc<TableState>>) {
        let bytes =
            |table: Option<&Arc<TableState>>| table.map_or(0, |table| table.tail.memory_bytes());
        self.given_back += bytes(old);
        self.taken += bytes(new);
    }
}

impl TailBudget {
    pub(super) fn new(max_bytes: u64, used_bytes: u64) -> TailBudget {
        let (turns, turned) = (Mutex::new(0), Condvar::new());
        TailBudget { max_bytes, used_bytes: AtomicU64::new(used_bytes), turns, turned }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Acquire)
    }

    /// Whether so much more may be taken. A commit that is larger than all there is may be alone.
    pub(super) fn has_room_for(&self, bytes: u64) -> bool {
        let used = self.used_bytes();
        used == 0 || used.saturating_add(bytes) <= self.max_bytes
    }

    /// Notes what was published (BU1).
    pub(super) fn change(&self, change: &TailBytes) {
        if change.taken >= change.given_back {
            self.used_bytes.fetch_add(change.taken - change.given_back, Ordering::AcqRel);
        } else {
            self.used_bytes.fetch_sub(change.given_back - change.taken, Ordering::AcqRel);
            self.wake();
        }
    }

    /// Lets all who wait look again.
    pub(super) fn wake(&self) {
        *self.turns.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.turned.notify_all();
    }

    /// What `wait` waits to move on from.
    pub(super) fn turn(&self) -> u64 {
        *self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until somebody has given memory back, or may have, since `turn`.
    pub(super) fn wait(&self, turn: u64) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        while *turns == turn {
            turns = self.turned.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
