//! A worker of a pushed aggregate, which folds zones into states.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;
use tidegate_filter::aggregate::{
    AggregateKind, Batch, GroupIndices, ValueIds, Values, ZoneRows, ZoneValues, count_rows,
};
use tidegate_filter::{NoSymbols, Selection};
use tidegate_model::SegmentId;
use tidegate_model::layout::Zone;
use tidegate_model::types::Physical;

use super::calculated::{floats_of, integers_of, nulls_of, reject};
use super::hash_key::{HashKeys, HashZone};
use super::hash_memory::HashMemory;
use super::hash_table::{HashTable, Run};
use super::key::{Key, KeyScratch, KeyZone, ZoneKey};
use super::plan::{How, PushedAggregate, Read};
use super::states::States;
use crate::error::Error;
use crate::scan::selected::Selected;
use crate::scan::task::{FrameRows, ScanOrder, ScanTask, TaskShape, ZONE_ROWS};

const ZONE_WORDS: usize = ZONE_ROWS / 64;
/// Tasks of a plan, each taken once.
pub(super) struct TaskList {
    tasks: Arc<[ScanTask]>,
    next: AtomicUsize,
    end: usize,
}

impl TaskList {
    /// All tasks.
    pub(super) fn all(plan: &PushedAggregate) -> TaskList {
        TaskList::of(plan, 0..plan.source.tasks.len())
    }

    /// The tasks with these numbers.
    pub(super) fn of(plan: &PushedAggregate, range: Range<usize>) -> TaskList {
        let (tasks, next) = (Arc::clone(&plan.source.tasks), AtomicUsize::new(range.start));
        TaskList { tasks, next, end: range.end }
    }

    /// The tasks of a part of the rows.
    pub(super) fn of_part(part: &Selected) -> TaskList {
        let tasks = part.tasks(TaskShape::new(ScanOrder::Any, 0));
        let (next, end) = (AtomicUsize::new(0), tasks.len());
        TaskList { tasks, next, end }
    }

    /// Returns the number of tasks.
    pub(super) fn len(&self) -> usize {
        self.end
    }

    /// Returns true if all were taken.
    pub(super) fn is_taken(&self) -> bool {
        self.end <= self.next.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self) -> Option<(usize, &ScanTask)> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        self.tasks[..self.end].get(at).map(|task| (at, task))
    }
}

/// A worker, with its memory.
pub(super) struct Worker<'p> {
    plan: &'p PushedAggregate,
    states: States,
    /// The groups of the states, if they are found by hash.
    hashing: Option<HashTable<'p>>,
    selection: Selection,
    scratch: Scratch,
}

/// The columns of a page frame.
#[derive(Clone, Copy)]
struct FrameColumns<'f> {
    columns: &'f [ZoneValues<'f>],
    task: &'f FrameRows,
    /// The position of its first row (aggregate-1).
    position: u64,
}

/// Memory that is reused for each zone.
struct Scratch {
    list: Vec<u16>,
    slots: Vec<u32>,
    ids: Vec<u32>,
    /// One for each key (`key`).
    keys: Vec<KeyScratch>,
    /// One for each of `PushedAggregate::distinct`.
    distinct: Vec<KeyScratch>,
    nulls: Vec<u32>,
    integers: Vec<i64>,
    floats: Vec<f64>,
}

impl<'p> Worker<'p> {
    pub(super) fn new(plan: &'p PushedAggregate) -> Worker<'p> {
        let scratch = Scratch {
            list: Vec::with_capacity(ZONE_ROWS),
            slots: vec![0; ZONE_ROWS],
            ids: vec![0; ZONE_ROWS],
            keys: plan.keys.iter().map(|_| KeyScratch::new(ZONE_ROWS)).collect(),
            distinct: plan.distinct.iter().map(|_| KeyScratch::new(ZONE_ROWS)).collect(),
            nulls: Vec::new(),
            integers: vec![0; ZONE_ROWS],
            floats: vec![0.0; ZONE_ROWS],
        };
        let selection = Selection::new();
        Worker { plan, states: States::new(plan), hashing: None, selection, scratch }
    }

    /// A worker that finds groups by hash.
    pub(super) fn hashing(
        plan: &'p PushedAggregate,
        keys: &'p HashKeys,
        memory: &'p HashMemory,
    ) -> Worker<'p> {
        Worker { hashing: Some(HashTable::new(keys, memory)), ..Worker::new(plan) }
    }

