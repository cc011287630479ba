//! Barriers: temporary nodes of a physical plan that stop a rule of DataFusion from moving filters
//! or projections through an operator.
//!
//! - barriers-1. No filter is pushed down through an operator with two columns of one name, nor
//!   into a filter of such columns. DataFusion finds the column of a filter in the input of an
//!   operator by its name, and takes the first one: of the rows of a join of a table with itself,
//!   others would remain.
//! - barriers-2. No projection is exchanged with a filter that has a projection of its own.
//!   DataFusion compares the columns of the condition, which are those of the input, with the
//!   columns of the output: the condition would be that of another column of the same name, or
//!   the columns of the projection others.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

use crate::operators::unary::{Unary, UnaryExec, unary};

/// The beginning of the names of DataFusion's rules that push filters down.
const FILTER_PUSHDOWN: &str = "FilterPushdown";

/// The name of DataFusion's rule that pushes projections down.
const PROJECTION_PUSHDOWN: &str = "ProjectionPushdown";

/// Returns a rule with the barriers that it needs.
pub(super) fn with_barriers(
    inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    let name = inner.name();
    if name.starts_with(FILTER_PUSHDOWN) {
        Arc::new(Barriers { inner, needs_barrier: mixes_up_filters })
    } else if name == PROJECTION_PUSHDOWN {
        Arc::new(Barriers { inner, needs_barrier: has_projected_filter })
    } else {
        inner
    }
}

/// A rule that finds barriers above some of the operators.
#[derive(Debug)]
struct Barriers {
    inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    needs_barrier: fn(&dyn ExecutionPlan) -> bool,
}

impl PhysicalOptimizerRule for Barriers {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        between_barriers(plan, self.needs_barrier, |plan| self.inner.optimize(plan, config))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rule = |plan| self.inner.optimize_with_context(plan, context);
        between_barriers(plan, self.needs_barrier, rule)
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
    needs_barrier: fn(&dyn ExecutionPlan) -> bool,
    rule: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !plan.exists(|node| Ok(needs_barrier(node.as_ref())))? {
        return rule(plan);
    }
    let barred = plan.transform_up(|node| match needs_barrier(node.as_ref()) {
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

/// Returns true for operators through which no filter may be pushed (barriers-1).
fn mixes_up_filters(node: &dyn ExecutionPlan) -> bool {
    let has_mixed_input =
        || node.children().into_iter().any(|input| has_repeated_name(input.as_ref()));
    has_repeated_name(node) || has_projected_filter(node) && has_mixed_input()
}

/// Returns true for filters that have a projection (barriers-2).
fn has_projected_filter(node: &dyn ExecutionPlan) -> bool {
    node.downcast_ref::<FilterExec>().is_some_and(|filter| filter.projection().is_some())
}

fn has_repeated_name(node: &dyn ExecutionPlan) -> bool {
    let schema = node.schema();
    let mut names = HashSet::with_capacity(schema.fields().len());
    !schema.fields().iter().all(|field| names.insert(field.name()))
}

/// An operator that passes neither filters nor projections down, as those that know none.
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
            let changed = between_barriers(plan(names), mixes_up_filters, |plan| {
                is_barred = Some(plan.is::<UnaryExec<Barrier>>());
                Ok(plan)
            });
            assert_eq!(is_barred, Some(expected), "barriers-1: {names:?}");
            assert!(changed.unwrap().is::<EmptyExec>());
        }
    }
}
