//! Literals of lists, structs and maps: `[a, b]`, `{'x': a}`, `struct(a, b)`, `MAP {'x': a}`.
//!
//! DataFusion plans them as calls of its own functions. Those are wrapped as soon as they are
//! planned, and not with those of operators, so that the type of each is bounded before the next
//! SELECT around it makes a larger one (type_size-1).

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::functions::core::planner::CoreFunctionPlanner;
use datafusion::functions_nested::planner::NestedFunctionPlanner;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawDictionaryExpr};

use crate::functions::bounded;

/// Plans literals of lists, structs and maps.
#[derive(Debug)]
pub(crate) struct NestedLiteralPlanner;

impl ExprPlanner for NestedLiteralPlanner {
    fn plan_array_literal(
        &self,
        exprs: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        NestedFunctionPlanner.plan_array_literal(exprs, schema).map(wrapped)
    }

    fn plan_dictionary_literal(
        &self,
        expr: RawDictionaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawDictionaryExpr>> {
        CoreFunctionPlanner::default().plan_dictionary_literal(expr, schema).map(wrapped)
    }

    fn plan_struct_literal(
        &self,
        args: Vec<Expr>,
        is_named_struct: bool,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        CoreFunctionPlanner::default().plan_struct_literal(args, is_named_struct).map(wrapped)
    }

    fn plan_make_map(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        NestedFunctionPlanner.plan_make_map(args).map(wrapped)
    }
}

/// Wraps the function of a call. Those of the lists within a map are wrapped later: their types are
/// parts of its type.
fn wrapped<T>(planned: PlannerResult<T>) -> PlannerResult<T> {
    match planned {
        PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args })) => {
            let func = bounded(&func).unwrap_or_else(|| Arc::clone(&func));
            PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        other => other,
    }
}
