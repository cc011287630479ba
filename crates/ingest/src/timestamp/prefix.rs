//! The fast path: a date of ten bytes, which mostly occurred before, and a time of eight, parsed as
//! words.
//!
//! - `None` means only that the general path must decide (timestamp-3).
//! - prefix-1. The start of a remembered day and that of the next one are both `i64`s, so that
//!   adding a time of day never overflows.
//!
//! The last day is compared first: in a file in the order of time it is the right one. Others are
//! kept in a table of two months, for files in other orders.

use tidegate_model::TimeUnit;
use tidegate_model::time::is_leap_year;

use crate::parse::{ZEROS, all_digits, number, word_at};

/// The order of the parts of a date of ten bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DateOrder {
    /// `yyyy-MM-dd`
    YearMonthDay,
    /// `dd/MM/yyyy`
    DayMonthYear,
    /// `MM/dd/yyyy`
    MonthDayYear,
}

/// A parser of dates that remembers them.
#[derive(Clone, Debug)]
pub(super) struct Prefix {
    order: DateOrder,
    /// The number of units in a day, or 1 for a parser of days.
    per_day: i64,
    last: Day,
    days: [Day; DAYS],
}

/// A date that was parsed.
#[derive(Clone, Copy, Debug)]
struct Day {
    /// Its ten bytes, as two overlapping words.
    key: (u64, u64),
    /// Its start (prefix-1).
    start: i64,
}

/// An entry that no ten bytes match: the words of its key differ where they overlap.
const NO_DAY: Day = Day { key: (0, u64::MAX), start: 0 };

/// The size of the table: the days of an odd and of an even month.
const DAYS: usize = 64;

impl Prefix {
    pub(super) fn new(order: DateOrder, per_day: i64) -> Prefix {
        Prefix { order, per_day, last: NO_DAY, days: [NO_DAY; DAYS] }
    }

    /// The start of the day of a date of ten bytes.
    #[inline]
    pub(super) fn date(&mut self, date: &[u8; 10]) -> Option<i64> {
        if key_of(date) != self.last.key {
            self.find(date)?;
        }
        Some(self.last.start)
    }

    /// Parses a date, `T` or a space, `HH:mm:ss`, up to nine fraction digits, `Z` or nothing.
    pub(super) fn instant(&mut self, text: &[u8], unit: TimeUnit) -> Option<i64> {
        self.date(text.first_chunk::<10>()?)?;
        self.instant_of_same_day(text, unit)
    }

    /// Does the work of `instant` for a text with the date of the previous one. It calls no
    /// function, and so saves no registers.
    #[inline]
    pub(super) fn instant_of_same_day(&self, text: &[u8], unit: TimeUnit) -> Option<i64> {
        let prefix = text.first_chunk::<19>()?;
        let is_separated = prefix[10] == b' ' || prefix[10] == b'T';
        if (word_at(prefix, 0), word_at(prefix, 2)) != self.last.key || !is_separated {
            return None;
        }
        let second = second_of_day(word_at(prefix, 11))?;
        let instant = self.last.start + i64::from(second) * unit.per_second();
        if text.len() == 19 {
            return Some(instant);
        }
        let nanos = fraction_nanos(text.strip_suffix(b"Z").unwrap_or(text))?;
        Some(match unit {
            TimeUnit::Micros => instant + nanos / 1_000,
            TimeUnit::Nanos => instant + nanos,
        })
    }

    /// Makes `date` the last day.
    #[inline(never)]
    fn find(&mut self, date: &[u8; 10]) -> Option<()> {
        let key = key_of(date);
        let (day_at, month_at) = match self.order {
            DateOrder::YearMonthDay => (8, 5),
            DateOrder::DayMonthYear => (0, 3),
            DateOrder::MonthDayYear => (3, 0),
        };
        let number = |at: usize| usize::from(date[at] & 15) * 10 + usize::from(date[at + 1] & 15);
        let slot = &mut self.days[(number(month_at) * 32 + number(day_at)) % DAYS];
        if slot.key != key {
            let start = days_of_text(*date, self.order)?.checked_mul(self.per_day)?;
            start.checked_add(self.per_day)?; // prefix-1
            *slot = Day { key, start };
        }
        self.last = *slot;
        Some(())
    }
}

#[inline]
fn key_of(date: &[u8; 10]) -> (u64, u64) {
    (word_at(date, 0), word_at(date, 2))
}

fn days_of_text(date: [u8; 10], order: DateOrder) -> Option<i64> {
    let (separators, digits) = match (order, date) {
        (DateOrder::YearMonthDay, [y0, y1, y2, y3, s0, m0, m1, s1, d0, d1])
        | (DateOrder::DayMonthYear, [d0, d1, s0, m0, m1, s1, y0, y1, y2, y3])
        | (DateOrder::MonthDayYear, [m0, m1, s0, d0, d1, s1, y0, y1, y2, y3]) => {
            ([s0, s1], [y0, y1, y2, y3, m0, m1, d0, d1])
        }
    };
    let separator = if order == DateOrder::YearMonthDay { b'-' } else { b'/' };
    let digits = u64::from_le_bytes(digits) ^ ZEROS;
    if separators != [separator; 2] || !all_digits(digits) {
        return None;
    }
    let together = u32::try_from(number(digits)).expect("eight digits");
    days_of(together / 10_000, together / 100 % 100, together % 100)
}

