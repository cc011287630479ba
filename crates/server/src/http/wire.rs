//! The bytes of a connection: heads and bodies of requests, and answers.
//!
//! - http_wire-1. Bytes that were read and not used yet stay in `buffer`, so every wait can be
//!   dropped and repeated, and requests that arrive together are answered one after the other.
//! - http_wire-2. A silent connection holds no buffer, whether between requests or within one, and
//!   one that sends little at a time holds a small one.
//! - http_wire-3. An ambiguous head is refused: two lengths, a length and chunks, a transfer
//!   encoding that is not `chunked`, not exactly one host.
//! - http_wire-4. A client that has ended its side of the connection, as `nc -N` does, still gets
//!   its answer; one that has closed the connection has gone. Both look the same until something is
//!   written: the kernel of the second one answers with a reset.
//!
//! Heads are parsed by `httparse`. Not here: the meaning of requests.

mod body;
mod head;

use std::io;
use std::mem;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::socket::Socket;

pub(crate) use body::{BadBody, Body};
pub(crate) use head::{Framing, Head, HeadError, HeadReader};

/// The bytes that are reserved to read a head.
const HEAD_BUFFER_BYTES: usize = 8 << 10;
/// The bytes that are reserved to read a body: large reads, few calls.
const BODY_BUFFER_BYTES: usize = 256 << 10;
/// A buffer with fewer bytes is copied into a smaller one (http_wire-2).
const BUFFER_BYTES_MIN: usize = BODY_BUFFER_BYTES / 8;
/// The most bytes of later requests that are read while a statement runs.
const AHEAD_BYTES: usize = 64 << 10;
/// The interval at which a connection whose buffer is full is checked for its end, and one whose
/// client has ended its side for a reset.
const CLOSED_TICK: Duration = Duration::from_millis(50);
/// The time after the end of the client's side until it is probed: most statements end before.
const PROBE_AFTER: Duration = Duration::from_millis(20);
/// The interim answer that clients skip, wanted or not (RFC 9110, section 15.2).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// The longest time, and the most bytes, for which a connection is still read after its last
/// answer, so that the client sees the answer before the connection is reset.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 << 20;

/// The limits of a connection's waits, and of the size of heads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireLimits {
    pub(crate) head_bytes: usize,
    pub(crate) idle: Duration,
    pub(crate) head_time: Duration,
    pub(crate) body_idle: Duration,
}

/// A connection and its unused bytes.
pub(crate) struct Wire {
    stream: Socket,
    buffer: BytesMut,
    heads: HeadReader,
    limits: WireLimits,
    /// The number of bytes that were written.
    written: u64,
    /// The rest of an interim answer, which precedes all other bytes.
    unsent: &'static [u8],
    /// The end of the client's side, once it was seen.
    end: Option<ClientEnd>,
}

/// The end of the client's side of a connection.
#[derive(Clone, Copy, Debug)]
struct ClientEnd {
    seen: Instant,
    /// The bytes that were written before.
    written: u64,
}

/// The way to find out that a client which has ended its side has gone (http_wire-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// An interim answer is written.
    Interim,
    /// There is none: an answer has begun, or the protocol has no interim answers. Unless more of
    /// the answer is written soon, the client counts as gone.
    Absent,
}

impl Probe {
    /// Returns the probe for a client that has received nothing of the answer to this request.
    pub(crate) fn of(head: &Head) -> Probe {
        if head.is_old { Probe::Absent } else { Probe::Interim }
    }
}

/// The reason why a body could not be read.
#[derive(Debug, Error)]
pub(crate) enum BodyError {
    #[error("the connection ended within the body")]
    Cut,
    #[error("no byte of the body arrived in time")]
    Slow,
    #[error("the body arrives too slowly while other requests wait for its memory")]
    TooSlow,
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
    /// Returns the next bytes; `None` at the end.
    pub(crate) async fn next(&mut self, wire: &mut Wire) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(bytes) = self.take(&mut wire.buffer)? {
                return Ok(Some(bytes));
            }
            if self.is_done() {
                return Ok(None);
            }
            if mem::take(&mut self.expects_continue) {
                wire.write(&mut &CONTINUE[..]).await?;
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
        let (buffer, heads) = (BytesMut::new(), HeadReader::default());
        Wire { stream, buffer, heads, limits, written: 0, unsent: &[], end: None }
    }

