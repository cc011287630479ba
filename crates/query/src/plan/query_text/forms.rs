//! Rewriting of syntax of PostgreSQL and other databases as syntax that DataFusion knows.
//!
//! - forms-1. INTERVAL literals are parsed here (`interval_text`), with any fields.
//! - forms-2. `t AT TIME ZONE zone` of an instant is the local time of the zone: of `now()`, of a
//!   cast to TIMESTAMPTZ, of the result of `to_timestamp` for a number or a pattern of PostgreSQL,
//!   and of such a time that is moved or truncated.
//! - forms-3. `generate_series(..)` in a SELECT list is a row for each value.
//! - forms-4. `FROM generate_series(1, 3) AS n` and `FROM unnest(list) AS n` have a column `n`.
//! - forms-5. A number of many digits that is cast to DECIMAL is a text, with all of its digits: as
//!   a number it would be a DOUBLE.
//! - forms-6. `user` is a column in a query with a FROM, and else the login.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, Interval, Join, JoinConstraint, JoinOperator,
    ObjectName, ObjectNamePart, Select, SelectItem, TableAliasColumnDef, TableFactor,
    TableWithJoins, TimezoneInfo, TypedString, UnaryOperator, Value, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::column_lists::unnest_series_of_columns;
use super::equal_lists::tell_equal_lists_apart;
use crate::functions::{
    AT_TIME_ZONE, LIST_CONTAINS, LIST_LENGTH, LIST_OVERLAPS, SIMILAR_PATTERN, is_postgres_pattern,
    pattern_text,
};
use crate::pg_catalog::names_catalog;
use crate::sql::call::call_of;
use crate::sql::dialect::QueryDialect;
use crate::sql::visit::{visit_expressions, visit_mut};
use crate::types::decimal_constants::SHORT;
use crate::types::interval_text::{
    IntervalUnit, interval_unit, interval_words, parse_interval_text,
};

/// The names of calls that are rewritten as others (`other_call`), and that of `unnest`.
#[cfg(test)]
pub(crate) const REWRITTEN_CALLS: [&str; 16] = [
    "ceiling",
    "date_add",
    "gen_random_uuid",
    "make_interval",
    "mod",
    "num_nonnulls",
    "num_nulls",
    "regexp_split_to_table",
    "rnd_ipv4",
    "rnd_uuid4",
    "sign",
    "string_to_table",
    "time_bucket",
    "timestamp_sequence",
    "timezone",
    "unnest",
];

/// The maximal number of arguments of a call that becomes a sum with a term for each, as in
/// PostgreSQL.
const ARGUMENTS_MAX: usize = 100;
/// The arguments of `make_interval`, and their units.
const INTERVAL_PARTS: [(&str, &str); 7] = [
    ("years", "1 year"),
    ("months", "1 month"),
    ("weeks", "1 week"),
    ("days", "1 day"),
    ("hours", "1 hour"),
    ("mins", "1 minute"),
    ("secs", "1 second"),
];

