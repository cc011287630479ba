//! Advisory locks: `pg_try_advisory_lock` and the like. Migrations of Rails and others take one, so
//! that no two of them run at a time.
//!
//! - AL1. A lock is held by one session until it has been released as often as it was taken, or the
//!   session ends.
//! - AL2. There is no waiting: a lock that another session holds is refused at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::session::{Session, SessionRef};

/// All locks that are held, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<(i64, i64), Held>>);

#[derive(Debug)]
struct Held {
    by: SessionRef,
    count: usize,
}

/// The limit of held locks: each takes a few bytes, and those of ended sessions are removed when
/// it is reached.
const LOCKS_MAX: usize = 100_000;

impl Locks {
    /// Takes a lock; false if another session has it, or too many are held (AL1).
    pub(crate) fn take(&self, session: &Session, key: (i64, i64)) -> bool {
        let mut held = self.held();
        if LOCKS_MAX <= held.len() {
            held.retain(|_, held| !held.by.is_gone());
        }
        let is_full = LOCKS_MAX <= held.len();
        match held.get_mut(&key) {
            Some(known) if known.by.is(session) => known.count += 1,
            Some(known) if !known.by.is_gone() => return false,
            None if is_full => return false,
            _ => drop(held.insert(key, Held { by: session.reference(), count: 1 })),
        }
        true
    }

    /// Releases a lock once; false if the session does not hold it.
    pub(crate) fn give(&self, session: &Session, key: (i64, i64)) -> bool {
        let mut held = self.held();
        let Some(known) = held.get_mut(&key).filter(|known| known.by.is(session)) else {
            return false;
        };
        known.count -= 1;
        if known.count == 0 {
            held.remove(&key);
        }
        true
    }

    /// Releases all locks of a session.
    pub(crate) fn give_all(&self, session: &Session) {
        self.held().retain(|_, held| !held.by.is(session));
    }

    fn held(&self) -> MutexGuard<'_, HashMap<(i64, i64), Held>> {
        // Only whole values are inserted, so a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
