//! Resolution of `first`, `last` and their like: DataFusion's `first_value` and `last_value` in the
//! order of the designated timestamp (`functions::first_last`).

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::functions_aggregate::first_last::{first_value_udaf, last_value_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr};

use crate::error::ClauseProblem;
use crate::functions::first_last::NAMES;
use crate::scan::ScanOrder;
use crate::scan::order::in_table_order;
use crate::timeseries::designated;
use crate::types::tree_changes::{ChangeParts, ChangePlan};

/// Resolves the placeholders of a whole plan.
pub(crate) fn resolve_first_last(plan: LogicalPlan) -> Result<LogicalPlan> {
    let resolved = plan.change_nodes(&mut |node| {
        let LogicalPlan::Aggregate(aggregate) = &node else { return Ok(Transformed::no(node)) };
        if !aggregate.aggr_expr.iter().any(|expr| called(expr).is_some()) {
            return Ok(Transformed::no(node));
        }
        let Some(time) = designated(&aggregate.input) else {
            let clause = aggregate.aggr_expr.iter().find_map(called).unwrap_or("first");
            return Err(ClauseProblem::NoDesignated { clause }.into());
        };
        let names = NamePreserver::new(&node);
        let mut order = vec![SortExpr::new(Expr::Column(time), true, false)];
        let node = node.map_children(|child| {
            let (child, is_plain) = in_table_order(child, ScanOrder::Forward)?;
            if is_plain {
                // With an order, DataFusion would take any of equal times. No other aggregate
                // sorts the rows below (`aggregate_orders`), and no sort turns the scan (`order`).
                order.clear();
            }
            Ok(Transformed::yes(child))
        })?;
        let node = node.data.recompute_schema()?.change_exprs(&mut |expr| {
            let saved = names.save(&expr);
            let expr = expr.change_parts(&mut |expr| Ok(by_value(expr, &order)))?;
            Ok(if expr.transformed { expr.update_data(|expr| saved.restore(expr)) } else { expr })
        })?;
        let node = node.map_data(LogicalPlan::recompute_schema)?;
        Ok(Transformed::yes(node.data))
    })?;
    Ok(resolved.data)
}

/// Returns the name of the function of ours that an expression calls.
pub(super) fn called(expr: &Expr) -> Option<&'static str> {
    let mut name = None;
    // The closure never fails.
    let _ = expr.exists(|expr| {
        if let Expr::AggregateFunction(AggregateFunction { func, .. }) = expr {
            name = name.or(NAMES.iter().find(|name| **name == func.name()).copied());
        }
        Ok(name.is_some())
    });
    name
}

fn by_value(expr: Expr, order: &[SortExpr]) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(AggregateFunction { func, mut params })
            if NAMES.contains(&func.name()) =>
        {
            let is_first = func.name().starts_with("first");
            if func.name().ends_with("not_null") {
                params.null_treatment = Some(NullTreatment::IgnoreNulls);
            }
            params.order_by = order.to_vec();
            let func = if is_first { first_value_udaf() } else { last_value_udaf() };
            Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        expr => Transformed::no(expr),
    }
}
