//! SAMPLE BY as a grouping by buckets, in their order, and a fill.
//!
//! - Outside of aggregates the designated timestamp is the start of the bucket; inside of them it
//!   is the row's own.
//! - The result ascends by bucket, and the column of the bucket starts is its designated timestamp.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{
    Column, DFSchema, Result, ScalarValue, Spans, plan_err, unqualified_field_not_found,
};
use datafusion::functions_aggregate::expr_fn::min;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF, Signature, Volatility, cast, col, lit,
};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Value as SqlValue,
};
use tidegate_model::{ColumnType, TimeUnit};

use crate::error::{ClauseProblem, Error};
use crate::functions::sample_bucket::SampleBucket;
use crate::sql::blocks::{contains_aggregate, from_one, keys_of, query_of, select_everything};
use crate::sql::clauses::{Align, FillClause, SampleClause};
use crate::sql::sample_order::bucket_name;
use crate::sql::select_rewrite::replace_columns;
use crate::timeseries::designated::{Designated, designated, in_order_of};
use crate::timeseries::extension;
use crate::timeseries::fill::{Fill, FillGaps, Filling, Role};
use crate::timeseries::relations::ClauseRelations;
use crate::types::bucket::{Grid, Origin, Stride, instant, time_unit};
use crate::types::literal::time_value;
use crate::types::zone::{Zone, parse_offset};

/// The parameters of the clause, with values in place of expressions.
#[derive(Debug, Clone, Copy)]
struct Sampling {
    stride: Stride,
    unit: TimeUnit,
    zone: Option<Zone>,
    offset: i64,
    from: Option<i64>,
    to: Option<i64>,
    is_by_first: bool,
}

/// Returns the plan of a block with SAMPLE BY.
pub(crate) fn sampled(
    relations: &ClauseRelations,
    clause: &SampleClause,
    query: Query,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let wrong = |what| Error::Clause { position: Some(clause.position), what };
    let SetExpr::Select(select) = *query.body else {
        return plan_err!("SAMPLE BY stands in a SELECT");
    };
    let mut select = *select;
    let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(e, _) if e.is_empty());
    if !is_ungrouped {
        return Err(wrong(ClauseProblem::SampleGrouped).into());
    }
    let from = std::mem::take(&mut select.from);
    let rows = query_of(select_everything(from, select.selection.take()));
    let rows = ClauseRelations::inner(rows, context)?;
    let no_timestamp = || wrong(ClauseProblem::NoDesignated { clause: "SAMPLE BY" });
    let time = designated(&rows).ok_or_else(no_timestamp)?;
    let unit = time_unit(rows.schema(), &time)?;
    if let Some(name) = clause.ordered_by.as_ref().filter(|name| name.value != time.name) {
        return Err(unqualified_field_not_found(&name.value, rows.schema()));
    }
    let sampling = sampling(relations, clause, unit, context)?;
    let rows = within(rows, &time, sampling)?;
    let (rows, grid) = with_buckets(rows, &time, sampling).map_err(|problem| match problem {
        Problem::Clause(what) => wrong(what).into(),
        Problem::Plan(error) => error,
    })?;
    select.from = from_one(relations.slot(rows));
    let is_aggregate = |name: &str| relations.is_aggregate(name);
    let roles = group_by_buckets(&mut select, &time, clause, &is_aggregate)?;
    let grouped = ClauseRelations::inner(query_of(select), context)?;
    finish(grouped, clause, sampling, grid, roles)
}

enum Problem {
    Clause(ClauseProblem),
    Plan(datafusion::common::DataFusionError),
}

impl From<ClauseProblem> for Problem {
    fn from(what: ClauseProblem) -> Problem {
        Problem::Clause(what)
    }
}

impl From<datafusion::common::DataFusionError> for Problem {
    fn from(error: datafusion::common::DataFusionError) -> Problem {
        Problem::Plan(error)
    }
}

fn sampling(
    relations: &ClauseRelations,
    clause: &SampleClause,
    unit: TimeUnit,
    context: &mut dyn RelationPlannerContext,
) -> Result<Sampling> {
    let wrong = |what| Error::Clause { position: Some(clause.position), what };
    let (zone, offset, is_by_first) = match &clause.align {
        Align::FirstObservation => (None, 0, true),
        Align::Calendar { zone, offset } => {
            let parse_zone = |zone: &String| {
                let unknown = || wrong(ClauseProblem::NoTimeZone { zone: zone.clone() });
                Zone::parse(zone).ok_or_else(unknown)
            };
            let parse_offset = |offset: &String| {
                let unknown = || wrong(ClauseProblem::Offset { offset: offset.clone() });
                parse_offset(offset).ok_or_else(unknown)
            };
            let zone = zone.as_ref().map(parse_zone).transpose()?;
            (zone, offset.as_ref().map(parse_offset).transpose()?.unwrap_or(0), false)
        }
    };
    let mut bound = |expr: &Option<SqlExpr>, bound| -> Result<Option<i64>> {
        let Some(expr) = expr else { return Ok(None) };
        let value = relations.constant(expr.clone(), context)?;
        let instant = value.and_then(|value| instant(&value, unit, zone));
        match instant {
            Some(instant) => Ok(Some(instant)),
            None => Err(wrong(ClauseProblem::SampleBound { bound }).into()),
        }
    };
    let (from, to) = (bound(&clause.from, "FROM")?, bound(&clause.to, "TO")?);
    let stride = Stride { count: clause.count, unit: clause.unit };
    Ok(Sampling { stride, unit, zone, offset, from, to, is_by_first })
}

