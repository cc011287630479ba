//! COMMIT of a transaction, and its temporary tables afterwards.

use std::sync::Arc;

use tidegate_model::TableId;
use tidegate_storage::{
    Database, Error as StorageError, MadeFor, PendingDdl, RowBatch, SegmentDeletes, TableAppend,
    TableDeletes, TableRead, TransactionCommit, VisibleTables,
};

use super::batch::builder;
use super::{Changes, TableChanges, TemporaryTable};
use crate::changes::batch_builder::BatchBuilder;
use crate::error::Result;
use crate::parse::create::OnCommit;

impl Changes {
    /// Makes all changes durable and visible, or none, except those of temporary tables. `reads`
    /// are the tables whose rows the transaction has read for its changes.
    pub(crate) fn commit(self, database: &Arc<Database>, reads: Vec<TableRead>) -> Result<()> {
        let visible = database.visible(&self.ddl);
        visible.check()?;
        let is_temporary = |id: &TableId| self.temporary.values().any(|table| table.id == *id);
        let mut commit =
            TransactionCommit { ddl: self.ddl.clone(), reads, ..TransactionCommit::default() };
        for (_, changes) in self.tables.iter().filter(|(id, _)| !is_temporary(id)) {
            changes.put_into(&mut commit, &visible)?;
        }
        if !commit.ddl.is_empty() || !commit.appends.is_empty() {
            database.commit_transaction(&commit)?;
        }
        Ok(())
    }

    /// The temporary tables at the beginning of the next transaction, after their ON COMMIT action.
    /// If this transaction is committed, they are as it has left them.
    pub(crate) fn into_temporary(self) -> Changes {
        let Changes { mut tables, mut temporary, rows, temporary_rows, epoch, .. } = self;
        Arc::make_mut(&mut temporary).retain(|_, table| table.on_commit != OnCommit::Drop);
        let keeps = |id: &TableId| {
            let kept = |table: &&Arc<TemporaryTable>| {
                table.id == *id && table.on_commit == OnCommit::PreserveRows
            };
            temporary.values().any(|table| kept(&table))
        };
        Arc::make_mut(&mut tables).retain(|id, _| keeps(id));
        let (ddl, ddl_charges) = (PendingDdl::default(), Vec::new());
        Changes { tables, ddl, ddl_charges, temporary, rows, temporary_rows, epoch }
    }
}

impl TableChanges {
    fn gathered(&self) -> Result<RowBatch> {
        let Some(first) = self.batches.first() else { return Ok(RowBatch::default()) };
        let mut gathered: BatchBuilder = builder(&first.schema);
        for batch in &self.batches {
            if batch.schema.version() != first.schema.version() {
                return Err(StorageError::RowsChanged { table: self.name.clone() }.into());
            }
            gathered.push(&batch.rows)?;
        }
        Ok(gathered.take())
    }

    fn put_into(&self, commit: &mut TransactionCommit, visible: &VisibleTables<'_>) -> Result<()> {
        if self.batches.is_empty() && self.gone.is_empty() {
            return Ok(());
        }
        let Some(table) = visible.table_name(self.id) else {
            return Err(StorageError::TableDropped { table: self.name.clone() }.into());
        };
        let rows = self.gathered()?;
        let (id, create, add_columns) = (Some(self.id), None, false);
        let made_for = self.batches.first().map(|batch| MadeFor {
            schema: Arc::clone(&batch.schema),
            needed: self.needed.clone(),
        });
        commit.appends.push(TableAppend { table, id, create, add_columns, made_for, rows });
        if let Some(version) = self.found_in.filter(|_| !self.gone.is_empty()) {
            let of_segment = |(&segment, left): (_, &Arc<tidegate_storage::DeletionVector>)| {
                SegmentDeletes { segment, rows: left.deleted().collect() }
            };
            let rows = self.gone.iter().map(of_segment).collect();
            commit.removed.push(TableDeletes { table: self.id, version, rows });
        }
        Ok(())
    }
}
