//! Operators of integers in forms that DataFusion's simplifier does not know.
//!
//! - BW1. `a # b` of values that may be NULL is a function: the simplifier makes 0 of `a # a`, and
//!   drops the repeated values of longer ones, although NULL is NULL there.
//! - BW2. `-a` is `0 - a`: the simplifier takes the minus for `~`, and would make `-a & -b` of
//!   `-(a | b)`, and 0 of `a & -a`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::compute::kernels::bitwise::bitwise_xor;
use datafusion::arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast, lit,
};

/// Returns an operator in its own form, if it has one.
pub(super) fn written(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Negative(inner) if !matches!(*inner, Expr::Literal(..)) => {
            match inner.get_type(schema) {
                // BW2.
                Ok(ty) if ty.is_signed_integer() => {
                    let zero = lit(ScalarValue::new_zero(&ty)?);
                    let op = Operator::Minus;
                    let minus = BinaryExpr { left: Box::new(zero), op, right: inner };
                    Ok(Transformed::yes(Expr::BinaryExpr(minus)))
                }
                _ => Ok(Transformed::no(Expr::Negative(inner))),
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::BitwiseXor, right }) => {
            match operand_type(&left, &right, schema) {
                // BW1.
                Some(ty) => {
                    let sides = [left, right].map(|side| cast(*side, ty.clone()));
                    let signature = Signature::any(2, Volatility::Immutable);
                    let xor = Arc::new(ScalarUDF::new_from_impl(Xor { signature }));
                    let call = ScalarFunction::new_udf(xor, sides.into());
                    Ok(Transformed::yes(Expr::ScalarFunction(call)))
                }
                None => {
                    let xor = BinaryExpr { left, op: Operator::BitwiseXor, right };
                    Ok(Transformed::no(Expr::BinaryExpr(xor)))
                }
            }
        }
        expr => Ok(Transformed::no(expr)),
    }
}

/// Returns the type of two integers of which one may be NULL.
fn operand_type(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<DataType> {
    let is_nullable = |side: &Expr| side.nullable(schema).unwrap_or(true);
    if !is_nullable(left) && !is_nullable(right) {
        return None;
    }
    let types = [left, right].map(|side| side.get_type(schema));
    let [Ok(left), Ok(right)] = types else { return None };
    let coercer = BinaryTypeCoercer::new(&left, &Operator::BitwiseXor, &right);
    let (left, right) = coercer.get_input_types().ok()?;
    (left == right && left.is_integer()).then_some(left)
}

/// `#` of two integers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Xor {
    signature: Signature,
}

impl ScalarUDFImpl for Xor {
    fn name(&self) -> &'static str {
        "bitwise xor"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (left, right) = (args.args[0].to_array(rows)?, args.args[1].to_array(rows)?);
        let values = match left.data_type() {
            DataType::Int8 => xor::<Int8Type>(&left, &right)?,
            DataType::Int16 => xor::<Int16Type>(&left, &right)?,
            DataType::Int32 => xor::<Int32Type>(&left, &right)?,
            DataType::Int64 => xor::<Int64Type>(&left, &right)?,
            DataType::UInt8 => xor::<UInt8Type>(&left, &right)?,
            DataType::UInt16 => xor::<UInt16Type>(&left, &right)?,
            DataType::UInt32 => xor::<UInt32Type>(&left, &right)?,
            DataType::UInt64 => xor::<UInt64Type>(&left, &right)?,
            ty => return internal_err!("{ty} is no type of integers"),
        };
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

fn xor<T>(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: std::ops::BitXor<Output = T::Native>,
{
    Ok(Arc::new(bitwise_xor(left.as_primitive::<T>(), right.as_primitive::<T>())?))
}
