//! The names of the columns of an answer.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TrimWhereField, UnaryOperator, Value, VisitorMut,
};

use super::forms::{rewrite_form, taken};
use super::item_names::item_name;
use crate::sql::call::call_of;
use crate::sql::visit::{visit_expressions, visit_mut};

/// The names of the columns of the outermost SELECT.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputNames {
    items: Vec<OutputName>,
    /// Names given with AS anywhere in the query, by their lower case.
    aliases: HashMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OutputName {
    /// A plain column, also in brackets: its stored name, or else the written one.
    Column(String),
    /// A name given in the query.
    Written(String),
    /// The name of an item without AS that is no plain column (`item_names`).
    Calculated(String),
    /// Any number of columns.
    Wildcard,
}

impl OutputNames {
    /// Returns the names of a query in its written case.
    pub(super) fn of(mut written: Query) -> OutputNames {
        let mut collector = AliasCollector { aliases: HashMap::new() };
        // The visitor never breaks off.
        let _ = visit_mut(&mut written, &mut collector);
        let items = outermost(&mut written).map(|select| {
            let name_of = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(expr) => match column_of(expr) {
                    Some(column) => OutputName::Column(column.value.clone()),
                    None => OutputName::Calculated(item_name(expr)),
                },
                SelectItem::ExprWithAlias { alias, .. } => OutputName::Written(alias.value.clone()),
                _ => OutputName::Wildcard,
            };
            select.projection.iter().map(name_of).collect()
        });
        OutputNames { items: items.unwrap_or_default(), aliases: collector.aliases }
    }

    /// Returns the names of the columns of the answer. `planned` are their names in the plan, each
    /// with the name it is stored under, if it is a column of a table.
    pub(crate) fn resolve(&self, planned: &[(String, Option<String>)]) -> Vec<String> {
        let is_wildcard = |name: &OutputName| *name == OutputName::Wildcard;
        let front = self.items.iter().position(is_wildcard).unwrap_or(self.items.len());
        let back = self.items.iter().rev().position(is_wildcard).unwrap_or(0);
        let fits = if front == self.items.len() {
            planned.len() == front
        } else {
            planned.len() + 1 >= front + back
        };
        let mut names = Vec::with_capacity(planned.len());
        for (at, (plan_name, stored)) in planned.iter().enumerate() {
            let from_end = planned.len() - at;
            let item = match (fits, at < front, from_end <= back) {
                (true, true, _) => self.items.get(at),
                (true, false, true) => self.items.get(self.items.len() - from_end),
                _ => None,
            };
            let is_calculated = matches!(item, Some(OutputName::Calculated(_)));
            let name = match (item, stored) {
                (Some(OutputName::Written(name) | OutputName::Calculated(name)), _) => name.clone(),
                (_, Some(stored)) => stored.clone(),
                (Some(OutputName::Column(name)), None) => {
                    self.aliases.get(&name.to_lowercase()).unwrap_or(name).clone()
                }
                _ => self.aliases.get(plan_name).unwrap_or(plan_name).clone(),
            };
            names.push(ResultName { name, is_calculated });
        }
        number_repeated(names)
    }
}

/// The name of a column before names are made different.
struct ResultName {
    name: String,
    /// True if the item has no name of its own.
    is_calculated: bool,
}

/// Appends `_2`, `_3`, ... to a repeated name. Columns and names given with AS come first: a
/// calculated item takes no name from them.
fn number_repeated(names: Vec<ResultName>) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::new();
    let mut numbered = names.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    for is_calculated in [false, true] {
        for (at, given) in names.iter().enumerate() {
            if given.is_calculated != is_calculated {
                continue;
            }
            let mut count = 1;
            while !taken.insert(numbered[at].to_lowercase()) {
                count += 1;
                numbered[at] = format!("{}_{count}", given.name);
            }
        }
    }
    numbered
}

