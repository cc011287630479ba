//! A simple parser of the line protocol: byte by byte from its grammar, one value at a time, with
//! the cells of `slow`. It shares no code with the parser that it is compared with.

use tidegate_ingest::line::{LineOptions, Precision};
use tidegate_ingest::timestamp::{EpochUnit, TimestampFormat};
use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{ColumnType, Schema, TimeUnit, Value, limits};

use crate::slow;

/// The result of a text.
#[derive(Debug, Default)]
pub(crate) struct SlowOutcome {
    /// The tables, in the order of their first lines.
    pub tables: Vec<SlowTable>,
    /// The first physical lines of bad lines, and their first bytes.
    pub rejected: Vec<(u64, Vec<u8>)>,
}

#[derive(Debug)]
pub(crate) struct SlowTable {
    pub name: String,
    pub unit: TimeUnit,
    designated: String,
    schema: Option<Schema>,
    /// The columns; the type is `None` before the first value.
    pub columns: Vec<(String, Option<ColumnType>)>,
    pub rows: Vec<SlowRow>,
}

#[derive(Debug)]
pub(crate) struct SlowRow {
    pub line: u64,
    pub instant: i64,
    /// The values; fewer than there are columns if further columns came later.
    pub values: Vec<Value>,
}

/// Parses all lines of a text; bad ones are skipped. Lines without a timestamp are at `now`.
pub(crate) fn read(
    text: &[u8],
    options: &LineOptions,
    schemas: &[(&str, Schema)],
    now: i64,
) -> SlowOutcome {
    let mut reader = Reader { options, schemas, now, outcome: SlowOutcome::default() };
    let mut line = 1;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let line_end = line_end(rest, options.max_line_bytes);
        let content = &rest[..line_end.content];
        let row = if line_end.is_bad { None } else { reader.line(content, line) };
        if row.is_none() {
            let raw = &rest[..line_end.content.min(1_024)];
            reader.outcome.rejected.push((line, raw.to_vec()));
        }
        line += count_newlines(&rest[..line_end.next]);
        at += line_end.next;
    }
    reader.outcome
}

fn count_newlines(text: &[u8]) -> u64 {
    text.iter().filter(|&&byte| byte == b'\n').count() as u64
}

struct LineEnd {
    /// The size of the line without its newline.
    content: usize,
    /// The start of the next line.
    next: usize,
    is_bad: bool,
}

fn line_end(text: &[u8], max: usize) -> LineEnd {
    let mut at = 0;
    let mut section = if text[0] == b'#' { "comment" } else { "head" };
    let mut string_at = 0;
    let mut is_dangling = false;
    let newline_from = |from: usize| {
        let found = text[from..].iter().position(|&byte| byte == b'\n');
        found.map_or(text.len(), |found| from + found + 1)
    };
    while at < text.len() {
        if max < at {
            let from = if section == "string" { string_at } else { max };
            let next = newline_from(from);
            return LineEnd { content: text.len().min(max + 1), next, is_bad: true };
        }
        let byte = text[at];
        if byte == b'\n' && section != "string" {
            return LineEnd { content: at, next: at + 1, is_bad: false };
        }
        at += 1;
        let is_escape = byte == b'\\' && ["head", "key", "string"].contains(&section);
        if is_escape {
            is_dangling = at == text.len();
            at = text.len().min(at + 1);
            continue;
        }
        section = match (section, byte) {
            ("head", b' ') => "key",
            ("key", b'=') => "start",
            ("start", b'"') => {
                string_at = at;
                "string"
            }
            ("start" | "value", b',' | b' ') => "key",
            ("start", _) => "value",
            ("string", b'"') => "value",
            _ => section,
        };
    }
    if max < at {
        let from = if section == "string" { string_at } else { max };
        let content = text.len().min(max + 1);
        return LineEnd { content, next: newline_from(from), is_bad: true };
    }
    if section == "string" {
        return LineEnd { content: text.len(), next: newline_from(string_at), is_bad: true };
    }
    LineEnd { content: at, next: at, is_bad: is_dangling }
}

struct Reader<'a> {
    options: &'a LineOptions,
    schemas: &'a [(&'a str, Schema)],
    now: i64,
    outcome: SlowOutcome,
}

