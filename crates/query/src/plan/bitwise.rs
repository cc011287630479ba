//! Operators of integers in forms that DataFusion's simplifier does not know.
//!
//! - `a # b` of values that may be NULL is a function: the simplifier makes 0 of `a # a`, and drops
//!   the repeated values of longer ones, although NULL is NULL there.
//! - A minus beside such operators is a difference, `0 - a`: the simplifier takes it for `~`, and
//!   would make `-a & -b` of `-(a | b)`, and 0 of `a & -a`.

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

use crate::types::call_values::call_values;

/// Returns an operator in its own form, if it has one.
pub(super) fn written(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Negative(inner) if is_bitwise(&inner) => subtracted(inner, schema),
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_of_bits(op) && [&left, &right].iter().any(|side| is_minus(side)) =>
        {
            let [left, right] = [subtracted_side(*left, schema)?, subtracted_side(*right, schema)?];
            let xor = xor_of_nullable(BinaryExpr { left, op, right }, schema)?;
            Ok(Transformed::yes(xor.data))
        }
        Expr::BinaryExpr(binary) => xor_of_nullable(binary, schema),
        expr => Ok(Transformed::no(expr)),
    }
}

/// Returns `#` as a function, if one of its values may be NULL; others stay.
fn xor_of_nullable(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let ty = match binary.op {
        Operator::BitwiseXor => operand_type(&binary.left, &binary.right, schema),
        _ => None,
    };
    let Some(ty) = ty else { return Ok(Transformed::no(Expr::BinaryExpr(binary))) };
    let sides = [binary.left, binary.right].map(|side| cast(*side, ty.clone()));
    let signature = Signature::any(2, Volatility::Immutable);
    let xor = Arc::new(ScalarUDF::new_from_impl(Xor { signature }));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(xor, sides.into()))))
}

fn is_of_bits(op: Operator) -> bool {
    matches!(op, Operator::BitwiseAnd | Operator::BitwiseOr | Operator::BitwiseXor)
}

/// Returns true for the result of an operator of bits.
fn is_bitwise(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_of_bits(binary.op),
        Expr::Cast(inner) => is_bitwise(&inner.expr),
        _ => false,
    }
}

/// Returns true for a minus before something else than a constant.
fn is_minus(expr: &Expr) -> bool {
    matches!(expr, Expr::Negative(inner) if !matches!(**inner, Expr::Literal(..)))
}

/// Returns an operand of an operator of bits.
fn subtracted_side(side: Expr, schema: &DFSchema) -> Result<Box<Expr>> {
    match side {
        Expr::Negative(inner) if !matches!(*inner, Expr::Literal(..)) => {
            Ok(Box::new(subtracted(inner, schema)?.data))
        }
        other => Ok(Box::new(other)),
    }
}

/// Returns the minus of a value as a difference; that of others than integers stays.
fn subtracted(inner: Box<Expr>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match inner.get_type(schema) {
        Ok(ty) if ty.is_signed_integer() => {
            let zero = lit(ScalarValue::new_zero(&ty)?);
            let minus = BinaryExpr { left: Box::new(zero), op: Operator::Minus, right: inner };
            Ok(Transformed::yes(Expr::BinaryExpr(minus)))
        }
        _ => Ok(Transformed::no(Expr::Negative(inner))),
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
        call_values(&args.args, args.number_rows, |arrays, _| {
            let (left, right) = (&arrays[0], &arrays[1]);
            match left.data_type() {
                DataType::Int8 => xor::<Int8Type>(left, right),
                DataType::Int16 => xor::<Int16Type>(left, right),
                DataType::Int32 => xor::<Int32Type>(left, right),
                DataType::Int64 => xor::<Int64Type>(left, right),
                DataType::UInt8 => xor::<UInt8Type>(left, right),
                DataType::UInt16 => xor::<UInt16Type>(left, right),
                DataType::UInt32 => xor::<UInt32Type>(left, right),
                DataType::UInt64 => xor::<UInt64Type>(left, right),
                ty => internal_err!("{ty} is no type of integers"),
            }
        })
    }
}

fn xor<T>(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: std::ops::BitXor<Output = T::Native>,
{
    Ok(Arc::new(bitwise_xor(left.as_primitive::<T>(), right.as_primitive::<T>())?))
}
