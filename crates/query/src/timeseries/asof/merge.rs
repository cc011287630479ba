//! The merge algorithm of ASOF JOIN and LT JOIN.
//!
//! - Both sides come in by ascending time. Before a left row is joined, all right rows that are
//!   early enough for it are recorded, so that the last one recorded of its key is the match.
//! - Of the right side, only the last recorded row of each key is held, with at most as many others
//!   and `spare_rows`: beyond that, the needed rows are copied and the others dropped.
//! - A batch of the result has so few rows that it has at most `SLICE_BYTES` even if each has the
//!   widest texts and lists of the right side: a row is copied for each left row that it is joined
//!   with.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, interleave, interleave_record_batch};
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type, Schema, SchemaRef};
use datafusion::arrow::row::Rows;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;
use tidegate_model::limits::SLICE_BYTES;

use crate::operators::copied::widest_bytes;
use crate::timeseries::keys::KeyMaker;
use crate::timeseries::limit_from_end::bytes;

/// The approximate bytes of a key besides its own.
const KEY_BYTES: usize = 64;

/// The times of both sides, and the rules of their comparison.
#[derive(Debug)]
pub(super) struct Sides {
    /// The positions of the columns.
    pub(super) left_time: usize,
    pub(super) right_time: usize,
    /// The nanoseconds of their units.
    pub(super) left_unit_nanos: i128,
    pub(super) right_unit_nanos: i128,
    /// True if the right time must be before the left one.
    pub(super) is_strict: bool,
    /// The tolerance in nanoseconds.
    pub(super) tolerance: Option<i128>,
    /// The number of spare rows.
    pub(super) spare_rows: usize,
}

/// The keys of both sides: positions, and the type that each pair is compared in.
#[derive(Debug)]
pub(super) struct MergeKeys {
    pub(super) left: Vec<usize>,
    pub(super) right: Vec<usize>,
    pub(super) types: Vec<DataType>,
}

/// The columns of one side that the join reads.
struct SideColumns<'a> {
    /// The position of the times.
    time: usize,
    /// The nanoseconds of their unit.
    unit_nanos: i128,
    /// The time of a row without one.
    no_time: i128,
    /// The positions of the keys, and the types that they are compared in.
    keys: &'a [usize],
    key_types: &'a [DataType],
}

/// Rows of one side, with their times in nanoseconds and their keys.
struct SideRows {
    batch: RecordBatch,
    /// `i128::MIN` for a left row without a time, `i128::MAX` for a right one.
    times: Vec<i128>,
    /// `None` if there are no keys.
    keys: Option<Rows>,
    /// The validity of the keys; a NULL among them makes a row invalid.
    has_null: Option<NullBuffer>,
    row: usize,
}

impl SideRows {
    /// Returns the key of a row; `None` if a part of it is NULL.
    fn key(&self, row: usize) -> Option<&[u8]> {
        if self.has_null.as_ref().is_some_and(|valid| valid.is_null(row)) {
            return None;
        }
        Some(self.keys.as_ref().map_or(&[], |keys| keys.row(row).data()))
    }
}

/// A right row: the index of its batch in `held`, its row there, and its time.
#[derive(Debug, Clone, Copy)]
struct Noted {
    batch: usize,
    row: usize,
    time: i128,
}

/// The state of one stream.
pub(super) struct Merge {
    left: SendableRecordBatchStream,
    /// The right input; `None` when it has ended.
    right: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    join: Arc<(Sides, MergeKeys)>,
    maker: Option<KeyMaker>,
    left_rows: Option<SideRows>,
    right_rows: Option<SideRows>,
    /// The batches of the right side with rows recorded last; the first is one row of NULLs.
    held: Vec<RecordBatch>,
    held_rows: usize,
    last: HashMap<Box<[u8]>, Noted>,
    /// For the left rows that are joined and not yet returned: batch and row of the right side.
    places: Vec<(usize, usize)>,
    key_bytes: usize,
    /// The bytes of the widest row of the right side.
    widest: u64,
    memory: MemoryReservation,
}

