//! Parsers of times and intervals in texts: `'2025-03'`, `'2025-03-01T09:30;1h'`.
//!
//! - A date has hyphens or none: `2025-03-01`, `20250301`; a time of day has colons or none.
//! - A year has four digits, or up to seven before a hyphen: a DATE reaches the year 5881580.
//! - A zone is `Z`, `UTC`, `GMT` or an offset, with a blank before it or none. A DATE without a
//!   time of day ignores it, as in PostgreSQL.
//! - A partial time means the start of its period; as an interval it is the whole period.
//! - Brackets list alternatives: `2025-01-[01,03..05]`.
//! - A time with more digits than its type has is rounded half up; digits after the ninth are
//!   ignored.
//! - The ranges of an interval ascend and do not touch.
//!
//! Not here: the many forms of times in files (`ingest`), and the use of intervals
//! (`plan::coerce`).

use tidegate_model::time::{CivilDate, days_in_month};
use tidegate_model::{ColumnType, TimeRange, TimeUnit};

use crate::error::TextProblem;
use crate::limits::WINDOWS_MAX;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND;
/// The length of 64 bits of microseconds: sums of such lengths stay far below 128 bits.
const DURATION_NANOS_MAX: i128 = i64::MAX as i128 * 1_000;
/// More than the last year of every type, and far less than a calendar of 64 bits has.
const YEAR_MAX: i64 = 6_000_000;
/// The lists in an interval's text: as many as a time has parts, twice.
const BRACKETS_MAX: usize = 16;
/// The bytes of an item of such a list: two numbers, or a date and a time.
const ITEM_BYTES_MAX: usize = 32;
/// The bytes of the text outside of its lists.
const OUTSIDE_BYTES_MAX: usize = 256;
const TIME_FORM: TextProblem =
    TextProblem::Form { expected: "a time like 2025-03-01T09:30:00.123456Z or a part of it" };
const INTERVAL_FORM: TextProblem = TextProblem::Form {
    expected: "a time, perhaps with ;duration and ;step;count behind it, like 2025-03-01T09:30;1h",
};

/// A period of time that a text names: a year, a day, a second, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    /// Its first instant, in nanoseconds since 1970.
    start: i128,
    /// One past its last instant.
    end: i128,
}

/// The unit of times: that of a timestamp column, or days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeScale {
    Unit(TimeUnit),
    Days,
}

impl TimeScale {
    /// The scale of a type that holds times.
    pub(crate) fn of(ty: ColumnType) -> Option<TimeScale> {
        match ty {
            ColumnType::Timestamp(unit) => Some(TimeScale::Unit(unit)),
            ColumnType::Date => Some(TimeScale::Days),
            _ => None,
        }
    }

    fn nanos(self) -> i128 {
        match self {
            TimeScale::Unit(unit) => NANOS_PER_SECOND / i128::from(unit.per_second()),
            TimeScale::Days => NANOS_PER_DAY,
        }
    }
}

/// Parses a time on a scale: the start of the period that the text names.
pub(crate) fn parse_time(text: &str, scale: TimeScale) -> Result<i64, TextProblem> {
    let period = parse_period(text, scale)?;
    if scale == TimeScale::Days && period.start.rem_euclid(scale.nanos()) != 0 {
        return Err(TextProblem::HasTimeOfDay);
    }
    // Rounds half up.
    on_scale(period.start + scale.nanos() / 2, scale)
}

/// Parses an interval on a scale. The unit of the ranges has no meaning for days.
pub(crate) fn parse_interval(text: &str, scale: TimeScale) -> Result<Vec<TimeRange>, TextProblem> {
    if !text.contains('[') {
        return parse_one_interval(text, scale);
    }
    check_brackets(text)?;
    let mut ranges = Vec::new();
    for one in expand_brackets(text)? {
        ranges.extend(parse_one_interval(&one, scale)?);
        if WINDOWS_MAX < ranges.len() {
            return Err(TextProblem::TooManyWindows);
        }
    }
    Ok(merged(ranges))
}

