//! Simple parsers of cells: standard library, strings, wide integers. They share no code with the
//! parsers that they are compared with, except for the calendar of `model`.

use std::net::Ipv4Addr;

use tidegate_ingest::parse::CellError;
use tidegate_ingest::timestamp::{EpochUnit, TimestampFormat};
use tidegate_model::time::CivilDate;
use tidegate_model::{ColumnType, TimeUnit, Value, limits};

/// The value of a cell that is not NULL.
pub(crate) fn value(
    text: &[u8],
    ty: ColumnType,
    format: Option<&TimestampFormat>,
) -> Result<Value, CellError> {
    let format = format.unwrap_or(&TimestampFormat::Detect);
    let integer = |min: i128, max: i128| integer(text, min, max).map(Value::Integer);
    match ty {
        ColumnType::Boolean => boolean(text).map(Value::Bit),
        ColumnType::Int8 => integer(i8::MIN.into(), i8::MAX.into()),
        ColumnType::Int16 => integer(i16::MIN.into(), i16::MAX.into()),
        ColumnType::Int32 => integer(i32::MIN.into(), i32::MAX.into()),
        ColumnType::Int64 => integer(i64::MIN.into(), i64::MAX.into()),
        ColumnType::UInt8 => integer(0, u8::MAX.into()),
        ColumnType::UInt16 => integer(0, u16::MAX.into()),
        ColumnType::UInt32 => integer(0, u32::MAX.into()),
        ColumnType::UInt64 => integer(0, u64::MAX.into()),
        ColumnType::Float32 => float32(text).map(|value| Value::Float(value.into())),
        ColumnType::Float64 => float64(text).map(Value::Float),
        ColumnType::Decimal { precision, scale } => {
            decimal(text, precision, scale).map(Value::Integer)
        }
        ColumnType::Timestamp(unit) => {
            instant(text, format, unit).map(|value| Value::Integer(value.into()))
        }
        ColumnType::Date => date(text, format).map(|value| Value::Integer(value.into())),
        ColumnType::Symbol => string(text, limits::SYMBOL_BYTES).map(Value::Bytes),
        ColumnType::Varchar => string(text, limits::VALUE_BYTES).map(Value::Bytes),
        ColumnType::Binary => binary(text).map(Value::Bytes),
        ColumnType::Uuid => uuid(text).map(Value::Fixed16),
        ColumnType::Ipv4 => ipv4(text).map(|value| Value::Integer(value.into())),
    }
}

/// The text without blanks around it, if it is ASCII, as everything except strings is.
fn ascii(text: &[u8]) -> Option<&str> {
    let text = str::from_utf8(text).ok()?;
    text.is_ascii().then(|| text.trim_matches([' ', '\t']))
}

pub(crate) fn boolean(text: &[u8]) -> Result<bool, CellError> {
    match ascii(text).unwrap_or("").to_lowercase().as_str() {
        "true" | "t" | "yes" | "1" => Ok(true),
        "false" | "f" | "no" | "0" => Ok(false),
        _ => Err(CellError::NotABoolean),
    }
}

pub(crate) fn integer(text: &[u8], min: i128, max: i128) -> Result<i128, CellError> {
    let text = ascii(text).ok_or(CellError::NotANumber)?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CellError::NotANumber);
    }
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    if digits.len() > 30 {
        return Err(CellError::OutOfRange);
    }
    let magnitude: i128 = digits.parse().expect("thirty digits");
    let value = if text.starts_with('-') { -magnitude } else { magnitude };
    if min <= value && value <= max { Ok(value) } else { Err(CellError::OutOfRange) }
}

pub(crate) fn float64(text: &[u8]) -> Result<f64, CellError> {
    let text = ascii(text).ok_or(CellError::NotANumber)?;
    let value: f64 = text.parse().map_err(|_| CellError::NotANumber)?;
    if value.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
        return Err(CellError::OutOfRange);
    }
    Ok(if value.is_nan() { f64::NAN } else { value })
}

pub(crate) fn float32(text: &[u8]) -> Result<f32, CellError> {
    let text = ascii(text).ok_or(CellError::NotANumber)?;
    let value: f32 = text.parse().map_err(|_| CellError::NotANumber)?;
    if value.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
        return Err(CellError::OutOfRange);
    }
    Ok(if value.is_nan() { f32::NAN } else { value })
}

