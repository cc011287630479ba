//! Select rewriting: a query's clauses of ours become derived tables that `relations` knows by
//! their alias.
//!
//! - Inner blocks are rewritten before outer ones, so that a derived table is moved as a whole.
//! - A block that has only DataFusion's SQL is left unchanged, except for its grouping: plain
//!   columns next to aggregates become keys.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Join, LimitClause,
    Query, Select, SelectItem, SetExpr, Spanned, TableAlias, TableFactor, TableWithJoins, Value,
    VisitorMut,
};

use super::blocks::{
    contains_aggregate, from_one, is_aggregate_call, is_grouped, item_expr, keys_of, query_of,
    select_everything,
};
use super::clauses::{Clauses, LatestClause, SampleClause};
use super::visit::{visit_expressions, visit_mut};
use crate::names::INTERNAL_PREFIX;
use crate::position::{Position, position_at};
use crate::sql::cast_names::{name_casts_of_groups, name_casts_of_order, name_casts_of_windows};
use crate::sql::hidden_keys::select_hidden_keys;
use crate::sql::order_places::{name_items, select_for_all, write_out_all};
use crate::sql::rewritten::{is_rewritten, rewrite_aggregate};
use crate::sql::sample_order::order_by_bucket;

/// The clause of a derived table.
#[derive(Debug, Clone)]
pub(crate) enum RewrittenClause {
    /// `LIMIT high` or `LIMIT low, high` of the query inside.
    Limit { position: Option<Position>, low: Option<Box<Expr>>, high: Box<Expr> },
    /// `FETCH FIRST count ROWS WITH TIES` of the query inside, which is sorted.
    Ties { position: Option<Position>, skip: Option<Box<Expr>>, count: Box<Expr> },
    /// LATEST ON over the rows inside.
    Latest(Box<LatestClause>),
    /// SAMPLE BY over the block inside.
    Sample(Box<SampleClause>),
}

/// Rewrites the blocks of a query that have clauses of ours, and returns these clauses.
/// `is_aggregate` knows functions by their names in lower case.
pub(crate) fn rewrite_blocks(
    sql: &str,
    query: &mut Query,
    clauses: Clauses,
    is_aggregate: &dyn Fn(&str) -> bool,
) -> Vec<RewrittenClause> {
    let mut rewriter = SelectRewriter { sql, clauses, is_aggregate, rewritten: Vec::new() };
    // The visitor never breaks off.
    let _: ControlFlow<()> = visit_mut(query, &mut rewriter);
    rewriter.rewritten
}

/// Returns the number of the clause with this alias.
pub(crate) fn clause_number(alias: &TableAlias) -> Option<usize> {
    alias.name.value.strip_prefix(&alias_prefix())?.parse().ok()
}

/// Returns the number of the clause that a block consists of.
fn number_of_only(select: &Select) -> Option<usize> {
    let [table] = select.from.as_slice() else { return None };
    let TableFactor::Derived { alias: Some(alias), .. } = &table.relation else { return None };
    clause_number(alias).filter(|_| table.joins.is_empty())
}

fn alias_prefix() -> String {
    format!("{INTERNAL_PREFIX}clause ")
}

struct SelectRewriter<'a> {
    sql: &'a str,
    clauses: Clauses,
    is_aggregate: &'a dyn Fn(&str) -> bool,
    rewritten: Vec<RewrittenClause>,
}

impl SelectRewriter<'_> {
    fn derived_table(&mut self, subquery: Query, clause: RewrittenClause) -> TableFactor {
        let name = Ident::with_quote('"', format!("{}{}", alias_prefix(), self.rewritten.len()));
        self.rewritten.push(clause);
        let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
        TableFactor::Derived {
            lateral: false,
            subquery: Box::new(subquery),
            alias: Some(alias),
            sample: None,
        }
    }
}

