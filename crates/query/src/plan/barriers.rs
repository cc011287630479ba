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
//! - barriers-3. No filter is pushed down through projections that would make more than `NODES_MAX`
//!   nodes of it. DataFusion replaces columns by the expressions of projections, and each one that
//!   uses a column twice doubles the filter. Columns of filters are counted together: a filter of
//!   many columns may grow less at each.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::operators::unary::{Unary, UnaryExec, unary};

/// The beginning of the names of DataFusion's rules that push filters down.
const FILTER_PUSHDOWN: &str = "FilterPushdown";

/// The name of DataFusion's rule that pushes projections down.
const PROJECTION_PUSHDOWN: &str = "ProjectionPushdown";

/// The maximal number of nodes of a filter whose columns are replaced (barriers-3).
const NODES_MAX: usize = 4_096;

/// Returns a rule with the barriers that it needs.
pub(super) fn with_barriers(
    inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    let name = inner.name();
    if name.starts_with(FILTER_PUSHDOWN) {
        Arc::new(Barriers { inner, needs_barrier: bars_filters })
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
    needs_barrier: fn(&dyn ExecutionPlan, &mut Sizes) -> bool,
}

impl PhysicalOptimizerRule for Barriers {
    delegate! { inner:
        fn name(&self) -> &str;
        fn schema_check(&self) -> bool;
    }

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
}

/// Puts barriers into a plan for as long as a rule changes it.
fn between_barriers(
    plan: Arc<dyn ExecutionPlan>,
    needs_barrier: fn(&dyn ExecutionPlan, &mut Sizes) -> bool,
    rule: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut sizes = Sizes::of_filters(&plan)?;
    let barred = plan.transform_up(|node| match needs_barrier(node.as_ref(), &mut sizes) {
        true => Ok(Transformed::yes(unary(node, Barrier))),
        false => Ok(Transformed::no(node)),
    })?;
    if !barred.transformed {
        return rule(barred.data);
    }
    let changed = rule(barred.data)?.transform_up(|node| match node.is::<UnaryExec<Barrier>>() {
        true => Ok(Transformed::yes(Arc::clone(node.children()[0]))),
        false => Ok(Transformed::no(node)),
    });
    changed.data()
}

/// Returns true for operators through which no filter may be pushed (barriers-1, barriers-3). Nodes
/// come from the leaves up.
fn bars_filters(node: &dyn ExecutionPlan, sizes: &mut Sizes) -> bool {
    let is_large = sizes.add(node);
    let has_mixed_input =
        || node.children().into_iter().any(|input| has_repeated_name(input.as_ref()));
    is_large || has_repeated_name(node) || is_projected_filter(node) && has_mixed_input()
}

/// Returns true for filters that have a projection (barriers-2).
fn has_projected_filter(node: &dyn ExecutionPlan, _: &mut Sizes) -> bool {
    is_projected_filter(node)
}

fn is_projected_filter(node: &dyn ExecutionPlan) -> bool {
    node.downcast_ref::<FilterExec>().is_some_and(|filter| filter.projection().is_some())
}

/// The sizes of the expressions that columns stand for, down to the next barrier (barriers-3).
struct Sizes {
    /// The columns of the filter that has the most, or of the sort or join keys, from which dynamic
    /// filters are made; at least one.
    uses: usize,
    /// The sizes of the columns of the nodes whose parents are still to be added.
    nodes: Vec<Vec<usize>>,
}

impl Sizes {
    /// Returns those of a plan whose nodes are still to be added.
    fn of_filters(plan: &Arc<dyn ExecutionPlan>) -> Result<Sizes> {
        let mut uses = 1;
        let columns = |expr: &Arc<dyn PhysicalExpr>| size(expr, |_| 1, 0);
        plan.apply(|node| {
            let found: usize = if let Some(filter) = node.downcast_ref::<FilterExec>() {
                columns(filter.predicate())
            } else if let Some(sort) = node.downcast_ref::<SortExec>() {
                sort.expr().iter().map(|key| columns(&key.expr)).sum()
            } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
                join.on().iter().map(|(left, right)| columns(left).max(columns(right))).sum()
            } else {
                0
            };
            uses = uses.max(found);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Sizes { uses, nodes: Vec::new() })
    }

    /// Adds a node whose inputs are the last ones; returns true if filters would grow too much in
    /// it, and takes its columns for plain ones then.
    fn add(&mut self, node: &dyn ExecutionPlan) -> bool {
        let children = node.children();
        let inputs = self.nodes.split_off(self.nodes.len() - children.len());
        let width = node.schema().fields().len();
        let is_like = |input: &Arc<dyn ExecutionPlan>| {
            !node.is::<AggregateExec>() && input.schema().fields() == node.schema().fields()
        };
        let sizes: Vec<usize> = match (node.downcast_ref::<ProjectionExec>(), inputs.as_slice()) {
            (Some(projection), [input]) => {
                let of_column = |at: usize| input.get(at).copied().unwrap_or(1);
                projection.expr().iter().map(|it| size(&it.expr, of_column, 1)).collect()
            }
            (None, [input]) if is_like(children[0]) => input.clone(),
            _ => vec![inputs.iter().flatten().copied().max().unwrap_or(1); width],
        };
        let is_large = sizes.iter().any(|size| NODES_MAX < size.saturating_mul(self.uses));
        self.nodes.push(if is_large { vec![1; width] } else { sizes });
        is_large
    }
}

/// Returns the sum of the sizes of the parts of an expression: of its columns, and of the others.
fn size(expr: &Arc<dyn PhysicalExpr>, column: impl Fn(usize) -> usize, other: usize) -> usize {
    let mut sum = 0_usize;
    let added = expr.apply(|part| {
        let size = part.downcast_ref::<Column>().map_or(other, |it| column(it.index()));
        sum = sum.saturating_add(size);
        Ok(TreeNodeRecursion::Continue)
    });
    added.expect("adding does not fail");
    sum
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
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::BinaryExpr;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::projection::ProjectionExpr;

    use super::*;

    fn plan(names: &[&str]) -> Arc<dyn ExecutionPlan> {
        let fields = names.iter().map(|name| Field::new(*name, DataType::Int32, true));
        Arc::new(EmptyExec::new(Arc::new(Schema::new(fields.collect::<Vec<_>>()))))
    }

    #[test]
    fn barriers_stand_above_repeated_names_while_the_rule_runs() {
        for (names, expected) in [(&["a", "b"][..], false), (&["a", "b", "a"], true)] {
            let mut is_barred = None;
            let changed = between_barriers(plan(names), bars_filters, |plan| {
                is_barred = Some(plan.is::<UnaryExec<Barrier>>());
                Ok(plan)
            });
            assert_eq!(is_barred, Some(expected), "barriers-1: {names:?}");
            assert!(changed.unwrap().is::<EmptyExec>());
        }
    }

    /// Returns a projection of `a + a` on top of a plan with the column `a`.
    fn doubled(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let column = || Arc::new(Column::new("a", 0)) as Arc<dyn PhysicalExpr>;
        let sum = Arc::new(BinaryExpr::new(column(), Operator::Plus, column()));
        let named = ProjectionExpr { expr: sum, alias: "a".to_owned() };
        Arc::new(ProjectionExec::try_new([named], input).unwrap())
    }

    #[test]
    fn barriers_stand_where_filters_would_grow() {
        for (levels, expected) in [(1, 0), (11, 0), (12, 1), (23, 1), (24, 2)] {
            let mut barriers = 0;
            let chain = (0..levels).fold(plan(&["a"]), |input, _| doubled(input));
            let changed = between_barriers(chain, bars_filters, |plan| {
                plan.apply(|node| {
                    barriers += usize::from(node.is::<UnaryExec<Barrier>>());
                    Ok(TreeNodeRecursion::Continue)
                })?;
                Ok(plan)
            });
            // The size of `levels` sums is that of a binary tree: 12 of them have 8,191 nodes.
            assert_eq!(barriers, expected, "barriers-3: {levels}");
            assert!(changed.unwrap().is::<ProjectionExec>());
        }
    }
}
