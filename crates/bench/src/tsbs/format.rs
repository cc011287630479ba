//! Rows as text: line protocol, the two lines of TimescaleDB, the tabs and JSON of CrateDB.
//!
//! - The constant parts of rows are formatted before the first row: the tags of each host, the
//!   names of the fields with their separators. A row is a handful of copies and numbers.
//! - format-1. A row never outgrows the room that was made for it (`room_for`): the functions below
//!   write without asking for more.
//!
//! The bytes equal those of TSBS; nothing is escaped, because nothing needs it.

mod cursor;
mod texts;

pub(crate) use self::cursor::{Cursor, Label};

use self::texts::Texts;
use super::options::Format;
use super::schema::{Cell, Number, Schema, TagKind, scaled, truncated};
use super::simulate::{Entities, NONE, Row, Stretch};

/// Bytes of the longest number with its separator: `-179.12345`, an `i64`, or any float except
/// those with an exponent, which are written in full after a request for their length.
const NUMBER_BYTES: usize = 40;
/// Bytes of a timestamp and its separators.
const TIME_BYTES: usize = 32;

/// Formats the rows of one simulation in one format.
pub(crate) struct Formatter {
    format: Format,
    schema: Schema,
    entities: Entities,
    /// Text of each host between the name of the measurement and the fields.
    tags: Texts,
    /// The same text for the tags of one measurement, if it has any.
    extras: Vec<Option<Texts>>,
    heads: Vec<Head>,
    /// Most bytes of a text of `tags` and one of `extras` together.
    tags_bytes_max: usize,
    /// Number of tags that count as fields.
    numbers: u64,
}

/// The constant parts of the rows of a measurement.
struct Head {
    /// Text at the beginning of a row.
    begin: Label,
    /// Text before each field.
    labels: Vec<Label>,
}

/// State that a thread keeps from row to row.
#[derive(Default)]
pub(crate) struct Scratch {
    cells: Vec<Cell>,
    ts: i64,
    time: Label,
}

impl Formatter {
    pub(crate) fn new(format: Format, schema: Schema, entities: Entities) -> Formatter {
        let is_number = |tag: &&super::schema::Tag| tag.kind == TagKind::Float32;
        let numbers = schema.tags.iter().filter(is_number).count() as u64;
        let mut formatter = Formatter {
            format,
            tags: Texts::default(),
            extras: Vec::new(),
            heads: schema.measurements.iter().map(|m| Head::new(format, m, &schema)).collect(),
            schema,
            entities,
            tags_bytes_max: 0,
            numbers: if format == Format::Line { numbers } else { 0 },
        };
        let count = formatter.entities.count();
        formatter.tags = Texts::new(count, |entity, out| formatter.write_tags(entity, NONE, out));
        let mut extras_max = 0;
        for index in 0..formatter.schema.measurements.len() {
            let has_extras = !formatter.schema.measurements[index].extra_tags.is_empty();
            let extras = has_extras.then(|| {
                Texts::new(count, |entity, out| formatter.write_extras(entity, index, out))
            });
            extras_max = extras_max.max(extras.as_ref().map_or(0, Texts::longest));
            formatter.extras.push(extras);
        }
        // A text with a tag left out may be a few quotes longer, never more.
        formatter.tags_bytes_max = formatter.tags.longest() + extras_max + 64;
        formatter
    }

