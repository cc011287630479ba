//! Page-aligned buffers, and a pool that reuses them.
//!
//! - buffer-1. A buffer starts on a page; one of 2 MiB or more starts on a huge page, if the kernel
//!   gives any. A new buffer is zero.
//! - buffer-2. All buffers of a pool have the same size: headroom, piece, tailroom.
//!
//! Fresh memory is slow, because the kernel zeroes it at first touch (1-3 GB/s against 10). So
//! buffers are returned to the pool and not dropped.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use memmap2::MmapMut;

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Anonymous memory, aligned for any kind of I/O (buffer-1).
pub struct AlignedBuffer {
    pages: MmapMut,
    start: usize,
    bytes: usize,
}

/// A pool of buffers of one size.
#[derive(Debug)]
pub struct BufferPool {
    options: BufferPoolOptions,
    vacant: Mutex<Vec<AlignedBuffer>>,
}

/// The sizes of a pool's buffers, in bytes. Any value is valid, but reading around the page cache
/// requires multiples of 4,096 for the first two.
#[derive(Clone, Debug)]
pub struct BufferPoolOptions {
    /// Room before a piece for the consumer, for example for the end of the preceding piece.
    pub headroom: usize,
    /// Maximum that one read puts into a buffer. Around the page cache, 2 MiB or more: a read into
    /// a buffer of huge pages is 2-3 times as fast as one into many small pages.
    pub piece_bytes: usize,
    /// Room after a piece, zeroed before the piece is handed over, for example for SIMD loads past
    /// its end.
    pub tailroom: usize,
    /// Number of unused buffers that are kept; further ones are returned to the system.
    pub vacant_max: usize,
}

impl AlignedBuffer {
    /// A buffer of zeros. Like `Vec`, it ends the process if memory is exhausted.
    pub fn new(bytes: usize) -> AlignedBuffer {
        let is_huge = HUGE_PAGE_BYTES <= bytes;
        // The slack is address space only: it is never touched.
        let slack = if is_huge { HUGE_PAGE_BYTES } else { 0 };
        let mapped = bytes.checked_add(slack).map(MmapMut::map_anon);
        let Some(Ok(pages)) = mapped else {
            handle_alloc_error(Layout::array::<u8>(bytes).unwrap_or(Layout::new::<u8>()));
        };
        let start = if is_huge { pages.as_ptr().align_offset(HUGE_PAGE_BYTES) } else { 0 };
        assert!(start <= slack, "buffer-1");
        #[cfg(target_os = "linux")]
        if is_huge {
            // Without huge pages everything works, only more slowly.
            let _ = pages.advise_range(memmap2::Advice::HugePage, start, bytes);
        }
        AlignedBuffer { pages, start, bytes }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pages[self.start..self.start + self.bytes]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages[self.start..self.start + self.bytes]
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("bytes", &self.bytes).finish()
    }
}

impl BufferPool {
    /// A pool without buffers; `take` allocates them.
    pub fn new(options: BufferPoolOptions) -> BufferPool {
        BufferPool { options, vacant: Mutex::new(Vec::new()) }
    }

    /// A buffer with arbitrary content. Never waits: callers bound the number of buffers
    /// themselves.
    pub fn take(&self) -> AlignedBuffer {
        let recycled = self.vacant.lock().unwrap_or_else(PoisonError::into_inner).pop();
        recycled.unwrap_or_else(|| AlignedBuffer::new(self.buffer_bytes()))
    }

    /// Puts a buffer of this pool back.
    ///
    /// # Panics
    /// If it has another size (buffer-2).
    pub fn give(&self, buffer: AlignedBuffer) {
        assert_eq!(buffer.len(), self.buffer_bytes(), "buffer-2");
        let mut vacant = self.vacant.lock().unwrap_or_else(PoisonError::into_inner);
        if vacant.len() < self.options.vacant_max {
            vacant.push(buffer);
        }
    }

    /// The room before a piece.
    pub fn headroom(&self) -> usize {
        self.options.headroom
    }

    /// Maximum that one read puts into a buffer.
    pub fn piece_bytes(&self) -> usize {
        self.options.piece_bytes
    }

    /// The room after a piece.
    pub fn tailroom(&self) -> usize {
        self.options.tailroom
    }

    /// The size of each buffer (buffer-2).
    pub fn buffer_bytes(&self) -> usize {
        self.options.headroom + self.options.piece_bytes + self.options.tailroom
    }

    /// Number of unused buffers in the pool.
    pub fn vacant_count(&self) -> usize {
        self.vacant.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
