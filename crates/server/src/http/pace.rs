//! The least pace of a request body while other requests wait for memory.
//!
//! - pace-1. While memory is scarce, a body that arrives with less than `MIN_BYTES_PER_SECOND` a
//!   second is refused.
//!
//! Not here: the memory itself, which the handlers reserve.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use super::RequestContext;
use super::wire::BodyError;

/// The time for which a body may be slow while memory is scarce, and the bytes a second below which
/// it is slow.
const GRACE_PERIOD: Duration = Duration::from_secs(5);
const MIN_BYTES_PER_SECOND: f64 = (64 << 10) as f64;
/// The interval at which a silent body is checked.
const RATE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The pace of one body.
pub(super) struct BodyPace {
    start: Instant,
}

impl BodyPace {
    pub(super) fn begin() -> BodyPace {
        BodyPace { start: Instant::now() }
    }

    /// Returns the next bytes of the body after `bytes` of text; `None` at the end (pace-1).
    pub(super) async fn next(
        &self,
        context: &mut RequestContext<'_>,
        bytes: usize,
        is_scarce: impl Fn() -> bool,
    ) -> Result<Option<Bytes>, BodyError> {
        let start = Instant::now();
        loop {
            let next = timeout(RATE_CHECK_INTERVAL, context.body.next(context.wire)).await;
            if is_slow(self.start.elapsed(), bytes) && is_scarce() {
                return Err(BodyError::TooSlow);
            }
            match next {
                Ok(piece) => return piece,
                Err(_) if context.server.config.http.body_idle_timeout <= start.elapsed() => {
                    return Err(BodyError::Slow);
                }
                Err(_) => {}
            }
        }
    }
}

/// Returns true if a body has been slow for too long (pace-1).
fn is_slow(elapsed: Duration, bytes: usize) -> bool {
    let late = elapsed.saturating_sub(GRACE_PERIOD);
    (bytes as f64) < late.as_secs_f64() * MIN_BYTES_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_slow_after_the_grace_period() {
        let seconds = Duration::from_secs;
        assert!(!is_slow(seconds(5), 0) && is_slow(seconds(6), 1_000));
        assert!(!is_slow(seconds(6), 64 << 10) && is_slow(seconds(15), 64 << 10), "pace-1");
    }
}
