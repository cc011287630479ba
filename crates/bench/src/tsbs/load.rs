//! Loading: rows from files, a stream or the simulation into a database, over its own protocol.
//!
//! - load-1. Three counts are kept apart: rows handed to the network, rows that the target
//!   acknowledged, and rows that a query has seen. No rate mixes them, and a count that is not
//!   known is not shown.
//! - load-2. The counts are printed after a failure too, because some rows have gone in.
//!
//! `source` brings complete rows to workers, `worker` cuts and paces them, a `target` sends them
//! and counts the rows that can be read, `report` prints the results in the lines of TSBS.

mod args;
mod rows;
mod shift;
mod source;
mod target;
mod worker;
mod route;
mod report;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

pub use self::args::LoadArguments;

use self::args::SplitArgument;
use self::report::{Outcome, Reporter};
use self::rows::{Header, RowLayout, Tally};
use self::shift::{Shift, parse_shift};
use self::source::{Appended, Reader, Source};
use self::target::{Target, connect_target};
use self::worker::{Pace, Worker};
use super::args::simulated;
use super::format::Cursor;
use super::options::Options;
use super::pipeline::lock;
use crate::error::{Error, Result};

/// Interval between two counts of the readable rows.
const POLL: Duration = Duration::from_millis(100);
/// Measurements of TSBS: their rows are counted before a load, so that earlier rows are not counted
/// as loaded.
const MEASUREMENTS: [&str; 12] = [
    "cpu",
    "diskio",
    "disk",
    "kernel",
    "mem",
    "net",
    "nginx",
    "postgresl",
    "redis",
    "readings",
    "diagnostics",
    "generic_metrics",
];

/// State that all threads of a load share.
struct Load<'a> {
    arguments: &'a LoadArguments,
    target: &'a dyn Target,
    source: &'a Source,
    pace: Pace,
    shift: Option<Shift>,
    counts: Counts,
    /// Rows that workers had left at the end, and the number of these workers: see `leave_rest`.
    rests: Mutex<(Vec<u8>, usize)>,
    /// True after a worker has failed: the others stop.
    is_over: AtomicBool,
}

/// The counts (load-1).
#[derive(Default)]
struct Counts {
    /// Rows that workers have taken from the source.
    taken_rows: AtomicU64,
    sent_rows: AtomicU64,
    sent_bytes: AtomicU64,
    acked_rows: AtomicU64,
    /// Fields of the rows taken.
    metrics: AtomicU64,
    /// Time that all workers together took to read or generate rows.
    source_nanos: AtomicU64,
    /// Rows sent to each table.
    tables: Mutex<Tally>,
}

