//! Splitting a file into input chunks for several workers: the quote state at the start of each
//! chunk, and the records that span chunks.
//!
//! - split-1. Chunks are numbered without gaps. A chunk's assumed start is the parity of all quotes
//!   before it in its file: exact as long as quotes are regular, and known as soon as all earlier
//!   chunks have been counted, which takes microseconds.
//! - split-2. A chunk's true start is known when its predecessor is indexed; if a quote opened in
//!   the middle of a field (index-2) it may differ from the assumed one, and then the chunk is
//!   indexed again.
//! - split-3. Lines are counted from 1 in each file, from its first chunk on, inside and outside of
//!   quotes.
//! - split-4. Incomplete records, and complete ones that a worker has, take at most `bytes_max`
//!   together, except for one of them; parts being added are a few chunks. A worker with a complete
//!   record never waits for one without.
//!
//! No state is guessed: the rows are those of one thread that reads front to back.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_model::limits;

use crate::error::{Error, Result};
use crate::index::{Before, QuoteState, Start, StructuralCounts};
use crate::shares::LARGE_RECORD_BYTES;

/// The start of a file.
const FILE_START: Start = Start { state: QuoteState::Outside, after: Before::FieldStart };

/// The chain of chunks, from which each gets its start.
#[derive(Debug)]
pub(crate) struct SplitChain {
    state: Mutex<ChainState>,
    changed: Condvar,
}

/// The counts of a chunk before it is indexed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkCounts {
    pub(crate) structural: StructuralCounts,
    /// The kind of its last byte.
    pub(crate) last: Before,
    /// True if the file ends with it.
    pub(crate) is_last: bool,
}

/// The start of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkStart {
    pub(crate) start: Start,
    /// The number of the line of its first byte.
    pub(crate) line: u64,
}

#[derive(Debug)]
struct ChainState {
    /// The start that follows from all chunks below `counted`.
    assumed: ChunkStart,
    counted: u64,
    /// Assumed starts that were not requested yet.
    starts: BTreeMap<u64, ChunkStart>,
    /// Counts of chunks whose predecessors are not all counted.
    waiting: BTreeMap<u64, ChunkCounts>,
    /// The true start of chunk `resolved`.
    truth: Start,
    resolved: u64,
    is_cancelled: bool,
}