/// A value as it stands in a line, by its kind.
#[derive(Clone)]
enum RawValue {
    Null,
    Integer(Vec<u8>),
    Unsigned(Vec<u8>),
    Float(Vec<u8>),
    Decimal(Vec<u8>),
    Boolean(bool),
    Text(Vec<u8>),
    Tag(Vec<u8>),
    Time(Vec<u8>, EpochUnit),
    Hex(Vec<u8>),
}

impl Reader<'_> {
    /// Parses a line, which need not give a row; `None` if it is bad.
    fn line(&mut self, content: &[u8], line: u64) -> Option<()> {
        if content.first() == Some(&b'#')
            || content.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
        {
            return Some(());
        }
        let content = without_return(content);
        if str::from_utf8(content).is_err() || content.contains(&0) {
            return None;
        }
        let (head, rest) = cut(content, b" ", true);
        let mut parts = split(head, b',', true).into_iter();
        let name = unescaped(parts.next()?, b" ,=\\\n\r");
        let name = checked_name(&name)?;
        if name.to_lowercase().starts_with("sys.") {
            return None;
        }
        let mut values = Vec::new();
        for tag in parts {
            let (key, text) = cut(tag, b"=", true);
            let text = text?;
            if cut(text, b"=", true).1.is_some() {
                return None;
            }
            let text = unescaped(text, b" ,=\\\n\r");
            let raw = if text.is_empty() { RawValue::Null } else { RawValue::Tag(text) };
            values.push((unescaped(key, b" ,=\\\n\r"), raw, true));
        }
        let rest = rest.map(trim_start).unwrap_or_default();
        let rest = self.fields(rest, &mut values)?;
        if values.is_empty() {
            return None;
        }
        let time = trim_start(rest);
        let (time, behind) = cut(time, b" ", false);
        if !trim_start(behind.unwrap_or_default()).is_empty() {
            return None;
        }
        let digits = match time {
            [digits @ .., b'n' | b't' | b'm'] => digits,
            digits => digits,
        };
        if !time.is_empty() && !all_digits(digits.strip_prefix(b"-").unwrap_or(digits)) {
            return None;
        }
        self.row(&name, values, time, line)
    }

    /// Parses fields. Returns the rest of the line.
    fn fields<'t>(
        &self,
        text: &'t [u8],
        values: &mut Vec<(Vec<u8>, RawValue, bool)>,
    ) -> Option<&'t [u8]> {
        let mut rest = text;
        let mut is_first = true;
        loop {
            let (token, _) = cut(rest, b" ,=", true);
            let is_field = rest.get(token.len()) == Some(&b'=');
            if !is_field {
                let is_time = is_first && rest.get(token.len()) != Some(&b',');
                return is_time.then_some(rest);
            }
            is_first = false;
            let key = unescaped(token, b" ,=\\\n\r");
            rest = &rest[token.len() + 1..];
            let raw;
            if rest.first() == Some(&b'"') {
                let (string, behind) = cut(&rest[1..], b"\"", true);
                raw = RawValue::Text(unescaped(string, b"\"\\\n\r"));
                rest = behind?;
                if !matches!(rest.first(), None | Some(b',' | b' ')) {
                    return None;
                }
            } else {
                let (value, _) = cut(rest, b" ,", false);
                raw = raw_value(value)?;
                rest = &rest[value.len()..];
            }
            values.push((key, raw, false));
            if rest.first() != Some(&b',') {
                return Some(rest);
            }
            rest = &rest[1..];
        }
    }

    fn row(
        &mut self,
        name: &str,
        values: Vec<(Vec<u8>, RawValue, bool)>,
        time: &[u8],
        line: u64,
    ) -> Option<()> {
        let known = self.outcome.tables.iter().position(|table| table.name == name);
        let mut table = match known {
            Some(known) => {
                let table = &self.outcome.tables[known];
                SlowTable {
                    name: name.to_owned(),
                    unit: table.unit,
                    designated: table.designated.clone(),
                    schema: table.schema.clone(),
                    columns: table.columns.clone(),
                    rows: Vec::new(),
                }
            }
            None => self.new_table(name)?,
        };
        let row = self.row_of(&mut table, values, time, line)?;
        match known {
            Some(known) => {
                let known = &mut self.outcome.tables[known];
                known.columns = table.columns;
                known.rows.push(row);
            }
            None => {
                table.rows.push(row);
                self.outcome.tables.push(table);
            }
        }
        Some(())
    }

    fn new_table(&self, name: &str) -> Option<SlowTable> {
        let schema = self.schemas.iter().find(|(other, _)| *other == name);
        let schema = schema.map(|(_, schema)| schema.clone());
        let (designated, unit) = match &schema {
            Some(schema) => {
                let (column, unit) = schema.designated_column()?;
                (column.name.clone(), unit)
            }
            None if self.options.create_tables => {
                (self.options.timestamp_name.clone(), TimeUnit::Micros)
            }
            None => return None,
        };
        let name = name.to_owned();
        Some(SlowTable { name, unit, designated, schema, columns: Vec::new(), rows: Vec::new() })
    }

    fn row_of(
        &self,
        table: &mut SlowTable,
        values: Vec<(Vec<u8>, RawValue, bool)>,
        time: &[u8],
        line: u64,
    ) -> Option<SlowRow> {
        let mut row: Vec<Option<Value>> = Vec::new();
        let mut time_field: Option<Option<i64>> = None;
        for (key, raw, is_tag) in values {
            let key = checked_name(&key)?;
            if key.to_lowercase() == table.designated.to_lowercase() {
                if is_tag {
                    return None;
                }
                if time_field.is_none() {
                    time_field = Some(match raw {
                        RawValue::Null => None,
                        raw => Some(instant(&raw, table.unit)?),
                    });
                }
                continue;
            }
            let column = self.column(table, &key)?;
            row.resize(row.len().max(column + 1), None);
            // A tag must fit even if it is ignored; of an ignored field only the syntax is checked.
            if row[column].is_some() && !is_tag {
                continue;
            }
            let ty = match table.columns[column].1 {
                Some(ty) => ty,
                None if matches!(raw, RawValue::Null) => {
                    row[column].get_or_insert(Value::Null);
                    continue;
                }
                None if is_tag => ColumnType::Symbol,
                None => created(&raw, self.options.integer_type)?,
            };
            let value = match raw {
                RawValue::Null => Value::Null,
                raw => convert(&raw, ty)?,
            };
            if row[column].is_none() {
                if value != Value::Null {
                    table.columns[column].1 = Some(ty);
                }
                row[column] = Some(value);
            }
        }
        let instant = match time_field.flatten() {
            Some(instant) => instant,
            None if time.is_empty() => match table.unit {
                TimeUnit::Nanos => self.now,
                TimeUnit::Micros => self.now.div_euclid(1_000),
            },
            None => self.trailing(time, table.unit)?,
        };
        let values = row.into_iter().map(|value| value.unwrap_or(Value::Null)).collect();
        let is_in_range = (TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(&instant);
        is_in_range.then_some(SlowRow { line, instant, values })
    }

    fn column(&self, table: &mut SlowTable, name: &str) -> Option<usize> {
        let same = |other: &str| other.to_lowercase() == name.to_lowercase();
        if let Some(found) = table.columns.iter().position(|(other, _)| same(other)) {
            return Some(found);
        }
        let there = table.schema.as_ref().and_then(|schema| schema.find(name));
        let column = match there {
            Some(column) => (column.name.clone(), Some(column.ty)),
            None => {
                let columns = table.schema.as_ref().map_or(&[][..], |schema| schema.columns());
                let is_new = |name: &str| columns.iter().all(|column| column.name != name);
                let new = table.columns.iter().filter(|(name, _)| is_new(name)).count();
                let there = table.schema.as_ref().map_or(1, |_| columns.len());
                let may_create = self.options.create_columns || table.schema.is_none();
                if !may_create || self.options.max_columns <= there + new {
                    return None;
                }
                (name.to_owned(), None)
            }
        };
        table.columns.push(column);
        Some(table.columns.len() - 1)
    }

    fn trailing(&self, time: &[u8], unit: TimeUnit) -> Option<i64> {
        let (digits, nanos) = match (time.split_last()?, self.options.precision) {
            ((b'n', digits), _) => (digits, 1),
            ((b't', digits), _) => (digits, 1_000),
            ((b'm', digits), _) => (digits, 1_000_000),
            (_, Precision::Nanos) => (time, 1),
            (_, Precision::Micros) => (time, 1_000),
            (_, Precision::Millis) => (time, 1_000_000),
            (_, Precision::Seconds) => (time, 1_000_000_000),
            (_, Precision::Minutes) => (time, 60_000_000_000),
            (_, Precision::Hours) => (time, 3_600_000_000_000),
        };
        scaled(digits, nanos, unit)
    }
}

