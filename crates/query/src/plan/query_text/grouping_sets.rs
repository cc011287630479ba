//! ROLLUP, CUBE and brackets in GROUP BY that DataFusion does not plan, as what they stand for.
//!
//! - grouping_sets-1. Those of several columns in brackets, `ROLLUP ((a, b), c)`, and of a column
//!   that stands there twice. Sets that are alike are groups of their own, as in PostgreSQL.
//! - grouping_sets-2. `GROUP BY (a, b)` is `GROUP BY a, b`, and `GROUP BY ()` makes one group of
//!   all rows, and of none.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select};

/// Writes out the brackets in the GROUP BY of a SELECT (grouping_sets-2).
pub(super) fn open_brackets(select: &mut Select) {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
    if !groups.iter().any(is_list) {
        return;
    }
    let mut opened = Vec::new();
    groups.drain(..).for_each(|group| open(group, &mut opened));
    if opened.is_empty() {
        opened.push(Expr::GroupingSets(vec![Vec::new()]));
    }
    *groups = opened;
}

/// Returns true for several columns in brackets, or for none.
fn is_list(group: &Expr) -> bool {
    match group {
        Expr::Tuple(_) => true,
        Expr::Nested(inner) => is_list(inner),
        _ => false,
    }
}

fn open(group: Expr, into: &mut Vec<Expr>) {
    match group {
        Expr::Tuple(parts) => parts.into_iter().for_each(|part| open(part, into)),
        Expr::Nested(inner) if is_list(&inner) => open(*inner, into),
        group => into.push(group),
    }
}

/// Writes the sets out (grouping_sets-1).
pub(super) fn write_out_sets(expr: &mut Expr) {
    let sets = match expr {
        Expr::Rollup(parts) if !is_plain(parts) => {
            (0..=parts.len()).rev().map(|count| joined(&parts[..count], |_| true)).collect()
        }
        // The size of the query was looked at: there are few.
        Expr::Cube(parts) if !is_plain(parts) && parts.len() < 16 => (0..1_u32 << parts.len())
            .rev()
            .map(|kept| joined(parts, |at| kept >> at & 1 == 1))
            .collect(),
        _ => return,
    };
    *expr = Expr::GroupingSets(sets);
}

fn is_plain(parts: &[Vec<Expr>]) -> bool {
    let is_new = |at: usize| parts[..at].iter().all(|other| *other != parts[at]);
    parts.iter().all(|part| part.len() == 1) && (0..parts.len()).all(is_new)
}

/// The columns of those parts that are wanted, each once.
fn joined(parts: &[Vec<Expr>], is_wanted: impl Fn(usize) -> bool) -> Vec<Expr> {
    let mut set: Vec<Expr> = Vec::new();
    for (_, part) in parts.iter().enumerate().filter(|(at, _)| is_wanted(*at)) {
        for column in part {
            if !set.contains(column) {
                set.push(column.clone());
            }
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::SetExpr;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let sql = format!("SELECT 1 FROM t GROUP BY {text}");
        let parser = Parser::new(&PostgreSqlDialect {});
        let query = parser.try_with_sql(&sql).unwrap().parse_query().unwrap();
        let GroupByExpr::Expressions(groups, _) = &query.body.as_select().unwrap().group_by else {
            panic!("expressions")
        };
        let mut sets = groups[0].clone();
        write_out_sets(&mut sets);
        assert_eq!(sets.to_string(), expected, "grouping_sets-1: {text}");
    }

    #[test]
    fn brackets_are_opened() {
        for (text, expected) in [
            ("(a, b), c", "a, b, c"),
            ("((a, (b)), c)", "a, (b), c"),
            ("((a, b))", "a, b"),
            ("()", "GROUPING SETS (())"),
            ("(), ()", "GROUPING SETS (())"),
            ("(), a", "a"),
            ("(a)", "(a)"),
            ("ROLLUP ((a, b), c), (d, e)", "ROLLUP ((a, b), c), d, e"),
        ] {
            let sql = format!("SELECT 1 FROM t GROUP BY {text}");
            let parser = Parser::new(&PostgreSqlDialect {});
            let mut query = parser.try_with_sql(&sql).unwrap().parse_query().unwrap();
            let SetExpr::Select(select) = query.body.as_mut() else { panic!("a SELECT") };
            open_brackets(select);
            let expected = format!("SELECT 1 FROM t GROUP BY {expected}");
            assert_eq!(select.to_string(), expected, "grouping_sets-2: {text}");
        }
    }

    #[test]
    fn repeated_columns_and_brackets_are_written_out() {
        check("ROLLUP (a, b)", "ROLLUP (a, b)");
        check("ROLLUP (a, a)", "GROUPING SETS ((a), (a), ())");
        check("ROLLUP ((a, b), c)", "GROUPING SETS ((a, b, c), (a, b), ())");
        check("CUBE (a, a)", "GROUPING SETS ((a), (a), (a), ())");
        check("CUBE ((a, b), c)", "GROUPING SETS ((a, b, c), (c), (a, b), ())");
    }
}
