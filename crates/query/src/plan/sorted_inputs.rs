//! The order of a sorted subquery, for the parts of the query around it whose result depends on the
//! order of their rows.
//!
//! - DataFusion keeps a sort only for an operator that requires its order. So the keys of a sort
//!   that only projections, filters, names, limits and windows separate from such a part become
//!   the ORDER BY of that part. A part with an ORDER BY of its own stays as it is.
//! - These are calls of window functions (`row_number() OVER ()`, `lag`, moving frames), calls of
//!   aggregates that collect or choose values (`array_agg`, `first_value`), DISTINCT ON, and LIMIT
//!   where a join will stand between the sort and the limit: around a subquery, or in one that
//!   reads the rows around it.
//! - A window without ORDER BY has all rows of its partition as peers. Its frame stays the same,
//!   in rows, and `rank` and the like, which count peers, get no order.
//! - A key that is no column of the rows is carried to them as a column of a name that no query
//!   can write. The columns of a changed part are those that it had.
//!
//! Not here: the order of the rows of a table (`plan::order`), which needs no sort.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, Limit, LogicalPlan, LogicalPlanBuilder, Projection,
    Sort, SortExpr, SubqueryAlias, Window, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition,
};

use super::subqueries::{expr_has_subqueries, has_subqueries, is_correlated, with_columns_of_sort};
use crate::names::INTERNAL_PREFIX;
use crate::timeseries::keeps_order;
use crate::types::tree_changes::{ChangeParts, ChangePlan};

/// The aggregates whose value depends on the order of their rows.
const OF_ORDERED_ROWS: [&str; 5] =
    ["array_agg", "string_agg", "first_value", "last_value", "nth_value"];

/// The window functions that compare a row with its peers, and not with its neighbours.
const OF_PEERS: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];

/// Writes the order of sorted subqueries into what depends on it, in a whole plan.
pub(super) fn with_orders_of_inputs(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut carrier = Carrier::default();
    plan.change_nodes(&mut |node| match node {
        LogicalPlan::Window(window) => carrier.window(window),
        LogicalPlan::Aggregate(aggregate) => carrier.aggregate(aggregate),
        LogicalPlan::Distinct(Distinct::On(on)) => carrier.distinct_on(on),
        LogicalPlan::Limit(limit) => carrier.limit(limit),
        node => Ok(Transformed::no(node)),
    })
    .data()
}

/// A key of a sort, as a column of rows above it.
struct Key {
    column: Column,
    asc: bool,
    nulls_first: bool,
}

impl Key {
    fn new(column: Column, sort: &SortExpr) -> Key {
        Key { column, asc: sort.asc, nulls_first: sort.nulls_first }
    }

    fn sort(&self) -> SortExpr {
        SortExpr::new(Expr::Column(self.column.clone()), self.asc, self.nulls_first)
    }
}

fn sorts(keys: &[Key]) -> Vec<SortExpr> {
    keys.iter().map(Key::sort).collect()
}

/// A plan with the keys of its order among its columns.
struct Sorted {
    plan: LogicalPlan,
    keys: Vec<Key>,
}

#[derive(Default)]
struct Carrier {
    /// The number of names it has given.
    names: usize,
}

impl Carrier {
    fn window(&mut self, window: Window) -> Result<Transformed<LogicalPlan>> {
        let sorted = match window.window_expr.iter().any(is_placed) {
            true => self.sorted(&window.input)?,
            false => None,
        };
        let Some(Sorted { mut plan, keys }) = sorted else {
            return Ok(Transformed::no(LogicalPlan::Window(window)));
        };
        let columns = window.schema.columns();
        let (placed, others): (Vec<Expr>, Vec<Expr>) =
            window.window_expr.into_iter().partition(is_placed);
        let placed = in_order(placed, |call| in_window_order(call, &keys))?;
        // All calls of one window have the same order.
        for calls in [others, placed] {
            if !calls.is_empty() {
                plan = LogicalPlan::Window(Window::try_new(calls, Arc::new(plan))?);
            }
        }
        only_columns(plan, columns).map(Transformed::yes)
    }

