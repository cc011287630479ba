//! Nullability of scalar subqueries that may return no row.
//!
//! - After [`with_nullable_subqueries`], the value of a scalar subquery that may have no row may be
//!   NULL. DataFusion takes it for as nullable as the column of the subquery, and a constant of a
//!   table without rows then failed.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery};

use super::declared::nullable;
use crate::types::tree_changes::{ChangeParts, ChangePlan};

/// Declares the values of scalar subqueries of a whole plan nullable where they may be.
pub(super) fn with_nullable_subqueries(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut is_declared = false;
    plan.change_nodes(&mut |node| {
        let names = NamePreserver::new(&node);
        let node = node.change_exprs(&mut |expr| {
            let saved = names.save(&expr);
            let expr = expr.change_parts(&mut |expr| match expr {
                Expr::ScalarSubquery(subquery) => with_nullable_value(subquery),
                expr => Ok(Transformed::no(expr)),
            })?;
            is_declared |= expr.transformed;
            Ok(if expr.transformed { expr.update_data(|expr| saved.restore(expr)) } else { expr })
        })?;
        // The nullability of a field goes up through the nodes above.
        if is_declared { node.map_data(LogicalPlan::recompute_schema) } else { Ok(node) }
    })
    .data()
}

fn with_nullable_value(subquery: Subquery) -> Result<Transformed<Expr>> {
    let plan = &subquery.subquery;
    let columns = plan.schema().columns();
    let [column] = &columns[..] else {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    };
    let is_correlated = !subquery.outer_ref_columns.is_empty();
    if is_correlated || plan.schema().field(0).is_nullable() || has_a_row(plan) {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    }
    let (relation, name) = (column.relation.clone(), column.name.clone());
    let value = nullable(Expr::Column(column.clone())).alias_qualified(relation, name);
    let plan = LogicalPlanBuilder::from(plan.as_ref().clone()).project([value])?.build()?;
    Ok(Transformed::yes(Expr::ScalarSubquery(subquery.with_plan(Arc::new(plan)))))
}

/// Returns true for an aggregate without groups and for a list of expressions without FROM.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(relation) => relation.produce_one_row,
        _ => false,
    }
}
