//! The memory watchdog: cancels statements when the process exceeds its memory limit or spilled
//! data fills the disk, before the kernel ends the process or writes fail.
//!
//! - watchdog-1. If the limit is exceeded by more than a twentieth for a whole second, the largest
//!   statement of the user with the most memory is cancelled, and one more with each further
//!   second.
//! - watchdog-2. If the limit is exceeded by more than a quarter, statements are cancelled at once,
//!   in the same order, until their memory makes up for the excess; and again after half a second,
//!   or when memory has grown by an eighth of the limit meanwhile.
//! - watchdog-3. While the disk has less than half of the free space that `storage.min_free` keeps,
//!   the statement that has spilled most is cancelled, and after half a second the next one:
//!   spilled data disappears with its query, while rows that cannot be written are lost to their
//!   clients.
//!
//! - watchdog-4. Memory of statements that were stopped and whose threads still work is about to
//!   become free: nothing is cancelled for it, except further statements of the same users.
//! - watchdog-5. Nothing is cancelled for memory that is free and that the allocator keeps: it is
//!   given back at each check above the limit, before it is decided whether to cancel, and once a
//!   second what has been free for long.
//!
//! The memory of a statement is what its threads have allocated, or what it has reserved, if that
//! is more (running_queries-2): a statement whose memory is in no account is found, too. Otherwise
//! it would take the memory, and those of others, whose memory is known, would be cancelled for it.
//!
//! Not here: the order of statements (`tidegate_query`), their memory limits, and those of rows
//! that wait for their commit.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::ByteCount;
use tidegate_platform::{give_back_memory, give_back_old_memory, rss_anon_bytes};

use crate::server_state::{ServerState, Services};

/// The time between two checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The number of consecutive checks in a second (watchdog-1).
const CHECKS_PER_SECOND: u32 = 10;
/// The divisor of the limit that gives the tolerated excess for a while.
const TOLERATED: u64 = 20;
/// The divisor of the limit that gives the excess that is handled at once (watchdog-2).
const URGENT: u64 = 4;
/// The number of checks after which statements cancelled at once should have released their memory.
const CHECKS_TO_END: u32 = 5;
/// The divisor of the limit by which memory may grow meanwhile.
const GROWTH: u64 = 8;

/// The periodic checks of memory and disk, which cancel statements.
pub(crate) struct Watchdog {
    server: Arc<ServerState>,
    services: Arc<Services>,
    memory: MemoryHistory,
    /// The number of checks until the disk is checked again (watchdog-3).
    checks_until_disk: u32,
    /// The number of checks until old free memory is given back (watchdog-5).
    checks_until_given_back: u32,
}

impl Watchdog {
    pub(crate) fn new(server: &Arc<ServerState>, services: &Arc<Services>) -> Watchdog {
        let (server, services) = (Arc::clone(server), Arc::clone(services));
        Watchdog {
            server,
            services,
            memory: MemoryHistory::default(),
            checks_until_disk: 0,
            checks_until_given_back: CHECKS_PER_SECOND,
        }
    }

    /// Checks once, and cancels statements if necessary.
    pub(crate) fn check(&mut self) {
        self.check_disk();
        self.check_memory();
    }

    fn check_disk(&mut self) {
        self.checks_until_disk = self.checks_until_disk.saturating_sub(1);
        let engine = &self.services.engine;
        if 0 < self.checks_until_disk || !engine.has_spilled() {
            return;
        }
        if !self.services.has_full_disk(self.server.config.min_free, 2) {
            return;
        }
        self.checks_until_disk = CHECKS_TO_END;
        let Some((id, bytes)) = engine.end_largest_spill() else { return };
        self.server.log.warn(
            "disk",
            format_args!(
                "the disk has less than half of the room of storage.min_free: cancelling \
                 statement {id} ({bytes} spilled)"
            ),
        );
    }

    fn check_memory(&mut self) {
        self.checks_until_given_back -= 1;
        if self.checks_until_given_back == 0 {
            self.checks_until_given_back = CHECKS_PER_SECOND;
            give_back_old_memory();
        }
        let limit = self.server.config.memory_limit;
        let used = used_without_free(limit, rss_anon_bytes, give_back_memory);
        let Some(excess) = self.memory.excess(used.0, limit.0) else { return };
        let engine = &self.services.engine;
        let ending = engine.ending_bytes();
        let mut excess = beside_ending(excess, used.0.saturating_sub(limit.0), ending.0);
        if excess == 0 {
            // watchdog-4.
            if let Some((id, bytes)) = engine.end_largest_of_stopped(limit) {
                self.log_canceled(used, id, bytes);
            }
            return;
        }
        while 0 < excess {
            let Some((id, bytes)) = engine.end_largest(limit) else { return };
            self.log_canceled(used, id, bytes);
            excess = excess.saturating_sub(bytes.0);
        }
    }