    fn aggregate(&mut self, aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
        let sorted = match aggregate.aggr_expr.iter().any(has_unordered_rows) {
            true => self.sorted(&aggregate.input)?,
            false => None,
        };
        let Some(Sorted { plan, keys }) = sorted else {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        };
        let Aggregate { group_expr, aggr_expr, .. } = aggregate;
        let calls = in_order(aggr_expr, |call| in_aggregate_order(call, &keys))?;
        let aggregate = Aggregate::try_new(Arc::new(plan), group_expr, calls)?;
        Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
    }

    /// Sorts the rows of a group of DISTINCT ON, unless keys of its own do.
    fn distinct_on(&mut self, on: DistinctOn) -> Result<Transformed<LogicalPlan>> {
        let groups = on.on_expr.len();
        let is_open = on.sort_expr.as_ref().is_none_or(|keys| keys.len() == groups);
        let sorted = if is_open { self.sorted(&on.input)? } else { None };
        let Some(Sorted { plan, keys }) = sorted else {
            return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(on))));
        };
        let DistinctOn { on_expr, select_expr, sort_expr, .. } = on;
        let by_group = || on_expr.iter().map(|group| group.clone().sort(true, false)).collect();
        let mut by = sort_expr.unwrap_or_else(by_group);
        for key in sorts(&keys) {
            if by.iter().all(|other| other.expr != key.expr) {
                by.push(key);
            }
        }
        let on = DistinctOn::try_new(on_expr, select_expr, Some(by), Arc::new(plan))?;
        Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
    }

    /// Sorts the rows directly below a limit, where a join will stand between it and the sort.
    fn limit(&mut self, limit: Limit) -> Result<Transformed<LogicalPlan>> {
        let is_lost = path_to_order(&limit.input).is_some_and(|path| {
            let is_direct = matches!(
                path.as_slice(),
                [LogicalPlan::Sort(_)] | [LogicalPlan::Projection(_), LogicalPlan::Sort(_)]
            );
            let is_joined = || path.iter().any(|node| has_subqueries(node));
            !is_direct && (is_joined() || is_correlated(&limit.input))
        });
        let sorted = if is_lost { self.sorted(&limit.input)? } else { None };
        let Some(Sorted { plan, keys }) = sorted else {
            return Ok(Transformed::no(LogicalPlan::Limit(limit)));
        };
        let Limit { skip, fetch, input } = limit;
        let sort = Sort { expr: sorts(&keys), input: Arc::new(plan), fetch: None };
        let input = only_columns(LogicalPlan::Sort(sort), input.schema().columns())?;
        Ok(Transformed::yes(LogicalPlan::Limit(Limit { skip, fetch, input: Arc::new(input) })))
    }

    /// Returns a plan with the keys of its order; `None` if it has no order.
    fn sorted(&mut self, plan: &LogicalPlan) -> Result<Option<Sorted>> {
        match path_to_order(plan) {
            Some(_) => self.with_keys(plan.clone()).map(Some),
            None => Ok(None),
        }
    }

    /// Does the same for a plan that has an order.
    fn with_keys(&mut self, plan: LogicalPlan) -> Result<Sorted> {
        match plan {
            LogicalPlan::Sort(sort) if has_subquery(&sort.expr) => {
                match with_columns_of_sort(sort)?.data {
                    LogicalPlan::Sort(sort) => self.with_keys_of_sort(sort),
                    // A list above the sort leaves out the columns that its subqueries read.
                    list => {
                        let LogicalPlan::Sort(sort) = list.inputs()[0].clone() else {
                            unreachable!("the list stands above the sort")
                        };
                        let sorted = self.with_keys_of_sort(sort)?;
                        self.with_keys_of_list(list.expressions(), list.schema(), sorted)
                    }
                }
            }
            LogicalPlan::Sort(sort) => self.with_keys_of_sort(sort),
            LogicalPlan::Distinct(Distinct::On(on)) => self.with_keys_of_groups(on),
            LogicalPlan::Projection(Projection { expr, input, schema, .. }) => {
                let sorted = self.with_keys(Arc::unwrap_or_clone(input))?;
                self.with_keys_of_list(expr, &schema, sorted)
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
                let Sorted { plan: input, mut keys } =
                    self.with_keys(Arc::unwrap_or_clone(input))?;
                let places = keys.iter().map(|key| input.schema().index_of_column(&key.column));
                let places = places.collect::<Result<Vec<_>>>()?;
                let named = SubqueryAlias::try_new(Arc::new(input), alias)?;
                for (key, at) in keys.iter_mut().zip(places) {
                    key.column = Column::from(named.schema.qualified_field(at));
                }
                Ok(Sorted { plan: LogicalPlan::SubqueryAlias(named), keys })
            }
            plan => {
                let input = plan.inputs()[0].clone();
                let Sorted { plan: input, keys } = self.with_keys(input)?;
                let plan = plan.with_new_exprs(plan.expressions(), vec![input])?;
                Ok(Sorted { plan, keys })
            }
        }
    }

    /// Returns the list of a SELECT over sorted rows.
    fn with_keys_of_list(
        &mut self,
        mut listed: Vec<Expr>,
        schema: &DFSchema,
        sorted: Sorted,
    ) -> Result<Sorted> {
        let Sorted { plan, keys } = sorted;
        let shown = schema.columns();
        let carried = |Key { column, asc, nulls_first }: Key| {
            let column = self.column(Expr::Column(column), &shown, &mut listed);
            Key { column, asc, nulls_first }
        };
        let keys = keys.into_iter().map(carried).collect();
        let list = Projection::try_new(listed, Arc::new(plan))?;
        Ok(Sorted { plan: LogicalPlan::Projection(list), keys })
    }

    fn with_keys_of_sort(&mut self, sort: Sort) -> Result<Sorted> {
        let Sort { expr, input, fetch } = sort;
        let shown = input.schema().columns();
        let mut listed = shown.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        let mut keys = Vec::with_capacity(expr.len());
        for key in expr.iter().filter(|key| !is_constant(&key.expr)) {
            let column = self.column(key.expr.clone().unalias(), &shown, &mut listed);
            keys.push(Key::new(column, key));
        }
        let input = match listed.len() == shown.len() {
            true => input,
            false => Arc::new(LogicalPlan::Projection(Projection::try_new(listed, input)?)),
        };
        let plan = LogicalPlan::Sort(Sort { expr: sorts(&keys), input, fetch });
        Ok(Sorted { plan, keys })
    }

    /// Returns the order of the groups of a sorted DISTINCT ON.
    fn with_keys_of_groups(&mut self, on: DistinctOn) -> Result<Sorted> {
        let DistinctOn { on_expr, mut select_expr, sort_expr, input, schema } = on;
        let shown = schema.columns();
        let mut keys = Vec::with_capacity(on_expr.len());
        for key in keys_of_groups(sort_expr.as_deref(), on_expr.len()) {
            if !is_constant(&key.expr) {
                let column = self.column(key.expr.clone(), &shown, &mut select_expr);
                keys.push(Key::new(column, key));
            }
        }
        let on = DistinctOn::try_new(on_expr, select_expr, sort_expr, input)?;
        Ok(Sorted { plan: LogicalPlan::Distinct(Distinct::On(on)), keys })
    }

    /// Returns the column of a list that has this value, which is added if it is not shown.
    fn column(&mut self, value: Expr, shown: &[Column], listed: &mut Vec<Expr>) -> Column {
        let is_it = |(expr, _): &(&Expr, &Column)| *unnamed(expr) == value;
        if let Some((_, column)) = listed.iter().zip(shown).find(is_it) {
            return column.clone();
        }
        self.names += 1;
        let name = format!("{INTERNAL_PREFIX}order {}", self.names);
        listed.push(value.alias(&name));
        Column::new_unqualified(name)
    }
}

