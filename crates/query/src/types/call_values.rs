//! Values of a call of a scalar function: one constant if all its arguments are constants, else one
//! value for each row.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

/// Returns true if all arguments are constants.
pub(crate) fn are_constant(args: &[ColumnarValue]) -> bool {
    args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
}

/// Returns the values of a call. `values` computes them from the arguments and their number of
/// rows, which is one for constants.
pub(crate) fn call_values(
    args: &[ColumnarValue],
    rows: usize,
    values: impl FnOnce(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let is_constant = are_constant(args);
    let rows = if is_constant { 1 } else { rows };
    let arrays = args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
    constant_or_array(values(&arrays, rows)?, is_constant)
}

/// Returns the only value of an array as a constant, or the array.
pub(crate) fn constant_or_array(values: ArrayRef, is_constant: bool) -> Result<ColumnarValue> {
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
        false => ColumnarValue::Array(values),
    })
}
