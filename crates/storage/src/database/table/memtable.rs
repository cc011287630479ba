//! The memtable of a table: rows that are in the log and not yet in segments, as in-memory segments
//! in memory, or in a spill file if a replay has found more rows than fit into memory.
//!
//! - A memtable has the rows of every append after the commit up to which the table is
//!   flushed, each once.
//! - Runs of one partition hold ranges of commits that do not overlap, and no segment of it
//!   has commits between those of one run.
//! - A memtable never changes; a commit creates a new one, which shares its runs. So no run
//!   has a deletion vector: rows of a memtable are deleted by flushing it without them (`deletes`).
//!
//! Not here: coalescing of runs, and flushing them to segments (`maintenance`).

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{Lsn, PartitionKey, SegmentId, SeqTxn};

use crate::deletion_vector::DeletionVector;
use crate::manifest::SegmentEntry;
use crate::mem_segment::MemSegment;
use crate::segment::{MemSegmentBytes, SegmentMeta};
use crate::snapshot::{SegmentFile, SegmentRun};

/// A run of a memtable: rows of one partition in memory.
#[derive(Debug)]
pub(crate) struct MemtableRun {
    /// The description of the run, with its range of commits.
    pub(crate) meta: SegmentMeta,
    pub(crate) file: Arc<SegmentFile>,
    pub(crate) origin: Origin,
}

/// The origin of memtable rows in the log, and the time of their commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The position in the log of the oldest rows.
    pub(crate) lsn: Lsn,
    /// The monotonic time at which the oldest rows were committed.
    pub(crate) since_nanos: u64,
}

/// A memtable: all runs, in the order of their first commits and ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memtable {
    runs: Vec<Arc<MemtableRun>>,
    rows: u64,
    bytes: u64,
    memory_bytes: u64,
    /// The part of the memory that spilling the runs would free.
    spillable_bytes: u64,
}

/// Approximate memory of a run besides its in-memory segment: the run itself, its place in the
/// memtable and its name. It does not include the caches of queries that have read the run.
pub(crate) const RUN_BYTES: u64 = 512;

impl MemtableRun {
    /// The run of an in-memory segment in a record.
    pub(crate) fn new(
        mem_segment: &MemSegment,
        file: Arc<SegmentFile>,
        origin: Origin,
    ) -> MemtableRun {
        MemtableRun { meta: mem_segment.meta, file, origin }
    }

    /// Returns true if its in-memory segment is in a file that the kernel reads when it is needed.
    pub(crate) fn is_spilled(&self) -> bool {
        matches!(self.file.mem_segment(), Some(MemSegmentBytes::Spilled(..)))
    }

    /// The memory of this run in the memtable.
    pub(crate) fn memory_bytes(&self) -> u64 {
        RUN_BYTES + self.spillable_bytes()
    }

    fn spillable_bytes(&self) -> u64 {
        if self.is_spilled() { 0 } else { self.meta.bytes.0 }
    }

    /// The run as a snapshot sees it.
    pub(crate) fn run(&self) -> SegmentRun {
        SegmentRun::of_memtable(self.meta, &self.file, None)
    }

    /// The same without these rows, in any order.
    pub(crate) fn run_without(&self, rows: &[u64]) -> SegmentRun {
        let deletion_vector = DeletionVector::new(self.meta.rows, rows);
        SegmentRun::of_memtable(self.meta, &self.file, Some(Arc::new(deletion_vector)))
    }
}

impl Origin {
    /// The earlier of both origins.
    pub(crate) fn oldest(self, other: Origin) -> Origin {
        Origin {
            lsn: self.lsn.min(other.lsn),
            since_nanos: self.since_nanos.min(other.since_nanos),
        }
    }
}

