//! Grouping keys as small integers.
//!
//! - key-1. A key has an id below its domain for each of its values; 0 is NULL.
//! - Ids are the same for all workers, so that their states can be merged slot by slot.
//! - Buckets of the designated timestamp ascend with it: a zone that begins and ends in the same
//!   bucket is in that bucket as a whole.
//! - Each key has a scratch of its own: a bucket found by one key is not that of another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::physical_expr::expressions::{CastExpr, Column as ColumnExpr, Literal};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use tidegate_filter::aggregate::{ZoneRows, ZoneValues};
use tidegate_model::{ColumnType, SegmentId, TimeUnit};
use tidegate_storage::SymbolTable;
use tidegate_storage::segment::arrow_type;

use crate::error::Error;
use crate::functions::date_trunc::TruncUnit;
use crate::functions::sample_bucket::{bucket_grid, bucket_stride};
use crate::scan::ScanSource;
use crate::scan::aggregate_pushdown::computed_key::{CellCache, CellZone, ComputedKey};
use crate::scan::aggregate_pushdown::integers::{from_integers, integers_of};
use crate::scan::aggregate_pushdown::stored::{stored_column, zones_of};
use crate::types::bucket::{Grid, Stride};

/// The maximal number of texts in the dictionaries of all segments together for a key: each is
/// looked up once for each segment, which is slower than hashing if each text has few rows.
const TEXTS_MAX: usize = 8_192;

/// A key over one column.
#[derive(Debug)]
pub(super) struct Key {
    /// The index in `PushedAggregate::columns`.
    pub(super) column: usize,
    /// The maximal number of ids (key-1).
    pub(super) domain: usize,
    kind: Kind,
    ty: DataType,
}

#[derive(Debug)]
enum Kind {
    /// Symbols: their ids in the table.
    Symbol(Arc<SymbolTable>, CodeIds),
    /// Texts of dictionaries.
    Text(Mutex<TextIds>, CodeIds),
    /// Integers from the least one on.
    Integer { least: i64 },
    /// false and true.
    Boolean,
    /// Buckets of the designated timestamp by their numbers, from the one with this number on.
    Grid { grid: Grid, base: i128 },
    /// Other buckets of the designated timestamp.
    Bucket(Bucket),
    /// Other expressions of a column.
    Computed(ComputedKey),
}

/// Buckets of the designated timestamp.
#[derive(Debug)]
struct Bucket {
    /// The expression of the bucket over `schema`.
    expr: Arc<dyn PhysicalExpr>,
    /// The schema of the timestamp alone.
    schema: SchemaRef,
    ids: Mutex<BucketIds>,
}

/// The ids of the codes of each segment.
type CodeIds = Mutex<HashMap<SegmentId, Arc<Vec<u32>>>>;

#[derive(Debug, Default)]
struct TextIds {
    ids: HashMap<Vec<u8>, u32>,
    texts: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct BucketIds {
    ids: HashMap<i64, u32>,
    starts: Vec<i64>,
}

/// Rows of a zone, and the column of a key for them.
#[derive(Clone, Copy)]
pub(super) struct KeyZone<'z> {
    pub(super) values: &'z ZoneValues<'z>,
    pub(super) segment: SegmentId,
    pub(super) rows: ZoneRows<'z>,
}

/// The key of rows of a zone.
pub(super) enum ZoneKey {
    /// All rows have the same one.
    Same(u32),
    /// Each row has its own.
    Each,
}

