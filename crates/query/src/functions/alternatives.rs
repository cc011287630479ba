//! `coalesce` of texts beside times, UUIDs and BINARYs: `coalesce(max(ts), '1970-01-01')` is a
//! time, as in PostgreSQL.
//!
//! - Beside other types the arguments have the type that DataFusion finds.
//! - The texts become times like all others in statements (`plan::time_texts`), or values of the
//!   other types before the statement runs (`plan::coerce`), which refuses columns of texts there.
//! - NULL beside a UUID or a BINARY is one.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
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

/// Returns the one type of bytes among some bytes and texts.
fn type_of_bytes(args: &[DataType]) -> Option<DataType> {
    let mut others = args.iter().filter(|ty| !ty.is_string() && !ty.is_null());
    let first = others.next()?;
    let are_bytes = matches!(first, DataType::FixedSizeBinary(_) | DataType::BinaryView);
    (are_bytes && others.all(|ty| ty == first)).then(|| first.clone())
}

/// Returns the type of an argument among bytes of a type.
fn of_bytes<'t>(arg: &'t DataType, bytes: &'t DataType) -> &'t DataType {
    if arg.is_string() { arg } else { bytes }
}

impl ScalarUDFImpl for Coalesce {
    delegate! { inner:
        fn name(&self) -> &str;
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult>;
        fn short_circuits(&self) -> bool;
        fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue>;
        fn documentation(&self) -> Option<&Documentation>;
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(args).or_else(|error| {
            if let Some(ty) = type_of_times(args) {
                return Ok(vec![ty; args.len()]);
            }
            match type_of_bytes(args) {
                // Arrow casts no text to such a type: the texts stay until they are values of it.
                Some(ty) => Ok(args.iter().map(|it| of_bytes(it, &ty).clone()).collect()),
                None => Err(error),
            }
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone());
        let Some(ty) = type_of_bytes(&types.collect::<Vec<_>>()) else {
            return self.inner.return_field_from_args(args);
        };
        let is_nullable = args.arg_fields.iter().all(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), ty, is_nullable)))
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }
}
