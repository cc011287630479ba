//! The guard between two operators (control-1).
//!
//! - A guard changes nothing in a plan except when it ends: its properties are those of its input,
//!   the same object, so that no operator above computes its own again or loses state that it
//!   shares with another (a dynamic filter, for example).
//! - guard-1. Users do not see guards: they are added after planning, and `EXPLAIN ANALYZE` leaves
//!   them out.
//! - A task that has worked for `TURN` yields to those that wait for its thread, the next time it
//!   reaches a guard (control-4). Operators with their rows in memory would not yield: a cross join
//!   has batches for hours and waits for nothing.

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

use super::join_filter::with_asking_filter;
use super::kept::with_charged_values;
use super::sort_keys::with_asking_keys;
use super::turn::give_way;
use crate::account::Account;
use crate::cancel::CancelState;
use crate::error::Error;
use crate::operators::copied::with_bounded_copies;
use crate::operators::unary::{Unary, unary_with};
use crate::operators::windows::with_charged_windows;
use crate::slices::sliced;

const NAME: &str = "GuardExec";

/// The plan with a guard above each of its operators (control-1).
pub(crate) fn guarded(
    plan: Arc<dyn ExecutionPlan>,
    stop: &Arc<CancelState>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let guard = |input: Arc<dyn ExecutionPlan>| -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let properties = Arc::clone(input.properties());
        let input = with_asking_keys(with_asking_filter(input, stop)?, stop)?;
        let input = sliced(with_bounded_copies(with_charged_values(input))?)?;
        let input = with_charged_windows(input)?;
        Ok(Transformed::yes(unary_with(properties, input, Guard { stop: Arc::clone(stop) })))
    };
    Ok(plan.transform_up(guard)?.data)
}

/// Returns true for a guard, and for other operators that are added to every plan (guard-1).
pub(super) fn is_guard(plan: &dyn ExecutionPlan) -> bool {
    plan.name().starts_with(NAME)
}

/// Passes batches on as long as the statement may continue.
#[derive(Debug)]
struct Guard {
    stop: Arc<CancelState>,
}

impl Unary for Guard {
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
