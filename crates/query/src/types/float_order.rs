//! Float ordering: floats as keys of sorting, grouping and DISTINCT, where NaN equals NaN and is
//! greatest, and -0 equals 0.
//!
//! - After [`with_float_keys`], no FLOAT or DOUBLE is a key of a sort, a group, a window, or of
//!   DISTINCT but as `sort key(x)`, in which there is one NaN and one zero. Intervals are keys by
//!   their length alike (intervals-1).
//! - So are the operands of comparisons that are no stored values ([`operand`]).
//!
//! DataFusion sorts floats by their bits, and counts distinct ones so. Names that no query can
//! write keep its rules from taking the function for another. Joins and comparisons handle -0
//! themselves. Not here: keys of LATEST ON and of joins in time (`timeseries::keys`).

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{
    AggregateFunction, ScalarFunction, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SortExpr, Volatility, WindowFrame,
    WindowFrameBound, WindowFrameUnits,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::call_values::call_values;
use super::intervals;
use super::tree_changes::{ChangeParts, ChangePlan};
use crate::names::{INTERNAL_PREFIX, NAME_KEY};

/// Adds the keys to a whole plan.
pub(crate) fn with_float_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.change_nodes(&mut |node| match node {
        LogicalPlan::Sort(mut sort) => {
            let schema = sort.input.schema();
            let is_keyed = sort.expr.iter().any(|key| needs_key(&key.expr, schema));
            sort.expr = sort.expr.into_iter().map(|key| sort_key(key, schema)).collect();
            let sort = LogicalPlan::Sort(sort);
            Ok(if is_keyed { Transformed::yes(sort) } else { Transformed::no(sort) })
        }
        LogicalPlan::Distinct(Distinct::All(input)) => distinct(Arc::unwrap_or_clone(input)),
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = Arc::clone(on.input.schema());
            let mut keys: Vec<Expr> = Vec::with_capacity(on.on_expr.len());
            for expr in on.on_expr.into_iter().map(|expr| key(expr, &schema)) {
                if !keys.contains(&expr) {
                    keys.push(expr);
                }
            }
            on.on_expr = keys;
            let sorted = |keys: Vec<_>| keys.into_iter().map(|key| sort_key(key, &schema));
            on.sort_expr = on.sort_expr.map(|keys| without_repeated(sorted(keys)));
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
        }
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => keys_of_exprs(node),
        node => Ok(Transformed::no(node)),
    })?;
    Ok(changed.data)
}

/// Adds keys to groups and to calls of aggregates and window functions, under the names they have.
fn keys_of_exprs(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(node.inputs()[0].schema());
    let names = NamePreserver::new(&node);
    let groups = match &node {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.len(),
        _ => 0,
    };
    let mut number = 0;
    let changed = node.change_exprs(&mut |expr| {
        let is_group = number < groups;
        number += 1;
        let saved = names.save(&expr);
        let changed = expr.change_parts(&mut |expr| Ok(keys_of_call(expr, &schema)))?;
        let changed = match is_group && needs_key(&changed.data, &schema) {
            true => Transformed::yes(key(changed.data.unalias(), &schema)),
            false => changed,
        };
        Ok(if changed.transformed {
            changed.update_data(|expr| saved.restore(expr))
        } else {
            changed
        })
    })?;
    if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
}

/// Adds keys to the ORDER BY and the DISTINCT of a call of an aggregate or a window function.
fn keys_of_call(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let keys = |exprs: Vec<Expr>| exprs.into_iter().map(|expr| key(expr, schema)).collect();
    let sort_keys =
        |keys: Vec<SortExpr>| without_repeated(keys.into_iter().map(|key| sort_key(key, schema)));
    match expr {
        Expr::AggregateFunction(AggregateFunction { func, mut params })
            if params.distinct && params.args.iter().any(|arg| needs_key(arg, schema))
                || params.order_by.iter().any(|key| needs_key(&key.expr, schema))
                || has_repeated(&params.order_by) =>
        {
            if params.distinct {
                params.args = keys(params.args);
            }
            params.order_by = sort_keys(params.order_by);
            Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, mut params } = *window;
            let is_framed = with_groups_of_peers(&mut params, schema);
            let is_changed = is_framed
                || params.partition_by.iter().any(|expr| needs_key(expr, schema))
                || params.order_by.iter().any(|key| needs_key(&key.expr, schema))
                || params.distinct && params.args.iter().any(|arg| needs_key(arg, schema));
            if is_changed {
                let groups = params.partition_by.into_iter();
                let group = |expr| if is_domain_key(&expr) { expr } else { key(expr, schema) };
                params.partition_by = groups.map(group).collect();
                let place = |by: SortExpr| match intervals::is_interval(&by.expr, schema) {
                    true => SortExpr { expr: intervals::length_number(by.expr), ..by },
                    false => sort_key(by, schema),
                };
                params.order_by = params.order_by.into_iter().map(place).collect();
                if params.distinct {
                    params.args = keys(params.args);
                }
            }
            let window = Expr::WindowFunction(Box::new(WindowFunction { fun, params }));
            if is_changed { Transformed::yes(window) } else { Transformed::no(window) }
        }
        expr => Transformed::no(expr),
    }
}

