//! Who may do what: users, their passwords, and how long somebody waits who has the wrong one.
//!
//! - AU1. A password is kept as a verifier (RFC 5802): what is kept does not let anybody in.
//! - AU2. Whether there is a user is not told: for one that is not there, everything is asked and
//!   answered as for one that has another password.
//! - AU3. From the fifth failure on, an address waits longer with each, up to `DELAY_MAX`, before
//!   it is told; others do not wait. Failures are forgotten with the next success, and so are those
//!   of the address that has been silent for longest when there are `ADDRESSES_MAX`.
//!
//! Passwords are compared as they are, without the normal forms of RFC 4013: whoever has letters in
//! it that can be written in several ways writes it in one. Not here: how somebody is asked (`pg`).

mod scram;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ring::hmac;

pub(crate) use scram::{Refused, Scram, Verifier, random_bytes};

/// Failures of an address that cost it no time.
const FREE_FAILURES: u32 = 4;
/// What the first one that does costs.
const DELAY: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(10);
/// Addresses whose failures are counted.
const ADDRESSES_MAX: usize = 1_024;

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Admin,
    /// Look, and change nothing.
    Reader,
}

/// A user.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) role: Role,
    verifier: Verifier,
}

/// All users, and the failures of those who are none.
#[derive(Debug)]
pub(crate) struct Users {
    users: Vec<User>,
    /// What verifiers of users are made of that are not there (AU2).
    secret: hmac::Key,
    failures: Mutex<HashMap<IpAddr, Failures>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    /// Which failure of all was the last one.
    last: u64,
}

impl Users {
    /// Users with their passwords, or with verifiers of them.
    pub(crate) fn new(users: &[(&str, &str, Role)]) -> Users {
        let user = |&(name, password, role): &(&str, &str, Role)| {
            let verifier = Verifier::parse(password).unwrap_or_else(|| Verifier::new(password));
            User { name: name.to_owned(), role, verifier }
        };
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>());
        let failures = Mutex::default();
        Users { users: users.iter().map(user).collect(), secret, failures }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name == name)
    }

    /// What a password is compared with; for a user that is not there, something that no password
    /// is equal to (AU2).
    pub(crate) fn verifier(&self, name: &str) -> Verifier {
        match self.find(name) {
            Some(user) => user.verifier.clone(),
            None => Verifier::of_nobody(&self.secret, name),
        }
    }

    /// Whether this is the password of the user.
    pub(crate) fn is_password(&self, name: &str, password: &[u8]) -> bool {
        let is_equal = self.verifier(name).is_of(password);
        is_equal && self.find(name).is_some()
    }

    /// Counts a failure, and says how long the address is to wait (AU3).
    pub(crate) fn failed(&self, address: IpAddr) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let last = failures.values().map(|it| it.last).max().map_or(0, |last| last + 1);
        if failures.len() >= ADDRESSES_MAX && !failures.contains_key(&address) {
            let oldest = failures.iter().min_by_key(|(_, it)| it.last).map(|(address, _)| *address);
            oldest.and_then(|oldest| failures.remove(&oldest));
        }
        let of_address = failures.entry(address).or_default();
        of_address.count = of_address.count.saturating_add(1);
        of_address.last = last;
        delay(of_address.count)
    }

    /// Forgets the failures of an address.
    pub(crate) fn succeeded(&self, address: IpAddr) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
    }
}

fn delay(failures: u32) -> Duration {
    match failures.checked_sub(FREE_FAILURES + 1) {
        None => Duration::ZERO,
        Some(doublings) => DELAY.saturating_mul(1 << doublings.min(16)).min(DELAY_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Users {
        Users::new(&[("admin", "quest", Role::Admin), ("user", "look", Role::Reader)])
    }

    #[test]
    fn passwords_are_those_of_their_users() {
        let users = users();
        assert!(users.is_password("admin", b"quest") && users.is_password("user", b"look"));
        assert!(!users.is_password("admin", b"look") && !users.is_password("admin", b""));
        assert!(!users.is_password("nobody", b"quest") && !users.is_password("Admin", b"quest"));
        assert_eq!(users.find("user").map(|user| user.role), Some(Role::Reader));
    }

    #[test]
    fn whoever_is_not_there_has_the_same_salt_every_time() {
        let users = users();
        let (one, again) = (users.verifier("nobody"), users.verifier("nobody"));
        assert_eq!(one, again, "AU2");
        assert_ne!(one, users.verifier("somebody"), "AU2");
    }

    #[test]
    fn the_fifth_failure_waits_and_others_do_not() {
        let users = users();
        let (bad, good) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let delays: Vec<_> = (0..7).map(|_| users.failed(bad).as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 0, 200, 400, 800], "AU3");
        assert_eq!(users.failed(good), Duration::ZERO, "AU3");
        users.succeeded(bad);
        assert_eq!(users.failed(bad), Duration::ZERO, "AU3");
        assert_eq!(delay(u32::MAX), DELAY_MAX);
        for number in 0..2_000_u32 {
            users.failed(IpAddr::from(number.to_be_bytes()));
        }
        assert_eq!(users.failures.lock().unwrap().len(), ADDRESSES_MAX, "AU3");
    }
}
