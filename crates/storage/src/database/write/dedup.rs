//! DEDUP: rows that replace earlier ones with the same values in the keys of their table.
//!
//! - Of rows with the same keys, the one committed last stays; within a commit, the last one
//!   of the input. NULL is a value like any other.
//! - The rows that a commit replaces are deleted by the same record.
//! - dedup-1. Only runs that overlap the time of the new rows are read, and of those only the
//!   timestamps, unless one of them is among the new ones.
//! - dedup-2. Of new segments, which may be larger than memory, the keys of `WINDOW_ROWS` rows of
//!   each are in memory at a time, or of all rows of one instant: rows with the same keys have the
//!   same timestamp.
//!
//! Not here: deleting the rows (`deletes`), and the commit of new segments (`replace`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{OwnedRow, RowConverter, SortField};
use tidegate_model::{Column, ColumnId, RowRange, Schema, SegmentId, TimeRange, limits};

use crate::database::commit::request::AppendTo;
use crate::database::deletes::vectors::SegmentDeletes;
use crate::database::table::coalesce::merge_to_mem_segment;
use crate::database::table::state::TableState;
use crate::deletion_vector::DeletionVector;
use crate::error::Result;
use crate::segment::{RowSelection, arrow_type};
use crate::snapshot::{SegmentFile, SegmentRun, Snapshot};
use crate::symbols::SymbolTables;

/// Rows of a window (dedup-2). Tests need many windows and few rows.
const WINDOW_ROWS: u64 = if cfg!(test) { 16 } else { 4 * limits::FRAME_ROWS.0 };

/// The keys of rows, as bytes that are equal if the keys are.
struct Keys<'a> {
    columns: Vec<Column>,
    designated: Column,
    symbols: &'a SymbolTables,
    converter: RowConverter,
}

/// New rows by their keys: the last one of each key.
struct NewRows {
    /// The position of the in-memory segment, and the row in it.
    by_key: HashMap<OwnedRow, (usize, u64)>,
    timestamps: HashSet<i64>,
    bounds: (i64, i64),
}

/// The rows of new segments, in memory or in files, by position, that later ones replace.
pub(crate) type Doubled = BTreeMap<usize, Vec<u64>>;

impl NewRows {
    /// Rows whose timestamps lie within these bounds, the last one included.
    fn new(bounds: (i64, i64)) -> NewRows {
        NewRows { by_key: HashMap::new(), timestamps: HashSet::new(), bounds }
    }

    /// Adds rows of a run, which follow all that were added before.
    fn add(
        &mut self,
        keys: &Keys<'_>,
        at: usize,
        run: &SegmentRun,
        rows: RowRange,
        doubled: &mut Doubled,
    ) -> Result<()> {
        for (frame, within) in frames(run, rows)? {
            self.timestamps.extend(keys.timestamps(run, frame, within.clone())?);
            let first = frame * limits::FRAME_ROWS.0 + within.start as u64;
            for (row, key) in (first..).zip(keys.of(run, frame, within)?) {
                if let Some((earlier, row)) = self.by_key.insert(key, (at, row)) {
                    doubled.entry(earlier).or_default().push(row);
                }
            }
        }
        Ok(())
    }
}

