//! What is on disk: one write-ahead log, and for each table a manifest, symbol dictionaries and
//! segments. What is committed can be read, whatever happens to the machine.
//!
//! - The only commit is a WAL record (`wal`). Catalog and manifests are checkpoints of the log and
//!   may be older than it.
//! - Paths and footers carry ids, which are never used again; names live in the catalog.
//! - Readers hold a [`Snapshot`], which never changes; they and writers do not wait for each other.
//!
//! Bytes: docs/format.md. Not here: parsing and sorting rows (`ingest`), filtering (`filter`),
//! SQL (`query`). No `async`: threads and locks, and all I/O through `platform::Disk`.

#![warn(missing_docs)]

pub mod segment;
pub mod symbols;
pub mod mask;
pub mod snapshot;
pub mod wal;
pub mod manifest;
pub mod catalog;
pub mod database;
mod envelope;
mod error;

pub use database::{
    Database, ImportTarget, ImportTxn, LogOptions, MaskedRows, OpenOptions, TableEntry,
    VerifyReport, VerifyStep,
};
pub use error::{Class, Corruption, DecodeError, Error, Result};
pub use mask::RowMask;
pub use segment::{SegmentMeta, WrittenSegment};
pub use snapshot::{Run, ScanGroup, SegmentRun, Snapshot};
pub use symbols::{SymbolTable, SymbolTables};
