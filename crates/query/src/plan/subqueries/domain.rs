//! Evaluation of a correlated subquery for all outer values at once.
//!
//! - The domain is the distinct values of the outer columns that the subquery reads. A plan is
//!   *dependent* if it has the columns of the domain behind its own, and for each row of the domain
//!   the rows that the subquery would have for these values.
//! - The rows around a subquery are read twice, so they must be the same both times.
//! - Of several subqueries of one place, each reads the rows as they are before any of them is
//!   joined: otherwise a plan would double with each of them.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, NullEquality, Result, TableReference};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprFunctionExt, FetchType, Filter, Join, JoinType,
    Limit, LogicalPlan, LogicalPlanBuilder, Operator, Projection, SkipType, SortExpr, Union,
    Unnest, Window, lit,
};

use super::free::{FreeColumn, free_columns, with_free_columns};
use super::single::single_value;
use super::{JOINED, joined_by};
use crate::account::check_canceled;
use crate::error::Error;
use crate::names::INTERNAL_PREFIX;
use crate::plan::coerce::binary;
use crate::timeseries::designated;
use crate::types::float_order;
use crate::types::tree_changes::ChangeParts;

/// The distinct values of the outer columns that a subquery reads.
pub(super) struct Domain {
    columns: Vec<DomainColumn>,
    /// The distinct values; `None` if there are no columns.
    rows: Option<LogicalPlan>,
}

#[derive(Clone)]
struct DomainColumn {
    /// The column in the rows around the subquery.
    outer: Column,
    field: FieldRef,
    /// Its name in dependent plans.
    name: String,
}

impl DomainColumn {
    fn expr(&self) -> Expr {
        Expr::Column(Column::new_unqualified(self.name.clone()))
    }
}

impl Domain {
    /// Returns the domain of a subquery that reads these columns; columns of other rows are left
    /// out.
    pub(super) fn of(free: &[FreeColumn], around: &LogicalPlan, name: String) -> Result<Domain> {
        let here = free.iter().filter(|free| around.schema().has_column(&free.column));
        let column = |(at, free): (usize, &FreeColumn)| {
            let (outer, field) = (free.column.clone(), Arc::clone(&free.field));
            DomainColumn { outer, field, name: format!("{name}{}{at}", float_order::DOMAIN_KEY) }
        };
        let columns = here.enumerate().map(column).collect::<Vec<_>>();
        if columns.is_empty() {
            return Ok(Domain { columns, rows: None });
        }
        check_canceled()?;
        if !is_repeatable(around)? {
            return not_supported("a subquery that reads rows chosen by chance or by LIMIT");
        }
        let exprs = columns.iter().map(|it| Expr::Column(it.outer.clone()).alias(&it.name));
        let around = without_joins(around, &columns);
        let rows = LogicalPlanBuilder::from(around.clone())
            .project(exprs.collect::<Vec<_>>())?
            .distinct()?
            .build()?;
        Ok(Domain { columns, rows: Some(rows) })
    }

    /// Returns the dependent plan of a subquery.
    pub(super) fn dependents(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        match &self.rows {
            Some(rows) => Pushed { domain: self, rows }.push(plan),
            None => Ok(plan),
        }
    }

    /// Returns the rows of the domain for which a subquery has rows, and the conditions that join
    /// them to the rows around.
    pub(super) fn distinct_dependents(
        &self,
        plan: LogicalPlan,
    ) -> Result<(LogicalPlan, Vec<Expr>)> {
        let plan = LogicalPlanBuilder::from(self.dependents(plan)?)
            .project(self.exprs())?
            .distinct()?
            .build()?;
        let same = |column: &DomainColumn| {
            let outer = Expr::OuterReferenceColumn(Arc::clone(&column.field), column.outer.clone());
            binary(outer, Operator::IsNotDistinctFrom, column.expr())
        };
        Ok((plan, self.columns.iter().map(same).collect()))
    }

