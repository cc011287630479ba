//! Partitions: the intervals of time that a table's rows are kept in.
//!
//! - partition-2. `floor(t) <= t < next(floor(t))` for every designated timestamp (model_time-1).
//! - partition-1. Names of different partitions of one unit differ, and `parse_name(name(k)) == k`.

use crate::time::{CivilDate, TimeUnit, Timestamp, days_in_month};

/// The width of a table's partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionUnit {
    /// One partition for all rows.
    None,
    /// An hour.
    Hour,
    /// A day, UTC.
    Day,
    /// A week from Monday.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

/// A partition: the first instant of its interval in the unit of the designated timestamp, 0 for
/// tables that are not partitioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey(pub i64);

/// 1970-01-01 was a Thursday: the Monday before it is day -3.
const FIRST_MONDAY: i64 = -3;

impl PartitionUnit {
    /// Every unit with its SQL name.
    pub const ALL: [(PartitionUnit, &'static str); 6] = [
        (PartitionUnit::None, "NONE"),
        (PartitionUnit::Hour, "HOUR"),
        (PartitionUnit::Day, "DAY"),
        (PartitionUnit::Week, "WEEK"),
        (PartitionUnit::Month, "MONTH"),
        (PartitionUnit::Year, "YEAR"),
    ];

    /// The unit of an SQL name, in upper or lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<PartitionUnit> {
        Self::ALL
            .into_iter()
            .find(|(_, name)| name.eq_ignore_ascii_case(text))
            .map(|(unit, _)| unit)
    }

    /// The SQL name.
    #[must_use]
    pub fn sql(self) -> &'static str {
        Self::ALL.into_iter().find(|&(unit, _)| unit == self).expect("all are listed").1
    }

    /// The partition that holds `ts`.
    #[must_use]
    pub fn floor(self, ts: Timestamp, unit: TimeUnit) -> PartitionKey {
        let (day, hour) = (unit.per_day(), unit.per_second() * 3_600);
        // Not `ts / width * width`: that rounds toward zero, and 1969 would land in 1970.
        let days = ts.0.div_euclid(day);
        let start = match self {
            PartitionUnit::None => 0,
            PartitionUnit::Hour => ts.0 - ts.0.rem_euclid(hour),
            PartitionUnit::Day => days * day,
            PartitionUnit::Week => (days - (days - FIRST_MONDAY).rem_euclid(7)) * day,
            PartitionUnit::Month => {
                CivilDate { day: 1, ..CivilDate::from_days(days) }.to_days() * day
            }
            PartitionUnit::Year => {
                CivilDate { month: 1, day: 1, ..CivilDate::from_days(days) }.to_days() * day
            }
        };
        PartitionKey(start)
    }

    /// The first instant after the partition.
    #[must_use]
    pub fn next(self, key: PartitionKey, unit: TimeUnit) -> Timestamp {
        let (day, hour) = (unit.per_day(), unit.per_second() * 3_600);
        let date = CivilDate::from_days(key.0.div_euclid(day));
        let days = match self {
            PartitionUnit::None => return Timestamp(i64::MAX),
            PartitionUnit::Hour => return Timestamp(key.0 + hour),
            PartitionUnit::Day => 1,
            PartitionUnit::Week => 7,
            PartitionUnit::Month => i64::from(days_in_month(date.year, date.month)),
            PartitionUnit::Year => {
                CivilDate { year: date.year + 1, ..date }.to_days() - date.to_days()
            }
        };
        Timestamp(key.0 + days * day)
    }

    /// The name that users see and that the directory has: `2025-03-01T09`, `2025-03-01`,
    /// `2025-W09`, `2025-03`, `2025`, `default`.
    #[must_use]
    pub fn name(self, key: PartitionKey, unit: TimeUnit) -> String {
        let days = key.0.div_euclid(unit.per_day());
        let CivilDate { year, month, day } = CivilDate::from_days(days);
        match self {
            PartitionUnit::None => "default".to_owned(),
            PartitionUnit::Hour => {
                let hour = key.0.rem_euclid(unit.per_day()) / unit.per_second() / 3_600;
                format!("{year:04}-{month:02}-{day:02}T{hour:02}")
            }
            PartitionUnit::Day => format!("{year:04}-{month:02}-{day:02}"),
            PartitionUnit::Week => {
                let (year, week) = iso_week(days);
                format!("{year:04}-W{week:02}")
            }
            PartitionUnit::Month => format!("{year:04}-{month:02}"),
            PartitionUnit::Year => format!("{year:04}"),
        }
    }

    /// The partition of a name; `None` if no partition of this unit has this name.
    #[must_use]
    pub fn parse_name(self, name: &str, unit: TimeUnit) -> Option<PartitionKey> {
        if self == PartitionUnit::None {
            return (name == "default").then_some(PartitionKey(0));
        }
        let (negative, body) = match name.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, name),
        };
        let mut numbers = body.split(['-', 'T', 'W']).filter(|part| !part.is_empty());
        let mut number = || numbers.next().and_then(|part| part.parse::<i64>().ok());
        let year = number()? * if negative { -1 } else { 1 };
        // Bounds first: the arithmetic below must not overflow on a name that is not ours.
        if year.abs() > 300_000 {
            return None;
        }
        let second = number().unwrap_or(1);
        let third = u32::try_from(number().unwrap_or(1)).ok()?;
        let hour = number().unwrap_or(0);
        let date = if self == PartitionUnit::Week {
            let january_4th = CivilDate { year, month: 1, day: 4 }.to_days();
            let monday = january_4th - (january_4th - FIRST_MONDAY).rem_euclid(7);
            CivilDate::from_days(monday + (second.clamp(0, 60) - 1) * 7)
        } else {
            CivilDate { year, month: u32::try_from(second).ok()?, day: third }
        };
        if !date.is_valid() || !(0..24).contains(&hour) {
            return None;
        }
        let start = date.to_days().checked_mul(unit.per_day())?;
        let key = self.floor(Timestamp(start + hour * 3_600 * unit.per_second()), unit);
        // partition-1: only the exact name that `name` returns.
        (self.name(key, unit) == name).then_some(key)
    }
}

