//! Who somebody is: users, their passwords and tokens, and how long somebody waits who has the
//! wrong one.
//!
//! - AU1. A password is kept as a verifier (RFC 5802), a token as its hash: what is kept does not
//!   let anybody in.
//! - AU2. Whether there is a user is not told: for one that is not there, everything is asked and
//!   answered as for one that has another password.
//! - AU3. From the fifth failure on, an address waits longer with each, up to `DELAY_MAX`, before
//!   it is told; others do not wait. Failures are forgotten with the next success, and so are those
//!   of the address that has been silent for longest when there are `ADDRESSES_MAX`.
//! - AU4. The file of users is looked at whenever somebody says who he is. One that is damaged
//!   changes nothing: those who were there stay.
//!
//! Passwords are compared as they are, without the normal forms of RFC 4013: whoever has letters in
//! it that can be written in several ways writes it in one. Not here: how somebody is asked (`pg`,
//! `http::guard`), and what he may do then (`query::rights`).

mod scram;
mod file;
mod credentials;
mod known;

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ring::hmac;
use tidegate_platform::{RealDisk, sentence};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::config::AuthConfig;
use crate::log::Log;
use file::Digest;
use known::KnownLogins;
use scram::hash;

pub(crate) use credentials::Credentials;
pub use file::{StoredToken, StoredUser, UserFile, UserFileError};
pub(crate) use known::Login;
pub(crate) use scram::{Refused, Scram, Verifier, random_bytes};
pub(crate) use tidegate_query::Role;

/// Failures of an address that cost it no time.
const FREE_FAILURES: u32 = 4;
/// What the first one that does costs.
const DELAY: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(10);
/// Addresses whose failures are counted.
const ADDRESSES_MAX: usize = 1_024;
/// Passwords that are checked at the same time over HTTP: each takes a core for a millisecond or
/// more, and statements have other work for it.
const CHECKS_MAX: usize = 2;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) role: Role,
    verifier: Verifier,
}

impl User {
    /// One with a password, or with a verifier of it.
    pub(crate) fn new(name: &str, password: &str, role: Role) -> User {
        let verifier = Verifier::parse(password).unwrap_or_else(|| Verifier::new(password));
        User { name: name.to_owned(), role, verifier }
    }

    /// Those of the configuration.
    pub(crate) fn configured(config: &AuthConfig) -> Vec<User> {
        let AuthConfig { admin_user, admin_password, readonly_user, readonly_password, .. } =
            config;
        let reader = (readonly_user, readonly_password, Role::Reader);
        let reader = Some(reader).filter(|_| config.readonly_enabled);
        let users = reader.into_iter().chain([(admin_user, admin_password, Role::Admin)]);
        users.map(|(name, password, role)| User::new(name, &password.0, role)).collect()
    }
}

/// All users, and the failures of those who are none.
#[derive(Debug)]
pub(crate) struct Users {
    /// Those of the configuration: a name of theirs is theirs alone.
    configured: Vec<User>,
    /// The file with the others.
    path: PathBuf,
    log: Arc<Log>,
    book: RwLock<Arc<Book>>,
    /// Of the file that the book is made of.
    stamp: Mutex<Option<Stamp>>,
    /// What verifiers of users are made of that are not there (AU2).
    secret: hmac::Key,
    failures: Mutex<HashMap<IpAddr, Failures>>,
    known: KnownLogins,
    checks: Semaphore,
}

/// Those who may come in, as of some moment.
#[derive(Debug, Default)]
struct Book {
    users: HashMap<String, User>,
    tokens: HashMap<Digest, StoredToken>,
}

/// What changes when a file does.
type Stamp = (u64, u64, i64, i64);

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    /// Which failure of all was the last one.
    last: u64,
}

impl Book {
    fn new(configured: &[User], file: UserFile) -> Book {
        let stored = file.users.into_iter().map(|user| {
            let StoredUser { name, role, verifier } = user;
            User { name, role, verifier }
        });
        // The last of a name counts.
        let users = stored.chain(configured.iter().cloned());
        Book {
            users: users.map(|user| (user.name.clone(), user)).collect(),
            tokens: file.tokens.into_iter().map(|token| (token.digest, token)).collect(),
        }
    }

