//! The log of the server: lines of text, limited in their number.
//!
//! - log-1. Messages of one kind are written at most `PER_SECOND` times a second; the number of
//!   suppressed ones follows with the next message.
//! - log-2. A line never blocks its writer: lines wait in a bounded queue for a thread that writes
//!   them. Those that find no room are lost and counted, and the log says so when there is room
//!   again.
//! - log-3. A message is one line of printable text: control characters, and those that reorder or
//!   end lines, are escaped (`printable`).
//! - log-4. Messages that a user causes are counted for each user, so that none hides those of
//!   others. The number of the suppressed ones names the user, and follows with the next message of
//!   any user.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use tidegate_model::limits;
use tidegate_model::time::CivilDate;
use tidegate_platform::{Clock, printable};

/// The most lines of one kind in a second.
const PER_SECOND: u32 = 10;
const SECOND_NANOS: u64 = 1_000_000_000;
/// The most bytes of a message; the rest is cut off.
const MESSAGE_BYTES: usize = 16 << 10;

/// The levels of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Info,
    Warn,
    Off,
}

/// The level of written lines: `info`, or with exceptions for targets `warn,audit=info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevels {
    level: Level,
    targets: Vec<(String, Level)>,
}

/// The log: formats lines, and passes them to the thread that writes them.
pub struct Log {
    clock: Arc<dyn Clock>,
    levels: RwLock<LogLevels>,
    kinds: Mutex<Kinds>,
    queue: Arc<Queue>,
}

