//! `array_concat` and `array_cat` with NULL among their arguments: it is a list without elements,
//! as in PostgreSQL. DataFusion takes a NULL without a type for an element, and refuses it.
//!
//! Not here: `||` of a list and NULL (`plan::list_calls`).

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions_nested::concat::array_concat_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// Returns the function.
pub(crate) fn list_concat() -> ScalarUDF {
    ScalarUDF::new_from_impl(ListConcat { inner: array_concat_udf() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListConcat {
    /// The function of DataFusion.
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for ListConcat {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn documentation(&self) -> Option<&Documentation>;
        fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue>;
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let list = self.inner.return_type(args)?;
        let types = self.inner.coerce_types(args)?.into_iter().zip(args);
        Ok(types.map(|(ty, arg)| if arg.is_null() { list.clone() } else { ty }).collect())
    }
}
