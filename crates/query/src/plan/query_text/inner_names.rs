//! Names of columns inside a statement, where an item has no AS: those of PostgreSQL.
//!
//! - inner_names-1. An unnamed item of a subquery in FROM or WITH, of a set operation that of its
//!   first SELECT, has its own name as an alias (`item_names`): `count`, `date_trunc`, `?column?`.
//! - inner_names-2. A name that several items of such a subquery have finds none of them: the first
//!   one gets a name that no statement can write, and is shown under its own. The others have the
//!   names `x_2`, `x_3`, ... of the answer. The first one keeps its name where a clause of the
//!   subquery reads it, unless the clause finds a column of FROM.
//! - inner_names-3. A name alone in ORDER BY or DISTINCT ON that is the name of an unnamed item, as
//!   inner_names-1 has it, means this item, as its number does. In GROUP BY it means the item if no
//!   column of FROM has the name.
//! - inner_names-4. An item has no alias where the statement has a name in double quotes that
//!   begins with the item's function and a bracket, such as `"count(*)"`, which is DataFusion's;
//!   nor where an alias would hide a column from the clauses of its own SELECT.
//!
//! A cast of `x` is no item that the `x` of ORDER BY means: rows are sorted by the column.
//!
//! Not here: the names of the answer (`names`), and subqueries whose columns have no use for a
//! name, such as those of EXISTS and IN.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, OrderByKind, Query,
    Select, SelectItem, SetExpr, TableFactor, Value, Visit, Visitor, VisitorMut,
};

use super::item_names::inner_name;
use super::names::{give_alias, next_name};
use crate::error::Error;
use crate::names::hidden_name;
use crate::position::position_at;
use crate::sql::visit::{visit, visit_expressions, visit_mut};

