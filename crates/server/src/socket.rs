//! The socket of a connection, in plain text or through TLS, or a pair of buffers in memory.
//!
//! - socket-1. A wait for bytes without a buffer (`readable`) also ends for bytes that were
//!   received with others and are decrypted already.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures::FutureExt as _;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::tls::ServerStream;

/// A socket, with TLS or without.
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<ServerStream>),
    /// A connection within the process (`InMemoryServer`); it never uses TLS.
    Memory(DuplexStream),
}

impl Socket {
    /// Makes the socket of a connection that was accepted.
    pub(crate) fn accepted(stream: TcpStream) -> Socket {
        // Without it, an answer may wait for the client to acknowledge the one before.
        let _ = stream.set_nodelay(true);
        Socket::Plain(stream)
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Socket::Tls(_))
    }

    /// Returns the socket of the kernel, if there is one.
    fn stream(&self) -> Option<&TcpStream> {
        match self {
            Socket::Plain(stream) => Some(stream),
            Socket::Tls(stream) => Some(stream.get_ref().0),
            Socket::Memory(_) => None,
        }
    }

    /// Makes the connection end with a reset, so that the other side notices that something is
    /// missing.
    pub(crate) fn set_zero_linger(&self) -> io::Result<()> {
        self.stream().map_or(Ok(()), TcpStream::set_zero_linger)
    }

    /// Waits until there may be bytes to read, or the end (socket-1).
    pub(crate) async fn readable(&self) -> io::Result<()> {
        if let Socket::Tls(stream) = self
            && !stream.get_ref().1.wants_read()
        {
            return Ok(());
        }
        match self.stream() {
            Some(stream) => stream.readable().await,
            // The wait happens with the buffer.
            None => Ok(()),
        }
    }

    /// Returns true if the other side has closed its half, as far as the kernel knows, without
    /// waiting.
    pub(crate) fn is_closed(&mut self) -> bool {
        let Some(stream) = self.stream() else { return self.is_dropped() };
        match stream.ready(Interest::READABLE).now_or_never() {
            Some(Ok(ready)) => ready.is_read_closed(),
            Some(Err(_)) => true,
            None => false,
        }
    }

    /// Returns true if the connection was reset or has failed, as far as the kernel knows, without
    /// waiting.
    pub(crate) fn is_reset(&mut self) -> bool {
        let Some(stream) = self.stream() else { return self.is_dropped() };
        match stream.ready(Interest::WRITABLE).now_or_never() {
            Some(Ok(ready)) => ready.is_write_closed(),
            Some(Err(_)) => true,
            None => false,
        }
    }

    /// Returns true if the other side of a connection in memory has been dropped: even a write of
    /// nothing fails then.
    fn is_dropped(&mut self) -> bool {
        let Socket::Memory(stream) = self else { return false };
        let written = Pin::new(stream).poll_write(&mut Context::from_waker(Waker::noop()), &[]);
        matches!(written, Poll::Ready(Err(_)))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
            Socket::Memory(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
            Socket::Memory(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, slices),
            Socket::Memory(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(stream) => stream.is_write_vectored(),
            Socket::Tls(stream) => stream.is_write_vectored(),
            Socket::Memory(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
            Socket::Memory(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            Socket::Memory(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
