//! Aggregates of different orders in one SELECT, and DISTINCT with ORDER BY.
//!
//! - The first order of an aggregation is that of the rows below it, as DataFusion has it. A call
//!   with another order sorts its rows itself (`functions::own_order`): DataFusion refuses
//!   different orders, or reverses one.
//! - `array_agg` and `string_agg` of DISTINCT values sort themselves. The key is the argument, as
//!   PostgreSQL demands: the two are compared here, before any rule rewrites one of them.
//!
//! Not here: `first_value` and the like, which look for the smallest key in rows of any order, and
//! WITHIN GROUP (`functions::ordered`).

use datafusion::arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr};

use crate::functions::{sorted_by_itself, sorting_distinct_values};

/// The aggregates whose rows must come in order.
const OF_SORTED_ROWS: [&str; 2] = ["string_agg", "nth_value"];

/// The aggregates that sort distinct values by their argument.
const OF_DISTINCT_VALUES: [&str; 2] = ["array_agg", "string_agg"];

/// Lets the aggregates of a whole plan sort themselves where they must.
pub(super) fn with_own_orders(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(node));
        }
        let mut first = None;
        // The names of the calls stay the same, and so does the schema.
        node.map_expressions(|expr| expr.transform_up(|expr| Ok(with_own_order(expr, &mut first))))
    })
    .data()
}

/// Wraps a call that sorts itself. `first` is the order of the rows below.
fn with_own_order(expr: Expr, first: &mut Option<Vec<SortExpr>>) -> Transformed<Expr> {
    let AggregateFunction { func, params } = match expr {
        Expr::AggregateFunction(call) => call,
        expr => return Transformed::no(expr),
    };
    let name = func.name();
    let other = if params.order_by.is_empty() {
        None
    } else if params.distinct {
        let options = options_by_argument(&params.args, &params.order_by);
        options
            .filter(|_| OF_DISTINCT_VALUES.contains(&name))
            .map(|options| sorting_distinct_values(&func, options))
    } else if !OF_SORTED_ROWS.contains(&name) {
        None
    } else {
        let first = first.get_or_insert_with(|| params.order_by.clone());
        (*first != params.order_by).then(|| sorted_by_itself(&func))
    };
    match other {
        Some(func) => Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params })),
        None => Transformed::no(Expr::AggregateFunction(AggregateFunction { func, params })),
    }
}

/// Returns the options of the first key, if it is the first argument, and all keys are arguments.
fn options_by_argument(args: &[Expr], keys: &[SortExpr]) -> Option<SortOptions> {
    let (argument, key) = (args.first()?, keys.first()?);
    let is_same = |arg: &Expr, key: &SortExpr| arg.clone().unalias() == key.expr.clone().unalias();
    let are_arguments = keys.iter().all(|key| args.iter().any(|arg| is_same(arg, key)));
    let options = SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
    (is_same(argument, key) && are_arguments).then_some(options)
}
