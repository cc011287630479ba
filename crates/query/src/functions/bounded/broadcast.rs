//! Constants that are copied to each row of a batch: charged before they are copied.
//!
//! - A function call with constant arguments has one value for all rows of a batch, and so has a
//!   subquery of one row. Where an operator, CASE or IN expands this value to an array, the
//!   expression is wrapped in a call of `broadcast`, which charges the copies of all rows first:
//!   otherwise they would have no bound. A projection then evaluates it for fewer rows at a time
//!   (slices-1).
//! - Literals are not wrapped: batches are cut for them (`slices`).

use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::account::{charge, check_folded, made_array};
use crate::value_bytes::constant_bytes;

/// The name of the function in messages about memory.
const CONSTANT: &str = "constant";

/// Returns true for an expression that has one value for all rows, and is not a literal or
/// wrapped already. The value may be large if its type is wide.
pub(crate) fn needs_broadcast(expr: &Expr) -> bool {
    let is_call = |part: &Expr| matches!(part, Expr::ScalarFunction(_) | Expr::ScalarSubquery(_));
    let is_other = |part: &Expr| {
        matches!(part, Expr::AggregateFunction(_) | Expr::WindowFunction(_) | Expr::GroupingSet(_))
    };
    let has = |wanted: &dyn Fn(&Expr) -> bool| expr.exists(|part| Ok(wanted(part)));
    !matches!(expr, Expr::Literal(..) | Expr::Column(_))
        && !is_broadcast_call(expr)
        && !expr.any_column_refs()
        && has(&is_call).unwrap_or(false)
        && !has(&is_other).unwrap_or(true)
}

fn is_broadcast_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Broadcast>())
}

/// Returns the call of `broadcast` for an expression.
pub(crate) fn broadcast(expr: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let func = Arc::new(ScalarUDF::new_from_impl(Broadcast { signature }));
    Expr::ScalarFunction(ScalarFunction { func, args: vec![expr] })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Broadcast {
    signature: Signature,
}

impl ScalarUDFImpl for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
    }

    // A column keeps its name.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let Some(arg) = args.first() else { return internal_err!("broadcast has an argument") };
        Ok(arg.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some(ty) = types.first() else { return internal_err!("broadcast has an argument") };
        Ok(ty.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(field) = args.arg_fields.first() else {
            return internal_err!("broadcast has an argument");
        };
        Ok(Arc::clone(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(ColumnarValue::Scalar(value)) = args.args.first() else {
            return match args.args.into_iter().next() {
                Some(values) => Ok(values),
                None => internal_err!("broadcast has an argument"),
            };
        };
        check_folded(CONSTANT, || constant_bytes(value))?;
        charge(CONSTANT, constant_bytes(value).saturating_mul(args.number_rows as u64))?;
        let values = value.to_array_of_size(args.number_rows)?;
        made_array(&values.to_data(), &[]);
        Ok(ColumnarValue::Array(values))
    }
}
