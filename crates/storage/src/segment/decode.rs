//! Decoding of encoded slices to Arrow arrays.
//!
//! - Decoding returns the values that `encode` took, in the Arrow type of `arrow_type`.
//! - decode-1. Strings are checked to be UTF-8 once, when their dictionary or page frame is
//!   decoded.
//! - decode-2. A dictionary is decoded as a whole and kept, so that its rows are as fast as those
//!   of numbers; one of long texts is not, and only texts of the rows that are read are decoded.
//!
//! Not here: reading and checking bytes (`read`).

#![expect(unsafe_code, reason = "views over text that was just validated")]
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, PrimitiveArray,
    StringViewArray, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Field, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit as ArrowTimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use tidegate_model::frame::{Dictionary, Strings};
use tidegate_model::{Codes, Column, ColumnSlice, ColumnType, Encoded, TimeUnit};

use super::encode::kernels::POWERS;
use super::fsst::{Decoder, SYMBOL_BYTES};
use crate::error::SegmentDamage;
use crate::symbols::SymbolTable;

/// The metadata key of fields whose type is not evident from the Arrow type: `symbol`, `uuid`,
/// `ipv4`.
pub const TYPE_KEY: &str = "tidegate.type";

type Decoded<T> = std::result::Result<T, SegmentDamage>;

/// The Arrow type of a column's values.
#[must_use]
pub fn arrow_type(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::Int8 => DataType::Int8,
        ColumnType::Int16 => DataType::Int16,
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::UInt8 => DataType::UInt8,
        ColumnType::UInt16 => DataType::UInt16,
        ColumnType::UInt32 | ColumnType::Ipv4 => DataType::UInt32,
        ColumnType::UInt64 => DataType::UInt64,
        ColumnType::Float32 => DataType::Float32,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::Decimal { precision, scale } => {
            DataType::Decimal128(precision, i8::try_from(scale).expect("at most 38"))
        }
        ColumnType::Timestamp(TimeUnit::Micros) => {
            DataType::Timestamp(ArrowTimeUnit::Microsecond, None)
        }
        ColumnType::Timestamp(TimeUnit::Nanos) => {
            DataType::Timestamp(ArrowTimeUnit::Nanosecond, None)
        }
        ColumnType::Date => DataType::Date32,
        ColumnType::Symbol | ColumnType::Varchar => DataType::Utf8View,
        ColumnType::Binary => DataType::BinaryView,
        ColumnType::Uuid => DataType::FixedSizeBinary(16),
    }
}

/// The Arrow field of a column: its stored name, nullable, with its type in the metadata if the
/// Arrow type is ambiguous.
#[must_use]
pub fn arrow_field(column: &Column) -> Field {
    let field = Field::new(&column.name, arrow_type(column.ty), true);
    let tag = match column.ty {
        ColumnType::Symbol => "symbol",
        ColumnType::Uuid => "uuid",
        ColumnType::Ipv4 => "ipv4",
        _ => return field,
    };
    field.with_metadata(HashMap::from([(TYPE_KEY.to_owned(), tag.to_owned())]))
}

/// A dictionary's values as views, indexed by code.
#[derive(Debug)]
pub(super) struct DecodedDictionary(Views);

impl DecodedDictionary {
    /// The values, in the order of their codes.
    pub(super) fn into_array(self, ty: ColumnType) -> ArrayRef {
        self.0.into_array(ty, None)
    }
}

/// Bytes of the texts of a dictionary up to which it is kept (decode-2): a segment is open for
/// long, and no statement is charged for it.
const KEPT_DICTIONARY_BYTES: u64 = 16 << 20;

/// Bytes of a text from which decoding it anew takes hardly longer than whatever it is read for.
const LONG_TEXT_BYTES: u64 = 8 << 10;

/// The texts of a dictionary, if it is not kept because they are long (decode-2).
pub(super) fn long_texts<'d, 'a>(dictionary: &'d Dictionary<'a>) -> Option<&'d Strings<'a>> {
    let Dictionary::Strings(strings) = dictionary else { return None };
    let (count, bytes) = (strings.count() as u64, bytes_max(strings, 0..strings.count()));
    (KEPT_DICTIONARY_BYTES < bytes && LONG_TEXT_BYTES * count <= bytes).then_some(strings)
}

