//! What is shown while an import runs: a bar for people, JSON lines for programs.
//!
//! - U1. A bar is one line, never wider than the terminal, and leaves nothing behind.
//! - U2. `json` writes one object a line about once a second, and a last one when all is over.
//!
//! Samples become text in pure functions; the thread that polls and writes is at the end.
//! Not here: the counting, which is `ingest::Progress`.

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

/// What `--progress` says.
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

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawing {
    Bar,
    Json,
    Nothing,
}

/// How a piece of work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Failed,
    Interrupted,
}

/// A sample, and what follows from it and those before it.
#[derive(Clone, Copy, Debug)]
struct Moment {
    sample: ProgressSample,
    elapsed_ms: u64,
    rows_per_second: u64,
    bytes_per_second: u64,
    eta_seconds: Option<u64>,
}

impl ProgressStyle {
    /// What it means here. A bar is for terminals only.
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

/// Runs `work` and shows its progress meanwhile; `ending_of` says how it went.
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
        // A panic in it is a defect, but none that should cost the import.
        let _ = screen.join();
        result
    })
}

/// Ends the drawing; also when `work` panics, since then the channel closes.
struct Stopper(Sender<Ending>);

impl Stopper {
    fn stop(self, ending: Ending) {
        // If the drawing is gone already, nobody needs to know.
        let _ = self.0.send(ending);
    }
}

/// The thin shell: time and standard error.
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

/// Whoever closed stderr does not want to see it.
fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// U2.
fn json_line(moment: &Moment, status: &str) -> String {
    let optional = |number: Option<u64>| number.map_or("null".to_owned(), |n| n.to_string());
    let sample = &moment.sample;
    format!(
        concat!(
            r#"{{"status":"{}","phase":"{}","elapsed_ms":{},"bytes_read":{},"bytes_total":{},"#,
            r#""rows_read":{},"rows_sealed":{},"rows_rejected":{},"rows_per_second":{},"#,
            r#""bytes_per_second":{},"eta_seconds":{},"memory_bytes":{},"spilled_bytes":{}}}"#,
            "\n"
        ),
        status,
        phase_name(sample.phase),
        moment.elapsed_ms,
        sample.bytes_read,
        optional(sample.bytes_total),
        sample.rows_read,
        sample.rows_sealed,
        sample.rows_rejected,
        moment.rows_per_second,
        moment.bytes_per_second,
        optional(moment.eta_seconds),
        sample.memory_bytes,
        sample.spilled_bytes,
    )
}

/// One lower-case word.
pub(crate) fn phase_name(phase: Phase) -> String {
    phase.to_string().to_lowercase()
}
