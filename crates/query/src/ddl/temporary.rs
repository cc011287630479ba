//! DDL on temporary tables, which only their session sees, and DDL in transactions.
//!
//! - DDL within a transaction is part of it; a statement that would be a commit by itself is
//!   refused.
//! - A temporary table hides a table of the same name.

use std::sync::Arc;

use tidegate_model::Schema;
use tidegate_storage::Error as StorageError;

use super::views::Dropped;
use super::{Definer, schema_like};
use crate::answer::Done;
use crate::changes::{Changes, TemporaryTable};
use crate::error::{Error, Result, ViewProblem};
use crate::parse::create::OnCommit;
use crate::parse::statement::alter::TableChange;
use crate::parse::statement::copy::{Copy, CopyPlace};
use crate::parse::statement::views::Readers;
use crate::parse::{Name, RowChange, Statement};
use crate::position::Position;
use crate::session::Session;
use crate::table_schema::schema_of;

/// Executes a statement on temporary tables; `None` if it is on others.
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
            let schema = schema_like(&definer.snapshot(like)?.schema)?;
            let made = Made { name: &name.text, schema, on_commit };
            create(definer, made, *if_not_exists, Vec::new()).map(Some)
        }
        Statement::DropTables { names, if_exists, readers } => {
            let dropped = Dropped { names, if_exists: *if_exists, readers: *readers };
            drop_all(definer, &dropped, DropKind::Table)
        }
        Statement::DropViews { names, if_exists, readers } => {
            let dropped = Dropped { names, if_exists: *if_exists, readers: *readers };
            drop_all(definer, &dropped, DropKind::View)
        }
        Statement::AlterTable { table, change, .. } if definer.is_temporary(table) => {
            check_alter(sql, table, change).map(|()| None)
        }
        Statement::RenameTable { table, to, .. } => rename(definer.session, table, to),
        _ => Ok(None),
    }
}

/// Refuses the changes that only tables on disk have.
fn check_alter(sql: &str, table: &Name, change: &TableChange) -> Result<()> {
    let feature = match change {
        TableChange::DropPartitions { .. } => "DROP PARTITION of a temporary table",
        TableChange::DedupKeys { .. } => "DEDUP of a temporary table that is there",
        _ => return Ok(()),
    };
    Err(unsupported(sql, table, feature))
}

fn rename(session: &Session, table: &Name, to: &str) -> Result<Option<Done>> {
    let mut changes = session.changes();
    let Some(own) = changes.named(table).map(Arc::clone) else { return Ok(None) };
    changes.rename_temporary(&own, to)?;
    session.install(changes);
    Ok(Some(Done::new("RENAME TABLE")))
}

fn unsupported(sql: &str, table: &Name, feature: &'static str) -> Error {
    Error::NotSupported { position: Some(Position::at(sql, table.offset)), feature }
}

/// A temporary table that is to be created.
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

/// The kind of a DROP.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DropKind {
    Table,
    View,
}

impl DropKind {
    /// The tag of the statement.
    fn tag(self) -> &'static str {
        match self {
            DropKind::Table => "DROP TABLE",
            DropKind::View => "DROP VIEW",
        }
    }

    /// The word for the object.
    fn object(self) -> &'static str {
        match self {
            DropKind::Table => "table",
            DropKind::View => "view",
        }
    }
}

/// Drops tables or views, if some of them are temporary. Other views of the session that read them
/// stay, as those of the database do, unless CASCADE is given.
fn drop_all(definer: Definer<'_>, dropped: &Dropped<'_>, kind: DropKind) -> Result<Option<Done>> {
    let mut changes = definer.session.changes();
    let Dropped { names, if_exists, readers } = dropped;
    if names.iter().all(|name| changes.named(name).is_none()) {
        return Ok(None);
    }
    let mut done = Done::new(kind.tag());
    for name in *names {
        if let Some(own) = changes.named(name).map(Arc::clone) {
            match (own.is_view(), kind) {
                (true, DropKind::Table) => {
                    return Err(StorageError::IsView { view: own.name.clone() }.into());
                }
                (false, DropKind::View) => {
                    return Err(StorageError::NotAView { table: own.name.clone() }.into());
                }
                _ => {}
            }
            drop_own(&mut changes, &mut done, &own, *readers)?;
            continue;
        }
        if definer.visible().table_id(&name.text).is_some() {
            // All or none, which two kinds of tables cannot be.
            return Err(Error::InTransaction {
                position: None,
                statement: "dropping temporary tables and views together with others",
                instead: "drop them one by one",
            });
        }
        if !if_exists {
            return Err(StorageError::NoSuchTable { table: name.text.clone() }.into());
        }
        done.notices.push(format!("{} `{}` does not exist", kind.object(), name.text));
    }
    definer.session.install(changes);
    Ok(Some(done))
}

/// Drops a temporary table or view, and what `readers` says of its views that read it.
fn drop_own(
    changes: &mut Changes,
    done: &mut Done,
    own: &TemporaryTable,
    readers: Readers,
) -> Result<()> {
    changes.drop_table(own);
    let reads = |view: &&Arc<TemporaryTable>| {
        let view = view.schema.view();
        view.is_some_and(|view| view.reads.iter().any(|read| read.table == own.id))
    };
    let reading = changes.temporary_tables().filter(reads).map(Arc::clone).collect::<Vec<_>>();
    for view in reading {
        match readers {
            Readers::AreDropped => {
                done.notices.push(format!("drop cascades to view `{}`", view.name));
                drop_own(changes, done, &view, readers)?;
            }
            Readers::Forbid => {
                let what = ViewProblem::ReadsDropped { table: own.name.clone() };
                return Err(Error::View { view: view.name.clone(), what });
            }
            Readers::Stay => {
                let (view, read) = (&view.name, &own.name);
                let notice = format!("view `{view}` reads `{read}`, and cannot be read without it");
                done.notices.push(notice);
            }
        }
    }
    Ok(())
}

/// Refuses a temporary table in a session that would end with its statement.
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

/// Refuses a statement that cannot be part of the open transaction, if there is one.
pub(crate) fn check_in_transaction(
    session: &Session,
    sql: &str,
    statement: &Statement,
) -> Result<()> {
    if let Statement::Copy(copy) = statement
        && let Copy::Import { table, from: CopyPlace::File(_), .. } = copy.as_ref()
        && session.own_changes().is_some_and(|seen| seen.named(table).is_some())
    {
        return Err(unsupported(sql, table, "COPY FROM a file into a temporary table"));
    }
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
