//! Parsing of intervals as PostgreSQL does: `1 year 2 mons`, `P1DT2H`, `1 day 02:03:04`.
//!
//! - interval_text-1. A number without a unit counts the unit that the INTERVAL names, and else
//!   seconds.
//! - A fraction of a unit is carried into the smaller ones: half a month is 15 days, half a day 12
//!   hours.
//! - interval_text-2. An interval is shown as PostgreSQL shows it, and its text reads back as the
//!   same interval.
//!
//! Not here: the intervals of `ts IN 'text'` (`types::time_text`).

use std::fmt;

use datafusion::arrow::datatypes::{IntervalMonthDayNano, TimeUnit};

const PER_SECOND: i128 = 1_000_000_000;
const PER_DAY: i128 = 86_400 * PER_SECOND;

/// A unit of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntervalUnit {
    Nanos(i128),
    Days(i64),
    Months(i64),
}

use IntervalUnit::{Days, Months, Nanos};

/// Names of units in lower case, each also with an `s` behind it.
const UNITS: [(&str, IntervalUnit); 39] = [
    ("ns", Nanos(1)),
    ("nanosecond", Nanos(1)),
    ("us", Nanos(1_000)),
    ("usec", Nanos(1_000)),
    ("microsecond", Nanos(1_000)),
    ("ms", Nanos(1_000_000)),
    ("msec", Nanos(1_000_000)),
    ("millisecond", Nanos(1_000_000)),
    ("s", Nanos(PER_SECOND)),
    ("sec", Nanos(PER_SECOND)),
    ("second", Nanos(PER_SECOND)),
    ("m", Nanos(60 * PER_SECOND)),
    ("min", Nanos(60 * PER_SECOND)),
    ("minute", Nanos(60 * PER_SECOND)),
    ("h", Nanos(3_600 * PER_SECOND)),
    ("hr", Nanos(3_600 * PER_SECOND)),
    ("hour", Nanos(3_600 * PER_SECOND)),
    ("d", Days(1)),
    ("day", Days(1)),
    ("w", Days(7)),
    ("week", Days(7)),
    ("mon", Months(1)),
    ("month", Months(1)),
    ("qtr", Months(3)),
    ("quarter", Months(3)),
    ("y", Months(12)),
    ("yr", Months(12)),
    ("year", Months(12)),
    ("dec", Months(120)),
    ("decade", Months(120)),
    ("c", Months(1_200)),
    ("cent", Months(1_200)),
    ("century", Months(1_200)),
    ("centurie", Months(1_200)),
    ("mil", Months(12_000)),
    ("millennia", Months(12_000)),
    ("millennium", Months(12_000)),
    ("usecond", Nanos(1_000)),
    ("msecond", Nanos(1_000_000)),
];

/// Returns the unit with this name.
pub(crate) fn interval_unit(name: &str) -> Option<IntervalUnit> {
    let name = name.to_ascii_lowercase();
    let find = |name: &str| UNITS.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit);
    find(&name).or_else(|| find(name.strip_suffix('s')?))
}

/// Reads an interval; `None` for a text that is none, or is out of range.
pub(crate) fn parse_interval_text(text: &str, bare: IntervalUnit) -> Option<IntervalMonthDayNano> {
    let text = text.trim();
    let total = match text.strip_prefix(['P', 'p']) {
        Some(rest) => iso(rest)?,
        None => verbose(text, bare)?,
    };
    total.value()
}

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    months: i64,
    days: i64,
    nanos: i128,
}

impl Total {
    fn value(self) -> Option<IntervalMonthDayNano> {
        Some(IntervalMonthDayNano {
            months: i32::try_from(self.months).ok()?,
            days: i32::try_from(self.days).ok()?,
            nanoseconds: i64::try_from(self.nanos).ok()?,
        })
    }

    /// Adds so many of a unit.
    fn add(&mut self, number: Number, unit: IntervalUnit) -> Option<()> {
        let sign = if number.is_negative { -1 } else { 1 };
        let whole = number.whole.checked_mul(sign)?;
        // At most 18 digits, so that the products below fit.
        let (part, of) = (i128::from(number.part) * i128::from(sign), i128::from(number.of));
        match unit {
            Nanos(worth) => {
                let nanos = i128::from(whole) * worth + part * worth / of;
                self.nanos = self.nanos.checked_add(nanos)?;
            }
            Days(worth) => {
                self.days = self.days.checked_add(whole.checked_mul(worth)?)?;
                self.add_days(part * i128::from(worth), of)?;
            }
            Months(worth) => {
                let months = part * i128::from(worth);
                let more = i64::try_from(months / of).ok()?;
                let total = self.months.checked_add(whole.checked_mul(worth)?)?;
                self.months = total.checked_add(more)?;
                // In years and longer units, PostgreSQL drops fractions of a month.
                if worth == 1 {
                    self.add_days(months % of * 30, of)?;
                }
            }
        }
        Some(())
    }

