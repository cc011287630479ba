//! One io_uring: reads or writes of whole ranges, several in flight, finished in any order.
//!
//! - uring-1. The ring owns buffer and file of every transfer until the kernel has finished it; it
//!   is not dropped before.
//! - uring-2. `in_flight` is the number of occupied slots, and each of them has exactly one
//!   operation in the kernel or in the submission queue. There are as many slots as queue entries,
//!   and the kernel makes the completion queue twice as long, so that neither can overflow.
//! - uring-3. A transfer is finished when all its bytes are transferred, when the file ends, or
//!   when it fails. Interrupted and partial operations are submitted again, invisibly to the
//!   caller.
//!
//! Not here: the order in which results are returned (`read_ahead`, `write_queue`). Buffers are not
//! registered with the kernel: they come from pools that outlive a ring, and pinned memory is
//! limited to a few MiB for ordinary users.

#![expect(unsafe_code, reason = "the kernel reads and writes our buffers behind our back")]

use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::{io, mem};

use io_uring::{IoUring, Probe, cqueue, opcode, types};

use crate::{AlignedBuffer, DiskFile, Error, NoUringReason, Result};

/// The kernel moves at most a little less than 2 GiB at once, so that larger operations gain
/// nothing. A multiple of any alignment. Tests need transfers of several operations.
const OPERATION_BYTES_MAX: usize = if cfg!(test) { 8192 } else { 1 << 30 };

/// Operations in flight: more gain nothing, and the kernel has a limit too (32,768).
const DEPTH_MAX: usize = 1024;

/// Attempts to enter a kernel that is short of memory, before that is an error.
const ATTEMPTS_MAX: usize = 1000;

/// A buffer that the kernel may use while its owner is moved.
///
/// # Safety
/// `bytes` returns the same memory each time, wherever the value has been moved in between.
pub(crate) unsafe trait PinnedBytes: Send {
    fn bytes(&mut self) -> &mut [u8];
}

// SAFETY: moving a `Vec` does not move the memory that it owns.
unsafe impl PinnedBytes for Vec<u8> {
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

// SAFETY: moving the buffer does not move its pages.
unsafe impl PinnedBytes for AlignedBuffer {
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

/// Bytes to write: a buffer of the caller, or a chunk that goes around the page cache.
#[derive(Debug)]
pub(crate) enum WriteBytes {
    Given(Vec<u8>),
    Chunk(AlignedBuffer),
}

// SAFETY: moving the value moves neither the memory that a `Vec` owns nor the pages of a buffer.
unsafe impl PinnedBytes for WriteBytes {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            WriteBytes::Given(bytes) => bytes,
            WriteBytes::Chunk(bytes) => bytes,
        }
    }
}

/// The direction of all transfers of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// One range of a file, to or from a range of a buffer.
#[derive(Debug)]
pub(crate) struct Transfer<B> {
    /// A number for the owner of the ring.
    pub(crate) ticket: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) buffer: B,
    pub(crate) range: Range<usize>,
    /// Offset of the range in the file.
    pub(crate) offset: u64,
}

/// A transfer that the kernel has finished (uring-3).
#[derive(Debug)]
pub(crate) struct Finished<B> {
    pub(crate) ticket: u64,
    pub(crate) buffer: B,
    /// Number of bytes moved: fewer than requested only for a read at the end of the file.
    pub(crate) outcome: Result<usize>,
}

/// An io_uring and its operations in flight.
pub(crate) struct Ring<B: PinnedBytes> {
    ring: IoUring,
    direction: Direction,
    slots: Vec<Option<Slot<B>>>,
    in_flight: usize,
}

#[derive(Debug)]
struct Slot<B> {
    transfer: Transfer<B>,
    fd: RawFd,
    done: usize,
}

/// Sets up a ring, checks that it supports the operations we need, and sends one through it.
pub(crate) fn probe() -> Result<()> {
    let mut ring = set_up(2)?;
    let refused =
        |call| move |source| Error::NoUring { reason: NoUringReason::Setup { call, source } };
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(refused("io_uring_register"))?;
    let needed = [("IORING_OP_READ", opcode::Read::CODE), ("IORING_OP_WRITE", opcode::Write::CODE)];
    if let Some(&(operation, _)) = needed.iter().find(|(_, code)| !probe.is_supported(*code)) {
        return Err(Error::NoUring { reason: NoUringReason::Operation { operation } });
    }
    // SAFETY: a NOP has no buffer.
    unsafe { ring.submission().push(&opcode::Nop::new().build()) }.expect("the queue is empty");
    ring.submit_and_wait(1).map(drop).map_err(refused("io_uring_enter"))
}

