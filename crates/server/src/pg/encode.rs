//! Encoder of values: Arrow's arrays as DataRow messages, in text or in PostgreSQL's binary format.
//!
//! - pg_encode-1. A batch is prepared once: the array of every column and the way to write its
//!   values are looked up then. A value is written into the buffer of the connection and nowhere
//!   else.
//! - pg_encode-2. Values beyond the precision of the binary format are cut: nanoseconds to
//!   microseconds, toward the past. Times of day have microseconds in both formats.
//! - pg_encode-3. Writing a long or large row stops when its statement is cancelled, and when there
//!   is no memory left (`room`).
//! - pg_encode-4. A time beyond the binary format is an error, and so is one that the format has as
//!   an infinity: none becomes another one. As text it is written as it is.
//!
//! COPY writes its text with the same `Writer`s. Not here: the types of columns (`types`), rows of
//! which all values are short (`blocks`).

mod room;
mod blocks;
mod numeric;
mod list;
mod text;
mod casts;

use std::ops::Range;

use arrow::array::{Array, ArrayAccessor, ArrayRef, AsArray, PrimitiveArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, Field,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, SchemaRef,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use bytes::{BufMut, BytesMut};

use super::types::{CHAR, PG_TYPE_KEY, TEXT, type_of};
use crate::value_text;
use blocks::BlockWriter;
use list::lists;

pub(super) use list::weight;
pub(super) use numeric::decimal_text;
pub(super) use room::{Guard, Room, RowStopped};

/// The days from 1970 to 2000, the origin of PostgreSQL's times.
const DAYS_TO_2000: i32 = 10_957;
/// The same in microseconds.
const MICROS_TO_2000: i64 = 10_957 * DAY_MICROS;
/// The microseconds of a day.
const DAY_MICROS: i64 = 86_400_000_000;

/// The format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    /// Text with intervals in the format of ISO 8601 (`IntervalStyle`).
    TextIso,
    Binary,
}

impl Format {
    /// Returns the format of a text under this `IntervalStyle`.
    pub(super) fn of_style(style: Option<&str>) -> Format {
        if style == Some("iso_8601") { Format::TextIso } else { Format::Text }
    }
}

/// A function that appends a value that is not NULL.
type Put<'a> = Box<dyn Fn(usize, &mut Room<'_>) + Send + Sync + 'a>;

/// A column of a batch, prepared for writing (pg_encode-1).
pub(super) struct Writer<'a> {
    nulls: Option<NullBuffer>,
    put: Put<'a>,
}

/// The columns of a batch, prepared for writing.
pub(super) struct RowWriter<'a> {
    columns: Vec<Writer<'a>>,
}

/// Returns the arrays of a batch without indirection, converted to types that can be written
/// (pg_encode-1).
pub(super) fn arrays(batch: &RecordBatch) -> Result<Vec<ArrayRef>, ArrowError> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    columns.map(|(field, array)| casts::cast_to_wire(field, array)).collect()
}

/// The rows of a batch, prepared for writing.
pub(super) struct BatchWriter<'a> {
    rows: RowWriter<'a>,
    /// `None` if values may be long, or the rows are few.
    blocks: Option<BlockWriter<'a>>,
}

/// The number of rows from which on they are written in blocks.
const BLOCK_ROWS_MIN: usize = 8;

impl<'a> BatchWriter<'a> {
    /// Prepares these arrays, which are those of the schema, of which so many rows are written at
    /// most.
    pub(super) fn new(
        schema: &'a SchemaRef,
        arrays: &'a [ArrayRef],
        formats: &[Format],
        rows: usize,
    ) -> Result<BatchWriter<'a>, ArrowError> {
        let columns =
            schema.fields().iter().zip(arrays).enumerate().map(|(at, (field, array))| {
                (field.as_ref(), array.as_ref(), format_of(formats, at))
            });
        let blocks = match BLOCK_ROWS_MIN <= rows {
            true => BlockWriter::new(columns, rows),
            false => None,
        };
        Ok(BatchWriter { rows: RowWriter::new(schema, arrays, formats)?, blocks })
    }

    /// Appends some of these rows, at least one, as DataRow messages. Returns their number; nothing
    /// of them is left if they are stopped (pg_encode-3).
    pub(super) fn push(
        &mut self,
        rows: Range<usize>,
        room: &mut Room<'_>,
    ) -> Result<usize, RowStopped> {
        if let Some(blocks) = &mut self.blocks {
            if let Some(written) = blocks.push(rows.clone(), room)? {
                return Ok(written);
            }
            self.blocks = None;
        }
        self.rows.push(rows.start, room)?;
        Ok(1)
    }
}

