//! Sequential reads of a range of a file, several pieces ahead of the consumer.
//!
//! - read_ahead-1. Pieces come in file order, without gaps, and cover the range exactly.
//! - read_ahead-2. A piece is at `headroom` in its buffer, with `tailroom` zeros after it.
//! - read_ahead-3. A file that ends before the range does is an error, never a short piece.
//!
//! Everything runs on the caller's thread. Not here: the meaning of the bytes.

#[cfg(target_os = "linux")]
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

#[cfg(target_os = "linux")]
use crate::uring::{Direction, Ring, Transfer};
use crate::{AlignedBuffer, BufferPool, DiskFile, Error, IoChoice, Result, usize_of};

/// A reader of one range of one file.
pub struct ReadAhead {
    file: Arc<dyn DiskFile>,
    pool: Arc<BufferPool>,
    plan: Plan,
    engine: Engine,
    has_failed: bool,
}

/// Some bytes of the file. The consumer returns `buffer` to the pool when it is done.
#[derive(Debug)]
pub struct Piece {
    /// The bytes, and room around them (read_ahead-2).
    pub buffer: AlignedBuffer,
    /// Offset of the bytes in the file.
    pub offset: u64,
    /// Number of bytes.
    pub len: usize,
    start: usize,
}

enum Engine {
    Sync,
    #[cfg(target_os = "linux")]
    Uring(Box<InFlight>),
}

/// Reads that were started and not yet returned.
#[cfg(target_os = "linux")]
struct InFlight {
    ring: Ring<AlignedBuffer>,
    /// Reads in file order. The ticket of a read is the number of reads started before it.
    reads: VecDeque<Read>,
    /// The ticket of the first of `reads`.
    first: u64,
}

#[cfg(target_os = "linux")]
struct Read {
    span: Span,
    /// The buffer and the number of bytes read into it, once the kernel has finished.
    finished: Option<(AlignedBuffer, usize)>,
}

/// The part of the range that is not yet started.
struct Plan {
    range: Range<u64>,
    piece_bytes: usize,
    alignment: usize,
}

/// One read: the requested bytes, and the bytes around them that alignment requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// Offset of the requested bytes in the file.
    offset: u64,
    len: usize,
    /// Number of bytes before them that are read as well.
    before: usize,
    /// Number of bytes that are read, if the file has them; a multiple of the alignment.
    read_bytes: usize,
}

impl ReadAhead {
    /// A reader that keeps up to `depth` reads of `piece_bytes` in flight.
    ///
    /// Nothing is in flight if `choice` requires that, or if the file is not one of the kernel.
    ///
    /// # Panics
    /// If `piece_bytes` is 0 or more than the pool's, or `depth` is 0, or if `piece_bytes` or the
    /// headroom is not a multiple of the alignment of the file.
    pub fn new(
        choice: IoChoice,
        file: Arc<dyn DiskFile>,
        range: Range<u64>,
        piece_bytes: usize,
        depth: usize,
        pool: Arc<BufferPool>,
    ) -> Result<ReadAhead> {
        let alignment = file.alignment();
        assert!(
            (1..=pool.piece_bytes()).contains(&piece_bytes),
            "read_ahead-2: pieces fit their buffers"
        );
        assert!(0 < depth, "something must be in flight");
        assert!(piece_bytes.is_multiple_of(alignment), "pieces are read with alignment");
        assert!(pool.headroom().is_multiple_of(alignment), "pieces are read with alignment");
        let engine = match choice {
            IoChoice::Uring if file.raw_fd().is_some() => Engine::uring(depth)?,
            IoChoice::Uring | IoChoice::Sync | IoChoice::Simulated { .. } => Engine::Sync,
        };
        let plan = Plan { range, piece_bytes, alignment };
        Ok(ReadAhead { file, pool, plan, engine, has_failed: false })
    }

    /// The next piece; `None` at the end of the range.
    ///
    /// # Panics
    /// If it has failed before.
    #[expect(clippy::should_implement_trait, reason = "an iterator would hide that it can fail")]
    pub fn next(&mut self) -> Result<Option<Piece>> {
        assert!(!self.has_failed, "read_ahead-1: nothing comes after an error");
        let piece = match &self.engine {
            Engine::Sync => self.read_one(),
            #[cfg(target_os = "linux")]
            Engine::Uring(_) => self.read_several(),
        };
        self.has_failed = piece.is_err();
        piece
    }

    fn read_one(&mut self) -> Result<Option<Piece>> {
        let Some(span) = self.plan.start() else { return Ok(None) };
        let mut buffer = self.pool.take();
        let start = self.pool.headroom();
        let target = &mut buffer[start..start + span.read_bytes];
        let got = self.file.read_at(target, span.offset - span.before as u64)?;
        self.piece(span, buffer, got).map(Some)
    }

