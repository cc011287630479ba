//! Options of the simulation, checked as a whole, and the parsing of times and durations.
//!
//! - O1. `Options` that passed `check` can be simulated: `start <= end`, no divisor is zero, and
//!   every host has a number of 32 bits.

use std::fmt;
use std::num::NonZeroU64;

use crate::error::{Error, Result};

/// A use case of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseCase {
    /// Hosts with ten metrics of their processors.
    CpuOnly,
    /// Hosts with one metric of their processors.
    CpuSingle,
    /// Hosts with nine measurements.
    Devops,
    /// Hosts with many or few metrics that come and go.
    DevopsGeneric,
    /// Trucks whose rows get lost, late or damaged.
    Iot,
}

/// Format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Line protocol: `influx`, `questdb`, `victoriametrics`, `tidegate`.
    Line,
    /// Two lines a row after a header: `timescaledb`, `clickhouse`.
    TwoLines,
    /// The same without the header: `timestream`.
    TwoLinesBare,
    /// Tabs and JSON after a header: `cratedb`.
    Crate,
}

/// A point in time, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub i64);

/// Options of the simulation: the flags of TSBS.
#[derive(Clone, Debug)]
pub struct Options {
    /// The use case.
    pub use_case: UseCase,
    /// Seed that determines every number.
    pub seed: i64,
    /// Number of hosts or trucks.
    pub scale: u64,
    /// Number of hosts or trucks at first; 0 is all.
    pub initial_scale: u64,
    /// The time of the first rows.
    pub start: Nanos,
    /// The time that all rows are before.
    pub end: Nanos,
    /// The time between two rows of a host, in nanoseconds.
    pub interval: NonZeroU64,
    /// Most points that are simulated; 0 is any number.
    pub max_points: u64,
    /// Number of groups of rows, of which one group is written.
    pub groups: u64,
    /// The number of the group that is written.
    pub group: u64,
    /// The largest number of metrics of `devops-generic`.
    pub max_metrics: u64,
}

impl Options {
    /// Returns the options for an hour of ten hosts, as the checks of the original have it.
    #[must_use]
    pub fn small(use_case: UseCase) -> Options {
        Options {
            use_case,
            seed: 123,
            scale: 10,
            initial_scale: 0,
            start: Nanos(1_451_606_400_000_000_000),
            end: Nanos(1_451_610_000_000_000_000),
            interval: NonZeroU64::new(10_000_000_000).expect("not zero"),
            max_points: 0,
            groups: 1,
            group: 0,
            max_metrics: 100,
        }
    }

    /// Checks that the flags make sense together (O1).
    ///
    /// # Errors
    ///
    /// The first flag that does not.
    pub fn check(&self) -> Result<()> {
        if self.scale == 0 {
            return Err(Error::ScaleZero);
        }
        if u32::try_from(self.scale).is_err() {
            return Err(Error::ScaleTooLarge { scale: self.scale });
        }
        if self.end < self.start {
            return Err(Error::EndBeforeStart { start: self.start, end: self.end });
        }
        if self.groups <= self.group {
            return Err(Error::NoSuchGroup { group: self.group, groups: self.groups });
        }
        if self.max_metrics == 0 || u32::try_from(self.max_metrics).is_err() {
            return Err(Error::MetricCount { count: self.max_metrics });
        }
        Ok(())
    }

    /// Returns the number of instants with rows.
    pub(crate) fn epochs(&self) -> u64 {
        self.end.0.abs_diff(self.start.0) / self.interval
    }
}

impl UseCase {
    /// Returns the name of the use case on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            UseCase::CpuOnly => "cpu-only",
            UseCase::CpuSingle => "cpu-single",
            UseCase::Devops => "devops",
            UseCase::DevopsGeneric => "devops-generic",
            UseCase::Iot => "iot",
        }
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, nanos) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = date_of(days);
        let (seconds, fraction) = (nanos / SECOND, nanos % SECOND);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if fraction != 0 {
            write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Parses a time: RFC 3339, `now`, or `now` less a duration. `now` is rounded down to `step`, in
/// nanoseconds.
///
/// # Errors
///
/// [`Error::BadTime`] for any other text, and for times that are not from 1677 to 2262.
pub fn parse_time(text: &str, now: Nanos, step: NonZeroU64) -> Result<Nanos> {
    let bad = || Error::BadTime { text: text.to_owned() };
    if let Some(rest) = text.strip_prefix("now") {
        let step = i64::try_from(step.get()).map_err(|_| bad())?;
        let now = now.0 - now.0.rem_euclid(step);
        let earlier = match rest.strip_prefix('-') {
            Some(duration) => parse_duration(duration).map_err(|_| bad())?,
            None if rest.is_empty() => 0,
            None => return Err(bad()),
        };
        return now.checked_sub_unsigned(earlier).map(Nanos).ok_or_else(bad);
    }
    parse_rfc3339(text.as_bytes()).map(Nanos).ok_or_else(bad)
}

/// Parses `2016-01-01T00:00:00Z`, with up to nine decimals and any offset.
fn parse_rfc3339(text: &[u8]) -> Option<i64> {
    let (date_and_time, rest) = text.split_at_checked(19)?;
    let number = |from: usize, to: usize, max: i64| digits(&date_and_time[from..to], max);
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, byte)| date_and_time[at] != byte) {
        return None;
    }
    let (year, month) = (number(0, 4, 9_999)?, number(5, 7, 12)?);
    let day = number(8, 10, 31)?;
    let days = days_of(year, month, day).filter(|&days| date_of(days) == (year, month, day))?;
    let (hour, minute, second) = (number(11, 13, 23)?, number(14, 16, 59)?, number(17, 19, 59)?);
    let fraction = rest
        .strip_prefix(b".")
        .map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count() + 1);
    let (fraction, offset) = rest.split_at(fraction);
    let nanos = match fraction {
        [] => 0,
        [_, digits_only @ ..] if (1..=9).contains(&digits_only.len()) => {
            let scale = 10_i64.pow(u32::try_from(9 - digits_only.len()).ok()?);
            digits(digits_only, SECOND)? * scale
        }
        _ => return None,
    };
    let offset = match offset {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let seconds = digits(&[*h1, *h2], 23)? * 3_600 + digits(&[*m1, *m2], 59)? * 60;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    seconds.checked_mul(SECOND)?.checked_add(nanos)
}

