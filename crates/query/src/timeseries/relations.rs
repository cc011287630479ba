//! Plans of the derived tables that stand for clauses (`sql::select_rewrite`).

pub(crate) mod sample;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, ObjectName, Query, TableAlias, TableFactor, TableWithJoins,
};

use super::designated::designated;
use super::limit_from_end::{EndLimit, limited_from_end};
use super::ties::first_with_ties;
use crate::error::{ClauseProblem, Error};
use crate::functions::bounded::operators::bound_expr;
use crate::names::INTERNAL_PREFIX;
use crate::position::Position;
use crate::sql::clauses::timestamp_prefix;
use crate::sql::select_rewrite::{RewrittenClause, clause_number, is_time_join};
use crate::timeseries::asof_clause::time_join;
use crate::timeseries::designated::in_order_of;
use crate::timeseries::latest_clause::latest;
use crate::types::expression_size::check_constant;
use crate::types::literal::integer_of;
use sample::sampled;

/// A planner of the derived tables of one query.
#[derive(Debug)]
pub(crate) struct ClauseRelations {
    clauses: Vec<RewrittenClause>,
    aggregates: HashSet<String>,
    simplify: SimplifyContext,
    /// Plans that are inserted as tables while another one is planned.
    slots: Mutex<Vec<LogicalPlan>>,
}

impl ClauseRelations {
    pub(crate) fn new(
        state: &SessionState,
        clauses: Vec<RewrittenClause>,
        aggregates: HashSet<String>,
    ) -> ClauseRelations {
        let simplify = SimplifyContext::builder()
            .with_config_options(Arc::clone(state.config_options()))
            .with_query_execution_start_time(state.execution_props().query_execution_start_time)
            .build();
        let slots = Mutex::new(Vec::new());
        ClauseRelations { clauses, aggregates, simplify, slots }
    }

    /// Returns true if a function of this name, in lower case, is an aggregate.
    pub(super) fn is_aggregate(&self, name: &str) -> bool {
        self.aggregates.contains(name)
    }

    /// Returns the value of an expression without columns; `None` if it is not known yet.
    pub(super) fn constant(
        &self,
        expr: SqlExpr,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<ScalarValue>> {
        let schema = DFSchema::empty();
        let expr = context.sql_to_expr(expr, &schema)?;
        check_constant(&expr)?;
        let simplifier = ExprSimplifier::new(self.simplify.clone());
        let expr = bound_expr(simplifier.coerce(expr, &schema)?, &Arc::new(schema))?;
        let expr = simplifier.simplify(expr)?;
        Ok(match expr {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        })
    }

    /// Returns the plan of a query in brackets.
    pub(super) fn inner(
        query: Query,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let subquery = Box::new(query);
        context.plan(TableFactor::Derived { lateral: false, subquery, alias: None, sample: None })
    }

    /// Returns a table that stands for a plan, with its names.
    pub(super) fn slot(&self, plan: LogicalPlan) -> TableFactor {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("{}{}", slot_prefix(), slots.len());
        slots.push(plan);
        TableFactor::Table {
            name: ObjectName::from(vec![Ident::with_quote('"', name)]),
            alias: None,
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        }
    }

    fn slot_plan(&self, name: &ObjectName) -> Option<LogicalPlan> {
        let [part] = name.0.as_slice() else { return None };
        let number = part.as_ident()?.value.strip_prefix(&slot_prefix())?.parse::<usize>().ok()?;
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).get(number).cloned()
    }

