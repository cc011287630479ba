//! Errors of imports. Whatever the error is, the table is unchanged.

use std::path::PathBuf;

use thiserror::Error;
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, SchemaError, limits};
use tidegate_platform::Class;

use crate::options::RowsRefused;
use crate::parquet_flaw::Flaw;
use crate::reject::{Reason, RejectError, RejectPlace, Rejected};
use crate::sniff::SniffError;
use crate::source::SourceError;

/// The result of a function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why an import failed.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "a message is the doc of its error")]
#[non_exhaustive]
pub enum Error {
    #[error("{purpose}")]
    Disk { purpose: &'static str, source: tidegate_platform::Error },
    // The message names the file and the operation.
    #[error(transparent)]
    Input(tidegate_platform::Error),
    #[error(
        "{opened} input files are open, as all files of an import are, and the process may open no \
         more: import fewer files at a time, or raise its limit with `ulimit -n`"
    )]
    TooManyFiles { opened: usize, source: tidegate_platform::Error },
    #[error(transparent)]
    Storage(#[from] tidegate_storage::Error),
    // The message of the receiver of the rows.
    #[error("{source}")]
    Refused { source: RowsRefused },
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    Reject(#[from] RejectError),
    #[error("{}", .path.display())]
    Sniff { path: PathBuf, source: SniffError },
    #[error("{} is {kind}, which cannot be read: unpack or convert it first", .path.display())]
    ForeignFormat { path: PathBuf, kind: &'static str },
    #[error("{}: no records", .path.display())]
    NoRecords { path: PathBuf },
    #[error(
        "{}: no records: a Parquet file without row groups, such as `_common_metadata`, has only a \
         schema: import the files that have rows", .path.display()
    )]
    NoRowGroups { path: PathBuf },
    #[error("{} was read already", .path.display())]
    AlreadyRead { path: PathBuf },
    #[error("{}: byte {offset} is zero: it is binary, not delimited text", .path.display())]
    Binary { path: PathBuf, offset: u64 },
    #[error(
        "{}: line {line}: the quote that opens at byte {offset} is never closed", .path.display()
    )]
    UnclosedQuote { path: PathBuf, line: u64, offset: u64 },
    #[error(
        "{}: the record at line {line} is longer than {} MiB: \
         the quote that opens in line {quote_line} at byte {offset} is not closed by then",
        .path.display(), limits::CSV_ROW_BYTES >> 20
    )]
    RecordTooLong { path: PathBuf, line: u64, quote_line: u64, offset: u64 },
    #[error(
        "{}, {}: the record has more than {}, which is a quarter of --memory {memory}{}: \
         give the import more memory",
        .path.display(), shown_place(.place), ByteCount(*.max), shown_open(*.is_open)
    )]
    RecordOverMemory {
        path: PathBuf,
        place: RejectPlace,
        max: u64,
        memory: ByteCount,
        // True if a quote is open at the end of the bytes read.
        is_open: bool,
    },
    #[error(
        "{}: the quote that opens in line {line} at byte {offset} is not closed within the first \
         {bytes} bytes: say with --quote none that quotes are text, or with --quote which byte \
         quotes",
        .path.display()
    )]
    OpenQuote { path: PathBuf, line: u64, offset: u64, bytes: u64 },
    #[error(
        "{}: {rejected} of {records} records do not have the {fields} fields of the sample, with \
         {}, which is a guess{}: say with --delimiter and --quote how it is written, and with \
         --header or --no-header whether its first record is names",
        .path.display(), shown_dialect(*.delimiter, *.quote), shown_first(.first)
    )]
    GuessContradicted {
        path: PathBuf,
        rejected: u64,
        records: u64,
        fields: usize,
        delimiter: u8,
        quote: Option<u8>,
        first: Option<Box<Rejected>>,
    },
    #[error(
        "{}: the first record has no end within the first {bytes} bytes, so that its columns are \
         not known: it must be shorter",
        .path.display()
    )]
    LongFirstRecord { path: PathBuf, bytes: u64 },
    #[error(
        "{}: quotes enclose {joined} line ends after which a record seems to begin, in {records} \
         records; the first such value, in column `{column}`, begins in {} and has {lines} lines: \
         say with --quote none that quotes are text, or with --quote '\"' that they are not",
        .path.display(), shown_place(.place)
    )]
    QuotesContradicted {
        path: PathBuf,
        joined: u64,
        records: u64,
        place: RejectPlace,
        column: String,
        lines: u64,
    },
    #[error(
        "{}, {}, column `{column}`: `{text}` is a date only in one order of day and month, and the \
         column was read in the other one, because all its dates in the sample fit both: say with \
         --timestamp-format which it is",
        .path.display(), shown_place(.place)
    )]
    AmbiguousDates { path: PathBuf, place: RejectPlace, column: String, text: String },
    #[error(
        "{}, column `{column}`: `{day_first}` is a date as dd/MM/yyyy only, and `{month_first}`{} \
         as MM/dd/yyyy only, so others could be either: write all dates alike, or import files of \
         one kind at a time with --timestamp-format",
        .path.display(), shown_other(.other)
    )]
    MixedDates {
        path: PathBuf,
        column: String,
        day_first: String,
        month_first: String,
        /// The file that has the second one, if it is another file.
        other: Option<PathBuf>,
    },
    #[error(
        "{}, {}: lines end with CR before it, and with LF here: \
         convert the file to one kind of line ends", .path.display(), shown_place(.place)
    )]
    MixedLineEnds { path: PathBuf, place: RejectPlace },
    #[error(
        "{} begins with {}, none of which is a name in the header of {}: \
         import it by itself, with --header if these are names, with --no-header if they are a row",
        .path.display(), shown_names(.names), .first.display()
    )]
    OtherHeader { path: PathBuf, first: PathBuf, names: Vec<String> },
    #[error(
        "the first record of {} looks like names, and {} has no header: \
         import it by itself, with --header if these are names, with --no-header if they are a row",
        .path.display(), .first.display()
    )]
    LateHeader { path: PathBuf, first: PathBuf },
    #[error(
        "{} has no header and {columns} columns, and the header of {} has {expected}: \
         import it by itself",
        .path.display(), .other.display()
    )]
    OtherCount { path: PathBuf, columns: usize, other: PathBuf, expected: usize },
    #[error(
        "{} has no header, and that of {} after it has the columns in another order than the \
         table: import it by itself, or after the file whose columns it has",
        .path.display(), .other.display()
    )]
    OtherOrder { path: PathBuf, other: PathBuf },
    #[error("{}, {}{}: {reason}{}", .path.display(), shown_place(.place), shown_column(.column),
        shown_text(.text))]
    BadValue {
        path: PathBuf,
        place: RejectPlace,
        // `None` for the record as a whole; then the text is the record.
        column: Option<String>,
        text: String,
        reason: Reason,
    },
    #[error(
        "{}, most of them because: {reason}; the first: {first}; all are listed in {}",
        shown_all(*.count), .list.display()
    )]
    AllRejected { count: u64, reason: Reason, first: Box<Rejected>, list: PathBuf },
    #[error(
        "{}: --skip-lines {wanted} exceeds the {skipped} lines in the first {}",
        .path.display(), ByteCount(*.bytes)
    )]
    SkipTooFar { path: PathBuf, wanted: u64, skipped: u64, bytes: u64 },
    #[error("{}: damaged {kind} stream after {offset} decompressed bytes", .path.display())]
    Compression { path: PathBuf, kind: &'static str, offset: u64, source: std::io::Error },
    #[error(
        "{}: its zstd window is larger than {max}; it can be a quarter of --memory, and at most \
         128 MiB: give the import more memory, or unpack the file first, with zstd -d --long=31",
        .path.display()
    )]
    ZstdWindow { path: PathBuf, max: ByteCount },
    #[error(
        "{} is {kind}, not delimited text: convert it to CSV or Parquet first; \
         with --format csv or --delimiter it is read as it is",
        .path.display()
    )]
    NotDelimited { path: PathBuf, kind: &'static str },
    #[error(
        "{} has other columns than {}: {}", .path.display(), .first.display(), .names.join(", ")
    )]
    OtherColumns { path: PathBuf, first: PathBuf, names: Vec<String> },
    #[error("read {}", .path.display())]
    Pipe { path: PathBuf, source: std::io::Error },
    #[error(
        "{} was changed while it was read: {}", .path.display(), shown_change(*.before, *.after)
    )]
    InputChanged { path: PathBuf, before: u64, after: u64 },
    #[error(
        "column `{column}` is {}, which is a time only with a unit: \
         say with --timestamp-format whether it is epoch_s, epoch_ms, epoch_us or epoch_ns",
        .ty.sql()
    )]
    TimestampNeedsFormat { column: String, ty: ColumnType },
    #[error(
        "{}: column `{column}` is to be the designated timestamp, \
         but most of its values are not timestamps{}: say with --timestamp-format how they are \
         written",
        .path.display(), shown_example(.example)
    )]
    NotTimestamps {
        path: PathBuf,
        column: String,
        // A line of the file, and its value.
        example: Option<(u64, String)>,
    },
    #[error("table `{table}` is one of the system's: rows are not imported into it")]
    SystemTable { table: String },
    #[error("there is no column `{name}` in {place}")]
    NoSuchColumn { name: String, place: String },
    #[error(
        "table `{table}` has designated timestamp {}, not `{given}`",
        .own.as_deref().unwrap_or("none")
    )]
    OtherTimestamp { table: String, own: Option<String>, given: String },
    #[error("table `{table}` is partitioned by {}, not by {}", .own.sql(), .given.sql())]
    OtherPartitioning { table: String, own: PartitionUnit, given: PartitionUnit },
    #[error("table `{table}` exists with other columns: see `{column}`")]
    OtherSchema { table: String, column: String },
    #[error("column `{name}` is {}, which cannot be a SYMBOL", .ty.sql())]
    NotASymbol { name: String, ty: ColumnType },
    #[error("{}: {flaw}", .path.display())]
    Parquet { path: PathBuf, flaw: Flaw },
    #[error("{}: row group {group}{}: {flaw}", .path.display(), shown_column(.column))]
    ParquetRows {
        path: PathBuf,
        // Counted from 1.
        group: usize,
        // `None` if each column can be read by itself.
        column: Option<String>,
        flaw: Flaw,
    },
    #[error(
        "{}, row group {group}: its pages take {} while they are decoded, and --memory is \
         {memory}: give the import at least {}",
        .path.display(), ByteCount(*.bytes), ByteCount(.bytes.saturating_mul(4).div_ceil(3))
    )]
    ParquetOverMemory { path: PathBuf, group: usize, bytes: u64, memory: ByteCount },
    #[error(
        "{}: column `{column}` has type {ty}, which no column of a table holds: \
         --skip-columns '{column}' leaves it out",
        .path.display()
    )]
    ParquetType { path: PathBuf, column: String, ty: String },
    #[error(
        "{}: column `{column}` would be {}, and {} in {}: no type holds both exactly; --schema \
         sets the type of the table", .path.display(), .ty.sql(), .first_ty.sql(), .first.display()
    )]
    ParquetTypesDiffer {
        path: PathBuf,
        column: String,
        ty: ColumnType,
        first: PathBuf,
        first_ty: ColumnType,
    },
    #[error(
        "{}, {}, column `{column}`: `{text}` is a date only with the month first, and those \
         before it were read with the day first: say with --timestamp-format which it is",
        .path.display(), shown_place(.place)
    )]
    AmbiguousTimes { path: PathBuf, place: RejectPlace, column: String, text: String },
    #[error(
        "{}: column `{column}` has type {own}, which cannot become {}: \
         --skip-columns '{column}' leaves it out",
        .path.display(), .ty.sql()
    )]
    ParquetTarget { path: PathBuf, column: String, own: String, ty: ColumnType },
    #[error("Parquet files and text files cannot be imported together: {}", .path.display())]
    MixedFormats { path: PathBuf },
    #[error("Parquet cannot be read from a pipe: {}", .path.display())]
    ParquetFromPipe { path: PathBuf },
    #[error("--memory {given} is less than the {min} that a thread needs")]
    MemoryTooSmall { given: ByteCount, min: ByteCount },
    #[error("column `{column}` has more distinct symbols than fit in memory")]
    TooManySymbols { column: String },
    #[error("cancelled")]
    Cancelled,
    #[error("a worker has panicked")]
    WorkerPanicked,
    #[error(
        "{}: {seen} records were found, but {rows} rows, {rejected} rejects and {headers} headers \
         are accounted for: this is a defect of tidegate, please report it", .path.display()
    )]
    Unaccounted { path: PathBuf, seen: u64, rows: u64, rejected: u64, headers: u64 },
    #[error(
        "{rows} rows were read and {written} written: \
         this is a defect of tidegate, please report it"
    )]
    RowsLost { rows: u64, written: u64 },
}

