//! `ksum` and `nsum`: sums of doubles with compensation of rounding errors (Neumaier's method).

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

/// Returns the functions.
pub(crate) fn exact_sums() -> Vec<AggregateUDF> {
    let function = |name| {
        let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
        AggregateUDF::new_from_impl(ExactSum { name, signature })
    };
    ["ksum", "nsum"].map(function).into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactSum {
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field =
            |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        Ok(vec![
            field("sum", DataType::Float64),
            field("lost", DataType::Float64),
            field("count", DataType::Int64),
        ])
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sum::default()))
    }
}

#[derive(Debug, Default)]
struct Sum {
    sum: f64,
    /// The rounding error of the sum.
    lost: f64,
    count: i64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        // The smaller one has lost its low digits.
        self.lost += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.add(value);
            self.count += 1;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (sums, lost) =
            (states[0].as_primitive::<Float64Type>(), states[1].as_primitive::<Float64Type>());
        let counts = states[2].as_primitive::<Int64Type>();
        for row in 0..sums.len() {
            self.add(sums.value(row));
            self.lost += lost.value(row);
            self.count += counts.value(row);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let number = |value| ScalarValue::Float64(Some(value));
        Ok(vec![number(self.sum), number(self.lost), ScalarValue::Int64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // The rounding error of infinities is NaN.
        let sum = if self.sum.is_finite() { self.sum + self.lost } else { self.sum };
        Ok(ScalarValue::Float64((self.count > 0).then_some(sum)))
    }

    fn size(&self) -> usize {
        size_of::<Sum>()
    }
}
