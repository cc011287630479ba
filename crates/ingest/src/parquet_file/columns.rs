//! Arrow arrays become the columns of a strip.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes as types;
use arrow::datatypes::{DataType, TimeUnit as ArrowTimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use tidegate_model::{ColumnType, TimeUnit, limits};
use tidegate_storage::segment::arrow_type;

use crate::convert::{Converter, Fault};
use crate::faults::{RecordPlace, RowOrigin};
use crate::layout::RowLayout;
use crate::parse::CellError;
use crate::reject::{Reason, RejectPlace};
use crate::strip::{Cell, Place, STRIP_ROWS, Strip, StripColumn, Values};
use crate::timestamp::{EpochUnit, TimestampFormat, TimestampParser};

/// The type of column that holds a field's values; `None`: there is none yet.
pub(super) fn column_type(own: &DataType) -> Option<ColumnType> {
    Some(match own {
        DataType::Boolean => ColumnType::Boolean,
        DataType::Int8 => ColumnType::Int8,
        DataType::Int16 => ColumnType::Int16,
        DataType::Int32 => ColumnType::Int32,
        DataType::Int64 => ColumnType::Int64,
        DataType::UInt8 => ColumnType::UInt8,
        DataType::UInt16 => ColumnType::UInt16,
        DataType::UInt32 => ColumnType::UInt32,
        DataType::UInt64 => ColumnType::UInt64,
        DataType::Float16 | DataType::Float32 => ColumnType::Float32,
        DataType::Float64 => ColumnType::Float64,
        &DataType::Decimal32(precision, scale)
        | &DataType::Decimal64(precision, scale)
        | &DataType::Decimal128(precision, scale) => {
            let scale = u8::try_from(scale).ok().filter(|&scale| scale <= precision)?;
            ColumnType::Decimal { precision, scale }
        }
        DataType::Date32 => ColumnType::Date,
        DataType::Timestamp(ArrowTimeUnit::Nanosecond, _) => ColumnType::Timestamp(TimeUnit::Nanos),
        DataType::Timestamp(..) | DataType::Date64 => ColumnType::Timestamp(TimeUnit::Micros),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
            ColumnType::Varchar
        }
        DataType::Dictionary(_, value) if value.is_string() => ColumnType::Symbol,
        DataType::Dictionary(_, value) => return column_type(value),
        DataType::FixedSizeBinary(16) => ColumnType::Uuid,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => ColumnType::Binary,
        _ => return None,
    })
}

/// What an array is cast to before its values go to a column.
fn wanted_type(own: &DataType, ty: ColumnType) -> DataType {
    match (own, ty) {
        (DataType::Dictionary(_, value), ColumnType::Symbol) if value.is_string() => own.clone(),
        _ => arrow_type(ty),
    }
}

/// The type of the values, also of those that are kept in a dictionary.
pub(super) fn plain_type(own: &DataType) -> &DataType {
    match own {
        DataType::Dictionary(_, value) => plain_type(value),
        own => own,
    }
}

/// Whether values of a type can go to a column. Numbers that are no integers count no time.
pub(super) fn can_become(own: &DataType, ty: ColumnType) -> bool {
    let plain = plain_type(own);
    let is_fraction = plain.is_floating() || plain.is_decimal();
    let is_time = ty.time_unit().is_some() || ty == ColumnType::Date;
    !(is_fraction && is_time) && arrow::compute::can_cast_types(own, &wanted_type(own, ty))
}

/// What a cast has made of an array, without values that the column's type cannot hold: a fraction
/// is no integer, and no number becomes infinite.
fn without_losses(own: &ArrayRef, cast: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let (from, to) = (plain_type(own.data_type()), cast.data_type());
    let is_number = |ty: &DataType| ty.is_numeric() || ty.is_decimal();
    let is_lost = match (from, to) {
        (DataType::Float64, DataType::Float32) => {
            let finite = arrow::compute::cast(own, &DataType::Float64)?;
            let finite = finite.as_primitive::<types::Float64Type>().values().iter();
            let now = cast.as_primitive::<types::Float32Type>().values().iter();
            finite.zip(now).map(|(own, now)| own.is_finite() && now.is_infinite()).collect()
        }
        (from, to)
            if (from.is_floating() || from.is_decimal()) && is_number(to) && !to.is_floating() =>
        {
            let back = arrow::compute::cast(&cast, from)?;
            let own = arrow::compute::cast(own, from)?;
            arrow::compute::kernels::cmp::neq(&own, &back)?
        }
        _ => return Ok(cast),
    };
    arrow::compute::nullif(&cast, &is_lost)
}

