//! The sizes of expressions that the simplifier writes out.
//!
//! - expression_size-1. The simplifier of DataFusion writes calls of COALESCE and BETWEEN out, with
//!   their arguments twice, so that each one within another doubles what is in it. An expression
//!   that would have more than `WRITTEN_MAX` nodes, and more than `WRITTEN_SHARE` times its own, is
//!   refused before.
//! - expression_size-2. A boolean CASE stays one where AND and OR in its place would have more than
//!   `CONDITIONS_MAX` nodes.
//!
//! Nodes are counted without making the expressions. The growth of expressions whose columns are
//! replaced is in `plan::expansion`.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::THRESHOLD_INLINE_INLIST;

use crate::error::ClauseProblem;

/// The maximal number of nodes of the expressions of an operator that are written out.
const WRITTEN_MAX: usize = 10_000;
/// The growth of expressions that have more: long lists, which hardly repeat anything.
const WRITTEN_SHARE: usize = 16;
/// The maximal number of nodes of conditions in place of a CASE.
const CONDITIONS_MAX: usize = 2_000;

/// Checks that the expressions of a node are small enough to be written out (expression_size-1).
pub(crate) fn check_written_out(plan: &LogicalPlan) -> Result<()> {
    let sum_of = |count: fn(&Expr) -> usize| {
        let mut sum = 0_usize;
        plan.apply_expressions(|expr| {
            sum = sum.saturating_add(count(expr));
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok::<_, DataFusionError>(sum)
    };
    let written = sum_of(|expr| written_out(expr, copies_in_calls))?;
    if written <= WRITTEN_MAX || written / WRITTEN_SHARE <= sum_of(nodes_of)? {
        return Ok(());
    }
    Err(too_large())
}

/// Checks that a constant is small enough to be simplified on its own.
pub(crate) fn check_constant(expr: &Expr) -> Result<()> {
    let written = written_out(expr, copies_in_conditions);
    if written <= WRITTEN_MAX || written / WRITTEN_SHARE <= nodes_of(expr) {
        return Ok(());
    }
    Err(too_large())
}

fn too_large() -> DataFusionError {
    ClauseProblem::ExpressionTooLarge { nodes: WRITTEN_MAX }.into()
}

/// Returns true for a CASE without an operand that, if it is boolean, is large as a chain of AND
/// and OR (expression_size-2).
pub(crate) fn is_large_as_conditions(case: &Case) -> bool {
    let cases = case.when_then_expr.iter();
    let sum = cases.fold(0, |sum: usize, (when, _)| {
        sum.saturating_add(written_out(when, copies_in_conditions))
    });
    CONDITIONS_MAX < sum.saturating_mul(copies_of_conditions(case))
}

/// Returns the number of times that a condition of a CASE is in a chain of AND and OR: for itself,
/// in those of the cases behind it, and each time beside the check for NULL.
fn copies_of_conditions(case: &Case) -> usize {
    2 * (case.when_then_expr.len() + 1)
}

/// Returns the number of nodes of an expression whose parts are repeated within it.
fn written_out(expr: &Expr, copies: fn(&Expr) -> usize) -> usize {
    let mut written = WrittenOut { copies, nodes: 0, factors: Vec::new() };
    expr.visit(&mut written).expect("counting does not fail");
    written.nodes
}

/// Returns the number of copies of its parts that the simplifier makes of an expression, other
/// than a CASE.
fn copies_in_calls(expr: &Expr) -> usize {
    match expr {
        Expr::Between(_) => 2,
        Expr::ScalarFunction(call) => match call.name() {
            "coalesce" | "nvl" | "ifnull" => 2,
            _ => 1,
        },
        // It is between the bounds of the values that become the constant.
        Expr::BinaryExpr(binary) if has_range(&binary.left) || has_range(&binary.right) => 2,
        Expr::InList(list) if has_range(&list.expr) => {
            2 * list.list.len().clamp(1, THRESHOLD_INLINE_INLIST)
        }
        _ => 1,
    }
}

/// Returns true for calls that have one value for a range of those of their argument.
fn has_range(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => ["floor", "date_part"].contains(&call.name()),
        _ => false,
    }
}

fn copies_in_conditions(expr: &Expr) -> usize {
    match expr {
        Expr::Case(case) if case.expr.is_none() => copies_of_conditions(case),
        expr => copies_in_calls(expr),
    }
}

/// A count of nodes, each as often as the nodes around it are repeated.
struct WrittenOut {
    copies: fn(&Expr) -> usize,
    nodes: usize,
    /// The copies of the parts of the nodes on the path to the current one.
    factors: Vec<usize>,
}

impl<'n> TreeNodeVisitor<'n> for WrittenOut {
    type Node = Expr;

    fn f_down(&mut self, expr: &'n Expr) -> Result<TreeNodeRecursion> {
        let factor = self.factors.last().copied().unwrap_or(1);
        self.nodes = self.nodes.saturating_add(factor);
        self.factors.push(factor.saturating_mul((self.copies)(expr)));
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, _: &'n Expr) -> Result<TreeNodeRecursion> {
        self.factors.pop();
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Returns the number of nodes of an expression, at least one.
pub(crate) fn nodes_of(expr: &Expr) -> usize {
    let mut nodes = 0;
    let counted = expr.apply(|_| {
        nodes += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    counted.expect("counting does not fail");
    nodes
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit, when};

    use super::*;

    #[test]
    fn nested_calls_are_refused_before_they_are_written_out() {
        let nested = |levels: usize| {
            (0..levels).fold(col("column1"), |inner, _| {
                when(inner.between(lit(1), lit(3)), lit(1)).otherwise(lit(2)).unwrap()
            })
        };
        for (levels, is_small) in [(1, true), (6, true), (14, false), (90, false)] {
            let row = LogicalPlanBuilder::values(vec![vec![lit(1)]]).unwrap();
            let plan = row.project([nested(levels)]).unwrap().build().unwrap();
            assert_eq!(check_written_out(&plan).is_ok(), is_small, "expression_size-1: {levels}");
        }
        let long = col("column1").in_list(vec![lit(7); 3 * WRITTEN_MAX], false);
        let row = LogicalPlanBuilder::values(vec![vec![lit(1)]]).unwrap();
        let plan = row.project([long.between(lit(false), lit(true))]).unwrap().build().unwrap();
        assert!(check_written_out(&plan).is_ok(), "expression_size-1: it is long as it is written");
    }

    #[test]
    fn large_cases_stay_cases() {
        let nested = |levels: usize| {
            (0..levels)
                .fold(col("a"), |inner, _| when(inner, col("b")).otherwise(col("c")).unwrap())
        };
        for (levels, expected) in [(1, false), (3, false), (8, true), (90, true)] {
            let Expr::Case(case) = nested(levels) else { panic!("it is a CASE") };
            assert_eq!(is_large_as_conditions(&case), expected, "expression_size-2: {levels}");
        }
    }
}
