//! Sizes of values in bytes, as memory accounting counts them.

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

/// Bytes of a value beside its text or its elements: an offset, a view, or a number.
pub(crate) const VALUE_BYTES: u64 = 16;

/// The least bytes of a value of a type: those of a fixed width have them even when they are NULL.
pub(crate) fn width(ty: &DataType) -> u64 {
    match ty {
        DataType::FixedSizeBinary(width) => u64::try_from(*width).unwrap_or(0),
        DataType::FixedSizeList(element, count) => {
            u64::try_from(*count).unwrap_or(0).saturating_mul(width(element.data_type()))
        }
        DataType::Struct(fields) => {
            let widths = fields.iter().map(|field| width(field.data_type()));
            widths.fold(0, u64::saturating_add)
        }
        _ => VALUE_BYTES,
    }
}

/// The bytes of a constant.
pub(crate) fn constant_bytes(value: &ScalarValue) -> u64 {
    if let Some(text) = value.try_as_str() {
        return text.map_or(0, |text| text.len() as u64);
    }
    match value {
        ScalarValue::Binary(bytes)
        | ScalarValue::LargeBinary(bytes)
        | ScalarValue::BinaryView(bytes)
        | ScalarValue::FixedSizeBinary(_, bytes) => {
            bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)
        }
        ScalarValue::List(list) => bytes_of(list.as_ref()),
        ScalarValue::LargeList(list) => bytes_of(list.as_ref()),
        ScalarValue::FixedSizeList(list) => bytes_of(list.as_ref()),
        ScalarValue::Struct(values) => bytes_of(values.as_ref()),
        ScalarValue::Map(values) => bytes_of(values.as_ref()),
        _ => VALUE_BYTES,
    }
}

/// The bytes of all values of some rows.
pub(crate) fn bytes_of_rows(rows: &RecordBatch) -> u64 {
    let columns = rows.columns().iter().map(|column| bytes_of(column.as_ref()));
    columns.fold(0, u64::saturating_add)
}

/// The bytes of memory that a batch keeps: values may share their texts, and arrays may be parts of
/// larger ones.
pub(crate) fn memory_of_rows(rows: &RecordBatch) -> usize {
    let values = usize::try_from(bytes_of_rows(rows)).unwrap_or(usize::MAX);
    values.min(rows.get_array_memory_size())
}

/// The bytes of all values of an array.
pub(crate) fn bytes_of(values: &dyn Array) -> u64 {
    let rows = values.len() as u64;
    let own = rows.saturating_mul(VALUE_BYTES);
    let inside = |values: &dyn Array, offsets: Option<(usize, usize)>| match offsets {
        Some((start, end)) => bytes_of(values.slice(start, end - start).as_ref()),
        None => 0,
    };
    let ends = |offsets: &[i32]| -> Option<(usize, usize)> {
        let place = |offset: &i32| usize::try_from(*offset).ok();
        Some((place(offsets.first()?)?, place(offsets.last()?)?))
    };
    let large_ends = |offsets: &[i64]| -> Option<(usize, usize)> {
        let place = |offset: &i64| usize::try_from(*offset).ok();
        Some((place(offsets.first()?)?, place(offsets.last()?)?))
    };
    let between = |ends: Option<(usize, usize)>| ends.map_or(0, |(start, end)| end - start) as u64;
    let more = match values.data_type() {
        DataType::Utf8 => between(ends(values.as_string::<i32>().value_offsets())),
        DataType::LargeUtf8 => between(large_ends(values.as_string::<i64>().value_offsets())),
        DataType::Binary => between(ends(values.as_binary::<i32>().value_offsets())),
        DataType::LargeBinary => between(large_ends(values.as_binary::<i64>().value_offsets())),
        DataType::Utf8View => values.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => values.as_binary_view().lengths().map(u64::from).sum(),
        DataType::List(_) => {
            let list = values.as_list::<i32>();
            inside(list.values().as_ref(), ends(list.value_offsets()))
        }
        DataType::LargeList(_) => {
            let list = values.as_list::<i64>();
            inside(list.values().as_ref(), large_ends(list.value_offsets()))
        }
        DataType::Map(..) => {
            let map = values.as_map();
            inside(map.entries(), ends(map.value_offsets()))
        }
        DataType::FixedSizeList(_, count) => {
            let list = values.as_fixed_size_list();
            let count = usize::try_from(*count).unwrap_or(0);
            inside(list.values().as_ref(), Some((0, values.len() * count)))
        }
        DataType::Struct(_) => {
            let columns = values.as_struct().columns().iter().map(|it| bytes_of(it.as_ref()));
            columns.fold(0, u64::saturating_add)
        }
        DataType::Dictionary(_, ty) => match cast(&values.slice(0, values.len()), &viewed(ty)) {
            Ok(values) => bytes_of(values.as_ref()),
            Err(_) => values.get_array_memory_size() as u64,
        },
        DataType::FixedSizeBinary(width) => u64::try_from(*width).unwrap_or(0).saturating_mul(rows),
        ty if ty.primitive_width().is_some() || matches!(ty, DataType::Boolean) => 0,
        DataType::Null => 0,
        _ => values.get_array_memory_size() as u64,
    };
    own.saturating_add(more)
}

/// The type in which texts are not copied.
pub(crate) fn viewed(ty: &DataType) -> DataType {
    match ty {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        ty => ty.clone(),
    }
}
