//! DataFusion's form of an aggregate, for groups that have no memory in the pushed one: it spills.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::control::with_cancel_checks;
use crate::scan::ScanSource;
use crate::slices::{few_rows, few_rows_of};

/// An aggregate in two steps over projections of a scan, without the scan.
#[derive(Debug)]
pub(super) struct PlainAggregate {
    /// From the scan up.
    projections: Vec<ProjectionExprs>,
    partial: Step,
    last: Step,
}

/// A step of an aggregate.
#[derive(Debug)]
pub(super) struct Step {
    group_by: PhysicalGroupBy,
    functions: Vec<Arc<AggregateFunctionExpr>>,
    /// A FILTER for each of them.
    filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
}

impl Step {
    pub(super) fn of(plan: &AggregateExec) -> Step {
        let (group_by, functions) = (plan.group_expr().clone(), plan.aggr_expr().to_vec());
        Step { group_by, functions, filters: plan.filter_expr().to_vec() }
    }

    /// Returns its plan; the first step reads `input_of_all`.
    pub(super) fn plan(
        &self,
        mode: AggregateMode,
        input: Arc<dyn ExecutionPlan>,
        input_of_all: &Arc<dyn ExecutionPlan>,
    ) -> Result<AggregateExec> {
        let (group_by, functions) = (self.group_by.clone(), self.functions.clone());
        let filters = self.filters.clone();
        let schema = input_of_all.schema();
        AggregateExec::try_new(mode, group_by, functions, filters, input, schema)
    }
}

impl PlainAggregate {
    /// Returns the form of an aggregate; `projections` are those below it, from the
    /// aggregate down.
    pub(super) fn of(
        last: &AggregateExec,
        partial: &AggregateExec,
        projections: &[&ProjectionExprs],
    ) -> PlainAggregate {
        let projections = projections.iter().rev().map(|&it| it.clone()).collect();
        PlainAggregate { projections, partial: Step::of(partial), last: Step::of(last) }
    }

    /// Returns its plan over a scan, with one partition and at most `fetch` rows.
    pub(super) fn over(
        &self,
        source: &ScanSource,
        fetch: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut input: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(source.clone());
        for projection in &self.projections {
            input = Arc::new(ProjectionExec::try_new(projection.iter().cloned(), input)?);
        }
        // Groups leave, and are spilled, as many at a time as a batch has.
        let few = few_rows_of(source.text_bytes_of_row());
        let narrow = |step: AggregateExec| -> Result<Arc<dyn ExecutionPlan>> {
            match few {
                Some(rows) => few_rows(Arc::new(step), rows),
                None => Ok(Arc::new(step)),
            }
        };
        let partial = self.partial.plan(AggregateMode::Partial, Arc::clone(&input), &input)?;
        let keys = partial.output_group_expr();
        let by_key = Partitioning::Hash(keys, source.bounds.threads.max(1));
        let partitioned = Arc::new(RepartitionExec::try_new(narrow(partial)?, by_key)?);
        let last = self.last.plan(AggregateMode::FinalPartitioned, partitioned, &input)?;
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(narrow(last)?));
        if fetch.is_some() {
            plan = Arc::new(GlobalLimitExec::new(plan, 0, fetch));
        }
        match &source.read.stop {
            Some(stop) => with_cancel_checks(plan, stop),
            None => Ok(plan),
        }
    }
}