impl<'a> Keys<'a> {
    fn new(schema: &Schema, symbols: &'a SymbolTables) -> Keys<'a> {
        let column = |id: &ColumnId| schema.column(*id).expect("model_schema-4").clone();
        let columns: Vec<Column> = schema.dedup().iter().map(column).collect();
        let fields = columns.iter().map(|column| SortField::new(arrow_type(column.ty)));
        let converter = RowConverter::new(fields.collect());
        let converter = converter.expect("every type that a column has can be compared");
        let designated = schema.designated_column().expect("model_schema-4").0.clone();
        Keys { columns, designated, symbols, converter }
    }

    /// The keys of a range of rows of a page frame.
    fn of(&self, run: &SegmentRun, frame: u64, rows: Range<usize>) -> Result<Vec<OwnedRow>> {
        let picked = RowSelection::Range(rows);
        let arrays = run.reader()?.arrays(frame, &picked, &self.columns, self.symbols)?;
        let arrays: Vec<ArrayRef> = arrays.into_iter().map(one_zero).collect();
        let rows = self.converter.convert_columns(&arrays);
        let rows = rows.expect("arrays of the columns' types");
        Ok(rows.iter().map(|row| row.owned()).collect())
    }

    fn timestamps(&self, run: &SegmentRun, frame: u64, rows: Range<usize>) -> Result<Vec<i64>> {
        let picked = RowSelection::Range(rows);
        let columns = std::slice::from_ref(&self.designated);
        let arrays = run.reader()?.arrays(frame, &picked, columns, self.symbols)?;
        Ok(integers(&arrays[0]))
    }
}

/// The same values, with -0 replaced by 0.
fn one_zero(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|it| it + 0.0))
        }
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|it| it + 0.0))
        }
        _ => array,
    }
}

/// The values of an array of timestamps of either unit.
fn integers(array: &ArrayRef) -> Vec<i64> {
    let data = array.to_data();
    data.buffers()[0].typed_data::<i64>()[data.offset()..data.offset() + data.len()].to_vec()
}

/// The rows of a page frame that lie in a range of rows of its run.
fn in_frame(run: &SegmentRun, frame: u64, rows: RowRange) -> Result<Range<usize>> {
    let first = frame * limits::FRAME_ROWS.0;
    let frame_rows = run.reader()?.frame_rows(frame) as u64;
    let within = |row: u64| row.saturating_sub(first).min(frame_rows);
    let place = |row: u64| usize::try_from(within(row)).expect("65,536 at most");
    Ok(place(rows.start)..place(rows.end))
}

/// The page frames that overlap a range, each with its rows in the range.
fn frames(run: &SegmentRun, rows: RowRange) -> Result<Vec<(u64, Range<usize>)>> {
    if rows.end <= rows.start {
        return Ok(Vec::new());
    }
    let frames = rows.start / limits::FRAME_ROWS.0..=(rows.end - 1) / limits::FRAME_ROWS.0;
    frames.map(|frame| Ok((frame, in_frame(run, frame, rows)?))).collect()
}

/// Keeps the last row of each key in the in-memory segments of an append, and finds the rows of the
/// table that they replace.
pub(crate) fn supersede(
    to: &mut AppendTo,
    table: &TableState,
    schema: &Schema,
    snapshot: &Snapshot,
) -> Result<Vec<SegmentDeletes>> {
    let (directory, watermarks) = (&table.directory, &table.manifest.symbols);
    let symbols: SymbolTables = directory.symbols(schema, watermarks)?;
    let keys = Keys::new(schema, &symbols);
    let bounds = to
        .mem_segments
        .iter()
        .map(|mem_segment| (mem_segment.meta.min_ts, mem_segment.meta.max_ts));
    let bounds =
        bounds.fold((i64::MAX, i64::MIN), |(min, max), (low, high)| (min.min(low), max.max(high)));
    let (mut new, mut doubled) = (NewRows::new(bounds), Doubled::new());
    for (at, mem_segment) in to.mem_segments.iter().enumerate() {
        let run = SegmentRun::of_memtable(mem_segment.meta, &to.files[at], None);
        let all = RowRange { start: 0, end: run.meta.rows.0 };
        new.add(&keys, at, &run, all, &mut doubled)?;
    }
    for (at, rows) in doubled {
        let mem_segment = &to.mem_segments[at];
        let deletion_vector = Arc::new(DeletionVector::new(mem_segment.meta.rows, &rows));
        let run = Arc::new(SegmentRun::of_memtable(
            mem_segment.meta,
            &to.files[at],
            Some(deletion_vector),
        ));
        let mem_segment = merge_to_mem_segment(directory, schema, watermarks, &[run], &mut || {
            directory.new_segment_id()
        })?;
        let mem_segment =
            mem_segment.expect("the last row of a key is left, and one segment has no more rows");
        to.files[at] = Arc::new(SegmentFile::in_memory(directory.table(), &mem_segment));
        to.mem_segments[at] = mem_segment;
    }
    let mut deletes = Vec::new();
    for run in snapshot.segments() {
        let rows = replaced(run, &keys, &new)?;
        if !rows.is_empty() {
            deletes.push(SegmentDeletes { segment: run.meta.id, rows });
        }
    }
    Ok(deletes)
}

