//! Bounded functions: wrappers of functions whose values may be much larger than their arguments,
//! or slow to compute. They charge memory before values exist, and check for cancellation.
//!
//! - bounded-1. The size of a function's values for a batch is estimated before they are made
//!   (`growth`), and charged to the statement (account-2): operators count the memory of a query
//!   only once values exist.
//! - bounded-2. Constants that a function would copy for each row, values that are expensive to
//!   compare, and patterns that differ from row to row are processed a few rows at a time (`work`),
//!   and between them the function checks for cancellation.
//! - bounded-3. The function of every call in a plan has a growth (category-1), and is wrapped if
//!   it has to be: functions that a statement names, those that the planner makes of operators and
//!   brackets, and those that rules make of others.
//! - bounded-4. A function that becomes a cast is not one to a type whose every value is large,
//!   NULL too, and the text of its type is bounded (`type_text`).
//! - The type of a wrapped function's values is bounded as soon as it is found (type_size-1).

mod call;
mod category;
mod growth;
mod work;
mod regex;
pub(crate) mod operators;
mod broadcast;
mod windows;
pub(crate) mod collecting;
mod type_text;
mod far_dates;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tidegate_model::limits::{COUNTED_VALUE_BYTES, SYMBOL_BYTES, VALUES_BYTES};

use crate::account;
use crate::error::ClauseProblem;
use crate::functions::bounded::work::work_of;
use crate::types::call_values::{are_constant, constant_or_array};
use crate::types::type_size::check_type;
use crate::value_bytes::{bytes_of, constant_bytes, width};
use call::Call;
use category::{Growth, growth_of};
use type_text::{CASTS, check_type_text};
use work::{Slice, Work, slices};

pub(crate) use collecting::check_window;
pub(crate) use operators::{Stage, bound_expr, bound_functions_of};

/// The bytes of a value of a fixed width that is a short text or list: the digits of a hash, say.
const SHORT_BYTES: u64 = 256;

/// Returns the function, wrapped if it has to be; `None` if the size of its values is not known
/// (bounded-3).
pub(crate) fn bounded(function: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
    if function.inner().is::<Bounded>() {
        return Some(Arc::clone(function));
    }
    match growth_of(function.name())? {
        Growth::Fixed if !is_wrapped(function.name()) => Some(Arc::clone(function)),
        Growth::Fixed | Growth::Measured | Growth::Input(_) | Growth::Grows(_) => {
            let inner = Arc::clone(function);
            Some(Arc::new(ScalarUDF::new_from_impl(Bounded { inner })))
        }
    }
}

/// Returns true if an operator whose expressions call the function may make much of a large batch.
pub(crate) fn makes_values(function: &ScalarUDF) -> bool {
    !matches!(growth_of(function.name()), Some(Growth::Fixed))
}

/// A function whose values are charged before they are made.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
}

impl Bounded {
    /// Returns an upper bound of the bytes of the values for these arguments.
    fn bytes(&self, call: &Call<'_>) -> Result<u64> {
        let rows = call.rows as u64;
        let fixed = rows.saturating_mul(call.width);
        Ok(match growth_of(self.name()) {
            Some(Growth::Fixed | Growth::Measured) | None => {
                fixed.saturating_add(rows.saturating_mul(SHORT_BYTES))
            }
            Some(Growth::Input(factor)) => {
                call.bytes().saturating_mul(factor).saturating_add(fixed.saturating_mul(4))
            }
            Some(Growth::Grows(bound)) => bound(call)?.saturating_add(fixed.saturating_mul(4)),
        })
    }

