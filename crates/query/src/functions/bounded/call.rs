//! The arguments of a call, and the sizes of their values.
//!
//! - A size is that of the values themselves, however they are shared: a text that a thousand rows
//!   share counts a thousand times, as it would after a copy.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

use crate::types::call_values::are_constant;
use crate::value_bytes::{VALUE_BYTES, bytes_of, constant_bytes, viewed, width};

/// The arguments of a function call, for a number of rows: one if all arguments are constants.
pub(crate) struct Call<'a> {
    pub(super) args: Vec<Argument<'a>>,
    pub(super) rows: usize,
    /// The smallest number of bytes of a value of the result, for any arguments.
    pub(super) width: u64,
}

/// One argument of a call. A constant is one value, not repeated for each row.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'a> {
    pub(super) value: &'a ColumnarValue,
    pub(super) rows: usize,
}

/// The texts of an argument.
pub(crate) enum Texts<'a> {
    One(Option<&'a str>),
    Each(StringViewArray),
}

impl<'a> Call<'a> {
    pub(super) fn new(args: &'a [ColumnarValue], rows: usize, result: &DataType) -> Call<'a> {
        Call::of_rows(args, if are_constant(args) { 1 } else { rows }, result)
    }

    /// A call that makes a value for each row, of constants too.
    pub(super) fn of_rows(args: &'a [ColumnarValue], rows: usize, result: &DataType) -> Call<'a> {
        let args = args.iter().map(|value| Argument { value, rows }).collect();
        Call { args, rows, width: width(result) }
    }

    /// The bytes of all arguments, as often as there are rows.
    pub(super) fn bytes(&self) -> u64 {
        self.args.iter().map(|arg| arg.bytes()).fold(0, u64::saturating_add)
    }

    /// The bytes of all constants, copied to each row.
    pub(super) fn broadcast_bytes(&self) -> u64 {
        let constants = self.args.iter().filter_map(|arg| match arg.value {
            ColumnarValue::Scalar(value) => Some(constant_bytes(value)),
            ColumnarValue::Array(_) => None,
        });
        constants.fold(0, u64::saturating_add).saturating_mul(self.rows as u64)
    }

    /// The argument at this position; `None` behind the last.
    pub(super) fn arg(&self, number: usize) -> Option<Argument<'a>> {
        self.args.get(number).copied()
    }
}

impl<'a> Argument<'a> {
    /// Returns the argument cast to a type: one value for a constant, else one for each row.
    pub(super) fn cast_to(self, ty: &DataType) -> Result<ArrayRef> {
        let values = match self.value {
            ColumnarValue::Array(values) => Arc::clone(values),
            ColumnarValue::Scalar(value) => value.to_array()?,
        };
        Ok(cast(&values, ty)?)
    }

    /// Returns the index of the value of a row in its array.
    pub(super) fn value_idx(self, row: usize) -> usize {
        if matches!(self.value, ColumnarValue::Scalar(_)) { 0 } else { row }
    }

    pub(super) fn integers(self) -> Result<Vec<Option<i64>>> {
        self.integers_of(&DataType::Int64)
    }

    /// Returns the values cast to a type and then to integers, one for each row.
    pub(super) fn integers_of(self, ty: &DataType) -> Result<Vec<Option<i64>>> {
        let values = cast(&self.cast_to(ty)?, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>();
        let value = |at| values.is_valid(at).then(|| values.value(at));
        Ok((0..self.rows).map(|row| value(self.value_idx(row))).collect())
    }

    pub(super) fn texts(self) -> Result<Texts<'a>> {
        if let ColumnarValue::Scalar(value) = self.value
            && let Some(text) = value.try_as_str()
        {
            return Ok(Texts::One(text));
        }
        let texts = self.cast_to(&DataType::Utf8View)?;
        Ok(match self.value {
            ColumnarValue::Array(_) => Texts::Each(texts.as_string_view().clone()),
            // A constant of another type: its text is short.
            ColumnarValue::Scalar(_) => {
                let each = (0..self.rows)
                    .map(|_| texts.is_valid(0).then(|| texts.as_string_view().value(0)));
                Texts::Each(each.collect())
            }
        })
    }

    /// The bytes of all values, as often as there are rows.
    pub(super) fn bytes(self) -> u64 {
        match self.value {
            ColumnarValue::Array(values) => bytes_of(values.as_ref()),
            ColumnarValue::Scalar(value) => {
                constant_bytes(value).saturating_add(VALUE_BYTES).saturating_mul(self.rows as u64)
            }
        }
    }

    /// The bytes of each value.
    pub(super) fn sizes(self) -> Vec<u64> {
        match self.value {
            ColumnarValue::Scalar(value) => vec![constant_bytes(value); self.rows],
            ColumnarValue::Array(values) => sizes_of(values.as_ref()),
        }
    }

    /// Returns the number of elements of each list; 1 for a value that is no list.
    pub(super) fn counts(self) -> Vec<u64> {
        let lengths = |values: &dyn Array| lengths_of(values);
        match self.value {
            ColumnarValue::Array(values) => {
                lengths(values.as_ref()).unwrap_or_else(|| vec![1; self.rows])
            }
            ColumnarValue::Scalar(value) => {
                let one = match value {
                    ScalarValue::List(list) => lengths(list.as_ref()),
                    ScalarValue::LargeList(list) => lengths(list.as_ref()),
                    ScalarValue::FixedSizeList(list) => lengths(list.as_ref()),
                    _ => None,
                };
                vec![one.and_then(|it| it.first().copied()).unwrap_or(1); self.rows]
            }
        }
    }
}

impl Texts<'_> {
    pub(super) fn of_row(&self, row: usize) -> Option<&str> {
        match self {
            Texts::One(text) => *text,
            Texts::Each(texts) => texts.is_valid(row).then(|| texts.value(row)),
        }
    }
}

/// The bytes of each value of an array.
fn sizes_of(values: &dyn Array) -> Vec<u64> {
    match values.data_type() {
        DataType::Utf8View => values.as_string_view().lengths().map(u64::from).collect(),
        DataType::Dictionary(_, ty) => match cast(&values.slice(0, values.len()), &viewed(ty)) {
            Ok(values) => sizes_of(values.as_ref()),
            Err(_) => vec![values.get_array_memory_size() as u64; values.len()],
        },
        ty if ty.is_string() || ty.is_nested() || ty.is_binary() => {
            (0..values.len()).map(|row| bytes_of(values.slice(row, 1).as_ref())).collect()
        }
        ty => vec![width(ty); values.len()],
    }
}

/// Returns the numbers of elements of the lists of an array.
fn lengths_of(values: &dyn Array) -> Option<Vec<u64>> {
    let size = |length: i64| u64::try_from(length).unwrap_or(0);
    let rows = 0..values.len();
    Some(match values.data_type() {
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            rows.map(|row| size(lists.value_length(row).into())).collect()
        }
        DataType::LargeList(_) => {
            let lists = values.as_list::<i64>();
            rows.map(|row| size(lists.value_length(row))).collect()
        }
        DataType::FixedSizeList(_, count) => vec![size((*count).into()); values.len()],
        DataType::Map(..) => {
            let maps = values.as_map();
            rows.map(|row| size(maps.value_length(row).into())).collect()
        }
        _ => return None,
    })
}
