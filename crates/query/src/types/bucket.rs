//! Buckets of time: their starts and their numbers.
//!
//! - bucket-1. `start(index(t)) <= t < start(index(t) + 1)` for every designated timestamp `t`.
//! - bucket-2. `start` ascends with the number of the bucket.
//!
//! Instants are plain integers in the unit of their column.

use datafusion::arrow::datatypes::{DataType, TimeUnit as ArrowUnit};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use tidegate_model::time::{CivilDate, days_in_month};
use tidegate_model::{ColumnType, TimeUnit};

use super::zone::Zone;
use crate::error::ClauseProblem;
use crate::types::literal::{integer_of, time_of_integer, time_value, value_of_text};

/// The maximal width: wider buckets could not be counted from any instant without overflow. It is
/// 1,141 years of microseconds.
const WIDTH_MAX: i64 = 1 << 55;
/// A bound of the months of the whole range of times.
const MONTHS_MAX: u64 = 12 * 600_000;
/// 1970-01-05, a Monday, in days since 1970.
const FIRST_MONDAY: i64 = 4;

/// The width of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// So many units of the column.
    Width(i64),
    /// So many local days of a zone.
    Days(i64),
    /// So many months of the calendar.
    Months(i64),
}

/// A number of units of time: `15m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stride {
    /// The number of units; at least 1.
    pub(crate) count: u64,
    /// The unit: one of n U T s m h d w M y, and u as U.
    pub(crate) unit: char,
}

impl Stride {
    /// Parses `15m`, or `m` for `1m`.
    pub(crate) fn parse(text: &str) -> Result<Stride, ClauseProblem> {
        let bad = || ClauseProblem::Stride { stride: text.to_owned() };
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let count = if digits == 0 { 1 } else { text[..digits].parse().map_err(|_| bad())? };
        let mut letters = text[digits..].chars();
        let unit = letters.next().ok_or_else(bad)?;
        let is_unit = "nuUTsmhdwMy".contains(unit);
        if count == 0 || letters.next().is_some() || !is_unit {
            return Err(bad());
        }
        Ok(Stride { count, unit })
    }

    fn problem(self) -> ClauseProblem {
        ClauseProblem::Stride { stride: format!("{}{}", self.count, self.unit) }
    }

    /// Returns its length in nanoseconds; `None` for months and years.
    pub(crate) fn nanos(self) -> Option<i128> {
        let unit = match self.unit {
            'n' => 1,
            'u' | 'U' => 1_000,
            'T' => 1_000_000,
            's' => 1_000_000_000,
            'm' => 60_000_000_000,
            'h' => 3_600_000_000_000,
            'd' => 86_400_000_000_000,
            'w' => 604_800_000_000_000,
            _ => return None,
        };
        Some(i128::from(self.count) * unit)
    }

    /// Returns its length in the unit of a column. A stride finer than that must divide it, and has
    /// length 1.
    fn width(self, scale: TimeUnit) -> Result<i64, ClauseProblem> {
        let worth = i128::from(1_000_000_000 / scale.per_second());
        let nanos = self.nanos().ok_or_else(|| self.problem())?;
        let width = match (nanos % worth == 0, worth % nanos == 0) {
            (true, _) => nanos / worth,
            (false, true) => 1,
            (false, false) => return Err(self.problem()),
        };
        i64::try_from(width).ok().filter(|width| *width <= WIDTH_MAX).ok_or_else(|| self.problem())
    }

    fn months(self) -> Result<i64, ClauseProblem> {
        let months = if self.unit == 'y' { self.count.checked_mul(12) } else { Some(self.count) };
        let months = months.filter(|months| *months <= MONTHS_MAX);
        months.and_then(|months| i64::try_from(months).ok()).ok_or_else(|| self.problem())
    }

    fn is_calendar(self) -> bool {
        matches!(self.unit, 'M' | 'y')
    }

    /// Returns true if buckets follow the local days of a zone.
    fn follows_days(self) -> bool {
        matches!(self.unit, 'd' | 'w' | 'M' | 'y')
    }
}

/// The origin of the numbers of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// 1970, or the first Monday of it for weeks, so many seconds later.
    Calendar { offset: i64 },
    /// This instant.
    Instant(i64),
}

/// The buckets of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Grid {
    step: Step,
    zone: Zone,
    per_second: i64,
    /// The start of bucket 0: an instant for a width, and else a local time of the zone.
    origin: i64,
}

