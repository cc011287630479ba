//! The check of a statement's privilege, before the engine executes it (`rights` RT1).

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::parse::Statement;
use crate::rights::Deed;
use crate::session::Session;

impl Engine {
    /// Checks that a session may execute a statement, and returns the privilege that it needs.
    pub(crate) fn admit(
        &self,
        session: &Session,
        statement: &Statement,
        sql: &str,
    ) -> Result<Deed> {
        let deed = match statement {
            // A writer may drop temporary tables of its own session.
            Statement::DropTables { names, .. } if session.has_temporary(names) => {
                Deed::Write("DROP TABLE")
            }
            Statement::DropViews { names, .. } if session.has_temporary(names) => {
                Deed::Write("DROP VIEW")
            }
            Statement::TruncateTable { table, .. } if session.has_temporary([table]) => {
                Deed::Write("TRUNCATE TABLE")
            }
            statement => Deed::of(statement),
        };
        let admitted = session.allow(deed);
        if admitted.is_err() {
            self.audit(session, (deed, sql), admitted.as_ref().err());
        }
        admitted.map(|()| deed)
    }

    pub(crate) fn audit(
        &self,
        session: &Session,
        (deed, sql): (Deed, &str),
        error: Option<&Error>,
    ) {
        if deed.is_audited() || matches!(error, Some(Error::Denied { .. })) {
            self.system().host.audit(session, sql, error);
        }
    }
}
