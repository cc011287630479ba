//! Recursive queries whose terms have columns of different fields.
//!
//! - RQ1. After [`with_alike_terms`], the fields of the recursive term have the metadata of those
//!   of the query, such as the name and the type that they are stored under: otherwise DataFusion
//!   takes a column of a table and a value calculated from it for different ones.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::logical_plan::RecursiveQuery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::declared::with_metadata;

/// Adapts the recursive terms of a whole plan (RQ1).
pub(super) fn with_alike_terms(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::RecursiveQuery(query) => alike(query),
        node => Ok(Transformed::no(node)),
    })
    .data()
}

fn alike(query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    let term = &query.recursive_term;
    let pairs = query.schema.fields().iter().zip(term.schema().fields());
    if pairs.clone().all(|(told, own)| told.metadata() == own.metadata()) {
        return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)));
    }
    let columns = term.schema().columns().into_iter().zip(pairs);
    let columns = columns.map(|(column, (told, own))| {
        let (relation, name) = (column.relation.clone(), column.name.clone());
        match told.metadata() == own.metadata() {
            true => Expr::Column(column),
            false => with_metadata(Expr::Column(column), told).alias_qualified(relation, name),
        }
    });
    let columns = columns.collect::<Vec<_>>();
    let term = LogicalPlanBuilder::from(term.as_ref().clone()).project(columns)?.build()?;
    let query = RecursiveQuery { recursive_term: Arc::new(term), ..query };
    Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
}
