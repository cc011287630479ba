//! A client session: its origin, role, settings, temporary tables and open transaction.
//!
//! - The owner of a session keeps it: an engine forgets it with the statement. Each statement
//!   without one gets a new one.
//!
//! The settings and their values are in `settings`.

mod settings;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tidegate_model::{ColumnId, TableId};
use tidegate_storage::{Database, TableDdl, TableRead, VisibleTables};

use crate::cancel::{CancelHandle, Timeout};
use crate::changes::{Changes, RowAccount};
use crate::error::{Error, SettingProblem};
use crate::role::Role;

pub(crate) use settings::{SERVER_VERSION, Shown, all_settings, reset, set, shown};

/// The maximal number of savepoints of a transaction: each is a name and the changes up to then.
const SAVEPOINTS_MAX: usize = 1_000;

/// The origin of statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The protocol: `http`, or `embedded`.
    pub protocol: &'static str,
    /// The address of the client.
    pub peer: Option<String>,
    /// The authenticated user, if there is one.
    pub user: Option<String>,
    /// The role. An administrator sees and cancels the statements of all users, others those of the
    /// same user.
    pub role: Role,
}

impl Origin {
    /// The origin in the program that embeds the engine.
    pub const EMBEDDED: Origin =
        Origin { protocol: "embedded", peer: None, user: None, role: Role::Admin };
}

/// The state that lasts from one statement to the next. Clones are the same session.
#[derive(Clone, Debug)]
pub struct Session(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    origin: Origin,
    /// The settings that were set, by their names in `settings`.
    values: Mutex<BTreeMap<String, String>>,
    /// The settings at its start, which RESET restores.
    first: OnceLock<BTreeMap<String, String>>,
    private: Mutex<Private>,
    /// The numbers of identities that the session was given (`numbers`).
    numbers: Mutex<GivenNumbers>,
    /// The database that the client named.
    database: OnceLock<String>,
    /// The number by which its client knows it.
    process: AtomicU32,
    /// True if it may change nothing, independent of its settings.
    only_reads: AtomicBool,
    /// True if it lasts longer than a statement.
    lasts: AtomicBool,
}

/// A session that may have ended.
#[derive(Debug)]
pub(crate) struct SessionRef(Weak<Inner>);

impl SessionRef {
    pub(crate) fn is(&self, session: &Session) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&session.0))
    }

    /// A number that no other session has as long as this reference exists.
    pub(crate) fn number(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Returns true if its owner has dropped it.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// The number of its open transaction.
    pub(crate) fn transaction(&self) -> Option<u64> {
        self.0.upgrade().and_then(|inner| Session(inner).transaction())
    }
}

/// The most columns of which a session remembers numbers.
const GIVEN_MAX: usize = 10_000;

/// The numbers of identities that a session was given.
#[derive(Debug, Default)]
struct GivenNumbers {
    by_column: BTreeMap<(TableId, ColumnId), i64>,
    latest: Option<(TableId, i64)>,
}

/// The changes that only the session sees.
#[derive(Debug)]
struct Private {
    /// Its temporary tables, as of the last COMMIT.
    temporary: Changes,
    transaction: Option<Transaction>,
}

/// The state of a transaction between BEGIN and its end.
#[derive(Debug)]
struct Transaction {
    access: Access,
    /// Its changes, with the present temporary tables.
    changes: Changes,
    reads: Reads,
    /// The savepoints in their order, the latest last.
    savepoints: Vec<Savepoint>,
}

/// The state of a transaction at a savepoint.
#[derive(Debug)]
struct Savepoint {
    name: String,
    changes: Changes,
    reads: Reads,
}

/// The tables whose rows a transaction has read for later changes, with FOR UPDATE say, as of the
/// first of these reads.
type Reads = Arc<BTreeMap<TableId, TableRead>>;

/// A transaction that is to be committed.
#[derive(Debug)]
pub(crate) struct Committing {
    pub(crate) changes: Changes,
    /// The tables whose rows it has read for its changes.
    pub(crate) reads: Vec<TableRead>,
}

/// The access mode of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may read and write.
    ReadWrite,
    /// It may change nothing.
    ReadOnly,
}

impl Session {
    /// Makes a session without settings.
    #[must_use]
    pub fn new(origin: Origin) -> Session {
        let private = Private { temporary: Changes::new(), transaction: None };
        let (values, private) = (Mutex::default(), Mutex::new(private));
        Session(Arc::new(Inner {
            origin,
            values,
            first: OnceLock::new(),
            private,
            numbers: Mutex::default(),
            database: OnceLock::new(),
            process: AtomicU32::new(0),
            only_reads: AtomicBool::new(false),
            lasts: AtomicBool::new(false),
        }))
    }

    /// Returns a weak reference, which does not keep the session alive.
    pub(crate) fn reference(&self) -> SessionRef {
        SessionRef(Arc::downgrade(&self.0))
    }

