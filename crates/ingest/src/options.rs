//! The options of an import: source, target, columns, dialect, error handling, and resources.

use std::fmt;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::ArrayRef;
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Schema};
use tidegate_platform::{DiskFile, IoMode};

use crate::reject::RejectList;
use crate::timestamp::TimestampFormat;

/// The options of an import. No `Default`: the command line decides, in one place.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The source of the bytes.
    pub source: Source,
    /// The table that gets the rows; it is created if it does not exist.
    pub table: String,
    /// The columns of a new table. The schema of an existing table always has precedence.
    pub columns: ColumnSource,
    /// The columns of the table for the fields of a text, in order, whatever a header says.
    pub fields: Option<Vec<String>>,
    /// The treatment of an existing table of this name.
    pub existing: Existing,
    /// The maximum number of characters of some VARCHAR columns of a new table, by name.
    pub lengths: Vec<(String, u32)>,
    /// The designated timestamp of a new table; in an existing one it must be this column.
    pub timestamp: Option<String>,
    /// The width of partitions; for an existing table it must be its own.
    pub partition_by: Option<PartitionUnit>,
    /// Text columns that become SYMBOL in a new table.
    pub symbols: Vec<String>,
    /// Columns of the input that are left out, by their names in the input.
    pub skip_columns: Vec<String>,
    /// The format of the files.
    pub format: FileFormat,
    /// The dialect of the text.
    pub dialect: DialectOptions,
    /// The format of timestamps.
    pub timestamp_format: Option<TimestampFormat>,
    /// The formats of timestamps of some columns of a text, by name; they precede
    /// `timestamp_format`.
    pub column_formats: Vec<(String, TimestampFormat)>,
    /// The handling of a bad cell or record.
    pub on_error: OnError,
    /// The maximum number of bad records and cells; the import fails if there are more.
    pub errors_max: Option<u64>,
    /// The place where rejects are listed.
    pub rejects: RejectList,
    /// The target of the rows.
    pub rows_to: RowsTo,
    /// The number of threads that parse rows and build segments.
    pub workers: NonZeroUsize,
    /// The memory budget of the import; rows beyond it are spilled.
    pub memory_max: ByteCount,
    /// The kind of I/O for files.
    pub io: IoMode,
}

/// The source of the bytes.
#[derive(Debug, Clone)]
pub enum Source {
    /// These files, in this order.
    Files(Vec<PathBuf>),
    /// These files, which the caller has opened: only the handles are read, and the names are used
    /// in messages only.
    Opened(Vec<Arc<dyn DiskFile>>),
    /// Standard input.
    Stdin,
    /// Bytes from another source.
    Stream(ByteStream),
}

/// Bytes that can be read once. All clones share the same bytes.
#[derive(Clone)]
pub struct ByteStream {
    name: PathBuf,
    bytes: Arc<Mutex<Option<Box<dyn Read + Send>>>>,
}

impl ByteStream {
    /// Creates a stream; messages call it by this name.
    #[must_use]
    pub fn new(name: PathBuf, bytes: Box<dyn Read + Send>) -> ByteStream {
        ByteStream { name, bytes: Arc::new(Mutex::new(Some(bytes))) }
    }

    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Takes the bytes; `None` for every call but the first.
    pub(crate) fn take(&self) -> Option<Box<dyn Read + Send>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByteStream({})", self.name.display())
    }
}

/// The target of the rows after parsing.
#[derive(Debug, Clone)]
pub enum RowsTo {
    /// They are committed to the table.
    Table,
    /// The rows go to a receiver, and the table stays unchanged.
    Receiver(Arc<dyn RowReceiver>),
}

/// A receiver of the rows of an import that commits nothing.
pub trait RowReceiver: fmt::Debug + Send + Sync {
    /// Takes some rows: an array for each column of the table. Those of a partition come in the
    /// order of time.
    ///
    /// # Errors
    /// If the receiver takes no more rows.
    fn take(&self, schema: &Arc<Schema>, columns: Vec<ArrayRef>) -> Result<(), RowsRefused>;
}

/// The reason why a receiver takes no more rows.
pub type RowsRefused = Box<dyn std::error::Error + Send + Sync>;

/// The source of a new table's columns.
#[derive(Debug, Clone)]
pub enum ColumnSource {
    /// From a sample of the file.
    Infer,
    /// From the caller: names and types, in the table's order.
    Given(Vec<(String, ColumnType)>),
    /// From a sample of a text, except for the columns that the caller knows: columns of the
    /// header, or the first ones by position if there is none.
    Hinted(Vec<(String, ColumnType)>),
}

/// The treatment of an existing table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    /// Its rows stay, and the new ones are added.
    Add,
    /// The commit replaces it by a new table.
    Replace,
    /// As `Add`; but if there is no such table, none is created.
    Require,
    /// The database does not have the table, whose columns these are: a receiver takes the rows.
    Elsewhere(Arc<Schema>),
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Detected by its first bytes.
    Auto,
    /// Delimited text, perhaps compressed.
    Csv,
    /// The text format of PostgreSQL's COPY, with backslashes, perhaps compressed.
    PgText,
    /// Apache Parquet.
    Parquet,
}

/// The dialect of a text; options that are not given are detected from a sample.
#[derive(Debug, Clone)]
pub struct DialectOptions {
    /// One ASCII byte.
    pub delimiter: Option<u8>,
    /// One ASCII byte.
    pub quote: Quote,
    /// The kind of the first record: header or row.
    pub header: Header,
    /// An unquoted text that means NULL.
    pub null_text: Option<String>,
    /// The meaning of an empty field without quotes.
    pub empty_fields: EmptyFields,
    /// The number of physical lines before the header.
    pub skip_lines: u64,
    /// The treatment of a record with too few fields.
    pub missing_fields: MissingFields,
    /// The treatment of a record with too many fields.
    pub extra_fields: ExtraFields,
}

/// The kind of the first record: header or row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// Detected (docs/import.md, Header and names).
    Auto,
    /// It is a header.
    Present,
    /// It is a row.
    Absent,
    /// It is a header, and its names must be the table's in the table's order.
    Match,
}

/// The byte that quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// `"`, unless a sample shows that it encloses no fields.
    Standard,
    /// This byte.
    Byte(u8),
    /// No byte quotes.
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

/// The meaning of an empty field without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyFields {
    /// NULL.
    Null,
    /// That of `""`: the empty text, and NULL in a column that is not text.
    Quoted,
}

/// The treatment of a record with too few fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingFields {
    /// A bad record.
    Reject,
    /// A record whose last columns are NULL.
    Null,
}

/// The treatment of a record with too many fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraFields {
    /// A bad record.
    Reject,
    /// A record whose last fields are ignored.
    Ignore,
}

/// The handling of a bad cell or record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// It fails the import.
    Abort,
    /// Its row is left out.
    SkipRow,
    /// The cell becomes NULL; a bad record is still left out.
    Null,
}
