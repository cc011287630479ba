//! Timestamps moved while rows are sent: 19 digits in place of 19 digits, nothing else changes.

use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memchr;

use super::rows::RowLayout;
use crate::error::{Error, Result};
use crate::tsbs::options::parse_duration;

/// Digits of a timestamp in nanoseconds, for all from 2001-09-09 to 2262-04-11.
const DIGITS: usize = 19;

/// The values of `--shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShiftOption {
    /// Shifts the last row to the present time.
    Now,
    /// Shifts by nanoseconds, forward or back.
    By(i64),
}

/// The offset that is added to timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    nanos: i64,
}

/// The beginning of a row whose timestamp does not have 19 digits, before or after the shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoTimestamp {
    pub(super) offset: usize,
}

/// Parses `now`, `24h` or `-90m`.
pub(super) fn parse_shift(text: &str) -> Result<ShiftOption> {
    if text == "now" {
        return Ok(ShiftOption::Now);
    }
    let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let nanos = i64::try_from(parse_duration(rest)?);
    nanos
        .map(|nanos| ShiftOption::By(sign * nanos))
        .map_err(|_| Error::BadDuration { text: text.to_owned() })
}

impl ShiftOption {
    /// Returns the offset, for rows of which the last one has the timestamp `last`.
    pub(super) fn shift(self, last: impl FnOnce() -> Result<i64>) -> Result<Shift> {
        let nanos = match self {
            ShiftOption::By(nanos) => nanos,
            ShiftOption::Now => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(now.as_nanos()).unwrap_or(i64::MAX).saturating_sub(last()?)
            }
        };
        Ok(Shift { nanos })
    }
}

impl Shift {
    /// Shifts the timestamps of complete rows.
    pub(super) fn apply(self, layout: RowLayout, text: &mut [u8]) -> Result<(), NoTimestamp> {
        let mut last = ([0; DIGITS], [0; DIGITS]);
        let mut at = 0;
        while at < text.len() {
            let missing = NoTimestamp { offset: at };
            let (begin, end) = timestamp(layout, &text[at..]).ok_or(missing)?;
            let digits = &mut text[at + begin..at + begin + DIGITS];
            // Most rows have the same timestamp as the one before.
            if digits != last.0 {
                last.0.copy_from_slice(digits);
                last.1 = self.moved(&last.0).ok_or(missing)?;
            }
            digits.copy_from_slice(&last.1);
            at += end;
        }
        Ok(())
    }

    fn moved(self, digits: &[u8; DIGITS]) -> Option<[u8; DIGITS]> {
        let time = read(digits)?.checked_add(self.nanos)?;
        time.to_string().into_bytes().try_into().ok().filter(|_| 0 <= time)
    }
}

/// Returns the timestamp of the last row in a text of complete rows.
pub(super) fn last_timestamp(layout: RowLayout, text: &[u8]) -> Option<i64> {
    let mut last = None;
    let mut at = 0;
    while at < text.len() {
        let (begin, end) = timestamp(layout, &text[at..])?;
        last = Some((at + begin, at + begin + DIGITS));
        at += end;
    }
    let (begin, end) = last?;
    read(text[begin..end].try_into().ok()?)
}

fn read(digits: &[u8; DIGITS]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the beginning of the 19 digits of a row, and the end of the row.
#[inline]
fn timestamp(layout: RowLayout, text: &[u8]) -> Option<(usize, usize)> {
    let first = memchr(b'\n', text)?;
    let (begin, end, before, behind) = match layout {
        RowLayout::Line => (first.checked_sub(DIGITS)?, first, b' ', b'\n'),
        RowLayout::TwoLines => {
            let end = first + 1 + memchr(b'\n', &text[first + 1..])?;
            (first + 2 + memchr(b',', &text[first + 1..end])?, end, b',', b',')
        }
        RowLayout::Tabs => {
            let name = memchr(b'\t', &text[..first])? + 1;
            (name + memchr(b'\t', &text[name..first])? + 1, first, b'\t', b'\t')
        }
    };
    let digits = text.get(begin..begin + DIGITS)?;
    let stands_alone = *text.get(begin.checked_sub(1)?)? == before
        && *text.get(begin + DIGITS)? == behind
        && begin + DIGITS <= end;
    (stands_alone && digits.iter().all(u8::is_ascii_digit)).then_some((begin, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "cpu,hostname=a x=1i 1451606400000000000\nmem z=0.5 1451606410000000000\n";
    const TWO: &str = "tags,a=b\ncpu,1451606400000000000,1\ntags,a=c\ncpu,1451606410000000000,\n";
    const TABS: &str =
        "cpu\t{\"a\":\"b\"}\t1451606400000000000\t1\ncpu\t{}\t1451606410000000000\t\n";

    #[test]
    fn only_timestamps_are_moved() {
        for (layout, text) in
            [(RowLayout::Line, LINE), (RowLayout::TwoLines, TWO), (RowLayout::Tabs, TABS)]
        {
            for (nanos, first, second) in [
                (0, "1451606400000000000", "1451606410000000000"),
                (1, "1451606400000000001", "1451606410000000001"),
                (-86_400_000_000_000, "1451520000000000000", "1451520010000000000"),
            ] {
                let mut moved = text.as_bytes().to_vec();
                Shift { nanos }.apply(layout, &mut moved).unwrap();
                let expected = text.replace("1451606400000000000", first);
                let expected = expected.replace("1451606410000000000", second);
                assert_eq!(String::from_utf8(moved).unwrap(), expected, "{layout:?} {nanos}");
            }
            assert_eq!(last_timestamp(layout, text.as_bytes()), Some(1_451_606_410_000_000_000));
        }
    }

    #[test]
    fn rows_that_would_not_fit_are_found() {
        for (layout, text, nanos, offset) in [
            (RowLayout::Line, "cpu x=1 1451606400000000000\ncpu x=1 12\n", 1, 28),
            (RowLayout::Line, "cpu x=1 11451606400000000000\n", 1, 0),
            (RowLayout::Line, "cpu x=1 1451606400000000000\n", i64::MAX, 0),
            (RowLayout::Line, "cpu x=1 1451606400000000000\n", -1_451_606_400_000_000_000, 0),
            (RowLayout::Line, "cpu x=1 1451606400000000000\n", -1_451_606_500_000_000_000, 0),
            (RowLayout::TwoLines, "tags,a=b\ncpu,12,1451606400000000000\n", 1, 0),
            (RowLayout::Tabs, "cpu\t{}\t12\t1451606400000000000\n", 1, 0),
            (RowLayout::Tabs, "cpu,1451606400000000000\n", 1, 0),
        ] {
            let outcome = Shift { nanos }.apply(layout, &mut text.as_bytes().to_vec());
            assert_eq!(outcome, Err(NoTimestamp { offset }), "{text}");
        }
    }

    #[test]
    fn a_shift_is_now_or_a_duration() {
        assert_eq!(parse_shift("now").unwrap(), ShiftOption::Now);
        assert_eq!(parse_shift("1h").unwrap(), ShiftOption::By(3_600_000_000_000));
        assert_eq!(parse_shift("-10s").unwrap(), ShiftOption::By(-10_000_000_000));
        for text in ["", "-", "tomorrow", "now-1h", "--1s"] {
            assert!(parse_shift(text).is_err(), "{text}");
        }
        let shift = ShiftOption::Now.shift(|| Ok(1_000)).unwrap();
        assert!(1_700_000_000_000_000_000 < shift.nanos);
        assert_eq!(ShiftOption::By(5).shift(|| unreachable!()).unwrap(), Shift { nanos: 5 });
    }
}