/// Texts as the instants that they are in a column's unit.
fn instants_of(texts: &ArrayRef, parser: &mut TimestampParser, ty: ColumnType) -> ArrayRef {
    let texts = arrow::compute::cast(texts, &DataType::Utf8View).expect("texts are texts");
    let texts = texts.as_string_view().iter();
    let instants = texts.map(|text| parser.parse(text?.as_bytes()).ok());
    let instants: Int64Array = instants.collect();
    arrow::compute::cast(&instants, &arrow_type(ty)).expect("an instant is a number")
}

/// Least and greatest timestamp and rows of each row group that says so.
pub(super) fn group_bounds(
    metadata: &ArrowReaderMetadata,
    source: usize,
    (ty, epoch): (ColumnType, Option<EpochUnit>),
) -> parquet::errors::Result<Vec<(i64, i64, u64)>> {
    let parquet = metadata.metadata();
    let name = metadata.schema().field(source).name();
    let converter =
        StatisticsConverter::try_new(name, metadata.schema(), metadata.parquet_schema())?;
    let cast = |array: ArrayRef| -> parquet::errors::Result<ArrayRef> {
        let instants = arrow::compute::cast(&counted(&array, epoch)?, &arrow_type(ty))?;
        Ok(arrow::compute::cast(&instants, &DataType::Int64)?)
    };
    let min = cast(converter.row_group_mins(parquet.row_groups())?)?;
    let max = cast(converter.row_group_maxes(parquet.row_groups())?)?;
    let (min, max) =
        (min.as_primitive::<types::Int64Type>(), max.as_primitive::<types::Int64Type>());
    let groups = parquet.row_groups().iter().enumerate();
    Ok(groups
        .filter(|&(group, _)| min.is_valid(group) && max.is_valid(group))
        .map(|(group, own)| {
            (min.value(group), max.value(group), u64::try_from(own.num_rows()).unwrap_or(0))
        })
        .collect())
}

/// What integers that are times count.
pub(super) fn epoch_unit(format: Option<&TimestampFormat>) -> Option<EpochUnit> {
    match format {
        Some(TimestampFormat::Epoch(unit)) => Some(*unit),
        _ => None,
    }
}

/// Integers that count time as what they are; other arrays, and those of which nobody says what
/// they count, as they were.
fn counted(array: &ArrayRef, epoch: Option<EpochUnit>) -> Result<ArrayRef, ArrowError> {
    let is_integer = plain_type(array.data_type()).is_integer();
    let Some(epoch) = epoch.filter(|_| is_integer) else {
        return Ok(Arc::clone(array));
    };
    let unit = match epoch {
        EpochUnit::Seconds => ArrowTimeUnit::Second,
        EpochUnit::Millis => ArrowTimeUnit::Millisecond,
        EpochUnit::Micros => ArrowTimeUnit::Microsecond,
        EpochUnit::Nanos => ArrowTimeUnit::Nanosecond,
    };
    let integers = arrow::compute::cast(array, &DataType::Int64)?;
    arrow::compute::cast(&integers, &DataType::Timestamp(unit, None))
}

/// A batch whose arrays have the types of the table's columns.
pub(super) struct PreparedBatch<'a> {
    rows: usize,
    layout: &'a RowLayout,
    /// For each column of the table: as it is in the file, and as the table wants it.
    arrays: Vec<Option<(ArrayRef, ArrayRef)>>,
}

