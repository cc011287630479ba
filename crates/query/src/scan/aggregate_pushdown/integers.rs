//! Arrays of values as integers and back.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use datafusion::common::{Result, internal_err};

/// Converts integers to values of a type of numbers or times.
pub(crate) fn from_integers(
    values: Vec<i64>,
    valid: Option<Vec<bool>>,
    ty: &DataType,
) -> Result<ArrayRef> {
    let array = Int64Array::new(values.into(), valid.map(NullBuffer::from));
    Ok(match ty {
        DataType::Timestamp(unit, zone) => {
            let zone = zone.clone();
            match unit {
                TimeUnit::Second => {
                    let times: PrimitiveArray<TimestampSecondType> = array.reinterpret_cast();
                    Arc::new(times.with_timezone_opt(zone))
                }
                TimeUnit::Millisecond => {
                    let times: PrimitiveArray<TimestampMillisecondType> = array.reinterpret_cast();
                    Arc::new(times.with_timezone_opt(zone))
                }
                TimeUnit::Microsecond => {
                    let times: PrimitiveArray<TimestampMicrosecondType> = array.reinterpret_cast();
                    Arc::new(times.with_timezone_opt(zone))
                }
                TimeUnit::Nanosecond => {
                    let times: PrimitiveArray<TimestampNanosecondType> = array.reinterpret_cast();
                    Arc::new(times.with_timezone_opt(zone))
                }
            }
        }
        DataType::Date32 => {
            let days = exact(&(Arc::new(array) as ArrayRef), &DataType::Int32)?;
            let days = days.as_primitive::<datafusion::arrow::datatypes::Int32Type>();
            Arc::new(days.reinterpret_cast::<Date32Type>())
        }
        _ => exact(&(Arc::new(array) as ArrayRef), ty)?,
    })
}

/// Converts times, none of them NULL, to integers.
pub(crate) fn integers_of(array: &ArrayRef) -> Result<Vec<i64>> {
    if array.null_count() > 0 {
        return internal_err!("a bucket of a time is NULL");
    }
    let ty = match array.data_type() {
        DataType::Date32 => DataType::Int32,
        _ => DataType::Int64,
    };
    let integers = exact(&exact(array, &ty)?, &DataType::Int64)?;
    Ok(integers.as_primitive::<Int64Type>().values().to_vec())
}

/// Casts, and fails where a cast would return NULL.
pub(crate) fn exact(array: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(array, ty, &options)?)
}
