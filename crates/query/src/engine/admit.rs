//! The check of a statement's privilege, before the engine executes it (authorization-1).

use crate::authorization::Privilege;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::parse::Statement;
use crate::session::Session;

impl Engine {
    /// Checks that a session may execute a statement, and returns the privilege that it needs.
    pub(crate) fn admit(
        &self,
        session: &Session,
        statement: &Statement,
        sql: &str,
    ) -> Result<Privilege> {
        let privilege = match statement {
            // A writer may drop temporary tables of its own session.
            Statement::DropTables { names, .. } if session.has_temporary(names) => {
                Privilege::Write("DROP TABLE")
            }
            Statement::DropViews { names, .. } if session.has_temporary(names) => {
                Privilege::Write("DROP VIEW")
            }
            Statement::TruncateTable { table, .. } if session.has_temporary([table]) => {
                Privilege::Write("TRUNCATE TABLE")
            }
            statement => Privilege::of(statement),
        };
        let admitted = session.allow(privilege);
        if admitted.is_err() {
            self.audit(session, privilege, sql, admitted.as_ref().err());
        }
        admitted.map(|()| privilege)
    }

    pub(crate) fn audit(
        &self,
        session: &Session,
        privilege: Privilege,
        sql: &str,
        error: Option<&Error>,
    ) {
        if privilege.is_audited() || matches!(error, Some(Error::Denied { .. })) {
            self.system().server_info.audit(session, sql, error);
        }
    }
}
