//! `lag` and `lead` with IGNORE NULLS.
//!
//! - ignored_nulls-1. A call that counts rows after the current one gets all rows of the
//!   partition at once. DataFusion's evaluation row by row forgets NULL values that it meets after
//!   the rows it has counted: `lead(x, 2)` returned another row's value, or the default. The same
//!   holds for `lag` with a negative number, and over rows that are sorted the other way round.
//! - ignored_nulls-2. No LIMIT moves below such a call: any number of NULL values may lie between a
//!   row and the value it gets.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{NullTreatment, WindowFunctionParams};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

/// Returns the function for a call with IGNORE NULLS, if it is another one.
pub(crate) fn ignoring_nulls(
    func: &Arc<WindowUDF>,
    params: &WindowFunctionParams,
) -> Option<Arc<WindowUDF>> {
    let ignores = params.null_treatment == Some(NullTreatment::IgnoreNulls);
    if !ignores || !["lag", "lead"].contains(&func.name()) || func.inner().is::<IgnoringNulls>() {
        return None;
    }
    Some(wrapped(Arc::clone(func)))
}

fn wrapped(inner: Arc<WindowUDF>) -> Arc<WindowUDF> {
    Arc::new(WindowUDF::new_from_impl(IgnoringNulls { inner }))
}

/// `lag` or `lead` with IGNORE NULLS.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IgnoringNulls {
    inner: Arc<WindowUDF>,
}

impl WindowUDFImpl for IgnoringNulls {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
        fn signature(&self) -> &Signature;
        fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>>;
        fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef>;
        fn sort_options(&self) -> Option<SortOptions>;
        fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>>;
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let inner = self.inner.inner().partition_evaluator(args)?;
        Ok(Box::new(Shifted { inner }))
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.reverse_expr() {
            ReversedUDWF::Reversed(inner) => ReversedUDWF::Reversed(wrapped(inner)),
            other => other,
        }
    }

    /// Returns that the rows which a call reads are not known (ignored_nulls-2).
    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// The state of such a call for a partition.
#[derive(Debug)]
struct Shifted {
    inner: Box<dyn PartitionEvaluator>,
}

impl PartitionEvaluator for Shifted {
    delegate! { inner:
        fn memoize(&mut self, state: &mut WindowAggState) -> Result<()>;
        fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>>;
        fn is_causal(&self) -> bool;
        fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef>;
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        assert!(self.is_causal(), "ignored_nulls-1: rows after the current one, one by one");
        self.inner.evaluate(values, range)
    }

    /// Returns true if the call counts rows before the current one (ignored_nulls-1).
    fn supports_bounded_execution(&self) -> bool {
        self.is_causal() && self.inner.supports_bounded_execution()
    }
}
