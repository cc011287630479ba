//! Execution of DDL: statements that create, alter, drop and comment on tables and views.
//!
//! Each statement is one commit, or part of a transaction: when it returns, or the transaction is
//! committed, it is durable and visible, or nothing has changed. The statements are parsed by
//! `parse`.

mod temporary;
mod views;

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_model::{Column, ColumnType, PartitionKey, Schema, SchemaError};
use tidegate_storage::{
    Database, Error as StorageError, NewColumns, SchemaEdit, Snapshot, TableDdl, VisibleTables,
};

use crate::answer::Done;
use crate::error::{Error, Result};
use crate::parse::statement::alter::{AddColumns, TableChange};
use crate::parse::statement::views::{Commented, Readers};
use crate::parse::{Name, Statement, TableDefinition};
use crate::position::Position;
use crate::session::Session;
use crate::table_schema::{check_not_system, defaults_of, schema_of};
use views::{Dropped, comment, drop_tables, drop_views};

pub(crate) use views::create_view;

/// The number of attempts of a statement whose tables other sessions create and drop.
const ATTEMPTS: usize = 8;

/// The database and session of a DDL statement: it changes tables for all, or within a transaction.
#[derive(Clone, Copy)]
pub(crate) struct Definer<'a> {
    pub(crate) database: &'a Arc<Database>,
    pub(crate) session: &'a Session,
}

impl<'a> Definer<'a> {
    fn visible(&self) -> VisibleTables<'a> {
        self.session.visible(self.database)
    }

    /// The session's snapshot of a table.
    fn snapshot(&self, name: &Name) -> Result<Arc<Snapshot>> {
        let own_changes = self.session.own_changes();
        match own_changes.as_ref().and_then(|changes| Some((changes, changes.named(name)?))) {
            Some((changes, temporary)) => changes.rows_of(temporary),
            None => Ok(self.visible().snapshot(&name.text)?),
        }
    }

    fn is_temporary(&self, name: &Name) -> bool {
        self.session.own_changes().is_some_and(|changes| changes.named(name).is_some())
    }

    fn define(&self, ddl: TableDdl) -> Result<()> {
        self.session.define(self.database, ddl)
    }

    fn alter(&self, table: &Name, edit: SchemaEdit) -> Result<()> {
        let mut changes = self.session.changes();
        if let Some(own) = changes.named(table).map(Arc::clone) {
            changes.alter_temporary(&own, &edit)?;
            self.session.install(changes);
            return Ok(());
        }
        self.define(TableDdl::Alter { table: table.text.clone(), edit })
    }
}

/// Executes a statement; `None` if it changes no table. Blocks on disk I/O. `sql` is its text, for
/// positions in errors.
pub(crate) fn execute(
    definer: Definer<'_>,
    sql: &str,
    statement: Statement,
) -> Result<Option<Done>> {
    for (table, offset) in created_or_altered(&statement) {
        check_not_system(sql, table, offset)?;
    }
    let names = required_names(&statement);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let done = match temporary::change(definer, sql, &statement) {
            Ok(None) => change(definer, sql, statement.clone()),
            done => done,
        };
        match done {
            Err(error) if attempt < ATTEMPTS && can_be_retried(&error, &statement) => {}
            done => return done.map_err(|error| with_position(error, sql, &names)),
        }
    }
}

/// Returns true if a statement may have failed because another session created or dropped an object
/// after the statement had looked it up. A retry sees the present objects, and IF EXISTS, IF NOT
/// EXISTS or CASCADE then prevents the error.
fn can_be_retried(error: &Error, statement: &Statement) -> bool {
    let tolerates_change = match statement {
        Statement::DropTables { if_exists, readers, .. }
        | Statement::DropViews { if_exists, readers, .. } => {
            *if_exists || *readers == Readers::AreDropped
        }
        Statement::AlterTable { if_exists, change, .. } => {
            let tolerates_columns = match change {
                TableChange::AddColumns(added) => added.if_not_exists,
                TableChange::DropColumns { if_exists, .. } => *if_exists,
                _ => false,
            };
            *if_exists || tolerates_columns
        }
        Statement::RenameTable { if_exists, .. } => *if_exists,
        _ => false,
    };
    let is_of_existence = matches!(
        error,
        Error::Storage(
            StorageError::NoSuchTable { .. }
                | StorageError::Schema(
                    SchemaError::NoSuchColumn { .. } | SchemaError::DuplicateColumn { .. }
                )
        )
    );
    tolerates_change && is_of_existence
}