    fn planned_clause(
        &self,
        alias: &TableAlias,
        query: Query,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        if let Some(column) = alias.name.value.strip_prefix(&timestamp_prefix()) {
            return with_timestamp(Self::named(alias, query, context)?, column);
        }
        match clause_number(alias).and_then(|number| self.clauses.get(number)).cloned() {
            Some(RewrittenClause::Limit { position, low, high }) => {
                let plan = Self::inner(query, context)?;
                let bound = |expr, context: &mut dyn RelationPlannerContext| {
                    self.bound(expr, position, context)
                };
                let low = low.map(|low| bound(*low, context)).transpose()?;
                let high = bound(*high, context)?;
                let rows =
                    wanted_rows(low, high).map_err(|what| Error::Clause { position, what })?;
                limited(plan, rows)
            }
            Some(RewrittenClause::Ties { position, skip, count }) => {
                let plan = Self::inner(query, context)?;
                let skip = match skip {
                    Some(skip) => self.count(*skip, position, context)?.unwrap_or_default(),
                    None => 0,
                };
                let count = self.count(*count, position, context)?;
                let what = ClauseProblem::LimitBound;
                first_with_ties(plan, skip, count.ok_or(Error::Clause { position, what })?)
            }
            Some(RewrittenClause::Latest(clause)) => {
                let rows = Self::inner(query, context)?;
                latest(&clause, rows, context)
            }
            Some(RewrittenClause::Sample(clause)) => sampled(self, &clause, query, context),
            None => Self::named(alias, query, context),
        }
    }

    /// Returns the plan of a query in brackets, whose columns have the names of its alias, if that
    /// has some.
    fn named(
        alias: &TableAlias,
        query: Query,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let plan = Self::inner(query, context)?;
        if alias.columns.is_empty() {
            return Ok(plan);
        }
        let columns = plan.schema().columns().into_iter();
        let named = columns.zip(&alias.columns).map(|(column, given)| {
            match column.name == given.name.value {
                true => Expr::Column(column),
                false => Expr::Column(column).alias(given.name.value.as_str()),
            }
        });
        let named = named.collect::<Vec<_>>();
        LogicalPlanBuilder::from(plan).project(named)?.build()
    }

    /// Returns a bound of LIMIT. NULL is `None`: no bound.
    fn bound(
        &self,
        expr: SqlExpr,
        position: Option<Position>,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<i64>> {
        let value = self.constant(expr, context)?;
        match value {
            Some(value) if value.is_null() => Ok(None),
            Some(value) => match integer_of(&value).and_then(|value| i64::try_from(value).ok()) {
                Some(bound) => Ok(Some(bound)),
                None => Err(Error::Clause { position, what: ClauseProblem::LimitBound }.into()),
            },
            None => Err(Error::Clause { position, what: ClauseProblem::LimitBound }.into()),
        }
    }

    /// Returns a bound that does not count from the end. NULL is `None`.
    fn count(
        &self,
        expr: SqlExpr,
        position: Option<Position>,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<usize>> {
        let Some(bound) = self.bound(expr, position, context)? else { return Ok(None) };
        match usize::try_from(bound) {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err(Error::Clause { position, what: ClauseProblem::NegativeLimit }.into()),
        }
    }
}

fn slot_prefix() -> String {
    format!("{INTERNAL_PREFIX}slot ")
}

impl RelationPlanner for ClauseRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let planned =
            |plan| Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))));
        match relation {
            TableFactor::Derived { subquery, alias: Some(alias), .. }
                if alias.name.value.starts_with(INTERNAL_PREFIX) =>
            {
                planned(self.planned_clause(&alias, *subquery, context)?)
            }
            TableFactor::Table { ref name, .. } => match self.slot_plan(name) {
                Some(plan) => planned(plan),
                None => Ok(RelationPlanning::Original(Box::new(relation))),
            },
            TableFactor::NestedJoin { table_with_joins, alias: None }
                if is_time_join(&table_with_joins) =>
            {
                let TableWithJoins { relation, mut joins } = *table_with_joins;
                let join = joins.pop().expect("it has one");
                planned(time_join(relation, join, context)?)
            }
            relation => Ok(RelationPlanning::Original(Box::new(relation))),
        }
    }
}

/// Returns the plan of `(plan) TIMESTAMP(column)`.
fn with_timestamp(plan: LogicalPlan, name: &str) -> Result<LogicalPlan> {
    let column = Column::from(plan.schema().qualified_field_with_unqualified_name(name)?);
    if designated(&plan).as_ref() == Some(&column) {
        return Ok(plan);
    }
    let (_, field) = plan.schema().qualified_field_from_column(&column)?;
    if !matches!(field.data_type(), datafusion::arrow::datatypes::DataType::Timestamp(..)) {
        return Err(ClauseProblem::NotTimestamp { column: name.to_owned() }.into());
    }
    in_order_of(plan, column)
}

