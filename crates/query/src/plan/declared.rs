//! A function that returns its argument, with declared metadata and nullability.
//!
//! - It changes no value, and no rule looks through it: the metadata and the nullability of the
//!   field stay as they are declared.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Returns `expr` with the metadata of a field.
pub(super) fn with_metadata(expr: Expr, of: &FieldRef) -> Expr {
    let metadata = of.metadata().iter().map(|(key, value)| (key.clone(), value.clone()));
    let mut metadata = metadata.collect::<Vec<_>>();
    metadata.sort();
    declared(expr, Declaration::Metadata(metadata))
}

/// Returns `expr` as one that may be NULL.
pub(super) fn nullable(expr: Expr) -> Expr {
    declared(expr, Declaration::Nullable)
}

fn declared(expr: Expr, declaration: Declaration) -> Expr {
    // Volatile, because a rule would replace that of a constant by the constant.
    let signature = Signature::any(1, Volatility::Volatile);
    let function = Arc::new(ScalarUDF::new_from_impl(Declared { signature, declaration }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Declaration {
    /// The keys and values, sorted.
    Metadata(Vec<(String, String)>),
    Nullable,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Declared {
    signature: Signature,
    declaration: Declaration,
}

impl ScalarUDFImpl for Declared {
    fn name(&self) -> &'static str {
        "as told"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = &args.arg_fields[0];
        Ok(match &self.declaration {
            Declaration::Metadata(metadata) => {
                let told = Field::new(self.name(), field.data_type().clone(), field.is_nullable());
                let metadata = metadata.iter().cloned().collect::<HashMap<_, _>>();
                Arc::new(told.with_metadata(metadata))
            }
            Declaration::Nullable => Arc::new(field.as_ref().clone().with_nullable(true)),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