impl SplitChain {
    pub(crate) fn new() -> SplitChain {
        let assumed = ChunkStart { start: FILE_START, line: 1 };
        let state = ChainState {
            assumed,
            counted: 0,
            starts: BTreeMap::from([(0, assumed)]),
            waiting: BTreeMap::new(),
            truth: FILE_START,
            resolved: 0,
            is_cancelled: false,
        };
        SplitChain { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Publishes a chunk's counts and waits until its assumed start is known (split-1).
    pub(crate) fn count(&self, chunk: u64, counts: ChunkCounts) -> Result<ChunkStart> {
        let mut state = self.lock();
        state.waiting.insert(chunk, counts);
        while let Some(counts) = {
            let next = state.counted;
            state.waiting.remove(&next)
        } {
            state.advance(counts);
        }
        self.changed.notify_all();
        let mut state = self.wait(state, |state| state.starts.contains_key(&chunk))?;
        Ok(state.starts.remove(&chunk).expect("waited for"))
    }

    /// Waits until the true start of a chunk is known (split-2).
    pub(crate) fn true_start(&self, chunk: u64) -> Result<Start> {
        let state = self.wait(self.lock(), |state| state.resolved == chunk)?;
        Ok(state.truth)
    }

    /// Publishes the state behind a chunk, whose true start was known.
    pub(crate) fn resolve(&self, chunk: u64, end: Start, is_last: bool) {
        let mut state = self.lock();
        assert_eq!(state.resolved, chunk, "split-2");
        state.resolved += 1;
        state.truth = if is_last { FILE_START } else { end };
        drop(state);
        self.changed.notify_all();
    }

    /// Ends all waiting after a failure.
    pub(crate) fn cancel(&self) {
        self.lock().is_cancelled = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ChainState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, ChainState>,
        is_ready: impl Fn(&ChainState) -> bool,
    ) -> Result<MutexGuard<'a, ChainState>> {
        let wanted = |state: &mut ChainState| !state.is_cancelled && !is_ready(state);
        let state = self.changed.wait_while(state, wanted).unwrap_or_else(PoisonError::into_inner);
        if state.is_cancelled { Err(Error::Cancelled) } else { Ok(state) }
    }
}

impl ChainState {
    fn advance(&mut self, counts: ChunkCounts) {
        self.counted += 1;
        self.assumed = if counts.is_last {
            ChunkStart { start: FILE_START, line: 1 }
        } else {
            let flips = counts.structural.quotes % 2 == 1;
            let state = match (self.assumed.start.state, flips) {
                (QuoteState::Outside, false) | (QuoteState::Inside, true) => QuoteState::Outside,
                (QuoteState::Inside, false) | (QuoteState::Outside, true) => QuoteState::Inside,
            };
            let line = self.assumed.line + counts.structural.line_ends;
            ChunkStart { start: Start { state, after: counts.last }, line }
        };
        self.starts.insert(self.counted, self.assumed);
    }
}

/// Partial records: a record that lies in several chunks is joined by the worker that has its last
/// missing part. Boundary `i` lies between chunks `i` and `i + 1`; a partial record reaches from
/// one boundary to another, or begins or ends a record.
#[derive(Debug)]
pub(crate) struct PartialRecords {
    state: Mutex<PartialRecordsState>,
    /// Signalled when a complete record is released.
    changed: Condvar,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct PartialRecordsState {
    /// The bytes of all partial records that wait for others.
    waiting_bytes: usize,
    /// The bytes of complete large records that workers have.
    whole_bytes: usize,
    /// Partial records that begin a record and end at the boundary.
    open_right: BTreeMap<u64, PartialRecord>,
    /// Partial records that begin at the boundary.
    open_left: BTreeMap<u64, PartialRecord>,
}

/// A part of a record.
#[derive(Debug, Clone)]
pub(crate) struct PartialRecord {
    /// The boundary at which it begins; `None` if it begins its record.
    pub(crate) from: Option<u64>,
    /// The boundary at which it ends; `None` if it ends its record.
    pub(crate) to: Option<u64>,
    pub(crate) bytes: Vec<u8>,
    /// The place of its first byte.
    pub(crate) origin: Origin,
    /// True if it ends inside of quotes.
    pub(crate) is_open: bool,
    /// True if some of its bytes were dropped, because the record is too long anyway.
    pub(crate) is_cut: bool,
    /// The number of its bytes, dropped ones included.
    pub(crate) length: usize,
    /// The number of its bytes before the last boundary that lies inside of quotes; 0 if none does.
    pub(crate) open_at: usize,
}

/// The place at which a record begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) chunk: u64,
    pub(crate) line: u64,
    pub(crate) offset: u64,
    /// True for the first record of its file.
    pub(crate) is_first: bool,
}

impl PartialRecords {
    /// Adds a partial record; returns the complete record if it was the last part missing, or the
    /// incomplete one if it grew too long while a quote was open. It may wait for large records
    /// that other workers have (split-4).
    pub(crate) fn add(&self, partial: PartialRecord) -> Option<WholeRecord<'_>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |state: &mut PartialRecordsState| {
            0 < state.whole_bytes && self.bytes_max < state.waiting_bytes + state.whole_bytes
        };
        let state = self.changed.wait_while(state, is_full);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.waiting_bytes += partial.bytes.len();
        let whole = self.joined(&mut state, partial)?;
        let held_bytes = whole.bytes.len();
        state.waiting_bytes = state.waiting_bytes.saturating_sub(whole.length);
        state.whole_bytes += held_bytes;
        Some(WholeRecord { record: whole, held_bytes, partial_records: self })
    }

    fn joined(
        &self,
        state: &mut PartialRecordsState,
        partial: PartialRecord,
    ) -> Option<PartialRecord> {
        let mut whole = partial;
        if let Some(mut left) = whole.from.and_then(|boundary| state.open_right.remove(&boundary)) {
            left.append(whole, self.bytes_max);
            whole = left;
        }
        while let Some(right) = whole.to.and_then(|boundary| state.open_left.remove(&boundary)) {
            whole.append(right, self.bytes_max);
        }
        let is_over = self.is_over(&whole);
        if whole.from.is_none() && (is_over || whole.is_open_too_long()) {
            return Some(whole);
        }
        match (whole.from, whole.to) {
            (None, None) => return Some(whole),
            // A part without its beginning is stored under its left boundary.
            (Some(boundary), _) => state.open_left.insert(boundary, whole),
            (None, Some(boundary)) => state.open_right.insert(boundary, whole),
        };
        None
    }
}

/// A complete record that a worker has, or the beginning of one that is too long.
#[derive(Debug)]
pub(crate) struct WholeRecord<'a> {
    pub(crate) record: PartialRecord,
    held_bytes: usize,
    partial_records: &'a PartialRecords,
}

impl Drop for WholeRecord<'_> {
    fn drop(&mut self) {
        let state = self.partial_records.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).whole_bytes -= self.held_bytes;
        self.partial_records.changed.notify_all();
    }
}