impl Grid {
    /// Returns the buckets of a stride for a column that counts `scale`.
    pub(crate) fn new(
        stride: Stride,
        scale: TimeUnit,
        zone: Option<Zone>,
        origin: Origin,
    ) -> Result<Grid, ClauseProblem> {
        let per_second = scale.per_second();
        let zone = zone.unwrap_or(Zone::Fixed(0));
        let by_clock =
            stride.is_calendar() || stride.follows_days() && matches!(zone, Zone::Named(_));
        let step = match (stride.is_calendar(), by_clock) {
            (true, _) => Step::Months(stride.months()?),
            (false, true) => {
                let per_day = per_second * 86_400;
                Step::Days(stride.width(scale)?.checked_div(per_day).unwrap_or(1))
            }
            (false, false) => Step::Width(stride.width(scale)?),
        };
        let origin = match origin {
            Origin::Calendar { offset } => {
                let days = if stride.unit == 'w' { FIRST_MONDAY } else { 0 };
                let shift = if by_clock { 0 } else { zone.standard_offset() };
                (days * 86_400 + offset - shift) * per_second
            }
            Origin::Instant(instant) if by_clock => clocks(zone, per_second, instant),
            Origin::Instant(instant) => instant,
        };
        Ok(Grid { step, zone, per_second, origin })
    }

    /// Returns the number of the bucket that holds an instant (bucket-1).
    pub(crate) fn index(&self, instant: i64) -> i128 {
        let local = || i128::from(clocks(self.zone, self.per_second, instant));
        let mut index = match self.step {
            Step::Width(width) => {
                let distance = i128::from(instant) - i128::from(self.origin);
                return distance.div_euclid(i128::from(width));
            }
            Step::Days(days) => {
                let width = i128::from(days) * i128::from(self.per_second * 86_400);
                (local() - i128::from(self.origin)).div_euclid(width)
            }
            Step::Months(months) => {
                let local = clocks(self.zone, self.per_second, instant);
                let apart = self.month_number(local) - self.month_number(self.origin);
                i128::from(apart.div_euclid(months))
            }
        };
        // The origin may be late in a month, and local time may jump.
        while instant < self.start(index) {
            index -= 1;
        }
        while self.start(index + 1) <= instant {
            index += 1;
        }
        index
    }

    /// Returns the first instant of a bucket; the nearest instant if it is out of the range of
    /// times.
    pub(crate) fn start(&self, index: i128) -> i64 {
        let local = match self.step {
            Step::Width(width) => {
                return clamped(
                    i128::from(self.origin).saturating_add(index.saturating_mul(i128::from(width))),
                );
            }
            Step::Days(days) => {
                let width = i128::from(days) * i128::from(self.per_second * 86_400);
                i128::from(self.origin).saturating_add(index.saturating_mul(width))
            }
            Step::Months(months) => self.month_start(index.saturating_mul(i128::from(months))),
        };
        let Ok(local) = i64::try_from(local) else { return clamped(local) };
        let seconds = self.zone.to_utc(local.div_euclid(self.per_second));
        let fraction = local.rem_euclid(self.per_second);
        clamped(i128::from(seconds) * i128::from(self.per_second) + i128::from(fraction))
    }

    /// Returns the first instants of the buckets of these instants.
    pub(crate) fn floor_all(&self, instants: &[i64]) -> Vec<i64> {
        if let Step::Width(width) = self.step {
            let origin = self.origin.rem_euclid(width);
            let floor = |&instant: &i64| {
                instant.saturating_sub(instant.saturating_sub(origin).rem_euclid(width))
            };
            return instants.iter().map(floor).collect();
        }
        // Consecutive instants are mostly in one bucket.
        let (mut start, mut end) = (0, 0);
        let mut floor = |&instant: &i64| {
            if instant < start || end <= instant {
                let index = self.index(instant);
                (start, end) = (self.start(index), self.start(index + 1));
            }
            start
        };
        instants.iter().map(&mut floor).collect()
    }

    /// Returns the months from year 0 to a local time.
    fn month_number(&self, local: i64) -> i64 {
        let date = CivilDate::from_days(local.div_euclid(self.per_second * 86_400));
        date.year * 12 + i64::from(date.month) - 1
    }