/// Returns the format of a column: text, if the client has named none.
fn format_of(formats: &[Format], column: usize) -> Format {
    formats.get(column).copied().unwrap_or(Format::Text)
}

impl<'a> RowWriter<'a> {
    /// Prepares these arrays, which are those of the schema.
    pub(super) fn new(
        schema: &'a SchemaRef,
        arrays: &'a [ArrayRef],
        formats: &[Format],
    ) -> Result<RowWriter<'a>, ArrowError> {
        let columns =
            schema.fields().iter().zip(arrays).enumerate().map(|(at, (field, array))| {
                Writer::new(field, array.as_ref(), format_of(formats, at))
            });
        Ok(RowWriter { columns: columns.collect::<Result<_, _>>()? })
    }

    /// Appends a row as a DataRow message; nothing of a row that is stopped (pg_encode-3).
    pub(super) fn push(&self, row: usize, room: &mut Room<'_>) -> Result<(), RowStopped> {
        self.push_message(b'D', &[], row, room)
    }

    /// Appends a row as a CopyData message, which has the same format if its values are binary; the
    /// message begins with `lead`.
    pub(super) fn push_copied(
        &self,
        row: usize,
        lead: &[u8],
        room: &mut Room<'_>,
    ) -> Result<(), RowStopped> {
        self.push_message(b'd', lead, row, room)
    }

    pub(super) fn columns(&self) -> &[Writer<'a>] {
        &self.columns
    }

    fn push_message(
        &self,
        tag: u8,
        lead: &[u8],
        row: usize,
        room: &mut Room<'_>,
    ) -> Result<(), RowStopped> {
        room.begin_row();
        let begun = room.len();
        room.put_u8(tag);
        let start = room.len();
        room.put_u32(0);
        room.put_slice(lead);
        room.put_u16(u16::try_from(self.columns.len()).unwrap_or(u16::MAX));
        for column in &self.columns {
            column.push_sized(row, room);
            if room.is_long() && room.check() {
                break;
            }
        }
        if room.check()
            && let Some(stopped) = room.take_stopped()
        {
            room.truncate(begun);
            return Err(stopped);
        }
        let length = u32::try_from(room.len() - start).expect("limits::ROW_BYTES fits");
        room[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }
}

impl<'a> Writer<'a> {
    /// Prepares an array without indirection, as `plain` makes it.
    pub(super) fn new(
        field: &'a Field,
        array: &'a dyn Array,
        format: Format,
    ) -> Result<Writer<'a>, ArrowError> {
        let put = match format {
            Format::Text | Format::TextIso => text::writer(field, array, format)?,
            Format::Binary => binary(field, array)?,
        };
        Ok(Writer { nulls: array.logical_nulls(), put })
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends a value that is not NULL.
    pub(super) fn push(&self, row: usize, room: &mut Room<'_>) {
        (self.put)(row, room);
    }

