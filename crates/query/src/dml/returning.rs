//! `RETURNING`: its rows are computed before the commit; if that fails, nothing has changed.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use futures::StreamExt;
use tidegate_model::Column;
use tidegate_storage::Snapshot;

use super::RowChanges;
use super::write::{Work, write_and_look};
use crate::changes::batch::widened;
use crate::control::{Reader, finish_in_time, plan_spawned, run, with_cancel_checks};
use crate::error::Result;
use crate::parse::{Name, RowChange, Target};
use crate::plan::{ParameterTypes, Returning, describe_returning};

/// The rows that a statement returns, with the memory that they take.
pub(crate) struct ReturnedRows {
    batches: std::vec::IntoIter<RecordBatch>,
    _memory: MemoryReservation,
}

impl Iterator for ReturnedRows {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        self.batches.next()
    }
}

/// The RETURNING clause of a statement.
pub(super) struct Wanted<'a> {
    pub(super) sql: &'a str,
    /// The byte of RETURNING.
    pub(super) start: usize,
    pub(super) target: Target,
    pub(super) snapshot: Arc<Snapshot>,
    /// The first columns of the statement's rows.
    pub(super) columns: Vec<Column>,
}

impl Wanted<'_> {
    pub(super) fn target_of(table: &Name) -> Target {
        Target { table: table.clone(), alias: None }
    }
}

impl RowChanges<'_> {
    /// Processes all rows of a stream, and returns their number and the rows of RETURNING.
    pub(super) async fn write_returning(
        &self,
        stream: SendableRecordBatchStream,
        work: Work,
        wanted: Option<Wanted<'_>>,
    ) -> Result<(u64, Option<(SchemaRef, ReturnedRows)>)> {
        let Some(wanted) = wanted else {
            return Ok((super::write::write(stream, work, &self.stop).await?, None));
        };
        let mut returned = None;
        let look = async |rows: Vec<RecordBatch>| {
            returned = Some(self.returned(&wanted, rows).await?);
            Ok(())
        };
        let rows = write_and_look(stream, work, &self.stop, look).await?;
        Ok((rows, returned))
    }

    async fn returned(
        &self,
        wanted: &Wanted<'_>,
        rows: Vec<RecordBatch>,
    ) -> Result<(SchemaRef, ReturnedRows)> {
        let memory = MemoryConsumer::new("Returning").register(self.context.memory_pool());
        let mut whole = Vec::with_capacity(rows.len());
        for batch in rows {
            let batch = widened(&wanted.snapshot.schema, &wanted.columns, &batch)?;
            memory.try_grow(batch.get_array_memory_size())?;
            whole.push(batch);
        }
        let (state, database) = (self.state.clone(), Arc::clone(&self.database));
        let (sql, parameters) = (wanted.sql.to_owned(), self.parameters.clone());
        let (start, target) = (wanted.start, wanted.target.clone());
        let snapshot = Arc::clone(&wanted.snapshot);
        let task = plan_spawned(self.account(), async move {
            let returning = Returning {
                state: &state,
                database: &database,
                sql: &sql,
                parameters: &parameters,
                start,
                target: &target,
            };
            returning.plan(&snapshot, &whole).await
        });
        let (plan, schema) = finish_in_time(task, &self.stop).await?;
        let plan = with_cancel_checks(plan, &self.stop)?;
        let mut stream = run(plan, Arc::clone(&self.context), &self.stop, Reader::Writer, None)?;
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            memory.try_grow(batch.get_array_memory_size())?;
            batches.push(batch);
        }
        let batches = batches.into_iter();
        Ok((schema, ReturnedRows { batches, _memory: memory }))
    }

    /// The result columns and parameter types of a statement, which is not executed.
    pub(crate) async fn described(
        &self,
        sql: &str,
        change: RowChange,
    ) -> Result<(Option<SchemaRef>, ParameterTypes)> {
        let (start, target) = match &change {
            RowChange::Insert(insert) => (insert.returning, Wanted::target_of(&insert.table)),
            RowChange::Update(change)
            | RowChange::Delete(change)
            | RowChange::DropPartitions(change) => (change.returning, change.target.clone()),
        };
        let mut types = self.parameters_of(sql, change).await?;
        let Some(start) = start else { return Ok((None, types)) };
        let (state, database) = (self.state.clone(), Arc::clone(&self.database));
        let (sql, parameters) = (sql.to_owned(), self.parameters.clone());
        let task = plan_spawned(self.account(), async move {
            let returning = Returning {
                state: &state,
                database: &database,
                sql: &sql,
                parameters: &parameters,
                start,
                target: &target,
            };
            describe_returning(&returning)
        });
        let (columns, more) = finish_in_time(task, &self.stop).await?;
        for (name, ty) in more {
            types.entry(name).or_insert(ty);
        }
        Ok((Some(columns), types))
    }
}