pub(super) fn prepare<'a>(
    batch: &RecordBatch,
    sources: &[Option<usize>],
    (layout, format): (&'a RowLayout, Option<&TimestampFormat>),
) -> PreparedBatch<'a> {
    // What does not fit becomes NULL, and is then found to be a fault (PQ2).
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let arrays = layout
        .columns
        .iter()
        .zip(sources)
        .enumerate()
        .map(|(position, (column, source))| {
            let own = Arc::clone(batch.column((*source)?));
            let ty = column.column.ty;
            let wanted = wanted_type(own.data_type(), ty);
            if let Some(unit) = ty.time_unit()
                && plain_type(own.data_type()).is_string()
            {
                let format = format.filter(|_| layout.timestamp == Some(position));
                let format = format.unwrap_or(&TimestampFormat::Detect);
                let instants = instants_of(&own, &mut TimestampParser::new(format, unit), ty);
                return Some((own, instants));
            }
            let epoch = epoch_unit(format).filter(|_| ty.time_unit().is_some());
            let counted = counted(&own, epoch).expect("integers are 64 bits wide");
            let cast = if *counted.data_type() == wanted {
                counted
            } else {
                let cast = cast_with_options(&counted, &wanted, &options);
                let kept = cast.and_then(|cast| without_losses(&counted, cast));
                kept.expect("can_become was asked")
            };
            Some((own, cast))
        })
        .collect();
    PreparedBatch { rows: batch.num_rows(), layout, arrays }
}

/// A strip's texts together stay below this: places of texts have 31 bits.
const STRIP_TEXT_MAX: usize = 512 << 20;

impl PreparedBatch<'_> {
    /// Ranges of rows that make a strip each.
    pub(super) fn stretches(&self) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        for start in (0..self.rows).step_by(STRIP_ROWS) {
            self.split(start..(start + STRIP_ROWS).min(self.rows), &mut ranges);
        }
        ranges
    }

    fn split(&self, rows: Range<usize>, ranges: &mut Vec<Range<usize>>) {
        if rows.len() > 1 && self.text_bytes(&rows) > STRIP_TEXT_MAX {
            let middle = usize::midpoint(rows.start, rows.end);
            self.split(rows.start..middle, ranges);
            self.split(middle..rows.end, ranges);
        } else {
            ranges.push(rows);
        }
    }

    /// How many bytes of text these rows have.
    pub(super) fn text_bytes(&self, rows: &Range<usize>) -> usize {
        let arrays = self.arrays.iter().flatten().map(|(_, array)| array);
        let of = |array: &ArrayRef| -> usize {
            match array.data_type() {
                DataType::Utf8View => array
                    .as_string_view()
                    .lengths()
                    .skip(rows.start)
                    .take(rows.len())
                    .map(|n| n as usize)
                    .sum(),
                DataType::BinaryView => array
                    .as_binary_view()
                    .lengths()
                    .skip(rows.start)
                    .take(rows.len())
                    .map(|n| n as usize)
                    .sum(),
                _ => 0,
            }
        };
        arrays.map(of).sum()
    }

    /// Appends rows to an empty strip. Faults are left in the converter's.
    pub(super) fn fill(&self, rows: Range<usize>, converter: &mut Converter, strip: &mut Strip) {
        assert!(strip.rows == 0, "Z1");
        converter.faults.clear();
        strip.rows = rows.len();
        let Strip { columns, unescaped, .. } = strip;
        for (index, (arrays, into)) in self.arrays.iter().zip(columns).enumerate() {
            let Some((own, array)) = arrays else {
                into.push_nulls(rows.len());
                continue;
            };
            let ty = self.layout.columns[index].column.ty;
            let values = array.slice(rows.start, rows.len());
            let mut column = FillColumn { index, converter, unescaped };
            if self.layout.columns[index].text.is_some() {
                column.texts(&values, into);
            } else {
                fill_values(ty, &values, into);
            }
            if array.null_count() > own.logical_null_count() {
                let own = own.slice(rows.start, rows.len());
                column.lost_values(&own, &values);
            }
        }
    }

    /// Who to ask where rows come from: `first_row` is the number of the first in its file.
    pub(super) fn origin(&self, file: usize, first_row: u64, start: usize) -> BatchOrigin<'_> {
        BatchOrigin { batch: self, file, first_row, start }
    }
}

