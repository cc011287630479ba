//! Deletion of rows with a commit, in segments and in memtables.
//!
//! - apply-1. While a table is locked, no other thread rewrites its runs: rows that were found in a
//!   snapshot stay at their places. Rows that arrive meanwhile are not affected.
//! - apply-2. Rows of segments are deleted by deletion vectors, or with their segments if none is
//!   left; those of the memtable by flushing it without them. One record contains all that, and the
//!   rows that replace them.
//!
//! Not here: the choice of the rows (`dedup`), and dropping whole partitions (`partitions`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_model::{SegmentId, TableId};

use super::vectors::{DeleteEffects, DeletionVectorFiles, SegmentDeletes, runs_of};
use crate::database::Database;
use crate::database::commit::request::{Deletes, Replace};
use crate::database::table::budget::Wake;
use crate::database::table::new_segments::NewSegments;
use crate::database::table::state::TableState;
use crate::deletion_vector::DeletionVector;
use crate::error::Result;
use crate::files::{RewriteLock, RewriteScope, WaitMode};
use crate::snapshot::{SegmentRun, Snapshot};

/// A table whose runs no other thread rewrites (apply-1).
#[derive(Debug)]
pub(crate) struct LockedTable {
    pub(crate) state: Arc<TableState>,
    _memtable: RewriteLock,
    _segments: RewriteLock,
    /// Dropped last: writers that wait for memory may wait for the memtable.
    _wake: Wake,
}

/// Files written for a deletion, which are removed unless they are kept.
pub(crate) struct DeleteFiles<'a> {
    deletion_vectors: DeletionVectorFiles<'a>,
    segments: Option<NewSegments<'a>>,
}

impl DeleteFiles<'_> {
    /// Keeps the files: they are part of the table, or that is in doubt.
    pub(crate) fn keep(&mut self) {
        self.deletion_vectors.keep();
        if let Some(segments) = &self.segments {
            segments.keep();
        }
    }
}

impl LockedTable {
    /// Locks the runs of a table for rewriting; `None` if it was dropped.
    pub(crate) fn lock(database: &Database, id: TableId) -> Option<LockedTable> {
        let directory = Arc::clone(&database.table_state(id)?.directory);
        let (memtable, segments) = (
            directory.lock_runs(RewriteScope::Memtable, WaitMode::Wait)?,
            directory.lock_runs(RewriteScope::Segments, WaitMode::Wait)?,
        );
        let state = database.table_state(id)?;
        let wake = Wake::new(&database.memtable_budget);
        Some(LockedTable { state, _memtable: memtable, _segments: segments, _wake: wake })
    }
}

/// Writes the deletion of rows of a locked table (apply-2).
pub(crate) fn write_deletes<'a>(
    database: &'a Database,
    table: &'a TableState,
    snapshot: &Snapshot,
    deletes: Vec<SegmentDeletes>,
) -> Result<(Deletes, DeleteFiles<'a>)> {
    let mut writer = DeleteWriter::new(database, table, snapshot);
    deletes.into_iter().try_for_each(|rows| writer.add(rows))?;
    writer.finish()
}

/// Writes the deletion of rows of a locked table (apply-2), segment by segment.
pub(crate) struct DeleteWriter<'a, 's> {
    database: &'a Database,
    table: &'a TableState,
    runs: BTreeMap<SegmentId, &'s Arc<SegmentRun>>,
    seen: BTreeSet<SegmentId>,
    files: DeleteFiles<'a>,
    effects: DeleteEffects,
    of_memtable: Vec<SegmentDeletes>,
}

impl<'a, 's> DeleteWriter<'a, 's> {
    /// Starts a deletion of rows that were found in a snapshot.
    pub(crate) fn new(
        database: &'a Database,
        table: &'a TableState,
        snapshot: &'s Snapshot,
    ) -> DeleteWriter<'a, 's> {
        let files = DeleteFiles {
            deletion_vectors: DeletionVectorFiles::new(database.guarded.as_ref()),
            segments: None,
        };
        DeleteWriter {
            database,
            table,
            runs: runs_of(snapshot),
            seen: BTreeSet::new(),
            files,
            effects: DeleteEffects::default(),
            of_memtable: Vec::new(),
        }
    }

