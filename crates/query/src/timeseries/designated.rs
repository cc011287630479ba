//! The designated timestamp of a plan.
//!
//! - The column ascends in the plan's rows if those come in the order of the plan's result;
//!   operators that rely on it require that order nevertheless.

use std::collections::HashSet;
use std::fmt;

use datafusion::common::{Column, DFSchemaRef, Result, internal_err};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, UserDefinedLogicalNodeCore,
};

use super::asof::AsofJoin;
use super::latest::LatestOn;
use super::limit_from_end::LimitFromEnd;
use crate::scan::ScanTable;
use crate::timeseries::extension;

/// Returns the designated timestamp of a plan, if it has one.
pub(crate) fn designated(plan: &LogicalPlan) -> Option<Column> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let name = provider.downcast_ref::<ScanTable>()?.designated_name()?;
            let field = scan.projected_schema.qualified_field_with_unqualified_name(&name).ok()?;
            Some(Column::from(field))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = designated(&alias.input)?;
            let at = alias.input.schema().maybe_index_of_column(&inner)?;
            Some(Column::from(plan.schema().qualified_field(at)))
        }
        LogicalPlan::Filter(filter) => designated(&filter.input),
        LogicalPlan::Limit(limit) => designated(&limit.input),
        LogicalPlan::Window(window) => designated(&window.input),
        LogicalPlan::Sort(sort) => {
            let inner = designated(&sort.input)?;
            let first = sort.expr.first()?;
            (first.asc && first.expr == Expr::Column(inner.clone())).then_some(inner)
        }
        LogicalPlan::Projection(projection) => {
            let inner = Expr::Column(designated(&projection.input)?);
            let is_it = |expr: &Expr| expr.clone().unalias() == inner;
            let at = projection.expr.iter().position(is_it)?;
            Some(Column::from(plan.schema().qualified_field(at)))
        }
        LogicalPlan::Extension(extension) => {
            let node = extension.node.as_any();
            if let Some(named) = node.downcast_ref::<Designated>() {
                return Some(named.column.clone());
            }
            if let Some(latest) = node.downcast_ref::<LatestOn>() {
                return Some(latest.time().clone());
            }
            if let Some(join) = node.downcast_ref::<AsofJoin>() {
                return Some(join.time().clone());
            }
            node.downcast_ref::<LimitFromEnd>().and_then(|limit| designated(limit.input()))
        }
        _ => None,
    }
}

/// A plan that is ordered by this column, its designated timestamp. It has no operator of its own.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Designated {
    pub(super) input: LogicalPlan,
    pub(super) column: Column,
}

impl UserDefinedLogicalNodeCore for Designated {
    fn name(&self) -> &'static str {
        "Designated"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Designated: {}", self.column)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(input) = inputs.pop().filter(|_| inputs.is_empty()) else {
            return internal_err!("Designated has one input");
        };
        Ok(Designated { input, column: self.column.clone() })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}

/// Orders the rows of a plan by a column, which becomes their designated timestamp.
pub(crate) fn in_order_of(plan: LogicalPlan, column: Column) -> Result<LogicalPlan> {
    let by_time = SortExpr::new(Expr::Column(column.clone()), true, false);
    let input = LogicalPlanBuilder::from(plan).sort([by_time])?.build()?;
    Ok(extension(Designated { input, column }))
}
