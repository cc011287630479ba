//! The purpose of a planned query besides its answer: the table that it changes, and the columns
//! that store its rows.
//!
//! Not here: planning for it (`plan::rows`), and the values of defaults (`plan::defaults`).

use tidegate_model::{Column, ColumnDefault, TableId};
use tidegate_storage::Snapshot;

use crate::parse::Name;

/// The purpose of a planned query, besides its answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Purpose<'a> {
    /// The table that is known under `TARGET`, with the ids of its rows.
    pub(super) target: Option<&'a Name>,
    /// The columns that store the first columns of the answer. Empty: nothing is stored.
    pub(super) columns: &'a [Column],
    /// The rows that are read of `target`.
    pub(super) rows: TargetRows,
    /// Columns that are filled behind those of the answer.
    pub(super) fills: &'a [Fill],
}

/// The rows that are read of the table that is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TargetRows {
    /// Those in segments: only they can be removed, and the memtable was flushed before.
    #[default]
    Flushed,
    /// All: the plan is only shown, and the memtable is not flushed for that.
    All,
    /// None: only its columns matter.
    None,
    /// All, without their ids: the answer of RETURNING is described.
    Returned,
}

/// A column with its default.
#[derive(Debug, Clone)]
pub(crate) struct Fill {
    pub(crate) column: Column,
    pub(super) table: TableId,
    pub(super) default: ColumnDefault,
}

impl Fill {
    /// Returns the column of a table with its default, if it has one.
    pub(super) fn of(table: &Snapshot, column: &Column) -> Option<Fill> {
        let default = table.schema.default_of(column.id)?.clone();
        Some(Fill { column: column.clone(), table: table.table, default })
    }

    /// Returns the columns of a table that have a default and are not given.
    pub(super) fn of_missing(table: &Snapshot, given: &[Column]) -> Vec<Fill> {
        let is_missing = |column: &&Column| given.iter().all(|given| given.id != column.id);
        let columns = table.schema.columns().iter().filter(is_missing);
        columns.filter_map(|column| Fill::of(table, column)).collect()
    }
}
