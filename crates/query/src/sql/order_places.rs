//! ORDER BY with numbers: the places of columns in the SELECT list.
//!
//! - order_places-1. In a SELECT that groups its rows, an item that ORDER BY names by its place,
//!   and that is calculated of aggregates, windows or grouping keys, has an alias, which is its
//!   text: DataFusion looks for an item without one among the grouping keys and the aggregates.
//! - order_places-2. ORDER BY ALL is the list of all places, or belongs to a SELECT of a `*`:
//!   DataFusion takes it for plain columns of a SELECT only, and ignores it behind UNION and
//!   VALUES.

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableFactor, Value,
};

use super::blocks::{
    contains_aggregate, from_one, is_aggregate_call, is_grouped, item_expr, query_of,
    select_everything,
};

/// Writes out the ORDER BY ALL of a query, if it has one (order_places-2).
pub(super) fn write_out_all(query: &mut Query) {
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::All(options) = order.kind else { return };
    let Some(count) = items_of(&query.body) else { return };
    let by = |place: usize| {
        let expr = Expr::Value(Value::Number(place.to_string(), false).into());
        OrderByExpr { expr, options, with_fill: None }
    };
    order.kind = OrderByKind::Expressions((1..=count).map(by).collect());
}

/// Returns the number of columns, if each is written as an item.
fn items_of(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_plain = select.projection.iter().all(|item| item_expr(item).is_some());
            is_plain.then_some(select.projection.len())
        }
        SetExpr::Query(query) => items_of(&query.body),
        SetExpr::SetOperation { left, .. } => items_of(left),
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        _ => None,
    }
}

/// Selects everything from rows whose ORDER BY ALL could not be written out (order_places-2).
pub(super) fn select_for_all(query: &mut Query) {
    let is_select = matches!(query.body.as_ref(), SetExpr::Select(_));
    if is_select || !matches!(&query.order_by, Some(OrderBy { kind: OrderByKind::All(_), .. })) {
        return;
    }
    let select = |from| Box::new(SetExpr::Select(Box::new(select_everything(from, None))));
    let body = std::mem::replace(&mut query.body, select(Vec::new()));
    let rows = Query { body, ..query_of(select_everything(Vec::new(), None)) };
    let subquery = Box::new(rows);
    let table = TableFactor::Derived { lateral: false, subquery, alias: None, sample: None };
    query.body = select(from_one(table));
}

/// Gives aliases to the items that ORDER BY names by their places (order_places-1).
pub(super) fn name_items(query: &mut Query, is_aggregate: &dyn Fn(&str) -> bool) {
    let Some(OrderBy { kind: OrderByKind::Expressions(by), .. }) = &query.order_by else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let mut exprs = select.projection.iter().filter_map(item_expr);
    if !is_grouped(select) && !exprs.any(|expr| contains_aggregate(expr, is_aggregate)) {
        return;
    }
    for place in by.iter().filter_map(|by| place_of(&by.expr)) {
        if is_calculated(select, place, is_aggregate)
            && let Some(item) = place.checked_sub(1).and_then(|at| select.projection.get_mut(at))
        {
            name(item);
        }
    }
}

/// Returns the number that an expression is.
fn place_of(expr: &Expr) -> Option<usize> {
    let Expr::Value(value) = expr else { return None };
    match &value.value {
        Value::Number(digits, _) => digits.parse().ok(),
        _ => None,
    }
}

/// Returns true for an item without an alias that is no column, aggregate or grouping key.
fn is_calculated(select: &Select, place: usize, is_aggregate: &dyn Fn(&str) -> bool) -> bool {
    let Some(items) = select.projection.get(..place) else { return false };
    let is_after_wildcard = items.iter().any(|item| item_expr(item).is_none());
    let Some(SelectItem::UnnamedExpr(expr)) = items.last() else { return false };
    let expr = inside(expr);
    match expr {
        _ if is_after_wildcard => false,
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => false,
        Expr::Function(call) if is_aggregate_call(call, is_aggregate) => false,
        _ => match &select.group_by {
            GroupByExpr::All(_) => contains_aggregate(expr, is_aggregate),
            GroupByExpr::Expressions(keys, _) => {
                let text = expr.to_string();
                let is_it =
                    |key: &Expr| place_of(key) == Some(place) || inside(key).to_string() == text;
                !keys.iter().any(is_it)
            }
        },
    }
}

fn inside(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => inside(inner),
        expr => expr,
    }
}

fn name(item: &mut SelectItem) {
    let SelectItem::UnnamedExpr(expr) = item else { return };
    let alias = Ident::with_quote('"', expr.to_string());
    let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
    *item = SelectItem::ExprWithAlias { expr, alias };
}
