//! Subqueries in the condition of a join.
//!
//! - Those of an inner join are conditions of the rows that it gives.
//! - In ON of any other join, a condition with a subquery is a column of the one side that it
//!   reads: the rows of that side stay what they are.

use std::sync::Arc;

use datafusion::common::tree_node::{TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection,
};

use super::free::{free_columns, subquery_in};
use super::{Joiner, expr_has_subqueries, lateral};
use crate::error::Error;

/// True if the condition of a join has subqueries.
pub(super) fn has_subqueries_in_on(join: &Join) -> bool {
    let is_asked =
        |(left, right): &(Expr, Expr)| expr_has_subqueries(left) || expr_has_subqueries(right);
    join.filter.as_ref().is_some_and(expr_has_subqueries) || join.on.iter().any(is_asked)
}

impl Joiner {
    /// A join whose condition has subqueries.
    pub(super) fn join_on_subqueries(&mut self, join: Join) -> Result<LogicalPlan> {
        let columns = join.schema.columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
        let equal = join.on.clone().into_iter().map(|(left, right)| left.eq(right));
        let given = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
        let (asked, mut plain): (Vec<_>, Vec<_>) =
            equal.chain(given).partition(expr_has_subqueries);
        if join.join_type == JoinType::Inner {
            let plan = self.join(with_condition(join, conjunction(plain))?)?.data;
            let condition = conjunction(asked).expect("it has subqueries");
            let filter = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?);
            return self.node(filter).data();
        }
        let (mut left, mut right) = (join.left.as_ref().clone(), join.right.as_ref().clone());
        for condition in asked {
            let read = columns_of(&condition);
            let reads = |side: &DFSchema| read.iter().any(|column| side.has_column(column));
            let side = match (reads(left.schema()), reads(right.schema())) {
                (true, true) => {
                    let feature = "a subquery in ON of an outer join that reads both of its sides";
                    return Err(Error::NotSupported { position: None, feature }.into());
                }
                (false, true) if lateral(&right).is_some() => {
                    let feature = "a subquery over LATERAL rows in ON of an outer join";
                    return Err(Error::NotSupported { position: None, feature }.into());
                }
                (false, true) => &mut right,
                (_, false) => &mut left,
            };
            plain.push(self.condition_column(condition, side)?);
        }
        let (left, right) = (Arc::new(left), Arc::new(right));
        let join = with_condition(Join { left, right, ..join }, conjunction(plain))?;
        let plan = self.join(join)?.data;
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    }

    /// Adds the condition to a side as a column, and returns the column.
    fn condition_column(&mut self, condition: Expr, side: &mut LogicalPlan) -> Result<Expr> {
        let name = self.name();
        let given = side.schema().columns().into_iter().map(Expr::Column);
        let listed = given.chain([condition.alias(&name)]).collect::<Vec<_>>();
        let listed = Projection::try_new(listed, Arc::new(side.clone()))?;
        *side = self.node(LogicalPlan::Projection(listed)).data()?;
        Ok(Expr::Column(Column::new_unqualified(name)))
    }
}

/// The join with another condition in place of its own.
fn with_condition(join: Join, condition: Option<Expr>) -> Result<Join> {
    Join::try_new(
        join.left,
        join.right,
        Vec::new(),
        condition,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )
}

/// The columns that an expression reads, also in its subqueries.
fn columns_of(expr: &Expr) -> Vec<Column> {
    let mut columns = Vec::new();
    expr.apply(|part| {
        match part {
            Expr::Column(column) | Expr::OuterReferenceColumn(_, column) => {
                columns.push(column.clone());
            }
            part => {
                let free = subquery_in(part).map(|it| free_columns(&it.subquery));
                columns.extend(free.into_iter().flatten().map(|free| free.column));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .expect("it never fails");
    columns
}
