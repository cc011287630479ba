//! Authorization: roles, privileges, and the check of each statement.
//!
//! - authorization-1. This module alone decides, for every protocol: the engine calls it for each
//!   statement, and code that takes rows without a statement calls [`Session::allow`].
//! - Every kind of statement has a rule here: the `match` has no `_`.
//!
//! Not here: authentication (`server`).

use tidegate_model::is_system_table;

use crate::error::{Error, Result};
use crate::parse::rows::table_of;
use crate::parse::statement::copy::{Copy, CopyPlace};
use crate::parse::statement::views::CreateView;
use crate::parse::{CreateAs, Explain, Name, RowChange, Statement, TableDefinition};
use crate::role::Role;
use crate::session::Session;

/// The privilege that a statement needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Reads rows and settings, and cancels the user's own statements.
    Read,
    /// Adds, changes or removes rows.
    Write(&'static str),
    /// Creates, changes or drops tables.
    Define(&'static str),
    /// Reads or writes a file of the server.
    File(&'static str),
}

impl Privilege {
    /// Returns the privilege that a statement needs.
    pub(crate) fn of(statement: &Statement) -> Privilege {
        match statement {
            Statement::Query
            | Statement::Show(_)
            | Statement::Set { .. }
            | Statement::Cancel { .. }
            | Statement::Maintain { .. }
            | Statement::Explain(Explain { change: None, .. } | Explain { analyze: false, .. }) => {
                Privilege::Read
            }
            Statement::Explain(Explain { change: Some(change), .. })
            | Statement::ChangeRows(change) => match is_system_table(&table_of(change).text) {
                true => Privilege::Define("changing a table of the system"),
                false => Privilege::of_rows(change),
            },
            Statement::Copy(copy) => Privilege::of_copy(copy),
            Statement::CreateTable(TableDefinition { temporary: Some(_), .. })
            | Statement::CreateTableAs(CreateAs {
                table: TableDefinition { temporary: Some(_), .. },
                ..
            })
            | Statement::CreateTableLike { temporary: Some(_), .. } => {
                Privilege::Write("CREATE TEMPORARY TABLE")
            }
            Statement::CreateTable(_)
            | Statement::CreateTableAs(_)
            | Statement::CreateTableLike { .. } => Privilege::Define("CREATE TABLE"),
            Statement::CreateView(CreateView { is_temporary: true, .. }) => {
                Privilege::Write("CREATE TEMPORARY VIEW")
            }
            Statement::CreateView(_) => Privilege::Define("CREATE VIEW"),
            Statement::DropTables { .. } => Privilege::Define("DROP TABLE"),
            Statement::DropViews { .. } => Privilege::Define("DROP VIEW"),
            Statement::Comment(_) => Privilege::Define("COMMENT"),
            Statement::DropIndex => Privilege::Define("DROP INDEX"),
            Statement::Nothing { tag, .. } => Privilege::Define(tag),
            Statement::TruncateTable { .. } => Privilege::Define("TRUNCATE TABLE"),
            Statement::RenameTable { .. } => Privilege::Define("RENAME TABLE"),
            Statement::AlterTable { .. } => Privilege::Define("ALTER TABLE"),
        }
    }

    fn of_rows(change: &RowChange) -> Privilege {
        match change {
            RowChange::Insert(_) => Privilege::Write("INSERT"),
            RowChange::Update(_) => Privilege::Write("UPDATE"),
            RowChange::Delete(_) => Privilege::Write("DELETE"),
            RowChange::DropPartitions(_) => Privilege::Define("ALTER TABLE"),
        }
    }

    fn of_copy(copy: &Copy) -> Privilege {
        match copy {
            Copy::Import { from: CopyPlace::Connection { .. }, .. } => {
                Privilege::Write("COPY FROM")
            }
            Copy::Import { from: CopyPlace::File(_), .. } => Privilege::File("COPY FROM a file"),
            Copy::Export { to: CopyPlace::File(_), .. } => Privilege::File("COPY TO a file"),
            // CANCEL ends only jobs that the session reaches.
            Copy::Export { to: CopyPlace::Connection { .. }, .. } | Copy::Cancel { .. } => {
                Privilege::Read
            }
        }
    }

    /// Returns true if a role has this privilege (authorization-1).
    fn is_granted_to(self, role: Role) -> bool {
        match (role, self) {
            (Role::Admin, _) | (_, Privilege::Read) => true,
            (Role::Writer, Privilege::Write(_)) => true,
            (Role::Writer, Privilege::Define(_) | Privilege::File(_)) => false,
            (Role::Reader, Privilege::Write(_) | Privilege::Define(_) | Privilege::File(_)) => {
                false
            }
        }
    }

    /// Returns the name of the privilege for messages; `None` for reading.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Privilege::Read => None,
            Privilege::Write(name) | Privilege::Define(name) | Privilege::File(name) => Some(name),
        }
    }

    /// Returns true if each use of the privilege is written to the audit log.
    #[must_use]
    pub fn is_audited(self) -> bool {
        matches!(self, Privilege::Define(_) | Privilege::File(_))
    }
}

