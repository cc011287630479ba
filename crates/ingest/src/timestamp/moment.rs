//! The parsed fields of a text, and the instant that they denote after a check of their ranges.

use tidegate_model::TimeUnit;
use tidegate_model::time::CivilDate;

use crate::parse::CellError;

/// The fields of a date and a time as they were read. Each may be out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) date: CivilDate,
    pub(super) hour: u32,
    pub(super) minute: u32,
    pub(super) second: u32,
    pub(super) nanos: u32,
    pub(super) offset: Offset,
}

/// The difference of local time to UTC, as it was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    pub(super) is_behind: bool,
    pub(super) hours: u32,
    pub(super) minutes: u32,
}

impl Offset {
    pub(super) const UTC: Offset = Offset { is_behind: false, hours: 0, minutes: 0 };

    fn seconds(self) -> Option<i64> {
        let seconds = i64::from(self.hours * 3_600 + self.minutes * 60);
        let is_valid = self.hours < 24 && self.minutes < 60;
        is_valid.then_some(if self.is_behind { -seconds } else { seconds })
    }
}

/// A valid day and time of day, and an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Days since 1970-01-01, in local time.
    pub(super) days: i64,
    /// Nanoseconds of the day, in local time.
    pub(super) nanos_of_day: i64,
    /// The seconds by which local time is ahead of UTC.
    offset_seconds: i64,
}

impl Fields {
    /// Checks the ranges of the fields (timestamp-1).
    pub(super) fn moment(&self) -> Result<Moment, CellError> {
        let has_time = self.hour < 24 && self.minute < 60 && self.second < 60;
        match self.offset.seconds() {
            Some(offset_seconds) if has_time && self.date.is_valid() => {
                let second = i64::from(self.hour * 3_600 + self.minute * 60 + self.second);
                let nanos_of_day = second * 1_000_000_000 + i64::from(self.nanos);
                Ok(Moment { days: self.date.to_days(), nanos_of_day, offset_seconds })
            }
            _ => Err(CellError::TimeOutOfRange),
        }
    }
}

impl Moment {
    /// The instant in a unit, rounded toward the past (timestamp-2).
    pub(super) fn instant(&self, unit: TimeUnit) -> Result<i64, CellError> {
        let second = self.days * 86_400 - self.offset_seconds + self.nanos_of_day / 1_000_000_000;
        let nanos = self.nanos_of_day % 1_000_000_000;
        let fraction = match unit {
            TimeUnit::Micros => nanos / 1_000,
            TimeUnit::Nanos => nanos,
        };
        // In the first second of the range of an `i64`, only the sum is within the range.
        let instant = i128::from(second) * i128::from(unit.per_second()) + i128::from(fraction);
        i64::try_from(instant).map_err(|_| CellError::TimeOutOfRange)
    }
}