fn scaled(digits: &[u8], nanos: i128, unit: TimeUnit) -> Option<i64> {
    let count = slow::integer(digits, i64::MIN.into(), i64::MAX.into()).ok()?;
    let per = if unit == TimeUnit::Nanos { 1 } else { 1_000 };
    i64::try_from((count * nanos).div_euclid(per)).ok()
}

fn nanos_per(unit: EpochUnit) -> i128 {
    match unit {
        EpochUnit::Seconds => 1_000_000_000,
        EpochUnit::Millis => 1_000_000,
        EpochUnit::Micros => 1_000,
        EpochUnit::Nanos => 1,
    }
}

/// Removes the carriage return before the newline, unless in names and tags a backslash stands
/// before it.
fn without_return(content: &[u8]) -> &[u8] {
    let Some(stripped) = content.strip_suffix(b"\r") else { return content };
    let (head, rest) = cut(content, b" ", true);
    if rest.is_some() || split_ends_plain(head) { stripped } else { content }
}

/// Returns true if the last byte has no effective backslash before it.
fn split_ends_plain(head: &[u8]) -> bool {
    let mut at = 0;
    let mut is_plain = true;
    while at < head.len() {
        is_plain = head[at] != b'\\' || at + 1 == head.len();
        at += if head[at] == b'\\' { 2 } else { 1 };
    }
    is_plain
}

