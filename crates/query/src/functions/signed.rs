//! Functions for lengths and positions in lists, which return INT.
//!
//! - They are INTs as in PostgreSQL. DataFusion's own are UBIGINTs, which are DECIMALs beside a
//!   BIGINT, so that `7 / cardinality(x)` would have a fraction.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::functions_nested::cardinality::cardinality_udf;
use datafusion::functions_nested::length::array_length_udf;
use datafusion::functions_nested::position::{array_position_udf, array_positions_udf};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// Returns all functions.
pub(crate) fn signed_functions() -> Vec<ScalarUDF> {
    [cardinality_udf(), array_length_udf(), array_position_udf(), array_positions_udf()]
        .map(|inner| ScalarUDF::new_from_impl(Signed { inner }))
        .into()
}

/// A function of DataFusion with signed integers as results.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Signed {
    inner: Arc<ScalarUDF>,
}

fn signed(ty: DataType) -> DataType {
    match ty {
        DataType::UInt64 => DataType::Int32,
        DataType::List(field) => {
            let element = signed(field.data_type().clone());
            DataType::List(Arc::new(field.as_ref().clone().with_data_type(element)))
        }
        ty => ty,
    }
}

impl ScalarUDFImpl for Signed {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
        fn signature(&self) -> &Signature;
        fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>>;
        fn documentation(&self) -> Option<&Documentation>;
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        self.inner.return_type(args).map(signed)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone());
        let inner = self.inner.return_type(&types.collect::<Vec<_>>())?;
        let ty = signed(inner.clone());
        args.return_field = Arc::new(Field::new(self.name(), inner, true));
        self.inner.invoke_with_args(args)?.cast_to(&ty, None)
    }
}