/// Parses a decimal by moving the point in the text.
pub(crate) fn decimal(text: &[u8], precision: u8, scale: u8) -> Result<i128, CellError> {
    let text = ascii(text).ok_or(CellError::NotADecimal)?.to_lowercase();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent = integer_text(exponent).ok_or(CellError::NotADecimal)?;
    let unsigned = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CellError::NotADecimal);
    }
    // A larger exponent moves the point out of all digits, too.
    let room = digits.len() + 50;
    let length = |length: usize| i128::try_from(length).expect("a length");
    let exponent = exponent.clamp(-length(room), length(room));
    // All digits, the point `point` places from the left, moved by exponent and scale.
    let zeros = "0".repeat(2 * room);
    let padded = format!("{zeros}{digits}{zeros}");
    let point = length(zeros.len() + whole.len()) + exponent + i128::from(scale);
    let point = usize::try_from(point).expect("the zeros are more than the exponent");
    let kept = padded[..point].trim_start_matches('0');
    if kept.len() > 38 {
        return Err(CellError::OutOfRange);
    }
    let mut magnitude: i128 = if kept.is_empty() { 0 } else { kept.parse().expect("38 digits") };
    if b'5' <= padded.as_bytes()[point] {
        magnitude += 1;
    }
    if 10_i128.pow(precision.into()) <= magnitude {
        return Err(CellError::OutOfRange);
    }
    Ok(if mantissa.starts_with('-') { -magnitude } else { magnitude })
}

/// Parses digits with a sign; too large numbers become 10^30.
fn integer_text(text: &str) -> Option<i128> {
    match integer(text.as_bytes(), -(10_i128.pow(30)), 10_i128.pow(30)) {
        _ if text != text.trim() => None,
        Ok(value) => Some(value),
        Err(CellError::OutOfRange) if text.starts_with('-') => Some(-(10_i128.pow(30))),
        Err(CellError::OutOfRange) => Some(10_i128.pow(30)),
        Err(_) => None,
    }
}

pub(crate) fn uuid(text: &[u8]) -> Result<[u8; 16], CellError> {
    let text = ascii(text).ok_or(CellError::NotAUuid)?;
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    if lengths != [32] && lengths != [8, 4, 4, 4, 12] {
        return Err(CellError::NotAUuid);
    }
    let digits = parts.concat();
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(CellError::NotAUuid);
    }
    Ok(u128::from_str_radix(&digits, 16).expect("32 hex digits").to_be_bytes())
}

pub(crate) fn ipv4(text: &[u8]) -> Result<u32, CellError> {
    let address: Option<Ipv4Addr> = ascii(text).and_then(|text| text.parse().ok());
    address.map(u32::from).ok_or(CellError::NotAnIpv4)
}

pub(crate) fn binary(text: &[u8]) -> Result<Vec<u8>, CellError> {
    let text = ascii(text).ok_or(CellError::NotBinary)?.to_lowercase();
    let digits = text.strip_prefix("\\x").ok_or(CellError::NotBinary)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || digits.len() % 2 != 0 {
        return Err(CellError::NotBinary);
    }
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits");
    Ok((0..digits.len()).step_by(2).map(byte).collect())
}

fn string(text: &[u8], bytes_max: usize) -> Result<Vec<u8>, CellError> {
    if text.len() > bytes_max {
        Err(CellError::TooLong)
    } else if str::from_utf8(text).is_err() {
        Err(CellError::NotUtf8)
    } else if text.contains(&0) {
        Err(CellError::NulInText)
    } else {
        Ok(text.to_vec())
    }
}

/// Parses a timestamp of any format but a pattern.
pub(crate) fn instant(
    text: &[u8],
    format: &TimestampFormat,
    unit: TimeUnit,
) -> Result<i64, CellError> {
    let per_second: i128 = if unit == TimeUnit::Micros { 1_000_000 } else { 1_000_000_000 };
    let nanos = match epoch_nanos(text, format)? {
        Some(nanos) => nanos,
        None => {
            let moment = moment(text, format)?;
            let seconds = i128::from(moment.date.to_days()) * 86_400 - moment.offset_seconds;
            seconds * 1_000_000_000 + moment.nanos_of_day
        }
    };
    let instant = nanos.div_euclid(1_000_000_000 / per_second);
    i64::try_from(instant).map_err(|_| CellError::TimeOutOfRange)
}

/// Parses a day of any format but a pattern.
pub(crate) fn date(text: &[u8], format: &TimestampFormat) -> Result<i32, CellError> {
    const DAY: i128 = 86_400 * 1_000_000_000;
    let (days, nanos_of_day) = match epoch_nanos(text, format) {
        Ok(Some(nanos)) => (nanos.div_euclid(DAY), nanos.rem_euclid(DAY)),
        Ok(None) => match moment(text, format) {
            Ok(moment) => (moment.date.to_days().into(), moment.nanos_of_day),
            Err(CellError::NotATimestamp) => return Err(CellError::NotADate),
            Err(error) => return Err(error),
        },
        Err(CellError::NotATimestamp) => return Err(CellError::NotADate),
        Err(error) => return Err(error),
    };
    if nanos_of_day != 0 {
        return Err(CellError::TimeOfDayInDate);
    }
    i32::try_from(days).map_err(|_| CellError::TimeOutOfRange)
}

