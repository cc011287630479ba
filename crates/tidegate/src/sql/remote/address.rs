//! The address of a server: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=...`.
//!
//! - address-1. An error about an address contains no part of it, because a password that was not
//!   percent-encoded may stand in any place.
//!
//! `sslmode` is `disable`, `prefer` (TLS if the server has it), `require` (TLS without a check of
//! the certificate) or `verify-full`, which needs `sslrootcert`; `sslrootcert` alone means the
//! same.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::RemoteError;

/// The default port of Tidegate; PostgreSQL's own is 5432.
const PORT: u16 = 8812;

/// The location of a server, and the login.
pub(super) struct Address {
    pub(super) config: Config,
    /// File of certificates, one of which must have signed the server's.
    pub(super) authority: Option<PathBuf>,
    /// Host and port, for messages.
    pub(super) place: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Address, RemoteError> {
        parse(url).ok_or(RemoteError::Address)
    }
}

fn parse(url: &str) -> Option<Address> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return None;
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut authority = None;
    let mut verifies = false;
    let mut others = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=')? {
            ("sslrootcert", path) => {
                authority =
                    Some(PathBuf::from(percent_decode_str(path).decode_utf8().ok()?.as_ref()));
            }
            ("sslmode", "verify-full") => verifies = true,
            _ => others.push(pair),
        }
    }
    if verifies && authority.is_none() {
        return None;
    }
    let mut config: Config = format!("{}?{}", with_port(base)?, others.join("&")).parse().ok()?;
    if authority.is_some() {
        config.ssl_mode(SslMode::Require);
    }
    let place = place(&config)?;
    Some(Address { config, authority, place })
}

/// Returns the address, with the default port if it names none.
fn with_port(base: &str) -> Option<String> {
    let start = base.find("://")? + 3;
    let end = base[start..].find('/').map_or(base.len(), |at| start + at);
    let (authority, behind) = (&base[..end], &base[end..]);
    let host = authority[start..].rsplit('@').next()?;
    let names_port = host.rsplit(']').next()?.contains(':');
    Some(if names_port { base.to_owned() } else { format!("{authority}:{PORT}{behind}") })
}

fn place(config: &Config) -> Option<String> {
    let [Host::Tcp(host)] = config.get_hosts() else { return None };
    let [port] = config.get_ports() else { return None };
    // An `@` in a password would make the rest of the password the host (address-1).
    let is_host = !host.is_empty() && !host.contains(['@', '/', ' ']);
    is_host.then(|| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_and_how() {
        let address = parse("postgres://ann@db.example/x?sslmode=require").unwrap();
        assert_eq!(address.place, "db.example:8812");
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert!(address.authority.is_none());
        let url = "postgresql://ann:pw@127.0.0.1:1234?sslmode=verify-full&sslrootcert=/a%20b.pem";
        let address = parse(url).unwrap();
        assert_eq!(address.place, "127.0.0.1:1234");
        assert_eq!(address.authority, Some(PathBuf::from("/a b.pem")));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(address.config.get_password(), Some(&b"pw"[..]));
    }

    #[test]
    fn no_address_tells_its_password() {
        for url in [
            "http://ann:secret@host",
            "postgres://ann:sec@ret@host:1",
            "postgres://ann:secret@host?sslmode=verify-full",
            "postgres://ann:secret@host?sslmode=always",
            "postgres://ann:secret@host:port",
            "postgres://ann:secret@a,b",
            "postgres://",
        ] {
            let error = Address::parse(url).err().expect(url).to_string();
            assert!(!error.contains("sec") && !error.contains("ret"), "address-1: {error}");
        }
    }
}
