//! The right of a statement to work, which others wait for.
//!
//! - TU1. A client that takes nothing for `SLOW` gives its turn to others: however many do so, they
//!   hold up nobody but themselves.

use std::sync::Arc;
use std::time::Duration;

use tidegate_query::Canceler;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{Permit, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::exec::{Piece, Refusal};
use crate::shared::Services;

/// How long a client may take to read before others have its turn (TU1).
const SLOW: Duration = Duration::from_millis(50);

/// See the module.
pub(super) struct Turn {
    turns: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

/// Room for a piece of an answer.
type Room<'a> = Result<Permit<'a, Piece>, SendError<()>>;

impl Turn {
    /// Waits until a statement may begin.
    pub(super) async fn new(services: &Services) -> Result<Turn, Refusal> {
        let turns = Arc::clone(&services.turns);
        match timeout(services.turn_wait, Arc::clone(&turns).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Turn { turns, permit: Some(permit) }),
            Ok(Err(_)) | Err(_) => Err(Refusal::new("53400", services.no_turn())),
        }
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
        self.permit = None;
        let room = room(sender, canceler).await?;
        tokio::select! {
            permit = Arc::clone(&self.turns).acquire_owned() => self.permit = permit.ok(),
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
