//! Operators on numbers that need a wider type than DataFusion gives them, and quotients of
//! decimals.
//!
//! - wide_numbers-1. A decimal has at most 38 digits, and a result with more is an error.
//!   DataFusion checks only that a result fits 128 bits, and shows a result of 39 digits without
//!   the last one.
//! - Two decimals are compared, and divided, with all of their digits, even if those of both are
//!   more than 38.
//! - A quotient of decimals is rounded half away from zero (`quotients`).
//! - A FLOAT beside an INT, UINT, BIGINT or UBIGINT is a DOUBLE, as in PostgreSQL, because a FLOAT
//!   has 24 bits. Constants that a FLOAT can hold leave it a FLOAT.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType};
use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast,
};
use tidegate_model::ColumnType;
use tidegate_storage::segment::arrow_type;

use crate::types::decimal_constants::{DIGITS_MAX, constant, digits, is_beyond_float};
use crate::types::expression_type::type_in;
use crate::types::quotients::quotients;

/// The digits behind the point that a quotient has in addition to those of the dividend.
const QUOTIENT_DIGITS: u8 = 4;

/// Returns the error of a decimal with too many digits.
pub(crate) fn too_wide(digits_max: u8) -> DataFusionError {
    let what =
        format!("the result of an operator has more than the {digits_max} digits of a DECIMAL");
    DataFusionError::from(ArrowError::ArithmeticOverflow(what))
}

/// Converts a FLOAT beside integers that it cannot hold to a DOUBLE; `None` if there is none.
pub(crate) fn widened_floats(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<(Expr, Expr)> {
    let needs_double = |float: &Expr, integer: &Expr| {
        type_in(float, schema) == Some(ColumnType::Float32)
            && type_in(integer, schema).is_some_and(|ty| is_beyond_float(integer, ty))
    };
    let double = |expr: &Expr| cast(expr.clone(), DataType::Float64);
    if needs_double(left, right) {
        Some((double(left), right.clone()))
    } else if needs_double(right, left) {
        Some((left.clone(), double(right)))
    } else {
        None
    }
}

/// Returns an operator on a decimal and another decimal or an integer, if it needs more than 38
/// digits, or divides.
pub(crate) fn decimal_operator(expr: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let BinaryExpr { left, op, right } = expr;
    let left = Operand::of(left, schema)?;
    let right = Operand::of(right, schema)?;
    if !left.is_decimal && !right.is_decimal {
        return None;
    }
    let (whole, scale) = (left.whole.max(right.whole), left.scale.max(right.scale));
    let needed = match op {
        Operator::Plus | Operator::Minus => whole + scale + 1,
        Operator::Multiply => left.whole + left.scale + right.whole + right.scale + 1,
        Operator::Divide => left.whole + left.scale + right.scale + QUOTIENT_DIGITS,
        op if *op == Operator::Modulo || compares(*op) => whole + scale,
        _ => return None,
    };
    if needed <= DIGITS_MAX {
        // The type of a quotient stays the one that DataFusion gives it.
        let quotient = |sides| function_of(Operator::Divide, sides);
        return divided(left.expr, *op, right.expr, schema).map(quotient);
    }
    if compares(*op) {
        let wide = DataType::Decimal256(needed, i8::try_from(scale).ok()?);
        let side = |side: Operand<'_>| Box::new(cast(side.expr.clone(), wide.clone()));
        return Some(Expr::BinaryExpr(BinaryExpr::new(side(left), *op, side(right))));
    }
    Some(function_of(*op, vec![left.as_decimal(), right.as_decimal()]))
}

/// Does the same for an operator whose operands may have become decimals.
pub(crate) fn with_decimal_operator(
    late: Transformed<Expr>,
    schema: &DFSchema,
) -> Transformed<Expr> {
    let decimal = match &late.data {
        Expr::BinaryExpr(expr) if late.transformed => decimal_operator(expr, schema),
        _ => None,
    };
    decimal.map_or(late, Transformed::yes)
}

fn function_of(op: Operator, sides: Vec<Expr>) -> Expr {
    let function = DecimalOperator { op, signature: Signature::any(2, Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, sides))
}

/// Returns the decimals that DataFusion divides; `None` for other operators.
fn divided(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Vec<Expr>> {
    if op != Operator::Divide {
        return None;
    }
    let types = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
    let to = BinaryTypeCoercer::new(&types.0, &op, &types.1).get_input_types().ok()?;
    let side = |side: &Expr, of: DataType, to: DataType| match of == to {
        true => Some(side.clone()),
        false => matches!(to, DataType::Decimal128(..)).then(|| cast(side.clone(), to)),
    };
    Some(vec![side(left, types.0, to.0)?, side(right, types.1, to.1)?])
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// An operand with the digits before and behind the point that its values may have.
struct Operand<'a> {
    expr: &'a Expr,
    whole: u8,
    scale: u8,
    is_decimal: bool,
}

impl Operand<'_> {
    fn of<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<Operand<'a>> {
        let ty = type_in(expr, schema)?;
        let is_decimal = matches!(ty, ColumnType::Decimal { .. });
        if !is_decimal && !ty.is_integer() {
            return None;
        }
        let (whole, scale) = match constant(expr) {
            Some(text) if !is_decimal => {
                let digits = text.bytes().filter(u8::is_ascii_digit).count();
                (u8::try_from(digits).ok()?, 0)
            }
            _ => digits(ty),
        };
        Some(Operand { expr, whole, scale, is_decimal })
    }

    fn as_decimal(&self) -> Expr {
        if self.is_decimal {
            return self.expr.clone();
        }
        let ty = ColumnType::Decimal { precision: self.whole, scale: 0 };
        cast(self.expr.clone(), arrow_type(ty))
    }
}

