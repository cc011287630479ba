//! SQL on a database: DataFusion with our catalog, our scan and our statements.
//!
//! - Rows of a table come in time order, and are not sorted for it (`plan::order`).
//! - Only partitions, segments and rows whose time can matter are read (`scan`).
//! - Names keep their case and are found without regard to it (`plan::query_text`).
//! - Every error gives its position in the statement, if that can be known (`error`).
//!
//! The path of a statement: `engine` asks `parse` for its kind; tables are changed by `ddl`, their
//! rows by `dml` and `copy`, and shown by `system_tables`; a query is planned by `plan`, reads
//! through `scan`, and is stopped by `control`. Meanwhile `running_queries` lists it, and other
//! sessions can cancel it.
//!
//! The modules stand in the order of their layers: each uses those above it in this list.
//! Not here: storing rows (`storage`), importing them (`ingest`), the wire (`server`).

#![forbid(unsafe_code)]

#[macro_use]
mod delegate;
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
mod changes;
mod session;
mod advisory_locks;
mod transaction_buffer;
mod bulk;
mod server_info;
mod authorization;
mod numbers;
mod running_queries;
mod context;
mod engine_functions;
mod pg_catalog;
mod system_tables;
mod timeseries;
mod plan;
mod table_schema;
mod dml;
mod ddl;
mod engine;
mod copy;

pub use answer::Answer;
pub use authorization::Privilege;
pub use bulk::{
    BulkExport, BulkFile, BulkImport, BulkIo, BulkJob, BulkOutcome, BulkProgress, BulkResult,
    BulkSink,
};
pub use cancel::{CancelHandle, CancelReason, Timeout};
pub use copy::CopyStream;
pub use datafusion::execution::SendableRecordBatchStream;
pub use engine::{CachedAnswer, Described, Engine};
pub use error::BulkError;
pub use error::{
    ClauseProblem, Condition, Error, PatternProblem, Result, SettingProblem, SyntaxError,
    TextProblem, ViewProblem,
};
pub use limits::{FILL_ROWS_MAX, SPILL_MAX};
pub use memory::STACK_BYTES;
pub use options::EngineOptions;
pub use parse::copy_options::{CopyFormat, CopyHeader, CopyOptions, CopyPolicy, Placed};
pub use parse::statement::session::{is_cancel, is_copy};
pub use parse::{
    TableDefinition, Token, TokenKind, first_token, next_token, parse_column_type,
    parse_create_table, split_statements, tokenize,
};
pub use pg_catalog::parse_list;
pub use plan::{Parameter, parameter_count};
pub use position::Position;
pub use role::Role;
pub use server_info::{ConfigEntry, LineConnection, MemoryUse, ServerInfo};
pub use session::StatementOptions;
pub use session::{Access, Origin, Session};
pub use transaction_buffer::CopyBuffer;
pub use types::interval_text::IntervalText;