    /// Returns its origin.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// Returns true if it may see and cancel the statements of another one.
    #[must_use]
    pub fn reaches(&self, other: &Session) -> bool {
        let is_same = Arc::ptr_eq(&self.0, &other.0);
        let user = self.0.origin.user.as_ref();
        is_same
            || self.0.origin.role == Role::Admin
            || user.is_some() && user == other.0.origin.user.as_ref()
    }

    /// Returns the timeout of `SET statement_timeout`.
    pub(crate) fn timeout(&self) -> Option<Timeout> {
        settings::timeout(&self.values())
    }

    /// Returns true if it is to change nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        self.0.only_reads.load(Relaxed)
            || settings::is_read_only(&self.values())
            || self.private().transaction.as_ref().is_some_and(|it| it.access == Access::ReadOnly)
    }

    /// Returns true if it only reads, independent of its settings.
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

    /// Makes it only read from now on, independent of its settings: it changes nothing, writes no
    /// file and cancels no statement.
    pub fn keep_read_only(&self) {
        self.0.only_reads.store(true, Relaxed);
    }

    /// Sets the name of the database that the client has asked for, of which the first one counts,
    /// and the number of the session.
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

    /// Makes the present settings those that RESET restores; the first call counts.
    pub fn keep_first(&self) {
        let values = self.values().clone();
        self.0.first.get_or_init(|| values);
    }

    /// Resets all settings.
    pub fn reset(&self) {
        reset(self);
        self.forget_numbers();
    }

    /// Forgets the numbers of identities that it was given, for `currval` and `lastval`.
    pub fn forget_numbers(&self) {
        *self.given() = GivenNumbers::default();
    }

    /// Makes it last until its owner ends it, so that it may have temporary tables.
    pub fn keep_lasting(&self) {
        self.0.lasts.store(true, Relaxed);
    }

    /// Returns true if it may have objects that outlive a statement.
    pub(crate) fn lasts(&self) -> bool {
        self.0.lasts.load(Relaxed)
    }

    /// Begins a transaction: only the session sees its changes until
    /// [`Engine::commit`](crate::Engine) or [`roll_back`](Self::roll_back).
    pub fn begin(&self, access: Access) {
        let mut private = self.private();
        let changes = private.temporary.begun();
        let (reads, savepoints) = (Reads::default(), Vec::new());
        let begun = Transaction { access, changes, reads, savepoints };
        private.transaction.get_or_insert(begun);
    }

    /// Sets the access mode of the open transaction, if there is one.
    pub fn set_access(&self, access: Access) {
        if let Some(transaction) = self.private().transaction.as_mut() {
            transaction.access = access;
        }
    }

    /// Sets a savepoint with the changes of the open transaction; returns false if it has too many.
    #[must_use]
    pub fn set_savepoint(&self, name: &str) -> bool {
        let mut private = self.private();
        let Some(transaction) = private.transaction.as_mut() else { return true };
        if SAVEPOINTS_MAX <= transaction.savepoints.len() {
            return false;
        }
        let (changes, reads) = (transaction.changes.clone(), Arc::clone(&transaction.reads));
        transaction.savepoints.push(Savepoint { name: name.to_owned(), changes, reads });
        true
    }

    /// Returns the number of savepoints of the open transaction.
    #[must_use]
    pub fn savepoint_count(&self) -> usize {
        self.private().transaction.as_ref().map_or(0, |it| it.savepoints.len())
    }

    /// Forgets a savepoint and those behind it; returns false if there is none of this name.
    #[must_use]
    pub fn release_savepoint(&self, name: &str) -> bool {
        self.at_savepoint(name, |transaction, at| transaction.savepoints.truncate(at))
    }

    /// Undoes the changes of the transaction since a savepoint, which stays, and forgets its reads
    /// for changes; returns false if there is none of this name.
    #[must_use]
    pub fn roll_back_to(&self, name: &str) -> bool {
        self.at_savepoint(name, |transaction, at| {
            let Savepoint { changes, reads, .. } = &transaction.savepoints[at];
            (transaction.changes, transaction.reads) = (changes.clone(), Arc::clone(reads));
            transaction.savepoints.truncate(at + 1);
        })
    }

    fn at_savepoint(&self, name: &str, work: impl FnOnce(&mut Transaction, usize)) -> bool {
        let mut private = self.private();
        let Some(transaction) = private.transaction.as_mut() else { return false };
        let found = transaction.savepoints.iter().rposition(|known| known.name == name);
        if let Some(at) = found {
            work(transaction, at);
        }
        found.is_some()
    }

    /// Ends the transaction, if one is open, and discards its changes.
    pub fn roll_back(&self) {
        drop(self.private().transaction.take());
    }

    /// Drops the temporary tables. In a transaction they come back if it is rolled back.
    pub fn drop_temporary_tables(&self) {
        let mut private = self.private();
        let Private { temporary, transaction } = &mut *private;
        transaction.as_mut().map_or(temporary, |it| &mut it.changes).drop_temporary();
    }

    /// Returns the value of a setting; `None` if there is none of this name.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<String> {
        shown(self, Timeout::Never, name).map(|shown| shown.value)
    }

    /// Sets a setting, like `SET`.
    ///
    /// # Errors
    /// If there is no such setting, or it does not take the value.
    pub fn set(&self, name: &str, value: &str) -> Result<(), SettingProblem> {
        set(self, name, Some(value))
    }

    /// The number of the open transaction; `None` if there is none.
    pub(crate) fn transaction(&self) -> Option<u64> {
        self.private().transaction.as_ref().map(|it| it.changes.transaction())
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.private().transaction.is_some()
    }

    /// Returns the changes that only this session sees; `None` if there are none.
    pub(crate) fn own_changes(&self) -> Option<Changes> {
        let private = self.private();
        let changes = private.changes();
        (!changes.is_empty()).then(|| changes.clone())
    }

    /// Returns the tables of a database as it sees them; its temporary tables are in `own_changes`.
    pub(crate) fn visible<'a>(&self, database: &'a Database) -> VisibleTables<'a> {
        database.visible(self.private().changes().ddl())
    }

    /// Changes tables: for all sessions, or in a transaction for itself until COMMIT.
    pub(crate) fn define(&self, database: &Database, ddl: TableDdl) -> Result<(), Error> {
        if !self.is_in_transaction() {
            return Ok(database.define(ddl)?);
        }
        let mut changes = self.changes();
        changes.define(database, ddl)?;
        self.install(changes);
        Ok(())
    }

    /// Returns its changes, for a statement to change them further.
    pub(crate) fn changes(&self) -> Changes {
        self.private().changes().clone()
    }

    /// Returns the memory accounts of its rows.
    pub(crate) fn accounts(&self) -> [Arc<RowAccount>; 2] {
        self.private().temporary.accounts().map(Arc::clone)
    }

    /// Installs the changes made by a statement. If the transaction is over by now, they are
    /// dropped. Without a transaction, only changes of temporary tables are kept.
    pub(crate) fn install(&self, changes: Changes) {
        let mut private = self.private();
        if !private.changes().is_of_same(&changes) {
            return;
        }
        match private.transaction.as_mut() {
            Some(transaction) => transaction.changes = changes,
            None => private.temporary = changes.into_temporary(),
        }
    }

    /// Remembers tables whose rows a statement reads for later changes, until the open transaction
    /// ends; without one, nothing can follow that depends on them.
    pub(crate) fn note_reads(&self, reads: Vec<TableRead>) {
        let mut private = self.private();
        let Some(transaction) = private.transaction.as_mut() else { return };
        for read in reads {
            // No other session can change the rows of a temporary table.
            if transaction.changes.of_id(read.table).is_none() {
                // A later read may see changes of others that the first one does not.
                Arc::make_mut(&mut transaction.reads).entry(read.table).or_insert(read);
            }
        }
    }

    /// Ends the transaction, if one is open, and returns it.
    pub(crate) fn end_transaction(&self) -> Option<Committing> {
        let Transaction { changes, reads, .. } = self.private().transaction.take()?;
        let reads = Arc::unwrap_or_clone(reads).into_values().collect();
        Some(Committing { changes, reads })
    }

    /// Installs the temporary tables of a committed transaction.
    pub(crate) fn keep_temporary(&self, changes: Changes) {
        self.private().temporary = changes.into_temporary();
    }

    /// Remembers a number of a column that the session was given.
    pub(crate) fn note_number(&self, column: (TableId, ColumnId), number: i64) {
        let mut given = self.given();
        if GIVEN_MAX <= given.by_column.len() {
            // Tables that a session makes and drops again.
            given.by_column.clear();
        }
        given.by_column.insert(column, number);
        given.latest = Some((column.0, number));
    }

    /// Puts another number in place of the latest one of a column, as `setval` does.
    pub(crate) fn set_number(&self, column: (TableId, ColumnId), number: i64) {
        self.given().by_column.insert(column, number);
    }

    /// The latest number that the session was given, of a column or of any, with its table.
    pub(crate) fn known_number(
        &self,
        column: Option<(TableId, ColumnId)>,
    ) -> Option<(TableId, i64)> {
        let given = self.given();
        match column {
            Some(column) => given.by_column.get(&column).map(|number| (column.0, *number)),
            None => given.latest,
        }
    }

    fn given(&self) -> MutexGuard<'_, GivenNumbers> {
        // Whole values are put in.
        self.0.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn private(&self) -> MutexGuard<'_, Private> {
        // Only whole values are stored, so a poisoned lock is harmless.
        self.0.private.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Only whole values are stored, so a poisoned lock is harmless.
        self.0.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Private {
    fn changes(&self) -> &Changes {
        self.transaction.as_ref().map_or(&self.temporary, |it| &it.changes)
    }
}

impl Default for Session {
    fn default() -> Session {
        Session::new(Origin::EMBEDDED)
    }
}

/// The options of one statement.
#[derive(Clone, Debug, Default)]
pub struct StatementOptions {
    /// The time limit; `None` takes that of the session, or else that of the engine.
    pub timeout: Option<Timeout>,
    /// The session that executes it, with its settings.
    pub session: Session,
    /// A handle that can cancel it.
    pub cancel_handle: Option<CancelHandle>,
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
