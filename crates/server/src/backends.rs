//! Backends: the open connections of PostgreSQL's protocol, and the cancelling of a statement from
//! another connection.
//!
//! - backends-1. A cancel affects the message that its connection executes at that moment, and none
//!   after it: each statement has a `CancelHandle` of its own, which is removed at its end.
//! - backends-2. A client that does not know the secret of a connection can cancel nothing of it.
//! - backends-3. There are at most `pg.max_connections`, and `ADMIN_SLOTS` more for administrators.
//! - backends-4. A connection that another one ends, or whose login is no longer valid (auth-5),
//!   has its statement cancelled, and is told the reason. It begins nothing more, not even the next
//!   statement of the same message.
//! - backends-5. A cancel ends a message of several statements before its next statement, even if
//!   none could be cancelled at that moment.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_query::CancelHandle;
use tokio::sync::Notify;

use crate::auth::{Grant, Role};
use crate::verifier::random_bytes;

/// The additional connections that only administrators get (backends-3).
pub(crate) const ADMIN_SLOTS: usize = 3;

/// All connections after their login.
#[derive(Debug, Default)]
pub(crate) struct Backends {
    next: AtomicU32,
    all: Mutex<HashMap<u32, Entry>>,
}

#[derive(Debug)]
struct Entry {
    secret: u32,
    grant: Grant,
    /// The running statement (backends-1), and its message (backends-5).
    running: Arc<Mutex<Running>>,
    /// The end of the connection (backends-4).
    ending: Arc<Ending>,
}

/// The end of a connection: its reason, once there is one (backends-4).
#[derive(Debug, Default)]
struct Ending {
    why: OnceLock<EndedBy>,
    told: Notify,
}

/// The reason why the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// `pg_terminate_backend`.
    Command,
    /// Its user has been removed, or has another password or role.
    UserChanged,
}

/// A connection in the list; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Backend {
    backends: Arc<Backends>,
    pub(crate) process: u32,
    pub(crate) secret: u32,
    running: Arc<Mutex<Running>>,
    ending: Arc<Ending>,
}

/// The work of a connection that can be cancelled.
#[derive(Debug, Default)]
struct Running {
    statement: Option<CancelHandle>,
    /// The state of a message of several statements; `None` if there is none.
    script: Option<ScriptState>,
}

/// A message of several statements, between two of which nothing can be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptState {
    Working,
    /// It begins no further statement (backends-5).
    Canceled,
}

/// A statement that can be cancelled until this is dropped.
#[derive(Debug)]
pub(crate) struct Cancelable(Arc<Mutex<Running>>);

/// A message of several statements that can be cancelled until this is dropped.
#[derive(Debug)]
pub(crate) struct CancelableScript(Arc<Mutex<Running>>);

impl Backends {
    /// Adds a connection; `None` if there are too many for its role (backends-3).
    pub(crate) fn enter(self: &Arc<Self>, grant: &Grant, max: usize) -> Option<Backend> {
        let most = if grant.role() == Role::Admin { max.saturating_add(ADMIN_SLOTS) } else { max };
        let secret = u32::from_be_bytes(random_bytes());
        let (running, ending) = (Arc::default(), Arc::<Ending>::default());
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if most <= all.len() {
            return None;
        }
        let process = loop {
            // No number is 0, none is used twice at a time, and those from 2^30 on are for
            // statements without a connection of this protocol.
            let process = self.next.fetch_add(1, Relaxed).wrapping_add(1) & 0x3fff_ffff;
            if process != 0 && !all.contains_key(&process) {
                break process;
            }
        };
        let entry = Entry {
            secret,
            grant: grant.clone(),
            running: Arc::clone(&running),
            ending: Arc::clone(&ending),
        };
        all.insert(process, entry);
        Some(Backend { backends: Arc::clone(self), process, secret, running, ending })
    }

    /// Cancels the statement of a connection, if the secret is right (backends-2).
    pub(crate) fn cancel(&self, process: u32, secret: &[u8]) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = all.get(&process) else { return };
        if entry.secret.to_be_bytes() == *secret {
            entry.cancel();
        }
    }

    /// Ends the connection of this number, if there is one (backends-4).
    pub(crate) fn end(&self, process: u32) -> bool {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = all.get(&process) else { return false };
        entry.end(EndedBy::Command);
        true
    }

    /// Ends the connections whose logins are no longer valid (backends-4). Returns their users.
    pub(crate) fn end_those(&self, holds: impl Fn(&Grant) -> bool) -> Vec<String> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let over = all.values().filter(|entry| !holds(&entry.grant));
        let end = |entry: &Entry| {
            entry.end(EndedBy::UserChanged);
            entry.grant.name().to_owned()
        };
        over.map(end).collect()
    }
}

impl Entry {
    fn end(&self, by: EndedBy) {
        // The first reason is kept.
        let _ = self.ending.why.set(by);
        self.ending.told.notify_one();
        self.cancel();
    }

    fn cancel(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cancel_handle) = &running.statement {
            cancel_handle.cancel();
        }
        // The statement may end before it notices, as SET does.
        if running.script.is_some() {
            running.script = Some(ScriptState::Canceled);
        }
    }
}

