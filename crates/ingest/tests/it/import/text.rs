//! Random files of delimited text: any schema, any order of rows, any dialect, and every kind of
//! error. The plain reader computes their contents.

use std::path::{Path, PathBuf};

use tidegate_ingest::sniff::{Header, LineEnd};
use tidegate_ingest::timestamp::TimestampFormat;
use tidegate_ingest::{EmptyFields, ImportOptions, MissingFields, OnError, Quote, Source};
use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit, limits};

use super::cells::{self, Cell};
use super::random::Random;
use crate::plain::{self, BadCell, Missing, PlainHeader, PlainOptions};
use crate::world::{Expected, World, schema_of};

/// The properties of the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextSpec {
    pub(crate) rows: usize,
    pub(crate) files: usize,
    /// The percentage of records that are blank, bad, or have the wrong number of fields.
    pub(crate) bad_percent: u64,
    /// The size of the long texts in some rows.
    pub(crate) long_bytes: usize,
}

/// The files and their options.
#[derive(Debug)]
pub(crate) struct RandomText {
    pub(crate) schema: Schema,
    files: Vec<TextFile>,
    delimiter: u8,
    quote: Option<u8>,
    header: PlainHeader,
    null_text: Option<&'static str>,
    empty_fields: EmptyFields,
    skip_lines: u64,
    on_error: OnError,
    missing_fields: MissingFields,
}

#[derive(Debug)]
struct TextFile {
    bytes: Vec<u8>,
    /// For each of its columns, the column of the table.
    targets: Vec<usize>,
}

impl RandomText {
    pub(crate) fn new(random: &mut Random, spec: &TextSpec) -> RandomText {
        let schema = schema(random);
        let has_few_rows = spec.rows < 40;
        let header = match has_few_rows || random.percent(50) {
            true => PlainHeader::Present,
            false => PlainHeader::Absent,
        };
        let null_text = random.one_of(&[None, None, Some("NULL"), Some("\\N"), Some("-")]);
        let mut text = RandomText {
            schema,
            files: Vec::new(),
            delimiter: random.one_of(b",,,;\t|^"),
            quote: random.one_of(&[Some(b'"'), Some(b'"'), Some(b'\''), None]),
            header,
            null_text,
            empty_fields: match null_text {
                Some("-") => EmptyFields::Quoted,
                _ => EmptyFields::Null,
            },
            skip_lines: random.one_of(&[0, 0, 0, 1, 3]),
            on_error: random.one_of(&[OnError::SkipRow, OnError::Null]),
            missing_fields: random.one_of(&[MissingFields::Null, MissingFields::Reject]),
        };
        let columns = text.columns(random);
        let instants = instants(random, &text.schema, spec.rows * spec.files);
        for instants in instants.chunks(spec.rows.max(1)).take(spec.files) {
            let mut targets = columns.clone();
            if header == PlainHeader::Present {
                random.shuffle(&mut targets);
            }
            let bytes = FileWriter { text: &text, targets: &targets, random }.write(instants, spec);
            text.files.push(TextFile { bytes, targets });
        }
        text
    }

    /// The columns of the files: without a header the first ones, otherwise any, but always the
    /// designated timestamp.
    fn columns(&self, random: &mut Random) -> Vec<usize> {
        let count = self.schema.columns().len();
        let designated = designated(&self.schema).unwrap_or(0);
        let first = (designated + 1).max(1 + random.index(count));
        match self.header {
            PlainHeader::Absent => (0..first).collect(),
            PlainHeader::Present => {
                let is_there = |&at: &usize| at == designated || !random.percent(10);
                (0..count).filter(is_there).collect()
            }
        }
    }

    /// Writes the files, and returns the options of their import.
    pub(crate) fn put(&self, world: &World) -> ImportOptions {
        let paths: Vec<PathBuf> = (self.files.iter().enumerate())
            .map(|(number, file)| world.put(&name(number), &file.bytes))
            .collect();
        let mut options = world.options(&self.schema, &paths);
        options.source = Source::Files(paths);
        options.on_error = self.on_error;
        let dialect = &mut options.dialect;
        dialect.delimiter = Some(self.delimiter);
        dialect.quote = match self.quote {
            None => Quote::None,
            Some(b'"') => Quote::Standard,
            Some(quote) => Quote::Byte(quote),
        };
        dialect.header = match self.header {
            PlainHeader::Present => Header::Present,
            PlainHeader::Absent => Header::Absent,
        };
        dialect.null_text = self.null_text.map(str::to_owned);
        dialect.empty_fields = self.empty_fields;
        dialect.skip_lines = self.skip_lines;
        dialect.missing_fields = self.missing_fields;
        options
    }

