//! A running statement, and its results piece by piece.
//!
//! - running-1. At most `QUEUE` batches wait: a slow writer slows the query, and memory stays the
//!   same.
//! - running-2. Dropping a running statement stops it; the drop waits for no operator, and for a
//!   server only a bounded time.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;

use crate::error::Error;

/// Most batches that wait (running-1).
pub(super) const QUEUE: usize = 2;

/// A piece of the results of a statement: its fields, rows, or its end.
pub(super) enum Piece {
    Fields { fields: SchemaRef, notices: Vec<String> },
    Rows(RecordBatch),
    Done { tag: Option<String>, notices: Vec<String> },
    Failed(Error),
}

/// A running statement (running-2).
pub(super) struct Running {
    pieces: Receiver<Piece>,
    work: JoinHandle<()>,
    /// The cancel of a statement at a server.
    cancel: Option<Box<dyn FnOnce() + Send>>,
}

impl Running {
    pub(super) fn new(pieces: Receiver<Piece>, work: JoinHandle<()>) -> Running {
        Running { pieces, work, cancel: None }
    }

    pub(super) fn with_cancel(mut self, cancel: impl FnOnce() + Send + 'static) -> Running {
        self.cancel = Some(Box::new(cancel));
        self
    }

    /// Returns the next piece; `None` if the work ended without one.
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
            cancel();
        }
    }
}
