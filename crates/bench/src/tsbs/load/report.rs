//! The report of a load: the lines of TSBS, which other programs parse, the counts of sent,
//! acknowledged and readable rows (load-1), and the results file in JSON.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{Counts, LoadArguments};
use crate::error::{Error, Result};
use crate::tsbs::output::say;

/// The results of a load.
pub(crate) struct Outcome {
    pub(crate) target: &'static str,
    pub(crate) started: SystemTime,
    /// Time until all connections were closed.
    pub(crate) seconds: f64,
    pub(crate) workers: usize,
    /// True if the summary counts sent rows, as in TSBS.
    pub(crate) faithful: bool,
    /// Seed of generated rows: the given one, or one taken from the clock.
    pub(crate) seed: Option<i64>,
    /// Rows that workers have taken from the source.
    pub(crate) taken_rows: u64,
    pub(crate) sent_rows: u64,
    pub(crate) sent_bytes: u64,
    /// Fields of the rows taken.
    pub(crate) metrics: u64,
    /// Acknowledged rows; `None` if the protocol has no acknowledgement.
    pub(crate) acked_rows: Option<u64>,
    /// Time that all workers together took to read or generate rows.
    pub(crate) source_seconds: f64,
    /// Time that connections waited because the target asked for a delay.
    pub(crate) waited_seconds: f64,
    /// Rows that a query saw, and the seconds until then; `None` if the target cannot be queried.
    pub(crate) readable: Option<(u64, f64)>,
}

impl Outcome {
    /// Returns the rows and the seconds of the summary lines: acknowledged rows, otherwise
    /// readable, otherwise sent ones; with `--faithful` always sent rows, as in TSBS.
    fn summary_rows(&self) -> (u64, f64) {
        if self.faithful {
            return (self.sent_rows, self.seconds);
        }
        match (self.acked_rows, self.readable) {
            (Some(rows), _) => (rows, self.seconds),
            (None, Some((rows, seconds))) if seconds.is_finite() => (rows, seconds),
            (None, Some((rows, _))) => (rows, self.seconds),
            (None, None) => (self.sent_rows, self.seconds),
        }
    }

    /// Returns the number of rows that should be readable in the end.
    pub(crate) fn expected(&self) -> u64 {
        self.acked_rows.unwrap_or(self.sent_rows)
    }

    /// Returns the rows per second that the workers would have reached without sending.
    fn source_rate(&self) -> f64 {
        self.sent_rows as f64 * self.workers as f64 / self.source_seconds
    }

