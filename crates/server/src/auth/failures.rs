//! Counters of failed logins, and the delay of the next answer to one.
//!
//! - failures-1. Failures are counted for an address, and for an address and a name. From the fifth
//!   on, each waits twice as long, up to `DELAY_MAX`, and after those before it: parallel
//!   connections have no more guesses than one.
//! - failures-2. A success forgets the failures of its address, and those of its name there; those
//!   of other names stay, so that a client with an account of its own gets no more guesses at
//!   another.
//! - failures-3. At most `COUNTED_MAX` counters are kept; the one that is unused for longest goes
//!   first.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// The number of failures that are answered at once.
const FREE_FAILURES: u32 = 4;
/// The delay of the first failure that waits.
const DELAY: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(10);
/// The longest time that a failure waits after others.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The most addresses and names whose failures are counted.
const COUNTED_MAX: usize = 2_048;

/// The failures of all addresses.
#[derive(Debug, Default)]
pub(super) struct Failures {
    counted: HashMap<(IpAddr, Option<u64>), Counted>,
    hasher: RandomState,
    /// The number of failures so far.
    number: u64,
}

#[derive(Debug)]
struct Counted {
    count: u32,
    /// The number of the last failure.
    last: u64,
    /// The time at which the last failure is answered.
    told: Instant,
}

impl Failures {
    /// Counts a failure, and returns the time until it may be answered (failures-1).
    pub(super) fn failed(&mut self, address: IpAddr, name: &str, now: Instant) -> Duration {
        let name = self.hasher.hash_one(name);
        let of_address = self.count((address, None), now);
        of_address.max(self.count((address, Some(name)), now))
    }

    /// Forgets failures (failures-2).
    pub(super) fn succeeded(&mut self, address: IpAddr, name: &str) {
        self.counted.remove(&(address, None));
        self.counted.remove(&(address, Some(self.hasher.hash_one(name))));
    }

    fn count(&mut self, key: (IpAddr, Option<u64>), now: Instant) -> Duration {
        if self.counted.len() >= COUNTED_MAX && !self.counted.contains_key(&key) {
            let oldest = self.counted.iter().min_by_key(|(_, it)| it.last).map(|(key, _)| *key);
            oldest.and_then(|oldest| self.counted.remove(&oldest));
        }
        self.number += 1;
        let first = Counted { count: 0, last: 0, told: now };
        let counted = self.counted.entry(key).or_insert(first);
        (counted.count, counted.last) = (counted.count.saturating_add(1), self.number);
        let told = counted.told.max(now) + delay(counted.count);
        counted.told = told.min(now + WAIT_MAX);
        counted.told - now
    }
}

fn delay(failures: u32) -> Duration {
    match failures.checked_sub(FREE_FAILURES + 1) {
        None => Duration::ZERO,
        Some(doublings) => DELAY.saturating_mul(1 << doublings.min(16)).min(DELAY_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn waits(failures: &mut Failures, name: &str, times: usize, now: Instant) -> Vec<u128> {
        (0..times).map(|_| failures.failed(BAD, name, now).as_millis()).collect()
    }

    #[test]
    fn the_fifth_failure_waits_and_each_waits_behind_those_before_it() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        assert_eq!(waits(&mut failures, "a", 7, now), [0, 0, 0, 0, 200, 600, 1_400], "failures-1");
        let later = now + Duration::from_secs(100);
        assert_eq!(
            waits(&mut failures, "b", 1, later),
            [1_600],
            "failures-1: other names count as well"
        );
        let good = IpAddr::from([10, 0, 0, 2]);
        assert_eq!(failures.failed(good, "a", now), Duration::ZERO, "others do not wait");
        assert!(
            waits(&mut failures, "a", 100, later).iter().all(|&wait| wait <= 60_000),
            "failures-1"
        );
        assert_eq!(delay(u32::MAX), DELAY_MAX);
    }

    #[test]
    fn a_success_forgets_the_failures_of_its_name_alone() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        assert_eq!(waits(&mut failures, "admin", 4, now), [0; 4]);
        failures.succeeded(BAD, "own");
        assert_eq!(waits(&mut failures, "admin", 1, now), [200], "failures-2");
        failures.succeeded(BAD, "admin");
        assert_eq!(waits(&mut failures, "admin", 1, now), [0], "failures-2");
    }

    #[test]
    fn those_that_are_counted_have_a_bound() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        for number in 0..3_000_u32 {
            failures.failed(IpAddr::from(number.to_be_bytes()), "a", now);
        }
        assert_eq!(failures.counted.len(), COUNTED_MAX, "failures-3");
    }
}
