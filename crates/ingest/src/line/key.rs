//! Keys as they are written in lines, and the order in which they come: the shape of lines.
//!
//! - LK1. A key is the bytes before an `=`, backslashes and all; several keys may mean one column.
//! - LK2. What came behind a key last time is a guess and no more: its bytes are compared.
//!
//! Lines of a table mostly have the same keys in the same order, so the guess is right and a key
//! costs one comparison of a vector; a field that is missing costs one wrong guess, not one for
//! each that comes behind it.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// No key.
pub(super) const NO_KEY: u32 = u32::MAX;

/// Bytes that are compared at once.
const QUICK_BYTES: usize = 32;

/// The keys of a table.
#[derive(Debug, Default)]
pub(super) struct Keys {
    entries: Vec<Key>,
    index: HashTable<u32>,
    hasher: FixedState,
    /// The first field of the last line.
    first: u32,
}

#[derive(Debug)]
struct Key {
    /// With its `=`.
    text: Box<[u8]>,
    /// Its bytes, and which of them count; no mask if it is longer.
    words: [u64; 4],
    masks: [u64; 4],
    column: u32,
    next: u32,
}

/// A key and what it means.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyMatch {
    pub(super) key: u32,
    pub(super) column: u32,
    /// Where it begins.
    pub(super) start: usize,
    /// Where its value begins.
    pub(super) end: usize,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The guess for the key behind that one; for the first one, if it is `NO_KEY`.
    #[inline]
    pub(super) fn guess(&self, previous: u32) -> u32 {
        self.entries.get(previous as usize).map_or(self.first, |key| key.next)
    }

    /// Whether this key stands there.
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

    /// The key with these bytes, `=` and all.
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
        self.entries.push(Key { text: text.into(), words, masks, column, next: NO_KEY });
        let hash = self.hasher.hash_one(text);
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.index.insert_unique(hash, key, |&key| hasher.hash_one(&*entries[key as usize].text));
        key
    }

    /// LK2: what comes next after this key, or first.
    pub(super) fn link(&mut self, previous: u32, key: u32) {
        match self.entries.get_mut(previous as usize) {
            Some(entry) => entry.next = key,
            None => self.first = key,
        }
    }

    /// Forgets those that came last.
    pub(super) fn truncate(&mut self, len: usize) {
        for key in self.entries.drain(len..).rev() {
            let hash = self.hasher.hash_one(&*key.text);
            // The entry of this key has the largest number of all that are there.
            let last = self.index.len() - 1;
            if let Ok(found) = self.index.find_entry(hash, |&other| other as usize == last) {
                found.remove();
            }
        }
    }

    /// About how much memory they have.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.iter().map(|key| key.text.len() + size_of::<Key>() + 8).sum()
    }
}

#[inline]
fn words(bytes: &[u8; QUICK_BYTES]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks::<8>();
    [words[0], words[1], words[2], words[3]].map(u64::from_le_bytes)
}
