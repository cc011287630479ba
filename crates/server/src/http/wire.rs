//! One connection as bytes: heads of requests, bodies, and what is written back.
//!
//! - WI1. What is read and not used yet stays in `buffer`, so every wait can be given up and begun
//!   again, and requests that came together are answered one after the other.
//! - WI2. A connection that is silent holds no buffer, whether between requests or within one, and
//!   one that sends little at a time a small one.
//! - WI3. A head that could be read in two ways is refused: two lengths, a length and chunks, an
//!   encoding of transfer that is not `chunked`, not exactly one host.
//!
//! The grammar of heads is `httparse`'s. Not here: what requests mean.

mod body;
mod head;

use std::io;
use std::mem;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::socket::Socket;

pub(crate) use body::{BadBody, Body};
pub(crate) use head::{Framing, Head, HeadError, HeadReader};

/// Bytes that are made room for when a head is waited for.
const HEAD_ROOM: usize = 8 << 10;
/// Bytes that are made room for when a body is read: large reads, few calls.
const READ_ROOM: usize = 256 << 10;
/// With fewer bytes in it, such room is given back (WI2).
const ROOM_USED: usize = READ_ROOM / 8;
/// Bytes of later requests that are taken while a statement runs.
const AHEAD_BYTES: usize = 64 << 10;
/// How often a connection whose buffer is full is asked whether its other side has gone.
const CLOSED_TICK: Duration = Duration::from_millis(50);
/// How long, and how many bytes, a connection that is given up is still read, so that its client
/// sees the answer before the connection is reset.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 << 20;

/// How long things may take and how large they may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireLimits {
    pub(crate) head_bytes: usize,
    pub(crate) idle: Duration,
    pub(crate) head_time: Duration,
    pub(crate) body_idle: Duration,
}

/// A connection.
pub(crate) struct Wire {
    stream: Socket,
    buffer: BytesMut,
    heads: HeadReader,
    limits: WireLimits,
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

impl From<BadBody> for BodyError {
    fn from(BadBody(why): BadBody) -> BodyError {
        BodyError::Malformed(why)
    }
}

impl Body {
    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self, wire: &mut Wire) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(bytes) = self.take(&mut wire.buffer)? {
                return Ok(Some(bytes));
            }
            if self.is_done() {
                return Ok(None);
            }
            if mem::take(&mut self.expects_continue) {
                wire.write(&mut &b"HTTP/1.1 100 Continue\r\n\r\n"[..]).await?;
            }
            match timeout(wire.limits.body_idle, wire.fill_body()).await {
                Err(_) => return Err(BodyError::Slow),
                Ok(Ok(0)) => return Err(BodyError::Cut),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error.into()),
            }
        }
    }
}

impl Wire {
    pub(crate) fn new(stream: Socket, limits: WireLimits) -> Wire {
        Wire { stream, buffer: BytesMut::new(), heads: HeadReader::default(), limits }
    }

    /// The head of the next request; `None` if there is none any more. It can be dropped and asked
    /// for again (WI1).
    pub(crate) async fn head(&mut self) -> Result<Option<Head>, HeadError> {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            match timeout(self.limits.idle, self.stream.readable()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Ok(None),
            }
        }
        let deadline = Instant::now() + self.limits.head_time;
        loop {
            if let Some(head) = self.heads.take(&mut self.buffer, self.limits.head_bytes)? {
                return Ok(Some(head));
            }
            match timeout_at(deadline, self.fill(HEAD_ROOM)).await {
                Err(_) => return Err(HeadError::Slow),
                Ok(Ok(0) | Err(_)) => return Ok(None),
                Ok(Ok(_)) => {}
            }
        }
    }

    /// Whether nothing of a next request is there.
    pub(crate) fn is_idle(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Reads what comes into the buffer; 0 at the end.
    async fn fill(&mut self, room: usize) -> io::Result<usize> {
        self.buffer.reserve(room);
        self.stream.read_buf(&mut self.buffer).await
    }

    /// Reads what comes of a body; 0 at the end. It holds no memory while it waits, and little more
    /// than what has come afterwards (WI2).
    async fn fill_body(&mut self) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.stream.readable().await?;
        }
        let count = self.fill(READ_ROOM).await?;
        if self.buffer.len() < ROOM_USED {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Ok(count)
    }

    /// Returns when the client has closed its side. Never reads more than so far ahead.
    pub(crate) async fn closed(&mut self) {
        while self.buffer.len() < AHEAD_BYTES {
            if matches!(self.fill(HEAD_ROOM).await, Ok(0) | Err(_)) {
                return;
            }
        }
        // Unread bytes hide the end, but not from the kernel.
        while !self.stream.is_closed() {
            sleep(CLOSED_TICK).await;
        }
    }

    /// Whether the client has closed its side. Does not wait.
    pub(crate) fn is_closed(&self) -> bool {
        self.stream.is_closed()
    }

    /// Writes all of it, waiting for the client no longer than for a silent one.
    pub(crate) async fn write(&mut self, bytes: &mut (impl bytes::Buf + Send)) -> io::Result<()> {
        while bytes.has_remaining() {
            match timeout(self.limits.idle, self.stream.write_buf(bytes)).await {
                Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        // What TLS has encrypted and the kernel has not taken.
        match timeout(self.limits.idle, self.stream.flush()).await {
            Ok(flushed) => flushed,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Has the client told, when the connection ends, that something is missing.
    pub(crate) fn reset_at_end(&self) {
        // A client that cannot be told is not worse off than before.
        let _ = self.stream.set_zero_linger();
    }

    /// Ends the connection so that the client still sees what was written.
    pub(crate) async fn linger(mut self) {
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let mut left = LINGER_BYTES;
        let drain = async {
            while 0 < left {
                self.buffer.clear();
                match self.fill(READ_ROOM).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => left = left.saturating_sub(count),
                }
            }
        };
        // Whoever still sends after that has been told often enough.
        let _ = timeout(LINGER, drain).await;
    }
}
