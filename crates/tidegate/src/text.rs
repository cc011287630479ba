//! Numbers as text for people.

use std::fmt::Write as _;

/// Formats a size in powers of a thousand, as for files and disks: `1.5 GB`.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"])
}

/// Formats a count briefly: `620.0 k`.
pub(crate) fn count(count: u64) -> String {
    scaled(count, &["", " k", " M", " G", " T", " P", " E"])
}

fn scaled(value: u64, units: &[&str; 7]) -> String {
    if value < 1_000 {
        return format!("{value}{}", units[0]);
    }
    let mut scaled = value as f64;
    let mut unit = 0;
    // Without this, 999,950 would be shown as 1000.0 k.
    while scaled >= 999.95 && unit < 6 {
        scaled /= 1_000.0;
        unit += 1;
    }
    format!("{scaled:.1}{}", units[unit])
}

/// Formats a count with all its digits, in groups: `1,234,567`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `12 rows`, `1 row`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count))
}

/// Formats a remaining time: `8 s`, `1:15`, `2:03:00`.
pub(crate) fn duration(seconds: u64) -> String {
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let mut text = String::new();
    let written = match (hours, minutes) {
        (0, 0) => write!(text, "{seconds} s"),
        (0, _) => write!(text, "{minutes}:{:02}", seconds % 60),
        _ => write!(text, "{hours}:{minutes:02}:{:02}", seconds % 60),
    };
    written.expect("a String takes everything");
    text
}

/// Formats an elapsed time with three significant digits: `1.23 ms`, `4.56 s`.
pub(crate) fn elapsed(nanos: u64) -> String {
    let (value, unit) = match nanos {
        0..1_000_000 => (nanos as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (nanos as f64 / 1e6, "ms"),
        _ => (nanos as f64 / 1e9, "s"),
    };
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_have_one_decimal() {
        for (value, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (1_490_000_000, "1.5 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(value), expected, "{value}");
        }
        assert_eq!((count(12).as_str(), count(620_000).as_str()), ("12", "620.0 k"));
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        let texts = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((counted(1, "row"), counted(0, "row")), ("1 row".into(), "0 rows".into()));
    }

    #[test]
    fn times_are_short() {
        let texts = [8, 75, 7_380].map(duration);
        assert_eq!(texts, ["8 s", "1:15", "2:03:00"]);
        let texts = [450, 1_234_567, 99_960_000, 3_210_000_000].map(elapsed);
        assert_eq!(texts, ["0.45 us", "1.23 ms", "100 ms", "3.21 s"]);
    }
}
