//! Detects statements that change data, before they are executed.

use crate::parse::statement::copy::Copy;
use crate::parse::{RowChange, Statement};

/// The command name of a statement that changes data; `None` for all others.
pub(super) fn changing(statement: &Statement) -> Option<&'static str> {
    let of_rows = |change: &RowChange| match change {
        RowChange::Insert(_) => "INSERT",
        RowChange::Update(_) => "UPDATE",
        RowChange::Delete(_) => "DELETE",
        RowChange::DropPartitions(_) => "ALTER TABLE",
    };
    match statement {
        Statement::Query | Statement::Show(_) | Statement::Set { .. } => None,
        Statement::Cancel { .. } | Statement::Maintain { .. } | Statement::Nothing { .. } => None,
        Statement::Copy(copy) => matches!(**copy, Copy::Import { .. }).then_some("COPY"),
        Statement::Explain(how) => how.change.as_ref().filter(|_| how.analyze).map(of_rows),
        Statement::ChangeRows(change) => Some(of_rows(change)),
        Statement::CreateView(_) => Some("CREATE VIEW"),
        Statement::DropTables { .. } => Some("DROP TABLE"),
        Statement::DropViews { .. } => Some("DROP VIEW"),
        Statement::Comment(_) => Some("COMMENT"),
        Statement::DropIndex => Some("DROP INDEX"),
        Statement::TruncateTable { .. } => Some("TRUNCATE TABLE"),
        Statement::RenameTable { .. } => Some("RENAME TABLE"),
        Statement::AlterTable { .. } => Some("ALTER TABLE"),
        Statement::CreateTable(_)
        | Statement::CreateTableAs(_)
        | Statement::CreateTableLike { .. } => Some("CREATE TABLE"),
    }
}
