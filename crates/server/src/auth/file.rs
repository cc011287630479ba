//! The file `conf/users.toml`: users beside those of the configuration, and their tokens.
//!
//! - auth_file-1. A password is stored as a verifier and a token as its SHA-256: reading the file
//!   is not enough to log in. Still, only its owner may read it.
//! - auth_file-2. A file is replaced as a whole: written new, synced, renamed. A process that
//!   changes it holds `conf/users.lock` from reading it until the rename.
//! - auth_file-3. Unknown content is an error that names the line, and is never ignored.
//!
//! Its format is TOML, so that it can be read and, with care, edited:
//!
//! ```toml
//! [[user]]
//! name = "ann"
//! role = "writer"
//! password = "SCRAM-SHA-256$4096:..."
//!
//! [[token]]
//! id = "5f0c33a1"
//! user = "ann"
//! sha256 = "..."
//! expires = 1798675200
//! ```
//!
//! Not here: prompts for passwords and listings (`tidegate`), and logins (`auth`).

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tidegate_ingest::parse::parse_binary;
use tidegate_model::limits;
use tidegate_platform::{Disk, Error as DiskError, OpenMode};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Role;
use crate::value_text::hex;
use crate::verifier::{Verifier, hash, random_bytes};

/// The most users of a file; more than these belong in a directory service.
const USERS_MAX: usize = 10_000;
const TOKENS_MAX: usize = 10_000;
/// The most bytes of a file; a user or token takes less than 500 of them.
const FILE_BYTES_MAX: u64 = 10 << 20;
/// The prefix of every token, so that it is recognised wherever it appears.
const TOKEN_PREFIX: &str = "tg_";
/// The most bytes of a password, the same bound as that of a message with one.
const PASSWORD_BYTES_MAX: usize = 1_000;

/// The SHA-256 of a token.
pub(super) type Digest = [u8; 32];

/// The stored users and tokens.
#[derive(Clone, Debug, Default)]
pub struct UserFile {
    pub(super) users: Vec<StoredUser>,
    pub(super) tokens: Vec<StoredToken>,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredUser {
    /// The name of the user.
    pub name: String,
    /// The role of the user.
    pub role: Role,
    pub(super) verifier: Verifier,
}

/// A token of a user, with the role of that user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredToken {
    /// Eight hex digits that identify the token.
    pub id: String,
    /// The name of the user that it belongs to.
    pub user: String,
    pub(super) digest: Digest,
    /// The end of its validity, in seconds since 1970; `None` for no end.
    pub expires: Option<i64>,
}

/// The reason why users are not read, or not changed.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "a message is the doc of its error")]
#[non_exhaustive]
pub enum UserFileError {
    #[error("{purpose} of {}", .path.display())]
    Disk { purpose: &'static str, path: PathBuf, source: DiskError },
    #[error("{} can be read by other users: restrict it with chmod 600", .path.display())]
    Open { path: PathBuf },
    #[error("{} is larger than {FILE_BYTES_MAX} bytes", .path.display())]
    TooLarge { path: PathBuf },
    #[error("{}, line {line}: {what}", .path.display())]
    Line { path: PathBuf, line: usize, what: String },
    #[error("user `{name}` exists already")]
    UserTwice { name: String },
    #[error("user `{name}` does not exist")]
    NoSuchUser { name: String },
    #[error("token `{id}` does not exist")]
    NoSuchToken { id: String },
    #[error(
        "the name of a user has 1 to {} bytes, and no colons or control characters",
        limits::NAME_BYTES
    )]
    BadName,
    #[error("a password has 1 to {PASSWORD_BYTES_MAX} bytes, and no control characters")]
    BadPassword,
    #[error("there are {max} {what}, the maximum: remove some")]
    TooMany { what: &'static str, max: usize },
}

type Result<T> = std::result::Result<T, UserFileError>;

impl UserFile {
    /// Reads a file; a missing file counts as one without users (auth_file-3).
    ///
    /// # Errors
    /// If it cannot be read, is not valid, or is readable for other users of the machine.
    pub fn read(disk: &dyn Disk, path: &Path) -> Result<UserFile> {
        let failed = |source| UserFileError::Disk {
            purpose: "read the users",
            path: path.to_owned(),
            source,
        };
        if !disk.exists(path).map_err(failed)? {
            return Ok(UserFile::default());
        }
        if let Ok(metadata) = path.metadata() {
            // auth_file-1.
            if metadata.mode() & 0o077 != 0 {
                return Err(UserFileError::Open { path: path.to_owned() });
            }
            if FILE_BYTES_MAX < metadata.len() {
                return Err(UserFileError::TooLarge { path: path.to_owned() });
            }
        }
        let bytes = disk.read(path).map_err(failed)?;
        UserFile::parse(&String::from_utf8_lossy(&bytes), path)
    }

