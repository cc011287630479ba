//! Result values as text, the same for all formats and protocols.
//!
//! - The text of a value reads back as the same value when its column has the same type.
//!
//! - value_text-1. Every value of a type has a text, also those that no calendar and no clock has:
//!   nothing panics, and no text tells of an error.
//!
//! Numbers are written with the shortest digits that say which number it is, instants as ISO 8601
//! in UTC, intervals and spans of time as PostgreSQL shows them, bytes as `\x` and hex, UUIDs with
//! hyphens, IPv4 addresses dotted, lists and structs as JSON. Not here: quoting, which differs by
//! format.

mod scalars;
pub mod json;
mod composite;
#[cfg(test)]
pub(crate) mod extremes;

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayAccessor, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use tidegate_query::IntervalText;
use tidegate_storage::TYPE_KEY;

pub(crate) use scalars::{
    Style, hex, push_date, push_float, push_fraction, push_hex, push_instant, push_integer,
    push_time, push_uuid, two_digits,
};

/// The kind of text of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `true` or `false`.
    Boolean,
    /// Digits, perhaps with a sign.
    Integer,
    /// Digits with a point or an exponent, or `NaN`, `Infinity`, `-Infinity`.
    Float,
    /// A number with more digits than readers of JSON keep exactly.
    Decimal,
    /// Any text.
    Text,
    /// JSON.
    Nested,
}

/// A column of one batch, ready to be written row by row.
pub struct Column<'a> {
    /// The shape of all its values.
    pub shape: Shape,
    nulls: Option<NullBuffer>,
    format: ValueFormatter<'a>,
}

impl Shape {
    pub fn of(ty: &DataType) -> Shape {
        match ty {
            DataType::Boolean => Shape::Boolean,
            DataType::UInt32
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt64 => Shape::Integer,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Shape::Float,
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Shape::Decimal,
            DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Struct(_) => Shape::Nested,
            DataType::Dictionary(_, values) => Shape::of(values),
            _ => Shape::Text,
        }
    }

    /// Returns the shape of a column, which depends on its type in Tidegate too.
    pub fn of_field(field: &Field) -> Shape {
        if tidegate_type(field) == Some("ipv4") {
            Shape::Text
        } else {
            Shape::of(field.data_type())
        }
    }

    /// Returns true if columns of it are aligned to the right.
    pub fn is_number(self) -> bool {
        matches!(self, Shape::Integer | Shape::Float | Shape::Decimal)
    }
}

impl<'a> Column<'a> {
    /// Prepares a column of one of the types that `plain` returns.
    pub fn new(field: &Field, array: &'a dyn Array) -> Result<Column<'a>, ArrowError> {
        let format = formatter(field, array)?;
        Ok(Column { shape: Shape::of_field(field), nulls: array.logical_nulls(), format })
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the text of a value that is not NULL.
    pub fn push(&self, row: usize, text: &mut String) {
        (self.format)(row, text);
    }
}

/// Returns the same values without indirection: dictionaries and run ends are resolved.
pub fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Dictionary(_, values) => arrow::compute::cast(array, values),
        DataType::RunEndEncoded(_, values) => arrow::compute::cast(array, values.data_type()),
        _ => Ok(Arc::clone(array)),
    }
}

/// A function that appends the text of a row.
pub type ValueFormatter<'a> = Box<dyn Fn(usize, &mut String) + 'a>;

/// Returns the type of Tidegate that a field has, if Arrow does not have it.
pub(crate) fn tidegate_type(field: &Field) -> Option<&str> {
    field.metadata().get(TYPE_KEY).map(String::as_str)
}