/// Checks that the parts of a text with brackets are short: up to `WINDOWS_MAX` texts are made of
/// them, and brackets are expanded by recursion.
fn check_brackets(text: &str) -> Result<(), TextProblem> {
    let (mut outside, mut count, mut rest) = (0, 0, text);
    while let Some((before, behind)) = rest.split_once('[') {
        let (list, behind) = behind.split_once(']').ok_or(INTERVAL_FORM)?;
        if list.split(',').any(|item| ITEM_BYTES_MAX < item.trim().len()) {
            return Err(INTERVAL_FORM);
        }
        (outside, count, rest) = (outside + before.len(), count + 1, behind);
    }
    match outside + rest.len() <= OUTSIDE_BYTES_MAX && count <= BRACKETS_MAX {
        true => Ok(()),
        false => Err(INTERVAL_FORM),
    }
}

/// Returns the texts that `2025-[01,03]-[01..05]T09` stands for.
fn expand_brackets(text: &str) -> Result<Vec<String>, TextProblem> {
    let Some((before, rest)) = text.split_once('[') else { return Ok(vec![text.to_owned()]) };
    let (list, behind) = rest.split_once(']').ok_or(INTERVAL_FORM)?;
    let mut items = Vec::new();
    for item in list.split(',').map(str::trim) {
        match item.split_once("..") {
            None if item.is_empty() => return Err(INTERVAL_FORM),
            None => items.push(item.to_owned()),
            Some((first, last)) => {
                let (first, last) = (first.trim(), last.trim());
                let number = |text: &str| text.parse::<u32>().map_err(|_| INTERVAL_FORM);
                let (low, high, width) = (number(first)?, number(last)?, first.len());
                if high < low || WINDOWS_MAX < (high - low) as usize {
                    return Err(if high < low {
                        INTERVAL_FORM
                    } else {
                        TextProblem::TooManyWindows
                    });
                }
                items.extend((low..=high).map(|number| format!("{number:0width$}")));
            }
        }
    }
    let behind = expand_brackets(behind)?;
    if WINDOWS_MAX < items.len().saturating_mul(behind.len()) {
        return Err(TextProblem::TooManyWindows);
    }
    let joined = |item: &String| {
        behind.iter().map(|behind| format!("{before}{item}{behind}")).collect::<Vec<_>>()
    };
    Ok(items.iter().flat_map(joined).collect())
}

fn parse_one_interval(text: &str, scale: TimeScale) -> Result<Vec<TimeRange>, TextProblem> {
    let parts = text.split(';').map(str::trim).collect::<Vec<_>>();
    let period = parse_period(parts[0], scale)?;
    let windows = match parts[..] {
        [_] => vec![(period.start, period.end)],
        [_, length] => vec![window(period.start, &parse_duration(length)?)?],
        [_, length, step, count] => {
            let (length, step) = (parse_duration(length)?, parse_duration(step)?);
            let count = count.parse::<usize>().map_err(|_| INTERVAL_FORM)?;
            if count > WINDOWS_MAX {
                return Err(TextProblem::TooManyWindows);
            }
            let mut windows = Vec::with_capacity(count);
            for index in 0..count {
                let times = i64::try_from(index).map_err(|_| TextProblem::OutOfRange)?;
                windows.push(window(shift(period.start, &step, times)?, &length)?);
            }
            windows
        }
        _ => return Err(INTERVAL_FORM),
    };
    let unit = match scale {
        TimeScale::Unit(unit) => unit,
        TimeScale::Days => TimeUnit::Micros,
    };
    let mut ranges = Vec::with_capacity(windows.len());
    for (start, end) in windows {
        let (start, end) = (ceil_on_scale(start, scale)?, ceil_on_scale(end, scale)?);
        ranges.push(TimeRange { unit, start, end });
    }
    Ok(merged(ranges))
}

/// Returns the union of ranges: sorted, and so that no two of them touch.
pub(crate) fn merged(mut ranges: Vec<TimeRange>) -> Vec<TimeRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<TimeRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

fn on_scale(nanos: i128, scale: TimeScale) -> Result<i64, TextProblem> {
    let value = nanos.div_euclid(scale.nanos());
    let fits = scale != TimeScale::Days || i32::try_from(value).is_ok();
    i64::try_from(value).ok().filter(|_| fits).ok_or(TextProblem::OutOfRange)
}

/// Returns the first instant of the scale at or after `nanos`.
fn ceil_on_scale(nanos: i128, scale: TimeScale) -> Result<i64, TextProblem> {
    on_scale(nanos + scale.nanos() - 1, scale)
}

