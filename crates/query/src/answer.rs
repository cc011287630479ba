//! The result of a statement: rows as a stream, or a command tag.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;

/// The result of a statement.
pub enum Answer {
    /// A query's rows.
    Rows {
        /// The names and types of the columns.
        schema: SchemaRef,
        /// The position of the designated timestamp among them.
        designated: Option<usize>,
        /// The rows, as they are computed. Dropping the stream stops the statement.
        stream: SendableRecordBatchStream,
        /// Notices for the user, a sentence each.
        notices: Vec<String>,
    },
    /// A statement without rows.
    Done {
        /// The command tag: `CREATE TABLE`, or with a count `DELETE 3`.
        tag: String,
        /// The number of changed rows; `None` if the statement does not count rows.
        rows: Option<u64>,
        /// Notices for the user, a sentence each.
        notices: Vec<String>,
    },
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Answer::Rows { schema, .. } => f.debug_struct("Rows").field("schema", schema).finish(),
            Answer::Done { tag, notices, .. } => {
                f.debug_struct("Done").field("tag", tag).field("notices", notices).finish()
            }
        }
    }
}

/// The result of a statement without rows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) tag: &'static str,
    pub(crate) rows: Option<u64>,
    pub(crate) notices: Vec<String>,
}

impl Done {
    pub(crate) fn new(tag: &'static str) -> Done {
        Done::with_notices(tag, Vec::new())
    }

    pub(crate) fn with_notices(tag: &'static str, notices: Vec<String>) -> Done {
        Done { tag, rows: None, notices }
    }

    pub(crate) fn of_rows(tag: &'static str, rows: u64, notices: Vec<String>) -> Done {
        Done { tag, rows: Some(rows), notices }
    }

    pub(crate) fn answer(self) -> Answer {
        let Done { tag, rows, notices } = self;
        let tag = rows.map_or(tag.to_owned(), |rows| format!("{tag} {rows}"));
        Answer::Done { tag, rows, notices }
    }
}
