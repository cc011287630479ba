//! Filter pushdown that leaves some conditions above aggregates, windows and DISTINCT.
//!
//! - A condition without columns is not moved below an aggregate that returns a row for an empty
//!   input: below it, that row would stay although the condition is false.
//! - A random condition is not moved below an operator that makes one row of several, or numbers
//!   rows.
//! - A comparison with the constant NULL is false. Of `x > NULL AND x > 1`, which it has where the
//!   column of a subquery is NULL, DataFusion keeps the second one as the most restrictive.
//! - A condition that would grow too much stays above a projection or an aggregate (`expansion`).
//!
//! DataFusion moves only conditions on group keys, and takes one without columns for such a one.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, Filter, GroupingSet, LogicalPlan, lit,
};
use datafusion::optimizer::OptimizerConfig;
use datafusion::optimizer::optimizer::OptimizerRule;

use super::expansion::Growth;

/// The name of DataFusion's rule.
pub(super) const PUSH_DOWN_FILTER: &str = "push_down_filter";

/// Calls DataFusion's rule that moves filters down; keeps some of them in place.
pub(super) fn push_down_safely(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = plan else { return rule.rewrite(plan, config) };
    let filter = without_null(merged(filter)?)?;
    let Filter { predicate, input, .. } = &filter;
    let mut growth = Growth::below(input, predicate);
    let is_kept = |condition: &Expr| stays_above(condition, input) || !growth.takes(condition);
    let are_kept = split_conjunction(predicate).into_iter().map(is_kept).collect::<Vec<bool>>();
    if !are_kept.contains(&true) {
        return rule.rewrite(LogicalPlan::Filter(filter), config);
    }
    let Filter { predicate, input, .. } = filter;
    let (mut kept, mut moved) = (Vec::new(), Vec::new());
    for (condition, is_kept) in split_conjunction_owned(predicate).into_iter().zip(are_kept) {
        if is_kept { kept.push(condition) } else { moved.push(condition) }
    }
    let kept = conjunction(kept).expect("there is one");
    let filtered = |input: LogicalPlan| -> Result<LogicalPlan> {
        Ok(LogicalPlan::Filter(Filter::try_new(kept, Arc::new(input))?))
    };
    match conjunction(moved) {
        None => Ok(Transformed::no(filtered(Arc::unwrap_or_clone(input))?)),
        Some(moved) => {
            let moved = LogicalPlan::Filter(Filter::try_new(moved, input)?);
            rule.rewrite(moved, config)?.map_data(filtered)
        }
    }
}

/// Merges a filter with those directly below it.
fn merged(filter: Filter) -> Result<Filter> {
    let Filter { mut predicate, mut input, .. } = filter;
    while let LogicalPlan::Filter(below) = input.as_ref() {
        predicate = below.predicate.clone().and(predicate);
        input = Arc::clone(&below.input);
    }
    Filter::try_new(predicate, input)
}

/// Makes false of the comparisons with NULL among the conditions of a filter.
fn without_null(filter: Filter) -> Result<Filter> {
    if !split_conjunction(&filter.predicate).into_iter().any(is_never_true) {
        return Ok(filter);
    }
    let conditions = split_conjunction_owned(filter.predicate).into_iter();
    let conditions = conditions.map(|it| if is_never_true(&it) { lit(false) } else { it });
    let predicate = conjunction(conditions).expect("there is one");
    Filter::try_new(predicate, filter.input)
}

fn is_never_true(condition: &Expr) -> bool {
    let is_null = |side: &Expr| matches!(side, Expr::Literal(value, _) if value.is_null());
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            op.returns_null_on_null() && (is_null(left) || is_null(right))
        }
        _ => false,
    }
}

/// Returns true if a condition stays above a node.
fn stays_above(condition: &Expr, below: &LogicalPlan) -> bool {
    match below {
        LogicalPlan::Aggregate(aggregate) => {
            condition.is_volatile()
                || has_row_for_none(aggregate) && condition.column_refs().is_empty()
        }
        LogicalPlan::Window(_) | LogicalPlan::Distinct(Distinct::All(_) | Distinct::On(_)) => {
            condition.is_volatile()
        }
        _ => false,
    }
}

/// Returns true if an aggregate has a row for an empty input.
fn has_row_for_none(aggregate: &Aggregate) -> bool {
    match aggregate.group_expr.as_slice() {
        [] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        [Expr::GroupingSet(_)] => true,
        _ => false,
    }
}
