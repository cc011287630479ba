//! `round` and `trunc` of a DOUBLE to any number of digits.
//!
//! - rounded-1. Digits that the number does not have leave it as it is, and more digits before the
//!   point than it has give 0: never NaN, which DataFusion's own give where the scale overflows.
//! - `round(x)` of a DOUBLE is the even one of two integers that are as near, as in PostgreSQL and
//!   in casts; to digits, half is rounded away from zero.
//! - Digits that are a BIGINT stay one. As a cast they would be no constant until it is worked out,
//!   and the scale of a DECIMAL, which follows from them, another one after operands were made
//!   alike: a join by `round(n, 2)` found nothing. Digits that functions work out are never told
//!   from those of a column: the scale stays that of the number.

use std::slice::from_ref;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::math::{round, trunc};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, lit,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use crate::types::call_values::call_values;

/// All doubles beyond this are integers.
const WHOLE: f64 = 9_007_199_254_740_992.0;
/// The greatest power of ten that is a DOUBLE.
const POWER_MAX: i64 = 308;

pub(crate) fn rounded_functions() -> Vec<ScalarUDF> {
    let whole: [fn(f64) -> f64; 2] = [f64::round_ties_even, f64::trunc];
    let cut: [fn(f64) -> f64; 2] = [f64::round, f64::trunc];
    let functions = [(round(), whole[0], cut[0]), (trunc(), whole[1], cut[1])];
    let function = |(inner, whole, cut): (Arc<ScalarUDF>, _, _)| {
        let signature = Signature::user_defined(inner.signature().volatility);
        ScalarUDF::new_from_impl(Rounded { inner, signature, whole, cut, known: None })
    };
    functions.map(function).into()
}

/// Declares the type of `round` of a DECIMAL, so that it does not follow from the digits that rules
/// calculate later. Returns the call unchanged if it has no digits, or is of another number.
pub(crate) fn with_known_type(
    call: ScalarFunction,
    schema: &DFSchema,
) -> Result<std::result::Result<Expr, ScalarFunction>> {
    let ScalarFunction { func, args } = &call;
    let [number, digits] = args.as_slice() else { return Ok(Err(call)) };
    let is_decimal = matches!(number.get_type(schema), Ok(DataType::Decimal128(..)));
    if !is_decimal || matches!(digits, Expr::Literal(..)) {
        return Ok(Err(call));
    }
    if let Some(digits) = written_digits(digits)? {
        let args = vec![number.clone(), lit(digits)];
        return Ok(Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(func), args))));
    }
    let args = args.clone();
    let known = Some(Expr::ScalarFunction(call).get_type(schema)?);
    let inner = round();
    let signature = Signature::user_defined(inner.signature().volatility);
    let (whole, cut) = (f64::round_ties_even, f64::round);
    let function = ScalarUDF::new_from_impl(Rounded { inner, signature, whole, cut, known });
    Ok(Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args))))
}

/// Digits that are written without functions: `2::INT`, `1 + 1`.
fn written_digits(digits: &Expr) -> Result<Option<i64>> {
    let is_other = |part: &Expr| {
        !matches!(part, Expr::Literal(..) | Expr::Cast(_) | Expr::Negative(_) | Expr::BinaryExpr(_))
    };
    if digits.exists(|part| Ok(is_other(part)))? {
        return Ok(None);
    }
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    let digits = simplifier.coerce(digits.clone(), &DFSchema::empty())?;
    Ok(match simplifier.simplify(digits)? {
        Expr::Literal(value, _) if value.data_type().is_integer() => {
            match value.cast_to(&DataType::Int64)? {
                ScalarValue::Int64(digits) => digits,
                _ => None,
            }
        }
        _ => None,
    })
}

#[derive(Debug)]
struct Rounded {
    /// The function of DataFusion.
    inner: Arc<ScalarUDF>,
    signature: Signature,
    /// Rounds to an integer.
    whole: fn(f64) -> f64,
    cut: fn(f64) -> f64,
    /// The type of the result, if it is not to follow from the digits.
    known: Option<DataType>,
}

impl PartialEq for Rounded {
    fn eq(&self, other: &Rounded) -> bool {
        self.inner == other.inner && self.known == other.known
    }
}

impl Eq for Rounded {}

impl std::hash::Hash for Rounded {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.known.hash(state);
    }
}

impl ScalarUDFImpl for Rounded {
    delegate! { inner:
        fn name(&self) -> &str;
        fn simplify(
            &self,
            args: Vec<Expr>,
            context: &SimplifyContext,
        ) -> Result<ExprSimplifyResult>;
        fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties>;
        fn documentation(&self) -> Option<&Documentation>;
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(args)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.inner.return_field_from_args(args)?;
        Ok(match &self.known {
            Some(ty) => Arc::new(field.as_ref().clone().with_data_type(ty.clone())),
            None => field,
        })
    }