/// The tables that a statement creates, drops or alters, with their offsets, if known. TRUNCATE is
/// not among them: it only deletes rows.
fn created_or_altered(statement: &Statement) -> Vec<(&str, Option<usize>)> {
    fn of_name(name: &Name) -> (&str, Option<usize>) {
        (name.text.as_str(), Some(name.offset))
    }
    match statement {
        Statement::CreateTable(definition) => vec![(definition.name.as_str(), None)],
        Statement::CreateTableAs(create) => vec![of_name(&create.name)],
        Statement::CreateTableLike { name, .. } => vec![of_name(name)],
        Statement::CreateView(create) => vec![of_name(&create.name)],
        Statement::DropTables { names, .. } | Statement::DropViews { names, .. } => {
            names.iter().map(of_name).collect()
        }
        Statement::Comment(comment) => vec![of_name(&comment.table)],
        Statement::RenameTable { table, to, .. } => vec![of_name(table), (to.as_str(), None)],
        Statement::AlterTable { table, .. } => vec![of_name(table)],
        _ => Vec::new(),
    }
}

pub(crate) use temporary::{check_in_transaction, check_lasting};

/// The tables and columns that a statement requires to exist.
fn required_names(statement: &Statement) -> Vec<Name> {
    match statement {
        Statement::CreateTable(definition) => definition.keys.clone(),
        Statement::CreateTableLike { like, .. } => vec![like.clone()],
        Statement::DropTables { names, .. } | Statement::DropViews { names, .. } => names.clone(),
        Statement::Comment(comment) => {
            let column = match &comment.on {
                Commented::Column(column) => Some(column.clone()),
                Commented::Table | Commented::View => None,
            };
            column.into_iter().chain([comment.table.clone()]).collect()
        }
        Statement::Maintain { tables, .. } => tables.clone(),
        Statement::TruncateTable { table, .. } | Statement::RenameTable { table, .. } => {
            vec![table.clone()]
        }
        Statement::AlterTable { table, change, .. } => {
            let columns = match change {
                TableChange::AddColumns(_) => Vec::new(),
                TableChange::DropColumns { names, .. } => names.clone(),
                TableChange::RenameColumn { column, .. }
                | TableChange::Retype { column, .. }
                | TableChange::Default { column, .. } => vec![column.clone()],
                TableChange::DedupKeys { keys } => keys.clone(),
                TableChange::Ttl(_) | TableChange::DropPartitions { .. } => Vec::new(),
                TableChange::Nothing { column } => column.iter().cloned().collect(),
            };
            [vec![table.clone()], columns].concat()
        }
        _ => Vec::new(),
    }
}

/// The error with the position of the name that it is about.
fn with_position(error: Error, sql: &str, names: &[Name]) -> Error {
    let place = |text: &str| {
        let name = names.iter().rev().find(|name| name.text.eq_ignore_ascii_case(text))?;
        Some(Position::at(sql, name.offset))
    };
    match error {
        Error::Storage(StorageError::NoSuchTable { table }) => {
            Error::NoSuchTable { position: place(&table), table }
        }
        Error::Storage(StorageError::Schema(SchemaError::NoSuchColumn { name })) => {
            let position = place(&name);
            Error::NoSuchColumn { position, column: name, similar: None }
        }
        error => error,
    }
}

