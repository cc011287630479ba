//! From the bytes of a body to its text: decompressed, and parts joined.
//!
//! - UN1. What is unpacked at a time is bounded, and so is all of it, while it is unpacked: a body
//!   that would become more is an error.
//! - UN2. What comes of a body does not depend on where it was cut when it came.

use std::io::{self, Write};
use std::mem;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use thiserror::Error;

use super::multipart::{BadParts, Multipart};

/// Bytes that are handed out at a time (UN1), but for what a call of the decoder adds.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// Why there is no text.
#[derive(Debug, Error)]
pub(crate) enum UnpackError {
    #[error("the body has more than {max} bytes, decompressed")]
    TooLarge { max: usize },
    #[error("the body is no gzip: {0}")]
    NotGzip(io::Error),
    #[error("the body is no text of several parts: {0}")]
    NotParts(&'static str),
}

impl From<BadParts> for UnpackError {
    fn from(BadParts(why): BadParts) -> UnpackError {
        UnpackError::NotParts(why)
    }
}

/// What a body is wrapped in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packing {
    pub(crate) is_gzip: bool,
    /// The `Content-Type` of a body of several parts.
    pub(crate) parts: Option<String>,
}

/// Takes a body, gives text.
pub(crate) struct Unpacker {
    gzip: Option<MultiGzDecoder<Vec<u8>>>,
    parts: Option<Multipart>,
    /// Bytes so far: as they came, and decompressed.
    packed: usize,
    plain: usize,
    max: usize,
}

impl Unpacker {
    /// For bodies that become at most `max` bytes.
    pub(crate) fn new(packing: &Packing, max: usize) -> Result<Unpacker, UnpackError> {
        Ok(Unpacker {
            gzip: packing.is_gzip.then(|| MultiGzDecoder::new(Vec::new())),
            parts: packing.parts.as_deref().map(Multipart::new).transpose()?,
            packed: 0,
            plain: 0,
            max,
        })
    }

    /// Takes bytes from the front of `packed`, and gives the text that they hold, if any. To be
    /// called until there are none left.
    pub(crate) fn next(&mut self, packed: &mut Bytes) -> Result<Bytes, UnpackError> {
        let plain = match &mut self.gzip {
            None => packed.split_to(packed.len().min(PIECE_BYTES)),
            Some(gzip) => {
                while !packed.is_empty() && gzip.get_ref().len() < PIECE_BYTES {
                    // A call gives no more than its own buffer has.
                    let count = match gzip.write(packed) {
                        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                        other => other,
                    };
                    let count = count.map_err(UnpackError::NotGzip)?;
                    let _ = packed.split_to(count);
                    self.packed += count;
                }
                Bytes::from(mem::take(gzip.get_mut()))
            }
        };
        self.joined(plain)
    }

    /// The text that is left when all bytes have come.
    pub(crate) fn finish(&mut self) -> Result<Bytes, UnpackError> {
        let plain = match &mut self.gzip {
            None => Bytes::new(),
            Some(gzip) => {
                gzip.try_finish().map_err(UnpackError::NotGzip)?;
                Bytes::from(mem::take(gzip.get_mut()))
            }
        };
        let text = self.joined(plain)?;
        if let Some(parts) = &self.parts {
            parts.finish()?;
        }
        Ok(text)
    }

    fn joined(&mut self, plain: Bytes) -> Result<Bytes, UnpackError> {
        self.plain += plain.len();
        // Members of a gzip may be empty, as many as there are.
        if self.max < self.plain || self.max < self.packed {
            return Err(UnpackError::TooLarge { max: self.max });
        }
        let Some(parts) = &mut self.parts else { return Ok(plain) };
        let mut text = Vec::new();
        parts.push(&plain, &mut text)?;
        Ok(Bytes::from(text))
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    const GZIP: Packing = Packing { is_gzip: true, parts: None };

    /// The text, and the largest piece of it.
    fn unpack(body: &[u8], packing: &Packing, max: usize) -> Result<(Vec<u8>, usize), String> {
        let mut unpacker = Unpacker::new(packing, max).map_err(|error| error.to_string())?;
        let (mut packed, mut text, mut largest) = (Bytes::copy_from_slice(body), Vec::new(), 0);
        while !packed.is_empty() {
            let piece = unpacker.next(&mut packed).map_err(|error| error.to_string())?;
            largest = largest.max(piece.len());
            text.extend_from_slice(&piece);
        }
        text.extend_from_slice(&unpacker.finish().map_err(|error| error.to_string())?);
        Ok((text, largest))
    }

    #[test]
    fn little_is_unpacked_at_a_time() {
        let text = vec![b'\n'; 8 << 20];
        for (body, packing) in [(text.clone(), Packing::default()), (gzip(&text), GZIP)] {
            let (found, largest) = unpack(&body, &packing, text.len()).unwrap();
            assert!(found == text && largest <= 3 * PIECE_BYTES, "UN1: {largest}");
        }
    }

    #[test]
    fn unpacking_ends_at_its_bound() {
        let too_large = Err("the body has more than 1000 bytes, decompressed".to_owned());
        assert_eq!(unpack(&gzip(&[0; 1_001]), &GZIP, 1_000), too_large, "UN1");
        assert_eq!(unpack(&[0; 1_001], &Packing::default(), 1_000), too_large, "UN1");
        assert!(unpack(&gzip(&[0; 1_000]), &GZIP, 1_000).is_ok());
        assert_eq!(unpack(&gzip(b"").repeat(60), &GZIP, 1_000), too_large, "UN1");
    }

    #[test]
    fn what_is_no_gzip_is_refused() {
        let whole = gzip(b"t v=1i 1\n");
        for body in [b"t v=1i 1".as_slice(), &whole[..whole.len() - 9], &whole[..4]] {
            let error = unpack(body, &GZIP, 1_000).unwrap_err();
            assert!(error.starts_with("the body is no gzip: "), "{error}");
        }
        let both = [whole.clone(), whole].concat();
        assert_eq!(unpack(&both, &GZIP, 1_000).unwrap().0, b"t v=1i 1\nt v=1i 1\n");
    }

    #[test]
    fn parts_may_be_packed_as_a_whole() {
        let parts = Some("multipart/form-data; boundary=x".to_owned());
        let body = b"--x\r\n\r\nt v=1i 1\r\n--x\r\n\r\nt v=2i 2\r\n--x--";
        let packing = Packing { is_gzip: true, parts };
        assert_eq!(unpack(&gzip(body), &packing, 1_000).unwrap().0, b"t v=1i 1\nt v=2i 2");
        let error = unpack(&gzip(&body[..20]), &packing, 1_000).unwrap_err();
        assert_eq!(error, "the body is no text of several parts: it has no last boundary");
    }
}
