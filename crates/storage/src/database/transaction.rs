//! Commit of a transaction: new and deleted rows of several tables, and changes of tables, in one
//! commit.
//!
//! - TX1. When `commit_transaction` returns, either all changes are durable and visible, or none.
//! - TX2. While a table is pinned, maintenance does not rewrite its segments: rows that a
//!   transaction refers to by their places keep them, until another writer changes or removes them.
//! - TX3. A row to delete must still exist, at its place: of two transactions that delete the same
//!   row, only the first one to commit succeeds.
//!
//! - TX4. Changes of tables come first, in their order; rows are for the resulting tables.
//!
//! Not here: the view of the transaction itself before its commit (`pending`, `snapshot::private`).

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{SchemaVersion, SegmentId, TableId};

use super::Database;
use super::append::{ATTEMPTS, AppendOptions, Prepared, TableAppend, VALUE_BYTES, check_once};
use super::deletion_vectors::{SegmentDeletes, runs_of};
use super::directory::{RewriteScope, TableDirectory, WaitMode};
use super::pending::PendingDdl;
use crate::batch::RowBatch;
use crate::error::{Error, Result};
use crate::snapshot::Snapshot;

/// The changes of a transaction.
#[derive(Debug, Clone, Default)]
pub struct TransactionCommit {
    /// Changes of tables (TX4).
    pub ddl: PendingDdl,
    /// Rows of tables that exist after these changes, each table once. A table that only loses rows
    /// has an append without any.
    pub appends: Vec<TableAppend>,
    /// Rows to delete, of tables in `appends`; each table once.
    pub removed: Vec<TableDeletes>,
}

/// Rows of one table to delete.
#[derive(Debug, Clone)]
pub struct TableDeletes {
    /// The table.
    pub table: TableId,
    /// The version of its columns when the rows were found.
    pub version: SchemaVersion,
    /// Segments in files, each once, which were pinned when they were found.
    pub rows: Vec<SegmentDeletes>,
}

/// The rows to delete of each table.
pub(super) type Removals<'a> = BTreeMap<TableId, &'a TableDeletes>;

/// A table whose segments are not rewritten until the pin is dropped (TX2).
#[derive(Debug)]
pub struct SegmentPin(Arc<TableDirectory>);

impl Drop for SegmentPin {
    fn drop(&mut self) {
        self.0.unpin();
    }
}

impl Database {
    /// Keeps maintenance from rewriting the segments of a table (TX2); `None` if there is no such
    /// table. Waits for a compaction in progress.
    #[must_use]
    pub fn pin_segments(&self, table: TableId) -> Option<SegmentPin> {
        let directory = Arc::clone(&self.table_state(table)?.directory);
        let _lock = directory.lock_runs(RewriteScope::Segments, WaitMode::Wait)?;
        directory.pin();
        Some(SegmentPin(directory))
    }

    /// Commits the changes of a transaction (TX1).
    ///
    /// # Errors
    /// [`Error::RowsChanged`] if rows to delete no longer exist, or the columns of their table have
    /// changed (TX3); [`Error::TablesChanged`], and those of [`define`](Self::define), if changes
    /// of tables no longer fit; and as [`append`](Self::append). Nothing has changed then; with
    /// [`Error::InDoubt`], the next open decides.
    pub fn commit_transaction(self: &Arc<Self>, commit: &TransactionCommit) -> Result<()> {
        self.begin_writing()?;
        if !commit.appends.is_empty() {
            self.check_space()?;
        }
        check_once(&commit.appends)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.try_transaction(commit) {
                Err(Error::SchemaChanged { .. } | Error::SegmentChanged { .. })
                    if attempt < ATTEMPTS => {}
                Err(Error::SegmentChanged { table, .. }) => {
                    return Err(Error::RowsChanged { table });
                }
                outcome => return outcome,
            }
        }
    }

    fn try_transaction(self: &Arc<Self>, commit: &TransactionCommit) -> Result<()> {
        let TransactionCommit { ddl, appends, removed } = commit;
        let values = |rows: &RowBatch| (rows.rows() * rows.columns().len()) as u64;
        let values = appends.iter().map(|append| values(&append.rows)).sum::<u64>();
        self.check_flushed(appends)?;
        self.make_room(values * VALUE_BYTES)?;
        self.check_not_failed(appends)?;
        let removals: Removals<'_> = removed.iter().map(|rows| (rows.table, rows)).collect();
        let visible = self.visible(ddl);
        let locked = self.lock_tables(&visible, appends, &removals)?;
        for (id, removed) in &removals {
            let now = locked.get(id).map(|locked| locked.state.manifest.schema.version());
            if now != Some(removed.version) {
                let append = appends.iter().find(|append| append.id == Some(*id));
                let table = append.map_or_else(String::new, |append| append.table.clone());
                return Err(match now {
                    None => Error::TableDropped { table },
                    Some(_) => Error::RowsChanged { table },
                });
            }
        }
        let Prepared { targets, tables, delete_files } =
            self.prepare(&visible, appends, (&removals, &locked))?;
        self.commit_prepared(&AppendOptions::default(), (ddl.clone(), tables), delete_files)?;
        drop(locked);
        let touched: Vec<TableId> = targets.iter().flatten().copied().collect();
        self.coalesce_memtables(&touched);
        Ok(())
    }
}

/// Writes the deletion of a table's rows: those that new ones replace, and those that a transaction
/// deletes, if all of them still exist (TX3).
pub(super) fn deletes_with(
    superseded: Vec<SegmentDeletes>,
    removed: Option<&TableDeletes>,
    now: &Snapshot,
) -> Result<Vec<SegmentDeletes>> {
    let Some(removed) = removed else { return Ok(superseded) };
    let runs = runs_of(now);
    let mut deletes: BTreeMap<SegmentId, Vec<u64>> = BTreeMap::new();
    for SegmentDeletes { segment, rows } in &removed.rows {
        let is_there = runs.get(segment).is_some_and(|run| {
            let is_live = |row: &u64| {
                run.deletion_vector
                    .as_ref()
                    .is_none_or(|deletion_vector| deletion_vector.is_live(*row))
            };
            rows.iter().all(is_live)
        });
        if !is_there {
            return Err(Error::RowsChanged { table: now.name.clone() });
        }
        deletes.entry(*segment).or_default().extend(rows);
    }
    for SegmentDeletes { segment, rows } in superseded {
        deletes.entry(segment).or_default().extend(rows);
    }
    Ok(deletes.into_iter().map(|(segment, rows)| SegmentDeletes { segment, rows }).collect())
}
