//! Rows of a table as they leave the parser.
//!
//! Not here: their conversion when the table has changed in the meantime (`conversion`).

use std::sync::Arc;

use tidegate_model::Schema;
use tidegate_storage::RowBatch;

/// Rows of one table.
#[derive(Debug, Clone)]
pub struct TableRows {
    /// The name of the table in the first line that named it.
    pub table: String,
    /// The name of the designated timestamp, which is the last column.
    pub designated: String,
    /// The schema of the table by which the types were chosen; `None` if there was no table.
    pub schema: Option<Arc<Schema>>,
    /// The lines of the rows, counted from `first_line`.
    pub lines: Vec<u32>,
    /// The number of the line that is 0 in `lines`.
    pub first_line: u64,
    /// The values. A column of the table without a value in any row is missing.
    pub rows: RowBatch,
}

impl TableRows {
    /// The number of the line of a row, counted from 1.
    ///
    /// # Panics
    /// If there are fewer rows.
    #[must_use]
    pub fn line(&self, row: usize) -> u64 {
        self.first_line + u64::from(self.lines[row])
    }
}
