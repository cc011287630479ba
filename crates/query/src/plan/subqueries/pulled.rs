//! Subqueries whose conditions on the rows around them can be moved outside of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, FetchType, Filter, Join, JoinType, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, Projection, SkipType, lit,
};

use super::free::{free_columns, node_reads_outside, reads_outside};
use crate::types::tree_changes::ChangeParts;

/// Returns a simpler plan that has rows exactly if this one has: lists of columns, orders and
/// limits do not matter.
pub(super) fn needed_to_exist(plan: LogicalPlan) -> Result<LogicalPlan> {
    let input = match &plan {
        LogicalPlan::Projection(projection) => &projection.input,
        LogicalPlan::SubqueryAlias(alias) => &alias.input,
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => &sort.input,
        LogicalPlan::Distinct(Distinct::All(input)) => input,
        LogicalPlan::Limit(limit) if keeps_one(limit)? => &limit.input,
        _ => return Ok(plan),
    };
    needed_to_exist(input.as_ref().clone())
}

/// Returns true if a limit leaves at least one row of some.
fn keeps_one(limit: &Limit) -> Result<bool> {
    Ok(matches!(limit.get_skip_type()?, SkipType::Literal(0))
        && match limit.get_fetch_type()? {
            FetchType::Literal(rows) => rows != Some(0),
            FetchType::UnsupportedExpr => false,
        })
}

/// Returns true if DataFusion's rules make a join of EXISTS over this.
pub(super) fn is_pulled_by_rules(plan: &LogicalPlan) -> bool {
    // The rules find these columns by their names alone, among all columns of the rows.
    let fields = plan.schema().fields();
    let is_single = |column: &Column| {
        fields.iter().filter(|field| *field.name() == column.name).take(2).count() < 2
    };
    compared_outside(plan).iter().all(is_single) && is_plain(plan)
}

/// Returns the columns that the conditions on the rows around compare.
fn compared_outside(plan: &LogicalPlan) -> BTreeSet<Column> {
    let mut found = BTreeSet::new();
    if let LogicalPlan::Filter(Filter { predicate, input, .. }) = plan {
        let conditions = split_conjunction(predicate).into_iter();
        for condition in conditions.filter(|it| reads_outside(it, input.schema())) {
            found.extend(condition.column_refs().into_iter().cloned());
        }
    }
    plan.inputs().into_iter().for_each(|input| found.append(&mut compared_outside(input)));
    found
}

fn is_plain(plan: &LogicalPlan) -> bool {
    if free_columns(plan).is_empty() {
        return true;
    }
    match plan {
        LogicalPlan::Filter(filter) => {
            !super::expr_has_subqueries(&filter.predicate) && is_plain(&filter.input)
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            !node_reads_outside(plan) && plan.inputs().into_iter().all(is_plain)
        }
        // Below a list or a name, the rules lose columns.
        _ => false,
    }
}

/// Returns true if DataFusion's rules make a join of this as a value: an aggregate without groups
/// over rows that are selected by equality with the rows around.
pub(super) fn is_value_of_rules(plan: &LogicalPlan) -> bool {
    // The rules group by these columns, and find them by their names alone.
    let columns = compared_outside(plan);
    let names = columns.iter().map(|column| &column.name).collect::<BTreeSet<_>>();
    names.len() == columns.len() && is_plain_value(plan)
}

fn is_plain_value(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(Projection { input, .. }) => {
            !node_reads_outside(plan) && is_plain_value(input)
        }
        // The rules add columns to the aggregate, which a name above it does not have.
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.is_empty()
                && !node_reads_outside(plan)
                && compared_for_equality(&aggregate.input, Missing::Added).is_some()
        }
        _ => false,
    }
}

/// The treatment of compared columns that a list of columns lacks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// The rules add them to the list.
    Added,
    /// The list is below a name: the rules do not add them to its columns.
    Lost,
}

/// Returns the columns that are compared for equality with the rows around, as the rows of the plan
/// have them; `None` if the rules do not find them there, or if there are other conditions.
fn compared_for_equality(plan: &LogicalPlan, missing: Missing) -> Option<BTreeSet<Column>> {
    if free_columns(plan).is_empty() {
        return Some(BTreeSet::new());
    }
    match plan {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            if super::expr_has_subqueries(predicate) {
                return None;
            }
            let mut found = compared_for_equality(input, missing)?;
            let conditions = split_conjunction(predicate).into_iter();
            for condition in conditions.filter(|it| reads_outside(it, input.schema())) {
                if !is_equality(condition) {
                    return None;
                }
                found.extend(condition.column_refs().into_iter().cloned());
            }
            Some(found)
        }
        LogicalPlan::Projection(Projection { input, expr, .. }) if !node_reads_outside(plan) => {
            let found = compared_for_equality(input, missing)?;
            let is_found = |column: &Column| {
                let mut same = expr.iter().filter(|it| it.qualified_name().1 == column.name);
                match (same.next(), same.next()) {
                    (None, _) => missing == Missing::Added,
                    (Some(Expr::Column(listed)), None) => listed == column,
                    _ => false,
                }
            };
            found.iter().all(is_found).then_some(found)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let found = compared_for_equality(&alias.input, Missing::Lost)?;
            let named = |column: Column| Column::new(Some(alias.alias.clone()), column.name);
            Some(found.into_iter().map(named).collect())
        }
        _ => None,
    }
}

