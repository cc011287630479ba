//! Formats of configuration values: the parser of a text, and the text that it reads back.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tidegate_ingest::line::Precision;
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Ttl, limits};
use tidegate_storage::Durability;

use super::OnBadLine;
use crate::log::LogLevels;

/// A value, or what the key accepts.
pub(super) type Parsed<T> = Result<T, &'static str>;

/// A format of values.
pub(super) struct Format<T> {
    pub(super) parse: fn(&str) -> Parsed<T>,
    /// Returns the text that `parse` reads as the value.
    pub(super) show: fn(&T) -> String,
}

pub(super) const LISTENER: Format<Option<SocketAddr>> = Format {
    parse: listener,
    show: |address| address.map_or("none".to_owned(), |address| address.to_string()),
};
pub(super) const SIZE: Format<ByteCount> = Format { parse: size, show: |size| size_text(size.0) };
pub(super) const BYTES: Format<usize> =
    Format { parse: bytes, show: |bytes| size_text(*bytes as u64) };
/// A size, or 0.
pub(super) const BYTES_OR_0: Format<u64> = Format {
    parse: |text| if text == "0" { Ok(0) } else { size(text).map(|size| size.0) },
    show: |bytes| size_text(*bytes),
};
pub(super) const SPAN: Format<Duration> = Format { parse: span, show: span_text };
/// A time that is not 0.
pub(super) const INTERVAL: Format<Duration> = Format {
    parse: |text| {
        let interval = span(text)?;
        (!interval.is_zero()).then_some(interval).ok_or("expected a time such as 100ms, and not 0")
    },
    show: span_text,
};
pub(super) const SWITCH: Format<bool> = Format { parse: switch, show: bool::to_string };
pub(super) const NAME: Format<String> = Format {
    parse: |text| match text.trim() {
        "" => Err("expected a name"),
        _ => Ok(text.to_owned()),
    },
    show: String::clone,
};
pub(super) const FILE: Format<Option<PathBuf>> =
    Format { parse: |text| Ok((text != "none").then(|| PathBuf::from(text))), show: path_text };
/// A directory, which is relative to that of the database unless it is absolute.
pub(super) const DIRECTORY: Format<Option<PathBuf>> = Format {
    parse: |text| Ok((!matches!(text, "" | "none")).then(|| PathBuf::from(text))),
    show: path_text,
};
pub(super) const LOG_LEVELS: Format<LogLevels> = Format {
    parse: |text| {
        let levels = LogLevels::parse(text);
        levels.ok_or("expected info, warn or off, and for targets like warn,audit=info")
    },
    show: LogLevels::to_string,
};
pub(super) const DURABILITY: Format<Durability> = Format {
    parse: |text| one_of(DURABILITIES, text).ok_or("expected sync or async"),
    show: |value| name_of(DURABILITIES, value),
};
pub(super) const ON_BAD_LINE: Format<OnBadLine> = Format {
    parse: |text| one_of(EFFECTS, text).ok_or("expected continue or disconnect"),
    show: |value| name_of(EFFECTS, value),
};
pub(super) const PRECISION: Format<Precision> = Format {
    parse: |text| Precision::parse(text).ok_or("expected one of n, ns, u, us, ms, s, m, h"),
    show: |value| name_of(PRECISIONS, value),
};
pub(super) const PARTITION: Format<PartitionUnit> = Format {
    parse: |text| PartitionUnit::parse(text).ok_or("expected none, hour, day, week, month or year"),
    show: |unit| unit.sql().to_owned(),
};
pub(super) const INTEGER_TYPE: Format<ColumnType> =
    Format { parse: integer_type, show: |ty| ty.sql() };
/// A retention as tables have it; 0 for ever.
pub(super) const RETENTION: Format<Option<Ttl>> = Format { parse: retention, show: ttl_text };
/// A rate per second: `100`, or `100/s`.
pub(super) const RATE: Format<u32> =
    Format { parse: |text| parse_number(text.strip_suffix("/s").unwrap_or(text)), ..number() };
