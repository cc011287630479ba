//! Log tables of jobs: `sys.text_import_log` and `sys.copy_rejects`.
//!
//! - copy_log-1. No job fails because its log cannot be written; the server's log reports that.
//! - A phase that begins and ends between two polls gets its rows all the same.
//! - copy_log-2. At most `copy.reject_rows_per_job` rejects of a job are kept, and one more row
//!   says that there were more.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::error::ArrowError;
use futures::StreamExt;
use tidegate_ingest::Phase;
use tidegate_ingest::reject::{Action, Reject, RejectPlace, TakeRejects};
use tidegate_model::Ttl;
use tidegate_platform::sentence;
use tidegate_query::{Answer, Engine};
use tidegate_storage::{Database, TableAppend};

use super::Inner;
use super::error::CopyError;
use super::job::{Ended, Job, STOPPED, phase_name, status};
use crate::log::{Log, shortened};
use crate::system_rows::{self, counts, symbols, texts, times};

/// The table of events, in order.
const LOG: &str = "sys.text_import_log";
/// The table of rejects.
const REJECTS: &str = "sys.copy_rejects";

/// The interval at which the progress of a job is polled.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// The microseconds after which the rates are computed anew.
const RATES: i64 = 1_000_000;
/// The most bytes of a reason that are kept.
const REASON_BYTES: usize = 1 << 10;

/// The writer of both tables.
#[derive(Debug)]
pub(super) struct CopyLog {
    database: Arc<Database>,
    retention: Option<Ttl>,
    log: Option<Arc<Log>>,
}

/// A row of the log.
#[derive(Clone, Debug)]
struct LogRow {
    ts: i64,
    phase: Option<&'static str>,
    status: &'static str,
    message: Option<String>,
    counters: Option<[u64; 3]>,
}

impl CopyLog {
    pub(super) fn new(
        database: &Arc<Database>,
        retention: Option<Ttl>,
        log: Option<Arc<Log>>,
    ) -> CopyLog {
        CopyLog { database: Arc::clone(database), retention, log }
    }

    pub(super) fn queued(&self, job: &Job) {
        self.write(job, &[self.row(None, "queued")]);
    }

    pub(super) fn started(&self, job: &Job) {
        self.write(job, &[self.row(None, "started")]);
    }

    /// The last row of a job.
    pub(super) fn ended(&self, job: &Job, outcome: &Result<Arc<Ended>, CopyError>) {
        let mut row = self.row(None, status(outcome));
        let sample = job.progress().sample();
        row.message = Some(match outcome {
            Ok(ended) => ended.message.clone(),
            Err(error) => error.cause.message.clone(),
        });
        row.counters = Some(match outcome {
            Ok(ended) => {
                let it = &ended.outcome;
                [it.rows_handled, it.rows_imported, it.errors]
            }
            Err(_) => [job.rows_handled(), 0, sample.rows_rejected],
        });
        self.write(job, &[row]);
    }

    /// Follows the phases of an import until its sender is dropped at the end.
    pub(super) fn watch(&self, job: &Job, rejects: &Rejects, over: &Receiver<()>) {
        let mut phase = Phase::Setup;
        let mut rates = Rates { since: self.database.now_micros(), rows: 0, bytes: 0 };
        // One commit for both rows, beside the import's work.
        self.write(job, &[self.row(None, "started"), self.row(Some(phase_name(phase)), "started")]);
        loop {
            let over = !matches!(over.recv_timeout(CHECK_INTERVAL), Err(RecvTimeoutError::Timeout));
            let now = job.progress().sample().phase;
            let mut rows = Vec::new();
            while let Some(next) = following(phase).filter(|&next| next as u8 <= now as u8) {
                rows.push(self.row(Some(phase_name(phase)), "finished"));
                if next != Phase::Done {
                    rows.push(self.row(Some(phase_name(next)), "started"));
                }
                phase = next;
            }
            if over && phase != Phase::Done {
                let status = if job.is_stopped() { "cancelled" } else { "failed" };
                rows.push(self.row(Some(phase_name(phase)), status));
            }
            self.write(job, &rows);
            rejects.flush(self);
            if over {
                return;
            }
            rates.count(job, self.database.now_micros());
        }
    }

    fn row(&self, phase: Option<&'static str>, status: &'static str) -> LogRow {
        let ts = self.database.now_micros();
        LogRow { ts, phase, status, message: None, counters: None }
    }

