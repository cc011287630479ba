//! EXCEPT ALL and INTERSECT ALL, which DataFusion plans as joins that do not count rows.
//!
//! - Among equal rows, INTERSECT ALL keeps the n-th if the other side has n of them, and EXCEPT ALL
//!   if it has fewer.
//!
//! NULL equals NULL here; of floats there are one NaN and one zero (`types::float_order`).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder,
};

use crate::names::INTERNAL_PREFIX;
use crate::types::decimals::is_set_operation;
use crate::types::tree_changes::ChangePlan;

/// Makes these joins count rows, in a whole plan.
pub(crate) fn with_counted_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_nodes(&mut |node| match node {
        LogicalPlan::Join(join) if is_multiset(&join) => counted(join).map(Transformed::yes),
        node => Ok(Transformed::no(node)),
    })
    .data()
}

/// Returns true if a join is EXCEPT ALL or INTERSECT ALL. Without ALL, the rows of the left side
/// are distinct.
fn is_multiset(join: &Join) -> bool {
    is_set_operation(join) && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
}

fn counted(join: Join) -> Result<LogicalPlan> {
    let columns = join.schema.columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let [left, right] = ["left", "right"].map(|side| format!("{INTERNAL_PREFIX}number {side}"));
    let sides = [(&join.left, &left), (&join.right, &right)];
    let [numbered_left, numbered_right] = sides.map(|(plan, name)| numbered(plan, name));
    let column = |name: String| Expr::Column(Column::new_unqualified(name));
    let on = join.on.into_iter().chain([(column(left), column(right))]).collect();
    let joined = Join::try_new(
        Arc::new(numbered_left?),
        Arc::new(numbered_right?),
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(columns)?.build()
}

/// Returns rows with their number among equal rows.
fn numbered(plan: &Arc<LogicalPlan>, name: &str) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns).build()?.alias(name);
    LogicalPlanBuilder::from(plan.as_ref().clone()).window(vec![number])?.build()
}
