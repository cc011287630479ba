//! A statement that runs somewhere else, and what comes of it piece by piece.
//!
//! - RN1. At most `QUEUE` batches wait: a slow writer slows the query, and memory stays the same.
//! - RN2. Dropping it stops it, whatever it does: nobody waits for an operator or for a server.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;

use super::remote::Cancel;
use crate::error::Error;

/// RN1.
pub(super) const QUEUE: usize = 2;

/// What comes of a statement: its fields and rows, and its end.
pub(super) enum Piece {
    Fields { fields: SchemaRef, notices: Vec<String> },
    Rows(RecordBatch),
    Done { tag: Option<String>, notices: Vec<String> },
    Failed(Error),
}

/// A statement that runs (RN2).
pub(super) struct Running {
    pieces: Receiver<Piece>,
    work: JoinHandle<()>,
    /// How a server is told to stop.
    cancel: Option<Cancel>,
}

impl Running {
    pub(super) fn new(pieces: Receiver<Piece>, work: JoinHandle<()>) -> Running {
        Running { pieces, work, cancel: None }
    }

    pub(super) fn with_cancel(mut self, cancel: Cancel) -> Running {
        self.cancel = Some(cancel);
        self
    }

    /// The next piece; `None` if the work broke off.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        let piece = self.pieces.recv().await;
        if matches!(piece, Some(Piece::Done { .. } | Piece::Failed(_))) {
            self.cancel = None;
        }
        piece
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.work.abort();
        if let Some(cancel) = self.cancel.take() {
            cancel.now();
        }
    }
}
