//! Conversion of Arrow arrays of a Parquet file to the columns of a parsed batch.
//!
//! Values that the table stores with the same bits are copied, texts are parsed like those of text
//! files, and all other values are converted by the table of casts (`cast`).

use std::borrow::Cow;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes as types;
use arrow::datatypes::{DataType, TimeUnit as ArrowTimeUnit};
use tidegate_model::types::Physical;
use tidegate_model::{ColumnType, TimeUnit, limits};
use tidegate_storage::segment::arrow_type;

use crate::convert::{Converter, ParseError, RowPlace, RowsOfText};
use crate::parse::{CellError, POWERS_OF_TEN};
use crate::parse_errors::{RecordPlace, RowOrigin};
use crate::parsed_batch::{Cell, PARSED_BATCH_ROWS, ParsedBatch, ParsedColumn, Place, Values};
use crate::reject::{Reason, RejectPlace};
use crate::timestamp::EpochUnit;

use super::cast::{Instant, Kind, Rule, Scalar, rule, unit_nanos};

/// The type of column for the values of a field; `None` if there is no such type.
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

/// The type of the values, those of a dictionary included.
pub(super) fn plain_type(own: &DataType) -> &DataType {
    match own {
        DataType::Dictionary(_, value) => plain_type(value),
        own => own,
    }
}

/// The conversion of a file's column to the table's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnCast {
    pub(super) kind: Kind,
    pub(super) ty: ColumnType,
    conversion: ColumnConversion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnConversion {
    /// The bits are copied.
    Same,
    /// Decimals with the same scale are copied after a check.
    SameScale { precision: u8 },
    /// Instants of 64 bits in another unit.
    Rescale { nanos: i64 },
    /// The table of casts; for integers that count time, with the nanoseconds of one unit.
    Cast { rule: Rule, count_nanos: i128 },
}

impl ColumnCast {
    /// Creates the conversion; `None` if values of that type cannot go into such a column.
    pub(super) fn new(
        own: &DataType,
        ty: ColumnType,
        epoch: Option<EpochUnit>,
    ) -> Option<ColumnCast> {
        let plain = plain_type(own);
        let kind = Kind::of(plain)?;
        let rule = rule(kind, ty)?;
        let conversion = match (plain, ty) {
            (DataType::Timestamp(unit, _), ColumnType::Timestamp(to)) => {
                let nanos = i64::try_from(unit_nanos(*unit)).expect("at most a second");
                if nanos == nanos_of(to) {
                    ColumnConversion::Same
                } else {
                    ColumnConversion::Rescale { nanos }
                }
            }
            (&DataType::Decimal128(_, from), ColumnType::Decimal { precision, scale })
                if i16::from(from) == i16::from(scale) =>
            {
                ColumnConversion::SameScale { precision }
            }
            (plain, _) if is_same(plain, ty) => ColumnConversion::Same,
            _ => {
                let count_nanos = i128::from(epoch.map_or(0, EpochUnit::nanos));
                ColumnConversion::Cast { rule, count_nanos }
            }
        };
        Some(ColumnCast { kind, ty, conversion })
    }

    /// Creates the conversion of INT96, whose values are read as nanoseconds with any number of
    /// digits.
    pub(super) fn of_int96(ty: ColumnType) -> Option<ColumnCast> {
        let rule = rule(Kind::Instant, ty)?;
        Some(ColumnCast {
            kind: Kind::Instant,
            ty,
            conversion: ColumnConversion::Cast { rule, count_nanos: 0 },
        })
    }

    /// Returns true if integers are converted to times without a given unit.
    pub(super) fn lacks_epoch(&self) -> bool {
        matches!(self.conversion, ColumnConversion::Cast { rule: Rule::Count, count_nanos: 0 })
    }

    /// Returns true if texts are parsed as times.
    pub(super) fn parses_times(&self) -> bool {
        let is_parsed =
            matches!(self.conversion, ColumnConversion::Cast { rule: Rule::Parsed, .. });
        is_parsed && matches!(self.ty, ColumnType::Timestamp(_) | ColumnType::Date)
    }