/// A bound of the bytes of some texts. A code that is not in its dictionary has none: decoding it
/// returns the error.
pub(super) fn bytes_max(strings: &Strings<'_>, texts: Range<usize>) -> u64 {
    let offset = |at: usize| {
        let offset = strings.offsets.get(at).copied().unwrap_or_default();
        u64::from(u32::from_le_bytes(offset))
    };
    let expansion = if strings.table.is_some() { SYMBOL_BYTES as u64 } else { 1 };
    offset(texts.end).saturating_sub(offset(texts.start)) * expansion
}

/// String views and the bytes they point to.
#[derive(Debug, Default)]
struct Views {
    views: Vec<u128>,
    buffers: Vec<Buffer>,
}

/// Decodes the values of a dictionary.
pub(super) fn dictionary(
    column: &Column,
    dictionary: Dictionary<'_>,
    symbols: Option<&SymbolTable>,
) -> Decoded<DecodedDictionary> {
    let mut builder = ViewBuilder::default();
    match dictionary {
        Dictionary::Strings(strings) => {
            builder.push_all(strings, &RowSelection::Range(0..strings.count()))?
        }
        Dictionary::Symbols(_) => {
            let symbols = symbols.ok_or(SegmentDamage::Symbol)?;
            for code in 0..dictionary.count() {
                let symbol = dictionary.symbol(code);
                if symbol.0 as usize >= symbols.len() {
                    return Err(SegmentDamage::Symbol);
                }
                builder.push(symbols.text(symbol));
            }
        }
    }
    builder.finish(column.ty).map(DecodedDictionary)
}

/// The rows of a page frame to be read.
#[derive(Debug, Clone)]
pub enum RowSelection<'a> {
    /// A range of rows.
    Range(Range<usize>),
    /// A list of rows, ascending.
    List(&'a [u32]),
}

impl RowSelection<'_> {
    /// Number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            RowSelection::Range(rows) => rows.len(),
            RowSelection::List(rows) => rows.len(),
        }
    }

    /// The row at a position among these.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn at(&self, position: usize) -> usize {
        assert!(position < self.count(), "there are {} rows", self.count());
        match self {
            RowSelection::Range(rows) => rows.start + position,
            RowSelection::List(rows) => rows[position] as usize,
        }
    }

    /// The first row.
    pub(super) fn start(&self) -> usize {
        match self {
            RowSelection::Range(rows) => rows.start,
            RowSelection::List(rows) => rows.first().map_or(0, |&row| row as usize),
        }
    }

    /// One past the last row.
    pub(super) fn end(&self) -> usize {
        match self {
            RowSelection::Range(rows) => rows.end.max(rows.start),
            RowSelection::List(rows) => rows.last().map_or(0, |&row| row as usize + 1),
        }
    }

    /// The position of a row among these.
    fn position(&self, row: u32) -> Option<usize> {
        match self {
            RowSelection::Range(rows) => {
                let at = (row as usize).checked_sub(rows.start)?;
                (at < rows.len()).then_some(at)
            }
            RowSelection::List(rows) => rows.binary_search(&row).ok(),
        }
    }

    /// The value of each row, computed from its number.
    #[inline]
    fn map<T>(&self, value: impl FnMut(usize) -> T) -> Vec<T> {
        match self {
            RowSelection::Range(rows) => rows.clone().map(value).collect(),
            RowSelection::List(rows) => rows.iter().map(|&row| row as usize).map(value).collect(),
        }
    }

    /// The value of each row, computed from its element of `all`.
    #[inline]
    fn map_of<T: Copy, U>(&self, all: &[T], mut value: impl FnMut(T) -> U) -> Vec<U> {
        match self {
            RowSelection::Range(rows) => all[rows.clone()].iter().map(|&of| value(of)).collect(),
            RowSelection::List(rows) => rows.iter().map(|&row| value(all[row as usize])).collect(),
        }
    }

    /// The bits of the rows in a bitmap.
    fn bits(&self, bitmap: &[u8]) -> BooleanBuffer {
        match self {
            RowSelection::Range(rows) => {
                // Only the bytes around the rows are copied.
                let first = rows.start / 8;
                let bytes = &bitmap[first..rows.end.div_ceil(8).max(first)];
                BooleanBuffer::new(Buffer::from(bytes), rows.start - first * 8, rows.len())
            }
            RowSelection::List(rows) => BooleanBuffer::collect_bool(rows.len(), |at| {
                let row = rows[at] as usize;
                bitmap[row / 8] >> (row % 8) & 1 == 1
            }),
        }
    }
}

