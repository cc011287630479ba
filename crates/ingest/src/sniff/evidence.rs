//! What the cells of a column say about its type and about the format of its timestamps (COPY
//! C-32, C-38).
//!
//! - E1. A type is inferred only if every cell that is not NULL has a value of it, and writing the
//!   value would not lose what the cell shows: digits with a leading zero, and integers beyond 64
//!   bits, stay text.

use tidegate_model::{ColumnType, TimeUnit};

use crate::parse::{parse_f64, parse_i64, parse_uuid, trimmed};
use crate::timestamp::{TimestampFormat, TimestampParser};

/// Counts over the cells of a column that are not NULL.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    cells: u64,
    booleans: u64,
    integers: u64,
    floats: u64,
    uuids: u64,
    /// Cells with a time of day.
    times: u64,
    /// Cells with more fraction digits than TIMESTAMP keeps.
    nanos: u64,
    /// In the order of preference.
    formats: Vec<FormatEvidence>,
}

#[derive(Clone, Debug)]
struct FormatEvidence {
    format: TimestampFormat,
    parser: TimestampParser,
    fitting: u64,
}

/// What a column is.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Inferred {
    pub(super) ty: ColumnType,
    /// For a timestamp or a date.
    pub(super) format: Option<TimestampFormat>,
}

impl Evidence {
    /// `given` is the user's format, tried before the others.
    pub(crate) fn new(given: Option<&TimestampFormat>) -> Evidence {
        let given = given.filter(|format| **format != TimestampFormat::Detect);
        // Day first before month first: an ambiguous column is read so (C-38).
        let probed = [TimestampFormat::Iso, TimestampFormat::DayFirst, TimestampFormat::MonthFirst];
        let formats = given.into_iter().chain(probed.iter()).map(|format| FormatEvidence {
            format: format.clone(),
            // Microseconds reach over all years of four digits.
            parser: TimestampParser::new(format, TimeUnit::Micros),
            fitting: 0,
        });
        Evidence {
            cells: 0,
            booleans: 0,
            integers: 0,
            floats: 0,
            uuids: 0,
            times: 0,
            nanos: 0,
            formats: formats.collect(),
        }
    }

    /// Adds a cell that is not NULL.
    pub(crate) fn add(&mut self, text: &[u8]) {
        let all = |count: u64| count == self.cells;
        let (booleans, uuids) = (all(self.booleans), all(self.uuids));
        let (integers, floats) = (all(self.integers), all(self.floats));
        self.cells += 1;
        // What has failed once is out; and an integer is a float too.
        let is_integer = integers && is_integer(text);
        self.integers += u64::from(is_integer);
        self.floats += u64::from(floats && (is_integer || is_float(text)));
        self.booleans += u64::from(booleans && is_boolean_word(text));
        self.uuids += u64::from(uuids && is_hyphenated_uuid(text));
        let mut is_time = false;
        for format in &mut self.formats {
            let fits = may_be(text, &format.format) && format.parser.parse(text).is_ok();
            format.fitting += u64::from(fits);
            is_time |= fits;
        }
        self.times += u64::from(is_time && text.contains(&b':'));
        self.nanos += u64::from(is_time && 6 < fraction_digits(text));
    }

    /// C-32, of a column that is not the designated timestamp.
    pub(super) fn infer(&self) -> Inferred {
        let plain = |ty| Inferred { ty, format: None };
        let all = |count: u64| 0 < self.cells && count == self.cells;
        if all(self.booleans) {
            plain(ColumnType::Boolean)
        } else if all(self.integers) {
            plain(ColumnType::Int64)
        } else if all(self.floats) {
            plain(ColumnType::Float64)
        } else if let Some(format) = self.probed().find(|format| all(format.fitting)) {
            let format = &format.format;
            if 0 < self.times || format.has_time() {
                self.timestamp(format)
            } else {
                Inferred { ty: ColumnType::Date, format: Some(format.clone()) }
            }
        } else if all(self.uuids) {
            plain(ColumnType::Uuid)
        } else {
            plain(ColumnType::Varchar)
        }
    }

    /// The designated timestamp is what the user's format says it is, and without one a timestamp
    /// if most of its cells are: it can be nothing else, and the others are bad. `None` if most
    /// are not; integers stay integers, since somebody must say what they count.
    pub(super) fn infer_designated(&self, given: Option<&TimestampFormat>) -> Option<Inferred> {
        if let Some(format) = given.filter(|format| **format != TimestampFormat::Detect) {
            return Some(self.timestamp(format));
        }
        if 0 < self.cells && self.integers == self.cells {
            return Some(Inferred { ty: ColumnType::Int64, format: None });
        }
        let best = self.best();
        let is_timestamp = self.cells == 0 || self.cells < 2 * best.fitting;
        is_timestamp.then(|| self.timestamp(&best.format))
    }

