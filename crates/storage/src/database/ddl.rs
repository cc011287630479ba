//! Statements that change tables rather than rows: each is one commit.

use std::sync::Arc;

use tidegate_model::{ColumnDefault, ColumnType, Schema, SegmentId, TableId, Ttl};

use super::Database;
use super::folder::TableFolder;
use super::plan::{NewColumns, NewTable, Relations, Replacement, SchemaEdit, Wish};
use crate::error::Result;

impl Database {
    /// Makes a table.
    ///
    /// # Errors
    /// If there is one of this name, or the name is not one.
    pub fn create_table(&self, name: &str, schema: Schema) -> Result<TableId> {
        let new = self.new_table(name, schema);
        let table = new.folder.table();
        self.change(Wish::CreateTable(new))?;
        Ok(table)
    }

    /// Makes a view, of a schema that has its query.
    ///
    /// # Errors
    /// If there is a table or a view of this name, or the name is not one.
    pub fn create_view(&self, name: &str, schema: Schema) -> Result<()> {
        self.make_view(name, schema, Replacement::IsRefused)
    }

    /// Makes a view in place of the one that has its name, if there is one.
    ///
    /// # Errors
    /// If there is a table of this name, or the name is not one.
    pub fn replace_view(&self, name: &str, schema: Schema) -> Result<()> {
        self.make_view(name, schema, Replacement::Replaces)
    }

    fn make_view(&self, name: &str, schema: Schema, replace: Replacement) -> Result<()> {
        assert!(schema.view().is_some(), "S8: a view has a query");
        self.change(Wish::CreateView { new: self.new_table(name, schema), replace })
    }

    /// Drops tables, all or none. Their files go when the last snapshot of them ends.
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
        if names.is_empty() {
            return Ok(());
        }
        self.change(Wish::DropTables { names: owned(names), kind })
    }

    /// Sets the comment on a column of a table or a view, or on itself; `None` and an empty text
    /// for none.
    ///
    /// # Errors
    /// If there is no such table or column, or the text is too long.
    pub fn set_comment(&self, table: &str, column: Option<&str>, text: Option<&str>) -> Result<()> {
        let (column, text) = (column.map(str::to_owned), text.map(str::to_owned));
        self.alter(table, SchemaEdit::Comment { column, text })
    }

    /// Gives a table another name; no file moves.
    ///
    /// # Errors
    /// If there is no such table, or the other name is taken.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        self.change(Wish::RenameTable { from: from.to_owned(), to: to.to_owned() })
    }

    /// Removes all rows of a table. Files go when the last snapshot of them ends.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn truncate_table(&self, name: &str) -> Result<()> {
        self.change(Wish::Truncate { table: name.to_owned() })
    }

    /// Adds columns at the end, all or none. They are NULL in rows that are there already.
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
    /// As there, and if a length is of no new VARCHAR column, or numbers fill no whole ones.
    pub fn add_columns_with(&self, table: &str, columns: NewColumns) -> Result<()> {
        self.alter(table, SchemaEdit::Add(columns))
    }

    /// Sets the most characters of a VARCHAR column; `None` for any. Rows that are there stay.
    ///
    /// # Errors
    /// If there is no such table or column, or it has no texts.
    pub fn set_length(&self, table: &str, column: &str, max: Option<u32>) -> Result<()> {
        self.alter(table, SchemaEdit::Length { column: column.to_owned(), max })
    }

    /// Sets what a column is filled with where an INSERT gives no value; `None` for NULL.
    ///
    /// # Errors
    /// If there is no such table or column, or numbers are to fill one that is not of whole ones.
    pub fn set_default(
        &self,
        table: &str,
        column: &str,
        default: Option<ColumnDefault>,
    ) -> Result<()> {
        self.alter(table, SchemaEdit::Default { column: column.to_owned(), default })
    }

    /// Drops columns, all or none.
    ///
    /// # Errors
    /// If there is no such table or column, or it is the designated timestamp.
    pub fn drop_columns(&self, table: &str, names: &[&str]) -> Result<()> {
        self.alter(table, SchemaEdit::Drop(owned(names)))
    }

    /// Gives a column another name.
    ///
    /// # Errors
    /// If there is no such table or column, or the other name is taken.
    pub fn rename_column(&self, table: &str, from: &str, to: &str) -> Result<()> {
        self.alter(table, SchemaEdit::Rename { from: from.to_owned(), to: to.to_owned() })
    }

    /// Lets rows with the same values in these columns replace each other, from now on; without
    /// keys, all rows stay. The designated timestamp must be among them.
    ///
    /// # Errors
    /// If there is no such table or column, or they cannot be keys.
    pub fn set_dedup_keys(&self, table: &str, keys: &[&str]) -> Result<()> {
        self.alter(table, SchemaEdit::Dedup(owned(keys)))
    }

    /// Sets how long rows are kept; `None` for ever. `maintain` drops partitions that are older.
    ///
    /// # Errors
    /// If there is no such table, or it has no partitions.
    pub fn set_ttl(&self, table: &str, ttl: Option<Ttl>) -> Result<()> {
        self.alter(table, SchemaEdit::Ttl(ttl))
    }

    fn alter(&self, table: &str, edit: SchemaEdit) -> Result<()> {
        self.change(Wish::Alter { table: table.to_owned(), edit })
    }

    fn change(&self, wish: Wish) -> Result<()> {
        self.begin_writing()?;
        self.commit(wish).map(drop).map_err(|refusal| refusal.error)
    }

    /// A table that does not exist before its commit; its folder is made when it gets a file.
    pub(super) fn new_table(&self, name: &str, schema: Schema) -> NewTable {
        let table = self.new_table_id();
        let folder = TableFolder::new(&self.guarded, &self.paths, table, SegmentId(0));
        NewTable { folder: Arc::new(folder), name: name.to_owned(), schema: Arc::new(schema) }
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}