    /// The instants of texts or numbers, in the unit of the column, for statistics.
    pub(super) fn instants(&self, array: &ArrayRef) -> Vec<Option<i64>> {
        let ColumnType::Timestamp(unit) = self.ty else { return vec![None; array.len()] };
        let nanos = match self.conversion {
            ColumnConversion::Cast { count_nanos, .. } => count_nanos,
            _ => 0,
        };
        let instant = |scalar: Scalar<'_>| match nanos {
            0 => scalar.timestamp(unit).ok(),
            nanos => scalar.counted(nanos).timestamp(unit).ok(),
        };
        scalars(array, self.kind).into_iter().map(|scalar| scalar.and_then(instant)).collect()
    }
}

fn nanos_of(unit: TimeUnit) -> i64 {
    1_000_000_000 / unit.per_second()
}

/// Returns true if the values of a type are stored as they are. Decimals are not: in a damaged file
/// they may have more digits than it declares.
fn is_same(own: &DataType, ty: ColumnType) -> bool {
    match ty.physical() {
        Physical::Bytes | Physical::Wide => false,
        _ => *own == arrow_type(ty),
    }
}

/// A batch of rows: for each column of the table, its array and its conversion.
pub(super) struct PreparedBatch<'a> {
    pub(super) rows: usize,
    pub(super) columns: Vec<Option<(ArrayRef, &'a ColumnCast)>>,
}

/// The maximum bytes of text of a parsed batch: places of texts have 31 bits.
const PARSED_TEXT_MAX: usize = 512 << 20;

/// The maximum number of values of a dictionary for which a parsed batch caches cells: 64 KiB,
/// allocated for each parsed batch.
const KNOWN_TEXTS_MAX: usize = 32 * PARSED_BATCH_ROWS;

impl PreparedBatch<'_> {
    /// The ranges of rows for single parsed batches, each of at most `text_max` bytes of text, or
    /// of one row.
    pub(super) fn stretches(&self, text_max: usize) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        for start in (0..self.rows).step_by(PARSED_BATCH_ROWS) {
            let rows = start..(start + PARSED_BATCH_ROWS).min(self.rows);
            self.split(rows, text_max.min(PARSED_TEXT_MAX), &mut ranges);
        }
        ranges
    }

    fn split(&self, rows: Range<usize>, text_max: usize, ranges: &mut Vec<Range<usize>>) {
        if rows.len() > 1 && self.text_bytes(&rows) > text_max {
            let middle = usize::midpoint(rows.start, rows.end);
            self.split(rows.start..middle, text_max, ranges);
            self.split(middle..rows.end, text_max, ranges);
        } else {
            ranges.push(rows);
        }
    }

    /// The size of the text of these rows.
    pub(super) fn text_bytes(&self, rows: &Range<usize>) -> usize {
        let arrays = self.columns.iter().flatten().map(|(array, _)| array);
        let of = |array: &ArrayRef| -> usize {
            match array.data_type() {
                DataType::BinaryView => array
                    .as_binary_view()
                    .lengths()
                    .skip(rows.start)
                    .take(rows.len())
                    .map(|n| n as usize)
                    .sum(),
                DataType::FixedSizeBinary(width) => {
                    usize::try_from(*width).unwrap_or(0) * rows.len()
                }
                _ => 0,
            }
        };
        arrays.map(of).sum()
    }

    /// Appends rows to an empty parsed batch. Parse errors are added to those of the converter.
    pub(super) fn fill(
        &self,
        rows: Range<usize>,
        converter: &mut Converter,
        parsed: &mut ParsedBatch,
    ) {
        assert!(parsed.rows == 0, "parsed_batch-1");
        converter.errors.clear();
        parsed.rows = rows.len();
        let ParsedBatch { columns, unescaped, .. } = parsed;
        for (index, (column, into)) in self.columns.iter().zip(columns).enumerate() {
            let Some((array, cast)) = column else {
                into.push_nulls(rows.len());
                continue;
            };
            let values = array.slice(rows.start, rows.len());
            FillColumn { index, converter, unescaped, cast }.fill(&values, into);
        }
    }

    /// The origin of rows for messages: `first_row` is the number of the first row in its file.
    pub(super) fn origin(&self, file: usize, first_row: u64, start: usize) -> BatchOrigin<'_> {
        BatchOrigin { batch: self, file, first_row, start }
    }
}

