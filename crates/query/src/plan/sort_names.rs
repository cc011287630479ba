//! Names in the keys of ORDER BY and DISTINCT ON: columns of the SELECT list, or columns of FROM.
//!
//! - sort_names-1. A name that is a whole key means the item with this alias. Inside an expression,
//!   and behind a table, a name means a column of FROM, as in the standard and PostgreSQL. Where
//!   such a column has the name of an alias, the alias gets a name that no statement can write, and
//!   so do the keys that mean the item.
//! - sort_names-2. A subquery in FROM or WITH, and a side of a set operation, shows the names that
//!   it has without this.
//! - A name inside an expression that FROM has not means the item, which PostgreSQL refuses.
//!
//! DataFusion looks for every name in the SELECT list first. Names in GROUP BY, HAVING, QUALIFY and
//! windows mean columns of FROM first, there as here.
//!
//! Not here: SELECT DISTINCT, whose keys are items in PostgreSQL; SAMPLE BY, whose rows have the
//! names of the list alone; and subqueries with `*`, whose text does not name all columns.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, FunctionArguments, Ident, ObjectName, OrderBy, OrderByKind, Query, Select,
    SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, Visitor,
    VisitorMut, WildcardAdditionalOptions,
};

use super::using_joins::KnownColumns;
use crate::names::{INTERNAL_PREFIX, hidden_name};
use crate::sql::blocks::{from_one, select_everything};
use crate::sql::clauses::Clauses;
use crate::sql::visit::{visit, visit_expressions, visit_mut};

/// The names of columns in their order, `None` for one that no query can write; `None` if they are
/// not known.
type Columns = Option<Vec<Option<String>>>;

/// Hides the aliases of a query that would hide columns from its keys (sort_names-1).
pub(super) fn hide_aliases(known: &dyn KnownColumns, clauses: &Clauses, query: &mut Query) {
    if visit(query, &mut Finder).is_continue() {
        return;
    }
    let mut hider = Hider { known, clauses, ctes: Vec::new(), around: Vec::new(), named: 0 };
    let ControlFlow::Continue(()) = visit_mut(query, &mut hider);
    hider.hide(query);
}

/// Looks for an alias that a key reads inside an expression: few queries have one.
struct Finder;

impl Visitor for Finder {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_ref() else {
            return ControlFlow::Continue(());
        };
        let mut inside = Inside::default();
        if let Some(Distinct::On(on)) = &select.distinct {
            on.iter().for_each(|key| inside.add(key));
        }
        if let Some(OrderBy { kind: OrderByKind::Expressions(by), .. }) = &query.order_by {
            by.iter().for_each(|key| inside.add(&key.expr));
        }
        let is_read = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => inside.names.contains(&alias.value),
            _ => false,
        };
        match select.projection.iter().any(is_read) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

struct Hider<'a> {
    known: &'a dyn KnownColumns,
    clauses: &'a Clauses,
    /// The columns of the queries in WITH, the innermost last.
    ctes: Vec<(String, Columns)>,
    /// The number of them before each query around a place.
    around: Vec<usize>,
    /// The number of names given to subqueries without one.
    named: usize,
}

