//! Functions that return one of their arguments: `coalesce`, `nullif`, `greatest` and the like. All
//! arguments become values of one type.
//!
//! Not here: CASE (`coerce`), and the function `coalesce` itself (`functions::alternatives`).

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, lit};
use tidegate_model::ColumnType;

use super::fine_times::compare_lengths_or_times;
use crate::error::ClauseProblem;
use crate::functions::coalesce;
use crate::types::coercion::texts_to_bytes;
use crate::types::expression_type::type_in;
use crate::types::{decimals, float_order, intervals, uuid_ipv4};

/// Returns a call whose arguments have one type.
pub(super) fn converted(call: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let ScalarFunction { func, mut args } = call;
    uuid_ipv4::type_parameters(&mut args, schema);
    let args = texts_to_bytes(args, schema)?;
    if matches!(func.name(), "coalesce" | "nvl" | "ifnull") {
        check_no_text_columns(func.name(), &args, schema)?;
    }
    let args = decimals::of_one_type(intervals::unify(args, schema), schema);
    Ok(one_of(ScalarFunction { func, args }, schema))
}

/// Refuses texts that are no constants beside a BINARY.
fn check_no_text_columns(function: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    let is_text = |arg: &Expr| arg.get_type(schema).is_ok_and(|ty| ty.is_string());
    let is_bytes = |arg: &Expr| type_in(arg, schema) == Some(ColumnType::Binary);
    if !args.iter().any(is_text) || !args.iter().any(is_bytes) {
        return Ok(());
    }
    let types = Box::new([ColumnType::Binary.sql(), ColumnType::Varchar.sql()]);
    Err(ClauseProblem::Operands { operator: function.to_owned(), types }.into())
}

/// Converts a function that returns one of its arguments; NULLIF of floats becomes the CASE that it
/// stands for, in which -0 is 0.
fn one_of(call: ScalarFunction, schema: &DFSchema) -> Expr {
    match call.args.as_slice() {
        [value, other]
            if call.func.name() == "nullif"
                && (float_order::needs_key(value, schema)
                    || compare_lengths_or_times(value, Operator::Eq, other, schema).is_some()) =>
        {
            let key = |expr: &Expr| float_order::key(expr.clone(), schema);
            let equal = compare_lengths_or_times(value, Operator::Eq, other, schema);
            let equal = equal.unwrap_or_else(|| key(value).eq(key(other)));
            let arm = (Box::new(equal), Box::new(lit(ScalarValue::Null)));
            let (when_then_expr, else_expr) = (vec![arm], Some(Box::new(value.clone())));
            Expr::Case(Case { expr: None, when_then_expr, else_expr })
        }
        args if ["greatest", "least"].contains(&call.func.name())
            && args.iter().any(|arg| intervals::is_interval(arg, schema)) =>
        {
            intervals::greatest_or_least(call.func.name() == "greatest", call.args)
        }
        _ => {
            let ScalarFunction { func, args } = call;
            let args = args.into_iter().map(|arg| match func.name() {
                "greatest" | "least" => float_order::operand(arg, schema),
                _ => arg,
            });
            let args = args.collect::<Vec<_>>();
            // DataFusion's `nvl` makes texts of times and decimals.
            let is_nvl = ["nvl", "ifnull"].contains(&func.name());
            let has_boolean =
                args.iter().any(|arg| type_in(arg, schema) == Some(ColumnType::Boolean));
            let func = coalesce().filter(|_| is_nvl && !has_boolean).unwrap_or(func);
            Expr::ScalarFunction(ScalarFunction { func, args })
        }
    }
}
