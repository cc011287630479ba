//! Formatting of times and intervals as text.

use std::fmt::Write;

use tidegate_model::time::CivilDate;

use super::keywords::{DAYS, JULIAN_OF_1970, Keyword, MONTHS, ROMAN};
use super::{Field, Moment, Ordinal, Part, Template};

/// The name of the zone in a text: empty for a TIMESTAMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zoned {
    Utc,
    No,
}

impl Template {
    /// Writes a time, or an interval.
    pub(crate) fn write(&self, at: &Moment, zoned: Zoned, text: &mut String) {
        for part in &self.parts {
            match part {
                Part::Field(field) => field.write(at, zoned, text),
                Part::Space => text.push(' '),
                Part::Separator(letter) | Part::Text(letter) => text.push(*letter),
            }
        }
    }
}

/// A number with its padding.
struct Padded {
    value: i64,
    width: usize,
}

impl Field {
    fn write(&self, at: &Moment, zoned: Zoned, text: &mut String) {
        let padded = |value: i64, width: usize| Padded { value, width };
        let hour12 = |hour: i64| if hour % 12 == 0 { 12 } else { hour % 12 };
        let days = at.days.unwrap_or_default();
        let number = match self.keyword {
            Keyword::Hour12 => padded(hour12(at.hour), 2),
            Keyword::Hour24 => padded(at.hour, 2),
            Keyword::Minute => padded(at.minute, 2),
            Keyword::Second => padded(at.second, 2),
            Keyword::Fraction(digits) => {
                let value = at.micros / 10_i64.pow(6 - digits);
                Padded { value, width: digits as usize }
            }
            Keyword::Millis => padded(at.micros / 1_000, 3),
            Keyword::Micros => padded(at.micros, 6),
            Keyword::SecondOfDay => padded(at.hour * 3_600 + at.minute * 60 + at.second, 0),
            Keyword::Month => padded(at.month, 2),
            Keyword::Day => padded(at.day, 2),
            Keyword::DayOfYear => match at.days {
                Some(days) => padded(days - first_of(at.year) + 1, 3),
                None => padded(at.year * 360 + at.month * 30 + at.day, 3),
            },
            Keyword::DayOfWeek => padded(weekday(days) + 1, 0),
            Keyword::IsoDayOfWeek => padded((weekday(days) + 6) % 7 + 1, 0),
            Keyword::IsoDayOfYear => padded(days - first_of_iso(iso_year(days)) + 1, 3),
            Keyword::WeekOfYear => padded((days - first_of(at.year)) / 7 + 1, 2),
            Keyword::WeekOfMonth => padded((at.day - 1) / 7 + 1, 0),
            Keyword::IsoWeek => padded((days - first_of_iso(iso_year(days))) / 7 + 1, 2),
            Keyword::Quarter if at.month == 0 => return,
            Keyword::Quarter => padded((at.month - 1) / 3 + 1, 0),
            Keyword::Century => padded(century(at), 2),
            Keyword::Julian => padded(days + JULIAN_OF_1970, 0),
            Keyword::Year(4) => padded(shown_year(at, at.year), 4),
            Keyword::Year(digits) => year_digits(shown_year(at, at.year), digits),
            Keyword::IsoYear(4) => padded(shown_year(at, iso_year(days)), 4),
            Keyword::IsoYear(digits) => year_digits(shown_year(at, iso_year(days)), digits),
            _ => return self.write_name(at, zoned, text),
        };
        let is_day = matches!(self.keyword, Keyword::Day | Keyword::DayOfYear);
        let widens = number.value < 0 && !is_day;
        let width = if widens { number.width + 1 } else { number.width };
        let is_fraction =
            matches!(self.keyword, Keyword::Fraction(_) | Keyword::Millis | Keyword::Micros);
        let width = if self.is_short && !is_fraction { 0 } else { width };
        // Writing to a String cannot fail.
        let _ = write!(text, "{:0width$}", number.value);
        self.write_ordinal(number.value, text);
    }