/// The rows that a LIMIT selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WantedRows {
    /// A range counted from the start.
    FromStart { skip: usize, fetch: Option<usize> },
    /// Rows counted from the end, of those behind the first `skip`.
    FromEnd { skip: usize, limit: EndLimit },
}

/// Returns the rows of `LIMIT high` and `LIMIT low, high`; an inner `None` is NULL.
fn wanted_rows(
    low: Option<Option<i64>>,
    high: Option<i64>,
) -> std::result::Result<WantedRows, ClauseProblem> {
    // DataFusion counts rows in 64 bits with a sign.
    let count = |bound: i64| usize::try_from(bound.saturating_abs()).unwrap_or(usize::MAX);
    let last =
        |rows, dropped| WantedRows::FromEnd { skip: 0, limit: EndLimit::Last { rows, dropped } };
    Ok(match (low.map(Option::unwrap_or_default), high) {
        (None, None) => WantedRows::FromStart { skip: 0, fetch: None },
        (None, Some(high)) if high < 0 => last(count(high), 0),
        (None, Some(high)) => WantedRows::FromStart { skip: 0, fetch: Some(count(high)) },
        (Some(low), None) if low < 0 => last(count(low), 0),
        (Some(low), None) => WantedRows::FromStart { skip: count(low), fetch: None },
        (Some(low), Some(high)) => match (low < 0, high < 0) {
            (false, false) => {
                let (skip, end) = (count(low.min(high)), count(low.max(high)));
                WantedRows::FromStart { skip, fetch: Some(end - skip) }
            }
            (true, true) => last(count(low.min(high)), count(low.max(high))),
            (false, true) => {
                let limit = EndLimit::AllButLast { dropped: count(high) };
                WantedRows::FromEnd { skip: count(low), limit }
            }
            (true, false) if high == 0 => last(count(low), 0),
            (true, false) => return Err(ClauseProblem::LimitFromEndToStart),
        },
    })
}

fn limited(plan: LogicalPlan, rows: WantedRows) -> Result<LogicalPlan> {
    match rows {
        WantedRows::FromStart { skip, fetch } => {
            LogicalPlanBuilder::from(plan).limit(skip, fetch)?.build()
        }
        WantedRows::FromEnd { skip: 0, limit } => limited_from_end(plan, limit),
        WantedRows::FromEnd { skip, limit } => {
            limited_from_end(LogicalPlanBuilder::from(plan).limit(skip, None)?.build()?, limit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(low: Option<i64>, high: i64, expected: &str) {
        // Ten rows, numbered from 1, stand for any result.
        let shown = match wanted_rows(low.map(Some), Some(high)) {
            Err(problem) => format!("error: {problem}"),
            Ok(rows) => {
                let (skip, end) = match rows {
                    WantedRows::FromStart { skip, fetch } => {
                        (skip, fetch.map_or(10, |fetch| (skip + fetch).min(10)))
                    }
                    WantedRows::FromEnd { skip, limit: EndLimit::Last { rows, dropped } } => {
                        (skip.max(10_usize.saturating_sub(rows)), 10_usize.saturating_sub(dropped))
                    }
                    WantedRows::FromEnd { skip, limit: EndLimit::AllButLast { dropped } } => {
                        (skip, 10_usize.saturating_sub(dropped))
                    }
                };
                if skip < end { format!("{}..{end}", skip + 1) } else { "none".to_owned() }
            }
        };
        assert_eq!(shown, expected, "LIMIT {low:?}, {high}");
    }

    #[test]
    fn limits_select_the_rows_of_the_table() {
        check(None, 3, "1..3");
        check(None, -3, "8..10");
        check(None, 0, "none");
        check(Some(2), 5, "3..5");
        check(Some(5), 2, "3..5");
        check(Some(0), 4, "1..4");
        check(Some(4), 0, "1..4");
        check(Some(-5), -2, "6..8");
        check(Some(-2), -5, "6..8");
        check(Some(3), -2, "4..8");
        check(Some(8), -5, "none");
        check(Some(-4), 0, "7..10");
        check(Some(-40), 0, "1..10");
        check(
            Some(-4),
            2,
            "error: LIMIT with a negative lower bound takes no positive upper bound",
        );
        check(None, i64::MIN, "1..10");
    }
}
