//! Which delimiter a sample has, and how its lines end.
//!
//! A delimiter is right to the degree that it gives all records the same number of cells, and that
//! its cells have no other delimiter in them: `1,5;2,5` is two numbers, and the text of one column
//! is no record of three because it says `10:47:34`.

use std::collections::BTreeMap;

use super::records::{Cell, Record, Records, Shape};
use super::{LineEnd, SniffOptions};
use crate::timestamp::{TimestampFormat, TimestampParser};

use tidegate_model::TimeUnit;

/// In the order in which they win a tie. `None` is a file of one column; a colon is in so many
/// texts and times that it comes after that.
const CANDIDATES: [Option<u8>; 6] =
    [Some(b','), Some(b';'), Some(b'\t'), Some(b'|'), None, Some(b':')];

/// All that a text may have unless it is told.
pub(super) fn delimiters() -> impl Iterator<Item = u8> {
    CANDIDATES.into_iter().flatten()
}

/// How many records are tried with each candidate (COPY's `sample_lines`), and in how many bytes.
const RECORDS: u32 = 1_000;
const BYTES: usize = 256 << 10;

/// Line ends are CR alone only if there is no LF anywhere.
pub(super) fn line_end(head: &[u8], windows: &[&[u8]]) -> LineEnd {
    let has = |byte| {
        let is_in = |sample: &[u8]| memchr::memchr(byte, sample).is_some();
        is_in(head) || windows.iter().any(|window| is_in(window))
    };
    if has(b'\r') && !has(b'\n') { LineEnd::Cr } else { LineEnd::LfOrCrlf }
}

/// How a sample looks with one delimiter.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Trial {
    /// How many cells most records have; 0 without records.
    columns: usize,
    /// From 0 to about 1.
    score: f64,
}

/// The most probable shape, which has a delimiter, and how many cells most records have in it; 0
/// without records.
pub(super) fn shape(
    head: &[u8],
    line_end: LineEnd,
    quote: Option<u8>,
    options: &SniffOptions<'_>,
) -> (Shape, usize) {
    let with = |delimiter| Shape { delimiter, quote, line_end };
    if options.delimiter.is_some() {
        let shape = with(options.delimiter);
        return (shape, trial(head, shape, options).columns);
    }
    let others = || CANDIDATES.into_iter().flatten().filter(|byte| Some(*byte) != quote);
    let mut best = (with(others().next()), Trial { columns: 0, score: 0.0 });
    for delimiter in
        CANDIDATES.into_iter().filter(|delimiter| delimiter.is_none() || *delimiter != quote)
    {
        let shape = with(delimiter);
        let trial = trial(head, shape, options);
        let separates = delimiter.is_none() || 2 <= trial.columns;
        if separates && best.1.score < trial.score {
            best = (shape, trial);
        }
    }
    let (shape, trial) = best;
    // A file of one column gets a delimiter too, one that it does not have if there is one.
    let spare = others().find(|byte| !head.contains(byte)).or_else(|| others().next());
    (with(shape.delimiter.or(spare)), trial.columns)
}

fn trial(head: &[u8], shape: Shape, options: &SniffOptions<'_>) -> Trial {
    let mut counts = BTreeMap::new();
    let (mut records, mut cells, mut clean) = (0_u32, 0_u32, 0_u32);
    let mut times = TimestampParser::new(&TimestampFormat::Iso, TimeUnit::Micros);
    let mut reader = Records::new(head, shape);
    while records < RECORDS && reader.offset() < BYTES {
        let Some(record) = reader.next() else { break };
        if !is_usable(&record, options) {
            break;
        }
        records += 1;
        if record.is_sound {
            *counts.entry(record.count).or_insert(0_u32) += 1;
        }
        for cell in &record.cells {
            cells += 1;
            clean += u32::from(is_clean(cell, shape.delimiter, &mut times));
        }
    }
    let Some((&columns, &fitting)) = counts.iter().max_by_key(|(_, fitting)| **fitting) else {
        return Trial { columns: 0, score: 0.0 };
    };
    let mut score = f64::from(fitting) / f64::from(records) * f64::from(clean) / f64::from(cells);
    if options.expected.is_some_and(|schema| schema.columns().len() == columns) {
        score *= 1.5;
    }
    Trial { columns, score }
}

/// Not cut by the end of the sample.
pub(super) fn is_usable(record: &Record<'_>, options: &SniffOptions<'_>) -> bool {
    record.is_whole || options.head_is_whole
}

/// Whether a cell looks as if the delimiter had cut it out of its record rightly.
fn is_clean(cell: &Cell<'_>, delimiter: Option<u8>, times: &mut TimestampParser) -> bool {
    let text = &*cell.text;
    if cell.is_quoted {
        return true;
    }
    let Some(delimiter) = delimiter else {
        let has_any = CANDIDATES.iter().flatten().any(|other| text.contains(other));
        return !has_any || times.parse(text).is_ok() || is_address(text);
    };
    let is_foreign = |byte: &u8| matches!(byte, b',' | b';' | b'\t' | b'|') && *byte != delimiter;
    !text.iter().any(is_foreign) || has_decimal_comma(text)
}

/// `https://...`
fn is_address(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"://").is_some()
}

/// `-12,5`
fn has_decimal_comma(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let mut parts = digits.split(|&byte| byte == b',');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
    };
    is_number(parts.next()) && is_number(parts.next()) && parts.next().is_none()
}
