//! Joins and UNNEST, which copy rows: the bytes of the copies of one batch are bounded before they
//! are made.
//!
//! A join has the values of a row once for each row that it is joined with, and UNNEST once for
//! each element; of lists and of texts that are no views they are copies, made in one step that
//! nothing interrupts. A list of 200,000 texts beside a batch of rows was 26 GB.
//!
//! - copied-1. A join fails before it makes a batch in which such values of its inputs could take
//!   more than `VALUES_BYTES`: the widest rows that it has seen, as often as a batch has rows, or
//!   as there are pairs of rows if these are fewer.
//! - copied-2. UNNEST gets rows of which it makes `SLICE_BYTES` at a time, and fails at a row of
//!   which it would make more than `VALUES_BYTES`.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, SchemaRef};
use datafusion::common::{JoinType, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::unnest::UnnestExec;
use futures::{Stream, StreamExt};
use tidegate_model::limits::{SLICE_BYTES, VALUES_BYTES};

use crate::error::ClauseProblem;
use crate::operators::unary::{Unary, unary};

/// The beginning is the name of cancel checks, which are not shown.
const NAME: &str = "CancelCheckExec (copied)";

/// The bytes that a copy of a number, or of the view of a text, takes.
const VIEW_BYTES: u64 = 16;

/// Rows that are not looked at one by one: so many bytes of them do no harm in any batch.
pub(crate) const NARROW_BYTES: u64 = 4 << 10;

/// The operator, whose inputs are measured if it copies their rows (copied-1, copied-2).
pub(crate) fn with_bounded_copies(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let is_join = plan.is::<CrossJoinExec>() || join_type(plan.as_ref()).is_some_and(has_pairs);
    let unnested = plan.downcast_ref::<UnnestExec>().map(|unnest| {
        unnest.list_column_indices().iter().map(|list| list.index_in_input_schema).collect()
    });
    let Some(copier) = unnested.map(Copier::Unnest).or(is_join.then(Copier::join)) else {
        return Ok(plan);
    };
    let has_copied = |input: &Arc<dyn ExecutionPlan>| {
        input.schema().fields().iter().any(|field| is_copied(field.data_type()))
    };
    if !plan.children().into_iter().any(has_copied) {
        return Ok(plan);
    }
    let copier = Arc::new(copier);
    let measured = |(side, input): (usize, &Arc<dyn ExecutionPlan>)| {
        unary(Arc::clone(input), Measured { side, copier: Arc::clone(&copier) })
    };
    let children = plan.children().into_iter().enumerate().map(measured).collect();
    replace_children_if_necessary(plan, children)
}

fn join_type(plan: &dyn ExecutionPlan) -> Option<JoinType> {
    let hash = plan.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let nested = plan.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type());
    let merge = plan.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type);
    hash.or(nested).or(merge)
}

/// True for joins that have a row as often as it is joined: others have each row once.
fn has_pairs(join: JoinType) -> bool {
    matches!(join, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
}

/// True for types whose values are copied with their rows.
fn is_copied(of: &DataType) -> bool {
    match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => true,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => true,
        DataType::Map(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| is_copied(field.data_type())),
        _ => false,
    }
}

/// The bytes of a copy of an array.
fn copied_bytes(values: &dyn Array) -> u64 {
    let rows = values.len() as u64;
    let own = rows.saturating_mul(VIEW_BYTES);
    let more = match values.data_type() {
        DataType::Struct(_) => {
            let columns = values.as_struct().columns().iter();
            columns.map(|column| copied_bytes(column.as_ref())).fold(0, u64::saturating_add)
        }
        of if is_copied(of) => inside(values, 0, values.len()),
        _ => 0,
    };
    own.saturating_add(more)
}

