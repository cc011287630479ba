//! Grouping keys that are calculated from one column: parts of times, also in a time zone, and
//! expressions of integers with few values.
//!
//! - computed_key-1. The values of the column are divided into cells of one width, and for all
//!   values of a cell the expression has the same value: the hour of a time is that of all times of
//!   its hour.
//! - Each expression is evaluated by DataFusion, for one row of each cell that has rows: its
//!   values, NULL and errors are those that it has for the rows.
//! - An id stands for a value of the expression, and is given when the value is first seen.
//! - A worker remembers the ids of so many cells that those of a table are mostly all of them.
//!
//! Not here: buckets of the designated timestamp, whose ids ascend (`key`).

use std::collections::HashMap;
use std::iter::once;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::physical_expr::expressions::{CaseExpr, Column as ColumnExpr, Literal};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use tidegate_filter::aggregate::{ZoneRows, ZoneValues};
use tidegate_model::{ColumnType, TimeUnit};

use super::integers::from_integers;
use super::stored::{stored_column, zones_of};
use crate::error::Error;
use crate::functions::date_trunc::TruncUnit;
use crate::functions::time::AT_TIME_ZONE;
use crate::scan::ScanSource;
use crate::types::zone::Zone;

/// The maximal number of values of a key: each is kept, and they are looked up in one map.
const VALUES_MAX: u64 = 65_536;
/// The maximal number of cells whose ids a worker remembers, a power of two.
const CELLS_MAX: u64 = 65_536;
/// The maximal number of nodes of an expression.
const NODES_MAX: usize = 64;
const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;
/// The first second of 1974. From 1973 on, the clocks of all zones differ from UTC by whole
/// minutes, and change at whole minutes.
const WHOLE_MINUTES_FROM: i64 = 126_230_400;
/// The id of a cell that is not known.
const NONE: u32 = u32::MAX;
/// The bit of an id that is an index of `CellCache::unknown`.
const UNKNOWN: u32 = 1 << 31;

/// A key that is calculated from one column.
#[derive(Debug)]
pub(super) struct ComputedKey {
    /// The index of the column in the scan.
    pub(super) column: usize,
    /// The maximal number of ids, with that of NULL.
    pub(super) domain: usize,
    /// The expression over `schema`.
    expr: Arc<dyn PhysicalExpr>,
    /// The schema of the column alone.
    schema: SchemaRef,
    /// The width of a cell, in the unit of the column (computed_key-1).
    width: i64,
    /// The number of cells that a worker remembers, a power of two.
    remembered: usize,
    /// True if the values of a zone ascend.
    ascends: bool,
    known: Mutex<ValueIds>,
}

#[derive(Debug, Default)]
struct ValueIds {
    ids: HashMap<ScalarValue, u32>,
    /// The values of the ids 1, 2, ...
    values: Vec<ScalarValue>,
}

/// Rows of a zone, and the column for them.
#[derive(Clone, Copy)]
pub(super) struct CellZone<'z> {
    pub(super) values: &'z ZoneValues<'z>,
    pub(super) rows: ZoneRows<'z>,
    /// The indexes of the rows that are NULL, ascending.
    pub(super) nulls: &'z [u32],
}

/// The ids of cells that a worker remembers, each at the place of the lower bits of its number.
#[derive(Debug, Default)]
pub(super) struct CellCache {
    cells: Vec<KnownCell>,
    /// The id of NULL in the column.
    null: Option<u32>,
    /// A value of each cell of the zone that was not known.
    unknown: Vec<i64>,
}

#[derive(Debug, Clone, Copy)]
struct KnownCell {
    number: i64,
    id: u32,
}

