//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side.
//!
//! - The stored form of a password (`verifier`) and the messages on the wire are not enough to log
//!   in.
//! - scram-1. With channel binding, the client's proof covers the certificate that it has seen: a
//!   machine in the middle, with a certificate of its own, gets no proof that is valid here.
//! - scram-2. Channel binding cannot be removed by a machine in the middle: a client that supports
//!   it, and believes that it was not offered, is refused if it was.
//!
//! Not here: the hash of the certificate (`tls`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::verifier::{KEY_BYTES, Verifier, hash, is_equal, mac, random_bytes};

/// The most bytes of a client's message.
const MESSAGE_BYTES_MAX: usize = 2_048;

/// The reason why an exchange is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The message is malformed.
    Message,
    /// The proof is wrong.
    Proof,
    /// The client has not seen that channel binding was offered (scram-2).
    Downgraded,
    /// The client asks to act for a user whom it names besides the one that logs in.
    Identity,
}

/// The binding of an exchange to its TLS connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel<'a> {
    /// No binding is possible: SCRAM-SHA-256-PLUS was not offered.
    Unbound,
    /// SCRAM-SHA-256-PLUS was offered, and the client has chosen SCRAM-SHA-256.
    Declined,
    /// The client has chosen SCRAM-SHA-256-PLUS; the hash of the server's certificate
    /// (tls-server-end-point of RFC 5929).
    Bound(&'a [u8]),
}

/// The state of a login between the client's two messages.
#[derive(Debug)]
pub(crate) struct Scram {
    verifier: Verifier,
    /// The part of the client's first message that its second repeats, with the channel binding
    /// data.
    binding: Vec<u8>,
    nonce: String,
    /// The first messages of both sides: the beginning of the AuthMessage of RFC 5802.
    first_messages: String,
}

impl Scram {
    /// Takes the client's first message, `n,,n=user,r=nonce`, and returns the answer. The user is
    /// the one of the startup message.
    pub(crate) fn begin(
        verifier: Verifier,
        message: &[u8],
        channel: Channel<'_>,
    ) -> Result<(Scram, String), Refused> {
        let nonce = BASE64.encode(random_bytes::<18>());
        Scram::begin_with(verifier, message, channel, &nonce)
    }

    fn begin_with(
        verifier: Verifier,
        message: &[u8],
        channel: Channel<'_>,
        nonce: &str,
    ) -> Result<(Scram, String), Refused> {
        let message = text(message)?;
        let (flag, rest) = message.split_once(',').ok_or(Refused::Message)?;
        let bound: &[u8] = match (flag, channel) {
            ("n", Channel::Unbound | Channel::Declined) | ("y", Channel::Unbound) => &[],
            ("y", Channel::Declined) => return Err(Refused::Downgraded), // scram-2
            ("p=tls-server-end-point", Channel::Bound(hash)) => hash,
            _ => return Err(Refused::Message),
        };
        let (identity, bare) = rest.split_once(',').ok_or(Refused::Message)?;
        match identity {
            "" => {}
            _ if identity.starts_with("a=") => return Err(Refused::Identity),
            _ => return Err(Refused::Message),
        }
        let header = &message[..message.len() - bare.len()];
        let binding = [header.as_bytes(), bound].concat();
        let mut parts = bare.split(',');
        let user = parts.next().and_then(|part| part.strip_prefix("n="));
        let own = parts.next().and_then(|part| part.strip_prefix("r="));
        let (Some(_), Some(own)) = (user, own.filter(|own| !own.is_empty())) else {
            return Err(Refused::Message);
        };
        let nonce = format!("{own}{nonce}");
        let (salt, iterations) = (BASE64.encode(&verifier.salt), verifier.iterations);
        let answer = format!("r={nonce},s={salt},i={iterations}");
        let first_messages = format!("{bare},{answer}");
        Ok((Scram { verifier, binding, nonce, first_messages }, answer))
    }

    /// Returns the verifier that the proof is compared with.
    pub(crate) fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// Takes the client's second message, `c=binding,r=nonce,p=proof`, and returns the server's own
    /// proof.
    pub(crate) fn finish(&self, message: &[u8]) -> Result<String, Refused> {
        let message = text(message)?;
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or(Refused::Message)?;
        let mut parts = without_proof.split(',');
        let binding = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        // scram-1.
        if binding != Some(BASE64.encode(&self.binding).as_str())
            || nonce != Some(self.nonce.as_str())
        {
            return Err(Refused::Message);
        }
        let proof = BASE64.decode(proof).ok().and_then(|it| <[u8; KEY_BYTES]>::try_from(it).ok());
        let proof = proof.ok_or(Refused::Message)?;
        let auth_message = format!("{},{without_proof}", self.first_messages);
        let signature = mac(&self.verifier.stored_key, auth_message.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(key, sign)| *key ^= sign);
        if !is_equal(&hash(&client_key), &self.verifier.stored_key) {
            return Err(Refused::Proof);
        }
        let signature = mac(&self.verifier.server_key, auth_message.as_bytes());
        Ok(format!("v={}", BASE64.encode(signature)))
    }
}

fn text(message: &[u8]) -> Result<&str, Refused> {
    let text = std::str::from_utf8(message).ok().filter(|it| it.len() <= MESSAGE_BYTES_MAX);
    text.ok_or(Refused::Message)
}

