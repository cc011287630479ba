//! The seat of a statement: its admission permit, and the threads on which it runs.
//!
//! - seat-1. A statement that waits for its client releases its permit, and keeps its threads.
//! - seat-2. A client waits at most `GRACE` for the threads of a query that was cancelled.
//! - seat-3. Threads are taken after the permit, so that statements that wait for one have none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_query::{CancelReason, Canceler};
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::lanes::{Lane, NoLane};
use crate::shared::Services;
use crate::turns::{Claimant, NoTurn, Turns};

/// The time after the engine's cancel at which a connection stops waiting for the query's threads.
pub(crate) const GRACE: Duration = Duration::from_millis(50);

/// The permit and the threads of a statement.
#[derive(Debug)]
pub(crate) struct Seat {
    claim: Box<Claim>,
    lane: Lane,
}

/// The data to take the permit again, after it was released.
#[derive(Debug)]
struct Claim {
    turns: Arc<Turns>,
    claimant: Claimant,
}

/// The reason why a statement cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoSeat {
    Turn(NoTurn),
    Lane(NoLane),
}

impl NoSeat {
    /// Returns the SQLSTATE.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            NoSeat::Turn(_) => "53400",
            NoSeat::Lane(no_lane) => no_lane.code(),
        }
    }
}

impl fmt::Display for NoSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoSeat::Turn(no_turn) => no_turn.fmt(f),
            NoSeat::Lane(no_lane) => no_lane.fmt(f),
        }
    }
}

impl Seat {
    /// Returns a seat, if one is free now.
    pub(crate) fn try_new(services: &Services, claimant: &Claimant) -> Option<Seat> {
        let turn = services.turns.try_begin(claimant)?;
        let mut lane = services.lanes.try_take()?;
        *lane.turn() = Some(turn);
        Some(Seat::on(lane, services, claimant))
    }

    /// Waits for a seat, at most `query.queue_timeout` for the permit.
    pub(crate) async fn new(services: &Services, claimant: &Claimant) -> Result<Seat, NoSeat> {
        let turn = services.turns.begin(claimant).await.map_err(NoSeat::Turn)?;
        let mut lane = services.lanes.take().await.map_err(NoSeat::Lane)?;
        *lane.turn() = Some(turn);
        Ok(Seat::on(lane, services, claimant))
    }

    fn on(lane: Lane, services: &Services, claimant: &Claimant) -> Seat {
        let (turns, claimant) = (Arc::clone(&services.turns), claimant.clone());
        Seat { claim: Box::new(Claim { turns, claimant }), lane }
    }

    /// Returns its threads.
    pub(crate) fn threads(&self) -> &Handle {
        self.lane.threads()
    }

    /// Releases the permit (seat-1).
    pub(crate) fn pause(&mut self) {
        *self.lane.turn() = None;
    }

    /// Waits to take the permit again, no longer than `query.queue_timeout`.
    pub(crate) async fn resume(&mut self) -> Result<(), NoTurn> {
        if self.lane.turn().is_none() {
            let Claim { turns, claimant } = self.claim.as_ref();
            *self.lane.turn() = Some(turns.begin(claimant).await?);
        }
        Ok(())
    }

    /// Waits to take the permit again, without a time limit.
    pub(crate) async fn resume_at_last(&mut self) {
        if self.lane.turn().is_none() {
            let Claim { turns, claimant } = self.claim.as_ref();
            *self.lane.turn() = Some(turns.wait(claimant).await);
        }
    }
}

/// Waits until a query was cancelled whose threads do not notice it, because they are in a long
/// poll. Its remaining tasks keep the permit (`lanes` lanes-3), but no client.
pub(crate) async fn overdue(canceler: &Canceler) -> CancelReason {
    let reason = canceler.ended().await;
    sleep(GRACE).await;
    reason
}
