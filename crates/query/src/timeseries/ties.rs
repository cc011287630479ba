//! `FETCH FIRST n ROWS WITH TIES`: the first rows of a sorted result, and the rows behind them that
//! ORDER BY does not tell from the last of these.
//!
//! - A row is one of them if its rank, which counts the rows with lesser keys, is at most the
//!   number of rows that are skipped and wanted.
//!
//! All rows are sorted, also where few are wanted.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, Result};
use datafusion::functions_window::expr_fn::rank;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr, lit,
};

use crate::error::Error;
use crate::names::INTERNAL_PREFIX;

/// Returns the rows of a sorted plan behind the first `skip` of them, up to the last one that ties
/// with the last of `count`.
pub(super) fn first_with_ties(plan: LogicalPlan, skip: usize, count: usize) -> Result<LogicalPlan> {
    if count == 0 {
        return LogicalPlanBuilder::from(plan).limit(0, Some(0))?.build();
    }
    match plan {
        // It leaves out keys.
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let rows = first_with_ties(Arc::unwrap_or_clone(input), skip, count)?;
            Projection::try_new(expr, Arc::new(rows)).map(LogicalPlan::Projection)
        }
        LogicalPlan::Sort(Sort { expr, input, fetch: None }) => {
            let last = u64::try_from(skip.saturating_add(count)).unwrap_or(u64::MAX);
            ranked(Arc::unwrap_or_clone(input), expr, last)?.into_rows(skip)
        }
        _ => {
            let feature = "FETCH .. WITH TIES beside DISTINCT ON";
            Err(Error::NotSupported { position: None, feature }.into())
        }
    }
}

/// The rows of the first ranks.
struct Ranked {
    plan: LogicalPlan,
    /// The keys of the order, as columns of the plan.
    keys: Vec<SortExpr>,
    /// The columns without those that were added.
    columns: Vec<Column>,
}

impl Ranked {
    /// Returns the rows in their order, without the first ones.
    fn into_rows(self, skip: usize) -> Result<LogicalPlan> {
        LogicalPlanBuilder::from(self.plan)
            .sort(self.keys)?
            .limit(skip, None)?
            .project(self.columns.into_iter().map(Expr::Column))?
            .build()
    }
}

/// Adds the columns that a list leaves out, if a subquery among the keys may read them.
fn with_hidden_columns(plan: LogicalPlan, by: &[SortExpr]) -> Result<LogicalPlan> {
    let is_subquery = |part: &Expr| {
        matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        )
    };
    let has_subquery = |key: &SortExpr| key.expr.exists(|part| Ok(is_subquery(part)));
    let LogicalPlan::Projection(Projection { expr, input, schema, .. }) = &plan else {
        return Ok(plan);
    };
    if !by.iter().any(|key| has_subquery(key).expect("it never fails")) {
        return Ok(plan);
    }
    let is_hidden = |column: &Column| !schema.has_column_with_unqualified_name(&column.name);
    let hidden = input.schema().columns().into_iter().filter(is_hidden).map(Expr::Column);
    let listed = expr.iter().cloned().chain(hidden).collect::<Vec<_>>();
    LogicalPlanBuilder::from(input.as_ref().clone()).project(listed)?.build()
}

/// Returns the rows of a plan whose rank is at most `last`.
fn ranked(plan: LogicalPlan, by: Vec<SortExpr>, last: u64) -> Result<Ranked> {
    let columns = plan.schema().columns();
    let plan = with_hidden_columns(plan, &by)?;
    let mut listed = plan.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let mut keys = Vec::with_capacity(by.len());
    for SortExpr { expr, asc, nulls_first } in by {
        let column = match expr.unalias() {
            Expr::Column(column) => column,
            value => {
                let name = format!("{INTERNAL_PREFIX}tie {}", keys.len());
                listed.push(value.alias(&name));
                Column::new_unqualified(name)
            }
        };
        keys.push(Expr::Column(column).sort(asc, nulls_first));
    }
    let rank_name = format!("{INTERNAL_PREFIX}rank");
    let rank = rank().order_by(keys.clone()).build()?.alias(&rank_name);
    let is_first = Expr::Column(Column::new_unqualified(rank_name)).lt_eq(lit(last));
    let plan = LogicalPlanBuilder::from(plan)
        .project(listed)?
        .window([rank])?
        .filter(is_first)?
        .build()?;
    Ok(Ranked { plan, keys, columns })
}