    /// Appends a value after its length; NULL has the length -1.
    fn push_sized(&self, row: usize, room: &mut Room<'_>) {
        if self.is_null(row) {
            room.put_i32(-1);
            return;
        }
        let start = room.len();
        room.put_u32(0);
        self.push(row, room);
        // A row whose length does not fit into four bytes is stopped by the caller (pg_encode-3).
        let length = u32::try_from(room.len() - start - 4).unwrap_or(u32::MAX);
        room[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

fn binary<'a>(field: &'a Field, array: &'a dyn Array) -> Result<Put<'a>, ArrowError> {
    let named = value_text::tidegate_type(field);
    let is_catalog = field.metadata().contains_key(PG_TYPE_KEY);
    if type_of(field).0 == CHAR {
        return character(field, array);
    }
    Ok(match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            Box::new(|row, bytes| bytes.put_u8(u8::from(values.value(row))))
        }
        DataType::Int8 => with::<Int8Type>(array, |v, bytes| bytes.put_i16(v.into())),
        DataType::Int16 => with::<Int16Type>(array, |v, bytes| bytes.put_i16(v)),
        DataType::UInt8 => with::<UInt8Type>(array, |v, bytes| bytes.put_i16(v.into())),
        DataType::Int32 => with::<Int32Type>(array, |v, bytes| bytes.put_i32(v)),
        DataType::UInt16 => with::<UInt16Type>(array, |v, bytes| bytes.put_i32(v.into())),
        DataType::UInt32 if named == Some("ipv4") => {
            return text::writer(field, array, Format::Text);
        }
        // The type oid of the catalog.
        DataType::UInt32 if is_catalog => with::<UInt32Type>(array, |v, bytes| bytes.put_u32(v)),
        DataType::UInt32 => with::<UInt32Type>(array, |v, bytes| bytes.put_i64(v.into())),
        DataType::Int64 => with::<Int64Type>(array, |v, bytes| bytes.put_i64(v)),
        DataType::UInt64 => {
            with::<UInt64Type>(array, |v, bytes| numeric::put(&v.to_string(), bytes))
        }
        DataType::Float16 => with::<Float16Type>(array, |v, bytes| bytes.put_f32(v.into())),
        DataType::Float32 => with::<Float32Type>(array, |v, bytes| bytes.put_f32(v)),
        DataType::Float64 => with::<Float64Type>(array, |v, bytes| bytes.put_f64(v)),
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>();
            Box::new(|row, bytes| numeric::put(&values.value_as_string(row), bytes))
        }
        DataType::Decimal256(..) => {
            let values = array.as_primitive::<Decimal256Type>();
            Box::new(|row, bytes| numeric::put(&values.value_as_string(row), bytes))
        }
        DataType::Timestamp(..)
        | DataType::Date32
        | DataType::Date64
        | DataType::Time64(TimeUnit::Microsecond) => binary_times(array),
        DataType::Interval(unit) => intervals(array, *unit, |interval, bytes| {
            bytes.put_i64(interval.nanos.div_euclid(1_000));
            bytes.put_i32(interval.days);
            bytes.put_i32(interval.months);
        }),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => bytes_of(array),
        DataType::FixedSizeBinary(_) => slices(array.as_fixed_size_binary()),
        // A list of a type without arrays is text.
        DataType::List(_) | DataType::LargeList(_) if type_of(field).0 == TEXT => {
            text::writer(field, array, Format::Text)?
        }
        DataType::List(_) | DataType::LargeList(_) => lists(field, array, Format::Binary)?,
        _ => text::writer(field, array, Format::Text)?,
    })
}

/// Writes one byte, which is 0 for an empty text.
fn character<'a>(field: &'a Field, array: &'a dyn Array) -> Result<Put<'a>, ArrowError> {
    let text = text::writer(field, array, Format::Text)?;
    Ok(Box::new(move |row, bytes| {
        let start = bytes.len();
        text(row, bytes);
        if bytes.len() == start {
            bytes.put_u8(0);
        }
    }))
}

/// Writes values of a primitive type.
fn with<T: ArrowPrimitiveType>(
    array: &dyn Array,
    put: impl Fn(T::Native, &mut BytesMut) + Send + Sync + 'static,
) -> Put<'_> {
    let values: &PrimitiveArray<T> = array.as_primitive::<T>();
    Box::new(move |row, bytes| put(values.value(row), bytes))
}

/// Writes instants of any unit.
fn instants<'a>(
    array: &'a dyn Array,
    unit: TimeUnit,
    put: impl Fn(TimeUnit, i64, &mut BytesMut) + Send + Sync + 'static,
) -> Put<'a> {
    let put = move |value, bytes: &mut BytesMut| put(unit, value, bytes);
    match unit {
        TimeUnit::Second => with::<TimestampSecondType>(array, put),
        TimeUnit::Millisecond => with::<TimestampMillisecondType>(array, put),
        TimeUnit::Microsecond => with::<TimestampMicrosecondType>(array, put),
        TimeUnit::Nanosecond => with::<TimestampNanosecondType>(array, put),
    }
}

