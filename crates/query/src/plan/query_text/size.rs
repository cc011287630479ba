//! Limits of the size of a query: recursion must end before the stack does, and planning must not
//! take minutes.
//!
//! - size-1. No expression has more than `NESTING_MAX` steps: brackets, and operators of any kind
//!   in a row, which the parser does not count. Conditions joined by AND and OR may be more:
//!   programs write them, and they are planned faster. Calls within calls, lists within lists and
//!   changes of a time zone are at most `CALLS_MAX`: their types and names are computed anew at
//!   each level, so that planning time grows with the fourth power of their depth.
//! - A name of WITH counts as often as it is read, because it is planned as often: thirty of them,
//!   each of which reads the one before twice, are a thousand million.
//! - size-2. A SELECT lists, groups by and sorts by at most `SELECT_ITEMS` expressions each:
//!   planning compares each with all others. The columns of `*` are not counted.
//! - size-3. A statement has at most `JOINS` joins, a comma in FROM among them.
//! - size-4. A GROUP BY has at most `GROUPING_SETS` sets, counted before any of them is made, with
//!   `GROUPING_SET_ITEMS` expressions together: CUBE doubles them with each of its expressions.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, GroupByWithModifier, ObjectName, OrderBy, OrderByKind, Query, Select,
    SetExpr, Visit, Visitor,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Error, Result, SyntaxError};
use crate::limits::NESTING_MAX;
use crate::position::position_at;

/// The maximal nesting of CASE and NOT in the parser: beyond it, the parser takes them for names.
const STEPS_MAX: usize = NESTING_MAX - 40;
/// The maximal nesting of calls and lists: planning them takes a quarter of a second.
const CALLS_MAX: usize = 100;
/// The maximal number of conditions joined by AND and OR in one place.
const CONDITIONS_MAX: usize = 2_000;
/// The maximal number of tables and queries that a statement reads, and of queries joined by UNION
/// and similar operators: planning so many takes seconds, and cannot be interrupted.
pub(crate) const PARTS_MAX: usize = 500;

/// The counts between two brackets, or CASE and END.
#[derive(Default)]
struct Level {
    is_case: bool,
    /// True for a call, or a list.
    is_call: bool,
    /// The number of AT TIME ZONE in a row.
    zones: usize,
    /// The number of operators in a row, without those that join conditions.
    steps: usize,
    conditions: usize,
    /// The number of BETWEENs whose AND is still to come.
    ranges: usize,
}

/// The role of a token in an expression.
enum Role {
    Open,
    Close,
    /// It binds the operand before or behind it.
    Step,
    Range,
    Condition,
    /// Another expression begins.
    Begin,
    Value,
}

fn role(token: &Token, before: Option<Keyword>) -> Role {
    match token {
        Token::LParen | Token::LBracket | Token::LBrace => Role::Open,
        Token::RParen | Token::RBracket | Token::RBrace => Role::Close,
        Token::Comma | Token::SemiColon => Role::Begin,
        Token::Word(word) => match word.keyword {
            Keyword::CASE => Role::Open,
            Keyword::END => Role::Close,
            Keyword::AND | Keyword::OR | Keyword::XOR => Role::Condition,
            Keyword::BETWEEN => Role::Range,
            // IS DISTINCT FROM is an operator.
            Keyword::FROM if before == Some(Keyword::DISTINCT) => Role::Value,
            Keyword::SELECT | Keyword::FROM | Keyword::WHERE | Keyword::HAVING | Keyword::JOIN => {
                Role::Begin
            }
            Keyword::ON | Keyword::VALUES | Keyword::LIMIT => Role::Begin,
            Keyword::WHEN | Keyword::THEN | Keyword::ELSE => Role::Begin,
            Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::IS
            | Keyword::NOTNULL
            | Keyword::AT
            | Keyword::COLLATE
            | Keyword::OVERLAPS
            | Keyword::MEMBER
            | Keyword::DIV => Role::Step,
            _ => Role::Value,
        },
        Token::Number(..)
        | Token::Char(_)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::NationalStringLiteral(_)
        | Token::EscapedStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::Placeholder(_)
        | Token::Period => Role::Value,
        // Any other sign is an operator.
        _ => Role::Step,
    }
}

/// Returns true if a bracket opens the arguments of a call, or a list, by the word before it.
fn is_call(bracket: &Token, before: Option<Keyword>) -> bool {
    use Keyword::{
        ALL, AND, ANY, AS, BETWEEN, BY, DISTINCT, ELSE, EXCEPT, EXISTS, FROM, HAVING, ILIKE, IN,
        INTERSECT, IS, JOIN, LATERAL, LIKE, NOT, ON, OR, SELECT, SOME, THEN, UNION, VALUES, WHEN,
        WHERE, XOR,
    };
    match before {
        _ if *bracket != Token::LParen => true,
        None => false,
        Some(AND | OR | XOR | NOT | IN | IS | BETWEEN | LIKE | ILIKE | WHEN | THEN | ELSE) => false,
        Some(ANY | SOME | ALL | EXISTS | LATERAL | DISTINCT | AS | BY | ON | VALUES) => false,
        Some(SELECT | FROM | JOIN | WHERE | HAVING | UNION | EXCEPT | INTERSECT) => false,
        Some(_) => true,
    }
}