/// The lines that wait for the thread that writes them (log-2).
struct Queue {
    lines: Mutex<Lines>,
    changed: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Lines {
    waiting: VecDeque<String>,
    /// The bytes of the waiting lines.
    bytes: usize,
    /// The lines that were lost and not yet reported.
    lost: u64,
    is_writing: bool,
    is_closed: bool,
}

/// The counts by kind and user; the user is empty if there is none.
type Kinds = HashMap<(&'static str, String), Kind>;

#[derive(Default)]
struct Kind {
    /// The time at which the second began.
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
    /// The levels at which all lines are written.
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

    /// Returns the level of a target; the last entry counts.
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

impl Queue {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: String) {
        let mut lines = self.lines();
        if limits::LOG_QUEUE_BYTES < lines.bytes + line.len() {
            lines.lost += 1;
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        lines.bytes += line.len();
        lines.waiting.push_back(line);
        drop(lines);
        self.changed.notify_all();
    }

    /// Writes lines until the log is closed.
    fn write(&self, out: &mut dyn Write, clock: &dyn Clock) {
        let mut lines = self.lines();
        loop {
            lines.is_writing = false;
            self.changed.notify_all();
            while lines.waiting.is_empty() && lines.lost == 0 {
                if lines.is_closed {
                    return;
                }
                lines = self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
            }
            lines.is_writing = true;
            lines.bytes = 0;
            let waiting = std::mem::take(&mut lines.waiting);
            let lost = std::mem::take(&mut lines.lost);
            drop(lines);
            // A failure of the log cannot be reported anywhere else.
            for line in waiting {
                let _ = out.write_all(line.as_bytes());
            }
            if 0 < lost {
                let now = timestamp(clock.now_micros());
                let line = format!("{now}  WARN log: {} log lines dropped\n", grouped(lost));
                let _ = out.write_all(line.as_bytes());
            }
            let _ = out.flush();
            lines = self.lines();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The thread ends by itself; one that is blocked ends with the process.
        self.queue.lines().is_closed = true;
        self.queue.changed.notify_all();
    }
}

impl Log {
    /// Makes a log that is written to `out`.
    ///
    /// # Panics
    /// If its thread cannot be started.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, mut out: Box<dyn Write + Send>) -> Log {
        let levels = RwLock::new(LogLevels::ALL);
        let (lines, changed) = (Mutex::default(), Condvar::new());
        let queue = Arc::new(Queue { lines, changed, dropped: AtomicU64::new(0) });
        let (writer, time) = (Arc::clone(&queue), Arc::clone(&clock));
        let thread = thread::Builder::new().name("log".to_owned());
        let spawned = thread.spawn(move || writer.write(out.as_mut(), time.as_ref()));
        spawned.expect("a process that cannot begin a thread cannot be a server");
        Log { clock, levels, kinds: Mutex::default(), queue }
    }

    /// Sets the levels of the lines that are written from now on.
    pub(crate) fn set_levels(&self, levels: LogLevels) {
        *self.levels.write().unwrap_or_else(PoisonError::into_inner) = levels;
    }

    /// Returns the number of lines that were lost because the queue was full (log-2).
    pub(crate) fn dropped(&self) -> u64 {
        self.queue.dropped.load(Relaxed)
    }

    /// Waits until all lines are written, but no longer than `timeout`; returns whether they are.
    pub fn flush(&self, timeout: Duration) -> bool {
        let lines = self.queue.lines();
        let is_busy = |lines: &mut Lines| lines.is_writing || !lines.waiting.is_empty();
        let waited = self.queue.changed.wait_timeout_while(lines, timeout, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Logs a regular event.
    pub fn info(&self, target: &str, message: fmt::Arguments<'_>) {
        self.write(Level::Info, target, message, "");
    }

    /// Logs an event that an operator should look at.
    pub fn warn(&self, target: &str, message: fmt::Arguments<'_>) {
        self.write(Level::Warn, target, message, "");
    }

    /// Logs a regular event that a client can cause (log-1).
    pub(crate) fn info_limited<'a>(
        &self,
        kind: impl Into<LogKind<'a>>,
        message: fmt::Arguments<'_>,
    ) {
        self.limited(Level::Info, kind.into(), message);
    }

    /// Logs a warning that a client, or a lasting state, can cause (log-1).
    pub(crate) fn warn_limited<'a>(
        &self,
        kind: impl Into<LogKind<'a>>,
        message: fmt::Arguments<'_>,
    ) {
        self.limited(Level::Warn, kind.into(), message);
    }

    fn limited(&self, level: Level, kind: LogKind<'_>, message: fmt::Arguments<'_>) {
        let now = self.clock.monotonic_nanos();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind.counted, kind.user.to_owned());
        let silent = if kind.user.is_empty() { Vec::new() } else { silent(&mut kinds, &key, now) };
        let counted = kinds.entry(key).or_default();
        if counted.start + SECOND_NANOS <= now || counted.written == 0 {
            (counted.start, counted.written) = (now, 0);
        }
        let is_written = counted.written < PER_SECOND;
        let left_out = if is_written { std::mem::take(&mut counted.left_out) } else { 0 };
        match is_written {
            true => counted.written += 1,
            false => counted.left_out += 1,
        }
        drop(kinds);
        for (counted, user, count) in silent {
            let count = grouped(count);
            let text = format_args!("`{user}`: {count} more of `{counted}` were left out");
            self.write(Level::Warn, kind.target, text, "");
        }
        if is_written {
            let more = match left_out {
                0 => String::new(),
                count if kind.user.is_empty() => format!(" ({count} more like it were left out)"),
                count => {
                    format!(" ({count} more like it of `{}` were left out)", printable(kind.user))
                }
            };
            self.write(level, kind.target, message, &more);
        }
    }

    /// Writes a message, and behind it a text of ours.
    fn write(&self, level: Level, target: &str, message: fmt::Arguments<'_>, more: &str) {
        if level < self.levels.read().unwrap_or_else(PoisonError::into_inner).of(target) {
            return;
        }
        let level = match level {
            Level::Info => " INFO",
            Level::Warn | Level::Off => " WARN",
        };
        let now = timestamp(self.clock.now_micros());
        let message = message.to_string();
        let shown = shortened(&message, MESSAGE_BYTES);
        let cut = if shown.len() < message.len() { "..." } else { "" };
        let message = printable(shown); // log-3
        self.queue.push(format!("{now} {level} {target}: {message}{cut}{more}\n"));
    }
}

/// Removes the counts of users whose second is over, but not that of this key. Returns the kind,
/// the user and the number of those that suppressed messages (log-4).
fn silent(
    kinds: &mut Kinds,
    key: &(&'static str, String),
    now: u64,
) -> Vec<(&'static str, String, u64)> {
    let is_over = |it: &(&'static str, String), kind: &mut Kind| {
        !it.1.is_empty() && it != key && kind.start + SECOND_NANOS <= now
    };
    let over = kinds.extract_if(is_over).filter(|(_, kind)| 0 < kind.left_out);
    let mut over = over.map(|((kind, user), it)| (kind, user, it.left_out)).collect::<Vec<_>>();
    over.sort();
    over
}

/// Returns at most this many bytes of a text, cut between characters.
pub(crate) fn shortened(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The kind by which lines are counted, and the target that they are written with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogKind<'a> {
    target: &'static str,
    counted: &'static str,
    /// The user, if lines are counted for each; else empty.
    user: &'a str,
}

impl<'a> LogKind<'a> {
    /// Returns a kind of lines that are counted for each user (log-4). Without a login, all clients
    /// are one user.
    pub(crate) fn of_user(
        target: &'static str,
        counted: &'static str,
        user: Option<&'a str>,
    ) -> LogKind<'a> {
        LogKind { target, counted, user: user.unwrap_or_default() }
    }
}

impl From<&'static str> for LogKind<'_> {
    fn from(target: &'static str) -> Self {
        LogKind { target, counted: target, user: "" }
    }
}

/// A target with several kinds of lines, which are counted apart.
impl From<(&'static str, &'static str)> for LogKind<'_> {
    fn from(kind: (&'static str, &'static str)) -> Self {
        LogKind { target: kind.0, counted: kind.1, user: "" }
    }
}

/// Formats `1,234`.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups = groups.map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}

/// Formats ISO 8601, in UTC.
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

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Returns the lines written so far.
    fn written(log: &Log, lines: &Receiver<String>) -> Vec<String> {
        assert!(log.flush(TIMEOUT));
        lines.try_iter().collect()
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
        log.info("http", format_args!("a\nb\u{1b}[31m"));
        let expected = "2025-03-01T09:00:00.000001Z  INFO http: a\\nb\\u{1b}[31m\n";
        assert_eq!(written(&log, &lines).concat(), expected, "log-3");
    }