    /// Returns the value of a subquery for each row of the domain, under a name.
    pub(super) fn values(&self, plan: LogicalPlan, name: &str) -> Result<LogicalPlan> {
        let is_one = is_one_row(&plan);
        let plan = self.dependents(plan)?;
        let value = Expr::Column(plan.schema().columns().swap_remove(0));
        let plan = LogicalPlanBuilder::from(plan);
        match is_one {
            true => {
                let exprs = std::iter::once(value.alias(name)).chain(self.exprs());
                plan.project(exprs.collect::<Vec<_>>())?.build()
            }
            false => plan.aggregate(self.exprs(), vec![single_value(value).alias(name)])?.build(),
        }
    }

    /// Returns the pairs of common columns of the rows around and a dependent plan with a name.
    pub(super) fn keys(&self, name: &str, around: &DFSchema) -> Vec<(Expr, Expr)> {
        let pair = |column: &DomainColumn| {
            let outer = float_order::key(Expr::Column(column.outer.clone()), around);
            (
                outer,
                Expr::Column(Column::new(Some(TableReference::bare(name)), column.name.clone())),
            )
        };
        self.columns.iter().map(pair).collect()
    }

    /// Does the same for a dependent plan without a name.
    pub(super) fn plain_keys(&self, around: &DFSchema) -> Vec<(Expr, Expr)> {
        let outer = |it: &DomainColumn| float_order::key(Expr::Column(it.outer.clone()), around);
        self.columns.iter().map(|column| (outer(column), column.expr())).collect()
    }

    fn exprs(&self) -> Vec<Expr> {
        self.columns.iter().map(DomainColumn::expr).collect()
    }

    /// Returns the same domain under other names.
    fn renamed(&self, rows: &LogicalPlan) -> Result<Domain> {
        let renamed =
            |it: &DomainColumn| DomainColumn { name: format!("{}'", it.name), ..it.clone() };
        let columns = self.columns.iter().map(renamed).collect::<Vec<_>>();
        let exprs = self.columns.iter().zip(&columns);
        let exprs = exprs.map(|(old, new)| old.expr().alias(&new.name)).collect::<Vec<_>>();
        let rows = LogicalPlanBuilder::from(rows.clone()).project(exprs)?.build()?;
        Ok(Domain { columns, rows: Some(rows) })
    }
}

/// Returns the rows without the subqueries that have been joined with them, unless one of these
/// columns is theirs. A join that removes rows stays: it may remove those for which the
/// subquery would fail.
fn without_joins<'p>(mut around: &'p LogicalPlan, columns: &[DomainColumn]) -> &'p LogicalPlan {
    while let LogicalPlan::Join(join) = around
        && matches!(join.join_type, JoinType::Left | JoinType::LeftMark)
        && let LogicalPlan::SubqueryAlias(joined) = join.right.as_ref()
        && joined
            .alias
            .table()
            .strip_prefix(INTERNAL_PREFIX)
            .is_some_and(|name| name.starts_with(JOINED))
        && columns.iter().all(|it| join.left.schema().has_column(&it.outer))
    {
        around = &join.left;
    }
    around
}

/// A domain with its rows, for making plans dependent.
struct Pushed<'d> {
    domain: &'d Domain,
    rows: &'d LogicalPlan,
}

