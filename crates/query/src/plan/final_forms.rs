//! An optimizer rule that rewrites expressions after all other rules have simplified them.
//!
//! - An ordered aggregate has no key twice: `ORDER BY f, f AND f` is `ORDER BY f`. DataFusion
//!   leaves the second one out of the sort, and then finds too many (`types::float_order` has the
//!   keys that are alike as they are written).
//! - The difference of two dates in a filter is the difference of two integers. DataFusion plans it
//!   as a BIGINT, but calculates its range as a length of time, and then refuses to compare it with
//!   numbers.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, SortExpr, cast};
use datafusion::optimizer::optimizer::ApplyOrder;

use super::own_rules::LogicalRule;
use crate::types::tree_changes::{ChangeParts, ChangePlan};

/// The rule, behind those that simplify.
pub(super) const FINAL_FORMS: LogicalRule =
    LogicalRule { name: "final_forms", order: ApplyOrder::BottomUp, rewrite };

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match &plan {
        LogicalPlan::Aggregate(_) => {
            let names = NamePreserver::new(&plan);
            plan.change_exprs(&mut |expr| {
                let saved = names.save(&expr);
                let changed = expr.change_parts(&mut |expr| Ok(without_repeated_keys(expr)))?;
                let is_changed = changed.transformed;
                Ok(if is_changed { changed.update_data(|it| saved.restore(it)) } else { changed })
            })
        }
        LogicalPlan::Filter(_) => {
            let schema = merge_schema(&plan.inputs());
            plan.change_exprs(&mut |expr| {
                expr.change_parts(&mut |expr| Ok(difference_of_days(expr, &schema)))
            })
        }
        _ => Ok(Transformed::no(plan)),
    }
}

fn without_repeated_keys(expr: Expr) -> Transformed<Expr> {
    let Expr::AggregateFunction(mut call) = expr else { return Transformed::no(expr) };
    let plain = |key: &SortExpr| key.expr.clone().unalias_nested().data;
    let keys = call.params.order_by.iter().map(plain).collect::<Vec<_>>();
    let is_new = |at: usize| !keys[..at].contains(&keys[at]);
    if (0..keys.len()).all(is_new) {
        return Transformed::no(Expr::AggregateFunction(call));
    }
    let order_by = std::mem::take(&mut call.params.order_by).into_iter().enumerate();
    let kept = order_by.filter(|(at, _)| is_new(*at)).map(|(_, key)| key);
    call.params.order_by = kept.collect();
    Transformed::yes(Expr::AggregateFunction(call))
}

fn difference_of_days(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) = expr else {
        return Transformed::no(expr);
    };
    let is_date = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Date32));
    let (left, right) = match is_date(&left) && is_date(&right) {
        true => [left, right].map(|day| Box::new(cast(*day, DataType::Int64))).into(),
        false => {
            let difference = BinaryExpr { left, op: Operator::Minus, right };
            return Transformed::no(Expr::BinaryExpr(difference));
        }
    };
    Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }))
}