/// Rewrites one expression whose parts have been rewritten.
pub(super) fn rewrite_form(expr: &mut Expr) {
    match expr {
        Expr::Interval(interval) => read_interval(interval),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, ..
        } => {
            if let (DataType::Interval { .. }, Some(text)) = (&*data_type, text_of(inner))
                && let Some(words) = words_of(text, IntervalUnit::Nanos(1_000_000_000))
            {
                *expr = Expr::Interval(interval_of(words));
            } else if is_decimal(data_type) {
                quote_digits(inner);
            }
        }
        Expr::Cast { expr: inner, data_type, .. } if is_decimal(data_type) => {
            quote_digits(inner);
        }
        Expr::SimilarTo { negated, expr: text, pattern, escape_char } => {
            let op = if *negated {
                BinaryOperator::PGRegexNotMatch
            } else {
                BinaryOperator::PGRegexMatch
            };
            let (text, pattern) = (taken(text), taken(pattern));
            let right = match escape_char.take() {
                Some(escape) => call_of(SIMILAR_PATTERN, [pattern, Expr::Value(escape)]),
                None => call_of(SIMILAR_PATTERN, [pattern]),
            };
            let (left, right) = (Box::new(text), Box::new(right));
            *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }));
        }
        // With a text, it is the part that a pattern matches, or its first group.
        Expr::Substring {
            expr: text, substring_from: Some(pattern), substring_for: None, ..
        } if text_of(pattern).is_some() => {
            let found = call_of("regexp_match", [taken(text), taken(pattern)]);
            *expr = call_of("array_element", [found, number("1")]);
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            *expr = in_zone(taken(timestamp), taken(time_zone));
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner }
            if matches!(**inner, Expr::Interval(_)) =>
        {
            // DataFusion puts the sign before the first term, which negates that alone.
            **inner = Expr::Nested(Box::new(taken(inner)));
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => {
            let (left, right) = (Box::new(taken(inner)), Box::new(number("-1")));
            let op = BinaryOperator::PGBitwiseXor;
            *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }));
        }
        Expr::Like { any: true, .. } | Expr::ILike { any: true, .. } => like_each(expr),
        Expr::Like { pattern, .. } | Expr::ILike { pattern, .. } if all_of(pattern).is_some() => {
            like_each(expr);
        }
        Expr::BinaryOp { left, op, right } => {
            rewrite_operator(left, op, right).map_or((), |other| *expr = other)
        }
        Expr::Function(call) => {
            if let Some(other) = other_call(call).or_else(|| made_interval(call)) {
                *expr = other;
            }
        }
        _ => {}
    }
}

/// Returns `time AT TIME ZONE zone` (forms-2).
fn in_zone(time: Expr, zone: Expr) -> Expr {
    let function = if is_instant(&time) { "to_timezone" } else { AT_TIME_ZONE };
    call_of(function, [time, zone])
}

pub(super) fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).into())
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => text_of(inner),
        _ => None,
    }
}

fn is_decimal(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal(_) | DataType::Numeric(_) | DataType::Dec(_))
}

/// Quotes a number that is cast to DECIMAL, if it has more digits than a DOUBLE (forms-5).
pub(crate) fn quote_digits(expr: &mut Expr) {
    if let Some(digits) = digits_of(expr)
        && SHORT < digits.bytes().filter(u8::is_ascii_digit).count()
    {
        *expr = Expr::Value(Value::SingleQuotedString(digits).into());
    }
}

/// Returns a number as it is written, without an exponent.
fn digits_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => digits_of(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
            digits_of(inner).filter(|digits| !digits.starts_with('-')).map(|it| format!("-{it}"))
        }
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) if !digits.contains(['e', 'E']) => Some(digits.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn words_of(text: &str, bare: IntervalUnit) -> Option<String> {
    parse_interval_text(text, bare).map(interval_words)
}

fn interval_of(words: String) -> Interval {
    Interval {
        value: Box::new(Expr::Value(Value::SingleQuotedString(words).into())),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }
}

/// Parses an interval (forms-1). An invalid one stays, and is refused when it is planned.
fn read_interval(interval: &mut Interval) {
    let digits = match interval.value.as_ref() {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits.clone()),
            _ => None,
        },
        _ => None,
    };
    let Some(text) = digits.or_else(|| text_of(&interval.value).map(str::to_owned)) else { return };
    let last = interval.last_field.as_ref().or(interval.leading_field.as_ref());
    let last = match last {
        Some(field) => match interval_unit(&field.to_string()) {
            Some(unit) => Some(unit),
            None => return,
        },
        None => None,
    };
    let bare = last.unwrap_or(IntervalUnit::Nanos(1_000_000_000));
    // `1:30` of minutes to seconds.
    let is_minutes = matches!(interval.leading_field, Some(DateTimeField::Minute));
    let text = match text.split_once(':') {
        Some(_) if is_minutes && text.matches(':').count() == 1 => format!("0:{text}"),
        _ => text,
    };
    let Some(mut value) = parse_interval_text(&text, bare) else { return };
    // Units smaller than the last field are cut, as by PostgreSQL.
    match last {
        Some(IntervalUnit::Months(months)) => {
            value.months -= value.months % i32::try_from(months).unwrap_or(1);
            (value.days, value.nanoseconds) = (0, 0);
        }
        Some(IntervalUnit::Days(1)) => value.nanoseconds = 0,
        Some(IntervalUnit::Nanos(nanos)) if 60_000_000_000 <= nanos => {
            value.nanoseconds -= value.nanoseconds % i64::try_from(nanos).unwrap_or(1);
        }
        _ => {}
    }
    *interval = interval_of(interval_words(value));
}

