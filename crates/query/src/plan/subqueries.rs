//! Joins in place of subqueries that DataFusion cannot plan, or answers differently from SQL.
//!
//! - `x IN (query)` and `x op ANY|ALL (query)` have three answers: where they are not a condition
//!   of their own, they become a CASE over EXISTS with a branch for NULL.
//! - An alias distinguishes the column of a subquery from a column of the rows around it, even if
//!   both are of one table.
//! - A correlated subquery becomes a join with the rows around it. Its outermost conditions become
//!   those of a mark join (`pulled`); any other subquery is planned once for all the distinct
//!   values that it reads (`domain`).
//! - Left to DataFusion: conditions of a filter, and values, which its rules turn into the same
//!   joins, so that none of its optimizations is lost.
//!
//! The rules of DataFusion's optimizer that decorrelate subqueries run later, on the remaining
//! ones.

mod domain;
mod free;
mod in_values;
mod on_conditions;
mod pulled;
mod row_columns;
mod single;
mod sorted;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, ExprSchema, Result, ScalarValue, Spans, TableReference,
};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{
    AggregateFunction, Exists, InSubquery, SetComparison, SetQuantifier,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprSchemable, Filter, Join, JoinType, LogicalPlan,
    LogicalPlanBuilder, Operator, Projection, Subquery, lit, not, when,
};

use crate::account::check_canceled;
use crate::error::Error;
use crate::names::INTERNAL_PREFIX;
use crate::types::tree_changes::{ChangeParts, ChangePlan};
use domain::Domain;
use free::{FreeColumn, free_columns};
use on_conditions::has_subqueries_in_on;
use sorted::with_columns_of_sorts;

pub(super) use sorted::with_columns_of_sort;

/// Replaces subqueries by joins, in a whole plan.
pub(crate) fn with_joined_subqueries(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        check_aggregates(node)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Joiner::default().plan(with_separate_lists(with_columns_of_sorts(plan)?)?)
}

/// Returns true if a plan reads rows around it.
pub(super) fn is_correlated(plan: &LogicalPlan) -> bool {
    !free_columns(plan).is_empty()
}

/// Moves subqueries in the list of a DISTINCT ON to columns below it, where they are plain values:
/// DataFusion supports none in the list.
fn with_separate_lists(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_nodes(&mut |node| match node {
        LogicalPlan::Distinct(Distinct::On(on)) => with_separate_list(on),
        node => Ok(Transformed::no(node)),
    })
    .data()
}

fn with_separate_list(on: DistinctOn) -> Result<Transformed<LogicalPlan>> {
    let given = on.input.schema().columns().into_iter().map(Expr::Column);
    let mut below = given.collect::<Vec<_>>();
    let count = below.len();
    let mut list = Vec::with_capacity(on.select_expr.len());
    for (at, expr) in on.select_expr.iter().enumerate() {
        let is_subquery = |part: &Expr| {
            matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))
        };
        if !expr.exists(|part| Ok(is_subquery(part)))? {
            list.push(expr.clone());
            continue;
        }
        let name = format!("{INTERNAL_PREFIX}distinct {at}");
        below.push(expr.clone().unalias().alias(&name));
        let shown = on.schema.field(at).name().clone();
        list.push(Expr::Column(Column::new_unqualified(name)).alias(shown));
    }
    if below.len() == count {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(on))));
    }
    let DistinctOn { on_expr, sort_expr, input, .. } = on;
    let input = Arc::new(LogicalPlan::Projection(Projection::try_new(below, input)?));
    let on = DistinctOn::try_new(on_expr, list, sort_expr, input)?;
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
}

/// Returns false if DataFusion plans `expr NOT IN (..)` as a join without a key, which ignores
/// NULL: for a constant, or an expression that may become one.
fn is_plain_key(expr: &Expr, negated: bool) -> bool {
    fn is_of_columns(expr: &Expr) -> bool {
        match expr {
            Expr::Column(_) => true,
            Expr::Cast(cast) => is_of_columns(&cast.expr),
            Expr::Alias(alias) => is_of_columns(&alias.expr),
            Expr::BinaryExpr(it) => match (it.left.as_ref(), it.right.as_ref()) {
                (left, Expr::Literal(..)) => is_of_columns(left),
                (Expr::Literal(..), right) => is_of_columns(right),
                (left, right) => is_of_columns(left) && is_of_columns(right),
            },
            _ => false,
        }
    }
    !negated || is_of_columns(expr)
}

