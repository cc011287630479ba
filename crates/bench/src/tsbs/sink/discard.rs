//! Discarding of bytes from a socket without reading them.
//!
//! `MSG_TRUNC` makes Linux drop them in the kernel: nothing is copied, and the memory that the call
//! names is never written. On other systems the flag means something else, and bytes are read.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::TcpStream;

use socket2::SockRef;

/// Most bytes dropped at once. On Linux these are addresses without memory behind them, so it may
/// be more than any socket holds.
const DISCARD_BYTES: usize = if cfg!(target_os = "linux") { 16 << 20 } else { 256 << 10 };
const FLAGS: i32 = if cfg!(target_os = "linux") { 0x20 } else { 0 };

/// The buffer that the system call names for discarded bytes.
pub(super) struct Discard {
    nowhere: Box<[MaybeUninit<u8>]>,
}

impl Discard {
    pub(super) fn new() -> Discard {
        Discard { nowhere: Box::new_uninit_slice(DISCARD_BYTES) }
    }

    /// Drops everything until the other side closes, and calls `count` with the bytes of each step.
    pub(super) fn all(&mut self, stream: &TcpStream, mut count: impl FnMut(u64)) -> io::Result<()> {
        while let dropped @ 1.. = self.up_to(u64::MAX, stream)? {
            count(dropped);
        }
        Ok(())
    }

    /// Drops the available bytes, at most `bytes`, and waits for some if there are none. Returns
    /// their number: 0 if the other side has closed.
    pub(super) fn up_to(&mut self, bytes: u64, stream: &TcpStream) -> io::Result<u64> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(DISCARD_BYTES);
        loop {
            match SockRef::from(stream).recv_with_flags(&mut self.nowhere[..bytes], FLAGS) {
                Ok(dropped) => return Ok(dropped as u64),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