impl Merge {
    pub(super) fn new(
        left: SendableRecordBatchStream,
        right: SendableRecordBatchStream,
        schema: SchemaRef,
        join: Arc<(Sides, MergeKeys)>,
        memory: MemoryReservation,
    ) -> Result<Merge> {
        let maker = match join.1.types.is_empty() {
            true => None,
            false => Some(KeyMaker::new(join.1.types.iter().cloned())?),
        };
        let right_schema = right.schema();
        let null = |field: &FieldRef| new_null_array(field.data_type(), 1);
        let nulls = right_schema.fields().iter().map(null).collect::<Vec<_>>();
        let nullable =
            right_schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let nullable = Schema::new(nullable.collect::<Vec<_>>());
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let nulls = RecordBatch::try_new_with_options(Arc::new(nullable), nulls, &options)?;
        Ok(Merge {
            left,
            right: Some(right),
            schema,
            join,
            maker,
            left_rows: None,
            right_rows: None,
            held: vec![nulls],
            held_rows: 0,
            last: HashMap::new(),
            places: Vec::new(),
            key_bytes: 0,
            widest: 1,
            memory,
        })
    }

    /// Returns the next rows of the result (asof-1).
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left_rows.is_none() {
                let Some(batch) = self.left.next().await.transpose()? else { return Ok(None) };
                let (sides, keys) = self.join.as_ref();
                let columns = SideColumns {
                    time: sides.left_time,
                    unit_nanos: sides.left_unit_nanos,
                    no_time: i128::MIN,
                    keys: &keys.left,
                    key_types: &keys.types,
                };
                self.left_rows = Some(side_rows(self.maker.as_ref(), batch, &columns)?);
            }
            self.advance().await?;
            let joined = self.give_out()?;
            if self.is_full() {
                self.compact()?;
            }
            if joined.is_some() {
                return Ok(joined);
            }
        }
    }

    /// Finds the right rows of left ones, until the left batch ends or too much is held.
    async fn advance(&mut self) -> Result<()> {
        let Some(mut left) = self.left_rows.take() else { return Ok(()) };
        let is_strict = self.join.0.is_strict;
        while left.row < left.batch.num_rows() && self.has_room() {
            let time = left.times[left.row];
            // Times are whole nanoseconds: before a time is the same as at or before one earlier.
            let until = if is_strict { time.saturating_sub(1) } else { time };
            if !self.note_until(until).await? {
                break;
            }
            let key = left.key(left.row).filter(|_| time != i128::MIN);
            let noted = key.and_then(|key| self.last.get(key));
            let tolerance = self.join.0.tolerance;
            let is_near = |noted: &&Noted| tolerance.is_none_or(|most| time - noted.time <= most);
            let place = noted.filter(is_near).map_or((0, 0), |noted| (noted.batch, noted.row));
            self.places.push(place);
            left.row += 1;
        }
        self.left_rows = Some(left);
        Ok(())
    }

    /// Records the right rows up to a time. Returns false if too much is held for it; the next call
    /// continues there.
    async fn note_until(&mut self, until: i128) -> Result<bool> {
        loop {
            if let Some(rows) = &mut self.right_rows {
                while rows.row < rows.times.len() && rows.times[rows.row] <= until {
                    let time = rows.times[rows.row];
                    let noted = Noted { batch: self.held.len() - 1, row: rows.row, time };
                    if let Some(key) = rows.key(rows.row) {
                        match self.last.get_mut(key) {
                            Some(last) => *last = noted,
                            None => {
                                self.memory.try_grow(key.len() + KEY_BYTES)?;
                                self.key_bytes += key.len() + KEY_BYTES;
                                self.last.insert(key.into(), noted);
                            }
                        }
                    }
                    rows.row += 1;
                }
                if rows.row < rows.times.len() {
                    return Ok(true);
                }
                self.right_rows = None;
                if self.is_full() {
                    return Ok(false);
                }
            }
            let Some(right) = &mut self.right else { return Ok(true) };
            let Some(batch) = right.next().await.transpose()? else {
                self.right = None;
                return Ok(true);
            };
            self.memory.try_grow(bytes(&batch))?;
            let widest = batch.columns().iter().map(|column| widest_bytes(column.as_ref()));
            self.widest = self.widest.max(widest.fold(1, u64::saturating_add));
            self.held_rows += batch.num_rows();
            self.held.push(batch.clone());
            let (sides, keys) = self.join.as_ref();
            let columns = SideColumns {
                time: sides.right_time,
                unit_nanos: sides.right_unit_nanos,
                no_time: i128::MAX,
                keys: &keys.right,
                key_types: &keys.types,
            };
            self.right_rows = Some(side_rows(self.maker.as_ref(), batch, &columns)?);
        }
    }

    /// Returns the joined left rows, with their right rows.
    fn give_out(&mut self) -> Result<Option<RecordBatch>> {
        let places = std::mem::take(&mut self.places);
        let Some(left) = &self.left_rows else { return Ok(None) };
        let (end, count) = (left.row, places.len());
        let rows = left.batch.slice(end - count, count);
        if end == left.batch.num_rows() {
            self.left_rows = None;
        }
        if count == 0 {
            return Ok(None);
        }
        let mut columns = rows.columns().to_vec();
        for at in 0..self.held[0].num_columns() {
            let sources = self.held.iter().map(|batch| batch.column(at).as_ref());
            columns.push(interleave(&sources.collect::<Vec<_>>(), &places)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.schema);
        Ok(Some(RecordBatch::try_new_with_options(schema, columns, &options)?))
    }

    /// Returns true if one more row is joined before rows are returned.
    fn has_room(&self) -> bool {
        (self.places.len() as u64).saturating_mul(self.widest) < SLICE_BYTES
    }

    fn is_full(&self) -> bool {
        self.join.0.spare_rows + 2 * self.last.len() < self.held_rows
    }

    /// Drops the right rows that are not needed any more. The current right batch stays, because
    /// more rows of it will be recorded.
    fn compact(&mut self) -> Result<()> {
        let current = self.right_rows.as_ref().map(|_| self.held.len() - 1);
        let mut places = Vec::new();
        for noted in self.last.values_mut() {
            if Some(noted.batch) == current {
                // The current batch comes behind the copy.
                noted.batch = 2;
            } else {
                places.push((noted.batch, noted.row));
                *noted = Noted { batch: 1, row: places.len() - 1, time: noted.time };
            }
        }
        let sources = self.held.iter().collect::<Vec<_>>();
        let copy = interleave_record_batch(&sources, &places)?;
        let current = current.map(|at| self.held[at].clone());
        self.held.truncate(1);
        self.held.push(copy);
        self.held.extend(current);
        self.held_rows = self.held[1..].iter().map(RecordBatch::num_rows).sum();
        let held_bytes = self.held.iter().map(bytes).sum::<usize>();
        self.memory.try_resize(held_bytes + self.key_bytes)?;
        Ok(())
    }
}

/// Returns a batch with its times and keys.
fn side_rows(
    maker: Option<&KeyMaker>,
    batch: RecordBatch,
    columns: &SideColumns<'_>,
) -> Result<SideRows> {
    let &SideColumns { time, unit_nanos, no_time, keys, key_types } = columns;
    let counts = cast(batch.column(time), &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>();
    let nanos = |count: Option<i64>| count.map_or(no_time, |count| i128::from(count) * unit_nanos);
    let times = counts.iter().map(nanos).collect();
    let columns = keys.iter().zip(key_types).map(|(&at, ty)| cast(batch.column(at), ty));
    let columns = columns.collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
    let has_null = columns.iter().fold(None, |valid, column| {
        NullBuffer::union(valid.as_ref(), column.logical_nulls().as_ref())
    });
    let keys = maker.map(|maker| maker.keys(&columns)).transpose()?;
    Ok(SideRows { batch, times, keys, has_null, row: 0 })
}
