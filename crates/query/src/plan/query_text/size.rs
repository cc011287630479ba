//! How large a query is when names of WITH are what they stand for: each of them is planned as
//! often as it is read, so that thirty of them, each of which reads the one before twice, are a
//! thousand million.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{ObjectName, Query, SetExpr, Visit, Visitor};

/// Tables and queries that a statement may read, and UNION and its like join: planning so many
/// takes seconds, and nobody can interrupt it.
pub(super) const PARTS_MAX: usize = 1_000;

/// How many tables and queries a query reads.
pub(super) fn parts(query: &Query) -> usize {
    parts_with(query, HashMap::new())
}

/// The same if these names have so many.
fn parts_with(query: &Query, mut known: HashMap<String, usize>) -> usize {
    for table in query.with.iter().flat_map(|with| &with.cte_tables) {
        let count = parts_with(&table.query, known.clone());
        known.insert(table.alias.name.value.clone(), count);
    }
    let mut parts = Parts { known, count: joined(&query.body) };
    let _ = query.body.visit(&mut parts);
    parts.count
}

/// What is seen of a query.
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

/// How many queries UNION and its like join, at least.
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

    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: usize) {
        let query = Parser::new(&GenericDialect {}).try_with_sql(sql).unwrap().parse_query();
        assert_eq!(parts(&query.unwrap()), expected, "{sql}");
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
