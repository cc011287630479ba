//! Rows of a transaction that wait for its COMMIT.
//!
//! - HE1. They are in memory only, and nobody sees them; `commit` writes all of them, of all
//!   tables, as one record of the log.
//! - HE2. Together they take at most `HELD_BYTES_MAX`.
//!
//! Not here: rows that UPDATE and DELETE change, which are not held back.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::datatypes::{Field, Schema as ArrowSchema};
use datafusion::common::DataFusionError;
use tidegate_model::{Column, Schema};
use tidegate_storage::segment::arrow_type;
use tidegate_storage::{AppendOptions, Database, Error as StorageError, TableAppend};

use super::batch::{BATCH_BYTES_MAX, BatchBuilder, batch_bytes};
use crate::error::{Error, Result};
use crate::session::Session;

/// Bytes of the rows of a transaction (HE2): as many as a statement writes as one record.
pub(crate) const HELD_BYTES_MAX: usize = BATCH_BYTES_MAX;

/// The rows that a transaction has inserted so far, in the order of its statements.
#[derive(Debug, Default)]
pub(crate) struct Held {
    batches: Vec<HeldBatch>,
    bytes: usize,
}

/// Rows of a table, with all of its columns.
#[derive(Debug)]
struct HeldBatch {
    table: String,
    schema: Arc<Schema>,
    rows: RecordBatch,
}

/// How much was held back at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldMark {
    batches: usize,
    bytes: usize,
}

impl Held {
    /// Whether rows of this table wait.
    pub(crate) fn has(&self, table: &str) -> bool {
        self.batches.iter().any(|batch| batch.table.eq_ignore_ascii_case(table))
    }

    pub(crate) fn mark(&self) -> HeldMark {
        HeldMark { batches: self.batches.len(), bytes: self.bytes }
    }

    /// Drops what has come since.
    pub(crate) fn back_to(&mut self, mark: HeldMark) {
        self.batches.truncate(mark.batches);
        self.bytes = mark.bytes;
    }

    fn add(&mut self, table: &str, schema: &Arc<Schema>, rows: RecordBatch) -> Result<()> {
        let bytes = self.bytes.saturating_add(batch_bytes(&rows));
        // HE2.
        if HELD_BYTES_MAX < bytes {
            return Err(Error::TransactionTooLarge);
        }
        // What cannot be stored is said of the statement, and not of COMMIT.
        builder(schema).push(&rows)?;
        self.bytes = bytes;
        let (table, schema) = (table.to_owned(), Arc::clone(schema));
        self.batches.push(HeldBatch { table, schema, rows });
        Ok(())
    }

    /// Makes the rows of all tables durable and visible, or none (HE1).
    pub(crate) fn commit(self, database: &Arc<Database>) -> Result<()> {
        let mut tables: BTreeMap<String, (Arc<Schema>, BatchBuilder)> = BTreeMap::new();
        for HeldBatch { table, schema, rows } in self.batches {
            let first = || (Arc::clone(&schema), builder(&schema));
            let (known, gathered) = tables.entry(table.to_lowercase()).or_insert_with(first);
            if known.version() != schema.version() {
                return Err(StorageError::ColumnDropped { table, column: String::from("*") }.into());
            }
            gathered.push(&rows)?;
        }
        let append = |(table, (_, mut gathered)): (String, (_, BatchBuilder))| TableAppend {
            table,
            create: None,
            add_columns: false,
            rows: gathered.take(),
        };
        let appends = tables.into_iter().map(append).collect::<Vec<_>>();
        if !appends.is_empty() {
            database.append(&appends, &AppendOptions::default())?;
        }
        Ok(())
    }
}

fn builder(schema: &Schema) -> BatchBuilder {
    BatchBuilder::new(schema.columns(), schema.designated()).with_lengths(schema.lengths())
}

/// Puts the rows of a statement to those that wait.
pub(super) struct Holder {
    session: Session,
    table: String,
    schema: Arc<Schema>,
    columns: Vec<Column>,
    rows: u64,
}

impl Holder {
    /// For rows with these columns of a table.
    pub(super) fn new(
        session: &Session,
        table: &str,
        (schema, columns): (&Arc<Schema>, &[Column]),
    ) -> Holder {
        let (session, table) = (session.clone(), table.to_owned());
        Holder { session, table, schema: Arc::clone(schema), columns: columns.to_vec(), rows: 0 }
    }

    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = self.widened(batch)?;
        self.rows += batch.num_rows() as u64;
        self.session.hold(|held| held.add(&self.table, &self.schema, batch))
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The rows with all columns of the table: those that were not named are NULL.
    fn widened(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let column = |column: &Column| -> (Field, ArrayRef) {
            let at = self.columns.iter().position(|given| given.id == column.id);
            let array = match at {
                Some(at) => Arc::clone(batch.column(at)),
                None => new_null_array(&arrow_type(column.ty), rows),
            };
            (Field::new(&column.name, array.data_type().clone(), true), array)
        };
        let (fields, arrays): (Vec<_>, Vec<_>) = self.schema.columns().iter().map(column).unzip();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::new(ArrowSchema::new(fields));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options);
        Ok(batch.map_err(DataFusionError::from)?)
    }
}
