//! Aggregates and window functions of ours in place of DataFusion's, chosen by the type of their
//! argument once that is known, or by the clauses of the call.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{AggregateUDF, Expr, ExprSchemable, WindowFunctionDefinition};
use tidegate_model::ColumnType;

use crate::functions::{
    exact_mean, ignoring_nulls, moving, moving_texts, of_floats, plain_average, rounded_mean,
    shared_count, untyped, wide_sum,
};
use crate::types::expression_type::type_in;
use crate::types::intervals;

/// Returns the aggregate for the type of its argument, which is known now.
pub(super) fn known_aggregate(
    func: &Arc<AggregateUDF>,
    args: &[Expr],
    is_distinct: bool,
    schema: &DFSchema,
) -> Option<Arc<AggregateUDF>> {
    let average = plain_average(func);
    if average.is_some() && args.first().is_some_and(|arg| intervals::is_interval(arg, schema)) {
        return None;
    }
    let func = average.as_ref().unwrap_or(func);
    let Some(plain) = untyped(func) else {
        let of = args.first().and_then(|arg| arg.get_type(schema).ok());
        let wide = of.as_ref().filter(|_| !is_distinct).and_then(|ty| wide_sum(func, ty));
        let mean =
            || of.as_ref().and_then(|ty| rounded_mean(func, ty).or_else(|| exact_mean(func, ty)));
        let count = || if is_distinct { shared_count(func) } else { None };
        return wide.or_else(mean).or_else(count).or(average);
    };
    match args.first().and_then(|arg| type_in(arg, schema)) {
        Some(ColumnType::Uuid | ColumnType::Ipv4) => None,
        Some(ColumnType::Float32 | ColumnType::Float64) => Some(of_floats(plain)),
        _ => Some(plain),
    }
}

/// Returns the function for a window, if it is another one.
pub(super) fn known_window_function(
    window: &WindowFunction,
    schema: &DFSchema,
) -> Option<WindowFunctionDefinition> {
    match &window.fun {
        WindowFunctionDefinition::AggregateUDF(func) => {
            known_window_aggregate(func, &window.params, schema)
                .map(WindowFunctionDefinition::AggregateUDF)
        }
        WindowFunctionDefinition::WindowUDF(func) => {
            ignoring_nulls(func, &window.params).map(WindowFunctionDefinition::WindowUDF)
        }
    }
}

/// Returns the aggregate for a window, whose frames may move.
fn known_window_aggregate(
    func: &Arc<AggregateUDF>,
    params: &WindowFunctionParams,
    schema: &DFSchema,
) -> Option<Arc<AggregateUDF>> {
    let is_average = plain_average(func).is_some();
    match known_aggregate(func, &params.args, params.distinct, schema) {
        Some(known) if is_average => Some(moving(&known).unwrap_or(known)),
        Some(known) => Some(known),
        // The average of intervals moves by itself.
        None if is_average => None,
        None => moving(func).or_else(|| moving_texts(func, params)),
    }
}