/// Functions without arguments that return an instant.
const INSTANTS: [&str; 4] =
    ["now", "current_timestamp", "transaction_timestamp", "statement_timestamp"];

/// Returns true if an expression is an instant, and not a local time (forms-2).
fn is_instant(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_instant(inner),
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            is_instant_type(data_type)
        }
        Expr::BinaryOp { op: BinaryOperator::Plus | BinaryOperator::Minus, left, right } => {
            // The difference of two instants is none.
            is_instant(left) != is_instant(right)
        }
        Expr::Function(call) => {
            let args = super::arguments(call).collect::<Vec<_>>();
            match (function_name(call), args.as_slice()) {
                (Some(name), []) => INSTANTS.contains(&name),
                (Some("date_trunc" | "date_bin" | "timestamp_floor"), [_, time, ..]) => {
                    is_instant(time)
                }
                (Some("to_timestamp"), [Expr::Value(value)]) => {
                    matches!(value.value, Value::Number(..))
                }
                (Some("to_timestamp"), [_, pattern]) => {
                    text_of(pattern).is_some_and(is_postgres_pattern)
                }
                _ => false,
            }
        }
        _ => false,
    }
}

fn is_instant_type(ty: &DataType) -> bool {
    match ty {
        DataType::Timestamp(_, zone) => {
            matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz)
        }
        DataType::Custom(name, _) => name.to_string().eq_ignore_ascii_case("timestamptz"),
        _ => false,
    }
}

fn function_name(call: &Function) -> Option<&str> {
    match call.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(name.value.as_str()),
        _ => None,
    }
}

/// Returns the patterns of `x LIKE ALL (a, b)`, which the parser takes for a call.
fn all_of(pattern: &Expr) -> Option<Vec<Expr>> {
    let Expr::Function(call) = pattern else { return None };
    let patterns = super::arguments(call).cloned().collect::<Vec<_>>();
    let is_all = function_name(call) == Some("all") && !patterns.is_empty();
    is_all.then(|| match patterns.as_slice() {
        [list] => elements(list).unwrap_or(patterns),
        _ => patterns,
    })
}

/// Returns the elements of `ARRAY[..]`, which may be a call already (column_lists-2).
fn elements(list: &Expr) -> Option<Vec<Expr>> {
    match list {
        Expr::Array(array) => Some(array.elem.clone()),
        Expr::Function(call) if function_name(call) == Some("make_array") => {
            Some(super::arguments(call).cloned().collect())
        }
        _ => None,
    }
}