impl Key {
    /// Returns the key of an expression over a scan's columns; `None` if it cannot be one. `column`
    /// returns the place of a column of the scan.
    pub(super) fn of(
        expr: &Arc<dyn PhysicalExpr>,
        source: &ScanSource,
        column: &mut impl FnMut(usize) -> usize,
    ) -> Result<Option<Key>> {
        let ty = expr.data_type(&source.read.schema)?;
        if let Some(named) = expr.downcast_ref::<ColumnExpr>() {
            let Some((kind, domain)) = of_column(named.index(), source)? else { return Ok(None) };
            return Ok(Some(Key { column: column(named.index()), domain, kind, ty }));
        }
        match Key::of_bucket(expr, &ty, source, column)? {
            Some(key) => Ok(Some(key)),
            None => Ok(ComputedKey::of(expr, source)?.map(|computed| {
                let (column, domain) = (column(computed.column), computed.domain);
                Key { column, domain, kind: Kind::Computed(computed), ty }
            })),
        }
    }

    /// Returns the key of an expression that is a bucket of the designated timestamp.
    fn of_bucket(
        expr: &Arc<dyn PhysicalExpr>,
        ty: &DataType,
        source: &ScanSource,
        column: &mut impl FnMut(usize) -> usize,
    ) -> Result<Option<Key>> {
        let Some((at, nanos)) = bucketed(expr) else { return Ok(None) };
        let snapshot = &source.read.snapshot;
        let Some(designated) = stored_column(at, source) else { return Ok(None) };
        let ColumnType::Timestamp(unit) = designated.ty else { return Ok(None) };
        // A decade of nanoseconds is a time of microseconds.
        let is_time = *ty == DataType::Date32 || *ty == arrow_type(designated.ty);
        if snapshot.schema.designated() != Some(designated.id) || !is_time {
            return Ok(None);
        }
        let ty = ty.clone();
        let (least, greatest) = source.selected_times();
        if let Some(grid) = grid_of(expr) {
            let base = grid.index(least);
            // The id of NULL and that of the last bucket.
            let domain = usize::try_from(grid.index(greatest.max(least)) - base + 2);
            let Ok(domain) = domain else { return Ok(None) };
            let kind = Kind::Grid { grid, base };
            return Ok(Some(Key { column: column(at), domain, kind, ty }));
        }
        let span = (i128::from(greatest) - i128::from(least)) * nanos_per(unit);
        let Ok(domain) = usize::try_from(span / nanos.max(1) + 3) else { return Ok(None) };
        let schema = Arc::new(Schema::new(vec![source.read.schema.field(at).clone()]));
        let expr = reassign_expr_columns(Arc::clone(expr), &schema)?;
        let kind = Kind::Bucket(Bucket { expr, schema, ids: Mutex::default() });
        Ok(Some(Key { column: column(at), domain, kind, ty }))
    }

    /// Returns the ids of rows of a zone, in `ids` if they differ. `scratch` is of this key alone.
    pub(super) fn ids(
        &self,
        zone: &KeyZone<'_>,
        scratch: &mut KeyScratch,
        ids: &mut [u32],
    ) -> Result<ZoneKey> {
        let KeyZone { values, segment, rows } = *zone;
        values.nulls(rows, &mut scratch.nulls);
        match &self.kind {
            Kind::Symbol(_, codes) | Kind::Text(_, codes) => {
                let known = self.code_ids(values, segment, codes)?;
                values.codes(rows, ids).map_err(Error::Filter)?;
                for id in ids.iter_mut() {
                    // Codes under NULL are 0, even where there is no code.
                    *id = known.get(*id as usize).copied().unwrap_or(0);
                }
            }
            Kind::Integer { least } => {
                let integers = &mut scratch.integers[..ids.len()];
                values.integers(rows, integers).map_err(Error::Filter)?;
                for (id, integer) in ids.iter_mut().zip(integers) {
                    let above = integer.wrapping_sub(*least).wrapping_add(1).cast_unsigned();
                    *id = u32::try_from(above).unwrap_or(0);
                }
            }
            Kind::Boolean => {
                let integers = &mut scratch.integers[..ids.len()];
                values.integers(rows, integers).map_err(Error::Filter)?;
                for (id, integer) in ids.iter_mut().zip(integers) {
                    *id = if *integer == 0 { 1 } else { 2 };
                }
            }
            &Kind::Grid { grid, base } => {
                let times = &mut scratch.integers[..ids.len()];
                values.integers(rows, times).map_err(Error::Filter)?;
                return GridCursor { grid, base, domain: self.domain, known: &mut scratch.cell }
                    .ids(times, ids);
            }
            Kind::Bucket(bucket) => return self.bucket_ids(bucket, zone, scratch, ids),
            Kind::Computed(computed) => {
                let KeyScratch { integers, nulls, cells, .. } = scratch;
                let zone = CellZone { values, rows, nulls };
                let same = computed.ids(&zone, cells, &mut integers[..ids.len()], ids)?;
                return Ok(same.map_or(ZoneKey::Each, ZoneKey::Same));
            }
        }
        for &null in &scratch.nulls {
            ids[null as usize] = 0;
        }
        if ids.iter().any(|&id| id as usize >= self.domain) {
            return internal_err!("key-1: an id of {} is too large", self.ty);
        }
        Ok(ZoneKey::Each)
    }

