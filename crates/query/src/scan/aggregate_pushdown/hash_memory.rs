//! The memory of groups that are found by hash, of all workers of an aggregate.
//!
//! - It is reserved as that of an operator that can spill: it has a fair share, and leaves the rest
//!   to others (memory-1). In place of spilling the tables are dropped, and the aggregate begins
//!   anew in another way (`hash_run`).
//! - Memory is reserved before it is taken: that of a piece of rows with long texts, of a table
//!   that becomes a run, and of a batch of long texts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

/// The memory of the groups of all workers.
pub(super) struct HashMemory {
    reservation: MemoryReservation,
    is_refused: AtomicBool,
}

impl HashMemory {
    pub(super) fn new(context: &TaskContext) -> HashMemory {
        let consumer = MemoryConsumer::new("PushedAggregate").with_can_spill(true);
        let reservation = consumer.register(context.memory_pool());
        HashMemory { reservation, is_refused: AtomicBool::new(false) }
    }

    /// Reserves more; returns false if memory was refused, to this worker or to another one.
    pub(super) fn grow(&self, bytes: usize) -> bool {
        if 0 < bytes && self.reservation.try_grow(bytes).is_err() {
            self.refuse();
        }
        !self.is_refused()
    }

    /// Reserves memory until what is returned is dropped, without ending the work of workers.
    pub(super) fn hold(&self, bytes: usize) -> Result<MemoryReservation> {
        let held = self.reservation.new_empty();
        held.try_grow(bytes)?;
        Ok(held)
    }

    /// Gives back what was reserved.
    pub(super) fn shrink(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }

    /// Ends the work of all workers.
    pub(super) fn refuse(&self) {
        self.is_refused.store(true, Relaxed);
    }

    /// Returns true if memory was refused.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.load(Relaxed)
    }
}