impl ComputedKey {
    /// Returns the key of an expression over a scan's columns; `None` if it depends on more than
    /// the cells of one column, or may have too many values.
    pub(super) fn of(
        expr: &Arc<dyn PhysicalExpr>,
        source: &ScanSource,
    ) -> Result<Option<ComputedKey>> {
        let ty = expr.data_type(&source.read.schema)?;
        if !has_few_bytes(expr, &ty) {
            return Ok(None);
        }
        let mut nodes = NODES_MAX;
        let Dependence::Cells(found) = dependence(expr, source, &mut nodes)? else {
            return Ok(None);
        };
        let Cells { column, width, cells, values } = found;
        if VALUES_MAX < values {
            return Ok(None);
        }
        let schema = Arc::new(Schema::new(vec![source.read.schema.field(column).clone()]));
        let designated = source.read.snapshot.schema.designated();
        let remembered = cells.min(source.selected.counts.rows).clamp(1, CELLS_MAX);
        let remembered = remembered.next_power_of_two();
        Ok(Some(ComputedKey {
            column,
            // The id of NULL, and that of the value for NULL in the column.
            domain: usize::try_from(values + 2).expect("at most VALUES_MAX"),
            expr: reassign_expr_columns(Arc::clone(expr), &schema)?,
            schema,
            width,
            remembered: usize::try_from(remembered).expect("at most CELLS_MAX"),
            ascends: stored_column(column, source).map(|it| it.id) == designated,
            known: Mutex::default(),
        }))
    }

    /// Returns the id of all rows of a zone, or writes that of each. `integers` has the place of
    /// their values.
    pub(super) fn ids(
        &self,
        zone: &CellZone<'_>,
        cache: &mut CellCache,
        integers: &mut [i64],
        ids: &mut [u32],
    ) -> Result<Option<u32>> {
        let CellZone { values, rows, nulls } = *zone;
        values.integers(rows, integers).map_err(Error::Filter)?;
        if cache.cells.is_empty() {
            cache.cells = vec![KnownCell { number: 0, id: NONE }; self.remembered];
        }
        // The value below a NULL is none of the column.
        let first = nulls.iter().zip(0_u32..).take_while(|&(&null, at)| null == at).count();
        let Some(&value) = integers.get(first) else { return self.null_id(cache).map(Some) };
        for &null in nulls {
            integers[null as usize] = value;
        }
        let cell = |value: i64| value.div_euclid(self.width);
        if self.ascends
            && nulls.is_empty()
            && integers.last().map(|&it| cell(it)) == Some(cell(value))
        {
            self.find(&[value], cache, &mut ids[..1])?;
            return Ok(Some(ids[0]));
        }
        self.find(integers, cache, ids)?;
        if !nulls.is_empty() {
            let id = self.null_id(cache)?;
            nulls.iter().for_each(|&null| ids[null as usize] = id);
        }
        Ok(None)
    }

    /// Writes the ids of values, none of them NULL.
    fn find(&self, values: &[i64], cache: &mut CellCache, ids: &mut [u32]) -> Result<()> {
        let CellCache { cells, unknown, .. } = cache;
        let slots = cells.len();
        let width = self.width.cast_unsigned();
        unknown.clear();
        let (mut start, mut id) = (0_i64, NONE);
        for (out, &value) in ids.iter_mut().zip(values) {
            if id == NONE || width <= value.wrapping_sub(start).cast_unsigned() {
                let number = value.div_euclid(self.width);
                start = number.wrapping_mul(self.width);
                let cell = &mut cells[slot(number, slots)];
                if cell.number != number || cell.id == NONE {
                    let index = u32::try_from(unknown.len()).expect("a zone has 4,096 rows");
                    *cell = KnownCell { number, id: UNKNOWN | index };
                    unknown.push(value);
                }
                id = cell.id;
            }
            *out = id;
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let found = self.evaluate(unknown.clone(), None)?;
        for ((index, &value), &id) in (0_u32..).zip(&*unknown).zip(&found) {
            let cell = &mut cells[slot(value.div_euclid(self.width), slots)];
            // Another cell may have taken its place.
            if cell.id == UNKNOWN | index {
                cell.id = id;
            }
        }
        for id in ids {
            if *id & UNKNOWN != 0 {
                *id = found[(*id & !UNKNOWN) as usize];
            }
        }
        Ok(())
    }

    fn null_id(&self, cache: &mut CellCache) -> Result<u32> {
        if let Some(id) = cache.null {
            return Ok(id);
        }
        let id = self.evaluate(vec![0], Some(vec![false]))?[0];
        cache.null = Some(id);
        Ok(id)
    }

    /// Returns the ids of the values that the expression has for these of the column.
    fn evaluate(&self, values: Vec<i64>, valid: Option<Vec<bool>>) -> Result<Vec<u32>> {
        let count = values.len();
        let array = from_integers(values, valid, self.schema.field(0).data_type())?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![array])?;
        let results = self.expr.evaluate(&batch)?.into_array(count)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let value = |at| ScalarValue::try_from_array(&results, at);
        (0..count).map(|at| known.id(value(at)?, self.domain)).collect()
    }