    fn bucket_ids(
        &self,
        bucket: &Bucket,
        zone: &KeyZone<'_>,
        scratch: &mut KeyScratch,
        ids: &mut [u32],
    ) -> Result<ZoneKey> {
        let Bucket { expr, schema, ids: known } = bucket;
        let KeyZone { values, rows, .. } = *zone;
        let times = &mut scratch.integers[..ids.len()];
        values.integers(rows, times).map_err(Error::Filter)?;
        let starts_of = |times: &[i64]| -> Result<Vec<i64>> {
            let array = from_integers(times.to_vec(), None, schema.field(0).data_type())?;
            let batch = RecordBatch::try_new(Arc::clone(schema), vec![array])?;
            integers_of(&expr.evaluate(&batch)?.into_array(times.len())?)
        };
        let [first, .., last] = *times else {
            let starts = starts_of(times)?;
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(ZoneKey::Same(known.id(starts[0], self.domain)?));
        };
        let ends = match scratch.bucket {
            Some(known) if known.first <= first && last <= known.last => [known.start; 2],
            _ => {
                let ends = starts_of(&[first, last])?;
                [ends[0], ends[1]]
            }
        };
        if ends[0] == ends[1] {
            scratch.bucket = Some(KnownBucket { first, last, start: ends[0] });
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(ZoneKey::Same(known.id(ends[0], self.domain)?));
        }
        let starts = starts_of(times)?;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut latest = None;
        for (id, start) in ids.iter_mut().zip(starts) {
            *id = match latest {
                Some((of, id)) if of == start => id,
                _ => known.id(start, self.domain)?,
            };
            latest = Some((start, *id));
        }
        Ok(ZoneKey::Each)
    }