fn change(definer: Definer<'_>, sql: &str, statement: Statement) -> Result<Option<Done>> {
    let done = match statement {
        Statement::CreateTable(definition) => create_table(definer, sql, definition)?,
        Statement::CreateTableLike { name, if_not_exists, like, .. } => {
            let schema = schema_like(&definer.snapshot(&like)?.schema)?;
            create_with(definer, &name.text, schema, if_not_exists, Vec::new())?
        }
        Statement::DropTables { names, if_exists, readers } => {
            drop_tables(definer, &Dropped { names: &names, if_exists, readers })?
        }
        Statement::DropViews { names, if_exists, readers } => {
            drop_views(definer, &Dropped { names: &names, if_exists, readers })?
        }
        Statement::Comment(statement) => comment(definer, &statement)?,
        Statement::DropIndex => {
            let notice = "DROP INDEX has no effect: there are none";
            Done::with_notices("DROP INDEX", vec![notice.to_owned()])
        }
        Statement::Nothing { tag, notices } => Done::with_notices(tag, notices),
        Statement::Maintain { what, tables } => {
            for table in &tables {
                definer.snapshot(table)?;
            }
            let notice = format!("{what} has no effect: maintenance goes on in the background");
            Done::with_notices(what, vec![notice])
        }
        Statement::TruncateTable { table, .. } => {
            definer.database.truncate_table(&table.text)?;
            Done::new("TRUNCATE TABLE")
        }
        Statement::RenameTable { table, if_exists: true, .. }
            if definer.visible().table_id(&table.text).is_none() =>
        {
            let notice = format!("table `{}` does not exist", table.text);
            Done::with_notices("RENAME TABLE", vec![notice])
        }
        Statement::RenameTable { table, to, .. } => {
            definer.define(TableDdl::Rename { from: table.text, to })?;
            Done::new("RENAME TABLE")
        }
        Statement::AlterTable { table, if_exists: true, .. }
            if !definer.is_temporary(&table)
                && definer.visible().table_id(&table.text).is_none() =>
        {
            let notice = format!("table `{}` does not exist", table.text);
            Done::with_notices("ALTER TABLE", vec![notice])
        }
        Statement::AlterTable { table, change, notices, .. } => {
            alter_table(definer, sql, &table, change, notices)?
        }
        Statement::CreateTableAs(_)
        | Statement::CreateView(_)
        | Statement::ChangeRows(_)
        | Statement::Show(_)
        | Statement::Set { .. }
        | Statement::Cancel { .. }
        | Statement::Copy(_)
        | Statement::Explain(_)
        | Statement::Query => return Ok(None),
    };
    Ok(Some(done))
}

/// A schema with the columns of another table, with column ids of its own.
fn schema_like(like: &Schema) -> Result<Schema> {
    let columns = like.columns().iter();
    let columns = columns.map(|column| (column.name.clone(), column.ty)).collect::<Vec<_>>();
    let time = like.designated_column();
    let time = time.map(|(column, _)| column.name.as_str());
    let keys = like.dedup().iter().filter_map(|&id| like.column(id));
    let keys = keys.map(|column| column.name.as_str()).collect::<Vec<_>>();
    let schema = Schema::new(&columns, time, like.partition_by())?;
    let length = |column: &Column| Some((column.name.clone(), like.length(column.id)?.max));
    let lengths = like.columns().iter().filter_map(length).collect::<Vec<_>>();
    // As in PostgreSQL, LIKE does not copy defaults.
    Ok(schema.with_lengths(&lengths)?.with_dedup(&keys)?.with_ttl(like.ttl())?)
}

fn create_table(definer: Definer<'_>, sql: &str, definition: TableDefinition) -> Result<Done> {
    let schema = schema_of(sql, &definition)?;
    let TableDefinition { name, if_not_exists, notices, .. } = definition;
    create_with(definer, &name, schema, if_not_exists, notices)
}

