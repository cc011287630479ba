//! A cache of parsed series. A series is a table name with tags: the longest part of most lines,
//! and the part that repeats.
//!
//! - series_cache-1. A series is the bytes of a line up to the first space, as they were sent. Its
//!   cells refer to columns of its table and to texts in their interners, so the cache is cleared
//!   when one of these is cleared.
//! - series_cache-2. Memory is bounded by `limits::LINE_CACHE_BYTES`. While series do not repeat,
//!   no new ones are cached.
//!
//! Senders send their series in the same order again and again. So each series remembers the one
//! that followed it last time, and that is tried first for the next line.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use memchr::memchr;
use tidegate_model::limits;

/// The number that means no series.
pub(super) const NONE: u32 = u32::MAX;

/// A column, and the number of a text in its interner.
pub(super) type TagCell = (u32, u32);

/// The cached series.
#[derive(Debug, Default)]
pub(super) struct SeriesCache {
    entries: Vec<Series>,
    bytes: Vec<u8>,
    cells: Vec<TagCell>,
    index: HashTable<u32>,
    hasher: FixedState,
    last: u32,
    usage: CacheUse,
}

#[derive(Debug, Clone, Copy)]
struct Series {
    /// The end of its bytes and of its cells; they begin where those of its predecessor end.
    bytes_end: u32,
    cells_end: u32,
    table: u32,
    /// The series that followed it last.
    next: u32,
    /// True if it contains newlines, which are escaped by backslashes.
    has_newlines: bool,
}

/// The present use of the cache.
#[derive(Debug, Clone, Copy)]
enum CacheUse {
    Trying { lines: u32, hits: u32 },
    Paused { left: u32 },
}

/// The number of lines without a right guess after which it is decided whether to use the cache.
const TRIAL_LINES: u32 = 1 << 16;
/// The number of lines that pass before the cache is tried again.
const PAUSE_LINES: u32 = 1 << 18;

impl Default for CacheUse {
    fn default() -> CacheUse {
        CacheUse::Trying { lines: 0, hits: 0 }
    }
}

impl SeriesCache {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.cells.clear();
        self.index.clear();
        self.last = NONE;
    }

    /// The size of the entries.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len()
            + self.cells.len() * size_of::<TagCell>()
            + self.entries.len() * (size_of::<Series>() + 8)
    }

    fn bytes(&self, series: u32) -> &[u8] {
        let series = series as usize;
        let start = if series == 0 { 0 } else { self.entries[series - 1].bytes_end };
        &self.bytes[start as usize..self.entries[series].bytes_end as usize]
    }

    pub(super) fn table(&self, series: u32) -> u32 {
        self.entries[series as usize].table
    }

    pub(super) fn has_newlines(&self, series: u32) -> bool {
        self.entries[series as usize].has_newlines
    }

    /// The columns of its tags, and the numbers of their texts.
    pub(super) fn cells(&self, series: u32) -> &[TagCell] {
        let series = series as usize;
        let start = if series == 0 { 0 } else { self.entries[series - 1].cells_end };
        &self.cells[start as usize..self.entries[series].cells_end as usize]
    }

    /// Matches the guessed series, and returns it with its end.
    #[inline]
    pub(super) fn guess(&mut self, text: &[u8], start: usize) -> Option<(u32, usize)> {
        let guess = self.entries.get(self.last as usize)?.next;
        if self.entries.len() <= guess as usize {
            return None;
        }
        let bytes = self.bytes(guess);
        let end = start + bytes.len();
        let is_it = text.get(end) == Some(&b' ') && &text[start..end] == bytes;
        if !is_it {
            return None;
        }
        self.last = guess;
        Some((guess, end))
    }

    /// The series with these bytes.
    pub(super) fn find(&mut self, head: &[u8]) -> Option<u32> {
        if let CacheUse::Paused { .. } = self.usage {
            return None;
        }
        let hash = self.hasher.hash_one(head);
        let found = self.index.find(hash, |&series| self.bytes(series) == head).copied();
        self.count(found.is_some());
        if let Some(series) = found {
            self.link(series);
        }
        found
    }

    fn link(&mut self, series: u32) {
        if let Some(last) = self.entries.get_mut(self.last as usize) {
            last.next = series;
        }
        self.last = series;
    }

    /// Counts a lookup and decides on the use of the cache (series_cache-2).
    fn count(&mut self, is_hit: bool) {
        if let CacheUse::Trying { lines, hits } = &mut self.usage {
            *lines += 1;
            *hits += u32::from(is_hit);
            if *lines < TRIAL_LINES {
                return;
            }
            let pays = TRIAL_LINES / 4 <= *hits;
            self.usage =
                if pays { CacheUse::default() } else { CacheUse::Paused { left: PAUSE_LINES } };
            if !pays {
                self.clear();
            }
        }
    }

    /// Caches a series whose line was taken, if there is room.
    pub(super) fn insert(&mut self, head: &[u8], table: u32, cells: &[TagCell]) {
        if let CacheUse::Paused { left } = &mut self.usage {
            *left -= 1;
            if *left == 0 {
                self.usage = CacheUse::default();
            }
            return;
        }
        if limits::LINE_CACHE_BYTES / 2 < self.memory_bytes() + head.len() {
            return;
        }
        let position = |len: usize| u32::try_from(len).expect("limits::LINE_CACHE_BYTES");
        let series = position(self.entries.len());
        self.bytes.extend_from_slice(head);
        self.cells.extend_from_slice(cells);
        self.entries.push(Series {
            bytes_end: position(self.bytes.len()),
            cells_end: position(self.cells.len()),
            table,
            next: NONE,
            has_newlines: memchr(b'\n', head).is_some(),
        });
        let hash = self.hasher.hash_one(head);
        let (entries, bytes, hasher) = (&self.entries, &self.bytes, &self.hasher);
        self.index.insert_unique(hash, series, |&series| {
            let start = series.checked_sub(1).map_or(0, |at| entries[at as usize].bytes_end);
            let end = entries[series as usize].bytes_end;
            hasher.hash_one(&bytes[start as usize..end as usize])
        });
        self.link(series);
    }
}
