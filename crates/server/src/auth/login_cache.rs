//! The login cache: checked credentials, so that not every request costs 4,096 rounds of hashing.
//!
//! - login_cache-1. Credentials are kept as a hash with a key of this process: they cannot be
//!   recovered.
//! - login_cache-2. At most `LOGINS_MAX` are cached; the one that is unused for longest is evicted.
//! - login_cache-3. A change of users empties the cache, and drops the results of checks that are
//!   in progress.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::hmac;

use super::Role;
use crate::verifier::random_bytes;

/// The most cached logins (login_cache-2).
const LOGINS_MAX: usize = 1_024;

/// A user that has logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) role: Role,
}

/// The cache of logins.
#[derive(Debug)]
pub(super) struct LoginCache {
    key: hmac::Key,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of changes of users.
    generation: u64,
    /// The number of hits.
    uses: u64,
    logins: HashMap<Vec<u8>, CachedLogin>,
}

#[derive(Debug)]
struct CachedLogin {
    login: Login,
    /// The end of its validity, in seconds since 1970; `None` for no end.
    expires: Option<i64>,
    last: u64,
}

impl LoginCache {
    pub(super) fn new() -> LoginCache {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>());
        LoginCache { key, state: Mutex::default() }
    }

    pub(super) fn find(&self, authorization: &str, now_seconds: i64) -> Option<Login> {
        let hash = self.hash(authorization);
        let mut state = self.state();
        state.uses += 1;
        let last = state.uses;
        let cached = state.logins.get_mut(&hash)?;
        if cached.expires.is_some_and(|end| end <= now_seconds) {
            return None;
        }
        cached.last = last;
        Some(cached.login.clone())
    }

    pub(super) fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Caches a login that was checked in this generation (login_cache-3).
    pub(super) fn keep(
        &self,
        authorization: &str,
        login: &Login,
        expires: Option<i64>,
        generation: u64,
    ) {
        let hash = self.hash(authorization);
        let mut state = self.state();
        if state.generation != generation {
            return;
        }
        if LOGINS_MAX <= state.logins.len() && !state.logins.contains_key(&hash) {
            let oldest = state.logins.iter().min_by_key(|(_, cached)| cached.last);
            let oldest = oldest.map(|(hash, _)| hash.clone());
            oldest.and_then(|oldest| state.logins.remove(&oldest));
        }
        state.uses += 1;
        let cached = CachedLogin { login: login.clone(), expires, last: state.uses };
        state.logins.insert(hash, cached);
    }

    /// Empties the cache and begins a new generation (login_cache-3).
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.generation += 1;
        state.logins.clear();
    }

    /// Returns the key of the cache entry (login_cache-1).
    fn hash(&self, authorization: &str) -> Vec<u8> {
        hmac::sign(&self.key, authorization.as_bytes()).as_ref().to_vec()
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
    fn the_login_unused_for_longest_is_evicted() {
        let cache = LoginCache::new();
        let login = Login { user: "ann".to_owned(), role: Role::Reader };
        for number in 0..LOGINS_MAX {
            cache.keep(&number.to_string(), &login, None, 0);
        }
        assert!(cache.find("0", 0).is_some());
        cache.keep("one more", &login, None, 0);
        assert!(cache.find("0", 0).is_some() && cache.find("1", 0).is_none(), "login_cache-2");
        assert_eq!(cache.state().logins.len(), LOGINS_MAX, "login_cache-2");
    }

    #[test]
    fn a_login_checked_while_users_changed_is_not_cached() {
        let cache = LoginCache::new();
        let login = Login { user: "ann".to_owned(), role: Role::Reader };
        let generation = cache.generation();
        cache.forget();
        cache.keep("x", &login, None, generation);
        assert_eq!(cache.find("x", 0), None, "login_cache-3");
    }
}
