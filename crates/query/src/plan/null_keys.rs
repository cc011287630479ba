//! A wrapper of optimizer rules: joins in which NULL equals NULL get no keys from `a = b`.
//!
//! - A condition `a = b` does not become a key of a join in which NULL equals NULL: rows with NULL
//!   on both sides would pass.
//!
//! DataFusion makes such a join of `ON a IS NOT DISTINCT FROM b`, and two of its rules then add the
//! equalities of WHERE to its keys.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::{Join, JoinType, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;
use datafusion::optimizer::optimizer::OptimizerRule;

/// The names of the rules: one sees a join at a time, the other the whole plan.
pub(super) const EXTRACT_EQUIJOIN: &str = "extract_equijoin_predicate";
pub(super) const ELIMINATE_CROSS_JOIN: &str = "eliminate_cross_join";

/// Calls a rule that finds the keys of joins; leaves such joins unchanged.
pub(super) fn keep_null_keys(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let is_left = match rule.name() {
        ELIMINATE_CROSS_JOIN => plan.exists(|node| Ok(is_null_safe(node)))?,
        _ => matches!(&plan, LogicalPlan::Join(join) if is_null_equal(join)),
    };
    if is_left { Ok(Transformed::no(plan)) } else { rule.rewrite(plan, config) }
}

fn is_null_safe(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Join(join) => join.join_type == JoinType::Inner && is_null_equal(join),
        _ => false,
    }
}

fn is_null_equal(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull
}
