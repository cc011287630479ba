//! Reading of rows of a segment as batches: filters come first, and only the rows that pass are
//! decoded.
//!
//! - A batch holds exactly the rows that pass all conditions and are not deleted, in the requested
//!   order.
//! - At most `ReadPlan::batch_rows` rows are decoded at a time, fewer if their texts are long
//!   (text_memory-1), and not many more than are wanted; the caller decides when to yield.
//!
//! Conditions on encoded columns come first (`row_filter`); those that only DataFusion can evaluate
//! are evaluated on the remaining rows. Columns that are in no condition are decoded last, of the
//! rows that pass.

pub(crate) mod text_memory;
pub(crate) mod merge;

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use datafusion::arrow::compute::{and, filter, prep_null_mask_filter, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::cast::as_boolean_array;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use tidegate_filter::Selection;
use tidegate_model::{Column, ColumnType, SegmentId, limits};
use tidegate_storage::segment::RowSelection;
use tidegate_storage::{DeletionVector, Snapshot};

use super::dynamic::DynamicFilters;
use super::row_filter::{FrameRequest, RowFilter};
use super::task::{BATCH_ROWS, FrameRows, ScanOrder, ScanTask, ZONE_ROWS};
use crate::cancel::CancelState;
use crate::error::Error;
use crate::value_bytes::{bytes_of, memory_of_rows};
use merge::Merge;
use text_memory::{Charge, TextMemory, TextPart, compacted, settle};

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
    Batch(ReadRows),
    /// None of the rows in this step passed; there may be more.
    Nothing,
    /// No rows are left.
    End,
}

/// Rows that were read, and the charges for their texts.
#[derive(Debug, Clone)]
pub(crate) struct ReadRows {
    pub(crate) batch: RecordBatch,
    pub(crate) charges: Vec<Arc<MemoryReservation>>,
}

impl TaskReader {
    pub(crate) fn new(plan: &Arc<ReadPlan>, task: ScanTask) -> TaskReader {
        match task {
            ScanTask::Rows(rows) => TaskReader::Rows(RowsReader::new(Arc::clone(plan), rows)),
            ScanTask::Merge(inputs) => TaskReader::Merge(Merge::new(plan, inputs)),
        }
    }

    /// Reads some rows, about as many as are `wanted`.
    pub(crate) fn step(&mut self, wanted: usize, memory: &TextMemory) -> Result<Step> {
        match self {
            TaskReader::Rows(reader) => reader.step(wanted, memory),
            TaskReader::Merge(merge) => merge.step(wanted, memory),
        }
    }
}

/// A reader of rows of one page frame.
pub(crate) struct RowsReader {
    plan: Arc<ReadPlan>,
    /// The task; its rows are those not read yet.
    task: FrameRows,
    texts: TextColumns,
    /// Rows for which the conditions on decoded ones were not evaluated yet.
    filtered: FilteredRows,
    passed: Passed,
}

/// The columns of texts, as positions in the table.
struct TextColumns {
    /// Those in conditions on decoded rows.
    conditions: Vec<usize>,
    /// The others of the output.
    others: Vec<usize>,
}

impl TextColumns {
    fn of(plan: &ReadPlan) -> TextColumns {
        let columns = plan.snapshot.schema.columns();
        let is_text = |at: &usize| {
            let ty = columns.get(*at).map(|column| column.ty);
            matches!(ty, Some(ColumnType::Varchar | ColumnType::Binary))
        };
        let conditions = plan.conjuncts.iter().flat_map(|conjunct| &conjunct.columns);
        let mut conditions = conditions.copied().filter(is_text).collect::<Vec<_>>();
        conditions.sort_unstable();
        conditions.dedup();
        let is_other = |at: &usize| conditions.binary_search(at).is_err();
        let others = plan.output.iter().copied().filter(is_text).filter(is_other);
        let mut others = others.collect::<Vec<_>>();
        others.sort_unstable();
        others.dedup();
        TextColumns { conditions, others }
    }
}

/// Rows that have passed the filter and were not returned yet.
enum FilteredRows {
    Range(Range<usize>),
    /// Ascending rows, and the range of those that are left.
    List(Vec<u32>, Range<usize>),
}

impl FilteredRows {
    const NONE: FilteredRows = FilteredRows::Range(0..0);

    fn of(rows: &RowSelection<'_>) -> FilteredRows {
        match rows {
            RowSelection::Range(rows) => FilteredRows::Range(rows.clone()),
            RowSelection::List(rows) => FilteredRows::list(rows.to_vec()),
        }
    }

    fn list(rows: Vec<u32>) -> FilteredRows {
        let left = 0..rows.len();
        FilteredRows::List(rows, left)
    }

    fn left(&self) -> &Range<usize> {
        match self {
            FilteredRows::Range(left) | FilteredRows::List(_, left) => left,
        }
    }