/// Returns the nodes from a plan down to the one that gives its rows their order; `None` if they
/// have none.
fn path_to_order(plan: &LogicalPlan) -> Option<Vec<&LogicalPlan>> {
    let mut path = Vec::new();
    let mut node = plan;
    loop {
        path.push(node);
        let is_kept = match node {
            LogicalPlan::Sort(sort) => return is_order(&sort.expr).then_some(path),
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let keys = keys_of_groups(on.sort_expr.as_deref(), on.on_expr.len());
                // The keys of the groups stand in both lists.
                return (is_order(keys) && !has_subquery(keys)).then_some(path);
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Window(_) => true,
            LogicalPlan::Extension(extension) => keeps_order(extension.node.as_ref()),
            _ => false,
        };
        if !is_kept {
            return None;
        }
        node = node.inputs().into_iter().next()?;
    }
}

/// Returns the keys by which the rows of a DISTINCT ON come: those of its groups.
fn keys_of_groups(by: Option<&[SortExpr]>, groups: usize) -> &[SortExpr] {
    by.and_then(|by| by.get(..groups)).unwrap_or_default()
}

/// Returns true for keys that sort.
fn is_order(keys: &[SortExpr]) -> bool {
    keys.iter().any(|key| !is_constant(&key.expr))
}

