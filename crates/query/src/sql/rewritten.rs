//! Aggregates that are rewritten as others: `count_distinct(x)` is `count(DISTINCT x)`.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::dialect::QueryDialect;

/// The names of aggregates that are rewritten as others.
#[cfg(test)]
pub(crate) const REWRITTEN_AGGREGATES: [&str; 11] = [
    "approx_count_distinct",
    "approx_percentile",
    "arg_max",
    "arg_min",
    "count_distinct",
    "every",
    "max_by",
    "min_by",
    "string_distinct_agg",
    "variance",
    "vwap",
];

/// Rewrites a call, if it is one of these.
pub(crate) fn rewrite_aggregate(expr: &mut Expr) {
    let Expr::Function(function) = &*expr else { return };
    let Some(text) = other_words(function) else { return };
    let dialect = QueryDialect::default();
    let parsed = Parser::new(&dialect).try_with_sql(&text).and_then(|mut p| p.parse_expr());
    // It parses, because its arguments have been parsed before.
    if let Ok(other) = parsed {
        *expr = other;
    }
}

/// Returns true if a call is one of these.
pub(crate) fn is_rewritten(function: &Function) -> bool {
    other_words(function).is_some()
}

fn other_words(function: &Function) -> Option<String> {
    let name = function.name.0.last()?.as_ident()?.value.as_str();
    let FunctionArguments::List(list) = &function.args else { return None };
    if function.over.is_some() || !list.clauses.is_empty() {
        return None;
    }
    let argument = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.to_string()),
        _ => None,
    };
    let args = list.args.iter().map(argument).collect::<Option<Vec<_>>>()?;
    let filter = function.filter.as_ref().map(ToString::to_string);
    let call = |call: String| match &filter {
        Some(filter) => format!("{call} FILTER (WHERE {filter})"),
        None => call,
    };
    let where_known = |what: String, known: &str| match &filter {
        Some(filter) => format!("{what} FILTER (WHERE ({filter}) AND ({known}) IS NOT NULL)"),
        None => format!("{what} FILTER (WHERE ({known}) IS NOT NULL)"),
    };
    Some(match (name, args.as_slice()) {
        ("count_distinct", [x]) => call(format!("count(DISTINCT {x})")),
        ("string_distinct_agg", [x, separator]) => {
            call(format!("string_agg(DISTINCT {x}, {separator})"))
        }
        ("variance", [x]) => call(format!("var_samp({x})")),
        ("approx_count_distinct", [x] | [x, _]) => call(format!("approx_distinct({x})")),
        ("approx_percentile", [x, p] | [x, p, _]) => {
            call(format!("approx_percentile_cont({x}, {p})"))
        }
        ("every", [x]) => call(format!("bool_and({x})")),
        ("arg_min" | "min_by", [x, by]) => {
            where_known(format!("first_value({x} ORDER BY {by} ASC NULLS LAST)"), by)
        }
        ("arg_max" | "max_by", [x, by]) => {
            where_known(format!("first_value({x} ORDER BY {by} DESC NULLS LAST)"), by)
        }
        ("vwap", [price, amount]) => {
            let total = call(format!("sum(CAST({price} AS DOUBLE) * ({amount}))"));
            let amounts = where_known(format!("sum(CAST({amount} AS DOUBLE))"), price);
            format!("({total} / {amounts})")
        }
        _ => return None,
    })
}