    fn write(&self, job: &Job, rows: &[LogRow]) {
        if rows.is_empty() {
            return;
        }
        let sample = job.progress().sample();
        let count = |at: usize| rows.iter().map(move |row| Some(row.counters?[at]));
        let same = |text| rows.iter().map(move |_| Some(text));
        let elapsed = |row: &LogRow| {
            let micros = u64::try_from(row.ts - job.since).unwrap_or(0);
            Some(micros / 1_000)
        };
        let user = job.session.origin().user.as_deref();
        let columns = vec![
            times(rows.iter().map(|row| row.ts)),
            texts("id", same(job.id.as_str())),
            symbols("table_name", same(job.table.as_str())),
            symbols("file", same(job.file.as_str())),
            symbols("phase", rows.iter().map(|row| row.phase)),
            symbols("status", rows.iter().map(|row| Some(row.status))),
            texts("message", rows.iter().map(|row| row.message.as_deref())),
            counts("rows_handled", count(0)),
            counts("rows_imported", count(1)),
            counts("errors", count(2)),
            symbols("table", same(job.table.as_str())),
            counts("bytes_read", rows.iter().map(|_| Some(sample.bytes_read))),
            counts("bytes_total", rows.iter().map(|_| sample.bytes_total)),
            counts("elapsed_ms", rows.iter().map(elapsed)),
            symbols("user_name", rows.iter().map(|_| user)),
        ];
        self.append(&system_rows::append(LOG, rows.len(), columns));
    }

    /// Appends rows; a failure goes to the server's log (copy_log-1).
    fn append(&self, append: &TableAppend) {
        let written =
            system_rows::write(&self.database, std::slice::from_ref(append), self.retention);
        if let (Err(error), Some(log)) = (written, &self.log) {
            let (table, error) = (&append.table, sentence(&error));
            log.warn_limited("copy", format_args!("rows may not be in {table}: {error}"));
        }
    }
}

/// Returns the phase after this one.
fn following(phase: Phase) -> Option<Phase> {
    match phase {
        Phase::Setup => Some(Phase::Read),
        Phase::Read => Some(Phase::Build),
        Phase::Build => Some(Phase::Commit),
        Phase::Commit => Some(Phase::Done),
        Phase::Done => None,
    }
}

/// The rates of a job, as of the last second.
struct Rates {
    /// The start of the second, in microseconds since 1970.
    since: i64,
    rows: u64,
    bytes: u64,
}

impl Rates {
    fn count(&mut self, job: &Job, now: i64) {
        let elapsed = now - self.since;
        if elapsed < RATES {
            return;
        }
        let (rows, bytes) = (job.rows_handled(), job.progress().sample().bytes_read);
        let micros = elapsed.unsigned_abs();
        let rate = |now: u64, before: u64| now.saturating_sub(before) * 1_000_000 / micros;
        job.rates.0.store(rate(rows, self.rows), Relaxed);
        job.rates.1.store(rate(bytes, self.bytes), Relaxed);
        (self.since, self.rows, self.bytes) = (now, rows, bytes);
    }
}

/// The rejects of a job that are not yet in the table.
#[derive(Debug)]
pub(super) struct Rejects {
    job: Arc<Job>,
    database: Arc<Database>,
    rows_max: usize,
    raw_bytes: usize,
    state: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    rows: Vec<RejectRow>,
    /// The number of rejects that are or were in `rows`.
    recorded: usize,
    is_full: bool,
}

#[derive(Debug, Default)]
struct RejectRow {
    ts: i64,
    file: String,
    line: Option<u64>,
    byte: Option<u64>,
    column: Option<String>,
    raw: Option<String>,
    reason: String,
    action: Option<&'static str>,
}

impl Rejects {
    pub(super) fn new(inner: &Inner, job: &Arc<Job>) -> Arc<Rejects> {
        Arc::new(Rejects {
            job: Arc::clone(job),
            database: Arc::clone(&inner.database),
            rows_max: inner.config.reject_rows_per_job,
            raw_bytes: inner.config.reject_raw_bytes,
            state: Mutex::default(),
        })
    }

    /// Writes the rejects that wait.
    pub(super) fn flush(&self, log: &CopyLog) {
        let rows = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut state.rows)
        };
        if !rows.is_empty() {
            log.append(&reject_rows(&self.job, &rows));
        }
    }
}

