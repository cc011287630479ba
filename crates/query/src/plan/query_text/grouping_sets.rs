//! ROLLUP, CUBE, GROUPING SETS and brackets in GROUP BY that DataFusion does not plan, as what they
//! stand for.
//!
//! - grouping_sets-1. Those of several columns in brackets, `ROLLUP ((a, b), c)`, and of a column
//!   that stands there twice. Sets that are alike are groups of their own, as in PostgreSQL.
//! - grouping_sets-2. `GROUP BY (a, b)` is `GROUP BY a, b`, and `GROUP BY ()` makes one group of
//!   all rows, and of none.
//! - grouping_sets-3. A number in ROLLUP, CUBE and GROUPING SETS is the item of that position in
//!   the SELECT list, as in GROUP BY. DataFusion takes it for a constant. The value of a parameter
//!   is a constant (constant_keys-1).
//! - grouping_sets-4. ROLLUP, CUBE and GROUPING SETS within GROUPING SETS stand for their sets, as
//!   in PostgreSQL. Their number was looked at before (size-4).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Query,
    Select, SelectItem, Visitor,
};

use super::distinct_on::{item_at, no_item, position_of};
use crate::error::Error;
use crate::plan::parameters::Places;
use crate::position::position_at;
use crate::sql::dialect::GROUPING_SETS;
use crate::sql::visit::visit;

const OF_WILDCARD: &str =
    "ROLLUP, CUBE or GROUPING SETS with the number of a column of * (its name is supported)";
const OF_SUBQUERY: &str = "ROLLUP, CUBE or GROUPING SETS with the number of a subquery";

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

/// Sets within GROUPING SETS.
enum InnerSets<'a> {
    Rollup(Vec<&'a Expr>),
    Cube(Vec<&'a Expr>),
    Sets(Vec<&'a Expr>),
}

impl<'a> InnerSets<'a> {
    /// Returns the sets that a call stands for (grouping_sets-4): the parser reads ROLLUP and CUBE
    /// as functions there.
    fn of(expr: &'a Expr) -> Option<InnerSets<'a>> {
        let Expr::Function(Function {
            name,
            args: FunctionArguments::List(list),
            filter: None,
            over: None,
            ..
        }) = expr
        else {
            return None;
        };
        let [name] = name.0.as_slice() else { return None };
        let Ident { value, quote_style, .. } = name.as_ident()?;
        let parts = list.args.iter().map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) => Some(part),
            _ => None,
        });
        let parts = parts.collect::<Option<Vec<_>>>()?;
        match value.to_ascii_lowercase().as_str() {
            GROUPING_SETS => Some(InnerSets::Sets(parts)),
            "rollup" if quote_style.is_none() => Some(InnerSets::Rollup(parts)),
            "cube" if quote_style.is_none() => Some(InnerSets::Cube(parts)),
            _ => None,
        }
    }

    /// Returns the number of sets, and of the expressions that a set may have.
    fn counts(&self) -> (usize, usize) {
        let items =
            |parts: &[&Expr]| parts.iter().map(|part| columns_of(part).len()).sum::<usize>();
        match self {
            InnerSets::Rollup(parts) => (parts.len() + 1, items(parts)),
            InnerSets::Cube(parts) => (doubled(parts.len()), items(parts)),
            InnerSets::Sets(parts) => parts
                .iter()
                .map(|part| counts_of_set(part))
                .fold((0, 0), |(sets, most), (count, items)| {
                    (sets.saturating_add(count), most.max(items))
                }),
        }
    }

    fn sets(&self) -> Vec<Vec<Expr>> {
        let columns = |parts: &[&Expr]| -> Vec<Vec<Expr>> {
            parts.iter().map(|part| columns_of(part).into_iter().cloned().collect()).collect()
        };
        match self {
            InnerSets::Rollup(parts) => sets_of_rollup(&columns(parts)),
            InnerSets::Cube(parts) => sets_of_cube(&columns(parts)),
            InnerSets::Sets(parts) => parts.iter().flat_map(|part| sets_of(part)).collect(),
        }
    }
}

/// Returns the sets that an expression within GROUPING SETS stands for.
fn sets_of(expr: &Expr) -> Vec<Vec<Expr>> {
    match InnerSets::of(expr) {
        Some(inner) => inner.sets(),
        None => vec![columns_of(expr).into_iter().cloned().collect()],
    }
}

fn counts_of_set(expr: &Expr) -> (usize, usize) {
    InnerSets::of(expr).map_or_else(|| (1, columns_of(expr).len()), |inner| inner.counts())
}

/// Returns the columns in brackets, or the only one.
fn columns_of(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Tuple(parts) => parts.iter().collect(),
        Expr::Nested(inner) => columns_of(inner),
        expr => vec![expr],
    }
}

/// Returns the number of sets of GROUPING SETS, and of the expressions that a set may have.
pub(super) fn count_sets(sets: &[Vec<Expr>]) -> (usize, usize) {
    let counts = sets.iter().map(|set| match set.as_slice() {
        [one] => counts_of_set(one),
        set => (1, set.len()),
    });
    counts
        .fold((0, 0), |(sets, most), (count, items)| (sets.saturating_add(count), most.max(items)))
}

/// Returns the number of sets of a CUBE.
pub(super) fn doubled(parts: usize) -> usize {
    u32::try_from(parts).ok().and_then(|parts| 1_usize.checked_shl(parts)).unwrap_or(usize::MAX)
}

