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

mod error;
mod session;
mod changes;
mod rights;
mod control;
mod account;
mod pass_through;
mod slices;
mod activity;
mod parse;
mod plan;
mod timeseries;
mod scan;
mod ddl;
mod dml;
mod host;
mod bulk;
mod system;
mod numbers;
mod show;
mod catalog;
mod memory;
mod spill;
mod engine;
mod copy;

pub use bulk::{
    BulkError, BulkExport, BulkFile, BulkImport, BulkIo, BulkJob, BulkOutcome, BulkProgress,
    BulkResult, BulkSink, CopyFormat, CopyHeader, CopyOptions, CopyPolicy, Placed,
};
pub use catalog::parse_list;
pub use control::{CancelReason, Canceler, StatementOptions, Timeout};
pub use copy::CopyStream;
pub use datafusion::execution::SendableRecordBatchStream;
pub use dml::KeptRows;
pub use engine::{
    Answer, CachedAnswer, Described, Engine, EngineOptions, FILL_ROWS_MAX, SPILL_MAX,
};
pub use error::{
    ClauseProblem, Condition, Error, PatternProblem, Result, SettingProblem, SyntaxError,
    TextProblem, ViewProblem,
};
pub use host::{ConfigEntry, Host, LineConnection, MemoryUse};
pub use memory::STACK_BYTES;
pub use parse::{
    Position, TableDefinition, Token, TokenKind, first_token, is_cancel, is_copy, next_token,
    parse_column_type, parse_create_table, split_statements, tokenize,
};
pub use plan::{IntervalText, Parameter};
pub use rights::{Deed, Role};
pub use session::{Access, Origin, Session};
