//! Budgets, buffers and clocks.

use std::sync::Arc;
use std::thread;

use tidegate_platform::{
    AlignedBuffer, BufferPool, BufferPoolOptions, Clock, MemoryBudget, SimClock, SystemClock, cores,
};

#[test]
fn reservations_add_up() {
    let budget = Arc::new(MemoryBudget::new(100));
    let mut first = budget.try_reserve(60).unwrap();
    assert!(budget.try_reserve(41).is_none(), "platform_memory-2");
    assert!(budget.try_reserve(u64::MAX).is_none(), "platform_memory-2: nothing wraps around");
    let second = budget.try_reserve(40).unwrap();
    assert_eq!((budget.used_bytes(), budget.max_bytes(), budget.is_over()), (100, 100, false));
    assert!(!first.try_grow(1), "platform_memory-2");
    first.grow(5);
    assert!(budget.is_over());
    assert_eq!((first.bytes(), budget.used_bytes()), (65, 105), "platform_memory-1");
    first.shrink(15);
    assert!(first.try_grow(10));
    assert_eq!((first.bytes(), budget.used_bytes()), (60, 100), "platform_memory-1");
    drop(second);
    let third = budget.reserve_unchecked(1_000);
    assert_eq!(budget.used_bytes(), 1_060, "platform_memory-1");
    assert!(budget.is_over() && budget.try_reserve(0).is_none());
    drop((first, third));
    assert_eq!(budget.used_bytes(), 0, "platform_memory-1");
}

#[test]
#[should_panic(expected = "platform_memory-1")]
fn releasing_more_memory_than_was_taken_panics() {
    let budget = Arc::new(MemoryBudget::new(100));
    let _other = budget.try_reserve(50);
    budget.reserve_unchecked(10).shrink(11);
}

#[test]
fn threads_together_stay_within_the_budget() {
    let budget = Arc::new(MemoryBudget::new(1_000));
    thread::scope(|scope| {
        for seed in 0..4 {
            let budget = &budget;
            scope.spawn(move || {
                let mut random = crate::Random(seed);
                let mut held = Vec::new();
                for _ in 0..5_000 {
                    held.extend(budget.try_reserve(random.below(300)));
                    assert!(budget.used_bytes() <= 1_000, "platform_memory-2");
                    if random.below(2) == 0 {
                        held.pop();
                    }
                }
            });
        }
    });
    assert_eq!(budget.used_bytes(), 0, "platform_memory-1");
}

#[test]
fn buffers_are_aligned_and_zero() {
    for bytes in [0, 1, 4096, (2 << 20) - 1, 2 << 20, (4 << 20) + 123] {
        let mut buffer = AlignedBuffer::new(bytes);
        let alignment = if bytes < 2 << 20 { 4096 } else { 2 << 20 };
        assert!(buffer.as_mut_ptr().addr().is_multiple_of(alignment), "buffer-1: {bytes}");
        assert_eq!(buffer.len(), bytes);
        assert!(buffer.iter().all(|&byte| byte == 0), "buffer-1");
        buffer.fill(1);
        assert_eq!(buffer.iter().map(|&byte| usize::from(byte)).sum::<usize>(), bytes);
    }
}

#[test]
fn a_pool_keeps_no_more_than_its_bound() {
    let options =
        BufferPoolOptions { headroom: 4096, piece_bytes: 8192, tailroom: 64, vacant_max: 2 };
    let pool = BufferPool::new(options);
    let buffers: Vec<_> = (0..3).map(|_| pool.take()).collect();
    let address = buffers[1].as_ptr();
    assert_eq!(
        buffers[0].len(),
        pool.headroom() + pool.piece_bytes() + pool.tailroom(),
        "buffer-2"
    );
    assert_eq!(pool.vacant_count(), 0);
    buffers.into_iter().for_each(|buffer| pool.give(buffer));
    assert_eq!(pool.vacant_count(), 2);
    assert_eq!(pool.take().as_ptr(), address, "the last one given is still warm");
}

#[test]
#[should_panic(expected = "buffer-2")]
fn a_pool_takes_only_its_own_size() {
    crate::pool(0, 10, 0).give(AlignedBuffer::new(11));
}

#[test]
fn clocks_run() {
    let before = SystemClock.monotonic_nanos();
    assert!(before <= SystemClock.monotonic_nanos());
    assert!(1_700_000_000_000_000 < SystemClock.now_micros(), "later than 2023");
    let clock = SimClock::new(-5);
    clock.advance_micros(7);
    assert_eq!((clock.now_micros(), clock.monotonic_nanos()), (2, 7_000));
    clock.set_micros(-100);
    assert_eq!((clock.now_micros(), clock.monotonic_nanos()), (-100, 7_000));
    assert!(1 <= cores().get());
}
