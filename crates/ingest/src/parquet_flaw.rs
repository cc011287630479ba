//! Flaws: the damage of a Parquet file, and the errors of the library that decodes it.

use std::any::Any;

use parquet::errors::ParquetError;
use thiserror::Error;
use tidegate_model::{ByteCount, limits};

/// Damage of a Parquet file that makes it unreadable. `Display` continues a message that begins
/// with the file, the row group and the column.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "a message is the doc of its error")]
#[non_exhaustive]
pub enum Flaw {
    // In the library's words, without the names of the layers that passed them on.
    #[error("{0}")]
    Library(LibraryMessage),
    #[error("damaged: the decoder stopped at {}", .0.0)]
    Panic(LibraryMessage),
    #[error("columns are encrypted: decrypt the file first")]
    Encrypted,
    #[error("it has integers of 128 bits: write them as decimals or texts")]
    Int128,
    #[error("the metadata is damaged")]
    Metadata,
    #[error("the metadata is damaged: it ends before what it declares")]
    MetadataCut,
    #[error("the schema is damaged: a group has more columns than there are")]
    SchemaCut,
    #[error("the schema is nested more than {max} levels deep")]
    SchemaTooDeep { max: usize },
    #[error("its values are in another file, {0}: import the files that have rows")]
    Elsewhere(String),
    #[error("{declared} rows are declared, but there are {actual}")]
    Rows { declared: u64, actual: u64 },
    #[error(
        "the column is declared to have {bytes} bytes at byte {start}, in a file of {file} bytes"
    )]
    Place { start: i64, bytes: i64, file: u64 },
    #[error(
        "the page at byte {at} is damaged: it declares {declared} bytes, but only {left} are left"
    )]
    PageCut { at: u64, declared: i64, left: u64 },
    #[error(
        "the page at byte {at} declares {} of values, more than its {compressed} stored bytes \
         can hold",
        ByteCount(*.declared)
    )]
    PageInflated { at: u64, declared: u64, compressed: u64 },
    #[error(
        "the page at byte {at} has {} of values, and the limit of a page is {}",
        ByteCount(*.declared), ByteCount(limits::PARQUET_PAGE_BYTES)
    )]
    PageTooLarge { at: u64, declared: u64 },
    #[error(
        "the page at byte {at} has {} of values, and the import has {} of memory for it: give it \
         more",
        ByteCount(*.declared), ByteCount(*.max)
    )]
    PageOverMemory { at: u64, declared: u64, max: u64 },
    #[error(
        "values have a fixed length of {}, and the limit is {}",
        ByteCount(*.bytes), ByteCount(*.max)
    )]
    FixedTooLong { bytes: u64, max: u64 },
    #[error("a page is damaged: it declares {declared} values in {bytes} bytes")]
    PageValues { declared: u64, bytes: u64 },
}

/// A message of the library that decodes Parquet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryMessage(String);

impl std::fmt::Display for LibraryMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The names that each layer of the library puts before the message of the one below.
const LAYERS: [&str; 8] = [
    "External: ",
    "Parquet argument error: ",
    "Parquet error: ",
    "Arrow: ",
    "EOF: ",
    "NYI: ",
    "Invalid argument error: ",
    "External error: ",
];

impl Flaw {
    /// The flaw of an error of the library, or our own flaw that passed through it.
    pub(crate) fn of_library(error: &ParquetError) -> Flaw {
        if let ParquetError::External(source) = error
            && let Some(flaw) = source.downcast_ref::<Flaw>()
        {
            return flaw.clone();
        }
        let whole = error.to_string();
        let mut message = whole.as_str();
        while let Some(rest) = LAYERS.iter().find_map(|layer| message.strip_prefix(layer)) {
            message = rest;
        }
        Flaw::Library(LibraryMessage(message.trim_end_matches('.').to_owned()))
    }

    /// The flaw of a panic of the library.
    pub(crate) fn of_panic(cause: &(dyn Any + Send)) -> Flaw {
        let message = cause.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| cause.downcast_ref::<&str>().copied());
        let message = message.unwrap_or("bytes that it does not know");
        if message.starts_with("Int type with bit width of 128") {
            return Flaw::Int128;
        }
        Flaw::Panic(LibraryMessage(format!("`{}`", message.lines().next().unwrap_or_default())))
    }
}

impl From<Flaw> for ParquetError {
    fn from(flaw: Flaw) -> ParquetError {
        ParquetError::External(Box::new(flaw))
    }
}
