//! The bytes of a connection, in plain text or through TLS.
//!
//! - Bytes that were read and not used yet stay in `input`, so every wait can be dropped and
//!   repeated.
//! - pg_wire-2. A connection that waits for its client keeps no buffer beyond `IDLE_BYTES`.
//! - pg_wire-3. While a statement runs, at most `AHEAD_BYTES` of the bytes after it are read, and
//!   the end of the connection is noticed all the same.
//! - pg_wire-4. For a client that has answered at once before, the processor spins for `SPIN`,
//!   since sleeping and waking take as long as its small statements; only one connection of a
//!   server spins at a time, and other tasks run meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures::FutureExt as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::message_writer::MessageWriter;
use crate::socket::Socket;
use crate::tls::ServerStream;

/// The bytes that are reserved to read a message.
const ROOM: usize = 4 << 10;
/// The most bytes of later messages that are read while a statement runs (pg_wire-3).
const AHEAD_BYTES: usize = 64 << 10;
/// The most bytes of a buffer that is kept while the connection is idle (pg_wire-2).
const IDLE_BYTES: usize = 8 << 10;
/// The time in which a prompt client answers (pg_wire-4).
const SPIN: Duration = Duration::from_micros(100);
/// The time, with waking, in which a client may have answered at once.
const SOON: Duration = Duration::from_micros(300);
/// The longest time in which a client takes nothing of the output before its login.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// The interval at which a connection whose input is full is checked for its end.
const TICK: Duration = Duration::from_millis(50);

/// A connection with its buffers.
pub(super) struct Wire {
    socket: Socket,
    pub(super) input: BytesMut,
    pub(super) writer: MessageWriter,
    /// True if the client has answered at once (pg_wire-4).
    is_prompt: bool,
    /// The hash of the certificate that the client was shown.
    end_point: Option<Arc<[u8]>>,
    /// The longest time in which the client takes nothing of the output.
    pub(super) send_timeout: Duration,
}

/// The permission to spin, until it is dropped: at most one connection of a server has it.
struct Spinner<'a>(&'a AtomicBool);

impl Spinner<'_> {
    fn begin(is_spinning: &AtomicBool) -> Option<Spinner<'_>> {
        (!is_spinning.swap(true, Relaxed)).then_some(Spinner(is_spinning))
    }
}

impl Drop for Spinner<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

impl Wire {
    pub(super) fn new(socket: Socket) -> Wire {
        let (input, writer) = (BytesMut::new(), MessageWriter::default());
        let send_timeout = SEND_TIMEOUT;
        Wire { socket, input, writer, is_prompt: false, end_point: None, send_timeout }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.socket.is_tls()
    }

    /// Returns the plain socket for a TLS handshake; `None` if it uses TLS already, or cannot.
    pub(super) fn into_plain(self) -> Option<TcpStream> {
        match self.socket {
            Socket::Plain(stream) => Some(stream),
            Socket::Tls(_) | Socket::Memory(_) => None,
        }
    }

    pub(super) fn of_tls(stream: ServerStream, end_point: Option<Arc<[u8]>>) -> Wire {
        Wire { end_point, ..Wire::new(Socket::Tls(Box::new(stream))) }
    }

    /// Returns the hash of the server's certificate, to which a login over this connection can be
    /// bound.
    pub(super) fn end_point(&self) -> Option<Arc<[u8]>> {
        self.end_point.clone()
    }

    /// Returns the first byte, without taking it; `None` at the end.
    pub(super) async fn peek(&mut self) -> io::Result<Option<u8>> {
        if let Socket::Plain(stream) = &self.socket {
            let mut byte = [0];
            return Ok((stream.peek(&mut byte).await? > 0).then_some(byte[0]));
        }
        self.fill().await?;
        Ok(self.input.first().copied())
    }

    /// Reads bytes; returns 0 at the end.
    pub(super) async fn fill(&mut self) -> io::Result<usize> {
        self.input.reserve(ROOM);
        self.socket.read_buf(&mut self.input).await
    }

    /// Reads the client's next bytes, as [`fill`](Self::fill) does (pg_wire-4).
    pub(super) async fn fill_next(&mut self, is_spinning: &AtomicBool) -> io::Result<usize> {
        let start = Instant::now();
        if self.is_prompt
            && let Some(_spinner) = Spinner::begin(is_spinning)
        {
            while start.elapsed() < SPIN {
                if let Some(read) = self.fill().now_or_never() {
                    return read;
                }
                // Other tasks run, and the kernel is polled.
                tokio::task::yield_now().await;
            }
        }
        self.rest();
        let read = self.fill().await;
        self.is_prompt = start.elapsed() < SOON;
        read
    }

    /// Releases unused memory while the connection is idle (pg_wire-2).
    fn rest(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        if self.writer.bytes.is_empty() && IDLE_BYTES < self.writer.bytes.capacity() {
            self.writer.bytes = BytesMut::new();
        }
    }

    /// Sends the output. The future can be dropped, and the call repeated.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while self.writer.bytes.has_remaining() {
            match timeout(self.send_timeout, self.socket.write_buf(&mut self.writer.bytes)).await {
                Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        self.socket.flush().await
    }

    /// Waits until the client has gone (pg_wire-3).
    pub(super) async fn closed(&mut self) {
        while self.input.len() < AHEAD_BYTES {
            if matches!(self.fill().await, Ok(0) | Err(_)) {
                return;
            }
        }
        // Unread bytes hide the end, but not from the kernel.
        while !self.socket.is_closed() {
            tokio::time::sleep(TICK).await;
        }
    }

    /// Sends the output and ends the connection.
    pub(super) async fn close(mut self) {
        let _ = timeout(Duration::from_secs(2), async {
            if self.flush().await.is_ok() {
                let _ = self.socket.shutdown().await;
            }
        })
        .await;
    }
}