    fn add_days(&mut self, part: i128, of: i128) -> Option<()> {
        self.days = self.days.checked_add(i64::try_from(part / of).ok()?)?;
        self.nanos = self.nanos.checked_add(part % of * (PER_DAY / 1_000) / of * 1_000)?;
        Some(())
    }
}

/// `whole + part / of`, with a sign.
#[derive(Debug, Clone, Copy)]
struct Number {
    is_negative: bool,
    whole: i64,
    part: i64,
    of: i64,
}

/// Reads digits, perhaps with a fraction; at least one of them.
fn number(rest: &mut &str) -> Option<Number> {
    let is_negative = rest.starts_with('-');
    let unsigned = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, mut left) = unsigned.split_at(digits(unsigned));
    let mut fraction = "";
    if let Some(behind) = left.strip_prefix('.') {
        (fraction, left) = behind.split_at(digits(behind));
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(12)];
    let part = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    *rest = left;
    let of = 10_i64.pow(u32::try_from(fraction.len()).ok()?);
    Some(Number { is_negative, whole, part, of })
}

/// Reads a number whose sign may stand apart from it: `1 month - 1 day`.
fn signed_number(rest: &mut &str) -> Option<Number> {
    let apart = rest.strip_prefix(['-', '+']).filter(|it| it.starts_with(char::is_whitespace));
    let Some(behind) = apart else { return number(rest) };
    let is_negative = rest.starts_with('-');
    let mut unsigned = behind.trim_start();
    if unsigned.starts_with(['-', '+']) {
        return None;
    }
    let found = number(&mut unsigned)?;
    *rest = unsigned;
    Some(Number { is_negative, ..found })
}

/// Reads `[@] {number unit | number | [+-]hh:mm[:ss] | [+-]years-months} [ago]`.
fn verbose(text: &str, bare: IntervalUnit) -> Option<Total> {
    let mut total = Total::default();
    let mut rest = text.strip_prefix('@').unwrap_or(text).trim_start();
    let mut is_empty = true;
    while !rest.is_empty() {
        if rest.eq_ignore_ascii_case("ago") && !is_empty {
            total = Total {
                months: -total.months,
                days: -total.days,
                nanos: total.nanos.checked_neg()?,
            };
            break;
        }
        is_empty = false;
        let first = signed_number(&mut rest)?;
        if let Some(behind) = rest.strip_prefix(':') {
            rest = behind;
            total.nanos = total.nanos.checked_add(time_of_day(first, &mut rest)?)?;
        } else if let Some(behind) = rest.strip_prefix('-') {
            rest = behind;
            let months = number(&mut rest).filter(|it| it.whole < 12 && it.part == 0)?;
            let months = Number { is_negative: first.is_negative, ..months };
            total.add(first, Months(12))?;
            total.add(months, Months(1))?;
        } else {
            rest = rest.trim_start();
            let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (name, left) = rest.split_at(letters);
            let is_unit = !name.is_empty() && !name.eq_ignore_ascii_case("ago");
            let next = left.split_whitespace().next().filter(|_| !is_unit);
            let unit = match next {
                _ if is_unit => interval_unit(name)?,
                None => bare,
                Some(time) if time.contains(':') => Days(1),
                Some(ago) if ago.eq_ignore_ascii_case("ago") => bare,
                // Only the last number may have no unit.
                Some(_) => return None,
            };
            total.add(first, unit)?;
            rest = if is_unit { left } else { rest };
        }
        let left = rest.trim_start_matches([' ', ',', '\t', '\n']);
        rest = left;
    }
    (!is_empty).then_some(total)
}