fn formatter<'a>(field: &Field, array: &'a dyn Array) -> Result<ValueFormatter<'a>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            Box::new(|row, text| text.push_str(if values.value(row) { "true" } else { "false" }))
        }
        DataType::Int8 => integer::<Int8Type>(array),
        DataType::Int16 => integer::<Int16Type>(array),
        DataType::Int32 => integer::<Int32Type>(array),
        DataType::Int64 => integer::<Int64Type>(array),
        DataType::UInt8 => integer::<UInt8Type>(array),
        DataType::UInt16 => integer::<UInt16Type>(array),
        DataType::UInt32 if tidegate_type(field) == Some("ipv4") => ipv4(array),
        DataType::UInt32 => integer::<UInt32Type>(array),
        DataType::UInt64 => integer::<UInt64Type>(array),
        DataType::Float16 => {
            let values = array.as_primitive::<Float16Type>();
            Box::new(|row, text| push_float(f32::from(values.value(row)), Style::Iso, text))
        }
        DataType::Float32 => float::<Float32Type>(array),
        DataType::Float64 => float::<Float64Type>(array),
        DataType::Decimal32(..) => decimal::<Decimal32Type>(array),
        DataType::Decimal64(..) => decimal::<Decimal64Type>(array),
        DataType::Decimal128(..) => decimal::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimal::<Decimal256Type>(array),
        DataType::Timestamp(unit, _) => timestamp(array, *unit),
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>();
            Box::new(|row, text| push_date(i64::from(values.value(row)), Style::Iso, text))
        }
        DataType::Date64 => {
            let values = array.as_primitive::<Date64Type>();
            Box::new(|row, text| push_instant(values.value(row), 3, Style::Iso, text))
        }
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::Struct(_) => json::nested(array)?,
        DataType::Time32(TimeUnit::Second) => times::<Time32SecondType>(array, 0),
        DataType::Time32(_) => times::<Time32MillisecondType>(array, 3),
        DataType::Time64(TimeUnit::Microsecond) => times::<Time64MicrosecondType>(array, 6),
        DataType::Time64(_) => times::<Time64NanosecondType>(array, 9),
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => spans::<DurationSecondType>(array, *unit),
            TimeUnit::Millisecond => spans::<DurationMillisecondType>(array, *unit),
            TimeUnit::Microsecond => spans::<DurationMicrosecondType>(array, *unit),
            TimeUnit::Nanosecond => spans::<DurationNanosecondType>(array, *unit),
        },
        DataType::Interval(unit) => intervals(array, *unit),
        DataType::Map(..) => composite::maps(array)?,
        DataType::Union(fields, _) => composite::unions(fields, array)?,
        DataType::Dictionary(..) => composite::dictionaries(field, array)?,
        _ => bytes_or_other(field, array)?,
    })
}

fn bytes_or_other<'a>(
    field: &Field,
    array: &'a dyn Array,
) -> Result<ValueFormatter<'a>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8 => texts(array.as_string::<i32>()),
        DataType::LargeUtf8 => texts(array.as_string::<i64>()),
        DataType::Utf8View => texts(array.as_string_view()),
        DataType::Binary => bytes(array.as_binary::<i32>(), push_bytes),
        DataType::LargeBinary => bytes(array.as_binary::<i64>(), push_bytes),
        DataType::BinaryView => bytes(array.as_binary_view(), push_bytes),
        DataType::FixedSizeBinary(_) if tidegate_type(field) == Some("uuid") => {
            bytes(array.as_fixed_size_binary(), push_uuid)
        }
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary(), push_bytes),
        _ => {
            // A column of NULLs, and lists in layouts that only a cast of Arrow gives.
            static OPTIONS: FormatOptions<'static> = FormatOptions::new();
            let formatter = ArrayFormatter::try_new(array, &OPTIONS)?;
            Box::new(move |row, text| {
                write!(text, "{}", formatter.value(row)).expect("a String takes everything");
            })
        }
    })
}

/// Texts in any layout.
fn texts<'a>(values: impl ArrayAccessor<Item = &'a str> + 'a) -> ValueFormatter<'a> {
    Box::new(move |row, text| text.push_str(values.value(row)))
}

