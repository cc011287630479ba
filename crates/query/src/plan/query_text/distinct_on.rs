//! Keys of DISTINCT ON, and of ORDER BY beside DISTINCT, as PostgreSQL reads them.
//!
//! - distinct_on-1. A number is the column of that position in the SELECT list, as in ORDER BY.
//!   DataFusion takes it for a constant.
//! - distinct_on-2. The keys may stand in another order than in ORDER BY, which begins with them,
//!   or has some of them only. DataFusion wants them in the same order.
//! - distinct_on-3. A calculated key of ORDER BY beside DISTINCT is the number of the item that it
//!   equals. DataFusion looks for the columns that the key reads in the list.

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, SelectItem, SetExpr,
    Value,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::error::{Error, SyntaxError};
use crate::position::position_at;

const DISTINCT_ON: &str = "DISTINCT ON with the number of a column of * (its name is supported)";

/// Writes out the keys of the DISTINCT ON of a query, if it has one (distinct_on-1, distinct_on-2).
pub(super) fn write_out_keys(sql: &str, query: &mut Query) -> Result<(), Box<Error>> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let Some(Distinct::On(keys)) = &mut select.distinct else { return Ok(()) };
    let items = select.projection.as_slice();
    for key in keys.iter_mut() {
        if let Some((position, span)) = position_of(key) {
            *key = item_at(items, position)
                .ok_or_else(|| no_item(sql, items, position, span, DISTINCT_ON))?;
        }
    }
    let Some(order) = &mut query.order_by else { return Ok(()) };
    let OrderByKind::Expressions(order) = &mut order.kind else { return Ok(()) };
    if let Some((ordered, added)) = in_order(keys, order, items) {
        *keys = ordered;
        order.extend(added);
    }
    Ok(())
}

/// Writes the keys of ORDER BY that are items of a SELECT DISTINCT as their numbers
/// (distinct_on-3).
pub(super) fn number_distinct_keys(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else {
        return;
    };
    if select.distinct != Some(Distinct::Distinct) {
        return;
    }
    for key in keys {
        let is_plain = matches!(
            inside(&key.expr),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)
        );
        if !is_plain && let Some(place) = place_of(&key.expr, &select.projection) {
            key.expr = Expr::Value(Value::Number(place.to_string(), false).into());
        }
    }
}

/// Returns the number of the item that an expression equals, unless `*` comes before it.
fn place_of(expr: &Expr, items: &[SelectItem]) -> Option<usize> {
    for (at, item) in items.iter().enumerate() {
        let (SelectItem::UnnamedExpr(listed) | SelectItem::ExprWithAlias { expr: listed, .. }) =
            item
        else {
            return None;
        };
        if inside(listed) == inside(expr) {
            return Some(at + 1);
        }
    }
    None
}

/// Returns the keys in the order of ORDER BY, and the keys to add to that; `None` if it does not
/// begin with them.
fn in_order(
    keys: &[Expr],
    order: &mut [OrderByExpr],
    items: &[SelectItem],
) -> Option<(Vec<Expr>, Vec<OrderByExpr>)> {
    let mut rest = keys.to_vec();
    let mut ordered: Vec<Expr> = Vec::with_capacity(keys.len());
    for by in order.iter_mut() {
        let meant = meaning(&by.expr, items);
        if let Some(at) = rest.iter().position(|key| meaning(key, items) == meant) {
            let key = rest.remove(at);
            by.expr = key.clone();
            ordered.push(key);
        } else if rest.is_empty() {
            break;
        } else if ordered.iter().all(|key| meaning(key, items) != meant) {
            return None;
        }
    }
    let options = OrderByOptions { asc: None, nulls_first: None };
    let added = rest.iter().cloned();
    let added = added.map(|expr| OrderByExpr { expr, options, with_fill: None }).collect();
    ordered.extend(rest);
    Some((ordered, added))
}

/// Returns the expression of a number or of a name of the SELECT list.
fn meaning(expr: &Expr, items: &[SelectItem]) -> Expr {
    let expr = inside(expr);
    if let Some(item) = position_of(expr).and_then(|(at, _)| item_at(items, at)) {
        return inside(&item).clone();
    }
    let Expr::Identifier(name) = expr else { return expr.clone() };
    let named = items.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if alias.value == name.value => Some(expr),
        _ => None,
    });
    inside(named.unwrap_or(expr)).clone()
}

