//! parser-1, parser-2, conversion-2: rows, bad lines and their places agree with the slow reader,
//! wherever the text is split, with caches cold and warm.
//!
//! The first byte selects the existing table, the next ones limits and precision; two numbers say
//! how the text is split. The rest is the text.

use std::sync::Arc;

use tidegate_ingest::line::{
    LineHost, LineOptions, LineParser, OnBadLine, ParseError, Precision, TableRows,
};
use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit, Value};
use tidegate_storage::{BatchColumn, BatchValues};

use super::input::Input;
use crate::slow_line::{self, SlowOutcome, SlowTable};

const NOW: i64 = 1_600_000_000_123_456_789;

pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let schemas = schemas(input.byte());
    let options = LineOptions {
        precision: input.choose(&[
            Precision::Nanos,
            Precision::Micros,
            Precision::Millis,
            Precision::Seconds,
            Precision::Minutes,
            Precision::Hours,
        ]),
        integer_type: input.choose(&[ColumnType::Int64, ColumnType::Int64, ColumnType::Int16]),
        max_line_bytes: input.choose(&[1 << 20, 1 << 20, 24, 48]),
        max_columns: input.choose(&[2_048, 2_048, 2, 3]),
        create_columns: !input.byte().is_multiple_of(7) || schemas.is_empty(),
        ..LineOptions::new(OnBadLine::Skip)
    };
    let cuts = [input.short(), input.short()];
    compare(input.rest, &options, &schemas, cuts);
}

/// The existing tables.
fn schemas(choice: u8) -> Vec<(&'static str, Schema)> {
    let types = match choice % 8 {
        0..=2 => return Vec::new(),
        3 => [ColumnType::Symbol, ColumnType::Float64, ColumnType::Int64],
        4 => [ColumnType::Varchar, ColumnType::Float32, ColumnType::UInt8],
        5 => [ColumnType::Uuid, ColumnType::Decimal { precision: 5, scale: 2 }, ColumnType::Date],
        6 => [ColumnType::Ipv4, ColumnType::Int8, ColumnType::Timestamp(TimeUnit::Nanos)],
        _ => [ColumnType::Binary, ColumnType::Boolean, ColumnType::UInt64],
    };
    let unit = if choice < 128 { TimeUnit::Micros } else { TimeUnit::Nanos };
    let mut columns = vec![("ts".to_owned(), ColumnType::Timestamp(unit))];
    columns.extend(["a", "B", "c"].map(str::to_owned).into_iter().zip(types));
    let schema = Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap();
    let plain = Schema::new(&columns, None, PartitionUnit::None).unwrap();
    vec![("t", schema), ("u", plain)]
}

