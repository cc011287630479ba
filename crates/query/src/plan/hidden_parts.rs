//! Parts of an expression that are hidden from rules: each is an argument of a function that no
//! rule knows, until it is shown again.
//!
//! - The function has the type and the name of the part, so that the columns of a plan keep theirs.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// The kinds of hidden parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A part that rules do not compare with others, or look into.
    Apart,
}

/// Hides a part.
pub(super) fn hide(part: &mut Expr, kind: Kind) {
    *part = hidden(kind, vec![std::mem::take(part)]);
}

pub(super) fn is_hidden(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Hidden>())
}

/// Returns the part that an expression hides, and any other expression as it is.
pub(super) fn shown(expr: Expr) -> Result<Expr> {
    let Expr::ScalarFunction(ScalarFunction { func, mut args }) = expr else { return Ok(expr) };
    if !func.inner().is::<Hidden>() {
        return Ok(Expr::ScalarFunction(ScalarFunction { func, args }));
    }
    match args.pop() {
        Some(part) => Ok(part),
        None => internal_err!("`{}` hides nothing", func.name()),
    }
}

/// Returns the one part that an expression hides, if it does.
pub(super) fn inside(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<Hidden>() => match &call.args[..] {
            [part] => Some(part),
            _ => None,
        },
        _ => None,
    }
}

fn hidden(kind: Kind, parts: Vec<Expr>) -> Expr {
    let signature = Signature::any(parts.len(), Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(Hidden { kind, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, parts))
}

/// The function that stands for a part.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Hidden {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Hidden {
    fn name(&self) -> &'static str {
        "hidden part"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [part] => Ok(part.schema_name().to_string()),
            _ => internal_err!("`{}` has one argument", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = &args.arg_fields[0];
        Ok(Arc::clone(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
