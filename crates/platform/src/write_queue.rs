//! Writes to files with several operations in flight.
//!
//! - write_queue-1. `flush` returns `Ok` only if every byte passed since the queue was made is
//!   written. Written is not durable: that requires `sync_data` afterwards.
//! - write_queue-2. A queue that has failed stays failed: each later call returns the first error
//!   again.
//! - write_queue-3. A queue that writes around the page cache does so for large writes of whole
//!   pages, through chunks of its own, if the file supports that. Data much larger than memory
//!   would only displace more useful pages from the cache.
//! - write_queue-4. Buffers in flight have at most `bytes_max` bytes together, except a single
//!   buffer that is larger, which is written alone; the buffers kept for later writes are small.
//!
//! Writes in flight at the same time must not overlap, and share no page: their order is undefined.

use std::sync::Arc;

#[cfg(target_os = "linux")]
use crate::AlignedBuffer;
#[cfg(target_os = "linux")]
use crate::sim::SimRing;
#[cfg(target_os = "linux")]
use crate::uring::{Direction, Finished, Ring, Transfer, WriteBytes};
use crate::{DiskFile, Error, IoChoice, Result};

/// Size from which writes go around the page cache (write_queue-3).
#[cfg(target_os = "linux")]
const DIRECT_BYTES_MIN: usize = 64 << 10;
/// Size of the chunks of a write around the page cache.
#[cfg(target_os = "linux")]
const CHUNK_BYTES: usize = 2 << 20;
/// Larger buffers are not kept after they are written (write_queue-4).
#[cfg(target_os = "linux")]
const VACANT_BYTES_MAX: usize = 8 << 20;
/// The page size, of which all these sizes are multiples.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 4096;

/// A queue of writes to any files. Everything runs on the caller's thread and in the kernel.
pub struct WriteQueue {
    engine: Engine,
    /// Empty buffers whose writes are done; at most as many as can be in flight.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing is in flight"))]
    vacant: Vec<Vec<u8>>,
    /// Maximum of the bytes of buffers in flight (write_queue-4).
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing is in flight"))]
    bytes_max: usize,
    bytes_in_flight: usize,
    #[cfg(target_os = "linux")]
    around: AroundCache,
    first_error: Option<Error>,
}

enum Engine {
    Sync,
    #[cfg(target_os = "linux")]
    Uring(Box<AnyRing>),
}

/// Writes in flight, in the kernel or on a simulated disk.
#[cfg(target_os = "linux")]
#[expect(clippy::large_enum_variant, reason = "the engine has it in a box")]
enum AnyRing {
    Kernel(Ring<WriteBytes>),
    Simulated(SimRing<WriteBytes>),
}

#[cfg(target_os = "linux")]
impl AnyRing {
    fn in_flight(&self) -> usize {
        match self {
            AnyRing::Kernel(ring) => ring.in_flight(),
            AnyRing::Simulated(ring) => ring.in_flight(),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            AnyRing::Kernel(ring) => ring.is_full(),
            AnyRing::Simulated(ring) => ring.is_full(),
        }
    }

    /// Returns true if a write to this file may be in flight.
    fn takes(&self, file: &dyn DiskFile) -> bool {
        match self {
            AnyRing::Kernel(_) => file.raw_fd().is_some(),
            AnyRing::Simulated(_) => file.raw_fd().is_none(),
        }
    }

    fn submit(&mut self, transfer: Transfer<WriteBytes>) -> Result<()> {
        match self {
            AnyRing::Kernel(ring) => ring.submit(transfer),
            AnyRing::Simulated(ring) => {
                ring.submit(transfer);
                Ok(())
            }
        }
    }

    fn wait(&mut self) -> Result<Option<Finished<WriteBytes>>> {
        match self {
            AnyRing::Kernel(ring) => ring.wait(),
            AnyRing::Simulated(ring) => Ok(ring.wait()),
        }
    }

    fn finished(&mut self) -> Option<Finished<WriteBytes>> {
        match self {
            AnyRing::Kernel(ring) => ring.finished(),
            AnyRing::Simulated(ring) => ring.finished(),
        }
    }
}

/// The writes around the page cache (write_queue-3).
#[cfg(target_os = "linux")]
#[derive(Default)]
struct AroundCache {
    /// Chunks whose writes are done; together with those in flight, at most as many as can be in
    /// flight.
    vacant: Vec<AlignedBuffer>,
    /// The files, offsets and lengths of chunks in flight, by their tickets.
    in_flight: Vec<(u64, Arc<dyn DiskFile>, u64, usize)>,
    next_ticket: u64,
    /// True if it was not requested, or a file system has reported that it is not supported.
    is_off: bool,
}

