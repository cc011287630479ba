//! Interner: numbers distinct strings. Import workers keep one for each string column, and
//! dictionaries find their values with it.
//!
//! - intern-1. Numbers are assigned in the order of first occurrence, from 0, without gaps.
//! - intern-2. `text(intern(s)) == s`.
//!
//! Open addressing over hashes; a string of up to sixteen bytes is compared by its two words, which
//! are kept in the slot, so that a hit on a short string reads one cache line.

use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// Distinct strings with consecutive numbers.
#[derive(Debug)]
pub struct Interner {
    slots: Vec<Slot>,
    mask: usize,
    ends: Vec<u32>,
    bytes: Vec<u8>,
    hasher: FixedState,
}

/// `len` is the length of the string plus one; 0 marks a free slot. `key` is the string itself if
/// it is short, else its first and last eight bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: [u64; 2],
    len: u32,
    id: u32,
}

/// Bound of the bytes of all strings of an interner, so that offsets have four bytes.
pub const INTERNED_BYTES_MAX: usize = u32::MAX as usize - (64 << 20);

/// Bound of the numbers, so that one bit and one value are free for other meanings.
pub const INTERNED_MAX: u32 = (1 << 31) - 1;

impl Default for Interner {
    fn default() -> Interner {
        Interner::with_slots(64)
    }
}

impl Interner {
    fn with_slots(slots: usize) -> Interner {
        Interner {
            slots: vec![Slot::default(); slots],
            mask: slots - 1,
            ends: Vec::new(),
            bytes: Vec::new(),
            hasher: FixedState::with_seed(0x7469_6465),
        }
    }

    /// Removes all strings and keeps the memory.
    pub fn clear(&mut self) {
        if self.ends.len() * 16 > self.slots.len() {
            self.slots.fill(Slot::default());
        } else {
            // With few strings in a large table, only their slots are cleared.
            for id in 0..self.ends.len() {
                let id = u32::try_from(id).expect("intern-1");
                let text = self.text(id);
                let mut at = self.home(text, words(text));
                while self.slots[at & self.mask].len == 0 || self.slots[at & self.mask].id != id {
                    at += 1;
                }
                let taken = at & self.mask;
                self.slots[taken] = Slot::default();
            }
        }
        self.ends.clear();
        self.bytes.clear();
    }

    /// Removes all strings, and frees the memory if it is more than `bytes`.
    pub fn keep_at_most(&mut self, bytes: usize) {
        if self.memory_bytes() > bytes {
            *self = Interner::default();
        }
    }

    /// Number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no string.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The memory held, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.slots.len() * size_of::<Slot>() + self.ends.capacity() * 4 + self.bytes.capacity()
    }

    /// The bytes of all strings together.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The string of a number.
    ///
    /// # Panics
    /// If the number was not assigned by this interner.
    #[must_use]
    pub fn text(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] as usize };
        &self.bytes[start..self.ends[id] as usize]
    }

    /// The number of a string, if it is in the interner.
    #[must_use]
    #[inline]
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.probe(text, words(text)).ok()
    }

    /// The number of a string; a new string gets a new one. `None` if there is no room for it.
    #[inline]
    pub fn intern(&mut self, text: &[u8]) -> Option<u32> {
        let key = words(text);
        match self.probe(text, key) {
            Ok(id) => Some(id),
            Err(slot) => self.insert(text, key, slot),
        }
    }

    /// Returns the number of `text`, or the free slot for it.
    #[inline]
    fn probe(&self, text: &[u8], key: [u64; 2]) -> Result<u32, usize> {
        let len = wanted_len(text);
        let mut at = self.home(text, key);
        loop {
            let slot = &self.slots[at & self.mask];
            if slot.len == len
                && slot.key == key
                && (text.len() <= 16 || self.text(slot.id) == text)
            {
                return Ok(slot.id);
            }
            if slot.len == 0 {
                return Err(at & self.mask);
            }
            at += 1;
        }
    }

    #[inline]
    fn home(&self, text: &[u8], key: [u64; 2]) -> usize {
        let hash = if text.len() <= 16 {
            // Two multiplications; the length distinguishes "" from "\0".
            let mixed = (key[0] ^ text.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mixed = (mixed ^ mixed >> 32 ^ key[1]).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            mixed ^ mixed >> 32
        } else {
            self.hasher.hash_one(text)
        };
        #[expect(clippy::cast_possible_truncation, reason = "the low bits of a hash")]
        let home = hash as usize;
        home & self.mask
    }

    #[cold]
    fn insert(&mut self, text: &[u8], key: [u64; 2], slot: usize) -> Option<u32> {
        if self.bytes.len() + text.len() > INTERNED_BYTES_MAX {
            return None;
        }
        let id = u32::try_from(self.ends.len()).ok().filter(|&id| id < INTERNED_MAX)?;
        self.bytes.extend_from_slice(text);
        self.ends.push(u32::try_from(self.bytes.len()).expect("INTERNED_BYTES_MAX"));
        self.slots[slot] = Slot { key, len: wanted_len(text), id };
        // At most half full: a miss costs two slots on average.
        if self.ends.len() * 2 > self.slots.len() {
            self.grow();
        }
        Some(id)
    }

    fn grow(&mut self) {
        let slots = vec![Slot::default(); self.slots.len() * 4];
        let old = std::mem::replace(&mut self.slots, slots);
        self.mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|slot| slot.len != 0) {
            let mut at = self.home(self.text(slot.id), slot.key);
            while self.slots[at & self.mask].len != 0 {
                at += 1;
            }
            let free = at & self.mask;
            self.slots[free] = slot;
        }
    }

    /// Every string in the order of its number.
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|id| self.text(u32::try_from(id).expect("intern-1")))
    }
}