/// Gives the second `x` of `SELECT x, x` the name `x_2`, and names casts by their text: DataFusion
/// requires names to differ, and calls `x::INT` just `x`. So is an item named that differs from one
/// before it in the spelling alone: `1.10, 1.100`.
pub(super) fn number_repeated_items(items: &mut [SelectItem]) {
    let name_of = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => Some((written_name(expr), has_cast_name(expr))),
        SelectItem::ExprWithAlias { alias, .. } => Some((alias.value.clone(), false)),
        _ => None,
    };
    let mut taken = items.iter().filter_map(name_of).map(|(name, _)| name).collect::<HashSet<_>>();
    let mut counts: HashMap<String, usize> = HashMap::new();
    let respelled = respelled(items);
    for (item, is_respelled) in items.iter_mut().zip(respelled) {
        let Some((name, is_cast)) = name_of(item) else { continue };
        match counts.get_mut(&name) {
            Some(count) => give_alias(item, next_name(&name, count, &mut taken)),
            None => {
                counts.insert(name.clone(), 1);
                if is_cast || is_respelled {
                    give_alias(item, name);
                }
            }
        }
    }
}

/// Returns `x_2`, or the next such name that is not taken. `count` is the last number given, or 1.
pub(super) fn next_name(name: &str, count: &mut usize, taken: &mut HashSet<String>) -> String {
    loop {
        *count += 1;
        let numbered = format!("{name}_{count}");
        if taken.insert(numbered.clone()) {
            return numbered;
        }
    }
}

/// Gives an item a name.
pub(super) fn give_alias(item: &mut SelectItem, name: String) {
    let null = SelectItem::UnnamedExpr(Expr::Value(Value::Null.into()));
    let alias = Ident::with_quote('"', name);
    *item = match std::mem::replace(item, null) {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            SelectItem::ExprWithAlias { expr, alias }
        }
        other => other,
    };
}

/// Returns true for each item that another before it equals, but for the spelling of constants, for
/// brackets, and for forms of which one stands for the other.
fn respelled(items: &[SelectItem]) -> Vec<bool> {
    if items.len() < 2 {
        return vec![false; items.len()];
    }
    let mut seen = HashSet::new();
    let is_respelled = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) if column_of(expr).is_some() => false,
        SelectItem::UnnamedExpr(expr) => {
            let mut expr = expr.clone();
            // The first pass makes calls and brackets of forms. The visitor never breaks off.
            let _ = visit_mut(&mut expr, &mut Respeller);
            let _ = visit_mut(&mut expr, &mut Respeller);
            !seen.insert(expr.to_string())
        }
        _ => false,
    };
    items.iter().map(is_respelled).collect()
}

/// Gives equal expressions one spelling.
struct Respeller;

impl VisitorMut for Respeller {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        rewrite_form(expr);
        if let Expr::Function(call) = expr {
            for part in &mut call.name.0 {
                if let ObjectNamePart::Identifier(name) = part {
                    name.quote_style = None;
                }
            }
        }
        let other = match expr {
            Expr::Nested(inner) => Some(taken(inner)),
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) => {
                    let number = digits.replace('_', "").parse::<f64>();
                    number.ok().map(|it| Expr::Value(Value::Number(it.to_string(), false).into()))
                }
                Value::EscapedStringLiteral(text) => {
                    Some(Expr::Value(Value::SingleQuotedString(text.clone()).into()))
                }
                _ => None,
            },
            _ => as_call(expr),
        };
        if let Some(other) = other {
            *expr = other;
        }
        ControlFlow::Continue(())
    }
}

/// Returns the call that DataFusion plans for a form with words of its own.
fn as_call(form: &mut Expr) -> Option<Expr> {
    let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
    Some(match form {
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } => {
            call_of("power", [taken(left), taken(right)])
        }
        Expr::Ceil { expr, .. } => call_of("ceil", [taken(expr)]),
        Expr::Position { expr, r#in: text } => call_of("strpos", [taken(text), taken(expr)]),
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let from = substring_from.take().map_or_else(one, |it| *it);
            let length = substring_for.take().map(|it| *it);
            call_of("substr", [taken(expr), from].into_iter().chain(length))
        }
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let args = [taken(expr), taken(overlay_what), taken(overlay_from)];
            let length = overlay_for.take().map(|it| *it);
            call_of("overlay", args.into_iter().chain(length))
        }
        Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
            let name = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            };
            let what = trim_what.take().map(|it| *it);
            let characters = trim_characters.take().unwrap_or_default();
            call_of(name, [taken(expr)].into_iter().chain(what).chain(characters))
        }
        _ => return None,
    })
}