impl PartialRecords {
    /// Creates an empty collection; `bytes_max` is the limit of a record by the memory.
    pub(crate) fn new(bytes_max: usize) -> PartialRecords {
        PartialRecords { state: Mutex::default(), changed: Condvar::new(), bytes_max }
    }

    /// Returns true if a record is larger than the memory for one.
    pub(crate) fn is_over(&self, record: &PartialRecord) -> bool {
        self.bytes_max < limits::CSV_ROW_BYTES && self.bytes_max < record.length
    }

    /// Returns true if no part of a record waits for another.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open_right.is_empty() && state.open_left.is_empty()
    }
}

impl PartialRecord {
    /// Returns true if a quote is open for longer than the maximum length of a record: the quote is
    /// an error.
    pub(crate) fn is_open_too_long(&self) -> bool {
        self.open_at > limits::CSV_ROW_BYTES
    }

    /// Appends the next part; `bytes_max` is the limit of a record by the memory.
    fn append(&mut self, mut right: PartialRecord, bytes_max: usize) {
        if right.open_at > 0 {
            self.open_at = self.length + right.open_at;
        }
        self.length += right.length;
        if self.bytes.len() + right.bytes.len() > limits::CSV_ROW_BYTES + 2 {
            self.is_cut = true;
        }
        if !self.is_cut {
            // A large record is not copied again while it grows: reserved memory that is not
            // written costs nothing.
            let has_room = right.bytes.len() <= self.bytes.capacity() - self.bytes.len();
            if !has_room && LARGE_RECORD_BYTES <= self.bytes.len() {
                let most = bytes_max.min(limits::CSV_ROW_BYTES).max(self.bytes.len());
                self.bytes.reserve_exact(most - self.bytes.len() + 2 * right.bytes.len());
            }
            self.bytes.append(&mut right.bytes);
        }
        self.to = right.to;
        self.is_open = right.is_open;
        self.is_cut |= right.is_cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_follow_from_parity_whatever_the_order_of_arrival() {
        let chain = SplitChain::new();
        let counts = |quotes, line_ends, is_last| ChunkCounts {
            structural: StructuralCounts { quotes, line_ends },
            last: Before::Text,
            is_last,
        };
        std::thread::scope(|scope| {
            let third = scope.spawn(|| chain.count(2, counts(0, 1, true)).expect("not cancelled"));
            let second =
                scope.spawn(|| chain.count(1, counts(2, 4, false)).expect("not cancelled"));
            let first = chain.count(0, counts(3, 5, false)).expect("not cancelled");
            assert_eq!(first.start, FILE_START);
            let inside = Start { state: QuoteState::Inside, after: Before::Text };
            let second = second.join().expect("no panic");
            assert_eq!(second, ChunkStart { start: inside, line: 6 });
            let third = third.join().expect("no panic");
            assert_eq!(third, ChunkStart { start: inside, line: 10 });
        });
        let next_file = chain.count(3, counts(0, 0, true)).expect("not cancelled");
        assert_eq!(next_file, ChunkStart { start: FILE_START, line: 1 }, "split-3");
    }

    #[test]
    fn a_record_of_many_chunks_is_joined_in_any_order_of_arrival() {
        let parts = [(None, Some(4)), (Some(4), Some(5)), (Some(5), Some(6)), (Some(6), None)];
        let mut orders = vec![];
        for a in 0..4 {
            for b in 0..4 {
                for c in 0..4 {
                    let d = 6_usize.wrapping_sub(a + b + c);
                    let order = [a, b, c, d];
                    if (0..4).all(|part| order.contains(&part)) {
                        orders.push(order);
                    }
                }
            }
        }
        assert_eq!(orders.len(), 24);
        for order in orders {
            let partial_records = PartialRecords::new(usize::MAX);
            let mut whole = None;
            for part in order {
                let (from, to) = parts[part];
                let origin = Origin { chunk: part as u64, line: 1, offset: 0, is_first: false };
                let bytes = vec![b"0123"[part]];
                let (is_open, is_cut, length, open_at) = (false, false, 1, 0);
                let part =
                    PartialRecord { from, to, bytes, origin, is_open, is_cut, length, open_at };
                let joined = partial_records.add(part);
                assert!(whole.is_none());
                whole = joined.map(|whole| whole.record.clone());
            }
            let whole = whole.expect("all parts are there");
            assert_eq!(
                (whole.bytes.as_slice(), whole.origin.chunk),
                (&b"0123"[..], 0),
                "{order:?}"
            );
        }
    }
}
