//! The body of a request: the bytes of a body with a length, or those of its chunks.
//!
//! - wire_body-1. Chunks are unambiguous: a size is 1 to 16 hexadecimal digits, perhaps a semicolon
//!   with an extension without control characters, and CRLF; no line ends with LF alone.
//!
//! Not here: waiting for bytes (`wire`), and their meaning.

use bytes::{Buf, Bytes, BytesMut};

use super::{Framing, Head};

/// The most bytes of a chunk's size with its extensions, and of the fields after the last chunk.
const SIZE_LINE_BYTES: usize = 4 << 10;
/// The most digits of a chunk's size: those of 64 bits.
const SIZE_DIGITS: usize = 16;

/// A body that is being read.
pub(crate) struct Body {
    state: State,
    pub(super) expects_continue: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The rest of a body with a length, in bytes.
    Rest(u64),
    /// Before the size of a chunk.
    Size,
    /// The rest of a chunk, in bytes.
    Chunk(u64),
    /// Before the line end after a chunk.
    ChunkEnd,
    /// Within the fields after the last chunk, with the number of their bytes so far.
    Trailer(usize),
    Done,
}

/// The reason why a body is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadBody(pub(crate) &'static str);

impl Body {
    pub(crate) fn new(head: &Head) -> Body {
        let state = match head.framing {
            Framing::Absent | Framing::Length(0) => State::Done,
            Framing::Length(bytes) => State::Rest(bytes),
            Framing::Chunked => State::Size,
        };
        Body { state, expects_continue: head.expects_continue() }
    }

