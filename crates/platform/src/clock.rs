//! Clocks: wall time and monotonic time, of the machine and simulated.
//!
//! Not here: calendars. A time is a number.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync {
    /// Microseconds since 1970-01-01 UTC. An administrator may set the machine's clock, so it can
    /// jump.
    fn now_micros(&self) -> i64;

    /// Nanoseconds since some moment in the past; never decreases.
    fn monotonic_nanos(&self) -> u64;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// A clock that is set and advanced by tests.
#[derive(Debug, Default)]
pub struct SimClock {
    micros: AtomicI64,
    nanos: AtomicU64,
}

impl Clock for SystemClock {
    fn now_micros(&self) -> i64 {
        let in_range = "the clock is within 292,000 years of 1970";
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).expect(in_range),
            Err(before) => -i64::try_from(before.duration().as_micros()).expect(in_range),
        }
    }

    fn monotonic_nanos(&self) -> u64 {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(START.elapsed().as_nanos()).expect("no process runs for 584 years")
    }
}

impl SimClock {
    /// A clock that shows `now_micros` (since 1970-01-01 UTC) until it is set.
    pub fn new(now_micros: i64) -> SimClock {
        SimClock { micros: AtomicI64::new(now_micros), nanos: AtomicU64::new(0) }
    }

    /// Sets the wall time, as an administrator would; the monotonic time does not change.
    pub fn set_micros(&self, now_micros: i64) {
        self.micros.store(now_micros, SeqCst);
    }

    /// Advances both times by `micros`.
    pub fn advance_micros(&self, micros: u32) {
        self.micros.fetch_add(i64::from(micros), SeqCst);
        self.nanos.fetch_add(u64::from(micros) * 1_000, SeqCst);
    }
}

impl Clock for SimClock {
    fn now_micros(&self) -> i64 {
        self.micros.load(SeqCst)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.nanos.load(SeqCst)
    }
}
