//! Advisory locks: `pg_try_advisory_lock` and the like. Migrations of Rails and others take one, so
//! that no two of them run at a time.
//!
//! - advisory_locks-1. A lock is held by one session, as often as it has taken it, until it gives
//!   it back as often, or ends.
//! - advisory_locks-2. No session waits for a lock: one that another session holds is refused at
//!   once.
//! - advisory_locks-3. A lock of a transaction goes with it, and is not given back before. Without
//!   one it goes with its statement.
//! - advisory_locks-4. A session holds at most `SESSION_LOCKS_MAX` locks, all sessions `LOCKS_MAX`;
//!   more is an error, which ends the statement, and never looks like a lock of another session.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::{DataFusionError, Result};

use crate::session::{Session, SessionRef};

/// The advisory locks of an engine.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<Table>);

#[derive(Debug)]
struct Held {
    by: SessionRef,
    /// The times that the session has taken it for itself.
    count: usize,
    /// The transaction of the session that has taken it (advisory_locks-3).
    transaction: Option<u64>,
}

impl Held {
    fn is_free(&self) -> bool {
        self.by.is_closed() || self.count == 0 && !self.is_of_transaction()
    }

    fn is_of_transaction(&self) -> bool {
        self.transaction.is_some() && self.transaction == self.by.transaction()
    }
}

/// The limits of advisory_locks-4: each lock takes about a hundred bytes.
const SESSION_LOCKS_MAX: usize = 1_000;
const LOCKS_MAX: usize = 1_000_000;

/// All locks that are held, by their keys.
#[derive(Debug, Default)]
struct Table {
    held: HashMap<(i64, i64), Held>,
    /// The number of entries of each session, free ones among them; sessions may have ended.
    counts: HashMap<usize, usize>,
}

impl Table {
    /// Removes a lock.
    fn remove(&mut self, key: (i64, i64)) {
        let Some(held) = self.held.remove(&key) else { return };
        let number = held.by.number();
        if let Some(count) = self.counts.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&number);
            }
        }
    }

    /// Removes the locks that are free.
    fn remove_free(&mut self) {
        self.held.retain(|_, held| !held.is_free());
        self.counts.clear();
        for held in self.held.values() {
            *self.counts.entry(held.by.number()).or_default() += 1;
        }
    }

    /// Checks that a session may have one more lock (advisory_locks-4).
    fn check_room(&mut self, session: &Session) -> Result<()> {
        let number = session.reference().number();
        let count = |table: &Table| table.counts.get(&number).copied().unwrap_or(0);
        let is_full =
            |table: &Table| LOCKS_MAX <= table.held.len() || SESSION_LOCKS_MAX <= count(table);
        if is_full(self) {
            self.remove_free();
        }
        match is_full(self) {
            false => Ok(()),
            true => Err(DataFusionError::ResourcesExhausted(format!(
                "advisory locks: this session holds {} of at most {SESSION_LOCKS_MAX}, and all \
                 sessions {} of at most {LOCKS_MAX}",
                count(self),
                self.held.len(),
            ))),
        }
    }
}

impl Locks {
    /// Takes a lock; false if another session has it (advisory_locks-1).
    pub(crate) fn take(&self, session: &Session, key: (i64, i64)) -> Result<bool> {
        self.taken(session, key, |held| held.count += 1)
    }

    /// Takes a lock for the open transaction; false where [`take`](Self::take) gives false
    /// (advisory_locks-3).
    pub(crate) fn take_for_transaction(&self, session: &Session, key: (i64, i64)) -> Result<bool> {
        let transaction = session.transaction();
        self.taken(session, key, |held| held.transaction = transaction)
    }

    fn taken(
        &self,
        session: &Session,
        key: (i64, i64),
        take: impl FnOnce(&mut Held),
    ) -> Result<bool> {
        let mut table = self.table();
        if let Some(known) = table.held.get_mut(&key) {
            if known.by.is(session) {
                take(known);
                return Ok(true);
            }
            if !known.is_free() {
                return Ok(false);
            }
            table.remove(key);
        }
        table.check_room(session)?;
        let mut held = Held { by: session.reference(), count: 0, transaction: None };
        take(&mut held);
        *table.counts.entry(held.by.number()).or_default() += 1;
        table.held.insert(key, held);
        Ok(true)
    }