/// Names the columns inside of a statement.
pub(super) fn name_inner_columns(sql: &str, query: &mut Query) -> Result<(), Box<Error>> {
    let mentions = Mentions::of(query);
    let is_call = |name: &&String| name.contains('(');
    let calls = mentions.0.keys().filter(is_call).cloned().collect();
    match visit_mut(query, &mut Namer { sql, mentions, calls }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The number of places that mention a column, by its name without a table.
#[derive(Default)]
struct Mentions(HashMap<String, usize>);

impl Mentions {
    fn of(part: &impl Visit) -> Mentions {
        let mut mentions = Mentions::default();
        let ControlFlow::Continue(()) = visit(part, &mut mentions);
        mentions
    }

    fn count(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or_default()
    }

    fn add(&mut self, name: &Ident) {
        *self.0.entry(name.value.clone()).or_default() += 1;
    }
}

impl Visitor for Mentions {
    type Break = Infallible;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Infallible> {
        if let Some(name) = column_of(expr) {
            self.add(name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Infallible> {
        for join in select.from.iter().flat_map(|from| &from.joins) {
            let Some(JoinConstraint::Using(keys)) = constraint(join) else { continue };
            let names = keys.iter().filter_map(|key| key.0.last()?.as_ident());
            names.for_each(|name| self.add(name));
        }
        ControlFlow::Continue(())
    }
}

fn constraint(join: &Join) -> Option<&JoinConstraint> {
    match &join.join_operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on)
        | JoinOperator::LeftSemi(on)
        | JoinOperator::LeftAnti(on) => Some(on),
        _ => None,
    }
}

/// Returns the name of a column without its table.
fn column_of(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(path) => path.last(),
        _ => None,
    }
}

/// Returns the name of an item that is only a column, also in brackets.
fn plain_column(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Nested(inner) => plain_column(inner),
        expr => column_of(expr),
    }
}

fn reads(expr: &Expr, name: &str) -> bool {
    let found = visit_expressions(expr, |part| match column_of(part) {
        Some(column) if column.value == name => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

struct Namer<'a> {
    sql: &'a str,
    /// The columns that the statement mentions.
    mentions: Mentions,
    /// Those that have the form of a call.
    calls: Vec<String>,
}

impl VisitorMut for Namer<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<Error>> {
        match self.find_sort_keys(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    // The keys of a subquery are found before its items have aliases.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<Error>> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if cte.alias.columns.is_empty() {
                self.name_items(&mut cte.query);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<Error>> {
        if let TableFactor::Derived { subquery, alias, .. } = factor
            && alias.as_ref().is_none_or(|alias| alias.columns.is_empty())
        {
            self.name_items(subquery);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<Error>> {
        name_grouped_items(select);
        ControlFlow::Continue(())
    }
}

impl Namer<'_> {
    /// Names the items of a subquery (inner_names-1, inner_names-2, inner_names-4).
    fn name_items(&self, query: &mut Query) {
        let clauses = Clauses::of(query);
        let is_select = matches!(query.body.as_ref(), SetExpr::Select(_));
        let Some(select) = first_select(&mut query.body) else { return };
        let names = select.projection.iter().map(|item| self.name_of(item, &clauses));
        let names = names.collect::<Vec<_>>();
        let has_wildcard = select.projection.iter().any(is_wildcard);
        // The names that the statement mentions in this SELECT alone.
        let inside = if has_wildcard { Mentions::of(select) } else { Mentions::default() };
        let mut counts: HashMap<&str, usize> = HashMap::new();
        names.iter().flatten().for_each(|name| *counts.entry(name).or_default() += 1);
        // The clauses of a SELECT find a column of its FROM without the item.
        let is_named = |item: &SelectItem| !is_select || !is_column(item);
        let kept = select.projection.iter().zip(&names).filter(|(item, _)| is_named(item));
        let kept = kept.filter_map(|(_, name)| name.clone());
        let kept = kept.filter(|name| clauses.mention(name)).collect::<HashSet<_>>();
        let mut taken = names.iter().flatten().cloned().collect::<HashSet<_>>();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (at, (item, name)) in select.projection.iter_mut().zip(&names).enumerate() {
            let Some(name) = name else { continue };
            let count = seen.entry(name).or_insert(0);
            let alias = if counts[name.as_str()] > 1 {
                match (*count, has_wildcard) {
                    (0, _) if kept.contains(name) => name.clone(),
                    (0, _) | (_, true) => hidden_name(at, name),
                    (_, false) => next_name(name, count, &mut taken),
                }
            } else if has_name(item) {
                continue;
            } else if has_wildcard && self.mentions.count(name) <= inside.count(name) {
                // A column of the wildcard may have the name.
                hidden_name(at, name)
            } else {
                name.clone()
            };
            *count = (*count).max(1);
            give_alias(item, alias);
        }
    }

    /// Returns the name of an item; `None` for a wildcard, and for an item that gets none
    /// (inner_names-4).
    fn name_of(&self, item: &SelectItem, clauses: &Clauses) -> Option<String> {
        let expr = match item {
            SelectItem::UnnamedExpr(expr) => expr,
            SelectItem::ExprWithAlias { alias, .. } => return Some(alias.value.clone()),
            _ => return None,
        };
        if let Some(column) = plain_column(expr) {
            return Some(column.value.clone());
        }
        let name = inner_name(expr);
        let is_call = |call: &String| {
            call.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('('))
        };
        let hides =
            clauses.inside.contains(&name) || clauses.alone.contains(&name) && reads(expr, &name);
        (!hides && !self.calls.iter().any(is_call)).then_some(name)
    }

    /// Finds the items that ORDER BY and DISTINCT ON mean (inner_names-3).
    fn find_sort_keys(&self, query: &mut Query) -> Result<(), Box<Error>> {
        let is_select = matches!(query.body.as_ref(), SetExpr::Select(_));
        let Some(select) = first_select(&mut query.body) else { return Ok(()) };
        let is_on = is_select && matches!(select.distinct, Some(Distinct::On(_)));
        if is_on && let Some(Distinct::On(mut keys)) = select.distinct.take() {
            let found = keys.iter_mut().try_for_each(|key| self.find_item(select, key));
            select.distinct = Some(Distinct::On(keys));
            found?;
        }
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            keys.iter_mut().try_for_each(|key| self.find_item(select, &mut key.expr))?;
        }
        Ok(())
    }

    fn find_item(&self, select: &mut Select, key: &mut Expr) -> Result<(), Box<Error>> {
        let Expr::Identifier(name) = &*key else { return Ok(()) };
        let Some(found) = items_called(&select.projection, name) else { return Ok(()) };
        let [at, others @ ..] = found.as_slice() else { return Ok(()) };
        let text = |at: usize| select.projection[at].to_string();
        if others.iter().any(|other| text(*other) != text(*at)) {
            let start = name.span.start;
            let position = (start.line > 0).then(|| position_at(self.sql, start));
            let column = name.value.clone();
            return Err(Box::new(Error::AmbiguousColumn { position, column }));
        }
        if select.projection[..*at].iter().any(is_wildcard) {
            let alias = name.value.clone();
            give_alias(&mut select.projection[*at], alias);
        } else {
            *key = Expr::Value(Value::Number((at + 1).to_string(), false).into());
        }
        Ok(())
    }
}

/// The columns that the clauses of a subquery mention.
#[derive(Default)]
struct Clauses {
    /// The keys of ORDER BY and DISTINCT ON that are a name alone.
    alone: HashSet<String>,
    /// Names in other keys, in HAVING and in QUALIFY.
    inside: HashSet<String>,
    /// Names in GROUP BY.
    grouped: HashSet<String>,
}

impl Clauses {
    fn of(query: &Query) -> Clauses {
        let mut clauses = Clauses::default();
        if let Some(order) = &query.order_by
            && let OrderByKind::Expressions(keys) = &order.kind
        {
            keys.iter().for_each(|key| clauses.add_key(&key.expr));
        }
        if let SetExpr::Select(select) = query.body.as_ref() {
            if let Some(Distinct::On(keys)) = &select.distinct {
                keys.iter().for_each(|key| clauses.add_key(key));
            }
            let conditions = [&select.having, &select.qualify];
            conditions.into_iter().flatten().for_each(|condition| clauses.add(condition));
            clauses.grouped.extend(Mentions::of(&select.group_by).0.into_keys());
        }
        clauses
    }

    fn mention(&self, name: &str) -> bool {
        [&self.alone, &self.inside, &self.grouped].iter().any(|names| names.contains(name))
    }

    fn add_key(&mut self, key: &Expr) {
        match key {
            Expr::Identifier(name) => {
                self.alone.insert(name.value.clone());
            }
            key => self.add(key),
        }
    }

    fn add(&mut self, expr: &Expr) {
        self.inside.extend(Mentions::of(expr).0.into_keys());
    }
}

/// Returns the first SELECT of a query, which names the columns.
fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&mut query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

fn is_wildcard(item: &SelectItem) -> bool {
    !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}

fn is_column(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(expr) if plain_column(expr).is_some())
}

fn has_name(item: &SelectItem) -> bool {
    is_column(item) || !matches!(item, SelectItem::UnnamedExpr(_))
}

/// Returns the places of the unnamed items that have this name; `None` if it is the name of a
/// column in the list, or one given with AS. Casts of a column of the name do not count.
fn items_called(items: &[SelectItem], name: &Ident) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match item {
            SelectItem::ExprWithAlias { alias, .. } if alias.value == name.value => return None,
            SelectItem::UnnamedExpr(expr) => match plain_column(expr) {
                Some(column) if column.value == name.value => return None,
                Some(_) => {}
                None => {
                    if inner_name(expr) == name.value && !reads(expr, &name.value) {
                        found.push(at);
                    }
                }
            },
            _ => {}
        }
    }
    Some(found)
}

