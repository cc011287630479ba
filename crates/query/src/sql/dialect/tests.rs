//! Tests of the dialect: expressions with few brackets mean what PostgreSQL takes them for.

use std::mem::replace;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{VisitMut, VisitorMut};

use super::*;
use crate::plan::query_text::parse_query;

#[track_caller]
fn check(text: &str, meant: &str) {
    let bracketed = |text: &str| {
        fn shown(expr: &Expr) -> String {
            match expr {
                Expr::BinaryOp { left, op, right } => {
                    format!("({} {op} {})", shown(left), shown(right))
                }
                Expr::UnaryOp { op, expr } => format!("({op}{})", shown(expr)),
                Expr::Nested(inner) => shown(inner),
                other => other.to_string(),
            }
        }
        let dialect = QueryDialect::default();
        let parsed = Parser::new(&dialect).try_with_sql(text);
        shown(&parsed.and_then(|mut parser| parser.parse_expr()).unwrap())
    };
    assert_eq!(bracketed(text), meant, "{text}");
}

#[test]
fn operators_bind_as_in_postgresql() {
    check("a * b ^ c", "(a * (b ^ c))");
    check("a ^ b * c", "((a ^ b) * c)");
    check("a ^ b ^ c", "((a ^ b) ^ c)");
    check("-a ^ b", "((-a) ^ b)");
    check("a ^ -b", "(a ^ (-b))");
    check("a ^ -b + c", "((a ^ (-b)) + c)");
    check("a = b ^ c", "(a = (b ^ c))");
    check("-a * b", "((-a) * b)");
    check("-a::INT", "(-a::INT)");
    check("a # b + c", "(a # (b + c))");
    check("a # b = c", "((a # b) = c)");
    check("a ^ b::INT", "(a ^ b::INT)");
    check("a - -b ^ c", "(a - ((-b) ^ c))");
    check("a + b ISNULL AND c NOTNULL", "(a + b IS NULL AND c IS NOT NULL)");
    check("a = b NOTNULL", "a = b IS NOT NULL");
    check("\"isnull\" isnull", "\"isnull\" IS NULL");
}

// sqlparser gives each of these operators a strength of its own: `255 >> 4 & 3` was 255, and
// `'n' || a + b` was refused.
#[test]
fn other_operators_bind_equally_tightly() {
    check("a >> b & c", "((a >> b) & c)");
    check("a | b & c", "((a | b) & c)");
    check("a | b << c", "((a | b) << c)");
    check("a # b | c", "((a # b) | c)");
    check("~a + b", "(~(a + b))");
    check("~a & b", "((~a) & b)");
    check("a & ~b | c", "((a & (~b)) | c)");
    check("a || b * c", "(a || (b * c))");
    check("a + b || c", "((a + b) || c)");
    check("a || b = c || d", "((a || b) = (c || d))");
    check("a ~ b || c", "((a ~ b) || c)");
    check("a @> b = c", "((a @> b) = c)");
    check("a -> b || c", "((a -> b) || c)");
    check("a || b IS DISTINCT FROM c || d", "a || b IS DISTINCT FROM c || d");
}

#[test]
fn blanks_are_trimmed_on_either_side() {
    check("trim(LEADING FROM a)", "TRIM(LEADING a)");
    check("trim(both from a || b)", "TRIM(BOTH a || b)");
    check("trim(TRAILING 'x' FROM a)", "TRIM(TRAILING 'x' FROM a)");
    check("trim(a)", "TRIM(a)");
}

#[test]
fn bounds_stand_in_either_order() {
    check("a BETWEEN SYMMETRIC 2 AND 1 AND c", "((a BETWEEN 2 AND 1 OR a BETWEEN 1 AND 2) AND c)");
    check("a NOT BETWEEN symmetric b AND 1", "(a NOT BETWEEN b AND 1 AND a NOT BETWEEN 1 AND b)");
}

/// The parser would have taken years for a statement of a hundred bytes.
#[test]
fn an_error_within_many_brackets_is_found_soon() {
    for open in ["NOT (", "CAST(", "SUBSTRING(", "POSITION(", "CEIL(", "OVERLAY("] {
        let error = parse_query(&format!("SELECT {}1 + +)", open.repeat(60)), &[]);
        let error = error.expect_err(open).to_string();
        assert!(error.contains("cannot be parsed in"), "sql_dialect-1: {error}");
    }
    let error = parse_query("SELECT NOT (NOT (1 + +))", &[]).expect_err("an error").to_string();
    assert!(error.contains("column 23"), "{error}");
    let right = format!("SELECT {}1 = 1{}", "NOT (".repeat(90), ")".repeat(90));
    parse_query(&right, &[]).expect("sql_dialect-1: it has no error");
}

/// The binding strength of an operator, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Not,
    Is,
    /// Comparisons and arithmetic.
    Tight,
}