/// Filters the rows from FROM to TO.
fn within(rows: LogicalPlan, time: &Column, sampling: Sampling) -> Result<LogicalPlan> {
    let bound = |value| lit(time_value(value, ColumnType::Timestamp(sampling.unit)));
    let time = || Expr::Column(time.clone());
    let mut plan = LogicalPlanBuilder::from(rows);
    if let Some(from) = sampling.from {
        plan = plan.filter(time().gt_eq(bound(from)))?;
    }
    if let Some(to) = sampling.to {
        plan = plan.filter(time().lt(bound(to)))?;
    }
    plan.build()
}

/// Adds the start of their bucket to rows as one more column. `None` in place of a grid if its
/// buckets are counted from the first row.
fn with_buckets(
    rows: LogicalPlan,
    time: &Column,
    sampling: Sampling,
) -> std::result::Result<(LogicalPlan, Option<Grid>), Problem> {
    let Sampling { stride, unit, zone, offset, from, is_by_first, .. } = sampling;
    let origin = match from {
        Some(from) => Origin::Instant(from.saturating_add(offset * unit.per_second())),
        None => Origin::Calendar { offset },
    };
    let grid = Grid::new(stride, unit, zone, origin)?;
    let mut args = vec![Expr::Column(time.clone())];
    let from_first = is_by_first && from.is_none();
    if from_first {
        args.push(first_instant(&rows, time)?);
    }
    let signature = Signature::any(args.len(), Volatility::Immutable);
    let bucket = SampleBucket { stride, unit, grid: (!from_first).then_some(grid), signature };
    let bucket = ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(bucket)), args);
    let columns = rows.schema().columns().into_iter().map(Expr::Column);
    let bucket = Expr::ScalarFunction(bucket).alias(bucket_name());
    let exprs = columns.chain([bucket]).collect::<Vec<_>>();
    let rows = LogicalPlanBuilder::from(rows).project(exprs)?.build()?;
    Ok((rows, (!from_first).then_some(grid)))
}

/// Returns the least time of the rows, as a number.
fn first_instant(rows: &LogicalPlan, time: &Column) -> Result<Expr> {
    let least = min(Expr::Column(time.clone())).alias("first");
    let subquery = LogicalPlanBuilder::from(rows.clone())
        .aggregate(Vec::<Expr>::new(), [least])?
        .project([cast(col("first"), DataType::Int64)])?
        .build()?;
    let subquery = Arc::new(subquery);
    let spans = Spans::new();
    Ok(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns: Vec::new(), spans }))
}