    /// Returns the bytes that will follow, if their number is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.state {
            State::Rest(bytes) => Some(bytes),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Returns true if all of it was read, so that another request can follow.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes the bytes of the body that are in the buffer; `None` if more must arrive, or the body
    /// has ended.
    pub(crate) fn take(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, BadBody> {
        loop {
            match self.state {
                State::Rest(left) | State::Chunk(left) => {
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                    if count == 0 {
                        return Ok(None);
                    }
                    let left = left - count as u64;
                    self.state = match self.state {
                        State::Chunk(_) if left == 0 => State::ChunkEnd,
                        State::Chunk(_) => State::Chunk(left),
                        _ if left == 0 => State::Done,
                        _ => State::Rest(left),
                    };
                    return Ok(Some(buffer.split_to(count).freeze()));
                }
                State::Size => {
                    let Some((bytes, size)) = chunk_size(buffer)? else { return Ok(None) };
                    buffer.advance(bytes);
                    self.state = if size == 0 { State::Trailer(0) } else { State::Chunk(size) };
                }
                State::ChunkEnd => {
                    if buffer.len() < 2 {
                        return Ok(None);
                    }
                    if !buffer.starts_with(b"\r\n") {
                        return Err(BadBody("a chunk is longer than its size"));
                    }
                    buffer.advance(2);
                    self.state = State::Size;
                }
                State::Trailer(before) => {
                    let Some(end) = buffer.iter().position(|&byte| byte == b'\n') else {
                        if SIZE_LINE_BYTES <= before + buffer.len() {
                            return Err(BadBody("its last fields are too long"));
                        }
                        return Ok(None);
                    };
                    let Some((b'\r', line)) = buffer[..end].split_last() else {
                        return Err(BadBody("one of its last lines does not end with CRLF"));
                    };
                    let is_empty = line.is_empty();
                    buffer.advance(end + 1);
                    let bytes = before + end + 1;
                    if SIZE_LINE_BYTES < bytes {
                        return Err(BadBody("its last fields are too long"));
                    }
                    self.state = if is_empty { State::Done } else { State::Trailer(bytes) };
                }
                State::Done => return Ok(None),
            }
        }
    }
}

/// Returns the bytes of the line with a chunk's size, and the size; `None` if the line has not
/// ended (wire_body-1).
fn chunk_size(buffer: &[u8]) -> Result<Option<(usize, u64)>, BadBody> {
    const BAD: BadBody = BadBody("a chunk has no size");
    let digits = buffer.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if SIZE_DIGITS < digits || digits == 0 && !buffer.is_empty() {
        return Err(BAD);
    }
    let rest = &buffer[digits..];
    let is_text = |byte: &&u8| **byte == b'\t' || !byte.is_ascii_control();
    let extension = if rest.starts_with(b";") { rest } else { &[] };
    let end = digits + extension.iter().take_while(is_text).count();
    match &buffer[end..] {
        _ if SIZE_LINE_BYTES < end + 2 => Err(BAD),
        [] | [b'\r'] => Ok(None),
        [b'\r', b'\n', ..] => {
            let digits = str::from_utf8(&buffer[..digits]).map_err(|_| BAD)?;
            let size = u64::from_str_radix(digits, 16).map_err(|_| BAD)?;
            Ok(Some((end + 2, size)))
        }
        _ => Err(BAD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes taken from a request that arrives in these pieces.
    fn take(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), &'static str> {
        let mut buffer = BytesMut::from(pieces[0]);
        let head = Head::of_text(&mut buffer);
        let mut body = Body::new(&head);
        let mut bytes = Vec::new();
        for piece in [&[][..]].iter().chain(&pieces[1..]) {
            buffer.extend_from_slice(piece);
            while let Some(taken) = body.take(&mut buffer).map_err(|BadBody(why)| why)? {
                bytes.extend_from_slice(&taken);
            }
        }
        Ok((bytes, body.is_done()))
    }

    #[test]
    fn a_body_ends_at_its_length() {
        let head = b"POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nab";
        assert_eq!(take(&[head, b"cdeGET / HTTP/1.1"]), Ok((b"abcde".to_vec(), true)));
        assert_eq!(take(&[head, b"c"]), Ok((b"abc".to_vec(), false)));
    }

    const HEAD: &str = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

    #[test]
    fn chunks_are_put_together() {
        let head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n";
        let rest: &[&[u8]] = &[head, b"abc\r", b"\n2\r\nde\r\n0\r\n", b"Last: x\r\n\r\n"];
        assert_eq!(take(rest), Ok((b"abcde".to_vec(), true)));
    }

    #[test]
    fn bad_chunks_are_refused() {
        for (text, expected) in [
            ("3\r\nabcd\r\n", Err("a chunk is longer than its size")),
            ("x\r\n", Err("a chunk has no size")),
            // Some readers treat a line feed in an extension as a line end, others do not.
            ("3;a\nb\r\nabc\r\n", Err("a chunk has no size")),
            ("3\nabc\r\n", Err("a chunk has no size")),
            ("3\rabc\r\n", Err("a chunk has no size")),
            ("\r\n\r\n", Err("a chunk has no size")),
            (";x\r\n\r\n", Err("a chunk has no size")),
            (" 3\r\nabc\r\n", Err("a chunk has no size")),
            ("3 \r\nabc\r\n", Err("a chunk has no size")),
            ("+3\r\nabc\r\n", Err("a chunk has no size")),
            ("0x3\r\nabc\r\n", Err("a chunk has no size")),
            ("10000000000000000\r\n", Err("a chunk has no size")),
            ("00000000000000003\r\nabc\r\n", Err("a chunk has no size")),
            ("3;a\0b\r\nabc\r\n", Err("a chunk has no size")),
            ("0\r\n\n", Err("one of its last lines does not end with CRLF")),
            ("0\r\nA: b\n\r\n", Err("one of its last lines does not end with CRLF")),
            ("0003;a=\"b c\";\td\r\nabc\r\n0\r\n\r\n", Ok((b"abc".to_vec(), true))),
            ("", Ok((Vec::new(), false))),
            ("3\r\nabc", Ok((b"abc".to_vec(), false))),
        ] {
            let head = HEAD.to_owned();
            assert_eq!(take(&[(head + text).as_bytes()]), expected, "{text}");
        }
        let long = [b"0\r\n".to_vec(), vec![b'x'; SIZE_LINE_BYTES]].concat();
        let head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(take(&[head, &long]), Err("its last fields are too long"));
    }
}
