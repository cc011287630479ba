//! JOIN .. USING and NATURAL JOIN, written out before DataFusion plans them.
//!
//! - The condition of such a join becomes an ON, of NATURAL over the names that both sides have.
//!   Without such a name it is true, and the join keeps its kind.
//! - A merged column is that of the left side, of a RIGHT JOIN that of the right side, and of a
//!   FULL JOIN the first of both that is no NULL. Its name without a table means this expression
//!   wherever the columns of the FROM are seen, in subqueries too.
//! - An alias that `*` has a column of, and columns that several `*` give, get other names
//!   (`repeated`).
//! - `*` gives the merged columns first, then the others of the left side, then of the right.
//! - A name that several tables of a subquery have is refused: it is never a column of the rows
//!   around the subquery.
//! - If the names of a table's columns must be known and are not, the query is refused.
//!
//! Joins in time (`timeseries::asof`) keep their conditions. A made name has the place of the name
//! that it stands for.

mod scope;
mod items;
mod repeated;
mod names;

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SetExpr,
    TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, TableWithJoins, Value, Values,
    VisitMut, Visitor, With,
};

use super::error_positions::written_name_at;
use crate::error::{Error, Result};
use crate::position::position_at;
use crate::sql::blocks::{query_of, select_everything};
use crate::sql::clauses::Clauses;
use crate::sql::visit::{visit, visit_mut};
use items::written_names;
use names::Names;
use repeated::may_repeat;
use scope::{Kind, Leaf, Scope, and_equal, merge, natural_names};

/// The names of columns in their order, `None` for one that no query can write; `None` if they are
/// not known.
type Columns = Option<Vec<Option<String>>>;

/// The columns of the tables that a query can name, in lower case.
pub(super) trait KnownColumns {
    fn of_table(&self, name: &ObjectName) -> Option<Vec<String>>;
    fn of_function(&self, name: &ObjectName, args: &TableFunctionArgs) -> Option<Vec<String>>;
}

/// Writes out the joins of a query, and the merged columns in its clauses of ours.
pub(super) fn write_out_joins(
    sql: &str,
    known: &dyn KnownColumns,
    query: &mut Query,
    clauses: &mut Clauses,
) -> Result<()> {
    let mut finder = Finder::default();
    // The visitor breaks off at the first USING.
    let has_using = visit(query, &mut finder).is_break();
    if has_using || finder.has_tables_inside || finder.may_repeat {
        let (scopes, ctes) = (Vec::new(), Vec::new());
        let mut pass = Pass { sql, known, clauses, scopes, ctes, has_using, sides: 0 };
        pass.nested(query).map_err(|error| *error)?;
    }
    Ok(())
}

/// Looks for USING and NATURAL, for a subquery of several tables, and for items beside `*`.
#[derive(Default)]
struct Finder {
    queries: usize,
    has_tables_inside: bool,
    may_repeat: bool,
}

impl Visitor for Finder {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let has_several = match select.from.as_slice() {
            [] => false,
            [one] => {
                !one.joins.is_empty() || matches!(one.relation, TableFactor::NestedJoin { .. })
            }
            _ => true,
        };
        self.has_tables_inside |= self.queries > 1 && has_several;
        self.may_repeat |= may_repeat(&select.projection);
        match select.from.iter().any(has_using) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Returns true if a join tree has a USING or NATURAL JOIN that is no join in time.
fn has_using(tables: &TableWithJoins) -> bool {
    let is_nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => has_using(table_with_joins),
        _ => false,
    };
    let is_it = |join: &Join| {
        let on = constraint(&join.join_operator);
        let is_using = matches!(on, Some(JoinConstraint::Using(_) | JoinConstraint::Natural));
        is_using && !join.global || is_nested(&join.relation)
    };
    is_nested(&tables.relation) || tables.joins.iter().any(is_it)
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on)
        | JoinOperator::LeftSemi(on)
        | JoinOperator::RightSemi(on)
        | JoinOperator::LeftAnti(on)
        | JoinOperator::RightAnti(on) => Some(on),
        _ => None,
    }
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<(Kind, &mut JoinConstraint)> {
    Some(match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on) => (Kind::Left, on),
        JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (Kind::Right, on),
        JoinOperator::FullOuter(on) => (Kind::Full, on),
        JoinOperator::LeftSemi(on) | JoinOperator::LeftAnti(on) => (Kind::LeftOnly, on),
        JoinOperator::RightSemi(on) | JoinOperator::RightAnti(on) => (Kind::RightOnly, on),
        _ => return None,
    })
}