/// Gives aliases to the unnamed items that GROUP BY names (inner_names-3). DataFusion looks for a
/// column of FROM first.
fn name_grouped_items(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return };
    let mut names = Vec::new();
    keys.iter().for_each(|key| add_names(key, &mut names));
    for name in names {
        let found = items_called(&select.projection, &name).unwrap_or_default();
        let [at, others @ ..] = found.as_slice() else { continue };
        let text = |at: usize| select.projection[at].to_string();
        if others.iter().all(|other| text(*other) == text(*at)) {
            give_alias(&mut select.projection[*at], name.value);
        }
    }
}

/// Adds the names that are grouping keys, also in brackets and grouping sets.
fn add_names(key: &Expr, names: &mut Vec<Ident>) {
    match key {
        Expr::Identifier(name) => names.push(name.clone()),
        Expr::Nested(inner) => add_names(inner, names),
        Expr::Tuple(keys) => keys.iter().for_each(|key| add_names(key, names)),
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
            sets.iter().flatten().for_each(|key| add_names(key, names));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::query_text::parse_query;

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let shown = match parse_query(sql, &[]) {
            Ok(query) => query.statement.to_string().replace('\u{1}', "!"),
            Err(error) => format!("error: {error}"),
        };
        let promises = "inner_names-1, inner_names-2, inner_names-3, inner_names-4";
        assert_eq!(shown, expected, "{promises}: {sql}");
    }

    #[test]
    fn items_of_subqueries_have_names() {
        check(
            "SELECT count FROM (SELECT count(*), x + 1, lower(a)::TEXT FROM t) q",
            "SELECT count FROM (SELECT count(*) AS \"count\", x + 1 AS \"?column?\", \
             lower(a)::TEXT AS \"lower\" FROM t) q",
        );
        check(
            "WITH q AS (SELECT max(x) FROM t UNION SELECT min(x) FROM t), r (a) AS (SELECT 1 + x \
             FROM t) SELECT max FROM q",
            "WITH q AS (SELECT max(x) AS \"max\" FROM t UNION SELECT min(x) FROM t), r (a) AS \
             (SELECT 1 + x FROM t) SELECT max FROM q",
        );
        check(
            "SELECT 1 FROM t WHERE EXISTS (SELECT max(x))",
            "SELECT 1 FROM t WHERE EXISTS (SELECT max(x))",
        );
    }

    #[test]
    fn a_repeated_name_finds_no_item() {
        check(
            "SELECT 1 FROM (SELECT max(a), max(b), x AS max_2, max(c) FROM t) q",
            "SELECT 1 FROM (SELECT max(a) AS \"!hidden 0 max\", max(b) AS \"max_3\", \
             x AS max_2, max(c) AS \"max_4\" FROM t) q",
        );
        check(
            "SELECT 1 FROM (SELECT *, rank() OVER () FROM t) q",
            "SELECT 1 FROM (SELECT *, rank() OVER () AS \"!hidden 1 rank\" FROM t) q",
        );
        check(
            "SELECT 1 FROM (SELECT *, rank() OVER () FROM t) q WHERE rank = 1",
            "SELECT 1 FROM (SELECT *, rank() OVER () AS \"rank\" FROM t) q WHERE rank = 1",
        );
    }

    #[test]
    fn keys_are_the_items_with_their_name() {
        check(
            "SELECT x, count(*) FROM t GROUP BY x ORDER BY count DESC, x",
            "SELECT x, count(*) FROM t GROUP BY x ORDER BY 2 DESC, x",
        );
        check(
            "SELECT *, rank() OVER () FROM t ORDER BY rank",
            "SELECT *, rank() OVER () AS \"rank\" FROM t ORDER BY rank",
        );
        check(
            "SELECT date_trunc('day', ts) FROM t GROUP BY date_trunc",
            "SELECT date_trunc('day', ts) AS \"date_trunc\" FROM t GROUP BY date_trunc",
        );
        check("SELECT lower(x) || y FROM t ORDER BY x", "SELECT lower(x) || y FROM t ORDER BY x");
        check(
            "SELECT x, -x FROM t UNION ALL SELECT 1, 2 ORDER BY \"?column?\"",
            "SELECT x, -x FROM t UNION ALL SELECT 1, 2 ORDER BY 2",
        );
        check(
            "SELECT x + 1, -x FROM t ORDER BY \"?column?\"",
            "error: line 1, column 34: column `?column?` could be one of several columns",
        );
        check(
            "SELECT count(a), count(b) FROM t ORDER BY Count",
            "error: line 1, column 43: column `count` could be one of several columns",
        );
    }

    #[test]
    fn an_alias_hides_no_column_and_no_name_of_datafusion() {
        check(
            "SELECT 1 FROM (SELECT a AS k, b AS k, c, c FROM t ORDER BY k, c LIMIT 1) q",
            "SELECT 1 FROM (SELECT a AS \"k\", b AS \"k_2\", c AS \"!hidden 2 c\", c AS \"c_2\" \
             FROM t ORDER BY k, c LIMIT 1) q",
        );
        check(
            "SELECT \"count(*)\" FROM (SELECT count(*), max(x) FROM t) q",
            "SELECT \"count(*)\" FROM (SELECT count(*), max(x) AS \"max\" FROM t) q",
        );
        check(
            "SELECT 1 FROM (SELECT x::DATE, lower(a) FROM t ORDER BY x, lower + 1 LIMIT 1) q",
            "SELECT 1 FROM (SELECT x::DATE AS \"x::DATE\", lower(a) FROM t ORDER BY x, lower + 1 \
             LIMIT 1) q",
        );
    }
}
