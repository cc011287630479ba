//! Timestamps against the simple parser, and against the instants that were written.

use proptest::prelude::*;
use tidegate_ingest::timestamp::{
    DateParser, EpochUnit, TimestampFormat, TimestampParser, parse_date,
};
use tidegate_model::TimeUnit;
use tidegate_model::time::CivilDate;

use crate::slow;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() }
}

const UNITS: [TimeUnit; 2] = [TimeUnit::Micros, TimeUnit::Nanos];

/// Every format that the simple parser supports.
const FORMATS: [TimestampFormat; 8] = [
    TimestampFormat::Iso,
    TimestampFormat::Detect,
    TimestampFormat::DayFirst,
    TimestampFormat::MonthFirst,
    TimestampFormat::Epoch(EpochUnit::Seconds),
    TimestampFormat::Epoch(EpochUnit::Millis),
    TimestampFormat::Epoch(EpochUnit::Micros),
    TimestampFormat::Epoch(EpochUnit::Nanos),
];

/// Parses each text by the same parser, which so remembers the dates of others.
fn check(texts: &[Vec<u8>]) {
    for format in &FORMATS {
        for unit in UNITS {
            let mut parser = TimestampParser::new(format, unit);
            for text in texts {
                let expected = slow::instant(text, format, unit);
                let shown = text.escape_ascii();
                assert_eq!(parser.parse(text), expected, "{shown} as {format} in {unit:?}");
            }
        }
        let mut parser = DateParser::new(format);
        for text in texts {
            let expected = slow::date(text, format);
            assert_eq!(parser.parse(text), expected, "{} as {format}", text.escape_ascii());
            assert_eq!(parse_date(text, format), expected);
        }
    }
}

/// A random second of the years 0 to 9999, mostly of this century, and nanoseconds.
fn instant() -> impl Strategy<Value = (i64, u32)> {
    let second = prop_oneof![
        -62_167_219_200_i64..253_402_300_800,
        946_684_800_i64..1_893_456_000,
        1_705_276_800_i64..1_705_363_200,
    ];
    (second, 0_u32..1_000_000_000)
}

/// The text behind the seconds: a fraction of so many digits, and an offset.
fn ending() -> impl Strategy<Value = (usize, String)> {
    let offset = prop_oneof![
        Just(String::new()),
        Just("Z".to_owned()),
        Just(" UTC".to_owned()),
        "[+-][01][0-9](:?[0-5][0-9])?",
    ];
    (0_usize..10, offset)
}

fn civil(second: i64) -> (CivilDate, String) {
    let of_day = second.rem_euclid(86_400);
    let time = format!("{:02}:{:02}:{:02}", of_day / 3_600, of_day / 60 % 60, of_day % 60);
    (CivilDate::from_days(second.div_euclid(86_400)), time)
}

fn fraction(nanos: u32, digits: usize) -> String {
    if digits == 0 { String::new() } else { format!(".{:.digits$}", format!("{nanos:09}")) }
}

