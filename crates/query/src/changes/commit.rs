//! COMMIT of a transaction, and its temporary tables afterwards.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, new_null_array};
use tidegate_model::schema::same_name;
use tidegate_model::{Column, Schema, TableId};
use tidegate_storage::segment::arrow_type;
use tidegate_storage::{
    Database, Error as StorageError, MadeFor, PendingDdl, RowBatch, SegmentDeletes, TableAppend,
    TableDeletes, TableRead, TransactionCommit, VisibleTables,
};

use super::batch::{HeldBatch, batch_of, builder};
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
    /// The rows of all batches, with the columns that the latest was made for.
    fn gathered(&self, visible: &VisibleTables<'_>) -> Result<RowBatch> {
        let Some(last) = self.batches.last() else { return Ok(RowBatch::default()) };
        let mut gathered: BatchBuilder = builder(&last.schema);
        for batch in &self.batches {
            match batch.schema.version() == last.schema.version() {
                true => gathered.push(&batch.rows)?,
                false => gathered.push(&self.fitted(batch, &last.schema, visible)?)?,
            }
        }
        Ok(gathered.take())
    }

    /// The rows of a batch with the columns that a later one was made for: another session has
    /// altered the table in between. As at the commit (append-4 of the storage), a column keeps its
    /// values under another name, and one that is not needed may be gone.
    fn fitted(
        &self,
        batch: &HeldBatch,
        now: &Schema,
        visible: &VisibleTables<'_>,
    ) -> Result<RecordBatch> {
        let (then, table) = (&batch.schema, || self.name.clone());
        let first = visible.provisional_from(self.id);
        let position = |column: &Column| {
            let is_it = |known: &Column| match first {
                Some(first) if first <= column.id => same_name(&known.name, &column.name),
                _ => known.id == column.id,
            };
            then.columns().iter().position(is_it)
        };
        let positions = now.columns().iter().map(position).collect::<Vec<_>>();
        for (at, column) in then.columns().iter().enumerate() {
            if self.needed.contains(&column.id) && !positions.contains(&Some(at)) {
                let (table, column) = (table(), column.name.clone());
                return Err(StorageError::ColumnDropped { table, column }.into());
            }
        }
        let mut arrays = Vec::with_capacity(positions.len());
        for (column, at) in now.columns().iter().zip(positions) {
            arrays.push(match at {
                Some(at) => Arc::clone(batch.rows.column(at)),
                None if now.default_of(column.id).is_some() => {
                    let (table, column) = (table(), column.name.clone());
                    return Err(StorageError::ColumnAdded { table, column }.into());
                }
                None => new_null_array(&arrow_type(column.ty), batch.rows.num_rows()),
            });
        }
        batch_of(now, arrays)
    }

    fn put_into(&self, commit: &mut TransactionCommit, visible: &VisibleTables<'_>) -> Result<()> {
        if self.batches.is_empty() && self.deleted.is_empty() {
            return Ok(());
        }
        let Some(table) = visible.table_name(self.id) else {
            return Err(StorageError::TableDropped { table: self.name.clone() }.into());
        };
        let rows = self.gathered(visible)?;
        let (id, create, add_columns) = (Some(self.id), None, false);
        let made_for = self.batches.last().map(|batch| MadeFor {
            schema: Arc::clone(&batch.schema),
            needed: self.needed.clone(),
        });
        commit.appends.push(TableAppend { table, id, create, add_columns, made_for, rows });
        if let Some(version) = self.found_in.filter(|_| !self.deleted.is_empty()) {
            let of_segment = |(&segment, left): (_, &Arc<tidegate_storage::DeletionVector>)| {
                SegmentDeletes { segment, rows: left.deleted().collect() }
            };
            let rows = self.deleted.iter().map(of_segment).collect();
            commit.removed.push(TableDeletes { table: self.id, version, rows });
        }
        Ok(())
    }
}