    /// Returns the origin so many months later, on the last day of the month if it has too few.
    fn month_start(&self, months: i128) -> i128 {
        let per_day = self.per_second * 86_400;
        let date = CivilDate::from_days(self.origin.div_euclid(per_day));
        let bound = i128::from(MONTHS_MAX) * 2;
        let months = i64::try_from(months.clamp(-bound, bound)).expect("clamped");
        let number = self.month_number(self.origin) + months;
        let (year, month) = (number.div_euclid(12), number.rem_euclid(12) + 1);
        let month = u32::try_from(month).expect("1 to 12");
        let day = date.day.min(days_in_month(year, month));
        let days = CivilDate { year, month, day }.to_days();
        i128::from(days) * i128::from(per_day) + i128::from(self.origin.rem_euclid(per_day))
    }
}

/// Returns the local time of a zone at an instant, in units since local 1970.
fn clocks(zone: Zone, per_second: i64, instant: i64) -> i64 {
    let offset = zone.offset_at(instant.div_euclid(per_second));
    instant.saturating_add(offset * per_second)
}

fn clamped(value: i128) -> i64 {
    let bounds = (i128::from(i64::MIN), i128::from(i64::MAX));
    i64::try_from(value.clamp(bounds.0, bounds.1)).expect("clamped")
}

/// Returns the unit of a column of times.
pub(crate) fn time_unit(schema: &DFSchema, column: &Column) -> Result<TimeUnit> {
    let (_, field) = schema.qualified_field_from_column(column)?;
    match field.data_type() {
        DataType::Timestamp(ArrowUnit::Microsecond, _) => Ok(TimeUnit::Micros),
        DataType::Timestamp(ArrowUnit::Nanosecond, _) => Ok(TimeUnit::Nanos),
        _ => Err(ClauseProblem::NotTimestamp { column: column.name.clone() }.into()),
    }
}

/// Returns a constant as an instant. A text is a local time of the zone.
pub(crate) fn instant(value: &ScalarValue, unit: TimeUnit, zone: Option<Zone>) -> Option<i64> {
    let ty = ColumnType::Timestamp(unit);
    let count = |value: &ScalarValue| match value {
        ScalarValue::TimestampMicrosecond(count, _)
        | ScalarValue::TimestampNanosecond(count, _) => *count,
        _ => None,
    };
    if let Some(text) = value.try_as_str().flatten() {
        let local = count(&value_of_text(text, ty)?.ok()?)?;
        let Some(zone) = zone else { return Some(local) };
        let per_second = unit.per_second();
        let seconds = zone.to_utc(local.div_euclid(per_second));
        return seconds.checked_mul(per_second)?.checked_add(local.rem_euclid(per_second));
    }
    if let Some(integer) = integer_of(value) {
        return count(&time_of_integer(integer, ty).ok()?);
    }
    let target = time_value(0, ty).data_type();
    let is_time = matches!(value.data_type(), DataType::Timestamp(..) | DataType::Date32);
    count(&value.cast_to(&target).ok().filter(|_| is_time)?)
}

#[cfg(test)]
mod tests {
    use tidegate_model::Timestamp;
    use tidegate_model::time::IsoTimestamp;

    use super::*;
    use crate::types::time_text::{TimeScale, parse_time};

    const UNIT: TimeUnit = TimeUnit::Micros;

    fn instant(text: &str) -> i64 {
        parse_time(text, TimeScale::Unit(UNIT)).unwrap()
    }

    fn grid(stride: &str, zone: &str, origin: Origin) -> Grid {
        let zone = (!zone.is_empty()).then(|| Zone::parse(zone).unwrap());
        Grid::new(Stride::parse(stride).unwrap(), UNIT, zone, origin).unwrap()
    }

    #[track_caller]
    fn check(grid: Grid, at: &str, expected: &str) {
        let index = grid.index(instant(at));
        let iso = |t| IsoTimestamp(Timestamp(t), UNIT).to_string();
        let short = |t| iso(t).trim_end_matches(":00.000000Z").to_owned();
        let shown = format!("{} {}", short(grid.start(index)), short(grid.start(index + 1)));
        assert_eq!(shown, expected, "{at} in {grid:?}");
        assert_eq!(grid.floor_all(&[instant(at)]), [grid.start(index)]);
    }

    const EPOCH: Origin = Origin::Calendar { offset: 0 };

