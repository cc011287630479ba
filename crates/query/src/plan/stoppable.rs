//! Cancellation of planning: rules that check whether their statement has ended.
//!
//! - stoppable-1. Before each rule, and before each node of a plan that a rule visits, planning
//!   ends if the statement has: by timeout, cancellation, or loss of its client. The work of one
//!   rule on one node is bounded by the maximal size of a query (`query_text::size`).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::OptimizerConfig;
use datafusion::optimizer::analyzer::{Analyzer, AnalyzerRule};
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;

use super::barriers::with_barriers;
use super::distinct_counts::{AGGREGATE_STATISTICS, DistinctCounts};
use super::empty_unions::{PROPAGATE_EMPTY, keep_union_names};
use super::expansion::{ELIMINATE_OUTER_JOIN, keep_near_outer_joins};
use super::final_forms::FINAL_FORMS;
use super::float_joins::FLOAT_JOIN_KEYS;
use super::large_limits::{LARGE_LIMITS, PUSHDOWN_SORT};
use super::masked_keys::MASKED_KEYS;
use super::null_keys::{ELIMINATE_CROSS_JOIN, EXTRACT_EQUIJOIN, keep_null_keys};
use super::order::ORDERED_SCANS;
use super::own_rules::{LogicalRule, Rewrite};
use super::safe_filter_pushdown::{PUSH_DOWN_FILTER, push_down_safely};
use super::safe_simplification::{SIMPLIFY, simplify_safely};
use super::time_texts::TIME_TEXTS;
use super::wrapped_rule::{Around, WrappedRule};
use crate::account::check_canceled;
use crate::functions::{Stage, bound_functions_of};
use crate::scan::AggregatePushdown;

/// The name of the rule that wraps operators, and the functions of calls that rules have made
/// (bounded-3).
const BOUND: &str = "bound_functions";

/// Returns the rules of an analyzer, which end with the statement.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let rules = Analyzer::new().rules.into_iter();
    rules.map(|inner| Arc::new(Stoppable { inner }) as _).collect()
}

/// Returns the rules of an optimizer, which end with the statement, and before and behind them
/// the rule that wraps functions (bounded-3). Casts of texts to times come first: other rules
/// evaluate them.
pub(crate) fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let replaced = |inner: Arc<dyn OptimizerRule + Send + Sync>| {
        let around: Around = match inner.name() {
            PUSH_DOWN_FILTER => push_down_safely,
            ELIMINATE_OUTER_JOIN => keep_near_outer_joins,
            EXTRACT_EQUIJOIN | ELIMINATE_CROSS_JOIN => keep_null_keys,
            PROPAGATE_EMPTY => keep_union_names,
            SIMPLIFY => simplify_safely,
            _ => return inner,
        };
        Arc::new(WrappedRule { inner, around }) as Arc<dyn OptimizerRule + Send + Sync>
    };
    let rules = Optimizer::new().rules.into_iter().map(replaced);
    let bound = |rewrite: Rewrite| LogicalRule { name: BOUND, order: ApplyOrder::TopDown, rewrite };
    let first = [TIME_TEXTS, bound(|plan| bound_functions_of(plan, Stage::Rewritten))];
    let last = [FINAL_FORMS, FLOAT_JOIN_KEYS, bound(|plan| bound_functions_of(plan, Stage::Final))];
    let ours = |rule: LogicalRule| Arc::new(rule) as Arc<dyn OptimizerRule + Send + Sync>;
    let rules = first.map(ours).into_iter().chain(rules).chain(last.map(ours));
    rules.map(|inner| Arc::new(Stoppable { inner }) as _).collect()
}

/// Returns the rules for physical plans, ours among them, which end with the statement.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.insert(0, Arc::new(ORDERED_SCANS));
    rules.insert(0, Arc::new(MASKED_KEYS));
    // Behind the rule that answers from statistics alone, before aggregates are partitioned.
    let counted = rules.iter().position(|rule| rule.name() == AGGREGATE_STATISTICS);
    if let Some(at) = counted {
        rules[at] = Arc::new(DistinctCounts { inner: Arc::clone(&rules[at]) });
    }
    rules.insert(counted.map_or(1, |at| at + 1), Arc::new(AggregatePushdown));
    let sorted = rules.iter().position(|rule| rule.name() == PUSHDOWN_SORT);
    rules.insert(sorted.unwrap_or(rules.len()), Arc::new(LARGE_LIMITS));
    rules.into_iter().map(with_barriers).map(|inner| Arc::new(Stoppable { inner }) as _).collect()
}