/// Returns true if a condition compares a column for equality with an expression of the rows
/// around.
fn is_equality(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return false;
    };
    let is_inside = |expr: &Expr| matches!(expr, Expr::Column(_));
    let is_outside = |expr: &Expr| matches!(expr, Expr::OuterReferenceColumn(..));
    is_inside(left) && is_outside(right) || is_outside(left) && is_inside(right)
}

/// A plan, and conditions over it and the rows around it.
type Pulled = (LogicalPlan, Vec<Expr>);

/// Returns the rows of a subquery without its conditions on the rows around it, and these
/// conditions; `None` if such conditions stand elsewhere. The columns in the conditions have names
/// of their own.
pub(super) fn pulled(
    plan: &LogicalPlan,
    name: &mut dyn FnMut() -> String,
) -> Result<Option<Pulled>> {
    let Some((plan, conditions)) = pull(plan, name)? else { return Ok(None) };
    let (mut columns, conditions) = renamed(conditions, name)?;
    if columns.is_empty() {
        columns.push(lit(1_i64).alias(name()));
    }
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    Ok(Some((plan, conditions)))
}

fn pull(plan: &LogicalPlan, name: &mut dyn FnMut() -> String) -> Result<Option<Pulled>> {
    if free_columns(plan).is_empty() {
        return Ok(Some((plan.clone(), Vec::new())));
    }
    match plan {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let Some((rows, mut conditions)) = pull(input, name)? else { return Ok(None) };
            let (outside, inside): (Vec<_>, Vec<_>) = split_conjunction_owned(predicate.clone())
                .into_iter()
                .partition(|condition| reads_outside(condition, input.schema()));
            if outside.iter().any(super::expr_has_subqueries) {
                return Ok(None);
            }
            conditions.extend(outside);
            let rows = match conjunction(inside) {
                Some(inside) => super::filtered(rows, inside)?,
                None => rows,
            };
            Ok(Some((rows, conditions)))
        }
        LogicalPlan::Projection(Projection { expr, input, .. }) if !node_reads_outside(plan) => {
            let Some((rows, conditions)) = pull(input, name)? else { return Ok(None) };
            let (columns, conditions) = renamed(conditions, name)?;
            let exprs = expr.iter().cloned().chain(columns).collect::<Vec<_>>();
            Ok(Some((LogicalPlanBuilder::from(rows).project(exprs)?.build()?, conditions)))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some((rows, conditions)) = pull(&alias.input, name)? else { return Ok(None) };
            let (columns, conditions) = renamed(conditions, name)?;
            let inside = alias.input.schema().columns().into_iter().zip(alias.schema.iter());
            let named = inside.map(|(column, (relation, field))| {
                Expr::Column(column).alias_qualified(relation.cloned(), field.name())
            });
            let exprs = named.chain(columns).collect::<Vec<_>>();
            Ok(Some((LogicalPlanBuilder::from(rows).project(exprs)?.build()?, conditions)))
        }
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => pull(&sort.input, name),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => pull_join(join, name),
        _ => Ok(None),
    }
}

fn pull_join(join: &Join, name: &mut dyn FnMut() -> String) -> Result<Option<Pulled>> {
    let schema = &join.schema;
    if join.on.iter().any(|(l, r)| reads_outside(l, schema) || reads_outside(r, schema)) {
        return Ok(None);
    }
    let (Some((left, mut conditions)), Some((right, more))) =
        (pull(&join.left, name)?, pull(&join.right, name)?)
    else {
        return Ok(None);
    };
    conditions.extend(more);
    let filters = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
    let (outside, inside): (Vec<_>, Vec<_>) =
        filters.into_iter().partition(|condition| reads_outside(condition, schema));
    if outside.iter().any(super::expr_has_subqueries) {
        return Ok(None);
    }
    conditions.extend(outside);
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on.clone(),
        conjunction(inside),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    Ok(Some((LogicalPlan::Join(joined), conditions)))
}

/// Returns the columns that conditions read, under names that no other columns have, and the
/// conditions over these.
fn renamed(
    conditions: Vec<Expr>,
    name: &mut dyn FnMut() -> String,
) -> Result<(Vec<Expr>, Vec<Expr>)> {
    let mut known: Vec<(Column, String)> = Vec::new();
    let conditions = conditions
        .into_iter()
        .map(|condition| {
            condition
                .change_parts(&mut |expr| match expr {
                    Expr::Column(column) => {
                        let found = known.iter().find(|(of, _)| *of == column);
                        let name = found.map(|(_, name)| name.clone()).unwrap_or_else(|| {
                            let name = name();
                            known.push((column, name.clone()));
                            name
                        });
                        Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
                    }
                    expr => Ok(Transformed::no(expr)),
                })
                .data()
        })
        .collect::<Result<Vec<_>>>()?;
    let columns = known.into_iter().map(|(column, name)| Expr::Column(column).alias(name));
    Ok((columns.collect(), conditions))
}