/// Reads the part behind the hours: `mm[:ss[.fraction]]`.
fn time_of_day(first: Number, rest: &mut &str) -> Option<i128> {
    if first.part != 0 {
        return None;
    }
    let minutes = number(rest).filter(|it| !it.is_negative)?;
    let seconds = match rest.strip_prefix(':') {
        Some(behind) => {
            *rest = behind;
            Some(number(rest).filter(|it| !it.is_negative)?)
        }
        None => None,
    };
    let nanos = |number: Number, worth: i128| {
        i128::from(number.whole) * worth + i128::from(number.part) * worth / i128::from(number.of)
    };
    let total = match seconds {
        // `1:30.5` is minutes and seconds.
        None if minutes.part != 0 => nanos(first, 60 * PER_SECOND) + nanos(minutes, PER_SECOND),
        seconds => {
            if 59 < minutes.whole || seconds.is_some_and(|it| 60 < it.whole) {
                return None;
            }
            nanos(first, 3_600 * PER_SECOND)
                + nanos(minutes, 60 * PER_SECOND)
                + seconds.map_or(0, |it| nanos(it, PER_SECOND))
        }
    };
    Some(if first.is_negative { -total } else { total })
}

/// Reads the part behind the `P`: `1Y2M3W4DT5H6M7.8S`.
fn iso(text: &str) -> Option<Total> {
    let mut total = Total::default();
    let (mut rest, mut is_time) = (text, false);
    if rest.is_empty() || rest.ends_with(['T', 't']) {
        return None;
    }
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix(['T', 't']).filter(|_| !is_time) {
            (rest, is_time) = (behind, true);
            continue;
        }
        let value = number(&mut rest)?;
        let letter = rest.chars().next()?;
        rest = &rest[letter.len_utf8()..];
        let unit = match (letter.to_ascii_uppercase(), is_time) {
            ('Y', false) => Months(12),
            ('M', false) => Months(1),
            ('W', false) => Days(7),
            ('D', false) => Days(1),
            ('H', true) => Nanos(3_600 * PER_SECOND),
            ('M', true) => Nanos(60 * PER_SECOND),
            ('S', true) => Nanos(PER_SECOND),
            _ => return None,
        };
        total.add(value, unit)?;
    }
    Some(total)
}

/// An interval as PostgreSQL shows it, `1 year 2 mons 3 days 04:05:06.7` (interval_text-2). A
/// positive part behind a negative one has a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalText {
    /// Months, those of years among them.
    pub months: i32,
    /// Days.
    pub days: i64,
    /// The nanoseconds of hours, minutes and seconds.
    pub nanos: i128,
}

impl From<IntervalMonthDayNano> for IntervalText {
    fn from(value: IntervalMonthDayNano) -> IntervalText {
        let IntervalMonthDayNano { months, days, nanoseconds } = value;
        IntervalText { months, days: days.into(), nanos: nanoseconds.into() }
    }
}

impl IntervalText {
    /// The difference of two times, of which whole days are days.
    pub fn of_duration(count: i64, unit: TimeUnit) -> IntervalText {
        let nanos = duration_nanos(count, unit);
        let days = i64::try_from(nanos / PER_DAY).expect("a day has more nanoseconds than a unit");
        IntervalText { months: 0, days, nanos: nanos % PER_DAY }
    }
}

/// The nanoseconds of so many of a unit.
pub(crate) fn duration_nanos(count: i64, unit: TimeUnit) -> i128 {
    let worth = match unit {
        TimeUnit::Second => PER_SECOND,
        TimeUnit::Millisecond => PER_SECOND / 1_000,
        TimeUnit::Microsecond => PER_SECOND / 1_000_000,
        TimeUnit::Nanosecond => 1,
    };
    i128::from(count) * worth
}

