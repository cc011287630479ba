//! Configuration of PostgreSQL's protocol, authentication and TLS.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::Auth;
use super::value::{Format, Parsed, address, elements, name_of, one_of};
use crate::verifier::Verifier;

/// The default password of a new installation.
const DEFAULT_PASSWORD: &str = "quest";

/// The keys `pg....`.
#[derive(Clone, Debug)]
pub struct PgConfig {
    /// The address that it listens on; `None` for none.
    pub listen: Option<SocketAddr>,
    /// The most connections at a time; administrators have a few more.
    pub max_connections: usize,
    /// The authentication methods; the first that is allowed for the client's address is used.
    pub auth_methods: Vec<AuthMethod>,
    /// The longest time that authentication may take.
    pub startup_timeout: Duration,
    /// The bytes of rows after which they are sent.
    pub send_buffer: usize,
    /// The most bytes of a message.
    pub max_message: usize,
    /// The most prepared statements of a connection.
    pub max_prepared: usize,
    /// The longest silence of a connection within a transaction; zero for no bound.
    pub idle_in_transaction_timeout: Duration,
    /// The longest silence elsewhere; zero for no bound.
    pub idle_timeout: Duration,
    /// The longest silence within a COPY FROM STDIN; zero for that of other statements.
    pub copy_idle_timeout: Duration,
    /// The longest time in which a client takes nothing of what is sent to it; zero for no bound.
    pub send_timeout: Duration,
}

/// An authentication method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// SCRAM-SHA-256.
    Scram,
    /// A plain password, which stays secret only over TLS or on this machine.
    Password,
    /// None: a client on this machine is believed without a password.
    Trust,
}

/// The keys `auth....`.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// The name of the administrator.
    pub admin_user: String,
    /// The password of the administrator, or a verifier of it.
    pub admin_password: Secret,
    /// The name of the user that may only read.
    pub readonly_user: String,
    /// The password of that user, or a verifier of it.
    pub readonly_password: Secret,
    /// True if that user exists.
    pub readonly_enabled: bool,
    /// True if other machines may log in with the default password, which is public.
    pub allow_default_password: bool,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The keys `tls....`.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The use of TLS.
    pub mode: TlsMode,
    /// The certificate chain of the server, its own certificate first.
    pub cert: Option<PathBuf>,
    /// The private key of the first certificate.
    pub key: Option<PathBuf>,
    /// The CA that signs the certificates of clients; without it they need none.
    pub client_ca: Option<PathBuf>,
}

/// The use of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// Never.
    Off,
    /// For clients that ask for it.
    Allow,
    /// For all clients; others are refused.
    Require,
}

impl PgConfig {
    pub(super) fn standard() -> PgConfig {
        PgConfig {
            listen: Some(address([127, 0, 0, 1], 8812)),
            max_connections: 4_096,
            auth_methods: vec![AuthMethod::Scram],
            startup_timeout: Duration::from_secs(15),
            send_buffer: 256 << 10,
            max_message: 64 << 20,
            max_prepared: 1_024,
            idle_in_transaction_timeout: Duration::from_mins(5),
            idle_timeout: Duration::ZERO,
            copy_idle_timeout: Duration::from_mins(5),
            send_timeout: Duration::from_mins(5),
        }
    }
}

impl AuthConfig {
    pub(super) fn standard() -> AuthConfig {
        let password = || Secret(DEFAULT_PASSWORD.to_owned());
        AuthConfig {
            admin_user: "admin".to_owned(),
            admin_password: password(),
            readonly_user: "user".to_owned(),
            readonly_password: password(),
            readonly_enabled: false,
            allow_default_password: false,
        }
    }

    /// Returns true if a login is possible with the default password, which is public, or without
    /// one.
    pub(crate) fn has_default_password(&self) -> bool {
        let is_known = |Secret(password): &Secret| match Verifier::parse(password) {
            Some(verifier) => [DEFAULT_PASSWORD, ""].iter().any(|it| verifier.is_of(it.as_bytes())),
            None => password.is_empty() || password == DEFAULT_PASSWORD,
        };
        is_known(&self.admin_password) || self.readonly_enabled && is_known(&self.readonly_password)
    }
}

impl TlsConfig {
    pub(super) fn standard() -> TlsConfig {
        TlsConfig { mode: TlsMode::Off, cert: None, key: None, client_ca: None }
    }
}

const AUTHS: &[(&str, Auth)] =
    &[("auto", Auth::Auto), ("required", Auth::Required), ("off", Auth::Off)];
const METHODS: &[(&str, AuthMethod)] = &[
    ("scram-sha-256", AuthMethod::Scram),
    ("password", AuthMethod::Password),
    ("trust", AuthMethod::Trust),
];
const TLS_MODES: &[(&str, TlsMode)] =
    &[("off", TlsMode::Off), ("allow", TlsMode::Allow), ("require", TlsMode::Require)];