/// Text of few different characters, so that many texts are nearly a timestamp.
fn nearly_a_timestamp() -> impl Strategy<Value = Vec<u8>> {
    let date = prop_oneof![
        "[0-9]{4}-[01][0-9]-[0-3][0-9]",
        "[0-3]?[0-9]/[01]?[0-9]/[0-9]{4}",
        "[-0-9/]{6,10}",
    ];
    let time = prop_oneof![
        Just(String::new()),
        "[ Tt][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\\.[0-9]{0,10})?)?[Zz]?",
        "[ T][0-9:.Z+-]{0,14}",
        "[ T]00:00(:00(\\.0{1,9})?)?( UTC|Z|[+-]0[0-9]:?[0-6]0|[+-]99)?",
    ];
    (date, time).prop_map(|(date, time)| format!("{date}{time}").into_bytes())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn iso_text_is_the_instant_that_was_written(
        (second, nanos) in instant(),
        (digits, offset) in ending(),
        separator in "[ T]",
    ) {
        let (date, time) = civil(second);
        let CivilDate { year, month, day } = date;
        let fraction = fraction(nanos, digits);
        let text = format!("{year:04}-{month:02}-{day:02}{separator}{time}{fraction}{offset}");
        check(&[text.clone().into_bytes()]);
        if !offset.starts_with(['+', '-']) {
            let kept = i64::from(nanos) / 10_i64.pow(9 - u32::try_from(digits.min(6)).expect("6"));
            let missing = 6 - u32::try_from(digits.min(6)).expect("6");
            let micros = second * 1_000_000 + kept * 10_i64.pow(missing);
            let mut parser = TimestampParser::new(&TimestampFormat::Iso, TimeUnit::Micros);
            prop_assert_eq!(parser.parse(text.as_bytes()), Ok(micros), "{}", text);
        }
        let slashed = format!("{day:02}/{month:02}/{year:04} {time}{fraction}{offset}");
        let short = format!("{month}/{day}/{year:04}{separator}{time}{fraction}");
        check(&[slashed.into_bytes(), short.into_bytes()]);
    }

    #[test]
    fn any_text_is_read_as_the_obvious_parser_reads_it(
        texts in prop::collection::vec(nearly_a_timestamp(), 1..4),
    ) {
        check(&texts);
    }

    #[test]
    fn bytes_of_all_kinds_are_fine(
        text in prop::collection::vec(any::<u8>(), 0..40),
        at in 0_usize..29,
    ) {
        check(std::slice::from_ref(&text));
        let mut near = b"2024-01-15T10:20:30.123456789Z".to_vec();
        near.splice(at..=at, text.iter().copied().take(2));
        check(&[near]);
        let patterns =
            ["yyyy-MM-ddTHH:mm:ss.SSSUUUZ", "%d/%b/%Y:%H:%M:%S %z", "E MMM d y h:m a N+"];
        for pattern in patterns {
            let format = TimestampFormat::parse(pattern).expect("a format");
            let _ = TimestampParser::new(&format, TimeUnit::Nanos).parse(&text);
        }
    }

    #[test]
    fn epochs_are_counts_in_their_unit(count in any::<i64>(), shift in 0_u32..64) {
        check(&[(count >> shift).to_string().into_bytes()]);
    }

    #[test]
    fn any_pattern_compiles_or_says_why(
        pattern in "\\PC{0,20}",
        letters in "[yMdDHhamsSUNZxzEuw' %:+-]{0,12}",
    ) {
        for pattern in [&pattern, &letters] {
            match TimestampFormat::parse(pattern) {
                Ok(TimestampFormat::Epoch(EpochUnit::Seconds)) => prop_assert_eq!(pattern, "%s"),
                Ok(format) => prop_assert_eq!(&format.to_string(), pattern),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }

    #[test]
    fn patterns_read_what_is_written_by_them((second, nanos) in instant(), pattern in pattern()) {
        let format = TimestampFormat::parse(&pattern.0).expect("a format");
        let (text, instant) = (pattern.1)(second, nanos);
        let mut parser = TimestampParser::new(&format, TimeUnit::Micros);
        prop_assert_eq!(parser.parse(text.as_bytes()), Ok(instant), "{} as {}", text, format);
        let again = parser.parse(text.as_bytes());
        prop_assert_eq!(again, Ok(instant), "{} as {}, again", text, format);
    }
}

/// A pattern, and the function that writes a second and nanoseconds by it: the text, and the
/// instant in microseconds as far as the text keeps it.
type Written = (String, fn(i64, u32) -> (String, i64));

fn written(pattern: &str, write: fn(i64, u32) -> (String, i64)) -> Written {
    (pattern.to_owned(), write)
}

fn pattern() -> impl Strategy<Value = Written> {
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
    let choices: Vec<Written> = vec![
        written("yyyy-MM-ddTHH:mm:ss.SSSUUUZ", |second, nanos| {
            let (CivilDate { year, month, day }, time) = civil(second);
            let micros = nanos / 1_000;
            let text = format!("{year:04}-{month:02}-{day:02}T{time}.{micros:06}Z");
            (text, second * 1_000_000 + i64::from(micros))
        }),
        written("%Y-%m-%d %H:%M:%S.%f", |second, nanos| {
            let (CivilDate { year, month, day }, time) = civil(second);
            let text = format!("{year:04}-{month:02}-{day:02} {time}.{nanos:09}");
            (text, second * 1_000_000 + i64::from(nanos / 1_000))
        }),
        written("%d/%b/%Y:%H:%M:%S %z", |second, _| {
            let (CivilDate { year, month, day }, time) = civil(second);
            let month = &MONTHS[month as usize - 1][..3];
            (format!("{day:02}/{month}/{year:04}:{time} -0130"), (second + 5_400) * 1_000_000)
        }),
        written("MMMM d, yyyy h:mm:ss a", |second, _| {
            let (CivilDate { year, month, day }, time) = civil(second);
            let hour: u32 = time[..2].parse().expect("an hour");
            let (half, hour) = (if hour < 12 { "AM" } else { "PM" }, (hour + 11) % 12 + 1);
            let month = MONTHS[month as usize - 1];
            let text = format!("{month} {day}, {year:04} {hour}{} {half}", &time[2..]);
            (text, second * 1_000_000)
        }),
        written("yyyyMMddHHmmssSSS", |second, nanos| {
            let (CivilDate { year, month, day }, time) = civil(second);
            let (time, millis) = (time.replace(':', ""), nanos / 1_000_000);
            let text = format!("{year:04}{month:02}{day:02}{time}{millis:03}");
            (text, second * 1_000_000 + i64::from(millis) * 1_000)
        }),
        written("D yyyy", |second, _| {
            let (date, _) = civil(second);
            let first = CivilDate { month: 1, day: 1, ..date }.to_days();
            let text = format!("{} {:04}", date.to_days() - first + 1, date.year);
            (text, date.to_days() * 86_400_000_000)
        }),
    ];
    prop::sample::select(choices)
}

#[test]
fn weeks_are_those_of_iso_8601() {
    // The loop covers every day of 2000 to 2030, from a Monday that began the first week of a year.
    let format = TimestampFormat::parse("yyyy-Www-u").expect("a format");
    let (mut year, mut week) = (2001, 1);
    let mut monday = CivilDate { year: 2001, month: 1, day: 1 }.to_days();
    while year < 2031 {
        for day in 0..7 {
            let text = format!("{year}-W{week:02}-{}", day + 1);
            let actual = parse_date(text.as_bytes(), &format).map(i64::from);
            assert_eq!(actual, Ok(monday + day), "{text}");
        }
        monday += 7;
        week += 1;
        // The week belongs to the year of its Thursday.
        let thursday = CivilDate::from_days(monday + 3);
        if thursday.year != year {
            let text = format!("{year}-W{week:02}-1");
            parse_date(text.as_bytes(), &format).expect_err("no such week");
            (year, week) = (thursday.year, 1);
        }
    }
}
