//! Executes CREATE VIEW, DROP TABLE, DROP VIEW and COMMENT, and finds the views that read a table.
//!
//! - All objects of a DROP go with one commit, and so do the views that CASCADE drops with them.
//! - Views that read a dropped object stay, unless the statement says otherwise: they can be read
//!   again when it is created anew. A notice names them.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use tidegate_model::{Schema, TableId};
use tidegate_storage::{Error as StorageError, Relations, SchemaEdit, TableDdl, VisibleTables};

use super::Definer;
use crate::answer::Done;
use crate::changes::TemporaryTable;
use crate::control::{finish_in_time, plan_spawned};
use crate::dml::RowChanges;
use crate::error::{Error, Result, ViewProblem};
use crate::parse::create::OnCommit;
use crate::parse::statement::views::{Comment, Commented, CreateView, IfExists, Readers};
use crate::parse::{Name, blanked};
use crate::plan::{NewView, ViewPlan, parameter_count, plan_view};
use crate::session::Session;
use crate::table_schema::{check_not_system, exists, is_view};

/// The tag of statements that create views.
const TAG: &str = "CREATE VIEW";

/// Creates a view. `sql` is the text of the statement.
pub(crate) async fn create_view(
    changes: RowChanges<'_>,
    sql: &str,
    create: CreateView,
) -> Result<Done> {
    let CreateView { name, is_temporary, if_exists, columns, query } = create;
    check_not_system(sql, &name.text, Some(name.offset))?;
    let database = &changes.database;
    let visible = changes.session.visible(database);
    let own = own_of(&changes.session, &name);
    let is_there = match is_temporary {
        true => own.is_some(),
        false => visible.table_id(&name.text).is_some(),
    };
    if if_exists != IfExists::IsReplaced && is_there {
        let error = match &own {
            Some(own) if is_temporary => own_exists(own),
            _ => exists(&visible, &name.text),
        };
        return there_already(error, &name.text, if_exists);
    }
    let replaced = match is_temporary {
        true => own.map(|own| own.id),
        false => visible.table_id(&name.text),
    };
    // Blanks keep the positions in errors.
    let text = blanked(&sql[..query.end], query.start);
    if parameter_count(&text)? > 0 {
        return Err(Error::View { view: name.text, what: ViewProblem::Parameter });
    }
    let (state, planned_on) = (changes.state.clone(), Arc::clone(database));
    let planned_as = name.text.clone();
    let task = plan_spawned(changes.account(), async move {
        let new = NewView { name: &planned_as, replaced, columns: &columns, text: &text };
        plan_view(&state, &planned_on, &new)
    });
    let planned = finish_in_time(task, &changes.stop).await?;
    if is_temporary || planned.reads_temporary {
        return make_own(&changes.session, &name, if_exists, planned, is_temporary);
    }
    let ViewPlan { schema, notices, .. } = planned;
    let (made_in, made_by) = (Arc::clone(database), changes.session.clone());
    let replaces = if_exists == IfExists::IsReplaced;
    let ddl = TableDdl::CreateView { name: name.text.clone(), schema, replaces };
    let task = SpawnedTask::spawn_blocking(move || made_by.define(&made_in, ddl));
    let made = task.join_unwind().await;
    match made.map_err(|error| Error::from(DataFusionError::ExecutionJoin(Box::new(error))))? {
        Ok(()) => Ok(Done::with_notices(TAG, notices)),
        Err(Error::Storage(StorageError::ViewExists { .. })) => {
            let visible = changes.session.visible(database);
            there_already(exists(&visible, &name.text), &name.text, if_exists)
        }
        Err(error) => Err(error),
    }
}

/// The temporary table or view of this name.
fn own_of(session: &Session, name: &Name) -> Option<Arc<TemporaryTable>> {
    session.own_changes()?.find(&name.text).map(Arc::clone)
}

/// Creates a view that ends with the session. A view that reads a temporary table is temporary too,
/// even if the statement does not say so.
fn make_own(
    session: &Session,
    name: &Name,
    if_exists: IfExists,
    planned: ViewPlan,
    is_asked_temporary: bool,
) -> Result<Done> {
    let ViewPlan { schema, mut notices, .. } = planned;
    if !is_asked_temporary {
        notices.push(format!("view `{}` will be a temporary view", name.text));
    }
    let mut changes = session.changes();
    if let Some(own) = own_of(session, name) {
        if if_exists != IfExists::IsReplaced {
            return there_already(own_exists(&own), &name.text, if_exists);
        }
        if !own.is_view() {
            return Err(StorageError::NotAView { table: own.name.clone() }.into());
        }
        changes.drop_table(&own);
    }
    changes.create_temporary(&name.text, schema, OnCommit::PreserveRows)?;
    session.install(changes);
    Ok(Done::with_notices(TAG, notices))
}

/// The error for a name that a temporary table or view has.
fn own_exists(own: &TemporaryTable) -> StorageError {
    match own.is_view() {
        true => StorageError::ViewExists { view: own.name.clone() },
        false => StorageError::TableExists { table: own.name.clone() },
    }
}

/// The result of a CREATE VIEW that finds a table or a view of its name.
fn there_already(error: StorageError, name: &str, if_exists: IfExists) -> Result<Done> {
    match error {
        StorageError::ViewExists { .. } if if_exists == IfExists::Stays => {
            Ok(Done::with_notices(TAG, vec![format!("view `{name}` exists already")]))
        }
        error => Err(error.into()),
    }
}

