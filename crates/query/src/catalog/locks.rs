//! Advisory locks: `pg_try_advisory_lock` and the like. Migrations of Rails and others take one, so
//! that no two of them run at a time.
//!
//! - AL1. A lock is held by one session, as often as it has taken it, until it gives it back as
//!   often, or ends.
//! - AL2. No session waits for a lock: one that another session holds is refused at once.
//! - AL3. A lock of a transaction goes with it, and is not given back before. Without one it goes
//!   with its statement.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::session::{Session, SessionRef};

/// All locks that are held, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<(i64, i64), Held>>);

#[derive(Debug)]
struct Held {
    by: SessionRef,
    /// The times that the session has taken it for itself.
    count: usize,
    /// The transaction of the session that has taken it (AL3).
    transaction: Option<u64>,
}

impl Held {
    fn is_free(&self) -> bool {
        self.by.is_gone() || self.count == 0 && !self.is_of_transaction()
    }

    fn is_of_transaction(&self) -> bool {
        self.transaction.is_some() && self.transaction == self.by.transaction()
    }
}

/// The limit of held locks: each takes a few bytes, and those of ended sessions are removed when
/// it is reached.
const LOCKS_MAX: usize = 100_000;

impl Locks {
    /// Takes a lock; false if another session has it, or too many are held (AL1).
    pub(crate) fn take(&self, session: &Session, key: (i64, i64)) -> bool {
        self.taken(session, key, |held| held.count += 1)
    }

    /// Takes a lock for the open transaction; false where [`take`](Self::take) gives false (AL3).
    pub(crate) fn take_for_transaction(&self, session: &Session, key: (i64, i64)) -> bool {
        let transaction = session.transaction();
        self.taken(session, key, |held| held.transaction = transaction)
    }

    fn taken(&self, session: &Session, key: (i64, i64), take: impl FnOnce(&mut Held)) -> bool {
        let mut held = self.held();
        if LOCKS_MAX <= held.len() {
            held.retain(|_, held| !held.is_free());
        }
        let is_full = LOCKS_MAX <= held.len();
        let new = || Held { by: session.reference(), count: 0, transaction: None };
        match held.get_mut(&key) {
            Some(known) if known.by.is(session) => take(known),
            Some(known) if !known.is_free() => return false,
            Some(known) => {
                *known = new();
                take(known);
            }
            None if is_full => return false,
            None => take(held.entry(key).or_insert_with(new)),
        }
        true
    }

    /// Releases a lock once; false if the session does not hold it.
    pub(crate) fn give(&self, session: &Session, key: (i64, i64)) -> bool {
        let mut held = self.held();
        let is_its = |known: &&mut Held| known.by.is(session) && 0 < known.count;
        let Some(known) = held.get_mut(&key).filter(is_its) else { return false };
        known.count -= 1;
        if known.is_free() {
            held.remove(&key);
        }
        true
    }

    /// Releases all locks of a session.
    pub(crate) fn give_all(&self, session: &Session) {
        self.held().retain(|_, held| {
            if held.by.is(session) {
                held.count = 0;
            }
            !held.is_free()
        });
    }

    fn held(&self) -> MutexGuard<'_, HashMap<(i64, i64), Held>> {
        // Only whole values are inserted, so a panic leaves nothing half done.
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
        assert!(locks.take(&ann, key) && locks.take(&ann, key), "AL1");
        assert!(!locks.take(&bob, key) && !locks.give(&bob, key), "AL2");
        assert!(locks.give(&ann, key) && !locks.take(&bob, key), "AL1");
        assert!(locks.give(&ann, key) && !locks.give(&ann, key) && locks.take(&bob, key));
        drop(bob);
        assert!(locks.take(&ann, key), "AL1");
        locks.give_all(&ann);
        assert!(locks.take(&Session::default(), key));
    }

    #[test]
    fn a_lock_of_a_transaction_goes_with_it() {
        let (locks, ann, bob) = (Locks::default(), Session::default(), Session::default());
        let key = (0, 7);
        ann.begin(Access::ReadWrite);
        assert!(locks.take_for_transaction(&ann, key) && !locks.take(&bob, key), "AL3");
        locks.give_all(&ann);
        assert!(!locks.give(&ann, key) && !locks.take_for_transaction(&bob, key), "AL3");
        assert!(locks.take(&ann, key));
        ann.roll_back();
        assert!(!locks.take(&bob, key) && locks.give(&ann, key), "AL1");
        assert!(locks.take_for_transaction(&bob, key) && locks.take(&ann, key), "AL3");
    }
}
