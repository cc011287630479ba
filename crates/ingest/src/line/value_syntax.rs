//! Value syntax: the kind of a value, and its conversion to the type of a column.
//!
//! - value_syntax-1. A conversion keeps the value or fails; nothing is clipped or wrapped. Floats
//!   become the nearest ones of their type, or are rounded to the scale of a DECIMAL; instants that
//!   are finer than their column are rounded toward the past.
//! - value_syntax-2. A value is in the range of its kind, whatever its column: `i` and counts of
//!   times have 64 bits with a sign, `u` 64 bits without one, and numbers are in the range of a
//!   double.
//! - A float is parsed from its text and never by way of a double, unless the column is one.
//!
//! Not here: the end of a value (`scan`), the memory of columns (`column`).

use std::borrow::Cow;

use tidegate_model::{ColumnType, TimeUnit, limits};

use super::parse_error::Misfit;
use crate::parse::{self, CellError, trimmed};
use crate::timestamp::{EpochUnit, TimestampFormat, TimestampParser, parse_date};

/// A value as it stands in a line, by its kind, without suffixes and quotes, its escapes resolved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RawValue<'a> {
    /// `12i`
    Integer(&'a [u8]),
    /// `12u`
    Unsigned(&'a [u8]),
    /// `1`, `1.5`, `1e3`, `NaN`
    Float(&'a [u8]),
    /// `1.5d`
    Decimal(&'a [u8]),
    /// `t`
    Boolean(bool),
    /// `"text"`
    Text(&'a [u8]),
    /// A tag, which stands behind the name of the table.
    Tag(&'a [u8]),
    /// `12n`, `12t`, `12m`
    Time(&'a [u8], EpochUnit),
    /// `0x1fi`
    Hex(&'a [u8]),
}

/// A value in the type of a column.
#[derive(Debug, PartialEq)]
pub(super) enum Cell<'a> {
    Bit(bool),
    Integer(i128),
    Float32(f32),
    Float64(f64),
    Fixed16([u8; 16]),
    Text(Cow<'a, [u8]>),
}

/// The kind of a value that is not a string; `None` if its syntax is invalid.
pub(super) fn raw_value(text: &[u8]) -> Option<RawValue<'_>> {
    let (&last, rest) = text.split_last()?;
    let suffixed = match last {
        b'i' if is_integer(rest) => Some(RawValue::Integer(rest)),
        b'i' => hex_digits(rest).map(RawValue::Hex),
        b'u' if is_integer(rest) => Some(RawValue::Unsigned(rest)),
        b'd' if is_number(rest) => Some(RawValue::Decimal(rest)),
        b'n' | b't' | b'm' => {
            epoch_unit(last).filter(|_| is_count(rest)).map(|unit| RawValue::Time(rest, unit))
        }
        _ => None,
    };
    if suffixed.is_some() {
        return suffixed;
    }
    match text {
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => Some(RawValue::Boolean(true)),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => Some(RawValue::Boolean(false)),
        _ => (is_number(text) || is_special(text)).then_some(RawValue::Float(text)),
    }
}

/// The unit that a suffix gives to the count before it.
pub(super) fn epoch_unit(suffix: u8) -> Option<EpochUnit> {
    match suffix {
        b'n' => Some(EpochUnit::Nanos),
        b't' => Some(EpochUnit::Micros),
        b'm' => Some(EpochUnit::Millis),
        _ => None,
    }
}

fn without_sign(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text)
}

fn is_digits(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn is_integer(text: &[u8]) -> bool {
    is_digits(without_sign(text))
}

/// Returns true for digits, with a minus at most.
pub(super) fn is_count(text: &[u8]) -> bool {
    is_digits(text.strip_prefix(b"-").unwrap_or(text))
}

fn is_number(text: &[u8]) -> bool {
    let text = without_sign(text);
    let (mantissa, exponent) = split_exponent(text);
    let (whole, fraction) = split_point(mantissa);
    let is_mantissa = (is_digits(whole) || whole.is_empty())
        && (is_digits(fraction) || fraction.is_empty())
        && !(whole.is_empty() && fraction.is_empty());
    is_mantissa && exponent.is_none_or(is_integer)
}

/// Returns true for NaN and the infinities.
fn is_special(text: &[u8]) -> bool {
    let text = without_sign(text);
    [&b"nan"[..], b"infinity", b"inf"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn hex_digits(text: &[u8]) -> Option<&[u8]> {
    let digits = text.strip_prefix(b"0x")?;
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit)).then_some(digits)
}

fn split_exponent(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn split_point(mantissa: &[u8]) -> (&[u8], &[u8]) {
    match mantissa.iter().position(|&byte| byte == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[]),
    }
}

impl<'a> RawValue<'a> {
    /// The name of the kind in messages.
    pub(super) fn kind(self) -> &'static str {
        match self {
            RawValue::Integer(_) | RawValue::Unsigned(_) => "integer",
            RawValue::Float(_) => "number",
            RawValue::Decimal(_) => "decimal",
            RawValue::Boolean(_) => "boolean",
            RawValue::Text(_) => "string",
            RawValue::Tag(_) => "tag",
            RawValue::Time(..) => "timestamp",
            RawValue::Hex(_) => "hexadecimal number",
        }
    }

    /// The text of the value in messages.
    pub(super) fn text(self) -> &'a [u8] {
        match self {
            RawValue::Boolean(true) => b"true",
            RawValue::Boolean(false) => b"false",
            RawValue::Integer(text)
            | RawValue::Unsigned(text)
            | RawValue::Float(text)
            | RawValue::Decimal(text)
            | RawValue::Text(text)
            | RawValue::Tag(text)
            | RawValue::Time(text, _)
            | RawValue::Hex(text) => text,
        }
    }

    /// The type of the column that the value creates; `None` if it creates none.
    pub(super) fn created_type(self, integer_type: ColumnType) -> Option<ColumnType> {
        Some(match self {
            RawValue::Integer(_) => integer_type,
            RawValue::Unsigned(_) => ColumnType::UInt64,
            RawValue::Float(_) => ColumnType::Float64,
            RawValue::Decimal(text) => decimal_type(text),
            RawValue::Boolean(_) => ColumnType::Boolean,
            RawValue::Text(_) => ColumnType::Varchar,
            RawValue::Tag(_) => ColumnType::Symbol,
            RawValue::Time(_, EpochUnit::Nanos) => ColumnType::Timestamp(TimeUnit::Nanos),
            RawValue::Time(..) => ColumnType::Timestamp(TimeUnit::Micros),
            RawValue::Hex(_) => return None,
        })
    }

    /// Converts the value to the type of a column (value_syntax-1).
    pub(super) fn cell(self, ty: ColumnType) -> Result<Cell<'a>, Misfit> {
        match ty {
            ColumnType::Boolean => match self {
                RawValue::Boolean(value) => Ok(Cell::Bit(value)),
                _ => Err(Misfit::Type),
            },
            ColumnType::Int8
            | ColumnType::Int16
            | ColumnType::Int32
            | ColumnType::Int64
            | ColumnType::UInt8
            | ColumnType::UInt16
            | ColumnType::UInt32
            | ColumnType::UInt64 => self.integer(ty).map(Cell::Integer),
            ColumnType::Float32 => self.float32().map(Cell::Float32),
            ColumnType::Float64 => self.float64().map(Cell::Float64),
            ColumnType::Decimal { precision, scale } => {
                self.decimal(precision, scale).map(Cell::Integer)
            }
            ColumnType::Timestamp(unit) => self.instant(unit).map(|at| Cell::Integer(at.into())),
            ColumnType::Date => self.date().map(|days| Cell::Integer(days.into())),
            ColumnType::Symbol | ColumnType::Varchar => self.string(ty),
            ColumnType::Binary => self.binary(),
            ColumnType::Uuid => match self {
                RawValue::Text(text) | RawValue::Tag(text) => {
                    Ok(Cell::Fixed16(parse::parse_uuid(text)?))
                }
                _ => Err(Misfit::Type),
            },
            ColumnType::Ipv4 => match self {
                RawValue::Text(text) | RawValue::Tag(text) => {
                    Ok(Cell::Integer(parse::parse_ipv4(text)?.into()))
                }
                _ => Err(Misfit::Type),
            },
        }
    }

    /// The value with the suffix `i` or `u`, if it is in the range of its suffix (value_syntax-2).
    fn suffixed(self) -> Result<i128, CellError> {
        match self {
            RawValue::Integer(text) => Ok(parse::parse_i64(text)?.into()),
            RawValue::Unsigned([b'-', ..]) => Err(CellError::OutOfRange),
            RawValue::Unsigned(text) => {
                let digits = text.strip_prefix(b"+").unwrap_or(text);
                Ok(parse::parse_u64(digits)?.into())
            }
            _ => unreachable!("{} has neither suffix", self.kind()),
        }
    }

    fn integer(self, ty: ColumnType) -> Result<i128, Misfit> {
        let value = match self {
            RawValue::Integer(_) | RawValue::Unsigned(_) => self.suffixed()?,
            RawValue::Float(text) => {
                if is_special(text) {
                    return Err(Misfit::NotFinite);
                }
                if !is_exact(text, 0) {
                    return Err(Misfit::Fraction);
                }
                parse::parse_decimal(text, 38, 0)?
            }
            RawValue::Boolean(value) => i128::from(value),
            RawValue::Time(text, _) if ty == ColumnType::Int64 => parse::parse_i64(text)?.into(),
            _ => return Err(Misfit::Type),
        };
        let (min, max) = integer_range(ty);
        let is_in_range = min <= value && value <= max;
        if is_in_range { Ok(value) } else { Err(CellError::OutOfRange.into()) }
    }

    fn float64(self) -> Result<f64, Misfit> {
        match self {
            RawValue::Float(text) | RawValue::Decimal(text) => Ok(parse::parse_f64(text)?),
            RawValue::Integer(text) | RawValue::Unsigned(text) => {
                exact_within(self.suffixed()?, f64::MANTISSA_DIGITS)?;
                Ok(parse::parse_f64(text)?)
            }
            RawValue::Boolean(value) => Ok(f64::from(u8::from(value))),
            _ => Err(Misfit::Type),
        }
    }

    fn float32(self) -> Result<f32, Misfit> {
        match self {
            RawValue::Float(text) | RawValue::Decimal(text) => Ok(parse::parse_f32(text)?),
            RawValue::Integer(text) | RawValue::Unsigned(text) => {
                exact_within(self.suffixed()?, f32::MANTISSA_DIGITS)?;
                Ok(parse::parse_f32(text)?)
            }
            RawValue::Boolean(value) => Ok(f32::from(u8::from(value))),
            _ => Err(Misfit::Type),
        }
    }

    fn decimal(self, precision: u8, scale: u8) -> Result<i128, Misfit> {
        let parsed = |text| Ok(parse::parse_decimal(text, precision, scale)?);
        match self {
            RawValue::Integer(text) | RawValue::Unsigned(text) => {
                self.suffixed()?;
                parsed(text)
            }
            RawValue::Float(text) if is_special(text) => Err(Misfit::NotFinite),
            RawValue::Float(text) => parsed(text),
            RawValue::Decimal(text) | RawValue::Text(text) => {
                let value = parsed(text)?;
                if is_exact(trimmed(text), scale) { Ok(value) } else { Err(Misfit::Inexact) }
            }
            _ => Err(Misfit::Type),
        }
    }

    /// The instant; an integer without suffix counts the unit of the column.
    pub(super) fn instant(self, unit: TimeUnit) -> Result<i64, Misfit> {
        match self {
            RawValue::Integer(_) | RawValue::Unsigned(_) => {
                i64::try_from(self.suffixed()?).map_err(|_| CellError::TimeOutOfRange.into())
            }
            RawValue::Time(text, epoch) => Ok(instant_of(text, epoch, unit)?),
            RawValue::Text(text) => {
                Ok(TimestampParser::new(&TimestampFormat::Iso, unit).parse(text)?)
            }
            _ => Err(Misfit::Type),
        }
    }

    fn date(self) -> Result<i32, Misfit> {
        match self {
            RawValue::Time(text, epoch) => {
                let nanos = time_count(text)? * i128::from(nanos_per(epoch));
                let days = nanos.div_euclid(86_400 * 1_000_000_000); // value_syntax-1
                i32::try_from(days).map_err(|_| CellError::TimeOutOfRange.into())
            }
            RawValue::Text(text) => Ok(parse_date(text, &TimestampFormat::Iso)?),
            _ => Err(Misfit::Type),
        }
    }

    fn string(self, ty: ColumnType) -> Result<Cell<'a>, Misfit> {
        let text = match self {
            RawValue::Decimal(_) | RawValue::Time(..) | RawValue::Hex(_) => {
                return Err(Misfit::Type);
            }
            RawValue::Integer(_) | RawValue::Unsigned(_) => {
                self.suffixed()?;
                self.text()
            }
            RawValue::Float(text) => {
                parse::parse_f64(text)?; // value_syntax-2
                text
            }
            RawValue::Boolean(_) | RawValue::Text(_) | RawValue::Tag(_) => self.text(),
        };
        let bytes_max = match ty {
            ColumnType::Symbol => limits::SYMBOL_BYTES,
            _ => limits::VALUE_BYTES,
        };
        if bytes_max < text.len() {
            return Err(CellError::TooLong.into());
        }
        Ok(Cell::Text(Cow::Borrowed(text)))
    }

    fn binary(self) -> Result<Cell<'a>, Misfit> {
        let mut bytes = Vec::new();
        match self {
            RawValue::Text(text) => parse::parse_binary(text, &mut bytes)?,
            RawValue::Hex(digits) => {
                let zero: &[u8] = if digits.len() % 2 == 0 { b"" } else { b"0" };
                parse::parse_binary(&[b"\\x", zero, digits].concat(), &mut bytes)?;
            }
            _ => return Err(Misfit::Type),
        }
        Ok(Cell::Text(Cow::Owned(bytes)))
    }
}

/// Converts a count since 1970 to another unit.
pub(super) fn instant_of(text: &[u8], epoch: EpochUnit, to: TimeUnit) -> Result<i64, CellError> {
    scaled(text, nanos_per(epoch), to)
}

/// Converts a count of units of `nanos` nanoseconds.
pub(super) fn scaled(text: &[u8], nanos: i64, to: TimeUnit) -> Result<i64, CellError> {
    let nanos = time_count(text)? * i128::from(nanos);
    let instant = match to {
        TimeUnit::Nanos => nanos,
        TimeUnit::Micros => nanos.div_euclid(1_000), // value_syntax-1
    };
    i64::try_from(instant).map_err(|_| CellError::TimeOutOfRange)
}

fn nanos_per(epoch: EpochUnit) -> i64 {
    match epoch {
        EpochUnit::Seconds => 1_000_000_000,
        EpochUnit::Millis => 1_000_000,
        EpochUnit::Micros => 1_000,
        EpochUnit::Nanos => 1,
    }
}

/// Parses a count of units since 1970, of 64 bits (value_syntax-2). Its product with the
/// nanoseconds of a unit has fewer than 128.
fn time_count(text: &[u8]) -> Result<i128, CellError> {
    parse::parse_i64(text).map(i128::from).map_err(|_| CellError::TimeOutOfRange)
}

/// Checks that a float with this many bits of mantissa holds an integer exactly. The exponents
/// always suffice.
fn exact_within(whole: i128, bits: u32) -> Result<(), Misfit> {
    let magnitude = whole.unsigned_abs();
    let needed = (128 - magnitude.leading_zeros()).saturating_sub(magnitude.trailing_zeros());
    if needed <= bits { Ok(()) } else { Err(Misfit::Inexact) }
}

fn integer_range(ty: ColumnType) -> (i128, i128) {
    match ty {
        ColumnType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        ColumnType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        ColumnType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        ColumnType::UInt8 => (0, u8::MAX.into()),
        ColumnType::UInt16 => (0, u16::MAX.into()),
        ColumnType::UInt32 => (0, u32::MAX.into()),
        ColumnType::UInt64 => (0, u64::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

/// The number of digits behind the point that a number needs; negative if its last digits before
/// the point are zeros.
fn places(number: &[u8]) -> i64 {
    let (mantissa, exponent) = split_exponent(without_sign(number));
    let exponent = exponent.map_or(0, saturated);
    let (whole, fraction) = split_point(mantissa);
    let last = |digits: &[u8]| digits.iter().rposition(|&digit| digit != b'0');
    let length = |length: usize| i64::try_from(length).expect("limits::VALUE_BYTES");
    let needed = match (last(whole), last(fraction)) {
        (_, Some(last)) => length(last) + 1,
        (Some(last), None) => length(last) + 1 - length(whole.len()),
        (None, None) => return i64::MIN,
    };
    needed.saturating_sub(exponent)
}

/// Returns true if a number needs at most `scale` digits behind the point.
fn is_exact(number: &[u8], scale: u8) -> bool {
    places(number) <= scale.into()
}

/// The exponent, limited to a value far beyond any scale.
fn saturated(exponent: &[u8]) -> i64 {
    let digits = without_sign(exponent);
    let value = digits.iter().fold(0_i64, |value, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
    });
    if exponent.first() == Some(&b'-') { -value } else { value }
}

/// DECIMAL(18,3), or a DECIMAL with the maximum number of digits if that is too small.
fn decimal_type(number: &[u8]) -> ColumnType {
    let usual = ColumnType::Decimal { precision: 18, scale: 3 };
    let needed = u8::try_from(places(number).clamp(0, 38)).expect("clamped");
    let fits = |precision, scale| {
        needed <= scale && parse::parse_decimal(number, precision, scale).is_ok()
    };
    let larger = [needed.max(3), needed];
    let scale = larger.into_iter().find(|&scale| fits(38, scale));
    match scale {
        Some(scale) if !fits(18, 3) => ColumnType::Decimal { precision: 38, scale },
        _ => usual,
    }
}
