//! A part of a dictionary: strings with consecutive ids, found by id and by string.
//!
//! The strings of a *saved* part are in the file (symbols-5), those of a *fresh* one in memory.
//! Both have four bytes for the end of each string, and an index with slots of five bytes, of which
//! between seven sixteenths and seven eighths are used.
//!
//! Not here: reading and checking the symbol ranges (`file`), and joining saved parts
//! (`dictionary`).

use std::cmp::Ordering;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tidegate_model::SymbolId;
use tidegate_platform::{Mapping, MemoryBudget, Reservation};

use super::{PART_BYTES, SYMBOL_RANGE_HEADER_BYTES};

/// The bit of an end that says that the header of a symbol range, and its ends, precede the string.
const AFTER_HEADER: u32 = 1 << 31;
const _: () = assert!(PART_BYTES < AFTER_HEADER as usize, "an end has 31 bits");

/// Bytes of memory from which on a part that does not grow any more gives back its spare room.
const SHRUNK_BYTES_MIN: usize = 64 << 10;

/// Values with consecutive ids. Memory for each: four bytes for its end, and a slot of the index.
#[derive(Debug, Default)]
pub(super) struct Part {
    first: u32,
    /// The end of each string, as an offset in `texts`. In a saved part with `AFTER_HEADER`.
    ends: Vec<u32>,
    texts: Texts,
    /// Positions in `ends`.
    index: HashTable<u32>,
    /// The part of the budget of dictionaries, if they have one.
    memory: Option<Reservation>,
}

/// The strings of a part.
#[derive(Debug)]
enum Texts {
    /// In memory, one after another.
    Fresh(Vec<u8>),
    /// In the file (symbols-5).
    Saved(SavedRange),
}

/// Whole symbol ranges of a file.
#[derive(Debug, Clone)]
pub(super) struct SavedRange {
    /// Bytes of the file, from `offset` on.
    pub(super) bytes: Mapping,
    pub(super) offset: u64,
    /// The symbol ranges, as a range of `bytes`.
    pub(super) symbol_ranges: Range<usize>,
}

/// The place of a string in a saved part.
#[derive(Debug, Clone, Copy)]
pub(super) struct SavedText {
    /// Its end, as an offset in the bytes of the range.
    pub(super) end: usize,
    /// True for the first string of a symbol range.
    pub(super) is_after_header: bool,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts::Fresh(Vec::new())
    }
}

impl SavedRange {
    /// The place of the symbol ranges in the file.
    fn file_range(&self) -> Range<u64> {
        self.offset + self.symbol_ranges.start as u64..self.offset + self.symbol_ranges.end as u64
    }
}

impl Part {
    /// A part without values, in memory.
    pub(super) fn fresh(first: u32) -> Part {
        Part { first, ..Part::default() }
    }

    /// A part without values, with room for `count` in these symbol ranges.
    pub(super) fn saved(first: u32, range: SavedRange, count: usize) -> Part {
        assert!(range.symbol_ranges.len() <= PART_BYTES, "an end has 31 bits");
        Part {
            first,
            ends: Vec::with_capacity(count),
            texts: Texts::Saved(range),
            index: HashTable::with_capacity(count),
            memory: None,
        }
    }

    /// The id of the first value.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// The id after the last value.
    pub(super) fn end(&self) -> u32 {
        self.first + self.count()
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.ends.len()).expect("limits::SYMBOLS")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The place in the file of a saved part.
    pub(super) fn file_range(&self) -> Option<Range<u64>> {
        match &self.texts {
            Texts::Fresh(_) => None,
            Texts::Saved(range) => Some(range.file_range()),
        }
    }

    /// Bytes of the strings of a fresh part; of a saved one, of its symbol ranges.
    pub(super) fn text_bytes(&self) -> usize {
        match &self.texts {
            Texts::Fresh(bytes) => bytes.len(),
            Texts::Saved(range) => range.symbol_ranges.len(),
        }
    }

    /// Bytes of memory, without pages of the file.
    pub(super) fn heap_bytes(&self) -> usize {
        let texts = match &self.texts {
            Texts::Fresh(bytes) => bytes.capacity(),
            Texts::Saved(range) if range.bytes.is_file_backed() => 0,
            Texts::Saved(range) => range.symbol_ranges.len(),
        };
        let ends = self.ends.capacity() * size_of::<u32>();
        size_of::<Part>() + ends + texts + self.index.allocation_size()
    }