impl Backend {
    /// Returns the reason why the connection ends, if there is one (backends-4).
    pub(crate) fn ended_by(&self) -> Option<EndedBy> {
        self.ending.why.get().copied()
    }

    /// Waits until the connection is ended (backends-4).
    pub(crate) async fn ended(&self) -> EndedBy {
        loop {
            if let Some(by) = self.ended_by() {
                return by;
            }
            self.ending.told.notified().await;
        }
    }

    /// Makes the statement cancelable.
    pub(crate) fn begin(&self, cancel_handle: &CancelHandle) -> Cancelable {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.statement = Some(cancel_handle.clone());
        Cancelable(Arc::clone(&self.running))
    }

    /// Makes a message of several statements cancelable, also between two of them.
    pub(crate) fn begin_script(&self) -> CancelableScript {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.script = Some(ScriptState::Working);
        CancelableScript(Arc::clone(&self.running))
    }
}

impl CancelableScript {
    /// Returns true if it may begin no further statement (backends-5).
    pub(crate) fn is_canceled(&self) -> bool {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.script == Some(ScriptState::Canceled)
    }
}

impl Drop for Cancelable {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).statement = None;
    }
}

impl Drop for CancelableScript {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).script = None;
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let mut all = self.backends.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(role: Role) -> Grant {
        Grant::of_user(&crate::auth::User::new("ann", "secret", role))
    }

    #[test]
    fn a_cancel_ends_the_statement_that_works_and_no_other() {
        let backends = Arc::new(Backends::default());
        let backend = backends.enter(&grant(Role::Admin), 1).unwrap();
        let secret = backend.secret.to_be_bytes();
        let statements = [(); 3].map(|()| CancelHandle::default());
        backends.cancel(backend.process, &secret);
        {
            let _working = backend.begin(&statements[0]);
            backends.cancel(backend.process, &[0; 3]);
            backends.cancel(backend.process, &(backend.secret ^ 1).to_be_bytes());
            assert!(!statements[0].is_canceled(), "backends-2");
        }
        backends.cancel(backend.process, &secret);
        assert!(!statements[0].is_canceled(), "backends-1: it is over");
        let working = backend.begin(&statements[1]);
        backends.cancel(backend.process, &secret);
        drop(working);
        let _working = backend.begin(&statements[2]);
        let canceled = statements.iter().map(CancelHandle::is_canceled).collect::<Vec<_>>();
        assert_eq!(canceled, [false, true, false], "backends-1");
    }

    // A cancel between two statements of a message, or while one ran that cannot be cancelled, such
    // as SET, was lost, and the rest of the message was executed.
    #[test]
    fn a_cancel_between_the_statements_of_a_message_ends_it() {
        let backends = Arc::new(Backends::default());
        let backend = backends.enter(&grant(Role::Admin), 1).unwrap();
        let secret = backend.secret.to_be_bytes();
        backends.cancel(backend.process, &secret);
        let script = backend.begin_script();
        assert!(!script.is_canceled(), "backends-1: it came before");
        let statement = CancelHandle::default();
        let working = backend.begin(&statement);
        backends.cancel(backend.process, &secret);
        assert!(statement.is_canceled() && script.is_canceled(), "backends-5");
        drop((working, script));
        let script = backend.begin_script();
        assert!(!script.is_canceled(), "backends-1: it was for the message before");
        backends.cancel(backend.process, &secret);
        assert!(script.is_canceled(), "backends-5");
        drop(script);
        assert!(!backend.begin_script().is_canceled(), "backends-5");
    }

    #[test]
    fn the_last_slots_are_for_administrators() {
        let backends = Arc::new(Backends::default());
        let enter = |role: Role| backends.enter(&grant(role), 1);
        let reader = enter(Role::Reader);
        assert!(reader.is_some() && enter(Role::Reader).is_none(), "backends-3");
        let admins = [(); ADMIN_SLOTS].map(|()| enter(Role::Admin));
        assert!(admins.iter().all(Option::is_some) && enter(Role::Admin).is_none());
        drop(reader);
        assert!(enter(Role::Reader).is_none(), "backends-3: three are there still");
        drop(admins);
        assert!(enter(Role::Reader).is_some(), "backends-3");
    }

    #[tokio::test]
    async fn connections_are_ended_with_their_logins_and_say_why() {
        let backends = Arc::new(Backends::default());
        let enter = |role: Role| backends.enter(&grant(role), 3).unwrap();
        let (admin, reader) = (enter(Role::Admin), enter(Role::Reader));
        let statement = CancelHandle::default();
        let _working = reader.begin(&statement);
        let ended = backends.end_those(|grant| grant.role() == Role::Admin);
        assert_eq!(
            (ended.as_slice(), admin.ended_by()),
            (&["ann".to_owned()][..], None),
            "backends-4"
        );
        assert!(statement.is_canceled(), "backends-4");
        assert!(backends.end(reader.process) && backends.end(admin.process));
        let both = [reader.ended().await, reader.ended().await, admin.ended().await];
        assert_eq!(
            both,
            [EndedBy::UserChanged, EndedBy::UserChanged, EndedBy::Command],
            "backends-4"
        );
    }
}
