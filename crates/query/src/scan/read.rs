//! Reading of rows of a segment as batches: filters come first, and only the rows that pass are
//! decoded.
//!
//! - A batch holds exactly the rows that pass all conditions and are not deleted, in the requested
//!   order.
//! - At most `ReadPlan::batch_rows` rows are decoded at a time, and not many more than are wanted;
//!   the caller decides when to yield.
//!
//! Conditions on encoded columns come first (`row_filter`); those that only DataFusion can evaluate
//! are evaluated on the remaining rows.

pub(crate) mod merge;

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use datafusion::arrow::compute::{
    and, filter_record_batch, prep_null_mask_filter, take_record_batch,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_expr::PhysicalExpr;
use tidegate_filter::Selection;
use tidegate_model::{Column, SegmentId, limits};
use tidegate_storage::segment::RowSelection;
use tidegate_storage::{DeletionVector, SegmentRun, Snapshot};

use super::dynamic::DynamicFilters;
use super::row_filter::{FrameRequest, RowFilter};
use super::task::{BATCH_ROWS, FrameRows, ScanOrder, ScanTask, ZONE_ROWS};
use crate::cancel::CancelState;
use crate::error::Error;
use merge::Merge;

/// A condition and the columns in it.
#[derive(Debug, Clone)]
pub(crate) struct Conjunct {
    /// The condition over `schema`.
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    pub(crate) schema: SchemaRef,
    /// The columns as positions in the table.
    pub(crate) columns: Vec<usize>,
}

/// The columns and conditions of a scan, the same for all its tasks.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Conditions on encoded columns.
    pub(crate) filter: Option<Arc<RowFilter>>,
    /// Conditions that the operators above find while they run.
    pub(crate) dynamic: Option<Arc<DynamicFilters>>,
    /// Conditions that only DataFusion can evaluate.
    pub(crate) conjuncts: Vec<Conjunct>,
    /// The columns of a batch as positions in the table.
    pub(crate) output: Vec<usize>,
    pub(crate) schema: SchemaRef,
    pub(crate) order: ScanOrder,
    /// The maximal number of rows of a batch.
    pub(crate) batch_rows: usize,
    /// The cancellation of the statement.
    pub(crate) stop: Option<Arc<CancelState>>,
}

/// A reader of the rows of a task, batch after batch.
pub(crate) enum TaskReader {
    Rows(RowsReader),
    Merge(Merge),
}

/// The result of a step of reading.
pub(crate) enum Step {
    /// Rows.
    Batch(RecordBatch),
    /// None of the rows in this step passed; there may be more.
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

    /// Reads some rows, about as many as are `wanted`.
    pub(crate) fn step(&mut self, wanted: usize) -> Result<Step> {
        match self {
            TaskReader::Rows(reader) => reader.step(wanted),
            TaskReader::Merge(merge) => merge.step(wanted),
        }
    }
}

/// A reader of rows of one page frame.
pub(crate) struct RowsReader {
    plan: Arc<ReadPlan>,
    /// The task; its rows are those not read yet.
    task: FrameRows,
    filtered: FilteredRows,
}

/// Rows that have passed the filter and were not returned yet.
enum FilteredRows {
    Range(Range<usize>),
    /// Ascending rows, and the range of those that are left.
    List(Vec<u32>, Range<usize>),
}

impl FilteredRows {
    const NONE: FilteredRows = FilteredRows::Range(0..0);

    fn count(&self) -> usize {
        match self {
            FilteredRows::Range(rows) | FilteredRows::List(_, rows) => rows.len(),
        }
    }

    /// Takes some rows: the first ones, or the last ones.
    fn take(&mut self, rows: usize, order: ScanOrder) -> RowSelection<'_> {
        let (FilteredRows::Range(left) | FilteredRows::List(_, left)) = self;
        let taken = take_rows(left, rows, order);
        match self {
            FilteredRows::Range(_) => RowSelection::Range(taken),
            FilteredRows::List(rows, _) => {
                let rows = &rows[taken];
                match rows {
                    [first, .., last] if (last - first) as usize == rows.len() - 1 => {
                        RowSelection::Range(*first as usize..*last as usize + 1)
                    }
                    rows => RowSelection::List(rows),
                }
            }
        }
    }
}