impl WriteQueue {
    /// A queue of at most `depth` writes in flight; of none, if `choice` requires that.
    ///
    /// # Panics
    /// If `depth` is 0.
    pub fn new(choice: IoChoice, depth: usize) -> Result<WriteQueue> {
        WriteQueue::with_cache(choice, depth, true)
    }

    /// The same, around the page cache where that is possible (write_queue-3). `IoChoice::Sync`
    /// ignores it.
    ///
    /// # Panics
    /// If `depth` is 0.
    pub fn around_cache(choice: IoChoice, depth: usize) -> Result<WriteQueue> {
        WriteQueue::with_cache(choice, depth, false)
    }

    #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "there is no way"))]
    fn with_cache(choice: IoChoice, depth: usize, is_cached: bool) -> Result<WriteQueue> {
        assert!(0 < depth, "something must be in flight");
        let engine = match choice {
            IoChoice::Sync => Engine::Sync,
            IoChoice::Uring => Engine::uring(depth)?,
            IoChoice::Simulated { seed } => Engine::simulated(seed, depth),
        };
        Ok(WriteQueue {
            engine,
            vacant: Vec::new(),
            bytes_max: usize::MAX,
            bytes_in_flight: 0,
            #[cfg(target_os = "linux")]
            around: AroundCache { is_off: is_cached, ..AroundCache::default() },
            first_error: None,
        })
    }