/// Rows of a slice as an array. `dictionary` is the column's, if it has one that is kept.
pub(super) fn array(
    slice: &ColumnSlice<'_>,
    rows: &RowSelection<'_>,
    dictionary: Option<&DecodedDictionary>,
) -> Decoded<ArrayRef> {
    assert!(rows.end() <= slice.rows, "frame-1");
    if let Encoded::Null = slice.encoded {
        return Ok(new_null_array(&arrow_type(slice.ty), rows.count()));
    }
    let part = Part { slice, nulls: nulls(slice, rows), rows };
    match slice.ty {
        ColumnType::Boolean => part.booleans(),
        ColumnType::Int8 => part.integers::<Int8Type>(),
        ColumnType::Int16 => part.integers::<Int16Type>(),
        ColumnType::Int32 => part.integers::<Int32Type>(),
        ColumnType::Int64 => part.integers::<Int64Type>(),
        ColumnType::UInt8 => part.integers::<UInt8Type>(),
        ColumnType::UInt16 => part.integers::<UInt16Type>(),
        ColumnType::UInt32 | ColumnType::Ipv4 => part.integers::<UInt32Type>(),
        ColumnType::UInt64 => part.integers::<UInt64Type>(),
        ColumnType::Timestamp(TimeUnit::Micros) => part.integers::<TimestampMicrosecondType>(),
        ColumnType::Timestamp(TimeUnit::Nanos) => part.integers::<TimestampNanosecondType>(),
        ColumnType::Date => part.integers::<Date32Type>(),
        ColumnType::Float32 => part.floats::<Float32Type>(),
        ColumnType::Float64 => part.floats::<Float64Type>(),
        ColumnType::Decimal { precision, scale } => part.decimals(precision, scale),
        ColumnType::Uuid => part.fixed16(),
        ColumnType::Symbol | ColumnType::Varchar | ColumnType::Binary => part.strings(dictionary),
    }
}

/// The integer of a row; `None` if the row is NULL or the column is not of integers.
pub(crate) fn integer_at(slice: &ColumnSlice<'_>, row: usize) -> Option<i64> {
    if !slice.is_valid(row) {
        return None;
    }
    let word = match &slice.encoded {
        Encoded::Constant(value) => low_word(*value),
        Encoded::Narrow { base, step, codes } => {
            low_word(*base).wrapping_add(step.wrapping_mul(codes.at(row)))
        }
        _ => return None,
    };
    Some(word.cast_signed())
}

#[expect(clippy::cast_possible_truncation, reason = "types of eight bytes live in the low word")]
#[expect(clippy::cast_sign_loss, reason = "the bits are wanted")]
fn low_word(value: i128) -> u64 {
    value as u64
}

fn nulls(slice: &ColumnSlice<'_>, rows: &RowSelection<'_>) -> Option<NullBuffer> {
    let nulls = NullBuffer::new(rows.bits(slice.validity?));
    Some(nulls).filter(|nulls| nulls.null_count() > 0)
}

/// The values of some rows of integers; the value under a NULL is arbitrary.
pub(crate) fn integers<T: FromWord>(
    slice: &ColumnSlice<'_>,
    rows: &RowSelection<'_>,
) -> Decoded<Vec<T>> {
    match &slice.encoded {
        Encoded::Constant(value) => Ok(vec![T::from_word(low_word(*value)); rows.count()]),
        Encoded::Narrow { base, step: 1, codes } => {
            let base = low_word(*base);
            Ok(map_codes(codes, rows, |code| T::from_word(base.wrapping_add(code))))
        }
        Encoded::Narrow { base, step, codes } => {
            let (base, step) = (low_word(*base), *step);
            Ok(map_codes(codes, rows, |code| {
                T::from_word(base.wrapping_add(step.wrapping_mul(code)))
            }))
        }
        _ => Err(SegmentDamage::FrameShape),
    }
}

/// As `integers`, for FLOAT and DOUBLE.
pub(crate) fn floats<T: FromDouble>(
    slice: &ColumnSlice<'_>,
    rows: &RowSelection<'_>,
) -> Decoded<Vec<T>> {
    match &slice.encoded {
        Encoded::Constant(bits) => {
            Ok(vec![T::from_double(f64::from_bits(low_word(*bits))); rows.count()])
        }
        Encoded::Fixed { bytes, .. } => Ok(T::from_bytes(bytes, rows)),
        Encoded::Decimal { base, scale, codes, exception_rows, exception_values } => {
            let (base, power) = (*base, POWERS[usize::from(*scale)]);
            let mut values = map_codes(codes, rows, |code| {
                let scaled = base.wrapping_add(code.cast_signed());
                T::from_double(scaled as f64 / power)
            });
            for (row, bits) in exception_rows.iter().zip(*exception_values) {
                if let Some(at) = rows.position(u32::from_le_bytes(*row)) {
                    values[at] = T::from_double(f64::from_le_bytes(*bits));
                }
            }
            Ok(values)
        }
        _ => Err(SegmentDamage::FrameShape),
    }
}

