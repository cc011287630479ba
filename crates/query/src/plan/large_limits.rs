//! Large limits: a sort that keeps more rows than a TopK should hold in memory.
//!
//! A TopK holds all rows of its limit, those that OFFSET skips included, and cannot spill them. A
//! sort spills, so that a large limit is put above one.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;

use super::own_rules::PhysicalRule;

/// The name of DataFusion's rule that this one stands before: it pushes down what is sorted.
pub(super) const PUSHDOWN_SORT: &str = "PushdownSort";

/// The maximal rows of a TopK: 100 MB of rows of 1 KB.
const TOP_ROWS_MAX: usize = 100_000;

/// The rule that puts large limits above sorts.
pub(super) const LARGE_LIMITS: PhysicalRule = PhysicalRule { name: "LargeLimits", rewrite };

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let sort = plan.downcast_ref::<SortExec>();
        let large = sort.and_then(|sort| Some((sort, sort.fetch()?)));
        let Some((sort, fetch)) = large.filter(|(_, fetch)| TOP_ROWS_MAX < *fetch) else {
            return Ok(Transformed::no(plan));
        };
        let is_each = sort.preserve_partitioning();
        let sorted = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()));
        let sorted = Arc::new(sorted.with_preserve_partitioning(is_each));
        Ok(Transformed::yes(if is_each {
            Arc::new(LocalLimitExec::new(sorted, fetch))
        } else {
            Arc::new(GlobalLimitExec::new(sorted, 0, Some(fetch)))
        }))
    })
    .data()
}