impl Pushed<'_> {
    /// Returns the dependent plan of a plan.
    fn push(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if !self.is_read_by(&plan) {
            return LogicalPlanBuilder::from(plan).cross_join(self.rows.clone())?.build();
        }
        match plan {
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                let input = self.push(Arc::unwrap_or_clone(input))?;
                let filter = Filter::try_new(self.inside(predicate)?, Arc::new(input))?;
                Ok(LogicalPlan::Filter(filter))
            }
            LogicalPlan::Projection(_) => {
                let exprs = self.exprs_of(&plan)?.into_iter().chain(self.domain.exprs());
                let exprs = exprs.collect::<Vec<_>>();
                let LogicalPlan::Projection(Projection { input, .. }) = plan else {
                    unreachable!("it is one")
                };
                let input = self.push(Arc::unwrap_or_clone(input))?;
                LogicalPlanBuilder::from(input).project(exprs)?.build()
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let columns = alias.input.schema().columns().into_iter().zip(alias.schema.iter());
                let named = columns.map(|(column, (relation, field))| {
                    Expr::Column(column).alias_qualified(relation.cloned(), field.name())
                });
                let exprs = named.chain(self.domain.exprs()).collect::<Vec<_>>();
                let input = self.push(Arc::unwrap_or_clone(alias.input))?;
                LogicalPlanBuilder::from(input).project(exprs)?.build()
            }
            LogicalPlan::Aggregate(_) => self.push_aggregate(plan),
            LogicalPlan::Window(_) => self.push_window(plan),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let input = self.push(Arc::unwrap_or_clone(input))?;
                LogicalPlanBuilder::from(input).distinct()?.build()
            }
            LogicalPlan::Distinct(Distinct::On(on)) => self.push_distinct_on(on),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                self.push(Arc::unwrap_or_clone(sort.input))
            }
            LogicalPlan::Limit(limit) => self.push_limit(limit),
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.into_iter();
                let inputs =
                    inputs.map(|input| self.push(Arc::unwrap_or_clone(input)).map(Arc::new));
                let inputs = inputs.collect::<Result<Vec<_>>>()?;
                Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
            }
            LogicalPlan::Join(join) => self.push_join(join),
            // A list in FROM that reads rows around the subquery, and no table beside it.
            LogicalPlan::Subquery(inside) => self.push(Arc::unwrap_or_clone(inside.subquery)),
            LogicalPlan::Unnest(Unnest { input, exec_columns, options, .. }) => {
                let input = LogicalPlanBuilder::from(self.push(Arc::unwrap_or_clone(input))?);
                input.unnest_columns_with_options(exec_columns, options)?.build()
            }
            _ => not_supported("reading the rows around a subquery in this part of it"),
        }
    }

    fn push_aggregate(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let columns = plan.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
        let exprs = self.exprs_of(&plan)?;
        let LogicalPlan::Aggregate(Aggregate { input, group_expr, .. }) = plan else {
            unreachable!("it is one")
        };
        let groups = group_expr.len();
        if group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return not_supported("reading the rows around a subquery below grouping sets");
        }
        let (groups, calls) = exprs.split_at(groups);
        let listed = columns.into_iter().chain(self.domain.exprs()).collect::<Vec<_>>();
        let keys = groups.iter().cloned().chain(self.domain.exprs()).collect::<Vec<_>>();
        let input = Arc::unwrap_or_clone(input);
        if !groups.is_empty() {
            let input = self.push(input)?;
            let plan = LogicalPlanBuilder::from(input).aggregate(keys, calls.to_vec())?;
            return plan.project(listed)?.build();
        }
        // Without groups there is a row even for an empty input.
        let other = self.domain.renamed(self.rows)?;
        let pushed = other.dependents(input)?;
        let mark = format!("{} mark", self.domain.columns[0].name);
        let pushed_columns = pushed.schema().columns().into_iter().map(Expr::Column);
        let marked = pushed_columns.chain([lit(true).alias(&mark)]).collect::<Vec<_>>();
        let marked = LogicalPlanBuilder::from(pushed).project(marked)?.build()?;
        let pairs = self.domain.exprs().into_iter().zip(other.exprs()).collect();
        let rows = joined_by(self.rows.clone(), marked, JoinType::Left, pairs)?;
        let mark = Expr::Column(Column::new_unqualified(mark));
        let calls = calls.iter().map(|call| filtered_call(call.clone(), &mark));
        let calls = calls.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(rows).aggregate(keys, calls)?.project(listed)?.build()
    }

    fn push_window(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let columns = plan.schema().columns().into_iter().map(Expr::Column);
        let listed = columns.chain(self.domain.exprs()).collect::<Vec<_>>();
        let names = NamePreserver::new(&plan);
        let calls = self.exprs_of(&plan)?.into_iter().map(|call| {
            let saved = names.save(&call);
            let call = call.change_parts(&mut |expr| match expr {
                Expr::WindowFunction(window) => {
                    let WindowFunction { fun, mut params } = *window;
                    params.partition_by.extend(self.domain.exprs());
                    let window = Box::new(WindowFunction { fun, params });
                    Ok(Transformed::yes(Expr::WindowFunction(window)))
                }
                expr => Ok(Transformed::no(expr)),
            });
            Ok(saved.restore(call.data()?))
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let LogicalPlan::Window(window) = plan else { unreachable!("it is one") };
        let input = self.push(Arc::unwrap_or_clone(window.input))?;
        let window = Window::try_new(calls, Arc::new(input))?;
        LogicalPlanBuilder::from(LogicalPlan::Window(window)).project(listed)?.build()
    }

    fn push_distinct_on(&self, on: DistinctOn) -> Result<LogicalPlan> {
        let DistinctOn { on_expr, select_expr, sort_expr, input, schema } = on;
        let inside = |exprs: Vec<Expr>| {
            exprs.into_iter().map(|expr| self.inside(expr)).collect::<Result<Vec<_>>>()
        };
        let mut on_exprs = self.domain.exprs();
        on_exprs.extend(inside(on_expr)?);
        let named = inside(select_expr)?.into_iter().zip(schema.iter());
        let named = named
            .map(|(expr, (relation, field))| expr.alias_qualified(relation.cloned(), field.name()));
        let selected = named.chain(self.domain.exprs()).collect();
        let sorts = sort_expr.map(|keys| {
            let own = self.domain.exprs().into_iter().map(|key| key.sort(true, false));
            let keys =
                keys.into_iter().map(|key| Ok(SortExpr { expr: self.inside(key.expr)?, ..key }));
            own.map(Ok).chain(keys).collect::<Result<Vec<_>>>()
        });
        let input = self.push(Arc::unwrap_or_clone(input))?;
        let on = DistinctOn::try_new(on_exprs, selected, sorts.transpose()?, Arc::new(input))?;
        Ok(LogicalPlan::Distinct(Distinct::On(on)))
    }

    /// Replaces a limit by one for each row of the domain.
    fn push_limit(&self, limit: Limit) -> Result<LogicalPlan> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return not_supported("LIMIT by an expression in a subquery that reads rows around it");
        };
        let input = Arc::unwrap_or_clone(limit.input);
        let (input, keys) = match input {
            // The list is computed for the rows that are left.
            LogicalPlan::Projection(Projection { expr, input, schema, .. })
                if matches!(input.as_ref(), LogicalPlan::Sort(_)) =>
            {
                let limit = Limit { skip: limit.skip, fetch: limit.fetch, input };
                let listed = Projection::try_new_with_schema(
                    expr,
                    Arc::new(LogicalPlan::Limit(limit)),
                    schema,
                )?;
                return self.push(LogicalPlan::Projection(listed));
            }
            LogicalPlan::Sort(sort) => (Arc::unwrap_or_clone(sort.input), sort.expr),
            plan => {
                let time = designated(&plan).map(|column| Expr::Column(column).sort(true, false));
                (plan, time.into_iter().collect())
            }
        };
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let listed = columns.chain(self.domain.exprs()).collect::<Vec<_>>();
        let keys = keys.into_iter().map(|key| Ok(SortExpr { expr: self.inside(key.expr)?, ..key }));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let number = row_number().partition_by(self.domain.exprs());
        // Rows without an order are numbered as they come.
        let number = if keys.is_empty() { number } else { number.order_by(keys) };
        let number = number.build()?;
        let name = format!("{} number", self.domain.columns[0].name);
        let column = Expr::Column(Column::new_unqualified(name.clone()));
        let first = lit(u64::try_from(skip).unwrap_or(u64::MAX));
        let mut is_inside = column.clone().gt(first);
        if let Some(fetch) = fetch {
            let last = lit(u64::try_from(skip.saturating_add(fetch)).unwrap_or(u64::MAX));
            is_inside = is_inside.and(column.lt_eq(last));
        }
        LogicalPlanBuilder::from(self.push(input)?)
            .window(vec![number.alias(name)])?
            .filter(is_inside)?
            .project(listed)?
            .build()
    }

    fn push_join(&self, join: Join) -> Result<LogicalPlan> {
        let columns = join.schema.columns().into_iter().map(Expr::Column);
        let listed = columns.chain(self.domain.exprs()).collect::<Vec<_>>();
        let inside = |pair: (Expr, Expr)| Ok((self.inside(pair.0)?, self.inside(pair.1)?));
        let on = join.on.clone().into_iter().map(inside).collect::<Result<Vec<_>>>()?;
        let mut filter = join.filter.clone().map(|filter| self.inside(filter)).transpose()?;
        let (is_left, is_right) = (self.is_read_by(&join.left), self.is_read_by(&join.right));
        let plain = |plan: &Arc<LogicalPlan>| plan.as_ref().clone();
        let (left, right) = match join.join_type {
            JoinType::Inner if is_right && !is_left => {
                (plain(&join.left), self.push(plain(&join.right))?)
            }
            JoinType::Inner
            | JoinType::Left
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark => {
                let left = self.push(plain(&join.left))?;
                let right = match is_right {
                    true => {
                        if join.null_aware {
                            return not_supported("reading the rows around NOT IN inside of it");
                        }
                        let other = self.domain.renamed(self.rows)?;
                        let pairs = self.domain.exprs().into_iter().zip(other.exprs());
                        let same = pairs.map(|(l, r)| binary(l, Operator::IsNotDistinctFrom, r));
                        filter = same.chain(filter).reduce(Expr::and);
                        other.dependents(plain(&join.right))?
                    }
                    false => plain(&join.right),
                };
                (left, right)
            }
            _ => return not_supported("reading the rows around a subquery in an outer join of it"),
        };
        let (mut on, mut null_equality) = (on, join.null_equality);
        if null_equality == NullEquality::NullEqualsNull && filter.is_some() {
            // Keys under which NULL equals NULL, together with a filter, become conditions.
            let same = on.drain(..).map(|(l, r)| binary(l, Operator::IsNotDistinctFrom, r));
            filter = same.chain(filter).reduce(Expr::and);
            null_equality = NullEquality::NullEqualsNothing;
        }
        let joined = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            filter,
            join.join_type,
            join.join_constraint,
            null_equality,
            join.null_aware,
        )?;
        LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(listed)?.build()
    }

    /// Returns the expressions of a node, under their names, over the columns of the domain.
    fn exprs_of(&self, node: &LogicalPlan) -> Result<Vec<Expr>> {
        let names = NamePreserver::new(node);
        let inside = |expr: Expr| {
            let saved = names.save(&expr);
            Ok(saved.restore(self.inside(expr)?))
        };
        node.expressions().into_iter().map(inside).collect()
    }

    fn inside(&self, expr: Expr) -> Result<Expr> {
        let found = |column: &Column| {
            self.domain.columns.iter().find(|it| it.outer == *column).map(|it| &it.name)
        };
        let other = |column: &Column| found(column).map(Column::new_unqualified);
        let expr = with_free_columns(expr, &other)?;
        expr.change_parts(&mut |expr| match expr {
            Expr::OuterReferenceColumn(field, column) => Ok(match other(&column) {
                Some(column) => Transformed::yes(Expr::Column(column)),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            }),
            expr => Ok(Transformed::no(expr)),
        })
        .data()
    }

    fn is_read_by(&self, plan: &LogicalPlan) -> bool {
        let is_ours = |free: &FreeColumn| {
            self.domain.columns.iter().any(|column| column.outer == free.column)
        };
        free_columns(plan).iter().any(is_ours)
    }
}