/// Returns `[start, start + length)`, or `[start - |length|, start)`.
fn window(start: i128, length: &Duration) -> Result<(i128, i128), TextProblem> {
    let end = shift(start, length, 1)?;
    Ok((start.min(end), start.max(end)))
}

/// A length of time: calendar months and nanoseconds, of one sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Duration {
    months: i64,
    nanos: i128,
}

/// Parses `6h30m`, `-1d`, `3M`: numbers with the units y M w d h m s T u n.
fn parse_duration(text: &str) -> Result<Duration, TextProblem> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut total = Duration { months: 0, nanos: 0 };
    if rest.is_empty() {
        return Err(INTERVAL_FORM);
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(INTERVAL_FORM)?;
        let number = rest[..digits].parse::<i64>().map_err(|_| INTERVAL_FORM)?;
        let unit = rest[digits..].chars().next().ok_or(INTERVAL_FORM)?;
        rest = &rest[digits + unit.len_utf8()..];
        let (months, nanos) = match unit {
            'y' => (12, 0),
            'M' => (1, 0),
            'w' => (0, 7 * NANOS_PER_DAY),
            'd' => (0, NANOS_PER_DAY),
            'h' => (0, 3_600 * NANOS_PER_SECOND),
            'm' => (0, 60 * NANOS_PER_SECOND),
            's' => (0, NANOS_PER_SECOND),
            'T' => (0, 1_000_000),
            'u' => (0, 1_000),
            'n' => (0, 1),
            _ => return Err(INTERVAL_FORM),
        };
        let more =
            number.checked_mul(months * sign).and_then(|more| total.months.checked_add(more));
        total.months = more.ok_or(TextProblem::OutOfRange)?;
        total.nanos += i128::from(number) * nanos * i128::from(sign);
        if total.nanos.abs() > DURATION_NANOS_MAX {
            return Err(TextProblem::OutOfRange);
        }
    }
    Ok(total)
}

/// Adds a duration to `start` so many times. A day that the month does not have becomes its last
/// day.
fn shift(start: i128, by: &Duration, times: i64) -> Result<i128, TextProblem> {
    let nanos = start + by.nanos * i128::from(times);
    let months = by.months.checked_mul(times).ok_or(TextProblem::OutOfRange)?;
    if months == 0 {
        return Ok(nanos);
    }
    let days =
        i64::try_from(nanos.div_euclid(NANOS_PER_DAY)).map_err(|_| TextProblem::OutOfRange)?;
    let date = CivilDate::from_days(days);
    let month_index = date.year * 12 + i64::from(date.month) - 1 + months;
    let (year, month) = (month_index.div_euclid(12), month_index.rem_euclid(12) + 1);
    // Bounds first: the calendar's arithmetic must not overflow.
    if year.abs() > YEAR_MAX {
        return Err(TextProblem::OutOfRange);
    }
    let month = u32::try_from(month).expect("1 to 12");
    let day = date.day.min(days_in_month(year, month));
    let moved = i128::from(CivilDate { year, month, day }.to_days()) * NANOS_PER_DAY;
    Ok(moved + nanos.rem_euclid(NANOS_PER_DAY))
}

/// The parts of a time as a text has them; `None` for those that it leaves out.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    /// Nanoseconds, and the value of the last digit's place.
    fraction: Option<(i128, i128)>,
}

/// Parses `YYYY[-MM[-DD[(T| )hh[:mm[:ss[.digits]]]]]]`, perhaps with a zone behind it, or `epoch`.
fn parse_period(text: &str, scale: TimeScale) -> Result<Period, TextProblem> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("epoch") {
        return Ok(Period { start: 0, end: 1 });
    }
    let (local, offset_minutes) = split_zone(text)?;
    let parts = parse_parts(local.trim_end_matches(' '))?;
    // `2025 -03` is not a year with an offset.
    if local.ends_with(' ') && parts.day.is_none() {
        return Err(TIME_FORM);
    }
    let date = CivilDate {
        year: parts.year,
        month: u32::try_from(parts.month.unwrap_or(1)).map_err(|_| TIME_FORM)?,
        day: u32::try_from(parts.day.unwrap_or(1)).map_err(|_| TIME_FORM)?,
    };
    let (hour, minute) = (parts.hour.unwrap_or(0), parts.minute.unwrap_or(0));
    let second = parts.second.unwrap_or(0);
    if date.year < 1 || !date.is_valid() || hour > 23 || minute > 59 || second > 59 {
        return Err(TextProblem::NotInCalendar);
    }
    // As a DATE, `2025-03-01 +02` is that day: pgjdbc writes each java.sql.Date so.
    let is_day = scale == TimeScale::Days && parts.hour.is_none();
    let offset_minutes = if is_day { 0 } else { offset_minutes };
    let seconds = i128::from((hour * 60 + minute - offset_minutes) * 60 + second);
    let start = i128::from(date.to_days()) * NANOS_PER_DAY
        + seconds * NANOS_PER_SECOND
        + parts.fraction.map_or(0, |(nanos, _)| nanos);
    Ok(Period { start, end: shift(start, &length_of(parts), 1)? })
}