/// Returns an error if an aggregate reads only rows around its subquery: in SQL it belongs to the
/// query of those rows.
fn check_aggregates(node: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Aggregate(Aggregate { aggr_expr, .. }) = node else { return Ok(()) };
    let is_outside = |expr: &Expr| {
        let Expr::AggregateFunction(AggregateFunction { params, .. }) = expr else {
            return Ok(false);
        };
        let sorts = params.order_by.iter().map(|key| &key.expr);
        let parts = params.args.iter().chain(params.filter.as_deref()).chain(sorts);
        let (mut reads_outside, mut reads_own) = (false, false);
        for part in parts {
            reads_outside |= part.contains_outer();
            reads_own |= part.any_column_refs() || expr_has_subqueries(part);
        }
        Ok(reads_outside && !reads_own)
    };
    for expr in aggr_expr {
        if expr.exists(is_outside)? {
            let feature = "an aggregate of the rows around a subquery";
            return Err(Error::NotSupported { position: None, feature }.into());
        }
    }
    Ok(())
}

/// The place of an expression with a subquery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a filter, whose subqueries DataFusion turns into joins.
    Filter,
    /// In the list of a SELECT, where it does so with values.
    List,
    /// Anywhere else.
    Other,
}

/// The prefix of the names of joined subqueries, behind `INTERNAL_PREFIX`.
const JOINED: &str = "subquery ";
/// The maximal number of steps of a plan with its joined subqueries. Each level of nested
/// subqueries doubles it; planning so many takes about a second.
const STEPS_MAX: usize = 1_000;

#[derive(Default)]
struct Joiner {
    /// The number of names it has given.
    names: usize,
}

