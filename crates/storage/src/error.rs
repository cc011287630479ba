//! Errors of a database, as facts.

#![expect(missing_docs, reason = "the message of a variant is its documentation")]
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tidegate_model::bytes::Truncated;
use tidegate_model::layout::LayoutError;
use tidegate_model::{ByteCount, ColumnId, Schema, SchemaError, limits};
pub use tidegate_platform::Class;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an operation failed, or data cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// `platform` names the call and the file; this level adds their purpose.
    #[error("{purpose}")]
    Disk { purpose: &'static str, source: tidegate_platform::Error },
    #[error("{}", shown_damage(.path, *.offset, .what))]
    Corrupt { path: PathBuf, offset: u64, what: Corruption },
    #[error("{path} has format version {version}, and this program knows versions up to {known}")]
    NewerFormat { path: PathBuf, version: u32, known: u32 },
    #[error("database {path} is in use by another process")]
    InUse { path: PathBuf },
    #[error("{path} is not a database: it has files, but no catalog")]
    NotADatabase { path: PathBuf },
    #[error("table `{table}` does not exist")]
    NoSuchTable { table: String },
    #[error("table `{table}` exists already")]
    TableExists { table: String },
    #[error("view `{view}` exists already")]
    ViewExists { view: String },
    #[error("`{view}` is a view, not a table")]
    IsView { view: String },
    #[error("`{table}` is a table, not a view")]
    NotAView { table: String },
    #[error("the database has {} tables, the maximum: drop some", limits::TABLES)]
    TooManyTables,
    #[error("the database has {} views, the maximum: drop some", limits::VIEWS)]
    TooManyViews,
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(
        "rows of table `{table}` cannot be added or changed until all of its files can be read \
         (`tidegate verify` lists the damage; queries that need no damaged file work)"
    )]
    Unreadable { table: String, source: Box<Error> },
    /// The manifest of the table cannot be read, or does not fit the log.
    #[error("table `{table}` is suspended: it cannot be read, and can only be dropped")]
    Suspended { table: String, source: Arc<Error> },
    #[error("rows of table `{table}` cannot be flushed, and it takes no more until they can")]
    NotFlushed { table: String, source: Arc<Error> },
    #[error(
        "the disk of {dir} has less than {bytes} bytes left, and no rows are taken: free some, or \
         drop tables or partitions"
    )]
    DiskFull { dir: PathBuf, bytes: u64 },
    #[error("table `{table}` was dropped meanwhile")]
    TableDropped { table: String },
    #[error("table `{table}` was truncated meanwhile")]
    TableTruncated { table: String },
    #[error("column `{column}` of table `{table}` was dropped meanwhile")]
    ColumnDropped { table: String, column: String },
    #[error(
        "column `{column}` of table `{table}`, which has a default, was added meanwhile, and the \
         rows have no value for it: begin again"
    )]
    ColumnAdded { table: String, column: String },
    #[error("the columns of table `{table}` are not those that the rows were made for")]
    SchemaChanged { table: String },
    #[error("table `{table}` already has a batch of this name, with other rows")]
    BatchReused { table: String },
    #[error("table `{table}` is named twice in one append")]
    TableTwice { table: String },
    #[error("segment {segment} of table `{table}` was changed meanwhile")]
    SegmentChanged { table: String, segment: u64 },
    #[error(
        "rows of table `{table}` that this transaction changes were changed, removed or altered by \
         another meanwhile: begin it again"
    )]
    RowsChanged { table: String },
    #[error(
        "rows of table `{table}` were changed or removed by another transaction after this one has \
         read the table FOR UPDATE or FOR SHARE: begin it again"
    )]
    ReadRowsChanged { table: String },
    #[error(
        "rows of table `{table}` were added by another after this transaction has added a column \
         with a default to it: begin it again"
    )]
    RowsAdded { table: String },
    #[error(
        "`{name}`, the name that this transaction gives to a table or view, was taken by another \
         meanwhile: begin it again"
    )]
    NameTaken { name: String },
    #[error(
        "column `{column}` of table `{table}`, which this transaction adds or changes, was added, \
         renamed or dropped by another meanwhile: begin it again"
    )]
    ColumnsChanged { table: String, column: String },
    #[error(
        "table `{table}`, which this transaction changes, was dropped, renamed or replaced by \
         another meanwhile: begin it again"
    )]
    TablesChanged { table: String },
    #[error(
        "a transaction has at most {} changes of tables: commit some of them before",
        limits::TRANSACTION_DDL
    )]
    TooManyChanges,
    #[error("table `{table}` would have {count} partitions, more than {}", limits::PARTITIONS)]
    TooManyPartitions { table: String, count: usize },
    #[error("a symbol of {bytes} bytes exceeds the limit of {} bytes", limits::SYMBOL_BYTES)]
    SymbolTooLong { bytes: usize },
    #[error("a symbol is not UTF-8 at byte {valid}")]
    SymbolNotText { valid: usize },
    #[error("row {row} has no designated timestamp")]
    TimestampMissing { row: usize },
    #[error("the designated timestamp of row {row}, {value}, is out of range")]
    TimestampOutOfRange { row: usize, value: i64 },
    #[error(
        "column #{column} has {} distinct symbols, the maximum: make it a VARCHAR",
        limits::SYMBOLS
    )]
    TooManySymbols { column: u32 },
    #[error(
        "column `{column}` takes no new symbols, because the dictionaries of SYMBOL columns have \
         {bytes} of memory, and their limit is {limit}: make it a VARCHAR, or raise memory.limit"
    )]
    SymbolMemory { column: String, bytes: ByteCount, limit: ByteCount },
    #[error(
        "a commit of {bytes} bytes exceeds the limit of the log, {} bytes: write fewer rows at a \
         time",
        limits::WAL_RECORD_BYTES
    )]
    CommitTooLarge { bytes: usize },
    /// The cause is shared by all commits of the group.
    #[error("not committed")]
    NotCommitted { source: Arc<Error> },
    #[error("whether it was committed will be known when the database is opened again")]
    InDoubt { source: Arc<Error> },
    #[error("the database is read-only until its log can be written")]
    ReadOnly { source: Arc<Error> },
    #[error(
        "a repair of the log was cut off, and has set {path} aside: `tidegate verify --repair` \
         ends it"
    )]
    RepairCutOff { path: PathBuf },
    #[error(
        "the directory {dir} was moved or replaced while it is open: nothing is written until it \
         is back in its place"
    )]
    Moved { dir: PathBuf },
    #[error("the database was opened for reading only")]
    OpenedReadOnly,
    #[error("a thread that was to commit has panicked")]
    CommitterPanicked,
}

