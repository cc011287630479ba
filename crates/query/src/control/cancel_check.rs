//! The cancel check between two operators (control-1).
//!
//! - A cancel check changes nothing in a plan except when it ends: its properties are those of its
//!   input, the same object, so that no operator above computes its own again or loses state that
//!   it shares with another (a dynamic filter, for example).
//! - cancel_check-1. Users do not see cancel checks: they are added after planning, and `EXPLAIN
//!   ANALYZE` leaves them out.
//! - A task that has worked for `TURN` yields to those that wait for its thread, the next time it
//!   reaches a cancel check (control-4). Operators with their rows in memory would not yield: a
//!   cross join has batches for hours and waits for nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};

use super::collected_values::with_charged_values;
use super::join_filter::with_checked_filter;
use super::sort_keys::with_checked_keys;
use super::turn::give_way;
use crate::account::Account;
use crate::cancel::CancelState;
use crate::error::Error;
use crate::operators::copied::with_bounded_copies;
use crate::operators::unary::{Unary, unary_with};
use crate::operators::windows::with_charged_windows;
use crate::slices::sliced;

const NAME: &str = "CancelCheckExec";

/// The plan with a cancel check above each of its operators (control-1).
pub(crate) fn with_cancel_checks(
    plan: Arc<dyn ExecutionPlan>,
    stop: &Arc<CancelState>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let checked = |input: Arc<dyn ExecutionPlan>| -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let properties = Arc::clone(input.properties());
        let input = with_checked_keys(with_checked_filter(input, stop)?, stop)?;
        let input = sliced(with_bounded_copies(with_charged_values(input))?)?;
        let input = with_charged_windows(input, stop)?;
        Ok(Transformed::yes(unary_with(properties, input, CancelCheck { stop: Arc::clone(stop) })))
    };
    Ok(plan.transform_up(checked)?.data)
}

/// Returns true for a cancel check, and for other operators that are added to every plan
/// (cancel_check-1).
pub(super) fn is_cancel_check(plan: &dyn ExecutionPlan) -> bool {
    plan.name().starts_with(NAME)
}

/// Passes batches on as long as the statement may continue.
#[derive(Debug)]
struct CancelCheck {
    stop: Arc<CancelState>,
}

impl Unary for CancelCheck {
    const NAME: &'static str = NAME;

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let account = Account::new(&self.stop, context.memory_pool());
        let (schema, stop) = (input.schema(), Arc::clone(&self.stop));
        let input = Some(input.execute(partition, context)?);
        Ok(Box::pin(CancelCheckStream { input, schema, stop, account }))
    }
}

/// A stream that ends with an error when the statement is cancelled.
struct CancelCheckStream {
    /// `None` after its end: its resources are freed at once, and not with those of the operators
    /// above it.
    input: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    stop: Arc<CancelState>,
    /// The account that functions of the input charge.
    account: Arc<Account>,
}

impl Stream for CancelCheckStream {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        let CancelCheckStream { input: place, stop, account, .. } = self.as_mut().get_mut();
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

impl RecordBatchStream for CancelCheckStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
