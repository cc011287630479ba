//! Lines that were not taken, kept in a table where people can look at them.
//!
//! - RJ1. Whoever has a bad line never waits for this: what does not fit in the queue, or comes
//!   more often than `ilp.reject_rate`, is only counted.
//! - RJ2. The table is made when there is something to keep, and its rows are rows like any others;
//!   they are kept for `ilp.reject_retention`.
//!
//! Not here: counting (`metrics`), the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_ingest::line::Fault;
use tidegate_model::{ColumnType, PartitionUnit, TimeUnit, Ttl};
use tidegate_platform::sentence;
use tidegate_storage::{
    AppendOptions, BatchColumn, BatchTexts, BatchValues, Database, NewTableOptions, RowBatch,
    TableAppend,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::log::Log;
use crate::metrics::Transport;

/// The table (docs/server.md).
pub(crate) const TABLE: &str = "sys.ilp_rejects";

/// Rows that wait to be written.
const QUEUE: usize = 4_096;
/// How long the first of them waits for others.
const GATHER: Duration = Duration::from_millis(200);
/// Bytes of a line that are kept.
const RAW_BYTES: usize = 1 << 10;
/// Bytes of a reason that are kept.
const REASON_BYTES: usize = 1 << 10;

/// A line that was not taken.
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
    pub(crate) fn of_fault(fault: &Fault, (transport, peer): (Transport, &str), ts: i64) -> Self {
        let raw = String::from_utf8_lossy(&fault.raw);
        let raw = super::shortened(raw.trim_end_matches(['\n', '\r']), RAW_BYTES).to_owned();
        let reason = fault.reason.to_string();
        RejectRow {
            ts,
            source: transport.name(),
            peer: peer.to_owned(),
            table: fault.table.clone(),
            line: Some(fault.line),
            column: fault.column().map(str::to_owned),
            raw: Some(raw),
            reason: super::shortened(&reason, REASON_BYTES).to_owned(),
            error_id: None,
        }
    }
}

/// Where such lines are handed in.
#[derive(Clone, Debug)]
pub(crate) struct Rejects(Sender<RejectRow>);

impl Rejects {
    /// The queue and its end, which `write` takes.
    pub(crate) fn new() -> (Rejects, Receiver<RejectRow>) {
        let (sender, rows) = channel(QUEUE);
        (Rejects(sender), rows)
    }

    /// Keeps a line, if there is room (RJ1).
    pub(crate) fn keep(&self, row: RejectRow) {
        let _ = self.0.try_send(row);
    }
}

/// How many lines of a connection may be kept now.
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

    /// Whether one more may be kept.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        if Duration::from_secs(1) <= now - self.since {
            (self.left, self.since) = (self.per_second, now);
        }
        let is_allowed = 0 < self.left;
        self.left = self.left.saturating_sub(1);
        is_allowed
    }
}

/// Writes what is handed in, until nobody can hand in anything any more.
pub(crate) async fn write(
    mut rows: Receiver<RejectRow>,
    (database, retention): (Arc<Database>, Option<Ttl>),
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
        let outcome = spawn_blocking(move || {
            database.append(&[append(&taken)], &AppendOptions::default())?;
            keep_for(&database, retention)
        });
        if let Ok(Err(error)) = outcome.await {
            let error = sentence(&error);
            log.warn_limited("ilp", format_args!("{count} rejects may not be in {TABLE}: {error}"));
        }
    }
}

/// Sees to it that rows of the table go when they are as old as that (RJ2).
fn keep_for(database: &Database, retention: Option<Ttl>) -> tidegate_storage::Result<()> {
    match database.schema_of(TABLE) {
        Some(schema) if schema.ttl() != retention => database.set_ttl(TABLE, retention),
        _ => Ok(()),
    }
}