    /// Adds all rows to delete of a segment. Those of the memtable stay in memory until the end.
    pub(crate) fn add(&mut self, rows: SegmentDeletes) -> Result<()> {
        let run = self.runs.get(&rows.segment).expect("the segment is one of the snapshot");
        if run.is_in_memory() {
            assert!(self.seen.insert(rows.segment), "a segment comes once");
            self.of_memtable.push(rows);
            return Ok(());
        }
        self.add_deletion_vector(rows.segment, &DeletionVector::new(run.meta.rows, &rows.rows))
    }

    /// Adds all rows to delete of a segment in a file: those that are not live in `left`.
    pub(crate) fn add_deletion_vector(
        &mut self,
        segment: SegmentId,
        left: &DeletionVector,
    ) -> Result<()> {
        assert!(self.seen.insert(segment), "a segment comes once");
        let run = self.runs.get(&segment).expect("the segment is one of the snapshot");
        assert!(!run.is_in_memory(), "rows of the memtable have no deletion vector");
        self.effects.add(self.files.deletion_vectors.write(self.table, run, left)?);
        Ok(())
    }

    /// Makes all files durable, and returns the deletion.
    pub(crate) fn finish(self) -> Result<(Deletes, DeleteFiles<'a>)> {
        let DeleteWriter { database, table, mut files, effects, of_memtable, .. } = self;
        files.deletion_vectors.sync_directories()?;
        if of_memtable.is_empty() {
            return Ok((effects.into_deletes(table, None), files));
        }
        let mut written = NewSegments::new(database, table)?;
        written.write_memtable(&|run| {
            let rows = of_memtable.iter().find(|rows| rows.segment == run.meta.id);
            Some(rows.map_or_else(|| run.run(), |rows| run.run_without(&rows.rows)))
        })?;
        let symbols = written.sync()?;
        let replace = |out| Replace {
            keeps_rows: false,
            ..Replace::with(&written, out, table.memtable.runs(), symbols.clone())
        };
        let deletes = effects.into_deletes(table, Some(&replace));
        files.segments = Some(written);
        Ok((deletes, files))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_model::{ColumnType, PartitionUnit, TimeUnit};
    use tidegate_platform::{SimClock, SimDisk};

    use super::*;
    use crate::database::{AppendOptions, NewTableOptions, OpenOptions, TableAppend};
    use crate::{BatchColumn, BatchValues, RowBatch};

    fn append(database: &Arc<Database>, ts: i64) {
        let create = NewTableOptions { designated: "ts".into(), partition_by: PartitionUnit::Day };
        let ty = ColumnType::Timestamp(TimeUnit::Micros);
        let values = BatchValues::I64(vec![ts]);
        let column = BatchColumn { name: "ts".to_owned(), ty, values, validity: None };
        let rows = RowBatch::new(1, vec![column]);
        let (table, create) = ("t".to_owned(), Some(create));
        let append =
            TableAppend { table, id: None, create, add_columns: false, made_for: None, rows };
        database.append(&[append], &AppendOptions::default()).unwrap();
    }

    #[test]
    fn runs_of_a_locked_table_stay_where_they_are_and_writers_go_on_writing() {
        let options = OpenOptions::new(Arc::new(SimClock::new(1)));
        let disk = Arc::new(SimDisk::new(1));
        let database = Database::open(disk, Path::new("/db"), &options).unwrap();
        (0..20).for_each(|ts| append(&database, ts));
        let id = database.tables()[0].id;
        let runs = || -> Vec<SegmentId> {
            database.snapshot("t").unwrap().segments().map(|run| run.meta.id).collect()
        };
        let locked = LockedTable::lock(&database, id).unwrap();
        let before = runs();
        append(&database, 3);
        database.maintain().unwrap();
        let now = runs();
        assert_eq!((before.len(), now.len()), (20, 21));
        assert!(before.iter().all(|id| now.contains(id)), "apply-1");
        drop(locked);
        database.maintain().unwrap();
        assert!(runs().len() < 20);
    }
}