/// The ISO 8601 year and week of a day.
#[must_use]
pub fn iso_week(days: i64) -> (i64, i64) {
    // A week belongs to the year of its Thursday.
    let thursday = days - (days - FIRST_MONDAY).rem_euclid(7) + 3;
    let year = CivilDate::from_days(thursday).year;
    let january_1st = CivilDate { year, month: 1, day: 1 }.to_days();
    (year, (thursday - january_1st) / 7 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{IsoTimestamp, TIMESTAMP_MAX, TIMESTAMP_MIN};

    const MICROS: TimeUnit = TimeUnit::Micros;

    #[test]
    fn every_instant_lies_in_its_partition_and_its_name_leads_back() {
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let ts = Timestamp(seed.cast_signed() >> 8);
            for time_unit in [MICROS, TimeUnit::Nanos] {
                for (unit, _) in PartitionUnit::ALL {
                    let key = unit.floor(ts, time_unit);
                    if unit != PartitionUnit::None {
                        assert!(
                            key.0 <= ts.0 && ts.0 < unit.next(key, time_unit).0,
                            "partition-2 {unit:?}"
                        );
                    }
                    let name = unit.name(key, time_unit);
                    assert_eq!(
                        unit.parse_name(&name, time_unit),
                        Some(key),
                        "partition-1 {unit:?} {name}"
                    );
                }
            }
        }
    }

    /// Every partition that a row can be in has a start, an end and a name (model_time-1).
    #[test]
    fn the_partitions_of_the_first_and_last_instants_are_whole() {
        for ts in [TIMESTAMP_MIN, TIMESTAMP_MAX].map(Timestamp) {
            for time_unit in [MICROS, TimeUnit::Nanos] {
                for (unit, _) in PartitionUnit::ALL {
                    let key = unit.floor(ts, time_unit);
                    let next = unit.next(key, time_unit);
                    let is_inside = key.0 <= ts.0 && ts.0 < next.0;
                    assert!(unit == PartitionUnit::None || is_inside, "partition-2 {unit:?}");
                    let name = unit.name(key, time_unit);
                    assert_eq!(
                        unit.parse_name(&name, time_unit),
                        Some(key),
                        "partition-1 {unit:?} {name}"
                    );
                }
            }
        }
        let shown = |ts| IsoTimestamp(Timestamp(ts), TimeUnit::Nanos).to_string();
        assert_eq!(shown(TIMESTAMP_MIN), "1678-01-01T00:00:00.000000000Z");
        assert_eq!(shown(TIMESTAMP_MAX), "2261-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn partitions_are_named_as_documented() {
        let ts = Timestamp(1_740_819_600_000_000); // 2025-03-01T09:00:00Z
        for (unit, expected) in [
            (PartitionUnit::Hour, "2025-03-01T09"),
            (PartitionUnit::Day, "2025-03-01"),
            (PartitionUnit::Week, "2025-W09"),
            (PartitionUnit::Month, "2025-03"),
            (PartitionUnit::Year, "2025"),
            (PartitionUnit::None, "default"),
        ] {
            assert_eq!(unit.name(unit.floor(ts, MICROS), MICROS), expected);
        }
    }

    #[test]
    fn foreign_names_are_no_partitions() {
        for name in ["", "2025-13", "2025-3", "2025-02-30", "x", "99999999999", "2025-W60"] {
            for (unit, _) in PartitionUnit::ALL {
                assert_eq!(unit.parse_name(name, MICROS), None, "{unit:?} {name}");
            }
        }
    }
}
