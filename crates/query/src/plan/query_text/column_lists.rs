//! Rewriting of lists of columns where DataFusion supports only lists of constants.
//!
//! - A series with WITH ORDINALITY is a list, too: lists have numbers (`forms`).
//! - column_lists-1. `FROM t, generate_series(1, t.n) AS g` is `FROM t, unnest(generate_series(1,
//!   t.n)) AS g`: DataFusion makes tables of functions before it knows any row.
//! - column_lists-2. `[a, b]` is `make_array(a, b)`. In the first, DataFusion knows no columns of
//!   rows around a subquery, and no queries of WITH.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, ObjectName, ObjectNamePart, TableAlias,
    TableAliasColumnDef, TableFactor,
};

use crate::sql::call::call_of;
use crate::sql::visit::visit_expressions;

/// Makes a list of a series that reads columns (column_lists-1). `LATERAL unnest(..)` loses its
/// first word, which adds nothing.
pub(super) fn unnest_series_of_columns(table: &mut TableFactor) {
    let (name, args, alias, with_ordinality) = match table {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            (&*name, &args.args, alias, *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            (&*name, &*args, alias, *with_ordinality)
        }
        _ => return,
    };
    let Some(name) = function_name(name) else { return };
    let arg = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let Some(args) = args.iter().map(arg).collect::<Option<Vec<_>>>() else { return };
    let array_exprs = match name {
        "unnest" => args,
        "generate_series" | "range" if with_ordinality || args.iter().any(reads_columns) => {
            vec![call_of(name, args)]
        }
        _ => return,
    };
    let mut alias = alias.take();
    if name != "unnest" {
        let alias = alias.get_or_insert_with(|| {
            let columns = vec![TableAliasColumnDef::from_name("value")];
            TableAlias { explicit: true, name: name.into(), columns, at: None }
        });
        if with_ordinality && alias.columns.is_empty() {
            let name = alias.name.clone();
            alias.columns.push(TableAliasColumnDef { name, data_type: None });
        }
        if with_ordinality && alias.columns.len() == 1 {
            alias.columns.push(TableAliasColumnDef::from_name("ordinality"));
        }
    }
    *table = TableFactor::UNNEST {
        alias,
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    };
}

/// Makes a call of a list of columns (column_lists-2).
pub(super) fn call_list_of_columns(expr: &mut Expr) {
    if let Expr::Array(list) = expr
        && list.elem.iter().any(|element| !matches!(element, Expr::Value(_)))
    {
        *expr = call_of("make_array", std::mem::take(&mut list.elem));
    }
}

fn function_name(name: &ObjectName) -> Option<&str> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(name.value.as_str()),
        _ => None,
    }
}

fn reads_columns(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[track_caller]
    fn check(from: &str, expected: &str) {
        let text = format!("SELECT * FROM {from}");
        let mut parsed = Parser::parse_sql(&PostgreSqlDialect {}, &text).unwrap();
        let Statement::Query(query) = &mut parsed[0] else { panic!("a query") };
        let select = query.body.as_select().unwrap();
        let mut table = select.from[0].relation.clone();
        unnest_series_of_columns(&mut table);
        assert_eq!(table.to_string(), expected, "column_lists-1");
    }

    #[test]
    fn a_series_of_columns_is_a_list() {
        check("generate_series(1, 3) AS g", "generate_series(1, 3) AS g");
        check("generate_series(1, n) AS g", "UNNEST(\"generate_series\"(1, n)) AS g");
        check("LATERAL unnest(l) AS u", "UNNEST(l) AS u");
        check(
            "generate_series(1, 3) WITH ORDINALITY AS g",
            "UNNEST(\"generate_series\"(1, 3)) WITH ORDINALITY AS g (g, ordinality)",
        );
        check("range(t.n)", "UNNEST(\"range\"(t.n)) AS range (value)");
    }
}
