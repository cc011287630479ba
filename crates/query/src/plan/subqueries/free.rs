//! The free columns of a subquery, which it reads of the rows around it.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

use super::subquery_of;
use crate::types::tree_changes::{ChangeParts, ChangePlan};

/// A column of the rows around a subquery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FreeColumn {
    pub(super) column: Column,
    pub(super) field: FieldRef,
}

/// Returns the columns that a plan reads of rows that are not its own, at any level around it.
pub(super) fn free_columns(plan: &LogicalPlan) -> Vec<FreeColumn> {
    let mut columns = Vec::new();
    collect(plan, &mut columns);
    columns
}

/// Returns the columns that an expression over rows of this schema reads of other rows.
pub(super) fn free_columns_of(expr: &Expr, schema: &DFSchema) -> Vec<FreeColumn> {
    let mut columns = Vec::new();
    collect_of(expr, schema, &mut columns);
    columns
}

/// Returns true if an expression over rows of this schema reads other rows.
pub(super) fn reads_outside(expr: &Expr, schema: &DFSchema) -> bool {
    !free_columns_of(expr, schema).is_empty()
}

/// Returns true if an expression of a node reads rows that are not the node's.
pub(super) fn node_reads_outside(node: &LogicalPlan) -> bool {
    let mut columns = Vec::new();
    collect_of_node(node, &mut columns);
    !columns.is_empty()
}

fn collect(plan: &LogicalPlan, columns: &mut Vec<FreeColumn>) {
    collect_of_node(plan, columns);
    if let LogicalPlan::Join(join) = plan {
        collect(&join.left, columns);
        let of_left = |free: &FreeColumn| join.left.schema().has_column(&free.column);
        let is_lateral = is_lateral(&join.right);
        let right = free_columns(&join.right).into_iter();
        right.filter(|free| !is_lateral || !of_left(free)).for_each(|free| add(free, columns));
        return;
    }
    plan.inputs().into_iter().for_each(|input| collect(input, columns));
}

/// Returns true if this side of a join reads the other one.
fn is_lateral(side: &LogicalPlan) -> bool {
    match side {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        _ => false,
    }
}

fn collect_of_node(node: &LogicalPlan, columns: &mut Vec<FreeColumn>) {
    let schema = merge_schema(&node.inputs());
    node.apply_expressions(|expr| {
        collect_of(expr, &schema, columns);
        Ok(TreeNodeRecursion::Continue)
    })
    .expect("it never fails");
}

fn collect_of(expr: &Expr, schema: &DFSchema, columns: &mut Vec<FreeColumn>) {
    expr.apply(|expr| {
        if let Expr::OuterReferenceColumn(field, column) = expr {
            let (column, field) = (column.clone(), Arc::clone(field));
            add(FreeColumn { column, field }, columns);
        }
        if let Some(subquery) = subquery_in(expr) {
            let free = free_columns(&subquery.subquery).into_iter();
            free.filter(|free| !schema.has_column(&free.column))
                .for_each(|free| add(free, columns));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .expect("it never fails");
}

fn add(free: FreeColumn, columns: &mut Vec<FreeColumn>) {
    if !columns.contains(&free) {
        columns.push(free);
    }
}

/// The subquery that an expression is about.
pub(super) fn subquery_in(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Replaces the columns that the subqueries of an expression read by those that `other` returns.
pub(super) fn with_free_columns(
    expr: Expr,
    other: &dyn Fn(&Column) -> Option<Column>,
) -> Result<Expr> {
    let changed = |plan: &LogicalPlan| -> Result<Subquery> {
        let plan = plan.clone().transform_up(|node| {
            node.change_exprs(&mut |expr| {
                let expr = with_free_columns(expr, other)?;
                expr.change_parts(&mut |expr| match expr {
                    Expr::OuterReferenceColumn(field, column) => Ok(match other(&column) {
                        Some(other) => Transformed::yes(Expr::OuterReferenceColumn(field, other)),
                        None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                    }),
                    expr => Ok(Transformed::no(expr)),
                })
            })
        });
        Ok(subquery_of(plan.data()?))
    };
    expr.change_parts(&mut |expr| match expr {
        Expr::Exists(Exists { subquery, negated }) => {
            let subquery = changed(&subquery.subquery)?;
            Ok(Transformed::yes(Expr::Exists(Exists { subquery, negated })))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let subquery = changed(&subquery.subquery)?;
            Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
        }
        Expr::ScalarSubquery(subquery) => {
            Ok(Transformed::yes(Expr::ScalarSubquery(changed(&subquery.subquery)?)))
        }
        expr => Ok(Transformed::no(expr)),
    })
    .data()
}