    /// Returns the number of metrics in this many rows: exact for all rows taken, otherwise in
    /// proportion.
    fn metrics_of(&self, rows: u64) -> u64 {
        let share =
            u128::from(self.metrics) * u128::from(rows) / u128::from(self.taken_rows.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// Prints the lines during a load.
pub(super) struct Reporter {
    period: Duration,
    start: Instant,
}

impl Reporter {
    pub(super) fn new(period: Duration, start: Instant) -> Reporter {
        Reporter { period, start }
    }

    pub(super) fn report(&self, counts: &Counts, is_done: &AtomicBool) {
        if self.period.is_zero() {
            return;
        }
        // Errors are ignored: the reader of standard output may have closed it.
        let _ = say(
            "time,per. metric/s,metric total,overall metric/s,per. row/s,row total,overall row/s",
        );
        let mut last = (self.start, 0, 0);
        while !is_done.load(Relaxed) {
            thread::sleep(Duration::from_millis(5));
            if last.0.elapsed() < self.period {
                continue;
            }
            let now = Instant::now();
            let (metrics, rows) = (counts.metrics.load(Relaxed), counts.sent_rows.load(Relaxed));
            let took = now.duration_since(last.0).as_secs_f64();
            let overall = now.duration_since(self.start).as_secs_f64();
            let metrics_now = columns(last.1, metrics, took, overall);
            let rows_now = match rows {
                0 => "-,-,-".to_owned(),
                _ => columns(last.2, rows, took, overall),
            };
            let _ = say(&format!("{},{metrics_now},{rows_now}", seconds_since_1970()));
            last = (now, metrics, rows);
        }
    }
}

/// Formats three columns: the rate since the last line, the total, and the rate over all.
fn columns(before: u64, total: u64, took: f64, overall: f64) -> String {
    let recent = total.saturating_sub(before) as f64 / took;
    format!("{recent:.2},{},{:.2}", scientific(total), total as f64 / overall)
}

/// Prints the summary.
pub(super) fn print(outcome: &Outcome, arguments: &LoadArguments) -> Result<()> {
    let (rows, seconds) = outcome.summary_rows();
    let metrics = outcome.metrics_of(rows);
    let workers = outcome.workers;
    let mean = |count: u64| count as f64 / seconds;
    say("\nSummary:")?;
    if 0 < metrics {
        say(&format!(
            "loaded {metrics} metrics in {seconds:.3}sec with {workers} workers \
             (mean rate {:.2} metrics/sec)",
            mean(metrics)
        ))?;
    }
    say(&format!(
        "loaded {rows} rows in {seconds:.3}sec with {workers} workers (mean rate {:.2} rows/sec)",
        mean(rows)
    ))?;
    let rate =
        |rows: u64, seconds: f64| format!("{rows} rows, {:.0} rows/s", rows as f64 / seconds);
    let sent = rate(outcome.sent_rows, outcome.seconds);
    let megabytes = outcome.sent_bytes as f64 / 1e6;
    let verb = if arguments.do_load { "sent" } else { "read" };
    say(&format!(
        "{verb}         {sent}, {megabytes:.1} MB, {:.1} MB/s",
        megabytes / outcome.seconds
    ))?;
    if arguments.generate && 0 < outcome.sent_rows {
        let share = 100.0 * outcome.source_seconds / (outcome.seconds * workers as f64);
        let ceiling = outcome.source_rate();
        say(&format!(
            "generated    in {share:.0} % of that time; without sending: {ceiling:.0} rows/s"
        ))?;
    }
    if 0.0 < outcome.waited_seconds {
        say(&format!("waited       {:.3} s for the target", outcome.waited_seconds))?;
    }
    if let Some(rows) = outcome.acked_rows {
        say(&format!("acknowledged {}", rate(rows, outcome.seconds)))?;
    }
    match outcome.readable {
        Some((rows, seconds)) if seconds.is_finite() => {
            let what = if rows < outcome.expected() { "the last one" } else { "all" };
            say(&format!("readable     {}, {what} after {seconds:.3} s", rate(rows, seconds)))
        }
        Some((rows, _)) => say(&format!("readable     {rows} rows so far")),
        None => Ok(()),
    }
}

/// Writes TSBS's results file, with the figures unknown to TSBS under `tidegate`.
pub(super) fn write_results(
    path: &Path,
    outcome: &Outcome,
    arguments: &LoadArguments,
) -> Result<()> {
    let (rows, seconds) = outcome.summary_rows();
    let rate = |count: u64, seconds: f64| count as f64 / seconds;
    let start = outcome.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let files: Vec<_> = arguments.file.iter().map(|path| path.display().to_string()).collect();
    let readable = outcome.readable.filter(|(_, seconds)| seconds.is_finite());
    let results = json!({
        "ResultFormatVersion": "0.1",
        "RunnerConfig": {
            "db-name": arguments.db_name,
            "batch-size": arguments.batch_size,
            "workers": arguments.workers,
            "limit": arguments.limit,
            "do-load": arguments.do_load,
            "do-create-db": arguments.do_create_db,
            "do-abort-on-exist": arguments.do_abort_on_exist,
            "reporting-period": nanos(arguments.reporting_period),
            "hash-workers": arguments.hash_workers,
            "insert-intervals": arguments.insert_intervals,
            "results-file": path.display().to_string(),
            "file": files.join(","),
            "seed": arguments.simulation.seed,
        },
        "StartTime": start.as_secs(),
        "EndTime": (start + Duration::from_secs_f64(seconds)).as_secs(),
        "DurationMillis": nanos(Duration::from_secs_f64(seconds)) / 1_000_000,
        "Totals": {
            "metricRate": rate(outcome.metrics_of(rows), seconds),
            "rowRate": rate(rows, seconds),
        },
        "tidegate": {
            "version": env!("CARGO_PKG_VERSION"),
            "target": outcome.target,
            "generated": arguments.generate,
            "seed": outcome.seed,
            "faithful": outcome.faithful,
            "sourceRowRate": outcome.source_rate(),
            "waitedSeconds": outcome.waited_seconds,
            "sentRows": outcome.sent_rows,
            "sentBytes": outcome.sent_bytes,
            "sentSeconds": outcome.seconds,
            "sentRowRate": rate(outcome.sent_rows, outcome.seconds),
            "acknowledgedRows": outcome.acked_rows,
            "readableRows": outcome.readable.map(|(rows, _)| rows),
            "readableSeconds": readable.map(|(_, seconds)| seconds),
            "readableRowRate": readable.map(|(rows, seconds)| rate(rows, seconds)),
        },
    });
    let text = serde_json::to_string_pretty(&results).expect("keys of objects are strings");
    // TSBS indents by one space.
    let lines = text.lines().map(|line| {
        let bare = line.trim_start();
        format!("{}{bare}\n", " ".repeat((line.len() - bare.len()) / 2))
    });
    let text: String = lines.collect();
    fs::write(path, text).map_err(|source| Error::Results { path: path.to_owned(), source })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Formats a number like C's `%E`: `1.247000E+07`.
fn scientific(number: u64) -> String {
    let text = format!("{:.6E}", number as f64);
    let (digits, exponent) = text.split_once('E').expect("the format has an exponent");
    format!("{digits}E+{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_acknowledged_else_readable_else_sent_rows() {
        let outcome = |acked_rows, readable, faithful| Outcome {
            target: "questdb",
            started: UNIX_EPOCH,
            seconds: 2.0,
            workers: 1,
            faithful,
            seed: None,
            taken_rows: 10,
            sent_rows: 10,
            sent_bytes: 100,
            metrics: 20,
            acked_rows,
            source_seconds: 1.0,
            waited_seconds: 0.0,
            readable,
        };
        for (acked, readable, expected) in [
            (Some(7), Some((6, 3.0)), (7, 2.0)),
            (None, Some((6, 3.0)), (6, 3.0)),
            (None, Some((6, f64::NAN)), (6, 2.0)),
            (None, None, (10, 2.0)),
        ] {
            assert_eq!(outcome(acked, readable, false).summary_rows(), expected);
            assert_eq!(outcome(acked, readable, true).summary_rows(), (10, 2.0), "as TSBS");
        }
    }

    #[test]
    fn numbers_are_written_as_tsbs_does() {
        assert_eq!(scientific(12_470_000), "1.247000E+07");
        assert_eq!(scientific(1), "1.000000E+00");
        assert_eq!(scientific(0), "0.000000E+00");
        assert_eq!(columns(2_000, 5_000, 2.0, 4.0), "1500.00,5.000000E+03,1250.00");
    }
}
