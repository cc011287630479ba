//! Visits to the expressions of a part of a query, but not to those of its subqueries.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Visit, VisitMut, Visitor, VisitorMut};

use super::visit::{visit, visit_mut};

/// Calls a function with each expression of a node, the whole before its parts, until it breaks
/// off.
pub(crate) fn visit_own_exprs<B>(
    node: &impl Visit,
    of_expr: impl FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit(node, &mut Reading { of_expr, queries: 0 })
}

/// Changes each expression of a node, its parts before the whole.
pub(crate) fn change_own_exprs(node: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    let ControlFlow::Continue(()) = visit_mut(node, &mut Changing { change, queries: 0 });
}

struct Reading<F> {
    of_expr: F,
    /// The number of open subqueries.
    queries: usize,
}

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Reading<F> {
    type Break = B;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        if self.queries == 0 { (self.of_expr)(expr) } else { ControlFlow::Continue(()) }
    }
}

struct Changing<F> {
    change: F,
    /// The number of open subqueries.
    queries: usize,
}

impl<F: FnMut(&mut Expr)> VisitorMut for Changing<F> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if self.queries == 0 {
            (self.change)(expr);
        }
        ControlFlow::Continue(())
    }
}