/// Refuses a text that is nested too deeply, or has too many operators in a row (size-1), before it
/// is parsed.
pub(super) fn check_tokens(sql: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    let (mut levels, mut nots, mut cases, mut sets) = (vec![Level::default()], 0, 0, 0);
    let (mut before, mut calls) = (None, 0);
    for token in tokens {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        let refused = |what| Error::Syntax { position: position_at(sql, token.span.start), what };
        let keyword = match &token.token {
            Token::Word(word) => Some(word.keyword),
            _ => None,
        };
        nots = if keyword == Some(Keyword::NOT) { nots + 1 } else { 0 };
        cases += usize::from(keyword == Some(Keyword::CASE));
        sets += usize::from(matches!(
            keyword,
            Some(Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT)
        ));
        if PARTS_MAX < sets {
            return Err(refused(SyntaxError::TooManyParts { most: PARTS_MAX }));
        }
        let has_outer = 1 < levels.len();
        let level = levels.last_mut().expect("one is left");
        match role(&token.token, before) {
            Role::Open => {
                // `x[1][2]` and `x(..)(..)` are steps too.
                level.steps += usize::from(matches!(token.token, Token::LBracket));
                let is_case = keyword == Some(Keyword::CASE);
                let is_call = !is_case && is_call(&token.token, before);
                levels.push(Level { is_case, is_call, ..Level::default() });
                calls += usize::from(is_call);
            }
            Role::Close if has_outer => {
                if level.is_case == (keyword == Some(Keyword::END)) {
                    cases -= usize::from(level.is_case);
                    calls -= level.zones + usize::from(level.is_call);
                    levels.pop();
                }
            }
            Role::Step => {
                let zones = usize::from(keyword == Some(Keyword::AT));
                (level.steps, level.zones, calls) =
                    (level.steps + 1, level.zones + zones, calls + zones);
            }
            Role::Range => (level.steps, level.ranges) = (level.steps + 1, level.ranges + 1),
            Role::Condition if 0 < level.ranges => level.ranges -= 1,
            Role::Condition => {
                (level.steps, level.conditions) = (0, level.conditions + 1);
            }
            Role::Begin => {
                calls -= std::mem::take(&mut level.zones);
                (level.steps, level.conditions, level.ranges) = (0, 0, 0);
            }
            Role::Value | Role::Close => {}
        }
        before = keyword;
        let level = levels.last().expect("one is left");
        let is_too_deep = NESTING_MAX < levels.len()
            || NESTING_MAX < level.steps
            || STEPS_MAX < nots
            || STEPS_MAX < cases;
        if is_too_deep {
            return Err(refused(SyntaxError::TooDeep { most: NESTING_MAX }));
        }
        if CALLS_MAX < calls {
            return Err(refused(SyntaxError::TooDeep { most: CALLS_MAX }));
        }
        if CONDITIONS_MAX < level.conditions {
            return Err(refused(SyntaxError::TooDeep { most: CONDITIONS_MAX }));
        }
    }
    Ok(())
}

/// Returns the number of tables and queries that a query reads.
pub(super) fn parts(query: &Query) -> usize {
    parts_with(query, HashMap::new())
}

/// Does the same with the numbers of these names.
fn parts_with(query: &Query, mut known: HashMap<String, usize>) -> usize {
    for table in query.with.iter().flat_map(|with| &with.cte_tables) {
        let count = parts_with(&table.query, known.clone());
        known.insert(table.alias.name.value.clone(), count);
    }
    let mut parts = Parts { known, count: joined(&query.body) };
    let _ = query.body.visit(&mut parts);
    parts.count
}

/// The longest list of a query, and the number of its joins.
#[derive(Default)]
pub(super) struct Items {
    /// The maximal number of expressions that a SELECT lists, groups by or sorts by.
    pub(super) most: usize,
    pub(super) joins: usize,
    /// The maximal number of sets of a GROUP BY, and of the expressions of all its sets together.
    pub(super) sets: usize,
    pub(super) set_items: usize,
}

impl Items {
    pub(super) fn of(query: &Query) -> Items {
        let mut items = Items::default();
        let _ = query.visit(&mut items);
        items
    }
}

