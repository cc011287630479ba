//! The number of columns of each step of a query, bounded before the query is planned.
//!
//! - column_counts-1. The tables of a FROM have at most `QUERY_COLUMNS` columns together, and so
//!   has the list of a SELECT with its `*` written out: a query that reads another one twice may
//!   double them, and so may each query that reads it.
//! - The counts are upper bounds: columns that USING merges count twice, and those that EXCEPT
//!   leaves out count too. Functions count as one column.
//!
//! Not here: the number of expressions that a SELECT lists (`query_text::size`).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::{iter, ptr};

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableFactor, TableWithJoins, Visitor,
};
use tidegate_model::limits::QUERY_COLUMNS;

use super::using_joins::KnownColumns;
use crate::error::{Error, Result, SyntaxError};
use crate::sql::visit::visit;

/// Checks the columns of all steps of a query (column_counts-1).
pub(super) fn check_columns(sql: &str, known: &dyn KnownColumns, query: &Query) -> Result<()> {
    let mut counts = Counts {
        known,
        queries: HashMap::new(),
        selects: HashMap::new(),
        named: HashMap::new(),
        ctes: Vec::new(),
        starts: Vec::new(),
    };
    match visit(query, &mut counts) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            let what = SyntaxError::TooManyColumns { most: QUERY_COLUMNS };
            Err(Error::syntax(sql, 0, what))
        }
    }
}

/// The counts of the parts of a tree, which are known by their addresses.
struct Counts<'a> {
    known: &'a dyn KnownColumns,
    queries: HashMap<*const Query, usize>,
    selects: HashMap<*const Select, usize>,
    /// The names of queries in WITH that are still to be counted.
    named: HashMap<*const Query, String>,
    /// The counted queries in WITH, the innermost last.
    ctes: Vec<(String, usize)>,
    /// The number of `ctes` around each query that is being counted.
    starts: Vec<usize>,
}

/// A table or query in a FROM.
struct Relation<'t> {
    name: Option<&'t str>,
    columns: usize,
}

impl Visitor for Counts<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.starts.push(self.ctes.len());
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let (inner, name): (&Query, _) = (&cte.query, cte.alias.name.value.clone());
            self.named.insert(ptr::from_ref(inner), name);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let columns = self.of_body(&query.body);
        self.ctes.truncate(self.starts.pop().unwrap_or(0));
        let place = ptr::from_ref(query);
        self.queries.insert(place, columns);
        self.ctes.extend(self.named.remove(&place).map(|name| (name, columns)));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let mut relations = Vec::new();
        select.from.iter().for_each(|tables| self.add(tables, &mut relations));
        let all = relations.iter().map(|relation| relation.columns).sum::<usize>();
        let of_item = |item: &SelectItem| match item {
            SelectItem::Wildcard(_) => all,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), _) => {
                let is_it = |relation: &&Relation<'_>| match (relation.name, last_part(of)) {
                    (Some(name), Some(of)) => name.eq_ignore_ascii_case(&of.value),
                    _ => false,
                };
                relations.iter().find(is_it).map_or(all, |relation| relation.columns)
            }
            _ => 1,
        };
        let listed = select.projection.iter().map(of_item).sum::<usize>();
        self.selects.insert(ptr::from_ref(select), listed);
        match all.max(listed) <= QUERY_COLUMNS {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

impl Counts<'_> {
    fn of_body(&self, mut body: &SetExpr) -> usize {
        while let SetExpr::SetOperation { left, .. } = body {
            body = left.as_ref();
        }
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::Values(values) => values.rows.first().map_or(0, |row| row.len()),
            _ => 0,
        }
    }

    fn of_select(&self, select: &Select) -> usize {
        self.selects.get(&ptr::from_ref(select)).copied().unwrap_or(0)
    }

    fn of_query(&self, query: &Query) -> usize {
        self.queries.get(&ptr::from_ref(query)).copied().unwrap_or(0)
    }

    fn of_table(&self, name: &ObjectName) -> usize {
        if let ([_], Some(part)) = (name.0.as_slice(), last_part(name)) {
            let mut ctes = self.ctes.iter().rev();
            let found = ctes.find(|(known, _)| known.eq_ignore_ascii_case(&part.value));
            if let Some((_, columns)) = found {
                return *columns;
            }
        }
        self.known.of_table(name).map_or(0, |columns| columns.len())
    }

    /// Adds the relations of an item of FROM.
    fn add<'t>(&self, tables: &'t TableWithJoins, relations: &mut Vec<Relation<'t>>) {
        let joined = tables.joins.iter().map(|join| &join.relation);
        for factor in iter::once(&tables.relation).chain(joined) {
            let (alias, own, columns) = match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    self.add(table_with_joins, relations);
                    continue;
                }
                TableFactor::NestedJoin { table_with_joins, alias } => {
                    let mut inner = Vec::new();
                    self.add(table_with_joins, &mut inner);
                    let columns = inner.iter().map(|relation| relation.columns).sum::<usize>();
                    (alias.as_ref(), None, columns)
                }
                TableFactor::Table { name, alias, args: None, .. } => {
                    (alias.as_ref(), last_part(name), self.of_table(name))
                }
                TableFactor::Derived { subquery, alias, .. } => {
                    (alias.as_ref(), None, self.of_query(subquery))
                }
                _ => (None, None, 1),
            };
            let name = alias.map(|alias| &alias.name).or(own);
            let name = name.map(|name| name.value.as_str());
            relations.push(Relation { name, columns });
        }
    }
}