    /// Returns true if it has so many groups, of which some may be the same.
    pub(super) fn has_groups(&self, wanted: usize) -> bool {
        self.hashing.as_ref().is_some_and(|table| table.has_groups(wanted))
    }

    /// Returns the groups that were found by hash; `None` if there is no memory for them.
    pub(super) fn into_runs(mut self) -> Result<Option<Vec<Run>>> {
        self.hashing.expect("it finds groups by hash").into_runs(&mut self.states)
    }

    pub(super) fn into_states(self) -> States {
        self.states
    }

    /// Folds the rows of a task. If the memory of its groups is refused, it does not fold them all
    /// (`HashMemory::is_refused`).
    pub(super) fn fold(&mut self, number: usize, task: &ScanTask) -> Result<()> {
        match task {
            ScanTask::Rows(rows) => self.fold_frame(number, rows),
            ScanTask::Merge(inputs) => {
                inputs.iter().flatten().try_for_each(|rows| self.fold_frame(number, rows))
            }
        }
    }

    fn fold_frame(&mut self, number: usize, task: &FrameRows) -> Result<()> {
        let read = &self.plan.source.read;
        let request = read.request(task, task.rows.clone());
        if self.plan.columns.is_empty() {
            self.states.rows[0] += read.count(&request)? as u64;
            return Ok(());
        }
        let is_selected = read.select(&request, &mut self.selection)?;
        if is_selected == Some(0) {
            return Ok(());
        }
        let reader = task.segment.reader().map_err(Error::Storage)?;
        let frame = reader.frame(task.frame, &self.plan.columns).map_err(Error::Storage)?;
        let columns = frame.columns().iter().enumerate();
        let columns = columns.map(|(at, slice)| ZoneValues::new(at, slice, &NoSymbols));
        let columns =
            columns.collect::<tidegate_filter::Result<Vec<_>>>().map_err(Error::Filter)?;
        let columns = FrameColumns { columns: &columns, task, position: (number as u64) << 16 };
        let mut list = std::mem::take(&mut self.scratch.list);
        for zone in task.rows.start / ZONE_ROWS..task.rows.end.div_ceil(ZONE_ROWS) {
            let all = zone * ZONE_ROWS..((zone + 1) * ZONE_ROWS).min(frame.rows());
            let rows = if is_selected.is_some() {
                let words = &self.selection.words()[zone * ZONE_WORDS..][..ZONE_WORDS];
                ZoneRows::selected(zone, words, &mut list)
            } else {
                let start = all.start.max(task.rows.start);
                ZoneRows::Run { start, end: all.end.min(task.rows.end) }
            };
            let whole = (rows.count() == all.len()).then_some(zone);
            if !self.fold_zone(columns, rows, whole)? {
                break;
            }
        }
        self.scratch.list = list;
        Ok(())
    }

    /// Folds rows of a zone, whose number is `whole` if they are all of its rows; returns false if
    /// there is no memory for their groups. Rows with long texts are folded in pieces, and a
    /// statement that was stopped ends between them.
    fn fold_zone(
        &mut self,
        frame: FrameColumns<'_>,
        rows: ZoneRows<'_>,
        whole: Option<usize>,
    ) -> Result<bool> {
        let Worker { plan, states, hashing, scratch, .. } = self;
        let FrameColumns { columns, task, position } = frame;
        let segment = task.segment.meta.id;
        let (all, mut rest) = (rows.count(), rows);
        while 0 < rest.count() {
            let mut count = rest.count();
            let one = match hashing {
                None => slots(plan, columns, segment, rest, scratch)?,
                Some(hashing) => {
                    let stop = plan.source.read.stop.as_ref();
                    if let Some(reason) = stop.and_then(|stop| stop.reason()) {
                        return Err(Error::from(reason).into());
                    }
                    let zone = HashZone { columns, segment, rows: rest };
                    let found = hashing.find(&zone, states, &mut scratch.slots[..count])?;
                    let Some(found) = found else { return Ok(false) };
                    count = found;
                    None
                }
            };
            let (rows, behind) = rest.split_at(count);
            rest = behind;
            let slots = match one {
                Some(slot) => GroupIndices::Same(slot),
                None => GroupIndices::Each(&scratch.slots[..count]),
            };
            count_rows(&mut states.rows, slots, count);
            let symbols = &plan.source.read.snapshot.symbols;
            let calculated = plan.calculated.evaluate(task, rows, symbols)?;
            let batch = Batch { groups: slots, rows, position };
            let whole = whole.filter(|_| count == all);
            for read in &plan.reads {
                let values = &columns[read.column];
                let calculated = calculated.as_slice();
                let zone = ReadZone { read, values, calculated, segment, batch, whole };
                let memory = Memory {
                    ids: &mut scratch.ids[..count],
                    distinct: &mut scratch.distinct,
                    nulls: &mut scratch.nulls,
                    integers: &mut scratch.integers[..count],
                    floats: &mut scratch.floats[..count],
                };
                fold_column(plan, states, &zone, memory)?;
            }
        }
        Ok(true)
    }
}

