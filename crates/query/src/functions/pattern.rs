//! QuestDB's patterns of times: `yyyy-MM-ddTHH:mm:ss.SSSUUUZ`.
//!
//! - pattern-1. A time written with a pattern that has a full date and time is read back by it
//!   unchanged.
//! - pattern-2. A field has at most `FIELD_LETTERS` letters: its width is one that can be written,
//!   and its number fits in 32 bits.
//!
//! The tokens are those of imports; there, patterns are compiled for speed (`ingest`).

use std::fmt::Write;

use tidegate_model::TimeUnit;
use tidegate_model::time::{CivilDate, days_in_month};

use crate::error::ClauseProblem;
use crate::types::zone::Zone;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The maximal number of letters of a field: as many digits as a fraction in nanoseconds has.
const FIELD_LETTERS: usize = 9;

/// A pattern, split into its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Token {
    /// A letter, repeated so many times, perhaps with a `+`.
    Field { letter: char, count: usize, is_greedy: bool },
    /// A character that stands for itself.
    Literal(char),
    /// The whole pattern: an integer since 1970, in a unit of which a second has so many.
    Epoch { per_second: i64 },
}

/// Patterns that are integers, with the number of their units in a second.
const EPOCHS: [(&str, i64); 4] =
    [("epoch_s", 1), ("epoch_ms", 1_000), ("epoch_us", 1_000_000), ("epoch_ns", 1_000_000_000)];