/// Rewrites `x LIKE ANY (a, b)` as `x LIKE a OR x LIKE b`, and `x LIKE ALL (a, b)` with AND; with
/// NOT, each match is negated.
fn like_each(expr: &mut Expr) {
    let (Expr::Like { pattern, .. } | Expr::ILike { pattern, .. }) = &*expr else { return };
    let all = all_of(pattern);
    let joined = if all.is_some() { BinaryOperator::And } else { BinaryOperator::Or };
    let patterns = match pattern.as_ref() {
        _ if all.is_some() => all.unwrap_or_default(),
        Expr::Tuple(patterns) => patterns.clone(),
        Expr::Nested(inner) => elements(inner).unwrap_or_else(|| vec![inner.as_ref().clone()]),
        list => match elements(list) {
            Some(elements) => elements,
            None => return,
        },
    };
    let one = |of: Expr| {
        let mut like = expr.clone();
        if let Expr::Like { pattern, any, .. } | Expr::ILike { pattern, any, .. } = &mut like {
            (**pattern, *any) = (of, false);
        }
        like
    };
    let join = |left, right| {
        let (left, right) = (Box::new(left), Box::new(right));
        Expr::BinaryOp { left, op: joined.clone(), right }
    };
    if let Some(each) = patterns.into_iter().map(one).reduce(join) {
        *expr = Expr::Nested(Box::new(each));
    }
}

/// Rewrites operators of lists as functions, and patterns of regular expressions in the syntax of
/// the `regex` crate.
fn rewrite_operator(left: &mut Expr, op: &BinaryOperator, right: &mut Expr) -> Option<Expr> {
    use BinaryOperator::{
        ArrowAt, AtArrow, PGOverlap, PGRegexIMatch, PGRegexMatch, PGRegexNotIMatch, PGRegexNotMatch,
    };
    match op {
        AtArrow => Some(call_of(LIST_CONTAINS, [taken(left), taken(right)])),
        ArrowAt => Some(call_of(LIST_CONTAINS, [taken(right), taken(left)])),
        PGOverlap => Some(call_of(LIST_OVERLAPS, [taken(left), taken(right)])),
        PGRegexMatch | PGRegexIMatch | PGRegexNotMatch | PGRegexNotIMatch => {
            if let Some(text) = text_of(right) {
                let text = pattern_text(text);
                *right = Expr::Value(Value::SingleQuotedString(text).into());
            }
            None
        }
        _ => None,
    }
}

/// Returns `rnd_ipv4()`: four random numbers, with points between them.
fn address_by_chance() -> Expr {
    let part = || call_of("rnd_int", [number("0"), number("255"), number("0")]);
    let point = Expr::Value(Value::SingleQuotedString(".".to_owned()).into());
    let name = ObjectNamePart::Identifier(Ident::new("ipv4"));
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call_of("concat_ws", [point, part(), part(), part(), part()])),
        data_type: DataType::Custom(ObjectName(vec![name]), Vec::new()),
        array: false,
        format: None,
    }
}

