//! Images: segments in memory, which is what rows are between their commit and their file.
//!
//! - IM1. The bytes of an image are those of a segment, and `segment::Reader` reads both: whoever
//!   works on rows knows one form of them.
//! - IM2. Images of one batch stand in the order of their rows: ascending by timestamp, equal ones
//!   as in the batch. None reaches over the end of a partition.
//! - IM3. Encoding takes no memory for each value, and what it works in is kept for the next batch.
//!   Most batches come in order, and are then encoded from where they lie.
//!
//! Texts are as they are or have a dictionary; compressing them is for whoever writes files.
//!
//! Bytes: docs/format.md, Images. Not here: committing them (`database`), joining them (`rewrite`).

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
use crate::segment::{ImageWriter, SegmentMeta, WriterSpec};
use crate::time_order;
use columns::{PartRows, Scratch};

/// A segment whose bytes are in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its numbers; the commit sets `seq_first` and `seq_last`.
    pub meta: SegmentMeta,
    /// All bytes, header to trailer.
    pub bytes: Arc<[u8]>,
}

/// A batch whose columns were found in a table.
#[derive(Debug, Clone, Copy)]
pub struct ImageBatch<'a> {
    /// Which table.
    pub table: TableId,
    /// Its columns: what the rows are ordered by, and where partitions end.
    pub schema: &'a Schema,
    /// How many rows every column has.
    pub rows: usize,
    /// Each column of the table once at most; one that is missing is NULL.
    pub columns: &'a [ImageColumn<'a>],
}

/// A column of a batch.
#[derive(Debug, Clone, Copy)]
pub struct ImageColumn<'a> {
    /// Which column of the table.
    pub id: ColumnId,
    /// The type that it has there.
    pub ty: ColumnType,
    /// One a row.
    pub values: &'a BatchValues,
    /// A bit a row, least first; `None` where all rows have a value.
    pub validity: Option<&'a [u64]>,
    /// Of a SYMBOL column: the symbol of each of its texts.
    pub symbols: &'a [SymbolId],
}

/// What encoding works in, kept from batch to batch. A writer who finds none takes fresh memory, so
/// that there are no more than that many idle ones, however many threads write.
static SCRATCHES: Mutex<Vec<Scratch>> = Mutex::new(Vec::new());
const SCRATCHES_MAX: usize = 8;

/// Encodes a batch: images of its rows in order (IM2), each under a number of `new_id`.
///
/// # Errors
/// If a designated timestamp is missing or out of range, or if the images are more than a record of
/// the log takes.
///
/// # Panics
/// If a column has another number of rows, values of another type, or not a symbol for every text.
pub fn encode(batch: &ImageBatch<'_>, new_id: &mut dyn FnMut() -> SegmentId) -> Result<Vec<Image>> {
    if batch.rows == 0 {
        return Ok(Vec::new());
    }
    for column in batch.columns {
        assert_eq!(column.values.len(), batch.rows, "BA1: column {}", column.id);
    }
    let order = Order::of(batch)?;
    // A panic does not leave it half changed: it is one push or pop.
    let scratches = || SCRATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut scratch = scratches().pop().unwrap_or_default();
    let mut images = Vec::new();
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
        let image = encode_part(&spec, batch.columns, &rows, (&mut scratch, bytes))?;
        bytes += image.bytes.len();
        images.push(image);
        start = end;
    }
    scratch.shrink();
    let mut scratches = scratches();
    if scratches.len() < SCRATCHES_MAX {
        scratches.push(scratch);
    }
    Ok(images)
}

/// Gives the symbols of texts of a column.
pub(crate) type Intern<'a> = dyn FnMut(ColumnId, &[&[u8]]) -> Result<Vec<SymbolId>> + 'a;

/// Encodes rows for the columns of a table that have their columns' names, as [`encode`] does.
///
/// # Panics
/// If a column is none of the table's, or not of its type.
pub(crate) fn encode_rows(
    (table, schema): (TableId, &Schema),
    rows: &RowBatch,
    intern: &mut Intern<'_>,
    new_id: &mut dyn FnMut() -> SegmentId,
) -> Result<Vec<Image>> {
    let mut found = Vec::with_capacity(rows.columns().len());
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
        found.push((id, column, symbols));
    }
    let columns: Vec<ImageColumn<'_>> = found
        .iter()
        .map(|(id, column, symbols)| ImageColumn {
            id: *id,
            ty: column.ty,
            values: &column.values,
            validity: column.validity.as_deref(),
            symbols,
        })
        .collect();
    encode(&ImageBatch { table, schema, rows: rows.rows(), columns: &columns }, new_id)
}

fn encode_part(
    spec: &WriterSpec,
    columns: &[ImageColumn<'_>],
    rows: &PartRows<'_>,
    (scratch, bytes_before): (&mut Scratch, usize),
) -> Result<Image> {
    let mut writer = ImageWriter::new(*spec, std::mem::take(&mut scratch.bytes));
    for column in columns {
        let mut encoder = writer.begin(column.id, column.ty);
        scratch.push(column, rows, &mut encoder);
        writer.add(encoder.finish());
        // Not all columns are made for a batch that is refused.
        let bytes = bytes_before + writer.bytes();
        if bytes > limits::WAL_RECORD_BYTES {
            return Err(Error::CommitTooLarge { bytes });
        }
    }
    let (meta, bytes) = writer.finish();
    let image = Image { meta, bytes: Arc::from(bytes.as_slice()) };
    scratch.bytes = bytes;
    Ok(image)
}

/// The order of a batch's rows.
struct Order<'a> {
    /// In the order of time; none without a designated timestamp.
    timestamps: std::borrow::Cow<'a, [i64]>,
    /// The row at each place, if they are not in order as they came.
    places: Option<Vec<u32>>,
}

impl<'a> Order<'a> {
    fn of(batch: &ImageBatch<'a>) -> Result<Order<'a>> {
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
        // Without a branch a row, since nearly all are inside.
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

    /// The partition of a place, and where the image that begins there ends.
    fn part_from(&self, start: usize, batch: &ImageBatch<'_>) -> (PartitionKey, usize) {
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
