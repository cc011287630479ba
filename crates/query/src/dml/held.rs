//! Rows of a transaction that wait for its COMMIT.
//!
//! - HE1. They are in memory only, and nobody sees them; `commit` writes all of them, of all
//!   tables, as one record of the log.
//! - HE2. Together they take at most `HELD_BYTES_MAX`, with all that is kept because of them:
//!   arrays hold no more than their own values, and what a batch costs besides them is counted too.
//! - HE3. Small batches of a table that no savepoint stands between become one, so that rows that
//!   come one at a time cost little more than those that come together.
//! - HE5. They are for the table that had the name when they were inserted: if that is dropped,
//!   COMMIT fails, and a new table of the same name gets none of them.
//! - HE4. Rows of a COPY are put to them when all of it has come: what ends it before, in whatever
//!   way, leaves none.
//!
//! Not here: rows that UPDATE and DELETE change, which are not held back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::{concat_batches, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use tidegate_model::{Column, Schema, TableId};
use tidegate_storage::segment::arrow_type;
use tidegate_storage::{AppendOptions, Database, Error as StorageError, Snapshot, TableAppend};

use super::batch::{BATCH_BYTES_MAX, BatchBuilder, batch_bytes};
use crate::error::{Error, Result};
use crate::session::Session;

/// Bytes of the rows of a transaction (HE2): as many as a statement writes as one record.
pub(crate) const HELD_BYTES_MAX: usize = BATCH_BYTES_MAX;

/// What a column of a batch costs besides its values: a field with its name, an array and its
/// buffers, each with what the allocator adds.
const COLUMN_BYTES: usize = 256;
/// Bytes of a batch that is not put together with others any more (HE3): next to so many, what a
/// batch costs is little.
const MERGED_BYTES_MAX: usize = 512 << 10;

/// The rows that a transaction has inserted so far; those of a table in the order of its
/// statements.
#[derive(Debug, Default)]
pub(crate) struct Held {
    batches: Vec<HeldBatch>,
    bytes: usize,
    /// Batches that savepoints count.
    marked: usize,
}

/// Rows of a table, with all of its columns.
#[derive(Debug)]
struct HeldBatch {
    table: TableName,
    schema: Arc<Schema>,
    rows: RecordBatch,
    /// With all that is kept because of them (HE2).
    bytes: usize,
}

/// A table and what it was called when rows were inserted (HE5).
#[derive(Debug, Clone)]
pub(super) struct TableName {
    pub(super) id: TableId,
    pub(super) name: String,
}

impl HeldBatch {
    fn new(table: TableName, schema: Arc<Schema>, rows: RecordBatch) -> HeldBatch {
        let values = batch_bytes(&rows).max(rows.get_array_memory_size());
        let bytes = values.saturating_add(rows.num_columns() * COLUMN_BYTES);
        HeldBatch { table, schema, rows, bytes }
    }

