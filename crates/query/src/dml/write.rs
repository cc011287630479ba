//! From a stream of rows to a commit.
//!
//! - WR1. The stream runs where queries do, and rows are written on a thread of its own, a batch or
//!   two behind. Only if the stream has ended without an error is anything committed.
//! - WR2. Whoever waits is told at once when the statement is ended; the thread ends with what it
//!   is at, and what it has written goes with it.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use tidegate_model::{Column, Schema, SchemaError};
use tidegate_storage::{
    AppendOptions, ChangeTxn, Database, Error as StorageError, ImportTarget, Removal, Snapshot,
    TableAppend,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use super::batch::{BATCH_BYTES_MAX, BatchBuilder, batch_bytes};
use super::gone::Gone;
use super::held::Holder;
use crate::control::{CancelReason, Stop};
use crate::error::{Error, Result};

/// Batches between the two threads.
const QUEUE: usize = 2;

/// What is done with rows.
pub(super) enum Work {
    Insert(Writer),
    /// Only their session sees them.
    Hold(Holder),
    /// As `Update`, and as `Hold`.
    HoldUpdate(Holder),
    /// As `Delete`, and as `Hold`.
    HoldDelete(Holder),
    /// The last column is the id of the row that each row replaces.
    Update(Writer, Arc<Snapshot>),
    /// The only column is the id of the row that goes.
    Delete(Arc<Database>, Arc<Snapshot>),
}

enum Message {
    Rows(RecordBatch),
    /// Who sends it wants to see all rows.
    Look(oneshot::Sender<Vec<RecordBatch>>),
    End,
}

/// Does the work with all rows of a stream, and says how many they were.
pub(super) async fn write(
    stream: SendableRecordBatchStream,
    work: Work,
    stop: &Stop,
) -> Result<u64> {
    let (sender, receiver) = channel(QUEUE);
    let task = SpawnedTask::spawn_blocking(move || work.run(receiver, None));
    // Dropping the sender before the end of all rows ends the thread (WR1).
    let sent = tokio::select! {
        biased;
        sent = send(stream, &sender) => sent,
        reason = stop.ended() => return Err(reason.into()),
    };
    finished(task, sent.map(|()| sender)).await
}

/// As `write`, with a look at the rows before anything is committed: if that fails, nothing is.
pub(super) async fn write_and_look(
    stream: SendableRecordBatchStream,
    work: Work,
    stop: &Stop,
    look: impl AsyncFnOnce(Vec<RecordBatch>) -> Result<()>,
) -> Result<u64> {
    let (sender, receiver) = channel(QUEUE);
    let task = SpawnedTask::spawn_blocking(move || work.run(receiver, Some(Vec::new())));
    let looked = async {
        send(stream, &sender).await?;
        // All rows were taken, and more is to be done.
        stop.begin_again();
        let (seen, rows) = oneshot::channel();
        // If nobody takes it, the writer has failed and says why.
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

/// Ends the work, unless it has failed, and says what has come of it.
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
        // If nobody takes it, the writer has failed and says why.
        if sender.send(Message::Rows(batch?)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

impl Work {
    /// `seen` gathers the rows, if somebody wants to see them.
    fn run(
        mut self,
        mut receiver: Receiver<Message>,
        mut seen: Option<Vec<RecordBatch>>,
    ) -> Result<u64> {
        let mut gone = Gone::default();
        loop {
            match receiver.blocking_recv() {
                Some(Message::Rows(batch)) => {
                    let rows = self.push(batch, &mut gone)?;
                    if let Some(seen) = &mut seen {
                        seen.push(rows);
                    }
                }
                Some(Message::Look(sender)) => {
                    // If nobody waits for them, nobody ends the work either.
                    let _ = sender.send(seen.take().unwrap_or_default());
                }
                Some(Message::End) => return self.finish(gone),
                None => return Err(CancelReason::Abandoned.into()),
            }
        }
    }

    /// Does the work with rows, and gives those that it was done with.
    fn push(&mut self, batch: RecordBatch, gone: &mut Gone) -> Result<RecordBatch> {
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

    fn finish(self, gone: Gone) -> Result<u64> {
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
                    txn.commit(Some(Removal { snapshot: &snapshot, rows: &mut gone }))?;
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
    /// There once rows were written.
    txn: Option<ChangeTxn>,
    rows: u64,
}

/// Where rows go.
enum Destination {
    /// A table that the commit makes.
    New { name: String, schema: Arc<Schema> },
    /// A table that is to have these columns when they are committed.
    Table { snapshot: Arc<Snapshot>, needed: Vec<Column> },
}

impl Writer {
    /// For rows with these columns of a table, of which some must still be there at the end.
    pub(super) fn new(
        database: &Arc<Database>,
        snapshot: &Arc<Snapshot>,
        (columns, needed): (&[Column], Vec<Column>),
    ) -> Writer {
        let into = Destination::Table { snapshot: Arc::clone(snapshot), needed };
        Writer::of(database, into, (&snapshot.schema, columns))
    }

    /// For all rows of a table that the commit makes.
    pub(super) fn of_new(database: &Arc<Database>, table: &str, schema: &Arc<Schema>) -> Writer {
        let into = Destination::New { name: table.to_owned(), schema: Arc::clone(schema) };
        Writer::of(database, into, (schema, schema.columns()))
    }

    fn of(
        database: &Arc<Database>,
        into: Destination,
        (schema, columns): (&Schema, &[Column]),
    ) -> Writer {
        let batch = BatchBuilder::new(columns, schema.designated()).with_lengths(schema.lengths());
        Writer { database: Arc::clone(database), into, batch, txn: None, rows: 0 }
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

    /// Writes the rows that are gathered.
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
                Destination::Table { snapshot, needed } => {
                    self.database.begin_change_of(snapshot, needed)?
                }
            },
        };
        Ok(self.txn.insert(txn))
    }

    /// Commits all rows: those of one batch as a record of the log.
    fn append(mut self) -> Result<u64> {
        if matches!(self.into, Destination::New { .. }) {
            self.txn()?;
        }
        if self.batch.rows() > 0 {
            if let (Destination::Table { snapshot, .. }, None) = (&self.into, &self.txn) {
                let (table, rows) = (snapshot.name.clone(), self.batch.take());
                let id = Some(snapshot.table);
                let append = TableAppend { table, id, create: None, add_columns: false, rows };
                let appended = self.database.append(&[append], &AppendOptions::default());
                return appended.map(|_| self.rows).map_err(|error| dropped(error, &snapshot.name));
            }
            self.flush()?;
        }
        if let Some(txn) = self.txn {
            txn.commit(None)?;
        }
        Ok(self.rows)
    }

    /// Commits all rows in place of others.
    fn replace(mut self, snapshot: &Snapshot, gone: Gone) -> Result<u64> {
        assert_eq!(self.rows, gone.rows, "every row replaces one");
        if self.batch.rows() > 0 {
            self.flush()?;
        }
        if let Some(txn) = self.txn {
            let mut gone = gone.into_rows();
            txn.commit(Some(Removal { snapshot, rows: &mut gone }))?;
        }
        Ok(self.rows)
    }
}

/// A column that rows are made for was there when they were.
fn dropped(error: StorageError, table: &str) -> Error {
    match error {
        StorageError::Schema(SchemaError::NoSuchColumn { name: column }) => {
            StorageError::ColumnDropped { table: table.to_owned(), column }.into()
        }
        error => error.into(),
    }
}
