//! Subscripts of lists, counted from 1 as in PostgreSQL; and `extract`, which is our `date_part`.
//!
//! - `list[n]` is NULL for an n below 1, and `list[a:b]` begins with the first element at the
//!   earliest: a negative number does not count from the end, as it does for functions of DuckDB.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Case};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, Operator, lit};

use crate::functions::date_part;
use crate::types::literal::integer_of;

/// Plans subscripts and `extract` with their meaning in our dialect.
#[derive(Debug)]
pub(crate) struct PartPlanner;

impl ExprPlanner for PartPlanner {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        Ok(PlannerResult::Original(counted_from_one(access, schema)))
    }

    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(match date_part() {
            Some(function) => PlannerResult::Planned(function.call(args)),
            None => PlannerResult::Original(args),
        })
    }
}

/// Counts subscripts of lists from 1.
fn counted_from_one(access: RawFieldAccessExpr, schema: &DFSchema) -> RawFieldAccessExpr {
    let RawFieldAccessExpr { expr, field_access } = access;
    let is_list = matches!(
        expr.get_type(schema),
        Ok(DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
    );
    let field_access = match field_access {
        GetFieldAccess::ListIndex { key } if is_list => {
            GetFieldAccess::ListIndex { key: Box::new(at_least(*key, 1, None)) }
        }
        GetFieldAccess::ListRange { start, stop, stride } if is_list && is_one(&stride) => {
            let (start, stop) = (at_least(*start, 1, Some(1)), at_least(*stop, 0, Some(0)));
            GetFieldAccess::ListRange { start: Box::new(start), stop: Box::new(stop), stride }
        }
        other => other,
    };
    RawFieldAccessExpr { expr, field_access }
}

fn is_one(stride: &Expr) -> bool {
    matches!(stride, Expr::Literal(value, _) if integer_of(value) == Some(1))
}

/// Returns a number, or `otherwise` where it is less than `least`.
fn at_least(number: Expr, least: i64, otherwise: Option<i64>) -> Expr {
    let other = ScalarValue::Int64(otherwise);
    match &number {
        Expr::Literal(value, _) => match integer_of(value) {
            Some(given) if given < i128::from(least) => Expr::Literal(other, None),
            _ => number,
        },
        Expr::Negative(inner) if matches!(inner.as_ref(), Expr::Literal(..)) => {
            Expr::Literal(other, None)
        }
        _ => {
            let is_less = Expr::BinaryExpr(BinaryExpr::new(
                Box::new(number.clone()),
                Operator::Lt,
                Box::new(lit(least)),
            ));
            let when = vec![(Box::new(is_less), Box::new(Expr::Literal(other, None)))];
            Expr::Case(Case::new(None, when, Some(Box::new(number))))
        }
    }
}
