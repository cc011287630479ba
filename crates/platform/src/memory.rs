//! A hard budget for memory that several threads share.
//!
//! - G1. `used_bytes` is the sum of all living reservations.
//! - G2. What is only ever reserved with the `try_` functions never exceeds the budget, whatever
//!   the threads do at the same time.
//!
//! It counts; it allocates nothing. Not here: what the machine has, which is in `machine`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much memory one purpose may use, and how much of that is taken.
#[derive(Debug)]
pub struct MemoryBudget {
    max_bytes: u64,
    // Relaxed is enough: the counter guards no other memory.
    used_bytes: AtomicU64,
}

/// A part of a budget; dropping it gives the part back.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl MemoryBudget {
    /// A budget of which nothing is used.
    pub fn new(max_bytes: u64) -> MemoryBudget {
        MemoryBudget { max_bytes, used_bytes: AtomicU64::new(0) }
    }

    /// How much there is in all.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// How much is reserved now (G1).
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    /// More is reserved than there is: somebody has to spill.
    pub fn is_over(&self) -> bool {
        self.max_bytes < self.used_bytes()
    }

    /// Reserves `bytes` if they are there (G2).
    pub fn try_reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        self.try_take(bytes).then(|| Reservation { budget: Arc::clone(self), bytes })
    }

    /// Reserves `bytes` whether they are there or not; the caller looks at
    /// [`is_over`](Self::is_over) and spills.
    pub fn reserve_unchecked(self: &Arc<Self>, bytes: u64) -> Reservation {
        self.take(bytes);
        Reservation { budget: Arc::clone(self), bytes }
    }

    fn try_take(&self, bytes: u64) -> bool {
        let with_more =
            |used: u64| used.checked_add(bytes).filter(|&total| total <= self.max_bytes);
        self.used_bytes.fetch_update(Relaxed, Relaxed, with_more).is_ok()
    }

    fn take(&self, bytes: u64) {
        let before = self.used_bytes.fetch_add(bytes, Relaxed);
        assert!(before.checked_add(bytes).is_some(), "G1: reservations are below 2^64 bytes");
    }

    fn give_back(&self, bytes: u64) {
        let before = self.used_bytes.fetch_sub(bytes, Relaxed);
        assert!(bytes <= before, "G1: more is given back than was taken");
    }
}

impl Reservation {
    /// How much this is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds `bytes` whether they are there or not.
    pub fn grow(&mut self, bytes: u64) {
        self.budget.take(bytes);
        self.bytes += bytes;
    }

    /// Adds `bytes` if they are there, and says whether they were (G2).
    #[must_use]
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        let is_taken = self.budget.try_take(bytes);
        if is_taken {
            self.bytes += bytes;
        }
        is_taken
    }

    /// Gives `bytes` of it back.
    ///
    /// # Panics
    /// If it has fewer.
    pub fn shrink(&mut self, bytes: u64) {
        assert!(bytes <= self.bytes, "G1: {bytes} bytes of a reservation of {}", self.bytes);
        self.bytes -= bytes;
        self.budget.give_back(bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}
