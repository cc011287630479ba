//! The parts of a line: tags, fields, values, and the timestamp.
//!
//! Each function takes the whole text and a position in it, since a part may reach the end of the
//! text: then the line is incomplete, and is parsed again when more text has come. Values go into
//! the table at once; the parser rolls the row back if a later part is bad.

use memchr::memchr;
use tidegate_model::TimeUnit;
use tidegate_storage::BatchValues;

use super::key_cache::{KeyMatch, NO_KEY};
use super::parse_error::{Reason, shown};
use super::scan::{self, KeyEnd};
use super::series_cache::TagCell;
use super::table::Table;
use super::value_syntax::{self, RawValue, raw_value};
use super::{LineOptions, Precision};
use crate::parse::{self, CellError};

/// The state of the present line.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Its table, after the row has begun.
    pub(super) table: Option<u32>,
    /// True if the table was created by this line.
    pub(super) is_new_table: bool,
    pub(super) cells: Vec<TagCell>,
    pub(super) unescaped: Vec<u8>,
    /// True if the line may contain newlines.
    pub(super) has_newlines: bool,
    pub(super) has_tags: bool,
    pub(super) has_fields: bool,
}

/// The reason why a line did not become a row.
pub(super) enum Stop {
    /// The text ends before the line.
    Incomplete,
    /// A parse error, boxed so that a successful step returns in registers.
    ParseError(Box<Reason>),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Stop {
        Stop::ParseError(Box::new(reason))
    }
}

pub(super) type Step<T> = std::result::Result<T, Stop>;

/// The end of a name or a tag: the first comma without a backslash before it.
pub(super) fn part_end(head: &[u8], start: usize, is_escaped: bool) -> usize {
    if !is_escaped {
        return memchr(b',', &head[start..]).map_or(head.len(), |end| start + end);
    }
    let mut at = start;
    while at < head.len() && head[at] != b',' {
        at += if head[at] == b'\\' { 2 } else { 1 };
    }
    at.min(head.len())
}

/// A tag: its key, if it is cached, its column and the number of its text.
pub(super) fn tag_cell(
    table: &mut Table,
    tag: &[u8],
    previous: u32,
    options: &LineOptions,
    unescaped: &mut Vec<u8>,
) -> Step<(u32, TagCell)> {
    let guess = table.key_cache.guess(previous);
    let (key, column, text) = match table.key_cache.at(guess, tag, 0) {
        Some(found) => (found.key, found.column, &tag[found.end..]),
        None => {
            let Some(KeyEnd::Equals(end)) = scan::key_end(tag, 0) else {
                return Err(Reason::TagWithoutEquals { text: shown(tag) }.into());
            };
            let (key, column) = table.resolve(&tag[..=end], options)?;
            if let Some(key) = key {
                table.key_cache.link(previous, key);
            }
            (key.unwrap_or(NO_KEY), column, &tag[end + 1..])
        }
    };
    let text = match memchr(b'\\', text) {
        None if memchr(b'=', text).is_some() => {
            let column = shown(&tag[..tag.len() - text.len() - 1]);
            return Err(Reason::EqualsInTag { column }.into());
        }
        None => text,
        Some(_) => {
            if let Some(KeyEnd::Equals(_)) = scan::key_end(text, 0) {
                let column = shown(&tag[..tag.len() - text.len() - 1]);
                return Err(Reason::EqualsInTag { column }.into());
            }
            unescaped.clear();
            scan::unescape_name(text, unescaped);
            unescaped
        }
    };
    Ok((key, (column, table.tag_code(column, text)?)))
}

