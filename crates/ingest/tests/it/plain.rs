//! A plain reader of delimited text: one thread, one byte after the other, one cell after the
//! other. The parallel pipeline must agree with it (STYLE 40).
//!
//! - A quote opens only at the start of a field; text between a closing quote and the next
//!   delimiter makes the record bad, and quotes in it are text.
//! - plain-1. LF ends a record, with or without a CR before it; in a `Cr` dialect CR does. The end
//!   of the file is a line end. Blank lines are not records, but they are lines.
//! - plain-2. An unquoted empty field is NULL, unless it is as a quoted one, and so is the unquoted
//!   NULL text; a quoted empty one is empty text, or NULL in a column that is not text.
//! - A bad record is one reject. So is a bad field: of several in a record, the first in the
//!   order of the table's columns counts. If fields become NULL, each is a separate reject, but a
//!   record that cannot be imported (no timestamp, text after a quote) is rejected once, for that.

use tidegate_ingest::EmptyFields;
use tidegate_ingest::reject::Reason;
use tidegate_ingest::sniff::LineEnd;
use tidegate_ingest::timestamp::TimestampFormat;
use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{ColumnType, Schema, Value};

use crate::slow;

/// The options of the reader; nothing is detected.
#[derive(Clone, Debug)]
pub(crate) struct PlainOptions<'a> {
    pub(crate) schema: &'a Schema,
    /// For each column of the file, its position in the schema. A record has as many fields.
    pub(crate) targets: Vec<Option<usize>>,
    /// The format of timestamps for each column of the file.
    pub(crate) formats: Vec<Option<TimestampFormat>>,
    pub(crate) delimiter: u8,
    pub(crate) quote: Option<u8>,
    pub(crate) line_end: LineEnd,
    pub(crate) header: PlainHeader,
    /// The number of physical lines before the header.
    pub(crate) skip_lines: u64,
    pub(crate) null_text: Option<&'a [u8]>,
    pub(crate) empty_fields: EmptyFields,
    pub(crate) bad_cell: BadCell,
    pub(crate) missing_fields: Missing,
    /// The maximum size of a record, without the line end.
    pub(crate) record_bytes_max: usize,
}

/// The kind of the first record: header or row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlainHeader {
    Present,
    Absent,
}

/// The treatment of a cell that does not parse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadCell {
    SkipsRow,
    IsNull,
}

/// The treatment of a record with too few fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Missing {
    AreNull,
    AreBad,
}

impl<'a> PlainOptions<'a> {
    /// The options for a comma, a double quote, LF, no header, all columns of the schema in order,
    /// ISO times.
    pub(crate) fn of(schema: &'a Schema) -> PlainOptions<'a> {
        let columns = schema.columns().len();
        PlainOptions {
            schema,
            targets: (0..columns).map(Some).collect(),
            formats: vec![Some(TimestampFormat::Iso); columns],
            delimiter: b',',
            quote: Some(b'"'),
            line_end: LineEnd::LfOrCrlf,
            header: PlainHeader::Absent,
            skip_lines: 0,
            null_text: None,
            empty_fields: EmptyFields::Null,
            bad_cell: BadCell::SkipsRow,
            missing_fields: Missing::AreNull,
            record_bytes_max: tidegate_model::limits::CSV_ROW_BYTES,
        }
    }
}

/// A reject, without the file and the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlainReject {
    pub(crate) line: u64,
    pub(crate) byte: u64,
    /// The name of the column in the table.
    pub(crate) column: Option<String>,
    pub(crate) reason: Reason,
}

/// The contents of a text.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plain {
    /// The rows, with values in the order of the schema's columns; ordered by designated timestamp
    /// if there is one, equal ones as in the file.
    pub(crate) rows: Vec<Vec<Value>>,
    /// The rejects in the order of the file.
    pub(crate) rejects: Vec<PlainReject>,
    /// The number of records, without the header.
    pub(crate) records: u64,
    /// The line of a quote that is never closed; then the import fails.
    pub(crate) open_quote: Option<u64>,
}

