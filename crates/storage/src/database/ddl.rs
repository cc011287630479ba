//! Statements that change tables rather than rows: each is one commit.

use std::sync::Arc;

use tidegate_model::{ColumnDefault, ColumnType, Schema, SchemaError, SegmentId, TableId, Ttl};

use super::Database;
use super::folder::TableFolder;
use super::plan::{NewTable, Replacement, Wish};
use crate::error::Result;

/// A change of tables rather than rows.
#[derive(Debug, Clone)]
pub enum TableDdl {
    /// A table begins to exist.
    CreateTable {
        /// Its name.
        name: String,
        /// Its columns.
        schema: Schema,
    },
    /// A view begins to exist.
    CreateView {
        /// Its name.
        name: String,
        /// Its columns and its query.
        schema: Schema,
        /// Whether it takes the place of the view that has its name.
        replaces: bool,
    },
    /// Tables or views end, all or none.
    Drop {
        /// Their names.
        names: Vec<String>,
        /// Which of both they have to be.
        kind: Relations,
    },
    /// A table gets another name.
    Rename {
        /// Its name so far.
        from: String,
        /// The new one.
        to: String,
    },
    /// A table has other columns.
    Alter {
        /// Its name.
        table: String,
        /// What changes.
        edit: SchemaEdit,
    },
}

/// What names have to be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relations {
    /// Tables only.
    Tables,
    /// Views only.
    Views,
    /// Either.
    Both,
}

/// A change of a table's columns, and of what else its schema says.
#[derive(Debug, Clone)]
pub enum SchemaEdit {
    /// Columns come, at the end.
    Add(NewColumns),
    /// Columns go.
    Drop(Vec<String>),
    /// A column gets another name.
    Rename {
        /// Its name so far.
        from: String,
        /// The new one.
        to: String,
    },
    /// Rows with the same values in these columns replace each other, from now on.
    Dedup(Vec<String>),
    /// How long rows are kept; `None` for ever.
    Ttl(Option<Ttl>),
    /// A VARCHAR column has at most so many characters; `None` for any number.
    Length {
        /// The column.
        column: String,
        /// The most characters.
        max: Option<u32>,
    },
    /// What a column is filled with from now on; `None` for NULL.
    Default {
        /// The column.
        column: String,
        /// What fills it.
        default: Option<ColumnDefault>,
    },
    /// A comment on a column, or on the table itself; `None` for none.
    Comment {
        /// The column.
        column: Option<String>,
        /// What is said.
        text: Option<String>,
    },
}

/// Columns that a table is to get.
#[derive(Debug, Clone, Default)]
pub struct NewColumns {
    /// Their names and types.
    pub columns: Vec<(String, ColumnType)>,
    /// The most characters of some, by name.
    pub lengths: Vec<(String, u32)>,
    /// What some are filled with, by name; rows that are there have NULL.
    pub defaults: Vec<(String, ColumnDefault)>,
}

impl SchemaEdit {
    /// The schema after the change.
    ///
    /// # Errors
    /// If a column that it names is not there, or is there already, or cannot be changed so.
    pub fn apply(&self, schema: &Schema) -> Result<Schema, SchemaError> {
        let schema = schema.clone();
        match self {
            SchemaEdit::Add(NewColumns { columns, lengths, defaults }) => columns
                .iter()
                .try_fold(schema, |schema, (name, ty)| schema.with_column(name, *ty))?
                .with_lengths(lengths)?
                .with_defaults(defaults),
            SchemaEdit::Drop(names) => {
                names.iter().try_fold(schema, |schema, name| schema.without_column(name))
            }
            SchemaEdit::Rename { from, to } => schema.with_renamed_column(from, to),
            SchemaEdit::Dedup(keys) => {
                schema.with_dedup(&keys.iter().map(String::as_str).collect::<Vec<_>>())
            }
            SchemaEdit::Ttl(ttl) => schema.with_ttl(*ttl),
            SchemaEdit::Comment { column, text } => {
                schema.with_comment(column.as_deref(), text.as_deref())
            }
            SchemaEdit::Length { column, max } => schema.with_length(column, *max),
            SchemaEdit::Default { column, default } => schema.with_default(column, default.clone()),
        }
    }
}

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
        self.define(TableDdl::CreateView { name: name.to_owned(), schema, replaces: false })
    }

    /// Makes a view in place of the one that has its name, if there is one.
    ///
    /// # Errors
    /// If there is a table of this name, or the name is not one.
    pub fn replace_view(&self, name: &str, schema: Schema) -> Result<()> {
        self.define(TableDdl::CreateView { name: name.to_owned(), schema, replaces: true })
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
        self.define(TableDdl::Drop { names: owned(names), kind })
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
        self.define(TableDdl::Rename { from: from.to_owned(), to: to.to_owned() })
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
        self.define(TableDdl::Alter { table: table.to_owned(), edit })
    }

    /// Changes tables, with one commit.
    ///
    /// # Errors
    /// If a table that it is about does not exist, or a name is taken, and so on: nothing has
    /// changed then.
    pub fn define(&self, ddl: TableDdl) -> Result<()> {
        match self.wish(ddl) {
            Some(wish) => self.change(wish),
            None => Ok(()),
        }
    }

    /// What is to be committed for a change; `None` if nothing is.
    pub(super) fn wish(&self, ddl: TableDdl) -> Option<Wish> {
        Some(match ddl {
            TableDdl::CreateTable { name, schema } => {
                Wish::CreateTable(self.new_table(&name, schema))
            }
            TableDdl::CreateView { name, schema, replaces } => {
                assert!(schema.view().is_some(), "S8: a view has a query");
                let replace = if replaces { Replacement::Replaces } else { Replacement::IsRefused };
                Wish::CreateView { new: self.new_table(&name, schema), replace }
            }
            TableDdl::Drop { names, .. } if names.is_empty() => return None,
            TableDdl::Drop { names, kind } => Wish::DropTables { names, kind },
            TableDdl::Rename { from, to } => Wish::RenameTable { from, to },
            TableDdl::Alter { table, edit } => Wish::Alter { table, edit },
        })
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
