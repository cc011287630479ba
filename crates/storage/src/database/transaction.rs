//! The changes of a transaction: rows that come and go in several tables, and changes of tables,
//! with one commit.
//!
//! - TX1. All of it is durable and visible when `commit_transaction` returns, or none.
//! - TX2. While a table is pinned, upkeep leaves its segments as they are: rows that a transaction
//!   names by their places keep them, until another writer changes or removes them.
//! - TX3. A row that is to go must still be there, in its place: of two transactions that remove
//!   the same row, the first one to commit does.
//!
//! - TX4. Changes of tables come first, in their order; rows are for the tables as they are then.
//!
//! Not here: what the transaction itself sees meanwhile (`pending`, `snapshot::private`).

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{SchemaVersion, SegmentId, TableId};

use super::Database;
use super::append::{ATTEMPTS, AppendOptions, Prepared, TableAppend, VALUE_BYTES, check_once};
use super::folder::{Patience, RunsOf, TableFolder};
use super::masks::{MaskedRows, runs_of};
use super::pending::PendingDdl;
use crate::batch::RowBatch;
use crate::error::{Error, Result};
use crate::snapshot::Snapshot;

/// What a transaction changes.
#[derive(Debug, Clone, Default)]
pub struct TransactionCommit {
    /// Changes of tables (TX4).
    pub ddl: PendingDdl,
    /// Rows of tables that are there then, each table once. A table that only loses rows has an
    /// append without any.
    pub appends: Vec<TableAppend>,
    /// Rows that go, of tables in `appends`; each table once.
    pub removed: Vec<RemovedRows>,
}

/// Rows of one table that go.
#[derive(Debug, Clone)]
pub struct RemovedRows {
    /// Which table.
    pub table: TableId,
    /// What its columns were when the rows were found.
    pub version: SchemaVersion,
    /// Segments that are files, each once, which were pinned when they were found.
    pub rows: Vec<MaskedRows>,
}

/// What goes of tables.
pub(super) type Removals<'a> = BTreeMap<TableId, &'a RemovedRows>;

/// A table whose segments stay as they are until it is dropped (TX2).
#[derive(Debug)]
pub struct SegmentPin(Arc<TableFolder>);

impl Drop for SegmentPin {
    fn drop(&mut self) {
        self.0.unpin();
    }
}

impl Database {
    /// Keeps upkeep from rewriting the segments of a table (TX2); `None` if there is no such table.
    /// Waits for a merge that is being made.
    #[must_use]
    pub fn pin_segments(&self, table: TableId) -> Option<SegmentPin> {
        let folder = Arc::clone(&self.table_state(table)?.folder);
        let _held = folder.hold(RunsOf::Segments, Patience::Wait)?;
        folder.pin();
        Some(SegmentPin(folder))
    }

    /// Commits the changes of a transaction (TX1).
    ///
    /// # Errors
    /// [`Error::RowsChanged`] if rows that are to go are not there any more, or the columns of
    /// their table have changed (TX3); [`Error::TablesChanged`], and those of
    /// [`define`](Self::define), if changes of tables do not fit any more; and as
    /// [`append`](Self::append). Nothing has changed then; with [`Error::InDoubt`], the next
    /// open decides.
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
        let held = self.hold_tables(&visible, appends, &removals)?;
        for (id, removed) in &removals {
            let now = held.get(id).map(|held| held.state.manifest.schema.version());
            if now != Some(removed.version) {
                let append = appends.iter().find(|append| append.id == Some(*id));
                let table = append.map_or_else(String::new, |append| append.table.clone());
                return Err(match now {
                    None => Error::TableDropped { table },
                    Some(_) => Error::RowsChanged { table },
                });
            }
        }
        let Prepared { targets, tables, gone_files } =
            self.prepare(&visible, appends, (&removals, &held))?;
        self.commit_prepared(&AppendOptions::default(), (ddl.clone(), tables), gone_files)?;
        drop(held);
        let touched: Vec<TableId> = targets.iter().flatten().copied().collect();
        self.shorten_tails(&touched);
        Ok(())
    }
}

/// What goes of a table: rows that new ones replace, and those that a transaction removes, if they
/// are all still there (TX3).
pub(super) fn gone_with(
    superseded: Vec<MaskedRows>,
    removed: Option<&RemovedRows>,
    now: &Snapshot,
) -> Result<Vec<MaskedRows>> {
    let Some(removed) = removed else { return Ok(superseded) };
    let runs = runs_of(now);
    let mut gone: BTreeMap<SegmentId, Vec<u64>> = BTreeMap::new();
    for MaskedRows { segment, rows } in &removed.rows {
        let is_there = runs.get(segment).is_some_and(|run| {
            let is_live = |row: &u64| run.mask.as_ref().is_none_or(|mask| mask.is_live(*row));
            rows.iter().all(is_live)
        });
        if !is_there {
            return Err(Error::RowsChanged { table: now.name.clone() });
        }
        gone.entry(*segment).or_default().extend(rows);
    }
    for MaskedRows { segment, rows } in superseded {
        gone.entry(segment).or_default().extend(rows);
    }
    Ok(gone.into_iter().map(|(segment, rows)| MaskedRows { segment, rows }).collect())
}
