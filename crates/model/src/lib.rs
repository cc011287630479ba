//! The vocabulary of Tidegate: ids, rows, time, types, schemas, page frames, and how bytes on disk
//! are laid out. Values in, values out: no I/O, no clock, no threads.
//!
//! Not here: the work on these values, which lives in `storage` (encode, decode, commit), `ingest`
//! (parse) and `query` (plan).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod limits;
pub mod ids;
pub mod rows;
pub mod time;
pub mod partition;
pub mod types;
pub mod value;
mod schema_error;
pub mod view;
pub mod schema;
pub mod bytes;
pub mod frame;
pub mod layout;

pub use frame::{Codes, ColumnSlice, Encoded, PageFrame};
pub use ids::{ColumnId, Lsn, SchemaVersion, SegmentId, SeqTxn, SymbolId, TableId};
pub use partition::{PartitionKey, PartitionUnit};
pub use rows::{ByteCount, RowCount, RowRange};
pub use schema::{Column, SYSTEM_PREFIX, Schema, TextLength, Ttl, is_system_table};
pub use schema_error::SchemaError;
pub use time::{TimeRange, TimeUnit, Timestamp};
pub use types::ColumnType;
pub use value::Value;
pub use view::{ColumnDefault, Comments, View, ViewRead};