    #[test]
    fn targets_have_levels_of_their_own() {
        let (_, log, lines) = log();
        log.set_levels(LogLevels::parse("warn, audit=info,http=off").unwrap());
        for target in ["audit", "http", "pg"] {
            log.info(target, format_args!("info"));
            log.warn(target, format_args!("warn"));
        }
        let logged = written(&log, &lines);
        let logged = logged.iter().map(|line| line[28..].trim().to_owned()).collect::<Vec<_>>();
        assert_eq!(logged, ["INFO audit: info", "WARN audit: warn", "WARN pg: warn"]);
        assert_eq!(LogLevels::parse("warn,a=info").unwrap().to_string(), "warn,a=info");
        for bad in ["", "loud", "a=loud", "=info", "info,"] {
            assert_eq!(LogLevels::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn repeated_lines_are_counted() {
        let (clock, log, lines) = log();
        for _ in 0..25 {
            log.warn_limited("ilp", format_args!("bad line"));
        }
        log.info_limited(("ilp", "another kind"), format_args!("it is not hidden"));
        assert_eq!(written(&log, &lines).len(), 11, "log-1");
        clock.advance_micros(1_000_000);
        log.warn_limited("ilp", format_args!("bad line"));
        let line = written(&log, &lines).concat();
        assert!(line.ends_with("bad line (15 more like it were left out)\n"), "log-1: {line}");
    }

    // A reader that repeated a refused statement a thousand times a second hid the refused ones of
    // all other users, and statements of administrators that failed.
    #[test]
    fn lines_of_a_user_do_not_hide_those_of_others() {
        let (clock, log, lines) = log();
        let refused = |user: &'static str| {
            let kind = LogKind::of_user("audit", "statement failed", Some(user));
            log.warn_limited(kind, format_args!("`{user}`: refused"));
        };
        for _ in 0..1_300 {
            refused("rob");
            log.info("audit", format_args!("`admin`: CREATE TABLE t (a INT)"));
        }
        (0..10).for_each(|_| refused("ron"));
        let logged = written(&log, &lines);
        let count = |text: &str| logged.iter().filter(|line| line.contains(text)).count();
        assert_eq!((count("`rob`"), count("`ron`"), count("`admin`")), (10, 10, 1_300), "log-4");
        clock.advance_micros(1_000_000);
        refused("ron");
        let logged = written(&log, &lines).concat();
        assert!(
            logged.contains("`rob`: 1,290 more of `statement failed` were left out\n"),
            "log-4: {logged}"
        );
        for _ in 0..12 {
            refused("ron");
        }
        clock.advance_micros(1_000_000);
        refused("ron");
        let line = written(&log, &lines).pop().unwrap();
        assert!(
            line.ends_with("`ron`: refused (3 more like it of `ron` were left out)\n"),
            "log-4: {line}"
        );
    }

    /// A writer that blocks until it is told to continue.
    struct Blocked(Receiver<()>, Sender<String>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // Without the sender, everything is written.
            let _ = self.0.recv();
            let _ = self.1.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    // Lines were written under a lock by the thread that logged them: a pipe that was not read
    // stopped logins after 763 lines, then changes of tables, and SIGTERM did not end the server.
    #[test]
    fn a_log_that_is_not_read_stops_nothing_and_counts_what_is_lost() {
        let (go_on, told) = channel();
        let (sender, lines) = channel();
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new(0));
        let log = Log::new(clock, Box::new(Blocked(told, sender)));
        let text = "x".repeat(1_000);
        let count = 3 * limits::LOG_QUEUE_BYTES / 1_000;
        for number in 0..count {
            log.info("pg", format_args!("{number} {text}"));
        }
        assert!(!log.flush(Duration::ZERO), "log-2");
        let dropped = log.dropped();
        assert!(0 < dropped && dropped < count as u64, "log-2: {dropped}");
        drop(go_on);
        let logged = written(&log, &lines);
        assert_eq!(logged.len() as u64, count as u64 - dropped + 1, "log-2");
        let last = format!(" WARN log: {} log lines dropped\n", grouped(dropped));
        assert!(logged.last().unwrap().ends_with(&last), "log-2: {:?}", logged.last());
        assert_eq!((grouped(7), grouped(1_234), grouped(123_456)), texts());
    }

    fn texts() -> (String, String, String) {
        ("7".to_owned(), "1,234".to_owned(), "123,456".to_owned())
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened("a\u{e9}b", 2), "a");
        assert_eq!(shortened("a\u{e9}b", 3), "a\u{e9}");
        assert_eq!(shortened("ab", 5), "ab");
    }
}