/// Parses the fields that begin at `start`. Returns the start of the token behind them; `start`
/// itself if the first token is not a field.
pub(super) fn fields(
    table: &mut Table,
    text: &[u8],
    start: usize,
    options: &LineOptions,
    row: &mut Row,
) -> Step<usize> {
    let mut at = start;
    let mut previous = NO_KEY;
    let mut value_at = None;
    loop {
        let found = match table.key_cache.at(table.key_cache.guess(previous), text, at) {
            Some(found) => found,
            None => match scan::key_end(text, at) {
                None => return Err(Stop::Incomplete),
                Some(KeyEnd::Equals(end)) => field_key(table, text, at, end, previous, options)?,
                Some(KeyEnd::Other(end)) => match value_at {
                    None if text[end] != b',' => return Ok(start),
                    None => return Err(no_equals(&text[at..end]).into()),
                    Some((key_at, value_at)) => {
                        let (column, value) = (&text[key_at..value_at - 1], &text[value_at..end]);
                        return Err(bad_value(column, value).into());
                    }
                },
            },
        };
        row.has_fields = true;
        value_at = Some((at, found.end));
        previous = found.key;
        let end = value(table, text, found, options, row)?;
        match text.get(end) {
            Some(b',') => at = end + 1,
            _ => return Ok(spaces(text, end)),
        }
    }
}

/// Parses a key that was not guessed.
#[inline(never)]
fn field_key(
    table: &mut Table,
    text: &[u8],
    start: usize,
    end: usize,
    previous: u32,
    options: &LineOptions,
) -> Step<KeyMatch> {
    let raw = &text[start..=end];
    let (key, column) = match table.key_cache.find(raw) {
        Some((key, column)) => (Some(key), column),
        None => {
            check_text(raw)?;
            table.resolve(raw, options)?
        }
    };
    if let Some(key) = key {
        table.key_cache.link(previous, key);
    }
    Ok(KeyMatch { key: key.unwrap_or(NO_KEY), column, start, end: end + 1 })
}

/// Parses the value of a field into its column. Returns its end.
#[inline]
fn value(
    table: &mut Table,
    text: &[u8],
    key: KeyMatch,
    options: &LineOptions,
    row: &mut Row,
) -> Step<usize> {
    let rows = table.rows;
    if let Some(column) = table.columns.get_mut(key.column as usize)
        && (column.is_ready(rows) || column.prepare(rows))
    {
        match &mut column.values {
            BatchValues::I64(values) => {
                if let Some((value, end)) = scan::integer(text, key.end) {
                    values.push(value);
                    return Ok(end);
                }
            }
            BatchValues::F64(values) => {
                if let Some((value, end)) = scan::double(text, key.end) {
                    values.push(value);
                    return Ok(end);
                }
            }
            _ => {}
        }
    }
    other_value(table, text, key, options, row)
}

#[inline(never)]
fn other_value(
    table: &mut Table,
    text: &[u8],
    key: KeyMatch,
    options: &LineOptions,
    row: &mut Row,
) -> Step<usize> {
    let start = key.end;
    let name = || &text[key.start..start - 1];
    match *text.get(start).ok_or(Stop::Incomplete)? {
        b'"' => {
            let (end, is_escaped) = scan::string_end(text, start + 1).ok_or(Stop::Incomplete)?;
            let next = scan::plain_end(text, end + 1).ok_or(Stop::Incomplete)?;
            if next != end + 1 {
                return Err(bad_value(name(), &text[start..next]).into());
            }
            let mut string = &text[start + 1..end];
            check_text(string)?;
            row.has_newlines |= memchr(b'\n', string).is_some();
            if is_escaped {
                row.unescaped.clear();
                scan::unescape_string(string, &mut row.unescaped);
                string = &row.unescaped;
            }
            table.push(key.column, RawValue::Text(string), options)?;
            Ok(next)
        }
        b'=' => Err(Reason::BinaryValue { column: shown(name()) }.into()),
        _ => {
            let end = scan::plain_end(text, start).ok_or(Stop::Incomplete)?;
            if end == start {
                table.push_null(key.column);
                return Ok(end);
            }
            let value = &text[start..end];
            let Some(raw) = raw_value(value) else {
                check_text(value)?;
                return Err(bad_value(name(), value).into());
            };
            table.push(key.column, raw, options)?;
            Ok(end)
        }
    }
}

