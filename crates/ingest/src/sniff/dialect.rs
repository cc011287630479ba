//! The dialect of a sample: its delimiter, its quotes, and its line ends.
//!
//! - dialect-1. A delimiter that gives all records the same number of cells, at least two, is
//!   preferred to one that gives it to nine of ten, and that to all others: a text may contain any
//!   character, but rarely by chance as often in each record.
//! - dialect-2. Among equal ones, the delimiter is preferred whose cells contain the fewest other
//!   delimiters: `1,5;2,5` is two numbers.
//! - dialect-4. Quotes are text if the sample is regular without them, and they enclose whole lines
//!   that look like records.
//! - dialect-3. A colon is never guessed: every time of day, IPv6 and MAC address contains as many.

use std::collections::BTreeMap;

use super::records::{Cell, Record, Records, Shape};
use super::{LineEnd, SniffOptions};
use crate::exact::{Number, number_of};
use crate::multiline::{Kind, LineShape};
use crate::options::Quote;
use crate::timestamp::{TimestampFormat, TimestampParser};

use tidegate_model::TimeUnit;

/// The candidates, in the order of preference between equal ones. `None` is a file of one column.
const CANDIDATES: [Option<u8>; 5] = [Some(b','), Some(b';'), Some(b'\t'), Some(b'|'), None];
/// Delimiters for a file of one column, which occur in no text: the separators of ASCII first. A
/// comma that the sample does not contain may occur behind it.
const SPARE: [u8; 8] = [0x1F, 0x1E, 0x1D, 0x1C, 1, 2, 3, 4];

/// The delimiters that a text may have without an option.
pub(super) fn delimiters() -> impl Iterator<Item = u8> {
    CANDIDATES.into_iter().flatten()
}

/// The number of records that are tried with each candidate, and the bytes that contain them.
const RECORDS: u32 = 1_000;
const BYTES: usize = 256 << 10;

/// Detects line ends: CR alone only if the head has such outside of quotes and no LF there but its
/// last byte: an LF that an editor has added to such a file fails the import, which is better than
/// all of its lines in one row. If the head has no line end outside of quotes, the windows decide.
pub(crate) fn line_end(head: &[u8], windows: &[&[u8]], quote: Option<u8>) -> LineEnd {
    let line_ends = unquoted_line_ends(head, quote);
    if line_ends.lf == 0 && line_ends.cr == 0 {
        let has = |byte| windows.iter().any(|window| memchr::memchr(byte, window).is_some());
        return if has(b'\r') && !has(b'\n') { LineEnd::Cr } else { LineEnd::LfOrCrlf };
    }
    let is_last = line_ends.lf == 1 && 0 < line_ends.cr && head.last() == Some(&b'\n');
    if line_ends.lf == 0 || is_last { LineEnd::Cr } else { LineEnd::LfOrCrlf }
}

/// Counts of the line ends of a sample outside of quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LineEnds {
    /// LF, with or without a CR before it.
    pub(super) lf: u64,
    /// CR without an LF behind it.
    pub(super) cr: u64,
}

/// Counts line ends by the parity of quotes, which is exact if the quotes are correct.
pub(super) fn unquoted_line_ends(head: &[u8], quote: Option<u8>) -> LineEnds {
    let mut line_ends = LineEnds::default();
    let mut is_inside = false;
    let quote = quote.unwrap_or(b'\n');
    for at in memchr::memchr3_iter(quote, b'\n', b'\r', head) {
        match head[at] {
            b'\n' if !is_inside => line_ends.lf += 1,
            b'\r' if !is_inside && head.get(at + 1) != Some(&b'\n') => {
                // The sample may end between a CR and its LF.
                line_ends.cr += u64::from(at + 1 < head.len());
            }
            b'\n' | b'\r' => {}
            _ => is_inside = !is_inside,
        }
    }
    if line_ends.lf == 0 && line_ends.cr == 0 && head.last() == Some(&b'\r') && !is_inside {
        line_ends.cr = 1;
    }
    line_ends
}

/// The properties of a sample with one delimiter.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Trial {
    /// The number of cells of most records; 0 without records.
    columns: usize,
    /// The share of records with that number of cells (dialect-1).
    fit: Fit,
    /// A score from 0 to about 1 (dialect-2).
    score: f64,
    /// True if each record has that number of cells, and each quote its partner.
    is_regular: bool,
}

/// The share of records with the same number of cells, at least two; without a delimiter, the whole
/// text of a record is one cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fit {
    Some,
    /// Nine of ten records.
    Most,
    All,
}

/// The number of ten records that are most.
const MOST: u32 = 9;

