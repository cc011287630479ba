//! The statements that change tables rather than rows: each is one commit.
//!
//! Not here: the changes (`commit::ddl`).

use std::sync::Arc;

use tidegate_model::{ColumnType, Schema, SegmentId, TableId, Ttl};

use super::Database;
use super::commit::ddl::{NewColumns, Relations, SchemaEdit, TableDdl};
use super::commit::request::{CommitRequest, NewTable, Replacement};
use crate::error::Result;
use crate::files::TableDirectory;

impl Database {
    /// Creates a table.
    ///
    /// # Errors
    /// If the name is taken or invalid.
    pub fn create_table(&self, name: &str, schema: Schema) -> Result<TableId> {
        let new = self.new_table(name, schema);
        let table = new.directory.table();
        self.change(CommitRequest::CreateTable(new))?;
        Ok(table)
    }

    /// Creates a view from a schema that has its query.
    ///
    /// # Errors
    /// If there is a table or a view of this name, or the name is invalid.
    pub fn create_view(&self, name: &str, schema: Schema) -> Result<()> {
        self.define(TableDdl::CreateView { name: name.to_owned(), schema, replaces: false })
    }

    /// Creates a view, replacing a view of the same name.
    ///
    /// # Errors
    /// If there is a table of this name, or the name is invalid.
    pub fn replace_view(&self, name: &str, schema: Schema) -> Result<()> {
        self.define(TableDdl::CreateView { name: name.to_owned(), schema, replaces: true })
    }

    /// Drops tables, all or none. Their files are removed when the last snapshot of them is
    /// dropped.
    ///
    /// # Errors
    /// If one of them does not exist, or is a view.
    pub fn drop_tables(&self, names: &[&str]) -> Result<()> {
        self.drop_all(names, Relations::Tables)
    }

    /// Drops views, all or none.
    ///
    /// # Errors
    /// If one of them does not exist, or is a table.
    pub fn drop_views(&self, names: &[&str]) -> Result<()> {
        self.drop_all(names, Relations::Views)
    }

    /// Drops tables and views, all or none.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub fn drop_relations(&self, names: &[&str]) -> Result<()> {
        self.drop_all(names, Relations::Both)
    }

    fn drop_all(&self, names: &[&str], kind: Relations) -> Result<()> {
        self.define(TableDdl::Drop { names: owned(names), kind })
    }

    /// Sets the comment on a column of a table or a view, or on the relation itself; `None` and an
    /// empty text remove it.
    ///
    /// # Errors
    /// If there is no such table or column, or the text is too long.
    pub fn set_comment(&self, table: &str, column: Option<&str>, text: Option<&str>) -> Result<()> {
        let (column, text) = (column.map(str::to_owned), text.map(str::to_owned));
        self.alter(table, SchemaEdit::Comment { column, text })
    }

    /// Renames a table; no file is moved.
    ///
    /// # Errors
    /// If there is no such table, or the new name is taken.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        self.define(TableDdl::Rename { from: from.to_owned(), to: to.to_owned() })
    }

    /// Removes all rows of a table. Files are removed when the last snapshot of them is dropped.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn truncate_table(&self, name: &str) -> Result<()> {
        self.change(CommitRequest::Truncate { table: name.to_owned() })
    }

    /// Adds columns at the end, all or none. They are NULL in existing rows.
    ///
    /// # Errors
    /// If there is no such table, or a name is taken.
    pub fn add_columns(&self, table: &str, columns: &[(String, ColumnType)]) -> Result<()> {
        let columns = columns.to_vec();
        self.add_columns_with(table, NewColumns { columns, ..NewColumns::default() })
    }

    /// As [`add_columns`](Self::add_columns), with lengths and defaults of some of them.
    ///
    /// # Errors
    /// As `add_columns`, and if a length is not for a new VARCHAR column, or numbers are not for an
    /// integer column.
    pub fn add_columns_with(&self, table: &str, columns: NewColumns) -> Result<()> {
        self.alter(table, SchemaEdit::Add(columns))
    }

    /// Drops columns, all or none.
    ///
    /// # Errors
    /// If there is no such table or column, or it is the designated timestamp.
    pub fn drop_columns(&self, table: &str, names: &[&str]) -> Result<()> {
        self.alter(table, SchemaEdit::Drop(owned(names)))
    }

    /// Renames a column.
    ///
    /// # Errors
    /// If there is no such table or column, or the new name is taken.
    pub fn rename_column(&self, table: &str, from: &str, to: &str) -> Result<()> {
        self.alter(table, SchemaEdit::Rename { from: from.to_owned(), to: to.to_owned() })
    }

    /// Sets the keys of DEDUP: rows with the same values in these columns replace each other from
    /// now on; without keys, all rows stay. The designated timestamp must be among them.
    ///
    /// # Errors
    /// If there is no such table or column, or they cannot be keys.
    pub fn set_dedup_keys(&self, table: &str, keys: &[&str]) -> Result<()> {
        self.alter(table, SchemaEdit::Dedup(owned(keys)))
    }

    /// Sets the TTL of rows; `None` keeps them for ever. `maintain` drops older partitions.
    ///
    /// # Errors
    /// If there is no such table, or it has no partitions.
    pub fn set_ttl(&self, table: &str, ttl: Option<Ttl>) -> Result<()> {
        self.alter(table, SchemaEdit::Ttl(ttl))
    }

    fn alter(&self, table: &str, edit: SchemaEdit) -> Result<()> {
        self.define(TableDdl::Alter { table: table.to_owned(), edit })
    }

    /// Applies a change of tables, with one commit.
    ///
    /// # Errors
    /// If a table does not exist, or a name is taken, and so on: nothing has changed then.
    pub fn define(&self, ddl: TableDdl) -> Result<()> {
        match self.ddl_request(ddl) {
            Some(request) => self.change(request),
            None => Ok(()),
        }
    }

    /// The commit request for a change; `None` if there is nothing to commit.
    pub(crate) fn ddl_request(&self, ddl: TableDdl) -> Option<CommitRequest> {
        Some(match ddl {
            TableDdl::CreateTable { name, schema } => {
                CommitRequest::CreateTable(self.new_table(&name, schema))
            }
            TableDdl::CreateView { name, schema, replaces } => {
                assert!(schema.view().is_some(), "model_schema-7: a view has a query");
                let replace = if replaces { Replacement::Replaces } else { Replacement::IsRefused };
                CommitRequest::CreateView { new: self.new_table(&name, schema), replace }
            }
            TableDdl::Drop { names, .. } if names.is_empty() => return None,
            TableDdl::Drop { names, kind } => CommitRequest::DropTables { names, kind },
            TableDdl::Rename { from, to } => CommitRequest::RenameTable { from, to },
            TableDdl::Alter { table, edit } => CommitRequest::Alter { table, edit },
        })
    }

    fn change(&self, request: CommitRequest) -> Result<()> {
        self.begin_writing()?;
        self.commit(request).map(drop).map_err(|commit_error| commit_error.error)
    }

    /// A table that does not exist before its commit; its directory is created with its first file.
    pub(crate) fn new_table(&self, name: &str, schema: Schema) -> NewTable {
        let table = self.new_table_id();
        let directory = TableDirectory::new(&self.guarded, &self.paths, table, SegmentId(0));
        NewTable { directory: Arc::new(directory), name: name.to_owned(), schema: Arc::new(schema) }
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}
