//! Values as the texts that PostgreSQL prints, for clients that parse them.

use std::fmt::Write as _;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, DecimalType, Field,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use bytes::{BufMut, BytesMut};
use tidegate_model::time::CivilDate;
use tidegate_query::IntervalText;

use super::{Format, Interval, Put, bytes_of, instants, intervals, lists, other, slices, with};
use crate::pg::types::{digits, per_second};
use crate::value_text::{
    Style, decimal_text, push_date, push_float, push_fraction, push_hex, push_instant,
    push_integer, push_time, push_uuid, tidegate_type,
};

pub(super) fn writer<'a>(
    field: &'a Field,
    array: &'a dyn Array,
    format: Format,
) -> Result<Put<'a>, ArrowError> {
    let named = tidegate_type(field);
    Ok(match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            Box::new(|row, bytes| bytes.put_u8(if values.value(row) { b't' } else { b'f' }))
        }
        DataType::Int8 => with::<Int8Type>(array, |v, bytes| push_integer(v.into(), bytes)),
        DataType::Int16 => with::<Int16Type>(array, |v, bytes| push_integer(v.into(), bytes)),
        DataType::Int32 => with::<Int32Type>(array, |v, bytes| push_integer(v.into(), bytes)),
        DataType::Int64 => with::<Int64Type>(array, |v, bytes| push_integer(v.into(), bytes)),
        DataType::UInt8 => with::<UInt8Type>(array, |v, bytes| push_integer(v.into(), bytes)),
        DataType::UInt16 => with::<UInt16Type>(array, |v, bytes| push_integer(v.into(), bytes)),
        DataType::UInt32 if named == Some("ipv4") => with::<UInt32Type>(array, |v, bytes| {
            push(bytes, format_args!("{}", std::net::Ipv4Addr::from_bits(v)));
        }),
        DataType::UInt32 => with::<UInt32Type>(array, |v, bytes| push_integer(v.into(), bytes)),
        DataType::UInt64 => with::<UInt64Type>(array, |v, bytes| push_integer(v.into(), bytes)),
        DataType::Float16 => with::<Float16Type>(array, |v, bytes| {
            push_float(f32::from(v), Style::Postgres, bytes);
        }),
        DataType::Float32 => with::<Float32Type>(array, |v, bytes| {
            push_float(v, Style::Postgres, bytes);
        }),
        DataType::Float64 => with::<Float64Type>(array, |v, bytes| {
            push_float(v, Style::Postgres, bytes);
        }),
        DataType::Decimal128(..) => decimals::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimals::<Decimal256Type>(array),
        DataType::Timestamp(unit, zone) => {
            let end: &'static [u8] = if zone.is_some() { b"+00" } else { b"" };
            instants(array, *unit, move |unit, value, bytes| {
                push_instant(value, digits(unit), Style::Postgres, bytes);
                bytes.put_slice(end);
                let days = value.div_euclid(per_second(unit)).div_euclid(86_400);
                push_era(days, bytes);
            })
        }
        DataType::Date32 => with::<Date32Type>(array, |v, bytes| {
            push_date(v.into(), Style::Postgres, bytes);
            push_era(v.into(), bytes);
        }),
        DataType::Date64 => with::<Date64Type>(array, |v, bytes| {
            let days = v.div_euclid(86_400_000);
            push_date(days, Style::Postgres, bytes);
            push_era(days, bytes);
        }),
        DataType::Time64(TimeUnit::Microsecond) => {
            with::<Time64MicrosecondType>(array, |micros, bytes| {
                push_time(micros, 6, Style::Postgres, bytes);
            })
        }
        DataType::Interval(unit) if format == Format::TextIso => {
            intervals(array, *unit, push_iso_interval)
        }
        DataType::Interval(unit) => intervals(array, *unit, push_interval),
        DataType::Utf8 => slices(array.as_string::<i32>()),
        DataType::LargeUtf8 => slices(array.as_string::<i64>()),
        DataType::Utf8View => slices(array.as_string_view()),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => hex_of(array),
        DataType::FixedSizeBinary(_) => fixed(array, named == Some("uuid")),
        DataType::List(_) | DataType::LargeList(_) => lists(field, array, format)?,
        _ => other(field, array)?,
    })
}

fn decimals<T: DecimalType>(array: &dyn Array) -> Put<'_> {
    let values = array.as_primitive::<T>();
    Box::new(|row, bytes| bytes.put_slice(decimal_text(&values.value_as_string(row)).as_bytes()))
}

fn fixed(array: &dyn Array, is_uuid: bool) -> Put<'_> {
    let values = array.as_fixed_size_binary();
    match is_uuid {
        true => Box::new(|row, bytes| push_uuid(values.value(row), &mut **bytes)),
        false => Box::new(|row, bytes| {
            bytes.put_slice(b"\\x");
            push_hex(values.value(row), &mut **bytes);
        }),
    }
}

