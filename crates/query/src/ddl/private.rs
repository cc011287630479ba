//! Statements about tables that only their session has: temporary ones, and those that a
//! transaction makes.
//!
//! - DP1. Within a transaction a table is made, and its rows change. What else changes tables that
//!   others see is a commit by itself: it commits what the transaction has done before it, says
//!   so, and the transaction goes on behind it. Tools alter and swap tables in transactions.
//! - DP2. A table that its transaction has made, or that is temporary, may be dropped there.

use std::sync::Arc;

use tidegate_model::{Schema, SchemaError};
use tidegate_storage::{Database, Error as StorageError};

use super::{schema_like, schema_of};
use crate::changes::{Changes, OnCommit};
use crate::engine::Done;
use crate::error::{Error, Result};
use crate::parse::{Copy, CopyPlace, Name, Position, RowChange, Statement, TableChange};
use crate::session::Session;

/// Does a statement that is about tables of a session; `None` if it is about those that all have.
pub(super) fn change(
    (database, session): (&Arc<Database>, &Session),
    sql: &str,
    statement: &Statement,
) -> Result<Option<Done>> {
    match statement {
        Statement::CreateTable(definition) => {
            let temporary = definition.temporary;
            if temporary.is_none() && !session.is_in_transaction() {
                return Ok(None);
            }
            let schema = schema_of(sql, definition)?;
            let (name, notices) = (definition.name.as_str(), definition.notices.clone());
            let made = Made { name, if_not_exists: definition.if_not_exists, temporary };
            create((database, session), made, schema, notices).map(Some)
        }
        Statement::CreateTableLike { name, if_not_exists, temporary, like } => {
            let seen = session.seen();
            let of_session = seen.as_ref().and_then(|it| it.find(&like.text));
            if temporary.is_none() && of_session.is_none() && !session.is_in_transaction() {
                return Ok(None);
            }
            let schema = match of_session {
                Some(table) => schema_like(&table.schema)?,
                None => schema_like(&database.snapshot(&like.text)?.schema)?,
            };
            let made =
                Made { name: &name.text, if_not_exists: *if_not_exists, temporary: *temporary };
            create((database, session), made, schema, Vec::new()).map(Some)
        }
        Statement::DropTables { names, if_exists, .. } => {
            drop_tables((database, session), names, *if_exists)
        }
        Statement::AlterTable { table, change, notices } => {
            let seen = session.seen();
            let Some(private) = seen.as_ref().and_then(|it| it.find(&table.text)) else {
                return Ok(None);
            };
            let TableChange::Nothing { column } = change else {
                let feature = "ALTER TABLE of a table that only its session has";
                let position = Some(Position::at(sql, table.offset));
                return Err(Error::NotSupported { position, feature });
            };
            if let Some(Name { text: name, .. }) = column
                && private.schema.find(name).is_none()
            {
                let error = SchemaError::NoSuchColumn { name: name.clone() };
                return Err(StorageError::Schema(error).into());
            }
            Ok(Some(Done::with_notices("ALTER TABLE", notices.clone())))
        }
        Statement::RenameTable { table, .. } => {
            let seen = session.seen();
            match seen.as_ref().and_then(|it| it.find(&table.text)) {
                Some(_) => {
                    let feature = "RENAME TABLE of a table that only its session has";
                    let position = Some(Position::at(sql, table.offset));
                    Err(Error::NotSupported { position, feature })
                }
                None => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// A table that is to be made.
struct Made<'a> {
    name: &'a str,
    if_not_exists: bool,
    temporary: Option<OnCommit>,
}

fn create(
    (database, session): (&Database, &Session),
    made: Made<'_>,
    schema: Schema,
    mut notices: Vec<String>,
) -> Result<Done> {
    let Made { name, if_not_exists, temporary } = made;
    let mut changes = session.changes();
    match make_private((database, &mut changes), name, schema, temporary) {
        Ok(()) => session.install(changes),
        Err(Error::Storage(StorageError::TableExists { .. })) if if_not_exists => {
            notices = vec![format!("table `{name}` exists already")];
        }
        Err(error) => return Err(error),
    }
    Ok(Done::with_notices("CREATE TABLE", notices))
}

/// Makes a table that only the session has, for ever or until COMMIT.
pub(crate) fn make_private(
    (database, changes): (&Database, &mut Changes),
    name: &str,
    schema: Schema,
    temporary: Option<OnCommit>,
) -> Result<()> {
    let known = changes.find(name);
    let exists = match temporary {
        Some(_) => known.is_some_and(|table| table.is_temporary()),
        None => known.is_some_and(|it| !it.is_temporary()) || database.table_id(name).is_some(),
    };
    if exists {
        return Err(StorageError::TableExists { table: name.to_owned() }.into());
    }
    tidegate_storage::catalog::check_name(name.strip_prefix("pg_temp.").unwrap_or(name))?;
    match temporary {
        Some(on_commit) => changes.create_temporary(name, schema, on_commit),
        None => changes.create(name, schema),
    }
    .map(drop)
}

fn drop_tables(
    (database, session): (&Database, &Session),
    names: &[Name],
    if_exists: bool,
) -> Result<Option<Done>> {
    let mut changes = session.changes();
    let of_session = names.iter().filter(|name| changes.find(&name.text).is_some()).count();
    if of_session == 0 {
        return Ok(None);
    }
    let mut done = Done::new("DROP TABLE");
    for name in names {
        if changes.drop_private(&name.text) {
            continue;
        }
        if database.table_id(&name.text).is_some() {
            // All or none, which two kinds of tables cannot be.
            return Err(Error::InTransaction {
                position: None,
                statement: "DROP TABLE of tables that others see together with those that only \
                            this session has",
                instead: "drop them one by one",
            });
        }
        if !if_exists {
            return Err(StorageError::NoSuchTable { table: name.text.clone() }.into());
        }
        done.notices.push(format!("table `{}` does not exist", name.text));
    }
    session.install(changes);
    Ok(Some(done))
}

/// What commits the open transaction up to itself (DP1).
pub(crate) fn committing(
    (database, session): (&Database, &Session),
    statement: &Statement,
) -> Option<&'static str> {
    let seen = session.seen();
    let private = |name: &Name| seen.as_ref().and_then(|it| it.find(&name.text));
    let lasts = |name: &Name| private(name).is_none_or(|table| !table.is_temporary());
    match statement {
        Statement::ChangeRows(RowChange::DropPartitions(delete)) => {
            lasts(&delete.target.table).then_some("ALTER TABLE .. DROP PARTITION")
        }
        Statement::DropTables { names, .. } => {
            let of_all =
                |name: &Name| private(name).is_none() && database.table_id(&name.text).is_some();
            names.iter().any(of_all).then_some("DROP TABLE")
        }
        Statement::RenameTable { table, .. } => lasts(table).then_some("RENAME TABLE"),
        Statement::AlterTable { change: TableChange::Nothing { .. }, .. } => None,
        Statement::AlterTable { table, .. } => lasts(table).then_some("ALTER TABLE"),
        Statement::CreateView(_) => Some("CREATE VIEW"),
        Statement::DropViews { .. } => Some("DROP VIEW"),
        Statement::Comment(_) => Some("COMMENT"),
        _ => None,
    }
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
    let Statement::Copy(copy) = statement else { return Ok(()) };
    let Copy::Import { table, from: CopyPlace::File(_), .. } = copy.as_ref() else { return Ok(()) };
    let is_private = session.seen().is_some_and(|seen| seen.find(&table.text).is_some());
    if is_private || !session.is_in_transaction() {
        return Ok(());
    }
    let position = Some(Position::at(sql, table.offset));
    let instead = "it is committed by itself, so do it before BEGIN or after COMMIT";
    Err(Error::InTransaction { position, statement: "COPY FROM a file", instead })
}