/// An operator on two decimals, whose result may have too many digits (wide_numbers-1).
#[derive(Debug, PartialEq, Eq, Hash)]
struct DecimalOperator {
    op: Operator,
    signature: Signature,
}

impl ScalarUDFImpl for DecimalOperator {
    fn name(&self) -> &'static str {
        match self.op {
            Operator::Plus => "decimal +",
            Operator::Minus => "decimal -",
            Operator::Multiply => "decimal *",
            Operator::Divide => "decimal /",
            _ => "decimal %",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let [left, right] = args else { return internal_err!("an operator has two operands") };
        BinaryTypeCoercer::new(left, &self.op, right).get_result_type()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result = args.return_field.data_type().clone();
        let sides = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = sides.as_slice() else {
            return internal_err!("an operator has two operands");
        };
        let DataType::Decimal128(precision, scale) = result else {
            return internal_err!("the result of an operator on decimals is one");
        };
        let quick = self.computed::<Decimal128Type>(left, right, precision, scale);
        let quick = quick.ok().filter(|quick| *quick.data_type() == result);
        let values = match quick.filter(fits) {
            Some(quick) => quick,
            None => {
                let strict = CastOptions { safe: false, ..CastOptions::default() };
                let (left, right) = (wide(left)?, wide(right)?);
                let digits = Decimal256Type::MAX_PRECISION;
                let wide = self.computed::<Decimal256Type>(&left, &right, digits, scale)?;
                cast_with_options(&wide, &result, &strict)?
            }
        };
        Ok(ColumnarValue::Array(values))
    }
}

impl DecimalOperator {
    /// Returns the results for decimals of one width. Quotients have this type, and the others
    /// their own.
    fn computed<T: DecimalType>(
        &self,
        left: &ArrayRef,
        right: &ArrayRef,
        precision: u8,
        scale: i8,
    ) -> Result<ArrayRef> {
        Ok(match self.op {
            Operator::Plus => numeric::add(left, right)?,
            Operator::Minus => numeric::sub(left, right)?,
            Operator::Multiply => numeric::mul(left, right)?,
            Operator::Divide => {
                let quotients = quotients::<T>(left, right, scale)?;
                Arc::new(quotients.with_precision_and_scale(precision, scale)?) as ArrayRef
            }
            _ => numeric::rem(left, right)?,
        })
    }
}

/// Returns true if all values have as many digits as their type allows (wide_numbers-1).
fn fits(values: &ArrayRef) -> bool {
    let DataType::Decimal128(precision, scale) = *values.data_type() else { return false };
    let values = values.as_primitive::<Decimal128Type>();
    values
        .iter()
        .flatten()
        .all(|value| Decimal128Type::validate_decimal_precision(value, precision, scale).is_ok())
}

/// Returns decimals in 256 bits.
fn wide(values: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = *values.data_type() else {
        return internal_err!("an operand is a decimal");
    };
    let ty = DataType::Decimal256(precision, scale);
    Ok(cast_with_options(values, &ty, &CastOptions::default())?)
}