fn set_up(entries: u32) -> Result<IoUring> {
    IoUring::new(entries).map_err(|source| Error::NoUring {
        reason: NoUringReason::Setup { call: "io_uring_setup", source },
    })
}

impl<B: PinnedBytes> Ring<B> {
    /// A ring for at most `depth` transfers at a time.
    pub(crate) fn new(direction: Direction, depth: usize) -> Result<Ring<B>> {
        assert!(
            (1..=DEPTH_MAX).contains(&depth),
            "uring-2: 1 to {DEPTH_MAX} operations, not {depth}"
        );
        let entries = u32::try_from(depth).expect("below DEPTH_MAX");
        let slots = std::iter::repeat_with(|| None).take(depth).collect();
        Ok(Ring { ring: set_up(entries)?, direction, slots, in_flight: 0 })
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) fn is_full(&self) -> bool {
        self.in_flight == self.slots.len()
    }

    /// Accepts a transfer and submits it to the kernel.
    ///
    /// # Panics
    /// If the ring is full, or the file has no descriptor.
    pub(crate) fn submit(&mut self, transfer: Transfer<B>) -> Result<()> {
        let idx = self.slots.iter().position(Option::is_none).expect("uring-2: the ring is full");
        let fd = transfer.file.raw_fd().expect("only files of the kernel come to a ring");
        self.slots[idx] = Some(Slot { transfer, fd, done: 0 });
        self.in_flight += 1;
        self.push(idx);
        self.enter(0)
    }

    /// Waits until a transfer is finished; `None` if nothing is in flight.
    pub(crate) fn wait(&mut self) -> Result<Option<Finished<B>>> {
        while 0 < self.in_flight {
            if let Some(finished) = self.finished() {
                return Ok(Some(finished));
            }
            self.enter(1)?;
        }
        Ok(None)
    }

    /// A transfer that has finished, without waiting.
    pub(crate) fn finished(&mut self) -> Option<Finished<B>> {
        loop {
            let completion = self.ring.completion().next()?;
            if let Some(finished) = self.settle(&completion) {
                return Some(finished);
            }
        }
    }

    /// Frees the slot of a completed operation, or submits the rest of its transfer (uring-3).
    fn settle(&mut self, completion: &cqueue::Entry) -> Option<Finished<B>> {
        let idx = usize::try_from(completion.user_data()).expect("a slot's index");
        let slot = self.slots[idx].as_mut().expect("uring-2: an occupied slot");
        let outcome = match usize::try_from(completion.result()) {
            Err(_) => {
                let error = io::Error::from_raw_os_error(-completion.result());
                if is_transient(&error) {
                    self.push(idx);
                    return None;
                }
                let call = match self.direction {
                    Direction::Read => "read",
                    Direction::Write => "write",
                };
                Err(Error::io(call, slot.transfer.file.path())(error))
            }
            Ok(count) => {
                slot.done += count;
                assert!(slot.done <= slot.transfer.range.len(), "uring-3");
                if 0 < count && !slot.is_complete() {
                    self.push(idx);
                    return None;
                }
                self.direction.outcome(slot)
            }
        };
        self.in_flight -= 1;
        let Slot { transfer, .. } = self.slots[idx].take().expect("it was there just now");
        Some(Finished { ticket: transfer.ticket, buffer: transfer.buffer, outcome })
    }

    /// Puts the rest of a slot's transfer into the submission queue.
    fn push(&mut self, idx: usize) {
        let slot = self.slots[idx].as_mut().expect("uring-2: an occupied slot");
        let fd = types::Fd(slot.fd);
        let offset = slot.transfer.offset + slot.done as u64;
        let range = slot.transfer.range.clone();
        let rest = &mut slot.transfer.buffer.bytes()[range][slot.done..];
        let count = u32::try_from(rest.len().min(OPERATION_BYTES_MAX)).expect("at most 1 GiB");
        let address = rest.as_mut_ptr();
        let entry = match self.direction {
            Direction::Read => opcode::Read::new(fd, address, count).offset(offset).build(),
            Direction::Write => opcode::Write::new(fd, address, count).offset(offset).build(),
        };
        let entry = entry.user_data(idx as u64);
        // SAFETY: `address` is valid for `count` bytes that stay where they are (`PinnedBytes`),
        // and the slot keeps them and the file until the operation is complete (uring-1).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("uring-2: the queue has an entry for each slot");
    }

