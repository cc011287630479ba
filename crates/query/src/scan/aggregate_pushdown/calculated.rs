//! Arguments and FILTERs of aggregates that are calculated: expressions of decoded columns, which
//! DataFusion evaluates for the rows of a zone.
//!
//! - calculated-1. An expression is evaluated for the rows that pass the conditions of the scan and
//!   for no others: its values, NULL and errors are those that it has for the rows.
//! - No texts are made and none but symbols are decoded, so that the arrays of a zone are small.
//!
//! Not here: arguments that are columns or lengths of texts, which are read without arrays
//! (`work`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::cast::{as_boolean_array, as_float64_array};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column as ColumnExpr, Literal};
use datafusion::physical_expr::utils::reassign_expr_columns;
use tidegate_filter::aggregate::{ZoneRows, key_of_float};
use tidegate_model::{Column, ColumnType};
use tidegate_storage::SymbolTables;
use tidegate_storage::segment::RowSelection;

use super::stored::stored_column;
use crate::error::Error;
use crate::scan::ScanSource;
use crate::scan::task::FrameRows;

/// The maximal number of nodes of an expression.
const NODES_MAX: usize = 256;

/// The expressions of an aggregate.
#[derive(Debug)]
pub(super) struct Calculated {
    /// The columns that are decoded for them.
    columns: Vec<Column>,
    schema: SchemaRef,
    /// The expressions over `schema`.
    exprs: Vec<Arc<dyn PhysicalExpr>>,
}

/// Expressions over the columns of a scan, while an aggregate is planned.
#[derive(Default)]
pub(super) struct CalculatedBuilder {
    /// Their columns, by their places in the scan.
    pub(super) columns: Vec<usize>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
}

impl CalculatedBuilder {
    /// Returns the number of an expression among all; `None` if it is not evaluated here.
    pub(super) fn add(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        source: &ScanSource,
    ) -> Option<usize> {
        if let Some(known) = self.exprs.iter().position(|known| known.eq(expr)) {
            return Some(known);
        }
        for column in columns_of(expr, source)? {
            if !self.columns.contains(&column) {
                self.columns.push(column);
            }
        }
        self.exprs.push(Arc::clone(expr));
        Some(self.exprs.len() - 1)
    }

    /// Returns all expressions.
    pub(super) fn finish(self, source: &ScanSource) -> Result<Calculated> {
        let schema = Arc::new(source.read.schema.project(&self.columns)?);
        let exprs = self.exprs.into_iter().map(|expr| reassign_expr_columns(expr, &schema));
        let exprs = exprs.collect::<Result<_>>()?;
        let columns = self.columns.iter().filter_map(|&at| stored_column(at, source));
        Ok(Calculated { columns: columns.cloned().collect(), schema, exprs })
    }
}