    /// Returns the ids of a segment's codes.
    fn code_ids(
        &self,
        values: &ZoneValues<'_>,
        segment: SegmentId,
        known: &CodeIds,
    ) -> Result<Arc<Vec<u32>>> {
        let Some(count) = values.dictionary_count() else { return Ok(Arc::default()) };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ids) = known.get(&segment) {
            return Ok(Arc::clone(ids));
        }
        let mut ids = Vec::with_capacity(count);
        for code in 0..count {
            ids.push(match &self.kind {
                Kind::Symbol(..) => values.symbol(code).map_err(Error::Filter)?.0 + 1,
                Kind::Text(texts, _) => {
                    let text = values.text(code as u64).map_err(Error::Filter)?;
                    texts.lock().unwrap_or_else(PoisonError::into_inner).id(text)?
                }
                Kind::Integer { .. }
                | Kind::Boolean
                | Kind::Grid { .. }
                | Kind::Bucket(_)
                | Kind::Computed(_) => 0,
            });
        }
        let ids = Arc::new(ids);
        known.insert(segment, Arc::clone(&ids));
        Ok(ids)
    }

    /// Returns the least value, if it is an integer.
    pub(super) fn least(&self) -> Option<i64> {
        match self.kind {
            Kind::Integer { least } => Some(least),
            _ => None,
        }
    }

    /// Returns true if it is a bucket of the designated timestamp.
    pub(super) fn is_bucket(&self) -> bool {
        matches!(self.kind, Kind::Grid { .. } | Kind::Bucket(_))
    }

    /// Returns the width of the bucket at a time, if it is known without rows.
    pub(super) fn bucket_width(&self, time: i64) -> Option<i64> {
        let Kind::Grid { grid, .. } = &self.kind else { return None };
        let index = grid.index(time);
        Some(grid.start(index + 1).saturating_sub(grid.start(index)))
    }

    /// Returns the starts of the buckets of the ids 1, 2, ..., if it is a bucket.
    pub(super) fn bucket_starts(&self) -> Option<Vec<i64>> {
        match &self.kind {
            Kind::Grid { grid, base } => {
                Some((0..self.domain - 1).map(|at| grid.start(base + at as i128)).collect())
            }
            Kind::Bucket(bucket) => {
                Some(bucket.ids.lock().unwrap_or_else(PoisonError::into_inner).starts.clone())
            }
            _ => None,
        }
    }

    /// Returns the values of ids.
    pub(super) fn values(&self, ids: &[usize]) -> Result<ArrayRef> {
        let integers = |value_of: &dyn Fn(usize) -> i64| {
            let values = ids.iter().map(|&id| if id == 0 { 0 } else { value_of(id) }).collect();
            let valid = ids.iter().map(|&id| id != 0).collect::<Vec<_>>();
            from_integers(values, Some(valid), &self.ty)
        };
        let texts = |text_of: &dyn Fn(usize) -> Result<Vec<u8>>| -> Result<ArrayRef> {
            let mut builder = StringViewBuilder::with_capacity(ids.len());
            for &id in ids {
                if id == 0 {
                    builder.append_null();
                    continue;
                }
                match String::from_utf8(text_of(id)?) {
                    Ok(text) => builder.append_value(text),
                    Err(_) => return internal_err!("a text is no UTF-8"),
                }
            }
            cast_to(&(Arc::new(builder.finish()) as ArrayRef), &self.ty)
        };
        match &self.kind {
            Kind::Symbol(symbols, _) => texts(&|id| {
                let symbol = u32::try_from(id - 1).unwrap_or(u32::MAX);
                Ok(symbols.text(tidegate_model::SymbolId(symbol)).to_vec())
            }),
            Kind::Text(known, _) => {
                let known = known.lock().unwrap_or_else(PoisonError::into_inner);
                texts(&|id| Ok(known.texts[id - 1].clone()))
            }
            Kind::Integer { least } => {
                integers(&|id| least.wrapping_add(id as i64).wrapping_sub(1))
            }
            Kind::Boolean => {
                let values = ids.iter().map(|&id| (id != 0).then_some(id == 2));
                Ok(Arc::new(values.collect::<BooleanArray>()))
            }
            Kind::Grid { grid, base } => integers(&|id| grid.start(base + id as i128 - 1)),
            Kind::Bucket(bucket) => {
                let known = bucket.ids.lock().unwrap_or_else(PoisonError::into_inner);
                integers(&|id| known.starts[id - 1])
            }
            Kind::Computed(computed) => computed.values(ids, &self.ty),
        }
    }
}

/// Memory for finding the ids of one key, reused for each zone.
#[derive(Debug)]
pub(super) struct KeyScratch {
    integers: Vec<i64>,
    nulls: Vec<u32>,
    /// The bucket of the zone before, if that was in one.
    bucket: Option<KnownBucket>,
    /// The bucket of the row before, of a grid.
    cell: GridCell,
    /// The ids of the cells that were read, of an expression.
    cells: CellCache,
}

/// A bucket of a grid, from its start to the start of the next one.
#[derive(Debug, Clone, Copy, Default)]
struct GridCell {
    start: i64,
    end: i64,
    id: u32,
}

