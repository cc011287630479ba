//! Conservation of records: every record that was found in an input is accounted for.
//!
//! - tally-1. For each input, the record ends that its index has found are as many as its rows, its
//!   rejected records, its header and its blank lines together. An import with a difference fails
//!   before its commit.
//!
//! Both sides are counted in different places, a block at a time: the records found by the index
//! (`read`, the footer of a Parquet file), and the outcomes of records in the code that handles
//! them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::parsed_batch::ParsedBatch;
use crate::reject::RejectPlace;

/// The counts of one input.
#[derive(Debug, Default)]
pub(crate) struct FileTally {
    /// The records of the input, its header and its blank lines included.
    pub(crate) seen: AtomicU64,
    /// Rows that go to the table.
    pub(crate) rows: AtomicU64,
    pub(crate) rejected: AtomicU64,
    /// Those of `rejected` with a wrong shape: the number of fields, a quote.
    pub(crate) misshapen: AtomicU64,
    pub(crate) headers: AtomicU64,
    pub(crate) blank: AtomicU64,
    /// Blank lines that are records, since the input has one column.
    pub(crate) blank_rows: AtomicU64,
    /// Rows whose last fields were ignored.
    pub(crate) long: Lines,
    /// Rows whose last columns are NULL because fields are missing.
    pub(crate) short: Lines,
    /// Lines of rejected records beyond the first of each.
    pub(crate) rejected_lines: AtomicU64,
    /// Lines beyond the first of each record whose lines look like records.
    pub(crate) joined: AtomicU64,
    first_joined: Mutex<Option<Joined>>,
}

/// A count of records, and the line of the first.
#[derive(Debug)]
pub(crate) struct Lines {
    count: AtomicU64,
    first: AtomicU64,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines { count: AtomicU64::new(0), first: AtomicU64::new(u64::MAX) }
    }
}

impl Lines {
    /// Adds `count` records, of which the first begins in this line.
    pub(crate) fn add(&self, count: u64, line: u64) {
        self.count.fetch_add(count, Relaxed);
        self.first.fetch_min(line, Relaxed);
    }

    /// Returns the number of records and the line of the first; `None` without records.
    pub(crate) fn count_and_first(&self) -> Option<(u64, u64)> {
        let count = self.count.load(Relaxed);
        (count > 0).then(|| (count, self.first.load(Relaxed)))
    }
}

/// A record of several lines that look like records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joined {
    pub(crate) place: RejectPlace,
    /// The first field that contains several of the lines.
    pub(crate) field: usize,
    pub(crate) lines: u64,
}

impl FileTally {
    /// Counts the rows of a parsed batch after its parse errors were handled.
    pub(crate) fn add_batch(&self, parsed: &ParsedBatch) {
        self.rows.fetch_add((parsed.rows - parsed.rejected.len()) as u64, Relaxed);
    }

    /// Counts a record of several lines that look like records.
    pub(crate) fn add_joined(&self, joined: Joined) {
        self.joined.fetch_add(joined.lines - 1, Relaxed);
        let mut first = self.first_joined.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none_or(|first| joined.place < first.place) {
            *first = Some(joined);
        }
    }

    /// The first such record of the file.
    pub(crate) fn first_joined(&self) -> Option<Joined> {
        *self.first_joined.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counts of all inputs.
#[derive(Debug)]
pub(crate) struct Tallies {
    files: Vec<(PathBuf, FileTally)>,
}

impl Tallies {
    /// Creates counts of 0.
    pub(crate) fn new(paths: &[PathBuf]) -> Tallies {
        let files = paths.iter().map(|path| (path.clone(), FileTally::default()));
        Tallies { files: files.collect() }
    }

    /// The counts of an input, by its position.
    pub(crate) fn of(&self, file: usize) -> &FileTally {
        &self.files[file].1
    }

    /// The name of an input, by its position.
    pub(crate) fn path(&self, file: usize) -> &Path {
        &self.files[file].0
    }

    /// Checks that the counts agree (tally-1).
    pub(crate) fn check(&self) -> Result<()> {
        for (path, tally) in &self.files {
            let [seen, rows, rejected, headers, blank] =
                [&tally.seen, &tally.rows, &tally.rejected, &tally.headers, &tally.blank]
                    .map(|count| count.load(Relaxed));
            if seen != rows + rejected + headers + blank {
                let path = path.clone();
                let seen = seen.saturating_sub(blank);
                return Err(Error::Unaccounted { path, seen, rows, rejected, headers });
            }
        }
        Ok(())
    }

    /// The rows of all inputs that go to the table.
    pub(crate) fn rows(&self) -> u64 {
        self.sum(|tally| &tally.rows)
    }

    /// The rejected records of all inputs.
    pub(crate) fn rejected(&self) -> u64 {
        self.sum(|tally| &tally.rejected)
    }

    /// The lines of rejected records, beyond the first of each.
    pub(crate) fn rejected_lines(&self) -> u64 {
        self.sum(|tally| &tally.rejected_lines)
    }

    /// The headers of all inputs.
    pub(crate) fn headers(&self) -> u64 {
        self.sum(|tally| &tally.headers)
    }

    fn sum(&self, count: impl Fn(&FileTally) -> &AtomicU64) -> u64 {
        self.files.iter().map(|(_, tally)| count(tally).load(Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_nowhere_fails_the_import() {
        let tallies = Tallies::new(&[PathBuf::from("a.csv"), PathBuf::from("b.csv")]);
        let add = |file: usize, counts: [u64; 5]| {
            let FileTally { seen, rows, rejected, headers, blank, .. } = tallies.of(file);
            for (count, by) in [seen, rows, rejected, headers, blank].iter().zip(counts) {
                count.fetch_add(by, Relaxed);
            }
        };
        add(0, [10, 6, 1, 1, 2]);
        add(1, [3, 3, 0, 0, 0]);
        tallies.check().expect("all are accounted for");
        assert_eq!((tallies.rows(), tallies.headers()), (9, 1));
        add(1, [1, 0, 0, 0, 0]);
        let error = tallies.check().expect_err("one is lost").to_string();
        assert!(error.starts_with("b.csv: 4 records were found, but 3 rows"), "{error}");
    }
}
