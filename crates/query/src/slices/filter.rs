//! Filters of wide rows, which return the rows that they keep before these take much memory.
//!
//! - filter-1. DataFusion's filter collects the rows that it keeps until they fill a batch, and
//!   charges no memory for them, even if they are 8,192 texts of a megabyte. So it gets its input
//!   in parts of `SLICE_BYTES`, each as if it was the whole input, and returns the kept rows of
//!   each part.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use futures::{Stream, StreamExt};
use tidegate_model::limits::SLICE_BYTES;

use crate::operators::unary::{Unary, unary};
use crate::value_bytes::bytes_of_rows;

/// The name begins with that of cancel checks, so that EXPLAIN ANALYZE leaves the operator out.
const NAME: &str = "CancelCheckExec (filter)";

/// The operator, which gets its input in parts if it is a filter of wide rows (filter-1).
pub(super) fn parted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(plan) };
    let is_wide = |ty: &DataType| ty.is_string() || ty.is_binary() || ty.is_nested();
    if !plan.schema().fields().iter().any(|field| is_wide(field.data_type())) {
        return Ok(plan);
    }
    let (fetch, input) = (filter.fetch(), Arc::clone(filter.input()));
    let inputs = Arc::new(Inputs::default());
    let part = unary(input, PartExec { inputs: Arc::clone(&inputs) });
    let filter = replace_children_if_necessary(plan, vec![part])?;
    Ok(unary(filter, PartsExec { inputs, fetch }))
}

/// The inputs of the filter's streams, by the number of the stream.
#[derive(Default)]
struct Inputs(Mutex<HashMap<usize, Shared>>);

type Shared = Arc<Mutex<Input>>;

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inputs")
    }
}

/// The input of a stream, which is there from its first part to its last.
#[derive(Default)]
struct Input {
    stream: Option<SendableRecordBatchStream>,
    /// Set when the last part was read.
    is_over: bool,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A filter that works on one part of its input after the other.
#[derive(Debug)]
struct PartsExec {
    inputs: Arc<Inputs>,
    /// The maximal number of rows that the filter returns.
    fetch: Option<usize>,
}

/// The input of such a filter.
#[derive(Debug)]
struct PartExec {
    inputs: Arc<Inputs>,
}

impl Unary for PartsExec {
    const NAME: &'static str = NAME;

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let shared = Shared::default();
        lock(&self.inputs.0).insert(partition, Arc::clone(&shared));
        let part = input.execute(partition, Arc::clone(&context))?;
        let (filter, left) = (Arc::clone(input), self.fetch.unwrap_or(usize::MAX));
        Ok(Box::pin(Parts { part, filter, input: shared, of: (partition, context), left }))
    }
}

impl Unary for PartExec {
    const NAME: &'static str = NAME;

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(shared) = lock(&self.inputs.0).get(&partition).cloned() else {
            return internal_err!("the filter of {NAME} is executed first");
        };
        if lock(&shared).stream.is_none() {
            let stream = input.execute(partition, context)?;
            lock(&shared).stream = Some(stream);
        }
        Ok(Box::pin(Part { schema: input.schema(), input: shared, left: SLICE_BYTES }))
    }
}

/// The rows of a [`PartsExec`].
struct Parts {
    part: SendableRecordBatchStream,
    filter: Arc<dyn ExecutionPlan>,
    input: Shared,
    /// The number of the stream, and its task context.
    of: (usize, Arc<TaskContext>),
    /// The number of rows that may still come.
    left: usize,
}

impl Stream for Parts {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        while 0 < self.left {
            match ready!(self.part.poll_next_unpin(context)) {
                Some(Ok(batch)) => {
                    let rows = batch.num_rows().min(self.left);
                    self.left -= rows;
                    let batch = if rows < batch.num_rows() { batch.slice(0, rows) } else { batch };
                    return Poll::Ready(Some(Ok(batch)));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if lock(&self.input).is_over => break,
                None => {
                    let (partition, context) = &self.of;
                    self.part = self.filter.execute(*partition, Arc::clone(context))?;
                }
            }
        }
        // What is below ends now.
        lock(&self.input).stream = None;
        lock(&self.input).is_over = true;
        self.left = 0;
        Poll::Ready(None)
    }
}