    /// Returns the values of ids.
    pub(super) fn values(&self, ids: &[usize], ty: &DataType) -> Result<ArrayRef> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let null = ScalarValue::try_new_null(ty)?;
        let all = ScalarValue::iter_to_array(once(null).chain(known.values.iter().cloned()))?;
        let ids = ids.iter().map(|&id| u32::try_from(id).expect("an id of `ValueIds`"));
        let values = take(&all, &UInt32Array::from_iter_values(ids), None)?;
        if values.data_type() == ty { Ok(values) } else { Ok(cast(&values, ty)?) }
    }
}

impl ValueIds {
    fn id(&mut self, value: ScalarValue, domain: usize) -> Result<u32> {
        if value.is_null() {
            return Ok(0);
        }
        if let Some(&id) = self.ids.get(&value) {
            return Ok(id);
        }
        self.values.push(value.clone());
        let id = u32::try_from(self.values.len()).ok().filter(|&id| (id as usize) < domain);
        let Some(id) = id else {
            return internal_err!("key-1: an expression has more than {domain} values");
        };
        self.ids.insert(value, id);
        Ok(id)
    }
}

/// Returns the place of a cell among so many, a power of two.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower bits are wanted")]
fn slot(number: i64, slots: usize) -> usize {
    number.cast_unsigned() as usize & (slots - 1)
}

/// Returns true if the values of an expression take so few bytes that they need no reservation.
fn has_few_bytes(expr: &Arc<dyn PhysicalExpr>, ty: &DataType) -> bool {
    let is_literal = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Literal>().is_some();
    match ty {
        DataType::Boolean | DataType::Date32 | DataType::Timestamp(..) => true,
        DataType::Utf8 | DataType::Utf8View => {
            // Those that are written in the statement.
            expr.downcast_ref::<CaseExpr>().is_some_and(|case| {
                case.when_then_expr().iter().all(|(_, then)| is_literal(then))
                    && case.else_expr().is_none_or(is_literal)
            })
        }
        ty => ty.is_integer(),
    }
}

/// The dependence of an expression on the columns of a scan.
enum Dependence {
    Constant,
    /// It is the same in a cell.
    Cells(Cells),
    /// It depends on more, or nothing is known.
    Unknown,
}

/// Cells of a column (computed_key-1).
#[derive(Clone, Copy)]
struct Cells {
    /// The index of the column in the scan.
    column: usize,
    /// Their width, in the unit of the column.
    width: i64,
    /// The maximal number of those that have rows.
    cells: u64,
    /// The maximal number of values of the expression, without NULL.
    values: u64,
}

impl Cells {
    /// Returns the cells of an expression of two expressions.
    fn join(self, other: Cells) -> Dependence {
        let (least, greatest) = (self.width.min(other.width), self.width.max(other.width));
        if self.column != other.column || greatest % least != 0 {
            return Dependence::Unknown;
        }
        let cells = self.cells.max(other.cells);
        let values = (self.values + 1).saturating_mul(other.values + 1);
        Dependence::Cells(Cells { width: least, cells, values: values.min(cells + 1), ..self })
    }
}

/// Returns the dependence of an expression with at most so many nodes.
fn dependence(
    expr: &Arc<dyn PhysicalExpr>,
    source: &ScanSource,
    nodes: &mut usize,
) -> Result<Dependence> {
    let Some(left) = nodes.checked_sub(1) else { return Ok(Dependence::Unknown) };
    *nodes = left;
    if expr.downcast_ref::<Literal>().is_some() {
        return Ok(Dependence::Constant);
    }
    if let Some(column) = expr.downcast_ref::<ColumnExpr>() {
        return of_column(column.index(), source);
    }
    if let Some((time, part)) = time_part(expr) {
        let found = of_part(time, part, source)?;
        if let Dependence::Cells(_) = found {
            return Ok(found);
        }
    }
    let children = expr.children();
    if expr.is_volatile_node() || children.is_empty() {
        return Ok(Dependence::Unknown);
    }
    let mut all = Dependence::Constant;
    for child in children {
        all = match (all, dependence(child, source, nodes)?) {
            (Dependence::Unknown, _) | (_, Dependence::Unknown) => return Ok(Dependence::Unknown),
            (Dependence::Constant, other) | (other, Dependence::Constant) => other,
            (Dependence::Cells(one), Dependence::Cells(other)) => one.join(other),
        };
    }
    Ok(all)
}