impl Visitor for Items {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(OrderBy { kind: OrderByKind::Expressions(by), .. }) = &query.order_by {
            self.most = self.most.max(by.len());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.most = self.most.max(select.projection.len());
        let joins = select.from.iter().map(|table| table.joins.len() + 1).sum::<usize>();
        self.joins = self.joins.saturating_add(joins.saturating_sub(1));
        if let GroupByExpr::Expressions(by, modifiers) = &select.group_by {
            self.most = self.most.max(by.len());
            let (sets, items) = grouping_sets(by, modifiers);
            self.sets = self.sets.max(sets);
            self.set_items = self.set_items.max(sets.saturating_mul(items));
        }
        ControlFlow::Continue(())
    }
}

/// Returns the number of sets of a GROUP BY, and of the expressions that a set may have (size-4).
fn grouping_sets(by: &[Expr], modifiers: &[GroupByWithModifier]) -> (usize, usize) {
    let doubled = |count: usize| {
        u32::try_from(count).ok().and_then(|count| 1_usize.checked_shl(count)).unwrap_or(usize::MAX)
    };
    let items = |sets: &[Vec<Expr>]| sets.iter().map(Vec::len).sum::<usize>();
    let of = |expr: &Expr| match expr {
        Expr::Cube(parts) => (doubled(parts.len()), items(parts)),
        Expr::Rollup(parts) => (parts.len() + 1, items(parts)),
        Expr::GroupingSets(sets) => (sets.len(), sets.iter().map(Vec::len).max().unwrap_or(0)),
        _ => (1, 1),
    };
    let (mut sets, mut most) = (1_usize, 0_usize);
    for (count, items) in by.iter().map(of) {
        (sets, most) = (sets.saturating_mul(count), most.saturating_add(items));
    }
    for modifier in modifiers {
        let count = match modifier {
            GroupByWithModifier::Cube => doubled(by.len()),
            GroupByWithModifier::Rollup => by.len() + 1,
            GroupByWithModifier::GroupingSets(expr) => of(expr).0,
            GroupByWithModifier::Totals => 2,
        };
        sets = sets.saturating_mul(count);
    }
    (sets, most)
}

/// The counts of a query.
struct Parts {
    known: HashMap<String, usize>,
    count: usize,
}

impl Visitor for Parts {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        let count = self.known.get(&name.to_string()).copied().unwrap_or(1);
        self.count = self.count.saturating_add(count);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let count = match &query.with {
            Some(_) => parts_with(query, self.known.clone()),
            None => joined(&query.body),
        };
        self.count = self.count.saturating_add(count);
        ControlFlow::Continue(())
    }
}