#[cfg(test)]
mod tests {
    use ring::pbkdf2;

    use super::*;
    use crate::verifier::ITERATIONS;

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_rfc_7677_is_answered_as_there() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::with_salt(b"pencil", salt, ITERATIONS);
        let first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let begun = Scram::begin_with(verifier, &first[..], Channel::Unbound, nonce);
        let (scram, answer) = begun.unwrap();
        assert_eq!(
            answer,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let second = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                       p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let expected = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(scram.finish(second).as_deref(), Ok(expected));
    }

    // It was ignored, so that a client could believe that it acted for that user.
    #[test]
    fn an_authorization_identity_is_refused() {
        let begin = |first: &str| {
            let begun = Scram::begin(Verifier::new("x"), first.as_bytes(), Channel::Unbound);
            begun.map(|_| ()).unwrap_err()
        };
        assert_eq!(begin("n,a=admin,n=rob,r=a"), Refused::Identity);
        assert_eq!(begin("y,a=rob,n=rob,r=a"), Refused::Identity);
        assert_eq!(begin("n,b=admin,n=rob,r=a"), Refused::Message);
    }

    #[test]
    fn malformed_messages_are_refused() {
        for message in ["", "n", "n,,", "n,,r=x", "p=tls-unique,,n=,r=x", "n,,n=,r=", "n,,n=\u{e9}"]
        {
            let begun = Scram::begin(Verifier::new("x"), message.as_bytes(), Channel::Unbound);
            assert_eq!(begun.map(|_| ()).unwrap_err(), Refused::Message, "{message}");
        }
        let begin = || {
            let first = &b"y,,n=,r=a"[..];
            Scram::begin_with(Verifier::new("x"), first, Channel::Unbound, "b").unwrap().0
        };
        assert_eq!(begin().binding, b"y,,");
        let proof = BASE64.encode([0; KEY_BYTES]);
        let second = |text: &str| begin().finish(text.as_bytes()).unwrap_err();
        assert_eq!(second(&format!("c=eSws,r=ab,p={proof}")), Refused::Proof);
        assert_eq!(second(&format!("c=biws,r=ab,p={proof}")), Refused::Message);
        assert_eq!(second(&format!("c=eSws,r=ac,p={proof}")), Refused::Message);
        assert_eq!(second("c=eSws,r=ab,p=AAAA"), Refused::Message);
        assert_eq!(second("c=eSws,r=ab"), Refused::Message);
    }

    /// Makes the second message of a client that has the password, bound to this channel.
    fn proven(password: &str, begun: &(Scram, String), first: &str, bound: &[u8]) -> String {
        let (scram, _) = begun;
        let binding =
            BASE64.encode([first.rsplit_once("n=").unwrap().0.as_bytes(), bound].concat());
        let without_proof = format!("c={binding},r={}", scram.nonce);
        let Verifier { iterations, salt, .. } = &scram.verifier;
        let mut salted = [0; KEY_BYTES];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, *iterations, salt, password.as_bytes(), &mut salted);
        let client_key = mac(&salted, b"Client Key");
        let signature =
            mac(&hash(&client_key), format!("{},{without_proof}", scram.first_messages).as_bytes());
        let proof: Vec<u8> =
            client_key.iter().zip(signature).map(|(key, sign)| key ^ sign).collect();
        format!("{without_proof},p={}", BASE64.encode(proof))
    }

    #[test]
    fn a_proof_is_bound_to_the_certificate_that_the_client_has_seen() {
        let first = "p=tls-server-end-point,,n=,r=a";
        let begin = |channel| Scram::begin_with(Verifier::new("x"), first.as_bytes(), channel, "b");
        let finish = |bound: &[u8]| {
            let begun = begin(Channel::Bound(b"ours")).unwrap();
            let second = proven("x", &begun, first, bound);
            begun.0.finish(second.as_bytes()).map(|_| ())
        };
        assert_eq!(finish(b"ours"), Ok(()), "scram-1");
        assert_eq!(finish(b"theirs"), Err(Refused::Message), "scram-1");
        assert_eq!(finish(b""), Err(Refused::Message), "scram-1");
        for channel in [Channel::Unbound, Channel::Declined] {
            assert_eq!(begin(channel).unwrap_err(), Refused::Message, "it was not chosen");
        }
        let (other, channel) = (&b"p=tls-unique,,n=,r=a"[..], Channel::Bound(b"ours"));
        let begun = Scram::begin_with(Verifier::new("x"), other, channel, "b");
        assert_eq!(begun.unwrap_err(), Refused::Message);
    }

    #[test]
    fn channel_binding_is_not_taken_away() {
        let begin = |first: &str, channel| {
            let begun = Scram::begin_with(Verifier::new("x"), first.as_bytes(), channel, "b");
            begun.map(|_| ())
        };
        let (n, y) = ("n,,n=,r=a", "y,,n=,r=a");
        assert_eq!(begin(y, Channel::Declined), Err(Refused::Downgraded), "scram-2");
        assert_eq!((begin(y, Channel::Unbound), begin(n, Channel::Declined)), (Ok(()), Ok(())));
        for first in [n, y] {
            let begun = begin(first, Channel::Bound(b"ours"));
            assert_eq!(begun, Err(Refused::Message), "PLUS without binding");
        }
    }
}