fn shown_damage(path: &Path, offset: u64, what: &Corruption) -> String {
    match what {
        Corruption::Missing => format!("{} is missing", path.display()),
        what => format!("{} is corrupt at byte {offset}: {what}", path.display()),
    }
}

/// The damage of bytes that we wrote, or appear to have written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Corruption {
    #[error("the file does not begin with the magic bytes of a {expected}")]
    Magic { expected: &'static str },
    #[error("its checksum is {actual:08x}, the stored one {expected:08x}")]
    Checksum { expected: u32, actual: u32 },
    #[error(transparent)]
    Truncated(#[from] Truncated),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    Segment(#[from] SegmentDamage),
    #[error("the file has {actual} bytes instead of {expected}")]
    Length { expected: u64, actual: u64 },
    #[error("the file is missing")]
    Missing,
    #[error("{left} bytes are left over")]
    LeftOver { left: u64 },
    #[error("{what} is {value}")]
    Impossible { what: &'static str, value: u64 },
    #[error("{what} is {actual} instead of {expected}")]
    Differs { what: &'static str, expected: u64, actual: u64 },
    #[error("{what} is not UTF-8")]
    NotText { what: &'static str },
    #[error(
        "a byte that must be zero is not: no commit needs it, and `tidegate verify --repair` sets \
         it to zero"
    )]
    NotZero,
    #[error("the log counts this group as durable, but it is damaged{}", GIVE_UP)]
    DurableGroup,
    #[error("a group of the log is damaged ({what}), and not by an interrupted write{}", GIVE_UP)]
    DamagedGroup { what: Box<Corruption> },
    #[error("the header of the log file is damaged ({what}){}", GIVE_UP)]
    DamagedLogHeader { what: Box<Corruption> },
    #[error("the log file was cut: it has {actual} bytes, and had {expected} on disk{}", GIVE_UP)]
    CutLog { expected: u64, actual: u64 },
}

/// The damage of a segment's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SegmentDamage {
    #[error("it is not a segment")]
    NotASegment,
    #[error("it has {actual} bytes instead of {expected}")]
    Length { expected: u64, actual: u64 },
    #[error("the format version is {version}")]
    Version { version: u32 },
    #[error("the trailer is damaged")]
    Trailer,
    #[error("the checksum does not match")]
    Crc,
    #[error("the footer is damaged: {0}")]
    Footer(#[from] LayoutError),
    #[error("the footer is that of another segment")]
    ForeignFooter,
    #[error("a page frame's bytes do not fit its footer")]
    FrameShape,
    #[error("a dictionary's bytes do not fit its footer")]
    Dictionary,
    #[error("a code is not in its dictionary")]
    Code,
    #[error("a symbol is not in the table's dictionary")]
    Symbol,
    #[error("a string table is damaged")]
    StringTable,
    #[error("text is not UTF-8")]
    NotUtf8,
    #[error("the designated timestamp is missing")]
    TimestampMissing,
    #[error("the designated timestamp is out of range")]
    TimestampRange,
    #[error("a byte outside of all regions is not zero")]
    NotZero,
    #[error("row {row} is out of order")]
    Order { row: u64 },
    #[error("zone {zone} does not bound its values")]
    Zone { zone: u64 },
    #[error("{actual} rows are NULL instead of {expected}")]
    NullCount { expected: u64, actual: u64 },
}

/// Advice for the user on a damaged log.
const GIVE_UP: &str = "; `tidegate verify` lists the commits behind this place, and `tidegate \
                       verify --repair` gives them up so that the database opens";

/// The result of a decoder; the caller that read the file adds its path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("format version {version}, known are versions up to {known}")]
    NewerFormat { version: u32, known: u32 },
    #[error("at byte {offset}: {what}")]
    Corrupt { offset: u64, what: Corruption },
}

impl Error {
    /// The class of the error: the party that can act on it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::Disk { source, .. } => source.class(),
            Error::Corrupt { .. } => Class::Corruption,
            Error::NewerFormat { .. }
            | Error::InUse { .. }
            | Error::RepairCutOff { .. }
            | Error::DiskFull { .. }
            | Error::SymbolMemory { .. }
            | Error::Moved { .. }
            | Error::CommitterPanicked => Class::Environment,
            Error::Unreadable { source, .. } => source.class(),
            Error::Suspended { source, .. }
            | Error::NotFlushed { source, .. }
            | Error::NotCommitted { source }
            | Error::InDoubt { source }
            | Error::ReadOnly { source } => source.class(),
            Error::NotADatabase { .. }
            | Error::NoSuchTable { .. }
            | Error::TableExists { .. }
            | Error::ViewExists { .. }
            | Error::IsView { .. }
            | Error::NotAView { .. }
            | Error::TooManyTables
            | Error::TooManyViews
            | Error::Schema(_)
            | Error::TableDropped { .. }
            | Error::TableTruncated { .. }
            | Error::ColumnDropped { .. }
            | Error::ColumnAdded { .. }
            | Error::SchemaChanged { .. }
            | Error::BatchReused { .. }
            | Error::TableTwice { .. }
            | Error::SegmentChanged { .. }
            | Error::RowsChanged { .. }
            | Error::ReadRowsChanged { .. }
            | Error::RowsAdded { .. }
            | Error::NameTaken { .. }
            | Error::ColumnsChanged { .. }
            | Error::TablesChanged { .. }
            | Error::TooManyChanges
            | Error::TooManyPartitions { .. }
            | Error::SymbolTooLong { .. }
            | Error::SymbolNotText { .. }
            | Error::TimestampMissing { .. }
            | Error::TimestampOutOfRange { .. }
            | Error::TooManySymbols { .. }
            | Error::CommitTooLarge { .. }
            | Error::OpenedReadOnly => Class::Caller,
        }
    }

    /// Returns true if the disk, or the quota on it, is full.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::DiskFull { .. } => true,
            Error::Disk { source, .. } => source.is_no_space(),
            Error::Unreadable { source, .. } => source.is_no_space(),
            Error::NotFlushed { source, .. }
            | Error::NotCommitted { source }
            | Error::InDoubt { source }
            | Error::ReadOnly { source } => source.is_no_space(),
            _ => false,
        }
    }

    /// Returns true if a commit failed, or is in doubt, which is not an error of a table.
    pub(crate) fn is_of_log(&self) -> bool {
        matches!(
            self,
            Error::NotCommitted { .. }
                | Error::InDoubt { .. }
                | Error::ReadOnly { .. }
                | Error::CommitterPanicked
        )
    }

    /// The error with the name of the column, if it is about a column whose id is known.
    pub(crate) fn of_column(self, schema: &Schema, id: ColumnId) -> Error {
        match (self, schema.column(id)) {
            (Error::SymbolMemory { bytes, limit, .. }, Some(column)) => {
                Error::SymbolMemory { column: column.name.clone(), bytes, limit }
            }
            (error, _) => error,
        }
    }

    /// For `map_err`: adds the purpose of the call.
    pub(crate) fn disk(purpose: &'static str) -> impl Fn(tidegate_platform::Error) -> Error {
        move |source| Error::Disk { purpose, source }
    }

    /// For `map_err`: adds the path of the file.
    pub(crate) fn decode(path: &Path) -> impl Fn(DecodeError) -> Error {
        move |error| {
            let path = path.to_path_buf();
            match error {
                DecodeError::NewerFormat { version, known } => {
                    Error::NewerFormat { path, version, known }
                }
                DecodeError::Corrupt { offset, what } => Error::Corrupt { path, offset, what },
            }
        }
    }

    /// Damage of a segment, at an offset of its file.
    pub(crate) fn segment(path: &Path, offset: u64, damage: SegmentDamage) -> Error {
        let what = Corruption::Segment(damage);
        Error::Corrupt { path: path.to_path_buf(), offset, what }
    }

    /// A required file is missing.
    pub(crate) fn missing(path: &Path) -> Error {
        Error::Corrupt { path: path.to_path_buf(), offset: 0, what: Corruption::Missing }
    }

    /// Returns true if a file is missing.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Error::Corrupt { what: Corruption::Missing, .. })
    }
}

impl DecodeError {
    /// Damage at an offset of the file.
    pub(crate) fn at(offset: usize, what: impl Into<Corruption>) -> DecodeError {
        DecodeError::Corrupt { offset: offset as u64, what: what.into() }
    }
}

impl From<Truncated> for DecodeError {
    fn from(truncated: Truncated) -> DecodeError {
        DecodeError::at(truncated.offset, truncated)
    }
}
