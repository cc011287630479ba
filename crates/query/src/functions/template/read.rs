//! Parsing texts as times.
//!
//! - For a separator or a space in the pattern, the text may have another one, or none; with FX it
//!   has exactly one character there. A text that is longer than its pattern, or shorter, is read
//!   as far as both go, as in PostgreSQL.

use PatternProblem::{Conflict, Form, FormatOnly, NotInCalendar};
use tidegate_model::time::{CivilDate, days_in_month};

use super::keywords::{DAYS, JULIAN_OF_1970, Keyword, MONTHS, ROMAN};
use super::write::first_of_iso;
use super::{Field, Part, Template, is_separator};
use crate::error::PatternProblem;

type Read<T> = Result<T, PatternProblem>;

/// The parts of a time that were read from a text.
#[derive(Debug, Clone, Copy, Default)]
struct ParsedFields {
    year: Option<i64>,
    year_digits: u32,
    iso_year: Option<i64>,
    century: Option<i64>,
    is_bc: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_day_of_year: Option<i64>,
    day_of_week: Option<i64>,
    iso_day_of_week: Option<i64>,
    week_of_year: Option<i64>,
    iso_week: Option<i64>,
    week_of_month: Option<i64>,
    julian: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    second_of_day: Option<i64>,
    millis: Option<i64>,
    micros: Option<i64>,
    is_12_hours: bool,
    is_afternoon: Option<i64>,
    zone_sign: i64,
    zone_hours: Option<i64>,
    zone_minutes: Option<i64>,
    /// The number of digits that the fraction is rounded to.
    fraction_digits: Option<u32>,
}

impl Template {
    /// Reads a time: microseconds since 1970.
    pub(crate) fn read(&self, text: &str) -> Read<i64> {
        let mut parsed = ParsedFields { zone_sign: 1, ..ParsedFields::default() };
        let (mut rest, mut skipped) = (text, 0_i64);
        for (at, part) in self.parts.iter().enumerate() {
            if rest.is_empty() {
                break;
            }
            if !self.is_exact && (at == 0 || matches!(part, Part::Field(_))) {
                skipped += skip_spaces(&mut rest);
            }
            match part {
                Part::Space | Part::Separator(_) if !self.is_exact => {
                    skipped -= 1;
                    let is_one = |letter: char| letter.is_whitespace() || is_separator(letter);
                    if let Some(behind) = rest.strip_prefix(is_one) {
                        (rest, skipped) = (behind, skipped + 1);
                    }
                }
                Part::Text(_) if !self.is_exact && 0 < skipped => skipped -= 1,
                Part::Space | Part::Separator(_) | Part::Text(_) => rest = without_first(rest),
                Part::Field(field) => {
                    let slurps = field.is_short || self.ends_behind(at);
                    // A sign that was skipped as a separator.
                    let before = &text[..text.len() - rest.len()];
                    if 0 < skipped && before.ends_with('-') && parsed.zone_hours.is_none() {
                        parsed.zone_sign = -1;
                    }
                    parsed.field(field, slurps, &mut rest)?;
                    if field.ordinal.is_some() {
                        rest = without_first(without_first(rest));
                    }
                    if !self.is_exact {
                        skipped = skip_spaces(&mut rest);
                    }
                }
            }
        }
        parsed.instant()
    }

    /// Returns true if no digit can follow a field, so that it may have any number of them.
    fn ends_behind(&self, at: usize) -> bool {
        if let Some(Part::Field(Field { ordinal: Some(_), .. })) = self.parts.get(at) {
            return true;
        }
        match self.parts.get(at + 1) {
            None => true,
            Some(Part::Field(next)) => !next.keyword.is_digits(),
            Some(Part::Text(letter) | Part::Separator(letter)) => !letter.is_ascii_digit(),
            Some(Part::Space) => true,
        }
    }
}

fn skip_spaces(rest: &mut &str) -> i64 {
    let before = rest.chars().count();
    *rest = rest.trim_start();
    i64::try_from(before - rest.chars().count()).unwrap_or(i64::MAX)
}

fn without_first(text: &str) -> &str {
    let mut letters = text.chars();
    letters.next();
    letters.as_str()
}

