//! Parsers of timestamps and dates: text becomes an instant in a `TimeUnit`, or a day.
//!
//! - timestamp-1. Nothing rolls over: a day, month or time that the calendar does not have is an
//!   error.
//! - timestamp-2. Digits beyond the unit are cut off, toward the past.
//! - Text without an offset is UTC.
//! - timestamp-3. The fast path and the general one agree on every text: the fast one supports a
//!   part of the forms, and leaves all others to the general one.
//!
//! These functions run once a cell. Here are the formats and the parsers that workers hold; the
//! forms themselves are in `prefix` (fast), `forms` (ISO and slashes) and `pattern`. Not here: the
//! choice of a format for a column (`sniff`), and the range of a designated timestamp (model,
//! ingest_read-1), which the code that writes one checks.

use std::fmt;

use thiserror::Error;
use tidegate_model::TimeUnit;

mod moment;
mod cursor;
mod forms;
mod prefix;
mod pattern;

use crate::parse::{CellError, parse_i64, without_margin};
use moment::Moment;
pub use pattern::Pattern;
use prefix::{DateOrder, Prefix};

/// The unit of an integer that counts since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpochUnit {
    /// `epoch_s`
    Seconds,
    /// `epoch_ms`
    Millis,
    /// `epoch_us`
    Micros,
    /// `epoch_ns`
    Nanos,
}

impl EpochUnit {
    /// The number of units in a second.
    fn per_second(self) -> i64 {
        match self {
            EpochUnit::Seconds => 1,
            EpochUnit::Millis => 1_000,
            EpochUnit::Micros => 1_000_000,
            EpochUnit::Nanos => 1_000_000_000,
        }
    }

    /// The nanoseconds of one unit.
    pub(crate) fn nanos(self) -> i64 {
        1_000_000_000 / self.per_second()
    }
}

/// The format of the timestamps of a column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TimestampFormat {
    /// Detected cell by cell: day first where the third byte or the second is a slash, otherwise
    /// ISO.
    Detect,
    /// `yyyy-MM-dd`, alone or followed by `T` or a space, a time with 0 to 9 fraction digits, and
    /// an offset.
    Iso,
    /// An integer of this unit.
    Epoch(EpochUnit),
    /// `dd/MM/yyyy`, followed by the same as in ISO; days and months may have one digit.
    DayFirst,
    /// `MM/dd/yyyy`, followed by the same as in ISO; days and months may have one digit.
    MonthFirst,
    /// A pattern of the user.
    Pattern(Pattern),
}

/// The reason why a timestamp format is invalid. Positions are bytes from the start of the format.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum FormatError {
    #[error("the timestamp format is empty")]
    Empty,
    #[error("the timestamp format has {bytes} bytes, {max} are the most")]
    TooLong { bytes: usize, max: usize },
    #[error("`{run}` at byte {at} of the timestamp format is not a known field")]
    UnknownField { run: String, at: usize },
    #[error("the quote at byte {at} of the timestamp format is never closed")]
    OpenQuote { at: usize },
    #[error("`{run}` at byte {at} of the timestamp format gives its field a second time")]
    FieldTwice { run: String, at: usize },
    #[error("the timestamp format has no field")]
    NoField,
    #[error("{text} has no unit: write epoch_s, epoch_ms, epoch_us or epoch_ns")]
    NoEpochUnit { text: String },
    #[error("the timestamp format has hours 1 to 12, but no am or pm")]
    NoHalfOfDay,
}

