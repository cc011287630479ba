//! `coalesce` of times and texts: `coalesce(max(ts), '1970-01-01')` is a time, as in PostgreSQL.
//!
//! - Beside other types the arguments have the type that DataFusion finds.
//! - The texts become times like all others in statements (`plan::time_texts`).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions::core::coalesce;
use datafusion::logical_expr::binary::type_union_resolution;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

/// Returns the function.
pub(crate) fn first_alternative() -> ScalarUDF {
    ScalarUDF::new_from_impl(Coalesce { inner: coalesce() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    inner: Arc<ScalarUDF>,
}

/// Returns the type of the times among some times and texts.
fn type_of_times(args: &[DataType]) -> Option<DataType> {
    let times = args.iter().filter(|ty| !ty.is_string() && !ty.is_null());
    let times = times.cloned().collect::<Vec<_>>();
    let are_times = times.iter().all(DataType::is_temporal);
    are_times.then(|| type_union_resolution(&times)).flatten()
}

impl ScalarUDFImpl for Coalesce {
    delegate! { inner:
        fn name(&self) -> &str;
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef>;
        fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult>;
        fn short_circuits(&self) -> bool;
        fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue>;
        fn documentation(&self) -> Option<&Documentation>;
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(args).or_else(|error| match type_of_times(args) {
            Some(ty) => Ok(vec![ty; args.len()]),
            None => Err(error),
        })
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }
}
