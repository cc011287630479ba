//! From rows of a segment to batches: find the rows that pass, decode only those.
//!
//! - D1. A batch holds exactly the rows that pass all conditions and are not masked, in the order
//!   asked for.
//! - D2. No more than `ReadPlan::batch_rows` rows are decoded at a time, and not many more than are
//!   wanted; whoever calls decides when to yield.
//!
//! Conditions that are worked on as rows are stored come first (`row_filter`); what only DataFusion
//! knows is asked about the rows that they have left.

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
use tidegate_storage::segment::PickedRows;
use tidegate_storage::{RowMask, SegmentRun, Snapshot};

use super::dynamic::DynamicFilters;
use super::merge::Merge;
use super::row_filter::{Asked, RowFilter};
use super::task::{BATCH_ROWS, FrameRows, ScanOrder, ScanTask, ZONE_ROWS};
use crate::control::Stop;
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
    /// Conditions that are worked on as rows are stored.
    pub(crate) filter: Option<Arc<RowFilter>>,
    /// What the operators above find out while they run.
    pub(crate) dynamic: Option<Arc<DynamicFilters>>,
    /// Conditions that only DataFusion knows.
    pub(crate) conjuncts: Vec<Conjunct>,
    /// Positions in the table of the columns of a batch.
    pub(crate) output: Vec<usize>,
    pub(crate) schema: SchemaRef,
    pub(crate) order: ScanOrder,
    /// How many rows a batch has at most.
    pub(crate) batch_rows: usize,
    /// Whether the statement is to go on.
    pub(crate) stop: Option<Arc<Stop>>,
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

    /// Finds some rows, about as many as are `wanted` (D2).
    pub(crate) fn step(&mut self, wanted: usize) -> Result<Step> {
        match self {
            TaskReader::Rows(reader) => reader.step(wanted),
            TaskReader::Merge(merge) => merge.step(),
        }
    }
}

/// Reads rows of one page frame.
pub(crate) struct RowsReader {
    plan: Arc<ReadPlan>,
    /// Its rows are those that were not looked at.
    task: FrameRows,
    picked: Picked,
}

/// Rows that have passed the filter and were not handed out yet.
enum Picked {
    Range(Range<usize>),
    /// Ascending, and which of them are left.
    List(Vec<u32>, Range<usize>),
}

impl Picked {
    const NONE: Picked = Picked::Range(0..0);

    fn count(&self) -> usize {
        match self {
            Picked::Range(rows) | Picked::List(_, rows) => rows.len(),
        }
    }

    /// Takes some rows: the first ones, or the last ones.
    fn take(&mut self, rows: usize, order: ScanOrder) -> PickedRows<'_> {
        let (Picked::Range(left) | Picked::List(_, left)) = self;
        let taken = take_rows(left, rows, order);
        match self {
            Picked::Range(_) => PickedRows::Range(taken),
            Picked::List(rows, _) => {
                let rows = &rows[taken];
                match rows {
                    [first, .., last] if (last - first) as usize == rows.len() - 1 => {
                        PickedRows::Range(*first as usize..*last as usize + 1)
                    }
                    rows => PickedRows::List(rows),
                }
            }
        }
    }
}

/// Takes rows from the end where reading begins.
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
        RowsReader { plan, task, picked: Picked::NONE }
    }

    fn step(&mut self, wanted: usize) -> Result<Step> {
        let plan = &self.plan;
        if self.picked.count() == 0 {
            let rows = &mut self.task.rows;
            if rows.start == rows.end {
                return Ok(Step::End);
            }
            // Few rows are looked at if few are wanted, else as many as a pass is made for.
            let looked_at = match &plan.filter {
                Some(_) if wanted < BATCH_ROWS => to_zone_bound(rows, plan.order),
                // What is above may know more after each batch.
                Some(_) if plan.dynamic.is_some() => BATCH_ROWS,
                Some(_) => rows.len(),
                None if plan.is_counting() => rows.len(),
                None => plan.batch_rows,
            };
            let rows = take_rows(rows, looked_at, plan.order);
            let asked = plan.asked(&self.task, rows);
            if plan.is_counting() {
                let count = plan.count(&asked)?;
                return Ok(if count == 0 { Step::Nothing } else { Step::Batch(plan.rows(count)?) });
            }
            self.picked = plan.pick(&asked)?;
        }
        if self.picked.count() == 0 {
            return Ok(Step::Nothing);
        }
        // How many rows pass what is asked of decoded ones, nobody knows.
        let most = plan.batch_rows;
        let rows = if plan.conjuncts.is_empty() { wanted.clamp(1, most) } else { most };
        let rows = self.picked.take(rows, plan.order);
        let read = plan.read(&self.task.segment, self.task.frame, rows)?;
        Ok(read.map_or(Step::Nothing, Step::Batch))
    }
}

