//! What the server says of itself: lines of text, and how many of a kind.
//!
//! - LO1. A kind of message that repeats is written `PER_SECOND` times a second; how many were left
//!   out is said with the next one.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::time::CivilDate;
use tidegate_platform::Clock;

/// Lines of one kind in a second.
const PER_SECOND: u32 = 10;
const SECOND_NANOS: u64 = 1_000_000_000;

/// Where lines go.
pub struct Log {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    out: Box<dyn Write + Send>,
    kinds: HashMap<&'static str, Kind>,
}

#[derive(Default)]
struct Kind {
    /// When the second began.
    start: u64,
    written: u32,
    left_out: u64,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

impl Log {
    /// A log that is written there.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, out: Box<dyn Write + Send>) -> Log {
        Log { clock, state: Mutex::new(State { out, kinds: HashMap::new() }) }
    }

    /// Something that is as it should be.
    pub fn info(&self, target: &str, message: fmt::Arguments<'_>) {
        self.write(" INFO", target, message, 0);
    }

    /// Something that somebody should look at.
    pub fn warn(&self, target: &str, message: fmt::Arguments<'_>) {
        self.write(" WARN", target, message, 0);
    }

    /// The same for what may happen often; `kind` is what is counted (LO1).
    pub fn warn_limited(&self, kind: &'static str, message: fmt::Arguments<'_>) {
        let now = self.clock.monotonic_nanos();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = state.kinds.entry(kind).or_default();
        if counted.start + SECOND_NANOS <= now || counted.written == 0 {
            (counted.start, counted.written) = (now, 0);
        }
        if PER_SECOND <= counted.written {
            counted.left_out += 1;
            return;
        }
        counted.written += 1;
        let left_out = std::mem::take(&mut counted.left_out);
        drop(state);
        self.write(" WARN", kind, message, left_out);
    }

    fn write(&self, level: &str, target: &str, message: fmt::Arguments<'_>, left_out: u64) {
        let now = timestamp(self.clock.now_micros());
        let more = match left_out {
            0 => String::new(),
            count => format!(" ({count} more like it were left out)"),
        };
        // A message of a client must not make lines of its own.
        let message = message.to_string().replace(['\n', '\r'], " ");
        let line = format!("{now} {level} {target}: {message}{more}\n");
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody can be told that nobody can be told.
        let _ = state.out.write_all(line.as_bytes());
        let _ = state.out.flush();
    }
}

/// ISO 8601, in UTC.
fn timestamp(micros: i64) -> String {
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let of_day = seconds.rem_euclid(86_400);
    let CivilDate { year, month, day } = CivilDate::from_days(seconds.div_euclid(86_400));
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tidegate_platform::SimClock;

    use super::*;

    struct Lines(Sender<String>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(String::from_utf8_lossy(bytes).into_owned()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn log() -> (Arc<SimClock>, Log, Receiver<String>) {
        let clock = Arc::new(SimClock::new(1_740_819_600_000_001));
        let (sender, lines) = channel();
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
        (clock, Log::new(shared, Box::new(Lines(sender))), lines)
    }

    #[test]
    fn a_message_is_one_line() {
        let (_, log, lines) = log();
        log.info("http", format_args!("a\nb"));
        let expected = "2025-03-01T09:00:00.000001Z  INFO http: a b\n";
        assert_eq!(lines.try_iter().collect::<String>(), expected);
    }

    #[test]
    fn what_repeats_is_counted() {
        let (clock, log, lines) = log();
        for _ in 0..25 {
            log.warn_limited("ilp", format_args!("bad line"));
        }
        assert_eq!(lines.try_iter().count(), 10, "LO1");
        clock.advance_micros(1_000_000);
        log.warn_limited("ilp", format_args!("bad line"));
        let line = lines.try_recv().unwrap();
        assert!(line.ends_with("bad line (15 more like it were left out)\n"), "LO1: {line}");
    }
}
