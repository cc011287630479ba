//! Limits of the size of a query: recursion must end before the stack does, and planning must not
//! take minutes.
//!
//! - size-1. No expression has more than `NESTING_MAX` steps: brackets, and operators of any kind
//!   in a row, which the parser does not count. Conditions joined by AND and OR may be more:
//!   programs write them, and they are planned faster. Calls within calls, lists within lists and
//!   changes of a time zone are at most `CALLS_MAX`: their types and names are computed anew at
//!   each level, so that planning time grows with the fourth power of their depth.
//! - size-5. The steps within each other, those of all brackets together, are at most `STEPS_DEEP`,
//!   and the conditions `CONDITIONS_MAX`: a tree is as deep as their sum.
//! - size-6. No path of a tree has more than `PATH_TOKENS` tokens, whatever they mean: the parser
//!   reads almost every keyword as a name where it expects a value, so that `role` can be mistaken.
//!   Only brackets, commas and semicolons are trusted to end an expression.
//! - size-7. The parser reads `INTERVAL`, and types in angle brackets, by a recursion that it does
//!   not limit: they are at most `INTERVALS_MAX` in a row and `NESTING_MAX` in all.
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
    SetExpr, Visitor,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::grouping_sets::{count_sets, doubled};
use crate::error::{Error, Result, SyntaxError};
use crate::limits::NESTING_MAX;
use crate::position::position_at;
use crate::sql::visit::visit;

/// The maximal nesting of CASE and NOT in the parser: beyond it, the parser takes them for names.
const STEPS_MAX: usize = NESTING_MAX - 40;
/// The maximal number of INTERVAL in a row: the parser reads each by recursion and does not count
/// it. More than two are in no query that can be planned.
const INTERVALS_MAX: usize = 4;
/// The maximal nesting of calls and lists: planning them takes a quarter of a second.
const CALLS_MAX: usize = 100;
/// The maximal number of conditions joined by AND and OR in one place, and in brackets around it.
const CONDITIONS_MAX: usize = 2_000;
/// The maximal number of steps within each other: brackets, each with an operator behind it.
const STEPS_DEEP: usize = 2 * NESTING_MAX;
/// The maximal number of tokens on a path: twenty for each condition. A tree of 100,000 operators
/// ended the process when it was dropped.
const PATH_TOKENS: usize = 20 * CONDITIONS_MAX;
/// The maximal number of tables and queries that a statement reads, and of queries joined by UNION
/// and similar operators: planning so many takes seconds, and cannot be interrupted.
pub(crate) const PARTS_MAX: usize = 500;

/// An upper bound of the depth of an expression's tree.
#[derive(Clone, Copy, Default)]
struct Depth {
    /// Brackets and operators.
    steps: usize,
    /// AND and OR.
    conditions: usize,
}

impl Depth {
    fn max(self, other: Depth) -> Depth {
        Depth {
            steps: self.steps.max(other.steps),
            conditions: self.conditions.max(other.conditions),
        }
    }
}

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
    /// The deepest brackets of the condition.
    operands: Depth,
    /// The deepest condition of the expression before this one.
    before: Depth,
    /// The deepest expression before this one.
    others: Depth,
}

impl Level {
    /// Returns the depth of the condition, without those that it is joined with.
    fn condition(&self) -> Depth {
        let Depth { steps, conditions } = self.operands;
        Depth { steps: steps + self.steps, conditions }
    }

    /// Returns the depth of the expression.
    fn expression(&self) -> Depth {
        let depth = self.before.max(self.condition());
        Depth { conditions: depth.conditions + self.conditions, ..depth }
    }

    /// Returns the depth of the brackets.
    fn depth(&self) -> Depth {
        let depth = self.others.max(self.expression());
        Depth { steps: depth.steps + 1, ..depth }
    }

