//! Commit requests: what a writer asks for. Files that they name are on disk already.
//!
//! Not here: the changes that they lead to (`plan`).

use std::sync::Arc;

use tidegate_model::{Column, ColumnId, Schema, SchemaVersion, SegmentId, SeqTxn, TableId};

use super::ddl::{Relations, SchemaEdit};
use crate::change::{BatchId, TableOp};
use crate::database::table::memtable::MemtableRun;
use crate::database::table::new_segments::NewSegments;
use crate::database::table::state::TableState;
use crate::deletion_vector::DeletionVectorMeta;
use crate::error::{Error, Result};
use crate::files::TableDirectory;
use crate::mem_segment::MemSegment;
use crate::segment::SegmentMeta;
use crate::snapshot::{SegmentFile, Snapshot};
use crate::symbols::{SymbolTable, SymbolWatermark};
use crate::wal::CommitOutcome;

/// A commit request.
#[derive(Debug)]
pub(crate) enum CommitRequest {
    CreateTable(NewTable),
    CreateView { new: NewTable, replace: Replacement },
    Import(Import),
    DropTables { names: Vec<String>, kind: Relations },
    RenameTable { from: String, to: String },
    Truncate { table: String },
    Alter { table: String, edit: SchemaEdit },
    Append(Append),
    Replace(Replace),
    Coalesce(Coalesce),
    Exchange(Exchange),
}

/// The action if a view has the name of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replacement {
    Replaces,
    IsRefused,
}

/// Encoded rows of tables, with the changes of tables that come before them.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) ddl: PendingDdl,
    pub(crate) batch: Option<BatchId>,
    /// The identity that an earlier program would have given the batch.
    pub(crate) older: Option<BatchId>,
    /// Each table once.
    pub(crate) tables: Vec<AppendTo>,
    /// The tables whose rows must be as they were read (transaction-5).
    pub(crate) reads: Vec<TableRead>,
    pub(crate) since_nanos: u64,
}

/// Encoded rows of one table, and the version of the table they were encoded for.
#[derive(Debug)]
pub(crate) struct AppendTo {
    pub(crate) target: AppendTarget,
    pub(crate) mem_segments: Vec<MemSegment>,
    /// One file for each in-memory segment.
    pub(crate) files: Vec<Arc<SegmentFile>>,
    /// Dictionaries with all symbols of the in-memory segments, which use the first values of each.
    pub(crate) symbols: Vec<(ColumnId, Arc<SymbolTable>)>,
    /// Rows to delete with the same commit.
    pub(crate) deletes: Deletes,
}

/// Rows to delete.
#[derive(Debug, Default)]
pub(crate) struct Deletes {
    /// The deletion vectors of segments that keep other rows.
    pub(crate) deletion_vectors: Vec<NewDeletionVector>,
    /// The segments without other rows, and the memtable, which is flushed without the rows.
    pub(crate) replace: Option<Replace>,
}

/// The table for which rows were encoded.
#[derive(Debug)]
pub(crate) enum AppendTarget {
    New(NewTable),
    Existing {
        id: TableId,
        name: String,
        version: SchemaVersion,
        /// The columns with those to be added.
        altered: Option<Arc<Schema>>,
    },
}

/// Segments that are on disk already, with rows of others and of the memtable.
#[derive(Debug)]
pub(crate) struct Replace {
    pub(crate) table: TableId,
    pub(crate) name: String,
    /// The segments replaced, with the deletion vectors that they were read with.
    pub(crate) out: Vec<(SegmentId, Option<DeletionVectorMeta>)>,
    /// The oldest runs of the memtable, with all rows up to the last commit in them.
    pub(crate) memtable: Vec<Arc<MemtableRun>>,
    pub(crate) segments: Vec<SegmentMeta>,
    pub(crate) symbols: Vec<(ColumnId, SymbolWatermark)>,
    /// True if all live rows of the input are in the new segments: a flush or a compaction.
    pub(crate) keeps_rows: bool,
}

