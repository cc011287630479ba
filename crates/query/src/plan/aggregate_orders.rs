//! Aggregates of different orders in one SELECT, and DISTINCT with ORDER BY.
//!
//! - The first order of an aggregation is that of the rows below it, as DataFusion has it. A call
//!   with another order sorts its rows itself (`functions::own_order`): DataFusion refuses
//!   different orders, or reverses one.
//! - Beside `first` and `last`, which take the rows as the table has them, that is the order of the
//!   table, and every call with an ORDER BY sorts its rows itself.
//! - `array_agg` and `string_agg` of DISTINCT values sort themselves. The key is the argument, as
//!   PostgreSQL demands: the two are compared here, before any rule rewrites one of them.
//!
//! Not here: `first_value` and the like, which look for the smallest key in rows of any order, and
//! WITHIN GROUP (`functions::ordered`).

use datafusion::arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan, SortExpr};

use super::first_last::called;
use crate::functions::{sorted_by_itself, sorting_distinct_values};
use crate::types::tree_changes::{ChangeParts, ChangePlan};

/// The aggregates whose rows must come in order.
const OF_SORTED_ROWS: [&str; 2] = ["string_agg", "nth_value"];

/// The aggregates that sort distinct values by their argument.
const OF_DISTINCT_VALUES: [&str; 2] = ["array_agg", "string_agg"];

/// Lets the aggregates of a whole plan sort themselves where they must.
pub(super) fn with_own_orders(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_nodes(&mut |node| {
        let LogicalPlan::Aggregate(aggregate) = &node else { return Ok(Transformed::no(node)) };
        let is_of_table = aggregate.aggr_expr.iter().any(|expr| called(expr).is_some());
        let mut first = is_of_table.then(Vec::new);
        // The names of the calls stay the same, and so does the schema.
        node.change_exprs(&mut |expr| {
            expr.change_parts(&mut |expr| Ok(with_own_order(expr, &mut first)))
        })
    })
    .data()
}

/// Wraps a call that sorts itself. `first` is the order of the rows below: no keys stand for that
/// of the table.
fn with_own_order(expr: Expr, first: &mut Option<Vec<SortExpr>>) -> Transformed<Expr> {
    let AggregateFunction { func, params } = match expr {
        Expr::AggregateFunction(call) => call,
        expr => return Transformed::no(expr),
    };
    let name = func.name();
    let is_of_table = first.as_ref().is_some_and(Vec::is_empty);
    let other = if params.order_by.is_empty() {
        None
    } else if params.distinct && OF_DISTINCT_VALUES.contains(&name) {
        let options = options_by_argument(&params.args, &params.order_by);
        options.map(|options| sorting_distinct_values(&func, options))
    } else if is_of_table && sorts_rows(&func) {
        Some(sorted_by_itself(&func))
    } else if params.distinct || !OF_SORTED_ROWS.contains(&name) {
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

/// Returns true for an aggregate for whose ORDER BY DataFusion sorts the rows below.
fn sorts_rows(func: &AggregateUDF) -> bool {
    let sensitivity = func.order_sensitivity();
    let sorts = matches!(
        sensitivity,
        AggregateOrderSensitivity::HardRequirement | AggregateOrderSensitivity::SoftRequirement
    );
    sorts && !func.supports_within_group_clause()
}

/// Returns the options of the first key, if it is the first argument, and all keys are arguments.
fn options_by_argument(args: &[Expr], keys: &[SortExpr]) -> Option<SortOptions> {
    let (argument, key) = (args.first()?, keys.first()?);
    let is_same = |arg: &Expr, key: &SortExpr| arg.clone().unalias() == key.expr.clone().unalias();
    let are_arguments = keys.iter().all(|key| args.iter().any(|arg| is_same(arg, key)));
    let options = SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
    (is_same(argument, key) && are_arguments).then_some(options)
}
