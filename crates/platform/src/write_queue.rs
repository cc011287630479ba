//! Writes to files with several operations in flight.
//!
//! - Q1. `flush` returns `Ok` only if every byte handed over since the queue was made is written.
//!   Written is not durable: that is `sync_data`, after it.
//! - Q2. A queue that has failed stays failed: each later call returns the first error again.
//!
//! Writes in flight at the same time must not overlap: nothing is said about their order.

use std::sync::Arc;

#[cfg(target_os = "linux")]
use crate::uring::{Direction, Finished, Ring, Transfer};
use crate::{DiskFile, Error, IoChoice, Result};

/// A queue of writes to any files. Everything runs on the caller's thread and in the kernel.
pub struct WriteQueue {
    engine: Engine,
    /// Buffers whose writes are done, empty; at most as many as can be in flight.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing is in flight"))]
    vacant: Vec<Vec<u8>>,
    first_error: Option<Error>,
}

enum Engine {
    Sync,
    #[cfg(target_os = "linux")]
    Uring(Box<Ring<Vec<u8>>>),
}

impl WriteQueue {
    /// A queue of at most `depth` writes in flight; of none, if `choice` says so.
    ///
    /// # Panics
    /// If `depth` is 0.
    pub fn new(choice: IoChoice, depth: usize) -> Result<WriteQueue> {
        assert!(0 < depth, "something must be in flight");
        let engine = match choice {
            IoChoice::Sync => Engine::Sync,
            IoChoice::Uring => Engine::uring(depth)?,
        };
        Ok(WriteQueue { engine, vacant: Vec::new(), first_error: None })
    }

    /// Writes all of `bytes` to `file`, now or later, and returns a buffer whose write is done,
    /// if there is one, to be filled again. Waits while `depth` writes are in flight.
    ///
    /// An error may be that of an earlier write (Q2).
    pub fn write(
        &mut self,
        file: &Arc<dyn DiskFile>,
        bytes: Vec<u8>,
        offset: u64,
    ) -> Result<Option<Vec<u8>>> {
        self.check()?;
        let outcome = match &mut self.engine {
            #[cfg(target_os = "linux")]
            Engine::Uring(_) if file.raw_fd().is_some() => self.submit(file, bytes, offset),
            _ => write_now(file, bytes, offset).map(Some),
        };
        outcome.map_err(|error| self.fail(error))
    }

    /// Waits until all writes are done (Q1).
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
        buffer: Vec<u8>,
        offset: u64,
    ) -> Result<Option<Vec<u8>>> {
        let Engine::Uring(ring) = &mut self.engine else { unreachable!("the caller looked") };
        let mut done = Vec::new();
        if ring.is_full() {
            done.extend(ring.wait()?);
        }
        while let Some(finished) = ring.finished() {
            done.push(finished);
        }
        let range = 0..buffer.len();
        let file = Arc::clone(file);
        ring.submit(Transfer { ticket: 0, file, buffer, range, offset })?;
        done.into_iter().for_each(|finished| self.settle(finished));
        self.check()?;
        Ok(self.vacant.pop())
    }

    #[cfg(target_os = "linux")]
    fn settle(&mut self, finished: Finished<Vec<u8>>) {
        match finished.outcome {
            Ok(_) => self.vacant.push(emptied(finished.buffer)),
            Err(error) => drop(self.fail(error)),
        }
    }

    fn check(&self) -> Result<()> {
        self.first_error.as_ref().map_or(Ok(()), |error| Err(error.duplicate()))
    }

    /// Remembers `error` if it is the first, and returns the first.
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
        Ok(Engine::Uring(Box::new(Ring::new(Direction::Write, depth)?)))
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
