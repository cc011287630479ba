//! VALUES that read columns of outer rows: `CROSS JOIN LATERAL (VALUES (t.a), (t.b))`.
//!
//! - outer_values-1. Such VALUES are `SELECT .. UNION ALL SELECT ..` with the names that VALUES
//!   gives its columns. Columns of outer rows can be read there, and DataFusion requires that a
//!   column of VALUES has the same properties in all rows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, Values,
};

use super::size::PARTS_MAX;
use crate::error::{Error, SyntaxError};
use crate::sql::blocks::{is_default, select_everything};
use crate::sql::own_exprs::visit_own_exprs;

/// Writes out the rows of a query that is VALUES of columns (outer_values-1). `written` is the
/// number of such rows in the statement.
pub(super) fn write_out_rows(
    sql: &str,
    query: &mut Query,
    written: &mut usize,
) -> Result<(), Box<Error>> {
    let SetExpr::Values(values) = query.body.as_mut() else { return Ok(()) };
    if !reads_columns(values) {
        return Ok(());
    }
    *written += values.rows.len();
    if PARTS_MAX < *written {
        let what = SyntaxError::TooManyParts { most: PARTS_MAX };
        return Err(Box::new(Error::syntax(sql, 0, what)));
    }
    let rows = std::mem::take(&mut values.rows);
    let union = |left: SetExpr, right: SetExpr| SetExpr::SetOperation {
        left: Box::new(left),
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        right: Box::new(right),
    };
    if let Some(body) = rows.into_iter().map(|row| row_of(row.content)).reduce(union) {
        *query.body = body;
    }
    Ok(())
}

fn row_of(exprs: Vec<Expr>) -> SetExpr {
    let mut select = select_everything(Vec::new(), None);
    // Clauses of ours belong to the place of a SELECT, and this one has none.
    select.select_token = AttachedToken::empty();
    let item = |at: usize, expr: Expr| {
        let alias = Ident::new(format!("column{}", at + 1));
        SelectItem::ExprWithAlias { expr, alias }
    };
    select.projection = exprs.into_iter().enumerate().map(|(at, expr)| item(at, expr)).collect();
    SetExpr::Select(Box::new(select))
}

/// Returns true if a value reads a column outside of subqueries, the rows have the same length, and
/// no value is DEFAULT.
fn reads_columns(values: &Values) -> bool {
    let has_default = values.rows.iter().any(|row| row.iter().any(is_default));
    let are_equal = values.rows.windows(2).all(|rows| rows[0].len() == rows[1].len());
    let reads = |part: &Expr| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    !has_default && are_equal && visit_own_exprs(values, reads).is_break()
}
