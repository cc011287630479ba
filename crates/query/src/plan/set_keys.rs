//! Keys of GROUPING SETS, ROLLUP and CUBE: they are calculated by a projection below the aggregate.
//!
//! - After [`with_set_keys`], such a key is a column of the input, under a name that no rule
//!   changes, and floats and intervals among them are keys of `types::float_order`.
//!
//! DataFusion keeps the names of expressions that rules rewrite, but not within a grouping set.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder};

use crate::names::INTERNAL_PREFIX;
use crate::sql::cast_names::unnamed;
use crate::types::aggregate_cast_names::plain_cast;
use crate::types::float_order;
use crate::types::tree_changes::{ChangeParts, ChangePlan};

/// The keys that are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Calculated keys, before other rules.
    Calculated,
    /// Floats and intervals, which become keys of `types::float_order`.
    OfFloats,
}

/// Moves the keys of a whole plan.
pub(super) fn with_set_keys(plan: LogicalPlan, kind: Keys) -> Result<LogicalPlan> {
    plan.change_nodes(&mut |node| match &node {
        LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(sets)] => below(aggregate, sets, &node, kind),
            _ => Ok(Transformed::no(node)),
        },
        _ => Ok(Transformed::no(node)),
    })
    .data()
}

fn below(
    aggregate: &Aggregate,
    sets: &GroupingSet,
    node: &LogicalPlan,
    kind: Keys,
) -> Result<Transformed<LogicalPlan>> {
    let schema = aggregate.input.schema();
    let keys = sets.distinct_expr().into_iter().cloned().collect::<Vec<_>>();
    let is_kept = |key: &Expr| match kind {
        Keys::Calculated => matches!(key, Expr::Column(_)),
        Keys::OfFloats => !float_order::needs_key(key, schema),
    };
    if keys.iter().all(is_kept) {
        return Ok(Transformed::no(node.clone()));
    }
    let named = |(number, key): (usize, &Expr)| match is_kept(key) {
        true => key.clone(),
        false => {
            Expr::Column(Column::new_unqualified(format!("{INTERNAL_PREFIX}{kind:?} {number}")))
        }
    };
    let names = keys.iter().enumerate().map(named).collect::<Vec<_>>();
    let pairs = keys.iter().zip(&names);
    let made = pairs.clone().filter(|(key, name)| key != name).map(|(key, name)| {
        let key = key.clone().unalias();
        let key = if kind == Keys::OfFloats { float_order::key(key, schema) } else { key };
        key.alias(name.schema_name().to_string())
    });
    let columns = schema.columns().into_iter().map(Expr::Column);
    let input = LogicalPlanBuilder::from(aggregate.input.as_ref().clone());
    let input = input.project(columns.chain(made).collect::<Vec<_>>())?.build()?;
    let column = |key: &Expr| match keys.iter().position(|it| plain(it) == plain(key)) {
        Some(at) => names[at].clone(),
        None => key.clone(),
    };
    let columns = |keys: &Vec<Expr>| keys.iter().map(column).collect::<Vec<_>>();
    let sets = match sets {
        GroupingSet::Rollup(keys) => GroupingSet::Rollup(columns(keys)),
        GroupingSet::Cube(keys) => GroupingSet::Cube(columns(keys)),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.iter().map(columns).collect())
        }
    };
    let preserver = NamePreserver::new(node);
    let call = |call: &Expr| {
        let saved = preserver.save(call);
        let made = call.clone().change_parts(&mut |expr| Ok(of_columns(expr, &column)))?;
        Ok(if made.transformed { saved.restore(made.data) } else { made.data })
    };
    let calls = aggregate.aggr_expr.iter().map(call).collect::<Result<Vec<_>>>()?;
    let listed = pairs.map(|(key, name)| {
        let (relation, old) = key.qualified_name();
        name.clone().alias_qualified(relation, old)
    });
    let results = calls.iter().map(|call| {
        let (relation, name) = call.qualified_name();
        Expr::Column(Column::new(relation, name))
    });
    let listed = listed.chain(results).collect::<Vec<_>>();
    let groups = Aggregate::try_new(Arc::new(input), vec![Expr::GroupingSet(sets)], calls)?;
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(groups)).project(listed)?.build()?;
    Ok(Transformed::yes(plan))
}

/// Returns the expression with casts that have no name (`cast_names`, `aggregate_cast_names`).
fn plain(expr: &Expr) -> Expr {
    let changed = expr.clone().change_parts(&mut |expr| {
        Ok(match expr {
            Expr::ScalarFunction(call) => match plain_cast(call).or_else(unnamed) {
                Ok(cast) => Transformed::yes(cast),
                Err(call) => Transformed::no(Expr::ScalarFunction(call)),
            },
            expr => Transformed::no(expr),
        })
    });
    // The closure never fails.
    changed.map_or_else(|_| expr.clone(), |changed| changed.data)
}

/// Rewrites `grouping(key)` over the columns.
fn of_columns(expr: Expr, column: &impl Fn(&Expr) -> Expr) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(AggregateFunction { func, mut params })
            if func.name() == "grouping" =>
        {
            params.args = params.args.iter().map(column).collect();
            Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        expr => Transformed::no(expr),
    }
}
