//! Timestamp patterns of the user, and their general matcher.
//!
//! - A pattern gives each field at most once, so that no field of a text is lost.
//! - Steps take as many digits as they may, without backtracking.
//!
//! Fields that a pattern lacks are those of 1970-01-01T00:00:00Z. A day name is skipped: with a
//! date it adds nothing. A day number counts only beside a week. Not here: the two notations, which
//! are in `compile`.

use std::fmt;

use tidegate_model::time::{CivilDate, is_leap_year};

use super::FormatError;
use super::cursor::Cursor;
use super::moment::{Fields, Moment, Offset};
use crate::parse::CellError;

mod compile;

/// A compiled pattern. `Display` gives its original text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    text: String,
    steps: Vec<Step>,
    iso: Option<IsoShape>,
}

/// The next part of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    /// These bytes.
    Literal(Vec<u8>),
    /// A number of `min` to `max` digits.
    Number { field: Field, min: usize, max: usize },
    /// Digits of the fraction: `min` to `width`, the last of which counts `nanos` if all are there.
    Fraction { min: usize, width: usize, nanos: u32 },
    /// An English month name, three letters or the whole.
    MonthName,
    /// An English day name, three letters or the whole.
    DayName,
    /// `am` or `pm`.
    HalfOfDay,
    /// `Z`, `+01`, `+0100`, `+01:00`.
    Offset,
    /// A zone of a fixed offset by name, or an offset.
    Zone,
    /// Any number of spaces and tabs.
    Blanks,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Year,
    /// Two digits of the years 2000 to 2099.
    YearOf2000,
    /// Two digits, of which 69 to 99 are of the last century.
    YearOfPosix,
    /// Two digits of the years 2000 to 2099, or another number of digits as written.
    YearAsWritten,
    Month,
    Day,
    DayOfYear,
    Week,
    DayOfWeek,
    Hour,
    HourOfHalf,
    Minute,
    Second,
}

/// The shape of a pattern whose texts begin like ISO ones, so that the fast path can parse them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct IsoShape {
    separator: u8,
    /// The minimum and the maximum number of fraction digits.
    digits: (usize, usize),
    has_offset: bool,
}

/// The fields that were parsed so far.
#[derive(Clone, Copy, Debug)]
struct ParsedFields {
    fields: Fields,
    day_of_year: Option<u32>,
    week: Option<u32>,
    day_of_week: u32,
    is_afternoon: Option<bool>,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Pattern, FormatError> {
        let steps = compile::steps(text)?;
        Ok(Pattern { text: text.to_owned(), iso: IsoShape::of(&steps), steps })
    }

