//! Steps that mostly wait for the disk, several at a time.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs an action `count` times, in at most `threads` threads. After an error, a thread begins no
/// further step; all threads end before the error is returned.
pub(crate) fn several_at_a_time<E: Send>(
    threads: NonZeroUsize,
    count: usize,
    step: &(dyn Fn(usize) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let threads = threads.get().min(count);
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return Ok(());
            }
            step(at)?;
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mine = work();
        let outcomes = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        outcomes.collect::<Vec<_>>().into_iter().fold(mine, Result::and)
    })
}