/// Reads an integer of at most `most` characters, and returns it with their number; any number of
/// them if `slurps`.
fn integer(field: &Field, most: usize, slurps: bool, rest: &mut &str) -> Read<(i64, usize)> {
    let form = Form { field: field.text };
    *rest = rest.trim_start();
    let sign = usize::from(rest.starts_with(['-', '+']));
    let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let found = sign + digits;
    let used = match slurps {
        true => found,
        false if rest.chars().count() < most || found < most => return Err(form),
        false => most,
    };
    if digits == 0 {
        return Err(form);
    }
    let (number, behind) = rest.split_at(used);
    let number = number.strip_prefix('+').unwrap_or(number).parse::<i32>().map_err(|_| form)?;
    *rest = behind;
    Ok((number.into(), used))
}

/// Reads a name of a list in any case, and returns its index.
fn name(field: &Field, names: &[&str], rest: &mut &str) -> Read<i64> {
    let begins =
        |name: &&str| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let at = names.iter().position(begins).ok_or(Form { field: field.text })?;
    *rest = &rest[names[at].len()..];
    i64::try_from(at).map_err(|_| NotInCalendar)
}

fn set(place: &mut Option<i64>, value: i64, field: &Field) -> Read<()> {
    if place.is_some_and(|known| known != value) {
        return Err(Conflict { field: field.text });
    }
    *place = Some(value);
    Ok(())
}

impl ParsedFields {
    fn field(&mut self, field: &Field, slurps: bool, rest: &mut &str) -> Read<()> {
        let most = match field.keyword {
            Keyword::Quarter | Keyword::WeekOfMonth => 1,
            Keyword::DayOfWeek | Keyword::IsoDayOfWeek => 1,
            Keyword::Millis | Keyword::DayOfYear | Keyword::IsoDayOfYear => 3,
            Keyword::Micros => 6,
            Keyword::SecondOfDay => 5,
            Keyword::Julian => 7,
            Keyword::Fraction(digits) | Keyword::Year(digits) | Keyword::IsoYear(digits) => {
                digits as usize
            }
            _ => 2,
        };
        let place = match field.keyword {
            Keyword::Hour12 => {
                self.is_12_hours = true;
                &mut self.hour
            }
            Keyword::Hour24 => &mut self.hour,
            Keyword::Minute => &mut self.minute,
            Keyword::Second => &mut self.second,
            Keyword::SecondOfDay => &mut self.second_of_day,
            Keyword::Month => &mut self.month,
            Keyword::Day => &mut self.day,
            Keyword::DayOfYear => &mut self.day_of_year,
            Keyword::IsoDayOfYear => &mut self.iso_day_of_year,
            Keyword::DayOfWeek => &mut self.day_of_week,
            Keyword::IsoDayOfWeek => &mut self.iso_day_of_week,
            Keyword::WeekOfYear => &mut self.week_of_year,
            Keyword::WeekOfMonth => &mut self.week_of_month,
            Keyword::IsoWeek => &mut self.iso_week,
            Keyword::Century => &mut self.century,
            Keyword::Julian => &mut self.julian,
            Keyword::ZoneMinutes => &mut self.zone_minutes,
            Keyword::Quarter => {
                integer(field, most, slurps, rest)?;
                return Ok(());
            }
            _ => return self.other_field(field, most, slurps, rest),
        };
        let (value, _) = integer(field, most, slurps, rest)?;
        set(place, value, field)
    }

