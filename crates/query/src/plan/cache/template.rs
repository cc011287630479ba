//! Plan templates: physical plans that are made of an earlier one, where planning would have the
//! same result.
//!
//! - A template consists only of operators that do not depend on the contents of the tables, and
//!   whose state is made anew: then only the scans differ from one statement to the next, and
//!   aggregates that are pushed into them.
//! - It is for tables of whose rows planning would make the same plan. If there is more to read, a
//!   plan may need more partitions, or an aggregate may have too many groups to be pushed down:
//!   then the statement is planned, and has another template.
//! - If planning has answered from statistics, a scan is missing, and there is no template.
//! - A template refers to no rows, as all that is cached.
//! - A template for any values of parameters has them in the filters of its one scan and nowhere
//!   else (`parameters`).

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use super::parameters::{ParameterPredicate, Slots};
use super::{TablesNow, without_rows};
use crate::cancel::CancelState;
use crate::plan::parameters::Parameter;
use crate::scan::{ScanSource, is_dynamic, scan_of, with_empty_scan, with_scan};
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
            match scan_of(node.as_ref()) {
                Some(scan) => {
                    found += 1;
                    is_one &= scan.is_lasting();
                }
                None => is_one &= is_plain(node.as_ref())?,
            }
            Ok(if is_one { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
        if !is_one || found != scans {
            return Ok(None);
        }
        let plan = with_scans(plan, &|node, scan| {
            let empty = Arc::new(without_rows(scan.snapshot()));
            let scan = scan.again(&empty, scan.filters(), None)?;
            Ok(scan.map(|scan| with_empty_scan(node, scan)))
        })?;
        let schema = Arc::clone(schema);
        Ok(plan.map(|plan| PlanTemplate { plan, schema, slots: None }))
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
            let scan = scan_of(node.as_ref());
            filters = scan.map(|scan| Arc::clone(scan.filters())).or(filters.take());
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
                    is_elsewhere |= literal.is_some_and(|it| values.contains(it.value()));
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
    /// one scan, if there are some. `None` if planning might make another one.
    pub(super) fn over(
        &self,
        tables: &TablesNow,
        filters: Option<&Arc<[Expr]>>,
        stop: &Arc<CancelState>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        with_scans(&self.plan, &|node, scan| {
            let now = tables.get(&scan.snapshot().table).expect("plan_cache-1");
            match scan.again(now, filters.unwrap_or(scan.filters()), Some(stop))? {
                Some(scan) => with_scan(node, scan),
                None => Ok(None),
            }
        })
    }
}

/// Returns true for an operator that a template may have: it keeps no state of a run, or has none
/// when it is made anew with its inputs (`with_scans`).
fn is_plain(node: &dyn ExecutionPlan) -> Result<bool> {
    let is_known = node.is::<ProjectionExec>()
        || node.is::<FilterExec>()
        || node.is::<AggregateExec>()
        || node.is::<SortExec>()
        || node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<UnionExec>()
        || node.is::<CooperativeExec>()
        || node.is::<PlaceholderRowExec>()
        || fits_template(node);
    let mut is_lasting = is_known;
    // A TopK has a filter of its own, which is made anew.
    if is_known && !node.is::<SortExec>() {
        node.apply_expressions(&mut |expr| {
            is_lasting &= !is_dynamic(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(is_lasting)
}

/// Returns an operator with another scan; `None` if there is none.
type Rescan<'a> =
    dyn Fn(&dyn ExecutionPlan, &ScanSource) -> Result<Option<Arc<dyn ExecutionPlan>>> + 'a;

/// Returns the same plan with other scans, whose properties are those of its own.
fn with_scans(
    plan: &Arc<dyn ExecutionPlan>,
    other: &Rescan<'_>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = scan_of(plan.as_ref()) {
        return other(plan.as_ref(), scan);
    }
    let mut children = Vec::new();
    for child in plan.children() {
        match with_scans(child, other)? {
            Some(child) => children.push(child),
            None => return Ok(None),
        }
    }
    if children.is_empty() {
        return Ok(Some(Arc::clone(plan)));
    }
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    let plan = Arc::clone(plan).replace_children(children, same)?;
    // The bound that a TopK has found is one of its rows.
    if plan.is::<SortExec>() { plan.reset_state().map(Some) } else { Ok(Some(plan)) }
}