/// A time in parts.
#[derive(Debug, Clone, Copy)]
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    /// The day of the year, in place of month and day.
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: i64,
    /// The half of the day, for hours of 1 to 12.
    is_afternoon: Option<bool>,
    /// Seconds east of UTC.
    offset: i64,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Pattern, ClauseProblem> {
        if let Some((_, per_second)) = EPOCHS.iter().find(|(name, _)| *name == text) {
            return Ok(Pattern { tokens: vec![Token::Epoch { per_second: *per_second }] });
        }
        let mut tokens = Vec::new();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            if letter == '\'' {
                while let Some(inner) = letters.next().filter(|inner| *inner != '\'') {
                    tokens.push(Token::Literal(inner));
                }
            } else if "yMdDHhamsSUNZxzEuw".contains(letter) {
                let mut count = 1;
                while letters.next_if_eq(&letter).is_some() {
                    count += 1;
                }
                if FIELD_LETTERS < count {
                    return Err(ClauseProblem::PatternField { letter, most: FIELD_LETTERS });
                }
                let is_greedy = letters.next_if_eq(&'+').is_some();
                tokens.push(Token::Field { letter, count, is_greedy });
            } else {
                tokens.push(Token::Literal(letter));
            }
        }
        Ok(Pattern { tokens })
    }

    /// Writes a time as text, in UTC.
    pub(super) fn format(&self, instant: i64, unit: TimeUnit, text: &mut String) {
        let date = CivilDate::from_days(instant.div_euclid(unit.per_day()));
        let of_day = instant.rem_euclid(unit.per_day());
        let second = of_day / unit.per_second();
        let nanos = of_day % unit.per_second() * (1_000_000_000 / unit.per_second());
        let hour = second / 3_600;
        let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
        let days = instant.div_euclid(unit.per_day());
        let day_number = (days + 3).rem_euclid(7);
        let first_of = |year: i64| CivilDate { year, month: 1, day: 1 }.to_days();
        // A week belongs to the year of its Thursday.
        let thursday = days - day_number + 3;
        let week = (thursday - first_of(CivilDate::from_days(thursday).year)) / 7 + 1;
        let weekday = DAYS[usize::try_from(day_number).expect("0 to 6")];
        let month = MONTHS[usize::try_from(date.month - 1).expect("0 to 11")];
        for token in &self.tokens {
            let (letter, count) = match token {
                Token::Literal(letter) => {
                    text.push(*letter);
                    continue;
                }
                Token::Epoch { per_second } => {
                    let of_epoch = i128::from(instant) * i128::from(*per_second);
                    let value = of_epoch.div_euclid(i128::from(unit.per_second()));
                    let _ = write!(text, "{value}");
                    continue;
                }
                Token::Field { letter, count, .. } => (*letter, *count),
            };
            // Writing to a String cannot fail.
            let _ = match (letter, count) {
                ('y', 2) => write!(text, "{:02}", date.year.rem_euclid(100)),
                ('y', width) => write!(text, "{:0width$}", date.year),
                ('M', 3) => write!(text, "{}", &month[..3]),
                ('M', 4..) => write!(text, "{month}"),
                ('M', width) => write!(text, "{:0width$}", date.month),
                ('d', width) => write!(text, "{:0width$}", date.day),
                ('D', width) => write!(text, "{:0width$}", days - first_of(date.year) + 1),
                ('u', _) => write!(text, "{}", day_number + 1),
                ('w', width) => write!(text, "{week:0width$}"),
                ('E', 4..) => write!(text, "{weekday}"),
                ('E', _) => write!(text, "{}", &weekday[..3]),
                ('H', width) => write!(text, "{hour:0width$}"),
                ('h', width) => write!(text, "{twelve:0width$}"),
                ('a', _) => write!(text, "{}", if hour < 12 { "AM" } else { "PM" }),
                ('m', width) => write!(text, "{:0width$}", second / 60 % 60),
                ('s', width) => write!(text, "{:0width$}", second % 60),
                ('S', width) => write!(text, "{:0width$}", nanos / 1_000_000),
                ('U', width) => write!(text, "{:0width$}", nanos / 1_000 % 1_000),
                ('N', width) => write!(text, "{:0width$}", nanos % 1_000),
                _ => write!(text, "Z"),
            };
        }
    }

    /// Returns the instant of a text; `None` if the pattern does not match all of it, or the
    /// calendar has no such time. Parts that are not in the pattern are those of 1970-01-01T00:00Z.
    pub(super) fn parse(&self, text: &str, unit: TimeUnit) -> Option<i64> {
        let mut parts = Parts {
            year: 1970,
            month: 1,
            day: 1,
            day_of_year: None,
            hour: 0,
            minute: 0,
            second: 0,
            nanos: 0,
            is_afternoon: None,
            offset: 0,
        };
        let mut rest = text;
        for token in &self.tokens {
            match token {
                Token::Literal(letter) => rest = rest.strip_prefix(*letter)?,
                Token::Epoch { per_second } => return of_epoch(text, *per_second, unit),
                Token::Field { letter, count, is_greedy } => {
                    rest = parts.read(rest, *letter, *count, *is_greedy)?;
                }
            }
        }
        if rest.is_empty() { parts.instant(unit) } else { None }
    }
}

