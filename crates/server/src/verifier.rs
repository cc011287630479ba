//! Verifiers: the stored form of passwords (RFC 5802), in the text that PostgreSQL stores.
//!
//! - verifier-1. A verifier is not enough to log in.
//! - verifier-2. Keys are compared in a time that does not depend on them.
//!
//! Not here: the login with one (`auth::scram`).

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// The prefix of verifiers, as PostgreSQL writes them.
const NAME: &str = "SCRAM-SHA-256$";
/// The bytes of a key: SHA-256.
pub(crate) const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 16;
/// The number of rounds for passwords that are given in plain text.
pub(crate) const ITERATIONS: NonZeroU32 = NonZeroU32::new(4_096).expect("it is not 0");
/// The most rounds: with more, a login would be a burden.
const ITERATIONS_MAX: u32 = 1_000_000;

/// The stored form of a password (verifier-1).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    pub(crate) iterations: NonZeroU32,
    pub(crate) salt: Vec<u8>,
    pub(crate) stored_key: [u8; KEY_BYTES],
    pub(crate) server_key: [u8; KEY_BYTES],
}

/// Prints no secret.
impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    /// Makes the verifier of a password.
    pub(crate) fn new(password: &str) -> Verifier {
        Verifier::with_salt(password.as_bytes(), random_bytes::<SALT_BYTES>().to_vec(), ITERATIONS)
    }

    pub(crate) fn with_salt(password: &[u8], salt: Vec<u8>, iterations: NonZeroU32) -> Verifier {
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password, &mut salted);
        let stored_key = hash(&mac(&salted, b"Client Key"));
        Verifier { iterations, salt, stored_key, server_key: mac(&salted, b"Server Key") }
    }

    /// Makes a verifier that no password matches, always the same one for a name.
    pub(crate) fn of_nobody(secret: &hmac::Key, name: &str) -> Verifier {
        let key = |what: &str| {
            let text = [what.as_bytes(), name.as_bytes()].concat();
            let key = hmac::sign(secret, &text);
            <[u8; KEY_BYTES]>::try_from(key.as_ref()).expect("SHA-256 has 32 bytes")
        };
        let salt = key("salt ")[..SALT_BYTES].to_vec();
        let (stored_key, server_key) = (key("stored "), key("server "));
        Verifier { iterations: ITERATIONS, salt, stored_key, server_key }
    }

    /// Returns true if a text begins as `parse` reads it.
    pub(crate) fn is_meant(text: &str) -> bool {
        text.get(..NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(NAME))
    }

    /// Parses `SCRAM-SHA-256$4096:salt$stored key:server key`; `None` if it is a password.
    pub(crate) fn parse(text: &str) -> Option<Verifier> {
        let name = text.get(..NAME.len())?;
        let rest = name.eq_ignore_ascii_case(NAME).then_some(&text[NAME.len()..])?;
        let (head, keys) = rest.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let iterations = iterations
            .parse()
            .ok()
            .filter(|it: &NonZeroU32| (ITERATIONS.get()..=ITERATIONS_MAX).contains(&it.get()));
        let key = |text: &str| <[u8; KEY_BYTES]>::try_from(BASE64.decode(text).ok()?).ok();
        let salt = BASE64.decode(salt).ok().filter(|salt| !salt.is_empty())?;
        let (stored_key, server_key) = (key(stored_key)?, key(server_key)?);
        Some(Verifier { iterations: iterations?, salt, stored_key, server_key })
    }

    /// Formats it as `parse` reads it.
    pub(crate) fn to_text(&self) -> String {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        format!("{NAME}{}:{salt}${stored}:{server}", self.iterations)
    }

    /// Returns true if it is the verifier of this password.
    pub(crate) fn is_of(&self, password: &[u8]) -> bool {
        let other = Verifier::with_salt(password, self.salt.clone(), self.iterations);
        is_equal(&other.stored_key, &self.stored_key)
    }
}

/// Returns random bytes of the system's cryptographic generator.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    bytes
}

pub(crate) fn mac(key: &[u8], text: &[u8]) -> [u8; KEY_BYTES] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

pub(crate) fn hash(bytes: &[u8]) -> [u8; KEY_BYTES] {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Compares two keys in constant time (verifier-2).
pub(crate) fn is_equal(left: &[u8; KEY_BYTES], right: &[u8; KEY_BYTES]) -> bool {
    left.iter().zip(right).fold(0, |difference, (left, right)| difference | (left ^ right)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifiers_are_read_as_postgresql_writes_them() {
        let verifier = Verifier::new("pencil");
        let text = format!(
            "scram-sha-256${}:{}${}:{}",
            verifier.iterations,
            BASE64.encode(&verifier.salt),
            BASE64.encode(verifier.stored_key),
            BASE64.encode(verifier.server_key)
        );
        assert_eq!(Verifier::parse(&text), Some(verifier.clone()));
        assert!(verifier.is_of(b"pencil") && !verifier.is_of(b"Pencil"));
        for password in ["quest", "scram-sha-256$", "scram-sha-256$1:YQ==$YQ==:YQ=="] {
            assert_eq!(Verifier::parse(password), None, "{password}");
        }
    }
}
