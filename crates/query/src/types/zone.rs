//! Time zones: conversion of instants to local times and back.
//!
//! - `to_utc` returns the first instant of a local time, or, if the clocks skip it, the first
//!   instant behind the gap.
//! - `to_instant` returns the last such instant, or, if the clocks skip the time, the one that it
//!   would have without the change of the clocks.

use std::str::FromStr;

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{OffsetComponents, TZ_VARIANTS, Tz};

/// The instant whose standard offset is used at any time: buckets of hours need one offset.
const STANDARD_AT: i64 = 1_735_689_600;
/// The maximal distance of a local time from UTC.
const OFFSET_SECONDS_MAX: i64 = 86_400;

/// A time zone by name, or a fixed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) enum Zone {
    /// A fixed offset of so many seconds east of UTC.
    Fixed(i64),
    /// A zone with a history.
    Named(NamedZone),
}

/// A zone of the time zone database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NamedZone(Tz);

impl PartialOrd for NamedZone {
    fn partial_cmp(&self, other: &NamedZone) -> Option<std::cmp::Ordering> {
        self.0.name().partial_cmp(other.0.name())
    }
}

impl Zone {
    /// Parses `Europe/Berlin` in any case, `UTC`, `Z`, or an offset like `+01:30`.
    pub(crate) fn parse(text: &str) -> Option<Zone> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("UTC") || text.eq_ignore_ascii_case("Z") {
            return Some(Zone::Fixed(0));
        }
        if text.starts_with(['+', '-'])
            && let Some(seconds) = parse_offset(text)
        {
            return Some(Zone::Fixed(seconds));
        }
        let by_name =
            || TZ_VARIANTS.into_iter().find(|zone| zone.name().eq_ignore_ascii_case(text));
        let zone = Tz::from_str(text).ok().or_else(by_name)?;
        Some(Zone::Named(NamedZone(zone)))
    }

    /// Returns the seconds by which local time is ahead of UTC at an instant, in seconds since
    /// 1970.
    pub(crate) fn offset_at(self, seconds: i64) -> i64 {
        match self {
            Zone::Fixed(offset) => offset,
            Zone::Named(NamedZone(zone)) => match DateTime::from_timestamp(seconds, 0) {
                Some(utc) => {
                    let offset = zone.offset_from_utc_datetime(&utc.naive_utc());
                    i64::from(offset.fix().local_minus_utc())
                }
                // The instant is beyond the calendar of the library.
                None => self.standard_offset(),
            },
        }
    }

    /// Returns the same without daylight saving.
    pub(crate) fn standard_offset(self) -> i64 {
        match self {
            Zone::Fixed(offset) => offset,
            Zone::Named(NamedZone(zone)) => {
                let utc = DateTime::from_timestamp(STANDARD_AT, 0).expect("a time of our days");
                zone.offset_from_utc_datetime(&utc.naive_utc()).base_utc_offset().num_seconds()
            }
        }
    }

    /// Returns the instant of a local time as PostgreSQL does.
    pub(crate) fn to_instant(self, local: i64) -> i64 {
        let after = self.offset_at(local + OFFSET_SECONDS_MAX);
        let late = local - after;
        if self.offset_at(late) == after {
            return late;
        }
        local - self.offset_at(local - OFFSET_SECONDS_MAX)
    }

    /// Returns the instant of a local time, given in seconds since local 1970.
    pub(crate) fn to_utc(self, local: i64) -> i64 {
        let before = self.offset_at(local - OFFSET_SECONDS_MAX);
        let early = local - before;
        if self.offset_at(early) == before {
            return early;
        }
        let after = self.offset_at(local + OFFSET_SECONDS_MAX);
        let late = local - after;
        if self.offset_at(late) == after {
            return late;
        }
        // The time is in a gap: the clocks change between the two.
        let (mut low, mut high) = (early.min(late), early.max(late));
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.offset_at(middle) == before { low = middle } else { high = middle }
        }
        high
    }
}

/// Parses `+01:30`, `-0130`, `1` as seconds, to the east of UTC unless it has a minus.
pub(crate) fn parse_offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => (1, text),
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some(parts) => parts,
        None if rest.len() == 4 => rest.split_at_checked(2)?,
        None => (rest, "0"),
    };
    let number = |digits: &str| {
        let is_number =
            (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse::<i64>().ok().filter(|_| is_number)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

#[cfg(test)]
mod tests {
    use tidegate_model::time::IsoTimestamp;
    use tidegate_model::{TimeUnit, Timestamp};

    use super::*;
    use crate::types::time_text::{TimeScale, parse_time};

    fn seconds(text: &str) -> i64 {
        parse_time(text, TimeScale::Unit(TimeUnit::Micros)).unwrap() / 1_000_000
    }

    #[track_caller]
    fn check(zone: &str, local: &str, expected: &str) {
        let utc = Zone::parse(zone).unwrap().to_utc(seconds(local));
        let shown = IsoTimestamp(Timestamp(utc * 1_000_000), TimeUnit::Micros).to_string();
        assert_eq!(shown.trim_end_matches(":00.000000Z"), expected, "{local} in {zone}");
    }

    #[test]
    fn local_times_have_their_first_instant() {
        check("Europe/Berlin", "2025-01-15T12:00", "2025-01-15T11:00");
        check("europe/berlin", "2025-07-15T12:00", "2025-07-15T10:00");
        // A skipped time: 02:00 to 03:00.
        check("Europe/Berlin", "2025-03-30T02:30", "2025-03-30T01:00");
        // A time that occurs twice: the first one.
        check("Europe/Berlin", "2025-10-26T02:30", "2025-10-26T00:30");
        check("Europe/Berlin", "2025-10-26T03:00", "2025-10-26T02:00");
        // Midnight is skipped here.
        check("America/Santiago", "2024-09-08T00:00", "2024-09-08T04:00");
        check("+05:45", "2025-01-01T00:00", "2024-12-31T18:15");
        check("UTC", "1969-12-31T00:00", "1969-12-31T00:00");
    }

    #[test]
    fn zones_are_found_by_name_and_offset() {
        assert_eq!(Zone::parse("Nowhere/Land"), None);
        assert_eq!(Zone::parse("-0130"), Some(Zone::Fixed(-5_400)));
        assert_eq!(Zone::parse("+1"), Some(Zone::Fixed(3_600)));
        assert_eq!(Zone::parse("+25:00"), None);
        assert_eq!(Zone::parse("Europe/London").unwrap().standard_offset(), 0);
        assert_eq!(Zone::parse("Asia/Kolkata").unwrap().standard_offset(), 19_800);
    }
}