impl Parts {
    /// Reads one field, and returns the rest of the text.
    fn read<'a>(
        &mut self,
        text: &'a str,
        letter: char,
        count: usize,
        is_greedy: bool,
    ) -> Option<&'a str> {
        let (least, most) = match (letter, count, is_greedy) {
            ('U', _, true) => (1, 6),
            ('N', _, true) => (1, 9),
            ('y', 1, _) => (1, 9),
            ('S' | 'U' | 'N' | 'D', 1, _) => (1, 3),
            ('u', ..) => (1, 1),
            (_, 1, _) => (1, 2),
            (_, count, _) => (count, count),
        };
        match (letter, count) {
            ('M', 3) => return named(text, MONTHS.map(|name| &name[..3]), &mut self.month),
            ('M', 4..) => return named(text, MONTHS, &mut self.month),
            ('E', 4..) => return named(text, DAYS, &mut 0),
            ('E', _) => return named(text, DAYS.map(|name| &name[..3]), &mut 0),
            ('a', _) => {
                let half = text.get(..2)?;
                self.is_afternoon = Some(half.eq_ignore_ascii_case("PM"));
                let is_half = half.eq_ignore_ascii_case("AM") || half.eq_ignore_ascii_case("PM");
                return is_half.then(|| &text[2..]);
            }
            ('Z' | 'x' | 'z', _) => return self.read_zone(text),
            _ => {}
        }
        let digits = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if digits < least {
            return None;
        }
        let (number, rest) = text.split_at(digits);
        let value = number.parse::<i64>().ok()?;
        // Digits of a fraction count from the left.
        let worth = |first: u32| {
            let digits = u32::try_from(digits).expect("at most 9");
            value * 10_i64.pow(first.saturating_sub(digits))
        };
        match letter {
            'y' => self.year = if count == 2 { 2_000 + value } else { value },
            'M' => self.month = value,
            'd' => self.day = value,
            'D' => self.day_of_year = Some(value),
            // They follow from the date.
            'u' | 'w' => {}
            'H' => self.hour = value,
            'h' => {
                if !(1..=12).contains(&value) {
                    return None;
                }
                self.hour = value % 12;
                self.is_afternoon = self.is_afternoon.or(Some(false));
            }
            'm' => self.minute = value,
            's' => self.second = value,
            'S' => self.nanos = self.nanos.checked_add(value * 1_000_000)?,
            'U' | 'N' if is_greedy => self.nanos = self.nanos.checked_add(worth(9))?,
            'U' => self.nanos = self.nanos.checked_add(value * 1_000)?,
            _ => self.nanos = self.nanos.checked_add(value)?,
        }
        Some(rest)
    }

    /// Reads `Z`, an offset or the name of a zone.
    fn read_zone<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-:/_".contains(c);
        let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
        let zone = Zone::parse(&text[..end])?;
        self.offset = match zone {
            Zone::Fixed(offset) => offset,
            Zone::Named(_) => {
                let local = self.instant(TimeUnit::Micros)?.div_euclid(1_000_000);
                local - zone.to_utc(local)
            }
        };
        Some(&text[end..])
    }

    fn instant(&self, unit: TimeUnit) -> Option<i64> {
        let month = u32::try_from(self.month).ok().filter(|month| (1..=12).contains(month))?;
        let day = u32::try_from(self.day).ok()?;
        let is_day = (1..=days_in_month(self.year, month)).contains(&day);
        let hour = self.hour + if self.is_afternoon == Some(true) { 12 } else { 0 };
        let days_of_year = 337 + i64::from(days_in_month(self.year, 2));
        let is_day = match self.day_of_year {
            Some(day) => (1..=days_of_year).contains(&day),
            None => is_day,
        };
        if !is_day || hour > 23 || self.minute > 59 || self.second > 59 {
            return None;
        }
        let days = match self.day_of_year {
            Some(day) => CivilDate { year: self.year, month: 1, day: 1 }.to_days() + day - 1,
            None => CivilDate { year: self.year, month, day }.to_days(),
        };
        let seconds = days * 86_400 + (hour * 60 + self.minute) * 60 + self.second - self.offset;
        let fraction = self.nanos / (1_000_000_000 / unit.per_second());
        seconds.checked_mul(unit.per_second())?.checked_add(fraction)
    }
}

/// Returns the instant of an integer since 1970, in a unit of which a second has so many.
fn of_epoch(text: &str, per_second: i64, unit: TimeUnit) -> Option<i64> {
    let scaled = i128::from(text.parse::<i64>().ok()?) * i128::from(unit.per_second());
    i64::try_from(scaled.div_euclid(i128::from(per_second))).ok()
}

/// Reads a name from a list, in any case, and sets its number, counted from 1.
fn named<'a, const N: usize>(text: &'a str, names: [&str; N], number: &mut i64) -> Option<&'a str> {
    let is_it =
        |name: &&str| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let at = names.iter().position(is_it)?;
    *number = i64::try_from(at).expect("a short list") + 1;
    Some(&text[names[at].len()..])
}

