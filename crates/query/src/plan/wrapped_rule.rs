//! A rule of DataFusion's optimizer with a rewrite of ours around it.
//!
//! Not here: the rewrites, each in a module of its own, and the list of them (`stoppable`).

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::OptimizerConfig;
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerRule};

/// A rewrite of a plan that calls the rule, or leaves it out.
pub(super) type Around =
    fn(&dyn OptimizerRule, LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>>;

/// A rule with the rewrite around it. Its name and order stay.
pub(super) struct WrappedRule {
    pub(super) inner: Arc<dyn OptimizerRule + Send + Sync>,
    pub(super) around: Around,
}

impl fmt::Debug for WrappedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WrappedRule").field(&self.inner).finish()
    }
}

impl OptimizerRule for WrappedRule {
    delegate! { inner:
        fn name(&self) -> &str;
        fn apply_order(&self) -> Option<ApplyOrder>;
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.around)(self.inner.as_ref(), plan, config)
    }
}