    fn count(&self) -> usize {
        self.left().len()
    }

    /// Returns the next rows, the first ones or the last ones, and does not take them.
    fn next(&self, rows: usize, order: ScanOrder) -> RowSelection<'_> {
        self.selection(take_rows(&mut self.left().clone(), rows, order))
    }

    /// Takes some rows: the first ones, or the last ones.
    fn take(&mut self, rows: usize, order: ScanOrder) -> Range<usize> {
        let (FilteredRows::Range(left) | FilteredRows::List(_, left)) = self;
        take_rows(left, rows, order)
    }

    /// Returns the rows that were taken.
    fn selection(&self, taken: Range<usize>) -> RowSelection<'_> {
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

/// Rows that have passed all conditions and were not returned yet.
struct Passed {
    rows: FilteredRows,
    /// Columns that are decoded, with a value for each of the rows from `first` on.
    arrays: Vec<(usize, ArrayRef)>,
    first: usize,
    /// For the texts in them.
    charge: Charge,
    /// The dynamic conditions for which they were filtered again.
    known: Option<Arc<RowFilter>>,
}

impl Passed {
    /// Rows without decoded columns.
    fn of(rows: FilteredRows) -> Passed {
        let (first, arrays) = (rows.left().start, Vec::new());
        Passed { rows, arrays, first, charge: None, known: None }
    }

    /// Returns the decoded columns of rows that were taken.
    fn arrays_of(&self, taken: &Range<usize>) -> Vec<(usize, ArrayRef)> {
        let start = taken.start - self.first;
        self.arrays.iter().map(|(at, array)| (*at, array.slice(start, taken.len()))).collect()
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
        let (texts, passed) = (TextColumns::of(&plan), Passed::of(FilteredRows::NONE));
        RowsReader { plan, task, texts, filtered: FilteredRows::NONE, passed }
    }

    fn step(&mut self, wanted: usize, memory: &TextMemory) -> Result<Step> {
        self.plan.check_stop()?;
        if 0 < self.passed.rows.count() {
            self.filter_again()?;
        }
        if self.passed.rows.count() == 0 {
            if self.filtered.count() == 0
                && let Some(step) = self.filter(wanted)?
            {
                return Ok(step);
            }
            self.evaluate(memory)?;
        }
        if self.passed.rows.count() == 0 {
            return Ok(Step::Nothing);
        }
        self.read(wanted, memory).map(Step::Batch)
    }

    /// Filters the next rows of the task. Returns the step if no row is left to decode.
    fn filter(&mut self, wanted: usize) -> Result<Option<Step>> {
        let plan = &self.plan;
        let rows = &mut self.task.rows;
        if rows.start == rows.end {
            return Ok(Some(Step::End));
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
            return Ok(Some(if count == 0 { Step::Nothing } else { plan.rows(count)? }));
        }
        self.filtered = plan.filtered_rows(&request)?;
        Ok((self.filtered.count() == 0).then_some(Step::Nothing))
    }