fn digits(text: &[u8], max: i64) -> Option<i64> {
    let mut number = 0;
    for byte in text {
        number = number * 10 + i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    (number <= max).then_some(number)
}

/// Returns the days since 1970 of a date of the Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // The year begins in March, so that the leap day is its last.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Parses a duration as Go writes it, in nanoseconds: `10s`, `1m30s`, `1.5h`, `500ms`.
///
/// # Errors
///
/// [`Error::BadDuration`] for any other text, and for more than 292 years.
pub fn parse_duration(text: &str) -> Result<u64> {
    parse_go_duration(text).ok_or_else(|| Error::BadDuration { text: text.to_owned() })
}

fn parse_go_duration(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("\u{b5}s", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0_u64;
    while !rest.is_empty() || total == 0 && rest.len() == text.len() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|&end| 0 < end)?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = UNITS.iter().find(|(name, _)| *name == unit)?.1;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        // Digits below a nanosecond are cut off.
        let mut place = unit;
        for digit in fraction.bytes() {
            place /= 10;
            total = total.checked_add(place * u64::from(digit - b'0'))?;
        }
        rest = after;
    }
    i64::try_from(total).is_ok().then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: NonZeroU64 = NonZeroU64::new(10_000_000_000).unwrap();

    #[track_caller]
    fn check_time(text: &str, expected: Option<&str>) {
        let now = parse_rfc3339(b"2026-11-22T03:04:17.5Z").map(Nanos).unwrap();
        let actual = parse_time(text, now, STEP).ok().map(|time| time.to_string());
        assert_eq!(actual.as_deref(), expected, "{text}");
    }

    #[test]
    fn times_are_those_of_rfc_3339_or_relative_to_now() {
        for (text, expected) in [
            ("2016-01-01T00:00:00Z", "2016-01-01T00:00:00Z"),
            ("2016-02-29T23:59:59.120Z", "2016-02-29T23:59:59.12Z"),
            ("2016-01-01T01:00:00.000000001+02:30", "2015-12-31T22:30:00.000000001Z"),
            ("1969-12-31T23:00:00-01:00", "1970-01-01T00:00:00Z"),
            ("1700-03-01T00:00:00Z", "1700-03-01T00:00:00Z"),
            ("now", "2026-11-22T03:04:10Z"),
            ("now-24h", "2026-11-21T03:04:10Z"),
        ] {
            check_time(text, Some(expected));
        }
        for text in [
            "",
            "2016",
            "2016-01-01",
            "2016-01-01 00:00:00Z",
            "2016-01-01T00:00:00",
            "2015-02-29T00:00:00Z",
            "2016-13-01T00:00:00Z",
            "2016-01-01T24:00:00Z",
            "2016-01-01T00:00:00.Z",
            "2016-01-01T00:00:00+0100",
            "9999-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "now-",
            "now+1h",
            "nowadays",
        ] {
            check_time(text, None);
        }
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in [
            ("10s", 10_000_000_000),
            ("1m30s", 90_000_000_000),
            ("500ms", 500_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("2us3ns", 2_003),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(parse_go_duration(text), Some(expected), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1d", "1.2.3s", "1 s", "9999999999h", ".s", "1s1"] {
            assert_eq!(parse_go_duration(text), None, "{text}");
        }
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        let check = |change: fn(&mut Options)| {
            let mut options = Options::small(UseCase::CpuOnly);
            change(&mut options);
            options.check().map_err(|error| error.to_string())
        };
        assert_eq!(check(|_| ()), Ok(()));
        assert_eq!(check(|options| options.end = options.start), Ok(()));
        for (change, expected) in [
            ((|o| o.scale = 0) as fn(&mut Options), "--scale 0 makes no rows; it begins with 1"),
            (
                |o| o.end.0 -= 3_600_000_000_001,
                "--timestamp-end 2015-12-31T23:59:59.999999999Z is before \
                 --timestamp-start 2016-01-01T00:00:00Z",
            ),
            (|o| o.groups = 0, "there is no interleaved group 0 of 0"),
            (|o| o.group = 1, "there is no interleaved group 1 of 1"),
            (|o| o.max_metrics = 0, "--max-metric-count 0 is not from 1 to 4294967295"),
        ] {
            assert_eq!(check(change), Err(expected.to_owned()));
        }
    }
}
