//! The engine as its own statements see it: functions and SHOW read and act through it.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use tidegate_storage::{Database, Error as StorageError, Snapshot, VisibleTables};

use crate::advisory_locks::Locks;
use crate::bulk::BulkIo;
use crate::cancel::Timeout;
use crate::error::Result;
use crate::memory::{Shape, UncommittedMemory, UserMemories};
use crate::numbers::Numbers;
use crate::running_queries::RunningQueries;
use crate::server_info::{ConfigEntry, ServerInfo};
use crate::session::Session;
use crate::spill::SpillFiles;

/// An engine, for its statements.
#[derive(Debug, Clone)]
pub(crate) struct EngineContext {
    pub(crate) database: Arc<Database>,
    pub(crate) running_queries: Arc<RunningQueries>,
    pub(crate) server_info: Arc<dyn ServerInfo>,
    /// The reader and writer of files.
    pub(crate) bulk: Arc<dyn BulkIo>,
    /// The memory pool of all queries, and their spill files.
    pub(crate) runtime: Arc<RuntimeEnv>,
    pub(crate) spill: Arc<SpillFiles>,
    /// The timeout of statements that set none.
    pub(crate) timeout: Timeout,
    /// The maximal timeout of statements.
    pub(crate) timeout_max: Timeout,
    /// The memory limit of one statement (memory-7).
    pub(crate) statement_memory: Shape,
    /// The memory limit of all statements of each user together (memory-4).
    pub(crate) user_memory: Arc<UserMemories>,
    /// The memory of uncommitted rows and temporary tables (memory-6).
    pub(crate) uncommitted: Arc<UncommittedMemory>,
    /// Advisory locks.
    pub(crate) locks: Arc<Locks>,
    /// The number sequences of identity columns.
    pub(crate) numbers: Arc<Numbers>,
    /// The maximal number of rows that a FILL makes.
    pub(crate) fill_rows_max: u64,
}

/// An engine and a session, for the statements of that session.
#[derive(Debug, Clone)]
pub(crate) struct StatementContext {
    pub(crate) system: Arc<EngineContext>,
    pub(crate) session: Session,
}

impl StatementContext {
    /// Returns the caller of a statement.
    pub(crate) fn of(state: &SessionState) -> Arc<StatementContext> {
        state.config().get_extension().expect("the engine puts it into the state of a statement")
    }
}

/// Returns the table that a text names: `t`, or `public.t` if there is no table of the whole name.
pub(crate) fn named(visible: &VisibleTables<'_>, name: &str) -> Result<Arc<Snapshot>> {
    match (visible.snapshot(name), name.split_once('.')) {
        (Err(StorageError::NoSuchTable { .. }), Some((schema, table)))
            if schema.eq_ignore_ascii_case("public") =>
        {
            Ok(visible.snapshot(table)?)
        }
        (found, _) => Ok(found?),
    }
}

/// The text in place of a sensitive value.
const HIDDEN: &str = "****";

/// Returns the shown value of a key of the configuration.
pub(crate) fn shown_value(entry: &ConfigEntry) -> String {
    if entry.is_sensitive { HIDDEN.to_owned() } else { entry.value.clone() }
}

/// Returns the value of a key of the configuration, with its name.
pub(crate) fn parameter(system: &EngineContext, name: &str) -> Option<(String, String)> {
    let all = system.server_info.parameters();
    let found = all.iter().find(|it| it.property_path.eq_ignore_ascii_case(name))?;
    Some((found.property_path.clone(), shown_value(found)))
}