    #[test]
    fn buckets_count_from_the_epoch() {
        check(
            grid("1h", "", EPOCH),
            "2025-03-01T10:59:59.999999",
            "2025-03-01T10:00 2025-03-01T11:00",
        );
        check(grid("7m", "", EPOCH), "1969-12-31T23:59", "1969-12-31T23:53 1970-01-01T00:00");
        check(grid("1d", "", EPOCH), "2025-03-01T10:59", "2025-03-01T00:00 2025-03-02T00:00");
        check(grid("1w", "", EPOCH), "2025-03-01T10:59", "2025-02-24T00:00 2025-03-03T00:00");
        check(grid("1M", "", EPOCH), "2024-02-29T10:59", "2024-02-01T00:00 2024-03-01T00:00");
        check(grid("3M", "", EPOCH), "1969-12-31", "1969-10-01T00:00 1970-01-01T00:00");
        check(grid("1y", "", EPOCH), "2024-02-29T10:59", "2024-01-01T00:00 2025-01-01T00:00");
        check(grid("1n", "", EPOCH), "2025-01-01", "2025-01-01T00:00 2025-01-01T00:00:00.000001Z");
    }

    #[test]
    fn offsets_and_origins_shift_buckets() {
        let offset = |minutes: i64| Origin::Calendar { offset: minutes * 60 };
        check(grid("1h", "", offset(45)), "2025-03-01T10:44", "2025-03-01T09:45 2025-03-01T10:45");
        check(grid("1h", "", offset(-15)), "2025-03-01T10:44", "2025-03-01T09:45 2025-03-01T10:45");
        check(grid("1M", "", offset(60)), "2025-03-01T00:30", "2025-02-01T01:00 2025-03-01T01:00");
        let from = |text| Origin::Instant(instant(text));
        check(
            grid("5d", "", from("2025-01-03T06:00")),
            "2025-01-10",
            "2025-01-08T06:00 2025-01-13T06:00",
        );
        check(
            grid("1M", "", from("2025-01-31")),
            "2025-02-28",
            "2025-02-28T00:00 2025-03-31T00:00",
        );
        check(
            grid("1M", "", from("2025-01-31")),
            "2025-03-30",
            "2025-02-28T00:00 2025-03-31T00:00",
        );
    }

    #[test]
    fn days_follow_the_clocks_and_hours_do_not() {
        let berlin = |stride| grid(stride, "Europe/Berlin", EPOCH);
        check(berlin("1d"), "2025-03-30T12:00", "2025-03-29T23:00 2025-03-30T22:00");
        check(berlin("1d"), "2025-10-26T12:00", "2025-10-25T22:00 2025-10-26T23:00");
        check(berlin("1M"), "2025-03-31T22:00", "2025-03-31T22:00 2025-04-30T22:00");
        check(berlin("1w"), "2025-10-26T22:59", "2025-10-19T22:00 2025-10-26T23:00");
        check(berlin("6h"), "2025-07-01T12:00", "2025-07-01T11:00 2025-07-01T17:00");
        let kolkata = grid("1h", "Asia/Kolkata", EPOCH);
        check(kolkata, "2025-07-01T12:00", "2025-07-01T11:30 2025-07-01T12:30");
        let fixed = grid("1d", "+05:30", EPOCH);
        check(fixed, "2025-07-01T12:00", "2025-06-30T18:30 2025-07-01T18:30");
    }

    #[test]
    fn every_instant_is_in_its_bucket() {
        let zones = ["", "Europe/London", "America/Santiago", "Africa/Cairo", "Pacific/Apia"];
        for (zone, stride) in zones.iter().flat_map(|zone| {
            ["1d", "3d", "1w", "1M", "7M", "1y", "90m"].map(|stride| (zone, stride))
        }) {
            let grid = grid(stride, zone, EPOCH);
            let mut previous = grid.index(instant("1900"));
            let mut at = instant("1900");
            while at < instant("2040") {
                let index = grid.index(at);
                assert!(
                    grid.start(index) <= at && at < grid.start(index + 1),
                    "bucket-1 {at} {grid:?}"
                );
                assert!(previous <= index, "bucket-2 {at} {grid:?}");
                previous = index;
                at += 86_400_000_000 * 5 + 1_234_567_891;
            }
        }
    }

    #[test]
    fn strides_are_read() {
        for text in ["", "1", "0h", "1x", "1hh", "-1h", "99999999999999999999h"] {
            assert!(Stride::parse(text).is_err(), "{text}");
        }
        assert_eq!(Stride::parse("h"), Ok(Stride { count: 1, unit: 'h' }));
        let wide = Stride::parse("9999999w").unwrap();
        assert!(Grid::new(wide, UNIT, None, EPOCH).is_err());
        let odd = Stride::parse("1500n").unwrap();
        assert!(Grid::new(odd, UNIT, None, EPOCH).is_err());
    }
}
