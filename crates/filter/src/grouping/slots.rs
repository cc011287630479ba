//! Slots of a hash table with open addressing, in the order of the hashes.
//!
//! - slots-1. At most half of the slots are used, so that a search ends soon, at an empty one.
//! - A slot has a number and the upper half of its hash, which is compared before the key. Its
//!   upper bits are also where its search begins: a table that grows reads its slots and writes
//!   the new ones in the same order, and needs no key for it.

/// The number of slots of a new table.
const SLOTS_MIN: usize = 256;

/// Numbers by hash.
#[derive(Debug)]
pub(super) struct Slots {
    /// The upper half of the hash, and one more than the number; 0 if it is empty.
    slots: Vec<u64>,
    used: usize,
    /// The bits of a hash below those where its search begins.
    shift: u32,
}

/// An empty slot at which a search has ended; it stays the right one until another number is
/// inserted.
#[derive(Debug)]
pub(super) struct Vacancy {
    place: usize,
    hash: u64,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { slots: vec![0; SLOTS_MIN], used: 0, shift: shift_of(SLOTS_MIN) }
    }
}

impl Slots {
    /// The bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    /// Removes all numbers, and keeps the memory.
    pub(super) fn clear(&mut self) {
        if 0 < self.used {
            self.slots.fill(0);
            self.used = 0;
        }
    }

    /// Makes room for so many more numbers (slots-1).
    #[inline]
    pub(super) fn reserve(&mut self, more: usize) {
        if self.slots.len() < (self.used + more) * 2 {
            self.grow(more);
        }
    }

    fn grow(&mut self, more: usize) {
        let count = ((self.used + more) * 2).next_power_of_two();
        self.shift = shift_of(count);
        let before = std::mem::replace(&mut self.slots, vec![0; count]);
        for slot in before.into_iter().filter(|&slot| slot != 0) {
            let mut place = self.start(slot);
            while self.slots[place] != 0 {
                place = (place + 1) & (count - 1);
            }
            self.slots[place] = slot;
        }
    }

    /// Returns the slot where the search for a hash begins, for `hit`.
    #[inline]
    pub(super) fn first(&self, hash: u64) -> u64 {
        self.slots[self.start(hash)]
    }

    /// Returns the number for which `is_it` is true among those with this hash, or the empty slot
    /// for one more.
    ///
    /// # Errors
    /// If there is none.
    #[inline]
    pub(super) fn find(
        &self,
        hash: u64,
        mut is_it: impl FnMut(u32) -> bool,
    ) -> std::result::Result<u32, Vacancy> {
        let mut place = self.start(hash);
        loop {
            let slot = self.slots[place];
            if slot == 0 {
                return Err(Vacancy { place, hash });
            }
            if let Some(number) = hit(slot, hash)
                && is_it(number)
            {
                return Ok(number);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    /// Inserts a number where the search for it has ended.
    ///
    /// # Panics
    /// If there is no room that was reserved, or another number was inserted there.
    #[inline]
    pub(super) fn insert(&mut self, vacancy: &Vacancy, number: u32) {
        let Vacancy { place, hash } = *vacancy;
        self.used += 1;
        assert!(self.used * 2 <= self.slots.len() && self.slots[place] == 0, "slots-1");
        self.slots[place] = hash >> 32 << 32 | (u64::from(number) + 1);
    }

    /// Returns the place where the search for a hash begins, also of that in a slot: there are at
    /// most 2^32 slots.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
    fn start(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }
}

/// Returns the bits below those that number so many slots.
fn shift_of(slots: usize) -> u32 {
    assert!(slots.is_power_of_two() && slots <= 1 << 32, "a number has 32 bits");
    u64::BITS - slots.trailing_zeros()
}

/// Returns the number in a slot, if it may be one with this hash.
#[inline]
pub(super) fn hit(slot: u64, hash: u64) -> Option<u32> {
    (slot != 0 && slot >> 32 == hash >> 32).then(|| number_of(slot))
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
fn number_of(slot: u64) -> u32 {
    (slot as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_hash_however_many_share_it() {
        // Three hashes, and one of them at the last slot, behind which the first one follows.
        let hash_of = |number: u32| [7, u64::MAX, 7 << 40][number as usize % 3];
        let mut slots = Slots::default();
        for round in 0..2 {
            for number in 0..1_000 {
                slots.reserve(1);
                let vacancy =
                    slots.find(hash_of(number), |it| it == number).expect_err("it is new");
                slots.insert(&vacancy, number);
            }
            for number in 0..1_000 {
                assert_eq!(slots.find(hash_of(number), |it| it == number).ok(), Some(number));
                assert!(slots.find(hash_of(number + 1), |it| it == number).is_err());
            }
            assert_eq!(slots.bytes(), 2_048 * 8, "slots-1: round {round}");
            slots.clear();
        }
    }
}