impl RecordBatchStream for Parts {
    fn schema(&self) -> SchemaRef {
        self.part.schema()
    }
}

/// One part of the rows of a [`PartExec`].
struct Part {
    schema: SchemaRef,
    input: Shared,
    /// The number of bytes that it may still have.
    left: u64,
}

impl Stream for Part {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut input = lock(&self.input);
        let polled = match input.stream.as_mut() {
            Some(stream) => ready!(stream.poll_next_unpin(context)),
            None => None,
        };
        if !matches!(polled, Some(Ok(_))) {
            input.is_over = true;
        }
        drop(input);
        if let Some(Ok(batch)) = &polled {
            self.left = self.left.saturating_sub(bytes_of_rows(batch));
        }
        Poll::Ready(polled)
    }
}

impl RecordBatchStream for Part {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
    use datafusion::physical_plan::collect;
    use futures::executor::block_on;

    use super::*;
    use crate::value_bytes::bytes_of;

    const ROWS: i64 = 100;
    const TEXT_BYTES: usize = 1 << 20;

    /// Rows of a number and a text, of which those below a number are left.
    fn filtered(below: i64, text_bytes: usize, fetch: Option<usize>) -> Vec<RecordBatch> {
        let batch = |row: i64| {
            let numbers = Arc::new(Int64Array::from(vec![row]));
            let texts = Arc::new(StringArray::from(vec!["x".repeat(text_bytes)]));
            RecordBatch::try_from_iter([("n", numbers as _), ("text", texts as _)]).unwrap()
        };
        let batches = (0..ROWS).map(batch).collect::<Vec<_>>();
        let schema = batches[0].schema();
        let input = MemorySourceConfig::try_new_exec(&[batches], schema, None).unwrap();
        let literal = Arc::new(Literal::new(ScalarValue::Int64(Some(below))));
        let number = Arc::new(Column::new("n", 0));
        let condition = Arc::new(BinaryExpr::new(number, Operator::Lt, literal));
        let filter = FilterExec::try_new(condition, input).unwrap();
        let filter = filter.with_fetch(fetch).unwrap();
        let plan = parted(filter).unwrap();
        assert_eq!(plan.name(), NAME);
        block_on(collect(plan, Arc::new(TaskContext::default()))).unwrap()
    }

    #[track_caller]
    fn check(batches: &[RecordBatch], rows: usize) {
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
        let numbers = batches.iter().flat_map(|batch| {
            let numbers = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            numbers.values().iter().copied().collect::<Vec<_>>()
        });
        assert_eq!(numbers.collect::<Vec<_>>(), (0..).take(rows).collect::<Vec<_>>());
    }

    /// A filter over a table of documents held 8,192 of them, and charged nothing.
    #[test]
    fn a_filter_gathers_no_more_than_its_bound() {
        let batches = filtered(80, TEXT_BYTES, None);
        check(&batches, 80);
        let most = batches.iter().map(|batch| bytes_of(batch.column(1).as_ref())).max();
        assert!(most.unwrap() <= SLICE_BYTES + 2 * TEXT_BYTES as u64, "filter-1: {most:?}");
        let small = filtered(80, 10, None);
        assert_eq!(small.len(), 1, "filter-1: narrow rows are gathered");
        check(&small, 80);
    }

    #[test]
    fn a_filter_gives_out_as_many_rows_as_are_asked_for() {
        for rows in [1, 17, 40] {
            check(&filtered(80, TEXT_BYTES, Some(rows)), rows);
        }
        check(&filtered(5, TEXT_BYTES, Some(40)), 5);
        check(&filtered(0, TEXT_BYTES, Some(40)), 0);
    }
}
