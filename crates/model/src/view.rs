//! Parts of a schema besides its columns: the query of a view, comments, and defaults.
//!
//! - model_view-1. A view reads tables by their ids: renaming one, or its columns, changes nothing.
//!   If the id no longer exists, a table of the same name takes its place.
//! - model_view-2. A view has the columns that its query had when it was made: columns added to a
//!   table later are not among those that it reads.
//!
//! Bytes: docs/format.md, Schema. Not here: the meaning of a query (`query`).

use crate::ids::{ColumnId, TableId};
use crate::limits;
use crate::schema_error::SchemaError;

/// The query of a view, with the tables that its names refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The text of the query as it was written.
    pub query: String,
    /// The tables and views that it names, each name once.
    pub reads: Vec<ViewRead>,
}

/// A table that a view reads, as it was when the view was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRead {
    /// The name in the query, in lower case.
    pub name: String,
    /// The table that had this name.
    pub table: TableId,
    /// The columns and their names (model_view-2).
    pub columns: Vec<(ColumnId, String)>,
}

/// Comments on a table and its columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comments {
    /// On the table itself.
    pub table: Option<String>,
    /// On columns, each once.
    pub columns: Vec<(ColumnId, String)>,
}

/// The value that a column gets where an INSERT gives none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnDefault {
    /// The next of the column's own numbers, as for an identity column of SQL.
    NextNumber,
    /// The value of an expression, kept as the text that was written.
    Expression(String),
}

impl View {
    /// Checks that the query and its tables are within the limits for views.
    pub(crate) fn check(&self) -> Result<(), SchemaError> {
        if self.query.is_empty() || limits::VIEW_BYTES < self.query.len() {
            return Err(SchemaError::ViewText { bytes: self.query.len() });
        }
        let columns = self.reads.iter().map(|read| read.columns.len()).sum::<usize>();
        if limits::VIEW_COLUMNS < columns {
            return Err(SchemaError::ViewColumns { count: columns });
        }
        let is_name = |name: &str| name.len() <= limits::NAME_BYTES;
        for (at, read) in self.reads.iter().enumerate() {
            let is_new = self.reads[..at].iter().all(|other| other.name != read.name);
            let are_names = read.columns.iter().all(|(_, name)| is_name(name));
            if !is_new || !is_name(&read.name) || !are_names {
                return Err(SchemaError::BadName { name: read.name.clone() });
            }
        }
        Ok(())
    }
}

impl Comments {
    /// Returns true if there is no comment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_none() && self.columns.is_empty()
    }

    /// The comment on a column, if it has one.
    #[must_use]
    pub fn of_column(&self, column: ColumnId) -> Option<&str> {
        let found = self.columns.iter().find(|(id, _)| *id == column);
        found.map(|(_, text)| text.as_str())
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        self.table.iter().chain(self.columns.iter().map(|(_, text)| text))
    }

    /// Bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.texts().map(String::len).sum()
    }

    /// Checks that no comment is empty, and that they are within the limits for comments.
    pub(crate) fn check(&self) -> Result<(), SchemaError> {
        let bad = |text: &&String| text.is_empty() || limits::COMMENT_BYTES < text.len();
        if let Some(text) = self.texts().find(bad) {
            return Err(SchemaError::CommentText { bytes: text.len() });
        }
        match self.bytes() {
            bytes if limits::COMMENTS_BYTES < bytes => Err(SchemaError::CommentTexts { bytes }),
            _ => Ok(()),
        }
    }
}
