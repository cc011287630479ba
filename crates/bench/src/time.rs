//! Points in time in nanoseconds, and their format in RFC 3339.
//!
//! Not here: times and durations of flags (`options`).

use std::fmt;

/// A point in time, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub i64);

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, nanos) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = date_of(days);
        let (seconds, fraction) = (nanos / SECOND, nanos % SECOND);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if fraction != 0 {
            write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// Parses `2016-01-01T00:00:00Z`, with up to nine decimals and any offset.
pub(crate) fn parse_rfc3339(text: &[u8]) -> Option<Nanos> {
    let (date_and_time, rest) = text.split_at_checked(19)?;
    let number = |from: usize, to: usize, max: i64| digits(&date_and_time[from..to], max);
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, byte)| date_and_time[at] != byte) {
        return None;
    }
    let (year, month) = (number(0, 4, 9_999)?, number(5, 7, 12)?);
    let day = number(8, 10, 31)?;
    let days = days_of(year, month, day).filter(|&days| date_of(days) == (year, month, day))?;
    let (hour, minute, second) = (number(11, 13, 23)?, number(14, 16, 59)?, number(17, 19, 59)?);
    let fraction = rest
        .strip_prefix(b".")
        .map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count() + 1);
    let (fraction, offset) = rest.split_at(fraction);
    let nanos = match fraction {
        [] => 0,
        [_, digits_only @ ..] if (1..=9).contains(&digits_only.len()) => {
            let scale = 10_i64.pow(u32::try_from(9 - digits_only.len()).ok()?);
            digits(digits_only, SECOND)? * scale
        }
        _ => return None,
    };
    let offset = match offset {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let seconds = digits(&[*h1, *h2], 23)? * 3_600 + digits(&[*m1, *m2], 59)? * 60;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    seconds.checked_mul(SECOND)?.checked_add(nanos).map(Nanos)
}

fn digits(text: &[u8], max: i64) -> Option<i64> {
    let mut number = 0;
    for byte in text {
        number = number * 10 + i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    (number <= max).then_some(number)
}

/// Returns the days since 1970 of a date of the Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // The year begins in March, so that the leap day is its last.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