/// The text before the first of these bytes, and the text behind it. Escaped ones are skipped.
fn cut<'t>(text: &'t [u8], ends: &[u8], has_escapes: bool) -> (&'t [u8], Option<&'t [u8]>) {
    let mut at = 0;
    while at < text.len() {
        if ends.contains(&text[at]) {
            return (&text[..at], Some(&text[at + 1..]));
        }
        at += if has_escapes && text[at] == b'\\' { 2 } else { 1 };
    }
    (text, None)
}

fn split(text: &[u8], separator: u8, has_escapes: bool) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (part, behind) = cut(text, &[separator], has_escapes);
        parts.push(part);
        rest = behind;
    }
    parts
}

fn unescaped(text: &[u8], special: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let next = text.get(at + 1);
        if text[at] == b'\\' && next.is_some_and(|next| special.contains(next)) {
            at += 1;
        }
        out.push(text[at]);
        at += 1;
    }
    out
}

fn trim_start(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    text
}

fn checked_name(name: &[u8]) -> Option<String> {
    let name = String::from_utf8(name.to_vec()).ok()?;
    let is_bad = |c: char| c.is_control() || "?,'\"\\/:()+*%~".contains(c);
    let is_fine = (1..=limits::NAME_BYTES).contains(&name.len())
        && !name.contains(is_bad)
        && !name.starts_with('.')
        && !name.ends_with('.');
    is_fine.then_some(name)
}

fn all_digits(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn raw_value(text: &[u8]) -> Option<RawValue> {
    let is_signed = |text: &[u8]| {
        let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+"));
        all_digits(digits.unwrap_or(text))
    };
    let is_count = |text: &[u8]| all_digits(text.strip_prefix(b"-").unwrap_or(text));
    let is_blank_free = |text: &[u8]| !text.iter().any(|byte| matches!(byte, b' ' | b'\t'));
    Some(match text {
        b"" => RawValue::Null,
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => RawValue::Boolean(true),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => RawValue::Boolean(false),
        [b'0', b'x', hex @ .., b'i']
            if !hex.is_empty() && hex.iter().all(u8::is_ascii_hexdigit) =>
        {
            RawValue::Hex(hex.to_vec())
        }
        [digits @ .., b'i'] if is_signed(digits) => RawValue::Integer(digits.to_vec()),
        [digits @ .., b'u'] if is_signed(digits) => RawValue::Unsigned(digits.to_vec()),
        [digits @ .., b'n'] if is_count(digits) => {
            RawValue::Time(digits.to_vec(), EpochUnit::Nanos)
        }
        [digits @ .., b't'] if is_count(digits) => {
            RawValue::Time(digits.to_vec(), EpochUnit::Micros)
        }
        [digits @ .., b'm'] if is_count(digits) => {
            RawValue::Time(digits.to_vec(), EpochUnit::Millis)
        }
        [number @ .., b'd'] if is_blank_free(number) && is_number(number) => {
            RawValue::Decimal(number.to_vec())
        }
        number if is_blank_free(number) && (is_number(number) || is_special(number)) => {
            RawValue::Float(number.to_vec())
        }
        _ => return None,
    })
}

fn is_number(text: &[u8]) -> bool {
    !is_special(text) && str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok())
}

