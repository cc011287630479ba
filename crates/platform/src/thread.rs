//! Threads as the operating system schedules them: their CPU time and their priority.
//!
//! - thread-1. Both can be read and changed from any thread of the process, by [`ThreadId`].
//!
//! On systems where threads have no ids and priorities of their own (not Linux), CPU time is
//! unknown and a priority does not change: callers must be correct without them.

use std::time::Duration;

#[cfg(target_os = "linux")]
use crate::sys;

/// The highest niceness of the system.
#[cfg(target_os = "linux")]
const NICENESS_MAX: libc::c_int = 19;

/// A thread of this process. The id of a thread that has ended may be reused for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(#[cfg(target_os = "linux")] libc::pid_t);

impl ThreadId {
    /// The calling thread.
    pub fn current() -> ThreadId {
        #[cfg(target_os = "linux")]
        return ThreadId(sys::thread_id());
        #[cfg(not(target_os = "linux"))]
        return ThreadId();
    }

    /// The CPU time of the thread since its start; `None` if it has ended, or if the time is
    /// unknown.
    pub fn cpu_time(self) -> Option<Duration> {
        #[cfg(target_os = "linux")]
        return sys::thread_cpu_time(self.0).ok();
        #[cfg(not(target_os = "linux"))]
        return None;
    }

    /// Sets the niceness of the thread to this many steps above that of the process; 19 is the
    /// lowest priority. Where cores are scarce, a step takes about a fifth of the thread's share.
    /// Threads that it starts later inherit the niceness. Lowering the niceness requires a
    /// privilege that servers rarely have; without it nothing happens.
    pub fn set_niceness(self, steps: u8) {
        #[cfg(target_os = "linux")]
        {
            let niceness = sys::process_niceness().saturating_add(steps.into());
            sys::set_thread_niceness(self.0, niceness.min(NICENESS_MAX));
        }
        #[cfg(not(target_os = "linux"))]
        let _ = steps;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::hint::black_box;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn cpu_time_and_niceness_are_those_of_one_thread() {
        let ((told, tell), (end, ended)) = (channel(), channel::<()>());
        let worker = thread::spawn(move || {
            told.send(ThreadId::current()).unwrap();
            let start = ThreadId::current().cpu_time().unwrap();
            while ThreadId::current().cpu_time().unwrap() < start + Duration::from_millis(5) {
                black_box((0..1_000_u64).sum::<u64>());
            }
            told.send(ThreadId::current()).unwrap();
            let _ = ended.recv();
        });
        let id = tell.recv().unwrap();
        assert_eq!(tell.recv().unwrap(), id);
        assert!(Duration::from_millis(5) <= id.cpu_time().unwrap(), "thread-1");
        let before = sys::thread_niceness(ThreadId::current().0);
        id.set_niceness(3);
        let expected = (sys::process_niceness() + 3).min(NICENESS_MAX);
        assert_eq!(sys::thread_niceness(id.0), expected, "thread-1");
        assert_eq!(sys::thread_niceness(ThreadId::current().0), before, "no other thread changes");
        drop(end);
        worker.join().unwrap();
    }
}