    /// Releases a lock once; false if the session does not hold it.
    pub(crate) fn give(&self, session: &Session, key: (i64, i64)) -> bool {
        let mut table = self.table();
        let is_its = |known: &&mut Held| known.by.is(session) && 0 < known.count;
        let Some(known) = table.held.get_mut(&key).filter(is_its) else { return false };
        known.count -= 1;
        if known.is_free() {
            table.remove(key);
        }
        true
    }

    /// Releases all locks of a session.
    pub(crate) fn give_all(&self, session: &Session) {
        let mut table = self.table();
        for held in table.held.values_mut().filter(|held| held.by.is(session)) {
            held.count = 0;
        }
        table.remove_free();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // No code that can panic runs between two changes of it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Access;

    #[test]
    fn a_lock_is_given_back_as_often_as_it_was_taken_or_with_its_session() {
        let (locks, ann, bob) = (Locks::default(), Session::default(), Session::default());
        let key = (0, 7);
        assert!(
            locks.take(&ann, key).unwrap() && locks.take(&ann, key).unwrap(),
            "advisory_locks-1"
        );
        assert!(!locks.take(&bob, key).unwrap() && !locks.give(&bob, key), "advisory_locks-2");
        assert!(locks.give(&ann, key) && !locks.take(&bob, key).unwrap(), "advisory_locks-1");
        assert!(locks.give(&ann, key) && !locks.give(&ann, key) && locks.take(&bob, key).unwrap());
        drop(bob);
        assert!(locks.take(&ann, key).unwrap(), "advisory_locks-1");
        locks.give_all(&ann);
        assert!(locks.take(&Session::default(), key).unwrap());
    }

    #[test]
    fn a_lock_of_a_transaction_goes_with_it() {
        let (locks, ann, bob) = (Locks::default(), Session::default(), Session::default());
        let key = (0, 7);
        ann.begin(Access::ReadWrite);
        assert!(
            locks.take_for_transaction(&ann, key).unwrap() && !locks.take(&bob, key).unwrap(),
            "advisory_locks-3"
        );
        locks.give_all(&ann);
        assert!(
            !locks.give(&ann, key) && !locks.take_for_transaction(&bob, key).unwrap(),
            "advisory_locks-3"
        );
        assert!(locks.take(&ann, key).unwrap());
        ann.roll_back();
        assert!(!locks.take(&bob, key).unwrap() && locks.give(&ann, key), "advisory_locks-1");
        assert!(
            locks.take_for_transaction(&bob, key).unwrap() && locks.take(&ann, key).unwrap(),
            "advisory_locks-3"
        );
    }

    /// One session took all locks of the engine, and each further one seemed to be another's.
    #[test]
    fn a_session_has_some_locks_and_the_next_one_is_an_error() {
        let (locks, ann, bob) = (Locks::default(), Session::default(), Session::default());
        for number in 0..SESSION_LOCKS_MAX {
            assert!(locks.take(&ann, (0, i64::try_from(number).unwrap())).unwrap());
        }
        let error = locks.take(&ann, (1, 0)).unwrap_err().to_string();
        assert!(
            error.contains("this session holds 1000 of at most 1000"),
            "advisory_locks-4: {error}"
        );
        assert!(
            locks.take(&ann, (0, 5)).unwrap() && locks.take(&bob, (1, 0)).unwrap(),
            "advisory_locks-4"
        );
        assert!(!locks.take(&bob, (0, 5)).unwrap(), "advisory_locks-2");
        assert!(locks.give(&ann, (0, 6)) && locks.take(&ann, (1, 1)).unwrap(), "advisory_locks-4");
        locks.give_all(&ann);
        assert_eq!(locks.table().counts.len(), 1, "advisory_locks-4");
        drop(ann);
        assert!(locks.take(&bob, (0, 5)).unwrap(), "advisory_locks-1");
    }

    /// Locks that are free count until they are removed, which happens when there is no room.
    #[test]
    fn locks_of_ended_transactions_leave_room() {
        let (locks, ann) = (Locks::default(), Session::default());
        for number in 0..3 * i64::try_from(SESSION_LOCKS_MAX).unwrap() {
            ann.begin(Access::ReadWrite);
            assert!(locks.take_for_transaction(&ann, (0, number)).unwrap(), "advisory_locks-4");
            ann.roll_back();
        }
        assert!(locks.table().held.len() <= SESSION_LOCKS_MAX, "advisory_locks-4");
    }
}