fn is_special(text: &[u8]) -> bool {
    str::from_utf8(text).is_ok_and(|text| {
        text.parse::<f64>().is_ok() && !text.bytes().any(|byte| byte.is_ascii_digit())
    })
}

fn created(raw: &RawValue, integer_type: ColumnType) -> Option<ColumnType> {
    Some(match raw {
        RawValue::Integer(_) => integer_type,
        RawValue::Unsigned(_) => ColumnType::UInt64,
        RawValue::Float(_) => ColumnType::Float64,
        RawValue::Boolean(_) => ColumnType::Boolean,
        RawValue::Text(_) => ColumnType::Varchar,
        RawValue::Tag(_) => ColumnType::Symbol,
        RawValue::Time(_, EpochUnit::Nanos) => ColumnType::Timestamp(TimeUnit::Nanos),
        RawValue::Time(..) => ColumnType::Timestamp(TimeUnit::Micros),
        RawValue::Decimal(text) => {
            // The first shape that loses nothing: the usual one, then the one with the most digits.
            let places = places(text);
            let shapes = [(18, 3), (38, places.clamp(3, 38)), (38, places.clamp(0, 38))];
            let (precision, scale) = shapes.into_iter().find(|&(precision, scale)| {
                let scale = u8::try_from(scale).unwrap();
                places <= i64::from(scale) && slow::decimal(text, precision, scale).is_ok()
            })?;
            ColumnType::Decimal { precision, scale: u8::try_from(scale).unwrap() }
        }
        RawValue::Null | RawValue::Hex(_) => return None,
    })
}

