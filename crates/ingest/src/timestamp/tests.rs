//! Tables of texts, and the comparison of the fast path with the general one (timestamp-3).

use tidegate_model::Timestamp;
use tidegate_model::time::IsoTimestamp;

use super::*;

fn shown(text: &[u8], format: &TimestampFormat, unit: TimeUnit) -> String {
    let mut parser = TimestampParser::new(format, unit);
    let first = parser.parse(text);
    assert_eq!(parser.parse(text), first, "the date is remembered now");
    assert_eq!(parser.parse_slowly(text), first, "timestamp-3: {}", text.escape_ascii());
    let shown = |t| IsoTimestamp(Timestamp(t), unit).to_string();
    first.map_or_else(|error| error.to_string(), shown)
}

#[track_caller]
fn check(format: &str, text: &str, expected: &str) {
    let format = TimestampFormat::parse(format).expect("a format");
    let actual = shown(text.as_bytes(), &format, TimeUnit::Nanos);
    let actual = actual.strip_suffix(".000000000Z").unwrap_or(&actual);
    assert_eq!(actual, expected, "{text:?} as {format}");
}

#[track_caller]
fn check_slashes(text: &str, day_first: &str, month_first: &str) {
    for (format, expected) in
        [(TimestampFormat::DayFirst, day_first), (TimestampFormat::MonthFirst, month_first)]
    {
        assert_eq!(shown(text.as_bytes(), &format, TimeUnit::Micros), expected, "{text:?}");
    }
}

#[track_caller]
fn check_date(format: &str, text: &str, expected: &str) {
    let format = TimestampFormat::parse(format).expect("a format");
    let actual = parse_date(text.as_bytes(), &format);
    let actual = actual.map_or_else(|error| error.to_string(), |days| days.to_string());
    assert_eq!(actual, expected, "{text:?} as {format}");
}

#[test]
fn iso_has_any_number_of_fraction_digits_up_to_nine() {
    check("iso", "2013-07-15 10:47:34", "2013-07-15T10:47:34");
    check("iso", "2013-07-15T10:47:34Z", "2013-07-15T10:47:34");
    check("iso", "2013-07-15T10:47:34.5", "2013-07-15T10:47:34.500000000Z");
    check("iso", "2013-07-15T10:47:34.123Z", "2013-07-15T10:47:34.123000000Z");
    check("iso", "2013-07-15T10:47:34.123456", "2013-07-15T10:47:34.123456000Z");
    check("iso", "2013-07-15T10:47:34.12345678", "2013-07-15T10:47:34.123456780Z");
    check("iso", "2013-07-15T10:47:34.123456789Z", "2013-07-15T10:47:34.123456789Z");
    check("iso", "2013-07-15T10:47:34.1234567890", "not a timestamp");
    check("iso", "2013-07-15", "2013-07-15T00:00:00");
    check("iso", "2013-07-15T10:47", "2013-07-15T10:47:00");
    check("iso", " 2013-07-15 10:47:34 ", "2013-07-15T10:47:34");
    check("iso", "1969-12-31T23:59:59.9", "1969-12-31T23:59:59.900000000Z");
}

#[test]
fn offsets_move_the_instant() {
    for offset in ["+01", "+0100", "+01:00", " +01:00"] {
        check("iso", &format!("2013-07-15T10:47:34{offset}"), "2013-07-15T09:47:34");
    }
    check("iso", "2013-07-15T23:47:34.25-05:30", "2013-07-16T05:17:34.250000000Z");
    check("iso", "2013-07-15 10:47:34 UTC", "2013-07-15T10:47:34");
    check("iso", "2013-07-15t10:47:34z", "2013-07-15T10:47:34");
    check("iso", "2013-07-15T10:47+01:00", "2013-07-15T09:47:00");
    check("iso", "2013-07-15T10:47:34+24:00", "date or time out of range");
    check("iso", "2013-07-15T10:47:34+1", "not a timestamp");
    check("iso", "2013-07-15T10:47:34+01:0", "not a timestamp");
    check("iso", "2013-07-15Z", "not a timestamp");
}

#[test]
fn nothing_rolls_over() {
    for text in [
        "2023-02-29",
        "2024-02-30",
        "2024-13-01",
        "2024-00-01",
        "2024-01-00",
        "2024-01-32",
        "2024-01-01T24:00:00",
        "2024-01-01T23:60:00",
        "2024-01-01T23:59:60",
        "2024-04-31 00:00:00",
        "2024-01-01T99:99:99.999",
    ] {
        check("iso", text, "date or time out of range");
    }
    check("iso", "2024-02-29", "2024-02-29T00:00:00");
}