    /// Whether the rows of `next` may become part of this batch (HE3). The larger one is never
    /// copied for the smaller, so that a row is copied a few times only.
    fn takes(&self, next: &HeldBatch) -> bool {
        self.rows.num_rows() <= next.rows.num_rows()
            && self.bytes.saturating_add(next.bytes) <= MERGED_BYTES_MAX
            && self.schema.version() == next.schema.version()
            && self.rows.schema() == next.rows.schema()
    }
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
        self.batches.iter().any(|batch| batch.table.name.eq_ignore_ascii_case(table))
    }

    /// What is held now, which stays apart from what follows until `keep` says otherwise.
    pub(crate) fn mark(&mut self) -> HeldMark {
        self.marked = self.batches.len();
        HeldMark { batches: self.batches.len(), bytes: self.bytes }
    }

    /// Says which mark is the latest that may be gone back to.
    pub(crate) fn keep(&mut self, latest: Option<HeldMark>) {
        self.marked = latest.map_or(0, |mark| mark.batches);
    }

    /// Drops what has come since.
    pub(crate) fn back_to(&mut self, mark: HeldMark) {
        self.batches.truncate(mark.batches);
        self.bytes = mark.bytes;
    }

    fn add(&mut self, table: &TableName, schema: &Arc<Schema>, rows: RecordBatch) -> Result<()> {
        let mut next = HeldBatch::new(table.clone(), Arc::clone(schema), compact(&rows)?);
        // HE2.
        if HELD_BYTES_MAX < self.bytes.saturating_add(next.bytes) {
            return Err(Error::TransactionTooLarge);
        }
        // What cannot be stored is said of the statement, and not of COMMIT.
        builder(schema).push(&next.rows)?;
        while let Some(at) = self.place_for(&next) {
            let before = &self.batches[at].rows;
            let rows = concat_batches(&before.schema(), [before, &next.rows]);
            let before = self.batches.remove(at);
            self.bytes -= before.bytes;
            next = HeldBatch::new(before.table, before.schema, compact(&rows.map_err(arrow)?)?);
        }
        self.bytes += next.bytes;
        self.batches.push(next);
        Ok(())
    }

    /// The latest batch of the same table, if these rows may become part of it (HE3).
    fn place_for(&self, next: &HeldBatch) -> Option<usize> {
        let of_table = |batch: &HeldBatch| batch.table.id == next.table.id;
        let at = self.batches.iter().rposition(of_table)?;
        (self.marked <= at && self.batches[at].takes(next)).then_some(at)
    }

    /// Makes the rows of all tables durable and visible, or none (HE1).
    pub(crate) fn commit(self, database: &Arc<Database>) -> Result<()> {
        let mut tables: BTreeMap<TableId, (String, Arc<Schema>, BatchBuilder)> = BTreeMap::new();
        for HeldBatch { table: TableName { id, name: table }, schema, rows, .. } in self.batches {
            let first = || (table.clone(), Arc::clone(&schema), builder(&schema));
            let (_, known, gathered) = tables.entry(id).or_insert_with(first);
            if known.version() != schema.version() {
                return Err(StorageError::ColumnDropped { table, column: String::from("*") }.into());
            }
            gathered.push(&rows)?;
        }
        // HE5.
        let is_gone = |(id, _): &(&TableId, _)| database.table_name(**id).is_none();
        if let Some((_, (table, ..))) = tables.iter().find(is_gone) {
            return Err(StorageError::TableDropped { table: table.clone() }.into());
        }
        let append = |(id, (table, _, mut gathered)): (_, (_, _, BatchBuilder))| TableAppend {
            table,
            id: Some(id),
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

fn arrow(error: ArrowError) -> Error {
    DataFusionError::from(error).into()
}

/// The rows in buffers of their own: those of a query may be a few of many (HE2).
fn compact(rows: &RecordBatch) -> Result<RecordBatch> {
    let own = |array: &ArrayRef| -> std::result::Result<ArrayRef, ArrowError> {
        Ok(match array.data_type() {
            DataType::Utf8View => Arc::new(array.as_string_view().gc()),
            DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
            _ if array.get_buffer_memory_size() <= array.len().saturating_mul(32) => {
                Arc::clone(array)
            }
            _ => {
                let count = u32::try_from(array.len()).expect("rows of a batch");
                take(array, &UInt32Array::from_iter_values(0..count), None)?
            }
        })
    };
    let arrays = rows.columns().iter().map(own).collect::<std::result::Result<_, _>>();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let own = RecordBatch::try_new_with_options(rows.schema(), arrays.map_err(arrow)?, &options);
    own.map_err(arrow)
}

fn builder(schema: &Schema) -> BatchBuilder {
    BatchBuilder::new(schema.columns(), schema.designated()).with_lengths(schema.lengths())
}

/// Rows of a COPY in a transaction, which whoever imports them hands over (HE4).
#[derive(Debug)]
pub struct KeptRows {
    session: Session,
    table: TableName,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    batches: Vec<(Arc<Schema>, RecordBatch)>,
    bytes: usize,
}

impl KeptRows {
    pub(crate) fn new(session: &Session, id: TableId, name: &str) -> KeptRows {
        let (session, table) = (session.clone(), TableName { id, name: name.to_owned() });
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
    table: TableName,
    schema: Arc<Schema>,
    columns: Vec<Column>,
    rows: u64,
}

impl Holder {
    /// For rows with these columns of a table.
    pub(super) fn new(session: &Session, snapshot: &Snapshot, columns: &[Column]) -> Holder {
        let table = TableName { id: snapshot.table, name: snapshot.name.clone() };
        let (schema, columns) = (Arc::clone(&snapshot.schema), columns.to_vec());
        Holder { session: session.clone(), table, schema, columns, rows: 0 }
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::Int64Type;
    use tidegate_model::{ColumnType, PartitionUnit};

    use super::*;

    fn named(id: u64, name: &str) -> TableName {
        TableName { id: TableId(id), name: name.to_owned() }
    }

    fn table() -> Arc<Schema> {
        let column = |name: &str, ty| (name.to_owned(), ty);
        let columns = [column("n", ColumnType::Int64), column("text", ColumnType::Varchar)];
        Arc::new(Schema::new(&columns, None, PartitionUnit::None).unwrap())
    }

    fn rows(numbers: Vec<i64>, text: Option<&str>) -> RecordBatch {
        let texts = StringViewArray::from(vec![text; numbers.len()]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
        RecordBatch::try_from_iter([("n", numbers), ("text", Arc::new(texts) as ArrayRef)]).unwrap()
    }

    fn numbers(held: &Held) -> Vec<i64> {
        let of_batch =
            |batch: &HeldBatch| batch.rows.column(0).as_primitive::<Int64Type>().values().to_vec();
        held.batches.iter().flat_map(of_batch).collect()
    }

    // Only the content of texts was counted. A NULL of a VARCHAR cost nothing and several hundred
    // bytes of memory, so that one transaction could take all there is, a row at a time.
    #[test]
    fn what_is_held_is_counted_and_rows_that_come_alone_are_put_together() {
        let (table, mut held) = (table(), Held::default());
        for number in 0..1_000 {
            held.add(&named(1, "t"), &table, rows(vec![number], None)).unwrap();
        }
        let memory = |batch: &HeldBatch| batch.rows.get_array_memory_size();
        assert!(held.batches.iter().map(memory).sum::<usize>() <= held.bytes, "HE2");
        assert_eq!(held.bytes, held.batches.iter().map(|batch| batch.bytes).sum::<usize>());
        assert!(held.batches.len() <= 10, "HE3: {}", held.batches.len());
        assert_eq!(numbers(&held), (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_few_rows_of_many_keep_none_of_the_others() {
        let (table, mut held) = (table(), Held::default());
        let many = rows((0..100_000).collect(), Some("a text that is no part of its view"));
        held.add(&named(1, "t"), &table, many.slice(70_000, 2)).unwrap();
        assert!(held.batches[0].rows.get_array_memory_size() < 10_000, "HE2");
        assert_eq!(numbers(&held), [70_000, 70_001]);
        let first = many.slice(0, 60_000);
        let refused =
            (0..20).map(|_| held.add(&named(1, "t"), &table, first.clone())).find(Result::is_err);
        assert!(matches!(refused, Some(Err(Error::TransactionTooLarge))), "HE2");
    }

    #[test]
    fn what_a_savepoint_counts_stays_apart() {
        let (table, mut held) = (table(), Held::default());
        let add = |held: &mut Held, name: &str, number| {
            let id = u64::from(name.eq_ignore_ascii_case("t"));
            held.add(&named(id, name), &table, rows(vec![number], Some("x"))).unwrap();
        };
        add(&mut held, "t", 1);
        let mark = held.mark();
        add(&mut held, "T", 2);
        add(&mut held, "u", 3);
        add(&mut held, "t", 4);
        assert_eq!(numbers(&held), [1, 3, 2, 4], "HE3: 2 and 4 are one batch");
        held.back_to(mark);
        assert_eq!((numbers(&held), held.bytes), (vec![1], held.batches[0].bytes));
        held.keep(None);
        add(&mut held, "t", 5);
        assert_eq!((numbers(&held), held.batches.len()), (vec![1, 5], 1), "HE3");
    }
}