    fn invoke_in_slices(
        &self,
        args: &ScalarFunctionArgs,
        slices: Vec<Slice>,
    ) -> Result<ColumnarValue> {
        let mut parts: Vec<ArrayRef> = Vec::with_capacity(slices.len());
        for Slice { rows, is_row_by_row } in slices {
            account::check_canceled()?;
            let slice = |value: &ColumnarValue| match value {
                ColumnarValue::Array(values) => {
                    ColumnarValue::Array(values.slice(rows.start, rows.len()))
                }
                constant => constant.clone(),
            };
            let part = ScalarFunctionArgs {
                args: args.args.iter().map(slice).collect(),
                arg_fields: args.arg_fields.clone(),
                number_rows: rows.len(),
                return_field: Arc::clone(&args.return_field),
                config_options: Arc::clone(&args.config_options),
            };
            parts.push(self.invoke_charged(part, is_row_by_row)?.into_array(rows.len())?);
        }
        let parts = parts.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }

    /// Charges the values, then makes them (bounded-1).
    fn invoke_charged(
        &self,
        args: ScalarFunctionArgs,
        is_row_by_row: bool,
    ) -> Result<ColumnarValue> {
        let (rows, result) = (args.number_rows, args.return_field.data_type());
        let call = match self.signature().volatility {
            Volatility::Volatile => Call::of_rows(&args.args, rows, result),
            _ => Call::new(&args.args, rows, result),
        };
        let bytes = self.bytes(&call)?;
        if bytes < COUNTED_VALUE_BYTES {
            let made = self.invoke_inner(args, is_row_by_row)?;
            self.assert_bound(&made, bytes);
            account::check_folded(self.name(), || size(&made))?;
            return Ok(made);
        }
        account::charge(self.name(), bytes)?;
        let constants = args.args.iter().filter_map(|arg| match arg {
            ColumnarValue::Scalar(value) => Some(constant_bytes(value)),
            ColumnarValue::Array(_) => None,
        });
        let taken = constants.collect::<Vec<_>>();
        let given = args.args.iter().filter_map(|arg| match arg {
            ColumnarValue::Array(values) => Some(values.to_data()),
            ColumnarValue::Scalar(_) => None,
        });
        let given = given.collect::<Vec<_>>();
        let made = self.invoke_inner(args, is_row_by_row)?;
        self.assert_bound(&made, bytes);
        match &made {
            ColumnarValue::Array(values) => account::made_array(&values.to_data(), &given),
            ColumnarValue::Scalar(value) => {
                account::made_constant(constant_bytes(value), taken.into_iter());
            }
        }
        Ok(made)
    }
}

impl Bounded {
    fn invoke_inner(&self, args: ScalarFunctionArgs, is_row_by_row: bool) -> Result<ColumnarValue> {
        match work_of(self.name()) {
            Work::RowByRow { one_row, .. } if is_row_by_row => one_row(&self.inner, args),
            // The others became casts of DataFusion.
            _ if CASTS.contains(&self.name()) => {
                far_dates::cast(self.name(), &args.args[0], args.return_field.data_type())
            }
            _ => self.inner.invoke_with_args(args),
        }
    }

    /// Asserts growth-1, for all calls in tests.
    fn assert_bound(&self, made: &ColumnarValue, bytes: u64) {
        if cfg!(debug_assertions) {
            let made = size(made);
            assert!(made <= bytes, "growth-1: {} made {made} bytes, not {bytes}", self.name());
        }
    }
}

fn size(value: &ColumnarValue) -> u64 {
    match value {
        ColumnarValue::Array(values) => bytes_of(values.as_ref()),
        ColumnarValue::Scalar(value) => constant_bytes(value),
    }
}

/// Functions that are defined for a part of the numbers, and `abs`. Asked for their order over a
/// larger range, or over one that is not known, they fail: then rows that are sorted by them would
/// count as unsorted.
const PARTLY_ORDERED: [&str; 9] =
    ["abs", "acos", "acosh", "asin", "atanh", "ln", "log10", "log2", "sqrt"];

/// Functions of a fixed growth whose types are bounded (type_size-1).
const MAKES_STRUCTS: [&str; 2] = ["named_struct", "struct"];

/// Returns true for a function of a fixed growth that is wrapped.
fn is_wrapped(name: &str) -> bool {
    PARTLY_ORDERED.contains(&name) || MAKES_STRUCTS.contains(&name)
}

/// Functions that add up their lengths before they check them, and panic where the sum is negative.
const PADDING: [&str; 2] = ["lpad", "rpad"];

