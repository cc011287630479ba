//! What an import is asked to do.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use tidegate_model::{ByteCount, ColumnType, PartitionUnit};
use tidegate_platform::IoMode;

use crate::sniff::Header;
use crate::timestamp::TimestampFormat;

/// An import. No `Default`: the command line decides, in one place.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Where the bytes come from.
    pub source: Source,
    /// The table they go to; it is created if it does not exist.
    pub table: String,
    /// The columns of a table that is to be created. An existing table's schema always wins.
    pub columns: ColumnSource,
    /// The most characters of some VARCHAR columns of a table that is to be created, by name.
    pub lengths: Vec<(String, u32)>,
    /// The designated timestamp of a table that is to be created; of an existing one it must be it.
    pub timestamp: Option<String>,
    /// How wide partitions are; of an existing table it must be its own.
    pub partition_by: Option<PartitionUnit>,
    /// Columns of text that become SYMBOL in a table that is to be created.
    pub symbols: Vec<String>,
    /// What kind of file it is.
    pub format: FileFormat,
    /// How the text is to be read.
    pub dialect: DialectOptions,
    /// How timestamps are written.
    pub timestamp_format: Option<TimestampFormat>,
    /// What a bad cell or record does.
    pub on_error: OnError,
    /// The import fails when more records and cells than this are bad.
    pub errors_max: Option<u64>,
    /// Where rejects are listed, NDJSON; created at the first one.
    pub rejects: PathBuf,
    /// How many threads parse and seal.
    pub workers: NonZeroUsize,
    /// The most anonymous memory; past it, rows are spilled.
    pub memory_max: ByteCount,
    /// How files are read and written.
    pub io: IoMode,
}

/// Where the bytes come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// These files, in this order.
    Files(Vec<PathBuf>),
    /// Standard input.
    Stdin,
}

/// Where a new table's columns come from.
#[derive(Debug, Clone)]
pub enum ColumnSource {
    /// From a sample of the file.
    Infer,
    /// From the caller: names and types, in the table's order.
    Given(Vec<(String, ColumnType)>),
}

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// By its first bytes.
    Auto,
    /// Delimited text, perhaps compressed.
    Csv,
    /// Apache Parquet.
    Parquet,
}

/// How text is to be read; what is not given is found from a sample.
#[derive(Debug, Clone)]
pub struct DialectOptions {
    /// One ASCII byte.
    pub delimiter: Option<u8>,
    /// One ASCII byte.
    pub quote: Quote,
    /// Whether the first record is names.
    pub header: Header,
    /// An unquoted cell that is NULL, beside the empty one.
    pub null_text: Option<String>,
    /// Physical lines before the header.
    pub skip_lines: u64,
    /// What a record with too few fields is.
    pub missing_fields: MissingFields,
}

/// Which byte quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// `"`.
    Standard,
    /// This byte.
    Byte(u8),
    /// Nothing quotes.
    None,
}

impl Quote {
    /// The byte, if there is one.
    #[must_use]
    pub fn byte(self) -> Option<u8> {
        match self {
            Quote::Standard => Some(b'"'),
            Quote::Byte(byte) => Some(byte),
            Quote::None => None,
        }
    }
}

/// What a record with too few fields is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingFields {
    /// A bad record.
    Reject,
    /// A record whose last columns are NULL.
    Null,
}

/// What a bad cell or record does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// It fails the import.
    Abort,
    /// Its row is left out.
    SkipRow,
    /// The cell becomes NULL; a bad record is still left out.
    Null,
}
