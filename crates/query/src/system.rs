//! The engine as its own statements see it: functions and SHOW read and act through it.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use tidegate_storage::Database;

use crate::activity::Activity;
use crate::bulk::BulkIo;
use crate::catalog::Locks;
use crate::control::Timeout;
use crate::host::Host;
use crate::memory::{Shape, UncommittedMemory, UserMemories};
use crate::numbers::Numbers;
use crate::session::Session;

/// An engine, for its statements.
#[derive(Debug, Clone)]
pub(crate) struct System {
    pub(crate) database: Arc<Database>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) host: Arc<dyn Host>,
    /// The reader and writer of files.
    pub(crate) bulk: Arc<dyn BulkIo>,
    /// The memory pool of all queries, and their spill files.
    pub(crate) runtime: Arc<RuntimeEnv>,
    /// The timeout of statements that set none.
    pub(crate) timeout: Timeout,
    /// The maximal timeout of statements.
    pub(crate) timeout_max: Timeout,
    /// The memory limit of one statement (ME3).
    pub(crate) statement_memory: Shape,
    /// The memory limit of all statements of each user together (ME5).
    pub(crate) user_memory: Arc<UserMemories>,
    /// The memory of uncommitted rows and temporary tables (ME7).
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
pub(crate) struct Caller {
    pub(crate) system: Arc<System>,
    pub(crate) session: Session,
}

impl Caller {
    /// Returns the caller of a statement.
    pub(crate) fn of(state: &SessionState) -> Arc<Caller> {
        state.config().get_extension().expect("the engine puts it into the state of a statement")
    }
}