/// An error on its way up: the stack of visitors stays small.
type Passed<T> = std::result::Result<T, Box<Error>>;

struct Pass<'a> {
    sql: &'a str,
    known: &'a dyn KnownColumns,
    clauses: &'a mut Clauses,
    /// The tables of the SELECTs around a place, the innermost last.
    scopes: Vec<Scope>,
    /// The columns of the queries in WITH, the innermost last.
    ctes: Vec<(String, Columns)>,
    /// True if the query has USING or NATURAL.
    has_using: bool,
    /// The number of names given to tables without one.
    sides: usize,
}

impl Pass<'_> {
    /// Writes out a query by way of the visitor, which guards the stack.
    fn nested(&mut self, query: &mut Query) -> Passed<Columns> {
        let mut names = Names::new(self);
        match visit_mut(query, &mut names) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(names.columns()),
        }
    }

    /// Writes out the names in a part of a SELECT.
    fn names_in(&mut self, part: &mut impl VisitMut) -> Passed<()> {
        match visit_mut(part, &mut Names::new(self)) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn query(&mut self, query: &mut Query) -> Passed<Columns> {
        let around = self.ctes.len();
        if let Some(with) = &mut query.with {
            self.with(with)?;
        }
        let mut body = query.body.as_mut();
        let is_select = matches!(body, SetExpr::Select(_));
        // The names of an ORDER BY behind a set operation are those of its columns.
        let order_by = query.order_by.as_mut().filter(|_| is_select);
        while let SetExpr::SetOperation { left, right, .. } = body {
            self.side(right)?;
            body = left.as_mut();
        }
        let columns = match body {
            SetExpr::Select(select) => self.select(select, order_by)?,
            body => self.side(body)?,
        };
        self.names_in(&mut query.limit_clause)?;
        self.ctes.truncate(around);
        Ok(columns)
    }

    /// Writes out the right side of a set operation, or a query without an ORDER BY of its own.
    fn side(&mut self, body: &mut SetExpr) -> Passed<Columns> {
        match body {
            SetExpr::Select(select) => self.select(select, None),
            SetExpr::Query(query) => self.nested(query),
            SetExpr::SetOperation { left, right, .. } => {
                self.side(right)?;
                self.side(left)
            }
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.len());
                self.names_in(values)?;
                Ok(Some((1..=width).map(|at| Some(format!("column{at}"))).collect()))
            }
            _ => Ok(None),
        }
    }

    fn with(&mut self, with: &mut With) -> Passed<()> {
        for cte in &mut with.cte_tables {
            let (name, aliases) = (cte.alias.name.value.clone(), &cte.alias.columns);
            let own = self.ctes.len();
            if with.recursive {
                let columns = renamed(written_names(&cte.query.body), aliases);
                self.ctes.push((name.clone(), columns));
            }
            let columns = self.nested(&mut cte.query)?;
            self.ctes.truncate(own);
            self.ctes.push((name, renamed(columns, aliases)));
        }
        Ok(())
    }

    /// Returns the tables of a FROM, with its joins written out.
    fn from(&mut self, from: &mut [TableWithJoins]) -> Passed<Scope> {
        if from.iter().any(has_using) {
            from.iter_mut().for_each(|tables| self.name_sides(tables));
        }
        let mut all = Scope::default();
        for tables in from {
            let tables = self.joined(tables, &[&all])?;
            all = all.beside(tables);
        }
        Ok(all)
    }

    /// Names the tables that have no name, as their columns must have one.
    fn name_sides(&mut self, tables: &mut TableWithJoins) {
        let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut tables.relation).chain(joined) {
            let alias = match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    self.name_sides(table_with_joins);
                    continue;
                }
                TableFactor::Derived { alias, .. }
                | TableFactor::Table { args: Some(_), alias, .. }
                | TableFactor::UNNEST { alias, .. } => alias,
                _ => continue,
            };
            if alias.is_none() {
                self.sides += 1;
                let name = Ident::with_quote('"', format!("tidegate.side.{}", self.sides));
                let columns = Vec::new();
                *alias = Some(TableAlias { explicit: true, name, columns, at: None });
            }
        }
    }

    /// Returns the tables of a join tree. `before` are those that a LATERAL sees besides.
    fn joined(&mut self, tables: &mut TableWithJoins, before: &[&Scope]) -> Passed<Scope> {
        let mut left = self.factor(&mut tables.relation, before)?;
        for join in &mut tables.joins {
            let seen = before.iter().copied().chain([&left]).collect::<Vec<_>>();
            let right = self.factor(&mut join.relation, &seen)?;
            left = self.join(join, left, right)?;
        }
        Ok(left)
    }

    fn join(&mut self, join: &mut Join, mut left: Scope, mut right: Scope) -> Passed<Scope> {
        if join.global {
            return Ok(left.beside(right));
        }
        let Some((kind, constraint)) = constraint_mut(&mut join.join_operator) else {
            self.names_in(&mut join.join_operator)?;
            return Ok(left.beside(right));
        };
        let keys = match constraint {
            JoinConstraint::On(condition) => {
                let (split, pieces) = (left.leaf_count(), left.piece_count());
                self.scopes.push(left.beside(right));
                let written = self.names_in(condition);
                let both = self.scopes.pop().expect("it was pushed");
                written?;
                return Ok(both.after_join(kind, split, pieces));
            }
            JoinConstraint::None => return Ok(left.beside(right)),
            JoinConstraint::Using(keys) => keys.iter().filter_map(single_name).collect(),
            JoinConstraint::Natural => natural_names(self.sql, &left, &right)?,
        };
        let mut condition = None;
        let mut merged = Vec::new();
        for key in keys {
            let left_key = left.key(self.sql, &key)?;
            let right_key = right.key(self.sql, &key)?;
            condition = Some(and_equal(condition, &left_key, &right_key));
            merged.push((key.value, merge(kind, left_key, right_key)));
        }
        let all_rows = || Expr::Value(Value::Boolean(true).into());
        *constraint = JoinConstraint::On(condition.unwrap_or_else(all_rows));
        Ok(match kind {
            Kind::LeftOnly => left.seen_alone(),
            Kind::RightOnly => right.seen_alone(),
            _ => Scope::merged(merged, left, right),
        })
    }

    fn factor(&mut self, factor: &mut TableFactor, before: &[&Scope]) -> Passed<Scope> {
        let is_lateral = match factor {
            TableFactor::Derived { lateral, .. } => *lateral,
            TableFactor::Table { args, .. } => args.is_some(),
            TableFactor::NestedJoin { .. } => false,
            _ => true,
        };
        if is_lateral {
            self.scopes.push(Scope::of_all(before));
        }
        let scope = self.table(factor, before);
        if is_lateral {
            self.scopes.pop();
        }
        scope
    }

    fn table(&mut self, factor: &mut TableFactor, before: &[&Scope]) -> Passed<Scope> {
        let (alias, path, columns) = match factor {
            TableFactor::Table { name, alias, args, .. } => {
                let columns = match args {
                    Some(args) => {
                        self.names_in(&mut args.args)?;
                        // Some functions open files for their columns.
                        let columns = self.has_using.then(|| self.known.of_function(name, args));
                        columns.flatten().map(some)
                    }
                    None => self.columns_of(name),
                };
                let path = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
                (alias, path, columns)
            }
            TableFactor::Derived { subquery, alias, .. } => {
                (alias, Vec::new(), self.nested(subquery)?)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let scope = self.joined(table_with_joins, before)?;
                let Some(alias) = alias.clone() else { return Ok(scope) };
                if !scope.has_merged() {
                    return Ok(Scope::of(leaf_of(&alias, scope.columns())));
                }
                let (derived, columns) = self.derived(table_with_joins, scope, alias.clone())?;
                *factor = derived;
                return Ok(Scope::of(leaf_of(&alias, columns)));
            }
            TableFactor::UNNEST { alias, array_exprs, .. } => {
                self.names_in(array_exprs)?;
                (alias, Vec::new(), None)
            }
            other => {
                self.names_in(other)?;
                return Ok(Scope::of(Leaf::new(Vec::new(), None)));
            }
        };
        Ok(Scope::of(match alias {
            Some(alias) => leaf_of(alias, columns),
            None => Leaf::new(path, columns),
        }))
    }

    /// Returns joins in brackets with an alias as a query with that alias.
    fn derived(
        &mut self,
        tables: &mut TableWithJoins,
        scope: Scope,
        alias: TableAlias,
    ) -> Passed<(TableFactor, Columns)> {
        let relation = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(nothing()),
            alias: None,
            sample: None,
        };
        let (relation, joins) =
            (std::mem::replace(&mut tables.relation, relation), std::mem::take(&mut tables.joins));
        let mut select = select_everything(vec![TableWithJoins { relation, joins }], None);
        // No clauses of ours have this place.
        select.select_token = AttachedToken::empty();
        self.scopes.push(scope);
        let columns = self.items(&mut select.projection, &HashSet::new());
        self.scopes.pop();
        let subquery = Box::new(query_of(select));
        let alias = Some(alias);
        Ok((TableFactor::Derived { lateral: false, subquery, alias, sample: None }, columns?))
    }

    /// Returns the columns of a table or of a query in WITH.
    fn columns_of(&self, name: &ObjectName) -> Columns {
        let single = single_name(name);
        let is_it =
            |(cte, _): &&(String, Columns)| single.as_ref().is_some_and(|it| it.value == *cte);
        match self.ctes.iter().rev().find(is_it) {
            Some((_, columns)) => columns.clone(),
            None => self.known.of_table(name).map(some),
        }
    }

    fn ambiguous(&self, name: &Ident) -> Box<Error> {
        ambiguous(self.sql, name)
    }
}