    /// The contents of the files by the plain reader.
    pub(crate) fn expected(&self) -> Expected {
        let mut expected = Expected::default();
        for (number, file) in self.files.iter().enumerate() {
            let plain = PlainOptions {
                schema: &self.schema,
                targets: file.targets.iter().copied().map(Some).collect(),
                formats: vec![Some(TimestampFormat::Iso); file.targets.len()],
                delimiter: self.delimiter,
                quote: self.quote,
                line_end: LineEnd::LfOrCrlf,
                header: self.header,
                skip_lines: self.skip_lines,
                null_text: self.null_text.map(str::as_bytes),
                empty_fields: self.empty_fields,
                bad_cell: match self.on_error {
                    OnError::Null => BadCell::IsNull,
                    _ => BadCell::SkipsRow,
                },
                missing_fields: match self.missing_fields {
                    MissingFields::Null => Missing::AreNull,
                    MissingFields::Reject => Missing::AreBad,
                },
                record_bytes_max: limits::CSV_ROW_BYTES,
            };
            expected.add(Path::new(&name(number)), plain::read(&file.bytes, &plain));
        }
        expected.sorted(&self.schema)
    }

    /// The size of all files together.
    pub(crate) fn bytes(&self) -> usize {
        self.files.iter().map(|file| file.bytes.len()).sum()
    }
}

fn name(number: usize) -> String {
    format!("in-{number}.csv")
}

fn designated(schema: &Schema) -> Option<usize> {
    schema.columns().iter().position(|column| Some(column.id) == schema.designated())
}

/// A random schema: up to nine columns of any types, mostly with a designated timestamp.
fn schema(random: &mut Random) -> Schema {
    const NAMES: [&str; 10] =
        ["ts", "Host", "value", "user id", "\u{e9}tat", "F", "g_8", "h", "I", "last"];
    let count = 1 + random.index(9);
    let mut columns: Vec<(&str, ColumnType)> = (1..=count)
        .map(|at| {
            let ty = random.one_of(&ColumnType::ALL);
            let precision = u8::try_from(1 + random.below(38)).expect("38 at most");
            let scale = u8::try_from(random.below(u64::from(precision) + 1)).expect("38 at most");
            let is_decimal = matches!(ty, ColumnType::Decimal { .. });
            let ty = if is_decimal { ColumnType::Decimal { precision, scale } } else { ty };
            (NAMES[at], ty)
        })
        .collect();
    if random.percent(15) {
        return schema_of(&columns, None, PartitionUnit::None);
    }
    let unit = random.one_of(&[TimeUnit::Micros, TimeUnit::Micros, TimeUnit::Nanos]);
    columns.insert(random.index(count + 1), ("ts", ColumnType::Timestamp(unit)));
    let (partition_by, _) = PartitionUnit::ALL[random.index(PartitionUnit::ALL.len())];
    schema_of(&columns, Some("ts"), partition_by)
}

/// Timestamps in some tens of partitions at most, in an order that is common in files.
fn instants(random: &mut Random, schema: &Schema, count: usize) -> Vec<i64> {
    let unit = schema.time_unit();
    let days = match schema.partition_by() {
        PartitionUnit::Hour => 1,
        PartitionUnit::Day => 20,
        PartitionUnit::Week => 150,
        PartitionUnit::Month => 700,
        PartitionUnit::Year | PartitionUnit::None => 9_000,
    };
    let base = random.one_of(&[0, -40, 15_901, 19_000]) * unit.per_day();
    let steps = random.one_of(&[1, 1_000, unit.per_second() / 1_000, unit.per_second()]);
    let span = days * unit.per_day() / steps;
    let span = random.one_of(&[1, 5, span.min(300), span, span]).max(1).cast_unsigned();
    let mut instants: Vec<i64> =
        (0..count).map(|_| base + random.below(span).cast_signed() * steps).collect();
    match random.below(5) {
        0 => instants.sort_unstable(),
        1 => {
            instants.sort_unstable();
            instants.reverse();
        }
        2 => {
            // The rows of several devices, each in order.
            instants.sort_unstable();
            let stripes = 2 + random.index(6);
            let each = |stripe| instants.iter().skip(stripe).step_by(stripes).copied();
            instants = (0..stripes).flat_map(each).collect();
        }
        3 => {
            // All rows in order except some.
            instants.sort_unstable();
            for _ in 0..count / 20 {
                let (from, to) = (random.index(count), random.index(count));
                instants.swap(from, to);
            }
        }
        _ => {}
    }
    instants
}

/// Writes one file.
struct FileWriter<'a> {
    text: &'a RandomText,
    targets: &'a [usize],
    random: &'a mut Random,
}

