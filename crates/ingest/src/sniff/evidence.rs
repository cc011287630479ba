//! The evidence of a sample for the type of a column and the format of its timestamps
//! (docs/import.md, Types and Timestamps).
//!
//! - evidence-1. A type is inferred only if every cell that is not NULL has a value of it, and the
//!   cell can be written again from that value: docs/import.md says which texts count as the same.
//!   A cell that a type would change makes its column text (`exact`).
//! - evidence-2. The evidence of several files for one column adds up (`merge`), in any order.

use tidegate_model::{ColumnType, TimeUnit};

use super::notation::Notation;
use super::shape::TextShape;
use crate::exact::{
    Number, exact_uuid, fraction_digits, is_true_or_false, is_wide_integer, number_of,
};
use crate::parse::parse_i64;
use crate::timestamp::{TimestampFormat, TimestampParser};

/// Counts over the cells of a column that are not NULL.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    cells: u64,
    /// Cells that are a number, a boolean, a time or a UUID, whatever type holds them.
    valued: u64,
    booleans: u64,
    integers: u64,
    first_integer: Option<i64>,
    /// Numbers that a DOUBLE does not change; integers among them.
    numbers: u64,
    /// Integers that a DOUBLE would change.
    wide: u64,
    /// The words `NaN` and infinity.
    words: u64,
    uuids: u64,
    /// Cells with a time of day.
    times: u64,
    /// Cells with more fraction digits than TIMESTAMP keeps.
    nanos: u64,
    /// Cells with a time outside the range of TIMESTAMP_NS.
    beyond_nanos: u64,
    /// The first cell that is not counted in `numbers`.
    no_number: Option<Box<[u8]>>,
    /// The evidence for each format, in the order of preference.
    formats: Vec<FormatEvidence>,
    orders: Orders,
    notation: Notation,
    shape: TextShape,
}

/// The first cells that are a date only in one order of day and month.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Orders {
    pub(crate) day_first: Option<Box<[u8]>>,
    pub(crate) month_first: Option<Box<[u8]>>,
}

/// The orders in which a cell is a date.
#[derive(Default)]
struct IsDate {
    day_first: bool,
    month_first: bool,
}

impl Orders {
    fn add(&mut self, text: &[u8], is_date: &IsDate) {
        match is_date {
            IsDate { day_first: true, month_first: false } => {
                self.day_first.get_or_insert_with(|| text.into());
            }
            IsDate { day_first: false, month_first: true } => {
                self.month_first.get_or_insert_with(|| text.into());
            }
            _ => {}
        }
    }

    pub(crate) fn merge(&mut self, other: &Orders) {
        for (own, other) in
            [(&mut self.day_first, &other.day_first), (&mut self.month_first, &other.month_first)]
        {
            if own.is_none() {
                own.clone_from(other);
            }
        }
    }

    /// A text of each order, if there are both.
    pub(crate) fn both(&self) -> Option<(&[u8], &[u8])> {
        self.day_first.as_deref().zip(self.month_first.as_deref())
    }
}

#[derive(Clone, Debug)]
struct FormatEvidence {
    format: TimestampFormat,
    parser: TimestampParser,
    fitting: u64,
    /// The first cell that does not have the format.
    misfit: Option<Box<[u8]>>,
}

/// The inferred type of a column.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Inferred {
    pub(crate) ty: ColumnType,
    /// The format of a timestamp or a date.
    pub(crate) format: Option<TimestampFormat>,
}

/// The reason why a column is text though most of its cells are something else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spoiled {
    /// The number of cells that prevent the type, and of all cells.
    pub(crate) by: u64,
    pub(crate) cells: u64,
    pub(crate) example: Vec<u8>,
    /// The kind of all other cells.
    pub(crate) others: &'static str,
}

/// The minimum number of cells for each cell that is not of the type, for a column to be nearly of
/// it.
const SPOILED_PART: u64 = 10;

impl Evidence {
    /// Creates counts of 0; `given` is the user's format, tried before the others.
    pub(crate) fn new(given: Option<&TimestampFormat>) -> Evidence {
        let given = given.filter(|format| **format != TimestampFormat::Detect);
        // Day first comes before month first: an ambiguous column is read day first.
        let probed = [TimestampFormat::Iso, TimestampFormat::DayFirst, TimestampFormat::MonthFirst];
        let formats = given.into_iter().chain(probed.iter()).map(|format| FormatEvidence {
            format: format.clone(),
            // Microseconds cover all years of four digits.
            parser: TimestampParser::new(format, TimeUnit::Micros),
            fitting: 0,
            misfit: None,
        });
        Evidence {
            cells: 0,
            valued: 0,
            booleans: 0,
            integers: 0,
            first_integer: None,
            numbers: 0,
            wide: 0,
            words: 0,
            uuids: 0,
            times: 0,
            nanos: 0,
            beyond_nanos: 0,
            no_number: None,
            formats: formats.collect(),
            orders: Orders::default(),
            notation: Notation::default(),
            shape: TextShape::default(),
        }
    }

