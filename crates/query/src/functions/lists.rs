//! Functions and operators of lists that PostgreSQL defines differently from DataFusion.
//!
//! - `array_remove` and `array_replace` apply to all elements that are the same, NULL too; an empty
//!   list has no dimensions, and so no length.
//! - `@>`, `<@` and `&&` are NULL where a list is, and no NULL in a list is the same as another
//!   one.
//!
//! Not here: the names of DuckDB (`list_remove`, `array_length` of one argument), which have
//! DuckDB's meaning.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, StringViewBuilder, UInt32Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::kernels::cmp::not_distinct;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{cast, filter, not, take};
use datafusion::arrow::datatypes::{DataType, Field, UInt64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::types::call_values::call_values;

/// The names of operators, which no query can write.
pub(crate) const LIST_CONTAINS: &str = "list @>";
pub(crate) const LIST_OVERLAPS: &str = "list &&";
/// `array_length(list, dimension)` of PostgreSQL.
pub(crate) const LIST_LENGTH: &str = "list length";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Remove,
    Replace,
    Dims,
    Ndims,
    Length,
    Contains,
    Overlaps,
}

const FUNCTIONS: [(&str, Kind); 7] = [
    ("array_remove", Kind::Remove),
    ("array_replace", Kind::Replace),
    ("array_dims", Kind::Dims),
    ("array_ndims", Kind::Ndims),
    (LIST_LENGTH, Kind::Length),
    (LIST_CONTAINS, Kind::Contains),
    (LIST_OVERLAPS, Kind::Overlaps),
];

/// Returns all functions.
pub(crate) fn list_functions() -> Vec<ScalarUDF> {
    let function = |&(name, kind): &(&'static str, Kind)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(ListFunction { name, kind, signature })
    };
    FUNCTIONS.iter().map(function).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListFunction {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

fn element(ty: &DataType) -> Option<&DataType> {
    match ty {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::FixedSizeList(field, _) => Some(field.data_type()),
        _ => None,
    }
}

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

impl ListFunction {
    fn no_match<T>(&self, args: &[DataType]) -> Result<T> {
        let args = args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        plan_err!("Function '{}' failed to match any signature with ({args})", self.name)
    }
}

impl ScalarUDFImpl for ListFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let common = |types: &[&DataType]| {
            let common = |a: Option<DataType>, b: &&DataType| comparison_coercion(&a?, b);
            let first = types.first().map(|ty| (*ty).clone());
            types.iter().skip(1).fold(first, common)
        };
        // NULL is accepted as a list.
        let elements = args.iter().map(|ty| if ty.is_null() { Some(ty) } else { element(ty) });
        let elements = elements.collect::<Vec<_>>();
        let types = match (self.kind, args, elements.as_slice()) {
            (Kind::Remove, [list, one], [Some(of), _]) if !one.is_nested() || list.is_null() => {
                common(&[of, one]).map(|ty| vec![list_of(ty.clone()), ty])
            }
            (Kind::Replace, [_, old, new], [Some(of), ..]) => {
                common(&[of, old, new]).map(|ty| vec![list_of(ty.clone()), ty.clone(), ty])
            }
            (Kind::Contains | Kind::Overlaps, [_, _], [Some(left), Some(right)]) => {
                common(&[left, right]).map(|ty| vec![list_of(ty.clone()), list_of(ty)])
            }
            (Kind::Dims | Kind::Ndims, [_], [Some(of)]) => Some(vec![list_of((*of).clone())]),
            (Kind::Length, [_, dimension], [Some(of), _])
                if dimension.is_integer() || dimension.is_null() =>
            {
                Some(vec![list_of((*of).clone()), DataType::Int64])
            }
            _ => None,
        };
        let is_flat = |types: &Vec<DataType>| {
            let is_whole = matches!(self.kind, Kind::Dims | Kind::Ndims | Kind::Length);
            is_whole || element(&types[0]).is_some_and(|it| !it.is_nested())
        };
        types.filter(is_flat).map_or_else(|| self.no_match(args), Ok)
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Remove | Kind::Replace => args[0].clone(),
            Kind::Dims => DataType::Utf8View,
            Kind::Ndims | Kind::Length => DataType::Int32,
            Kind::Contains | Kind::Overlaps => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        call_values(&args.args, args.number_rows, |arrays, rows| {
            let list = |at: usize| arrays[at].as_list::<i32>();
            Ok(match self.kind {
                Kind::Remove => Arc::new(removed(list(0), &arrays[1])?),
                Kind::Replace => Arc::new(replaced(list(0), &arrays[1], &arrays[2])?),
                Kind::Dims => dims(list(0)),
                Kind::Ndims => {
                    let count = |row| i32::try_from(dimensions(list(0), row).len()).ok();
                    let count = |row| count(row).filter(|it| *it != 0);
                    Arc::new((0..rows).map(count).collect::<Int32Array>())
                }
                Kind::Length => {
                    let numbers = cast(&arrays[1], &DataType::UInt64)?;
                    let numbers = numbers.as_primitive::<UInt64Type>();
                    let length = |row: usize| {
                        let number = numbers.is_valid(row).then(|| numbers.value(row))?;
                        let at = usize::try_from(number.checked_sub(1)?).ok()?;
                        i32::try_from(*dimensions(list(0), row).get(at)?).ok()
                    };
                    Arc::new((0..rows).map(length).collect::<Int32Array>())
                }
                Kind::Contains => Arc::new(compared(list(0), list(1), true)?),
                Kind::Overlaps => Arc::new(compared(list(0), list(1), false)?),
            })
        })
    }
}

