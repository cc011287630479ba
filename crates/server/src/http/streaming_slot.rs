//! The admission permit of a statement whose answer is sent in parts.
//!
//! - streaming_slot-1. If a client reads nothing for `STALLED_AFTER`, its permit goes to another
//!   statement: slow clients delay only themselves.

use std::time::Duration;

use tidegate_query::{CancelHandle, Session};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{Permit, Sender};
use tokio::time::timeout;

use crate::admission::Claimant;
use crate::execution_slot::{ExecutionSlot, SlotError};
use crate::server_state::Services;

/// The time for which a client may read nothing before its permit is released (streaming_slot-1).
const STALLED_AFTER: Duration = Duration::from_millis(50);

/// A permit that can be released and taken again.
pub(super) struct StreamingSlot(ExecutionSlot);

/// The place for a part of an answer in its channel, or the error of a closed channel.
type Room<'a, T> = Result<Permit<'a, T>, SendError<()>>;

impl StreamingSlot {
    /// Waits until a statement is admitted.
    pub(super) async fn new(
        services: &Services,
        session: &Session,
    ) -> Result<StreamingSlot, SlotError> {
        ExecutionSlot::new(services, &Claimant::of(session)).await.map(StreamingSlot)
    }

    /// Returns the threads of the statement.
    pub(super) fn threads(&self) -> &Handle {
        self.0.threads()
    }

    /// Releases the permit for other statements.
    pub(super) fn pause(&mut self) {
        self.0.pause();
    }

    /// Waits for room for a part, and for the permit if it was released meanwhile; `None` if the
    /// statement was cancelled.
    pub(super) async fn room<'a, T>(
        &mut self,
        sender: &'a Sender<T>,
        cancel_handle: &CancelHandle,
    ) -> Option<Room<'a, T>> {
        if let Ok(room) = timeout(STALLED_AFTER, room(sender, cancel_handle)).await {
            return room;
        }
        self.pause();
        let room = room(sender, cancel_handle).await?;
        tokio::select! {
            () = self.0.resume_at_last() => {}
            () = cancel_handle.canceled() => return None,
        }
        Some(room)
    }
}

/// Waits for room for a part; `None` if the statement is cancelled meanwhile.
pub(super) async fn room<'a, T>(
    sender: &'a Sender<T>,
    cancel_handle: &CancelHandle,
) -> Option<Room<'a, T>> {
    tokio::select! {
        biased;
        room = sender.reserve() => Some(room),
        () = cancel_handle.canceled() => None,
    }
}