/// Rewrites a call as another one, if it is one of these.
fn other_call(call: &Function) -> Option<Expr> {
    if call.over.is_some() || call.filter.is_some() {
        return None;
    }
    let args = super::arguments(call).cloned().collect::<Vec<_>>();
    let is_all = match &call.args {
        FunctionArguments::List(list) => list.args.len() == args.len() && list.clauses.is_empty(),
        _ => args.is_empty(),
    };
    let name = function_name(call).filter(|_| is_all)?;
    let nested = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    let operation = |left: &Expr, op, right: &Expr| {
        let (left, right) = (nested(left), nested(right));
        Some(Expr::Nested(Box::new(Expr::BinaryOp { left, op, right })))
    };
    match (name, args.as_slice()) {
        ("mod", [a, b]) => operation(a, BinaryOperator::Modulo, b),
        ("sign", [x]) => Some(call_of("signum", [x.clone()])),
        ("date_add", [time, length @ Expr::Interval(_)]) => {
            operation(time, BinaryOperator::Plus, length)
        }
        ("time_bucket", [width, time]) => {
            // Months count from January, weeks from a Monday.
            let width = width_interval(width);
            let is_months = matches!(&width, Expr::Interval(interval)
                if text_of(&interval.value).is_some_and(|it| !it.starts_with("0 months")));
            let origin = if is_months { "2000-01-01" } else { "2000-01-03" };
            let origin = time_literal(origin);
            Some(call_of("date_bin", [width, time.clone(), origin]))
        }
        ("time_bucket", [width, time, origin]) => {
            Some(call_of("date_bin", [width_interval(width), time.clone(), origin.clone()]))
        }
        ("array_length", [list, dimension]) => {
            Some(call_of(LIST_LENGTH, [list.clone(), dimension.clone()]))
        }
        ("timestamp_sequence", [start, step]) => sequence(start, step),
        ("gen_random_uuid" | "rnd_uuid4", []) => Some(Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(call_of("uuid", [])),
            data_type: DataType::Uuid,
            array: false,
            format: None,
        }),
        ("rnd_ipv4", []) => Some(address_by_chance()),
        ("ceiling", [x]) => Some(call_of("ceil", [x.clone()])),
        ("regexp_matches", [_, _, ..]) => Some(call_of("unnest", [call_of(name, args)])),
        ("regexp_split_to_table", [_, _, ..]) => {
            Some(call_of("unnest", [call_of("regexp_split_to_array", args)]))
        }
        ("string_to_table", [_, _, ..]) => {
            Some(call_of("unnest", [call_of("string_to_array", args)]))
        }
        ("num_nulls" | "num_nonnulls", [_, ..]) if args.len() <= ARGUMENTS_MAX => {
            sum_of(args.iter().map(|arg| null_number(arg, name == "num_nulls")))
        }
        ("timezone", [zone, time]) => Some(in_zone(time.clone(), zone.clone())),
        _ => None,
    }
}

fn sum_of(terms: impl Iterator<Item = Expr>) -> Option<Expr> {
    let sum = terms.reduce(|left, right| {
        let (left, right) = (Box::new(left), Box::new(right));
        Expr::BinaryOp { left, op: BinaryOperator::Plus, right }
    });
    sum.map(|sum| Expr::Nested(Box::new(sum)))
}

fn cast_to(data_type: DataType, expr: Expr) -> Expr {
    let expr = Box::new(expr);
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

/// Returns 1 if a value is NULL, or if it is not, and else 0.
fn null_number(value: &Expr, counts_nulls: bool) -> Expr {
    let value = Box::new(Expr::Nested(Box::new(value.clone())));
    let test = if counts_nulls { Expr::IsNull(value) } else { Expr::IsNotNull(value) };
    cast_to(DataType::Int(None), test)
}

/// Returns a call of `make_interval` as a sum of products, with arguments by place or by name.
fn made_interval(call: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_plain = call.over.is_none() && call.filter.is_none() && list.clauses.is_empty();
    if function_name(call) != Some("make_interval") || !is_plain {
        return None;
    }
    let (mut values, mut is_named) = ([const { None }; INTERVAL_PARTS.len()], false);
    for (at, arg) in list.args.iter().enumerate() {
        let (at, value) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if !is_named => (at, value),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                is_named = true;
                (INTERVAL_PARTS.iter().position(|&(part, _)| part == name.value)?, value)
            }
            _ => return None,
        };
        if values.get_mut(at)?.replace(value.clone()).is_some() {
            return None;
        }
    }
    let unit = |words: &str| {
        let words = words_of(words, IntervalUnit::Nanos(1_000_000_000));
        words.map(|words| Expr::Interval(interval_of(words)))
    };
    let mut terms = Vec::new();
    for (&(part, words), value) in INTERVAL_PARTS.iter().zip(values) {
        let Some(value) = value else { continue };
        let ty = if part == "secs" { DataType::DoublePrecision } else { DataType::Int(None) };
        let (left, right) = (Box::new(cast_to(ty, value)), Box::new(unit(words)?));
        terms.push(Expr::BinaryOp { left, op: BinaryOperator::Multiply, right });
    }
    sum_of(terms.into_iter()).or_else(|| unit("0 seconds"))
}

