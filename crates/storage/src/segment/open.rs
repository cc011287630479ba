//! A cache of open segment readers: a bounded number of them, for all tables of a database.
//!
//! - open-1. At most `max` readers stay open in the cache. A query that uses a reader keeps it even
//!   if the cache evicts it. Each reader takes the memory of its footer and one mapping, of which a
//!   process may have 65,530 by default.
//! - open-2. Eviction is by second chance (the clock algorithm): a reader that was used since it
//!   was last passed over is passed over once more.
//!
//! Not here: the readers themselves (`read`), and the files (`snapshot`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use super::Reader;
use crate::error::Result;

/// The slot of the reader of one segment.
#[derive(Debug, Default)]
pub(crate) struct ReaderSlot {
    reader: RwLock<Option<Arc<Reader>>>,
    is_used: AtomicBool,
}

/// The open readers of a database (open-1).
#[derive(Debug)]
pub(crate) struct OpenReaders {
    max: usize,
    /// The slots in the order in which they were opened, or passed over (open-2). Some may be
    /// dropped.
    slots: Mutex<VecDeque<Weak<ReaderSlot>>>,
}

impl ReaderSlot {
    /// Returns the reader if it is open.
    pub(crate) fn get(&self) -> Option<Arc<Reader>> {
        let reader = self.reader.read().unwrap_or_else(PoisonError::into_inner);
        let reader = reader.as_ref().map(Arc::clone)?;
        // Written only if it changes, so that threads share the cache line.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        Some(reader)
    }

    /// Stores a reader unless another thread has stored one first. Returns the stored reader, and
    /// `true` if it is this one.
    pub(crate) fn keep(&self, opened: Reader) -> (Arc<Reader>, bool) {
        let mut reader = self.reader.write().unwrap_or_else(PoisonError::into_inner);
        self.is_used.store(true, Ordering::Relaxed);
        match &*reader {
            Some(known) => (Arc::clone(known), false),
            None => (Arc::clone(reader.insert(Arc::new(opened))), true),
        }
    }

    fn close(&self) {
        // Dropping the last reference unmaps the memory.
        let reader = self.reader.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(reader);
    }
}

impl OpenReaders {
    /// A cache of at most `max` readers.
    pub(crate) fn new(max: usize) -> OpenReaders {
        OpenReaders { max: max.max(1), slots: Mutex::default() }
    }

    /// Returns the reader of a slot; calls `open` if it is closed.
    pub(crate) fn reader(
        &self,
        slot: &Arc<ReaderSlot>,
        open: impl FnOnce() -> Result<Reader>,
    ) -> Result<Arc<Reader>> {
        if let Some(reader) = slot.get() {
            return Ok(reader);
        }
        let (reader, is_new) = slot.keep(open()?);
        if is_new {
            self.note(slot);
        }
        Ok(reader)
    }

    /// Adds a slot whose reader was opened, and evicts others for it.
    fn note(&self, opened: &Arc<ReaderSlot>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.push_back(Arc::downgrade(opened));
        let mut passed_over = 0;
        while slots.len() > self.max {
            let oldest = slots.pop_front().expect("there are more than `max`");
            let Some(slot) = oldest.upgrade() else { continue };
            // After one round every slot has been passed over once.
            if passed_over <= self.max && slot.is_used.swap(false, Ordering::Relaxed) {
                passed_over += 1;
                slots.push_back(oldest);
            } else {
                slot.close();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::TableId;

    use super::*;
    use crate::mem_segment::tests::mem_segment_of_one_row;

    /// Uses the slots of `uses`, and compares the slots that are open afterwards.
    fn check(max: usize, uses: &[usize], expected: &[usize]) {
        let readers = OpenReaders::new(max);
        let slots: Vec<Arc<ReaderSlot>> = (0..8).map(|_| Arc::default()).collect();
        let mem_segment = mem_segment_of_one_row();
        for &at in uses {
            let open =
                || Reader::in_memory(Arc::clone(&mem_segment.bytes), TableId(1), &mem_segment.meta);
            readers.reader(&slots[at], open).unwrap();
        }
        let is_open = |at: &usize| slots[*at].reader.read().unwrap().is_some();
        let open: Vec<usize> = (0..slots.len()).filter(is_open).collect();
        assert_eq!(open, expected, "{max} of {uses:?}");
        assert!(open.len() <= max, "open-1");
    }

    #[test]
    fn readers_that_are_open_have_a_bound() {
        check(3, &[0, 1, 2], &[0, 1, 2]);
        check(3, &[0, 1, 2, 3, 4, 5, 6, 7], &[5, 6, 7]);
        check(1, &[0, 1, 2, 2, 2], &[2]);
        // A slot that is used again is passed over once.
        check(3, &[0, 1, 2, 3, 1, 4], &[1, 3, 4]);
        check(3, &[0, 1, 2, 3, 1, 4, 5], &[1, 4, 5]);
        check(3, &[0, 1, 2, 3, 1, 4, 5, 6], &[4, 5, 6]);
        check(2, &[0, 0, 1, 1, 2], &[1, 2]);
    }

    #[test]
    fn an_evicted_reader_stays_open_while_it_is_held() {
        let readers = OpenReaders::new(2);
        let mem_segment = mem_segment_of_one_row();
        let open =
            || Reader::in_memory(Arc::clone(&mem_segment.bytes), TableId(1), &mem_segment.meta);
        let kept: Arc<ReaderSlot> = Arc::default();
        let reader = readers.reader(&kept, open).unwrap();
        for _ in 0..10 {
            readers.reader(&Arc::default(), open).unwrap();
        }
        assert!(readers.slots.lock().unwrap().len() <= 2, "open-1");
        assert_eq!(reader.frame_count(), 1, "who uses a reader keeps it");
    }
}