    #[cfg(target_os = "linux")]
    fn read_several(&mut self) -> Result<Option<Piece>> {
        let Engine::Uring(in_flight) = &mut self.engine else {
            unreachable!("the caller looked");
        };
        let InFlight { ring, reads, first } = &mut **in_flight;
        while !ring.is_full()
            && let Some(span) = self.plan.start()
        {
            let start = self.pool.headroom();
            ring.submit(Transfer {
                ticket: *first + reads.len() as u64,
                file: Arc::clone(&self.file),
                buffer: self.pool.take(),
                range: start..start + span.read_bytes,
                offset: span.offset - span.before as u64,
            })?;
            reads.push_back(Read { span, finished: None });
        }
        while reads.front().is_some_and(|read| read.finished.is_none()) {
            let finished = ring.wait()?.expect("a read that is not finished is in flight");
            let idx = usize_of(finished.ticket - *first);
            reads[idx].finished = Some((finished.buffer, finished.outcome?));
        }
        let Some(Read { span, finished }) = reads.pop_front() else { return Ok(None) };
        *first += 1;
        let (buffer, got) = finished.expect("the loop above ended");
        self.piece(span, buffer, got).map(Some)
    }

    /// The error for a file that ended before the range: at `seen`, or earlier if it has shrunk
    /// since.
    fn shrank(&self, seen: u64) -> Error {
        let actual = self.file.len().map_or(seen, |len| len.min(seen));
        let path = self.file.path().to_path_buf();
        Error::Shrank { path, expected: self.plan.range.end, actual }
    }

    /// Moves the bytes to their place (read_ahead-2), of which `got` were read (read_ahead-3).
    fn piece(&self, span: Span, mut buffer: AlignedBuffer, got: usize) -> Result<Piece> {
        let start = self.pool.headroom();
        if got < span.before + span.len {
            self.pool.give(buffer);
            return Err(self.shrank(span.offset - span.before as u64 + got as u64));
        }
        if 0 < span.before {
            let wanted = start + span.before..start + span.before + span.len;
            buffer.copy_within(wanted, start);
        }
        let end = start + span.len;
        buffer[end..end + self.pool.tailroom()].fill(0);
        Ok(Piece { buffer, offset: span.offset, len: span.len, start })
    }
}

impl std::fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadAhead")
            .field("file", &self.file.path())
            .field("rest", &self.plan.range)
            .finish_non_exhaustive()
    }
}

impl Piece {
    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.len]
    }
}

impl Engine {
    #[cfg(target_os = "linux")]
    fn uring(depth: usize) -> Result<Engine> {
        let ring = Ring::new(Direction::Read, depth)?;
        Ok(Engine::Uring(Box::new(InFlight { ring, reads: VecDeque::new(), first: 0 })))
    }

    #[cfg(not(target_os = "linux"))]
    fn uring(_depth: usize) -> Result<Engine> {
        crate::io::probe().map(|()| Engine::Sync)
    }
}

impl Plan {
    /// Takes the next read off the front of the range (read_ahead-1). All but the first begin
    /// aligned.
    fn start(&mut self) -> Option<Span> {
        let Range { start, end } = self.range;
        if end <= start {
            return None;
        }
        let before = usize_of(start % self.alignment as u64);
        let rest = end - start;
        let len = rest.min((self.piece_bytes - before) as u64);
        self.range.start += len;
        let len = usize_of(len);
        let read_bytes = (before + len).next_multiple_of(self.alignment);
        Some(Span { offset: start, len, before, read_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_cover_the_range_without_gaps() {
        for alignment in [1, 8] {
            for start in 0..20 {
                for end in 0..60 {
                    check(alignment, start..end);
                }
            }
        }
    }

    #[track_caller]
    fn check(alignment: usize, range: Range<u64>) {
        let mut plan = Plan { range: range.clone(), piece_bytes: 16, alignment };
        let mut covered = range.start;
        while let Some(span) = plan.start() {
            assert_eq!(span.offset, covered, "read_ahead-1 {range:?}");
            assert!((span.offset - span.before as u64).is_multiple_of(alignment as u64));
            assert!(span.read_bytes.is_multiple_of(alignment) && span.read_bytes <= 16);
            assert!(0 < span.len && span.before + span.len <= span.read_bytes);
            covered += span.len as u64;
        }
        assert_eq!(covered, range.end.max(range.start), "read_ahead-1 {range:?}");
    }
}
