//! What a program that runs an engine lets its statements see of itself: a server its configuration
//! and its connections, say.
//!
//! The engine asks when a statement wants to know, and knows nothing of who answers.

use std::fmt;

use crate::error::Error;
use crate::session::Session;

/// A program that runs an engine.
pub trait Host: fmt::Debug + Send + Sync {
    /// Its configuration, for `SHOW PARAMETERS`.
    fn parameters(&self) -> Vec<ConfigEntry>;

    /// Who takes how much memory, besides queries and tails, for `memory_metrics()`.
    fn memory(&self) -> Vec<MemoryUse>;

    /// Somebody has changed a table or used a file of the server, has tried to, or had no right to
    /// do something.
    fn audit(&self, _session: &Session, _sql: &str, _error: Option<&Error>) {}

    /// Who is connected and sends lines, for `ilp_connections()`.
    fn line_connections(&self) -> Vec<LineConnection>;

    /// Ends the connection of this number, and what it works on; false if there is none.
    fn end_connection(&self, process: u32) -> bool {
        let _ = process;
        false
    }
}

/// A key of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name: `http.listen`.
    pub property_path: String,
    /// The variable of the environment that sets it, if one does.
    pub env_var_name: Option<String>,
    /// What it is.
    pub value: String,
    /// Who has said so.
    pub value_source: &'static str,
    /// Whether it is a secret, which is not shown.
    pub is_sensitive: bool,
    /// Whether it can change without a restart.
    pub is_reloadable: bool,
}

/// Memory, or a bound of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Whose.
    pub tag: &'static str,
    /// How much.
    pub bytes: u64,
}

/// A connection that lines come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineConnection {
    /// The other side.
    pub peer: String,
    /// Who it says to be, if it was asked.
    pub user: Option<String>,
    /// Since when, in microseconds since 1970.
    pub since: i64,
    /// Bytes that came.
    pub bytes: u64,
    /// Rows that are durable.
    pub rows_committed: u64,
    /// Rows that were read and are not.
    pub rows_pending: u64,
    /// Lines and rows that were not taken.
    pub rows_rejected: u64,
    /// Why the last of them was not.
    pub last_error: Option<String>,
}

/// A program with nothing to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoHost;

impl Host for NoHost {
    fn parameters(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }

    fn memory(&self) -> Vec<MemoryUse> {
        Vec::new()
    }

    fn line_connections(&self) -> Vec<LineConnection> {
        Vec::new()
    }
}
