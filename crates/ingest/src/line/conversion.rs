//! Conversion of rows whose table has changed since they were parsed.
//!
//! - conversion-1. A conversion leaves the rows that it converts unchanged: it can be repeated.
//! - conversion-2. A conversion to the present schema of the rows gives the same rows.
//!
//! A conversion goes value by value through `value_syntax`, as if a line contained them: slow,
//! and rare. The text that was sent is lost unless the type keeps it: a DOUBLE that becomes a
//! VARCHAR is written in its shortest form.

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

use tidegate_model::time::CivilDate;
use tidegate_model::{ColumnType, Schema, TimeUnit, limits};
use tidegate_storage::{BatchColumn, BatchValues};

use super::LineOptions;
use super::parse_error::{Misfit, ParseError, RAW_BYTES, Reason, shown};
use super::rows::TableRows;
use super::table::{TIME, Table};
use super::value_syntax::{Cell, RawValue};
use crate::timestamp::EpochUnit;

/// The result of converting rows whose table has changed.
#[derive(Debug, Clone)]
pub struct Converted {
    /// The rows that fit; `None` if there are none.
    pub rows: Option<TableRows>,
    /// The parse errors of the first rows that do not fit.
    pub errors: Vec<ParseError>,
    /// The number of rows that do not fit.
    pub rejected: u64,
}

impl TableRows {
    /// Converts the rows to the present schema of the table (conversion-1).
    #[must_use]
    pub fn convert(&self, schema: Option<Arc<Schema>>, options: &LineOptions) -> Converted {
        let mut table = Table::new(&self.table);
        let mut converted = Converted { rows: None, errors: Vec::new(), rejected: 0 };
        let begun = table.begin(schema, options);
        let mut text = Vec::new();
        if begun.is_ok() {
            let (_, columns) = self.rows.columns().split_last().expect("designated");
            for column in columns {
                // Columns keep their order. An invalid column is a parse error of the rows that
                // have a value in it.
                drop(table.column_of(&column.name, options));
            }
        }
        for row in 0..self.rows.rows() {
            let result = match &begun {
                Err(reason) => Err(reason.clone()),
                Ok(_) => self.convert_row(row, &mut table, options, &mut text),
            };
            let Err(reason) = result else { continue };
            if begun.is_ok() {
                table.roll_back();
            }
            converted.rejected += 1;
            if converted.errors.len() < limits::LINE_FAULTS {
                let raw = self.shown_row(row);
                let table = Some(self.table.clone());
                converted.errors.push(ParseError { line: self.line(row), table, raw, reason });
            }
        }
        converted.rows = table.take(self.first_line);
        converted
    }

    fn convert_row(
        &self,
        row: usize,
        table: &mut Table,
        options: &LineOptions,
        text: &mut Vec<u8>,
    ) -> Result<(), Reason> {
        table.begin_row();
        let (time, columns) = self.rows.columns().split_last().expect("designated");
        for column in columns.iter().filter(|column| is_valid(column, row)) {
            let number = table.column_of(&column.name, options)?;
            if number == TIME {
                table.push(number, raw_value_at(column, row, text), options)?;
                continue;
            }
            let ty = table.type_of(number).unwrap_or(column.ty);
            if ty == column.ty {
                table
                    .push_cell(number, cell_at(column, row), ty)
                    .map_err(|why| lossy(&column.name, ty, raw_value_at(column, row, text), why))?;
            } else {
                table.push(number, raw_value_at(column, row, text), options)?;
            }
        }
        let raw = raw_value_at(time, row, text);
        let ty = ColumnType::Timestamp(table.unit);
        let instant = match table.time_field() {
            Some(instant) => instant,
            None => raw.instant(table.unit).map_err(|why| lossy(&time.name, ty, raw, why))?,
        };
        let ended = table.end_row(instant, self.lines[row]);
        ended.map_err(|_| Reason::TimeOutOfRange {
            text: shown(raw_value_at(time, row, text).text()),
        })
    }

    /// The row as text, since its line is no longer in memory.
    fn shown_row(&self, row: usize) -> Vec<u8> {
        let mut shown = self.table.clone().into_bytes();
        let mut text = Vec::new();
        for column in self.rows.columns().iter().filter(|column| is_valid(column, row)) {
            if RAW_BYTES < shown.len() {
                break;
            }
            shown.push(b' ');
            shown.extend_from_slice(column.name.as_bytes());
            shown.push(b'=');
            shown.extend_from_slice(raw_value_at(column, row, &mut text).text());
        }
        shown.truncate(RAW_BYTES);
        shown
    }
}

