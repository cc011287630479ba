//! Columns with the extreme values of all types of numbers and times, for the tests of encoders.
//!
//! Each encoder writes all of them, or returns an error (value_text-1).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, ArrowTimestampType, DataType, Date32Type, Date64Type, Decimal32Type,
    Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Field, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTime, IntervalDayTimeType,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalYearMonthType, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type, i256,
};

use super::Column;

const SMALL: [i32; 6] = [i32::MIN, i32::MIN + 1, -1, 0, 1, i32::MAX];
const LARGE: [i64; 6] = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX];

/// Returns a column of each type.
pub(crate) fn columns() -> Vec<ArrayRef> {
    let floats = of::<Float64Type>([f64::NAN, f64::INFINITY, -0.0, f64::MIN, f64::MAX, 5e-324]);
    let singles = of::<Float32Type>([f32::NAN, f32::NEG_INFINITY, f32::MIN, f32::MAX, 1e-45]);
    let halves = cast(&singles, &DataType::Float16).unwrap();
    let mut columns = vec![
        of::<Int8Type>([i8::MIN, i8::MAX]),
        of::<Int16Type>([i16::MIN, i16::MAX]),
        of::<Int32Type>(SMALL),
        of::<Int64Type>(LARGE),
        of::<UInt8Type>([u8::MAX]),
        of::<UInt16Type>([u16::MAX]),
        of::<UInt32Type>([u32::MAX]),
        of::<UInt64Type>([u64::MAX]),
        floats,
        singles,
        halves,
        of::<Date32Type>(SMALL),
        of::<Date64Type>(LARGE),
        of::<Time32SecondType>(SMALL),
        of::<Time32MillisecondType>(SMALL),
        of::<Time64MicrosecondType>(LARGE),
        of::<Time64NanosecondType>(LARGE),
        of::<DurationSecondType>(LARGE),
        of::<DurationMillisecondType>(LARGE),
        of::<DurationMicrosecondType>(LARGE),
        of::<DurationNanosecondType>(LARGE),
        of::<IntervalYearMonthType>(SMALL),
        of::<IntervalDayTimeType>(SMALL.map(|part| IntervalDayTime::new(part, part))),
        of::<IntervalMonthDayNanoType>([
            IntervalMonthDayNano::new(i32::MIN, i32::MIN, i64::MIN),
            IntervalMonthDayNano::new(i32::MAX, i32::MAX, i64::MAX),
            IntervalMonthDayNano::new(0, 0, i64::MIN),
        ]),
    ];
    for zone in [None, Some("Europe/Berlin")] {
        columns.extend([
            instants::<TimestampSecondType>(zone),
            instants::<TimestampMillisecondType>(zone),
            instants::<TimestampMicrosecondType>(zone),
            instants::<TimestampNanosecondType>(zone),
        ]);
    }
    let widest = i256::from_string(&"9".repeat(76)).unwrap();
    for scale in [-5, 0, 9] {
        columns.extend([
            decimals::<Decimal32Type>([-999_999_999, 0, 999_999_999], scale),
            decimals::<Decimal64Type>([1 - 10_i64.pow(18), 0, 10_i64.pow(18) - 1], scale),
            decimals::<Decimal128Type>([1 - 10_i128.pow(38), 0, 10_i128.pow(38) - 1], scale),
            decimals::<Decimal256Type>([widest.wrapping_neg(), i256::ZERO, widest], scale),
        ]);
    }
    columns
}

fn of<T: ArrowPrimitiveType>(values: impl IntoIterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

fn instants<T: ArrowTimestampType>(zone: Option<&str>) -> ArrayRef {
    let values = PrimitiveArray::<T>::from_iter_values(LARGE);
    Arc::new(values.with_timezone_opt(zone))
}

/// Makes decimals of the largest precision.
fn decimals<T: DecimalType>(values: [T::Native; 3], scale: i8) -> ArrayRef {
    let values = PrimitiveArray::<T>::from_iter_values(values);
    Arc::new(values.with_precision_and_scale(T::MAX_PRECISION, scale).unwrap())
}

fn texts(array: &ArrayRef) -> Vec<String> {
    let field = Field::new("c", array.data_type().clone(), true);
    let column = Column::new(&field, array).unwrap();
    let text = |row| {
        let mut text = String::new();
        column.push(row, &mut text);
        text
    };
    (0..array.len()).map(text).collect()
}

#[test]
fn every_value_has_a_text() {
    for array in columns() {
        for text in texts(&array) {
            let is_value = text.starts_with(|first: char| "-NI".contains(first))
                || text.starts_with(|first: char| first.is_ascii_digit());
            let is_error = text.contains("ERROR") || text.contains("invalid");
            assert!(is_value && !is_error, "value_text-1: {}: {text}", array.data_type());
        }
    }
}

// A time of day beyond the day had the text of an error as its value, a long span of time was
// `<invalid>` and others were `PT5S`, five months back were `-1 years 7 mons`, and zero with a
// negative scale was `000`.
#[test]
fn values_that_no_clock_has_are_written_as_they_are() {
    for (array, expected) in [
        (of::<Time64MicrosecondType>([-1, 86_400_000_000]), ["-00:00:00.000001", "24:00:00"]),
        (of::<Time32MillisecondType>([90_000_500, 1_000]), ["25:00:00.500", "00:00:01"]),
        (of::<DurationSecondType>([5, -90_000]), ["00:00:05", "-1 days -01:00:00"]),
        (of::<IntervalYearMonthType>([-5, 14]), ["-5 mons", "1 year 2 mons"]),
        (
            of::<IntervalDayTimeType>([
                IntervalDayTime::new(1, 500),
                IntervalDayTime::new(0, -1_000),
            ]),
            ["1 day 00:00:00.5", "-00:00:01"],
        ),
        (
            of::<Date64Type>([i64::MIN, i64::MAX]),
            ["-292275055-05-16T16:47:04.192Z", "292278994-08-17T07:12:55.807Z"],
        ),
        (
            of::<TimestampSecondType>([i64::MIN, i64::MAX]),
            ["-292277022657-01-27T08:29:52Z", "292277026596-12-04T15:30:07Z"],
        ),
    ] {
        assert_eq!(texts(&array), expected, "value_text-1");
    }
    let decimals = decimals::<Decimal128Type>([0, -7, 7], -3);
    assert_eq!(texts(&decimals), ["0", "-7000", "7000"], "value_text-1");
}
