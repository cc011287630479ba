//! http_wire-3, wire_head-1, wire_body-1, decompression-1, decompression-2, multipart-1: a request
//! is the same wherever its bytes are split, and the memory of its body is bounded.
//!
//! The first byte says how the rest is sent: as a whole request, or as the body of one, in chunks,
//! compressed, or both. The second byte selects the encoding and the multipart format. Two numbers
//! say how the bytes are split.

use std::io::Write as _;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::input::Input;
use crate::http::decompression::{BodyEncoding, Decompressor, Encoding, PIECE_BYTES};
use crate::http::wire::{BadBody, Body, Head, HeadReader};

const HEAD_BYTES: usize = 1 << 10;
const TEXT_BYTES: usize = 64 << 10;

/// The role of the bytes.
#[derive(Clone, Copy)]
enum Form {
    Request,
    Chunks,
    Compressed,
    CompressedChunks,
}

pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let form =
        input.choose(&[Form::Request, Form::Chunks, Form::Compressed, Form::CompressedChunks]);
    let body_encoding = body_encoding(input.byte());
    let cuts = [input.short(), input.short()];
    let rest = input.take(usize::MAX);
    let request = match form {
        Form::Request => rest.to_vec(),
        Form::Chunks => in_chunks(rest, cuts[0]),
        Form::Compressed => with_length(&compressed(rest, body_encoding.encoding)),
        Form::CompressedChunks => in_chunks(&compressed(rest, body_encoding.encoding), cuts[1]),
    };
    let mut ends = cuts.map(|cut| cut.min(request.len()));
    ends.sort_unstable();
    let whole = read(&[&request], &body_encoding);
    let cut = [&request[..ends[0]], &request[ends[0]..ends[1]], &request[ends[1]..]];
    assert_eq!(read(&cut, &body_encoding), whole, "decompression-2, multipart-1");
    let small: Vec<&[u8]> = request.chunks(1 + cuts[0] % 7).collect();
    assert_eq!(read(&small, &body_encoding), whole, "decompression-2, multipart-1");
}

fn body_encoding(choice: u8) -> BodyEncoding {
    let parts = ["multipart/form-data; boundary=x", "multipart/mixed; boundary=\"a b\""];
    let encoding = match choice >> 3 & 1 {
        _ if choice & 1 == 0 => Encoding::Plain,
        0 => Encoding::Gzip,
        _ => Encoding::Zstd,
    };
    let parts = match choice >> 1 & 3 {
        0 | 1 => None,
        2 => Some(parts[0].to_owned()),
        _ => Some(parts[1].to_owned()),
    };
    BodyEncoding { encoding, parts }
}

fn in_chunks(body: &[u8], choice: usize) -> Vec<u8> {
    let mut request =
        b"POST /write HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(1 + choice % 300) {
        request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}

fn with_length(body: &[u8]) -> Vec<u8> {
    let head = format!("POST /write HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn compressed(bytes: &[u8], encoding: Encoding) -> Vec<u8> {
    if encoding == Encoding::Zstd {
        return zstd::stream::encode_all(bytes, 1).unwrap();
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The outcome of reading a request.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The head is malformed, or too large.
    BadHead,
    /// The head is incomplete.
    NoHead,
    Read {
        head: Head,
        /// The whole body and the text in it, or the error.
        body: Result<Option<Vec<u8>>, &'static str>,
        text: Option<Vec<u8>>,
    },
}

fn read(pieces: &[&[u8]], body_encoding: &BodyEncoding) -> Outcome {
    let (mut buffer, mut pieces) = (BytesMut::new(), pieces.iter());
    let mut reader = HeadReader::default();
    let head = loop {
        match reader.take(&mut buffer, HEAD_BYTES) {
            Ok(Some(head)) => break head,
            Err(_) => return Outcome::BadHead,
            Ok(None) => match pieces.next() {
                Some(piece) => buffer.extend_from_slice(piece),
                // A malformed head may be noticed later if it came in small parts.
                None => match HeadReader::default().take(&mut buffer, HEAD_BYTES) {
                    Err(_) => return Outcome::BadHead,
                    Ok(head) => {
                        assert_eq!(head, None, "wire_head-1");
                        return Outcome::NoHead;
                    }
                },
            },
        }
    };
    let mut decompressor = Decompressor::new(body_encoding, TEXT_BYTES).ok();
    let (mut reader, mut body, mut text) = (Body::new(&head), Vec::new(), Vec::new());
    let body = loop {
        match reader.take(&mut buffer) {
            Ok(Some(taken)) => {
                body.extend_from_slice(&taken);
                decompressor = decompressor
                    .and_then(|decompressor| decompress(decompressor, taken, &mut text));
            }
            Err(BadBody(why)) => break Err(why),
            Ok(None) if reader.is_done() => break Ok(Some(body)),
            Ok(None) => match pieces.next() {
                Some(piece) => buffer.extend_from_slice(piece),
                None => break Ok(None),
            },
        }
    };
    let rest = decompressor.and_then(|mut decompressor| decompressor.finish().ok());
    let text = rest.map(|rest| [text, rest.to_vec()].concat()).filter(|_| body.is_ok());
    assert!(text.as_ref().is_none_or(|text| text.len() <= 2 * TEXT_BYTES), "decompression-1");
    Outcome::Read { head, body, text }
}

/// Decompresses some bytes and appends them to `text`; `None` after an error.
fn decompress(
    mut decompressor: Decompressor,
    mut compressed: Bytes,
    text: &mut Vec<u8>,
) -> Option<Decompressor> {
    while !compressed.is_empty() {
        let piece = decompressor.next(&mut compressed).ok()?;
        assert!(piece.len() <= 4 * PIECE_BYTES, "decompression-1");
        text.extend_from_slice(&piece);
    }
    Some(decompressor)
}
