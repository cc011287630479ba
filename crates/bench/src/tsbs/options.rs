//! Options of the simulation, checked as a whole, and the times and durations of flags.
//!
//! - options-1. `Options` that passed `check` can be simulated: `start <= end`, no divisor is zero,
//!   and every host has a number of 32 bits.

use std::num::NonZeroU64;

use crate::error::{Error, Result};
use crate::time::{Nanos, parse_rfc3339};

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

    /// Checks that the flags make sense together (options-1).
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
    parse_rfc3339(text.as_bytes()).ok_or_else(bad)
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
        let now = parse_rfc3339(b"2026-11-22T03:04:17.5Z").unwrap();
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
            (
                (|o| o.scale = 0) as fn(&mut Options),
                "--scale 0 makes no rows; it must be at least 1",
            ),
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
