//! Operator precedence: `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`, as in
//! PostgreSQL.
//!
//! - PR1. After [`bind_by_precedence`], every tree without brackets follows PostgreSQL's table of
//!   operators: comparisons before IS, IS before NOT, NOT before AND, AND before OR; operators of
//!   one kind from left to right. Brackets are nodes of their own and stay.
//!
//! The parser takes all the text behind `IS [NOT] DISTINCT FROM` for its right side, and for that
//! of every operator before it. It binds all other operators correctly.

use std::mem::replace;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, UnaryOperator, Value, VisitMut, VisitorMut,
};

/// Rotates the trees that the parser has bound too loosely (PR1).
pub(crate) fn bind_by_precedence(tree: &mut impl VisitMut) {
    // The visitor never breaks off.
    let _ = tree.visit(&mut Binder);
}

/// The binding strength of an operator, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Not,
    /// Operators that the parser binds less tightly than IS.
    Loose,
    Is,
    /// Operators that are bound correctly.
    Tight,
}

struct Binder;

impl VisitorMut for Binder {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // Inner trees have been rotated: at most the right side of this one binds too loosely.
        let Some((right, binding)) = right_side(expr) else { return ControlFlow::Continue(()) };
        if binding_at_left(right) > binding {
            return ControlFlow::Continue(());
        }
        let mut top = replace(right, nothing());
        let mut operand = &mut top;
        while binding_at_left(operand) <= binding {
            operand = left_side(operand).expect("what binds loosely has a left side");
        }
        *right = replace(operand, nothing());
        *operand = replace(expr, nothing());
        *expr = top;
        ControlFlow::Continue(())
    }
}

/// Returns a placeholder for an expression that is being moved.
fn nothing() -> Expr {
    Expr::Value(Value::Null.into())
}

/// Returns the operand behind an operator, and the binding strength there.
fn right_side(expr: &mut Expr) -> Option<(&mut Expr, Binding)> {
    Some(match expr {
        Expr::BinaryOp { op: BinaryOperator::Or, right, .. } => (right, Binding::Or),
        Expr::BinaryOp { op: BinaryOperator::And, right, .. } => (right, Binding::And),
        Expr::BinaryOp { right, .. } => (right, Binding::Loose),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => (expr, Binding::Not),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => (right, Binding::Is),
        _ => return None,
    })
}

/// Returns the binding strength of an expression for the operand that it begins with.
fn binding_at_left(expr: &Expr) -> Binding {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => Binding::Or,
        Expr::BinaryOp { op: BinaryOperator::And, .. } => Binding::And,
        Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsNormalized { .. } => Binding::Is,
        _ => Binding::Tight,
    }
}

