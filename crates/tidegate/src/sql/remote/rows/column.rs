//! A column of a batch under construction: its Arrow type, and the decoding of its values.
//!
//! - rows_column-1. The bytes of a value are not trusted: their length is checked, and a value that
//!   does not fit is `None`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, ArrowPrimitiveType, BinaryBuilder, BooleanBuilder,
    Decimal128Builder, Decimal256Builder, FixedSizeBinaryBuilder, ListArray, PrimitiveBuilder,
    StringViewBuilder,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Field, FieldRef, Float32Type,
    Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt32Type, i256,
};
use tidegate_storage::TYPE_KEY;
use tokio_postgres::types::{Kind, Type};

use super::numeric;

/// Days from 1970 to 2000, where PostgreSQL begins to count.
const DAYS_TO_2000: i32 = 10_957;
const MICROS_TO_2000: i64 = 10_957 * 86_400_000_000;
const UUID_BYTES: i32 = 16;

/// The builder for the values of one column.
pub(super) trait Builder: Send {
    /// Adds a value, or NULL; `None` if the bytes are not a value of the type (rows_column-1).
    fn push(&mut self, value: Option<&[u8]>) -> Option<()>;

    /// Returns the values added since the last call.
    fn finish(&mut self) -> ArrayRef;
}

/// A builder of Arrow, and a function that decodes a value into it.
struct Values<B, P> {
    builder: B,
    push: P,
}

impl<B, P> Builder for Values<B, P>
where
    B: ArrayBuilder,
    P: Fn(&mut B, Option<&[u8]>) -> Option<()> + Send,
{
    fn push(&mut self, value: Option<&[u8]>) -> Option<()> {
        (self.push)(&mut self.builder, value)
    }

    fn finish(&mut self) -> ArrayRef {
        ArrayBuilder::finish(&mut self.builder)
    }
}

type Metadata = HashMap<String, String>;

/// Returns the Arrow type for values of a type, the metadata that adds to it, and the builder.
pub(super) fn builder(ty: &Type, modifier: i32) -> (DataType, Metadata, Box<dyn Builder>) {
    let none = Metadata::new();
    if let Kind::Array(element) = ty.kind() {
        let (element, metadata, values) = builder(element, modifier);
        let field = Arc::new(Field::new_list_field(element, true).with_metadata(metadata));
        let list = Lists::new(Arc::clone(&field), values);
        return (DataType::List(field), none, Box::new(list));
    }
    if *ty == Type::UUID {
        let metadata = [(TYPE_KEY.to_owned(), "uuid".to_owned())];
        return (DataType::FixedSizeBinary(UUID_BYTES), metadata.into(), uuids());
    }
    let (ty, values) = plain(ty, modifier);
    (ty, none, values)
}

fn plain(ty: &Type, modifier: i32) -> (DataType, Box<dyn Builder>) {
    match *ty {
        Type::BOOL => (DataType::Boolean, booleans()),
        Type::INT2 => of::<Int16Type>(|v| Some(i16::from_be_bytes(v.try_into().ok()?))),
        Type::INT4 => of::<Int32Type>(|v| Some(i32::from_be_bytes(v.try_into().ok()?))),
        Type::INT8 => of::<Int64Type>(|v| Some(i64::from_be_bytes(v.try_into().ok()?))),
        Type::OID | Type::XID | Type::REGPROC | Type::REGCLASS | Type::REGTYPE => {
            of::<UInt32Type>(|v| Some(u32::from_be_bytes(v.try_into().ok()?)))
        }
        Type::FLOAT4 => of::<Float32Type>(|v| Some(f32::from_be_bytes(v.try_into().ok()?))),
        Type::FLOAT8 => of::<Float64Type>(|v| Some(f64::from_be_bytes(v.try_into().ok()?))),
        Type::NUMERIC => numerics(modifier),
        Type::DATE => {
            of::<Date32Type>(|v| i32::from_be_bytes(v.try_into().ok()?).checked_add(DAYS_TO_2000))
        }
        Type::TIME => of::<Time64MicrosecondType>(|v| Some(i64::from_be_bytes(v.try_into().ok()?))),
        Type::TIMESTAMP => of::<TimestampMicrosecondType>(instant),
        Type::TIMESTAMPTZ => {
            let zone: Arc<str> = Arc::from("+00:00");
            let builder = PrimitiveBuilder::<TimestampMicrosecondType>::new();
            let ty = DataType::Timestamp(TimeUnit::Microsecond, Some(zone));
            let builder = builder.with_data_type(ty.clone());
            (ty, primitive(builder, instant))
        }
        Type::INTERVAL => {
            let values = primitive(PrimitiveBuilder::<IntervalMonthDayNanoType>::new(), interval);
            (DataType::Interval(IntervalUnit::MonthDayNano), values)
        }
        Type::BYTEA => (DataType::Binary, bytes()),
        _ => (DataType::Utf8View, texts()),
    }
}

