//! The table of casts: a value of a Parquet file becomes a value of its column's type, exactly like
//! the same value of a text, or a bad cell.
//!
//! - cast-1. `rule` is the table, in one exhaustive match: a new column type does not compile
//!   without its casts.
//! - A value is rounded only where the same text is: a decimal or a double becomes the nearest
//!   float, a value that becomes a decimal is rounded to its places, half away from zero, and a
//!   time is rounded to its column's unit toward the past. An integer is never rounded.
//! - Texts are not cast here but go through the parsers of text (`convert`).
//!
//! A float with a fraction stands for the shortest digits that denote it; a whole one is the
//! integer of its value. Not here: reading values from arrays and writing them to parsed batches
//! (`columns`).

use std::fmt::Write as _;

use arrow::datatypes::{DataType, TimeUnit as ArrowTimeUnit};
use tidegate_model::time::{CivilDate, IsoTimestamp, Timestamp};
use tidegate_model::{ColumnType, TimeUnit};

use crate::parse::{self, CellError, POWERS_OF_TEN};

/// The kind of the values of a file's column, as far as casts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A column with only NULL.
    Null,
    Boolean,
    /// Integers of any width.
    Integer,
    Float32,
    Float64,
    Decimal,
    /// Dates as days.
    Date,
    /// Instants of any unit, also those of INT96 and of `Date64`.
    Instant,
    Text,
    Binary,
    /// Sixteen bytes of fixed length.
    Uuid,
}

impl Kind {
    /// The kind of an Arrow type; `None` if no column can hold its values.
    pub(super) fn of(own: &DataType) -> Option<Kind> {
        Some(match own {
            DataType::Null => Kind::Null,
            DataType::Boolean => Kind::Boolean,
            own if own.is_integer() => Kind::Integer,
            DataType::Float16 | DataType::Float32 => Kind::Float32,
            DataType::Float64 => Kind::Float64,
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => {
                Kind::Decimal
            }
            DataType::Date32 => Kind::Date,
            DataType::Date64 | DataType::Timestamp(..) => Kind::Instant,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
            DataType::FixedSizeBinary(16) => Kind::Uuid,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Kind::Binary,
            DataType::Dictionary(_, value) => return Kind::of(value),
            _ => return None,
        })
    }
}

/// The rule by which values of a kind become values of a column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Every value is NULL.
    Null,
    /// Only 0 and 1, which are false and true.
    Bit,
    /// A whole number within the type's range.
    Whole,
    /// The nearest float; an integer must be exact.
    Float,
    /// Rounded to the scale, within the precision.
    Decimal,
    /// An instant or a day.
    Time,
    /// As `Time`, from integers whose unit is given.
    Count,
    /// The bytes, as text or binary.
    Bytes,
    /// Sixteen bytes.
    Uuid,
    /// The text form of the value.
    Written,
    /// The value that the parsers of text give.
    Parsed,
}

