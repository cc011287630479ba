//! Heap accounting by groups of threads: the bytes that they have allocated and not freed.
//!
//! - heap-1. Only its own thread writes a counter, and all threads read it: counting costs one load
//!   and one store, and never waits for another thread. Threads outside of groups count nothing.
//! - heap-2. A thread that leaves its group, or ends, leaves its bytes to the group.
//!
//! Bytes that one thread allocates and another one frees stay counted for the first: the owner of a
//! group that passes values on has to subtract them. Nothing is counted unless the program has
//! [`CountingAllocator`] as its global allocator. Not here: limits (`memory`), and the memory of
//! the whole process (`machine`).

#![expect(unsafe_code, reason = "an allocator is called with raw addresses")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An allocator that counts bytes for the group of the calling thread, and allocates with `A`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator<A>(pub A);

/// Threads whose allocations are counted together.
#[derive(Debug, Default)]
pub struct HeapGroup {
    members: Mutex<Members>,
    /// The number of uses that have begun.
    uses: AtomicU64,
}

#[derive(Debug, Default)]
struct Members {
    counters: Vec<&'static Counter>,
    /// The bytes of threads that have left (heap-2).
    left: isize,
}

/// The allocations of a group from some time on. It does not keep the group.
#[derive(Clone, Debug)]
pub struct HeapUse {
    group: Weak<HeapGroup>,
    number: u64,
    base: isize,
}

/// The bytes of one thread; on a cache line of its own, since it changes with each allocation.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counter(AtomicIsize);

thread_local! {
    /// The counter of this thread. It has no destructor, so that the allocator can use it until the
    /// thread has ended.
    static COUNTER: Cell<Option<&'static Counter>> = const { Cell::new(None) };
    /// The group of this thread.
    static GROUP: RefCell<Option<Arc<HeapGroup>>> = const { RefCell::new(None) };
}

/// Counters without a thread. They live for ever, because a thread may free memory at its very end;
/// there are as many as threads in groups at the same time.
static UNUSED: Mutex<Vec<&'static Counter>> = Mutex::new(Vec::new());

impl HeapGroup {
    /// Adds the calling thread, until it leaves.
    pub fn enter(self: &Arc<Self>) {
        assert!(COUNTER.get().is_none(), "a thread is in one group at a time");
        let counter = unused().pop().unwrap_or_else(|| Box::leak(Box::<Counter>::default()));
        self.members().counters.push(counter);
        GROUP.set(Some(Arc::clone(self)));
        COUNTER.set(Some(counter));
    }

    /// Removes the calling thread from its group, if it is in one (heap-2).
    pub fn leave() {
        let (Some(counter), Some(group)) = (COUNTER.take(), GROUP.take()) else { return };
        let mut members = group.members();
        members.counters.retain(|other| !std::ptr::eq(*other, counter));
        members.left = members.left.wrapping_add(counter.0.swap(0, Relaxed));
        drop(members);
        unused().push(counter);
    }

    /// The bytes that its threads have allocated and not freed; negative if they have freed those
    /// of others.
    pub fn bytes(&self) -> isize {
        let members = self.members();
        let counted = members.counters.iter().map(|counter| counter.0.load(Relaxed));
        counted.fold(members.left, isize::wrapping_add)
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeapUse {
    /// Begins a use of the group of the calling thread; `None` if it is in none.
    pub fn begin() -> Option<HeapUse> {
        let group = GROUP.with_borrow(Option::clone)?;
        let number = group.uses.fetch_add(1, Relaxed) + 1;
        Some(HeapUse { base: group.bytes(), number, group: Arc::downgrade(&group) })
    }

    /// The bytes that the group has allocated and not freed since the begin; 0 if it has freed
    /// more, or is gone.
    pub fn bytes(&self) -> u64 {
        let now = self.group.upgrade().map_or(self.base, |group| group.bytes());
        u64::try_from(now.wrapping_sub(self.base)).unwrap_or(0)
    }

    /// A number of the group that no other group has at the same time.
    pub fn group(&self) -> usize {
        self.group.as_ptr().addr()
    }

    /// True while the group is there and no later use has begun.
    pub fn is_latest(&self) -> bool {
        self.group.upgrade().is_some_and(|group| group.uses.load(Relaxed) == self.number)
    }
}

/// The bytes that the calling thread has allocated and not freed since it has entered its group; 0
/// if it is in none. The difference of two results is what the thread has allocated in between.
pub fn thread_heap_bytes() -> isize {
    COUNTER.get().map_or(0, |Counter(bytes)| bytes.load(Relaxed))
}

fn unused() -> MutexGuard<'static, Vec<&'static Counter>> {
    UNUSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the counter of the calling thread (heap-1): it allocates `more`, and frees `less`.
#[inline]
fn count(more: usize, less: usize) {
    if let Some(Counter(bytes)) = COUNTER.get() {
        let next = bytes.load(Relaxed).wrapping_add_unsigned(more).wrapping_sub_unsigned(less);
        bytes.store(next, Relaxed);
    }
}

// SAFETY: all calls go to the inner allocator as they are, and its results to the caller. Counting
// allocates nothing, cannot unwind, and touches only the counter of the calling thread (heap-1).
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the inner allocator has the same contract, which the caller fulfils.
        let address = unsafe { self.0.alloc(layout) };
        if !address.is_null() {
            count(layout.size(), 0);
        }
        address
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let address = unsafe { self.0.alloc_zeroed(layout) };
        if !address.is_null() {
            count(layout.size(), 0);
        }
        address
    }

    #[inline]
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`; `address` came from the inner allocator, with this layout.
        unsafe { self.0.dealloc(address, layout) };
        count(0, layout.size());
    }

    #[inline]
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`.
        let moved = unsafe { self.0.realloc(address, layout, size) };
        if !moved.is_null() {
            count(size, layout.size());
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::thread;

    use super::*;

    const ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).unwrap()
    }

    #[test]
    fn a_group_has_what_its_threads_have_allocated_and_not_freed() {
        let group = Arc::new(HeapGroup::default());
        let of_thread = Arc::clone(&group);
        let worker = thread::spawn(move || {
            // SAFETY: the layout is not empty, and each address is freed once, with the layout that
            // it has (heap-1).
            unsafe {
                let outside = ALLOCATOR.alloc(layout(7_000));
                assert!(HeapUse::begin().is_none(), "heap-1");
                of_thread.enter();
                let all = HeapUse::begin().expect("it is in a group");
                let address = ALLOCATOR.alloc(layout(1_000));
                let zeroed = ALLOCATOR.alloc_zeroed(layout(50));
                assert_eq!((all.bytes(), of_thread.bytes()), (1_050, 1_050), "heap-1");
                assert_eq!(thread_heap_bytes(), 1_050);
                let address = ALLOCATOR.realloc(address, layout(1_000), 4_000);
                let later = HeapUse::begin().expect("it is in a group");
                assert!(later.is_latest() && !all.is_latest());
                ALLOCATOR.dealloc(zeroed, layout(50));
                assert_eq!((all.bytes(), later.bytes()), (4_000, 0), "heap-1");
                assert_eq!(all.group(), later.group());
                HeapGroup::leave();
                assert_eq!(thread_heap_bytes(), 0);
                ALLOCATOR.dealloc(address, layout(4_000));
                ALLOCATOR.dealloc(outside, layout(7_000));
                (all, later)
            }
        });
        let (all, later) = worker.join().unwrap();
        assert_eq!((all.bytes(), group.bytes()), (4_000, 4_000), "heap-2");
        drop(group);
        assert!(!later.is_latest() && all.bytes() == 0);
    }
}