    fn other_field(
        &mut self,
        field: &Field,
        most: usize,
        slurps: bool,
        rest: &mut &str,
    ) -> Read<()> {
        match field.keyword {
            Keyword::Millis | Keyword::Micros | Keyword::Fraction(_) => {
                let (value, used) = integer(field, most, slurps, rest)?;
                if let Keyword::Fraction(digits) = field.keyword {
                    self.fraction_digits = Some(digits);
                }
                let is_millis = field.keyword == Keyword::Millis;
                let digits = if is_millis { 3 } else { 6 };
                let missing = u32::try_from(digits - used.min(digits)).expect("at most 6");
                let place = if is_millis { &mut self.millis } else { &mut self.micros };
                set(place, value * 10_i64.pow(missing), field)
            }
            Keyword::Year(digits) => {
                let (value, used) = integer(field, most, slurps, rest)?;
                self.year_digits = digits;
                let value = if digits < 4 && used < 4 { of_2020(value, used) } else { value };
                set(&mut self.year, value, field)
            }
            Keyword::IsoYear(digits) => {
                let (value, used) = integer(field, most, slurps, rest)?;
                let value = if digits < 4 && used < 4 { of_2020(value, used) } else { value };
                set(&mut self.iso_year, value, field)
            }
            Keyword::YearWithComma => {
                let (thousands, _) = integer(field, 9, true, rest)?;
                *rest = rest.strip_prefix(',').ok_or(Form { field: field.text })?;
                let (year, _) = integer(field, 3, false, rest)?;
                set(&mut self.year, thousands * 1_000 + year, field)
            }
            Keyword::Meridiem | Keyword::Era | Keyword::ZoneHours => {
                self.sign(field, most, slurps, rest)
            }
            Keyword::MonthName => {
                let month = name(field, &MONTHS, rest)? + 1;
                set(&mut self.month, month, field)
            }
            Keyword::MonthShort => {
                let month = name(field, &MONTHS.map(|name| &name[..3]), rest)? + 1;
                set(&mut self.month, month, field)
            }
            Keyword::DayName => {
                let day = name(field, &DAYS, rest)? + 1;
                set(&mut self.day_of_week, day, field)
            }
            Keyword::DayShort => {
                let day = name(field, &DAYS.map(|name| &name[..3]), rest)? + 1;
                set(&mut self.day_of_week, day, field)
            }
            Keyword::RomanMonth => {
                let month = 12 - name(field, &ROMAN, rest)?;
                set(&mut self.month, month, field)
            }
            _ => Err(FormatOnly { field: field.text }),
        }
    }

    /// Reads fields that modify others: the half of a day, the era, the side of UTC.
    fn sign(&mut self, field: &Field, most: usize, slurps: bool, rest: &mut &str) -> Read<()> {
        match field.keyword {
            Keyword::Meridiem => {
                let words: &[&str] =
                    if field.text.contains('.') { &["A.M.", "P.M."] } else { &["AM", "PM"] };
                self.is_12_hours = true;
                let half = name(field, words, rest)?;
                set(&mut self.is_afternoon, half, field)
            }
            Keyword::Era => {
                let points = field.text.contains('.');
                let words: &[&str] = if points { &["A.D.", "B.C."] } else { &["AD", "BC"] };
                self.is_bc = name(field, words, rest)? == 1;
                Ok(())
            }
            Keyword::ZoneHours => {
                if rest.starts_with(['-', '+', ' ']) {
                    self.zone_sign = if rest.starts_with('-') { -1 } else { 1 };
                }
                *rest = rest.strip_prefix(['-', '+', ' ']).unwrap_or(rest);
                let (hours, _) = integer(field, most, slurps, rest)?;
                set(&mut self.zone_hours, hours, field)
            }
            _ => Err(FormatOnly { field: field.text }),
        }
    }

    fn instant(&self) -> Read<i64> {
        let days = self.days()?;
        let (mut hour, mut minute, mut second) =
            (self.hour.unwrap_or(0), self.minute.unwrap_or(0), self.second.unwrap_or(0));
        if let Some(total) = self.second_of_day {
            (hour, minute, second) = (total / 3_600, total % 3_600 / 60, total % 60);
        }
        if self.is_12_hours {
            if !(1..=12).contains(&hour) && (self.hour.is_some() || self.is_afternoon.is_none()) {
                return Err(NotInCalendar);
            }
            hour = match self.is_afternoon {
                Some(1) if hour < 12 => hour + 12,
                Some(1) => hour,
                _ if hour == 12 => 0,
                _ => hour,
            };
        }
        let in_clock = (0..24).contains(&hour) && (0..60).contains(&minute);
        if !(in_clock && (0..60).contains(&second)) {
            return Err(NotInCalendar);
        }
        let fraction = self.millis.unwrap_or(0) * 1_000 + self.micros.unwrap_or(0);
        let (zone_hours, zone_minutes) =
            (self.zone_hours.unwrap_or(0), self.zone_minutes.unwrap_or(0));
        let in_zone = (0..=15).contains(&zone_hours) && (0..60).contains(&zone_minutes);
        if !(0..1_000_000).contains(&fraction) || !in_zone {
            return Err(NotInCalendar);
        }
        let scale = 10_i64.pow(6 - self.fraction_digits.unwrap_or(6));
        let fraction = (fraction + scale / 2) / scale * scale;
        let zone = zone_hours * 60 + zone_minutes;
        let seconds = hour * 3_600 + minute * 60 + second - self.zone_sign * zone * 60;
        let of_days = days.checked_mul(86_400_000_000).ok_or(NotInCalendar)?;
        of_days.checked_add(seconds * 1_000_000 + fraction).ok_or(NotInCalendar)
    }

