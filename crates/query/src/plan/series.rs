//! `generate_series(start, end, step)` and `range(..)` as tables, of integers and of times.
//!
//! - Arguments are any constants: casts, `now() - INTERVAL '1 day'`, texts beside times.
//! - A series of times is one of TIMESTAMPs.
//!
//! DataFusion makes the rows, of literals alone.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalUnit as ArrowIntervalUnit, TimeUnit};
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableSource, cast, col, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use crate::plan::coerce::converted;
use crate::types::interval_text::{IntervalUnit, parse_interval_text};

/// Returns the table of a call, if it is one of these.
pub(crate) fn series(
    state: &SessionState,
    name: &str,
    args: &[Expr],
) -> Result<Option<Arc<dyn TableSource>>> {
    let Some(function) = state.table_functions().get(name).filter(|_| is_series(name)) else {
        return Ok(None);
    };
    let values = args.iter().map(|arg| constant(state, name, arg.clone()));
    let values = values.collect::<Result<Vec<_>>>()?;
    let is_time = |value: &ScalarValue| {
        matches!(value.data_type(), DataType::Timestamp(..) | DataType::Date32)
    };
    let of_times = values.first().is_some_and(is_time);
    let mut bounds = Vec::with_capacity(values.len());
    for (at, value) in values.into_iter().enumerate() {
        let ty = match (of_times, at) {
            (true, 2) => DataType::Interval(ArrowIntervalUnit::MonthDayNano),
            (true, _) => DataType::Timestamp(TimeUnit::Nanosecond, None),
            (false, _) => DataType::Int64,
        };
        let value = match (value.try_as_str().flatten(), at) {
            (Some(text), 2) if of_times => {
                let parsed = parse_interval_text(text, IntervalUnit::Nanos(1_000_000_000));
                ScalarValue::IntervalMonthDayNano(parsed)
            }
            _ => value,
        };
        let is_number = !of_times && !value.is_null() && !value.data_type().is_integer();
        if is_number {
            return plan_err!("{name} takes integers, or two times and an interval");
        }
        bounds.push(match value.is_null() {
            true => lit(ScalarValue::Null),
            false => lit(value.cast_to(&ty)?),
        });
    }
    let args = TableFunctionArgs::new(&bounds, state);
    let series = provider_as_source(function.create_table_provider_with_args(args)?);
    if !of_times || bounds.contains(&lit(ScalarValue::Null)) {
        return Ok(Some(series));
    }
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let plan = LogicalPlanBuilder::scan(name, series, None)?
        .project([cast(col("value"), micros).alias("value")])?
        .build()?;
    Ok(Some(provider_as_source(Arc::new(ViewTable::new(plan, None)))))
}

fn is_series(name: &str) -> bool {
    matches!(name, "generate_series" | "range")
}

/// Evaluates an argument.
fn constant(state: &SessionState, name: &str, arg: Expr) -> Result<ScalarValue> {
    let schema = DFSchema::empty();
    let context = SimplifyContext::builder()
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(context);
    let arg = converted(arg, &schema)?;
    let arg = simplifier.simplify(simplifier.coerce(arg, &schema)?)?;
    match arg {
        Expr::Literal(value, _) => Ok(value),
        _ => plan_err!("the arguments of {name} are constants"),
    }
}
