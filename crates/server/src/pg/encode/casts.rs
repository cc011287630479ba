//! Casts of arrays to types PostgreSQL can encode: once per batch (pg_encode-1), and the same for
//! both formats.
//!
//! - casts-1. The array of a column can be encoded as the announced type (`types`): spans of time
//!   are intervals of days and parts of a day, decimals of every width are wide ones, times of day
//!   are microseconds, and types that PostgreSQL does not have are texts. The same holds for
//!   elements of lists.
//!
//! Dictionaries and run ends are resolved, within lists too.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit,
};
use arrow::error::ArrowError;

use crate::pg::types::per_second;
use crate::value_text::{self, plain};

const DAY_SECONDS: i64 = 86_400;

/// Returns the array as it is written (casts-1). A list calls it for its elements: there are few
/// levels of lists (encode_list-3).
pub(super) fn cast_to_wire(field: &Field, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let array = plain(array)?;
    match array.data_type() {
        DataType::Struct(_)
        | DataType::Map(..)
        | DataType::Union(..)
        | DataType::FixedSizeList(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => texts(field, array.as_ref()),
        DataType::Duration(unit) => spans(&array, *unit),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            cast(&array, &DataType::Decimal128(*precision, *scale))
        }
        DataType::Time32(_) | DataType::Time64(TimeUnit::Nanosecond) => {
            cast(&array, &DataType::Time64(TimeUnit::Microsecond))
        }
        DataType::List(_) => list(array.as_list::<i32>()),
        DataType::LargeList(_) => list(array.as_list::<i64>()),
        _ => Ok(array),
    }
}

