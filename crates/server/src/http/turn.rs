//! The seat of a statement whose answer goes out in pieces.
//!
//! - TU1. A client that takes nothing for `SLOW` gives its turn to others: however many do so, they
//!   hold up nobody but themselves.

use std::time::Duration;

use tidegate_query::{Canceler, Session};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{Permit, Sender};
use tokio::time::timeout;

use super::exec::{Piece, Refusal};
use crate::seat::Seat;
use crate::shared::Services;
use crate::turns::Claimant;

/// How long a client may take to read before others have its turn (TU1).
const SLOW: Duration = Duration::from_millis(50);

/// See the module.
pub(super) struct Turn(Seat);

/// Room for a piece of an answer.
type Room<'a> = Result<Permit<'a, Piece>, SendError<()>>;

impl Turn {
    /// Waits until a statement may begin.
    pub(super) async fn new(services: &Services, session: &Session) -> Result<Turn, Refusal> {
        let seat = Seat::new(services, &Claimant::of(session)).await;
        seat.map(Turn).map_err(|no_seat| Refusal::new(no_seat.code(), no_seat.to_string()))
    }

    /// The threads of the statement.
    pub(super) fn threads(&self) -> &Handle {
        self.0.threads()
    }

    /// Others have the turn from now on.
    pub(super) fn pause(&mut self) {
        self.0.pause();
    }

    /// Waits for room for a piece, and for the turn if it was given away meanwhile; `None` if the
    /// statement was ended.
    pub(super) async fn room<'a>(
        &mut self,
        sender: &'a Sender<Piece>,
        canceler: &Canceler,
    ) -> Option<Room<'a>> {
        if let Ok(room) = timeout(SLOW, room(sender, canceler)).await {
            return room;
        }
        self.pause();
        let room = room(sender, canceler).await?;
        tokio::select! {
            () = self.0.resume_at_last() => {}
            () = canceler.canceled() => return None,
        }
        Some(room)
    }
}

/// Waits for room for a piece, unless the statement is ended meanwhile.
pub(super) async fn room<'a>(sender: &'a Sender<Piece>, canceler: &Canceler) -> Option<Room<'a>> {
    tokio::select! {
        biased;
        room = sender.reserve() => Some(room),
        () = canceler.canceled() => None,
    }
}