/// A column that is being filled.
struct FillColumn<'a> {
    index: usize,
    converter: &'a mut Converter,
    unescaped: &'a mut Vec<u8>,
    cast: &'a ColumnCast,
}

impl FillColumn<'_> {
    fn fill(&mut self, array: &ArrayRef, into: &mut ParsedColumn) {
        match self.cast.conversion {
            ColumnConversion::Same => fill_values(self.cast.ty, array, into),
            ColumnConversion::SameScale { precision } => self.same_scale(array, precision, into),
            ColumnConversion::Rescale { nanos } => self.rescale(array, nanos, into),
            ColumnConversion::Cast { rule: Rule::Null, .. } => into.push_nulls(array.len()),
            ColumnConversion::Cast { rule: Rule::Bytes, .. } => self.texts(array, into),
            ColumnConversion::Cast { rule: Rule::Parsed, .. } => self.parse(array, into),
            ColumnConversion::Cast { rule: Rule::Written, .. } => self.write(array, into),
            ColumnConversion::Cast { rule: _, count_nanos } => self.cast(array, count_nanos, into),
        }
    }

    #[cold]
    fn add_error(&mut self, row: usize, error: CellError) {
        let narrow = |value: usize| u32::try_from(value).expect("a parsed batch is small");
        let (row, column) = (narrow(row), narrow(self.index));
        self.converter.errors.push(ParseError { row, column, reason: Reason::Cell(error) });
    }

    /// Copies decimals after a check: in a damaged file they may have more digits than it declares.
    fn same_scale(&mut self, array: &ArrayRef, precision: u8, into: &mut ParsedColumn) {
        let bound = POWERS_OF_TEN[usize::from(precision)];
        let ParsedColumn { values, nulls } = into;
        let Values::W16(values) = values else { unreachable!("a decimal has sixteen bytes") };
        push_nulls(array, nulls);
        for (row, &own) in array.as_primitive::<types::Decimal128Type>().values().iter().enumerate()
        {
            let own = if array.is_null(row) { 0 } else { own };
            let is_within = own.unsigned_abs() < bound;
            values.push(if is_within { own.cast_unsigned() } else { 0 });
            if !is_within {
                self.add_error(row, CellError::OutOfRange);
            }
        }
    }

    /// Converts instants from a unit of the file, as `Scalar::timestamp` does.
    fn rescale(&mut self, array: &ArrayRef, nanos: i64, into: &mut ParsedColumn) {
        let ColumnType::Timestamp(to) = self.cast.ty else { unreachable!("a timestamp") };
        let to = nanos_of(to);
        let ParsedColumn { values, nulls } = into;
        let Values::W8(values) = values else { unreachable!("a timestamp has eight bytes") };
        push_nulls(array, nulls);
        for (row, &own) in instants_of(array).iter().enumerate() {
            let instant = match nanos.cmp(&to) {
                std::cmp::Ordering::Less => Some(own.div_euclid(to / nanos)),
                _ => own.checked_mul(nanos / to),
            };
            let instant = if array.is_null(row) { Some(0) } else { instant };
            values.push(instant.unwrap_or(0).cast_unsigned());
            if instant.is_none() {
                self.add_error(row, CellError::TimeOutOfRange);
            }
        }
    }

    /// Parses texts: all rows are joined to one text, with the end of each.
    fn parse(&mut self, array: &ArrayRef, into: &mut ParsedColumn) {
        let (mut text, mut rows, mut field_ends) = (Vec::new(), Vec::new(), Vec::new());
        let place = |at: usize| u32::try_from(at).expect("STRIP_TEXT_MAX");
        for (row, cell) in texts_of(array).enumerate() {
            rows.push(RowPlace { start: place(text.len()), first: place(row) });
            text.extend_from_slice(cell.unwrap_or_default());
            field_ends.push(place(text.len()));
        }
        let rows = RowsOfText {
            text: &text,
            field_ends: &field_ends,
            rows: &rows,
            quote: None,
            null_text: None,
            is_checked: false,
        };
        self.converter.convert_column(self.index, &rows, into, self.unescaped);
    }

    /// Writes values in the form of a text file.
    fn write(&mut self, array: &ArrayRef, into: &mut ParsedColumn) {
        let Values::Text(cells) = &mut into.values else { unreachable!("a text column") };
        for (row, scalar) in scalars(array, self.cast.kind).into_iter().enumerate() {
            let cell = match scalar.map(Scalar::text).transpose() {
                Ok(text) => self.cell(row, text.as_deref().map(str::as_bytes)),
                Err(error) => {
                    self.add_error(row, error);
                    Cell::NULL
                }
            };
            cells.push(cell);
        }
    }

    fn texts(&mut self, array: &ArrayRef, into: &mut ParsedColumn) {
        let Values::Text(cells) = &mut into.values else { unreachable!("a text column") };
        if let DataType::Dictionary(..) = array.data_type() {
            return self.dictionary_texts(array, cells);
        }
        for (row, text) in texts_of(array).enumerate() {
            cells.push(self.cell(row, text));
        }
    }

    fn cell(&mut self, row: usize, text: Option<&[u8]>) -> Cell {
        let Some(text) = text else { return Cell::NULL };
        let column = self.converter.text_column(self.index).expect("a text column");
        if let Err(error) = column.check(text) {
            self.add_error(row, error);
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

    /// Reads the texts of a dictionary. If it is not large, each value is looked up once a parsed
    /// batch, and only if a row has it.
    fn dictionary_texts(&mut self, array: &ArrayRef, cells: &mut Vec<Cell>) {
        let keys = array.as_dictionary::<types::Int32Type>();
        let texts = keys.values().as_binary::<i32>();
        // A parsed batch has few of the values of a large dictionary, and few of these repeat.
        let is_small = texts.len() <= KNOWN_TEXTS_MAX;
        let mut known: Vec<Option<Cell>> = vec![None; if is_small { texts.len() } else { 0 }];
        for (row, key) in keys.keys().iter().enumerate() {
            let key = key.and_then(|key| usize::try_from(key).ok());
            let key = key.filter(|&key| key < texts.len() && texts.is_valid(key));
            let cell = match key.map(|key| (key, known.get(key).copied().flatten())) {
                None => Cell::NULL,
                Some((_, Some(cell))) => cell,
                Some((key, None)) => {
                    let cell = self.cell(row, Some(texts.value(key)));
                    // A text that does not parse is an error in every row.
                    if let Some(known) = known.get_mut(key).filter(|_| cell != Cell::NULL) {
                        *known = Some(cell);
                    }
                    cell
                }
            };
            cells.push(cell);
        }
    }

    /// Converts values by the table of casts.
    fn cast(&mut self, array: &ArrayRef, count_nanos: i128, into: &mut ParsedColumn) {
        let mut scalars = scalars(array, self.cast.kind);
        if count_nanos != 0 {
            scalars.iter_mut().flatten().for_each(|scalar| *scalar = scalar.counted(count_nanos));
        }
        let ParsedColumn { values, nulls } = into;
        let mut put = Put { column: self, scalars: &scalars, nulls };
        match (put.column.cast.ty, values) {
            (ColumnType::Boolean, Values::W1(v)) => put.all(v, |s| s.bit().map(u8::from)),
            (ColumnType::Int8, Values::W1(v)) => {
                put.all(v, |s| s.integer::<i8>().map(i8::cast_unsigned));
            }
            (ColumnType::Int16, Values::W2(v)) => {
                put.all(v, |s| s.integer::<i16>().map(i16::cast_unsigned));
            }
            (ColumnType::Int32, Values::W4(v)) => {
                put.all(v, |s| s.integer::<i32>().map(i32::cast_unsigned));
            }
            (ColumnType::Int64, Values::W8(v)) => {
                put.all(v, |s| s.integer::<i64>().map(i64::cast_unsigned));
            }
            (ColumnType::UInt8, Values::W1(v)) => put.all(v, |s| s.integer::<u8>()),
            (ColumnType::UInt16, Values::W2(v)) => put.all(v, |s| s.integer::<u16>()),
            (ColumnType::UInt32 | ColumnType::Ipv4, Values::W4(v)) => {
                put.all(v, |s| s.integer::<u32>());
            }
            (ColumnType::UInt64, Values::W8(v)) => put.all(v, |s| s.integer::<u64>()),
            (ColumnType::Float32, Values::W4(v)) => put.all(v, |s| s.float32().map(bits_of_f32)),
            (ColumnType::Float64, Values::W8(v)) => put.all(v, |s| s.float64().map(bits_of_f64)),
            (ColumnType::Decimal { precision, scale }, Values::W16(v)) => {
                put.all(v, |s| s.decimal(precision, scale).map(i128::cast_unsigned));
            }
            (ColumnType::Timestamp(unit), Values::W8(v)) => {
                put.all(v, |s| s.timestamp(unit).map(i64::cast_unsigned));
            }
            (ColumnType::Date, Values::W4(v)) => put.all(v, |s| s.days().map(i32::cast_unsigned)),
            (ColumnType::Uuid, Values::W16(v)) => put.all(v, |s| s.uuid().map(u128::from_le_bytes)),
            (ty, _) => unreachable!("{} has another width", ty.sql()),
        }
    }
}

/// The destination of converted values in a column.
struct Put<'a, 'b> {
    column: &'a mut FillColumn<'b>,
    scalars: &'a [Option<Scalar<'a>>],
    nulls: &'a mut Vec<u32>,
}

