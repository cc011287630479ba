//! The memory that `array_agg` and `string_agg` collect.
//!
//! - collected_values-1. DataFusion counts the state of such an aggregate as if texts were only
//!   views of 16 bytes: neither the texts behind them, which a view holds, nor the result, which is
//!   a copy. So the values of its arguments are charged to the statement once more, with their
//!   texts, and with the whole buffers that their views hold.
//! - The charge lasts as long as the plan, because operators above the aggregate hold its result.
//!
//! Not here: the size of a single value (`account`), and the memory that operators count
//! themselves.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayData, ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};

use crate::account;
use crate::functions::bounded::collecting::collects_values;
use crate::value_bytes::bytes_of;

/// Returns the operator, with charged arguments of the aggregates that collect all their values
/// (collected_values-1). Only the first stage is charged: the states that later stages merge hold
/// the same texts.
pub(super) fn with_charged_values(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return plan };
    let collects = |call: &Arc<AggregateFunctionExpr>| collects_values(call.fun().name());
    let is_first = aggregate.mode().input_mode() == AggregateInputMode::Raw;
    if !is_first || !aggregate.aggr_expr().iter().any(collects) {
        return plan;
    }
    let calls = aggregate.aggr_expr().iter().map(|call| match collects(call) {
        true => charged(call).map_or_else(|| Arc::clone(call), Arc::new),
        false => Arc::clone(call),
    });
    Arc::new(aggregate.with_new_aggr_exprs(calls.collect::<Vec<_>>()))
}

/// The aggregate with charged arguments; `None` if DataFusion cannot replace them.
fn charged(call: &AggregateFunctionExpr) -> Option<AggregateFunctionExpr> {
    if call.is_reversed() {
        // The new call would lose the reversal.
        return None;
    }
    let expressions = call.all_expressions();
    let charged = |inner: &Arc<dyn PhysicalExpr>| {
        // A delimiter must stay a literal, and is kept once.
        if inner.is::<Literal>() {
            return Arc::clone(inner);
        }
        let charge = Arc::new(Mutex::new(Charge::default()));
        Arc::new(ChargedArgument { inner: Arc::clone(inner), charge }) as Arc<dyn PhysicalExpr>
    };
    let args = expressions.args.iter().map(charged).collect::<Vec<_>>();
    // With DISTINCT, the sort keys must be among the arguments.
    let key = |key: &Arc<dyn PhysicalExpr>| {
        let at = expressions.args.iter().position(|arg| call.is_distinct() && arg.eq(key));
        at.map_or_else(|| Arc::clone(key), |at| Arc::clone(&args[at]))
    };
    let keys = expressions.order_by_exprs.iter().map(key).collect();
    call.with_new_expressions(args.clone(), keys)
}

/// An argument whose values are charged when they are computed.
#[derive(Debug)]
struct ChargedArgument {
    inner: Arc<dyn PhysicalExpr>,
    charge: Arc<Mutex<Charge>>,
}

/// The charge of one argument, shared by all threads of a plan.
#[derive(Debug, Default)]
struct Charge {
    held: HeldBuffers,
    reservation: Option<MemoryReservation>,
}

impl fmt::Display for ChargedArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PartialEq for ChargedArgument {
    fn eq(&self, other: &ChargedArgument) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for ChargedArgument {}

impl Hash for ChargedArgument {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for ChargedArgument {
    delegate! { inner:
        fn return_field(&self, schema: &Schema) -> Result<FieldRef>;
        fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let value = self.inner.evaluate(batch)?;
        if let ColumnarValue::Array(values) = &value {
            // A failed charge has changed nothing, so a panic leaves nothing inconsistent.
            let mut charge = self.charge.lock().unwrap_or_else(PoisonError::into_inner);
            let Charge { held, reservation } = &mut *charge;
            account::grow(reservation, "array_agg, string_agg", held.add(values))?;
        }
        Ok(value)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let Some(inner) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("it charges for one expression");
        };
        Ok(Arc::new(ChargedArgument { inner, charge: Arc::clone(&self.charge) }))
    }
}

/// The buffers that the texts of rows hold.
#[derive(Debug, Default)]
struct HeldBuffers {
    /// The addresses of the buffers.
    known: HashSet<NonZeroUsize>,
}

impl HeldBuffers {
    /// Returns the bytes to charge for values: their own, or those of the buffers that only they
    /// hold so far, if these are more.
    fn add(&mut self, values: &ArrayRef) -> usize {
        let bytes = bytes_of(values.as_ref()).max(self.texts(&values.to_data()));
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// The bytes of buffers behind views that were not counted yet.
    fn texts(&mut self, values: &ArrayData) -> u64 {
        let texts = match values.data_type() {
            DataType::Utf8View | DataType::BinaryView => &values.buffers()[1..],
            _ => &[],
        };
        let new = texts.iter().filter(|text| self.known.insert(text.data_ptr().addr()));
        let own: u64 = new.map(|text| text.len() as u64).sum();
        own + values.child_data().iter().map(|child| self.texts(child)).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn texts_are_counted_where_they_are_held() {
        let long = "0123456789abcdef".repeat(4);
        let texts = StringViewArray::from_iter_values(std::iter::repeat_n(&long, 1_000));
        let all = HeldBuffers::default().add(&(Arc::new(texts.clone()) as ArrayRef));
        assert!(
            1_000 * long.len() <= all && all <= 3 * 1_000 * long.len(),
            "collected_values-1: {all}"
        );
        // A single row holds the buffer of all rows; a second row of the same buffer adds only
        // itself.
        let mut held = HeldBuffers::default();
        let one = held.add(&(Arc::new(texts.slice(7, 1)) as ArrayRef));
        assert!(1_000 * long.len() <= one, "collected_values-1: {one}");
        let other = held.add(&(Arc::new(texts.slice(8, 1)) as ArrayRef));
        assert!(other < 2 * long.len(), "collected_values-1: {other}");
        let numbers = Arc::new(Int64Array::from(vec![1; 1_000])) as ArrayRef;
        let numbers = HeldBuffers::default().add(&numbers);
        assert!((8_000..40_000).contains(&numbers), "{numbers}");
    }
}
