//! Who gives statements, and what he has set for those that follow.
//!
//! - SE1. A session is what its owner keeps: an engine forgets it with the statement. Statements
//!   without one have a new one each.
//!
//! Which settings there are, and which values they take, is in `settings`.

mod settings;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::control::Timeout;
use crate::dml::{Held, HeldMark};
use crate::error::{Error, SettingProblem};
use crate::rights::Role;

pub(crate) use settings::{SERVER_VERSION, Shown, all_settings, reset, set, shown};

/// Savepoints of a transaction: a name and two numbers each.
const SAVEPOINTS_MAX: usize = 1_000;

/// Where statements come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// How they come: `http`, or `embedded`.
    pub protocol: &'static str,
    /// From which address.
    pub peer: Option<String>,
    /// Who says so, if anybody was asked.
    pub user: Option<String>,
    /// What he may do. An administrator sees and ends the statements of everybody, others those of
    /// the same user.
    pub role: Role,
}

impl Origin {
    /// The program that the engine is a part of.
    pub const EMBEDDED: Origin =
        Origin { protocol: "embedded", peer: None, user: None, role: Role::Admin };
}

/// What is the same from one statement to the next (SE1). Clones are the same session.
#[derive(Clone, Debug)]
pub struct Session(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    origin: Origin,
    /// What was set, by names as `settings` has them.
    values: Mutex<BTreeMap<String, String>>,
    /// What was set when it began, which is what everything is at first.
    first: OnceLock<BTreeMap<String, String>>,
    transaction: Mutex<Option<Transaction>>,
    /// What it has asked to be connected to.
    database: OnceLock<String>,
    /// What its client knows it by.
    process: AtomicU32,
    /// Whether it may change nothing, whatever it sets.
    only_reads: AtomicBool,
}

/// What is open between BEGIN and its end.
#[derive(Debug)]
struct Transaction {
    access: Access,
    held: Held,
    /// The latest is the last.
    savepoints: Vec<(String, HeldMark)>,
}

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    ReadWrite,
    /// Change nothing.
    ReadOnly,
}

impl Session {
    /// A session in which nothing is set.
    #[must_use]
    pub fn new(origin: Origin) -> Session {
        let (values, transaction) = (Mutex::default(), Mutex::default());
        Session(Arc::new(Inner {
            origin,
            values,
            first: OnceLock::new(),
            transaction,
            database: OnceLock::new(),
            process: AtomicU32::new(0),
            only_reads: AtomicBool::new(false),
        }))
    }

    /// Where it comes from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// Whether it may see and end what another one does.
    #[must_use]
    pub fn reaches(&self, other: &Session) -> bool {
        let is_same = Arc::ptr_eq(&self.0, &other.0);
        let user = self.0.origin.user.as_ref();
        is_same
            || self.0.origin.role == Role::Admin
            || user.is_some() && user == other.0.origin.user.as_ref()
    }

    /// What `SET statement_timeout` has said.
    pub(crate) fn timeout(&self) -> Option<Timeout> {
        settings::timeout(&self.values())
    }

