//! A merge of runs that overlap in time, a batch at a time.
//!
//! - merge-1. Rows come out by timestamp, and equal timestamps in the order of their runs; the
//!   reverse if the scan goes backward.
//! - At most one decoded batch of each run is held, besides those with rows of the batch being
//!   made; that one ends when the texts of those that are used up have as many bytes as a batch may
//!   have (text_memory-1).
//! - Batches are about as large as the number of rows that are wanted: the latest rows of many runs
//!   that overlap are found without decoding a whole batch of each.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::compute::interleave_record_batch;
use datafusion::arrow::datatypes::{
    DataType, Schema, TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::common::{Result, internal_err};

use crate::scan::read::text_memory::TextMemory;
use crate::scan::read::{ReadPlan, ReadRows, RowsReader, Step, TaskReader};
use crate::scan::task::{FrameRows, ScanOrder};
use crate::value_bytes::bytes_of;

/// The least rows that are decoded at a time, because each decoding of a column costs as much as
/// about so many rows of it.
const DECODED_ROWS_MIN: usize = 64;

/// The state of a merge of several runs.
pub(crate) struct Merge {
    /// The columns of the output.
    output: Arc<ReadPlan>,
    inputs: Vec<Input>,
    is_backward: bool,
    /// Batches with rows of the next batch.
    held: Vec<ReadRows>,
    /// The bytes of the texts of those of them that are used up.
    spent_bytes: u64,
    /// The rows of the next batch: index in `held`, and row.
    rows: Vec<(usize, usize)>,
}

/// One run.
struct Input {
    /// As the output, with the timestamp behind it.
    plan: Arc<ReadPlan>,
    /// The rows that are left to read, the next ones last.
    pending: Vec<FrameRows>,
    reader: Option<TaskReader>,
    head: Option<Head>,
}

/// The decoded batch of a run with its next row.
struct Head {
    read: ReadRows,
    timestamps: ScalarBuffer<i64>,
    row: usize,
    /// Its index in `held`, once a row of it was taken.
    held_at: Option<usize>,
}

impl Head {
    fn timestamp(&self) -> i64 {
        self.timestamps[self.row]
    }
}

impl Merge {
    /// Makes a merge of `inputs`, the runs in the order of equal timestamps.
    pub(crate) fn new(output: &Arc<ReadPlan>, inputs: Vec<Vec<FrameRows>>) -> Merge {
        let plan = Arc::new(with_timestamp(output));
        let input_of = |mut pending: Vec<FrameRows>| {
            pending.reverse();
            Input { plan: Arc::clone(&plan), pending, reader: None, head: None }
        };
        Merge {
            output: Arc::clone(output),
            inputs: inputs.into_iter().map(input_of).collect(),
            is_backward: output.order == ScanOrder::Backward,
            held: Vec::new(),
            spent_bytes: 0,
            rows: Vec::new(),
        }
    }

    /// Decodes one batch of a run that has none, or else takes rows until one of them is used up or
    /// a batch is full. Batches have about as many rows as are `wanted`, fewer if their texts are
    /// long.
    pub(crate) fn step(&mut self, wanted: usize, memory: &TextMemory) -> Result<Step> {
        let batch_rows = wanted.max(DECODED_ROWS_MIN).min(self.output.batch_rows);
        let of_run = memory.divided(self.inputs.len());
        for input in &mut self.inputs {
            if input.head.is_none() && input.has_more() {
                input.advance(batch_rows, &of_run)?;
                return Ok(Step::Nothing);
            }
        }
        while self.rows.len() < batch_rows && self.spent_bytes <= memory.bytes_max() {
            let Some(next) = self.next_input() else { break };
            let limit = batch_rows - self.rows.len();
            self.take_rows(next, limit);
            if self.inputs[next].head.is_none() && self.inputs[next].has_more() {
                return Ok(Step::Nothing);
            }
        }
        if self.rows.is_empty() { Ok(Step::End) } else { self.finish().map(Step::Batch) }
    }

    /// Returns true if a row of the run `a` comes before a row of the run `b` (merge-1).
    fn is_before(&self, a: (i64, usize), b: (i64, usize)) -> bool {
        if self.is_backward { a > b } else { a < b }
    }

    /// Returns the run whose next row comes first.
    fn next_input(&self) -> Option<usize> {
        let mut first: Option<(i64, usize)> = None;
        for (at, input) in self.inputs.iter().enumerate() {
            let Some(head) = &input.head else { continue };
            let candidate = (head.timestamp(), at);
            if first.is_none_or(|first| self.is_before(candidate, first)) {
                first = Some(candidate);
            }
        }
        first.map(|(_, at)| at)
    }

    /// Takes at most `limit` rows of a run: those before the next row of every other one.
    fn take_rows(&mut self, from: usize, limit: usize) {
        let mut bound: Option<(i64, usize)> = None;
        for (at, input) in self.inputs.iter().enumerate().filter(|&(at, _)| at != from) {
            let Some(head) = &input.head else { continue };
            let candidate = (head.timestamp(), at);
            if bound.is_none_or(|bound| self.is_before(candidate, bound)) {
                bound = Some(candidate);
            }
        }
        let head = self.inputs[from].head.as_ref().expect("the run has a next row");
        let end = head.timestamps.len().min(head.row + limit);
        let comes_first = |ts: &&i64| bound.is_none_or(|bound| self.is_before((**ts, from), bound));
        let count = head.timestamps[head.row..end].iter().take_while(comes_first).count();
        assert!(count > 0, "merge-1: the first of all rows comes before all others");
        let head = self.inputs[from].head.as_mut().expect("looked at above");
        let held_at = *head.held_at.get_or_insert_with(|| {
            self.held.push(head.read.clone());
            self.held.len() - 1
        });
        self.rows.extend((head.row..head.row + count).map(|row| (held_at, row)));
        head.row += count;
        if head.row == head.timestamps.len() {
            self.spent_bytes += text_bytes(&head.read.batch);
            self.inputs[from].head = None;
        }
    }

    /// Returns the rows taken so far as a batch.
    fn finish(&mut self) -> Result<ReadRows> {
        let batches = self.held.iter().map(|read| &read.batch).collect::<Vec<_>>();
        let merged = interleave_record_batch(&batches, &self.rows)?;
        let charges = self.held.drain(..).flat_map(|read| read.charges).collect();
        self.rows.clear();
        self.spent_bytes = 0;
        for input in &mut self.inputs {
            if let Some(head) = &mut input.head {
                head.held_at = None;
            }
        }
        // The timestamp behind the output's own columns is not needed any more.
        let columns = merged.columns()[..self.output.output.len()].to_vec();
        let batch = RecordBatch::try_new(Arc::clone(&self.output.schema), columns)?;
        Ok(ReadRows { batch, charges })
    }
}

impl Input {
    fn has_more(&self) -> bool {
        self.reader.is_some() || !self.pending.is_empty()
    }

    /// Decodes one more batch of at most about so many rows, which may be empty.
    fn advance(&mut self, rows: usize, memory: &TextMemory) -> Result<()> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => match self.pending.pop() {
                Some(rows) => TaskReader::Rows(RowsReader::new(Arc::clone(&self.plan), rows)),
                None => return Ok(()),
            },
        };
        match reader.step(rows, memory)? {
            Step::Batch(read) => {
                self.head = Some(head_of(read)?);
                self.reader = Some(reader);
            }
            Step::Nothing => self.reader = Some(reader),
            Step::End => {}
        }
        Ok(())
    }
}