#[inline]
fn wanted_len(text: &[u8]) -> u32 {
    u32::try_from(text.len()).expect("limits::VALUE_BYTES") + 1
}

/// The first and the last eight bytes; a shorter string is padded with zeros.
#[inline]
fn words(text: &[u8]) -> [u64; 2] {
    match text.len() {
        0 => [0, 0],
        n @ 1..=3 => {
            let word =
                u64::from(text[0]) | u64::from(text[n / 2]) << 8 | u64::from(text[n - 1]) << 16;
            [word, 0]
        }
        n @ 4..=7 => {
            let low = u32::from_le_bytes(text[..4].try_into().expect("4 bytes"));
            let high = u32::from_le_bytes(text[n - 4..].try_into().expect("4 bytes"));
            [u64::from(low) | u64::from(high) << 32, 0]
        }
        n => {
            let low = u64::from_le_bytes(text[..8].try_into().expect("8 bytes"));
            let high = u64::from_le_bytes(text[n - 8..].try_into().expect("8 bytes"));
            [low, high]
        }
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "test values are small")]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_a_number_and_others_do_not() {
        let mut interner = Interner::default();
        let mut plain: Vec<Vec<u8>> = Vec::new();
        let mut seed = 7_u64;
        for _ in 0..60_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let len = (seed >> 60) as usize * 2;
            let text: Vec<u8> = (0..len).map(|i| ((seed >> 50) as usize % (i + 2)) as u8).collect();
            let id = interner.intern(&text).expect("room") as usize;
            if id == plain.len() {
                assert!(!plain.contains(&text), "intern-1");
                plain.push(text);
            } else {
                assert_eq!(plain[id], text, "intern-2");
            }
        }
        assert_eq!(interner.len(), plain.len());
        assert!(interner.texts().eq(plain.iter().map(Vec::as_slice)));
        assert_eq!(interner.find(b"never seen"), None);
    }

    #[test]
    fn a_cleared_interner_is_as_a_new_one() {
        let mut interner = Interner::default();
        for count in [40_000_u32, 7, 0, 2_000, 3] {
            for number in 0..count {
                let text = format!("{number} of {count}");
                assert_eq!(interner.intern(text.as_bytes()), Some(number), "intern-1");
                assert_eq!(interner.text(number), text.as_bytes(), "intern-2");
            }
            interner.clear();
            assert!(interner.is_empty() && interner.slots.iter().all(|slot| slot.len == 0));
        }
    }

    #[test]
    fn zeros_and_lengths_are_told_apart() {
        let mut interner = Interner::default();
        for text in [&b""[..], b"\0", b"\0\0", b"\0\0\0\0\0\0\0\0", b"a", b"a\0", b"aaaaaaaaa"] {
            let id = interner.intern(text).expect("room");
            assert_eq!(id as usize, interner.len() - 1, "{text:?}");
        }
    }
}