impl VisitorMut for SelectRewriter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        write_out_all(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        select_for_all(query);
        name_items(query, self.is_aggregate);
        if let SetExpr::Select(select) = query.body.as_ref()
            && is_grouped(select)
        {
            name_casts_of_order(query);
        }
        select_hidden_keys(query);
        if let SetExpr::Select(select) = query.body.as_ref()
            && let Some(number) = number_of_only(select)
            && let Some(RewrittenClause::Sample(clause)) = self.rewritten.get_mut(number)
        {
            order_by_bucket(query, clause);
        }
        let limit = take_ties(self.sql, query).or_else(|| take_limit(self.sql, query));
        let Some(clause) = limit else { return ControlFlow::Continue(()) };
        let inner = std::mem::replace(query, query_of(select_everything(Vec::new(), None)));
        let limited = self.derived_table(inner, clause);
        *query = query_of(select_everything(from_one(limited), None));
        ControlFlow::Continue(())
    }

    /// Keeps the names of items that will be rewritten, which no other items have.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            if has_rewritten(expr) {
                let alias = Ident::with_quote('"', expr.to_string());
                let null = Expr::Value(Value::Null.into());
                let expr = std::mem::replace(expr, null);
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        rewrite_aggregate(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor
            && !is_time_join(table_with_joins)
        {
            nest_time_joins(table_with_joins);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.from.iter_mut().for_each(nest_time_joins);
        let clauses = self.clauses.take(select.select_token.0.span.start);
        if let Some(latest) = clauses.latest {
            let from = std::mem::take(&mut select.from);
            let rows = query_of(select_everything(from, select.selection.take()));
            select.from =
                from_one(self.derived_table(rows, RewrittenClause::Latest(Box::new(latest))));
        }
        if let Some(sample) = clauses.sample {
            name_casts_of_groups(select);
            let block = std::mem::replace(select, select_everything(Vec::new(), None));
            let sampled =
                self.derived_table(query_of(block), RewrittenClause::Sample(Box::new(sample)));
            select.from = from_one(sampled);
        } else {
            group_implicitly(select, self.is_aggregate);
            match is_grouped(select) {
                true => name_casts_of_groups(select),
                false => name_casts_of_windows(select),
            }
        }
        ControlFlow::Continue(())
    }
}

/// Takes FETCH .. WITH TIES out of a query, with its OFFSET. FETCH .. ONLY is a LIMIT here.
fn take_ties(sql: &str, query: &mut Query) -> Option<RewrittenClause> {
    let fetch = query.fetch.take()?;
    let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
    let count = Box::new(fetch.quantity.unwrap_or_else(one));
    let skip = match query.limit_clause.take() {
        Some(LimitClause::LimitOffset { offset: Some(offset), .. }) => Some(Box::new(offset.value)),
        _ => None,
    };
    Some(RewrittenClause::Ties { position: place_of(sql, &count), skip, count })
}

/// Takes a LIMIT that DataFusion does not know out of a query.
fn take_limit(sql: &str, query: &mut Query) -> Option<RewrittenClause> {
    let (low, high) = match query.limit_clause.take()? {
        LimitClause::OffsetCommaLimit { offset, limit } => (Some(offset), limit),
        LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by }
            if limit_by.is_empty() && !is_count(&limit) =>
        {
            (None, limit)
        }
        clause => {
            query.limit_clause = Some(clause);
            return None;
        }
    };
    let position = place_of(sql, low.as_ref().unwrap_or(&high));
    Some(RewrittenClause::Limit { position, low: low.map(Box::new), high: Box::new(high) })
}

/// Returns the place of an expression in the text.
fn place_of(sql: &str, expr: &Expr) -> Option<Position> {
    let start = expr.span().start;
    (start.line > 0).then(|| position_at(sql, start))
}

