//! Discarding received bytes of a socket without copying them.
//!
//! With `MSG_TRUNC`, Linux drops the bytes in the kernel and does not write the buffer of the call.
//! On other systems the flag has another meaning, so there the bytes are read into the buffer.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::TcpStream;

use socket2::SockRef;

/// The maximum bytes dropped by one call. On Linux the buffer is never written and takes no memory,
/// so it may be larger than what any socket holds.
const DISCARD_BYTES: usize = if cfg!(target_os = "linux") { 16 << 20 } else { 256 << 10 };
/// `MSG_TRUNC` of Linux.
const FLAGS: i32 = if cfg!(target_os = "linux") { 0x20 } else { 0 };

/// The buffer for the calls that discard bytes.
pub(super) struct Discard {
    buffer: Box<[MaybeUninit<u8>]>,
}

impl Discard {
    pub(super) fn new() -> Discard {
        Discard { buffer: Box::new_uninit_slice(DISCARD_BYTES) }
    }

    /// Drops all bytes until the other side closes the connection, and calls `count` with the bytes
    /// of each step.
    pub(super) fn discard_all(
        &mut self,
        stream: &TcpStream,
        mut count: impl FnMut(u64),
    ) -> io::Result<()> {
        while let dropped @ 1.. = self.discard_up_to(u64::MAX, stream)? {
            count(dropped);
        }
        Ok(())
    }

    /// Drops the available bytes, at most `bytes`, and waits for some if there are none. Returns
    /// their number: 0 if the other side has closed.
    pub(super) fn discard_up_to(&mut self, bytes: u64, stream: &TcpStream) -> io::Result<u64> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(DISCARD_BYTES);
        loop {
            match SockRef::from(stream).recv_with_flags(&mut self.buffer[..bytes], FLAGS) {
                Ok(dropped) => return Ok(dropped as u64),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
