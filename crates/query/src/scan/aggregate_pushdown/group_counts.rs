//! Counts of groups in place of the groups: `count(DISTINCT x)` is a count of the groups by `x`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;

use super::hash_merge::{Part, Runs};
use super::plain::Step;
use super::plan::PushedAggregate;

/// An aggregate without keys over groups, of counts alone.
#[derive(Debug)]
pub(super) struct GroupCounts {
    pub(super) schema: SchemaRef,
    counted: Vec<Counted>,
    /// Its counts as text, for EXPLAIN.
    pub(super) text: String,
    /// DataFusion's form of it.
    partial: Step,
    last: Step,
}

/// The groups that are counted.
#[derive(Debug, Clone, Copy)]
enum Counted {
    All,
    /// Those that have a value of a key.
    Values(usize),
}

impl GroupCounts {
    /// Returns the counts of an aggregate over groups with so many keys; `None` if it has others
    /// than counts of groups.
    pub(super) fn of(
        last: &AggregateExec,
        partial: &AggregateExec,
        keys: usize,
    ) -> Option<GroupCounts> {
        let is_plain = |it: &AggregateExec| {
            it.group_expr().is_true_no_grouping()
                && it.filter_expr().iter().all(Option::is_none)
                && it.limit_options().is_none()
        };
        if !is_plain(last) || !is_plain(partial) || partial.aggr_expr().is_empty() {
            return None;
        }
        let functions = partial.aggr_expr().iter();
        let counted = functions.map(|it| counted(it, keys)).collect::<Option<_>>()?;
        let names = partial.aggr_expr().iter().map(|function| function.name());
        let text = names.collect::<Vec<_>>().join(", ");
        let (partial, schema) = (Step::of(partial), last.schema());
        Some(GroupCounts { schema, counted, text, partial, last: Step::of(last) })
    }

    /// Returns the counts of a part of the groups.
    pub(super) fn of_part(&self, plan: &PushedAggregate, runs: &Runs, part: &Part) -> Vec<usize> {
        let keys = plan.hash_keys();
        let counts = self.counted.iter().map(|counted| match *counted {
            Counted::All => part.count(),
            Counted::Values(key) => {
                let groups = 0..part.count();
                groups.filter(|&group| keys.has_value(key, &part.word(runs, group))).count()
            }
        });
        counts.collect()
    }

    /// Returns the sums of the counts of all parts.
    pub(super) fn batch(&self, parts: Vec<Vec<usize>>) -> Result<RecordBatch> {
        let counts = (0..self.counted.len()).map(|at| {
            let count = parts.iter().map(|counts| counts[at]).sum::<usize>();
            Arc::new(Int64Array::from_iter_values([count as u64].map(u64::cast_signed))) as ArrayRef
        });
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), counts.collect())?)
    }

    /// Returns the plan of the counts over a plan of the groups.
    pub(super) fn over(&self, groups: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let partial = self.partial.plan(AggregateMode::Partial, Arc::clone(&groups), &groups)?;
        let partial = Arc::new(CoalescePartitionsExec::new(Arc::new(partial)));
        Ok(Arc::new(self.last.plan(AggregateMode::Final, partial, &groups)?))
    }
}

/// Returns the groups that a function counts; `None` if it does something else.
fn counted(function: &AggregateFunctionExpr, keys: usize) -> Option<Counted> {
    let is_count = function.fun().name() == "count"
        && !function.is_distinct()
        && !function.is_reversed()
        && function.order_bys().is_empty()
        && *function.field().data_type() == DataType::Int64;
    let args = function.expressions();
    let [arg] = args.as_slice() else { return None };
    if !is_count {
        return None;
    }
    if let Some(literal) = arg.downcast_ref::<Literal>() {
        return (!literal.value().is_null()).then_some(Counted::All);
    }
    let key = arg.downcast_ref::<Column>()?.index();
    (key < keys).then_some(Counted::Values(key))
}