/// Makes a RANGE frame of peers one of GROUPS, which is the same, for keys that are bytes, as UUIDs
/// are: DataFusion has RANGE for no such type. Returns true if it did.
fn with_groups_of_peers(params: &mut WindowFunctionParams, schema: &DFSchema) -> bool {
    let is_bytes = |by: &SortExpr| {
        let ty = by.expr.get_type(schema);
        ty.is_ok_and(|ty| ty.is_binary() || matches!(ty, DataType::FixedSizeBinary(_)))
    };
    let frame = &params.window_frame;
    let has_length = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(length) | WindowFrameBound::Following(length) => {
            !length.is_null()
        }
        WindowFrameBound::CurrentRow => false,
    };
    let is_of_peers = frame.units == WindowFrameUnits::Range
        && !has_length(&frame.start_bound)
        && !has_length(&frame.end_bound);
    if !is_of_peers || !params.order_by.iter().any(is_bytes) {
        return false;
    }
    let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
    params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    true
}

/// Makes a DISTINCT over columns whose floats are keys.
fn distinct(input: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let columns = schema.columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    if !columns.iter().any(|column| needs_key(column, &schema)) {
        let distinct = Distinct::All(Arc::new(input));
        return Ok(Transformed::no(LogicalPlan::Distinct(distinct)));
    }
    let named = |column: Expr| {
        let (relation, name) = column.qualified_name();
        match needs_key(&column, &schema) {
            true => key(column, &schema).alias_qualified(relation, name),
            false => column,
        }
    };
    let keys = LogicalPlanBuilder::from(input).project(columns.into_iter().map(named))?.build()?;
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::All(Arc::new(keys)))))
}

pub(crate) fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Float32 | DataType::Float64))
}

/// Returns the keys of an aggregate without repeated ones: DataFusion leaves those out of the sort,
/// and then finds too many.
fn without_repeated(keys: impl Iterator<Item = SortExpr>) -> Vec<SortExpr> {
    let mut kept: Vec<SortExpr> = Vec::new();
    for key in keys {
        if kept.iter().all(|it| it.expr != key.expr) {
            kept.push(key);
        }
    }
    kept
}

fn has_repeated(keys: &[SortExpr]) -> bool {
    (1..keys.len()).any(|at| keys[..at].iter().any(|it| it.expr == keys[at].expr))
}

fn sort_key(by: SortExpr, schema: &DFSchema) -> SortExpr {
    SortExpr { expr: key(by.expr, schema), ..by }
}

/// Returns true for floats and for intervals, which are compared by their length (intervals-1).
pub(crate) fn needs_key(expr: &Expr, schema: &DFSchema) -> bool {
    is_float(expr, schema) || intervals::is_interval(expr, schema)
}

/// Returns the expression as a key, if it needs one.
pub(crate) fn key(expr: Expr, schema: &DFSchema) -> Expr {
    if intervals::is_interval(&expr, schema) {
        return intervals::length_key(expr);
    }
    let is_key = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => call.func.inner().is::<SortKey>(),
        _ => false,
    };
    if !is_float(&expr, schema) || is_key(&expr) {
        return expr;
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(SortKey { signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

/// Returns the argument of a `sort key(x)` in a logical plan.
pub(crate) fn inside_logical_sort_key(call: &ScalarFunction) -> Option<&Expr> {
    call.args.first().filter(|_| call.func.inner().is::<SortKey>())
}

/// Returns an operand of a comparison, as a key if it may be a NaN or a zero that is not the stored
/// one: the sign of a NaN that arithmetic makes depends on the machine.
pub(crate) fn operand(expr: Expr, schema: &DFSchema) -> Expr {
    if is_made(&expr, schema) { key(expr, schema) } else { expr }
}

/// Returns true for a float that is neither stored nor written in the query.
pub(crate) fn is_made(expr: &Expr, schema: &DFSchema) -> bool {
    let is_stored = match expr {
        Expr::Literal(..) => true,
        Expr::Column(_) | Expr::OuterReferenceColumn(..) => {
            expr.to_field(schema).is_ok_and(|(_, field)| field.metadata().contains_key(NAME_KEY))
        }
        _ => false,
    };
    !is_stored && is_float(expr, schema)
}

/// Returns `x` of `sort key(x)`, which compares alike.
pub(crate) fn inside_sort_key(expr: &Arc<dyn PhysicalExpr>) -> Option<&Arc<dyn PhysicalExpr>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    call.args().first().filter(|_| call.fun().inner().is::<SortKey>())
}

/// A part of the names of grouping columns around a subquery: they are keys already.
pub(crate) const DOMAIN_KEY: &str = " key ";

/// Returns true for such a column. As an operand of `sort key` it would not be found again where
/// DataFusion has replaced it by an equal column.
fn is_domain_key(expr: &Expr) -> bool {
    match expr {
        Expr::Column(Column { relation: None, name, .. }) => {
            name.starts_with(INTERNAL_PREFIX) && name.contains(DOMAIN_KEY)
        }
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SortKey {
    signature: Signature,
}

impl ScalarUDFImpl for SortKey {
    fn name(&self) -> &'static str {
        "sort key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        call_values(&args.args, args.number_rows, |values, _| Ok(one_zero_and_nan(&values[0])))
    }
}

/// Returns floats with one zero and one NaN; other arrays unchanged.
pub(crate) fn one_zero_and_nan(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float32 => {
            let one = |x: f32| if x.is_nan() { f32::NAN } else { x + 0.0 };
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        DataType::Float64 => {
            let one = |x: f64| if x.is_nan() { f64::NAN } else { x + 0.0 };
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        _ => Arc::clone(values),
    }
}
