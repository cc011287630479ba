//! Rows of short values, written a column at a time: most of the time of a large answer is spent
//! on the text of its numbers and times.
//!
//! - blocks-1. The messages are those of `RowWriter::push`, byte for byte.
//!
//! A block has some rows. The values of each column are first written into cells of one size, which
//! takes no branch for the type of a value; then rows are put together, by copies of whole cells of
//! which only the length of the value counts. Texts are copied from their array.
//!
//! Not here: values that may be long, such as lists, and those that few answers have (`RowWriter`).

use std::fmt;
use std::ops::Range;

use arrow::array::{Array, AsArray, BooleanArray, GenericStringArray, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Field, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use bytes::BufMut;
use tidegate_model::time::CivilDate;

use super::{Format, Room, RowStopped, day, instant};
use crate::pg::types::{PG_TYPE_KEY, digits, per_second};
use crate::value_text::{Style, push_date, push_float, push_fraction, tidegate_type, two_digits};

/// The most rows of a block.
const ROWS_MAX: usize = 64;
/// The most cells of a block, unless one row has more.
const CELLS_MAX: usize = 4_096;
/// The bytes of a cell: the length of a value, and the value.
const CELL_BYTES: usize = 48;
/// The bytes of the length of a value.
const LENGTH_BYTES: usize = 4;
/// The most bytes of a block; other rows are written one by one.
const BLOCK_BYTES_MAX: usize = 256 << 10;
/// The bytes of a text that is stored in its view.
const INLINE_BYTES: usize = 12;
/// The length of NULL.
const NULL_LENGTH: [u8; LENGTH_BYTES] = (-1_i32).to_be_bytes();

/// A value of a column, behind its length.
#[derive(Clone, Copy)]
struct Cell {
    bytes: [u8; CELL_BYTES],
    /// The bytes that are used; more than there are if the value cannot be in a cell.
    used: usize,
}

impl Cell {
    const EMPTY: Cell = Cell { bytes: [0; CELL_BYTES], used: LENGTH_BYTES };

    fn set_null(&mut self) {
        self.bytes[..LENGTH_BYTES].copy_from_slice(&NULL_LENGTH);
        self.used = LENGTH_BYTES;
    }

    /// Replaces the value by these bytes.
    #[inline]
    fn set<const N: usize>(&mut self, value: [u8; N]) {
        let length = u32::try_from(N).expect("a few bytes");
        self.bytes[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        self.bytes[LENGTH_BYTES..LENGTH_BYTES + N].copy_from_slice(&value);
        self.used = LENGTH_BYTES + N;
    }

    /// Replaces the value by a time; one that the format does not have is refused by `RowWriter`.
    #[inline]
    fn set_time<const N: usize>(&mut self, value: Option<[u8; N]>) {
        match value {
            Some(value) => self.set(value),
            None => self.used = usize::MAX,
        }
    }

    /// Writes the length of the text that was written.
    #[inline]
    fn end_text(&mut self) {
        let length = u32::try_from(self.used - LENGTH_BYTES).expect("a few bytes");
        self.bytes[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    }

    #[inline]
    fn push(&mut self, text: &[u8]) {
        let end = self.used + text.len();
        if let Some(place) = self.bytes.get_mut(self.used..end) {
            place.copy_from_slice(text);
        }
        self.used = end;
    }

    /// Replaces the value by the digits of a number.
    #[inline]
    fn set_digits(&mut self, is_negative: bool, mut value: u64) {
        let count = value.checked_ilog10().map_or(1, |log| log as usize + 1);
        let start = LENGTH_BYTES + usize::from(is_negative);
        self.bytes[LENGTH_BYTES] = b'-';
        self.used = start + count;
        let mut at = self.used;
        while start + 2 <= at {
            self.bytes[at - 2..at].copy_from_slice(&two_digits(value % 100));
            value /= 100;
            at -= 2;
        }
        if start < at {
            let [_, digit] = two_digits(value);
            self.bytes[start] = digit;
        }
        self.end_text();
    }
}

impl fmt::Write for Cell {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// A function that writes the values of rows into as many cells.
type Fill<'a> = Box<dyn Fn(Range<usize>, &mut [Cell]) + Send + Sync + 'a>;

/// A column of short values.
enum Column<'a> {
    Cells(Fill<'a>),
    Views(&'a StringViewArray),
    Texts(&'a GenericStringArray<i32>),
}

/// The columns of a batch, if the values of all of them are short.
pub(super) struct BlockWriter<'a> {
    columns: Vec<Column<'a>>,
    /// The number of rows of a block.
    rows: usize,
    /// `rows` cells for each column that has cells.
    cells: Vec<Cell>,
    /// The messages of a block; those before are overwritten.
    messages: Vec<u8>,
}

impl<'a> BlockWriter<'a> {
    /// Prepares columns, of which so many rows are written at most; `None` if one of them can have
    /// long values.
    pub(super) fn new(
        columns: impl ExactSizeIterator<Item = (&'a Field, &'a dyn Array, Format)>,
        rows: usize,
    ) -> Option<BlockWriter<'a>> {
        let rows = (CELLS_MAX / columns.len().max(1)).clamp(1, ROWS_MAX).min(rows);
        let columns = columns.map(|(field, array, format)| column(field, array, format));
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let with_cells = columns.iter().filter(|column| matches!(column, Column::Cells(_)));
        let cells = vec![Cell::EMPTY; with_cells.count() * rows];
        Some(BlockWriter { columns, rows, cells, messages: Vec::new() })
    }

    /// Appends as many of these rows as a block has, as DataRow messages; nothing of a block that
    /// is stopped. Returns their number; `None` if they are too long for a block.
    pub(super) fn push(
        &mut self,
        rows: Range<usize>,
        room: &mut Room<'_>,
    ) -> Result<Option<usize>, RowStopped> {
        let rows = rows.start..rows.end.min(rows.start + self.rows);
        let BlockWriter { columns, cells, messages, .. } = self;
        let Some(bound) = fill(columns, &rows, self.rows, cells) else { return Ok(None) };
        if messages.len() < bound {
            messages.resize(bound, 0);
        }
        let mut end = 0;
        for (at, row) in rows.clone().enumerate() {
            // There may be no cells at all.
            let cells = cells.get(at..).unwrap_or_default();
            end = put_row(columns, cells, self.rows, Place { row, start: end }, messages);
        }
        let begun = room.len();
        room.put_slice(&messages[..end]);
        // Its rows are short.
        room.begin_row();
        if room.check()
            && let Some(stopped) = room.take_stopped()
        {
            room.truncate(begun);
            return Err(stopped);
        }
        Ok(Some(rows.len()))
    }
}

/// Writes the cells of rows; returns the most bytes that their messages have, `None` if these are
/// too many or a value cannot be in a cell.
fn fill(
    columns: &[Column<'_>],
    rows: &Range<usize>,
    stride: usize,
    cells: &mut [Cell],
) -> Option<usize> {
    let mut bound = rows.len() * HEAD_BYTES;
    let mut cells = cells.chunks_mut(stride.max(1));
    for column in columns {
        bound += match column {
            Column::Cells(fill) => {
                let cells =
                    &mut cells.next().expect("one for each column with cells")[..rows.len()];
                fill(rows.clone(), cells);
                if cells.iter().any(|cell| CELL_BYTES < cell.used) {
                    return None;
                }
                rows.len() * CELL_BYTES
            }
            Column::Views(texts) => {
                let views = &texts.views()[rows.clone()];
                views.iter().map(|&view| text_bytes(view_length(view))).sum()
            }
            Column::Texts(texts) => {
                let offsets = &texts.value_offsets()[rows.start..=rows.end];
                let lengths = offsets.windows(2).map(|pair| pair[1].abs_diff(pair[0]) as usize);
                lengths.map(text_bytes).sum()
            }
        };
        if BLOCK_BYTES_MAX < bound {
            return None;
        }
    }
    Some(bound)
}

/// The bytes before the values of a row: the tag, the length, and the number of values.
const HEAD_BYTES: usize = 7;

/// Returns the most bytes that are written for a text.
fn text_bytes(length: usize) -> usize {
    LENGTH_BYTES + length.max(INLINE_BYTES)
}

#[expect(clippy::cast_possible_truncation, reason = "the length is in the lower bits")]
fn view_length(view: u128) -> usize {
    view as u32 as usize
}

/// The place of a row in its arrays and in its block.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    start: usize,
}

/// Writes the message of a row, whose cells are `stride` from each other. Returns its end.
fn put_row(
    columns: &[Column<'_>],
    cells: &[Cell],
    stride: usize,
    Place { row, start }: Place,
    messages: &mut [u8],
) -> usize {
    let mut end = start + HEAD_BYTES;
    let mut cells = cells.iter().step_by(stride);
    for column in columns {
        end += match column {
            Column::Cells(_) => {
                let cell = cells.next().expect("one for each column with cells");
                messages[end..end + CELL_BYTES].copy_from_slice(&cell.bytes);
                cell.used
            }
            Column::Views(texts) if texts.is_valid(row) => {
                let view = texts.views()[row];
                let length = view_length(view);
                if length <= INLINE_BYTES {
                    put_length(&mut messages[end..], length);
                    let place = &mut messages[end + LENGTH_BYTES..][..INLINE_BYTES];
                    place.copy_from_slice(&view.to_le_bytes()[LENGTH_BYTES..]);
                    LENGTH_BYTES + length
                } else {
                    put_text(&mut messages[end..], texts.value(row))
                }
            }
            Column::Texts(texts) if texts.is_valid(row) => {
                put_text(&mut messages[end..], texts.value(row))
            }
            Column::Views(_) | Column::Texts(_) => {
                messages[end..end + LENGTH_BYTES].copy_from_slice(&NULL_LENGTH);
                LENGTH_BYTES
            }
        };
    }
    messages[start] = b'D';
    put_length(&mut messages[start + 1..], end - start - 1);
    let count = u16::try_from(columns.len()).unwrap_or(u16::MAX);
    messages[start + 5..start + HEAD_BYTES].copy_from_slice(&count.to_be_bytes());
    end
}

#[inline]
fn put_length(place: &mut [u8], length: usize) {
    let length = u32::try_from(length).expect("a part of a block");
    place[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

#[inline]
fn put_text(place: &mut [u8], text: &str) -> usize {
    put_length(place, text.len());
    place[LENGTH_BYTES..][..text.len()].copy_from_slice(text.as_bytes());
    LENGTH_BYTES + text.len()
}

/// Prepares a column; `None` if its values may be long, or are seldom in large answers.
fn column<'a>(field: &Field, array: &'a dyn Array, format: Format) -> Option<Column<'a>> {
    if field.metadata().contains_key(PG_TYPE_KEY) {
        return None;
    }
    match array.data_type() {
        DataType::Utf8View => return Some(Column::Views(array.as_string_view())),
        DataType::Utf8 => return Some(Column::Texts(array.as_string())),
        DataType::UInt32 if tidegate_type(field) == Some("ipv4") => return None,
        _ => {}
    }
    let fill = match format {
        Format::Text | Format::TextIso => text_cells(array)?,
        Format::Binary => binary_cells(array)?,
    };
    Some(Column::Cells(fill))
}

fn text_cells(array: &dyn Array) -> Option<Fill<'_>> {
    let float = |value: f64, cell: &mut Cell| {
        cell.used = LENGTH_BYTES;
        push_float(value, Style::Postgres, cell);
        cell.end_text();
    };
    let narrow_float = |value: f32, cell: &mut Cell| {
        cell.used = LENGTH_BYTES;
        push_float(value, Style::Postgres, cell);
        cell.end_text();
    };
    Some(match array.data_type() {
        DataType::Boolean => {
            booleans(array.as_boolean(), |value| [if value { b't' } else { b'f' }])
        }
        DataType::Int8 => integers::<Int8Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
        DataType::UInt8 => cells::<UInt8Type>(array, |v, cell| cell.set_digits(false, v.into())),
        DataType::UInt16 => cells::<UInt16Type>(array, |v, cell| cell.set_digits(false, v.into())),
        DataType::UInt32 => cells::<UInt32Type>(array, |v, cell| cell.set_digits(false, v.into())),
        DataType::UInt64 => cells::<UInt64Type>(array, |v, cell| cell.set_digits(false, v)),
        DataType::Float32 => cells::<Float32Type>(array, narrow_float),
        DataType::Float64 => cells::<Float64Type>(array, float),
        DataType::Timestamp(unit, zone) => {
            let end: &'static [u8] = if zone.is_some() { b"+00" } else { b"" };
            instants(array, *unit, end)
        }
        _ => return None,
    })
}

fn binary_cells(array: &dyn Array) -> Option<Fill<'_>> {
    Some(match array.data_type() {
        DataType::Boolean => booleans(array.as_boolean(), |value| [u8::from(value)]),
        DataType::Int8 => cells::<Int8Type>(array, |v, cell| cell.set(i16::from(v).to_be_bytes())),
        DataType::Int16 => cells::<Int16Type>(array, |v, cell| cell.set(v.to_be_bytes())),
        DataType::UInt8 => {
            cells::<UInt8Type>(array, |v, cell| cell.set(i16::from(v).to_be_bytes()))
        }
        DataType::Int32 => cells::<Int32Type>(array, |v, cell| cell.set(v.to_be_bytes())),
        DataType::UInt16 => {
            cells::<UInt16Type>(array, |v, cell| cell.set(i32::from(v).to_be_bytes()))
        }
        DataType::UInt32 => {
            cells::<UInt32Type>(array, |v, cell| cell.set(i64::from(v).to_be_bytes()))
        }
        DataType::Int64 => cells::<Int64Type>(array, |v, cell| cell.set(v.to_be_bytes())),
        DataType::Float32 => cells::<Float32Type>(array, |v, cell| cell.set(v.to_be_bytes())),
        DataType::Float64 => cells::<Float64Type>(array, |v, cell| cell.set(v.to_be_bytes())),
        DataType::Date32 => cells::<Date32Type>(array, |v, cell| cell.set_time(day(v))),
        DataType::Timestamp(TimeUnit::Second, _) => {
            cells::<TimestampSecondType>(array, |v, cell| cell.set_time(instant(1_000_000, v)))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            cells::<TimestampMillisecondType>(array, |v, cell| cell.set_time(instant(1_000, v)))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            cells::<TimestampMicrosecondType>(array, |v, cell| cell.set_time(instant(1, v)))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            cells::<TimestampNanosecondType>(array, |v, cell| {
                cell.set_time(instant(1, v.div_euclid(1_000)));
            })
        }
        _ => return None,
    })
}

/// Writes values of a primitive type.
fn cells<T: ArrowPrimitiveType>(
    array: &dyn Array,
    put: impl Fn(T::Native, &mut Cell) + Send + Sync + 'static,
) -> Fill<'_> {
    let array = array.as_primitive::<T>();
    let nulls = nulls_of(array);
    Box::new(move |rows, cells| {
        for (&value, cell) in array.values()[rows.clone()].iter().zip(&mut *cells) {
            put(value, cell);
        }
        set_nulls(nulls, rows, cells);
    })
}

fn integers<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &dyn Array) -> Fill<'_> {
    cells::<T>(array, |value, cell| {
        let value: i64 = value.into();
        cell.set_digits(value < 0, value.unsigned_abs());
    })
}

