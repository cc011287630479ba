//! Decompression of bodies, and joining of their parts.
//!
//! - decompression-1. The bytes that are decompressed at a time are bounded, and so is their sum,
//!   during decompression: a body that would become larger is an error, and so is one that needs
//!   more memory than `WINDOW_LOG` allows.
//! - decompression-2. The result for a body does not depend on the pieces in which it arrives.

use std::io::{self, Write};
use std::mem;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use thiserror::Error;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder};
use zstd::stream::zio::Writer as ZstdWriter;

use super::multipart::{BadParts, Multipart};

/// The bytes that are returned at a time (decompression-1), without those that one call of the
/// decoder adds: at most a block of zstd.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// The binary logarithm of the largest window of zstd: 8 MiB, which RFC 9659 lets senders rely on.
const WINDOW_LOG: u32 = 23;

/// The reason why a body cannot be decompressed.
#[derive(Debug, Error)]
pub(crate) enum DecompressError {
    #[error("the body has more than {max} bytes, decompressed")]
    TooLarge { max: usize },
    #[error("the body is not valid {name}: {error}")]
    Malformed { name: &'static str, error: io::Error },
    #[error("the body is not valid multipart/form-data: {0}")]
    NotParts(&'static str),
}

impl From<BadParts> for DecompressError {
    fn from(BadParts(why): BadParts) -> DecompressError {
        DecompressError::NotParts(why)
    }
}

/// The compression of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Plain,
    Gzip,
    Zstd,
}

impl Encoding {
    /// Returns the encoding that a `Content-Encoding` names; `None` for an unknown one.
    pub(crate) fn named(name: &str) -> Option<Encoding> {
        match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Encoding::Gzip),
            "zstd" => Some(Encoding::Zstd),
            "identity" | "" => Some(Encoding::Plain),
            _ => None,
        }
    }

    /// Returns the bytes of memory of a decoder.
    pub(crate) fn memory_bytes(self) -> usize {
        match self {
            Encoding::Plain => 0,
            Encoding::Gzip => 64 << 10,
            Encoding::Zstd => (1 << WINDOW_LOG) + (256 << 10),
        }
    }
}

/// The compression of a body, and its division into parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BodyEncoding {
    pub(crate) encoding: Encoding,
    /// The `Content-Type` of a body of several parts.
    pub(crate) parts: Option<String>,
}

/// A decoder of one body.
pub(crate) struct Decompressor {
    decoder: Option<Decoder>,
    parts: Option<Multipart>,
    /// The number of bytes so far: as received in `compressed`, decompressed in `plain`.
    compressed: usize,
    plain: usize,
    max: usize,
}

/// A decompressor; `plain` has its output.
enum Decoder {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zstd(ZstdWriter<Vec<u8>, ZstdDecoder<'static>>),
}

impl Decoder {
    fn new(encoding: Encoding) -> Option<Decoder> {
        match encoding {
            Encoding::Plain => None,
            Encoding::Gzip => Some(Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))),
            Encoding::Zstd => {
                let mut decoder = ZstdDecoder::new().expect("no dictionary is no bad one");
                let set = decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG));
                set.expect("zstd knows such windows");
                Some(Decoder::Zstd(ZstdWriter::new(Vec::new(), decoder)))
            }
        }
    }

    fn plain(&mut self) -> &mut Vec<u8> {
        match self {
            Decoder::Gzip(gzip) => gzip.get_mut(),
            Decoder::Zstd(zstd) => zstd.writer_mut(),
        }
    }

    /// Takes bytes from the front, and returns their number.
    fn write(&mut self, compressed: &[u8]) -> io::Result<usize> {
        let count = match self {
            Decoder::Gzip(gzip) => gzip.write(compressed)?,
            Decoder::Zstd(zstd) => zstd.write(compressed)?,
        };
        if count == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(count) }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Decoder::Gzip(gzip) => gzip.try_finish(),
            Decoder::Zstd(zstd) => zstd.finish(),
        }
    }

    fn refused(&self, error: io::Error) -> DecompressError {
        let name = match self {
            Decoder::Gzip(_) => "gzip",
            Decoder::Zstd(_) => "zstd",
        };
        DecompressError::Malformed { name, error }
    }
}

impl Decompressor {
    /// Makes a decoder for bodies of at most `max` decompressed bytes.
    pub(crate) fn new(
        body_encoding: &BodyEncoding,
        max: usize,
    ) -> Result<Decompressor, DecompressError> {
        Ok(Decompressor {
            decoder: Decoder::new(body_encoding.encoding),
            parts: body_encoding.parts.as_deref().map(Multipart::new).transpose()?,
            compressed: 0,
            plain: 0,
            max,
        })
    }

    /// Takes bytes from the front of `compressed`, and returns their text, if any. The caller
    /// repeats it until there are none left.
    pub(crate) fn next(&mut self, compressed: &mut Bytes) -> Result<Bytes, DecompressError> {
        let plain = match &mut self.decoder {
            None => compressed.split_to(compressed.len().min(PIECE_BYTES)),
            Some(decoder) => {
                while !compressed.is_empty() && decoder.plain().len() < PIECE_BYTES {
                    // One call returns at most the decoder's own buffer, or a block.
                    let count =
                        decoder.write(compressed).map_err(|error| decoder.refused(error))?;
                    let _ = compressed.split_to(count);
                    self.compressed += count;
                }
                Bytes::from(mem::take(decoder.plain()))
            }
        };
        self.joined(plain)
    }

    /// Returns the rest of the text, after all bytes were taken.
    pub(crate) fn finish(&mut self) -> Result<Bytes, DecompressError> {
        let plain = match &mut self.decoder {
            None => Bytes::new(),
            Some(decoder) => {
                decoder.finish().map_err(|error| decoder.refused(error))?;
                Bytes::from(mem::take(decoder.plain()))
            }
        };
        let text = self.joined(plain)?;
        if let Some(parts) = &self.parts {
            parts.finish()?;
        }
        Ok(text)
    }