fn has_subquery(keys: &[SortExpr]) -> bool {
    keys.iter().any(|key| expr_has_subqueries(&key.expr))
}

/// Returns true for a value that is the same in all rows of a query.
fn is_constant(expr: &Expr) -> bool {
    matches!(unnamed(expr), Expr::Literal(..) | Expr::OuterReferenceColumn(..))
}

fn unnamed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unnamed(&alias.expr),
        expr => expr,
    }
}

/// Returns the plan without columns that were added to it.
fn only_columns(plan: LogicalPlan, columns: Vec<Column>) -> Result<LogicalPlan> {
    if plan.schema().columns() == columns {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan).project(columns.into_iter().map(Expr::Column))?.build()
}

/// Changes the calls in expressions, which keep their names.
fn in_order(exprs: Vec<Expr>, change: impl Fn(Expr) -> Transformed<Expr>) -> Result<Vec<Expr>> {
    let names = NamePreserver::new_for_projection();
    let changed = |expr: Expr| {
        let saved = names.save(&expr);
        let changed = expr.change_parts(&mut |expr| Ok(change(expr)))?;
        Ok(if changed.transformed { saved.restore(changed.data) } else { changed.data })
    };
    exprs.into_iter().map(changed).collect()
}

/// Returns true for a call of a window function that depends on the order of the rows, and does
/// not name it.
fn is_placed(expr: &Expr) -> bool {
    match unnamed(expr) {
        Expr::WindowFunction(call) => is_placed_call(call),
        _ => false,
    }
}

fn is_placed_call(call: &WindowFunction) -> bool {
    let frame = &call.params.window_frame;
    let is_by_rows = frame.units == WindowFrameUnits::Rows;
    if call.params.order_by.iter().any(|key| !is_constant(&key.expr))
        || !is_by_rows && !is_of_all_peers(frame)
    {
        return false;
    }
    match &call.fun {
        WindowFunctionDefinition::WindowUDF(function) => !OF_PEERS.contains(&function.name()),
        WindowFunctionDefinition::AggregateUDF(function) => {
            let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
            OF_ORDERED_ROWS.contains(&function.name()) || is_by_rows && !is_whole
        }
    }
}

/// Returns true for a RANGE that has all peers of a row.
fn is_of_all_peers(frame: &WindowFrame) -> bool {
    let is_free =
        |bound: &WindowFrameBound| bound.is_unbounded() || *bound == WindowFrameBound::CurrentRow;
    frame.units == WindowFrameUnits::Range
        && is_free(&frame.start_bound)
        && is_free(&frame.end_bound)
}

fn in_window_order(expr: Expr, keys: &[Key]) -> Transformed<Expr> {
    match expr {
        Expr::WindowFunction(mut call) if is_placed_call(&call) => {
            call.params.order_by = sorts(keys);
            if call.params.window_frame.units == WindowFrameUnits::Range {
                // Without an order all rows are peers.
                call.params.window_frame = WindowFrame::new(None);
            }
            Transformed::yes(Expr::WindowFunction(call))
        }
        expr => Transformed::no(expr),
    }
}

/// Returns true for an expression with an aggregate that depends on the order of its rows, and does
/// not name it.
fn has_unordered_rows(expr: &Expr) -> bool {
    let is_it = |expr: &Expr| match expr {
        Expr::AggregateFunction(call) => is_of_unordered_rows(call),
        _ => false,
    };
    expr.exists(|expr| Ok(is_it(expr))).expect("it never fails")
}

/// Returns true for the call of such an aggregate. Distinct values have no order of rows, and
/// values that read no column of the rows are all the same.
fn is_of_unordered_rows(call: &AggregateFunction) -> bool {
    OF_ORDERED_ROWS.contains(&call.func.name())
        && call.params.order_by.is_empty()
        && !call.params.distinct
        && call.params.args.iter().any(Expr::any_column_refs)
}

fn in_aggregate_order(expr: Expr, keys: &[Key]) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(mut call) if is_of_unordered_rows(&call) => {
            call.params.order_by = sorts(keys);
            Transformed::yes(Expr::AggregateFunction(call))
        }
        expr => Transformed::no(expr),
    }
}