fn lossy(column: &str, ty: ColumnType, raw: RawValue<'_>, why: Misfit) -> Reason {
    let (column, value) = (shown(column.as_bytes()), shown(raw.text()));
    Reason::Lossy { column, ty, kind: raw.kind(), value, why }
}

fn is_valid(column: &BatchColumn, row: usize) -> bool {
    column.validity.as_ref().is_none_or(|words| words[row / 64] >> (row % 64) & 1 == 1)
}

fn cell_at(column: &BatchColumn, row: usize) -> Cell<'_> {
    match &column.values {
        BatchValues::Bits(values) => Cell::Bit(values[row] != 0),
        BatchValues::I8(values) => Cell::Integer(values[row].into()),
        BatchValues::I16(values) => Cell::Integer(values[row].into()),
        BatchValues::I32(values) => Cell::Integer(values[row].into()),
        BatchValues::I64(values) => Cell::Integer(values[row].into()),
        BatchValues::U8(values) => Cell::Integer(values[row].into()),
        BatchValues::U16(values) => Cell::Integer(values[row].into()),
        BatchValues::U32(values) => Cell::Integer(values[row].into()),
        BatchValues::U64(values) => Cell::Integer(values[row].into()),
        BatchValues::I128(values) => Cell::Integer(values[row]),
        BatchValues::F32(values) => Cell::Float32(values[row]),
        BatchValues::F64(values) => Cell::Float64(values[row]),
        BatchValues::Fixed16(values) => Cell::Fixed16(values[row]),
        BatchValues::Texts(texts) => Cell::Text(Cow::Borrowed(texts.get(row))),
        BatchValues::Symbols { codes, texts } => {
            Cell::Text(Cow::Borrowed(texts.get(codes[row] as usize)))
        }
    }
}

/// The value as a line would contain it.
fn raw_value_at<'a>(column: &'a BatchColumn, row: usize, text: &'a mut Vec<u8>) -> RawValue<'a> {
    text.clear();
    let ty = column.ty;
    match cell_at(column, row) {
        Cell::Bit(value) => RawValue::Boolean(value),
        Cell::Integer(value) => match ty {
            ColumnType::Decimal { scale, .. } => {
                write_decimal(text, value, scale.into());
                RawValue::Decimal(text)
            }
            ColumnType::Date => {
                let date = CivilDate::from_days(i64::try_from(value).expect("four bytes"));
                write(text, format_args!("{:04}-{:02}-{:02}", date.year, date.month, date.day));
                RawValue::Text(text)
            }
            ColumnType::Ipv4 => {
                let [.., a, b, c, d] = value.to_be_bytes();
                write(text, format_args!("{a}.{b}.{c}.{d}"));
                RawValue::Text(text)
            }
            _ => {
                write(text, format_args!("{value}"));
                match ty {
                    ColumnType::Timestamp(TimeUnit::Micros) => {
                        RawValue::Time(text, EpochUnit::Micros)
                    }
                    ColumnType::Timestamp(TimeUnit::Nanos) => {
                        RawValue::Time(text, EpochUnit::Nanos)
                    }
                    _ => RawValue::Integer(text),
                }
            }
        },
        Cell::Float32(value) => {
            write(text, format_args!("{value:?}"));
            RawValue::Float(text)
        }
        Cell::Float64(value) => {
            write(text, format_args!("{value:?}"));
            RawValue::Float(text)
        }
        Cell::Fixed16(bytes) => {
            bytes.iter().for_each(|byte| write(text, format_args!("{byte:02x}")));
            RawValue::Text(text)
        }
        Cell::Text(bytes) if ty == ColumnType::Binary => {
            text.extend_from_slice(b"\\x");
            bytes.iter().for_each(|byte| write(text, format_args!("{byte:02x}")));
            RawValue::Text(text)
        }
        Cell::Text(bytes) => {
            text.extend_from_slice(&bytes);
            if ty == ColumnType::Symbol { RawValue::Tag(text) } else { RawValue::Text(text) }
        }
    }
}

fn write(text: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a vector takes all");
}

fn write_decimal(text: &mut Vec<u8>, value: i128, scale: usize) {
    let digits = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if value < 0 { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    write(text, format_args!("{sign}{whole}{point}{fraction}"));
}