/// Returns `timestamp_sequence(start, step)`: for row n of the query, the time n - 1 steps in
/// microseconds after the start; steps that differ are added up over the rows before.
fn sequence(start: &Expr, step: &Expr) -> Option<Expr> {
    let start = format!("CAST(CAST({start} AS TIMESTAMP) AS BIGINT)");
    let steps = match step {
        Expr::Function(_) | Expr::BinaryOp { .. } => format!(
            "coalesce(sum(CAST({step} AS BIGINT)) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 \
             PRECEDING), 0)"
        ),
        _ => format!("(CAST(row_number() OVER () AS BIGINT) - 1) * CAST({step} AS BIGINT)"),
    };
    let text = format!("CAST({start} + {steps} AS TIMESTAMP)");
    let dialect = QueryDialect::default();
    Parser::new(&dialect).try_with_sql(&text).and_then(|mut parser| parser.parse_expr()).ok()
}

/// Rewrites `unnest(list) WITH ORDINALITY`: the elements, and behind them their numbers.
fn number_elements(table: &mut TableFactor) {
    let TableFactor::UNNEST { alias, array_exprs, with_ordinality, with_offset, .. } = table else {
        return;
    };
    let ([list], true, false) = (array_exprs.as_slice(), *with_ordinality, *with_offset) else {
        return;
    };
    // In a list of SELECT, a series by itself would be rows (forms-3).
    let is_series = matches!(list, Expr::Function(call)
        if function_name(call) == Some("generate_series"));
    let list = if is_series { format!("coalesce({list})") } else { list.to_string() };
    // Lists of one length are unnested in step: the rows below may come in any order.
    let text = format!(
        "SELECT unnest(list) AS \"unnest\", \
         unnest(range(1, CAST(coalesce(array_length(list, 1), 0) AS BIGINT) + 1)) AS ordinality \
         FROM (SELECT {list} AS list)"
    );
    let dialect = QueryDialect::default();
    let parsed = Parser::new(&dialect).try_with_sql(&text).and_then(|mut it| it.parse_query());
    if let Ok(subquery) = parsed {
        let alias = alias.take();
        *table = TableFactor::Derived { lateral: true, subquery, alias, sample: None };
    }
}

/// Returns a width that may be a text as an interval.
fn width_interval(width: &Expr) -> Expr {
    let words = text_of(width).and_then(|text| words_of(text, IntervalUnit::Nanos(1_000_000_000)));
    words.map_or_else(|| width.clone(), |words| Expr::Interval(interval_of(words)))
}

fn time_literal(text: &str) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::SingleQuotedString(text.to_owned()).into())),
        data_type: DataType::Timestamp(None, TimezoneInfo::None),
        array: false,
        format: None,
    }
}

/// Rewrites the list and the FROM of a SELECT. Fails with the kind of a join that has no condition.
pub(super) fn rewrite_select(select: &mut Select) -> Result<(), &'static str> {
    let has_from = !select.from.is_empty();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            unnest_series(expr);
        }
    }
    let mentioned = mentioned_names(select);
    for from in &mut select.from {
        unnest_series_of_columns(&mut from.relation);
        tell_equal_lists_apart(&mut from.relation);
        number_elements(&mut from.relation);
        name_series_column(&mut from.relation, &mentioned);
        for join in &mut from.joins {
            unnest_series_of_columns(&mut join.relation);
            tell_equal_lists_apart(&mut join.relation);
            number_elements(&mut join.relation);
            name_series_column(&mut join.relation, &mentioned);
            check_join(join)?;
        }
    }
    let mut users = UserColumns { replaces: false, found: false };
    let _ = visit_mut(select, &mut users);
    if has_from && users.found && !names_catalog(select) {
        let _ = visit_mut(select, &mut UserColumns { replaces: true, found: false });
    }
    Ok(())
}