/// A column that is being filled.
struct FillColumn<'a> {
    index: usize,
    converter: &'a mut Converter,
    unescaped: &'a mut Vec<u8>,
}

impl FillColumn<'_> {
    fn fault(&mut self, row: usize, reason: Reason) {
        let narrow = |value: usize| u32::try_from(value).expect("a strip is small");
        let (row, column) = (narrow(row), narrow(self.index));
        self.converter.faults.push(Fault { row, column, reason });
    }

    /// PQ2: values that the cast has made NULL.
    fn lost_values(&mut self, own: &ArrayRef, cast: &ArrayRef) {
        let is_text = plain_type(own.data_type()).is_string();
        let error = match cast.data_type() {
            DataType::Timestamp(..) if is_text => CellError::NotATimestamp,
            _ => CellError::OutOfRange,
        };
        let nulls = own.logical_nulls();
        for row in 0..own.len() {
            if cast.is_null(row) && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                self.fault(row, Reason::Cell(error));
            }
        }
    }

    fn texts(&mut self, array: &ArrayRef, into: &mut StripColumn) {
        let Values::Text(cells) = &mut into.values else { unreachable!("a text column") };
        match array.data_type() {
            DataType::Utf8View => {
                let array = array.as_string_view();
                for row in 0..array.len() {
                    let text = array.is_valid(row).then(|| array.value(row).as_bytes());
                    cells.push(self.cell(row, text));
                }
            }
            DataType::BinaryView => {
                let array = array.as_binary_view();
                for row in 0..array.len() {
                    let text = array.is_valid(row).then(|| array.value(row));
                    cells.push(self.cell(row, text));
                }
            }
            _ => self.dictionary_texts(array, cells),
        }
    }

    fn cell(&mut self, row: usize, text: Option<&[u8]>) -> Cell {
        let Some(text) = text else { return Cell::NULL };
        let column = self.converter.text_column(self.index).expect("a text column");
        if let Err(error) = column.check(text) {
            self.fault(row, Reason::Cell(error));
            return Cell::NULL;
        }
        match column.number(text) {
            Some(number) => Cell::interned(number),
            None => {
                let start = self.unescaped.len();
                self.unescaped.extend_from_slice(text);
                Cell::at(Place::Unescaped(start, text.len()))
            }
        }
    }

    /// Each value of the dictionary is looked up once, and only if a row has it.
    fn dictionary_texts(&mut self, array: &ArrayRef, cells: &mut Vec<Cell>) {
        let keys = array.as_dictionary::<types::Int32Type>();
        let texts = keys.values().as_string::<i32>();
        let mut known: Vec<Option<Cell>> = vec![None; texts.len()];
        for (row, key) in keys.keys().iter().enumerate() {
            let key =
                key.and_then(|key| usize::try_from(key).ok()).filter(|&key| texts.is_valid(key));
            let cell = match key.map(|key| (key, known[key])) {
                None => Cell::NULL,
                Some((_, Some(cell))) => cell,
                Some((key, None)) => {
                    let cell = self.cell(row, Some(texts.value(key).as_bytes()));
                    // A text that is a fault is one in every row.
                    if cell != Cell::NULL {
                        known[key] = Some(cell);
                    }
                    cell
                }
            };
            cells.push(cell);
        }
    }
}