/// Returns the slot of all rows of a zone, or those of each in `scratch.slots`.
fn slots(
    plan: &PushedAggregate,
    columns: &[ZoneValues<'_>],
    segment: SegmentId,
    rows: ZoneRows<'_>,
    scratch: &mut Scratch,
) -> Result<Option<usize>> {
    let count = rows.count();
    let mut same = Some(0_usize);
    for (key, memory) in plan.keys.iter().zip(&mut scratch.keys) {
        let ids = &mut scratch.ids[..count];
        let slots = &mut scratch.slots[..count];
        let domain = u32::try_from(key.domain).expect("aggregate_pushdown-1");
        let zone = KeyZone { values: &columns[key.column], segment, rows };
        match (key.ids(&zone, memory, ids)?, same) {
            (ZoneKey::Same(id), Some(slot)) => same = Some(slot * key.domain + id as usize),
            (ZoneKey::Same(id), None) => {
                slots.iter_mut().for_each(|slot| *slot = *slot * domain + id);
            }
            (ZoneKey::Each, Some(slot)) => {
                let above = u32::try_from(slot * key.domain).expect("aggregate_pushdown-1");
                slots.iter_mut().zip(ids).for_each(|(slot, id)| *slot = above + *id);
                same = None;
            }
            (ZoneKey::Each, None) => {
                slots.iter_mut().zip(ids).for_each(|(slot, id)| *slot = *slot * domain + *id);
            }
        }
    }
    Ok(same)
}

/// Memory for the values of a zone.
struct Memory<'m> {
    ids: &'m mut [u32],
    /// One for each of `PushedAggregate::distinct`.
    distinct: &'m mut [KeyScratch],
    nulls: &'m mut Vec<u32>,
    integers: &'m mut [i64],
    floats: &'m mut [f64],
}

/// Rows of a zone, and a column that is read for them.
struct ReadZone<'z> {
    read: &'z Read,
    values: &'z ZoneValues<'z>,
    /// Those of `PushedAggregate::calculated`.
    calculated: &'z [ArrayRef],
    segment: SegmentId,
    batch: Batch<'z>,
    /// The number of the zone, if all of its rows are read.
    whole: Option<usize>,
}

/// Folds one column of a zone.
fn fold_column(
    plan: &PushedAggregate,
    states: &mut States,
    zone: &ReadZone<'_>,
    memory: Memory<'_>,
) -> Result<()> {
    let ReadZone { read, values, batch, whole, .. } = zone;
    if let How::Ids(at) = read.how {
        return fold_ids(&plan.distinct[at], states, zone, &mut memory.distinct[at], memory.ids);
    }
    let ty = plan.columns[read.column].ty;
    let is_bound =
        |&fold: &usize| matches!(plan.folds[fold], AggregateKind::Min | AggregateKind::Max);
    let is_stored = matches!(read.how, How::Floats | How::Integers | How::Ordered);
    let is_plain = is_stored && read.filter.is_none();
    if let (GroupIndices::Same(slot), &Some(zone), Physical::Signed(_)) =
        (batch.groups, whole, ty.physical())
        && is_plain
        && read.folds.iter().all(is_bound)
        && let Some(Zone { has_value: true, min, max, .. }) = values.bounds(zone)
    {
        for &fold in &read.folds {
            let bound = if plan.folds[fold] == AggregateKind::Min { min } else { max };
            states.folds[fold].add_bound(slot, bound.cast_signed());
        }
        return Ok(());
    }
    if is_plain
        && !read.folds.iter().any(|&fold| plan.folds[fold].depends_on_position())
        && let Some(narrow) = values.narrow(batch.rows)
    {
        for &fold in &read.folds {
            states.folds[fold].add_narrow(batch.groups, &narrow);
        }
        return Ok(());
    }
    let Memory { nulls, integers, floats, .. } = memory;
    read_values(plan, zone, integers, floats)?;
    read_nulls(zone, nulls)?;
    for &fold in &read.folds {
        let is_float = plan.folds[fold] == AggregateKind::SumFloats;
        let given = match read.how {
            How::Rows | How::Nulls | How::Ids(_) => Values::Unread,
            How::Floats => Values::Floats(floats),
            How::Lengths(_) | How::Calculated(_) if is_float => Values::Floats(floats),
            How::Integers | How::Ordered | How::Lengths(_) | How::Calculated(_) => {
                Values::Integers(integers)
            }
        };
        states.folds[fold].add(batch, given, nulls);
    }
    Ok(())
}

