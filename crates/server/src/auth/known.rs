//! The login cache: checked credentials, so that not every request costs 4,096 rounds of hashing.
//!
//! - KN1. Credentials are kept as a hash with a key of this process: they cannot be recovered.
//! - KN2. At most `LOGINS_MAX` are cached; the one that is unused for longest is evicted.
//! - KN3. A change of users empties the cache, and drops the results of checks that are in
//!   progress.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::hmac;

use super::{Role, random_bytes};

/// The most cached logins (KN2).
const LOGINS_MAX: usize = 1_024;

/// A user that has logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) role: Role,
}

/// The cache of logins.
#[derive(Debug)]
pub(super) struct KnownLogins {
    key: hmac::Key,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of changes of users.
    generation: u64,
    /// The number of hits.
    uses: u64,
    logins: HashMap<Vec<u8>, Known>,
}

#[derive(Debug)]
struct Known {
    login: Login,
    /// The end of its validity, in seconds since 1970; `None` for no end.
    expires: Option<i64>,
    last: u64,
}

impl KnownLogins {
    pub(super) fn new() -> KnownLogins {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>());
        KnownLogins { key, state: Mutex::default() }
    }

    pub(super) fn find(&self, shown: &str, now_seconds: i64) -> Option<Login> {
        let hash = self.hash(shown);
        let mut state = self.state();
        state.uses += 1;
        let last = state.uses;
        let known = state.logins.get_mut(&hash)?;
        if known.expires.is_some_and(|end| end <= now_seconds) {
            return None;
        }
        known.last = last;
        Some(known.login.clone())
    }

    pub(super) fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Caches a login that was checked in this generation (KN3).
    pub(super) fn keep(
        &self,
        shown: &str,
        (login, expires): (&Login, Option<i64>),
        generation: u64,
    ) {
        let hash = self.hash(shown);
        let mut state = self.state();
        if state.generation != generation {
            return;
        }
        if LOGINS_MAX <= state.logins.len() && !state.logins.contains_key(&hash) {
            let oldest = state.logins.iter().min_by_key(|(_, known)| known.last);
            let oldest = oldest.map(|(hash, _)| hash.clone());
            oldest.and_then(|oldest| state.logins.remove(&oldest));
        }
        state.uses += 1;
        let known = Known { login: login.clone(), expires, last: state.uses };
        state.logins.insert(hash, known);
    }

    /// Empties the cache and begins a new generation (KN3).
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.generation += 1;
        state.logins.clear();
    }

    /// Returns the key of the cache entry (KN1).
    fn hash(&self, shown: &str) -> Vec<u8> {
        hmac::sign(&self.key, shown.as_bytes()).as_ref().to_vec()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Entries are inserted and removed as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_silent_for_longest_goes_first() {
        let known = KnownLogins::new();
        let login = Login { user: "ann".to_owned(), role: Role::Reader };
        for number in 0..LOGINS_MAX {
            known.keep(&number.to_string(), (&login, None), 0);
        }
        assert!(known.find("0", 0).is_some());
        known.keep("one more", (&login, None), 0);
        assert!(known.find("0", 0).is_some() && known.find("1", 0).is_none(), "KN2");
        assert_eq!(known.state().logins.len(), LOGINS_MAX, "KN2");
    }

    #[test]
    fn who_was_checked_while_users_changed_is_not_known() {
        let known = KnownLogins::new();
        let login = Login { user: "ann".to_owned(), role: Role::Reader };
        let generation = known.generation();
        known.forget();
        known.keep("x", (&login, None), generation);
        assert_eq!(known.find("x", 0), None, "KN3");
    }
}