    fn log_canceled(&self, used: ByteCount, id: u64, bytes: ByteCount) {
        let limit = self.server.config.memory_limit;
        self.server.log.warn(
            "memory",
            format_args!(
                "process memory {used} exceeds memory.limit ({limit}): cancelling statement {id} \
                 ({bytes})"
            ),
        );
    }
}

/// Returns the memory of the process; above the limit, that which is left once free memory was
/// given back (watchdog-5).
fn used_without_free(
    limit: ByteCount,
    measure: impl Fn() -> u64,
    give_back: impl FnOnce(),
) -> ByteCount {
    let used = ByteCount(measure());
    if used <= limit {
        return used;
    }
    give_back();
    ByteCount(measure())
}

/// Returns the bytes of an excess that statements have to release, of a process that is this much
/// over its limit, when those that were stopped still have `ending` bytes (watchdog-4).
fn beside_ending(excess: u64, over: u64, ending: u64) -> u64 {
    if over <= ending { 0 } else { excess.saturating_sub(ending).max(1) }
}

/// The history of memory checks.
#[derive(Debug, Default)]
struct MemoryHistory {
    /// The number of consecutive checks above the tolerated limit.
    checks: u32,
    /// The checks since statements were cancelled at once, and the memory at that time.
    hasty: Option<(u32, u64)>,
}

impl MemoryHistory {
    /// Returns the bytes that statements have to release now; `None` for none.
    fn excess(&mut self, used: u64, limit: u64) -> Option<u64> {
        if used <= limit + limit / TOLERATED {
            *self = MemoryHistory::default();
            return None;
        }
        self.checks += 1;
        if let Some((checks, _)) = &mut self.hasty {
            *checks += 1;
        }
        if limit + limit / URGENT < used {
            let may_wait = self.hasty.is_some_and(|(checks, before)| {
                checks < CHECKS_TO_END && used <= before.saturating_add(limit / GROWTH)
            });
            if may_wait {
                return None;
            }
            *self = MemoryHistory { checks: 0, hasty: Some((0, used)) };
            return Some(used - limit);
        }
        if self.checks < CHECKS_PER_SECOND {
            return None;
        }
        self.checks = 0;
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[track_caller]
    fn check_cancels(used: &[u64], expected: &[u64]) {
        let mut memory = MemoryHistory::default();
        let found = used.iter().map(|&used| memory.excess(used, 1_000).unwrap_or(0));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn one_statement_goes_for_each_second_above_the_limit() {
        let mut used = vec![1_060; 5];
        used.push(1_050);
        used.extend([1_060; 21]);
        let mut expected = vec![0; 27];
        (expected[15], expected[25]) = (1, 1);
        check_cancels(&used, &expected);
    }

    #[test]
    fn nothing_is_cancelled_for_memory_that_is_about_to_be_free() {
        for (excess, over, ending, expected) in [
            (300, 300, 0, 300),
            (300, 300, 100, 200),
            (300, 300, 300, 0),
            (300, 300, 900, 0),
            (1, 60, 0, 1),
            (1, 60, 59, 1),
            (1, 60, 60, 0),
        ] {
            assert_eq!(beside_ending(excess, over, ending), expected, "watchdog-4");
        }
    }

    // After large statements an idle server had 1.4 GB of free memory, and the first statement of
    // another user was cancelled for it.
    #[test]
    fn nothing_is_cancelled_for_free_memory() {
        for (before, after, expected) in [
            (1_300, 1_300, Some(300)),
            (1_300, 1_260, Some(260)),
            (1_300, 1_040, None),
            (1_300, 100, None),
            // Nothing is given back below the limit.
            (1_000, 1_300, None),
        ] {
            let memory = Cell::new(before);
            let limit = ByteCount(1_000);
            let used = used_without_free(limit, || memory.get(), || memory.set(after));
            let excess = MemoryHistory::default().excess(used.0, limit.0);
            assert_eq!(excess, expected, "watchdog-5: {before}, {after}");
        }
    }

    #[test]
    fn far_above_the_limit_statements_go_at_once() {
        check_cancels(&[900, 1_300, 1_400, 1_400, 1_400, 1_400, 1_390], &[0, 300, 0, 0, 0, 0, 390]);
        check_cancels(&[1_300, 1_420, 1_430, 1_560], &[300, 0, 430, 560]);
        check_cancels(&[1_300, 1_000, 1_300], &[300, 0, 300]);
    }
}