fn instant(value: &[u8]) -> Option<i64> {
    i64::from_be_bytes(value.try_into().ok()?).checked_add(MICROS_TO_2000)
}

fn interval(value: &[u8]) -> Option<IntervalMonthDayNano> {
    let (micros, rest) = value.split_first_chunk::<8>()?;
    let (days, rest) = rest.split_first_chunk::<4>()?;
    let months = i32::from_be_bytes(rest.try_into().ok()?);
    let nanos = i64::from_be_bytes(*micros).checked_mul(1_000)?;
    Some(IntervalMonthDayNano::new(months, i32::from_be_bytes(*days), nanos))
}

/// Returns the builder for a primitive type.
fn of<T: ArrowPrimitiveType>(
    read: impl Fn(&[u8]) -> Option<T::Native> + Send + 'static,
) -> (DataType, Box<dyn Builder>) {
    (T::DATA_TYPE, primitive(PrimitiveBuilder::<T>::new(), read))
}

fn primitive<T: ArrowPrimitiveType>(
    builder: PrimitiveBuilder<T>,
    read: impl Fn(&[u8]) -> Option<T::Native> + Send + 'static,
) -> Box<dyn Builder> {
    let push = move |builder: &mut PrimitiveBuilder<T>, value: Option<&[u8]>| {
        match value {
            Some(value) => builder.append_value(read(value)?),
            None => builder.append_null(),
        }
        Some(())
    };
    Box::new(Values { builder, push })
}

fn booleans() -> Box<dyn Builder> {
    let push = |builder: &mut BooleanBuilder, value: Option<&[u8]>| {
        match value {
            Some(&[value]) => builder.append_value(value != 0),
            Some(_) => return None,
            None => builder.append_null(),
        }
        Some(())
    };
    Box::new(Values { builder: BooleanBuilder::new(), push })
}

fn texts() -> Box<dyn Builder> {
    let push = |builder: &mut StringViewBuilder, value: Option<&[u8]>| {
        match value {
            Some(value) => builder.try_append_value(str::from_utf8(value).ok()?).ok()?,
            None => builder.append_null(),
        }
        Some(())
    };
    Box::new(Values { builder: StringViewBuilder::new(), push })
}

fn bytes() -> Box<dyn Builder> {
    let push = |builder: &mut BinaryBuilder, value: Option<&[u8]>| {
        builder.append_option(value);
        Some(())
    };
    Box::new(Values { builder: BinaryBuilder::new(), push })
}

fn uuids() -> Box<dyn Builder> {
    let push = |builder: &mut FixedSizeBinaryBuilder, value: Option<&[u8]>| {
        match value {
            Some(value) => builder.append_value(value).ok()?,
            None => builder.append_null(),
        }
        Some(())
    };
    Box::new(Values { builder: FixedSizeBinaryBuilder::new(UUID_BYTES), push })
}

/// Returns the builder for NUMERIC with a precision and a scale; without them, values become text.
fn numerics(modifier: i32) -> (DataType, Box<dyn Builder>) {
    match numeric::digits(modifier) {
        Some((precision, scale)) if precision <= 38 => {
            let ty = DataType::Decimal128(precision, scale);
            let builder = Decimal128Builder::new().with_data_type(ty.clone());
            let read = move |value: &[u8]| numeric::scaled(value, scale)?.parse::<i128>().ok();
            (ty, primitive::<Decimal128Type>(builder, read))
        }
        Some((precision, scale)) => {
            let ty = DataType::Decimal256(precision, scale);
            let builder = Decimal256Builder::new().with_data_type(ty.clone());
            let read = move |value: &[u8]| i256::from_string(&numeric::scaled(value, scale)?);
            (ty, primitive::<Decimal256Type>(builder, read))
        }
        None => {
            let push = |builder: &mut StringViewBuilder, value: Option<&[u8]>| {
                match value {
                    Some(value) => builder.append_value(numeric::text(value)?),
                    None => builder.append_null(),
                }
                Some(())
            };
            (DataType::Utf8View, Box::new(Values { builder: StringViewBuilder::new(), push }))
        }
    }
}

