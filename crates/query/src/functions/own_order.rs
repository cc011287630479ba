//! Aggregates that sort their rows themselves, where the rows below come in another order.
//!
//! - own_order-1. A wrapped aggregate receives the rows of a group in the order of its ORDER BY,
//!   rows with equal keys as they came, and has no ORDER BY of its own. Its value is that of the
//!   plain aggregate over sorted rows.
//! - own_order-2. All rows of a group are kept until it ends, and counted as its memory: they share
//!   no memory with the rows of other groups.
//! - own_order-3. With DISTINCT, the values sort themselves by the argument. The key is not
//!   compared with the argument again, as rules rewrite the two in different ways.
//!
//! Not here: the choice of the calls that are wrapped (`plan::aggregate_orders`).

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, UInt64Array};
use datafusion::arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};
use datafusion::physical_expr::PhysicalSortExpr;

use super::ordered::ValueBuffer;
use crate::account::check_canceled;

/// Returns the aggregate in a wrapper that sorts its rows (own_order-1).
pub(crate) fn sorted_by_itself(inner: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    wrapped(inner, Sorting::Rows)
}

/// Returns `array_agg` or `string_agg` of distinct values that are sorted by the argument
/// (own_order-3).
pub(crate) fn sorting_distinct_values(
    inner: &Arc<AggregateUDF>,
    options: SortOptions,
) -> Arc<AggregateUDF> {
    wrapped(inner, Sorting::DistinctValues(options))
}

fn wrapped(inner: &Arc<AggregateUDF>, sorting: Sorting) -> Arc<AggregateUDF> {
    let inner = Arc::clone(inner);
    Arc::new(AggregateUDF::new_from_impl(OwnOrder { inner, sorting }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sorting {
    Rows,
    DistinctValues(SortOptions),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OwnOrder {
    inner: Arc<AggregateUDF>,
    sorting: Sorting,
}

impl AggregateUDFImpl for OwnOrder {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
        fn signature(&self) -> &Signature;
        fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>>;
        fn return_type(&self, types: &[DataType]) -> Result<DataType>;
        fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef>;
        fn is_nullable(&self) -> bool;
        fn default_value(&self, ty: &DataType) -> Result<ScalarValue>;
        fn supports_null_handling_clause(&self) -> bool;
    }

    /// No order of the rows below is asked for. For `Beneficial`, the keys are arguments too.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.sorting {
            Sorting::Rows => AggregateOrderSensitivity::Beneficial,
            Sorting::DistinctValues(_) => AggregateOrderSensitivity::Insensitive,
        }
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if let Sorting::DistinctValues(_) = self.sorting {
            return self.inner.state_fields(args);
        }
        let columns = args.input_fields.iter().chain(args.ordering_fields).enumerate();
        let list = |(at, column): (usize, &FieldRef)| {
            let element = Field::new_list_field(column.data_type().clone(), true);
            let ty = DataType::List(Arc::new(element));
            Arc::new(Field::new(format!("{}[column {at}]", args.name), ty, true))
        };
        Ok(columns.map(list).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if let Sorting::DistinctValues(options) = self.sorting {
            let Some(argument) = args.exprs.first() else {
                return internal_err!("an aggregate with DISTINCT has an argument");
            };
            let by = [PhysicalSortExpr { expr: Arc::clone(argument), options }];
            return self.inner.accumulator(AccumulatorArgs { order_bys: &by, ..args });
        }
        let arguments = args.expr_fields.iter().map(|field| field.data_type().clone());
        let mut types = arguments.collect::<Vec<_>>();
        for by in args.order_bys {
            types.push(by.expr.data_type(args.schema)?);
        }
        let options = args.order_bys.iter().map(|by| by.options).collect();
        let columns = types.iter().map(|_| ValueBuffer::default()).collect();
        let inner = self.inner.accumulator(AccumulatorArgs { order_bys: &[], ..args })?;
        Ok(Box::new(SortedRows { inner, options, types, columns }))
    }
}

/// The accumulator of a group.
#[derive(Debug)]
struct SortedRows {
    inner: Box<dyn Accumulator>,
    options: Vec<SortOptions>,
    /// The types of the arguments, and those of the keys.
    types: Vec<DataType>,
    columns: Vec<ValueBuffer>,
}

impl SortedRows {
    /// Returns the rows in the order that they came in.
    fn rows(&self) -> Result<Vec<ArrayRef>> {
        self.columns.iter().zip(&self.types).map(|(column, ty)| column.all(ty)).collect()
    }
}

impl Accumulator for SortedRows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if values.len() != self.columns.len() {
            let (given, columns) = (values.len(), self.columns.len());
            return internal_err!("{given} columns for an aggregate that keeps {columns}");
        }
        if values.first().is_none_or(|values| values.is_empty()) {
            return Ok(());
        }
        // own_order-2.
        self.columns
            .iter_mut()
            .zip(values)
            .try_for_each(|(column, values)| column.push(Arc::clone(values)))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (column, states) in self.columns.iter_mut().zip(states) {
            for values in states.as_list::<i32>().iter().flatten() {
                if !values.is_empty() {
                    column.push(values)?;
                }
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = |values| SingleRowListArrayBuilder::new(values).build_list_scalar();
        Ok(self.rows()?.into_iter().map(list).collect())
    }

    // own_order-1.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let rows = self.rows()?;
        self.columns.iter_mut().for_each(|column| *column = ValueBuffer::default());
        let count = rows.first().map_or(0, |values| values.len());
        if count > 0 {
            check_canceled()?;
            let (arguments, keys) = rows.split_at(rows.len() - self.options.len());
            let sorted = sorted(arguments, keys, &self.options, count)?;
            drop(rows);
            check_canceled()?;
            self.inner.update_batch(&sorted)?;
        }
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        let types = self.types.capacity() * size_of::<DataType>();
        let buffers = self.columns.capacity() * size_of::<ValueBuffer>();
        let columns = self.columns.iter().map(ValueBuffer::size).sum::<usize>();
        size_of::<SortedRows>() + self.inner.size() + types + buffers + columns
    }
}

/// Returns the arguments of a number of rows in the order of the keys.
fn sorted(
    arguments: &[ArrayRef],
    keys: &[ArrayRef],
    options: &[SortOptions],
    count: usize,
) -> Result<Vec<ArrayRef>> {
    let key = |(values, options): (&ArrayRef, &SortOptions)| SortColumn {
        values: Arc::clone(values),
        options: Some(*options),
    };
    let mut by = keys.iter().zip(options).map(key).collect::<Vec<_>>();
    let places: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..count as u64));
    by.push(SortColumn { values: places, options: None });
    let order = lexsort_to_indices(&by, None)?;
    arguments.iter().map(|values| Ok(take(values, &order, None)?)).collect()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringArray};

    use super::*;

    #[test]
    fn rows_with_equal_keys_keep_their_order() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), None, Some(3), Some(2)]));
        let descending = SortOptions { descending: true, nulls_first: true };
        let ascending = SortOptions { descending: false, nulls_first: false };
        for (options, expected) in
            [(descending, ["b", "c", "a", "d"]), (ascending, ["a", "d", "c", "b"])]
        {
            let keys = std::slice::from_ref(&keys);
            let sorted = sorted(std::slice::from_ref(&texts), keys, &[options], 4).unwrap();
            let expected: ArrayRef = Arc::new(StringArray::from(expected.to_vec()));
            assert_eq!(sorted, [expected], "own_order-1");
        }
    }
}
