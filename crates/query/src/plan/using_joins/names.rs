//! The names without a table in an expression, and the queries in it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, VisitorMut};

use super::scope::{Resolution, placed};
use super::{Columns, Pass, Passed, nothing};
use crate::error::Error;

/// The visitor of an expression: it writes out merged columns, and hands queries to the pass.
pub(super) struct Names<'p, 'a> {
    pass: &'p mut Pass<'a>,
    /// The queries that are written out already, while their place is visited.
    done: Vec<Query>,
    columns: Columns,
    /// The parameters of lambda functions, which hide columns.
    parameters: Vec<Vec<String>>,
}

impl<'p, 'a> Names<'p, 'a> {
    pub(super) fn new(pass: &'p mut Pass<'a>) -> Names<'p, 'a> {
        Names { pass, done: Vec::new(), columns: None, parameters: Vec::new() }
    }

    /// Returns the columns of the query that was visited last.
    pub(super) fn columns(self) -> Columns {
        self.columns
    }
}

impl VisitorMut for Names<'_, '_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<Error>> {
        let mut taken = std::mem::replace(query, nothing());
        match self.pass.query(&mut taken) {
            Ok(columns) => self.columns = columns,
            Err(error) => return ControlFlow::Break(error),
        }
        self.done.push(taken);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<Error>> {
        *query = self.done.pop().expect("it was visited before");
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        if let Expr::Lambda(lambda) = expr {
            let names = lambda.params.iter().map(|parameter| parameter.name.value.clone());
            self.parameters.push(names.collect());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        match expr {
            Expr::Lambda(_) => {
                self.parameters.pop();
            }
            Expr::Identifier(name)
                if !self.parameters.iter().flatten().any(|it| *it == name.value) =>
            {
                match self.pass.meaning(name) {
                    Ok(Some(merged)) => *expr = merged,
                    Ok(None) => {}
                    Err(error) => return ControlFlow::Break(error),
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Pass<'_> {
    /// Returns the expression of a name, if it is a merged column; refuses a name that must not be
    /// looked for in the rows around.
    pub(super) fn meaning(&self, name: &Ident) -> Passed<Option<Expr>> {
        for (at, scope) in self.scopes.iter().enumerate().rev() {
            match scope.find(&name.value) {
                Resolution::Nothing => {}
                Resolution::Column => return Ok(None),
                Resolution::Merged(expr) => return Ok(Some(placed(expr, name.span))),
                // DataFusion refuses a name of the outermost query itself.
                Resolution::Several { is_merged: false } if at == 0 => return Ok(None),
                Resolution::Several { .. } => return Err(self.ambiguous(name)),
            }
        }
        Ok(None)
    }
}