impl Session {
    /// Returns true if all names are those of temporary tables of the session.
    pub(crate) fn has_temporary<'n>(&self, names: impl IntoIterator<Item = &'n Name>) -> bool {
        let Some(own_changes) = self.own_changes() else { return false };
        let is_own = |name: &Name| own_changes.named(name).is_some();
        names.into_iter().all(is_own)
    }

    /// Checks that the session has a privilege (authorization-1).
    ///
    /// # Errors
    /// If its role does not have it.
    pub fn allow(&self, privilege: Privilege) -> Result<()> {
        let role = self.origin().role;
        match privilege.name().filter(|_| !privilege.is_granted_to(role)) {
            Some(privilege) => Err(Error::Denied { role: role.name(), privilege }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_statement;
    use crate::session::Origin;

    /// Checks the roles that may execute a statement.
    #[track_caller]
    fn check(sql: &str, expected: &[Role]) {
        let privilege = Privilege::of(&parse_statement(sql).unwrap());
        let may = |role: &Role| {
            let session = Session::new(Origin { role: *role, ..Origin::EMBEDDED });
            session.allow(privilege).is_ok()
        };
        let allowed = Role::ALL.into_iter().filter(may).collect::<Vec<_>>();
        assert_eq!(allowed, expected, "authorization-1: {sql}");
    }

    #[test]
    fn each_role_is_allowed_its_statements_and_no_others() {
        for sql in [
            "SELECT 1",
            "SHOW TABLES",
            "SET statement_timeout = 5",
            "EXPLAIN DELETE FROM t",
            "EXPLAIN ANALYZE SELECT 1",
            "COPY t TO STDOUT",
            "COPY (SELECT 1) TO STDOUT",
            "CANCEL QUERY 1",
        ] {
            check(sql, &Role::ALL);
        }
        for sql in [
            "INSERT INTO t VALUES (1)",
            "UPDATE t SET a = 1",
            "DELETE FROM t",
            "EXPLAIN ANALYZE DELETE FROM t",
            "COPY t FROM STDIN",
            "CREATE TEMP TABLE t (a INT)",
            "CREATE TEMPORARY TABLE t AS SELECT 1 a",
            "CREATE TABLE pg_temp.t (LIKE u)",
            "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
        ] {
            check(sql, &[Role::Admin, Role::Writer]);
        }
        for sql in [
            "CREATE TABLE t (a INT)",
            "CREATE TABLE t AS (SELECT 1 a)",
            "CREATE TABLE t (LIKE u)",
            "CREATE VIEW v AS SELECT 1",
            "CREATE OR REPLACE VIEW v AS SELECT 1",
            "DROP VIEW v",
            "ALTER VIEW v RENAME TO w",
            "COMMENT ON TABLE t IS 'a'",
            "DROP TABLE t",
            "TRUNCATE TABLE t",
            "RENAME TABLE t TO u",
            "ALTER TABLE t ADD COLUMN b INT",
            "ALTER TABLE t DROP PARTITION WHERE ts < '2025'",
            "REINDEX TABLE t",
            "COPY t FROM 'a.csv'",
            "COPY t TO 'a.csv' WITH (FORMAT csv)",
        ] {
            check(sql, &[Role::Admin]);
        }
    }

    #[test]
    fn roles_have_names() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.name()), Some(role));
        }
        assert_eq!(Role::parse("Admin"), None);
    }
}
