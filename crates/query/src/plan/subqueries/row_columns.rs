//! Rows that are IN a subquery, as their columns and those of the subquery.

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection};

/// The function that `row_values` makes of a row.
const STRUCT: &str = "struct";

/// True for a row that is written out.
pub(super) fn is_row(expr: &Expr) -> bool {
    columns(expr).is_some()
}

/// The columns of a row, and a subquery with as many; a value that is no row, and the subquery as
/// it is.
pub(super) fn split_row(expr: Expr, rows: LogicalPlan) -> Result<(Vec<Expr>, LogicalPlan)> {
    let Some(values) = columns(&expr) else { return Ok((vec![expr], rows)) };
    let LogicalPlan::Projection(Projection { expr: list, input, .. }) = &rows else {
        return Ok((vec![expr], rows));
    };
    let Some(listed) = list.first().and_then(columns) else { return Ok((vec![expr], rows)) };
    if values.len() != listed.len() {
        return plan_err!("the subquery has {} columns, the row {}", listed.len(), values.len());
    }
    let named = listed.iter().enumerate();
    let named = named.map(|(at, column)| column.clone().alias(format!("column {}", at + 1)));
    let apart = LogicalPlanBuilder::from(input.as_ref().clone())
        .project(named.collect::<Vec<_>>())?
        .build()?;
    Ok((values.to_vec(), apart))
}

fn columns(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Alias(alias) => columns(&alias.expr),
        Expr::ScalarFunction(call) if call.func.name() == STRUCT => Some(&call.args),
        _ => None,
    }
}