    /// Returns the year in the calendar that has a year 0.
    fn year(&self) -> i64 {
        let bc = |year: i64| if self.is_bc && 0 < year { 1 - year } else { year };
        match (self.year, self.century) {
            (Some(year), Some(century)) if self.year_digits <= 2 => {
                let of_century = year % 100;
                let first = if self.is_bc { -century * 100 } else { (century - 1) * 100 };
                bc(first + if of_century == 0 { 100 } else { of_century })
            }
            // A year that is written as negative is one before 1 too.
            (Some(year), _) if year < 0 => year + 1,
            (Some(year), _) => bc(year),
            (None, Some(century)) if self.is_bc => 1 - century * 100,
            (None, Some(century)) => (century - 1) * 100 + 1,
            (None, None) => 0,
        }
    }

    fn days(&self) -> Read<i64> {
        if let Some(julian) = given(self.julian) {
            return Ok(julian - JULIAN_OF_1970);
        }
        if let Some(year) = self.iso_year.filter(|_| self.says_iso_day()) {
            return Ok(self.iso_days(year));
        }
        let year = match (self.year, self.iso_year) {
            (None, Some(year)) => year,
            _ => self.year(),
        };
        if !(-4_712..=294_276).contains(&year) {
            return Err(NotInCalendar);
        }
        let first = CivilDate { year, month: 1, day: 1 }.to_days();
        let month = given(self.month);
        let day = match (given(self.day), given(self.week_of_month)) {
            (Some(day), _) => Some(day),
            (None, Some(week)) => Some((week - 1) * 7 + 1),
            (None, None) => None,
        };
        let of_week = given(self.week_of_year).map(|week| (week - 1) * 7 + 1);
        let of_year = of_week.or(given(self.day_of_year));
        if let Some(number) = of_year.filter(|_| month.is_none() || day.is_none()) {
            if given(self.year).is_none() {
                return Err(NotInCalendar);
            }
            let of_year = 337 + i64::from(days_in_month(year, 2));
            return match (1..=of_year).contains(&number) {
                true => Ok(first + number - 1),
                false => Err(NotInCalendar),
            };
        }
        let number = |value: i64| u32::try_from(value).map_err(|_| NotInCalendar);
        let (month, day) = (number(month.unwrap_or(1))?, number(day.unwrap_or(1))?);
        if !(1..=12).contains(&month) || day == 0 || days_in_month(year, month) < day {
            return Err(NotInCalendar);
        }
        Ok(CivilDate { year, month, day }.to_days())
    }

    fn says_iso_day(&self) -> bool {
        given(self.iso_day_of_year).is_some() || given(self.iso_week).is_some()
    }

    fn iso_days(&self, year: i64) -> i64 {
        let first = first_of_iso(year);
        if let Some(number) = given(self.iso_day_of_year) {
            return first + number - 1;
        }
        // With `D`, Sunday is 1.
        let of_name = self.day_of_week.map(|day| if day == 1 { 7 } else { day - 1 });
        let day = given(self.iso_day_of_week).or(of_name).unwrap_or(1);
        first + (self.iso_week.unwrap_or(1) - 1) * 7 + day - 1
    }
}

/// Returns a part that was read; PostgreSQL takes 0 in a date for an absent part.
fn given(number: Option<i64>) -> Option<i64> {
    number.filter(|number| *number != 0)
}

/// Returns the year near 2020 that ends in these digits.
fn of_2020(year: i64, digits: usize) -> i64 {
    match year {
        _ if digits >= 4 => year,
        0..70 => year + 2_000,
        70..100 => year + 1_900,
        100..520 => year + 2_000,
        520..1_000 => year + 1_000,
        _ => year,
    }
}