/// The objects that are to be dropped.
pub(super) struct Dropped<'a> {
    pub(super) names: &'a [Name],
    pub(super) if_exists: bool,
    pub(super) readers: Readers,
}

/// Drops tables.
pub(super) fn drop_tables(definer: Definer<'_>, dropped: &Dropped<'_>) -> Result<Done> {
    drop_all(definer, dropped, "DROP TABLE", Relations::Tables)
}

/// Drops views.
pub(super) fn drop_views(definer: Definer<'_>, dropped: &Dropped<'_>) -> Result<Done> {
    drop_all(definer, dropped, "DROP VIEW", Relations::Views)
}

fn drop_all(
    definer: Definer<'_>,
    dropped: &Dropped<'_>,
    tag: &'static str,
    kind: Relations,
) -> Result<Done> {
    let visible = definer.visible();
    let drop = |names: &[&str], kind| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        definer.define(TableDdl::Drop { names, kind })
    };
    let mut done = Done::new(tag);
    let mut wanted = Vec::with_capacity(dropped.names.len());
    for name in dropped.names {
        // A damaged table can still be dropped.
        if visible.table_id(&name.text).is_none() && dropped.if_exists {
            let kind = if kind == Relations::Views { "view" } else { "table" };
            done.notices.push(format!("{kind} `{}` does not exist", name.text));
        } else {
            wanted.push(name.text.as_str());
        }
    }
    let readers = readers_of(&visible, &wanted);
    if readers.is_empty() {
        drop(&wanted, kind)?;
        return Ok(done);
    }
    match dropped.readers {
        Readers::Stay => {
            drop(&wanted, kind)?;
            let notice = |reader: &Reader| {
                let Reader { view, read, .. } = reader;
                format!("view `{view}` reads `{read}`, and cannot be read without it")
            };
            done.notices.extend(readers.iter().map(notice));
        }
        Readers::Forbid => {
            let Reader { view, read, .. } = &readers[0];
            let what = ViewProblem::ReadsDropped { table: read.clone() };
            return Err(Error::View { view: view.clone(), what });
        }
        Readers::AreDropped => {
            // Each object must be of the kind that the statement drops.
            let is_other = |name: &&&str| {
                visible.table_id(name).is_some()
                    && is_view(&visible, name) != (kind == Relations::Views)
            };
            if let Some(other) = wanted.iter().find(is_other) {
                drop(&[other], kind)?;
            }
            let views = readers.iter().map(|reader| reader.view.as_str());
            let all = wanted.iter().copied().chain(views).collect::<Vec<_>>();
            drop(&all, Relations::Both)?;
            let notice = |reader: &Reader| format!("drop cascades to view `{}`", reader.view);
            done.notices.extend(readers.iter().map(notice));
        }
    }
    Ok(done)
}

/// A view that reads an object that is to be dropped.
struct Reader {
    view: String,
    id: TableId,
    /// The name of that object.
    read: String,
}

/// The views that read some of these tables and views, at any depth, and are not among them.
fn readers_of(visible: &VisibleTables<'_>, names: &[&str]) -> Vec<Reader> {
    let views = visible.tables().into_iter().filter_map(|table| {
        let schema = visible.schema_of(&table.name)?;
        schema.view()?;
        Some((table, schema))
    });
    let views = views.collect::<Vec<_>>();
    let ids = names.iter().filter_map(|name| Some((visible.table_id(name)?, *name)));
    let mut dropped = ids.map(|(id, name)| (id, name.to_owned())).collect::<Vec<_>>();
    let given = dropped.iter().map(|(id, _)| *id).collect::<BTreeSet<_>>();
    let mut readers: Vec<Reader> = Vec::new();
    let mut at = 0;
    while let Some((id, read)) = dropped.get(at).cloned() {
        for (view, schema) in &views {
            let is_known = given.contains(&view.id) || readers.iter().any(|it| it.id == view.id);
            if !is_known && reads(visible, schema, id) {
                let name = view.name.clone();
                readers.push(Reader { view: name.clone(), id: view.id, read: read.clone() });
                dropped.push((view.id, name));
            }
        }
        at += 1;
    }
    readers
}

/// True if a view reads a table, by the tables that its names refer to now.
fn reads(visible: &VisibleTables<'_>, schema: &Schema, table: TableId) -> bool {
    let Some(view) = schema.view() else { return false };
    view.reads.iter().any(|read| {
        let is_gone = || visible.table_name(read.table).is_none();
        read.table == table || is_gone() && visible.table_id(&read.name) == Some(table)
    })
}

/// Sets a comment, or removes it.
pub(super) fn comment(definer: Definer<'_>, comment: &Comment) -> Result<Done> {
    let visible = definer.visible();
    let Comment { on, table, text } = comment;
    let own = definer.session.changes().named(table).map(Arc::clone);
    let is_there = own.is_some() || visible.table_id(&table.text).is_some();
    let is_view = own.map_or_else(|| is_view(&visible, &table.text), |own| own.is_view());
    let column = match on {
        Commented::Table if is_view => {
            return Err(StorageError::IsView { view: table.text.clone() }.into());
        }
        Commented::View if is_there && !is_view => {
            return Err(StorageError::NotAView { table: table.text.clone() }.into());
        }
        Commented::Table | Commented::View => None,
        Commented::Column(column) => Some(column.text.clone()),
    };
    definer.alter(table, SchemaEdit::Comment { column, text: text.clone() })?;
    Ok(Done::new("COMMENT"))
}