fn push(bytes: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    bytes.write_fmt(text).expect("a buffer takes everything");
}

fn push_era(days: i64, bytes: &mut BytesMut) {
    if CivilDate::from_days(days).year < 1 {
        bytes.put_slice(b" BC");
    }
}

/// `1 year 2 mons 3 days 04:05:06.7`, in microseconds (pg_encode-2).
fn push_interval(interval: Interval, bytes: &mut BytesMut) {
    let Interval { months, days, nanos } = interval;
    let nanos = i128::from(nanos.div_euclid(1_000)) * 1_000;
    push(bytes, format_args!("{}", IntervalText { months, days: days.into(), nanos }));
}

/// Appends `P1Y2M3DT4H5M6.7S`.
fn push_iso_interval(interval: Interval, bytes: &mut BytesMut) {
    let Interval { months, days, nanos } = interval;
    let start = bytes.len();
    bytes.put_u8(b'P');
    for (count, unit) in [(months / 12, 'Y'), (months % 12, 'M'), (days, 'D')] {
        if count != 0 {
            push(bytes, format_args!("{count}{unit}"));
        }
    }
    let micros = nanos.div_euclid(1_000);
    if micros == 0 && start + 1 < bytes.len() {
        return;
    }
    bytes.put_u8(b'T');
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    for (count, unit) in [(seconds / 3_600, 'H'), (seconds / 60 % 60, 'M')] {
        if count != 0 {
            push(bytes, format_args!("{count}{unit}"));
        }
    }
    let seconds = seconds % 60;
    if seconds != 0 || fraction != 0 || micros == 0 {
        let sign = if micros < 0 { "-" } else { "" };
        push(bytes, format_args!("{sign}{}", seconds.abs()));
        push_fraction(fraction.unsigned_abs(), 6, Style::Postgres, bytes);
        bytes.put_u8(b'S');
    }
}

fn hex_of(array: &dyn Array) -> Put<'_> {
    let raw = bytes_of(array);
    Box::new(move |row, bytes| {
        let start = bytes.len();
        raw(row, bytes);
        let value = bytes.split_off(start);
        bytes.put_slice(b"\\x");
        push_hex(&value, &mut **bytes);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(push: impl FnOnce(&mut BytesMut)) -> String {
        let mut bytes = BytesMut::new();
        push(&mut bytes);
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn times_end_with_their_last_digit_that_is_not_zero() {
        let micros = |value| shown(|bytes| push_instant(value, 6, Style::Postgres, bytes));
        assert_eq!(micros(1_740_787_200_500_000), "2025-03-01 00:00:00.5");
        assert_eq!(micros(-1), "1969-12-31 23:59:59.999999");
        assert_eq!(micros(0), "1970-01-01 00:00:00");
        let nanos = shown(|bytes| push_instant(1, 9, Style::Postgres, bytes));
        assert_eq!(nanos, "1970-01-01 00:00:00.000000001");
        let ancient = shown(|bytes| {
            push_date(-719_529, Style::Postgres, bytes);
            push_era(-719_529, bytes);
        });
        assert_eq!(ancient, "0002-12-31 BC");
    }

    #[test]
    fn intervals_have_their_parts() {
        let interval = |months, days, nanos| {
            shown(|bytes| push_interval(Interval { months, days, nanos }, bytes))
        };
        assert_eq!(interval(14, 1, 14_706_700_000_000), "1 year 2 mons 1 day 04:05:06.7");
        assert_eq!(interval(-1, 1, 1_000_000_000), "-1 mons +1 day 00:00:01");
        assert_eq!(interval(0, -1, 1_000_000_000), "-1 days +00:00:01");
        assert_eq!(interval(0, 0, 0), "00:00:00");
        assert_eq!(interval(0, -2, -1_000_000_000), "-2 days -00:00:01");
    }

    /// The expected texts are those of PostgreSQL 15.
    #[test]
    fn intervals_of_iso_8601_have_their_parts() {
        let interval = |months, days, nanos| {
            shown(|bytes| push_iso_interval(Interval { months, days, nanos }, bytes))
        };
        assert_eq!(interval(14, 1, 14_706_700_000_000), "P1Y2M1DT4H5M6.7S");
        assert_eq!(interval(0, 0, 0), "PT0S");
        assert_eq!(interval(1, -1, 0), "P1M-1D");
        assert_eq!(interval(0, 0, -5_400_000_000_000), "PT-1H-30M");
        assert_eq!(interval(0, 1, -1_500_000_000), "P1DT-1.5S");
        assert_eq!(interval(0, 0, -500_000_000), "PT-0.5S");
    }
}
