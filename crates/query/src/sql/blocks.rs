//! Parts of a query's tree: the blocks of SELECT, their items, and the aggregates in them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    Visitor,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::dialect::QueryDialect;
use super::own_exprs::visit_own_exprs;
use super::visit::visit;

/// Returns the FROM of one relation.
pub(crate) fn from_one(relation: TableFactor) -> Vec<TableWithJoins> {
    vec![TableWithJoins { relation, joins: Vec::new() }]
}

/// Returns the block `SELECT * FROM .. WHERE ..`.
pub(crate) fn select_everything(from: Vec<TableWithJoins>, selection: Option<Expr>) -> Select {
    let dialect = QueryDialect::default();
    let query = Parser::new(&dialect).try_with_sql("SELECT *").and_then(|mut p| p.parse_query());
    match query.map(|query| *query.body) {
        Ok(SetExpr::Select(select)) => Select { from, selection, ..*select },
        _ => unreachable!("the text is a SELECT"),
    }
}

/// Returns the query that consists of a block.
pub(crate) fn query_of(select: Select) -> Query {
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// Returns true if a block groups its rows.
pub(crate) fn is_grouped(select: &Select) -> bool {
    match &select.group_by {
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        GroupByExpr::All(_) => true,
    }
}

/// Returns the expression of an item; `None` for `*`.
pub(crate) fn item_expr(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Returns the grouping keys of an item of SELECT: the item itself if it has a column and no
/// aggregate, otherwise the columns outside of its aggregates.
pub(crate) fn keys_of(expr: &Expr, is_aggregate: &dyn Fn(&str) -> bool) -> Vec<Expr> {
    let mut finder = Finder { is_aggregate, inside: 0, queries: 0, columns: Vec::new() };
    // The visitor never breaks off.
    let _: ControlFlow<()> = visit(expr, &mut finder);
    if finder.columns.is_empty() {
        return Vec::new();
    }
    match contains_aggregate(expr, is_aggregate) || contains_window(expr) {
        true => finder.columns,
        false => vec![expr.clone()],
    }
}

/// Returns true if an aggregate is called in an expression, but not in its subqueries.
pub(crate) fn contains_aggregate(expr: &Expr, is_aggregate: &dyn Fn(&str) -> bool) -> bool {
    contains_call(expr, |call| is_aggregate_call(call, is_aggregate))
}

/// Returns true if a window function is called in an expression, but not in its subqueries.
pub(crate) fn contains_window(expr: &Expr) -> bool {
    contains_call(expr, |call| call.over.is_some())
}

fn contains_call(expr: &Expr, is_it: impl Fn(&Function) -> bool) -> bool {
    let found = visit_own_exprs(expr, |part| match part {
        Expr::Function(call) if is_it(call) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Finds columns outside of aggregates and subqueries.
struct Finder<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
    /// The number of open aggregates.
    inside: usize,
    /// The number of open subqueries.
    queries: usize,
    columns: Vec<Expr>,
}

impl Finder<'_> {
    fn opens(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Function(function) => is_aggregate_call(function, self.is_aggregate),
            _ => false,
        }
    }
}

impl Visitor for Finder<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        self.inside += usize::from(self.opens(expr));
        let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        if is_column && self.inside == 0 && !self.columns.contains(expr) {
            self.columns.push(expr.clone());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.queries == 0 && self.opens(expr) {
            self.inside -= 1;
        }
        ControlFlow::Continue(())
    }
}

/// Returns true for the call of an aggregate.
pub(super) fn is_aggregate_call(function: &Function, is_aggregate: &dyn Fn(&str) -> bool) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident());
    function.over.is_none() && name.is_some_and(|name| is_aggregate(&name.value))
}

/// Returns true for the word DEFAULT: the default of the column, or NULL.
pub(crate) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}
