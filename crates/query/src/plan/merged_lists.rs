//! Lists of one operand in a condition, IN and what becomes one, that must not be merged.
//!
//! - DataFusion merges two lists that AND or OR connects by the constants that both have, or only
//!   one. It makes false of `x IN (1) AND x IN (2)`, which is NULL where x is, and true of
//!   `x NOT IN (1) OR x NOT IN (2)`; a NULL in a list is lost, and different columns are different
//!   values.
//! - It merges `x = 1 OR x = 2 OR x IN (3, 4)` and `x NOT IN (1) AND x NOT IN (2)` rightly: those
//!   are one list here.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Alias, Between, BinaryExpr, Cast, Like, TryCast};
use datafusion::logical_expr::utils::split_binary;
use datafusion::logical_expr::{Expr, Operator};

use super::hidden_parts::{Kind, hide, inside};
use crate::types::tree_changes::ChangeParts;

/// Hides the lists of an expression, if one operand has several.
pub(super) fn separated_lists(expr: Expr) -> Result<Transformed<Expr>> {
    let mut lists = Lists::default();
    lists.count(&expr)?;
    let several = lists.0.into_iter().filter(|(_, count)| 1 < *count);
    let several = several.map(|(operand, _)| operand.clone()).collect::<Vec<_>>();
    if several.is_empty() {
        return Ok(Transformed::no(expr));
    }
    expr.change_parts(&mut |mut part| {
        // DataFusion makes lists of comparisons of columns.
        let is_column = matches!(part, Expr::Column(_)) && several.contains(&part);
        let is_separate = is_column || list_of(&part).is_some();
        if is_separate {
            hide(&mut part, Kind::Separate);
        }
        Ok(Transformed::new_transformed(part, is_separate))
    })
}

/// The operands of lists in an expression, with the number of lists.
#[derive(Default)]
struct Lists<'a>(Vec<(&'a Expr, usize)>);

impl<'a> Lists<'a> {
    fn count(&mut self, expr: &'a Expr) -> Result<()> {
        if let Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) = expr {
            let mut merged = Lists::default();
            for condition in split_binary(expr, *op) {
                match merged_with_others(condition, *op) {
                    Some((operand, share)) => merged.add(operand, share),
                    None => self.count(condition)?,
                }
            }
            for (operand, _) in merged.0.into_iter().filter(|(_, shares)| 1 < *shares) {
                self.add(operand, 1);
            }
            return Ok(());
        }
        if let Some((operand, _)) = list_of(expr) {
            self.add(operand, 1);
        }
        expr.apply_children(|part| {
            self.count(part)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    fn add(&mut self, operand: &'a Expr, count: usize) {
        match self.0.iter_mut().find(|(known, _)| *known == operand) {
            Some((_, known)) => *known += count,
            None => self.0.push((operand, count)),
        }
    }
}

/// Returns the operand of a condition that becomes a list with others in a chain of this operator,
/// and 2 for a list, or 1 for a comparison, of which it takes two.
fn merged_with_others(condition: &Expr, op: Operator) -> Option<(&Expr, usize)> {
    let is_and = op == Operator::And;
    if let Some((operand, is_negated)) = list_of(condition) {
        return (is_negated == is_and).then_some((operand, 2));
    }
    match condition {
        Expr::Not(inner) => {
            let opposite = if is_and { Operator::Or } else { Operator::And };
            merged_with_others(inner, opposite)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: inner, right }) => {
            let merged = if is_and { Operator::NotEq } else { Operator::Eq };
            let side = if left.any_column_refs() { left } else { right };
            (*inner == merged).then(|| (operand_of(side), 1))
        }
        Expr::Like(Like { expr, .. }) | Expr::Between(Between { expr, .. }) => {
            Some((operand_of(expr), 1))
        }
        _ => None,
    }
}

/// Returns the operand of a list, or of a condition that may become one, and true if it is negated.
fn list_of(expr: &Expr) -> Option<(&Expr, bool)> {
    match expr {
        Expr::InList(list) => Some((operand_of(&list.expr), list.negated)),
        // `x ~ '^(a|b)$'`
        Expr::BinaryExpr(BinaryExpr { left, op, .. }) => match op {
            Operator::RegexMatch | Operator::RegexIMatch => Some((operand_of(left), false)),
            Operator::RegexNotMatch | Operator::RegexNotIMatch => Some((operand_of(left), true)),
            _ => None,
        },
        Expr::ScalarFunction(call) if call.name() == "array_has" => {
            call.args.get(1).map(|value| (operand_of(value), false))
        }
        _ => None,
    }
}

/// Returns an operand without its casts.
fn operand_of(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(Alias { expr, .. })
        | Expr::Cast(Cast { expr, .. })
        | Expr::TryCast(TryCast { expr, .. }) => operand_of(expr),
        expr => inside(expr).map_or(expr, operand_of),
    }
}
