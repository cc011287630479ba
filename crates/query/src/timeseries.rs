//! Time-series operators: SAMPLE BY, LATEST ON, ASOF and LT JOIN, TIMESTAMP(column), and limits:
//! those counted from the end, and FETCH .. WITH TIES.
//!
//! - A clause that sqlparser does not know is taken out of the tokens (`sql::clauses`) and comes
//!   back as a derived table whose alias no query can write (`sql::select_rewrite`), so that code
//!   that walks the tree sees all of it.
//! - Such a derived table is planned by `relations`, once, after everything inside of it.
//! - Our operators hold no more than their docs say, count it against the memory of queries, and do
//!   at most one batch of work between two points where they can be dropped; but a fill copies its
//!   rows, which are those of an aggregate, into one batch.
//!
//! Not here: the order of scans (`plan::order`), and functions that need no clause
//! (`functions`).

mod designated;
mod relations;
mod limit_from_end;
mod ties;
mod fill;
mod keys;
pub(crate) mod latest_clause;
mod latest;
pub(crate) mod asof_clause;
mod asof;

use std::cmp::Ordering;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use crate::operators::unary::UnaryExec;
pub(crate) use designated::designated;
pub(crate) use relations::ClauseRelations;

use asof::AsofJoin;
use designated::Designated;
use fill::{FillGaps, FillWork};
use latest::{LatestOn, LatestWork};
use limit_from_end::{LimitFromEnd, LimitFromEndWork};

/// DataFusion asks for an order of nodes: equal ones are equal, and others have none. An order of
/// their inputs would be compiled for all kinds of expressions.
macro_rules! without_order {
    ($($node:ty),*) => {
        $(impl PartialOrd for $node {
            fn partial_cmp(&self, other: &$node) -> Option<Ordering> {
                (self == other).then_some(Ordering::Equal)
            }
        })*
    };
}

without_order!(AsofJoin, Designated, FillGaps, LatestOn, LimitFromEnd);

pub(crate) fn extension(node: impl UserDefinedLogicalNodeCore) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(node) })
}

/// Returns true for a logical node whose rows are some of its input's, in the same order.
pub(crate) fn keeps_order(node: &dyn UserDefinedLogicalNode) -> bool {
    node.as_any().is::<Designated>() || node.as_any().is::<LimitFromEnd>()
}

/// Returns true for an operator that plan templates may have: it depends only on its input, and
/// keeps no state of a run.
pub(crate) fn fits_template(node: &dyn ExecutionPlan) -> bool {
    node.is::<UnaryExec<LatestWork>>()
        || node.is::<UnaryExec<LimitFromEndWork>>()
        || node.is::<UnaryExec<FillWork>>()
}

/// The planner of operators for our logical nodes.
#[derive(Debug)]
pub(crate) struct TimeSeriesPlanner;

#[async_trait]
impl ExtensionPlanner for TimeSeriesPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let node = node.as_any();
        let [input, ..] = inputs else { return Ok(None) };
        if let Some(limit) = node.downcast_ref::<LimitFromEnd>() {
            return limit.exec(Arc::clone(input)).map(Some);
        }
        if let Some(fill) = node.downcast_ref::<FillGaps>() {
            return Ok(Some(fill.exec(Arc::clone(input))));
        }
        if let Some(latest) = node.downcast_ref::<LatestOn>() {
            return latest.exec(Arc::clone(input)).map(Some);
        }
        if let (Some(join), [left, right]) = (node.downcast_ref::<AsofJoin>(), inputs) {
            return join.exec(Arc::clone(left), Arc::clone(right)).map(Some);
        }
        if node.is::<Designated>() {
            return Ok(Some(Arc::clone(input)));
        }
        Ok(None)
    }
}
