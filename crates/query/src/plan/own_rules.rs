//! Rules of our own in DataFusion's optimizers: a name, and a function that rewrites plans.
//!
//! Not here: the functions, each in a module of its own, and the list of them (`stoppable`).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::OptimizerConfig;
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// The rewrite of a node of a logical plan.
pub(super) type Rewrite = fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>;

/// A rule that rewrites the nodes of a logical plan.
#[derive(Debug)]
pub(super) struct LogicalRule {
    pub(super) name: &'static str,
    pub(super) order: ApplyOrder,
    pub(super) rewrite: Rewrite,
}

impl OptimizerRule for LogicalRule {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(self.order)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(plan)
    }
}

/// A rewriting of a physical plan.
type RewritePlan = fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>;

/// A rule that rewrites a physical plan, whose columns it keeps.
#[derive(Debug)]
pub(super) struct PhysicalRule {
    pub(super) name: &'static str,
    pub(super) rewrite: RewritePlan,
}

impl PhysicalOptimizerRule for PhysicalRule {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        (self.rewrite)(plan)
    }
}