fn create_with(
    definer: Definer<'_>,
    name: &str,
    schema: Schema,
    if_not_exists: bool,
    mut notices: Vec<String>,
) -> Result<Done> {
    match definer.define(TableDdl::CreateTable { name: name.to_owned(), schema }) {
        Ok(()) => {}
        Err(Error::Storage(
            error @ (StorageError::TableExists { .. } | StorageError::ViewExists { .. }),
        )) if if_not_exists => {
            notices = vec![error.to_string()];
        }
        Err(error) => return Err(error),
    }
    Ok(Done::with_notices("CREATE TABLE", notices))
}

fn alter_table(
    definer: Definer<'_>,
    sql: &str,
    table: &Name,
    change: TableChange,
    mut notices: Vec<String>,
) -> Result<Done> {
    match change {
        TableChange::AddColumns(added) => {
            let AddColumns { columns, mut lengths, defaults, if_not_exists } = added;
            let columns = if if_not_exists {
                missing_columns(definer, table, columns, &mut notices)?
            } else {
                columns
            };
            if !columns.is_empty() {
                let is_wanted = |name: &String| columns.iter().any(|(wanted, _)| wanted == name);
                lengths.retain(|(name, _)| is_wanted(name));
                let mut defaults = defaults_of(sql, &defaults);
                defaults.retain(|(name, _)| is_wanted(name));
                let new = NewColumns { columns, lengths, defaults };
                definer.alter(table, SchemaEdit::Add(new))?;
            }
        }
        TableChange::DropColumns { names, if_exists } => {
            let snapshot = definer.snapshot(table)?;
            let is_there = |name: &&Name| !if_exists || snapshot.schema.find(&name.text).is_some();
            let (names, missing): (Vec<_>, Vec<_>) = names.iter().partition(is_there);
            let notice = |name: &Name| format!("column `{}` does not exist", name.text);
            notices.extend(missing.into_iter().map(notice));
            let names = names.iter().map(|name| name.text.clone()).collect::<Vec<_>>();
            if !names.is_empty() {
                definer.alter(table, SchemaEdit::Drop(names))?;
            }
        }
        TableChange::Retype { column, ty, length } => {
            retype(definer, sql, table, &column, ty, length)?;
        }
        TableChange::Default { column, default } => {
            let default = default.map(|clause| clause.stored(sql));
            definer.alter(table, SchemaEdit::Default { column: column.text, default })?;
        }
        TableChange::RenameColumn { column, to } => {
            definer.alter(table, SchemaEdit::Rename { from: column.text, to })?;
        }
        TableChange::DedupKeys { keys } => {
            let keys = keys.into_iter().map(|key| key.text).collect();
            definer.alter(table, SchemaEdit::Dedup(keys))?;
        }
        TableChange::Ttl(ttl) => {
            let snapshot = definer.snapshot(table)?;
            let ttl = ttl.checked(sql, snapshot.schema.partition_by())?;
            definer.alter(table, SchemaEdit::Ttl(ttl))?;
        }
        TableChange::DropPartitions { names } => {
            drop_partitions(definer.database, sql, &table.text, &names)?;
        }
        TableChange::Nothing { column } => {
            let snapshot = definer.snapshot(table)?;
            if let Some(Name { text: name, .. }) = column
                && snapshot.schema.find(&name).is_none()
            {
                return Err(StorageError::Schema(SchemaError::NoSuchColumn { name }).into());
            }
        }
    }
    Ok(Done::with_notices("ALTER TABLE", notices))
}

