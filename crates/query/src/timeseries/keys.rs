//! Keys of LATEST ON and of joins in time, as bytes that are equal when the keys are.
//!
//! - -0 and 0 are one key, and so are all NaNs.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;

use crate::types::float_order::one_zero_and_nan;

/// A converter of columns to keys.
pub(super) struct KeyMaker {
    converter: RowConverter,
}

impl KeyMaker {
    pub(super) fn new(types: impl IntoIterator<Item = DataType>) -> Result<KeyMaker> {
        let fields = types.into_iter().map(SortField::new).collect();
        Ok(KeyMaker { converter: RowConverter::new(fields)? })
    }

    /// Returns the keys of all rows of these columns.
    pub(super) fn keys(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let columns = columns.iter().map(one_zero_and_nan).collect::<Vec<_>>();
        Ok(self.converter.convert_columns(&columns)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
