//! A function that makes an expression return an array with one value for each row.
//!
//! - DataFusion takes an element of an IN list for a constant if it gives a scalar for a batch
//!   without rows, as CASE does. This function gives an array for each batch.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// The name of the function, which no query can write.
const PER_ROW: &str = "per row";

/// Returns the value of an expression; marked if it is computed from columns.
pub(super) fn per_row(expr: Expr) -> Expr {
    let is_marked = matches!(&expr, Expr::ScalarFunction(call) if call.name() == PER_ROW);
    if is_marked || matches!(expr, Expr::Column(_)) || !expr.any_column_refs() {
        return expr;
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(PerRow { signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PerRow {
    signature: Signature,
}

impl ScalarUDFImpl for PerRow {
    fn name(&self) -> &'static str {
        PER_ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(args.args.remove(0).into_array(args.number_rows)?))
    }
}
