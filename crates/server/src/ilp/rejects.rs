//! Rejected lines, stored in a table where users can query them.
//!
//! - rejects-1. A connection never waits for this: rejects that do not fit into the queue, or
//!   exceed `ilp.reject_rate`, are only counted.
//! - The table is created with the first reject, and its rows are like any others; their retention
//!   is `ilp.reject_retention`.
//!
//! Not here: counting (`metrics`), the log.

use std::sync::Arc;
use std::time::Duration;

use tidegate_ingest::line::ParseError;
use tidegate_model::Ttl;
use tidegate_platform::sentence;
use tidegate_storage::{Database, TableAppend};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::log::{Log, shortened};
use crate::metrics::Transport;
use crate::system_rows::{self, counts, symbols, texts, times};

/// The name of the table (docs/server.md).
pub(crate) const TABLE: &str = "sys.ilp_rejects";

/// The most rows that wait to be written.
const QUEUE: usize = 4_096;
/// The time for which the first of them waits for others.
const GATHER: Duration = Duration::from_millis(200);
/// The most bytes of a line that are kept.
const RAW_BYTES: usize = 1 << 10;
/// The most bytes of a reason that are kept.
const REASON_BYTES: usize = 1 << 10;

/// A rejected line.
#[derive(Clone, Debug, Default)]
pub(crate) struct RejectRow {
    pub(crate) ts: i64,
    pub(crate) source: &'static str,
    pub(crate) peer: String,
    pub(crate) table: Option<String>,
    pub(crate) line: Option<u64>,
    pub(crate) column: Option<String>,
    pub(crate) raw: Option<String>,
    pub(crate) reason: String,
    pub(crate) error_id: Option<String>,
}

impl RejectRow {
    pub(crate) fn of_parse_error(
        parse_error: &ParseError,
        transport: Transport,
        peer: &str,
        ts: i64,
    ) -> Self {
        let raw = String::from_utf8_lossy(&parse_error.raw);
        let raw = shortened(raw.trim_end_matches(['\n', '\r']), RAW_BYTES).to_owned();
        let reason = parse_error.reason.to_string();
        RejectRow {
            ts,
            source: transport.name(),
            peer: peer.to_owned(),
            table: parse_error.table.clone(),
            line: Some(parse_error.line),
            column: parse_error.column().map(str::to_owned),
            raw: Some(raw),
            reason: shortened(&reason, REASON_BYTES).to_owned(),
            error_id: None,
        }
    }
}

/// The sender of rejects to the writer.
#[derive(Clone, Debug)]
pub(crate) struct Rejects(Sender<RejectRow>);

impl Rejects {
    /// Makes the queue and its receiver, which `write` takes.
    pub(crate) fn new() -> (Rejects, Receiver<RejectRow>) {
        let (sender, rows) = channel(QUEUE);
        (Rejects(sender), rows)
    }

    /// Queues a reject, if there is room (rejects-1).
    pub(crate) fn keep(&self, row: RejectRow) {
        let _ = self.0.try_send(row);
    }
}

/// The limit of stored rejects of a connection.
#[derive(Debug)]
pub(crate) struct RejectLimit {
    per_second: u32,
    left: u32,
    since: Instant,
}

impl RejectLimit {
    pub(crate) fn new(per_second: u32, now: Instant) -> RejectLimit {
        RejectLimit { per_second, left: per_second, since: now }
    }

    /// Returns true if one more may be stored.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        if Duration::from_secs(1) <= now - self.since {
            (self.left, self.since) = (self.per_second, now);
        }
        let is_allowed = 0 < self.left;
        self.left = self.left.saturating_sub(1);
        is_allowed
    }
}

/// Writes queued rejects, until all senders are dropped.
pub(crate) async fn write(
    mut rows: Receiver<RejectRow>,
    database: Arc<Database>,
    retention: Option<Ttl>,
    log: Arc<Log>,
) {
    let mut batch = Vec::new();
    while rows.recv_many(&mut batch, QUEUE).await > 0 {
        if !rows.is_closed() && batch.len() < QUEUE / 2 {
            sleep(GATHER).await;
            while batch.len() < QUEUE
                && let Ok(row) = rows.try_recv()
            {
                batch.push(row);
            }
        }
        let (taken, database) = (std::mem::take(&mut batch), Arc::clone(&database));
        let count = taken.len();
        let outcome =
            spawn_blocking(move || system_rows::write(&database, &[append(&taken)], retention));
        if let Ok(Err(error)) = outcome.await {
            let error = sentence(&error);
            log.warn_limited("ilp", format_args!("{count} rejects may not be in {TABLE}: {error}"));
        }
    }
}

/// Makes the rows of the table.
fn append(rows: &[RejectRow]) -> TableAppend {
    let columns = vec![
        times(rows.iter().map(|row| row.ts)),
        symbols("source", rows.iter().map(|row| Some(row.source))),
        texts("peer", rows.iter().map(|row| Some(row.peer.as_str()))),
        symbols("user_name", rows.iter().map(|_| None)),
        symbols("table_name", rows.iter().map(|row| row.table.as_deref())),
        counts("line", rows.iter().map(|row| row.line)),
        symbols("column_name", rows.iter().map(|row| row.column.as_deref())),
        texts("raw", rows.iter().map(|row| row.raw.as_deref())),
        texts("reason", rows.iter().map(|row| Some(row.reason.as_str()))),
        texts("error_id", rows.iter().map(|row| row.error_id.as_deref())),
    ];
    system_rows::append(TABLE, rows.len(), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_keeps_so_many_rejects_a_second() {
        let now = Instant::now();
        let mut limit = RejectLimit::new(3, now);
        assert_eq!((0..10).filter(|_| limit.allows(now)).count(), 3, "rejects-1");
        assert!(limit.allows(now + Duration::from_secs(1)));
    }
}