/// Bytes in any layout.
fn bytes<'a>(
    values: impl ArrayAccessor<Item = &'a [u8]> + 'a,
    push: fn(&[u8], &mut String),
) -> ValueFormatter<'a> {
    Box::new(move |row, text| push(values.value(row), text))
}

fn integer<T>(array: &dyn Array) -> ValueFormatter<'_>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    let values = array.as_primitive::<T>();
    Box::new(|row, text| push_integer(values.value(row).into(), text))
}

fn float<T>(array: &dyn Array) -> ValueFormatter<'_>
where
    T: ArrowPrimitiveType,
    T::Native: zmij::Float + Into<f64>,
{
    let values = array.as_primitive::<T>();
    Box::new(|row, text| push_float(values.value(row), Style::Iso, text))
}

/// Decimals.
fn decimal<T: DecimalType>(array: &dyn Array) -> ValueFormatter<'_> {
    let values = array.as_primitive::<T>();
    Box::new(|row, text| text.push_str(decimal_text(&values.value_as_string(row))))
}

/// Returns the text of a decimal as Arrow writes it, without the zeros behind a zero: those of a
/// negative scale.
pub(crate) fn decimal_text(text: &str) -> &str {
    let is_zero = 1 < text.len() && text.bytes().all(|byte| byte == b'0');
    if is_zero { "0" } else { text }
}

/// Times of day, in seconds with this many decimals.
fn times<T>(array: &dyn Array, digits: usize) -> ValueFormatter<'_>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64>,
{
    let values = array.as_primitive::<T>();
    Box::new(move |row, text| push_time(values.value(row).into(), digits, Style::Iso, text))
}

fn intervals(array: &dyn Array, unit: IntervalUnit) -> ValueFormatter<'_> {
    match unit {
        IntervalUnit::YearMonth => {
            let values = array.as_primitive::<IntervalYearMonthType>();
            Box::new(|row, text| {
                let months = values.value(row);
                push_span(IntervalText { months, days: 0, nanos: 0 }, text);
            })
        }
        IntervalUnit::DayTime => {
            let values = array.as_primitive::<IntervalDayTimeType>();
            Box::new(|row, text| {
                let value = values.value(row);
                let nanos = i128::from(value.milliseconds) * 1_000_000;
                push_span(IntervalText { months: 0, days: value.days.into(), nanos }, text);
            })
        }
        IntervalUnit::MonthDayNano => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>();
            Box::new(|row, text| push_span(values.value(row).into(), text))
        }
    }
}

/// Differences of times.
fn spans<T: ArrowPrimitiveType<Native = i64>>(
    array: &dyn Array,
    unit: TimeUnit,
) -> ValueFormatter<'_> {
    let values = array.as_primitive::<T>();
    Box::new(move |row, text| {
        push_span(IntervalText::of_duration(values.value(row), unit), text);
    })
}

fn push_span(span: IntervalText, text: &mut String) {
    write!(text, "{span}").expect("a String takes everything");
}

fn ipv4(array: &dyn Array) -> ValueFormatter<'_> {
    let values = array.as_primitive::<UInt32Type>();
    Box::new(|row, text| {
        let address = std::net::Ipv4Addr::from_bits(values.value(row));
        write!(text, "{address}").expect("a String takes everything");
    })
}

fn timestamp(array: &dyn Array, unit: TimeUnit) -> ValueFormatter<'_> {
    match unit {
        TimeUnit::Second => instants::<TimestampSecondType>(array, 0),
        TimeUnit::Millisecond => instants::<TimestampMillisecondType>(array, 3),
        TimeUnit::Microsecond => instants::<TimestampMicrosecondType>(array, 6),
        TimeUnit::Nanosecond => instants::<TimestampNanosecondType>(array, 9),
    }
}

fn instants<T: ArrowPrimitiveType<Native = i64>>(
    array: &dyn Array,
    digits: usize,
) -> ValueFormatter<'_> {
    let values = array.as_primitive::<T>();
    Box::new(move |row, text| push_instant(values.value(row), digits, Style::Iso, text))
}