/// The rows that new segments of one partition replace.
pub(crate) struct Superseded {
    /// Rows of the new segments.
    pub(crate) doubled: Doubled,
    /// Rows of the table.
    pub(crate) deletes: Vec<SegmentDeletes>,
}

/// Finds the rows that new segments of a partition replace, among themselves and in the runs of the
/// partition. The new ones are in the order of rows with equal timestamps.
pub(crate) fn superseded(
    new: &[Arc<SegmentRun>],
    known: &[&Arc<SegmentRun>],
    schema: &Schema,
    symbols: &SymbolTables,
) -> Result<Superseded> {
    let keys = Keys::new(schema, symbols);
    let unit = keys.designated.ty.time_unit().expect("model_schema-2");
    let (mut doubled, mut deletes) = (Doubled::new(), BTreeMap::<SegmentId, Vec<u64>>::new());
    for window in cuts(new, &keys)?.windows(2) {
        let (start, end) = (window[0], window[1]);
        let mut rows = NewRows::new((start, end - 1));
        for (at, run) in new.iter().enumerate() {
            let within = TimeRange { unit, start, end };
            let within = run.reader()?.rows_in(&keys.designated, within)?;
            rows.add(&keys, at, run, within, &mut doubled)?;
        }
        for run in known {
            let replaced = replaced(run, &keys, &rows)?;
            if !replaced.is_empty() {
                deletes.entry(run.meta.id).or_default().extend(replaced);
            }
        }
    }
    let deletes = deletes.into_iter().map(|(segment, rows)| SegmentDeletes { segment, rows });
    Ok(Superseded { doubled, deletes: deletes.collect() })
}

/// Instants between which runs have few rows each (dedup-2), ascending; all rows lie between the
/// first one and the last.
fn cuts(runs: &[Arc<SegmentRun>], keys: &Keys<'_>) -> Result<Vec<i64>> {
    let mut cuts = Vec::new();
    for run in runs {
        let mut row = 0;
        while row < run.meta.rows.0 {
            for (frame, within) in frames(run, RowRange { start: row, end: row + 1 })? {
                cuts.extend(keys.timestamps(run, frame, within)?);
            }
            row += WINDOW_ROWS;
        }
        cuts.push(run.meta.max_ts + 1);
    }
    cuts.sort_unstable();
    cuts.dedup();
    Ok(cuts)
}

/// The rows of a run that new ones replace (dedup-1).
fn replaced(run: &SegmentRun, keys: &Keys<'_>, new: &NewRows) -> Result<Vec<u64>> {
    let (min, max) = new.bounds;
    if run.meta.max_ts < min || max < run.meta.min_ts {
        return Ok(Vec::new());
    }
    let unit = keys.designated.ty.time_unit().expect("model_schema-2");
    let range = TimeRange { unit, start: min, end: max + 1 };
    let reached = run.reader()?.rows_in(&keys.designated, range)?;
    let mut rows = Vec::new();
    for (frame, within) in frames(run, reached)? {
        let timestamps = keys.timestamps(run, frame, within.clone())?;
        let is_met = |ts: &i64| new.timestamps.contains(ts);
        let Some(first) = timestamps.iter().position(is_met) else { continue };
        let last = timestamps.iter().rposition(is_met).expect("there is a first");
        let met = within.start + first..within.start + last + 1;
        let first = frame * limits::FRAME_ROWS.0 + met.start as u64;
        for (row, key) in (first..).zip(&keys.of(run, frame, met)?) {
            let is_live = run
                .deletion_vector
                .as_ref()
                .is_none_or(|deletion_vector| deletion_vector.is_live(row));
            if is_live && new.by_key.contains_key(key) {
                rows.push(row);
            }
        }
    }
    Ok(rows)
}
