//! Writes a stream of rows, and commits them.
//!
//! - dml_write-1. The stream runs where queries do, and rows are written on a thread of their own,
//!   a batch or two behind. They are committed only if the stream has ended without an error.
//! - The client is told at once when the statement is stopped; the thread ends with
//!   its current batch, and its uncommitted rows are dropped.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use tidegate_model::{Column, Schema};
use tidegate_storage::{
    AppendOptions, ChangeTxn, Database, DdlBefore, ImportTarget, MadeFor, Snapshot,
    SnapshotDeletes, TableAppend,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::cancel::{CancelReason, CancelState};
use crate::changes::batch_builder::{BatchBuilder, batch_bytes};
use crate::changes::deleted_rows::DeletedRows;
use crate::error::{Error, Result};
use crate::limits::BATCH_BYTES_MAX;
use crate::transaction_buffer::TransactionBuffer;

/// The number of batches between the two threads.
const QUEUE: usize = 2;

/// The destination of rows.
pub(super) enum Work {
    Insert(Writer),
    /// As `Insert`, but only the session sees the rows.
    Hold(TransactionBuffer),
    /// As `Update`, but only the session sees the rows.
    HoldUpdate(TransactionBuffer),
    /// As `Delete`, but only the session sees the rows.
    HoldDelete(TransactionBuffer),
    /// The last column is the id of the row that each row replaces.
    Update(Writer, Arc<Snapshot>),
    /// The only column is the id of the row that is deleted.
    Delete(Arc<Database>, Arc<Snapshot>),
}

enum Message {
    Rows(RecordBatch),
    /// The sender asks for all rows.
    Look(oneshot::Sender<Vec<RecordBatch>>),
    End,
}

/// Processes all rows of a stream, and returns their number.
pub(super) async fn write(
    stream: SendableRecordBatchStream,
    work: Work,
    stop: &CancelState,
) -> Result<u64> {
    let (sender, receiver) = channel(QUEUE);
    let task = SpawnedTask::spawn_blocking(move || work.run(receiver, None));
    // Dropping the sender before the end of the rows ends the thread (dml_write-1).
    let sent = tokio::select! {
        biased;
        sent = send(stream, &sender) => sent,
        reason = stop.ended() => return Err(reason.into()),
    };
    finished(task, sent.map(|()| sender)).await
}

/// As `write`, but calls `look` with the rows before the commit: if it fails, nothing is committed.
pub(super) async fn write_and_look(
    stream: SendableRecordBatchStream,
    work: Work,
    stop: &CancelState,
    look: impl AsyncFnOnce(Vec<RecordBatch>) -> Result<()>,
) -> Result<u64> {
    let (sender, receiver) = channel(QUEUE);
    let task = SpawnedTask::spawn_blocking(move || work.run(receiver, Some(Vec::new())));
    let looked = async {
        send(stream, &sender).await?;
        // The end of the stream abandons the statement, but RETURNING continues it.
        stop.begin_again();
        let (seen, rows) = oneshot::channel();
        // A send error means that the writer has failed; `finished` returns its error.
        if sender.send(Message::Look(seen)).await.is_ok()
            && let Ok(rows) = rows.await
        {
            look(rows).await?;
        }
        Ok(())
    };
    let sent = tokio::select! {
        biased;
        sent = looked => sent,
        reason = stop.ended() => return Err(reason.into()),
    };
    finished(task, sent.map(|()| sender)).await
}

/// Ends the work, unless it has failed, and returns its result.
async fn finished(task: SpawnedTask<Result<u64>>, sent: Result<Sender<Message>>) -> Result<u64> {
    let sent = match sent {
        Ok(sender) => {
            let _ = sender.send(Message::End).await;
            Ok(())
        }
        Err(error) => Err(error),
    };
    let written = task.join_unwind().await;
    let written =
        written.map_err(|error| Error::from(DataFusionError::ExecutionJoin(Box::new(error))))?;
    sent.and(written)
}

async fn send(mut stream: SendableRecordBatchStream, sender: &Sender<Message>) -> Result<()> {
    while let Some(batch) = stream.next().await {
        // A send error means that the writer has failed; `finished` returns its error.
        if sender.send(Message::Rows(batch?)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

impl Work {
    /// Processes messages to the end. `seen` collects the rows for `Message::Look`.
    fn run(
        mut self,
        mut receiver: Receiver<Message>,
        mut seen: Option<Vec<RecordBatch>>,
    ) -> Result<u64> {
        let mut gone = DeletedRows::default();
        loop {
            match receiver.blocking_recv() {
                Some(Message::Rows(batch)) => {
                    let rows = self.push(batch, &mut gone)?;
                    if let Some(seen) = &mut seen {
                        seen.push(rows);
                    }
                }
                Some(Message::Look(sender)) => {
                    // If the receiver is gone, the sender of the messages is too, and the loop ends
                    // below.
                    let _ = sender.send(seen.take().unwrap_or_default());
                }
                Some(Message::End) => return self.finish(gone),
                None => return Err(CancelReason::Abandoned.into()),
            }
        }
    }

    /// Processes rows, and returns those that were not duplicates (`DeletedRows`).
    fn push(&mut self, batch: RecordBatch, gone: &mut DeletedRows) -> Result<RecordBatch> {
        let row_ids = |batch: &RecordBatch| {
            let last = batch.columns().last().expect("the id of the row is the last column");
            last.as_primitive::<UInt64Type>().clone()
        };
        let snapshot = match &*self {
            Work::Insert(_) | Work::Hold(_) => None,
            Work::Update(_, snapshot) | Work::Delete(_, snapshot) => Some(snapshot),
            Work::HoldUpdate(holder) | Work::HoldDelete(holder) => Some(holder.snapshot()),
        };
        let fresh = snapshot.map(|snapshot| gone.add(snapshot, &row_ids(&batch)));
        let batch = match fresh.filter(BooleanArray::has_false) {
            Some(fresh) => filter_record_batch(&batch, &fresh).map_err(DataFusionError::from)?,
            None => batch,
        };
        match self {
            Work::Insert(writer) | Work::Update(writer, _) => writer.push(&batch)?,
            Work::Hold(holder) | Work::HoldUpdate(holder) => holder.push(&batch)?,
            Work::Delete(..) | Work::HoldDelete(_) => {}
        }
        Ok(batch)
    }

    fn finish(self, gone: DeletedRows) -> Result<u64> {
        match self {
            Work::Insert(writer) => writer.append(),
            Work::Hold(holder) | Work::HoldUpdate(holder) => holder.finish(gone),
            Work::HoldDelete(holder) => {
                let rows = gone.rows;
                holder.finish(gone)?;
                Ok(rows)
            }
            Work::Update(writer, snapshot) => writer.replace(&snapshot, gone),
            Work::Delete(database, snapshot) => {
                let rows = gone.rows;
                if rows > 0 {
                    let txn = database.begin_change_of(&snapshot, &[])?;
                    let mut gone = gone.into_rows();
                    txn.commit(Some(SnapshotDeletes { snapshot: &snapshot, rows: &mut gone }))?;
                }
                Ok(rows)
            }
        }
    }
}

/// Writes rows into a table.
pub(super) struct Writer {
    database: Arc<Database>,
    into: Destination,
    batch: BatchBuilder,
    /// The transaction, once rows were written.
    txn: Option<ChangeTxn>,
    rows: u64,
    /// Changes of tables that the commit makes first.
    before: Option<DdlBefore>,
}

/// The table of the rows.
enum Destination {
    /// A table that the commit creates.
    New { name: String, schema: Arc<Schema> },
    /// A table that must have these columns at the commit.
    Table { snapshot: Arc<Snapshot>, needed: Vec<Column> },
}

impl Writer {
    /// A writer for rows with these columns of a table; `needed` must still exist at the commit.
    pub(super) fn new(
        database: &Arc<Database>,
        snapshot: &Arc<Snapshot>,
        columns: &[Column],
        needed: Vec<Column>,
    ) -> Writer {
        let into = Destination::Table { snapshot: Arc::clone(snapshot), needed };
        Writer::of(database, into, &snapshot.schema, columns)
    }

    /// A writer for all rows of a table that the commit creates.
    pub(super) fn of_new(database: &Arc<Database>, table: &str, schema: &Arc<Schema>) -> Writer {
        let into = Destination::New { name: table.to_owned(), schema: Arc::clone(schema) };
        Writer::of(database, into, schema, schema.columns())
    }

    fn of(
        database: &Arc<Database>,
        into: Destination,
        schema: &Schema,
        columns: &[Column],
    ) -> Writer {
        let batch = BatchBuilder::new(columns, schema.designated()).with_lengths(schema.lengths());
        Writer { database: Arc::clone(database), into, batch, txn: None, rows: 0, before: None }
    }

    /// Makes changes of tables with the same commit.
    pub(super) fn after(self, before: Option<DdlBefore>) -> Writer {
        Writer { before, ..self }
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows > 1 && batch_bytes(batch) > BATCH_BYTES_MAX {
            let half = rows / 2;
            self.push(&batch.slice(0, half))?;
            return self.push(&batch.slice(half, rows - half));
        }
        self.batch.push(batch)?;
        self.rows += rows as u64;
        if self.batch.is_full() { self.flush() } else { Ok(()) }
    }

    /// Writes the buffered rows.
    fn flush(&mut self) -> Result<()> {
        let rows = self.batch.take();
        self.txn()?.add(&rows)?;
        Ok(())
    }

    fn txn(&mut self) -> Result<&mut ChangeTxn> {
        let txn = match self.txn.take() {
            Some(txn) => txn,
            None => match &self.into {
                Destination::New { name, schema } => {
                    let schema = Schema::clone(schema);
                    self.database.begin_change(ImportTarget::New { name, schema })?
                }
                Destination::Table { snapshot, needed } => match &self.before {
                    None => self.database.begin_change_of(snapshot, needed)?,
                    Some(before) => {
                        self.database.begin_change_after(before.clone(), snapshot, needed)?
                    }
                },
            },
        };
        Ok(self.txn.insert(txn))
    }

    /// Commits all rows: those of a single batch as one WAL record.
    fn append(mut self) -> Result<u64> {
        if matches!(self.into, Destination::New { .. }) {
            self.txn()?;
        }
        if self.batch.rows() > 0 {
            if let (Destination::Table { snapshot, needed }, None) = (&self.into, &self.txn) {
                let (table, rows) = (snapshot.name.clone(), self.batch.take());
                let (id, schema) = (Some(snapshot.table), Arc::clone(&snapshot.schema));
                let needed = needed.iter().map(|column| column.id).collect();
                let made_for = Some(MadeFor { schema, needed });
                let (create, add_columns) = (None, false);
                let append = TableAppend { table, id, create, add_columns, made_for, rows };
                self.database.append(&[append], &AppendOptions::default())?;
                return Ok(self.rows);
            }
            self.flush()?;
        }
        if let Some(txn) = self.txn {
            txn.commit(None)?;
        }
        Ok(self.rows)
    }

    /// Commits all rows in place of others.
    fn replace(mut self, snapshot: &Snapshot, gone: DeletedRows) -> Result<u64> {
        assert_eq!(self.rows, gone.rows, "every row replaces one");
        if self.batch.rows() > 0 {
            self.flush()?;
        }
        if self.before.is_some() {
            self.txn()?;
        }
        if let Some(txn) = self.txn {
            let mut gone = gone.into_rows();
            txn.commit(Some(SnapshotDeletes { snapshot, rows: &mut gone }))?;
        }
        Ok(self.rows)
    }
}
