//! The interface through which statements show the state of the program that runs the engine, such
//! as the configuration and the connections of a server.
//!
//! The program implements it, and the engine calls it when a statement asks for that state.

use std::fmt;

use crate::error::Error;
use crate::session::Session;

/// A program that runs an engine.
pub trait ServerInfo: fmt::Debug + Send + Sync {
    /// The configuration, for `SHOW PARAMETERS`.
    fn parameters(&self) -> Vec<ConfigEntry>;

    /// The memory of each part of the program, besides queries and memtables, for
    /// `memory_metrics()`.
    fn memory(&self) -> Vec<MemoryUse>;

    /// Records in the audit log that a session has changed a table or used a file of the server,
    /// has tried to, or had no right to do something.
    fn audit(&self, _session: &Session, _sql: &str, _error: Option<&Error>) {}

    /// The clients connected by line protocol, for `ilp_connections()`.
    fn line_connections(&self) -> Vec<LineConnection>;

    /// Ends the connection of this number and its running statement; returns false if there is
    /// none.
    fn end_connection(&self, process: u32) -> bool {
        let _ = process;
        false
    }
}

/// A key of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The name, such as `http.listen`.
    pub property_path: String,
    /// The environment variable that sets it, if there is one.
    pub env_var_name: Option<String>,
    /// The value.
    pub value: String,
    /// The source of the value.
    pub value_source: &'static str,
    /// True for a secret, which is not shown.
    pub is_sensitive: bool,
    /// True if it can change without a restart.
    pub is_reloadable: bool,
}

/// An amount of memory, or a limit of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// The part of the program that has it.
    pub tag: &'static str,
    /// The amount, in bytes.
    pub bytes: u64,
}

/// A connection that sends line protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineConnection {
    /// The address of the client.
    pub peer: String,
    /// The name of the user, if authentication was required.
    pub user: Option<String>,
    /// The start of the connection, in microseconds since 1970.
    pub since: i64,
    /// Bytes received.
    pub bytes: u64,
    /// Rows that are durable.
    pub rows_committed: u64,
    /// Rows that were parsed and are not durable yet.
    pub rows_pending: u64,
    /// Lines and rows that were rejected.
    pub rows_rejected: u64,
    /// The error of the last rejected one.
    pub last_error: Option<String>,
}

/// A program without state to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoServerInfo;

impl ServerInfo for NoServerInfo {
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
