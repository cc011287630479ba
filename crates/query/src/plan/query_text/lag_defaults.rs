//! Defaults of `lag` and `lead` that are no constants.
//!
//! - lag_defaults-1. `lag(x, n, y) OVER w` is `CASE WHEN lag(true, n) OVER w IS NULL THEN y ELSE
//!   lag(x, n) OVER w END`: DataFusion takes only constants as defaults.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart,
    UnaryOperator, Value,
};

/// Writes out the default of a call, if it is no constant (lag_defaults-1).
pub(super) fn write_out_default(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    let Some((place, default)) = parts(call) else { return };
    let condition = Expr::IsNull(Box::new(Expr::Function(place)));
    let value = Expr::Function(call.clone());
    let case = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: default }],
        else_result: Some(Box::new(value)),
    };
    *expr = Expr::Nested(Box::new(case));
}

/// Takes the default out of a call, and returns it behind the same call for TRUE.
fn parts(call: &mut Function) -> Option<(Function, Expr)> {
    let [ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return None };
    let is_it = ["lag", "lead"].contains(&name.value.as_str());
    if !is_it || call.over.is_none() || call.null_treatment.is_some() {
        return None;
    }
    let FunctionArguments::List(list) = &mut call.args else { return None };
    let expr_of = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let default = match list.args.as_slice() {
        [_, _, default] => expr_of(default).filter(|it| !is_constant(it))?,
        _ => return None,
    };
    list.args.truncate(2);
    let mut place = call.clone();
    if let FunctionArguments::List(list) = &mut place.args {
        let truth = Expr::Value(Value::Boolean(true).into());
        list.args[0] = FunctionArg::Unnamed(FunctionArgExpr::Expr(truth));
    }
    Some((place, default))
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) | Expr::Interval(_) => true,
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_constant(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_constant(expr),
        _ => false,
    }
}