impl Joiner {
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        plan.transform_up(|node| self.node(node)).data()
    }

    fn node(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        check_canceled()?;
        if let LogicalPlan::Join(join) = node {
            return match has_subqueries_in_on(&join) {
                true => self.join_on_subqueries(join).map(Transformed::yes),
                false => self.join(join),
            };
        }
        if !has_subqueries(&node) {
            return Ok(Transformed::no(node));
        }
        let node = node.map_subqueries(|subquery| self.inside(subquery))?.data;
        let changed = match node {
            LogicalPlan::Filter(filter) => self.filter(filter)?,
            LogicalPlan::Values(values) => in_values::outside_of_rows(values)?,
            LogicalPlan::Projection(_) => self.exprs(node, Place::List)?,
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => {
                self.exprs(node, Place::Other)?
            }
            node => node,
        };
        Ok(Transformed::yes(changed))
    }

    /// Returns the plan of a subquery.
    fn inside(&mut self, subquery: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Subquery(Subquery { subquery, spans, .. }) = subquery else {
            return Ok(Transformed::no(subquery));
        };
        let plan = self.plan(Arc::unwrap_or_clone(subquery))?;
        let subquery = Subquery { spans, ..subquery_of(plan) };
        Ok(Transformed::yes(LogicalPlan::Subquery(subquery)))
    }

    fn filter(&mut self, filter: Filter) -> Result<LogicalPlan> {
        let mut input = Arc::unwrap_or_clone(filter.input);
        let columns = input.schema().columns();
        let mut kept = Vec::new();
        for condition in split_conjunction_owned(filter.predicate) {
            let condition = match expr_has_subqueries(&condition) {
                true => self.condition(condition, &mut input)?,
                false => condition,
            };
            // A condition that a join has applied is constant now.
            kept.extend((condition != lit(true)).then_some(condition));
        }
        let is_same = input.schema().fields().len() == columns.len();
        let mut plan = LogicalPlanBuilder::from(input);
        if let Some(condition) = conjunction(kept) {
            plan = plan.filter(condition)?;
        }
        if !is_same {
            plan = plan.project(columns.into_iter().map(Expr::Column))?;
        }
        plan.build()
    }

    /// Replaces the subqueries of a node that are values.
    fn exprs(&mut self, node: LogicalPlan, place: Place) -> Result<LogicalPlan> {
        let columns = node.schema().columns();
        let names = NamePreserver::new(&node);
        let mut input = node.inputs()[0].clone();
        let widths = (input.schema().fields().len(), columns.len());
        let node = node
            .change_exprs(&mut |expr| {
                if !expr_has_subqueries(&expr) {
                    return Ok(Transformed::no(expr));
                }
                let saved = names.save(&expr);
                let value = self.value(expr, &mut input, place)?;
                Ok(Transformed::yes(saved.restore(value)))
            })?
            .data;
        let is_same = input.schema().fields().len() == widths.0;
        if is_same {
            return node.recompute_schema();
        }
        let exprs = node.expressions();
        let node = match node {
            LogicalPlan::Aggregate(Aggregate { group_expr, aggr_expr, .. }) => {
                let input = Arc::new(input);
                LogicalPlan::Aggregate(Aggregate::try_new(input, group_expr, aggr_expr)?)
            }
            node => node.with_new_exprs(exprs, vec![input])?,
        };
        if node.schema().fields().len() == widths.1 {
            return Ok(node);
        }
        let columns = columns.into_iter().map(Expr::Column);
        LogicalPlanBuilder::from(node).project(columns)?.build()
    }

    /// Replaces the subqueries of a filter's condition, in which NULL may be taken for false.
    fn condition(&mut self, condition: Expr, input: &mut LogicalPlan) -> Result<Expr> {
        match condition {
            Expr::Not(inner) => match *inner {
                Expr::Exists(Exists { subquery, negated }) => {
                    self.condition(Expr::Exists(Exists { subquery, negated: !negated }), input)
                }
                Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                    let asked = InSubquery { expr, subquery, negated: !negated };
                    self.condition(Expr::InSubquery(asked), input)
                }
                inner => self.value(not(inner), input, Place::Filter),
            },
            Expr::Exists(Exists { subquery, negated }) => {
                self.exists_condition(unwrapped(subquery), negated, input)
            }
            Expr::InSubquery(asked) => self.in_condition(asked, input),
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                match (op, quantifier) {
                    (Operator::Eq, SetQuantifier::Any) => {
                        self.in_condition(InSubquery { expr, subquery, negated: false }, input)
                    }
                    (Operator::NotEq, SetQuantifier::All) => {
                        self.in_condition(InSubquery { expr, subquery, negated: true }, input)
                    }
                    _ => {
                        let asked = self.compared(*expr, op, subquery, &mut *input)?;
                        let is_all = quantifier == SetQuantifier::All;
                        let test = match is_all {
                            true => asked.test.is_not_true(),
                            false => asked.test,
                        };
                        let rows = filtered(asked.rows, test)?;
                        self.exists_condition(rows, is_all, input)
                    }
                }
            }
            other => self.value(other, input, Place::Filter),
        }
    }

    fn in_condition(&mut self, asked: InSubquery, input: &mut LogicalPlan) -> Result<Expr> {
        let is_plain = !expr_has_subqueries(&asked.expr)
            && is_plain_key(&asked.expr, asked.negated)
            && !row_columns::is_row(&asked.expr);
        if free_columns(&asked.subquery.subquery).is_empty() && is_plain {
            return Ok(Expr::InSubquery(asked));
        }
        let InSubquery { expr, subquery, negated } = asked;
        let asked = self.compared(*expr, Operator::Eq, subquery, &mut *input)?;
        let matched = filtered(asked.rows.clone(), asked.test.clone())?;
        let condition = self.exists_condition(matched, negated, input)?;
        if !negated {
            return Ok(condition);
        }
        let mut conditions = vec![condition];
        if let Some(unknown) = asked.rows_with_null()? {
            conditions.push(self.exists_condition(unknown, true, input)?);
        }
        let nullable = asked.nullable_values(input.schema())?;
        if let Some(known) = nullable.into_iter().map(Expr::is_not_null).reduce(Expr::and) {
            let unknown = asked.rows_beside_null()?;
            let none = self.exists(unknown, true, &mut *input, Place::Filter)?;
            conditions.push(known.or(none));
        }
        Ok(conjunction(conditions).expect("there is one"))
    }

    /// Replaces subqueries that are values in an expression.
    fn value(&mut self, expr: Expr, input: &mut LogicalPlan, place: Place) -> Result<Expr> {
        let joined = expr.change_parts(&mut |expr| match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                self.exists(unwrapped(subquery), negated, &mut *input, place).map(Transformed::yes)
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let (op, quantifier) = (Operator::Eq, SetQuantifier::Any);
                let asked = SetComparison { expr, subquery, op, quantifier };
                let is_in = self.quantified(asked, input, place)?;
                Ok(Transformed::yes(if negated { not(is_in) } else { is_in }))
            }
            Expr::SetComparison(asked) => {
                self.quantified(asked, input, place).map(Transformed::yes)
            }
            Expr::ScalarSubquery(subquery) => {
                self.scalar(subquery, input, place).map(Transformed::yes)
            }
            expr => Ok(Transformed::no(expr)),
        })?;
        Ok(joined.data)
    }

    /// Replaces `expr op ANY|ALL (subquery)` as a value.
    fn quantified(
        &mut self,
        asked: SetComparison,
        input: &mut LogicalPlan,
        place: Place,
    ) -> Result<Expr> {
        let SetComparison { expr, subquery, op, quantifier } = asked;
        let asked = self.compared(*expr, op, subquery, &mut *input)?;
        let (decisive, is_any) = match quantifier {
            SetQuantifier::Any => (asked.test.clone(), true),
            SetQuantifier::All => (not(asked.test.clone()), false),
        };
        let decided = filtered(asked.rows.clone(), decisive)?;
        let decided = self.exists(decided, false, &mut *input, place)?;
        let mut unknown = Vec::new();
        if let Some(nulls) = asked.rows_with_null()? {
            unknown.push(self.exists(nulls, false, &mut *input, place)?);
        }
        let nullable = asked.nullable_values(input.schema())?;
        if let Some(has_null) = nullable.into_iter().map(Expr::is_null).reduce(Expr::or) {
            let some = asked.rows_beside_null()?;
            let some = self.exists(some, false, &mut *input, place)?;
            unknown.push(has_null.and(some));
        }
        let Some(unknown) = unknown.into_iter().reduce(Expr::or) else {
            return Ok(if is_any { decided } else { not(decided) });
        };
        when(decided, lit(is_any))
            .when(unknown, lit(ScalarValue::Boolean(None)))
            .otherwise(lit(!is_any))
    }

    /// Returns a comparison of a value with the column of a subquery.
    fn compared(
        &mut self,
        expr: Expr,
        op: Operator,
        subquery: Subquery,
        input: &mut LogicalPlan,
    ) -> Result<Compared> {
        let (exprs, rows) = row_columns::split_row(expr, unwrapped(subquery))?;
        let mut values = Vec::with_capacity(exprs.len());
        for expr in exprs {
            values.push(match expr_has_subqueries(&expr) || expr.is_volatile() {
                true => self.column(expr, input)?,
                false => expr,
            });
        }
        let rows =
            LogicalPlanBuilder::from(rows).alias(TableReference::bare(self.name()))?.build()?;
        let mut columns = rows.schema().columns();
        columns.truncate(values.len());
        let mut tests = Vec::with_capacity(values.len());
        for (value, column) in values.iter().zip(&columns) {
            let outer = outer_references(value.clone(), input.schema())?;
            let column = Expr::Column(column.clone());
            tests.push(super::coerce::compared_in(outer, op, column, rows.schema())?);
        }
        let test = conjunction(tests).expect("a row has columns");
        Ok(Compared { rows, test, columns, values })
    }

    /// Returns an expression as a column of the rows.
    fn column(&mut self, expr: Expr, input: &mut LogicalPlan) -> Result<Expr> {
        let expr = self.value(expr, input, Place::List)?;
        let name = self.name();
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let exprs = columns.chain([expr.alias(&name)]).collect::<Vec<_>>();
        *input = LogicalPlanBuilder::from(input.clone()).project(exprs)?.build()?;
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    fn exists(
        &mut self,
        rows: LogicalPlan,
        negated: bool,
        input: &mut LogicalPlan,
        place: Place,
    ) -> Result<Expr> {
        let rows = pulled::needed_to_exist(rows)?;
        let free = free_columns(&rows);
        let exists =
            |negated| Expr::Exists(Exists { subquery: subquery_of(rows.clone()), negated });
        if free.is_empty() {
            if place == Place::Filter {
                return Ok(exists(negated));
            }
            let counted = LogicalPlanBuilder::from(rows)
                .limit(0, Some(1))?
                .aggregate(Vec::<Expr>::new(), vec![count(lit(1_i64)).alias("count")])?
                .build()?;
            let counted = Expr::ScalarSubquery(subquery_of(counted));
            let none = lit(0_i64);
            return Ok(if negated { counted.eq(none) } else { counted.not_eq(none) });
        }
        if place == Place::Filter && pulled::is_pulled_by_rules(&rows) {
            return Ok(exists(negated));
        }
        let name = self.join_rows(rows, input, JoinType::LeftMark)?;
        let mark = Expr::Column(Column::new(Some(TableReference::bare(name)), "mark"));
        Ok(if negated { not(mark) } else { mark })
    }

    /// Replaces EXISTS as a condition of its own.
    fn exists_condition(
        &mut self,
        rows: LogicalPlan,
        negated: bool,
        input: &mut LogicalPlan,
    ) -> Result<Expr> {
        let rows = pulled::needed_to_exist(rows)?;
        if pulled::is_pulled_by_rules(&rows) {
            return Ok(Expr::Exists(Exists { subquery: subquery_of(rows), negated }));
        }
        let join_type = if negated { JoinType::LeftAnti } else { JoinType::LeftSemi };
        self.join_rows(rows, input, join_type)?;
        Ok(lit(true))
    }

    /// Joins rows with those of a correlated subquery, and returns the name of these.
    fn join_rows(
        &mut self,
        rows: LogicalPlan,
        input: &mut LogicalPlan,
        join_type: JoinType,
    ) -> Result<String> {
        let free = free_columns(&rows);
        let pulled_up = pulled::pulled(&rows, &mut || self.name())?;
        let (joined, conditions) = match pulled_up {
            Some(pulled_up) => pulled_up,
            None => {
                let domain = Domain::of(&free, input, self.name())?;
                domain.distinct_dependents(rows)?
            }
        };
        let name = self.name();
        let table = TableReference::bare(name.clone());
        let joined = LogicalPlanBuilder::from(joined).alias(table.clone())?.build()?;
        let of_rows = |expr: Expr| {
            expr.change_parts(&mut |expr| match expr {
                Expr::OuterReferenceColumn(_, column) if input.schema().has_column(&column) => {
                    Ok(Transformed::yes(Expr::Column(column)))
                }
                Expr::Column(column) => {
                    let column = Column::new(Some(table.clone()), column.name);
                    Ok(Transformed::yes(Expr::Column(column)))
                }
                expr => Ok(Transformed::no(expr)),
            })
            .data()
        };
        let conditions = conditions.into_iter().map(of_rows).collect::<Result<Vec<_>>>()?;
        let always = conditions.is_empty().then(|| lit(true));
        *input = LogicalPlanBuilder::from(input.clone())
            .join_on(joined, join_type, conditions.into_iter().chain(always))?
            .build()?;
        check_size(input)?;
        Ok(name)
    }

    /// Replaces a scalar subquery.
    fn scalar(
        &mut self,
        subquery: Subquery,
        input: &mut LogicalPlan,
        place: Place,
    ) -> Result<Expr> {
        let rows = Arc::unwrap_or_clone(Arc::clone(&subquery.subquery));
        let free = free_columns(&rows);
        let is_left = free.is_empty() || place != Place::Other && pulled::is_value_of_rules(&rows);
        if is_left {
            return Ok(Expr::ScalarSubquery(subquery));
        }
        let domain = Domain::of(&free, input, self.name())?;
        let value = self.name();
        let joined = domain.values(rows, &value)?;
        let name = self.name();
        let joined =
            LogicalPlanBuilder::from(joined).alias(TableReference::bare(name.clone()))?.build()?;
        let keys = domain.keys(&name, input.schema());
        *input = joined_by(input.clone(), joined, JoinType::Left, keys)?;
        check_size(input)?;
        Ok(Expr::Column(Column::new(Some(TableReference::bare(name)), value)))
    }

    /// Replaces a join whose right side may read the left one (LATERAL).
    fn join(&mut self, join: Join) -> Result<Transformed<LogicalPlan>> {
        let is_known = matches!(join.join_type, JoinType::Inner | JoinType::Left);
        let Some((rows, alias)) = lateral(&join.right).filter(|_| is_known) else {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        };
        let free = free_columns(&rows);
        let is_read = |free: &FreeColumn| join.left.schema().has_column(&free.column);
        if !free.iter().any(is_read) {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let rows = match alias {
            Some(alias) => LogicalPlanBuilder::from(rows).alias(alias)?.build()?,
            None => rows,
        };
        let columns = join.schema.columns();
        let domain = Domain::of(&free, &join.left, self.name())?;
        let right = domain.dependents(rows)?;
        let same = domain
            .plain_keys(join.left.schema())
            .into_iter()
            .map(|(left, right)| super::coerce::binary(left, Operator::IsNotDistinctFrom, right));
        let on = join.on.into_iter().map(|(left, right)| left.eq(right));
        let conditions = same.chain(on).chain(join.filter).collect::<Vec<_>>();
        let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(join.left))
            .join_on(right, join.join_type, conditions)?
            .project(columns.into_iter().map(Expr::Column))?
            .build()?;
        check_size(&plan)?;
        Ok(Transformed::yes(plan))
    }

    /// Returns a name that no query can write, and no other subquery has.
    fn name(&mut self) -> String {
        self.names += 1;
        format!("{INTERNAL_PREFIX}{JOINED}{}", self.names)
    }
}

