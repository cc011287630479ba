//! From rows of a segment to batches: decode what the filter needs, filter, decode the rest.
//!
//! - D1. A batch holds exactly the rows that pass all conjuncts and are not masked, in the order
//!   asked for.
//! - D2. No more than `BATCH_ROWS` rows are decoded at a time; whoever calls decides when to yield.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{
    and, filter_record_batch, prep_null_mask_filter, take_record_batch,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_expr::PhysicalExpr;
use tidegate_model::{Column, limits};
use tidegate_storage::{RowMask, SegmentRun, Snapshot};

use super::merge::Merge;
use super::task::{BATCH_ROWS, FrameRows, ScanOrder, ScanTask};
use crate::error::Error;

/// A condition and the columns it looks at.
#[derive(Debug, Clone)]
pub(crate) struct Conjunct {
    /// Over `schema`.
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    pub(crate) schema: SchemaRef,
    /// Positions in the table.
    pub(crate) columns: Vec<usize>,
}

/// What is read of each row, the same for all tasks of a scan.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) conjuncts: Vec<Conjunct>,
    /// Positions in the table of the columns of a batch.
    pub(crate) output: Vec<usize>,
    pub(crate) schema: SchemaRef,
    pub(crate) order: ScanOrder,
}

/// Reads the rows of a task, batch after batch.
pub(crate) enum TaskReader {
    Rows(RowsReader),
    Merge(Merge),
}

/// What a step of reading gave.
pub(crate) enum Step {
    /// Rows.
    Batch(RecordBatch),
    /// None of the rows looked at passed; there may be more.
    Nothing,
    /// No rows are left.
    End,
}

impl TaskReader {
    pub(crate) fn new(plan: &Arc<ReadPlan>, task: ScanTask) -> TaskReader {
        match task {
            ScanTask::Rows(rows) => TaskReader::Rows(RowsReader::new(Arc::clone(plan), rows)),
            ScanTask::Merge(inputs) => TaskReader::Merge(Merge::new(plan, inputs)),
        }
    }

    /// Decodes and filters at most `BATCH_ROWS` rows (D2).
    pub(crate) fn step(&mut self) -> Result<Step> {
        match self {
            TaskReader::Rows(reader) => reader.step(),
            TaskReader::Merge(merge) => merge.step(),
        }
    }
}

/// Reads rows of one page frame.
pub(crate) struct RowsReader {
    plan: Arc<ReadPlan>,
    task: FrameRows,
}

impl RowsReader {
    pub(crate) fn new(plan: Arc<ReadPlan>, task: FrameRows) -> RowsReader {
        RowsReader { plan, task }
    }

    fn step(&mut self) -> Result<Step> {
        let rows = &mut self.task.rows;
        if rows.start == rows.end {
            return Ok(Step::End);
        }
        let taken = if self.plan.order == ScanOrder::Backward {
            let start = rows.end.saturating_sub(BATCH_ROWS).max(rows.start);
            let taken = start..rows.end;
            rows.end = start;
            taken
        } else {
            let end = (rows.start + BATCH_ROWS).min(rows.end);
            let taken = rows.start..end;
            rows.start = end;
            taken
        };
        let read = self.plan.read(&self.task.segment, self.task.frame, taken)?;
        Ok(read.map_or(Step::Nothing, Step::Batch))
    }
}

impl ReadPlan {
    fn column(&self, position: usize) -> &Column {
        &self.snapshot.schema.columns()[position]
    }

    /// The rows of a page frame that pass; `None` if there are none.
    fn read(
        &self,
        segment: &SegmentRun,
        frame: u64,
        rows: Range<usize>,
    ) -> Result<Option<RecordBatch>> {
        let mut decoded = Decoded { plan: self, segment, frame, rows, arrays: Vec::new() };
        let Some(selection) = decoded.selection()? else { return Ok(None) };
        let batch = decoded.batch(&self.output, &self.schema)?;
        let batch = match selection {
            Selection::All => batch,
            Selection::Some(mask) => filter_record_batch(&batch, &mask)?,
        };
        Ok(Some(match self.order {
            ScanOrder::Backward => reversed(&batch)?,
            ScanOrder::Any | ScanOrder::Forward => batch,
        }))
    }
}

/// The rows in the opposite order.
pub(crate) fn reversed(batch: &RecordBatch) -> Result<RecordBatch> {
    if batch.num_columns() == 0 || batch.num_rows() < 2 {
        return Ok(batch.clone());
    }
    let indices = (0..batch.num_rows() as u64).rev().collect::<UInt64Array>();
    Ok(take_record_batch(batch, &indices)?)
}

/// Which of the decoded rows pass.
enum Selection {
    All,
    Some(BooleanArray),
}

/// Some rows, and what of them is decoded so far.
struct Decoded<'a> {
    plan: &'a ReadPlan,
    segment: &'a SegmentRun,
    frame: u64,
    rows: Range<usize>,
    arrays: Vec<(usize, ArrayRef)>,
}

impl Decoded<'_> {
    /// The rows that are there and pass every conjunct; `None` if there are none. A conjunct whose
    /// rows have all failed before is not looked at, and its columns not decoded.
    fn selection(&mut self) -> Result<Option<Selection>> {
        let mut selected = self.segment.mask.as_deref().and_then(|mask| self.live(mask));
        for conjunct in &self.plan.conjuncts {
            if selected.as_ref().is_some_and(|selected| !selected.has_true()) {
                return Ok(None);
            }
            let batch = self.batch(&conjunct.columns, &conjunct.schema)?;
            let value = conjunct.expr.evaluate(&batch)?.into_array(self.rows.len())?;
            let passes = as_boolean_array(&value)?;
            let passes = match passes.null_count() {
                0 => passes.clone(),
                _ => prep_null_mask_filter(passes),
            };
            selected = Some(match selected {
                Some(before) => and(&before, &passes)?,
                None => passes,
            });
        }
        Ok(match selected {
            None => Some(Selection::All),
            Some(mask) if !mask.has_true() => None,
            Some(mask) if !mask.has_false() => Some(Selection::All),
            Some(mask) => Some(Selection::Some(mask)),
        })
    }

    /// Which rows are not masked; `None` if all are there.
    fn live(&self, mask: &RowMask) -> Option<BooleanArray> {
        let first = self.frame * limits::FRAME_ROWS.0;
        let is_live = |at: usize| mask.is_live(first + (self.rows.start + at) as u64);
        let bits = BooleanBuffer::collect_bool(self.rows.len(), is_live);
        (bits.count_set_bits() < self.rows.len()).then(|| BooleanArray::new(bits, None))
    }

    /// A batch of these columns, decoded where they are not yet.
    fn batch(&mut self, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(columns.len());
        for &at in columns {
            let found = self.arrays.iter().find(|(decoded, _)| *decoded == at);
            arrays.push(match found {
                Some((_, array)) => Arc::clone(array),
                None => {
                    let array = self.decode(at).map_err(Error::Storage)?;
                    self.arrays.push((at, Arc::clone(&array)));
                    array
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
    }

    fn decode(&self, at: usize) -> tidegate_storage::Result<ArrayRef> {
        let column = std::slice::from_ref(self.plan.column(at));
        let symbols = &self.plan.snapshot.symbols;
        let reader = self.segment.reader()?;
        let arrays = reader.arrays(self.frame, self.rows.clone(), column, symbols)?;
        Ok(arrays.into_iter().next().expect("one array a column"))
    }
}