    /// Filters the rows that have passed again if the operators above have new conditions: where
    /// texts are long, only a few of the rows were decoded. Conditions on texts take as long as
    /// decoding.
    fn filter_again(&mut self) -> Result<()> {
        let plan: &ReadPlan = &self.plan;
        let Some(dynamic) = &plan.dynamic else { return Ok(()) };
        if self.texts.others.is_empty() || !self.passed.arrays.is_empty() {
            return Ok(());
        }
        let Some(filter) = dynamic.current(&plan.snapshot)? else { return Ok(()) };
        let is_known = self.passed.known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &filter));
        if is_known || filter.reads_texts() {
            return Ok(());
        }
        let left = self.passed.rows.next(self.passed.rows.count(), plan.order);
        let (first, last) = (left.at(0), left.at(left.count() - 1));
        let mut selection = Selection::new();
        selection.replace((0..left.count()).map(|at| left.at(at)));
        let live = selection.words().to_vec();
        let request = plan.request(&self.task, first..last + 1);
        let count = filter.select(&request, Some(live.as_slice()), &mut selection)?;
        let mut rows = Vec::with_capacity(count);
        rows.extend(selection.rows().map(narrow));
        self.passed = Passed { known: Some(filter), ..Passed::of(FilteredRows::list(rows)) };
        Ok(())
    }

    /// Evaluates the conditions on decoded rows for some of those that have passed the filter.
    fn evaluate(&mut self, memory: &TextMemory) -> Result<()> {
        let plan: &ReadPlan = &self.plan;
        if plan.conjuncts.is_empty() {
            self.passed = Passed::of(std::mem::replace(&mut self.filtered, FilteredRows::NONE));
            return Ok(());
        }
        let next = self.filtered.next(plan.batch_rows, plan.order);
        let part = plan.part(&self.task, &next, &self.texts.conditions, memory)?;
        let charge = memory.charge(part.bytes)?;
        let taken = self.filtered.take(part.rows, plan.order);
        let rows = self.filtered.selection(taken);
        let decoded = Decoded { plan, task: &self.task, rows, arrays: Vec::new() };
        if let Some(passed) = decoded.passed(charge)? {
            self.passed = passed;
        }
        Ok(())
    }

    /// Reads some of the rows that have passed.
    fn read(&mut self, wanted: usize, memory: &TextMemory) -> Result<ReadRows> {
        let plan: &ReadPlan = &self.plan;
        let next = self.passed.rows.next(wanted.clamp(1, plan.batch_rows), plan.order);
        let part = plan.part(&self.task, &next, &self.texts.others, memory)?;
        let charge = memory.charge(part.bytes)?;
        let taken = self.passed.rows.take(part.rows, plan.order);
        let arrays = self.passed.arrays_of(&taken);
        let rows = self.passed.rows.selection(taken);
        let batch =
            Decoded { plan, task: &self.task, rows, arrays }.batch(&plan.output, &plan.schema)?;
        if charge.is_some() {
            settle(&charge, memory_of_rows(&batch) as u64);
        }
        let batch = match plan.order {
            ScanOrder::Backward => reversed(&batch)?,
            ScanOrder::Any | ScanOrder::Forward => batch,
        };
        let charges = charge.into_iter().chain(self.passed.charge.clone()).collect();
        if self.passed.rows.count() == 0 {
            self.passed = Passed::of(FilteredRows::NONE);
        }
        Ok(ReadRows { batch, charges })
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

    /// Checks that the statement has not been stopped.
    fn check_stop(&self) -> Result<()> {
        match self.stop.as_deref().and_then(CancelState::reason) {
            Some(reason) => Err(Error::from(reason).into()),
            None => Ok(()),
        }
    }

    /// Returns as many of some rows of a task as are decoded at a time. `texts` are the columns of
    /// texts that are decoded.
    fn part(
        &self,
        task: &FrameRows,
        rows: &RowSelection<'_>,
        texts: &[usize],
        memory: &TextMemory,
    ) -> Result<TextPart> {
        if texts.is_empty() {
            return Ok(TextPart { rows: rows.count(), bytes: 0 });
        }
        let reader = task.segment.reader().map_err(Error::Storage)?;
        let small = memory.small_bytes() / texts.len() as u64;
        let mut sizes = Vec::with_capacity(texts.len());
        for &at in texts {
            let column = reader.text_sizes(task.frame, self.column(at), small);
            sizes.extend(column.map_err(Error::Storage)?);
        }
        Ok(memory.part(&mut sizes, rows, self.order))
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
    fn rows(&self, count: usize) -> Result<Step> {
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, vec![], &options)?;
        Ok(Step::Batch(ReadRows { batch, charges: Vec::new() }))
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
        Ok(FilteredRows::list(rows))
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
    task: &'a FrameRows,
    rows: RowSelection<'a>,
    arrays: Vec<(usize, ArrayRef)>,
}

impl Decoded<'_> {
    /// Returns the rows that pass every conjunct, with their columns that the output needs; `None`
    /// if there are none. `charge` is that for their texts.
    fn passed(mut self, charge: Charge) -> Result<Option<Passed>> {
        let Some(selected) = self.selection()? else { return Ok(None) };
        let Decoded { plan, rows, mut arrays, .. } = self;
        arrays.retain(|(at, _)| plan.output.contains(at));
        let rows = match selected {
            Selected::All => FilteredRows::of(&rows),
            Selected::Some(mask) => {
                for (_, array) in &mut arrays {
                    let passed = filter(array.as_ref(), &mask)?;
                    *array = if charge.is_some() { compacted(passed) } else { passed };
                }
                let passed = mask.values().set_indices().map(|at| narrow(rows.at(at)));
                FilteredRows::list(passed.collect())
            }
        };
        if charge.is_some() {
            settle(&charge, arrays.iter().map(|(_, array)| bytes_of(array.as_ref())).sum());
        }
        let charge = charge.filter(|_| !arrays.is_empty());
        Ok(Some(Passed { arrays, charge, ..Passed::of(rows) }))
    }

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
        let reader = self.task.segment.reader()?;
        let arrays = reader.arrays(self.task.frame, &self.rows, column, symbols)?;
        Ok(arrays.into_iter().next().expect("one array a column"))
    }

    /// Returns the ids of the rows.
    fn row_ids(&self) -> ArrayRef {
        let first = self.task.frame * limits::FRAME_ROWS.0;
        let id = |row: u64| row_id(self.task.segment.meta.id, first + row);
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
