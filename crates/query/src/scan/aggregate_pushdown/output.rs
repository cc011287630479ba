//! Conversion of states to the arrays that a partial aggregate returns.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array,
};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use tidegate_filter::aggregate::float_of_key;
use tidegate_model::ColumnType;
use tidegate_model::types::Physical;

use super::plan::{PushedAggregate, State};
use super::work::States;
use crate::scan::aggregate_pushdown::integers::{exact, from_integers};

/// Returns the groups that have rows, in batches, in the order of the first key that is a bucket of
/// time. Without keys there is one group, even without rows.
pub(super) fn batches(
    plan: &PushedAggregate,
    states: &States,
    batch_rows: usize,
) -> Result<Vec<RecordBatch>> {
    let mut slots = if plan.keys.is_empty() {
        vec![0]
    } else {
        (0..plan.slots).filter(|&slot| states.rows[slot] > 0).collect::<Vec<_>>()
    };
    let mut below = plan.slots;
    for key in &plan.keys {
        below /= key.domain;
        if let Some(starts) = key.bucket_starts() {
            // Buckets are never of NULL, whose id is 0.
            slots.sort_by_key(|slot| starts[slot / below % key.domain - 1]);
            break;
        }
    }
    slots.chunks(batch_rows.max(1)).map(|slots| batch(plan, states, slots)).collect()
}

fn batch(plan: &PushedAggregate, states: &States, slots: &[usize]) -> Result<RecordBatch> {
    let mut arrays = Vec::with_capacity(plan.schema.fields().len());
    // The last key is the lowest digit of a slot.
    let mut below = plan.slots;
    for key in &plan.keys {
        below /= key.domain;
        let ids = slots.iter().map(|slot| slot / below % key.domain).collect::<Vec<_>>();
        arrays.push(key.values(&ids)?);
    }
    for state in &plan.states {
        push_state(plan, states, state, slots, &mut arrays)?;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(slots.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(&plan.schema), arrays, &options)?)
}

fn push_state(
    plan: &PushedAggregate,
    states: &States,
    state: &State,
    slots: &[usize],
    arrays: &mut Vec<ArrayRef>,
) -> Result<()> {
    let ty = plan.schema.field(arrays.len()).data_type();
    let each = |fold: usize| {
        let accumulator = &states.folds[fold];
        slots.iter().map(move |&slot| (accumulator, slot, states.rows[slot]))
    };
    match state {
        State::Rows => {
            let counts = slots.iter().map(|&slot| states.rows[slot].cast_signed());
            arrays.push(Arc::new(Int64Array::from_iter_values(counts)));
        }
        State::Count(fold) => {
            let counts = each(*fold).map(|(of, slot, rows)| of.count(slot, rows).cast_signed());
            arrays.push(Arc::new(Int64Array::from_iter_values(counts)));
        }
        State::Sum(fold) if *ty == DataType::Float64 => {
            let sums = each(*fold).map(|(of, slot, rows)| of.float(slot, rows));
            arrays.push(Arc::new(sums.collect::<Float64Array>()));
        }
        State::Sum(fold) => {
            let sums = each(*fold).map(|(of, slot, rows)| of.integer(slot, rows));
            arrays.push(if *ty == DataType::UInt64 {
                Arc::new(sums.map(|sum| sum.map(i64::cast_unsigned)).collect::<UInt64Array>())
            } else {
                Arc::new(sums.collect::<Int64Array>())
            });
        }
        State::Mean(fold) => {
            // A count of 0 would be taken for a mean of nothing.
            let counts = each(*fold).map(|(of, slot, rows)| of.count(slot, rows));
            let counts = counts.map(|count| (count > 0).then_some(count));
            arrays.push(Arc::new(counts.collect::<UInt64Array>()));
            let sums = each(*fold).map(|(of, slot, rows)| of.float(slot, rows));
            arrays.push(Arc::new(sums.collect::<Float64Array>()));
        }
        State::Ordered(fold, column) => {
            let values = each(*fold).map(|(of, slot, rows)| of.integer(slot, rows));
            arrays.push(ordered(values.collect(), *column, ty)?);
        }
        State::Positioned(fold, column) => {
            let values = each(*fold).map(|(of, slot, rows)| of.integer(slot, rows));
            arrays.push(ordered(values.collect(), *column, ty)?);
            let set = each(*fold).map(|(of, slot, _)| Some(of.is_set(slot)));
            arrays.push(Arc::new(set.collect::<BooleanArray>()));
        }
    }
    Ok(())
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