impl VisitorMut for Hider<'_> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        self.around.push(self.ctes.len());
        self.add_ctes(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        if matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) {
            self.hide_in_sides(&mut query.body);
        }
        let first = self.around.pop().expect("it was pushed");
        if let Some(with) = &mut query.with {
            // A query sees those before it, and all if they are recursive.
            for (at, cte) in with.cte_tables.iter_mut().enumerate().rev() {
                if !with.recursive {
                    self.ctes.truncate(first + at);
                }
                if let Some(columns) = self.hide_in_named(&mut cte.query, &cte.alias.columns) {
                    cte.alias.columns = columns;
                }
            }
        }
        self.ctes.truncate(first);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        if let TableFactor::Derived { subquery, alias, .. } = factor {
            let given = alias.as_ref().map(|alias| alias.columns.as_slice()).unwrap_or_default();
            if let Some(columns) = self.hide_in_named(subquery, given) {
                match alias {
                    Some(alias) => alias.columns = columns,
                    None => *alias = Some(self.made_alias(columns)),
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        match expr {
            Expr::Subquery(query)
            | Expr::Exists { subquery: query, .. }
            | Expr::InSubquery { subquery: query, .. } => {
                self.hide(query);
            }
            Expr::Function(call) => {
                if let FunctionArguments::Subquery(query) = &mut call.args {
                    self.hide(query);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Hider<'_> {
    /// Hides aliases of a query whose columns are found by their place. Returns true if it did.
    fn hide(&mut self, query: &mut Query) -> bool {
        let around = self.ctes.len();
        self.add_ctes(query);
        let is_hidden = match query.body.as_mut() {
            SetExpr::Select(select) => self.hide_in_select(select, query.order_by.as_mut()),
            SetExpr::Query(inner) if query.order_by.is_none() => self.hide(inner),
            _ => false,
        };
        self.ctes.truncate(around);
        is_hidden
    }

    /// Hides aliases of a query whose columns are found by their names. Returns the names that its
    /// columns are to have, if it hid some and none are `given` (sort_names-2).
    fn hide_in_named(
        &mut self,
        query: &mut Query,
        given: &[TableAliasColumnDef],
    ) -> Option<Vec<TableAliasColumnDef>> {
        if !given.is_empty() {
            self.hide(query);
            return None;
        }
        let names = item_names(&query.body)?;
        let column = |name| TableAliasColumnDef { name, data_type: None };
        self.hide(query).then(|| names.into_iter().map(column).collect())
    }

    /// Hides aliases in the sides of a set operation that have an ORDER BY of their own.
    fn hide_in_sides(&mut self, body: &mut SetExpr) {
        let mut sides = vec![body];
        while let Some(side) = sides.pop() {
            let written = match side {
                SetExpr::SetOperation { left, right, .. } => {
                    sides.extend([left.as_mut(), right.as_mut()]);
                    continue;
                }
                SetExpr::Query(query) => match self.hide_in_named(query, &[]) {
                    Some(columns) => {
                        let (subquery, alias) = (query.clone(), Some(self.made_alias(columns)));
                        TableFactor::Derived { lateral: false, subquery, alias, sample: None }
                    }
                    None => continue,
                },
                _ => continue,
            };
            let mut select = select_everything(from_one(written), None);
            // No clauses of ours have this place.
            select.select_token = AttachedToken::empty();
            *side = SetExpr::Select(Box::new(select));
        }
    }

    fn made_alias(&mut self, columns: Vec<TableAliasColumnDef>) -> TableAlias {
        self.named += 1;
        let name = Ident::with_quote('"', format!("{INTERNAL_PREFIX}sorted {}", self.named));
        TableAlias { explicit: true, name, columns, at: None }
    }

    fn hide_in_select(&self, select: &mut Select, order_by: Option<&mut OrderBy>) -> bool {
        if select.distinct == Some(Distinct::Distinct)
            || self.clauses.has_sample(select.select_token.0.span.start)
        {
            return false;
        }
        let mut keys: Vec<&mut Expr> = Vec::new();
        if let Some(Distinct::On(on)) = &mut select.distinct {
            keys.extend(on);
        }
        if let Some(OrderBy { kind: OrderByKind::Expressions(by), .. }) = order_by {
            keys.extend(by.iter_mut().map(|key| &mut key.expr));
        }
        let mut inside = Inside::default();
        keys.iter().for_each(|key| inside.add(key));
        let mut is_hidden = false;
        for (at, item) in select.projection.iter_mut().enumerate() {
            let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
            let is_same = column_name(expr).is_some_and(|column| column.value == alias.value);
            if is_same || !inside.names.contains(&alias.value) {
                continue;
            }
            let seems_column =
                || inside.qualified.contains(&alias.value) || reads(expr, &alias.value);
            if !self.has_column(&select.from, &alias.value).unwrap_or_else(seems_column) {
                continue;
            }
            let name = hidden_name(at, &alias.value);
            for key in &mut keys {
                if let Some(key) = lone_name(key)
                    && key.value == alias.value
                {
                    *key = Ident::with_quote_and_span('"', key.span, name.as_str());
                }
            }
            *alias = Ident::with_quote_and_span('"', alias.span, name);
            is_hidden = true;
        }
        is_hidden
    }

    fn add_ctes(&mut self, query: &Query) {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let columns = renamed(self.of_query(&cte.query), Some(&cte.alias));
            self.ctes.push((cte.alias.name.value.clone(), columns));
        }
    }

    /// Returns true if a FROM has a column of this name; `None` if that is not known.
    fn has_column(&self, from: &[TableWithJoins], name: &str) -> Option<bool> {
        let mut are_known = true;
        for factor in from.iter().flat_map(factors) {
            match self.of_factor(factor) {
                Some(columns) if columns.iter().any(|it| it.as_deref() == Some(name)) => {
                    return Some(true);
                }
                Some(_) => {}
                None => are_known = false,
            }
        }
        are_known.then_some(false)
    }

    fn of_factor(&self, factor: &TableFactor) -> Columns {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                renamed(self.of_table(name), alias.as_ref())
            }
            TableFactor::Table { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => renamed(None, alias.as_ref()),
            TableFactor::Derived { subquery, alias, .. } => {
                renamed(self.of_query(subquery), alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                renamed(self.of_factors(table_with_joins), alias.as_ref())
            }
            _ => None,
        }
    }

    fn of_factors(&self, tables: &TableWithJoins) -> Columns {
        let all = factors(tables).map(|factor| self.of_factor(factor)).collect::<Option<Vec<_>>>();
        Some(all?.into_iter().flatten().collect())
    }

    fn of_table(&self, name: &ObjectName) -> Columns {
        let single = match name.0.as_slice() {
            [part] => part.as_ident(),
            _ => None,
        };
        let is_it = |(cte, _): &&(String, Columns)| single.is_some_and(|name| name.value == *cte);
        match self.ctes.iter().rev().find(is_it) {
            Some((_, columns)) => columns.clone(),
            None => Some(self.known.of_table(name)?.into_iter().map(Some).collect()),
        }
    }

    fn of_query(&self, query: &Query) -> Columns {
        if query.with.is_some() { None } else { self.of_body(&query.body) }
    }

    fn of_body(&self, body: &SetExpr) -> Columns {
        let mut body = body;
        while let SetExpr::SetOperation { left, .. } = body {
            body = left.as_ref();
        }
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::Query(query) => self.of_query(query),
            _ => None,
        }
    }

    fn of_select(&self, select: &Select) -> Columns {
        let mut columns = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    columns.push(column_name(expr).map(|name| name.value.clone()));
                }
                SelectItem::ExprWithAlias { alias, .. } => columns.push(Some(alias.value.clone())),
                SelectItem::Wildcard(options)
                    if *options == WildcardAdditionalOptions::default() =>
                {
                    for tables in &select.from {
                        columns.extend(self.of_factors(tables)?);
                    }
                }
                _ => return None,
            }
        }
        Some(columns)
    }
}

