//! The bounded table of one worker whose groups are found by hash, and the runs that are left of
//! full tables.
//!
//! - hash_table-1. A table has at most `GROUPS_MAX` groups and one zone more, so that it stays in
//!   the caches of a core. A full one becomes a run: its groups in the order of their partitions,
//!   and their texts decompressed. Other groups of a run, and of other runs, may have the same key.
//! - Texts of at most `TEXT_BYTES_MAX` bytes are added at a time, or one that is longer: a zone
//!   with more is read in pieces, and the memory of each is reserved before it is read.
//! - A table whose texts have another string table than the next zone is full.
//! - If a full table had hardly fewer groups than rows, the rows behind it have a group each,
//!   without a search, for some runs.

use datafusion::common::{Result, internal_err};
use tidegate_filter::grouping::{DecompressedTexts, PartitionOrder, WholeTexts};

use super::hash_key::{HashGroups, HashKeys, HashZone, Lookup, Scratch, TextWord};
use super::hash_memory::HashMemory;
use super::states::States;

/// The groups from which on a table is full.
const GROUPS_MAX: usize = 12 << 10;
/// The stored bytes of texts from which on a table is full, and the most of a piece of a zone.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// The most bytes that stay reserved beyond those of the table.
const SURPLUS_MAX: usize = 4 << 20;
/// The groups of a worker from which on there is no memory for more.
const ALL_GROUPS_MAX: usize = 1 << 30;
/// The runs whose rows have a group each, behind a table that was full in vain.
const RUNS_APPENDED: usize = 16;

/// The groups of a table that was full.
pub(super) struct Run {
    /// The words of the groups; none if the group is the number of its text.
    words: Vec<u128>,
    /// The hashes of the groups; none without texts.
    hashes: Vec<u64>,
    /// One for each key that is a text.
    texts: Vec<WholeTexts>,
    pub(super) states: States,
    /// The start of each partition, and the end of the last one.
    pub(super) starts: Vec<u32>,
}

/// A table, in memory that is reserved as it grows, and the runs before it.
pub(super) struct HashTable<'p> {
    keys: &'p HashKeys,
    groups: HashGroups,
    scratch: Scratch,
    memory: &'p HashMemory,
    /// The bytes of the table that are reserved.
    reserved: usize,
    lookup: Lookup,
    /// The runs that are still appended.
    appended: usize,
    /// The rows of the table.
    rows: usize,
    runs: Vec<Run>,
    /// The groups of all runs.
    run_groups: usize,
    /// One for each key that is a text.
    texts: Vec<DecompressedTexts>,
}