impl Put<'_, '_> {
    fn all<T: Default>(
        &mut self,
        values: &mut Vec<T>,
        cast: impl Fn(Scalar<'_>) -> Result<T, CellError>,
    ) {
        for (row, scalar) in self.scalars.iter().enumerate() {
            let value = match scalar.map(&cast) {
                Some(Ok(value)) => value,
                Some(Err(error)) => {
                    self.column.add_error(row, error);
                    T::default()
                }
                None => {
                    self.nulls.push(u32::try_from(row).expect("PARSED_BATCH_ROWS"));
                    T::default()
                }
            };
            values.push(value);
        }
    }
}

/// The bits of a float; every NaN has the same bits, as when it is parsed from text.
fn bits_of_f32(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }
}

fn bits_of_f64(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }
}

/// The bytes of each row.
fn texts_of(array: &ArrayRef) -> Box<dyn Iterator<Item = Option<&[u8]>> + '_> {
    match array.data_type() {
        DataType::BinaryView => Box::new(array.as_binary_view().iter()),
        DataType::FixedSizeBinary(_) => Box::new(array.as_fixed_size_binary().iter()),
        DataType::Dictionary(..) => {
            let keys = array.as_dictionary::<types::Int32Type>();
            let texts = keys.values().as_binary::<i32>();
            Box::new(keys.keys().iter().map(move |key| {
                let key = usize::try_from(key?).ok().filter(|&key| key < texts.len())?;
                texts.is_valid(key).then(|| texts.value(key))
            }))
        }
        ty => unreachable!("{ty} was not asked for"),
    }
}

