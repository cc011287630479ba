//! Keys of LATEST ON and of joins in time, as bytes that are equal when the keys are.
//!
//! - Y1. -0 and 0 are one key, and so are all NaNs.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;

/// Makes keys of columns.
pub(super) struct KeyMaker {
    converter: RowConverter,
}

impl KeyMaker {
    pub(super) fn new(types: impl IntoIterator<Item = DataType>) -> Result<KeyMaker> {
        let fields = types.into_iter().map(SortField::new).collect();
        Ok(KeyMaker { converter: RowConverter::new(fields)? })
    }

    /// The keys of all rows of these columns.
    pub(super) fn keys(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let columns = columns.iter().map(normal).collect::<Vec<_>>();
        Ok(self.converter.convert_columns(&columns)?)
    }
}

/// Y1.
fn normal(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let one = |x: f32| if x.is_nan() { f32::NAN } else { x + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        DataType::Float64 => {
            let one = |x: f64| if x.is_nan() { f64::NAN } else { x + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Float64Array;

    use super::*;

    #[test]
    fn zeros_are_one_key_and_nans_too() {
        let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
        let column = Float64Array::from(vec![0.0, -0.0, f64::NAN, other_nan, -f64::NAN, 1.0]);
        let keys = KeyMaker::new([DataType::Float64]).unwrap();
        let rows = keys.keys(&[Arc::new(column) as ArrayRef]).unwrap();
        assert_eq!(rows.row(0), rows.row(1));
        assert_eq!(rows.row(2), rows.row(3));
        assert_eq!(rows.row(2), rows.row(4));
        assert_ne!(rows.row(0), rows.row(5));
    }
}