/// As `integers`, for DECIMAL.
pub(crate) fn wide(slice: &ColumnSlice<'_>, rows: &RowSelection<'_>) -> Decoded<Vec<i128>> {
    match &slice.encoded {
        Encoded::Constant(value) => Ok(vec![*value; rows.count()]),
        Encoded::Narrow { base, step, codes } => {
            let (base, step) = (*base, *step);
            Ok(map_codes(codes, rows, |code| {
                base.wrapping_add(i128::from(step).wrapping_mul(code.into()))
            }))
        }
        Encoded::Fixed { bytes, .. } => {
            Ok(rows.map_of(bytes.as_chunks::<16>().0, i128::from_le_bytes))
        }
        _ => Err(SegmentDamage::FrameShape),
    }
}

/// As `integers`, for UUID.
pub(crate) fn fixed16(slice: &ColumnSlice<'_>, rows: &RowSelection<'_>) -> Decoded<Vec<[u8; 16]>> {
    match &slice.encoded {
        Encoded::Constant(bits) => Ok(vec![bits.to_le_bytes(); rows.count()]),
        Encoded::Fixed { bytes, .. } => Ok(rows.map_of(bytes.as_chunks::<16>().0, |value| value)),
        _ => Err(SegmentDamage::FrameShape),
    }
}

/// As `integers`, for BOOLEAN: 0 or 1.
pub(crate) fn bits(slice: &ColumnSlice<'_>, rows: &RowSelection<'_>) -> Decoded<Vec<u8>> {
    match &slice.encoded {
        Encoded::Constant(value) => Ok(vec![u8::from(*value != 0); rows.count()]),
        Encoded::Bits(bits) => Ok(rows.map(|row| bits[row / 8] >> (row % 8) & 1)),
        _ => Err(SegmentDamage::FrameShape),
    }
}

/// The codes of some rows; in a damaged file they may be outside of the dictionary.
pub(crate) fn dictionary_codes(codes: &Codes<'_>, rows: &RowSelection<'_>) -> Vec<u32> {
    map_codes(codes, rows, |code| u32::try_from(code).unwrap_or(u32::MAX))
}

/// Rows of a slice that are decoded to an array.
struct Part<'a> {
    slice: &'a ColumnSlice<'a>,
    rows: &'a RowSelection<'a>,
    nulls: Option<NullBuffer>,
}

/// A native integer made from the low bytes of a word.
pub(crate) trait FromWord: Copy {
    fn from_word(word: u64) -> Self;
}

macro_rules! from_word {
    ($($ty:ty),*) => {
        $(impl FromWord for $ty {
            #[inline]
            #[expect(clippy::allow_attributes, reason = "the casts differ from type to type")]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_possible_wrap,
                reason = "segment_encode-1"
            )]
            fn from_word(word: u64) -> $ty {
                word as $ty
            }
        })*
    };
}

from_word!(i8, i16, i32, i64, u8, u16, u32, u64);

/// Calls `value` with the code of every row.
#[inline]
fn map_codes<T>(codes: &Codes<'_>, rows: &RowSelection<'_>, value: impl Fn(u64) -> T) -> Vec<T> {
    match codes {
        Codes::Same(code) => rows.map(|_| value(u64::from(*code))),
        Codes::Sequence => rows.map(|row| value(row as u64)),
        Codes::Bits(bits) => rows.map(|row| value(u64::from(bits[row / 8] >> (row % 8) & 1))),
        Codes::U8(codes) => rows.map_of(codes, |code| value(code.into())),
        Codes::U16(codes) => rows.map_of(codes, |code| value(u16::from_le_bytes(code).into())),
        Codes::U32(codes) => rows.map_of(codes, |code| value(u32::from_le_bytes(code).into())),
        Codes::U64(codes) => rows.map_of(codes, |code| value(u64::from_le_bytes(code))),
    }
}

