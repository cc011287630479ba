//! Row values: `(a, b) < (c, d)`, compared column by column as in PostgreSQL.
//!
//! - row_values-1. `=` is true if all columns are equal, false if some are not, and otherwise NULL;
//!   `<>` is its opposite. `<` and similar operators are decided by the first columns that are not
//!   equal, and NULL if one of these is.
//! - row_values-2. A row is IN a list if it equals one of its rows. It IS NULL if all of its
//!   columns are, and IS NOT NULL if none is.
//! - A row is IN a subquery as `"struct"(a, b) IN (SELECT "struct"(..) FROM (query) ..)`, which
//!   `subqueries` compares column by column.
//!
//! - row_values-3. A row is compared with a subquery as `(SELECT a = "column 1" AND .. FROM (query)
//!   ..)`: NULL if it has no row, and an error if it has several.
//!
//! - row_values-4. `(a, b) OVERLAPS (c, d)` is the call `overlaps(a, b, c, d)`.
//!
//! DataFusion makes structs of rows, and compares those as sorts do: NULL equals NULL there.

use std::mem::take;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Query, SelectItem, SetExpr, TableFactor, UnaryOperator, Value,
    VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::call::call_of;
use crate::sql::dialect::QueryDialect;
use crate::sql::visit::visit_mut;

/// Replaces comparisons of rows in a whole tree by comparisons of columns (row_values-1,
/// row_values-2, row_values-3).
pub(crate) fn compare_row_values(tree: &mut impl VisitMut) {
    // The visitor never breaks off.
    let _ = visit_mut(tree, &mut Writer);
}

struct Writer;

impl VisitorMut for Writer {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(written) = written_out(expr) {
            *expr = Expr::Nested(Box::new(written));
        }
        ControlFlow::Continue(())
    }
}

fn written_out(expr: &Expr) -> Option<Expr> {
    let both = |left: &Expr, right: &Expr| {
        let (left, right) = (row(left)?, row(right)?);
        (left.len() == right.len() && !left.is_empty()).then_some((left, right))
    };
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } => {
            let (left, right) = both(left, right)?;
            (left.len() == 2).then(|| call_of("overlaps", left.into_iter().chain(right)))
        }
        Expr::BinaryOp { left, op, right } => match (subquery_of(left), subquery_of(right)) {
            (None, Some(query)) => {
                in_one_row(query, row(left)?.len(), |columns| compared(row(left)?, op, columns))
            }
            (Some(query), None) => {
                in_one_row(query, row(right)?.len(), |columns| compared(columns, op, row(right)?))
            }
            _ => {
                let (left, right) = both(left, right)?;
                compared(left, op, right)
            }
        },
        Expr::IsDistinctFrom(left, right) => {
            let (left, right) = both(left, right)?;
            let distinct = |(a, b)| Expr::IsDistinctFrom(Box::new(a), Box::new(b));
            joined(left.into_iter().zip(right).map(distinct), BinaryOperator::Or)
        }
        Expr::IsNotDistinctFrom(left, right) => {
            let (left, right) = both(left, right)?;
            let same = |(a, b)| Expr::IsNotDistinctFrom(Box::new(a), Box::new(b));
            joined(left.into_iter().zip(right).map(same), BinaryOperator::And)
        }
        Expr::InList { expr, list, negated } => {
            let equal = |other: &Expr| {
                let (left, right) = both(expr, other)?;
                compared(left, &BinaryOperator::Eq, right).map(nested)
            };
            let equal = list.iter().map(equal).collect::<Option<Vec<_>>>()?;
            negated_if(*negated, joined_evenly(equal)?)
        }
        Expr::InSubquery { expr, subquery, negated } => in_rows(expr, subquery, *negated),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            in_rows(left, subquery_of(right)?, false)
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            in_rows(left, subquery_of(right)?, true)
        }
        Expr::Between { expr, negated, low, high } => {
            let (left, low) = both(expr, low)?;
            let (_, high) = both(expr, high)?;
            let above = compared(left.clone(), &BinaryOperator::GtEq, low)?;
            let below = compared(left, &BinaryOperator::LtEq, high)?;
            negated_if(*negated, binary(nested(above), BinaryOperator::And, nested(below)))
        }
        Expr::IsNull(inner) => {
            let nulls = row(inner)?.into_iter().map(|it| Expr::IsNull(Box::new(it)));
            joined(nulls, BinaryOperator::And)
        }
        Expr::IsNotNull(inner) => {
            let values = row(inner)?.into_iter().map(|it| Expr::IsNotNull(Box::new(it)));
            joined(values, BinaryOperator::And)
        }
        _ => None,
    }
}