    /// Returns the error if there are too many steps or conditions.
    fn excess(&self) -> Option<SyntaxError> {
        let Depth { steps, conditions } = self.expression();
        let limits = [
            (NESTING_MAX < self.steps, NESTING_MAX),
            (STEPS_DEEP < steps, STEPS_DEEP),
            (CONDITIONS_MAX < conditions, CONDITIONS_MAX),
        ];
        limits.into_iter().find(|it| it.0).map(|(_, most)| SyntaxError::TooDeep { most })
    }

    /// Begins another condition of the expression.
    fn begin_condition(&mut self) {
        self.before = self.before.max(self.condition());
        (self.steps, self.operands) = (0, Depth::default());
        self.conditions += 1;
    }

    /// Begins another expression.
    fn begin_expression(&mut self) {
        self.others = self.others.max(self.expression());
        (self.before, self.operands) = (Depth::default(), Depth::default());
        (self.steps, self.conditions, self.ranges) = (0, 0, 0);
    }
}

/// The tokens between two brackets (size-6).
#[derive(Default)]
struct Path {
    /// The number of tokens since the last comma.
    tokens: usize,
    /// The longest path of the brackets since the last comma.
    inside: usize,
    /// The longest path before it.
    others: usize,
}

impl Path {
    fn since_comma(&self) -> usize {
        self.tokens + self.inside
    }
}

/// Checks size-6; returns the token that is one too many. Brackets are nested at most
/// `NESTING_MAX` deep.
fn long_path(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let (mut path, mut outer) = (Path::default(), Vec::new());
    tokens.iter().find(|token| {
        match token.token {
            Token::Whitespace(_) => {}
            Token::LParen | Token::LBracket | Token::LBrace => {
                outer.push(std::mem::take(&mut path));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                if let Some(next) = outer.pop() {
                    let inside = path.since_comma().max(path.others);
                    let (tokens, inside) = (next.tokens + 1, next.inside.max(inside));
                    path = Path { tokens, inside, ..next };
                }
            }
            Token::Comma | Token::SemiColon => {
                let others = path.since_comma().max(path.others);
                path = Path { others, ..Path::default() };
            }
            _ => path.tokens += 1,
        }
        PATH_TOKENS < path.since_comma()
    })
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
            | Keyword::OPERATOR
            | Keyword::NOT
            | Keyword::PIVOT
            | Keyword::UNPIVOT
            | Keyword::MATCH_RECOGNIZE
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

/// The counts of a statement, whatever its brackets.
#[derive(Default)]
struct Counts {
    /// NOT in a row.
    nots: usize,
    /// INTERVAL in a row.
    intervals: usize,
    /// CASE within each other.
    cases: usize,
    /// Calls, lists and AT TIME ZONE within each other.
    calls: usize,
    /// UNION and similar operators.
    sets: usize,
    /// Types in angle brackets.
    angles: usize,
}

impl Counts {
    /// Counts a token behind this keyword.
    fn add(&mut self, token: &Token, before: Option<Keyword>) {
        use Keyword::{CASE, EXCEPT, INTERSECT, INTERVAL, MINUS, NOT, UNION};
        let keyword = keyword(token);
        self.nots = if keyword == Some(NOT) { self.nots + 1 } else { 0 };
        self.intervals = if keyword == Some(INTERVAL) { self.intervals + 1 } else { 0 };
        self.cases += usize::from(keyword == Some(CASE));
        // Each of `t |> WHERE a |> WHERE b` is a query of the one before it.
        let is_set = matches!(keyword, Some(UNION | INTERSECT | EXCEPT | MINUS))
            || *token == Token::VerticalBarRightAngleBracket;
        self.sets += usize::from(is_set);
        let is_of_type = matches!(before, Some(Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP));
        self.angles += usize::from(is_of_type && *token == Token::Lt);
    }

    /// Returns the error if there is too much of something.
    fn excess(&self) -> Option<SyntaxError> {
        if PARTS_MAX < self.sets {
            return Some(SyntaxError::TooManyParts { most: PARTS_MAX });
        }
        let nested = self.nots.max(self.cases);
        let limits = [
            (STEPS_MAX < nested || NESTING_MAX < self.angles, NESTING_MAX),
            (INTERVALS_MAX < self.intervals, INTERVALS_MAX),
            (CALLS_MAX < self.calls, CALLS_MAX),
        ];
        limits.into_iter().find(|it| it.0).map(|(_, most)| SyntaxError::TooDeep { most })
    }
}

fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) => Some(word.keyword),
        _ => None,
    }
}

