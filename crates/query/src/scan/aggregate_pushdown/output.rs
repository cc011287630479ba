//! Conversion of states to the values of aggregates.

use std::cmp::Reverse;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array,
};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use tidegate_filter::aggregate::float_of_key;
use tidegate_model::ColumnType;
use tidegate_model::types::Physical;

use super::plan::{Output, PushedAggregate};
use super::states::States;
use crate::scan::aggregate_pushdown::integers::{exact, from_integers};
use crate::types::float_order::one_zero_and_nan;
use crate::types::quotients::double_quotient;

/// Returns the slots that have rows, in the order of the first key that is a bucket of time.
/// Without keys there is one, even without rows.
pub(super) fn slots(plan: &PushedAggregate, states: &States, is_descending: bool) -> Vec<usize> {
    if plan.keys.is_empty() {
        return vec![0];
    }
    let mut slots = (0..plan.slots).filter(|&slot| states.rows[slot] > 0).collect::<Vec<_>>();
    if let Some(start_of) = bucket_starts(plan) {
        if is_descending {
            slots.sort_by_key(|&slot| Reverse(start_of(slot)));
        } else {
            slots.sort_by_key(|&slot| start_of(slot));
        }
    }
    slots
}

/// Returns the number of slots with rows whose bucket is not the last one in this order: that one
/// may have more rows that were not read (time_slices-1).
pub(super) fn complete(plan: &PushedAggregate, states: &States, is_descending: bool) -> usize {
    let slots = slots(plan, states, is_descending);
    let (Some(start_of), Some(&last)) = (bucket_starts(plan), slots.last()) else { return 0 };
    slots.partition_point(|&slot| start_of(slot) != start_of(last))
}

/// Returns a function for the start of the bucket of a slot; `None` if no key is a bucket.
fn bucket_starts(plan: &PushedAggregate) -> Option<impl Fn(usize) -> i64> {
    let mut below = plan.slots;
    for key in &plan.keys {
        below /= key.domain;
        if let Some(starts) = key.bucket_starts() {
            let domain = key.domain;
            // Buckets are never of NULL, whose id is 0.
            return Some(move |slot: usize| starts[slot / below % domain - 1]);
        }
    }
    None
}

/// Returns these groups in batches.
pub(super) fn batches(
    plan: &PushedAggregate,
    states: &States,
    slots: &[usize],
    batch_rows: usize,
) -> Result<Vec<RecordBatch>> {
    slots.chunks(batch_rows.max(1)).map(|slots| batch(plan, states, slots)).collect()
}

fn batch(plan: &PushedAggregate, states: &States, slots: &[usize]) -> Result<RecordBatch> {
    let mut arrays = Vec::with_capacity(plan.spec.schema.fields().len());
    // The last key is the lowest digit of a slot.
    let mut below = plan.slots;
    for key in &plan.keys {
        below /= key.domain;
        let ids = slots.iter().map(|slot| slot / below % key.domain).collect::<Vec<_>>();
        arrays.push(key.values(&ids)?);
    }
    for output in &plan.outputs {
        let ty = plan.spec.schema.field(arrays.len()).data_type();
        arrays.push(values(output, states, slots, ty)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(slots.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(&plan.spec.schema), arrays, &options)?)
}

/// Returns the values of an aggregate, of this type, of each slot.
pub(super) fn values(
    output: &Output,
    states: &States,
    slots: &[usize],
    ty: &DataType,
) -> Result<ArrayRef> {
    let each = |fold: usize| {
        let accumulator = &states.folds[fold];
        slots.iter().map(move |&slot| (accumulator, slot, states.rows[slot]))
    };
    match output {
        Output::Rows => {
            let counts = slots.iter().map(|&slot| states.rows[slot].cast_signed());
            Ok(Arc::new(Int64Array::from_iter_values(counts)))
        }
        Output::Count(fold) => {
            let counts = each(*fold).map(|(of, slot, rows)| of.count(slot, rows).cast_signed());
            Ok(Arc::new(Int64Array::from_iter_values(counts)))
        }
        Output::Distinct(fold) => {
            let counts = each(*fold).map(|(of, slot, _)| of.distinct_count(slot).cast_signed());
            Ok(Arc::new(Int64Array::from_iter_values(counts)))
        }
        Output::Sum(fold) if *ty == DataType::Float64 => {
            let sums = each(*fold).map(|(of, slot, rows)| of.float(slot, rows));
            Ok(Arc::new(sums.collect::<Float64Array>()))
        }
        Output::Sum(fold) => {
            let sums = each(*fold).map(|(of, slot, rows)| of.integer(slot, rows));
            Ok(if *ty == DataType::UInt64 {
                Arc::new(sums.map(|sum| sum.map(i64::cast_unsigned)).collect::<UInt64Array>())
            } else {
                Arc::new(sums.collect::<Int64Array>())
            })
        }
        Output::Mean(fold) => {
            let means = each(*fold).map(|(of, slot, rows)| {
                of.float(slot, rows).map(|sum| sum / of.count(slot, rows) as f64)
            });
            Ok(Arc::new(means.collect::<Float64Array>()))
        }
        &Output::ExactMean { fold, is_flipped } => {
            let means = each(fold).map(|(of, slot, rows)| {
                let count = of.count(slot, rows);
                let less = if is_flipped { i128::from(count) << 63 } else { 0 };
                of.exact_sum(slot, rows).map(|sum| double_quotient(sum + less, count))
            });
            Ok(Arc::new(means.collect::<Float64Array>()))
        }
        Output::Bound(fold, column) => {
            let values = each(*fold).map(|(of, slot, rows)| of.integer(slot, rows));
            Ok(one_zero_and_nan(&ordered(values.collect(), *column, ty)?))
        }
        Output::Positioned(fold, column) => {
            let values = each(*fold).map(|(of, slot, rows)| of.integer(slot, rows));
            ordered(values.collect(), *column, ty)
        }
    }
}

/// Converts values that were read in the order of integers.
fn ordered(values: Vec<Option<i64>>, column: ColumnType, ty: &DataType) -> Result<ArrayRef> {
    match column.physical() {
        Physical::Float32 | Physical::Float64 => {
            let floats = values.into_iter().map(|key| key.map(float_of_key));
            exact(&(Arc::new(floats.collect::<Float64Array>()) as ArrayRef), ty)
        }
        Physical::Unsigned(8) => {
            let turned = |key: i64| (key ^ i64::MIN).cast_unsigned();
            let values = values.into_iter().map(|key| key.map(turned));
            exact(&(Arc::new(values.collect::<UInt64Array>()) as ArrayRef), ty)
        }
        _ => {
            let valid = values.iter().map(Option::is_some).collect();
            let values = values.into_iter().map(Option::unwrap_or_default).collect();
            from_integers(values, Some(valid), ty)
        }
    }
}