/// Returns the columns of an expression; `None` if it is not evaluated here.
fn columns_of(expr: &Arc<dyn PhysicalExpr>, source: &ScanSource) -> Option<Vec<usize>> {
    let (mut nodes, mut columns, mut is_known) = (0, Vec::new(), true);
    let walked = expr.apply(|node| {
        nodes += 1;
        is_known &= nodes <= NODES_MAX;
        if let Some(column) = node.downcast_ref::<ColumnExpr>() {
            let stored = stored_column(column.index(), source);
            is_known &= stored.is_some_and(|stored| is_small(stored.ty));
            columns.push(column.index());
        } else if node.downcast_ref::<Literal>().is_none() {
            let is_leaf = node.children().is_empty();
            is_known &= !is_leaf && !node.is_volatile_node();
            is_known &= is_number_or_time(&node.data_type(&source.read.schema)?);
        }
        Ok(if is_known { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    (walked.is_ok() && is_known && !columns.is_empty()).then_some(columns)
}

/// Returns true if values of a column have few bytes in an array.
fn is_small(ty: ColumnType) -> bool {
    !matches!(ty, ColumnType::Varchar | ColumnType::Binary)
}

fn is_number_or_time(ty: &DataType) -> bool {
    ty.is_numeric()
        || matches!(
            ty,
            DataType::Boolean
                | DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Interval(_)
                | DataType::Duration(_)
        )
}

impl Calculated {
    /// No expressions.
    pub(super) fn none() -> Calculated {
        Calculated { columns: Vec::new(), schema: Arc::new(Schema::empty()), exprs: Vec::new() }
    }

    /// Evaluates all expressions for rows of a page frame (calculated-1).
    pub(super) fn evaluate(
        &self,
        task: &FrameRows,
        rows: ZoneRows<'_>,
        symbols: &SymbolTables,
    ) -> Result<Vec<ArrayRef>> {
        if self.exprs.is_empty() {
            return Ok(Vec::new());
        }
        let list: Vec<u32>;
        let selection = match rows {
            ZoneRows::Run { start, end } => RowSelection::Range(start..end),
            ZoneRows::List(rows) => {
                list = rows.iter().map(|&row| u32::from(row)).collect();
                RowSelection::List(&list)
            }
        };
        let reader = task.segment.reader().map_err(Error::Storage)?;
        let arrays = reader.arrays(task.frame, &selection, &self.columns, symbols);
        let (arrays, count) = (arrays.map_err(Error::Storage)?, rows.count());
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        let values = self.exprs.iter().map(|expr| expr.evaluate(&batch)?.into_array(count));
        values.collect()
    }
}

/// Replaces `nulls` by the rows without a value.
pub(super) fn nulls_of(values: &ArrayRef, nulls: &mut Vec<u32>) {
    nulls.clear();
    if 0 < values.null_count() {
        let rows = (0_u32..).zip(0..values.len()).filter(|&(_, at)| values.is_null(at));
        nulls.extend(rows.map(|(row, _)| row));
    }
}

/// Adds the rows for which a condition is not true to `nulls`, which ascend.
pub(super) fn reject(condition: &ArrayRef, nulls: &mut Vec<u32>) -> Result<()> {
    let condition = as_boolean_array(condition)?;
    let mut known = std::mem::take(nulls).into_iter().peekable();
    let is_rejected = |&(row, at): &(u32, usize)| {
        let is_known = known.next_if_eq(&row).is_some();
        is_known || condition.is_null(at) || !condition.value(at)
    };
    let rows = (0_u32..).zip(0..condition.len()).filter(is_rejected);
    nulls.extend(rows.map(|(row, _)| row));
    Ok(())
}

/// Writes values as floats.
pub(super) fn floats_of(values: &ArrayRef, out: &mut [f64]) -> Result<()> {
    out.copy_from_slice(as_float64_array(values)?.values());
    Ok(())
}

/// Writes values as integers of the same order: doubles as the keys of all NaN as one, and of other
/// numbers.
pub(super) fn integers_of(values: &ArrayRef, out: &mut [i64]) -> Result<()> {
    match values.data_type() {
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>().values();
            for (key, &float) in out.iter_mut().zip(values) {
                *key = key_of_float(if float.is_nan() { f64::NAN } else { float });
            }
        }
        DataType::Int64 => out.copy_from_slice(values.as_primitive::<Int64Type>().values()),
        _ => {
            let values = cast(values, &DataType::Int64)?;
            out.copy_from_slice(values.as_primitive::<Int64Type>().values());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{BooleanArray, Float64Array, Int32Array};
    use tidegate_filter::aggregate::float_of_key;

    use super::*;

    #[test]
    fn rows_for_which_a_condition_is_not_true_are_like_null() {
        let condition = [Some(true), Some(false), None, Some(true), Some(true)];
        let condition: ArrayRef = Arc::new(condition.into_iter().collect::<BooleanArray>());
        for (before, expected) in [
            (vec![], vec![1, 2]),
            (vec![0, 1], vec![0, 1, 2]),
            (vec![2, 4], vec![1, 2, 4]),
            (vec![0, 1, 2, 3, 4], vec![0, 1, 2, 3, 4]),
        ] {
            let mut nulls = before;
            reject(&condition, &mut nulls).unwrap();
            assert_eq!(nulls, expected);
        }
    }

    #[test]
    fn values_are_integers_of_the_same_order() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![-1.5, 0.0, 7.0, -f64::NAN]));
        let mut keys = [0; 4];
        integers_of(&floats, &mut keys).unwrap();
        assert!(keys.is_sorted() && float_of_key(keys[3]).is_nan());
        let integers: ArrayRef = Arc::new(Int32Array::from(vec![Some(-3), None, Some(4)]));
        let (mut keys, mut nulls) = ([0; 3], vec![9]);
        integers_of(&integers, &mut keys).unwrap();
        nulls_of(&integers, &mut nulls);
        assert_eq!((keys[0], keys[2], nulls), (-3, 4, vec![1]));
    }
}