/// Returns the names of columns that a SELECT with a series mentions, with their qualifiers.
fn mentioned_names(select: &Select) -> HashSet<(Option<String>, String)> {
    let mut names = HashSet::new();
    let is_series = |from: &TableWithJoins| {
        let joined = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation).chain(joined).any(is_series)
    };
    if !select.from.iter().any(is_series) {
        return names;
    }
    let _ = visit_expressions(select, |expr| {
        match expr {
            Expr::Identifier(name) => drop(names.insert((None, name.value.clone()))),
            Expr::CompoundIdentifier(path) => {
                if let [.., table, column] = path.as_slice() {
                    names.insert((Some(table.value.clone()), column.value.clone()));
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    names
}

fn is_series(table: &TableFactor) -> bool {
    match table {
        TableFactor::Table { name, args: Some(_), .. } => match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => {
                matches!(name.value.as_str(), "generate_series" | "range")
            }
            _ => false,
        },
        _ => false,
    }
}

/// forms-4. Names the one column of `unnest(list) AS a` and of a series like its table, except for
/// a series where the query mentions `value`.
fn name_series_column(table: &mut TableFactor, mentioned: &HashSet<(Option<String>, String)>) {
    if let TableFactor::UNNEST { alias: Some(alias), array_exprs, with_ordinality: false, .. } =
        table
        && alias.columns.is_empty()
        && array_exprs.len() == 1
    {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
    if !is_series(table) {
        return;
    }
    let TableFactor::Table { alias: Some(alias), .. } = table else { return };
    let name = alias.name.clone();
    let is_mentioned = |table: Option<&str>, column: &str| {
        mentioned.contains(&(table.map(str::to_owned), column.to_owned()))
    };
    let says_value = is_mentioned(Some(&name.value), "value")
        || is_mentioned(None, "value") && !is_mentioned(None, &name.value);
    if alias.columns.is_empty() && !says_value {
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
}

/// Unnests a series (forms-3): within operators, and not where a function takes the list.
fn unnest_series(expr: &mut Expr) {
    match expr {
        Expr::Function(call)
            if function_name(call) == Some("generate_series") && call.over.is_none() =>
        {
            let series = taken(expr);
            *expr = call_of("unnest", [series]);
        }
        Expr::Nested(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::UnaryOp { expr: inner, .. } => unnest_series(inner),
        Expr::BinaryOp { left, right, .. } => {
            unnest_series(left);
            unnest_series(right);
        }
        _ => {}
    }
}

/// Makes SEMI and ANTI JOIN those of the left side; requires a condition of any other join but ASOF
/// and LT, which are GLOBAL here (`sql::clauses`).
fn check_join(join: &mut Join) -> Result<(), &'static str> {
    let operator = std::mem::replace(&mut join.join_operator, JoinOperator::CrossApply);
    join.join_operator = match operator {
        JoinOperator::Semi(on) => JoinOperator::LeftSemi(on),
        JoinOperator::Anti(on) => JoinOperator::LeftAnti(on),
        other => other,
    };
    match &join.join_operator {
        JoinOperator::Join(JoinConstraint::None)
        | JoinOperator::Inner(JoinConstraint::None)
        | JoinOperator::Left(JoinConstraint::None)
        | JoinOperator::LeftOuter(JoinConstraint::None)
        | JoinOperator::Right(JoinConstraint::None)
        | JoinOperator::RightOuter(JoinConstraint::None)
        | JoinOperator::FullOuter(JoinConstraint::None)
            if !join.global =>
        {
            Err("a JOIN without ON or USING (of all rows with all rows it is CROSS JOIN)")
        }
        _ => Ok(()),
    }
}

/// Finds the columns of forms-6.
struct UserColumns {
    /// True if it makes columns of them, false if it only looks for them.
    replaces: bool,
    found: bool,
}

impl VisitorMut for UserColumns {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && function_name(call) == Some("user")
            && matches!(call.args, FunctionArguments::None)
        {
            self.found = true;
            if self.replaces {
                *expr = Expr::Identifier(Ident::new("user"));
            }
        }
        ControlFlow::Continue(())
    }
}