#[test]
fn everything_else_is_no_timestamp() {
    for text in [
        "",
        " ",
        "2024",
        "2024-01",
        "2024-1-1",
        "24-01-01",
        "2024/01/01",
        "2024-01-01T",
        "20240101",
        "2024-01-01T10",
        "2024-01-01T1:00:00",
        "2024-01-01T10:00:00.",
        "2024-01-01T10:00:00.Z",
        "2024-01-01T10:00:00ZZ",
        "2024-01-01  10:00:00",
        "2024-01-01X10:00:00",
        "2024-01-01T10.00.00",
        "2024-13-01x",
        "2024-01-01T10:00:00.12a",
        "x2024-01-01",
        "2024-01-01T10:00:0a",
        "-024-01-01",
        "2024-01-01T10-00-00",
        "2024-01-01T10:00:00,123",
    ] {
        check("iso", text, "not a timestamp");
    }
}

#[test]
fn nanoseconds_reach_from_1677_to_2262_and_not_beyond() {
    let iso = TimestampFormat::Iso;
    let mut nanos = TimestampParser::new(&iso, TimeUnit::Nanos);
    assert_eq!(nanos.parse(b"2262-04-11T23:47:16.854775807"), Ok(i64::MAX));
    assert_eq!(nanos.parse(b"2262-04-11T23:47:16.854775808"), Err(CellError::TimeOutOfRange));
    assert_eq!(nanos.parse(b"1677-09-21T00:12:43.145224192"), Ok(i64::MIN));
    assert_eq!(nanos.parse(b"1677-09-21T00:12:43.145224191"), Err(CellError::TimeOutOfRange));
    let mut micros = TimestampParser::new(&iso, TimeUnit::Micros);
    assert_eq!(micros.parse(b"0000-01-01"), Ok(-62_167_219_200_000_000));
    assert_eq!(micros.parse(b"9999-12-31 23:59:59.9999999"), Ok(253_402_300_799_999_999));
}

#[test]
fn digits_beyond_the_unit_are_cut_toward_the_past() {
    let mut micros = TimestampParser::new(&TimestampFormat::Iso, TimeUnit::Micros);
    assert_eq!(micros.parse(b"1970-01-01T00:00:00.0000019"), Ok(1));
    assert_eq!(micros.parse(b"1969-12-31T23:59:59.9999991"), Ok(-1));
    let epoch = TimestampFormat::Epoch(EpochUnit::Nanos);
    let mut micros = TimestampParser::new(&epoch, TimeUnit::Micros);
    assert_eq!((micros.parse(b"1999"), micros.parse(b"-1")), (Ok(1), Ok(-1)));
}

#[test]
fn slashes_are_read_as_the_format_says() {
    let either = "2024-02-01T00:00:00.000000Z";
    check_slashes("01/02/2024", either, "2024-01-02T00:00:00.000000Z");
    check_slashes("1/2/2024", either, "2024-01-02T00:00:00.000000Z");
    let first = "2024-12-31T10:20:30.250000Z";
    check_slashes("31/12/2024 10:20:30.25", first, "date or time out of range");
    check_slashes("12/31/2024 10:20:30.25", "date or time out of range", first);
    check_slashes("12/31/24", "not a timestamp", "not a timestamp");
    check_slashes("2024/12/31", "not a timestamp", "not a timestamp");
    check("auto", "31/12/2024 10:20", "2024-12-31T10:20:00");
    check("auto", "2024-12-31 10:20", "2024-12-31T10:20:00");
    check("auto", "3/4/2024", "2024-04-03T00:00:00");
}

#[test]
fn epochs_are_integers_in_their_unit() {
    check("epoch_s", "1705312800", "2024-01-15T10:00:00");
    check("epoch_ms", "1705312800123", "2024-01-15T10:00:00.123000000Z");
    check("epoch_us", "-1", "1969-12-31T23:59:59.999999000Z");
    check("epoch_ns", " 1705312800123456789", "2024-01-15T10:00:00.123456789Z");
    check("epoch_s", "9223372037", "date or time out of range");
    check("epoch_s", "99999999999999999999", "date or time out of range");
    for text in ["", "1705312800.5", "2024-01-15", "1e9"] {
        check("epoch_s", text, "not a timestamp");
    }
}

