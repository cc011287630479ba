//! Delete compaction: segments with deleted rows are rewritten without them,
//! also in tables that are no longer written to.
//!
//! - delete_compaction-1. A deleted row stays in a file for at most
//!   `MaintenanceOptions::delete_compaction_after_nanos`, plus the time of the rewrite and the life
//!   of snapshots with it. Only the process that wrote a deletion vector knows its time; a deletion
//!   vector that is found on open is assumed to be as old as its segment.
//! - Until then a segment keeps its deleted rows, unless it is compacted: frequent deletions
//!   do not rewrite large segments each time.
//! - A segment without rows is removed at once. Commits leave none (`deletion_vectors` vectors-1),
//!   but earlier versions did.
//!
//! The choice of segments that are compacted together is in `maintenance/policy.rs` (policy-3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tidegate_model::{SegmentId, TableId};
use tidegate_platform::OpenMode;

use crate::database::Database;
use crate::database::table::state::TableState;
use crate::manifest::SegmentEntry;

/// The times at which segments are to be rewritten, by a monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct DeleteCompactions {
    /// For each checked table, the segments that have a deletion vector; at most all segments.
    due: Mutex<BTreeMap<TableId, BTreeMap<SegmentId, u64>>>,
}

impl DeleteCompactions {
    /// The segments of a table whose deleted rows have waited long enough (delete_compaction-1).
    pub(crate) fn due(&self, database: &Database, table: &TableState) -> BTreeSet<SegmentId> {
        let now = database.options.clock.monotonic_nanos();
        let after = database.options.maintenance.delete_compaction_after_nanos;
        let mut all = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !all.contains_key(&table.id());
        let known = all.entry(table.id()).or_default();
        let with_deletes =
            table.manifest.segments.iter().filter(|entry| entry.deletion_vector.is_some());
        let due_of = |entry: &SegmentEntry| {
            let id = entry.meta.id;
            let waited = || if is_new { age(database, table, entry) } else { 0 };
            let due = known.get(&id).copied();
            (id, due.unwrap_or_else(|| now.saturating_add(after.saturating_sub(waited()))))
        };
        *known = with_deletes.map(due_of).collect();
        let is_due = |&(_, due): &(&SegmentId, &u64)| *due <= now;
        known.iter().filter(is_due).map(|(id, _)| *id).collect()
    }

    /// Forgets tables that no longer exist.
    pub(crate) fn retain(&self, is_there: impl Fn(TableId) -> bool) {
        let mut all = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|id, _| is_there(*id));
    }
}

/// The age of a segment's file in nanoseconds; a file without a known age is old.
fn age(database: &Database, table: &TableState, entry: &SegmentEntry) -> u64 {
    let path = table.directory.paths().segment(&table.manifest.schema, &entry.meta);
    let file = database.disk.open(&path, OpenMode::Read);
    let Ok(stamp) = file.and_then(|file| file.stamp()) else { return u64::MAX };
    let now = i128::from(database.options.clock.now_micros()) * 1_000;
    // A clock that was set back gives an age of at least 0.
    u64::try_from(now.saturating_sub(stamp.modified).max(0)).unwrap_or(u64::MAX)
}