impl Error {
    /// The class of the error: what has to be changed or repaired.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::Disk { source, .. }
            | Error::TooManyFiles { source, .. }
            | Error::Input(source) => source.class(),
            Error::Storage(source) => source.class(),
            Error::Reject(RejectError::Disk(source)) => source.class(),
            Error::Pipe { .. }
            | Error::InputChanged { .. }
            | Error::WorkerPanicked
            | Error::Unaccounted { .. }
            | Error::RowsLost { .. } => Class::Environment,
            Error::Reject(_)
            | Error::Refused { .. }
            | Error::Source(_)
            | Error::Schema(_)
            | Error::Sniff { .. }
            | Error::ForeignFormat { .. }
            | Error::NoRecords { .. }
            | Error::NoRowGroups { .. }
            | Error::AlreadyRead { .. }
            | Error::Binary { .. }
            | Error::UnclosedQuote { .. }
            | Error::RecordTooLong { .. }
            | Error::RecordOverMemory { .. }
            | Error::OpenQuote { .. }
            | Error::GuessContradicted { .. }
            | Error::QuotesContradicted { .. }
            | Error::LongFirstRecord { .. }
            | Error::AmbiguousDates { .. }
            | Error::MixedDates { .. }
            | Error::MixedLineEnds { .. }
            | Error::OtherHeader { .. }
            | Error::LateHeader { .. }
            | Error::OtherCount { .. }
            | Error::OtherOrder { .. }
            | Error::BadValue { .. }
            | Error::AllRejected { .. }
            | Error::SkipTooFar { .. }
            | Error::Compression { .. }
            | Error::ZstdWindow { .. }
            | Error::NotDelimited { .. }
            | Error::OtherColumns { .. }
            | Error::SystemTable { .. }
            | Error::NoSuchColumn { .. }
            | Error::TimestampNeedsFormat { .. }
            | Error::NotTimestamps { .. }
            | Error::OtherTimestamp { .. }
            | Error::OtherPartitioning { .. }
            | Error::OtherSchema { .. }
            | Error::NotASymbol { .. }
            | Error::Parquet { .. }
            | Error::ParquetRows { .. }
            | Error::ParquetOverMemory { .. }
            | Error::ParquetType { .. }
            | Error::ParquetTypesDiffer { .. }
            | Error::AmbiguousTimes { .. }
            | Error::ParquetTarget { .. }
            | Error::MixedFormats { .. }
            | Error::ParquetFromPipe { .. }
            | Error::MemoryTooSmall { .. }
            | Error::TooManySymbols { .. }
            | Error::Cancelled => Class::Caller,
        }
    }

    /// Returns true if options contradict each other or do not fit, whatever the files hold.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::MemoryTooSmall { .. }
                | Error::Sniff { source: SniffError::BadDialect { .. }, .. }
        )
    }

    /// For `map_err`: adds the purpose of the call.
    pub(crate) fn disk(purpose: &'static str) -> impl Fn(tidegate_platform::Error) -> Error {
        move |source| Error::Disk { purpose, source }
    }
}