impl Part<'_> {
    fn booleans(self) -> Decoded<ArrayRef> {
        let values = match &self.slice.encoded {
            Encoded::Constant(0) => BooleanBuffer::new_unset(self.rows.count()),
            Encoded::Constant(_) => BooleanBuffer::new_set(self.rows.count()),
            Encoded::Bits(bits) => self.rows.bits(bits),
            _ => return Err(SegmentDamage::FrameShape),
        };
        Ok(Arc::new(BooleanArray::new(values, self.nulls)))
    }

    fn integers<T>(self) -> Decoded<ArrayRef>
    where
        T: ArrowPrimitiveType,
        T::Native: FromWord,
    {
        let values: Vec<T::Native> = integers(self.slice, self.rows)?;
        Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), self.nulls)))
    }

    fn floats<T>(self) -> Decoded<ArrayRef>
    where
        T: ArrowPrimitiveType,
        T::Native: FromDouble,
    {
        let values: Vec<T::Native> = floats(self.slice, self.rows)?;
        Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), self.nulls)))
    }

    fn decimals(self, precision: u8, scale: u8) -> Decoded<ArrayRef> {
        let values = wide(self.slice, self.rows)?;
        let scale = i8::try_from(scale).expect("at most 38");
        let array = Decimal128Array::new(values.into(), self.nulls);
        let array = array.with_precision_and_scale(precision, scale);
        Ok(Arc::new(array.expect("a DECIMAL column has a shape that Arrow knows")))
    }

    fn fixed16(self) -> Decoded<ArrayRef> {
        let bytes = fixed16(self.slice, self.rows)?.into_flattened();
        Ok(Arc::new(FixedSizeBinaryArray::new(16, bytes.into(), self.nulls)))
    }

    fn strings(self, dictionary: Option<&DecodedDictionary>) -> Decoded<ArrayRef> {
        let views = match &self.slice.encoded {
            Encoded::Dictionary { codes, dictionary: stored } => {
                let Some(DecodedDictionary(of_codes)) = dictionary else {
                    let strings = long_texts(stored).ok_or(SegmentDamage::Dictionary)?;
                    let mut builder = ViewBuilder::default();
                    builder.push_codes(*strings, codes, self.rows)?;
                    let views = builder.finish(self.slice.ty)?;
                    return Ok(views.into_array(self.slice.ty, self.nulls));
                };
                let count = of_codes.views.len();
                let mut foreign = false;
                let codes =
                    map_codes(codes, self.rows, |code| usize::try_from(code).unwrap_or(count));
                let view = |code: usize| {
                    foreign |= code >= count;
                    of_codes.views.get(code).copied().unwrap_or(0)
                };
                let views = codes.into_iter().map(view).collect();
                if foreign {
                    return Err(SegmentDamage::Code);
                }
                Views { views, buffers: of_codes.buffers.clone() }
            }
            Encoded::Strings(strings) => {
                let mut builder = ViewBuilder::default();
                builder.push_all(*strings, self.rows)?;
                builder.finish(self.slice.ty)?
            }
            _ => return Err(SegmentDamage::FrameShape),
        };
        Ok(views.into_array(self.slice.ty, self.nulls))
    }
}

/// FLOAT and DOUBLE of an Arrow array.
pub(crate) trait FromDouble: Copy {
    fn from_double(value: f64) -> Self;
    fn from_bytes(bytes: &[u8], rows: &RowSelection<'_>) -> Vec<Self>;
}

impl FromDouble for f64 {
    #[inline]
    fn from_double(value: f64) -> f64 {
        value
    }

    fn from_bytes(bytes: &[u8], rows: &RowSelection<'_>) -> Vec<f64> {
        rows.map_of(bytes.as_chunks::<8>().0, f64::from_le_bytes)
    }
}

impl FromDouble for f32 {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
    fn from_double(value: f64) -> f32 {
        value as f32
    }