/// Returns the operand before such an operator.
fn left_side(expr: &mut Expr) -> Option<&mut Expr> {
    Some(match expr {
        Expr::BinaryOp { left, .. } => left,
        Expr::IsDistinctFrom(left, _) | Expr::IsNotDistinctFrom(left, _) => left,
        Expr::IsNull(left)
        | Expr::IsNotNull(left)
        | Expr::IsTrue(left)
        | Expr::IsNotTrue(left)
        | Expr::IsFalse(left)
        | Expr::IsNotFalse(left)
        | Expr::IsUnknown(left)
        | Expr::IsNotUnknown(left)
        | Expr::IsNormalized { expr: left, .. } => left,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    /// An expression with the intended structure.
    enum Meant {
        Name(char),
        Prefix(&'static str, Binding, Box<Meant>),
        Postfix(&'static str, Box<Meant>),
        Infix(Box<Meant>, &'static str, Binding, Box<Meant>),
    }

    impl Meant {
        fn random(dice: &mut Dice, depth: usize) -> Meant {
            let inner = |dice: &mut Dice| Box::new(Meant::random(dice, depth - 1));
            let (op, binding) = match dice.below(if depth == 0 { 1 } else { 11 }) {
                0 | 1 => return Meant::Name(*dice.pick(&['a', 'b', 'c', 'd'])),
                2 => return Meant::Prefix("NOT", Binding::Not, inner(dice)),
                3 => return Meant::Postfix("IS NULL", inner(dice)),
                4 => return Meant::Postfix("IS NOT TRUE", inner(dice)),
                5 => ("OR", Binding::Or),
                6 => ("AND", Binding::And),
                7 => ("IS DISTINCT FROM", Binding::Is),
                8 => ("IS NOT DISTINCT FROM", Binding::Is),
                9 => ("=", Binding::Tight),
                _ => ("+", Binding::Tight),
            };
            let (left, right) = (inner(dice), inner(dice));
            Meant::Infix(left, op, binding, right)
        }

        fn binding(&self) -> Option<Binding> {
            match self {
                Meant::Name(_) => None,
                Meant::Prefix(_, binding, _) | Meant::Infix(_, _, binding, _) => Some(*binding),
                Meant::Postfix(..) => Some(Binding::Is),
            }
        }

        /// Writes it with brackets around each part that has an operator and that `wants` them.
        fn written(&self, wants: &dyn Fn(&Meant, Binding, bool) -> bool) -> String {
            let part = |part: &Meant, binding, is_right| {
                let text = part.written(wants);
                let has_operator = part.binding().is_some();
                if has_operator && wants(part, binding, is_right) {
                    format!("({text})")
                } else {
                    text
                }
            };
            match self {
                Meant::Name(name) => name.to_string(),
                Meant::Prefix(op, binding, inner) => {
                    format!("{op} {}", part(inner, *binding, false))
                }
                Meant::Postfix(op, inner) => format!("{} {op}", part(inner, Binding::Is, false)),
                Meant::Infix(left, op, binding, right) => {
                    format!("{} {op} {}", part(left, *binding, false), part(right, *binding, true))
                }
            }
        }
    }

    /// Pseudo-random numbers, the same in every run.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(self.0 >> 33).expect("31 bits") % end
        }

        fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
            &of[self.below(of.len())]
        }
    }

    struct WithoutBrackets;

    impl VisitorMut for WithoutBrackets {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Nested(inner) = expr {
                *expr = replace(inner, nothing());
            }
            ControlFlow::Continue(())
        }
    }

    fn bound(text: &str) -> Expr {
        let dialect = GenericDialect {};
        let mut expr = Parser::new(&dialect).try_with_sql(text).unwrap().parse_expr().unwrap();
        bind_by_precedence(&mut expr);
        let _ = expr.visit(&mut WithoutBrackets);
        expr
    }

    #[track_caller]
    fn check(text: &str, meant: &str) {
        assert_eq!(bound(text), bound(meant), "PR1: {text} is {meant}");
    }

    #[test]
    fn is_distinct_from_binds_as_tightly_as_is_null() {
        check("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c");
        check("a IS NOT DISTINCT FROM b OR c AND d", "(a IS NOT DISTINCT FROM b) OR (c AND d)");
        check("a IS DISTINCT FROM b = c AND d", "(a IS DISTINCT FROM (b = c)) AND d");
        check("NOT a IS DISTINCT FROM b AND c", "(NOT (a IS DISTINCT FROM b)) AND c");
        check("a AND b IS DISTINCT FROM c OR d", "(a AND (b IS DISTINCT FROM c)) OR d");
        check(
            "a IS DISTINCT FROM b AND c IS DISTINCT FROM d AND a",
            "((a IS DISTINCT FROM b) AND (c IS DISTINCT FROM d)) AND a",
        );
        check("a IS DISTINCT FROM b IS NULL", "(a IS DISTINCT FROM b) IS NULL");
        check("a IS DISTINCT FROM (b AND c)", "a IS DISTINCT FROM (b AND c)");
        check("a IS DISTINCT FROM b IN (c) AND d", "(a IS DISTINCT FROM (b IN (c))) AND d");
    }

    #[test]
    fn few_brackets_mean_the_same_as_all() {
        // Operators of equal strength bind from the left; comparisons cannot stand in a row.
        let needed = |part: &Meant, around: Binding, is_right: bool| {
            let own = part.binding().expect("it has an operator");
            own < around || own == around && (is_right || own == Binding::Tight)
        };
        let mut dice = Dice(1);
        let mut spared = 0;
        for _ in 0..20_000 {
            let depth = 1 + dice.below(5);
            let meant = Meant::random(&mut dice, depth);
            let (few, all) = (meant.written(&needed), meant.written(&|_, _, _| true));
            check(&few, &all);
            spared += usize::from(few != all && few.contains("DISTINCT"));
        }
        assert!(spared > 5_000, "the cases are of use");
    }
}
