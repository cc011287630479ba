//! The numbers that fill GENERATED AS IDENTITY and SERIAL columns.
//!
//! - A number is given once, and is greater than all in the column, whatever has written those: an
//!   INSERT with an explicit number, COPY, an import. A number that a transaction has taken leaves
//!   a gap if the transaction is rolled back.
//! - Nothing is kept on disk: the next number follows from the bounds of the column in the table's
//!   segments. Deleted rows count as long as their segments exist.
//!
//! Not here: the choice of the columns that are filled (`model::view`), and filling them
//! (`plan::defaults`).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result as PlanResult, ScalarValue, plan_err};
use tidegate_model::{ColumnId, ColumnType, SegmentId, TableId};
use tidegate_storage::{Snapshot, is_private};

use crate::error::{Error, Result};

/// The function that gives the next number of a column, by its name in the trees of defaults. It
/// asks for no privilege, so no statement can write the name (`INTERNAL_PREFIX`).
pub(crate) const NEXT_NUMBER: &str = "\u{1}next number";

/// The counters of all columns that have one.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Mutex<HashMap<(TableId, ColumnId), Counter>>);

/// The state of one column's numbers.
#[derive(Debug, Clone, Copy)]
struct Counter {
    next: i64,
    /// The newest segment that was read.
    seen: Option<SegmentId>,
}

impl Numbers {
    /// Takes `count` numbers of a column, and returns the first one. `snapshot` is the
    /// current state of the table.
    pub(crate) fn take(&self, snapshot: &Snapshot, column: ColumnId, count: usize) -> Result<i64> {
        let mut counters = self.counters();
        let new = Counter { next: 1, seen: None };
        let counter = counters.entry((snapshot.table, column)).or_insert(new);
        counter.look_at(snapshot, column)?;
        let first = counter.next;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        counter.next = first
            .checked_add(count)
            .ok_or_else(|| Error::NoNumbersLeft { table: snapshot.name.clone() })?;
        Ok(first)
    }

    /// Sets the next number of a column; a greater number in the segments takes precedence.
    pub(crate) fn set(&self, table: TableId, column: ColumnId, next: i64) {
        self.counters().insert((table, column), Counter { next, seen: None });
    }

    /// Forgets the numbers of a table: they follow from its rows again.
    pub(crate) fn forget(&self, table: TableId) {
        self.counters().retain(|(known, _), _| *known != table);
    }

    /// Forgets the numbers of one column.
    pub(crate) fn forget_column(&self, table: TableId, column: ColumnId) {
        self.counters().remove(&(table, column));
    }

    fn counters(&self) -> MutexGuard<'_, HashMap<(TableId, ColumnId), Counter>> {
        // Only whole values are inserted, so a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counter {
    /// Moves above all numbers in segments that were not read yet.
    fn look_at(&mut self, snapshot: &Snapshot, column: ColumnId) -> Result<()> {
        let is_new = |id: SegmentId| is_private(id) || self.seen.is_none_or(|seen| seen < id);
        let new = snapshot.segments().filter(|run| is_new(run.meta.id)).collect::<Vec<_>>();
        for run in new {
            let reader = run.reader()?;
            let footer = reader.footer().columns.iter().find(|footer| footer.id == column);
            if let Some(bounds) = footer.map(|it| it.bounds).filter(|bounds| bounds.has_value) {
                // Words are sign-extended; a UBIGINT may be above all numbers that can be given.
                let greatest = match bounds.max.cast_signed() {
                    below if below < 0 && column_is_unsigned(snapshot, column) => i64::MAX,
                    word => word,
                };
                self.next = self.next.max(greatest.saturating_add(1));
            }
            let id = run.meta.id;
            if !is_private(id) {
                self.seen = self.seen.max(Some(id));
            }
        }
        Ok(())
    }
}

fn column_is_unsigned(snapshot: &Snapshot, column: ColumnId) -> bool {
    snapshot.schema.column(column).is_some_and(|column| column.ty == ColumnType::UInt64)
}

/// The name that PostgreSQL would give to the sequence of a column.
pub(crate) fn sequence_name(table: &str, column: &str) -> String {
    format!("{table}_{column}_seq")
}

pub(crate) fn number(value: &ScalarValue) -> PlanResult<u64> {
    match value.cast_to(&DataType::UInt64)? {
        ScalarValue::UInt64(Some(number)) => Ok(number),
        _ => plan_err!("the number of a table or column is none"),
    }
}

pub(crate) fn column_number(value: &ScalarValue) -> PlanResult<ColumnId> {
    match u32::try_from(number(value)?) {
        Ok(number) => Ok(ColumnId(number)),
        Err(_) => plan_err!("there is no such column"),
    }
}
