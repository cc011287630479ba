//! Merging of the runs of all workers, by parts of their partitions.
//!
//! - hash_merge-1. A part has whole partitions, of all runs: a key is in one part. It has so many
//!   of them that its table stays in the caches of a core.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_filter::grouping::{HashedTable, PARTITIONS};

use super::hash_key::TextWord;
use super::hash_table::Run;
use super::plan::PushedAggregate;
use super::states::States;

/// The groups of runs that are about a part.
const PART_GROUPS: usize = 12 << 10;
/// The bytes that merging takes for a group of a run, besides its states: at most four slots, a
/// word with its run, and a number.
const MERGE_BYTES: usize = 4 * 8 + 32 + 4;

/// The runs of all workers.
pub(super) struct Runs {
    runs: Vec<Run>,
    /// The number of parts, a power of two.
    parts: usize,
    /// The next part.
    next: AtomicUsize,
}

/// The merged groups of a part.
pub(super) struct Part {
    words: PartWords,
    pub(super) states: States,
}

enum PartWords {
    /// Without texts.
    Plain(Vec<u128>),
    Texts(Vec<RunWord>),
}

/// A word, and the run with the texts of its numbers.
#[derive(Clone, Copy)]
struct RunWord {
    word: u128,
    run: u32,
}

impl Runs {
    pub(super) fn new(runs: Vec<Run>) -> Runs {
        let groups = runs.iter().map(|run| run.states.rows.len()).sum::<usize>();
        let parts = (groups / PART_GROUPS).max(1).next_power_of_two().min(PARTITIONS);
        Runs { runs, parts, next: AtomicUsize::new(0) }
    }

    /// Returns the runs, of which no part was taken.
    pub(super) fn into_runs(self) -> Vec<Run> {
        self.runs
    }

    /// Returns the number of groups, each counted once.
    pub(super) fn count(&self, plan: &PushedAggregate) -> usize {
        (0..self.parts).map(|part| self.merge(plan, part).count()).sum()
    }

    /// Returns the number of parts.
    pub(super) fn parts(&self) -> usize {
        self.parts
    }

    /// Returns the bytes that merging one part takes.
    pub(super) fn part_bytes(&self, plan: &PushedAggregate) -> usize {
        let groups = self.runs.iter().map(|run| run.states.rows.len()).sum::<usize>();
        groups / self.parts * (MERGE_BYTES + plan.slot_bytes())
    }

    /// Returns the bytes of all texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.runs.iter().map(Run::text_bytes).sum()
    }

    /// Merges the next part; `None` if there are no more.
    pub(super) fn merge_next(&self, plan: &PushedAggregate) -> Option<Part> {
        let part = self.next.fetch_add(1, Ordering::Relaxed);
        (part < self.parts).then(|| self.merge(plan, part))
    }

    fn merge(&self, plan: &PushedAggregate, part: usize) -> Part {
        let width = PARTITIONS / self.parts;
        assert_eq!(width * self.parts, PARTITIONS, "hash_merge-1");
        let (first, end) = (part * width, (part + 1) * width);
        let rows_of = |run: &Run| run.starts[first] as usize..run.starts[end] as usize;
        let all = self.runs.iter().map(|run| rows_of(run).len()).sum::<usize>();
        let longest = self.runs.iter().map(|run| rows_of(run).len()).max().unwrap_or(0);
        let (keys, mut numbers) = (plan.hash_keys(), vec![0; longest]);
        let mut states = States::new(plan);
        if keys.texts == 0 {
            let mut table = keys.table();
            table.reserve(all);
            for run in &self.runs {
                let rows = rows_of(run);
                let numbers = &mut numbers[..rows.len()];
                table.groups(&run.words()[rows.clone()], numbers);
                states.grow(table.keys().len());
                states.merge_groups(numbers, &run.states, rows);
            }
            return Part { words: PartWords::Plain(table.into_keys()), states };
        }
        let mut table = HashedTable::<RunWord>::with_capacity(all);
        let with_texts = |word: &RunWord| self.runs[word.run as usize].with_texts(word.word);
        for (number, run) in (0..).zip(&self.runs) {
            let rows = rows_of(run);
            let numbers = &mut numbers[..rows.len()];
            table.groups(
                &run.hashes(keys)[rows.clone()],
                numbers,
                |at| RunWord { word: run.word(rows.start + at), run: number },
                |known, word| keys.is_same(&with_texts(known), &with_texts(word)),
            );
            states.grow(table.keys().len());
            states.merge_groups(numbers, &run.states, rows);
        }
        Part { words: PartWords::Texts(table.into_keys()), states }
    }
}

impl Part {
    /// Returns the number of groups.
    pub(super) fn count(&self) -> usize {
        self.states.rows.len()
    }

    /// Returns the word of a group.
    pub(super) fn word<'r>(&'r self, runs: &'r Runs, group: usize) -> TextWord<'r> {
        match &self.words {
            PartWords::Plain(words) => TextWord { word: words[group], texts: &[] },
            PartWords::Texts(words) => {
                let RunWord { word, run } = words[group];
                runs.runs[run as usize].with_texts(word)
            }
        }
    }

    /// Returns the bytes of the texts of a group.
    pub(super) fn text_bytes(&self, plan: &PushedAggregate, runs: &Runs, group: usize) -> usize {
        plan.hash_keys().text_bytes(&self.word(runs, group))
    }

    /// Returns the words of groups.
    pub(super) fn words<'r>(&'r self, runs: &'r Runs, groups: Range<usize>) -> Vec<TextWord<'r>> {
        groups.map(|group| self.word(runs, group)).collect()
    }

    /// Returns these groups alone.
    pub(super) fn gathered(&self, groups: &[u32]) -> Part {
        let each = || groups.iter().map(|&group| group as usize);
        let words = match &self.words {
            PartWords::Plain(words) => PartWords::Plain(each().map(|at| words[at]).collect()),
            PartWords::Texts(words) => PartWords::Texts(each().map(|at| words[at]).collect()),
        };
        Part { words, states: self.states.gathered(groups) }
    }
}