fn booleans(
    array: &BooleanArray,
    byte: impl Fn(bool) -> [u8; 1] + Send + Sync + 'static,
) -> Fill<'_> {
    let nulls = nulls_of(array);
    Box::new(move |rows, cells| {
        for (row, cell) in rows.clone().zip(&mut *cells) {
            cell.set(byte(array.value(row)));
        }
        set_nulls(nulls, rows, cells);
    })
}

/// Writes the texts of instants, in UTC, with `end` behind each.
fn instants<'a>(array: &'a dyn Array, unit: TimeUnit, end: &'static [u8]) -> Fill<'a> {
    let values: &'a [i64] = match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
    };
    let nulls = nulls_of(array);
    let (digits, per_second) = (digits(unit), per_second(unit));
    Box::new(move |rows, cells| {
        // Rows are mostly sorted by time: instants share a day, and many are the same.
        let mut day = Day::new(0);
        let mut before = None;
        for (&value, cell) in values[rows.clone()].iter().zip(&mut *cells) {
            if let Some((same, text)) = before
                && same == value
            {
                *cell = text;
                continue;
            }
            let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
            let days = seconds.div_euclid(86_400);
            if day.days != days {
                day = Day::new(days);
            }
            *cell = day.text;
            let second = seconds.rem_euclid(86_400).unsigned_abs();
            let [h, i] = two_digits(second / 3_600);
            let [m, n] = two_digits(second / 60 % 60);
            let [s, t] = two_digits(second % 60);
            cell.push(&[b' ', h, i, b':', m, n, b':', s, t]);
            if fraction != 0 {
                push_fraction(fraction.unsigned_abs(), digits, Style::Postgres, cell);
            }
            cell.push(end);
            if day.is_before_christ {
                cell.push(b" BC");
            }
            cell.end_text();
            before = Some((value, *cell));
        }
        set_nulls(nulls, rows, cells);
    })
}