/// A search for the buckets of times, mostly that of the time before.
struct GridCursor<'k> {
    grid: Grid,
    base: i128,
    domain: usize,
    known: &'k mut GridCell,
}

impl GridCursor<'_> {
    /// Returns the ids of ascending times, in `ids` if they differ.
    fn ids(mut self, times: &[i64], ids: &mut [u32]) -> Result<ZoneKey> {
        let [first, .., last] = *times else { return Ok(ZoneKey::Same(self.id(times[0])?)) };
        let of_first = self.id(first)?;
        if last < self.known.end {
            return Ok(ZoneKey::Same(of_first));
        }
        for (id, time) in ids.iter_mut().zip(times) {
            *id = self.id(*time)?;
        }
        Ok(ZoneKey::Each)
    }

    #[inline]
    fn id(&mut self, time: i64) -> Result<u32> {
        if self.known.start <= time && time < self.known.end {
            return Ok(self.known.id);
        }
        let index = self.grid.index(time);
        let id = u32::try_from(index - self.base + 1).ok();
        let Some(id) = id.filter(|&id| (id as usize) < self.domain) else {
            return internal_err!("key-1: a time is outside of the {} buckets", self.domain);
        };
        *self.known =
            GridCell { start: self.grid.start(index), end: self.grid.start(index + 1), id };
        Ok(id)
    }
}

/// A range of times that are known to be in one bucket.
#[derive(Debug, Clone, Copy)]
struct KnownBucket {
    /// The least and the greatest time that are known to be in it.
    first: i64,
    last: i64,
    start: i64,
}

impl KeyScratch {
    /// Returns memory for zones of so many rows.
    pub(super) fn new(zone_rows: usize) -> KeyScratch {
        let (integers, nulls) = (vec![0; zone_rows], Vec::new());
        let cells = CellCache::default();
        KeyScratch { integers, nulls, bucket: None, cell: GridCell::default(), cells }
    }
}

impl TextIds {
    fn id(&mut self, text: Vec<u8>) -> Result<u32> {
        if let Some(&id) = self.ids.get(&text) {
            return Ok(id);
        }
        self.texts.push(text.clone());
        let id = small(self.texts.len())?;
        self.ids.insert(text, id);
        Ok(id)
    }
}

impl BucketIds {
    fn id(&mut self, start: i64, domain: usize) -> Result<u32> {
        if let Some(&id) = self.ids.get(&start) {
            return Ok(id);
        }
        self.starts.push(start);
        let id = small(self.starts.len())?;
        if id as usize >= domain {
            return internal_err!("key-1: there are more than {domain} buckets");
        }
        self.ids.insert(start, id);
        Ok(id)
    }
}

fn small(id: usize) -> Result<u32> {
    u32::try_from(id).or_else(|_| internal_err!("key-1: too many ids"))
}

pub(super) fn cast_to(array: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    if array.data_type() == ty { Ok(Arc::clone(array)) } else { Ok(cast(array, ty)?) }
}

