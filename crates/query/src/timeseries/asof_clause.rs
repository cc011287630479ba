//! ASOF and LT JOIN in a query: the logical join of two relations from its conditions.
//!
//! Not here: the join itself (`timeseries::asof`).

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::{Column, Result, internal_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, build_join_schema};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, Join, JoinConstraint, JoinOperator, TableFactor,
};

use crate::error::{ClauseProblem, Error};
use crate::sql::clauses::tolerance_name;
use crate::sql::select_rewrite::tolerance_of;
use crate::timeseries::asof::{AsofJoin, TimeJoin};
use crate::timeseries::designated::designated;
use crate::timeseries::extension;
use crate::types::bucket::Stride;

/// Returns the plan of a join in time: `join` is one that `clauses` has marked.
pub(crate) fn time_join(
    left: TableFactor,
    join: Join,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let (kind, constraint) = match join.join_operator {
        JoinOperator::Left(constraint) => (TimeJoin::AtOrBefore, constraint),
        JoinOperator::Right(constraint) => (TimeJoin::Before, constraint),
        _ => return internal_err!("a join in time is marked as LEFT or RIGHT"),
    };
    let (left, right) = (context.plan(left)?, context.plan(join.relation)?);
    let time_of = |plan: &LogicalPlan| {
        designated(plan).ok_or(ClauseProblem::NoDesignated { clause: kind.clause() })
    };
    let (left_time, right_time) = (time_of(&left)?, time_of(&right)?);
    let mut on = Conditions { left: &left, right: &right, keys: Vec::new(), tolerance: None };
    match constraint {
        JoinConstraint::None => {}
        JoinConstraint::On(condition) => on.add(condition, context)?,
        JoinConstraint::Using(_) | JoinConstraint::Natural => return Err(other_condition()),
    }
    let (keys, tolerance) = (on.keys, on.tolerance);
    for (a, b) in &keys {
        let ty = |plan: &LogicalPlan, column: &Column| {
            Ok::<_, datafusion::common::DataFusionError>(
                plan.schema().qualified_field_from_column(column)?.1.data_type().clone(),
            )
        };
        let (a, b) = (ty(&left, a)?, ty(&right, b)?);
        if comparison_coercion(&a, &b).is_none() {
            let what = ClauseProblem::KeyTypes { left: a.to_string(), right: b.to_string() };
            return Err(what.into());
        }
    }
    let schema = build_join_schema(left.schema(), right.schema(), &JoinType::Left)?;
    let schema = Arc::new(schema);
    Ok(extension(AsofJoin { left, right, left_time, right_time, keys, kind, tolerance, schema }))
}

fn other_condition() -> datafusion::common::DataFusionError {
    let feature = "a join in time by anything but equal columns";
    Error::NotSupported { position: None, feature }.into()
}

/// The conditions of ON and TOLERANCE.
struct Conditions<'a> {
    left: &'a LogicalPlan,
    right: &'a LogicalPlan,
    keys: Vec<(Column, Column)>,
    /// The tolerance in nanoseconds.
    tolerance: Option<i128>,
}

impl Conditions<'_> {
    fn add(&mut self, condition: SqlExpr, context: &mut dyn RelationPlannerContext) -> Result<()> {
        if let Some((count, unit)) = tolerance_of(&condition, &tolerance_name()) {
            self.tolerance = Stride { count, unit }.nanos();
            return Ok(());
        }
        match condition {
            SqlExpr::Nested(inner) => self.add(*inner, context),
            SqlExpr::Tuple(all) => all.into_iter().try_for_each(|one| self.add(one, context)),
            SqlExpr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.add(*left, context)?;
                self.add(*right, context)
            }
            SqlExpr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                let straight = self.pair(&left, &right, context);
                let pair =
                    straight.or_else(|error| self.pair(&right, &left, context).map_err(|_| error));
                self.keys.push(pair?);
                Ok(())
            }
            SqlExpr::Identifier(name) => {
                let key = SqlExpr::Identifier(name.clone());
                // Of the columns of this name from earlier joins, the first.
                let is_it = |(_, field): &(_, &Arc<Field>)| field.name() == &name.value;
                let mut found = self.left.schema().iter().filter(is_it);
                let pair = match (found.next(), found.next()) {
                    (Some(left), Some(_)) => {
                        let right = context.sql_to_expr(key, self.right.schema())?;
                        let Expr::Column(right) = right else { return Err(other_condition()) };
                        (Column::from(left), right)
                    }
                    _ => self.pair(&key, &key, context)?,
                };
                self.keys.push(pair);
                Ok(())
            }
            _ => Err(other_condition()),
        }
    }

    fn pair(
        &self,
        left: &SqlExpr,
        right: &SqlExpr,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<(Column, Column)> {
        let mut column = |expr: &SqlExpr, plan: &LogicalPlan| match context
            .sql_to_expr(expr.clone(), plan.schema())?
        {
            Expr::Column(column) => Ok(column),
            _ => Err(other_condition()),
        };
        Ok((column(left, self.left)?, column(right, self.right)?))
    }
}