/// The table of casts (cast-1). `None`: a column of this kind cannot go into a column of this type.
#[rustfmt::skip]
pub(super) fn rule(kind: Kind, ty: ColumnType) -> Option<Rule> {
    use ColumnType as C;
    Some(match (ty, kind) {
        (_, Kind::Null) => Rule::Null,

        (C::Boolean, Kind::Boolean | Kind::Integer | Kind::Float32 | Kind::Float64 | Kind::Decimal)
            => Rule::Bit,
        (C::Boolean, Kind::Date | Kind::Instant | Kind::Binary | Kind::Uuid) => return None,
        (C::Boolean, Kind::Text) => Rule::Parsed,

        (C::Int8 | C::Int16 | C::Int32 | C::Int64 | C::UInt8 | C::UInt16 | C::UInt32 | C::UInt64,
            Kind::Boolean | Kind::Integer | Kind::Float32 | Kind::Float64 | Kind::Decimal)
            => Rule::Whole,
        (C::Int8 | C::Int16 | C::Int32 | C::Int64 | C::UInt8 | C::UInt16 | C::UInt32 | C::UInt64,
            Kind::Date | Kind::Instant | Kind::Binary | Kind::Uuid) => return None,
        (C::Int8 | C::Int16 | C::Int32 | C::Int64 | C::UInt8 | C::UInt16 | C::UInt32 | C::UInt64,
            Kind::Text) => Rule::Parsed,

        (C::Float32 | C::Float64,
            Kind::Boolean | Kind::Integer | Kind::Float32 | Kind::Float64 | Kind::Decimal)
            => Rule::Float,
        (C::Float32 | C::Float64, Kind::Date | Kind::Instant | Kind::Binary | Kind::Uuid)
            => return None,
        (C::Float32 | C::Float64, Kind::Text) => Rule::Parsed,

        (C::Decimal { .. },
            Kind::Boolean | Kind::Integer | Kind::Float32 | Kind::Float64 | Kind::Decimal)
            => Rule::Decimal,
        (C::Decimal { .. }, Kind::Date | Kind::Instant | Kind::Binary | Kind::Uuid) => return None,
        (C::Decimal { .. }, Kind::Text) => Rule::Parsed,

        (C::Timestamp(_) | C::Date, Kind::Date | Kind::Instant) => Rule::Time,
        (C::Timestamp(_) | C::Date, Kind::Integer) => Rule::Count,
        (C::Timestamp(_) | C::Date, Kind::Boolean | Kind::Float32 | Kind::Float64 | Kind::Decimal
            | Kind::Binary | Kind::Uuid) => return None,
        (C::Timestamp(_) | C::Date, Kind::Text) => Rule::Parsed,

        (C::Symbol | C::Varchar, Kind::Boolean | Kind::Integer | Kind::Float32 | Kind::Float64
            | Kind::Decimal | Kind::Date | Kind::Instant | Kind::Uuid) => Rule::Written,
        (C::Symbol | C::Varchar, Kind::Text | Kind::Binary) => Rule::Bytes,

        (C::Binary, Kind::Binary | Kind::Uuid) => Rule::Bytes,
        (C::Binary, Kind::Text) => Rule::Parsed,
        (C::Binary, Kind::Boolean | Kind::Integer | Kind::Float32 | Kind::Float64 | Kind::Decimal
            | Kind::Date | Kind::Instant) => return None,

        (C::Uuid, Kind::Uuid | Kind::Binary) => Rule::Uuid,
        (C::Uuid, Kind::Text) => Rule::Parsed,
        (C::Uuid, Kind::Boolean | Kind::Integer | Kind::Float32 | Kind::Float64 | Kind::Decimal
            | Kind::Date | Kind::Instant) => return None,

        // An export writes an address as its number.
        (C::Ipv4, Kind::Integer) => Rule::Whole,
        (C::Ipv4, Kind::Text) => Rule::Parsed,
        (C::Ipv4, Kind::Boolean | Kind::Float32 | Kind::Float64 | Kind::Decimal | Kind::Date
            | Kind::Instant | Kind::Binary | Kind::Uuid) => return None,
    })
}

/// A value of a file in the widest form of its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar<'a> {
    Boolean(bool),
    Integer(i128),
    Float32(f32),
    Float64(f64),
    /// `unscaled / 10^scale`
    Decimal {
        unscaled: i128,
        scale: i32,
    },
    Days(i64),
    Instant(Instant),
    Bytes(&'a [u8]),
    Uuid([u8; 16]),
}

/// An instant of any file: INT96 has a larger range than an `i64` of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant {
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    pub(super) nanos: i128,
    /// The unit in which it is written as text.
    pub(super) unit: TimeUnit,
}

const DAY_NANOS: i128 = 86_400_000_000_000;

/// The nanoseconds of one unit of a file.
pub(super) fn unit_nanos(unit: ArrowTimeUnit) -> i128 {
    match unit {
        ArrowTimeUnit::Second => 1_000_000_000,
        ArrowTimeUnit::Millisecond => 1_000_000,
        ArrowTimeUnit::Microsecond => 1_000,
        ArrowTimeUnit::Nanosecond => 1,
    }
}

