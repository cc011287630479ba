//! Qualification of `t.*` where FROM names the table with its schema.
//!
//! - bare_names-1. `t.*` is `public.t.*` if FROM has `public.t` without an alias, once, and nothing
//!   that is called `t` alone. DataFusion finds `t.column` there itself, but not `t.*`.
//!
//! The last part of the name stays as written, as do the names of the columns.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart, Select,
    SelectItem, SelectItemQualifiedWildcardKind, TableAlias, TableFactor, TableWithJoins,
};

use crate::sql::own_exprs::change_own_exprs;

/// Qualifies the wildcards of a SELECT, those of `count(t.*)` too (bare_names-1).
pub(super) fn qualify_wildcards(select: &mut Select) {
    let mut names = Names::default();
    select.from.iter().for_each(|from| names.add_all(from));
    if names.qualified.is_empty() {
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), _) =
            item
        {
            names.qualify(of);
        }
    }
    // A subquery has a FROM of its own.
    change_own_exprs(select, |expr| {
        if let Expr::Function(call) = expr
            && let FunctionArguments::List(list) = &mut call.args
        {
            for arg in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(of)) = arg {
                    names.qualify(of);
                }
            }
        }
    });
}

/// The names of the tables in a FROM.
#[derive(Default)]
struct Names {
    /// Aliases, and names without a schema.
    bare: Vec<String>,
    /// Names with a schema, without an alias.
    qualified: Vec<ObjectName>,
}

impl Names {
    fn add_all(&mut self, from: &TableWithJoins) {
        self.add(&from.relation);
        from.joins.iter().for_each(|join| self.add(&join.relation));
    }

    fn add(&mut self, factor: &TableFactor) {
        match factor {
            TableFactor::Table { name, alias: None, args: None, .. } => match name.0.as_slice() {
                [name] => self.bare.extend(part(name).map(str::to_owned)),
                _ => self.qualified.push(name.clone()),
            },
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.add_all(table_with_joins);
            }
            _ => self.bare.extend(alias_of(factor).map(|alias| alias.name.value.clone())),
        }
    }

    fn qualify(&self, of: &mut ObjectName) {
        let [written] = of.0.as_slice() else { return };
        let Some(name) = part(written) else { return };
        let is_it = |table: &&ObjectName| table.0.last().and_then(part) == Some(name);
        let mut found = self.qualified.iter().filter(is_it);
        let (Some(table), None) = (found.next(), found.next()) else { return };
        if self.bare.iter().any(|bare| bare == name) {
            return;
        }
        let schema = table.0[..table.0.len() - 1].iter().cloned();
        *of = ObjectName(schema.chain([written.clone()]).collect());
    }
}

fn part(name: &ObjectNamePart) -> Option<&str> {
    name.as_ident().map(|ident| ident.value.as_str())
}

/// Returns the alias of a table, or of what stands in its place.
pub(super) fn alias_of(factor: &TableFactor) -> Option<&TableAlias> {
    match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let mut parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        let Statement::Query(query) = &mut parsed[0] else { panic!("a query") };
        let SetExpr::Select(select) = query.body.as_mut() else { panic!("a SELECT") };
        qualify_wildcards(select);
        assert_eq!(select.to_string(), expected, "bare_names-1");
    }

    #[track_caller]
    fn check_same(sql: &str) {
        check(sql, sql);
    }

    #[test]
    fn a_wildcard_gets_the_schema_of_its_table() {
        check("SELECT t.* FROM public.t", "SELECT public.t.* FROM public.t");
        check("SELECT \"t\".* FROM public.t", "SELECT public.\"t\".* FROM public.t");
        check(
            "SELECT u.*, t.a, t.* FROM u JOIN s.t ON u.a = t.a",
            "SELECT u.*, t.a, s.t.* FROM u JOIN s.t ON u.a = t.a",
        );
        check(
            "SELECT count(t.*) FROM (s.t JOIN u ON t.a = u.a)",
            "SELECT count(s.t.*) FROM (s.t JOIN u ON t.a = u.a)",
        );
    }

    #[test]
    fn other_wildcards_stay_as_they_are() {
        check_same("SELECT t.* FROM t");
        check_same("SELECT *, public.t.* FROM public.t");
        check_same("SELECT t.* FROM public.t AS t");
        check_same("SELECT t.* FROM public.t AS u");
        check_same("SELECT t.* FROM public.t, s.t");
        check_same("SELECT t.* FROM public.t, t");
        check_same("SELECT t.* FROM public.t, s.u AS t");
        check_same("SELECT (SELECT count(t.*) FROM t) FROM public.t");
    }
}