#[test]
fn patterns_of_letters() {
    let ten = "2024-01-15T10:00:00";
    check("yyyy-MM-dd HH:mm:ss", "2024-01-15 10:00:00", ten);
    check("yyyy-MM-ddTHH:mm:ssZ", "2024-01-15T10:00:00Z", ten);
    check("yyyy-MM-ddTHH:mm:ssZ", "2024-01-15T11:00:00+01:00", ten);
    check("yyyyMMddHHmmss", "20240115100000", ten);
    check("dd.MM.yy 'at' HH.mm", "15.01.24 at 10.00", ten);
    check("d/M/y h:mm a", "15/1/2024 10:00 am", ten);
    check("d/M/y h:mma", "15/1/24 10:00PM", "2024-01-15T22:00:00");
    check("hh a", "12 AM", "1970-01-01T00:00:00");
    check("hh a", "12 pm", "1970-01-01T12:00:00");
    check("hh a", "13 pm", "date or time out of range");
    check("E, dd MMM yyyy HH:mm:ss z", "Mon, 15 Jan 2024 05:00:00 EST", ten);
    check("dd MMMM yyyy", "15 january 2024", "2024-01-15T00:00:00");
    check("dd MMMM yyyy", "15 Janua 2024", "not a timestamp");
    check("yyyy D", "2024 366", "2024-12-31T00:00:00");
    check("yyyy D", "2023 366", "date or time out of range");
    check("yyyy-Www-u", "2020-W53-7", "2021-01-03T00:00:00");
    check("yyyy-Ww", "2024-W1", "2024-01-01T00:00:00");
    check("yyyy-Www", "2021-W53", "date or time out of range");
    check("yyyy-Www-u", "2021-W01-8", "date or time out of range");
    check("''yy", "'24", "2024-01-01T00:00:00");
    check("yyyy-MM-dd", "2024-1-15", "not a timestamp");
    check("yyyy-MM-dd", "2024-01-15x", "not a timestamp");
    check("yyyy-MM-dd", "2024-02-30", "date or time out of range");
}

#[test]
fn fractions_of_patterns() {
    let format = "yyyy-MM-ddTHH:mm:ss.";
    let text = "2024-01-15T10:00:00.";
    for (fraction, digits, expected) in [
        ("SSS", "123", "123000000"),
        ("SSSUUU", "123456", "123456000"),
        ("SSSUUUNNN", "123456789", "123456789"),
        ("S", "5", "500000000"),
        ("S", "05", "050000000"),
        ("SSSU", "1234", "123400000"),
        ("U+", "1234", "123400000"),
        ("N+", "1", "100000000"),
        ("N+", "123456789", "123456789"),
    ] {
        let expected = format!("{text}{expected}Z");
        check(&format!("{format}{fraction}"), &format!("{text}{digits}"), &expected);
        let (format, text) = (format!("{format}{fraction}Z"), format!("{text}{digits}Z"));
        check(&format, &text, &expected);
    }
    for (fraction, digits) in [
        ("SSS", "12"),
        ("SSS", "1234"),
        ("SSS", ""),
        ("SSS", "123Z"),
        ("SSSZ", "123"),
        ("U+", "1234567"),
        ("SSSUUU", "12345"),
        ("SSSUUU", "123"),
        ("N+", "1234567890"),
    ] {
        check(&format!("{format}{fraction}"), &format!("{text}{digits}"), "not a timestamp");
    }
    check("yyyy-MM-ddTHH:mm:ss", "2024-01-15T10:00:00.5", "not a timestamp");
    check("yyyy-MM-ddTHH:mm:ss", "2024-01-15 10:00:00", "not a timestamp");
    check("yyyy-MM-ddTHH:mm:ss", "2024-01-15T10:00:00Z", "not a timestamp");
}

#[test]
fn patterns_of_strftime() {
    let ten = "2024-01-15T10:00:00";
    check("%Y-%m-%d %H:%M:%S", "2024-01-15 10:00:00", ten);
    check("%Y-%m-%d %H:%M:%S", "2024-1-15 10:0:0", ten);
    check("%FT%T%z", "2024-01-15T12:00:00+0200", ten);
    check("%F %R", "2024-01-15 10:00", ten);
    check("%D", "01/15/24", "2024-01-15T00:00:00");
    check("%d/%b/%Y:%H:%M:%S %z", "15/Jan/2024:10:00:00 +0000", ten);
    check("%m/%d/%Y %I:%M %p", "1/15/2024 10:00 PM", "2024-01-15T22:00:00");
    check("%-m/%-d/%y", "1/15/70", "1970-01-15T00:00:00");
    check("%Y%j", "2024015", "2024-01-15T00:00:00");
    check("%G-W%V-%u", "2024-W03-1", "2024-01-15T00:00:00");
    check("%F%t%T.%f %Z", "2024-01-15   10:00:00.25 GMT", "2024-01-15T10:00:00.250000000Z");
    check("100%% %Y", "100% 2024", "2024-01-01T00:00:00");
}