/// The most bytes of a body, whose rows make one record of the log.
pub(super) const BODY: Format<usize> = Format {
    parse: |text| {
        let why = "at most 256 MiB: all rows of a request are one record of the log";
        bytes_within(text, 0..=limits::WAL_RECORD_BYTES, why)
    },
    ..BYTES
};
/// The most bytes of a message of PostgreSQL's protocol: its length is a signed number of four
/// bytes.
pub(super) const MESSAGE: Format<usize> = Format {
    parse: |text| bytes_within(text, 1 << 10..=1 << 30, "expected a size from 1KiB to 1GiB"),
    ..BYTES
};
pub(super) const REJECTED_TEXT: Format<usize> =
    Format { parse: |text| bytes_within(text, 0..=1 << 20, "at most 1 MiB"), ..BYTES };
pub(super) const IMPORT_MEMORY: Format<ByteCount> = Format {
    parse: |text| {
        let size = size(text)?;
        (32 << 20 <= size.0).then_some(size).ok_or("an import needs 32 MiB at least")
    },
    ..SIZE
};
pub(super) const COLUMNS: Format<usize> = Format {
    parse: |text| within(text, 0..=limits::TABLE_COLUMNS, "a table has at most 4096 columns"),
    ..number()
};
pub(super) const COMMIT_ROWS: Format<usize> = Format {
    parse: |text| within(text, 1..=4_194_304, "expected a number from 1 to 4194304"),
    ..number()
};
pub(super) const JOBS: Format<NonZeroUsize> = Format {
    parse: |text| {
        let count = within(text, 1..=64, "expected a number from 1 to 64")?;
        Ok(NonZeroUsize::new(count).expect("it is at least 1"))
    },
    ..number()
};
pub(super) const WAITING_JOBS: Format<usize> =
    Format { parse: |text| within(text, 0..=10_000, "expected a number up to 10000"), ..number() };
pub(super) const REJECTS: Format<usize> = Format {
    parse: |text| within(text, 0..=1_000_000, "expected a number up to 1000000"),
    ..number()
};
pub(super) const THREADS: Format<Option<NonZeroUsize>> = Format {
    parse: |text| within(text, 0..=1_024, "at most 1024; 0 for all").map(NonZeroUsize::new),
    show: |threads| threads.map_or(0, NonZeroUsize::get).to_string(),
};

const DURABILITIES: &[(&str, Durability)] =
    &[("sync", Durability::Sync), ("async", Durability::Async)];
const EFFECTS: &[(&str, OnBadLine)] =
    &[("continue", OnBadLine::Continue), ("disconnect", OnBadLine::Disconnect)];
const PRECISIONS: &[(&str, Precision)] = &[
    ("ns", Precision::Nanos),
    ("us", Precision::Micros),
    ("ms", Precision::Millis),
    ("s", Precision::Seconds),
    ("m", Precision::Minutes),
    ("h", Precision::Hours),
];

/// Whole numbers.
pub(super) const fn number<T: FromStr + Display>() -> Format<T> {
    Format { parse: parse_number, show: T::to_string }
}

/// Returns the value of this name.
pub(super) fn one_of<T: Copy>(names: &[(&str, T)], text: &str) -> Option<T> {
    names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
}

/// Returns the name of a value.
pub(super) fn name_of<T: Copy + PartialEq>(names: &[(&str, T)], value: &T) -> String {
    let name = names.iter().find(|(_, named)| named == value);
    name.expect("every value has a name").0.to_owned()
}

/// Returns the elements of a list, perhaps in brackets and with quotes.
pub(super) fn elements(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.trim().trim_start_matches('[').trim_end_matches(']').split(',');
    parts.map(|part| part.trim().trim_matches('"'))
}

pub(super) fn address(ip: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from(ip), port)
}

fn listener(text: &str) -> Parsed<Option<SocketAddr>> {
    if matches!(text, "none" | "off" | "") {
        return Ok(None);
    }
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let found = local.map(|port| address([127, 0, 0, 1], port)).or_else(|| text.parse().ok());
    found.map(Some).ok_or("expected an address and a port, like 127.0.0.1:9000, or none")
}

fn parse_number<T: FromStr>(text: &str) -> Parsed<T> {
    text.parse().map_err(|_| "expected a whole number")
}