impl TimestampFormat {
    /// Parses a format: `iso`, `auto`, `epoch_s` (or strftime's `%s`), `epoch_ms`, `epoch_us`,
    /// `epoch_ns`, a pattern of strftime if it has a `%`, otherwise a pattern of letters such as
    /// `yyyy-MM-dd HH:mm:ss.SSS`.
    ///
    /// # Errors
    /// `FormatError`.
    pub fn parse(text: &str) -> Result<TimestampFormat, FormatError> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "auto" => TimestampFormat::Detect,
            "iso" => TimestampFormat::Iso,
            "epoch_s" => TimestampFormat::Epoch(EpochUnit::Seconds),
            "epoch_ms" => TimestampFormat::Epoch(EpochUnit::Millis),
            "epoch_us" => TimestampFormat::Epoch(EpochUnit::Micros),
            "epoch_ns" => TimestampFormat::Epoch(EpochUnit::Nanos),
            "epoch" | "unix" => return Err(FormatError::NoEpochUnit { text: text.to_owned() }),
            _ if text == "%s" => TimestampFormat::Epoch(EpochUnit::Seconds),
            _ => TimestampFormat::Pattern(Pattern::parse(text)?),
        })
    }

    /// Returns true if its texts can have more fraction digits than TIMESTAMP keeps.
    #[must_use]
    pub fn has_nanos(&self) -> bool {
        match self {
            TimestampFormat::Epoch(unit) => *unit == EpochUnit::Nanos,
            TimestampFormat::Pattern(pattern) => pattern.has_nanos(),
            TimestampFormat::Detect
            | TimestampFormat::Iso
            | TimestampFormat::DayFirst
            | TimestampFormat::MonthFirst => false,
        }
    }

    /// Returns true if it defines which of two numbers is the day, and which the month.
    pub(crate) fn has_order(&self) -> bool {
        matches!(self, TimestampFormat::DayFirst | TimestampFormat::MonthFirst)
    }

    /// Returns true if its times may have an offset or none.
    pub(crate) fn may_have_offset(&self) -> bool {
        matches!(self, TimestampFormat::Detect | TimestampFormat::Iso) || self.has_order()
    }

    /// Returns true if its texts always have a time of day.
    #[must_use]
    pub fn has_time(&self) -> bool {
        match self {
            TimestampFormat::Epoch(_) => true,
            TimestampFormat::Pattern(pattern) => pattern.has_time(),
            TimestampFormat::Detect
            | TimestampFormat::Iso
            | TimestampFormat::DayFirst
            | TimestampFormat::MonthFirst => false,
        }
    }
}

impl fmt::Display for TimestampFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimestampFormat::Detect => f.write_str("auto"),
            TimestampFormat::Iso => f.write_str("iso"),
            TimestampFormat::Epoch(EpochUnit::Seconds) => f.write_str("epoch_s"),
            TimestampFormat::Epoch(EpochUnit::Millis) => f.write_str("epoch_ms"),
            TimestampFormat::Epoch(EpochUnit::Micros) => f.write_str("epoch_us"),
            TimestampFormat::Epoch(EpochUnit::Nanos) => f.write_str("epoch_ns"),
            TimestampFormat::DayFirst => f.write_str("dd/MM/yyyy"),
            TimestampFormat::MonthFirst => f.write_str("MM/dd/yyyy"),
            TimestampFormat::Pattern(pattern) => pattern.fmt(f),
        }
    }
}

/// A parser of the timestamps of one column: one for each worker, since it remembers the last date.
#[derive(Debug, Clone)]
pub struct TimestampParser {
    format: TimestampFormat,
    unit: TimeUnit,
    quick: Quick,
    prefix: Prefix,
}

/// The use of the fast path, for texts that begin with a date and a time of 19 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quick {
    Always,
    /// Used if the pattern accepts the separator and the fraction.
    IfAllowed,
    Never,
}

impl TimestampParser {
    /// Creates a parser.
    #[must_use]
    pub fn new(format: &TimestampFormat, unit: TimeUnit) -> TimestampParser {
        let quick = match format {
            TimestampFormat::Pattern(pattern) if pattern.is_like_iso() => Quick::IfAllowed,
            TimestampFormat::Pattern(_) | TimestampFormat::Epoch(_) => Quick::Never,
            _ => Quick::Always,
        };
        let prefix = Prefix::new(date_order(format), unit.per_day());
        TimestampParser { format: format.clone(), unit, quick, prefix }
    }

    /// The unit of its instants.
    pub(crate) fn unit(&self) -> TimeUnit {
        self.unit
    }

    /// Parses an instant, which may be any `i64`.
    ///
    /// # Errors
    /// `NotATimestamp`, `TimeOutOfRange`.
    #[inline]
    pub fn parse(&mut self, text: &[u8]) -> Result<i64, CellError> {
        if self.quick == Quick::Always
            && let Some(instant) = self.prefix.instant_of_same_day(text, self.unit)
        {
            return Ok(instant);
        }
        self.parse_other(text)
    }

    #[inline(never)]
    fn parse_other(&mut self, text: &[u8]) -> Result<i64, CellError> {
        if self.quick != Quick::Never
            && let Some(instant) = self.prefix.instant(text, self.unit)
            && (self.quick == Quick::Always || self.pattern_allows(text))
        {
            return Ok(instant);
        }
        self.parse_slowly(text)
    }

    fn pattern_allows(&self, text: &[u8]) -> bool {
        matches!(&self.format, TimestampFormat::Pattern(pattern) if pattern.allows_iso(text))
    }

    fn parse_slowly(&self, text: &[u8]) -> Result<i64, CellError> {
        if let TimestampFormat::Epoch(epoch) = self.format {
            return parse_epoch(text, epoch, self.unit);
        }
        parse_moment(text, &self.format)?.instant(self.unit)
    }
}

