//! The function that gives the start of a row's bucket, for SAMPLE BY.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, TimestampMicrosecondArray, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{
    DataType, FieldRef, Int64Type, TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use tidegate_model::TimeUnit;

use crate::types::bucket::{Grid, Origin, Stride};

/// A function that returns the start of the bucket of a time. The second argument, if there is one,
/// is the first instant of bucket 0.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SampleBucket {
    pub(crate) stride: Stride,
    pub(crate) unit: TimeUnit,
    pub(crate) grid: Option<Grid>,
    pub(crate) signature: Signature,
}

/// Returns the stride of a function's buckets, if it is that of a SAMPLE BY.
pub(crate) fn bucket_stride(function: &ScalarUDF) -> Option<Stride> {
    function.inner().downcast_ref::<SampleBucket>().map(|bucket| bucket.stride)
}

/// Returns the buckets of such a function, if they do not depend on the rows.
pub(crate) fn bucket_grid(function: &ScalarUDF) -> Option<Grid> {
    function.inner().downcast_ref::<SampleBucket>().and_then(|bucket| bucket.grid)
}

impl ScalarUDFImpl for SampleBucket {
    fn name(&self) -> &'static str {
        "sample_by"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    /// Returns the field with the name that the column is stored under.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields[0].as_ref();
        Ok(Arc::new(field.clone().with_name(self.name())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let times = args.args[0].to_array(args.number_rows)?;
        let grid = match (self.grid, args.args.get(1)) {
            (Some(grid), _) => grid,
            (None, Some(first)) => {
                let first = first.to_array(args.number_rows.max(1))?;
                let first = first.as_primitive::<Int64Type>().value(0);
                Grid::new(self.stride, self.unit, None, Origin::Instant(first))?
            }
            (None, None) => return plan_err!("sample_by has a grid or a first instant"),
        };
        let (nulls, ty) = (times.nulls().cloned(), times.data_type().clone());
        Ok(ColumnarValue::Array(match self.unit {
            TimeUnit::Micros => {
                let times = times.as_primitive::<TimestampMicrosecondType>();
                let floors = grid.floor_all(times.values()).into();
                Arc::new(TimestampMicrosecondArray::new(floors, nulls).with_data_type(ty))
            }
            TimeUnit::Nanos => {
                let times = times.as_primitive::<TimestampNanosecondType>();
                let floors = grid.floor_all(times.values()).into();
                Arc::new(TimestampNanosecondArray::new(floors, nulls).with_data_type(ty))
            }
        }))
    }
}