/// A wrapper of a rule that checks for cancellation (stoppable-1).
#[derive(Debug)]
struct Stoppable<T: ?Sized> {
    inner: Arc<T>,
}

impl AnalyzerRule for Stoppable<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        check_canceled()?;
        self.inner.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }
}

impl OptimizerRule for Stoppable<dyn OptimizerRule + Send + Sync> {
    delegate! { inner:
        fn name(&self) -> &str;
        fn apply_order(&self) -> Option<ApplyOrder>;
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        check_canceled()?;
        self.inner.rewrite(plan, config)
    }
}

impl PhysicalOptimizerRule for Stoppable<dyn PhysicalOptimizerRule + Send + Sync> {
    delegate! { inner:
        fn name(&self) -> &str;
        fn schema_check(&self) -> bool;
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_canceled()?;
        self.inner.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_canceled()?;
        self.inner.optimize_with_context(plan, context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::execution::{SessionState, SessionStateBuilder};
    use futures::executor::block_on;

    use super::*;
    use crate::account::Account;
    use crate::cancel::{CancelState, Timeout};

    fn state(rule: Option<Arc<dyn OptimizerRule + Send + Sync>>) -> SessionState {
        let mut rules = optimizer_rules();
        rules.extend(rule.map(|inner| Arc::new(Stoppable { inner }) as _));
        SessionStateBuilder::new()
            .with_default_features()
            .with_analyzer_rules(analyzer_rules())
            .with_optimizer_rules(rules)
            .with_physical_optimizer_rules(physical_rules())
            .build()
    }

    /// A rule that cancels the statement at its second call.
    #[derive(Debug)]
    struct Canceling {
        stop: Arc<CancelState>,
        asked: AtomicUsize,
    }

    impl OptimizerRule for Canceling {
        fn name(&self) -> &'static str {
            "canceling"
        }

        fn apply_order(&self) -> Option<ApplyOrder> {
            Some(ApplyOrder::TopDown)
        }

        fn rewrite(
            &self,
            plan: LogicalPlan,
            _: &dyn OptimizerConfig,
        ) -> Result<Transformed<LogicalPlan>> {
            if self.asked.fetch_add(1, Relaxed) == 1 {
                self.stop.cancel();
            }
            Ok(Transformed::no(plan))
        }
    }

    const SQL: &str = "SELECT column1 + 1 FROM (VALUES (1), (2)) AS t WHERE column1 > 1 LIMIT 3";

    #[test]
    fn planning_ends_with_its_statement() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let rule = Arc::new(Canceling { stop: Arc::clone(&stop), asked: AtomicUsize::new(0) });
        let state = state(Some(Arc::clone(&rule) as _));
        let plan = block_on(state.create_logical_plan(SQL)).unwrap();
        let account = Account::new(&stop, &pool);
        let _entered = account.enter_planning();
        let error = state.optimize(&plan).expect_err("stoppable-1").to_string();
        assert!(error.contains("cancelled"), "stoppable-1: {error}");
        assert!(rule.asked.load(Relaxed) <= 3, "stoppable-1: between two nodes");
        // The rules before and behind it do nothing either.
        let error = state.optimize(&plan).expect_err("stoppable-1").to_string();
        assert!(error.contains("cancelled"), "stoppable-1: {error}");
        assert!(block_on(state.create_physical_plan(&plan)).is_err(), "stoppable-1");
    }

    #[test]
    fn rules_are_those_that_were() {
        let names = |rules: &[Arc<dyn OptimizerRule + Send + Sync>]| {
            rules.iter().map(|rule| rule.name().to_owned()).collect::<Vec<_>>()
        };
        let (ours, theirs) = (optimizer_rules(), Optimizer::new().rules);
        // Two of ours are the first, and three are the last.
        assert_eq!(names(&ours)[2..ours.len() - 3], names(&theirs));
        let orders = |rules: &[Arc<dyn OptimizerRule + Send + Sync>]| {
            rules.iter().map(|rule| rule.apply_order()).collect::<Vec<_>>()
        };
        assert_eq!(orders(&ours)[2..ours.len() - 3], orders(&theirs));
        let plan = block_on(state(None).create_logical_plan(SQL)).unwrap();
        assert!(state(None).optimize(&plan).is_ok());
    }
}