/// The order of the date for the fast path.
fn date_order(format: &TimestampFormat) -> DateOrder {
    match format {
        TimestampFormat::DayFirst => DateOrder::DayMonthYear,
        TimestampFormat::MonthFirst => DateOrder::MonthDayYear,
        TimestampFormat::Detect
        | TimestampFormat::Iso
        | TimestampFormat::Epoch(_)
        | TimestampFormat::Pattern(_) => DateOrder::YearMonthDay,
    }
}

/// A parser of the days of one column: one for each worker, since it remembers the last date.
#[derive(Debug, Clone)]
pub struct DateParser {
    format: TimestampFormat,
    is_quick: bool,
    prefix: Prefix,
}

impl DateParser {
    /// Creates a parser.
    #[must_use]
    pub fn new(format: &TimestampFormat) -> DateParser {
        let is_quick = !matches!(format, TimestampFormat::Pattern(_) | TimestampFormat::Epoch(_));
        let prefix = Prefix::new(date_order(format), 1);
        DateParser { format: format.clone(), is_quick, prefix }
    }

    /// Parses the days since 1970-01-01. A time may follow if it is zero; an offset does not move
    /// the day.
    ///
    /// # Errors
    /// `NotADate`, `TimeOutOfRange`, `TimeOfDayInDate`.
    #[inline]
    pub fn parse(&mut self, text: &[u8]) -> Result<i32, CellError> {
        if let Ok(date) = <&[u8; 10]>::try_from(text)
            && self.is_quick
            && let Some(days) = self.prefix.date(date)
        {
            return i32::try_from(days).map_err(|_| CellError::TimeOutOfRange);
        }
        self.parse_slowly(text)
    }

    fn parse_slowly(&self, text: &[u8]) -> Result<i32, CellError> {
        let (days, has_time) = match self.format {
            TimestampFormat::Epoch(epoch) => {
                let count = parse_count(text).map_err(not_a_date)?;
                let per_day = epoch.per_second() * 86_400;
                (count.div_euclid(per_day), count.rem_euclid(per_day) != 0)
            }
            _ => parse_moment(text, &self.format)
                .map(|moment| (moment.days, moment.nanos_of_day != 0))
                .map_err(not_a_date)?,
        };
        if has_time {
            return Err(CellError::TimeOfDayInDate);
        }
        i32::try_from(days).map_err(|_| CellError::TimeOutOfRange)
    }
}

fn not_a_date(error: CellError) -> CellError {
    match error {
        CellError::NotATimestamp => CellError::NotADate,
        other => other,
    }
}

/// Parses a DATE, with a `DateParser` for one cell.
///
/// # Errors
/// As `DateParser::parse`.
pub fn parse_date(text: &[u8], format: &TimestampFormat) -> Result<i32, CellError> {
    DateParser::new(format).parse(text)
}

/// The general path, for every format but `Epoch`.
fn parse_moment(text: &[u8], format: &TimestampFormat) -> Result<Moment, CellError> {
    let parse = |text: &[u8]| match format {
        TimestampFormat::Iso => forms::parse_iso(text),
        TimestampFormat::DayFirst => forms::parse_slashes(text, DateOrder::DayMonthYear),
        TimestampFormat::MonthFirst => forms::parse_slashes(text, DateOrder::MonthDayYear),
        TimestampFormat::Detect => match text {
            [_, b'/', ..] | [_, _, b'/', ..] => forms::parse_slashes(text, DateOrder::DayMonthYear),
            _ => forms::parse_iso(text),
        },
        TimestampFormat::Pattern(pattern) => pattern.matches(text),
        TimestampFormat::Epoch(_) => Err(CellError::NotATimestamp),
    };
    // Blanks are trimmed (ingest_parse-1), but a pattern may have its own spaces.
    match (parse(text), without_margin(text)) {
        (Err(_), Some(inner)) => parse(inner),
        (result, _) => result,
    }
}

fn parse_epoch(text: &[u8], epoch: EpochUnit, unit: TimeUnit) -> Result<i64, CellError> {
    let count = parse_count(text)?;
    let (from, to) = (epoch.per_second(), unit.per_second());
    if to < from {
        return Ok(count.div_euclid(from / to)); // timestamp-2
    }
    count.checked_mul(to / from).ok_or(CellError::TimeOutOfRange)
}

fn parse_count(text: &[u8]) -> Result<i64, CellError> {
    parse_i64(text).map_err(|error| match error {
        CellError::OutOfRange => CellError::TimeOutOfRange,
        _ => CellError::NotATimestamp,
    })
}

#[cfg(test)]
mod tests;