    /// Changes a file, exclusively among all processes (auth_file-2). If `change` fails, nothing is
    /// changed.
    ///
    /// # Errors
    /// Those of `read` and of `change`, and if the file cannot be written.
    pub fn change<T>(
        disk: &dyn Disk,
        path: &Path,
        change: impl FnOnce(&mut UserFile) -> Result<T>,
    ) -> Result<T> {
        let dir = path.parent().unwrap_or(Path::new("."));
        let failed = |source| UserFileError::Disk {
            purpose: "change the users",
            path: path.to_owned(),
            source,
        };
        disk.create_dir_all(dir).map_err(failed)?;
        let _lock = disk.lock(&path.with_extension("lock")).map_err(failed)?;
        let mut file = UserFile::read(disk, path)?;
        let done = change(&mut file)?;
        let next = path.with_extension("new");
        let write = || {
            disk.remove(&next)?;
            let new = disk.open(&next, OpenMode::CreateNew)?;
            new.write_all_at(file.text().as_bytes(), 0)?;
            new.sync_data()?;
            disk.rename(&next, path)?;
            disk.sync_dir(dir)
        };
        write().map_err(failed)?;
        Ok(done)
    }

    /// The users of the file.
    #[must_use]
    pub fn users(&self) -> &[StoredUser] {
        &self.users
    }

    /// The tokens of the file.
    #[must_use]
    pub fn tokens(&self) -> &[StoredToken] {
        &self.tokens
    }

    /// Adds a user.
    ///
    /// # Errors
    /// If there is one of this name, or the name or the password is not allowed.
    pub fn add_user(&mut self, name: &str, role: Role, password: &str) -> Result<()> {
        if !is_name(name) {
            return Err(UserFileError::BadName);
        }
        if self.users.iter().any(|user| user.name == name) {
            return Err(UserFileError::UserTwice { name: name.to_owned() });
        }
        if USERS_MAX <= self.users.len() {
            return Err(UserFileError::TooMany { what: "users", max: USERS_MAX });
        }
        let verifier = verifier(password)?;
        self.users.push(StoredUser { name: name.to_owned(), role, verifier });
        Ok(())
    }

    /// Gives a user another password.
    ///
    /// # Errors
    /// If there is no such user, or the password is not allowed.
    pub fn set_password(&mut self, name: &str, password: &str) -> Result<()> {
        let user = self.users.iter_mut().find(|user| user.name == name);
        let user = user.ok_or_else(|| UserFileError::NoSuchUser { name: name.to_owned() })?;
        user.verifier = verifier(password)?;
        Ok(())
    }

    /// Removes a user and its tokens.
    ///
    /// # Errors
    /// If there is no such user.
    pub fn remove_user(&mut self, name: &str) -> Result<()> {
        let before = self.users.len();
        self.users.retain(|user| user.name != name);
        if self.users.len() == before {
            return Err(UserFileError::NoSuchUser { name: name.to_owned() });
        }
        self.tokens.retain(|token| token.user != name);
        Ok(())
    }

    /// Makes a token for a user, and returns the only copy of it. The caller checks that the user
    /// exists.
    ///
    /// # Errors
    /// If there are too many.
    pub fn add_token(&mut self, user: &str, expires: Option<i64>) -> Result<String> {
        if TOKENS_MAX <= self.tokens.len() {
            return Err(UserFileError::TooMany { what: "tokens", max: TOKENS_MAX });
        }
        let text = new_token();
        let id = loop {
            let id = hex(&random_bytes::<4>());
            if self.tokens.iter().all(|token| token.id != id) {
                break id;
            }
        };
        let digest = hash(text.as_bytes());
        self.tokens.push(StoredToken { id, user: user.to_owned(), digest, expires });
        Ok(text)
    }

