//! What the server says of itself: lines of text, and how many of a kind.
//!
//! - LO1. A kind of message that repeats is written `PER_SECOND` times a second; how many were left
//!   out is said with the next one.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tidegate_model::time::CivilDate;
use tidegate_platform::Clock;

/// Lines of one kind in a second.
const PER_SECOND: u32 = 10;
const SECOND_NANOS: u64 = 1_000_000_000;

/// Which lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Info,
    Warn,
    Off,
}

/// `info`, or with exceptions for targets `warn,audit=info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevels {
    level: Level,
    targets: Vec<(String, Level)>,
}

/// Where lines go.
pub struct Log {
    clock: Arc<dyn Clock>,
    levels: RwLock<LogLevels>,
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

impl Level {
    const ALL: [Level; 3] = [Level::Info, Level::Warn, Level::Off];

    fn name(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Off => "off",
        }
    }

    fn parse(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl LogLevels {
    /// All lines.
    pub(crate) const ALL: LogLevels = LogLevels { level: Level::Info, targets: Vec::new() };

    pub(crate) fn parse(text: &str) -> Option<LogLevels> {
        let mut levels = LogLevels::ALL;
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None => levels.level = Level::parse(part)?,
                Some(("", _)) => return None,
                Some((target, level)) => {
                    levels.targets.push((target.trim().to_owned(), Level::parse(level.trim())?));
                }
            }
        }
        Some(levels)
    }

    /// Of several for a target, the last counts.
    fn of(&self, target: &str) -> Level {
        let found = self.targets.iter().rev().find(|(known, _)| known == target);
        found.map_or(self.level, |(_, level)| *level)
    }
}

impl fmt::Display for LogLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.name())?;
        self.targets.iter().try_for_each(|(target, level)| write!(f, ",{target}={}", level.name()))
    }
}

impl Log {
    /// A log that is written there.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, out: Box<dyn Write + Send>) -> Log {
        let levels = RwLock::new(LogLevels::ALL);
        Log { clock, levels, state: Mutex::new(State { out, kinds: HashMap::new() }) }
    }

    /// From now on these lines are written.
    pub(crate) fn set_levels(&self, levels: LogLevels) {
        *self.levels.write().unwrap_or_else(PoisonError::into_inner) = levels;
    }

    /// Something that is as it should be.
    pub fn info(&self, target: &str, message: fmt::Arguments<'_>) {
        self.write(Level::Info, target, message, 0);
    }

    /// Something that somebody should look at.
    pub fn warn(&self, target: &str, message: fmt::Arguments<'_>) {
        self.write(Level::Warn, target, message, 0);
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
        self.write(Level::Warn, kind, message, left_out);
    }

    fn write(&self, level: Level, target: &str, message: fmt::Arguments<'_>, left_out: u64) {
        if level < self.levels.read().unwrap_or_else(PoisonError::into_inner).of(target) {
            return;
        }
        let level = match level {
            Level::Info => " INFO",
            Level::Warn | Level::Off => " WARN",
        };
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
    fn targets_have_levels_of_their_own() {
        let (_, log, lines) = log();
        log.set_levels(LogLevels::parse("warn, audit=info,http=off").unwrap());
        for target in ["audit", "http", "pg"] {
            log.info(target, format_args!("info"));
            log.warn(target, format_args!("warn"));
        }
        let said = lines.try_iter().map(|line| line[28..].trim().to_owned()).collect::<Vec<_>>();
        assert_eq!(said, ["INFO audit: info", "WARN audit: warn", "WARN pg: warn"]);
        assert_eq!(LogLevels::parse("warn,a=info").unwrap().to_string(), "warn,a=info");
        for bad in ["", "loud", "a=loud", "=info", "info,"] {
            assert_eq!(LogLevels::parse(bad), None, "{bad}");
        }
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
