//! The batches of uncommitted rows.
//!
//! - batch-1. Arrays hold no more than their own values, and the overhead of a batch is counted
//!   too.
//! - batch-2. Small consecutive batches are merged, so that rows inserted one at a time cost little
//!   more than rows inserted together.
//! - A batch never changes: deleting or adding rows makes a new one.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
    new_null_array,
};
use datafusion::arrow::compute::{concat_batches, filter_record_batch, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use tidegate_model::{Column, Schema, SegmentId, TableId};
use tidegate_storage::segment::arrow_type;
use tidegate_storage::{PrivateNumbers, SegmentRun, SymbolTables, encode_private, time_order};

use super::account::{Charge, RowAccount};
use crate::changes::batch_builder::{BatchBuilder, batch_bytes};
use crate::error::{Error, Result};

/// The overhead of a column of a batch: a field with its name, an array and its buffers, each with
/// the overhead of the allocator.
const COLUMN_BYTES: usize = 256;
/// The size from which on a batch is not merged any more (batch-2): beside so many bytes, its
/// overhead is small.
const MERGED_BYTES_MAX: usize = 512 << 10;

/// Rows of a table, with all columns that it had then.
#[derive(Debug)]
pub(super) struct HeldBatch {
    pub(super) schema: Arc<Schema>,
    pub(super) rows: RecordBatch,
    bytes: usize,
    /// Ascends with the statements of a session.
    order: u64,
    encoded: Mutex<Option<Encoded>>,
    _charge: Charge,
}

/// The rows of a batch, encoded as sorted runs.
#[derive(Debug)]
struct Encoded {
    /// The generation of the symbols that they were encoded with.
    generation: u64,
    runs: Vec<Arc<SegmentRun>>,
    _charge: Charge,
}

impl HeldBatch {
    pub(super) fn new(
        account: &Arc<RowAccount>,
        schema: &Arc<Schema>,
        rows: RecordBatch,
        order: u64,
    ) -> Result<HeldBatch> {
        let rows = compact(&rows)?;
        let values = batch_bytes(&rows).max(rows.get_array_memory_size());
        let bytes = values.saturating_add(rows.num_columns() * COLUMN_BYTES);
        let _charge = account.charge(bytes)?;
        let (schema, encoded) = (Arc::clone(schema), Mutex::default());
        Ok(HeldBatch { schema, rows, bytes, order, encoded, _charge })
    }

    /// True if the rows of `next` may be merged into this batch (batch-2). The larger one is never
    /// copied for the smaller, so that a row is copied only a few times.
    pub(super) fn takes(&self, next: &HeldBatch) -> bool {
        self.rows.num_rows() <= next.rows.num_rows()
            && self.bytes.saturating_add(next.bytes) <= MERGED_BYTES_MAX
            && self.schema.version() == next.schema.version()
            && self.rows.schema() == next.rows.schema()
    }

    /// Its rows with the columns that their table has now.
    pub(super) fn altered(
        &self,
        schema: &Arc<Schema>,
        account: &Arc<RowAccount>,
    ) -> Result<HeldBatch> {
        let rows = widened(schema, self.schema.columns(), &self.rows)?;
        HeldBatch::new(account, schema, rows, self.order)
    }

    /// The rows of both.
    pub(super) fn joined(&self, next: &HeldBatch, account: &Arc<RowAccount>) -> Result<HeldBatch> {
        let rows = concat_batches(&self.rows.schema(), [&self.rows, &next.rows]);
        HeldBatch::new(account, &self.schema, rows.map_err(arrow)?, self.order)
    }

    /// The batch without these rows of its runs; `None` if no row is left.
    pub(super) fn without(
        self: Arc<Self>,
        gone: &BTreeMap<SegmentId, Vec<u64>>,
        account: &Arc<RowAccount>,
    ) -> Result<Option<Arc<HeldBatch>>> {
        let runs = self.known_runs();
        if !runs.iter().any(|run| gone.contains_key(&run.meta.id)) {
            return Ok(Some(self));
        }
        let places = self.places();
        let mut keeps = vec![true; self.rows.num_rows()];
        let mut first = 0;
        for run in runs {
            for &row in gone.get(&run.meta.id).into_iter().flatten() {
                let place = first + usize::try_from(row).expect("rows of a batch");
                keeps[places.get(place).copied().unwrap_or(place)] = false;
            }
            first += run.meta.rows.as_len();
        }
        let left = filter_record_batch(&self.rows, &BooleanArray::from(keeps)).map_err(arrow)?;
        if left.num_rows() == 0 {
            return Ok(None);
        }
        HeldBatch::new(account, &self.schema, left, self.order).map(|left| Some(Arc::new(left)))
    }

    /// The positions in the batch of the rows of its runs, one run after the other; empty if the
    /// batch is sorted.
    fn places(&self) -> Vec<usize> {
        let Some(id) = self.schema.designated() else { return Vec::new() };
        let at = self.schema.columns().iter().position(|column| column.id == id);
        let array = self.rows.column(at.expect("it is one of the columns")).to_data();
        let values = &array.buffers()[0].typed_data::<i64>()[array.offset()..];
        let values = &values[..array.len()];
        if values.is_sorted() {
            return Vec::new();
        }
        let rows = u32::try_from(values.len()).expect("rows of a batch");
        let (places, _) = time_order::sort((0..rows).collect(), values.to_vec());
        places.into_iter().map(|place| place as usize).collect()
    }

    fn known_runs(&self) -> Vec<Arc<SegmentRun>> {
        let encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        encoded.as_ref().map(|encoded| encoded.runs.clone()).unwrap_or_default()
    }

    /// Its rows as sorted runs, encoded with `symbols` of this generation.
    pub(super) fn runs(
        &self,
        table: TableId,
        symbols: &mut SymbolTables,
        generation: u64,
        account: &Arc<RowAccount>,
    ) -> Result<Vec<Arc<SegmentRun>>> {
        static SEGMENTS: AtomicU64 = AtomicU64::new(0);
        // Only whole values are inserted, so a panic leaves nothing half done.
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = encoded.as_ref().filter(|it| it.generation == generation) {
            return Ok(known.runs.clone());
        }
        let _charge = account.charge_copy(self.bytes)?;
        let mut builder = builder(&self.schema);
        builder.push(&self.rows)?;
        let numbers = PrivateNumbers { commit: self.order, segments: &SEGMENTS };
        let runs = encode_private(table, &self.schema, &builder.take(), symbols, numbers)?;
        *encoded = Some(Encoded { generation, runs: runs.clone(), _charge });
        Ok(runs)
    }
}

fn arrow(error: ArrowError) -> Error {
    DataFusionError::from(error).into()
}

/// The rows in buffers of their own: those of a query may be a few out of many (batch-1).
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

pub(super) fn builder(schema: &Schema) -> BatchBuilder {
    BatchBuilder::new(schema.columns(), schema.designated()).with_lengths(schema.lengths())
}

/// Rows with all columns of a table.
pub(crate) fn batch_of(schema: &Schema, arrays: Vec<ArrayRef>) -> Result<RecordBatch> {
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

/// Extends rows, which begin with these columns, to all columns of a table: the others are NULL.
pub(crate) fn widened(
    schema: &Schema,
    columns: &[Column],
    batch: &RecordBatch,
) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let array = |column: &Column| {
        let at = columns.iter().position(|given| given.id == column.id);
        match at {
            Some(at) => Arc::clone(batch.column(at)),
            None => new_null_array(&arrow_type(column.ty), rows),
        }
    };
    batch_of(schema, schema.columns().iter().map(array).collect())
}