/// Returns the length of the period that a text with these parts names.
fn length_of(parts: Parts) -> Duration {
    let nanos = |nanos| Duration { months: 0, nanos };
    match parts {
        Parts { fraction: Some((_, length)), .. } => nanos(length),
        Parts { second: Some(_), .. } => nanos(NANOS_PER_SECOND),
        Parts { minute: Some(_), .. } => nanos(60 * NANOS_PER_SECOND),
        Parts { hour: Some(_), .. } => nanos(3_600 * NANOS_PER_SECOND),
        Parts { day: Some(_), .. } => nanos(NANOS_PER_DAY),
        Parts { month: Some(_), .. } => Duration { months: 1, nanos: 0 },
        _ => Duration { months: 12, nanos: 0 },
    }
}

/// Returns the text before a zone, perhaps with a blank at its end, and the zone's offset from UTC
/// in minutes: `Z`, `UTC`, `GMT`, or an offset like `+02:00`.
fn split_zone(text: &str) -> Result<(&str, i64), TextProblem> {
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return Ok((local, 0));
    }
    let at = text.len().saturating_sub("UTC".len());
    if let Some((local, name)) = text.split_at_checked(at)
        && (name.eq_ignore_ascii_case("UTC") || name.eq_ignore_ascii_case("GMT"))
        && (local.ends_with(' ') || local.contains(':'))
    {
        return Ok((local, 0));
    }
    // Only behind a time of day, or a blank: the `-` of a date is no sign.
    let Some(time_at) = text.find(['T', ' ']) else { return Ok((text, 0)) };
    let Some(sign_at) = text[time_at..].find(['+', '-']).map(|at| time_at + at) else {
        return Ok((text, 0));
    };
    let sign = if text[sign_at..].starts_with('-') { -1 } else { 1 };
    let mut rest = &text[sign_at + 1..];
    let hours = digits(&mut rest, 2)?;
    rest = rest.strip_prefix(':').unwrap_or(rest);
    let minutes = if rest.is_empty() { 0 } else { digits(&mut rest, 2)? };
    if !rest.is_empty() || hours > 15 || minutes > 59 {
        return Err(TIME_FORM);
    }
    Ok((&text[..sign_at], sign * (hours * 60 + minutes)))
}

/// Parses a local time. A month or an hour of one digit needs the next part behind it: `2025-3`
/// may be the beginning of a longer text.
fn parse_parts(local: &str) -> Result<Parts, TextProblem> {
    let mut rest = local;
    let long = digit_count(rest);
    let is_long = (5..=7).contains(&long) && rest[long..].starts_with('-');
    let year = digits(&mut rest, if is_long { long } else { 4 })?;
    let mut parts = Parts { year, ..Parts::default() };
    if digit_count(rest) == 4 {
        parts.month = Some(digits(&mut rest, 2)?);
        parts.day = Some(digits(&mut rest, 2)?);
    } else if take(&mut rest, &['-']) {
        parts.month = Some(digits_before(&mut rest, '-')?);
        if take(&mut rest, &['-']) {
            let count = if digit_count(rest) == 1 { 1 } else { 2 };
            parts.day = Some(digits(&mut rest, count)?);
        }
    }
    if parts.day.is_some() && take(&mut rest, &['T', ' ']) {
        parse_time_of_day(&mut rest, &mut parts)?;
    }
    if rest.is_empty() { Ok(parts) } else { Err(TIME_FORM) }
}