    fn joined(&mut self, plain: Bytes) -> Result<Bytes, DecompressError> {
        self.plain += plain.len();
        // Members of a gzip body may be empty, and any number of them.
        if self.max < self.plain || self.max < self.compressed {
            return Err(DecompressError::TooLarge { max: self.max });
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
    use zstd::stream::raw::CParameter;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(text, 3).unwrap()
    }

    const PLAIN: BodyEncoding = BodyEncoding { encoding: Encoding::Plain, parts: None };
    const GZIP: BodyEncoding = BodyEncoding { encoding: Encoding::Gzip, parts: None };
    const ZSTD: BodyEncoding = BodyEncoding { encoding: Encoding::Zstd, parts: None };

    /// Returns the text, and its largest piece.
    fn decompress(
        body: &[u8],
        body_encoding: &BodyEncoding,
        max: usize,
    ) -> Result<(Vec<u8>, usize), String> {
        let mut decompressor =
            Decompressor::new(body_encoding, max).map_err(|error| error.to_string())?;
        let (mut compressed, mut text, mut largest) = (Bytes::copy_from_slice(body), Vec::new(), 0);
        while !compressed.is_empty() {
            let piece = decompressor.next(&mut compressed).map_err(|error| error.to_string())?;
            largest = largest.max(piece.len());
            text.extend_from_slice(&piece);
        }
        let rest = decompressor.finish().map_err(|error| error.to_string())?;
        largest = largest.max(rest.len());
        text.extend_from_slice(&rest);
        Ok((text, largest))
    }

    #[test]
    fn little_is_decompressed_at_a_time() {
        let text = vec![b'\n'; 8 << 20];
        for (body, body_encoding) in
            [(text.clone(), PLAIN), (gzip(&text), GZIP), (zstd(&text), ZSTD)]
        {
            let (found, largest) = decompress(&body, &body_encoding, text.len()).unwrap();
            assert!(found == text && largest <= 4 * PIECE_BYTES, "decompression-1: {largest}");
        }
    }

    #[test]
    fn decompression_ends_at_its_bound() {
        let too_large = Err("the body has more than 1000 bytes, decompressed".to_owned());
        assert_eq!(decompress(&[0; 1_001], &PLAIN, 1_000), too_large, "decompression-1");
        for (compress, body_encoding) in [(gzip as fn(&[u8]) -> Vec<u8>, GZIP), (zstd, ZSTD)] {
            assert_eq!(
                decompress(&compress(&[0; 1_001]), &body_encoding, 1_000),
                too_large,
                "decompression-1"
            );
            assert!(decompress(&compress(&[0; 1_000]), &body_encoding, 1_000).is_ok());
            assert_eq!(
                decompress(&compress(b"").repeat(120), &body_encoding, 1_000),
                too_large,
                "decompression-1"
            );
        }
        // A bomb of newlines: 300 MB, of which no more than the bound is ever decompressed.
        let bomb = zstd(&vec![b'\n'; 300_000_000]);
        assert!(bomb.len() < 64 << 10);
        assert!(decompress(&bomb, &ZSTD, 1 << 20).unwrap_err().starts_with("the body has more"));
    }

    #[test]
    fn a_body_says_how_much_it_wants_remembered_and_is_refused_for_it() {
        let text: Vec<u8> =
            (0..9_u32 << 20).map(|n| (n.wrapping_mul(n) >> 7).to_le_bytes()[0]).collect();
        let compressed = |log: u32| {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
            encoder.set_parameter(CParameter::WindowLog(log)).unwrap();
            encoder.write_all(&text).unwrap();
            encoder.finish().unwrap()
        };
        assert!(decompress(&compressed(WINDOW_LOG), &ZSTD, text.len()).unwrap().0 == text);
        let error = decompress(&compressed(WINDOW_LOG + 1), &ZSTD, text.len()).unwrap_err();
        assert!(error.starts_with("the body is not valid zstd: "), "decompression-1: {error}");
    }

    #[test]
    fn a_body_that_is_not_compressed_as_declared_is_refused() {
        let compressors = [("gzip", gzip as fn(&[u8]) -> Vec<u8>, GZIP), ("zstd", zstd, ZSTD)];
        for (name, compress, body_encoding) in compressors {
            let whole = compress(b"t v=1i 1\n");
            for body in [b"t v=1i 1".as_slice(), &whole[..whole.len() - 9], &whole[..4], b""] {
                let error = decompress(body, &body_encoding, 1_000).unwrap_err();
                assert!(error.starts_with(&format!("the body is not valid {name}: ")), "{error}");
            }
            let both = [whole.clone(), whole].concat();
            assert_eq!(
                decompress(&both, &body_encoding, 1_000).unwrap().0,
                b"t v=1i 1\nt v=1i 1\n"
            );
        }
    }

    #[test]
    fn parts_may_be_compressed_as_a_whole() {
        let parts = Some("multipart/form-data; boundary=x".to_owned());
        let body = b"--x\r\n\r\nt v=1i 1\r\n--x\r\n\r\nt v=2i 2\r\n--x--";
        let body_encoding = BodyEncoding { encoding: Encoding::Gzip, parts };
        assert_eq!(
            decompress(&gzip(body), &body_encoding, 1_000).unwrap().0,
            b"t v=1i 1\nt v=2i 2"
        );
        let error = decompress(&gzip(&body[..20]), &body_encoding, 1_000).unwrap_err();
        assert_eq!(error, "the body is not valid multipart/form-data: it has no last boundary");
    }
}
