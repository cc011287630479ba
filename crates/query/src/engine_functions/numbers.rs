//! The functions on the numbers of identity columns: `nextval`, `setval`, `currval`, `lastval`.
//!
//! Not here: the counters (`numbers`).

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result as PlanResult, ScalarValue, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tidegate_model::{ColumnDefault, ColumnId, TableId};
use tidegate_storage::{Error as StorageError, Snapshot};

use crate::authorization::Privilege;
use crate::changes::Changes;
use crate::context::StatementContext;
use crate::error::{Error, Result};
use crate::numbers::{NEXT_NUMBER, column_number, number, sequence_name};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Takes the id of a table and that of a column. Only defaults call it: the statement that they
    /// fill was allowed to write rows.
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
        NEXT_NUMBER => {
            let shown = "tidegate_next_number";
            (shown, Kind::NextNumber, Signature::any(2, Volatility::Volatile))
        }
        "nextval" => ("nextval", Kind::NextVal, Signature::any(1, Volatility::Volatile)),
        "setval" => ("setval", Kind::SetVal, Signature::variadic_any(Volatility::Volatile)),
        "currval" => ("currval", Kind::CurrVal, Signature::any(1, Volatility::Volatile)),
        "lastval" => ("lastval", Kind::LastVal, Signature::nullary(Volatility::Volatile)),
        _ => return None,
    };
    let caller = StatementContext::of(state);
    Some(Arc::new(ScalarUDF::new_from_impl(NumberFunction { name, kind, signature, caller })))
}

#[derive(Debug)]
struct NumberFunction {
    name: &'static str,
    kind: Kind,
    signature: Signature,
    caller: Arc<StatementContext>,
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

impl NumberFunction {
    /// A table as its session sees it now.
    fn table(&self, table: TableId) -> Result<Arc<Snapshot>> {
        let StatementContext { system, session } = self.caller.as_ref();
        let own_changes = session.own_changes();
        if let Some(own_changes) = &own_changes
            && let Some(own) = own_changes.of_id(table)
        {
            return own_changes.rows_of(own);
        }
        let gone = || StorageError::TableDropped { table: format!("#{}", table.0) };
        let visible = session.visible(&system.database);
        let name = visible.table_name(table).ok_or_else(gone)?;
        let snapshot = visible.snapshot(&name)?;
        match own_changes {
            Some(changes) => changes.overlay_on(&snapshot),
            None => Ok(snapshot),
        }
    }

    /// The column with numbers whose sequence would have this name in PostgreSQL.
    fn sequence(&self, name: &ScalarValue) -> PlanResult<(TableId, ColumnId)> {
        let Some(name) = name.try_as_str().flatten() else {
            return plan_err!("the name of a sequence is a text");
        };
        let bare = name.rsplit('.').next().unwrap_or(name).trim_matches('"');
        let StatementContext { system, session } = self.caller.as_ref();
        let visible = session.visible(&system.database);
        let of_all = visible.tables().into_iter().filter_map(|table| {
            let schema = visible.schema_of(&table.name)?;
            Some((table.id, table.name, schema))
        });
        let own_changes = session.own_changes();
        let own = own_changes.iter().flat_map(|changes| changes.temporary_tables());
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
        let is_own = |changes: Changes| changes.temporary_tables().any(|own| own.id == table);
        if session.own_changes().is_some_and(is_own) {
            return session.check_effect(function);
        }
        session.allow(Privilege::Write(function))?;
        match session.is_read_only() {
            true => Err(Error::ReadOnly { statement: function }),
            false => Ok(()),
        }
    }

    /// The latest number that the session was given.
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
