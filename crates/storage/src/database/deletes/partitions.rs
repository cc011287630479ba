//! Dropping of whole partitions, by a statement or because of the TTL.
//!
//! - All partitions are dropped with one record, which removes their segments. The memtable is
//!   flushed without their rows.
//!
//! Not here: finding the partitions that match a condition, which the caller does.

use std::collections::BTreeSet;

use tidegate_model::{PartitionKey, TableId, Timestamp};

use crate::database::Database;
use crate::database::commit::group::commit_rewritten;
use crate::database::commit::request::Replace;
use crate::database::deletes::apply::LockedTable;
use crate::database::table::memtable::MemtableRun;
use crate::database::table::new_segments::NewSegments;
use crate::database::table::state::TableState;
use crate::error::Result;

/// Drops whole partitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionDropper<'a> {
    pub(crate) database: &'a Database,
}

impl PartitionDropper<'_> {
    /// Removes the rows of whole partitions that were committed so far; returns the number of
    /// partitions that had rows.
    pub(crate) fn drop_partitions(
        &self,
        table: &str,
        partitions: &BTreeSet<PartitionKey>,
    ) -> Result<usize> {
        self.database.begin_writing()?;
        let table_state = self.database.committed().existing(table)?;
        table_state.check_takes_rows()?;
        let id = table_state.id();
        self.drop_partitions_of(id, &|_| partitions.clone())
    }

    /// Drops partitions that are chosen while the runs of the table are locked.
    pub(crate) fn drop_partitions_of(
        &self,
        id: TableId,
        choose: &dyn Fn(&TableState) -> BTreeSet<PartitionKey>,
    ) -> Result<usize> {
        let Some(locked) = LockedTable::lock(self.database, id) else { return Ok(0) };
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
        let mut written = NewSegments::new(self.database, table)?;
        let kept = if of_memtable.is_empty() {
            Replace::with(&written, out, &[], Vec::new())
        } else {
            let is_left = |run: &MemtableRun| !of_memtable.contains(&run.meta.partition);
            written.write_memtable(&|run| is_left(run).then(|| run.run()))?;
            let symbols = written.sync()?;
            Replace::with(&written, out, table.memtable.runs(), symbols)
        };
        let replace = Replace { keeps_rows: false, ..kept };
        commit_rewritten(self.database, replace, &written)?;
        Ok(dropped.len())
    }

    /// Partitions whose rows have all exceeded the TTL of a table.
    pub(crate) fn expired(&self, table: &TableState) -> BTreeSet<PartitionKey> {
        let schema = &table.manifest.schema;
        let Some(ttl) = schema.ttl() else { return BTreeSet::new() };
        let metas = || {
            let segments = table.manifest.segments.iter().map(|entry| &entry.meta);
            segments.chain(table.memtable.runs().iter().map(|run| &run.meta))
        };
        let Some(newest) = metas().map(|meta| meta.max_ts).max() else { return BTreeSet::new() };
        let unit = schema.time_unit();
        let now = i128::from(self.database.options.clock.now_micros())
            * i128::from(unit.per_second())
            / 1_000_000;
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