/// The bytes of the texts, or of the elements, of some rows of an array.
fn inside(values: &dyn Array, start: usize, end: usize) -> u64 {
    let (small, large) = match values.data_type() {
        DataType::Utf8 => (Some(values.as_string::<i32>().value_offsets()), None),
        DataType::Binary => (Some(values.as_binary::<i32>().value_offsets()), None),
        DataType::LargeUtf8 => (None, Some(values.as_string::<i64>().value_offsets())),
        DataType::LargeBinary => (None, Some(values.as_binary::<i64>().value_offsets())),
        DataType::List(_) => (Some(values.as_list::<i32>().value_offsets()), None),
        DataType::LargeList(_) => (None, Some(values.as_list::<i64>().value_offsets())),
        DataType::Map(..) => (Some(values.as_map().value_offsets()), None),
        _ => (None, None),
    };
    let place = |row: usize| match (small, large) {
        (Some(offsets), _) => usize::try_from(offsets[row]).unwrap_or(0),
        (_, Some(offsets)) => usize::try_from(offsets[row]).unwrap_or(0),
        (None, None) => row,
    };
    let (first, last) = (place(start), place(end));
    let elements = |elements: &dyn Array, first: usize, last: usize| {
        copied_bytes(elements.slice(first, last - first).as_ref())
    };
    match values.data_type() {
        DataType::List(_) => elements(values.as_list::<i32>().values().as_ref(), first, last),
        DataType::LargeList(_) => elements(values.as_list::<i64>().values().as_ref(), first, last),
        DataType::Map(..) => elements(values.as_map().entries(), first, last),
        DataType::FixedSizeList(_, count) => {
            let count = usize::try_from(*count).unwrap_or(0);
            let list = values.as_fixed_size_list();
            elements(list.values().as_ref(), start * count, end * count)
        }
        _ => (last - first) as u64,
    }
}

/// The bytes of a copy of one row.
fn row_bytes(values: &dyn Array, row: usize) -> u64 {
    match values.data_type() {
        DataType::Struct(_) => {
            let columns = values.as_struct().columns().iter();
            columns.map(|column| row_bytes(column.as_ref(), row)).fold(0, u64::saturating_add)
        }
        of if is_copied(of) => inside(values, row, row + 1).saturating_add(VIEW_BYTES),
        _ => VIEW_BYTES,
    }
}

/// The bytes of a copy of the widest row, or more where no row is wide.
pub(crate) fn widest_bytes(values: &dyn Array) -> u64 {
    fn longest<T: ArrowNativeType>(offsets: &[T]) -> u64 {
        let lengths = offsets.windows(2).map(|ends| ends[1].as_usize() - ends[0].as_usize());
        (lengths.max().unwrap_or(0) as u64).saturating_add(VIEW_BYTES)
    }
    match values.data_type() {
        DataType::Utf8 => longest(values.as_string::<i32>().value_offsets()),
        DataType::Binary => longest(values.as_binary::<i32>().value_offsets()),
        DataType::LargeUtf8 => longest(values.as_string::<i64>().value_offsets()),
        DataType::LargeBinary => longest(values.as_binary::<i64>().value_offsets()),
        _ => {
            let all = copied_bytes(values);
            match all <= NARROW_BYTES {
                true => all,
                false => (0..values.len()).map(|row| row_bytes(values, row)).max().unwrap_or(0),
            }
        }
    }
}

/// The columns of a batch that are copied.
fn copied_columns(batch: &RecordBatch) -> impl Iterator<Item = &dyn Array> {
    batch.columns().iter().map(AsRef::as_ref).filter(|column| is_copied(column.data_type()))
}

fn row_of_batch_bytes(batch: &RecordBatch, row: usize) -> u64 {
    copied_columns(batch).map(|column| row_bytes(column, row)).fold(0, u64::saturating_add)
}

/// An operator that copies rows.
#[derive(Debug)]
enum Copier {
    Join(Sides),
    /// UNNEST of these columns.
    Unnest(Vec<usize>),
}

/// The sizes of the inputs of a join so far.
#[derive(Debug, Default)]
struct Sides {
    rows: [AtomicU64; 2],
    /// The bytes of the widest row.
    widest: [AtomicU64; 2],
}