    /// Returns the schema of the rows.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn entities(&self) -> &Entities {
        &self.entities
    }

    /// Returns the header, which most formats leave empty.
    pub(crate) fn header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !matches!(self.format, Format::TwoLines | Format::Crate) {
            return out;
        }
        out.extend_from_slice(b"tags");
        for tag in self.schema.tags {
            let kind = if tag.kind == TagKind::Text { "string" } else { "float32" };
            out.extend_from_slice(format!(",{} {kind}", tag.name).as_bytes());
        }
        let mut measurements: Vec<_> = self.schema.measurements.iter().collect();
        measurements.sort_by_key(|measurement| measurement.name);
        for measurement in measurements {
            out.push(b'\n');
            out.extend_from_slice(measurement.name.as_bytes());
            for field in &measurement.fields {
                out.push(b',');
                out.extend_from_slice(field.as_bytes());
            }
        }
        out.extend_from_slice(b"\n\n");
        out
    }

    /// Appends the rows of a stretch, and returns the number of their fields. In line protocol the
    /// tags that are numbers count as fields, because they become fields there.
    pub(crate) fn write(&self, stretch: &Stretch, scratch: &mut Scratch, out: &mut Cursor) -> u64 {
        let mut metrics = 0;
        for (row, states) in stretch.iter() {
            metrics += self.write_row(row, states, scratch, out);
            metrics += self.numbers;
            let nil = self.schema.tags.get(usize::from(row.nil_tag));
            if self.numbers != 0 && nil.is_some_and(|tag| tag.kind == TagKind::Float32) {
                metrics -= 1;
            }
        }
        metrics
    }

    /// Writes a row, and returns the number of its fields.
    fn write_row(&self, row: &Row, states: &[f64], scratch: &mut Scratch, out: &mut Cursor) -> u64 {
        let measurement = usize::from(row.measurement);
        let head = &self.heads[measurement];
        let definition = &self.schema.measurements[measurement];
        if self.format == Format::Line && row.nil_field == NONE && definition.is_all_integers() {
            self.write_integers(row, states, head, scratch, out);
            return states.len() as u64;
        }
        if self.format == Format::Line
            && let Some(numbers) = definition.numbers()
        {
            return self.write_numbers(row, states, numbers, head, scratch, out);
        }
        definition.cells(states, &mut scratch.cells);
        if let Some(cell) = scratch.cells.get_mut(usize::from(row.nil_field)) {
            *cell = Cell::Nil;
        }
        out.make_room(self.room_for(scratch.cells.len()));
        out.put_label(&head.begin);
        self.put_tags(row, out);
        self.set_time(row.ts, scratch);
        match self.format {
            Format::Line => {
                for (label, cell) in head.labels.iter().zip(&scratch.cells) {
                    put_line_cell(label, cell, out);
                }
                out.put_label(&scratch.time);
            }
            Format::TwoLines | Format::TwoLinesBare => {
                out.put_byte(b'\n');
                out.put(self.schema.measurements[measurement].name.as_bytes());
                put_plain_cells(b',', &scratch.time, &scratch.cells, out);
            }
            Format::Crate => put_plain_cells(b'\t', &scratch.time, &scratch.cells, out),
        }
        scratch.cells.len() as u64 - u64::from(row.nil_field != NONE)
    }

    /// Writes a row of line protocol whose states all are integer fields, without cells in between.
    #[inline]
    fn write_integers(
        &self,
        row: &Row,
        states: &[f64],
        head: &Head,
        scratch: &mut Scratch,
        out: &mut Cursor,
    ) {
        out.make_room(self.room_for(states.len()));
        out.put_label(&head.begin);
        self.put_tags(row, out);
        self.set_time(row.ts, scratch);
        for (label, &state) in head.labels.iter().zip(states) {
            out.put_field(label, truncated(state));
        }
        out.put_label(&scratch.time);
    }

    /// Writes a row of line protocol whose states are numbers of several kinds, one of which may be
    /// left out. Returns the number of its fields.
    #[inline]
    fn write_numbers(
        &self,
        row: &Row,
        states: &[f64],
        numbers: &[Number],
        head: &Head,
        scratch: &mut Scratch,
        out: &mut Cursor,
    ) -> u64 {
        out.make_room(self.room_for(states.len()));
        out.put_label(&head.begin);
        self.put_tags(row, out);
        self.set_time(row.ts, scratch);
        let fields = head.labels.iter().zip(states.iter().zip(numbers));
        for (index, (label, (&state, number))) in fields.enumerate() {
            if index == usize::from(row.nil_field) {
                continue;
            }
            // The number of places is a constant for the compiler, so that no division by a
            // variable is needed.
            match *number {
                Number::Integer => out.put_field(label, truncated(state)),
                Number::Decimal(0) => out.put_decimal_field::<0>(label, scaled(state, 0)),
                Number::Decimal(1) => out.put_decimal_field::<1>(label, scaled(state, 1)),
                Number::Decimal(5) => out.put_decimal_field::<5>(label, scaled(state, 5)),
                Number::Decimal(places) => {
                    out.put_label(label);
                    out.put_decimal(scaled(state, places), places);
                }
            }
        }
        out.put_label(&scratch.time);
        states.len() as u64 - u64::from(row.nil_field != NONE)
    }

    #[inline]
    fn set_time(&self, ts: i64, scratch: &mut Scratch) {
        if scratch.ts != ts || scratch.time.is_empty() {
            scratch.ts = ts;
            scratch.time = self.time_label(ts);
        }
    }

    /// Returns an upper bound for the bytes of a row (format-1).
    fn room_for(&self, cells: usize) -> usize {
        let name = 2 * Label::BYTES;
        name + self.tags_bytes_max + TIME_BYTES + cells * (Label::BYTES + NUMBER_BYTES) + 64
    }

    #[inline]
    fn put_tags(&self, row: &Row, out: &mut Cursor) {
        let entity = row.entity as usize;
        if row.nil_tag != NONE {
            let mut tags = Vec::new();
            self.write_tags(entity, row.nil_tag, &mut tags);
            return out.put(&tags);
        }
        out.put(self.tags.text(entity));
        if let Some(extras) = &self.extras[usize::from(row.measurement)] {
            out.put(extras.text(entity));
        }
        if self.format == Format::Crate {
            out.put_byte(b'}');
        }
    }

    fn time_label(&self, ts: i64) -> Label {
        match self.format {
            Format::Line => Label::new(&format!(" {ts}\n")),
            Format::TwoLines | Format::TwoLinesBare => Label::new(&format!(",{ts}")),
            Format::Crate => Label::new(&format!("\t{ts}")),
        }
    }

    /// Writes the tags of a host or truck except the one with the number `nil`. In line protocol
    /// the tags that are numbers stand among the fields.
    fn write_tags(&self, entity: usize, nil: u8, out: &mut Vec<u8>) {
        if self.format == Format::Crate {
            out.push(b'{');
        }
        let mut is_first = true;
        let mut is_first_number = true;
        for (tag, definition) in self.schema.tags.iter().enumerate() {
            let is_nil = tag == usize::from(nil);
            if self.format == Format::Line {
                if is_nil {
                    continue;
                }
                let leads = definition.kind == TagKind::Float32 && is_first_number;
                out.push(if leads { b' ' } else { b',' });
                is_first_number &= !leads;
            } else if !is_first || self.format != Format::Crate {
                out.push(b',');
            }
            is_first = false;
            self.write_pair(definition.name, is_nil, out, |out| {
                self.entities.write_tag(entity, tag, out);
            });
        }
        if self.format == Format::Crate && nil != NONE {
            out.push(b'}');
        }
    }

    fn write_extras(&self, entity: usize, measurement: usize, out: &mut Vec<u8>) {
        for (tag, name) in self.schema.measurements[measurement].extra_tags.iter().enumerate() {
            out.push(b',');
            self.write_pair(name, false, out, |out| {
                self.entities.write_extra(entity, &self.schema, measurement, tag, out);
            });
        }
    }

    fn write_pair(
        &self,
        name: &str,
        is_nil: bool,
        out: &mut Vec<u8>,
        write_value: impl FnOnce(&mut Vec<u8>),
    ) {
        let (before, between, after) = match self.format {
            Format::Crate => ("\"", "\":\"", "\""),
            _ => ("", "=", ""),
        };
        out.extend_from_slice(before.as_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(between.as_bytes());
        if !is_nil {
            write_value(out);
        }
        out.extend_from_slice(after.as_bytes());
    }
}

