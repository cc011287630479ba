//! Plan templates: physical plans that are made of an earlier one, where planning would have the
//! same result.
//!
//! - A template consists only of operators that do not depend on the contents of the tables, and
//!   that keep no state of a run: then only the scans differ from one statement to the next.
//! - If planning has answered from statistics, a scan is missing, and there is no template.
//! - A template refers to no rows, as all that is cached.
//! - A template for any values of parameters has them in the filters of its one scan and nowhere
//!   else (`parameters`).

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;

use super::parameters::{ParameterPredicate, Slots};
use super::{TablesNow, without_rows};
use crate::cancel::CancelState;
use crate::plan::parameters::Parameter;
use crate::scan::ScanSource;
use crate::timeseries::fits_template;

/// A plan template.
#[derive(Debug)]
pub(crate) struct PlanTemplate {
    /// The plan, with scans of tables without rows.
    plan: Arc<dyn ExecutionPlan>,
    /// The schema of the answer.
    pub(super) schema: SchemaRef,
    /// The places of the values of parameters, and the filters that contain them.
    slots: Option<(Slots, Arc<[Expr]>)>,
}

impl PlanTemplate {
    /// Returns the template of a plan with so many scans and this schema of its answer; `None` if
    /// it has none.
    pub(super) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        schema: &SchemaRef,
        scans: usize,
    ) -> Result<Option<PlanTemplate>> {
        let (mut found, mut is_one) = (0, true);
        plan.apply(|node| {
            match scan(node) {
                Some(scan) => {
                    found += 1;
                    is_one &= scan.is_lasting();
                }
                None => is_one &= is_plain(node.as_ref()),
            }
            Ok(if is_one { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
        if !is_one || found != scans {
            return Ok(None);
        }
        let empty = |scan: &ScanSource| {
            let empty = Arc::new(without_rows(scan.snapshot()));
            scan.again(&empty, scan.filters(), None)
        };
        let plan = with_scans(Arc::clone(plan), &empty)?;
        Ok(Some(PlanTemplate { plan, schema: Arc::clone(schema), slots: None }))
    }

    /// Makes it a template for any values of parameters, whose predicates have these values in it;
    /// returns false if it stays one for these values only.
    pub(super) fn open(
        &mut self,
        predicates: &[ParameterPredicate],
        parameters: &[Parameter],
    ) -> Result<bool> {
        let mut filters = None;
        self.plan.apply(|node| {
            filters = scan(node).map(|scan| Arc::clone(scan.filters())).or(filters.take());
            Ok(TreeNodeRecursion::Continue)
        })?;
        let Some(filters) = filters else { return Ok(false) };
        let Some(slots) = Slots::find(predicates, &filters, parameters) else { return Ok(false) };
        let values = slots.values(&filters);
        let mut is_elsewhere = false;
        self.plan.apply(|node| {
            node.apply_expressions(&mut |expr| {
                expr.apply(|part| {
                    let literal = part.downcast_ref::<Literal>();
                    is_elsewhere |= literal.is_some_and(|it| values.contains(&it.value()));
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        if !is_elsewhere {
            self.slots = Some((slots, filters));
        }
        Ok(!is_elsewhere)
    }

    /// Returns the filters of its scan with these values of parameters. `None` if it has no
    /// parameters, or is not for these.
    pub(super) fn filters_with(&self, parameters: &[Parameter]) -> Option<Arc<[Expr]>> {
        let (slots, filters) = self.slots.as_ref()?;
        slots.with_values(filters, parameters)
    }

    /// Returns the plan of a statement over the tables as they are now; with other filters of its
    /// one scan, if there are some.
    pub(super) fn over(
        &self,
        tables: &TablesNow,
        filters: Option<&Arc<[Expr]>>,
        stop: &Arc<CancelState>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let now = |scan: &ScanSource| {
            let now = tables.get(&scan.snapshot().table).expect("plan_cache-1");
            scan.again(now, filters.unwrap_or(scan.filters()), Some(stop))
        };
        with_scans(Arc::clone(&self.plan), &now)
    }
}

fn scan(node: &Arc<dyn ExecutionPlan>) -> Option<&ScanSource> {
    node.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<ScanSource>()
}

/// Returns true for an operator that a template may have. Operators with state of their own are
/// made anew with their inputs.
fn is_plain(node: &dyn ExecutionPlan) -> bool {
    node.is::<ProjectionExec>()
        || node.is::<FilterExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<UnionExec>()
        || node.is::<CooperativeExec>()
        || node.is::<PlaceholderRowExec>()
        || fits_template(node)
}

/// Returns the same plan with other scans.
fn with_scans(
    plan: Arc<dyn ExecutionPlan>,
    other: &dyn Fn(&ScanSource) -> Result<ScanSource>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| match scan(&node) {
        Some(scan) => Ok(Transformed::yes(DataSourceExec::from_data_source(other(scan)?) as _)),
        None => Ok(Transformed::no(node)),
    })?;
    Ok(plan.data)
}
