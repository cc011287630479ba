//! The numbers that fill GENERATED AS IDENTITY and SERIAL columns.
//!
//! - NU1. A number is given once, and is greater than all in the column, whatever has written
//!   those: an INSERT with an explicit number, COPY, an import. A number that a transaction has
//!   taken leaves a gap if the transaction is rolled back.
//! - NU2. Nothing is kept on disk: the next number follows from the bounds of the column in the
//!   table's segments. Deleted rows count as long as their segments exist.
//!
//! Not here: the choice of the columns that are filled (`model::view`), and filling them
//! (`plan::defaults`).

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result as PlanResult, ScalarValue, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tidegate_model::{ColumnDefault, ColumnId, ColumnType, SegmentId, TableId};
use tidegate_storage::{Error as StorageError, Snapshot, is_private};

use crate::changes::Changes;
use crate::error::{Error, Result};
use crate::rights::Deed;
use crate::system::Caller;

/// The function that gives the next number of a column, in the text of the column's default.
const NEXT_NUMBER: &str = "tidegate_next_number";

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
    /// Takes `count` numbers of a column, and returns the first one (NU1). `snapshot` is the
    /// current state of the table.
    fn take(&self, snapshot: &Snapshot, column: ColumnId, count: usize) -> Result<i64> {
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
    fn set(&self, table: TableId, column: ColumnId, next: i64) {
        self.counters().insert((table, column), Counter { next, seen: None });
    }

    /// Forgets the numbers of a table: they follow from its rows again.
    pub(crate) fn forget(&self, table: TableId) {
        self.counters().retain(|(known, _), _| *known != table);
    }

    fn counters(&self) -> MutexGuard<'_, HashMap<(TableId, ColumnId), Counter>> {
        // Only whole values are inserted, so a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counter {
    /// Moves above all numbers in segments that were not read yet (NU2).
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

/// The SQL text that gives the next number of a column.
pub(crate) fn next_number(table: TableId, column: ColumnId) -> String {
    format!("{NEXT_NUMBER}({}, {})", table.0, column.0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Takes the id of a table and that of a column.
    NextNumber,
    /// Takes the name of a sequence.
    NextVal,
    SetVal,
    /// The latest number that the session was given: of a sequence, or of any.
    CurrVal,
    LastVal,
}

/// The functions on numbers that users can call.
pub(crate) fn number_functions() -> impl Iterator<Item = &'static str> {
    ["nextval", "setval", "currval", "lastval"].into_iter()
}

/// A function on numbers, for the session that runs the statement.
pub(crate) fn number_function(state: &SessionState, name: &str) -> Option<Arc<ScalarUDF>> {
    let (name, kind, signature) = match name {
        NEXT_NUMBER => (NEXT_NUMBER, Kind::NextNumber, Signature::any(2, Volatility::Volatile)),
        "nextval" => ("nextval", Kind::NextVal, Signature::any(1, Volatility::Volatile)),
        "setval" => ("setval", Kind::SetVal, Signature::variadic_any(Volatility::Volatile)),
        "currval" => ("currval", Kind::CurrVal, Signature::any(1, Volatility::Volatile)),
        "lastval" => ("lastval", Kind::LastVal, Signature::nullary(Volatility::Volatile)),
        _ => return None,
    };
    let caller = Caller::of(state);
    Some(Arc::new(ScalarUDF::new_from_impl(NumberFunction { name, kind, signature, caller })))
}

#[derive(Debug)]
struct NumberFunction {
    name: &'static str,
    kind: Kind,
    signature: Signature,
    caller: Arc<Caller>,
}

impl PartialEq for NumberFunction {
    fn eq(&self, other: &NumberFunction) -> bool {
        self.kind == other.kind && Arc::ptr_eq(&self.caller, &other.caller)
    }
}

impl Eq for NumberFunction {}

impl Hash for NumberFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

impl ScalarUDFImpl for NumberFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let rows = args.number_rows;
        if self.kind == Kind::SetVal {
            let arrays = ColumnarValue::values_to_arrays(&args.args)?;
            let set = |row| -> PlanResult<Option<i64>> {
                let value = |array: &ArrayRef| ScalarValue::try_from_array(array, row);
                self.set(&arrays.iter().map(value).collect::<PlanResult<Vec<_>>>()?)
            };
            let set = (0..arrays.first().map_or(0, |array| array.len())).map(set);
            return Ok(ColumnarValue::Array(Arc::new(set.collect::<PlanResult<Int64Array>>()?)));
        }
        let constant = |arg: &ColumnarValue| match arg {
            ColumnarValue::Scalar(value) => Ok(value.clone()),
            ColumnarValue::Array(_) => plan_err!("the argument of {} is a constant", self.name),
        };
        let given = args.args.iter().map(constant).collect::<PlanResult<Vec<_>>>()?;
        if matches!(self.kind, Kind::CurrVal | Kind::LastVal) {
            let number = ScalarValue::Int64(Some(self.latest(given.first())?));
            return Ok(ColumnarValue::Scalar(number));
        }
        let (table, column) = match self.kind {
            Kind::NextNumber => (TableId(number(&given[0])?), column_number(&given[1])?),
            _ => {
                let sequence = self.sequence(&given[0])?;
                self.check_change(sequence.0, "nextval()")?;
                sequence
            }
        };
        let snapshot = self.table(table)?;
        let first = self.caller.system.numbers.take(&snapshot, column, rows)?;
        if let Some(more) = rows.checked_sub(1).and_then(|more| i64::try_from(more).ok()) {
            self.caller.session.note_number((table, column), first.saturating_add(more));
        }
        let numbers = (first..).take(rows);
        Ok(ColumnarValue::Array(Arc::new(numbers.collect::<Int64Array>())))
    }
}

