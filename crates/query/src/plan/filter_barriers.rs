//! Barriers for filters that are pushed down a physical plan.
//!
//! - filter_barriers-1. No filter passes an operator with two columns of one name. DataFusion finds
//!   the column of a filter in the input of an operator by its name, and takes the first one: of
//!   the rows of a join of a table with itself, others would remain.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;

use crate::operators::unary::{Unary, UnaryExec, unary};

/// The beginning of the names of DataFusion's rules.
pub(super) const FILTER_PUSHDOWN: &str = "FilterPushdown";

/// A wrapper of a rule that pushes filters down, which stop at barriers.
#[derive(Debug)]
pub(super) struct FilterBarriers {
    pub(super) inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl PhysicalOptimizerRule for FilterBarriers {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        between_barriers(plan, |plan| self.inner.optimize(plan, config))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        between_barriers(plan, |plan| self.inner.optimize_with_context(plan, context))
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema_check(&self) -> bool {
        self.inner.schema_check()
    }
}

/// Puts barriers into a plan for as long as a rule changes it.
fn between_barriers(
    plan: Arc<dyn ExecutionPlan>,
    rule: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_ambiguous = |node: &Arc<dyn ExecutionPlan>| Ok(has_repeated_name(node.as_ref()));
    if !plan.exists(is_ambiguous)? {
        return rule(plan);
    }
    // filter_barriers-1.
    let barred = plan.transform_up(|node| match has_repeated_name(node.as_ref()) {
        true => Ok(Transformed::yes(unary(node, Barrier))),
        false => Ok(Transformed::no(node)),
    });
    let changed =
        rule(barred.data()?)?.transform_up(|node| match node.is::<UnaryExec<Barrier>>() {
            true => Ok(Transformed::yes(Arc::clone(node.children()[0]))),
            false => Ok(Transformed::no(node)),
        });
    changed.data()
}

fn has_repeated_name(node: &dyn ExecutionPlan) -> bool {
    let schema = node.schema();
    let mut names = HashSet::with_capacity(schema.fields().len());
    !schema.fields().iter().all(|field| names.insert(field.name()))
}

/// An operator that passes no filter down, as those that know none.
#[derive(Debug)]
struct Barrier;

impl Unary for Barrier {
    const NAME: &'static str = "FilterBarrier";

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        input.execute(partition, context)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    fn plan(names: &[&str]) -> Arc<dyn ExecutionPlan> {
        let fields = names.iter().map(|name| Field::new(*name, DataType::Int32, true));
        Arc::new(EmptyExec::new(Arc::new(Schema::new(fields.collect::<Vec<_>>()))))
    }

    #[test]
    fn barriers_stand_above_repeated_names_while_the_rule_runs() {
        for (names, expected) in [(&["a", "b"][..], false), (&["a", "b", "a"], true)] {
            let mut is_barred = None;
            let changed = between_barriers(plan(names), |plan| {
                is_barred = Some(plan.is::<UnaryExec<Barrier>>());
                Ok(plan)
            });
            assert_eq!(is_barred, Some(expected), "filter_barriers-1: {names:?}");
            assert!(changed.unwrap().is::<EmptyExec>());
        }
    }
}
