//! Scalar subqueries: the aggregate that returns the only value of a group.
//!
//! - More than one row is an error, and no row is NULL.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility,
};

/// Returns the call for the only value of a group.
pub(super) fn single_value(value: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(SingleValue { signature }))
    });
    let function = Arc::clone(&FUNCTION);
    let call = AggregateFunction::new_udf(function, vec![value], false, None, Vec::new(), None);
    Expr::AggregateFunction(call)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &'static str {
        "single value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        let field = Field::new(self.name(), args[0].data_type().clone(), true);
        Ok(Arc::new(field.with_metadata(args[0].metadata().clone())))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let value = args.return_field.data_type().clone();
        Ok(vec![
            Arc::new(Field::new(format!("{}[value]", args.name), value, true)),
            Arc::new(Field::new(format!("{}[rows]", args.name), DataType::Int64, true)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(Single { value, rows: 0 }))
    }
}

#[derive(Debug)]
struct Single {
    value: ScalarValue,
    rows: i64,
}

impl Single {
    fn take(&mut self, values: &ArrayRef, at: usize, rows: i64) -> Result<()> {
        self.rows += rows;
        if self.rows > 1 {
            return exec_err!("Scalar subquery returned more than one row");
        }
        self.value = ScalarValue::try_from_array(values, at)?;
        Ok(())
    }
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len()).try_for_each(|at| self.take(&values[0], at, 1))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states[1].as_primitive::<Int64Type>();
        let mut some = (0..rows.len()).filter(|&at| rows.value(at) > 0);
        some.try_for_each(|at| self.take(&states[0], at, rows.value(at)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Int64(Some(self.rows))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of::<Single>() + self.value.size()
    }
}