/// A row that is IN a subquery, in the form that `subqueries` knows.
fn in_rows(expr: &Expr, query: &Query, negated: bool) -> Option<Expr> {
    let mut columns = row(expr)?;
    if columns.len() == 1 {
        let (expr, subquery) = (Box::new(columns.pop()?), Box::new(query.clone()));
        return Some(Expr::InSubquery { expr, subquery, negated });
    }
    let names = column_names(columns.len());
    let rows = rows_of(&format!("\"struct\"({})", names.join(", ")), query, &names)?;
    let dialect = QueryDialect::default();
    let mut parser = Parser::new(&dialect).try_with_sql("\"struct\"()").ok()?;
    let mut call = parser.parse_expr().ok()?;
    let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut call else {
        return None;
    };
    let arg = |column| FunctionArg::Unnamed(FunctionArgExpr::Expr(column));
    list.args = columns.into_iter().map(arg).collect();
    Some(Expr::InSubquery { expr: Box::new(call), subquery: rows, negated })
}

/// Compares the columns of a subquery in its one row (row_values-3).
fn in_one_row(
    query: &Query,
    count: usize,
    compare: impl FnOnce(Vec<Expr>) -> Option<Expr>,
) -> Option<Expr> {
    if count < 2 {
        return None;
    }
    let names = column_names(count);
    let columns = (1..=count).map(|at| Expr::Identifier(Ident::with_quote('"', column_name(at))));
    let compared = compare(columns.collect())?;
    let mut rows = rows_of("NULL", query, &names)?;
    let SetExpr::Select(select) = rows.body.as_mut() else { return None };
    select.projection = vec![SelectItem::UnnamedExpr(compared)];
    Some(Expr::Subquery(rows))
}

fn column_name(at: usize) -> String {
    format!("column {at}")
}

/// Names of columns that a query cannot be taken to mean, in quotes.
fn column_names(count: usize) -> Vec<String> {
    (1..=count).map(|at| format!("\"{}\"", column_name(at))).collect()
}

/// Returns `SELECT value FROM (query) AS "rows" (names)`.
pub(crate) fn rows_of(value: &str, query: &Query, names: &[String]) -> Option<Box<Query>> {
    let text = format!("SELECT {value} FROM (SELECT 1) AS \"rows\" ({})", names.join(", "));
    let dialect = QueryDialect::default();
    let mut parser = Parser::new(&dialect).try_with_sql(&text).ok()?;
    let mut rows = parser.parse_query().ok()?;
    let SetExpr::Select(select) = rows.body.as_mut() else { return None };
    // It stands nowhere in the text.
    select.select_token = AttachedToken::empty();
    let TableFactor::Derived { subquery, .. } = &mut select.from.first_mut()?.relation else {
        return None;
    };
    **subquery = query.clone();
    Some(rows)
}

fn subquery_of(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Nested(inner) => subquery_of(inner),
        Expr::Subquery(query) => Some(query),
        _ => None,
    }
}

/// The columns of a row that is written out, at least one.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => row(inner),
        Expr::Tuple(columns) => Some(columns.clone()),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if name.to_string().eq_ignore_ascii_case("row") =>
        {
            let column = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            };
            let columns = list.args.iter().map(column).collect::<Option<Vec<_>>>()?;
            (!columns.is_empty()).then_some(columns)
        }
        _ => None,
    }
}

/// Compares two rows (row_values-1).
fn compared(left: Vec<Expr>, op: &BinaryOperator, right: Vec<Expr>) -> Option<Expr> {
    let pairs = left.into_iter().zip(right);
    let (strict, join) = match op {
        BinaryOperator::Eq => (None, BinaryOperator::And),
        BinaryOperator::NotEq => (None, BinaryOperator::Or),
        BinaryOperator::Lt | BinaryOperator::LtEq => (Some(BinaryOperator::Lt), BinaryOperator::Or),
        BinaryOperator::Gt | BinaryOperator::GtEq => (Some(BinaryOperator::Gt), BinaryOperator::Or),
        _ => return None,
    };
    let Some(strict) = strict else {
        return joined(pairs.map(|(a, b)| equal(a, op, b)), join);
    };
    // From the last columns to the first: `a < c OR a = c AND (..)`.
    let mut decided: Option<Expr> = None;
    for (a, b) in pairs.rev() {
        decided = Some(match decided {
            None => binary(a, op.clone(), b),
            Some(rest) => {
                let equal = equal(a.clone(), &BinaryOperator::Eq, b.clone());
                let behind = binary(equal, BinaryOperator::And, nested(rest));
                binary(binary(a, strict.clone(), b), join.clone(), behind)
            }
        });
    }
    decided
}