/// The names in keys that are no name alone.
#[derive(Default)]
struct Inside {
    names: HashSet<String>,
    /// Those behind a table.
    qualified: HashSet<String>,
}

impl Inside {
    fn add(&mut self, key: &Expr) {
        if is_lone_name(key) {
            return;
        }
        let ControlFlow::Continue(()) = visit_expressions(key, |part| {
            match part {
                Expr::Identifier(name) => {
                    self.names.insert(name.value.clone());
                }
                Expr::CompoundIdentifier(path) => {
                    let name = path.last().map(|name| name.value.clone());
                    self.names.extend(name.clone());
                    self.qualified.extend(name);
                }
                _ => {}
            }
            ControlFlow::<Infallible>::Continue(())
        });
    }
}

fn is_lone_name(key: &Expr) -> bool {
    match key {
        Expr::Identifier(_) => true,
        Expr::Nested(inner) => is_lone_name(inner),
        _ => false,
    }
}

/// Returns the name that is a whole key, also in brackets.
fn lone_name(key: &mut Expr) -> Option<&mut Ident> {
    match key {
        Expr::Identifier(name) => Some(name),
        Expr::Nested(inner) => lone_name(inner),
        _ => None,
    }
}

/// Returns the name of a column without its table.
fn column_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(path) => path.last(),
        Expr::Nested(inner) => column_name(inner),
        _ => None,
    }
}

