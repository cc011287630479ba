//! Statements about temporary tables, which only their session has.
//!
//! - DP1. Within a transaction, what changes tables is part of it; what would be a commit by itself
//!   is refused.
//! - DP2. A temporary table stands before a table of the same name.

use tidegate_model::{Schema, SchemaError};
use tidegate_storage::Error as StorageError;

use super::{Definer, schema_like, schema_of};
use crate::changes::OnCommit;
use crate::engine::Done;
use crate::error::{Error, Result};
use crate::parse::{Copy, CopyPlace, Name, Position, RowChange, Statement, TableChange};
use crate::session::Session;

/// Does a statement that is about temporary tables; `None` if it is about others.
pub(super) fn change(
    definer: Definer<'_>,
    sql: &str,
    statement: &Statement,
) -> Result<Option<Done>> {
    match statement {
        Statement::CreateTable(definition) => {
            let Some(on_commit) = definition.temporary else { return Ok(None) };
            let schema = schema_of(sql, definition)?;
            let made = Made { name: &definition.name, schema, on_commit };
            create(definer, made, definition.if_not_exists, definition.notices.clone()).map(Some)
        }
        Statement::CreateTableLike { name, if_not_exists, temporary, like } => {
            let Some(on_commit) = *temporary else { return Ok(None) };
            let schema = schema_like(&definer.snapshot(&like.text)?.schema)?;
            let made = Made { name: &name.text, schema, on_commit };
            create(definer, made, *if_not_exists, Vec::new()).map(Some)
        }
        Statement::DropTables { names, if_exists, .. } => drop_tables(definer, names, *if_exists),
        Statement::AlterTable { table, change, notices } => {
            let seen = definer.session.seen();
            let Some(temporary) = seen.as_ref().and_then(|it| it.find(&table.text)) else {
                return Ok(None);
            };
            let TableChange::Nothing { column } = change else {
                return Err(unsupported(sql, table, "ALTER TABLE of a temporary table"));
            };
            if let Some(Name { text: name, .. }) = column
                && temporary.schema.find(name).is_none()
            {
                let error = SchemaError::NoSuchColumn { name: name.clone() };
                return Err(StorageError::Schema(error).into());
            }
            Ok(Some(Done::with_notices("ALTER TABLE", notices.clone())))
        }
        Statement::RenameTable { table, .. } => {
            match definer.session.seen().is_some_and(|it| it.find(&table.text).is_some()) {
                true => Err(unsupported(sql, table, "RENAME TABLE of a temporary table")),
                false => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

fn unsupported(sql: &str, table: &Name, feature: &'static str) -> Error {
    Error::NotSupported { position: Some(Position::at(sql, table.offset)), feature }
}

/// A temporary table that is to be made.
struct Made<'a> {
    name: &'a str,
    schema: Schema,
    on_commit: OnCommit,
}

fn create(
    definer: Definer<'_>,
    made: Made<'_>,
    if_not_exists: bool,
    mut notices: Vec<String>,
) -> Result<Done> {
    let Made { name, schema, on_commit } = made;
    let mut changes = definer.session.changes();
    match changes.create_temporary(name, schema, on_commit) {
        Ok(_) => definer.session.install(changes),
        Err(Error::Storage(StorageError::TableExists { .. })) if if_not_exists => {
            notices = vec![format!("table `{name}` exists already")];
        }
        Err(error) => return Err(error),
    }
    Ok(Done::with_notices("CREATE TABLE", notices))
}

/// Drops tables of which some are temporary; `None` if none is.
fn drop_tables(definer: Definer<'_>, names: &[Name], if_exists: bool) -> Result<Option<Done>> {
    let mut changes = definer.session.changes();
    let is_temporary = |name: &&Name| changes.find(&name.text).is_some();
    let (temporary, others): (Vec<_>, Vec<_>) = names.iter().partition(is_temporary);
    if temporary.is_empty() {
        return Ok(None);
    }
    let visible = definer.visible();
    let mut done = Done::new("DROP TABLE");
    for name in others {
        if visible.table_id(&name.text).is_some() {
            // All or none, which two kinds of tables cannot be.
            let statement = "DROP TABLE of temporary tables together with others";
            let instead = "drop them one by one";
            return Err(Error::InTransaction { position: None, statement, instead });
        }
        if !if_exists {
            return Err(StorageError::NoSuchTable { table: name.text.clone() }.into());
        }
        done.notices.push(format!("table `{}` does not exist", name.text));
    }
    for name in temporary {
        changes.drop_table(&name.text);
    }
    definer.session.install(changes);
    Ok(Some(done))
}

/// Refuses a temporary table where it would end with its statement.
pub(crate) fn check_lasting(session: &Session, sql: &str, statement: &Statement) -> Result<()> {
    let temporary = match statement {
        Statement::CreateTable(table) => table.temporary,
        Statement::CreateTableAs(create) => create.table.temporary,
        Statement::CreateTableLike { temporary, .. } => *temporary,
        _ => None,
    };
    match temporary {
        Some(_) if !session.lasts() => {
            Err(Error::NoLastingSession { position: Position::at(sql, 0) })
        }
        _ => Ok(()),
    }
}

/// Refuses what can be no part of the open transaction, if one is (DP1).
pub(crate) fn check_in_transaction(
    session: &Session,
    sql: &str,
    statement: &Statement,
) -> Result<()> {
    if !session.is_in_transaction() {
        return Ok(());
    }
    let (name, statement) = match statement {
        Statement::ChangeRows(RowChange::DropPartitions(delete)) => {
            (&delete.target.table, "ALTER TABLE .. DROP PARTITION")
        }
        Statement::AlterTable { table, change: TableChange::DropPartitions { .. }, .. } => {
            (table, "ALTER TABLE .. DROP PARTITION")
        }
        Statement::Copy(copy) => match copy.as_ref() {
            Copy::Import { table, from: CopyPlace::File(_), .. } => (table, "COPY FROM a file"),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    let position = Some(Position::at(sql, name.offset));
    let instead = "it is committed by itself, so do it before BEGIN or after COMMIT";
    Err(Error::InTransaction { position, statement, instead })
}
