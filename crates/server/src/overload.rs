//! Memory of the process above its limit: the statement that has most gives way before the kernel
//! ends everything.
//!
//! - OL1. One statement goes for each second in which memory is above the limit by more than a
//!   twentieth all the time: what it had is given back before another one is looked for.
//!
//! Not here: what statements may have by themselves (`tidegate_query`), and rows on their way in.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::ByteCount;
use tidegate_platform::rss_anon_bytes;

use crate::shared::{Services, Shared};

/// How often it is looked.
pub(crate) const EVERY: Duration = Duration::from_millis(250);
/// Looks in a row that are a second (OL1).
const LOOKS: u32 = 4;
/// The part of the limit that may be above it.
const TOLERATED: u64 = 20;

/// Who looks, and what has been seen.
pub(crate) struct Overload {
    shared: Arc<Shared>,
    services: Arc<Services>,
    looks: u32,
}

impl Overload {
    pub(crate) fn new(shared: &Arc<Shared>, services: &Arc<Services>) -> Overload {
        Overload { shared: Arc::clone(shared), services: Arc::clone(services), looks: 0 }
    }

    /// Looks once, and ends a statement if it is time for that (OL1).
    pub(crate) fn look(&mut self) {
        let (used, limit) = (ByteCount(rss_anon_bytes()), self.shared.config.memory_limit);
        let is_time;
        (self.looks, is_time) = next(self.looks, used, limit);
        if !is_time {
            return;
        }
        if let Some((id, bytes)) = self.services.engine.end_largest(limit) {
            self.shared.log.warn(
                "memory",
                format_args!(
                    "the process has {used}, and may have {limit}: statement {id}, which has \
                     {bytes}, is cancelled"
                ),
            );
        }
    }
}

/// How many looks in a row have seen too much, and whether that is long enough.
fn next(looks: u32, used: ByteCount, limit: ByteCount) -> (u32, bool) {
    let looks = if limit.0 + limit.0 / TOLERATED < used.0 { looks + 1 } else { 0 };
    if looks < LOOKS { (looks, false) } else { (0, true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_time_after_a_second_without_a_break() {
        let mut looks = 0;
        let mut times = Vec::new();
        for used in [106, 106, 106, 105, 106, 106, 106, 106, 106, 200, 200, 200, 100] {
            let is_time;
            (looks, is_time) = next(looks, ByteCount(used), ByteCount(100));
            times.push(u8::from(is_time));
        }
        assert_eq!(times, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0], "OL1");
    }
}
