//! What an import is asked to do.

use std::fmt;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::ArrayRef;
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Schema};
use tidegate_platform::{DiskFile, IoMode};

use crate::reject::TakeRejects;
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
    /// The columns of the table that the fields of a text are, in order, whatever a header says.
    pub fields: Option<Vec<String>>,
    /// What a table that the import makes is to a table of its name.
    pub existing: Existing,
    /// The most characters of some VARCHAR columns of a table that is to be created, by name.
    pub lengths: Vec<(String, u32)>,
    /// The designated timestamp of a table that is to be created; of an existing one it must be it.
    pub timestamp: Option<String>,
    /// How wide partitions are; of an existing table it must be its own.
    pub partition_by: Option<PartitionUnit>,
    /// Columns of text that become SYMBOL in a table that is to be created.
    pub symbols: Vec<String>,
    /// Columns of the input that are left out, by the input's names for them.
    pub skip_columns: Vec<String>,
    /// What kind of file it is.
    pub format: FileFormat,
    /// How the text is to be read.
    pub dialect: DialectOptions,
    /// How timestamps are written.
    pub timestamp_format: Option<TimestampFormat>,
    /// How those of some columns of a text are written, by name; before `timestamp_format`.
    pub column_formats: Vec<(String, TimestampFormat)>,
    /// What a bad cell or record does.
    pub on_error: OnError,
    /// The import fails when more records and cells than this are bad.
    pub errors_max: Option<u64>,
    /// Where rejects are listed.
    pub rejects: RejectList,
    /// Where rows go.
    pub rows_to: RowsTo,
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
    /// These files, which somebody has opened: they are read by these handles alone, and their
    /// names are only for messages.
    Opened(Vec<Arc<dyn DiskFile>>),
    /// Standard input.
    Stdin,
    /// Bytes that come from elsewhere.
    Stream(ByteStream),
}

/// Bytes that can be read once. Clones are the same bytes.
#[derive(Clone)]
pub struct ByteStream {
    name: PathBuf,
    bytes: Arc<Mutex<Option<Box<dyn Read + Send>>>>,
}

impl ByteStream {
    /// Bytes that messages call by this name.
    #[must_use]
    pub fn new(name: PathBuf, bytes: Box<dyn Read + Send>) -> ByteStream {
        ByteStream { name, bytes: Arc::new(Mutex::new(Some(bytes))) }
    }

    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Whoever comes first has them; `None` for all others.
    pub(crate) fn take(&self) -> Option<Box<dyn Read + Send>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByteStream({})", self.name.display())
    }
}

/// Where rows go when all of them are read.
#[derive(Debug, Clone)]
pub enum RowsTo {
    /// They are committed to the table.
    Table,
    /// Somebody takes them, and the table stays as it is.
    Taker(Arc<dyn TakeRows>),
}

/// Takes the rows of an import that commits nothing.
pub trait TakeRows: fmt::Debug + Send + Sync {
    /// Takes some: an array for each column of the table. Those of a partition come in the order
    /// of time.
    ///
    /// # Errors
    /// If it wants no more.
    fn take(&self, schema: &Arc<Schema>, columns: Vec<ArrayRef>) -> Result<(), RowsRefused>;
}

/// Why somebody takes no more rows.
pub type RowsRefused = Box<dyn std::error::Error + Send + Sync>;

/// Where rejects are listed.
#[derive(Debug, Clone)]
pub enum RejectList {
    /// In this file, NDJSON; created at the first one.
    File(PathBuf),
    /// With whoever takes them.
    Taken(Arc<dyn TakeRejects>),
}

impl RejectList {
    /// What messages call it.
    pub(crate) fn name(&self) -> PathBuf {
        match self {
            RejectList::File(path) => path.clone(),
            RejectList::Taken(taker) => PathBuf::from(taker.name()),
        }
    }
}

/// Where a new table's columns come from.
#[derive(Debug, Clone)]
pub enum ColumnSource {
    /// From a sample of the file.
    Infer,
    /// From the caller: names and types, in the table's order.
    Given(Vec<(String, ColumnType)>),
    /// From a sample of a text, but for what the caller knows: columns of the header, or the first
    /// ones by position if there is none.
    Hinted(Vec<(String, ColumnType)>),
}

/// What is done about a table that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    /// Its rows stay, and others come to them.
    Add,
    /// The commit puts a new table in its place.
    Replace,
    /// As `Add`; and if there is none, none is made.
    Require,
    /// The database does not have the table, whose columns these are: somebody takes the rows.
    Elsewhere(Arc<Schema>),
}

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// By its first bytes.
    Auto,
    /// Delimited text, perhaps compressed.
    Csv,
    /// Text as PostgreSQL's COPY has it, with backslashes, perhaps compressed.
    Backslashed,
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
    /// What a record with too many fields is.
    pub extra_fields: ExtraFields,
}

/// Which byte quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// `"`, unless a sample shows that it encloses no fields.
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

/// What a record with too many fields is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraFields {
    /// A bad record.
    Reject,
    /// A record whose last fields do not count.
    Ignore,
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