    pub(super) fn text(&self, position: u32) -> &[u8] {
        text_at(&self.ends, &self.texts, position)
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count()).map(|position| self.text(position))
    }

    pub(super) fn find(&self, hash: u64, text: &[u8]) -> Option<SymbolId> {
        let found = self.index.find(hash, |&position| self.text(position) == text);
        found.map(|position| SymbolId(self.first + position))
    }

    /// Appends a string to a fresh part.
    pub(super) fn push(&mut self, hash: u64, text: &[u8], hasher: &RandomState) {
        let Texts::Fresh(bytes) = &mut self.texts else { panic!("symbols-5: only fresh parts") };
        bytes.extend_from_slice(text);
        self.ends.push(u32::try_from(bytes.len()).expect("the part is closed before"));
        self.add_to_index(hash, hasher);
    }

    /// Appends a string of the symbol ranges to a saved part, in their order.
    pub(super) fn push_saved(&mut self, hash: u64, text: SavedText, hasher: &RandomState) {
        let Texts::Saved(range) = &self.texts else { panic!("symbols-5: only saved parts") };
        assert!(!self.is_empty() || text.is_after_header, "symbols-5: symbol ranges are whole");
        let end = u32::try_from(text.end - range.symbol_ranges.start).expect("an end has 31 bits");
        let after_header = if text.is_after_header { AFTER_HEADER } else { 0 };
        self.ends.push(end | after_header);
        self.add_to_index(hash, hasher);
    }

    fn add_to_index(&mut self, hash: u64, hasher: &RandomState) {
        let position = self.count() - 1;
        let Part { ends, texts, index, .. } = self;
        let (ends, texts) = (&*ends, &*texts);
        index.insert_unique(hash, position, |&position| {
            hasher.hash_one(text_at(ends, texts, position))
        });
    }

    /// Returns true if the next part, which is fresh as this one, is too long to follow it.
    pub(super) fn joins(&self, next: &Part) -> bool {
        let are_fresh = self.file_range().is_none() && next.file_range().is_none();
        are_fresh
            && self.ends.len() <= 2 * next.ends.len()
            && self.text_bytes() + next.text_bytes() <= PART_BYTES
    }

    pub(super) fn joined(&self, next: &Part, hasher: &RandomState) -> Part {
        let count = self.ends.len() + next.ends.len();
        let mut part = Part {
            first: self.first,
            ends: Vec::with_capacity(count),
            texts: Texts::Fresh(Vec::with_capacity(self.text_bytes() + next.text_bytes())),
            index: HashTable::with_capacity(count),
            memory: None,
        };
        for text in self.texts().chain(next.texts()) {
            part.push(hasher.hash_one(text), text, hasher);
        }
        part
    }

    /// Gives back room for more values, if it is large.
    pub(super) fn shrink(&mut self, hasher: &RandomState) {
        if self.heap_bytes() < SHRUNK_BYTES_MIN {
            return;
        }
        let Part { ends, texts, index, .. } = self;
        ends.shrink_to_fit();
        if let Texts::Fresh(bytes) = texts {
            bytes.shrink_to_fit();
        }
        let (ends, texts) = (&*ends, &*texts);
        index.shrink_to_fit(|&position| hasher.hash_one(text_at(ends, texts, position)));
    }

    /// Counts the memory of the part in a budget, also beyond its maximum.
    pub(super) fn count_in(&mut self, budget: Option<&Arc<MemoryBudget>>) {
        let Some(budget) = budget else { return };
        let bytes = self.heap_bytes() as u64;
        let memory = self.memory.get_or_insert_with(|| budget.reserve_unchecked(0));
        let counted = memory.bytes();
        match bytes.cmp(&counted) {
            Ordering::Less => memory.shrink(counted - bytes),
            Ordering::Equal => {}
            Ordering::Greater => memory.grow(bytes - counted),
        }
    }
}

/// The string at a position. Short, because results and aggregates call it for each value.
#[inline]
fn text_at<'a>(ends: &[u32], texts: &'a Texts, position: u32) -> &'a [u8] {
    let position = position as usize;
    let before = if position == 0 { 0 } else { ends[position - 1] };
    let end = ends[position];
    match texts {
        Texts::Fresh(bytes) => &bytes[before as usize..end as usize],
        Texts::Saved(range) => {
            let symbol_ranges = &range.bytes[range.symbol_ranges.clone()];
            let mut start = (before & !AFTER_HEADER) as usize;
            if end & AFTER_HEADER != 0 {
                start += bytes_before_texts(&symbol_ranges[start..]);
            }
            &symbol_ranges[start..(end & !AFTER_HEADER) as usize]
        }
    }
}

/// Bytes of a symbol range before its strings: header and ends.
fn bytes_before_texts(symbol_range: &[u8]) -> usize {
    let count = symbol_range[4..8].try_into().expect("four bytes were taken");
    SYMBOL_RANGE_HEADER_BYTES + size_of::<u32>() * u32::from_le_bytes(count) as usize
}
