//! Authentication: users, passwords, tokens, and back-off after failed logins.
//!
//! - A password is stored as a verifier (RFC 5802), a token as its hash: the stored form is not
//!   enough to log in.
//! - auth-2. A client cannot find out which users exist: an unknown user gets the same questions
//!   and the same answers as a user with a wrong password.
//! - auth-3. From the fifth failure on, an address waits longer for the answer with each failure;
//!   other addresses do not wait (`failures`).
//! - auth-4. The file of users is checked for changes at each login, and every `CHECK_INTERVAL`. A
//!   damaged file changes nothing: the users that were read before it stay valid.
//! - auth-5. A login is valid as long as its user is unchanged since then. It ends when the user is
//!   removed or gets another password or role, also while the login is still in progress.
//! - auth-6. A role is always that of a user: without a user there is no login.
//!   `trust`, which asks for no password, needs the name of a user too.
//!
//! Passwords are compared byte by byte, without the normal forms of RFC 4013: a password with
//! letters that have several encodings must be sent in the same one each time. Not here: the
//! exchange with the client (`pg`, `http::guard`), and authorization (`query::authorization`).

mod scram;
mod file;
mod credentials;
mod login_cache;
mod grant;
mod failures;

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ring::hmac;
use tidegate_platform::{RealDisk, sentence};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::config::AuthConfig;
use crate::log::Log;
use crate::verifier::{Verifier, hash, random_bytes};
use failures::Failures;
use file::Digest;
use login_cache::LoginCache;

pub(crate) use credentials::Credentials;
pub use file::{StoredToken, StoredUser, UserFile, UserFileError};
pub(crate) use grant::Grant;
pub(crate) use login_cache::Login;
pub(crate) use scram::{Channel, Refused, Scram};
pub(crate) use tidegate_query::Role;

/// The interval at which the file of users is checked for changes without a login (auth-4).
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The most passwords that are checked at the same time: each check takes a core for a millisecond
/// or more, and statements need the cores too.
const CHECKS_MAX: usize = 2;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) role: Role,
    verifier: Verifier,
}

impl User {
    /// Makes a user with a password, or with a verifier of it.
    pub(crate) fn new(name: &str, password: &str, role: Role) -> User {
        let verifier = Verifier::parse(password).unwrap_or_else(|| Verifier::new(password));
        User { name: name.to_owned(), role, verifier }
    }

    /// Returns the users of the configuration.
    pub(crate) fn configured(config: &AuthConfig) -> Vec<User> {
        let AuthConfig { admin_user, admin_password, readonly_user, readonly_password, .. } =
            config;
        let reader = (readonly_user, readonly_password, Role::Reader);
        let reader = Some(reader).filter(|_| config.readonly_enabled);
        let users = reader.into_iter().chain([(admin_user, admin_password, Role::Admin)]);
        users.map(|(name, password, role)| User::new(name, &password.0, role)).collect()
    }
}

/// All users, and the counters of failed logins.
#[derive(Debug)]
pub(crate) struct Users {
    /// The users of the configuration. They take precedence over users of the same name in the
    /// file.
    configured: Vec<User>,
    /// The file with the other users.
    path: PathBuf,
    log: Arc<Log>,
    directory: RwLock<Arc<UserDirectory>>,
    /// The stamp of the file that `directory` was read from.
    stamp: Mutex<Option<Stamp>>,
    /// The key from which verifiers for unknown users are derived (auth-2).
    secret: hmac::Key,
    failures: Mutex<Failures>,
    login_cache: LoginCache,
    checks: Semaphore,
    /// The number of changes of users (auth-5).
    changes: watch::Sender<u64>,
}

/// The users and tokens that are valid at one moment.
#[derive(Debug, Default)]
struct UserDirectory {
    users: HashMap<String, User>,
    tokens: HashMap<Digest, StoredToken>,
}

/// The metadata of a file that changes with its content.
type Stamp = (u64, u64, i64, i64);