/// Copies values of a fixed width; what stands under a NULL is 0 (Z1).
fn fill_values(ty: ColumnType, array: &ArrayRef, into: &mut StripColumn) {
    let StripColumn { values, nulls } = into;
    if let Some(bits) = array.nulls().filter(|bits| bits.null_count() > 0) {
        let null_rows = (0..array.len()).filter(|&row| bits.is_null(row));
        nulls.extend(null_rows.map(|row| u32::try_from(row).expect("a strip is small")));
    }
    match (ty, values) {
        (ColumnType::Boolean, Values::W1(v)) => {
            v.extend(array.as_boolean().values().iter().map(u8::from));
        }
        (ColumnType::Int8, Values::W1(v)) => {
            copy::<types::Int8Type, _>(array, v, i8::cast_unsigned);
        }
        (ColumnType::Int16, Values::W2(v)) => {
            copy::<types::Int16Type, _>(array, v, i16::cast_unsigned);
        }
        (ColumnType::Int32, Values::W4(v)) => {
            copy::<types::Int32Type, _>(array, v, i32::cast_unsigned);
        }
        (ColumnType::Int64, Values::W8(v)) => {
            copy::<types::Int64Type, _>(array, v, i64::cast_unsigned);
        }
        (ColumnType::UInt8, Values::W1(v)) => copy::<types::UInt8Type, _>(array, v, |n| n),
        (ColumnType::UInt16, Values::W2(v)) => copy::<types::UInt16Type, _>(array, v, |n| n),
        (ColumnType::UInt32 | ColumnType::Ipv4, Values::W4(v)) => {
            copy::<types::UInt32Type, _>(array, v, |n| n);
        }
        (ColumnType::UInt64, Values::W8(v)) => copy::<types::UInt64Type, _>(array, v, |n| n),
        (ColumnType::Float32, Values::W4(v)) => {
            copy::<types::Float32Type, _>(array, v, f32::to_bits);
        }
        (ColumnType::Float64, Values::W8(v)) => {
            copy::<types::Float64Type, _>(array, v, f64::to_bits);
        }
        (ColumnType::Timestamp(TimeUnit::Micros), Values::W8(v)) => {
            copy::<types::TimestampMicrosecondType, _>(array, v, i64::cast_unsigned);
        }
        (ColumnType::Timestamp(TimeUnit::Nanos), Values::W8(v)) => {
            copy::<types::TimestampNanosecondType, _>(array, v, i64::cast_unsigned);
        }
        (ColumnType::Date, Values::W4(v)) => {
            copy::<types::Date32Type, _>(array, v, i32::cast_unsigned);
        }
        (ColumnType::Decimal { .. }, Values::W16(v)) => {
            copy::<types::Decimal128Type, _>(array, v, i128::cast_unsigned);
        }
        (ColumnType::Uuid, Values::W16(v)) => {
            let array = array.as_fixed_size_binary();
            v.extend((0..array.len()).map(|row| {
                u128::from_le_bytes(array.value(row).try_into().expect("sixteen bytes"))
            }));
        }
        (ty, _) => unreachable!("{} has another width", ty.sql()),
    }
}

fn copy<T: ArrowPrimitiveType, V: Default>(
    array: &ArrayRef,
    into: &mut Vec<V>,
    value: impl Fn(T::Native) -> V,
) {
    let array = array.as_primitive::<T>();
    if array.null_count() == 0 {
        into.extend(array.values().iter().map(|&own| value(own)));
    } else {
        into.extend(array.iter().map(|own| own.map_or_else(V::default, &value)));
    }
}

/// Where the rows of a strip of a batch come from.
pub(super) struct BatchOrigin<'a> {
    batch: &'a PreparedBatch<'a>,
    file: usize,
    /// The number of the strip's first row in the file.
    first_row: u64,
    start: usize,
}

impl RowOrigin for BatchOrigin<'_> {
    fn place(&self, row: u32) -> RecordPlace {
        let row = self.first_row + u64::from(row);
        RecordPlace { file: self.file, place: RejectPlace::Row(row) }
    }

    fn text(&self, fault: &Fault) -> Cow<'_, [u8]> {
        let array = self.batch.arrays[fault.column as usize].as_ref();
        let row = self.start + fault.row as usize;
        let shown = array.and_then(|(own, _)| {
            let shown = array_value_to_string(own, row).ok();
            let plain = || {
                let number = arrow::compute::cast(own, &DataType::Int64).ok()?;
                array_value_to_string(&number, row).ok()
            };
            // What Arrow writes for an instant that its calendar does not have.
            shown.filter(|shown| !shown.starts_with("ERROR: ")).or_else(plain)
        });
        Cow::Owned(shown.unwrap_or_default().into_bytes())
    }
}

const _: () = assert!(STRIP_TEXT_MAX > limits::VALUE_BYTES);