fn epoch_nanos(text: &[u8], format: &TimestampFormat) -> Result<Option<i128>, CellError> {
    let TimestampFormat::Epoch(unit) = format else { return Ok(None) };
    let nanos = match unit {
        EpochUnit::Seconds => 1_000_000_000,
        EpochUnit::Millis => 1_000_000,
        EpochUnit::Micros => 1_000,
        EpochUnit::Nanos => 1,
    };
    match integer(text, i64::MIN.into(), i64::MAX.into()) {
        Ok(count) => Ok(Some(count * nanos)),
        Err(CellError::OutOfRange) => Err(CellError::TimeOutOfRange),
        Err(_) => Err(CellError::NotATimestamp),
    }
}

struct Moment {
    date: CivilDate,
    nanos_of_day: i128,
    offset_seconds: i128,
}

/// Parses an instant by splitting the text at its separators.
fn moment(text: &[u8], format: &TimestampFormat) -> Result<Moment, CellError> {
    let text = ascii(text).ok_or(CellError::NotATimestamp)?;
    let fields = fields(text, format).ok_or(CellError::NotATimestamp)?;
    let [year, month, day, hour, minute, second, nanos, offset_hours, offset_minutes] = fields.0;
    let narrow = |value: i128| u32::try_from(value).expect("a few digits");
    let date = CivilDate {
        year: i64::try_from(year).expect("four digits"),
        month: narrow(month),
        day: narrow(day),
    };
    let is_valid = date.is_valid() && hour < 24 && minute < 60 && second < 60;
    if !is_valid || 24 <= offset_hours || 60 <= offset_minutes {
        return Err(CellError::TimeOutOfRange);
    }
    let nanos_of_day = (hour * 3_600 + minute * 60 + second) * 1_000_000_000 + nanos;
    let offset_seconds = (offset_hours * 3_600 + offset_minutes * 60) * fields.1;
    Ok(Moment { date, nanos_of_day, offset_seconds })
}

/// The fields: year to nanosecond, offset hours and minutes; and the sign of the offset.
fn fields(text: &str, format: &TimestampFormat) -> Option<([i128; 9], i128)> {
    let has_slash = text.as_bytes().iter().take(3).skip(1).any(|&byte| byte == b'/');
    let is_slashed = match format {
        TimestampFormat::Iso => false,
        TimestampFormat::DayFirst | TimestampFormat::MonthFirst => true,
        TimestampFormat::Detect => has_slash,
        _ => return None,
    };
    let date_end = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let (date, time) = text.split_at(date_end);
    let parts: Vec<&str> = date.split(if is_slashed { '/' } else { '-' }).collect();
    let [first, second, third] = parts.try_into().ok()?;
    let [year, month, day] = match format {
        _ if !is_slashed => [digits(first, 4, 4)?, digits(second, 2, 2)?, digits(third, 2, 2)?],
        TimestampFormat::MonthFirst => {
            [digits(third, 4, 4)?, digits(first, 1, 2)?, digits(second, 1, 2)?]
        }
        _ => [digits(third, 4, 4)?, digits(second, 1, 2)?, digits(first, 1, 2)?],
    };
    if time.is_empty() {
        return Some(([year, month, day, 0, 0, 0, 0, 0, 0], 1));
    }
    let time = &time[1..];
    let zone = time.find(['Z', 'z', 'U', 'u', '+', '-', ' ']).unwrap_or(time.len());
    let (time, zone) = time.split_at(zone);
    let (time, fraction) = match time.split_once('.') {
        Some((time, fraction)) => (time, Some(fraction)),
        None => (time, None),
    };
    let mut parts = time.split(':');
    let hour = digits(parts.next()?, 2, 2)?;
    let minute = digits(parts.next()?, 2, 2)?;
    let second = match parts.next() {
        Some(second) => digits(second, 2, 2)?,
        None if fraction.is_some() => return None,
        None => 0,
    };
    if parts.next().is_some() {
        return None;
    }
    let nanos = match fraction {
        Some(fraction) => {
            digits(fraction, 1, 9)?;
            digits(&format!("{fraction:0<9}"), 9, 9)?
        }
        None => 0,
    };
    let (sign, offset_hours, offset_minutes) = offset(zone)?;
    let fields = [year, month, day, hour, minute, second, nanos, offset_hours, offset_minutes];
    Some((fields, sign))
}

fn offset(zone: &str) -> Option<(i128, i128, i128)> {
    if zone.is_empty() {
        return Some((1, 0, 0));
    }
    let zone = zone.strip_prefix(' ').unwrap_or(zone);
    if zone.eq_ignore_ascii_case("z") || zone.eq_ignore_ascii_case("utc") {
        return Some((1, 0, 0));
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let rest = zone.strip_prefix(['+', '-'])?;
    let (hours, minutes) = match rest.len() {
        2 => (rest, "00"),
        4 => rest.split_at(2),
        5 => rest.split_once(':').filter(|(hours, _)| hours.len() == 2)?,
        _ => return None,
    };
    Some((sign, digits(hours, 2, 2)?, digits(minutes, 2, 2)?))
}

fn digits(text: &str, min: usize, max: usize) -> Option<i128> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_right = is_number && min <= text.len() && text.len() <= max;
    if is_right { text.parse().ok() } else { None }
}
