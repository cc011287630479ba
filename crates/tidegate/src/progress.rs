//! The progress of an import: a bar for people, JSON lines for programs.
//!
//! - progress-1. A bar is one line, never wider than the terminal, and leaves nothing behind.
//! - progress-2. `json` writes one object a line about once a second, and a last one at the end.
//!
//! Pure functions turn samples into text; the thread that polls and writes is at the end. Not here:
//! the counting, which is `ingest::Progress`.

mod rate;
mod bar;

use std::io::{self, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use tidegate_ingest::{Phase, Progress, ProgressSample};
use tidegate_platform::Clock;

use self::rate::Rates;
use crate::environment::{Environment, stderr_columns};

const REDRAW: Duration = Duration::from_millis(150);
const JSON_LINE: Duration = Duration::from_secs(1);

/// The values of `--progress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressStyle {
    /// A bar on a terminal, JSON elsewhere
    Auto,
    /// A line on stderr, redrawn a few times a second
    Bar,
    /// One JSON object a line on stderr, about once a second
    Json,
    /// Nothing
    None,
}

/// Kind of progress display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawing {
    Bar,
    Json,
    Nothing,
}

/// Outcome of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Failed,
    Interrupted,
}

/// A sample, with the rates and the remaining time that follow from it and from earlier samples.
#[derive(Clone, Copy, Debug)]
struct Moment {
    sample: ProgressSample,
    elapsed_ms: u64,
    rows_per_second: u64,
    bytes_per_second: u64,
    eta_seconds: Option<u64>,
}

impl ProgressStyle {
    /// Returns the display for this environment. A bar is for terminals only.
    pub(crate) fn drawing(self, environment: &Environment) -> Drawing {
        match self {
            ProgressStyle::None => Drawing::Nothing,
            ProgressStyle::Json => Drawing::Json,
            ProgressStyle::Bar | ProgressStyle::Auto if environment.stderr_is_terminal => {
                Drawing::Bar
            }
            ProgressStyle::Auto => Drawing::Json,
            ProgressStyle::Bar => Drawing::Nothing,
        }
    }
}

/// Runs `work` and shows its progress; `ending_of` maps its result to an outcome.
pub(crate) fn show_while<T>(
    drawing: Drawing,
    progress: &Progress,
    clock: &dyn Clock,
    ending_of: impl Fn(&T) -> Ending,
    work: impl FnOnce() -> T,
) -> T {
    if drawing == Drawing::Nothing {
        return work();
    }
    thread::scope(|scope| {
        let (sender, endings) = channel();
        let stopper = Stopper(sender);
        let screen = scope.spawn(move || {
            let mut screen = Screen::new(drawing, clock);
            let pause = if drawing == Drawing::Bar { REDRAW } else { JSON_LINE };
            loop {
                match endings.recv_timeout(pause) {
                    Err(RecvTimeoutError::Timeout) => screen.draw(progress.sample()),
                    Ok(ending) => return screen.end(progress.sample(), ending),
                    Err(RecvTimeoutError::Disconnected) => {
                        return screen.end(progress.sample(), Ending::Failed);
                    }
                }
            }
        });
        let result = work();
        stopper.stop(ending_of(&result));
        // A panic of the display is a defect, but it must not fail the import.
        let _ = screen.join();
        result
    })
}

/// Ends the display, also if `work` panics: the channel closes then.
struct Stopper(Sender<Ending>);

impl Stopper {
    fn stop(self, ending: Ending) {
        // The display may have ended already.
        let _ = self.0.send(ending);
    }
}

/// The shell around the pure functions: time and standard error.
struct Screen<'a> {
    drawing: Drawing,
    clock: &'a dyn Clock,
    start_nanos: u64,
    rates: Rates,
    is_drawn: bool,
}

impl<'a> Screen<'a> {
    fn new(drawing: Drawing, clock: &'a dyn Clock) -> Screen<'a> {
        let start_nanos = clock.monotonic_nanos();
        Screen { drawing, clock, start_nanos, rates: Rates::default(), is_drawn: false }
    }

    fn moment(&mut self, sample: ProgressSample) -> Moment {
        let elapsed_ms = (self.clock.monotonic_nanos() - self.start_nanos) / 1_000_000;
        self.rates.add(elapsed_ms, &sample);
        Moment {
            sample,
            elapsed_ms,
            rows_per_second: self.rates.rows_per_second(),
            bytes_per_second: self.rates.bytes_per_second(),
            eta_seconds: self.rates.eta_seconds(&sample),
        }
    }

    fn draw(&mut self, sample: ProgressSample) {
        let moment = self.moment(sample);
        match self.drawing {
            Drawing::Bar => {
                let line = bar::line(&moment, stderr_columns());
                print(&format!("\r{line}\x1b[K"));
                self.is_drawn = true;
            }
            Drawing::Json => print(&json_line(&moment, "running")),
            Drawing::Nothing => {}
        }
    }

    fn end(mut self, sample: ProgressSample, ending: Ending) {
        if self.drawing == Drawing::Json {
            let status = match ending {
                Ending::Done => "done",
                Ending::Failed => "failed",
                Ending::Interrupted => "interrupted",
            };
            print(&json_line(&self.moment(sample), status));
        } else if self.is_drawn {
            print("\r\x1b[K");
        }
    }
}

/// Writes to standard error, and ignores errors: its reader may have closed it.
fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Formats a sample as a line of JSON (progress-2).
fn json_line(moment: &Moment, status: &str) -> String {
    let optional = |number: Option<u64>| number.map_or("null".to_owned(), |n| n.to_string());
    let sample = &moment.sample;
    format!(
        concat!(
            r#"{{"status":"{}","phase":"{}","elapsed_ms":{},"bytes_read":{},"bytes_total":{},"#,
            r#""rows_read":{},"rows_written":{},"rows_rejected":{},"rows_per_second":{},"#,
            r#""bytes_per_second":{},"eta_seconds":{},"memory_bytes":{},"spilled_bytes":{}}}"#,
            "\n"
        ),
        status,
        phase_name(sample.phase),
        moment.elapsed_ms,
        sample.bytes_read,
        optional(sample.bytes_total),
        sample.rows_read,
        sample.rows_written,
        sample.rows_rejected,
        moment.rows_per_second,
        moment.bytes_per_second,
        optional(moment.eta_seconds),
        sample.memory_bytes,
        sample.spilled_bytes,
    )
}

/// Returns the name of a phase as one lower-case word.
pub(crate) fn phase_name(phase: Phase) -> String {
    phase.to_string().to_lowercase()
}
