//! The column type of an expression, and the results of which a CASE or COALESCE gives one.

use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable};
use tidegate_model::ColumnType;

use crate::types::decimal_constants;
use crate::types::literal::type_of;

/// Returns the type of an expression as a column type.
pub(crate) fn type_in(expr: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    let of_one = results(expr).and_then(|results| {
        let types = results.iter().map(|result| (*result, type_in(result, schema)));
        let types = types.collect::<Vec<_>>();
        let special = types.iter().filter_map(|(_, ty)| *ty);
        let special = special.into_iter().find(|ty| is_special(*ty));
        special.or_else(|| decimal_constants::type_of_one(&types))
    });
    of_one.or_else(|| {
        let (_, field) = expr.to_field(schema).ok()?;
        type_of(&field)
    })
}

/// Functions that return one of their arguments.
const GIVES_ONE: [&str; 6] = ["coalesce", "nullif", "nvl", "ifnull", "greatest", "least"];

/// Returns true if a function returns one of its arguments.
pub(crate) fn gives_one(function: &str) -> bool {
    GIVES_ONE.contains(&function)
}

pub(crate) fn is_special(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Uuid | ColumnType::Ipv4)
}

/// Returns the values of which an expression returns one.
pub(crate) fn results(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::ScalarFunction(call) if gives_one(call.func.name()) => {
            Some(call.args.iter().collect())
        }
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then);
            Some(results.chain(&case.else_expr).map(AsRef::as_ref).collect())
        }
        _ => None,
    }
}
