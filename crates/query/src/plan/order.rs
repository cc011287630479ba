//! Sort elimination: rows that a scan returns in the order of the designated timestamp are not
//! sorted.
//!
//! - A plain scan or filter of a table, with projections and limits above it, returns rows in the
//!   order of the table: as an answer, below any LIMIT, and below a window that has neither
//!   PARTITION BY nor ORDER BY.
//! - If a sort, or an operator that requires sorted input, needs the order of the designated
//!   timestamp, ascending or descending, and only filters and projections stand between it and the
//!   scan, the scan delivers that order and nothing is sorted. All other operators may have been
//!   planned for the order that their input had: first() of a scan in table order, a window, a
//!   limit.
//!
//! Limits and windows change the logical plan; sorts are found by a physical rule before all
//! others, which see the order that the scan promises.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, lit};
use datafusion::physical_expr::{LexOrdering, OrderingRequirements};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::own_rules::PhysicalRule;
use crate::scan::order::in_table_order;
use crate::scan::{ScanOrder, ScanSource, ScanTable};
use crate::types::tree_changes::ChangePlan;

/// More rows than there can be, to which the rows of an OFFSET can be added.
const ALL_ROWS: i64 = i64::MAX / 4;

/// Orders the scans below the limits and the windows of a plan: in a subquery too, the first rows
/// are those of the table.
pub(crate) fn counted_in_table_order(plan: LogicalPlan) -> Result<LogicalPlan> {
    let ordered = plan.change_nodes(&mut |node| {
        let node = match node {
            LogicalPlan::Limit(_) => with_fetch(node),
            LogicalPlan::Window(window) if window.window_expr.iter().any(is_unordered) => {
                LogicalPlan::Window(window)
            }
            node => return Ok(Transformed::no(node)),
        };
        // A limit from the end has ordered the scan below it backward.
        if node.exists(|node| Ok(is_ordered(node)))? {
            return Ok(Transformed::yes(node));
        }
        node.map_children(|child| {
            Ok(Transformed::yes(in_table_order(child, ScanOrder::Forward)?.0))
        })
    })?;
    Ok(ordered.data)
}

/// Returns true for a window function over all rows in the order in which they come.
fn is_unordered(function: &Expr) -> bool {
    match function {
        Expr::Alias(alias) => is_unordered(&alias.expr),
        Expr::WindowFunction(call) => {
            call.params.partition_by.is_empty() && call.params.order_by.is_empty()
        }
        _ => false,
    }
}

/// Gives an OFFSET of sorted rows a LIMIT of all rows: DataFusion removes a sort below an OFFSET
/// alone, where the rows of the subquery need no order, and others are skipped.
fn with_fetch(node: LogicalPlan) -> LogicalPlan {
    match node {
        LogicalPlan::Limit(Limit { skip: Some(skip), fetch: None, input }) if is_sorted(&input) => {
            let fetch = Some(Box::new(lit(ALL_ROWS)));
            LogicalPlan::Limit(Limit { skip: Some(skip), fetch, input })
        }
        node => node,
    }
}

/// Returns true for a sort, below projections and aliases.
fn is_sorted(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => is_sorted(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_sorted(&alias.input),
        _ => false,
    }
}

fn is_ordered(plan: &LogicalPlan) -> bool {
    let LogicalPlan::TableScan(scan) = plan else { return false };
    let Ok(provider) = source_as_provider(&scan.source) else { return false };
    provider.downcast_ref::<ScanTable>().is_some_and(ScanTable::is_ordered)
}

/// The physical rule that orders scans instead of sorting.
pub(super) const ORDERED_SCANS: PhysicalRule =
    PhysicalRule { name: "OrderedScans", rewrite: order_scans };

fn order_scans(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let ordered = plan.transform_down(|plan| {
        let wanted = match plan.downcast_ref::<SortExec>() {
            Some(sort) => vec![Some(OrderingRequirements::from(sort.expr().clone()))],
            None => plan.required_input_ordering(),
        };
        if wanted.iter().all(Option::is_none) {
            return Ok(Transformed::no(plan));
        }
        let mut children = plan.children().into_iter().cloned().collect::<Vec<_>>();
        let mut is_changed = false;
        for (child, wanted) in children.iter_mut().zip(wanted) {
            let Some(OrderingRequirements::Hard(mut wanted)) = wanted else { continue };
            let wanted = LexOrdering::from(wanted.swap_remove(0));
            if let Some(better) = in_order(child, &wanted)? {
                *child = better;
                is_changed = true;
            }
        }
        if is_changed {
            Ok(Transformed::yes(replace_children_if_necessary(plan, children)?))
        } else {
            Ok(Transformed::no(plan))
        }
    })?;
    Ok(ordered.data)
}

/// Returns the plan with its scan in an order that implies the required one; `None` if there is
/// none.
fn in_order(
    plan: &Arc<dyn ExecutionPlan>,
    wanted: &LexOrdering,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_descending = wanted.first().options.descending;
    let order = if is_descending { ScanOrder::Backward } else { ScanOrder::Forward };
    let Some(ordered) = with_scan_order(plan, order)? else { return Ok(None) };
    let properties = ordered.equivalence_properties();
    let is_satisfied = properties.ordering_satisfy(wanted.iter().cloned())?;
    Ok(is_satisfied.then_some(ordered))
}

/// Returns the plan with the scan at its bottom in another order. `None` if there is no scan of
/// ours, or an operator above it may depend on the order that it has.
fn with_scan_order(
    plan: &Arc<dyn ExecutionPlan>,
    order: ScanOrder,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(exec) = plan.downcast_ref::<DataSourceExec>() {
        let source = exec.data_source().downcast_ref::<ScanSource>();
        let ordered = source.and_then(|source| source.with_order(order));
        return Ok(ordered.map(|source| DataSourceExec::from_data_source(source) as _));
    }
    // These keep the order, and each row depends on no other row.
    let is_independent = plan.is::<FilterExec>() || plan.is::<ProjectionExec>();
    let children = plan.children();
    let ([child], true, None) = (children.as_slice(), is_independent, plan.fetch()) else {
        return Ok(None);
    };
    match with_scan_order(child, order)? {
        Some(child) => replace_children_if_necessary(Arc::clone(plan), vec![child]).map(Some),
        None => Ok(None),
    }
}
