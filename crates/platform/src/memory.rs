//! A hard memory budget that several threads share.
//!
//! - platform_memory-1. `used_bytes` is the sum of all living reservations.
//! - platform_memory-2. Reservations made only with the `try_` functions never exceed the budget,
//!   whatever the threads do at the same time.
//!
//! A budget counts; it allocates nothing. Not here: the memory of the machine, which is in
//! `machine`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximal and the reserved memory of one purpose.
#[derive(Debug)]
pub struct MemoryBudget {
    max_bytes: u64,
    // Relaxed is enough: the counter guards no other memory.
    used_bytes: AtomicU64,
}

/// A part of a budget; dropping it returns the part.
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

    /// The maximal number of bytes.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// The bytes that are reserved now (platform_memory-1).
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    /// Returns true if more is reserved than the maximum, so that a holder has to spill.
    pub fn is_over(&self) -> bool {
        self.max_bytes < self.used_bytes()
    }

    /// Reserves `bytes` if they are available (platform_memory-2).
    pub fn try_reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        self.try_take(bytes).then(|| Reservation { budget: Arc::clone(self), bytes })
    }

    /// Reserves `bytes` even beyond the maximum; the caller checks [`is_over`](Self::is_over) and
    /// spills.
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
        assert!(
            before.checked_add(bytes).is_some(),
            "platform_memory-1: reservations are below 2^64 bytes"
        );
    }

    fn give_back(&self, bytes: u64) {
        let before = self.used_bytes.fetch_sub(bytes, Relaxed);
        assert!(bytes <= before, "platform_memory-1: more is given back than was taken");
    }
}

impl Reservation {
    /// The bytes of this reservation.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds `bytes` even beyond the maximum.
    pub fn grow(&mut self, bytes: u64) {
        self.budget.take(bytes);
        self.bytes += bytes;
    }

    /// Adds `bytes` if they are available, and returns true if they were (platform_memory-2).
    #[must_use]
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        let is_taken = self.budget.try_take(bytes);
        if is_taken {
            self.bytes += bytes;
        }
        is_taken
    }

    /// Returns `bytes` of it to the budget.
    ///
    /// # Panics
    /// If it has fewer.
    pub fn shrink(&mut self, bytes: u64) {
        assert!(
            bytes <= self.bytes,
            "platform_memory-1: {bytes} bytes of a reservation of {}",
            self.bytes
        );
        self.bytes -= bytes;
        self.budget.give_back(bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}