/// The timestamp of a line.
pub(super) enum Count<'a> {
    /// A count in the precision of the text.
    Plain(i64),
    Text(&'a [u8]),
}

/// Parses the timestamp at this position, if there is one, and the newline behind it. Returns their
/// end.
#[inline]
pub(super) fn time(text: &[u8], at: usize) -> Step<(Option<Count<'_>>, usize)> {
    if let Some((count, end)) = scan::long_count(text, at) {
        return Ok((Some(Count::Plain(count)), end));
    }
    other_time(text, at)
}

#[inline(never)]
fn other_time(text: &[u8], start: usize) -> Step<(Option<Count<'_>>, usize)> {
    if let Some(end) = line_end(text, start)? {
        return Ok((None, end));
    }
    let line = memchr(b'\n', &text[start..]).ok_or(Stop::Incomplete)?;
    let length = memchr(b' ', &text[start..start + line]).unwrap_or(line);
    let mut end = start + length;
    if length == line && text[end - 1] == b'\r' {
        end -= 1;
    }
    let time = &text[start..end];
    let (last, rest) = time.split_last().expect("a token");
    let digits = if value_syntax::epoch_unit(*last).is_some() { rest } else { time };
    if !value_syntax::is_count(digits) {
        check_text(time)?;
        return Err(Reason::BadTime { text: shown(time) }.into());
    }
    let behind = spaces(text, end);
    match line_end(text, behind)? {
        Some(end) => Ok((Some(Count::Text(time)), end)),
        None => Err(Reason::AfterTime { text: shown(&text[behind..start + line]) }.into()),
    }
}

/// The end of the newline at this position, with or without a carriage return before it.
fn line_end(text: &[u8], at: usize) -> Step<Option<usize>> {
    match text.get(at) {
        None => Err(Stop::Incomplete),
        Some(b'\n') => Ok(Some(at)),
        Some(b'\r') => match text.get(at + 1) {
            None => Err(Stop::Incomplete),
            Some(b'\n') => Ok(Some(at + 1)),
            Some(_) => Ok(None),
        },
        Some(_) => Ok(None),
    }
}

pub(super) fn instant_of(
    count: &Count<'_>,
    unit: TimeUnit,
    precision: Precision,
) -> Result<i64, Reason> {
    let instant = match *count {
        Count::Plain(count) => precision.instant(count, unit),
        Count::Text(text) => match text.split_last() {
            Some((&last, digits)) if value_syntax::epoch_unit(last).is_some() => {
                let epoch = value_syntax::epoch_unit(last).expect("asked above");
                value_syntax::instant_of(digits, epoch, unit).ok()
            }
            _ => value_syntax::scaled(text, precision.nanos(), unit).ok(),
        },
    };
    instant.ok_or_else(|| Reason::TimeOutOfRange {
        text: match count {
            Count::Plain(count) => count.to_string(),
            Count::Text(text) => shown(text),
        },
    })
}

/// The error of a timestamp, as it is written, unless it came from a field or the clock.
pub(super) fn out_of_range(text: &[u8], instant: i64) -> Reason {
    let text = if text.is_empty() { instant.to_string() } else { shown(text) };
    Reason::TimeOutOfRange { text }
}

fn no_equals(text: &[u8]) -> Reason {
    Reason::FieldWithoutEquals { text: shown(text) }
}

fn bad_value(column: &[u8], value: &[u8]) -> Reason {
    Reason::BadValue { column: shown(column), value: shown(value) }
}

fn check_text(text: &[u8]) -> Result<(), Reason> {
    match parse::check_text(text, usize::MAX) {
        Ok(_) => Ok(()),
        Err(CellError::NulInText) => Err(Reason::Nul),
        Err(_) => Err(Reason::NotUtf8),
    }
}

/// The position behind the spaces at `at`.
#[inline]
pub(super) fn spaces(text: &[u8], mut at: usize) -> usize {
    while text.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}