/// Converts to intervals like the difference of two times in PostgreSQL: `2 days 01:00:00`.
fn spans(array: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef, ArrowError> {
    let second = per_second(unit);
    let span = |count: i64| {
        let days = i32::try_from(count / (DAY_SECONDS * second));
        let out_of_range =
            |_| ArrowError::ArithmeticOverflow("a span of time is out of range".to_owned());
        let rest = count % (DAY_SECONDS * second) * (1_000_000_000 / second);
        Ok(IntervalMonthDayNano::new(0, days.map_err(out_of_range)?, rest))
    };
    let counts = cast(array, &DataType::Int64)?;
    let spans = counts.as_primitive::<Int64Type>();
    Ok(Arc::new(spans.try_unary::<_, IntervalMonthDayNanoType, ArrowError>(span)?))
}

fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> Result<ArrayRef, ArrowError> {
    let (field, offsets, values, nulls) = array.clone().into_parts();
    let values = cast_to_wire(&field, &values)?;
    let field = field.as_ref().clone().with_data_type(values.data_type().clone());
    Ok(Arc::new(GenericListArray::try_new(Arc::new(field), offsets, values, nulls)?))
}

/// Converts to the text of `value_text`, for types that only expressions return.
fn texts(field: &Field, array: &dyn Array) -> Result<ArrayRef, ArrowError> {
    let column = value_text::Column::new(field, array)?;
    let (mut all, mut text) = (StringViewBuilder::new(), String::new());
    for row in 0..array.len() {
        if column.is_null(row) {
            all.append_null();
            continue;
        }
        text.clear();
        column.push(row, &mut text);
        all.append_value(&text);
    }
    Ok(Arc::new(all.finish()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Date64Array, Decimal64Array, DurationMillisecondArray, DurationSecondArray, ListArray,
        RecordBatch, StructArray, Time32SecondArray, Time64MicrosecondArray, Time64NanosecondArray,
        TimestampMicrosecondArray, TimestampSecondArray,
    };
    use arrow::buffer::OffsetBuffer;
    use bytes::BytesMut;

    use tidegate_query::CancelHandle;

    use super::super::{Format, Guard, Room, RowStopped, RowWriter, arrays};
    use super::*;
    use crate::budget::tests::reservation;
    use crate::value_text::extremes;

    /// Returns the text and the binary format of the first value of a column, the latter in
    /// hexadecimal.
    fn both(array: ArrayRef) -> (String, String) {
        let batch = RecordBatch::try_from_iter([("c", array)]).unwrap();
        let arrays = arrays(&batch).unwrap();
        let schema = batch.schema();
        let value = |format: Format| {
            let mut bytes = BytesMut::new();
            let mut guard = Guard::new(reservation(0), &CancelHandle::default());
            let writer = RowWriter::new(&schema, &arrays, &[format]).unwrap();
            writer.push(0, &mut Room::new(&mut bytes, &mut guard)).unwrap();
            // The tag, two lengths and a count stand before it.
            bytes[11..].to_vec()
        };
        let binary = value(Format::Binary);
        let hex = binary.iter().map(|byte| format!("{byte:02x}")).collect();
        (String::from_utf8(value(Format::Text)).unwrap(), hex)
    }

    #[track_caller]
    fn check(array: ArrayRef, text: &str, binary: &str) {
        assert_eq!(both(array), (text.to_owned(), binary.to_owned()), "casts-1");
    }

    // A span of time was announced as an interval, but sent as text to clients that asked for the
    // binary format, and so were short decimals and times of day. Lists of lists, announced as
    // texts, were sent as arrays.
    #[test]
    fn a_value_has_the_form_of_the_type_that_is_announced() {
        let millis = 2 * 86_400_000 + 3_600_500;
        let span = "00000000d69b45200000000200000000";
        check(Arc::new(DurationMillisecondArray::from(vec![millis])), "2 days 01:00:00.5", span);
        let back = "fffffffffff0bdc00000000000000000";
        check(Arc::new(DurationSecondArray::from(vec![-1])), "-00:00:01", back);
        let short = Decimal64Array::from(vec![1_250]).with_precision_and_scale(9, 2).unwrap();
        check(Arc::new(short), "12.50", "0002000000000002000c1388");
        let hour = "00000000d693a400";
        check(Arc::new(Time32SecondArray::from(vec![3_600])), "01:00:00", hour);
        let nanos = Time64NanosecondArray::from(vec![1_000_500_999]);
        check(Arc::new(nanos), "00:00:01.0005", "00000000000f4434");
    }

    /// Returns the values of a column in a format.
    fn values(array: &ArrayRef, format: Format) -> Vec<Result<Vec<u8>, RowStopped>> {
        let batch = RecordBatch::try_from_iter([("c", Arc::clone(array))]).unwrap();
        let arrays = match arrays(&batch) {
            Ok(arrays) => arrays,
            // A span of time that no interval is as long as.
            Err(ArrowError::ArithmeticOverflow(_)) => return Vec::new(),
            Err(error) => panic!("{}: {error}", array.data_type()),
        };
        let schema = batch.schema();
        let writer = RowWriter::new(&schema, &arrays, &[format]).unwrap();
        let value = |row| {
            let mut bytes = BytesMut::new();
            let mut guard = Guard::new(reservation(0), &CancelHandle::default());
            let done = writer.push(row, &mut Room::new(&mut bytes, &mut guard));
            done.map(|()| bytes[11..].to_vec())
        };
        (0..batch.num_rows()).map(value).collect()
    }

    #[test]
    fn extreme_values_are_written_or_refused() {
        for array in extremes::columns() {
            for format in [Format::Text, Format::TextIso] {
                let values = values(&array, format);
                let is_written =
                    values.iter().all(|value| matches!(value, Ok(it) if !it.is_empty()));
                assert!(is_written, "pg_encode-4: {}: {values:?}", array.data_type());
            }
            for value in values(&array, Format::Binary) {
                let is_known = matches!(value, Ok(_) | Err(RowStopped::TimeRange));
                assert!(is_known, "pg_encode-4: {}: {value:?}", array.data_type());
            }
        }
    }

    // They became infinities, a far past the far future, and a time before the day one of it.
    #[test]
    fn times_beyond_the_binary_form_are_refused() {
        let refused: Result<Vec<u8>, RowStopped> = Err(RowStopped::TimeRange);
        let binary = |array: ArrayRef| values(&array, Format::Binary);
        let days = Date64Array::from(vec![i64::MIN, i64::MAX, 0]);
        let expected = [refused.clone(), refused.clone(), Ok(vec![0xff, 0xff, 0xd5, 0x33])];
        assert_eq!(binary(Arc::new(days)), expected, "pg_encode-4");
        let seconds = TimestampSecondArray::from(vec![i64::MAX, 946_684_801]);
        let second = Ok(1_000_000_i64.to_be_bytes().to_vec());
        assert_eq!(binary(Arc::new(seconds)), [refused.clone(), second], "pg_encode-4");
        let micros = TimestampMicrosecondArray::from(vec![i64::MIN]);
        assert_eq!(binary(Arc::new(micros)), std::slice::from_ref(&refused), "pg_encode-4");
        let clocks = Time64MicrosecondArray::from(vec![-1, 86_400_000_001, 86_400_000_000]);
        let midnight = Ok(86_400_000_000_i64.to_be_bytes().to_vec());
        assert_eq!(binary(Arc::new(clocks)), [refused.clone(), refused, midnight], "pg_encode-4");
        let clocks: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![-1]));
        let text = Ok(b"-00:00:00.000001".to_vec());
        assert_eq!(values(&clocks, Format::Text), [text]);
    }

    #[test]
    fn lists_have_elements_with_a_form() {
        let list = |values: ArrayRef| -> ArrayRef {
            let field = Arc::new(Field::new("item", values.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            Arc::new(ListArray::new(field, offsets, values, None))
        };
        let spans: ArrayRef = Arc::new(DurationSecondArray::from(vec![1]));
        // One dimension without NULL, of intervals; one element, which has sixteen bytes.
        let binary = "0000000100000000000004a2000000010000000100000010";
        let element = "00000000000f42400000000000000000";
        check(list(Arc::clone(&spans)), "{00:00:01}", &format!("{binary}{element}"));
        // Two dimensions.
        let binary = "0000000200000000000004a200000001000000010000000100000001";
        check(list(list(spans)), "{{00:00:01}}", &format!("{binary}00000010{element}"));
        let pair: ArrayRef = Arc::new(DurationSecondArray::from(vec![1]));
        let field = Arc::new(Field::new("a", pair.data_type().clone(), true));
        let (text, binary) = both(Arc::new(StructArray::from(vec![(field, pair)])));
        let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(binary, hex(&text));
    }
}