/// Refuses a text that is nested too deeply, or has too many operators in a row (size-1, size-5 to
/// size-7), before it is parsed.
pub(super) fn check_tokens(sql: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    let refused = |token: &TokenWithSpan, what| {
        Err(Error::Syntax { position: position_at(sql, token.span.start), what })
    };
    let (mut levels, mut counts, mut before) = (vec![Level::default()], Counts::default(), None);
    for token in tokens {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        let keyword = keyword(&token.token);
        counts.add(&token.token, before);
        let has_outer = 1 < levels.len();
        let level = levels.last_mut().expect("one is left");
        match role(&token.token, before) {
            Role::Open => {
                // `x[1][2]` and `x(..)(..)` are steps too.
                level.steps += usize::from(matches!(token.token, Token::LBracket));
                let is_case = keyword == Some(Keyword::CASE);
                let is_call = !is_case && is_call(&token.token, before);
                levels.push(Level { is_case, is_call, ..Level::default() });
                counts.calls += usize::from(is_call);
            }
            Role::Close if has_outer => {
                if level.is_case == (keyword == Some(Keyword::END)) {
                    counts.cases -= usize::from(level.is_case);
                    counts.calls -= level.zones + usize::from(level.is_call);
                    let depth = level.depth();
                    levels.pop();
                    let outer = levels.last_mut().expect("it has an outer one");
                    outer.operands = outer.operands.max(depth);
                }
            }
            Role::Step => {
                let zones = usize::from(keyword == Some(Keyword::AT));
                level.steps += 1;
                level.zones += zones;
                counts.calls += zones;
            }
            Role::Range => (level.steps, level.ranges) = (level.steps + 1, level.ranges + 1),
            Role::Condition if 0 < level.ranges => level.ranges -= 1,
            Role::Condition => level.begin_condition(),
            Role::Begin => {
                counts.calls -= std::mem::take(&mut level.zones);
                level.begin_expression();
            }
            Role::Value | Role::Close => {}
        }
        before = keyword;
        if NESTING_MAX < levels.len() {
            return refused(token, SyntaxError::TooDeep { most: NESTING_MAX });
        }
        let level = levels.last().expect("one is left");
        if let Some(what) = counts.excess().or_else(|| level.excess()) {
            return refused(token, what);
        }
    }
    match long_path(tokens) {
        Some(token) => refused(token, SyntaxError::TooDeep { most: STEPS_DEEP }),
        None => Ok(()),
    }
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
    let _ = visit(&query.body, &mut parts);
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
        let _ = visit(query, &mut items);
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
    let items = |sets: &[Vec<Expr>]| sets.iter().map(Vec::len).sum::<usize>();
    let of = |expr: &Expr| match expr {
        Expr::Cube(parts) => (doubled(parts.len()), items(parts)),
        Expr::Rollup(parts) => (parts.len() + 1, items(parts)),
        Expr::GroupingSets(sets) => count_sets(sets),
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
            " NOT NULL",
            " OPERATOR(pg_catalog.+) 1",
            " MINUS SELECT 1",
            " MINUS SELECT 1, 2",
            " FROM t |> WHERE true",
            " |> SELECT 1, 2",
            ".a.a",
            // Keywords are names where a value is expected.
            " = from",
            " = limit",
            " = when",
            " = values",
            " = on",
            " + INTERVAL from",
            " SIMILAR TO where",
            " IS DISTINCT FROM from",
            " AT TIME ZONE from",
            " OPERATOR(pg_catalog.+) from",
            " = and",
            " = end",
        ] {
            let error = super::super::parse_query(&many(text), &[]).expect_err(text).to_string();
            assert!(error.contains("more than") || error.contains("at most"), "{text}: {error}");
        }
        for (open, close) in [
            ("(", ")"),
            ("CASE WHEN 1 THEN ", " END"),
            ("[", "]"),
            ("f(", ")"),
            ("INTERVAL ", ""),
            ("INTERVAL\n", " DAY"),
            ("INTERVAL INTERVAL INTERVAL INTERVAL (", ")"),
            ("INTERVAL INTERVAL INTERVAL INTERVAL -", ""),
            ("{fn f(INTERVAL ", ")}"),
            ("CAST(1 AS ARRAY<", ">)"),
            ("ARRAY<", ">"),
            ("1::STRUCT<a INT, b STRUCT<", ">>"),
        ] {
            let text = format!("SELECT {}1{}", open.repeat(20_000), close.repeat(20_000));
            super::super::parse_query(&text, &[]).expect_err(open);
        }
        let intervals = vec!["INTERVAL '1' DAY"; NESTING_MAX].join(" + ");
        super::super::parse_query(&format!("SELECT {intervals}"), &[]).unwrap();
        let conditions = (0..2_000).map(|n| format!("a BETWEEN {n} AND {n} + 1"));
        let conditions = conditions.collect::<Vec<_>>().join(" OR ");
        super::super::parse_query(&format!("SELECT 1 FROM t WHERE {conditions}"), &[]).unwrap();
    }

    // Brackets and operators were counted apart: 400 brackets with 400 operators behind each were
    // allowed, and ended the process when the tree was dropped. A column named like a keyword, or
    // the END of no CASE, hid operators.
    #[test]
    fn operators_behind_brackets_are_counted_together() {
        let of = |sql: &str| super::super::parse_query(sql, &[]).map(|_| ());
        let nested = |open: &str, close: &str| {
            of(&format!("SELECT {}1{}", open.repeat(400), close.repeat(400)))
        };
        let casts = "::INT".repeat(400);
        let ends = format!("{casts} ELSE 1 END");
        for (open, close) in [
            ("(", format!("{casts})")),
            ("(", format!("{})", " = 1".repeat(400))),
            ("(", format!("{})", " IS NULL".repeat(400))),
            ("(", format!("{})", " OR 1 = 1".repeat(1_000))),
            ("(", format!("{} = from)", " = 1".repeat(400))),
            ("(0, ", format!("{casts})")),
            ("((case, ", format!("){casts}, 1)")),
            ("CASE WHEN 1 THEN ", format!("END{casts}")),
            ("CASE WHEN end THEN ", ends.clone()),
            ("CASE WHEN a.end THEN ", ends),
        ] {
            let error = nested(open, &close).expect_err(open).to_string();
            assert!(error.contains("nested more than"), "size-5, size-6: {open}: {error}");
        }
        let values = vec!["(1 + 2 + 3 = 4 AND a OR b)"; 3_500].join(", ");
        of(&format!("SELECT 1 WHERE x IN ({values})")).unwrap();
        let cases = " WHEN a = 1 AND b = 2 THEN 3".repeat(2_000);
        of(&format!("SELECT CASE{cases} END")).unwrap();
        let chain = "(".repeat(400) + "1" + &" + a)".repeat(400);
        of(&format!("SELECT {chain}")).unwrap();
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
            format!("GROUPING SETS (CUBE ({}), ROLLUP ({}))", list(8), list(20)),
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
            format!("GROUPING SETS (a, CUBE ({}))", list(9)),
            format!("GROUPING SETS (GROUPING SETS (CUBE ({})), a)", list(64)),
            format!("GROUPING SETS (ROLLUP ({}))", list(600)),
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
