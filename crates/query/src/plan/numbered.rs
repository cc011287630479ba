//! Window functions and aggregates that count: their results are signed integers.
//!
//! - `row_number`, `rank`, `dense_rank`, `approx_distinct` and `regr_count` are BIGINTs and `ntile`
//!   is an INT, as in PostgreSQL. DataFusion's own are UBIGINTs, which are DECIMALs beside a
//!   BIGINT: `row_number() OVER (..) / 2` would have a fraction.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::planner::{PlannerResult, RawAggregateExpr, RawWindowExpr};
use datafusion::logical_expr::{Expr, cast};

/// Returns the type of a function's counts.
fn counted(function: &str) -> Option<DataType> {
    match function {
        "row_number" | "rank" | "dense_rank" | "approx_distinct" | "regr_count" => {
            Some(DataType::Int64)
        }
        "ntile" => Some(DataType::Int32),
        _ => None,
    }
}

/// Plans a call of a window function.
pub(super) fn window(call: RawWindowExpr) -> PlannerResult<RawWindowExpr> {
    let Some(ty) = counted(call.func_def.name()) else { return PlannerResult::Original(call) };
    let params = WindowFunctionParams {
        args: call.args,
        partition_by: call.partition_by,
        order_by: call.order_by,
        window_frame: call.window_frame,
        filter: call.filter,
        null_treatment: call.null_treatment,
        distinct: call.distinct,
    };
    let window = WindowFunction { fun: call.func_def, params };
    PlannerResult::Planned(cast(Expr::WindowFunction(Box::new(window)), ty))
}

/// Plans a call of an aggregate.
pub(super) fn aggregate(call: RawAggregateExpr) -> PlannerResult<RawAggregateExpr> {
    let Some(ty) = counted(call.func.name()) else { return PlannerResult::Original(call) };
    let RawAggregateExpr { func, args, distinct, filter, order_by, null_treatment } = call;
    let call = AggregateFunction::new_udf(func, args, distinct, filter, order_by, null_treatment);
    PlannerResult::Planned(cast(Expr::AggregateFunction(call), ty))
}

/// Returns true for a count that is cast to a signed integer: none is too large for it.
pub(super) fn is_count(expr: &Expr, to: &DataType) -> bool {
    let ty = match expr {
        Expr::WindowFunction(call) => counted(call.fun.name()),
        Expr::AggregateFunction(call) => counted(call.func.name()),
        _ => None,
    };
    ty.as_ref() == Some(to)
}