/// Returns the kind and the domain of a plain column.
fn of_column(at: usize, source: &ScanSource) -> Result<Option<(Kind, usize)>> {
    let snapshot = &source.read.snapshot;
    let Some(column) = stored_column(at, source) else { return Ok(None) };
    Ok(match column.ty {
        ColumnType::Symbol => snapshot.symbols.get(column.id).map(|symbols| {
            (Kind::Symbol(Arc::clone(symbols), Mutex::default()), symbols.len() + 1)
        }),
        ColumnType::Boolean => Some((Kind::Boolean, 3)),
        ColumnType::Varchar => {
            let mut domain = 1;
            for run in source.selected.groups.iter().flat_map(|group| &group.runs) {
                let reader = run.segment.reader().map_err(Error::Storage)?;
                let Some(footer) = reader.footer().column(column.id) else { continue };
                match footer.dictionary {
                    Some(dictionary) => domain += dictionary.count as usize,
                    None if footer.bounds.has_value => return Ok(None),
                    None => {}
                }
            }
            let is_small = domain <= TEXTS_MAX;
            is_small.then(|| (Kind::Text(Mutex::default(), Mutex::default()), domain))
        }
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::Date => {
            let bounds = zones_of(column, source)?.into_iter().fold(None, |bounds, zone| {
                let (min, max) = (zone.min.cast_signed(), zone.max.cast_signed());
                let (least, greatest): (i64, i64) = bounds.unwrap_or((min, max));
                Some((least.min(min), greatest.max(max)))
            });
            let (least, greatest) = bounds.unwrap_or((0, 0));
            let span = i128::from(greatest) - i128::from(least);
            let domain = usize::try_from(span + 2).unwrap_or(usize::MAX);
            Some((Kind::Integer { least }, domain))
        }
        ColumnType::UInt64
        | ColumnType::Float32
        | ColumnType::Float64
        | ColumnType::Decimal { .. }
        | ColumnType::Timestamp(_)
        | ColumnType::Binary
        | ColumnType::Uuid
        | ColumnType::Ipv4 => None,
    })
}

/// Returns the column that an expression puts into buckets, and their least width in nanoseconds.
fn bucketed(expr: &Arc<dyn PhysicalExpr>) -> Option<(usize, i128)> {
    const DAY: i128 = 86_400_000_000_000;
    let column =
        |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<ColumnExpr>().map(ColumnExpr::index);
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let is_day = *cast.cast_type() == DataType::Date32;
        return Some((column(cast.expr()).filter(|_| is_day)?, DAY));
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let args = call.args();
    let literal = |at: usize| args.get(at)?.downcast_ref::<Literal>().map(Literal::value);
    let text = |at| literal(at)?.try_as_str().flatten().map(str::to_owned);
    if let Some(stride) = bucket_stride(call.fun()) {
        // A second argument is the value of a subquery, which is known before the scan runs.
        let (time, first) = args.split_first()?;
        let are_constant = first.iter().all(|first| collect_columns(first).is_empty());
        return Some((column(time).filter(|_| are_constant)?, least_nanos(stride)));
    }
    match call.name() {
        "timestamp_floor" => {
            let are_constant =
                args.iter().enumerate().all(|(at, _)| at == 1 || literal(at).is_some());
            let stride = Stride::parse(&text(0)?).ok().filter(|_| are_constant)?;
            Some((column(args.get(1)?)?, least_nanos(stride)))
        }
        "date_trunc" => {
            let nanos = TruncUnit::parse(&text(0)?)?.least_nanos();
            Some((column(args.get(1).filter(|_| args.len() == 2)?)?, nanos))
        }
        "date_bin" => {
            let nanos = match literal(0)? {
                ScalarValue::IntervalMonthDayNano(Some(interval)) => {
                    let days = i128::from(interval.months) * 28 + i128::from(interval.days);
                    days * DAY + i128::from(interval.nanoseconds)
                }
                _ => return None,
            };
            let is_plain = nanos > 0 && (args.len() == 2 || literal(2).is_some());
            Some((column(args.get(1)?).filter(|_| is_plain)?, nanos))
        }
        _ => None,
    }
}

/// Returns the buckets of an expression that numbers them without regard to the rows.
fn grid_of(expr: &Arc<dyn PhysicalExpr>) -> Option<Grid> {
    bucket_grid(expr.downcast_ref::<ScalarFunctionExpr>()?.fun())
}

/// Returns the least width of buckets of a stride: local days can be shorter than 24 hours.
fn least_nanos(stride: Stride) -> i128 {
    const MONTH: i128 = 28 * 86_400_000_000_000;
    let nanos = stride.nanos().unwrap_or(MONTH * i128::from(stride.count));
    if matches!(stride.unit, 'd' | 'w' | 'M' | 'y') { nanos / 2 } else { nanos }
}

fn nanos_per(unit: TimeUnit) -> i128 {
    i128::from(1_000_000_000 / unit.per_second())
}
