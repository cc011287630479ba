//! Any cell is a value or an error, in agreement with the slow reader.

use tidegate_ingest::parse::{self, CellError};
use tidegate_ingest::timestamp::TimestampFormat;
use tidegate_model::{ColumnType, Value, limits};

use super::input::Input;
use crate::slow;

pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let precision = input.byte() % 38 + 1;
    let scale = input.byte() % (precision + 1);
    let text = input.rest;
    for ty in ColumnType::ALL {
        let ty = match ty {
            ColumnType::Decimal { .. } => ColumnType::Decimal { precision, scale },
            ty => ty,
        };
        if let Some(found) = quick(text, ty) {
            let wanted = slow::value(text, ty, Some(&TimestampFormat::Iso));
            assert!(same(&found, &wanted), "{}: {found:?} instead of {wanted:?}", ty.sql());
        }
    }
}

fn same(a: &Result<Value, CellError>, b: &Result<Value, CellError>) -> bool {
    match (a, b) {
        (Ok(Value::Float(a)), Ok(Value::Float(b))) => {
            a.is_nan() && b.is_nan() || a.to_bits() == b.to_bits()
        }
        (a, b) => a == b,
    }
}

/// Parses by the functions of the import; timestamps have their own target.
fn quick(text: &[u8], ty: ColumnType) -> Option<Result<Value, CellError>> {
    fn integer<T: Into<i128>>(value: Result<T, CellError>) -> Result<Value, CellError> {
        value.map(|value| Value::Integer(value.into()))
    }
    let string = |bytes_max| {
        parse::check_text(text, bytes_max).map(|text| Value::Bytes(text.as_bytes().to_vec()))
    };
    Some(match ty {
        ColumnType::Boolean => parse::parse_bool(text).map(Value::Bit),
        ColumnType::Int8 => integer(parse::parse_i8(text)),
        ColumnType::Int16 => integer(parse::parse_i16(text)),
        ColumnType::Int32 => integer(parse::parse_i32(text)),
        ColumnType::Int64 => integer(parse::parse_i64(text)),
        ColumnType::UInt8 => integer(parse::parse_u8(text)),
        ColumnType::UInt16 => integer(parse::parse_u16(text)),
        ColumnType::UInt32 => integer(parse::parse_u32(text)),
        ColumnType::UInt64 => integer(parse::parse_u64(text)),
        ColumnType::Float32 => parse::parse_f32(text).map(|value| Value::Float(value.into())),
        ColumnType::Float64 => parse::parse_f64(text).map(Value::Float),
        ColumnType::Decimal { precision, scale } => {
            integer(parse::parse_decimal(text, precision, scale))
        }
        ColumnType::Timestamp(_) | ColumnType::Date => return None,
        ColumnType::Symbol => string(limits::SYMBOL_BYTES),
        ColumnType::Varchar => string(limits::VALUE_BYTES),
        ColumnType::Binary => {
            let mut out = Vec::new();
            parse::parse_binary(text, &mut out).map(|()| Value::Bytes(out))
        }
        ColumnType::Uuid => parse::parse_uuid(text).map(Value::Fixed16),
        ColumnType::Ipv4 => integer(parse::parse_ipv4(text)),
    })
}