/// Takes rows from the end at which reading begins.
fn take_rows(left: &mut Range<usize>, rows: usize, order: ScanOrder) -> Range<usize> {
    if order == ScanOrder::Backward {
        let start = left.end.saturating_sub(rows).max(left.start);
        let taken = start..left.end;
        left.end = start;
        taken
    } else {
        let end = (left.start + rows).min(left.end);
        let taken = left.start..end;
        left.start = end;
        taken
    }
}

impl RowsReader {
    pub(crate) fn new(plan: Arc<ReadPlan>, task: FrameRows) -> RowsReader {
        RowsReader { plan, task, filtered: FilteredRows::NONE }
    }

    fn step(&mut self, wanted: usize) -> Result<Step> {
        let plan = &self.plan;
        if self.filtered.count() == 0 {
            let rows = &mut self.task.rows;
            if rows.start == rows.end {
                return Ok(Step::End);
            }
            // Few rows are filtered if few are wanted, and else as many as one pass can filter.
            let looked_at = match &plan.filter {
                Some(_) if wanted < BATCH_ROWS => to_zone_bound(rows, plan.order),
                // The operators above may have new conditions after each batch.
                Some(_) if plan.dynamic.is_some() => BATCH_ROWS,
                Some(_) => rows.len(),
                None if plan.is_counting() => rows.len(),
                None => plan.batch_rows,
            };
            let rows = take_rows(rows, looked_at, plan.order);
            let request = plan.request(&self.task, rows);
            if plan.is_counting() {
                let count = plan.count(&request)?;
                return Ok(if count == 0 { Step::Nothing } else { Step::Batch(plan.rows(count)?) });
            }
            self.filtered = plan.filtered_rows(&request)?;
        }
        if self.filtered.count() == 0 {
            return Ok(Step::Nothing);
        }
        // The number of rows that pass the conditions on decoded ones is not known.
        let most = plan.batch_rows;
        let rows = if plan.conjuncts.is_empty() { wanted.clamp(1, most) } else { most };
        let rows = self.filtered.take(rows, plan.order);
        let read = plan.read(&self.task.segment, self.task.frame, rows)?;
        Ok(read.map_or(Step::Nothing, Step::Batch))
    }
}

/// Returns a number of rows such that the remaining ones begin or end at a zone.
fn to_zone_bound(rows: &Range<usize>, order: ScanOrder) -> usize {
    if order == ScanOrder::Backward {
        rows.end - (rows.end - 1) / ZONE_ROWS * ZONE_ROWS
    } else {
        (rows.start / ZONE_ROWS + 1) * ZONE_ROWS - rows.start
    }
}

impl ReadPlan {
    fn column(&self, position: usize) -> &Column {
        &self.snapshot.schema.columns()[position]
    }

    /// Returns true if only the number of rows is needed.
    fn is_counting(&self) -> bool {
        self.output.is_empty() && self.conjuncts.is_empty()
    }

