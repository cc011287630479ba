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

use super::views::Dropped;
use super::{schema_like, schema_of};
use crate::changes::{Changes, OnCommit, PrivateTable};
use crate::engine::Done;
use crate::error::{Error, Result, ViewProblem};
use crate::parse::{Copy, CopyPlace, Name, Position, Readers, RowChange, Statement, TableChange};
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
            let of_session = seen.as_ref().and_then(|it| it.named(like));
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
        Statement::DropTables { names, if_exists, readers } => {
            let dropped = Dropped { names, if_exists: *if_exists, readers: *readers };
            drop_all((database, session), &dropped, DROP_TABLE)
        }
        Statement::DropViews { names, if_exists, readers } => {
            let dropped = Dropped { names, if_exists: *if_exists, readers: *readers };
            drop_all((database, session), &dropped, DROP_VIEW)
        }
        Statement::Comment(comment) => {
            let seen = session.seen();
            match seen.as_ref().and_then(|it| it.named(&comment.table)) {
                Some(private) if private.is_temporary() => {
                    let feature = "COMMENT on a table that only its session has";
                    let position = Some(Position::at(sql, comment.table.offset));
                    Err(Error::NotSupported { position, feature })
                }
                _ => Ok(None),
            }
        }
        Statement::AlterTable { table, change, notices, .. } => {
            alter((session, sql), table, change, notices)
        }
        Statement::RenameTable { table, .. } => {
            let seen = session.seen();
            match seen.as_ref().and_then(|it| it.named(table)) {
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

/// An ALTER TABLE of a table of the session, which changes nothing.
fn alter(
    (session, sql): (&Session, &str),
    table: &Name,
    change: &TableChange,
    notices: &[String],
) -> Result<Option<Done>> {
    let seen = session.seen();
    let Some(private) = seen.as_ref().and_then(|it| it.named(table)) else {
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
    Ok(Some(Done::with_notices("ALTER TABLE", notices.to_vec())))
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
    match temporary {
        Some(on_commit) => changes.create_temporary(name, schema, on_commit),
        None => {
            tidegate_storage::catalog::check_name(name)?;
            Ok(changes.create(name, schema))
        }
    }
    .map(drop)
}

/// A kind of what is dropped: the tag of the statement, and the word for it.
type Kind = (&'static str, &'static str);

const DROP_TABLE: Kind = ("DROP TABLE", "table");
const DROP_VIEW: Kind = ("DROP VIEW", "view");

/// Drops tables or views, if some of them are those of the session (DP2). Others of its views that
/// read them stay, as those of the database do, unless CASCADE is said.
fn drop_all(
    (database, session): (&Database, &Session),
    dropped: &Dropped<'_>,
    (tag, kind): Kind,
) -> Result<Option<Done>> {
    let mut changes = session.changes();
    let Dropped { names, if_exists, readers } = dropped;
    if names.iter().all(|name| changes.named(name).is_none()) {
        return Ok(None);
    }
    let mut done = Done::new(tag);
    for name in *names {
        if let Some(private) = changes.named(name).map(Arc::clone) {
            match (private.is_view(), kind) {
                (true, "table") => {
                    return Err(StorageError::IsView { view: private.name.clone() }.into());
                }
                (false, "view") => {
                    return Err(StorageError::NotAView { table: private.name.clone() }.into());
                }
                _ => {}
            }
            drop_private((&mut changes, &mut done), &private, *readers)?;
            continue;
        }
        if database.table_id(&name.text).is_some() {
            // All or none, which two kinds of tables cannot be.
            return Err(Error::InTransaction {
                position: None,
                statement: "dropping what others see together with what only this session has",
                instead: "drop them one by one",
            });
        }
        if !if_exists {
            return Err(StorageError::NoSuchTable { table: name.text.clone() }.into());
        }
        done.notices.push(format!("{kind} `{}` does not exist", name.text));
    }
    session.install(changes);
    Ok(Some(done))
}

/// Drops a table or a view of the session, and what `readers` says of its views that read it.
fn drop_private(
    (changes, done): (&mut Changes, &mut Done),
    private: &PrivateTable,
    readers: Readers,
) -> Result<()> {
    changes.drop_private(private);
    let reads = |view: &&Arc<PrivateTable>| {
        let view = view.schema.view();
        view.is_some_and(|view| view.reads.iter().any(|read| read.table == private.id))
    };
    let reading = changes.private_tables().filter(reads).map(Arc::clone).collect::<Vec<_>>();
    for view in reading {
        match readers {
            Readers::AreDropped => {
                done.notices.push(format!("drop cascades to view `{}`", view.name));
                drop_private((changes, done), &view, readers)?;
            }
            Readers::Forbid => {
                let what = ViewProblem::Needed { table: private.name.clone() };
                return Err(Error::View { view: view.name.clone(), what });
            }
            Readers::Stay => {
                let (view, read) = (&view.name, &private.name);
                let notice = format!("view `{view}` reads `{read}`, and cannot be read without it");
                done.notices.push(notice);
            }
        }
    }
    Ok(())
}

/// What commits the open transaction up to itself (DP1).
pub(crate) fn committing(
    (database, session): (&Database, &Session),
    statement: &Statement,
) -> Option<&'static str> {
    let seen = session.seen();
    let private = |name: &Name| seen.as_ref().and_then(|it| it.named(name));
    let lasts = |name: &Name| private(name).is_none_or(|table| !table.is_temporary());
    let of_all = |name: &Name| private(name).is_none() && database.table_id(&name.text).is_some();
    match statement {
        Statement::ChangeRows(RowChange::DropPartitions(delete)) => {
            lasts(&delete.target.table).then_some("ALTER TABLE .. DROP PARTITION")
        }
        Statement::DropTables { names, .. } => names.iter().any(of_all).then_some("DROP TABLE"),
        Statement::DropViews { names, .. } => names.iter().any(of_all).then_some("DROP VIEW"),
        Statement::RenameTable { table, .. } => lasts(table).then_some("RENAME TABLE"),
        Statement::AlterTable { change: TableChange::Nothing { .. }, .. } => None,
        Statement::AlterTable { table, .. } => lasts(table).then_some("ALTER TABLE"),
        Statement::CreateView(create) => (!create.is_temporary).then_some("CREATE VIEW"),
        Statement::Comment(comment) => lasts(&comment.table).then_some("COMMENT"),
        _ => None,
    }
}

/// Refuses a temporary table where it would end with its statement.
pub(crate) fn check_lasting(session: &Session, sql: &str, statement: &Statement) -> Result<()> {
    let temporary = match statement {
        Statement::CreateTable(table) => table.temporary,
        Statement::CreateTableAs(create) => create.table.temporary,
        Statement::CreateTableLike { temporary, .. } => *temporary,
        Statement::CreateView(create) => create.is_temporary.then(OnCommit::default),
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
    let position = Some(Position::at(sql, table.offset));
    let seen = session.seen();
    if seen.as_ref().and_then(|seen| seen.named(table)).is_some_and(|it| it.is_temporary()) {
        let feature = "COPY FROM a file into a temporary table";
        return Err(Error::NotSupported { position, feature });
    }
    if !session.is_in_transaction() {
        return Ok(());
    }
    let instead = "it is committed by itself, so do it before BEGIN or after COMMIT";
    Err(Error::InTransaction { position, statement: "COPY FROM a file", instead })
}
