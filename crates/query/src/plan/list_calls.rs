//! Calls of functions of lists, and `||` of a list and NULL, that DataFusion would answer wrongly,
//! or end with an internal error.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::error::ClauseProblem;
use crate::types::list_texts;

/// Returns the list that `||` joins with NULL: as in PostgreSQL, a NULL without a type is a list.
pub(super) fn joined_with_null(
    left: &Expr,
    op: &BinaryOperator,
    right: &Expr,
    schema: &DFSchema,
) -> Option<Expr> {
    let is_null = |side: &Expr| matches!(side, Expr::Literal(ScalarValue::Null, _));
    let list = match (is_null(left), is_null(right)) {
        (false, true) => left,
        (true, false) => right,
        _ => return None,
    };
    let is_list = *op == BinaryOperator::StringConcat
        && matches!(
            list.get_type(schema),
            Ok(DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
        );
    is_list.then(|| list.clone())
}

/// An error for a list of lists where a function adds up numbers.
pub(super) fn check_numbers(call: &ScalarFunction, schema: &DFSchema) -> Result<()> {
    const OF_NUMBERS: [&str; 10] = [
        "array_add",
        "array_avg",
        "array_distance",
        "array_normalize",
        "array_product",
        "array_scale",
        "array_subtract",
        "array_sum",
        "cosine_distance",
        "inner_product",
    ];
    if !OF_NUMBERS.contains(&call.func.name()) {
        return Ok(());
    }
    for arg in &call.args {
        let ty = arg.get_type(schema)?;
        if let DataType::List(element) | DataType::LargeList(element) = &ty
            && matches!(element.data_type(), DataType::List(_) | DataType::LargeList(_))
        {
            let function = call.func.name().to_owned();
            let what = ClauseProblem::Argument { function, ty: "a list of lists".to_owned() };
            return Err(what.into());
        }
    }
    Ok(())
}

/// Makes texts of a list of NULLs alone, of BINARY values or of dates: `array_to_string` leaves out
/// the elements of the former two otherwise.
pub(super) fn with_texts(call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let ScalarFunction { func, mut args } = call;
    if let Some(list) = args.first()
        && let Ok(texts) = list_texts::with_texts(list.clone(), &list.get_type(schema)?)
    {
        args[0] = texts;
        return Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })));
    }
    let nulls = DataType::new_list(DataType::Null, true);
    let is_of_nulls = |list: &Expr| matches!(list.get_type(schema), Ok(ty) if ty == nulls);
    let is_changed = args.first().is_some_and(is_of_nulls);
    if is_changed {
        args[0] = cast(args[0].clone(), DataType::new_list(DataType::Utf8View, true));
    }
    let call = Expr::ScalarFunction(ScalarFunction { func, args });
    Ok(if is_changed { Transformed::yes(call) } else { Transformed::no(call) })
}
