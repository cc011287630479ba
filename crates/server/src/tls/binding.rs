//! Channel binding: the hash of the server's certificate, "tls-server-end-point" of RFC 5929, to
//! which a login over TLS is bound.
//!
//! - binding-1. The hash is that of the certificate's signature, with SHA-256 in place of MD5 and
//!   SHA-1.
//! - binding-2. A certificate whose signature has no hash that is known here (Ed25519 has none of
//!   its own) is not bound: channel binding is not offered then, as in PostgreSQL.

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const OBJECT: u8 = 0x06;
/// The hash algorithm among the parameters of RSASSA-PSS.
const PSS_HASH: u8 = 0xa0;

/// `1.2.840.113549.1.1`: signatures of RSA; one more number identifies the hash.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// `1.2.840.10045.4.1`: ECDSA with SHA-1.
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
/// `1.2.840.10045.4.3`: ECDSA with SHA-2; one more number identifies the hash.
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// `1.3.14.3.2.26`: SHA-1.
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
/// `2.16.840.1.101.3.4.2`: SHA-2; one more number identifies the hash.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];

/// Returns the hash of a certificate in DER; `None` if it cannot be bound (binding-2).
pub(super) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = signature_hash(certificate)?;
    Some(digest(algorithm, certificate).as_ref().to_vec())
}

/// Parses `SEQUENCE { to be signed, SEQUENCE { algorithm, parameters }, signature }` (binding-1).
fn signature_hash(certificate: &[u8]) -> Option<&'static Algorithm> {
    let (tag, parts, _) = element(certificate)?;
    let (_signed_tag, _signed, rest) = element(parts).filter(|_| tag == SEQUENCE)?;
    let (tag, signature, _) = element(rest)?;
    let (oid_tag, oid, parameters) = element(signature).filter(|_| tag == SEQUENCE)?;
    if oid_tag != OBJECT {
        return None;
    }
    if oid == ECDSA_SHA1 {
        return Some(&SHA256);
    }
    match (oid.strip_prefix(RSA), oid.strip_prefix(ECDSA)) {
        (Some([4 | 5 | 11]), _) | (_, Some([2])) => Some(&SHA256),
        (Some([12]), _) | (_, Some([3])) => Some(&SHA384),
        (Some([13]), _) | (_, Some([4])) => Some(&SHA512),
        (Some([10]), _) => pss_hash(parameters),
        _ => None,
    }
}

/// Returns the hash that the parameters of RSASSA-PSS name; SHA-1 if they name none.
fn pss_hash(parameters: &[u8]) -> Option<&'static Algorithm> {
    let (tag, parts, _) = element(parameters)?;
    if tag != SEQUENCE {
        return None;
    }
    let Some((PSS_HASH, named, _)) = element(parts) else { return Some(&SHA256) };
    let (tag, algorithm, _) = element(named)?;
    let (oid_tag, oid, _) = element(algorithm).filter(|_| tag == SEQUENCE)?;
    match oid.strip_prefix(SHA2) {
        _ if oid_tag != OBJECT => None,
        Some([1]) => Some(&SHA256),
        Some([2]) => Some(&SHA384),
        Some([3]) => Some(&SHA512),
        _ => (oid == SHA1).then_some(&SHA256),
    }
}

/// Returns the first element: its tag, its content, and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (inside, rest) = rest.split_at_checked(length)?;
    Some((tag, inside, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, inside: &[u8]) -> Vec<u8> {
        let length = u16::try_from(inside.len()).unwrap().to_be_bytes();
        [&[tag, 0x82][..], &length, inside].concat()
    }

    /// Makes a certificate with nothing but the algorithm of its signature.
    fn certificate(oid: &[&[u8]], parameters: &[u8]) -> Vec<u8> {
        let algorithm = [der(OBJECT, &oid.concat()), parameters.to_vec()].concat();
        der(SEQUENCE, &[der(SEQUENCE, b"to be signed"), der(SEQUENCE, &algorithm)].concat())
    }

    #[track_caller]
    fn check(certificate: &[u8], expected: Option<&'static Algorithm>) {
        let expected = expected.map(|algorithm| digest(algorithm, certificate).as_ref().to_vec());
        assert_eq!(end_point(certificate), expected, "binding-1");
    }

    #[test]
    fn the_hash_is_that_of_the_signature() {
        for (last, expected) in [
            (4, Some(&SHA256)),
            (5, Some(&SHA256)),
            (11, Some(&SHA256)),
            (12, Some(&SHA384)),
            (13, Some(&SHA512)),
            (14, None),
        ] {
            check(&certificate(&[RSA, &[last]], &[5, 0]), expected);
        }
        check(&certificate(&[ECDSA_SHA1], &[]), Some(&SHA256));
        for (last, expected) in
            [(1, None), (2, Some(&SHA256)), (3, Some(&SHA384)), (4, Some(&SHA512))]
        {
            check(&certificate(&[ECDSA, &[last]], &[]), expected);
        }
        // Ed25519: binding-2.
        check(&certificate(&[&[0x2b, 0x65, 0x70]], &[]), None);
    }

    #[test]
    fn rsassa_pss_names_its_hash_among_its_parameters() {
        let pss = |parameters: &[u8]| certificate(&[RSA, &[10]], parameters);
        let named = |oid: &[&[u8]]| {
            let algorithm = der(SEQUENCE, &der(OBJECT, &oid.concat()));
            pss(&der(SEQUENCE, &der(PSS_HASH, &algorithm)))
        };
        check(&pss(&der(SEQUENCE, &[])), Some(&SHA256));
        check(&named(&[SHA1]), Some(&SHA256));
        check(&named(&[SHA2, &[1]]), Some(&SHA256));
        check(&named(&[SHA2, &[2]]), Some(&SHA384));
        check(&named(&[SHA2, &[3]]), Some(&SHA512));
        check(&named(&[SHA2, &[4]]), None);
    }

    #[test]
    fn malformed_certificates_bind_nothing() {
        let whole = certificate(&[RSA, &[11]], &[]);
        // The outermost length counts all bytes: no prefix is a certificate.
        for length in 0..whole.len() {
            assert_eq!(end_point(&whole[..length]), None, "{length}");
        }
        for bytes in [&[SEQUENCE, 0x80][..], &[SEQUENCE, 0x85, 1, 1, 1, 1, 1], &[0xff; 64]] {
            assert_eq!(end_point(bytes), None);
        }
    }
}
