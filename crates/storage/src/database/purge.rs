//! Rows that are masked go from the disk too: segments that have lost rows are written anew
//! without them, also in tables that nobody writes to any more.
//!
//! - PU1. A masked row is in a file for `TailOptions::purge_after_nanos` at most, and for as long
//!   as snapshots of it and the writing last. When a mask came, only the process knows that wrote
//!   it; of one that is found when the database is opened it is not before its segment was written.
//! - PU2. Until then a segment keeps its masked rows, unless a merge takes it: whoever deletes
//!   often does not have large segments written anew each time.
//! - PU3. A segment without rows goes at once. Commits leave none (`masks` MA1), but earlier
//!   versions did.
//!
//! Which segments are written together is decided in `upkeep/policy.rs` (PO4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tidegate_model::{SegmentId, TableId};
use tidegate_platform::OpenMode;

use super::Database;
use super::table::TableState;
use crate::manifest::SegmentEntry;

/// When segments are to be written anew, by a monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Purges {
    /// Of each table that was looked at, the segments that have a mask; so at most all of them.
    due: Mutex<BTreeMap<TableId, BTreeMap<SegmentId, u64>>>,
}

impl Purges {
    /// The segments of a table whose masked rows have waited long enough (PU1).
    pub(super) fn due(&self, database: &Database, table: &TableState) -> BTreeSet<SegmentId> {
        let now = database.options.clock.monotonic_nanos();
        let after = database.options.tail.purge_after_nanos;
        let mut all = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !all.contains_key(&table.id());
        let known = all.entry(table.id()).or_default();
        let masked = table.manifest.segments.iter().filter(|entry| entry.mask.is_some());
        let due_of = |entry: &SegmentEntry| {
            let id = entry.meta.id;
            let waited = || if is_new { age(database, table, entry) } else { 0 };
            let due = known.get(&id).copied();
            (id, due.unwrap_or_else(|| now.saturating_add(after.saturating_sub(waited()))))
        };
        *known = masked.map(due_of).collect();
        let is_due = |&(_, due): &(&SegmentId, &u64)| *due <= now;
        known.iter().filter(is_due).map(|(id, _)| *id).collect()
    }

    /// Tables that are gone are no more of interest.
    pub(super) fn retain(&self, is_there: impl Fn(TableId) -> bool) {
        let mut all = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|id, _| is_there(*id));
    }
}

/// How long ago a segment was written, in nanoseconds; one that does not say is old.
fn age(database: &Database, table: &TableState, entry: &SegmentEntry) -> u64 {
    let path = table.folder.paths().segment(&table.manifest.schema, &entry.meta);
    let file = database.disk.open(&path, OpenMode::Read);
    let Ok(stamp) = file.and_then(|file| file.stamp()) else { return u64::MAX };
    let now = i128::from(database.options.clock.now_micros()) * 1_000;
    // A clock that was set back makes it no younger than new.
    u64::try_from(now.saturating_sub(stamp.modified).max(0)).unwrap_or(u64::MAX)
}
