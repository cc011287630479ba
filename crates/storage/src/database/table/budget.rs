//! The memory budget of memtables: writers beyond it flush, or wait for a flush.
//!
//! - table_budget-1. The memory of a commit is counted when the commit is published. The memory
//!   that the commit frees is returned at the same time.
//! - table_budget-2. No writer is refused because of the budget: a writer beyond it flushes, or
//!   waits for a flush.
//!
//! A writer checks the budget before it commits, so all writers together may exceed it by one
//! commit each, of at most `limits::WAL_RECORD_BYTES`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::state::TableState;

/// The memory of all memtables.
#[derive(Debug)]
pub(crate) struct MemtableBudget {
    max_bytes: u64,
    /// Written by the thread that publishes, one at a time.
    used_bytes: AtomicU64,
    /// Number of events that have freed memory, or may have.
    turns: Mutex<u64>,
    turned: Condvar,
}

/// A guard that wakes the writers that wait for memory when it is dropped, after success and
/// failure. A thread that holds locks of a table's runs drops it after the locks.
#[derive(Debug)]
pub(crate) struct Wake(Arc<MemtableBudget>);

impl Wake {
    pub(crate) fn new(budget: &Arc<MemtableBudget>) -> Wake {
        Wake(Arc::clone(budget))
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// The bytes that a group of commits adds to memtables, and those that it frees.
#[derive(Debug, Default)]
pub(crate) struct MemtableBytes {
    taken: u64,
    given_back: u64,
}

impl MemtableBytes {
    /// Counts a table that is replaced by another version.
    pub(crate) fn count(&mut self, old: Option<&Arc<TableState>>, new: Option<&Arc<TableState>>) {
        let bytes = |table: Option<&Arc<TableState>>| {
            table.map_or(0, |table| table.memtable.memory_bytes())
        };
        self.given_back += bytes(old);
        self.taken += bytes(new);
    }
}

impl MemtableBudget {
    pub(crate) fn new(max_bytes: u64, used_bytes: u64) -> MemtableBudget {
        let (turns, turned) = (Mutex::new(0), Condvar::new());
        MemtableBudget { max_bytes, used_bytes: AtomicU64::new(used_bytes), turns, turned }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Acquire)
    }

    /// Returns true if this many more bytes may be used. A commit that is larger than the budget is
    /// accepted if it is the only one.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let used = self.used_bytes();
        used == 0 || used.saturating_add(bytes) <= self.max_bytes
    }

    /// Counts a published group (table_budget-1).
    pub(crate) fn change(&self, change: &MemtableBytes) {
        if change.taken >= change.given_back {
            self.used_bytes.fetch_add(change.taken - change.given_back, Ordering::AcqRel);
        } else {
            self.used_bytes.fetch_sub(change.given_back - change.taken, Ordering::AcqRel);
            self.wake();
        }
    }

    /// Wakes all waiting writers, which then check the budget again.
    pub(crate) fn wake(&self) {
        *self.turns.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.turned.notify_all();
    }

    /// The current count of events, the argument of `wait`.
    pub(crate) fn turn(&self) -> u64 {
        *self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until memory was freed, or may have been, since `turn`.
    pub(crate) fn wait(&self, turn: u64) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        while *turns == turn {
            turns = self.turned.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