/// The bytes of the texts of a batch.
fn text_bytes(batch: &RecordBatch) -> u64 {
    let is_text = |column: &&ArrayRef| {
        matches!(column.data_type(), DataType::Utf8View | DataType::BinaryView)
    };
    batch.columns().iter().filter(is_text).map(|column| bytes_of(column.as_ref())).sum()
}

fn head_of(read: ReadRows) -> Result<Head> {
    let column = read.batch.columns().last().expect("the timestamp is the last column");
    let timestamps = if column.as_any().is::<TimestampMicrosecondArray>() {
        column.as_primitive::<TimestampMicrosecondType>().values().clone()
    } else if column.as_any().is::<TimestampNanosecondArray>() {
        column.as_primitive::<TimestampNanosecondType>().values().clone()
    } else {
        return internal_err!("a designated timestamp is {}", column.data_type());
    };
    Ok(Head { read, timestamps, row: 0, held_at: None })
}

/// Returns the same plan with the designated timestamp behind the other columns.
fn with_timestamp(plan: &ReadPlan) -> ReadPlan {
    let schema = &plan.snapshot.schema;
    let designated = schema.designated().expect("only timestamps overlap");
    let position = schema.columns().iter().position(|column| column.id == designated);
    let position = position.expect("the schema has its designated timestamp");
    let mut fields = plan.schema.fields().to_vec();
    let field = tidegate_storage::segment::arrow_field(&schema.columns()[position]);
    // Names need not differ here: columns are found by position.
    fields.push(Arc::new(field));
    let mut output = plan.output.clone();
    output.push(position);
    ReadPlan { output, schema: Arc::new(Schema::new(fields)), ..plan.copy() }
}