fn last_part(name: &ObjectName) -> Option<&Ident> {
    name.0.last().and_then(|part| part.as_ident())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::TableFunctionArgs;

    use super::super::query_text::parse_query;
    use super::*;

    /// A table `wide` with a quarter of the columns.
    struct Wide;

    impl KnownColumns for Wide {
        fn of_table(&self, name: &ObjectName) -> Option<Vec<String>> {
            let is_wide = name.to_string() == "wide";
            is_wide.then(|| vec![String::new(); QUERY_COLUMNS / 4])
        }

        fn of_function(&self, _: &ObjectName, _: &TableFunctionArgs) -> Option<Vec<String>> {
            None
        }
    }

    #[track_caller]
    fn check(sql: &str, fits: bool) {
        let query = parse_query(sql, &[]).unwrap();
        let checked = check_columns(sql, &Wide, &query.statement);
        assert_eq!(checked.is_ok(), fits, "column_counts-1: {sql}: {checked:?}");
    }

    // Each level of WITH doubled the columns, and planning ended only by the timeout.
    #[test]
    fn columns_of_each_step_are_bounded() {
        check("SELECT * FROM wide a, wide b, wide c, wide d", true);
        check("SELECT 1 FROM wide a, wide b, wide c, wide d, (SELECT 1) e", false);
        check("SELECT *, *, *, * FROM wide", true);
        check("SELECT *, *, *, *, 1 FROM wide", false);
        check("SELECT a.*, a.*, a.*, b.* FROM wide a JOIN wide b USING (x)", true);
        check("SELECT a.*, a.*, a.*, b.*, b.x FROM wide a JOIN wide b USING (x)", false);
        let two = "SELECT x.*, y.* FROM wide x, wide y";
        check(&format!("SELECT 1 FROM ({two}) a, ({two}) b"), true);
        check(&format!("SELECT 1 FROM ({two}) a, ({two}) b, (VALUES (1)) c"), false);
        check(&format!("SELECT 1 FROM wide a WHERE a.x IN (SELECT 1 FROM ({two}) b)"), true);
        let doubled =
            |name: &str, of: &str| format!("{name} AS (SELECT x.*, y.* FROM {of} x, {of} y)");
        let with = format!("WITH a AS ({two}), {}", doubled("b", "a"));
        check(&format!("{with} SELECT * FROM b"), true);
        check(&format!("{with}, {} SELECT 1", doubled("c", "b")), false);
        check(&format!("SELECT 1 FROM ({two} UNION ALL {two}) a, ({with} SELECT 1) b"), true);
        check("WITH wide AS (SELECT 1) SELECT * FROM wide a, wide b, wide c, wide d, wide e", true);
    }
}
