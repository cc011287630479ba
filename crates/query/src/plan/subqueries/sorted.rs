//! Subqueries in ORDER BY that read columns outside of the SELECT list.
//!
//! - Such a column is added to the list below the sort, and left out above it. DataFusion does that
//!   for the columns of ORDER BY itself, but not for those that a subquery reads.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Sort};

use super::expr_has_subqueries;
use super::free::free_columns_of;
use crate::types::tree_changes::ChangePlan;

/// Adds the columns in a whole plan.
pub(super) fn with_columns_of_sorts(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_nodes(&mut |node| match node {
        LogicalPlan::Sort(sort) if sort.expr.iter().any(|key| expr_has_subqueries(&key.expr)) => {
            with_columns_of_sort(sort)
        }
        node => Ok(Transformed::no(node)),
    })
    .data()
}

/// Adds the columns below one sort.
pub(crate) fn with_columns_of_sort(sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(list) = sort.input.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    let (listed, below) = (list.schema.columns(), list.input.schema());
    let free = sort.expr.iter().flat_map(|key| free_columns_of(&key.expr, &list.schema));
    let mut added = Vec::new();
    for column in free.map(|free| free.column) {
        if below.has_column(&column) && !added.contains(&column) {
            added.push(column);
        }
    }
    if added.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let columns = list.expr.iter().cloned().chain(added.into_iter().map(Expr::Column));
    let columns = columns.collect::<Vec<_>>();
    let input = LogicalPlanBuilder::from(list.input.as_ref().clone()).project(columns)?.build()?;
    let sort = LogicalPlan::Sort(Sort { input: Arc::new(input), ..sort });
    let listed = listed.into_iter().map(Expr::Column).collect::<Vec<_>>();
    Ok(Transformed::yes(LogicalPlanBuilder::from(sort).project(listed)?.build()?))
}
