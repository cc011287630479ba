//! Credentials that a client sends: the field `Authorization` of HTTP.
//!
//! - credentials-1. Credentials are secret: they have no form in which they could be logged.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The name and the password of a client, or its token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    Password { user: String, password: String },
    Token(String),
}

/// Prints no secret (credentials-1).
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// Parses `Basic` with name and password in base64, `Bearer` with a token, or `Token` with
    /// either, as clients of InfluxDB write it.
    pub(crate) fn parse(field: &str) -> Option<Credentials> {
        let (scheme, value) = field.trim().split_once(' ')?;
        let value = value.trim();
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => {
                let bytes = STANDARD.decode(value).ok()?;
                Credentials::password(&String::from_utf8(bytes).ok()?)
            }
            "bearer" => Some(Credentials::Token(value.to_owned())),
            "token" => {
                Credentials::password(value).or_else(|| Some(Credentials::Token(value.to_owned())))
            }
            _ => None,
        }
    }

    /// Returns the name in the credentials; tokens have none.
    pub(crate) fn name_in(field: &str) -> String {
        match Credentials::parse(field) {
            Some(Credentials::Password { user, .. }) => user,
            _ => String::new(),
        }
    }

    /// Parses `user:password`; the password may contain colons.
    fn password(text: &str) -> Option<Credentials> {
        let (user, password) = text.split_once(':')?;
        Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(field: &str, expected: Option<Credentials>) {
        assert!(Credentials::parse(field) == expected, "{field}");
    }

    #[test]
    fn fields_are_read_as_clients_write_them() {
        let password = |user: &str, password: &str| {
            Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() })
        };
        let token = |text: &str| Some(Credentials::Token(text.to_owned()));
        check("Basic YWRtaW46cXVlc3Q=", password("admin", "quest"));
        check("basic  YW46YTpi", password("an", "a:b"));
        check("Token admin:quest", password("admin", "quest"));
        check("Token tg_x", token("tg_x"));
        check("Bearer tg_x", token("tg_x"));
        for field in ["", "Basic", "Basic x", "Basic YWRtaW4=", "Digest x", "Basic gICA"] {
            check(field, None);
        }
        assert_eq!(format!("{:?}", token("tg_x")), "Some(Credentials)", "credentials-1");
    }
}