impl Scalar<'_> {
    /// Applies `Rule::Bit`.
    pub(super) fn bit(self) -> Result<bool, CellError> {
        if let Scalar::Float32(0.0) | Scalar::Float64(0.0) = self
            && self.is_negative_zero()
        {
            return Err(CellError::NotABoolean);
        }
        match self.whole() {
            Ok(0) => Ok(false),
            Ok(1) => Ok(true),
            _ => Err(CellError::NotABoolean),
        }
    }

    fn is_negative_zero(self) -> bool {
        match self {
            Scalar::Float32(value) => value.to_bits() == (-0.0_f32).to_bits(),
            Scalar::Float64(value) => value.to_bits() == (-0.0_f64).to_bits(),
            _ => false,
        }
    }

    /// The integer that equals the value.
    fn whole(self) -> Result<i128, CellError> {
        match self {
            Scalar::Boolean(value) => Ok(value.into()),
            Scalar::Integer(value) => Ok(value),
            Scalar::Float32(value) => whole_float(value.into()),
            Scalar::Float64(value) => whole_float(value),
            Scalar::Decimal { unscaled, scale } => rescaled(unscaled, scale, 0),
            Scalar::Days(_) | Scalar::Instant(_) | Scalar::Bytes(_) | Scalar::Uuid(_) => {
                Err(CellError::NotANumber)
            }
        }
    }

    /// Applies `Rule::Whole`.
    pub(super) fn integer<T: TryFrom<i128>>(self) -> Result<T, CellError> {
        T::try_from(self.whole()?).map_err(|_| CellError::OutOfRange)
    }

    /// Applies `Rule::Float` for eight bytes.
    #[expect(clippy::cast_precision_loss, reason = "what is lost is looked for")]
    #[expect(clippy::cast_possible_truncation, reason = "integers of 64 bits and their neighbours")]
    pub(super) fn float64(self) -> Result<f64, CellError> {
        match self {
            Scalar::Float32(value) => Ok(f64::from(value)),
            Scalar::Float64(value) => Ok(value),
            Scalar::Decimal { .. } => parse::parse_f64(self.written().as_bytes()),
            _ => {
                let whole = self.whole()?;
                let float = whole as f64;
                if float as i128 == whole { Ok(float) } else { Err(CellError::Inexact) }
            }
        }
    }

    /// Applies `Rule::Float` for four bytes.
    #[expect(clippy::cast_precision_loss, reason = "what is lost is looked for")]
    #[expect(clippy::cast_possible_truncation, reason = "rounded once, and infinity is looked for")]
    pub(super) fn float32(self) -> Result<f32, CellError> {
        match self {
            Scalar::Float32(value) => Ok(value),
            Scalar::Float64(value) => {
                let float = value as f32;
                let is_too_large = value.is_finite() && float.is_infinite();
                if is_too_large { Err(CellError::OutOfRange) } else { Ok(float) }
            }
            Scalar::Decimal { .. } => parse::parse_f32(self.written().as_bytes()),
            _ => {
                let whole = self.whole()?;
                let float = whole as f32;
                if float as i128 == whole { Ok(float) } else { Err(CellError::Inexact) }
            }
        }
    }

    /// Applies `Rule::Decimal`.
    pub(super) fn decimal(self, precision: u8, to: u8) -> Result<i128, CellError> {
        let (unscaled, scale) = match self {
            Scalar::Decimal { unscaled, scale } => (unscaled, scale),
            Scalar::Float32(value) if value.fract() != 0.0 => {
                shortest_digits(&format!("{value:e}"))?
            }
            Scalar::Float64(value) if value.fract() != 0.0 => {
                shortest_digits(&format!("{value:e}"))?
            }
            _ => (self.whole()?, 0),
        };
        let value = rounded(unscaled, scale, to)?;
        let is_within = value.unsigned_abs() < POWERS_OF_TEN[usize::from(precision)];
        if is_within { Ok(value) } else { Err(CellError::OutOfRange) }
    }

    /// Applies `Rule::Time` for a timestamp, rounded toward the past.
    pub(super) fn timestamp(self, unit: TimeUnit) -> Result<i64, CellError> {
        let instant = self.instant()?.nanos.div_euclid(nanos_of(unit));
        i64::try_from(instant).map_err(|_| CellError::TimeOutOfRange)
    }

    /// Applies `Rule::Time` for a date.
    pub(super) fn days(self) -> Result<i32, CellError> {
        let Instant { nanos, .. } = self.instant()?;
        if nanos.rem_euclid(DAY_NANOS) != 0 {
            return Err(CellError::TimeOfDayInDate);
        }
        i32::try_from(nanos / DAY_NANOS).map_err(|_| CellError::TimeOutOfRange)
    }

    fn instant(self) -> Result<Instant, CellError> {
        match self {
            Scalar::Instant(instant) => Ok(instant),
            Scalar::Days(days) => {
                Ok(Instant { nanos: i128::from(days) * DAY_NANOS, unit: TimeUnit::Micros })
            }
            _ => Err(CellError::NotATimestamp),
        }
    }

    /// Applies `Rule::Count`: an integer as an instant, by the nanoseconds of one unit.
    pub(super) fn counted(self, nanos: i128) -> Self {
        match self {
            Scalar::Integer(count) => {
                Scalar::Instant(Instant { nanos: count * nanos, unit: TimeUnit::Nanos })
            }
            other => other,
        }
    }

    /// Applies `Rule::Uuid`.
    pub(super) fn uuid(self) -> Result<[u8; 16], CellError> {
        match self {
            Scalar::Uuid(bytes) => Ok(bytes),
            Scalar::Bytes(bytes) => bytes.try_into().map_err(|_| CellError::NotAUuid),
            _ => Err(CellError::NotAUuid),
        }
    }

    /// Applies `Rule::Written`: gives `written`, if the value has that form.
    pub(super) fn text(self) -> Result<String, CellError> {
        match self {
            Scalar::Instant(instant) if instant.is_beyond_all() => Err(CellError::TimeOutOfRange),
            scalar => Ok(scalar.written()),
        }
    }

    /// The value in the form of a text file.
    pub(super) fn written(self) -> String {
        match self {
            Scalar::Boolean(value) => value.to_string(),
            Scalar::Integer(value) => value.to_string(),
            Scalar::Float32(value) => format!("{value:?}"),
            Scalar::Float64(value) => format!("{value:?}"),
            Scalar::Decimal { unscaled, scale } => decimal_text(unscaled, scale),
            Scalar::Days(days) => {
                let CivilDate { year, month, day } = CivilDate::from_days(days);
                format!("{year:04}-{month:02}-{day:02}")
            }
            Scalar::Instant(instant) => instant.written(),
            Scalar::Bytes(bytes) => bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            }),
            Scalar::Uuid(bytes) => {
                let digits = format!("{:032x}", u128::from_be_bytes(bytes));
                let parts =
                    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
                parts.join("-")
            }
        }
    }
}