impl UserDirectory {
    fn new(configured: &[User], file: UserFile) -> UserDirectory {
        let stored = file.users.into_iter().map(|user| {
            let StoredUser { name, role, verifier } = user;
            User { name, role, verifier }
        });
        // The last of a name wins.
        let users = stored.chain(configured.iter().cloned());
        UserDirectory {
            users: users.map(|user| (user.name.clone(), user)).collect(),
            tokens: file.tokens.into_iter().map(|token| (token.digest, token)).collect(),
        }
    }

    /// Describes the changes of users and tokens, a sentence each.
    fn changes_to(&self, next: &UserDirectory) -> Vec<String> {
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
        let of = |directory: &UserDirectory, other: &UserDirectory, what: &str| {
            let tokens =
                directory.tokens.values().filter(|it| !other.tokens.contains_key(&it.digest));
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
        let directory = RwLock::new(Arc::new(UserDirectory::new(&configured, file)));
        Ok(Users {
            configured,
            path,
            log,
            directory,
            stamp: Mutex::new(stamp),
            secret: hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>()),
            failures: Mutex::default(),
            login_cache: LoginCache::new(),
            checks: Semaphore::new(CHECKS_MAX),
            changes: watch::channel(0).0,
        })
    }

    /// Reads the file if it has changed (auth-4).
    pub(crate) fn refresh(&self) {
        let mut last = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.path);
        if *last != stamp {
            *last = stamp;
            self.read();
        }
    }

    /// Reads the file now.
    pub(crate) fn reload(&self) {
        // It is read under the lock, so that an older content never replaces a newer one.
        let mut last = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        *last = stamp(&self.path);
        self.read();
    }

    fn read(&self) {
        match UserFile::read(&RealDisk, &self.path) {
            Ok(file) => self.take(UserDirectory::new(&self.configured, file)),
            Err(error) => {
                let error = sentence(&error);
                self.log.warn("audit", format_args!("users stay as they were: {error}"));
            }
        }
    }

    fn take(&self, next: UserDirectory) {
        for change in self.directory().changes_to(&next) {
            self.log.info("audit", format_args!("{change}"));
        }
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.login_cache.forget();
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns a receiver that is notified of each change of users (auth-5).
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn directory(&self) -> Arc<UserDirectory> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the verifier that a password is compared with; for an unknown user, one that no
    /// password matches (auth-2).
    pub(crate) fn verifier(&self, name: &str) -> Verifier {
        self.refresh();
        match self.directory().users.get(name) {
            Some(user) => user.verifier.clone(),
            None => Verifier::of_nobody(&self.secret, name),
        }
    }

    /// Returns the login of a user whose password was compared with this verifier. `None` if there
    /// is no such user, or no longer (auth-5).
    pub(crate) fn grant(&self, name: &str, verifier: &Verifier) -> Option<Grant> {
        self.refresh();
        let directory = self.directory();
        let user = directory.users.get(name).filter(|user| user.verifier == *verifier)?;
        Some(Grant::of_user(user))
    }

    /// Returns the login of a user with this password, which is checked on a blocking thread.
    pub(crate) async fn check_password(&self, name: &str, password: Vec<u8>) -> Option<Grant> {
        let verifier = self.verifier(name);
        let permit = self.checks.acquire().await.ok()?;
        let check = spawn_blocking(move || verifier.is_of(&password).then_some(verifier));
        let verifier = check.await.unwrap_or_default();
        drop(permit);
        self.grant(name, &verifier?)
    }

    /// Returns the login of a user whose name is believed without a password. `None` if there is no
    /// such user (auth-6).
    pub(crate) fn trust(&self, name: &str) -> Option<Grant> {
        self.refresh();
        self.directory().users.get(name).map(Grant::of_user)
    }

    /// Returns true if a login is still valid (auth-5).
    pub(crate) fn holds(&self, grant: &Grant) -> bool {
        grant.holds(|name| self.directory().users.get(name).cloned())
    }

    /// Returns the cached login of these credentials, if it is still valid.
    pub(crate) fn cached_login(&self, authorization: &str, now_seconds: i64) -> Option<Login> {
        self.refresh();
        self.login_cache.find(authorization, now_seconds)
    }

    /// Returns the login that these credentials belong to, if any, and caches it. A password is
    /// checked on a blocking thread.
    pub(crate) async fn log_in(&self, authorization: &str, now_seconds: i64) -> Option<Login> {
        let generation = self.login_cache.generation();
        let directory = self.directory();
        let (grant, expires) = match Credentials::parse(authorization)? {
            Credentials::Token(token) => {
                let token = directory.tokens.get(&hash(token.as_bytes()))?;
                if token.expires.is_some_and(|end| end <= now_seconds) {
                    return None;
                }
                (Grant::of_user(directory.users.get(&token.user)?), token.expires)
            }
            Credentials::Password { user, password } => {
                (self.check_password(&user, password.into_bytes()).await?, None)
            }
        };
        let login = Login { user: grant.name().to_owned(), role: grant.role() };
        self.login_cache.keep(authorization, &login, expires, generation);
        Some(login)
    }

    /// Counts a failure, and returns the time until it may be answered (auth-3).
    pub(crate) fn failed(&self, address: IpAddr, name: &str) -> Duration {
        self.failures().failed(address, name, Instant::now())
    }

    /// Forgets the failures of an address and a name.
    pub(crate) fn succeeded(&self, address: IpAddr, name: &str) {
        self.failures().succeeded(address, name);
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
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

    /// Returns the role that a password gives.
    async fn role(users: &Users, name: &str, password: &str) -> Option<Role> {
        users.check_password(name, password.into()).await.map(|grant| grant.role())
    }

    #[tokio::test]
    async fn passwords_are_those_of_their_users() {
        let users = users();
        assert_eq!(role(&users, "admin", "quest").await, Some(Role::Admin));
        assert_eq!(role(&users, "user", "look").await, Some(Role::Reader));
        for (name, password) in
            [("admin", "look"), ("admin", ""), ("nobody", "quest"), ("Admin", "quest")]
        {
            assert_eq!(role(&users, name, password).await, None, "{name} {password}");
        }
    }

    // A reader that was removed between the server's challenge and its own proof was let in as an
    // administrator: a role that was not found was taken for that of `trust`. A reader whose
    // password had been changed meanwhile was let in with the old one, and open sessions stayed
    // open.
    #[test]
    fn a_login_is_over_when_its_user_is_removed_or_changed() {
        let users = users();
        let mut file = UserFile::default();
        file.add_user("bob", Role::Reader, "secret").unwrap();
        let set = |file: &UserFile| users.take(UserDirectory::new(&users.configured, file.clone()));
        set(&file);
        let challenged = users.verifier("bob");
        let open = users.grant("bob", &challenged).expect("it is there");
        assert_eq!((open.role(), users.holds(&open)), (Role::Reader, true));
        let before = *users.changes().borrow();
        let mut other = file.clone();
        other.set_password("bob", "another").unwrap();
        let mut raised = file.clone();
        raised.users[0].role = Role::Writer;
        for changed in [UserFile::default(), other, raised] {
            set(&changed);
            assert!(!users.holds(&open), "auth-5");
        }
        assert_eq!(*users.changes().borrow(), before + 3, "auth-5");
        let mut other = file.clone();
        other.set_password("bob", "another").unwrap();
        for changed in [UserFile::default(), other] {
            set(&changed);
            assert!(users.grant("bob", &challenged).is_none(), "auth-5, auth-6");
        }
        set(&file);
        assert!(users.holds(&open) && users.grant("bob", &challenged).is_some());
        assert!(users.trust("eve").is_none(), "auth-6: no unknown name has a role");
        assert_eq!(users.trust("bob").map(|grant| grant.role()), Some(Role::Reader), "auth-6");
    }

    #[test]
    fn an_unknown_user_gets_the_same_salt_every_time() {
        let users = users();
        let (one, again) = (users.verifier("nobody"), users.verifier("nobody"));
        assert_eq!(one, again, "auth-2");
        assert_ne!(one, users.verifier("somebody"), "auth-2");
    }

    fn basic(user: &str, password: &str) -> String {
        format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
    }

    #[tokio::test]
    async fn a_cached_login_is_not_checked_again_until_users_change() {
        let users = users();
        let (right, wrong) = (basic("user", "look"), basic("user", "quest"));
        let login = Login { user: "user".to_owned(), role: Role::Reader };
        assert_eq!(users.cached_login(&right, 0), None);
        assert_eq!(users.log_in(&right, 0).await, Some(login.clone()));
        assert_eq!(users.cached_login(&right, 0), Some(login));
        assert_eq!((users.log_in(&wrong, 0).await, users.cached_login(&wrong, 0)), (None, None));
        assert_eq!(users.log_in(&basic("nobody", "look"), 0).await, None, "auth-2");
        users.take(UserDirectory::new(&users.configured, UserFile::default()));
        assert_eq!(users.cached_login(&right, 0), None, "login_cache-3");
    }

    #[tokio::test]
    async fn a_token_is_its_user_until_it_expires() {
        let users = users();
        let mut file = UserFile::default();
        file.add_user("ann", Role::Writer, "secret").unwrap();
        let lasting = file.add_token("ann", None).unwrap();
        let passing = file.add_token("ann", Some(100)).unwrap();
        let orphan = file.add_token("bob", None).unwrap();
        users.take(UserDirectory::new(&users.configured, file));
        let ann = Login { user: "ann".to_owned(), role: Role::Writer };
        for scheme in ["Bearer", "Token", "bearer"] {
            let authorization = format!("{scheme} {lasting}");
            assert_eq!(
                users.log_in(&authorization, 1_000).await,
                Some(ann.clone()),
                "{authorization}"
            );
        }
        let authorization = format!("Bearer {passing}");
        assert_eq!(users.log_in(&authorization, 99).await, Some(ann.clone()));
        assert_eq!(users.cached_login(&authorization, 99), Some(ann));
        assert_eq!(
            (users.cached_login(&authorization, 100), users.log_in(&authorization, 100).await),
            (None, None)
        );
        assert_eq!(users.log_in(&format!("Bearer {orphan}"), 0).await, None);
        assert_eq!(users.log_in("Bearer tg_x", 0).await, None);
    }

    #[test]
    fn changes_of_users_are_logged_without_secrets() {
        let mut file = UserFile::default();
        file.add_user("ann", Role::Writer, "secret").unwrap();
        file.add_token("ann", None).unwrap();
        let (none, some) = (UserDirectory::default(), UserDirectory::new(&[], file.clone()));
        let id = file.tokens[0].id.clone();
        let expected =
            ["user `ann` is new, a writer".to_owned(), format!("token {id} of `ann` is new")];
        assert_eq!(none.changes_to(&some), expected);
        file.set_password("ann", "another").unwrap();
        let changed = UserDirectory::new(&[], file.clone());
        assert_eq!(some.changes_to(&changed), ["user `ann`: new password"]);
        let expected = ["user `ann` is gone".to_owned(), format!("token {id} of `ann` is gone")];
        assert_eq!(changed.changes_to(&none), expected);
    }

    #[tokio::test]
    async fn a_name_of_the_configuration_is_its_own() {
        let users = users();
        let mut file = UserFile::default();
        file.add_user("user", Role::Admin, "other").unwrap();
        users.take(UserDirectory::new(&users.configured, file));
        assert_eq!(role(&users, "user", "look").await, Some(Role::Reader));
        assert_eq!(role(&users, "user", "other").await, None);
    }
}
