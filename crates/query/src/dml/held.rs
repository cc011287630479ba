//! Rows of a transaction that wait for its COMMIT.
//!
//! - HE1. They are in memory only, and nobody sees them; `commit` writes all of them, of all
//!   tables, as one record of the log.
//! - HE2. Together they take at most `HELD_BYTES_MAX`.
//! - HE3. Rows of a COPY are put to them when all of it has come: what ends it before, in whatever
//!   way, leaves none.
//!
//! Not here: rows that UPDATE and DELETE change, which are not held back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Rows of a COPY in a transaction, which whoever imports them hands over (HE3).
#[derive(Debug)]
pub struct KeptRows {
    session: Session,
    table: String,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    batches: Vec<(Arc<Schema>, RecordBatch)>,
    bytes: usize,
}

impl KeptRows {
    pub(crate) fn new(session: &Session, table: &str) -> KeptRows {
        let (session, table) = (session.clone(), table.to_owned());
        KeptRows { session, table, kept: Mutex::default() }
    }

    /// Takes some: an array for each column of the table.
    ///
    /// # Errors
    /// If they are more than a transaction holds back.
    pub fn take(&self, schema: &Arc<Schema>, columns: Vec<ArrayRef>) -> Result<()> {
        let batch = batch_of(schema, columns)?;
        let mut kept = self.kept();
        kept.bytes = kept.bytes.saturating_add(batch_bytes(&batch));
        // HE2.
        if HELD_BYTES_MAX < kept.bytes {
            return Err(Error::TransactionTooLarge);
        }
        kept.batches.push((Arc::clone(schema), batch));
        Ok(())
    }

    /// All have come: they wait for COMMIT.
    ///
    /// # Errors
    /// If they cannot be stored, or are more than a transaction holds back with those it has.
    pub fn hold(&self) -> Result<()> {
        let Kept { batches, .. } = std::mem::take(&mut *self.kept());
        self.session.hold(|held| {
            let mut add = |(schema, rows)| held.add(&self.table, &schema, rows);
            batches.into_iter().try_for_each(&mut add)
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Whole batches are put in.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rows with all columns of a table.
fn batch_of(schema: &Schema, arrays: Vec<ArrayRef>) -> Result<RecordBatch> {
    let rows = arrays.first().map_or(0, |array| array.len());
    let fields = schema
        .columns()
        .iter()
        .zip(&arrays)
        .map(|(column, array)| Field::new(&column.name, array.data_type().clone(), true));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new_with_options(schema, arrays, &options);
    Ok(batch.map_err(DataFusionError::from)?)
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
        let array = |column: &Column| {
            let at = self.columns.iter().position(|given| given.id == column.id);
            match at {
                Some(at) => Arc::clone(batch.column(at)),
                None => new_null_array(&arrow_type(column.ty), rows),
            }
        };
        batch_of(&self.schema, self.schema.columns().iter().map(array).collect())
    }
}