    /// The same queue with at most this many bytes in flight (write_queue-4).
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: usize) -> WriteQueue {
        WriteQueue { bytes_max, ..self }
    }

    /// Bytes of buffers that are in flight.
    pub fn bytes_in_flight(&self) -> usize {
        self.bytes_in_flight
    }

    /// Writes all of `bytes` to `file`, now or later, and returns a buffer whose write is done, if
    /// there is one, for reuse. Waits while `depth` writes are in flight.
    ///
    /// An error may be that of an earlier write (write_queue-2).
    pub fn write(
        &mut self,
        file: &Arc<dyn DiskFile>,
        bytes: Vec<u8>,
        offset: u64,
    ) -> Result<Option<Vec<u8>>> {
        self.check()?;
        let outcome = match &mut self.engine {
            #[cfg(target_os = "linux")]
            Engine::Uring(ring) if ring.takes(file.as_ref()) => self.submit(file, bytes, offset),
            _ => write_now(file, bytes, offset).map(Some),
        };
        outcome.map_err(|error| self.fail(error))
    }

    /// Waits until all writes are done (write_queue-1).
    pub fn flush(&mut self) -> Result<()> {
        #[cfg(target_os = "linux")]
        while let Engine::Uring(ring) = &mut self.engine
            && 0 < ring.in_flight()
        {
            match ring.wait() {
                Ok(finished) => {
                    let finished = finished.expect("something is in flight");
                    self.settle(finished);
                }
                Err(error) => return Err(self.fail(error)),
            }
        }
        self.check()
    }

    #[cfg(target_os = "linux")]
    fn submit(
        &mut self,
        file: &Arc<dyn DiskFile>,
        bytes: Vec<u8>,
        offset: u64,
    ) -> Result<Option<Vec<u8>>> {
        let is_aligned = offset.is_multiple_of(PAGE_BYTES as u64);
        if DIRECT_BYTES_MIN <= bytes.len()
            && is_aligned
            && !self.around.is_off
            && let Some(around) = file.around_cache()
        {
            return self.submit_around(file, &around, bytes, offset).map(Some);
        }
        let range = 0..bytes.len();
        while 0 < self.bytes_in_flight
            && self.bytes_max.saturating_sub(self.bytes_in_flight) < bytes.len()
        {
            self.wait_for_one()?;
        }
        self.bytes_in_flight += bytes.len();
        let (file, buffer) = (Arc::clone(file), WriteBytes::Given(bytes));
        self.send(Transfer { ticket: 0, file, buffer, range, offset })?;
        while self.bytes_max < self.bytes_in_flight {
            self.wait_for_one()?;
        }
        Ok(self.vacant.pop())
    }

    /// Waits until a write is done.
    #[cfg(target_os = "linux")]
    fn wait_for_one(&mut self) -> Result<()> {
        let Engine::Uring(ring) = &mut self.engine else { unreachable!("the caller looked") };
        let finished = ring.wait()?.expect("bytes are in flight");
        self.settle(finished);
        self.check()
    }

    /// Writes whole pages around the page cache, and the rest through it (write_queue-3). The bytes
    /// are in buffers of the queue when this returns.
    #[cfg(target_os = "linux")]
    fn submit_around(
        &mut self,
        file: &Arc<dyn DiskFile>,
        around: &Arc<dyn DiskFile>,
        bytes: Vec<u8>,
        offset: u64,
    ) -> Result<Vec<u8>> {
        let (pages, rest) = bytes.split_at(bytes.len() / PAGE_BYTES * PAGE_BYTES);
        for (number, piece) in pages.chunks(CHUNK_BYTES).enumerate() {
            let at = offset + (number * CHUNK_BYTES) as u64;
            let mut chunk = match self.around.vacant.pop() {
                Some(chunk) => chunk,
                None => AlignedBuffer::new(CHUNK_BYTES),
            };
            chunk[..piece.len()].copy_from_slice(piece);
            self.around.next_ticket += 1;
            let ticket = self.around.next_ticket;
            self.around.in_flight.push((ticket, Arc::clone(file), at, piece.len()));
            let (file, range) = (Arc::clone(around), 0..piece.len());
            self.send(Transfer {
                ticket,
                file,
                buffer: WriteBytes::Chunk(chunk),
                range,
                offset: at,
            })?;
        }
        if !rest.is_empty() {
            file.write_all_at(rest, offset + pages.len() as u64)?;
        }
        Ok(emptied(bytes))
    }

    /// Submits a write to the kernel, as soon as there is a free slot.
    #[cfg(target_os = "linux")]
    fn send(&mut self, transfer: Transfer<WriteBytes>) -> Result<()> {
        let Engine::Uring(ring) = &mut self.engine else { unreachable!("the caller looked") };
        let mut done = Vec::new();
        if ring.is_full() {
            done.extend(ring.wait()?);
        }
        while let Some(finished) = ring.finished() {
            done.push(finished);
        }
        ring.submit(transfer)?;
        done.into_iter().for_each(|finished| self.settle(finished));
        self.check()
    }

    #[cfg(target_os = "linux")]
    fn settle(&mut self, finished: Finished<WriteBytes>) {
        let outcome = match finished.buffer {
            WriteBytes::Given(bytes) => {
                self.bytes_in_flight -= bytes.len();
                if bytes.capacity() <= VACANT_BYTES_MAX {
                    self.vacant.push(emptied(bytes));
                }
                finished.outcome.map(drop)
            }
            WriteBytes::Chunk(chunk) => {
                let is_sent = |(ticket, ..): &(u64, _, _, _)| *ticket == finished.ticket;
                let sent = self.around.in_flight.iter().position(is_sent).expect("it was sent");
                let (_, file, offset, length) = self.around.in_flight.swap_remove(sent);
                let outcome = match finished.outcome {
                    Err(error) if error.is_unsupported() => {
                        self.around.is_off = true;
                        file.write_all_at(&chunk[..length], offset)
                    }
                    outcome => outcome.map(drop),
                };
                self.around.vacant.push(chunk);
                outcome
            }
        };
        if let Err(error) = outcome {
            drop(self.fail(error));
        }
    }

    fn check(&self) -> Result<()> {
        self.first_error.as_ref().map_or(Ok(()), |error| Err(error.duplicate()))
    }

    /// Stores `error` if it is the first one, and returns the first one.
    fn fail(&mut self, error: Error) -> Error {
        self.first_error.get_or_insert(error).duplicate()
    }
}

impl std::fmt::Debug for WriteQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteQueue").field("first_error", &self.first_error).finish_non_exhaustive()
    }
}

impl Engine {
    #[cfg(target_os = "linux")]
    fn uring(depth: usize) -> Result<Engine> {
        Ok(Engine::Uring(Box::new(AnyRing::Kernel(Ring::new(Direction::Write, depth)?))))
    }

    #[cfg(target_os = "linux")]
    fn simulated(seed: u64, depth: usize) -> Engine {
        Engine::Uring(Box::new(AnyRing::Simulated(SimRing::new(seed, depth))))
    }

    #[cfg(not(target_os = "linux"))]
    fn simulated(_seed: u64, _depth: usize) -> Engine {
        Engine::Sync
    }

    #[cfg(not(target_os = "linux"))]
    fn uring(_depth: usize) -> Result<Engine> {
        crate::io::probe().map(|()| Engine::Sync)
    }
}

fn write_now(file: &Arc<dyn DiskFile>, bytes: Vec<u8>, offset: u64) -> Result<Vec<u8>> {
    file.write_all_at(&bytes, offset)?;
    Ok(emptied(bytes))
}

fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer
}
