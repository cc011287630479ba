//! A wrapper of the rule that answers aggregates from statistics: it skips plans with DISTINCT.
//!
//! - `count(DISTINCT x)` is not taken from the statistics of a plan.
//!
//! DataFusion takes 1 for the exact number of distinct values of a constant column, of no rows too.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// The name of DataFusion's rule.
pub(super) const AGGREGATE_STATISTICS: &str = "aggregate_statistics";

/// A wrapper of the rule that answers from statistics. It leaves plans with such counts unchanged:
/// tables have no statistics of distinct values, so that nothing is lost.
#[derive(Debug)]
pub(super) struct DistinctCounts {
    pub(super) inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl PhysicalOptimizerRule for DistinctCounts {
    delegate! { inner:
        fn name(&self) -> &str;
        fn schema_check(&self) -> bool;
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let has_distinct = plan.exists(|node| Ok(is_distinct(node.as_ref())))?;
        if has_distinct { Ok(plan) } else { self.inner.optimize(plan, config) }
    }
}

fn is_distinct(node: &dyn ExecutionPlan) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|it| it.aggr_expr().iter().any(|call| call.is_distinct()))
}