impl FileWriter<'_> {
    fn write(mut self, instants: &[i64], spec: &TextSpec) -> Vec<u8> {
        let mut out = Vec::new();
        if self.random.percent(25) {
            out.extend_from_slice(b"\xEF\xBB\xBF");
        }
        let line_end: &[u8] = self.random.choose(&[b"\n", b"\n", b"\r\n"]);
        for line in 0..self.text.skip_lines {
            out.extend_from_slice(format!("# line {line}, \"of no interest").as_bytes());
            out.extend_from_slice(line_end);
        }
        if self.text.header == PlainHeader::Present {
            self.header(&mut out);
            out.extend_from_slice(line_end);
        }
        for (row, &instant) in instants.iter().enumerate() {
            let is_bad = row > 0 && self.random.percent(spec.bad_percent);
            if is_bad {
                self.bad_record(instant, &mut out);
            } else {
                self.record(instant, spec, &mut out);
            }
            // Each record may have a different line end.
            let own: &[u8] = if self.random.percent(5) { b"\r\n" } else { line_end };
            out.extend_from_slice(own);
        }
        if self.random.percent(40) && out.ends_with(line_end) && !instants.is_empty() {
            out.truncate(out.len() - line_end.len());
        }
        out
    }

    fn header(&mut self, out: &mut Vec<u8>) {
        for (position, &target) in self.targets.iter().enumerate() {
            if position > 0 {
                out.push(self.text.delimiter);
            }
            let name = &self.text.schema.columns()[target].name;
            let name = if self.random.percent(20) { name.to_uppercase() } else { name.clone() };
            self.cell(&Cell::Text(name.into_bytes()), out);
        }
    }

    fn record(&mut self, instant: i64, spec: &TextSpec, out: &mut Vec<u8>) {
        for position in 0..self.targets.len() {
            if position > 0 {
                out.push(self.text.delimiter);
            }
            let cell = self.value(position, instant, spec);
            self.cell(&cell, out);
        }
    }

    fn value(&mut self, position: usize, instant: i64, spec: &TextSpec) -> Cell {
        let target = self.targets[position];
        let column = &self.text.schema.columns()[target];
        match column.ty {
            ColumnType::Timestamp(unit) if designated(&self.text.schema) == Some(target) => {
                Cell::Text(cells::instant_text(self.random, instant, unit))
            }
            ColumnType::Varchar if 0 < spec.long_bytes && self.random.percent(2) => {
                let mut long = cells::text(self.random);
                while long.len() < spec.long_bytes {
                    long.extend(cells::text(self.random));
                    long.extend_from_slice(b" and so on ");
                }
                Cell::Text(long)
            }
            ty => cells::value(self.random, ty),
        }
    }

    /// Writes a cell, quoted where it must be, and sometimes where it need not be.
    fn cell(&mut self, cell: &Cell, out: &mut Vec<u8>) {
        let text = match cell {
            Cell::Raw(raw) => return out.extend_from_slice(raw),
            Cell::Null => match self.text.null_text.filter(|_| self.random.percent(50)) {
                Some(null) => null.as_bytes(),
                None => return,
            },
            Cell::Text(text) => text,
        };
        let delimiter = self.text.delimiter;
        let Some(quote) = self.text.quote else {
            // Bytes that cannot be written without quotes are left out.
            let fits = |byte: &&u8| !matches!(**byte, b'\n' | b'\r') && **byte != delimiter;
            out.extend(text.iter().filter(fits));
            return;
        };
        let has = |wanted: &[u8]| text.iter().any(|byte| wanted.contains(byte));
        let is_quoted = has(b"\n\r") || has(&[delimiter]) || text.first() == Some(&quote);
        if is_quoted || text.is_empty() || self.random.percent(10) {
            out.push(quote);
            for &byte in text {
                out.push(byte);
                if byte == quote {
                    out.push(quote);
                }
            }
            out.push(quote);
        } else {
            // A quote inside the cell is text.
            out.extend_from_slice(text);
        }
    }

    fn bad_record(&mut self, instant: i64, out: &mut Vec<u8>) {
        let spec = TextSpec { rows: 0, files: 0, bad_percent: 0, long_bytes: 0 };
        match self.random.below(8) {
            // A blank line.
            0 => {}
            1 => {
                self.record(instant, &spec, out);
                out.push(self.text.delimiter);
                out.extend_from_slice(b"one too many");
            }
            2 | 3 if self.targets.len() > 1 => {
                let mut whole = Vec::new();
                let fewer = 1 + self.random.index(self.targets.len() - 1);
                let targets = &self.targets[..fewer];
                let mut writer = FileWriter { text: self.text, targets, random: &mut *self.random };
                writer.record(instant, &spec, &mut whole);
                out.append(&mut whole);
            }
            _ => {
                let bad = self.random.index(self.targets.len());
                let second = self.random.index(self.targets.len());
                for position in 0..self.targets.len() {
                    if position > 0 {
                        out.push(self.text.delimiter);
                    }
                    let ty = self.text.schema.columns()[self.targets[position]].ty;
                    let cell = match position == bad || position == second {
                        true if self.random.percent(20) => Cell::Null,
                        true => cells::bad(self.random, ty, self.text.quote),
                        false => self.value(position, instant, &spec),
                    };
                    self.cell(&cell, out);
                }
            }
        }
    }
}
