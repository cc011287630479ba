//! Statements that change tables, done.
//!
//! Each is one commit: it is durable and visible when it returns, or nothing has changed. What they
//! say is read by `parse`.

use std::sync::Arc;

use tidegate_model::{ColumnType, Schema};
use tidegate_storage::{Database, Error as StorageError};

use crate::engine::Done;
use crate::error::Result;
use crate::parse::{Name, Statement, TableChange, TableDefinition};

/// Does a statement; `None` if it changes no table. Waits for the disk.
pub(crate) fn execute(database: &Arc<Database>, statement: Statement) -> Result<Option<Done>> {
    let done = match statement {
        Statement::CreateTable(definition) => create_table(database, definition)?,
        Statement::DropTables { names, if_exists } => drop_tables(database, &names, if_exists)?,
        Statement::TruncateTable { table } => {
            database.truncate_table(&table.text)?;
            Done::new("TRUNCATE TABLE")
        }
        Statement::RenameTable { table, to } => {
            database.rename_table(&table.text, &to)?;
            Done::new("RENAME TABLE")
        }
        Statement::AlterTable { table, change, notices } => {
            alter_table(database, &table.text, change, notices)?
        }
        Statement::Show(_) | Statement::Explain(_) | Statement::Query => return Ok(None),
    };
    Ok(Some(done))
}

fn create_table(database: &Arc<Database>, definition: TableDefinition) -> Result<Done> {
    let TableDefinition {
        name, if_not_exists, columns, timestamp, partition_by, mut notices, ..
    } = definition;
    let schema = Schema::new(&columns, timestamp.as_deref(), partition_by)?;
    match database.create_table(&name, schema) {
        Ok(_) => {}
        Err(StorageError::TableExists { .. }) if if_not_exists => {
            notices = vec![format!("table `{name}` exists already")];
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Done { tag: "CREATE TABLE", notices })
}

fn drop_tables(database: &Arc<Database>, names: &[Name], if_exists: bool) -> Result<Done> {
    let mut done = Done::new("DROP TABLE");
    let mut wanted = Vec::with_capacity(names.len());
    for name in names {
        let is_missing = match database.snapshot(&name.text) {
            Err(StorageError::NoSuchTable { .. }) => true,
            // A damaged table can still be dropped.
            _ => false,
        };
        if is_missing && if_exists {
            done.notices.push(format!("table `{}` does not exist", name.text));
        } else {
            wanted.push(name.text.as_str());
        }
    }
    database.drop_tables(&wanted)?;
    Ok(done)
}

fn alter_table(
    database: &Arc<Database>,
    table: &str,
    change: TableChange,
    mut notices: Vec<String>,
) -> Result<Done> {
    match change {
        TableChange::AddColumns { columns, if_not_exists } => {
            let wanted = if if_not_exists {
                missing_columns(database, table, columns, &mut notices)?
            } else {
                columns
            };
            if !wanted.is_empty() {
                database.add_columns(table, &wanted)?;
            }
        }
        TableChange::DropColumns { names } => {
            let names = names.iter().map(|name| name.text.as_str()).collect::<Vec<_>>();
            database.drop_columns(table, &names)?;
        }
        TableChange::RenameColumn { column, to } => {
            database.rename_column(table, &column.text, &to)?;
        }
    }
    Ok(Done { tag: "ALTER TABLE", notices })
}

/// The columns that the table does not have yet.
fn missing_columns(
    database: &Arc<Database>,
    table: &str,
    columns: Vec<(String, ColumnType)>,
    notices: &mut Vec<String>,
) -> Result<Vec<(String, ColumnType)>> {
    let snapshot = database.snapshot(table)?;
    let (there, missing): (Vec<_>, Vec<_>) =
        columns.into_iter().partition(|(name, _)| snapshot.schema.find(name).is_some());
    notices.extend(there.iter().map(|(name, _)| format!("column `{name}` exists already")));
    Ok(missing)
}