fn number(value: &ScalarValue) -> PlanResult<u64> {
    match value.cast_to(&DataType::UInt64)? {
        ScalarValue::UInt64(Some(number)) => Ok(number),
        _ => plan_err!("the number of a table or column is none"),
    }
}

fn column_number(value: &ScalarValue) -> PlanResult<ColumnId> {
    match u32::try_from(number(value)?) {
        Ok(number) => Ok(ColumnId(number)),
        Err(_) => plan_err!("there is no such column"),
    }
}

impl NumberFunction {
    /// A table as its session sees it now.
    fn table(&self, table: TableId) -> Result<Arc<Snapshot>> {
        let Caller { system, session } = self.caller.as_ref();
        let seen = session.seen();
        if let Some(seen) = &seen
            && let Some(own) = seen.of_id(table)
        {
            return seen.rows_of(own);
        }
        let gone = || StorageError::TableDropped { table: format!("#{}", table.0) };
        let visible = session.visible(&system.database);
        let name = visible.table_name(table).ok_or_else(gone)?;
        let snapshot = visible.snapshot(&name)?;
        match seen {
            Some(seen) => seen.seen(&snapshot),
            None => Ok(snapshot),
        }
    }

    /// The column with numbers whose sequence would have this name in PostgreSQL.
    fn sequence(&self, name: &ScalarValue) -> PlanResult<(TableId, ColumnId)> {
        let Some(name) = name.try_as_str().flatten() else {
            return plan_err!("the name of a sequence is a text");
        };
        let bare = name.rsplit('.').next().unwrap_or(name).trim_matches('"');
        let Caller { system, session } = self.caller.as_ref();
        let visible = session.visible(&system.database);
        let of_all = visible.tables().into_iter().filter_map(|table| {
            let schema = visible.schema_of(&table.name)?;
            Some((table.id, table.name, schema))
        });
        let seen = session.seen();
        let own = seen.iter().flat_map(|seen| seen.temporary_tables());
        let own = own.map(|table| (table.id, table.name.clone(), Arc::clone(&table.schema)));
        for (id, table, schema) in own.chain(of_all) {
            let numbered =
                schema.defaults().iter().filter(|(_, it)| *it == ColumnDefault::NextNumber);
            for column in numbered.filter_map(|(column, _)| schema.column(*column)) {
                if sequence_name(&table, &column.name).eq_ignore_ascii_case(bare) {
                    return Ok((id, column.id));
                }
            }
        }
        Err(Error::NoSuchSequence { name: name.to_owned() }.into())
    }

    /// Checks that the session may change the numbers of a table: its rows have them, so the
    /// session must be able to write rows, unless the table is a temporary one of its own.
    fn check_change(&self, table: TableId, function: &'static str) -> Result<()> {
        let session = &self.caller.session;
        let is_own = |seen: Changes| seen.temporary_tables().any(|own| own.id == table);
        if session.seen().is_some_and(is_own) {
            return session.check_effect(function);
        }
        session.allow(Deed::Write(function))?;
        match session.is_read_only() {
            true => Err(Error::ReadOnly { statement: function }),
            false => Ok(()),
        }
    }

    /// The latest number that the session was given (NU3).
    fn latest(&self, sequence: Option<&ScalarValue>) -> PlanResult<i64> {
        let session = &self.caller.session;
        let name = sequence.map(|name| name.try_as_str().flatten().unwrap_or("").to_owned());
        let known = match sequence {
            Some(name) => session.known_number(Some(self.sequence(name)?)),
            None => session.known_number(None),
        };
        let is_there = |(table, _): &(TableId, i64)| self.table(*table).is_ok();
        let known = known.filter(is_there).map(|(_, number)| number);
        Ok(known.ok_or(Error::NoNumberYet { name })?)
    }

    /// `setval(sequence, number[, was given])`
    fn set(&self, given: &[ScalarValue]) -> PlanResult<Option<i64>> {
        let (Some(name), Some(value)) = (given.first(), given.get(1)) else {
            return plan_err!("setval takes the name of a sequence, and a number");
        };
        let (table, column) = self.sequence(name)?;
        self.check_change(table, "setval()")?;
        let ScalarValue::Int64(Some(number)) = value.cast_to(&DataType::Int64)? else {
            return Ok(None);
        };
        let was_given = !matches!(given.get(2), Some(ScalarValue::Boolean(Some(false))));
        let next = if was_given { number.saturating_add(1) } else { number };
        self.caller.system.numbers.set(table, column, next);
        if was_given {
            self.caller.session.set_number((table, column), number);
        }
        Ok(Some(number))
    }
}