/// Returns the dependence on all values of a column, if they are integers, and few.
fn of_column(column: usize, source: &ScanSource) -> Result<Dependence> {
    let Some(stored) = stored_column(column, source) else { return Ok(Dependence::Unknown) };
    Ok(match stored.ty {
        ColumnType::Boolean => Dependence::Cells(Cells { column, width: 1, cells: 2, values: 2 }),
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::Date => {
            let (least, greatest) = bounds(column, source)?;
            let values = u64::try_from(greatest - least + 1).unwrap_or(u64::MAX);
            if VALUES_MAX < values {
                return Ok(Dependence::Unknown);
            }
            Dependence::Cells(Cells { column, width: 1, cells: values, values })
        }
        ColumnType::UInt64
        | ColumnType::Float32
        | ColumnType::Float64
        | ColumnType::Decimal { .. }
        | ColumnType::Timestamp(_)
        | ColumnType::Symbol
        | ColumnType::Varchar
        | ColumnType::Binary
        | ColumnType::Uuid
        | ColumnType::Ipv4 => Dependence::Unknown,
    })
}

/// Returns the least and the greatest value of a column of integers or times, or lower and upper
/// bounds of them; 0 without values.
fn bounds(column: usize, source: &ScanSource) -> Result<(i128, i128)> {
    let Some(stored) = stored_column(column, source) else { return Ok((0, 0)) };
    if source.read.snapshot.schema.designated() == Some(stored.id) {
        let (least, greatest) = source.selected_times();
        return Ok((least.into(), greatest.max(least).into()));
    }
    let zones = zones_of(stored, source)?;
    let least = zones.iter().map(|zone| zone.min.cast_signed()).min().unwrap_or(0);
    let greatest = zones.iter().map(|zone| zone.max.cast_signed()).max().unwrap_or(0);
    Ok((least.into(), greatest.max(least).into()))
}

/// A part of a time: the hour of the day, or the start of the hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TimePart {
    /// The nanoseconds from one multiple of which to the next it is the same.
    grain: i128,
    count: PartCount,
    zone: Option<Zone>,
}

/// The number of values of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartCount {
    /// So many.
    Values(u64),
    /// One for each so many nanoseconds.
    Each(i128),
}

/// Returns the dependence of a part of a time.
fn of_part(
    time: &Arc<dyn PhysicalExpr>,
    part: TimePart,
    source: &ScanSource,
) -> Result<Dependence> {
    let mut zones = part.zone.into_iter().collect::<Vec<_>>();
    let moved =
        column_of_time(time, &mut zones).and_then(|at| Some((at, stored_column(at, source)?)));
    let Some((column, stored)) = moved else { return Ok(Dependence::Unknown) };
    let (least, greatest) = bounds(column, source)?;
    let (nanos, width) = match stored.ty {
        ColumnType::Date => (DAY, 1),
        ColumnType::Timestamp(unit) => {
            let nanos = nanos_per(unit);
            let is_modern = i128::from(WHOLE_MINUTES_FROM) * SECOND <= least * nanos;
            let shifts = zones.iter().map(|zone| shift_of(*zone, is_modern));
            let grain = shifts.fold(part.grain, i128::min);
            (nanos, grain / nanos)
        }
        _ => return Ok(Dependence::Unknown),
    };
    // A day of 25 hours, or a zone that begins another offset within an hour, has a value more.
    let of_zones = if zones.is_empty() { 1 } else { 2 };
    let span = greatest - least;
    let Some(width) = i64::try_from(width).ok().filter(|&width| 0 < width) else {
        return Ok(Dependence::Unknown);
    };
    let count = |count: i128| u64::try_from(count).unwrap_or(u64::MAX / 2);
    let cells = count(span / i128::from(width) + 2);
    let values = match part.count {
        PartCount::Values(values) => values,
        PartCount::Each(each) => count(span * nanos * of_zones / each + 4),
    };
    Ok(Dependence::Cells(Cells { column, width, cells, values: values.min(cells) }))
}

/// Returns the nanoseconds of which all offsets of a zone, and the times from which on they hold,
/// are multiples.
fn shift_of(zone: Zone, is_modern: bool) -> i128 {
    match zone {
        Zone::Fixed(0) => DAY,
        Zone::Fixed(offset) if offset % 60 == 0 => 60 * SECOND,
        Zone::Named(_) if is_modern => 60 * SECOND,
        Zone::Fixed(_) | Zone::Named(_) => SECOND,
    }
}

