//! The operator `||` of texts and of bytes, as one function of all its operands.
//!
//! - `a || b || c` is one call of three arguments, which writes each byte once: calls of two
//!   arguments would copy the result so far again. As a function its values are charged
//!   (bounded-1).
//! - NULL and a text are NULL: `concat` skips NULL.
//! - text_concat-1. A column keeps the name and the type that the operator gives it.
//!
//! Not here: `||` of lists, which DataFusion plans as `array_concat` and similar functions.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BinaryViewArray, StringBuilder, StringViewArray,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::concat_elements::concat_elements_dyn;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::types::call_values::{are_constant, constant_or_array};

/// The name of the function, which no statement can call.
pub(super) const TEXT_CONCAT: &str = "||";

/// Returns the function.
pub(crate) fn text_concat() -> ScalarUDF {
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::new_from_impl(TextConcat { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TextConcat {
    signature: Signature,
}

impl ScalarUDFImpl for TextConcat {
    fn name(&self) -> &'static str {
        TEXT_CONCAT
    }

    // text_concat-1.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names = args.iter().map(|arg| arg.schema_name().to_string());
        Ok(names.collect::<Vec<_>>().join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let Some(first) = args.first() else { return internal_err!("{TEXT_CONCAT} has operands") };
        let width = |ty: &DataType| match ty {
            DataType::FixedSizeBinary(width) => *width,
            _ => 0,
        };
        Ok(match first {
            DataType::FixedSizeBinary(_) => {
                DataType::FixedSizeBinary(args.iter().map(width).fold(0, i32::saturating_add))
            }
            ty => ty.clone(),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone());
        let ty = self.return_type(&types.collect::<Vec<_>>())?;
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), ty, is_nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let is_null = |arg: &Expr| match arg {
            Expr::Literal(ScalarValue::FixedSizeBinary(..), _) => false,
            Expr::Literal(value, _) => value.is_null(),
            _ => false,
        };
        match args.iter().find(|arg| is_null(arg)) {
            Some(null) => Ok(ExprSimplifyResult::Simplified(null.clone())),
            None => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ty = args.return_type().clone();
        let is_null =
            |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(value) if value.is_null());
        if args.args.iter().any(is_null) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&ty)?));
        }
        let is_constant = are_constant(&args.args);
        let rows = if is_constant { 1 } else { args.number_rows };
        constant_or_array(joined(&args.args, rows, &ty)?, is_constant)
    }
}

/// Returns the arguments of the call for two operands, each of which may be such a call itself.
pub(crate) fn operands(BinaryExpr { left, right, .. }: BinaryExpr) -> Vec<Expr> {
    let parts = |side: Expr| match side {
        Expr::ScalarFunction(call) if call.func.name() == TEXT_CONCAT => call.args,
        side => vec![side],
    };
    let mut all = parts(*left);
    all.extend(parts(*right));
    all
}

/// An operand that is cast to an array in which values are views.
enum Part<V> {
    One(V),
    Each(V),
}

impl<V> Part<V> {
    /// Returns the array, and the index of a row in it.
    fn at(&self, row: usize) -> (&V, usize) {
        match self {
            Part::One(values) => (values, 0),
            Part::Each(values) => (values, row),
        }
    }
}

fn joined(args: &[ColumnarValue], rows: usize, ty: &DataType) -> Result<ArrayRef> {
    if matches!(ty, DataType::FixedSizeBinary(_)) {
        return joined_fixed(args, rows);
    }
    let nulls = args.iter().fold(None, |nulls, arg| match arg {
        ColumnarValue::Array(values) => NullBuffer::union(nulls.as_ref(), values.nulls()),
        ColumnarValue::Scalar(_) => nulls,
    });
    let part = |arg: &ColumnarValue, ty: &DataType| -> Result<Part<ArrayRef>> {
        Ok(match arg {
            ColumnarValue::Array(values) => Part::Each(cast(values, ty)?),
            ColumnarValue::Scalar(value) => Part::One(cast(&value.to_array()?, ty)?),
        })
    };
    let made = match ty {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let parts = args.iter().map(|arg| part(arg, &DataType::Utf8View));
            joined_texts(parts.collect::<Result<Vec<_>>>()?, rows, nulls.as_ref())
        }
        _ => {
            let parts = args.iter().map(|arg| part(arg, &DataType::BinaryView));
            joined_bytes(parts.collect::<Result<Vec<_>>>()?, rows, nulls.as_ref())?
        }
    };
    Ok(cast(&made, ty)?)
}

fn joined_texts(parts: Vec<Part<ArrayRef>>, rows: usize, nulls: Option<&NullBuffer>) -> ArrayRef {
    let view = |part: Part<ArrayRef>| -> Part<StringViewArray> {
        match part {
            Part::One(values) => Part::One(values.as_string_view().clone()),
            Part::Each(values) => Part::Each(values.as_string_view().clone()),
        }
    };
    let parts = parts.into_iter().map(view).collect::<Vec<_>>();
    let bytes = parts.iter().map(|part| match part {
        Part::One(values) => values.value(0).len() * rows,
        Part::Each(values) => values.lengths().map(|length| length as usize).sum(),
    });
    let mut builder = StringBuilder::with_capacity(rows, bytes.sum());
    for row in 0..rows {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            builder.append_null();
            continue;
        }
        for part in &parts {
            let (values, at) = part.at(row);
            builder.write_str(values.value(at)).expect("memory takes all");
        }
        builder.append_value("");
    }
    Arc::new(builder.finish())
}

fn joined_bytes(
    parts: Vec<Part<ArrayRef>>,
    rows: usize,
    nulls: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    let view = |part: Part<ArrayRef>| -> Part<BinaryViewArray> {
        match part {
            Part::One(values) => Part::One(values.as_binary_view().clone()),
            Part::Each(values) => Part::Each(values.as_binary_view().clone()),
        }
    };
    let parts = parts.into_iter().map(view).collect::<Vec<_>>();
    let mut builder = BinaryBuilder::new();
    for row in 0..rows {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            builder.append_null();
            continue;
        }
        for part in &parts {
            let (values, at) = part.at(row);
            builder.write_all(values.value(at)).expect("memory takes all");
        }
        builder.append_value(b"");
    }
    Ok(Arc::new(builder.finish()))
}

/// Joins values of a fixed width, pair by pair: they are short.
fn joined_fixed(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let mut arrays = args.iter().map(|arg| arg.to_array(rows));
    let Some(first) = arrays.next() else { return internal_err!("{TEXT_CONCAT} has operands") };
    arrays.try_fold(first?, |left, right| Ok(concat_elements_dyn(&left, &right?)?))
}