/// A `CivilDate::to_days` for years of four digits, fast enough for dates that change from row to
/// row; `None` if there is no such day.
fn days_of(year: u32, month: u32, day: u32) -> Option<i64> {
    /// The length of each month, and the number of days before it in its year.
    const MONTHS: [(u32, u32); 13] = [
        (0, 0),
        (31, 0),
        (28, 31),
        (31, 59),
        (30, 90),
        (31, 120),
        (30, 151),
        (31, 181),
        (31, 212),
        (30, 243),
        (31, 273),
        (30, 304),
        (31, 334),
    ];
    let (length, before) = *MONTHS.get(month as usize)?;
    let leap_day = u32::from(is_leap_year(i64::from(year)));
    if day == 0 || length + if month == 2 { leap_day } else { 0 } < day {
        return None;
    }
    let day_of_year = before + if 2 < month { leap_day } else { 0 } + day - 1;
    // The year is moved by a whole cycle of the calendar, so that nothing is negative.
    let days = days_before(year + 400) + day_of_year;
    Some(i64::from(days) - i64::from(days_before(1970 + 400)))
}

/// The number of days from the first day of year 1 to that of `year`.
const fn days_before(year: u32) -> u32 {
    let years = year - 1;
    years * 365 + years / 4 - years / 100 + years / 400
}

/// The second of the day of `HH:mm:ss` as a word of text.
#[inline]
fn second_of_day(text: u64) -> Option<u32> {
    const COLONS: u64 = 0x0000_FF00_00FF_0000;
    // Digits become their values, colons zero.
    let digits = text ^ u64::from_le_bytes(*b"00:00:00");
    if !all_digits(digits) || digits & COLONS != 0 {
        return None;
    }
    let pairs = digits * 10 + (digits >> 8);
    let [hour, _, _, minute, _, _, second, _] = pairs.to_le_bytes();
    // A pair that is too large sets its high bit; none carries into the byte above.
    let room = u64::from_le_bytes([128 - 24, 0, 0, 128 - 60, 0, 0, 128 - 60, 0]);
    if (pairs + room) & 0x0080_0000_8000_0080 != 0 {
        return None;
    }
    Some(u32::from(hour) * 3_600 + u32::from(minute) * 60 + u32::from(second))
}

/// Parses the text behind the seconds, at byte 19: a point and one to nine digits, or nothing.
#[inline]
fn fraction_nanos(text: &[u8]) -> Option<i64> {
    /// The nanoseconds of one unit of the last digit, by the number of digits.
    const NANOS: [u32; 10] =
        [0, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
    let [b'.', digits @ ..] = text.get(19..)? else {
        return (text.len() == 19).then_some(0);
    };
    let scale = *NANOS.get(digits.len())?;
    // The text is longer than a word: all digits but the ninth are at the end of its last word.
    let margin = 64 - 8 * digits.len().min(8);
    let last = u64::from_le_bytes(*text.last_chunk()?) ^ ZEROS;
    let word = if digits.is_empty() { return None } else { last >> margin << margin };
    let ninth = if digits.len() == 9 { digits[0].wrapping_sub(b'0') } else { 0 };
    if !all_digits(word) || 9 < ninth {
        return None;
    }
    let value = i64::from(ninth) * 100_000_000 + number(word).cast_signed();
    Some(value * i64::from(scale))
}

#[cfg(test)]
mod tests {
    use tidegate_model::time::CivilDate;

    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for year in 0..=9_999 {
            for month in 0..=14 {
                for day in 0..=32 {
                    let date = CivilDate { year: i64::from(year), month, day };
                    let expected = date.is_valid().then(|| date.to_days());
                    assert_eq!(days_of(year, month, day), expected, "{date:?}");
                }
            }
        }
    }
    #[test]
    fn remembered_days_are_found_by_all_of_their_text() {
        use DateOrder::{DayMonthYear, MonthDayYear, YearMonthDay};
        for order in [YearMonthDay, DayMonthYear, MonthDayYear] {
            let mut prefix = Prefix::new(order, 1);
            // Days that share a slot follow each other, and each occurs again.
            for day in [1, 28] {
                for year in [1924, 2024, 2023, 1924, 2014, 2024] {
                    for month in [1, 3, 11, 1] {
                        let text = match order {
                            YearMonthDay => format!("{year}-{month:02}-{day:02}"),
                            DayMonthYear => format!("{day:02}/{month:02}/{year}"),
                            MonthDayYear => format!("{month:02}/{day:02}/{year}"),
                        };
                        let expected = CivilDate { year, month, day }.to_days();
                        let date = text.as_bytes().try_into().expect("ten bytes");
                        assert_eq!(prefix.date(date), Some(expected), "{text}");
                        assert_eq!(prefix.date(date), Some(expected), "{text}, again");
                    }
                }
            }
        }
    }
}
