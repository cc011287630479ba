//! The slot of a statement: its admission permit, and the threads on which it runs.
//!
//! - execution_slot-1. A statement that waits for its client releases its permit, and keeps its
//!   threads.
//! - A client waits at most `GRACE` for the threads of a query that was cancelled.
//! - execution_slot-2. A statement that cannot begin, because other statements of its user are at
//!   work on its threads, ends at its time limit and at a cancel, by a timer of its connection.
//! - execution_slot-3. Threads are taken after the permit, so that statements that wait for one
//!   have none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_query::{CancelHandle, CancelReason, Timeout};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::admission::{AdmissionControl, AdmissionTimeout, Claimant};
use crate::lanes::{Lane, NoLane};
use crate::server_state::Services;

/// The time after the engine's cancel at which a connection stops waiting for the query's threads.
pub(crate) const GRACE: Duration = Duration::from_millis(50);

/// The permit and the threads of a statement.
#[derive(Debug)]
pub(crate) struct ExecutionSlot {
    claim: Box<Claim>,
    lane: Lane,
}

/// The data to take the permit again, after it was released.
#[derive(Debug)]
struct Claim {
    admission: Arc<AdmissionControl>,
    claimant: Claimant,
}

/// The reason why a statement cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotError {
    Admission(AdmissionTimeout),
    Lane(NoLane),
}

impl SlotError {
    /// Returns the SQLSTATE.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            SlotError::Admission(_) => "53400",
            SlotError::Lane(no_lane) => no_lane.code(),
        }
    }
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotError::Admission(timed_out) => timed_out.fmt(f),
            SlotError::Lane(no_lane) => no_lane.fmt(f),
        }
    }
}

impl ExecutionSlot {
    /// Returns a slot, if one is free now.
    pub(crate) fn try_new(services: &Services, claimant: &Claimant) -> Option<ExecutionSlot> {
        let permit = services.admission.try_begin(claimant)?;
        let mut lane = services.lanes.try_take(claimant)?;
        lane.admit(permit);
        Some(ExecutionSlot::on(lane, services, claimant))
    }

    /// Waits for a slot, at most `query.queue_timeout` for the permit.
    pub(crate) async fn new(
        services: &Services,
        claimant: &Claimant,
    ) -> Result<ExecutionSlot, SlotError> {
        let permit = services.admission.begin(claimant).await.map_err(SlotError::Admission)?;
        let mut lane = services.lanes.take(claimant).await.map_err(SlotError::Lane)?;
        lane.admit(permit);
        Ok(ExecutionSlot::on(lane, services, claimant))
    }

    fn on(lane: Lane, services: &Services, claimant: &Claimant) -> ExecutionSlot {
        let (admission, claimant) = (Arc::clone(&services.admission), claimant.clone());
        ExecutionSlot { claim: Box::new(Claim { admission, claimant }), lane }
    }

    /// Returns its threads.
    pub(crate) fn threads(&self) -> &Handle {
        self.lane.threads()
    }

    /// Releases the permit (execution_slot-1).
    pub(crate) fn pause(&mut self) {
        self.lane.pause();
    }

    /// Waits to take the permit again, no longer than `query.queue_timeout`.
    pub(crate) async fn resume(&mut self) -> Result<(), AdmissionTimeout> {
        if !self.lane.is_admitted() {
            let Claim { admission, claimant } = self.claim.as_ref();
            let permit = admission.begin(claimant).await?;
            self.lane.admit(permit);
        }
        Ok(())
    }

    /// Waits to take the permit again, without a time limit.
    pub(crate) async fn resume_at_last(&mut self) {
        if !self.lane.is_admitted() {
            let Claim { admission, claimant } = self.claim.as_ref();
            let permit = admission.wait(claimant).await;
            self.lane.admit(permit);
        }
    }
}

/// Waits until a statement must end that has not begun, with this time limit from now on: it will
/// not begin (execution_slot-2). Waits for ever if it begins before.
pub(crate) async fn ended_before_begin(
    cancel_handle: &CancelHandle,
    limit: Timeout,
) -> CancelReason {
    let canceled = cancel_handle.canceled_before_begin();
    let Timeout::After(limit) = limit else {
        canceled.await;
        return CancelReason::Requested;
    };
    if timeout(limit, canceled).await.is_ok() {
        return CancelReason::Requested;
    }
    if cancel_handle.cancel_before_begin() {
        return CancelReason::Timeout { worked: limit, limit };
    }
    std::future::pending().await
}

/// Waits until a query was cancelled whose threads do not notice it, because they are in a long
/// poll. Its remaining tasks keep the permit (`lanes` lanes-3), but no client.
pub(crate) async fn overdue(cancel_handle: &CancelHandle) -> CancelReason {
    let reason = cancel_handle.ended().await;
    sleep(GRACE).await;
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    // The timer of a statement was on its lane: while all threads of that were in polls of minutes,
    // the statement had no timeout, and a cancel had no answer.
    #[tokio::test]
    async fn a_statement_that_cannot_begin_ends_at_its_time_limit_and_at_a_cancel() {
        let limit = Duration::ZERO;
        let cancel_handle = CancelHandle::default();
        let reason = ended_before_begin(&cancel_handle, Timeout::After(limit)).await;
        let expected = CancelReason::Timeout { worked: limit, limit };
        assert_eq!(reason, expected, "execution_slot-2");
        assert!(cancel_handle.is_canceled(), "execution_slot-2: it does not begin later");
        for limit in [Timeout::Never, Timeout::After(Duration::from_hours(1))] {
            let cancel_handle = CancelHandle::default();
            let ended = ended_before_begin(&cancel_handle, limit);
            let (reason, ()) = tokio::join!(ended, async { cancel_handle.cancel() });
            assert_eq!(reason, CancelReason::Requested, "execution_slot-2");
        }
    }
}
