//! SQL on a database: DataFusion with our catalog, our scan and our statements.
//!
//! - Rows of a table come in time order, and are not sorted for it (`plan::order`).
//! - Only partitions, segments and rows whose time can matter are read (`scan`).
//! - Names keep their case and are found without regard to it (`plan::query_text`).
//! - Every error gives its position in the statement, if that can be known (`error`).
//!
//! The path of a statement: `engine` asks `parse` for its kind; tables are changed by `ddl`, their
//! rows by `dml` and `copy`, and shown by `show`; a query is planned by `plan`, reads through
//! `scan`, and is stopped by `control`. Meanwhile `activity` lists it, and other sessions can
//! cancel it. Not here: storing rows (`storage`), importing them (`ingest`), the wire (`server`).

#![forbid(unsafe_code)]

mod limits;
mod names;
mod position;
mod cancel;
mod role;
mod options;
mod error;
mod answer;
mod account;
mod value_bytes;
mod memory;
mod spill;
mod oid;
mod parse;
mod types;
mod sql;
mod operators;
mod functions;
mod slices;
mod control;
mod scan;
mod timeseries;
mod changes;
mod session;
mod advisory_locks;
mod transaction_buffer;
mod bulk;
mod host;
mod rights;
mod numbers;
mod activity;
mod system;
mod engine_functions;
mod catalog;
mod show;
mod plan;
mod table_schema;
mod dml;
mod ddl;
mod engine;
mod copy;

pub use crate::answer::Answer;
pub use crate::cancel::{CancelReason, Canceler, Timeout};
pub use crate::error::BulkError;
pub use crate::limits::{FILL_ROWS_MAX, SPILL_MAX};
pub use crate::options::EngineOptions;
pub use crate::parse::copy_options::{CopyFormat, CopyHeader, CopyOptions, CopyPolicy, Placed};
pub use crate::parse::statement::session::{is_cancel, is_copy};
pub use crate::position::Position;
pub use crate::role::Role;
pub use crate::session::StatementOptions;
pub use crate::transaction_buffer::KeptRows;
pub use crate::types::interval_text::IntervalText;
pub use bulk::{
    BulkExport, BulkFile, BulkImport, BulkIo, BulkJob, BulkOutcome, BulkProgress, BulkResult,
    BulkSink,
};
pub use catalog::parse_list;
pub use copy::CopyStream;
pub use datafusion::execution::SendableRecordBatchStream;
pub use engine::{CachedAnswer, Described, Engine};
pub use error::{
    ClauseProblem, Condition, Error, PatternProblem, Result, SettingProblem, SyntaxError,
    TextProblem, ViewProblem,
};
pub use host::{ConfigEntry, Host, LineConnection, MemoryUse};
pub use memory::STACK_BYTES;
pub use parse::{
    TableDefinition, Token, TokenKind, first_token, next_token, parse_column_type,
    parse_create_table, split_statements, tokenize,
};
pub use plan::Parameter;
pub use rights::Deed;
pub use session::{Access, Origin, Session};
