//! The line protocol: bytes become rows of tables, column by column.
//!
//! ```text
//! cpu,host=a,region=eu usage_user=58i,usage_system=2i 1451606400000000000
//! ```
//!
//! - L1. A line is taken whole or not at all, and so is everything that comes with it (LP2, LT1).
//! - L2. What comes of a text does not depend on where it was cut when it came (LP1).
//! - L3. Values keep what they say, or their line is refused (LV1).
//! - L4. Everything that grows has a bound: the line that is kept (LP3), caches (LP4), faults
//!   (`limits::LINE_FAULTS`), columns (`LineOptions::max_columns`), NULLs of columns that lines do
//!   not name (LP5); other rows until they are taken: the caller is told how many there are.
//!
//! A `LineParser` is fed with bytes, asks a `LineHost` what tables look like, and gives
//! `TableRows`, whose types are those of the tables: `storage` takes them as they are. If a table
//! has changed until then, they are converted again (`TableRows::convert`).
//!
//! What users need to know of the protocol: docs/line-protocol.md. Not here: sockets, commits,
//! answers to clients (`server`).

use std::sync::Arc;

use tidegate_model::{ColumnType, Schema, TimeUnit, limits};

mod parser;
mod parts;
mod series;
mod key;
mod scan;
mod form;
mod table;
mod column;
mod rows;
mod extent;
mod fault;

pub use fault::{Fault, Misfit, NameError, Reason};
pub use parser::LineParser;
pub use rows::{Converted, TableRows};

/// What a parser asks of whoever knows the tables and the time.
pub trait LineHost {
    /// The columns of a table now; `None` if there is no such table. Asked once a batch.
    fn schema_of(&mut self, table: &str) -> Option<Arc<Schema>>;

    /// Nanoseconds since 1970: for lines without a timestamp.
    fn now_nanos(&mut self) -> i64;
}

/// How lines are read.
#[derive(Debug, Clone)]
pub struct LineOptions {
    /// What timestamps without a suffix count.
    pub precision: Precision,
    /// What `12i` creates: BIGINT, or a smaller integer.
    pub integer_type: ColumnType,
    /// The designated timestamp of tables that are created.
    pub timestamp_name: String,
    /// Bytes of a line, without its newline.
    pub max_line_bytes: usize,
    /// Columns that a table may have for lines to add one.
    pub max_columns: usize,
    /// Whether lines create tables.
    pub create_tables: bool,
    /// Whether lines add columns to tables that are there.
    pub create_columns: bool,
    /// What a bad line does.
    pub on_bad_line: OnBadLine,
    /// Bytes that the rows of a batch may take beyond four times their text (LP5).
    pub padding_bytes_max: usize,
}

/// What a bad line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadLine {
    /// It ends everything.
    Stop,
    /// It is kept as a `Fault`, and the next one comes.
    Skip,
}

impl LineOptions {
    /// What is documented as the default.
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

/// What a timestamp without a suffix counts.
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
    /// The precision that a request names.
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

    /// How many nanoseconds it counts.
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

    /// A count as an instant; `None` if it is out of range.
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