impl Instant {
    /// Returns true if not even microseconds since 1970 fit 64 bits.
    fn is_beyond_all(self) -> bool {
        i64::try_from(self.nanos.div_euclid(nanos_of(TimeUnit::Micros))).is_err()
    }

    /// The text in its unit; in microseconds, or in days alone, if the count does not fit 64 bits.
    fn written(self) -> String {
        for unit in [self.unit, TimeUnit::Micros] {
            if let Ok(count) = i64::try_from(self.nanos.div_euclid(nanos_of(unit))) {
                return IsoTimestamp(Timestamp(count), unit).to_string();
            }
        }
        format!("day {} since 1970-01-01", self.nanos.div_euclid(DAY_NANOS))
    }
}

fn nanos_of(unit: TimeUnit) -> i128 {
    i128::from(1_000_000_000 / unit.per_second())
}

fn decimal_text(unscaled: i128, scale: i32) -> String {
    let digits = unscaled.unsigned_abs().to_string();
    let sign = if unscaled < 0 { "-" } else { "" };
    let Ok(places) = usize::try_from(scale) else {
        let zeros = usize::try_from(scale.unsigned_abs()).unwrap_or(0);
        let zeros = if unscaled == 0 { 0 } else { zeros };
        return format!("{sign}{digits}{}", "0".repeat(zeros));
    };
    if places == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    format!("{sign}{whole}.{fraction}")
}

/// The integer that equals a float.
#[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^127")]
fn whole_float(value: f64) -> Result<i128, CellError> {
    const MAX: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0; // 2^127
    if value.abs() < MAX {
        if value.fract() == 0.0 { Ok(value as i128) } else { Err(CellError::Inexact) }
    } else {
        Err(CellError::OutOfRange)
    }
}

/// The digits of a float that is written with an exponent, such as `-1.5e-7`, and the number of
/// those behind the point.
fn shortest_digits(text: &str) -> Result<(i128, i32), CellError> {
    let (digits, exponent) = text.split_once('e').ok_or(CellError::OutOfRange)?;
    let places = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let unscaled = digits.replace('.', "").parse::<i128>();
    let exponent = exponent.parse::<i32>();
    match (unscaled, exponent, i32::try_from(places)) {
        (Ok(unscaled), Ok(exponent), Ok(places)) => Ok((unscaled, places - exponent)),
        _ => Err(CellError::OutOfRange),
    }
}

/// `unscaled / 10^from` as a number of `1 / 10^to`, rounded half away from zero as in
/// `parse_decimal`.
fn rounded(unscaled: i128, from: i32, to: u8) -> Result<i128, CellError> {
    let places = from.saturating_sub(i32::from(to));
    let Some(places) = usize::try_from(places).ok().filter(|&places| places > 0) else {
        return rescaled(unscaled, from, to);
    };
    // For a larger power the quotient is below one half.
    let Some(&divisor) = POWERS_OF_TEN.get(places) else { return Ok(0) };
    let magnitude = ((unscaled.unsigned_abs() + divisor / 2) / divisor).cast_signed();
    Ok(if unscaled < 0 { -magnitude } else { magnitude })
}

/// `unscaled / 10^from` as a number of `1 / 10^to`, if that is exact.
fn rescaled(unscaled: i128, from: i32, to: u8) -> Result<i128, CellError> {
    let up = i32::from(to).saturating_sub(from);
    let power = usize::try_from(up.unsigned_abs()).ok().and_then(|power| POWERS_OF_TEN.get(power));
    let power = power.map(|power| power.cast_signed());
    match (unscaled, power) {
        (0, _) => Ok(0),
        (_, Some(power)) if up >= 0 => unscaled.checked_mul(power).ok_or(CellError::OutOfRange),
        (_, Some(power)) if unscaled % power == 0 => Ok(unscaled / power),
        (_, None) if up >= 0 => Err(CellError::OutOfRange),
        _ => Err(CellError::Inexact),
    }
}
