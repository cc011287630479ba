//! Who gives statements, and what he has set for those that follow.
//!
//! - SE1. A session is what its owner keeps: an engine forgets it with the statement. Statements
//!   without one have a new one each.
//!
//! Which settings there are, and which values they take, is in `settings`.

mod settings;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tidegate_model::{ColumnId, TableId};
use tidegate_storage::{Database, TableDdl, VisibleTables};

use crate::changes::{Changes, RowAccount};
use crate::control::Timeout;
use crate::error::{Error, SettingProblem};
use crate::rights::Role;

pub(crate) use settings::{SERVER_VERSION, Shown, all_settings, reset, set, shown};

/// Savepoints of a transaction: a name each, and what the transaction had changed then.
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
    private: Mutex<Private>,
    /// The numbers of identities that the session was given (`numbers` NU3).
    numbers: Mutex<GivenNumbers>,
    /// What it has asked to be connected to.
    database: OnceLock<String>,
    /// What its client knows it by.
    process: AtomicU32,
    /// Whether it may change nothing, whatever it sets.
    only_reads: AtomicBool,
    /// Whether it lasts longer than a statement.
    lasts: AtomicBool,
}

/// A session that may have ended.
#[derive(Debug)]
pub(crate) struct SessionRef(Weak<Inner>);

impl SessionRef {
    pub(crate) fn is(&self, session: &Session) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&session.0))
    }

    /// Whether its owner has given it up.
    pub(crate) fn is_gone(&self) -> bool {
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

/// What only the session sees.
#[derive(Debug)]
struct Private {
    /// Its temporary tables, as of the last COMMIT.
    temporary: Changes,
    transaction: Option<Transaction>,
}

/// What is open between BEGIN and its end.
#[derive(Debug)]
struct Transaction {
    access: Access,
    /// With the temporary tables as they are now.
    changes: Changes,
    /// The latest is the last.
    savepoints: Vec<(String, Changes)>,
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

    /// Itself, for whoever is not to keep it.
    pub(crate) fn reference(&self) -> SessionRef {
        SessionRef(Arc::downgrade(&self.0))
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
            || self.private().transaction.as_ref().is_some_and(|it| it.access == Access::ReadOnly)
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

    /// Gives all settings their first values, and forgets the numbers of identities that the
    /// session was given.
    pub fn reset(&self) {
        reset(self);
        *self.given() = GivenNumbers::default();
    }

    /// From now on it lasts until its owner ends it, and may have temporary tables.
    pub fn keep_lasting(&self) {
        self.0.lasts.store(true, Relaxed);
    }

    /// Whether it may have what outlives a statement.
    pub(crate) fn lasts(&self) -> bool {
        self.0.lasts.load(Relaxed)
    }

    /// From now on only the session sees what it changes, until [`Engine::commit`](crate::Engine)
    /// or [`roll_back`](Self::roll_back).
    pub fn begin(&self, access: Access) {
        let mut private = self.private();
        let changes = private.temporary.begun();
        let begun = Transaction { access, changes, savepoints: Vec::new() };
        private.transaction.get_or_insert(begun);
    }

    /// Says again what the open transaction may do, if there is one.
    pub fn set_access(&self, access: Access) {
        if let Some(transaction) = self.private().transaction.as_mut() {
            transaction.access = access;
        }
    }

    /// Remembers what the open transaction has changed by now; false if it remembers too much
    /// already.
    #[must_use]
    pub fn set_savepoint(&self, name: &str) -> bool {
        let mut private = self.private();
        let Some(transaction) = private.transaction.as_mut() else { return true };
        if SAVEPOINTS_MAX <= transaction.savepoints.len() {
            return false;
        }
        transaction.savepoints.push((name.to_owned(), transaction.changes.clone()));
        true
    }

    /// Forgets a savepoint and those behind it; false if there is none of this name.
    #[must_use]
    pub fn release_savepoint(&self, name: &str) -> bool {
        self.at_savepoint(name, |transaction, at| transaction.savepoints.truncate(at))
    }

    /// Forgets what the transaction has changed since a savepoint, which stays; false if there is
    /// none of this name.
    #[must_use]
    pub fn roll_back_to(&self, name: &str) -> bool {
        self.at_savepoint(name, |transaction, at| {
            transaction.changes = transaction.savepoints[at].1.clone();
            transaction.savepoints.truncate(at + 1);
        })
    }

    fn at_savepoint(&self, name: &str, work: impl FnOnce(&mut Transaction, usize)) -> bool {
        let mut private = self.private();
        let Some(transaction) = private.transaction.as_mut() else { return false };
        let found = transaction.savepoints.iter().rposition(|(known, _)| known == name);
        if let Some(at) = found {
            work(transaction, at);
        }
        found.is_some()
    }

    /// Ends the transaction, if one is open: what it has changed is gone.
    pub fn roll_back(&self) {
        drop(self.private().transaction.take());
    }

    /// Drops the temporary tables.
    pub fn drop_temporary_tables(&self) {
        let mut private = self.private();
        private.temporary.drop_temporary();
        if let Some(transaction) = private.transaction.as_mut() {
            transaction.changes.drop_temporary();
        }
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

    /// The number of the open transaction; `None` if there is none.
    pub(crate) fn transaction(&self) -> Option<u64> {
        self.private().transaction.as_ref().map(|it| it.changes.transaction())
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.private().transaction.is_some()
    }

    /// What it sees and others do not; `None` if it sees what they see.
    pub(crate) fn seen(&self) -> Option<Changes> {
        let private = self.private();
        let changes = private.changes();
        (!changes.is_empty()).then(|| changes.clone())
    }

    /// The tables of a database as it sees them; its temporary tables are in what is `seen`.
    pub(crate) fn visible<'a>(&self, database: &'a Database) -> VisibleTables<'a> {
        database.visible(self.private().changes().ddl())
    }

    /// Changes tables: for all, or in a transaction for itself until COMMIT.
    pub(crate) fn define(&self, database: &Database, ddl: TableDdl) -> Result<(), Error> {
        if !self.is_in_transaction() {
            return Ok(database.define(ddl)?);
        }
        let mut changes = self.changes();
        changes.define(database, ddl)?;
        self.install(changes);
        Ok(())
    }

    /// What it has changed, for a statement to change it further.
    pub(crate) fn changes(&self) -> Changes {
        self.private().changes().clone()
    }

    /// The accounts of its rows.
    pub(crate) fn accounts(&self) -> [Arc<RowAccount>; 2] {
        self.private().temporary.accounts().map(Arc::clone)
    }

    /// Takes what a statement has made of its changes. If the transaction is over by now, nothing
    /// waits for it. Without one, what is not about temporary tables is gone.
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

    /// Ends the transaction, if one is open, and gives what it has changed.
    pub(crate) fn take_changes(&self) -> Option<Changes> {
        self.private().transaction.take().map(|it| it.changes)
    }

    /// A transaction was committed that had the temporary tables so.
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
        // Whole values are put in.
        self.0.private.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Only whole values are put in.
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
