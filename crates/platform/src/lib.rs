//! The operating system as the rest of Tidegate sees it: disk, io_uring, clock, memory, signals.
//!
//! - No other crate of the workspace calls the operating system, so that all code written over
//!   [`Disk`], [`Clock`] and [`MemoryBudget`] can be tested on [`SimDisk`] and [`SimClock`].
//! - platform-1. A buffer that the kernel may still write to or read from is owned by the queue
//!   that submitted it; no other code can access it until the operation has completed.
//! - platform-2. Every error names the call and the path.
//!
//! Not here: anything specific to a database. This crate handles bytes and plain integers.

#![warn(missing_docs)]

#[cfg(not(unix))]
compile_error!("tidegate runs on Unix only");
// Offsets in files are used as positions in memory all over this crate.
const _: () = assert!(usize::BITS == 64, "tidegate needs 64-bit addresses");

mod error;
mod sentence;
mod disk;
mod real;
mod root;
mod mapping;
mod sim;
mod clock;
mod memory;
mod heap;
mod allocator;
mod machine;
mod thread;
#[cfg(target_os = "linux")]
mod pages;
mod buffer;
mod io;
mod read_ahead;
mod write_queue;
#[cfg(target_os = "linux")]
mod uring;
mod interrupt;
mod sys;

pub use allocator::{give_back_memory, give_back_old_memory};
pub use buffer::{AlignedBuffer, BufferPool, BufferPoolOptions};
pub use clock::{Clock, SimClock, SystemClock};
pub use disk::{DirEntry, DirLock, Disk, DiskFile, FileStamp, OpenMode};
pub use error::{Class, Error, NoUringReason, Result};
pub use heap::{CountingAllocator, HeapGroup, HeapUse, thread_heap_bytes};
pub use interrupt::install_interrupt_handler;
pub use io::{IoChoice, IoMode, detect_io};
pub use machine::{
    available_memory_bytes, cores, let_others_go_first, machine_memory_bytes,
    raise_descriptor_limit, rss_anon_bytes,
};
pub use mapping::{Mapping, install_sigbus_handler};
pub use memory::{MemoryBudget, Reservation};
#[cfg(target_os = "linux")]
pub use pages::PageWatch;
pub use read_ahead::{Piece, ReadAhead};
pub use real::{RealDisk, disk_bytes, drop_caches, free_disk_bytes};
pub use root::{Opened, Root, RootEntry, RootError, RootFile};
pub use sentence::{brief, printable, sentence};
pub use sim::{SimCall, SimDisk, SimErrno};
pub use thread::ThreadId;
pub use write_queue::WriteQueue;

/// Converts a count of bytes to a size in memory.
fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).expect("usize has 64 bits")
}
