//! Limits of the growth of conditions whose columns become the expressions of a projection.
//!
//! - expansion-1. A condition moves through a projection or an aggregate only as long as the filter
//!   has at most `NODES_MAX` nodes there, or grows by `GROWTH_MIN` nodes at most. A subquery that
//!   uses a column twice doubles it, and so does each one around that: two dozen made gigabytes of
//!   a statement of 700 bytes. A condition that stays above is evaluated there.
//! - expansion-2. An outer join is not looked for below projections, if the condition would have
//!   more nodes there: DataFusion replaces its columns while it looks.
//!
//! Nodes are counted without making the expressions. `merge_consecutive_projections` of DataFusion
//! needs no limit: it replaces no column that is used twice.

use std::collections::HashMap;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, qualified_name};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection};
use datafusion::optimizer::OptimizerConfig;
use datafusion::optimizer::optimizer::OptimizerRule;

use crate::types::expression_size::nodes_of;

/// The maximal number of nodes of a filter that has grown: planning some hundreds of such filters
/// takes seconds, and some hundred megabytes.
const NODES_MAX: usize = 2_000;
/// The nodes by which a filter may always grow: those of long lists beside a calculated column.
const GROWTH_MIN: usize = 16;

/// The name of DataFusion's rule that makes inner joins of outer ones.
pub(super) const ELIMINATE_OUTER_JOIN: &str = "eliminate_outer_join";

/// The growth that is left to the conditions of one filter (expansion-1).
pub(super) struct Growth {
    /// The nodes of the expression that replaces a column, by the column's full name.
    nodes: HashMap<String, usize>,
    left: usize,
}

impl Growth {
    /// Returns the growth that a filter directly above a node has.
    pub(super) fn below(node: &LogicalPlan, predicate: &Expr) -> Growth {
        let nodes = match node {
            LogicalPlan::Projection(projection) => {
                let columns = columns_of(projection);
                columns.map(|(name, expr)| (name, nodes_of(expr))).collect()
            }
            LogicalPlan::Aggregate(aggregate) => {
                let keys = aggregate.group_expr.iter();
                keys.map(|key| (key.schema_name().to_string(), nodes_of(bare(key)))).collect()
            }
            _ => HashMap::new(),
        };
        let left = NODES_MAX.saturating_sub(nodes_of(predicate)).max(GROWTH_MIN);
        Growth { nodes, left }
    }

    /// Takes the growth of a condition from what is left; returns false if that is too little.
    pub(super) fn takes(&mut self, condition: &Expr) -> bool {
        let growth = |column: &str| self.nodes.get(column).map_or(0, |nodes| nodes - 1);
        let counts = condition.column_refs_counts();
        let grown = counts.into_iter().fold(0, |sum: usize, (column, count)| {
            sum.saturating_add(growth(&column.flat_name()).saturating_mul(count))
        });
        let is_taken = grown <= self.left;
        if is_taken {
            self.left -= grown;
        }
        is_taken
    }
}

/// Calls DataFusion's rule that makes inner joins of outer ones (expansion-2).
pub(super) fn keep_near_outer_joins(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    match &plan {
        LogicalPlan::Filter(filter) if grows_below_projections(filter) => Ok(Transformed::no(plan)),
        _ => rule.rewrite(plan, config),
    }
}

/// Returns true if a condition has too many nodes below all projections under it.
fn grows_below_projections(filter: &Filter) -> bool {
    let LogicalPlan::Projection(_) = filter.input.as_ref() else { return false };
    let own = nodes_of(&filter.predicate);
    let counts = filter.predicate.column_refs_counts().into_iter();
    let mut uses =
        counts.map(|(column, count)| (column.flat_name(), count)).collect::<HashMap<_, _>>();
    let (mut grown, mut input) = (0_usize, &filter.input);
    while let LogicalPlan::Projection(projection) = input.as_ref() {
        let mut below = HashMap::<String, usize>::new();
        for (name, expr) in columns_of(projection) {
            let Some(count) = uses.get(&name).copied() else { continue };
            grown = grown.saturating_add((nodes_of(expr) - 1).saturating_mul(count));
            for (column, times) in expr.column_refs_counts() {
                let sum = below.entry(column.flat_name()).or_default();
                *sum = sum.saturating_add(times.saturating_mul(count));
            }
        }
        (uses, input) = (below, &projection.input);
    }
    NODES_MAX.saturating_sub(own).max(GROWTH_MIN) < grown
}

/// Returns the columns of a projection by their full names, without aliases.
fn columns_of(projection: &Projection) -> impl Iterator<Item = (String, &Expr)> {
    let columns = projection.schema.iter().zip(&projection.expr);
    columns.map(|((qualifier, field), expr)| (qualified_name(qualifier, field.name()), bare(expr)))
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        expr => expr,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};

    use super::*;

    /// Returns projections of `a + a`, each on top of the one before.
    fn doubled(times: usize) -> LogicalPlan {
        let row = LogicalPlanBuilder::values(vec![vec![lit(1)]]).unwrap();
        let row = row.project([col("column1").alias("a")]).unwrap();
        let plan = (0..times)
            .fold(row, |plan, _| plan.project([(col("a") + col("a")).alias("a")]).unwrap());
        plan.build().unwrap()
    }

    #[test]
    fn conditions_share_the_growth_of_their_filter() {
        let (projection, condition) = (doubled(1), col("a").is_not_null());
        let mut growth = Growth::below(&projection, &condition);
        // `a` becomes `a + a`, two nodes more.
        let taken = (0..NODES_MAX).take_while(|_| growth.takes(&condition)).count();
        assert_eq!(taken, (NODES_MAX - 2) / 2, "expansion-1");
        let long = col("a").in_list(vec![lit(7); NODES_MAX], false);
        let mut growth = Growth::below(&projection, &long);
        assert!(growth.takes(&long), "expansion-1: it hardly grows");
        let mut all = Growth::below(&doubled(0), &long);
        assert!(all.takes(&long), "expansion-1: a column for a column");
    }

    #[test]
    fn outer_joins_are_looked_for_where_conditions_stay_small() {
        for (times, expected) in [(0, false), (3, false), (9, false), (10, true), (400, true)] {
            let filter = Filter::try_new(col("a").is_not_null(), Arc::new(doubled(times))).unwrap();
            assert_eq!(grows_below_projections(&filter), expected, "expansion-2: {times}");
        }
    }
}