/// Makes the block a grouping by bucket and keys, its first item the bucket, and returns the
/// role of each column of its result.
fn group_by_buckets(
    select: &mut Select,
    time: &Column,
    clause: &SampleClause,
    is_aggregate: &dyn Fn(&str) -> bool,
) -> Result<Vec<Role>> {
    let wrong = |what| Error::Clause { position: Some(clause.position), what };
    let bucket = || Ident::with_quote('"', bucket_name());
    let is_filled = clause.fill.iter().any(|fill| !matches!(fill, FillClause::None));
    let mut keys = vec![SqlExpr::Identifier(bucket())];
    let mut roles = vec![Role::Bucket];
    let mut aggregates = 0;
    for item in &mut select.projection {
        name_as_written(item);
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return Err(wrong(ClauseProblem::SampleItems).into());
        };
        let replacement =
            |expr: &SqlExpr| is_column(expr, time).then(|| SqlExpr::Identifier(bucket()));
        replace_columns(expr, is_aggregate, &replacement);
        let is_bucket = matches!(expr, SqlExpr::Identifier(ident) if ident.value == bucket_name());
        roles.push(if is_bucket {
            Role::Bucket
        } else if contains_aggregate(expr, is_aggregate) {
            aggregates += 1;
            Role::Value(Fill::Null)
        } else {
            Role::Key
        });
        for key in keys_of(expr, is_aggregate) {
            let is_of_bucket = !is_bucket && key.to_string().contains(&bucket_name());
            if is_of_bucket && is_filled && !matches!(key, SqlExpr::Identifier(_)) {
                let feature = "FILL beside an expression of the timestamp";
                return Err(Error::NotSupported { position: Some(clause.position), feature }.into());
            }
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    if aggregates == 0 {
        return Err(wrong(ClauseProblem::SampleItems).into());
    }
    let first = SelectItem::ExprWithAlias { expr: SqlExpr::Identifier(bucket()), alias: bucket() };
    select.projection.insert(0, first);
    select.group_by = GroupByExpr::Expressions(keys, Vec::new());
    Ok(roles)
}

/// Names a plain column by its own name, before another expression replaces it.
fn name_as_written(item: &mut SelectItem) {
    let SelectItem::UnnamedExpr(expr) = item else { return };
    let name = match expr {
        SqlExpr::Identifier(ident) => ident.clone(),
        SqlExpr::CompoundIdentifier(path) => match path.last() {
            Some(ident) => ident.clone(),
            None => return,
        },
        _ => return,
    };
    let alias = Ident { quote_style: Some('"'), ..name };
    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
}

fn is_column(expr: &SqlExpr, column: &Column) -> bool {
    match expr {
        SqlExpr::Identifier(ident) => ident.value == column.name,
        SqlExpr::CompoundIdentifier(path) => match path.as_slice() {
            [.., table, name] => {
                let of = column.relation.as_ref().map(|relation| relation.table());
                name.value == column.name && of.is_none_or(|of| of == table.value)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Adds the order, the fill and the columns that the block selects.
fn finish(
    grouped: LogicalPlan,
    clause: &SampleClause,
    sampling: Sampling,
    grid: Option<Grid>,
    roles: Vec<Role>,
) -> Result<LogicalPlan> {
    let wrong = |what| Error::Clause { position: Some(clause.position), what };
    let columns = grouped.schema().columns();
    // The first bucket among the items of the block, or else the one that was added.
    let shown = roles.iter().skip(1).position(|role| *role == Role::Bucket).map_or(0, |at| at + 1);
    let by_bucket = columns[0].clone();
    let mut input = in_order_of(grouped, by_bucket)?;
    if clause.fill.iter().any(|fill| !matches!(fill, FillClause::None)) {
        let roles = with_fills(roles, clause, input.schema()).map_err(wrong)?;
        let Sampling { stride, unit, from, to, .. } = sampling;
        let filling = Filling { roles, stride, unit, grid, from, to };
        input = extension(FillGaps::new(input, filling)?);
    }
    let plan = extension(Designated { input, column: columns[shown].clone() });
    let bucket = columns.first().filter(|_| clause.ordered_by.is_some()).cloned();
    let items = columns.into_iter().skip(1).chain(bucket).map(Expr::Column).collect::<Vec<_>>();
    LogicalPlanBuilder::from(plan).project(items)?.build()
}

/// Adds the fills of their gaps to the roles.
fn with_fills(
    mut roles: Vec<Role>,
    clause: &SampleClause,
    schema: &DFSchema,
) -> std::result::Result<Vec<Role>, ClauseProblem> {
    let aggregates = roles.iter().filter(|role| matches!(role, Role::Value(_))).count();
    let values = clause.fill.len();
    if values != 1 && values != aggregates {
        return Err(ClauseProblem::FillCount { values, aggregates });
    }
    let mut number = 0;
    for (at, role) in roles.iter_mut().enumerate() {
        let Role::Value(fill) = role else { continue };
        let of_column = if values == 1 { &clause.fill[0] } else { &clause.fill[number] };
        number += 1;
        let field = schema.field(at);
        let column = || field.name().clone();
        *fill = match of_column {
            FillClause::None | FillClause::Null => Fill::Null,
            FillClause::Prev => Fill::Prev,
            FillClause::Linear if field.data_type().is_numeric() => Fill::Linear,
            FillClause::Linear => return Err(ClauseProblem::FillLinear { column: column() }),
            FillClause::Value(expr) => {
                let value = fill_value(expr, field.data_type());
                Fill::Value(value.ok_or_else(|| ClauseProblem::FillValue { column: column() })?)
            }
        };
    }
    Ok(roles)
}

/// Returns the value of a constant in FILL, in the type of its column: a number with or without a
/// sign, or a text.
fn fill_value(expr: &SqlExpr, ty: &DataType) -> Option<ScalarValue> {
    let text = match expr {
        SqlExpr::Value(value) => match &value.value {
            SqlValue::Number(digits, _) => digits.clone(),
            SqlValue::SingleQuotedString(text) => text.clone(),
            SqlValue::Boolean(value) => value.to_string(),
            _ => return None,
        },
        SqlExpr::UnaryOp { op, expr } => format!("{op}{expr}"),
        _ => return None,
    };
    ScalarValue::try_from_string(text, ty).ok().filter(|value| !value.is_null())
}
