//! Execution of a statement of a request, on the threads of its place.
//!
//! - exec_running-1. Dropping it ends the statement, within its current batch: its task may have to
//!   wait for a thread until then, so the statement is cancelled by its handle too.

use std::sync::Arc;

use tidegate_query::{
    CancelHandle, CancelReason, Error as QueryError, Session, StatementOptions, Timeout, is_cancel,
    is_copy,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::{Piece, QUEUE, Refusal};
use crate::execution_slot::ended_before_begin;
use crate::http::streaming_slot::StreamingSlot;
use crate::server_state::Services;

/// A running statement; dropping it ends it (exec-2).
pub(in crate::http) struct Running {
    pub(super) pieces: Receiver<Piece>,
    /// The handle that cancels the statement from another thread.
    pub(super) cancel_handle: CancelHandle,
    /// The same for the end of the work (exec_running-1); `None` for a COPY, whose job runs on.
    ending: Option<CancelHandle>,
    #[expect(dead_code, reason = "dropping it ends the work")]
    work: AbortOnDrop,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ending.iter().for_each(CancelHandle::cancel);
    }
}

/// A task that is aborted when this is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The answer to a statement that cannot begin, because other statements of its user are at work on
/// its threads (execution_slot-2).
pub(in crate::http) struct Unbegun {
    sql: String,
    request_id: String,
    limit: Timeout,
}

impl Unbegun {
    /// Prepares the answer to a statement with this time limit, or that of its session.
    pub(in crate::http) fn new(
        sql: &str,
        request_id: &str,
        timeout: Option<Timeout>,
        session: &Session,
        services: &Services,
    ) -> Unbegun {
        let session = session.clone();
        let options = StatementOptions { timeout, session, cancel_handle: None };
        let limit = services.engine.time_limit(&options);
        Unbegun { sql: sql.to_owned(), request_id: request_id.to_owned(), limit }
    }

    fn ended(&self, reason: CancelReason) -> Piece {
        let refusal = Refusal::of_error(&QueryError::Canceled { reason }, &self.sql);
        Piece::Whole(refusal.response(&self.request_id), refusal.code)
    }
}

/// The slot of a statement, which a cancel does not need, or the reason why it has none.
type Admission = Result<Option<StreamingSlot>, Refusal>;

impl Running {
    /// Starts work that sends pieces, on the threads of its place, once it is admitted.
    pub(in crate::http) fn admitted<F>(
        place: Place,
        cancel_handle: CancelHandle,
        services: Arc<Services>,
        session: Session,
        unbegun: Unbegun,
        work: impl FnOnce(Sender<Piece>, Admission) -> F + Send + 'static,
    ) -> Running
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, pieces) = channel(QUEUE);
        let of_statement = cancel_handle.clone();
        let admitted = async move {
            let (slot, threads) = match place {
                // A cancel needs no permit (exec-1).
                Place::Inline => (Ok(None), Handle::current()),
                Place::Job | Place::Lane => match StreamingSlot::new(&services, &session).await {
                    Ok(slot) => {
                        let threads = match place {
                            Place::Job => services.job_threads.clone(),
                            _ => slot.threads().clone(),
                        };
                        (Ok(Some(slot)), threads)
                    }
                    Err(error) => {
                        let refusal = Refusal::new(error.code(), error.to_string());
                        (Err(refusal), Handle::current())
                    }
                },
            };
            drop((services, session));
            let refusing = sender.clone();
            let mut work = AbortOnDrop(threads.spawn(work(sender, slot)));
            tokio::select! {
                biased;
                // A panic has already been printed to standard error.
                _ = &mut work.0 => {}
                reason = ended_before_begin(&of_statement, unbegun.limit) => {
                    // If the client has gone, there is no receiver.
                    let _ = refusing.send(unbegun.ended(reason)).await;
                }
            }
        };
        let ending = (place != Place::Job).then(|| cancel_handle.clone());
        Running { pieces, cancel_handle, ending, work: AbortOnDrop(tokio::spawn(admitted)) }
    }

    /// Starts work that sends pieces, on these threads.
    pub(in crate::http) fn on<F>(threads: &Handle, work: impl FnOnce(Sender<Piece>) -> F) -> Running
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, pieces) = channel(QUEUE);
        let work = AbortOnDrop(threads.spawn(work(sender)));
        Running { pieces, cancel_handle: CancelHandle::default(), ending: None, work }
    }
}

/// The threads on which a statement runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Place {
    /// Those of its connection, so that it runs while all others are busy (exec-1).
    Inline,
    /// Those of jobs, which run on after the statement has ended.
    Job,
    /// Those of the lane of the statement.
    Lane,
}

impl Place {
    pub(in crate::http) fn of(sql: &str) -> Place {
        match sql {
            sql if is_cancel(sql) => Place::Inline,
            sql if is_copy(sql) => Place::Job,
            _ => Place::Lane,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // As `a_dropped_statement_is_cancelled_while_its_threads_are_at_work` of `portal`.
    #[tokio::test]
    async fn a_dropped_statement_is_cancelled() {
        let (_, pieces) = channel(QUEUE);
        let cancel_handle = CancelHandle::default();
        let ending = Some(cancel_handle.clone());
        let work = AbortOnDrop(tokio::spawn(std::future::pending()));
        drop(Running { pieces, cancel_handle: cancel_handle.clone(), ending, work });
        assert!(cancel_handle.is_canceled(), "exec_running-1");
    }
}