fn ambiguous(sql: &str, name: &Ident) -> Box<Error> {
    let position = (name.span.start.line > 0).then(|| position_at(sql, name.span.start));
    Box::new(Error::AmbiguousColumn {
        position,
        column: written_name_at(sql, position, &name.value),
    })
}

fn some(names: Vec<String>) -> Vec<Option<String>> {
    names.into_iter().map(Some).collect()
}

fn single_name(name: &ObjectName) -> Option<Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident().cloned(),
        _ => None,
    }
}

fn leaf_of(alias: &TableAlias, columns: Columns) -> Leaf {
    Leaf::new(vec![alias.name.clone()], renamed(columns, &alias.columns))
}

/// Returns columns under the names of an alias, which may be fewer.
fn renamed(columns: Columns, aliases: &[TableAliasColumnDef]) -> Columns {
    let names = aliases.iter().map(|alias| Some(alias.name.value.clone()));
    match columns {
        Some(columns) => Some(names.chain(columns.into_iter().skip(aliases.len())).collect()),
        None => (!aliases.is_empty()).then(|| names.collect()),
    }
}

/// Returns a query in the place of one that is written out.
fn nothing() -> Query {
    let values = Values { explicit_row: false, value_keyword: false, rows: Vec::new() };
    Query {
        with: None,
        body: Box::new(SetExpr::Values(values)),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::query_text::parse_query;

    use super::*;

    /// The tables l (k, a), r (k, b), m (k, c), and no others.
    struct Three;

    impl KnownColumns for Three {
        fn of_table(&self, name: &ObjectName) -> Option<Vec<String>> {
            let columns = match name.to_string().as_str() {
                "l" => ["k", "a"],
                "r" => ["k", "b"],
                "m" => ["k", "c"],
                _ => return None,
            };
            Some(columns.map(str::to_owned).to_vec())
        }

        fn of_function(&self, _: &ObjectName, _: &TableFunctionArgs) -> Option<Vec<String>> {
            None
        }
    }

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let parsed = parse_query(sql, &[]).unwrap();
        let (mut query, mut clauses) = (parsed.statement, parsed.clauses);
        let shown = match write_out_joins(sql, &Three, &mut query, &mut clauses) {
            Ok(()) => query.to_string(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{sql}");
    }

    #[test]
    fn merged_columns_are_those_of_the_side_that_is_kept() {
        check("SELECT k FROM l JOIN r USING (k)", "SELECT l.k FROM l JOIN r ON l.k = r.k");
        check(
            "SELECT k FROM l RIGHT JOIN r USING (k)",
            "SELECT r.k FROM l RIGHT JOIN r ON l.k = r.k",
        );
        check(
            "SELECT k, -k FROM l AS x FULL JOIN r USING (k) WHERE k > 1 ORDER BY k, k + 1",
            "SELECT \"coalesce\"(x.k, r.k) AS k, -\"coalesce\"(x.k, r.k) FROM l AS x \
             FULL JOIN r ON x.k = r.k WHERE \"coalesce\"(x.k, r.k) > 1 \
             ORDER BY k, \"coalesce\"(x.k, r.k) + 1",
        );
        check(
            "SELECT c FROM l LEFT JOIN r USING (k) JOIN m USING (k)",
            "SELECT c FROM l LEFT JOIN r ON l.k = r.k JOIN m ON l.k = m.k",
        );
    }

    #[test]
    fn wildcards_begin_with_merged_columns() {
        check(
            "SELECT * FROM l FULL JOIN r USING (k), m AS z",
            "SELECT \"coalesce\"(l.k, r.k) AS \"k\", l.* EXCLUDE (\"k\"), r.* EXCLUDE (\"k\"), z.* \
             FROM l FULL JOIN r ON l.k = r.k, m AS z",
        );
        check(
            "SELECT * EXCLUDE (k, a) FROM l NATURAL JOIN r",
            "SELECT l.* EXCLUDE (\"k\", a), r.* EXCLUDE (\"k\") FROM l JOIN r \
             ON l.\"k\" = r.\"k\"",
        );
        check("SELECT * FROM l, r", "SELECT * FROM l, r");
    }

    #[test]
    fn names_that_a_wildcard_has_are_hidden() {
        let check = |sql: &str, expected: &str| {
            let parsed = parse_query(sql, &[]).unwrap();
            let (mut query, mut clauses) = (parsed.statement, parsed.clauses);
            write_out_joins(sql, &Three, &mut query, &mut clauses).unwrap();
            let shown = query.to_string().replace('\u{1}', "!");
            assert_eq!(shown, expected, "repeated-1, repeated-2: {sql}");
        };
        check(
            "SELECT *, k AS a, 1 AS b FROM l ORDER BY a + 1",
            "SELECT *, k AS \"!hidden 1 a\", 1 AS b FROM l ORDER BY a + 1",
        );
        check("SELECT *, k AS a FROM l ORDER BY a", "SELECT *, k AS a FROM l ORDER BY a");
        check("SELECT * EXCLUDE (a), k AS a FROM l", "SELECT * EXCLUDE (a), k AS a FROM l");
        check("SELECT l.*, 1 AS b, 2 AS a FROM l, r", {
            "SELECT l.*, 1 AS b, 2 AS \"!hidden 2 a\" FROM l, r"
        });
        check("SELECT *, * FROM l", {
            "SELECT *, l.\"k\" AS \"!hidden 1 k\", l.\"a\" AS \"!hidden 2 a\" FROM l"
        });
        check("SELECT r.*, *, 1 AS x FROM l JOIN r USING (k)", {
            "SELECT r.*, l.k, l.\"a\", r.\"b\" AS \"!hidden 3 b\", 1 AS x FROM l JOIN r \
             ON l.k = r.k"
        });
        check("SELECT *, 1 AS a FROM (SELECT *, 2 AS k FROM l) q", {
            "SELECT *, 1 AS \"!hidden 1 a\" FROM (SELECT *, 2 AS \"!hidden 1 k\" FROM l) q"
        });
        check("SELECT *, 1 AS a FROM f(1)", "SELECT *, 1 AS a FROM f(1)");
    }

    #[test]
    fn joins_without_a_common_name_keep_their_kind() {
        check(
            "SELECT 1 FROM (SELECT a FROM l) x NATURAL FULL JOIN m",
            "SELECT 1 FROM (SELECT a FROM l) x FULL JOIN m ON true",
        );
    }

    #[test]
    fn subqueries_see_merged_columns_unless_they_have_the_name() {
        check(
            "SELECT (SELECT max(c) FROM (SELECT c FROM m) z WHERE c > k) AS x, \
             (SELECT max(k) FROM m) AS y FROM l RIGHT JOIN r USING (k)",
            "SELECT (SELECT max(c) FROM (SELECT c FROM m) z WHERE c > r.k) AS x, \
             (SELECT max(k) FROM m) AS y FROM l RIGHT JOIN r ON l.k = r.k",
        );
    }

    #[test]
    fn names_that_may_be_several_columns_are_refused() {
        check(
            "SELECT (SELECT max(K) FROM l, r) FROM m",
            "error: line 1, column 20: column `K` could be one of several columns",
        );
        check(
            "SELECT 1 FROM l JOIN r ON l.k = r.k JOIN m USING (k)",
            "error: line 1, column 51: column `k` could be one of several columns",
        );
        check(
            "SELECT 1 FROM l JOIN r USING (a)",
            "error: line 1, column 31: column `a` does not exist",
        );
        check(
            "SELECT 1 FROM l NATURAL JOIN f(1)",
            "error: USING or NATURAL beside a table whose columns are not known (name them with \
             AS) is not supported yet",
        );
        check(
            "SELECT k FROM f(1) JOIN l USING (k)",
            "SELECT \"tidegate.side.1\".k FROM f(1) AS \"tidegate.side.1\" JOIN l \
             ON \"tidegate.side.1\".k = l.k",
        );
    }

    #[test]
    fn joins_in_brackets_with_a_name_become_a_query() {
        check(
            "SELECT j.k FROM (l FULL JOIN r USING (k)) AS j",
            "SELECT j.k FROM (SELECT \"coalesce\"(l.k, r.k) AS \"k\", l.* EXCLUDE (\"k\"), \
             r.* EXCLUDE (\"k\") FROM l FULL JOIN r ON l.k = r.k) AS j",
        );
    }
}
