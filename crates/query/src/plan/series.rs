//! `generate_series(start, end, step)` and `range(..)` as tables, of integers and of times.
//!
//! - Arguments are any constants: casts, `now() - INTERVAL '1 day'`, texts beside times.
//! - A series of times is one of TIMESTAMPs.
//!
//! DataFusion makes the rows, of literals alone. It counts times in nanoseconds: a series with an
//! end that has none is the rows of a list (`functions::time_series`).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalUnit as ArrowIntervalUnit, TimeUnit};
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableSource, cast, col, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use tidegate_model::{ColumnType, TimeUnit as Unit};
use tidegate_storage::segment::arrow_type;

use crate::error::TextProblem;
use crate::functions::{SCALARS, bounded};
use crate::plan::coerce::converted;
use crate::types::coercion::bad_text;
use crate::types::expression_size::check_constant;
use crate::types::interval_text::{IntervalUnit, parse_interval_text};
use crate::types::literal::value_of_text;

const MICROS: ColumnType = ColumnType::Timestamp(Unit::Micros);

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
    let has_null = values.iter().any(ScalarValue::is_null);
    let mut is_far = false;
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
            (Some(text), _) if of_times => {
                let time = value_of_text(text, MICROS).unwrap_or(Err(TextProblem::OutOfRange));
                time.map_err(bad_text(text, MICROS))?
            }
            _ => value,
        };
        let is_number = !of_times && !value.is_null() && !value.data_type().is_integer();
        if is_number {
            return plan_err!("{name} takes integers, or two times and an interval");
        }
        bounds.push(match value.cast_to(&ty) {
            _ if value.is_null() => lit(ScalarValue::Null),
            Ok(value) => lit(value),
            Err(_) if of_times && at < 2 => {
                is_far = true;
                lit(if has_null {
                    ScalarValue::Null
                } else {
                    value.cast_to(&arrow_type(MICROS))?
                })
            }
            Err(error) => return Err(error),
        });
    }
    if is_far && !has_null {
        return listed(name, bounds).map(Some);
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

/// Returns the rows of a list of times, of which an end has no nanoseconds.
fn listed(name: &str, bounds: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
    let Some(function) = SCALARS.get(name).and_then(bounded) else {
        return plan_err!("Invalid function '{name}'");
    };
    let list = Expr::ScalarFunction(ScalarFunction::new_udf(function, bounds));
    let plan = LogicalPlanBuilder::empty(true)
        .project([list.alias("value")])?
        .unnest_column("value")?
        .project([cast(col("value"), arrow_type(MICROS)).alias("value")])?
        .build()?;
    Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
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
    check_constant(&arg)?;
    let arg = simplifier.simplify(simplifier.coerce(arg, &schema)?)?;
    match arg {
        Expr::Literal(value, _) => Ok(value),
        _ => plan_err!("the arguments of {name} are constants"),
    }
}