fn inside(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => inside(inner),
        expr => expr,
    }
}

/// Returns the number that an expression is, and its place.
pub(super) fn position_of(expr: &Expr) -> Option<(usize, Span)> {
    let Expr::Value(value) = inside(expr) else { return None };
    match &value.value {
        Value::Number(digits, _) => Some((digits.parse().ok()?, value.span)),
        _ => None,
    }
}

/// Returns the item of a SELECT list at a position from 1, unless `*` comes before it.
pub(super) fn item_at(items: &[SelectItem], position: usize) -> Option<Expr> {
    let listed = items.get(..position)?;
    let expr = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(expr.clone())
        }
        _ => None,
    };
    listed.iter().map(expr).collect::<Option<Vec<_>>>()?.pop()
}

/// Returns the error of a position without an item. `of_wildcard` is the feature that is not
/// supported if the item may be a column of `*`.
pub(super) fn no_item(
    sql: &str,
    items: &[SelectItem],
    position: usize,
    span: Span,
    of_wildcard: &'static str,
) -> Box<Error> {
    let is_plain = |item: &&SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    let count = items.iter().take_while(is_plain).count();
    let place = (span.start.line > 0).then(|| position_at(sql, span.start));
    if count < items.len() {
        return Box::new(Error::NotSupported { position: place, feature: of_wildcard });
    }
    let expected = format!("the number of a column in the SELECT list, from 1 to {count}");
    let what = SyntaxError::Unexpected { expected, found: Some(position.to_string()) };
    let position = place.unwrap_or_else(|| position_at(sql, span.start));
    Box::new(Error::Syntax { position, what })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let parser = Parser::new(&PostgreSqlDialect {});
        let mut query = parser.try_with_sql(sql).unwrap().parse_query().unwrap();
        let shown = match write_out_keys(sql, &mut query) {
            Ok(()) => query.to_string(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "distinct_on-1, distinct_on-2: {sql}");
    }

    #[test]
    fn numbers_are_columns_of_the_list() {
        check("SELECT DISTINCT ON (2) a, b FROM t", "SELECT DISTINCT ON (b) a, b FROM t");
        check("SELECT DISTINCT ON ((1)) a + 1 AS x FROM t ORDER BY x, 1, c", {
            "SELECT DISTINCT ON (a + 1) a + 1 AS x FROM t ORDER BY a + 1, 1, c"
        });
        check("SELECT DISTINCT ON (3) a, b FROM t", {
            "error: line 1, column 21: expected the number of a column in the SELECT list, \
             from 1 to 2, found `3`"
        });
        check("SELECT DISTINCT ON (1) * FROM t", {
            "error: line 1, column 21: DISTINCT ON with the number of a column of * (its name is \
             supported) is not supported yet"
        });
    }

    #[test]
    fn calculated_keys_are_items_of_the_list() {
        let check = |sql: &str, expected: &str| {
            let parser = Parser::new(&PostgreSqlDialect {});
            let mut query = parser.try_with_sql(sql).unwrap().parse_query().unwrap();
            number_distinct_keys(&mut query);
            assert_eq!(query.to_string(), expected, "distinct_on-3: {sql}");
        };
        check(
            "SELECT DISTINCT a, lower(b) AS l, a + 1 FROM t ORDER BY (a + 1) DESC, lower(b), a, l",
            "SELECT DISTINCT a, lower(b) AS l, a + 1 FROM t ORDER BY 3 DESC, 2, a, l",
        );
        for same in [
            "SELECT DISTINCT *, a + 1 FROM t ORDER BY a + 1",
            "SELECT DISTINCT a + 1 FROM t ORDER BY a + 2, 1",
            "SELECT a + 1 FROM t ORDER BY a + 1",
        ] {
            check(same, same);
        }
    }

    #[test]
    fn keys_have_the_order_of_order_by() {
        check("SELECT DISTINCT ON (a, b) c FROM t ORDER BY b DESC, a, c", {
            "SELECT DISTINCT ON (b, a) c FROM t ORDER BY b DESC, a, c"
        });
        check("SELECT DISTINCT ON (a, b) c FROM t ORDER BY b", {
            "SELECT DISTINCT ON (b, a) c FROM t ORDER BY b, a"
        });
        check("SELECT DISTINCT ON (a, b) c FROM t ORDER BY c, a, b", {
            "SELECT DISTINCT ON (a, b) c FROM t ORDER BY c, a, b"
        });
    }
}