impl TakeRejects for Rejects {
    fn name(&self) -> &str {
        REJECTS
    }

    fn take(&self, reject: &Reject<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_full {
            return;
        }
        let (ts, file) = (self.database.now_micros(), reject.file.to_owned());
        if self.rows_max <= state.recorded {
            // One row for all further rejects (copy_log-2).
            state.is_full = true;
            let reason = "further rejects not recorded".to_owned();
            state.rows.push(RejectRow { ts, file, reason, ..RejectRow::default() });
            return;
        }
        state.recorded += 1;
        let (line, byte) = match reject.place {
            RejectPlace::Line { line, byte } => (Some(line), Some(byte)),
            RejectPlace::Row(row) => (Some(row), None),
        };
        let raw = String::from_utf8_lossy(&reject.text[..reject.text.len().min(self.raw_bytes)]);
        let reason = match reject.lines {
            0 | 1 => reject.reason.to_string(),
            lines => format!("{} ({lines} lines)", reject.reason),
        };
        state.rows.push(RejectRow {
            ts,
            file,
            line,
            byte,
            column: reject.column.map(str::to_owned),
            raw: Some(shortened(&raw, self.raw_bytes).to_owned()),
            reason: shortened(&reason, REASON_BYTES).to_owned(),
            action: Some(match reject.action {
                Action::RowSkipped => "row_skipped",
                Action::CellNulled => "column_nulled",
                Action::Aborted => "aborted",
            }),
        });
    }
}

fn reject_rows(job: &Job, rows: &[RejectRow]) -> TableAppend {
    let columns = vec![
        times(rows.iter().map(|row| row.ts)),
        texts("id", rows.iter().map(|_| Some(job.id.as_str()))),
        symbols("table_name", rows.iter().map(|_| Some(job.table.as_str()))),
        symbols("file", rows.iter().map(|row| Some(row.file.as_str()))),
        counts("line", rows.iter().map(|row| row.line)),
        counts("byte_offset", rows.iter().map(|row| row.byte)),
        symbols("column_name", rows.iter().map(|row| row.column.as_deref())),
        texts("raw", rows.iter().map(|row| row.raw.as_deref())),
        texts("reason", rows.iter().map(|row| Some(row.reason.as_str()))),
        symbols("action", rows.iter().map(|row| row.action)),
    ];
    system_rows::append(REJECTS, rows.len(), columns)
}

/// Writes the last row of jobs that have other rows, but no last one (server_copy-2).
pub(super) async fn log_interrupted_jobs(
    log: &CopyLog,
    engine: &Engine,
) -> tidegate_query::Result<()> {
    if log.database.schema_of(LOG).is_none() {
        return Ok(());
    }
    let sql = "SELECT id, table_name, file, status FROM sys.text_import_log \
               WHERE phase IS NULL LATEST ON ts PARTITION BY id";
    let Answer::Rows { mut stream, .. } = engine.execute(sql).await? else { return Ok(()) };
    let mut left = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        let texts = batch.columns().iter().map(|column| {
            let column = crate::value_text::plain(column)?;
            arrow::compute::cast(&column, &arrow::datatypes::DataType::Utf8)
        });
        let texts = texts.collect::<Result<Vec<_>, ArrowError>>();
        let texts = texts.expect("texts and symbols are texts");
        let at = |column: usize, row: usize| {
            let values = texts[column].as_string::<i32>();
            if values.is_null(row) { String::new() } else { values.value(row).to_owned() }
        };
        for row in 0..batch.num_rows() {
            if matches!(at(3, row).as_str(), "queued" | "started") {
                left.push([at(0, row), at(1, row), at(2, row)]);
            }
        }
    }
    drop(stream);
    if left.is_empty() {
        return Ok(());
    }
    let now = log.database.now_micros();
    let text = |at: usize| left.iter().map(move |row| Some(row[at].as_str()));
    let same = |text| left.iter().map(move |_| Some(text));
    let columns = vec![
        times(left.iter().map(|_| now)),
        texts("id", text(0)),
        symbols("table_name", text(1)),
        symbols("file", text(2)),
        symbols("status", same("failed")),
        texts("message", same(STOPPED)),
        symbols("table", text(1)),
    ];
    log.append(&system_rows::append(LOG, left.len(), columns));
    Ok(())
}