/// Restricts a call of an aggregate to marked rows.
fn filtered_call(call: Expr, mark: &Expr) -> Result<Expr> {
    let (relation, name) = call.qualified_name();
    let call = call.change_parts(&mut |expr| match expr {
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            let filter = params.filter.take().map(|filter| *filter);
            let filter = filter.into_iter().fold(mark.clone(), Expr::and);
            params.filter = Some(Box::new(filter));
            Ok(Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params })))
        }
        expr => Ok(Transformed::no(expr)),
    });
    Ok(call.data()?.alias_qualified(relation, name))
}

/// Returns true if a subquery has one row at most.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Filter(filter) => is_one_row(&filter.input),
        LogicalPlan::Sort(sort) => is_one_row(&sort.input),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))))
                || is_one_row(&limit.input)
        }
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}

/// Returns true if rows are the same when they are read again.
fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut is_it = true;
    plan.apply(|node| {
        node.apply_expressions(|expr| {
            is_it &= !expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        if let LogicalPlan::Limit(limit) = node {
            is_it &= is_plain_scan(&limit.input);
        }
        Ok(if is_it { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_it)
}

/// Returns true if rows are those of a table, in its order.
fn is_plain_scan(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) | LogicalPlan::Values(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(is_plain_scan)
        }
        _ => false,
    }
}

fn not_supported<T>(feature: &'static str) -> Result<T> {
    Err(Error::NotSupported { position: None, feature }.into())
}
