//! Scalar functions in FROM: `FROM current_schema()` is a table of one row, as in PostgreSQL.
//!
//! - scalar_tables-1. `FROM f(x) AS t` is `FROM (SELECT f(x) AS t) AS t`: the column has the name
//!   of its table, which is that of the function without an alias. `AS t (c)` names the column.
//! - The arguments are constants: a call that reads columns of other tables stays, and is refused.
//! - Functions that are tables, and unknown ones, stay too.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectNamePart, SelectItem, SetExpr, TableAlias,
    TableFactor, Visit,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::functions::sources::LISTED;
use crate::pg_catalog::tree::call;
use crate::sql::visit::visit_expressions;

/// Makes a query of a scalar function that stands where a table does (scalar_tables-1).
pub(super) fn select_scalar(factor: &mut TableFactor) {
    if let Some(query) = query_of(factor) {
        *factor = query;
    }
}

fn query_of(factor: &TableFactor) -> Option<TableFactor> {
    let (name, args, alias) = match factor {
        TableFactor::Table {
            name,
            args: Some(args),
            alias,
            with_ordinality: false,
            sample: None,
            ..
        } => (name, &args.args, alias),
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
            (name, args, alias)
        }
        _ => return None,
    };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
    if !is_scalar(&name.value) {
        return None;
    }
    let constant = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
            (!reads_columns(expr)).then(|| expr.clone())
        }
        _ => None,
    };
    let args = args.iter().map(constant).collect::<Option<Vec<_>>>()?;
    let alias = alias.clone().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(name.value.clone()),
        columns: Vec::new(),
        at: None,
    });
    let parser = Parser::new(&GenericDialect {}).try_with_sql("SELECT 1");
    let mut subquery = parser.and_then(|mut parser| parser.parse_query()).ok()?;
    let SetExpr::Select(select) = subquery.body.as_mut() else { return None };
    let item =
        SelectItem::ExprWithAlias { expr: call(&name.value, args), alias: alias.name.clone() };
    select.projection = vec![item];
    Some(TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None })
}

/// Returns true for a scalar function that is no table as well.
fn is_scalar(name: &str) -> bool {
    let is = |kind: &str| LISTED.iter().any(|it| it.kind == kind && it.name == name);
    is("SCALAR") && !is("TABLE") && !["range", "unnest"].contains(&name)
}

pub(super) fn reads_columns(tree: &impl Visit) -> bool {
    let found = visit_expressions(tree, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
