//! A parser of the line protocol: bytes become rows of tables, column by column.
//!
//! ```text
//! cpu,host=a,region=eu usage_user=58i,usage_system=2i 1451606400000000000
//! ```
//!
//! - A line is taken whole or not at all, with everything that it adds (parser-2, line_table-1).
//! - The result of a text does not depend on how it was split on arrival (parser-1).
//! - Values keep their meaning, or their line is refused (value_syntax-1).
//! - Everything that grows has a bound: the line that is kept (parser-3), caches (parser-4), parse
//!   errors (`limits::LINE_FAULTS`), columns (`LineOptions::max_columns`), NULLs of columns that
//!   lines do not name (parser-5). Only rows that were not yet taken have none: the caller is told
//!   their number.
//!
//! A `LineParser` is fed with bytes, asks a `LineHost` for the schemas of tables, and returns
//! `TableRows`, whose types are those of the tables: `storage` takes them as they are. If a table
//! has changed in the meantime, they are converted again (`TableRows::convert`).
//!
//! The documentation of the protocol for users: docs/line-protocol.md. Not here: sockets, commits,
//! responses to clients (`server`).

use std::sync::Arc;

use tidegate_model::{ColumnType, Schema, TimeUnit, limits};

mod parser;
mod parts;
mod series_cache;
mod key_cache;
mod scan;
mod value_syntax;
mod table;
mod column;
mod rows;
mod conversion;
mod line_end;
mod parse_error;

pub use conversion::Converted;
pub use parse_error::{Misfit, NameError, ParseError, Reason};
pub use parser::LineParser;
pub use rows::TableRows;

/// The source of schemas and of the time for a parser.
pub trait LineHost {
    /// The present columns of a table; `None` if there is no such table. Called once a batch.
    fn schema_of(&mut self, table: &str) -> Option<Arc<Schema>>;

    /// Nanoseconds since 1970, for lines without a timestamp.
    fn now_nanos(&mut self) -> i64;
}

/// The options of a parser.
#[derive(Debug, Clone)]
pub struct LineOptions {
    /// The unit of timestamps without a suffix.
    pub precision: Precision,
    /// The type of a column that `12i` creates: BIGINT, or a smaller integer.
    pub integer_type: ColumnType,
    /// The designated timestamp of tables that are created.
    pub timestamp_name: String,
    /// The maximum number of bytes of a line, without its newline.
    pub max_line_bytes: usize,
    /// The maximum number of columns of a table to which lines add one.
    pub max_columns: usize,
    /// True if lines create tables.
    pub create_tables: bool,
    /// True if lines add columns to existing tables.
    pub create_columns: bool,
    /// The handling of a bad line.
    pub on_bad_line: OnBadLine,
    /// The bytes that the rows of a batch may take beyond four times their text (parser-5).
    pub padding_bytes_max: usize,
}

/// The handling of a bad line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadLine {
    /// It ends the parsing.
    Stop,
    /// It is kept as a `ParseError`, and the parser goes on with the next line.
    Skip,
}

impl LineOptions {
    /// The documented default options.
    #[must_use]
    pub fn new(on_bad_line: OnBadLine) -> LineOptions {
        LineOptions {
            precision: Precision::Nanos,
            integer_type: ColumnType::Int64,
            timestamp_name: "timestamp".to_owned(),
            max_line_bytes: limits::LINE_BYTES,
            max_columns: limits::LINE_COLUMNS,
            create_tables: true,
            create_columns: true,
            on_bad_line,
            padding_bytes_max: limits::LINE_PADDING_BYTES,
        }
    }
}

/// The unit of a timestamp without a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// `n`, `ns`
    Nanos,
    /// `u`, `us`
    Micros,
    /// `ms`
    Millis,
    /// `s`
    Seconds,
    /// `m`
    Minutes,
    /// `h`
    Hours,
}

impl Precision {
    /// Parses the precision of a request.
    #[must_use]
    pub fn parse(text: &str) -> Option<Precision> {
        Some(match text {
            "n" | "ns" => Precision::Nanos,
            "u" | "us" | "\u{b5}s" | "\u{3bc}s" => Precision::Micros,
            "ms" => Precision::Millis,
            "s" => Precision::Seconds,
            "m" => Precision::Minutes,
            "h" => Precision::Hours,
            _ => return None,
        })
    }

    /// The nanoseconds of one unit.
    fn nanos(self) -> i64 {
        match self {
            Precision::Nanos => 1,
            Precision::Micros => 1_000,
            Precision::Millis => 1_000_000,
            Precision::Seconds => 1_000_000_000,
            Precision::Minutes => 60_000_000_000,
            Precision::Hours => 3_600_000_000_000,
        }
    }

    /// The instant of a count; `None` if it is out of range.
    #[inline]
    fn instant(self, count: i64, unit: TimeUnit) -> Option<i64> {
        let micros = match self {
            Precision::Nanos => {
                return Some(match unit {
                    TimeUnit::Nanos => count,
                    TimeUnit::Micros => count.div_euclid(1_000),
                });
            }
            Precision::Micros => 1,
            Precision::Millis => 1_000,
            Precision::Seconds => 1_000_000,
            Precision::Minutes => 60_000_000,
            Precision::Hours => 3_600_000_000,
        };
        let factor = match unit {
            TimeUnit::Micros => micros,
            TimeUnit::Nanos => micros * 1_000,
        };
        count.checked_mul(factor)
    }
}

#[cfg(test)]
mod tests;