    /// Makes a request for some rows of a task.
    pub(crate) fn request<'a>(
        &'a self,
        task: &'a FrameRows,
        rows: Range<usize>,
    ) -> FrameRequest<'a> {
        let stop = self.stop.as_deref();
        FrameRequest { segment: &task.segment, frame: task.frame, rows, stop }
    }

    /// Returns the number of rows that pass the filter.
    pub(crate) fn count(&self, request: &FrameRequest<'_>) -> Result<usize> {
        match &self.filter {
            Some(filter) if self.dynamic.is_none() => {
                filter.count(request, live_words(request)?.as_deref())
            }
            _ => {
                let count = self.select(request, &mut Selection::new())?;
                Ok(count.unwrap_or(request.rows.len()))
            }
        }
    }

    /// Returns a batch of so many rows without columns.
    fn rows(&self, count: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), vec![], &options)?)
    }

    /// Selects the rows that pass the filter and are not deleted, in `selection`, and returns their
    /// number. `None` if these are all requested rows; then `selection` is of no use.
    pub(crate) fn select(
        &self,
        request: &FrameRequest<'_>,
        selection: &mut Selection,
    ) -> Result<Option<usize>> {
        let dynamic = match &self.dynamic {
            Some(dynamic) => dynamic.current(&self.snapshot)?,
            None => None,
        };
        let mut count = None;
        let mut live = live_words(request)?;
        let mut filters = dynamic.iter().chain(&self.filter).peekable();
        while let Some(filter) = filters.next() {
            let left = filter.select(request, live.as_deref(), selection)?;
            count = Some(left);
            if left == 0 {
                break;
            }
            live = filters.peek().map(|_| selection.words().to_vec());
        }
        let count = match (count, request.segment.deletion_vector.as_deref()) {
            (Some(count), _) => count,
            (None, Some(mask)) => selection.replace(live_rows(mask, request)),
            (None, None) => return Ok(None),
        };
        Ok((count < request.rows.len()).then_some(count))
    }

    /// Returns the rows that pass the filter.
    fn filtered_rows(&self, request: &FrameRequest<'_>) -> Result<FilteredRows> {
        let may_drop = self.filter.is_some()
            || self.dynamic.is_some()
            || request.segment.deletion_vector.is_some();
        if !may_drop {
            return Ok(FilteredRows::Range(request.rows.clone()));
        }
        let mut selection = Selection::new();
        let Some(count) = self.select(request, &mut selection)? else {
            return Ok(FilteredRows::Range(request.rows.clone()));
        };
        let mut rows = Vec::with_capacity(count);
        rows.extend(selection.rows().map(narrow));
        let left = 0..rows.len();
        Ok(FilteredRows::List(rows, left))
    }

    /// Returns those of some rows of a page frame that pass; `None` if there are none.
    fn read(
        &self,
        segment: &SegmentRun,
        frame: u64,
        rows: RowSelection<'_>,
    ) -> Result<Option<RecordBatch>> {
        let mut decoded = Decoded { plan: self, segment, frame, rows, arrays: Vec::new() };
        let Some(selection) = decoded.selection()? else { return Ok(None) };
        let batch = decoded.batch(&self.output, &self.schema)?;
        let batch = match selection {
            Selected::All => batch,
            Selected::Some(mask) => filter_record_batch(&batch, &mask)?,
        };
        Ok(Some(match self.order {
            ScanOrder::Backward => reversed(&batch)?,
            ScanOrder::Any | ScanOrder::Forward => batch,
        }))
    }
}

fn narrow(row: usize) -> u32 {
    u32::try_from(row).expect("limits::FRAME_ROWS")
}

/// Returns the rows that are not deleted.
fn live_rows<'a>(
    mask: &'a DeletionVector,
    request: &FrameRequest<'_>,
) -> impl Iterator<Item = usize> + 'a {
    let first = request.frame * limits::FRAME_ROWS.0;
    request.rows.clone().filter(move |&row| mask.is_live(first + row as u64))
}

/// Returns the rows of a page frame that are not deleted, a bit each; `None` if all are there.
fn live_words(request: &FrameRequest<'_>) -> Result<Option<Vec<u64>>> {
    let Some(mask) = request.segment.deletion_vector.as_deref() else { return Ok(None) };
    let reader = request.segment.reader().map_err(Error::Storage)?;
    let zones_in_frame = limits::FRAME_ROWS.0 / limits::ZONE_ROWS.0;
    let words_in_zone = usize::try_from(limits::ZONE_ROWS.0 / 64).expect("64");
    let first = request.frame * zones_in_frame;
    let zones = (reader.frame_rows(request.frame) as u64).div_ceil(limits::ZONE_ROWS.0);
    if (first..first + zones).all(|zone| mask.zone(zone).is_none()) {
        return Ok(None);
    }
    let mut words = Vec::with_capacity(words_in_zone * 16);
    for zone in first..first + zones {
        match mask.zone(zone) {
            None => words.resize(words.len() + words_in_zone, u64::MAX),
            Some(bits) => words.extend_from_slice(bits),
        }
    }
    Ok(Some(words))
}

