//! The storage engine: one write-ahead log, and for each table a manifest, symbol dictionaries and
//! segments. Committed data can be read after any crash of the machine.
//!
//! - The only commit is a WAL record (`wal`). Catalog and manifests are checkpoints of the log and
//!   may be older than it.
//! - Paths and footers contain ids, which are never reused; names are in the catalog.
//! - Readers hold a [`Snapshot`], which never changes; readers and writers do not wait for each
//!   other.
//!
//! Bytes: docs/format.md. Not here: parsing and sorting rows (`ingest`), filtering (`filter`),
//! SQL (`query`). No `async`: threads and locks, and all I/O through `platform::Disk`.

#![warn(missing_docs)]

pub mod batch;
pub mod time_order;
pub mod segment;
pub mod mem_segment;
pub mod symbols;
pub mod deletion_vector;
pub mod change;
pub mod manifest;
pub mod wal;
pub mod catalog;
mod files;
pub mod snapshot;
pub mod rewrite;
pub mod database;
mod checksummed_file;
mod error;

pub use batch::{BatchColumn, BatchTexts, BatchValues, RowBatch};
pub use change::BatchId;
pub use database::{
    Access, AppendOptions, Appended, ChangeTxn, Database, DdlBefore, ImportTarget, ImportTxn,
    LogRepair, LostCommits, MadeFor, MaintenanceOptions, MaintenanceReport, NewColumns,
    NewTableOptions, OpenOptions, OtherRows, PendingDdl, PrivateNumbers, PrivateRows,
    PrivateSnapshot, RecoveryReport, Relations, SchemaEdit, SegmentDeletes, SegmentPin,
    SnapshotDeletes, TableAppend, TableDdl, TableDeletes, TableDescription, TableEntry, TableRead,
    TransactionCommit, VerifyReport, VerifyStep, VisibleTables, clear_unused_log, encode_private,
    is_private, repair_log, verify_offline,
};
pub use deletion_vector::DeletionVector;
pub use error::{Class, Corruption, DecodeError, Error, Result, SegmentDamage};
pub use files::TableWrites;
pub use mem_segment::{MemSegment, MemSegmentBatch, MemSegmentColumn};
pub use rewrite::Rewrite;
pub use segment::{SegmentMeta, TYPE_KEY, WrittenSegment};
pub use snapshot::{Derived, Run, ScanGroup, SegmentRun, Snapshot};
pub use symbols::{SymbolTable, SymbolTables};
pub use tidegate_platform::{Disk, HeapUse, MemoryBudget, thread_heap_bytes};
pub use wal::{Durability, LogOptions};
