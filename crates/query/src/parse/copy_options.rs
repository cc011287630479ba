//! The options of COPY: format, header, policy on errors, columns.

use tidegate_model::PartitionUnit;

/// A text in a statement, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The text, without quotes.
    pub text: String,
    /// Its byte offset in the statement.
    pub offset: usize,
}

/// The options behind WITH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// `None`: detected from the first bytes of a file; an export always has one.
    pub format: Option<CopyFormat>,
    /// `None`: not given.
    pub header: Option<CopyHeader>,
    /// One ASCII byte.
    pub delimiter: Option<u8>,
    /// One ASCII byte.
    pub quote: Option<u8>,
    /// The text that means NULL.
    pub null: Option<String>,
    /// The designated timestamp.
    pub timestamp: Option<Placed>,
    /// The format of the designated timestamp.
    pub timestamp_format: Option<Placed>,
    /// The partitioning of a table that COPY creates.
    pub partition_by: Option<PartitionUnit>,
    /// The treatment of a bad value.
    pub on_error: Option<CopyPolicy>,
    /// The number of bad values above which the import fails.
    pub max_errors: Option<u64>,
    /// True if the statement waits for the end of the job.
    pub wait: bool,
    /// The number of lines before the header.
    pub skip_lines: u64,
    /// Columns of the input that are skipped.
    pub skip_columns: Vec<String>,
    /// True if surplus fields of a record are ignored.
    pub ignores_extra_fields: bool,
    /// True if a record that lacks fields is rejected.
    pub rejects_missing_fields: bool,
    /// The compression of an export.
    pub codec: Option<Placed>,
    /// The level of the compression.
    pub codec_level: Option<u32>,
    /// The rows of a row group.
    pub row_group_size: Option<u64>,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Comma-separated values, by RFC 4180.
    Csv,
    /// Tab-separated text with backslash escapes, as PostgreSQL's.
    Text,
    /// Apache Parquet.
    Parquet,
    /// One JSON object per line.
    Jsonl,
    /// Arrow IPC.
    Arrow,
    /// PostgreSQL's binary format, over a connection.
    Binary,
}

/// The treatment of the first record as a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyHeader {
    /// It is detected.
    Auto,
    /// There is a header.
    Present,
    /// There is no header.
    Absent,
    /// There is a header, with the table's columns in their order.
    Match,
}

/// The treatment of a bad value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPolicy {
    /// Its row is skipped.
    SkipRow,
    /// It becomes NULL.
    SkipColumn,
    /// It ends the import.
    Abort,
}