/// An expression with the intended structure.
enum Meant {
    Name(char),
    Prefix(&'static str, Binding, Box<Meant>),
    Postfix(&'static str, Box<Meant>),
    Infix(Box<Meant>, &'static str, Binding, Box<Meant>),
}

impl Meant {
    fn random(random: &mut RandomBits, depth: usize) -> Meant {
        let inner = |random: &mut RandomBits| Box::new(Meant::random(random, depth - 1));
        let (op, binding) = match random.below(if depth == 0 { 1 } else { 11 }) {
            0 | 1 => return Meant::Name(*random.choose(&['a', 'b', 'c', 'd'])),
            2 => return Meant::Prefix("NOT", Binding::Not, inner(random)),
            3 => return Meant::Postfix("IS NULL", inner(random)),
            4 => return Meant::Postfix("IS NOT TRUE", inner(random)),
            5 => ("OR", Binding::Or),
            6 => ("AND", Binding::And),
            7 => ("IS DISTINCT FROM", Binding::Is),
            8 => ("IS NOT DISTINCT FROM", Binding::Is),
            9 => ("=", Binding::Tight),
            _ => ("+", Binding::Tight),
        };
        let (left, right) = (inner(random), inner(random));
        Meant::Infix(left, op, binding, right)
    }

    fn binding(&self) -> Option<Binding> {
        match self {
            Meant::Name(_) => None,
            Meant::Prefix(_, binding, _) | Meant::Infix(_, _, binding, _) => Some(*binding),
            Meant::Postfix(..) => Some(Binding::Is),
        }
    }

    /// Writes it with brackets around each part that has an operator and that `wants` them.
    fn written(&self, wants: &dyn Fn(&Meant, Binding, bool) -> bool) -> String {
        let part = |part: &Meant, binding, is_right| {
            let text = part.written(wants);
            let has_operator = part.binding().is_some();
            if has_operator && wants(part, binding, is_right) { format!("({text})") } else { text }
        };
        match self {
            Meant::Name(name) => name.to_string(),
            Meant::Prefix(op, binding, inner) => {
                format!("{op} {}", part(inner, *binding, false))
            }
            Meant::Postfix(op, inner) => format!("{} {op}", part(inner, Binding::Is, false)),
            Meant::Infix(left, op, binding, right) => {
                format!("{} {op} {}", part(left, *binding, false), part(right, *binding, true))
            }
        }
    }
}

/// Pseudo-random numbers, the same in every run.
struct RandomBits(u64);

impl RandomBits {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }

    fn choose<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

struct WithoutBrackets;

impl VisitorMut for WithoutBrackets {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Nested(inner) = expr {
            *expr = replace(inner, Expr::Value(Value::Null.into()));
        }
        ControlFlow::Continue(())
    }
}

fn bound(text: &str) -> Expr {
    let dialect = QueryDialect::default();
    let mut expr = Parser::new(&dialect).try_with_sql(text).unwrap().parse_expr().unwrap();
    let _ = expr.visit(&mut WithoutBrackets);
    expr
}

#[track_caller]
fn check_binding(text: &str, meant: &str) {
    assert_eq!(bound(text), bound(meant), "sql_dialect-2: {text} is {meant}");
}

#[test]
fn is_distinct_from_binds_as_tightly_as_is_null() {
    check_binding("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c");
    check_binding("a IS NOT DISTINCT FROM b OR c AND d", "(a IS NOT DISTINCT FROM b) OR (c AND d)");
    check_binding("a IS DISTINCT FROM b = c AND d", "(a IS DISTINCT FROM (b = c)) AND d");
    check_binding("NOT a IS DISTINCT FROM b AND c", "(NOT (a IS DISTINCT FROM b)) AND c");
    check_binding("a AND b IS DISTINCT FROM c OR d", "(a AND (b IS DISTINCT FROM c)) OR d");
    check_binding(
        "a IS DISTINCT FROM b AND c IS DISTINCT FROM d AND a",
        "((a IS DISTINCT FROM b) AND (c IS DISTINCT FROM d)) AND a",
    );
    check_binding("a IS DISTINCT FROM b IS NULL", "(a IS DISTINCT FROM b) IS NULL");
    check_binding("a IS DISTINCT FROM (b AND c)", "a IS DISTINCT FROM (b AND c)");
    check_binding("a IS DISTINCT FROM b IN (c) AND d", "(a IS DISTINCT FROM (b IN (c))) AND d");
}

#[test]
fn few_brackets_mean_the_same_as_all() {
    // Operators of equal strength bind from the left; comparisons cannot stand in a row.
    let needed = |part: &Meant, around: Binding, is_right: bool| {
        let own = part.binding().expect("it has an operator");
        own < around || own == around && (is_right || own == Binding::Tight)
    };
    let mut random = RandomBits(1);
    let mut spared = 0;
    for _ in 0..20_000 {
        let depth = 1 + random.below(5);
        let meant = Meant::random(&mut random, depth);
        let (few, all) = (meant.written(&needed), meant.written(&|_, _, _| true));
        check_binding(&few, &all);
        spared += usize::from(few != all && few.contains("DISTINCT"));
    }
    assert!(spared > 5_000, "the cases are of use");
}