/// A run of a memtable in place of several. It needs no record in the log.
#[derive(Debug)]
pub(crate) struct Coalesce {
    pub(crate) table: TableId,
    pub(crate) name: String,
    pub(crate) out: Vec<Arc<MemtableRun>>,
    pub(crate) run: Arc<MemtableRun>,
}

/// Runs of a memtable, each with one that has the same rows elsewhere. It needs no record in the
/// log.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) table: TableId,
    pub(crate) name: String,
    pub(crate) pairs: Vec<(Arc<MemtableRun>, Arc<MemtableRun>)>,
}

/// The planned changes of a commit request.
#[derive(Debug)]
pub(crate) struct PlannedCommit {
    /// Empty if the log needs no record.
    pub(crate) ops: Vec<TableOp>,
    pub(crate) committed: Committed,
}

/// A table whose rows a transaction has read, and which others may not have changed at its commit
/// (transaction-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRead {
    /// The table.
    pub table: TableId,
    /// Its name when it was read.
    pub name: String,
    /// [`Snapshot::rows_changed_at`] when it was read.
    pub rows_changed_at: SeqTxn,
}

impl TableRead {
    /// The read of a snapshot.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> TableRead {
        let Snapshot { table, rows_changed_at, .. } = *snapshot;
        TableRead { table, name: snapshot.name.clone(), rows_changed_at }
    }
}

/// A table that does not exist yet.
#[derive(Debug, Clone)]
pub(crate) struct NewTable {
    pub(crate) directory: Arc<TableDirectory>,
    pub(crate) name: String,
    pub(crate) schema: Arc<Schema>,
}

/// An import, whose segments are on disk already.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) target: Target,
    /// True if the same commit drops a table that has the name of a new one.
    pub(crate) replaces: bool,
    pub(crate) segments: Vec<SegmentMeta>,
    pub(crate) symbols: Vec<(ColumnId, SymbolWatermark)>,
    /// Rows to delete with the same commit.
    pub(crate) deletes: Deletes,
    /// The keys of DEDUP by which the rows to delete were found; `None` if keys were not used.
    pub(crate) keys: Option<Vec<ColumnId>>,
    /// Changes of tables before the rows, which are for this version of the table.
    pub(crate) before: Option<Box<(DdlBefore, SchemaVersion)>>,
}

/// Changes of tables in the same commit as rows, and before these.
#[derive(Debug, Clone)]
pub struct DdlBefore {
    /// The changes.
    pub ddl: PendingDdl,
    /// The action if the table has rows that are not replaced.
    pub other_rows: OtherRows,
}

/// The action if other writers have added rows to a table since its rows were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherRows {
    /// The commit fails with [`Error::SegmentChanged`].
    AreRefused,
    /// They stay as they are.
    Stay,
}

/// The table of an import.
#[derive(Debug)]
pub(crate) enum Target {
    New(NewTable),
    /// The table as it was when the import began.
    Existing {
        id: SnapshotId,
        columns: RowColumns,
    },
}

/// The columns of the rows of an import or a change.
#[derive(Debug, Clone)]
pub(crate) struct RowColumns {
    /// The columns without which the rows would not be valid.
    pub(crate) needed: Vec<Column>,
    /// All columns that the table had when the rows were made: later ones have no values.
    pub(crate) known: Vec<Column>,
}

impl RowColumns {
    /// Checks that the rows still fit a table. A rename keeps the id of a column.
    pub(crate) fn check(&self, table: &str, now: &Schema) -> Result<()> {
        let mut needed = self.needed.iter();
        if let Some(gone) = needed.find(|column| now.column(column.id).is_none()) {
            let (table, column) = (table.to_owned(), gone.name.clone());
            return Err(Error::ColumnDropped { table, column });
        }
        let is_known = |column: &Column| self.known.iter().any(|known| known.id == column.id);
        match now.unknown_default(is_known) {
            None => Ok(()),
            Some(added) => {
                let (table, column) = (table.to_owned(), added.name.clone());
                Err(Error::ColumnAdded { table, column })
            }
        }
    }
}

/// The version of a table that was read.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotId {
    pub(crate) table: TableId,
    pub(crate) name: String,
    pub(crate) seq_txn: SeqTxn,
}