/// The results of several workers, or the first error that is not the mere consequence of another
/// worker's failure.
pub(crate) fn first_error<T>(outcomes: Vec<std::thread::Result<Result<T>>>) -> Result<Vec<T>> {
    let mut results = Vec::with_capacity(outcomes.len());
    let mut failed = None;
    for outcome in outcomes {
        match outcome.unwrap_or(Err(Error::WorkerPanicked)) {
            Ok(result) => results.push(result),
            Err(Error::Cancelled) if failed.is_some() => {}
            Err(error) if matches!(failed, None | Some(Error::Cancelled)) => failed = Some(error),
            Err(_) => {}
        }
    }
    failed.map_or(Ok(results), Err)
}

fn shown_all(count: u64) -> String {
    match count {
        1 => "the only record was rejected".to_owned(),
        count => format!("all {count} records were rejected"),
    }
}

/// The change of an input, as far as its size shows it.
fn shown_change(before: u64, after: u64) -> String {
    match before == after {
        true => "it has the same size, but was written to".to_owned(),
        false => format!("it had {before} bytes, and has {after} now"),
    }
}

fn shown_open(is_open: bool) -> &'static str {
    match is_open {
        true => ", and a quote is open there that may never be closed",
        false => "",
    }
}

/// The line and the byte, which helps to find a place in a large file.
fn shown_place(place: &RejectPlace) -> String {
    match place {
        RejectPlace::Line { line, byte } => format!("line {line} (byte {byte})"),
        RejectPlace::Row(row) => format!("row {row}"),
    }
}