/// The shape of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SniffedShape {
    /// The shape, always with a delimiter.
    pub(super) shape: Shape,
    /// The number of cells of most records; 0 without records.
    pub(super) columns: usize,
    /// True if quotes are text because the sample has no records with them as quotes.
    pub(super) is_unquoted: bool,
}

/// The most probable shape.
pub(super) fn shape(head: &[u8], line_end: LineEnd, options: &SniffOptions<'_>) -> SniffedShape {
    let quote = options.quote.byte();
    let blank_is_record = options.blank_is_record;
    let quoted = Shape { delimiter: None, quote, line_end, blank_is_record };
    let (shape, trial) = best(head, quoted, options);
    let sniffed = SniffedShape { shape, columns: trial.columns, is_unquoted: false };
    // `"` quotes unless there is proof that it does not: every record is regular without it.
    if options.quote != Quote::Standard || memchr::memchr(b'"', head).is_none() {
        return sniffed;
    }
    let are_joined = JOINED_MIN <= joined_lines(head, &sniffed);
    if trial.is_regular && !are_joined {
        return sniffed;
    }
    let bare = Shape { quote: None, ..quoted };
    let (shape, bare) = best(head, bare, options);
    let is_better = are_joined || trial.score < bare.score;
    let is_better = is_better && bare.is_regular && 2 <= bare.columns;
    match is_better && !are_cells_wrapped(head, shape, are_joined) {
        true => SniffedShape { shape, columns: bare.columns, is_unquoted: true },
        false => sniffed,
    }
}

/// The number of cells with a quote at their start below which quotes are text only if they enclose
/// records: a single quote that is open at the end may be due to a file that was cut off.
const UNQUOTED_MIN: u32 = 3;

/// The number of lines within quotes that must look like records.
const JOINED_MIN: u64 = 4;

/// The number of lines of the sample that look like records, not counting the first of each record
/// of several lines; 0 if a record of several lines contains lines of text (dialect-4).
fn joined_lines(head: &[u8], sniffed: &SniffedShape) -> u64 {
    let SniffedShape { shape, columns, .. } = *sniffed;
    let line_end = match shape.line_end {
        LineEnd::LfOrCrlf => b'\n',
        LineEnd::Cr => b'\r',
    };
    let (mut values, mut seen) = (vec![true; columns], vec![false; columns]);
    let mut several = Vec::new();
    let mut reader = Records::new(head, shape);
    for number in 0..RECORDS {
        let Some(record) = reader.next().filter(|_| reader.offset() < BYTES) else { break };
        let text = &head[record.start..reader.offset()];
        let text = text.strip_suffix(&[line_end]).unwrap_or(text);
        if memchr::memchr(line_end, text).is_some() {
            several.push(text);
        } else if number != 0 && record.count == columns {
            for (at, cell) in record.cells.iter().enumerate().take(columns) {
                if !cell.text.is_empty() {
                    seen[at] = true;
                    values[at] &= number_of(&cell.text) != Number::None;
                }
            }
        }
    }
    let numbers = (0..columns).filter(|&at| values[at] && seen[at]);
    let typed = numbers.map(|at| (at, Kind::Number)).collect();
    let delimiter = shape.delimiter.expect("the shape that was chosen has one");
    let lines = LineShape { delimiter, line_end, fields: columns, typed };
    let joined = several.into_iter().map(|text| lines.joined(text).map(|lines| lines - 1));
    joined.sum::<Option<u64>>().unwrap_or(0)
}

/// Returns true if most cells that begin with a quote also end with one: then quotes quote, and
/// some are only wrong. Also true for fewer than three such cells, which are too little evidence,
/// unless they enclose records.
fn are_cells_wrapped(head: &[u8], bare: Shape, are_joined: bool) -> bool {
    let (mut opened, mut wrapped) = (0_u32, 0_u32);
    let mut reader = Records::new(head, bare);
    while reader.offset() < BYTES {
        let Some(record) = reader.next() else { break };
        for cell in record.cells.iter().filter(|cell| cell.text.first() == Some(&b'"')) {
            opened += 1;
            wrapped += u32::from(cell.text.len() > 1 && cell.text.last() == Some(&b'"'));
        }
    }
    opened < UNQUOTED_MIN && !are_joined || opened < 2 * wrapped
}