/// A deletion vector that is on disk already.
#[derive(Debug)]
pub(crate) struct NewDeletionVector {
    pub(crate) segment: SegmentId,
    /// Its metadata; the commit sets its `seq_txn`.
    pub(crate) meta: DeletionVectorMeta,
    /// The deletion vector that it was made from.
    pub(crate) replaces: Option<DeletionVectorMeta>,
}

impl Replace {
    /// Puts new segments with the same rows in place of segments and of runs of the memtable.
    pub(crate) fn with(
        written: &NewSegments<'_>,
        out: Vec<(SegmentId, Option<DeletionVectorMeta>)>,
        memtable: &[Arc<MemtableRun>],
        symbols: Vec<(ColumnId, SymbolWatermark)>,
    ) -> Replace {
        let (table, name) = (written.table().id(), written.table().name.clone());
        let (memtable, segments) = (memtable.to_vec(), written.metas());
        Replace { table, name, out, memtable, segments, symbols, keeps_rows: true }
    }

    /// Removes some segments of a table.
    pub(crate) fn without(
        table: &TableState,
        out: Vec<(SegmentId, Option<DeletionVectorMeta>)>,
    ) -> Replace {
        let (memtable, segments, symbols) = (Vec::new(), Vec::new(), Vec::new());
        let (table, name) = (table.id(), table.name.clone());
        Replace { table, name, out, memtable, segments, symbols, keeps_rows: false }
    }
}

impl AppendTo {
    pub(crate) fn table(&self) -> TableId {
        match &self.target {
            AppendTarget::New(new) => new.directory.table(),
            AppendTarget::Existing { id, .. } => *id,
        }
    }
}

/// The table that a commit request creates.
pub(crate) fn new_table(request: &CommitRequest, id: TableId) -> Option<&NewTable> {
    let is_it = |new: &&NewTable| new.directory.table() == id;
    match request {
        CommitRequest::CreateTable(new)
        | CommitRequest::CreateView { new, .. }
        | CommitRequest::Import(Import { target: Target::New(new), .. }) => Some(new).filter(is_it),
        CommitRequest::Append(append) => {
            let new = append.tables.iter().filter_map(|to| match &to.target {
                AppendTarget::New(new) => Some(new),
                AppendTarget::Existing { .. } => None,
            });
            new.into_iter().find(is_it).or_else(|| append.ddl.new_table(id))
        }
        _ => None,
    }
}

/// Changes of tables, in their order. A clone is a copy of the current state.
#[derive(Debug, Clone, Default)]
pub struct PendingDdl(pub(crate) Vec<Arc<DdlStep>>);

/// One change.
#[derive(Debug)]
pub(crate) struct DdlStep {
    pub(crate) request: CommitRequest,
    /// The tables of the change when it was made (`pending` pending-2).
    pub(crate) tables: Vec<TableId>,
    /// The table that the change adds columns with defaults to, if others have it.
    pub(crate) filled: Option<FilledTable>,
    /// The table that the change adds columns to, if others have it, and the next id of a column
    /// that it had for them.
    pub(crate) first_added: Option<(TableId, ColumnId)>,
}

/// A table whose rows get the defaults of new columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilledTable {
    pub(crate) table: TableId,
    /// The last commit whose rows certainly get them.
    pub(crate) seq_txn: SeqTxn,
}

impl PendingDdl {
    /// Returns true if there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The table that one of the changes creates.
    pub(crate) fn new_table(&self, id: TableId) -> Option<&NewTable> {
        self.0.iter().find_map(|step| new_table(&step.request, id))
    }
}

/// The reason why a commit failed, and whether a replay may find it.
#[derive(Debug)]
pub(crate) struct CommitError {
    pub(crate) error: Error,
    pub(crate) outcome: CommitOutcome,
}

/// The result of a commit request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Committed {
    /// The number of the commit in each of its tables.
    pub(crate) seq_txns: Vec<(TableId, SeqTxn)>,
    /// False if it is an earlier commit of the same batch.
    pub(crate) is_new: bool,
}