/// The number of digits behind the point, without zeros at the end.
fn places(number: &[u8]) -> i64 {
    let text = str::from_utf8(number).unwrap().to_lowercase();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let kept = digits.trim_start_matches(['+', '-']).trim_end_matches('0');
    if kept.trim_start_matches('0').is_empty() {
        return i64::MIN;
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    let limit = 10_i128.pow(20);
    let exponent = slow::integer(exponent.as_bytes(), -limit, limit)
        .unwrap_or_else(|_| if exponent.starts_with('-') { -limit } else { limit });
    let places = fraction.len() as i128 - zeros as i128 - exponent;
    i64::try_from(places.clamp(-(10_i128.pow(9)), 10_i128.pow(9))).unwrap()
}

/// Returns true for a value in the range of its kind, which is independent of the column.
fn is_in_range(raw: &RawValue) -> bool {
    match raw {
        RawValue::Integer(text) | RawValue::Time(text, _) => {
            slow::integer(text, i64::MIN.into(), i64::MAX.into()).is_ok()
        }
        RawValue::Unsigned(text) => {
            !text.starts_with(b"-") && slow::integer(text, 0, u64::MAX.into()).is_ok()
        }
        RawValue::Float(text) => slow::value(text, ColumnType::Float64, None).is_ok(),
        _ => true,
    }
}

fn instant(raw: &RawValue, unit: TimeUnit) -> Option<i64> {
    match raw {
        _ if !is_in_range(raw) => None,
        RawValue::Integer(text) | RawValue::Unsigned(text) => {
            let value = slow::integer(text, i64::MIN.into(), i64::MAX.into()).ok()?;
            i64::try_from(value).ok()
        }
        RawValue::Time(text, epoch) => scaled(text, nanos_per(*epoch), unit),
        RawValue::Text(text) => slow::instant(text, &TimestampFormat::Iso, unit).ok(),
        _ => None,
    }
}

/// The table of conversions.
fn convert(raw: &RawValue, ty: ColumnType) -> Option<Value> {
    let value = |text: &[u8]| slow::value(text, ty, Some(&TimestampFormat::Iso)).ok();
    match (raw, ty) {
        _ if !is_in_range(raw) => None,
        (
            RawValue::Tag(text),
            ColumnType::Symbol | ColumnType::Varchar | ColumnType::Uuid | ColumnType::Ipv4,
        ) => value(text),
        (RawValue::Text(text), ColumnType::Decimal { scale, .. }) => {
            let value = value(text)?;
            let trimmed: Vec<u8> =
                text.iter().copied().filter(|byte| !matches!(byte, b' ' | b'\t')).collect();
            (places(&trimmed) <= i64::from(scale)).then_some(value)
        }
        (
            RawValue::Text(text),
            ColumnType::Varchar
            | ColumnType::Symbol
            | ColumnType::Uuid
            | ColumnType::Ipv4
            | ColumnType::Timestamp(_)
            | ColumnType::Date
            | ColumnType::Binary,
        ) => value(text),
        (
            RawValue::Integer(text) | RawValue::Unsigned(text) | RawValue::Float(text),
            ColumnType::Symbol | ColumnType::Varchar,
        ) => value(text),
        (RawValue::Boolean(is), _) => boolean(*is, ty),
        (RawValue::Integer(text) | RawValue::Unsigned(text), ColumnType::Decimal { .. }) => {
            value(text)
        }
        (
            RawValue::Integer(text) | RawValue::Unsigned(text),
            ColumnType::Float32 | ColumnType::Float64,
        ) => {
            let whole = slow::decimal(text, 38, 0).ok()?;
            let Value::Float(value) = value(text)? else { return None };
            #[expect(clippy::cast_possible_truncation, reason = "what is compared")]
            let is_exact = value as i128 == whole;
            is_exact.then_some(Value::Float(value))
        }
        (RawValue::Integer(_) | RawValue::Unsigned(_), ColumnType::Timestamp(unit)) => {
            instant(raw, unit).map(|instant| Value::Integer(instant.into()))
        }
        (RawValue::Integer(text) | RawValue::Unsigned(text), _) if ty.is_integer() => value(text),
        (
            RawValue::Float(text) | RawValue::Decimal(text),
            ColumnType::Float32 | ColumnType::Float64,
        ) => value(text),
        (RawValue::Float(text), ColumnType::Decimal { .. }) if !is_special(text) => value(text),
        (RawValue::Decimal(text), ColumnType::Decimal { scale, .. }) => {
            (places(text) <= i64::from(scale)).then(|| value(text))?
        }
        (RawValue::Float(text), _) if ty.is_integer() && !is_special(text) => {
            if 0 < places(text) {
                return None;
            }
            let whole = slow::decimal(text, 38, 0).ok()?.to_string();
            value(whole.as_bytes())
        }
        (RawValue::Time(text, epoch), _) => time(raw, text, *epoch, ty),
        (RawValue::Hex(digits), ColumnType::Binary) => {
            let zero = if digits.len() % 2 == 0 { "" } else { "0" };
            let digits = str::from_utf8(digits).unwrap();
            value(format!("\\x{zero}{digits}").as_bytes())
        }
        _ => None,
    }
}

/// A count of an epoch, as a time, a day or itself.
fn time(raw: &RawValue, text: &[u8], epoch: EpochUnit, ty: ColumnType) -> Option<Value> {
    match ty {
        ColumnType::Timestamp(unit) => {
            instant(raw, unit).map(|instant| Value::Integer(instant.into()))
        }
        ColumnType::Date => {
            let count = slow::integer(text, i64::MIN.into(), i64::MAX.into()).ok()?;
            let days = (count * nanos_per(epoch)).div_euclid(86_400 * 1_000_000_000);
            i32::try_from(days).ok().map(|days| Value::Integer(days.into()))
        }
        ColumnType::Int64 => slow::value(text, ty, Some(&TimestampFormat::Iso)).ok(),
        _ => None,
    }
}

fn boolean(is: bool, ty: ColumnType) -> Option<Value> {
    match ty {
        ColumnType::Symbol | ColumnType::Varchar => Some(Value::Bytes(is.to_string().into_bytes())),
        ColumnType::Boolean => Some(Value::Bit(is)),
        ColumnType::Float32 | ColumnType::Float64 => Some(Value::Float(f64::from(u8::from(is)))),
        _ => ty.is_integer().then_some(Value::Integer(i128::from(is))),
    }
}
