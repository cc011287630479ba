//! The memory budget of connections, shared by all protocols.
//!
//! - budget-1. Bytes are counted before they are held, as far as their number is known, and
//!   released when their [`Reservation`] is dropped.
//! - budget-2. All connections together hold at most `memory.connection_limit` beyond the free
//!   bytes of each.
//! - budget-3. The first `limits::CONNECTION_FREE_BYTES` of a connection are not counted: small
//!   statements and requests are served, however much other connections hold.
//!
//! An [`Account`] belongs to one connection, or one request; every buffer, statement and value that
//! it keeps has a [`Reservation`] of it. Not here: memory of running statements (`query`), and of
//! rows that wait for their commit (`ilp::Ingest`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use tidegate_model::{ByteCount, limits};

/// The bytes that all connections may hold (budget-2).
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
}

/// The bytes that one connection holds.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    held: Mutex<u64>,
}

/// Bytes that are counted until this is dropped (budget-1).
#[derive(Debug)]
pub(crate) struct Reservation {
    account: Arc<Account>,
    bytes: u64,
}

/// The budget has no room for what a connection asks for: SQLSTATE 53200, HTTP 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "no memory for {wanted} more of this connection: all connections hold {used} of \
     memory.connection_limit ({limit}); send less at a time, or try again"
)]
pub(crate) struct OverBudget {
    wanted: ByteCount,
    used: ByteCount,
    limit: ByteCount,
}

impl Budget {
    pub(crate) fn new(limit: ByteCount) -> Arc<Budget> {
        Arc::new(Budget { limit: limit.0, used: AtomicU64::new(0) })
    }

    /// Opens the account of a new connection or request.
    pub(crate) fn account(self: &Arc<Self>) -> Arc<Account> {
        Arc::new(Account { budget: Arc::clone(self), held: Mutex::new(0) })
    }

    /// Returns the bytes that connections hold beyond the free bytes of each.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Returns true if more than half of it is used: slow input is then refused.
    pub(crate) fn is_scarce(&self) -> bool {
        self.limit / 2 < self.used()
    }

    fn take(&self, bytes: u64) -> Result<(), OverBudget> {
        let next = |used: u64| used.checked_add(bytes).filter(|next| *next <= self.limit);
        let taken = self.used.fetch_update(Relaxed, Relaxed, next);
        let refused = |used| OverBudget {
            wanted: ByteCount(bytes),
            used: ByteCount(used),
            limit: ByteCount(self.limit),
        };
        taken.map(|_| ()).map_err(refused)
    }

    fn give_back(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        assert!(bytes <= before, "budget-1");
    }
}

impl Account {
    /// Counts bytes that the connection is about to hold.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, OverBudget> {
        let mut reservation = Reservation { account: Arc::clone(self), bytes: 0 };
        reservation.try_resize(bytes)?;
        Ok(reservation)
    }

    /// Replaces `from` counted bytes by `to`.
    fn change(&self, from: u64, to: u64) -> Result<(), OverBudget> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*held - from).saturating_add(to);
        // budget-3.
        let counted = |bytes: u64| bytes.saturating_sub(limits::CONNECTION_FREE_BYTES as u64);
        let (before, after) = (counted(*held), counted(next));
        if before < after {
            self.budget.take(after - before)?;
        } else if after < before {
            self.budget.give_back(before - after);
        }
        *held = next;
        Ok(())
    }
}

impl Reservation {
    /// Changes the counted size, for a buffer that grows or shrinks. If there is no room, the old
    /// size stays counted.
    pub(crate) fn try_resize(&mut self, bytes: usize) -> Result<(), OverBudget> {
        let bytes = bytes as u64;
        if bytes != self.bytes {
            self.account.change(self.bytes, bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let given = self.account.change(self.bytes, 0);
        assert!(given.is_ok(), "budget-1: there is always room for less");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: usize = limits::CONNECTION_FREE_BYTES;

    #[test]
    fn dropped_reservations_are_given_back() {
        let budget = Budget::new(ByteCount(1_000));
        let account = budget.account();
        let small = account.reserve(FREE).unwrap();
        assert_eq!(budget.used(), 0, "budget-3");
        let mut large = account.reserve(900).unwrap();
        assert_eq!(budget.used(), 900);
        let refused = large.try_resize(1_001).unwrap_err();
        assert_eq!((refused.wanted, refused.used), (ByteCount(101), ByteCount(900)), "budget-2");
        assert_eq!(budget.used(), 900, "budget-1");
        drop(small);
        assert_eq!(budget.used(), 0, "budget-3");
        large.try_resize(FREE + 1_000).unwrap();
        assert_eq!(budget.used(), 1_000);
        drop(large);
        assert_eq!((budget.used(), *account.held.lock().unwrap()), (0, 0), "budget-1");
    }

    #[test]
    fn small_requests_are_served_when_others_hold_everything() {
        let budget = Budget::new(ByteCount(1_000));
        let (greedy, modest) = (budget.account(), budget.account());
        let _all = greedy.reserve(FREE + 1_000).unwrap();
        assert!(modest.reserve(FREE).is_ok(), "budget-3");
        let message = modest.reserve(FREE + 1).unwrap_err().to_string();
        assert!(message.contains("memory.connection_limit (1000 B)"), "{message}");
        assert!(greedy.reserve(usize::MAX).is_err(), "budget-2: nothing overflows");
    }
}
