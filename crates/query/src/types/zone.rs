//! Time zones: conversion of instants to local times and back.
//!
//! - `to_utc` returns the first instant of a local time, or, if the clocks skip it, the first
//!   instant behind the gap.
//! - `to_instant` returns the last such instant, or, if the clocks skip the time, the one that it
//!   would have without the change of the clocks.
//! - zone-1. The rules of a zone hold for ever: the tables of the library end with the year 2099.

use std::str::FromStr;

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{OffsetComponents, TZ_VARIANTS, Tz};
use tidegate_model::time::CivilDate;

/// The instant whose standard offset is used at any time: buckets of hours need one offset.
const STANDARD_AT: i64 = 1_735_689_600;
/// The maximal distance of a local time from UTC.
const OFFSET_SECONDS_MAX: i64 = 86_400;
const DAY_SECONDS: i64 = 86_400;
/// The first second of 2099, from which on the rules of zones hold.
const RULES_FROM: i64 = 4_070_908_800;
/// Years without a leap day, of which each begins with another day of the week. They are late ones:
/// some zones have tables for each year until 2087.
const RULE_YEARS: [i64; 7] = [2_089, 2_090, 2_091, 2_093, 2_094, 2_097, 2_098];

/// A time zone by name, or a fixed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Zone {
    /// A fixed offset of so many seconds east of UTC.
    Fixed(i64),
    /// A zone with a history.
    Named(NamedZone),
}

/// A zone of the time zone database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NamedZone(Tz);

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
            Zone::Named(NamedZone(zone)) => match DateTime::from_timestamp(in_tables(seconds), 0) {
                Some(utc) => {
                    let offset = zone.offset_from_utc_datetime(&utc.naive_utc());
                    i64::from(offset.fix().local_minus_utc())
                }
                // The instant is before the calendar of the library.
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

/// Returns an instant of the tables with the same offset from UTC (zone-1): that of the same day in
/// a year with the same days of the week. A rule names such a day of a month, and no month with a
/// rule is split: in a leap year, its part from March on is another year's.
fn in_tables(seconds: i64) -> i64 {
    if seconds < RULES_FROM {
        return seconds;
    }
    let CivilDate { year, month, .. } = CivilDate::from_days(seconds.div_euclid(DAY_SECONDS));
    let month = if month < 3 { 1 } else { 3 };
    let first_day = |year: i64| CivilDate { year, month, day: 1 }.to_days();
    let start = first_day(year);
    let is_like = |other: &i64| (first_day(*other) - start).rem_euclid(7) == 0;
    let like = RULE_YEARS.into_iter().find(is_like).expect("zone-1: they begin with all days");
    seconds + (first_day(like) - start) * DAY_SECONDS
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
    fn rules_hold_for_ever() {
        assert_eq!(CivilDate { year: 2_099, month: 1, day: 1 }.to_days() * DAY_SECONDS, RULES_FROM);
        check("Europe/Berlin", "2135-05-08T08:00", "2135-05-08T06:00");
        check("Europe/Berlin", "2135-12-08T08:00", "2135-12-08T07:00");
        check("Europe/Berlin", "2100-03-28T03:00", "2100-03-28T01:00");
        check("Africa/Casablanca", "2200-05-08T08:00", "2200-05-08T07:00");
        check("Asia/Kolkata", "9999-12-31T05:30", "9999-12-31T00:00");
        // The calendar repeats after 400 years.
        const CYCLE: i64 = 146_097 * DAY_SECONDS;
        let (from, to) = (seconds("2070-01-01T00:00"), seconds("2098-01-01T00:00"));
        for name in ["Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe"]
        {
            let zone = Zone::parse(name).unwrap();
            for at in (from..to).step_by(3 * 3_600) {
                let (now, later) = (zone.offset_at(at), zone.offset_at(at + CYCLE));
                assert_eq!(now, later, "zone-1: {name}, {at}");
            }
        }
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
