//! Authentication over TCP: ECDSA keys on the curve P-256, as QuestDB's clients have them.
//!
//! - ilp_auth-1. A client names its key, receives `CHALLENGE_BYTES` random printable bytes, and
//!   sends back their signature. No line is read before that.
//! - ilp_auth-2. A client that names an unknown key gets a challenge too, and every failure takes
//!   the same time: names cannot be guessed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, UnparsedPublicKey, VerificationAlgorithm,
};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

/// The bytes of a challenge.
const CHALLENGE_BYTES: usize = 512;
/// The longest line of a client: a signature has about 100 characters.
const LINE_BYTES_MAX: usize = 512;
/// The time from the beginning of a connection to its end after a failure (ilp_auth-2).
const FAILURE: Duration = Duration::from_secs(1);
/// The name of the only kind of key in the file.
const KIND: &str = "ec-p-256-sha256";
/// The uncompressed form of a point: a tag and both coordinates.
type Point = [u8; 65];

/// The public keys of clients, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    keys: HashMap<String, Point>,
}

/// The reason why a key file is refused.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "a message is the doc of its error")]
#[non_exhaustive]
pub enum KeyFileError {
    #[error("read the keys of {}", .path.display())]
    Read { path: PathBuf, source: tidegate_platform::Error },
    #[error(
        "{}, line {line}: expected `name ec-p-256-sha256 x y`, x and y in base64url of 32 bytes",
        .path.display()
    )]
    Line { path: PathBuf, line: usize },
    #[error("{}, line {line}: key `{name}` is there twice", .path.display())]
    Twice { path: PathBuf, line: usize, name: String },
    #[error("{} has no keys", .path.display())]
    None { path: PathBuf },
}

impl Keys {
    /// Parses the text of a file: a key per line; empty lines and those that begin with `#` are
    /// skipped.
    pub(crate) fn parse(text: &str, path: PathBuf) -> Result<Keys, KeyFileError> {
        let mut keys = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let line_number = at + 1;
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let Some((name, point)) = key_of(line) else {
                return Err(KeyFileError::Line { path, line: line_number });
            };
            if keys.insert(name.to_owned(), point).is_some() {
                let (line, name) = (line_number, name.to_owned());
                return Err(KeyFileError::Twice { path, line, name });
            }
        }
        if keys.is_empty() { Err(KeyFileError::None { path }) } else { Ok(Keys { keys }) }
    }

    /// Returns true if the key of this name has signed the challenge.
    fn has_signed(&self, name: &str, challenge: &[u8], signature: &[u8]) -> bool {
        // A signature is checked even if the name is unknown (ilp_auth-2).
        let any = self.keys.values().next().expect("there is a key");
        let named = self.keys.get(name);
        // Clients send a signature as two numbers of 32 bytes, or in the ASN.1 form of Java.
        let form: &dyn VerificationAlgorithm = match signature.len() {
            64 => &ECDSA_P256_SHA256_FIXED,
            _ => &ECDSA_P256_SHA256_ASN1,
        };
        let key = UnparsedPublicKey::new(form, named.unwrap_or(any));
        let is_signed = key.verify(challenge, signature).is_ok();
        is_signed && named.is_some()
    }

    /// Authenticates a client, and returns its name; `None` if that fails (ilp_auth-1).
    pub(crate) async fn ask(
        &self,
        stream: &mut TcpStream,
        auth_timeout: Duration,
    ) -> Option<String> {
        let start = Instant::now();
        let asked = timeout(auth_timeout, self.dialogue(stream)).await;
        let name = asked.ok().flatten();
        if name.is_none() {
            sleep_until(start + FAILURE).await;
        }
        name
    }

    async fn dialogue(&self, stream: &mut TcpStream) -> Option<String> {
        let name = String::from_utf8(line(stream).await?).ok()?;
        let mut challenge = challenge()?;
        challenge.push(b'\n');
        stream.write_all(&challenge).await.ok()?;
        challenge.pop();
        let answer = line(stream).await?;
        let padding = answer.iter().rev().take_while(|&&byte| byte == b'=').count();
        let signature = STANDARD_NO_PAD.decode(&answer[..answer.len() - padding]).ok()?;
        self.has_signed(&name, &challenge, &signature).then_some(name)
    }
}

fn key_of(line: &str) -> Option<(&str, Point)> {
    let mut words = line.split_whitespace();
    let (name, kind, x, y) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let mut point: Point = [4; 65];
    for (text, into) in [(x, 1..33), (y, 33..65)] {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
        // Leading zeros may be missing.
        let zeros = 32_usize.checked_sub(bytes.len())?;
        point[into.clone()].fill(0);
        point[into][zeros..].copy_from_slice(&bytes);
    }
    (kind == KIND && words.next().is_none()).then_some((name, point))
}

/// Makes random printable bytes.
fn challenge() -> Option<Vec<u8>> {
    let mut bytes = vec![0; CHALLENGE_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    bytes.iter_mut().for_each(|byte| *byte = b'!' + *byte % 64);
    Some(bytes)
}

/// Reads the bytes up to a line end, and no byte after it: those may be lines of the protocol.
async fn line(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        match stream.read_u8().await.ok()? {
            b'\n' => return Some(bytes),
            _ if bytes.len() == LINE_BYTES_MAX => return None,
            byte => bytes.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    };

    use super::*;

    fn parse(text: &str) -> Result<Keys, String> {
        Keys::parse(text, PathBuf::from("keys")).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_read_with_their_lines_in_errors() {
        let key = "fLKYEaoEb9lrn3nkwLDA-M_xnuFOdSt9y0Z7_vWSHLU";
        let text = format!("# ours\n\n one ec-p-256-sha256 {key} {key}=\n");
        assert_eq!(parse(&text).unwrap().keys["one"][1], 0x7C);
        for (text, expected) in [
            ("# none\n".to_owned(), "keys has no keys"),
            (format!("\na ec-p-256-sha256 {key}"), "keys, line 2: expected"),
            (format!("a rsa {key} {key}"), "keys, line 1: expected"),
            (format!("a ec-p-256-sha256 {key}AAAA {key}"), "keys, line 1: expected"),
            (format!("{text}one ec-p-256-sha256 {key} {key}"), "keys, line 4: key `one`"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn only_the_named_key_can_sign() {
        let random = SystemRandom::new();
        for signing in [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P256_SHA256_FIXED_SIGNING] {
            let pair = || {
                let document = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
                EcdsaKeyPair::from_pkcs8(signing, document.as_ref(), &random).unwrap()
            };
            check(&pair(), &pair());
        }
    }

    fn check(mine: &EcdsaKeyPair, other: &EcdsaKeyPair) {
        let random = SystemRandom::new();
        let point = |pair: &EcdsaKeyPair| pair.public_key().as_ref().try_into().unwrap();
        let named = [("mine", point(mine)), ("other", point(other))];
        let keys = Keys { keys: named.map(|(name, point)| (name.to_owned(), point)).into() };
        let challenge = challenge().unwrap();
        assert!(challenge.iter().all(u8::is_ascii_graphic));
        let signature = mine.sign(&random, &challenge).unwrap();
        let signature = signature.as_ref();
        assert!(keys.has_signed("mine", &challenge, signature));
        for name in ["other", "nobody"] {
            assert!(!keys.has_signed(name, &challenge, signature), "ilp_auth-2: {name}");
        }
        assert!(!keys.has_signed("mine", &challenge[1..], signature));
        assert!(!keys.has_signed("mine", &challenge, &signature[1..]));
    }
}