/// Changes the type of a column: only the maximal length of a VARCHAR can change, and only grow.
fn retype(
    definer: Definer<'_>,
    sql: &str,
    table: &Name,
    name: &Name,
    ty: ColumnType,
    length: Option<u32>,
) -> Result<()> {
    let snapshot = definer.snapshot(table)?;
    let Some(column) = snapshot.schema.find(&name.text) else {
        let name = name.text.clone();
        return Err(StorageError::Schema(SchemaError::NoSuchColumn { name }).into());
    };
    let position = Position::at(sql, name.offset);
    if column.ty != ty {
        let feature = "ALTER COLUMN .. TYPE of another type";
        let instead = "make the table anew with CREATE TABLE .. AS, and CAST the column";
        return Err(Error::Refused { position, feature, instead });
    }
    let known = snapshot.schema.length(column.id).map(|length| length.max);
    match (known, length) {
        (known, length) if known == length => Ok(()),
        (Some(known), max) if max.is_none_or(|max| known < max) => {
            definer.alter(table, SchemaEdit::Length { column: name.text.clone(), max })
        }
        _ => {
            let feature = "a shorter length of a VARCHAR";
            let instead = "longer texts may be there: make the table anew with CREATE TABLE .. AS";
            Err(Error::Refused { position, feature, instead })
        }
    }
}

/// Drops partitions by their names, all or none.
fn drop_partitions(database: &Arc<Database>, sql: &str, table: &str, names: &[Name]) -> Result<()> {
    let snapshot = database.snapshot(table)?;
    let (by, unit) = (snapshot.schema.partition_by(), snapshot.schema.time_unit());
    let mut dropped = BTreeSet::new();
    for name in names {
        let key = by.parse_name(&name.text, unit);
        let is_there =
            |key: &PartitionKey| snapshot.groups.iter().any(|group| group.partition == *key);
        let Some(key) = key.filter(is_there) else {
            let position = Position::at(sql, name.offset);
            return Err(Error::NoSuchPartition { position, partition: name.text.clone() });
        };
        dropped.insert(key);
    }
    database.drop_partitions(table, &dropped)?;
    Ok(())
}

/// The columns that the table does not have yet.
fn missing_columns(
    definer: Definer<'_>,
    table: &Name,
    columns: Vec<(String, ColumnType)>,
    notices: &mut Vec<String>,
) -> Result<Vec<(String, ColumnType)>> {
    let snapshot = definer.snapshot(table)?;
    let (there, missing): (Vec<_>, Vec<_>) =
        columns.into_iter().partition(|(name, _)| snapshot.schema.find(name).is_some());
    notices.extend(there.iter().map(|(name, _)| format!("column `{name}` exists already")));
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_statement;

    // Two instances of an application that start together add the same columns: one of them got an
    // error in spite of IF NOT EXISTS if the other one was a little faster.
    #[test]
    fn statements_with_if_exists_are_retried_after_changes_of_other_sessions() {
        let name = || "x".to_owned();
        let no_table = || StorageError::NoSuchTable { table: name() };
        let no_column = || StorageError::Schema(SchemaError::NoSuchColumn { name: name() });
        let twice = || StorageError::Schema(SchemaError::DuplicateColumn { name: name() });
        for (sql, error, expected) in [
            ("DROP TABLE IF EXISTS x", no_table(), true),
            ("DROP TABLE x", no_table(), false),
            ("DROP TABLE t CASCADE", no_table(), true),
            ("DROP VIEW IF EXISTS x", no_table(), true),
            ("DROP VIEW IF EXISTS x", StorageError::NotAView { table: name() }, false),
            ("ALTER TABLE IF EXISTS x ADD COLUMN c INT", no_table(), true),
            ("ALTER TABLE IF EXISTS x RENAME TO y", no_table(), true),
            ("ALTER TABLE x RENAME TO y", no_table(), false),
            ("ALTER TABLE t ADD COLUMN IF NOT EXISTS x INT", twice(), true),
            ("ALTER TABLE t ADD COLUMN x INT", twice(), false),
            ("ALTER TABLE t DROP COLUMN IF EXISTS x", no_column(), true),
            ("ALTER TABLE t DROP COLUMN x", no_column(), false),
            ("ALTER TABLE t RENAME COLUMN x TO y", no_column(), false),
        ] {
            let statement = parse_statement(sql).unwrap();
            assert_eq!(can_be_retried(&Error::Storage(error), &statement), expected, "{sql}");
        }
    }
}
