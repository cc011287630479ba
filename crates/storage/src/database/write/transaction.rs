//! Commit of a transaction: new and deleted rows of several tables, and changes of tables, in one
//! commit.
//!
//! - transaction-1. When `commit_transaction` returns, either all changes are durable and visible,
//!   or none.
//! - transaction-2. While a table is pinned, maintenance does not rewrite its segments: rows that a
//!   transaction refers to by their places keep them, until another writer changes or removes them.
//! - transaction-3. A row to delete must still exist, at its place: of two transactions that delete
//!   the same row, only the first one to commit succeeds.
//!
//! - transaction-4. Changes of tables come first, in their order; rows are for the resulting
//!   tables.
//! - transaction-5. Rows that a transaction has read for its changes (`TableRead`) are at its
//!   commit as they were read: the commit that follows another commit that has changed or removed
//!   rows of such a table, or dropped it, is refused. The leader of the group checks that when it
//!   plans the commit, so no other commit comes in between. Appended rows change none.
//! - transaction-6. All rows of a table to which a transaction adds columns with defaults have
//!   these values: a commit that finds rows which others have added since, or an append whose rows
//!   were made before such a column was added (`TableAppend::made_for`), is refused.
//!
//! Not here: the view of the transaction itself before its commit (`pending`, `snapshot::private`).

use std::sync::Arc;

use tidegate_model::TableId;

use super::append::{
    ATTEMPTS, AppendOptions, CommitConditions, Prepared, TableAppend, VALUE_BYTES, check_once,
};
use crate::batch::RowBatch;
use crate::database::Database;
use crate::database::commit::request::{PendingDdl, TableRead};
use crate::database::deletes::vectors::{DeletesByTable, TableDeletes};
use crate::database::write::append::TableWriter;
use crate::error::{Error, Result};
use crate::files::{RewriteScope, TableDirectory, WaitMode};

/// The changes of a transaction.
#[derive(Debug, Clone, Default)]
pub struct TransactionCommit {
    /// Changes of tables (transaction-4).
    pub ddl: PendingDdl,
    /// Rows of tables that exist after these changes, each table once. A table that only loses rows
    /// has an append without any.
    pub appends: Vec<TableAppend>,
    /// Rows to delete, of tables in `appends`; each table once.
    pub removed: Vec<TableDeletes>,
    /// The tables whose rows must be as they were read (transaction-5).
    pub reads: Vec<TableRead>,
}

/// A table whose segments are not rewritten until the pin is dropped (transaction-2).
#[derive(Debug)]
pub struct SegmentPin(Arc<TableDirectory>);

impl SegmentPin {
    /// Waits for a compaction in progress; `None` if there is no such table.
    pub(crate) fn new(database: &Database, table: TableId) -> Option<SegmentPin> {
        let directory = Arc::clone(&database.table_state(table)?.directory);
        let _lock = directory.lock_runs(RewriteScope::Segments, WaitMode::Wait)?;
        directory.pin();
        Some(SegmentPin(directory))
    }
}

impl Drop for SegmentPin {
    fn drop(&mut self) {
        self.0.unpin();
    }
}

impl TableWriter<'_> {
    /// Commits the changes of a transaction (transaction-1).
    pub(crate) fn commit_transaction(&self, commit: &TransactionCommit) -> Result<()> {
        self.database.begin_writing()?;
        if !commit.appends.is_empty() {
            self.database.maintenance().check_space()?;
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

    fn try_transaction(&self, commit: &TransactionCommit) -> Result<()> {
        let TransactionCommit { ddl, appends, removed, reads } = commit;
        let values = |rows: &RowBatch| (rows.rows() * rows.columns().len()) as u64;
        let values = appends.iter().map(|append| values(&append.rows)).sum::<u64>();
        self.database.maintenance().check_flushed(&self.targets(appends))?;
        self.database.maintenance().make_room(values * VALUE_BYTES)?;
        self.database.maintenance().check_not_failed(&self.targets(appends))?;
        let deletes_by_table: DeletesByTable<'_> =
            removed.iter().map(|rows| (rows.table, rows)).collect();
        let visible = self.database.visible(ddl);
        self.check_readable(&visible, appends)?;
        let locked = self.lock_tables(&visible, appends, &deletes_by_table)?;
        for (id, removed) in &deletes_by_table {
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
            self.prepare(&visible, appends, &deletes_by_table, &locked)?;
        let before = CommitConditions { ddl: ddl.clone(), reads: reads.clone() };
        self.commit_prepared(&AppendOptions::default(), before, tables, delete_files)?;
        drop(locked);
        let touched: Vec<TableId> = targets.iter().flatten().copied().collect();
        self.database.maintenance().coalesce_memtables(&touched);
        Ok(())
    }
}