/// So many rows that what is left ends with a zone.
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

    /// Whether only the number of rows is asked for.
    fn is_counting(&self) -> bool {
        self.output.is_empty() && self.conjuncts.is_empty()
    }

    /// Asks about some rows of a task.
    pub(crate) fn asked<'a>(&'a self, task: &'a FrameRows, rows: Range<usize>) -> Asked<'a> {
        let stop = self.stop.as_deref();
        Asked { segment: &task.segment, frame: task.frame, rows, stop }
    }

    /// How many rows pass the filter.
    pub(crate) fn count(&self, asked: &Asked<'_>) -> Result<usize> {
        match &self.filter {
            Some(filter) if self.dynamic.is_none() => {
                filter.count(asked, live_words(asked)?.as_deref())
            }
            _ => {
                let count = self.select(asked, &mut Selection::new())?;
                Ok(count.unwrap_or(asked.rows.len()))
            }
        }
    }

    /// So many rows without columns.
    fn rows(&self, count: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), vec![], &options)?)
    }

    /// Which rows pass the filter and are not masked, in `selection`, and how many they are. `None`
    /// if it is all of those asked for; then `selection` is of no use.
    pub(crate) fn select(
        &self,
        asked: &Asked<'_>,
        selection: &mut Selection,
    ) -> Result<Option<usize>> {
        let dynamic = match &self.dynamic {
            Some(dynamic) => dynamic.current(&self.snapshot)?,
            None => None,
        };
        let mut count = None;
        let mut live = live_words(asked)?;
        let mut filters = dynamic.iter().chain(&self.filter).peekable();
        while let Some(filter) = filters.next() {
            let left = filter.select(asked, live.as_deref(), selection)?;
            count = Some(left);
            if left == 0 {
                break;
            }
            live = filters.peek().map(|_| selection.words().to_vec());
        }
        let count = match (count, asked.segment.mask.as_deref()) {
            (Some(count), _) => count,
            (None, Some(mask)) => selection.replace(live_rows(mask, asked)),
            (None, None) => return Ok(None),
        };
        Ok((count < asked.rows.len()).then_some(count))
    }

    /// The rows that pass the filter.
    fn pick(&self, asked: &Asked<'_>) -> Result<Picked> {
        let may_drop =
            self.filter.is_some() || self.dynamic.is_some() || asked.segment.mask.is_some();
        if !may_drop {
            return Ok(Picked::Range(asked.rows.clone()));
        }
        let mut selection = Selection::new();
        let Some(count) = self.select(asked, &mut selection)? else {
            return Ok(Picked::Range(asked.rows.clone()));
        };
        let mut rows = Vec::with_capacity(count);
        rows.extend(selection.rows().map(narrow));
        let left = 0..rows.len();
        Ok(Picked::List(rows, left))
    }

    /// Those of some rows of a page frame that pass; `None` if there are none.
    fn read(
        &self,
        segment: &SegmentRun,
        frame: u64,
        rows: PickedRows<'_>,
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

/// The rows that are not masked.
fn live_rows<'a>(mask: &'a RowMask, asked: &Asked<'_>) -> impl Iterator<Item = usize> + 'a {
    let first = asked.frame * limits::FRAME_ROWS.0;
    asked.rows.clone().filter(move |&row| mask.is_live(first + row as u64))
}

/// The rows of a page frame that are there, a bit each; `None` if all are.
fn live_words(asked: &Asked<'_>) -> Result<Option<Vec<u64>>> {
    let Some(mask) = asked.segment.mask.as_deref() else { return Ok(None) };
    let reader = asked.segment.reader().map_err(Error::Storage)?;
    let zones_in_frame = limits::FRAME_ROWS.0 / limits::ZONE_ROWS.0;
    let words_in_zone = usize::try_from(limits::ZONE_ROWS.0 / 64).expect("64");
    let first = asked.frame * zones_in_frame;
    let zones = (reader.frame_rows(asked.frame) as u64).div_ceil(limits::ZONE_ROWS.0);
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

/// The rows in the opposite order.
pub(crate) fn reversed(batch: &RecordBatch) -> Result<RecordBatch> {
    if batch.num_columns() == 0 || batch.num_rows() < 2 {
        return Ok(batch.clone());
    }
    let indices = (0..batch.num_rows() as u64).rev().collect::<UInt64Array>();
    Ok(take_record_batch(batch, &indices)?)
}

/// Which of the decoded rows pass.
enum Selected {
    All,
    Some(BooleanArray),
}

/// Some rows, and what of them is decoded so far.
struct Decoded<'a> {
    plan: &'a ReadPlan,
    segment: &'a SegmentRun,
    frame: u64,
    rows: PickedRows<'a>,
    arrays: Vec<(usize, ArrayRef)>,
}

impl Decoded<'_> {
    /// The rows that pass every conjunct; `None` if there are none. A conjunct whose rows have all
    /// failed before is not looked at, and its columns not decoded.
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

    /// Where the rows are.
    fn row_ids(&self) -> ArrayRef {
        let first = self.frame * limits::FRAME_ROWS.0;
        let id = |row: u64| row_id(self.segment.meta.id, first + row);
        Arc::new(match &self.rows {
            PickedRows::Range(rows) => rows.clone().map(|row| id(row as u64)).collect(),
            PickedRows::List(rows) => {
                rows.iter().map(|&row| id(row.into())).collect::<UInt64Array>()
            }
        })
    }
}

/// How many bits of a row's id say where it is in its segment.
const ROW_BITS: u32 = 22;
const _: () = assert!(limits::SEGMENT_ROWS.0 == 1 << ROW_BITS);

/// A segment and a row of it as one number.
fn row_id(segment: SegmentId, row: u64) -> u64 {
    assert!(segment.0 >> (64 - ROW_BITS) == 0, "segments are numbered one by one");
    segment.0 << ROW_BITS | row
}

/// The segment and the row that a number stands for.
pub(crate) fn place_of(row_id: u64) -> (SegmentId, u64) {
    (SegmentId(row_id >> ROW_BITS), row_id & ((1 << ROW_BITS) - 1))
}
