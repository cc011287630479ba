//! Changes of tables: statements that create, drop or alter them.

use tidegate_model::{ColumnDefault, ColumnType, Schema, SchemaError, Ttl};

use crate::error::Result;

/// A DDL change: of tables, not of rows.
#[derive(Debug, Clone)]
pub enum TableDdl {
    /// Creates a table.
    CreateTable {
        /// The name.
        name: String,
        /// The columns.
        schema: Schema,
    },
    /// Creates a view.
    CreateView {
        /// The name.
        name: String,
        /// The columns and the query.
        schema: Schema,
        /// True if it replaces a view of the same name.
        replaces: bool,
    },
    /// Drops tables or views, all or none.
    Drop {
        /// Their names.
        names: Vec<String>,
        /// The kind that they must have.
        kind: Relations,
    },
    /// Renames a table.
    Rename {
        /// The current name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Changes the columns of a table.
    Alter {
        /// The name.
        table: String,
        /// The change.
        edit: SchemaEdit,
    },
}

/// The kinds of relations that names may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relations {
    /// Tables only.
    Tables,
    /// Views only.
    Views,
    /// Either.
    Both,
}

/// A change of a table's schema.
#[derive(Debug, Clone)]
pub enum SchemaEdit {
    /// Adds columns at the end.
    Add(NewColumns),
    /// Drops columns.
    Drop(Vec<String>),
    /// Renames a column.
    Rename {
        /// The current name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Sets the keys of DEDUP: rows with the same values in these columns replace each other from
    /// now on.
    Dedup(Vec<String>),
    /// Sets the TTL of rows; `None` keeps them for ever.
    Ttl(Option<Ttl>),
    /// Sets the maximal number of characters of a VARCHAR column; `None` for no limit.
    Length {
        /// The column.
        column: String,
        /// The maximal number of characters.
        max: Option<u32>,
    },
    /// Sets the default of a column; `None` for NULL.
    Default {
        /// The column.
        column: String,
        /// The default.
        default: Option<ColumnDefault>,
    },
    /// Sets the comment on a column, or on the table itself; `None` removes it.
    Comment {
        /// The column.
        column: Option<String>,
        /// The comment.
        text: Option<String>,
    },
}

/// Columns to be added to a table.
#[derive(Debug, Clone, Default)]
pub struct NewColumns {
    /// Their names and types.
    pub columns: Vec<(String, ColumnType)>,
    /// The maximal numbers of characters of some columns, by name.
    pub lengths: Vec<(String, u32)>,
    /// The defaults of some columns, by name; existing rows have NULL.
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