    /// Returns the head of the next request; `None` at the end of the connection. The future can be
    /// dropped, and the call repeated (http_wire-1).
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
            match timeout_at(deadline, self.fill(HEAD_BUFFER_BYTES)).await {
                Err(_) => return Err(HeadError::Slow),
                Ok(Ok(0) | Err(_)) => return Ok(None),
                Ok(Ok(_)) => {}
            }
        }
    }

    /// Returns true if no byte of a next request has arrived.
    pub(crate) fn is_idle(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Reads bytes into the buffer; returns 0 at the end.
    async fn fill(&mut self, bytes: usize) -> io::Result<usize> {
        self.buffer.reserve(bytes);
        self.stream.read_buf(&mut self.buffer).await
    }

    /// Reads bytes of a body; returns 0 at the end. It holds no memory while it waits, and
    /// afterwards little more than the received bytes (http_wire-2).
    async fn fill_body(&mut self) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.stream.readable().await?;
        }
        let count = self.fill(BODY_BUFFER_BYTES).await?;
        if self.buffer.len() < BUFFER_BYTES_MIN {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Ok(count)
    }

    /// Waits until the client has gone (http_wire-4). Reads at most `AHEAD_BYTES` of later
    /// requests. The future can be dropped, and the call repeated.
    pub(crate) async fn closed(&mut self, probe: Probe) {
        let end = match self.end {
            Some(end) => end,
            None => {
                if self.ended().await.is_err() {
                    return;
                }
                let end = ClientEnd { seen: Instant::now(), written: self.written };
                *self.end.insert(end)
            }
        };
        sleep_until(end.seen + PROBE_AFTER).await;
        if self.written == end.written {
            match probe {
                Probe::Interim => {
                    self.unsent = CONTINUE;
                    // Counts as written, so that it is written once.
                    self.written += 1;
                }
                Probe::Absent => return,
            }
        }
        while !self.unsent.is_empty() {
            if matches!(self.stream.write_buf(&mut self.unsent).await, Ok(0) | Err(_)) {
                return;
            }
        }
        if self.stream.flush().await.is_err() {
            return;
        }
        while !self.stream.is_reset() {
            sleep(CLOSED_TICK).await;
        }
    }

    /// Waits until the client has ended its side; an error if the connection has failed.
    async fn ended(&mut self) -> io::Result<()> {
        while self.buffer.len() < AHEAD_BYTES {
            if self.fill(HEAD_BUFFER_BYTES).await? == 0 {
                return Ok(());
            }
        }
        // Unread bytes hide the end, but not from the kernel.
        while !self.stream.is_closed() {
            sleep(CLOSED_TICK).await;
        }
        Ok(())
    }

    /// Returns true if the client is known to have gone. The first call that sees the end of its
    /// side probes it (http_wire-4).
    pub(crate) async fn is_disconnected(&mut self, probe: Probe) -> bool {
        if self.end.is_none() && self.stream.is_closed() {
            self.end = Some(ClientEnd { seen: Instant::now(), written: self.written });
            if probe == Probe::Interim && self.write(&mut &CONTINUE[..]).await.is_err() {
                return true;
            }
        }
        self.stream.is_reset()
    }

    /// Writes all bytes; each wait for the client lasts at most the idle timeout.
    pub(crate) async fn write(&mut self, bytes: &mut (impl Buf + Send)) -> io::Result<()> {
        let mut bytes = Buf::chain(mem::take(&mut self.unsent), bytes);
        while bytes.has_remaining() {
            match timeout(self.limits.idle, self.stream.write_buf(&mut bytes)).await {
                Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(Ok(count)) => self.written += count as u64,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        // Writes the bytes that TLS has encrypted and the kernel has not taken.
        match timeout(self.limits.idle, self.stream.flush()).await {
            Ok(flushed) => flushed,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Makes the connection end with a reset, so that the client notices that something is missing.
    pub(crate) fn reset_at_end(&self) {
        // On failure the connection ends as usual.
        let _ = self.stream.set_zero_linger();
    }

    /// Ends the connection so that the client still sees the bytes that were written.
    pub(crate) async fn linger(mut self) {
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let mut left = LINGER_BYTES;
        let drain = async {
            while 0 < left {
                self.buffer.clear();
                match self.fill(BODY_BUFFER_BYTES).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => left = left.saturating_sub(count),
                }
            }
        };
        // A client that still sends after that is cut off.
        let _ = timeout(LINGER, drain).await;
    }
}