/// Reads a whole text.
pub(crate) fn read(bytes: &[u8], options: &PlainOptions<'_>) -> Plain {
    let (mut records, open_quote) = split(bytes, options);
    if options.header == PlainHeader::Present && !records.is_empty() {
        records.remove(0);
    }
    let mut plain = Plain {
        rows: vec![],
        rejects: vec![],
        records: records.len().try_into().expect("a count"),
        open_quote,
    };
    for record in &records {
        plain.rows.extend(row(record, options, &mut plain.rejects));
    }
    if let Some(designated) = designated(options.schema) {
        plain.rows.sort_by_key(|row| match row[designated] {
            Value::Integer(instant) => instant,
            _ => unreachable!("model_schema-2"),
        });
    }
    plain
}

fn designated(schema: &Schema) -> Option<usize> {
    schema.columns().iter().position(|column| Some(column.id) == schema.designated())
}

#[derive(Default)]
struct Field {
    text: Vec<u8>,
    is_quoted: bool,
    has_text_after_quote: bool,
}

struct Record {
    line: u64,
    start: usize,
    end: usize,
    fields: Vec<Field>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Bare,
    Quoted,
    QuoteInQuoted,
    AfterQuote,
}

/// The records, and the line of a quote that is never closed.
fn split(bytes: &[u8], options: &PlainOptions<'_>) -> (Vec<Record>, Option<u64>) {
    let line_end = if options.line_end == LineEnd::Cr { b'\r' } else { b'\n' };
    let mut at = if bytes.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    let mut line = 1;
    while line <= options.skip_lines && at < bytes.len() {
        line += u64::from(bytes[at] == line_end);
        at += 1;
    }
    let mut records = vec![];
    while at < bytes.len() {
        let len = line_end_len(&bytes[at..], options);
        let is_first = options.header == PlainHeader::Present && records.is_empty();
        if len != 0 && options.targets.len() == 1 && !is_first {
            // In a file of one column, a blank line is a row of NULL.
            records.push(Record { line, start: at, end: at, fields: vec![Field::default()] });
        }
        if len != 0 {
            (at, line) = (at + len, line + 1);
            continue;
        }
        let record = match record(bytes, at, line, options) {
            Ok(record) => record,
            Err(quote_line) => return (records, Some(quote_line)),
        };
        let end = record.end + line_end_len(&bytes[record.end..], options);
        line += bytes[at..end].iter().filter(|&&byte| byte == line_end).count() as u64;
        at = end;
        records.push(record);
    }
    (records, None)
}

/// The size of a line end (plain-1); zero if the text does not begin with one.
fn line_end_len(text: &[u8], options: &PlainOptions<'_>) -> usize {
    match (options.line_end, text) {
        (LineEnd::LfOrCrlf, [b'\r', b'\n', ..]) => 2,
        (LineEnd::LfOrCrlf, [b'\n', ..] | [b'\r']) | (LineEnd::Cr, [b'\r', ..]) => 1,
        _ => 0,
    }
}

/// The record at a position, or the line of the quote that opens in it and is never closed.
fn record(
    bytes: &[u8],
    start: usize,
    line: u64,
    options: &PlainOptions<'_>,
) -> Result<Record, u64> {
    let line_end = if options.line_end == LineEnd::Cr { b'\r' } else { b'\n' };
    let (mut state, mut at, mut quote_line, mut here) = (State::FieldStart, start, line, line);
    let mut field = Field::default();
    let mut record = Record { line, start, end: start, fields: vec![] };
    loop {
        let byte = bytes.get(at).copied();
        let is_quote = byte.is_some() && byte == options.quote;
        let is_quoted = state == State::Quoted;
        if is_quoted && (byte.is_none() || options.record_bytes_max < at - start) {
            return Err(quote_line);
        }
        let is_end = byte.is_none() || line_end_len(&bytes[at..], options) != 0;
        match (state, byte) {
            (State::Quoted, _) if is_quote => state = State::QuoteInQuoted,
            (State::Quoted, Some(byte)) => {
                here += u64::from(byte == line_end);
                field.text.push(byte);
            }
            (State::QuoteInQuoted, Some(byte)) if is_quote => {
                field.text.push(byte);
                state = State::Quoted;
            }
            (State::FieldStart, _) if is_quote => {
                (field.is_quoted, state, quote_line) = (true, State::Quoted, here);
            }
            _ if is_end || byte == Some(options.delimiter) => {
                record.fields.push(std::mem::take(&mut field));
                state = State::FieldStart;
                if is_end {
                    record.end = at;
                    return Ok(record);
                }
            }
            (State::QuoteInQuoted | State::AfterQuote, _) => {
                field.has_text_after_quote = true;
                state = State::AfterQuote;
            }
            (_, Some(byte)) => {
                field.text.push(byte);
                state = State::Bare;
            }
            (_, None) => unreachable!("is_end"),
        }
        at += 1;
    }
}

