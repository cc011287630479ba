//! Aggregates that are others in other words: `count_distinct(x)` is `count(DISTINCT x)`.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// Puts the other words in place of a call, if there are any.
pub(crate) fn rewrite_aggregate(expr: &mut Expr) {
    let Expr::Function(function) = &*expr else { return };
    let Some(text) = other_words(function) else { return };
    let dialect = GenericDialect {};
    let parsed = Parser::new(&dialect).try_with_sql(&text).and_then(|mut p| p.parse_expr());
    // What the arguments were parsed from has been parsed before.
    if let Ok(other) = parsed {
        *expr = other;
    }
}

fn other_words(function: &Function) -> Option<String> {
    let name = function.name.0.last()?.as_ident()?.value.as_str();
    let FunctionArguments::List(list) = &function.args else { return None };
    if function.filter.is_some() || function.over.is_some() || !list.clauses.is_empty() {
        return None;
    }
    let argument = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.to_string()),
        _ => None,
    };
    let args = list.args.iter().map(argument).collect::<Option<Vec<_>>>()?;
    Some(match (name, args.as_slice()) {
        ("count_distinct", [x]) => format!("count(DISTINCT {x})"),
        ("approx_count_distinct", [x] | [x, _]) => format!("approx_distinct({x})"),
        ("approx_percentile", [x, p] | [x, p, _]) => format!("approx_percentile_cont({x}, {p})"),
        ("arg_min", [x, by]) => format!(
            "first_value({x} ORDER BY {by} ASC NULLS LAST) FILTER (WHERE ({by}) IS NOT NULL)"
        ),
        ("arg_max", [x, by]) => format!(
            "first_value({x} ORDER BY {by} DESC NULLS LAST) FILTER (WHERE ({by}) IS NOT NULL)"
        ),
        ("vwap", [price, amount]) => format!(
            "(sum(CAST({price} AS DOUBLE) * ({amount})) \
             / sum(CAST({amount} AS DOUBLE)) FILTER (WHERE ({price}) IS NOT NULL))"
        ),
        _ => return None,
    })
}