#[test]
fn patterns_that_cannot_be_say_why() {
    for (pattern, expected) in [
        ("", "the timestamp format is empty"),
        ("''", "the timestamp format has no field"),
        ("yyyy-MM-DD", "`DD` at byte 8 of the timestamp format is not a known field"),
        ("yyyyy", "`yyyyy` at byte 0 of the timestamp format is not a known field"),
        ("yyyy 'x", "the quote at byte 5 of the timestamp format is never closed"),
        ("HH:MM MM", "`MM` at byte 6 of the timestamp format gives its field a second time"),
        ("ss.SSSU+", "`U+` at byte 6 of the timestamp format gives its field a second time"),
        ("hh:mm", "the timestamp format has hours 1 to 12, but no am or pm"),
        ("%Q", "`%Q` at byte 0 of the timestamp format is not a known field"),
        ("%Y%", "`%` at byte 2 of the timestamp format is not a known field"),
        ("%Y %F", "`%F` at byte 3 of the timestamp format gives its field a second time"),
    ] {
        let error = TimestampFormat::parse(pattern).expect_err("no format");
        assert_eq!(error.to_string(), expected, "{pattern:?}");
    }
    let long = "y".repeat(257);
    assert_eq!(TimestampFormat::parse(&long), Err(FormatError::TooLong { bytes: 257, max: 256 }));
}

#[test]
fn a_format_is_shown_as_it_is_written() {
    for text in ["auto", "iso", "epoch_s", "epoch_ms", "epoch_us", "epoch_ns", "%Y", "yyyy 'x'"] {
        assert_eq!(TimestampFormat::parse(text).expect("a format").to_string(), text);
    }
}

#[test]
fn a_date_is_a_day_or_its_midnight() {
    check_date("iso", "1970-01-02", "1");
    check_date("iso", "1969-12-31T00:00:00.000", "-1");
    check_date("iso", "2024-01-15 00:00:00+02:00", "19737");
    check_date("iso", "2024-01-15T00:00:01", "a date with a time of day");
    check_date("iso", "2024-01-15T00:00:00.000000001", "a date with a time of day");
    check_date("iso", "2024-02-30", "date or time out of range");
    check_date("iso", "15.01.2024", "not a date");
    check_date("iso", "", "not a date");
    check_date("dd.MM.yyyy", "15.01.2024", "19737");
    check_date("epoch_ms", "86400000", "1");
    check_date("epoch_s", "-86401", "a date with a time of day");
    check_date("epoch_s", "x", "not a date");
    check_date("epoch_s", "9223372036854720000", "date or time out of range");
    assert_eq!(parse_date(b"01/02/1970", &TimestampFormat::DayFirst), Ok(31));
    assert_eq!(parse_date(b"01/02/1970", &TimestampFormat::MonthFirst), Ok(1));
}

#[test]
fn the_quick_path_agrees_with_the_obvious_one_on_every_single_byte_change() {
    let texts: [&[u8]; 5] = [
        b"2024-01-15T10:20:30.123456789Z",
        b"2024-12-31 23:59:59.000001",
        b"2024-02-29T00:00:00",
        b"31/12/2024 10:20:30.5",
        b"2024-01-15",
    ];
    let formats = ["iso", "auto", "yyyy-MM-ddTHH:mm:ss.N+Z", "%F %T.%f"]
        .map(|format| TimestampFormat::parse(format).expect("a format"));
    for format in formats.iter().chain(&[TimestampFormat::DayFirst, TimestampFormat::MonthFirst]) {
        for text in texts {
            for place in 0..text.len() {
                for byte in 0..=u8::MAX {
                    let mut text = text.to_vec();
                    text[place] = byte;
                    shown(&text, format, TimeUnit::Nanos);
                    let mut parser = DateParser::new(format);
                    assert_eq!(parser.parse(&text), parser.parse_slowly(&text), "timestamp-3");
                }
            }
        }
    }
}