/// Returns the column of a time, from which it may be moved between zones.
fn column_of_time(mut time: &Arc<dyn PhysicalExpr>, zones: &mut Vec<Zone>) -> Option<usize> {
    for _ in 0..NODES_MAX {
        if let Some(column) = time.downcast_ref::<ColumnExpr>() {
            return Some(column.index());
        }
        let call = time.downcast_ref::<ScalarFunctionExpr>()?;
        let is_moved = matches!(call.fun().name(), AT_TIME_ZONE | "to_timezone" | "to_utc");
        let [inner, zone] = call.args() else { return None };
        zones.push(Zone::parse(&text_of(zone).filter(|_| is_moved)?)?);
        time = inner;
    }
    None
}

/// Returns a time and the part of it that an expression is.
fn time_part(expr: &Arc<dyn PhysicalExpr>) -> Option<(&Arc<dyn PhysicalExpr>, TimePart)> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    Some(match (call.fun().name(), call.args()) {
        ("date_part", [name, time]) => (time, part_of_text(&text_of(name)?)?),
        ("date_trunc", [unit, time]) => (time, start_of(&text_of(unit)?)?),
        ("date_trunc", [unit, time, zone]) => {
            let zone = Some(Zone::parse(&text_of(zone)?)?);
            (time, TimePart { zone, ..start_of(&text_of(unit)?)? })
        }
        (name, [time]) => (time, part_of_function(name)?),
        _ => return None,
    })
}

/// Returns the start of a unit.
fn start_of(unit: &str) -> Option<TimePart> {
    let unit = TruncUnit::parse(unit)?;
    let (grain, each) = (unit.nanos().map_or(DAY, i128::from), unit.least_nanos());
    Some(TimePart { grain, count: PartCount::Each(each), zone: None })
}

/// Returns a part of `date_part`, of those that are integers.
fn part_of_text(name: &str) -> Option<TimePart> {
    const YEAR: i128 = 365 * DAY;
    let values = PartCount::Values;
    let (grain, count) = match name.to_ascii_lowercase().as_str() {
        "min" | "mins" | "minute" | "minutes" => (60 * SECOND, values(60)),
        "h" | "hr" | "hrs" | "hour" | "hours" => (3_600 * SECOND, values(24)),
        "d" | "day" | "days" => (DAY, values(31)),
        "dow" | "isodow" => (DAY, values(7)),
        "doy" => (DAY, values(366)),
        "w" | "week" | "weeks" => (DAY, values(53)),
        "mon" | "mons" | "month" | "months" => (DAY, values(12)),
        "qtr" | "quarter" => (DAY, values(4)),
        "y" | "yr" | "yrs" | "year" | "years" | "isoyear" => (DAY, PartCount::Each(YEAR)),
        "dec" | "decs" | "decade" | "decades" => (DAY, PartCount::Each(10 * YEAR)),
        "c" | "cent" | "century" | "centuries" => (DAY, PartCount::Each(100 * YEAR)),
        "mil" | "mils" | "millennium" | "millennia" => (DAY, PartCount::Each(1_000 * YEAR)),
        _ => return None,
    };
    Some(TimePart { grain, count, zone: None })
}

/// Returns the part of a time that a function with its name returns.
fn part_of_function(name: &str) -> Option<TimePart> {
    let (grain, values) = match name {
        "millis" => (SECOND / 1_000, 1_000),
        "second" => (SECOND, 60),
        "day_of_week" | "day_of_week_sunday_first" => (DAY, 7),
        "week_of_year" => (DAY, 53),
        "days_in_month" => (DAY, 4),
        "is_leap_year" => (DAY, 2),
        "minute" | "hour" | "day" | "month" | "year" => return part_of_text(name),
        _ => return None,
    };
    Some(TimePart { grain, count: PartCount::Values(values), zone: None })
}

fn text_of(expr: &Arc<dyn PhysicalExpr>) -> Option<String> {
    expr.downcast_ref::<Literal>()?.value().try_as_str().flatten().map(str::to_owned)
}

fn nanos_per(unit: TimeUnit) -> i128 {
    i128::from(1_000_000_000 / unit.per_second())
}
