//! What of an engine its own statements can see and do: functions and SHOW ask here.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use tidegate_storage::Database;

use crate::activity::Activity;
use crate::bulk::BulkIo;
use crate::catalog::Locks;
use crate::control::Timeout;
use crate::host::Host;
use crate::memory::{Shape, UserMemories};
use crate::numbers::Numbers;
use crate::session::Session;

/// An engine, for its statements.
#[derive(Debug, Clone)]
pub(crate) struct System {
    pub(crate) database: Arc<Database>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) host: Arc<dyn Host>,
    /// Who reads and writes files.
    pub(crate) bulk: Arc<dyn BulkIo>,
    /// With the memory of all queries, and what they spill.
    pub(crate) runtime: Arc<RuntimeEnv>,
    /// How long statements may work for which nothing else is said.
    pub(crate) timeout: Timeout,
    /// How long they may work, whatever is said.
    pub(crate) timeout_max: Timeout,
    /// What one statement may have of the memory (ME3).
    pub(crate) statement_memory: Shape,
    /// What those of each user have of it together (ME5).
    pub(crate) user_memory: Arc<UserMemories>,
    /// Locks that clients agree on.
    pub(crate) locks: Arc<Locks>,
    /// The numbers that columns are filled with.
    pub(crate) numbers: Arc<Numbers>,
    /// Rows that a FILL may make.
    pub(crate) fill_rows_max: u64,
}

/// An engine, for the statements of one session.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) system: Arc<System>,
    pub(crate) session: Session,
}

impl Caller {
    /// Who has a statement done.
    pub(crate) fn of(state: &SessionState) -> Arc<Caller> {
        state.config().get_extension().expect("the engine puts it into the state of a statement")
    }
}