impl Head {
    fn new(format: Format, measurement: &super::schema::Measurement, schema: &Schema) -> Head {
        let has_numbers = schema.tags.iter().any(|tag| tag.kind == TagKind::Float32);
        let label = |(index, name): (usize, &std::borrow::Cow<'static, str>)| {
            let separator = if index == 0 && !has_numbers { ' ' } else { ',' };
            Label::new(&format!("{separator}{name}="))
        };
        let begin = match format {
            Format::Line => measurement.name.to_owned(),
            Format::TwoLines | Format::TwoLinesBare => "tags".to_owned(),
            Format::Crate => format!("{}\t", measurement.name),
        };
        let labels = measurement.fields.iter().enumerate().map(label).collect();
        Head { begin: Label::new(&begin), labels }
    }
}

#[inline]
fn put_line_cell(label: &Label, cell: &Cell, out: &mut Cursor) {
    match *cell {
        Cell::Nil => {}
        Cell::Integer(number) => out.put_field(label, number),
        Cell::Decimal { scaled, places } => {
            out.put_label(label);
            out.put_decimal(scaled, places);
        }
        Cell::Float(number) => {
            out.put_label(label);
            out.put_float(number);
        }
    }
}

/// Writes the timestamp and the cells, each behind a separator.
fn put_plain_cells(separator: u8, time: &Label, cells: &[Cell], out: &mut Cursor) {
    out.put_label(time);
    for cell in cells {
        out.put_byte(separator);
        match *cell {
            Cell::Nil => {}
            Cell::Integer(number) => out.put_integer(number),
            Cell::Decimal { scaled, places } => out.put_decimal(scaled, places),
            Cell::Float(number) => out.put_float(number),
        }
    }
    out.put_byte(b'\n');
}
