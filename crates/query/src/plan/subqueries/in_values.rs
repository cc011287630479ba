//! Subqueries in the rows of VALUES, which DataFusion evaluates before it has run any query.

use datafusion::common::{Column, Result, ScalarValue};
use datafusion::logical_expr::{Case, Expr, LogicalPlan, LogicalPlanBuilder, Values, cast, lit};

use super::expr_has_subqueries;
use crate::names::INTERNAL_PREFIX;

/// Returns VALUES in which fields with subqueries are computed by a list over it, row by row.
pub(super) fn outside_of_rows(values: Values) -> Result<LogicalPlan> {
    let Values { schema, values: mut rows } = values;
    let columns = schema.columns();
    let mut moved: Vec<Vec<(usize, Expr)>> = vec![Vec::new(); columns.len()];
    for (at, row) in rows.iter_mut().enumerate() {
        for (field, moved) in row.iter_mut().zip(&mut moved) {
            if expr_has_subqueries(field) {
                moved.push((at, std::mem::replace(field, lit(ScalarValue::Null))));
            }
        }
    }
    for (at, row) in rows.iter_mut().enumerate() {
        for (field, column) in row.iter_mut().zip(schema.fields()) {
            if matches!(field, Expr::Literal(value, _) if value.is_null()) {
                *field = lit(ScalarValue::try_from(column.data_type())?);
            }
        }
        row.push(lit(i64::try_from(at).expect("VALUES has fewer rows")));
    }
    let number = format!("{INTERNAL_PREFIX}row");
    let rows = LogicalPlanBuilder::values(rows)?.build()?;
    let number_at = rows.schema().columns().pop().expect("it has the number of the row");
    let exprs = columns.iter().map(|column| Expr::Column(column.clone()));
    let rows = LogicalPlanBuilder::from(rows.clone())
        .project(exprs.chain([Expr::Column(number_at).alias(&number)]))?
        .build()?;
    let listed = columns.into_iter().zip(schema.fields()).zip(moved);
    let listed = listed.map(|((column, field), moved)| {
        let plain = Expr::Column(column.clone());
        if moved.is_empty() {
            return plain;
        }
        let arm = |(row, expr): (usize, Expr)| {
            let row = lit(i64::try_from(row).expect("VALUES has fewer rows"));
            (Box::new(row), Box::new(cast(expr, field.data_type().clone())))
        };
        let by = Some(Box::new(Expr::Column(Column::new_unqualified(number.clone()))));
        let when_then_expr = moved.into_iter().map(arm).collect();
        Expr::Case(Case::new(by, when_then_expr, Some(Box::new(plain)))).alias(column.name)
    });
    let listed = listed.collect::<Vec<_>>();
    LogicalPlanBuilder::from(rows).project(listed)?.build()
}