impl Copier {
    fn join() -> Copier {
        Copier::Join(Sides::default())
    }
}

impl Sides {
    /// Measures the next batch of a side (copied-1).
    fn measure(&self, side: usize, batch: &RecordBatch, batch_rows: u64) -> Result<()> {
        let side = side.min(1);
        self.rows[side].fetch_add(batch.num_rows() as u64, Relaxed);
        let widest = copied_columns(batch).map(widest_bytes).fold(0, u64::saturating_add);
        self.widest[side].fetch_max(widest, Relaxed);
        let of = |counts: &[AtomicU64; 2]| [0, 1].map(|side| counts[side].load(Relaxed));
        let [left, right] = of(&self.rows).map(|rows| rows.max(1));
        let pairs = left.saturating_mul(right).min(batch_rows);
        let bytes = of(&self.widest).into_iter().fold(0, u64::saturating_add);
        match pairs.saturating_mul(bytes) <= VALUES_BYTES {
            true => Ok(()),
            false => too_large("JOIN"),
        }
    }
}

pub(crate) fn too_large<T>(operator: &str) -> Result<T> {
    let (function, mebibytes) = (operator.to_owned(), VALUES_BYTES >> 20);
    Err(ClauseProblem::ValuesTooLarge { function, mebibytes }.into())
}

/// The number of elements of a list of a row, at most.
fn elements(values: &dyn Array, row: usize) -> u64 {
    match values.data_type() {
        DataType::List(_) => values.as_list::<i32>().value_length(row).unsigned_abs().into(),
        DataType::LargeList(_) => values.as_list::<i64>().value_length(row).unsigned_abs(),
        DataType::FixedSizeList(_, count) => count.unsigned_abs().into(),
        _ => 1,
    }
}

/// The rows of a batch from one on that UNNEST may have at a time (copied-2).
fn unnested_rows(batch: &RecordBatch, lists: &[usize], start: usize) -> Result<usize> {
    let mut bytes = 0_u64;
    for row in start..batch.num_rows() {
        let copies = lists.iter().map(|&list| elements(batch.column(list).as_ref(), row));
        let made = copies.max().unwrap_or(1).saturating_mul(row_of_batch_bytes(batch, row));
        if VALUES_BYTES < made {
            return too_large("UNNEST");
        }
        bytes = bytes.saturating_add(made);
        if SLICE_BYTES < bytes && start < row {
            return Ok(row - start);
        }
    }
    Ok(batch.num_rows() - start)
}

/// An input of an operator that copies rows.
#[derive(Debug)]
struct Measured {
    side: usize,
    copier: Arc<Copier>,
}

impl Unary for Measured {
    const NAME: &'static str = NAME;

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size() as u64;
        let input = input.execute(partition, context)?;
        let (side, copier) = (self.side, Arc::clone(&self.copier));
        Ok(Box::pin(MeasuredInput { input, side, copier, batch_rows, rest: None }))
    }
}

/// The batches of a [`Measured`].
struct MeasuredInput {
    input: SendableRecordBatchStream,
    side: usize,
    copier: Arc<Copier>,
    batch_rows: u64,
    /// The rest of a batch for UNNEST.
    rest: Option<RecordBatch>,
}

impl MeasuredInput {
    fn measure(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let copier = Arc::clone(&self.copier);
        match copier.as_ref() {
            Copier::Join(sides) => {
                sides.measure(self.side, &batch, self.batch_rows.max(batch.num_rows() as u64))?;
                Ok(batch)
            }
            Copier::Unnest(lists) => {
                let rows = unnested_rows(&batch, lists, 0)?;
                let left = batch.num_rows() - rows;
                self.rest = (0 < left).then(|| batch.slice(rows, left));
                Ok(if 0 < left { batch.slice(0, rows) } else { batch })
            }
        }
    }
}

impl Stream for MeasuredInput {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        let batch = match self.rest.take() {
            Some(rest) => Some(Ok(rest)),
            None => ready!(self.input.poll_next_unpin(context)),
        };
        Poll::Ready(batch.map(|batch| batch.and_then(|batch| self.measure(batch))))
    }
}

