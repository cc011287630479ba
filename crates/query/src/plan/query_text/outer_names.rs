//! Qualification of the columns of outer rows: no column of a subquery is taken for their table.
//!
//! - outer_names-1. `o.x` in a subquery whose FROM has no table `o` means the table `o` of the
//!   nearest query around it that has one, and gets a schema. Without one, DataFusion takes it for
//!   the part `x` of a column `o` of the subquery, if there is such a column. A table without a
//!   schema is found under any schema; one with a schema keeps its own.
//!
//! Not here: names without a table, which mean a column of the subquery first, as in PostgreSQL.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SetExpr, TableFactor, TableWithJoins, VisitorMut,
};

use super::bare_names::alias_of;
use crate::names::OUTER_SCHEMA;
use crate::sql::visit::visit_mut;

/// Qualifies the columns of outer rows in the subqueries of a query (outer_names-1).
pub(crate) fn qualify_outer_names(query: &mut Query) {
    let ControlFlow::Continue(()) = visit_mut(query, &mut Qualifier::default());
}

/// A table as columns name it.
struct Table {
    name: String,
    /// The schema with which the query names it, and what stands before that.
    schema: Vec<Ident>,
}

/// The tables of the FROM of a SELECT.
struct Scope {
    tables: Vec<Table>,
    /// False within a subquery of this FROM that is not LATERAL.
    is_seen: bool,
}

impl Scope {
    fn of(select: &Select) -> Scope {
        let mut scope = Scope { tables: Vec::new(), is_seen: true };
        select.from.iter().for_each(|from| scope.add_all(from));
        scope
    }

    fn add_all(&mut self, from: &TableWithJoins) {
        self.add(&from.relation);
        from.joins.iter().for_each(|join| self.add(&join.relation));
    }

    fn add(&mut self, factor: &TableFactor) {
        match factor {
            TableFactor::Table { name, alias: None, .. }
            | TableFactor::Function { name, alias: None, .. } => {
                let mut path = name.0.iter().filter_map(|part| part.as_ident().cloned());
                if let Some(name) = path.next_back() {
                    self.tables.push(Table { name: name.value, schema: path.collect() });
                }
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.add_all(table_with_joins);
            }
            _ => self.tables.extend(alias_of(factor).map(|alias| {
                let name = alias.name.value.clone();
                Table { name, schema: Vec::new() }
            })),
        }
    }

    fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }
}

#[derive(Default)]
struct Qualifier {
    /// The SELECTs around a place, the innermost last. That of a query that is a SELECT is around
    /// its ORDER BY, too.
    scopes: Vec<Scope>,
    /// True for each query around a place that is a SELECT.
    are_selects: Vec<bool>,
}

impl Qualifier {
    /// Returns the table of a name, if it is one of outer rows.
    fn outer_table(&self, name: &str) -> Option<&Table> {
        let (own, around) = self.scopes.split_last()?;
        if !own.is_seen || own.table(name).is_some() {
            return None;
        }
        around.iter().rev().filter(|scope| scope.is_seen).find_map(|scope| scope.table(name))
    }

    /// Marks whether the tables of the innermost FROM are seen in one of its own tables.
    fn see(&mut self, factor: &TableFactor, is_seen: bool) {
        if let TableFactor::Derived { lateral: false, .. } = factor
            && let Some(scope) = self.scopes.last_mut()
        {
            scope.is_seen = is_seen;
        }
    }
}