    /// Integers are no timestamps unless it is said of their column.
    fn probed(&self) -> impl Iterator<Item = &FormatEvidence> {
        self.formats.iter().filter(|format| !matches!(format.format, TimestampFormat::Epoch(_)))
    }

    fn timestamp(&self, format: &TimestampFormat) -> Inferred {
        let has_nanos = format.has_nanos() || 0 < self.nanos;
        let unit = if has_nanos { TimeUnit::Nanos } else { TimeUnit::Micros };
        Inferred { ty: ColumnType::Timestamp(unit), format: Some(format.clone()) }
    }

    /// For a column that is a timestamp or a date by its table: the first format that all cells
    /// have, else the one that most have.
    pub(crate) fn best_format(&self) -> &TimestampFormat {
        &self.best().format
    }

    fn best(&self) -> &FormatEvidence {
        let most = self.formats.iter().rev().max_by_key(|format| format.fitting);
        most.expect("ISO is always tried")
    }

    /// Whether day first and month first would do for the cells alike, bad ones aside.
    pub(crate) fn is_ambiguous(&self) -> bool {
        let fitting = |wanted: &TimestampFormat| {
            let found = self.formats.iter().find(|format| format.format == *wanted);
            found.map_or(0, |format| format.fitting)
        };
        let day_first = fitting(&TimestampFormat::DayFirst);
        0 < day_first && day_first == fitting(&TimestampFormat::MonthFirst)
    }

    /// Whether no cell has said anything.
    pub(super) fn is_empty(&self) -> bool {
        self.cells == 0
    }

    /// Whether a cell that is not among these is a value on its own: the number, timestamp or UUID
    /// that a header does not have (C-31). So are `true` and `false`, but `t` or `no` only where
    /// the cells below are all booleans.
    pub(super) fn is_value(&self, text: &[u8]) -> bool {
        let is_number = text.iter().any(u8::is_ascii_digit) && parse_f64(text).is_ok();
        let is_time = || {
            let mut formats = self.formats.iter().map(|format| format.parser.clone());
            formats.any(|mut parser| parser.parse(text).is_ok())
        };
        let is_boolean = || {
            let are_booleans = 0 < self.cells && self.booleans == self.cells;
            is_boolean_word(text) && (are_booleans || 3 < trimmed(text).len())
        };
        is_number || is_hyphenated_uuid(text) || is_time() || is_boolean()
    }
}

/// Whether it is worth the time to parse a text: most are no timestamps, and show it soon.
fn may_be(text: &[u8], format: &TimestampFormat) -> bool {
    match format {
        TimestampFormat::Iso => text.get(4..).is_some_and(|rest| rest.contains(&b'-')),
        TimestampFormat::DayFirst | TimestampFormat::MonthFirst => text.contains(&b'/'),
        _ => true,
    }
}

/// Numbers are not booleans here: a column of ones and zeros may well go on with a two.
fn is_boolean_word(text: &[u8]) -> bool {
    let words: [&[u8]; 6] = [b"true", b"false", b"t", b"f", b"yes", b"no"];
    let text = trimmed(text);
    text.len() <= 5 && words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Without hyphens it may be any hash.
fn is_hyphenated_uuid(text: &[u8]) -> bool {
    text.contains(&b'-') && parse_uuid(text).is_ok()
}

fn is_integer(text: &[u8]) -> bool {
    parse_i64(text).is_ok() && !has_leading_zero(text)
}

fn is_float(text: &[u8]) -> bool {
    // E1: an integer that is not an `i64` has more digits than a float keeps.
    parse_f64(text).is_ok()
        && !has_leading_zero(text)
        && (parse_i64(text).is_ok() || !unsigned(text).iter().all(u8::is_ascii_digit))
}

fn has_leading_zero(text: &[u8]) -> bool {
    matches!(unsigned(text), [b'0', b'0'..=b'9', ..])
}

fn unsigned(text: &[u8]) -> &[u8] {
    match trimmed(text) {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    }
}

/// Of a text that is a timestamp: how many digits follow its last point.
fn fraction_digits(text: &[u8]) -> usize {
    let behind = memchr::memrchr(b'.', text).map_or(text.len(), |at| at + 1);
    text[behind..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}