fn shown_other(other: &Option<PathBuf>) -> String {
    other.as_ref().map_or_else(String::new, |path| format!(" in {}", path.display()))
}

fn shown_column(column: &Option<String>) -> String {
    column.as_ref().map_or_else(String::new, |column| format!(", column `{column}`"))
}

/// The text, or nothing for NULL.
fn shown_text(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": `{text}`") }
}

/// The delimiter and the quote of a text.
fn shown_dialect(delimiter: u8, quote: Option<u8>) -> String {
    let quote = match quote {
        Some(quote) => format!("quote `{}`", quote.escape_ascii()),
        None => "no quotes".to_owned(),
    };
    match delimiter {
        b'\t' => format!("delimiter tab and {quote}"),
        0..0x20 => format!("no delimiter and {quote}"),
        delimiter => format!("delimiter `{}` and {quote}", delimiter.escape_ascii()),
    }
}

fn shown_first(first: &Option<Box<Rejected>>) -> String {
    first.as_ref().map_or_else(String::new, |first| format!(" (the first: {first})"))
}

/// The first few names.
fn shown_names(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    shown.join(", ") + if names.len() > SHOWN { ", ..." } else { "" }
}

fn shown_example(example: &Option<(u64, String)>) -> String {
    match example {
        Some((line, text)) => format!(", such as `{text}` in line {line}"),
        None => String::new(),
    }
}