/// Compares two columns; the comparison with the literal NULL is NULL in a row (row_values-1).
fn equal(left: Expr, op: &BinaryOperator, right: Expr) -> Expr {
    let is_null = |side: &Expr| matches!(side, Expr::Value(it) if it.value == Value::Null);
    if !is_null(&left) && !is_null(&right) {
        return binary(left, op.clone(), right);
    }
    let null = Box::new(Expr::Value(Value::Null.into()));
    let (kind, data_type) = (CastKind::Cast, DataType::Boolean);
    Expr::Cast { kind, expr: null, data_type, array: false, format: None }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn joined(parts: impl Iterator<Item = Expr>, op: BinaryOperator) -> Option<Expr> {
    parts.reduce(|all, next| binary(all, op.clone(), next))
}

/// Joins conditions by OR, in a tree of the least depth.
fn joined_evenly(mut parts: Vec<Expr>) -> Option<Expr> {
    while 1 < parts.len() {
        let mut next = take(&mut parts).into_iter();
        while let Some(left) = next.next() {
            parts.push(match next.next() {
                Some(right) => nested(binary(left, BinaryOperator::Or, right)),
                None => left,
            });
        }
    }
    parts.pop()
}

fn negated_if(negated: bool, expr: Expr) -> Option<Expr> {
    Some(match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(expr)) },
        false => expr,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let parser = Parser::new(&GenericDialect);
        let mut expr = parser.try_with_sql(text).unwrap().parse_expr().unwrap();
        compare_row_values(&mut expr);
        let rules = "row_values-1, row_values-2, row_values-3, row_values-4";
        assert_eq!(expr.to_string(), expected, "{rules}: {text}");
    }

    #[test]
    fn rows_are_compared_column_by_column() {
        check("(a, b) = (c, 1)", "(a = c AND b = 1)");
        check("(a, b) <> ROW(c, 1)", "(a <> c OR b <> 1)");
        check("(a, b, x) < (c, d, y)", "(a < c OR a = c AND (b < d OR b = d AND (x < y)))");
        check("(a, b) >= (c, d)", "(a > c OR a = c AND (b >= d))");
        check("(a, b) IS DISTINCT FROM (c, d)", "(a IS DISTINCT FROM c OR b IS DISTINCT FROM d)");
        check("(a, b) NOT IN ((1, 2), (3, 4))", "(NOT (((a = 1 AND b = 2) OR (a = 3 AND b = 4))))");
        check("(a, b) BETWEEN (1, 2) AND (3, 4)", {
            "((a > 1 OR a = 1 AND (b >= 2)) AND (a < 3 OR a = 3 AND (b <= 4)))"
        });
        check("(a, b) IS NULL", "(a IS NULL AND b IS NULL)");
        check("(a, b) IS NOT NULL", "(a IS NOT NULL AND b IS NOT NULL)");
        check("(a, b) = (1, 2, 3)", "(a, b) = (1, 2, 3)");
        check("(a) = (b)", "(a) = (b)");
        check("(a, b) OVERLAPS ROW(c, d)", "(\"overlaps\"(a, b, c, d))");
        check("(a, b, c) OVERLAPS (d, e, f)", "(a, b, c) OVERLAPS (d, e, f)");
        check("(a, b) = (c, NULL)", "(a = c AND CAST(NULL AS BOOLEAN))");
        check("ROW(a) IN (SELECT 1)", "(a IN (SELECT 1))");
        check("(a, b) < (SELECT c, d FROM t)", {
            "((SELECT a < \"column 1\" OR a = \"column 1\" AND (b < \"column 2\") FROM \
             (SELECT c, d FROM t) AS \"rows\" (\"column 1\", \"column 2\")))"
        });
        check("(SELECT c, d FROM t) <> (a, 1)", {
            "((SELECT \"column 1\" <> a OR \"column 2\" <> 1 FROM \
             (SELECT c, d FROM t) AS \"rows\" (\"column 1\", \"column 2\")))"
        });
        check("(a, f(b)) = ANY (SELECT c, d FROM t)", {
            "(\"struct\"(a, f(b)) IN (SELECT \"struct\"(\"column 1\", \"column 2\") FROM \
             (SELECT c, d FROM t) AS \"rows\" (\"column 1\", \"column 2\")))"
        });
    }
}
