//! Defaults of columns for which an INSERT gives no value.
//!
//! - A default is planned anew for each statement, as if it stood in it: `now()` is that of the
//!   statement. It reads no rows and no columns.
//! - Defaults stand behind the columns that are given.
//! - The next number of a column has no text: its call is a tree (`next_number`).

use std::sync::Arc;

use datafusion::common::Result as PlanResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::Projection;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Query, SelectItem, SetExpr, Value};
use tidegate_model::{Column, ColumnDefault, ColumnId, ColumnType, TableId};

use super::purpose::{Fill, Purpose};
use super::query_text::{QueryText, parse_query};
use super::{PendingQuery, Snapshots, plan_on};
use crate::error::{Error, Result};
use crate::numbers::NEXT_NUMBER;
use crate::sql::call::call_of;

impl Fill {
    /// Returns the expression of the default in a query.
    pub(super) fn written(&self) -> Result<SqlExpr> {
        let text = match &self.default {
            ColumnDefault::NextNumber => return Ok(next_number(self.table, self.column.id)),
            ColumnDefault::Expression(text) => text,
        };
        let mut query = parse_query(&format!("SELECT {text}"), &[])?.statement;
        let value = value_in(&mut query)?;
        Ok(std::mem::replace(value, SqlExpr::Value(Value::Null.into())))
    }

    /// Returns the planned value, in the type of the column.
    fn planned(&self, state: &SessionState) -> Result<Expr> {
        let text = match &self.default {
            ColumnDefault::NextNumber => "SELECT NULL".to_owned(),
            ColumnDefault::Expression(text) => format!("SELECT {text}"),
        };
        let mut query = parse_query(&text, &[])?;
        if self.default == ColumnDefault::NextNumber {
            *value_in(&mut query.statement)? = self.written()?;
        }
        value_of(state, &text, query, &self.column)
    }
}

/// Returns the call that gives the next number of a column.
fn next_number(table: TableId, column: ColumnId) -> SqlExpr {
    let digits = [table.0.to_string(), column.0.to_string()];
    call_of(NEXT_NUMBER, digits.map(|it| SqlExpr::Value(Value::Number(it, false).into())))
}

/// Returns the first item of a SELECT.
fn value_in(query: &mut Query) -> Result<&mut SqlExpr> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(no_value()) };
    match select.projection.first_mut() {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => Ok(expr),
        _ => Err(no_value()),
    }
}

fn no_value() -> Error {
    Error::NotSupported { position: None, feature: "a DEFAULT that reads rows" }
}

/// Returns the one value of a query without tables, in the type of a column.
fn value_of(state: &SessionState, text: &str, query: QueryText, column: &Column) -> Result<Expr> {
    let query = PendingQuery::new(state, text, query);
    let columns = std::slice::from_ref(column);
    let purpose = Purpose { columns, ..Purpose::default() };
    let plan = plan_on(&Snapshots::new(), state, query, &purpose)?;
    let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else {
        return Err(no_value());
    };
    let is_empty = matches!(&*input, LogicalPlan::EmptyRelation(EmptyRelation { .. }));
    match expr.into_iter().next().filter(|_| is_empty) {
        Some(expr) => Ok(expr.unalias()),
        None => Err(no_value()),
    }
}

/// Checks that a column of a type can have this default. `text` is a query for its value.
pub(crate) fn check_default(state: &SessionState, text: &str, ty: ColumnType) -> Result<()> {
    let column = Column { id: ColumnId(0), name: "value".to_owned(), ty };
    parse_query(text, &[])
        .and_then(|query| value_of(state, text, query, &column))
        .map(drop)
        .map_err(|error| super::error_positions::locate(text, error))
}

/// Returns the plan with the defaults behind its own columns.
pub(super) fn filled(
    plan: LogicalPlan,
    fills: &[Fill],
    state: &SessionState,
) -> Result<LogicalPlan> {
    if fills.is_empty() {
        return Ok(plan);
    }
    let own = plan.schema().columns().into_iter().map(Expr::Column);
    let mut exprs = own.collect::<Vec<_>>();
    for fill in fills {
        // No other column has this name.
        exprs.push(fill.planned(state)?.alias(format!("tidegate.default.{}", fill.column.id.0)));
    }
    let projected: PlanResult<Projection> = Projection::try_new(exprs, Arc::new(plan));
    Ok(LogicalPlan::Projection(projected?))
}

#[cfg(test)]
mod tests {
    use tidegate_storage::Snapshot;

    use super::*;
    use crate::names::INTERNAL_PREFIX;

    #[test]
    fn columns_are_filled_that_are_not_given() {
        let columns = ["a", "b", "c"].map(|name| (name.to_owned(), ColumnType::Int32));
        let schema =
            tidegate_model::Schema::new(&columns, None, tidegate_model::PartitionUnit::None);
        let text = ColumnDefault::Expression("1 + 1".to_owned());
        let defaults = [("b".to_owned(), ColumnDefault::NextNumber), ("c".to_owned(), text)];
        let schema = Arc::new(schema.unwrap().with_defaults(&defaults).unwrap());
        let table = Snapshot::of_no_rows(TableId(7), "t", &schema);
        let given = &schema.columns()[..1];
        let texts = |given: &[Column]| {
            let fills = Fill::of_missing(&table, given);
            fills.iter().map(|fill| fill.written().unwrap().to_string()).collect::<Vec<_>>()
        };
        assert!(NEXT_NUMBER.starts_with(INTERNAL_PREFIX));
        let number = format!("\"{NEXT_NUMBER}\"(7, 1)");
        assert_eq!(texts(given), [number.as_str(), "1 + 1"]);
        assert_eq!(texts(schema.columns()), [""; 0]);
    }
}
