//! `percentile_cont` and `quantile_cont` over many groups: DataFusion's own panics when it gives up
//! grouping before the rows are divided, as it takes the fraction for a second column of values.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
};

pub(super) fn percentiles() -> Vec<AggregateUDF> {
    vec![AggregateUDF::new_from_impl(Percentile { inner: percentile_cont_udaf() })]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    /// DataFusion's.
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        self.inner.return_type(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups(self.inner.create_groups_accumulator(args)?)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_udf()
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.simplify()
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

/// The values of many groups.
struct Groups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.0.update_batch(values, groups, filter, group_count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> Result<()> {
        self.0.merge_batch(states, groups, group_count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        // The rest is the fraction, which is the same for all rows.
        self.0.convert_to_state(&values[..1], filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, AsArray, Float64Array};
    use datafusion::arrow::datatypes::{Field, Float64Type, Schema};
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::{Column, Literal};

    use super::*;

    /// `percentile_cont(v, 0.5) .. GROUP BY s` of five million groups ended with a panic.
    #[test]
    fn rows_become_states_of_their_own() {
        let field: FieldRef = Arc::new(Field::new("v", DataType::Float64, true));
        let schema = Schema::new(vec![Arc::clone(&field)]);
        let fraction = Arc::new(Literal::new(ScalarValue::Float64(Some(0.5))));
        let exprs: [Arc<dyn PhysicalExpr>; 2] = [Arc::new(Column::new("v", 0)), fraction];
        let fields = [Arc::clone(&field), Arc::new(Field::new("p", DataType::Float64, true))];
        let function = percentiles().remove(0);
        let args = AccumulatorArgs {
            return_field: field,
            schema: &schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: "p",
            is_distinct: false,
            exprs: &exprs,
            expr_fields: &fields,
        };
        let mut groups = function.create_groups_accumulator(args).unwrap();
        let column = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        let values = [column(vec![1.0, 3.0, 7.0]), column(vec![0.5; 3])];
        let states = groups.convert_to_state(&values, None).unwrap();
        assert_eq!((states.len(), states[0].len()), (1, 3));
        groups.merge_batch(&states, &[0, 0, 1], 2).unwrap();
        let found = groups.evaluate(EmitTo::All).unwrap();
        let found = found.as_primitive::<Float64Type>();
        assert_eq!(found.values().as_ref(), [2.0, 7.0]);
    }
}