/// Returns a lower bound of the number of queries that UNION and similar operators join.
fn joined(body: &SetExpr) -> usize {
    let (mut count, mut left) = (1, body);
    while let SetExpr::SetOperation { left: next, .. } = left {
        (count, left) = (count + 1, next);
    }
    count
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    use tidegate_model::limits;

    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: usize) {
        let query = Parser::new(&GenericDialect {}).try_with_sql(sql).unwrap().parse_query();
        assert_eq!(parts(&query.unwrap()), expected, "{sql}");
    }

    // Each of these ended the process by a stack overflow.
    #[test]
    fn operators_of_any_kind_stand_in_a_row_only_so_often() {
        let many = |text: &str| format!("SELECT 1{}", text.repeat(20_000));
        for text in [
            "::INT",
            " IN (1)",
            " = 1",
            " LIKE 'a'",
            " IS NULL",
            " IS DISTINCT FROM 1",
            "[1]",
            " -> 'a'",
            " | 1",
            " AT TIME ZONE 'UTC'",
            " BETWEEN 1 AND 2",
            " COLLATE c",
            " + 1",
            " + CASE WHEN 1 THEN 1 END",
            " UNION SELECT 1",
            " NOT",
            " XOR 1",
            ":a",
            " ~ 'a'",
        ] {
            let error = super::super::parse_query(&many(text), &[]).expect_err(text).to_string();
            assert!(error.contains("more than") || error.contains("at most"), "{text}: {error}");
        }
        for (open, close) in [("(", ")"), ("CASE WHEN 1 THEN ", " END"), ("[", "]"), ("f(", ")")] {
            let text = format!("SELECT {}1{}", open.repeat(20_000), close.repeat(20_000));
            super::super::parse_query(&text, &[]).expect_err(open);
        }
        let conditions = (0..2_000).map(|n| format!("a BETWEEN {n} AND {n} + 1"));
        let conditions = conditions.collect::<Vec<_>>().join(" OR ");
        super::super::parse_query(&format!("SELECT 1 FROM t WHERE {conditions}"), &[]).unwrap();
    }

    // Planning the deepest nesting that was allowed took a minute.
    #[test]
    fn calls_and_lists_stand_within_each_other_only_so_often() {
        let of = |sql: &str| super::super::parse_query(sql, &[]).map(|_| ());
        let nested = |(open, close): (&str, &str), depth: usize| {
            of(&format!("SELECT {}1{}", open.repeat(depth), close.repeat(depth)))
        };
        for calls in [("ARRAY[", "]"), ("[", "]"), ("f(", ")"), ("left(", ", 1)"), ("f((", "))")] {
            nested(calls, CALLS_MAX).unwrap();
            let error = nested(calls, CALLS_MAX + 1).expect_err(calls.0).to_string();
            assert!(error.contains("100"), "size-1: {error}");
        }
        nested(("", " AT TIME ZONE 'UTC'"), CALLS_MAX).unwrap();
        nested(("", " AT TIME ZONE 'UTC'"), CALLS_MAX + 1).expect_err("size-1");
        nested(("(", ")"), 2 * CALLS_MAX).unwrap();
        nested(("1 = 1 AND (", ")"), 2 * CALLS_MAX).unwrap();
        let row = vec!["f(1) AT TIME ZONE 'UTC'"; 2 * CALLS_MAX];
        of(&format!("SELECT {}", row.join(", "))).unwrap();
    }

    #[test]
    fn a_select_lists_only_so_many_expressions() {
        let list = |count: usize| vec!["1"; count].join(", ");
        let most = limits::SELECT_ITEMS;
        let of = |sql: &str| super::super::parse_query(sql, &[]).map(|_| ());
        of(&format!("SELECT {}", list(most))).unwrap();
        for sql in [
            format!("SELECT {}", list(most + 1)),
            format!("SELECT 1 FROM (SELECT {}) AS t", list(most + 1)),
            format!("SELECT 1 FROM t GROUP BY {}", list(most + 1)),
            format!("SELECT 1 FROM t ORDER BY {}", list(most + 1)),
        ] {
            let error = of(&sql).expect_err("it has one too many").to_string();
            assert!(error.contains("at most 1664"), "size-2: {error}");
        }
        let tables =
            |count: usize| (0..count).map(|number| format!("t AS t{number}")).collect::<Vec<_>>();
        for separator in [", ", " CROSS JOIN "] {
            let from = |count: usize| format!("SELECT 1 FROM {}", tables(count).join(separator));
            of(&from(limits::JOINS + 1)).unwrap();
            let error = of(&from(limits::JOINS + 2)).expect_err("size-3").to_string();
            assert!(error.contains("at most 100 joins"), "size-3: {error}");
        }
    }

    // CUBE of 64 columns, 370 bytes of text, made sets until the process had no memory.
    #[test]
    fn a_group_by_has_only_so_many_sets() {
        let of = |by: &str| {
            let sql = format!("SELECT 1 FROM t GROUP BY {by}");
            super::super::parse_query(&sql, &[]).map(|_| ())
        };
        let list = |count: usize| {
            (0..count).map(|number| format!("c{number}")).collect::<Vec<_>>().join(", ")
        };
        for by in [
            format!("CUBE ({})", list(9)),
            format!("ROLLUP ({})", list(80)),
            format!("GROUPING SETS ({})", list(limits::GROUPING_SETS)),
            "CUBE (a, b), CUBE (c, d), ROLLUP (e, f), g".to_owned(),
        ] {
            of(&by).expect(&by);
        }
        for by in [
            format!("CUBE ({})", list(10)),
            format!("CUBE ({})", list(64)),
            format!("CUBE ({})", list(2_000)),
            format!("ROLLUP ({})", list(600)),
            format!("{} WITH CUBE", list(64)),
            format!("GROUPING SETS ({})", list(limits::GROUPING_SETS + 1)),
            format!("GROUPING SETS ({})", vec![format!("({})", list(100)); 100].join(", ")),
            ["CUBE (a, b, c, d)"; 3].join(", "),
        ] {
            let error = of(&by).expect_err(&by).to_string();
            assert!(error.contains("at most 512 sets"), "size-4: {error}");
        }
    }

    #[test]
    fn names_count_as_often_as_they_are_read() {
        check("SELECT 1", 1);
        check("SELECT * FROM a JOIN b ON TRUE", 3);
        check("SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3", 3);
        check("WITH x AS (SELECT 1) SELECT * FROM x, x AS y", 3);
        check("WITH x AS (SELECT * FROM t), y AS (SELECT * FROM x, x) SELECT * FROM y, y", 11);
        let doubled = (1..40).map(|n| format!("x{n} AS (SELECT * FROM x{0}, x{0})", n - 1));
        let doubled = doubled.collect::<Vec<_>>().join(", ");
        let query = format!("WITH x0 AS (SELECT 1), {doubled} SELECT * FROM x39");
        let query = Parser::new(&GenericDialect {}).try_with_sql(&query).unwrap().parse_query();
        assert!(PARTS_MAX < parts(&query.unwrap()));
    }
}