struct Host<'a>(&'a [(&'static str, Schema)]);

impl LineHost for Host<'_> {
    fn schema_of(&mut self, table: &str) -> Option<Arc<Schema>> {
        let found = self.0.iter().find(|(name, _)| *name == table);
        found.map(|(_, schema)| Arc::new(schema.clone()))
    }

    fn now_nanos(&mut self) -> i64 {
        NOW
    }
}

/// Parses a text in every way and compares the results.
pub(crate) fn compare(
    text: &[u8],
    options: &LineOptions,
    schemas: &[(&'static str, Schema)],
    cuts: [usize; 2],
) {
    let slow = slow_line::read(text, options, schemas, NOW);
    let mut host = Host(schemas);
    let mut parser = LineParser::new(options.clone());
    let mut ends = cuts.map(|cut| cut.min(text.len()));
    ends.sort_unstable();
    let pieces: [Vec<&[u8]>; 3] = [
        vec![text],
        vec![&text[..ends[0]], &text[ends[0]..ends[1]], &text[ends[1]..]],
        text.chunks(1 + cuts[0] % 7).collect(),
    ];
    for pieces in pieces {
        parser.restart();
        for piece in pieces {
            parser.feed(piece, &mut host).unwrap();
        }
        parser.finish(&mut host).unwrap();
        let (parse_errors, rejected) = parser.take_errors();
        same_errors(&parse_errors, rejected, &slow);
        let rows = parser.take();
        same_tables(&rows, &slow);
        for rows in &rows {
            let again = rows.convert(rows.schema.clone(), options);
            assert_eq!(again.rejected, 0, "conversion-2: {:?}", again.errors);
            let columns = |rows: &TableRows| format!("{:?}", shown(rows));
            assert_eq!(columns(&again.rows.unwrap()), columns(rows), "conversion-2");
        }
    }
    let options = LineOptions { on_bad_line: OnBadLine::Stop, ..options.clone() };
    let mut parser = LineParser::new(options);
    let result = parser.feed(text, &mut host).and_then(|()| parser.finish(&mut host));
    let parse_error = result.err().map(|parse_error| parse_error.line);
    assert_eq!(parse_error, slow.rejected.first().map(|(line, _)| *line));
}

fn same_errors(parse_errors: &[ParseError], rejected: u64, slow: &SlowOutcome) {
    for (at, parse_error) in parse_errors.iter().enumerate() {
        let shown = |line: u64, raw: &[u8]| format!("{line}: {}", String::from_utf8_lossy(raw));
        let wanted = slow.rejected.get(at).map(|(line, raw)| shown(*line, raw));
        assert_eq!(Some(shown(parse_error.line, &parse_error.raw)), wanted, "{parse_error}");
        assert!(
            parse_error.to_string().len() <= tidegate_model::limits::LINE_MESSAGE_BYTES,
            "parse_error-1"
        );
    }
    assert_eq!(rejected, slow.rejected.len() as u64);
}

fn same_tables(rows: &[TableRows], slow: &SlowOutcome) {
    let names: Vec<_> = rows.iter().map(|rows| &rows.table).collect();
    let wanted: Vec<_> = slow.tables.iter().map(|table| &table.name).collect();
    assert_eq!(names, wanted, "tables");
    for (rows, table) in rows.iter().zip(&slow.tables) {
        let lines: Vec<u64> = (0..rows.rows.rows()).map(|row| rows.line(row)).collect();
        let wanted: Vec<u64> = table.rows.iter().map(|row| row.line).collect();
        assert_eq!(lines, wanted, "lines of {}", table.name);
        let (found, wanted) = (format!("{:?}", shown(rows)), format!("{:?}", shown_slow(table)));
        assert_eq!(found, wanted, "{}", table.name);
    }
}

type Columns = Vec<(String, ColumnType, Vec<Value>)>;

fn shown_slow(table: &SlowTable) -> Columns {
    let mut columns = Columns::new();
    for (at, (name, ty)) in table.columns.iter().enumerate() {
        let values: Vec<Value> = table
            .rows
            .iter()
            .map(|row| row.values.get(at).cloned().unwrap_or(Value::Null))
            .collect();
        if values.iter().any(|value| *value != Value::Null) {
            columns.push((name.clone(), ty.unwrap(), values));
        }
    }
    let times = table.rows.iter().map(|row| Value::Integer(row.instant.into())).collect();
    columns.push(("time".to_owned(), ColumnType::Timestamp(table.unit), times));
    columns
}

fn shown(rows: &TableRows) -> Columns {
    let count = rows.rows.rows();
    let value = |column: &BatchColumn| (0..count).map(|row| value_at(column, row)).collect();
    let mut columns: Columns = rows
        .rows
        .columns()
        .iter()
        .map(|column| (column.name.clone(), column.ty, value(column)))
        .collect();
    let last = columns.last_mut().unwrap();
    assert_eq!(last.0, rows.designated);
    last.0 = "time".to_owned();
    columns
}

fn value_at(column: &BatchColumn, row: usize) -> Value {
    let is_valid =
        column.validity.as_ref().is_none_or(|words| words[row / 64] >> (row % 64) & 1 == 1);
    if !is_valid {
        return Value::Null;
    }
    match &column.values {
        BatchValues::Bits(values) => Value::Bit(values[row] != 0),
        BatchValues::I8(values) => Value::Integer(values[row].into()),
        BatchValues::I16(values) => Value::Integer(values[row].into()),
        BatchValues::I32(values) => Value::Integer(values[row].into()),
        BatchValues::I64(values) => Value::Integer(values[row].into()),
        BatchValues::U8(values) => Value::Integer(values[row].into()),
        BatchValues::U16(values) => Value::Integer(values[row].into()),
        BatchValues::U32(values) => Value::Integer(values[row].into()),
        BatchValues::U64(values) => Value::Integer(values[row].into()),
        BatchValues::I128(values) => Value::Integer(values[row]),
        BatchValues::F32(values) => Value::Float(values[row].into()),
        BatchValues::F64(values) => Value::Float(values[row]),
        BatchValues::Fixed16(values) => Value::Fixed16(values[row]),
        BatchValues::Texts(texts) => Value::Bytes(texts.get(row).to_vec()),
        BatchValues::Symbols { codes, texts } => {
            Value::Bytes(texts.get(codes[row] as usize).to_vec())
        }
    }
}
