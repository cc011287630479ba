//! Table functions that DataFusion does not have.

use std::sync::Arc;

use datafusion::catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::functions_table::generate_series::GenerateSeriesFunc;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, col, lit};

use super::literal::integer_of;

/// The functions, under their names.
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