/// The instants of an array, with undefined ones at NULLs.
fn instants_of(array: &ArrayRef) -> &[i64] {
    match array.data_type() {
        DataType::Timestamp(ArrowTimeUnit::Second, _) => {
            array.as_primitive::<types::TimestampSecondType>().values()
        }
        DataType::Timestamp(ArrowTimeUnit::Millisecond, _) => {
            array.as_primitive::<types::TimestampMillisecondType>().values()
        }
        DataType::Timestamp(ArrowTimeUnit::Microsecond, _) => {
            array.as_primitive::<types::TimestampMicrosecondType>().values()
        }
        DataType::Timestamp(ArrowTimeUnit::Nanosecond, _) => {
            array.as_primitive::<types::TimestampNanosecondType>().values()
        }
        ty => unreachable!("{ty} is no timestamp"),
    }
}

/// The values of an array, in the widest form of their kind.
fn scalars(array: &ArrayRef, kind: Kind) -> Vec<Option<Scalar<'_>>> {
    match array.data_type() {
        DataType::Boolean => array.as_boolean().iter().map(|v| v.map(Scalar::Boolean)).collect(),
        DataType::Int8 => integers::<types::Int8Type>(array),
        DataType::Int16 => integers::<types::Int16Type>(array),
        DataType::Int32 => integers::<types::Int32Type>(array),
        DataType::Int64 => integers::<types::Int64Type>(array),
        DataType::UInt8 => integers::<types::UInt8Type>(array),
        DataType::UInt16 => integers::<types::UInt16Type>(array),
        DataType::UInt32 => integers::<types::UInt32Type>(array),
        DataType::UInt64 => integers::<types::UInt64Type>(array),
        DataType::Float16 => each::<types::Float16Type>(array, |v| Scalar::Float32(v.to_f32())),
        DataType::Float32 => each::<types::Float32Type>(array, Scalar::Float32),
        DataType::Float64 => each::<types::Float64Type>(array, Scalar::Float64),
        DataType::Decimal32(_, scale) => decimals::<types::Decimal32Type>(array, *scale),
        DataType::Decimal64(_, scale) => decimals::<types::Decimal64Type>(array, *scale),
        // INT96: `group`.
        DataType::Decimal128(..) if kind == Kind::Instant => {
            each::<types::Decimal128Type>(array, |nanos| {
                Scalar::Instant(Instant { nanos, unit: TimeUnit::Nanos })
            })
        }
        DataType::Decimal128(_, scale) => decimals::<types::Decimal128Type>(array, *scale),
        DataType::Date32 => each::<types::Date32Type>(array, |days| Scalar::Days(days.into())),
        DataType::Date64 => {
            let nanos = unit_nanos(ArrowTimeUnit::Millisecond);
            each::<types::Date64Type>(array, |v| instant(v, nanos, TimeUnit::Micros))
        }
        DataType::Timestamp(unit, _) => {
            let (nanos, written) = match unit {
                ArrowTimeUnit::Nanosecond => (1, TimeUnit::Nanos),
                unit => (unit_nanos(*unit), TimeUnit::Micros),
            };
            let instants = instants_of(array).iter().enumerate();
            let of = |(row, &v)| array.is_valid(row).then(|| instant(v, nanos, written));
            instants.map(of).collect()
        }
        DataType::BinaryView | DataType::Dictionary(..) => {
            texts_of(array).map(|text| text.map(Scalar::Bytes)).collect()
        }
        DataType::FixedSizeBinary(_) => {
            let of = |bytes: &'_ [u8]| match <[u8; 16]>::try_from(bytes) {
                Ok(bytes) if kind == Kind::Uuid => Some(Scalar::Uuid(bytes)),
                _ => None,
            };
            let scalar = |bytes| of(bytes).unwrap_or(Scalar::Bytes(bytes));
            array.as_fixed_size_binary().iter().map(|bytes| bytes.map(scalar)).collect()
        }
        // A column with only NULL.
        _ => vec![None; array.len()],
    }
}

