//! A wrapper of DataFusion's simplifier that keeps from it what it would rewrite wrongly.
//!
//! - Lists of one operand are not merged, if an expression has several (`merged_lists`).
//!
//! Such parts of an expression are hidden from it (`hidden_parts`), and shown again behind it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerRule};

use super::hidden_parts::{is_hidden, shown};
use super::merged_lists::lists_apart;

/// The name of DataFusion's rule.
pub(super) const SIMPLIFY: &str = "simplify_expressions";

/// A wrapper of DataFusion's rule that simplifies expressions.
#[derive(Debug)]
pub(super) struct SafeSimplification {
    pub(super) inner: Arc<dyn OptimizerRule + Send + Sync>,
}

impl OptimizerRule for SafeSimplification {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let is_aggregate = matches!(plan, LogicalPlan::Aggregate(_));
        let hidden = with_hidden_parts(plan)?;
        let simplified = hidden.transform_data(|plan| self.inner.rewrite(plan, config))?;
        simplified.transform_data(|plan| {
            // An aggregate may have become a projection of one.
            let is_below = is_aggregate && !matches!(plan, LogicalPlan::Aggregate(_));
            let below = match is_below {
                true => plan.map_children(with_parts)?,
                false => Transformed::no(plan),
            };
            below.transform_data(with_parts)
        })
    }
}

/// Hides parts of the expressions of a node.
fn with_hidden_parts(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut is_found = false;
    plan.apply_expressions(|expr| {
        is_found |= may_have_parts(expr)?;
        Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !is_found {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        if matches!(expr, Expr::GroupingSet(_)) || !may_have_parts(&expr)? {
            return Ok(Transformed::no(expr));
        }
        let saved = names.save(&expr);
        let hidden = lists_apart(expr)?;
        Ok(if hidden.transformed { hidden.update_data(|it| saved.restore(it)) } else { hidden })
    })
}

fn may_have_parts(expr: &Expr) -> Result<bool> {
    expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::BinaryExpr(_)
                | Expr::Between(_)
                | Expr::Case(_)
                | Expr::InList(_)
                | Expr::Negative(_)
                | Expr::ScalarFunction(_)
        ))
    })
}

/// Puts hidden parts back into the expressions of a node.
fn with_parts(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        if !expr.exists(|part| Ok(is_hidden(part)))? {
            return Ok(Transformed::no(expr));
        }
        let saved = names.save(&expr);
        Ok(expr.transform_up(with_part)?.update_data(|it| saved.restore(it)))
    })
}

fn with_part(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        expr if is_hidden(&expr) => shown(expr).map(Transformed::yes),
        // What the simplifier makes of lists that are not hidden.
        Expr::Not(inner) => Ok(match *inner {
            Expr::InList(InList { expr, list, negated }) => {
                Transformed::yes(Expr::InList(InList { expr, list, negated: !negated }))
            }
            inner => Transformed::no(Expr::Not(Box::new(inner))),
        }),
        expr => Ok(Transformed::no(expr)),
    }
}