    /// Adds a cell that is not NULL.
    pub(crate) fn add(&mut self, text: &[u8]) {
        self.cells += 1;
        let number = number_of(text);
        match number {
            Number::Integer => {
                if self.integers == 0 {
                    self.first_integer = parse_i64(text).ok();
                }
                self.integers += 1;
                self.numbers += 1;
                self.wide += u64::from(is_wide_integer(text));
            }
            Number::Fraction => {
                self.numbers += 1;
                self.notation.add_fraction(text);
            }
            Number::Word => self.words += 1,
            Number::None | Number::Altered => {
                self.notation.add_other(text);
                self.no_number.get_or_insert_with(|| text.into());
            }
        }
        let (is_boolean, is_uuid) = (is_true_or_false(text), is_hyphenated_uuid(text));
        self.booleans += u64::from(is_boolean);
        self.uuids += u64::from(is_uuid);
        let mut instant = None;
        let mut is_date = IsDate::default();
        for format in &mut self.formats {
            let parsed =
                if may_be(text, &format.format) { format.parser.parse(text).ok() } else { None };
            match &format.format {
                TimestampFormat::DayFirst => is_date.day_first |= parsed.is_some(),
                TimestampFormat::MonthFirst => is_date.month_first |= parsed.is_some(),
                _ => {}
            }
            match parsed {
                Some(micros) => {
                    format.fitting += 1;
                    instant = Some(micros);
                }
                None => {
                    format.misfit.get_or_insert_with(|| text.into());
                }
            }
        }
        self.orders.add(text, &is_date);
        if let Some(micros) = instant {
            let is_far = micros.unsigned_abs() >= i64::MAX.unsigned_abs() / 1_000;
            if text.contains(&b':') {
                self.times += 1;
                self.notation.add_time(text);
            }
            self.nanos += u64::from(6 < fraction_digits(text));
            self.beyond_nanos += u64::from(is_far);
        }
        let is_number = !matches!(number, Number::None | Number::Word);
        self.valued += u64::from(is_number || is_boolean || is_uuid || instant.is_some());
        self.shape.add(text);
    }

    /// Adds the evidence of another file (evidence-2). Both were created with the same format.
    pub(crate) fn merge(&mut self, other: &Evidence) {
        self.cells += other.cells;
        self.valued += other.valued;
        self.booleans += other.booleans;
        self.integers += other.integers;
        self.numbers += other.numbers;
        self.wide += other.wide;
        self.words += other.words;
        self.uuids += other.uuids;
        self.times += other.times;
        self.nanos += other.nanos;
        self.beyond_nanos += other.beyond_nanos;
        if self.no_number.is_none() {
            self.no_number.clone_from(&other.no_number);
        }
        for (own, other) in self.formats.iter_mut().zip(&other.formats) {
            own.fitting += other.fitting;
            if own.misfit.is_none() {
                own.misfit.clone_from(&other.misfit);
            }
        }
        self.orders.merge(&other.orders);
        self.notation.merge(&other.notation);
        self.shape.merge(&other.shape);
    }

    /// Returns true if all cells but so many are numbers, or all are times, and there are some.
    pub(super) fn is_text_because_of(&self, count: u64) -> bool {
        let others = self.cells.saturating_sub(count);
        let are_times = self.formats.iter().any(|format| format.fitting == others);
        0 < others && (self.numbers == others || are_times)
    }

    pub(super) fn notation(&self) -> &Notation {
        &self.notation
    }

    /// The number of cells with a time of day.
    pub(super) fn times(&self) -> u64 {
        self.times
    }

    /// Returns true if the cells are numbers with decimal commas.
    pub(crate) fn has_commas(&self) -> bool {
        self.notation.has_commas(self.cells, self.integers)
    }

    pub(crate) fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Infers the type of a column that is not the designated timestamp.
    pub(crate) fn infer(&self) -> Inferred {
        let plain = |ty| Inferred { ty, format: None };
        let all = |count: u64| 0 < self.cells && count == self.cells;
        // Words such as `Nan` and `Inf` are numbers only among numbers.
        let are_numbers = 0 < self.numbers && self.wide == 0 && all(self.numbers + self.words);
        if all(self.booleans) {
            plain(ColumnType::Boolean)
        } else if all(self.integers) {
            plain(ColumnType::Int64)
        } else if are_numbers {
            plain(ColumnType::Float64)
        } else if let Some(format) = self.probed().find(|format| all(format.fitting)) {
            let format = &format.format;
            if 0 < self.times || format.has_time() {
                // Neither unit holds all of the values.
                let is_torn = 0 < self.nanos && 0 < self.beyond_nanos;
                if is_torn { plain(ColumnType::Varchar) } else { self.timestamp(format) }
            } else {
                Inferred { ty: ColumnType::Date, format: Some(format.clone()) }
            }
        } else if all(self.uuids) {
            plain(ColumnType::Uuid)
        } else {
            plain(ColumnType::Varchar)
        }
    }