impl RecordBatchStream for MeasuredInput {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        ArrayRef, Int64Array, LargeStringArray, ListArray, StringArray, StringViewArray,
        StructArray,
    };
    use datafusion::arrow::datatypes::Int64Type;

    use super::*;

    fn lists(lengths: &[usize]) -> ArrayRef {
        let rows = lengths.iter().map(|&length| Some(vec![Some(1_i64); length]));
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows))
    }

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let named = columns.into_iter().enumerate();
        RecordBatch::try_from_iter(named.map(|(at, column)| (format!("c{at}"), column))).unwrap()
    }

    #[test]
    fn row_bytes_are_at_most_the_bytes_of_a_copy() {
        let text = "x".repeat(1_000);
        let columns: [(ArrayRef, u64); 6] = [
            (Arc::new(Int64Array::from(vec![1])), 16),
            (Arc::new(StringViewArray::from(vec![text.as_str()])), 16),
            (Arc::new(StringArray::from(vec![text.as_str()])), 1_016),
            (Arc::new(LargeStringArray::from(vec![text.as_str()])), 1_016),
            (lists(&[100]), 1_616),
            (Arc::new(StructArray::from(batch(vec![lists(&[100]), lists(&[1])]))), 1_648),
        ];
        for (column, expected) in columns {
            assert_eq!(row_bytes(column.as_ref(), 0), expected, "{:?}", column.data_type());
            assert!(expected <= copied_bytes(column.as_ref()));
            assert!(expected <= widest_bytes(column.as_ref()));
        }
        // A part of an array has its own rows only.
        let part = lists(&[5_000, 10, 20]).slice(1, 2);
        assert_eq!(row_bytes(part.as_ref(), 0), 176);
        assert_eq!(row_bytes(part.as_ref(), 1), 336);
    }

    /// `SELECT .. FROM (SELECT array_agg(s) x FROM ..) a, t WHERE array_position(x, ..) > 0` took
    /// memory until the kernel ended the process, a minute after its timeout.
    #[test]
    fn a_join_makes_no_batch_of_more_than_its_bound() {
        let wide = batch(vec![lists(&[100_000])]);
        let narrow = batch(vec![lists(&[10; 1_000])]);
        let joined = |batches: &[(usize, &RecordBatch)]| {
            let sides = Sides::default();
            batches.iter().try_for_each(|&(side, batch)| sides.measure(side, batch, 8_192))
        };
        joined(&[(0, &wide), (1, &wide)]).expect("one row of each");
        joined(&[(0, &narrow), (1, &narrow)]).expect("narrow rows");
        let error = joined(&[(0, &wide), (1, &narrow)]).expect_err("copied-1").to_string();
        assert!(error.contains("`JOIN` would make more than 512 MiB"), "{error}");
        joined(&[(1, &narrow), (0, &wide)]).expect_err("copied-1: on either side");
        joined(&[(0, &narrow), (1, &narrow), (0, &wide)]).expect_err("copied-1: later");
    }

    #[test]
    fn unnest_has_few_rows_at_a_time_that_it_copies_often() {
        let of = |lengths: &[usize]| {
            let batch = batch(vec![lists(lengths), lists(lengths)]);
            let (mut rows, mut start) = (Vec::new(), 0);
            while start < batch.num_rows() {
                let next = unnested_rows(&batch, &[0], start)?;
                rows.push(next);
                start += next;
            }
            Ok::<_, datafusion::common::DataFusionError>(rows)
        };
        assert_eq!(of(&[10; 1_000]).unwrap(), [1_000], "copied-2");
        assert_eq!(of(&[700, 700, 10, 10]).unwrap(), [1, 3], "copied-2");
        let error = of(&[10, 10_000]).expect_err("copied-2").to_string();
        assert!(error.contains("`UNNEST` would make more than 512 MiB"), "{error}");
    }
}
