//! A cache of field keys as they are written in lines, and of the order in which they follow each
//! other.
//!
//! - A key is the bytes before an `=`, with its backslashes; several keys may mean one column.
//! - key_cache-1. The key that followed another one last time is only a guess: its bytes are
//!   compared.
//!
//! Lines of a table mostly have the same keys in the same order, so the guess is right and a key
//! costs one comparison of a vector; a missing field costs one wrong guess, not one for each key
//! behind it.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// The number that means no key.
pub(super) const NO_KEY: u32 = u32::MAX;

/// The number of bytes that are compared at once.
const QUICK_BYTES: usize = 32;

/// The keys of a table.
#[derive(Debug, Default)]
pub(super) struct KeyCache {
    entries: Vec<CachedKey>,
    index: HashTable<u32>,
    hasher: FixedState,
    /// The first key of the last line.
    first: u32,
}

#[derive(Debug)]
struct CachedKey {
    /// The key with its `=`.
    text: Box<[u8]>,
    /// Its first bytes, and masks of those that count; the masks are zero if it is longer.
    words: [u64; 4],
    masks: [u64; 4],
    column: u32,
    next: u32,
}

/// A key in a line, and its column.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyMatch {
    pub(super) key: u32,
    pub(super) column: u32,
    /// The start of the key.
    pub(super) start: usize,
    /// The start of its value.
    pub(super) end: usize,
}

impl KeyCache {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The guess for the key behind `previous`; for the first key, if that is `NO_KEY`.
    #[inline]
    pub(super) fn guess(&self, previous: u32) -> u32 {
        self.entries.get(previous as usize).map_or(self.first, |key| key.next)
    }

    /// Matches this key at this position.
    #[inline]
    pub(super) fn at(&self, guess: u32, text: &[u8], at: usize) -> Option<KeyMatch> {
        let key = self.entries.get(guess as usize)?;
        let rest = &text[at..];
        let is_it = match rest.first_chunk::<QUICK_BYTES>() {
            Some(bytes) if key.text.len() <= QUICK_BYTES => {
                let words = words(bytes);
                let mut difference = 0;
                for ((word, own), mask) in words.iter().zip(&key.words).zip(&key.masks) {
                    difference |= (word ^ own) & mask;
                }
                difference == 0
            }
            _ => rest.starts_with(&key.text),
        };
        let end = at + key.text.len();
        is_it.then_some(KeyMatch { key: guess, column: key.column, start: at, end })
    }

    /// The key with these bytes, its `=` included.
    pub(super) fn find(&self, text: &[u8]) -> Option<(u32, u32)> {
        let hash = self.hasher.hash_one(text);
        let key = *self.index.find(hash, |&key| *self.entries[key as usize].text == *text)?;
        Some((key, self.entries[key as usize].column))
    }

    pub(super) fn insert(&mut self, text: &[u8], column: u32) -> u32 {
        let key = u32::try_from(self.entries.len()).expect("limits::TABLE_COLUMNS");
        let (mut bytes, mut mask) = ([0; QUICK_BYTES], [0; QUICK_BYTES]);
        if text.len() <= QUICK_BYTES {
            bytes[..text.len()].copy_from_slice(text);
            mask[..text.len()].fill(u8::MAX);
        }
        let (words, masks) = (words(&bytes), words(&mask));
        self.entries.push(CachedKey { text: text.into(), words, masks, column, next: NO_KEY });
        let hash = self.hasher.hash_one(text);
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.index.insert_unique(hash, key, |&key| hasher.hash_one(&*entries[key as usize].text));
        key
    }

    /// Notes that `key` followed `previous`, or came first (key_cache-1).
    pub(super) fn link(&mut self, previous: u32, key: u32) {
        match self.entries.get_mut(previous as usize) {
            Some(entry) => entry.next = key,
            None => self.first = key,
        }
    }

    /// Removes the last keys.
    pub(super) fn truncate(&mut self, len: usize) {
        for key in self.entries.drain(len..).rev() {
            let hash = self.hasher.hash_one(&*key.text);
            // The removed key has the largest number in the index.
            let last = self.index.len() - 1;
            if let Ok(found) = self.index.find_entry(hash, |&other| other as usize == last) {
                found.remove();
            }
        }
    }

    /// The approximate size of the cache.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.iter().map(|key| key.text.len() + size_of::<CachedKey>() + 8).sum()
    }
}

#[inline]
fn words(bytes: &[u8; QUICK_BYTES]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks::<8>();
    [words[0], words[1], words[2], words[3]].map(u64::from_le_bytes)
}
