//! Operators that change how the rows of their input arrive (batch sizes, memory accounting), never
//! which rows.
//!
//! - PT1. Columns and the number of partitions are those of the input, and so are all other
//!   properties, unless the operator corrects them. `EXPLAIN` does not show an operator whose name
//!   begins with that of guards (`control::guard` U2).

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// The work of one such operator (PT1).
pub(crate) trait PassThrough: fmt::Debug + Send + Sync + 'static {
    /// The name of the operator.
    const NAME: &'static str;

    /// Returns the properties of the rows, which are those of the input in most cases.
    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::clone(input.properties())
    }

    /// Returns the rows of one partition of the input.
    ///
    /// # Errors
    /// As those of the input, and of the operator's own bounds.
    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;
}

/// The operator in a plan.
#[derive(Debug)]
struct PassThroughExec<P> {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    pass: Arc<P>,
}

/// Puts `pass` above `input`.
pub(crate) fn through<P: PassThrough>(
    input: Arc<dyn ExecutionPlan>,
    pass: P,
) -> Arc<dyn ExecutionPlan> {
    let properties = pass.properties(&input);
    Arc::new(PassThroughExec { input, properties, pass: Arc::new(pass) })
}

impl<P: PassThrough> DisplayAs for PassThroughExec<P> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(P::NAME)
    }
}

impl<P: PassThrough> ExecutionPlan for PassThroughExec<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("{} has one input", P::NAME);
        };
        let (properties, pass) = (self.pass.properties(&input), Arc::clone(&self.pass));
        Ok(Arc::new(PassThroughExec { input, properties, pass }))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.pass.execute(&self.input, partition, context)
    }
}