/// Returns the elements of all lists, and the row of each.
fn elements(lists: &ListArray) -> (ArrayRef, UInt32Array) {
    let offsets = lists.value_offsets();
    let place = |at: usize| usize::try_from(offsets[at]).expect("offsets ascend from 0");
    let (first, last) = (place(0), place(lists.len()));
    let rows = (0..lists.len()).flat_map(|row| {
        let number = u32::try_from(row).expect("a batch is small");
        std::iter::repeat_n(number, place(row + 1) - place(row))
    });
    (lists.values().slice(first, last - first), rows.collect())
}

/// Compares each element with the value of its row.
fn same(lists: &ListArray, values: &ArrayRef) -> Result<(ArrayRef, UInt32Array, BooleanArray)> {
    let (elements, rows) = elements(lists);
    let wanted = take(values.as_ref(), &rows, None)?;
    let same = not_distinct(&elements, &wanted)?;
    Ok((elements, rows, same))
}

fn item(lists: &ListArray) -> Arc<Field> {
    Arc::new(Field::new_list_field(lists.value_type(), true))
}

fn removed(lists: &ListArray, values: &ArrayRef) -> Result<ListArray> {
    let (elements, rows, same) = same(lists, values)?;
    let kept = not(&same)?;
    let mut lengths = vec![0; lists.len()];
    for (row, _) in rows.values().iter().zip(kept.values()).filter(|(_, is_kept)| *is_kept) {
        lengths[*row as usize] += 1;
    }
    let elements = filter(&elements, &kept)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(ListArray::try_new(item(lists), offsets, elements, lists.nulls().cloned())?)
}

fn replaced(lists: &ListArray, old: &ArrayRef, new: &ArrayRef) -> Result<ListArray> {
    let (elements, rows, same) = same(lists, old)?;
    let elements = zip(&same, &take(new.as_ref(), &rows, None)?, &elements)?;
    let offsets = lists.value_offsets();
    let lengths = offsets.windows(2).map(|pair| usize::try_from(pair[1] - pair[0]).unwrap_or(0));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(ListArray::try_new(item(lists), offsets, elements, lists.nulls().cloned())?)
}

/// Returns the length of a list, that of its first element, and so on; nothing for an empty one.
fn dimensions(lists: &ListArray, row: usize) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut list = lists.is_valid(row).then(|| lists.value(row));
    while let Some(values) = list.filter(|values| !values.is_empty()) {
        lengths.push(values.len());
        list = match values.data_type() {
            DataType::List(_) if values.is_valid(0) => Some(values.as_list::<i32>().value(0)),
            _ => None,
        };
    }
    lengths
}

fn dims(lists: &ListArray) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(lists.len());
    for row in 0..lists.len() {
        let mut text = String::new();
        for length in dimensions(lists, row) {
            let _ = write!(text, "[1:{length}]");
        }
        builder.append_option(Some(text).filter(|text| !text.is_empty()));
    }
    Arc::new(builder.finish())
}

/// Compares lists by sets of their elements: all of the right list, or any.
fn compared(left: &ListArray, right: &ListArray, is_all: bool) -> Result<BooleanArray> {
    let converter = RowConverter::new(vec![SortField::new(left.value_type())])?;
    let of_list = |lists: &ListArray, row: usize| {
        let values = lists.value(row);
        converter.convert_columns(&[Arc::clone(&values)]).map(|rows| (values, rows))
    };
    let answer = |row: usize| -> Result<Option<bool>> {
        if left.is_null(row) || right.is_null(row) {
            return Ok(None);
        }
        let (values, rows) = of_list(left, row)?;
        let known = (0..values.len()).filter(|at| values.is_valid(*at)).map(|at| rows.row(at));
        let known = known.collect::<HashSet<_>>();
        let (values, rows) = of_list(right, row)?;
        let mut found =
            (0..values.len()).map(|at| values.is_valid(at) && known.contains(&rows.row(at)));
        Ok(Some(if is_all { found.all(|it| it) } else { found.any(|it| it) }))
    };
    (0..left.len()).map(answer).collect()
}