fn push_bytes(bytes: &[u8], text: &mut String) {
    text.push_str("\\x");
    push_hex(bytes, text);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use arrow::array::{
        BinaryViewArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
        Float64Array, Int64Array, ListArray, StringViewArray, TimestampMicrosecondArray,
        TimestampNanosecondArray, UInt32Array,
    };

    use super::*;

    #[track_caller]
    fn check(array: impl Array + 'static, ty: &str, expected: &[&str]) {
        let array: ArrayRef = Arc::new(array);
        let metadata = HashMap::from([(TYPE_KEY.to_owned(), ty.to_owned())]);
        let field = Field::new("c", array.data_type().clone(), true).with_metadata(metadata);
        let array = plain(&array).unwrap();
        let column = Column::new(&field, &array).unwrap();
        let texts: Vec<String> = (0..array.len())
            .map(|row| {
                let mut text = String::new();
                column.push(row, &mut text);
                text
            })
            .collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn floats_are_short_and_keep_their_type() {
        let values = vec![0.1, -0.0, 3.0, 1e300, 5e-324, f64::NAN, f64::INFINITY, -f64::INFINITY];
        let expected = ["0.1", "-0.0", "3.0", "1e300", "5e-324", "NaN", "Infinity", "-Infinity"];
        check(Float64Array::from(values), "", &expected);
        check(Float32Array::from(vec![0.1, 16_777_216.0]), "", &["0.1", "16777216.0"]);
    }

    #[test]
    fn instants_have_all_digits_of_their_unit_and_end_in_z() {
        let micros = TimestampMicrosecondArray::from(vec![-1, 1_740_819_600_000_000]);
        let expected = ["1969-12-31T23:59:59.999999Z", "2025-03-01T09:00:00.000000Z"];
        check(micros, "", &expected);
        let nanos = TimestampNanosecondArray::from(vec![1]).with_timezone("+02:00");
        check(nanos, "", &["1970-01-01T00:00:00.000000001Z"]);
        check(Date32Array::from(vec![-1, 19_000]), "", &["1969-12-31", "2022-01-08"]);
    }

    #[test]
    fn types_that_arrow_lacks_are_told_by_their_metadata() {
        let bytes: Vec<u8> = (0..16).collect();
        let uuid = || FixedSizeBinaryArray::try_from_iter([bytes.clone()].iter()).unwrap();
        check(uuid(), "uuid", &["00010203-0405-0607-0809-0a0b0c0d0e0f"]);
        check(uuid(), "", &["\\x000102030405060708090a0b0c0d0e0f"]);
        check(UInt32Array::from(vec![0xc0a8_0001]), "ipv4", &["192.168.0.1"]);
        check(UInt32Array::from(vec![0xc0a8_0001]), "", &["3232235521"]);
    }

    #[test]
    fn decimals_have_their_scale_and_bytes_are_hex() {
        let decimals = Decimal128Array::from(vec![-5, 12_345]);
        check(decimals.with_precision_and_scale(10, 3).unwrap(), "", &["-0.005", "12.345"]);
        check(BinaryViewArray::from_iter_values([&b"\x00\xff"[..], b""]), "", &["\\x00ff", "\\x"]);
    }

    #[test]
    fn extremes_of_integers_are_values() {
        check(
            Int64Array::from(vec![i64::MIN, i64::MAX]),
            "",
            &["-9223372036854775808", "9223372036854775807"],
        );
    }

    #[test]
    fn dictionaries_are_resolved_and_lists_are_json() {
        let words: arrow::array::DictionaryArray<Int32Type> = ["b", "a", "b"].into_iter().collect();
        check(words, "", &["b", "a", "b"]);
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1), None]),
            Some(vec![]),
        ]);
        check(lists, "", &["[1,null]", "[]"]);
        check(StringViewArray::from(vec!["as it \"is\"\n"]), "", &["as it \"is\"\n"]);
    }
}