/// Reads the rows of a zone that have no value for an aggregate.
fn read_nulls(zone: &ReadZone<'_>, nulls: &mut Vec<u32>) -> Result<()> {
    let ReadZone { read, values, calculated, batch, .. } = zone;
    match read.how {
        How::Rows => nulls.clear(),
        How::Calculated(at) => nulls_of(&calculated[at], nulls),
        _ => values.nulls(batch.rows, nulls),
    }
    match read.filter {
        None => Ok(()),
        Some(filter) => reject(&calculated[filter], nulls),
    }
}

/// Reads the values of a zone, as floats if one of the folds is a sum of them.
fn read_values(
    plan: &PushedAggregate,
    zone: &ReadZone<'_>,
    integers: &mut [i64],
    floats: &mut [f64],
) -> Result<()> {
    let ReadZone { read, values, calculated, batch, .. } = zone;
    let has = |kind: AggregateKind| read.folds.iter().any(|&fold| plan.folds[fold] == kind);
    match read.how {
        How::Rows | How::Nulls | How::Ids(_) => {}
        How::Lengths(unit) => {
            values.lengths(unit, batch.rows, integers).map_err(Error::Filter)?;
            // Lengths are summed as floats if their sum is one.
            if has(AggregateKind::SumFloats) {
                floats.iter_mut().zip(&*integers).for_each(|(to, from)| *to = *from as f64);
            }
        }
        How::Floats => values.floats(batch.rows, floats).map_err(Error::Filter)?,
        How::Integers | How::Ordered => {
            values.integers(batch.rows, integers).map_err(Error::Filter)?;
            let ty = plan.columns[read.column].ty;
            if read.how == How::Ordered && ty.physical() == Physical::Unsigned(8) {
                integers.iter_mut().for_each(|integer| *integer ^= i64::MIN);
            }
        }
        How::Calculated(at) => {
            if has(AggregateKind::SumFloats) {
                floats_of(&calculated[at], floats)?;
            }
            let is_integer = |&fold: &usize| {
                !matches!(plan.folds[fold], AggregateKind::Count | AggregateKind::SumFloats)
            };
            if read.folds.iter().any(is_integer) {
                integers_of(&calculated[at], integers)?;
            }
        }
    }
    Ok(())
}

/// Marks the ids of the values of a zone.
fn fold_ids(
    key: &Key,
    states: &mut States,
    zone: &ReadZone<'_>,
    scratch: &mut KeyScratch,
    ids: &mut [u32],
) -> Result<()> {
    let ReadZone { read, values, calculated, segment, batch, .. } = *zone;
    let found = key.ids(&KeyZone { values, segment, rows: batch.rows }, scratch, ids)?;
    let ids = match (found, read.filter) {
        (ZoneKey::Same(id), None) => ValueIds::Same(id),
        (ZoneKey::Each, None) => ValueIds::Each(ids),
        (found, Some(filter)) => {
            if let ZoneKey::Same(id) = found {
                ids.fill(id);
            }
            // The id of NULL, which is not counted (distinct-1).
            let mut rejected = Vec::new();
            reject(&calculated[filter], &mut rejected)?;
            rejected.iter().for_each(|&row| ids[row as usize] = 0);
            ValueIds::Each(ids)
        }
    };
    for &fold in &read.folds {
        states.folds[fold].add_ids(batch.groups, ids);
    }
    Ok(())
}