/// Runs the command `tidegate-bench tsbs load`.
pub(crate) fn run_load(arguments: &LoadArguments) -> Result<()> {
    let target = connect_target(arguments)?;
    let pace = Pace::new(arguments)?;
    let simulation = arguments.generate.then(|| simulated(&arguments.simulation)).transpose()?;
    let (source, header) = open_source(arguments, simulation.as_ref(), target.layout())?;
    let shift = shift_of(arguments, simulation.as_ref(), target.layout())?;
    let before = if arguments.do_load {
        target.prepare(header.as_ref())?;
        count_before(arguments, target.as_ref())?
    } else {
        BTreeMap::new()
    };
    let load = Load {
        arguments,
        target: target.as_ref(),
        source: &source,
        pace,
        shift,
        counts: Counts::default(),
        rests: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    let started = SystemTime::now();
    let start = Instant::now();
    let sent = load.run(&Reporter::new(arguments.reporting_period, start));
    let seconds = start.elapsed().as_secs_f64();
    let mut outcome = load.outcome(started, seconds);
    outcome.seed = simulation.map(|options| options.seed);
    let visible = match (&sent, arguments.do_load) {
        (Ok(()), true) => load.wait_until_readable(&before, start, &mut outcome),
        _ => load.count_readable(&before, &mut outcome),
    };
    let counted = if sent.is_ok() { load.count_metrics_again(&mut outcome) } else { Ok(()) };
    // The counts are printed after a failure too (load-2), and the first error is the one reported.
    let told = report::print(&outcome, arguments);
    let written = match &arguments.results_file {
        Some(path) => report::write_results(path, &outcome, arguments),
        None => Ok(()),
    };
    sent.and(visible).and(counted).and(told).and(written)
}

/// Opens the source of the rows: a simulation, files, or standard input.
fn open_source(
    arguments: &LoadArguments,
    simulation: Option<&Options>,
    layout: RowLayout,
) -> Result<(Source, Option<Header>)> {
    let (mut source, header) = match simulation {
        Some(options) => Source::generated(options, layout, arguments.limit),
        None if arguments.file.is_empty() => {
            Source::from_stream(Box::new(io::stdin()), layout, arguments.limit)
        }
        None => Source::from_files(&arguments.file, layout, arguments.limit),
    }?;
    if arguments.split == SplitArgument::Contiguous && !source.split_evenly(arguments.workers.get())
    {
        return Err(Error::CannotSplit);
    }
    Ok((source, header))
}

/// Returns the shift of the timestamps, if there is one.
fn shift_of(
    arguments: &LoadArguments,
    simulation: Option<&Options>,
    layout: RowLayout,
) -> Result<Option<Shift>> {
    let Some(text) = &arguments.shift else { return Ok(None) };
    let shift = parse_shift(text)?.shift(|| {
        if let Some(options) = simulation {
            let last = i64::try_from(options.epochs().saturating_sub(1) * options.interval.get());
            return Ok(options.start.0.saturating_add(last.unwrap_or(i64::MAX)));
        }
        let file = arguments.file.last().ok_or(Error::NowNeedsFile)?;
        source::last_timestamp(file, layout)
    });
    shift.map(Some)
}

/// Counts the rows that exist before the load. With `--do-abort-on-exist` there may be none: a
/// target without databases of its own has nothing else that could exist.
fn count_before(arguments: &LoadArguments, target: &dyn Target) -> Result<BTreeMap<String, u64>> {
    let mut before = BTreeMap::new();
    for table in MEASUREMENTS {
        let Some(rows) = target.count(table)? else { break };
        if arguments.do_abort_on_exist && rows != 0 {
            return Err(Error::HasRows { target: target.place(), table, rows });
        }
        before.insert(table.to_owned(), rows);
    }
    Ok(before)
}

impl Load<'_> {
    /// Sends all rows; returns when all connections are closed.
    fn run(&self, reporter: &Reporter) -> Result<()> {
        let failure = Mutex::new(Ok(()));
        let fail = |error: Error| {
            self.is_over.store(true, Relaxed);
            let mut failure = lock(&failure);
            if failure.is_ok() {
                *failure = Err(error);
            }
        };
        let is_done = AtomicBool::new(false);
        let panicked = thread::scope(|scope| {
            let (routes, queues) = route::queues(self);
            let mut threads = Vec::new();
            for (number, queue) in queues.into_iter().enumerate() {
                let worker = Worker::new(self, number, queue);
                threads.push(scope.spawn(|| worker.work().unwrap_or_else(fail)));
            }
            if let Some(routes) = routes {
                threads.push(scope.spawn(|| route::route(self, routes).unwrap_or_else(fail)));
            }
            let reporting = scope.spawn(|| reporter.report(&self.counts, &is_done));
            let panicked = threads.into_iter().any(|thread| thread.join().is_err());
            is_done.store(true, Relaxed);
            panicked | reporting.join().is_err()
        });
        if panicked {
            return Err(Error::Panicked);
        }
        failure.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends some rows, with shifted timestamps if a shift is set.
    fn append(&self, reader: &mut Reader, buffer: &mut Cursor) -> Result<Appended> {
        let before = buffer.written().len();
        let appended = self.source.append(reader, buffer)?;
        if let Some(shift) = self.shift {
            let layout = self.target.layout();
            let text = &mut buffer.written_mut()[before..];
            shift.apply(layout, text).map_err(|row| Error::CannotShift {
                place: self.source.place(),
                row: first_line(&text[row.offset..]),
            })?;
        }
        Ok(appended)
    }

    /// Leaves the rows that do not fill a batch to the last worker, whose buffer then holds the
    /// rest of all workers.
    fn leave_rest(&self, buffer: &mut Cursor) {
        let mut rests = lock(&self.rests);
        rests.0.extend_from_slice(buffer.written());
        rests.1 += 1;
        buffer.clear();
        if rests.1 == self.arguments.workers.get() {
            buffer.make_room(rests.0.len());
            buffer.put(&rests.0);
        }
    }

    fn outcome(&self, started: SystemTime, seconds: f64) -> Outcome {
        let counts = &self.counts;
        let acks = self.target.acknowledges() && self.arguments.do_load;
        let acked_rows = counts.acked_rows.load(Relaxed);
        Outcome {
            target: self.arguments.target.name(),
            started,
            seconds,
            workers: self.arguments.workers.get(),
            faithful: self.arguments.faithful,
            seed: None,
            taken_rows: counts.taken_rows.load(Relaxed),
            // Some rows of a failed batch may be acknowledged: those were sent.
            sent_rows: counts.sent_rows.load(Relaxed).max(acked_rows),
            sent_bytes: counts.sent_bytes.load(Relaxed),
            metrics: counts.metrics.load(Relaxed),
            acked_rows: acks.then_some(acked_rows),
            source_seconds: counts.source_nanos.load(Relaxed) as f64 / 1e9,
            waited_seconds: self.target.waited().as_secs_f64(),
            readable: None,
        }
    }

    /// Counts the loaded rows that a query sees now; `None` if the target cannot be queried.
    fn readable(&self, before: &BTreeMap<String, u64>) -> Result<Option<u64>> {
        let mut rows = 0;
        let tables = lock(&self.counts.tables).tables.clone();
        for (name, _) in tables {
            let Some(count) = self.target.count(&name)? else { return Ok(None) };
            rows += count.saturating_sub(before.get(&name).copied().unwrap_or(0));
        }
        Ok((!before.is_empty()).then_some(rows))
    }

    /// Counts once after a failure; if that fails too, it is not a further error.
    fn count_readable(&self, before: &BTreeMap<String, u64>, outcome: &mut Outcome) -> Result<()> {
        if self.arguments.do_load
            && let Ok(Some(rows)) = self.readable(before)
        {
            outcome.readable = Some((rows, f64::NAN));
        }
        Ok(())
    }

    /// Counts until all rows are readable, or none was added for `--wait`.
    fn wait_until_readable(
        &self,
        before: &BTreeMap<String, u64>,
        start: Instant,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let wait = self.arguments.wait;
        let expected = outcome.expected();
        let mut changed = Instant::now();
        loop {
            let Some(rows) = self.readable(before)? else { return Ok(()) };
            if outcome.readable.is_none_or(|(last, _)| last != rows) {
                changed = Instant::now();
                outcome.readable = Some((rows, start.elapsed().as_secs_f64()));
            }
            if expected <= rows {
                return Ok(());
            }
            if wait <= changed.elapsed() {
                return Err(Error::Shortfall {
                    target: self.target.place(),
                    visible: rows,
                    expected,
                    wait,
                });
            }
            thread::sleep(POLL.min(wait));
        }
    }

    /// Counts the fields of files after a load into a sink: during the timed load no row is parsed.
    fn count_metrics_again(&self, outcome: &mut Outcome) -> Result<()> {
        if self.looks_into_rows() || outcome.metrics != 0 || self.arguments.limit != 0 {
            return Ok(());
        }
        if !matches!(self.source, Source::Files(_)) {
            return Ok(());
        }
        let layout = self.target.layout();
        let (source, _) = Source::from_files(&self.arguments.file, layout, 0)?;
        outcome.metrics = worker::count_metrics(&source, layout)?;
        Ok(())
    }

    /// Returns true if tables and fields are counted during the load.
    fn looks_into_rows(&self) -> bool {
        self.target.keeps_rows() || !self.arguments.do_load || self.arguments.hash_workers
    }
}

/// Returns the first line of a row, cut for a message.
fn first_line(text: &[u8]) -> String {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(line).chars().take(80).collect()
}
