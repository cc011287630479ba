//! Compression of answers in parts, if the client accepts it: the counterpart of `decompression`.
//!
//! - compression-1. All bytes that are pushed are returned by the same call, so that no client
//!   waits for rows that are ready.
//! - An answer has one encoder with a window of its own, 1 MiB at most, whatever its length.

use std::io::Write;
use std::mem;

use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use super::response::Response;
use super::wire::Head;

/// The fastest level, which makes the JSON of rows four to ten times smaller.
const GZIP_LEVEL: u32 = 1;
const ZSTD_LEVEL: i32 = 1;
const INTO_MEMORY: &str = "a Vec takes everything";

/// The compression of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Gzip,
    Zstd,
}

/// A compressor of one answer.
pub(super) enum Compressor {
    Plain,
    Gzip(Box<GzEncoder<Vec<u8>>>),
    Zstd(Box<ZstdEncoder<'static, Vec<u8>>>),
}

impl Coding {
    /// Returns the coding that the client prefers; of two with equal weight, zstd takes less time.
    pub(super) fn of(head: &Head) -> Coding {
        let accepted = head.field("accept-encoding").unwrap_or_default();
        let named = |name| named_weight(accepted, name);
        let any = named("*").unwrap_or(0.0);
        let plain = named("identity").unwrap_or(0.0);
        let mut best = (Coding::Plain, plain);
        for (coding, name) in [(Coding::Zstd, "zstd"), (Coding::Gzip, "gzip")] {
            let weight = named(name).unwrap_or(any);
            if best.1 < weight || best.0 == Coding::Plain && 0.0 < weight && weight == best.1 {
                best = (coding, weight);
            }
        }
        best.0
    }

    /// Adds the header fields of the coding to an answer.
    pub(super) fn describe(self, response: Response) -> Response {
        let response = response.with("Vary", "Accept-Encoding");
        match self {
            Coding::Plain => response,
            Coding::Gzip => response.with("Content-Encoding", "gzip"),
            Coding::Zstd => response.with("Content-Encoding", "zstd"),
        }
    }

    pub(super) fn compressor(self) -> Compressor {
        match self {
            Coding::Plain => Compressor::Plain,
            Coding::Gzip => {
                let encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
                Compressor::Gzip(Box::new(encoder))
            }
            Coding::Zstd => {
                let encoder = ZstdEncoder::new(Vec::new(), ZSTD_LEVEL).expect("the level is one");
                Compressor::Zstd(Box::new(encoder))
            }
        }
    }
}

/// Returns the weight of a coding in `Accept-Encoding`; `None` if it is not named.
fn named_weight(accepted: &str, name: &str) -> Option<f32> {
    accepted.split(',').find_map(|choice| {
        let (known, weight) = choice.split_once(';').unwrap_or((choice, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|text| text.parse::<f32>().ok());
        known.trim().eq_ignore_ascii_case(name).then_some(weight.unwrap_or(1.0))
    })
}

/// Returns true if a client accepts gzip.
pub(super) fn takes_gzip(head: &Head) -> bool {
    let accepted = head.field("accept-encoding").unwrap_or_default();
    named_weight(accepted, "gzip").is_some_and(|weight| 0.0 < weight)
}

impl Compressor {
    /// Compresses the next bytes (compression-1).
    pub(super) fn push(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Compressor::Plain => bytes,
            Compressor::Gzip(encoder) => {
                encoder.write_all(&bytes).and_then(|()| encoder.flush()).expect(INTO_MEMORY);
                mem::take(encoder.get_mut())
            }
            Compressor::Zstd(encoder) => {
                encoder.write_all(&bytes).and_then(|()| encoder.flush()).expect(INTO_MEMORY);
                mem::take(encoder.get_mut())
            }
        }
    }

    /// Compresses the last bytes, and ends the stream.
    pub(super) fn finish(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        match mem::replace(self, Compressor::Plain) {
            Compressor::Plain => bytes,
            Compressor::Gzip(mut encoder) => {
                encoder.write_all(&bytes).expect(INTO_MEMORY);
                encoder.finish().expect(INTO_MEMORY)
            }
            Compressor::Zstd(mut encoder) => {
                encoder.write_all(&bytes).expect(INTO_MEMORY);
                encoder.finish().expect(INTO_MEMORY)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use bytes::BytesMut;
    use flate2::read::GzDecoder;

    use super::*;

    fn head(fields: &str) -> Head {
        let text = format!("GET / HTTP/1.0\r\n{fields}\r\n");
        Head::of_text(&mut BytesMut::from(text.as_str()))
    }

    #[test]
    fn clients_get_what_they_like_best() {
        for (accepted, expected) in [
            ("", Coding::Plain),
            ("identity", Coding::Plain),
            ("br, deflate", Coding::Plain),
            ("gzip, deflate, br", Coding::Gzip),
            ("gzip, deflate, br, zstd", Coding::Zstd),
            ("br;q=1.0, GZIP;q=0.5", Coding::Gzip),
            ("gzip;q=1, zstd;q=0.5", Coding::Gzip),
            ("gzip;q=0, zstd;q=0.000", Coding::Plain),
            ("identity;q=1, gzip;q=0.5", Coding::Plain),
            ("identity, gzip", Coding::Gzip),
            ("*", Coding::Zstd),
            ("zstd;q=0, *", Coding::Gzip),
        ] {
            let head = head(&format!("Accept-Encoding: {accepted}\r\n"));
            assert_eq!(Coding::of(&head), expected, "{accepted}");
        }
        assert_eq!(Coding::of(&head("")), Coding::Plain);
    }

    #[test]
    fn every_part_comes_out_at_once_and_all_of_them_are_the_answer() {
        let parts: Vec<Vec<u8>> = (0..100).map(|at| vec![b'a' + at % 7; 997]).collect();
        for coding in [Coding::Plain, Coding::Gzip, Coding::Zstd] {
            let (mut compressor, mut sent) = (coding.compressor(), Vec::new());
            for part in &parts[..99] {
                let bytes = compressor.push(part.clone());
                assert!(!bytes.is_empty(), "compression-1: {coding:?}");
                sent.extend(bytes);
            }
            sent.extend(compressor.finish(parts[99].clone()));
            let mut plain = Vec::new();
            match coding {
                Coding::Plain => plain = sent,
                Coding::Gzip => drop(GzDecoder::new(&sent[..]).read_to_end(&mut plain).unwrap()),
                Coding::Zstd => plain = zstd::decode_all(&sent[..]).unwrap(),
            }
            assert!(plain == parts.concat(), "{coding:?}");
        }
    }
}
