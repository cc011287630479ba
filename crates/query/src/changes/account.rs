//! The memory of the uncommitted rows of one session.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tidegate_model::limits;

use crate::error::{Error, Result};
use crate::limits::HELD_BYTES_MAX;

/// The memory of the rows of a transaction, or of the temporary tables of a session.
#[derive(Debug)]
pub(crate) struct RowAccount {
    used: AtomicUsize,
    max: usize,
    is_temporary: bool,
    /// The memory of uncommitted rows, set by the engine.
    pool: OnceLock<Arc<dyn MemoryPool>>,
}

/// Bytes charged to an account; dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<RowAccount>,
    bytes: usize,
    reservation: Option<MemoryReservation>,
}

impl RowAccount {
    pub(super) fn of_transaction() -> RowAccount {
        RowAccount::new(HELD_BYTES_MAX, false)
    }

    pub(super) fn of_temporary_tables() -> RowAccount {
        RowAccount::new(limits::TEMP_BYTES, true)
    }

    fn new(max: usize, is_temporary: bool) -> RowAccount {
        RowAccount { used: AtomicUsize::new(0), max, is_temporary, pool: OnceLock::new() }
    }

    /// Sets the pool that the rows are charged to; only the first call has an effect.
    pub(crate) fn set_pool(&self, pool: impl FnOnce() -> Arc<dyn MemoryPool>) {
        self.pool.get_or_init(pool);
    }

    /// Charges bytes of rows.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge> {
        let counted = self.used.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= self.max)
        });
        if counted.is_err() {
            return Err(match self.is_temporary {
                true => Error::TemporaryTooLarge,
                false => Error::TransactionTooLarge,
            });
        }
        // From here on, dropping `charge` gives the bytes back.
        let mut charge = Charge { account: Arc::clone(self), bytes, reservation: None };
        charge.reservation = self.reserve(bytes)?;
        Ok(charge)
    }

    /// Charges bytes of an encoded copy of rows, to the memory of queries alone.
    pub(super) fn charge_copy(self: &Arc<Self>, bytes: usize) -> Result<Charge> {
        let reservation = self.reserve(bytes)?;
        Ok(Charge { account: Arc::clone(self), bytes: 0, reservation })
    }

    fn reserve(&self, bytes: usize) -> Result<Option<MemoryReservation>> {
        let Some(pool) = self.pool.get() else { return Ok(None) };
        let name = if self.is_temporary { "TemporaryTables" } else { "TransactionRows" };
        let reservation = MemoryConsumer::new(name).register(pool);
        reservation.try_grow(bytes)?;
        Ok(Some(reservation))
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.bytes, Relaxed);
    }
}