    /// Whether it wants to change nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        self.0.only_reads.load(Relaxed)
            || settings::is_read_only(&self.values())
            || self.transaction().as_ref().is_some_and(|it| it.access == Access::ReadOnly)
    }

    /// True if it does nothing but read, whatever it sets.
    pub(crate) fn only_reads(&self) -> bool {
        self.0.only_reads.load(Relaxed)
    }

    /// Checks that a function may act on other statements.
    ///
    /// # Errors
    /// If the session only reads: a function is no way around that.
    pub(crate) fn check_effect(&self, statement: &'static str) -> Result<(), Error> {
        match self.only_reads() {
            true => Err(Error::ReadOnly { statement }),
            false => Ok(()),
        }
    }

    /// From now on it does nothing but read, whatever it sets: it changes nothing, writes no file
    /// and ends no statement.
    pub fn keep_read_only(&self) {
        self.0.only_reads.store(true, Relaxed);
    }

    /// Says what the database is called that it has asked for, and which number it has itself; the
    /// first time counts.
    pub fn connect_to(&self, database: &str, process: u32) {
        self.0.database.get_or_init(|| database.to_owned());
        self.0.process.store(process, Relaxed);
    }

    pub(crate) fn process(&self) -> u32 {
        self.0.process.load(Relaxed)
    }

    pub(crate) fn database(&self) -> &str {
        self.0.database.get().map_or("tidegate", String::as_str)
    }

    /// Makes what is set now what everything is at first; the first time counts.
    pub fn keep_first(&self) {
        let values = self.values().clone();
        self.0.first.get_or_init(|| values);
    }

    /// Gives all settings what they were at first.
    pub fn reset(&self) {
        reset(self);
    }

    /// From now on rows that are inserted are held back, until [`Engine::commit`](crate::Engine)
    /// or [`roll_back`](Self::roll_back).
    pub fn begin(&self, access: Access) {
        let (held, savepoints) = (Held::default(), Vec::new());
        self.transaction().get_or_insert(Transaction { access, held, savepoints });
    }

    /// Says again what the open transaction may do, if there is one.
    pub fn set_access(&self, access: Access) {
        if let Some(transaction) = self.transaction().as_mut() {
            transaction.access = access;
        }
    }

    /// Remembers what the open transaction holds back now; false if it remembers too much already.
    #[must_use]
    pub fn set_savepoint(&self, name: &str) -> bool {
        let mut transaction = self.transaction();
        let Some(transaction) = transaction.as_mut() else { return true };
        if SAVEPOINTS_MAX <= transaction.savepoints.len() {
            return false;
        }
        let mark = transaction.held.mark();
        transaction.savepoints.push((name.to_owned(), mark));
        true
    }

    /// Forgets a savepoint and those behind it; false if there is none of this name.
    #[must_use]
    pub fn release_savepoint(&self, name: &str) -> bool {
        self.at_savepoint(name, |transaction, at| transaction.savepoints.truncate(at))
    }

    /// Drops what the transaction has held back since a savepoint, which stays; false if there is
    /// none of this name.
    #[must_use]
    pub fn roll_back_to(&self, name: &str) -> bool {
        self.at_savepoint(name, |transaction, at| {
            let (_, mark) = transaction.savepoints[at];
            transaction.held.back_to(mark);
            transaction.savepoints.truncate(at + 1);
        })
    }

    fn at_savepoint(&self, name: &str, work: impl FnOnce(&mut Transaction, usize)) -> bool {
        let mut transaction = self.transaction();
        let Some(transaction) = transaction.as_mut() else { return false };
        let found = transaction.savepoints.iter().rposition(|(known, _)| known == name);
        if let Some(at) = found {
            work(transaction, at);
            let latest = transaction.savepoints.last().map(|(_, mark)| *mark);
            transaction.held.keep(latest);
        }
        found.is_some()
    }

    /// Ends the transaction, if one is open: what it holds back is gone.
    pub fn roll_back(&self) {
        drop(self.take_held());
    }

    /// What a setting is now; `None` if there is none of this name.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<String> {
        shown(self, Timeout::Never, name).map(|shown| shown.value)
    }

    /// Gives a setting a value, as `SET` does it.
    ///
    /// # Errors
    /// If there is no such setting, or it does not take the value.
    pub fn set(&self, name: &str, value: &str) -> Result<(), SettingProblem> {
        set(self, name, Some(value))
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction().is_some()
    }

    /// Whether rows of this table are held back.
    pub(crate) fn holds(&self, table: &str) -> bool {
        self.transaction().as_ref().is_some_and(|it| it.held.has(table))
    }

    /// Adds to what is held back. Without a transaction, nobody waits for it any more.
    pub(crate) fn hold<T: Default, E>(
        &self,
        add: impl FnOnce(&mut Held) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transaction().as_mut().map_or(Ok(T::default()), |it| add(&mut it.held))
    }

    /// Ends the transaction, if one is open, and gives what it has held back.
    pub(crate) fn take_held(&self) -> Option<Held> {
        self.transaction().take().map(|it| it.held)
    }

    fn transaction(&self) -> MutexGuard<'_, Option<Transaction>> {
        // Rows are added a batch at a time, and whoever panics does not come to COMMIT.
        self.0.transaction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Only whole values are put in.
        self.0.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Session {
    fn default() -> Session {
        Session::new(Origin::EMBEDDED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_reach_their_own_statements_and_administrators_all() {
        let session = |user: Option<&str>, role| {
            let user = user.map(str::to_owned);
            Session::new(Origin { user, role, ..Origin::EMBEDDED })
        };
        let (ann, again) = (session(Some("ann"), Role::Reader), session(Some("ann"), Role::Writer));
        let (bob, nobody) = (session(Some("bob"), Role::Reader), session(None, Role::Reader));
        assert!(ann.reaches(&again) && !ann.reaches(&bob) && !ann.reaches(&nobody));
        assert!(nobody.reaches(&nobody.clone()) && !nobody.reaches(&session(None, Role::Reader)));
        assert!(session(Some("root"), Role::Admin).reaches(&nobody));
    }
}
