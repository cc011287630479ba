//! The memory watchdog: cancels statements when the process exceeds its memory limit or spilled
//! data fills the disk, before the kernel ends the process or writes fail.
//!
//! - overload-1. If the limit is exceeded by more than a twentieth for a whole second, the
//!   statement with the most memory is cancelled, and one more with each further second.
//! - overload-2. If the limit is exceeded by more than a quarter, statements are cancelled at once,
//!   the largest first, until their memory makes up for the excess; and again after half a second,
//!   or when memory has grown by an eighth of the limit meanwhile.
//! - overload-3. While the disk has less than half of the free space that `storage.min_free` keeps,
//!   the statement that has spilled most is cancelled, and after half a second the next one:
//!   spilled data disappears with its query, while rows that cannot be written are lost to their
//!   clients.
//!
//! Not here: memory limits of single statements (`tidegate_query`), and of rows that wait for their
//! commit.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::ByteCount;
use tidegate_platform::rss_anon_bytes;

use crate::shared::{Services, Shared};

/// The time between two checks.
pub(crate) const EVERY: Duration = Duration::from_millis(100);
/// The number of consecutive checks in a second (overload-1).
const LOOKS: u32 = 10;
/// The divisor of the limit that gives the tolerated excess for a while.
const TOLERATED: u64 = 20;
/// The divisor of the limit that gives the excess that is handled at once (overload-2).
const URGENT: u64 = 4;
/// The number of checks after which statements cancelled at once should have released their memory.
const LOOKS_TO_END: u32 = 5;
/// The divisor of the limit by which memory may grow meanwhile.
const GROWTH: u64 = 8;

/// The periodic checks of memory and disk, which cancel statements.
pub(crate) struct Overload {
    shared: Arc<Shared>,
    services: Arc<Services>,
    watch: Watch,
    /// The number of checks until the disk is checked again (overload-3).
    disk_looks: u32,
}

impl Overload {
    pub(crate) fn new(shared: &Arc<Shared>, services: &Arc<Services>) -> Overload {
        let (shared, services) = (Arc::clone(shared), Arc::clone(services));
        Overload { shared, services, watch: Watch::default(), disk_looks: 0 }
    }

    /// Checks once, and cancels statements if necessary.
    pub(crate) fn look(&mut self) {
        self.look_at_disk();
        self.look_at_memory();
    }

    fn look_at_disk(&mut self) {
        self.disk_looks = self.disk_looks.saturating_sub(1);
        let engine = &self.services.engine;
        if 0 < self.disk_looks || !engine.has_spilled() {
            return;
        }
        if !self.services.has_full_disk(self.shared.config.min_free, 2) {
            return;
        }
        self.disk_looks = LOOKS_TO_END;
        let Some((id, bytes)) = engine.end_largest_spill() else { return };
        self.shared.log.warn(
            "disk",
            format_args!(
                "the disk has less than half of the room of storage.min_free: cancelling \
                 statement {id} ({bytes} spilled)"
            ),
        );
    }

    fn look_at_memory(&mut self) {
        let (used, limit) = (ByteCount(rss_anon_bytes()), self.shared.config.memory_limit);
        let Some(mut excess) = self.watch.excess(used.0, limit.0) else { return };
        while 0 < excess {
            let Some((id, bytes)) = self.services.engine.end_largest(limit) else { return };
            self.shared.log.warn(
                "memory",
                format_args!(
                    "process memory {used} exceeds memory.limit ({limit}): cancelling statement \
                     {id} ({bytes})"
                ),
            );
            excess = excess.saturating_sub(bytes.0);
        }
    }
}

/// The history of memory checks.
#[derive(Debug, Default)]
struct Watch {
    /// The number of consecutive checks above the tolerated limit.
    looks: u32,
    /// The checks since statements were cancelled at once, and the memory at that time.
    hasty: Option<(u32, u64)>,
}

impl Watch {
    /// Returns the bytes that statements have to release now; `None` for none.
    fn excess(&mut self, used: u64, limit: u64) -> Option<u64> {
        if used <= limit + limit / TOLERATED {
            *self = Watch::default();
            return None;
        }
        self.looks += 1;
        if let Some((looks, _)) = &mut self.hasty {
            *looks += 1;
        }
        if limit + limit / URGENT < used {
            let may_wait = self.hasty.is_some_and(|(looks, before)| {
                looks < LOOKS_TO_END && used <= before.saturating_add(limit / GROWTH)
            });
            if may_wait {
                return None;
            }
            *self = Watch { looks: 0, hasty: Some((0, used)) };
            return Some(used - limit);
        }
        if self.looks < LOOKS {
            return None;
        }
        self.looks = 0;
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(used: &[u64], expected: &[u64]) {
        let mut watch = Watch::default();
        let found = used.iter().map(|&used| watch.excess(used, 1_000).unwrap_or(0));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn one_statement_goes_for_each_second_above_the_limit() {
        let mut used = vec![1_060; 5];
        used.push(1_050);
        used.extend([1_060; 21]);
        let mut expected = vec![0; 27];
        (expected[15], expected[25]) = (1, 1);
        check(&used, &expected);
    }

    #[test]
    fn far_above_the_limit_statements_go_at_once() {
        check(&[900, 1_300, 1_400, 1_400, 1_400, 1_400, 1_390], &[0, 300, 0, 0, 0, 0, 390]);
        check(&[1_300, 1_420, 1_430, 1_560], &[300, 0, 430, 560]);
        check(&[1_300, 1_000, 1_300], &[300, 0, 300]);
    }
}