/// Refuses a plan of too many steps, before any subquery is replaced.
fn check_size(plan: &LogicalPlan) -> Result<()> {
    let mut steps = 0;
    plan.apply_with_subqueries(|_| {
        steps += 1;
        let goes_on = steps <= STEPS_MAX;
        Ok(if goes_on { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    match steps <= STEPS_MAX {
        true => Ok(()),
        false => Err(Error::LargeSubqueries { most: STEPS_MAX }.into()),
    }
}

/// A comparison with each row of a subquery.
struct Compared {
    /// The rows of the subquery.
    rows: LogicalPlan,
    /// The comparison, over the rows.
    test: Expr,
    /// The columns of these rows that are compared: one, or those of a row.
    columns: Vec<Column>,
    /// The compared expressions, one a column, over the rows around the subquery.
    values: Vec<Expr>,
}

impl Compared {
    /// The rows of the subquery that have a NULL which leaves the comparison open.
    fn rows_with_null(&self) -> Result<Option<LogicalPlan>> {
        let mut nulls = Vec::new();
        for column in &self.columns {
            let column = Expr::Column(column.clone());
            if column.nullable(self.rows.schema())? {
                nulls.push(column.is_null());
            }
        }
        let Some(has_null) = nulls.into_iter().reduce(Expr::or) else { return Ok(None) };
        let open = match self.columns.len() {
            1 => has_null,
            _ => has_null.and(self.test.clone().is_null()),
        };
        filtered(self.rows.clone(), open).map(Some)
    }

    /// The rows of the subquery with which a NULL in the compared value leaves the comparison
    /// open.
    fn rows_beside_null(&self) -> Result<LogicalPlan> {
        match self.columns.len() {
            1 => Ok(self.rows.clone()),
            _ => filtered(self.rows.clone(), self.test.clone().is_null()),
        }
    }

    fn nullable_values(&self, around: &DFSchema) -> Result<Vec<Expr>> {
        let mut nullable = Vec::new();
        for value in &self.values {
            if value.nullable(around)? {
                nullable.push(value.clone());
            }
        }
        Ok(nullable)
    }
}

/// Returns the rows of a side of a join that may read the other one, and their name.
fn lateral(side: &LogicalPlan) -> Option<(LogicalPlan, Option<TableReference>)> {
    match side {
        LogicalPlan::Subquery(subquery) => Some((subquery.subquery.as_ref().clone(), None)),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => {
                Some((subquery.subquery.as_ref().clone(), Some(alias.alias.clone())))
            }
            _ => None,
        },
        _ => None,
    }
}

fn filtered(rows: LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(rows).filter(condition)?.build()
}

/// Joins by pairs of values, where NULL equals NULL.
fn joined_by(
    left: LogicalPlan,
    right: LogicalPlan,
    join_type: JoinType,
    keys: Vec<(Expr, Expr)>,
) -> Result<LogicalPlan> {
    let same = |(left, right)| super::coerce::binary(left, Operator::IsNotDistinctFrom, right);
    let conditions = keys.into_iter().map(same).collect::<Vec<_>>();
    let conditions = if conditions.is_empty() { vec![lit(true)] } else { conditions };
    LogicalPlanBuilder::from(left).join_on(right, join_type, conditions)?.build()
}

fn unwrapped(subquery: Subquery) -> LogicalPlan {
    Arc::unwrap_or_clone(subquery.subquery)
}

fn subquery_of(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}

/// Returns the expression as a subquery of these rows reads it.
fn outer_references(expr: Expr, rows: &DFSchema) -> Result<Expr> {
    expr.change_parts(&mut |expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(rows.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        expr => Ok(Transformed::no(expr)),
    })
    .data()
}

/// Returns true if an expression of a node has subqueries.
pub(super) fn has_subqueries(node: &LogicalPlan) -> bool {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr_has_subqueries(expr);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })
    .expect("it never fails");
    found
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
    )
}

pub(super) fn expr_has_subqueries(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(is_subquery(expr))).expect("it never fails")
}
