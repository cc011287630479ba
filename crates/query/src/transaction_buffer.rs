//! Buffering of rows that only their session sees: those of a transaction, and of temporary tables.
//!
//! - Rows of a COPY are added only when all of them have come: a COPY that ends early, for any
//!   reason, adds none.
//!
//! Not here: the buffers (`changes`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use tidegate_model::{Column, Schema, TableId};
use tidegate_storage::{SegmentPin, Snapshot};

use crate::changes::batch::{batch_of, widened};
use crate::changes::deleted_rows::DeletedRows;
use crate::changes::{Changes, NewRows, TableRef};
use crate::error::Result;
use crate::session::Session;

/// The buffer of a COPY whose rows only its session sees; the import fills it.
#[derive(Debug)]
pub struct CopyBuffer {
    session: Session,
    table: TableRef,
    /// The columns of the table as the session sees it.
    schema: Arc<Schema>,
    /// The rows so far, a batch at a time.
    received: Mutex<Vec<NewRows>>,
}

impl CopyBuffer {
    pub(crate) fn new(
        session: &Session,
        id: TableId,
        name: &str,
        schema: Arc<Schema>,
    ) -> CopyBuffer {
        let (session, table) = (session.clone(), TableRef { id, name: name.to_owned() });
        CopyBuffer { session, table, schema, received: Mutex::default() }
    }

    /// The columns of the rows: the database may have others, or no such table.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Takes some rows: an array for each column of the table.
    ///
    /// # Errors
    /// If they cannot be stored, or exceed the limit of a session.
    pub fn take(&self, columns: Vec<ArrayRef>) -> Result<()> {
        let batch = batch_of(&self.schema, columns)?;
        let mut rows = self.session.changes().gather(&self.table, &self.schema);
        rows.push(batch)?;
        self.received().push(rows);
        Ok(())
    }

    /// Adds all rows to the session's changes.
    ///
    /// # Errors
    /// If they exceed the limit of a session.
    pub fn add_to_session(&self) -> Result<()> {
        let received = std::mem::take(&mut *self.received());
        let mut changes = self.session.changes();
        received.iter().try_for_each(|rows| changes.add(rows))?;
        self.session.install(changes);
        Ok(())
    }

    fn received(&self) -> MutexGuard<'_, Vec<NewRows>> {
        // Whole batches are pushed, so a panic leaves none half done.
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies the changes of one statement to those of its session.
pub(crate) struct TransactionBuffer {
    session: Session,
    changes: Changes,
    /// The table as the statement sees it.
    snapshot: Arc<Snapshot>,
    /// Keeps rows of the table where they were found; `None` if the table is temporary.
    pin: Option<Arc<SegmentPin>>,
    columns: Vec<Column>,
    new: NewRows,
    rows: u64,
}

impl TransactionBuffer {
    /// A buffer for rows with these columns of a table.
    pub(crate) fn new(
        session: &Session,
        snapshot: &Arc<Snapshot>,
        columns: &[Column],
        pin: Option<Arc<SegmentPin>>,
    ) -> TransactionBuffer {
        TransactionBuffer {
            pin,
            ..TransactionBuffer::of(session, session.changes(), snapshot, columns)
        }
    }

    /// A buffer for rows of a table, on top of other changes of the same statement.
    pub(crate) fn of(
        session: &Session,
        changes: Changes,
        snapshot: &Arc<Snapshot>,
        columns: &[Column],
    ) -> TransactionBuffer {
        let new = changes.gather(&TableRef::of(snapshot), &snapshot.schema);
        let (snapshot, columns) = (Arc::clone(snapshot), columns.to_vec());
        TransactionBuffer {
            session: session.clone(),
            changes,
            snapshot,
            pin: None,
            columns,
            new,
            rows: 0,
        }
    }

    /// Makes the rows need these columns only (`NewRows::need`).
    pub(crate) fn needing(mut self, columns: &[Column]) -> TransactionBuffer {
        self.new.need(columns);
        self
    }

    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = widened(&self.snapshot.schema, &self.columns, batch)?;
        self.rows += batch.num_rows() as u64;
        self.new.push(batch)
    }

    /// Deletes `gone`, adds the rows that were pushed, and returns the number of those.
    pub(crate) fn finish(mut self, gone: DeletedRows) -> Result<u64> {
        self.changes.remove(&self.snapshot, gone.into_rows(), self.pin.as_ref())?;
        self.changes.add(&self.new)?;
        self.session.install(self.changes);
        Ok(self.rows)
    }
}