impl Memtable {
    pub(crate) fn runs(&self) -> &[Arc<MemtableRun>] {
        &self.runs
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// The bytes of all in-memory segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The memory of the memtable in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The part of the memory that is used by in-memory segments.
    pub(crate) fn spillable_bytes(&self) -> u64 {
        self.spillable_bytes
    }

    /// Returns true if some of its in-memory segments are in a file.
    pub(crate) fn has_spilled(&self) -> bool {
        self.spillable_bytes < self.bytes
    }

    /// The origin of the oldest rows.
    pub(crate) fn origin(&self) -> Option<Origin> {
        self.runs.iter().map(|run| run.origin).reduce(Origin::oldest)
    }

    /// The last commit in the memtable.
    pub(crate) fn last(&self) -> Option<SeqTxn> {
        self.runs.iter().map(|run| run.meta.seq_last).max()
    }

    /// Adds the rows of a commit.
    pub(crate) fn push(&mut self, run: MemtableRun) {
        self.rows += run.meta.rows.0;
        self.bytes += run.meta.bytes.0;
        self.memory_bytes += run.memory_bytes();
        self.spillable_bytes += run.spillable_bytes();
        self.runs.push(Arc::new(run));
    }

    /// Drops runs.
    pub(crate) fn retain(&mut self, is_kept: impl FnMut(&Arc<MemtableRun>) -> bool) {
        self.runs.retain(is_kept);
        self.count();
    }

    /// Replaces runs that are not spilled by the same runs in a file.
    pub(crate) fn spill(&mut self, mut spilled: impl FnMut(&MemtableRun) -> MemtableRun) {
        for run in self.runs.iter_mut().filter(|run| !run.is_spilled()) {
            *run = Arc::new(spilled(run));
        }
        self.count();
    }

    fn count(&mut self) {
        self.rows = self.runs.iter().map(|run| run.meta.rows.0).sum();
        self.bytes = self.runs.iter().map(|run| run.meta.bytes.0).sum();
        self.memory_bytes = self.runs.iter().map(|run| run.memory_bytes()).sum();
        self.spillable_bytes = self.runs.iter().map(|run| run.spillable_bytes()).sum();
    }

    /// Returns true if these are the oldest runs of the memtable, in order.
    pub(crate) fn begins_with(&self, runs: &[Arc<MemtableRun>]) -> bool {
        let begin = self.runs.get(..runs.len());
        begin.is_some_and(|begin| begin.iter().zip(runs).all(|(a, b)| Arc::ptr_eq(a, b)))
    }

    /// This memtable with other runs that hold the same rows, each replacing one; `None` if it does
    /// not have them all.
    pub(crate) fn exchanged(
        &self,
        pairs: &[(Arc<MemtableRun>, Arc<MemtableRun>)],
    ) -> Option<Memtable> {
        let by_address = |run: &Arc<MemtableRun>| Arc::as_ptr(run);
        let others: BTreeMap<_, _> =
            pairs.iter().map(|(old, new)| (by_address(old), new)).collect();
        let (mut memtable, mut found) = (self.clone(), 0);
        for run in &mut memtable.runs {
            if let Some(new) = others.get(&by_address(run)) {
                *run = Arc::clone(new);
                found += 1;
            }
        }
        memtable.count();
        (found == pairs.len()).then_some(memtable)
    }

    /// This memtable with one run in place of some; `None` if it does not have them all.
    pub(crate) fn replaced(
        &self,
        out: &[Arc<MemtableRun>],
        run: &Arc<MemtableRun>,
    ) -> Option<Memtable> {
        let is_out = |known: &Arc<MemtableRun>| out.iter().any(|out| Arc::ptr_eq(out, known));
        if self.runs.iter().filter(|known| is_out(known)).count() != out.len() {
            return None;
        }
        let mut memtable = self.clone();
        memtable.runs.retain(|known| !is_out(known));
        let order =
            |run: &MemtableRun| -> (SeqTxn, SegmentId) { (run.meta.seq_first, run.meta.id) };
        let at = memtable.runs.partition_point(|known| order(known) < order(run));
        memtable.runs.insert(at, Arc::clone(run));
        memtable.count();
        Some(memtable)
    }
}

/// The runs of a memtable that may be rewritten together (maintenance-1): those of one partition
/// without commits of a segment between them, in the order of their commits.
pub(crate) fn memtable_groups(
    memtable: &Memtable,
    segments: &[SegmentEntry],
) -> Vec<Vec<Arc<MemtableRun>>> {
    let mut partitions: BTreeMap<PartitionKey, Vec<Arc<MemtableRun>>> = BTreeMap::new();
    for run in memtable.runs() {
        partitions.entry(run.meta.partition).or_default().push(Arc::clone(run));
    }
    let mut between: BTreeMap<PartitionKey, Vec<SeqTxn>> = BTreeMap::new();
    if let Some(first) = memtable.runs().iter().map(|run| run.meta.seq_first).min() {
        for SegmentEntry { meta, .. } in segments {
            if meta.seq_last > first && partitions.contains_key(&meta.partition) {
                between.entry(meta.partition).or_default().push(meta.seq_first);
            }
        }
    }
    let mut groups = Vec::new();
    for (partition, mut runs) in partitions {
        runs.sort_by_key(|run| order(run));
        let between = between.remove(&partition).unwrap_or_default();
        let mut rest = &runs[..];
        while let Some(first) = rest.first() {
            // The first segment after the first run ends the group.
            let end = between.iter().filter(|seq| **seq > first.meta.seq_last).min();
            let count = match end {
                None => rest.len(),
                Some(end) => rest.partition_point(|run| run.meta.seq_first < *end),
            };
            groups.push(rest[..count].to_vec());
            rest = &rest[count..];
        }
    }
    groups
}

fn order(run: &MemtableRun) -> (SeqTxn, i64, SegmentId) {
    (run.meta.seq_first, run.meta.min_ts, run.meta.id)
}
