//! Dropping of whole partitions, by a statement or because of the TTL.
//!
//! - PA1. They are dropped with one record: their segments by id, and rows of the memtable by
//!   flushing it without them.
//!
//! Not here: the partitions that match a condition, which the caller determines.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_model::{PartitionKey, TableId, Timestamp};

use super::Database;
use super::memtable::MemtableRun;
use super::segments::NewSegments;
use super::table::TableState;
use crate::error::Result;

impl Database {
    /// Removes the rows of whole partitions that were committed so far; returns the number of
    /// partitions that had rows.
    ///
    /// # Errors
    /// If there is no such table, or something cannot be written: then nothing has changed.
    pub fn drop_partitions(
        self: &Arc<Self>,
        table: &str,
        partitions: &BTreeSet<PartitionKey>,
    ) -> Result<usize> {
        self.begin_writing()?;
        let found = self.committed().existing(table)?;
        found.check_takes_rows()?;
        let id = found.id();
        self.drop_partitions_of(id, &|_| partitions.clone())
    }

    /// Drops partitions that are chosen while the runs of the table are locked.
    pub(super) fn drop_partitions_of(
        &self,
        id: TableId,
        choose: &dyn Fn(&TableState) -> BTreeSet<PartitionKey>,
    ) -> Result<usize> {
        let Some(locked) = self.lock_table(id) else { return Ok(0) };
        let table = &locked.state;
        let chosen = choose(table);
        let entries = table.manifest.segments.iter();
        let entries = entries.filter(|entry| chosen.contains(&entry.meta.partition));
        let out: Vec<_> = entries.map(|entry| (entry.meta.id, entry.deletion_vector)).collect();
        let of_memtable = table.memtable.runs().iter().map(|run| run.meta.partition);
        let of_memtable: BTreeSet<_> = of_memtable.filter(|key| chosen.contains(key)).collect();
        let of_segments = table.manifest.segments.iter().map(|entry| entry.meta.partition);
        let of_segments = of_segments.filter(|key| chosen.contains(key));
        let dropped: BTreeSet<_> = of_segments.chain(of_memtable.iter().copied()).collect();
        if dropped.is_empty() {
            return Ok(0);
        }
        let mut written = NewSegments::new(self, table)?;
        let replace = if of_memtable.is_empty() {
            written.replacing(out, &[], Vec::new())
        } else {
            let is_left = |run: &MemtableRun| !of_memtable.contains(&run.meta.partition);
            written.write_memtable(&|run| is_left(run).then(|| run.run()))?;
            let symbols = written.sync()?;
            written.replacing(out, table.memtable.runs(), symbols)
        };
        self.commit_rewritten(replace, &written)?;
        Ok(dropped.len())
    }

    /// Partitions whose rows have all exceeded the TTL of a table.
    pub(super) fn expired(&self, table: &TableState) -> BTreeSet<PartitionKey> {
        let schema = &table.manifest.schema;
        let Some(ttl) = schema.ttl() else { return BTreeSet::new() };
        let metas = || {
            let segments = table.manifest.segments.iter().map(|entry| &entry.meta);
            segments.chain(table.memtable.runs().iter().map(|run| &run.meta))
        };
        let Some(newest) = metas().map(|meta| meta.max_ts).max() else { return BTreeSet::new() };
        let unit = schema.time_unit();
        let now =
            i128::from(self.options.clock.now_micros()) * i128::from(unit.per_second()) / 1_000_000;
        // A row with a timestamp in the future drops nothing.
        let now = i64::try_from(now).unwrap_or(i64::MAX).min(newest);
        let mut bound = now;
        for _ in 0..ttl.count {
            // One unit earlier: as far from the start of the previous unit as `bound` is from its
            // own, or its end.
            let start = ttl.unit.floor(Timestamp(bound), unit).0;
            let Some(before) = start.checked_sub(1) else { return BTreeSet::new() };
            let previous = ttl.unit.floor(Timestamp(before), unit).0;
            bound = (previous + (bound - start)).min(before);
        }
        let by = schema.partition_by();
        let is_old = |key: &PartitionKey| by.next(*key, unit).0 <= bound;
        metas().map(|meta| meta.partition).filter(is_old).collect()
    }
}
