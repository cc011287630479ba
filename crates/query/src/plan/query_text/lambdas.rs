//! Refusal of functions that take a lambda: `list_filter(l, x -> x > 1)`.
//!
//! DataFusion has them, but repeats the columns that a lambda reads, and lists that are constants,
//! for each element, and hides from the function how much that is: no limit of memory could count
//! it. So the engine does not register them (`engine`), and the parser knows no lambdas.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Spanned};

use crate::error::{Error, Result};
use crate::position::position_at;
use crate::sql::visit::visit_expressions;

/// The functions, and their other names.
const OF_LAMBDAS: [&str; 9] = [
    "any_match",
    "array_any_match",
    "array_filter",
    "array_first",
    "array_transform",
    "list_any_match",
    "list_filter",
    "list_first",
    "list_transform",
];

/// Refuses calls of functions that take a lambda. Without a lambda in the dialect, the names in it
/// would be columns that do not exist.
pub(super) fn check_lambdas(sql: &str, query: &Query) -> Result<()> {
    let found = visit_expressions(query, |expr| match expr {
        Expr::Function(call) if takes_lambda(&call.name) => ControlFlow::Break(call.name.span()),
        _ => ControlFlow::Continue(()),
    });
    let ControlFlow::Break(span) = found else { return Ok(()) };
    let position = Some(position_at(sql, span.start));
    Err(Error::NotSupported { position, feature: "a function that takes a lambda (x -> ..)" })
}

fn takes_lambda(name: &ObjectName) -> bool {
    let [part] = name.0.as_slice() else { return false };
    part.as_ident().is_some_and(|name| OF_LAMBDAS.contains(&name.value.to_lowercase().as_str()))
}