fn within(text: &str, range: RangeInclusive<usize>, why: &'static str) -> Parsed<usize> {
    let number = parse_number(text)?;
    range.contains(&number).then_some(number).ok_or(why)
}

fn size(text: &str) -> Parsed<ByteCount> {
    let size = ByteCount::parse(text).filter(|size| size.0 > 0);
    size.ok_or("expected a size such as 512MiB or 2GiB")
}

fn bytes(text: &str) -> Parsed<usize> {
    usize::try_from(size(text)?.0).map_err(|_| "it is more than this machine can address")
}

fn bytes_within(text: &str, range: RangeInclusive<usize>, why: &'static str) -> Parsed<usize> {
    let bytes = bytes(text)?;
    range.contains(&bytes).then_some(bytes).ok_or(why)
}

/// The units of times, the largest first, in milliseconds.
const SPAN_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses a number with a unit; a bare 0 is no time at all.
fn span(text: &str) -> Parsed<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms = if text == "0" { Some(0) } else { one_of(&SPAN_UNITS, unit) };
    let number = number.parse::<u64>().ok();
    let millis = number.zip(unit_ms).and_then(|(number, unit_ms)| number.checked_mul(unit_ms));
    millis.map(Duration::from_millis).ok_or("expected a time such as 500ms, 5s, 2m, 1h or 3d")
}

/// Formats a time in the largest unit of which it is a whole number.
fn span_text(time: &Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    in_units(millis, &SPAN_UNITS).unwrap_or("0".to_owned())
}

/// Formats a size in the largest unit of which it is a whole number.
pub(super) fn size_text(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    in_units(bytes, &units).unwrap_or(bytes.to_string())
}

fn in_units(value: u64, units: &[(&str, u64)]) -> Option<String> {
    let unit = units.iter().find(|(_, worth)| value != 0 && value.is_multiple_of(*worth));
    unit.map(|(name, worth)| format!("{}{name}", value / worth))
}

fn switch(text: &str) -> Parsed<bool> {
    match text {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err("expected true or false"),
    }
}

fn integer_type(text: &str) -> Parsed<ColumnType> {
    match text.to_ascii_uppercase().as_str() {
        "BIGINT" | "LONG" => Ok(ColumnType::Int64),
        "INT" | "INTEGER" => Ok(ColumnType::Int32),
        "SMALLINT" | "SHORT" => Ok(ColumnType::Int16),
        "TINYINT" | "BYTE" => Ok(ColumnType::Int8),
        _ => Err("expected BIGINT, INT, SMALLINT or TINYINT"),
    }
}

fn retention(text: &str) -> Parsed<Option<Ttl>> {
    const HOUR: u64 = 3_600;
    let time = span(text)?;
    if time.is_zero() {
        return Ok(None);
    }
    let seconds = time.as_secs();
    let (unit, unit_seconds) = match seconds.is_multiple_of(24 * HOUR) {
        true => (PartitionUnit::Day, 24 * HOUR),
        false => (PartitionUnit::Hour, HOUR),
    };
    let is_whole = seconds.is_multiple_of(unit_seconds) && time.subsec_nanos() == 0;
    let count = u32::try_from(seconds / unit_seconds).ok().filter(|_| is_whole);
    let ttl = count.map(|count| Ttl { count, unit });
    ttl.map(Some).ok_or("expected a time in whole hours or days, such as 12h or 3d, or 0 for ever")
}

fn ttl_text(ttl: &Option<Ttl>) -> String {
    match ttl {
        Some(Ttl { count, unit: PartitionUnit::Day }) => format!("{count}d"),
        Some(Ttl { count, .. }) => format!("{count}h"),
        None => "0".to_owned(),
    }
}

fn path_text(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let seconds = |count| Ok(Duration::from_secs(count));
        for (text, expected) in [
            ("0", seconds(0)),
            ("90s", seconds(90)),
            ("2m", seconds(120)),
            ("3d", seconds(259_200)),
        ] {
            assert_eq!(span(text), expected, "{text}");
        }
        for text in ["5", "", "s", "-1s", "99999999999999999999s", "18446744073709551615d"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
