//! Scans in table order under a logical plan.
//!
//! Not here: the choice of plans that need it (`plan::order`).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};

use crate::scan::{ScanOrder, ScanTable};

/// Applies `plan::order`. The second value is true if the plan is such a plain one.
pub(crate) fn in_table_order(plan: LogicalPlan, order: ScanOrder) -> Result<(LogicalPlan, bool)> {
    match &plan {
        LogicalPlan::TableScan(scan) => match ordered_table(scan, order)? {
            Some(scan) => Ok((LogicalPlan::TableScan(scan), true)),
            None => Ok((plan, false)),
        },
        // A subquery becomes a join, which keeps no order: the rows that passed are sorted again.
        LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) => {
            match (order, designated(&filter.input)?) {
                (ScanOrder::Forward, Some(column)) => {
                    let by_time = SortExpr::new(Expr::Column(column), true, false);
                    let sorted = LogicalPlanBuilder::from(plan).sort([by_time])?.build()?;
                    Ok((sorted, false))
                }
                _ => Ok((plan, false)),
            }
        }
        // The last rows are not those that a limit below has passed from the other end.
        LogicalPlan::Limit(_) if order == ScanOrder::Backward => Ok((plan, false)),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_) => {
            let mut is_plain = false;
            let ordered = plan.map_children(|child| {
                let (child, child_is_plain) = in_table_order(child, order)?;
                is_plain = child_is_plain;
                Ok(Transformed::yes(child))
            })?;
            Ok((ordered.data, is_plain))
        }
        _ => Ok((plan, false)),
    }
}

/// Returns the scan in another order, if it is of one of our tables.
fn ordered_table(scan: &TableScan, order: ScanOrder) -> Result<Option<TableScan>> {
    let provider = source_as_provider(&scan.source)?;
    let Some(table) = provider.downcast_ref::<ScanTable>() else { return Ok(None) };
    let source = provider_as_source(Arc::new(table.with_order(order)));
    Ok(Some(TableScan { source, ..scan.clone() }))
}

/// Returns the designated timestamp of the table that a plan reads unchanged, perhaps under another
/// name.
fn designated(plan: &LogicalPlan) -> Result<Option<Column>> {
    let mut inner = plan;
    while let LogicalPlan::SubqueryAlias(alias) = inner {
        inner = &alias.input;
    }
    let LogicalPlan::TableScan(scan) = inner else { return Ok(None) };
    let provider = source_as_provider(&scan.source)?;
    let Some(table) = provider.downcast_ref::<ScanTable>() else { return Ok(None) };
    let Some(name) = table.designated_name() else { return Ok(None) };
    let (qualifier, field) = plan.schema().qualified_field_with_unqualified_name(&name)?;
    Ok(Some(Column::from((qualifier, field))))
}

fn has_subquery(expr: &Expr) -> bool {
    let is_subquery = |expr: &Expr| {
        matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        )
    };
    // The closure never fails.
    expr.exists(|expr| Ok(is_subquery(expr))).unwrap_or(true)
}