    /// Keeps the type of the digits.
    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let mut types = self.inner_types(args)?;
        if let (Some(digits), Some(DataType::Int64)) = (types.get_mut(1), args.get(1)) {
            *digits = DataType::Int64;
        }
        Ok(types)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_float = matches!(
            args.args[0].data_type(),
            DataType::Float16 | DataType::Float32 | DataType::Float64
        );
        let [_, digits] = args.args.as_slice() else {
            return match (args.args.as_slice(), is_float) {
                ([value], true) => self.whole(value, args.number_rows),
                _ => self.inner.invoke_with_args(args),
            };
        };
        if !is_float || !digits.data_type().is_integer() {
            let given = args.arg_fields.iter().map(|field| field.data_type().clone());
            let wanted = self.inner_types(&given.collect::<Vec<_>>())?;
            let digits = digits.cast_to(&wanted[1], None)?;
            args.arg_fields[1] = Arc::new(Field::new("digits", wanted[1].clone(), true));
            args.args[1] = digits;
            return self.inner.invoke_with_args(args);
        }
        call_values(&args.args, args.number_rows, |arrays, _| {
            let rounded = self.rounded(&arrays[0], &arrays[1])?;
            Ok(cast(&rounded, args.return_field.data_type())?)
        })
    }
}

impl Rounded {
    /// Returns the types that DataFusion's function coerces these to.
    fn inner_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let field = |ty: &DataType| Arc::new(Field::new("argument", ty.clone(), true));
        let fields = given.iter().map(field).collect::<Vec<_>>();
        let taken = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(taken.iter().map(|field| field.data_type().clone()).collect())
    }

    /// Rounds to integers.
    fn whole(&self, value: &ColumnarValue, rows: usize) -> Result<ColumnarValue> {
        call_values(from_ref(value), rows, |values, _| {
            let doubles = cast(&values[0], &DataType::Float64)?;
            let doubles = doubles.as_primitive::<Float64Type>().unary::<_, Float64Type>(self.whole);
            Ok(cast(&doubles, values[0].data_type())?)
        })
    }

    fn rounded(&self, values: &ArrayRef, digits: &ArrayRef) -> Result<ArrayRef> {
        let digits = cast(digits, &DataType::Int64)?;
        let digits = digits.as_primitive::<Int64Type>();
        if *values.data_type() == DataType::Float32 {
            // The digits of a FLOAT are those of its shortest text, not those of its DOUBLE.
            let values = values.as_primitive::<datafusion::arrow::datatypes::Float32Type>();
            let each = values.iter().zip(digits).map(|pair| {
                let (value, digits) = (pair.0?, pair.1?);
                let shown = value.to_string().parse::<f64>().unwrap_or(f64::from(value));
                #[expect(clippy::cast_possible_truncation, reason = "it has few digits")]
                Some(at_digits(shown, digits, self.cut) as f32)
            });
            return Ok(Arc::new(each.collect::<Float32Array>()));
        }
        let values = cast(values, &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        let each = values.iter().zip(digits);
        let each = each.map(|pair| Some(at_digits(pair.0?, pair.1?, self.cut)));
        Ok(Arc::new(each.collect::<Float64Array>()))
    }
}

/// Rounds a value to digits (rounded-1).
fn at_digits(value: f64, digits: i64, cut: fn(f64) -> f64) -> f64 {
    if !value.is_finite() || POWER_MAX < digits {
        return value;
    }
    if digits < -POWER_MAX {
        return 0.0_f64.copysign(value);
    }
    let scale = 10_f64.powi(i32::try_from(digits.abs()).expect("at most 308"));
    if digits < 0 {
        return cut(value / scale) * scale;
    }
    let scaled = value * scale;
    if WHOLE <= scaled.abs() { value } else { cut(scaled) / scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_that_there_are_not_change_nothing() {
        for (value, digits, expected) in [
            (42.1235, 1_000, 42.1235),
            (42.1235, 300, 42.1235),
            (42.1235, 3, 42.124),
            (42.0, -1, 40.0),
            (45.0, -1, 50.0),
            (42.0, -1_000, 0.0),
            (42.0, -300, 0.0),
            (1e300, 100, 1e300),
            (f64::INFINITY, 2, f64::INFINITY),
        ] {
            assert_eq!(
                at_digits(value, digits, f64::round),
                expected,
                "rounded-1: {value} {digits}"
            );
        }
        assert_eq!(at_digits(42.129, 2, f64::trunc), 42.12, "rounded-1");
    }
}