/// Replaces negative lengths by 0, which they mean.
fn without_negatives(args: &mut ScalarFunctionArgs) {
    match args.args.get_mut(1) {
        Some(ColumnarValue::Array(lengths)) if *lengths.data_type() == DataType::Int64 => {
            let least = |length: i64| length.max(0);
            *lengths = Arc::new(lengths.as_primitive::<Int64Type>().unary::<_, Int64Type>(least));
        }
        Some(ColumnarValue::Scalar(ScalarValue::Int64(Some(length)))) => *length = (*length).max(0),
        _ => {}
    }
}

/// Checks bounded-4.
fn check_width(function: &str, made: &Expr) -> Result<()> {
    let field = match made {
        Expr::Cast(cast) => &cast.field,
        Expr::TryCast(cast) => &cast.field,
        _ => return Ok(()),
    };
    if width(field.data_type()) <= SYMBOL_BYTES as u64 {
        return Ok(());
    }
    let (function, mebibytes) = (function.to_owned(), VALUES_BYTES >> 20);
    Err(ClauseProblem::ValuesTooLarge { function, mebibytes }.into())
}

#[expect(deprecated, reason = "deprecated as the function is")]
impl ScalarUDFImpl for Bounded {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
        fn display_name(&self, args: &[Expr]) -> Result<String>;
        fn schema_name(&self, args: &[Expr]) -> Result<String>;
        fn signature(&self) -> &Signature;
        fn is_strict(&self) -> bool;
        fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>>;
        fn preimage(
            &self,
            args: &[Expr],
            literal: &Expr,
            info: &SimplifyContext,
        ) -> Result<PreimageResult>;
        fn short_circuits(&self) -> bool;
        fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval>;
        fn propagate_constraints(
            &self,
            interval: &Interval,
            inputs: &[&Interval],
        ) -> Result<Option<Vec<Interval>>>;
        fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool>;
        fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool>;
        fn documentation(&self) -> Option<&Documentation>;
        fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement;
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let made = self.inner.return_type(args)?;
        check_type(self.name(), &made)?;
        Ok(made)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::new_from_impl(Bounded { inner }))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        check_type_text(self.name(), args.scalar_arguments.iter().copied())?;
        let made = self.inner.return_field_from_args(args)?;
        check_type(self.name(), made.data_type())?;
        Ok(made)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let constants = args.iter().map(|arg| match arg {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        });
        check_type_text(self.name(), constants)?;
        if far_dates::is_checked(self.name(), &args)? {
            return Ok(ExprSimplifyResult::Original(args));
        }
        Ok(match self.inner.simplify(args, info)? {
            ExprSimplifyResult::Simplified(expr) => {
                check_width(self.name(), &expr)?;
                ExprSimplifyResult::Simplified(bound_expr(expr, info.schema())?)
            }
            original @ ExprSimplifyResult::Original(_) => original,
        })
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(self.inner.output_ordering(inputs).unwrap_or(SortProperties::Unordered))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if matches!(growth_of(self.name()), Some(Growth::Fixed)) {
            return self.inner.invoke_with_args(args);
        }
        account::check_canceled()?;
        if PADDING.contains(&self.name()) {
            without_negatives(&mut args);
        }
        // Some functions return constants as one value for each row.
        let is_constant = !args.args.is_empty()
            && self.signature().volatility != Volatility::Volatile
            && are_constant(&args.args);
        if is_constant {
            args.number_rows = 1;
        }
        let call = Call::new(&args.args, args.number_rows, args.return_field.data_type());
        account::check_folded(self.name(), || call.bytes())?;
        let mut slices = slices(self.name(), &call)?;
        let made = match slices.pop() {
            Some(last) if slices.is_empty() => self.invoke_charged(args, last.is_row_by_row)?,
            last => {
                slices.extend(last);
                self.invoke_in_slices(&args, slices)?
            }
        };
        match made {
            ColumnarValue::Array(values) => constant_or_array(values, is_constant),
            constant => Ok(constant),
        }
    }
}