impl VisitorMut for Qualifier {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        self.are_selects.push(matches!(query.body.as_ref(), SetExpr::Select(_)));
        ControlFlow::Continue(())
    }

    // ORDER BY is visited behind the SELECT.
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        if self.are_selects.pop() == Some(true) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        self.scopes.push(Scope::of(select));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Infallible> {
        // Another SELECT is a side of a set operation, of whose tables ORDER BY sees none.
        if self.are_selects.last() != Some(&true) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        self.see(factor, false);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        self.see(factor, true);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::CompoundIdentifier(path) = expr
            && let [name, _] = path.as_slice()
            && let Some(table) = self.outer_table(&name.value)
        {
            // A made name has the place of the name that it stands before.
            let span = name.span;
            let schema = match table.schema.as_slice() {
                [] => vec![Ident::with_quote_and_span('"', span, OUTER_SCHEMA)],
                schema => schema.iter().map(|part| Ident { span, ..part.clone() }).collect(),
            };
            path.splice(..0, schema);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::names::INTERNAL_PREFIX;

    /// In the expected text, `#` is the schema of outer tables.
    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let mut parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        let Statement::Query(query) = &mut parsed[0] else { panic!("a query") };
        qualify_outer_names(query);
        let text = query.to_string().replace(&format!("\"{OUTER_SCHEMA}\""), "#");
        assert_eq!(text, expected, "outer_names-1");
    }

    #[track_caller]
    fn check_same(sql: &str) {
        check(sql, sql);
    }

    #[test]
    fn columns_of_outer_tables_get_a_schema() {
        assert!(OUTER_SCHEMA.starts_with(INTERNAL_PREFIX));
        check(
            "SELECT o.x FROM t AS o WHERE o.y IN (SELECT u.o FROM u WHERE u.x = o.x AND o > 1)",
            "SELECT o.x FROM t AS o WHERE o.y IN (SELECT u.o FROM u WHERE u.x = #.o.x AND o > 1)",
        );
        check(
            "SELECT 1 FROM s.t WHERE t.x IN (SELECT t.x FROM u JOIN v ON u.a = t.a)",
            "SELECT 1 FROM s.t WHERE t.x IN (SELECT s.t.x FROM u JOIN v ON u.a = s.t.a)",
        );
        check(
            "SELECT 1 FROM t, LATERAL (SELECT t.x FROM u WHERE 1 = (SELECT t.x + u.x)) AS q",
            "SELECT 1 FROM t, LATERAL (SELECT #.t.x FROM u WHERE 1 = (SELECT #.t.x + #.u.x)) AS q",
        );
        check(
            "SELECT 1 FROM (t CROSS JOIN (SELECT 1) AS w) WHERE t.x = (SELECT w.x FROM u)",
            "SELECT 1 FROM (t CROSS JOIN (SELECT 1) AS w) WHERE t.x = (SELECT #.w.x FROM u)",
        );
        check(
            "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u, (SELECT t.x, u.x FROM v) AS q)",
            "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u, (SELECT #.t.x, u.x FROM v) AS q)",
        );
        check(
            "SELECT t.x FROM t ORDER BY (SELECT max(u.x) FROM u WHERE u.t = t.x), t.y",
            "SELECT t.x FROM t ORDER BY (SELECT max(u.x) FROM u WHERE u.t = #.t.x), t.y",
        );
        check(
            "SELECT (SELECT u.x FROM u ORDER BY t.x, u.y LIMIT 1), t.x FROM t",
            "SELECT (SELECT u.x FROM u ORDER BY #.t.x, u.y LIMIT 1), t.x FROM t",
        );
        check(
            "SELECT 1 FROM t WHERE EXISTS (SELECT t.x FROM u UNION SELECT t.y FROM v)",
            "SELECT 1 FROM t WHERE EXISTS (SELECT #.t.x FROM u UNION SELECT #.t.y FROM v)",
        );
    }

    #[test]
    fn other_columns_stay_as_they_are() {
        check_same("SELECT t.x FROM t WHERE EXISTS (SELECT t.x FROM u AS t WHERE x = t.y)");
        check_same("SELECT t.x FROM t, (SELECT t.x FROM u) AS q ORDER BY t.x");
        check_same("WITH q AS (SELECT t.x FROM u) SELECT t.x FROM t, q");
        check_same("SELECT 1 FROM t WHERE EXISTS (SELECT s.t.x, w.x FROM u)");
    }
}