fn instant(count: i64, nanos: i128, unit: TimeUnit) -> Scalar<'static> {
    Scalar::Instant(Instant { nanos: i128::from(count) * nanos, unit })
}

fn each<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    scalar: impl Fn(T::Native) -> Scalar<'static>,
) -> Vec<Option<Scalar<'_>>> {
    array.as_primitive::<T>().iter().map(|value| value.map(&scalar)).collect()
}

fn integers<T: ArrowPrimitiveType>(array: &ArrayRef) -> Vec<Option<Scalar<'_>>>
where
    T::Native: Into<i128>,
{
    each::<T>(array, |value| Scalar::Integer(value.into()))
}

fn decimals<T: ArrowPrimitiveType>(array: &ArrayRef, scale: i8) -> Vec<Option<Scalar<'_>>>
where
    T::Native: Into<i128>,
{
    each::<T>(array, |value| Scalar::Decimal { unscaled: value.into(), scale: scale.into() })
}

fn push_nulls(array: &ArrayRef, nulls: &mut Vec<u32>) {
    if let Some(bits) = array.nulls().filter(|bits| bits.null_count() > 0) {
        let null_rows = (0..array.len()).filter(|&row| bits.is_null(row));
        nulls.extend(null_rows.map(|row| u32::try_from(row).expect("a parsed batch is small")));
    }
}