    /// Writes fields that are no plain numbers.
    fn write_name(&self, at: &Moment, zoned: Zoned, text: &mut String) {
        let name = |text: &mut String, name: &str, width: usize| {
            let cased = match self.text {
                upper if !upper.bytes().any(|byte| byte.is_ascii_lowercase()) => {
                    name.to_ascii_uppercase()
                }
                lower if !lower.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                    name.to_ascii_lowercase()
                }
                _ => name.to_owned(),
            };
            let width = if self.is_short { 0 } else { width };
            let _ = write!(text, "{cased:<width$}");
        };
        let month = usize::try_from(at.month - 1).ok().and_then(|at| MONTHS.get(at));
        let day = usize::try_from(weekday(at.days.unwrap_or_default())).expect("0 to 6");
        let points = self.text.contains('.');
        match self.keyword {
            Keyword::Meridiem => {
                let word = match (at.hour.rem_euclid(24) >= 12, points) {
                    (true, true) => "P.M.",
                    (true, false) => "PM",
                    (false, true) => "A.M.",
                    (false, false) => "AM",
                };
                name(text, word, 0);
            }
            Keyword::Era => {
                let word = match (at.year <= 0 && at.days.is_some(), points) {
                    (true, true) => "B.C.",
                    (true, false) => "BC",
                    (false, true) => "A.D.",
                    (false, false) => "AD",
                };
                name(text, word, 0);
            }
            Keyword::MonthName => {
                if let Some(month) = month {
                    name(text, month, 9);
                }
            }
            Keyword::MonthShort => {
                if let Some(month) = month {
                    name(text, &month[..3], 0);
                }
            }
            Keyword::DayName => name(text, DAYS[day], 9),
            Keyword::DayShort => name(text, &DAYS[day][..3], 0),
            Keyword::RomanMonth => {
                let month = usize::try_from(12 - at.month).ok();
                if let Some(roman) = month.and_then(|at| ROMAN.get(at)) {
                    name(text, roman, 4);
                }
            }
            Keyword::YearWithComma => {
                let year = shown_year(at, at.year);
                let _ = write!(text, "{},{:03}", year / 1_000, year % 1_000);
                self.write_ordinal(year, text);
            }
            Keyword::ZoneName if zoned == Zoned::Utc => name(text, "UTC", 0),
            Keyword::Offset if self.is_short => text.push_str("+0"),
            Keyword::ZoneHours | Keyword::Offset => text.push_str("+00"),
            Keyword::ZoneMinutes => text.push_str("00"),
            _ => {}
        }
    }

    fn write_ordinal(&self, value: i64, text: &mut String) {
        let Some(ordinal) = self.ordinal else { return };
        let (tens, ones) = (value.abs() / 10 % 10, value.abs() % 10);
        let word = match (tens, ones) {
            (1, _) => "th",
            (_, 1) => "st",
            (_, 2) => "nd",
            (_, 3) => "rd",
            _ => "th",
        };
        match ordinal {
            Ordinal::Upper => text.push_str(&word.to_ascii_uppercase()),
            Ordinal::Lower => text.push_str(word),
        }
    }
}

/// Returns the day of the week, 0 for Sunday.
fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

fn first_of(year: i64) -> i64 {
    CivilDate { year, month: 1, day: 1 }.to_days()
}

/// Returns the Monday that a year of the ISO calendar begins with.
pub(crate) fn first_of_iso(year: i64) -> i64 {
    let fourth = first_of(year) + 3;
    fourth - (weekday(fourth) + 6) % 7
}

/// Returns the ISO year of a day: the year of the Thursday of its week.
fn iso_year(days: i64) -> i64 {
    let monday = days - (weekday(days) + 6) % 7;
    CivilDate::from_days(monday + 3).year
}

/// Returns the year as it is written: the one before 1 is 1 BC.
fn shown_year(at: &Moment, year: i64) -> i64 {
    if at.days.is_some() && year <= 0 { 1 - year } else { year }
}

fn year_digits(year: i64, digits: u32) -> Padded {
    Padded { value: year % 10_i64.pow(digits), width: digits as usize }
}

fn century(at: &Moment) -> i64 {
    match at.days {
        None => at.year / 100,
        Some(_) if at.year > 0 => (at.year - 1) / 100 + 1,
        // There is no year 0 in PostgreSQL's calendar.
        Some(_) => at.year / 100 - 1,
    }
}