    fn from_bytes(bytes: &[u8], rows: &RowSelection<'_>) -> Vec<f32> {
        rows.map_of(bytes.as_chunks::<4>().0, f32::from_le_bytes)
    }
}

impl Views {
    fn into_array(self, ty: ColumnType, nulls: Option<NullBuffer>) -> ArrayRef {
        let views = ScalarBuffer::from(self.views);
        // SAFETY: every view was made by `ViewBuilder` for the buffers here (or is 0, the empty
        // string), and strings were found to be UTF-8 (decode-1).
        unsafe {
            if ty == ColumnType::Binary {
                Arc::new(BinaryViewArray::new_unchecked(views, self.buffers, nulls))
            } else {
                Arc::new(StringViewArray::new_unchecked(views, self.buffers, nulls))
            }
        }
    }
}

/// Size at which a buffer is closed: views address its bytes with 31 bits.
const BUFFER_BYTES_MAX: usize = 1 << 30;

/// Bytes of a buffer that may stay unused: those who hold an array count them, too.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// The decoder of strings; `None` if they are not compressed.
fn decoder_of(strings: Strings<'_>) -> Decoded<Option<Decoder>> {
    let decoder = |table| Decoder::new(table).ok_or(SegmentDamage::StringTable);
    strings.table.map(decoder).transpose()
}

/// Collects strings as Arrow views.
#[derive(Default)]
struct ViewBuilder {
    views: Vec<u128>,
    full: Vec<Vec<u8>>,
    text: Vec<u8>,
    /// True if some string begins in the middle of a character.
    is_split: bool,
}

impl ViewBuilder {
    fn push_all(&mut self, strings: Strings<'_>, rows: &RowSelection<'_>) -> Decoded<()> {
        self.views.reserve(rows.count());
        let decoder = decoder_of(strings)?;
        let add = |row: usize| self.push_stored(strings.stored(row), decoder.as_ref());
        match rows {
            RowSelection::Range(rows) => rows.clone().for_each(add),
            RowSelection::List(rows) => rows.iter().map(|&row| row as usize).for_each(add),
        }
        Ok(())
    }

    /// As `push_all`, for rows with codes of these strings: each string is decoded once.
    fn push_codes(
        &mut self,
        strings: Strings<'_>,
        codes: &Codes<'_>,
        rows: &RowSelection<'_>,
    ) -> Decoded<()> {
        self.views.reserve(rows.count());
        let decoder = decoder_of(strings)?;
        let mut known: HashMap<usize, u128> = HashMap::new();
        for code in map_codes(codes, rows, |code| usize::try_from(code).unwrap_or(usize::MAX)) {
            if strings.count() <= code {
                return Err(SegmentDamage::Code);
            }
            if let Some(view) = known.get(&code) {
                self.views.push(*view);
                continue;
            }
            self.push_stored(strings.stored(code), decoder.as_ref());
            known.extend(self.views.last().map(|view| (code, *view)));
        }
        Ok(())
    }

    #[inline]
    fn push_stored(&mut self, stored: &[u8], decoder: Option<&Decoder>) {
        let Some(decoder) = decoder else { return self.push(stored) };
        let start = self.begin();
        decoder.decompress(stored, &mut self.text);
        self.end(start);
    }

    fn push(&mut self, text: &[u8]) {
        let start = self.begin();
        self.text.extend_from_slice(text);
        self.end(start);
    }

    fn begin(&mut self) -> usize {
        if self.text.len() > BUFFER_BYTES_MAX {
            self.full.push(std::mem::take(&mut self.text));
        }
        self.text.len()
    }

    /// Makes the view of the string from `start` on: its length, then the string itself if it is
    /// short, else its first four bytes, the buffer and the offset.
    fn end(&mut self, start: usize) {
        let text = &self.text[start..];
        self.is_split |= text.first().is_some_and(|byte| byte & 0xC0 == 0x80);
        let word = |value: usize| u128::from(u32::try_from(value).expect("BUFFER_BYTES_MAX"));
        let mut view = word(text.len());
        if text.len() <= 12 {
            let mut inline = [0_u8; 16];
            inline[4..4 + text.len()].copy_from_slice(text);
            view |= u128::from_le_bytes(inline);
        } else {
            let prefix = u32::from_le_bytes(text[..4].try_into().expect("4 bytes"));
            view |= u128::from(prefix) << 32 | word(self.full.len()) << 64 | word(start) << 96;
        }
        self.views.push(view);
    }

    /// decode-1: all bytes are valid UTF-8 and no string begins inside of a character, so every
    /// string is valid.
    fn finish(mut self, ty: ColumnType) -> Decoded<Views> {
        if SPARE_BYTES_MAX < self.text.capacity() - self.text.len() {
            self.text.shrink_to_fit();
        }
        self.full.push(self.text);
        if ty != ColumnType::Binary {
            let is_utf8 = self.full.iter().all(|text| simdutf8::basic::from_utf8(text).is_ok());
            if self.is_split || !is_utf8 {
                return Err(SegmentDamage::NotUtf8);
            }
        }
        Ok(Views { views: self.views, buffers: self.full.into_iter().map(Buffer::from).collect() })
    }
}
