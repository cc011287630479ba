//! A physical rule for grouping sets: properties of the keys of the input are dropped, because some
//! keys are NULL in place of their values.
//!
//! - Nothing that is known of the keys of the input holds for the keys of the groups: not that one
//!   is constant, nor that two are equal, nor an order. DataFusion keeps all of it, and then omits
//!   sorts by such a key, and cuts the partitions of window functions in two.
//! - Groups of one partition of the input have no known partitioning, for the same reason.
//!
//! Upstream: docs/upstream/properties-of-grouping-sets.md.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

use super::own_rules::PhysicalRule;
use crate::operators::unary::{Unary, unary};

/// The rule that puts an operator without these properties above aggregates with grouping sets; it
/// comes first, because the properties of all operators above are calculated again then.
pub(super) const MASKED_KEYS: PhysicalRule = PhysicalRule { name: "masked_keys", rewrite };

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let has_sets = |plan: &Arc<dyn ExecutionPlan>| {
        let aggregate = plan.downcast_ref::<AggregateExec>();
        aggregate.is_some_and(|it| it.group_expr().has_grouping_set())
    };
    plan.transform_up(|plan| match has_sets(&plan) {
        true => Ok(Transformed::yes(unary(plan, GroupingSets))),
        false => Ok(Transformed::no(plan)),
    })
    .data()
}

/// The rows of an aggregate with grouping sets.
#[derive(Debug)]
struct GroupingSets;

impl Unary for GroupingSets {
    const NAME: &'static str = "GroupingSetsExec";

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let partitions = input.output_partitioning().partition_count();
        Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        ))
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        input.execute(partition, context)
    }
}