impl<'p> HashTable<'p> {
    pub(super) fn new(keys: &'p HashKeys, memory: &'p HashMemory) -> HashTable<'p> {
        HashTable {
            keys,
            groups: HashGroups::new(keys),
            scratch: Scratch::new(keys),
            memory,
            reserved: 0,
            lookup: Lookup::Find,
            appended: 0,
            rows: 0,
            runs: Vec::new(),
            run_groups: 0,
            texts: (0..keys.texts).map(|_| DecompressedTexts::default()).collect(),
        }
    }

    /// Returns true if there are so many groups, of which some may be the same.
    pub(super) fn has_groups(&self, wanted: usize) -> bool {
        wanted <= self.run_groups + self.groups.count()
    }

    /// Writes the groups of the first rows of a zone, and makes states for new ones; returns the
    /// number of the rows, or `None` if there is no memory for them.
    pub(super) fn find(
        &mut self,
        zone: &HashZone<'_>,
        states: &mut States,
        groups: &mut [u32],
    ) -> Result<Option<usize>> {
        let is_full = GROUPS_MAX <= self.groups.count()
            || TEXT_BYTES_MAX <= self.groups.text_bytes()
            || !self.groups.fits(self.keys, zone);
        if is_full && !self.flush(states)? {
            return Ok(None);
        }
        let piece = self.groups.rows_within(self.keys, zone, TEXT_BYTES_MAX);
        let (rows, _) = zone.rows.split_at(piece.rows);
        let (zone, groups) = (HashZone { rows, ..*zone }, &mut groups[..piece.rows]);
        if 0 < piece.growth && !self.reserve(self.bytes(states) + piece.growth) {
            return Ok(None);
        }
        self.groups.find(self.keys, &zone, self.lookup, &mut self.scratch, groups)?;
        let count = self.groups.count();
        assert!(count <= GROUPS_MAX + groups.len(), "hash_table-1");
        self.rows += groups.len();
        states.grow(count);
        Ok(self.reserve(self.bytes(states)).then_some(piece.rows))
    }

    /// Returns the bytes of the table.
    fn bytes(&self, states: &States) -> usize {
        let texts = self.texts.iter().map(DecompressedTexts::bytes).sum::<usize>();
        self.groups.bytes() + states.bytes() + texts
    }

    /// Makes the reservation that of a table with so many bytes; returns false if it is refused.
    fn reserve(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.reserved);
        if !self.memory.grow(more) {
            return false;
        }
        self.reserved += more;
        let less = self.reserved - bytes;
        if SURPLUS_MAX < less {
            self.memory.shrink(less);
            self.reserved = bytes;
        }
        true
    }

    /// Makes the table a run; returns false if there is no memory for it.
    fn flush(&mut self, states: &mut States) -> Result<bool> {
        let most = self.groups.run_bytes_max() + states.bytes();
        if !self.memory.grow(most) {
            return Ok(false);
        }
        for (table, texts) in self.groups.texts.iter().zip(&mut self.texts) {
            table.decompress(texts);
        }
        let run = if self.keys.is_one_text {
            self.run_of_one_text(states)?
        } else {
            self.run_of_words(states)?
        };
        let count = run.states.rows.len();
        self.run_groups += count;
        if ALL_GROUPS_MAX < self.run_groups {
            self.memory.refuse();
        }
        let bytes = run.bytes();
        self.runs.push(run);
        self.choose_lookup(count);
        self.groups.clear();
        self.texts.iter_mut().for_each(DecompressedTexts::clear);
        states.clear();
        self.rows = 0;
        self.memory.shrink(most.saturating_sub(bytes));
        let is_reserved = self.memory.grow(bytes.saturating_sub(most));
        Ok(is_reserved && self.reserve(self.bytes(states)))
    }

    /// Decides how the groups of the next rows are found, behind a table with so many groups.
    fn choose_lookup(&mut self, count: usize) {
        let is_in_vain = GROUPS_MAX <= count && self.rows - self.rows / 5 <= count;
        self.lookup = match self.lookup {
            Lookup::Find if is_in_vain && self.keys.texts == 0 => {
                self.appended = RUNS_APPENDED;
                Lookup::Append
            }
            Lookup::Append if 1 < self.appended => {
                self.appended -= 1;
                Lookup::Append
            }
            Lookup::Find | Lookup::Append => Lookup::Find,
        };
    }

    fn run_of_one_text(&self, states: &States) -> Result<Run> {
        let groups = numbered(self.texts[0].hashes().iter().copied());
        // That of a text below a NULL has no rows (`hash_key`).
        let groups = groups.filter(|&(group, _)| 0 < states.rows[group as usize]);
        let PartitionOrder { groups, starts } = PartitionOrder::of(groups);
        let texts = vec![gathered(&self.texts[0], &groups)?];
        let states = states.gathered(&groups);
        Ok(Run { words: Vec::new(), hashes: Vec::new(), texts, states, starts })
    }

    fn run_of_words(&self, states: &States) -> Result<Run> {
        let (keys, words) = (self.keys, self.groups.keys.keys());
        let hash_of = |&word: &u128| keys.hash(word, &self.texts);
        let all_hashes = words.iter().map(hash_of).collect::<Vec<_>>();
        let order = PartitionOrder::of(numbered(all_hashes.iter().copied()));
        let PartitionOrder { groups, starts } = order;
        let each = || groups.iter().map(|&group| group as usize);
        let mut words = each().map(|group| words[group]).collect::<Vec<_>>();
        let (mut hashes, mut texts) = (Vec::new(), Vec::new());
        if 0 < keys.texts {
            hashes = each().map(|group| all_hashes[group]).collect();
            let numbers = keys.renumber(&mut words, &self.groups);
            for (all, numbers) in self.texts.iter().zip(&numbers) {
                texts.push(gathered(all, numbers)?);
            }
        }
        Ok(Run { words, hashes, texts, states: states.gathered(&groups), starts })
    }

    /// Returns the runs, the last of which is the table; `None` if there is no memory for it.
    pub(super) fn into_runs(mut self, states: &mut States) -> Result<Option<Vec<Run>>> {
        if 0 < self.groups.count() {
            self.flush(states)?;
        }
        self.memory.shrink(self.reserved);
        Ok((!self.memory.is_refused()).then_some(self.runs))
    }
}

impl Run {
    /// Returns the words of groups, if there are no texts.
    pub(super) fn words(&self) -> &[u128] {
        &self.words
    }

    /// Returns the hashes of the groups, if there are texts.
    pub(super) fn hashes(&self, keys: &HashKeys) -> &[u64] {
        if keys.is_one_text { self.texts[0].hashes() } else { &self.hashes }
    }

    /// Returns the bytes of its texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.texts.iter().map(WholeTexts::bytes).sum()
    }

    /// Returns the word of a group, if there are texts.
    #[inline]
    pub(super) fn word(&self, group: usize) -> u128 {
        self.words.get(group).copied().unwrap_or(group as u128)
    }

    /// Returns a word with the texts of the run.
    #[inline]
    pub(super) fn with_texts(&self, word: u128) -> TextWord<'_> {
        TextWord { word, texts: &self.texts }
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u128>()
            + self.hashes.capacity() * size_of::<u64>()
            + self.text_bytes()
            + self.states.bytes()
            + self.starts.capacity() * size_of::<u32>()
    }
}

fn gathered(texts: &DecompressedTexts, numbers: &[u32]) -> Result<WholeTexts> {
    texts.gathered(numbers).map_or_else(|| internal_err!("a text is no UTF-8"), Ok)
}

fn numbered(hashes: impl Iterator<Item = u64> + Clone) -> impl Iterator<Item = (u32, u64)> + Clone {
    (0_u32..).zip(hashes)
}
