//! The plans that are kept, in two generations: when the younger one is full it becomes the older
//! one, which is dropped. So a plan that is used stays, however many others are used once.
//!
//! - generations-1. Both generations together have at most `PLANS_MAX` plans, and about as many
//!   bytes as the cache may have. A plan of a quarter of these is not kept.
//!
//! The bytes are estimates: a plan shares parts of it with others and with its tables.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::CachedPlan;

/// A dashboard has some dozens of statements.
const PLANS_MAX: usize = 512;
/// The bytes of a column or an expression of a plan. Measured: 1.7 MB for 300 aggregates over a
/// table of 1,500 columns, which have about 3,600.
const PART_BYTES: usize = 512;
/// The copies of a literal and of a name: one in the logical plan, and three in the template, in an
/// expression, its constants and its name.
const COPIES: usize = 4;

#[derive(Debug)]
pub(super) struct Generations {
    younger: HashMap<String, Arc<CachedPlan>>,
    younger_bytes: usize,
    older: HashMap<String, Arc<CachedPlan>>,
    bytes_max: usize,
}

impl Generations {
    pub(super) fn new(bytes_max: usize) -> Generations {
        let (younger, older) = (HashMap::new(), HashMap::new());
        Generations { younger, younger_bytes: 0, older, bytes_max }
    }

    pub(super) fn get(&mut self, key: &str) -> Option<Arc<CachedPlan>> {
        if let Some(plan) = self.younger.get(key) {
            return Some(Arc::clone(plan));
        }
        let (key, plan) = self.older.remove_entry(key)?;
        self.insert(key, Arc::clone(&plan));
        Some(plan)
    }

    /// Keeps a plan, unless it is too large (generations-1).
    pub(super) fn insert(&mut self, key: String, plan: Arc<CachedPlan>) {
        if self.bytes_max / 4 < plan.bytes {
            return;
        }
        let is_full = PLANS_MAX / 2 <= self.younger.len()
            || self.bytes_max / 2 < self.younger_bytes + plan.bytes;
        if is_full {
            self.older = std::mem::take(&mut self.younger);
            self.younger_bytes = 0;
        }
        self.younger_bytes += plan.bytes;
        if let Some(replaced) = self.younger.insert(key, plan) {
            self.younger_bytes -= replaced.bytes;
        }
        let bytes = |plans: &HashMap<String, Arc<CachedPlan>>| {
            plans.values().map(|plan| plan.bytes).sum::<usize>()
        };
        debug_assert!(bytes(&self.younger) + bytes(&self.older) <= self.bytes_max, "generations-1");
    }
}

/// Returns about the bytes of a plan.
pub(super) fn plan_bytes(plan: &LogicalPlan) -> Result<usize> {
    let (mut parts, mut values) = (0, 0);
    plan.apply_with_subqueries(|node| {
        parts += 1 + node.schema().fields().len();
        values += node.schema().fields().iter().map(|field| field.name().len()).sum::<usize>();
        if let LogicalPlan::TableScan(scan) = node {
            parts += scan.source.schema().fields().len();
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                parts += 1;
                if let Expr::Literal(value, _) = part {
                    values += value.size();
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(parts * PART_BYTES + values * COPIES)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{EmptyRelation, LogicalPlanBuilder, lit};

    use super::*;

    fn plan(bytes: usize) -> Arc<CachedPlan> {
        let empty = EmptyRelation { produce_one_row: true, schema: Arc::new(DFSchema::empty()) };
        Arc::new(CachedPlan {
            plan: LogicalPlan::EmptyRelation(empty),
            names: Vec::new(),
            notices: Vec::new(),
            designated: None,
            tables: Vec::new(),
            template: None,
            is_steady: true,
            is_quick: AtomicBool::new(false),
            bytes,
        })
    }

    // A constant of 65 KB, folded from a call of forty bytes, counted as 512 bytes: the cache kept
    // hundreds of megabytes.
    #[test]
    fn plans_have_the_bytes_of_their_literals() {
        let bytes = |value: &str| {
            let plan = LogicalPlanBuilder::empty(true).project([lit(value).alias("c")]).unwrap();
            plan_bytes(&plan.build().unwrap()).unwrap()
        };
        let more = bytes(&"x".repeat(65_000)) - bytes("");
        assert!((COPIES * 65_000..COPIES * 66_000).contains(&more), "generations-1: {more}");
    }

    // Only the number of plans was bounded: short statements about a wide table held hundreds of
    // megabytes for ever.
    #[test]
    fn plans_that_are_used_stay_and_all_of_them_fit_the_bytes() {
        let mut plans = Generations::new(1_000);
        plans.insert("large".to_owned(), plan(251));
        assert!(plans.get("large").is_none(), "generations-1");
        plans.insert("used".to_owned(), plan(100));
        for number in 0..100 {
            plans.insert(number.to_string(), plan(90));
            assert!(plans.get("used").is_some(), "{number}");
            let bytes = |plans: &HashMap<String, Arc<CachedPlan>>| {
                plans.values().map(|plan| plan.bytes).sum::<usize>()
            };
            assert!(bytes(&plans.younger) + bytes(&plans.older) <= 1_000, "generations-1");
        }
        assert!(plans.get("50").is_none() && plans.get("99").is_some());
        for number in 0..2_000 {
            plans.insert(number.to_string(), plan(0));
        }
        assert!(plans.younger.len() + plans.older.len() <= PLANS_MAX, "generations-1");
    }
}