pub(super) const AUTH: Format<Auth> = Format {
    parse: |text| one_of(AUTHS, text).ok_or("expected auto, required or off"),
    show: |auth| name_of(AUTHS, auth),
};
pub(super) const TLS_MODE: Format<TlsMode> = Format {
    parse: |text| one_of(TLS_MODES, text).ok_or("expected off, allow or require"),
    show: |mode| name_of(TLS_MODES, mode),
};
/// `scram-sha-256,password`, perhaps as a list in brackets.
pub(super) const AUTH_METHODS: Format<Vec<AuthMethod>> = Format {
    parse: auth_methods,
    show: |methods| {
        methods.iter().map(|method| name_of(METHODS, method)).collect::<Vec<_>>().join(",")
    },
};
/// `https://a.example,http://b.example:8080`, perhaps as a list in brackets.
pub(super) const ORIGINS: Format<Vec<String>> =
    Format { parse: origins, show: |origins| origins.join(",") };
/// `db.example,tidegate.internal`, perhaps as a list in brackets; `*` for any name.
pub(super) const HOSTS: Format<Vec<String>> =
    Format { parse: hosts, show: |hosts| hosts.join(",") };
/// A password, or a verifier of one.
pub(super) const SECRET: Format<Secret> =
    Format { parse: secret, show: |Secret(password)| password.clone() };

fn auth_methods(text: &str) -> Parsed<Vec<AuthMethod>> {
    let methods = elements(text).map(|name| one_of(METHODS, name)).collect::<Option<Vec<_>>>();
    methods.ok_or("expected a list of scram-sha-256, password and trust")
}

fn origins(text: &str) -> Parsed<Vec<String>> {
    let origin = |name: &str| {
        let (scheme, host) = name.split_once("://")?;
        let is_one = matches!(scheme, "http" | "https")
            && !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/*,;\"'".contains(&byte));
        is_one.then(|| name.to_ascii_lowercase())
    };
    let names = elements(text).filter(|name| !name.is_empty());
    let origins = names.map(origin).collect::<Option<Vec<_>>>();
    origins.ok_or("expected a list of origins, like https://grafana.example:3000")
}

fn hosts(text: &str) -> Parsed<Vec<String>> {
    let host = |name: &str| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        (name == "*" || name.bytes().all(is_name)).then(|| name.to_ascii_lowercase())
    };
    let names = elements(text).filter(|name| !name.is_empty());
    let hosts = names.map(host).collect::<Option<Vec<_>>>();
    hosts.ok_or("expected a list of host names without ports, like db.example, or *")
}

/// Parses a password or a verifier of one. A text that begins as a verifier must be one: mistyped,
/// it would become an unknown password. Asterisks alone stand for a password that is not shown.
fn secret(text: &str) -> Parsed<Secret> {
    if !text.is_empty() && text.bytes().all(|byte| byte == b'*') {
        return Err("asterisks are shown in place of a password, and are not accepted as one");
    }
    if Verifier::is_meant(text) && Verifier::parse(text).is_none() {
        return Err("it begins like a verifier, SCRAM-SHA-256$4096:salt$key:key, but is not valid");
    }
    Ok(Secret(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_a_list() {
        let both = Ok(vec![AuthMethod::Scram, AuthMethod::Trust]);
        assert_eq!(auth_methods("scram-sha-256, trust"), both);
        assert_eq!(auth_methods("[\"scram-sha-256\",\"trust\"]"), both);
        assert!(auth_methods("md5").is_err() && auth_methods("").is_err());
    }

    #[test]
    fn origins_are_schemes_with_hosts() {
        let list = |text: &str| origins(text).map(|all| all.join(" "));
        assert_eq!(list(""), Ok(String::new()));
        let expected = "https://a.example http://b:80";
        assert_eq!(list("[\"https://A.example\", http://b:80]").as_deref(), Ok(expected));
        for bad in ["*", "a.example", "https://", "https://a/", "ftp://a", "https://*"] {
            assert!(list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hosts_are_names_without_ports() {
        let list = |text: &str| hosts(text).map(|all| all.join(" "));
        assert_eq!(list("[\"DB.example\", b]").as_deref(), Ok("db.example b"));
        assert_eq!((list("").as_deref(), list("*").as_deref()), (Ok(""), Ok("*")));
        assert!(list("http://a.example").is_err() && list("a b").is_err());
    }

    #[test]
    fn secrets_are_not_shown_and_known_ones_are_found() {
        let mut auth = AuthConfig::standard();
        assert!(auth.has_default_password() && !format!("{auth:?}").contains(DEFAULT_PASSWORD));
        assert!(secret("SCRAM-SHA-256$bad").is_err() && secret("scram-sha-256$4096:x").is_err());
        assert!(secret("scram").is_ok() && secret("a*").is_ok());
        assert!(secret("****").is_err() && secret("*").is_err());
        auth.admin_password = Secret("a better one".to_owned());
        assert!(!auth.has_default_password());
        auth.admin_password = Secret(Verifier::new(DEFAULT_PASSWORD).to_text());
        assert!(auth.has_default_password());
        auth.admin_password = Secret(Verifier::new("a better one").to_text());
        assert!(!auth.has_default_password());
        auth.readonly_enabled = true;
        assert!(auth.has_default_password());
    }
}