/// Gives the `x` of `SELECT x, *` a name that no other column has, as `*` has an `x` too. An item
/// that is certainly no column of `*` keeps its name. `is_one` is true for one table.
pub(super) fn name_items_beside_wildcards(items: &mut [SelectItem], is_one: bool) {
    let wildcards = items.iter().filter_map(|item| match item {
        SelectItem::Wildcard(_) => Some(None),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), _) => {
            Some(of.0.last().map(ToString::to_string))
        }
        _ => None,
    });
    let wildcards = wildcards.collect::<Vec<_>>();
    if wildcards.is_empty() {
        return;
    }
    let is_of_wildcard = |table: Option<&Ident>| {
        wildcards.iter().any(|of| match (of, table) {
            (None, _) => true,
            (Some(of), Some(table)) => *of == table.to_string(),
            (Some(_), None) => is_one,
        })
    };
    let is_in_wildcard = |expr: &Expr, name: &str| match expr {
        Expr::Identifier(column) => column.value == name && is_of_wildcard(None),
        Expr::CompoundIdentifier(path) => match path.as_slice() {
            [.., table, column] => column.value == name && is_of_wildcard(Some(table)),
            _ => false,
        },
        _ => false,
    };
    for (at, item) in items.iter_mut().enumerate() {
        let (expr, name) = match &*item {
            SelectItem::UnnamedExpr(expr) if column_of(expr).is_some() => {
                (expr, written_name(expr))
            }
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.value.clone()),
            _ => continue,
        };
        let reads = visit_expressions(expr, |expr| match is_in_wildcard(expr, &name) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        if reads.is_break() {
            let alias = Ident::with_quote('"', format!("{name}_{BESIDE}{at}"));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// Digits before the number of such an item.
const BESIDE: &str = "000000";

/// Returns true if DataFusion may give the expression the name of another: casts have that of their
/// operand, `+x` that of x, and all subqueries the same.
fn has_cast_name(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |expr| match expr {
        Expr::Cast { .. }
        | Expr::TypedString { .. }
        | Expr::Subquery(_)
        | Expr::Exists { .. }
        | Expr::InSubquery { .. }
        | Expr::UnaryOp { op: UnaryOperator::Plus, .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Returns the name of an item without AS: a column's name, or else the item's text.
fn written_name(expr: &Expr) -> String {
    column_of(expr).map_or_else(|| expr.to_string(), |column| column.value.clone())
}

/// Returns the name of a column, also of one in brackets.
fn column_of(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(path) => path.last(),
        Expr::Nested(inner) => column_of(inner),
        _ => None,
    }
}

/// Collects the names given with AS, the outer ones first.
struct AliasCollector {
    aliases: HashMap<String, String>,
}

impl VisitorMut for AliasCollector {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.aliases.entry(alias.value.to_lowercase()).or_insert(alias.value.clone());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the outermost SELECT, of a set operation the leftmost.
fn outermost(query: &mut Query) -> Option<&mut Select> {
    let mut body = query.body.as_mut();
    loop {
        match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::Query(query) => body = query.body.as_mut(),
            SetExpr::SetOperation { left, .. } => body = left.as_mut(),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::query_text::parse_query;

    #[track_caller]
    fn check_names(sql: &str, planned: &[(&str, Option<&str>)], expected: &str) {
        let owned = |name: &str| name.to_owned();
        let planned = planned.iter().map(|(name, stored)| (owned(name), stored.map(owned)));
        let names = parse_query(sql, &[]).unwrap().names.resolve(&planned.collect::<Vec<_>>());
        assert_eq!(names.join(", "), expected, "{sql}");
    }

    #[test]
    fn columns_are_called_as_stored_and_the_rest_as_written() {
        let watch = ("watchid", Some("WatchID"));
        check_names(
            "SELECT watchid, Count(*), 1 AS Cnt FROM hits",
            &[watch, ("count(*)", None), ("cnt", None)],
            "WatchID, count, Cnt",
        );
        check_names("SELECT WatchID AS Wid FROM hits", &[("wid", Some("WatchID"))], "Wid");
        check_names("SELECT * FROM hits", &[watch, ("url", Some("URL"))], "WatchID, URL");
        check_names(
            "SELECT 1 AS One, *, 2 AS Two FROM hits",
            &[("one", None), watch, ("url", Some("URL")), ("two", None)],
            "One, WatchID, URL, Two",
        );
        check_names("SELECT * FROM (SELECT count(*) AS Cnt FROM hits)", &[("cnt", None)], "Cnt");
        check_names("SELECT cnt FROM (SELECT 1 AS Cnt)", &[("cnt", None)], "Cnt");
    }

    // node-postgres reads `rows[0].version`, and knex and TypeORM fail to connect without it.
    #[test]
    fn items_without_a_name_are_called_after_their_function() {
        for (item, expected) in [
            ("version()", "version"),
            ("count(*)", "count"),
            ("pg_catalog.Max(a)", "max"),
            ("(max(a))", "max"),
            ("rank() OVER (ORDER BY a)", "rank"),
            ("A::INT", "A"),
            ("'5'::INT", "int4"),
            ("'5'::INT::TEXT", "text"),
            ("'{5}'::INT[]", "int4"),
            ("'2025-01-01'::TIMESTAMPTZ", "timestamptz"),
            ("'t'::pg_catalog.Regclass", "regclass"),
            ("INTERVAL '1 day'", "interval"),
            ("ROW(a, b)", "row"),
            ("NOT a", "NOT a"),
            ("DATE '2025-01-01'", "date"),
            ("lower(a)::text", "lower"),
            ("CASE WHEN a THEN 1 END", "case"),
            ("CASE WHEN a THEN 1 ELSE b END", "b"),
            ("CASE WHEN a THEN 1 ELSE '2'::INT END", "case"),
            ("extract(year FROM a)", "extract"),
            ("trim(a)", "btrim"),
            ("EXISTS (SELECT 1)", "exists"),
            ("(SELECT max(b) FROM u)", "max"),
            ("array[1]", "array"),
            ("a[1]", "a"),
            ("a + 1", "a + 1"),
            ("1", "1"),
        ] {
            check_names(&format!("SELECT {item} FROM t"), &[("planned", None)], expected);
        }
    }

    // The cast took the name of the column behind it, so that a table made of it had no `ts`.
    #[test]
    fn a_calculated_item_takes_no_name_from_a_column_or_an_alias() {
        let planned = [("a", None), ("ts", Some("ts")), ("b", None)];
        check_names("SELECT ts::DATE, ts, v::INT AS b FROM t", &planned, "ts_2, ts, b");
        let planned = [("a", None), ("b", None), ("c", None)];
        check_names("SELECT max(v), min(v) AS max, max(w) FROM t", &planned, "max_2, max, max_3");
        check_names("SELECT count(*), count(*), 2 AS count_2", &planned, "count, count_3, count_2");
    }

    #[test]
    fn a_repeated_name_gets_no_number_that_another_has() {
        let query = parse_query("SELECT 1 AS a_2, 2 AS a, 3 AS a, 4 AS a", &[]).unwrap().statement;
        let expected = "SELECT 1 AS a_2, 2 AS a, 3 AS \"a_3\", 4 AS \"a_4\"";
        assert_eq!(query.to_string(), expected);
    }

    #[test]
    fn repeated_names_are_numbered() {
        let query = parse_query("SELECT a, A, a AS b FROM t", &[]).unwrap().statement;
        assert_eq!(query.to_string(), "SELECT a, a AS \"a_2\", a AS b FROM t");
        let query = parse_query("SELECT (a), a, (t.a) FROM t", &[]).unwrap().statement;
        assert_eq!(query.to_string(), "SELECT (a), a AS \"a_2\", (t.a) AS \"a_3\" FROM t");
        let a = ("a", Some("a"));
        check_names("SELECT (A), a FROM t", &[a, ("a_2", Some("a"))], "a, a_2");
        check_names("SELECT * FROM t, u", &[a, a, ("a", Some("A"))], "a, a_2, A_3");
        check_names("SELECT a, A FROM t", &[a, ("a_2", Some("a"))], "a, a_2");
    }

    // DataFusion calls both `Float64(1.1)`, and requires names to differ.
    #[test]
    fn equal_items_are_named_by_their_spelling() {
        let query = parse_query("SELECT 1.10, 1.100, a + 1, (a) + 1.0, 2", &[]).unwrap();
        let expected = "SELECT 1.10, 1.100 AS \"1.100\", a + 1, (a) + 1.0 AS \"(a) + 1.0\", 2";
        assert_eq!(query.statement.to_string(), expected);
    }
}