/// Writes out the sets within the GROUPING SETS of a SELECT (grouping_sets-4).
pub(super) fn write_out_inner_sets(select: &mut Select) {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
    for group in groups {
        let Expr::GroupingSets(sets) = group else { continue };
        let inner = |set: &Vec<Expr>| match set.as_slice() {
            [one] => InnerSets::of(one).map(|inner| inner.sets()),
            _ => None,
        };
        *sets =
            sets.iter().flat_map(|set| inner(set).unwrap_or_else(|| vec![set.clone()])).collect();
    }
}

/// Writes out the positions in the grouping sets of a SELECT (grouping_sets-3).
pub(super) fn write_out_positions(
    sql: &str,
    select: &mut Select,
    parameters: &Places,
) -> Result<(), Box<Error>> {
    let Select { group_by: GroupByExpr::Expressions(groups, _), projection, .. } = select else {
        return Ok(());
    };
    let items = projection.as_slice();
    for group in groups {
        let (Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets)) = group else {
            continue;
        };
        for key in sets.iter_mut().flatten() {
            write_out_position(sql, key, items, parameters)?;
        }
    }
    Ok(())
}

fn write_out_position(
    sql: &str,
    key: &mut Expr,
    items: &[SelectItem],
    parameters: &Places,
) -> Result<(), Box<Error>> {
    let Some((position, span)) = position_of(key) else { return Ok(()) };
    if parameters.contains_key(&span.start) {
        return Ok(());
    }
    let none = || no_item(sql, items, position, span, OF_WILDCARD);
    let item = item_at(items, position).ok_or_else(none)?;
    // It would be planned as often as its number is written.
    if visit(&item, &mut QueryFinder).is_break() {
        let position = (span.start.line > 0).then(|| position_at(sql, span.start));
        return Err(Box::new(Error::NotSupported { position, feature: OF_SUBQUERY }));
    }
    *key = item;
    Ok(())
}

/// Looks for a subquery.
struct QueryFinder;

impl Visitor for QueryFinder {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// Writes the sets out (grouping_sets-1).
pub(super) fn write_out_sets(expr: &mut Expr) {
    let sets = match expr {
        Expr::Rollup(parts) if !is_plain(parts) => sets_of_rollup(parts),
        Expr::Cube(parts) if !is_plain(parts) => sets_of_cube(parts),
        _ => return,
    };
    *expr = Expr::GroupingSets(sets);
}

fn sets_of_rollup(parts: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=parts.len()).rev().map(|count| joined(&parts[..count], |_| true)).collect()
}

/// The size of the query was looked at: there are few.
fn sets_of_cube(parts: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let kept = (0..doubled(parts.len())).rev();
    kept.map(|kept| joined(parts, |at| kept >> at & 1 == 1)).collect()
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
    use crate::sql::dialect::QueryDialect;

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
    fn numbers_in_sets_are_items_of_the_list() {
        for (items, sets, expected) in [
            ("lower(a) AS x, b", "ROLLUP (1, b)", "ROLLUP (lower(a), b)"),
            ("a, b", "a, CUBE (2, (1))", "a, CUBE (b, a)"),
            ("a, b", "GROUPING SETS ((1, 2), 1, ())", "GROUPING SETS ((a, b), (a), ())"),
            ("a", "ROLLUP (-1, 1.5, 'a')", "ROLLUP (-1, 1.5, 'a')"),
        ] {
            let sql = format!("SELECT {items} FROM t GROUP BY {sets}");
            let parser = Parser::new(&PostgreSqlDialect {});
            let mut query = parser.try_with_sql(&sql).unwrap().parse_query().unwrap();
            let SetExpr::Select(select) = query.body.as_mut() else { panic!("a SELECT") };
            write_out_positions(&sql, select, &Places::default()).unwrap();
            let GroupByExpr::Expressions(groups, _) = &select.group_by else {
                panic!("expressions")
            };
            let shown = groups.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            assert_eq!(shown, expected, "grouping_sets-3: {sql}");
        }
    }

    #[test]
    fn sets_within_sets_are_written_out() {
        for (inner, expected) in [
            ("ROLLUP (a, b), ()", "(a, b), (a), (), ()"),
            ("(a, b), CUBE (a, (b, c)), c", "(a, b), (a, b, c), (b, c), (a), (), (c)"),
            ("GROUPING SETS (a, (b, c), ()), a", "(a), (b, c), (), (a)"),
            ("GROUPING SETS (ROLLUP (a, a), GROUPING SETS ((b)))", "(a), (a), (), (b)"),
            ("\"rollup\"(a), upper(b), (a + 1)", "(\"rollup\"(a)), (upper(b)), (a + 1)"),
        ] {
            let sql = format!("SELECT 1 FROM t GROUP BY GROUPING SETS ({inner})");
            let dialect = QueryDialect::default();
            let parser = Parser::new(&dialect);
            let mut query = parser.try_with_sql(&sql).unwrap().parse_query().unwrap();
            let SetExpr::Select(select) = query.body.as_mut() else { panic!("a SELECT") };
            let GroupByExpr::Expressions(groups, _) = &select.group_by else {
                panic!("expressions")
            };
            let Expr::GroupingSets(sets) = &groups[0] else { panic!("sets") };
            let (count, items) = count_sets(sets);
            write_out_inner_sets(select);
            let GroupByExpr::Expressions(groups, _) = &select.group_by else {
                panic!("expressions")
            };
            let shown = groups[0].to_string();
            assert_eq!(shown, format!("GROUPING SETS ({expected})"), "grouping_sets-4: {sql}");
            let Expr::GroupingSets(sets) = &groups[0] else { panic!("sets") };
            let most = sets.iter().map(Vec::len).max().unwrap();
            assert!(count == sets.len() && most <= items, "size-4: {sql}: {count}, {items}");
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