#[cfg(test)]
mod tests {
    use tidegate_model::Timestamp;
    use tidegate_model::time::IsoTimestamp;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: &str) {
        let parsed = Pattern::new(pattern).unwrap().parse(text, TimeUnit::Micros);
        let shown = parsed.map_or_else(
            || "none".to_owned(),
            |instant| IsoTimestamp(Timestamp(instant), TimeUnit::Micros).to_string(),
        );
        assert_eq!(shown, expected, "{text} by {pattern}");
    }

    #[test]
    fn texts_are_read_by_their_pattern() {
        check("yyyy-MM-dd", "2025-03-01", "2025-03-01T00:00:00.000000Z");
        check("dd/MM/yy HH:mm", "01/03/25 14:05", "2025-03-01T14:05:00.000000Z");
        check("MMM d, yyyy hh:mm a", "Mar 1, 2025 02:05 PM", "2025-03-01T14:05:00.000000Z");
        check(
            "yyyy-MM-ddTHH:mm:ss.SSSUUUZ",
            "2025-03-01T14:05:06.123456Z",
            "2025-03-01T14:05:06.123456Z",
        );
        check(
            "yyyy-MM-ddTHH:mm:ss.U+x",
            "2025-03-01T14:05:06.12+02:00",
            "2025-03-01T12:05:06.120000Z",
        );
        check(
            "yyyy-MM-dd HH:mm z",
            "2025-07-01 12:00 Europe/Berlin",
            "2025-07-01T10:00:00.000000Z",
        );
        check("'day' yyyy-MM-dd", "day 2024-02-29", "2024-02-29T00:00:00.000000Z");
        check("hh a", "12 am", "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn texts_that_do_not_match_are_none() {
        check("yyyy-MM-dd", "2025-02-29", "none");
        check("yyyy-MM-dd", "2025-02-2", "none");
        check("yyyy-MM-dd", "2025-02-20 ", "none");
        check("HH:mm", "24:00", "none");
        check("hh a", "13 pm", "none");
        check("MMM", "Foo", "none");
    }

    #[test]
    fn a_formatted_timestamp_parses_to_itself() {
        let pattern = Pattern::new("EEEE dd MMMM yyyy HH:mm:ss.SSSUUUNNN").unwrap();
        for instant in [0, 1_740_787_200_123_456_789, 951_782_400_000_000_001, -1] {
            let mut text = String::new();
            pattern.format(instant, TimeUnit::Nanos, &mut text);
            assert_eq!(pattern.parse(&text, TimeUnit::Nanos), Some(instant), "pattern-1: {text}");
        }
        let mut text = String::new();
        let pattern = Pattern::new("yy/M/d h a E").unwrap();
        pattern.format(1_740_837_600_000_000, TimeUnit::Micros, &mut text);
        assert_eq!(text, "25/3/1 2 PM Sat");
    }

    // The letters of a field are the width of its number. A width of 65,536 is more than Rust
    // formats, and the statement failed by a panic; digits of longer fields overflowed 64 bits.
    #[test]
    fn fields_of_more_than_nine_letters_are_refused() {
        for letter in "yMdDHhamsSUNZxzEuw".chars() {
            let field = |count: usize| Pattern::new(&letter.to_string().repeat(count));
            assert!(field(9).is_ok(), "pattern-2: {letter}");
            let problem = Err(ClauseProblem::PatternField { letter, most: 9 });
            assert_eq!(field(10), problem, "pattern-2");
            assert_eq!(field(65_536), problem, "pattern-2");
        }
        assert!(Pattern::new("yyyyyyyyy-'yyyyyyyyyyyyyyyyyyyy'----------").is_ok());
        check("yyyyyyyyy", "999999999", "none");
        check(&"SSSSSSSSS ".repeat(20_000), &"999999999 ".repeat(20_000), "none");
    }
}
