//! LATEST ON in a query: the logical node above its rows, with bounds of the number of keys.
//!
//! Not here: the operator (`timeseries::latest`).

use datafusion::common::{Column, Result, internal_err};
use datafusion::logical_expr::expr::{BinaryExpr, InList};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;

use crate::error::{ClauseProblem, Error};
use crate::names::table_name;
use crate::sql::clauses::LatestClause;
use crate::timeseries::designated::designated;
use crate::timeseries::extension;
use crate::timeseries::latest::{KeyBound, LatestOn};
use crate::types::bucket::time_unit;

/// Returns the plan of rows with LATEST ON.
pub(crate) fn latest(
    clause: &LatestClause,
    rows: LogicalPlan,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let column = |expr: &SqlExpr, context: &mut dyn RelationPlannerContext| match context
        .sql_to_expr(expr.clone(), rows.schema())?
    {
        Expr::Column(column) => Ok(column),
        _ => internal_err!("a name is no column"),
    };
    let time = match &clause.timestamp {
        Some(timestamp) => column(timestamp, context)?,
        None => designated(&rows).ok_or_else(|| {
            let what = ClauseProblem::NoDesignated { clause: "LATEST BY" };
            Error::Clause { position: Some(clause.position), what }
        })?,
    };
    let no_time = |_| {
        let what = ClauseProblem::NotTimestamp { column: time.name.clone() };
        Error::Clause { position: Some(clause.position), what }
    };
    time_unit(rows.schema(), &time).map_err(no_time)?;
    let keys = clause.keys.iter().map(|key| column(key, context)).collect::<Result<Vec<_>>>()?;
    let bounds = key_bounds(&rows, &keys);
    Ok(extension(LatestOn { input: rows, time, keys, bounds }))
}

/// Returns the bound of each key.
fn key_bounds(rows: &LogicalPlan, keys: &[Column]) -> Vec<KeyBound> {
    let mut conditions = Vec::new();
    let reads_table = reads_table(rows, &mut conditions);
    let bound = |key: &Column| {
        let listed = conditions.iter().filter_map(|condition| values_listed(condition, &key.name));
        match listed.min() {
            _ if !reads_table => KeyBound::Unknown,
            Some(count) => KeyBound::Listed(count),
            None => KeyBound::Symbols(key.name.clone()),
        }
    };
    keys.iter().map(bound).collect()
}

/// Returns true if a plan reads one table, with its columns under their names, and adds the
/// conditions that all of its rows pass.
fn reads_table<'a>(plan: &'a LogicalPlan, conditions: &mut Vec<&'a Expr>) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => table_name(&scan.table_name).is_some(),
        LogicalPlan::SubqueryAlias(alias) => reads_table(&alias.input, conditions),
        LogicalPlan::Filter(filter) => {
            conditions.extend(split_conjunction(&filter.predicate));
            reads_table(&filter.input, conditions)
        }
        LogicalPlan::Projection(projection) => {
            let is_column = |expr: &Expr| matches!(expr, Expr::Column(_));
            projection.expr.iter().all(is_column) && reads_table(&projection.input, conditions)
        }
        _ => false,
    }
}

/// Returns the number of values of a column that a condition lists: `k = 'a'`, `k IN ('a', 'b')`.
fn values_listed(condition: &Expr, column: &str) -> Option<usize> {
    let is_it = |expr: &Expr| matches!(expr, Expr::Column(it) if it.name == column);
    let is_literal = |expr: &Expr| matches!(expr, Expr::Literal(..));
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let is_one = is_it(left) && is_literal(right) || is_literal(left) && is_it(right);
            is_one.then_some(1)
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            (is_it(expr) && list.iter().all(is_literal)).then_some(list.len())
        }
        Expr::IsNull(expr) => is_it(expr).then_some(1),
        _ => None,
    }
}
