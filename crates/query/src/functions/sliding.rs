//! `bit_xor`, `bool_and` and `bool_or` over sliding frames.
//!
//! - A frame of NULLs returns NULL. DataFusion's `bit_xor` returns 0 there, and its `bool_and` and
//!   `bool_or` cannot remove rows.
//! - With DISTINCT and GROUP BY, `bit_xor` has an accumulator for each group: DataFusion's own for
//!   all groups takes equal values twice, and its states are no lists.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::bit_and_or_xor::bit_xor_udaf;
use datafusion::functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature,
};

pub(crate) fn sliding_aggregates() -> Vec<AggregateUDF> {
    let all =
        [(bit_xor_udaf(), What::Xor), (bool_and_udaf(), What::And), (bool_or_udaf(), What::Or)];
    all.map(|(inner, what)| AggregateUDF::new_from_impl(Sliding { inner, what })).into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Xor,
    And,
    Or,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sliding {
    /// The function of DataFusion.
    inner: Arc<AggregateUDF>,
    what: What,
}

impl AggregateUDFImpl for Sliding {
    delegate! { inner:
        fn name(&self) -> &str;
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>>;
        fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>>;
        fn create_groups_accumulator(
            &self,
            args: AccumulatorArgs<'_>,
        ) -> Result<Box<dyn GroupsAccumulator>>;
        fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>>;
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        let is_distinct = self.what == What::Xor && args.is_distinct;
        !is_distinct && self.inner.groups_accumulator_supported(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if self.what == What::Xor && args.is_distinct {
            return self.inner.create_sliding_accumulator(args);
        }
        let ty = args.return_field.data_type().clone();
        Ok(Box::new(Frame { what: self.what, ty, ..Frame::default() }))
    }
}

/// The values of a frame: the number of those that are true, or not 0, and their bits.
#[derive(Debug)]
struct Frame {
    what: What,
    ty: DataType,
    /// The number of values that are not NULL.
    count: u64,
    /// The number of those that are true.
    trues: u64,
    /// The exclusive or of their bits, for integers of any width.
    bits: i128,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame { what: What::Xor, ty: DataType::Null, count: 0, trues: 0, bits: 0 }
    }
}

impl Frame {
    /// Returns the count of the values of a batch, the count of true ones, and their bits.
    fn count_batch(&self, values: &ArrayRef) -> Result<(u64, u64, i128)> {
        let count = (values.len() - values.null_count()) as u64;
        if self.what != What::Xor {
            let flags = cast(values, &DataType::Boolean)?;
            return Ok((count, flags.as_boolean().true_count() as u64, 0));
        }
        let integers = cast(values, &DataType::Decimal128(20, 0))?;
        let integers = integers.as_primitive::<Decimal128Type>();
        Ok((count, 0, integers.iter().flatten().fold(0, |bits, value| bits ^ value)))
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (count, trues, bits) = self.count_batch(&values[0])?;
        (self.count, self.trues, self.bits) =
            (self.count + count, self.trues + trues, self.bits ^ bits);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (count, trues, bits) = self.count_batch(&values[0])?;
        (self.count, self.trues, self.bits) =
            (self.count - count, self.trues - trues, self.bits ^ bits);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return ScalarValue::try_from(&self.ty);
        }
        match self.what {
            What::And => Ok(ScalarValue::Boolean(Some(self.trues == self.count))),
            What::Or => Ok(ScalarValue::Boolean(Some(0 < self.trues))),
            What::Xor => ScalarValue::Decimal128(Some(self.bits), 20, 0).cast_to(&self.ty),
        }
    }

    fn size(&self) -> usize {
        size_of::<Frame>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