    /// Submits the submission queue to the kernel and waits for `wanted` completions.
    fn enter(&mut self, wanted: usize) -> Result<()> {
        let mut attempts = 0;
        loop {
            match self.ring.submit_and_wait(wanted) {
                Ok(_) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // The kernel requires that completions are taken first, which the caller does.
                Err(error) if is_transient(&error) && self.has_completions() => return Ok(()),
                Err(error) if is_transient(&error) && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    std::thread::yield_now();
                }
                Err(error) => {
                    let slot = self.slots.iter().flatten().next().expect("something is in flight");
                    return Err(Error::io("io_uring_enter", slot.transfer.file.path())(error));
                }
            }
        }
    }

    fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }
}

impl<B: PinnedBytes> Drop for Ring<B> {
    fn drop(&mut self) {
        while 0 < self.in_flight {
            if self.wait().is_err() {
                // The kernel may still use the buffers: leaking them is better than using them
                // twice (uring-1).
                mem::forget(mem::take(&mut self.slots));
                return;
            }
        }
    }
}

impl Direction {
    /// The result of a transfer that is complete, or whose last operation moved nothing.
    fn outcome<B>(self, slot: &Slot<B>) -> Result<usize> {
        match self {
            Direction::Write if slot.done < slot.transfer.range.len() => {
                Err(Error::io("write", slot.transfer.file.path())(io::ErrorKind::WriteZero.into()))
            }
            Direction::Read | Direction::Write => Ok(slot.done),
        }
    }
}

impl<B> Slot<B> {
    /// Returns true if all bytes are transferred, or the file has ended: only at its end does a
    /// read around the page cache stop at an unaligned offset, from which it could not continue
    /// anyway.
    fn is_complete(&self) -> bool {
        self.done == self.transfer.range.len()
            || !self.done.is_multiple_of(self.transfer.file.alignment())
    }
}

/// Returns true if the call is worth repeating.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, OpenMode, RealDisk};

    const LEN: usize = 100_001;

    fn bytes() -> Vec<u8> {
        (0..LEN).map(|idx| (idx * 31 % 251).to_le_bytes()[0]).collect()
    }

    fn transfer<B>(file: &Arc<dyn DiskFile>, buffer: B, range: Range<usize>) -> Transfer<B> {
        Transfer { ticket: 5, file: Arc::clone(file), buffer, range, offset: 0 }
    }

    #[test]
    fn transfers_of_many_operations_are_one() {
        if probe().is_err() {
            return;
        }
        const { assert!(OPERATION_BYTES_MAX < LEN / 10) };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = RealDisk.open(&path, OpenMode::CreateNew).unwrap();
        let mut writes = Ring::new(Direction::Write, 1).unwrap();
        writes.submit(transfer(&file, bytes(), 0..LEN)).unwrap();
        assert!(writes.is_full());
        let finished = writes.wait().unwrap().unwrap();
        assert_eq!((finished.ticket, finished.outcome.unwrap(), writes.in_flight()), (5, LEN, 0));
        assert!(writes.wait().unwrap().is_none() && writes.finished().is_none());
        assert!(std::fs::read(&path).unwrap() == bytes(), "uring-3");

        let files = [Some(file), RealDisk::open_direct(&path).unwrap()];
        for file in files.iter().flatten() {
            let mut reads = Ring::new(Direction::Read, 2).unwrap();
            // A sector past the end: a read around the page cache must request whole ones.
            let read_bytes = (LEN + 1).next_multiple_of(4096);
            for idx in 0..4 {
                let buffer = AlignedBuffer::new(4096 + read_bytes);
                reads.submit(transfer(file, buffer, 4096..4096 + read_bytes)).unwrap();
                if idx % 2 == 1 {
                    let finished = reads.wait().unwrap().unwrap();
                    assert_eq!(finished.outcome.unwrap(), LEN, "uring-3");
                    assert!(finished.buffer[4096..4096 + LEN] == bytes(), "uring-3");
                    reads.wait().unwrap().unwrap();
                }
            }
        }
    }

    #[test]
    fn nothing_to_write_is_finished_too() {
        if probe().is_err() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk.open(&dir.path().join("file"), OpenMode::CreateNew).unwrap();
        let mut ring = Ring::new(Direction::Write, 4).unwrap();
        ring.submit(transfer(&file, Vec::new(), 0..0)).unwrap();
        assert_eq!(ring.wait().unwrap().unwrap().outcome.unwrap(), 0);
    }
}
