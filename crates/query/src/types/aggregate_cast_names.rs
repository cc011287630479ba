//! Names for casts in calls of aggregates: DataFusion leaves them out, so that `sum(n)` and
//! `sum(n::DOUBLE)` would be one column.
//!
//! - They stand in such calls as functions only until a plan is made (`plan::coerce`).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    SortExpr, Volatility,
};

use super::tree_changes::ChangeParts;

/// Returns the expression with a name for each of its casts.
pub(crate) fn with_named_casts(expr: Expr) -> Result<Expr> {
    let named = expr.change_parts(&mut |expr| {
        let (inner, field, is_try) = match expr {
            Expr::Cast(Cast { expr, field }) => (expr, field, false),
            Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
            expr => return Ok(Transformed::no(expr)),
        };
        let verb = if is_try { "try cast" } else { "cast" };
        let name = format!("{verb} to {}", field.data_type());
        let signature = Signature::any(1, Volatility::Immutable);
        let function =
            Arc::new(ScalarUDF::new_from_impl(NamedCast { name, field, is_try, signature }));
        let call = ScalarFunction::new_udf(function, vec![*inner]);
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    })?;
    Ok(named.data)
}

/// Does the same for a sort expression of a call.
pub(crate) fn with_named_sort_casts(by: SortExpr) -> Result<SortExpr> {
    Ok(SortExpr { expr: with_named_casts(by.expr)?, ..by })
}

/// Returns the cast that a function stands for, or the function again.
pub(crate) fn plain_cast(mut call: ScalarFunction) -> std::result::Result<Expr, ScalarFunction> {
    let Some(NamedCast { field, is_try, .. }) = call.func.inner().downcast_ref() else {
        return Err(call);
    };
    let (field, is_try) = (Arc::clone(field), *is_try);
    let expr = Box::new(call.args.remove(0));
    Ok(if is_try {
        Expr::TryCast(TryCast { expr, field })
    } else {
        Expr::Cast(Cast { expr, field })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedCast {
    name: String,
    field: FieldRef,
    is_try: bool,
    signature: Signature,
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let is_nullable = self.is_try || args.arg_fields[0].is_nullable();
        let field = self.field.as_ref().clone();
        Ok(Arc::new(field.with_name(&self.name).with_nullable(is_nullable)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a cast in a call was not made one again")
    }
}
