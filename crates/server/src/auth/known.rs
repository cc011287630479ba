//! Who has shown who he is, so that he is not asked for 4,096 rounds with every request.
//!
//! - KN1. What was shown is kept as a hash with a key of this process: it cannot be found again.
//! - KN2. At most `LOGINS_MAX` are known; who was silent for longest is asked again.
//! - KN3. When users change, nobody is known any more, and neither is who was checked meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::hmac;

use super::{Role, random_bytes};

/// KN2.
const LOGINS_MAX: usize = 1_024;

/// Somebody who has shown who he is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) role: Role,
}

/// See the module.
#[derive(Debug)]
pub(super) struct KnownLogins {
    key: hmac::Key,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How often users have changed.
    generation: u64,
    /// How often somebody was known.
    uses: u64,
    logins: HashMap<Vec<u8>, Known>,
}

#[derive(Debug)]
struct Known {
    login: Login,
    /// In seconds since 1970.
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

    /// Keeps who was checked in this generation (KN3).
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

    /// KN3.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.generation += 1;
        state.logins.clear();
    }

    /// KN1.
    fn hash(&self, shown: &str) -> Vec<u8> {
        hmac::sign(&self.key, shown.as_bytes()).as_ref().to_vec()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole logins are put in and taken out.
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