/// The rows for the table.
fn append(rows: &[RejectRow]) -> TableAppend {
    let columns = vec![
        BatchColumn {
            name: "ts".to_owned(),
            ty: ColumnType::Timestamp(TimeUnit::Micros),
            values: BatchValues::I64(rows.iter().map(|row| row.ts).collect()),
            validity: None,
        },
        symbols("source", rows, |row| Some(row.source)),
        texts("peer", rows, |row| Some(&row.peer)),
        symbols("user_name", rows, |_| None),
        symbols("table_name", rows, |row| row.table.as_deref()),
        lines(rows),
        symbols("column_name", rows, |row| row.column.as_deref()),
        texts("raw", rows, |row| row.raw.as_deref()),
        texts("reason", rows, |row| Some(&row.reason)),
        texts("error_id", rows, |row| row.error_id.as_deref()),
    ];
    TableAppend {
        table: TABLE.to_owned(),
        create: Some(NewTableOptions {
            designated: "ts".to_owned(),
            partition_by: PartitionUnit::Day,
        }),
        add_columns: true,
        rows: RowBatch::new(rows.len(), columns),
    }
}

fn lines(rows: &[RejectRow]) -> BatchColumn {
    let value =
        |row: &RejectRow| row.line.map_or(0, |line| i64::try_from(line).unwrap_or(i64::MAX));
    BatchColumn {
        name: "line".to_owned(),
        ty: ColumnType::Int64,
        values: BatchValues::I64(rows.iter().map(value).collect()),
        validity: validity(rows.iter().map(|row| row.line.is_some())),
    }
}

fn texts<'a>(
    name: &str,
    rows: &'a [RejectRow],
    value: impl Fn(&'a RejectRow) -> Option<&'a str>,
) -> BatchColumn {
    let mut texts = BatchTexts::default();
    for row in rows {
        texts.push(value(row).unwrap_or_default().as_bytes());
    }
    BatchColumn {
        name: name.to_owned(),
        ty: ColumnType::Varchar,
        values: BatchValues::Texts(texts),
        validity: validity(rows.iter().map(|row| value(row).is_some())),
    }
}

fn symbols<'a>(
    name: &str,
    rows: &'a [RejectRow],
    value: impl Fn(&'a RejectRow) -> Option<&'a str>,
) -> BatchColumn {
    let (mut codes, mut texts) = (Vec::with_capacity(rows.len()), BatchTexts::default());
    let mut known = HashMap::new();
    for row in rows {
        let text = value(row).unwrap_or_default();
        let next = u32::try_from(known.len()).expect("at most one a row of a batch");
        let code = *known.entry(text).or_insert(next);
        if code == next {
            texts.push(text.as_bytes());
        }
        codes.push(code);
    }
    BatchColumn {
        name: name.to_owned(),
        ty: ColumnType::Symbol,
        values: BatchValues::Symbols { codes, texts },
        validity: validity(rows.iter().map(|row| value(row).is_some())),
    }
}

/// A bit for each; `None` if all are set.
fn validity(bits: impl Iterator<Item = bool>) -> Option<Vec<u64>> {
    let (mut words, mut count, mut set) = (Vec::new(), 0_usize, 0_usize);
    for bit in bits {
        if count.is_multiple_of(64) {
            words.push(0_u64);
        }
        if let Some(word) = words.last_mut() {
            *word |= u64::from(bit) << (count % 64);
        }
        count += 1;
        set += usize::from(bit);
    }
    (set < count).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_are_not_valid() {
        assert_eq!(validity([true, true].into_iter()), None);
        assert_eq!(validity([true, false, true].into_iter()), Some(vec![0b101]));
        let bits = (0..65).map(|bit| bit == 64);
        assert_eq!(validity(bits), Some(vec![0, 1]));
    }

    #[test]
    fn rejects_make_a_batch() {
        let row = |table: &str| RejectRow {
            source: "tcp",
            table: Some(table.to_owned()),
            reason: "why".to_owned(),
            ..RejectRow::default()
        };
        let append = append(&[row("a"), row("b"), row("a"), RejectRow::default()]);
        assert_eq!(append.rows.rows(), 4, "BA1");
        let tables = &append.rows.columns()[4];
        let BatchValues::Symbols { codes, texts } = &tables.values else { panic!("symbols") };
        assert_eq!((codes.as_slice(), texts.get(1)), (&[0, 1, 0, 2][..], &b"b"[..]));
        assert_eq!(tables.validity, Some(vec![0b0111]));
    }

    #[test]
    fn a_connection_keeps_so_many_rejects_a_second() {
        let now = Instant::now();
        let mut limit = RejectLimit::new(3, now);
        assert_eq!((0..10).filter(|_| limit.allows(now)).count(), 3, "RJ1");
        assert!(limit.allows(now + Duration::from_secs(1)));
    }
}
