//! A wrapper of an optimizer rule: a union with one input that is not empty keeps its column names.
//!
//! - The columns of the one input get the names of the union's by their position.
//!
//! DataFusion's rule gives them names only, and then looks for columns of those names.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::OptimizerConfig;
use datafusion::optimizer::optimizer::OptimizerRule;

/// The name of DataFusion's rule.
pub(super) const PROPAGATE_EMPTY: &str = "propagate_empty_relation";

/// Calls DataFusion's rule that removes empty inputs.
pub(super) fn keep_union_names(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Union(union) = &plan
        && let Some(input) = only_input(union)
        && input.schema() != &union.schema
    {
        return renamed(input, union).map(Transformed::yes);
    }
    rule.rewrite(plan, config)
}

/// Returns the input that is not empty, if there is one and others are.
fn only_input(union: &Union) -> Option<&Arc<LogicalPlan>> {
    let is_empty = |input: &Arc<LogicalPlan>| match input.as_ref() {
        LogicalPlan::EmptyRelation(empty) => !empty.produce_one_row,
        _ => false,
    };
    let mut others = union.inputs.iter().filter(|input| !is_empty(input));
    let first = others.next().filter(|_| union.inputs.len() > 1)?;
    others.next().is_none().then_some(first)
}

fn renamed(input: &Arc<LogicalPlan>, union: &Union) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter().zip(union.schema.iter());
    let columns = columns.map(|(column, (relation, field))| {
        Expr::Column(column).alias_qualified(relation.cloned(), field.name())
    });
    let (columns, schema) = (columns.collect(), Arc::clone(&union.schema));
    let projection = Projection::try_new_with_schema(columns, Arc::clone(input), schema)?;
    Ok(LogicalPlan::Projection(projection))
}
