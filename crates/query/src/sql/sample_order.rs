//! ORDER BY the designated timestamp of a SAMPLE BY that selects it under another name, or not at
//! all.
//!
//! The rows have a bucket all the same: the derived table shows it as one more column, for the
//! order alone. Only planning knows the name of the designated timestamp (`timeseries::relations`).

use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor,
};

use super::clauses::SampleClause;
use crate::names::INTERNAL_PREFIX;

/// Returns the name of the column of bucket starts.
pub(crate) fn bucket_name() -> String {
    format!("{INTERNAL_PREFIX}bucket")
}

/// Orders the rows of a query that consists of this SAMPLE BY by their buckets, where ORDER BY
/// names a column that the block does not select. The clause gets the name.
pub(super) fn order_by_bucket(query: &mut Query, clause: &mut SampleClause) {
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let names = selected(select);
    for key in keys {
        let Some(name) = column_name(&key.expr) else { continue };
        let is_same = clause.ordered_by.as_ref().is_none_or(|known| known.value == name.value);
        if names.contains(&name.value) || !is_same {
            continue;
        }
        clause.ordered_by = Some(name.clone());
        key.expr = Expr::Identifier(Ident::with_quote('"', bucket_name()));
    }
    if clause.ordered_by.is_some() {
        hide_bucket(select);
    }
}

/// Returns the names of the items of the block inside.
fn selected(select: &Select) -> Vec<String> {
    let [table] = select.from.as_slice() else { return Vec::new() };
    let TableFactor::Derived { subquery, .. } = &table.relation else { return Vec::new() };
    let SetExpr::Select(block) = subquery.body.as_ref() else { return Vec::new() };
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(expr) => column_name(expr).map(|name| name.value.clone()),
        _ => None,
    };
    block.projection.iter().filter_map(name).collect()
}

fn column_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(path) => path.last(),
        _ => None,
    }
}

/// Makes `SELECT *` a selection of all other columns.
fn hide_bucket(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::Wildcard(options) = item {
            let first_element = Ident::with_quote('"', bucket_name());
            let except = ExceptSelectItem { first_element, additional_elements: Vec::new() };
            options.opt_except = Some(except);
        }
    }
}