/// Copies values of a fixed width; the value at a NULL is 0 (parsed_batch-1).
fn fill_values(ty: ColumnType, array: &ArrayRef, into: &mut ParsedColumn) {
    let ParsedColumn { values, nulls } = into;
    push_nulls(array, nulls);
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
            copy::<types::Float32Type, _>(array, v, bits_of_f32);
        }
        (ColumnType::Float64, Values::W8(v)) => {
            copy::<types::Float64Type, _>(array, v, bits_of_f64);
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
        (ColumnType::Uuid, Values::W16(v)) => {
            let array = array.as_fixed_size_binary();
            v.extend((0..array.len()).map(|row| {
                u128::from_le_bytes(array.value(row).try_into().expect("sixteen bytes"))
            }));
        }
        (ty, _) => unreachable!("{} has another width", ty.sql()),
    }
    zero(&mut into.values, &into.nulls);
}

/// Sets the values at NULLs to 0 (parsed_batch-1), whatever the decoder has left there.
fn zero(values: &mut Values, rows: &[u32]) {
    fn each<T: Default>(values: &mut [T], rows: &[u32]) {
        for &row in rows {
            values[row as usize] = T::default();
        }
    }
    match values {
        Values::W1(values) => each(values, rows),
        Values::W2(values) => each(values, rows),
        Values::W4(values) => each(values, rows),
        Values::W8(values) => each(values, rows),
        Values::W16(values) => each(values, rows),
        Values::Text(_) => {}
    }
}

/// Copies all values as one block, those at NULLs included.
fn copy<T: ArrowPrimitiveType, V>(
    array: &ArrayRef,
    into: &mut Vec<V>,
    value: impl Fn(T::Native) -> V,
) {
    into.extend(array.as_primitive::<T>().values().iter().map(|&own| value(own)));
}

/// The origin of the rows of a parsed batch that was made from an Arrow batch.
pub(super) struct BatchOrigin<'a> {
    batch: &'a PreparedBatch<'a>,
    file: usize,
    /// The number of the parsed batch's first row in the file.
    first_row: u64,
    start: usize,
}

impl RowOrigin for BatchOrigin<'_> {
    fn place(&self, row: u32) -> RecordPlace {
        let row = self.first_row + u64::from(row);
        RecordPlace { file: self.file, place: RejectPlace::Row(row) }
    }

    fn text(&self, error: &ParseError) -> Cow<'_, [u8]> {
        let column = self.batch.columns[error.column as usize].as_ref();
        let text = column.and_then(|(array, cast)| {
            let value = array.slice(self.start + error.row as usize, 1);
            let scalar = scalars(&value, cast.kind).pop().flatten()?;
            Some(match scalar {
                Scalar::Bytes(text) if cast.kind == Kind::Text => text.to_vec(),
                scalar => scalar.written().into_bytes(),
            })
        });
        Cow::Owned(text.unwrap_or_default())
    }
}

const _: () = assert!(PARSED_TEXT_MAX > limits::VALUE_BYTES);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BooleanArray, FixedSizeBinaryArray, Int64Array};
    use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

    use super::*;

    /// The decoder moves values to their rows and leaves other bytes where they were.
    #[test]
    fn values_under_nulls_are_zero() {
        let nulls = || Some(NullBuffer::from(vec![true, false, true]));
        let booleans = BooleanArray::new(BooleanBuffer::from(vec![true; 3]), nulls());
        let numbers = Int64Array::new(vec![7, 8, 9].into(), nulls());
        let uuids = FixedSizeBinaryArray::new(16, Buffer::from(vec![1_u8; 48]), nulls());
        let one = u128::from_le_bytes([1; 16]);
        let cases: [(ColumnType, ArrayRef, Values, [u128; 3]); 3] = [
            (ColumnType::Boolean, Arc::new(booleans), Values::W1(vec![]), [1, 0, 1]),
            (ColumnType::Int64, Arc::new(numbers), Values::W8(vec![]), [7, 0, 9]),
            (ColumnType::Uuid, Arc::new(uuids), Values::W16(vec![]), [one, 0, one]),
        ];
        for (ty, array, values, wanted) in cases {
            let mut column = ParsedColumn { values, nulls: vec![] };
            fill_values(ty, &array, &mut column);
            let found: Vec<u128> = match column.values {
                Values::W1(values) => values.into_iter().map(u128::from).collect(),
                Values::W8(values) => values.into_iter().map(u128::from).collect(),
                Values::W16(values) => values,
                _ => unreachable!("three widths"),
            };
            assert_eq!((found.as_slice(), column.nulls), (&wanted[..], vec![1]), "{}", ty.sql());
        }
    }
}
