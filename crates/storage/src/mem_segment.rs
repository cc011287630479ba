//! In-memory segments, which hold rows between their commit and their flush.
//!
//! - mem_segment-1. The bytes of an in-memory segment are those of a segment, and `segment::Reader`
//!   reads both: code that reads rows handles a single form.
//! - mem_segment-2. The in-memory segments of one batch are in the order of their rows: ascending
//!   by timestamp, equal ones as in the batch. None extends past the end of a partition.
//! - Encoding allocates no memory for each value, and its working memory is kept for the next
//!   batch. Most batches arrive in order, and are encoded without copying.
//!
//! Strings are stored plain or with a dictionary; only writers of files compress them.
//!
//! Bytes: docs/format.md, In-memory segments. Not here: committing them (`database`), merging them
//! (`rewrite`).

mod columns;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{
    ColumnId, ColumnType, PartitionKey, RowCount, Schema, SegmentId, SymbolId, TableId, Timestamp,
    limits,
};

use crate::batch::{BatchValues, RowBatch};
use crate::error::{Error, Result};
use crate::segment::encode::FRAME_ROWS;
use crate::segment::{MemSegmentWriter, SegmentMeta, WriterSpec};
use crate::time_order;
use columns::{PartRows, Scratch};

/// A segment whose bytes are in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemSegment {
    /// The description of the segment; the commit sets `seq_first` and `seq_last`.
    pub meta: SegmentMeta,
    /// All bytes, from header to trailer.
    pub bytes: Arc<[u8]>,
}

/// A batch whose columns were mapped to those of a table.
#[derive(Debug, Clone, Copy)]
pub struct MemSegmentBatch<'a> {
    /// The table.
    pub table: TableId,
    /// The schema of the table, which determines the order of rows and the ends of partitions.
    pub schema: &'a Schema,
    /// Number of rows of every column.
    pub rows: usize,
    /// Each column of the table at most once; a missing one is NULL.
    pub columns: &'a [MemSegmentColumn<'a>],
}

/// A column of a batch.
#[derive(Debug, Clone, Copy)]
pub struct MemSegmentColumn<'a> {
    /// The column of the table.
    pub id: ColumnId,
    /// The type of the column in the table.
    pub ty: ColumnType,
    /// One value for each row.
    pub values: &'a BatchValues,
    /// A bit for each row, least significant first; `None` if all rows have a value.
    pub validity: Option<&'a [u64]>,
    /// The symbols of the strings of a SYMBOL column.
    pub symbols: &'a [SymbolId],
}

/// Working memory of encoding, kept from batch to batch. A writer that finds none allocates it, and
/// at most `SCRATCHES_MAX` are kept, however many threads write.
static SCRATCHES: Mutex<Vec<Scratch>> = Mutex::new(Vec::new());
const SCRATCHES_MAX: usize = 8;

/// Encodes a batch: in-memory segments of its rows in order (mem_segment-2), each with an id from
/// `new_id`.
///
/// # Errors
/// If a designated timestamp is missing or out of range, or if the in-memory segments are too large
/// for a record of the log.
///
/// # Panics
/// If a column has another number of rows, values of another type, or no symbol for one of its
/// strings.
pub fn encode(
    batch: &MemSegmentBatch<'_>,
    new_id: &mut dyn FnMut() -> SegmentId,
) -> Result<Vec<MemSegment>> {
    if batch.rows == 0 {
        return Ok(Vec::new());
    }
    for column in batch.columns {
        assert_eq!(column.values.len(), batch.rows, "storage_batch-1: column {}", column.id);
    }
    let order = Order::of(batch)?;
    // A panic cannot leave it inconsistent: each change is one push or pop.
    let scratches = || SCRATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut scratch = scratches().pop().unwrap_or_default();
    let mut mem_segments = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    while start < batch.rows {
        let (partition, end) = order.part_from(start, batch);
        let spec = WriterSpec {
            table: batch.table,
            segment: new_id(),
            partition,
            rows: RowCount((end - start) as u64),
            min_ts: order.timestamp(start),
            max_ts: order.timestamp(end - 1),
        };
        let rows = order.rows(start..end);
        let mem_segment = encode_part(&spec, batch.columns, &rows, &mut scratch, bytes)?;
        bytes += mem_segment.bytes.len();
        mem_segments.push(mem_segment);
        start = end;
    }
    scratch.shrink();
    let mut scratches = scratches();
    if scratches.len() < SCRATCHES_MAX {
        scratches.push(scratch);
    }
    Ok(mem_segments)
}

/// Returns the symbols of strings of a column.
pub(crate) type Intern<'a> = dyn FnMut(ColumnId, &[&[u8]]) -> Result<Vec<SymbolId>> + 'a;

