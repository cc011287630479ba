//! Recursive queries whose terms have columns of different fields.
//!
//! - RQ1. After [`with_alike_terms`], the fields of the recursive term have the metadata of those
//!   of the query, such as the name and the type that they are stored under: otherwise DataFusion
//!   takes a column of a table and a value calculated from it for different ones.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::logical_plan::RecursiveQuery;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Adapts the recursive terms of a whole plan (RQ1).
pub(super) fn with_alike_terms(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::RecursiveQuery(query) => alike(query),
        node => Ok(Transformed::no(node)),
    })
    .data()
}

fn alike(query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    let term = &query.recursive_term;
    let pairs = query.schema.fields().iter().zip(term.schema().fields());
    if pairs.clone().all(|(told, own)| told.metadata() == own.metadata()) {
        return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)));
    }
    let columns = term.schema().columns().into_iter().zip(pairs);
    let columns = columns.map(|(column, (told, own))| {
        let (relation, name) = (column.relation.clone(), column.name.clone());
        match told.metadata() == own.metadata() {
            true => Expr::Column(column),
            false => as_told(Expr::Column(column), told).alias_qualified(relation, name),
        }
    });
    let columns = columns.collect::<Vec<_>>();
    let term = LogicalPlanBuilder::from(term.as_ref().clone()).project(columns)?.build()?;
    let query = RecursiveQuery { recursive_term: Arc::new(term), ..query };
    Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
}

fn as_told(column: Expr, told: &FieldRef) -> Expr {
    let metadata = told.metadata().iter().map(|(key, value)| (key.clone(), value.clone()));
    let mut metadata = metadata.collect::<Vec<_>>();
    metadata.sort();
    // Volatile, because a rule would replace that of a constant by the constant, which has no
    // metadata.
    let signature = Signature::any(1, Volatility::Volatile);
    let function = Arc::new(ScalarUDF::new_from_impl(AsTold { signature, metadata }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![column]))
}

/// A function that returns its argument with this metadata.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsTold {
    signature: Signature,
    metadata: Vec<(String, String)>,
}

impl ScalarUDFImpl for AsTold {
    fn name(&self) -> &'static str {
        "as told"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = &args.arg_fields[0];
        let told = Field::new(self.name(), field.data_type().clone(), field.is_nullable());
        Ok(Arc::new(told.with_metadata(self.metadata.iter().cloned().collect::<HashMap<_, _>>())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