/// Reads `hh[:mm[:ss[.digits]]]`, `hhmm` or `hhmmss[.digits]`.
fn parse_time_of_day(rest: &mut &str, parts: &mut Parts) -> Result<(), TextProblem> {
    let count = digit_count(rest);
    if count == 4 || count == 6 {
        parts.hour = Some(digits(rest, 2)?);
        parts.minute = Some(digits(rest, 2)?);
        parts.second = if count == 6 { Some(digits(rest, 2)?) } else { None };
    } else {
        parts.hour = Some(digits_before(rest, ':')?);
        if take(rest, &[':']) {
            parts.minute = Some(digits(rest, 2)?);
            if take(rest, &[':']) {
                parts.second = Some(digits(rest, 2)?);
            }
        }
    }
    if parts.second.is_some() {
        parts.fraction = fraction(rest)?;
    }
    Ok(())
}

/// Returns the number of digits at the front.
fn digit_count(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Reads exactly `count` digits from the front.
fn digits(rest: &mut &str, count: usize) -> Result<i64, TextProblem> {
    let (taken, left) = rest.split_at_checked(count).ok_or(TIME_FORM)?;
    if !taken.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TIME_FORM);
    }
    *rest = left;
    taken.parse().map_err(|_| TIME_FORM)
}

/// Reads two digits, or one if the separator is behind it.
fn digits_before(rest: &mut &str, separator: char) -> Result<i64, TextProblem> {
    let is_short = digit_count(rest) == 1 && rest[1..].starts_with(separator);
    digits(rest, if is_short { 1 } else { 2 })
}

/// Reads one of these characters; returns false if the text does not begin with one.
fn take(rest: &mut &str, separators: &[char]) -> bool {
    match rest.strip_prefix(separators) {
        Some(left) => {
            *rest = left;
            true
        }
        None => false,
    }
}

/// Reads `.digits`: their nanoseconds, and the value of the last digit's place.
fn fraction(rest: &mut &str) -> Result<Option<(i128, i128)>, TextProblem> {
    let Some(left) = rest.strip_prefix('.') else { return Ok(None) };
    let count = left.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return Err(TIME_FORM);
    }
    let used = count.min(9);
    let value = left[..used].parse::<i128>().map_err(|_| TIME_FORM)?;
    *rest = &left[count..];
    let worth = 10_i128.pow(9 - u32::try_from(used).expect("at most 9"));
    Ok(Some((value * worth, worth)))
}

#[cfg(test)]
mod tests {
    use tidegate_model::Timestamp;
    use tidegate_model::time::IsoTimestamp;

    use super::*;

    const MICROS: TimeScale = TimeScale::Unit(TimeUnit::Micros);
    const NANOS: TimeScale = TimeScale::Unit(TimeUnit::Nanos);