/// Encodes rows for the columns of a table that have the same names, as [`encode`] does.
///
/// # Panics
/// If a column is not one of the table's, or not of its type.
pub(crate) fn encode_rows(
    table: TableId,
    schema: &Schema,
    rows: &RowBatch,
    intern: &mut Intern<'_>,
    new_id: &mut dyn FnMut() -> SegmentId,
) -> Result<Vec<MemSegment>> {
    let mut encoded = Vec::with_capacity(rows.columns().len());
    for column in rows.columns() {
        let known = schema.find(&column.name).filter(|known| known.ty == column.ty);
        let id = known.expect("the table has the columns of its rows").id;
        let symbols = match &column.values {
            BatchValues::Symbols { texts, .. } => {
                let texts: Vec<&[u8]> = (0..texts.len()).map(|at| texts.get(at)).collect();
                intern(id, &texts)?
            }
            _ => Vec::new(),
        };
        encoded.push((id, column, symbols));
    }
    let columns: Vec<MemSegmentColumn<'_>> = encoded
        .iter()
        .map(|(id, column, symbols)| MemSegmentColumn {
            id: *id,
            ty: column.ty,
            values: &column.values,
            validity: column.validity.as_deref(),
            symbols,
        })
        .collect();
    encode(&MemSegmentBatch { table, schema, rows: rows.rows(), columns: &columns }, new_id)
}

fn encode_part(
    spec: &WriterSpec,
    columns: &[MemSegmentColumn<'_>],
    rows: &PartRows<'_>,
    scratch: &mut Scratch,
    bytes_before: usize,
) -> Result<MemSegment> {
    let mut writer = MemSegmentWriter::new(*spec, std::mem::take(&mut scratch.bytes));
    for column in columns {
        let mut encoder = writer.begin(column.id, column.ty);
        scratch.push(column, rows, &mut encoder);
        writer.add(encoder.finish());
        // A batch that is too large is refused before all columns are encoded.
        let bytes = bytes_before + writer.bytes();
        if bytes > limits::WAL_RECORD_BYTES {
            return Err(Error::CommitTooLarge { bytes });
        }
    }
    let (meta, bytes) = writer.finish();
    let mem_segment = MemSegment { meta, bytes: Arc::from(bytes.as_slice()) };
    scratch.bytes = bytes;
    Ok(mem_segment)
}

/// The time order of a batch's rows.
struct Order<'a> {
    /// The timestamps in order; empty without a designated timestamp.
    timestamps: std::borrow::Cow<'a, [i64]>,
    /// The row at each place; `None` if the rows arrived in order.
    places: Option<Vec<u32>>,
}

impl<'a> Order<'a> {
    fn of(batch: &MemSegmentBatch<'a>) -> Result<Order<'a>> {
        let Some(id) = batch.schema.designated() else {
            return Ok(Order { timestamps: (&[]).into(), places: None });
        };
        let column = batch.columns.iter().find(|column| column.id == id);
        let column = column.ok_or(Error::TimestampMissing { row: 0 })?;
        let BatchValues::I64(values) = column.values else {
            panic!("the designated timestamp is {}", column.ty.sql());
        };
        if let Some(words) = column.validity {
            let is_null = |&row: &usize| words[row / 64] >> (row % 64) & 1 == 0;
            if let Some(row) = (0..batch.rows).find(is_null) {
                return Err(Error::TimestampMissing { row });
            }
        }
        let is_outside = |ts: &i64| !(TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(ts);
        // Without a branch for each row, because nearly all are in range.
        if values.iter().fold(false, |any, ts| any | is_outside(ts)) {
            let row = values.iter().position(is_outside).expect("one is");
            return Err(Error::TimestampOutOfRange { row, value: values[row] });
        }
        if values.is_sorted() {
            return Ok(Order { timestamps: values.into(), places: None });
        }
        let rows = u32::try_from(batch.rows).expect("a batch is below 4 GiB");
        let (places, timestamps) = time_order::sort((0..rows).collect(), values.clone());
        Ok(Order { timestamps: timestamps.into(), places: Some(places) })
    }

    fn timestamp(&self, place: usize) -> i64 {
        self.timestamps.get(place).copied().unwrap_or(0)
    }

    /// The partition of the row at a place, and the end of the in-memory segment that begins there.
    fn part_from(&self, start: usize, batch: &MemSegmentBatch<'_>) -> (PartitionKey, usize) {
        let rows_max = usize::try_from(limits::SEGMENT_ROWS.0).expect("4,194,304");
        let end = batch.rows.min(start + rows_max);
        if self.timestamps.is_empty() {
            return (PartitionKey(0), end);
        }
        let (by, unit) = (batch.schema.partition_by(), batch.schema.time_unit());
        let partition = by.floor(Timestamp(self.timestamps[start]), unit);
        let next = by.next(partition, unit).0;
        let rest = &self.timestamps[start..end];
        if rest[rest.len() - 1] < next {
            return (partition, end);
        }
        (partition, start + rest.partition_point(|&ts| ts < next))
    }

    fn rows(&self, places: Range<usize>) -> PartRows<'_> {
        match &self.places {
            None => PartRows::Range(places),
            Some(order) => PartRows::List(&order[places]),
        }
    }
}

const _: () = assert!(limits::SEGMENT_ROWS.0.is_multiple_of(FRAME_ROWS as u64));

#[cfg(test)]
pub(crate) mod tests;
