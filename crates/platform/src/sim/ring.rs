//! A simulated io_uring: a queue of writes that complete at any time and in any order.
//!
//! - ring-1. A write happens only when its completion is taken. A caller that syncs before that
//!   loses the write in a power loss, as with a kernel.
//! - The same submissions with the same seed complete in the same order.
//!
//! Not here: the effect of a completed write on the disk (`sim/file.rs`).

use super::random::Random;
use crate::Result;
use crate::uring::{Finished, PinnedBytes, Transfer};

/// A queue of writes.
#[derive(Debug)]
pub(crate) struct SimRing<B: PinnedBytes> {
    depth: usize,
    in_flight: Vec<Transfer<B>>,
    random: Random,
}

impl<B: PinnedBytes> SimRing<B> {
    pub(crate) fn new(seed: u64, depth: usize) -> SimRing<B> {
        SimRing { depth, in_flight: Vec::new(), random: Random::new(seed) }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.in_flight.len() == self.depth
    }

    /// Accepts a transfer; nothing is written yet (ring-1).
    pub(crate) fn submit(&mut self, transfer: Transfer<B>) {
        assert!(!self.is_full(), "the queue has room");
        self.in_flight.push(transfer);
    }

    /// Executes any one of the transfers.
    pub(crate) fn wait(&mut self) -> Option<Finished<B>> {
        let count = self.in_flight.len() as u64;
        if count == 0 {
            return None;
        }
        let at = crate::usize_of(self.random.below(count));
        Some(do_transfer(self.in_flight.swap_remove(at)))
    }

    /// Executes any one of the transfers, or none.
    pub(crate) fn finished(&mut self) -> Option<Finished<B>> {
        if self.random.coin() { self.wait() } else { None }
    }
}

impl<B: PinnedBytes> Drop for SimRing<B> {
    fn drop(&mut self) {
        // A kernel also completes writes whose results are never taken.
        while self.wait().is_some() {}
    }
}

fn do_transfer<B: PinnedBytes>(transfer: Transfer<B>) -> Finished<B> {
    let Transfer { ticket, file, mut buffer, range, offset } = transfer;
    let bytes = &buffer.bytes()[range];
    let count = bytes.len();
    let outcome: Result<usize> = file.write_all_at(bytes, offset).map(|()| count);
    Finished { ticket, buffer, outcome }
}