    #[track_caller]
    fn check_time(text: &str, expected: &str) {
        let shown = match parse_time(text, MICROS) {
            Ok(micros) => IsoTimestamp(Timestamp(micros), TimeUnit::Micros).to_string(),
            Err(problem) => format!("{problem:?}").split(' ').next().unwrap().to_owned(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn a_partial_time_is_the_start_of_its_period() {
        check_time("2025", "2025-01-01T00:00:00.000000Z");
        check_time("2025-03", "2025-03-01T00:00:00.000000Z");
        check_time("2025-03-02", "2025-03-02T00:00:00.000000Z");
        check_time("2025-03-02T09", "2025-03-02T09:00:00.000000Z");
        check_time("2025-03-02 09:30", "2025-03-02T09:30:00.000000Z");
        check_time(" 2025-03-02 09:30:15.25Z ", "2025-03-02T09:30:15.250000Z");
        check_time("2025-03-02T01:30:00+02:00", "2025-03-01T23:30:00.000000Z");
        check_time("2025-03-02T23:30-0130", "2025-03-03T01:00:00.000000Z");
        check_time("0001-01-01", "0001-01-01T00:00:00.000000Z");
        check_time("20250302", "2025-03-02T00:00:00.000000Z");
        check_time("20250302T09:30Z", "2025-03-02T09:30:00.000000Z");
        check_time("20250302T093015.5", "2025-03-02T09:30:15.500000Z");
        check_time("2025-03-02 0930+01", "2025-03-02T08:30:00.000000Z");
        check_time("2025-3-2 9:30", "2025-03-02T09:30:00.000000Z");
        check_time("2025-03-2", "2025-03-02T00:00:00.000000Z");
        check_time("Epoch", "1970-01-01T00:00:00.000000Z");
    }

    /// Sequelize writes each time with a blank before the offset, and Ruby with ` UTC`. Both were
    /// refused.
    #[test]
    fn a_blank_may_stand_before_a_zone() {
        check_time("2026-11-28 07:14:14.487 +00:00", "2026-11-28T07:14:14.487000Z");
        check_time("2026-11-28 07:14:14.487 +0130", "2026-11-28T05:44:14.487000Z");
        check_time("2026-11-28 07:14 -05", "2026-11-28T12:14:00.000000Z");
        for zone in ["Z", " Z", " z", "UTC", " UTC", " utc", " GMT", "  +00"] {
            check_time(&format!("2026-11-28 07:14:14{zone}"), "2026-11-28T07:14:14.000000Z");
        }
        check_time("2026-11-28 +01", "2026-11-27T23:00:00.000000Z");
        for text in [
            "2026 Z",
            "2026 -03",
            "2026-11 UTC",
            "2026-11 +01",
            "2026UTC",
            "UTC",
            " UTC",
            "Z",
            "2026-11-28T +01",
            "2026-11-28 07:14 +1",
            "2026-11-28 07:14 +01 UTC",
            "2026-11-28 07:14 EST",
            "\u{e9}TC",
        ] {
            check_time(text, "Form");
        }
    }

    // The text of a far date could not be read again, nor a parameter of one.
    #[test]
    fn a_year_of_more_than_four_digits_ends_with_a_hyphen() {
        check_time("10000-01-01", "10000-01-01T00:00:00.000000Z");
        check_time("294247-1-10 04:00:54Z", "294247-01-10T04:00:54.000000Z");
        check_time("294247-01", "294247-01-01T00:00:00.000000Z");
        check_time("294248-01-01", "OutOfRange");
        check_time("12345-13-01", "NotInCalendar");
        for text in ["12345", "1234567", "12345678-01-01", "12345 -01"] {
            check_time(text, "Form");
        }
        let days = |text| parse_time(text, TimeScale::Days);
        assert_eq!(days("5881580-07-11"), Ok(i32::MAX.into()));
        assert_eq!(days("5881580-07-12"), Err(TextProblem::OutOfRange));
    }

    /// pgjdbc writes a java.sql.Date as a day with the offset of its zone.
    #[test]
    fn a_day_ignores_the_zone_of_a_text_without_a_time() {
        for text in ["2025-03-01 +05:30", "2025-03-01 -08", "2025-03-01 UTC", "2025-3-1"] {
            assert_eq!(parse_time(text, TimeScale::Days), Ok(20_148), "{text}");
            let ranges = parse_interval(text, TimeScale::Days).unwrap();
            assert_eq!((ranges[0].start, ranges[0].end), (20_148, 20_149), "{text}");
        }
        let problem = parse_time("2025-03-01 00:00 +01", TimeScale::Days);
        assert_eq!(problem, Err(TextProblem::HasTimeOfDay));
    }

    #[test]
    fn a_text_that_is_no_time_is_refused_with_the_reason() {
        for text in ["", "x", "2025-3", "2025030", "2025-03-01T", "2025-03-01T9", "2025-03x", "25"]
        {
            check_time(text, "Form");
        }
        for text in
            ["2025-13", "2025-02-29", "20251301", "2025-03-01T24", "2025-03-01T10:60", "0000"]
        {
            check_time(text, "NotInCalendar");
        }
        check_time("2025-03-01T10:00:00.1234567", "2025-03-01T10:00:00.123457Z");
        check_time("2025-03-01T10:00:00.1234564999999", "2025-03-01T10:00:00.123456Z");
        check_time("2025-03-01T23:59:59.9999995", "2025-03-02T00:00:00.000000Z");
        check_time("2025-03-01T10:00:00.1234560", "2025-03-01T10:00:00.123456Z");
        assert_eq!(parse_time("2025-03-01T10", TimeScale::Days), Err(TextProblem::HasTimeOfDay));
        assert_eq!(parse_time("2025-03-01", TimeScale::Days), Ok(20_148));
        assert_eq!(parse_time("2263", NANOS), Err(TextProblem::OutOfRange));
    }

    #[track_caller]
    fn check_interval(text: &str, expected: &str) {
        let shown = match parse_interval(text, MICROS) {
            Ok(ranges) => {
                let iso = |t| IsoTimestamp(Timestamp(t), TimeUnit::Micros).to_string();
                let short = |t| iso(t).trim_end_matches(":00:00.000000Z").replace(".000000Z", "");
                let shown = ranges.iter().map(|r| format!("{}..{}", short(r.start), short(r.end)));
                shown.collect::<Vec<_>>().join(" ")
            }
            Err(problem) => format!("{problem:?}").split(' ').next().unwrap().to_owned(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn an_interval_is_the_whole_period_at_its_precision() {
        check_interval("2025", "2025-01-01T00..2026-01-01T00");
        check_interval("2025-02", "2025-02-01T00..2025-03-01T00");
        check_interval("2024-02", "2024-02-01T00..2024-03-01T00");
        check_interval("2025-12-31", "2025-12-31T00..2026-01-01T00");
        check_interval("2025-03-01T09:30", "2025-03-01T09:30:00..2025-03-01T09:31:00");
        check_interval("20250301T0930", "2025-03-01T09:30:00..2025-03-01T09:31:00");
        check_interval("2025-03-01 9:30 +01:00", "2025-03-01T08:30:00..2025-03-01T08:31:00");
        let ranges = parse_interval("2025-03-01T09:30:00.125", MICROS).unwrap();
        assert_eq!(ranges[0].end - ranges[0].start, 1_000);
    }

    #[test]
    fn durations_steps_and_counts_make_windows() {
        check_interval("2025-03-01T09;1h", "2025-03-01T09..2025-03-01T10");
        check_interval("2025-03-01T09;-1h", "2025-03-01T08..2025-03-01T09");
        check_interval("2025-03-01;6h30m", "2025-03-01T00..2025-03-01T06:30:00");
        check_interval(
            "2024-02-29;1d;1y;3",
            "2024-02-29T00..2024-03-01T00 2025-02-28T00..2025-03-01T00 \
             2026-02-28T00..2026-03-01T00",
        );
        check_interval("2025-03-02;1d;-1d;2", "2025-03-01T00..2025-03-03T00");
        check_interval("2025-03-01;2d;1d;3", "2025-03-01T00..2025-03-05T00");
        check_interval("2025-03-01;1d;1d;0", "");
    }

    #[test]
    fn brackets_stand_for_each_value_in_them() {
        check_interval("2025-01-[01..02]", "2025-01-01T00..2025-01-03T00");
        check_interval(
            "2025-[01,03]-05T09;1h",
            "2025-01-05T09..2025-01-05T10 2025-03-05T09..2025-03-05T10",
        );
        check_interval(
            "[2025-01-01,2025-01-03]",
            "2025-01-01T00..2025-01-02T00 2025-01-03T00..2025-01-04T00",
        );
        for text in ["2025-01-[]", "2025-01-[01", "2025-01-[05..01]", "2025-01-[a..b]"] {
            check_interval(text, "Form");
        }
        check_interval("2025-01-[00]", "NotInCalendar");
    }

    // 5,000 items with a long text behind them took gigabytes, zeros before a number panicked, and
    // a million lists overflowed the stack.
    #[test]
    fn long_parts_of_texts_with_brackets_are_refused() {
        let text = format!("2025-01-[{}]", vec!["1"; 5_000].join(","));
        check_interval(&format!("{text}{}", "x".repeat(OUTSIDE_BYTES_MAX)), "Form");
        check_interval(&format!("2025-01-[{}1..2]", "0".repeat(70_000)), "Form");
        check_interval(&"[1]".repeat(1_000_000), "Form");
    }

    #[test]
    fn bad_intervals_are_refused() {
        for text in
            ["", ";;;;", "2025;", "2025;1", "2025;1x", "2025;1d;1d", "2025;1d;1d;-1", "2025;d"]
        {
            check_interval(text, "Form");
        }
        check_interval("2025-13", "NotInCalendar");
        check_interval("2025;1s;1s;10001", "TooManyWindows");
        check_interval("2025;9999999y", "OutOfRange");
    }

    #[test]
    fn a_day_counts_by_its_first_instant() {
        let ranges = parse_interval("2025-03-01;36h", TimeScale::Days).unwrap();
        assert_eq!((ranges[0].start, ranges[0].end), (20_148, 20_150));
    }
}