    /// What has become of users and tokens, a sentence each.
    fn changes_to(&self, next: &Book) -> Vec<String> {
        let mut changes = Vec::new();
        for (name, user) in &next.users {
            match self.users.get(name) {
                None => changes.push(format!("user `{name}` is new, a {}", user.role.name())),
                Some(old) if old.role != user.role => {
                    changes.push(format!("user `{name}` is a {} now", user.role.name()));
                }
                Some(old) if old != user => changes.push(format!("user `{name}`: new password")),
                Some(_) => {}
            }
        }
        let gone = self.users.keys().filter(|name| !next.users.contains_key(*name));
        changes.extend(gone.map(|name| format!("user `{name}` is gone")));
        let of = |book: &Book, other: &Book, what: &str| {
            let tokens = book.tokens.values().filter(|it| !other.tokens.contains_key(&it.digest));
            let text = |it: &StoredToken| format!("token {} of `{}` is {what}", it.id, it.user);
            tokens.map(text).collect::<Vec<_>>()
        };
        changes.extend(of(next, self, "new"));
        changes.extend(of(self, next, "gone"));
        changes
    }
}

impl Users {
    /// Users of the configuration, and of a file.
    pub(crate) fn new(
        configured: Vec<User>,
        path: PathBuf,
        log: Arc<Log>,
    ) -> Result<Users, UserFileError> {
        let stamp = stamp(&path);
        let file = UserFile::read(&RealDisk, &path)?;
        for user in &file.users {
            if configured.iter().any(|it| it.name == user.name) {
                let name = &user.name;
                let text = format_args!("`{name}` is a user of the configuration, not of the file");
                log.warn("audit", text);
            }
        }
        let book = RwLock::new(Arc::new(Book::new(&configured, file)));
        Ok(Users {
            configured,
            path,
            log,
            book,
            stamp: Mutex::new(stamp),
            secret: hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>()),
            failures: Mutex::default(),
            known: KnownLogins::new(),
            checks: Semaphore::new(CHECKS_MAX),
        })
    }

    /// Looks whether the file has changed (AU4).
    pub(crate) fn refresh(&self) {
        let mut known = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.path);
        if *known == stamp {
            return;
        }
        *known = stamp;
        self.reload();
    }

    /// Reads the file now.
    pub(crate) fn reload(&self) {
        match UserFile::read(&RealDisk, &self.path) {
            Ok(file) => self.take(Book::new(&self.configured, file)),
            Err(error) => {
                let error = sentence(&error);
                self.log.warn("audit", format_args!("users stay as they were: {error}"));
            }
        }
    }

    fn take(&self, next: Book) {
        for change in self.book().changes_to(&next) {
            self.log.info("audit", format_args!("{change}"));
        }
        *self.book.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.known.forget();
    }

    fn book(&self) -> Arc<Book> {
        Arc::clone(&self.book.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a user may do; `None` if there is none.
    pub(crate) fn role_of(&self, name: &str) -> Option<Role> {
        self.book().users.get(name).map(|user| user.role)
    }

    /// What a password is compared with; for a user that is not there, something that no password
    /// is equal to (AU2).
    pub(crate) fn verifier(&self, name: &str) -> Verifier {
        self.refresh();
        match self.book().users.get(name) {
            Some(user) => user.verifier.clone(),
            None => Verifier::of_nobody(&self.secret, name),
        }
    }

    /// Whether this is the password of the user.
    pub(crate) fn is_password(&self, name: &str, password: &[u8]) -> bool {
        let is_equal = self.verifier(name).is_of(password);
        is_equal && self.role_of(name).is_some()
    }

    /// Who has shown this before, and may still come in.
    pub(crate) fn known(&self, shown: &str, now_seconds: i64) -> Option<Login> {
        self.refresh();
        self.known.find(shown, now_seconds)
    }

    /// Who shows this, if he is one of us; he is known from then on. A password is checked where it
    /// holds up nobody.
    pub(crate) async fn log_in(&self, shown: &str, now_seconds: i64) -> Option<Login> {
        let generation = self.known.generation();
        let book = self.book();
        let (name, expires) = match Credentials::parse(shown)? {
            Credentials::Token(token) => {
                let token = book.tokens.get(&hash(token.as_bytes()))?;
                if token.expires.is_some_and(|end| end <= now_seconds) {
                    return None;
                }
                (token.user.clone(), token.expires)
            }
            Credentials::Password { user, password } => {
                let verifier = self.verifier(&user);
                let turn = self.checks.acquire().await.ok()?;
                let check = spawn_blocking(move || verifier.is_of(password.as_bytes()));
                let is_right = check.await.unwrap_or(false);
                drop(turn);
                (Some(user).filter(|_| is_right)?, None)
            }
        };
        let role = book.users.get(&name)?.role;
        let login = Login { user: name, role };
        self.known.keep(shown, (&login, expires), generation);
        Some(login)
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

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

fn delay(failures: u32) -> Duration {
    match failures.checked_sub(FREE_FAILURES + 1) {
        None => Duration::ZERO,
        Some(doublings) => DELAY.saturating_mul(1 << doublings.min(16)).min(DELAY_MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use tidegate_platform::SimClock;

    use super::*;

    fn users() -> Users {
        users_with(PathBuf::from("/nowhere/users.toml"))
    }

    fn users_with(path: PathBuf) -> Users {
        let configured =
            vec![User::new("admin", "quest", Role::Admin), User::new("user", "look", Role::Reader)];
        let log = Log::new(Arc::new(SimClock::new(0)), Box::new(io::sink()));
        Users::new(configured, path, Arc::new(log)).unwrap()
    }

    #[test]
    fn passwords_are_those_of_their_users() {
        let users = users();
        assert!(users.is_password("admin", b"quest") && users.is_password("user", b"look"));
        assert!(!users.is_password("admin", b"look") && !users.is_password("admin", b""));
        assert!(!users.is_password("nobody", b"quest") && !users.is_password("Admin", b"quest"));
        assert_eq!(users.role_of("user"), Some(Role::Reader));
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

    fn basic(user: &str, password: &str) -> String {
        format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
    }

    #[tokio::test]
    async fn whoever_is_known_is_not_asked_again_until_users_change() {
        let users = users();
        let (right, wrong) = (basic("user", "look"), basic("user", "quest"));
        let login = Login { user: "user".to_owned(), role: Role::Reader };
        assert_eq!(users.known(&right, 0), None);
        assert_eq!(users.log_in(&right, 0).await, Some(login.clone()));
        assert_eq!(users.known(&right, 0), Some(login));
        assert_eq!((users.log_in(&wrong, 0).await, users.known(&wrong, 0)), (None, None));
        assert_eq!(users.log_in(&basic("nobody", "look"), 0).await, None, "AU2");
        users.take(Book::new(&users.configured, UserFile::default()));
        assert_eq!(users.known(&right, 0), None, "KN3");
    }

    #[tokio::test]
    async fn a_token_is_its_user_until_it_expires() {
        let users = users();
        let mut file = UserFile::default();
        file.add_user("ann", Role::Writer, "secret").unwrap();
        let lasting = file.add_token("ann", None).unwrap();
        let passing = file.add_token("ann", Some(100)).unwrap();
        let orphan = file.add_token("bob", None).unwrap();
        users.take(Book::new(&users.configured, file));
        let ann = Login { user: "ann".to_owned(), role: Role::Writer };
        for scheme in ["Bearer", "Token", "bearer"] {
            let shown = format!("{scheme} {lasting}");
            assert_eq!(users.log_in(&shown, 1_000).await, Some(ann.clone()), "{shown}");
        }
        let shown = format!("Bearer {passing}");
        assert_eq!(users.log_in(&shown, 99).await, Some(ann.clone()));
        assert_eq!(users.known(&shown, 99), Some(ann));
        assert_eq!((users.known(&shown, 100), users.log_in(&shown, 100).await), (None, None));
        assert_eq!(users.log_in(&format!("Bearer {orphan}"), 0).await, None);
        assert_eq!(users.log_in("Bearer tg_x", 0).await, None);
    }

    #[test]
    fn what_has_become_of_users_is_told_without_secrets() {
        let mut file = UserFile::default();
        file.add_user("ann", Role::Writer, "secret").unwrap();
        file.add_token("ann", None).unwrap();
        let (none, some) = (Book::default(), Book::new(&[], file.clone()));
        let id = file.tokens[0].id.clone();
        let expected =
            ["user `ann` is new, a writer".to_owned(), format!("token {id} of `ann` is new")];
        assert_eq!(none.changes_to(&some), expected);
        file.set_password("ann", "another").unwrap();
        let changed = Book::new(&[], file.clone());
        assert_eq!(some.changes_to(&changed), ["user `ann`: new password"]);
        let expected = ["user `ann` is gone".to_owned(), format!("token {id} of `ann` is gone")];
        assert_eq!(changed.changes_to(&none), expected);
    }

    #[test]
    fn a_name_of_the_configuration_is_its_own() {
        let users = users();
        let mut file = UserFile::default();
        file.add_user("user", Role::Admin, "other").unwrap();
        users.take(Book::new(&users.configured, file));
        assert_eq!(users.role_of("user"), Some(Role::Reader));
        assert!(users.is_password("user", b"look") && !users.is_password("user", b"other"));
    }
}
