//! Functions that DataFusion lacks or defines differently.
//!
//! Not here: `count()`, which DataFusion plans as `count(*)`, and the meaning of operators
//! (`plan::coerce`).

mod pattern;
pub(crate) mod template;
pub(crate) mod postgres;
mod regexp;
pub(crate) mod lists;
mod list_concat;
mod signed;
mod parts;
mod calendar;
pub(crate) mod date_trunc;
pub(crate) mod date_bin;
mod time_series;
mod date_diff;
mod overlaps;
pub(crate) mod random;
pub(crate) mod time;
pub(crate) mod sample_bucket;
pub(crate) mod first_last;
mod ksum;
mod ordered;
mod own_order;
mod moments;
pub(crate) mod moving;
mod haversine;
mod alternatives;
mod typed;
mod float_bounds;
mod rounded;
mod sliding;
mod wide_sums;
mod rounded_means;
mod exact_means;
mod shared_set;
mod joined;
mod interval_average;
mod ignored_nulls;
mod text_concat;
mod value_cast;
pub(crate) mod matching;
pub(crate) mod sources;
pub(crate) mod signatures;
pub(crate) mod bounded;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::functions::math::power as power_udf;
use datafusion::functions_table::generate_series::GenerateSeriesFunc;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlanBuilder, ScalarUDF, cast, col, lit};

use crate::types::date_assignment::whole_day;
use crate::types::literal::integer_of;

pub(crate) use bounded::{Stage, bound_functions_of, bounded, check_window};
pub(crate) use exact_means::exact_mean;
pub(crate) use float_bounds::of_floats;
pub(crate) use ignored_nulls::ignoring_nulls;
pub(crate) use interval_average::plain_average;
pub(crate) use joined::moving_texts;
pub(crate) use lists::{LIST_CONTAINS, LIST_LENGTH, LIST_OVERLAPS};
pub(crate) use moving::moving;
pub(crate) use own_order::{sorted_by_itself, sorting_distinct_values};
pub(crate) use postgres::SIMILAR_PATTERN;
pub(crate) use regexp::pattern_text;
pub(crate) use rounded::with_known_type;
pub(crate) use rounded_means::rounded_mean;
pub(crate) use shared_set::shared_count;
pub(crate) use time::AT_TIME_ZONE;
pub(crate) use typed::untyped;
pub(crate) use wide_sums::wide_sum;

/// The scalar functions, under their names in lower case.
pub(crate) static SCALARS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let named = |function: ScalarUDF| {
        let function = Arc::new(function);
        let aliases = function.aliases().iter().map(|alias| (alias.clone(), Arc::clone(&function)));
        let own = (function.name().to_owned(), Arc::clone(&function));
        std::iter::once(own).chain(aliases.collect::<Vec<_>>())
    };
    let all = [
        time::time_functions(),
        postgres::postgres_functions(),
        rounded::rounded_functions(),
        regexp::regexp_functions(),
        lists::list_functions(),
        signed::signed_functions(),
        parts::part_functions(),
        time_series::series_functions(),
        vec![whole_day(), date_diff::date_diff(), date_trunc::date_trunc(), date_bin::date_bin()],
        vec![list_concat::list_concat(), alternatives::first_alternative(), overlaps::overlaps()],
    ];
    all.into_iter().flatten().flat_map(named).collect()
});

/// Returns `date_part`, which `extract` calls too.
pub(crate) fn date_part() -> Option<Arc<ScalarUDF>> {
    SCALARS.get("date_part").and_then(bounded)
}

/// Returns `coalesce`, which the forms of `nvl` become.
pub(crate) fn coalesce() -> Option<Arc<ScalarUDF>> {
    SCALARS.get("coalesce").and_then(bounded)
}

/// Returns a scalar function by its name.
#[cfg(test)]
pub(crate) fn scalar_function(name: &str) -> Option<Arc<ScalarUDF>> {
    SCALARS.get(name).cloned()
}

/// The aggregates, under their names in lower case.
pub(crate) static AGGREGATES: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    let named = |function: AggregateUDF| {
        let function = Arc::new(function);
        let aliases = function.aliases().iter().map(|alias| (alias.clone(), Arc::clone(&function)));
        let own = (function.name().to_owned(), Arc::clone(&function));
        std::iter::once(own).chain(aliases.collect::<Vec<_>>())
    };
    let all = [
        first_last::first_last_functions(),
        ksum::exact_sums(),
        vec![haversine::haversine()],
        typed::least_and_greatest(),
        sliding::sliding_aggregates(),
        vec![interval_average::average()],
        ordered::ordered_aggregates(),
        moments::moments(),
    ];
    all.into_iter().flatten().flat_map(named).collect()
});

/// Returns true if a pattern of times is PostgreSQL's.
pub(crate) fn is_postgres_pattern(pattern: &str) -> bool {
    template::form(pattern) == template::Form::Postgres
}

/// Returns `base ^ exponent`, a DOUBLE as in PostgreSQL.
pub(crate) fn power(base: Expr, exponent: Expr) -> Expr {
    let double = |side| cast(side, DataType::Float64);
    Expr::ScalarFunction(ScalarFunction::new_udf(power_udf(), vec![double(base), double(exponent)]))
}

/// Returns the table functions.
pub(crate) fn table_functions() -> Vec<Arc<TableFunction>> {
    vec![Arc::new(TableFunction::new("long_sequence".to_owned(), Arc::new(LongSequence)))]
}

/// `long_sequence(n)`: a column `x` of the numbers 1 to n.
#[derive(Debug)]
struct LongSequence;

impl TableFunctionImpl for LongSequence {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let count = match args.exprs() {
            [Expr::Literal(value, _)] => integer_of(value).and_then(|n| i64::try_from(n).ok()),
            _ => None,
        };
        let Some(count) = count.filter(|count| *count >= 0) else {
            return plan_err!("long_sequence takes one integer, which is not negative");
        };
        let bounds = [lit(1_i64), lit(count)];
        let bounds = TableFunctionArgs::new(&bounds, args.session());
        let series = GenerateSeriesFunc {}.call_with_args(bounds)?;
        let plan = LogicalPlanBuilder::scan("long_sequence", provider_as_source(series), None)?
            .project([col("value").alias("x")])?
            .build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}
