//! Instants, their units, the civil calendar, and the text form of both.
//!
//! - model_time-1. A designated timestamp lies in `TIMESTAMP_MIN..=TIMESTAMP_MAX`, so that the
//!   interval of any partition around it can be computed without overflow. In nanoseconds these are
//!   the years 1678 to 2261: all that lie wholly among the instants of 64 bits.
//!
//! The calendar is the proleptic Gregorian one in UTC, without leap seconds. Not here: parsing of
//! the many forms found in files (`ingest::timestamp`), time zones (`query`).

use std::fmt;

/// Nanoseconds of a day.
const DAY_NANOS: i64 = 86_400_000_000_000;
/// The least designated timestamp (model_time-1): 1678-01-01 in nanoseconds, which is 106,650 days
/// before the year 1970. In microseconds, 279 years are left below it.
pub const TIMESTAMP_MIN: i64 = -106_650 * DAY_NANOS;
/// The greatest designated timestamp (model_time-1): the last nanosecond before 2262-01-01, 106,651
/// days after 1970. In microseconds, 276 years are left above it.
pub const TIMESTAMP_MAX: i64 = 106_651 * DAY_NANOS - 1;

/// The unit of a timestamp, counted since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeUnit {
    /// Millionths of a second: TIMESTAMP.
    Micros,
    /// Billionths of a second: TIMESTAMP_NS.
    Nanos,
}

impl TimeUnit {
    /// Number of these units in a second.
    #[must_use]
    pub fn per_second(self) -> i64 {
        match self {
            TimeUnit::Micros => 1_000_000,
            TimeUnit::Nanos => 1_000_000_000,
        }
    }

    /// Number of these units in a day.
    #[must_use]
    pub fn per_day(self) -> i64 {
        self.per_second() * 86_400
    }
}

/// An instant, in the unit of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// Instants `start <= t < end`, in `unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// The unit of `start` and `end`.
    pub unit: TimeUnit,
    /// The first instant.
    pub start: i64,
    /// One past the last instant.
    pub end: i64,
}

impl TimeRange {
    /// Every designated timestamp (model_time-1).
    #[must_use]
    pub fn all(unit: TimeUnit) -> TimeRange {
        TimeRange { unit, start: i64::MIN, end: i64::MAX }
    }

    /// Returns true if the range contains no instant.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Returns true if `t` is in the range.
    #[must_use]
    pub fn contains(self, t: Timestamp) -> bool {
        self.start <= t.0 && t.0 < self.end
    }

    /// Returns true if some instant of the closed interval `min..=max` is in the range.
    #[must_use]
    pub fn meets(self, min: Timestamp, max: Timestamp) -> bool {
        self.start <= max.0 && min.0 < self.end
    }

    /// The instants in both ranges; the units must agree.
    #[must_use]
    pub fn intersect(self, other: TimeRange) -> TimeRange {
        assert_eq!(self.unit, other.unit, "time ranges of one column");
        let start = self.start.max(other.start);
        TimeRange { unit: self.unit, start, end: self.end.min(other.end).max(start) }
    }
}

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CivilDate {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

impl CivilDate {
    /// The date this many days after 1970-01-01. Source of the method: H. Hinnant,
    /// "chrono-Compatible Low-Level Date Algorithms".
    #[must_use]
    pub fn from_days(days: i64) -> CivilDate {
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = u32::try_from(day_of_year - (153 * month_from_march + 2) / 5 + 1);
        let month = month_from_march + if month_from_march < 10 { 3 } else { -9 };
        CivilDate {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: u32::try_from(month).expect("1 to 12"),
            day: day.expect("1 to 31"),
        }
    }

    /// Days since 1970-01-01. The date must be one of the calendar (`is_valid`).
    #[must_use]
    pub fn to_days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_from_march = i64::from((self.month + 9) % 12);
        let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    /// Returns true if the calendar has this day.
    #[must_use]
    pub fn is_valid(self) -> bool {
        (1..=12).contains(&self.month)
            && 1 <= self.day
            && self.day <= days_in_month(self.year, self.month)
    }
}

/// Number of days of a month; `month` is 1 to 12.
#[must_use]
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns true if the year has a 29th of February.
#[must_use]
pub fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// ISO 8601 with all digits of the unit: `2013-07-15T10:00:00.000000Z`.
pub struct IsoTimestamp(pub Timestamp, pub TimeUnit);

impl fmt::Display for IsoTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IsoTimestamp(t, unit) = self;
        let date = CivilDate::from_days(t.0.div_euclid(unit.per_day()));
        let of_day = t.0.rem_euclid(unit.per_day());
        let (second, fraction) = (of_day / unit.per_second(), of_day % unit.per_second());
        let digits = if *unit == TimeUnit::Micros { 6 } else { 9 };
        write!(f, "{:04}-{:02}-{:02}T", date.year, date.month, date.day)?;
        write!(f, "{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)?;
        write!(f, ".{fraction:0digits$}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_four_centuries_survives_the_round_trip() {
        let first = CivilDate { year: 1800, month: 1, day: 1 }.to_days();
        let mut previous = CivilDate::from_days(first - 1);
        for days in first..first + 2 * 146_097 {
            let date = CivilDate::from_days(days);
            assert_eq!(date.to_days(), days);
            assert!(previous < date && date.is_valid());
            previous = date;
        }
    }

    #[test]
    fn instants_before_1970_are_written_with_positive_parts() {
        let shown = |t, unit| IsoTimestamp(Timestamp(t), unit).to_string();
        assert_eq!(shown(-1, TimeUnit::Micros), "1969-12-31T23:59:59.999999Z");
        assert_eq!(shown(0, TimeUnit::Nanos), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(shown(951_782_400_000_000, TimeUnit::Micros), "2000-02-29T00:00:00.000000Z");
    }
}