/// Returns true if an expression calls an aggregate that is rewritten as another.
fn has_rewritten(expr: &Expr) -> bool {
    let is_it = visit_expressions(expr, |expr| match expr {
        Expr::Function(function) if is_rewritten(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    is_it.is_break()
}

/// Returns true if a limit is a plain number, which DataFusion knows.
fn is_count(limit: &Expr) -> bool {
    match limit {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(_) => false,
            Value::Number(digits, _) => digits.parse::<i64>().is_ok(),
            _ => true,
        },
        _ => false,
    }
}

/// Returns true for the brackets around an ASOF or LT JOIN.
pub(crate) fn is_time_join(tables: &TableWithJoins) -> bool {
    matches!(tables.joins.as_slice(), [join] if join.global)
}

/// Puts each ASOF or LT JOIN into brackets of its own, with all tables left of it.
fn nest_time_joins(tables: &mut TableWithJoins) {
    while let Some(at) = tables.joins.iter().position(|join| join.global) {
        let mut before = std::mem::take(&mut tables.joins);
        tables.joins = before.split_off(at + 1);
        let time_join = before.split_off(at);
        let nothing = Expr::Value(Value::Null.into());
        let placeholder = TableFactor::TableFunction { expr: nothing, alias: None };
        let mut left = std::mem::replace(&mut tables.relation, placeholder);
        if !before.is_empty() {
            left = in_brackets(left, before);
        }
        tables.relation = in_brackets(left, time_join);
    }
}

fn in_brackets(relation: TableFactor, joins: Vec<Join>) -> TableFactor {
    let table_with_joins = Box::new(TableWithJoins { relation, joins });
    TableFactor::NestedJoin { table_with_joins, alias: None }
}

/// Groups a block without GROUP BY by the columns next to its aggregates.
fn group_implicitly(select: &mut Select, is_aggregate: &dyn Fn(&str) -> bool) {
    let is_ungrouped = matches!(
        &select.group_by,
        GroupByExpr::Expressions(exprs, modifiers) if exprs.is_empty() && modifiers.is_empty()
    );
    let exprs = select.projection.iter().filter_map(item_expr);
    let has_aggregate = exprs.clone().any(|expr| contains_aggregate(expr, is_aggregate));
    if !is_ungrouped || !has_aggregate {
        return;
    }
    let is_plain = |item: &SelectItem| item_expr(item).is_some();
    if !select.projection.iter().all(is_plain) {
        select.group_by = GroupByExpr::All(Vec::new());
        return;
    }
    let mut keys: Vec<Expr> = Vec::new();
    for expr in exprs {
        for key in keys_of(expr, is_aggregate) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    select.group_by = GroupByExpr::Expressions(keys, Vec::new());
}

/// Replaces columns outside of aggregates for which `replacement` returns an expression.
pub(crate) fn replace_columns(
    expr: &mut Expr,
    is_aggregate: &dyn Fn(&str) -> bool,
    replacement: &dyn Fn(&Expr) -> Option<Expr>,
) {
    let mut replacer = Replacer { is_aggregate, replacement, inside: 0 };
    // The visitor never breaks off.
    let _: ControlFlow<()> = visit_mut(expr, &mut replacer);
}

struct Replacer<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
    replacement: &'a dyn Fn(&Expr) -> Option<Expr>,
    inside: usize,
}

impl Replacer<'_> {
    fn opens(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Function(function) => is_aggregate_call(function, self.is_aggregate),
            _ => false,
        }
    }
}

impl VisitorMut for Replacer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.opens(expr) {
            self.inside += 1;
        } else if self.inside == 0
            && let Some(other) = (self.replacement)(expr)
        {
            *expr = other;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.opens(expr) {
            self.inside -= 1;
        }
        ControlFlow::Continue(())
    }
}

/// Returns the number and unit of a TOLERANCE, if the expression is one.
pub(crate) fn tolerance_of(expr: &Expr, name: &str) -> Option<(u64, char)> {
    let Expr::Function(function) = expr else { return None };
    let ident = function.name.0.last()?.as_ident()?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let value = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => {
            Some(value.value.clone())
        }
        _ => None,
    };
    match list.args.iter().map(value).collect::<Vec<_>>().as_slice() {
        [Some(Value::Number(digits, _)), Some(Value::SingleQuotedString(unit))]
            if ident.value == name =>
        {
            Some((digits.parse().ok()?, unit.chars().next()?))
        }
        _ => None,
    }
}