/// The row of a record; `None` if it is rejected.
fn row(
    record: &Record,
    options: &PlainOptions<'_>,
    rejects: &mut Vec<PlainReject>,
) -> Option<Vec<Value>> {
    let reject = |column: Option<usize>, reason: Reason| PlainReject {
        line: record.line,
        byte: record.start.try_into().expect("an offset"),
        column: column.map(|column| options.schema.columns()[column].name.clone()),
        reason,
    };
    let count = record.fields.len();
    let whole = if options.record_bytes_max < record.end - record.start {
        Some(Reason::RecordTooLong)
    } else if options.targets.len() < count {
        Some(Reason::TooManyFields)
    } else if count < options.targets.len() && options.missing_fields == Missing::AreBad {
        Some(Reason::TooFewFields)
    } else {
        None
    };
    if let Some(reason) = whole {
        rejects.push(reject(None, reason));
        return None;
    }
    let designated = designated(options.schema);
    let mut row = vec![Value::Null; options.schema.columns().len()];
    let mut bad = vec![];
    for (position, field) in record.fields.iter().enumerate() {
        let Some(target) = options.targets[position] else { continue };
        match cell(field, target, position, options) {
            Ok(value) => row[target] = value,
            Err(reason) => bad.push((target, reason)),
        }
    }
    if let Some(designated) = designated
        && row[designated] == Value::Null
        && !bad.iter().any(|(target, _)| *target == designated)
    {
        bad.push((designated, Reason::NullTimestamp));
    }
    bad.sort();
    let fatal = match options.bad_cell {
        BadCell::SkipsRow => bad.first(),
        BadCell::IsNull => bad.iter().find(|(target, reason)| {
            Some(*target) == designated || *reason == Reason::TextAfterQuote
        }),
    };
    if let Some((target, reason)) = fatal {
        rejects.push(reject(Some(*target), *reason));
        return None;
    }
    rejects.extend(bad.into_iter().map(|(target, reason)| reject(Some(target), reason)));
    Some(row)
}

/// The value of a field (plain-2).
fn cell(
    field: &Field,
    target: usize,
    position: usize,
    options: &PlainOptions<'_>,
) -> Result<Value, Reason> {
    let column = &options.schema.columns()[target];
    let is_text = matches!(column.ty, ColumnType::Symbol | ColumnType::Varchar);
    if field.has_text_after_quote {
        return Err(Reason::TextAfterQuote);
    }
    let is_null_text = options.null_text == Some(field.text.as_slice());
    let is_null = field.text.is_empty() && options.empty_fields == EmptyFields::Null;
    if !field.is_quoted && (is_null || is_null_text) {
        return Ok(Value::Null);
    }
    if field.text.is_empty() && !is_text {
        return Ok(Value::Null);
    }
    let value = slow::value(&field.text, column.ty, options.formats[position].as_ref())?;
    match value {
        Value::Integer(instant) if options.schema.designated() == Some(column.id) => {
            let range = i128::from(TIMESTAMP_MIN)..=i128::from(TIMESTAMP_MAX);
            if range.contains(&instant) {
                Ok(value)
            } else {
                Err(Reason::TimestampOutOfRange(options.schema.time_unit()))
            }
        }
        _ => Ok(value),
    }
}
