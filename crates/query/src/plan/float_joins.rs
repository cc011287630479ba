//! An optimizer rule for join keys of type FLOAT and DOUBLE: NaN and zero have one form each.
//!
//! - Each FLOAT or DOUBLE that is a key of a join is `sort key(x)`, in which there is one NaN and
//!   one zero (`types::float_order`). DataFusion takes a filter for the rows of one side from the
//!   keys of the other, and compares by bits there: a NaN with a sign was the least bound, and -0
//!   was not in a list with 0.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;

use super::own_rules::LogicalRule;
use crate::types::float_order::{inside_logical_sort_key, is_float, key};

/// The rule, behind those that find the keys of joins.
pub(super) const FLOAT_JOIN_KEYS: LogicalRule =
    LogicalRule { name: "float_join_keys", order: ApplyOrder::BottomUp, rewrite };

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
    let (left, right) = (join.left.schema(), join.right.schema());
    let is_plain =
        |(a, b): &(Expr, Expr)| is_float(a, left) && !is_key(a) || is_float(b, right) && !is_key(b);
    if !join.on.iter().any(is_plain) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let keys = |(a, b): (Expr, Expr)| match is_float(&a, left) && is_float(&b, right) {
        true => (key(a, left), key(b, right)),
        false => (a, b),
    };
    join.on = join.on.into_iter().map(keys).collect();
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

fn is_key(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if inside_logical_sort_key(call).is_some())
}
