//! Operators with one input and no expressions of their own: one [`ExecutionPlan`] for all of them,
//! and a trait for the work of each.
//!
//! - Unless an operator says otherwise, it only changes how the rows of its input arrive (batch
//!   sizes, memory accounting): columns, number of partitions, order and all other properties are
//!   those of the input. `EXPLAIN` does not show an operator whose name begins with that of cancel
//!   checks (cancel_check-1).

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties,
};

/// The work of one such operator.
pub(crate) trait Unary: fmt::Debug + Send + Sync + Sized + 'static {
    /// The name of the operator.
    const NAME: &'static str;
    /// The distribution that the input must have.
    const DISTRIBUTION: Distribution = Distribution::UnspecifiedDistribution;

    /// Returns the name of the operator, if it depends on its work.
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// Writes the operator for `EXPLAIN`.
    fn describe(&self, _: &dyn ExecutionPlan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAME)
    }

    /// Returns the input that is read in place of this one.
    fn read(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        input
    }

    /// Returns the same work on another input.
    fn on(self: &Arc<Self>, _: &Arc<dyn ExecutionPlan>) -> Arc<Self> {
        Arc::clone(self)
    }

    /// Returns the properties of the rows, which are those of the input in most cases.
    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::clone(input.properties())
    }

    /// Returns the order that the input must have.
    fn required_ordering(&self, _: &dyn ExecutionPlan) -> Option<LexOrdering> {
        None
    }

    /// Returns true if the rows are in the order of the input.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Returns true if it works on several partitions of the input at a time.
    fn benefits_from_partitioning(&self) -> bool {
        !matches!(Self::DISTRIBUTION, Distribution::SinglePartition)
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
pub(crate) struct UnaryExec<U> {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    work: Arc<U>,
}

/// Puts an operator above `input`.
pub(crate) fn unary<U: Unary>(input: Arc<dyn ExecutionPlan>, work: U) -> Arc<dyn ExecutionPlan> {
    let input = U::read(input);
    let properties = work.properties(&input);
    unary_with(properties, input, work)
}

/// Puts an operator above `input`, with these properties.
pub(crate) fn unary_with<U: Unary>(
    properties: Arc<PlanProperties>,
    input: Arc<dyn ExecutionPlan>,
    work: U,
) -> Arc<dyn ExecutionPlan> {
    Arc::new(UnaryExec { input, properties, work: Arc::new(work) })
}

/// Returns a plan with the rows of all partitions in one.
pub(crate) fn in_one_partition(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match input.output_partitioning().partition_count() {
        1 => input,
        _ => Arc::new(CoalescePartitionsExec::new(input)),
    }
}

impl<U: Unary> DisplayAs for UnaryExec<U> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.work.describe(self.input.as_ref(), f)
    }
}

impl<U: Unary> ExecutionPlan for UnaryExec<U> {
    fn name(&self) -> &'static str {
        self.work.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![U::DISTRIBUTION])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let ordering = self.work.required_ordering(self.input.as_ref());
        vec![ordering.map(OrderingRequirements::from)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.work.keeps_order()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![self.work.benefits_from_partitioning()]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("{} has one input", self.name());
        };
        let input = U::read(input);
        // With the same properties it reads the same as the input before.
        if Arc::ptr_eq(input.properties(), self.input.properties()) {
            let (properties, work) = (Arc::clone(&self.properties), Arc::clone(&self.work));
            return Ok(Arc::new(UnaryExec { input, properties, work }));
        }
        let work = self.work.on(&input);
        let properties = work.properties(&input);
        Ok(Arc::new(UnaryExec { input, properties, work }))
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
        self.work.execute(&self.input, partition, context)
    }
}
