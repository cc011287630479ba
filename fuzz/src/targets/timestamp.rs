//! Any format is one or an error; the result of a parser for a text does not depend on the texts
//! before it (timestamp-3); and formats that are not patterns agree with the slow reader.
//!
//! Input: a choice of format, which may be the first line; each further line is a text.

use tidegate_ingest::timestamp::{DateParser, EpochUnit, TimestampFormat, TimestampParser};
use tidegate_model::TimeUnit;

use super::input::Input;
use crate::slow;

const EPOCHS: [EpochUnit; 4] =
    [EpochUnit::Seconds, EpochUnit::Millis, EpochUnit::Micros, EpochUnit::Nanos];

pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let mut lines = input.rest.split(|&byte| byte == b'\n');
    let format = match choice % 5 {
        0 => TimestampFormat::Iso,
        1 => TimestampFormat::DayFirst,
        2 => TimestampFormat::MonthFirst,
        3 => TimestampFormat::Epoch(EPOCHS[usize::from(choice / 5) % 4]),
        _ => {
            match lines.next().map(|line| TimestampFormat::parse(&String::from_utf8_lossy(line))) {
                Some(Ok(format)) => format,
                _ => return,
            }
        }
    };
    if let TimestampFormat::Pattern(pattern) = &format {
        let again = TimestampFormat::parse(&pattern.to_string());
        assert_eq!(again.as_ref(), Ok(&format), "a pattern is shown as it was written");
    }
    let is_pattern = matches!(format, TimestampFormat::Pattern(_));
    let texts: Vec<&[u8]> = lines.take(64).collect();
    for unit in [TimeUnit::Micros, TimeUnit::Nanos] {
        let mut parser = TimestampParser::new(&format, unit);
        for text in &texts {
            let found = parser.parse(text);
            let fresh = TimestampParser::new(&format, unit).parse(text);
            assert_eq!(found, fresh, "{format:?} {:?}", String::from_utf8_lossy(text));
            if !is_pattern {
                let wanted = slow::instant(text, &format, unit);
                assert_eq!(found, wanted, "{format:?} {:?}", String::from_utf8_lossy(text));
            }
        }
    }
    let mut parser = DateParser::new(&format);
    for text in &texts {
        let found = parser.parse(text);
        assert_eq!(found, DateParser::new(&format).parse(text), "{format:?}");
        if !is_pattern {
            let wanted = slow::date(text, &format);
            assert_eq!(found, wanted, "{format:?} {:?}", String::from_utf8_lossy(text));
        }
    }
}