    /// Ends a token.
    ///
    /// # Errors
    /// If there is no such token.
    pub fn remove_token(&mut self, id: &str) -> Result<()> {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.id != id);
        if self.tokens.len() == before {
            return Err(UserFileError::NoSuchToken { id: id.to_owned() });
        }
        Ok(())
    }

    /// The text of a file.
    fn text(&self) -> String {
        let mut text = String::from(
            "# Users and tokens of Tidegate: `tidegate user` changes them, and a server that runs \
             notices.\n",
        );
        for user in &self.users {
            let (name, role) = (quoted(&user.name), user.role.name());
            let password = quoted(&user.verifier.to_text());
            write!(text, "\n[[user]]\nname = {name}\nrole = \"{role}\"\npassword = {password}\n")
                .expect("a String takes everything");
        }
        for token in &self.tokens {
            let (id, user, sha256) = (&token.id, quoted(&token.user), hex(&token.digest));
            write!(text, "\n[[token]]\nid = \"{id}\"\nuser = {user}\nsha256 = \"{sha256}\"\n")
                .expect("a String takes everything");
            if let Some(expires) = token.expires {
                writeln!(text, "expires = {expires}").expect("a String takes everything");
            }
        }
        text
    }

    fn parse(text: &str, path: &Path) -> Result<UserFile> {
        let line = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
        let wrong = |offset: usize, what: String| UserFileError::Line {
            path: path.to_owned(),
            line: line(offset),
            what,
        };
        let table = DeTable::parse(text).map_err(|error| {
            wrong(error.span().map_or(0, |span| span.start), error.message().to_owned())
        })?;
        let mut file = UserFile::default();
        for (name, value) in table.get_ref() {
            let offset = name.span().start;
            let DeValue::Array(rows) = value.get_ref() else {
                return Err(wrong(offset, format!("`{}` is no list of tables", name.get_ref())));
            };
            for row in rows {
                let DeValue::Table(fields) = row.get_ref() else {
                    return Err(wrong(row.span().start, "it is no table".to_owned()));
                };
                let offset = row.span().start;
                let added = match name.get_ref().as_ref() {
                    "user" => file.take_user(&Fields(fields)),
                    "token" => file.take_token(&Fields(fields)),
                    other => Err(format!("there are no `{other}`")),
                };
                added.map_err(|what| wrong(offset, what))?;
            }
        }
        Ok(file)
    }

    fn take_user(&mut self, fields: &Fields<'_>) -> std::result::Result<(), String> {
        fields.check(&["name", "role", "password"])?;
        let name = fields.text("name")?;
        if !is_name(name) {
            return Err(UserFileError::BadName.to_string());
        }
        if self.users.iter().any(|user| user.name == name) {
            return Err(format!("user `{name}` is there twice"));
        }
        let role = Role::parse(fields.text("role")?).ok_or("role is admin, writer or reader")?;
        // The message does not quote the value: it may be a password.
        let verifier = Verifier::parse(fields.text("password")?);
        let verifier =
            verifier.ok_or("password is no verifier; `tidegate user passwd` makes one")?;
        if USERS_MAX <= self.users.len() {
            return Err(format!("there are more than {USERS_MAX} users"));
        }
        self.users.push(StoredUser { name: name.to_owned(), role, verifier });
        Ok(())
    }

    fn take_token(&mut self, fields: &Fields<'_>) -> std::result::Result<(), String> {
        fields.check(&["id", "user", "sha256", "expires"])?;
        let (id, user) = (fields.text("id")?.to_owned(), fields.text("user")?.to_owned());
        let digest = of_hex(fields.text("sha256")?).ok_or("sha256 has 64 hex digits")?;
        let expires = match fields.find("expires").map(Spanned::get_ref) {
            None => None,
            Some(DeValue::Integer(number)) if number.radix() == 10 => Some(
                number.as_str().parse().map_err(|_| "`expires` must be in seconds since 1970")?,
            ),
            Some(_) => return Err("`expires` must be in seconds since 1970".to_owned()),
        };
        if TOKENS_MAX <= self.tokens.len() {
            return Err(format!("there are more than {TOKENS_MAX} tokens"));
        }
        self.tokens.push(StoredToken { id, user, digest, expires });
        Ok(())
    }
}

/// The fields of a table of the file.
struct Fields<'a>(&'a DeTable<'a>);

impl<'a> Fields<'a> {
    /// Checks that it has no unknown fields (auth_file-3).
    fn check(&self, known: &[&str]) -> std::result::Result<(), String> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.get_ref().as_ref())) {
            Some((name, _)) => Err(format!("there is no field `{}`", name.get_ref())),
            None => Ok(()),
        }
    }

    fn find(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.0.iter().find(|(known, _)| known.get_ref() == name).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> std::result::Result<&'a str, String> {
        match self.find(name).map(Spanned::get_ref) {
            Some(DeValue::String(text)) => Ok(text.as_ref()),
            Some(_) => Err(format!("`{name}` is no text")),
            None => Err(format!("`{name}` is missing")),
        }
    }
}

/// Returns true if a text is a valid user name: in `Basic` a colon ends the name, and in the log it
/// stands on one line.
fn is_name(name: &str) -> bool {
    let is_short = (1..=limits::NAME_BYTES).contains(&name.len());
    is_short && !name.chars().any(|c| c == ':' || c.is_control())
}