/// The best delimiter for these quotes and line ends.
fn best(head: &[u8], shape: Shape, options: &SniffOptions<'_>) -> (Shape, Trial) {
    let quote = shape.quote;
    let with = |delimiter| Shape { delimiter, ..shape };
    if options.delimiter.is_some() {
        let shape = with(options.delimiter);
        return (shape, trial(head, shape, options));
    }
    let others = || CANDIDATES.into_iter().flatten().filter(|byte| Some(*byte) != quote);
    let nothing = Trial { columns: 0, fit: Fit::Some, score: 0.0, is_regular: false };
    let like = options.like.map(|like| like.delimiter).filter(|own| Some(*own) != quote);
    let first = like.or_else(|| others().next());
    let mut best = (with(first), nothing);
    let own = options.like.map(|like| Some(like.delimiter));
    let own = own.filter(|own| *own != quote && !CANDIDATES.contains(own));
    let candidates = CANDIDATES.into_iter().chain(own);
    for delimiter in candidates.filter(|delimiter| delimiter.is_none() || *delimiter != quote) {
        let shape = with(delimiter);
        let trial = trial(head, shape, options);
        let is_own = own.is_some() && delimiter == own.flatten();
        let separates = delimiter.is_none() || is_own || 2 <= trial.columns;
        let is_better = (best.1.fit, best.1.score) < (trial.fit, trial.score);
        if separates && 0.0 < trial.score && is_better {
            best = (shape, trial);
        }
    }
    let (shape, trial) = best;
    // A file of one column gets a delimiter too, one that does not occur in it.
    let spare = || SPARE.into_iter().find(|byte| !head.contains(byte)).or_else(|| others().next());
    (with(shape.delimiter.or_else(spare)), trial)
}

fn trial(head: &[u8], shape: Shape, options: &SniffOptions<'_>) -> Trial {
    let mut counts = BTreeMap::new();
    let (mut records, mut cells, mut clean, mut sound) = (0_u32, 0_u32, 0_u32, 0_u32);
    let (mut whole, mut indented) = (0_u32, 0_u32);
    let mut times = TimestampParser::new(&TimestampFormat::Iso, TimeUnit::Micros);
    let mut reader = Records::new(head, shape);
    let mut is_cut = false;
    while records < RECORDS && reader.offset() < BYTES {
        let Some(record) = reader.next() else { break };
        if !is_usable(&record, options) {
            // A record that the end of the sample cuts off is short, unless a quote hides the rest.
            is_cut = !record.is_sound;
            break;
        }
        records += 1;
        if record.is_sound {
            sound += 1;
            *counts.entry(record.count).or_insert(0_u32) += 1;
        }
        for cell in &record.cells {
            cells += 1;
            clean += u32::from(is_clean(cell, shape.delimiter, &mut times));
            whole += u32::from(!cell.text.iter().any(|byte| CANDIDATES.contains(&Some(*byte))));
            indented += u32::from(!cell.is_quoted && cell.text.first() == Some(&b' '));
        }
    }
    let Some((&columns, &fitting)) = counts.iter().max_by_key(|(_, fitting)| **fitting) else {
        let is_regular = !is_cut && records == 0;
        return Trial { columns: 0, fit: Fit::Some, score: 0.0, is_regular };
    };
    let mut score = f64::from(fitting) / f64::from(records) * f64::from(clean) / f64::from(cells);
    // `(X11; Linux)` is prose: a blank behind a delimiter decides only between otherwise equal
    // ones.
    score *= 1.0 - f64::from(indented) / f64::from(cells) / 100.0;
    let is_expected = options.expected.is_some_and(|schema| schema.columns().len() == columns);
    // The files of an import mostly have the same dialect.
    let is_alike = options.like.is_some_and(|like| {
        like.columns == columns && shape.delimiter.is_none_or(|own| own == like.delimiter)
    });
    if is_expected || is_alike {
        score *= 1.5;
    }
    let is_regular = !is_cut && fitting == records && sound == records;
    let fit = match shape.delimiter {
        None if whole == cells => Fit::All,
        None => Fit::Some,
        Some(_) if columns < 2 => Fit::Some,
        Some(_) if is_regular => Fit::All,
        Some(_) if u64::from(records) * u64::from(MOST) <= u64::from(fitting) * 10 => Fit::Most,
        Some(_) => Fit::Some,
    };
    Trial { columns, fit, score, is_regular }
}

/// Returns true if a record is not cut off by the end of the sample.
pub(super) fn is_usable(record: &Record<'_>, options: &SniffOptions<'_>) -> bool {
    record.is_whole || options.head_is_whole
}

/// Returns true if a cell contains nothing that speaks against the delimiter.
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

/// Returns true for a text such as `https://...`.
fn is_address(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"://").is_some()
}

/// Returns true for a text such as `-12,5`.
fn has_decimal_comma(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let mut parts = digits.split(|&byte| byte == b',');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
    };
    is_number(parts.next()) && is_number(parts.next()) && parts.next().is_none()
}
