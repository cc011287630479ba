//! `first`, `last`, `first_not_null` and `last_not_null`: by designated timestamp.
//!
//! - G1. They stand in a plan only until the table of the timestamp is known; then they are
//!   DataFusion's `first_value` and `last_value` in its order.
//! - G2. Over a plain scan rows come in the order of the table, in one stream, and the first or
//!   last one is taken: among equal timestamps that of the first or last commit.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, plan_err};
use datafusion::functions_aggregate::first_last::{first_value_udaf, last_value_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, LogicalPlan, Signature, SortExpr, Volatility,
};

use crate::error::{ClauseProblem, Error};
use crate::plan::in_table_order;
use crate::scan::ScanOrder;
use crate::timeseries::designated;

const NAMES: [&str; 4] = ["first", "last", "first_not_null", "last_not_null"];

/// Returns the functions.
pub(super) fn first_last_functions() -> Vec<AggregateUDF> {
    let function = |&name: &&'static str| {
        let signature = Signature::any(1, Volatility::Immutable);
        AggregateUDF::new_from_impl(ByTime { name, signature })
    };
    NAMES.iter().map(function).collect()
}

/// A placeholder (G1).
#[derive(Debug, PartialEq, Eq, Hash)]
struct ByTime {
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for ByTime {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(args[0].as_ref().clone().with_name(self.name).with_nullable(true)))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        plan_err!("{} is an aggregate and no window function here", self.name)
    }
}

/// Resolves the placeholders of a whole plan (G1).
pub(crate) fn resolve_first_last(plan: LogicalPlan) -> Result<LogicalPlan> {
    let resolved = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = &node else { return Ok(Transformed::no(node)) };
        if !aggregate.aggr_expr.iter().any(|expr| called(expr).is_some()) {
            return Ok(Transformed::no(node));
        }
        let Some(time) = designated(&aggregate.input) else {
            let clause = aggregate.aggr_expr.iter().find_map(called).unwrap_or("first");
            let what = ClauseProblem::NoDesignated { clause };
            return Err(Error::Clause { position: None, what }.into());
        };
        let names = NamePreserver::new(&node);
        let mut order = vec![SortExpr::new(Expr::Column(time), true, false)];
        let node = node.map_children(|child| {
            let (child, is_plain) = in_table_order(child, ScanOrder::Forward)?;
            if is_plain {
                // G2. With an order, DataFusion would take any of equal times.
                order.clear();
            }
            Ok(Transformed::yes(child))
        })?;
        let node = node.data.recompute_schema()?.map_expressions(|expr| {
            let saved = names.save(&expr);
            let expr = expr.transform_up(|expr| Ok(by_value(expr, &order)))?;
            Ok(if expr.transformed { expr.update_data(|expr| saved.restore(expr)) } else { expr })
        })?;
        let node = node.map_data(LogicalPlan::recompute_schema)?;
        Ok(Transformed::yes(node.data))
    })?;
    Ok(resolved.data)
}

/// Returns the name of the function of ours that an expression calls.
fn called(expr: &Expr) -> Option<&'static str> {
    let mut name = None;
    // The closure never fails.
    let _ = expr.exists(|expr| {
        if let Expr::AggregateFunction(AggregateFunction { func, .. }) = expr {
            name = name.or(NAMES.iter().find(|name| **name == func.name()).copied());
        }
        Ok(name.is_some())
    });
    name
}

fn by_value(expr: Expr, order: &[SortExpr]) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(AggregateFunction { func, mut params })
            if NAMES.contains(&func.name()) =>
        {
            let is_first = func.name().starts_with("first");
            if func.name().ends_with("not_null") {
                params.null_treatment = Some(NullTreatment::IgnoreNulls);
            }
            params.order_by = order.to_vec();
            let func = if is_first { first_value_udaf() } else { last_value_udaf() };
            Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        expr => Transformed::no(expr),
    }
}
