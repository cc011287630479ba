//! The body of a request, piece by piece.

use std::io;

use bytes::{Buf, Bytes};
use thiserror::Error;
use tokio::time::timeout;

use super::{Framing, Head, READ_ROOM, Wire};

/// Bytes of a chunk's size with its extensions, and of the fields behind the last chunk.
const SIZE_LINE_BYTES: usize = 4 << 10;

/// A body that is being read.
pub(crate) struct Body {
    state: State,
    expects_continue: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes of a body with a length.
    Rest(u64),
    /// A chunk's size comes.
    Size,
    /// So many bytes of a chunk.
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    /// Fields behind the last chunk, of so many bytes so far.
    Trailer(usize),
    Done,
}

/// Why a body could not be read.
#[derive(Debug, Error)]
pub(crate) enum BodyError {
    #[error("the connection ended within the body")]
    Cut,
    #[error("nothing of the body came for too long")]
    Slow,
    #[error("the body is malformed: {0}")]
    Malformed(&'static str),
    #[error("the body cannot be read")]
    Io(#[from] io::Error),
}

impl Body {
    pub(crate) fn new(head: &Head) -> Body {
        let state = match head.framing {
            Framing::Length(0) => State::Done,
            Framing::Length(bytes) => State::Rest(bytes),
            Framing::Chunked => State::Size,
        };
        Body { state, expects_continue: head.expects_continue() }
    }

    /// How many bytes will come, if that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.state {
            State::Rest(bytes) => Some(bytes),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Whether all of it was read, so that another request can follow.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self, wire: &mut Wire) -> Result<Option<Bytes>, BodyError> {
        loop {
            if self.state == State::Done {
                return Ok(None);
            }
            if let Some(bytes) = self.step(wire)? {
                return Ok(Some(bytes));
            }
            if self.state == State::Done {
                return Ok(None);
            }
            if self.expects_continue {
                self.expects_continue = false;
                wire.write(&mut &b"HTTP/1.1 100 Continue\r\n\r\n"[..]).await?;
            }
            let idle = wire.limits.body_idle;
            match timeout(idle, wire.fill(READ_ROOM)).await {
                Err(_) => return Err(BodyError::Slow),
                Ok(Ok(0)) => return Err(BodyError::Cut),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error.into()),
            }
        }
    }

    /// What the bytes that are there hold of the body; `None` if more must come, or it is done.
    fn step(&mut self, wire: &mut Wire) -> Result<Option<Bytes>, BodyError> {
        loop {
            let buffer = &mut wire.buffer;
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
                State::Size => match httparse::parse_chunk_size(buffer) {
                    Ok(httparse::Status::Complete((bytes, size))) => {
                        buffer.advance(bytes);
                        self.state = if size == 0 { State::Trailer(0) } else { State::Chunk(size) };
                    }
                    Ok(httparse::Status::Partial) if buffer.len() < SIZE_LINE_BYTES => {
                        return Ok(None);
                    }
                    _ => return Err(BodyError::Malformed("a chunk has no size")),
                },
                State::ChunkEnd => {
                    if buffer.len() < 2 {
                        return Ok(None);
                    }
                    if !buffer.starts_with(b"\r\n") {
                        return Err(BodyError::Malformed("a chunk is longer than its size"));
                    }
                    buffer.advance(2);
                    self.state = State::Size;
                }
                State::Trailer(before) => {
                    let Some(end) = buffer.iter().position(|&byte| byte == b'\n') else {
                        if SIZE_LINE_BYTES <= before + buffer.len() {
                            return Err(BodyError::Malformed("its last fields are too long"));
                        }
                        return Ok(None);
                    };
                    let is_empty = matches!(&buffer[..end], b"" | b"\r");
                    buffer.advance(end + 1);
                    let bytes = before + end + 1;
                    if SIZE_LINE_BYTES < bytes {
                        return Err(BodyError::Malformed("its last fields are too long"));
                    }
                    self.state = if is_empty { State::Done } else { State::Trailer(bytes) };
                }
                State::Done => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::super::WireLimits;
    use super::*;

    /// What is read of a body that comes in these pieces.
    async fn read(pieces: &[&[u8]]) -> Result<Vec<u8>, String> {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = TcpListener::bind(any).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let second = Duration::from_secs(60);
        let limits =
            WireLimits { head_bytes: 4_096, idle: second, head_time: second, body_idle: second };
        let mut wire = Wire::new(stream, limits);
        let mut pieces = pieces.iter();
        client.write_all(pieces.next().unwrap()).await.unwrap();
        let head = wire.head().await.unwrap().unwrap();
        let mut body = Body::new(&head);
        let mut bytes = Vec::new();
        loop {
            if let Some(piece) = pieces.next() {
                client.write_all(piece).await.unwrap();
            } else if pieces.len() == 0 {
                client.shutdown().await.unwrap();
            }
            match body.next(&mut wire).await {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => return Ok(bytes),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    #[tokio::test]
    async fn a_body_ends_at_its_length() {
        let head = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab";
        assert_eq!(read(&[head, b"cdeGET / HTTP/1.1"]).await.unwrap(), b"abcde");
        let cut = "the connection ended within the body";
        assert_eq!(read(&[head, b"c"]).await.unwrap_err(), cut);
    }

    #[tokio::test]
    async fn chunks_are_put_together() {
        let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n";
        let rest: &[&[u8]] = &[head, b"abc\r", b"\n2\r\nde\r\n0\r\n", b"Last: x\r\n\r\n"];
        assert_eq!(read(rest).await.unwrap(), b"abcde");
    }

    #[tokio::test]
    async fn bad_chunks_are_refused() {
        for (text, expected) in [
            ("3\r\nabcd\r\n", "the body is malformed: a chunk is longer than its size"),
            ("x\r\n", "the body is malformed: a chunk has no size"),
            ("3\r\nabc", "the connection ended within the body"),
        ] {
            let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            let all = [head, text.as_bytes().to_vec()].concat();
            assert_eq!(read(&[&all]).await.unwrap_err(), expected, "{text}");
        }
    }
}