/// Writes instants, days and times of day, which count microseconds.
fn binary_times(array: &dyn Array) -> Put<'_> {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            times::<TimestampSecondType, 8>(array, |v| instant(1_000_000, v))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            times::<TimestampMillisecondType, 8>(array, |v| instant(1_000, v))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            times::<TimestampMicrosecondType, 8>(array, |v| instant(1, v))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            times::<TimestampNanosecondType, 8>(array, |v| instant(1, v.div_euclid(1_000)))
        }
        DataType::Date32 => times::<Date32Type, 4>(array, day),
        DataType::Date64 => times::<Date64Type, 4>(array, |v| {
            i32::try_from(v.div_euclid(DAY_MICROS / 1_000)).ok().and_then(day)
        }),
        _ => times::<Time64MicrosecondType, 8>(array, |v| {
            (0..=DAY_MICROS).contains(&v).then(|| v.to_be_bytes())
        }),
    }
}

/// Writes times of a primitive type, of which the binary format has some (pg_encode-4).
fn times<T: ArrowPrimitiveType, const WIDTH: usize>(
    array: &dyn Array,
    encode: impl Fn(T::Native) -> Option<[u8; WIDTH]> + Send + Sync + 'static,
) -> Put<'_> {
    let values: &PrimitiveArray<T> = array.as_primitive::<T>();
    Box::new(move |row, room| match encode(values.value(row)) {
        Some(bytes) => room.put_slice(&bytes),
        None => room.stop(RowStopped::TimeRange),
    })
}

/// Encodes an instant, given in units of so many microseconds (pg_encode-2, pg_encode-4).
fn instant(micros: i64, value: i64) -> Option<[u8; 8]> {
    let micros = value.checked_mul(micros)?.checked_sub(MICROS_TO_2000)?;
    (!matches!(micros, i64::MIN | i64::MAX)).then(|| micros.to_be_bytes())
}

/// Encodes a day (pg_encode-4).
fn day(days: i32) -> Option<[u8; 4]> {
    let days = days.checked_sub(DAYS_TO_2000)?;
    (!matches!(days, i32::MIN | i32::MAX)).then(|| days.to_be_bytes())
}

/// An interval with PostgreSQL's parts.
#[derive(Clone, Copy)]
struct Interval {
    months: i32,
    days: i32,
    nanos: i64,
}

fn intervals<'a>(
    array: &'a dyn Array,
    unit: IntervalUnit,
    put: impl Fn(Interval, &mut BytesMut) + Send + Sync + 'static,
) -> Put<'a> {
    match unit {
        IntervalUnit::YearMonth => with::<IntervalYearMonthType>(array, move |months, bytes| {
            put(Interval { months, days: 0, nanos: 0 }, bytes);
        }),
        IntervalUnit::DayTime => with::<IntervalDayTimeType>(array, move |value, bytes| {
            let nanos = i64::from(value.milliseconds) * 1_000_000;
            put(Interval { months: 0, days: value.days, nanos }, bytes);
        }),
        IntervalUnit::MonthDayNano => {
            with::<IntervalMonthDayNanoType>(array, move |value, bytes| {
                let (months, days, nanos) = (value.months, value.days, value.nanoseconds);
                put(Interval { months, days, nanos }, bytes);
            })
        }
    }
}

fn bytes_of(array: &dyn Array) -> Put<'_> {
    match array.data_type() {
        DataType::Binary => slices(array.as_binary::<i32>()),
        DataType::LargeBinary => slices(array.as_binary::<i64>()),
        _ => slices(array.as_binary_view()),
    }
}

/// Writes texts or bytes as they are, in any layout.
fn slices<'a, V: AsRef<[u8]> + ?Sized + 'a>(
    values: impl ArrayAccessor<Item = &'a V> + 'a,
) -> Put<'a> {
    Box::new(move |row, bytes| bytes.put_slice(values.value(row).as_ref()))
}

/// Writes the text of `value_text`, for types that only expressions return.
fn other<'a>(field: &'a Field, array: &'a dyn Array) -> Result<Put<'a>, ArrowError> {
    let column = value_text::Column::new(field, array)?;
    let mut texts = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        let mut text = String::new();
        if !column.is_null(row) {
            column.push(row, &mut text);
        }
        texts.push(text);
    }
    Ok(Box::new(move |row, bytes| bytes.put_slice(texts[row].as_bytes())))
}