fn verifier(password: &str) -> Result<Verifier> {
    let is_fine = (1..=PASSWORD_BYTES_MAX).contains(&password.len())
        && !password.chars().any(char::is_control);
    if is_fine { Ok(Verifier::new(password)) } else { Err(UserFileError::BadPassword) }
}

/// Makes a token of 32 random bytes, in base64url.
fn new_token() -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(random_bytes::<32>()))
}

fn of_hex(text: &str) -> Option<Digest> {
    let mut bytes = Vec::new();
    parse_binary(format!("\\x{text}").as_bytes(), &mut bytes).ok()?;
    bytes.try_into().ok()
}

/// Quotes a text as a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use tidegate_platform::SimDisk;

    use super::*;

    fn path() -> PathBuf {
        PathBuf::from("/db/conf/users.toml")
    }

    #[test]
    fn stored_users_and_tokens_are_read_back() {
        let disk = SimDisk::new(1);
        let token = UserFile::change(&disk, &path(), |file| {
            file.add_user("ann \"a\\", Role::Writer, "a secret")?;
            file.add_token("ann \"a\\", Some(1_798_675_200))
        })
        .unwrap();
        let bytes = disk.read(&path()).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("a secret") && !text.contains(&token), "auth_file-1: {text}");
        assert!(token.starts_with("tg_") && token.len() == 46, "{token}");
        let file = UserFile::read(&disk, &path()).unwrap();
        assert_eq!(file.users[0].name, "ann \"a\\");
        assert!(file.users[0].verifier.is_of(b"a secret"));
        assert_eq!(file.tokens[0].digest, hash(token.as_bytes()));
        assert_eq!(file.tokens[0].expires, Some(1_798_675_200));
        let id = file.tokens[0].id.clone();
        UserFile::change(&disk, &path(), |file| file.remove_token(&id)).unwrap();
        UserFile::change(&disk, &path(), |file| file.remove_user("ann \"a\\")).unwrap();
        assert!(UserFile::read(&disk, &path()).unwrap().users.is_empty());
    }

    #[test]
    fn a_change_that_is_refused_changes_nothing() {
        let disk = SimDisk::new(1);
        let add = |file: &mut UserFile| file.add_user("ann", Role::Reader, "x");
        UserFile::change(&disk, &path(), add).unwrap();
        let before = disk.read(&path()).unwrap();
        for (error, expected) in [
            (UserFile::change(&disk, &path(), add), "user `ann` exists already"),
            (
                UserFile::change(&disk, &path(), |file| file.set_password("bob", "x")),
                "user `bob` does not exist",
            ),
            (
                UserFile::change(&disk, &path(), |file| file.remove_token("00")),
                "token `00` does not exist",
            ),
            (
                UserFile::change(&disk, &path(), |file| file.add_user("a:b", Role::Admin, "x")),
                "the name of a user has 1 to 127 bytes, and no colons or control characters",
            ),
            (
                UserFile::change(&disk, &path(), |file| file.set_password("ann", "")),
                "a password has 1 to 1000 bytes, and no control characters",
            ),
        ] {
            assert_eq!(error.unwrap_err().to_string(), expected);
        }
        assert_eq!(disk.read(&path()).unwrap(), before, "auth_file-2");
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        let error = UserFile::parse(text, Path::new("u")).unwrap_err().to_string();
        assert_eq!(error, expected, "auth_file-3");
    }

    #[test]
    fn unknown_entries_are_named_with_their_line() {
        check_refused("\nuser = 1", "u, line 2: `user` is no list of tables");
        check_refused("[[users]]\nname = 'a'", "u, line 1: there are no `users`");
        check_refused("[[user]]\nname = 'a'\nrole = 'root'\npassword = 'x'", ROLE);
        check_refused("[[user]]\nname = 'a'\nrole = 'admin'\npassword = 'x'", PASSWORD);
        check_refused("[[user]]\nname = 'a'", "u, line 1: `role` is missing");
        check_refused("[[user]]\nnam = 'a'", "u, line 1: there is no field `nam`");
        let token = "[[token]]\nid = '1'\nuser = 'a'\nsha256 = '12'";
        check_refused(token, "u, line 1: sha256 has 64 hex digits");
        assert!(UserFile::parse("[[user]", Path::new("u")).is_err());
    }

    const ROLE: &str = "u, line 1: role is admin, writer or reader";
    const PASSWORD: &str = "u, line 1: password is no verifier; `tidegate user passwd` makes one";
}