impl fmt::Display for IntervalText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (years, months) = (i64::from(self.months / 12), i64::from(self.months % 12));
        let (mut blank, mut is_behind) = ("", false);
        for (count, unit) in [(years, "year"), (months, "mon"), (self.days, "day")] {
            if count != 0 {
                let plus = if is_behind && 0 < count { "+" } else { "" };
                let many = if count == 1 { "" } else { "s" };
                write!(f, "{blank}{plus}{count} {unit}{many}")?;
                (blank, is_behind) = (" ", count < 0);
            }
        }
        if self.nanos == 0 && !blank.is_empty() {
            return Ok(());
        }
        let sign = match self.nanos < 0 {
            true => "-",
            false if is_behind => "+",
            false => "",
        };
        let nanos = self.nanos.abs();
        let (seconds, part) = (nanos / PER_SECOND, nanos % PER_SECOND);
        let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
        write!(f, "{blank}{sign}{hours:02}:{minutes:02}:{:02}", seconds % 60)?;
        if part != 0 {
            let digits = format!("{part:09}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// An interval as a text that says all of it.
pub(crate) fn interval_words(value: IntervalMonthDayNano) -> String {
    let IntervalMonthDayNano { months, days, nanoseconds } = value;
    format!("{months} months {days} days {nanoseconds} nanoseconds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(i32, i32, i64)>) {
        let parsed = parse_interval_text(text, Nanos(PER_SECOND));
        let parsed = parsed.map(|it| (it.months, it.days, it.nanoseconds / 1_000));
        assert_eq!(parsed, expected, "{text}");
    }

    /// The answers are those of PostgreSQL 15, in microseconds.
    #[test]
    fn intervals_are_read_as_by_postgresql() {
        const HOUR: i64 = 3_600_000_000;
        for (text, expected) in [
            ("1 day", (0, 1, 0)),
            ("90", (0, 0, 90_000_000)),
            ("1.5", (0, 0, 1_500_000)),
            ("1 year 2 mons 3 days 04:05:06.789", (14, 3, 14_706_789_000)),
            ("1 day, 2:03:04", (0, 1, 7_384_000_000)),
            ("1-2", (14, 0, 0)),
            ("-1-2", (-14, 0, 0)),
            ("1-2 3 04:05", (14, 3, 4 * HOUR + HOUR / 12)),
            ("1:30.5", (0, 0, 90_500_000)),
            ("1.26 years", (15, 0, 0)),
            ("P1Y2M3DT4H5M6.7S", (14, 3, 14_706_700_000)),
            ("P1W", (0, 7, 0)),
            ("PT-5M", (0, 0, -300_000_000)),
            ("1.5 months", (1, 15, 0)),
            ("1.5 years", (18, 0, 0)),
            ("1.5 days", (0, 1, 12 * HOUR)),
            ("1.5 weeks", (0, 10, 12 * HOUR)),
            ("-1 month +2 days ago", (1, -2, 0)),
            ("@ 1 hour 2 min ago", (0, 0, -3_720_000_000)),
            ("1h30m", (0, 0, HOUR + HOUR / 2)),
            ("-00:30", (0, 0, -HOUR / 2)),
            ("1 day 5", (0, 1, 5_000_000)),
            ("100:00:00", (0, 0, 100 * HOUR)),
            ("2 centuries 1 decade", (2_520, 0, 0)),
            ("1 month - 1 day", (1, -1, 0)),
            ("- 1 day +  2 hours - 00:30", (0, -1, HOUR + HOUR / 2)),
        ] {
            check(text, Some(expected));
        }
        for text in
            ["", "x", "1 x", "day", "ago", "1 2 days", "P", "PT", "1:70", "1:00:70", "1 -", "P1H"]
        {
            check(text, None);
        }
        check("3000000000 days", None);
    }

    /// The texts are those of PostgreSQL 15.
    #[test]
    fn intervals_are_shown_as_by_postgresql() {
        for (text, expected) in [
            ("0", "00:00:00"),
            ("36 hours", "36:00:00"),
            ("1 day 2 hours", "1 day 02:00:00"),
            ("14 months 3 days 04:05:06.7", "1 year 2 mons 3 days 04:05:06.7"),
            ("-1 month +1 day 1 second", "-1 mons +1 day 00:00:01"),
            ("-1 days +1 second", "-1 days +00:00:01"),
            ("-14 months", "-1 years -2 mons"),
            ("1 day -1.5 seconds", "1 day -00:00:01.5"),
            ("100:00:00", "100:00:00"),
        ] {
            let value = parse_interval_text(text, Nanos(PER_SECOND)).unwrap();
            let shown = IntervalText::from(value).to_string();
            assert_eq!(shown, expected, "interval_text-2: {text}");
            assert_eq!(
                parse_interval_text(&shown, Nanos(PER_SECOND)),
                Some(value),
                "interval_text-2: {text}"
            );
        }
        let shown = |count| IntervalText::of_duration(count, TimeUnit::Microsecond).to_string();
        assert_eq!(shown(129_600_000_000), "1 day 12:00:00", "interval_text-2");
        assert_eq!(shown(-129_600_000_001), "-1 days -12:00:00.000001", "interval_text-2");
        assert_eq!(shown(i64::MAX), "106751991 days 04:00:54.775807", "interval_text-2");
    }

    #[test]
    fn a_number_counts_the_unit_of_its_interval() {
        let parsed = parse_interval_text("90", Nanos(60 * PER_SECOND)).unwrap();
        assert_eq!(parsed.nanoseconds, 5_400_000_000_000, "interval_text-1");
        assert_eq!(parse_interval_text("2", Months(12)).unwrap().months, 24, "interval_text-1");
    }
}
