//! Free memory that the allocator keeps, and gives back to the system.
//!
//! - allocator-1. mimalloc keeps freed memory for a second, in case it is wanted again, and looks
//!   for memory whose second is over only when a thread frees more: a process that became idle
//!   would keep it for ever. It lies in arenas that all threads share, so any thread can give it
//!   back, at any time, if it has allocated something itself.
//!
//! Nothing is given back unless mimalloc is the global allocator of the program, with or without a
//! [`CountingAllocator`](crate::CountingAllocator) around it.

#![expect(unsafe_code, reason = "mimalloc's crate has no safe function that gives memory back")]

// Links the library, also into programs with another allocator.
use mimalloc as _;

// SAFETY: the function of mimalloc.h has this signature (allocator-1).
unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Gives back memory that has been free for a second; costs little if there is none.
pub fn give_back_old_memory() {
    // SAFETY: it takes no addresses, gives back only what is free, and may be called by any thread
    // at any time (allocator-1).
    unsafe { mi_collect(false) }
}

/// Gives back all free memory, which takes about as long as it takes to use it again.
pub fn give_back_memory() {
    // SAFETY: as in `give_back_old_memory`.
    unsafe { mi_collect(true) }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};
    use std::sync::mpsc::channel;
    use std::thread;

    use mimalloc::MiMalloc;

    use super::*;
    use crate::rss_anon_bytes;

    const BYTES: usize = 128 << 20;

    /// Allocates memory with mimalloc, writes to all of it, and frees it.
    fn use_memory(bytes: usize) {
        let layout = Layout::from_size_align(bytes, 8).expect("a layout");
        // SAFETY: the layout is not empty, all bytes are inside of it, and it is freed once
        // (allocator-1).
        unsafe {
            let address = MiMalloc.alloc(layout);
            assert!(!address.is_null());
            address.write_bytes(1, bytes);
            MiMalloc.dealloc(address, layout);
        }
    }

    // After large statements an idle server had 1.4 GB, which its limit counted: the next statement
    // of another user was cancelled for it.
    #[test]
    #[cfg_attr(miri, ignore = "it calls C")]
    fn memory_that_an_idle_thread_has_freed_is_given_back() {
        use_memory(8);
        let ((freed, is_freed), (end, ended)) = (channel(), channel::<()>());
        let idle = thread::spawn(move || {
            use_memory(BYTES);
            freed.send(()).unwrap();
            let _ = ended.recv();
        });
        is_freed.recv().unwrap();
        let before = rss_anon_bytes();
        give_back_old_memory();
        give_back_memory();
        let given_back = before.saturating_sub(rss_anon_bytes());
        drop(end);
        idle.join().unwrap();
        assert!(BYTES as u64 / 2 < given_back, "allocator-1: {given_back} of {before}");
    }
}