fn reads(expr: &Expr, name: &str) -> bool {
    let found = visit_expressions(expr, |part| match column_name(part) {
        Some(column) if column.value == name => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn factors(tables: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
}

/// Returns columns under the names of an alias, which may be fewer.
fn renamed(columns: Columns, alias: Option<&TableAlias>) -> Columns {
    let aliases = alias.map(|alias| alias.columns.as_slice()).unwrap_or_default();
    let names = aliases.iter().map(|alias| Some(alias.name.value.clone()));
    match columns {
        Some(columns) => Some(names.chain(columns.into_iter().skip(aliases.len())).collect()),
        None => (!aliases.is_empty()).then(|| names.collect()),
    }
}

/// Returns the names of the columns of a SELECT; `None` if its text does not tell them all.
fn item_names(body: &SetExpr) -> Option<Vec<Ident>> {
    let name_of = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => column_name(expr).cloned(),
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        _ => None,
    };
    match body {
        SetExpr::Select(select) => select.projection.iter().map(name_of).collect(),
        SetExpr::Query(query) => item_names(&query.body),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::TableFunctionArgs;

    use super::*;
    use crate::plan::query_text::parse_query;

    /// The table `t` of columns `a`, `b`.
    struct OneTable;

    impl KnownColumns for OneTable {
        fn of_table(&self, name: &ObjectName) -> Option<Vec<String>> {
            (name.to_string() == "t").then(|| ["a", "b"].map(str::to_owned).to_vec())
        }

        fn of_function(&self, _: &ObjectName, _: &TableFunctionArgs) -> Option<Vec<String>> {
            None
        }
    }

    /// In the expected text, `!` begins a hidden name.
    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let parsed = parse_query(sql, &[]).unwrap();
        let (mut query, clauses) = (parsed.statement, parsed.clauses);
        hide_aliases(&OneTable, &clauses, &mut query);
        let shown = query.to_string().replace(INTERNAL_PREFIX, "!");
        assert_eq!(shown, expected, "sort_names-1, sort_names-2: {sql}");
    }

    #[track_caller]
    fn check_same(sql: &str) {
        check(sql, sql);
    }

    #[test]
    fn an_alias_hides_no_column_from_a_key() {
        check(
            "SELECT 9 - a AS a, b FROM t ORDER BY a + 1, (a), b",
            "SELECT 9 - a AS \"!hidden 0 a\", b FROM t ORDER BY a + 1, (\"!hidden 0 a\"), b",
        );
        check(
            "SELECT max(b) AS a FROM t ORDER BY t.a",
            "SELECT max(b) AS \"!hidden 0 a\" FROM t ORDER BY t.a",
        );
        check(
            "SELECT DISTINCT ON (b) b, 9 - a AS a FROM t ORDER BY b, a % 2, a",
            "SELECT DISTINCT ON (b) b, 9 - a AS \"!hidden 1 a\" FROM t \
             ORDER BY b, a % 2, \"!hidden 1 a\"",
        );
        check(
            "WITH q AS (SELECT * FROM t) SELECT 1 AS a FROM q ORDER BY -a",
            "WITH q AS (SELECT * FROM t) SELECT 1 AS \"!hidden 0 a\" FROM q ORDER BY -a",
        );
        check(
            "SELECT x + 1 AS x FROM f(1) ORDER BY -x",
            "SELECT x + 1 AS \"!hidden 0 x\" FROM f(1) ORDER BY -x",
        );
    }

    #[test]
    fn subqueries_show_their_names() {
        let (inner, hidden) = (
            "SELECT 9 - a AS a, b FROM t ORDER BY -a LIMIT 1",
            "SELECT 9 - a AS \"!hidden 0 a\", b FROM t ORDER BY -a LIMIT 1",
        );
        check(
            &format!("SELECT a FROM ({inner}) AS q"),
            &format!("SELECT a FROM ({hidden}) AS q (a, b)"),
        );
        check(
            &format!("SELECT a FROM ({inner})"),
            &format!("SELECT a FROM ({hidden}) AS \"!sorted 1\" (a, b)"),
        );
        check(
            &format!("SELECT c FROM ({inner}) AS q (c, d)"),
            &format!("SELECT c FROM ({hidden}) AS q (c, d)"),
        );
        check(
            &format!("WITH q AS ({inner}) SELECT a FROM q"),
            &format!("WITH q (a, b) AS ({hidden}) SELECT a FROM q"),
        );
        check(
            &format!("({inner}) UNION ALL SELECT 1, 2 ORDER BY a"),
            &format!(
                "SELECT * FROM ({hidden}) AS \"!sorted 1\" (a, b) UNION ALL SELECT 1, 2 ORDER BY a"
            ),
        );
        check(
            &format!("SELECT 1 FROM t WHERE EXISTS ({inner})"),
            &format!("SELECT 1 FROM t WHERE EXISTS ({hidden})"),
        );
    }

    #[test]
    fn other_aliases_stay_as_they_are() {
        check_same("SELECT 9 - a AS a FROM t ORDER BY a, b + 1");
        check_same("SELECT 9 - a AS c FROM t ORDER BY c + a");
        check_same("SELECT t.a AS a FROM t ORDER BY a + 1");
        check_same("SELECT DISTINCT 9 - a AS a FROM t ORDER BY a + 1");
        check("SELECT a, max(b) AS b FROM t SAMPLE BY 1h ORDER BY b + 1", {
            "SELECT a, max(b) AS b FROM t ORDER BY b + 1"
        });
        check_same("SELECT b AS x FROM f(1) ORDER BY -x");
        check_same("SELECT 1 FROM (SELECT *, 1 AS b FROM t ORDER BY -b) AS q");
    }
}