    /// Infers the type of the designated timestamp: by the user's format, and without one it is a
    /// timestamp if most of its cells are, since it can be nothing else and the others are bad.
    /// `None` if most are not; integers stay integers, since the user must give their unit.
    pub(crate) fn infer_designated(&self, given: Option<&TimestampFormat>) -> Option<Inferred> {
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

    /// The formats without `Epoch`: integers are timestamps only if the user says so for their
    /// column.
    fn probed(&self) -> impl Iterator<Item = &FormatEvidence> {
        self.formats.iter().filter(|format| !matches!(format.format, TimestampFormat::Epoch(_)))
    }

    fn timestamp(&self, format: &TimestampFormat) -> Inferred {
        let has_nanos = format.has_nanos() || 0 < self.nanos;
        let unit = if has_nanos { TimeUnit::Nanos } else { TimeUnit::Micros };
        Inferred { ty: ColumnType::Timestamp(unit), format: Some(format.clone()) }
    }

    /// The format of a column that is a timestamp or a date by its table: the first format that all
    /// cells have, otherwise the one that most have.
    pub(crate) fn best_format(&self) -> &TimestampFormat {
        &self.best().format
    }

    fn best(&self) -> &FormatEvidence {
        let most = self.formats.iter().rev().max_by_key(|format| format.fitting);
        most.expect("ISO is always tried")
    }

    /// Returns true if day first and month first fit the same cells, bad ones aside.
    pub(crate) fn is_ambiguous(&self) -> bool {
        let fitting = |wanted: &TimestampFormat| {
            let found = self.formats.iter().find(|format| format.format == *wanted);
            found.map_or(0, |format| format.fitting)
        };
        let day_first = fitting(&TimestampFormat::DayFirst);
        0 < day_first && day_first == fitting(&TimestampFormat::MonthFirst)
    }

    /// The few cells because of which the column is text.
    pub(crate) fn spoiled(&self) -> Option<Spoiled> {
        let numbers = (self.numbers + self.words, "numbers", &self.no_number);
        let times = self.best();
        let times = (times.fitting, "dates or times", &times.misfit);
        let (count, others, example) = if times.0 < numbers.0 { numbers } else { times };
        let by = self.cells - count;
        let is_nearly = 0 < by && by * SPOILED_PART <= self.cells;
        let example = example.as_deref().filter(|_| is_nearly)?.to_vec();
        Some(Spoiled { by, cells: self.cells, example, others })
    }

    /// Returns true if there was no cell.
    pub(super) fn is_empty(&self) -> bool {
        self.cells == 0
    }

    /// Returns true if the cells have a type, or are all values although no type holds them: phone
    /// numbers are text, but not names.
    pub(crate) fn is_typed(&self) -> bool {
        // `NaN` is a value only among values.
        let are_values = 0 < self.valued && self.valued + self.words == self.cells;
        are_values || self.infer().ty != ColumnType::Varchar
    }

    /// Returns true if the cells are integers that could number the rows.
    pub(super) fn counts_rows(&self) -> bool {
        0 < self.cells && self.integers == self.cells && matches!(self.first_integer, Some(0 | 1))
    }

    /// The first integer.
    pub(super) fn first_integer(&self) -> Option<i64> {
        self.first_integer
    }

    /// The number of cells if a text is written differently from all of them; otherwise 0.
    pub(super) fn unlike(&self, text: &[u8]) -> u64 {
        if self.shape.is_unlike(text) { self.cells } else { 0 }
    }

    /// Returns true if a cell that is not among these is of another kind: it is no value of their
    /// type, or it is a value and none of them is.
    pub(super) fn is_of_another_kind(&self, text: &[u8]) -> bool {
        if self.infer().ty == ColumnType::Varchar {
            return 0 < self.cells && self.valued == 0 && self.is_value(text);
        }
        let mut joined = self.clone();
        joined.add(text);
        joined.infer().ty == ColumnType::Varchar
    }

    /// Returns true if a cell that is not among these is a value by itself: a number, timestamp,
    /// boolean or UUID, which a header does not have.
    pub(super) fn is_value(&self, text: &[u8]) -> bool {
        let is_number =
            || text.iter().any(u8::is_ascii_digit) && crate::parse::parse_f64(text).is_ok();
        let is_time = || {
            let mut formats = self.formats.iter().map(|format| format.parser.clone());
            formats.any(|mut parser| parser.parse(text).is_ok())
        };
        is_true_or_false(text) || is_number() || is_hyphenated_uuid(text) || is_time()
    }
}

/// Returns true if a text may have a format: most texts are not timestamps, which a cheap test
/// shows.
fn may_be(text: &[u8], format: &TimestampFormat) -> bool {
    match format {
        TimestampFormat::Iso => text.get(4..).is_some_and(|rest| rest.contains(&b'-')),
        TimestampFormat::DayFirst | TimestampFormat::MonthFirst => text.contains(&b'/'),
        _ => true,
    }
}

fn is_hyphenated_uuid(text: &[u8]) -> bool {
    exact_uuid(text).is_ok()
}