/// Returns the rows in the opposite order.
pub(crate) fn reversed(batch: &RecordBatch) -> Result<RecordBatch> {
    if batch.num_columns() == 0 || batch.num_rows() < 2 {
        return Ok(batch.clone());
    }
    let indices = (0..batch.num_rows() as u64).rev().collect::<UInt64Array>();
    Ok(take_record_batch(batch, &indices)?)
}

/// The decoded rows that pass.
enum Selected {
    All,
    Some(BooleanArray),
}

/// Some rows, and their columns decoded so far.
struct Decoded<'a> {
    plan: &'a ReadPlan,
    segment: &'a SegmentRun,
    frame: u64,
    rows: RowSelection<'a>,
    arrays: Vec<(usize, ArrayRef)>,
}

impl Decoded<'_> {
    /// Returns the rows that pass every conjunct; `None` if there are none. Once no row is left,
    /// further conjuncts are not evaluated, and their columns not decoded.
    fn selection(&mut self) -> Result<Option<Selected>> {
        let mut selected: Option<BooleanArray> = None;
        for conjunct in &self.plan.conjuncts {
            if selected.as_ref().is_some_and(|selected| !selected.has_true()) {
                return Ok(None);
            }
            let batch = self.batch(&conjunct.columns, &conjunct.schema)?;
            let value = conjunct.expr.evaluate(&batch)?.into_array(self.rows.count())?;
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
            None => Some(Selected::All),
            Some(mask) if !mask.has_true() => None,
            Some(mask) if !mask.has_false() => Some(Selected::All),
            Some(mask) => Some(Selected::Some(mask)),
        })
    }

    /// Returns a batch of these columns, and decodes the missing ones.
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
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.count()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
    }

    fn decode(&self, at: usize) -> tidegate_storage::Result<ArrayRef> {
        if at == self.plan.snapshot.schema.columns().len() {
            return Ok(self.row_ids());
        }
        let column = std::slice::from_ref(self.plan.column(at));
        let symbols = &self.plan.snapshot.symbols;
        let reader = self.segment.reader()?;
        let arrays = reader.arrays(self.frame, &self.rows, column, symbols)?;
        Ok(arrays.into_iter().next().expect("one array a column"))
    }

    /// Returns the ids of the rows.
    fn row_ids(&self) -> ArrayRef {
        let first = self.frame * limits::FRAME_ROWS.0;
        let id = |row: u64| row_id(self.segment.meta.id, first + row);
        Arc::new(match &self.rows {
            RowSelection::Range(rows) => rows.clone().map(|row| id(row as u64)).collect(),
            RowSelection::List(rows) => {
                rows.iter().map(|&row| id(row.into())).collect::<UInt64Array>()
            }
        })
    }
}

/// The number of bits of a row's id for its position in the segment.
const ROW_BITS: u32 = 22;
const _: () = assert!(limits::SEGMENT_ROWS.0 == 1 << ROW_BITS);

/// Returns a segment and a row of it as one number.
fn row_id(segment: SegmentId, row: u64) -> u64 {
    assert!(segment.0 >> (64 - ROW_BITS) == 0, "segments are numbered one by one");
    segment.0 << ROW_BITS | row
}

/// Returns the segment and the row of an id.
pub(crate) fn place_of(row_id: u64) -> (SegmentId, u64) {
    (SegmentId(row_id >> ROW_BITS), row_id & ((1 << ROW_BITS) - 1))
}
