//! ORDER BY columns that are not selected, beside `unnest` in the SELECT list.
//!
//! - hidden_keys-1. Keys that read other columns than the selected ones become items of the SELECT,
//!   and a SELECT around it takes all but these: DataFusion sorts the rows that `unnest` makes,
//!   which have the selected columns only. Series in the list are calls of `unnest` here.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Expr, Function, Ident, OrderBy, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableFactor, WildcardAdditionalOptions,
};

use super::blocks::{from_one, item_expr, query_of, select_everything};
use super::visit::visit_expressions;
use crate::names::INTERNAL_PREFIX;

/// Selects the keys of ORDER BY that the SELECT list lacks (hidden_keys-1).
pub(super) fn select_hidden_keys(query: &mut Query) {
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else {
        return;
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(names) = names_beside_unnest(select) else { return };
    let is_other = |expr: &Expr| column(expr).is_some_and(|name| !names.contains(&name.value));
    let calls_unnest = keys.iter().any(|key| has(&key.expr, &is_unnest));
    if calls_unnest || !keys.iter().any(|key| has(&key.expr, &is_other)) {
        return;
    }
    // The tables are not known outside.
    let is_inside = |expr: &Expr| is_other(expr) || matches!(expr, Expr::CompoundIdentifier(_));
    let mut hidden: Vec<Ident> = Vec::new();
    for key in keys.iter_mut().filter(|key| has(&key.expr, &is_inside)) {
        let alias = Ident::with_quote('"', format!("{INTERNAL_PREFIX}key {}", hidden.len()));
        let expr = std::mem::replace(&mut key.expr, Expr::Identifier(alias.clone()));
        select.projection.push(SelectItem::ExprWithAlias { expr, alias: alias.clone() });
        hidden.push(alias);
    }
    select_all_but(hidden, query);
}

/// Makes the query a SELECT of all columns of its body but these.
fn select_all_but(mut hidden: Vec<Ident>, query: &mut Query) {
    let select = |from| select_everything(from, None);
    let nothing = Box::new(SetExpr::Select(Box::new(select(Vec::new()))));
    let body = std::mem::replace(&mut query.body, nothing);
    let subquery = Box::new(Query { body, ..query_of(select(Vec::new())) });
    let table = TableFactor::Derived { lateral: false, subquery, alias: None, sample: None };
    let mut outer = select(from_one(table));
    let first_element = hidden.remove(0);
    let except = ExceptSelectItem { first_element, additional_elements: hidden };
    let options = WildcardAdditionalOptions { opt_except: Some(except), ..Default::default() };
    outer.projection = vec![SelectItem::Wildcard(options)];
    *query.body = SetExpr::Select(Box::new(outer));
}

/// Returns the names of the items, if `unnest` is called in one; `None` beside a `*` or DISTINCT.
fn names_beside_unnest(select: &Select) -> Option<Vec<String>> {
    let exprs = select.projection.iter().map(item_expr).collect::<Option<Vec<_>>>()?;
    if select.distinct.is_some() || !exprs.iter().any(|expr| has(expr, &is_unnest)) {
        return None;
    }
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(expr) => column(expr).map(|name| name.value.clone()),
        _ => None,
    };
    Some(select.projection.iter().filter_map(name).collect())
}

/// Returns the name of a column.
fn column(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(path) => path.last(),
        _ => None,
    }
}

fn is_unnest(expr: &Expr) -> bool {
    let Expr::Function(Function { name, .. }) = expr else { return false };
    let name = name.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| name.value == "unnest")
}

/// Returns true if one of the expressions in an expression is such a one.
fn has(expr: &Expr, is_such: &dyn Fn(&Expr) -> bool) -> bool {
    let found = visit_expressions(expr, |expr| match is_such(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}
