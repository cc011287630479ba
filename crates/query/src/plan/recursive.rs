//! Recursive queries: the columns of both terms get the same metadata.
//!
//! - After [`with_alike_terms`], the fields of the recursive term have the metadata of those of the
//!   query, such as the name and the type that they are stored under: otherwise DataFusion takes a
//!   column of a table and a value calculated from it for different ones.
//! - So have calculated columns of the query itself, under any rule: one that simplifies `CASE WHEN
//!   true THEN c END` to the column would give it the metadata of the column.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::logical_plan::RecursiveQuery;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder};

use super::declared::with_metadata;
use crate::types::tree_changes::ChangePlan;

/// Adapts the recursive terms of a whole plan.
pub(super) fn with_alike_terms(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_nodes(&mut |node| match node {
        LogicalPlan::RecursiveQuery(query) => unify_terms(query),
        node => Ok(Transformed::no(node)),
    })
    .data()
}

fn unify_terms(mut query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    let fields = query.schema.fields().clone();
    let first = query.static_term.as_ref();
    let is_calculated = (0..fields.len()).map(|at| is_calculated(first, at)).collect::<Vec<_>>();
    let own = query.recursive_term.schema().fields().clone();
    let differs = |at: usize| fields[at].metadata() != own[at].metadata();
    let is_told = (0..fields.len().min(own.len())).map(|at| is_calculated[at] || differs(at));
    let is_told = is_told.collect::<Vec<_>>();
    if !is_told.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)));
    }
    query.static_term = told(&query.static_term, &is_calculated, &fields)?;
    query.recursive_term = told(&query.recursive_term, &is_told, &fields)?;
    Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
}

/// Returns a term with the metadata of these fields, where it is marked.
fn told(
    term: &Arc<LogicalPlan>,
    is_marked: &[bool],
    fields: &[FieldRef],
) -> Result<Arc<LogicalPlan>> {
    let columns = term.schema().columns().into_iter().zip(is_marked.iter().zip(fields));
    let columns = columns.map(|(column, (is_marked, field))| {
        let (relation, name) = (column.relation.clone(), column.name.clone());
        match is_marked {
            true => with_metadata(Expr::Column(column), field).alias_qualified(relation, name),
            false => Expr::Column(column),
        }
    });
    let columns = columns.collect::<Vec<_>>();
    LogicalPlanBuilder::from(term.as_ref().clone()).project(columns)?.build().map(Arc::new)
}

/// Returns true if a column is neither one of a table nor a constant, as far as that is visible.
fn is_calculated(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr[at].clone().unalias() {
            Expr::Column(column) => {
                let below = projection.input.schema().maybe_index_of_column(&column);
                below.is_some_and(|at| is_calculated(&projection.input, at))
            }
            Expr::Literal(..) => false,
            _ => true,
        },
        LogicalPlan::SubqueryAlias(alias) => is_calculated(&alias.input, at),
        LogicalPlan::Filter(filter) => is_calculated(&filter.input, at),
        LogicalPlan::Sort(sort) => is_calculated(&sort.input, at),
        LogicalPlan::Limit(limit) => is_calculated(&limit.input, at),
        LogicalPlan::Distinct(Distinct::All(input)) => is_calculated(input, at),
        _ => false,
    }
}
