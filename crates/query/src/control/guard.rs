//! The guard between two operators (K1).
//!
//! - U1. A guard changes nothing in a plan except when it ends: its properties are those of its
//!   input, the same object, so that no operator above computes its own again or loses state that
//!   it shares with another (a dynamic filter, for example).
//! - U2. Users do not see guards: they are added after planning, and `EXPLAIN ANALYZE` leaves them
//!   out.
//! - U3. A task that has worked for `TURN` yields to those that wait for its thread, the next time
//!   it reaches a guard (K4). Operators with their rows in memory would not yield: a cross join has
//!   batches for hours and waits for nothing.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};

use super::join_filter::with_asking_filter;
use super::kept::with_charged_values;
use super::sort_keys::with_asking_keys;
use super::turn::give_way;
use crate::account::Account;
use crate::cancel::CancelState;
use crate::error::Error;
use crate::operators::copied::with_bounded_copies;
use crate::operators::windows::with_charged_windows;
use crate::slices::sliced;

const NAME: &str = "GuardExec";

/// The plan with a guard above each of its operators (K1).
pub(crate) fn guarded(
    plan: Arc<dyn ExecutionPlan>,
    stop: &Arc<CancelState>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let guard = |input: Arc<dyn ExecutionPlan>| -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let properties = Arc::clone(input.properties());
        let input = with_asking_keys(with_asking_filter(input, stop)?, stop)?;
        let input = sliced(with_bounded_copies(with_charged_values(input))?)?;
        let input = with_charged_windows(input)?;
        Ok(Transformed::yes(Arc::new(GuardExec { input, properties, stop: Arc::clone(stop) })))
    };
    Ok(plan.transform_up(guard)?.data)
}

/// The text of a plan without the lines of guards (U2). Each operator has a line of its own,
/// indented by two blanks more than the one above it.
pub(crate) fn without_guards(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    // The indents of the guards above the line.
    let mut guards = Vec::new();
    for line in text.lines() {
        let operator = line.trim_start_matches(' ');
        let indent = line.len() - operator.len();
        while guards.last().is_some_and(|&guard| indent <= guard) {
            guards.pop();
        }
        if operator.starts_with(NAME) {
            guards.push(indent);
        } else {
            kept.push_str(&line[2 * guards.len()..]);
            kept.push('\n');
        }
    }
    kept
}

/// Passes batches on as long as the statement may continue.
#[derive(Debug)]
struct GuardExec {
    input: Arc<dyn ExecutionPlan>,
    /// The properties of the operator as it was planned (U1).
    properties: Arc<PlanProperties>,
    stop: Arc<CancelState>,
}

impl DisplayAs for GuardExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

impl ExecutionPlan for GuardExec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("{NAME} has one input");
        };
        let properties = Arc::clone(input.properties());
        Ok(Arc::new(GuardExec { input, properties, stop: Arc::clone(&self.stop) }))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let account = Account::new(&self.stop, context.memory_pool());
        let input = Some(self.input.execute(partition, context)?);
        let (schema, stop) = (self.schema(), Arc::clone(&self.stop));
        Ok(Box::pin(Guarded { input, schema, stop, account }))
    }
}

/// A stream that ends with the statement.
struct Guarded {
    /// `None` once it has ended, so that its resources are freed at once and not with those above
    /// it.
    input: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    stop: Arc<CancelState>,
    /// The account that its functions charge.
    account: Arc<Account>,
}

impl Stream for Guarded {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        let Guarded { input: place, stop, account, .. } = self.as_mut().get_mut();
        let Some(input) = place else { return Poll::Ready(None) };
        if let Some(reason) = stop.reason() {
            *place = None;
            return Poll::Ready(Some(Err(Error::from(reason).into())));
        }
        ready!(give_way(context));
        let entered = account.enter();
        let polled = input.poll_next_unpin(context);
        drop(entered);
        let batch = ready!(polled);
        if batch.is_none() {
            *place = None;
        }
        Poll::Ready(batch)
    }
}

impl RecordBatchStream for Guarded {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_shown_without_guards() {
        let text = "GuardExec\n  Join: a\n    GuardExec\n      Scan: x\n        GuardExec\n    \
                    GuardExec\n      Sort\n        GuardExec\n          Scan: y\n";
        assert_eq!(without_guards(text), "Join: a\n  Scan: x\n  Sort\n    Scan: y\n", "U2");
        assert_eq!(without_guards("A\n  B\n"), "A\n  B\n");
    }
}