/// The builder for arrays of one dimension, as lists.
struct Lists {
    field: FieldRef,
    offsets: Vec<i32>,
    nulls: Vec<bool>,
    values: Box<dyn Builder>,
}

impl Lists {
    fn new(field: FieldRef, values: Box<dyn Builder>) -> Lists {
        Lists { field, offsets: vec![0], nulls: Vec::new(), values }
    }

    /// Adds the elements of an array, and returns their number.
    fn elements(&mut self, value: &[u8]) -> Option<i32> {
        let (dimensions, rest) = int4(value)?;
        let (_has_nulls, rest) = int4(rest)?;
        let (_element, rest) = int4(rest)?;
        if dimensions == 0 {
            return rest.is_empty().then_some(0);
        }
        let (count, rest) = int4(rest)?;
        let (_first, mut rest) = int4(rest)?;
        for _ in 0..count {
            let (length, behind) = int4(rest)?;
            let (value, behind) = match usize::try_from(length) {
                Ok(length) => {
                    let (value, behind) = behind.split_at_checked(length)?;
                    (Some(value), behind)
                }
                Err(_) => (None, behind),
            };
            self.values.push(value)?;
            rest = behind;
        }
        (dimensions == 1 && count >= 0 && rest.is_empty()).then_some(count)
    }
}

fn int4(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (value, rest) = bytes.split_first_chunk::<4>()?;
    Some((i32::from_be_bytes(*value), rest))
}

impl Builder for Lists {
    fn push(&mut self, value: Option<&[u8]>) -> Option<()> {
        let count = value.map_or(Some(0), |value| self.elements(value))?;
        let end = *self.offsets.last().expect("there is a first one");
        self.offsets.push(end.checked_add(count)?);
        self.nulls.push(value.is_some());
        Some(())
    }

    fn finish(&mut self) -> ArrayRef {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        let nulls = NullBuffer::from(std::mem::take(&mut self.nulls));
        let values = self.values.finish();
        assert_eq!(offsets.last().copied(), i32::try_from(values.len()).ok(), "counted by `push`");
        let offsets = OffsetBuffer::new(offsets.into());
        Arc::new(ListArray::new(Arc::clone(&self.field), offsets, values, Some(nulls)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    #[test]
    fn values_are_read_or_refused() {
        let (ty, _, mut values) = builder(&Type::INT4, -1);
        assert_eq!(ty, DataType::Int32);
        assert!(values.push(Some(&[255; 4])).is_some() && values.push(None).is_some());
        for bad in [&[][..], &[0; 3], &[0; 5]] {
            assert!(values.push(Some(bad)).is_none(), "rows_column-1");
        }
        let array = values.finish();
        assert_eq!(array.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(-1), None]);
    }

    #[test]
    fn lists_are_read_to_their_end_and_no_further() {
        let words =
            |words: &[i32]| words.iter().flat_map(|it| it.to_be_bytes()).collect::<Vec<u8>>();
        let (_, _, mut values) = builder(&Type::INT4_ARRAY, -1);
        values.push(Some(&words(&[1, 1, 23, 2, 1, 4, 7, -1]))).expect("7 and NULL");
        values.push(None).expect("NULL");
        values.push(Some(&words(&[0, 0, 23]))).expect("nothing");
        let array = values.finish();
        let list = array.as_list::<i32>();
        assert_eq!((list.len(), list.value(0).len(), list.value(2).len()), (3, 2, 0));
        assert!(list.is_null(1) && list.value(0).is_null(1));
        for bad in [&[1, 0, 23, 2, 1, 4, 7][..], &[1, 0, 23, -5, 1], &[2, 0, 23, 1, 1, 4, 7], &[1]]
        {
            let (_, _, mut values) = builder(&Type::INT4_ARRAY, -1);
            assert!(values.push(Some(&words(bad))).is_none(), "rows_column-1: {bad:?}");
        }
    }
}