/// The text of a day, before that of a time.
struct Day {
    days: i64,
    text: Cell,
    is_before_christ: bool,
}

impl Day {
    fn new(days: i64) -> Day {
        let mut text = Cell::EMPTY;
        push_date(days, Style::Postgres, &mut text);
        Day { days, text, is_before_christ: CivilDate::from_days(days).year < 1 }
    }
}

/// Returns the rows that are NULL, if there are any.
fn nulls_of(array: &dyn Array) -> Option<&NullBuffer> {
    array.nulls().filter(|nulls| 0 < nulls.null_count())
}

/// Replaces the values of rows that are NULL.
fn set_nulls(nulls: Option<&NullBuffer>, rows: Range<usize>, cells: &mut [Cell]) {
    let Some(nulls) = nulls else { return };
    for (row, cell) in rows.zip(cells) {
        if nulls.is_null(row) {
            cell.set_null();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Date32Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
        Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array,
        UInt64Array,
    };
    use bytes::BytesMut;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use tidegate_query::CancelHandle;

    use super::super::{BatchWriter, Guard, RowWriter, arrays};
    use super::*;
    use crate::budget::tests::reservation;

    /// Returns columns of each type that blocks have, made of these bits.
    #[expect(clippy::cast_possible_truncation, reason = "any value of the type is wanted")]
    #[expect(clippy::cast_possible_wrap, reason = "any value of the type is wanted")]
    fn columns(bits: &[Option<u64>]) -> Vec<(&'static str, ArrayRef)> {
        let of = || bits.iter().copied();
        let small = || of().map(|it| it.map(|bits| (bits % 2_000_000_000_000) as i64));
        let texts = || of().map(|it| it.map(|bits| "a\u{e4}".repeat((bits % 9) as usize)));
        let seconds = TimestampSecondArray::from_iter(of().map(|it| it.map(|b| b as i64)));
        let micros = TimestampMicrosecondArray::from_iter(of().map(|it| it.map(|b| b as i64)));
        let nanos = TimestampNanosecondArray::from_iter(of().map(|it| it.map(|b| b as i64)));
        vec![
            ("b", Arc::new(BooleanArray::from_iter(of().map(|it| it.map(|b| b % 2 == 0))))),
            ("i8", Arc::new(Int8Array::from_iter(of().map(|it| it.map(|b| b as i8))))),
            ("i16", Arc::new(Int16Array::from_iter(of().map(|it| it.map(|b| b as i16))))),
            ("i32", Arc::new(Int32Array::from_iter(of().map(|it| it.map(|b| b as i32))))),
            ("i64", Arc::new(Int64Array::from_iter(of().map(|it| it.map(|b| b as i64))))),
            ("u8", Arc::new(UInt8Array::from_iter(of().map(|it| it.map(|b| b as u8))))),
            ("u16", Arc::new(UInt16Array::from_iter(of().map(|it| it.map(|b| b as u16))))),
            ("u32", Arc::new(UInt32Array::from_iter(of().map(|it| it.map(|b| b as u32))))),
            ("u64", Arc::new(UInt64Array::from_iter(of()))),
            (
                "f32",
                Arc::new(Float32Array::from_iter(
                    of().map(|it| it.map(|b| f32::from_bits(b as u32))),
                )),
            ),
            ("f64", Arc::new(Float64Array::from_iter(of().map(|it| it.map(f64::from_bits))))),
            (
                "few",
                Arc::new(Float64Array::from_iter(small().map(|it| it.map(|v| v as f64 / 1_000.0)))),
            ),
            ("d", Arc::new(Date32Array::from_iter(of().map(|it| it.map(|b| b as i32 / 4))))),
            ("s", Arc::new(seconds)),
            ("ms", Arc::new(TimestampMillisecondArray::from_iter(small()))),
            ("us", Arc::new(micros.with_timezone("+00:00"))),
            ("ns", Arc::new(nanos.with_timezone("+00:00"))),
            ("t", Arc::new(StringArray::from_iter(texts()))),
            ("v", Arc::new(StringViewArray::from_iter(texts()))),
        ]
    }

    /// Rows in a format, up to one that is refused.
    type Rows = (Vec<u8>, Option<RowStopped>);

    /// Returns rows as `RowWriter` and as `BatchWriter` write them.
    fn both(columns: Vec<(&str, ArrayRef)>, format: Format) -> [Rows; 2] {
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let (schema, arrays) = (batch.schema(), arrays(&batch).unwrap());
        let formats = vec![format; arrays.len()];
        let rows = batch.num_rows();
        let writer = RowWriter::new(&schema, &arrays, &formats).unwrap();
        let by_row = written(rows, |row, room| writer.push(row, room).map(|()| row + 1));
        let mut writer = BatchWriter::new(&schema, &arrays, &formats, rows).unwrap();
        let by_block =
            written(rows, |row, room| writer.push(row..rows, room).map(|written| row + written));
        [by_row, by_block]
    }

    /// Returns what `push` writes; it returns the next row.
    fn written(
        rows: usize,
        mut push: impl FnMut(usize, &mut Room<'_>) -> Result<usize, RowStopped>,
    ) -> Rows {
        let mut guard = Guard::new(reservation(1 << 30), &CancelHandle::default());
        let mut bytes = BytesMut::new();
        let mut room = Room::new(&mut bytes, &mut guard);
        let mut next = 0;
        while next < rows {
            match push(next, &mut room) {
                Ok(row) => next = row,
                Err(stopped) => return (bytes.to_vec(), Some(stopped)),
            }
        }
        (bytes.to_vec(), None)
    }

    proptest! {
        #[test]
        fn blocks_have_the_bytes_of_their_rows(
            bits in vec(
                prop_oneof![Just(None), any::<u64>().prop_map(Some), (0_u64..200).prop_map(Some)],
                0..200,
            ),
        ) {
            for format in [Format::Text, Format::Binary] {
                for column in columns(&bits) {
                    let name = column.0;
                    let [by_row, by_block] = both(vec![column], format);
                    prop_assert_eq!(by_row, by_block, "blocks-1: {}", name);
                }
                let columns = columns(&bits).into_iter().filter(|(name, _)| *name != "d");
                let [by_row, by_block] = both(columns.collect(), format);
                prop_assert!(by_row == by_block, "blocks-1");
            }
        }
    }

    #[test]
    fn the_first_and_the_last_values_of_each_type_fit_their_cells() {
        let edges = [0, 1, 9, 10, 99, 100, i64::MAX.unsigned_abs(), 1 << 63, u64::MAX, 255, 65_535];
        let bits = edges.map(Some);
        for (name, array) in columns(&bits) {
            let field = Field::new(name, array.data_type().clone(), true);
            for format in [Format::Text, Format::Binary] {
                let Some(Column::Cells(fill)) = column(&field, array.as_ref(), format) else {
                    continue;
                };
                let mut cells = vec![Cell::EMPTY; bits.len()];
                fill(0..bits.len(), &mut cells);
                // Times that the binary format does not have are refused elsewhere.
                let is_refused = |cell: &Cell| format == Format::Binary && cell.used == usize::MAX;
                let fit = |cell: &Cell| cell.used <= CELL_BYTES || is_refused(cell);
                assert!(cells.iter().all(fit), "{name}");
            }
        }
    }

    #[test]
    fn long_texts_are_written_row_by_row() {
        let texts = (0..100).map(|row| "x".repeat(row * 400));
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let [by_row, by_block] = both(vec![("t", array)], Format::Text);
        assert!(by_row == by_block, "blocks-1");
    }
}