    /// Returns true if a text can have more than six fraction digits.
    pub(super) fn has_nanos(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Fraction { nanos: 1, .. }))
    }

    /// Returns true if a text has a part of the time of day.
    pub(super) fn has_time(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Number { field, .. } => {
                matches!(field, Field::Hour | Field::HourOfHalf | Field::Minute | Field::Second)
            }
            Step::Fraction { .. } => true,
            _ => false,
        })
    }

    /// Returns true if the fast path may parse its texts, subject to `allows_iso`.
    pub(super) fn is_like_iso(&self) -> bool {
        self.iso.is_some()
    }

    /// Returns true if the pattern gives the same result for a text that the fast path has parsed.
    #[inline]
    pub(super) fn allows_iso(&self, text: &[u8]) -> bool {
        let (Some(shape), Some((prefix, rest))) = (self.iso, text.split_first_chunk::<19>()) else {
            return false;
        };
        let (fraction, has_offset) = match rest {
            [fraction @ .., b'Z'] => (fraction, true),
            _ => (rest, false),
        };
        let digits = fraction.len().saturating_sub(1);
        prefix[10] == shape.separator
            && has_offset == shape.has_offset
            && shape.digits.0 <= digits
            && digits <= shape.digits.1
    }

    /// The general matcher.
    pub(super) fn matches(&self, text: &[u8]) -> Result<Moment, CellError> {
        let mut cursor = Cursor::new(text);
        let mut parsed = ParsedFields::nothing();
        for step in &self.steps {
            parsed.take(step, &mut cursor).ok_or(CellError::NotATimestamp)?;
        }
        if !cursor.is_at_end() {
            return Err(CellError::NotATimestamp);
        }
        parsed.fields().ok_or(CellError::TimeOutOfRange)?.moment()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ParsedFields {
    fn nothing() -> ParsedFields {
        let date = CivilDate { year: 1970, month: 1, day: 1 };
        let fields = Fields { date, hour: 0, minute: 0, second: 0, nanos: 0, offset: Offset::UTC };
        ParsedFields { fields, day_of_year: None, week: None, day_of_week: 1, is_afternoon: None }
    }

    /// Takes a step; `None` if the text does not match.
    fn take(&mut self, step: &Step, cursor: &mut Cursor<'_>) -> Option<()> {
        match step {
            Step::Literal(bytes) => return cursor.eat(bytes).then_some(()),
            Step::Number { field, min, max } => {
                let digits = cursor.digits(*min, *max)?;
                self.set(*field, digits.value, digits.count);
            }
            Step::Fraction { min, width, nanos } => {
                self.fields.nanos += cursor.digits(*min, *width)?.as_fraction(*width) * nanos;
            }
            Step::MonthName => self.fields.date.month = named(cursor, &MONTHS)?,
            Step::DayName => self.day_of_week = named(cursor, &DAYS)?,
            Step::HalfOfDay => {
                let is_morning = cursor.eat_word("am");
                if !is_morning && !cursor.eat_word("pm") {
                    return None;
                }
                self.is_afternoon = Some(!is_morning);
            }
            Step::Offset => self.fields.offset = cursor.offset()?,
            Step::Zone => self.fields.offset = zone(cursor)?,
            Step::Blanks => while cursor.eat(b" ") || cursor.eat(b"\t") {},
        }
        Some(())
    }

    fn set(&mut self, field: Field, value: u32, digits: usize) {
        let fields = &mut self.fields;
        let year = i64::from(value);
        match field {
            Field::Year => fields.date.year = year,
            Field::YearOf2000 => fields.date.year = 2000 + year,
            Field::YearOfPosix => fields.date.year = year + if value < 69 { 2000 } else { 1900 },
            Field::YearAsWritten => fields.date.year = year + if digits == 2 { 2000 } else { 0 },
            Field::Month => fields.date.month = value,
            Field::Day => fields.date.day = value,
            Field::DayOfYear => self.day_of_year = Some(value),
            Field::Week => self.week = Some(value),
            Field::DayOfWeek => self.day_of_week = value,
            Field::Hour | Field::HourOfHalf => fields.hour = value,
            Field::Minute => fields.minute = value,
            Field::Second => fields.second = value,
        }
    }

    /// The fields; `None` if a field is out of the range that it has in its pattern.
    fn fields(&self) -> Option<Fields> {
        let mut fields = self.fields;
        if let Some(is_afternoon) = self.is_afternoon {
            fields.hour = hour_of_half(fields.hour, is_afternoon)?;
        }
        if let Some(day) = self.day_of_year {
            fields.date = date_of_year(fields.date.year, day)?;
        }
        if let Some(week) = self.week {
            fields.date = date_of_week(fields.date.year, week, self.day_of_week)?;
        }
        Some(fields)
    }
}

/// The hour of the day; twelve o'clock is the first hour of its half.
fn hour_of_half(hour: u32, is_afternoon: bool) -> Option<u32> {
    (1..=12).contains(&hour).then(|| hour % 12 + if is_afternoon { 12 } else { 0 })
}

fn date_of_year(year: i64, day: u32) -> Option<CivilDate> {
    let first = CivilDate { year, month: 1, day: 1 }.to_days();
    let is_valid = 1 <= day && day <= 365 + u32::from(is_leap_year(year));
    is_valid.then(|| CivilDate::from_days(first + i64::from(day) - 1))
}

/// The day of an ISO 8601 week: weeks begin on Monday, and the first has the 4th of January.
fn date_of_week(year: i64, week: u32, day: u32) -> Option<CivilDate> {
    let first = first_monday(year);
    let monday = first + (i64::from(week) - 1) * 7;
    let is_valid = 1 <= week && monday < first_monday(year + 1) && (1..=7).contains(&day);
    is_valid.then(|| CivilDate::from_days(monday + i64::from(day) - 1))
}

fn first_monday(year: i64) -> i64 {
    let fourth = CivilDate { year, month: 1, day: 4 }.to_days();
    // 1970-01-01 was a Thursday.
    fourth - (fourth + 3).rem_euclid(7)
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const DAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Takes one of these names, or its first three letters, and returns its number from 1.
fn named(cursor: &mut Cursor<'_>, names: &[&str]) -> Option<u32> {
    let mut letters = *cursor.rest.first_chunk::<3>()?;
    letters.make_ascii_lowercase();
    let position = names.iter().position(|name| name.as_bytes().starts_with(&letters))?;
    // The whole name is taken if it is there.
    if !cursor.eat_word(names[position]) {
        cursor.rest = &cursor.rest[3..];
    }
    u32::try_from(position + 1).ok()
}

/// Parses UTC, the abbreviations to which RFC 2822 (section 4.3) gives an offset, or an offset.
fn zone(cursor: &mut Cursor<'_>) -> Option<Offset> {
    const ZONES: [(&str, u32); 11] = [
        ("UTC", 0),
        ("GMT", 0),
        ("UT", 0),
        ("EDT", 4),
        ("EST", 5),
        ("CDT", 5),
        ("CST", 6),
        ("MDT", 6),
        ("MST", 7),
        ("PDT", 7),
        ("PST", 8),
    ];
    let named = ZONES.iter().find(|(name, _)| cursor.eat_word(name));
    match named {
        Some((_, hours)) => Some(Offset { is_behind: true, hours: *hours, minutes: 0 }),
        None => cursor.offset(),
    }
}

impl IsoShape {
    fn of(steps: &[Step]) -> Option<IsoShape> {
        let fields =
            [Field::Year, Field::Month, Field::Day, Field::Hour, Field::Minute, Field::Second];
        let (prefix, rest) = steps.split_first_chunk::<11>()?;
        let separator = match &prefix[5] {
            Step::Literal(bytes) if bytes == b"T" || bytes == b" " => bytes[0],
            _ => return None,
        };
        for (position, step) in prefix.iter().enumerate() {
            let is_right = match step {
                Step::Number { field, max, .. } => {
                    let width = if position == 0 { 4 } else { 2 };
                    position % 2 == 0 && *field == fields[position / 2] && *max == width
                }
                Step::Literal(bytes) => match position {
                    1 | 3 => bytes == b"-",
                    5 => true,
                    7 | 9 => bytes == b":",
                    _ => false,
                },
                _ => false,
            };
            if !is_right {
                return None;
            }
        }
        let (digits, rest) = fraction_digits(rest)?;
        let has_offset = match rest {
            [] => false,
            [Step::Offset | Step::Zone] => true,
            _ => return None,
        };
        Some(IsoShape { separator, digits, has_offset })
    }
}

/// The possible numbers of digits of a fraction, and the steps behind it.
fn fraction_digits(steps: &[Step]) -> Option<((usize, usize), &[Step])> {
    let [Step::Literal(point), fractions @ ..] = steps else {
        return Some(((0, 0), steps));
    };
    if point != b"." {
        return None;
    }
    let mut digits = (0, 0);
    let mut rest = fractions;
    while let [Step::Fraction { min, width, nanos }, behind @ ..] = rest {
        // Each part must begin where the one before it always ends.
        let begins_at = 9 - nanos.ilog10() as usize - width;
        if digits != (begins_at, begins_at) {
            return None;
        }
        digits = (digits.1 + min, digits.1 + width);
        rest = behind;
    }
    (digits != (0, 0)).then_some((digits, rest))
}
