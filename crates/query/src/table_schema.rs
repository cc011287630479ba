//! Schemas of new tables and checks of names, shared by statements that create tables.

use tidegate_model::{ColumnDefault, Schema, is_system_table};
use tidegate_storage::{Error as StorageError, VisibleTables};

use crate::error::{Error, Result};
use crate::parse::{DefaultClause, TableDefinition};
use crate::position::Position;

/// Refuses to change a table of the schema `sys`.
pub(crate) fn check_not_system(sql: &str, table: &str, offset: Option<usize>) -> Result<()> {
    if !is_system_table(table) {
        return Ok(());
    }
    let position = offset.map(|offset| Position::at(sql, offset));
    Err(Error::SystemTable { position, table: table.to_owned() })
}

/// The schema of a table that is to be created.
pub(crate) fn schema_of(sql: &str, definition: &TableDefinition) -> Result<Schema> {
    let TableDefinition { columns, lengths, timestamp, partition_by, ttl, keys, .. } = definition;
    let schema = Schema::new(columns, timestamp.as_deref(), *partition_by)?;
    let keys = keys.iter().map(|key| key.text.as_str()).collect::<Vec<_>>();
    let ttl = ttl.as_ref().map(|ttl| ttl.checked(sql, *partition_by)).transpose()?.flatten();
    let defaults = defaults_of(sql, &definition.defaults);
    let schema = schema.with_lengths(lengths)?.with_defaults(&defaults)?;
    Ok(schema.with_dedup(&keys)?.with_ttl(ttl)?)
}

/// The defaults of columns, as the schema stores them.
pub(crate) fn defaults_of(
    sql: &str,
    defaults: &[(String, DefaultClause)],
) -> Vec<(String, ColumnDefault)> {
    let default = |(name, clause): &(String, DefaultClause)| (name.clone(), clause.stored(sql));
    defaults.iter().map(default).collect()
}

/// The error for a name that a table or a view has.
pub(crate) fn exists(visible: &VisibleTables<'_>, name: &str) -> StorageError {
    match is_view(visible, name) {
        true => StorageError::ViewExists { view: name.to_owned() },
        false => StorageError::TableExists { table: name.to_owned() },
    }
}

pub(crate) fn is_view(visible: &VisibleTables<'_>, name: &str) -> bool {
    visible.schema_of(name).is_some_and(|schema| schema.view().is_some())
}
